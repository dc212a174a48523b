//! `onefold explain`, end to end.

use crate::common;

use common::browser::{chromium, rendered};
use common::{json, onefold, root, run, temp};
use onefold_capture::{CaptureReader, CaptureWriter, LinkType};
use onefold_element::ElemId;
use onefold_synth::Program;
use onefold_synth::program::{Action, Dim, End, Filter, Next, Step};
use serde_json::Value;
use std::collections::BTreeSet;

fn class<'a>(v: &'a Value, what: &str, test: impl Fn(&Value) -> bool) -> &'a Value {
    let all = v["classes"].as_array().unwrap();
    all.iter()
        .find(|c| test(c))
        .unwrap_or_else(|| panic!("no class {what}: {v:#}"))
}

fn has(v: &Value, text: &str) -> bool {
    v.to_string().contains(text)
}

/// The chain of the thesis' figure 7.5: three classes beside the exceptions, 18 operations become 5.
#[test]
fn napt_firewall_balancer() {
    let v = json(&root(), 0, &["explain", "napt-fw-lb"]);
    assert_eq!(v["operations"]["before"], 18, "{:#}", v["operations"]);
    // errors and what has no model is the reference graph's
    let levels = |of: &str| v["levels"][of].as_u64().unwrap();
    assert!(
        levels("flow") > 0 && levels("asked") == 0,
        "{}",
        v["levels"]
    );
    assert_eq!(
        levels("reference") > 0,
        !v["punts"].as_array().unwrap().is_empty()
    );
    // what several workers would do with its states
    let scopes: BTreeSet<&str> = (v["states"].as_array().unwrap().iter())
        .filter_map(|s| s["scope"].as_str())
        .collect();
    assert!(scopes.contains("partitioned by flow"), "{:#}", v["states"]);
    assert!(scopes.contains("partitioned by pool"), "{:#}", v["states"]);
    assert_eq!(v["operations"]["after"], 5, "{:#}", v["operations"]);
    let entered = |c: &Value| c["entry"] == "clients";
    let tcp = class(&v, "TCP", |c| entered(c) && c["to"] == "tcp");
    assert!(has(&tcp["filter"], "ip.proto = 6"), "{tcp:#}");
    let udp = class(&v, "UDP", |c| entered(c) && c["to"] == "servers");
    assert_eq!(udp["operations"]["before"], 18);
    assert_eq!(udp["operations"]["after"], 5);
    assert!(has(&udp["filter"], "udp.dport = 1234"), "{udp:#}");
    let does = udp["action"].as_str().unwrap();
    for part in [
        "ip.ttl = ip.ttl - 3",
        "ip.src = 203.0.113.1",
        "IPv4 checksum follows",
        "leaves at servers",
    ] {
        assert!(does.contains(part), "{part}: {does}");
    }
    assert_eq!(does.matches("IPv4 checksum").count(), 1, "{does}");
    // the rule that let it pass, with its place
    let rule = udp["origin"]
        .as_array()
        .unwrap()
        .iter()
        .find(|o| o["argument"] == "allow udp && dst port 1234")
        .expect("the firewall's rule");
    assert!(
        rule["file"].as_str().unwrap().ends_with("fw.click") && rule["line"] == 5,
        "{rule}"
    );
    let denied = class(&v, "other UDP", |c| {
        entered(c) && c["fate"] == "dropped" && has(&c["filter"], "udp.dport != 1234")
    });
    assert!(has(&denied["origin"], "deny all"), "{denied:#}");
    // three classes beside the exceptions
    let exceptions = [
        "CheckIPHeader",
        "DecIPTTL: time to live expired",
        "IPRewriter: not TCP or UDP",
    ];
    let ordinary: Vec<&Value> = v["classes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| entered(c) && c["fate"] != "punted")
        .filter(|c| !exceptions.iter().any(|e| has(&c["action"], e)))
        .collect();
    assert_eq!(ordinary.len(), 3, "{ordinary:#?}");
    for c in [tcp, udp, denied] {
        assert!(ordinary.contains(&c), "{c:#}");
    }
    // dropped at the door: nothing is written before
    let does = denied["action"].as_str().unwrap();
    assert!(!does.contains(" = "), "{does}");
    assert!(v["seconds"].as_f64().unwrap() > 0.0);
    if cfg!(target_os = "linux") {
        assert!(
            v["peak_bytes"].as_u64().unwrap() > 1_000_000,
            "{}",
            v["peak_bytes"]
        );
    }
    // every punt has a cause and a share
    for p in v["punts"].as_array().unwrap() {
        assert!(!p["cause"].as_str().unwrap().is_empty());
        let share = p["share_of_rules"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{p}");
    }
}

/// The program of a chain.
fn program(args: &[&str]) -> Program {
    let (out, _) = run(&root(), 0, &[&["explain"], args, &["--program"]].concat());
    onefold_synth::text::parse(&out).expect("what is printed reads back")
}

/// The class that a sound packet in the middle of everything takes from an entry on to an output.
fn through<'a>(v: &'a Value, entry: &str, to: &str) -> &'a Value {
    class(v, "that goes through", |c| {
        c["entry"] == entry && c["to"] == to && c["fate"] == "leaves"
    })
}

