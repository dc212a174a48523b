//! Programs for network drivers (XDP), made from a chain.
//!
//! A program of an entry port ([`generate`]) sees each frame in the driver, before anything is copied:
//!
//! - *Early drop.* Frames of classes that the chain drops, with nothing left behind but counts, are dropped at once and
//!   counted by class ([`Class`]); what is counted is added to the chain's own counters later. All others pass, and so
//!   does whatever the code does not understand: it never drops what the chain might not.
//! - *Dispatch* ([`Dispatch`]). Frames that pass go to the AF_XDP socket of a worker: by receive queue, by the
//!   partition function, by a tag (destination address or VLAN), or by class.
//!
//! What is dropped follows from the synthesized program ([`onefold_synth::Program`]), whose filters speak of bits of
//! the frame: no header is parsed twice in two ways. A tree of questions finds a frame's class ([`generate`] has its
//! bounds). Code is [`onefold_bpf::Code`]: to be loaded, printed, or carried out here ([`Generated::verdict`]).
#![forbid(unsafe_code)]

mod build;
mod class;
mod dispatch;
mod emit;
mod partition;
mod rule;
mod split;

pub use class::{Assign, Class, Count, Input, Left, Trusts, Waits};
pub use dispatch::{Dispatch, MAX_TAGS, Tag};

use build::{Builder, Ways};
use onefold_bpf::{AssembleError, Assembler, Code, Fault, Table, interpret};
use rule::{Known, Outcome};

/// Instructions of a decision structure, about, if nobody says otherwise.
pub const DEFAULT_BUDGET: usize = 300_000;
/// Rules in a leaf: more of them where the budget is not enough for fewer.
const LEAVES: [usize; 4] = [4, 12, 24, 48];
/// What a result says besides the class or the place, where it tells ([`Options::tells`]).
const VERDICT_BITS: u32 = 8;

/// What is to be generated.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// Classes are dropped.
    pub early_drop: bool,
    /// Where frames go that are not.
    pub dispatch: Dispatch<'a>,
    /// Instructions that the decision structure may have, about: what finds no room passes.
    pub budget: usize,
    /// The result is not what a driver wants, but tells all: see [`Verdict::told`].
    pub tells: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            early_drop: true,
            dispatch: Dispatch::Queue(0),
            budget: DEFAULT_BUDGET,
            tells: false,
        }
    }
}

/// What became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rules of the entry.
    pub rules: usize,
    /// Those of them that drop.
    pub dropping: usize,
    /// Classes that are dropped.
    pub classes: usize,
    /// Rules that drop, but are left to the chain, by why.
    pub left: [usize; Left::ALL.len()],
    /// Rules that found no room at some place of the structure: frames that come there pass.
    pub given_up: usize,
    /// Instructions.
    pub instructions: usize,
    /// Questions below each other.
    pub depth: usize,
}

/// A generated program.
#[derive(Debug, Clone)]
pub struct Generated {
    /// The code. Map 0 has a counter of [`Count::WORDS`] numbers for each class, map 1 the sockets' places.
    pub code: Code,
    /// Dropped classes, by number.
    pub classes: Vec<Class>,
    /// Places for sockets ([`Dispatch::places`]).
    pub places: u32,
    /// What became of it.
    pub summary: Summary,
}

/// What the code says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is dropped, as one of this class.
    Drop(u32),
    /// It goes to the socket at this place; `None`: to the host.
    Pass(Option<u32>),
}

impl Verdict {
    /// From the result of code that tells.
    pub fn told(result: u32) -> Option<Verdict> {
        let more = result >> VERDICT_BITS;
        match result & ((1 << VERDICT_BITS) - 1) {
            1 => Some(Verdict::Drop(more)),
            2 => Some(Verdict::Pass(more.checked_sub(1))),
            _ => None,
        }
    }
}

/// Generates the program of an entry.
///
/// Bounds: 131,072 rules; 64 questions below each other; about [`Options::budget`] instructions, of the kernel's
/// million, all of which its verifier looks at; 512 bytes of a frame.
///
/// # Errors
/// More instructions than the kernel takes.
pub fn generate(input: &Input<'_>, options: &Options<'_>) -> Result<Generated, AssembleError> {
    let mut read = class::read(input, options.dispatch.by_class());
    if !options.early_drop {
        read.classes.clear();
        for r in &mut read.rules {
            if let Outcome::Drop(_) = r.outcome {
                r.outcome = Outcome::Pass;
            }
        }
    }
    let mut summary = Summary {
        rules: read.rules.len(),
        dropping: (read.rules.iter())
            .filter(|r| matches!(r.outcome, Outcome::Drop(_)))
            .count(),
        classes: read.classes.len(),
        left: read.left,
        ..Summary::default()
    };
    // all frames have a length: rules are put together, and those at the end that pass fall away
    let any = onefold_element::model::ValueSet::range(0, u32::MAX.into());
    let rules = rule::narrowed(&read.rules, onefold_synth::program::Dim::Len, &any);
    let mut code = None;
    for leaf in LEAVES {
        let mut a = Assembler::default();
        let ways = Ways {
            pass: a.label(),
            to: a.label(),
            drop: a.label(),
        };
        build::begin(&mut a);
        options.dispatch.enter(&mut a, ways.pass);
        let mut b = Builder {
            a: &mut a,
            classes: &read.classes,
            ways,
            leaf,
            budget: options.budget,
            given_up: 0,
            deepest: 0,
        };
        b.node(&Known::default(), &rules, 0, 0);
        (summary.given_up, summary.depth) = (b.given_up, b.deepest);
        build::drop_and_count(&mut a, ways, options.tells);
        options.dispatch.leave(&mut a, ways, options.tells);
        code = Some(a);
        if summary.given_up == 0 {
            break;
        }
    }
    let code = code.unwrap_or_default().finish()?;
    summary.instructions = code.instructions.len();
    Ok(Generated {
        code,
        classes: read.classes,
        places: options.dispatch.places(),
        summary,
    })
}

impl Generated {
    /// Tables as the code wants them, when it is carried out here: every place has a socket.
    pub fn tables(&self) -> [Table; 2] {
        let value = 8 * Count::WORDS;
        let counters = Table::Array {
            value,
            data: vec![0; value * self.classes.len().max(1)],
        };
        [counters, Table::Targets(vec![true; self.places as usize])]
    }

    /// What the code, which must tell ([`Options::tells`]), says of a frame; carried out here.
    ///
    /// # Errors
    /// The code does what the kernel would not allow.
    pub fn verdict(&self, tables: &mut [Table], frame: &[u8]) -> Result<Option<Verdict>, Fault> {
        let answer = interpret(&self.code, tables, frame, 0)?;
        Ok(Verdict::told(answer.result as u32))
    }

    /// What [`Generated::tables`] have counted of a class.
    pub fn counted(&self, tables: &[Table], class: u32) -> Count {
        let mut words = [0; Count::WORDS];
        if let Some(Table::Array { value, data }) = tables.first() {
            let all = data.get(class as usize * value..).unwrap_or_default();
            for (w, b) in words.iter_mut().zip(all.chunks_exact(8)) {
                *w = b.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
            }
        }
        Count::of(words)
    }
}
