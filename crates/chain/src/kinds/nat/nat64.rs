//! NAT64: IPv6 hosts inside and IPv4 hosts outside (RFC 6146), in front of the rewriters of the pool.
//!
//! The element NAT64 makes IPv4 packets of IPv6 packets, whose source is a handle of the host, and the other way round.
//! What is between it and the outside is what IPv4 packets from inside go through.

use super::{Forward, Mapping, Nat};
use crate::file::Loc;
use crate::kinds::address::network;
use crate::kinds::{ClickText, KindCx, discard};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Addresses of handles: NAT64 gives them in their order, the first ones to hosts of forwards.
const FIRST_HANDLE: u32 = 0xf000_0000;
/// All of them.
pub(super) const HANDLES: &str = "240.0.0.0/4";
/// Lengths of prefixes that IPv4 addresses stand behind (RFC 6052 2.2).
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
/// MTUs: the least that a link of IPv6 has, the longest packet.
const MTUS: RangeInclusive<u32> = 1280..=65535;
/// Most hosts, as of flows.
const MAX_HOSTS: u32 = 1 << 22;
/// How much longer a packet is as one of IPv6.
const LONGER: u32 = 20;
/// What is said of IPv6 packets that are not for IPv4 hosts.
const NOT_FOR_IP4: &str = "IPv6, and the destination stands for no IPv4 address";
/// What is said of IPv6 packets from outside.
const FROM_OUTSIDE: &str = "IPv6 from outside, where there is only IPv4";

/// IPv6 hosts reach IPv4 hosts by addresses in a prefix (RFC 6146, 6052, 7915).
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nat64 {
    /// Behind it stand the addresses of IPv4 hosts: `64:ff9b::/96`, which is for global IPv4 addresses only, or a
    /// prefix of one's own with 32, 40, 48, 56, 64 or 96 bits.
    pub prefix: Loc<String>,
    /// MTU of the link inside; 1500 if not given. What is longer as an IPv6 packet and must not be fragmented is
    /// answered with an ICMP error where there is `encap-outside`, and dropped.
    pub mtu: Option<Loc<u32>>,
    /// What IPv4 packets that may be fragmented are cut to as IPv6 packets; 1280 if not given.
    pub lowest_mtu: Option<Loc<u32>>,
    /// Most IPv6 hosts at once; 1,048,576 if not given, 4,194,304 at most.
    pub hosts: Option<Loc<u32>>,
}

/// The handles of the hosts of forwards, which they have for ever.
#[derive(Debug, Default)]
pub(super) struct Fixed(Vec<Ipv6Addr>);

impl Fixed {
    /// The handle of a host.
    pub fn handle(&mut self, host: Ipv6Addr) -> Ipv4Addr {
        let known = self.0.iter().position(|h| *h == host);
        let i = known.unwrap_or_else(|| {
            self.0.push(host);
            self.0.len() - 1
        });
        Ipv4Addr::from(FIRST_HANDLE + i as u32)
    }
}

/// The hosts of forwards, by their handles.
fn fixed(forwards: &[(&Loc<String>, Forward)]) -> Vec<Ipv6Addr> {
    let mut all = Fixed::default();
    for h in forwards.iter().filter_map(|(_, f)| f.inside6) {
        all.handle(h);
    }
    all.0
}

impl Nat {
    /// The elements that others' lines name: the translator, and what tells whose packets are whose. `None`: there is
    /// no NAT64, or an error has been recorded.
    pub(super) fn nat64_elements(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        forwards: &[(&Loc<String>, Forward)],
    ) -> Option<()> {
        let n = self.nat64.as_ref()?;
        let other = Mapping::AddressAndPort;
        if let Some(m) = self.mapping.as_ref().filter(|m| m.value == other) {
            cx.error(
                m,
                "'nat64' goes with 'mapping: endpoint-independent' (RFC 6146)",
            );
        }
        within(cx, &n.mtu, MTUS, "an MTU of IPv6");
        within(cx, &n.lowest_mtu, MTUS, "an MTU of IPv6");
        within(cx, &n.hosts, 1..=MAX_HOSTS, "the number of hosts");
        let prefix = prefix(cx, &n.prefix)?;
        self.element64(cx, t, (n, &prefix), &fixed(forwards));
        t.line(format!(
            "back :: IPClassifier(dst net {HANDLES}, -); in64 :: IP6Classifier(dst net {prefix}, -);"
        ));
        Some(())
    }

