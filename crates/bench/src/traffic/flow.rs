//! Who talks to whom.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::params::{TrafficError, TrafficParams};
use super::tcp::FlowState;
use crate::ranges::Transport;
use crate::rng::{Rng, mix};

/// Addresses, ports and protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlowKey {
    pub v6: bool,
    pub src: u128,
    pub dst: u128,
    pub kind: FlowKind,
    pub sport: u16,
    pub dport: u16,
}

/// What a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FlowKind {
    Tcp,
    Udp,
    /// Echo; the identifier is the source port.
    Echo,
    /// A header of a rule, sent as it is: protocol and flags column.
    Header(u8, u16),
}

/// The key of flow number `index`, which is the same whenever it is asked for: flows are not stored.
pub(crate) fn key(p: &TrafficParams, state: &FlowState, index: usize) -> FlowKey {
    if let Some(h) = p.headers.as_ref().and_then(|h| h.get(index)) {
        let (sport, dport) = h.ports.unwrap_or((0, 0));
        return FlowKey {
            v6: false,
            src: u128::from(h.src),
            dst: u128::from(h.dst),
            kind: FlowKind::Header(h.proto, h.flags),
            sport,
            dport,
        };
    }
    let mut rng = Rng::new(state.seed);
    let v6 = rng.chance(p.ipv6);
    let kind = match p.protocols.draw(&mut rng) {
        Transport::Tcp => FlowKind::Tcp,
        Transport::Udp => FlowKind::Udp,
        Transport::Icmp => FlowKind::Echo,
    };
    let (src, dst) = if v6 {
        (&p.src6, &p.dst6)
    } else {
        (&p.src, &p.dst)
    };
    let (src, dst) = (src.draw(&mut rng), dst.draw(&mut rng));
    let sport = p.sport.draw(&mut rng);
    let dport = match kind {
        FlowKind::Echo => 0,
        _ => p.dport.draw(&mut rng),
    };
    FlowKey {
        v6,
        src,
        dst,
        kind,
        sport,
        dport,
    }
}

/// Finds as many different flows as asked for.
pub(crate) fn flows(p: &TrafficParams) -> Result<Vec<FlowState>, TrafficError> {
    let start = |seed| FlowState {
        seed,
        ..FlowState::default()
    };
    if let Some(headers) = &p.headers {
        return Ok((0..headers.len() as u64)
            .map(|i| start(mix(p.seed ^ mix(i))))
            .collect());
    }
    let wanted = p.flows as usize;
    let mut flows: Vec<FlowState> = Vec::with_capacity(wanted);
    let mut seen = HashSet::with_capacity(wanted);
    // Collecting all coupons of n takes n ln n draws: enough to find even the last of the 2^24 flows there can be.
    let budget = 64 * u64::from(p.flows) + 10_000;
    for i in 0..budget {
        if flows.len() == wanted {
            return Ok(flows);
        }
        let state = start(mix(p.seed ^ mix(i)));
        let mut hash = DefaultHasher::new();
        key(p, &state, 0).hash(&mut hash);
        // Two flows with one hash: the second is passed over, which nobody notices.
        if seen.insert(hash.finish()) {
            flows.push(state);
        }
    }
    if flows.len() == wanted {
        return Ok(flows);
    }
    Err(TrafficError::TooFewFlows {
        found: flows.len() as u64,
        wanted: u64::from(p.flows),
    })
}
