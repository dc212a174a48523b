//! Neighbor discovery (RFC 4861): IP6NDAdvertiser answers solicitations, IP6NDSolicitor asks for hardware addresses and
//! puts Ethernet headers in front of IPv6 packets.

use super::checksum;
use crate::routing::neighbors::{self, Heard, Neighbors, Terms};
use crate::routing::table::show_ip6;
use onefold_element::args::{Args, FromArg, Ip6Prefix, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, Scope, State,
    StateId, TimerId, element_any, element_takes, state_any,
};
use onefold_packet::anno_field::DST_IP6;
use onefold_packet::wire::ethernet::{self, ethertype};
use onefold_packet::wire::ipv4::proto::ICMP6;
use onefold_packet::wire::ipv6::{self, Header};
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::Ipv6Addr;

/// Ethernet and IPv6 header, and a solicitation or advertisement with one option.
const FRAME: usize = ethernet::LEN + ipv6::LEN + 32;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// A neighbor discovery message in its frame.
struct Message {
    kind: u8,
    flags: u8,
    target: [u8; 16],
    /// Link-layer address option: type and address.
    option: (u8, EtherAddr),
    from: (EtherAddr, [u8; 16]),
    to: (EtherAddr, [u8; 16]),
}

impl Message {
    fn frame(&self) -> [u8; FRAME] {
        let mut f = [0u8; FRAME];
        f[..6].copy_from_slice(&self.to.0.0);
        f[6..12].copy_from_slice(&self.from.0.0);
        f[12..14].copy_from_slice(&ethertype::IPV6.to_be_bytes());
        if let Some(mut h) = Header::parse(&mut f[ethernet::LEN..]) {
            h.set_version_class_label(0, 0);
            h.set_payload_len(32);
            h.set_next_header(ICMP6);
            h.set_hop_limit(255);
            h.set_src(self.from.1);
            h.set_dst(self.to.1);
        }
        let m = &mut f[ethernet::LEN + ipv6::LEN..];
        m[0] = self.kind;
        m[4] = self.flags;
        m[8..24].copy_from_slice(&self.target);
        m[24..26].copy_from_slice(&[self.option.0, 1]);
        m[26..32].copy_from_slice(&self.option.1.0);
        let sum = checksum(&self.from.1, &self.to.1, ICMP6, m).to_be_bytes();
        m[2..4].copy_from_slice(&sum);
        f
    }
}

/// The IPv6 header and the message of a neighbor discovery frame of this kind.
fn read(p: &Packet, kind: u8) -> Option<(Header<&[u8]>, &[u8; 32])> {
    let e = ethernet::Header::parse(p.data())?;
    let h = Header::parse(p.data().get(ethernet::LEN..)?)?;
    let m = p.data().get(ethernet::LEN + ipv6::LEN..)?.first_chunk()?;
    (e.ethertype() == ethertype::IPV6 && m[0] == kind).then_some((h, m))
}

fn target(m: &[u8; 32]) -> [u8; 16] {
    m[8..24].first_chunk().copied().unwrap_or_default()
}

/// `IP6NDAdvertiser`.
pub const IP6_ND_ADVERTISER: ElementClass = ElementClass {
    name: "IP6NDAdvertiser",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "IP6/MASK [IP6/MASK...] ETH, ...",
    summary: "answers neighbor solicitations",
    new: || {
        Box::new(Ip6NdAdvertiser {
            entries: Vec::new(),
        })
    },
};

#[derive(Debug, Clone)]
struct Entry {
    prefix: Ip6Prefix,
    eth: EtherAddr,
    arg: usize,
}

/// As Click, except: checksums of solicitations are checked as they should be (Click loses a carry now and then, and
/// refuses some right ones); solicitations need no link-layer address; those that RFC 4861 7.1.1 calls invalid are not
/// answered; answers to the unspecified address go to all nodes, and those for a single address override what was known
/// before (7.2.4).
#[derive(Debug, Clone)]
struct Ip6NdAdvertiser {
    entries: Vec<Entry>,
}

/// Flags of advertisements: from a router, solicited, to override.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// All nodes of a link, and the hardware address that stands for them (RFC 2464 7).
const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const ALL_NODES_ETH: EtherAddr = EtherAddr([0x33, 0x33, 0, 0, 0, 1]);
/// Length of a solicitation without options.
const SOLICITATION_LEN: usize = 24;

