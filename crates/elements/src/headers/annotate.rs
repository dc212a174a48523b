//! Annotations and single bytes: Paint, PaintTee, SetAnnoByte, SetPacketType, StoreData.
//!
//! StoreData takes FastClick's MASK and GROW too.

use super::one_to_one;
use onefold_element::args::{Args, Data, FromArg, SizedAnno, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, is};
use onefold_element::model::{
    AnnoKey, Base, Case, Cond, Exit, Model, ModelCx, Op, Read, TypeOf, Value, bits,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any, pass_while,
};
use onefold_packet::{PacketType, Pkt, Timestamp, anno_field};

const PAINT_AT: usize = anno_field::PAINT.offset as usize;

/// The place of a one-byte annotation.
fn byte_anno(at: usize) -> AnnoKey {
    AnnoKey {
        offset: at as u8,
        size: 1,
    }
}

/// A value for a one-byte annotation.
#[derive(Debug, Clone, Copy, Default)]
struct Colour {
    value: u8,
    /// Which byte.
    at: usize,
}

impl Colour {
    /// Reads COLOR and ANNO.
    fn configure(&mut self, args: &mut Args<'_>) {
        self.value = args.mandatory("COLOR").unwrap_or(0);
        self.at = args
            .optional("ANNO")
            .map_or(PAINT_AT, |a: SizedAnno<1>| a.0.into());
    }
    fn read(&self, name: &str) -> HandlerResult {
        match name {
            "color" => Ok(self.value.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "color" => self.value = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
}

const COLOR: &[HandlerInfo] = &[HandlerInfo::rw("color")];

/// `Paint`.
pub const PAINT: ElementClass = one_to_one(
    "Paint",
    Effect::Pure,
    "COLOR [, ANNO]",
    "sets the paint annotation",
    || Box::new(Paint::default()),
);

#[derive(Debug, Clone, Default)]
struct Paint {
    colour: Colour,
}

impl Element for Paint {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.colour.configure(args);
        args.finish()
    }
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.anno.set_u8(self.colour.at, self.colour.value);
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        pass_while(batch, |p| {
            p.anno.set_u8(e.colour.at, e.colour.value);
            true
        })
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([Op::SetAnno(
            byte_anno(self.colour.at),
            Value::Const(self.colour.value.into()),
        )])
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        COLOR
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        self.colour.read(name)
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.colour.write(name, value, cx)
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `PaintTee`.
pub const PAINT_TEE: ElementClass = ElementClass {
    ports: "1/2",
    processing: "a/ah",
    ..one_to_one(
        "PaintTee",
        Effect::Pure,
        "COLOR [, ANNO]",
        "sends a copy of packets of one colour to output 1",
        || Box::new(PaintTee::default()),
    )
};

#[derive(Debug, Clone, Default)]
struct PaintTee {
    colour: Colour,
}

impl Element for PaintTee {
    fn multiplies(&self) -> bool {
        true
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.colour.configure(args);
        args.finish()
    }
    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if p.anno.u8(self.colour.at) == self.colour.value {
            cx.decide(Some(0), || "copied to output 1".to_string());
            let copy = cx.copy(&p);
            cx.emit(1, copy);
        }
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        pass_while(batch, |p| p.anno.u8(e.colour.at) != e.colour.value)
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let painted = is(
            Read::Anno(byte_anno(self.colour.at)),
            self.colour.value.into(),
        );
        Cases::new()
            .push(Case::new(painted, Exit::Each(vec![1, 0])).from_arg(0))
            .otherwise([], Exit::Port(0))
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        COLOR
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        self.colour.read(name)
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.colour.write(name, value, cx)
    }
    element_any!();
}

/// `SetAnnoByte`, the old way to say `Paint(VALUE, ANNO)`.
pub const SET_ANNO_BYTE: ElementClass = one_to_one(
    "SetAnnoByte",
    Effect::Pure,
    "ANNO, VALUE",
    "sets an annotation byte (use Paint(VALUE, ANNO))",
    || Box::new(SetAnnoByte { at: 0, value: 0 }),
);

#[derive(Debug, Clone)]
struct SetAnnoByte {
    at: usize,
    value: u8,
}

impl Element for SetAnnoByte {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.at = args
            .mandatory("ANNO")
            .map_or(0, |a: SizedAnno<1>| a.0.into());
        self.value = args.mandatory("VALUE").unwrap_or(0);
        args.warning("SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead");
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.anno.set_u8(self.at, self.value);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([Op::SetAnno(
            byte_anno(self.at),
            Value::Const(self.value.into()),
        )])
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("anno"), HandlerInfo::rw("value")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "anno" => Ok(self.at.to_string()),
            "value" => Ok(self.value.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "value" => self.value = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `SetPacketType`.
pub const SET_PACKET_TYPE: ElementClass = one_to_one(
    "SetPacketType",
    Effect::Pure,
    "TYPE",
    "sets the packet type annotation",
    || {
        Box::new(SetPacketType {
            kind: PacketType::Host,
        })
    },
);

#[derive(Debug, Clone)]
struct SetPacketType {
    kind: PacketType,
}

/// A packet type by name.
struct TypeArg(PacketType);

impl FromArg for TypeArg {
    const WANTS: &'static str = "HOST, BROADCAST, MULTICAST, OTHERHOST, OUTGOING or LOOPBACK";
    fn from_arg(
        s: &str,
        scope: &onefold_element::args::ArgScope<'_>,
    ) -> Result<Self, Option<String>> {
        let Word(w) = Word::from_arg(s, scope)?;
        Ok(TypeArg(match w.to_ascii_uppercase().as_str() {
            "HOST" => PacketType::Host,
            "BROADCAST" => PacketType::Broadcast,
            "MULTICAST" => PacketType::Multicast,
            "OTHERHOST" => PacketType::OtherHost,
            "OUTGOING" => PacketType::Outgoing,
            "LOOPBACK" => PacketType::Loopback,
            _ => return Err(None),
        }))
    }
}

impl Element for SetPacketType {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(TypeArg(t)) = args.mandatory("TYPE") {
            self.kind = t;
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.anno.packet_type = self.kind;
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([Op::SetPacketType(TypeOf::Is(self.kind))])
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `StoreData`.
pub const STORE_DATA: ElementClass = one_to_one(
    "StoreData",
    Effect::Pure,
    "OFFSET, DATA [, MASK, keyword GROW]",
    "writes bytes into packets",
    || Box::new(StoreData::default()),
);

#[derive(Debug, Clone, Default)]
struct StoreData {
    offset: usize,
    data: Vec<u8>,
    /// Bits of the leading bytes that are written; empty: all.
    mask: Vec<u8>,
    /// Lengthen packets that end within the data.
    grow: bool,
}

impl StoreData {
    /// One write for every run of bits that the mask lets through.
    fn writes(&self) -> Vec<Op> {
        let mut ops = Vec::new();
        let bit = |of: u8, i: usize| of >> (7 - i % 8) & 1 == 1;
        let masked = |i: usize| bit(self.mask.get(i / 8).copied().unwrap_or(0xff), i);
        let (n, mut i) = (self.data.len() * 8, 0);
        while i < n {
            if !masked(i) {
                i += 1;
                continue;
            }
            let first = i;
            let mut v = 0u128;
            while i < n && i - first < 128 && masked(i) {
                v = v << 1 | u128::from(bit(self.data[i / 8], i));
                i += 1;
            }
            let at = (self.offset * 8 + first) as u16;
            let field = bits(Base::Data, at, (i - first) as u8);
            ops.push(onefold_element::model::build::set(field, v));
        }
        ops
    }
}

impl Element for StoreData {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let offset: Option<u32> = args.mandatory("OFFSET");
        self.offset = offset.unwrap_or(0) as usize;
        self.data = args.mandatory("DATA").map_or(Vec::new(), |d: Data| d.0);
        self.mask = args.optional("MASK").map_or(Vec::new(), |d: Data| d.0);
        self.grow = args.keyword("GROW").unwrap_or(false);
        if self.mask.len() > self.data.len() {
            args.error("MASK: must be no longer than DATA");
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        // a packet that ends before OFFSET is left alone, GROW or not
        if p.len() > self.offset {
            let end = self.offset.saturating_add(self.data.len());
            if self.grow && end > p.len() {
                p.put(end - p.len());
            }
            let into = p.data_mut().get_mut(self.offset..).unwrap_or(&mut []);
            for (i, (b, v)) in into.iter_mut().zip(&self.data).enumerate() {
                let m = self.mask.get(i).copied().unwrap_or(0xff);
                *b = *b & !m | v & m;
            }
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let end = self.offset.saturating_add(self.data.len());
        if end > 8000 {
            return Model::None("StoreData: data beyond every header");
        }
        let cases = Cases::new().case(
            Cond::less(Read::Len, self.offset as u128 + 1),
            [],
            Exit::Port(0),
        );
        cases
            .punt(
                Cond::less(Read::Len, end as u128),
                "packet ends within the data",
            )
            .otherwise(self.writes(), Exit::Port(0))
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::PacketType;

    #[test]
    fn paint_and_tee() {
        let mut b = Bench::new("Paint", "7", 1, 1).unwrap();
        let p = b.push(0, b"x").remove(0).1;
        assert_eq!(p.anno.paint(), 7);
        let mut t = Bench::new("PaintTee", "7", 1, 2).unwrap();
        let out = t.push_packet(0, p.clone());
        // the copy leaves first
        assert_eq!(out.iter().map(|o| o.0).collect::<Vec<_>>(), [1, 0]);
        t.write("color", "8").unwrap();
        assert_eq!(t.push_packet(0, p).len(), 1);
        assert_eq!(t.read("color").unwrap(), "8");
        let mut b = Bench::new("Paint", "1, 20", 1, 1).unwrap();
        assert_eq!(b.push(0, b"")[0].1.anno.u8(20), 1);
        b.write("color", "255").unwrap();
        assert!(b.write("color", "256").is_err());
        for (bad, names) in [
            ("256", "COLOR"),
            ("", "COLOR"),
            ("1, DST_IP", "ANNO"),
            ("1, 48", "ANNO"),
        ] {
            let e = Bench::new("Paint", bad, 1, 1).err().unwrap();
            assert!(e[0].starts_with(names), "{bad}: {e:?}");
        }
    }

    #[test]
    fn packet_type() {
        let mut b = Bench::new("SetPacketType", "multicast", 1, 1).unwrap();
        assert_eq!(b.push(0, b"")[0].1.anno.packet_type, PacketType::Multicast);
        let e = Bench::new("SetPacketType", "x", 1, 1).err().unwrap();
        assert!(e[0].starts_with("TYPE: expected HOST, BROADCAST"), "{e:?}");
    }

    #[test]
    fn set_anno_byte_warns() {
        let mut b = Bench::new("SetAnnoByte", "17, 3", 1, 1).unwrap();
        assert!(b.warnings[0].contains("obsolete"));
        assert_eq!(b.push(0, b"")[0].1.anno.u8(17), 3);
        b.write("value", "4").unwrap();
        assert_eq!(b.push(0, b"")[0].1.anno.u8(17), 4);
        assert_eq!(b.read("anno").unwrap(), "17");
    }

    #[test]
    fn store_data() {
        let mut b = Bench::new("StoreData", "2, \\<0102ff>", 1, 1).unwrap();
        assert_eq!(b.push(0, &[9; 6])[0].1.data(), [9, 9, 1, 2, 255, 9]);
        assert_eq!(b.push(0, &[9; 3])[0].1.data(), [9, 9, 1]);
        assert_eq!(b.push(0, &[9; 2])[0].1.data(), [9, 9]);
        let mut b = Bench::new("StoreData", "1, \"abc\", \\<0f>, GROW true", 1, 1).unwrap();
        assert_eq!(b.push(0, &[0xf0; 2])[0].1.data(), [0xf0, 0xf1, b'b', b'c']);
        assert!(Bench::new("StoreData", "1, a, bcd", 1, 1).is_err());
        assert!(Bench::new("StoreData", "1", 1, 1).is_err());
    }
}
