//! `router`: a router for IPv4 and IPv6, the classic Click IP router (Kohler et al., TOCS 2000) with one port per
//! interface: header checks, own MAC addresses, ARP (or fixed next-hop MAC addresses), IP options, TTL, fragmentation,
//! the ICMP errors and redirects of RFC 1812 and RFC 4443, limited in rate, echo replies and neighbor advertisements
//! for its own addresses.

mod v4;
mod v6;
mod ways;

use super::{ClickText, KindCx, NOT_IP, VLAN_TAGGED, discard};
use crate::edit::{self, ListEdit};
use crate::file::Loc;
use crate::import::{PlacedRoute, Route, read_routes};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports: one per interface, in order.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Router {
    /// The interfaces: port 0, 1 ...
    pub interfaces: Vec<Interface>,
    /// Routes: `10.0.0.0/8 via 192.168.1.2`, `default dev 1`, `2001:db8::/32 via fe80::1 dev 0`, `blackhole
    /// 192.0.2.0/24` (or `unreachable`, `prohibit`), `default nexthop via 10.0.0.1 weight 2 nexthop via 10.0.0.2`.
    /// `dev` is a port number or an interface's name.
    pub routes: Option<Vec<Loc<String>>>,
    /// A file with routes: the same lines, or the output of `ip route` (and `ip -6 route`), `ip -j route`, or FRR's
    /// `show ip route json`.
    pub routes_file: Option<Loc<String>>,
    /// Send ICMP redirects to hosts of the network that their next hop is on (RFC 1812 5.2.7.2, IPv4 only); true if not
    /// given.
    #[serde(default)]
    pub redirects: Option<bool>,
    /// Most ICMP errors per second, 100 if not given (RFC 1812 4.3.2.8, RFC 4443 2.4 f): errors about IPv4 packets,
    /// redirects, and errors about IPv6 packets each have so many.
    pub icmp_rate: Option<Loc<u32>>,
    /// Most ICMP errors at once, 10 if not given.
    pub icmp_burst: Option<Loc<u32>>,
    /// Changes of the routes that are not in the file.
    #[serde(skip)]
    pub(crate) edits: Vec<ListEdit>,
}

/// Of `icmp-rate` and `icmp-burst` unless given: bucket as RFC 4443 2.4 f proposes it, rate for a router of many hosts.
const ICMP_RATE: u32 = 100;
const ICMP_BURST: u32 = 10;
/// Largest values of them.
const MAX_ICMP_RATE: u32 = 1_000_000;
const MAX_ICMP_BURST: u32 = 10_000;
/// Why an ICMP message is not sent.
const ABOVE_RATE: &str = "ICMP error or redirect above the rate (icmp-rate)";
/// Interfaces that a paint annotation can tell apart: 0 is what the router made itself, 255 means all.
const MAX_INTERFACES: usize = 254;
/// Least MTU of an IPv4 interface (RFC 791), and of an IPv6 one (RFC 8200 5).
const MIN_MTU4: u16 = 68;
const MIN_MTU6: u16 = 1280;

/// An interface of a router.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Interface {
    /// Name, for `dev` in routes; the port number always works.
    pub name: Option<String>,
    /// IPv4 address and prefix length: `192.168.1.1/24`.
    pub address: Option<Loc<String>>,
    /// IPv6 address and prefix length.
    pub address6: Option<Loc<String>>,
    /// The interface's own MAC address.
    pub mac: Loc<String>,
    /// Everything sent here goes to this MAC address: no ARP or neighbour discovery. IPv6 needs it.
    pub gateway_mac: Option<Loc<String>>,
    /// Largest IP packet sent here, in bytes; 1500 if not given.
    pub mtu: Option<Loc<u16>>,
}

/// What is said of packets that a router drops.
const BLACKHOLE: &str = "blackhole route";
const NO_HOST: &str = "destination is no host's address";
const FOR_ROUTER: &str = "for the router itself, which does not answer it";

/// An interface, checked.
struct Port {
    v4: Option<(Ipv4Addr, u8)>,
    v6: Option<(Ipv6Addr, u8)>,
    mac: String,
    gateway: Option<String>,
    mtu: u16,
    /// It is a network interface whose neighbours are asked for.
    learns: bool,
}

/// Declares the element that limits the rate of what a router says, in front of a route table.
fn rated(t: &mut ClickText, name: &str, limit: &str, table: &str) {
    let drop = discard(ABOVE_RATE);
    t.line(format!(
        "{name} :: {limit} -> {table}; {name}[1] -> {drop};"
    ));
}

impl Router {
    /// MAC addresses by port, for the links that lead here.
    pub fn macs(&self) -> Vec<String> {
        self.interfaces
            .iter()
            .map(|i| i.mac.value.clone())
            .collect()
    }

