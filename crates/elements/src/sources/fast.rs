//! FastUDPSource, FastUDPFlows, FastTCPFlows: generators for measurements.
//!
//! Click elements of the same names. They are pulled. The contents of a packet that Click leaves as memory happens to
//! be are zero here; ports, sequence numbers and the choice of the flow are random (but come again with the same seed).

use super::util::value;
use crate::token_bucket::{GapRate, MAX_GAP_RATE};
use onefold_element::args::{Args, IpPort};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TimerId, element_any,
};
use onefold_packet::{EtherAddr, Pkt, Timestamp, checksum};
use std::net::Ipv4Addr;

/// `FastUDPSource`.
pub const FAST_UDP_SOURCE: ElementClass = ElementClass {
    name: "FastUDPSource",
    ports: "0/1",
    processing: "l/l",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "RATE, LIMIT, LENGTH, SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT [, CHECKSUM, INTERVAL, ACTIVE]",
    summary: "makes UDP packets of one flow",
    new: || Box::new(Fast::new(Kind::UdpSource)),
};

/// `FastUDPFlows`.
pub const FAST_UDP_FLOWS: ElementClass = ElementClass {
    name: "FastUDPFlows",
    usage: "RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, CHECKSUM, ACTIVE]",
    summary: "makes UDP packets of many flows",
    new: || Box::new(Fast::new(Kind::UdpFlows)),
    ..FAST_UDP_SOURCE
};

/// `FastTCPFlows`.
pub const FAST_TCP_FLOWS: ElementClass = ElementClass {
    name: "FastTCPFlows",
    usage: "RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, ACTIVE]",
    summary: "makes TCP packets of many flows",
    new: || Box::new(Fast::new(Kind::TcpFlows)),
    ..FAST_UDP_SOURCE
};

/// Shortest frame.
const MIN_LEN: u32 = 60;
/// Longest frame: the IP length has 16 bits.
const MAX_LEN: u32 = ETHER as u32 + 0xffff;
/// Most flows.
const MAX_FLOWS: u32 = 1 << 22;
const ETHER: usize = 14;
const IP: usize = 20;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 0x02;
const PUSH_ACK: u8 = 0x18;
const FIN: u8 = 0x01;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    UdpSource,
    UdpFlows,
    TcpFlows,
}

/// One flow: ports, packets so far, and (TCP) sequence and acknowledgement numbers of its three packets.
#[derive(Debug, Clone, Default)]
struct Flow {
    ports: [u8; 4],
    count: u32,
    numbers: [[u8; 8]; 3],
}

#[derive(Debug, Clone)]
struct Fast {
    kind: Kind,
    rate: Option<GapRate>,
    limit: Option<u32>,
    len: u32,
    src: (EtherAddr, Ipv4Addr, u16),
    dst: (EtherAddr, Ipv4Addr, u16),
    flow_size: u32,
    checksum: bool,
    interval: u32,
    active: bool,
    flows: Vec<Flow>,
    nflows: u32,
    /// A frame without ports.
    template: Vec<u8>,
    /// The sum over its pseudo-header and what is behind the IP header.
    sum: u64,
    count: u32,
    first: Timestamp,
    last: Timestamp,
    all_fins_sent: bool,
}

impl Fast {
    fn new(kind: Kind) -> Self {
        let nowhere = (EtherAddr::default(), Ipv4Addr::UNSPECIFIED, 0);
        Fast {
            kind,
            rate: None,
            limit: None,
            len: MIN_LEN,
            src: nowhere,
            dst: nowhere,
            flow_size: 0,
            checksum: true,
            interval: 0,
            active: true,
            flows: Vec::new(),
            nflows: 1,
            template: Vec::new(),
            sum: 0,
            count: 0,
            first: Timestamp::ZERO,
            last: Timestamp::ZERO,
            all_fins_sent: false,
        }
    }

    fn proto(&self) -> u8 {
        match self.kind {
            Kind::TcpFlows => TCP,
            _ => UDP,
        }
    }

    fn make_template(&mut self) {
        let ip_len = (self.len as usize - ETHER) as u16;
        let mut t = Vec::with_capacity(self.len as usize);
        t.extend(self.dst.0.0);
        t.extend(self.src.0.0);
        t.extend([8, 0, 0x45, 0]);
        t.extend(ip_len.to_be_bytes());
        t.extend([0, 0, 0, 0, 250, self.proto(), 0, 0]);
        t.extend(self.src.1.octets());
        t.extend(self.dst.1.octets());
        let sum = checksum::internet(&t[ETHER..]).to_be_bytes();
        t[ETHER + 10..ETHER + 12].copy_from_slice(&sum);
        t.resize(self.len as usize, 0);
        let body = ip_len - IP as u16;
        let transport = &mut t[ETHER + IP..];
        if self.kind == Kind::TcpFlows {
            transport[12] = 0x50;
            transport[14..16].fill(0xff);
        } else {
            transport[4..6].copy_from_slice(&body.to_be_bytes());
        }
        let (src, dst) = (self.src.1.octets(), self.dst.1.octets());
        let pseudo = checksum::pseudo_v4(src, dst, self.proto(), body);
        self.sum = checksum::sum(transport, pseudo);
        self.template = t;
    }

