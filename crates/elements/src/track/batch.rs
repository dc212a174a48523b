//! Packets of established connections, many at a time.
//!
//! Where the record of each packet's connection is has been kept with its flow. It is asked whether all of them leave
//! their connections as they are, but for how long these stay and what is remembered of their numbers; then that is
//! done. Whether a packet does does not depend on the packets of the run in front of it: what is done to a connection
//! for one of them ends no connection and changes no state. So questions may be asked of all first, without a branch on
//! what differs from packet to packet (TCP or UDP, which end is the first one), and what is done for TCP and for UDP,
//! which share no connection, in two loops.
//!
//! A connection whose packets do nothing else is leased ([`FlowLease`]): its plain packets do not come here then.

use super::class::{ConnClass, ConnState};
use super::headers::{TCP, UDP};
use super::key::ConnKey;
use super::table::{
    ASSURED, ConnTable, DNAT, FLIPPED, OWN_REPLIES, Record, SEEN_REPLY, SNAT, USED,
};
use super::tcp::{Segment, State};
use onefold_element::{
    FlowLease, FlowLeases, Inspected, InspectedBatch, LEASE_KINDS, NO_FLOW_LEASE,
};
use onefold_packet::wire::{ipv4, ipv6};
use onefold_table::prefetch;

/// Packets that are looked at together, at most: as many as a word has bits.
const MOST: usize = 64;

/// Which packets of established connections leave at the first output: a bit each, by direction, by whether their
/// connection is assured, and by which of its ends are translated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lets(u16);

impl Lets {
    /// Those of these classes.
    pub fn of(first: impl Fn(ConnClass) -> bool) -> Lets {
        let mut lets = 0;
        for bit in 0..16u32 {
            let class = ConnClass {
                snat: bit & 4 != 0,
                dnat: bit & 8 != 0,
                ..ConnClass::established(bit & 1 != 0, bit & 2 != 0)
            };
            lets |= u16::from(first(class)) << bit;
        }
        Lets(lets)
    }
    #[inline(always)]
    fn has(self, reply: bool, status: u8) -> bool {
        const { assert!(SNAT == 16 && DNAT == 32) };
        let assured = status & ASSURED != 0;
        let translated = u32::from(status & (SNAT | DNAT)) >> 2;
        self.0 >> (u32::from(reply) | u32::from(assured) << 1 | translated) & 1 != 0
    }
}

/// Of a packet's bytes what is asked first.
struct Usual<'a> {
    /// Whether it is a reply, if it is of the record's connection.
    reply: Option<bool>,
    /// Behind the IP header; of UDP there may be less than that in the packet.
    upper: &'a [u8; 20],
    /// Bytes behind the IP header, as that says.
    len: usize,
    is_tcp: bool,
    /// Its [checksum](InspectedBatch::right), if those count.
    right: bool,
}

/// The first ones, and zeros where there are none.
#[cold]
fn few<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}

impl ConnTable {
    /// [`ConnTable::refresh`] of packets one behind the other, each with the hint that was given for its flow: how many
    /// of them have been, from the first one on. Nothing has happened for the others. Hints stay as they are.
    pub fn refresh_batch(&mut self, b: &InspectedBatch<'_>, now: u64, lets: Lets) -> usize {
        if !self.gives_leases() {
            return 0;
        }
        let n = b.packets.len().min(b.hints.len()).min(MOST);
        let right = match (self.settings.checksum, b.right) {
            (false, _) => u64::MAX,
            (true, Some(right)) => right,
            (true, None) => return 0,
        };
        let (run, hints) = (&b.packets[..n], &b.hints[..n]);
        for hint in hints {
            let at = hint.wrapping_sub(1) as usize;
            if let (Some(r), Some(n)) = (self.records.get(at), self.noted.get(at)) {
                prefetch(r);
                prefetch(n);
            }
        }
        // a bit for each packet: those of TCP, and those that go against their connection's direction
        let (mut tcp, mut replies, mut n) = (0u64, 0u64, 0);
        for (i, (p, hint)) in run.iter().zip(hints).enumerate() {
            let right = right >> i & 1 != 0;
            let Some(reply) = self.stays_as_it_is(p, (*hint, right), now, lets) else {
                break;
            };
            tcp |= u64::from(p.protocol == TCP) << i;
            replies |= u64::from(reply) << i;
            n += 1;
        }
        self.go_on(run, hints, now, (tcp, replies, n));
        n
    }

