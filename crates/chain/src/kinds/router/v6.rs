//! The IPv6 half of a router.

use super::rated;
use super::ways::{Texts, Way, Ways};
use super::{FOR_ROUTER, KindCx, Lines, NO_HOST, Outputs, Port, Router, mask6};
use crate::import::PlacedRoute;
use crate::kinds::{ClickText, discard};
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

/// All nodes and all routers of a link (RFC 4291 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// What is said of packets that are dropped.
const NO_IP6: &str = "IPv6 on an interface without an IPv6 address";
const NOT_OURS: &str = "link-local or multicast address that is not the router's";

/// `fe80::/10`: stays on its link (RFC 4291 2.5.6).
fn link_local(a: Ipv6Addr) -> bool {
    a.segments()[0] & 0xffc0 == 0xfe80
}

/// The multicast address on which a neighbor is asked for (RFC 4291 2.7.1).
fn solicited_node(a: Ipv6Addr) -> Ipv6Addr {
    let [.., hi, lo] = a.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | hi & 0xff, lo)
}

/// A pattern of Classifier: these bytes at this place.
fn bytes_at(at: usize, a: Ipv6Addr) -> String {
    let mut s = format!("{at}/");
    for b in a.octets() {
        // writing to a String cannot fail
        let _ = write!(s, "{b:02x}");
    }
    s
}

impl Router {
    /// The look-up and what is for the router itself. Output 0: its own addresses; 1 + port: to be forwarded; then
    /// those of [`Ways`], and what stays on its link.
    pub(super) fn table6(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        ports: &[Port],
        routes: &[PlacedRoute],
        limit: &str,
    ) -> Ways {
        let mut ways = Ways::new(Outputs::new(ports.len()));
        let link = ways.one();
        // `mine` knows the router's own addresses only: packets whose source must stay on its link
        let (mut lines, mut mine) = (Lines::default(), Lines::default());
        let place = cx.reader.sources.locate(cx.span);
        let place = (place.file, place.line);
        self.own6(cx, &mut lines, &mut mine, ports);
        let mut default = false;
        for (r, file, line) in routes {
            let IpAddr::V6(net) = r.net else { continue };
            let at = (file.clone(), *line);
            // what `ip -6 route` prints of links is no way to another link
            if r.len >= 8 && net.is_multicast() || r.len >= 10 && link_local(net) {
                continue;
            }
            match self.way(r, ports, &mut ways) {
                Ok(Way::Known) => continue,
                Ok(Way::Output(to)) => {
                    lines.add(format!("{net}/{} ::0 {to}", r.len), &at);
                    if to == 0 {
                        mine.add(format!("{net}/{} ::0 0", r.len), &at);
                    }
                }
                Ok(Way::Port(n, via)) => {
                    let via = match via {
                        Some(IpAddr::V6(g)) => g.to_string(),
                        _ => "::0".to_string(),
                    };
                    lines.add(format!("{net}/{} {via} {}", r.len, n + 1), &at);
                }
                Err(e) => cx.error_whole(format!("{file}:{line}: {e}")),
            }
            default |= r.len == 0;
        }
        for of_link in ["fe80::/10", "ff00::/8"] {
            lines.add(format!("{of_link} ::0 {link}"), &place);
            mine.add(format!("{of_link} ::0 1"), &place);
        }
        mine.add("::/0 ::0 2".to_string(), &place);
        // unspecified and loopback
        lines.add(format!("::/127 ::0 {}", ways.nowhere), &place);
        if !default {
            lines.add(format!("::/0 ::0 {}", ways.no_route()), &place);
        }
        lines.write(t, "rt6 :: LookupIP6Route");
        mine.write(t, "own6 :: LookupIP6Route");
        rated(t, "errors6", limit, "rt6");
        for (n, p) in ports.iter().enumerate() {
            if p.v6.is_none() {
                let why = discard("route to an interface without an IPv6 address");
                t.line(format!("rt6[{}] -> {why};", n + 1));
            }
        }
        t.line(format!("rt6[{}] -> {};", ways.nowhere, discard(NO_HOST)));
        // by the interface that they came in at: for the router's own addresses, and what stays on the link
        t.line("mine6 :: DropBroadcasts -> mine6p :: PaintSwitch; link6 :: PaintSwitch;");
        t.line(format!(
            "mine6p[0] -> {0}; link6[0] -> {0};",
            discard(NO_IP6)
        ));
        t.line(format!("rt6[0] -> mine6; rt6[{link}] -> link6;"));
        t.line(format!(
            "own6[0] -> mine6; own6[1] -> link6; own6[2] -> {};",
            discard("source address must stay on its link")
        ));
        for (n, p) in ports.iter().enumerate() {
            self_delivery(t, n, p);
        }
        ways
    }

