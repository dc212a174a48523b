//! One frame after the other.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::exception::{ExceptionKind, distort};
use super::flow::{FlowKey, FlowKind, flows, key};
use super::frame::{Fill, FrameSpec, IpAddresses, Layout, Transport, build};
use super::params::{TrafficError, TrafficParams};
use super::payload::PayloadStore;
use super::tcp::FlowState;
use crate::rng::Rng;
use crate::zipf::Zipf;

/// Who sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// A client.
    Forward,
    /// A server.
    Reverse,
}

/// All about a frame but its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedFrame {
    /// Who sent it.
    pub direction: Direction,
    /// When, in nanoseconds since the epoch.
    pub ts_ns: i64,
    /// Its length on the wire: above that of its bytes where it is truncated.
    pub orig_len: u32,
    /// Is something odd about it?
    pub exception: Option<ExceptionKind>,
}

/// What was generated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames from clients.
    pub forward: u64,
    /// Frames from servers.
    pub reverse: u64,
    /// Bytes on the wire, without frame check sequences.
    pub bytes: u64,
    /// TCP packets.
    pub tcp: u64,
    /// UDP packets.
    pub udp: u64,
    /// ICMP and ICMPv6 packets.
    pub icmp: u64,
    /// Packets of other protocols, and ARP.
    pub other: u64,
    /// How many of all are IPv6.
    pub ipv6: u64,
    /// TCP connections that were opened.
    pub connections: u64,
    /// Frames that had to be longer than the size model said, to hold their headers.
    pub raised: u64,
    /// Exceptional frames, by kind.
    pub exceptions: BTreeMap<ExceptionKind, u64>,
}

/// Generates frames. Memory grows with the number of flows, not of frames.
///
/// ```
/// use onefold_bench::{Generator, TrafficParams};
///
/// let mut traffic = Generator::new(TrafficParams { packets: 5, flows: 2, ..TrafficParams::default() })?;
/// let mut frame = Vec::new();
/// while let Some(about) = traffic.next_into(&mut frame) {
///     assert!(frame.len() >= 60 && about.orig_len as usize == frame.len());
/// }
/// assert_eq!(traffic.counts().forward, 5);
/// # Ok::<(), onefold_bench::TrafficError>(())
/// ```
pub struct Generator {
    params: TrafficParams,
    rng: Rng,
    flows: Vec<FlowState>,
    /// A permutation of the flows: under Zipf's law from rank to flow, else reshuffled round by round.
    order: Vec<u32>,
    /// How many of the order are used up in this round.
    turn: usize,
    zipf: Option<Zipf>,
    store: PayloadStore,
    made: u64,
    /// The rest of a fragmented datagram, to be sent next.
    pending: VecDeque<(Direction, Vec<u8>, ExceptionKind, Protocol, bool)>,
    counts: Counts,
}

/// For the counts.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    Tcp,
    Udp,
    Icmp,
    Other,
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generator")
            .field("params", &self.params)
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

