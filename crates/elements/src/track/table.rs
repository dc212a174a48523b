//! The table of connections.

use super::class::{ConnClass, ConnState};
use super::conn_index::{ConnIndex, short};
use super::given::AllGiven;
use super::headers::{Seen, Tracked, Upper};
use super::key::ConnKey;
use super::settings::Settings;
use super::tcp::{Machine, Step};
use super::translate::InHand;
use super::translations::Translations;
use foldhash::fast::RandomState;
use onefold_element::{FlowLease, NO_HINT};
use onefold_nat::RecordLeases;
use onefold_packet::Timestamp;
use onefold_table::{HugeVec, prefetch_near};
use std::hash::BuildHasher;

/// A connection: what does not change with each of its packets. What does is [`ConnTable::noted`]; what rules have
/// made of it stands elsewhere ([`Given`]): most tables have none of it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Record {
    /// Of the packets of the original direction; where nothing is translated, of both.
    pub key: ConnKey,
    pub status: u8,
    /// What TCP remembers.
    pub machine: Machine,
    pub hashes: Hashes,
}

/// Where a connection is found: hashes of the keys of its packets and, where it is translated, of its replies, and of
/// its source. They are none of what it is: another table has others.
#[derive(Clone, Copy, Default)]
pub(super) struct Hashes {
    pub own: u32,
    pub back: u32,
    pub source: u32,
}

impl PartialEq for Hashes {
    fn eq(&self, _: &Hashes) -> bool {
        true
    }
}

impl std::fmt::Debug for Hashes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("-")
    }
}

// what is found at random is one line of the cache
const _: () = assert!(size_of::<Record>() == 64);

/// TCP's number.
pub(super) const TCP: u8 = 6;

/// A connection is in the record.
pub(super) const USED: u8 = 1;
/// Its first packet went from the key's second end to its first.
pub(super) const FLIPPED: u8 = 2;
pub(super) const SEEN_REPLY: u8 = 4;
pub(super) const ASSURED: u8 = 8;
/// The source of its packets is translated.
pub(super) const SNAT: u8 = 16;
/// The destination of its packets is translated.
pub(super) const DNAT: u8 = 32;
/// Its replies have the ends of its own packets, as they arrive: all but the first are replies, as in Linux, whose list
/// has the reply's entry in front.
pub(super) const OWN_REPLIES: u8 = 64;
/// What its packets become is in the table's [`Translations`].
pub(super) const TRANSLATED: u8 = 128;

/// Bit of an index entry: it is by the key of a translated connection's replies.
pub(super) const BY_REPLY: u32 = 1 << 31;

/// Records that are looked at when one has to give way.
const LOOKED_AT: usize = 64;
/// Records that are looked at with each new connection, whether they have ended.
pub(super) const SWEPT: usize = 4;

/// What becomes of a packet at the tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// It is of this class.
    Is(ConnClass, Option<u32>),
    /// It would begin a connection, and the table is full of connections that do not give way.
    Full,
}

/// What has happened so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Packets by state: [`super::class::STATES`].
    pub packets: [u64; 5],
    /// Connections that were entered.
    pub entered: u64,
    /// That ended because nothing came.
    pub expired: u64,
    /// That gave way to new ones.
    pub evicted: u64,
    /// That were ended by a packet of theirs.
    pub ended: u64,
    /// Packets that found the table full.
    pub full: u64,
    /// That would have begun a connection with another one's replies.
    pub clashed: u64,
}

/// See the module's text. Every operation takes constant time but for reports.
#[derive(Debug, Clone)]
pub(super) struct ConnTable {
    pub(super) index: ConnIndex,
    pub(super) hasher: RandomState,
    pub(super) records: HugeVec<Record>,
    /// By record: when the connection ends, and what else changes with each packet; of UDP, up to when it is no stream
    /// ([`FlowLease::limit`]). Whoever executes the chain notes packets here, too, while a lease runs. There may be
    /// more of them than records, as numbers of leases must not come back.
    pub(super) noted: HugeVec<FlowLease>,
    pub(super) free: Vec<u32>,
    pub(super) given: AllGiven,
    pub(super) translations: Translations,
    /// Who relies on what has been said of connections' translation.
    pub(super) leases: RecordLeases,
    pub(super) in_hand: InHand,
    /// Where the next look for a connection that has ended, or may give way, begins.
    pub(super) sweep: usize,
    pub settings: Settings,
    pub totals: Totals,
}

pub(super) fn millis(t: Timestamp) -> u64 {
    u64::try_from(t.nanos() / 1_000_000).unwrap_or(0)
}

