//! The flow table: one per rewriter, or one for several rewriters that share a capacity.
//!
//! A [`Record`] is one binding: both directions, the checksum differences, where each direction leaves, when it was
//! last used. It is 64 bytes, one cache line, and is named by its index and generation ([`FlowRef`]), so that a fast
//! path can point at it and notice when it is gone. A look-up is one probe of the hash index and one record; a packet
//! that hits writes nothing but the record's stamp and, when the connection's state changes, its tracking flags.
//!
//! Expiry is as Click's: a flow that has had a packet within its *guarantee* is never evicted for another one; the
//! others are best effort and are evicted in the order in which they would time out, when the table is over its
//! capacity; a periodic sweep removes those that have timed out. Until a sweep or an eviction removes it, a flow that
//! has timed out goes on working. Click keeps binary heaps sorted by expiry and so re-sorts at every packet; here see
//! [`crate::age_queue`]. Where several flows would time out in the same millisecond, Click's choice depends on its
//! heap's shape; here it is the one that has been idle longest.

use crate::access::answering;
use crate::age_queue::{AgeQueue, NIL};
use crate::endpoints::Endpoints;
use crate::flow_id::FlowId;
use crate::fragments::Fragmented;
use crate::hash_key::HashKey;
use crate::insert_evict::EvictionOrder;
use crate::kind::RewriterKind;
use crate::lease::{Leases, NO_LEASE, STAMP_BITS};
use crate::port_exhaustion::{PortExhaustion, Search};
use crate::record::{CLASSES, Hit, Member, Timeout, Track};
use crate::record::{FlowRef, Record};
use crate::sequence_shifts::SequenceShifts;
use crate::spec::InputSpec;
use onefold_packet::Timestamp;
use onefold_state::ElemId;
use onefold_table::{HugeVec, IndexKeys, TagIndex, prefetch};
use std::sync::Arc;

/// Capacity that a rewriter has when none is configured, as Click reports it.
pub const DEFAULT_CAPACITY: u32 = 0x7fff_ffff;
/// Most flows that a table ever holds, whatever the configured capacity: 256 MB of records, and about as much again for
/// their index, their ages and the list of free ones.
pub const MAX_FLOWS: usize = 1 << 22;

/// The bindings of one rewriter, or of several that share a capacity.
#[derive(Debug)]
pub struct FlowTable {
    pub(crate) records: HugeVec<Record>,
    pub(crate) index: TagIndex,
    pub(crate) hash_key: HashKey,
    pub(crate) members: Vec<Member>,
    /// [`CLASSES`] per member.
    pub(crate) queues: Vec<AgeQueue>,
    pub(crate) shifts: Vec<SequenceShifts>,
    pub(crate) free_shifts: Vec<u32>,
    /// Records that are not in use; the last one is used next. A list through the records themselves would be waited
    /// for, one line after the other, when the next ones are asked for.
    pub(crate) free: Vec<u32>,
    pub(crate) live: usize,
    pub(crate) capacity: u32,
    last_stamp: u64,
    /// Patterns with few variations left.
    exhaustion: PortExhaustion,
    /// Mappings, where a rewriter has them.
    pub(crate) endpoints: Option<Box<Endpoints>>,
    pub(crate) evictions: u64,
    /// The rewriter that this one shares the capacity of: its table is used in the place of this one.
    pub(crate) shared_with: Option<ElemId>,
    /// Which flows are evicted next.
    pub(crate) order: EvictionOrder,
    /// All of the last packets that were asked about began flows: the next ones are taken to do so, too, before anybody
    /// looks.
    pub(crate) flood: bool,
    /// Packets whose later fragments have a binding.
    pub(crate) fragmented: Fragmented,
    /// Leases of its records, if a flow table in front has attached them.
    pub(crate) leases: Option<Arc<Leases>>,
}

