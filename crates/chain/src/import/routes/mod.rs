//! Routes: what `ip route` prints (our own one-line form is that, too), what `ip -j route` prints, and FRR's
//! `show ip route json`.
//!
//! Of several routes to one network the kernel uses one, and so do we ([`select`]): that of the table `local`, else the
//! one with the lowest metric, else the first; IPv6 routes of one metric are one route with several next hops.

mod json;
mod text;

use crate::error::Reader;
use onefold_click::diag::Diagnostic;
use onefold_click::source::{FileId, Span};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

pub use text::parse_route;

/// Most next hops of a route, and most of them by weight once the weights have no common divisor.
pub const MAX_HOPS: usize = 256;
/// Errors that are told of a file; what follows is of the same kind in most cases.
const MAX_ERRORS: usize = 20;
/// Metric of an IPv6 route that has none (`IP6_RT_PRIO_USER`).
const METRIC6: u32 = 1024;

/// What a route does with a packet (`ip-route(8)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RouteKind {
    /// Forwards it.
    #[default]
    Unicast,
    /// Drops it.
    Blackhole,
    /// Drops it, and says so: host unreachable, for IPv6 no route.
    Unreachable,
    /// Drops it, and says so: administratively prohibited.
    Prohibit,
    /// As if there were no route.
    Throw,
    /// The router itself has this address.
    Local,
    /// Nobody's address: packets that others send to it are dropped.
    Broadcast,
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Address of the next router; none if destinations are on the link.
    pub via: Option<IpAddr>,
    /// Interface, by name or number.
    pub dev: Option<String>,
    /// Share of flows, beside the other next hops' (1 to 256).
    pub weight: u32,
}

impl Default for Hop {
    fn default() -> Self {
        Hop {
            via: None,
            dev: None,
            weight: 1,
        }
    }
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Network.
    pub net: IpAddr,
    /// Prefix length.
    pub len: u8,
    /// What it does.
    pub kind: RouteKind,
    /// Where it leads; nothing is said there unless it is [`RouteKind::Unicast`].
    pub hop: Hop,
    /// Further next hops.
    pub more: Vec<Hop>,
    /// The lowest of a network counts.
    pub metric: u32,
    /// The table it is in, unless that is `main`.
    pub table: Option<String>,
}

impl Route {
    /// `10.0.0.0/8`
    pub fn prefix_text(&self) -> String {
        format!("{}/{}", self.net, self.len)
    }

    /// All next hops.
    pub fn hops(&self) -> impl Iterator<Item = &Hop> {
        std::iter::once(&self.hop).chain(&self.more)
    }

    /// No next hop is said, only a network: what a route is removed by.
    pub fn is_bare(&self) -> bool {
        self.kind == RouteKind::Unicast && self.more.is_empty() && self.hop == Hop::default()
    }

    /// In a table that is asked without rules for routing (`ip rule`): `local`, `main`, `default`.
    pub fn is_used(&self) -> bool {
        self.table
            .as_deref()
            .is_none_or(|t| matches!(t, "local" | "main" | "default" | "253" | "254" | "255"))
    }

    /// The order in which the kernel prefers routes to one network.
    fn rank(&self) -> (u8, u32) {
        let table = match (self.kind, self.table.as_deref()) {
            (RouteKind::Local | RouteKind::Broadcast, _) | (_, Some("local" | "255")) => 0,
            (_, Some("default" | "253")) => 2,
            _ => 1,
        };
        (table, self.metric)
    }
}

/// A route with the file and the line that it comes from.
pub type PlacedRoute = (Route, String, u32);

/// Which routes count.
#[derive(Debug, Default)]
pub struct Selection {
    /// One for each network, in the order in which they stand.
    pub routes: Vec<PlacedRoute>,
    /// In tables that nothing asks here: table, file, line of the first, how many.
    pub tables: Vec<(String, String, u32, usize)>,
    /// As good as one that stands before it and counts: place of this one, place of the other.
    pub repeated: Vec<(String, u32, String, u32)>,
}

/// Most that [`Selection::repeated`] tells.
const MAX_REPEATED: usize = 20;

/// Of all routes those that the kernel would use.
pub fn select(all: Vec<PlacedRoute>) -> Selection {
    let mut out = Selection::default();
    let mut at: HashMap<(IpAddr, u8), usize> = HashMap::with_capacity(all.len());
    for (route, file, line) in all {
        if !route.is_used() {
            let table = route.table.unwrap_or_default();
            match out.tables.iter_mut().find(|t| t.0 == table) {
                Some(t) => t.3 += 1,
                None => out.tables.push((table, file, line, 1)),
            }
            continue;
        }
        let first = match at.entry((route.net, route.len)) {
            Entry::Vacant(v) => {
                v.insert(out.routes.len());
                out.routes.push((route, file, line));
                continue;
            }
            Entry::Occupied(o) => *o.get(),
        };
        let Some(old) = out.routes.get_mut(first) else {
            continue;
        };
        match route.rank().cmp(&old.0.rank()) {
            std::cmp::Ordering::Less => *old = (route, file, line),
            std::cmp::Ordering::Greater => {}
            // siblings (rt6_qualify_for_ecmp)
            std::cmp::Ordering::Equal if is_sibling(&route) && is_sibling(&old.0) => {
                let new = route.hops().filter(|h| !old.0.hops().any(|o| o == *h));
                let new: Vec<Hop> = new.cloned().collect();
                old.0.more.extend(new);
            }
            std::cmp::Ordering::Equal if out.repeated.len() < MAX_REPEATED && route != old.0 => {
                let other = (old.1.clone(), old.2);
                out.repeated.push((file, line, other.0, other.1));
            }
            std::cmp::Ordering::Equal => {}
        }
    }
    out
}

