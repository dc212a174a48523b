//! Any text as PayloadFilter rules, or, behind an exclamation mark, as intrusion detection rules that are turned into
//! such; any bytes as packets: no panic, bounded time and memory, no packet is lost, and a list of rules does what its
//! rules do one by one.

use onefold_chain::import::snort;
use onefold_element::args::split_args;
use onefold_elements::testing::Bench;
use onefold_packet::Packet;

/// Most rules: each becomes an element of its own.
const RULES: usize = 12;

fn rules(text: &str) -> Vec<String> {
    match text.strip_prefix('!') {
        None => split_args(text).into_iter().take(RULES).collect(),
        Some(text) => {
            let cx = snort::Context {
                variables: [
                    ("A", "[10.0.0.0/8,!$B]"),
                    ("B", "10.1.0.0/16"),
                    ("P", "[80,!$Q]"),
                    ("Q", "443"),
                ]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into(),
                ignore_flow: true,
            };
            let parsed = snort::parse(text, &cx);
            parsed
                .signatures
                .iter()
                .map(|s| s.argument())
                .take(RULES)
                .collect()
        }
    }
}

/// One input.
pub fn run(data: &[u8]) {
    let end = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let text = String::from_utf8_lossy(&data[..end]);
    let packet = data.get(end + 1..).unwrap_or(&[]);
    let rules = rules(&text);
    let Ok(mut all) = Bench::new("PayloadFilter", &rules.join(", "), 1, 2) else {
        return;
    };
    let mut each = Vec::new();
    for r in &rules {
        match Bench::new("PayloadFilter", r, 1, 2) {
            Ok(b) => each.push(b),
            Err(e) => panic!("{r} alone: {e:?}"),
        }
    }
    for header in [
        None,
        Some((0, 20)),
        Some((0, 40)),
        Some((14, 24)),
        Some((0, 60)),
    ] {
        let make = || {
            let mut p = Box::new(Packet::from_slice(packet));
            if let Some((offset, len)) = header {
                p.set_network_header(offset, len);
            }
            p
        };
        let before = all.out.dropped;
        let out = all.push_packet(0, make());
        let passed = out.iter().filter(|(port, _)| *port == 0).count();
        let alerts = out.iter().filter(|(port, _)| *port == 1).count();
        let dropped = all.out.dropped - before;
        assert_eq!(passed as u64 + dropped, 1, "{text}");
        assert!(out.iter().all(|(_, p)| p.data() == packet));

        // one by one, until a rule decides; packets that no rule is asked about are refused by all of them alike
        let (mut expect_alert, mut expect_drop) = (false, rules.is_empty() && dropped == 1);
        for (r, b) in rules.iter().zip(&mut each) {
            let matches: u64 = b
                .read("matches")
                .expect("a number")
                .parse()
                .expect("a number");
            let before = b.out.dropped;
            let alone = b.push_packet(0, make());
            let miss = b.read("matches").expect("a number") == matches.to_string();
            let dropped = b.out.dropped > before;
            if miss {
                // not asked, or no match
                expect_drop |= dropped;
                if dropped {
                    break;
                }
                continue;
            }
            if alone.iter().any(|(port, _)| *port == 1) {
                expect_alert = true;
                assert!(!dropped, "{r}");
                continue;
            }
            expect_drop |= dropped;
            break;
        }
        assert_eq!(
            (alerts == 1, dropped == 1),
            (expect_alert, expect_drop),
            "{text} {header:?}"
        );
        assert!(alerts <= 1);
    }
}