impl Generator {
    /// Checks the parameters and finds the flows.
    ///
    /// # Errors
    /// The parameters are out of range, or do not hold as many flows.
    pub fn new(params: TrafficParams) -> Result<Self, TrafficError> {
        params.check()?;
        let flows = flows(&params)?;
        let mut rng = Rng::stream(params.seed, 0x7061_636b);
        let n = flows.len() as u32;
        let mut order: Vec<u32> = (0..n).collect();
        let zipf = (params.zipf > 0.0).then(|| Zipf::new(n, params.zipf));
        if zipf.is_some() {
            rng.shuffle(&mut order);
        }
        let store = PayloadStore::new(params.payload, &mut Rng::stream(params.seed, 0x6279_7465));
        Ok(Self {
            params,
            rng,
            flows,
            order,
            turn: 0,
            zipf,
            store,
            made: 0,
            pending: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    /// What was generated so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many frames were generated so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// How many flows there are.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// The parameters.
    pub fn params(&self) -> &TrafficParams {
        &self.params
    }

    /// The next frame replaces what `buf` held; `None` after the last one.
    pub fn next_into(&mut self, buf: &mut Vec<u8>) -> Option<GeneratedFrame> {
        if self.made >= self.params.packets {
            return None;
        }
        let ts_ns = self.time();
        let (direction, orig_len, exception, protocol, v6) =
            if let Some((direction, mut rest, kind, protocol, v6)) = self.pending.pop_front() {
                std::mem::swap(buf, &mut rest);
                (direction, buf.len(), Some(kind), protocol, v6)
            } else {
                let index = self.visit();
                if self.rng.chance(self.params.exceptions) {
                    self.exceptional(index, buf)
                } else {
                    self.regular(index, buf)
                }
            };
        self.made += 1;
        let orig_len = orig_len as u32;
        let c = &mut self.counts;
        match direction {
            Direction::Forward => c.forward += 1,
            Direction::Reverse => c.reverse += 1,
        }
        match protocol {
            Protocol::Tcp => c.tcp += 1,
            Protocol::Udp => c.udp += 1,
            Protocol::Icmp => c.icmp += 1,
            Protocol::Other => c.other += 1,
        }
        c.bytes += u64::from(orig_len);
        c.ipv6 += u64::from(v6);
        if let Some(kind) = exception {
            *c.exceptions.entry(kind).or_default() += 1;
        }
        Some(GeneratedFrame {
            direction,
            ts_ns,
            orig_len,
            exception,
        })
    }

    /// Frames are spaced evenly. `check` made sure that the last time fits.
    fn time(&self) -> i64 {
        let offset = u128::from(self.made) * 1_000_000_000 / u128::from(self.params.pps.max(1));
        self.params
            .start_ns
            .saturating_add(i64::try_from(offset).unwrap_or(i64::MAX))
    }

    /// Which flow is next.
    fn visit(&mut self) -> usize {
        let n = self.order.len();
        let place = match &self.zipf {
            Some(z) => z.draw(&mut self.rng) as usize - 1,
            None => {
                // One step of a Fisher-Yates shuffle: after n steps every flow was visited once, and any order of a
                // round is as likely as any other.
                if self.turn >= n {
                    self.turn = 0;
                }
                let at = self.turn;
                let other = at + self.rng.below((n - at) as u64) as usize;
                self.order.swap(at, other);
                self.turn += 1;
                at
            }
        };
        self.order.get(place).map_or(0, |&i| i as usize)
    }

    fn spec(&mut self, k: &FlowKey, direction: Direction, transport: Transport) -> FrameSpec {
        let p = &self.params;
        let forward = if k.v6 {
            IpAddresses::V6 {
                src: k.src,
                dst: k.dst,
            }
        } else {
            IpAddresses::V4 {
                src: k.src as u32,
                dst: k.dst as u32,
            }
        };
        let (link, addresses) = match direction {
            Direction::Forward => (p.forward, forward),
            Direction::Reverse => {
                let swapped = match (forward.swapped(), p.reply_to) {
                    (IpAddresses::V4 { src, .. }, Some(to)) => IpAddresses::V4 {
                        src,
                        dst: u32::from(to),
                    },
                    (a, _) => a,
                };
                (p.reverse, swapped)
            }
        };
        FrameSpec {
            link,
            vlan: p.vlan,
            addresses,
            ttl: p.ttl,
            dscp: p.dscp,
            id: self.made as u16,
            dont_fragment: matches!(transport, Transport::Tcp { .. }),
            transport,
        }
    }

    fn put(&mut self, buf: &mut Vec<u8>, spec: &FrameSpec, fill: Fill) -> Layout {
        let seed = self.rng.bits();
        self.put_seeded(buf, spec, fill, seed)
    }

    /// The seed decides about the payload.
    fn put_seeded(&mut self, buf: &mut Vec<u8>, spec: &FrameSpec, fill: Fill, seed: u64) -> Layout {
        let mut rng = Rng::new(seed);
        let choice = rng.bits();
        let needle = match &self.params.needle {
            Some((bytes, share)) if rng.chance(*share) => Some(bytes.as_slice()),
            _ => None,
        };
        let at = build(buf, spec, fill, &self.store, choice, needle);
        if let Fill::Frame(size) | Fill::FrameAtLeast(size, _) = fill {
            self.counts.raised += u64::from(buf.len() > size as usize);
        }
        at
    }

    fn regular(
        &mut self,
        index: usize,
        buf: &mut Vec<u8>,
    ) -> (Direction, usize, Option<ExceptionKind>, Protocol, bool) {
        let (style, replies) = (self.params.tcp, self.params.replies);
        let Some(mut state) = self.flows.get(index).copied() else {
            // Cannot be: `visit` returns an index of `flows`.
            buf.clear();
            return (Direction::Forward, 0, None, Protocol::Other, false);
        };
        let k = key(&self.params, &state, index);
        let size = self.params.sizes.draw(&mut self.rng);
        let mut direction = Direction::Forward;
        let protocol;
        match k.kind {
            FlowKind::Tcp => {
                protocol = Protocol::Tcp;
                let s = state.next_segment(style, replies);
                let (sport, dport) = if s.from_client {
                    (k.sport, k.dport)
                } else {
                    direction = Direction::Reverse;
                    (k.dport, k.sport)
                };
                if s.flags == super::frame::tcp_flag::SYN {
                    self.counts.connections += 1;
                }
                let transport = Transport::Tcp {
                    sport,
                    dport,
                    seq: s.seq,
                    ack: s.ack,
                    flags: s.flags,
                };
                let spec = self.spec(&k, direction, transport);
                let fill = if s.data {
                    Fill::FrameAtLeast(size, 1)
                } else {
                    Fill::Empty
                };
                let at = self.put(buf, &spec, fill);
                if s.data {
                    state.sent(s.from_client, at.end - at.payload);
                }
            }
            FlowKind::Udp => {
                protocol = Protocol::Udp;
                let step = state.step;
                state.step = step.wrapping_add(1);
                let (sport, dport) = if !replies || step.is_multiple_of(2) {
                    (k.sport, k.dport)
                } else {
                    direction = Direction::Reverse;
                    (k.dport, k.sport)
                };
                let spec = self.spec(&k, direction, Transport::Udp { sport, dport });
                self.put(buf, &spec, Fill::Frame(size));
            }
            FlowKind::Echo => {
                protocol = Protocol::Icmp;
                let step = state.step;
                state.step = step.wrapping_add(1);
                let exchange = if replies { step / 2 } else { step };
                let request = !replies || step.is_multiple_of(2);
                if !request {
                    direction = Direction::Reverse;
                }
                let spec = self.spec(&k, direction, echo(k.v6, request, k.sport, exchange as u16));
                // An echo reply has the data of its request: both draw from a sequence of their own.
                let mut rng = Rng::stream(state.seed, u64::from(exchange));
                let size = self.params.sizes.draw(&mut rng);
                self.put_seeded(buf, &spec, Fill::Frame(size), rng.bits());
            }
            FlowKind::Header(proto, flags) => {
                let step = state.step;
                state.step = step.wrapping_add(1);
                let answers = replies && matches!(proto, 6 | 17) && !step.is_multiple_of(2);
                let (sport, dport) = if answers {
                    direction = Direction::Reverse;
                    (k.dport, k.sport)
                } else {
                    (k.sport, k.dport)
                };
                let transport;
                (transport, protocol) = header_transport(proto, flags, sport, dport, step);
                let spec = self.spec(&k, direction, transport);
                self.put(buf, &spec, Fill::Frame(size));
            }
        }
        if let Some(slot) = self.flows.get_mut(index) {
            *slot = state;
        }
        (direction, buf.len(), None, protocol, k.v6)
    }

    /// A packet of the flow beside its conversation, which it does not advance.
    fn exceptional(
        &mut self,
        index: usize,
        buf: &mut Vec<u8>,
    ) -> (Direction, usize, Option<ExceptionKind>, Protocol, bool) {
        let kinds = &self.params.exception_kinds;
        let mut kind = self
            .rng
            .pick(kinds)
            .copied()
            .unwrap_or(ExceptionKind::Options);
        let state = self.flows.get(index).copied().unwrap_or_default();
        let k = key(&self.params, &state, index);
        let (transport, mut protocol) = match k.kind {
            FlowKind::Tcp => header_transport(6, 0x1000, k.sport, k.dport, state.client),
            FlowKind::Udp => header_transport(17, 0, k.sport, k.dport, 0),
            FlowKind::Echo => (echo(k.v6, true, k.sport, 0), Protocol::Icmp),
            FlowKind::Header(proto, flags) => {
                header_transport(proto, flags, k.sport, k.dport, state.step)
            }
        };
        if matches!(transport, Transport::Other(_)) && kind == ExceptionKind::TransportChecksum {
            // There is none to damage.
            kind = ExceptionKind::IpChecksum;
        }
        let size = self.params.sizes.draw(&mut self.rng);
        let mut spec = self.spec(&k, Direction::Forward, transport);
        spec.dont_fragment &= kind != ExceptionKind::Fragments;
        // Options (12 bytes at most) must still fit the longest IP packet.
        let size = size.min(65_500);
        let at = self.put(buf, &spec, Fill::FrameAtLeast(size, 16));
        let before = buf.len();
        let rest = distort(kind, buf, at, &mut self.rng);
        if kind == ExceptionKind::Arp {
            protocol = Protocol::Other;
        }
        let v6 = k.v6 && kind != ExceptionKind::Arp;
        if let Some(rest) = rest {
            self.pending
                .push_back((Direction::Forward, rest, kind, protocol, v6));
        }
        let wire = if kind == ExceptionKind::Truncated {
            before
        } else {
            buf.len()
        };
        (Direction::Forward, wire, Some(kind), protocol, v6)
    }
}

fn echo(v6: bool, request: bool, identifier: u16, sequence: u16) -> Transport {
    let [i0, i1] = identifier.to_be_bytes();
    let [s0, s1] = sequence.to_be_bytes();
    let kind = match (v6, request) {
        (false, true) => 8,
        (false, false) => 0,
        (true, true) => 128,
        (true, false) => 129,
    };
    Transport::Icmp {
        kind,
        code: 0,
        rest: [i0, i1, s0, s1],
    }
}

/// A packet with the header of a rule.
fn header_transport(
    proto: u8,
    flags: u16,
    sport: u16,
    dport: u16,
    step: u32,
) -> (Transport, Protocol) {
    let [high, low] = flags.to_be_bytes();
    match proto {
        6 => (
            Transport::Tcp {
                sport,
                dport,
                seq: step.wrapping_mul(1460),
                ack: if high & super::frame::tcp_flag::ACK != 0 {
                    1
                } else {
                    0
                },
                flags: high,
            },
            Protocol::Tcp,
        ),
        17 => (Transport::Udp { sport, dport }, Protocol::Udp),
        1 => (
            Transport::Icmp {
                kind: high,
                code: low,
                rest: [0, 0, 0, 0],
            },
            Protocol::Icmp,
        ),
        p => (Transport::Other(p), Protocol::Other),
    }
}
