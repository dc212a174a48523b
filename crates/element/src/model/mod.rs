//! Symbolic models: what an element does to a packet, as data.
//!
//! A model says, for one input of one configured element: which fields it reads, in which cases it does what, which
//! fields it writes with which values, and where each case leaves. The synthesizer composes models along a chain; tests
//! compare every model with the element's behaviour ([`crate::Element::push`], which stays the meaning).
//!
//! - A model is a list of [`Case`]s, tried in order: the first whose condition holds is taken. The list is exhaustive.
//! - Fields are named by a [`Base`] and a bit offset *in the packet as it is at this element*. Conditions and values of
//!   one case are read **before** any of its operations; operations then take place in order.
//! - A model never reads a field that may lie behind the packet's end: it asks for [`Read::Len`] (or `NetLen`,
//!   `TransportLen`) first, or punts. Unsure, difficult, rare: [`Exit::Punt`] with a cause. Honest, but not free.
//! - A network header counts as an IPv4 header of 20 bytes wherever a model uses [`Base::Transport`]: a case that would
//!   mark another header length punts ("IP options"), so that every offset is a constant.
//! - Counters are [`Op::Count`]: the element's [`crate::Element::account`] then does what `push` would have done.
//!
//! Source: thesis of G. Katsikas, section 7.2 (processing units as lists of cases); the words are those of the design.

pub mod build;
mod flows;
pub mod interp;
pub mod rng;
mod route;
pub mod set;
pub mod solve;

pub use flows::{BITS as BIND_BITS, FlowKind, FlowSide};
pub use route::RouteWhat;
pub use set::{ValueSet, max_of};

use crate::DropReason;
use crate::StateStore;
use crate::{ElemId, Port};
use onefold_packet::{AnnoField, EtherAddr, PacketType, Timestamp};

/// Visits of one packet at a `LoopGuard`, unless its LIMIT says otherwise: the same bound that synthesis follows cycles
/// to.
pub const MAX_ROUNDS: u8 = 32;

/// What an offset counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The first byte of the packet as it is.
    Data,
    /// The marked MAC header.
    Mac,
    /// The marked network header.
    Net,
    /// What follows the network header.
    Transport,
}

/// Up to 128 bits of a packet, most significant first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRef {
    /// Where counting starts.
    pub base: Base,
    /// First bit.
    pub bit: u16,
    /// Number of bits, 1 to 128.
    pub bits: u8,
}

/// Shorthand for a [`FieldRef`] of whole bytes.
pub const fn bytes(base: Base, byte: u16, n: u8) -> FieldRef {
    FieldRef {
        base,
        bit: byte * 8,
        bits: n * 8,
    }
}

/// Shorthand for a [`FieldRef`].
pub const fn bits(base: Base, bit: u16, bits: u8) -> FieldRef {
    FieldRef { base, bit, bits }
}

