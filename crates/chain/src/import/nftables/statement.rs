//! The statements of a rule: what becomes of the packets that it takes.

use super::cases::Case;
use super::changes;
use super::expr::{Draft, Reader};
use crate::import::chains::{ChainRule, Target};
use crate::import::mark::{Change, MarkTest};
use crate::import::rule::Verdict;
use serde_json::Value;

/// A rule while its statements are read.
struct Reading {
    draft: Draft,
    target: Target,
    /// Several rules, one behind the other ([`super::cases`]).
    cases: Option<Vec<Case>>,
    /// What it changes.
    made: Vec<Change>,
}

impl Reading {
    /// Why a statement cannot follow those before it.
    fn obstacle(&self, kind: &str) -> Option<String> {
        let mapped = |c: &Vec<Case>| c.iter().any(|c| c.target.is_some());
        if self.cases.as_ref().is_some_and(mapped) && !matches!(kind, "counter" | "log") {
            return Some(format!("statement '{kind}' behind 'vmap' is not supported"));
        }
        let asks = matches!(kind, "match" | "vmap");
        (!self.made.is_empty() && asks)
            .then(|| format!("'{kind}' behind a statement that changes packets is not supported"))
    }
}

impl Reader<'_> {
    /// Reads a rule, which may be several one behind the other ([`super::cases`]). None: it is about the other family.
    pub fn rule(
        &mut self,
        body: &Value,
        table: &str,
        line: u32,
    ) -> Result<Vec<ChainRule>, Vec<String>> {
        let mut r = Reading {
            draft: Draft::default(),
            target: Target::Nothing,
            cases: None,
            made: Vec::new(),
        };
        let mut errors = Vec::new();
        let all = body.get("expr").and_then(Value::as_array);
        for e in all.into_iter().flatten() {
            let Some((kind, v)) = e.as_object().and_then(|m| m.iter().next()) else {
                errors.push("an expression that is no object".to_string());
                continue;
            };
            let read = match r.obstacle(kind) {
                Some(text) => Err(text),
                None => self.statement(kind, v, table, &mut r),
            };
            errors.extend(read.err());
        }
        let d = r.draft;
        if d.never {
            return Ok(Vec::new());
        }
        let segments = |c: &Change| matches!(c, Change::Header(e) if e.starts_with("SetTCPMSS"));
        if r.made.iter().any(segments) && r.target != Target::Nothing {
            // what cannot be set ends the rule, so that its verdict is not reached
            errors.push(
                "a verdict behind 'tcp option maxseg size set' is not supported: give it a rule of its own".into(),
            );
        }
        // what may come to no packet is refused where one comes to it
        let idle = !d.marks.is_empty() || !d.interfaces.is_empty();
        if !errors.is_empty() && !idle {
            return Err(errors);
        }
        let refused = (!errors.is_empty()).then(|| errors.join("; "));
        let one = Case {
            tests: Vec::new(),
            interfaces: Vec::new(),
            own: Vec::new(),
            marks: Vec::new(),
            target: None,
        };
        let rule = |case: Case| ChainRule {
            tests: d.tests.iter().cloned().chain(case.tests).collect(),
            interfaces: [d.interfaces.clone(), case.interfaces].concat(),
            own: [d.own.clone(), case.own].concat(),
            marks: [d.marks.clone(), case.marks].concat(),
            changes: r.made.clone(),
            refused: refused.clone(),
            target: case.target.unwrap_or_else(|| r.target.clone()),
            line,
            place: None,
        };
        let cases = r.cases.unwrap_or_else(|| vec![one]);
        Ok(cases.into_iter().map(rule).collect())
    }

    /// Reads one statement.
    fn statement(
        &mut self,
        kind: &str,
        v: &Value,
        table: &str,
        r: &mut Reading,
    ) -> Result<(), String> {
        let several = kind == "vmap" || v.get("left").is_some_and(|l| l.get("concat").is_some());
        match kind {
            _ if several && r.cases.is_some() => {
                return Err("a rule with several maps or concatenations is not supported".into());
            }
            "match" if several => {
                let cases = self.concatenated(v, table, &mut r.draft)?;
                r.cases = cases.or(r.cases.take());
            }
            "match" => self.comparison(v, table, &mut r.draft)?,
            "mangle" => match changes::change(v, (self.family, self.interfaces))? {
                Some(c) => {
                    // without a connection, what is read of it ends the rule
                    let reads = match &c {
                        Change::PacketMark(v) | Change::ConnectionMark(v) => v.connection != 0,
                        _ => false,
                    };
                    r.draft.marks.extend(reads.then(MarkTest::connected));
                    r.made.push(c);
                }
                None => r.draft.never = true,
            },
            "notrack" => r.made.push(Change::Untrack),
            "counter" | "continue" => {}
            "log" => self.logs += 1,
            "accept" | "drop" | "reject" | "return" | "jump" | "goto" => {
                self.rejects += usize::from(kind == "reject");
                r.target = self.verdict(kind, v, table)?;
            }
            "snat" | "dnat" | "masquerade" | "redirect" if self.nat => {
                match super::nat::target(kind, v, self.family)? {
                    Some(t) => r.target = Target::Nat(t),
                    None => r.draft.never = true,
                }
            }
            "vmap" => r.cases = Some(self.verdict_map(v, table, &r.draft)?),
            other => return Err(format!("statement '{other}' is not supported")),
        }
        Ok(())
    }

    /// What a statement, or a verdict of a map, does with packets.
    pub(super) fn verdict(&self, kind: &str, v: &Value, table: &str) -> Result<Target, String> {
        let goal = || {
            let name = v.get("target").and_then(Value::as_str).unwrap_or("");
            super::key(table, name)
        };
        Ok(match kind {
            "accept" => Target::Verdict(Verdict::Allow),
            "drop" | "reject" => Target::Verdict(Verdict::Deny),
            "return" => Target::Return,
            "jump" => Target::Jump(goal()),
            "goto" => Target::Goto(goal()),
            "continue" => Target::Nothing,
            other => return Err(format!("verdict '{other}' is not supported")),
        })
    }
}
