//! Routes as JSON: `ip -j route` (a list of routes) and FRR's `show ip route json` (lists of routes by network).

use super::text::Found;
use super::{Hop, Route, RouteKind, checked, prefix};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::net::IpAddr;

/// Most routes of a file.
const MAX_ROUTES: usize = 4_000_000;

/// Lines of the places where `key` stands, as a JSON key, in order.
fn lines_of(text: &str, key: &str) -> Vec<u32> {
    let quoted = format!("\"{key}\"");
    let (mut line, mut from) = (1, 0);
    let places = text.match_indices(&quoted).filter(|(at, _)| {
        let behind = text.get(at + quoted.len()..).unwrap_or("");
        behind.trim_start().starts_with(':')
    });
    let mut out = Vec::new();
    for (at, _) in places {
        line += text.get(from..at).unwrap_or("").matches('\n').count() as u32;
        from = at;
        out.push(line);
    }
    out
}

/// Lines of FRR's routes by network: where `"prefix": "NETWORK"` stands.
fn lines_of_networks(text: &str) -> HashMap<String, Vec<u32>> {
    let (mut line, mut from) = (1, 0);
    let mut out: HashMap<String, Vec<u32>> = HashMap::new();
    for (at, key) in text.match_indices("\"prefix\"") {
        line += text.get(from..at).unwrap_or("").matches('\n').count() as u32;
        from = at;
        let behind = text.get(at + key.len()..).unwrap_or("").trim_start();
        let value = behind.strip_prefix(':').map(str::trim_start);
        if let Some((network, _)) = value.and_then(|v| v.strip_prefix('"')?.split_once('"')) {
            // some versions write `10.0.0.0\/8`
            out.entry(network.replace("\\/", "/"))
                .or_default()
                .push(line);
        }
    }
    out
}

/// Reads either format.
pub(super) fn read(text: &str) -> Found {
    let root: Value = match serde_json::from_str(text) {
        Ok(v) => v,
        Err(e) => {
            let line = u32::try_from(e.line()).unwrap_or(1).max(1);
            return (Vec::new(), vec![(line, format!("no JSON: {e}"))]);
        }
    };
    match &root {
        Value::Array(list) => ip(list, &lines_of(text, "dst")),
        Value::Object(networks) => frr(networks, &lines_of_networks(text)),
        _ => (
            Vec::new(),
            vec![(
                1,
                "expected what 'ip -j route' or FRR's 'show ip route json' prints".into(),
            )],
        ),
    }
}

fn text<'a>(v: &'a Value, key: &str) -> Option<&'a str> {
    v.get(key).and_then(Value::as_str)
}

fn number(v: &Value, key: &str) -> Result<Option<u32>, String> {
    match v.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(n) => match n.as_u64().and_then(|n| u32::try_from(n).ok()) {
            Some(n) => Ok(Some(n)),
            None => Err(format!("{key}: expected a number, found {n}")),
        },
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("expected an address, found '{text}'"))
}

/// The list that `ip -j route` prints.
fn ip(list: &[Value], lines: &[u32]) -> Found {
    let (mut routes, mut errors) = (Vec::new(), Vec::new());
    for (n, v) in list.iter().take(MAX_ROUTES).enumerate() {
        let line = lines.get(n).copied().unwrap_or(1);
        match ip_route(v) {
            Ok(r) => routes.extend(r.map(|r| (r, line))),
            Err(e) => errors.push((line, e)),
        }
    }
    if list.len() > MAX_ROUTES {
        errors.push((1, format!("more than {MAX_ROUTES} routes")));
    }
    (routes, errors)
}

