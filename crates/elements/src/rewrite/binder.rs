//! Many packets of one input bound one after the other, with the flow table and the input's pattern at hand.
//!
//! [`super::bind`] does what `push` does for whatever packet and specification there is. Most packets of floods and of usual traffic are of TCP or UDP, go
//! forward, and begin flows, if any, by a pattern. A [`Binder`] knows these alone; of everything else it says so before anything has
//! happened. What it does for those that it knows is the same: the same draws, records, stamps and counters.

use super::access::Handle;
use super::apply;
use super::bind::{HEAD, TCP_NEEDED, shift};
use super::flowid::FlowId;
use super::kind::Kind;
use super::pattern::{Pattern, PatternSet};
use super::record::NewFlow;
use super::spec::{InTable, InputSpec};
use super::table::FlowTable;
use crate::Port;
use crate::cx::DropReason;
use crate::store::StateStore;
use onefold_packet::Timestamp;
use onefold_packet::wire::ipv4::proto;

/// What a [`Binder`] looks at of a packet: an IP header of 20 bytes, no later fragment.
#[derive(Debug, Clone, Copy)]
pub struct FlowPacket {
    /// IP protocol.
    pub proto: u8,
    /// Addresses and ports.
    pub flow: FlowId,
    /// TCP: the byte with the header's length, and the one with the flags.
    pub tcp: [u8; 2],
    /// Bytes from the transport header to the end of the packet.
    pub transport_len: u32,
    /// As the IP header says.
    pub total_len: u16,
}

/// A packet that a [`Binder`] knows, with what is looked up.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    packet: FlowPacket,
    /// [`NOBODY`]: of no packet.
    map: u16,
    hash: u32,
}

/// No map.
const NOBODY: u16 = u16::MAX;

impl Asked {
    /// About nothing.
    pub const NOTHING: Asked = Asked {
        packet: FlowPacket {
            proto: 0,
            flow: FlowId {
                saddr: 0,
                daddr: 0,
                sport: 0,
                dport: 0,
            },
            tcp: [0; 2],
            transport_len: 0,
            total_len: 0,
        },
        map: NOBODY,
        hash: 0,
    };

    /// Is it about nothing?
    #[inline(always)]
    pub fn is_nothing(&self) -> bool {
        self.map == NOBODY
    }
}

/// What whoever asks has been made for: nothing else is done for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Where the packet leaves.
    pub output: u16,
    /// Of source and destination address and port: the least and the greatest value that it may get, or none where it has to stay.
    pub fields: [Option<(u32, u32)>; 4],
}

/// A forward packet's binding: what is written into it, and what is added to the one's complements of its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
pub enum Tied {
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
    table: &'s mut FlowTable,
    /// The pattern that new flows get, and where they leave.
    new: Option<(&'s mut Pattern, u16, u16)>,
    kind: Kind,
    /// Twice the member's number.
    map: u16,
    port: u16,
    /// Where those are of [`Wanted`] that take all that the pattern may make of any flow, by a part of that number.
    sure: [usize; SURE],
}

/// How many are remembered; a power of two.
const SURE: usize = 16;

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
        let ends = [flow(1), flow(u32::MAX)].map(|f| self.ends(f));
        (0..4).all(|i| {
            let [(a, b), (c, d)] = ends.map(|(l, m)| (fields(&l)[i], fields(&m)[i]));
            let set = (a, b) == (c, d);
            match w.fields[i] {
                None => !set,
                Some((lo, hi)) => set && lo <= a && b <= hi,
            }
        })
    }
}

