//! What `ip route` prints, and what one types behind `ip route add`.

use super::{Hop, Route, RouteKind, checked, prefix};
use std::net::IpAddr;

/// Words of `ip route` that say nothing about where packets go, with one word behind them.
const IGNORED_PAIRS: &[&str] = &[
    "proto",
    "protocol",
    "scope",
    "src",
    "pref",
    "advmss",
    "expires",
    "hoplimit",
    "nhid",
    "realm",
    "realms",
    "rtt",
    "rttvar",
    "ssthresh",
    "cwnd",
    "window",
    "initcwnd",
    "initrwnd",
    "rto_min",
    "reordering",
    "quickack",
    "congctl",
    "features",
    "fastopen_no_cookie",
    "error",
    "age",
    "users",
    "used",
];
/// And those that stand alone.
const IGNORED: &[&str] = &[
    "onlink",
    "linkdown",
    "offload",
    "rt_offload",
    "trap",
    "rt_trap",
    "pervasive",
    "cache",
    "notify",
];
/// What changes where packets go, and has no equivalent.
const REFUSED: &[(&str, &str)] = &[
    ("tos", "routes by type of service"),
    ("dsfield", "routes by type of service"),
    ("encap", "tunnels and labels of routes"),
    ("as", "labels of routes"),
    ("from", "routes by source"),
];

/// A line's first word.
fn kind(word: &str) -> Option<RouteKind> {
    Some(match word {
        "unicast" => RouteKind::Unicast,
        "blackhole" => RouteKind::Blackhole,
        "unreachable" => RouteKind::Unreachable,
        "prohibit" => RouteKind::Prohibit,
        "throw" => RouteKind::Throw,
        "local" => RouteKind::Local,
        "broadcast" => RouteKind::Broadcast,
        _ => return None,
    })
}

/// Words, with the one that is read.
struct Words<'a> {
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    fn value(&mut self, of: &str, what: &str) -> Result<&'a str, String> {
        self.words
            .next()
            .ok_or_else(|| format!("expected {what} behind '{of}'"))
    }

    fn number(&mut self, of: &str) -> Result<u32, String> {
        let v = self.value(of, "a number")?;
        v.parse()
            .map_err(|_| format!("expected a number behind '{of}', found '{v}'"))
    }

    /// `via ADDRESS`, `via inet6 ADDRESS`.
    fn via(&mut self) -> Result<IpAddr, String> {
        let mut v = self.value("via", "an address")?;
        if matches!(v, "inet" | "inet6") {
            v = self.value("via", "an address")?;
        }
        v.parse()
            .map_err(|_| format!("expected an address behind 'via', found '{v}'"))
    }
}

/// Reads one route: `[KIND] PREFIX|default [via ADDRESS] [dev NAME] [metric N]`, or with several next hops: `PREFIX
/// nexthop via ADDRESS dev NAME weight N nexthop ...`; KIND: unicast, blackhole, unreachable, prohibit, throw, local,
/// broadcast. What `ip route` prints besides (`proto`, `scope`, `src` ...) is accepted and does nothing.
///
/// # Errors
/// What cannot be read, and what has no equivalent, by name.
pub fn parse_route(text: &str) -> Result<Route, String> {
    parse(text)?.ok_or_else(|| "all next hops of this route are down (dead)".to_string())
}

/// The same; `None` if all next hops are down: the kernel does not use such a route.
fn parse(text: &str) -> Result<Option<Route>, String> {
    let mut w = Words {
        words: text.split_whitespace().peekable(),
    };
    let mut kind_of = w.words.peek().and_then(|k| kind(k));
    if kind_of.is_some() {
        w.words.next();
    }
    let to = w
        .words
        .next()
        .ok_or("expected a route such as 10.0.0.0/8 via 192.168.1.2")?;
    let (mut hops, mut v6) = (vec![Hop::default()], false);
    let (mut metric, mut table, mut dead) = (0, None, false);
    while let Some(word) = w.words.next() {
        let hop = hops.last_mut().ok_or("no next hop")?;
        match word {
            "via" => hop.via = Some(w.via()?),
            "dev" | "oif" => hop.dev = Some(w.value("dev", "an interface")?.to_string()),
            "weight" => hop.weight = w.number("weight")?,
            "nexthop" => {
                // one that is down takes no packets
                if std::mem::take(&mut dead) {
                    hops.pop();
                }
                hops.push(Hop::default());
            }
            "dead" => dead = true,
            "metric" | "preference" | "priority" => metric = w.number(word)?,
            "table" => table = Some(w.value("table", "a table's name or number")?.to_string()),
            "mtu" => {
                if w.value("mtu", "a number")? == "lock" {
                    w.value("mtu", "a number")?;
                }
            }
            // our own form has it behind the prefix
            "blackhole" => kind_of = Some(RouteKind::Blackhole),
            word if IGNORED.contains(&word) => {}
            word if IGNORED_PAIRS.contains(&word) => {
                v6 |= word == "pref";
                w.words.next();
            }
            word => return Err(refused(word)),
        }
    }
    if dead {
        hops.pop();
    }
    route(to, kind_of.unwrap_or_default(), hops, v6, (metric, table))
}

fn refused(word: &str) -> String {
    match REFUSED.iter().find(|r| r.0 == word) {
        Some((_, what)) => format!("'{word}' in a route is not supported: {what}"),
        None => format!("'{word}' in a route is not supported"),
    }
}

fn route(
    to: &str,
    kind: RouteKind,
    mut hops: Vec<Hop>,
    v6: bool,
    (metric, table): (u32, Option<String>),
) -> Result<Option<Route>, String> {
    // `nexthop` begins the list of next hops: nothing was said in front of it
    if hops.len() > 1 && hops.first() == Some(&Hop::default()) {
        hops.remove(0);
    }
    if hops.len() > 1 && kind != RouteKind::Unicast {
        return Err("only routes that forward have next hops".into());
    }
    let v6 = v6 || hops.iter().any(|h| h.via.is_some_and(|v| v.is_ipv6()));
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
        metric,
        table: table.filter(|t| !matches!(t.as_str(), "main" | "254")),
    })?;
    Ok(Some(route))
}

/// Routes with their lines, and errors with theirs.
pub(super) type Found = (Vec<(Route, u32)>, Vec<(u32, String)>);

/// Reads lines. Next hops are on lines of their own, indented, behind their route.
pub(super) fn read(text: &str) -> Found {
    let (mut routes, mut errors) = (Vec::new(), Vec::new());
    let mut lines = text.lines().enumerate().peekable();
    while let Some((i, l)) = lines.next() {
        let bare = |l: &'_ str| l.split_once('#').map_or(l, |(a, _)| a).trim().to_string();
        let mut line = bare(l);
        while let Some((_, next)) = lines.peek()
            && next.starts_with([' ', '\t'])
            && next.trim_start().starts_with("nexthop ")
        {
            line.push(' ');
            line.push_str(&bare(next));
            lines.next();
        }
        let skipped = ["multicast ", "anycast "];
        if line.is_empty() || skipped.iter().any(|s| line.starts_with(s)) {
            continue;
        }
        let number = i as u32 + 1;
        match parse(&line) {
            Ok(r) => routes.extend(r.map(|r| (r, number))),
            Err(e) => errors.push((number, e)),
        }
    }
    (routes, errors)
}
