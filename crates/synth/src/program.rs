//! The synthesized program: what an engine executes, `explain` prints and `verify` judges.
//!
//! A program has one entry [`Stage`] per entry port of the chain. A stage is a list of [`Rule`]s, of which the first
//! whose filter matches counts; each names an [`Action`]. All rules of a stage that name the same action together are
//! one traffic class (SNF's TCU).
//!
//! **Epochs.** Filters and expressions speak of the packet as it was when the *epoch* began: at the entry, or when it
//! came back from an element that was asked ([`End::Ask`]) or was written out ([`End::Write`]). Positions count from
//! the packet's first byte at that moment and may be negative (bytes that had been stripped before). Nothing is written
//! to the packet before the epoch ends; an [`Image`] says all that is different then, so each field is read once and
//! written once.
//!
//! **Slots** are registers for values known at run time only, which bindings fill. A stage reads slots that earlier
//! stages (or earlier steps of its own action) have filled.

use onefold_element::ElemId;
use onefold_element::model::{AnnoKey, BindKind, FlowSide, HeaderCheck, RouteWhat, ValueSet};
use onefold_packet::{EtherAddr, PacketType};
use std::sync::Arc;

/// Index into [`Program::stages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StageId(pub u32);

impl StageId {
    /// Numbers from here on stand for places in a later program ([`Program::hands`]).
    pub const ELSEWHERE: u32 = 1 << 31;

    /// The place in a later program whose name has this index.
    pub fn elsewhere(index: usize) -> StageId {
        let index = u32::try_from(index).unwrap_or(Self::ELSEWHERE - 1);
        StageId(Self::ELSEWHERE | index)
    }
    /// Index of the name of the place in a later program, if it is one.
    pub fn hand(self) -> Option<usize> {
        self.0.checked_sub(Self::ELSEWHERE).map(|i| i as usize)
    }
}

/// Index into [`Stage::actions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionId(pub u32);

/// Index into [`Program::slots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// Where the packet ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum EndAt {
    /// Where it ended when the epoch began.
    #[default]
    Same,
    /// Where the IPv4 packet ends whose header starts at this byte (its total length is known to fit, and is the one
    /// that the packet had when the epoch began).
    Ip4(i32),
    /// Where the IPv6 packet ends whose header starts at this byte (its payload length, likewise).
    Ip6(i32),
}

/// Something that a filter or expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dim {
    /// Bytes of the packet when the epoch began.
    Len,
    /// Bits of the packet, the most significant first; zero where there is no packet (a filter that needs the bits asks
    /// for the length, too).
    Bits {
        /// First bit.
        bit: i32,
        /// Number of bits, 1 to 128.
        bits: u8,
    },
    /// A question about the header at byte `at` (1 for yes), for a packet that ends at `end`.
    Check {
        /// The question.
        check: HeaderCheck,
        /// First byte of the IP header.
        at: i32,
        /// Where the packet ends.
        end: EndAt,
    },
    /// A slot.
    Slot(Slot),
    /// An annotation when the epoch began (behind asked elements; at an entry all are zero).
    Anno(AnnoKey),
    /// The packet type when the epoch began.
    PacketType,
    /// What a look-up element's route table, or an element's table of neighbours, says when the packet comes. A program
    /// does not say what is in the table: it is the element's own, whatever becomes of its routes and neighbours.
    Route {
        /// The element.
        table: ElemId,
        /// The address that it is asked about.
        of: Address,
        /// What is asked.
        what: RouteWhat,
    },
}

/// An address that a route table is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// Bits of the packet when the epoch began: 32 or 128.
    Bits {
        /// First bit.
        bit: i32,
        /// Number of bits.
        bits: u8,
    },
    /// An annotation when the epoch began, of 4 or 16 bytes.
    Anno(AnnoKey),
    /// This one.
    Is {
        /// The address.
        value: u128,
        /// Number of bits, 32 or 128.
        bits: u8,
    },
}

