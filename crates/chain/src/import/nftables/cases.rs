//! Several rules of one: verdict maps, and comparisons of concatenated values.
//!
//! Elements of a map or set exclude each other, so that each is a rule with the tests of its values; where one's chain
//! returns, no other takes the packet.

use super::expr::{Draft, Reader};
use super::set;
use crate::import::chains::{InterfaceTest, Target};
use crate::import::mark::MarkTest;
use crate::import::own::OwnTest;
use serde_json::{Value, json};

/// Most rules that one becomes.
const MAX_CASES: usize = 100_000;

/// What an element adds to its rule.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub tests: Vec<String>,
    pub interfaces: Vec<InterfaceTest>,
    pub own: Vec<OwnTest>,
    pub marks: Vec<MarkTest>,
    /// Of a verdict map's element.
    pub target: Option<Target>,
}

impl Reader<'_> {
    /// `KEY vmap { VALUE : VERDICT, ... }`, or a map by name.
    pub(super) fn verdict_map(
        &mut self,
        v: &Value,
        table: &str,
        d: &Draft,
    ) -> Result<Vec<Case>, String> {
        let (Some(key), Some(data)) = (v.get("key"), v.get("data")) else {
            return Err("a 'vmap' without 'key' and 'data'".into());
        };
        let pairs = match data.as_str().and_then(|s| s.strip_prefix('@')) {
            Some(name) => self.sets.map(table, name)?,
            None => data.get("set").and_then(Value::as_array),
        };
        let pairs = pairs.map_or(&[][..], Vec::as_slice);
        let mut out = Vec::new();
        for pair in pairs {
            let Some([value, verdict]) = pair.as_array().map(Vec::as_slice) else {
                return Err("a map's element that is no pair".into());
            };
            let found = verdict.as_object().and_then(|m| m.iter().next());
            let (kind, body) = found.ok_or("a map's element without a verdict")?;
            let target = self.verdict(kind, body, table)?;
            if let Some(case) = self.case(key, set::plain(value), table, d)? {
                let target = Some(target);
                out.push(Case { target, ..case });
            }
            bounded(&out)?;
        }
        Ok(out)
    }

    /// `KEY . KEY { VALUE . VALUE, ... }`; with `!=`, what is in none of them is asked of the rule itself, and `None`
    /// comes back.
    pub(super) fn concatenated(
        &mut self,
        v: &Value,
        table: &str,
        d: &mut Draft,
    ) -> Result<Option<Vec<Case>>, String> {
        let op = v.get("op").and_then(Value::as_str).unwrap_or("==");
        if !matches!(op, "==" | "in" | "!=") {
            return Err(format!("'{op}' with concatenated values is not supported"));
        }
        let (Some(key), Some(right)) = (v.get("left"), v.get("right")) else {
            return Err("a match without 'left' and 'right'".into());
        };
        let not = op == "!=";
        if not {
            self.headers_of(key, d)?;
        }
        let mut out = Vec::new();
        for value in self.sets.values(table, right)? {
            out.extend(self.case(key, value, table, d)?);
            bounded(&out)?;
        }
        if !not {
            return Ok(Some(out));
        }
        for case in out {
            if !case.interfaces.is_empty() || !case.marks.is_empty() || !case.own.is_empty() {
                return Err(
                    "'!=' with concatenated values of others than header fields is not supported"
                        .into(),
                );
            }
            d.tests.push(format!("not ({})", case.tests.join(" && ")));
        }
        Ok(None)
    }

    /// What is asked of a packet's headers is asked of packets that have them, whether it holds or not.
    fn headers_of(&self, key: &Value, d: &mut Draft) -> Result<(), String> {
        let parts = key.get("concat").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            let of = part.get("payload").and_then(|p| p.get("protocol"));
            match of.and_then(Value::as_str) {
                Some("ip" | "ip6" | "th") => {}
                Some(protocol) => self.needs(protocol, d)?,
                None => {
                    let text = "'!=' with concatenated values of others than header fields is not supported";
                    return Err(text.into());
                }
            }
        }
        Ok(())
    }

    /// What one element adds: `None`, where it takes no packet of this family.
    fn case(
        &mut self,
        key: &Value,
        value: &Value,
        table: &str,
        d: &Draft,
    ) -> Result<Option<Case>, String> {
        if value == "*" {
            return Err("an element '*' for all that are no others is not supported".into());
        }
        let parts = |v: &Value| v.get("concat").and_then(Value::as_array).cloned();
        let pairs: Vec<(Value, Value)> = match (parts(key), parts(value)) {
            (None, _) => vec![(key.clone(), value.clone())],
            (Some(k), Some(v)) if k.len() == v.len() => k.into_iter().zip(v).collect(),
            (Some(_), _) => return Err("an element with other parts than its key has".into()),
        };
        let mut own = d.behind();
        for (left, right) in pairs {
            self.comparison(&json!({ "left": left, "right": right }), table, &mut own)?;
        }
        if own.has_questions() {
            return Err(
                "hardware addresses, packet types and numgen in maps and concatenations are not supported".into(),
            );
        }
        Ok((!own.never).then_some(Case {
            tests: own.tests,
            interfaces: own.interfaces,
            own: own.own,
            marks: own.marks,
            target: None,
        }))
    }
}

fn bounded(all: &[Case]) -> Result<(), String> {
    match all.len() > MAX_CASES {
        true => Err(format!("more than {MAX_CASES} elements")),
        false => Ok(()),
    }
}
