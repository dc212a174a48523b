//! Rewrite patterns: `SADDR SPORT DADDR DPORT` with a range of source addresses or ports to choose from.
//!
//! **Which variation is chosen** (as Click chooses; the deterministic choices are the same ones). The variations of a
//! pattern are numbered from 0 to `top`.
//! - Without suffix, the packet's own source port is taken if it is in the range and free.
//! - Otherwise the search starts at the number after the last one chosen (suffix `#`), or at a random one (no suffix or
//!   `?`): `draw * (top + 1) / 2^32` for a 32-bit draw. It goes upwards, around the end, to the first variation whose
//!   reply flow is not in the table yet.
//! - When all are taken there is none, and the packet is dropped. The only one of a pattern without a range is given
//!   whether it is taken or not (the older flow is replaced), unless the rewriter says `TAKE_OVER false`.
//!
//! A search that looks at many in vain leaves behind which ones are taken, and the next ones are quick; see
//! [`crate::port_exhaustion`].

use crate::columns::Filling;
use crate::endpoints::Endpoint;
use crate::flow_id::FlowId;
use crate::port_exhaustion::Search;
use onefold_state::state_any;
use onefold_state::{ElemId, Partition, Scope, State, StateId, StateStore, Takes};
use std::fmt;
use std::net::Ipv4Addr;

/// What a pattern's fields are, and which variation comes next. Zero stands for "unchanged".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Source address, or the first one.
    pub saddr: u32,
    /// Source port, or the first one.
    pub sport: u16,
    /// Destination address.
    pub daddr: u32,
    /// Destination port.
    pub dport: u16,
    /// Number of the last variation.
    pub top: u32,
    /// Ports vary; else addresses do.
    pub ports: bool,
    /// Variations are taken in order.
    pub sequential: bool,
    /// The packet's own port is preferred.
    pub same_first: bool,
    /// Where a sequential search goes on.
    pub next: u32,
}

/// What a search for a free variation needs to know of the flow table.
pub(crate) trait Replies {
    /// Must replies be no other flow's even where there is only one variation?
    fn must_be_free(&self) -> bool;
    /// Is there a flow with such replies?
    fn taken(&mut self, reply: &FlowId) -> bool;
    /// The first free variation from this one on, around the end.
    fn search(&mut self, s: &Search, from: u32) -> Option<u32>;
    /// The outside port of an inside address and port at this outside address: see [`crate::endpoints`].
    fn port(
        &mut self,
        addr: u32,
        inside: Endpoint,
        range: (u16, u16),
        draw: impl FnOnce() -> u32,
    ) -> Option<u16>;
}

impl Pattern {
    /// The flow that `flow` becomes, or `None` when there is no free variation. `draw` gives 32 random bits.
    #[inline(always)]
    pub(crate) fn rewrite(
        &mut self,
        flow: FlowId,
        replies: &mut impl Replies,
        mut draw: impl FnMut() -> u32,
    ) -> Option<FlowId> {
        let to = self.filled(flow);
        if self.top == 0 {
            let refused = replies.must_be_free() && replies.taken(&to.reversed());
            return (!refused).then_some(to);
        }
        let base = match self.ports {
            true => u32::from(self.sport),
            false => self.saddr,
        };
        let mut reply = to.reversed();
        let own = u32::from(flow.sport).wrapping_sub(base);
        if self.same_first && own <= self.top {
            reply.dport = flow.sport;
            if !replies.taken(&reply) {
                return Some(self.take(to, reply, own));
            }
        }
        let first = match self.sequential {
            true if self.next > self.top => 0,
            true => self.next,
            false => ((u64::from(draw()) * (u64::from(self.top) + 1)) >> 32) as u32,
        };
        let search = Search {
            ports: self.ports,
            base,
            top: self.top,
            to,
        };
        let v = replies.search(&search, first)?;
        Some(self.take(to, search.reply(v), v))
    }