/// Ten routers do to a packet what one does, but for the TTL.
#[test]
fn ten_routers_are_one() {
    let of = |n: &str| {
        let set = format!("n={n}");
        json(&root(), 0, &["explain", "routers-N", "--set", &set])
    };
    let (one, ten) = (of("1"), of("10"));
    for (entry, to) in [("left", "right"), ("right", "left")] {
        let (a, b) = (through(&one, entry, to), through(&ten, entry, to));
        assert_eq!(a["operations"]["after"], 5, "{a:#}");
        for key in ["after", "after_by_kind", "checks_after"] {
            assert_eq!(a["operations"][key], b["operations"][key], "{b:#}");
        }
        let before = |c: &Value| c["operations"]["before"].as_u64().unwrap();
        assert_eq!(before(b), 10 * before(a));
        let (a, b) = (a["action"].as_str().unwrap(), b["action"].as_str().unwrap());
        assert!(a.contains("ip.ttl = ip.ttl - 1;"), "{a}");
        assert!(b.contains("ip.ttl = ip.ttl - 10;"), "{b}");
        assert_eq!(a.matches("checksum").count(), 1, "{a}");
        assert_eq!(b.matches("checksum").count(), 1, "{b}");
        assert_eq!(a.matches(';').count(), b.matches(';').count(), "{a}\n{b}");
    }
    // and the number of stages does not grow
    assert_eq!(
        one["stages"].as_array().unwrap().len(),
        ten["stages"].as_array().unwrap().len()
    );
}

/// Rewriters that are asked on the way of a protocol's packets from an entry to an output, within one epoch.
fn bindings(p: &Program, source: &str, proto: u128) -> Vec<String> {
    let name = |e: &ElemId| p.elements[e.0 as usize].clone();
    let entry = p.entries.iter().find(|e| name(&e.source).contains(source));
    let mut at = entry.expect("the entry").stage;
    let dim = Dim::Bits {
        bit: 14 * 8 + 72,
        bits: 8,
    };
    let mut asked = Vec::new();
    'stages: for _ in 0..100 {
        let stage = &p.stages[at.0 as usize];
        let fits = |f: &Filter| f.get(dim).is_none_or(|s| s.single() == Some(proto));
        let goes_on = |a: &&Action| {
            let binds = a.steps.iter().any(|s| matches!(s, Step::Bind { .. }));
            binds || matches!(a.end, End::Output { .. })
        };
        let mut rules = stage.rules.iter().filter(|r| fits(&r.filter));
        let action = rules
            .find_map(|r| {
                Some(&stage.actions[r.action.0 as usize])
                    .filter(goes_on)
                    .filter(|_| {
                        asked.len() < 100 && (r.filter.get(dim).is_some() || !asked.is_empty())
                    })
            })
            .expect("a way through");
        for s in &action.steps {
            if let Step::Bind {
                elem,
                expect,
                bound,
                ..
            } = s
            {
                asked.push(name(elem));
                if expect.is_none() {
                    // a reply: to the inside
                    let to = bound.iter().rev().find_map(|n| match n {
                        Next::Stage(s) => Some(*s),
                        Next::Unconnected(_) | Next::Never => None,
                    });
                    at = to.expect("a stage behind the binding");
                    assert!(!p.stages[at.0 as usize].fresh);
                    continue 'stages;
                }
            }
        }
        assert!(matches!(action.end, End::Output { .. }), "{:?}", action.end);
        return asked;
    }
    panic!("no way out of the program");
}