impl ConnTable {
    /// An empty one.
    pub fn new(settings: Settings) -> ConnTable {
        ConnTable {
            index: ConnIndex::default(),
            hasher: RandomState::default(),
            records: HugeVec::new(),
            noted: HugeVec::new(),
            free: Vec::new(),
            given: AllGiven::default(),
            translations: Translations::default(),
            leases: RecordLeases::default(),
            in_hand: InHand::default(),
            sweep: 0,
            settings,
            totals: Totals::default(),
        }
    }

    /// A packet arrives: what its connection is to it, and what it does to its connection.
    pub fn track(&mut self, seen: &Seen, now: u64) -> Found {
        self.in_hand.put_down();
        let found = match seen {
            Seen::Untracked => Found::Is(ConnClass::without(ConnState::Untracked), None),
            Seen::Invalid(_) => Found::Is(ConnClass::without(ConnState::Invalid), None),
            Seen::Error { key, flipped } => self.error(key, *flipped, now),
            Seen::Packet(p) => {
                self.in_hand.arrives(p);
                self.packet(p, now)
            }
        };
        match found {
            Found::Is(c, _) => {
                self.in_hand.class = Some(c);
                self.count(c);
            }
            Found::Full => self.totals.full += 1,
        }
        found
    }

    #[inline]
    fn count(&mut self, c: ConnClass) {
        self.totals.packets[c.state as usize] += 1;
    }

    /// So many packets of established connections.
    #[inline]
    pub(super) fn count_established(&mut self, n: u64) {
        self.totals.packets[ConnState::Established as usize] += n;
    }

    fn error(&mut self, key: &ConnKey, flipped: bool, now: u64) -> Found {
        let Some((i, reply)) = self.find(key, flipped, now) else {
            return Found::Is(ConnClass::without(ConnState::Invalid), None);
        };
        self.take_in_hand(i, reply, true);
        Found::Is(self.class(i, ConnState::Related, reply), Some(i))
    }

    fn packet(&mut self, p: &Tracked, now: u64) -> Found {
        let invalid = Found::Is(ConnClass::without(ConnState::Invalid), None);
        let hash = self.hash(&p.key);
        // Bound: a connection that is reopened is gone at the second turn
        for _ in 0..2 {
            let Some((i, reply)) = self.find_hashed((&p.key, hash), p.flipped, now) else {
                break;
            };
            // the answer stands for both: of a packet to itself, the later way round is found first
            let reply = reply || p.to_itself && self.translation(i).is_none();
            match self.known(i, p, reply, now) {
                Some(c) => return c,
                None => continue,
            }
        }
        let Some(begins) = self.first(p) else {
            return invalid;
        };
        if self.connections() >= self.settings.capacity && !self.make_room(now) {
            return Found::Full;
        }
        self.take_first_in_hand(p, hash, begins);
        let new = ConnClass::without(ConnState::New);
        Found::Is(new, None)
    }

    /// A packet of a connection in the table; `None`: that is gone, and the packet is to be looked at anew.
    fn known(&mut self, i: u32, p: &Tracked, reply: bool, now: u64) -> Option<Found> {
        let settings = &self.settings;
        let r = self.records.get_mut(i as usize)?;
        let noted = self.noted.get_mut(i as usize)?;
        noted.end();
        let seen_reply = r.status & SEEN_REPLY != 0;
        let state = match reply || seen_reply {
            true => ConnState::Established,
            false => ConnState::New,
        };
        // a key is of one protocol: what the packet is, the record is
        let step = match &p.upper {
            Upper::Tcp(s) => {
                let mut assured = r.status & ASSURED != 0;
                let to = (&mut *noted, &mut assured);
                let step = (r.machine).step(s, reply, seen_reply, to, settings);
                r.status |= if assured { ASSURED } else { 0 };
                step
            }
            Upper::Udp => match seen_reply {
                true if now > noted.limit() => {
                    r.status |= ASSURED;
                    Step::Lives(settings.udp_stream)
                }
                _ => Step::Lives(settings.udp),
            },
            Upper::Icmp { .. } | Upper::Other => Step::Lives(stays(&p.key, settings)),
        };
        match step {
            Step::Lives(ms) => noted.expires = now.saturating_add(ms),
            Step::Passes | Step::Ends => {}
            Step::Invalid => {
                return Some(Found::Is(ConnClass::without(ConnState::Invalid), Some(i)));
            }
            Step::Reopens => {
                self.remove(i);
                self.totals.ended += 1;
                return None;
            }
        }
        if reply {
            r.status |= SEEN_REPLY;
        }
        let class = self.class(i, state, reply);
        self.take_in_hand(i, reply, false);
        if step == Step::Ends {
            self.remove(i);
            self.totals.ended += 1;
        }
        Some(Found::Is(class, Some(i)))
    }

