//! Plans of the family rewrite. Long sequences of flows, answers and time are in the family's own tests; here it is the
//! guards.

use onefold_elements::model_check::check::{Plan, Subject};
use onefold_elements::model_check::samples::Layer;

pub fn plans() -> Vec<Plan> {
    let s = |class: &str, config: &str, inputs: usize| Subject {
        // a binding is told by the input that its flow came in at
        origins: false,
        ..Subject::new(class, config, inputs, 2)
    };
    let ip = |l: Vec<Subject>| Plan::new(Layer::Ip4, l);
    let pat = "pattern 1.0.0.1 1024-1100# - - 0 1";
    vec![
        ip(vec![
            s("IPRewriter", &format!("{pat}, drop"), 2),
            s("IPRewriter", &format!("{pat}, pass 1"), 2),
            s(
                "IPRewriter",
                "pattern 1.0.0.1 1024 - - 0 1, pass 1, TAKE_OVER false, FRAGMENTS 8",
                2,
            ),
            s(
                "IPRewriter",
                "pattern 1.0.0.1 1000-1100 - - 0 1, mapped 1 0, MAPPING endpoint, TCP_HANDSHAKE true",
                2,
            ),
            s(
                "IPRewriter",
                "keep 1 0, pattern - - 10.0.0.1 80 0 1, REPLY_ANNO 16",
                2,
            ),
            s(
                "IPRewriter",
                "pattern 1.0.0.1-1.0.0.9 - - - 0 1, DST_ANNO false",
                1,
            ),
        ]),
        ip(vec![
            s("TCPRewriter", &format!("{pat}, drop"), 2),
            s("TCPRewriter", &format!("{pat}, pass 1"), 2),
        ]),
        ip(vec![
            s("UDPRewriter", &format!("{pat}, drop"), 2),
            s("UDPRewriter", &format!("{pat}, pass 1"), 2),
        ]),
        // forward packets of flows that began at the other input: the destination annotation is often another one there
        ip(vec![
            s("IPAddrRewriter", "pattern 1.0.0.1-1.0.0.200 - 0 1, drop", 2),
            s("IPAddrRewriter", "keep 0 1, pattern 1.0.0.1 2.0.0.2 0 1", 2),
        ])
        .plain_punts(400),
        ip(vec![
            s(
                "IPAddrPairRewriter",
                "pattern 1.0.0.1-1.0.0.200 - 0 1, drop",
                2,
            ),
            s(
                "IPAddrPairRewriter",
                "pattern 1.0.0.1 2.0.0.2 0 1, pass 1",
                2,
            ),
        ]),
        ip(vec![
            s("ICMPPingRewriter", &format!("{pat}, drop"), 2),
            s("ICMPPingRewriter", &format!("{pat}, pass 1"), 2),
            s("ICMPPingRewriter", &format!("{pat}, drop, FRAGMENTS 8"), 2),
        ]),
    ]
}
