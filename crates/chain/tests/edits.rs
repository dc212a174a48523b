//! Rules, routes and servers that are added to and removed from a chain without its file.

use onefold_chain::{Chain, ChainError, Change, Edit, EditKind, Options, load_edited};
use std::sync::LazyLock;

const CHAIN: &str = "
functions:
  fw:
    firewall:
      rules:
        - deny dst port 23
        - allow tcp
        - allow udp
  router:
    router:
      interfaces:
        - { name: inside, address: 10.0.0.1/8, mac: '02:00:00:00:00:02', gateway-mac: '02:00:00:00:00:01' }
        - { name: outside, address: 192.0.2.1/30, mac: '02:00:00:00:00:03', gateway-mac: '02:00:00:00:00:04' }
      routes:
        - default via 192.0.2.2
        - 10.9.0.0/16 via 10.0.0.7
  lb:
    load-balancer:
      address: 203.0.113.80
      servers:
        - { address: 10.0.0.11 }
        - { address: 10.0.0.12 }
links:
  - fw[1] <-> [0]router[1] <-> [0]lb
ports:
  lan: fw[0]
  wan: lb[1]
";

/// Written once: tests read it side by side.
static FILE: LazyLock<String> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("onefold-edits-{}.yaml", std::process::id()));
    std::fs::write(&path, CHAIN).unwrap();
    path.display().to_string()
});

fn edit(kind: EditKind, add: bool, text: &str) -> Edit {
    Edit {
        kind,
        function: None,
        change: match add {
            true => Change::Add,
            false => Change::Remove,
        },
        text: text.to_string(),
        at: None,
    }
}

fn load(edits: &[Edit]) -> Result<Chain, String> {
    match load_edited(&FILE, &Options::default(), &[], edits) {
        Ok((chain, _)) => Ok(chain),
        Err(ChainError::Invalid(all)) => Err(all.into_iter().map(|d| d.message).collect()),
        Err(e) => Err(e.to_string()),
    }
}

/// The arguments of an element, white space aside.
fn args(chain: &Chain, element: &str) -> Vec<String> {
    let i = chain.graph.find(element).unwrap();
    let words = |a: &String| a.split_whitespace().collect::<Vec<_>>().join(" ");
    chain.graph.elements[i].args.iter().map(words).collect()
}

