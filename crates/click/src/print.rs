//! A flat graph as Click text.

use crate::conf;
use crate::graph::{FlatGraph, PortRef};
use std::collections::HashMap;
use std::fmt::Write;

impl FlatGraph {
    /// The graph as a Click configuration, in the form that `click-flatten` writes: requirements, definitions (if
    /// references to them were kept), declarations, each after a line directive that says where it was written, and
    /// connections, chained where possible.
    pub fn to_click_text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        if !self.requirements.is_empty() {
            out.push_str("require(");
            for (i, r) in self.requirements.iter().enumerate() {
                write!(out, "{}{}", if i > 0 { ", " } else { "" }, r.kind)?;
                if !r.value.is_empty() {
                    write!(out, " {}", conf::quote(r.value.as_bytes()))?;
                }
            }
            out.push_str(");\n\n");
        }
        if self.defines_kept && !self.defines.is_empty() {
            out.push_str("define(");
            for (i, (name, value)) in self.defines.iter().enumerate() {
                write!(out, "{}${name} {value}", if i > 0 { ", " } else { "" })?;
            }
            out.push_str(");\n\n");
        }
        for e in &self.elements {
            let (file, line) = self.sources.line_of(e.span);
            writeln!(out, "# {line} {}", quote_file(file))?;
            write!(out, "{} :: {}", e.name, e.class)?;
            if !e.config.is_empty() {
                write!(out, "({})", e.config)?;
            }
            out.push_str(";\n");
        }
        if !self.connections.is_empty() {
            let lines = out.bytes().filter(|&c| c == b'\n').count();
            writeln!(out, "# {} \"\"", lines + 2)?;
            self.write_connections(out)?;
        }
        Ok(())
    }

    fn write_connections(&self, out: &mut String) -> std::fmt::Result {
        let conns = &self.connections;
        let mut leaving: HashMap<PortRef, Vec<usize>> = HashMap::new();
        for (i, c) in conns.iter().enumerate() {
            leaving.entry(c.from).or_default().push(i);
        }
        // A chain goes on from input 0 to a connection that leaves output 0 of the same element.
        let mut next: Vec<Option<usize>> = vec![None; conns.len()];
        let mut starts = vec![true; conns.len()];
        for (i, c) in conns.iter().enumerate() {
            if c.to.port != 0 {
                continue;
            }
            let candidates = leaving.get(&c.to).map_or(&[][..], |v| v);
            let to_first = candidates
                .iter()
                .find(|&&d| d != i && conns.get(d).is_some_and(|d| d.to.port == 0));
            let found = to_first
                .or_else(|| candidates.iter().rev().find(|&&d| d != i))
                .copied();
            if let Some(found) = found {
                next[i] = Some(found);
                starts[found] = false;
            }
        }
        let mut used = vec![false; conns.len()];
        let first = (0..conns.len()).filter(|&i| starts[i]);
        // Those left over are in cycles.
        for start in first.chain(0..conns.len()) {
            if used[start] {
                continue;
            }
            let name = |port: PortRef| {
                self.elements
                    .get(port.element)
                    .map_or("", |e| e.name.as_str())
            };
            let from = conns[start].from;
            out.push_str(name(from));
            if from.port > 0 {
                write!(out, " [{}]", from.port)?;
            }
            let mut at = Some(start);
            while let Some(i) = at.filter(|&i| !used[i]) {
                out.push_str(if i == start { " -> " } else { "\n    -> " });
                let to = conns[i].to;
                if to.port > 0 {
                    write!(out, "[{}] ", to.port)?;
                }
                out.push_str(name(to));
                used[i] = true;
                at = next[i];
            }
            out.push_str(";\n");
        }
        Ok(())
    }
}

/// A file name in a line directive.
fn quote_file(name: &str) -> String {
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' | '$' => out.extend(['\\', c]),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
