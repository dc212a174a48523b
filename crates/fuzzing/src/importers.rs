//! Any text as rules of every format and as routes: no panic, bounded time and memory; accepted rules are ones that the
//! elements accept, errors have lines. The first byte says which format.

use onefold_chain::import::{
    Family, Interfaces, RuleSet, Section, Traffic, classbench, click_list, iptables, nftables,
    parse_route, snort,
};
use onefold_element::args::Args;
use onefold_elements::filter::{FilterErrorKind, parse_rule};
use onefold_elements::payload::filter::rule;

/// Expressions of our own making are understood.
fn check(set: &RuleSet) {
    let args = Args::from_strings(&[]);
    let first = set.rules.iter().chain(set.down.iter().flatten());
    let more = set.sections.iter().flat_map(|s| &s.more);
    let more = more.flat_map(|s| match s {
        Section::Rules(rules) => rules.as_slice(),
        Section::Connection { .. } | Section::Ask { .. } => &[],
    });
    for r in first.chain(more).take(200) {
        let text = format!("{} {}", r.verdict.action(), r.filter);
        // nesting has a bound
        if let Err(e) = parse_rule(&text, 1, &args.scope()) {
            assert!(matches!(e.kind, FilterErrorKind::TooDeep(_)), "{text}: {e}");
        }
    }
}

fn lines(result: Result<RuleSet, Vec<(u32, String)>>, ours: bool) {
    match result {
        Ok(set) if ours => check(&set),
        Ok(_) => {}
        Err(e) => assert!(!e.is_empty() && e.iter().all(|e| e.0 > 0)),
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    let Some((&which, rest)) = bytes.split_first() else {
        return;
    };
    let text = crate::text(rest);
    let names = Interfaces {
        inside: Some("a".into()),
        outside: Some("b".into()),
        own: vec![std::net::Ipv4Addr::LOCALHOST.into()],
        ..Interfaces::default()
    };
    let request = iptables::Request {
        family: if which & 0x80 == 0 {
            Family::V4
        } else {
            Family::V6
        },
        chain: (which & 0x40 != 0).then_some("INPUT"),
        interfaces: &names,
        host: which & 0x20 != 0,
        traffic: match which & 0x38 {
            0x28 => Traffic::ToHost,
            0x30 => Traffic::FromHost,
            0x38 => Traffic::LoopOut,
            _ => Traffic::Forwarded,
        },
    };
    let v4 = request.family == Family::V4;
    match which & 7 {
        0 => lines(click_list::parse(text), false),
        1 => lines(classbench::parse(text, 3), true),
        2 => lines(iptables::parse(text, &request), v4),
        3 => lines(nftables::parse(text, &request), v4),
        4 => {
            for l in text.lines() {
                let _ = parse_route(l);
            }
        }
        _ => {
            let cx = snort::Context {
                variables: [
                    ("A", "[10.0.0.0/8,!$B]"),
                    ("B", "10.1.0.0/16"),
                    ("P", "[80,!$Q]"),
                    ("Q", "$P"),
                ]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into(),
                ignore_flow: which & 0x40 != 0,
            };
            let parsed = snort::parse(text, &cx);
            for s in parsed.signatures.iter().take(50) {
                let args = Args::from_strings(&[]);
                if let Err(e) = rule::parse(&s.argument(), &args.scope()) {
                    assert!(
                        e.contains("nested") || e.contains("deep"),
                        "{}: {e}",
                        s.argument()
                    );
                }
            }
            assert!(
                parsed
                    .refused
                    .iter()
                    .all(|r| r.line > 0 && !r.reasons.is_empty())
            );
        }
    }
}
