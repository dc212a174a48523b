//! The load balancer for IPv6: connections are tracked, and their destination translated.
//!
//! ConnTrack tells first packets of connections from others; those go to ConnDstNat's input of the element `servers`,
//! which chooses a server, and all others become what their connection says. ConnSrcNat behind it sees to it that no
//! two connections have the same replies: where servers have ports of their own, a client's port may be another one
//! at the server.

use super::LoadBalancer;
use super::servers::Checked;
use crate::kinds::side6::Side6;
use crate::kinds::{ClickText, ICMP_ERRORS6, KindCx, NOT_IP6, VLAN_TAGGED, WRONG_SIDE, discard};
use std::net::Ipv6Addr;

/// Connections' time-outs as they are of IPv4; as many connections; wrong checksums stay wrong.
const TABLE: &str = "connections :: ConnTable(TCP_SYN_SENT 300, TCP_ESTABLISHED 86400, TCP_UNACKNOWLEDGED 300, \
                     UDP 300, UDP_STREAM 300, CHECKSUM false, CAPACITY 4194304);";
/// First packets of connections; packets from clients, of connections that there are; what is of another side.
const FROM_CLIENTS: &str =
    "new.original.unconfirmed, new.original established.original related.original, related";
/// Packets from servers, of connections that there are; what is of another side.
const FROM_SERVERS: &str = "established.reply related.reply, related";
/// What is said of fragments.
const FRAGMENT: &str = "a fragment: only whole packets are balanced";
/// What is said of packets that belong to no connection and can begin none.
const INVALID: &str = "of no connection, and none can begin with it";

impl LoadBalancer {
    /// The graph as Click text.
    pub(super) fn click6(&self, cx: &mut KindCx<'_>, servers: &[Checked], vip: Ipv6Addr) -> String {
        if let Some(t) = cx.reader.translators.last_mut() {
            t.six = true;
        }
        let mut t = ClickText::new();
        t.line(TABLE);
        self.balancer6(servers, cx, &mut t);
        let hops = match self.decrement_ttl {
            true => "DecIP6HLIM -> ",
            false => "",
        };
        let clients = Side6 {
            port: 0,
            encap: self.encap_clients.as_ref(),
            own: vec![vip],
        };
        let behind = Side6 {
            port: 1,
            encap: self.encap_servers.as_ref(),
            own: Vec::new(),
        };
        behind.leave(cx, &mut t, &format!("to_servers :: Null -> {hops}"), true);
        clients.leave(cx, &mut t, &format!("to_clients :: Null -> {hops}"), true);
        for n in 0..2 {
            t.line(format!(
                "FromDevice({n}) -> e{n} :: Classifier(12/86dd, 12/8100, -);"
            ));
            let (tagged, other) = (discard(VLAN_TAGGED), discard(NOT_IP6));
            t.line(format!("e{n}[1] -> {tagged}; e{n}[2] -> {other};"));
        }
        self.ways_of_clients(&mut t, vip);
        self.ways_of_servers(&mut t);
        clients.arrive(cx, &mut t, &behind, ("e0[0]", "c0"));
        behind.arrive(cx, &mut t, &clients, ("e1[0]", "c1"));
        t.finish()
    }

    fn or_discard(&self, to: &str, why: &str) -> String {
        match self.pass_other.unwrap_or(true) {
            true => to.to_string(),
            false => discard(why),
        }
    }

    /// Which packets are balanced, and which pass.
    fn ways_of_clients(&self, t: &mut ClickText, vip: Ipv6Addr) {
        let other = self.or_discard("to_servers", "not for the balanced address and ports");
        let ports: Vec<String> = (self.ports.iter().flatten())
            .map(|p| format!("dst port {}", p.value))
            .collect();
        let ours = match ports.is_empty() {
            true => String::new(),
            false => format!(" && ({})", ports.join(" or ")),
        };
        t.line(format!(
            "c0 :: IP6Classifier(dst host {vip} && ip frag, dst host {vip} && (tcp or udp){ours}, \
             dst host {vip} && icmp6, -);"
        ));
        t.line(format!("c0[0] -> {}; c0[3] -> {other};", discard(FRAGMENT)));
        t.line(format!(
            "t0 :: ConnTrack(connections, {FROM_CLIENTS}, -); c0[1] -> t0;"
        ));
        t.line(format!(
            "c0[2] -> q0 :: Classifier({ICMP_ERRORS6}, -) -> t0; q0[1] -> {other};"
        ));
        t.line("d0 :: ConnDstNat(connections, servers); t0[0] -> [1]d0; t0[1] -> [0]d0;");
        t.line("d0 -> ConnSrcNat(connections) -> ConnConfirm(connections) -> to_servers;");
        t.line(format!(
            "t0[2] -> {}; t0[3] -> {};",
            discard(WRONG_SIDE),
            discard(INVALID)
        ));
    }

    /// Which packets are replies, and which pass.
    fn ways_of_servers(&self, t: &mut ClickText) {
        let unknown = self.or_discard("to_clients", "no connection for this packet from a server");
        let other = self.or_discard("to_clients", "from a server, neither TCP nor UDP");
        t.line("c1 :: IP6Classifier(tcp or udp, icmp6, -);");
        t.line(format!(
            "t1 :: ConnTrack(connections, {FROM_SERVERS}, -); c1[0] -> t1;"
        ));
        t.line(format!(
            "c1[1] -> q1 :: Classifier({ICMP_ERRORS6}, -) -> t1; q1[1] -> {other}; c1[2] -> {other};"
        ));
        t.line("t1[0] -> ConnDstNat(connections) -> ConnSrcNat(connections) -> to_clients;");
        t.line(format!(
            "t1[1] -> {}; t1[2] -> {unknown};",
            discard(WRONG_SIDE)
        ));
    }
}
