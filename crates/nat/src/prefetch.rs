//! Memory of bindings that are about to be asked for, prefetched for many packets at once.

use crate::access::RewriterHandle;
use crate::flow_id::FlowId;
use crate::kind::RewriterKind;
use crate::pattern::PatternSet;
use crate::spec::InputSpec;
use crate::table::FlowTable;
use onefold_packet::wire::ipv4::proto;
use onefold_state::StateStore;

/// A packet that a rewriter will be asked about, as far as memory is concerned; see [`prefetch_bindings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrefetchPacket {
    /// The rewriter.
    pub elem: u32,
    /// Its input.
    pub port: u16,
    /// IP protocol.
    pub proto: u8,
    /// It may be followed further.
    pub goes_on: bool,
    /// Its addresses and ports, there and then behind.
    pub flow: FlowId,
    pub(crate) map: u16,
    pub(crate) hash: u32,
    pub(crate) found: Option<u32>,
}

impl PrefetchPacket {
    /// Before the rewriter has been asked.
    pub fn new(elem: u32, port: u16, proto: u8, flow: FlowId) -> PrefetchPacket {
        PrefetchPacket {
            elem,
            port,
            proto,
            flow,
            goes_on: true,
            ..PrefetchPacket::default()
        }
    }
}

/// Asks for the memory that look-ups of these packets by the rewriter `h` (element number `me`), and new flows of those
/// that are not known, will need, for all of them at once, and predicts what the bindings will make of their addresses
/// and ports. Nothing changes by it, and nothing may be concluded from it. Only packets for `me` are looked at.
pub fn prefetch_bindings(
    h: RewriterHandle,
    me: u32,
    all: &mut [PrefetchPacket],
    store: &StateStore,
) {
    let Some(t) = store.get::<FlowTable>(h.table) else {
        return;
    };
    let Some(m) = t.members.get(usize::from(h.member)) else {
        return;
    };
    let mine = |f: &&mut PrefetchPacket| f.elem == me && f.goes_on;
    for f in all.iter_mut().filter(mine) {
        let udp = f.proto == proto::UDP;
        f.map = h.member * 2 + u16::from(m.kind == RewriterKind::Ip && udp);
        match m.kind {
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => {}
            RewriterKind::AddrPair => f.flow = FlowId::addresses(f.flow.saddr, f.flow.daddr),
            RewriterKind::Addr | RewriterKind::Ping => {
                f.goes_on = false;
                continue;
            }
        }
        f.hash = t.hash(f.map, &f.flow);
        t.prefetch_bucket(f.hash);
    }
    let pattern = |port: u16| match m.specs.get(usize::from(port)) {
        Some((InputSpec::Pattern(r, ..), _)) => PatternSet::peek(store, *r),
        _ => None,
    };
    // most packets came in where the one before did
    let mut last = (0, pattern(0));
    let mut new = 0;
    for f in all.iter_mut().filter(mine) {
        f.found = t.prefetch_record(f.hash);
        if f.found.is_none() {
            if last.0 != f.port {
                last = (f.port, pattern(f.port));
            }
            new += 1;
            match last.1.and_then(|p| p.predict(f.flow, new - 1)) {
                Some(to) => {
                    f.flow = to;
                    t.prefetch_bucket(t.hash(f.map, &to.reversed()));
                }
                None => f.goes_on = false,
            }
        }
    }
    if new > 0 {
        t.prefetch_new(0, new as usize);
    }
    for f in all.iter_mut().filter(mine) {
        if let Some(found) = f.found {
            match t.prefetched(found, f.map, &f.flow) {
                Some((r, reply)) => f.flow = r.rewritten(reply),
                None => f.goes_on = false,
            }
        }
    }
}