/// A copy has no part in leases: what they know of is written down in it.
impl Clone for FlowTable {
    fn clone(&self) -> Self {
        let mut records = HugeVec::with_capacity(self.records.len());
        records.extend(self.records.iter().map(|r| {
            let mut r = *r;
            r.settle(self.leases.as_deref());
            r.lease = NO_LEASE;
            r
        }));
        FlowTable {
            records,
            index: self.index.clone(),
            hash_key: self.hash_key,
            members: self.members.clone(),
            queues: self.queues.clone(),
            shifts: self.shifts.clone(),
            free_shifts: self.free_shifts.clone(),
            free: self.free.clone(),
            live: self.live,
            capacity: self.capacity,
            last_stamp: self.last_stamp.max(self.lease_clock()),
            exhaustion: self.exhaustion.clone(),
            endpoints: self.endpoints.clone(),
            evictions: self.evictions,
            shared_with: self.shared_with,
            order: EvictionOrder::default(),
            flood: false,
            fragmented: self.fragmented.clone(),
            leases: None,
        }
    }
}

impl Default for FlowTable {
    fn default() -> Self {
        FlowTable::new()
    }
}

impl FlowTable {
    /// An empty table.
    pub fn new() -> FlowTable {
        FlowTable {
            records: HugeVec::new(),
            index: TagIndex::default(),
            hash_key: HashKey::new(),
            members: Vec::new(),
            queues: Vec::new(),
            shifts: Vec::new(),
            free_shifts: Vec::new(),
            free: Vec::new(),
            live: 0,
            capacity: DEFAULT_CAPACITY,
            last_stamp: 0,
            exhaustion: PortExhaustion::default(),
            endpoints: None,
            evictions: 0,
            shared_with: None,
            order: EvictionOrder::default(),
            flood: false,
            fragmented: Fragmented::default(),
            leases: None,
        }
    }

    /// Flows in it.
    pub fn len(&self) -> usize {
        self.live
    }
    /// No flows.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }
    /// Flows that had to make room for newer ones.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }
    /// Configured capacity.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }
    /// Sets the capacity. Existing flows go with the next [`FlowTable::sweep`].
    pub fn set_capacity(&mut self, flows: u32) {
        self.capacity = flows;
    }
    pub(crate) fn limit(&self) -> usize {
        (self.capacity as usize).min(MAX_FLOWS)
    }

    /// Has each new flow to take the place of another?
    #[inline(always)]
    pub(crate) fn full(&self) -> bool {
        self.live >= self.limit()
    }

    /// Adds a rewriter to those that use the table: its number.
    pub fn add_member(&mut self, m: Member) -> usize {
        self.order = EvictionOrder::default();
        self.members.push(m);
        self.queues
            .extend(std::iter::repeat_n(AgeQueue::default(), CLASSES));
        self.reserve_endpoints();
        self.members.len() - 1
    }

    /// The rewriter with this number.
    #[inline]
    pub fn member(&self, number: u16) -> Option<&Member> {
        self.members.get(usize::from(number))
    }
    /// [`FlowTable::member`], to be changed: specifications and counts.
    pub fn member_mut(&mut self, number: u16) -> Option<&mut Member> {
        self.members.get_mut(usize::from(number))
    }
    /// The record with this number, in use or not.
    #[inline(always)]
    pub fn record(&self, record: u32) -> Option<&Record> {
        self.records.get(record as usize)
    }
    /// Sets the annotation value that replies of a record's flow get.
    #[inline]
    pub fn set_reply_anno(&mut self, record: u32, value: u8) {
        if let Some(r) = self.records.get_mut(record as usize) {
            r.reply_anno = value;
        }
    }
    /// The table of the rewriter `elem` is used in the place of this one; see [`resolve`](crate::resolve).
    pub fn share_with(&mut self, elem: ElemId) {
        self.shared_with = Some(elem);
    }

    /// The rewriter that a map belongs to.
    pub(crate) fn member_of(&self, map: u16) -> Option<&Member> {
        self.members.get(usize::from(map >> 1))
    }