/// The target of a solicitation that is valid by RFC 4861 7.1.1.
fn solicited(h: &Header<&[u8]>) -> Option<[u8; 16]> {
    let m = h.payload();
    if h.version() != 6 || h.next_header() != ICMP6 || m.len() != usize::from(h.payload_len()) {
        return None;
    }
    let asked = Ipv6Addr::from(*m.get(8..SOLICITATION_LEN)?.first_chunk::<16>()?);
    let valid = h.hop_limit() == 255
        && m[..2] == [SOLICITATION, 0]
        // over a message with its own right checksum, the checksum is zero
        && checksum(&h.src(), &h.dst(), ICMP6, m) == 0
        && !asked.is_multicast();
    let mut options = m.get(SOLICITATION_LEN..)?;
    let mut has_address = false;
    // Bound: every option is at least 8 bytes long.
    while let [kind, units, ..] = *options {
        has_address |= kind == 1;
        options = match usize::from(units) * 8 {
            0 => return None,
            n => options.get(n..)?,
        };
    }
    // duplicate address detection asks a group, and has no address yet
    let group = h.dst()[..13] == [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];
    let known = h.src() != [0; 16] || group && !has_address;
    (valid && known && options.is_empty()).then(|| asked.octets())
}

impl Ip6NdAdvertiser {
    fn lookup(&self, a: [u8; 16]) -> Option<&Entry> {
        let a = Ipv6Addr::from(a);
        let matching = self.entries.iter().filter(|e| e.prefix.contains(a));
        // of equally long ones the last
        matching.max_by_key(|e| e.prefix.len)
    }

    fn answer(&self, p: &Packet) -> Option<([u8; FRAME], &Entry)> {
        let ether = ethernet::Header::parse(p.data())?;
        let h = Header::parse(p.data().get(ethernet::LEN..)?)?;
        if ether.ethertype() != ethertype::IPV6 {
            return None;
        }
        let asked = solicited(&h)?;
        let e = self.lookup(asked)?;
        let (to, solicited) = match h.src() == [0; 16] {
            true => ((ALL_NODES_ETH, ALL_NODES), 0),
            false => ((ether.src(), h.src()), SOLICITED),
        };
        let single = if e.prefix.len == 128 { OVERRIDE } else { 0 };
        let frame = Message {
            kind: ADVERTISEMENT,
            flags: ROUTER | solicited | single,
            target: asked,
            option: (2, e.eth),
            from: (e.eth, asked),
            to,
        };
        Some((frame.frame(), e))
    }
}

impl Element for Ip6NdAdvertiser {
    fn batching(&self, _: Batching) -> Batching {
        Batching::AnyOrder
    }
    fn clock(&self, _: Clock) -> Clock {
        Clock::Unread
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let scope = args.scope();
        self.entries.clear();
        for (i, text) in args.rest() {
            let first = self.entries.len();
            let mut eth = None;
            for w in split_words(text) {
                if let Ok(prefix) = Ip6Prefix::from_arg(w, &scope) {
                    let eth = EtherAddr::default();
                    self.entries.push(Entry {
                        prefix,
                        eth,
                        arg: i,
                    });
                } else if let Ok(e) = EtherAddr::from_arg(w, &scope) {
                    if eth.replace(e).is_some() {
                        args.error_at(i, "ETH", "more than one Ethernet address");
                    }
                } else {
                    let m = format!("expected 'IP6/MASK ETH', found '{w}'");
                    args.error_at(i, "IP6/MASK", m);
                    break;
                }
            }
            if self.entries.len() == first {
                args.error_at(i, "IP6/MASK", "missing");
            }
            for e in self.entries.iter_mut().skip(first) {
                e.eth = eth.unwrap_or_default();
            }
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("answers neighbor solicitations, drops the rest")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let Some((frame, e)) = self.answer(&p) else {
            return cx.drop(p, "IP6NDAdvertiser: no solicitation that it answers");
        };
        cx.decide(Some(e.arg), || format!("answers with {}", e.eth));
        let q = cx.make(&frame);
        cx.drop(p, "IP6NDAdvertiser: neighbor solicitation, answered");
        cx.emit(0, q);
    }
    element_any!();
}

/// `IP6NDSolicitor`.
pub const IP6_ND_SOLICITOR: ElementClass = ElementClass {
    name: "IP6NDSolicitor",
    ports: "2/1-2",
    processing: "h/h",
    flow: "xy/x",
    effect: Effect::Holding,
    usage: "IP, ETH",
    summary: "encapsulates IPv6 packets in Ethernet headers found with neighbor discovery",
    new: || {
        Box::new(Ip6NdSolicitor {
            ip: [0; 16],
            eth: EtherAddr::default(),
            table: StateId(u32::MAX),
            queries: 0,
            killed: 0,
        })
    },
};

/// What is known about one neighbor.
#[derive(Debug, Clone)]
struct Neighbor {
    eth: EtherAddr,
    known: bool,
    renew: bool,
    answered_at: Timestamp,
    /// The one packet that waits.
    waiting: Option<Pkt>,
    /// Counts up: which entry is newer.
    number: u64,
}

/// Most neighbors in a table: strangers decide how many are asked for.
const MAX_NEIGHBORS: usize = 1 << 16;

/// Neighbors and waiting packets; shared state.
#[derive(Debug, Clone, Default)]
pub(crate) struct NeighborTable {
    neighbors: HashMap<[u8; 16], Neighbor>,
    next: u64,
    /// What of it the fast path reads.
    read: Neighbors,
}

impl NeighborTable {
    /// What of it the fast path reads, and on which terms: queries become due by the timer.
    pub(crate) fn neighbors(&self) -> (&Neighbors, Terms) {
        let terms = Terms {
            poll: 0,
            broadcast: None,
        };
        (&self.read, terms)
    }

