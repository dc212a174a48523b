//! One side of a function that works on IPv4 packets (NAT, load balancer): how packets that leave there become
//! frames, and what becomes of ARP.
//!
//! With captures nobody answers: frames have the MAC addresses of the chain file, or those that they came with, and
//! ARP passes from side to side. On a network interface the function answers for its addresses, and asks for those of
//! its neighbours.

use super::address::network;
use super::{ClickText, Encap, KindCx, discard, mac};
use std::net::Ipv4Addr;

/// What is said of ARP that is neither a request nor a reply.
const NO_ARP: &str = "ARP, neither request nor reply";
/// What is said of ARP that would have to pass to a network interface.
const ENDS: &str = "ARP ends at the function: it answers for itself on its other side";

/// One side.
pub(crate) struct Side<'a> {
    /// Port of the function, 0 or 1.
    pub port: usize,
    /// What the chain file says about frames.
    pub encap: Option<&'a Encap>,
    /// Addresses that packets come to here, besides [`Encap::address`].
    pub own: Vec<Ipv4Addr>,
}

impl Side<'_> {
    /// Does it ask and answer?
    fn learns(&self, cx: &KindCx<'_>) -> bool {
        self.encap.is_some() && cx.live(self.port).is_some_and(|l| l.learns)
    }

    /// The way from `head` (with its arrow) to device `dev0` or `dev1`, which is declared here.
    pub fn leave(&self, cx: &mut KindCx<'_>, t: &mut ClickText, head: &str) {
        let n = self.port;
        let Some(e) = self.encap else {
            t.line(format!("{head}Unstrip(14) -> dev{n} :: ToDevice({n});"));
            return;
        };
        let Some(own) = mac(cx, &e.mac) else { return };
        let own = cx
            .live(n)
            .and_then(|l| l.mac)
            .map_or(own, |m| m.to_string());
        if !self.learns(cx) {
            if let Some(next) = mac(cx, &e.next_hop) {
                t.line(format!(
                    "{head}EtherEncap(0x0800, {own}, {next}) -> dev{n} :: ToDevice({n});"
                ));
            }
            return;
        }
        let address = match &e.address {
            Some(a) => match network::<Ipv4Addr>(&a.value, 32, "10.0.0.1/8") {
                Ok(found) => Some(found),
                Err(why) => return cx.error(a, why),
            },
            None => None,
        };
        let mut all = self.own.clone();
        let mut to_hop = String::new();
        if let Some((a, _)) = address {
            all.insert(0, a);
        }
        if let Some(g) = &e.gateway {
            let Ok(gateway) = g.value.parse::<Ipv4Addr>() else {
                return cx.error(g, format!("expected an IPv4 address, found '{}'", g.value));
            };
            let near = match address {
                Some((a, length)) => format!("{a}/{length} 0, "),
                None => String::new(),
            };
            to_hop = format!("hop{n} :: RadixIPLookup({near}0.0.0.0/0 {gateway} 0) -> ");
        }
        let Some(first) = all.first() else {
            return cx.error(
                &e.mac,
                "on a network interface this side needs 'address': it has none to answer for and to ask from",
            );
        };
        t.line(format!(
            "arpq{n} :: ARPQuerier({first}, {own}) -> dev{n} :: ToDevice({n});"
        ));
        t.line(format!("{head}GetIPAddress(16) -> {to_hop}[0]arpq{n};"));
        let all: Vec<String> = all.iter().map(Ipv4Addr::to_string).collect();
        t.line(format!(
            "arp{n} :: Classifier(20/0001, 20/0002, -); arp{n}[0] -> ARPResponder({} {own}) -> dev{n};",
            all.join(" ")
        ));
        t.line(format!(
            "arp{n}[1] -> [1]arpq{n}; arp{n}[2] -> {};",
            discard(NO_ARP)
        ));
    }

    /// Where ARP goes that comes in here; `other` is the other side.
    pub fn arp(&self, cx: &KindCx<'_>, other: &Side<'_>) -> String {
        if self.learns(cx) {
            return format!("arp{}", self.port);
        }
        match other.learns(cx) {
            true => discard(ENDS),
            false => format!("dev{}", other.port),
        }
    }
}