    /// A reference that survives other flows' coming and going.
    pub fn reference(&self, record: u32) -> Option<FlowRef> {
        let r = self.records.get(record as usize)?;
        (r.used()).then_some(FlowRef {
            record,
            generation: r.generation,
        })
    }
    /// The record, if it is still the one that was meant.
    #[inline]
    pub fn resolve(&self, f: FlowRef) -> Option<&Record> {
        let r = self.records.get(f.record as usize)?;
        (r.generation == f.generation && r.used()).then_some(r)
    }

    /// The binding, and its direction, that packets of a flow meet in the rewriter `elem`; `udp` chooses between
    /// IPRewriter's two maps. A look-up does not refresh it.
    pub fn binding(&self, elem: ElemId, udp: bool, flow: &FlowId) -> Option<(FlowRef, bool)> {
        let member = self.members.iter().position(|m| m.elem == elem)?;
        let two_maps = self.members.get(member)?.kind == RewriterKind::Ip;
        let map = member as u16 * 2 + u16::from(udp && two_maps);
        let (i, reply) = self.lookup(map, flow)?;
        Some((self.reference(i)?, reply))
    }
    /// A packet of the flow has passed without changing the connection's state. False when the binding is gone.
    pub fn refresh(&mut self, f: FlowRef, now: Timestamp) -> bool {
        let there = self.resolve(f).is_some();
        if there {
            self.touch(f.record, now);
        }
        there
    }
    /// The input specifications of the rewriter `elem`, each with the configuration argument that it stands in.
    pub fn input_specs(&self, elem: ElemId) -> &[(InputSpec, usize)] {
        let m = self.members.iter().find(|m| m.elem == elem);
        m.map_or(&[], |m| &m.specs)
    }

    /// Hash of a flow's key in a map (twice the member's number, plus one for IPRewriter's UDP).
    #[inline(always)]
    pub fn hash(&self, map: u16, k: &FlowId) -> u32 {
        self.hash_key.of(map, k)
    }
    /// The index, and what is in it.
    #[inline]
    pub(crate) fn indexed(&mut self) -> (&mut TagIndex, Indexed<'_>) {
        let (records, hash_key) = (&self.records[..], &self.hash_key);
        (&mut self.index, Indexed { records, hash_key })
    }

    /// A look-up of this hash is about to come: its place in the index is asked for.
    #[inline(always)]
    pub fn prefetch_bucket(&self, hash: u32) {
        self.index.prefetch(hash);
    }
    /// The record that a look-up of this hash will most likely end at is asked for; there is none for a flow that is
    /// not known.
    #[inline(always)]
    pub fn prefetch_record(&self, hash: u32) -> Option<u32> {
        let found = self.index.candidate(hash)?;
        if let Some(r) = self.records.get((found >> 1) as usize) {
            prefetch(r);
        }
        Some(found)
    }
    /// The record of [`FlowTable::prefetch_record`], if it is that of the flow; and the direction.
    #[inline]
    pub(crate) fn prefetched(&self, found: u32, map: u16, key: &FlowId) -> Option<(&Record, bool)> {
        let r = self.records.get((found >> 1) as usize)?;
        let reply = found & 1 != 0;
        (r.map == map && r.key(reply) == *key).then_some((r, reply))
    }
    /// So many flows are about to be made, after `before` others: the records that they will be in are asked for.
    #[inline(always)]
    pub fn prefetch_new(&self, before: usize, n: usize) {
        // those that have never been used come one after the other: memory sees that by itself
        let last = self.free.len().saturating_sub(before);
        let next = self.free.get(last.saturating_sub(n)..last);
        for i in next.unwrap_or_default() {
            if let Some(r) = self.records.get(*i as usize) {
                prefetch(r);
            }
        }
    }

    /// A flow of a queue has made room, and the next ones in line are about to: their records, and where they stand in
    /// the index, are asked for.
    #[inline(always)]
    pub(crate) fn prefetch_victims(&self, q: usize) {
        let Some(q) = self.queues.get(q) else { return };
        // a line has two or three of them, and was written long ago
        q.prefetch(40);
        if let Some((i, hashes)) = q.nth(12) {
            if let Some(r) = self.records.get(i as usize) {
                prefetch(r);
            }
            hashes.into_iter().for_each(|h| self.prefetch_bucket(h));
        }
    }

