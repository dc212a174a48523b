//! `nat`: translates addresses (and ports) between port 0 (inside) and port 1 (outside).
//!
//! *NAPT* (the default): flows from inside get an address of the pool and a port of the range; replies find their way
//! back. *One-to-one*: each inside address has an outside address of its own, both ways, with static rules. Static
//! forwards let flows from outside in. *Prefixes*, alone or beside one of these: IPv6 addresses get another prefix
//! (NPTv6, RFC 6296). *NAT64*, beside a pool: IPv6 hosts inside reach IPv4 hosts outside (RFC 6146). With `hairpin`,
//! inside hosts reach each other through outside addresses.
//!
//! Behaviour is that of RFC 4787, 5382, 5508 and 7857 (docs/nat-behaviour.md): an inside address and port has one
//! outside address and port, whomever it talks to, and nobody else has them; all flows and pings of a host have one
//! outside address. No flow takes another one's place. ICMP errors: the packet that they quote is translated back, and
//! no inside address gets out. Fragments follow their first one. `mapping: address-and-port` is Click's way: each flow
//! chooses for itself.

mod napt;
mod nat64;
mod pairs;
mod prefixes;

use super::side::Side;
use super::{ClickText, Encap, KindCx, NOT_IP, NOT_IP4, VLAN_TAGGED, discard};
use crate::file::Loc;
use onefold_nat::MAX_FLOWS;
use onefold_partition::Transport;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub use nat64::Nat64;
pub use prefixes::PrefixPair;

/// Ports: 0 inside, 1 outside.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nat {
    /// Outside address or pool for NAPT: `203.0.113.1` or `203.0.113.1-203.0.113.4`.
    pub pool: Option<Loc<String>>,
    /// Port range of NAPT: `1-65535` if not given, of which ports below 1024 are for flows that have such ports inside;
    /// with `mapping: address-and-port` `1024-65535`.
    pub port_range: Option<Loc<String>>,
    /// What flows of one inside address and port have in common; `endpoint-independent` if not given.
    pub mapping: Option<Loc<Mapping>>,
    /// Who may send to a port that an inside host has; `address-and-port` if not given.
    pub filtering: Option<Loc<Filtering>>,
    /// One-to-one pairs: `10.0.0.5 = 203.0.113.5`.
    pub one_to_one: Option<Vec<Loc<String>>>,
    /// IPv6 prefixes inside and those that stand for them outside, without state (NPTv6). Alone, or beside `pool` or
    /// `one-to-one`, which are of IPv4.
    pub prefixes: Option<Vec<PrefixPair>>,
    /// IPv6 hosts inside reach IPv4 hosts outside (NAT64). Goes with `pool`, which they share with IPv4 hosts.
    pub nat64: Option<Nat64>,
    /// Flows from outside that are let in: `tcp 203.0.113.1:80 -> 10.0.0.5:8080`; with `nat64` also
    /// `-> [2001:db8::5]:8080`.
    pub forward: Option<Vec<Loc<String>>>,
    /// Inside hosts may reach each other through outside addresses.
    #[serde(default)]
    pub hairpin: bool,
    /// Seconds after which an idle TCP connection is forgotten that is established; 24 hours if not given (RFC 5382: at
    /// least 7,440).
    pub tcp_timeout: Option<Loc<u32>>,
    /// The same of connections that are being opened or closed; 300 and 240 if not given (RFC 5382: at least 240).
    pub tcp_transitory_timeout: Option<Loc<u32>>,
    /// Seconds after which an idle UDP flow is forgotten; 300 if not given (RFC 4787: at least 120).
    pub udp_timeout: Option<Loc<u32>>,
    /// Seconds after which an idle ping is forgotten; 300 if not given (RFC 5508: at least 60).
    pub icmp_timeout: Option<Loc<u32>>,
    /// Most flows, at most 4,194,304, which is also what there is room for if not given.
    pub capacity: Option<Loc<u32>>,
    /// Decrements the TTL, as a routing hop does.
    #[serde(default)]
    pub decrement_ttl: bool,
    /// New Ethernet header for what leaves at port 0; if not given the frame's own stays.
    pub encap_inside: Option<Encap>,
    /// New Ethernet header for what leaves at port 1.
    pub encap_outside: Option<Encap>,
}

