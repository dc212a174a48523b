//! Any text as the configuration of the payload elements, any bytes as a packet: no panic, bounded time and memory,
//! every packet leaves or is dropped.

use onefold_elements::testing::Bench;
use onefold_packet::Packet;

/// One input.
pub fn run(data: &[u8]) {
    let end = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let text = String::from_utf8_lossy(&data[..end]);
    let packet = data.get(end + 1..).unwrap_or(&[]);
    for class in [
        "PayloadMatcher",
        "RegexMatcher",
        "StringMatcher",
        "GroupRegexClassifier",
        "FlowMonitor",
    ] {
        // a small limit keeps the fuzzer from measuring how long large automata take
        let config = match class {
            "StringMatcher" | "FlowMonitor" => text.to_string(),
            _ => format!("{text}, MAX_REGEX_MEMORY 300000"),
        };
        let outputs = if class == "FlowMonitor" { 1 } else { 2 };
        let Ok(mut b) = Bench::new(class, &config, 1, outputs) else {
            continue;
        };
        for header in [None, Some((0, 20)), Some((0, 40)), Some((14, 24))] {
            let mut p = Box::new(Packet::from_slice(packet));
            if let Some((offset, len)) = header {
                p.set_network_header(offset, len);
            }
            let dropped = b.out.dropped;
            let out = b.push_packet(0, p);
            assert_eq!(
                out.len() as u64 + b.out.dropped - dropped,
                1,
                "{class}({config})"
            );
        }
    }
}
