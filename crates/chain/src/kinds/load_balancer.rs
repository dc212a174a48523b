//! `load-balancer`: spreads the flows to a virtual address over servers; a flow stays with its server. Port 0 is the
//! clients' side, port 1 the servers'.
//!
//! ICMP errors about a balanced flow reach the other side, the packet that they quote translated as the flow is: path
//! MTU discovery (RFC 1191) works through it both ways. Fragments follow their first one.

use super::side::Side;
use super::{
    ClickText, Encap, FRAGMENTED, ICMP_ERRORS, KindCx, NOT_IP4, VLAN_TAGGED, WRONG_SIDE, discard,
};
use crate::file::Loc;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::Ipv4Addr;

/// Ports: 0 clients, 1 servers.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadBalancer {
    /// The address that clients use: `203.0.113.80`.
    pub address: Loc<String>,
    /// Only these TCP and UDP ports; all if not given.
    pub ports: Option<Vec<Loc<u16>>>,
    /// The servers.
    pub servers: Vec<Server>,
    /// How a new flow's server is chosen.
    #[serde(default)]
    pub policy: Policy,
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
    /// Its address.
    pub address: Loc<String>,
    /// The port that it listens at: what clients have sent to any of the balancer's ports goes there. If not given, the
    /// port stays.
    pub port: Option<Loc<u16>>,
    /// Its share relative to the others', 1 if not given, at most 100 (63 by a hash of the source).
    pub weight: Option<Loc<u32>>,
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
}

/// Most servers.
const MAX_SERVERS: usize = 1024;
/// Largest weight by a hash of the source: a server has an identity in the hash for each.
const MAX_HASH_WEIGHT: u32 = 63;
/// Most identities in the hash.
const MAX_IDENTITIES: u32 = 4096;

impl LoadBalancer {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        let Ok(vip) = self.address.value.parse::<Ipv4Addr>() else {
            cx.error(
                &self.address,
                format!("expected an IPv4 address, found '{}'", self.address.value),
            );
            return String::new();
        };
        if self.servers.is_empty() || self.servers.len() > MAX_SERVERS {
            cx.error_whole("a load balancer has 1 to 1024 servers");
            return String::new();
        }
        cx.translates(crate::workers::Kind::Balancer);
        let mut t = ClickText::new();
        let class = match self.policy {
            Policy::RoundRobin => "RoundRobinIPMapper",
            Policy::SourceHash => "SourceIPHashMapper",
        };
        t.line(format!("servers :: {class}("));
        let (mut lines, mut identities) = (Vec::new(), 0);
        for (n, s) in self.servers.iter().enumerate() {
            let Ok(a) = s.address.value.parse::<Ipv4Addr>() else {
                cx.error(
                    &s.address,
                    format!("expected an IPv4 address, found '{}'", s.address.value),
                );
                continue;
            };
            let w = s.weight.as_ref().map_or(1, |w| w.value);
            let most = match self.policy {
                Policy::RoundRobin => 100,
                Policy::SourceHash => MAX_HASH_WEIGHT,
            };
            if let Some(weight) = s.weight.as_ref().filter(|_| w == 0 || w > most) {
                cx.error(weight, format!("a weight is from 1 to {most}"));
                continue;
            }
            if let Some(port) = s.port.as_ref().filter(|p| p.value == 0) {
                cx.error(port, "a port is from 1 to 65535");
                continue;
            }
            let port = s
                .port
                .as_ref()
                .map_or("-".to_string(), |p| p.value.to_string());
            let at = cx.at(&s.address);
            identities += w;
            for k in 0..w as usize {
                lines.push(match self.policy {
                    Policy::RoundRobin => (at, format!("- - {a} {port} 0 1")),
                    // The last number is an identity in the hash, and a server has as many as its weight: others' stay
                    // what they are when servers or weights change.
                    Policy::SourceHash => {
                        let id = k * MAX_SERVERS + n;
                        (at, format!("- - {a} {port} 0 1 {id}"))
                    }
                });
            }
        }
        if self.policy == Policy::SourceHash {
            if identities > MAX_IDENTITIES {
                cx.error_whole(format!(
                    "the weights of servers chosen by source-hash add up to {MAX_IDENTITIES} at most"
                ));
                return String::new();
            }
            t.line("100 0xbeef,");
        }
        for (i, (at, l)) in lines.iter().enumerate() {
            let comma = if i + 1 < lines.len() { "," } else { "" };
            t.line_at(cx.reader, *at, format!("{l}{comma}"));
        }
        t.line(");");
        t.line(format!(
            "rw :: IPRewriter(servers, pass 2, TAKE_OVER false, TCP_HANDSHAKE true, FRAGMENTS {FRAGMENTED});"
        ));
        self.ways(cx, &mut t, vip);
        t.finish()
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
