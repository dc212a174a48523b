//! Chain files to stitched graphs, and what is wrong with bad ones.

use onefold_chain::{Chain, ChainError, Reader, load_text};
use std::path::Path;

fn load(text: &str) -> Result<Chain, Vec<String>> {
    let mut reader = Reader::new(Path::new("."));
    load_text(text, "t/chain.yaml", &[], &mut reader).map_err(|e| match e {
        ChainError::Invalid(ds) => ds.iter().map(|d| d.to_string()).collect(),
        other => vec![other.to_string()],
    })
}

fn errors(text: &str) -> String {
    load(text).expect_err("must be refused").join("\n")
}

const TWO: &str = r#"
parameters:
  id: { default: 7 }
functions:
  a:
    vlan: { id: $(id) }
  b:
    monitor: {}
links:
  - a[1] <-> [0]b
ports:
  left: a[0]
  right: b[1]
"#;

#[test]
fn device_pairs_between_functions_disappear() {
    let c = load(TWO).unwrap();
    let classes: Vec<(&str, &str)> = c
        .graph
        .elements
        .iter()
        .map(|e| (e.name.split('/').next().unwrap(), e.class.as_str()))
        .collect();
    let count = |nf: &str, class: &str| classes.iter().filter(|x| **x == (nf, class)).count();
    assert_eq!(count("a", "FromDevice"), 1);
    assert_eq!(count("a", "ToDevice"), 1);
    assert_eq!(count("a", "NFLink"), 1);
    assert_eq!(count("b", "FromDevice"), 1);
    assert_eq!(count("b", "NFLink"), 1);
    assert_eq!(c.ports.len(), 2);
    assert!(
        c.ports
            .iter()
            .all(|p| p.source.is_some() && p.sinks.len() == 1)
    );
    // the link leads from a's NFLink to what b's device fed
    let link = c
        .graph
        .elements
        .iter()
        .position(|e| e.class == "NFLink" && e.name.starts_with("a/"))
        .unwrap();
    let to = c
        .graph
        .connections
        .iter()
        .find(|x| x.from.0 == link)
        .unwrap()
        .to
        .0;
    assert_eq!(c.graph.elements[to].class, "Counter");
    let encap = c
        .graph
        .elements
        .iter()
        .find(|e| e.class == "VLANEncap")
        .unwrap();
    assert_eq!(encap.args[0], "VLAN_ID 7");
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let e = errors(
        r#"
functions:
  a:
    vlan: { id: 5000 }
  b:
    monitor: {}
  c: {}
links:
  - a[1] -> [0]x
  - a[7] -> [0]b
  - a[1 -> b
ports:
  left: a[0]
"#,
    );
    for want in [
        "t/chain.yaml:4:17: error: a: VLAN id 5000 out of range",
        "function 'c' has no kind",
        "expected a port",
    ] {
        assert!(e.contains(want), "missing '{want}' in\n{e}");
    }
}

#[test]
fn unknown_ports_dangling_ports_and_loops() {
    let e = errors(
        &TWO.replace("a[1] <-> [0]b", "a[1] <-> [3]b")
            .replace("right: b[1]", "right: bb[1]"),
    );
    assert!(e.contains("'b' has no port 3"), "{e}");
    assert!(e.contains("it has 0 (0), 1 (1)"), "{e}");
    assert!(e.contains("no function named 'bb'"), "{e}");
    assert!(e.contains("dangling port b[1]"), "{e}");

    let e = errors(
        r#"
functions:
  a: { monitor: {} }
  b: { monitor: {} }
links:
  - a[1] -> [0]b
  - b[1] -> [0]a
ports:
  p: { out: "a[0]" }
  q: { out: "b[0]" }
"#,
    );
    assert!(
        e.contains("closes a loop between network functions: a, b"),
        "{e}"
    );
}

#[test]
fn yaml_mistakes_have_places() {
    let e = errors("functions:\n  a: { monitr: {} }\nports: {}\n");
    assert!(e.contains("t/chain.yaml:2:"), "{e}");
    assert!(e.contains("monitr"), "{e}");
    let e = errors("functions: [\n");
    assert!(e.starts_with("t/chain.yaml:"), "{e}");
}

#[test]
fn parameters() {
    let mut reader = Reader::new(Path::new("."));
    let set = [("idd".to_string(), "3".to_string())];
    let Err(ChainError::Invalid(ds)) = load_text(TWO, "t/chain.yaml", &set, &mut reader) else {
        panic!()
    };
    assert!(
        ds[0].to_string().contains("no parameter 'idd'"),
        "{}",
        ds[0]
    );
    assert!(errors(&TWO.replace("$(id)", "$(idx)")).contains("$(idx)"));
}

#[test]
fn repeated_functions_are_linked_in_a_row() {
    let c = load(
        r#"
functions:
  m:
    repeat: 3
    link: "[1] <-> [0]"
    vlan: { id: $(i) }
ports:
  left: m1[0]
  right: m3[1]
"#,
    )
    .unwrap();
    assert_eq!(
        c.functions
            .iter()
            .map(|f| f.name.as_str())
            .collect::<Vec<_>>(),
        ["m1", "m2", "m3"]
    );
    let ids: Vec<&str> = c
        .graph
        .elements
        .iter()
        .filter(|e| e.class == "VLANEncap")
        .map(|e| e.args[0].as_str())
        .collect();
    assert_eq!(ids, ["VLAN_ID 1", "VLAN_ID 2", "VLAN_ID 3"]);
}

#[test]
fn rules_know_their_lines() {
    let c = load(
        r#"
functions:
  fw:
    firewall:
      rules:
        - allow src net 10.0.0.0/8 && tcp
        - deny udp
ports:
  in: fw[0]
  out: fw[1]
"#,
    )
    .unwrap();
    let f = c
        .graph
        .elements
        .iter()
        .find(|e| e.class == "IPFilter")
        .unwrap();
    assert_eq!(
        f.args,
        ["allow src net 10.0.0.0/8 && tcp", "deny udp", "deny all"]
    );
    let lines: Vec<u32> = f.arg_locs.iter().map(|l| l.line).collect();
    assert_eq!(&lines[..2], [6, 7]);
    assert_eq!(f.arg_locs[0].file.as_ref(), "t/chain.yaml");
}

#[test]
fn a_router_with_routes() {
    let c = load(
        r#"
functions:
  r:
    router:
      interfaces:
        - { address: 10.0.0.1/24, mac: "02:00:00:00:00:01" }
        - { name: wan, address: 192.0.2.1/24, mac: "02:00:00:00:00:02", gateway-mac: "02:00:00:00:00:99" }
      routes:
        - default via 192.0.2.254
        - 10.9.0.0/16 via 10.0.0.9
        - 10.8.0.0/16 dev wan
ports:
  lan: r[0]
  wan: r[1]
"#,
    )
    .unwrap();
    let rt = c
        .graph
        .elements
        .iter()
        .find(|e| e.class == "RadixIPLookup")
        .unwrap();
    for want in [
        "0.0.0.0/0 192.0.2.254 2",
        "10.9.0.0/16 10.0.0.9 1",
        // not on the interface's own network: by the output whose packets are no reason for redirects
        "10.8.0.0/16 4",
        "10.0.0.1/32 0",
    ] {
        assert!(
            rt.args.iter().any(|a| a == want),
            "{want} not in {:?}",
            rt.args
        );
    }
    assert!(c.graph.elements.iter().any(|e| e.class == "ARPQuerier"));
    let e = errors(
        r#"
functions:
  r:
    router:
      interfaces:
        - { address: 10.0.0.1/24, mac: "02:00:00:00:00:01" }
      routes: [ 10.9.0.0/16 via 10.7.0.9, "10.0.0.0/8 nexthop x" ]
ports: { lan: "r[0]" }
"#,
    );
    assert!(
        e.contains("on no interface's network") && e.contains("'x' in a route is not supported"),
        "{e}"
    );
}

/// A Click configuration as a function `f` whose devices are ports `a` and `b`.
fn with_click(config: &str) -> String {
    let config = config.replace('\n', "\n        ");
    format!(
        "functions:\n  f:\n    click:\n      config: |\n        {config}\nports:\n  a: f[0]\n  b: f[1]\n"
    )
}

fn class_of<'a>(c: &'a Chain, name: &str) -> &'a str {
    let found = c.graph.elements.iter().find(|e| e.name == name);
    found.map_or("", |e| e.class.as_str())
}