/// Fields by name; IPv4 and IPv6 fields from the marked network header, ports from the transport header.
#[rustfmt::skip]
pub mod field {
    use super::{Base, FieldRef, bits, bytes};
    /// IPv4 version.
    pub const IP_VERSION: FieldRef = bits(Base::Net, 0, 4);
    /// IPv4 header length in words.
    pub const IP_IHL: FieldRef = bits(Base::Net, 4, 4);
    /// IPv4 type of service: DSCP and ECN.
    pub const IP_TOS: FieldRef = bytes(Base::Net, 1, 1);
    /// IPv4 DSCP.
    pub const IP_DSCP: FieldRef = bits(Base::Net, 8, 6);
    /// IPv4 ECN.
    pub const IP_ECN: FieldRef = bits(Base::Net, 14, 2);
    /// IPv4 total length.
    pub const IP_LEN: FieldRef = bytes(Base::Net, 2, 2);
    /// IPv4 identification.
    pub const IP_ID: FieldRef = bytes(Base::Net, 4, 2);
    /// IPv4 flags: reserved, DF, MF.
    pub const IP_FLAGS: FieldRef = bits(Base::Net, 48, 3);
    /// IPv4 fragment offset, in units of eight bytes.
    pub const IP_FRAGOFF: FieldRef = bits(Base::Net, 51, 13);
    /// IPv4 time to live.
    pub const IP_TTL: FieldRef = bytes(Base::Net, 8, 1);
    /// IPv4 protocol.
    pub const IP_PROTO: FieldRef = bytes(Base::Net, 9, 1);
    /// IPv4 header checksum.
    pub const IP_SUM: FieldRef = bytes(Base::Net, 10, 2);
    /// IPv4 source.
    pub const IP_SRC: FieldRef = bytes(Base::Net, 12, 4);
    /// IPv4 destination.
    pub const IP_DST: FieldRef = bytes(Base::Net, 16, 4);
    /// IPv6 hop limit.
    pub const IP6_HLIM: FieldRef = bytes(Base::Net, 7, 1);
    /// IPv6 next header.
    pub const IP6_NEXT: FieldRef = bytes(Base::Net, 6, 1);
    /// IPv6 payload length.
    pub const IP6_PLEN: FieldRef = bytes(Base::Net, 4, 2);
    /// IPv6 source.
    pub const IP6_SRC: FieldRef = bytes(Base::Net, 8, 16);
    /// IPv6 destination.
    pub const IP6_DST: FieldRef = bytes(Base::Net, 24, 16);
    /// Source port of TCP and UDP.
    pub const SPORT: FieldRef = bytes(Base::Transport, 0, 2);
    /// Destination port of TCP and UDP.
    pub const DPORT: FieldRef = bytes(Base::Transport, 2, 2);
    /// TCP flags.
    pub const TCP_FLAGS: FieldRef = bytes(Base::Transport, 13, 1);
    /// ICMP type.
    pub const ICMP_TYPE: FieldRef = bytes(Base::Transport, 0, 1);
    /// ICMP code.
    pub const ICMP_CODE: FieldRef = bytes(Base::Transport, 1, 1);
    /// Ethernet destination, where the packet begins with an Ethernet header.
    pub const ETH_DST: FieldRef = bytes(Base::Data, 0, 6);
    /// Ethernet source.
    pub const ETH_SRC: FieldRef = bytes(Base::Data, 6, 6);
    /// Ethernet type.
    pub const ETH_TYPE: FieldRef = bytes(Base::Data, 12, 2);
}

/// A yes-or-no question about a whole header, which no set of field values answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderCheck {
    /// The IPv4 total length is at most the number of bytes from the header's start to the packet's end.
    Ip4Fits,
    /// The IPv4 header checksum (over IHL words) is right.
    Ip4Checksum,
    /// The IPv6 payload length plus 40 is at most the number of bytes from the header's start to the packet's end.
    Ip6Fits,
    /// IPv4, option-free: the TCP checksum over what the total length says is right.
    TcpChecksum,
    /// IPv4, option-free: the UDP checksum over what the UDP length says is right (zero counts as wrong: ask before).
    UdpChecksum,
    /// IPv4, option-free: the ICMP checksum over what the total length says is right.
    IcmpChecksum,
    /// IPv4, option-free: the UDP length is at least 8 and at most the total length less 20.
    UdpFits,
}

/// What a condition looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Read {
    /// Bits of the packet.
    Field(FieldRef),
    /// An annotation of 1, 2, 4, 8 or 16 bytes, its bytes taken as a big-endian number.
    Anno(AnnoKey),
    /// The packet-type annotation, as the number of [`PacketType`].
    PacketType,
    /// Bytes of the packet as it is.
    Len,
    /// Bytes from the network header to the packet's end.
    NetLen,
    /// Bytes from the transport header to the packet's end; 0 if a network header is marked, but nothing that follows
    /// it.
    TransportLen,
    /// 1 if a network header is marked, else 0.
    HasNet,
    /// 1 if a MAC header is marked, else 0.
    HasMac,
    /// Where this header begins, in bytes from the packet's first one, plus [`AT_ZERO`]; 0 if it is not marked. (With
    /// every offset a constant, this is known without looking at a packet.)
    At(Base),
    /// The question about the header that starts `offset` bytes behind `base` (Data or Net): 1 for yes.
    Check {
        /// The question.
        check: HeaderCheck,
        /// Data or Net.
        base: Base,
        /// Bytes behind it.
        offset: u16,
    },
    /// What a look-up element's route table, or an element's table of neighbours, says of the address in an annotation,
    /// when the packet comes. What is in the table is no part of the model: a route that changes changes no model.
    Route {
        /// The element whose table it is.
        table: ElemId,
        /// Where the address is.
        anno: AnnoKey,
        /// What is asked.
        what: RouteWhat,
    },
}

/// What [`Read::At`] gives for a header at the packet's first byte; less than that lies before it.
pub const AT_ZERO: u128 = 0x8000;

/// An annotation's place: [`AnnoField`] with an order, so that it can be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AnnoKey {
    /// First byte, 0 to 47.
    pub offset: u8,
    /// Bytes.
    pub size: u8,
}

