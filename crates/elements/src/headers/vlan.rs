//! VLAN tags on Ethernet frames (IEEE 802.1Q): VLANEncap, VLANDecap, SetVLANAnno.
//!
//! Different from Click: frames too short for the addresses (VLANEncap) are dropped, where Click writes past their end,
//! and frames without a whole tag are passed as untagged (VLANDecap); VLANEncap sets the network header annotation
//! behind the tagged header (Click: 8 bytes into it); a MAC header annotation that is not at the start of the data is
//! moved there (Click stops).

use super::arg::Bounded;
use super::one_to_one;
use onefold_element::args::{Args, FromArg, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, copy, set};
use onefold_element::model::{
    Base, Cond, Exit, FieldRef, Fix, Model, ModelCx, Op, Read, Value, ValueSet, bytes, field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::anno_field::VLAN_TCI as TCI;
use onefold_packet::wire::ethernet::ethertype;
use onefold_packet::{Packet, Pkt};

/// The tag control information of a frame with one tag.
const VLAN_TCI: FieldRef = bytes(Base::Data, 14, 2);

/// A tag control information: given, or taken from the packet's VLAN annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tci {
    /// This one.
    Fixed(u16),
    /// The packet's.
    Anno,
}

impl Default for Tci {
    fn default() -> Self {
        Tci::Fixed(0)
    }
}

/// Which tag to write, and which VLAN goes untagged.
#[derive(Debug, Clone, Default)]
pub struct Tagging {
    /// The tag.
    pub tci: Tci,
    /// Frames of this VLAN are not tagged.
    pub native: Option<u16>,
}

impl Tagging {
    /// Reads VLAN_TCI, VLAN_PCP, VLAN_ID and NATIVE_VLAN.
    pub fn configure(&mut self, args: &mut Args<'_>) {
        let word: Option<Word> = args.optional("VLAN_TCI");
        let pcp: Option<Bounded<0, 7>> = args.optional("VLAN_PCP");
        let id: Option<Bounded<0, 0xfff>> = args.keyword("VLAN_ID");
        let native: Option<Bounded<-1, 0xfff>> = args.keyword("NATIVE_VLAN");
        let mut tci = id.map_or(0, |v| v.0 as u16);
        match word {
            Some(Word(w)) if w == "ANNO" => self.tci = Tci::Anno,
            other => {
                if let Some(Word(w)) = other {
                    match Bounded::<0, 0xffff>::from_arg(&w, &args.scope()) {
                        Ok(v) => tci = v.0 as u16,
                        Err(why) => args.error(format!("VLAN_TCI: {}", why.unwrap_or_default())),
                    }
                }
                self.tci = Tci::Fixed(tci | (pcp.map_or(0, |v| v.0 as u16) << 13));
            }
        }
        self.native = u16::try_from(native.map_or(0, |v| v.0)).ok();
    }

    /// The tag for this packet; `None` if it belongs to the native VLAN.
    #[inline]
    pub fn tag(&self, p: &Packet) -> Option<u16> {
        let tci = match self.tci {
            Tci::Fixed(t) => t,
            Tci::Anno => p.anno.vlan_tci(),
        };
        (Some(tci & 0xfff) != self.native).then_some(tci)
    }

    /// When a packet belongs to the native VLAN; `None`: never.
    pub fn native_case(&self) -> Option<Cond> {
        let native = self.native?;
        match self.tci {
            Tci::Fixed(t) => (t & 0xfff == native).then_some(Cond::Always),
            Tci::Anno => {
                // whatever the priority
                let set = ValueSet::masked(0xfff, native.into(), 16, 16)?;
                Some(Cond::In(Read::Anno(TCI.into()), set))
            }
        }
    }

    /// Writes the tag control information behind the Ethernet type of a tagged frame.
    pub fn write_tci(&self) -> Op {
        let value = match self.tci {
            Tci::Fixed(t) => Value::Const(t.into()),
            Tci::Anno => Value::Of(Read::Anno(TCI.into())),
        };
        let (field, fix) = (VLAN_TCI, Fix::Nothing);
        Op::Write { field, value, fix }
    }

