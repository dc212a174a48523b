//! ARPQuerier: finds hardware addresses with ARP (RFC 826) and puts Ethernet headers in front of IP packets.

use super::arp_table::{ArpTable, EXPIRY, Limits, Waiting, clock, drop_all, expire, millis};
use super::neighbors::{self, Terms};
use onefold_element::args::{Args, ElementArg, FromArg, Ip4Prefix};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx, Op};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigError, ConfigErrors, Cx, Effect, ElemId, Element,
    ElementClass, InitCx, Port, StateId, StateStore, TimerId, element_any, element_takes,
};
use onefold_packet::anno_field::DST_IP;
use onefold_packet::wire::{arp, ethernet};
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp};
use std::net::Ipv4Addr;

/// `ARPQuerier`.
pub const ARP_QUERIER: ElementClass = ElementClass {
    name: "ARPQuerier",
    ports: "2/1-2",
    processing: "h/h",
    flow: "xy/x",
    effect: Effect::Holding,
    usage: "IP, ETH (or NAME for both) [, keywords TABLE, CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, \
            CAPACITY_SLIM_FACTOR, TIMEOUT, POLL_TIMEOUT, BROADCAST, BROADCAST_POLL]",
    summary: "encapsulates IP packets in Ethernet headers found with ARP",
    new: || {
        Box::new(ArpQuerier {
            ip: [0; 4],
            eth: EtherAddr::default(),
            broadcast: [255; 4],
            poll: 60_000,
            broadcast_poll: false,
            table: StateId(u32::MAX),
            other: None,
            own: None,
            queries: 0,
            drops: 0,
            responses: 0,
            zero_warned: false,
        })
    },
};

/// As Click. Waiting packets have their Ethernet header's room already; they count as held by the table.
#[derive(Debug, Clone)]
struct ArpQuerier {
    ip: [u8; 4],
    eth: EtherAddr,
    broadcast: [u8; 4],
    /// Milliseconds after which an entry is renewed by a query; 0 for never.
    poll: i64,
    broadcast_poll: bool,
    table: StateId,
    /// Whose table it is, if another element's.
    other: Option<ElemId>,
    /// Limits of its own table, if it has one.
    own: Option<Limits>,
    queries: u32,
    drops: u32,
    responses: u32,
    zero_warned: bool,
}

/// The 01-00-5E address of an IPv4 multicast address (RFC 1112 6.4).
pub(super) fn multicast_ether(ip: [u8; 4]) -> EtherAddr {
    EtherAddr([0x01, 0x00, 0x5e, ip[1] & 0x7f, ip[2], ip[3]])
}

impl ArpQuerier {
    /// Sends a query for the destination of `p`, to `to`.
    fn query(&mut self, to: EtherAddr, anno: &onefold_packet::Anno, cx: &mut Cx<'_>) {
        let mut frame = [0u8; ethernet::LEN + arp::LEN];
        frame[..6].copy_from_slice(&to.0);
        frame[6..12].copy_from_slice(&self.eth.0);
        frame[12..14].copy_from_slice(&ethernet::ethertype::ARP.to_be_bytes());
        let target = (EtherAddr::default(), anno.dst_ip());
        let message = arp::build(arp::REQUEST, (self.eth, self.ip), target);
        frame[14..].copy_from_slice(&message);
        let mut q = cx.make(&frame);
        q.set_mac_header_len(0, ethernet::LEN);
        q.anno.timestamp = anno.timestamp;
        q.anno.set_vlan_tci(anno.vlan_tci());
        self.queries = self.queries.wrapping_add(1);
        let port = cx.noutputs.saturating_sub(1);
        cx.emit(port, q);
    }

    fn handle_ip(&mut self, mut p: Pkt, waited: bool, cx: &mut Cx<'_>) {
        if self.ip == [0; 4] {
            self.drops = self.drops.wrapping_add(1);
            return cx.drop(p, "ARPQuerier: has no address");
        }
        if !waited {
            p.push(ethernet::LEN);
            p.set_mac_header(0);
            if let Some(mut h) = ethernet::Header::parse(p.data_mut()) {
                h.set_ethertype(ethernet::ethertype::IPV4);
            }
        }
        let dst = p.anno.dst_ip();
        let now = clock(cx.now);
        let Some(table) = cx.store.get_mut::<ArpTable>(self.table) else {
            return cx.drop(p, "ARPQuerier: no table");
        };
        if let Some((eth, renew)) = table.lookup(dst, self.poll, now) {
            if renew {
                let to = match self.broadcast_poll {
                    true => EtherAddr::BROADCAST,
                    false => eth,
                };
                self.query(to, &p.anno, cx);
            }
            return self.send(eth, p, cx);
        }
        if dst == [255; 4] || dst == self.broadcast {
            return self.send(EtherAddr::BROADCAST, p, cx);
        }
        if dst[0] & 0xf0 == 0xe0 {
            return self.send(multicast_ether(dst), p, cx);
        }
        if dst == [0; 4] {
            if !self.zero_warned {
                self.zero_warned = true;
                let name = cx.host.element_name(cx.elem);
                cx.chatter(&format!(
                    "{name} :: ARPQuerier: would query for 0.0.0.0; missing dest IP addr annotation?\n"
                ));
            }
            self.drops = self.drops.wrapping_add(1);
            return cx.drop(p, "ARPQuerier: no next hop is known (0.0.0.0)");
        }
        let mut dropped = Vec::new();
        let anno = p.anno;
        match table.wait(dst, p, now, &mut dropped) {
            Waiting::Queued(ask) => {
                cx.decide(None, || {
                    format!("waits for the address of {}", Ipv4Addr::from(dst))
                });
                if ask {
                    self.query(EtherAddr::BROADCAST, &anno, cx);
                }
            }
            Waiting::Full(p) => cx.drop(p, "ARPQuerier: too many packets wait for this address"),
            // cannot be: it was unknown a moment ago, at the same time
            Waiting::Known(p) => cx.drop(p, "ARPQuerier: no table"),
        }
        drop_all(dropped, cx);
    }