    /// The record that packets with this key meet in a map. A look-up does not refresh it.
    #[inline(always)]
    pub fn lookup(&self, map: u16, key: &FlowId) -> Option<Hit> {
        self.lookup_hashed(self.hash(map, key), map, key)
    }

    /// [`FlowTable::lookup`] where [`FlowTable::hash`] is known.
    #[inline(always)]
    pub fn lookup_hashed(&self, hash: u32, map: u16, key: &FlowId) -> Option<Hit> {
        let records = &self.records;
        let found = self.index.find(hash, |i| {
            let r = &records[(i >> 1) as usize];
            r.key(i & 1 != 0) == *key && r.map == map
        })?;
        Some((found >> 1, found & 1 != 0))
    }

    /// Is there a flow with such replies? A ping's are known by what the identifier becomes at the other end.
    #[inline(always)]
    pub(crate) fn taken(&self, map: u16, ping: bool, reply: &FlowId) -> bool {
        self.free_key(map, ping, reply).is_none()
    }

    /// The hash of what is looked up for [`FlowTable::taken`], if no flow has it.
    #[inline(always)]
    pub(crate) fn free_key(&self, map: u16, ping: bool, reply: &FlowId) -> Option<u32> {
        let key = match ping {
            false => *reply,
            true => FlowId {
                sport: answering(reply.dport),
                ..*reply
            },
        };
        let hash = self.hash(map, &key);
        match self.lookup_hashed(hash, map, &key) {
            Some(_) => None,
            None => Some(hash),
        }
    }

    /// The first variation from `v` on, around the end, whose replies no flow has.
    #[inline(never)]
    pub(crate) fn search(&mut self, map: u16, ping: bool, s: &Search, v: u32) -> Option<u32> {
        if let Some(found) = self.exhaustion.ask(map, ping, s, v) {
            return found;
        }
        let patience = PortExhaustion::patience(s);
        match s.look(v, patience, |k| self.taken(map, ping, k)) {
            Ok(v) => Some(v),
            Err(_) if patience > u64::from(s.top) => None,
            Err(v) => {
                let mut exhaustion = std::mem::take(&mut self.exhaustion);
                exhaustion.record_taken(map, ping, s, |k| self.taken(map, ping, k));
                let found = exhaustion.ask(map, ping, s, v);
                self.exhaustion = exhaustion;
                found.flatten()
            }
        }
    }

    /// A key has come into the index, or gone from it.
    #[inline(always)]
    pub(crate) fn note(&mut self, map: u16, key: &FlowId, there: bool) {
        if self.has_exhaustion() {
            self.note_exhaustion(map, key.saddr, key.daddr, key.ports(), there);
        }
    }
    /// Does [`FlowTable::note`] do anything?
    #[inline(always)]
    pub(crate) fn has_exhaustion(&self) -> bool {
        !self.exhaustion.is_empty()
    }
    /// Not by reference: a key would be in memory wherever it is seldom needed there.
    #[cold]
    #[inline(never)]
    fn note_exhaustion(&mut self, map: u16, saddr: u32, daddr: u32, ports: u32, there: bool) {
        let member = self.members.get(usize::from(map >> 1));
        let ping = member.is_some_and(|m| m.kind == RewriterKind::Ping);
        let key = FlowId::of(saddr, daddr, ports);
        self.exhaustion.note(map, ping, &key, there);
    }

    #[inline]
    pub(crate) fn now_ms(&self, now: Timestamp) -> u64 {
        let ms = now.nanos().max(0) as u64 / 1_000_000;
        ms.max(self.last_stamp.max(self.lease_clock()) >> STAMP_BITS)
    }

