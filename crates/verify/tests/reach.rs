//! What is proved to be unreachable is never hit, what is not is hit nearly always.

use crate::small;

use onefold_engine::program::ProgramRunner;
use onefold_packet::Timestamp;
use onefold_verify::generate::directed::{Account, Directed};
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::reach::proved::Proved;
use onefold_verify::reach::{Facts, Reach};
use onefold_verify::{Options, Pair, Reference, Synthesized, run};
use small::{FIREWALL, NAT, graph, ports};
use std::sync::Arc;

/// Two address translators, and a reader of what both wrote.
const NESTED: &str = "
    a :: IPRewriter(pattern 192.0.2.1 2000-2999 - - 0 1, drop);
    b :: IPRewriter(pattern 198.51.100.1 3000-3999 - - 0 1, drop);
    FromDevice(lan) -> Strip(14) -> CheckIPHeader -> IPFilter(allow udp)
      -> [0]a[0] -> [0]b[0] -> IPFilter(allow src host 198.51.100.1 && src port >= 3000, deny all)
      -> Unstrip(14) -> ToDevice(wan);
    FromDevice(wan) -> Strip(14) -> CheckIPHeader -> IPFilter(allow udp)
      -> [1]b[1] -> [1]a[1] -> DecIPTTL -> Unstrip(14) -> ToDevice(lan);";

fn account(text: &str, seed: u64, packets: u64) -> Account {
    let start = Timestamp::from_secs(1000);
    let g = graph(text);
    let input = g.synthesis_input();
    let program = Arc::new(onefold_synth::synthesize(&input, Default::default()));
    let ports = ports(&g);
    let traffic = Traffic::new(&ports, Hints::of(g.spec()), seed, packets, start, 1).unwrap();
    let reach = Reach::of(program.clone(), &Facts::of(g.spec(), &program));
    let mut source = Directed::new(program.clone(), traffic, &ports, seed, packets, start)
        .with_proved(Proved::of(reach));
    let runner = ProgramRunner::with_program(g.fork(), &program).unwrap();
    let pair = Pair::new(
        Box::new(Reference(g.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    let o = run(&pair, &mut source, &Options::default(), &mut |_| true);
    assert!(o.findings.is_empty(), "{:?}", o.findings);
    let coverage = source.coverage.clone();
    source.account(coverage)
}

#[test]
fn nothing_that_is_proved_to_be_unreachable_is_hit() {
    for (name, text) in [("firewall", FIREWALL), ("nat", NAT)] {
        for seed in 1..4 {
            let a = account(text, seed, 12_000);
            assert!(a.wrong.is_empty(), "{name}, seed {seed}: {:?}", a.wrong);
            assert!(!a.never.is_empty(), "{name}: nothing is proved");
            let missing: usize = a.missing.values().map(Vec::len).sum();
            assert!(
                missing * 50 <= a.never.len(),
                "{name}, seed {seed}: {:?}",
                a.missing
            );
        }
    }
}

#[test]
fn answers_find_their_way_through_two_translators() {
    let a = account(NESTED, 1, 40_000);
    assert!(a.wrong.is_empty(), "{:?}", a.wrong);
    // some need a flow that one table has forgotten and the other has not
    assert!(a.missing.is_empty(), "{:?}", a.missing);
}

/// What an element punts for all packets of a kind, or for all packets, goes on in the reference graph, and begins
/// flows that no packet of the program begins: of pings behind a rewriter of addresses; at such a rewriter itself;
/// behind ARP.
const BEGUN_BY_PUNTED: [(&str, &str); 3] = [
    (
        "pings behind addresses",
        "one :: IPAddrPairRewriter(pattern 203.0.113.5 - 0 1, pattern - 10.0.0.5 1 0);
        ping :: ICMPPingRewriter(pattern 198.51.100.1 1-65535 - - 0 1, drop);
        FromDevice(lan) -> Strip(14) -> CheckIPHeader -> ci :: IPClassifier(src host 10.0.0.5, -);
        ci[0] -> [0]one; ci[1] -> Discard;
        one[0] -> cp :: IPClassifier(icmp type echo, -); cp[0] -> [0]ping; cp[1] -> Discard;
        FromDevice(wan) -> Strip(14) -> CheckIPHeader -> co :: IPClassifier(icmp type echo-reply, -);
        co[0] -> [1]ping; co[1] -> Discard;
        ping[0] -> Unstrip(14) -> ToDevice(wan);
        ping[1] -> cr :: IPClassifier(dst host 203.0.113.5, -); cr[0] -> [1]one; cr[1] -> Discard;
        one[1] -> Unstrip(14) -> ToDevice(lan);",
    ),
    (
        "any protocol at addresses",
        "one :: IPAddrPairRewriter(pattern 203.0.113.5 - 0 1, drop);
        FromDevice(lan) -> Strip(14) -> CheckIPHeader -> IPFilter(allow icmp && src host 10.0.0.5, deny all)
          -> [0]one[0] -> Unstrip(14) -> ToDevice(wan);
        FromDevice(wan) -> Strip(14) -> CheckIPHeader -> IPFilter(allow tcp or udp, deny all)
          -> [1]one[1] -> Unstrip(14) -> ToDevice(lan);",
    ),
    (
        "behind ARP",
        "rw :: IPRewriter(pattern 203.0.113.5 2000-2999 - - 0 1, drop);
        arp :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01);
        FromDevice(lan) -> c :: Classifier(12/0800, 12/0806 20/0002, -); c[2] -> Discard; c[1] -> [1]arp;
        c[0] -> Strip(14) -> CheckIPHeader -> IPFilter(allow udp, deny all) -> GetIPAddress(16) -> [0]arp;
        arp[0] -> d :: Classifier(12/0800, -); d[1] -> ToDevice(lan);
        d[0] -> Strip(14) -> MarkIPHeader -> [0]rw[0] -> Unstrip(14) -> ToDevice(wan);
        FromDevice(wan) -> Strip(14) -> CheckIPHeader -> IPFilter(allow tcp or udp, deny all)
          -> [1]rw[1] -> Unstrip(14) -> ToDevice(lan);",
    ),
];

#[test]
fn flows_that_punted_packets_begin_are_known() {
    for (name, text) in BEGUN_BY_PUNTED {
        let a = account(text, 1, 3_000);
        assert!(a.wrong.is_empty(), "{name}: {:?}", a.wrong);
        assert!(!a.never.is_empty(), "{name}: nothing is proved");
    }
}
