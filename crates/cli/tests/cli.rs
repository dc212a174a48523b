//! The command line, end to end.

use crate::common;

use common::{json, onefold, root, run, temp};

/// A firewall and a NAT, and the example of the README.
const CHAIN: &str = r#"
description: a firewall in front of a NAT
functions:
  fw:
    firewall:
      rules:
        - allow src net 10.0.0.0/8 && tcp && (dst port 80 or 443)
        - allow src net 10.0.0.0/8 && udp && dst port 53
        - deny all
      back: allow
  nat:
    nat: { pool: 203.0.113.1 }
links:
  - fw[1] <-> [0]nat
ports:
  lan: fw[0]
  wan: nat[1]
"#;

/// The function, what happened, and where it was written: the same words at every level.
#[test]
fn drops_are_told_with_function_reason_and_place() {
    let dir = temp("words");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    json(&dir, 0, &["gen", "--out", "wan.pcap", "--packets", "50"]);
    let args = ["run", "chain.yaml", "--in", "wan=wan.pcap", "-q", "--mode"];
    let why = "no mapping for this inbound packet";
    let told = ["reference", "synthesized"].map(|mode| {
        let r = json(&dir, 0, &[&args[..], &[mode]].concat());
        (r["drops"].clone(), r["drops_by_element"].clone())
    });
    assert_eq!(told[0], told[1]);
    // some of what is generated is ICMP
    let packets = told[0].0[why].as_u64().unwrap();
    assert!(packets > 40, "{told:?}");
    let most = serde_json::json!({ "nf": "nat", "element": "nat/rw", "reason": why, "packets": packets,
        "file": "chain.yaml", "line": 12 });
    assert_eq!(told[0].1[0], most);
    let (text, _) = run(&dir, 0, &[&args[..5], &["--html", "page.html"]].concat());
    let page = std::fs::read_to_string(dir.join("page.html")).unwrap();
    assert!(
        text.contains(&format!("nat: {why}  (nat/rw, chain.yaml:12)")),
        "{text}"
    );
    assert!(page.contains(&format!("nat: {why}<td>nat/rw, chain.yaml:12")));
}

#[test]
fn there_and_back_again_through_a_nat() {
    let dir = temp("roundtrip");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "lan.pcap",
            "--packets",
            "20000",
            "--flows",
            "500",
            "--dport",
            "80,443,53,25",
        ],
    );
    let one = json(
        &dir,
        0,
        &[
            "run",
            "chain.yaml",
            "--in",
            "lan=lan.pcap",
            "--out",
            "wan=seen.pcap",
            "-q",
        ],
    );
    assert_eq!(one["packets_in"], 20000);
    assert_eq!(one["conserved"], true);
    let sent = one["packets_out"].as_u64().unwrap();
    let dropped: u64 = one["drops"]
        .as_object()
        .unwrap()
        .values()
        .map(|v| v.as_u64().unwrap())
        .sum();
    assert!(sent > 5000 && dropped > 2000, "{one}");
    assert_eq!(
        sent + dropped + one["held"].as_u64().unwrap(),
        20000 + one["created"].as_u64().unwrap()
    );

    json(
        &dir,
        0,
        &["gen", "--answers-to", "seen.pcap", "--out", "wan.pcap"],
    );
    let args = [
        "run",
        "chain.yaml",
        "--in",
        "lan=lan.pcap",
        "--in",
        "wan=wan.pcap",
        "--out",
        "lan=back.pcapng",
        "-q",
    ];
    let both = json(&dir, 0, &args);
    assert_eq!(both["ports"]["wan"]["in"]["packets"].as_u64(), Some(sent));
    // every answer finds its way back through the binding that its packet made
    assert_eq!(
        both["ports"]["lan"]["out"]["packets"].as_u64(),
        Some(sent),
        "{both}"
    );
    let answers: Vec<_> = onefold_capture::CaptureReader::open(dir.join("back.pcapng"))
        .unwrap()
        .collect();
    for a in answers.iter().take(500) {
        let f = a.as_ref().unwrap();
        let p = etherparse::SlicedPacket::from_ethernet(&f.data).unwrap();
        let Some(etherparse::NetSlice::Ipv4(ip)) = &p.net else {
            panic!("not IPv4")
        };
        assert_eq!(ip.header().destination()[0], 10, "to an inside address");
        assert_eq!(
            ip.header().to_header().calc_header_checksum(),
            ip.header().header_checksum()
        );
    }
}

