//! Removing bytes from the front of packets and putting them back: Strip, Unstrip, StripToNetworkHeader, StripIPHeader,
//! UnstripIPHeader, StripTransportHeader, UnstripTransportHeader, StripEtherVLANHeader.
//!
//! Different from Click: a packet without the header annotation that an element needs is dropped (Click reads through a
//! null pointer); bytes that [`Unstrip`] uncovers and that no earlier element removed are zero (in Click they are
//! whatever the buffer held).

use super::{one_to_one, pull_message, with_refusals};
use onefold_element::args::Args;
use onefold_element::model::build::{CUT_OFF, Cases, before_start, is, no_net};
use onefold_element::model::{
    Base, Cond, Exit, Model, ModelCx, Op, Read, Value, ValueSet, bits, bytes, field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any, pass_while,
};
use onefold_packet::{MAX_PACKET_LEN, Pkt, Timestamp, wire::ethernet};

/// `Strip`.
pub const STRIP: ElementClass = one_to_one(
    "Strip",
    Effect::Pure,
    "LENGTH",
    "removes bytes from the front of packets",
    || Box::new(Strip { length: 0 }),
);

/// Removes `n` bytes (as a signed 32-bit number, as Click's callers compute it) from the front; what is more than the
/// packet has, or negative, removes all and is said on standard error.
#[inline]
fn pull(p: &mut Pkt, n: i32, cx: &mut Cx<'_>) {
    let len = p.len();
    match usize::try_from(n) {
        Ok(n) if n <= len => p.pull(n),
        _ => {
            cx.chatter(&pull_message(n, len));
            p.pull(len);
        }
    }
}

/// A packet that is too short is said on standard error, with its length.
fn strip(n: u16) -> Cases {
    let short = Cond::less(Read::Len, n.into());
    let ops = (n > 0).then_some(Op::Pull(n));
    Cases::new()
        .punt(short, "strips more than there is")
        .case(Cond::Always, ops, Exit::Port(0))
}

#[derive(Debug, Clone)]
struct Strip {
    length: u32,
}

impl Element for Strip {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.length = args.mandatory("LENGTH").unwrap_or(0);
        args.finish()
    }
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        pull(&mut p, self.length as i32, cx);
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        pass_while(batch, |p| {
            let n = e.length as usize;
            let fits = n <= p.len();
            if fits {
                p.pull(n);
            }
            fits
        })
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match u16::try_from(self.length) {
            Ok(n) => strip(n).done(),
            Err(_) => Model::None("Strip: strips more than packets have"),
        }
    }
    element_any!();
}

/// `Unstrip`.
pub const UNSTRIP: ElementClass = one_to_one(
    "Unstrip",
    Effect::Pure,
    "LENGTH",
    "puts bytes that were stripped back at the front of packets",
    || Box::new(Unstrip { length: 0 }),
);

#[derive(Debug, Clone)]
struct Unstrip {
    length: usize,
}

impl Element for Unstrip {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let n: u32 = args.mandatory("LENGTH").unwrap_or(0);
        self.length = n as usize;
        if self.length > MAX_PACKET_LEN {
            args.error(format!("LENGTH: at most {MAX_PACKET_LEN} bytes"));
        }
        args.finish()
    }
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.push(self.length);
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        for p in batch.iter_mut() {
            p.push(self.length);
        }
        (0, batch.len())
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match u16::try_from(self.length) {
            Ok(n) => Model::pass([Op::Unpull(n)]),
            Err(_) => Model::None("Unstrip: puts back more than was ever stripped"),
        }
    }
    element_any!();
}

/// Moves the start of the data to `offset`, which may lie in the headroom.
fn move_start(p: &mut Pkt, offset: isize, cx: &mut Cx<'_>) {
    if offset >= 0 {
        pull(p, i32::try_from(offset).unwrap_or(i32::MAX), cx);
    } else {
        p.push(offset.unsigned_abs());
    }
}

/// `StripToNetworkHeader`.
pub const STRIP_TO_NETWORK_HEADER: ElementClass = one_to_one(
    "StripToNetworkHeader",
    Effect::Pure,
    "",
    "removes everything in front of the network header",
    || Box::new(StripToNetworkHeader),
);

#[derive(Debug, Clone)]
struct StripToNetworkHeader;

impl Element for StripToNetworkHeader {
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match p.network_header_offset() {
            Some(o) => {
                move_start(&mut p, o, cx);
                cx.emit(0, p);
            }
            None => cx.drop(p, "StripToNetworkHeader: no network header"),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const NONE: Exit = Exit::Drop("StripToNetworkHeader: no network header");
        Cases::new()
            .case(no_net(), [], NONE)
            // it may be behind the end
            .punt(Cond::less(Read::NetLen, 1), "no byte of a network header")
            .otherwise([Op::StartAt(Base::Net)], Exit::Port(0))
    }
    element_any!();
}

