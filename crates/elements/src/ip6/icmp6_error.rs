//! ICMP6Error answers IPv6 packets with ICMPv6 errors (RFC 4443); IP6Fragmenter sorts out packets that are too long for
//! it.
//!
//! Deliberate differences from Click, which errs in all of these: ICMPv6 errors are never answered, nor are packets
//! whose source is unspecified or multicast (RFC 4443 2.4 e; Click looks for the type in the wrong place); the MTU of
//! "packet too big" stands in network order and can be given; errors quote as much as fits in 1280 bytes (RFC 4443 2.4
//! c; Click: 568 bytes); checksums are always right (Click loses a carry now and then); IP6Fragmenter sends packets
//! longer than MTU to output 1 instead of forgetting them.

use super::{checksum, header};
use crate::routing::hop::is_group;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx, Op, Read};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port,
    element_any,
};
use onefold_packet::wire::ipv4::proto::ICMP6;
use onefold_packet::wire::ipv6::{self, Header};
use onefold_packet::{Packet, Pkt, anno_field};
use std::net::Ipv6Addr;

/// `ICMP6Error`.
pub const ICMP6_ERROR: ElementClass = ElementClass {
    name: "ICMP6Error",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "SRC, TYPE, CODE [, keyword MTU]",
    summary: "answers IPv6 packets with ICMPv6 errors",
    new: || Box::new(Icmp6Error::default()),
};

mod kind {
    pub const UNREACHABLE: u8 = 1;
    pub const TOO_BIG: u8 = 2;
    pub const TIME_EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const REDIRECT: u8 = 137;
}

/// Longest error with its IPv6 header: the least MTU of IPv6 (RFC 4443 2.4 c).
const MAX_LEN: usize = 1280;

/// MTU (ours) is the value in "packet too big" messages, 1500 unless given.
#[derive(Debug, Clone, Default)]
struct Icmp6Error {
    src: [u8; 16],
    kind: u8,
    code: u8,
    mtu: u32,
}

impl Icmp6Error {
    /// Is this one of the errors that packets to many are answered with, too (RFC 4443 2.4 e.3)? Path MTU discovery and
    /// unknown options need them.
    fn about_groups(&self) -> bool {
        matches!(
            (self.kind, self.code),
            (kind::TOO_BIG, _) | (kind::PARAMETER_PROBLEM, 2)
        )
    }

    /// Why the packet gets no answer (RFC 4443 2.4 e).
    fn check(&self, p: &Packet) -> Result<(), DropReason> {
        let h = header(p).ok_or("ICMP6Error: no IPv6 header")?;
        if let Some((ICMP6, at, false)) = h.upper_layer() {
            // types below 128 are errors; one that is cut off may be
            match h.bytes().get(at) {
                Some(t) if *t >= 128 && *t != kind::REDIRECT => {}
                _ => return Err("ICMP6Error: answers no ICMPv6 error"),
            }
        }
        if h.dst()[0] == 0xff && !self.about_groups() {
            return Err("ICMP6Error: destination is a multicast address");
        }
        if is_group(p) && !self.about_groups() {
            return Err("ICMP6Error: arrived as link-level broadcast or multicast");
        }
        let src = Ipv6Addr::from(h.src());
        if src.is_multicast() || src.is_unspecified() || src.is_loopback() {
            return Err("ICMP6Error: source cannot be answered");
        }
        Ok(())
    }

    fn answer(&self, p: &Packet, q: &mut Packet) {
        let (Some(h), Some(original)) = (header(p), p.network()) else {
            return;
        };
        let redirect = self.kind == kind::REDIRECT;
        // a redirect has room for two addresses, which only code 0 uses
        let fixed = if redirect { 40 } else { 8 };
        let room = MAX_LEN - ipv6::LEN - fixed;
        let quoted = &original[..original.len().min(room)];
        let body = if redirect && self.code != 0 { 8 } else { fixed };
        q.put(ipv6::LEN + fixed + quoted.len());
        let Some(mut n) = Header::parse(q.data_mut()) else {
            return;
        };
        n.set_version_class_label(0, 0);
        n.set_payload_len((fixed + quoted.len()) as u16);
        n.set_next_header(ICMP6);
        n.set_hop_limit(255);
        n.set_src(self.src);
        n.set_dst(h.src());
        let m = &mut q.data_mut()[ipv6::LEN..];
        m[0] = self.kind;
        m[1] = self.code;
        match (self.kind, self.code) {
            (kind::TOO_BIG, 0) => m[4..8].copy_from_slice(&self.mtu.to_be_bytes()),
            (kind::PARAMETER_PROBLEM, 0) => {
                m[7] = p.anno.u8(anno_field::ICMP_PARAMPROB.offset.into());
            }
            // the field that says what follows, where that is the IPv6 header's own (RFC 4443 3.4)
            (kind::PARAMETER_PROBLEM, 1) if h.upper_layer().is_none_or(|u| u.1 == ipv6::LEN) => {
                m[7] = 6;
            }
            (kind::REDIRECT, 0) => {
                m[8..24].copy_from_slice(&p.anno.dst_ip6());
                m[24..40].copy_from_slice(&h.dst());
            }
            _ => {}
        }
        m[body..body + quoted.len()].copy_from_slice(quoted);
        let sum = checksum(&self.src, &h.src(), ICMP6, m).to_be_bytes();
        m[2..4].copy_from_slice(&sum);
        q.set_network_header(0, ipv6::LEN);
        q.anno.set_dst_ip6(h.src());
        q.anno.set_u8(anno_field::FIX_IP_SRC.offset.into(), 1);
    }
}