    /// Does it give flows a source address, so that they may have mappings?
    #[inline]
    pub(crate) fn maps_sources(&self) -> bool {
        self.ports && self.saddr != 0
    }

    /// The flow that `flow` becomes where its source has, or gets, a mapping, or `None` when there is no free one.
    pub(crate) fn map_source(
        &mut self,
        flow: FlowId,
        replies: &mut impl Replies,
        draw: impl FnOnce() -> u32,
    ) -> Option<FlowId> {
        let mut to = self.filled(flow);
        let inside = Endpoint {
            addr: flow.saddr,
            port: flow.sport,
        };
        let range = match self.sport {
            0 => (flow.sport, flow.sport),
            first => (first, first.saturating_add(self.top.min(0xffff) as u16)),
        };
        to.sport = replies.port(self.saddr, inside, range, draw)?;
        // nobody else's flows have such replies, but what other inputs let in
        (!replies.taken(&to.reversed())).then_some(to)
    }

    /// What it makes of flows, where that follows from each flow alone unless a flow has such replies already.
    pub(crate) fn filling(&self) -> Option<Filling> {
        if !self.ports || self.sequential || !self.same_first || self.top == 0 {
            return None;
        }
        let kept = |set: u32, all: u32| if set == 0 { all } else { 0 };
        let dport = u32::from(self.dport);
        Some(Filling {
            keep: [
                kept(self.saddr, !0),
                kept(self.daddr, !0),
                !0xffff | kept(dport, 0xffff),
            ],
            set: [self.saddr, self.daddr, dport],
            stay: (self.sport.into(), self.top),
        })
    }

    /// What [`Pattern::rewrite`] makes of a flow whose source port [stays](Filling::stay), once it is known that no
    /// flow has such replies: it is taken.
    #[inline(always)]
    pub(crate) fn take_own(&mut self, flow: FlowId) {
        let own = u32::from(flow.sport).wrapping_sub(self.sport.into());
        self.next = own.wrapping_add(1);
    }
    /// The same before.
    #[inline(always)]
    pub(crate) fn own(&self, flow: FlowId) -> FlowId {
        FlowId {
            sport: flow.sport,
            ..self.filled(flow)
        }
    }

    /// The flow with the pattern's fields, the first variation's where they vary.
    #[inline]
    fn filled(&self, flow: FlowId) -> FlowId {
        let address = |old: u32, new: u32| if new != 0 { new } else { old };
        let port = |old: u16, new: u16| if new != 0 { new } else { old };
        FlowId {
            saddr: address(flow.saddr, self.saddr),
            daddr: address(flow.daddr, self.daddr),
            sport: port(flow.sport, self.sport),
            dport: port(flow.dport, self.dport),
        }
    }

    /// All fields of a flow that the pattern may give it lie between these two.
    #[inline]
    pub(crate) fn ends(&self, flow: FlowId) -> (FlowId, FlowId) {
        let mut least = self.filled(flow);
        let mut most = least;
        if self.top != 0 && self.ports {
            least.sport = self.sport;
            most.sport = self.sport.saturating_add(self.top.min(0xffff) as u16);
        } else if self.top != 0 {
            least.saddr = self.saddr;
            most.saddr = self.saddr.saturating_add(self.top);
        }
        (least, most)
    }

    /// What the `n`th new flow from now will most likely become; `None` where that is a matter of chance.
    #[inline]
    pub(crate) fn predict(&self, flow: FlowId, n: u32) -> Option<FlowId> {
        let mut to = self.filled(flow);
        if self.top == 0 {
            return Some(to);
        }
        let next = || (u64::from(self.next) + u64::from(n)) % (u64::from(self.top) + 1);
        let own = u32::from(flow.sport).wrapping_sub(u32::from(self.sport));
        match (self.ports, self.sequential) {
            (true, false) if self.same_first && own <= self.top => to.sport = flow.sport,
            (true, true) => to.sport = self.sport.wrapping_add(next() as u16),
            (false, true) => to.saddr = self.saddr.wrapping_add(next() as u32),
            (_, false) => return None,
        }
        Some(to)
    }