    /// Is a route for the router itself (`local`, `broadcast`) about an interface's own network, or loopback?
    pub(crate) fn has(&self, r: &Route) -> bool {
        let of = |v: &Option<Loc<String>>| {
            let (a, l) = v.as_ref()?.value.split_once('/')?;
            Some((a.parse::<IpAddr>().ok()?, l.parse::<u8>().ok()?))
        };
        let mut all = (self.interfaces.iter()).flat_map(|i| [of(&i.address), of(&i.address6)]);
        let within = |(a, l): (IpAddr, u8)| match (a, r.net) {
            (IpAddr::V4(a), IpAddr::V4(net)) => same4(a, net, l.min(32)),
            (IpAddr::V6(a), IpAddr::V6(net)) => a == net,
            _ => false,
        };
        r.net.is_loopback() || all.any(|x| x.is_some_and(within))
    }

    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        if self.interfaces.is_empty() || self.interfaces.len() > MAX_INTERFACES {
            cx.error_whole(format!("a router has 1 to {MAX_INTERFACES} interfaces"));
            return String::new();
        }
        let limit = self.limit(cx);
        let ports: Vec<Option<Port>> = (self.interfaces.iter().enumerate())
            .map(|(n, i)| port(cx, n, i))
            .collect();
        let ports = ports.into_iter().collect::<Option<Vec<Port>>>();
        let (Some(ports), Some(limit)) = (ports, limit) else {
            // what is wrong with the routes, too
            self.all_routes(cx);
            return String::new();
        };
        let routes = self.routes(cx);
        let mut t = ClickText::new();
        // declared first: an element must be declared before its name is used
        for n in 0..ports.len() {
            t.line(format!("out{n} :: ToDevice({n});"));
        }
        let (mut off_link, mut ways4, mut ways6) = (BTreeMap::new(), None, None);
        if ports.iter().any(|p| p.v4.is_some()) {
            let (links, ways) = self.table4(cx, &mut t, &ports, &routes, &limit);
            (off_link, ways4) = (links, Some(ways));
        }
        if ports.iter().any(|p| p.v6.is_some()) {
            ways6 = Some(self.table6(cx, &mut t, &ports, &routes, &limit));
        }
        for (n, p) in ports.iter().enumerate() {
            interface_in(&mut t, n, p);
            let redirects = self.redirects.unwrap_or(true);
            v4::interface_out(&mut t, n, p, redirects, off_link.get(&n));
            v6::interface_out(&mut t, n, &ports);
        }
        // behind the elements that they refer to
        if let Some(ways) = ways4 {
            ways.write(&mut t, &v4::texts(&ports));
        }
        if let Some(ways) = ways6 {
            ways.write(&mut t, &v6::texts(&ports));
        }
        t.finish()
    }

    /// The element that limits the rate of ICMP messages.
    fn limit(&self, cx: &mut KindCx<'_>) -> Option<String> {
        let mut number = |v: &Option<Loc<u32>>, usual: u32, max: u32, name: &str| {
            let n = v.as_ref().map_or(usual, |v| v.value);
            if let Some(v) = v.as_ref().filter(|_| n == 0 || n > max) {
                cx.error(v, format!("{name} {n} out of range, 1 to {max}"));
                return None;
            }
            Some(n)
        };
        let rate = number(&self.icmp_rate, ICMP_RATE, MAX_ICMP_RATE, "icmp-rate");
        let burst = number(&self.icmp_burst, ICMP_BURST, MAX_ICMP_BURST, "icmp-burst");
        Some(format!("RatedSplitter({}, BURST_SIZE {})", rate?, burst?))
    }

    pub(crate) fn all_routes(&self, cx: &mut KindCx<'_>) -> Vec<PlacedRoute> {
        let mut out = Vec::new();
        for r in self.routes.iter().flatten() {
            let l = cx.reader.sources.locate(cx.at(r));
            match crate::import::parse_route(&r.value) {
                Ok(route) => out.push((route, l.file, l.line)),
                Err(e) => cx.error(r, e),
            }
        }
        if let Some(f) = &self.routes_file {
            let span = cx.at(f);
            if let Some((file, text)) = cx.reader.read(&f.value, span) {
                let name = cx.reader.sources.name(file).to_string();
                for (route, line) in read_routes(cx.reader, file, &text, span) {
                    out.push((route, name.clone(), line));
                }
            }
        }
        if self.edits.is_empty() {
            return out;
        }
        let l = cx.reader.sources.locate(cx.span);
        match edit::routes(out, &self.edits, &(l.file, l.line)) {
            Ok(edited) => edited,
            Err(why) => {
                cx.error_whole(why);
                Vec::new()
            }
        }
    }
}

/// The lines of a look-up's table: text, and the file and line that it was made from.
#[derive(Debug, Default)]
struct Lines(Vec<(String, String, u32)>);