#[test]
fn rules_are_added_in_front_and_removed_by_text_or_number() {
    let rules = |edits: &[Edit]| load(edits).map(|c| args(&c, "fw/up_rules"));
    let old = rules(&[]).unwrap();
    assert_eq!(
        old,
        ["deny dst port 23", "allow tcp", "allow udp", "deny all"]
    );
    let add = edit(EditKind::Rule, true, "deny  src host 10.0.0.5");
    assert_eq!(
        rules(std::slice::from_ref(&add)).unwrap()[..2],
        ["deny src host 10.0.0.5", "deny dst port 23"]
    );
    let at = |n| Edit {
        at: Some(n),
        ..add.clone()
    };
    assert_eq!(rules(&[at(3)]).unwrap()[2], "deny src host 10.0.0.5");
    // not behind what happens to all others
    assert_eq!(
        rules(&[at(99)]).unwrap()[3..],
        ["deny src host 10.0.0.5", "deny all"]
    );
    let remove = |text: &str| edit(EditKind::Rule, false, text);
    assert_eq!(
        rules(&[remove("allow   tcp")]).unwrap(),
        ["deny dst port 23", "allow udp", "deny all"]
    );
    assert_eq!(rules(&[remove("1")]).unwrap(), old[1..]);
    assert_eq!(rules(&[add.clone(), remove("1")]).unwrap(), old);
    // both ways, and in the list that is shown
    let chain = load(std::slice::from_ref(&add)).unwrap();
    assert_eq!(args(&chain, "fw/down_rules"), args(&chain, "fw/up_rules"));
    let fw = chain.functions.iter().find(|f| f.name == "fw").unwrap();
    assert!(
        fw.rules
            .iter()
            .any(|r| r.text.as_ref() == "deny src host 10.0.0.5")
    );
    for wrong in [
        remove("allow icmp"),
        remove("4"),
        edit(EditKind::Rule, true, "perhaps tcp"),
    ] {
        assert!(rules(std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
    }
    let elsewhere = Edit {
        function: Some("router".to_string()),
        ..add
    };
    assert!(load(&[elsewhere]).unwrap_err().contains("there are: fw"));
}

#[test]
fn routes_replace_those_to_the_same_network() {
    let table = |edits: &[Edit]| {
        let chain = load(edits)?;
        let e = chain
            .graph
            .elements
            .iter()
            .find(|e| e.class.contains("IPLookup") || e.class.contains("IPRoute"));
        Ok::<_, String>(e.unwrap().args.join("\n"))
    };
    let old = table(&[]).unwrap();
    let new = table(&[edit(EditKind::Route, true, "172.16.0.0/12 via 10.0.0.9")]).unwrap();
    assert!(
        new.contains("172.16.0.0/12 10.0.0.9") && !old.contains("172.16"),
        "{new}"
    );
    let new = table(&[edit(EditKind::Route, true, "10.9.0.0/16 via 10.0.0.8")]).unwrap();
    assert!(
        new.contains("10.9.0.0/16 10.0.0.8") && !new.contains("10.0.0.7"),
        "{new}"
    );
    for text in ["10.9.0.0/16", "10.9.0.0/16 via 10.0.0.7"] {
        let new = table(&[edit(EditKind::Route, false, text)]).unwrap();
        assert!(!new.contains("10.9.0.0/16"), "{new}");
    }
    for text in ["10.9.0.0/16 via 10.0.0.6", "10.8.0.0/16"] {
        assert!(table(&[edit(EditKind::Route, false, text)]).is_err());
    }
    assert!(table(&[edit(EditKind::Route, true, "nonsense")]).is_err());
}

#[test]
fn servers_come_and_go() {
    let servers = |edits: &[Edit]| load(edits).map(|c| args(&c, "lb/servers").len());
    let add = |text: &str| edit(EditKind::Backend, true, text);
    let remove = |text: &str| edit(EditKind::Backend, false, text);
    assert_eq!(servers(&[]), Ok(2));
    assert_eq!(
        servers(&[add("10.0.0.13"), add("10.0.0.14 weight 2")]),
        Ok(5)
    );
    assert_eq!(servers(&[add("10.0.0.13"), remove("10.0.0.11")]), Ok(2));
    // a port makes another server of the same address
    let another = add("10.0.0.11:8080");
    let chain = load(std::slice::from_ref(&another)).unwrap();
    assert_eq!(args(&chain, "lb/servers")[2], "- - 10.0.0.11 8080 0 1");
    assert_eq!(servers(&[another, remove("10.0.0.11:8080")]), Ok(2));
    for wrong in [
        add("10.0.0.11"),
        add("nowhere"),
        add("10.0.0.13 weight"),
        add("10.0.0.13:http"),
        remove("10.0.0.11:8080"),
        remove("10.0.0.13"),
    ] {
        assert!(servers(std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
    }
    let all_gone = servers(&[remove("10.0.0.11"), remove("10.0.0.12")]);
    assert!(all_gone.unwrap_err().contains("1 to 1024 servers"));
}

#[test]
fn servers_are_drained_and_resumed() {
    let change = |change, text: &str| Edit {
        change,
        ..edit(EditKind::Backend, true, text)
    };
    let drain = |text: &str| change(Change::Drain, text);
    let resume = |text: &str| change(Change::Resume, text);
    let servers = |edits: &[Edit]| load(edits).map(|c| args(&c, "lb/servers"));
    let both = servers(&[]).unwrap();
    assert_eq!(
        servers(&[drain("10.0.0.12")]).unwrap(),
        ["- - 10.0.0.11 - 0 1"]
    );
    assert_eq!(
        servers(&[drain("10.0.0.12"), resume("10.0.0.12")]).unwrap(),
        both
    );
    // with its weight
    let add = edit(EditKind::Backend, true, "10.0.0.13:80 weight 3");
    let back = [add.clone(), drain("10.0.0.13:80"), resume("10.0.0.13:80")];
    assert_eq!(servers(&back), servers(std::slice::from_ref(&add)));
    let gone = [
        drain("10.0.0.12"),
        edit(EditKind::Backend, false, "10.0.0.12"),
    ];
    assert_eq!(servers(&gone).unwrap().len(), 1);
    for (wrong, why) in [
        (vec![drain("10.0.0.13")], "10.0.0.13 is no server"),
        (vec![drain("10.0.0.11 weight 2")], "keeps its weight"),
        (
            vec![drain("10.0.0.11"), drain("10.0.0.11")],
            "is drained already",
        ),
        (vec![resume("10.0.0.11")], "10.0.0.11 is not drained"),
        (
            vec![drain("10.0.0.11"), drain("10.0.0.12")],
            "all servers are drained",
        ),
    ] {
        let said = servers(&wrong).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    for kind in [EditKind::Rule, EditKind::Route] {
        let e = Edit {
            kind,
            ..drain("10.9.0.0/16")
        };
        let said = servers(&[e]).unwrap_err();
        assert!(said.contains("servers of load balancers"), "{said}");
    }
}