impl From<AnnoField> for AnnoKey {
    fn from(f: AnnoField) -> Self {
        AnnoKey {
            offset: f.offset,
            size: f.size,
        }
    }
}

impl Read {
    /// Width in bits.
    pub fn width(self) -> u8 {
        match self {
            Read::Field(f) => f.bits,
            Read::Anno(a) => a.size.saturating_mul(8),
            Read::PacketType => 8,
            Read::Len | Read::NetLen | Read::TransportLen => 32,
            Read::At(_) => 16,
            Read::HasNet | Read::HasMac | Read::Check { .. } => 1,
            Read::Route { anno, what, .. } => what.width(anno.size.saturating_mul(8)),
        }
    }
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cond {
    /// Holds.
    Always,
    /// Does not hold.
    Never,
    /// The value read is in the set.
    In(Read, ValueSet),
    /// `field & mask == value`, for masks that are no interval (Classifier's patterns, flags).
    Masked {
        /// The bits looked at.
        field: FieldRef,
        /// Those that count.
        mask: u128,
        /// What they must be; a subset of the mask.
        value: u128,
    },
    /// All of them hold.
    All(Vec<Cond>),
    /// At least one holds.
    Any(Vec<Cond>),
    /// It does not hold.
    Not(Box<Cond>),
}

impl Cond {
    /// The field has this value.
    pub fn eq(f: FieldRef, v: u128) -> Cond {
        Cond::In(Read::Field(f), ValueSet::one(v))
    }
    /// The field lies in an interval, both ends included.
    pub fn between(f: FieldRef, lo: u128, hi: u128) -> Cond {
        Cond::In(Read::Field(f), ValueSet::range(lo, hi))
    }
    /// The value read is at least `n`.
    pub fn at_least(r: Read, n: u128) -> Cond {
        Cond::In(r, ValueSet::range(n, max_of(r.width())))
    }
    /// The value read is less than `n`.
    pub fn less(r: Read, n: u128) -> Cond {
        match n.checked_sub(1) {
            Some(m) => Cond::In(r, ValueSet::range(0, m)),
            None => Cond::Never,
        }
    }
    /// A network header is marked.
    pub fn has_net() -> Cond {
        Cond::In(Read::HasNet, ValueSet::one(1))
    }
    /// The opposite.
    #[allow(clippy::should_implement_trait)]
    pub fn not(self) -> Cond {
        Cond::Not(Box::new(self))
    }
    /// Both hold.
    pub fn and(self, other: Cond) -> Cond {
        match self {
            Cond::All(mut l) => {
                l.push(other);
                Cond::All(l)
            }
            c => Cond::All(vec![c, other]),
        }
    }
    /// One of them holds.
    pub fn or(self, other: Cond) -> Cond {
        match self {
            Cond::Any(mut l) => {
                l.push(other);
                Cond::Any(l)
            }
            c => Cond::Any(vec![c, other]),
        }
    }
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value {
    /// This number.
    Const(u128),
    /// What this was before the case's operations: a field or annotation.
    Of(Read),
    /// The same, plus a number, modulo two to the target's width (a decrement adds the largest value).
    Plus(Read, u128),
}

/// Which checksums follow a write, *incrementally*: a wrong one stays wrong (RFC 1624, equation 3, for each 16-bit word
/// that the field touches).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fix {
    /// None.
    Nothing,
    /// The IPv4 header checksum of the marked network header.
    Ip4,
    /// The checksum of TCP, or of UDP unless it is zero.
    Transport,
    /// Both.
    Both,
}

/// A checksum that is computed anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Checksum {
    /// The IPv4 header's, over its header length.
    Ip4,
    /// TCP's, over what the IPv4 total length says.
    Tcp,
    /// UDP's, over what the UDP length says.
    Udp,
}

