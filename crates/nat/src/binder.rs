//! Many packets of one input bound one after the other, with the flow table and the input's pattern at hand.
//!
//! [`crate::bind`] does what `push` does for whatever packet and specification there is. Most packets of floods and of
//! usual traffic are of TCP or UDP, go forward, and begin flows, if any, by a pattern. A [`Binder`] knows these alone;
//! of everything else it says so before anything has happened. What it does for those that it knows is the same: the
//! same draws, records, stamps and counters.

use crate::access::RewriterHandle;
use crate::apply;
use crate::apply::{TCP_NEEDED, UDP_NEEDED};
use crate::columns::{BindRequest, COLUMNS, Columns, Filling, FlowPacket, How, ROW};
use crate::flow_id::FlowId;
use crate::flow_id::checksum_addend;
use crate::kind::RewriterKind;
use crate::lease::Leases;
use crate::pattern::{Pattern, PatternSet};
use crate::record::{NewFlow, Usage};
use crate::spec::{InTable, InputSpec};
use crate::table::FlowTable;
use onefold_packet::Timestamp;
use onefold_packet::wire::ipv4::proto;
use onefold_state::DropReason;
use onefold_state::Port;
use onefold_state::StateStore;

/// The bindings that the caller's code has been made for: with any other, nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Where the packet leaves.
    pub output: u16,
    /// Of source and destination address and port: the least and the greatest value that it may get, or none where it
    /// has to stay.
    pub fields: [Option<(u32, u32)>; 4],
}

/// A forward packet's binding: what is written into it, and what is added to the one's complements of its checksums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowBinding {
    /// New addresses and ports.
    pub to: FlowId,
    /// For the IP header.
    pub ip_sum: u16,
    /// For the transport header.
    pub transport_sum: u16,
}

/// A [`Binder`]'s answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindAnswer {
    /// Nothing has happened: [`crate::Element::bind`] is to be asked.
    Ask,
    /// By this binding.
    To(FlowBinding),
    /// There is no room for it.
    Drop(DropReason),
}

/// See the module's text.
#[derive(Debug)]
pub struct Binder<'s> {
    pub(crate) table: &'s mut FlowTable,
    /// The pattern that new flows get, and where they leave.
    pub(crate) new: Option<(&'s mut Pattern, u16, u16)>,
    kind: RewriterKind,
    take_over: bool,
    /// New flows have [mappings](crate::Member::endpoints), and connections are established by these bits.
    endpoints: bool,
    acks: u8,
    /// What that makes of flows, if it follows from each.
    filling: Option<Filling>,
    /// Twice the member's number.
    map: u16,
    pub(crate) port: u16,
    /// A moment, and the [first stamp](Leases::first_stamp) of its millisecond.
    moment: (Timestamp, u64),
    /// Where those are of [`Wanted`] that take all that the pattern may make of any flow, by a part of that number.
    sure: [usize; SURE],
}

/// How many are remembered; a power of two.
const SURE: usize = 16;
/// So many new flows, one after the other, are a flood.
const FLOOD: u32 = 16;

fn fields(f: &FlowId) -> [u32; 4] {
    [f.saddr, f.daddr, f.sport.into(), f.dport.into()]
}

impl Wanted {
    /// Is all wanted that the fields may become?
    #[inline]
    fn takes(&self, old: &FlowId, least: &FlowId, most: &FlowId) -> bool {
        let (old, least, most) = (fields(old), fields(least), fields(most));
        let mut all = true;
        for i in 0..4 {
            let (lo, hi) = self.fields[i].unwrap_or((old[i], old[i]));
            all &= lo <= least[i] && most[i] <= hi;
        }
        all
    }
}

impl Pattern {
    /// Is all wanted that flows may become, whatever they are?
    #[cold]
    #[inline(never)]
    fn always_wanted(&self, w: &Wanted) -> bool {
        // what stays differs between these, and what does not is what the pattern says
        let flow = |v: u32| FlowId {
            saddr: v,
            daddr: v,
            sport: v as u16,
            dport: v as u16,
        };
        let (low, high) = (self.ends(flow(1)), self.ends(flow(u32::MAX)));
        let (least, most) = (fields(&low.0), fields(&low.1));
        let others = (fields(&high.0), fields(&high.1));
        let mut all = true;
        for i in 0..4 {
            let set = (least[i] == others.0[i]) & (most[i] == others.1[i]);
            all &= match w.fields[i] {
                None => !set,
                Some((lo, hi)) => set & (lo <= least[i]) & (most[i] <= hi),
            };
        }
        all
    }
}

