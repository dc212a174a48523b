//! Leases: packets of a flow pass without their element being asked.
//!
//! Of nearly all packets of a known flow an element does nothing but note that they came. An element that says so
//! ([`Element::lease`](crate::Element::lease)) keeps what it notes in a [`FlowLease`], and whoever executes the chain
//! notes it there for *plain* packets (below), as long as the lease runs: there is one place for it, so that the
//! element never has to ask what has been noted, and time-outs are exact. A lease ends when anything else is changed
//! about the flow, or it goes ([`FlowLease::end`]): all that has been said under it before is void then, in both
//! directions, and packets are the element's again.
//!
//! A plain packet is one of IPv4 without options, no fragment, whose header says no more bytes than there are, and
//! - of TCP: a whole header, flags ACK alone or with any of PSH, ECE and CWR;
//! - of UDP: a length of eight bytes at least, and not more than IP's payload;
//!
//! with a right checksum, or one of zero in UDP, where the element wants checksums to be right
//! ([`BatchNeeds::checksums`](crate::BatchNeeds::checksums)). Whatever else comes is shown to the element.

use std::mem::offset_of;

/// No lease.
pub const NO_FLOW_LEASE: u32 = 0;

/// Different time-outs.
pub const LEASE_KINDS: usize = 4;

/// What is noted of a flow's packets.
///
/// Leases of a flow have numbers, and no number comes back with another flow of the same place: one whose numbers are
/// used up has no leases any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(32))]
pub struct FlowLease {
    /// The flow is over from this millisecond of the clock on, unless a packet comes before.
    pub expires: u64,
    /// Of a flow of [segments](FlowLease::SEGMENTS), the highest acknowledgement of each direction (original, reply),
    /// as numbers that begin again behind the last one are compared. Of others, see [`FlowLease::limit`].
    pub acks: [u32; 2],
    /// Of a flow of segments, the sequence number behind the last byte of the last one.
    pub end: u32,
    /// Beginnings and ends of leases: odd while one runs.
    number: u32,
    /// What is noted, and how long the flow stays behind each packet: one of the constants.
    pub kind: u8,
    /// Of a flow of segments: the last one was a reply.
    pub reply: bool,
    /// So that there is no byte that says nothing: whoever notes many packets has leases as words.
    rest: [u8; 6],
}

/// Where that is, for whoever has leases as [words](FlowLease::WORDS).
const _: () = assert!(
    size_of::<FlowLease>() == FlowLease::WORDS * 4
        && offset_of!(FlowLease, expires) == 0
        && offset_of!(FlowLease, acks) == FlowLease::ACKS * 4
        && offset_of!(FlowLease, end) == FlowLease::END * 4
        && offset_of!(FlowLease, kind) == FlowLease::KIND * 4
        && offset_of!(FlowLease, reply) == FlowLease::KIND * 4 + 1
);

impl FlowLease {
    /// Acknowledgements and ends of segments are noted.
    pub const SEGMENTS: u8 = 0;
    const _IS_LEAST: () = assert!(FlowLease::SEGMENTS == 0);
    /// There is a [limit](FlowLease::limit).
    pub const LIMITED: u8 = 1;
    /// Nothing is noted but time.
    pub const LASTING: u8 = 2;

    /// Words of 32 bits, the first two of which say when the flow is over.
    pub const WORDS: usize = 8;
    /// Which words acknowledgements are, from which on.
    pub const ACKS: usize = 2;
    /// Which word the last segment's end is.
    pub const END: usize = 4;
    /// Which word begins with the kind, and says behind it whether the last segment was a reply.
    pub const KIND: usize = 6;

    /// No number behind this one is given.
    const LAST: u32 = (u32::MAX >> 1) - 2;

    /// A [limited](FlowLease::LIMITED) lease holds up to this millisecond.
    #[inline(always)]
    pub fn limit(&self) -> u64 {
        let [low, high] = self.acks;
        u64::from(high) << 32 | u64::from(low)
    }
    /// See [`FlowLease::limit`].
    pub fn set_limit(&mut self, at: u64) {
        self.acks = [at as u32, (at >> 32) as u32];
    }

    /// The flow's plain packets that go this way are leased from now on: what is to be known of the lease to
    /// [note](FlowLease::note) one. [`NO_FLOW_LEASE`]: there is none.
    pub fn begin(&mut self, reply: bool) -> u32 {
        if self.number > FlowLease::LAST {
            return NO_FLOW_LEASE;
        }
        self.number |= 1;
        self.number << 1 | u32::from(reply)
    }

    /// Another flow has this place, or something about it has changed: no lease runs.
    #[inline]
    pub fn end(&mut self) {
        self.number += self.number & 1;
    }

    /// Another flow has this place, of which this has been noted so far.
    pub fn renew(&mut self, noted: FlowLease) {
        self.end();
        *self = FlowLease {
            number: self.number,
            ..noted
        };
    }

    /// Does this lease run at this millisecond?
    #[inline(always)]
    pub fn runs(&self, lease: u32, now: u64) -> bool {
        let limited = (self.kind == FlowLease::LIMITED) & (now > self.limit());
        let same = (self.number == lease >> 1) & (lease & 2 != 0);
        same & (now < self.expires) & !limited
    }