fn is_sibling(r: &Route) -> bool {
    r.net.is_ipv6() && r.kind == RouteKind::Unicast && r.hop.via.is_some()
}

/// One output for each share of a route's next hops: numbers of next hops, as many of each as its weight says, without
/// the weights' common divisor. `None` if there are more than [`MAX_HOPS`].
pub fn shares(route: &Route) -> Option<Vec<usize>> {
    let gcd = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let divisor = route.hops().fold(0, |d, h| gcd(h.weight, d)).max(1);
    let mut out = Vec::new();
    for (n, h) in route.hops().enumerate() {
        let share = (h.weight / divisor) as usize;
        if out.len() + share > MAX_HOPS {
            return None;
        }
        out.extend(std::iter::repeat_n(n, share));
    }
    Some(out)
}

/// `10.0.0.0/8`, `192.0.2.1`, `default` (of IPv6 if `v6`).
fn prefix(text: &str, v6: bool) -> Result<(IpAddr, u8), String> {
    if text == "default" {
        return Ok(match v6 {
            true => (IpAddr::from([0u8; 16]), 0),
            false => (IpAddr::from([0u8; 4]), 0),
        });
    }
    let bad = || format!("expected a prefix such as 10.0.0.0/8, or 'default', found '{text}'");
    let (a, l) = text
        .split_once('/')
        .map_or((text, None), |(a, l)| (a, Some(l)));
    let net: IpAddr = a.parse().map_err(|_| bad())?;
    let bits = if net.is_ipv4() { 32 } else { 128 };
    let len = match l.map(str::parse::<u32>) {
        Some(Ok(n)) if n > u32::from(bits) => {
            return Err(format!("`{text}`: a prefix is at most {bits} bits long"));
        }
        Some(n) => n.ok().and_then(|n| u8::try_from(n).ok()).ok_or_else(bad)?,
        None => bits,
    };
    Ok((net, len))
}

/// What holds of every route, however it was written.
fn checked(mut r: Route) -> Result<Route, String> {
    let other_version = |h: &Hop| h.via.is_some_and(|v| v.is_ipv4() != r.net.is_ipv4());
    let who = || format!("route {}", r.prefix_text());
    if r.hops().any(other_version) {
        return Err(format!(
            "{}: the next hop is of the other IP version",
            who()
        ));
    }
    if r.hops().any(|h| h.weight == 0 || h.weight > 256) {
        return Err(format!("{}: a next hop's weight is 1 to 256", who()));
    }
    if shares(&r).is_none() {
        return Err(format!(
            "{}: at most {MAX_HOPS} next hops, each as often as its weight",
            who()
        ));
    }
    if r.net.is_ipv6() && r.metric == 0 {
        r.metric = METRIC6;
    }
    Ok(r)
}

/// Reads a file of routes. Of text, empty lines and `#` comments are skipped, and so are lines that say nothing of
/// where forwarded packets go (multicast, anycast). Errors go to the reader.
pub fn read_routes(reader: &mut Reader, file: FileId, text: &str, span: Span) -> Vec<(Route, u32)> {
    let (routes, errors) = match text.trim_start().starts_with(['[', '{']) {
        true => json::read(text),
        false => text::read(text),
    };
    let found = errors.len();
    for (line, e) in errors.into_iter().take(MAX_ERRORS) {
        let at = reader.line_span(file, line as usize);
        reader.error(at, e);
    }
    if found > MAX_ERRORS {
        let name = reader.sources.name(file).to_string();
        let more = found - MAX_ERRORS;
        reader.error(
            span,
            format!("{name}: {more} more routes that cannot be taken"),
        );
    }
    routes
}

/// Warns of routes that do not count ([`Selection`]).
pub(crate) fn warn(reader: &mut Reader, who: &str, span: Span, found: &Selection) {
    let mut warn = |text: String, hint: &str| {
        let d = Diagnostic::warning(format!("{who}: {text}")).at(&reader.sources, span);
        reader.diagnostics.push(d.hint(hint));
    };
    for (table, file, line, n) in &found.tables {
        let routes = if *n == 1 { "route" } else { "routes" };
        warn(
            format!("{n} {routes} of table {table} ({file}:{line}) are not used"),
            "rules for routing (ip rule) are not read: the tables local, main and default count",
        );
    }
    for (file, line, other, n) in &found.repeated {
        warn(
            format!(
                "the route at {file}:{line} is never used: one to the same network stands at {other}:{n}"
            ),
            "the first of those with the lowest metric counts, as in the kernel",
        );
    }
}

#[cfg(test)]
mod tests;
