//! Length and place of the data: Truncate, Pad, Align.
//!
//! Of Pad's FastClick keywords MAXLENGTH, RANDOM and VERBOSE are taken too. Added bytes are zero even with `ZERO false`
//! (Click leaves whatever the buffer held).

use super::one_to_one;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, is};
use onefold_element::model::{Cond, Exit, Model, ModelCx, Op, Read, Value};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{Pkt, anno_field::EXTRA_LENGTH};

const EXTRA: usize = EXTRA_LENGTH.offset as usize;

/// `Truncate`.
pub const TRUNCATE: ElementClass = one_to_one(
    "Truncate",
    Effect::Pure,
    "LENGTH [, keyword EXTRA_LENGTH]",
    "shortens packets to a length",
    || {
        Box::new(Truncate {
            length: 0,
            note_extra: true,
        })
    },
);

#[derive(Debug, Clone)]
struct Truncate {
    length: u32,
    note_extra: bool,
}

impl Element for Truncate {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.length = args.mandatory("LENGTH").unwrap_or(0);
        self.note_extra = args.keyword("EXTRA_LENGTH").unwrap_or(true);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let over = p.len().saturating_sub(self.length as usize);
        if over > 0 {
            if self.note_extra {
                let extra = p.anno.u32(EXTRA).wrapping_add(over as u32);
                p.anno.set_u32(EXTRA, extra);
            }
            p.take(over);
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Cases::new()
            .case(
                Cond::less(Read::Len, u128::from(self.length) + 1),
                [],
                Exit::Port(0),
            )
            .otherwise_punt("packet is cut")
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("nbytes")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "nbytes" => Ok(self.length.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "nbytes" => self.length = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `Pad`.
pub const PAD: ElementClass = one_to_one(
    "Pad",
    Effect::Pure,
    "[LENGTH, keywords ZERO, RANDOM, MAXLENGTH, VERBOSE]",
    "extends packets to a length",
    || Box::new(Pad::default()),
);

/// A packet is never padded by more than this; an extra length annotation beyond it comes from no real frame.
const MAX_PADDING: usize = 65_535;

#[derive(Debug, Clone, Default)]
struct Pad {
    /// 0: to the length that the extra length annotation tells.
    length: u32,
    random: bool,
    /// 0: no limit.
    max_length: u32,
    verbose: bool,
}

impl Element for Pad {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.length = args.optional("LENGTH").unwrap_or(0);
        let _: Option<bool> = args.keyword("ZERO");
        self.random = args.keyword("RANDOM").unwrap_or(false);
        self.max_length = args.keyword("MAXLENGTH").unwrap_or(0);
        self.verbose = args.keyword("VERBOSE").unwrap_or(false);
        if self.length as usize > MAX_PADDING {
            args.error(format!("LENGTH: at most {MAX_PADDING}"));
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let len = p.len();
        let mut add = if self.length != 0 {
            (self.length as usize).saturating_sub(len)
        } else {
            (p.anno.u32(EXTRA) as usize).min(MAX_PADDING)
        };
        let max = self.max_length as usize;
        if max != 0 && add + len > max {
            let fits = max.saturating_sub(len);
            if self.verbose {
                cx.chatter(&format!(
                    "Tried a too long Pad: {len} + {add} > {max} -> adding only {fits} bytes\n"
                ));
            }
            add = fits;
        }
        p.put(add);
        if self.random {
            // as FastClick, whole words only
            for i in 0..add / 4 {
                let r = cx.random().to_ne_bytes();
                if let Some(w) = p.data_mut().get_mut(len + 4 * i..len + 4 * i + 4) {
                    w.copy_from_slice(&r);
                }
            }
        }
        p.anno.set_u32(EXTRA, 0);
        cx.emit(0, p);
    }
    /// Only packets that are long enough already.
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let extra = EXTRA_LENGTH.into();
        let mut c = Cases::new();
        if self.max_length != 0 && self.verbose {
            let long = Cond::at_least(Read::Len, u128::from(self.max_length) + 1);
            c = c.punt(long, "too long to be padded");
        }
        let enough = match self.length {
            0 => is(Read::Anno(extra), 0),
            n => Cond::at_least(Read::Len, n.into()),
        };
        c.case(enough, [Op::SetAnno(extra, Value::Const(0))], Exit::Port(0))
            .otherwise_punt("packet is padded")
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `Align`.
pub const ALIGN: ElementClass = one_to_one(
    "Align",
    Effect::Pure,
    "MODULUS, OFFSET",
    "moves packet data to an aligned place",
    || {
        Box::new(Align {
            modulus: 4,
            offset: 0,
        })
    },
);

#[derive(Debug, Clone)]
struct Align {
    modulus: u32,
    offset: u32,
}

impl Element for Align {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let modulus: Option<u32> = args.mandatory("MODULUS");
        let offset: Option<u32> = args.mandatory("OFFSET");
        if let (Some(m), Some(o)) = (modulus, offset) {
            if !matches!(m, 2 | 4 | 8) {
                args.error("MODULUS: must be 2, 4, or 8");
            } else if o >= m {
                args.error("OFFSET: must be smaller than MODULUS");
            }
            (self.modulus, self.offset) = (m, o);
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.align(self.modulus as usize, self.offset as usize);
        cx.emit(0, p);
    }
    /// Where a packet lies in memory is nothing to models.
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([])
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn truncate_notes_what_is_gone_and_pad_brings_it_back() {
        let mut t = Bench::new("Truncate", "10", 1, 1).unwrap();
        let p = t.push(0, &[9; 25]).remove(0).1;
        assert_eq!((p.len(), p.anno.u32(28)), (10, 15));
        let mut pad = Bench::new("Pad", "", 1, 1).unwrap();
        let p = pad.push_packet(0, p).remove(0).1;
        assert_eq!(p.data(), [&[9u8; 10][..], &[0; 15]].concat());
        assert_eq!(p.anno.u32(28), 0);
        let mut t = Bench::new("Truncate", "3, EXTRA_LENGTH false", 1, 1).unwrap();
        assert_eq!(t.push_packet(0, p).remove(0).1.anno.u32(28), 0);
        assert_eq!(t.read("nbytes").unwrap(), "3");
        t.write("nbytes", "2").unwrap();
        assert_eq!(t.push(0, &[9; 25])[0].1.len(), 2);
        assert!(t.write("nbytes", "x").is_err());
        assert_eq!(t.push(0, &[])[0].1.len(), 0);
    }

    #[test]
    fn pad_variants() {
        let mut pad = Bench::new("Pad", "60", 1, 1).unwrap();
        assert_eq!(pad.push(0, &[1; 4])[0].1.len(), 60);
        assert_eq!(pad.push(0, &[1; 99])[0].1.len(), 99);
        let mut pad =
            Bench::new("Pad", "60, MAXLENGTH 20, VERBOSE true, RANDOM true", 1, 1).unwrap();
        assert_eq!(pad.push(0, &[1; 4])[0].1.len(), 20);
        assert!(pad.host.log.contains("adding only 16 bytes"));
        assert_eq!(pad.push(0, &[1; 40])[0].1.len(), 40);
        assert!(Bench::new("Pad", "70000", 1, 1).is_err());
    }

    #[test]
    fn align_keeps_bytes() {
        let mut a = Bench::new("Align", "4, 3", 1, 1).unwrap();
        let p = a.push(0, b"hello").remove(0).1;
        assert_eq!((p.data(), p.data_offset() % 4), (&b"hello"[..], 3));
        for (bad, what) in [("3, 0", "MODULUS"), ("4, 4", "OFFSET"), ("4", "OFFSET")] {
            let e = Bench::new("Align", bad, 1, 1).err().unwrap();
            assert!(e[0].starts_with(what), "{e:?}");
        }
    }
}
