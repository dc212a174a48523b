//! IPInputCombo and IPOutputCombo: the usual elements of a router's input and output paths, in one.

use super::hop::{DECREMENT, decremented_checksum, fix_asked, fix_source, is_group, when_group};
use super::options::{process, store_checksum};
use crate::ip4;
use onefold_element::args::{Args, FromArg, Ip4Prefix, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{
    AnnoKey, Base, Case, Cond, Exit, HeaderCheck, Model, ModelCx, Op, Read, Value, ValueSet, bits,
    bytes, field,
};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port,
    element_any, pass_while,
};
use onefold_packet::wire::ipv4::Header;
use onefold_packet::{Packet, Pkt, Timestamp, anno_field};
use std::net::Ipv4Addr;

/// `IPOutputCombo`.
pub const IP_OUTPUT_COMBO: ElementClass = ElementClass {
    name: "IPOutputCombo",
    ports: "1/5",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "COLOR, IPADDR, MTU",
    summary: "DropBroadcasts, PaintTee, IPGWOptions, FixIPSrc, DecIPTTL and CheckLength in one",
    new: || Box::new(IpOutputCombo::default()),
};

/// As Click. Output 1 gets packets of the given colour, 2 bad options, 3 expired ones, 4 packets longer than MTU.
/// Packets without a whole IP header are dropped.
#[derive(Debug, Clone, Default)]
struct IpOutputCombo {
    color: u8,
    addr: [u8; 4],
    mtu: u32,
}

const NO_HEADER: DropReason = "IPOutputCombo: no IP header";
const OUT_GROUP: DropReason = "IPOutputCombo: link-level broadcast or multicast";
const BAD_HEADER: DropReason = "IPInputCombo: bad IP header";

impl Element for IpOutputCombo {
    fn batching(&self, _: Batching) -> Batching {
        Batching::AnyOrder
    }
    /// A time stamp option is told in milliseconds.
    fn clock(&self, _: Clock) -> Clock {
        Clock::MILLISECONDS
    }
    fn multiplies(&self) -> bool {
        true
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.color = args.mandatory("COLOR").unwrap_or(0);
        if let Some(a) = args.mandatory::<Ipv4Addr>("IPADDR") {
            self.addr = a.octets();
        }
        self.mtu = args.mandatory("MTU").unwrap_or(0);
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if is_group(&p) {
            return cx.drop(p, OUT_GROUP);
        }
        let Some(hlen) = ip4::whole_header_len(&p) else {
            return cx.drop(p, NO_HEADER);
        };
        if p.anno.paint() == self.color {
            let copy = cx.copy(&p);
            cx.emit(1, copy);
        }
        let fix_at = usize::from(anno_field::FIX_IP_SRC.offset);
        let fix = p.anno.u8(fix_at) != 0;
        let Some(b) = p.network_mut() else {
            return cx.drop(p, NO_HEADER);
        };
        let mut changed = fix;
        if hlen > 20 {
            match process(b, hlen, self.addr, &[self.addr], cx.now) {
                Ok(done) => changed |= done.changed,
                Err(offset) => {
                    p.anno
                        .set_u8(anno_field::ICMP_PARAMPROB.offset.into(), offset);
                    cx.decide(None, || format!("bad IP option at byte {offset}"));
                    return cx.emit(2, p);
                }
            }
        }
        let Some(mut h) = Header::parse(&mut *b) else {
            return cx.drop(p, NO_HEADER);
        };
        if fix {
            h.set_src(self.addr);
        }
        let ttl = h.ttl();
        if changed {
            store_checksum(b, hlen);
        }
        if ttl > 1
            && let Some(mut h) = Header::parse(b)
        {
            h.set_ttl(ttl - 1);
            h.set_checksum(decremented_checksum(h.checksum()));
        }
        if fix {
            p.anno.set_u8(fix_at, 0);
        }
        let to = match ttl {
            0 | 1 => 3,
            _ if p.len() > self.mtu as usize => 4,
            _ => 0,
        };
        if to != 0 {
            cx.decide(None, || match to {
                3 => format!("time to live is {ttl}"),
                _ => format!("longer than {}", self.mtu),
            });
        }
        cx.emit(to, p);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = vec![Case::new(when_group(), Exit::Drop(OUT_GROUP))];
        cases.extend(ip4::unless_header(Exit::Drop(NO_HEADER)));
        cases.push(ip4::unless_ihl(Exit::Drop(NO_HEADER)));
        cases.push(ip4::punt_options());
        let paint = Read::Anno(anno_field::PAINT.into());
        let painted = Cond::In(paint, ValueSet::one(self.color.into()));
        cases.push(Case::new(painted, Exit::Punt("a copy before changes")));
        for fix in [false, true] {
            let when = |c: Cond| match fix {
                false => fix_asked(0).and(c),
                true => c,
            };
            let source = fix.then(|| fix_source(self.addr));
            let ops =
                |more: &[Op]| -> Vec<Op> { source.iter().flatten().chain(more).copied().collect() };
            let expired = Cond::between(field::IP_TTL, 0, 1);
            let long = Cond::at_least(Read::Len, u128::from(self.mtu) + 1);
            cases.push(Case::new(when(expired), Exit::Port(3)).with(ops(&[])));
            cases.push(Case::new(when(long), Exit::Port(4)).with(ops(&[DECREMENT])));
            cases.push(Case::new(when(Cond::Always), Exit::Port(0)).with(ops(&[DECREMENT])));
        }
        Model::Cases(cases)
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        let fix_at = usize::from(anno_field::FIX_IP_SRC.offset);
        pass_while(batch, |p| {
            if is_group(p)
                || p.anno.paint() == e.color
                || p.anno.u8(fix_at) != 0
                || p.len() > e.mtu as usize
            {
                return false;
            }
            let Some(mut h) = ip4::header_mut(p) else {
                return false;
            };
            let ttl = h.ttl();
            if h.header_len() != 20 || ttl <= 1 {
                return false;
            }
            h.set_ttl(ttl - 1);
            h.set_checksum(decremented_checksum(h.checksum()));
            true
        })
    }
    element_any!();
}

