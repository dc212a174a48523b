//! The flat configuration as Click's `flatconfig` handler prints it: declarations, then connections as chains.

use onefold_element::GraphSpec;
use std::collections::HashMap;
use std::fmt::Write;

/// The text of a flat graph.
pub(crate) fn flat_config(spec: &GraphSpec, requirements: &[(String, String)]) -> String {
    let mut s = String::new();
    if !requirements.is_empty() {
        let one = |(kind, value): &(String, String)| match value.is_empty() {
            true => kind.clone(),
            false => format!("{kind} {value}"),
        };
        let all: Vec<String> = requirements.iter().map(one).collect();
        // writing to a String cannot fail
        let _ = write!(s, "require({});\n\n", all.join(", "));
    }
    for e in &spec.elements {
        let _ = match e.args.is_empty() {
            true => writeln!(s, "{} :: {};", e.name, e.class),
            false => writeln!(s, "{} :: {}({});", e.name, e.class, e.args.join(", ")),
        };
    }
    if !spec.elements.is_empty() {
        s.push('\n');
    }
    // sorted by input, as Click keeps them once a graph is initialized
    let mut conns: Vec<_> = spec.connections.iter().map(|c| (c.to, c.from)).collect();
    conns.sort();
    conns.dedup();
    let mut by_from: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
    for (i, (_, from)) in conns.iter().enumerate() {
        by_from.entry(*from).or_default().push(i);
    }
    // a chain goes on from input 0 of an element at the output with the same number
    let mut next = vec![None; conns.len()];
    let mut starts = vec![true; conns.len()];
    for (i, (to, _)) in conns.iter().enumerate() {
        if to.1 != 0 {
            continue;
        }
        let candidates = by_from.get(to).map_or(&[][..], |v| v);
        let others = || candidates.iter().copied().filter(|d| *d != i);
        let straight = others().find(|d| conns[*d].0.1 == 0);
        if let Some(d) = straight.or_else(|| others().next_back()) {
            next[i] = Some(d);
            starts[d] = false;
        }
    }
    let name = |e: usize| spec.elements.get(e).map_or("?", |e| e.name.as_str());
    let mut used = vec![false; conns.len()];
    // second round: what is left are cycles, each begun at its first connection
    for round in 0..2 {
        for i in 0..conns.len() {
            if used[i] || (round == 0 && !starts[i]) {
                continue;
            }
            let from = conns[i].1;
            s.push_str(name(from.0));
            if from.1 != 0 {
                let _ = write!(s, " [{}]", from.1);
            }
            let mut at = Some(i);
            while let Some(d) = at.filter(|d| !used[*d]) {
                s.push_str(if d == i { " -> " } else { "\n    -> " });
                let to = conns[d].0;
                if to.1 != 0 {
                    let _ = write!(s, "[{}] ", to.1);
                }
                s.push_str(name(to.0));
                used[d] = true;
                at = next[d];
            }
            s.push_str(";\n");
        }
    }
    s
}
