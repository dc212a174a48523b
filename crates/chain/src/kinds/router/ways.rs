//! Where routes lead: to a port, to the router itself, nowhere, or to one of several next hops.

use super::{BLACKHOLE, KindCx, Outputs, Port, Router, same4, same6};
use crate::import::{Hop, PlacedRoute, Route, RouteKind, select, shares, warn_of_routes};
use crate::kinds::{ClickText, discard};
use std::net::IpAddr;

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To a port, by a next hop.
    Port(usize, Option<IpAddr>),
    /// To an output of the look-up.
    Output(usize),
    /// It says what is known of the interfaces already.
    Known,
}

/// Several next hops of a route.
#[derive(Debug)]
struct Several {
    /// The look-up's output for them.
    output: usize,
    /// Ports and addresses.
    hops: Vec<(usize, Option<IpAddr>)>,
    /// One of `hops` for each share.
    shares: Vec<usize>,
}

/// Outputs of a look-up that are no ports.
#[derive(Debug)]
pub(super) struct Ways {
    outputs: Outputs,
    blackhole: Option<usize>,
    unreachable: Option<usize>,
    prohibit: Option<usize>,
    no_route: Option<usize>,
    several: Vec<Several>,
    /// Addresses that are no host's.
    pub nowhere: usize,
}

/// A look-up's names and answers, which differ between IPv4 and IPv6.
pub(super) struct Texts<'a> {
    /// The look-up.
    pub table: &'a str,
    /// Answers to packets without a route, to unreachable and to prohibited destinations; none without an address to
    /// answer from.
    pub answers: Option<[String; 3]>,
    /// Where the two addresses stand in a packet, as HashSwitch takes it.
    pub addresses: &'a str,
    /// The element that sets the next hop.
    pub set: &'a str,
    /// Where a port's packets go to, but for its number.
    pub out: &'a str,
}

impl Ways {
    /// Outputs behind the router itself (0) and its ports (1 + port).
    pub fn new(mut outputs: Outputs) -> Ways {
        let nowhere = outputs.one();
        Ways {
            outputs,
            blackhole: None,
            unreachable: None,
            prohibit: None,
            no_route: None,
            several: Vec::new(),
            nowhere,
        }
    }

    /// A further output.
    pub fn one(&mut self) -> usize {
        self.outputs.one()
    }

    /// The output for packets without a route.
    pub fn no_route(&mut self) -> usize {
        *self.no_route.get_or_insert_with(|| self.outputs.one())
    }

    fn of_kind(&mut self, kind: RouteKind) -> usize {
        let at = match kind {
            // a unicast route has next hops, and is not asked for here
            RouteKind::Unicast | RouteKind::Throw => return self.no_route(),
            RouteKind::Local => return 0,
            RouteKind::Broadcast => return self.nowhere,
            RouteKind::Blackhole => &mut self.blackhole,
            RouteKind::Unreachable => &mut self.unreachable,
            RouteKind::Prohibit => &mut self.prohibit,
        };
        *at.get_or_insert_with(|| self.outputs.one())
    }

    /// What becomes of packets at these outputs; behind the ports' elements, which it refers to.
    pub fn write(&self, t: &mut ClickText, texts: &Texts<'_>) {
        let rt = texts.table;
        if let Some(to) = self.blackhole {
            t.line(format!("{rt}[{to}] -> {};", discard(BLACKHOLE)));
        }
        let silent = || discard("nobody to answer: no interface has an address");
        for (n, to) in [self.no_route, self.unreachable, self.prohibit]
            .iter()
            .enumerate()
        {
            let Some(to) = to else { continue };
            let answer = texts.answers.as_ref().and_then(|a| a.get(n));
            t.line(format!(
                "{rt}[{to}] -> {};",
                answer.cloned().unwrap_or_else(silent)
            ));
        }
        for s in &self.several {
            let to = s.output;
            t.line(format!(
                "{rt}[{to}] -> DropBroadcasts -> {rt}_hash{to} :: HashSwitch({});",
                texts.addresses
            ));
            for (h, (port, via)) in s.hops.iter().enumerate() {
                let set = via.map_or("Null".to_string(), |v| format!("{}({v})", texts.set));
                t.line(format!("{rt}_hop{to}_{h} :: {set} -> {}{port};", texts.out));
            }
            for (n, h) in s.shares.iter().enumerate() {
                t.line(format!("{rt}_hash{to}[{n}] -> {rt}_hop{to}_{h};"));
            }
        }
    }
}

