//! The element.

use super::datagram::{Four, Six, read_four, read_six};
use super::hosts::{Flow, Hosts, Lasting, MAX_HOSTS};
use super::icmp::{is_error4, is_error6, quoted4, quoted6};
use super::prefix::Prefix64;
use super::reasons::*;
use super::translate::{
    Ends, Extent, error_to_four, error_to_six, four_to_six, pieces, six_to_four,
};
use onefold_element::args::{Args, FromArg, Ip6Prefix, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port,
    StateId, StateStore, element_any, element_takes,
};
use onefold_packet::wire::ethernet::{self, ethertype};
use onefold_packet::wire::ipv4::{self, proto};
use onefold_packet::wire::ipv6;
use onefold_packet::{Packet, Pkt, Timestamp};
use std::net::{Ipv4Addr, Ipv6Addr};

/// `NAT64`.
pub(crate) const NAT64: ElementClass = ElementClass {
    name: "NAT64",
    ports: "2/2-3",
    processing: "h/h",
    flow: "xy/xy",
    effect: Effect::OrderSensitive,
    usage: "PREFIX, HOST_1, ..., HOST_n [, keywords MTU, LOWEST_MTU, CAPACITY, TCP_TIMEOUT, \
            TCP_TRANSITORY_TIMEOUT, UDP_TIMEOUT, ICMP_TIMEOUT, SWEEP]",
    summary: "translates between IPv6 hosts and IPv4 (RFC 7915), in front of rewriters of IPv4",
    new: || Box::new(Nat64::default()),
};

/// Most hosts that have handles for ever: the kind `nat` has as many forwards.
const MAX_FIXED: usize = 4096;
/// Least MTU of IPv6, and the longest packet.
const MTUS: std::ops::RangeInclusive<u32> = 1280..=65535;
const HOSTS: u32 = 1 << 20;

#[derive(Debug, Clone, Default)]
struct Nat64 {
    prefix: Prefix64,
    mtu: u32,
    lowest_mtu: u32,
    hosts: Option<StateId>,
    /// The packet that is being written.
    written: Vec<u8>,
}

/// An IPv6 packet has been translated, or an IPv4 packet is longer than the link takes.
enum Done {
    Written,
    /// In fragments.
    Pieces(Vec<Vec<u8>>),
    TooBig,
}

impl Nat64 {
    fn table<'a>(&self, store: &'a mut StateStore) -> Result<&'a mut Hosts, DropReason> {
        let id = self.hosts.ok_or(CROWDED)?;
        store.get_mut::<Hosts>(id).ok_or(CROWDED)
    }

    /// The IPv4 host that an address stands for.
    fn remote(&self, a: [u8; 16]) -> Result<[u8; 4], DropReason> {
        let v4 = self.prefix.extract(a).ok_or(NO_PREFIX)?;
        match v4 {
            [0 | 127 | 224..=255, ..] => Err(NO_HOST),
            v4 if !self.prefix.allows(v4) => Err(NOT_GLOBAL),
            v4 => Ok(v4),
        }
    }

    /// The address that stands for an IPv4 host.
    fn shown(&self, v4: [u8; 4]) -> Result<[u8; 16], DropReason> {
        match self.prefix.allows(v4) {
            true => Ok(self.prefix.embed(v4)),
            false => Err(NOT_GLOBAL),
        }
    }

    /// Writes the IPv4 packet of an IPv6 packet.
    fn outwards(
        &mut self,
        ip: &[u8],
        now: Timestamp,
        hosts: &mut Hosts,
    ) -> Result<Done, DropReason> {
        let d = read_six(ip, false)?;
        if self.prefix.has(d.src) {
            return Err(PREFIX_SOURCE);
        }
        let dst = self.remote(d.dst)?;
        if d.protocol == proto::ICMP6 && d.is_part() {
            return Err(ICMP_FRAGMENT);
        }
        self.written.clear();
        let is_error = d.protocol == proto::ICMP6 && d.kind().is_some_and(is_error6);
        if is_error {
            let quote = read_six(quoted6(d.payload), true)?;
            let ends = Ends {
                src: self.remote(quote.src)?,
                dst: hosts.known(quote.dst).ok_or(NO_FLOW)?,
            };
            let id = hosts.identification();
            let outer = Ends { src: ends.dst, dst };
            let quote = (&quote, &ends);
            error_to_four(&mut self.written, (&d, &outer), quote, self.mtu, id)?;
            return Ok(Done::Written);
        }
        let src = hosts
            .outgoing(d.src, flow_of_six(&d)?, now)
            .ok_or(CROWDED)?;
        let ends = Ends { src, dst };
        let id = match d.fragment {
            None => hosts.identification(),
            Some(_) => 0,
        };
        six_to_four(&mut self.written, &d, &ends, id, Extent::Whole)?;
        Ok(Done::Written)
    }

    /// Writes the IPv6 packet of an IPv4 packet, or its fragments.
    fn inwards(
        &mut self,
        ip: &[u8],
        now: Timestamp,
        hosts: &mut Hosts,
    ) -> Result<Done, DropReason> {
        let d = read_four(ip, false)?;
        let src = self.shown(d.src)?;
        if d.protocol == proto::ICMP && d.is_part() {
            return Err(ICMP_FRAGMENT);
        }
        self.written.clear();
        let is_error = d.protocol == proto::ICMP && d.kind().is_some_and(is_error4);
        if is_error {
            let about = quoted4(d.payload);
            let quote = read_four(about, true)?;
            let total = ipv4::Header::parse(about).map_or(0, |h| h.total_len());
            let host = hosts.host(quote.src).ok_or(NO_FLOW)?;
            let dst = hosts.host(d.dst).ok_or(UNKNOWN)?;
            let outer = Ends { src, dst };
            let ends = Ends {
                src: host,
                dst: self.shown(quote.dst)?,
            };
            let quote = (&quote, &ends);
            error_to_six(&mut self.written, (&d, &outer), quote, self.mtu, total)?;
            return Ok(Done::Written);
        }
        let flow = flow_of_four(&d)?;
        let dst = hosts.incoming(d.dst, flow, now).ok_or(UNKNOWN)?;
        four_to_six(&mut self.written, &d, &Ends { src, dst }, Extent::Whole)?;
        let length = self.written.len();
        match d.whole {
            true if length > self.mtu as usize => Ok(Done::TooBig),
            false if length > self.lowest_mtu as usize => {
                let all = pieces(&self.written, &d, self.lowest_mtu as usize);
                Ok(Done::Pieces(all))
            }
            _ => Ok(Done::Written),
        }
    }
}

