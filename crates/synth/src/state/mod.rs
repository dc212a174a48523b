//! A packet on its way, symbolically: what is different from the start of the epoch.
mod apply;
mod read;

use crate::layout::Layout;
use crate::program::{Dim, EndAt, Expr, Image, LenAt, Mark, Slot, Step, SumWrite, TypeExpr, Write};
use onefold_element::model::{AnnoKey, Base, FieldRef, ValueSet};
use std::sync::Arc;

/// Why an operation or a reading cannot go on in this stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A value known at run time only is read: a new stage.
    Stage,
    /// What was written must be written out first.
    Write,
    /// Cannot be expressed: the reference graph.
    Punt(&'static str),
}

/// A slot as this path knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathSlot {
    /// Which.
    pub slot: Slot,
    /// Width.
    pub bits: u8,
    /// What it may hold here.
    pub set: ValueSet,
    /// Filled before the stage began.
    pub readable: bool,
}

/// A packet at some place of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// First byte.
    pub start: i32,
    /// End.
    pub end: EndAt,
    /// Disjoint, ascending.
    pub writes: Vec<Write>,
    /// In order of their first use.
    pub sums: Vec<SumWrite>,
    /// Network header.
    pub net: Mark,
    /// MAC header.
    pub mac: Mark,
    /// Annotations were forgotten since the epoch began.
    pub cleared: bool,
    /// Annotations that are not listed are zero.
    pub annos_zero: bool,
    /// Annotations; ascending, disjoint.
    pub annos: Vec<(AnnoKey, Expr)>,
    /// Packet type.
    pub packet_type: TypeExpr,
    /// A field of the IP header was written without its checksum.
    pub ip_dirty: bool,
    /// A field that the transport checksum covers was written without it.
    pub transport_dirty: bool,
    /// Bytes written while no header was marked there (disjoint, ascending, end excluded): no checksum has followed.
    pub loose: Vec<(i32, i32)>,
    /// Slots filled on this path.
    pub slots: Vec<PathSlot>,
    /// Done since the stage began.
    pub steps: Vec<Step>,
}

/// What a reading comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// A number or a dimension plus a number.
    Expr(Expr),
    /// A dimension less a number, no wrapping round: lengths.
    Less(Dim, i64),
    /// The type of a destination address.
    Type(Expr, Option<[u8; 6]>),
}

fn end_of(bit: i32, bits: u8) -> i32 {
    bit + i32::from(bits)
}