impl Address {
    /// Width in bits.
    pub fn width(self) -> u8 {
        match self {
            Address::Bits { bits, .. } | Address::Is { bits, .. } => bits,
            Address::Anno(a) => a.size.saturating_mul(8),
        }
    }
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Expr {
    /// This number.
    Const(u128),
    /// What the dimension is, plus a number, modulo two to the dimension's width; then cut to the target's width.
    Of(Dim, u128),
}

/// A packet filter: a conjunction; dimensions ascending, each at most once, no set empty or full.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Filter(pub Vec<(Dim, ValueSet)>);

/// What made a part of a class: an argument (rule, route, pattern) of an element, or the element itself: a list of
/// rules of which none fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The element.
    pub elem: ElemId,
    /// The argument's index.
    pub arg: Option<u32>,
    /// The packets of the class are those that this argument decided about at the element, which will not see them
    /// itself. `None` where it will (it is asked, or the reference graph takes over there), or another stage says it.
    pub counted: Option<Counted>,
}

impl Origin {
    /// What made a class, without a decision that is to be counted.
    pub fn of(elem: ElemId, arg: Option<u32>) -> Origin {
        Origin {
            elem,
            arg,
            counted: None,
        }
    }
}

/// What a rule's counters are told of a class's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Counted {
    /// The packet's length at the element.
    pub len: LenAt,
    /// So many of the action's bindings are asked for before the element: a packet that leaves the action at one of
    /// them does not come to it.
    pub binds: u16,
}

/// One filter of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// When.
    pub filter: Filter,
    /// What.
    pub action: ActionId,
    /// What made it: every element on the way that distinguished cases, in order.
    pub origin: Vec<Origin>,
}

/// The length of the packet at some place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LenAt {
    /// First byte.
    pub start: i32,
    /// End.
    pub end: EndAt,
}

/// A new value for some bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Write {
    /// First bit.
    pub bit: i32,
    /// Number of bits, 1 to 128.
    pub bits: u8,
    /// What stands there then.
    pub value: Expr,
}

/// A term of an incremental checksum update: added to the one's complement of the checksum, carries folded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SumTerm {
    /// These bits changed from one value to the other: for each aligned 16-bit word of the packet that they touch
    /// (words counted from the IP header, [`SumWrite::header`]), the one's complement of the old word plus the new one.
    Change {
        /// First bit.
        bit: i32,
        /// Number of bits.
        bits: u8,
        /// Before.
        from: Expr,
        /// After.
        to: Expr,
    },
    /// The number in a slot (nothing happens when it is zero).
    Slot(Slot),
}

/// Which checksum, and so what is special about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SumKind {
    /// IPv4 header.
    Ip4,
    /// TCP.
    Tcp,
    /// UDP: zero means none and stays.
    Udp,
    /// ICMP. A message that is nothing but zeros after the last update gets all ones: the checksum that it would be
    /// given anew, which an update takes for zero.
    Icmp,
}

/// How a checksum field is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SumWrite {
    /// Which.
    pub kind: SumKind,
    /// First byte of the IP header.
    pub header: i32,
    /// First byte of the checksum field.
    pub at: i32,
    /// It is computed anew over the packet as it is written, and `groups` do not count.
    pub anew: bool,
    /// Else: updates, in order; one group for each element that made one. Before a group a UDP checksum of zero is left
    /// alone.
    pub groups: Vec<Vec<SumTerm>>,
}

/// A header mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Mark {
    /// Not marked.
    #[default]
    None,
    /// Starts at this byte and has this many bytes (MAC header: 14 or what the element said).
    At(i32, u8),
    /// A network header that starts at this byte, and nothing behind it is marked.
    Alone(i32),
    /// As when the epoch began.
    Same,
}

impl Mark {
    /// First byte, where it is marked and known.
    pub fn start(self) -> Option<i32> {
        match self {
            Mark::At(at, _) | Mark::Alone(at) => Some(at),
            Mark::None | Mark::Same => None,
        }
    }
}

