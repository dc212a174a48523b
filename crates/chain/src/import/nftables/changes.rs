//! Statements that change packets, or marks; matches on marks.

use super::set;
use crate::import::chains::Interfaces;
use crate::import::headers;
use crate::import::mark::{Change, MarkOf, MarkTest, MarkValue};
use crate::import::terms::Family;
use serde_json::Value;

/// Deepest expression that a mark is set to.
const MAX_DEPTH: usize = 16;

/// Whose mark an expression is: `meta mark`, `ct mark`.
pub(super) fn mark_of(v: &Value) -> Option<MarkOf> {
    let is = |kind: &str| {
        let of = v.get(kind)?;
        (of.get("key")? == "mark" && of.get("dir").is_none()).then_some(())
    };
    match (is("meta"), is("ct")) {
        (Some(()), _) => Some(MarkOf::Packet),
        (_, Some(())) => Some(MarkOf::Connection),
        _ => None,
    }
}

/// `meta mark`, `meta mark & 0xff`, the same of `ct mark`: whose, and its bits that are looked at.
pub(super) fn masked_mark(left: &Value) -> Option<(MarkOf, Result<u32, String>)> {
    if let Some(of) = mark_of(left) {
        return Some((of, Ok(u32::MAX)));
    }
    let [mark, mask] = left.get("&")?.as_array()?.as_slice() else {
        return None;
    };
    Some((mark_of(mark)?, number(mask)))
}

fn number(v: &Value) -> Result<u32, String> {
    let n = v.as_u64().and_then(|n| u32::try_from(n).ok());
    n.ok_or_else(|| {
        let text: String = v.to_string().chars().take(60).collect();
        format!("{text} in the place of a number")
    })
}

/// A question about a mark: an operator and values.
pub(super) fn mark_test(
    of: MarkOf,
    mask: u32,
    op: &str,
    values: &[&Value],
) -> Result<MarkTest, String> {
    let no_names = |s: &str| s.parse::<u32>().map_err(|_| format!("mark '{s}'"));
    let mut ranges = Vec::new();
    for v in values {
        ranges.push(set::numbers(v, u32::MAX, &no_names)?);
    }
    let one = match ranges.as_slice() {
        [(a, b)] if a == b => Some(*a),
        _ => None,
    };
    let ordered = || one.ok_or_else(|| format!("'{op}' with something else than one mark"));
    let below = |n: Option<u32>| n.map(|n| (0, n)).into_iter().collect();
    let above = |n: Option<u32>| n.map(|n| (n, u32::MAX)).into_iter().collect();
    let mut not = false;
    let ranges = match op {
        "==" | "in" => ranges,
        "!=" => {
            not = true;
            ranges
        }
        "<" => below(ordered()?.checked_sub(1)),
        "<=" => below(Some(ordered()?)),
        ">" => above(ordered()?.checked_add(1)),
        ">=" => above(Some(ordered()?)),
        op => return Err(format!("operator '{op}' on marks is not supported")),
    };
    Ok(MarkTest {
        of,
        mask,
        ranges,
        not,
    })
}

/// What a statement `... set ...` changes; `None`: it is about packets of the other family.
pub(super) fn change(
    v: &Value,
    (family, interfaces): (Family, &Interfaces),
) -> Result<Option<Change>, String> {
    let (Some(key), Some(value)) = (v.get("key"), v.get("value")) else {
        return Err("a statement 'set' without 'key' and 'value'".into());
    };
    match mark_of(key) {
        Some(MarkOf::Packet) => return Ok(Some(Change::PacketMark(mark_value(value, 0)?))),
        Some(MarkOf::Connection) => return Ok(Some(Change::ConnectionMark(mark_value(value, 0)?))),
        None => {}
    }
    let what = named(key);
    let n = || number(value).map_err(|e| format!("statement '{what} set' with {e}"));
    let element = match (what.as_str(), family) {
        ("ip dscp" | "ip ttl", Family::V6) | ("ip6 dscp" | "ip6 hoplimit", Family::V4) => {
            return Ok(None);
        }
        ("ip dscp" | "ip6 dscp", _) => {
            let named = value.as_str().and_then(headers::code_point);
            headers::dscp(family, named.map_or_else(n, Ok)?)?
        }
        ("ip ttl" | "ip6 hoplimit", _) => {
            let n = u8::try_from(n()?).map_err(|_| format!("'{what} set' to more than 255"))?;
            headers::hops(family, "", n)
        }
        ("tcp option maxseg size", _) => {
            let mtu = value.get("rt").and_then(|r| r.get("key"));
            let size = match mtu.is_some_and(|k| k == "mtu") {
                true => {
                    let mtu = interfaces.mtu.unwrap_or(headers::USUAL_MTU);
                    u32::from(headers::fitting(family, mtu))
                }
                false => n()?,
            };
            let size =
                u16::try_from(size).map_err(|_| format!("'{what} set' to more than 65535"))?;
            headers::segment_size(size, false)
        }
        _ => return Err(format!("statement '{what} set' is not supported")),
    };
    Ok(Some(Change::Header(element)))
}