impl<'s> Binder<'s> {
    /// For an input of a rewriter without a reply annotation; `None` for rewriters of other things than addresses and
    /// ports.
    pub fn of(
        kind: RewriterKind,
        h: RewriterHandle,
        port: Port,
        store: &'s mut StateStore,
    ) -> Option<Binder<'s>> {
        if !matches!(
            kind,
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp
        ) {
            return None;
        }
        let t = store.get::<FlowTable>(h.table)?;
        let m = t.members.get(usize::from(h.member))?;
        let (take_over, endpoints, acks) = (m.take_over, m.endpoints, m.acks());
        let there = |o: usize| u16::try_from(o).ok().filter(|_| o < m.noutputs);
        let new = match m.specs.get(port)?.0 {
            InputSpec::Pattern(p, f, r) => Some(p).zip(there(f)).zip(there(r)),
            _ => None,
        };
        let (table, new) = match new {
            Some(((p, f), r)) => {
                let (set, table) = store.get_two_mut::<PatternSet, FlowTable>(p.set, h.table)?;
                let pattern = set.patterns.get_mut(p.index)?;
                (table, Some((pattern, f, r)))
            }
            None => (store.get_mut::<FlowTable>(h.table)?, None),
        };
        // what becomes of flows with mappings is not known before
        let new_alone = new.as_ref().filter(|_| !endpoints);
        let filling = new_alone.and_then(|(p, ..)| p.filling());
        Some(Binder {
            filling,
            moment: (Timestamp::ZERO, 0),
            table,
            new,
            kind,
            take_over,
            endpoints,
            acks,
            map: h.member * 2,
            port: u16::try_from(port).ok()?,
            sure: [0; SURE],
        })
    }

    /// Least bytes of TCP's and UDP's transport headers; [`u32::MAX`] for what is not known.
    #[inline(always)]
    fn least(&self) -> [u32; 2] {
        let (tcp, udp) = (TCP_NEEDED as u32, UDP_NEEDED as u32);
        match self.kind {
            RewriterKind::Tcp => [tcp, u32::MAX],
            RewriterKind::Udp => [u32::MAX, udp],
            _ => [tcp, udp],
        }
    }

    /// What is to be asked about a packet, if it is of a kind that is known.
    #[inline(always)]
    pub fn ask(&self, packet: FlowPacket) -> Option<BindRequest> {
        let [tcp, udp] = self.least();
        let least = match packet.proto {
            proto::TCP => tcp,
            proto::UDP => udp,
            _ => return None,
        };
        if packet.transport_len < least {
            return None;
        }
        let two = self.kind == RewriterKind::Ip && packet.proto != proto::TCP;
        let map = self.map + u16::from(two);
        Some(BindRequest {
            packet,
            map,
            hash: self.table.hash(map, &packet.flow),
            likely: None,
        })
    }

    /// What is to be asked about a row's packets, `n` of them, which have been [put](Columns::put) into columns: it is
    /// worked out, and their places in the index are asked for; in a flood those of their replies and the records of
    /// new flows, too. `new`: how many new flows there were before in this batch.
    ///
    /// Row by row, so that lines are on their way while the next row is read: all of a batch's at once are more than a
    /// processor waits for at a time.
    #[inline(always)]
    pub fn ask_row(&self, c: &mut Columns, row: usize, n: usize, new: usize) -> usize {
        let how = How {
            hash_key: &self.table.hash_key,
            filling: self.filling,
            map: self.map,
            two: self.kind == RewriterKind::Ip,
            least: self.least(),
            acks: self.acks,
        };
        c.work_out(row, &how);
        let from = row * ROW;
        if !self.table.flood {
            (from..from + n).for_each(|i| self.table.prefetch_bucket(c.hash(i)));
            return 0;
        }
        for i in from..from + n {
            let [forward, reply] = c.hashes(i);
            self.table.prefetch_bucket(forward);
            self.table.prefetch_bucket(reply);
        }
        let likely = c.likely(from, n);
        if !self.table.full() {
            self.table.prefetch_new(new, likely);
        }
        likely
    }

    /// Once the places of all `n` packets are there: the records of flows that are known are asked for, and the places
    /// and records of new ones (of `asked` of them they have been, by [`Binder::ask_row`]). Nothing is concluded from
    /// it but of how many packets there is something to be asked.
    #[inline(always)]
    pub fn batch_prepare(&mut self, all: &[Columns], n: usize, asked: usize) -> usize {
        let mut new = 0;
        let mut known = 0;
        for (c, from) in all.iter().zip((0..n).step_by(COLUMNS)) {
            let here = COLUMNS.min(n - from);
            if self.table.flood && c.likely(0, here) == here {
                known += here as u32;
                new += here as u32;
                continue;
            }
            for i in 0..here {
                if !c.is_known(i) {
                    continue;
                }
                known += 1;
                // in a flood records are not looked at
                let sure = self.table.flood && c.reply(i).is_some();
                if !sure && self.table.prefetch_record(c.hash(i)).is_some() {
                    continue;
                }
                if !sure {
                    self.prefetch_replies(c, i, new);
                }
                new += 1;
            }
        }
        // those that take over another's are asked for as others go
        let left = (new as usize).saturating_sub(asked);
        if left > 0 && !self.table.full() {
            self.table.prefetch_new(asked, left);
        }
        self.table.flood = known == new && known >= FLOOD;
        known as usize
    }

    /// Where the replies of the `n`th new flow will most likely stand is asked for.
    #[inline]
    fn prefetch_replies(&self, c: &Columns, i: usize, n: u32) {
        if let Some(h) = c.reply(i) {
            return self.table.prefetch_bucket(h);
        }
        let to = self.new.as_ref();
        if let Some(to) = to.and_then(|(p, ..)| p.predict(c.flow(i), n)) {
            self.table
                .prefetch_bucket(self.table.hash(c.map(i), &to.reversed()));
        }
    }

    /// Finds or makes the binding of a packet that it has been asked about since the element was; `draw` gives 32
    /// random bits of the rewriter's.
    #[inline(always)]
    pub fn bind(
        &mut self,
        a: &BindRequest,
        wanted: &'s Wanted,
        now: Timestamp,
        draw: impl FnMut() -> u32,
    ) -> BindAnswer {
        match self.table.lookup_hashed(a.hash, a.map, &a.packet.flow) {
            Some((i, reply)) => {
                self.table.flood = false;
                match reply {
                    false => self.found(i, &a.packet, wanted, now),
                    true => BindAnswer::Ask,
                }
            }
            None => self.make(a, wanted, now, draw),
        }
    }

    /// The first stamp of a moment's millisecond.
    #[inline(always)]
    pub(crate) fn first_stamp(&mut self, now: Timestamp) -> u64 {
        if self.moment.0 != now {
            self.moment = (now, Leases::first_stamp(now));
        }
        self.moment.1
    }

    /// Is all wanted that the pattern may make of a flow? Most often it is of any flow.
    #[inline(always)]
    fn is_wanted(&mut self, wanted: &'s Wanted, flow: FlowId) -> bool {
        if self.is_always_wanted(wanted) {
            return true;
        }
        let Some((pattern, ..)) = &self.new else {
            return false;
        };
        let (least, most) = pattern.ends(flow);
        wanted.takes(&flow, &least, &most)
    }

    /// Is all wanted that the pattern may make of any flow? It is found out once.
    #[inline(always)]
    pub(crate) fn is_always_wanted(&mut self, wanted: &'s Wanted) -> bool {
        let Some((pattern, ..)) = &self.new else {
            return false;
        };
        // nothing else is there as long as the binder is: a number is enough
        let at = std::ptr::from_ref(wanted).addr();
        // two places for each: which ones share one depends on where they happen to lie, and two that take turns, as
        // those of TCP and UDP do, would be found out anew for every fifth packet
        let first = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let [a, b] = [first as usize % SURE, (first as usize % SURE) ^ 1];
        if self.sure[a] == at || self.sure[b] == at {
            return true;
        }
        let always = pattern.always_wanted(wanted);
        if always {
            // the older one stays in the second place
            self.sure[b] = std::mem::replace(&mut self.sure[a], at);
        }
        always
    }

    /// A flow's flags after a forward packet.
    #[inline(always)]
    pub(crate) fn flags(before: u8, p: &FlowPacket, acks: u8) -> u8 {
        if p.proto != proto::TCP {
            return apply::udp_flags(before, false);
        }
        let [words, control] = p.tcp;
        let payload = 20 + usize::from(words >> 4) * 4 < usize::from(p.total_len);
        apply::tcp_flags(before, false, control, payload, acks)
    }

    #[inline(always)]
    fn found(&mut self, i: u32, p: &FlowPacket, wanted: &Wanted, now: Timestamp) -> BindAnswer {
        let t = &mut *self.table;
        let Some(r) = t.records.get(i as usize) else {
            return BindAnswer::Ask;
        };
        let to = r.rewritten(false);
        let as_wanted =
            r.input == self.port && r.output[0] == wanted.output && wanted.takes(&p.flow, &to, &to);
        if !as_wanted || r.shifts_sequence_numbers() {
            return BindAnswer::Ask;
        }
        let (ip_delta, port_delta) = (r.ip_delta, r.port_delta);
        let flags = Self::flags(r.flags, p, self.acks);
        t.touch(i, now);
        t.set_flags(i, flags);
        BindAnswer::To(FlowBinding {
            to,
            ip_sum: checksum_addend(ip_delta, false),
            transport_sum: checksum_addend(port_delta, false),
        })
    }

    #[inline(always)]
    fn make(
        &mut self,
        a: &BindRequest,
        wanted: &'s Wanted,
        now: Timestamp,
        draw: impl FnMut() -> u32,
    ) -> BindAnswer {
        let (p, map) = (&a.packet, a.map);
        if !self.is_wanted(wanted, p.flow) {
            return BindAnswer::Ask;
        }
        let first = self.first_stamp(now);
        let (input, t) = (self.port, &mut *self.table);
        let Some((pattern, f, r)) = &mut self.new else {
            return BindAnswer::Ask;
        };
        if *f != wanted.output {
            return BindAnswer::Ask;
        }
        let acks = self.acks;
        let mapped = self.endpoints && pattern.maps_sources();
        let flow = |to: FlowId, free: bool| NewFlow {
            map,
            input,
            ip_p: p.proto,
            flow: p.flow,
            hash: a.hash,
            rewritten: to,
            outputs: (usize::from(*f), usize::from(*r)),
            ping: false,
            free,
            // the packet that has made it is its last use as it is
            flags: Self::flags(0, p, acks),
            usage: match mapped {
                true => Usage::MappedSource,
                false => Usage::Plain,
            },
        };
        // most often it becomes what it was taken to become, and all that follows from that has been worked out
        let likely = a.likely.map(|l| (l, pattern.own(p.flow)));
        let (to, deltas, made) = match likely {
            Some((l, to))
                if to.reversed() != p.flow
                    && t.lookup_hashed(l.hash, map, &to.reversed()).is_none() =>
            {
                pattern.take_own(p.flow);
                let stamp = t.stamp_from(first);
                let made = t.insert_free(&flow(to, true), [a.hash, l.hash], l.deltas, stamp);
                (to, l.deltas, made)
            }
            _ => {
                let take_over = self.take_over;
                let free = pattern.top != 0 || !take_over || mapped;
                let mut replies = InTable {
                    t,
                    map,
                    ping: false,
                    take_over,
                    free: None,
                };
                let to = match mapped {
                    true => pattern.map_source(p.flow, &mut replies, draw),
                    false => pattern.rewrite(p.flow, &mut replies, draw),
                };
                let found = replies.free;
                let Some(to) = to else {
                    t.count_failure(map, input);
                    return BindAnswer::Drop(self.kind.reasons().no_room);
                };
                let new = flow(to, free);
                let deltas = new.deltas();
                let made = match free && to.reversed() != p.flow {
                    true => {
                        let reply = found.unwrap_or_else(|| t.hash(map, &to.reversed()));
                        let stamp = t.stamp_from(first);
                        t.insert_free(&new, [a.hash, reply], deltas, stamp)
                    }
                    false => {
                        // one that may have to go itself does so as if it were still open
                        let flags = new.flags;
                        let made = t.insert(&NewFlow { flags: 0, ..new }, now);
                        made.inspect(|i| t.set_flags(*i, flags))
                    }
                };
                (to, deltas, made)
            }
        };
        if made.is_none() {
            return BindAnswer::Drop(self.kind.reasons().full);
        }
        BindAnswer::To(FlowBinding {
            to,
            ip_sum: checksum_addend(deltas.0, false),
            transport_sum: checksum_addend(deltas.1, false),
        })
    }
}

#[cfg(test)]
#[path = "binder_tests.rs"]
mod tests;