/// A packet type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TypeExpr {
    /// As when the epoch began.
    Same,
    /// This one ([`PacketType`] as a number).
    Is(u8),
    /// That of this destination address, as seen by a device with that address.
    Destination(Expr, Option<[u8; 6]>),
}

impl TypeExpr {
    /// The packet type of a destination address.
    pub fn of_address(dst: [u8; 6], device: Option<[u8; 6]>) -> PacketType {
        let a = EtherAddr(dst);
        if a.is_broadcast() {
            PacketType::Broadcast
        } else if a.is_group() {
            PacketType::Multicast
        } else if device.is_none_or(|d| d == dst) {
            PacketType::Host
        } else {
            PacketType::OtherHost
        }
    }
}

/// The packet at some place of the chain, as differences from what it was when the epoch began.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Image {
    /// First byte.
    pub start: i32,
    /// End.
    pub end: EndAt,
    /// Fields that are different; disjoint, ascending; checksum fields that follow are not among them.
    pub writes: Vec<Write>,
    /// Checksums that follow; applied behind `writes`, in order.
    pub sums: Vec<SumWrite>,
    /// Network header.
    pub net: Mark,
    /// MAC header.
    pub mac: Mark,
    /// All annotations but time stamp and ingress have been forgotten since the epoch began.
    pub cleared: bool,
    /// Annotations set since; ascending, disjoint.
    pub annos: Vec<(AnnoKey, Expr)>,
    /// Packet type.
    pub packet_type: TypeExpr,
}

impl Default for Image {
    /// The packet as it is.
    fn default() -> Self {
        Image {
            start: 0,
            end: EndAt::Same,
            writes: Vec::new(),
            sums: Vec::new(),
            net: Mark::Same,
            mac: Mark::Same,
            cleared: false,
            annos: Vec::new(),
            packet_type: TypeExpr::Same,
        }
    }
}

/// Where a packet goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Next {
    /// In this stage, within the same epoch.
    Stage(StageId),
    /// Dropped by this element as "unconnected output".
    Unconnected(ElemId),
    /// Nowhere: that cannot be. Should it be all the same, the rewriter is given the packet instead ([`End::Punt`]).
    Never,
}

/// What is expected of a binding; anything else leaves the action at this step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expect {
    /// A forward packet of a flow that began at the rewriter's input `port` of [`Step::Bind`], leaving at this output.
    pub output: u16,
    /// Which of source address, destination address, source port, destination port stay as they are.
    pub kept: [bool; 4],
    /// What the others are in (full sets for those kept).
    pub sets: [ValueSet; 4],
}

/// Something done in order, before the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// The element accounts for the packet.
    Count {
        /// Element.
        elem: ElemId,
        /// Its tag.
        tag: u16,
        /// Length there.
        len: LenAt,
    },
    /// A rewriter is asked for the binding.
    Bind {
        /// The rewriter.
        elem: ElemId,
        /// Its input.
        port: u16,
        /// What is looked up.
        kind: BindKind,
        /// The packet as it arrives there.
        image: Arc<Image>,
        /// Slots `first` to `first + 5`: new source address, destination address, source port, destination port, and
        /// the terms of the IP header's and the transport checksum.
        first: Slot,
        /// An annotation byte that replies get, and the slot that holds what it is then.
        anno: Option<(u8, Slot)>,
        /// With this outcome the action goes on.
        expect: Option<Expect>,
        /// For any other binding: where packets that leave at each output go on, with all slots filled.
        bound: Vec<Next>,
        /// What any other binding can be of, if that is told; a packet with one of no such kind is given to the
        /// rewriter instead.
        sides: Option<Vec<FlowSide>>,
        /// Where packets go on that are let through unchanged, per output.
        pass: Vec<Next>,
    },
}

