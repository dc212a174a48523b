//! Where the elements of a function stand, for the operator: a line of a file that she wrote, never one of a text that
//! was made from it.

use crate::stitch::Part;
use onefold_click::source::{SourceMap, Span};
use onefold_element::SourceLoc;
use std::sync::Arc;

/// The name, in messages, of the Click text that a function's kind (`config`: the chain file itself) gives.
pub(crate) fn text_name(function: &str, kind: &str) -> String {
    format!("{function} ({kind})")
}

/// A place of the chain file, or of another that the operator wrote.
pub(crate) fn place(sources: &SourceMap, span: Span) -> SourceLoc {
    let l = sources.locate(span);
    SourceLoc {
        file: l.file.as_str().into(),
        line: l.line,
        column: l.column,
    }
}

/// Places in one function's text.
pub(crate) struct Places<'a> {
    text: &'a SourceMap,
    /// What the text itself is called: what is there belongs to no rule.
    made: String,
    /// The function's own place in the chain file.
    home: SourceLoc,
    /// Where each line of the text stands in the chain file, and by how many columns further right.
    lines: Vec<(u32, u32)>,
    /// File names are kept once: every rule of a large set has a place.
    names: Vec<Arc<str>>,
}

impl<'a> Places<'a> {
    /// Of a function of a chain whose file is among `chain`.
    pub fn new(part: &'a Part, chain: &SourceMap) -> Places<'a> {
        let home = place(chain, part.span);
        let (made, lines) = match part.info.kind {
            "click" => {
                let file = String::from_utf8_lossy(chain.bytes(part.span.file));
                let lines = written_at(&file, &part.info.click, home.line);
                (text_name(&part.info.name, "config"), lines)
            }
            kind => (text_name(&part.info.name, kind), Vec::new()),
        };
        Places {
            text: &part.graph.sources,
            made,
            home,
            lines,
            names: Vec::new(),
        }
    }

    /// The place of a span of the function's text.
    pub fn of(&mut self, span: Span) -> SourceLoc {
        let l = self.text.locate(span);
        if l.file == self.made {
            return match self.lines.get(l.line.saturating_sub(1) as usize) {
                Some((line, right)) => SourceLoc {
                    file: self.home.file.clone(),
                    line: *line,
                    column: l.column + right,
                },
                None => self.home.clone(),
            };
        }
        let found = self.names.iter().find(|n| n.as_ref() == l.file).cloned();
        let file = found.unwrap_or_else(|| {
            let n: Arc<str> = l.file.as_str().into();
            self.names.push(n.clone());
            n
        });
        SourceLoc {
            file,
            line: l.line,
            column: l.column,
        }
    }
}

/// Finds the lines of a configuration that a chain file holds as it is, from line `from` of the file on. Empty if it is
/// not there line by line (YAML may have folded or unescaped it).
fn written_at(file: &str, config: &str, from: u32) -> Vec<(u32, u32)> {
    let wanted: Vec<&str> = config.trim_end().lines().collect();
    let [first, rest @ ..] = &wanted[..] else {
        return Vec::new();
    };
    let lines: Vec<&str> = file.lines().collect();
    let start = from.saturating_sub(1) as usize;
    let fits = |at: &usize| {
        let alike = match rest {
            [] => lines[*at].contains(first.trim()),
            _ => lines[*at].trim() == first.trim(),
        };
        let behind = lines.get(*at + 1..).unwrap_or(&[]);
        alike
            && rest.len() <= behind.len()
            && rest.iter().zip(behind).all(|(w, l)| w.trim() == l.trim())
    };
    let Some(at) = (start..lines.len()).find(fits) else {
        return Vec::new();
    };
    let indent = |s: &str| s.chars().take_while(|c| c.is_whitespace()).count();
    let right = |w: &str, l: &str| match l.find(w.trim()) {
        Some(bytes) => l[..bytes].chars().count().saturating_sub(indent(w)) as u32,
        None => 0,
    };
    let places = wanted.iter().zip(&lines[at..]).enumerate();
    places
        .map(|(n, (w, l))| ((at + n + 1) as u32, right(w, l)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_found_in_the_chain_file() {
        let block =
            "functions:\n  a:\n    click:\n      config: |\n        x :: Y;\n\n          x -> z;\n";
        assert_eq!(
            written_at(block, "x :: Y;\n\n  x -> z;\n", 2),
            [(5, 8), (6, 0), (7, 8)]
        );
        let line = "f:\n  a: { click: { config: \"x :: Y\" } }\n";
        assert_eq!(written_at(line, "x :: Y", 2), [(2, 25)]);
        assert_eq!(written_at(line, "x ::\nY", 2), []);
        assert_eq!(written_at(line, "", 1), []);
    }
}