    /// A packet is of the connection that its hint says, and leaves it as it is: whether it is a reply.
    #[inline(always)]
    fn stays_as_it_is(
        &self,
        p: &Inspected<'_>,
        (hint, right): (u32, bool),
        now: u64,
        lets: Lets,
    ) -> Option<bool> {
        let at = hint.wrapping_sub(1) as usize;
        let r = (self.records.get(at)?, self.noted.get(at)?);
        let is_tcp = p.protocol == TCP;
        if p.header != ipv4::LEN || !(is_tcp | (p.protocol == UDP)) {
            return self.stays_v6((at, r), p, right, now, lets);
        }
        let short;
        let h: &[u8; 40] = match p.net.first_chunk() {
            Some(h) => h,
            None => {
                short = few(p.net);
                &short
            }
        };
        let (ip, upper) = h.split_first_chunk::<20>()?;
        let (_, ends) = h.split_first_chunk::<12>()?;
        let len = p.total.checked_sub(ipv4::LEN)?;
        if usize::from(u16::from_be_bytes([ip[2], ip[3]])) != p.total {
            return None;
        }
        let u = Usual {
            reply: self.direction_by(at, r.0, |k| {
                Some(k.ways_v4(ends.first_chunk()?, p.protocol))
            }),
            upper: upper.first_chunk()?,
            len,
            is_tcp,
            right,
        };
        u.stays(r, now, lets)
    }

    /// [`ConnTable::direction`] of a packet of which `ways` tells whether it is of a key: from the key's first end to
    /// its second, and the other way. Of both ways at once is what goes from an end to itself.
    #[inline(always)]
    fn direction_by(
        &self,
        at: usize,
        r: &Record,
        ways: impl Fn(&ConnKey) -> Option<(bool, bool)>,
    ) -> Option<bool> {
        let (there, back) = ways(&r.key)?;
        let (of_key, reply) = (there != back, (r.status & FLIPPED != 0) != back);
        if r.status & (SNAT | DNAT) == 0 {
            return of_key.then_some(reply);
        }
        if of_key && !reply && r.status & OWN_REPLIES == 0 {
            return Some(false);
        }
        let (key, flipped) = self.translations.get(at as u32)?.back();
        let (there, back) = ways(&key)?;
        (there != back && flipped == back).then_some(true)
    }

    /// What the first `n` of these packets do to their connections.
    #[inline(always)]
    fn go_on(
        &mut self,
        run: &[Inspected<'_>],
        hints: &[u32],
        now: u64,
        (tcp, replies, n): (u64, u64, usize),
    ) {
        let all = match n {
            0 => return,
            n => u64::MAX >> (MOST - n),
        };
        let (records, settings) = (&mut self.records, &self.settings);
        let all_noted = &mut self.noted;
        let mut left = tcp;
        // Bounds: a bit less each time, here and below
        while left != 0 {
            let i = left.trailing_zeros() as usize % MOST;
            left &= left - 1;
            let (Some(p), Some(hint)) = (run.get(i), hints.get(i)) else {
                break;
            };
            let upper = p.net.get(p.header..).and_then(|u| u.first_chunk());
            let at = hint.wrapping_sub(1) as usize;
            if let (Some(r), Some(noted), Some(h)) =
                (records.get_mut(at), all_noted.get_mut(at), upper)
            {
                let s = Segment::of_ack(h, p.total - p.header);
                let ms = (r.machine).go_on(&s, replies >> i & 1 != 0, noted, settings);
                noted.expires = now.saturating_add(ms);
            }
        }
        let mut left = all & !tcp;
        while left != 0 {
            let i = left.trailing_zeros() as usize % MOST;
            left &= left - 1;
            let Some(hint) = hints.get(i) else { break };
            let at = hint.wrapping_sub(1) as usize;
            if let (Some(r), Some(noted)) = (records.get(at), all_noted.get_mut(at)) {
                let ms = match r.status & ASSURED {
                    0 => settings.udp,
                    _ => settings.udp_stream,
                };
                noted.expires = now.saturating_add(ms);
            }
        }
        self.count_established(n as u64);
    }

    /// All leases, if connections are leased.
    #[inline]
    pub fn leases(&mut self) -> Option<FlowLeases<'_>> {
        let s = &self.settings;
        let mut stays = [0; LEASE_KINDS];
        stays[usize::from(FlowLease::SEGMENTS)] = s.tcp[State::Established as usize];
        stays[usize::from(FlowLease::LIMITED)] = s.udp;
        stays[usize::from(FlowLease::LASTING)] = s.udp_stream;
        self.gives_leases().then_some(FlowLeases {
            all: &mut self.noted,
            stays,
            noted: &mut self.totals.packets[ConnState::Established as usize],
        })
    }

