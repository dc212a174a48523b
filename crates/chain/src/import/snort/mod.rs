//! Rules of Snort and Suricata: the header, `content` with its modifiers, `pcre`, and the options on header fields.
//!
//! A rule becomes a rule of `PayloadFilter`. It is looked at packet by packet; streams are not put together. What
//! cannot be said of one packet (`flow`, `flowbits`, `threshold` ...) or needs a protocol's parser (`http_uri`,
//! `dns_query` ...) is not supported, and the rule is refused with the name of every such option.

mod header;
mod options;
mod pcre;
#[cfg(test)]
mod tests;

use crate::error::Reader;
use onefold_click::diag::Diagnostic;
use onefold_click::source::{FileId, Span};
use std::collections::BTreeMap;

/// Most rules in one file.
pub const MAX_RULES: usize = 200_000;
/// Longest rule, in bytes, lines joined.
pub const MAX_RULE_BYTES: usize = 1 << 16;

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The packet passes, no later rule is asked.
    Pass,
    /// The packet is dropped.
    Drop,
    /// A copy of the packet is sent to where alerts go.
    Alert,
}

/// A rule, as far as PayloadFilter needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// What it does.
    pub action: Action,
    /// Its number.
    pub sid: Option<u32>,
    /// Its message.
    pub msg: String,
    /// Conditions on headers, as an IPFilter expression; empty if there are none.
    pub filter: String,
    /// Conditions on the payload, in PayloadFilter's language.
    pub conditions: Vec<String>,
    /// Line of the file that it begins in, from 1.
    pub line: u32,
}

impl Signature {
    /// The rule's name in traces and counts.
    pub fn name(&self) -> String {
        match self.sid {
            Some(s) => format!("sid {s}: {}", self.msg),
            None => self.msg.clone(),
        }
    }

    /// As an argument of PayloadFilter.
    pub fn argument(&self) -> String {
        use onefold_elements::payload::filter::rule::quote;
        let action = match self.action {
            Action::Pass => "allow",
            Action::Drop => "drop",
            Action::Alert => "alert",
        };
        let mut s = format!("{action} NAME {}", quote(self.name().as_bytes()));
        if !self.filter.is_empty() {
            s.push_str(&format!(" FILTER {}", quote(self.filter.as_bytes())));
        }
        for c in &self.conditions {
            s.push(' ');
            s.push_str(c);
        }
        s
    }
}

/// A rule that cannot be expressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Line of the file that it begins in, from 1.
    pub line: u32,
    /// Its number, if it could be read.
    pub sid: Option<u32>,
    /// Everything that stands against it, short and stable enough to be counted: `option 'http_uri'`.
    pub reasons: Vec<String>,
}

/// What was read from a rule file.
#[derive(Debug, Clone, Default)]
pub struct Parsed {
    /// What can be expressed: `pass` rules before `drop` rules before `alert` rules, as these systems order them,
    /// otherwise as in the file.
    pub signatures: Vec<Signature>,
    /// What cannot.
    pub refused: Vec<Refused>,
}

/// What rules refer to, and how they are to be understood.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// `HOME_NET` -> `[10.0.0.0/8,192.168.0.0/16]`, without the dollar sign.
    pub variables: BTreeMap<String, String>,
    /// Rules with `flow` are taken as if it were not there.
    pub ignore_flow: bool,
}

/// Reads rules. Comments, disabled ones too, are passed over; a backslash at the end of a line joins it with the next.
pub fn parse(text: &str, cx: &Context) -> Parsed {
    let mut out = Parsed::default();
    let mut joined = String::new();
    let mut first = 0;
    for (i, l) in text.lines().enumerate() {
        let l = l.trim();
        if joined.is_empty() {
            first = i as u32 + 1;
            if l.is_empty() || l.starts_with('#') {
                continue;
            }
        }
        if joined.len() + l.len() > MAX_RULE_BYTES {
            let reason = format!("longer than {MAX_RULE_BYTES} bytes");
            refuse(&mut out, first, None, vec![reason]);
            joined.clear();
            continue;
        }
        if let Some(part) = l.strip_suffix('\\') {
            joined.push_str(part);
            joined.push(' ');
            continue;
        }
        joined.push_str(l);
        let rule = std::mem::take(&mut joined);
        read(&rule, first, cx, &mut out);
    }
    if !joined.trim().is_empty() {
        read(&joined, first, cx, &mut out);
    }
    out.signatures.sort_by_key(|s| s.action);
    out
}

