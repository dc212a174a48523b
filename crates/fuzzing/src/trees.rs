//! What both targets for filters look at: a tree that was read prints and reads back the same, and errors have places
//! in the text.

use onefold_elements::filter::{Action, Expr, Filter, FilterError, Parsed, Rule, Span};

/// Forgets where parts were written.
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

/// The patterns that can be read, as a filter that drops what fits them.
pub fn filter<'a>(
    lines: impl Iterator<Item = &'a str>,
    parse: impl Fn(&str) -> Result<Parsed, FilterError>,
) -> Filter {
    let mut rules = Vec::new();
    for (i, line) in lines.enumerate() {
        match parse(line) {
            Ok(p) => {
                let mut expr = p.expr;
                clear(&mut expr);
                // a tree's text has more parentheses than what was read: at the limit it may be too deep
                if let Ok(again) = parse(&expr.to_string()) {
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
            Err(e) => assert!(
                e.span.start <= e.span.end && e.span.end as usize <= line.len(),
                "{line}: {e:?}"
            ),
        }
    }
    Filter::new(rules)
}