/// `IPInputCombo`.
pub const IP_INPUT_COMBO: ElementClass = ElementClass {
    name: "IPInputCombo",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "COLOR [, BADSRC, keywords INTERFACES, BADSRC, GOODDST]",
    summary: "Paint, Strip(14), CheckIPHeader and GetIPAddress(16) in one",
    new: || Box::new(IpInputCombo::default()),
};

#[derive(Debug, Clone, Default)]
struct IpInputCombo {
    color: u8,
    bad_src: Vec<[u8; 4]>,
    good_dst: Vec<[u8; 4]>,
    drops: u32,
}

impl IpInputCombo {
    #[inline]
    fn count(&mut self, packets: u64, cx: &mut Cx<'_>) {
        if self.drops == 0 && packets != 0 {
            cx.chatter("IP checksum failed\n");
        }
        self.drops = self.drops.wrapping_add(packets as u32);
    }
}

/// `INTERFACES`: every prefix's broadcast address is a bad source, its address a good destination.
struct Interfaces(Vec<Ip4Prefix>);

impl FromArg for Interfaces {
    const WANTS: &'static str = "IPv4 prefixes separated by spaces";
    fn from_arg(
        s: &str,
        scope: &onefold_element::args::ArgScope<'_>,
    ) -> Result<Self, Option<String>> {
        let all: Result<_, _> = split_words(s)
            .iter()
            .map(|w| Ip4Prefix::from_arg(w, scope))
            .collect();
        all.map(Interfaces).map_err(|_| None)
    }
}