fn flow_of_six(d: &Six<'_>) -> Result<Flow, DropReason> {
    match d.protocol {
        proto::TCP => Ok(Flow::Tcp),
        proto::UDP => Ok(Flow::Udp),
        proto::ICMP6 if matches!(d.kind(), Some(128 | 129)) => Ok(Flow::Icmp),
        proto::ICMP6 => Err(ICMP),
        _ => Err(PROTOCOL),
    }
}

fn flow_of_four(d: &Four<'_>) -> Result<Flow, DropReason> {
    match d.protocol {
        proto::TCP => Ok(Flow::Tcp),
        proto::UDP => Ok(Flow::Udp),
        proto::ICMP if matches!(d.kind(), Some(0 | 8)) => Ok(Flow::Icmp),
        proto::ICMP => Err(ICMP),
        _ => Err(PROTOCOL),
    }
}

/// The header of the packet's frame, which stands in front of it, with the EtherType of the other version.
fn frame(p: &Packet, from: u16, to: u16) -> Option<[u8; ethernet::LEN]> {
    let mut f = *p.headroom_bytes().last_chunk::<{ ethernet::LEN }>()?;
    if f[12..] != from.to_be_bytes() {
        return None;
    }
    f[12..].copy_from_slice(&to.to_be_bytes());
    Some(f)
}

/// Puts another packet in the place of this one, behind this header of its frame.
fn replace(p: &mut Packet, packet: &[u8], frame: Option<[u8; ethernet::LEN]>) {
    match packet.len().checked_sub(p.len()) {
        Some(more) => p.push(more),
        None => p.pull(p.len() - packet.len()),
    }
    if let Some(to) = p.data_mut().get_mut(..packet.len()) {
        to.copy_from_slice(packet);
    }
    if let Some(f) = frame {
        p.push(ethernet::LEN);
        if let Some(to) = p.data_mut().first_chunk_mut::<{ ethernet::LEN }>() {
            *to = f;
        }
        p.pull(ethernet::LEN);
        p.set_mac_header(-(ethernet::LEN as isize));
    }
}

/// Annotations of a packet that begins with a header of IPv4.
fn mark_four(p: &mut Packet) {
    p.set_network_header(0, ipv4::LEN);
    let dst = ipv4::Header::parse(p.data()).map(|h| h.dst());
    p.anno.set_dst_ip(dst.unwrap_or_default());
}

/// The same of IPv6.
fn mark_six(p: &mut Packet) {
    p.set_network_header(0, ipv6::LEN);
    let dst = ipv6::Header::parse(p.data()).map(|h| h.dst());
    p.anno.set_dst_ip6(dst.unwrap_or_default());
}