#[test]
fn queues_of_one_device_are_one_port() {
    let text = "q1 :: FromDPDKDevice(0, QUEUE 1) -> o :: ToDPDKDevice(1); q0 :: FromDPDKDevice(0, 0) -> o; \
                in :: FromDPDKDevice(1) -> ToDPDKDevice(0);";
    let c = load(&with_click(text)).unwrap();
    assert_eq!(
        (class_of(&c, "f/q0"), class_of(&c, "f/q1")),
        ("FromDPDKDevice", "Idle")
    );
    let source = c.ports[0].source.unwrap();
    assert_eq!(c.graph.elements[source].name, "f/q0");
    let said: Vec<String> = c.warnings.iter().map(|d| d.to_string()).collect();
    assert!(
        said.iter()
            .any(|w| w.contains("device '0' enter through queue 0, the other 1 are empty")),
        "{said:?}"
    );
    // who reads the same queue, or any, is one too many
    for wrong in ["FromDPDKDevice(0, QUEUE 0)", "FromDPDKDevice(0)"] {
        let e = errors(&with_click(
            &text.replace("FromDPDKDevice(0, QUEUE 1)", wrong),
        ));
        assert!(
            e.contains("two elements read from device '0'") && e.contains("QUEUE 0"),
            "{e}"
        );
    }
}

#[test]
fn rings_are_ports() {
    let text = "FromDPDKRing(MEM_POOL 1, FROM_PROC rx, TO_PROC main) -> Counter \
                -> ToDPDKRing(MEM_POOL 2, FROM_PROC tx, TO_PROC main);";
    let c = load(&with_click(text)).unwrap();
    assert_eq!(c.functions[0].ports, ["rx", "tx"]);
    assert!(c.ports[0].source.is_some() && c.ports[0].sinks.is_empty());
    assert!(c.ports[1].source.is_none() && c.ports[1].sinks.len() == 1);
}