impl IpInputCombo {
    /// Header length, total length and destination of a header that is accepted.
    #[inline]
    fn check(&self, data: &[u8]) -> Option<(usize, usize, [u8; 4])> {
        let h = Header::parse(data)?;
        let (hlen, total) = (h.header_len(), usize::from(h.total_len()));
        let sound = h.version() == 4
            && hlen >= 20
            && total <= data.len()
            && total >= hlen
            && h.checksum_ok()
            && (!self.bad_src.contains(&h.src()) || self.good_dst.contains(&h.dst()));
        sound.then(|| (hlen, total, h.dst()))
    }
}

/// Marks a packet whose header has been accepted.
#[inline]
fn accept(p: &mut Packet, hlen: usize, total: usize, dst: [u8; 4]) {
    p.set_network_header(0, hlen);
    p.take(p.len() - total);
    p.anno.set_dst_ip(dst);
}

impl Element for IpInputCombo {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.color = args.mandatory("COLOR").unwrap_or(0);
        let octets = |v: Vec<Ipv4Addr>| v.iter().map(|a| a.octets()).collect::<Vec<_>>();
        // a positional list stands for the usual bad sources as well
        if let Some(v) = args.optional::<Vec<Ipv4Addr>>("BADSRC*") {
            self.bad_src = octets(v);
            self.bad_src.extend([[0; 4], [255; 4]]);
        }
        if let Some(Interfaces(v)) = args.keyword("INTERFACES") {
            self.good_dst = v.iter().map(|p| p.addr.octets()).collect();
            let broadcast = |p: &Ip4Prefix| (u32::from(p.addr) | !u32::from(p.mask)).to_be_bytes();
            self.bad_src = v.iter().map(broadcast).collect();
            self.bad_src.extend([[0; 4], [255; 4]]);
        }
        if let Some(v) = args.keyword("BADSRC") {
            self.bad_src = octets(v);
        }
        if let Some(v) = args.keyword("GOODDST") {
            self.good_dst = octets(v);
        }
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.anno.set_paint(self.color);
        p.pull(14);
        let Some((hlen, total, dst)) = self.check(p.data()) else {
            self.count(1, cx);
            return cx.drop(p, BAD_HEADER);
        };
        accept(&mut p, hlen, total, dst);
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        pass_while(batch, |p| {
            let Some((hlen, total, dst)) = p.data().get(14..).and_then(|d| e.check(d)) else {
                return false;
            };
            p.anno.set_paint(e.color);
            p.pull(14);
            accept(p, hlen, total, dst);
            true
        })
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        // the header lies behind the Ethernet header that is pulled
        let at = |bit: u16, n: u8| bits(Base::Data, 14 * 8 + bit, n);
        let check = |check| {
            let read = Read::Check {
                check,
                base: Base::Data,
                offset: 14,
            };
            Cond::In(read, ValueSet::one(0))
        };
        let bad = |when| Case::new(when, Exit::Drop(BAD_HEADER)).with([Op::Count(0)]);
        let addresses = |l: &[[u8; 4]]| {
            ValueSet::from_intervals(l.iter().map(|a| {
                let a = u128::from(u32::from_be_bytes(*a));
                (a, a)
            }))
        };
        let mut cases = vec![
            bad(Cond::less(Read::Len, 34)),
            bad(Cond::between(at(0, 4), 0, 3)),
            bad(Cond::between(at(0, 4), 5, 15)),
            bad(Cond::between(at(4, 4), 0, 4)),
            Case::new(Cond::between(at(4, 4), 6, 15), Exit::Punt("IP options")),
            bad(Cond::between(at(16, 16), 0, 19)),
            bad(check(HeaderCheck::Ip4Fits)),
            bad(check(HeaderCheck::Ip4Checksum)),
        ];
        let dst = bytes(Base::Data, 14 + 16, 4);
        let src = Cond::In(
            Read::Field(bytes(Base::Data, 14 + 12, 4)),
            addresses(&self.bad_src),
        );
        let other = addresses(&self.good_dst).complement(32);
        cases.push(bad(src.and(Cond::In(Read::Field(dst), other))));
        let color = Value::Const(self.color.into());
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with([
            Op::SetAnno(anno_field::PAINT.into(), color),
            Op::SetAnno(
                AnnoKey::from(anno_field::DST_IP),
                Value::Of(Read::Field(dst)),
            ),
            Op::Pull(14),
            Op::SetNet { at: 0, len: 20 },
            Op::TrimToIp4 { at: 0 },
        ]));
        Model::Cases(cases)
    }
    fn account(&mut self, _: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        self.count(packets, cx);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("drops")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::routing::testpkt::*;
    use crate::testing::Bench;
    use onefold_packet::PacketType;

    #[test]
    fn output_combo_equals_its_parts() {
        let mut b = Bench::new("IPOutputCombo", "2, 1.2.3.4, 60", 1, 5).unwrap();
        let ports = |b: &mut Bench, p| b.push_packet(0, p).iter().map(|o| o.0).collect::<Vec<_>>();
        let d = ip(A, B, 17, &[], &[0; 8]);
        let out = b.push_packet(0, marked(&d));
        assert_eq!((out[0].0, out[0].1.data()[8]), (0, 63));
        assert!(sound(out[0].1.data()));
        let mut p = marked(&d);
        p.anno.packet_type = PacketType::Multicast;
        assert!(ports(&mut b, p).is_empty());
        let mut p = marked(&d);
        p.anno.set_paint(2);
        let out = b.push_packet(0, p);
        assert_eq!(
            (out[0].0, out[0].1.data()),
            (1, &d[..]),
            "the copy is untouched"
        );
        assert_eq!(out[1].0, 0);
        let bad = marked(&ip(A, B, 17, &[7, 9, 4, 0], &[]));
        let out = b.push_packet(0, bad);
        assert_eq!((out[0].0, out[0].1.anno.u8(17)), (2, 21));
        let mut old = d.clone();
        old[8] = 1;
        assert_eq!(ports(&mut b, marked(&old)), [3]);
        assert_eq!(ports(&mut b, marked(&ip(A, B, 17, &[], &[0; 41]))), [4]);
        let mut p = marked(&ip(A, B, 17, &[7, 7, 4, 0, 0, 0, 0, 0], &[]));
        p.anno.set_u8(19, 1);
        let out = b.push_packet(0, p);
        let q = out[0].1.data();
        assert_eq!(
            (&q[12..16], &q[23..27]),
            (&[1, 2, 3, 4][..], &[1, 2, 3, 4][..])
        );
        assert!(sound(q));
        assert_eq!(out[0].1.anno.u8(19), 0);
        assert!(ports(&mut b, marked(&d[..19])).is_empty());
    }

    #[test]
    fn input_combo_checks_and_marks() {
        let c = "7, INTERFACES 10.0.0.1/24 10.1.0.1/16";
        let mut b = Bench::new("IPInputCombo", c, 1, 1).unwrap();
        let frame = |d: &[u8]| [&[0u8; 14][..], d].concat();
        let d = ip(A, B, 17, &[], &[5; 8]);
        let mut padded = frame(&d);
        padded.extend_from_slice(&[0; 10]);
        let out = b.push(0, &padded);
        let q = &out[0].1;
        assert_eq!((q.data(), q.anno.paint(), q.anno.dst_ip()), (&d[..], 7, B));
        assert_eq!(q.transport_header_offset(), Some(20));
        // a broadcast source, but to one of the router's own addresses
        for (src, dst, ok) in [
            ([10, 0, 0, 255], B, false),
            ([10, 0, 0, 255], [10, 1, 0, 1], true),
            ([0; 4], B, false),
        ] {
            let n = b.push(0, &frame(&ip(src, dst, 17, &[], &[]))).len();
            assert_eq!(n == 1, ok, "{src:?}");
        }
        let mut wrong = frame(&d);
        wrong[24] ^= 1;
        assert!(b.push(0, &wrong).is_empty());
        for n in 0..40 {
            assert!(b.push(0, &frame(&d)[..n]).is_empty());
        }
        assert_eq!(b.read("drops").unwrap(), "43");
        assert_eq!(b.host.log, "IP checksum failed\n");
    }
}
