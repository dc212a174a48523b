//! Any text as filter rules (one a line) and byte patterns, any bytes as packets: no panic, what is read prints and
//! reads back as the same tree, and the search finds the rule that the walk over the trees finds.

use onefold_element::NameDb;
use onefold_element::args::ArgScope;
use onefold_elements::filter::{View, parse_pattern, parse_rule};
use onefold_elements::testing::Bench;
use onefold_packet::Packet;

/// One input.
pub fn run(data: &[u8]) {
    // text, a zero byte, packets of 40 bytes
    let end = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let text = String::from_utf8_lossy(&data[..end]);
    let packets = data.get(end + 1..).unwrap_or(&[]);
    let scope = ArgScope {
        names: NameDb::builtin(),
        element: "",
        elements: &[],
    };
    let lines = text.lines().take(100).inspect(|line| {
        let _ = parse_rule(line, 2, &scope);
    });
    let filter = crate::trees::filter(lines, |line| parse_pattern(line, &scope));
    for b in packets.chunks(40) {
        let header = usize::from(b[0] & 15) * 4;
        for cut in [b.len(), header, header + 3, 7] {
            let b = &b[..cut.min(b.len())];
            let view = View {
                net: b,
                transport: b.get(header..).unwrap_or(&[]),
                mac: b,
                net6: &[],
            };
            assert_eq!(
                filter.first_match(&view),
                filter.first_match_linear(&view),
                "{text}"
            );
        }
    }
    // the elements around the language
    let config = text.replace('\n', ",");
    for class in ["IPFilter", "IPClassifier", "Classifier"] {
        let outputs = config.matches(',').count() + 1;
        if let Ok(mut b) = Bench::new(class, &config, 1, outputs) {
            let mut p = Box::new(Packet::from_slice(packets));
            p.set_network_header(0, 20);
            b.push_packet(0, p);
            let _ = b.read("program");
        }
    }
}