    /// The ways of IPv6 packets, and of IPv4 packets to handles. `outside`: one of the pool's addresses.
    pub(super) fn nat64_ways(&self, cx: &mut KindCx<'_>, t: &mut ClickText, outside: Ipv4Addr) {
        let Some(n) = &self.nat64 else { return };
        if self.prefixes.is_none() {
            self.frames64(cx, t);
        }
        t.line("back[0] -> [1]nat64; back[1] -> to_in;");
        t.line("nat64[0] -> from_in; nat64[1] -> to_in6;");
        if self.encap_outside.is_some() {
            // an error about a packet to a handle, which goes out as any error from inside
            let mtu = n.mtu.as_ref().map_or(1500, |m| m.value);
            t.line(format!(
                "nat64[2] -> LoopGuard -> ICMPError({outside}, unreachable, needfrag, PMTU {}) -> err_out;",
                mtu.saturating_sub(LONGER)
            ));
        }
        let other = match self.prefixes {
            Some(_) => "out6".to_string(),
            None => discard(NOT_FOR_IP4),
        };
        t.line(format!("in64[0] -> [0]nat64; in64[1] -> {other};"));
    }

    /// The element, with the places of what it is told.
    fn element64(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        (n, prefix): (&Nat64, &str),
        hosts: &[Ipv6Addr],
    ) {
        t.line("nat64 :: NAT64(");
        t.line_at(cx.reader, cx.at(&n.prefix), prefix);
        for h in hosts {
            t.line(format!(", {h}"));
        }
        for (name, v) in [
            ("MTU", &n.mtu),
            ("LOWEST_MTU", &n.lowest_mtu),
            ("CAPACITY", &n.hosts),
            ("TCP_TIMEOUT", &self.tcp_timeout),
            ("TCP_TRANSITORY_TIMEOUT", &self.tcp_transitory_timeout),
            ("UDP_TIMEOUT", &self.udp_timeout),
            ("ICMP_TIMEOUT", &self.icmp_timeout),
        ] {
            if let Some(v) = v {
                t.line_at(cx.reader, cx.at(v), format!(", {name} {}", v.value));
            }
        }
        t.line(");");
    }

    /// IPv6 frames of a function that translates no prefixes beside: only the inside has IPv6.
    fn frames64(&self, cx: &mut KindCx<'_>, t: &mut ClickText) {
        let (inside, outside, hops) = self.sides6();
        inside.leave(cx, t, &format!("to_in6 :: Null -> {hops}"), false);
        inside.arrive(cx, t, &outside, ("e0[3]", "in64"));
        let ends = discard(FROM_OUTSIDE);
        match outside.learns(cx) {
            true => {
                t.line(format!("e1[3] -> {ends};"));
            }
            false => {
                t.line(format!("out64 :: {ends};"));
                outside.arrive(cx, t, &inside, ("e1[3]", "out64"));
            }
        }
    }
}

/// Reads the prefix; an error is recorded.
fn prefix(cx: &mut KindCx<'_>, l: &Loc<String>) -> Option<String> {
    let (a, length) = match network::<Ipv6Addr>(l.value.trim(), 128, "64:ff9b::/96") {
        Ok(found) => found,
        Err(why) => {
            cx.error(l, why);
            return None;
        }
    };
    let why = if !LENGTHS.contains(&length) {
        "behind a prefix of 32, 40, 48, 56, 64 or 96 bits stand IPv4 addresses (RFC 6052)"
    } else if u128::from(a) << length != 0 {
        "bits behind the prefix are set"
    } else if a.octets()[8] != 0 {
        "bits 64 to 71 of such addresses are zero (RFC 6052)"
    } else {
        return Some(format!("{a}/{length}"));
    };
    cx.error(l, format!("`{}`: {why}", l.value));
    None
}

/// Looks at a number; an error is recorded.
fn within(cx: &mut KindCx<'_>, v: &Option<Loc<u32>>, range: RangeInclusive<u32>, what: &str) {
    if let Some(v) = v.as_ref().filter(|v| !range.contains(&v.value)) {
        let (least, most) = range.into_inner();
        cx.error(
            v,
            format!("{what} is from {least} to {most}, found {}", v.value),
        );
    }
}
