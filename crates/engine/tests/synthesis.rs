//! Chains that synthesize only in part, or whose state must tell zones apart: the program against the reference graph.

use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::{Timestamp, checksum};
use onefold_synth::program::{Dim, End, Why};
use onefold_synth::{Budget, Program, synthesize};

fn build(text: &str) -> Graph {
    let flat = onefold_click::load(text.as_bytes(), "t.click", &[], &Default::default()).unwrap();
    Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap()
}

/// The chain, its program, and a runner of it.
fn both(text: &str) -> (Graph, Program, ProgramRunner) {
    let g = build(text);
    let p = synthesize(&g.synthesis_input(), Default::default());
    let runner = ProgramRunner::with_program(build(text), &p).unwrap();
    (g, p, runner)
}

/// A small generator: the same numbers every time.
struct Numbers(u64);
impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1);
        (self.0 >> 33) % below
    }
}

fn frame(
    src: [u8; 4],
    dst: [u8; 4],
    proto: u8,
    ports: (u16, u16),
    ttl: u8,
    payload: usize,
) -> Vec<u8> {
    let transport = if proto == 6 { 20 } else { 8 };
    let total = 20 + transport + payload;
    let mut f = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
    let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0, 0, ttl, proto, 0, 0];
    ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    ip.extend(src);
    ip.extend(dst);
    let sum = checksum::internet(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut t = Vec::new();
    t.extend(ports.0.to_be_bytes());
    t.extend(ports.1.to_be_bytes());
    t.resize(transport, 0);
    if proto == 6 {
        t[12] = 0x50;
        t[13] = 0x10;
    } else {
        t[4..6].copy_from_slice(&((8 + payload) as u16).to_be_bytes());
    }
    t.extend((0..payload).map(|i| i as u8));
    let at = if proto == 6 { 16 } else { 6 };
    let pseudo = checksum::pseudo_v4(src, dst, proto, t.len() as u16);
    let sum = !checksum::fold(checksum::sum(&t, pseudo));
    t[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    f.extend(ip);
    f.extend(t);
    f
}

/// What has left since the last call: sink and bytes, in order.
fn left(g: &mut Graph) -> Vec<(String, Vec<u8>)> {
    let list = g.take_transmitted();
    list.iter()
        .map(|(e, p)| (g.name(*e).to_string(), p.data().to_vec()))
        .collect()
}

/// The same frame into both; what leaves must be the same.
fn inject(
    g: &mut Graph,
    r: &mut ProgramRunner,
    port: &str,
    f: &[u8],
    ms: i64,
) -> Vec<(String, Vec<u8>)> {
    let at = Timestamp::from_millis(ms);
    let source = g.source(port).unwrap();
    g.inject(source, f, at);
    r.inject(source, f, at);
    let (a, b) = (left(g), left(r.graph_mut()));
    assert_eq!(a, b, "frame {f:02x?} at {port}");
    a
}

fn same_end(g: &mut Graph, r: &mut ProgramRunner) {
    assert_eq!(g.totals(), r.graph().totals());
    assert_eq!(
        format!("{:?}", g.drops()),
        format!("{:?}", r.graph().drops())
    );
    assert_eq!(g.state_summary(), r.graph_mut().state_summary());
}

/// Random frames of a few flows into every port; at most `most` of a thousand may be punted.
fn exercise(text: &str, ports: &[&str], most: u64) -> Program {
    exercise_within(text, ports, most, Budget::default(), 3000)
}

fn exercise_within(text: &str, ports: &[&str], most: u64, budget: Budget, frames: u64) -> Program {
    let mut g = build(text);
    let p = synthesize(&g.synthesis_input(), budget);
    let mut r = ProgramRunner::with_program(build(text), &p).unwrap();
    let mut n = Numbers(7);
    for i in 0..frames as i64 {
        let host = |n: &mut Numbers| [10, 0, 0, n.next(4) as u8];
        let (src, dst) = (host(&mut n), [192, 0, 2, n.next(3) as u8]);
        let proto = [6, 17, 17, 1][n.next(4) as usize];
        let ports_of = (n.next(5) as u16 + 1000, n.next(60_000) as u16);
        let ttl = [0, 1, 2, 64, 255][n.next(5) as usize];
        let len = n.next(1200) as usize;
        let mut f = frame(src, dst, proto, ports_of, ttl, len);
        match n.next(12) {
            0 => f[14] = 0x46,
            1 => f[20] = 0x20,
            2 => f[24] ^= 0x40,
            3 => f.truncate(n.next(60) as usize),
            4 => f[12..14].copy_from_slice(&[8, 6]),
            5 => f.extend([0; 9]),
            _ => {}
        }
        let port = ports[n.next(ports.len() as u64) as usize];
        inject(&mut g, &mut r, port, &f, i * 40);
    }
    same_end(&mut g, &mut r);
    // the program has done it, not the reference graph
    let report = r.report();
    assert_eq!((report.packets, report.reference), (frames, 0));
    let punted = report.punted();
    assert!(
        punted * 1000 <= most * frames,
        "{punted} of {frames}: {:?}",
        report.punts
    );
    p
}

fn punted(p: &Program) -> Vec<String> {
    let actions = p.stages.iter().flat_map(|s| &s.actions);
    let mut all: Vec<String> = actions
        .filter_map(|a| match &a.end {
            End::Punt { elem, cause, .. } => {
                Some(format!("{}: {cause}", p.elements[elem.0 as usize]))
            }
            _ => None,
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

/// SNF's second property: two zones with the same addresses behind chained NATs to one gateway.
#[test]
fn replies_find_their_zone() {
    let (mut g, _, mut r) = both(
        "FromDevice(zone1) -> Strip(14) -> CheckIPHeader
           -> [0]n1 :: IPRewriter(pattern 192.168.1.1 1024-65535 - - 0 1, drop);
         FromDevice(zone2) -> Strip(14) -> CheckIPHeader
           -> [0]n2 :: IPRewriter(pattern 192.168.2.1 1024-65535 - - 0 1, drop);
         g :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 1, pattern 203.0.113.1 1024-65535 - - 0 2, drop);
         n1[0] -> [0]g; n2[0] -> [1]g;
         g[0] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:1) -> internet :: ToDevice(internet);
         FromDevice(internet) -> Strip(14) -> CheckIPHeader -> [2]g;
         g[1] -> [1]n1; g[2] -> [1]n2;
         n1[1] -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:1:2) -> zone1 :: ToDevice(zone1);
         n2[1] -> EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:1:3) -> zone2 :: ToDevice(zone2);",
    );
    let mut seen = Vec::new();
    for proto in [6, 17] {
        for flow in 0..50u16 {
            let (host, server) = ([10, 0, 0, 7], [198, 51, 100, 1]);
            let ports = (5000 + flow, 80);
            let mut back = Vec::new();
            // the same addresses and ports from both zones, interleaved
            for zone in ["zone1", "zone2"] {
                let f = frame(host, server, proto, ports, 64, 10);
                let out = inject(&mut g, &mut r, zone, &f, i64::from(flow));
                assert_eq!(out.len(), 1);
                assert_eq!(out[0].0, "internet");
                let f = &out[0].1;
                assert_eq!(f[26..30], [203, 0, 113, 1]);
                let port = u16::from_be_bytes([f[34], f[35]]);
                assert!(
                    !seen.contains(&(proto, port)),
                    "one outside port for two flows"
                );
                seen.push((proto, port));
                back.push((zone, port));
            }
            for (zone, port) in back {
                let f = frame(server, [203, 0, 113, 1], proto, (80, port), 64, 10);
                let out = inject(&mut g, &mut r, "internet", &f, i64::from(flow));
                assert_eq!(out.len(), 1);
                assert_eq!(out[0].0, zone);
                assert_eq!(out[0].1[30..34], host);
                assert_eq!(out[0].1[36..38], ports.0.to_be_bytes());
            }
        }
    }
    same_end(&mut g, &mut r);
    assert_eq!(r.report().packets, 400);
    assert_eq!(r.report().punted(), 0, "{:?}", r.report().punts);
}

