//! CheckIPHeader and CheckIPHeader2: is this a sensible IPv4 packet? (RFC 1812, 5.2.2 and 5.3.7.)
//!
//! Causes of refusal, in the order in which they are looked for, are the drop reasons `CheckIPHeader: tiny packet`,
//! `... bad IP version`, `... bad IP header length`, `... bad IP length`, `... bad IP checksum`, `... bad source
//! address`.
//!
//! Different from Click: the old syntax `CheckIPHeader(BADSRC-list, OFFSET)`, which Click documents but refuses, is
//! accepted; BADSRC takes prefixes (`127.0.0.0/8`) beside addresses.

use super::arg::PrefixList;
use super::refusal::{Cause, Lead, Refusals, causes};
use super::with_refusals;
use onefold_element::args::{Args, Ip4Prefix};
use onefold_element::handler::{HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, OPTIONS, is};
use onefold_element::model::{
    Base, Cond, Exit, HeaderCheck, Model, ModelCx, Op, Read, Value, ValueSet, bits, bytes,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any, pass_while,
};
use onefold_packet::{Pkt, Timestamp, anno_field, wire::ipv4};
use std::net::Ipv4Addr;

/// `CheckIPHeader`.
pub const CHECK_IP_HEADER: ElementClass = with_refusals(
    "CheckIPHeader",
    Effect::CommutativeCount,
    "[OFFSET, keywords OFFSET, INTERFACES, BADSRC, GOODDST, CHECKSUM, VERBOSE, DETAILS]",
    "checks IPv4 headers, sets annotations, cuts padding off",
    || Box::new(CheckIpHeader::new(true, CAUSES)),
);

/// `CheckIPHeader2`.
pub const CHECK_IP_HEADER2: ElementClass = with_refusals(
    "CheckIPHeader2",
    Effect::CommutativeCount,
    CHECK_IP_HEADER.usage,
    "checks IPv4 headers as CheckIPHeader, but not the checksum unless told to",
    || Box::new(CheckIpHeader::new(false, CAUSES2)),
);

const CAUSES: &[Cause] = causes!("CheckIPHeader": "tiny packet", "bad IP version", "bad IP header length",
    "bad IP length", "bad IP checksum", "bad source address");
const CAUSES2: &[Cause] = causes!("CheckIPHeader2": "tiny packet", "bad IP version", "bad IP header length",
    "bad IP length", "bad IP checksum", "bad source address");

const TINY: usize = 0;
const VERSION: usize = 1;
const HEADER_LENGTH: usize = 2;
const LENGTH: usize = 3;
const CHECKSUM: usize = 4;
const SOURCE: usize = 5;

#[derive(Debug, Clone)]
struct CheckIpHeader {
    offset: usize,
    checksum: bool,
    /// Sources that are refused: address and mask ...
    bad_src: Vec<(u32, u32)>,
    /// ... unless the packet goes to one of these.
    good_dst: Vec<[u8; 4]>,
    refusals: Refusals,
}

/// What a good packet's header says.
struct Accepted {
    header_len: usize,
    total_len: usize,
    dst: [u8; 4],
}

impl CheckIpHeader {
    fn new(checksum: bool, causes: &'static [Cause]) -> Self {
        CheckIpHeader {
            offset: 0,
            checksum,
            bad_src: Vec::new(),
            good_dst: Vec::new(),
            refusals: Refusals::new("IP", Lead::Name, causes),
        }
    }

    #[inline]
    fn is_bad(&self, src: [u8; 4]) -> bool {
        let src = u32::from_be_bytes(src);
        self.bad_src.iter().any(|(a, mask)| src & mask == *a)
    }

    #[inline]
    fn check(&self, data: &[u8]) -> Result<Accepted, usize> {
        let ip = data.get(self.offset..).unwrap_or(&[]);
        let h = ipv4::Header::parse(ip).ok_or(TINY)?;
        if h.version() != 4 {
            return Err(VERSION);
        }
        let header_len = h.header_len();
        if header_len < ipv4::LEN {
            return Err(HEADER_LENGTH);
        }
        let total_len = usize::from(h.total_len());
        if total_len > ip.len() || total_len < header_len {
            return Err(LENGTH);
        }
        if self.checksum && !h.checksum_ok() {
            return Err(CHECKSUM);
        }
        let dst = h.dst();
        if !self.bad_src.is_empty() && self.is_bad(h.src()) && !self.good_dst.contains(&dst) {
            return Err(SOURCE);
        }
        Ok(Accepted {
            header_len,
            total_len,
            dst,
        })
    }
}