impl<'s> Binder<'s> {
    /// For an input of a rewriter without a reply annotation; `None` for rewriters of other things than addresses and ports.
    pub(super) fn of(
        kind: Kind,
        h: Handle,
        port: Port,
        store: &'s mut StateStore,
    ) -> Option<Binder<'s>> {
        if !matches!(kind, Kind::Ip | Kind::Tcp | Kind::Udp) {
            return None;
        }
        let t = store.get::<FlowTable>(h.table)?;
        let m = t.members.get(usize::from(h.member))?;
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
        Some(Binder {
            table,
            new,
            kind,
            map: h.member * 2,
            port: u16::try_from(port).ok()?,
            sure: [0; SURE],
        })
    }

    /// What is to be asked about a packet, if it is of a kind that is known. Its place in the index is asked for.
    #[inline(always)]
    pub fn ask(&self, packet: FlowPacket) -> Asked {
        let tcp = packet.proto == proto::TCP;
        let known = match self.kind {
            Kind::Ip => tcp || packet.proto == proto::UDP,
            Kind::Tcp => tcp,
            _ => packet.proto == proto::UDP,
        };
        if !known || packet.transport_len < if tcp { TCP_NEEDED } else { HEAD } as u32 {
            return Asked::NOTHING;
        }
        let map = self.map + u16::from(self.kind == Kind::Ip && !tcp);
        let hash = self.table.hash(map, &packet.flow);
        self.table.expect(hash);
        Asked { packet, map, hash }
    }

    /// Once the places of all are there: the record of a packet's flow, or of a new one where its replies will stand, is asked for. `new` counts new ones.
    /// Nothing is concluded from it.
    #[inline(always)]
    pub fn foresee(&self, a: &Asked, new: &mut u32) {
        if self.table.expect_record(a.hash).is_some() {
            return;
        }
        let to = self.new.as_ref();
        if let Some(to) = to.and_then(|(p, ..)| p.foresee(a.packet.flow, *new)) {
            self.table.expect(self.table.hash(a.map, &to.reversed()));
        }
        *new += 1;
    }

    /// So many new flows have been [foreseen](Binder::foresee): their records are asked for.
    pub fn foreseen(&self, new: u32) {
        // those that take over another's are asked for as others go
        if new > 0 && !self.table.full() {
            self.table.expect_new(new as usize);
        }
    }

    /// Finds or makes the binding of a packet that it has been asked about since the element was; `draw` gives 32 random bits of the rewriter's.
    #[inline(always)]
    pub fn bind(
        &mut self,
        a: &Asked,
        wanted: &'s Wanted,
        now: Timestamp,
        draw: impl FnMut() -> u32,
    ) -> Tied {
        match self.table.lookup_hashed(a.hash, a.map, &a.packet.flow) {
            Some((i, false)) => self.found(i, &a.packet, wanted, now),
            Some((_, true)) => Tied::Ask,
            None => self.make(a, wanted, now, draw),
        }
    }

    /// Is all wanted that the pattern may make of a flow? Most often it is of any flow, which is found out once.
    #[inline(always)]
    fn is_wanted(&mut self, wanted: &'s Wanted, flow: FlowId) -> bool {
        let Some((pattern, ..)) = &self.new else {
            return false;
        };
        // nothing else is there as long as the binder is: a number is enough
        let at = std::ptr::from_ref(wanted).addr();
        let Some(known) = self.sure.get_mut(at / align_of::<u64>() % SURE) else {
            return false;
        };
        if *known == at {
            return true;
        }
        if pattern.always_wanted(wanted) {
            *known = at;
            return true;
        }
        let (least, most) = pattern.ends(flow);
        wanted.takes(&flow, &least, &most)
    }

    /// A flow's flags after a forward packet.
    #[inline(always)]
    fn flags(before: u8, p: &FlowPacket) -> u8 {
        if p.proto != proto::TCP {
            return apply::udp_flags(before, false);
        }
        let [words, control] = p.tcp;
        let payload = 20 + usize::from(words >> 4) * 4 < usize::from(p.total_len);
        apply::tcp_flags(before, false, control, payload)
    }

    #[inline(always)]
    fn found(&mut self, i: u32, p: &FlowPacket, wanted: &Wanted, now: Timestamp) -> Tied {
        let t = &mut *self.table;
        let Some(r) = t.records.get(i as usize) else {
            return Tied::Ask;
        };
        let to = r.rewritten(false);
        let as_wanted =
            r.input == self.port && r.output[0] == wanted.output && wanted.takes(&p.flow, &to, &to);
        if !as_wanted || r.shifts_sequence_numbers() {
            return Tied::Ask;
        }
        let (ip_delta, port_delta) = (r.ip_delta, r.port_delta);
        let flags = Self::flags(r.flags, p);
        t.touch(i, now);
        t.set_flags(i, flags);
        Tied::To(FlowBinding {
            to,
            ip_sum: shift(ip_delta, false),
            transport_sum: shift(port_delta, false),
        })
    }

    #[inline(always)]
    fn make(
        &mut self,
        a: &Asked,
        wanted: &'s Wanted,
        now: Timestamp,
        draw: impl FnMut() -> u32,
    ) -> Tied {
        let (p, map, hash) = (&a.packet, a.map, a.hash);
        if !self.is_wanted(wanted, p.flow) {
            return Tied::Ask;
        }
        let Some((pattern, f, r)) = &mut self.new else {
            return Tied::Ask;
        };
        if *f != wanted.output {
            return Tied::Ask;
        }
        let free = pattern.top != 0;
        let t = &mut *self.table;
        let mut replies = InTable {
            t,
            map,
            ping: false,
            free: None,
        };
        let made = pattern.rewrite(p.flow, &mut replies, draw);
        let found = replies.free;
        let t = &mut *self.table;
        let Some(to) = made else {
            t.count_failure(map, self.port);
            return Tied::Drop(self.kind.reasons().no_room);
        };
        let new = NewFlow {
            map,
            input: self.port,
            ip_p: p.proto,
            flow: p.flow,
            hash,
            rewritten: to,
            outputs: (usize::from(*f), usize::from(*r)),
            ping: false,
            free,
            // the packet that has made it is its last use as it is
            flags: Self::flags(0, p),
        };
        let made = match free && to.reversed() != p.flow {
            true => {
                let reply = found.unwrap_or_else(|| t.hash(map, &to.reversed()));
                t.insert_free(&new, [hash, reply], now)
            }
            false => t.insert(&new, now),
        };
        if made.is_none() {
            return Tied::Drop(self.kind.reasons().full);
        }
        let (ip, transport) = new.deltas();
        Tied::To(FlowBinding {
            to,
            ip_sum: shift(ip, false),
            transport_sum: shift(transport, false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is wanted of any flow is wanted of each.
        #[test]
        fn what_is_always_wanted_is_wanted(
            set in any::<[bool; 4]>(),
            (saddr, sport, daddr, dport, top) in (1u32.., 1u16..60_000, 1u32.., 1u16.., 0u32..200),
            fields in proptest::collection::vec(proptest::option::of((0u32..3, 0u32..3)), 4),
            flow in any::<(u32, u32, u16, u16)>(),
        ) {
            let of = |i: usize, v: u32| if set[i] { v } else { 0 };
            let pattern = Pattern {
                saddr: of(0, saddr),
                sport: of(2, sport.into()) as u16,
                daddr: of(1, daddr),
                dport: of(3, dport.into()) as u16,
                top: if set[2] { top } else { 0 },
                ports: true,
                sequential: false,
                same_first: true,
                next: 0,
            };
            let flow = FlowId { saddr: flow.0, daddr: flow.1, sport: flow.2, dport: flow.3 };
            let (least, most) = pattern.ends(flow);
            // about what comes out: less, as much, or more
            let near = |i: usize, (lo, hi): (u32, u32)| {
                let (a, b) = (super::fields(&least)[i], super::fields(&most)[i]);
                (a.saturating_add(lo).saturating_sub(1), b.saturating_add(hi).saturating_sub(1))
            };
            let mut wanted = Wanted { output: 0, fields: [None; 4] };
            for (i, (to, f)) in wanted.fields.iter_mut().zip(fields).enumerate() {
                *to = f.map(|f| near(i, f));
            }
            if pattern.always_wanted(&wanted) {
                prop_assert!(wanted.takes(&flow, &least, &most));
            }
            // that a field that is set has to be what it is set to is enough
            let all = (0..4).all(|i| match wanted.fields[i] {
                None => !set[i],
                Some(_) => set[i],
            });
            if all {
                prop_assert_eq!(pattern.always_wanted(&wanted), wanted.takes(&flow, &least, &most));
            }
        }
    }
}