/// Where a packet type comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeOf {
    /// This one.
    Is(PacketType),
    /// The Ethernet destination at the packet's start, as a device with this address sees it (`None`: any unicast
    /// address is its own): [`onefold_packet::wire::ethernet::Header::packet_type`]. The packet is at least 14 bytes
    /// long.
    Destination(Option<EtherAddr>),
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Writes a field.
    Write {
        /// Where.
        field: FieldRef,
        /// What.
        value: Value,
        /// Checksums that follow.
        fix: Fix,
    },
    /// Computes a checksum anew, whatever stood there.
    Recompute(Checksum),
    /// Sets an annotation.
    SetAnno(AnnoKey, Value),
    /// Forgets all annotations but time stamp and ingress, and the marked headers: what a link does.
    ClearAnnos,
    /// Sets the packet type.
    SetPacketType(TypeOf),
    /// Bytes go at the front.
    Pull(u16),
    /// Bytes come at the front; each is written by an operation that follows in the same case.
    Push(u16),
    /// Bytes come back at the front, with what stood there before they were pulled.
    Unpull(u16),
    /// What lies behind the end of the IPv4 packet that starts at this offset goes. (It is known to fit.)
    TrimToIp4 {
        /// Bytes from the packet's start to the IPv4 header.
        at: u16,
    },
    /// What lies behind the end of the IPv6 packet that starts at this offset (40 bytes and the payload length) goes.
    /// (It is known to fit.)
    TrimToIp6 {
        /// Bytes from the packet's start to the IPv6 header.
        at: u16,
    },
    /// Marks the network header.
    SetNet {
        /// Bytes from the packet's start.
        at: i16,
        /// Its length: 20 for IPv4, 40 for IPv6, else as marked.
        len: u8,
    },
    /// Marks the network header alone: what follows it stays where it is marked, if it is.
    MoveNet {
        /// Bytes from the packet's start.
        at: i16,
    },
    /// The packet begins with this marked header (Net or Transport): bytes go, or come back with what stood there
    /// before they were pulled. The header begins at or before the packet's end.
    StartAt(Base),
    /// The time stamp becomes this one, or the present.
    SetTime(Option<Timestamp>),
    /// Marks the MAC header.
    SetMac {
        /// Bytes from the packet's start.
        at: i16,
    },
    /// No network header any more.
    ClearNet,
    /// No MAC header any more.
    ClearMac,
    /// The element accounts for the packet, as long as it is now: [`crate::Element::account`] with this tag.
    Count(u16),
}

/// What becomes of a rewritten field, of packets that begin a flow at this input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rewritten {
    /// It stays.
    Kept,
    /// It becomes one of these, chosen at run time (a constant, when there is but one).
    To(ValueSet),
}

/// Which fields a binding is found by, and rewrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BindKind {
    /// Addresses and ports of TCP or UDP (option-free, not a later fragment, transport header there).
    Flow,
    /// Addresses only.
    Addresses,
    /// Addresses and the identifier of an ICMP echo message.
    Ping,
}

/// What packets of new flows get at this input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expected {
    /// Where they leave.
    pub output: Port,
    /// Source address.
    pub saddr: Rewritten,
    /// Destination address.
    pub daddr: Rewritten,
    /// Source port; the identifier of a ping.
    pub sport: Rewritten,
    /// Destination port.
    pub dport: Rewritten,
}

/// Whether a binding's destination becomes the destination annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DstAnno {
    /// It stays.
    Kept,
    /// It becomes the rewritten destination.
    Rewritten,
    /// It does for replies; forward packets of flows that begin at this input keep theirs. (Of forward packets of other
    /// flows, [`crate::Element::bind`] tells only those whose annotation is their destination.)
    OfReplies,
}

/// A stateful rewriter is asked for the packet's binding ([`crate::Element::bind`]), which may be made now; the packet
/// is rewritten by it, checksums follow incrementally, and leaves at the binding's output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bind {
    /// By what.
    pub kind: BindKind,
    /// What forward packets of flows that begin at this input get; `None` when none begin here (only replies pass).
    pub expected: Option<Expected>,
    /// Every kind of flow that bindings can be of, of all inputs of this rewriter: an input that is not named begins
    /// none.
    pub flows: Vec<FlowKind>,
    /// Bindings are found by the source address alone, those of replies by the destination address.
    pub source_only: bool,
    /// Packets have no bindings of flows of another protocol.
    pub by_protocol: bool,
    /// What becomes of the destination annotation.
    pub dst_anno: DstAnno,
    /// This annotation byte is set on packets of the reply direction ([`Binding::anno`]).
    pub reply_anno: Option<u8>,
    /// Where packets without a binding leave unchanged, if this input lets them through.
    pub pass: Option<Port>,
}