    /// The next stamp: of this millisecond, after all others.
    #[inline]
    pub(crate) fn stamp(&mut self, now: Timestamp) -> u64 {
        self.stamp_from(Leases::first_stamp(now))
    }
    /// The same of the millisecond whose [first stamp](Leases::first_stamp) this is.
    #[inline(always)]
    pub(crate) fn stamp_from(&mut self, first: u64) -> u64 {
        let stamp = self.next_stamp(first);
        self.set_last_stamp(stamp);
        stamp
    }
    /// This stamp, and those before, have been given.
    #[inline(always)]
    pub(crate) fn set_last_stamp(&mut self, stamp: u64) {
        self.last_stamp = stamp;
        if let Some(l) = &self.leases {
            l.set_clock(stamp);
        }
    }
    /// The one that [`FlowTable::stamp_from`] gives next.
    #[inline(always)]
    pub(crate) fn next_stamp(&self, first: u64) -> u64 {
        first.max(self.last_stamp.max(self.lease_clock()) + 1)
    }
    #[inline]
    fn lease_clock(&self) -> u64 {
        self.leases.as_ref().map_or(0, |l| l.clock())
    }

    /// A packet of the flow has been processed. The last one to have been used, in the same millisecond, stays as it
    /// is: a new flow is used by the packet that has made it, and does not look as if it had been used again.
    #[inline]
    pub fn touch(&mut self, i: u32, now: Timestamp) {
        let last = self.last_stamp.max(self.lease_clock());
        let r = &mut self.records[i as usize];
        if r.stamp == last && self.now_ms(now) == last >> STAMP_BITS {
            return;
        }
        let s = self.stamp(now);
        self.records[i as usize].stamp = s;
    }

    // leases

    /// From now on, flows of this table may be leased from these.
    pub fn attach(&mut self, leases: &Arc<Leases>) {
        self.detach();
        leases.set_clock(leases.clock().max(self.last_stamp));
        self.leases = Some(leases.clone());
    }
    /// Ends all leases of its records, and takes part in none any more.
    pub fn detach(&mut self) {
        let Some(leases) = self.leases.take() else {
            return;
        };
        self.last_stamp = self.last_stamp.max(leases.clock());
        for r in self.records.iter_mut() {
            if r.lease != NO_LEASE {
                leases.end(r.lease);
                r.settle(Some(&leases));
                r.lease = NO_LEASE;
            }
        }
    }
    /// The lease that a record has; [`NO_LEASE`] also where there is no such record any more.
    pub fn lease(&self, f: FlowRef) -> u32 {
        self.resolve(f).map_or(NO_LEASE, |r| r.lease)
    }
    /// Leases a record; it must have no lease. Gives its last use, `None` when it is gone.
    pub fn grant(&mut self, f: FlowRef, lease: u32) -> Option<u64> {
        self.resolve(f)?;
        let r = self.records.get_mut(f.record as usize)?;
        r.lease = lease;
        Some(r.stamp)
    }
    /// A lease is given back: the record keeps the last use. Nothing happens to one that is gone or has another lease.
    pub fn release(&mut self, f: FlowRef, lease: u32) {
        if self.lease(f) == lease
            && lease != NO_LEASE
            && let Some(r) = self.records.get_mut(f.record as usize)
        {
            r.settle(self.leases.as_deref());
            r.lease = NO_LEASE;
        }
    }
    /// What was said of the flow does not hold any more. The record keeps what the lease knows.
    #[inline]
    pub(crate) fn end_lease(&mut self, i: u32) {
        if let Some(r) = self.records.get_mut(i as usize)
            && r.lease != NO_LEASE
            && let Some(l) = &self.leases
        {
            l.end(r.lease);
        }
    }

    /// Files a record in a queue; `hashes`: of its keys.
    #[inline(always)]
    pub(crate) fn file(&mut self, q: usize, i: u32, hashes: [u32; 2]) {
        if self.queues[q].push(&mut self.records, i, hashes) {
            self.order = EvictionOrder::default();
        }
    }

    #[inline(always)]
    pub(crate) fn queue_of(&self, map: u16, flags: u8) -> usize {
        let member = usize::from(map >> 1);
        let track = self
            .members
            .get(member)
            .map_or(Track::None, |m| m.track[usize::from(map & 1)]);
        member * CLASSES + track.class(flags)
    }

