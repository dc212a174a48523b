//! Connections begin: what their first packet leaves, and how they get into the table once that has passed the rules.

use super::class::{ConnClass, ConnState};
use super::headers::{Seen, Tracked, Upper};
use super::key::{ConnKey, Ends};
use super::table::{BY_REPLY, ConnTable, FLIPPED, Hashes, OWN_REPLIES, Record, USED, stays};
use super::tcp::Machine;
use super::translate::Leaves;
use onefold_element::FlowLease;

/// UDP that goes on for longer than this is a stream, in milliseconds.
const STREAM_AFTER: u64 = 2000;

/// What a connection that begins remembers of its first packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beginning {
    machine: Machine,
    noted: FlowLease,
    /// Milliseconds that it stays.
    stays: u64,
    /// It is a stream if it goes on for longer than [`STREAM_AFTER`].
    stream: bool,
}

/// What becomes of a packet that has passed the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confirmed {
    /// It begins no connection.
    Passes,
    /// It begins a connection.
    Entered,
    /// It is dropped: the table is full.
    Full,
    /// It is dropped: no end was free, and the replies would be another connection's.
    Clashes,
}

impl ConnTable {
    /// What a connection that begins with this packet remembers; `None` if none can begin.
    pub(super) fn first(&self, p: &Tracked) -> Option<Beginning> {
        let of = |(machine, noted, stays)| Beginning {
            machine,
            noted,
            stays,
            stream: p.upper == Upper::Udp,
        };
        let none = || (Machine::default(), FlowLease::default());
        let others = |stays| (none().0, none().1, stays);
        Some(of(match &p.upper {
            Upper::Tcp(s) => Machine::begin(s, &self.settings)?,
            Upper::Udp => others(self.settings.udp),
            Upper::Icmp { asks: false } => return None,
            Upper::Icmp { asks: true } | Upper::Other => others(stays(&p.key, &self.settings)),
        }))
    }

    /// A packet has passed the rules: if it is the first one of a connection, that is in the table from now on.
    pub fn confirm(&mut self, seen: &Seen, now: u64) -> Confirmed {
        let Seen::Packet(p) = seen else {
            return Confirmed::Passes;
        };
        if let Some(confirmed) = self.confirm_in_hand((&p.key, p.flipped), now) {
            return confirmed;
        }
        if self.find(&p.key, p.flipped, now).is_some() {
            return Confirmed::Passes;
        }
        match self.first(p) {
            Some(begins) => self.begin((&p.key, p.flipped), None, &begins, now),
            None => Confirmed::Passes,
        }
    }

    /// The same of a packet of which nothing but its key is told. `None`: it is not the one in hand.
    pub fn confirm_in_hand(
        &mut self,
        (key, flipped): (&ConnKey, bool),
        now: u64,
    ) -> Option<Confirmed> {
        let untracked = |c: ConnClass| c.state == ConnState::Untracked;
        if self.in_hand.class.is_some_and(untracked) {
            return Some(Confirmed::Passes);
        }
        let ends = match self.leaves_hand(key, flipped) {
            Leaves::Known => return Some(Confirmed::Passes),
            Leaves::First(orig, new) => Some((orig, new)),
            Leaves::Unknown if self.in_hand.is_first(key, flipped) => None,
            Leaves::Unknown if self.is_known_in_hand(key, flipped) => {
                return Some(Confirmed::Passes);
            }
            Leaves::Unknown => return None,
        };
        let begins = self.in_hand.begins()?;
        Some(self.begin((key, flipped), ends, &begins, now))
    }

    /// The packet in hand has passed the rules, with the ends that have been decided: if it is a first one, its
    /// connection is in the table from now on.
    pub fn begin_in_hand(&mut self, now: u64) -> Option<Confirmed> {
        let arrived = self.in_hand.first?;
        let begins = self.in_hand.begins()?;
        let ends = self.in_hand.leave_first()?;
        Some(self.begin((&arrived.0, arrived.1), Some(ends), &begins, now))
    }

    /// A connection begins: of packets with this key, or between these ends.
    fn begin(
        &mut self,
        (key, flipped): (&ConnKey, bool),
        ends: Option<(Ends, Ends)>,
        begins: &Beginning,
        now: u64,
    ) -> Confirmed {
        if let Some((_, new)) = &ends
            && self.taken(new, now)
        {
            self.totals.clashed += 1;
            return Confirmed::Clashes;
        }
        self.sweep(now);
        if self.connections() >= self.settings.capacity && !self.make_room(now) {
            self.totals.full += 1;
            return Confirmed::Full;
        }
        let (key, flipped) = match (&ends, self.in_hand.first) {
            (None, _) => (*key, flipped),
            (Some(_), Some(arrived)) => arrived,
            (Some((orig, _)), None) => orig.key(),
        };
        let own_hash = match self.in_hand.is_first(&key, flipped) {
            true => self.in_hand.first_hash,
            false => self.hash(&key),
        };
        let mark = self.in_hand.mark_of(key, flipped);
        let ends = ends.filter(|(orig, new)| orig != new);
        let back = ends.as_ref().map(|(_, new)| self.back_of(new));
        let own = back.is_some_and(|(back, _)| back == (key, flipped));
        let record = Record {
            key,
            status: USED | if flipped { FLIPPED } else { 0 } | if own { OWN_REPLIES } else { 0 },
            machine: begins.machine,
            hashes: Hashes {
                own: own_hash,
                ..Hashes::default()
            },
        };
        let mut noted = begins.noted;
        noted.expires = now.saturating_add(begins.stays);
        if begins.stream {
            noted.set_limit(now.saturating_add(STREAM_AFTER));
        }
        let i = self.enter(record, noted);
        // a record that is used again has the mark that it had
        if mark != self.given.mark(i) {
            self.given.set_mark(i, mark);
        }
        if let (Some((orig, new)), Some((_, hash))) = (ends, back) {
            self.translate(i, &orig, &new, hash);
            self.insert(i | BY_REPLY, hash);
        }
        self.in_hand.entered();
        self.totals.entered += 1;
        Confirmed::Entered
    }

    fn enter(&mut self, record: Record, noted: FlowLease) -> u32 {
        let i = match self.free.pop() {
            Some(i) => {
                self.records[i as usize] = record;
                i
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as u32
            }
        };
        match self.noted.get_mut(i as usize) {
            Some(n) => n.renew(noted),
            None => self.noted.push(noted),
        }
        if record.status & OWN_REPLIES == 0 {
            self.insert(i, record.hashes.own);
        }
        i
    }
}
