//! Small filters: CheckLength, CheckPaint, PaintSwitch, HostEtherFilter.
//!
//! Source: Click's documentation of the elements; FastClick's `EXTRA_LENGTH` of CheckLength. HostEtherFilter drops
//! frames that end within their two addresses (Click reads behind their end).

use onefold_element::args::{Args, SizedAnno};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, is};
use onefold_element::model::{
    AnnoKey, Base, Case, Cond, Exit, Model, ModelCx, Op, Read, TypeOf, bits, bytes, max_of,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{EtherAddr, PacketType, Pkt, anno_field};

/// `CheckLength`.
pub const CHECK_LENGTH: ElementClass = ElementClass {
    name: "CheckLength",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "LENGTH [, keyword EXTRA_LENGTH]",
    summary: "sends packets longer than LENGTH to output 1, or drops them",
    new: || Box::new(CheckLength::default()),
};

/// `CheckPaint`.
pub const CHECK_PAINT: ElementClass = ElementClass {
    name: "CheckPaint",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "COLOR [, ANNO]",
    summary: "sends packets of another colour to output 1, or drops them",
    new: || Box::new(CheckPaint::default()),
};

/// `PaintSwitch`.
pub const PAINT_SWITCH: ElementClass = ElementClass {
    name: "PaintSwitch",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "[ANNO]",
    summary: "sends packets to the output of their colour's number, colour 255 to all",
    new: || Box::new(PaintSwitch::default()),
};

/// `HostEtherFilter`.
pub const HOST_ETHER_FILTER: ElementClass = ElementClass {
    name: "HostEtherFilter",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "ETHER [, DROP_OWN, DROP_OTHER, keyword OFFSET]",
    summary: "drops Ethernet frames for other machines, sets the packet type",
    new: || Box::new(HostEtherFilter::default()),
};

fn no_such(name: &str) -> HandlerError {
    HandlerError::NoSuchHandler(name.to_string())
}

#[derive(Debug, Clone, Default)]
struct CheckLength {
    max: u32,
    extra: bool,
}

impl Element for CheckLength {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let max = args.mandatory("LENGTH");
        let extra = args.keyword("EXTRA_LENGTH").unwrap_or(false);
        args.finish()?;
        (self.max, self.extra) = (max.unwrap_or(0), extra);
        Ok(())
    }
    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let mut len = p.len() as u64;
        if self.extra {
            len += u64::from(p.anno.u32(anno_field::EXTRA_LENGTH.offset.into()));
        }
        if len > u64::from(self.max) {
            cx.decide(Some(0), || format!("{len} bytes, more than {}", self.max));
            cx.emit_or_drop(1, p, "CheckLength: too long");
        } else {
            cx.emit(0, p);
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let long = Cond::at_least(Read::Len, u128::from(self.max) + 1);
        let refuse = Exit::PortOrDrop(1, "CheckLength: too long");
        let c = Cases::new().push(Case::new(long, refuse).from_arg(0));
        if !self.extra {
            return c.otherwise([], Exit::Port(0));
        }
        let extra = Read::Anno(anno_field::EXTRA_LENGTH.into());
        c.case(is(extra, 0), [], Exit::Port(0))
            .otherwise_punt("extra length noted")
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("length")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "length" => Ok(self.max.to_string()),
            _ => Err(no_such(name)),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "length" => self.max = cx.value(name, value)?,
            _ => return Err(no_such(name)),
        }
        Ok(())
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct CheckPaint {
    color: u8,
    anno: usize,
}

impl Default for CheckPaint {
    fn default() -> Self {
        CheckPaint {
            color: 0,
            anno: anno_field::PAINT.offset.into(),
        }
    }
}

/// An annotation argument of one byte, the paint annotation if left out.
fn paint_anno(args: &mut Args<'_>) -> usize {
    let a: Option<SizedAnno<1>> = args.optional("ANNO");
    a.map_or(anno_field::PAINT.offset, |a| a.0).into()
}

impl Element for CheckPaint {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let color = args.mandatory("COLOR");
        let anno = paint_anno(args);
        args.finish()?;
        (self.color, self.anno) = (color.unwrap_or(0), anno);
        Ok(())
    }
    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let color = p.anno.u8(self.anno);
        if color == self.color {
            cx.emit(0, p);
        } else {
            cx.decide(Some(0), || format!("colour {color}, not {}", self.color));
            cx.emit_or_drop(1, p, "CheckPaint: other colour");
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let refuse = Exit::PortOrDrop(1, "CheckPaint: other colour");
        Cases::new()
            .case(is(colour(self.anno), self.color.into()), [], Exit::Port(0))
            .push(Case::new(Cond::Always, refuse).from_arg(0))
            .done()
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("color")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "color" => Ok(self.color.to_string()),
            _ => Err(no_such(name)),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "color" => self.color = cx.value(name, value)?,
            _ => return Err(no_such(name)),
        }
        Ok(())
    }
    element_any!();
}