    #[inline]
    fn send(&self, to: EtherAddr, mut p: Pkt, cx: &mut Cx<'_>) {
        if let Some(mut h) = ethernet::Header::parse(p.data_mut()) {
            h.set_dst(to);
            h.set_src(self.eth);
        }
        cx.decide(None, || format!("to {to}"));
        cx.emit(0, p);
    }

    fn handle_response(&mut self, p: &Packet, cx: &mut Cx<'_>) {
        let Some(body) = p.data().get(ethernet::LEN..) else {
            return;
        };
        let (Some(e), Some(a)) = (ethernet::Header::parse(p.data()), arp::Header::parse(body))
        else {
            return;
        };
        self.responses = self.responses.wrapping_add(1);
        let answers = e.ethertype() == ethernet::ethertype::ARP
            && a.hardware() == 1
            && a.protocol() == ethernet::ethertype::IPV4
            && a.operation() == arp::REPLY
            && !a.sender_ether().is_group();
        if !answers {
            return;
        }
        let (ip, eth, now) = (a.sender_ip(), a.sender_ether(), clock(cx.now));
        let mut dropped = Vec::new();
        let Some(table) = cx.store.get_mut::<ArpTable>(self.table) else {
            return;
        };
        let waiting = table.insert(ip, eth, true, now, &mut dropped);
        cx.decide(None, || format!("{} is at {eth}", Ipv4Addr::from(ip)));
        for p in waiting {
            self.handle_ip(p, true, cx);
        }
        drop_all(dropped, cx);
    }

    /// Tells the table on which terms this element asks it.
    fn tell_terms(&self, me: ElemId, store: &mut StateStore) {
        if let Some(t) = store.get_mut::<ArpTable>(self.table) {
            let terms = Terms {
                poll: self.poll,
                broadcast: Some(u32::from_be_bytes(self.broadcast)),
            };
            t.asked_by(me, terms);
        }
    }

    fn with_table(&self, cx: &mut Cx<'_>, f: impl FnOnce(&ArpTable) -> String) -> HandlerResult {
        let t = cx.store.get::<ArpTable>(self.table);
        t.map(f)
            .ok_or_else(|| HandlerError::BadValue("no table".to_string()))
    }
}

impl Element for ArpQuerier {
    /// Packets that wait leave behind the answer that they wait for; the table's timers run by themselves.
    fn batching(&self, _: Batching) -> Batching {
        Batching::InOrder
    }
    fn clock(&self, _: Clock) -> Clock {
        Clock::MILLISECONDS
    }
    fn multiplies(&self) -> bool {
        true
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let limits = Limits::read(args);
        let broadcast: Option<Ipv4Addr> = args.keyword("BROADCAST");
        self.other = args.keyword("TABLE").map(|ElementArg(e)| e);
        self.poll = args.keyword("POLL_TIMEOUT").map_or(60_000, millis);
        self.broadcast_poll = args.keyword("BROADCAST_POLL").unwrap_or(false);
        // fastclick's per-thread cache does not change what is sent
        let _: Option<bool> = args.keyword("CACHE");
        let prefix: Option<Ip4Prefix> = args.mandatory("IP");
        let eth = match args.optional("ETH") {
            Some(eth) => Some(eth),
            // one name for both addresses
            None if args.ok() => named_ether(args),
            None => None,
        };
        if let (Some(p), Some(eth)) = (prefix, eth) {
            let ip = p.addr.octets();
            let changed = (self.ip, self.eth) != (ip, eth);
            (self.ip, self.eth) = (ip, eth);
            self.broadcast = match broadcast {
                Some(b) => b.octets(),
                None => (u32::from(p.addr) | !u32::from(p.mask)).to_be_bytes(),
            };
            // a prefix without a broadcast address of its own
            if broadcast.is_none() && self.broadcast == ip {
                self.broadcast = [255; 4];
            }
            if self.other.is_none() {
                match cx.store.get_mut::<ArpTable>(self.table) {
                    // told anew while running
                    Some(t) => {
                        t.set_limits(limits.clone());
                        if changed {
                            t.forget();
                        }
                    }
                    None => {
                        let t = ArpTable::new(limits.clone());
                        self.table = cx.store.alloc(Box::new(t));
                        cx.store.publish(cx.elem, self.table);
                    }
                }
                self.own = Some(limits);
            }
            // of another's table it is told when that is there
            self.tell_terms(cx.elem, cx.store);
        }
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        let Some(other) = self.other else {
            return Ok(());
        };
        let id = cx.store.published_by(other);
        match id.filter(|id| cx.store.get::<ArpTable>(*id).is_some()) {
            Some(id) => {
                self.table = id;
                cx.store.publish(cx.elem, id);
                self.tell_terms(cx.elem, cx.store);
                Ok(())
            }
            None => Err(vec![ConfigError::new(
                "TABLE: expected the name of an ARPTable",
            )]),
        }
    }