    /// Does nobody want to know of each packet which one it is?
    pub fn gives_leases(&self) -> bool {
        !self.settings.wants_each()
    }

    /// A lease on the connection of a packet that has just left it as it was, with this hint.
    pub fn lease(&mut self, p: &Inspected<'_>, hint: u32, now: u64, lets: Lets) -> u32 {
        if !self.gives_leases() || p.header != ipv4::LEN {
            return NO_FLOW_LEASE;
        }
        // a wrong checksum is none of a plain packet's
        let Some(reply) = self.stays_as_it_is(p, (hint, true), now, lets) else {
            return NO_FLOW_LEASE;
        };
        let at = hint.wrapping_sub(1) as usize;
        let (Some(r), Some(noted)) = (self.records.get(at), self.noted.get_mut(at)) else {
            return NO_FLOW_LEASE;
        };
        noted.kind = match p.protocol {
            TCP if !r.machine.is_noted(reply) => return NO_FLOW_LEASE,
            TCP => FlowLease::SEGMENTS,
            _ if r.status & ASSURED == 0 => FlowLease::LIMITED,
            _ => FlowLease::LASTING,
        };
        noted.begin(reply)
    }
}

impl Usual<'_> {
    /// Its connection is this one, and stays as it is: whether it is a reply.
    #[inline(always)]
    fn stays(&self, (r, n): (&Record, &FlowLease), now: u64, lets: Lets) -> Option<bool> {
        let reply = self.reply?;
        let assured = r.status & ASSURED != 0;
        let known = (r.status & (USED | SEEN_REPLY) == USED | SEEN_REPLY)
            & (now < n.expires)
            & lets.has(reply, r.status);
        let [.., l0, l1, s0, s1] = *self.upper.first_chunk::<8>()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let goes_on = assured & r.machine.is_established() & Segment::is_ack(self.upper, self.len);
        let streams = (length >= 8) & (length <= self.len) & ((now > n.limit()) == assured);
        // UDP may come without a checksum
        let right = self.right | (!self.is_tcp & (s0 | s1 == 0));
        let same = (self.is_tcp & goes_on) | (!self.is_tcp & streams);
        (known & right & same).then_some(reply)
    }
}

impl ConnTable {
    /// [`ConnTable::stays_as_it_is`] of packets of IPv6, and of other protocols.
    #[inline(never)]
    fn stays_v6(
        &self,
        (at, r): (usize, (&Record, &FlowLease)),
        p: &Inspected<'_>,
        right: bool,
        now: u64,
        lets: Lets,
    ) -> Option<bool> {
        let is_tcp = p.protocol == TCP;
        let (ip, upper) = p.net.split_first_chunk::<40>()?;
        let len = p.total.checked_sub(ipv6::LEN)?;
        let (src, rest) = ip.split_at(8).1.split_first_chunk::<16>()?;
        let ports = *upper.first_chunk::<4>()?;
        let payload = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
        let known = is_tcp || p.protocol == UDP;
        if ip[0] >> 4 != 6 || payload != len || p.header != ipv6::LEN || !known {
            return None;
        }
        let short;
        let upper = match upper.first_chunk() {
            Some(upper) => upper,
            None => {
                short = few(upper);
                &short
            }
        };
        let u = Usual {
            reply: self.direction_by(at, r.0, |k| {
                Some(k.ways_v6(src, rest.first_chunk()?, ports, p.protocol))
            }),
            upper,
            len,
            is_tcp,
            right,
        };
        u.stays(r, now, lets)
    }
}
