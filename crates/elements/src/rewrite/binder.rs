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
    pub transport_len: usize,
    /// As the IP header says.
    pub total_len: u16,
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
}

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
        })
    }

    /// Finds or makes a packet's binding; `draw` gives 32 random bits of the rewriter's.
    #[inline(always)]
    pub fn bind(
        &mut self,
        p: &FlowPacket,
        wanted: &Wanted,
        now: Timestamp,
        draw: impl FnMut() -> u32,
    ) -> Tied {
        let tcp = p.proto == proto::TCP;
        let known = match self.kind {
            Kind::Ip => tcp || p.proto == proto::UDP,
            Kind::Tcp => tcp,
            _ => p.proto == proto::UDP,
        };
        if !known || p.transport_len < if tcp { TCP_NEEDED } else { HEAD } {
            return Tied::Ask;
        }
        let map = self.map + u16::from(self.kind == Kind::Ip && !tcp);
        let hash = self.table.hash(map, &p.flow);
        match self.table.lookup_hashed(hash, map, &p.flow) {
            Some((i, false)) => self.found(i, p, wanted, now),
            Some((_, true)) => Tied::Ask,
            None => self.make(map, hash, p, wanted, now, draw),
        }
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
        map: u16,
        hash: u32,
        p: &FlowPacket,
        wanted: &Wanted,
        now: Timestamp,
        draw: impl FnMut() -> u32,
    ) -> Tied {
        let Some((pattern, f, r)) = &mut self.new else {
            return Tied::Ask;
        };
        let (least, most) = pattern.ends(p.flow);
        if *f != wanted.output || !wanted.takes(&p.flow, &least, &most) {
            return Tied::Ask;
        }
        let free = pattern.top != 0;
        let t = &mut *self.table;
        let replies = InTable {
            t,
            map,
            ping: false,
        };
        let made = pattern.rewrite(p.flow, replies, draw);
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
        };
        let made = match free && to.reversed() != p.flow {
            true => t.insert_free(&new, now),
            false => t.insert(&new, now),
        };
        let Some(i) = made else {
            return Tied::Drop(self.kind.reasons().full);
        };
        // the packet that has made it is its last use as it is
        t.set_flags(i, Self::flags(0, p));
        let (ip, transport) = new.deltas();
        Tied::To(FlowBinding {
            to,
            ip_sum: shift(ip, false),
            transport_sum: shift(transport, false),
        })
    }
}
