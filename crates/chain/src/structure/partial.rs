//! What is right of a chain file that is wrong elsewhere.

use super::node::{Key, Node, What};
use super::walk::Wrong;
use std::ops::Range;

/// What is not read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Functions, by name.
    pub functions: Vec<String>,
    /// Other parts, so that nobody can say how functions are connected.
    pub others: bool,
}

/// The text without the functions and other parts that are wrong, every byte that is left at its place. `None`: they
/// cannot be taken out of it line by line.
pub(super) fn without(text: &str, tree: &Node, wrong: &[Wrong]) -> Option<(String, LeftOut)> {
    let What::Map(top) = &tree.what else {
        return None;
    };
    let mut left_out = LeftOut::default();
    let mut gone: Vec<Range<usize>> = Vec::new();
    for w in wrong {
        let [part, rest @ ..] = w.way.as_slice() else {
            left_out.others = true; // a key is missing at the top
            continue;
        };
        for (i, (key, value)) in top.iter().enumerate().filter(|(_, (k, _))| k.name == *part) {
            let end = top.get(i + 1).map_or(text.len(), |(k, _)| k.start);
            match (part.as_str(), rest.first(), &value.what) {
                ("functions", Some(name), What::Map(all)) => {
                    gone.extend(entries(all, name, end));
                    left_out.functions.push(name.clone());
                }
                _ => {
                    gone.push(key.start..end);
                    left_out.others = true;
                }
            }
        }
    }
    left_out.functions.sort();
    left_out.functions.dedup();
    let mut bytes = text.as_bytes().to_vec();
    for g in gone {
        if !starts_line(text, g.start) || !(g.end == text.len() || starts_line(text, g.end)) {
            return None;
        }
        let gone = bytes.get_mut(g)?.iter_mut();
        gone.filter(|b| **b != b'\n').for_each(|b| *b = b' ');
    }
    let mut rest = String::from_utf8(bytes).ok()?;
    // what must be there, so that the rest can be read
    let again = super::node::read(&rest)?;
    let there = |name: &str| match &again.what {
        What::Map(top) => top.iter().any(|(k, _)| k.name == name),
        _ => false,
    };
    for name in ["functions", "ports"] {
        if !there(name) {
            rest.push_str(&format!("\n{name}: {{}}\n"));
        }
    }
    Some((rest, left_out))
}

/// Where the entries of a name are, each with its value, in a map that ends at `end`.
fn entries<'a>(
    all: &'a [(Key, Node)],
    name: &'a str,
    end: usize,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let next = move |i: usize| all.get(i + 1).map_or(end, |(k, _)| k.start);
    let of = all
        .iter()
        .enumerate()
        .filter(move |(_, (k, _))| k.name == name);
    of.map(move |(i, (k, _))| k.start..next(i))
}

/// Is nothing but white space in front of it in its line?
fn starts_line(text: &str, at: usize) -> bool {
    let line = text.get(..at).unwrap_or("");
    let line = line.rsplit('\n').next().unwrap_or("");
    line.chars().all(|c| c == ' ')
}