    /// A neighbour has changed: the fast path is told.
    fn tell(&mut self, address: [u8; 16]) {
        let sure = (self.neighbors.get(&address)).filter(|n| n.known && !n.renew);
        let heard = sure.map(|n| Heard {
            ether: n.eth,
            live_at: 0,
            next_poll: i64::MAX,
            expires: i64::MAX,
        });
        self.read.set(u128::from_be_bytes(address), heard, false);
    }

    /// In Click's order: 256 lists by a hash of the address, newest entry first.
    fn sorted(&self) -> Vec<(&[u8; 16], &Neighbor)> {
        let mut all: Vec<_> = self.neighbors.iter().collect();
        all.sort_by_key(|(a, n)| (a[0].wrapping_add(a[15]), Reverse(n.number)));
        all
    }
}

impl State for NeighborTable {
    fn summary(&self) -> String {
        let mut s = String::new();
        for (a, n) in self.sorted() {
            let waiting = n.waiting.as_ref().map(|p| p.data());
            let _ = writeln!(
                s,
                "{} {} {} {} {} {waiting:?}",
                Ipv6Addr::from(*a),
                n.eth,
                n.known,
                n.renew,
                n.answered_at
            );
        }
        s
    }
    fn held(&self) -> usize {
        self.neighbors
            .values()
            .filter(|n| n.waiting.is_some())
            .count()
    }
    fn drain_held(&mut self) -> Vec<Pkt> {
        let mut all: Vec<_> = self.neighbors.values_mut().collect();
        all.sort_by_key(|n| n.number);
        all.into_iter().filter_map(|n| n.waiting.take()).collect()
    }
    state_any!(Scope::PerWorker);
}

/// As Click, except that a table holds at most 65,536 neighbors (packets for more are dropped), and that a table more
/// than half full forgets neighbors that never answered.
#[derive(Debug, Clone)]
struct Ip6NdSolicitor {
    ip: [u8; 16],
    eth: EtherAddr,
    table: StateId,
    queries: u64,
    killed: u64,
}

const CLEAN_UP: TimerId = 0;
const CLEAN_UP_EVERY: Timestamp = Timestamp::from_secs(15);

impl Ip6NdSolicitor {
    fn query(&mut self, want: [u8; 16], cx: &mut Cx<'_>) {
        // the solicited-node multicast address and its Ethernet address
        let [.., x, y, z] = want;
        let mut group = [0; 16];
        (group[0], group[1], group[11], group[12]) = (0xff, 2, 1, 0xff);
        group[13..].copy_from_slice(&[x, y, z]);
        let message = Message {
            kind: SOLICITATION,
            flags: 0,
            target: want,
            option: (1, self.eth),
            from: (self.eth, self.ip),
            to: (EtherAddr([0x33, 0x33, 0xff, x, y, z]), group),
        };
        let q = cx.make(&message.frame());
        self.queries += 1;
        let port = cx.noutputs.saturating_sub(1);
        cx.emit(port, q);
    }

    fn handle_ip6(&mut self, p: Pkt, cx: &mut Cx<'_>) {
        let want = p.anno.dst_ip6();
        let Some(table) = cx.store.get_mut::<NeighborTable>(self.table) else {
            return cx.drop(p, "IP6NDSolicitor: no table");
        };
        let full = table.neighbors.len() >= MAX_NEIGHBORS;
        let Some(n) = table.neighbors.get_mut(&want) else {
            if full {
                return cx.drop(p, "IP6NDSolicitor: too many neighbors");
            }
            table.next += 1;
            let n = Neighbor {
                eth: EtherAddr::default(),
                known: false,
                renew: false,
                answered_at: Timestamp::ZERO,
                waiting: Some(p),
                number: table.next,
            };
            table.neighbors.insert(want, n);
            return self.query(want, cx);
        };
        let renew = std::mem::take(&mut n.renew);
        if n.known {
            let to = n.eth;
            if renew {
                table.tell(want);
                self.query(want, cx);
            }
            return self.send(to, p, cx);
        }
        let old = n.waiting.replace(p);
        if renew {
            self.query(want, cx);
        }
        if let Some(old) = old {
            self.killed += 1;
            cx.drop(old, "IP6NDSolicitor: another packet waits instead");
        }
        self.query(want, cx);
    }