#[test]
fn batches_give_the_same_as_packet_by_packet() {
    let dir = temp("batch");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "lan.pcap",
            "--packets",
            "5000",
            "--flows",
            "300",
            "--exceptions",
            "0.05",
        ],
    );
    let mut results = Vec::new();
    for batch in ["1", "64"] {
        let out = format!("wan=out{batch}.pcap");
        let args = [
            "run",
            "chain.yaml",
            "--in",
            "lan=lan.pcap",
            "--out",
            &out,
            "--batch",
            batch,
            "-q",
        ];
        let r = json(&dir, 0, &args);
        // the order across flows is free within a batch
        let reader =
            onefold_capture::CaptureReader::open(dir.join(format!("out{batch}.pcap"))).unwrap();
        let mut frames: Vec<Vec<u8>> = reader.map(|f| f.unwrap().data).collect();
        frames.sort();
        results.push((r["drops"].clone(), r["packets_out"].clone(), frames));
    }
    assert!(results[0] == results[1], "scalar and batched runs differ");
}

#[test]
fn a_trace_names_the_rule() {
    let dir = temp("trace");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "lan.pcap",
            "--packets",
            "50",
            "--flows",
            "5",
            "--dport",
            "25",
            "--protocols",
            "tcp=100",
        ],
    );
    let t = json(&dir, 0, &["trace", "chain.yaml", "--in", "lan=lan.pcap#3"]);
    let steps = t["steps"].as_array().unwrap();
    let rule = steps
        .iter()
        .find(|s| s["class"] == "IPFilter")
        .expect("the firewall's filter");
    assert_eq!(rule["nf"], "fw");
    assert_eq!(rule["file"].as_str().unwrap(), "chain.yaml");
    assert_eq!(rule["line"], 9, "line of 'deny all': {rule}");
    assert!(t["outputs"].as_array().unwrap().is_empty());
    let (text, _) = run(&dir, 0, &["trace", "chain.yaml", "--in", "lan=lan.pcap#3"]);
    assert!(text.contains("chain.yaml:9:"), "{text}");
    let (_, err) = run(&dir, 2, &["trace", "chain.yaml", "--in", "lan=lan.pcap#51"]);
    assert!(err.contains("has only 50 packets"), "{err}");
    let hex = json(
        &dir,
        0,
        &[
            "trace",
            "chain.yaml",
            "--hex",
            "lan=ffffffffffff0200000000010806",
        ],
    );
    assert!(!hex["steps"].as_array().unwrap().is_empty());
}

#[test]
fn mistakes_have_places_and_status_2() {
    let dir = temp("mistakes");
    let bad = CHAIN
        .replace("pool: 203.0.113.1", "pol: 203.0.113.1")
        .replace("fw[1] <-> [0]nat", "fw[3] <-> [0]nat");
    std::fs::write(dir.join("bad.yaml"), bad).unwrap();
    let j = json(&dir, 2, &["check", "bad.yaml"]);
    assert_eq!(j["ok"], false);
    let d = &j["diagnostics"][0];
    assert_eq!(
        (
            d["severity"].as_str(),
            d["file"].as_str(),
            d["line"].as_u64()
        ),
        (Some("error"), Some("bad.yaml"), Some(12))
    );
    assert!(d["message"].as_str().unwrap().contains("pol"), "{d}");
    std::fs::write(dir.join("good.yaml"), CHAIN).unwrap();
    let j = json(&dir, 0, &["check", "good.yaml"]);
    assert_eq!(
        (j["ok"].as_bool(), j["diagnostics"].as_array().map(Vec::len)),
        (Some(true), Some(0))
    );
    let (_, err) = run(&dir, 2, &["run", "good.yaml", "--in", "lna=x.pcap"]);
    assert!(err.contains("x.pcap") || err.contains("lna"), "{err}");
    let (_, err) = run(&dir, 2, &["check", "no-such-chain"]);
    assert!(err.contains("isp-edge"), "examples are suggested: {err}");
    let (_, err) = run(&dir, 2, &["check", "good.yaml", "--set", "x=1"]);
    assert!(err.contains("no parameter 'x'"), "{err}");
    run(&dir, 2, &["frobnicate"]);
}