/// `StripIPHeader`.
pub const STRIP_IP_HEADER: ElementClass = one_to_one(
    "StripIPHeader",
    Effect::Pure,
    "",
    "removes the outermost IP header",
    || Box::new(StripIpHeader),
);

/// Cause of punts.
const STRIPPED: &str = "the header was stripped before";

#[derive(Debug, Clone)]
struct StripIpHeader;

impl Element for StripIpHeader {
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match p.transport_header_offset() {
            // A second StripIPHeader finds the transport header before the data; Click then removes everything.
            Some(o) => {
                pull(&mut p, i32::try_from(o).unwrap_or(i32::MAX), cx);
                cx.emit(0, p);
            }
            None => cx.drop(p, "StripIPHeader: no IP header"),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const NONE: Exit = Exit::Drop("StripIPHeader: no IP header");
        Cases::new()
            .case(is(Read::At(Base::Transport), 0), [], NONE)
            .punt(before_start(Base::Transport), STRIPPED)
            .punt(no_net(), "no network header marked")
            .punt(
                Cond::less(Read::TransportLen, 1),
                "nothing behind the IP header",
            )
            .otherwise([Op::StartAt(Base::Transport)], Exit::Port(0))
    }
    element_any!();
}

/// `UnstripIPHeader`.
pub const UNSTRIP_IP_HEADER: ElementClass = one_to_one(
    "UnstripIPHeader",
    Effect::Pure,
    "",
    "puts the outermost IP header back",
    || Box::new(UnstripIpHeader),
);

#[derive(Debug, Clone)]
struct UnstripIpHeader;

impl Element for UnstripIpHeader {
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match p.network_header_offset() {
            Some(o) => {
                if o < 0 {
                    p.push(o.unsigned_abs());
                }
                cx.emit(0, p);
            }
            None => cx.drop(p, "UnstripIPHeader: no IP header"),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const NONE: Exit = Exit::Drop("UnstripIPHeader: no IP header");
        Cases::new()
            .case(no_net(), [], NONE)
            .case(
                before_start(Base::Net),
                [Op::StartAt(Base::Net)],
                Exit::Port(0),
            )
            .otherwise([], Exit::Port(0))
    }
    element_any!();
}

const STRIP_TRANSPORT_SUMMARY: &str = "removes everything up to the end of the TCP or UDP header";

/// `StripTransportHeader` (FastClick).
pub const STRIP_TRANSPORT_HEADER: ElementClass = one_to_one(
    "StripTransportHeader",
    Effect::Pure,
    "",
    STRIP_TRANSPORT_SUMMARY,
    || Box::new(StripTransportHeader),
);
/// `StripTCPHeader`, another name for it.
pub const STRIP_TCP_HEADER: ElementClass = ElementClass {
    name: "StripTCPHeader",
    ..STRIP_TRANSPORT_HEADER
};
/// `StripUDPHeader`, another name for it.
pub const STRIP_UDP_HEADER: ElementClass = ElementClass {
    name: "StripUDPHeader",
    ..STRIP_TRANSPORT_HEADER
};

#[derive(Debug, Clone)]
struct StripTransportHeader;

impl Element for StripTransportHeader {
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some(offset) = p.transport_header_offset() else {
            return cx.drop(p, "StripTransportHeader: no transport header");
        };
        let header = match super::ip_header(&p).map(|h| h.protocol()) {
            Some(6) => p
                .transport()
                .and_then(|t| t.get(12))
                .map_or(0, |b| isize::from(b >> 4) * 4),
            Some(17) => 8,
            _ => 0,
        };
        let n = offset.saturating_add(header);
        pull(&mut p, i32::try_from(n).unwrap_or(i32::MAX), cx);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const NONE: Exit = Exit::Drop("StripTransportHeader: no transport header");
        const PASS: Exit = Exit::Port(0);
        let there = |n: u16| Cond::at_least(Read::TransportLen, n.into());
        let header = |n: u16| [Op::StartAt(Base::Transport), Op::Pull(n)];
        let mut c = Cases::new()
            .case(is(Read::At(Base::Transport), 0), [], NONE)
            .punt(before_start(Base::Transport), STRIPPED)
            .no_ip([], Exit::Punt("no IP header"))
            .punt(Cond::less(Read::TransportLen, 1), CUT_OFF)
            .case(Cond::eq(field::IP_PROTO, 17).and(there(8)), header(8), PASS);
        let tcp = || Cond::eq(field::IP_PROTO, 6);
        for words in 5..=15u16 {
            let offset = Cond::eq(bits(Base::Transport, 96, 4), words.into());
            let when = Cond::All(vec![tcp(), there(words * 4), offset]);
            c = c.case(when, header(words * 4), PASS);
        }
        let either = ValueSet::from_intervals([(6, 6), (17, 17)]);
        c.punt(Cond::In(Read::Field(field::IP_PROTO), either), CUT_OFF)
            .otherwise([Op::StartAt(Base::Transport)], PASS)
    }
    element_any!();
}