/// One of them; `None` if it says nothing of where forwarded packets go, or is not used.
fn ip_route(v: &Value) -> Result<Option<Route>, String> {
    let to = text(v, "dst").ok_or("expected a route with 'dst', as 'ip -j route' prints it")?;
    for (key, what) in [
        ("tos", "by type of service"),
        ("encap", "with tunnels or labels"),
        ("from", "by source"),
    ] {
        if v.get(key).is_some() {
            return Err(format!(
                "route {to}: '{key}': routes {what} are not supported"
            ));
        }
    }
    let kind = match text(v, "type") {
        None | Some("unicast") => RouteKind::Unicast,
        Some("blackhole") => RouteKind::Blackhole,
        Some("unreachable") => RouteKind::Unreachable,
        Some("prohibit") => RouteKind::Prohibit,
        Some("throw") => RouteKind::Throw,
        Some("local") => RouteKind::Local,
        Some("broadcast") => RouteKind::Broadcast,
        Some("multicast" | "anycast") => return Ok(None),
        Some(other) => return Err(format!("route {to}: '{other}' routes are not supported")),
    };
    let mut hops = Vec::new();
    match v.get("nexthops").and_then(Value::as_array) {
        Some(list) => {
            for h in list {
                hops.extend(ip_hop(h)?);
            }
        }
        None => hops.extend(ip_hop(v)?),
    }
    let table = match v.get("table") {
        Some(Value::String(t)) => Some(t.clone()),
        Some(Value::Number(n)) => Some(n.to_string()),
        _ => None,
    };
    // only routes of IPv6 have a preference
    let v6 = v.get("pref").is_some()
        || hops
            .iter()
            .any(|h: &Hop| h.via.is_some_and(|a| a.is_ipv6()));
    let (net, len) = prefix(to, v6)?;
    let mut hops = hops.into_iter();
    let Some(hop) = hops.next() else {
        return Ok(None);
    };
    let route = checked(Route {
        net,
        len,
        kind,
        hop,
        more: hops.collect(),
        metric: number(v, "metric")?.unwrap_or(0),
        table: table.filter(|t| !matches!(t.as_str(), "main" | "254")),
    })?;
    Ok(Some(route))
}

/// A next hop; `None` if it is down.
fn ip_hop(v: &Value) -> Result<Option<Hop>, String> {
    let flags = v.get("flags").and_then(Value::as_array);
    if flags.is_some_and(|f| f.iter().any(|f| f == "dead")) {
        return Ok(None);
    }
    let via = text(v, "gateway").or_else(|| text(v.get("via")?, "host"));
    Ok(Some(Hop {
        via: via.map(address).transpose()?,
        dev: text(v, "dev").map(str::to_string),
        weight: number(v, "weight")?.unwrap_or(1),
    }))
}

/// What FRR's `show ip route json` prints: lists of routes by network; those that are installed count.
fn frr(networks: &Map<String, Value>, lines: &HashMap<String, Vec<u32>>) -> Found {
    let (mut routes, mut errors) = (Vec::new(), Vec::new());
    for (network, list) in networks {
        let lines = lines.get(network).map_or(&[][..], Vec::as_slice);
        let Some(list) = list.as_array() else {
            let line = lines.first().copied().unwrap_or(1);
            let e = format!(
                "'{network}': expected a list of routes, as FRR's 'show ip route json' prints it"
            );
            errors.push((line, e));
            continue;
        };
        for (n, v) in list.iter().enumerate() {
            let line = lines.get(n).copied().unwrap_or(1);
            match frr_route(network, v) {
                Ok(r) => routes.extend(r.map(|r| (r, line))),
                Err(e) => errors.push((line, e)),
            }
            if routes.len() > MAX_ROUTES {
                errors.push((line, format!("more than {MAX_ROUTES} routes")));
                return (routes, errors);
            }
        }
    }
    (routes, errors)
}

/// One of them; `None` if it is not installed. FRR's distance and metric have chosen it; the kernel is not asked again.
fn frr_route(network: &str, v: &Value) -> Result<Option<Route>, String> {
    if v.get("installed").and_then(Value::as_bool) != Some(true) {
        return Ok(None);
    }
    let (net, len) = prefix(network, false)?;
    let yes = |h: &Value, key: &str| h.get(key).and_then(Value::as_bool) == Some(true);
    let mut kind = match text(v, "protocol") {
        Some("local") => RouteKind::Local,
        _ => RouteKind::Unicast,
    };
    let mut hops = Vec::new();
    let list = v.get("nexthops").and_then(Value::as_array);
    for h in list.into_iter().flatten() {
        // those that are looked up again have their results beside them
        if !yes(h, "fib") {
            continue;
        }
        if yes(h, "reject") {
            kind = RouteKind::Unreachable;
        } else if yes(h, "adminProhibited") || yes(h, "admin-prohibited") {
            kind = RouteKind::Prohibit;
        } else if yes(h, "blackhole") || yes(h, "unreachable") {
            kind = RouteKind::Blackhole;
        }
        hops.push(Hop {
            via: text(h, "ip").map(address).transpose()?,
            dev: text(h, "interfaceName").map(str::to_string),
            weight: number(h, "weight")?.unwrap_or(1),
        });
    }
    let mut hops = hops.into_iter();
    let Some(hop) = hops.next() else {
        return Ok(None);
    };
    let table = number(v, "table")?.map(|t| t.to_string());
    let route = checked(Route {
        net,
        len,
        kind,
        hop,
        more: hops.collect(),
        metric: 0,
        table: table.filter(|t| t != "254"),
    })?;
    Ok(Some(route))
}