    /// Sets the tracking flags of a record that has just been touched, and so its time-out class.
    #[inline]
    pub fn set_flags(&mut self, i: u32, flags: u8) {
        if self.records[i as usize].flags != flags {
            self.change_flags(i, flags);
        }
    }

    fn change_flags(&mut self, i: u32, flags: u8) {
        self.end_lease(i);
        let r = &mut self.records[i as usize];
        let (map, old) = (r.map, r.flags);
        r.flags = flags;
        let (before, after) = (self.queue_of(map, old), self.queue_of(map, flags));
        if before != after {
            self.queues[before].unlink(&mut self.records, i);
            let r = &self.records[i as usize];
            let hashes = [false, true].map(|reply| self.hash(map, &r.key(reply)));
            self.file(after, i, hashes);
        }
    }

    /// Bytes that it takes, without what its configuration does.
    pub fn memory_bytes(&self) -> usize {
        let queues: usize = self.queues.iter().map(AgeQueue::memory_bytes).sum();
        let free = self.free.capacity() * size_of::<u32>();
        self.records.bytes()
            + self.index.memory_bytes()
            + self.exhaustion.memory_bytes()
            + self.endpoints.as_ref().map_or(0, |e| e.memory_bytes())
            + queues
            + free
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.remove_where(|_| true);
    }

    /// Removes flows that an input of a member has created.
    pub fn forget_input(&mut self, member: u16, input: u16) {
        self.remove_where(|r| r.map >> 1 == member && r.input == input);
    }

    fn remove_where(&mut self, which: impl Fn(&Record) -> bool) {
        for i in 0..self.records.len() {
            if self.records[i].used() && which(&self.records[i]) {
                self.remove(i as u32);
            }
        }
    }

    /// When an idle flow would be swept, in milliseconds since the epoch.
    pub fn expiry_ms(&self, r: &Record) -> u64 {
        (r.last_use(self.leases.as_deref()) >> STAMP_BITS)
            + timeout(&self.members, self.queue_of(r.map, r.flags)).expire
    }

    /// The sequence number shifts of a record's connection, if it has any.
    pub fn shifts(&self, r: &Record) -> Option<&SequenceShifts> {
        self.shifts.get(r.shifts as usize)
    }
    /// [`FlowTable::shifts`] of the record with this number, to be changed.
    #[inline]
    pub fn shifts_mut(&mut self, i: u32) -> Option<&mut SequenceShifts> {
        let s = self.records.get(i as usize)?.shifts;
        self.shifts.get_mut(s as usize)
    }
    /// The shifts of a record, made if there are none.
    pub fn make_shifts(&mut self, i: u32) -> Option<&mut SequenceShifts> {
        self.end_lease(i);
        let r = self.records.get_mut(i as usize)?;
        if r.shifts == NIL {
            r.shifts = self.free_shifts.pop().unwrap_or_else(|| {
                self.shifts.push(SequenceShifts::default());
                self.shifts.len() as u32 - 1
            });
        }
        self.shifts.get_mut(r.shifts as usize)
    }
}

/// Records that are in the index, by reference: twice the number, plus one for the reply direction.
#[derive(Clone, Copy)]
pub(crate) struct Indexed<'t> {
    pub records: &'t [Record],
    hash_key: &'t HashKey,
}

impl IndexKeys for Indexed<'_> {
    fn hash(&self, reference: u32) -> u32 {
        let r = self.records.get((reference >> 1) as usize);
        r.map_or(0, |r| self.hash_key.of(r.map, &r.key(reference & 1 != 0)))
    }
    fn prefetch(&self, reference: u32) {
        if let Some(r) = self.records.get((reference >> 1) as usize) {
            prefetch(r);
        }
    }
}

#[inline(always)]
pub(crate) fn timeout(members: &[Member], queue: usize) -> Timeout {
    let class = |m: &Member| m.timeouts[queue % CLASSES];
    members.get(queue / CLASSES).map(class).unwrap_or_default()
}