/// Where a case leaves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Exit {
    /// At this output ("unconnected output" where nothing is connected).
    Port(Port),
    /// At this output if it is connected, else the packet is dropped for this reason.
    PortOrDrop(Port, DropReason),
    /// Copies leave at these outputs, in this order; the packet itself at the last.
    Each(Vec<Port>),
    /// The packet is dropped.
    Drop(DropReason),
    /// The packet leaves the graph here.
    Transmit,
    /// A binding decides.
    Bind(Box<Bind>),
    /// The element itself is called with the packet as it is there and decides (payload, time, chance, order). It
    /// leaves bytes and annotations of what it emits as they were, keeps nothing for later and makes nothing new but
    /// copies.
    Ask(&'static str),
    /// The reference graph takes over here, for this cause.
    Punt(&'static str),
}

/// One case of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// When.
    pub when: Cond,
    /// What is done.
    pub ops: Vec<Op>,
    /// Where it leaves.
    pub exit: Exit,
    /// The configuration argument that made this case (a rule, a route, a pattern): provenance.
    pub origin: Option<usize>,
    /// No argument decides here: it is what a list of rules does with packets that none of them fits.
    pub policy: bool,
}

impl Case {
    /// A case that does nothing but send the packet somewhere.
    pub fn new(when: Cond, exit: Exit) -> Case {
        Case {
            when,
            ops: Vec::new(),
            exit,
            origin: None,
            policy: false,
        }
    }
    /// Says that no rule of a list decides here.
    pub fn policy(mut self) -> Case {
        self.policy = true;
        self
    }
    /// Adds operations.
    pub fn with(mut self, ops: impl IntoIterator<Item = Op>) -> Case {
        self.ops.extend(ops);
        self
    }
    /// Says which argument made it.
    pub fn from_arg(mut self, index: usize) -> Case {
        self.origin = Some(index);
        self
    }
}

/// What one input of an element does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Model {
    /// The first case that holds.
    Cases(Vec<Case>),
    /// There is no model: every packet is punted here, for this cause.
    None(&'static str),
}

impl Model {
    /// Whatever comes leaves at output 0, with these operations.
    pub fn pass(ops: impl IntoIterator<Item = Op>) -> Model {
        Model::Cases(vec![Case::new(Cond::Always, Exit::Port(0)).with(ops)])
    }
    /// The element itself is asked; see [`Exit::Ask`].
    pub fn ask(cause: &'static str) -> Model {
        Model::Cases(vec![Case::new(Cond::Always, Exit::Ask(cause))])
    }
}

/// What an element knows while it tells its model.
pub struct ModelCx<'a> {
    /// This element.
    pub elem: ElemId,
    /// Connected inputs.
    pub ninputs: usize,
    /// Connected outputs.
    pub noutputs: usize,
    /// Shared state.
    pub store: &'a StateStore,
}

/// A packet as a rewriter's [`crate::Element::bind`] wants it: the fields as they are at the rewriter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindPacket {
    /// IP protocol.
    pub proto: u8,
    /// Source address.
    pub saddr: u32,
    /// Destination address.
    pub daddr: u32,
    /// The first eight bytes of the transport header.
    pub head: [u8; 8],
    /// Bytes 12 and 13 of the transport header (TCP: header length and flags); zero when they are not there.
    pub tcp: [u8; 2],
    /// Bytes from the transport header to the packet's end.
    pub transport_len: usize,
    /// IPv4 total length.
    pub total_len: u16,
    /// The user annotations.
    pub anno: [u8; 48],
}

impl Default for BindPacket {
    fn default() -> BindPacket {
        BindPacket {
            proto: 0,
            saddr: 0,
            daddr: 0,
            head: [0; 8],
            tcp: [0; 2],
            transport_len: 0,
            total_len: 0,
            anno: [0; 48],
        }
    }
}

/// A binding as applied to one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Binding {
    /// Input that the flow's first packet came in at.
    pub origin: u16,
    /// The packet is one of the reply direction.
    pub reply: bool,
    /// Output that it leaves at.
    pub output: u16,
    /// New source address.
    pub saddr: u32,
    /// New destination address.
    pub daddr: u32,
    /// New source port (the identifier of a ping).
    pub sport: u16,
    /// New destination port.
    pub dport: u16,
    /// What is added to the one's complement of the IP header checksum.
    pub ip_sum: u16,
    /// What is added to the one's complement of the transport checksum. (A ping of nothing but zeros then gets all
    /// ones.)
    pub transport_sum: u16,
    /// An annotation byte to set: place and value.
    pub anno: Option<(u8, u8)>,
}

/// What [`crate::Element::bind`] answers. All effects on the rewriter's own state (new binding, time stamps, connection
/// state) have taken place, except with [`Bound::Punt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// By this binding.
    To(Binding),
    /// Unchanged, to this output.
    Pass(Port),
    /// Dropped.
    Drop(DropReason),
    /// Nothing has happened: push the packet into the element instead.
    Punt(&'static str),
}