/// A rewriter's table never holds more than 4,194,304 flows: who asks for more is told, with the place.
#[test]
fn a_capacity_beyond_the_bound_is_told() {
    let dir = temp("capacity");
    let click = "FromDevice(in) -> Strip(14) -> CheckIPHeader\n  -> IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 0,\n    \
                 MAPPING_CAPACITY 5000000) -> Unstrip(14) -> ToDevice(in);\n";
    std::fs::write(dir.join("c.click"), click).unwrap();
    let j = json(&dir, 0, &["check", "c.click"]);
    let d = &j["diagnostics"][0];
    let place = (d["file"].as_str(), d["line"].as_u64(), d["column"].as_u64());
    assert_eq!(place, (Some("c.click"), Some(3), Some(5)), "{d}");
    assert_eq!(d["severity"], "warning");
    let text = "5000000: a table never holds more than 4194304 mappings";
    assert!(d["message"].as_str().unwrap().contains(text), "{d}");
    let (_, err) = run(&dir, 0, &["verify", "c.click", "--packets", "1"]);
    assert!(err.contains(text) && err.contains("c.click:3:5"), "{err}");
    let chain = CHAIN.replace("pool: 203.0.113.1", "capacity: 5000000, pool: 203.0.113.1");
    std::fs::write(dir.join("c.yaml"), chain).unwrap();
    let j = json(&dir, 2, &["check", "c.yaml"]);
    let d = &j["diagnostics"][0];
    assert_eq!(d["severity"], "error");
    assert!(d["line"].as_u64().is_some_and(|l| l > 1), "{d}");
    let text = "capacity 5000000 out of range, at most 4194304 flows";
    assert!(d["message"].as_str().unwrap().contains(text), "{d}");
}

#[test]
fn pages_are_self_contained() {
    let dir = temp("pages");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "lan.pcap",
            "--packets",
            "1000",
            "--flows",
            "50",
        ],
    );
    run(
        &dir,
        0,
        &[
            "run",
            "chain.yaml",
            "--in",
            "lan=lan.pcap",
            "--html",
            "run.html",
            "-q",
        ],
    );
    run(&dir, 0, &["show", "chain.yaml", "--html", "graph.html"]);
    for (file, wants) in [
        ("run.html", vec!["Drops by reason", "IPFilter"]),
        ("graph.html", vec!["IPRewriter", "NFLink"]),
    ] {
        let page = std::fs::read_to_string(dir.join(file)).unwrap();
        for w in wants {
            assert!(page.contains(w), "{file}: {w}");
        }
        assert!(
            !page.contains("src=\"http") && !page.contains("href=\"http"),
            "{file} loads something"
        );
    }
}

#[test]
fn shows_schemas_completions_and_click() {
    let dir = temp("show");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    let j = json(&dir, 0, &["show", "chain.yaml"]);
    assert!(j["nodes"].as_array().unwrap().len() > 20 && j["edges"].as_array().unwrap().len() > 20);
    // what --click prints is a configuration again
    let (click, _) = run(&dir, 0, &["show", "chain.yaml", "--click"]);
    std::fs::write(dir.join("flat.click"), &click).unwrap();
    let (flat, _) = run(&dir, 0, &["click", "--flatten", "flat.click"]);
    assert!(flat.contains("fw/up_rules :: IPFilter"), "{flat}");
    let (own, _) = run(&dir, 0, &["show", "chain.yaml", "--function", "nat"]);
    assert!(own.contains("IPRewriter("), "{own}");
    let (schema, _) = run(&dir, 0, &["schema"]);
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["functions"].is_object());
    let (c, _) = run(&dir, 0, &["completions", "bash"]);
    assert!(c.contains("onefold"));
    let (_, printed) = run(
        &dir,
        0,
        &[
            "click",
            "-e",
            "InfiniteSource(LIMIT 2, STOP true) -> Print(x) -> Discard",
        ],
    );
    assert_eq!(printed.matches("x: ").count(), 2, "{printed}");
    let (list, _) = run(&root(), 0, &["show", "--list"]);
    assert!(list.contains("napt-fw-lb"), "{list}");
}

