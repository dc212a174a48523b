//! Firewall rules, whatever they were written in.

use crate::error::Reader;
use onefold_click::source::{FileId, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// Most rules in one set.
pub const MAX_RULES: usize = 1_000_000;

/// What happens to a packet that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It passes.
    Allow,
    /// It is dropped.
    Deny,
}

impl Verdict {
    /// As IPFilter's action.
    pub fn action(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        }
    }
}

/// One rule: the first that matches decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What happens.
    pub verdict: Verdict,
    /// Which packets: an expression of IPFilter's language (of IP6Filter's in an IPv6 set).
    pub filter: String,
    /// Line of the file that it was read from, from 1.
    pub line: u32,
}

/// An ordered rule set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSet {
    /// The rules.
    pub rules: Vec<Rule>,
    /// What the file itself says about packets that no rule matches.
    pub default: Option<Verdict>,
}

/// How a rule file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleFormat {
    /// Found out from the text.
    #[default]
    Auto,
    /// One `allow EXPRESSION` or `deny EXPRESSION` per line, in IPFilter's language; `#` starts a comment.
    Click,
    /// ClassBench filter sets: `@src/len dst/len lo : hi lo : hi proto/mask flags/mask`, with an optional verdict behind.
    Classbench,
}

/// Guesses a rule file's format from its first line that says anything.
fn detect(text: &str) -> RuleFormat {
    let first = text
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.starts_with('#'));
    match first {
        Some(l) if l.starts_with('@') => RuleFormat::Classbench,
        _ => RuleFormat::Click,
    }
}

/// Reads a rule file. Every `deny_every`-th rule of a format without verdicts denies, the others allow (0: all allow).
/// Errors go to the reader.
pub fn read_rules(
    reader: &mut Reader,
    file: FileId,
    text: &str,
    format: RuleFormat,
    deny_every: u32,
    span: Span,
) -> Option<RuleSet> {
    let format = if format == RuleFormat::Auto {
        detect(text)
    } else {
        format
    };
    let result = match format {
        RuleFormat::Classbench => super::classbench::parse(text, deny_every),
        RuleFormat::Click | RuleFormat::Auto => super::click_list::parse(text),
    };
    match result {
        Ok(set) if set.rules.len() > MAX_RULES => {
            reader.error(span, format!("more than {MAX_RULES} rules"));
            None
        }
        Ok(set) => Some(set),
        Err(errors) => {
            // enough to mend the file; thousands of the same help nobody
            const SHOWN: usize = 20;
            let n = errors.len();
            for (line, message) in errors.into_iter().take(SHOWN) {
                let at = reader.line_span(file, line as usize);
                reader.error(at, message);
            }
            if n > SHOWN {
                reader.error(
                    span,
                    format!("and {} more errors in the rule file", n - SHOWN),
                );
            }
            None
        }
    }
}