/// A one-byte annotation.
fn colour(at: usize) -> Read {
    Read::Anno(AnnoKey {
        offset: at as u8,
        size: 1,
    })
}

#[derive(Debug, Clone, Default)]
struct PaintSwitch {
    anno: usize,
}

impl Element for PaintSwitch {
    fn multiplies(&self) -> bool {
        true
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let anno = paint_anno(args);
        args.finish()?;
        self.anno = anno;
        Ok(())
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let color = p.anno.u8(self.anno);
        cx.decide(None, || format!("colour {color}"));
        if color != 255 {
            return cx.emit_or_drop(color.into(), p, "PaintSwitch: no such output");
        }
        let Some(last) = cx.noutputs.checked_sub(1) else {
            return cx.drop(p, "PaintSwitch: no such output");
        };
        for port in 0..last {
            let copy = cx.copy(&p);
            cx.emit(port, copy);
        }
        cx.emit(last, p);
    }
    fn model(&self, _: Port, cx: &ModelCx<'_>) -> Model {
        let mut c = Cases::new();
        let paint = colour(self.anno);
        // colour 255 is no output's
        for port in 0..cx.noutputs.min(255) {
            c = c.case(is(paint, port as u128), [], Exit::Port(port));
        }
        if cx.noutputs > 0 {
            c = c.case(is(paint, 255), [], Exit::Each((0..cx.noutputs).collect()));
        }
        c.otherwise([], Exit::Drop("PaintSwitch: no such output"))
    }
    element_any!();
}

#[derive(Debug, Clone, Default)]
struct HostEtherFilter {
    ether: EtherAddr,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

impl Element for HostEtherFilter {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let ether: Option<EtherAddr> = args.mandatory("ETHER");
        let drop_own = args.optional("DROP_OWN").unwrap_or(false);
        let drop_other = args.optional("DROP_OTHER").unwrap_or(true);
        let offset: u32 = args.keyword("OFFSET").unwrap_or(0);
        args.finish()?;
        *self = HostEtherFilter {
            ether: ether.unwrap_or_default(),
            drop_own,
            drop_other,
            offset: offset as usize,
        };
        Ok(())
    }
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let header = p
            .data()
            .get(self.offset..)
            .and_then(|b| b.first_chunk::<12>());
        let Some(h) = header else {
            return cx.drop(p, "HostEtherFilter: no Ethernet addresses");
        };
        let (dst, src) = (
            EtherAddr::from_slice(&h[..6]),
            EtherAddr::from_slice(&h[6..]),
        );
        let dst = dst.unwrap_or_default();
        if self.drop_own && src == Some(self.ether) {
            cx.decide(None, || "sent by this host".to_string());
            return cx.emit_or_drop(1, p, "HostEtherFilter: frame from this MAC address");
        }
        let kind = if dst == self.ether {
            PacketType::Host
        } else if dst.is_broadcast() {
            PacketType::Broadcast
        } else if dst.is_group() {
            PacketType::Multicast
        } else {
            PacketType::OtherHost
        };
        p.anno.packet_type = kind;
        if kind == PacketType::OtherHost && self.drop_other {
            cx.decide(None, || format!("for another host, {dst}"));
            return cx.emit_or_drop(1, p, "HostEtherFilter: frame for another MAC address");
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let Some(at) = u16::try_from(self.offset).ok().filter(|o| *o <= 8000) else {
            return Model::None("HostEtherFilter: OFFSET beyond every header");
        };
        const PASS: Exit = Exit::Port(0);
        let (dst, src) = (bytes(Base::Data, at, 6), bytes(Base::Data, at + 6, 6));
        let own = self
            .ether
            .0
            .iter()
            .fold(0u128, |v, b| v << 8 | u128::from(*b));
        let kind = |k| [Op::SetPacketType(TypeOf::Is(k))];
        let mut c = Cases::new().case(
            Cond::less(Read::Len, u128::from(at) + 12),
            [],
            Exit::Drop("HostEtherFilter: no Ethernet addresses"),
        );
        if self.drop_own {
            let refuse = Exit::PortOrDrop(1, "HostEtherFilter: frame from this MAC address");
            c = c.case(Cond::eq(src, own), [], refuse);
        }
        let all = max_of(48);
        c.case(Cond::eq(dst, own), kind(PacketType::Host), PASS)
            .case(Cond::eq(dst, all), kind(PacketType::Broadcast), PASS)
            .case(
                Cond::eq(bits(Base::Data, at * 8 + 7, 1), 1),
                kind(PacketType::Multicast),
                PASS,
            )
            .otherwise(
                kind(PacketType::OtherHost),
                match self.drop_other {
                    true => Exit::PortOrDrop(1, "HostEtherFilter: frame for another MAC address"),
                    false => PASS,
                },
            )
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("ether")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "ether" => Ok(self.ether.to_string()),
            _ => Err(no_such(name)),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "ether" => self.ether = cx.value(name, value)?,
            _ => return Err(no_such(name)),
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, PacketType};