/// The balancer looks at the port that the NAT has just written: a stage of its own, no punt.
#[test]
fn a_read_after_a_rewrite_starts_a_stage() {
    let p = exercise(
        "FromDevice(in) -> Strip(14) -> CheckIPHeader
           -> rw :: IPRewriter(pattern 203.0.113.1 1024-65535 - - 0 0)
           -> c :: IPClassifier(src port < 1500, src port < 50000, -);
         c[0] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:1) -> ToDevice(a);
         c[1] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:2) -> ToDevice(b);
         c[2] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:3) -> ToDevice(c);",
        &["in"],
        300,
    );
    assert!(p.stages.iter().any(|s| s.why == Why::Dynamic));
    assert!(
        punted(&p).iter().all(|c| !c.starts_with("c:")),
        "{:?}",
        punted(&p)
    );
}

#[test]
fn copies_go_their_own_ways() {
    let p = exercise(
        "FromDevice(in) -> Strip(14) -> CheckIPHeader -> t :: Tee(2);
         t[0] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:1) -> ToDevice(a);
         t[1] -> SetIPDSCP(10) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:2) -> ToDevice(b);",
        &["in"],
        300,
    );
    assert!(p.stages.iter().any(|s| s.why == Why::Copy));
}

/// In front of the element without a model the program runs, behind it the reference graph.
#[test]
fn an_element_without_a_model_in_the_middle() {
    let p = exercise(
        "FromDevice(in) -> Strip(14) -> CheckIPHeader -> DecIPTTL -> q :: Queue(1000) -> Unqueue
           -> SetIPDSCP(12) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:1) -> ToDevice(a);",
        &["in"],
        1000,
    );
    assert!(
        punted(&p).iter().any(|c| c.starts_with("q: ")),
        "{:?}",
        punted(&p)
    );
}

