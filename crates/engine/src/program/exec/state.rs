//! What an executor of a program keeps from packet to packet.

use crate::graph::topology::Edge;
use crate::program::code::{Code, End};
use crate::program::exec::batch_exec::actions::BatchActions;
use crate::program::exec::batch_exec::prepared::Prepared;
use crate::program::exec::deferred_counters::DeferredCounters;
use crate::program::exec::lookahead::Lookahead;
use crate::program::exec::prefetch::Prefetcher;
use crate::program::headers::registers::Regs;
use crate::program::lookup::columns::Scratch;
use crate::program::path::Path;
use crate::program::report::Counts;
use crate::program::rewrite::image::LateAnno;
use crate::program::trace::{Passed, Recorder};
use onefold_packet::Pkt;

/// Annotation bytes that bindings may set within one epoch.
pub(crate) const MAX_LATE: usize = 4;

/// Classes on one packet's way that are noted.
pub(crate) const MAX_PASSED: usize = 4096;

/// What a packet carries besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketState {
    /// Stages passed.
    pub hops: u32,
    late: [LateAnno; MAX_LATE],
    lates: u8,
}

impl PacketState {
    pub const NEW: PacketState = PacketState {
        hops: 0,
        late: [LateAnno {
            at: 0,
            value: 0,
            cleared: false,
        }; MAX_LATE],
        lates: 0,
    };
    pub fn late(&self) -> &[LateAnno] {
        self.late.get(..usize::from(self.lates)).unwrap_or_default()
    }
    pub fn add(&mut self, l: LateAnno) {
        if let Some(place) = self.late.get_mut(usize::from(self.lates)) {
            *place = l;
            self.lates += 1;
        }
    }
    /// A new epoch begins.
    pub fn next_epoch(&mut self) {
        self.lates = 0;
    }
}

/// Something to be done, last first.
pub(crate) enum Job {
    /// A packet comes to a stage; the slots are on top of [`State::slots`].
    Stage(Pkt, u32, bool, PacketState),
    /// A packet leaves at an output that is not connected.
    Unconnected(Pkt, u32),
    /// The reference graph goes on.
    Reference(Pkt, Edge, u32),
    /// A write handler is called on behalf of an element.
    Call(u32, Box<(String, String)>),
}

/// A packet at the end of an epoch: written out, and nobody has been asked yet.
pub(crate) struct Stopped {
    pub p: Pkt,
    /// [`End::Write`] or [`End::Ask`].
    pub end: End,
    pub packet_state: PacketState,
}

/// What an executor keeps from packet to packet.
#[derive(Default)]
pub(crate) struct State {
    pub regs: Regs,
    pub stack: Vec<Job>,
    /// Slots as they were when jobs were put on the stack, one set for each [`Job::Stage`].
    pub slots: Vec<u128>,
    pub counts: Counts,
    pub recorder: Option<Box<Recorder>>,
    pub watched: Option<Box<Watched>>,
    pub scratch: Option<Box<Scratch>>,
    pub prefetcher: Prefetcher,
    /// What happens to the packet is written down, to be done again without asking: up to the end of its first epoch.
    pub path: Option<Box<Path>>,
    /// The packet whose path has been written down, where its epoch ended.
    pub stopped: Option<Stopped>,
    pub deferred: DeferredCounters,
    pub batch_actions: BatchActions,
    pub prepared: Prepared,
    pub lookahead: Lookahead,
}

/// Classes under observation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched {
    /// By action: its packets take the reference graph wherever they can, which is at the beginning of an epoch.
    pub fallen: Vec<bool>,
    /// The classes that packets have passed are noted.
    pub noting: bool,
    pub passed: Vec<Passed>,
}

impl Watched {
    /// A packet is about to take this action. Does the reference graph take it?
    pub fn sees(&mut self, stage: u32, first: u32, action: u32, fresh: bool) -> bool {
        if self.noting && self.passed.len() < MAX_PASSED {
            self.passed.push(Passed {
                stage: stage as usize,
                action: action.saturating_sub(first) as usize,
                fresh,
            });
        }
        fresh && self.fallen.get(action as usize) == Some(&true)
    }
}

impl State {
    pub fn new(code: &Code) -> State {
        State {
            regs: Regs::new(code.sources.len()),
            stack: Vec::new(),
            slots: Vec::new(),
            counts: Counts::new(code),
            recorder: None,
            watched: None,
            scratch: None,
            prefetcher: Prefetcher::default(),
            path: None,
            stopped: None,
            deferred: DeferredCounters::default(),
            batch_actions: BatchActions::default(),
            prepared: Prepared::default(),
            lookahead: Lookahead::default(),
        }
    }

    pub fn put_off(&mut self, code: &Code, job: Job) {
        if let Job::Stage(..) = job {
            let slots = self.regs.v.get(..code.slots).unwrap_or_default();
            self.slots.extend_from_slice(slots);
        }
        self.stack.push(job);
    }
}