    /// The interfaces' addresses and networks; link-local ones are no matter of look-ups.
    fn own6(&self, cx: &KindCx<'_>, lines: &mut Lines, mine: &mut Lines, ports: &[Port]) {
        for (n, p) in ports.iter().enumerate() {
            let (Some((a, l)), Some(at)) = (p.v6, &self.interfaces[n].address6) else {
                continue;
            };
            if link_local(a) {
                continue;
            }
            let at = cx.reader.sources.locate(cx.at(at));
            let at = (at.file, at.line);
            lines.add(format!("{a}/128 ::0 0"), &at);
            mine.add(format!("{a}/128 ::0 0"), &at);
            if l < 128 {
                let net = Ipv6Addr::from(u128::from(a) & mask6(l));
                lines.add(format!("{net}/{l} ::0 {}", n + 1), &at);
            }
        }
    }
}

/// What [`Ways`] are in IPv6: errors of RFC 4443 3.1, as Linux tells kinds of routes apart (it has no route to what is
/// unreachable).
pub(super) fn texts(ports: &[Port]) -> Texts<'static> {
    let me = source(ports);
    let answer = |code| format!("ICMP6Error({me}, 1, {code}) -> errors6");
    Texts {
        table: "rt6",
        answers: Some([0, 0, 1].map(answer)),
        addresses: "8, 32",
        set: "SetIP6Address",
        out: "hl",
    }
}

/// An address for what the router says to anybody: one that is good beyond a link, if it has one.
pub(super) fn source(ports: &[Port]) -> Ipv6Addr {
    let all = || ports.iter().filter_map(|p| p.v6).map(|v| v.0);
    let far = all().find(|a| !link_local(*a));
    far.or_else(|| all().next()).unwrap_or(Ipv6Addr::LOCALHOST)
}

/// Next headers that a router says nothing of: TCP, which it does not have, ICMPv6 besides what it answers and "no next
/// header" beside it, and extension headers, which it does not look behind.
const QUIET: &str = "6/06, 6/3a%fe, 6/00, 6/2b, 6/2c, 6/3c";