/// `UnstripTransportHeader` (FastClick).
pub const UNSTRIP_TRANSPORT_HEADER: ElementClass = one_to_one(
    "UnstripTransportHeader",
    Effect::Pure,
    "",
    "puts a stripped TCP or UDP header back",
    || Box::new(UnstripTransportHeader),
);

#[derive(Debug, Clone)]
struct UnstripTransportHeader;

impl Element for UnstripTransportHeader {
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match p.transport_header_offset() {
            Some(o) => {
                if o < 0 {
                    p.push(o.unsigned_abs());
                }
                cx.emit(0, p);
            }
            None => cx.drop(p, "UnstripTransportHeader: no transport header"),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const NONE: Exit = Exit::Drop("UnstripTransportHeader: no transport header");
        Cases::new()
            .case(is(Read::At(Base::Transport), 0), [], NONE)
            .case(
                before_start(Base::Transport),
                [Op::StartAt(Base::Transport)],
                Exit::Port(0),
            )
            .otherwise([], Exit::Port(0))
    }
    element_any!();
}

/// `StripEtherVLANHeader`.
pub const STRIP_ETHER_VLAN_HEADER: ElementClass = with_refusals(
    "StripEtherVLANHeader",
    Effect::Pure,
    "[NATIVE_VLAN]",
    "removes an Ethernet or 802.1Q header and notes the VLAN",
    || Box::new(StripEtherVlan { native: 0 }),
);
/// `StripEtherVlanHeader`, its old name.
pub const STRIP_ETHER_VLAN_HEADER_OLD: ElementClass = ElementClass {
    name: "StripEtherVlanHeader",
    ..STRIP_ETHER_VLAN_HEADER
};

#[derive(Debug, Clone)]
struct StripEtherVlan {
    /// VLAN of untagged frames; negative: they are refused.
    native: i32,
}