    /// Connections in the table, ended or not.
    pub(super) fn connections(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// What the index knows a key by.
    #[inline]
    pub(super) fn hash(&self, key: &ConnKey) -> u32 {
        short(self.hasher.hash_one(key))
    }

    pub(super) fn insert(&mut self, entry: u32, hash: u32) {
        let records = &self.records;
        let hash_of = |e: u32| {
            let r = records.get((e & !BY_REPLY) as usize);
            r.map_or(0, |r| match e & BY_REPLY {
                0 => r.hashes.own,
                _ => r.hashes.back,
            })
        };
        self.index.insert(hash, entry, hash_of, records);
    }

    /// The way of nearly every packet: one that leaves its established connection as it is, but for how long it stays.
    /// `None`: nothing has happened, and the packet is to be [tracked](ConnTable::track). `hint`: what was given for
    /// the connection's last packet; `may`: asked about the packet's class before anything happens.
    #[inline]
    pub fn refresh(
        &mut self,
        p: &Tracked,
        hint: u32,
        now: u64,
        may: impl Fn(ConnClass) -> bool,
    ) -> Option<u32> {
        // elements behind want to know of every packet which one it is
        if self.settings.wants_each() {
            return None;
        }
        let i = hint.wrapping_sub(1);
        let (i, reply) = match self.direction(i, &p.key, p.flipped) {
            Some(reply) => (i, reply),
            None => self.position(&p.key, p.flipped)?,
        };
        let settings = &self.settings;
        let r = self.records.get_mut(i as usize)?;
        let noted = self.noted.get_mut(i as usize)?;
        if now >= noted.expires || r.status & SEEN_REPLY == 0 || p.to_itself {
            return None;
        }
        let class = ConnClass {
            snat: r.status & SNAT != 0,
            dnat: r.status & DNAT != 0,
            ..ConnClass::established(reply, r.status & ASSURED != 0)
        };
        let ms = match &p.upper {
            Upper::Tcp(s) if r.machine.is_plain(s) && class.assured => match may(class) {
                true => r.machine.go_on(s, reply, noted, settings),
                false => return None,
            },
            Upper::Udp if (now > noted.limit()) == class.assured => match may(class) {
                true if class.assured => settings.udp_stream,
                true => settings.udp,
                false => return None,
            },
            Upper::Icmp { .. } | Upper::Other if may(class) => stays(&p.key, settings),
            _ => return None,
        };
        noted.expires = now.saturating_add(ms);
        self.count(class);
        Some(i.wrapping_add(1))
    }

    /// Connections with these hints will be refreshed soon: their memory is asked for.
    pub fn prefetch(&self, hints: &[u32]) {
        for hint in hints.iter().filter(|h| **h != NO_HINT) {
            let at = hint.wrapping_sub(1) as usize;
            if let (Some(r), Some(n)) = (self.records.get(at), self.noted.get(at)) {
                prefetch_near(r);
                prefetch_near(n);
            }
        }
    }

    /// The connection of packets with this key that go this way, ended or not, and whether they are replies.
    #[inline]
    pub(super) fn position(&self, key: &ConnKey, flipped: bool) -> Option<(u32, bool)> {
        self.position_hashed((key, self.hash(key)), flipped)
    }

    /// The same of a key with this hash.
    #[inline]
    fn position_hashed(&self, (key, hash): (&ConnKey, u32), flipped: bool) -> Option<(u32, bool)> {
        let (records, translations) = (&self.records, &self.translations);
        let of = |e: u32| records.get((e & !BY_REPLY) as usize);
        let same = |e: u32| {
            let Some(r) = of(e) else { return false };
            match r.status & TRANSLATED {
                0 => r.key == *key,
                _ if e & BY_REPLY != 0 => {
                    let t = translations.get(e & !BY_REPLY);
                    t.is_some_and(|t| t.back() == (*key, flipped))
                }
                _ => r.key == *key && (r.status & FLIPPED != 0) == flipped,
            }
        };
        let e = self.index.find(hash, same)?;
        let reply = (of(e)?.status & FLIPPED != 0) != flipped;
        match e & BY_REPLY {
            0 => Some((e, reply)),
            _ => Some((e & !BY_REPLY, true)),
        }
    }

    /// The same, of a connection that has not ended. One that has is removed.
    pub(super) fn find(&mut self, key: &ConnKey, flipped: bool, now: u64) -> Option<(u32, bool)> {
        self.find_hashed((key, self.hash(key)), flipped, now)
    }

    /// The same of a key with this hash.
    #[inline]
    pub(super) fn find_hashed(
        &mut self,
        key: (&ConnKey, u32),
        flipped: bool,
        now: u64,
    ) -> Option<(u32, bool)> {
        let (i, reply) = self.position_hashed(key, flipped)?;
        if now < self.noted.get(i as usize)?.expires {
            return Some((i, reply));
        }
        self.remove(i);
        self.totals.expired += 1;
        None
    }

    fn class(&self, i: u32, state: ConnState, reply: bool) -> ConnClass {
        let status = self.records.get(i as usize).map_or(0, |r| r.status);
        ConnClass {
            state,
            reply,
            seen_reply: status & SEEN_REPLY != 0,
            assured: status & ASSURED != 0,
            confirmed: true,
            snat: status & SNAT != 0,
            dnat: status & DNAT != 0,
        }
    }

    fn remove(&mut self, i: u32) {
        let Some(r) = self.records.get_mut(i as usize) else {
            return;
        };
        if r.status & USED == 0 {
            return;
        }
        let translated = r.status & TRANSLATED != 0;
        r.status = 0;
        let hashes = r.hashes;
        if let Some(n) = self.noted.get_mut(i as usize) {
            n.end();
        }
        self.leases.end(i);
        self.index.remove(hashes.own, i);
        if translated {
            self.forget_translation(i, hashes.source);
            self.index.remove(hashes.back, i | BY_REPLY);
        }
        self.free.push(i);
    }

    /// The number of the next record that is looked at.
    fn next_swept(&mut self) -> Option<u32> {
        if self.records.is_empty() {
            return None;
        }
        // no division: it takes as long as looking at a record
        let next = self.sweep + 1;
        self.sweep = if next < self.records.len() { next } else { 0 };
        Some(self.sweep as u32)
    }

    /// Looks at some records whether their connections have ended.
    pub(super) fn sweep(&mut self, now: u64) {
        for _ in 0..SWEPT {
            let Some(i) = self.next_swept() else { return };
            // what is noted is asked first: most have not ended, and their records are not read
            let used = |r: &Record| r.status & USED != 0;
            if self.has_ended(i, now) && self.records.get(i as usize).is_some_and(used) {
                self.remove(i);
                self.totals.expired += 1;
            }
        }
    }

    pub(super) fn has_ended(&self, i: u32, now: u64) -> bool {
        self.noted.get(i as usize).is_some_and(|n| now >= n.expires)
    }

    /// Makes room for one connection: one that has ended goes, or one that is not assured.
    pub(super) fn make_room(&mut self, now: u64) -> bool {
        for _ in 0..LOOKED_AT {
            let Some(i) = self.next_swept() else { break };
            let Some(r) = self.records.get(i as usize) else {
                break;
            };
            if r.status & USED == 0 {
                continue;
            }
            let ended = self.has_ended(i, now);
            if ended || r.status & ASSURED == 0 {
                self.remove(i);
                match ended {
                    true => self.totals.expired += 1,
                    false => self.totals.evicted += 1,
                }
                self.prefetch_victims(i);
                return true;
            }
        }
        false
    }

    /// Forgets all connections.
    pub fn flush(&mut self) {
        (self.records, self.free) = (HugeVec::new(), Vec::new());
        self.noted.iter_mut().for_each(FlowLease::end);
        self.leases.end_all();
        self.index = ConnIndex::default();
        self.given = AllGiven::default();
        self.translations = Translations::default();
        self.in_hand = InHand::default();
        self.sweep = 0;
    }

    /// Connections that have not ended.
    pub fn len(&self, now: u64) -> usize {
        self.live(now).count()
    }

    /// Those of them, by number.
    pub(super) fn live(&self, now: u64) -> impl Iterator<Item = (u32, &Record)> {
        let all = (0..).zip(self.records.iter());
        all.filter(move |(i, r)| r.status & USED != 0 && !self.has_ended(*i, now))
    }

    /// When a connection ends, in milliseconds of the clock.
    pub(super) fn expires(&self, i: u32) -> u64 {
        self.noted.get(i as usize).map_or(0, |n| n.expires)
    }
}

/// How long connections of protocols without states stay.
pub(super) fn stays(key: &ConnKey, settings: &Settings) -> u64 {
    match key.protocol() {
        1 => settings.icmp,
        58 => settings.icmp6,
        _ => settings.generic,
    }
}