#[test]
fn damaged_captures_are_used_as_far_as_they_go() {
    let dir = temp("damaged");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "lan.pcap",
            "--packets",
            "100",
            "--flows",
            "5",
        ],
    );
    let mut bytes = std::fs::read(dir.join("lan.pcap")).unwrap();
    bytes.truncate(bytes.len() - 7);
    std::fs::write(dir.join("cut.pcap"), bytes).unwrap();
    let r = json(
        &dir,
        0,
        &["run", "chain.yaml", "--in", "lan=cut.pcap", "-q"],
    );
    assert_eq!(r["packets_in"], 99);
    assert_eq!(r["warnings"].as_array().unwrap().len(), 1);
    std::fs::write(dir.join("not.pcap"), b"hello").unwrap();
    assert_eq!(
        onefold(&dir, &["run", "chain.yaml", "--in", "lan=not.pcap"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn a_click_configuration_is_a_chain_whose_ports_are_its_devices() {
    let dir = temp("click");
    let text =
        "FromDevice(eth0) -> c :: Counter -> ToDevice(eth1);\nFromDevice(eth1) -> Discard;\n";
    std::fs::write(dir.join("two.click"), text).unwrap();
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "in.pcap",
            "--packets",
            "100",
            "--flows",
            "5",
        ],
    );
    let r = json(
        &dir,
        0,
        &[
            "run",
            "two.click",
            "--in",
            "eth0=in.pcap",
            "--out",
            "eth1=out.pcap",
            "-q",
        ],
    );
    assert_eq!(r["ports"]["eth1"]["out"]["packets"], 100);
    let (_, err) = run(&dir, 2, &["run", "two.click", "--in", "eth7=in.pcap"]);
    assert!(err.contains("packets enter at: eth0, eth1"), "{err}");
    // a virtual device is both in one element: what enters does not leave unless the graph says so
    let text = "tap :: KernelTap(10.0.0.1/8) -> c :: Counter -> q :: Queue -> tap;\n";
    std::fs::write(dir.join("tap.click"), text).unwrap();
    let args = [
        "run",
        "tap.click",
        "--in",
        "tap=in.pcap",
        "--out",
        "tap=back.pcap",
        "-q",
    ];
    let r = json(&dir, 0, &args);
    assert_eq!(
        (&r["packets_in"], &r["packets_out"]),
        (&100.into(), &100.into())
    );
    let text = "tap :: KernelTap(10.0.0.1/8) -> Discard; Idle -> tap;\n";
    std::fs::write(dir.join("tap.click"), text).unwrap();
    let r = json(&dir, 0, &args);
    assert_eq!(
        (&r["packets_out"], &r["drops"]["Discard"]),
        (&0.into(), &100.into())
    );
    // it cannot give way to a link
    let chain = "functions:\n  a: { click: tap.click, ports: [tap] }\n  b: { click: tap.click, ports: [tap] }\nlinks: [ 'a[0] -> [0]b' ]\nports: { x: { in: 'a[0]' }, y: { out: 'b[0]' } }\n";
    std::fs::write(dir.join("tap.yaml"), chain).unwrap();
    let (_, err) = run(&dir, 2, &["check", "tap.yaml"]);
    assert!(err.contains("not a link"), "{err}");
}

/// One-to-one NAT, both ways from either side; and a pool whose addresses are all used.
#[test]
fn nat_pools_and_pairs() {
    let dir = temp("nat");
    let chain = |nat: &str| {
        format!(
            "functions:\n  nat: {{ nat: {{ {nat} }} }}\nports: {{ inside: \"nat[0]\", outside: \"nat[1]\" }}\n"
        )
    };
    let sources = |file: &str| -> std::collections::BTreeSet<[u8; 4]> {
        let frames = onefold_capture::CaptureReader::open(dir.join(file)).unwrap();
        frames
            .map(|f| {
                match etherparse::SlicedPacket::from_ethernet(&f.unwrap().data)
                    .unwrap()
                    .net
                {
                    Some(etherparse::NetSlice::Ipv4(ip)) => ip.header().source(),
                    _ => panic!("not IPv4"),
                }
            })
            .collect()
    };
    std::fs::write(
        dir.join("pool.yaml"),
        chain("pool: 203.0.113.1-203.0.113.4"),
    )
    .unwrap();
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "in.pcap",
            "--packets",
            "400",
            "--flows",
            "40",
            "--protocols",
            "udp=100",
        ],
    );
    json(
        &dir,
        0,
        &[
            "run",
            "pool.yaml",
            "--in",
            "inside=in.pcap",
            "--out",
            "outside=o.pcap",
            "-q",
        ],
    );
    let want: std::collections::BTreeSet<[u8; 4]> = (1..=4).map(|i| [203, 0, 113, i]).collect();
    assert_eq!(sources("o.pcap"), want);

    std::fs::write(
        dir.join("pair.yaml"),
        chain("one-to-one: [ \"10.0.0.5 = 203.0.113.5\" ]"),
    )
    .unwrap();
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "out.pcap",
            "--packets",
            "100",
            "--flows",
            "10",
            "--src",
            "198.18.0.0/16",
            "--dst",
            "203.0.113.5",
            "--protocols",
            "tcp=50,icmp=50",
        ],
    );
    let r = json(
        &dir,
        0,
        &[
            "run",
            "pair.yaml",
            "--in",
            "outside=out.pcap",
            "--out",
            "inside=to.pcap",
            "-q",
        ],
    );
    assert_eq!(r["ports"]["inside"]["out"]["packets"], 100, "{r}");
    json(
        &dir,
        0,
        &["gen", "--answers-to", "to.pcap", "--out", "back.pcap"],
    );
    let r = json(
        &dir,
        0,
        &[
            "run",
            "pair.yaml",
            "--in",
            "inside=back.pcap",
            "--out",
            "outside=b.pcap",
            "-q",
        ],
    );
    assert!(r["packets_out"].as_u64().unwrap() > 0);
    assert_eq!(sources("b.pcap"), [[203, 0, 113, 5]].into());
}
