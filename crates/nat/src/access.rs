//! How other elements reach a rewriter's bindings: ICMPRewriter looks them up, FTPPortMapper makes them.

use crate::apply::DCCP;
use crate::flow_id::FlowId;
use crate::kind::RewriterKind;
use crate::record::{Hit, NewFlow};
use crate::spec::{InputSpec, Verdict};
use crate::table::FlowTable;
use onefold_packet::Timestamp;
use onefold_packet::wire::ipv4::proto;
use onefold_state::ElemId;
use onefold_state::{StateId, StateStore};

/// A rewriter as others see it: its table, and its number among the table's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewriterHandle {
    /// The [`FlowTable`].
    pub table: StateId,
    /// Number among its members.
    pub member: u16,
}

/// Most rewriters that may share a capacity.
const MAX_MEMBERS: usize = 1024;

/// Finds the table that a configured rewriter uses, following `MAPPING_CAPACITY` references, and joins it.
pub fn resolve(store: &mut StateStore, elem: ElemId) -> Result<RewriterHandle, String> {
    const NOT_ONE: &str = "not an IP rewriter";
    let own = store.published_by(elem).ok_or(NOT_ONE)?;
    let next = |store: &StateStore, table| match store.get::<FlowTable>(table) {
        Some(t) => t
            .shared_with
            .map(|e| store.published_by(e).ok_or(NOT_ONE))
            .transpose(),
        None => Err(NOT_ONE),
    };
    let mut table = own;
    // Bound: a chain that is longer goes in circles.
    for _ in 0..MAX_MEMBERS {
        match next(store, table)? {
            Some(t) => table = t,
            None => return join(store, own, table, elem),
        }
    }
    // All of a circle share one table: the one that was made first.
    let mut first = table;
    for _ in 0..MAX_MEMBERS {
        if let Some(t) = next(store, table)? {
            table = t;
            first = first.min(t);
        }
    }
    if let Some(t) = store.get_mut::<FlowTable>(first) {
        t.shared_with = None;
    }
    join(store, own, first, elem)
}

fn join(
    store: &mut StateStore,
    own: StateId,
    table: StateId,
    elem: ElemId,
) -> Result<RewriterHandle, String> {
    let find = |t: &FlowTable| t.members.iter().position(|m| m.elem == elem);
    let t = store.get::<FlowTable>(table).ok_or("not an IP rewriter")?;
    let member = match find(t) {
        Some(i) => i,
        None => {
            let (o, t) = store
                .get_two_mut::<FlowTable, FlowTable>(own, table)
                .ok_or("not an IP rewriter")?;
            if t.members.len() >= MAX_MEMBERS {
                return Err(format!(
                    "more than {MAX_MEMBERS} rewriters share a capacity"
                ));
            }
            let m = o.members.first().cloned().ok_or("not configured")?;
            t.add_member(m)
        }
    };
    let member = u16::try_from(member).map_err(|_| "too many rewriters share a capacity")?;
    Ok(RewriterHandle { table, member })
}

/// What to do when there is no binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryMode {
    /// Nothing; the flow is one that a packet would have.
    Check,
    /// Nothing; the flow is a reply's (for pings).
    Reply,
    /// Make one as if a packet had arrived at this input.
    Create(usize),
}

/// What a ping's identifier becomes at the answering end, so that requests and replies have different keys. Counted on
/// the identifier as a little-endian machine reads it, which is what Click does.
pub fn answering(id: u16) -> u16 {
    id.swap_bytes().wrapping_add(1).swap_bytes()
}

