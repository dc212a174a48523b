//! A graph as it is written, before any element exists: what the language and the chain produce, and what the engine
//! (and the synthesizer) builds from.

use crate::Port;
use crate::source_loc::SourceLoc;
use std::fmt::Write;

/// One element to be made.
#[derive(Debug, Clone, Default)]
pub struct ElementSpec {
    /// Full name; compounds (and network functions) are path components: `fw/rules`, `nat/in/c0`.
    pub name: String,
    /// Class name.
    pub class: String,
    /// The configuration's arguments, split, trimmed and free of comments.
    pub args: Vec<String>,
    /// Where each argument was written (same length as `args`, or empty when unknown): generated configurations point
    /// at the rule file's line.
    pub arg_locs: Vec<SourceLoc>,
    /// Where the element was declared.
    pub decl: SourceLoc,
}

/// A connection from an output to an input; indices into [`GraphSpec::elements`].
#[derive(Debug, Clone, Default)]
pub struct ConnectionSpec {
    /// Element and output port.
    pub from: (usize, Port),
    /// Element and input port.
    pub to: (usize, Port),
    /// Where it was written.
    pub loc: SourceLoc,
}

/// A flat graph.
#[derive(Debug, Clone, Default)]
pub struct GraphSpec {
    /// Elements, in order of declaration.
    pub elements: Vec<ElementSpec>,
    /// Connections, in order of declaration.
    pub connections: Vec<ConnectionSpec>,
}

impl GraphSpec {
    /// Index of an element by its full name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|e| e.name == name)
    }

    /// Where argument `index` of element `element` was written; its declaration when that is not known.
    pub fn arg_loc(&self, element: usize, index: usize) -> SourceLoc {
        let e = match self.elements.get(element) {
            Some(e) => e,
            None => return SourceLoc::default(),
        };
        e.arg_locs.get(index).unwrap_or(&e.decl).clone()
    }

    /// The graph as a flat Click configuration.
    pub fn to_click_text(&self) -> String {
        let mut out = String::new();
        for e in &self.elements {
            // writing to a String cannot fail
            let _ = match e.args.is_empty() {
                true => writeln!(out, "{} :: {};", e.name, e.class),
                false => writeln!(out, "{} :: {}({});", e.name, e.class, e.args.join(", ")),
            };
        }
        out.push('\n');
        for c in &self.connections {
            let name = |i: usize| self.elements.get(i).map_or("?", |e| e.name.as_str());
            let from = match c.from.1 {
                0 => name(c.from.0).to_string(),
                p => format!("{} [{p}]", name(c.from.0)),
            };
            let to = match c.to.1 {
                0 => name(c.to.0).to_string(),
                p => format!("[{p}] {}", name(c.to.0)),
            };
            let _ = writeln!(out, "{from} -> {to};");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_flat_click() {
        let e = |name: &str, class: &str, args: &[&str]| ElementSpec {
            name: name.into(),
            class: class.into(),
            args: args.iter().map(|a| a.to_string()).collect(),
            ..Default::default()
        };
        let g = GraphSpec {
            elements: vec![
                e("nf/c", "Classifier", &["12/0800", "-"]),
                e("d", "Discard", &[]),
            ],
            connections: vec![ConnectionSpec {
                from: (0, 1),
                to: (1, 0),
                ..Default::default()
            }],
        };
        let text = g.to_click_text();
        assert_eq!(
            text,
            "nf/c :: Classifier(12/0800, -);\nd :: Discard;\n\nnf/c [1] -> d;\n"
        );
        assert_eq!(g.find("d"), Some(1));
    }
}
