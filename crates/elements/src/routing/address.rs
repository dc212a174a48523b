//! Destination address annotations: GetIPAddress, SetIPAddress, StoreIPAddress.

use crate::ip4;
use onefold_element::args::{Args, FromArg, SizedAnno, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{
    AnnoKey, Base, Case, Cond, Exit, Fix, Model, ModelCx, Op, Read, Value, ValueSet, bytes, field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::ipv4::proto;
use onefold_packet::{Packet, Pkt, anno_field, checksum};
use std::net::Ipv4Addr;

/// `GetIPAddress`.
pub const GET_IP_ADDRESS: ElementClass = ElementClass {
    name: "GetIPAddress",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "OFFSET [, ANNO, keyword IP]",
    summary: "sets the destination address annotation from packet data",
    new: || {
        Box::new(GetIpAddress {
            from: From::Offset(0),
            anno: 0,
        })
    },
};

#[derive(Debug, Clone, Copy)]
enum From {
    Offset(usize),
    Source,
    Destination,
}

/// Packets too short for OFFSET, or without an IP header where `IP` is used, are dropped; Click reads whatever lies
/// there.
#[derive(Debug, Clone)]
struct GetIpAddress {
    from: From,
    anno: u8,
}

const TOO_SHORT: DropReason = "GetIPAddress: packet too short";

/// Offsets up to here have a name in a model: bits are counted in 16 bits.
const MAX_OFFSET: usize = 8000;
const TOO_FAR: &str = "an offset beyond 8000 bytes";

/// The annotation of four bytes at this place.
fn address_key(offset: u8) -> AnnoKey {
    AnnoKey { offset, size: 4 }
}

impl Element for GetIpAddress {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let offset: Option<i32> = args.optional("OFFSET");
        let anno: Option<SizedAnno<4>> = args.optional("ANNO");
        self.anno = anno.map_or(anno_field::DST_IP.offset, |a| a.0);
        let ip: Option<Word> = args.keyword("IP");
        match (
            offset.filter(|o| *o >= 0),
            ip.as_ref().map(|w| w.0.as_str()),
        ) {
            (Some(o), None) => self.from = From::Offset(o as usize),
            (None, Some("src")) => self.from = From::Source,
            (None, Some("dst")) => self.from = From::Destination,
            (None, Some(other)) => {
                args.error(format!("IP: expected 'src' or 'dst', found '{other}'"))
            }
            _ if args.ok() => args.error("set one of OFFSET (not negative) and IP"),
            _ => {}
        }
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let a = match self.from {
            From::Offset(o) => p
                .data()
                .get(o..)
                .and_then(|d| d.first_chunk::<4>())
                .copied(),
            From::Source => ip4::header(&p).map(|h| h.src()),
            From::Destination => ip4::header(&p).map(|h| h.dst()),
        };
        match a {
            Some(a) => {
                p.anno.set_u32(self.anno.into(), u32::from_ne_bytes(a));
                cx.emit(0, p);
            }
            None => cx.drop(p, TOO_SHORT),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::from(ip4::unless_header(Exit::Drop(TOO_SHORT)));
        let from = match self.from {
            From::Source => field::IP_SRC,
            From::Destination => field::IP_DST,
            From::Offset(o) if o <= MAX_OFFSET => {
                let short = Cond::less(Read::Len, o as u128 + 4);
                cases = vec![Case::new(short, Exit::Drop(TOO_SHORT))];
                bytes(Base::Data, o as u16, 4)
            }
            From::Offset(_) => return Model::None(TOO_FAR),
        };
        let set = Op::SetAnno(address_key(self.anno), Value::Of(Read::Field(from)));
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with([set]));
        Model::Cases(cases)
    }
    element_any!();
}

/// `SetIPAddress`.
pub const SET_IP_ADDRESS: ElementClass = ElementClass {
    name: "SetIPAddress",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "IPADDR [, keyword ANNO]",
    summary: "sets the destination address annotation to a fixed address",
    new: || {
        Box::new(SetIpAddress {
            addr: Ipv4Addr::UNSPECIFIED,
            anno: 0,
        })
    },
};

#[derive(Debug, Clone)]
struct SetIpAddress {
    addr: Ipv4Addr,
    anno: u8,
}

impl Element for SetIpAddress {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.addr = args.mandatory("IPADDR").unwrap_or(self.addr);
        let anno: Option<SizedAnno<4>> = args.keyword("ANNO");
        self.anno = anno.map_or(anno_field::DST_IP.offset, |a| a.0);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let a = u32::from_ne_bytes(self.addr.octets());
        p.anno.set_u32(self.anno.into(), a);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let a = Value::Const(u32::from(self.addr).into());
        Model::pass([Op::SetAnno(address_key(self.anno), a)])
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("addr")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "addr" => Ok(self.addr.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "addr" => {
                self.addr = cx.value(name, value)?;
                Ok(())
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

/// `StoreIPAddress`.
pub const STORE_IP_ADDRESS: ElementClass = ElementClass {
    name: "StoreIPAddress",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "[ADDR,] OFFSET ('src', 'dst' or a number)",
    summary: "writes an address, or the destination address annotation, into packets",
    new: || {
        Box::new(StoreIpAddress {
            addr: None,
            to: From::Offset(0),
        })
    },
};

/// As Click, except that a zero annotation with an OFFSET in range leaves a packet that has an IP header unchanged, as
/// documented, and that an OFFSET out of range always goes to output 1; Click writes before the header there.
#[derive(Debug, Clone)]
struct StoreIpAddress {
    /// `None`: the destination annotation.
    addr: Option<Ipv4Addr>,
    to: From,
}

impl StoreIpAddress {
    /// Writes `a` into the IP header and mends the checksums; false without a header.
    fn store(p: &mut Packet, at: usize, a: [u8; 4]) -> bool {
        let transport_len = p.transport().map_or(0, <[u8]>::len);
        let Some(mut h) = ip4::header_mut(p) else {
            return false;
        };
        if h.header_len() < 20 {
            return false;
        }
        let old = if at == 12 { h.src() } else { h.dst() };
        match at {
            12 => h.set_src(a),
            _ => h.set_dst(a),
        }
        let fold = |a: [u8; 4]| checksum::fold(checksum::sum(&a, 0));
        let fix = |sum| checksum::update(sum, fold(old), fold(a));
        h.set_checksum(fix(h.checksum()));
        let field = match h.protocol() {
            proto::TCP if h.is_first_fragment() && transport_len >= 20 => 16,
            proto::UDP if h.is_first_fragment() && transport_len >= 8 => 6,
            _ => return true,
        };
        let udp = h.protocol() == proto::UDP;
        let place = p.transport_mut().and_then(|t| t.get_mut(field..field + 2));
        if let Some([hi, lo]) = place {
            let sum = u16::from_be_bytes([*hi, *lo]);
            if !udp || sum != 0 {
                [*hi, *lo] = fix(sum).to_be_bytes();
            }
        }
        true
    }
}

const NO_PLACE: DropReason = "StoreIPAddress: no place for an address";

impl Element for StoreIpAddress {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if args.len() > 1 {
            self.addr = args.mandatory("ADDR");
        }
        let scope = args.scope();
        if let Some(Word(w)) = args.mandatory("OFFSET") {
            self.to = match w.to_ascii_lowercase().as_str() {
                "src" => From::Source,
                "dst" => From::Destination,
                n => match i32::from_arg(n, &scope) {
                    Ok(n) if n >= 0 => From::Offset(n as usize),
                    _ => {
                        args.error(format!(
                            "OFFSET: expected 'src', 'dst' or a number, found '{w}'"
                        ));
                        From::Offset(0)
                    }
                },
            };
        }
        args.finish()
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let a = self.addr.map_or(p.anno.dst_ip(), |a| a.octets());
        let stored = match self.to {
            From::Source => Self::store(&mut p, 12, a),
            From::Destination => Self::store(&mut p, 16, a),
            From::Offset(o) => {
                let nothing = self.addr.is_none() && a == [0; 4];
                let has_ip = ip4::header(&p).is_some_and(|h| h.header_len() >= 20);
                match p.data_mut().get_mut(o..).and_then(|d| d.first_chunk_mut()) {
                    Some(_) if nothing => has_ip,
                    Some(d) => {
                        *d = a;
                        true
                    }
                    None => false,
                }
            }
        };
        match stored {
            true => cx.emit(0, p),
            false => cx.emit_or_drop(1, p, NO_PLACE),
        }
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let no_place = Exit::PortOrDrop(1, NO_PLACE);
        let anno = Read::Anno(address_key(anno_field::DST_IP.offset));
        let value = match self.addr {
            Some(a) => Value::Const(u32::from(a).into()),
            None => Value::Of(anno),
        };
        let is_zero = |r| Cond::In(r, ValueSet::one(0));
        let write = |field, fix| Op::Write { field, value, fix };
        let to = match self.to {
            From::Offset(o) if o <= MAX_OFFSET => {
                let short = Cond::less(Read::Len, o as u128 + 4);
                let mut cases = vec![Case::new(short, no_place.clone())];
                if self.addr.is_none() {
                    let zero = |c: Cond| is_zero(anno).and(c);
                    let [none, short] = ip4::unless_header(no_place.clone());
                    let ihl = ip4::unless_ihl(no_place);
                    for c in [none, short, ihl] {
                        cases.push(Case::new(zero(c.when), c.exit));
                    }
                    cases.push(Case::new(is_zero(anno), Exit::Port(0)));
                }
                let field = bytes(Base::Data, o as u16, 4);
                let op = write(field, Fix::Nothing);
                cases.push(Case::new(Cond::Always, Exit::Port(0)).with([op]));
                return Model::Cases(cases);
            }
            From::Offset(_) => return Model::None(TOO_FAR),
            From::Source => field::IP_SRC,
            From::Destination => field::IP_DST,
        };
        let mut cases = Vec::from(ip4::unless_header(no_place.clone()));
        cases.push(ip4::unless_ihl(no_place));
        cases.push(ip4::punt_options());
        // Sums of the words of 0.0.0.0 may be written differently from word by word.
        let zero = Exit::Punt("a zero address");
        match self.addr {
            Some(a) if a.is_unspecified() => cases.push(Case::new(Cond::Always, zero)),
            Some(_) => {}
            None => cases.push(Case::new(is_zero(anno), zero)),
        }
        for (protocol, len) in [(proto::TCP, 20), (proto::UDP, 8)] {
            let when = Cond::eq(field::IP_PROTO, protocol.into())
                .and(Cond::eq(field::IP_FRAGOFF, 0))
                .and(Cond::at_least(Read::TransportLen, len));
            let op = write(to, Fix::Both);
            cases.push(Case::new(when, Exit::Port(0)).with([op]));
        }
        let op = write(to, Fix::Ip4);
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with([op]));
        Model::Cases(cases)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::routing::testpkt::*;
    use crate::testing::Bench;
    use onefold_packet::{Packet, checksum};

    #[test]
    fn gets_from_offset_or_header() {
        let d = ip(A, B, 17, &[], &[1; 8]);
        for (config, want) in [("16", B), ("12", A), ("IP dst", B), ("IP src", A)] {
            let mut b = Bench::new("GetIPAddress", config, 1, 1).unwrap();
            let mut p = marked(&d);
            p.anno.set_dst_ip([9; 4]);
            assert_eq!(b.push_packet(0, p)[0].1.anno.dst_ip(), want, "{config}");
        }
        let mut b = Bench::new("GetIPAddress", "16, 20", 1, 1).unwrap();
        assert_eq!(b.push(0, &d)[0].1.anno.bytes()[20..24], B);
        assert!(b.push(0, &d[..19]).is_empty());
        assert!(b.push(0, &[]).is_empty());
        assert_eq!(b.drops()["GetIPAddress: packet too short"], 2);
        let mut b = Bench::new("GetIPAddress", "IP dst", 1, 1).unwrap();
        assert!(b.push(0, &d).is_empty(), "no header annotation");
        for bad in ["", "16, IP dst", "IP here", "-3", "16, PAINT", "16, 48"] {
            assert!(Bench::new("GetIPAddress", bad, 1, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn sets_a_fixed_address() {
        let mut b = Bench::new("SetIPAddress", "1.2.3.4", 1, 1).unwrap();
        assert_eq!(b.push(0, &[])[0].1.anno.dst_ip(), [1, 2, 3, 4]);
        b.write("addr", "5.6.7.8").unwrap();
        assert_eq!(b.read("addr").unwrap(), "5.6.7.8");
        assert_eq!(b.push(0, &[])[0].1.anno.dst_ip(), [5, 6, 7, 8]);
        assert!(b.write("addr", "x").is_err());
        let e = Bench::new("SetIPAddress", "x", 1, 1).err().unwrap();
        assert_eq!(e, ["IPADDR: expected an IPv4 address, found 'x'"]);
    }

    #[test]
    fn stores_at_an_offset_or_goes_to_output_1() {
        let mut b = Bench::new("StoreIPAddress", "1.2.3.4, 2", 1, 2).unwrap();
        let out = b.push(0, &[0; 6]);
        assert_eq!((out[0].0, out[0].1.data()), (0, &[0, 0, 1, 2, 3, 4][..]));
        assert_eq!(b.push(0, &[0; 5])[0].0, 1);
        let mut b = Bench::new("StoreIPAddress", "1", 1, 1).unwrap();
        let mut p = Box::new(Packet::from_slice(&[0; 6]));
        p.anno.set_dst_ip(A);
        assert_eq!(b.push_packet(0, p)[0].1.data(), [0, 10, 0, 0, 1, 0]);
        // a zero annotation stores nothing
        assert_eq!(b.push_packet(0, marked(&[0x45; 20]))[0].1.data()[1], 0x45);
        assert!(Bench::new("StoreIPAddress", "up", 1, 1).is_err());
        assert!(Bench::new("StoreIPAddress", "1.2.3.4, -1", 1, 1).is_err());
    }

    #[test]
    fn stores_into_the_header_and_mends_checksums() {
        let mut udp = vec![0, 1, 0, 2, 0, 12, 0, 0, 5, 6, 7, 8];
        let sum = !checksum::fold(checksum::sum(&udp, checksum::pseudo_v4(A, B, 17, 12)));
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let d = ip(A, B, 17, &[], &udp);
        let mut b = Bench::new("StoreIPAddress", "192.168.7.9, src", 1, 2).unwrap();
        let out = b.push_packet(0, marked(&d));
        let q = out[0].1.data();
        assert_eq!(q[12..16], [192, 168, 7, 9]);
        assert!(sound(q));
        let pseudo = checksum::pseudo_v4([192, 168, 7, 9], B, 17, 12);
        assert_eq!(checksum::fold(checksum::sum(&q[20..], pseudo)), 0xffff);
        // no UDP checksum stays none; later fragments are left alone
        let mut d2 = ip(A, B, 17, &[], &[0; 12]);
        assert_eq!(b.push_packet(0, marked(&d2))[0].1.data()[26..28], [0, 0]);
        d2[7] = 1;
        d2[26] = 5;
        fix(&mut d2);
        assert_eq!(b.push_packet(0, marked(&d2))[0].1.data()[26..28], [5, 0]);
        assert_eq!(b.push(0, &d)[0].0, 1, "no header annotation");
        for n in 0..d.len() {
            b.push_packet(0, marked(&d[..n]));
        }
    }
}