/// However many NAPTs: one binding of each, one write, both ways.
#[test]
fn ten_napts_keep_one_binding_each_way() {
    let set = ["napts-N", "--set", "n=10"];
    let p = program(&set);
    for proto in [6, 17] {
        let out = bindings(&p, "nat1/FromDevice@11", proto);
        let expected: Vec<String> = (1..=10).map(|i| format!("nat{i}/rw")).collect();
        assert_eq!(out, expected);
        let source = p.entries.iter().map(|e| &p.elements[e.source.0 as usize]);
        let outside = source.clone().find(|s| s.starts_with("nat10/"));
        let back = bindings(&p, outside.expect("the outside device"), proto);
        let expected: Vec<String> = (1..=10).rev().map(|i| format!("nat{i}/rw")).collect();
        assert_eq!(back, expected);
    }
    let one = json(&root(), 0, &["explain", "napts-N", "--set", "n=1"]);
    let ten = json(&root(), 0, &["explain", "napts-N", "--set", "n=10"]);
    let after = |v: &Value| through(v, "inside", "outside")["operations"]["after"].clone();
    assert_eq!(after(&one), after(&ten));
    let does = through(&ten, "inside", "outside")["action"]
        .as_str()
        .unwrap();
    assert_eq!(
        does.matches("finds or makes the binding").count(),
        10,
        "{does}"
    );
    assert_eq!(does.matches("IPv4 checksum").count(), 1, "{does}");
    // what is not expected of a binding costs stages: their number is bounded by the square, and must not grow again
    let stages = ten["stages"].as_array().unwrap().len();
    assert!(stages <= 600, "{stages} stages");
}

/// A list that is longer than the budget allows is split into stages, which explain says, and the chain behaves as
/// before.
#[test]
fn a_budget_splits_and_says_so() {
    let whole = json(&root(), 0, &["explain", "fw-l3fwd"]);
    assert_eq!(whole["notes"].as_array().unwrap().len(), 0);
    let budget = ["fw-l3fwd", "--stage-rules", "60"];
    let v = json(&root(), 0, &[&["explain"], &budget[..]].concat());
    let split = v["stages"].as_array().unwrap();
    assert!(
        split.len() > whole["stages"].as_array().unwrap().len(),
        "{split:#?}"
    );
    assert!(
        split.iter().any(|s| has(&s["why"], "too long")),
        "{split:#?}"
    );
    assert!(has(&v["notes"], "budget"), "{:#}", v["notes"]);
    let (text, _) = run(&root(), 0, &[&["explain"], &budget[..]].concat());
    assert!(text.contains("the budget"), "{text}");
    let args = [
        &["verify", "--packets", "5000", "-q", "--level", "program"],
        &budget[..],
    ]
    .concat();
    let v = json(&root(), 0, &args);
    assert_eq!(v["differences"], 0, "{v:#}");
    assert_eq!(v["packets"], 5000, "{v:#}");
}

