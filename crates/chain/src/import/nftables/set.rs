//! Values: single ones, prefixes, ranges, sets, and named sets.

use crate::import::terms::{Family, Range, protocol, service};
use serde_json::Value;
use std::collections::HashMap;

/// Most values of one set.
const MAX_VALUES: usize = 100_000;

/// Named sets by table and name.
#[derive(Default)]
pub struct Sets<'a> {
    sets: HashMap<(String, String), &'a Value>,
    maps: HashMap<(String, String), &'a Value>,
    /// How often sets have been asked for that something else fills.
    empty: std::cell::Cell<usize>,
}

/// An element without its comment or counter.
pub fn plain(e: &Value) -> &Value {
    e.get("elem").and_then(|e| e.get("val")).unwrap_or(e)
}

/// What rules, or time, change is not what stands in the file; but what is empty there is filled by none of the rules
/// that are read, as those that fill sets are refused. Gives back whether it is such a one.
fn unchanging(body: &Value, name: &str) -> Result<bool, String> {
    let flags = body.get("flags").and_then(Value::as_array);
    let is = |flag: &str| flags.is_some_and(|f| f.iter().any(|f| f == flag));
    let elements = body.get("elem").and_then(Value::as_array);
    let changes = is("dynamic") || is("timeout");
    if !changes || elements.is_none_or(Vec::is_empty) {
        return Ok(changes);
    }
    let expires =
        |e: &Value| e.pointer("/elem/timeout").is_some() || e.pointer("/elem/expires").is_some();
    let expires = body.get("timeout").is_some() || elements.is_some_and(|l| l.iter().any(expires));
    match expires {
        true => Err(format!("set '@{name}' whose elements expire")),
        false => Ok(false),
    }
}

impl<'a> Sets<'a> {
    /// Remembers a set.
    pub fn add(&mut self, table: &str, name: &str, body: &'a Value) {
        self.sets
            .insert((table.to_string(), name.to_string()), body);
    }

    /// Remembers a map.
    pub fn add_map(&mut self, table: &str, name: &str, body: &'a Value) {
        self.maps
            .insert((table.to_string(), name.to_string()), body);
    }

    /// How often sets have been asked for that the file leaves empty, for something else to fill them.
    pub fn empty(&self) -> usize {
        self.empty.get()
    }

    fn note(&self, empty: bool) {
        self.empty.set(self.empty.get() + usize::from(empty));
    }

    /// The pairs of a map by name; `None`: it has none.
    pub fn map(&self, table: &str, name: &str) -> Result<Option<&'a Vec<Value>>, String> {
        let map = self.maps.get(&(table.to_string(), name.to_string()));
        let map = map.ok_or_else(|| format!("map '@{name}' is not in the file"))?;
        self.note(unchanging(map, name)?);
        Ok(map.get("elem").and_then(Value::as_array))
    }

    /// The plain values that the right side of a comparison stands for: strings, numbers, prefixes, ranges.
    pub fn values<'b>(&self, table: &str, v: &'b Value) -> Result<Vec<&'b Value>, String>
    where
        'a: 'b,
    {
        let mut out = Vec::new();
        let list: &'b Value = match v.as_str().and_then(|s| s.strip_prefix('@')) {
            Some(name) => {
                let set = self
                    .sets
                    .get(&(table.to_string(), name.to_string()))
                    .ok_or_else(|| format!("set '@{name}' is not in the file"))?;
                self.note(unchanging(set, name)?);
                match set.get("elem") {
                    Some(e) => e,
                    None => return Ok(out),
                }
            }
            None => v.get("set").unwrap_or(v),
        };
        match list.as_array() {
            Some(all) => {
                if all.len() > MAX_VALUES {
                    return Err(format!("more than {MAX_VALUES} values in a set"));
                }
                for e in all {
                    out.push(plain(e));
                }
            }
            None => out.push(list),
        }
        Ok(out)
    }
}

fn show(v: &Value) -> String {
    let s = v.to_string();
    s.chars().take(60).collect()
}

/// An address, prefix or range.
pub fn addresses(family: Family, v: &Value) -> Result<Range, String> {
    if let Some(s) = v.as_str() {
        return match s {
            "*" => Ok((0, family.max())),
            s => family.prefix(s),
        };
    }
    if let Some(p) = v.get("prefix") {
        let a = p.get("addr").and_then(Value::as_str);
        let l = p.get("len").and_then(Value::as_u64);
        return match (a, l) {
            (Some(a), Some(l)) if l <= u64::from(family.bits()) => {
                Ok(family.range(family.address(a)?, l as u32))
            }
            _ => Err(format!("prefix {}", show(v))),
        };
    }
    if let Some([a, b]) = v.get("range").and_then(Value::as_array).map(Vec::as_slice)
        && let (Some(a), Some(b)) = (a.as_str(), b.as_str())
    {
        let (a, b) = (family.address(a)?, family.address(b)?);
        if a <= b {
            return Ok((a, b));
        }
    }
    Err(format!("address {}", show(v)))
}

/// A number or a range of numbers; `name` knows names.
pub fn numbers(
    v: &Value,
    max: u32,
    name: &dyn Fn(&str) -> Result<u32, String>,
) -> Result<(u32, u32), String> {
    let one = |v: &Value| -> Result<u32, String> {
        let n = match (v.as_u64(), v.as_str()) {
            (Some(n), _) => u32::try_from(n).ok(),
            (_, Some(s)) => Some(name(s)?),
            _ => None,
        };
        n.filter(|n| *n <= max)
            .ok_or_else(|| format!("value {}", show(v)))
    };
    if let Some([a, b]) = v.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        let (a, b) = (one(a)?, one(b)?);
        return if a <= b {
            Ok((a, b))
        } else {
            Err(format!("range {}", show(v)))
        };
    }
    one(v).map(|n| (n, n))
}

/// A port's name.
pub fn port_name(s: &str) -> Result<u32, String> {
    service(s).map(u32::from)
}

/// A protocol's name.
pub fn protocol_name(s: &str) -> Result<u32, String> {
    protocol(s).map(|p| u32::from(p.unwrap_or(0)))
}
