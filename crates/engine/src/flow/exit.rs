//! Exits: where packets go on whose action neither lets them leave nor drops them.
//!
//! An action ends with its epoch. Where the program has written a packet out, or is about to ask an element, the
//! packet is made what it is there, header marks and annotations included, and another
//! [cache](crate::flow::ingress_cache::IngressCache) knows what becomes of it behind that. ([`crate::flow::waves`]
//! sends packets through exits.)

use crate::flow::masked_match::MaskedMatch;
use crate::program::code::Code;
use crate::program::headers::registers::{Bits, Source, Tables};
use crate::program::path::{Path, PathEnd};
use crate::program::rewrite::image::{Image, Kind};
use crate::program::rewrite::value::{CONST, FieldWrite, Sum, Value};
use onefold_element::model::max_of;
use onefold_packet::Packet;

/// Exits, at most; packets of an action that would need another one are the program's.
pub(crate) const MAX_EXITS: usize = 1 << 10;

/// Where an element's output leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// To this cache.
    Cache(u32),
    /// Nowhere.
    Unconnected,
}

/// Who takes packets behind an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// This cache.
    Cache(u32),
    /// An element is asked; where its outputs lead stands from here to there in [`Exits::outputs`], and `site` counts
    /// it.
    Ask {
        node: u32,
        port: u32,
        outputs: (u32, u32),
        site: u32,
    },
}

/// What an image changes that is not in the packet's bytes.
#[derive(Debug, Clone)]
struct Marks {
    image: u32,
    /// Registers as the image reads them: what all packets have in common is there.
    regs: Vec<u128>,
    /// What is the packet's own, and read before anything is marked.
    own: Box<[(u16, Source)]>,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub(crate) struct Exit {
    /// By so much packets begin later than where their template was written.
    pull: u32,
    marks: Option<Marks>,
    pub next: Next,
    /// Its packets go on alone, each all its way before the next one is looked at: they may meet what others behind
    /// them have met already, or somebody is told of each at once.
    pub alone: bool,
    /// What it was made for.
    of: (u32, PathEnd, u32),
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    pub all: Vec<Exit>,
    pub outputs: Vec<Output>,
}

impl Exits {
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.all.clear();
        self.outputs.clear();
    }

    /// Where an output of an element that is asked leads; `None` for one that it has not.
    #[inline]
    pub fn output(&self, of: (u32, u32), port: usize) -> Option<Output> {
        let all = self.outputs.get(of.0 as usize..of.1 as usize)?;
        all.get(port).copied()
    }

    /// Those that lead to a cache, by number, and whose packets they are: the other cache.
    pub fn to(&self, cache: u32) -> impl Iterator<Item = (usize, u32)> {
        let leads = move |e: &Exit| match e.next {
            Next::Cache(c) => c == cache,
            Next::Ask { outputs, .. } => {
                let all = self.outputs.get(outputs.0 as usize..outputs.1 as usize);
                all.unwrap_or_default().contains(&Output::Cache(cache))
            }
        };
        let all = self.all.iter().enumerate();
        all.filter(move |(_, e)| leads(e)).map(|(i, e)| (i, e.of.0))
    }

    /// The exit of a cache for paths with this end, of packets in a masked match.
    pub fn find(&self, of: (u32, PathEnd, u32)) -> Option<u32> {
        Some(self.all.iter().position(|e| e.of == of)? as u32)
    }

    /// Another one.
    pub fn add(&mut self, exit: Exit) -> Option<u32> {
        if self.all.len() >= MAX_EXITS {
            return None;
        }
        self.all.push(exit);
        Some(self.all.len() as u32 - 1)
    }
}

