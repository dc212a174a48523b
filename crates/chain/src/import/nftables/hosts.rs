//! What the host's addresses, networks and interfaces answer: `fib`, groups and types of interfaces.

use super::expr::{Draft, Match, Reader, negated};
use crate::import::chains::{InterfaceTest, Property};
use crate::import::own::{AddressKind, OwnTest, Types};
use crate::import::terms::Family;
use serde_json::Value;

impl Reader<'_> {
    /// `fib saddr type local`, `fib daddr . oif type != local`, `fib saddr . iif oif missing`.
    pub(super) fn own_address(&self, fib: &Value, m: &Match<'_>) -> Result<OwnTest, String> {
        let flags = fib.get("flags").and_then(Value::as_array);
        let flags: Vec<&str> = flags
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            // routes do not ask for marks here
            .filter(|f| *f != "mark")
            .collect();
        let result = fib.get("result").and_then(Value::as_str).unwrap_or("");
        let unknown = || {
            format!(
                "match on 'fib {} {result}' is not supported",
                flags.join(" . ")
            )
        };
        let at = match flags.as_slice() {
            [_] => None,
            [_, "iif"] => Some(false),
            [_, "oif"] => Some(true),
            _ => return Err(unknown()),
        };
        let side = flags.first().copied().unwrap_or("");
        if !matches!(side, "saddr" | "daddr") {
            return Err(unknown());
        }
        let mut not = negated(m.op, "'fib'")?;
        let kind = match (result, at, side) {
            ("type", ..) => {
                let mut types = Types::default();
                for v in self.sets.values(m.table, m.right)? {
                    let known = v.as_str().and_then(|s| types.add(s));
                    known.ok_or_else(|| format!("address type {v}"))?;
                }
                AddressKind::Types(types)
            }
            // is there a route back, through the interface that it came in by, or through any?
            ("oif" | "oifname", None | Some(false), "saddr") => {
                not ^= match m.right {
                    Value::Bool(there) => !there,
                    v if v == 0 || v == "0" || v == "" => true,
                    _ => return Err(unknown()),
                };
                AddressKind::Reverse {
                    loose: at.is_none(),
                    own: false,
                }
            }
            _ => return Err(unknown()),
        };
        Ok(OwnTest {
            at: at.filter(|_| result == "type"),
            not,
            kind,
            ..OwnTest::local(side == "saddr", self.family == Family::V6)
        })
    }

    /// `rt type 0`: IPv4 has no such headers.
    pub(super) fn extension(&self, h: &Value, d: &mut Draft) -> Result<(), String> {
        if self.family == Family::V4 {
            d.never = true;
            return Ok(());
        }
        let name = h.get("name").and_then(Value::as_str).unwrap_or("");
        Err(format!(
            "match on 'exthdr {name}' is not supported: extension headers of IPv6 are not looked at"
        ))
    }

    /// Groups and types of interfaces.
    pub(super) fn property(&self, k: &str, m: &Match<'_>, d: &mut Draft) -> Result<(), String> {
        let not = negated(m.op, k)?;
        let group = k.ends_with("group");
        let mut names = Vec::new();
        for v in self.sets.values(m.table, m.right)? {
            names.push(match (v.as_str(), v.as_u64()) {
                (Some("default"), _) if group => "0".to_string(),
                (Some(s), _) if !group => s.to_string(),
                (None, Some(n)) if group => n.to_string(),
                (None, Some(1)) => "ether".to_string(),
                (None, Some(772)) => "loopback".to_string(),
                _ => return Err(format!("value {v} of 'meta {k}'")),
            });
        }
        d.interfaces.push(InterfaceTest {
            out: k.starts_with('o'),
            not,
            names,
            of: match group {
                true => Property::Group,
                false => Property::Type,
            },
        });
        Ok(())
    }
}