/// Says which rules of a file cannot be expressed: each where it stands, as an error; or, if they are to be skipped,
/// all in one warning at `span` that counts them and lists their numbers by reason.
pub fn report(reader: &mut Reader, file: FileId, span: Span, parsed: &Parsed, skip: bool) {
    const SHOWN: usize = 50;
    let n = parsed.refused.len();
    if n == 0 {
        return;
    }
    let who = |r: &Refused| {
        r.sid
            .map_or(format!("line {}", r.line), |s| format!("sid {s}"))
    };
    let total = n + parsed.signatures.len();
    if skip {
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for r in &parsed.refused {
            for reason in &r.reasons {
                by_reason.entry(reason).or_default().push(who(r));
            }
        }
        let lines: Vec<String> = by_reason
            .iter()
            .map(|(reason, rules)| format!("{reason} ({}): {}", rules.len(), rules.join(", ")))
            .collect();
        let name = reader.sources.name(file).to_string();
        let d = Diagnostic::warning(format!("{n} of {total} rules of {name} are skipped"));
        let d = lines
            .into_iter()
            .fold(d.at(&reader.sources, span), Diagnostic::note);
        reader.diagnostics.push(d);
        return;
    }
    for r in parsed.refused.iter().take(SHOWN) {
        let at = reader.line_span(file, r.line as usize);
        reader.error(
            at,
            format!("{} is not supported: {}", who(r), r.reasons.join(", ")),
        );
    }
    if n > SHOWN {
        reader.error(
            span,
            format!("and {} more rules are not supported", n - SHOWN),
        );
    }
    reader.error_hint(
        span,
        format!("{n} of {total} rules cannot be expressed"),
        "'skip-unsupported: true' leaves them out; 'flow: ignore' takes rules as if they had no 'flow'",
    );
}

fn refuse(out: &mut Parsed, line: u32, sid: Option<u32>, reasons: Vec<String>) {
    out.refused.push(Refused { line, sid, reasons });
}

fn read(text: &str, line: u32, cx: &Context, out: &mut Parsed) {
    if out.signatures.len() + out.refused.len() >= MAX_RULES {
        if out.signatures.len() + out.refused.len() == MAX_RULES {
            refuse(
                out,
                line,
                None,
                vec![format!("more than {MAX_RULES} rules")],
            );
        }
        return;
    }
    let (head, body) = match text.split_once('(') {
        Some((h, b)) => match b.trim_end().strip_suffix(')') {
            Some(b) => (h, b),
            None => return refuse(out, line, None, vec!["no ')' at the end".into()]),
        },
        None => return refuse(out, line, None, vec!["no options in parentheses".into()]),
    };
    let mut reasons = Vec::new();
    let h = header::parse(head, cx, &mut reasons);
    let o = options::parse(body, cx, &mut reasons);
    let mut seen = Vec::new();
    reasons.retain(|r| {
        !seen.contains(r) && {
            seen.push(r.clone());
            true
        }
    });
    match h {
        Some(h) if reasons.is_empty() => {
            let mut tests = h.tests;
            tests.extend(o.tests);
            out.signatures.push(Signature {
                action: h.action,
                sid: o.sid,
                msg: o.msg,
                filter: tests.join(" && "),
                conditions: o.conditions,
                line,
            });
        }
        _ => refuse(out, line, o.sid, reasons),
    }
}
