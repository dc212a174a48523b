//! Ethernet headers that are there already: EtherRewrite, EtherMirror, EnsureEther, StoreEtherAddress.
//!
//! Different from Click: frames too short for what is written are dropped (Click writes past their end); without a MAC
//! header annotation EtherRewrite takes the start of the data (Click writes through a null pointer).

use super::{one_to_one, pull_message, with_refusals};
use onefold_element::args::{Args, FromArg, SizedAnno, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{
    Cases, at_start, before_start, copy, is, no_net, set_bytes, set_ether,
};
use onefold_element::model::{
    AT_ZERO, AnnoKey, Base, Cond, Exit, Fix, Model, ModelCx, Op, Read, Value, ValueSet, bytes,
    field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any, pass_while,
};
use onefold_packet::wire::ethernet::ethertype;
use onefold_packet::{EtherAddr, Pkt, Timestamp};

/// `EtherRewrite`.
pub const ETHER_REWRITE: ElementClass = one_to_one(
    "EtherRewrite",
    Effect::Pure,
    "SRC, DST",
    "sets Ethernet source and destination addresses",
    || Box::new(EtherRewrite::default()),
);

#[derive(Debug, Clone, Default)]
struct EtherRewrite {
    src: EtherAddr,
    dst: EtherAddr,
}

impl Element for EtherRewrite {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.src = args.mandatory("SRC").unwrap_or_default();
        self.dst = args.mandatory("DST").unwrap_or_default();
        args.finish()
    }
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if p.mac_header_offset().is_none() {
            p.set_mac_header(0);
        }
        match p.mac_mut().and_then(|m| m.first_chunk_mut::<12>()) {
            Some(h) => {
                h[..6].copy_from_slice(&self.dst.0);
                h[6..].copy_from_slice(&self.src.0);
                cx.emit(0, p);
            }
            None => cx.drop(p, "EtherRewrite: short frame"),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let write = set_ether(self.dst.0, self.src.0);
        let unmarked = is(Read::HasMac, 0);
        Cases::new()
            .punt(
                is(Read::HasMac, 1).and(Cond::In(
                    Read::At(Base::Mac),
                    ValueSet::one(AT_ZERO).complement(16),
                )),
                "MAC header not at the start",
            )
            .case(
                Cond::less(Read::Len, 12),
                [],
                Exit::Drop("EtherRewrite: short frame"),
            )
            .case(
                unmarked,
                [Op::SetMac { at: 0 }].into_iter().chain(write),
                Exit::Port(0),
            )
            .otherwise(write, Exit::Port(0))
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("src").sets(0, "SRC"),
            HandlerInfo::rw("dst").sets(1, "DST"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "src" => Ok(self.src.to_string()),
            "dst" => Ok(self.dst.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "src" => self.src = cx.value(name, value)?,
            "dst" => self.dst = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `EtherMirror`.
pub const ETHER_MIRROR: ElementClass = one_to_one(
    "EtherMirror",
    Effect::Pure,
    "",
    "swaps Ethernet source and destination addresses",
    || Box::new(EtherMirror),
);

#[derive(Debug, Clone)]
struct EtherMirror;

impl Element for EtherMirror {
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match p.data_mut().first_chunk_mut::<12>() {
            Some(h) => {
                let (dst, src) = h.split_at_mut(6);
                dst.swap_with_slice(src);
                cx.emit(0, p);
            }
            None => cx.drop(p, "EtherMirror: short frame"),
        }
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        pass_while(batch, |p| match p.data_mut().first_chunk_mut::<12>() {
            Some(h) => {
                let (dst, src) = h.split_at_mut(6);
                dst.swap_with_slice(src);
                true
            }
            None => false,
        })
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Cases::new()
            .case(
                Cond::less(Read::Len, 12),
                [],
                Exit::Drop("EtherMirror: short frame"),
            )
            .otherwise(
                [
                    copy(field::ETH_DST, field::ETH_SRC),
                    copy(field::ETH_SRC, field::ETH_DST),
                ],
                Exit::Port(0),
            )
    }
    element_any!();
}

/// `EnsureEther`.
pub const ENSURE_ETHER: ElementClass = one_to_one(
    "EnsureEther",
    Effect::Pure,
    "[ETHERTYPE, SRC, DST]",
    "puts an Ethernet header before IP packets that have none",
    || Box::new(EnsureEther { header: [0; 14] }),
);

#[derive(Debug, Clone)]
struct EnsureEther {
    header: [u8; 14],
}

/// Do these bytes end with the Ethernet type of IPv4 or IPv6?
fn ip_ethertype(h: &[u8]) -> bool {
    h.last_chunk::<2>()
        .is_some_and(|t| [ethertype::IPV4, ethertype::IPV6].contains(&u16::from_be_bytes(*t)))
}

impl Element for EnsureEther {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let t: u16 = args.optional("ETHERTYPE").unwrap_or(ethertype::IPV4);
        let src = args.optional("SRC").unwrap_or(EtherAddr([1; 6]));
        let dst = args.optional("DST").unwrap_or(EtherAddr([2; 6]));
        self.header = ether_header(t, src, dst);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let offset = match p.network_header_offset() {
            Some(o) if o >= 0 => o as usize,
            _ => return cx.emit(0, p),
        };
        if offset == 14 && p.data().get(..14).is_some_and(ip_ethertype) {
            return cx.emit(0, p);
        }
        if offset == 0 && p.headroom() >= 14 && ip_ethertype(p.headroom_bytes()) {
            p.push(14);
            return cx.emit(0, p);
        }
        if offset > p.len() {
            cx.chatter(&pull_message(offset as i32, p.len()));
        }
        p.pull(offset);
        p.push(14);
        if let Some(h) = p.data_mut().first_chunk_mut() {
            *h = self.header;
        }
        cx.emit(0, p);
    }
    /// What stands before a packet that begins with its network header is not seen by models.
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const PASS: Exit = Exit::Port(0);
        let ip = ValueSet::from_intervals(
            [ethertype::IPV4, ethertype::IPV6].map(|t| (u128::from(t), u128::from(t))),
        );
        let whole = Cond::All(vec![
            is(Read::At(Base::Net), AT_ZERO + 14),
            Cond::at_least(Read::Len, 14),
            Cond::In(Read::Field(field::ETH_TYPE), ip),
        ]);
        let header = set_bytes(Base::Data, 0, &self.header);
        Cases::new()
            .case(no_net(), [], PASS)
            .case(before_start(Base::Net), [], PASS)
            .case(whole, [], PASS)
            .punt(at_start(Base::Net), "what stood before the packet")
            .punt(Cond::less(Read::NetLen, 1), "no byte of a network header")
            .otherwise(
                [Op::StartAt(Base::Net), Op::Push(14)]
                    .into_iter()
                    .chain(header),
                PASS,
            )
    }
    element_any!();
}

/// An Ethernet header's bytes.
pub fn ether_header(ethertype: u16, src: EtherAddr, dst: EtherAddr) -> [u8; 14] {
    let mut h = [0; 14];
    h[..6].copy_from_slice(&dst.0);
    h[6..12].copy_from_slice(&src.0);
    h[12..].copy_from_slice(&ethertype.to_be_bytes());
    h
}

/// `StoreEtherAddress`.
pub const STORE_ETHER_ADDRESS: ElementClass = with_refusals(
    "StoreEtherAddress",
    Effect::Pure,
    "ADDR, OFFSET (src, dst or a number) [, keyword ANNO instead of ADDR]",
    "writes an Ethernet address into packets",
    || Box::new(StoreEtherAddress::default()),
);

#[derive(Debug, Clone, Default)]
struct StoreEtherAddress {
    addr: EtherAddr,
    /// Take the address from the annotation at this byte instead.
    anno: Option<usize>,
    offset: usize,
}

impl Element for StoreEtherAddress {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let addr: Option<EtherAddr> = args.optional("ADDR");
        let offset: Option<Word> = args.mandatory("OFFSET");
        let anno: Option<SizedAnno<6>> = args.keyword("ANNO");
        if args.ok() && addr.is_some() == anno.is_some() {
            args.error("must specify exactly one of ADDR and ANNO");
        }
        self.addr = addr.unwrap_or_default();
        self.anno = anno.map(|a| a.0.into());
        if let Some(Word(w)) = offset {
            self.offset = match w.to_ascii_lowercase().as_str() {
                "src" => 6,
                "dst" => 0,
                n => match u32::from_arg(n, &args.scope()) {
                    Ok(v) => v as usize,
                    Err(_) => {
                        args.error(format!(
                            "OFFSET: expected 'src', 'dst' or a number, found '{w}'"
                        ));
                        0
                    }
                },
            };
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let addr = match self.anno {
            Some(a) => p
                .anno
                .bytes()
                .get(a..)
                .and_then(EtherAddr::from_slice)
                .unwrap_or_default(),
            None => self.addr,
        };
        let end = self.offset.saturating_add(6);
        match p.data_mut().get_mut(self.offset..end) {
            Some(d) => {
                d.copy_from_slice(&addr.0);
                cx.emit(0, p);
            }
            None => {
                cx.decide(None, || "packet too short".to_string());
                cx.emit_or_drop(1, p, "StoreEtherAddress: packet too short");
            }
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let Some(at) = u16::try_from(self.offset).ok().filter(|o| *o <= 8000) else {
            return Model::None("StoreEtherAddress: OFFSET beyond every header");
        };
        let from = |i: usize, size: u8| {
            let offset = (self.anno.unwrap_or(0) + i) as u8;
            Value::Of(Read::Anno(AnnoKey { offset, size }))
        };
        let write = |i: u16, n: u8, value| Op::Write {
            field: bytes(Base::Data, at + i, n),
            value,
            fix: Fix::Nothing,
        };
        let ops = match self.anno {
            Some(a) if a + 6 > 48 => return Model::None("StoreEtherAddress: no such annotation"),
            Some(_) => vec![write(0, 4, from(0, 4)), write(4, 2, from(4, 2))],
            None => set_bytes(Base::Data, at, &self.addr.0).collect(),
        };
        Cases::new()
            .case(
                Cond::less(Read::Len, u128::from(at) + 6),
                [],
                Exit::PortOrDrop(1, "StoreEtherAddress: packet too short"),
            )
            .otherwise(ops, Exit::Port(0))
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
            "addr" => self.addr = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Packet;

    fn frame() -> Vec<u8> {
        (0..20).collect()
    }

    #[test]
    fn rewrite() {
        let mut b = Bench::new("EtherRewrite", "1:1:1:1:1:1, 2:2:2:2:2:2", 1, 1).unwrap();
        let want = [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 12, 13];
        assert_eq!(b.push(0, &frame())[0].1.data()[..14], want);
        // with the MAC header before the data
        let mut p = Packet::from_slice(&frame());
        p.set_mac_header(0);
        p.pull(14);
        let mut p = b.push_packet(0, Box::new(p)).remove(0).1;
        p.push(14);
        assert_eq!(p.data()[..14], want);
        assert!(b.push(0, &[0; 11]).is_empty());
        assert_eq!(b.drops()["EtherRewrite: short frame"], 1);
        b.write("src", "3:3:3:3:3:3").unwrap();
        assert_eq!(b.read("src").unwrap(), "03-03-03-03-03-03");
        assert_eq!(b.read("dst").unwrap(), "02-02-02-02-02-02");
        assert!(b.write("dst", "x").is_err());
        let e = Bench::new("EtherRewrite", "1:1:1:1:1:1", 1, 1)
            .err()
            .unwrap();
        assert_eq!(
            e,
            ["DST: required argument missing; expected an Ethernet address"]
        );
    }

    #[test]
    fn mirror() {
        let mut b = Bench::new("EtherMirror", "", 1, 1).unwrap();
        let p = b.push(0, &frame()).remove(0).1;
        assert_eq!(p.data()[..13], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12]);
        assert!(b.push(0, &[1]).is_empty());
    }

    #[test]
    fn ensure_ether_cases() {
        let mut b = Bench::new("EnsureEther", "", 1, 1).unwrap();
        // not IP: unchanged
        assert_eq!(b.push(0, &frame())[0].1.data(), &frame()[..]);
        let mut d = frame();
        d[12..14].copy_from_slice(&[8, 0]);
        let mut p = Packet::from_slice(&d);
        p.set_network_header(14, 20);
        // has one
        assert_eq!(b.push_packet(0, Box::new(p.clone()))[0].1.data(), &d[..]);
        // had one
        p.pull(14);
        assert_eq!(b.push_packet(0, Box::new(p))[0].1.data(), &d[..]);
        // has something else before IP, or nothing
        let ours = [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 8, 0, 14];
        let mut p = Packet::from_slice(&frame());
        p.set_network_header(14, 20);
        assert_eq!(b.push_packet(0, Box::new(p))[0].1.data()[..15], ours);
        let mut p = Packet::from_slice(&frame()[14..]);
        p.set_network_header(0, 20);
        assert_eq!(b.push_packet(0, Box::new(p))[0].1.data()[..15], ours);
        assert!(Bench::new("EnsureEther", "70000", 1, 1).is_err());
    }

    #[test]
    fn store_address() {
        let mut b = Bench::new("StoreEtherAddress", "9:9:9:9:9:9, SRC", 1, 2).unwrap();
        let (port, p) = b.push(0, &frame()).remove(0);
        assert_eq!(
            (port, &p.data()[5..13]),
            (0, &[5, 9, 9, 9, 9, 9, 9, 12][..])
        );
        assert_eq!(b.push(0, &[0; 11])[0].0, 1);
        let mut b = Bench::new("StoreEtherAddress", "OFFSET 14, ANNO 40", 1, 1).unwrap();
        let mut p = Packet::from_slice(&frame());
        p.anno.bytes_mut()[40..46].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        let p = b.push_packet(0, Box::new(p)).remove(0).1;
        assert_eq!(p.data()[14..], [1, 2, 3, 4, 5, 6]);
        b.write("addr", "1:2:3:4:5:6").unwrap();
        assert_eq!(b.read("addr").unwrap(), "01-02-03-04-05-06");
        for bad in [
            "1:1:1:1:1:1",
            "OFFSET 3",
            "1:1:1:1:1:1, x",
            "1:1:1:1:1:1, 3, ANNO 4",
            "OFFSET 1, ANNO 44",
        ] {
            assert!(Bench::new("StoreEtherAddress", bad, 1, 1).is_err(), "{bad}");
        }
    }
}
