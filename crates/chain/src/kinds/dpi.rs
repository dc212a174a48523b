//! `dpi`: looks into payloads, both ways between port 0 (inside) and port 1 (outside).
//!
//! Patterns are given in the chain file, or as rules of Snort or Suricata; both become rules of `PayloadFilter`, which
//! are asked in order: the first `pass` or `drop` decides, `alert` sends a copy to port 2 (if `alerts` is set) and goes
//! on. Frames that are neither IPv4 nor IPv6 pass.

use super::{ClickText, KindCx};
use crate::file::Loc;
use crate::import::snort;
use crate::rules::{self, ListedRule};
use onefold_click::diag::Diagnostic;
use onefold_elements::payload::filter::rule::{compile, quote};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Ports: 0 inside, 1 outside, 2 (with `alerts`) copies of packets that an alert is about. Frames are passed on
/// unchanged.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dpi {
    /// Patterns, in order; they are asked before the rules of files.
    pub patterns: Option<Vec<Loc<Pattern>>>,
    /// Files with rules of Snort or Suricata, in the order in which they are asked.
    pub rules_files: Option<Vec<Loc<String>>>,
    /// Values of variables in rule files, without the dollar sign: `HOME_NET: "[10.0.0.0/8,192.168.0.0/16]"`.
    #[serde(default)]
    pub variables: indexmap::IndexMap<String, String>,
    /// Rules with `flow` (state and direction of connections, which are not tracked): refused, or taken as if it were
    /// not there.
    #[serde(default)]
    pub flow: Flow,
    /// Rules that cannot be expressed are left out with one warning that counts and names them, instead of being
    /// errors.
    #[serde(default)]
    pub skip_unsupported: bool,
    /// Port 2 gives a copy of each packet that an `alert` is about.
    #[serde(default)]
    pub alerts: bool,
}

/// What to do with `flow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// A rule with it cannot be expressed.
    #[default]
    Refuse,
    /// It is ignored: the rule matches packets of any connection, either way.
    Ignore,
}

/// One pattern. With several of `text`, `hex` and `regex`, all must be there.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pattern {
    /// What happens.
    pub action: Action,
    /// What it is called, in traces and counts.
    pub name: Option<String>,
    /// This text occurs.
    pub text: Option<Loc<String>>,
    /// These bytes occur: `4d 5a 90`.
    pub hex: Option<Loc<String>>,
    /// This regular expression matches (over bytes; `(?i)`, `(?s)` ... as usual).
    pub regex: Option<Loc<String>>,
    /// Letters of `text` and `regex` match in either case.
    #[serde(default)]
    pub ignore_case: bool,
    /// `text` or `hex` stands at or behind this byte of the payload.
    pub offset: Option<Loc<u32>>,
    /// `text` or `hex` ends within so many bytes from `offset`.
    pub depth: Option<Loc<u32>>,
    /// Only packets of this expression in IPFilter's language; such a pattern does not match IPv6 packets.
    pub filter: Option<Loc<String>>,
    /// Only packets that go this way.
    #[serde(default)]
    pub direction: Direction,
}

/// What a pattern does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The packet is dropped.
    Drop,
    /// A copy goes to port 2, and the search goes on.
    Alert,
    /// The packet passes; later patterns are not asked.
    Pass,
}

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Either way.
    #[default]
    Both,
    /// From port 0 to port 1.
    Out,
    /// From port 1 to port 0.
    In,
}

/// A rule's text and its place.
struct Line {
    text: String,
    file: String,
    line: u32,
    direction: Direction,
    /// As the operator wrote it.
    written: Arc<str>,
}