impl Lines {
    fn add(&mut self, text: String, at: &(String, u32)) {
        self.0.push((text, at.0.clone(), at.1));
    }
    /// Writes the look-up that these are the arguments of.
    fn write(&self, t: &mut ClickText, head: &str) {
        t.line(format!("{head}("));
        for (i, (text, file, line)) in self.0.iter().enumerate() {
            let comma = if i + 1 < self.0.len() { "," } else { "" };
            t.line_from(file, *line, format!("{text}{comma}"));
        }
        t.line(");");
    }
}

/// Numbers of a look-up's outputs beyond those of the router itself (0) and its ports (1 + port).
#[derive(Debug)]
struct Outputs {
    next: usize,
}

impl Outputs {
    fn new(ports: usize) -> Self {
        Outputs { next: ports + 1 }
    }
    /// One more.
    fn one(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }
}

/// From the device to the look-ups.
fn interface_in(t: &mut ClickText, n: usize, p: &Port) {
    t.line(format!(
        "FromDevice({n}) -> mac{n} :: HostEtherFilter({}, DROP_OTHER true)",
        p.mac
    ));
    t.line(format!(
        "  -> c{n} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, 12/86dd, 12/8100, -);"
    ));
    v4::interface_in(t, n, p);
    v6::interface_in(t, n, p);
    t.line(format!(
        "c{n}[4] -> {}; c{n}[5] -> {};",
        discard(VLAN_TAGGED),
        discard(NOT_IP)
    ));
}

fn mask4(l: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(l)).unwrap_or(0)
}
fn mask6(l: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(l)).unwrap_or(0)
}
fn same4(a: Ipv4Addr, b: Ipv4Addr, l: u8) -> bool {
    (u32::from(a) ^ u32::from(b)) & mask4(l) == 0
}
fn same6(a: Ipv6Addr, b: Ipv6Addr, l: u8) -> bool {
    (u128::from(a) ^ u128::from(b)) & mask6(l) == 0
}

/// Checks an interface; one that is a network interface takes that one's MAC address, and its MTU unless it has one of
/// its own.
fn port(cx: &mut KindCx<'_>, n: usize, i: &Interface) -> Option<Port> {
    let live = cx.live(n).cloned();
    let learns = live.as_ref().is_some_and(|l| l.learns);
    // all of them are looked at before one that is wrong ends it
    let mac = super::mac(cx, &i.mac);
    let gateway = i.gateway_mac.as_ref().filter(|_| !learns);
    let gateway = gateway.map(|g| super::mac(cx, g));
    let v4 = i.address.as_ref().map(|a| network::<Ipv4Addr>(cx, a, 32));
    let v6 = i.address6.as_ref().map(|a| network::<Ipv6Addr>(cx, a, 128));
    let (mac, gateway) = (mac?, gateway.map_or(Some(None), |g| g.map(Some))?);
    let v4 = v4.map_or(Some(None), |v| v.map(Some))?;
    let v6 = v6.map_or(Some(None), |v| v.map(Some))?;
    let mac = match live.as_ref().and_then(|l| l.mac) {
        Some(own) => own.to_string(),
        None => mac,
    };
    if v6.is_some() && gateway.is_none() && !learns {
        cx.error(&i.mac, "an interface with an IPv6 address needs 'gateway-mac': nobody is asked for MAC addresses");
        return None;
    }
    let usual = live.map_or(1500, |l| u16::try_from(l.mtu).unwrap_or(u16::MAX));
    let mtu = i.mtu.as_ref().map_or(usual, |m| m.value);
    let least = if v6.is_some() { MIN_MTU6 } else { MIN_MTU4 };
    let needed = i.mtu.as_ref().map_or(least, |m| m.value);
    (cx.reader.live).needs(cx.name, n, u32::from(needed));
    // what the interface lacks is told by whoever opens it
    let mtu = mtu.max(if i.mtu.is_none() { least } else { 0 });
    if mtu < MIN_MTU4 {
        let m = format!("an MTU is at least {MIN_MTU4} bytes (RFC 791)");
        cx.error(i.mtu.as_ref()?, m);
        return None;
    }
    if v6.is_some() && mtu < MIN_MTU6 {
        let m = format!(
            "the MTU of an interface with an IPv6 address is at least {MIN_MTU6} bytes (RFC 8200)"
        );
        cx.error(i.mtu.as_ref()?, m);
        return None;
    }
    if v4.is_none() && v6.is_none() {
        cx.error(&i.mac, "an interface needs 'address', 'address6', or both");
        return None;
    }
    Some(Port {
        v4,
        v6,
        mac,
        gateway,
        mtu,
        learns,
    })
}

fn network<A: std::str::FromStr>(
    cx: &mut KindCx<'_>,
    v: &Loc<String>,
    bits: u8,
) -> Option<(A, u8)> {
    let example = match bits {
        32 => "192.168.1.1/24",
        _ => "2001:db8::1/64",
    };
    super::address::network(&v.value, bits, example)
        .map_err(|why| cx.error(v, why))
        .ok()
}
