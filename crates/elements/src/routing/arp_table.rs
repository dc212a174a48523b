//! Tables of ARP: what is known about hardware addresses, and the packets that wait for them. ARPQuerier elements own
//! one or share that of an [`ARPTable`](super::arp_table_element).

use super::neighbors::{Heard, Neighbors, Terms, is_multicast};
use onefold_element::args::{ArgScope, Args, FromArg, Seconds};
use onefold_element::handler::HandlerError;
use onefold_element::{Cx, ElemId, Scope, State, StateId, Takes, TimerId, state_any};
use onefold_packet::{EtherAddr, Pkt, Timestamp};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::net::Ipv4Addr;

/// "No entry" in links.
const NIL: u32 = u32::MAX;

/// Settings of a table; times in milliseconds, zero for never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    /// Most waiting packets in all; 0 for no limit.
    pub packets: u32,
    /// Most entries; 0 for no limit.
    pub entries: u32,
    /// Most waiting packets per entry; 0 for no limit.
    pub entry_packets: u32,
    /// One part in so many of the waiting packets is dropped when there are too many.
    pub slim_factor: u32,
    /// Age at which an entry is no longer known.
    pub timeout: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            packets: 2048,
            entries: 0,
            entry_packets: 0,
            slim_factor: 2,
            timeout: 300_000,
        }
    }
}

/// Most entries and waiting packets even where the configuration sets no limit: strangers decide how many there are.
const MAX_ENTRIES: u32 = 1 << 20;

impl Limits {
    /// Reads the keywords that ARPTable and ARPQuerier share.
    pub fn read(args: &mut Args<'_>) -> Limits {
        let d = Limits::default();
        let l = Limits {
            packets: args.keyword("CAPACITY").unwrap_or(d.packets),
            entries: args.keyword("ENTRY_CAPACITY").unwrap_or(d.entries),
            entry_packets: args
                .keyword("ENTRY_PACKET_CAPACITY")
                .unwrap_or(d.entry_packets),
            slim_factor: args
                .keyword("CAPACITY_SLIM_FACTOR")
                .unwrap_or(d.slim_factor),
            timeout: args.keyword("TIMEOUT").map_or(d.timeout, millis),
        };
        if l.slim_factor == 0 {
            args.error("CAPACITY_SLIM_FACTOR: cannot be zero");
        }
        Limits {
            slim_factor: l.slim_factor.max(1),
            ..l
        }
    }
    /// When the next clean-up is due: first after the time-out, then a second later each time, as in Click.
    pub fn expiry(&self, first: bool) -> Option<Timestamp> {
        let s = self.timeout / 1000 + i64::from(!first);
        (self.timeout != 0).then(|| Timestamp::from_secs(s.max(1)))
    }
}

/// A time-out in milliseconds; what does not fit into 32 bits is "never".
pub(super) fn millis(Seconds(t): Seconds) -> i64 {
    match t.sec() {
        s if s >= i64::from(u32::MAX / 1000) => 0,
        _ => t.nanos() / 1_000_000,
    }
}

/// The clock of ARP: milliseconds.
pub(super) fn clock(now: Timestamp) -> i64 {
    now.nanos().div_euclid(1_000_000)
}

#[derive(Debug, Clone)]
struct Entry {
    ip: [u8; 4],
    eth: EtherAddr,
    known: bool,
    polls: u8,
    live_at: i64,
    polled_at: i64,
    queue: VecDeque<Pkt>,
    older: u32,
    newer: u32,
}

impl Entry {
    fn expired(&self, now: i64, timeout: i64) -> bool {
        timeout != 0 && self.live_at + timeout < now
    }
    fn is_known(&self, now: i64, timeout: i64) -> bool {
        self.known && !self.expired(now, timeout)
    }
    /// At most ten queries a second, after ten without answer one in two seconds: when the next one may be sent.
    fn next_poll(&self) -> i64 {
        self.polled_at + if self.polls >= 10 { 2000 } else { 100 }
    }
    fn may_poll(&self, now: i64) -> bool {
        now >= self.next_poll()
    }
    fn mark_poll(&mut self, now: i64) {
        self.polled_at = now;
        self.polls = self.polls.saturating_add(1);
    }
}

/// What became of a packet that has to wait.
pub(super) enum Waiting {
    /// It waits; a query is due if true.
    Queued(bool),
    /// No room for it.
    Full(Pkt),
    /// The address has become known.
    Known(Pkt),
}