impl Dpi {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        if self.patterns.is_none() && self.rules_files.is_none() {
            cx.error_whole("give 'patterns', 'rules-files', or both");
            return String::new();
        }
        let mut lines = Vec::new();
        for p in self.patterns.iter().flatten() {
            if let Some(text) = pattern(cx, p) {
                let l = cx.reader.sources.locate(cx.at(p));
                lines.push(Line {
                    written: rules::shown(&text),
                    text,
                    file: l.file,
                    line: l.line,
                    direction: p.value.direction,
                });
            }
        }
        for f in self.rules_files.iter().flatten() {
            self.rules(cx, f, &mut lines);
        }
        let mut t = ClickText::new();
        t.line("up_out :: ToDevice(1);");
        t.line("down_out :: ToDevice(0);");
        if self.alerts {
            t.line("alerts :: ToDevice(2);");
        }
        for (name, from, way) in [("up", 0, Direction::Out), ("down", 1, Direction::In)] {
            t.line(format!(
                "FromDevice({from}) -> {name} :: Classifier(12/0800, 12/86dd, -);"
            ));
            t.line(format!("{name}_dpi :: PayloadFilter("));
            let here: Vec<&Line> = lines
                .iter()
                .filter(|l| l.direction == way || l.direction == Direction::Both)
                .collect();
            for (i, l) in here.iter().enumerate() {
                let comma = if i + 1 < here.len() { "," } else { "" };
                t.line_from(&l.file, l.line, format!("{}{comma}", l.text));
            }
            let rule = |(argument, l): (usize, &&Line)| ListedRule {
                element: format!("{name}_dpi"),
                argument,
                text: l.written.clone(),
                policy: false,
                place: None,
            };
            cx.rules.extend(here.iter().enumerate().map(rule));
            t.line(");");
            t.line(format!(
                "{name}[0] -> Strip(14) -> CheckIPHeader -> {name}_dpi;"
            ));
            t.line(format!(
                "{name}[1] -> Strip(14) -> CheckIP6Header -> {name}_dpi;"
            ));
            t.line(format!("{name}[2] -> {name}_out;"));
            t.line(format!("{name}_dpi[0] -> Unstrip(14) -> {name}_out;"));
            if self.alerts {
                t.line(format!("{name}_dpi[1] -> Unstrip(14) -> alerts;"));
            }
        }
        t.finish()
    }

    fn rules(&self, cx: &mut KindCx<'_>, f: &Loc<String>, lines: &mut Vec<Line>) {
        let span = cx.at(f);
        let Some((file, text)) = cx.reader.read(&f.value, span) else {
            return;
        };
        let context = snort::Context {
            variables: self
                .variables
                .iter()
                .map(|(k, v)| (k.trim_start_matches('$').to_string(), v.clone()))
                .collect(),
            ignore_flow: self.flow == Flow::Ignore,
        };
        let parsed = snort::parse(&text, &context);
        let name = cx.reader.sources.name(file).to_string();
        snort::report(cx.reader, file, span, &parsed, self.skip_unsupported);
        if parsed.signatures.is_empty() && parsed.refused.is_empty() {
            let d = Diagnostic::warning(format!("{name} has no rules: nothing is looked for"));
            let d = d.at(&cx.reader.sources, span).hint("is it the right file?");
            cx.reader.diagnostics.push(d);
        }
        let written = rules::Lines::of(&text);
        lines.extend(parsed.signatures.iter().map(|s| Line {
            written: (written.text(s.line)).unwrap_or_else(|| rules::shown(&s.argument())),
            text: s.argument(),
            file: name.clone(),
            line: s.line,
            direction: Direction::Both,
        }));
    }
}

/// A pattern as an argument of PayloadFilter.
fn pattern(cx: &mut KindCx<'_>, at: &Loc<Pattern>) -> Option<String> {
    let p = &at.value;
    let action = match p.action {
        Action::Drop => "drop",
        Action::Alert => "alert",
        Action::Pass => "allow",
    };
    let mut s = action.to_string();
    if let Some(n) = &p.name {
        s.push_str(&format!(" NAME {}", quote(n.as_bytes())));
    }
    if let Some(f) = &p.filter {
        cx.warn_of_mixture(f, &f.value);
        s.push_str(&format!(" FILTER {}", quote(f.value.as_bytes())));
    }
    let nocase = if p.ignore_case { " NOCASE" } else { "" };
    let mut literals = Vec::new();
    if let Some(t) = &p.text {
        literals.push((t, t.value.as_bytes().to_vec(), nocase));
    }
    if let Some(h) = &p.hex {
        match hex(&h.value) {
            Some(b) => literals.push((h, b, "")),
            None => cx.error(
                h,
                format!(
                    "hex: expected pairs of hexadecimal digits such as '4d 5a 90', found '{}'",
                    h.value
                ),
            ),
        }
    }
    if literals.is_empty() {
        for (name, v) in [("offset", &p.offset), ("depth", &p.depth)] {
            if let Some(v) = v {
                cx.error(
                    v,
                    format!("{name}: goes with 'text' or 'hex'; write it into the expression"),
                );
            }
        }
    }
    for (v, bytes, nocase) in literals {
        if bytes.is_empty() {
            cx.error(v, "expected at least one byte to look for");
            continue;
        }
        s.push_str(&format!(" LITERAL {}{nocase}", quote(&bytes)));
        if let Some(o) = &p.offset {
            s.push_str(&format!(" OFFSET {}", o.value));
        }
        if let Some(d) = &p.depth {
            if (d.value as usize) < bytes.len() {
                let m = format!(
                    "depth: {} is less than the pattern's {} bytes",
                    d.value,
                    bytes.len()
                );
                cx.error(d, m);
            }
            s.push_str(&format!(" DEPTH {}", d.value));
        }
    }
    if let Some(r) = &p.regex {
        let text = match p.ignore_case {
            true => format!("(?i){}", r.value),
            false => r.value.clone(),
        };
        if let Err(e) = compile(&text) {
            cx.error(r, format!("regex: {}", e.trim_start_matches("REGEX: ")));
        }
        s.push_str(&format!(" REGEX {}", quote(text.as_bytes())));
    }
    if p.text.is_none() && p.hex.is_none() && p.regex.is_none() && p.filter.is_none() {
        cx.error(at, "a pattern needs 'text', 'hex', 'regex' or 'filter'");
        return None;
    }
    Some(s)
}

fn hex(s: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = s
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    Some(pairs.map(|p| p[0] << 4 | p[1]).collect())
}
