//! The IPv4 half of a router.

use super::rated;
use super::ways::{Texts, Way, Ways};
use super::{FOR_ROUTER, KindCx, Lines, NO_HOST, Outputs, Port, Router, mask4, same4};
use crate::import::{PlacedRoute, Route};
use crate::kinds::{ClickText, discard};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// Destinations that are never forwarded unless a route says so: this network, loopback (RFC 1812 5.3.7), and multicast
/// and class E, the limited broadcast address with it.
const MARTIANS: [(Ipv4Addr, u8); 3] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// The addresses of a network that are no host's: the network itself and its directed broadcast.
fn no_hosts((a, l): (Ipv4Addr, u8)) -> Vec<Ipv4Addr> {
    match l {
        31.. => Vec::new(),
        _ => {
            let a = u32::from(a);
            vec![(a & mask4(l)).into(), (a | !mask4(l)).into()]
        }
    }
}

impl Router {
    /// The look-up and what is for the router itself. Output 0: its own addresses; 1 + port: to be forwarded; then
    /// those of [`Ways`], and next hops outside a port's network, for which there are no redirects: gives back these
    /// outputs by port.
    pub(super) fn table4(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        ports: &[Port],
        routes: &[PlacedRoute],
        limit: &str,
    ) -> (BTreeMap<usize, usize>, Ways) {
        let mut ways = Ways::new(Outputs::new(ports.len()));
        let mut lines = Lines::default();
        self.own4(cx, &mut lines, ports, ways.nowhere);
        let mut off_link = BTreeMap::new();
        let mut given = Vec::new();
        for (r, file, line) in routes {
            let IpAddr::V4(net) = r.net else { continue };
            let at = (file.clone(), *line);
            let way = self.way(r, ports, &mut ways);
            if way != Ok(Way::Known) {
                given.push((net, r.len));
            }
            match way {
                Ok(Way::Known) => {}
                Ok(Way::Output(to)) => lines.add(format!("{net}/{} {to}", r.len), &at),
                Ok(Way::Port(n, via)) => {
                    let gateway = match via {
                        Some(IpAddr::V4(g)) => format!("{g} "),
                        _ => String::new(),
                    };
                    let to = match ports.get(n).and_then(|p| p.v4) {
                        Some(own) if self.redirects.unwrap_or(true) && !on_link(r, via, own) => {
                            *off_link.entry(n).or_insert_with(|| ways.one())
                        }
                        _ => n + 1,
                    };
                    lines.add(format!("{net}/{} {gateway}{to}", r.len), &at);
                }
                Err(e) => cx.error_whole(format!("{file}:{line}: {e}")),
            }
        }
        let place = cx.reader.sources.locate(cx.span);
        let place = (place.file, place.line);
        for (net, len) in MARTIANS.iter().filter(|m| !given.contains(*m)) {
            lines.add(format!("{net}/{len} {}", ways.nowhere), &place);
        }
        if !given.iter().any(|g| g.1 == 0) {
            lines.add(format!("0.0.0.0/0 {}", ways.no_route()), &place);
        }
        lines.write(t, "rt :: RadixIPLookup");
        // the rate of what the router says of its own accord
        rated(t, "errors", limit, "rt");
        if self.redirects.unwrap_or(true) {
            rated(t, "redirects", limit, "rt");
        }
        for (n, p) in ports.iter().enumerate() {
            if p.v4.is_none() {
                let why = discard("route to an interface without an IPv4 address");
                t.line(format!("rt[{}] -> {why};", n + 1));
            }
        }
        t.line(format!("rt[{}] -> {};", ways.nowhere, discard(NO_HOST)));
        if let Some(me) = own(ports) {
            self_delivery(t, me);
        }
        (off_link, ways)
    }

    /// The interfaces' addresses and networks.
    fn own4(&self, cx: &KindCx<'_>, lines: &mut Lines, ports: &[Port], nowhere: usize) {
        for (n, p) in ports.iter().enumerate() {
            let (Some((a, l)), Some(at)) = (p.v4, &self.interfaces[n].address) else {
                continue;
            };
            let at = cx.reader.sources.locate(cx.at(at));
            let at = (at.file, at.line);
            lines.add(format!("{a}/32 0"), &at);
            for x in no_hosts((a, l)) {
                lines.add(format!("{x}/32 {nowhere}"), &at);
            }
            if l < 32 {
                let net = Ipv4Addr::from(u32::from(a) & mask4(l));
                lines.add(format!("{net}/{l} {}", n + 1), &at);
            }
        }
    }
}

/// An address to answer from.
fn own(ports: &[Port]) -> Option<Ipv4Addr> {
    ports.iter().find_map(|p| p.v4).map(|v| v.0)
}

/// What [`Ways`] are in IPv4: errors of RFC 1812 5.2.7.1, as Linux tells kinds of routes apart.
pub(super) fn texts(ports: &[Port]) -> Texts<'static> {
    let answer = |me| move |code: &str| format!("ICMPError({me}, unreachable, {code}) -> errors");
    Texts {
        table: "rt",
        answers: own(ports).map(|me| ["net", "host", "filterprohibited"].map(answer(me))),
        addresses: "12, 8",
        set: "SetIPAddress",
        out: "gio",
    }
}

