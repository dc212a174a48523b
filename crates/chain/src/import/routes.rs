//! Routes: our own one-line form, which is what `ip route` prints.

use crate::error::Reader;
use onefold_click::source::{FileId, Span};
use std::net::IpAddr;

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Network.
    pub net: IpAddr,
    /// Prefix length.
    pub len: u8,
    /// Next hop.
    pub via: Option<IpAddr>,
    /// Interface, by name or number.
    pub dev: Option<String>,
    /// Packets are dropped.
    pub blackhole: bool,
}

impl Route {
    /// `10.0.0.0/8`
    pub fn prefix_text(&self) -> String {
        format!("{}/{}", self.net, self.len)
    }
}

/// Words of `ip route` that say nothing about where packets go, with one word behind them.
const IGNORED_PAIRS: &[&str] = &[
    "proto", "scope", "src", "metric", "pref", "table", "mtu", "advmss", "expires", "hoplimit",
];

/// Reads one route: `PREFIX|default [via ADDRESS] [dev NAME] [blackhole]`, `blackhole PREFIX`, and the attributes that
/// `ip route` prints besides (`proto`, `scope`, `metric` ... are accepted and do nothing). What else it prints is
/// refused by name.
pub fn parse_route(text: &str) -> Result<Route, String> {
    let mut words = text.split_whitespace().peekable();
    let mut blackhole = false;
    if let Some(k @ ("blackhole" | "unreachable" | "prohibit" | "unicast")) = words.peek().copied()
    {
        match k {
            "unicast" => {}
            "blackhole" => blackhole = true,
            _ => {
                return Err(format!(
                    "'{k}' routes, which answer with ICMP errors, are not supported; use blackhole"
                ));
            }
        }
        words.next();
    }
    let prefix = words
        .next()
        .ok_or("expected a route such as 10.0.0.0/8 via 192.168.1.2")?;
    let rest: Vec<&str> = words.collect();
    let mut route = Route {
        net: IpAddr::from([0, 0, 0, 0]),
        len: 0,
        via: None,
        dev: None,
        blackhole,
    };
    let mut i = 0;
    while i < rest.len() {
        let value = rest.get(i + 1).copied();
        match rest[i] {
            "via" => {
                let v = value
                    .filter(|v| *v != "inet6" && *v != "inet")
                    .or(rest.get(i + 2).copied());
                let skip = usize::from(matches!(value, Some("inet6" | "inet")));
                let v = v.ok_or("expected an address behind 'via'")?;
                route.via = Some(
                    v.parse()
                        .map_err(|_| format!("expected an address behind 'via', found '{v}'"))?,
                );
                i += 2 + skip;
            }
            "dev" => {
                route.dev = Some(
                    value
                        .ok_or("expected an interface behind 'dev'")?
                        .to_string(),
                );
                i += 2;
            }
            "blackhole" => {
                route.blackhole = true;
                i += 1;
            }
            "onlink" | "linkdown" => i += 1,
            w if IGNORED_PAIRS.contains(&w) => i += 2,
            w => return Err(format!("'{w}' in a route is not supported")),
        }
    }
    if prefix == "default" {
        if matches!(route.via, Some(IpAddr::V6(_))) {
            route.net = IpAddr::from([0u8; 16]);
        }
        return Ok(route);
    }
    let (a, l) = prefix
        .split_once('/')
        .map_or((prefix, None), |(a, l)| (a, Some(l)));
    let bad = || format!("expected a prefix such as 10.0.0.0/8, or 'default', found '{prefix}'");
    route.net = a.parse().map_err(|_| bad())?;
    let bits = if route.net.is_ipv4() { 32 } else { 128 };
    route.len = match l {
        Some(l) => l.parse().ok().filter(|l| *l <= bits).ok_or_else(bad)?,
        None => bits,
    };
    if route
        .via
        .is_some_and(|v| v.is_ipv4() != route.net.is_ipv4())
    {
        return Err(format!(
            "route {prefix}: the next hop is of the other IP version"
        ));
    }
    Ok(route)
}

/// Reads a file of routes; empty lines and `#` comments are skipped. Errors go to the reader.
pub fn read_routes(
    reader: &mut Reader,
    file: FileId,
    text: &str,
    _span: Span,
) -> Vec<(Route, u32)> {
    let mut out = Vec::new();
    let mut errors = 0;
    for (i, l) in text.lines().enumerate() {
        let l = l.split_once('#').map_or(l, |(a, _)| a).trim();
        if l.is_empty() {
            continue;
        }
        match parse_route(l) {
            Ok(r) => out.push((r, i as u32 + 1)),
            Err(e) => {
                errors += 1;
                if errors <= 20 {
                    let at = reader.line_span(file, i + 1);
                    reader.error(at, e);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_route_prints() {
        let r = parse_route("default via 10.0.2.2 dev eth0 proto dhcp src 10.0.2.15 metric 100")
            .unwrap();
        assert_eq!(
            (r.len, r.via, r.dev.as_deref()),
            (0, Some("10.0.2.2".parse().unwrap()), Some("eth0"))
        );
        let r = parse_route("10.0.2.0/24 dev eth0 proto kernel scope link src 10.0.2.15").unwrap();
        assert_eq!(r.prefix_text(), "10.0.2.0/24");
        assert_eq!(parse_route("192.0.2.7").unwrap().len, 32);
        assert!(parse_route("blackhole 192.0.2.0/24").unwrap().blackhole);
        let r = parse_route("default via fe80::1 dev 0").unwrap();
        assert!(r.net.is_ipv6());
        for (bad, word) in [
            ("10.0.0.0/8 nexthop via 1.1.1.1", "nexthop"),
            ("unreachable 10.0.0.0/8", "unreachable"),
            ("10.0.0.0/33 dev 1", "prefix"),
            ("10.0.0.0/8 via ::1", "other IP version"),
            ("", "expected a route"),
        ] {
            let e = parse_route(bad).unwrap_err();
            assert!(e.contains(word), "{bad}: {e}");
        }
    }
}