    /// Notes a plain packet at this millisecond, with its acknowledgement and the end of its segment; `stays`: how long
    /// the flow stays, by [kind](FlowLease::kind). False, and nothing happens, where the lease does not run. Nothing is
    /// branched on that differs from packet to packet.
    #[inline(always)]
    pub fn note(
        &mut self,
        lease: u32,
        now: u64,
        stays: &[u64; LEASE_KINDS],
        (ack, end): (u32, u32),
    ) -> bool {
        if !self.runs(lease, now) {
            return false;
        }
        let kind = usize::from(self.kind) % LEASE_KINDS;
        // All ones of a flow of segments, else zeros, and everything is written whatever the kind is: of what is
        // written under a condition compilers make a branch, which cannot be foreseen where TCP and UDP are mixed.
        let segments = ((i32::from(self.kind) - 1) >> 31) as u32;
        let reply = (lease & 1) as usize;
        let highest = self.acks[reply];
        let later = u32::from(ack.wrapping_sub(highest) as i32 > 0).wrapping_neg() & segments;
        self.acks[reply] = highest ^ (highest ^ ack) & later;
        self.end ^= (self.end ^ end) & segments;
        let replied = u32::from(self.reply);
        self.reply = (replied ^ (replied ^ lease) & segments) & 1 == 1;
        self.expires = now.saturating_add(stays[kind]);
        true
    }
}

/// The leases that an element gives; see [`Element::leases`](crate::Element::leases).
#[derive(Debug)]
pub struct FlowLeases<'a> {
    /// By the flow's hint, which is one more than its place here.
    pub all: &'a mut [FlowLease],
    /// How long a flow stays behind a packet, in milliseconds, by [`FlowLease::kind`].
    pub stays: [u64; LEASE_KINDS],
    /// Packets that have been noted: the element counts them as if it had inspected them.
    pub noted: &'a mut u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAYS: [u64; LEASE_KINDS] = [100, 10, 20, 0];

    fn one(kind: u8) -> FlowLease {
        FlowLease {
            expires: 50,
            kind,
            ..FlowLease::default()
        }
    }

    #[test]
    fn segments_are_noted_by_direction() {
        let mut l = one(FlowLease::SEGMENTS);
        let (there, back) = (l.begin(false), l.begin(true));
        assert_ne!(there, back);
        assert!(l.note(there, 1, &STAYS, (7, 9)));
        assert_eq!((l.acks, l.end, l.reply, l.expires), ([7, 0], 9, false, 101));
        assert!(l.note(back, 2, &STAYS, (3, 4)));
        assert_eq!((l.acks, l.end, l.reply, l.expires), ([7, 3], 4, true, 102));
        // an earlier acknowledgement, and one behind the last number
        assert!(l.note(there, 2, &STAYS, (6, 1)) && l.acks == [7, 3]);
        assert!(l.note(there, 2, &STAYS, (0x8000_0006, 1)) && l.acks == [0x8000_0006, 3]);
        assert!(l.note(there, 2, &STAYS, (2, 1)) && l.acks == [2, 3]);
    }

    #[test]
    fn what_is_over_is_not_noted() {
        let mut l = one(FlowLease::LASTING);
        let lease = l.begin(false);
        assert!(l.note(lease, 49, &STAYS, (1, 2)));
        assert_eq!((l.acks, l.end, l.expires), ([0; 2], 0, 69));
        let before = l;
        assert!(!l.note(lease, 69, &STAYS, (1, 2)) && l == before);
        let mut l = one(FlowLease::LIMITED);
        l.set_limit(5);
        assert_eq!(l.limit(), 5);
        let lease = l.begin(true);
        assert!(l.note(lease, 5, &STAYS, (1, 2)) && l.expires == 15 && l.limit() == 5);
        assert!(!l.note(lease, 6, &STAYS, (1, 2)) && l.expires == 15);
    }

    #[test]
    fn no_number_comes_back() {
        let mut l = one(FlowLease::LASTING);
        assert!(!l.note(NO_FLOW_LEASE, 1, &STAYS, (0, 0)));
        assert!(!l.note(1, 1, &STAYS, (0, 0)));
        let first = l.begin(false);
        assert_eq!(l.begin(false), first);
        l.end();
        l.end();
        assert!(!l.note(first, 1, &STAYS, (0, 0)));
        let second = l.begin(false);
        assert_ne!(first, second);
        l.renew(one(FlowLease::LASTING));
        assert!(!l.note(second, 1, &STAYS, (0, 0)));
        l.number = FlowLease::LAST;
        let last = l.begin(false);
        assert!(last != NO_FLOW_LEASE && l.note(last, 1, &STAYS, (0, 0)));
        l.end();
        assert_eq!(l.begin(false), NO_FLOW_LEASE);
        assert!(!l.note(last, 1, &STAYS, (0, 0)));
        l.renew(one(FlowLease::LASTING));
        assert_eq!(l.begin(true), NO_FLOW_LEASE);
    }
}
