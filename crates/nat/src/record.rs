//! What a flow table is made of: bindings, their time-out classes, and the rewriters that they belong to.

use crate::age_queue::NIL;
use crate::flow_id::{FlowId, checksum_addend, checksum_deltas, checksum_step};
use crate::kind::RewriterKind;
use crate::lease::{Leases, NO_LEASE, STAMP_BITS};
use crate::spec::InputSpec;
use onefold_packet::wire::tcp::flag;
use onefold_state::ElemId;

/// Time-out classes of one rewriter.
pub const CLASSES: usize = 5;
/// One binding.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Record {
    /// What packets of the forward direction look like when they arrive.
    pub(crate) forward: FlowId,
    /// What packets of the reply direction look like when they arrive.
    pub(crate) reply: FlowId,
    /// When it was last used: milliseconds, then a running number.
    pub(crate) stamp: u64,
    pub(crate) ip_delta: u16,
    pub(crate) port_delta: u16,
    /// Output of each direction.
    pub(crate) output: [u16; 2],
    /// Rewriter and protocol map: twice the member's number, plus one for IPRewriter's UDP.
    pub(crate) map: u16,
    /// Input that the first packet came in at: the flow's origin.
    pub(crate) input: u16,
    pub(crate) generation: u32,
    /// Index of the sequence number shifts, [`NIL`] for none.
    pub(crate) shifts: u32,
    /// Number of its last filing in an age queue; it goes on when the record is used again.
    pub(crate) filing: u32,
    pub(crate) ip_p: u8,
    /// The connection's state so far; see [`Track`].
    pub(crate) flags: u8,
    /// Annotation value that replies get.
    pub(crate) reply_anno: u8,
    /// Is a binding in it, and has it a mapping?
    pub(crate) usage: Usage,
    /// The lease that knows its last use, too, or [`NO_LEASE`].
    pub(crate) lease: u32,
}

// what is found at random touches one line
const _: () = assert!(size_of::<Record>() == 64);

impl Default for Record {
    fn default() -> Self {
        Record {
            forward: FlowId::default(),
            reply: FlowId::default(),
            stamp: 0,
            ip_delta: 0,
            port_delta: 0,
            output: [0; 2],
            map: 0,
            input: 0,
            generation: 0,
            shifts: NIL,
            filing: 0,
            ip_p: 0,
            flags: 0,
            reply_anno: 0,
            usage: Usage::Unused,
            lease: NO_LEASE,
        }
    }
}

/// Whether a binding is in a record, and which of its ends has a mapping (see [`crate::endpoints`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Usage {
    /// There is no binding in it.
    #[default]
    Unused,
    /// Neither end.
    Plain,
    /// The source of forward packets, which became another one.
    MappedSource,
    /// The destination of forward packets, which became another one.
    MappedDestination,
}

impl Record {
    /// A binding is in it.
    #[inline(always)]
    pub(crate) fn used(&self) -> bool {
        self.usage != Usage::Unused
    }
    /// What packets of a direction look like when they arrive.
    #[inline]
    pub fn key(&self, reply: bool) -> FlowId {
        if reply { self.reply } else { self.forward }
    }
    /// What packets of a direction look like when they leave.
    #[inline]
    pub fn rewritten(&self, reply: bool) -> FlowId {
        self.key(!reply).reversed()
    }
    /// Where packets of a direction leave.
    #[inline]
    pub fn output(&self, reply: bool) -> usize {
        usize::from(self.output[usize::from(reply)])
    }
    /// What a direction adds to the one's complement sum of the addresses, and of addresses and ports (of an ICMP
    /// message: of the identifier). Zero stands for "the checksum is not touched".
    #[inline]
    pub fn checksum_shifts(&self, reply: bool) -> (u16, u16) {
        // forward packets subtract what is stored; nothing stays nothing
        let side = |d: u16| if reply || d == 0 { d } else { !d };
        (side(self.ip_delta), side(self.port_delta))
    }
    /// What is added to the one's complements of the checksums of packets of a direction: see [`checksum_addend`].
    #[inline]
    pub fn checksum_addends(&self, reply: bool) -> (u16, u16) {
        let of = |delta| checksum_addend(delta, reply);
        (of(self.ip_delta), of(self.port_delta))
    }
    /// Sequence numbers are shifted: not to be folded.
    #[inline]
    pub fn shifts_sequence_numbers(&self) -> bool {
        self.shifts != NIL
    }
    /// The flow's IP protocol; zero where the rewriter knows none.
    pub fn ip_protocol(&self) -> u8 {
        self.ip_p
    }
    /// Tracking flags: the connection's state so far.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.flags
    }
    /// The annotation value that replies get.
    #[inline]
    pub fn reply_anno(&self) -> u8 {
        self.reply_anno
    }
    /// Input that the flow's first packet came in at.
    #[inline]
    pub fn origin(&self) -> usize {
        usize::from(self.input)
    }
    /// Takes over the last use that a lease knows of.
    #[inline]
    pub(crate) fn settle(&mut self, leases: Option<&Leases>) {
        self.stamp = self.last_use(leases);
    }
    /// The stamp of the last use, by the record or its lease.
    #[inline]
    pub(crate) fn last_use(&self, leases: Option<&Leases>) -> u64 {
        match (self.lease, leases) {
            (NO_LEASE, _) | (_, None) => self.stamp,
            (l, Some(all)) => self.stamp.max(all.last_use(l)),
        }
    }
    #[inline]
    pub(crate) fn last_ms(&self) -> u64 {
        self.stamp >> STAMP_BITS
    }
}