impl Exit {
    /// The exit of a path's packets, which are in a masked match, looked at from so many bytes before their first one.
    ///
    /// # Errors
    /// When something that is marked follows from more than the packet and the class.
    pub fn new(
        code: &Code,
        (path, image): (&Path, u32),
        (guard, shift): (&MaskedMatch, i32),
        next: Next,
        of: (u32, PathEnd, u32),
    ) -> Result<Exit, &'static str> {
        if path.late {
            return Err("an annotation that a binding has set");
        }
        let m = code.images.get(image as usize).ok_or("not understood")?;
        Ok(Exit {
            pull: u32::try_from(m.start + shift).unwrap_or(0),
            marks: match m.marks() {
                true => Some(Marks::new(code, (path, image), m, (guard, shift))?),
                false => None,
            },
            next,
            alone: false,
            of,
        })
    }

    /// By so much packets begin later than where their template was written.
    pub fn pull(&self) -> u32 {
        self.pull
    }

    /// Makes a packet to which the template has been applied what it is behind the exit.
    #[inline(always)]
    pub fn apply(&mut self, code: &Code, p: &mut Packet) {
        p.pull(self.pull as usize);
        let Some(m) = &mut self.marks else { return };
        for (reg, source) in &m.own {
            if let Some(to) = m.regs.get_mut(usize::from(*reg)) {
                *to = source.read(p, &Tables::default());
            }
        }
        if let Some(image) = code.images.get(m.image as usize) {
            image.mark(p, &m.regs, &[]);
        }
    }
}

/// What a value that an image sets an annotation to follows from, for all packets that are alike.
enum Origin {
    /// It is the same for all.
    Same(u128),
    /// It is read from the packet, when the image has been written.
    Read(Source),
}

impl Marks {
    fn new(
        code: &Code,
        (path, number): (&Path, u32),
        image: &Image,
        (guard, shift): (&MaskedMatch, i32),
    ) -> Result<Marks, &'static str> {
        let kind = match &image.kind {
            Kind::Destination(v, _) => Some(*v),
            Kind::Same | Kind::Is(_) => None,
        };
        let values = image.annos.iter().map(|a| a.value).chain(kind);
        let (mut regs, mut own) = (Vec::new(), Vec::new());
        for v in values.filter(|v| v.reg != CONST) {
            let at = usize::from(v.reg);
            if regs.len() <= at {
                regs.resize(at + 1, 0);
            }
            match origin(code, path, image, v, (guard, shift))? {
                Origin::Same(x) => regs[at] = x,
                Origin::Read(s) => own.push((v.reg, s)),
            }
        }
        Ok(Marks {
            image: number,
            regs,
            own: own.into(),
        })
    }
}

fn origin(
    code: &Code,
    path: &Path,
    image: &Image,
    v: Value,
    (guard, shift): (&MaskedMatch, i32),
) -> Result<Origin, &'static str> {
    // what has been written somewhere is read there
    let whole = |bits: u8| v.add & v.mask == 0 && v.mask == max_of(bits);
    let same = |w: &&FieldWrite| {
        (w.value.reg, w.value.add, w.value.mask) == (v.reg, v.add, v.mask) && whole(w.bits)
    };
    let read = |b: Bits| Ok(Origin::Read(Source::Bits(b.shifted(-image.start))));
    match code.sources.get(usize::from(v.reg)) {
        Some(Source::Bits(b)) => {
            let (bit, bits) = b.position();
            if guard.pins_each(bit + shift * 8, bits) {
                let now = path.values.get(usize::from(v.reg)).copied();
                return Ok(Origin::Same(now.unwrap_or(0)));
            }
            let end = bit + i32::from(bits);
            let over = |w: &FieldWrite| w.bit < end && bit < w.bit + i32::from(w.bits);
            let summed = |s: &Sum| s.at * 8 < end && bit < s.at * 8 + 16;
            if !image.writes.iter().any(over) && !image.sums.iter().any(summed) {
                return read(*b);
            }
        }
        Some(s @ (Source::Anno(..) | Source::PacketType)) => return Ok(Origin::Read(*s)),
        _ => {}
    }
    match image.writes.iter().find(same) {
        Some(w) => read(Bits::new(w.bit, w.bits)),
        None => Err("an annotation that follows from what is not in the packet any more"),
    }
}