/// The table.
#[derive(Debug, Clone)]
pub(crate) struct ArpTable {
    limits: Limits,
    /// What of it the fast path reads.
    neighbors: Neighbors,
    /// Who asks it, on which terms.
    queriers: Vec<(ElemId, Terms)>,
    index: HashMap<[u8; 4], u32>,
    slots: Vec<Entry>,
    free: Vec<u32>,
    /// Entries by age: least recently updated first.
    oldest: u32,
    newest: u32,
    waiting: u32,
    pub drops: u32,
}

impl ArpTable {
    pub fn new(limits: Limits) -> Self {
        ArpTable {
            limits,
            neighbors: Neighbors::default(),
            queriers: Vec::new(),
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NIL,
            newest: NIL,
            waiting: 0,
            drops: 0,
        }
    }
    /// Goes on with other settings.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        // Bound: entries
        for i in 0..self.slots.len() as u32 {
            self.tell(i);
        }
    }
    /// What of it the fast path reads.
    pub fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }
    /// On which terms an element asks it, if it does.
    pub fn terms_of(&self, elem: ElemId) -> Option<Terms> {
        self.queriers.iter().find(|q| q.0 == elem).map(|q| q.1)
    }
    /// An element asks it, on these terms.
    pub fn asked_by(&mut self, elem: ElemId, terms: Terms) {
        self.queriers.retain(|q| q.0 != elem);
        self.queriers.push((elem, terms));
    }
    /// Entry `i` has changed: the fast path is told.
    fn tell(&mut self, i: u32) {
        let Some(e) = self.slots.get(i as usize) else {
            return;
        };
        let ip = u32::from_be_bytes(e.ip);
        if self.index.get(&e.ip) != Some(&i) {
            return;
        }
        let expires = match self.limits.timeout {
            0 => i64::MAX,
            t => e.live_at + t + 1,
        };
        let heard = Heard {
            ether: e.eth,
            live_at: e.live_at,
            next_poll: e.next_poll(),
            expires,
        };
        let is_broadcast = |q: &(ElemId, Terms)| q.1.broadcast == Some(ip);
        let special = ip == u32::MAX || is_multicast(ip) || self.queriers.iter().any(is_broadcast);
        (self.neighbors).set(ip.into(), e.known.then_some(heard), special);
    }
    pub fn count(&self) -> usize {
        self.index.len()
    }
    pub fn length(&self) -> u32 {
        self.waiting
    }

    fn unlink(&mut self, i: u32) {
        let (older, newer) = (self.slots[i as usize].older, self.slots[i as usize].newer);
        match self.slots.get_mut(older as usize) {
            Some(o) => o.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(n) => n.older = older,
            None => self.newest = older,
        }
    }

    /// Links `i` in as the next older of `newer`; as the newest of all if that is `NIL`.
    fn link_before(&mut self, i: u32, newer: u32) {
        let older = match self.slots.get_mut(newer as usize) {
            Some(n) => std::mem::replace(&mut n.older, i),
            None => std::mem::replace(&mut self.newest, i),
        };
        match self.slots.get_mut(older as usize) {
            Some(o) => o.newer = i,
            None => self.oldest = i,
        }
        let e = &mut self.slots[i as usize];
        (e.older, e.newer) = (older, newer);
    }

    /// The address if it is known, and whether a query should renew it.
    #[inline]
    pub fn lookup(&mut self, ip: [u8; 4], poll: i64, now: i64) -> Option<(EtherAddr, bool)> {
        let timeout = self.limits.timeout;
        let i = *self.index.get(&ip)?;
        let e = self.slots.get_mut(i as usize)?;
        if !e.is_known(now, timeout) {
            return None;
        }
        let due = poll != 0 && now >= e.live_at + poll && e.may_poll(now);
        let eth = e.eth;
        if due {
            e.mark_poll(now);
            self.tell(i);
        }
        Some((eth, due))
    }

    /// Deletes what has expired and what is too much; dropped packets go to `out`.
    pub fn slim(&mut self, now: i64, out: &mut Vec<Pkt>) {
        let most = match self.limits.entries {
            0 => MAX_ENTRIES,
            n => n.min(MAX_ENTRIES),
        } as usize;
        while let Some(e) = self.slots.get_mut(self.oldest as usize) {
            if !e.expired(now, self.limits.timeout) && self.index.len() <= most {
                break;
            }
            let i = self.oldest;
            self.waiting -= e.queue.len() as u32;
            self.drops += e.queue.len() as u32;
            out.extend(e.queue.drain(..));
            let ip = u32::from_be_bytes(e.ip);
            self.index.remove(&e.ip);
            self.neighbors.set(ip.into(), None, false);
            self.unlink(i);
            self.free.push(i);
        }
        let capacity = self.capacity();
        if self.waiting > capacity {
            let keep = (capacity - capacity / self.limits.slim_factor).max(1);
            let mut i = self.oldest;
            while self.waiting > keep
                && let Some(e) = self.slots.get_mut(i as usize)
            {
                let n = e.queue.len().min((self.waiting - keep) as usize);
                out.extend(e.queue.drain(..n));
                self.waiting -= n as u32;
                self.drops += n as u32;
                i = e.newer;
            }
        }
    }

    fn capacity(&self) -> u32 {
        match self.limits.packets {
            0 => MAX_ENTRIES,
            n => n,
        }
    }

    /// The entry for `ip`, made if it is not there.
    fn ensure(&mut self, ip: [u8; 4], now: i64, out: &mut Vec<Pkt>) -> u32 {
        if let Some(i) = self.index.get(&ip) {
            return *i;
        }
        let e = Entry {
            ip,
            eth: EtherAddr::BROADCAST,
            known: false,
            polls: 0,
            live_at: now,
            polled_at: now - 1000,
            queue: VecDeque::new(),
            older: NIL,
            newer: NIL,
        };
        let i = match self.free.pop() {
            Some(i) => {
                self.slots[i as usize] = e;
                i
            }
            None => {
                self.slots.push(e);
                (self.slots.len() - 1) as u32
            }
        };
        // counted before it is linked, so that making room cannot delete it
        self.index.insert(ip, i);
        let over = self.limits.entries != 0 && self.index.len() > self.limits.entries as usize;
        if over || self.index.len() > MAX_ENTRIES as usize {
            self.slim(now, out);
        }
        self.link_before(i, NIL);
        i
    }

    /// Records an address; the packets that waited for it, if they are wanted. The broadcast address makes it unknown.
    pub fn insert(
        &mut self,
        ip: [u8; 4],
        eth: EtherAddr,
        release: bool,
        now: i64,
        out: &mut Vec<Pkt>,
    ) -> VecDeque<Pkt> {
        let i = self.ensure(ip, now, out);
        let e = &mut self.slots[i as usize];
        e.eth = eth;
        e.known = !eth.is_broadcast();
        e.live_at = now;
        e.polls = 0;
        e.polled_at = now - 1000;
        let mut queue = VecDeque::new();
        if release {
            queue = std::mem::take(&mut e.queue);
            self.waiting -= queue.len() as u32;
        }
        if self.newest != i {
            self.unlink(i);
            self.link_before(i, NIL);
        }
        self.tell(i);
        queue
    }

    /// Lets a packet wait for `ip`.
    pub fn wait(&mut self, ip: [u8; 4], p: Pkt, now: i64, out: &mut Vec<Pkt>) -> Waiting {
        let i = self.ensure(ip, now, out);
        let timeout = self.limits.timeout;
        let e = &mut self.slots[i as usize];
        if e.is_known(now, timeout) {
            return Waiting::Known(p);
        }
        // an address that is asked for stays just this side of expiring, in its place by age
        if timeout != 0 && e.live_at < now - timeout {
            e.live_at = now - timeout;
            let (at, next) = (e.live_at, e.newer);
            let mut newer = next;
            while let Some(n) = self.slots.get(newer as usize)
                && n.live_at < at
            {
                newer = n.newer;
            }
            if newer != next {
                self.unlink(i);
                self.link_before(i, newer);
            }
        }
        let most = self.limits.entry_packets as usize;
        if most != 0 && self.slots[i as usize].queue.len() >= most {
            self.drops += 1;
            self.tell(i);
            return Waiting::Full(p);
        }
        self.waiting += 1;
        if self.waiting > self.capacity() {
            self.slim(now, out);
        }
        if self.index.get(&ip) != Some(&i) {
            // a limit has been lowered meanwhile, and the entry itself had to go
            self.waiting -= 1;
            self.drops += 1;
            return Waiting::Full(p);
        }
        let e = &mut self.slots[i as usize];
        e.queue.push_back(p);
        let poll = e.may_poll(now);
        if poll {
            e.mark_poll(now);
        }
        self.tell(i);
        Waiting::Queued(poll)
    }

    /// Forgets everything; all waiting packets.
    pub fn clear(&mut self) -> Vec<Pkt> {
        let all = self.drain_held();
        self.drops += all.len() as u32;
        let mut neighbors = std::mem::take(&mut self.neighbors);
        neighbors.clear();
        *self = ArpTable {
            drops: self.drops,
            neighbors,
            queriers: std::mem::take(&mut self.queriers),
            ..ArpTable::new(self.limits.clone())
        };
        all
    }

    /// Makes all addresses unknown; packets go on waiting.
    pub fn forget(&mut self) {
        for i in self.index.values() {
            if let Some(e) = self.slots.get_mut(*i as usize) {
                e.known = false;
            }
        }
        self.neighbors.clear();
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let mut i = self.oldest;
        std::iter::from_fn(move || {
            let e = self.slots.get(i as usize)?;
            i = e.newer;
            Some(e)
        })
    }

    /// The `table` handler's text, oldest first.
    pub fn text(&self, now: i64) -> String {
        let mut s = String::new();
        for e in self.entries() {
            let age = (now - e.live_at).max(0);
            let _ = writeln!(
                s,
                "{} {} {} {}.{:03}000",
                Ipv4Addr::from(e.ip),
                u8::from(e.is_known(now, self.limits.timeout)),
                e.eth,
                age / 1000,
                age % 1000
            );
        }
        s
    }

    /// Carries out the `insert`, `delete` and `clear` handlers; dropped packets.
    pub fn command(
        &mut self,
        name: &str,
        value: &str,
        now: i64,
        scope: &ArgScope<'_>,
    ) -> Result<Vec<Pkt>, HandlerError> {
        let mut out = Vec::new();
        let words: Vec<&str> = value.split_whitespace().collect();
        let ip = || {
            words
                .first()
                .and_then(|w| Ipv4Addr::from_arg(w, scope).ok())
        };
        match (name, words.len()) {
            ("clear", _) => return Ok(self.clear()),
            ("insert", 2) => {
                if let (Some(ip), Ok(eth)) = (ip(), EtherAddr::from_arg(words[1], scope)) {
                    self.insert(ip.octets(), eth, false, now, &mut out);
                    return Ok(out);
                }
            }
            ("delete", 1) => {
                if let Some(ip) = ip() {
                    self.insert(ip.octets(), EtherAddr::BROADCAST, false, now, &mut out);
                    return Ok(out);
                }
            }
            _ => {}
        }
        Err(HandlerError::BadValue(format!(
            "expected '{}', found '{value}'",
            if name == "insert" { "IP ETH" } else { "IP" }
        )))
    }
}