impl Element for Nat64 {
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
        self.mtu = args.keyword("MTU").unwrap_or(1500);
        self.lowest_mtu = args.keyword("LOWEST_MTU").unwrap_or(1280);
        for (name, mtu) in [("MTU", self.mtu), ("LOWEST_MTU", self.lowest_mtu)] {
            if !MTUS.contains(&mtu) {
                args.error(format!("{name}: expected 1280 to 65535, found {mtu}"));
            }
        }
        let capacity = args.keyword("CAPACITY").unwrap_or(HOSTS);
        if !(1..=MAX_HOSTS).contains(&capacity) {
            args.error(format!("CAPACITY: expected 1 to {MAX_HOSTS} hosts"));
        }
        let mut time = |name: &str, seconds: i64| {
            let given = args.keyword::<Seconds>(name).map(|s| s.0);
            given.unwrap_or(Timestamp::from_secs(seconds))
        };
        let lasting = Lasting {
            tcp: time("TCP_TIMEOUT", 24 * 3600),
            tcp_transitory: time("TCP_TRANSITORY_TIMEOUT", 300),
            udp: time("UDP_TIMEOUT", 300),
            icmp: time("ICMP_TIMEOUT", 300),
            sweep: time("SWEEP", 900),
        };
        if let Some(p) = args.mandatory::<Ip6Prefix>("PREFIX") {
            match Prefix64::new(p.addr, p.len) {
                Ok(p) => self.prefix = p,
                Err(why) => args.error(format!("PREFIX: {why}")),
            }
        }
        let mut fixed: Vec<u128> = Vec::new();
        let scope = args.scope();
        for (i, (index, text)) in args.rest().into_iter().enumerate() {
            let name = format!("HOST_{}", i + 1);
            match Ipv6Addr::from_arg(text, &scope) {
                Ok(a) if fixed.contains(&u128::from(a)) => {
                    args.error_at(index, &name, format!("{a} is there twice"));
                }
                Ok(a) => fixed.push(a.into()),
                Err(_) => {
                    args.error_at(
                        index,
                        &name,
                        format!("expected an IPv6 address, found '{text}'"),
                    );
                }
            }
        }
        if fixed.len() > MAX_FIXED {
            args.error(format!("at most {MAX_FIXED} hosts have handles for ever"));
        }
        let table = Hosts::new(&fixed, capacity, lasting);
        self.hosts = Some(cx.store.alloc(Box::new(table)));
        args.finish()
    }

    fn push(&mut self, port: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if p.network_header_offset() != Some(0) {
            return cx.drop(p, NO_HEADER);
        }
        let now = Timestamp::from_millis(cx.now.millis());
        let done = match (self.table(cx.store), port) {
            (Ok(hosts), 0) => self.outwards(p.data(), now, hosts),
            (Ok(hosts), _) => self.inwards(p.data(), now, hosts),
            (Err(why), _) => Err(why),
        };
        let frame = match port {
            0 => frame(&p, ethertype::IPV6, ethertype::IPV4),
            _ => frame(&p, ethertype::IPV4, ethertype::IPV6),
        };
        match done {
            Err(why) => {
                cx.decide(None, || why.to_string());
                cx.drop(p, why);
            }
            Ok(Done::TooBig) => {
                cx.decide(None, || format!("longer than {} as IPv6", self.mtu));
                cx.emit_or_drop(2, p, TOO_BIG);
            }
            Ok(Done::Written) => {
                replace(&mut p, &self.written, frame);
                if port == 0 {
                    mark_four(&mut p);
                } else {
                    mark_six(&mut p);
                }
                cx.decide(None, || told(p.data()));
                cx.emit(port.min(1), p);
            }
            Ok(Done::Pieces(all)) => {
                cx.decide(None, || format!("{} fragments", all.len()));
                self.cut(p, &all, frame, cx);
            }
        }
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("translation between IPv6 and IPv4")
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("hosts"), HandlerInfo::r("count")];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let hosts = self.hosts.and_then(|id| cx.store.get::<Hosts>(id));
        match (name, hosts) {
            ("hosts", Some(h)) => Ok(h.lines()),
            ("count", Some(h)) => Ok(h.len().to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn states(&self) -> Vec<StateId> {
        self.hosts.into_iter().collect()
    }

    element_takes!();
    element_any!();
}

impl Nat64 {
    /// The fragments of a packet leave, the first one in its place.
    fn cut(
        &self,
        mut p: Pkt,
        all: &[Vec<u8>],
        frame: Option<[u8; ethernet::LEN]>,
        cx: &mut Cx<'_>,
    ) {
        let Some((first, others)) = all.split_first() else {
            return cx.drop(p, CUT);
        };
        replace(&mut p, first, frame);
        mark_six(&mut p);
        let anno = p.anno;
        cx.emit(1, p);
        for piece in others {
            let mut q = cx.make(piece);
            q.anno = anno;
            replace(&mut q, piece, frame);
            mark_six(&mut q);
            cx.emit(1, q);
        }
    }
}

/// For traces: whom a packet is from and to now.
fn told(packet: &[u8]) -> String {
    if let Some(h) = ipv4::Header::parse(packet).filter(|h| h.version() == 4) {
        let (src, dst) = (Ipv4Addr::from(h.src()), Ipv4Addr::from(h.dst()));
        return format!("becomes {src} > {dst}");
    }
    match ipv6::Header::parse(packet) {
        Some(h) => {
            let (src, dst) = (Ipv6Addr::from(h.src()), Ipv6Addr::from(h.dst()));
            format!("becomes {src} > {dst}")
        }
        None => String::new(),
    }
}