    fn random_ports(cx: &mut Cx<'_>) -> [u8; 4] {
        // as Click draws them: never the highest
        let mut port = || ((cx.random() >> 2) % 0xffff) as u16;
        let (a, b) = (port().to_be_bytes(), port().to_be_bytes());
        [a[0], a[1], b[0], b[1]]
    }

    fn random_numbers(cx: &mut Cx<'_>) -> [u8; 8] {
        let (a, b) = (cx.random().to_be_bytes(), cx.random().to_be_bytes());
        [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
    }

    fn fixed_ports(&self, more: u32) -> [u8; 4] {
        let port = |p: u16| p.wrapping_add(more as u16).to_be_bytes();
        let (a, b) = (port(self.src.2), port(self.dst.2));
        [a[0], a[1], b[0], b[1]]
    }

    fn start_flows(&mut self, cx: &mut Cx<'_>) {
        self.make_template();
        self.flows.clear();
        for _ in 0..self.nflows {
            let mut f = Flow::default();
            if self.kind == Kind::UdpSource {
                f.ports = self.fixed_ports(0);
            } else {
                f.ports = Self::random_ports(cx);
            }
            if self.kind == Kind::TcpFlows {
                f.numbers = [(); 3].map(|()| Self::random_numbers(cx));
            }
            self.flows.push(f);
        }
    }

    /// A packet of a flow; `which`: its number among the flow's TCP packets, and its flags.
    fn packet(&self, flow: &Flow, which: Option<(usize, u8)>, cx: &mut Cx<'_>) -> Pkt {
        let mut p = cx.make(&self.template);
        let mut sum = checksum::sum(&flow.ports, self.sum);
        if let Some(t) = p.data_mut().get_mut(ETHER + IP..).filter(|t| t.len() >= 20) {
            t[..4].copy_from_slice(&flow.ports);
            let mut at = 6;
            if let Some((n, flags)) = which {
                let numbers = flow.numbers.get(n).copied().unwrap_or_default();
                t[4..12].copy_from_slice(&numbers);
                t[13] = flags;
                sum = checksum::sum(&numbers, sum) + u64::from(flags);
                at = 16;
            }
            if self.checksum {
                t[at..at + 2].copy_from_slice(&(!checksum::fold(sum)).to_be_bytes());
            }
        }
        p.set_network_header(ETHER as isize, IP);
        p.anno.set_dst_ip(self.dst.1.octets());
        p
    }

    fn at_limit(&self) -> bool {
        self.limit.is_some_and(|l| self.count >= l)
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Pkt> {
        if self.kind == Kind::UdpSource {
            let flow = self.flows.first()?.clone();
            return Some(self.packet(&flow, None, cx));
        }
        if self.kind == Kind::TcpFlows && self.at_limit() {
            // what is under way is closed
            let size = self.flow_size;
            let Some(open) = self.flows.iter_mut().find(|f| f.count != size) else {
                self.all_fins_sent = true;
                return None;
            };
            open.count = size;
            let flow = open.clone();
            return Some(self.packet(&flow, Some((2, FIN)), cx));
        }
        let i = (cx.random() >> 2) as usize % self.flows.len().max(1);
        let renew = self.flows.get(i)?.count == self.flow_size;
        let ports = renew.then(|| Self::random_ports(cx));
        let f = self.flows.get_mut(i)?;
        if let Some(ports) = ports {
            f.ports = ports;
            f.count = 0;
        }
        f.count += 1;
        let which = match (self.kind, f.count) {
            (Kind::TcpFlows, 1) => Some((0, SYN)),
            (Kind::TcpFlows, n) if n == self.flow_size => Some((2, FIN)),
            (Kind::TcpFlows, _) => Some((1, PUSH_ACK)),
            _ => None,
        };
        let flow = f.clone();
        Some(self.packet(&flow, which, cx))
    }

    fn reset(&mut self) {
        self.count = 0;
        self.first = Timestamp::ZERO;
        self.last = Timestamp::ZERO;
        self.all_fins_sent = false;
    }

    /// The length that is taken for one that is asked for.
    fn allowed_len(len: u32, complain: impl FnOnce(&str)) -> u32 {
        if len < MIN_LEN {
            complain("packet length < 60, defaulting to 60");
        }
        len.clamp(MIN_LEN, MAX_LEN)
    }
}

impl Element for Fast {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let rate: u32 = args.mandatory("RATE").unwrap_or(0);
        let limit: i32 = args.mandatory("LIMIT").unwrap_or(0);
        let len: u32 = args.mandatory("LENGTH").unwrap_or(MIN_LEN);
        self.src.0 = args.mandatory("SRCETH").unwrap_or_default();
        self.src.1 = args.mandatory("SRCIP").unwrap_or(Ipv4Addr::UNSPECIFIED);
        if self.kind == Kind::UdpSource {
            self.src.2 = args.mandatory("SPORT").map_or(0, |IpPort(p)| p);
        }
        self.dst.0 = args.mandatory("DSTETH").unwrap_or_default();
        self.dst.1 = args.mandatory("DSTIP").unwrap_or(Ipv4Addr::UNSPECIFIED);
        if self.kind == Kind::UdpSource {
            self.dst.2 = args.mandatory("DPORT").map_or(0, |IpPort(p)| p);
        } else {
            self.nflows = args.mandatory("FLOWS").unwrap_or(1);
            self.flow_size = args.mandatory("FLOWSIZE").unwrap_or(3);
            if !(1..=MAX_FLOWS).contains(&self.nflows) {
                args.error(format!("FLOWS: expected 1 to {MAX_FLOWS} flows"));
            }
        }
        if self.kind == Kind::TcpFlows {
            if self.flow_size < 3 {
                args.warning("flow size < 3, defaulting to 3");
                self.flow_size = 3;
            }
        } else {
            self.checksum = args.optional("CHECKSUM").unwrap_or(true);
        }
        if self.kind == Kind::UdpSource {
            self.interval = args.optional("INTERVAL").unwrap_or(0);
        }
        self.active = args.optional("ACTIVE").unwrap_or(true);
        if len > MAX_LEN {
            args.error(format!("LENGTH: expected at most {MAX_LEN} bytes"));
        }
        self.len = Self::allowed_len(len, |m| args.warning(m));
        self.rate = (rate != 0).then(|| GapRate::new(rate));
        self.limit = u32::try_from(limit).ok();
        args.finish()
    }

    fn started(&mut self, cx: &mut Cx<'_>) {
        self.start_flows(cx);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("FastUDPSource: makes packets, takes none")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "FastUDPSource: takes no packets");
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let done = match self.kind {
            Kind::TcpFlows => self.at_limit() && self.all_fins_sent,
            _ => self.at_limit(),
        };
        if !self.active || done {
            return None;
        }
        if let Some(rate) = self.rate.as_mut() {
            if !rate.need_update(cx.now) {
                if let Some(at) = rate.expiry(cx.now) {
                    cx.set_timer(0, at);
                }
                return None;
            }
            rate.update(1);
        }
        let p = self.next(cx)?;
        self.count = self.count.saturating_add(1);
        if self.count == 1 {
            self.first = cx.now;
        }
        if self.at_limit() {
            self.last = cx.now;
        }
        if self.interval > 0 && self.count.is_multiple_of(self.interval) {
            let ports = self.fixed_ports(self.count / self.interval);
            if let Some(f) = self.flows.first_mut() {
                f.ports = ports;
            }
        }
        Some(p)
    }

    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        cx.notify_nonempty();
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::rw("rate"),
            HandlerInfo::button("reset"),
            HandlerInfo::w("active"),
            HandlerInfo::w("limit"),
            HandlerInfo::rw("length"),
        ];
        // the last one is only with FastUDPFlows
        match self.kind {
            Kind::UdpFlows => H,
            _ => H.split_last().map_or(H, |(_, rest)| rest),
        }
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "count" => self.count.to_string(),
            // the rate that was reached, once all packets have been sent
            "rate" if !self.last.is_set() => "0".to_string(),
            "rate" => {
                let ms = (self.last.millis() - self.first.millis()).max(1);
                (i64::from(self.count) * 1000 / ms).to_string()
            }
            "length" => self.len.to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let bad = |m: String| HandlerError::BadValue(m);
        match name {
            "rate" => {
                let rate: u32 = value(text)
                    .map_err(|_| bad("rate parameter must be integer >= 0".to_string()))?;
                if rate > MAX_GAP_RATE {
                    return Err(bad(format!("rate too large; max is {MAX_GAP_RATE}")));
                }
                // without a limit from the start there is none later, as in Click
                if let Some(r) = self.rate.as_mut() {
                    r.set_rate(rate, cx.now);
                }
            }
            "reset" => self.reset(),
            "active" => {
                self.active = parse_bool(text)
                    .map_err(|_| bad("active parameter must be boolean".to_string()))?;
                if self.active {
                    self.reset();
                }
            }
            "limit" => {
                let limit: i32 = value(text)
                    .map_err(|_| bad("limit parameter must be integer >= 0".to_string()))?;
                self.limit = u32::try_from(limit).ok();
            }
            "length" => {
                let len: u32 =
                    value(text).map_err(|_| bad("length parameter must be integer".to_string()))?;
                let len = Self::allowed_len(len, |m| cx.chatter(&format!("warning: {m}\n")));
                if len != self.len {
                    self.len = len;
                    self.count = 0;
                    self.start_flows(cx);
                }
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        cx.notify_nonempty();
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn bench(class: &str, config: &str) -> Bench {
        let mut b = Bench::new(class, config, 0, 1).unwrap();
        b.with(|e, cx| e.started(cx));
        b
    }

    /// Are all checksums right?
    fn sound(p: &[u8], proto: u8) -> bool {
        let ip = &p[14..34];
        let (src, dst) = (
            ip[12..16].try_into().unwrap(),
            ip[16..20].try_into().unwrap(),
        );
        let body = &p[34..];
        let pseudo = checksum::pseudo_v4(src, dst, proto, body.len() as u16);
        checksum::internet(ip) == 0 && !checksum::fold(checksum::sum(body, pseudo)) == 0
    }

    #[test]
    fn one_udp_flow() {
        let mut b = bench(
            "FastUDPSource",
            "0, 3, 60, 0:1:2:3:4:5, 1.0.0.1, 1234, 1:1:1:1:1:1, 2.0.0.2, 99, true, 2",
        );
        let all: Vec<Pkt> = std::iter::from_fn(|| b.pull(0)).collect();
        assert_eq!(all.len(), 3);
        let mut want = vec![
            1, 1, 1, 1, 1, 1, 0, 1, 2, 3, 4, 5, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0,
        ];
        want.extend([
            250, 17, 0xc0, 0xba, 1, 0, 0, 1, 2, 0, 0, 2, 4, 210, 0, 99, 0, 26,
        ]);
        assert_eq!(all[0].data()[14..24], want[14..24]);
        assert_eq!(all[0].data()[26..40], want[26..40]);
        assert_eq!(all[0].len(), 60);
        assert_eq!(all[2].data()[34..38], [4, 211, 0, 100]);
        assert!(all.iter().all(|p| sound(p.data(), 17)));
        assert_eq!(all[0].network_header_offset(), Some(14));
        assert_eq!(b.read("count").unwrap(), "3");
        assert_eq!(b.read("rate").unwrap(), "3000");
        b.write("reset", "").unwrap();
        assert!(b.pull(0).is_some());
    }

    #[test]
    fn udp_flows_and_their_rate() {
        let config = "1000, -1, 100, 0:0:0:0:0:0, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 5, 3, true";
        let mut b = bench("FastUDPFlows", config);
        let mut ports = std::collections::HashSet::new();
        let mut n = 0;
        let end = Timestamp::from_secs(2);
        while b.now < end {
            match b.pull(0) {
                Some(p) => {
                    n += 1;
                    assert!(sound(p.data(), 17));
                    ports.insert(p.data()[34..38].to_vec());
                }
                None => {
                    let at = b.host.timers[&0];
                    b.advance_to(at);
                }
            }
        }
        assert!((995..=1005).contains(&n), "{n}");
        // new ports after three packets each
        assert!((300..=340).contains(&ports.len()), "{}", ports.len());
        b.write("length", "64").unwrap();
        assert_eq!(b.read("length").unwrap(), "64");
        assert!(b.write("rate", "4294967295").is_err());
    }

    #[test]
    fn tcp_flows_begin_and_end() {
        let config = "0, 30, 60, 0:0:0:0:0:0, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 2, 5";
        let mut b = bench("FastTCPFlows", config);
        let all: Vec<Pkt> = std::iter::from_fn(|| b.pull(0)).take(100).collect();
        assert!(all.iter().all(|p| sound(p.data(), 6)));
        let flags = |f: u8| all.iter().filter(|p| p.data()[47] == f).count();
        assert!(flags(SYN) >= 6);
        assert_eq!(flags(SYN), flags(FIN));
        assert_eq!(all[0].data()[47], SYN);
        assert!(all.len() <= 32);
    }

    #[test]
    fn wrong_arguments() {
        let e = |c: &str| Bench::new("FastUDPFlows", c, 0, 1).err().unwrap();
        let rest = "0:0:0:0:0:0, 1.0.0.1, 1:1:1:1:1:1, 2.0.0.2";
        assert!(e(&format!("0, 1, 60, {rest}, 0, 3"))[0].starts_with("FLOWS: expected"));
        assert!(e(&format!("0, 1, 70000, {rest}, 1, 3"))[0].starts_with("LENGTH: expected"));
        let b = Bench::new("FastTCPFlows", &format!("0, 1, 50, {rest}, 1, 2"), 0, 1).unwrap();
        assert_eq!(b.warnings.len(), 2);
    }
}
