//! `router`: a standards-compliant router for IPv4 and IPv6, the classic Click IP router (Kohler et al., TOCS 2000) with one
//! port per interface: header checks, own MAC addresses, ARP (or fixed next-hop MAC addresses), IP options, TTL, fragmentation,
//! the ICMP errors and redirects that RFC 1812 asks for, echo replies for its own addresses.

use super::{ClickText, KindCx};
use crate::file::Loc;
use crate::import::{Route, read_routes};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports: one per interface, in order.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Router {
    /// The interfaces: port 0, 1 ...
    pub interfaces: Vec<Interface>,
    /// Routes: `10.0.0.0/8 via 192.168.1.2`, `default dev 1`, `2001:db8::/32 via fe80::1 dev 0`, `192.0.2.0/24 blackhole`.
    /// `dev` is a port number or an interface's name.
    pub routes: Option<Vec<Loc<String>>>,
    /// A file with routes: the same lines, or the output of `ip route` (and `ip -6 route`).
    pub routes_file: Option<Loc<String>>,
    /// MAC addresses of next hops and hosts that do not answer ARP: `192.168.1.2: 02:00:00:00:00:02`. With at least one for an
    /// interface without `gateway-mac`, the others are still asked for.
    #[serde(default)]
    pub redirects: Option<bool>,
}

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

/// An interface, checked.
struct Port {
    v4: Option<(Ipv4Addr, u8)>,
    v6: Option<(Ipv6Addr, u8)>,
    mac: String,
    gateway: Option<String>,
    mtu: u16,
}

