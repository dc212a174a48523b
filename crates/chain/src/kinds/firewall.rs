//! `firewall`: lets packets pass between port 0 (inside) and port 1 (outside) by an ordered rule set; the first match decides.

use super::{ClickText, KindCx};
use crate::file::Loc;
use crate::import::{RuleFormat, RuleSet, Verdict, click_list, read_rules};
use onefold_click::source::Span;
use schemars::JsonSchema;
use serde::Deserialize;

/// Ports: 0 inside, 1 outside. Frames are passed on unchanged.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Firewall {
    /// Rules for IPv4, in order: `allow EXPRESSION` or `deny EXPRESSION` in IPFilter's language.
    pub rules: Option<Vec<Loc<String>>>,
    /// A file with rules for IPv4.
    pub rules_file: Option<Loc<String>>,
    /// How that file is written.
    #[serde(default)]
    pub format: RuleFormat,
    /// For rule files without verdicts: every N-th rule denies, the others allow. 0: all allow.
    #[serde(default)]
    pub deny_every: u32,
    /// Rules for IPv6, in order, in IP6Filter's language. Without them IPv6 is treated as `other` says.
    pub rules6: Option<Vec<Loc<String>>>,
    /// What happens to IP packets that no rule matches; `deny` unless the rule file says otherwise.
    pub default: Option<Verdict>,
    /// What the rules say of traffic from port 1 to port 0: the same rules, or everything passes, or nothing.
    #[serde(default)]
    pub back: Back,
    /// What happens to ARP; it passes unless told otherwise.
    pub arp: Option<Verdict>,
    /// What happens to other non-IPv4 frames.
    pub other: Option<Verdict>,
}

/// Rules for the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Back {
    /// The same rules.
    #[default]
    Same,
    /// Everything passes.
    Allow,
    /// Nothing passes.
    Deny,
}

/// One line of a filter element's configuration, with its place.
type Line = (String, String, u32);

impl Firewall {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        let default = self.default;
        let Some(v4) = self.lines4(cx, default) else {
            return String::new();
        };
        let v6 = self.rules6.as_ref().map(|r| self.inline(cx, r, default));
        let mut t = ClickText::new();
        let arp = self.arp.unwrap_or(Verdict::Allow);
        let other = self.other.unwrap_or(Verdict::Deny);
        let back_all = match self.back {
            Back::Same => None,
            Back::Allow => Some("allow all"),
            Back::Deny => Some("deny all"),
        };
        for (name, from, to) in [("up", 0, 1), ("down", 1, 0)] {
            let only = if name == "down" { back_all } else { None };
            t.line(format!(
                "FromDevice({from}) -> {name} :: Classifier(12/0800, 12/86dd, 12/0806, -);"
            ));
            t.line(format!("{name}_out :: ToDevice({to});"));
            t.line(format!(
                "{name}[0] -> Strip(14) -> CheckIPHeader -> {name}_rules :: IPFilter("
            ));
            filter_lines(&mut t, &v4, only);
            t.line(format!(") -> Unstrip(14) -> {name}_out;"));
            match &v6 {
                Some(lines) => {
                    t.line(format!(
                        "{name}[1] -> Strip(14) -> CheckIP6Header -> {name}_rules6 :: IP6Filter("
                    ));
                    filter_lines(&mut t, lines, only);
                    t.line(format!(") -> Unstrip(14) -> {name}_out;"));
                }
                None => verdict(&mut t, &format!("{name}[1]"), other, name),
            }
            verdict(&mut t, &format!("{name}[2]"), arp, name);
            verdict(&mut t, &format!("{name}[3]"), other, name);
        }
        t.finish()
    }

    fn lines4(&self, cx: &mut KindCx<'_>, default: Option<Verdict>) -> Option<Vec<Line>> {
        match (&self.rules, &self.rules_file) {
            (Some(r), None) => Some(self.inline(cx, r, default)),
            (None, Some(f)) => {
                let span = cx.at(f);
                let (file, text) = cx.reader.read(&f.value, span)?;
                let set = read_rules(cx.reader, file, &text, self.format, self.deny_every, span)?;
                Some(set_lines(cx, file, &set, default, span))
            }
            _ => {
                cx.error_whole(
                    "give the rules either inline ('rules') or in a file ('rules-file')",
                );
                None
            }
        }
    }

    fn inline(
        &self,
        cx: &mut KindCx<'_>,
        rules: &[Loc<String>],
        default: Option<Verdict>,
    ) -> Vec<Line> {
        let mut out = Vec::new();
        for r in rules {
            let l = cx.reader.sources.locate(cx.at(r));
            match click_list::parse_rule(r.value.trim()) {
                Ok((v, f)) => out.push((format!("{} {f}", v.action()), l.file, l.line)),
                Err(e) => cx.error(r, e),
            }
        }
        let l = cx.reader.sources.locate(cx.span);
        out.push((
            format!("{} all", default.unwrap_or(Verdict::Deny).action()),
            l.file,
            l.line,
        ));
        out
    }
}

fn set_lines(
    cx: &KindCx<'_>,
    file: onefold_click::source::FileId,
    set: &RuleSet,
    default: Option<Verdict>,
    span: Span,
) -> Vec<Line> {
    let name = cx.reader.sources.name(file).to_string();
    let mut out: Vec<Line> = set
        .rules
        .iter()
        .map(|r| {
            (
                format!("{} {}", r.verdict.action(), r.filter),
                name.clone(),
                r.line,
            )
        })
        .collect();
    let l = cx.reader.sources.locate(span);
    let last = default.or(set.default).unwrap_or(Verdict::Deny);
    out.push((format!("{} all", last.action()), l.file, l.line));
    out
}

fn filter_lines(t: &mut ClickText, lines: &[Line], only: Option<&str>) {
    if let Some(all) = only {
        t.line(all);
        return;
    }
    for (i, (text, file, line)) in lines.iter().enumerate() {
        let comma = if i + 1 < lines.len() { "," } else { "" };
        t.line_from(file, *line, format!("{text}{comma}"));
    }
}

fn verdict(t: &mut ClickText, from: &str, v: Verdict, name: &str) {
    match v {
        Verdict::Allow => t.line(format!("{from} -> {name}_out;")),
        Verdict::Deny => t.line(format!("{from} -> Discard;")),
    };
}