impl State {
    /// A packet from outside.
    pub fn entry() -> State {
        State {
            start: 0,
            end: EndAt::Same,
            writes: Vec::new(),
            sums: Vec::new(),
            net: Mark::None,
            mac: Mark::None,
            cleared: false,
            annos_zero: true,
            annos: Vec::new(),
            packet_type: TypeExpr::Is(0),
            ip_dirty: false,
            transport_dirty: false,
            loose: Vec::new(),
            slots: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The same packet at the beginning of a new stage of the same epoch: everything bound so far can be read.
    pub fn at_stage(mut self) -> State {
        self.steps.clear();
        for s in &mut self.slots {
            s.readable = true;
        }
        self
    }

    /// The same packet at the beginning of a new epoch, written out.
    pub fn written(&self) -> State {
        let shift = |m: Mark| match m {
            Mark::At(at, len) => Mark::At(at - self.start, len),
            Mark::Alone(at) => Mark::Alone(at - self.start),
            m => m,
        };
        let annos = self.annos.iter().map(|(k, v)| match v {
            Expr::Const(_) => (*k, *v),
            Expr::Of(..) => (*k, Expr::Of(self.stands_in(*k, *v), 0)),
        });
        State {
            end: match self.end {
                // the packet has been cut there: that is still its end, as long as its length says so
                EndAt::Ip4(at) if !self.touched((at + 2) * 8, 16) => EndAt::Ip4(at - self.start),
                EndAt::Ip6(at) if !self.touched((at + 4) * 8, 16) => EndAt::Ip6(at - self.start),
                _ => EndAt::Same,
            },
            net: shift(self.net),
            mac: shift(self.mac),
            annos_zero: self.annos_zero,
            annos: annos.collect(),
            packet_type: match self.packet_type {
                TypeExpr::Is(t) => TypeExpr::Is(t),
                _ => TypeExpr::Same,
            },
            ..State::entry()
        }
    }

    /// Where an annotation stands when the packet has been written out: an address that is in the packet, too, is read
    /// there, where flows have it in their keys.
    fn stands_in(&self, k: AnnoKey, v: Expr) -> Dim {
        let bits = k.size.saturating_mul(8);
        let at = match v {
            Expr::Of(Dim::Bits { bit, bits: n }, 0) if n == bits && !self.touched(bit, bits) => {
                Some(bit)
            }
            v => {
                let mut same = self
                    .writes
                    .iter()
                    .filter(|w| w.value == v && w.bits == bits);
                same.next().map(|w| w.bit)
            }
        };
        match at.map(|at| at - self.start * 8) {
            Some(bit) if matches!(bits, 32 | 128) && bit >= 0 => Dim::Bits { bit, bits },
            _ => Dim::Anno(k),
        }
    }

    /// What is different, for execution. `annotations`: somebody will look at them.
    pub fn image(&self, annotations: bool) -> Arc<Image> {
        Arc::new(Image {
            start: self.start,
            end: self.end,
            writes: self.writes.clone(),
            sums: self.sums.clone(),
            net: self.net,
            mac: self.mac,
            cleared: annotations && self.cleared,
            annos: if annotations {
                self.annos.clone()
            } else {
                Vec::new()
            },
            packet_type: if annotations {
                self.packet_type
            } else {
                TypeExpr::Same
            },
        })
    }

    /// The layout that the marked network header tells.
    pub fn layout(&self) -> Layout {
        match self.net {
            Mark::At(n, 20) => Layout::Ip4(n),
            Mark::At(n, 40) => Layout::Ip6(n),
            _ => Layout::Unknown,
        }
    }

    /// The length at this place.
    pub fn len_at(&self) -> LenAt {
        LenAt {
            start: self.start,
            end: self.end,
        }
    }

    /// First byte of the network header.
    pub fn net_at(&self) -> Result<i32, Need> {
        let none = Need::Punt("no network header is marked");
        self.net.start().ok_or(none)
    }

    /// First byte of what follows the network header.
    pub fn transport_at(&self) -> Result<i32, Need> {
        match self.net {
            Mark::At(n, len) => Ok(n + i32::from(len)),
            Mark::Alone(_) => Err(Need::Punt("a network header alone is marked")),
            _ => Err(Need::Punt("no network header is marked")),
        }
    }

    fn base(&self, b: Base) -> Result<i32, Need> {
        match b {
            Base::Data => Ok(self.start),
            Base::Net => self.net_at(),
            Base::Transport => self.transport_at(),
            Base::Mac => {
                let none = Need::Punt("no MAC header is marked");
                self.mac.start().ok_or(none)
            }
        }
    }

    /// First bit of a field.
    pub fn place(&self, f: FieldRef) -> Result<i32, Need> {
        Ok(self.base(f.base)? * 8 + i32::from(f.bit))
    }

    fn overlapping(&self, bit: i32, bits: u8) -> impl Iterator<Item = &Write> {
        let end = end_of(bit, bits);
        self.writes
            .iter()
            .filter(move |w| w.bit < end && bit < end_of(w.bit, w.bits))
    }

    /// Is there anything written among these bits?
    pub fn touched(&self, bit: i32, bits: u8) -> bool {
        let end = end_of(bit, bits);
        let sums = self
            .sums
            .iter()
            .any(|s| s.at * 8 < end && bit < s.at * 8 + 16);
        sums || self.overlapping(bit, bits).next().is_some()
    }
}
