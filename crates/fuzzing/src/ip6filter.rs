//! Any text as the rules of IP6Filter, or, behind a number sign, of IP6Classifier; any bytes as packets: no panic, places of errors lie
//! in the text, a tree prints and reads back the same, the search agrees with the walk over the trees, no packet is lost.

use onefold_elements::NameDb;
use onefold_elements::args::{ArgScope, split_args};
use onefold_elements::filter::{
    Action, Expr, Filter, Rule, Span, View6, parse_pattern6, parse_rule6,
};
use onefold_elements::testing::Bench;
use onefold_packet::Packet;

fn clear(e: &mut Expr) {
    match e {
        Expr::Const(_) => {}
        Expr::Test(t) => t.span = Span::default(),
        Expr::All(list) | Expr::Any(list) => list.iter_mut().for_each(clear),
        Expr::Not(e) => clear(e),
        Expr::Choose { cases, otherwise } => {
            for (c, v) in cases {
                clear(c);
                clear(v);
            }
            clear(otherwise);
        }
    }
}

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
    let mut rules = Vec::new();
    for (i, line) in split_args(patterns).iter().enumerate().take(100) {
        let _ = parse_rule6(line, 2, &scope);
        match parse_pattern6(line, &scope) {
            Ok(p) => {
                let mut expr = p.expr;
                clear(&mut expr);
                // a tree's text has more parentheses than what was read: at the limit it may be too deep
                if let Ok(again) = parse_pattern6(&expr.to_string(), &scope) {
                    let mut again = again.expr;
                    clear(&mut again);
                    assert_eq!(again, expr, "{line}");
                }
                rules.push(Rule {
                    argument: i as u32,
                    action: Action::Drop,
                    expr,
                });
            }
            Err(e) => {
                assert!(
                    e.span.start <= e.span.end && e.span.end as usize <= line.len(),
                    "{line}: {e:?}"
                );
            }
        }
    }
    let filter = Filter::new(rules);
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