impl State for ArpTable {
    /// All neighbours and what waits for them; who asks is the new graph's.
    fn take_state(&mut self, old: &mut dyn State, _: &dyn Fn(ElemId) -> Option<ElemId>) -> Takes {
        let Some(old) = old.as_any_mut().downcast_mut::<ArpTable>() else {
            return Takes::Nothing;
        };
        std::mem::swap(self, old);
        std::mem::swap(&mut self.queriers, &mut old.queriers);
        Takes::Done
    }
    fn summary(&self) -> String {
        let mut s = format!("ARP table {:?} drops {}\n", self.limits, self.drops);
        for e in self.entries() {
            let _ = write!(
                s,
                "{} {} {} live {} polled {} x{}:",
                Ipv4Addr::from(e.ip),
                e.known,
                e.eth,
                e.live_at,
                e.polled_at,
                e.polls
            );
            for p in &e.queue {
                let _ = write!(s, " {:?}", p.data());
            }
            s.push('\n');
        }
        s
    }
    fn held(&self) -> usize {
        self.waiting as usize
    }
    fn drain_held(&mut self) -> Vec<Pkt> {
        let mut all = Vec::new();
        let mut i = self.oldest;
        while let Some(e) = self.slots.get_mut(i as usize) {
            all.extend(e.queue.drain(..));
            i = e.newer;
        }
        self.waiting = 0;
        all
    }
    state_any!(Scope::PerWorker);
}

/// The timer that cleans a table up.
pub(super) const EXPIRY: TimerId = 0;

/// Runs a table's clean-up and sets the timer for the next one.
pub(super) fn expire(table: StateId, cx: &mut Cx<'_>) {
    let mut out = Vec::new();
    let now = clock(cx.now);
    let Some(t) = cx.store.get_mut::<ArpTable>(table) else {
        return;
    };
    t.slim(now, &mut out);
    let next = t.limits.expiry(false);
    if let Some(after) = next {
        cx.set_timer_after(EXPIRY, after);
    }
    drop_all(out, cx);
}

/// Drops packets that a table gave up.
pub(super) fn drop_all(packets: Vec<Pkt>, cx: &mut Cx<'_>) {
    for p in packets {
        cx.drop(p, "ARPTable: next hop did not answer ARP in time");
    }
}