#[test]
fn the_program_reads_back_and_text_names_the_rules() {
    let (out, _) = run(&root(), 0, &["explain", "napt-fw-lb", "--program"]);
    let p = onefold_synth::text::parse(&out).expect("what is printed reads back");
    assert_eq!(onefold_synth::text::print(&p), out);
    assert_eq!(onefold_synth::check::check(&p).violations, []);
    let (out, _) = run(&root(), 0, &["explain", "napt-fw-lb"]);
    for part in [
        "18 become 5",
        "packets that come in at clients",
        "synthesized in 0.",
        "fw.click:5",
        "punted to the reference graph",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let o = onefold(&root(), &["explain", "no-such-chain"]);
    assert_eq!(o.status.code(), Some(2));
}

#[test]
fn the_page_needs_nothing_and_shows_classes() {
    let dir = temp("explain-page");
    let page = dir.join("x.html");
    let file = page.to_str().unwrap();
    run(&root(), 0, &["explain", "napt-fw-lb", "--html", file]);
    let html = std::fs::read_to_string(&page).unwrap();
    for outside in ["src=", "href=", "@import", "url(http", "https://"] {
        assert!(!html.contains(outside), "{outside} in the page");
    }
    let Some(browser) = chromium() else { return };
    let dom = rendered(&browser, &dir, &page, "");
    assert!(dom.contains("class leaves"), "no class is shown");
    assert!(dom.contains("18 \u{2192} 5"), "operations are not shown");
    let dom = rendered(&browser, &dir, &page, "#q=servers%20leaves");
    assert!(dom.contains("class leaves") && !dom.contains("class dropped"));
}

/// Very many classes: paged, searchable.
#[test]
fn many_classes_are_paged() {
    const N: usize = 2000;
    let dir = temp("explain-many");
    let mut click = String::from("c :: Classifier(");
    for i in 0..N {
        click += &format!("12/{:04x}, ", i + 0x1000);
    }
    click += "-);\nFromDevice(in) -> c;\nout :: ToDevice(out);\n";
    for i in 0..N {
        click +=
            &format!("c[{i}] -> EtherEncap({i}, 02:00:00:00:00:01, 02:00:00:00:00:02) -> out;\n");
    }
    click += &format!("c[{N}] -> Discard;\n");
    std::fs::write(dir.join("many.click"), click).unwrap();
    let v = json(&dir, 0, &["explain", "many.click", "--html", "many.html"]);
    assert!(
        v["classes"].as_array().unwrap().len() > N,
        "{}",
        v["stages"]
    );
    let Some(browser) = chromium() else { return };
    let page = dir.join("many.html");
    let dom = rendered(&browser, &dir, &page, "");
    assert!(dom.contains("1 / 4"), "pages");
    assert_eq!(dom.matches("<article").count(), 50, "classes on a page");
    let dom = rendered(&browser, &dir, &page, "#q=eth.type%20=%200x17ce");
    assert_eq!(dom.matches("<article").count(), 1, "found classes");
}

/// What never comes into the program is said.
#[test]
fn packets_that_the_reference_graph_takes_whole() {
    let dir = temp("whole");
    let text = "tun :: KernelTun(10.9.9.1/24) -> Discard; FromDevice(lan) -> tun; TimedSource(1) -> Discard; Idle -> Discard;";
    std::fs::write(dir.join("tun.click"), text).unwrap();
    let (out, _) = run(&dir, 0, &["explain", "tun.click"]);
    for part in [
        "(KernelTun): the reference graph takes them whole",
        "(TimedSource): the reference graph",
        "leaves at tun",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let v = json(&dir, 0, &["explain", "tun.click"]);
    let whole = v["whole"].as_array().unwrap();
    let classes: Vec<&str> = whole.iter().filter_map(|w| w["class"].as_str()).collect();
    assert_eq!(classes, ["KernelTun", "TimedSource"]);
}

/// An IPv4 packet with UDP from one place to another, in a frame.
fn udp_frame(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0];
    p.extend([from.0, to.0].concat());
    let words = p
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend([from.1.to_be_bytes(), to.1.to_be_bytes(), [0, 8], [0, 0]].concat());
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    f.extend(p);
    f
}

/// Replies leave a class by the binding that they have, before its end: what is said of such a class is where they go.
#[test]
fn classes_of_replies_go_on() {
    let dir = temp("classes-of-replies");
    let chain = "functions: { nat: { nat: { pool: 203.0.113.1 } } }\nports: { inside: \"nat[0]\", outside: \"nat[1]\" }\n";
    std::fs::write(dir.join("nat.yaml"), chain).unwrap();
    let v = json(&dir, 0, &["explain", "nat.yaml"]);
    let replies = class(&v, "of replies", |c| {
        has(&c["action"], "goes on as the binding says")
    });
    assert_eq!(replies["fate"], "goes on", "{replies:#}");
    assert!(has(&replies["to"], "stage "), "{replies:#}");
    let (host, server, own) = ([10, 0, 0, 5], [198, 51, 100, 7], [203, 0, 113, 1]);
    let capture = |name: &str, at: i64, frame: &[u8]| {
        let mut w = CaptureWriter::create_for(dir.join(name), LinkType::ETHERNET).unwrap();
        w.write(at, frame, frame.len() as u32).unwrap();
        w.finish().unwrap();
    };
    capture("in.pcap", 0, &udp_frame((host, 3000), (server, 53)));
    // which port is the flow's? A second run with the same seed chooses the same
    let inputs = ["--in", "inside=in.pcap", "--out", "outside=seen.pcap"];
    json(&dir, 0, &[&["run", "nat.yaml"], &inputs[..]].concat());
    let mut seen = Vec::new();
    let mut reader = CaptureReader::open(dir.join("seen.pcap")).unwrap();
    reader.next_into(&mut seen).unwrap().unwrap();
    let port = u16::from_be_bytes([seen[34], seen[35]]);
    let reply = udp_frame((server, 53), (own, port));
    capture("out.pcap", 1_000_000, &reply);
    let inputs = ["--in", "inside=in.pcap", "--in", "outside=out.pcap"];
    let v = json(&dir, 0, &[&["run", "nat.yaml"], &inputs[..]].concat());
    assert_eq!(v["packets_out"], 2, "{v:#}");
    let ends: Vec<&str> = (v["classes"].as_array().unwrap().iter())
        .filter_map(|c| c["end"].as_str())
        .collect();
    assert!(
        ends.iter()
            .any(|e| e.starts_with("goes on by its binding of nat/rw: stage ")),
        "{ends:?}"
    );
    assert!(!ends.iter().any(|e| e.contains("unreachable")), "{ends:?}");
}