impl Element for Icmp6Error {
    fn clock(&self, _: Clock) -> Clock {
        Clock::Unread
    }
    fn batching(&self, _: Batching) -> Batching {
        Batching::AnyOrder
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let src: Option<Ipv6Addr> = args.mandatory("SRC");
        let kind: Option<u8> = args.mandatory("TYPE");
        self.code = args.mandatory("CODE").unwrap_or(0);
        self.mtu = args.keyword("MTU").unwrap_or(1500);
        if let Some(a) = src {
            self.src = a.octets();
            if a.is_unspecified() {
                args.error("SRC: cannot be ::");
            }
        }
        if let Some(k) = kind {
            self.kind = k;
            let known = matches!(
                k,
                kind::UNREACHABLE
                    | kind::TOO_BIG
                    | kind::TIME_EXCEEDED
                    | kind::PARAMETER_PROBLEM
                    | kind::REDIRECT
            );
            if !known {
                args.error(format!(
                    "TYPE: ICMPv6 type {k} is not an error or redirect type"
                ));
            }
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("originates packets")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if let Err(reason) = self.check(&p) {
            cx.decide(None, || reason.to_string());
            return cx.drop(p, reason);
        }
        let mut q = cx.make(&[]);
        self.answer(&p, &mut q);
        cx.decide(None, || {
            format!("ICMPv6 type {} code {}", self.kind, self.code)
        });
        cx.drop(p, "ICMP6Error: answered with an ICMPv6 error");
        cx.emit(0, q);
    }
    element_any!();
}

/// `IP6Fragmenter`.
pub const IP6_FRAGMENTER: ElementClass = ElementClass {
    name: "IP6Fragmenter",
    ports: "1/1-2",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "MTU",
    summary: "sends packets longer than MTU to output 1; IPv6 routers do not fragment",
    new: || Box::new(Ip6Fragmenter { mtu: 0, drops: 0 }),
};

#[derive(Debug, Clone)]
struct Ip6Fragmenter {
    mtu: u32,
    drops: u64,
}

const TOO_LONG: DropReason = "IP6Fragmenter: too long";

impl Element for Ip6Fragmenter {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.mtu = args.mandatory("MTU").unwrap_or(0);
        args.finish()
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if p.len() <= self.mtu as usize {
            return cx.emit(0, p);
        }
        self.drops += 1;
        cx.decide(None, || format!("longer than {}", self.mtu));
        cx.emit_or_drop(1, p, TOO_LONG);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let long = Cond::at_least(Read::Len, u128::from(self.mtu) + 1);
        Model::Cases(vec![
            Case::new(long, Exit::PortOrDrop(1, TOO_LONG)).with([Op::Count(0)]),
            Case::new(Cond::Always, Exit::Port(0)),
        ])
    }
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.drops += packets;
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("drops"), HandlerInfo::r("fragments")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            "fragments" => Ok("0".to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::ip6::testpkt::*;
    use crate::testing::Bench;
    use onefold_packet::PacketType;

    const R: &str = "2001:db8::ffff";
    fn bench(more: &str) -> Bench {
        Bench::new("ICMP6Error", &format!("{R}, {more}"), 1, 1).unwrap()
    }

    #[test]
    fn time_exceeded_byte_for_byte() {
        let d = ip6("2001:db8::1", "2001:db8::2", 17, &[1, 2, 3, 4]);
        let out = bench("3, 0").push_packet(0, marked(&d));
        let body = [&[3, 0, 0, 0, 0, 0, 0, 0][..], &d].concat();
        let mut want = ip6(R, "2001:db8::1", 58, &body);
        want[7] = 255;
        put_checksum(&mut want, 42);
        assert_eq!(out[0].1.data(), want);
        assert_eq!(out[0].1.anno.dst_ip6(), addr("2001:db8::1"));
        assert_eq!(out[0].1.anno.u8(19), 1);
        assert_eq!(out[0].1.transport_header_offset(), Some(40));
    }

    #[test]
    fn particulars_of_types() {
        let d = ip6("2001:db8::1", "2001:db8::2", 17, &[0; 1400]);
        let m = |config: &str| {
            let mut p = marked(&d);
            p.anno.set_dst_ip6(addr("2001:db8::77"));
            p.anno.set_u8(17, 40);
            let out = bench(config).push_packet(0, p);
            let q = out[0].1.data().to_vec();
            assert!(checksum_ok(&q));
            q
        };
        let q = m("2, 0");
        assert_eq!((&q[44..48], q.len()), (&[0, 0, 5, 220][..], 1280));
        assert_eq!(m("2, 0, MTU 1280")[44..48], [0, 0, 5, 0]);
        assert_eq!(m("4, 0")[44..48], [0, 0, 0, 40]);
        let q = m("137, 0");
        assert_eq!(
            (&q[48..64], &q[64..80]),
            (&addr("2001:db8::77")[..], &addr("2001:db8::2")[..])
        );
        assert_eq!((&q[80..], q.len()), (&d[..1200], 1280));
    }

    /// RFC 4443 2.4 (e.3): packets to many are answered where path MTU discovery and unknown options need it.
    #[test]
    fn too_big_is_said_of_multicast_too() {
        let d = ip6("2001:db8::1", "ff0e::2", 17, &[0; 8]);
        for (config, n) in [("2, 0", 1), ("4, 2", 1), ("4, 0", 0), ("3, 0", 0)] {
            let mut p = marked(&d);
            p.anno.packet_type = PacketType::Multicast;
            assert_eq!(bench(config).push_packet(0, p).len(), n, "{config}");
        }
    }

    #[test]
    fn answers_nothing_that_rfc4443_forbids() {
        let mut b = bench("1, 0");
        let n = |b: &mut Bench, d: &[u8]| b.push_packet(0, marked(d)).len();
        for t in [1, 2, 3, 4, 100, 137] {
            assert_eq!(
                n(&mut b, &ip6("2001:db8::1", "2001:db8::2", 58, &[t; 8])),
                0,
                "{t}"
            );
        }
        assert_eq!(n(&mut b, &ip6("2001:db8::1", "2001:db8::2", 58, &[])), 0);
        assert_eq!(
            n(&mut b, &ip6("2001:db8::1", "2001:db8::2", 58, &[128; 8])),
            1
        );
        // behind an extension header
        let e = ip6(
            "2001:db8::1",
            "2001:db8::2",
            60,
            &[58, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
        );
        assert_eq!(n(&mut b, &e), 0);
        for (s, d) in [
            ("::", "::2"),
            ("ff02::1", "::2"),
            ("::1", "::2"),
            ("2001:db8::1", "ff02::1"),
        ] {
            assert_eq!(n(&mut b, &ip6(s, d, 17, &[])), 0, "{s} {d}");
        }
        let d = ip6("2001:db8::1", "2001:db8::2", 17, &[]);
        let mut p = marked(&d);
        p.anno.packet_type = PacketType::Multicast;
        assert!(b.push_packet(0, p).is_empty());
        assert!(b.push(0, &d).is_empty());
        for i in 0..40 {
            assert_eq!(n(&mut b, &d[..i]), 0);
        }
    }

    #[test]
    fn arguments() {
        for (c, want) in [
            ("::, 1, 0", "SRC: cannot be ::"),
            (
                "::1, 128, 0",
                "TYPE: ICMPv6 type 128 is not an error or redirect type",
            ),
            (
                "::1, 1",
                "CODE: required argument missing; expected a number from 0 to 255",
            ),
        ] {
            assert_eq!(Bench::new("ICMP6Error", c, 1, 1).err().unwrap(), [want]);
        }
    }

    #[test]
    fn too_long_packets_leave_at_1() {
        let mut b = Bench::new("IP6Fragmenter", "60", 1, 2).unwrap();
        assert_eq!(b.push(0, &[0; 60])[0].0, 0);
        assert_eq!(b.push(0, &[0; 61])[0].0, 1);
        assert_eq!(b.read("drops").unwrap(), "1");
        assert!(Bench::new("IP6Fragmenter", "", 1, 2).is_err());
    }
}
