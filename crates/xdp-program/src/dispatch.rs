//! Where frames go that are not dropped: which worker's socket.
//!
//! A socket's place is `queue * n + worker`, where `queue` is the receive queue that the frame came in at and `n` are
//! the places of a queue ([`Dispatch::places`]): an AF_XDP socket gets frames of its own queue only.

use crate::build::Ways;
use crate::emit::{self, CONTEXT, SCRATCH, VALUE};
use crate::partition;
use onefold_bpf::{Assembler, Helper, Label, MapRef, Op, Reg, Size, When};
use onefold_partition::Partition;

/// Places of sockets.
const SOCKETS: MapRef = MapRef(1);
/// `XDP_PASS`: to the host.
const PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE: i16 = 16;
/// Most tags of a port: there are no more VLANs.
pub const MAX_TAGS: usize = 4096;

/// Where frames go.
#[derive(Debug, Clone, Copy)]
pub enum Dispatch<'a> {
    /// Those of this receive queue to the socket at the place of its number; all others to the host, whatever they are.
    Queue(u32),
    /// To the worker that the partition function says.
    Partition {
        /// The function.
        partition: &'a Partition,
        /// The chain's port.
        port: usize,
        /// Who gets what the code cannot decide: fragments, and replies that all workers get, among others. The
        /// function has to be asked about these.
        undecided: u32,
    },
    /// To the worker of the tag. The tag stays in the frame.
    Tags {
        /// Tags and workers, [`MAX_TAGS`] at most: those beyond are not looked at.
        tags: &'a [(Tag, u32)],
        /// Who gets frames with none of them.
        undecided: u32,
    },
    /// To the worker that is said of the class's rule ([`crate::Assign`]).
    Classes {
        /// How many there are.
        workers: u32,
        /// Who gets packets of which nothing is said.
        undecided: u32,
    },
}

/// A header value that says who gets a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// The destination address.
    Mac([u8; 6]),
    /// The number of the outer VLAN.
    Vlan(u16),
}

impl Dispatch<'_> {
    /// Places of a queue; of [`Dispatch::Queue`], of all queues.
    pub fn places(&self) -> u32 {
        let most = match self {
            Dispatch::Queue(q) => *q,
            Dispatch::Partition {
                partition,
                undecided,
                ..
            } => (*undecided).max(partition.workers() as u32 - 1),
            Dispatch::Tags { tags, undecided } => {
                tags.iter().map(|t| t.1).fold(*undecided, u32::max)
            }
            Dispatch::Classes { workers, undecided } => (*undecided).max(workers.saturating_sub(1)),
        };
        most.saturating_add(1)
    }

    /// Does a rule's own worker count?
    pub(crate) fn by_class(&self) -> bool {
        matches!(self, Dispatch::Classes { .. })
    }

    /// In front of all else.
    pub(crate) fn enter(&self, a: &mut Assembler, pass: Label) {
        if let Dispatch::Queue(q) = self {
            a.note("frames of other receive queues are not ours");
            a.load(Size::Word, VALUE, CONTEXT, QUEUE);
            a.jump_if32(VALUE, When::Ne, *q as i32, pass);
        }
    }

    /// What frames come to that pass.
    pub(crate) fn leave(&self, a: &mut Assembler, ways: Ways, tells: bool) {
        let unknown = a.label();
        a.place(ways.pass);
        let undecided = match self {
            Dispatch::Queue(_) => {
                a.note("passes: to the socket of the receive queue");
                a.load(Size::Word, Reg(2), CONTEXT, QUEUE);
                return redirect(a, tells);
            }
            Dispatch::Partition {
                partition,
                port,
                undecided,
            } => {
                a.note("passes: to the worker that the partition function says");
                partition::decide(a, partition, *port, ways.to, unknown);
                *undecided
            }
            Dispatch::Tags { tags, undecided } => {
                a.note("passes: to the worker of the tag");
                self.tags(a, tags, ways.to, unknown);
                *undecided
            }
            Dispatch::Classes { undecided, .. } => *undecided,
        };
        a.place(unknown);
        a.note("undecided");
        a.mov(VALUE, undecided as i32);
        a.place(ways.to);
        a.note("to the socket of worker r1 for the receive queue");
        a.load(Size::Word, Reg(2), CONTEXT, QUEUE);
        a.op(Op::Mul, Reg(2), self.places() as i32);
        a.op(Op::Add, Reg(2), VALUE);
        redirect(a, tells);
    }

    fn tags(&self, a: &mut Assembler, tags: &[(Tag, u32)], to: Label, unknown: Label) {
        let mut macs: Vec<(u64, u32)> = Vec::new();
        let mut vlans: Vec<(u64, u32)> = Vec::new();
        for (tag, worker) in tags.iter().take(MAX_TAGS) {
            match tag {
                Tag::Mac([a, b, c, d, e, f]) => {
                    macs.push((u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f]), *worker));
                }
                Tag::Vlan(id) => vlans.push((u64::from(*id), *worker)),
            }
        }
        if !vlans.is_empty() {
            let (tagged, others) = (a.label(), a.label());
            emit::require(a, 18, others);
            emit::number(a, VALUE, 12, Size::Half);
            a.jump_if32(VALUE, When::Eq, 0x8100, tagged);
            a.jump_if32(VALUE, When::Ne, 0x88a8, others);
            a.place(tagged);
            emit::number(a, VALUE, 14, Size::Half);
            a.op(Op::And, VALUE, 0xfff);
            find(a, sorted(&mut vlans), to, others);
            a.place(others);
        }
        if !macs.is_empty() {
            emit::require(a, 14, unknown);
            emit::number(a, VALUE, 0, Size::Word);
            emit::number(a, SCRATCH, 4, Size::Half);
            a.op(Op::Shl, VALUE, 16);
            a.op(Op::Or, VALUE, SCRATCH);
            find(a, sorted(&mut macs), to, unknown);
        }
        a.jump(unknown);
    }
}

/// The first of several of a tag counts.
fn sorted(tags: &mut Vec<(u64, u32)>) -> &[(u64, u32)] {
    tags.sort_by_key(|t| t.0);
    tags.dedup_by_key(|t| t.0);
    tags
}

/// Looks the value up, by halves.
fn find(a: &mut Assembler, tags: &[(u64, u32)], to: Label, none: Label) {
    let [(middle, worker)] = tags else {
        let (left, right) = tags.split_at(tags.len() / 2);
        let Some((middle, _)) = right.first() else {
            return a.jump(none);
        };
        let below = a.label();
        a.number(SCRATCH, *middle);
        a.jump_if(VALUE, When::Lt, SCRATCH, below);
        find(a, right, to, none);
        a.place(below);
        return find(a, left, to, none);
    };
    a.number(SCRATCH, *middle);
    a.jump_if(VALUE, When::Ne, SCRATCH, none);
    a.mov(VALUE, *worker as i32);
    a.jump(to);
}

/// To the socket at the place in register 2.
fn redirect(a: &mut Assembler, tells: bool) {
    if tells {
        a.mov(Reg(0), Reg(2));
        a.op(Op::Add, Reg(0), 1);
        a.op(Op::Shl, Reg(0), 8);
        a.op(Op::Or, Reg(0), PASS);
        return a.exit();
    }
    a.map(Reg(1), SOCKETS);
    a.mov(Reg(3), PASS);
    a.call(Helper::RedirectMap);
    a.exit();
}