    #[inline(always)]
    fn take(&mut self, mut to: FlowId, reply: FlowId, v: u32) -> FlowId {
        match self.ports {
            true => to.sport = reply.dport,
            false => to.saddr = reply.daddr,
        }
        self.next = v.wrapping_add(1);
        to
    }
}

/// As Click's `patterns` handler prints it.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_dash = |a: u32| match a {
            0 => "-".to_string(),
            a => Ipv4Addr::from(a).to_string(),
        };
        if !self.ports {
            if self.top != 0 {
                let last = self.saddr.wrapping_add(self.top);
                let ends = (Ipv4Addr::from(self.saddr), Ipv4Addr::from(last));
                write!(f, "{}-{}", ends.0, ends.1)?;
            } else {
                f.write_str(&or_dash(self.saddr))?;
            }
            return write!(f, " {}", or_dash(self.daddr));
        }
        f.write_str(&or_dash(self.saddr))?;
        match (self.sport, self.top) {
            (0, _) => f.write_str(" -")?,
            (p, 0) => write!(f, " {p}")?,
            (p, top) => write!(f, " {p}-{}", u32::from(p) + top)?,
        }
        write!(f, " {}", or_dash(self.daddr))?;
        match self.dport {
            0 => f.write_str(" -"),
            p => write!(f, " {p}"),
        }
    }
}

/// A pattern's place: patterns with a name are shared by all inputs that use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternRef {
    /// The [`PatternSet`].
    pub set: StateId,
    /// Index in it.
    pub index: usize,
}

/// Patterns of one element, in order of configuration.
#[derive(Debug, Clone, Default)]
pub struct PatternSet {
    /// The patterns.
    pub patterns: Vec<Pattern>,
    /// Names that IPRewriterPatterns gives to patterns: its own, or those that have another name already.
    pub names: Vec<(String, PatternRef)>,
    /// The compound that the element stands in; its names are seen from there downwards.
    pub scope: String,
}

impl PatternSet {
    /// Adds a pattern.
    pub fn add(store: &mut StateStore, set: StateId, p: Pattern) -> PatternRef {
        let index = match store.get_mut::<PatternSet>(set) {
            Some(s) => {
                s.patterns.push(p);
                s.patterns.len() - 1
            }
            None => usize::MAX,
        };
        PatternRef { set, index }
    }
    /// A pattern.
    pub fn get(store: &StateStore, r: PatternRef) -> Option<Pattern> {
        let s = store.get::<PatternSet>(r.set)?;
        s.patterns.get(r.index).copied()
    }
    /// As [`PatternSet::get`], without a copy.
    pub fn peek(store: &StateStore, r: PatternRef) -> Option<&Pattern> {
        store.get::<PatternSet>(r.set)?.patterns.get(r.index)
    }

    /// Finds a named pattern as seen by element `element` (full name), innermost compound first.
    pub fn find(
        store: &StateStore,
        sets: &[StateId],
        element: &str,
        name: &str,
    ) -> Option<PatternRef> {
        let mut scope = element.rsplit_once('/').map_or("", |(p, _)| p);
        // Bound: the depth of compound nesting.
        loop {
            for set in sets {
                if let Some(s) = store.get::<PatternSet>(*set)
                    && s.scope == scope
                    && let Some((_, r)) = s.names.iter().find(|(n, _)| n == name)
                {
                    return Some(*r);
                }
            }
            if scope.is_empty() {
                return None;
            }
            scope = scope.rsplit_once('/').map_or("", |(p, _)| p);
        }
    }
}