/// What flows of one inside address and port have in common (RFC 4787 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// One outside address and port, which nobody else has. All flows of a host have one outside address.
    #[default]
    EndpointIndependent,
    /// Nothing, as in Click: flows with several destinations may share a port, and take addresses in turn.
    AddressAndPort,
}

/// Who may send to an outside address and port that an inside host has (RFC 4787 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Filtering {
    /// Whom the host has sent to from there.
    #[default]
    AddressAndPort,
    /// Everybody. Goes with `mapping: endpoint-independent`.
    EndpointIndependent,
}

impl Nat {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        match (&self.pool, &self.one_to_one, &self.prefixes) {
            (Some(p), None, _) => self.napt(cx, p),
            (None, Some(list), _) => self.static_pairs(cx, list),
            (None, None, Some(_)) => self.prefixes_alone(cx),
            _ => {
                cx.error_whole(
                    "give either 'pool' (address and port translation) or 'one-to-one', or 'prefixes' (of IPv6)",
                );
                String::new()
            }
        }
    }

    /// Options that are given and go with `pool` alone.
    fn given_of_pools(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("forward", self.forward.is_some()),
            ("port-range", self.port_range.is_some()),
            ("tcp-timeout", self.tcp_timeout.is_some()),
            ("udp-timeout", self.udp_timeout.is_some()),
            (
                "tcp-transitory-timeout",
                self.tcp_transitory_timeout.is_some(),
            ),
            ("icmp-timeout", self.icmp_timeout.is_some()),
            ("mapping", self.mapping.is_some()),
            ("filtering", self.filtering.is_some()),
            ("nat64", self.nat64.is_some()),
        ];
        all.into_iter().filter(|a| a.1).map(|a| a.0)
    }

    fn is_independent(&self) -> bool {
        let how = self.mapping.as_ref().map(|m| m.value);
        how.unwrap_or_default() == Mapping::EndpointIndependent
    }

    fn filtering(&self) -> Filtering {
        let how = self.filtering.as_ref().map(|f| f.value);
        how.unwrap_or_default()
    }

    /// The rewriter's capacity; an error is recorded where it is out of range.
    fn capacity_option(&self, cx: &mut KindCx<'_>) -> String {
        match &self.capacity {
            Some(v) if v.value as usize > MAX_FLOWS => {
                cx.error(
                    v,
                    format!(
                        "capacity {} out of range, at most {MAX_FLOWS} flows",
                        v.value
                    ),
                );
                String::new()
            }
            Some(v) => format!(", MAPPING_CAPACITY {}", v.value),
            None => String::new(),
        }
    }

    /// Devices, header checks and encapsulation around the translation; `own`: the outside addresses.
    fn frames(&self, cx: &mut KindCx<'_>, t: &mut ClickText, own: Vec<Ipv4Addr>) {
        let ttl = if self.decrement_ttl {
            "DecIPTTL -> "
        } else {
            ""
        };
        let inside = Side {
            port: 0,
            encap: self.encap_inside.as_ref(),
            own: Vec::new(),
        };
        let outside = Side {
            port: 1,
            encap: self.encap_outside.as_ref(),
            own,
        };
        outside.leave(cx, t, &format!("to_out :: Null -> {ttl}"));
        inside.leave(cx, t, &format!("to_in :: Null -> {ttl}"));
        let arp = [inside.arp(cx, &outside), outside.arp(cx, &inside)];
        let (other, six, last) = match self.prefixes.is_some() || self.nat64.is_some() {
            true => (NOT_IP, "12/86dd, ", 4),
            false => (NOT_IP4, "", 3),
        };
        // no packet of an IPv4 host may be taken for one of an IPv6 host
        let check = match self.nat64 {
            Some(_) => format!("CheckIPHeader(BADSRC {})", nat64::HANDLES),
            None => "CheckIPHeader".to_string(),
        };
        let checks = [check.as_str(), "CheckIPHeader"];
        for (n, (name, arp)) in ["from_in", "from_out"].iter().zip(arp).enumerate() {
            t.line(format!(
                "FromDevice({n}) -> e{n} :: Classifier(12/0800, 12/0806, 12/8100, {six}-);"
            ));
            t.line(format!(
                "e{n}[0] -> Strip(14) -> {} -> {name} :: Null;",
                checks[n]
            ));
            t.line(format!(
                "e{n}[1] -> {arp}; e{n}[2] -> {}; e{n}[{last}] -> {};",
                discard(VLAN_TAGGED),
                discard(other)
            ));
        }
        self.prefix_ways(cx, t, 3, false);
    }

    fn forwards<'a>(&'a self, cx: &mut KindCx<'_>) -> Vec<(&'a Loc<String>, Forward)> {
        let mut out: Vec<(_, Forward)> = Vec::new();
        let mut fixed = nat64::Fixed::default();
        for f in self.forward.iter().flatten() {
            match Forward::parse(&f.value, &mut fixed) {
                Some(spec) if spec.inside6.is_some() && self.nat64.is_none() => {
                    cx.error(f, "a forward to an IPv6 host goes with 'nat64'");
                }
                Some(spec) if out.iter().any(|(_, o)| o.filter() == spec.filter()) => cx.error(
                    f,
                    format!(
                        "{} {}:{} is forwarded already",
                        spec.proto, spec.outside, spec.outside_port
                    ),
                ),
                Some(spec) => out.push((f, spec)),
                None => cx.error(
                    f,
                    format!(
                        "expected 'tcp 203.0.113.1:80 -> 10.0.0.5:8080', found '{}'",
                        f.value
                    ),
                ),
            }
        }
        out
    }
}

