//! Two small configurations between the ports `lan` and `wan`.
#![allow(dead_code)] // each test takes what it needs

use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::Timestamp;
use onefold_verify::generate::Port;

/// One way, no state.
pub const FIREWALL: &str = "
    FromDevice(lan) -> c :: Classifier(12/0800, -);
    c[1] -> Discard;
    c[0] -> Strip(14) -> CheckIPHeader
      -> IPFilter(allow src net 10.0.0.0/8 && udp && dst port 53, deny dst port 23, allow tcp, deny all)
      -> DecIPTTL -> Unstrip(14) -> ToDevice(wan);";

/// Both ways.
pub const NAT: &str = "
    rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
    FromDevice(lan) -> Strip(14) -> CheckIPHeader -> IPFilter(allow tcp or udp)
      -> [0]rw[0] -> Unstrip(14) -> ToDevice(wan);
    FromDevice(wan) -> Strip(14) -> CheckIPHeader -> IPFilter(allow tcp or udp)
      -> [1]rw[1] -> IPFilter(deny dst port 7, allow all) -> Unstrip(14) -> ToDevice(lan);";

/// The graph of a configuration.
pub fn graph(text: &str) -> Graph {
    let flat =
        onefold_click::load(text.as_bytes(), "test.click", &[], &Default::default()).unwrap();
    let options = BuildOptions {
        start: Timestamp::from_secs(1000),
        ..Default::default()
    };
    Graph::build(spec_from_flat(&flat), &options).unwrap()
}

/// Its two ports.
pub fn ports(g: &Graph) -> [Port; 2] {
    ["lan", "wan"].map(|name| Port {
        name: name.into(),
        source: g.source(name),
        sinks: g.sinks(name),
    })
}