impl State for PatternSet {
    /// Where each pattern's search goes on; names refer to sets of the new graph.
    fn take_state(&mut self, old: &mut dyn State, _: &dyn Fn(ElemId) -> Option<ElemId>) -> Takes {
        match old.as_any_mut().downcast_mut::<PatternSet>() {
            Some(old) if old.patterns.len() == self.patterns.len() => {
                std::mem::swap(&mut self.patterns, &mut old.patterns);
                Takes::Done
            }
            _ => Takes::Nothing,
        }
    }
    fn summary(&self) -> String {
        let line = |p: &Pattern| format!("{p} next {}\n", p.next);
        self.patterns.iter().map(line).collect()
    }
    state_any!(Scope::Partitioned(Partition::Pool));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// `1.0.0.1 FIRST-LAST - -`.
    fn pattern(first: u16, last: u16, sequential: bool, same_first: bool) -> Pattern {
        Pattern {
            saddr: 0x0100_0001,
            sport: first,
            daddr: 0,
            dport: 0,
            top: u32::from(last - first),
            ports: true,
            sequential,
            same_first,
            next: 0,
        }
    }
    /// Rewrites `flow`, remembering what is taken.
    fn go(
        p: &mut Pattern,
        flow: FlowId,
        taken: &mut BTreeSet<FlowId>,
        draw: u32,
    ) -> Option<FlowId> {
        struct Seen<'a>(&'a BTreeSet<FlowId>);
        impl Replies for Seen<'_> {
            fn must_be_free(&self) -> bool {
                false
            }
            fn taken(&mut self, reply: &FlowId) -> bool {
                self.0.contains(reply)
            }
            fn port(
                &mut self,
                _: u32,
                _: Endpoint,
                _: (u16, u16),
                _: impl FnOnce() -> u32,
            ) -> Option<u16> {
                None
            }
            fn search(&mut self, s: &Search, from: u32) -> Option<u32> {
                s.look(from, u64::from(s.top) + 1, |f| self.0.contains(f))
                    .ok()
            }
        }
        let to = p.rewrite(flow, &mut Seen(taken), || draw)?;
        taken.insert(to.reversed());
        Some(to)
    }
    fn flow(sport: u16) -> FlowId {
        FlowId {
            saddr: 0x0a00_0001,
            daddr: 0x0808_0808,
            sport,
            dport: 53,
        }
    }

    #[test]
    fn sequential_wraps_and_skips_what_is_taken() {
        let mut p = pattern(1024, 1026, true, false);
        let mut taken = BTreeSet::new();
        let mut ports = Vec::new();
        for _ in 0..4 {
            ports.push(go(&mut p, flow(9), &mut taken, 0).map(|f| f.sport));
        }
        assert_eq!(ports, [Some(1024), Some(1025), Some(1026), None]);
        // another destination has all ports free; the number goes on after the last one chosen
        let other = FlowId {
            daddr: 7,
            ..flow(9)
        };
        assert_eq!(go(&mut p, other, &mut taken, 0).unwrap().sport, 1024);
        taken.remove(&FlowId {
            saddr: 0x0808_0808,
            sport: 53,
            daddr: 0x0100_0001,
            dport: 1026,
        });
        assert_eq!(go(&mut p, flow(10), &mut taken, 0).unwrap().sport, 1026);
    }

    #[test]
    fn own_port_first_then_the_drawn_one() {
        let mut p = pattern(1024, 1033, false, true);
        let mut taken = BTreeSet::new();
        assert_eq!(go(&mut p, flow(1030), &mut taken, 0).unwrap().sport, 1030);
        // taken now: 10 variations, a draw of half the range is number 5
        assert_eq!(
            go(&mut p, flow(1030), &mut taken, 1 << 31).unwrap().sport,
            1029
        );
        assert_eq!(
            go(&mut p, flow(7), &mut taken, u32::MAX).unwrap().sport,
            1033
        );
        assert_eq!(
            go(&mut p, flow(7), &mut taken, u32::MAX).unwrap().sport,
            1024
        );
        let mut p = pattern(1024, 1033, false, false);
        assert_eq!(go(&mut p, flow(1030), &mut taken, 0).unwrap().sport, 1025);
    }
}
