//! `limit`: rates.

use super::expr::Draft;
use crate::import::limits::{Conditions, Limit, Rate};
use serde_json::Value;

/// A rate, and behind how many conditions of each kind it is asked.
pub(super) struct Limited {
    limit: Limit,
    tests: usize,
    interfaces: usize,
    own: usize,
    marks: usize,
    /// The rule is several already: elements exclude each other, and all ask the rule's one bucket.
    several: bool,
}

impl Draft {
    /// Is there something behind the rate that a list cannot ask there? `several`: the rule becomes several.
    pub fn narrowed(&self, several: bool) -> Option<String> {
        let l = self.limited.as_ref()?;
        let narrowed = self.never || several != l.several || self.interfaces.len() > l.interfaces;
        narrowed.then(|| NARROWED.to_string())
    }

    /// Adds a rate; `several`: the rule is several already.
    pub fn limit(&mut self, v: &Value, several: bool) -> Result<(), String> {
        // packets of the other family do not come there
        if self.never {
            return Ok(());
        }
        if self.limited.is_some() {
            return Err("statement 'limit' behind another one is not supported".into());
        }
        self.limited = Some(Limited {
            limit: limit(v)?,
            tests: self.tests.len(),
            interfaces: self.interfaces.len(),
            own: self.own.len(),
            marks: self.marks.len(),
            several,
        });
        Ok(())
    }

    /// The rate, with what is asked behind it, which is taken out of the draft.
    pub fn rate(&mut self) -> Option<Rate> {
        let l = self.limited.take()?;
        Some(Rate {
            limit: l.limit,
            behind: Conditions {
                tests: self.tests.split_off(l.tests),
                own: self.own.split_off(l.own),
                marks: self.marks.split_off(l.marks),
            },
        })
    }
}

/// Why a rate cannot be where it is, if it cannot.
const NARROWED: &str = "statement 'limit' in front of interfaces, families, maps or concatenations is not supported: \
                        packets that these leave out would be counted, too; put it behind them";

/// `limit rate [over] N[ UNIT]/PER [burst N[ UNIT]]`
fn limit(v: &Value) -> Result<Limit, String> {
    let text = |k: &str| v.get(k).and_then(Value::as_str);
    let number = |k: &str| v.get(k).and_then(Value::as_u64);
    let unit = |k: &str| match text(k) {
        None | Some("packets") => Ok(None),
        Some("bytes") => Ok(Some(1)),
        Some("kbytes") => Ok(Some(1 << 10)),
        Some("mbytes") => Ok(Some(1 << 20)),
        Some(other) => Err(format!("unit '{other}' of statement 'limit'")),
    };
    let per = match text("per") {
        Some("second") => 1,
        Some("minute") => 60,
        Some("hour") => 3600,
        Some("day") => 86_400,
        Some("week") => 604_800,
        _ => return Err("statement 'limit' by name is not supported".into()),
    };
    let rate = number("rate").ok_or("a 'limit' without 'rate'")?;
    let of_rate: Option<u64> = unit("rate_unit")?;
    let of_burst = unit("burst_unit")?.unwrap_or(1);
    Ok(Limit {
        rate: rate.saturating_mul(of_rate.unwrap_or(1)),
        per,
        burst: number("burst").unwrap_or(0).saturating_mul(of_burst),
        bytes: of_rate.is_some(),
        over: v.get("inv").and_then(Value::as_bool).unwrap_or(false),
    })
}