/// What a key is called: `meta priority`, `ip dscp`.
fn named(key: &Value) -> String {
    let Some((kind, of)) = key.as_object().and_then(|m| m.iter().next()) else {
        return "mangle".into();
    };
    let s = |k: &str| of.get(k).and_then(Value::as_str).unwrap_or("");
    let text = match kind.as_str() {
        "payload" => format!("{} {}", s("protocol"), s("field")),
        kind => format!("{kind} {} {} {}", s("name"), s("field"), s("key")),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a mark is set to.
fn mark_value(v: &Value, depth: usize) -> Result<MarkValue, String> {
    if depth > MAX_DEPTH {
        return Err("a mark is set to an expression that is too deep".into());
    }
    if v.is_number() {
        return number(v).map(MarkValue::constant);
    }
    if let Some(of) = mark_of(v) {
        return Ok(MarkValue::of(of));
    }
    for op in ["&", "|", "^"] {
        let Some(all) = v.get(op).and_then(Value::as_array) else {
            continue;
        };
        let [left, right @ ..] = all.as_slice() else {
            break;
        };
        let mut value = mark_value(left, depth + 1)?;
        for r in right {
            let other = mark_value(r, depth + 1)?;
            let constant = other.packet == 0 && other.connection == 0;
            value = match op {
                _ if !constant => return Err(by_expression(op)),
                "&" => value.and(other.flip),
                "|" => value.or(other.flip),
                _ => value.xor(other.flip),
            };
        }
        return Ok(value);
    }
    let kind = v.as_object().and_then(|m| m.keys().next());
    Err(by_expression(kind.map_or("value", String::as_str)))
}

fn by_expression(what: &str) -> String {
    format!(
        "a mark set by '{what}' is not supported; it can be a number, a mark, and '&', '|', '^' of it with numbers"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Result<Change, String> {
        let names = Interfaces::default();
        let found = change(&serde_json::from_str(text).unwrap(), (Family::V4, &names));
        found.map(|c| c.expect("of this family"))
    }

    #[test]
    fn fields_are_set_by_elements() {
        let payload =
            |field: &str| format!(r#"{{"payload": {{"protocol": "ip", "field": "{field}"}}}}"#);
        let maxseg = r#"{"tcp option": {"name": "maxseg", "field": "size"}}"#.to_string();
        for (key, value, element) in [
            (payload("dscp"), r#""cs1""#, "SetIPDSCP(8)"),
            (payload("dscp"), "5", "SetIPDSCP(5)"),
            (payload("ttl"), "7", "SetIPTTL(7)"),
            (
                maxseg.clone(),
                r#"{"rt": {"key": "mtu"}}"#,
                "SetTCPMSS(1460)",
            ),
            (maxseg.clone(), "1200", "SetTCPMSS(1200)"),
        ] {
            let c = set(&format!(r#"{{"key": {key}, "value": {value}}}"#)).unwrap();
            assert_eq!(c, Change::Header(element.into()));
        }
        for (key, value) in [
            (payload("dscp"), "64"),
            (payload("ttl"), "256"),
            (payload("saddr"), "1"),
            (maxseg, r#"{"rt": {"key": "nexthop"}}"#),
        ] {
            assert!(set(&format!(r#"{{"key": {key}, "value": {value}}}"#)).is_err());
        }
        let names = Interfaces::default();
        let other = r#"{"key": {"payload": {"protocol": "ip6", "field": "dscp"}}, "value": 1}"#;
        let found = change(&serde_json::from_str(other).unwrap(), (Family::V4, &names));
        assert_eq!(found, Ok(None));
    }

    #[test]
    fn marks_are_set_to_expressions() {
        let meta = r#"{"meta": {"key": "mark"}}"#;
        let ct = r#"{"ct": {"key": "mark"}}"#;
        for (key, value, packet, connection, becomes) in [
            (meta, "5".to_string(), 1, 2, 5),
            (
                meta,
                format!(r#"{{"&": [{meta}, 4293197823]}}"#),
                u32::MAX,
                2,
                0xffe4_ffff,
            ),
            (meta, format!(r#"{{"|": [{meta}, 16]}}"#), 1, 2, 17),
            (meta, ct.to_string(), 1, 2, 2),
            (meta, format!(r#"{{"&": [{ct}, 255]}}"#), 1, 0x1ff, 0xff),
            (
                ct,
                format!(r#"{{"|": [{{"&": [{meta}, 511]}}, 256]}}"#),
                0x201,
                2,
                0x101,
            ),
            (ct, format!(r#"{{"^": [{ct}, 3]}}"#), 1, 2, 1),
        ] {
            let c = set(&format!(r#"{{"key": {key}, "value": {value}}}"#)).unwrap();
            let (Change::PacketMark(v) | Change::ConnectionMark(v)) = c else {
                panic!("{c:?}");
            };
            assert_eq!(v.apply(packet, connection), becomes, "{value}");
        }
        for (bad, why) in [
            (
                format!(r#"{{"key": {meta}, "value": {{"map": {{}}}}}}"#),
                "'map'",
            ),
            (
                format!(r#"{{"key": {meta}, "value": {{"|": [{meta}, {ct}]}}}}"#),
                "'|'",
            ),
            (
                r#"{"key": {"meta": {"key": "priority"}}, "value": 1}"#.to_string(),
                "meta priority set",
            ),
        ] {
            let e = set(&bad).unwrap_err();
            assert!(e.contains(why), "{e}");
        }
    }

    #[test]
    fn marks_are_compared() {
        let of = |op: &str, values: &str, mark: u32| {
            let v: Value = serde_json::from_str(values).unwrap();
            let all: Vec<&Value> = v.as_array().unwrap().iter().collect();
            mark_test(MarkOf::Packet, u32::MAX, op, &all).map(|t| t.holds(mark))
        };
        assert_eq!(of("==", r#"[{"range": [1, 2]}, 7]"#, 7), Ok(true));
        assert_eq!(of("!=", "[7]", 7), Ok(false));
        assert_eq!(of("<", "[7]", 6), Ok(true));
        assert_eq!(of("<", "[0]", 0), Ok(false));
        assert_eq!(of(">=", "[7]", 7), Ok(true));
        assert_eq!(of(">", "[4294967295]", 7), Ok(false));
        assert!(of("<", "[1, 3]", 0).is_err() && of("in", r#"["x"]"#, 0).is_err());
    }
}
