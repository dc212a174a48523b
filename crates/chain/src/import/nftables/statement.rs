//! A rule, statement by statement.

use super::cases::Case;
use super::changes;
use super::expr::{Draft, Reader};
use super::limit::limit;
use crate::import::asks::Question;
use crate::import::chains::{ChainRule, Target};
use crate::import::mark::{Change, MarkTest};
use serde_json::Value;

/// A rule while its statements are read.
struct Rule {
    draft: Draft,
    target: Target,
    /// It is several rules.
    cases: Option<Vec<Case>>,
    /// What it changes.
    made: Vec<Change>,
}

impl Reader<'_> {
    /// Reads a rule, which may be several one behind the other ([`super::cases`]). None: it is about the other family.
    pub fn rule(
        &mut self,
        body: &Value,
        table: &str,
        line: u32,
    ) -> Result<Vec<ChainRule>, Vec<String>> {
        let mut rule = Rule {
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
            if let Err(e) = self.statement((kind, v), table, &mut rule) {
                errors.push(e);
            }
        }
        rule.done(errors, line)
    }

    fn statement(
        &mut self,
        (kind, v): (&str, &Value),
        table: &str,
        rule: &mut Rule,
    ) -> Result<(), String> {
        let mapped = |c: &Vec<Case>| c.iter().any(|c| c.target.is_some());
        if rule.cases.as_ref().is_some_and(mapped) && !matches!(kind, "counter" | "log") {
            return Err(format!("statement '{kind}' behind 'vmap' is not supported"));
        }
        if !rule.made.is_empty() && matches!(kind, "match" | "vmap" | "limit") {
            return Err(format!(
                "'{kind}' behind a statement that changes packets is not supported"
            ));
        }
        let several = kind == "vmap" || v.get("left").is_some_and(|l| l.get("concat").is_some());
        if several && rule.cases.is_some() {
            return Err("a rule with several maps or concatenations is not supported".into());
        }
        let d = &mut rule.draft;
        match kind {
            "match" if several => {
                let cases = self.concatenated(v, table, d)?;
                rule.cases = cases.or(rule.cases.take());
            }
            "match" => self.comparison(v, table, d)?,
            "mangle" => match changes::change(v, (self.family, self.interfaces))? {
                Some(c) => {
                    // without a connection, what is read of it ends the rule
                    let reads = matches!(&c, Change::PacketMark(v) | Change::ConnectionMark(v) if v.connection != 0);
                    d.marks.extend(reads.then(MarkTest::connected));
                    rule.made.push(c);
                }
                None => d.never = true,
            },
            "notrack" => rule.made.push(Change::Untrack),
            "counter" | "continue" => {}
            "log" => self.logs += 1,
            "accept" | "drop" | "reject" | "return" | "jump" | "goto" => {
                self.rejects += usize::from(kind == "reject");
                rule.target = self.verdict(kind, v, table)?;
            }
            "snat" | "dnat" | "masquerade" | "redirect" if self.nat => {
                match super::nat::target(kind, v, self.family, self.redirects)? {
                    Some(t) => rule.target = Target::Nat(t),
                    None => d.never = true,
                }
            }
            "vmap" => rule.cases = Some(self.verdict_map(v, table, d)?),
            "limit" => {
                let question = Question::Limit(limit(v)?);
                d.ask_counting("statement 'limit'", question, rule.cases.is_some())?;
            }
            // what it remembers is forwarded as all else is
            "flow" => {}
            "set" => {
                let op = v.get("op").and_then(Value::as_str).unwrap_or("add");
                let name = v.get("set").and_then(Value::as_str).unwrap_or("@set");
                return Err(format!(
                    "statement '{op} {name}' is not supported: rules do not change sets here"
                ));
            }
            other => return Err(format!("statement '{other}' is not supported")),
        }
        Ok(())
    }
}

impl Rule {
    /// What it has become.
    fn done(self, mut errors: Vec<String>, line: u32) -> Result<Vec<ChainRule>, Vec<String>> {
        let Rule {
            draft: mut d,
            target,
            cases,
            made,
        } = self;
        // a rule that only counts or logs keeps a rate for nobody
        let decides = target != Target::Nothing || cases.is_some() || !made.is_empty();
        match d.narrowed(cases.is_some()).filter(|_| decides) {
            Some(why) => errors.push(why),
            None if d.never => return Ok(Vec::new()),
            None => {}
        }
        let segments = |c: &Change| matches!(c, Change::Header(e) if e.starts_with("SetTCPMSS"));
        if made.iter().any(segments) && target != Target::Nothing {
            // what cannot be set ends the rule, so that its verdict is not reached
            let text = "a verdict behind 'tcp option maxseg size set' is not supported: give it a rule of its own";
            errors.push(text.into());
        }
        // what comes to no packet is in nobody's way: it is refused where one comes to it
        let refused = (!errors.is_empty()).then(|| errors.join("; "));
        let asks = d.questions();
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
            asks: asks.clone(),
            changes: made.clone(),
            refused: refused.clone(),
            target: case.target.unwrap_or_else(|| target.clone()),
            line,
            place: None,
        };
        let cases = cases.unwrap_or_else(|| vec![one]);
        Ok(cases.into_iter().map(rule).collect())
    }
}