/// What came in at an interface and is for the router: pings and neighbor solicitations are answered, ports that nobody
/// listens to are unreachable, and other protocols are not recognized (RFC 4443 3.1, 3.4).
fn self_delivery(t: &mut ClickText, n: usize, p: &Port) {
    let with_hop = p.gateway.is_some() || p.learns;
    let Some((a, _)) = p.v6.filter(|_| with_hop) else {
        t.line(format!(
            "mine6p[{0}] -> {1}; link6[{0}] -> {1};",
            n + 1,
            discard(NO_IP6)
        ));
        return;
    };
    // echo request, neighbor solicitation, and answers to our own solicitations, whose hop limit says that they are of
    // this link (RFC 4861 7.1.2)
    let answers = if p.gateway.is_none() {
        "6/3aff 40/88, "
    } else {
        ""
    };
    t.line(format!(
        "loc{n} :: Classifier(6/3a 40/80, 6/3a 40/87, {answers}6/11, {QUIET}, -); \
         mine6p[{}] -> loc{n};",
        n + 1
    ));
    let (other, link_reply) = match &p.gateway {
        Some(gateway) => {
            t.line(format!(
                "enc{n} :: EtherEncap(0x86dd, {}, {gateway}) -> out{n};",
                p.mac
            ));
            (2, "")
        }
        None => {
            t.line(format!(
                "enc{n} :: IP6NDSolicitor({a}, {}) -> out{n};",
                p.mac
            ));
            t.line(format!("loc{n}[2] -> Unstrip(14) -> [1]enc{n};"));
            (3, "GetIP6Address(24) -> ")
        }
    };
    // a link-local address says nothing of its link: the reply leaves where the request came in
    t.line(format!(
        "loc{n}[0] -> ICMP6PingResponder({a}) -> reply{n} :: Classifier(24/fe80%ffc0, -);"
    ));
    t.line(format!(
        "reply{n}[0] -> {link_reply}enc{n}; reply{n}[1] -> rt6;"
    ));
    t.line(format!(
        "loc{n}[1] -> Unstrip(14) -> IP6NDAdvertiser({a}/128 {}) -> out{n};",
        p.mac
    ));
    t.line(format!(
        "loc{n}[{other}] -> ICMP6Error({a}, 1, 4) -> errors6;"
    ));
    let quiet = QUIET.split(',').count();
    let all: Vec<String> = (1..=quiet)
        .map(|i| format!("loc{n}[{}] -> quiet{n};", other + i))
        .collect();
    t.line(format!(
        "quiet{n} :: {}; {}",
        discard(FOR_ROUTER),
        all.join(" ")
    ));
    let strange = other + quiet + 1;
    t.line(format!(
        "loc{n}[{strange}] -> ICMP6Error({a}, 4, 1) -> errors6;"
    ));
    let groups = [ALL_NODES, ALL_ROUTERS, solicited_node(a)].map(|a| bytes_at(24, a));
    let groups = groups.join(", ");
    if link_local(a) {
        let own = bytes_at(24, a);
        t.line(format!(
            "link6[{}] -> grp{n} :: Classifier({groups}, {own}, -);",
            n + 1
        ));
        t.line(format!(
            "grp{n}[3] -> DropBroadcasts -> loc{n}; grp{n}[4] -> {};",
            discard(NOT_OURS)
        ));
    } else {
        t.line(format!(
            "link6[{}] -> grp{n} :: Classifier({groups}, -); grp{n}[3] -> {};",
            n + 1,
            discard(NOT_OURS)
        ));
    }
    t.line(format!(
        "grp{n}[0] -> loc{n}; grp{n}[1] -> loc{n}; grp{n}[2] -> loc{n};"
    ));
}

/// From the device's IPv6 packets on.
pub(super) fn interface_in(t: &mut ClickText, n: usize, p: &Port) {
    if p.v6.is_none() {
        t.line(format!("c{n}[3] -> {};", discard(NO_IP6)));
        return;
    }
    // loopback and multicast are nobody's source; link-local and unspecified ones reach the router itself only
    t.line(format!(
        "c{n}[3] -> Paint({}) -> Strip(14) -> CheckIP6Header(::1 ff00::/8) -> GetIP6Address(24)",
        n + 1
    ));
    let unspecified = bytes_at(8, Ipv6Addr::UNSPECIFIED);
    t.line(format!(
        "  -> sc{n} :: Classifier(8/fe80%ffc0, {unspecified}, -);"
    ));
    t.line(format!(
        "sc{n}[0] -> own6; sc{n}[1] -> own6; sc{n}[2] -> rt6;"
    ));
}

/// From the IPv6 look-up to the device.
pub(super) fn interface_out(t: &mut ClickText, n: usize, ports: &[Port]) {
    let Some((p, (addr, _))) = ports.get(n).and_then(|p| Some((p, p.v6?))) else {
        return;
    };
    let addr = match link_local(addr) {
        true => source(ports),
        false => addr,
    };
    t.line(format!(
        "rt6[{}] -> DropBroadcasts -> hl{n} :: DecIP6HLIM -> ml{n} :: CheckLength({}) -> enc{n};",
        n + 1,
        p.mtu
    ));
    t.line(format!("hl{n}[1] -> ICMP6Error({addr}, 3, 0) -> errors6;"));
    t.line(format!(
        "ml{n}[1] -> ICMP6Error({addr}, 2, 0, MTU {}) -> errors6;",
        p.mtu
    ));
}
