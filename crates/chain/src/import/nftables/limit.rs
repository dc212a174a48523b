//! `limit`: rates.

use crate::import::limits::Limit;
use serde_json::Value;

/// `limit rate [over] N[ UNIT]/PER [burst N[ UNIT]]`
pub(super) fn limit(v: &Value) -> Result<Limit, String> {
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
