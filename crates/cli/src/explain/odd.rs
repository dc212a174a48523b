//! Rules that are surely not meant, in a line: `check --rules` has them all, with the rules that make them so.

use super::Explained;
use crate::answers::short;
use crate::common::thousands;
use serde_json::{Value, json};

/// Odd rules that are named.
const NAMED: usize = 3;

/// An odd rule.
pub struct OddRule {
    /// What is odd about it.
    pub kind: &'static str,
    /// Its file.
    pub file: String,
    /// Its line.
    pub line: u32,
    /// Its text.
    pub text: String,
}

/// What was found in all lists of rules.
#[derive(Default)]
pub struct Odd {
    /// By kind, those that there are.
    pub kinds: Vec<(&'static str, usize)>,
    /// Rules that were looked at, and all.
    pub looked: (usize, usize),
    /// The first ones, list by list.
    pub first: Vec<OddRule>,
}

impl Odd {
    fn found(&self) -> usize {
        self.kinds.iter().map(|k| k.1).sum()
    }

    /// Those that were not looked at, in words.
    fn bound(&self) -> String {
        match self.looked {
            (n, all) if n < all => format!(
                " among the first {} of {}",
                thousands(n as u64),
                thousands(all as u64)
            ),
            _ => String::new(),
        }
    }
}

/// `3 rules are odd (2 shadowed, 1 redundant)`; `None` if none is.
pub fn line(x: &Explained<'_>) -> Option<String> {
    let odd = x.odd.as_ref().filter(|o| o.found() > 0)?;
    let kinds: Vec<String> = (odd.kinds.iter())
        .map(|(k, n)| format!("{} {k}", thousands(*n as u64)))
        .collect();
    let n = odd.found();
    let are = if n == 1 { "rule is" } else { "rules are" };
    Some(format!(
        "{} {are} odd{} ({})",
        thousands(n as u64),
        odd.bound(),
        kinds.join(", ")
    ))
}

/// The first of them, a line each.
pub fn named(x: &Explained<'_>) -> Vec<String> {
    let first = x.odd.iter().flat_map(|o| o.first.iter().take(NAMED));
    first
        .map(|r| format!("{}:{} `{}`: {}", r.file, r.line, short(&r.text), r.kind))
        .collect()
}

/// For machines; null if nothing was looked for.
pub fn json(x: &Explained<'_>) -> Value {
    let Some(odd) = &x.odd else {
        return Value::Null;
    };
    let kinds: serde_json::Map<String, Value> = (odd.kinds.iter())
        .map(|(k, n)| ((*k).to_string(), (*n).into()))
        .collect();
    let first = odd
        .first
        .iter()
        .map(|r| json!({ "kind": r.kind, "file": r.file, "line": r.line, "text": r.text }));
    json!({
        "found": odd.found(),
        "kinds": kinds,
        "looked": odd.looked.0,
        "rules": odd.looked.1,
        "first": first.collect::<Vec<_>>(),
    })
}
