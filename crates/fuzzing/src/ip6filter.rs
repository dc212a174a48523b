//! Any text as the rules of IP6Filter, or, behind a number sign, of IP6Classifier; any bytes as packets: no panic,
//! places of errors lie in the text, a tree prints and reads back the same, the search agrees with the walk over the
//! trees, no packet is lost.

use onefold_element::NameDb;
use onefold_element::args::{ArgScope, split_args};
use onefold_elements::filter::{View6, parse_pattern6, parse_rule6};
use onefold_elements::testing::Bench;
use onefold_packet::Packet;

fn marked(bytes: &[u8]) -> Box<Packet> {
    let mut p = Box::new(Packet::from_slice(bytes));
    p.set_network_header(0, 40);
    p
}

/// Pushes packets through the element; each leaves or is dropped.
fn element(class: &str, config: &str, packet: &[u8]) {
    let outputs = split_args(config).len();
    let Ok(mut b) = Bench::new(class, config, 1, outputs) else {
        return;
    };
    for cut in [packet.len(), 60, 44, 40, 39, 1, 0] {
        let p = packet.get(..cut).unwrap_or(packet);
        for header in [false, true] {
            let before = b.out.dropped;
            let out = if header {
                b.push_packet(0, marked(p))
            } else {
                b.push(0, p)
            };
            assert_eq!(
                out.len() as u64 + b.out.dropped - before,
                1,
                "{class}({config})"
            );
            assert!(out.iter().all(|(port, q)| *port < outputs && q.data() == p));
        }
    }
    let _ = b.read("program");
}

/// One input.
pub fn run(data: &[u8]) {
    let end = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let text = String::from_utf8_lossy(&data[..end]);
    let packet = data.get(end + 1..).unwrap_or(&[]);
    let Some(patterns) = text.strip_prefix('#') else {
        return element("IP6Filter", &text, packet);
    };
    element("IP6Classifier", patterns, packet);

    let scope = ArgScope {
        names: NameDb::builtin(),
        element: "",
        elements: &[],
    };
    let list = split_args(patterns);
    let lines = list.iter().map(|l| &**l).take(100).inspect(|line| {
        let _ = parse_rule6(line, 2, &scope);
    });
    let filter = crate::trees::filter(lines, |line| parse_pattern6(line, &scope));
    for cut in [packet.len(), 62, 54, 48, 44, 40] {
        let p = marked(packet.get(..cut).unwrap_or(packet));
        if let Some(six) = View6::of(&p) {
            let view = six.view();
            assert_eq!(
                filter.first_match(&view),
                filter.first_match_linear(&view),
                "{patterns}"
            );
        }
    }
}