/// A static forward.
struct Forward {
    proto: String,
    outside: Ipv4Addr,
    outside_port: u16,
    /// Of an IPv6 host its handle.
    inside: Ipv4Addr,
    inside6: Option<Ipv6Addr>,
    inside_port: u16,
}

impl Forward {
    fn parse(s: &str, fixed: &mut nat64::Fixed) -> Option<Forward> {
        let (left, right) = s.split_once("->")?;
        let (proto, outside) = left.trim().split_once(' ')?;
        if proto != "tcp" && proto != "udp" {
            return None;
        }
        let at = |s: &str| -> Option<(IpAddr, u16)> {
            let end: SocketAddr = s.trim().parse().ok()?;
            Some((end.ip(), end.port()))
        };
        let ((IpAddr::V4(outside), outside_port), (host, inside_port)) = (at(outside)?, at(right)?)
        else {
            return None;
        };
        let (inside, inside6) = match host {
            IpAddr::V4(a) => (a, None),
            IpAddr::V6(a) => (fixed.handle(a), Some(a)),
        };
        Some(Forward {
            proto: proto.to_string(),
            outside,
            outside_port,
            inside,
            inside6,
            inside_port,
        })
    }
    /// What no mapping gets.
    fn reserved(&self) -> String {
        format!("{} {} {}", self.proto, self.outside, self.outside_port)
    }
    /// As the partition has it.
    fn told(&self) -> onefold_partition::Forward {
        onefold_partition::Forward {
            transport: match self.proto.as_str() {
                "tcp" => Transport::Tcp,
                _ => Transport::Udp,
            },
            address: self.outside,
            port: self.outside_port,
            host: self.inside,
        }
    }
    fn filter(&self) -> String {
        format!(
            "dst host {} && {} dst port {}",
            self.outside, self.proto, self.outside_port
        )
    }
}
