//! One side of a function that works on IPv6 packets: how packets that leave there become frames, and what becomes of
//! those that stay on their link. The IPv6 half of [`super::side`].
//!
//! With captures nobody answers: frames have the MAC addresses of the chain file, or those that they came with, and
//! what stays on its link (neighbor discovery, link-local and multicast addresses) passes from side to side, as ARP
//! does. On a network interface the function answers for its addresses, and asks for those of its neighbours.

use super::address::network;
use super::{ClickText, Encap, KindCx, discard, mac};
use std::net::Ipv6Addr;

/// Patterns of frames that stay on their link: destinations that are multicast or link-local, sources that are
/// link-local or unspecified, neighbor solicitations and advertisements (whose hop limit says so: RFC 4861 7.1).
const OF_LINK: &str = "38/ff, 38/fe80%ffc0, 22/fe80%ffc0, 22/00000000000000000000000000000000, \
                       20/3aff 54/87, 20/3aff 54/88";
/// How many these are.
const OF_LINK_COUNT: usize = 6;
/// What is said of them where they go no further.
const STAYS: &str = "link-local or multicast address: it stays on its link";

/// One side.
pub(crate) struct Side6<'a> {
    /// Port of the function, 0 or 1.
    pub port: usize,
    /// What the chain file says about frames.
    pub encap: Option<&'a Encap>,
    /// Addresses that packets come to here, besides [`Encap::address6`].
    pub own: Vec<Ipv6Addr>,
}

impl Side6<'_> {
    /// Does it ask and answer?
    pub(crate) fn learns(&self, cx: &KindCx<'_>) -> bool {
        self.encap.is_some() && cx.live(self.port).is_some_and(|l| l.learns)
    }

    /// The way from `head` (with its arrow) to device `dev0` or `dev1`; `declare`: nobody else declares that.
    pub fn leave(&self, cx: &mut KindCx<'_>, t: &mut ClickText, head: &str, declare: bool) {
        let n = self.port;
        let dev = match declare {
            true => format!("dev{n} :: ToDevice({n})"),
            false => format!("dev{n}"),
        };
        let Some(e) = self.encap else {
            t.line(format!("{head}Unstrip(14) -> {dev};"));
            return;
        };
        let Some(own) = mac(cx, &e.mac) else { return };
        let own = cx
            .live(n)
            .and_then(|l| l.mac)
            .map_or(own, |m| m.to_string());
        if !self.learns(cx) {
            if let Some(next) = mac(cx, &e.next_hop) {
                t.line(format!("{head}EtherEncap(0x86dd, {own}, {next}) -> {dev};"));
            }
            return;
        }
        let address = match &e.address6 {
            Some(a) => match network::<Ipv6Addr>(&a.value, 128, "2001:db8::1/64") {
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
        if let Some(g) = &e.gateway6 {
            let Ok(gateway) = g.value.parse::<Ipv6Addr>() else {
                return cx.error(g, format!("expected an IPv6 address, found '{}'", g.value));
            };
            let near = match address {
                Some((a, length)) => {
                    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                    let net = Ipv6Addr::from(u128::from(a) & mask);
                    format!("{net}/{length} ::0 0, ")
                }
                None => String::new(),
            };
            to_hop = format!("hop6_{n} :: LookupIP6Route({near}::/0 {gateway} 0) -> ");
        }
        let Some(first) = all.first() else {
            return cx.error(
                &e.mac,
                "on a network interface this side needs 'address6': it has none to answer for and to ask from",
            );
        };
        t.line(format!(
            "ndq{n} :: IP6NDSolicitor({first}, {own}) -> {dev};"
        ));
        t.line(format!("{head}GetIP6Address(24) -> {to_hop}[0]ndq{n};"));
        let all: Vec<String> = all.iter().map(|a| format!("{a}/128")).collect();
        t.line(format!(
            "nd{n} :: Classifier(20/3aff 54/87, 20/3aff 54/88, -); nd{n}[0] -> IP6NDAdvertiser({} {own}) -> dev{n};",
            all.join(" ")
        ));
        t.line(format!(
            "nd{n}[1] -> [1]ndq{n}; nd{n}[2] -> {};",
            discard(STAYS)
        ));
    }

    /// IPv6 frames that come in at this side, from `from`: packets begin at `to`; what stays on the link goes to whom
    /// it is for. `other` is the other side.
    pub fn arrive(
        &self,
        cx: &KindCx<'_>,
        t: &mut ClickText,
        other: &Side6<'_>,
        (from, to): (&str, &str),
    ) {
        let n = self.port;
        let link = match (self.learns(cx), other.learns(cx)) {
            (true, _) => format!("nd{n}"),
            (false, true) => format!("stays{n} :: {}", discard(STAYS)),
            (false, false) => format!("dev{}", other.port),
        };
        t.line(format!("{from} -> s{n} :: Classifier({OF_LINK}, -);"));
        let name = link.split_whitespace().next().unwrap_or_default();
        for i in 0..OF_LINK_COUNT {
            let goal = if i == 0 { link.as_str() } else { name };
            t.line(format!("s{n}[{i}] -> {goal};"));
        }
        t.line(format!(
            "s{n}[{OF_LINK_COUNT}] -> Strip(14) -> CheckIP6Header(::1 ff00::/8) -> {to};"
        ));
    }
}
