//! `load-balancer`: spreads the flows to a virtual address over servers; a flow stays with its server. Port 0 is the
//! clients' side, port 1 the servers'.
//!
//! Addresses are all of IPv4 or all of IPv6. IPv4 is built on rewriters, IPv6 on connection tracking (`v6.rs`).
//!
//! ICMP errors about a balanced flow reach the other side, the packet that they quote translated as the flow is: path
//! MTU discovery (RFC 1191) works through it both ways. Fragments follow their first one.

mod balanced;
mod health;
mod servers;
mod v6;

use super::side::Side;
use super::{
    ClickText, Encap, FRAGMENTED, ICMP_ERRORS, KindCx, NOT_IP4, VLAN_TAGGED, WRONG_SIDE, discard,
};
use crate::file::Loc;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub use balanced::Balanced;
pub use health::{Health, HealthPlan, HealthServer, Probe, ProbeKind};

/// Ports: 0 clients, 1 servers.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadBalancer {
    /// The address that clients use: `203.0.113.80`, `2001:db8::80`.
    pub address: Loc<String>,
    /// Only these TCP and UDP ports; all if not given.
    pub ports: Option<Vec<Loc<u16>>>,
    /// The servers.
    pub servers: Vec<Server>,
    /// How a new flow's server is chosen.
    #[serde(default)]
    pub policy: Policy,
    /// Of `maglev`: places of its table, a prime, at least 100 for each server if shares are to be even; 65537 if not
    /// given.
    pub table: Option<Loc<u32>>,
    /// Servers that are down get no new flows: how that is found out. All are up if not given.
    pub health: Option<Health>,
    /// Other traffic to port 1: it passes unless this is false.
    pub pass_other: Option<bool>,
    /// Decrements the TTL, as a routing hop does.
    #[serde(default)]
    pub decrement_ttl: bool,
    /// New Ethernet header for what leaves at port 0; if not given the frame's own stays.
    pub encap_clients: Option<Encap>,
    /// New Ethernet header for what leaves at port 1.
    pub encap_servers: Option<Encap>,
}

/// A server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// Its address, of the same version of IP as the balancer's.
    pub address: Loc<String>,
    /// The port that it listens at: what clients have sent to any of the balancer's ports goes there. If not given, the
    /// port stays.
    pub port: Option<Loc<u16>>,
    /// Its share relative to the others', 1 if not given, at most 100 (63 by a hash of the source). 0: it is drained,
    /// and gets no new flows.
    pub weight: Option<Loc<u32>>,
    /// It has been drained while the chain runs.
    #[serde(skip)]
    pub(crate) drained: bool,
}

impl Server {
    /// Its share.
    pub(crate) fn weight(&self) -> u32 {
        match self.drained {
            true => 0,
            false => self.weight.as_ref().map_or(1, |w| w.value),
        }
    }
}

/// How a server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One after the other, as often as its weight.
    #[default]
    RoundRobin,
    /// By a hash of the source address (consistent: few flows move when servers change).
    SourceHash,
    /// By a hash of addresses, ports and protocol in Maglev's table (consistent; shares are even).
    Maglev,
}

/// `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT`: a server as it is named where a chain runs.
pub(crate) fn end_of(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Ok(a) = text.parse::<IpAddr>() {
        return Some((a, None));
    }
    let s = text.parse::<SocketAddr>().ok()?;
    Some((s.ip(), Some(s.port())))
}