    #[test]
    fn length() {
        let mut b = Bench::new("CheckLength", "10", 1, 2).unwrap();
        assert_eq!(b.push(0, &[0; 10])[0].0, 0);
        assert_eq!(b.push(0, &[0; 11])[0].0, 1);
        b.write("length", "11").unwrap();
        assert_eq!(b.push(0, &[0; 11])[0].0, 0);
        assert_eq!(b.read("length").unwrap(), "11");
        assert!(b.write("length", "x").is_err());
        let mut b = Bench::new("CheckLength", "10, EXTRA_LENGTH true", 1, 1).unwrap();
        let mut p = Box::new(Packet::from_slice(&[0; 10]));
        p.anno.set_u32(28, 1);
        assert!(b.push_packet(0, p).is_empty());
        assert_eq!(b.drops()["CheckLength: too long"], 1);
        let e = Bench::new("CheckLength", "ten", 1, 1).err().unwrap();
        assert_eq!(e, ["LENGTH: expected an unsigned number, found 'ten'"]);
    }

    #[test]
    fn paint() {
        let painted = |c| {
            let mut p = Box::new(Packet::from_slice(b"x"));
            p.anno.set_paint(c);
            p
        };
        let mut b = Bench::new("CheckPaint", "3", 1, 2).unwrap();
        assert_eq!(b.push_packet(0, painted(3))[0].0, 0);
        assert_eq!(b.push_packet(0, painted(4))[0].0, 1);
        b.write("color", "4").unwrap();
        assert_eq!(b.push_packet(0, painted(4))[0].0, 0);
        let mut b = Bench::new("CheckPaint", "0, 17", 1, 1).unwrap();
        assert_eq!(b.push_packet(0, painted(4))[0].0, 0);
        assert!(Bench::new("CheckPaint", "256", 1, 1).is_err());
        assert!(Bench::new("CheckPaint", "1, DST_IP", 1, 1).is_err());

        let mut b = Bench::new("PaintSwitch", "", 1, 3).unwrap();
        assert_eq!(b.push_packet(0, painted(2))[0].0, 2);
        assert!(b.push_packet(0, painted(3)).is_empty());
        let ports: Vec<usize> = b.push_packet(0, painted(255)).iter().map(|o| o.0).collect();
        assert_eq!(ports, [0, 1, 2]);
        let mut b = Bench::new("PaintSwitch", "", 1, 0).unwrap();
        assert!(b.push_packet(0, painted(255)).is_empty());
        assert_eq!(b.drops()["PaintSwitch: no such output"], 1);
    }

    #[test]
    fn host_ether_filter() {
        let frame = |dst: [u8; 6], src: [u8; 6]| [&dst[..], &src[..], &[8, 0, 1]].concat();
        let (me, other) = ([0, 1, 2, 3, 4, 5], [0, 9, 9, 9, 9, 9]);
        let mut b = Bench::new("HostEtherFilter", "00:01:02:03:04:05, true", 1, 2).unwrap();
        let run = |b: &mut Bench, dst, src| {
            let (port, p) = b.push(0, &frame(dst, src)).remove(0);
            (port, p.anno.packet_type)
        };
        assert_eq!(run(&mut b, me, other), (0, PacketType::Host));
        assert_eq!(run(&mut b, [255; 6], other), (0, PacketType::Broadcast));
        assert_eq!(
            run(&mut b, [1, 0, 0, 0, 0, 0], other),
            (0, PacketType::Multicast)
        );
        assert_eq!(run(&mut b, other, other), (1, PacketType::OtherHost));
        // sent by this host: the type stays as it was
        assert_eq!(run(&mut b, [255; 6], me), (1, PacketType::Host));
        assert!(b.push(0, &[0; 11]).is_empty());
        assert_eq!(b.drops()["HostEtherFilter: no Ethernet addresses"], 1);
        let mut b = Bench::new(
            "HostEtherFilter",
            "00:01:02:03:04:05, DROP_OTHER false",
            1,
            1,
        )
        .unwrap();
        assert_eq!(run(&mut b, other, me), (0, PacketType::OtherHost));
        assert_eq!(b.read("ether").unwrap(), "00-01-02-03-04-05");
        b.write("ether", "0:9:9:9:9:9").unwrap();
        assert_eq!(run(&mut b, other, me), (0, PacketType::Host));
        let mut b = Bench::new("HostEtherFilter", "00:01:02:03:04:05, OFFSET 2", 1, 1).unwrap();
        let f = [&[7, 7][..], &frame(me, other)].concat();
        assert_eq!(b.push(0, &f).len(), 1);
        assert!(Bench::new("HostEtherFilter", "", 1, 1).is_err());
    }
}