/// Is the next hop of a route on its interface's network? Then hosts of that network can be told of it.
fn on_link(r: &Route, via: Option<IpAddr>, (a, l): (Ipv4Addr, u8)) -> bool {
    match (via, r.net) {
        (Some(IpAddr::V4(g)), _) => same4(a, g, l),
        (None, IpAddr::V4(net)) => r.len >= l && same4(a, net, l),
        _ => false,
    }
}

/// What is for the router itself: pings are answered, ports and protocols that nobody listens to are said to be
/// unreachable. It has no TCP to reset connections with, and does not put fragments together.
fn self_delivery(t: &mut ClickText, me: Ipv4Addr) {
    t.line("rt[0] -> DropBroadcasts -> me :: IPClassifier(ip frag, icmp type echo, icmp or tcp, udp, -);");
    t.line(format!(
        "me[0] -> {};",
        discard("fragment for the router itself")
    ));
    t.line("me[1] -> ICMPPingResponder(CHECKSUM true) -> rt;");
    t.line(format!("me[2] -> {};", discard(FOR_ROUTER)));
    t.line(format!(
        "me[3] -> ICMPError({me}, unreachable, port) -> errors;"
    ));
    t.line(format!(
        "me[4] -> ICMPError({me}, unreachable, protocol) -> errors;"
    ));
}

/// From the device's ARP and IPv4 packets on.
pub(super) fn interface_in(t: &mut ClickText, n: usize, p: &Port) {
    let Some((a, l)) = p.v4 else {
        for i in 0..3 {
            let why = discard("IPv4 or ARP on an interface without an IPv4 address");
            t.line(format!("c{n}[{i}] -> {why};"));
        }
        return;
    };
    t.line(format!("c{n}[0] -> ARPResponder({a} {}) -> out{n};", p.mac));
    match p.gateway {
        None => t.line(format!(
            "c{n}[1] -> [1]arpq{n} :: ARPQuerier({a}, {}) -> out{n};",
            p.mac
        )),
        Some(_) => t.line(format!(
            "c{n}[1] -> {};",
            discard("ARP reply on an interface that asks nobody")
        )),
    };
    let bad: String = MARTIANS
        .iter()
        .map(|(net, len)| format!(" {net}/{len}"))
        .chain(no_hosts((a, l)).iter().map(|x| format!(" {x}")))
        .collect();
    // paint: the colour of the interface, for redirects
    t.line(format!(
        "c{n}[2] -> Paint({}) -> Strip(14) -> CheckIPHeader(BADSRC{bad}) -> GetIPAddress(16) -> rt;",
        n + 1
    ));
}

/// From the IPv4 look-up to the device.
pub(super) fn interface_out(
    t: &mut ClickText,
    n: usize,
    p: &Port,
    redirects: bool,
    off_link: Option<&usize>,
) {
    let Some((addr, len)) = p.v4 else { return };
    t.line(format!("gio{n} :: IPGWOptions({addr})"));
    t.line(format!("  -> FixIPSrc({addr})"));
    t.line(format!("  -> dt{n} :: DecIPTTL"));
    match &p.gateway {
        Some(g) => t.line(format!(
            "  -> fr{n} :: IPFragmenter({}) -> EtherEncap(0x0800, {}, {g}) -> out{n};",
            p.mtu, p.mac
        )),
        None => t.line(format!(
            "  -> fr{n} :: IPFragmenter({}) -> [0]arpq{n};",
            p.mtu
        )),
    };
    t.line(format!("rt[{}] -> DropBroadcasts", n + 1));
    if redirects && len < 32 {
        // back to where it came from, by a host that reaches the next hop itself
        let net = Ipv4Addr::from(u32::from(addr) & mask4(len));
        t.line(format!("  -> back{n} :: CheckPaint({})", n + 1));
        t.line(format!(
            "  -> near{n} :: IPClassifier(src net {net}/{len}, -)"
        ));
        t.line(format!("  -> cp{n} :: Tee(2);"));
        t.line(format!(
            "cp{n}[0] -> ICMPError({addr}, redirect, host) -> redirects;"
        ));
        t.line(format!("cp{n}[1] -> gio{n};"));
        t.line(format!("near{n}[1] -> gio{n};"));
        t.line(format!("back{n}[1] -> gio{n};"));
    } else {
        t.line(format!("  -> gio{n};"));
    }
    if let Some(to) = off_link {
        t.line(format!("rt[{to}] -> DropBroadcasts -> gio{n};"));
    }
    t.line(format!(
        "gio{n}[1] -> ICMPError({addr}, parameterproblem) -> errors;"
    ));
    t.line(format!(
        "dt{n}[1] -> ICMPError({addr}, timeexceeded) -> errors;"
    ));
    t.line(format!(
        "fr{n}[1] -> ICMPError({addr}, unreachable, needfrag, PMTU {}) -> errors;",
        p.mtu
    ));
}