impl LoadBalancer {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        let Ok(vip) = self.address.value.parse::<IpAddr>() else {
            cx.error(
                &self.address,
                format!("expected an address, found '{}'", self.address.value),
            );
            return String::new();
        };
        let Some(servers) = self.checked(cx, vip.is_ipv6()) else {
            return String::new();
        };
        if let Some(size) = &self.table {
            self.check_table(size, servers.len(), cx);
        }
        cx.health = self.health_plan(&servers, cx);
        cx.balanced = Some(self.balanced(cx.name, vip.is_ipv6()));
        cx.translates(crate::workers::Kind::Balancer);
        let vip = match vip {
            IpAddr::V4(vip) => vip,
            IpAddr::V6(vip) => return self.click6(cx, &servers, vip),
        };
        let mut t = ClickText::new();
        self.mapper(&servers, cx, &mut t);
        t.line(format!(
            "rw :: IPRewriter(servers, pass 2, TAKE_OVER false, TCP_HANDSHAKE true, FRAGMENTS {FRAGMENTED});"
        ));
        self.ways(cx, &mut t, vip);
        t.finish()
    }

    fn check_table(&self, size: &Loc<u32>, servers: usize, cx: &mut KindCx<'_>) {
        if self.policy != Policy::Maglev {
            cx.error(size, "'table' goes with 'policy: maglev'");
        } else if !onefold_nat::is_table_size(size.value) || (size.value as usize) < servers {
            let text = format!(
                "expected a prime, not below the number of servers and at most {}, as {} is",
                onefold_nat::MAX_TABLE,
                onefold_nat::TABLE_SIZE
            );
            cx.error(size, text);
        }
    }

    /// Which packets are balanced, and where all of them go.
    fn ways(&self, cx: &mut KindCx<'_>, t: &mut ClickText, vip: Ipv4Addr) {
        let ttl = if self.decrement_ttl {
            "DecIPTTL -> "
        } else {
            ""
        };
        let clients = Side {
            port: 0,
            encap: self.encap_clients.as_ref(),
            own: vec![vip],
        };
        let servers = Side {
            port: 1,
            encap: self.encap_servers.as_ref(),
            own: Vec::new(),
        };
        servers.leave(cx, t, &format!("to_servers :: Null -> {ttl}"));
        clients.leave(cx, t, &format!("to_clients :: Null -> {ttl}"));
        let (arp0, arp1) = (clients.arp(cx, &servers), servers.arp(cx, &clients));
        let pass = self.pass_other.unwrap_or(true);
        let or_discard = |to: &str, why| match pass {
            true => to.to_string(),
            false => discard(why),
        };
        let clients = or_discard("to_servers", "not for the balanced address and ports");
        let unknown = or_discard("to_clients", "no mapping for this packet from a server");
        let servers = or_discard("to_clients", "from a server, neither TCP nor UDP");
        let (tagged, other) = (discard(VLAN_TAGGED), discard(NOT_IP4));
        let wrong_side = discard(WRONG_SIDE);
        let unmapped = if pass { ", UNMAPPED 2" } else { "" };
        t.line("err_c :: ICMPRewriter(rw:0, SOURCE own, STRICT true);");
        t.line(format!(
            "err_s :: ICMPRewriter(rw:0, SOURCE own, STRICT true{unmapped});"
        ));
        t.line("FromDevice(0) -> e0 :: Classifier(12/0800, 12/0806, 12/8100, -);");
        t.line("e0[0] -> Strip(14) -> CheckIPHeader");
        let flows = format!("dst host {vip} && (tcp or udp)");
        let ports: Vec<String> = self
            .ports
            .iter()
            .flatten()
            .map(|p| format!("dst port {}", p.value))
            .collect();
        // The ICMP type is asked for in a classifier that only ICMP packets come to: it stands where others have half
        // of their source port, and where that has just been rewritten, a program would have to write packets out to
        // look.
        if ports.is_empty() {
            t.line(format!(
                "  -> c0 :: IPClassifier({flows}, dst host {vip} && icmp, -);"
            ));
            t.line(format!("c0[0] -> [0]rw; c0[2] -> {clients};"));
        } else {
            // later fragments have no ports: the rewriter knows where they go
            let ours = ports.join(" or ");
            t.line(format!(
                "  -> c0 :: IPClassifier({flows} && ({ours}), dst host {vip} && icmp, {flows} && dst port >= 0, {flows}, -);"
            ));
            t.line("c0[0] -> [0]rw; c0[3] -> [0]rw;");
            t.line(format!("c0[2] -> {clients}; c0[4] -> {clients};"));
        }
        t.line(format!(
            "c0[1] -> q0 :: IPClassifier({ICMP_ERRORS}, -) -> err_c; q0[1] -> {clients};"
        ));
        t.line(format!(
            "e0[1] -> {arp0}; e0[2] -> {tagged}; e0[3] -> {other};"
        ));
        t.line("FromDevice(1) -> e1 :: Classifier(12/0800, 12/0806, 12/8100, -);");
        t.line("e1[0] -> Strip(14) -> CheckIPHeader -> c1 :: IPClassifier(tcp or udp, icmp, -) -> [1]rw;");
        t.line(format!(
            "e1[1] -> {arp1}; e1[2] -> {tagged}; e1[3] -> {other}; c1[2] -> {servers};"
        ));
        t.line(format!(
            "c1[1] -> q1 :: IPClassifier({ICMP_ERRORS}, -) -> err_s; q1[1] -> {servers};"
        ));
        t.line(format!(
            "rw[0] -> to_servers; rw[1] -> to_clients; rw[2] -> {unknown};"
        ));
        t.line(format!(
            "err_c[0] -> to_servers; err_c[1] -> {wrong_side}; err_c[2] -> {wrong_side};"
        ));
        t.line(format!(
            "err_s[0] -> {wrong_side}; err_s[1] -> to_clients; err_s[2] -> {servers};"
        ));
    }
}