impl Element for StripEtherVlan {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.native = args.optional("NATIVE_VLAN").unwrap_or(0);
        if self.native > 0xfff {
            args.error("NATIVE_VLAN: at most 4095");
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let tag = match p.data().first_chunk::<16>() {
            Some(h) if h[12..14] == ethernet::ethertype::VLAN.to_be_bytes() => {
                Some(u16::from_be_bytes([h[14], h[15]]))
            }
            _ => None,
        };
        match (tag, u16::try_from(self.native)) {
            (Some(tci), _) => {
                p.anno.set_vlan_tci(tci);
                pull(&mut p, 18, cx);
                cx.emit(0, p);
            }
            (None, Ok(native)) => {
                p.anno.set_vlan_tci(native);
                pull(&mut p, 14, cx);
                cx.emit(0, p);
            }
            (None, Err(_)) => {
                cx.decide(None, || "no VLAN tag".to_string());
                cx.emit_or_drop(1, p, "StripEtherVLANHeader: no VLAN tag");
            }
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const PASS: Exit = Exit::Port(0);
        const SHORT: &str = "strips more than there is";
        let anno = |v| Op::SetAnno(onefold_packet::anno_field::VLAN_TCI.into(), v);
        let tagged = |n: u128| {
            Cond::at_least(Read::Len, n).and(Cond::eq(
                field::ETH_TYPE,
                u128::from(ethernet::ethertype::VLAN),
            ))
        };
        let tci = Value::Of(Read::Field(bytes(Base::Data, 14, 2)));
        let c = Cases::new()
            .case(tagged(18), [anno(tci), Op::Pull(18)], PASS)
            .punt(tagged(16), SHORT);
        match u16::try_from(self.native) {
            Ok(native) => c
                .punt(Cond::less(Read::Len, 14), SHORT)
                .otherwise([anno(Value::Const(native.into())), Op::Pull(14)], PASS),
            Err(_) => c.otherwise([], Exit::PortOrDrop(1, "StripEtherVLANHeader: no VLAN tag")),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Packet;

    #[test]
    fn strip_and_unstrip() {
        let mut b = Bench::new("Strip", "14", 1, 1).unwrap();
        let d: Vec<u8> = (0..60).collect();
        let out = b.push(0, &d);
        assert_eq!(out[0].1.data(), &d[14..]);
        let p = out.into_iter().next().unwrap().1;
        let mut u = Bench::new("Unstrip", "LENGTH 14", 1, 1).unwrap();
        assert_eq!(u.push_packet(0, p)[0].1.data(), &d[..]);
        assert_eq!(
            u.push(0, b"xy")[0].1.data(),
            b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0xy"
        );
        // longer than the packet: all goes, with Click's message
        assert!(b.push(0, b"abc")[0].1.is_empty());
        assert_eq!(b.host.log, "Packet::pull 14 > length 3\n");
        assert!(b.push(0, b"")[0].1.is_empty());
    }

    #[test]
    fn argument_errors() {
        let e = Bench::new("Strip", "", 1, 1).err().unwrap();
        assert_eq!(
            e,
            ["LENGTH: required argument missing; expected an unsigned number"]
        );
        let e = Bench::new("Strip", "-3", 1, 1).err().unwrap();
        assert!(e[0].starts_with("LENGTH: '-3' out of range"), "{e:?}");
        assert!(Bench::new("Unstrip", "4000000000", 1, 1).is_err());
        assert!(Bench::new("StripIPHeader", "1", 1, 1).is_err());
        assert!(Bench::new("StripEtherVLANHeader", "5000", 1, 1).is_err());
    }

    fn ip_packet() -> Box<Packet> {
        let mut d = vec![0u8; 14];
        d.extend([0x46; 24]);
        d.extend([7; 10]);
        let mut p = Packet::from_slice(&d);
        p.set_mac_header(0);
        p.set_network_header(14, 24);
        Box::new(p)
    }

    #[test]
    fn network_header_based() {
        let mut b = Bench::new("StripToNetworkHeader", "", 1, 1).unwrap();
        let p = b.push_packet(0, ip_packet()).remove(0).1;
        assert_eq!(p.len(), 34);
        let mut s = Bench::new("StripIPHeader", "", 1, 1).unwrap();
        let p = s.push_packet(0, p).remove(0).1;
        assert_eq!(p.data(), &[7; 10]);
        // the network header now lies before the data: both ways back to it
        let mut back = b.push_packet(0, p.clone()).remove(0).1;
        assert_eq!(back.len(), 34);
        back.pull(24);
        let mut u = Bench::new("UnstripIPHeader", "", 1, 1).unwrap();
        assert_eq!(u.push_packet(0, back).remove(0).1.len(), 34);
        assert_eq!(u.push_packet(0, ip_packet()).remove(0).1.len(), 48);
        for (class, reason) in [
            (
                "StripToNetworkHeader",
                "StripToNetworkHeader: no network header",
            ),
            ("StripIPHeader", "StripIPHeader: no IP header"),
            ("UnstripIPHeader", "UnstripIPHeader: no IP header"),
            (
                "StripTransportHeader",
                "StripTransportHeader: no transport header",
            ),
            (
                "UnstripTransportHeader",
                "UnstripTransportHeader: no transport header",
            ),
        ] {
            let mut b = Bench::new(class, "", 1, 1).unwrap();
            assert!(b.push(0, &[1; 40]).is_empty());
            assert_eq!(b.drops()[reason], 1);
        }
    }

    #[test]
    fn transport_header() {
        let mut d = vec![0u8; 20];
        d[0] = 0x45;
        d[9] = 6;
        d.extend([0u8; 24]);
        d[32] = 0x60;
        d.extend(b"hello");
        let mut p = Packet::from_slice(&d);
        p.set_network_header(0, 20);
        let mut b = Bench::new("StripTCPHeader", "", 1, 1).unwrap();
        let p = b.push_packet(0, Box::new(p)).remove(0).1;
        assert_eq!(p.data(), b"hello");
        let mut u = Bench::new("UnstripTransportHeader", "", 1, 1).unwrap();
        assert_eq!(u.push_packet(0, p).remove(0).1.len(), 29);
    }

    #[test]
    fn vlan_header() {
        let mut d = vec![0u8; 12];
        d.extend([0x81, 0, 0x60, 5, 8, 0, 0x45]);
        let mut b = Bench::new("StripEtherVLANHeader", "-1", 1, 2).unwrap();
        let (port, p) = b.push(0, &d).remove(0);
        assert_eq!(
            (port, p.data(), p.anno.vlan_tci()),
            (0, &[0x45u8][..], 0x6005)
        );
        d[12] = 8;
        assert_eq!(b.push(0, &d)[0].0, 1);
        assert_eq!(b.push(0, &d[..3])[0].0, 1);
        let mut b = Bench::new("StripEtherVlanHeader", "7", 1, 1).unwrap();
        let p = b.push(0, &d).remove(0).1;
        assert_eq!((p.len(), p.anno.vlan_tci()), (5, 7));
    }
}
