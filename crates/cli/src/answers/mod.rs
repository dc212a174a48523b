//! What the answers of `diff`, `ask` and `check --rules` share: chains that are loaded to be asked about, rules and
//! packets in words.

#[cfg(test)]
mod brute;
pub mod packet;
pub mod subject;

use crate::program;
use onefold_element::GraphSpec;
use onefold_synth::Program;
use onefold_synth::program::Origin;
use serde_json::{Value, json};

/// Longest text of a rule that is printed, in characters.
const MAX_TEXT: usize = 100;

/// A rule of the operator's: where it stands, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The element, with its function.
    pub element: String,
    /// The file that has it.
    pub file: String,
    /// The line there; 0 where it is not known.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// What stands there, as it came to the element.
    pub text: String,
}

impl Told {
    /// An element's argument, or the element.
    pub fn of(spec: &GraphSpec, o: &Origin) -> Told {
        let mut loc = program::location(spec, o);
        // the chain that a rule file stands for is in no file: what it says is what happens where no rule fits
        if let Some(name) = loc.file.strip_prefix(subject::FIREWALL) {
            loc.file = name.trim_end_matches(')').into();
            (loc.line, loc.column) = (0, 0);
        }
        let e = spec.elements.get(o.elem.0 as usize);
        let arg = o.arg.and_then(|a| e?.args.get(a as usize));
        Told {
            element: e.map_or("?", |e| &e.name).to_string(),
            file: loc.file.to_string(),
            line: loc.line,
            column: loc.column,
            text: arg.map_or_else(String::new, |a| short(a)),
        }
    }

    /// The rule that decided last about the packets of a program's rule.
    pub fn deciding(spec: &GraphSpec, p: &Program, stage: usize, rule: usize) -> Option<Told> {
        let r = p.stages.get(stage)?.rules.get(rule)?;
        let last = r.origin.iter().rev().find(|o| o.arg.is_some());
        last.or(r.origin.last()).map(|o| Told::of(spec, o))
    }

    /// `file:line`, or the element where that is not known.
    pub fn place(&self) -> String {
        match self.line {
            0 if self.text.is_empty() => self.element.clone(),
            0 => format!("{} where no rule fits:", self.file),
            n => format!("{}:{n}", self.file),
        }
    }

    /// The place, and what stands there.
    pub fn words(&self) -> String {
        match self.text.is_empty() {
            true => format!("{} ({})", self.place(), self.element),
            false => format!("{} `{}`", self.place(), self.text),
        }
    }

    /// For machines.
    pub fn json(&self) -> Value {
        json!({
            "element": self.element,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "text": self.text,
        })
    }
}

/// A text on one line, not too long.
pub fn short(s: &str) -> String {
    let s = s.split_whitespace().collect::<Vec<_>>().join(" ");
    match s.chars().count() > MAX_TEXT {
        true => s.chars().take(MAX_TEXT - 3).chain("...".chars()).collect(),
        false => s,
    }
}
