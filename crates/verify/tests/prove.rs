//! Programs proved to be their chain, and broken ones found out.

use crate::small;

use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_synth::{Budget, Program, synthesize, text};
use onefold_verify::prove::{Options, Proof, prove, witness};
use small::{FIREWALL, NAT, graph, ports};
use std::path::Path;
use std::time::Duration;

fn made(g: &Graph) -> String {
    text::print(&synthesize(&g.synthesis_input(), Budget::default()))
}

fn judged(g: &Graph, written: &str) -> (Program, Proof) {
    let p = text::parse(written).unwrap_or_else(|e| panic!("{e:?}\n{written}"));
    let options = Options {
        time_limit: Some(Duration::from_secs(300)),
        ..Options::default()
    };
    let proof = prove(&g.synthesis_input(), &p, &options);
    (p, proof)
}

/// Are there packets that show a difference?
fn shown(g: &Graph, p: &Program, proof: &Proof) -> bool {
    ProgramRunner::with_program(g.fork(), p).unwrap();
    let alone = proof.different.iter().any(|d| {
        // models and program contradict each other for this frame: that is enough
        if d.certain.is_some() {
            return true;
        }
        let at = Timestamp::from_secs(1000);
        let seen = |f: &Vec<u8>| witness::confirm(g, p, d.source, f, at).unwrap().is_some();
        d.frames.iter().any(seen)
    });
    let ports = ports(g);
    let found = || witness::campaign(g, p, &ports, &MANY, &mut |_| true).unwrap();
    alone || found().is_some()
}

#[test]
fn small_chains() {
    for t in [FIREWALL, NAT] {
        let g = graph(t);
        let (_, proof) = judged(&g, &made(&g));
        assert!(proof.holds(), "{proof:#?}");
        assert_eq!(proof.unreached, []);
        assert!(
            proof.share.proved > 0.9 && proof.share.unknown == 0.0,
            "{proof:#?}"
        );
    }
}

/// What is broken in a program's text is found, and a frame shows it.
#[test]
fn broken_texts_are_refuted() {
    let cases: [(&str, &str, &str); 12] = [
        (FIREWALL, "udp.dport = 53", "udp.dport = 54"),
        (FIREWALL, "ip.ttl <= 1", "ip.ttl <= 2"),
        (FIREWALL, "to ip.ttl - 1", "to ip.ttl - 2"),
        (
            FIREWALL,
            "write ip.ttl = ip.ttl - 1",
            "write ip.ttl = ip.ttl - 2",
        ),
        (FIREWALL, "ip.src in 10.0.0.0/8", "ip.src in 10.0.0.0/9"),
        (FIREWALL, "ip4_fits(14) = 0", "ip4_fits(14) = 1"),
        (FIREWALL, "IPFilter: denied", "IPFilter: filtered"),
        (FIREWALL, "tag 3 from 14", "tag 2 from 14"),
        (NAT, "add s5", "add s4"),
        (NAT, "write ip.src = 192.0.2.1", "write ip.src = 192.0.2.2"),
        (NAT, "write udp.sport = s2", "write udp.sport = s3"),
        (NAT, "into s0", "into s1"),
    ];
    let mut refused = Vec::new();
    for (chain, from, to) in cases {
        let g = graph(chain);
        let written = made(&g);
        assert!(written.contains(from), "no '{from}' in\n{written}");
        let broken = written.replace(from, to);
        let Ok(p) = text::parse(&broken) else {
            panic!("'{to}' cannot be read");
        };
        if ProgramRunner::with_program(g.fork(), &p).is_err() {
            refused.push(to);
            continue;
        }
        let (p, proof) = judged(&g, &broken);
        assert!(
            !proof.different.is_empty(),
            "'{from}' -> '{to}': {proof:#?}"
        );
        assert!(
            shown(&g, &p, &proof),
            "'{from}' -> '{to}': {:#?}",
            proof.different
        );
    }
    // what the executor does not take needs no proof; all else got one
    assert_eq!(refused, Vec::<&str>::new());
}