impl Router {
    /// The routes that count; the operator is told of the others.
    pub(super) fn routes(&self, cx: &mut KindCx<'_>) -> Vec<PlacedRoute> {
        let found = select(self.all_routes(cx));
        let (who, span) = (cx.name, cx.span);
        warn_of_routes(cx.reader, who, span, &found);
        found.routes
    }

    /// Where a route leads.
    pub(super) fn way(&self, r: &Route, ports: &[Port], ways: &mut Ways) -> Result<Way, String> {
        // what `ip route` prints of an interface's own network and addresses is there already
        let own = |p: &Port| match (r.net, p.v4, p.v6) {
            (IpAddr::V4(net), Some((a, l)), _) => match r.kind {
                RouteKind::Unicast => l == r.len && same4(a, net, l),
                _ => r.len == 32 && same4(a, net, l),
            },
            (IpAddr::V6(net), _, Some((a, l))) => match r.kind {
                RouteKind::Unicast => l == r.len && same6(a, net, l),
                _ => r.len == 128 && a == net,
            },
            _ => false,
        };
        match r.kind {
            RouteKind::Unicast
                if r.more.is_empty() && r.hop.via.is_none() && ports.iter().any(own) =>
            {
                Ok(Way::Known)
            }
            RouteKind::Unicast if r.more.is_empty() => {
                Ok(Way::Port(self.port_of(r, &r.hop, ports)?, r.hop.via))
            }
            RouteKind::Unicast => {
                let hops = r.hops().map(|h| Ok((self.port_of(r, h, ports)?, h.via)));
                let hops = hops.collect::<Result<Vec<_>, String>>()?;
                let lacks = |p: &&(usize, _)| match (ports.get(p.0), r.net) {
                    (Some(p), IpAddr::V4(_)) => p.v4.is_none(),
                    (Some(p), IpAddr::V6(_)) => p.v6.is_none(),
                    (None, _) => true,
                };
                if let Some((n, _)) = hops.iter().find(lacks) {
                    return Err(format!(
                        "route {}: interface {n} has no address of this IP version",
                        r.prefix_text()
                    ));
                }
                let shares = shares(r).ok_or("too many next hops")?;
                let output = ways.one();
                ways.several.push(Several {
                    output,
                    hops,
                    shares,
                });
                Ok(Way::Output(output))
            }
            RouteKind::Local | RouteKind::Broadcast
                if r.net.is_loopback() || ports.iter().any(own) =>
            {
                Ok(Way::Known)
            }
            kind => Ok(Way::Output(ways.of_kind(kind))),
        }
    }

    /// The port that a next hop is at.
    fn port_of(&self, route: &Route, hop: &Hop, ports: &[Port]) -> Result<usize, String> {
        if let Some(dev) = &hop.dev {
            let by_name = self
                .interfaces
                .iter()
                .position(|i| i.name.as_deref() == Some(dev));
            return by_name
                .or_else(|| dev.parse().ok().filter(|n| *n < ports.len()))
                .ok_or_else(|| format!("route {}: no interface '{dev}'", route.prefix_text()));
        }
        let Some(via) = hop.via else {
            return Err(format!(
                "route {}: expected 'via ADDRESS' or 'dev PORT'",
                route.prefix_text()
            ));
        };
        let on_link = |p: &Port| match via {
            IpAddr::V4(a) => p.v4.is_some_and(|(n, l)| same4(n, a, l)),
            IpAddr::V6(a) => p.v6.is_some_and(|(n, l)| same6(n, a, l)),
        };
        ports.iter().position(on_link).ok_or_else(|| {
            format!(
                "route {}: next hop {via} is on no interface's network; say 'dev PORT'",
                route.prefix_text()
            )
        })
    }
}