    /// `vlan_tci`, `vlan_id`, `vlan_pcp`, `native_vlan`.
    pub fn read(&self, name: &str) -> Option<String> {
        Some(match (name, self.tci) {
            ("vlan_tci", Tci::Anno) => "ANNO".to_string(),
            ("vlan_tci", Tci::Fixed(t)) => t.to_string(),
            ("vlan_id" | "vlan_pcp", Tci::Anno) => String::new(),
            ("vlan_id", Tci::Fixed(t)) => (t & 0xfff).to_string(),
            ("vlan_pcp", Tci::Fixed(t)) => (t >> 13).to_string(),
            ("native_vlan", _) => match self.native {
                Some(0) => String::new(),
                // as Click unparses -1
                n => n.unwrap_or(0xffff).to_string(),
            },
            _ => return None,
        })
    }

    /// Writes one of them; false if there is none of this name.
    pub fn write(&mut self, name: &str, value: &str, cx: &Cx<'_>) -> Result<bool, HandlerError> {
        let old = match self.tci {
            Tci::Fixed(t) => t,
            Tci::Anno => 0,
        };
        match name {
            "vlan_tci" if value.trim() == "ANNO" => self.tci = Tci::Anno,
            "vlan_tci" => self.tci = Tci::Fixed(cx.value(name, value)?),
            "vlan_id" => {
                let v: Bounded<0, 0xfff> = cx.value(name, value)?;
                self.tci = Tci::Fixed(old & 0xf000 | v.0 as u16);
            }
            "vlan_pcp" => {
                let v: Bounded<0, 7> = cx.value(name, value)?;
                self.tci = Tci::Fixed(old & 0x1fff | (v.0 as u16) << 13);
            }
            "native_vlan" => {
                let v: Bounded<-1, 0xfff> = cx.value(name, value)?;
                self.native = u16::try_from(v.0).ok();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `VLANEncap`.
pub const VLAN_ENCAP: ElementClass = one_to_one(
    "VLANEncap",
    Effect::Pure,
    "[VLAN_TCI (a number or ANNO), VLAN_PCP, keywords VLAN_ID, NATIVE_VLAN, ETHERTYPE]",
    "adds a VLAN tag to Ethernet frames",
    || {
        Box::new(VlanEncap {
            tagging: Tagging::default(),
            ethertype: ethertype::VLAN,
        })
    },
);

#[derive(Debug, Clone)]
struct VlanEncap {
    tagging: Tagging,
    ethertype: u16,
}

impl Element for VlanEncap {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.tagging.configure(args);
        self.ethertype = args.keyword("ETHERTYPE").unwrap_or(ethertype::VLAN);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some(tci) = self.tagging.tag(&p) else {
            p.set_mac_header_len(0, 14);
            return cx.emit(0, p);
        };
        if p.len() < 12 {
            return cx.drop(p, "VLANEncap: short frame");
        }
        p.push(4);
        let d = p.data_mut();
        d.copy_within(4..16, 0);
        d[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
        d[14..16].copy_from_slice(&tci.to_be_bytes());
        p.set_mac_header_len(0, 18);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        const PASS: Exit = Exit::Port(0);
        let mut tagged = vec![
            Op::Push(4),
            copy(field::ETH_DST, field::ETH_DST),
            copy(field::ETH_SRC, field::ETH_SRC),
            set(field::ETH_TYPE, self.ethertype.into()),
        ];
        tagged.extend([
            self.tagging.write_tci(),
            Op::SetMac { at: 0 },
            Op::MoveNet { at: 18 },
        ]);
        let mut c = Cases::new();
        if let Some(native) = self.tagging.native_case() {
            c = c.case(native, [Op::SetMac { at: 0 }, Op::MoveNet { at: 14 }], PASS);
        }
        c.case(
            Cond::less(Read::Len, 12),
            [],
            Exit::Drop("VLANEncap: short frame"),
        )
        .otherwise(tagged, PASS)
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("vlan_tci"),
            HandlerInfo::rw("vlan_id"),
            HandlerInfo::rw("vlan_pcp"),
            HandlerInfo::rw("native_vlan"),
            HandlerInfo::rw("ethertype"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "ethertype" => Ok(self.ethertype.to_string()),
            _ => self
                .tagging
                .read(name)
                .ok_or_else(|| HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name == "ethertype" {
            self.ethertype = cx.value(name, value)?;
        } else if !self.tagging.write(name, value, cx)? {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        Ok(())
    }
    element_any!();
}

/// `VLANDecap`.
pub const VLAN_DECAP: ElementClass = one_to_one(
    "VLANDecap",
    Effect::Pure,
    "[ANNO, keyword ETHERTYPE]",
    "removes the VLAN tag from Ethernet frames and notes it",
    || {
        Box::new(VlanDecap {
            note: true,
            ethertype: ethertype::VLAN,
        })
    },
);

#[derive(Debug, Clone)]
struct VlanDecap {
    /// Set the VLAN annotation (to 0 for untagged frames).
    note: bool,
    ethertype: u16,
}

impl Element for VlanDecap {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.note = args.optional("ANNO").unwrap_or(true);
        self.ethertype = args.keyword("ETHERTYPE").unwrap_or(ethertype::VLAN);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let tci = match p.data().first_chunk::<16>() {
            Some(h) if h[12..14] == self.ethertype.to_be_bytes() => {
                let tci = u16::from_be_bytes([h[14], h[15]]);
                p.data_mut().copy_within(0..12, 4);
                p.pull(4);
                tci
            }
            _ => 0,
        };
        p.set_mac_header_len(0, 14);
        if self.note {
            p.anno.set_vlan_tci(tci);
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let note = |v| self.note.then_some(Op::SetAnno(TCI.into(), v));
        let marks = [Op::SetMac { at: 0 }, Op::MoveNet { at: 14 }];
        let tag = Cond::eq(field::ETH_TYPE, self.ethertype.into());
        let tagged = [
            Op::Pull(4),
            copy(field::ETH_DST, field::ETH_DST),
            copy(field::ETH_SRC, field::ETH_SRC),
        ];
        Cases::new()
            .case(
                Cond::at_least(Read::Len, 16).and(tag),
                tagged
                    .into_iter()
                    .chain(marks)
                    .chain(note(Value::Of(Read::Field(VLAN_TCI)))),
                Exit::Port(0),
            )
            .otherwise(
                marks.into_iter().chain(note(Value::Const(0))),
                Exit::Port(0),
            )
    }
    element_any!();
}

/// `SetVLANAnno`.
pub const SET_VLAN_ANNO: ElementClass = one_to_one(
    "SetVLANAnno",
    Effect::Pure,
    "[VLAN_TCI, VLAN_PCP, keyword VLAN_ID]",
    "sets the VLAN annotation",
    || Box::new(SetVlanAnno { tci: 0 }),
);
/// `SetVlanAnno`, its old name.
pub const SET_VLAN_ANNO_OLD: ElementClass = ElementClass {
    name: "SetVlanAnno",
    ..SET_VLAN_ANNO
};

#[derive(Debug, Clone)]
struct SetVlanAnno {
    tci: u16,
}

impl Element for SetVlanAnno {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let tci: Option<u16> = args.optional("VLAN_TCI");
        let pcp: Option<Bounded<0, 7>> = args.optional("VLAN_PCP");
        let id: Option<Bounded<0, 0xfff>> = args.keyword("VLAN_ID");
        self.tci =
            tci.unwrap_or(id.map_or(0, |v| v.0 as u16)) | (pcp.map_or(0, |v| v.0 as u16) << 13);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.anno.set_vlan_tci(self.tci);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([Op::SetAnno(TCI.into(), Value::Const(self.tci.into()))])
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("vlan_tci"),
            HandlerInfo::rw("vlan_id"),
            HandlerInfo::rw("vlan_pcp"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        let t = Tagging {
            tci: Tci::Fixed(self.tci),
            native: None,
        };
        t.read(name)
            .filter(|_| name != "native_vlan")
            .ok_or_else(|| HandlerError::NoSuchHandler(name.to_string()))
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let mut t = Tagging {
            tci: Tci::Fixed(self.tci),
            native: None,
        };
        if name == "native_vlan" || !t.write(name, value, cx)? {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        match t.tci {
            Tci::Fixed(v) => self.tci = v,
            Tci::Anno => return Err(HandlerError::BadValue(format!("{name}: expected a number"))),
        }
        Ok(())
    }
    fn can_live_reconfigure(&self) -> bool {
        true
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
    fn encap_and_decap() {
        let mut e = Bench::new("VLANEncap", "5, 3", 1, 1).unwrap();
        let p = e.push(0, &frame()).remove(0).1;
        let mut want = frame();
        want.splice(12..12, [0x81, 0, 0x60, 5]);
        assert_eq!(p.data(), &want[..]);
        assert_eq!(p.network_header_offset(), Some(18));
        let mut d = Bench::new("VLANDecap", "", 1, 1).unwrap();
        let p = d.push_packet(0, p).remove(0).1;
        assert_eq!((p.data(), p.anno.vlan_tci()), (&frame()[..], 0x6005));
        assert_eq!(
            (p.mac_header_offset(), p.network_header_offset()),
            (Some(0), Some(14))
        );
        // untagged: the annotation is cleared
        let p = d.push_packet(0, p).remove(0).1;
        assert_eq!((p.data(), p.anno.vlan_tci()), (&frame()[..], 0));
        assert_eq!(d.push(0, &[1, 2])[0].1.data(), [1, 2]);
        assert!(e.push(0, &[0; 11]).is_empty());
        assert_eq!(e.drops()["VLANEncap: short frame"], 1);
    }

    #[test]
    fn native_vlan_and_annotation() {
        let mut e = Bench::new("VLANEncap", "ANNO, NATIVE_VLAN 7, ETHERTYPE 0x88a8", 1, 1).unwrap();
        let mut p = Packet::from_slice(&frame());
        p.anno.set_vlan_tci(0x2007);
        assert_eq!(e.push_packet(0, Box::new(p.clone()))[0].1.len(), 20);
        p.anno.set_vlan_tci(0x2008);
        let q = e.push_packet(0, Box::new(p)).remove(0).1;
        assert_eq!(q.data()[12..16], [0x88, 0xa8, 0x20, 8]);
        assert_eq!(e.read("vlan_tci").unwrap(), "ANNO");
        assert_eq!(e.read("native_vlan").unwrap(), "7");
        let mut d = Bench::new("VLANDecap", "ANNO false, ETHERTYPE 0x88a8", 1, 1).unwrap();
        let q = d.push_packet(0, q).remove(0).1;
        assert_eq!((q.len(), q.anno.vlan_tci()), (20, 0x2008));
        // tag 0 goes untagged unless there is no native VLAN
        let mut e = Bench::new("VLANEncap", "", 1, 1).unwrap();
        assert_eq!(e.push(0, &frame())[0].1.len(), 20);
        let mut e = Bench::new("VLANEncap", "NATIVE_VLAN -1", 1, 1).unwrap();
        assert_eq!(e.push(0, &frame())[0].1.len(), 24);
        assert_eq!(e.read("native_vlan").unwrap(), "65535");
    }

    #[test]
    fn handlers_and_errors() {
        let mut e = Bench::new("VLANEncap", "VLAN_ID 9, VLAN_PCP 1", 1, 1).unwrap();
        assert_eq!(e.read("vlan_tci").unwrap(), (0x2009).to_string());
        e.write("vlan_pcp", "7").unwrap();
        e.write("vlan_id", "1").unwrap();
        assert_eq!(e.read("vlan_tci").unwrap(), (0xe001).to_string());
        assert_eq!(e.read("vlan_pcp").unwrap(), "7");
        e.write("vlan_tci", "ANNO").unwrap();
        assert_eq!(e.read("vlan_id").unwrap(), "");
        assert!(e.write("vlan_id", "4096").is_err());
        let mut s = Bench::new("SetVLANAnno", "5, 2", 1, 1).unwrap();
        assert_eq!(s.push(0, b"")[0].1.anno.vlan_tci(), 0x4005);
        s.write("vlan_id", "6").unwrap();
        assert_eq!(s.read("vlan_tci").unwrap(), (0x4006).to_string());
        assert!(s.write("vlan_tci", "ANNO").is_err());
        assert!(s.read("native_vlan").is_err());
        for (class, bad, names) in [
            ("VLANEncap", "65536", "VLAN_TCI"),
            ("VLANEncap", "x", "VLAN_TCI"),
            ("VLANEncap", "1, 8", "VLAN_PCP"),
            ("VLANEncap", "VLAN_ID 4096", "VLAN_ID"),
            ("VLANEncap", "NATIVE_VLAN -2", "NATIVE_VLAN"),
            ("VLANDecap", "x", "ANNO"),
            ("SetVLANAnno", "70000", "VLAN_TCI"),
        ] {
            let e = Bench::new(class, bad, 1, 1).err().unwrap();
            assert!(e[0].starts_with(names), "{class} {bad}: {e:?}");
        }
    }
}