/// A router that answers what it may not cut, at a bounded rate, and sends answers only to the upper half of the
/// addresses. The answers come to the fragmenter, too.
const ANSWERS: &str = "
    FromDevice(lan) -> Strip(14) -> CheckIPHeader -> ttl :: DecIPTTL -> fr :: IPFragmenter(576)
      -> EtherEncap(0x0800, 02-00-00-00-00-01, 02-00-00-00-00-02) -> ToDevice(wan);
    ttl[1] -> Discard;
    fr[1] -> ICMPError(10.0.0.254, unreachable, needfrag) -> rate :: RatedSplitter(100, BURST_SIZE 10)
      -> to :: IPClassifier(dst net 0.0.0.0/1, -);
    rate[1] -> Discard;
    to[0] -> Discard;
    to[1] -> ttl;
    FromDevice(wan) -> Discard;
    Idle -> ToDevice(lan);";

/// The program for [`ANSWERS`] with a wrong checksum of what it hands over to the fragmenter, and its proof.
fn wrong_checksum() -> (Graph, Program, Proof) {
    let g = graph(ANSWERS);
    let written = made(&g);
    let (before, behind) = written.split_once("\"longer than the MTU\"").unwrap();
    let broken = behind.replacen("to ip.ttl - 1", "to ip.ttl - 2", 1);
    assert_ne!(broken, behind, "{written}");
    let broken = format!("{before}\"longer than the MTU\"{broken}");
    let (p, proof) = judged(&g, &broken);
    (g, p, proof)
}

const MANY: witness::Look = witness::Look {
    packets: 20_000,
    ..FEW
};

const FEW: witness::Look = witness::Look {
    packets: 0,
    seed: 1,
    shrink_time: Duration::from_secs(1),
};

/// Packets may come round to where the program hands them over, and no model says what happens to them there. What is
/// told is what differs, not that they are not handed over, with all that tells which packets show it.
#[test]
fn what_differs_where_the_reference_takes_over_in_a_circle_is_told() {
    let (g, p, proof) = wrong_checksum();
    assert_eq!((proof.different.len(), proof.unknown.len()), (1, 0));
    assert_eq!(proof.different[0].what, "a checksum differs");
    assert!(proof.different[0].seeks.iter().all(|s| s.sum.is_some()));
    let shown = witness::refute(&g, &p, &ports(&g), &proof.different, &FEW, &mut |_| true);
    assert!(shown.unwrap().is_some());
}

/// Only answers show it, of which the first are not seen and use up what the rate allows.
#[test]
fn what_only_answers_at_a_bounded_rate_show_is_seen() {
    let (g, p, mut proof) = wrong_checksum();
    for s in proof.different.iter_mut().flat_map(|d| &mut d.seeks) {
        (s.set, s.sum) = (None, None);
    }
    let shown = witness::refute(&g, &p, &ports(&g), &proof.different, &FEW, &mut |_| true);
    let shown = shown.unwrap().unwrap();
    assert!(matches!(shown.evidence, witness::Evidence::Seen(_)));
}

/// Changes that change nothing are no difference.
#[test]
fn other_texts_for_the_same_are_proved() {
    let g = graph(FIREWALL);
    let written = made(&g);
    // a rule in two halves, in the other order; what is known of a stage is no part of what it does
    let line = written
        .lines()
        .find(|l| l.contains("udp.dport = 53") && l.contains("ip.ttl >= 2"))
        .unwrap();
    let halves = format!(
        "{}\n{line}",
        line.replace("ip.ttl >= 2", "ip.ttl in 100-255")
    );
    let (_, proof) = judged(&g, &written.replace(line, &halves));
    assert!(proof.holds(), "{proof:#?}");
    // a packet is handed over where it need not be
    let nothing = "onefold program 1\n";
    let mut lines: Vec<&str> = written
        .lines()
        .filter(|l| l.starts_with("element") || l.starts_with("entry"))
        .collect();
    lines.insert(0, nothing.trim_end());
    let all = format!(
        "{}\nstage0 at e0[0] entry fresh {{\n  when any => a0\n  a0 {{\n    punt e0[0] \"why not\" {{\n    }}\n    path\n  }}\n}}\n",
        lines.join("\n")
    );
    let (_, proof) = judged(&g, &all);
    assert!(proof.holds() && proof.share.punted > 0.99, "{proof:#?}");
}