/// A record and its generation: valid until the record is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRef {
    /// Index.
    pub record: u32,
    /// Generation at the time.
    pub generation: u32,
}

/// A record and the direction in which a packet matched it.
pub type Hit = (u32, bool);

/// How a map's flows are followed, which decides their time-out class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track {
    /// Not at all: class 0.
    None,
    /// TCP: classes 0 (data one way at most), 1 (data both ways), 2 (closed); where [`Member::handshake`] is set an
    /// acknowledgement counts as data.
    Tcp,
    /// UDP: the given class until the flow streams, then class 4.
    Udp(u8),
}

/// TCP: the forward side has closed; `<< 1` the reply side.
pub(crate) const TCP_DONE: u8 = 1;
/// TCP: the forward side has sent data; `<< 1` the reply side.
pub(crate) const TCP_DATA: u8 = 4;

impl Track {
    /// The time-out class of a flow with these tracking flags.
    #[inline]
    pub fn class(self, flags: u8) -> usize {
        match self {
            Track::None => 0,
            Track::Tcp if flags & 3 == 3 => 2,
            Track::Tcp if flags & 12 == 12 => 1,
            Track::Tcp => 0,
            // three packets or more, and one of them a reply
            Track::Udp(_) if flags > 6 => 4,
            Track::Udp(first) => usize::from(first),
        }
    }
}

/// A time-out class, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeout {
    /// A silent flow is swept after so long.
    pub expire: u64,
    /// A flow is not evicted before it has been silent for so long; 0 for no such promise.
    pub guarantee: u64,
}

/// One rewriter of the table.
#[derive(Debug, Clone)]
pub struct Member {
    /// The rewriter.
    pub elem: ElemId,
    /// Which kind it is of.
    pub kind: RewriterKind,
    /// Per input: the specification, and the configuration argument that it stands in.
    pub specs: Vec<(InputSpec, usize)>,
    /// By time-out class.
    pub timeouts: [Timeout; CLASSES],
    /// How flows of the two maps are followed.
    pub track: [Track; 2],
    /// Connected outputs.
    pub noutputs: usize,
    /// A new flow takes the place of one with the same replies, where its specification leaves no choice; else it is
    /// refused.
    pub take_over: bool,
    /// Flows of an inside address and port have one outside address and port, whomever they go to (RFC 4787 REQ-1),
    /// which no other has (REQ-3).
    pub endpoints: bool,
    /// Outside addresses and ports that no such flows get, with the protocol of IPRewriter's.
    pub reserved: Vec<(u8, u32, u16)>,
    /// A TCP connection is established when both sides have acknowledged something; else when both have sent data.
    pub handshake: bool,
    /// Per input: flows that it has created and that are alive, and flows that it could not create.
    pub inputs: Vec<Counts>,
}

impl Member {
    /// TCP's control bits that count as data where it is told whether a connection is established.
    #[inline]
    pub fn acks(&self) -> u8 {
        if self.handshake { flag::ACK } else { 0 }
    }
}

/// What an input specification has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Flows that it has created and that are alive.
    pub flows: u32,
    /// Flows that it could not create.
    pub failures: u32,
}

/// A binding to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFlow {
    pub map: u16,
    pub input: u16,
    pub ip_p: u8,
    pub flow: FlowId,
    /// Of the flow, in its map.
    pub hash: u32,
    pub rewritten: FlowId,
    pub outputs: (usize, usize),
    /// The ports are a ping's identifiers: only the source is on the wire.
    pub ping: bool,
    /// It has just been found out that no flow has such replies.
    pub free: bool,
    /// Its tracking flags behind the packet that makes it.
    pub flags: u8,
    /// Which end has a mapping.
    pub usage: Usage,
}

impl NewFlow {
    /// What it will do to checksums over addresses, and over addresses and ports.
    #[inline(always)]
    pub fn deltas(&self) -> (u16, u16) {
        let (ip, port) = checksum_deltas(self.flow, self.rewritten);
        match self.ping {
            true => (ip, checksum_step(0, self.flow.sport, self.rewritten.sport)),
            false => (ip, port),
        }
    }
}
