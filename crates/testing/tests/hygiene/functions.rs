//! How long functions are.

use crate::lengths::{Long, hold};
use crate::scan;
use crate::tree::{self, Source};

/// Lines that a function may have, from its `fn` to its closing brace.
const LIMIT: usize = 100;

/// Functions with more than `limit` lines.
fn long(sources: &[Source], limit: usize) -> Vec<Long> {
    let mut found = Vec::new();
    for s in sources {
        let mut words = scan::words(&s.code);
        while let Some((at, word)) = words.next() {
            if word != "fn" {
                continue;
            }
            let Some((name_at, name)) = words.next() else {
                break;
            };
            // a pointer's type, `fn(u8)`, has no name
            if !s.code[at + 2..name_at].trim().is_empty() {
                continue;
            }
            let Some(end) = scan::end_of_item(s.code.as_bytes(), name_at) else {
                continue;
            };
            let lines = s.code[at..end].matches('\n').count() + 1;
            if lines > limit {
                found.push(Long {
                    path: s.path.clone(),
                    name: name.to_owned(),
                    lines,
                });
            }
        }
    }
    found
}

#[test]
fn long_functions() {
    hold("long_functions.txt", &long(tree::sources(), LIMIT), 0);
}

#[test]
fn long_functions_are_found() {
    let text = "fn short() { }\nfn tall(\n  f: fn(u8) -> u8,\n  n: [u8; 2],\n) {\n  \"}\"; // }\n  if a { b }\n}\nfn last();\n";
    let found = long(&[Source::new("crates/a/src/b.rs", text)], 6);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].lines), ("tall", 7));
    assert!(long(&[Source::new("crates/a/src/b.rs", text)], 7).is_empty());
}