    fn send(&self, to: EtherAddr, mut p: Pkt, cx: &mut Cx<'_>) {
        p.push(ethernet::LEN);
        if let Some(mut h) = ethernet::Header::parse(p.data_mut()) {
            h.set_dst(to);
            h.set_src(self.eth);
            h.set_ethertype(ethertype::IPV6);
        }
        cx.decide(None, || format!("to {to}"));
        cx.emit(0, p);
    }

    fn handle_response(&mut self, p: &Packet, cx: &mut Cx<'_>) {
        let Some((_, m)) = read(p, ADVERTISEMENT) else {
            return;
        };
        let now = cx.now;
        let eth = EtherAddr::from_slice(&m[26..]).unwrap_or_default();
        let Some(table) = cx.store.get_mut::<NeighborTable>(self.table) else {
            return;
        };
        let Some(n) = table.neighbors.get_mut(&target(m)) else {
            return;
        };
        let changed = n.known && n.eth != eth;
        (n.eth, n.known, n.renew, n.answered_at) = (eth, true, false, now);
        let waiting = n.waiting.take();
        table.tell(target(m));
        if changed {
            cx.chatter("IP6NDSolicitor overwriting an entry\n");
        }
        if let Some(p) = waiting {
            self.handle_ip6(p, cx);
        }
    }
}

impl Element for Ip6NdSolicitor {
    fn batching(&self, _: Batching) -> Batching {
        Batching::InOrder
    }
    fn multiplies(&self) -> bool {
        true
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        if let Some(a) = args.mandatory::<Ipv6Addr>("IP") {
            self.ip = a.octets();
        }
        self.eth = args.mandatory("ETH").unwrap_or_default();
        self.table = cx.store.alloc(Box::new(NeighborTable::default()));
        cx.store.publish(cx.elem, self.table);
        args.finish()
    }
    fn initial_timers(&self) -> Vec<(TimerId, Timestamp)> {
        vec![(CLEAN_UP, CLEAN_UP_EVERY)]
    }
    /// Neighbors that answered more than a minute ago are asked again when they are used, after two minutes forgotten.
    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        let now = cx.now;
        let mut given_up = Vec::new();
        if let Some(t) = cx.store.get_mut::<NeighborTable>(self.table) {
            let crowded = t.neighbors.len() > MAX_NEIGHBORS / 2;
            let mut due = Vec::new();
            t.neighbors.retain(|a, n| {
                let age = now - n.answered_at;
                n.renew |= n.known && age > Timestamp::from_secs(60);
                if n.renew {
                    due.push(*a);
                }
                let keep = if n.known {
                    age <= Timestamp::from_secs(120)
                } else {
                    !crowded
                };
                if !keep && let Some(p) = n.waiting.take() {
                    given_up.push((n.number, p));
                }
                keep
            });
            // those that are gone among them: they were due before
            for a in due {
                t.tell(a);
            }
        }
        given_up.sort_by_key(|g| g.0);
        for (_, p) in given_up {
            cx.drop(p, "IP6NDSolicitor: next hop did not answer in time");
        }
        cx.set_timer_after(CLEAN_UP, CLEAN_UP_EVERY);
    }
    /// A packet whose neighbour is known gets its header; for all else the element is needed.
    fn model(&self, port: Port, cx: &ModelCx<'_>) -> Model {
        match port {
            0 => neighbors::model(cx.elem, DST_IP6.into(), (self.eth, ethertype::IPV6), []),
            _ => Model::None("notes neighbor advertisements"),
        }
    }
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        if port == 0 {
            self.handle_ip6(p, cx);
        } else {
            self.handle_response(&p, cx);
            cx.drop(p, "IP6NDSolicitor: neighbor advertisement, noted");
        }
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("table"), HandlerInfo::r("stats")];
        H
    }
    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        match name {
            "table" => {
                let mut s = String::new();
                if let Some(t) = cx.store.get::<NeighborTable>(self.table) {
                    for (a, n) in t.sorted() {
                        let a = show_ip6(u128::from_be_bytes(*a));
                        let _ = writeln!(s, "{a} {} {}", u8::from(n.known), n.eth);
                    }
                }
                Ok(s)
            }
            "stats" => Ok(format!(
                "{} packets killed\n{} ND Solicitation Message sent\n",
                self.killed, self.queries
            )),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn states(&self) -> Vec<StateId> {
        vec![self.table]
    }
    element_takes!(queries, killed);
    element_any!();
}

#[cfg(test)]
#[path = "neighbor_tests.rs"]
mod tests;