impl CheckIpHeader {
    /// The refused sources as intervals; `None` where a mask is not a prefix.
    fn bad_sources(&self) -> Option<ValueSet> {
        let contiguous = |m: u32| m.leading_ones() == m.count_ones();
        let all = self.bad_src.iter();
        let all = all.map(|(a, m)| contiguous(*m).then_some((u128::from(*a), u128::from(a | !m))));
        Some(ValueSet::from_intervals(all.collect::<Option<Vec<_>>>()?))
    }
}

/// Addresses and prefixes as address and mask.
fn masked(l: PrefixList) -> Vec<(u32, u32)> {
    let one = |p: &Ip4Prefix| (u32::from(p.addr) & u32::from(p.mask), p.mask.into());
    l.0.iter().map(one).collect()
}

/// Addresses that are never a source: what INTERFACES and the old syntax add.
const NEVER_SOURCES: [(u32, u32); 2] = [(0, u32::MAX), (u32::MAX, u32::MAX)];

impl Element for CheckIpHeader {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(l) = args.keyword("BADSRC") {
            self.bad_src = masked(l);
        }
        if let Some(l) = args.keyword::<Vec<Ipv4Addr>>("GOODDST") {
            self.good_dst = l.iter().map(Ipv4Addr::octets).collect();
        }
        // As in Click, INTERFACES replaces what BADSRC and GOODDST gave.
        if let Some(PrefixList(interfaces)) = args.keyword("INTERFACES") {
            let broadcast = |i: &Ip4Prefix| (u32::from(i.addr) | !u32::from(i.mask), u32::MAX);
            self.bad_src = interfaces.iter().map(broadcast).collect();
            self.bad_src.extend(NEVER_SOURCES);
            self.good_dst = interfaces.iter().map(|i| i.addr.octets()).collect();
        }
        let offset: Option<u32> = args.keyword("OFFSET");
        self.refusals.configure(args);
        if let Some(c) = args.keyword("CHECKSUM") {
            self.checksum = c;
        }
        self.offset = offset.unwrap_or(0) as usize;
        // what is left is OFFSET, or the old BADSRC, OFFSET
        if args.positional_left() == 1 && args.next_positional_is::<u32>() {
            let o: Option<u32> = args.optional("OFFSET");
            self.offset = o.unwrap_or(0) as usize;
        } else if args.positional_left() > 0 {
            if let Some(l) = args.optional("BADSRC") {
                self.bad_src = masked(l);
                self.bad_src.extend(NEVER_SOURCES);
            }
            let o: Option<u32> = args.optional("OFFSET");
            if let Some(o) = o {
                self.offset = o as usize;
            }
        }
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match self.check(p.data()) {
            Ok(a) => {
                p.set_network_header(self.offset as isize, a.header_len);
                let excess = p.len() - self.offset - a.total_len;
                if excess > 0 {
                    p.take(excess);
                }
                p.anno.set_dst_ip(a.dst);
                cx.emit(0, p);
            }
            Err(cause) => self.refusals.refuse(cause, p, cx),
        }
    }

    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        pass_while(batch, |p| {
            let Ok(a) = e.check(p.data()) else {
                return false;
            };
            p.set_network_header(e.offset as isize, a.header_len);
            let excess = p.len() - e.offset - a.total_len;
            if excess > 0 {
                p.take(excess);
            }
            p.anno.set_dst_ip(a.dst);
            true
        })
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        // the field of an IPv4 header at OFFSET, up to bit 65535
        let Some(at) = u16::try_from(self.offset).ok().filter(|o| *o <= 8000) else {
            return Model::None("CheckIPHeader: OFFSET beyond every header");
        };
        let byte = |i: u16, n: u8| bytes(Base::Data, at + i, n);
        let ihl = bits(Base::Data, at * 8 + 4, 4);
        let (src, dst) = (byte(12, 4), byte(16, 4));
        let fails = |check| {
            let (base, offset) = (Base::Data, at);
            is(
                Read::Check {
                    check,
                    base,
                    offset,
                },
                0,
            )
        };
        let refuse = |cases: Cases, when: Cond, cause: usize| {
            let (count, exit) = self.refusals.refusal(cause);
            cases.case(when, [count], exit)
        };
        let mut c = Cases::new();
        c = refuse(c, Cond::less(Read::Len, u128::from(at) + 20), TINY);
        let version = bits(Base::Data, at * 8, 4);
        c = refuse(c, onefold_element::model::build::ne(version, 4), VERSION);
        c = refuse(c, Cond::between(ihl, 0, 4), HEADER_LENGTH);
        c = c.punt(Cond::between(ihl, 6, 15), OPTIONS);
        c = refuse(c, Cond::between(byte(2, 2), 0, 19), LENGTH);
        c = refuse(c, fails(HeaderCheck::Ip4Fits), LENGTH);
        if self.checksum {
            c = refuse(c, fails(HeaderCheck::Ip4Checksum), CHECKSUM);
        }
        if !self.bad_src.is_empty() {
            let Some(sources) = self.bad_sources() else {
                return Model::None("CheckIPHeader: masks that are not contiguous");
            };
            let mut bad = Cond::In(Read::Field(src), sources);
            if !self.good_dst.is_empty() {
                let all = self.good_dst.iter().map(|a| u32::from_be_bytes(*a).into());
                let elsewhere = ValueSet::from_intervals(all.map(|a| (a, a))).complement(32);
                bad = bad.and(Cond::In(Read::Field(dst), elsewhere));
            }
            c = refuse(c, bad, SOURCE);
        }
        c.otherwise(
            [
                Op::TrimToIp4 { at },
                Op::SetNet {
                    at: at as i16,
                    len: 20,
                },
                Op::SetAnno(anno_field::DST_IP.into(), Value::Of(Read::Field(dst))),
            ],
            Exit::Port(0),
        )
    }
    /// Tags: the causes of refusal, from 0 in the order of the module's text.
    fn account(&mut self, tag: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        self.refusals.account(tag.into(), packets, cx);
    }
    fn tells_later(&self, _: u16) -> bool {
        self.refusals.tells_later()
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        self.refusals.handlers()
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        self.refusals.read(name)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// The well-known example header, checksum 0xb861, with 95 bytes of payload (total length 115).
    fn packet() -> Vec<u8> {
        let mut d = vec![
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8,
            0, 0xc7,
        ];
        d.resize(0x73, 0xaa);
        d
    }

    #[test]
    fn good_packet_is_marked_and_cut() {
        let mut b = Bench::new("CheckIPHeader", "14", 1, 1).unwrap();
        let mut d = vec![0u8; 14];
        d.extend(packet());
        d.extend([0; 9]);
        let p = b.push(0, &d).remove(0).1;
        assert_eq!(p.len(), 14 + 0x73);
        assert_eq!(p.network_header_offset(), Some(14));
        assert_eq!(p.transport_header_offset(), Some(34));
        assert_eq!(p.anno.dst_ip(), [0xc0, 0xa8, 0, 0xc7]);
        assert_eq!(b.read("drops").unwrap(), "0");
    }

    #[test]
    fn every_cause_has_its_count_and_reason() {
        let mut b = Bench::new(
            "CheckIPHeader",
            "DETAILS true, VERBOSE true, BADSRC 192.168.0.1 1.1.1.1",
            1,
            1,
        )
        .unwrap();
        let ok = packet();
        let with = |i: usize, v: u8| {
            let mut d = ok.clone();
            d[i] = v;
            d
        };
        let bad = [
            ok[..19].to_vec(),
            with(0, 0x65),
            with(0, 0x44),
            with(3, 0x74),
            with(2, 0xff),
            with(8, 0x41),
            ok.clone(),
        ];
        for d in &bad {
            assert!(b.push(0, d).is_empty());
        }
        let mut tiny_len = with(3, 19);
        tiny_len[2] = 0;
        assert!(b.push(0, &tiny_len).is_empty());
        assert_eq!(
            b.read("drop_details").unwrap(),
            "1\ttiny packet\n1\tbad IP version\n1\tbad IP header length\n3\tbad IP length\n1\tbad IP checksum\n1\tbad source address\n"
        );
        assert_eq!(b.read("drops").unwrap(), "8");
        assert_eq!(b.drops()["CheckIPHeader: bad IP checksum"], 1);
        assert_eq!(b.drops()["CheckIPHeader: bad source address"], 1);
        assert!(
            b.host
                .log
                .starts_with("e0: IP header check failed: tiny packet\n")
        );
        assert_eq!(b.host.log.lines().count(), 8);
    }

    #[test]
    fn quiet_after_the_first_and_second_output() {
        let mut b = Bench::new("CheckIPHeader", "", 1, 2).unwrap();
        for _ in 0..3 {
            assert_eq!(b.push(0, b"x")[0].0, 1);
        }
        assert_eq!(b.host.log, "e0: IP header check failed: tiny packet\n");
        assert!(b.drops().is_empty());
        assert_eq!(b.read("drops").unwrap(), "3");
        assert!(b.read("drop_details").is_err());
    }

    #[test]
    fn interfaces_make_broadcasts_bad_sources_except_to_ourselves() {
        let mut b = Bench::new(
            "CheckIPHeader",
            "INTERFACES 192.168.0.1/31 10.0.0.9/8, CHECKSUM false",
            1,
            1,
        )
        .unwrap();
        let mut d = packet();
        d[16..20].copy_from_slice(&[10, 0, 0, 8]);
        // 192.168.0.1 is the broadcast address of 192.168.0.0/31
        assert!(b.push(0, &d).is_empty());
        d[16..20].copy_from_slice(&[10, 0, 0, 9]);
        assert_eq!(b.push(0, &d).len(), 1);
        d[12..16].copy_from_slice(&[10, 255, 255, 255]);
        d[16..20].copy_from_slice(&[10, 0, 0, 8]);
        assert!(b.push(0, &d).is_empty());
        d[12..16].copy_from_slice(&[0; 4]);
        assert!(b.push(0, &d).is_empty());
        d[12..16].copy_from_slice(&[10, 0, 0, 1]);
        assert_eq!(b.push(0, &d).len(), 1);
    }

    #[test]
    fn bad_sources_may_be_prefixes() {
        let c = "BADSRC 127.0.0.0/8 224.0.0.0/3 192.168.0.1, GOODDST 10.0.0.9, CHECKSUM false";
        let mut b = Bench::new("CheckIPHeader", c, 1, 1).unwrap();
        let mut passes = |src: [u8; 4], dst: [u8; 4]| {
            let mut d = packet();
            d[12..16].copy_from_slice(&src);
            d[16..20].copy_from_slice(&dst);
            b.push(0, &d).len() == 1
        };
        for bad in [[127, 1, 2, 3], [224, 0, 0, 1], [255; 4], [192, 168, 0, 1]] {
            assert!(!passes(bad, [10, 0, 0, 8]) && passes(bad, [10, 0, 0, 9]));
        }
        for good in [[126, 255, 255, 255], [128, 0, 0, 0], [192, 168, 0, 0]] {
            assert!(passes(good, [10, 0, 0, 8]));
        }
        assert!(Bench::new("CheckIPHeader", "BADSRC 1.2.3.0/33", 1, 1).is_err());
    }

    #[test]
    fn check_ip_header2_leaves_the_checksum_alone() {
        let mut d = packet();
        d[8] = 1;
        let mut b = Bench::new("CheckIPHeader2", "", 1, 1).unwrap();
        assert_eq!(b.push(0, &d).len(), 1);
        assert!(b.push(0, &d[..5]).is_empty());
        assert_eq!(b.drops()["CheckIPHeader2: tiny packet"], 1);
        let mut b = Bench::new("CheckIPHeader2", "CHECKSUM true", 1, 1).unwrap();
        assert!(b.push(0, &d).is_empty());
    }

    #[test]
    fn syntaxes_and_errors() {
        for good in [
            "",
            "14",
            "0xe",
            "OFFSET 14",
            "1.2.3.4 5.6.7.8, 14",
            "1.2.3.4",
            "VERBOSE true, 3",
        ] {
            assert!(Bench::new("CheckIPHeader", good, 1, 1).is_ok(), "{good}");
        }
        let mut b = Bench::new("CheckIPHeader", "192.168.0.1, 2, CHECKSUM false", 1, 1).unwrap();
        let mut d = vec![0, 0];
        d.extend(packet());
        assert!(b.push(0, &d).is_empty());
        assert_eq!(b.drops()["CheckIPHeader: bad source address"], 1);
        for (bad, names) in [
            ("BADSRC 1.2.3.4 x", "BADSRC"),
            ("INTERFACES 1.2.3.4/99", "INTERFACES"),
            ("OFFSET x", "OFFSET"),
            ("x", "BADSRC"),
            ("CHECKSUM 7", "CHECKSUM"),
            ("BOGUS 7", "BOGUS"),
        ] {
            let e = Bench::new("CheckIPHeader", bad, 1, 1).err().unwrap();
            assert!(e[0].starts_with(names), "{bad}: {e:?}");
        }
    }
}