    fn initial_timers(&self) -> Vec<(TimerId, Timestamp)> {
        let first = self.own.as_ref().and_then(|l| l.expiry(true));
        first.map(|t| (EXPIRY, t)).into_iter().collect()
    }
    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        expire(self.table, cx);
    }

    /// A packet whose neighbour is known gets its header; for all else the element is needed.
    fn model(&self, port: Port, cx: &ModelCx<'_>) -> Model {
        match port {
            0 if self.ip != [0; 4] => {
                let mark = Op::SetMac { at: 0 };
                neighbors::model(
                    cx.elem,
                    DST_IP.into(),
                    (self.eth, ethernet::ethertype::IPV4),
                    [mark],
                )
            }
            0 => Model::None("ARPQuerier: has no address"),
            _ => Model::None("notes ARP replies"),
        }
    }
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        if port == 0 {
            self.handle_ip(p, false, cx);
        } else {
            self.handle_response(&p, cx);
            cx.drop(p, "ARPQuerier: ARP reply, noted");
        }
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("table"),
            HandlerInfo::r("stats"),
            HandlerInfo::r("count"),
            HandlerInfo::r("length"),
            HandlerInfo::r("queries"),
            HandlerInfo::r("responses"),
            HandlerInfo::r("drops"),
            HandlerInfo::rw("broadcast"),
            HandlerInfo::rw("ipaddr"),
            HandlerInfo::w("insert"),
            HandlerInfo::w("delete"),
            HandlerInfo::w("clear"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let now = clock(cx.now);
        Ok(match name {
            "table" => self.with_table(cx, |t| t.text(now))?,
            "stats" => self.with_table(cx, |t| {
                format!(
                    "{} packets killed\n{} ARP queries sent\n",
                    self.drops.wrapping_add(t.drops),
                    self.queries
                )
            })?,
            "count" => self.with_table(cx, |t| t.count().to_string())?,
            "length" => self.with_table(cx, |t| t.length().to_string())?,
            "queries" => self.queries.to_string(),
            "responses" => self.responses.to_string(),
            "drops" => self.drops.to_string(),
            "broadcast" => Ipv4Addr::from(self.broadcast).to_string(),
            "ipaddr" => Ipv4Addr::from(self.ip).to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "broadcast" => {
                self.broadcast = cx.value::<Ipv4Addr>(name, value)?.octets();
                let me = cx.elem;
                self.tell_terms(me, cx.store);
            }
            "ipaddr" => self.ip = cx.value::<Ipv4Addr>(name, value)?.octets(),
            "insert" | "delete" | "clear" => {
                let now = clock(cx.now);
                let names = cx.names();
                let Some(t) = cx.store.get_mut::<ArpTable>(self.table) else {
                    return Err(HandlerError::BadValue("no table".to_string()));
                };
                let dropped = t.command(name, value, now, &names.scope())?;
                if name == "clear" {
                    (self.queries, self.drops, self.responses) = (0, 0, 0);
                }
                drop_all(dropped, cx);
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    fn states(&self) -> Vec<StateId> {
        vec![self.table]
    }
    element_takes!(queries, drops, responses, zero_warned);
    element_any!();
}

/// The Ethernet address of the name that the only positional argument is.
fn named_ether(args: &mut Args<'_>) -> Option<EtherAddr> {
    let name = (0..args.len())
        .filter_map(|i| args.raw(i))
        .find(|a| !a.contains(char::is_whitespace))?;
    let eth = EtherAddr::from_arg(name, &args.scope()).ok();
    if eth.is_none() {
        args.error(format!(
            "ETH: required argument missing; '{name}' names no Ethernet address"
        ));
    }
    eth
}

#[cfg(test)]
#[path = "arp_querier_tests.rs"]
mod tests;