/// How an action ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// The packet leaves the chain at this sink element.
    Output {
        /// The sink.
        sink: ElemId,
        /// What leaves.
        image: Arc<Image>,
    },
    /// Dropped.
    Drop {
        /// By whom.
        elem: ElemId,
        /// Why.
        reason: String,
    },
    /// The reference graph takes over.
    Punt {
        /// Element.
        elem: ElemId,
        /// Input.
        port: u16,
        /// Why.
        cause: String,
        /// The packet there.
        image: Arc<Image>,
    },
    /// The element is called; what it emits goes on, each in a new epoch, in the order emitted.
    Ask {
        /// Element.
        elem: ElemId,
        /// Input.
        port: u16,
        /// Why it must be asked.
        cause: String,
        /// The packet there.
        image: Arc<Image>,
        /// Stage for each output.
        outputs: Vec<Next>,
    },
    /// The packet is written out and goes on in a new epoch: somebody reads what was written in a way that has no
    /// closed form.
    Write {
        /// The packet.
        image: Arc<Image>,
        /// The stage.
        next: StageId,
    },
    /// Classified again, in the same epoch: by a value known at run time only, or because one list would have been too
    /// long.
    Goto(StageId),
    /// A copy for each but the last, which is the packet itself; each goes all its way before the next.
    Fork(Vec<Next>),
    /// Never reached: a step before it always leaves the action (a binding of which nothing is expected).
    Unreachable,
}

/// All that a chain (or the rest of it) does to one traffic class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Action {
    /// In order.
    pub steps: Vec<Step>,
    /// Then.
    pub end: End,
    /// Elements that a packet of the class passes from the stage's start on, when all expectations hold; to count
    /// operations.
    pub path: Vec<ElemId>,
}

/// Why a stage exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// Packets enter here.
    Entry,
    /// A value known at run time only is read.
    Dynamic,
    /// Behind a binding that was not the expected one.
    Bound,
    /// Copies.
    Copy,
    /// Behind an element that was asked.
    Asked,
    /// Behind a write-out.
    Written,
    /// The budget of rules was exceeded.
    Budget,
}

/// A list of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Where in the reference graph: element and input that comes next.
    pub at: (ElemId, u16),
    /// Why it exists.
    pub why: Why,
    /// An epoch begins here.
    pub fresh: bool,
    /// All that can be said of packets that come here.
    pub known: Filter,
    /// Where one filter does not say all: packets that come here fit one of these. Empty, or at least two.
    pub among: Vec<Filter>,
    /// First match.
    pub rules: Vec<Rule>,
    /// Actions; each is named by at least one rule.
    pub actions: Vec<Action>,
}

/// A slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotInfo {
    /// Width.
    pub bits: u8,
    /// What it may be.
    pub set: ValueSet,
}

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The source element (a device of the chain).
    pub source: ElemId,
    /// Where its packets begin.
    pub stage: StageId,
}

/// A synthesized chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// Names of the reference graph's elements, by [`ElemId`].
    pub elements: Vec<String>,
    /// One for each source.
    pub entries: Vec<Entry>,
    /// Stages.
    pub stages: Vec<Stage>,
    /// Slots.
    pub slots: Vec<SlotInfo>,
    /// What the synthesizer has to say: budgets exceeded, elements without a model.
    pub notes: Vec<String>,
    /// Of a partial program ([`crate::parts`]): names of places in later programs where packets go on.
    pub hands: Vec<String>,
    /// Of a partial program: where packets begin that earlier programs hand over under a name.
    pub takes: Vec<(String, StageId)>,
}

impl Dim {
    /// Width in bits, slots excepted (see [`Program::slots`]): 128.
    pub fn width(self) -> u8 {
        match self {
            Dim::Len => 32,
            Dim::Bits { bits, .. } => bits,
            Dim::Check { .. } => 1,
            Dim::Slot(_) => 128,
            Dim::Anno(a) => a.size.saturating_mul(8),
            Dim::PacketType => 8,
            Dim::Route { of, what, .. } => what.width(of.width()),
        }
    }
}