#[test]
fn an_arp_querier_holds_packets() {
    let text = "FromDevice(in) -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
         c[0] -> ARPResponder(10.0.0.1 2:0:0:0:0:1) -> ToDevice(back);
         q :: ARPQuerier(192.0.2.9, 2:0:0:0:0:1);
         c[1] -> [1]q; c[3] -> Discard;
         c[2] -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> DecIPTTL -> [0]q;
         q -> ToDevice(out);";
    let p = exercise(text, &["in"], 1000);
    assert!(
        punted(&p).iter().any(|c| c.starts_with("q: ")),
        "{:?}",
        punted(&p)
    );
    // and with answers: what was held leaves, later packets pass at once
    let (mut g, _, mut r) = both(text);
    let f = frame([10, 0, 0, 7], [192, 0, 2, 1], 17, (1, 2), 9, 4);
    let asked = inject(&mut g, &mut r, "in", &f, 0);
    assert_eq!(asked.len(), 1, "a query");
    let mut answer = asked[0].1.clone();
    answer[21] = 2;
    answer[22..28].copy_from_slice(&[2, 0, 0, 0, 7, 7]);
    answer[28..32].copy_from_slice(&[192, 0, 2, 1]);
    answer[32..38].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    answer[38..42].copy_from_slice(&[192, 0, 2, 9]);
    let released = inject(&mut g, &mut r, "in", &answer, 1);
    assert_eq!(released.len(), 1, "what was held");
    let next = inject(&mut g, &mut r, "in", &f, 2);
    assert_eq!(next, released);
    same_end(&mut g, &mut r);
}

