//! Input specifications: what a rewriter does with a packet that no mapping matches.

use crate::endpoints::{Endpoint, PortRange};
use crate::flow_id::FlowId;
use crate::kind::RewriterKind;
use crate::mapper::Mapper;
use crate::pattern::{PatternRef, PatternSet, Replies};
use crate::port_exhaustion::Search;
use crate::record::Usage;
use crate::table::FlowTable;
use onefold_state::DropReason;
use onefold_state::ElemId;
use onefold_state::{StateId, StateStore};

/// What to do with a new flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputSpec {
    /// `drop [REASON]`.
    Drop(Option<DropReason>),
    /// `pass OUTPUT`.
    Pass(usize),
    /// `keep FOUTPUT ROUTPUT`.
    Keep(usize, usize),
    /// `pattern ... FOUTPUT ROUTPUT`.
    Pattern(PatternRef, usize, usize),
    /// `ELEMENT`.
    Mapper(ElemId),
    /// `mapped FOUTPUT ROUTPUT`: to who has the mapping of the destination.
    Mapped(usize, usize),
}

/// An input specification's answer to a new flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Bind it to this flow; outputs of the two directions. No flow has such replies, if that has been asked.
    Map(FlowId, (usize, usize), bool, Usage),
    /// Out at this port, no binding.
    Pass(usize),
    /// Away with it.
    Drop,
    /// No variation is free.
    NoRoom,
    /// All servers that it could go to are down.
    NoServer,
}

impl InputSpec {
    /// What happens to a new flow that arrives at an input with this specification.
    pub(crate) fn decide(
        self,
        flow: FlowId,
        table: StateId,
        map: u16,
        elem: ElemId,
        store: &mut StateStore,
        draw: &mut impl FnMut(ElemId) -> u32,
    ) -> Verdict {
        match self {
            InputSpec::Drop(_) => Verdict::Drop,
            InputSpec::Pass(o) => Verdict::Pass(o),
            InputSpec::Keep(f, r) => {
                let t = store.get::<FlowTable>(table);
                match t.and_then(|t| t.member_of(map).map(|m| (t, m))) {
                    Some((t, m)) if !m.take_over => {
                        match t.taken(map, m.kind == RewriterKind::Ping, &flow.reversed()) {
                            true => Verdict::NoRoom,
                            false => Verdict::Map(flow, (f, r), true, Usage::Plain),
                        }
                    }
                    _ => Verdict::Map(flow, (f, r), false, Usage::Plain),
                }
            }
            InputSpec::Pattern(p, f, r) => {
                match apply_pattern(p, flow, table, map, elem, store, draw) {
                    Some((to, free, usage)) => Verdict::Map(to, (f, r), free, usage),
                    None => Verdict::NoRoom,
                }
            }
            InputSpec::Mapper(m) => Mapper::decide(m, flow, table, map, elem, store, draw),
            InputSpec::Mapped(f, r) => {
                let t = store.get::<FlowTable>(table);
                match t.map(|t| (t, t.to_inside(map, flow))) {
                    Some((t, Some(to))) => match t.taken(map, t.pings(map), &to.reversed()) {
                        true => Verdict::NoRoom,
                        false => Verdict::Map(to, (f, r), true, Usage::MappedDestination),
                    },
                    _ => Verdict::Drop,
                }
            }
        }
    }
}

/// Rewrites a flow by a pattern; the pattern remembers what it has chosen. And whether it has found out that no flow
/// has such replies.
pub(crate) fn apply_pattern(
    at: PatternRef,
    flow: FlowId,
    table: StateId,
    map: u16,
    elem: ElemId,
    store: &mut StateStore,
    draw: &mut impl FnMut(ElemId) -> u32,
) -> Option<(FlowId, bool, Usage)> {
    let (set, t) = store.get_two_mut::<PatternSet, FlowTable>(at.set, table)?;
    let p = set.patterns.get_mut(at.index)?;
    // a ping's reply is known by what the new identifier becomes at the other end, not by what the old one did
    let member = t.member_of(map);
    let ping = member.is_some_and(|m| m.kind == RewriterKind::Ping);
    let take_over = member.is_none_or(|m| m.take_over);
    let mapped = member.is_some_and(|m| m.endpoints) && p.maps_sources();
    let asks = p.top != 0 || !take_over || mapped;
    let mut replies = InTable {
        t,
        map,
        ping,
        take_over,
        free: None,
    };
    if mapped {
        let to = p.map_source(flow, &mut replies, || draw(elem))?;
        return Some((to, asks, Usage::MappedSource));
    }
    let to = p.rewrite(flow, &mut replies, || draw(elem))?;
    Some((to, asks, Usage::Plain))
}

/// The replies of a table's flows.
pub(crate) struct InTable<'a> {
    pub t: &'a mut FlowTable,
    pub map: u16,
    pub ping: bool,
    /// See [`crate::record::Member`].
    pub take_over: bool,
    /// The hash of the replies that were asked about last, as they are looked up, if no flow has them.
    pub free: Option<u32>,
}

impl Replies for InTable<'_> {
    #[inline(always)]
    fn must_be_free(&self) -> bool {
        !self.take_over
    }
    #[inline(always)]
    fn taken(&mut self, reply: &FlowId) -> bool {
        self.free = self.t.free_key(self.map, self.ping, reply);
        self.free.is_none()
    }
    #[inline(always)]
    fn search(&mut self, s: &Search, from: u32) -> Option<u32> {
        self.free = None;
        self.t.search(self.map, self.ping, s, from)
    }
    #[inline]
    fn port(
        &mut self,
        addr: u32,
        inside: Endpoint,
        (first, last): (u16, u16),
        draw: impl FnOnce() -> u32,
    ) -> Option<u16> {
        let range = PortRange {
            first,
            last,
            alike: !self.ping,
        };
        let e = self.t.endpoints.as_ref()?;
        e.port(self.map, addr, inside, range, draw)
    }
}
