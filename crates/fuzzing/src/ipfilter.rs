//! Any text as filter rules (one a line) and byte patterns, any bytes as packets: no panic, what is read prints and reads back
//! as the same tree, and the search finds the rule that the walk over the trees finds.

use onefold_elements::NameDb;
use onefold_elements::args::ArgScope;
use onefold_elements::filter::{Action, Expr, Filter, Rule, Span, View, parse_pattern, parse_rule};
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
    let mut rules = Vec::new();
    for (i, line) in text.lines().enumerate().take(100) {
        let _ = parse_rule(line, 2, &scope);
        match parse_pattern(line, &scope) {
            Ok(p) => {
                let mut expr = p.expr;
                clear(&mut expr);
                // a tree's text has more parentheses than what was read: at the limit it may be too deep
                if let Ok(again) = parse_pattern(&expr.to_string(), &scope) {
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
