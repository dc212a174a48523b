//! Chains of type nat: statements that translate, as ranges of ConnDstNat and ConnSrcNat.

use super::course::{devices, nat_hooks};
use super::expr::Reader;
use super::{Errors, Objects, read_chains};
use crate::import::chains::{ChainRule, Target};
use crate::import::host::redirected_to;
use crate::import::iptables::Request;
use crate::import::nat::NatTarget;
use crate::import::parts::Part;
use crate::import::rule::Verdict;
use crate::import::terms::Family;
use serde_json::Value;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The chains of type nat that packets pass, of destinations and of sources; `None` if there are none. What is wrong is
/// added to `errors`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    found: &Objects<'_>,
    request: &Request<'_>,
    errors: &mut Errors,
) -> Option<[Option<Part>; 2]> {
    let mut out = [None, None];
    // where one of the hooks of the host's packets translates, all do
    let mut any = request.host && found.nat.iter().any(|b| has_rules(found, &b.key));
    reader.nat = true;
    for (hook, to) in nat_hooks(request.traffic).into_iter().zip(&mut out) {
        let mut here: Vec<&str> = {
            let mut all: Vec<_> = (found.nat.iter())
                .filter(|b| b.hook == hook && has_rules(found, &b.key))
                .collect();
            all.sort_by_key(|b| b.priority);
            all.iter().map(|b| b.key.as_str()).collect()
        };
        let Some(last) = here.pop() else {
            continue;
        };
        any = true;
        let mut chains = read_chains(reader, last, &found.rules, errors);
        let mut start = last.to_string();
        if !here.is_empty() {
            start = format!("nat {hook}");
            let mut jumps = Vec::new();
            for base in here {
                let mut more = read_chains(reader, base, &found.rules, errors);
                goes_on(base, &mut more, errors);
                chains.extend(more);
                jumps.push(jump(base));
            }
            jumps.push(jump(last));
            chains.insert(start.clone(), jumps);
        }
        *to = Some(Part {
            chains,
            start,
            devices: devices(hook, request.traffic),
            ..Part::default()
        });
    }
    reader.nat = false;
    any.then_some(out)
}

/// Of several chains of type nat at one hook each is asked that comes behind the ones that have not translated, whether
/// these have accepted the packet or have come to their end: what is accepted leaves the chain, and no more. That can
/// be said of rules of the base chain itself.
fn goes_on(base: &str, chains: &mut HashMap<String, Vec<ChainRule>>, errors: &mut Errors) {
    let accepts = |r: &ChainRule| r.target == Target::Verdict(Verdict::Allow);
    for (name, rules) in chains {
        for r in rules.iter_mut().filter(|r| accepts(r)) {
            if name == base {
                r.target = Target::Return;
                continue;
            }
            let text = format!(
                "'accept' in chain '{name}', which '{base}' jumps to: another chain of type nat is asked behind it, \
                 and that can only be said of the base chain's own rules"
            );
            errors.push((r.line, text));
        }
    }
}

/// Asks a chain.
fn jump(to: &str) -> ChainRule {
    ChainRule {
        tests: Vec::new(),
        interfaces: Vec::new(),
        own: Vec::new(),
        marks: Vec::new(),
        asks: Vec::new(),
        changes: Vec::new(),
        target: Target::Jump(to.to_string()),
        refused: None,
        line: 1,
        place: None,
    }
}

fn has_rules(found: &Objects<'_>, chain: &str) -> bool {
    found.rules.get(chain).is_some_and(|r| !r.is_empty())
}