/// What no model says is not proved: neither that nor the opposite.
#[test]
fn what_no_model_says_is_not_proved() {
    let g = graph(
        "FromDevice(a) -> Print(x) -> Strip(14) -> q :: RandomSample(0.5) -> Unstrip(14) -> ToDevice(b);",
    );
    let written = made(&g);
    let (_, proof) = judged(&g, &written);
    assert!(proof.holds(), "{proof:#?}");
    // the element that has to be asked, or takes over, is left out
    let end = "output e6 {\n    }";
    let broken = format!(
        "{}stage0 at e0[0] entry fresh {{\n  when any => a0\n  a0 {{\n    {end}\n    path\n  }}\n}}\n",
        written.split("stage0 at").next().unwrap()
    );
    if let Ok(p) = text::parse(&broken)
        && ProgramRunner::with_program(g.fork(), &p).is_ok()
    {
        let (_, proof) = judged(&g, &broken);
        assert!(!proof.holds(), "{proof:#?}");
    }
}

/// Time and memory end a proof; then it says so.
/// Of a large table a proof says nothing but that it is asked about the right address, and that its answer counts.
#[test]
fn large_route_tables() {
    let routes: Vec<String> = (0..5000u32)
        .map(|i| format!("10.{}.{}.0/24 {}", i >> 8, i & 255, i % 3))
        .collect();
    let t = format!(
        "rt :: RadixIPLookup({});
         FromDevice(in) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt;
         FromDevice(back) -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.3.7.9) -> rt;
         rt[0] -> DecIPTTL -> Unstrip(14) -> ToDevice(a); rt[1] -> Unstrip(14) -> ToDevice(b); rt[2] -> Discard;",
        routes.join(", ")
    );
    let g = graph(&t);
    let written = made(&g);
    assert!(written.len() < 20_000, "{} bytes", written.len());
    let (_, proof) = judged(&g, &written);
    assert!(proof.holds(), "{proof:#?}");
    assert_eq!(proof.share.unknown, 0.0);
    let breaks = [
        ("of ip.dst) = 1 => a8", "of ip.dst) = 1 => a9"),
        ("of ip.dst) = 0 => a7", "of ip.src) = 0 => a7"),
        ("of 10.3.7.9) = 0", "of 10.3.7.8) = 0"),
    ];
    for (old, new) in breaks {
        let broken = written.replacen(old, new, 1);
        assert_ne!(broken, written, "{old}\n{written}");
        let (_, proof) = judged(&g, &broken);
        assert!(!proof.holds(), "{old} -> {new}");
    }
}

#[test]
fn bounds() {
    let g = graph(NAT);
    let p = synthesize(&g.synthesis_input(), Budget::default());
    for options in [
        Options {
            nodes: 500,
            ..Options::default()
        },
        Options {
            steps: 3,
            ..Options::default()
        },
    ] {
        let proof = prove(&g.synthesis_input(), &p, &options);
        assert!(!proof.holds() && proof.stopped().is_some());
        assert!(proof.share.unknown > 0.0);
    }
}

/// Every example chain is what was written.
#[test]
fn example_chains() {
    let chains = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains");
    let options = |set: &[(&str, &str)]| onefold_chain::Options {
        set: set
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect(),
        examples: vec![chains.clone()],
    };
    let mut all: Vec<(String, Vec<(&str, &str)>)> = onefold_chain::example_names(&options(&[]))
        .into_iter()
        .map(|n| (n, Vec::new()))
        .collect();
    assert!(all.len() >= 13);
    all.push(("napts-N".into(), vec![("n", "3")]));
    all.push(("routers-N".into(), vec![("n", "4")]));
    for (name, set) in all {
        let chain =
            onefold_chain::load(&name, &options(&set)).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let g = Graph::build(chain.graph, &BuildOptions::default())
            .unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let (_, proof) = judged(&g, &made(&g));
        assert!(proof.holds(), "{name}: {proof:#?}");
        assert_eq!(proof.share.unknown, 0.0, "{name}");
    }
}