/// A budget of rules so small that the lists fall into many stages: the same behaviour.
#[test]
fn a_tiny_budget_splits_into_stages() {
    let text = "FromDevice(in) -> Strip(14) -> CheckIPHeader
           -> f :: IPFilter(allow src 10.0.0.1 && dst port < 20000, deny src 10.0.0.2 && udp, allow dst 192.0.2.1 && tcp,
                deny dst port > 30000, allow src port 1001 or 1002, allow icmp, allow src 10.0.0.3, deny all)
           -> c :: IPClassifier(dst 192.0.2.0 && tcp, dst 192.0.2.1 && udp, src 10.0.0.0/31, udp, -)
           -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:1) -> ToDevice(a);
         c[1] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:2) -> ToDevice(b);
         c[2] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:3) -> ToDevice(c);
         c[3] -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:1:4) -> ToDevice(d);
         c[4] -> Discard;";
    let whole = exercise(text, &["in"], 300);
    assert!(whole.notes.is_empty() && whole.stages.iter().all(|s| s.why != Why::Budget));
    let most = whole.stages.iter().map(|s| s.rules.len()).max().unwrap();
    let budget = Budget {
        rules: most / 2,
        ..Budget::default()
    };
    let split = exercise_within(text, &["in"], 300, budget, 3000);
    assert!(split.stages.iter().any(|s| s.why == Why::Budget));
    assert!(
        split.notes.iter().any(|n| n.contains("budget")),
        "{:?}",
        split.notes
    );
    let report = onefold_synth::check::check(&split);
    assert_eq!(report.violations, []);
    // smaller than one element's list: the reference graph does that element, and it is said, too
    let least = Budget {
        rules: 3,
        ..Budget::default()
    };
    let p = exercise_within(text, &["in"], 1000, least, 3000);
    assert!(
        p.notes
            .iter()
            .any(|n| n.contains("more cases than the budget")),
        "{:?}",
        p.notes
    );
}

/// Paths through many diamonds, each of which sets an annotation, multiply: the whole program's size is bounded, what does not
/// fit is punted, and it is said.
#[test]
fn the_size_of_a_program_is_bounded() {
    let mut text = String::from(
        "FromDevice(in) -> Strip(14) -> CheckIPHeader -> c0 :: IPClassifier(src 10.0.0.0, -);\n",
    );
    for i in 0..36 {
        let field = [
            "dst port", "src port", "ip ttl", "ip tos", "ip id", "ip len",
        ][i % 6];
        let next = match i {
            35 => "PaintSwitch(17) -> Discard".to_string(),
            _ => format!("c{} :: IPClassifier({field} {}, -)", i + 1, 40 + i),
        };
        text += &format!(
            "c{i}[0] -> Paint(1, {0}) -> p{i} :: Null -> {next}; c{i}[1] -> Paint(2, {0}) -> p{i};\n",
            16 + i % 20
        );
    }
    let budget = Budget {
        size: 20_000,
        ..Budget::default()
    };
    let p = exercise_within(&text, &["in"], 1000, budget, 3000);
    let rules = p.stages.iter().map(|s| s.rules.len()).sum::<usize>();
    assert!((20..20_000).contains(&rules), "{rules} rules");
    let over = "the rules of all stages exceed the budget";
    assert!(
        p.notes.iter().any(|n| n.contains(over)),
        "{rules} rules: {:?}",
        p.notes
    );
    let report = onefold_synth::check::check(&p);
    assert_eq!(report.violations, []);
}

/// Copies that come back to where they were made: the reference graph's bound ends them, in both modes alike.
#[test]
fn copies_in_a_circle() {
    for text in [
        "t :: Tee(2); FromDevice(in) -> t -> t; t[1] -> Discard;",
        "t :: Tee(2); u :: Tee(2); FromDevice(in) -> t -> u -> Null -> t; t[1] -> Discard; u[1] -> ToDevice(a);",
    ] {
        // each goes round ten thousand times, in both: a few are enough
        let p = exercise_within(text, &["in"], 1000, Budget::default(), 60);
        let report = onefold_synth::check::check(&p);
        assert_eq!(report.violations, [], "{text}");
    }
}

/// What is true of all longer packets is true of those that have grown: no class is made of lengths near the largest number,
/// which no packet has.
#[test]
fn a_packet_that_has_grown_has_no_impossible_length() {
    let text = "FromDevice(in) -> VLANEncap(VLAN_ID 7) -> c :: Classifier(12/8100, -) -> FlowMonitor -> ToDevice(a);
        c[1] -> Discard;";
    let p = exercise(text, &["in"], 0);
    let lengths = (p.stages.iter().flat_map(|s| &s.rules))
        .flat_map(|r| &r.filter.0)
        .filter(|(d, _)| *d == Dim::Len);
    for (_, set) in lengths {
        let ends = set.intervals().iter();
        assert!(
            ends.clone().all(|(l, _)| *l < 1 << 31),
            "a length from {set:?}"
        );
    }
    assert_eq!(onefold_synth::check::check(&p).violations, []);
}