/// Where packets are sent to programs of the host itself, see [`redirected_to`]; or why they cannot be.
pub(super) fn redirects(request: &Request<'_>) -> Result<Option<IpAddr>, &'static str> {
    match request.host {
        true => Ok(redirected_to(request)),
        false => Err(
            "statement 'redirect' sends packets to programs of the router itself: wire port 2, which is the host \
             (ports: { local: \"NAME[2]\" }), or translate to the address of a server with dnat",
        ),
    }
}

/// A statement that translates; `None`: addresses of the other family.
pub(super) fn target(
    kind: &str,
    v: &Value,
    family: Family,
    redirects: Result<Option<IpAddr>, &'static str>,
) -> Result<Option<NatTarget>, String> {
    let ours = match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    let other = v.get("family").and_then(Value::as_str);
    if other.is_some_and(|f| f != ours) {
        return Ok(None);
    }
    let mut text = String::new();
    if let Some(port) = v.get("port") {
        text.push_str(&ports(port).ok_or_else(|| wrong(kind, "port", port))?);
    }
    let flags = flags(v.get("flags"));
    // without it, a network is the range of its addresses
    let whole = !flags.contains(&"netmap");
    for flag in flags {
        match flag {
            "netmap" => {}
            "random" | "fully-random" => text.push_str(" random"),
            "persistent" => text.push_str(" persistent"),
            _ => {
                return Err(format!(
                    "flag '{flag}' of statement '{kind}' is not supported"
                ));
            }
        }
    }
    let text = text.trim();
    if kind == "redirect" {
        let target = NatTarget::Redirect(text.to_string());
        return target.redirected(redirects).map(Some);
    }
    if kind == "masquerade" {
        return Ok(Some(NatTarget::Masquerade(text.to_string())));
    }
    let to = match v.get("addr") {
        None => "-".to_string(),
        Some(a) => addresses(a, whole).ok_or_else(|| wrong(kind, "address", a))?,
    };
    Ok(Some(NatTarget::Range(
        format!("{to} {text}").trim_end().to_string(),
    )))
}

fn wrong(kind: &str, what: &str, v: &Value) -> String {
    let how = match v.as_object().and_then(|m| m.keys().next()) {
        Some(k) => format!("by '{k}'"),
        None => v.to_string(),
    };
    format!("statement '{kind}' with its {what} {how} is not supported")
}

/// One flag, or a list of them.
fn flags(v: Option<&Value>) -> Vec<&str> {
    match v {
        Some(Value::String(s)) => vec![s.as_str()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// `80`, `{"range": [80, 90]}`.
fn ports(v: &Value) -> Option<String> {
    match v.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        Some([lo, hi]) => Some(format!("{}-{}", lo.as_u64()?, hi.as_u64()?)),
        Some(_) => None,
        None => Some(v.as_u64()?.to_string()),
    }
}

/// `"10.0.0.1"`, `{"range": ["10.0.0.1", "10.0.0.9"]}`, `{"prefix": {"addr": "10.0.0.0", "len": 24}}`. `whole`: of a
/// network, any of its addresses; else the first bits are the network's, and the others stay.
fn addresses(v: &Value, whole: bool) -> Option<String> {
    if let Some(p) = v.get("prefix") {
        let (addr, len) = (p.get("addr")?.as_str()?, p.get("len")?.as_u64()?);
        return match whole {
            true => range_of(addr.parse().ok()?, u32::try_from(len).ok()?),
            false => Some(format!("{addr}/{len}")),
        };
    }
    match v.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        Some([lo, hi]) => Some(format!("{}-{}", lo.as_str()?, hi.as_str()?)),
        Some(_) => None,
        None => v.as_str().map(String::from),
    }
}

/// First and last address of a network.
fn range_of(a: IpAddr, len: u32) -> Option<String> {
    match a {
        IpAddr::V4(a) if len <= 32 => {
            let hosts = u32::MAX.checked_shr(len).unwrap_or(0);
            let a = u32::from(a);
            let (lo, hi) = (Ipv4Addr::from(a & !hosts), Ipv4Addr::from(a | hosts));
            Some(format!("{lo}-{hi}"))
        }
        IpAddr::V6(a) if len <= 128 => {
            let hosts = u128::MAX.checked_shr(len).unwrap_or(0);
            let a = u128::from(a);
            let (lo, hi) = (Ipv6Addr::from(a & !hosts), Ipv6Addr::from(a | hosts));
            Some(format!("{lo}-{hi}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_become_ranges() {
        let of = |kind: &str, text: &str| {
            let v: Value = serde_json::from_str(text).unwrap();
            target(kind, &v, Family::V4, Err("no host"))
        };
        let range = |kind: &str, text: &str| match of(kind, text) {
            Ok(Some(NatTarget::Range(r) | NatTarget::Masquerade(r))) => r,
            other => panic!("{other:?}"),
        };
        assert_eq!(range("snat", r#"{"addr": "203.0.113.1"}"#), "203.0.113.1");
        assert_eq!(
            range(
                "dnat",
                r#"{"family": "ip", "addr": "10.0.0.1", "port": 8080}"#
            ),
            "10.0.0.1 8080"
        );
        assert_eq!(
            range(
                "snat",
                r#"{"addr": {"range": ["192.0.2.1", "192.0.2.9"]}, "port": {"range": [1, 9]},
                    "flags": ["random", "persistent"]}"#
            ),
            "192.0.2.1-192.0.2.9 1-9 random persistent"
        );
        assert_eq!(
            range(
                "snat",
                r#"{"addr": {"prefix": {"addr": "192.0.2.0", "len": 24}}, "flags": "netmap"}"#
            ),
            "192.0.2.0/24"
        );
        // nft prints a range as a network where it is one
        assert_eq!(
            range(
                "snat",
                r#"{"addr": {"prefix": {"addr": "192.0.2.8", "len": 30}}}"#
            ),
            "192.0.2.8-192.0.2.11"
        );
        assert_eq!(range("dnat", r#"{"port": 80}"#), "- 80");
        assert_eq!(range("masquerade", "null"), "");
        assert_eq!(
            range("masquerade", r#"{"flags": "fully-random"}"#),
            "random"
        );
        assert_eq!(of("dnat", r#"{"family": "ip6", "addr": "::1"}"#), Ok(None));
        assert_eq!(
            of("redirect", r#"{"port": 80}"#),
            Err("no host".to_string())
        );
        let v: Value = serde_json::from_str(r#"{"port": 80}"#).unwrap();
        assert_eq!(
            target("redirect", &v, Family::V4, Ok(None)),
            Ok(Some(NatTarget::Redirect("80".into())))
        );
        assert_eq!(
            target("redirect", &v, Family::V4, Ok(Some([127, 0, 0, 1].into()))),
            Ok(Some(NatTarget::Range("127.0.0.1 80".into())))
        );
        let e = of("dnat", r#"{"addr": {"map": {}}}"#).unwrap_err();
        assert_eq!(
            e,
            "statement 'dnat' with its address by 'map' is not supported"
        );
    }
}