impl Router {
    /// MAC addresses by port, for the links that lead here.
    pub fn macs(&self) -> Vec<String> {
        self.interfaces
            .iter()
            .map(|i| i.mac.value.clone())
            .collect()
    }

    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        if self.interfaces.is_empty() || self.interfaces.len() > 1024 {
            cx.error_whole("a router has 1 to 1024 interfaces");
            return String::new();
        }
        let ports: Vec<Option<Port>> = self.interfaces.iter().map(|i| port(cx, i)).collect();
        let Some(ports) = ports.into_iter().collect::<Option<Vec<Port>>>() else {
            return String::new();
        };
        let routes = self.all_routes(cx);
        let mut t = ClickText::new();
        // declared first: an element must be declared before its name is used
        for n in 0..ports.len() {
            t.line(format!("out{n} :: ToDevice({n});"));
        }
        let has4 = ports.iter().any(|p| p.v4.is_some());
        let has6 = ports.iter().any(|p| p.v6.is_some());
        if has4 {
            self.table4(cx, &mut t, &ports, &routes);
        }
        if has6 {
            self.table6(cx, &mut t, &ports, &routes);
        }
        for (n, p) in ports.iter().enumerate() {
            interface_in(&mut t, n, p);
            if let Some((addr, _)) = p.v4 {
                interface_out4(&mut t, n, p, addr, self.redirects.unwrap_or(true));
            }
            if let Some((addr, _)) = p.v6 {
                interface_out6(&mut t, n, p, addr);
            }
        }
        t.finish()
    }

    fn all_routes(&self, cx: &mut KindCx<'_>) -> Vec<(Route, String, u32)> {
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
        out
    }

    /// The port that a route leaves through.
    fn port_of(&self, route: &Route, ports: &[Port]) -> Result<usize, String> {
        if let Some(dev) = &route.dev {
            let by_name = self
                .interfaces
                .iter()
                .position(|i| i.name.as_deref() == Some(dev));
            return by_name
                .or_else(|| dev.parse().ok().filter(|n| *n < ports.len()))
                .ok_or_else(|| format!("route {}: no interface '{dev}'", route.prefix_text()));
        }
        let Some(via) = route.via else {
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

    /// Output 0 of the look-up: for the router itself; 1 + port otherwise; the last: blackhole.
    fn table4(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        ports: &[Port],
        routes: &[(Route, String, u32)],
    ) {
        t.line("rt :: RadixIPLookup(");
        let place = cx.reader.sources.locate(cx.span);
        let mut lines: Vec<(String, String, u32)> = Vec::new();
        for (n, p) in ports.iter().enumerate() {
            let Some((a, l)) = p.v4 else { continue };
            let at = self.interfaces[n]
                .address
                .as_ref()
                .map(|a| cx.reader.sources.locate(cx.at(a)));
            let at = at.unwrap_or_else(|| place.clone());
            let mut add = |s: String| lines.push((s, at.file.clone(), at.line));
            add(format!("{a}/32 0"));
            if l < 31 {
                let (net, bcast) = (u32::from(a) & mask4(l), u32::from(a) | !mask4(l));
                add(format!("{}/32 0", Ipv4Addr::from(bcast)));
                add(format!("{}/32 0", Ipv4Addr::from(net)));
            }
            if l < 32 {
                add(format!(
                    "{}/{l} {}",
                    Ipv4Addr::from(u32::from(a) & mask4(l)),
                    n + 1
                ));
            }
        }
        lines.push((
            "255.255.255.255/32 0".into(),
            place.file.clone(),
            place.line,
        ));
        lines.push(("0.0.0.0/32 0".into(), place.file.clone(), place.line));
        let mut blackhole = false;
        for (r, file, line) in routes {
            let IpAddr::V4(net) = r.net else { continue };
            if r.blackhole {
                blackhole = true;
                lines.push((
                    format!("{net}/{} {}", r.len, ports.len() + 1),
                    file.clone(),
                    *line,
                ));
                continue;
            }
            // what `ip route` prints of an interface's own network is there already
            let own = |p: &Port| p.v4.is_some_and(|(a, l)| l == r.len && same4(a, net, l));
            if r.via.is_none() && ports.iter().any(own) {
                continue;
            }
            match self.port_of(r, ports) {
                Ok(n) => {
                    let via = match r.via {
                        Some(IpAddr::V4(g)) => format!("{g} "),
                        _ => String::new(),
                    };
                    lines.push((
                        format!("{net}/{} {via}{}", r.len, n + 1),
                        file.clone(),
                        *line,
                    ));
                }
                Err(e) => cx.error_whole(format!("{file}:{line}: {e}")),
            }
        }
        write_lines(t, &lines);
        // what is for the router itself: answer pings, drop the rest
        t.line("rt[0] -> me :: IPClassifier(icmp type echo, -) -> ICMPPingResponder -> rt;");
        t.line("me[1] -> Discard;");
        for (n, p) in ports.iter().enumerate() {
            if p.v4.is_none() {
                t.line(format!("rt[{}] -> Discard;", n + 1));
            }
        }
        if blackhole {
            t.line(format!("rt[{}] -> Discard;", ports.len() + 1));
        }
    }

    fn table6(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        ports: &[Port],
        routes: &[(Route, String, u32)],
    ) {
        t.line("rt6 :: LookupIP6Route(");
        let place = cx.reader.sources.locate(cx.span);
        let mut lines: Vec<(String, String, u32)> = Vec::new();
        for (n, p) in ports.iter().enumerate() {
            let Some((a, l)) = p.v6 else { continue };
            let net = Ipv6Addr::from(u128::from(a) & mask6(l));
            lines.push((format!("{a}/128 ::0 0"), place.file.clone(), place.line));
            if l < 128 {
                lines.push((
                    format!("{net}/{l} ::0 {}", n + 1),
                    place.file.clone(),
                    place.line,
                ));
            }
        }
        let mut blackhole = false;
        for (r, file, line) in routes {
            let IpAddr::V6(net) = r.net else { continue };
            if r.blackhole {
                blackhole = true;
                lines.push((
                    format!("{net}/{} ::0 {}", r.len, ports.len() + 1),
                    file.clone(),
                    *line,
                ));
                continue;
            }
            let own = |p: &Port| p.v6.is_some_and(|(a, l)| l == r.len && same6(a, net, l));
            if r.via.is_none() && ports.iter().any(own) {
                continue;
            }
            match self.port_of(r, ports) {
                Ok(n) => {
                    let via = match r.via {
                        Some(IpAddr::V6(g)) => g.to_string(),
                        _ => "::0".to_string(),
                    };
                    lines.push((
                        format!("{net}/{} {via} {}", r.len, n + 1),
                        file.clone(),
                        *line,
                    ));
                }
                Err(e) => cx.error_whole(format!("{file}:{line}: {e}")),
            }
        }
        write_lines(t, &lines);
        t.line("rt6[0] -> Discard;");
        for (n, p) in ports.iter().enumerate() {
            if p.v6.is_none() {
                t.line(format!("rt6[{}] -> Discard;", n + 1));
            }
        }
        if blackhole {
            t.line(format!("rt6[{}] -> Discard;", ports.len() + 1));
        }
    }
}

fn write_lines(t: &mut ClickText, lines: &[(String, String, u32)]) {
    for (i, (text, file, line)) in lines.iter().enumerate() {
        let comma = if i + 1 < lines.len() { "," } else { "" };
        t.line_from(file, *line, format!("{text}{comma}"));
    }
    t.line(");");
}

/// From the device to the look-ups.
fn interface_in(t: &mut ClickText, n: usize, p: &Port) {
    t.line(format!(
        "FromDevice({n}) -> mac{n} :: HostEtherFilter({}, DROP_OTHER true)",
        p.mac
    ));
    t.line(format!(
        "  -> c{n} :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, 12/86dd, -);"
    ));
    match p.v4 {
        Some((a, _)) => {
            t.line(format!("c{n}[0] -> ARPResponder({a} {}) -> out{n};", p.mac));
            match p.gateway {
                None => t.line(format!(
                    "c{n}[1] -> [1]arpq{n} :: ARPQuerier({a}, {}) -> out{n};",
                    p.mac
                )),
                Some(_) => t.line(format!("c{n}[1] -> Discard;")),
            };
            // paint: the colour of the interface, for redirects
            t.line(format!(
                "c{n}[2] -> Paint({}) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt;",
                n + 1
            ));
        }
        None => {
            for i in 0..3 {
                t.line(format!("c{n}[{i}] -> Discard;"));
            }
        }
    }
    match p.v6 {
        Some(_) => t.line(format!(
            "c{n}[3] -> Strip(14) -> CheckIP6Header -> GetIP6Address(24) -> rt6;"
        )),
        None => t.line(format!("c{n}[3] -> Discard;")),
    };
    t.line(format!("c{n}[4] -> Discard;"));
}

/// From the IPv4 look-up to the device.
fn interface_out4(t: &mut ClickText, n: usize, p: &Port, addr: Ipv4Addr, redirects: bool) {
    t.line(format!("rt[{}] -> DropBroadcasts", n + 1));
    if redirects {
        t.line(format!("  -> cp{n} :: PaintTee({})", n + 1));
    }
    t.line(format!("  -> gio{n} :: IPGWOptions({addr})"));
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
    if redirects {
        t.line(format!(
            "cp{n}[1] -> ICMPError({addr}, redirect, host) -> rt;"
        ));
    }
    t.line(format!(
        "gio{n}[1] -> ICMPError({addr}, parameterproblem) -> rt;"
    ));
    t.line(format!(
        "dt{n}[1] -> ICMPError({addr}, timeexceeded) -> rt;"
    ));
    t.line(format!(
        "fr{n}[1] -> ICMPError({addr}, unreachable, needfrag, PMTU {}) -> rt;",
        p.mtu
    ));
}

/// From the IPv6 look-up to the device.
fn interface_out6(t: &mut ClickText, n: usize, p: &Port, addr: Ipv6Addr) {
    let gateway = p.gateway.clone().unwrap_or_default();
    t.line(format!("rt6[{}] -> hl{n} :: DecIP6HLIM", n + 1));
    t.line(format!("  -> ml{n} :: CheckLength({})", p.mtu));
    t.line(format!(
        "  -> EtherEncap(0x86dd, {}, {gateway}) -> out{n};",
        p.mac
    ));
    t.line(format!("hl{n}[1] -> ICMP6Error({addr}, 3, 0) -> rt6;"));
    t.line(format!("ml{n}[1] -> ICMP6Error({addr}, 2, 0) -> rt6;"));
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

/// Checks an interface.
fn port(cx: &mut KindCx<'_>, i: &Interface) -> Option<Port> {
    let mac = super::mac(cx, &i.mac)?;
    let gateway = match &i.gateway_mac {
        Some(g) => Some(super::mac(cx, g)?),
        None => None,
    };
    let v4 = match &i.address {
        Some(a) => Some(network::<Ipv4Addr>(cx, a, 32)?),
        None => None,
    };
    let v6 = match &i.address6 {
        Some(a) => Some(network::<Ipv6Addr>(cx, a, 128)?),
        None => None,
    };
    if v6.is_some() && gateway.is_none() {
        cx.error(&i.mac, "an interface with an IPv6 address needs 'gateway-mac': neighbour discovery is not built in");
        return None;
    }
    let mtu = i.mtu.as_ref().map_or(1500, |m| m.value);
    if mtu < 68 {
        cx.error(i.mtu.as_ref()?, "an MTU is at least 68 bytes (RFC 791)");
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
    })
}

fn network<A: std::str::FromStr>(
    cx: &mut KindCx<'_>,
    v: &Loc<String>,
    bits: u8,
) -> Option<(A, u8)> {
    let found = v.value.split_once('/').and_then(|(a, l)| {
        let l: u8 = l.parse().ok().filter(|l| *l <= bits)?;
        Some((a.parse().ok()?, l))
    });
    if found.is_none() {
        cx.error(
            v,
            format!(
                "expected an address with prefix length such as 192.168.1.1/24, found '{}'",
                v.value
            ),
        );
    }
    found
}