/// Looks up, or makes, the binding of a flow (Click's `get_entry`). A look-up does not refresh the binding.
pub fn entry(
    h: RewriterHandle,
    protocol: u8,
    flow: FlowId,
    wanted: EntryMode,
    now: Timestamp,
    store: &mut StateStore,
    draw: &mut impl FnMut(ElemId) -> u32,
) -> Option<Hit> {
    let t = store.get::<FlowTable>(h.table)?;
    let m = t.members.get(usize::from(h.member))?;
    let (kind, elem) = (m.kind, m.elem);
    let udp = kind == RewriterKind::Ip && protocol == proto::UDP;
    let map = h.member * 2 + u16::from(udp);
    let mut key = flow;
    match kind {
        RewriterKind::Ip if !udp && protocol != proto::TCP => return None,
        RewriterKind::Ping if protocol != proto::ICMP => return None,
        RewriterKind::Ping => {
            let (id, answer) = (flow.sport, answering(flow.sport));
            (key.sport, key.dport) = match wanted {
                EntryMode::Reply => (answer, id),
                _ => (id, answer),
            };
        }
        RewriterKind::Addr => key = FlowId::addresses(flow.saddr, 0),
        RewriterKind::AddrPair => key = FlowId::addresses(flow.saddr, flow.daddr),
        _ => {}
    }
    let mut hit = t.lookup(map, &key);
    if hit.is_none() && kind == RewriterKind::Addr {
        hit = t.lookup(map, &FlowId::addresses(0, flow.daddr));
    }
    if let Some((i, _)) = hit {
        let ip_p = t.records.get(i as usize)?.ip_p;
        let by_protocol = matches!(kind, RewriterKind::Tcp | RewriterKind::Udp);
        let other = by_protocol && protocol != 0 && ip_p != 0 && ip_p != protocol;
        return if other { None } else { hit };
    }
    let EntryMode::Create(input) = wanted else {
        return None;
    };
    let spec = m.specs.get(input)?.0;
    // UDPRewriter remembers the protocol of flows that others make; the address rewriters know none
    let ip_p = match kind {
        RewriterKind::Tcp | RewriterKind::Udp | RewriterKind::Ip if !udp => protocol,
        RewriterKind::Ping => proto::ICMP,
        _ => 0,
    };
    create(h, map, input, ip_p, spec, key, elem, now, store, draw).ok()
}

/// Why there is no new binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoFlow {
    /// The specification lets the packet pass at this output.
    Pass(usize),
    /// The specification drops it.
    Drop,
    /// No variation of the pattern is free.
    NoRoom,
    /// All of the mapper's servers are down.
    NoServer,
    /// The pattern rewrites what this rewriter does not.
    Unfit,
    /// The table is full of guaranteed flows, or the outputs do not exist.
    Full,
}

/// Asks an input's specification about a new flow, and makes the binding.
#[allow(clippy::too_many_arguments)]
pub fn create(
    h: RewriterHandle,
    map: u16,
    input: usize,
    ip_p: u8,
    spec: InputSpec,
    flow: FlowId,
    elem: ElemId,
    now: Timestamp,
    store: &mut StateStore,
    draw: &mut impl FnMut(ElemId) -> u32,
) -> Result<Hit, NoFlow> {
    let verdict = spec.decide(flow, h.table, map, elem, store, draw);
    let t = store.get_mut::<FlowTable>(h.table).ok_or(NoFlow::Drop)?;
    let m = t
        .members
        .get_mut(usize::from(h.member))
        .ok_or(NoFlow::Drop)?;
    let (mut to, outputs, free, usage) = match verdict {
        Verdict::Map(to, outputs, free, usage) => {
            (to, outputs, free && m.kind != RewriterKind::Ping, usage)
        }
        Verdict::Pass(o) => return Err(NoFlow::Pass(o)),
        Verdict::Drop => return Err(NoFlow::Drop),
        Verdict::NoRoom | Verdict::NoServer => {
            if let Some(c) = m.inputs.get_mut(input) {
                c.failures = c.failures.saturating_add(1);
            }
            return Err(match verdict {
                Verdict::NoServer => NoFlow::NoServer,
                _ => NoFlow::NoRoom,
            });
        }
    };
    let fits = match m.kind {
        RewriterKind::Addr => to.sport == 0 && to.dport == 0 && to.daddr == 0,
        RewriterKind::AddrPair => to.sport == 0 && to.dport == 0,
        RewriterKind::Ping => {
            to.dport = answering(to.sport);
            true
        }
        _ => true,
    };
    if !fits {
        return Err(NoFlow::Unfit);
    }
    let ping = m.kind == RewriterKind::Ping;
    let new = NewFlow {
        map,
        input: input as u16,
        ip_p,
        flow,
        hash: t.hash(map, &flow),
        rewritten: to,
        outputs,
        ping,
        free,
        flags: 0,
        usage,
    };
    match t.insert(&new, now) {
        Some(i) => Ok((i, false)),
        None => Err(NoFlow::Full),
    }
}

/// The protocols whose first four bytes are ports.
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, proto::TCP | proto::UDP | DCCP)
}
