//! Pings: ICMPPingResponder answers them, ICMPPingSource sends them (RFC 792).

use super::options::store_checksum;
use crate::ip4;
use onefold_element::args::{Args, Data, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx, Read, field};
use onefold_element::{
    Batching, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, InitCx, Port,
    TimerId, element_any,
};
use onefold_packet::wire::icmp::kind;
use onefold_packet::wire::ipv4::proto;
use onefold_packet::{Pkt, Timestamp, checksum};
use std::net::Ipv4Addr;

/// `ICMPPingResponder`.
pub const ICMP_PING_RESPONDER: ElementClass = ElementClass {
    name: "ICMPPingResponder",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "[keyword CHECKSUM]",
    summary: "turns ICMP echo requests into replies",
    new: || Box::new(IcmpPingResponder::default()),
};

/// As Click; with CHECKSUM (ours), messages whose checksum is wrong are no requests.
#[derive(Debug, Clone, Default)]
struct IcmpPingResponder {
    checksum: bool,
}

const NO_ECHO: DropReason = "ICMPPingResponder: no echo request";

impl Element for IcmpPingResponder {
    fn batching(&self, _: Batching) -> Batching {
        Batching::AnyOrder
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.checksum = args.keyword("CHECKSUM").unwrap_or(false);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let icmp = ip4::header(&p).is_some_and(|h| h.protocol() == proto::ICMP);
        let sound = |t: &[u8]| !self.checksum || checksum::internet(t) == 0;
        let echo = |t: &[u8]| t.len() >= 8 && t.first() == Some(&kind::ECHO) && sound(t);
        if !icmp || !p.transport().is_some_and(echo) {
            return cx.emit_or_drop(1, p, NO_ECHO);
        }
        let Some(mut h) = ip4::header_mut(&mut p) else {
            return cx.drop(p, NO_ECHO);
        };
        let (src, dst) = (h.src(), h.dst());
        h.set_src(dst);
        h.set_dst(src);
        h.set_checksum(checksum::update(h.checksum(), h.frag_word(), 0));
        h.set_frag_word(0);
        let word = |ttl: u8, proto: u8| u16::from_be_bytes([ttl, proto]);
        let (old, new) = (word(h.ttl(), proto::ICMP), word(255, proto::ICMP));
        h.set_ttl(255);
        h.set_checksum(checksum::update(h.checksum(), old, new));
        p.anno.set_dst_ip(src);
        p.anno.timestamp = cx.now;
        p.anno.set_paint(0);
        if let Some(t) = p.transport_mut()
            && let [kind, code, hi, lo, ..] = t
        {
            let old = u16::from_be_bytes([*kind, *code]);
            [*kind, *code] = [kind::ECHO_REPLY, 0];
            let sum = checksum::update(u16::from_be_bytes([*hi, *lo]), old, 0);
            [*hi, *lo] = sum.to_be_bytes();
            // a message of nothing but zeros has checksum 0xffff, which the update cannot tell from 0
            if sum == 0
                && t.iter().all(|b| *b == 0)
                && let [_, _, hi, lo, ..] = t
            {
                [*hi, *lo] = [0xff, 0xff];
            }
        }
        cx.emit(0, p);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let other = || Exit::PortOrDrop(1, NO_ECHO);
        let mut cases = Vec::from(ip4::unless_header(other()));
        let icmp = u128::from(proto::ICMP);
        cases.push(Case::new(
            Cond::between(field::IP_PROTO, 0, icmp - 1),
            other(),
        ));
        cases.push(Case::new(
            Cond::between(field::IP_PROTO, icmp + 1, 255),
            other(),
        ));
        let lengths = [(0, 4), (6, 15)];
        for (lo, hi) in lengths {
            let odd = Cond::between(field::IP_IHL, lo, hi);
            cases.push(Case::new(odd, Exit::Punt("IP options")));
        }
        cases.push(Case::new(Cond::less(Read::TransportLen, 8), other()));
        let echo = Cond::eq(field::ICMP_TYPE, kind::ECHO.into());
        cases.push(Case::new(echo, Exit::Punt("answers an echo request")));
        cases.push(Case::new(Cond::Always, other()));
        Model::Cases(cases)
    }
    element_any!();
}

macro_rules! ping_source {
    ($konst:ident, $name:literal) => {
        /// `ICMPPingSource`, under both of its names.
        pub const $konst: ElementClass = ElementClass {
            name: $name,
            ports: "0-1/1",
            processing: "h/a",
            flow: "x/x",
            effect: Effect::Originating,
            usage: "SRC, DST [, keywords INTERVAL, IDENTIFIER, LIMIT, DATA, ACTIVE, VERBOSE, STOP, MIRROR]",
            summary: "sends ICMP echo requests, measures the replies",
            new: || Box::new(IcmpPingSource::default()),
        };
    };
}
ping_source!(ICMP_PING_SOURCE, "ICMPPingSource");
ping_source!(ICMP_SEND_PINGS, "ICMPSendPings");

/// Times and counts of the replies. Sending times by sequence number; zero: none sent, negative: answered.
#[derive(Debug, Clone)]
struct Receiver {
    received: i64,
    duplicates: i64,
    min: u64,
    max: u64,
    sum: u64,
    squares: u128,
    sent: Vec<i64>,
}

impl Receiver {
    fn new() -> Self {
        Receiver {
            received: 0,
            duplicates: 0,
            min: 0,
            max: 0,
            sum: 0,
            squares: 0,
            sent: vec![0; 1 << 16],
        }
    }
    fn average(&self) -> u64 {
        self.sum / self.received.max(1) as u64
    }
}

/// As Click; an interval below a millisecond counts as one, because a simulated clock would stand still.
#[derive(Debug, Clone)]
struct IcmpPingSource {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    id: u16,
    data: Vec<u8>,
    limit: i32,
    count: i32,
    interval: i64,
    active: bool,
    verbose: bool,
    stop: bool,
    mirror: bool,
    pulled: bool,
    scheduled: bool,
    receiver: Option<Receiver>,
}

impl Default for IcmpPingSource {
    fn default() -> Self {
        IcmpPingSource {
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            id: 0,
            data: Vec::new(),
            limit: -1,
            count: 0,
            interval: 1000,
            active: true,
            verbose: true,
            stop: false,
            mirror: false,
            pulled: false,
            scheduled: false,
            receiver: None,
        }
    }
}

const TIMER: TimerId = 0;

/// `0.0015s`, `12us`, `0s`.
fn show_micros(us: u64) -> String {
    if us > 0 && us < 1000 {
        return format!("{us}us");
    }
    let s = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    format!("{}s", s.trim_end_matches('0').trim_end_matches('.'))
}

fn millis(Seconds(t): Seconds) -> i64 {
    (t.nanos() + 500_000) / 1_000_000
}

impl IcmpPingSource {
    fn left(&self) -> bool {
        self.limit < 0 || self.count < self.limit
    }

    /// Makes `p`, whose ICMP data stands behind 28 bytes, the next request.
    fn fill(&mut self, p: &mut Pkt, cx: &mut Cx<'_>) {
        let total = p.len();
        let sequence = (self.count % 0xffff + 1) as u16;
        let b = p.data_mut();
        let Some((head, data)) = b.split_at_mut_checked(28) else {
            return;
        };
        head.fill(0);
        head[0] = 0x45;
        head[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        head[4..6].copy_from_slice(&sequence.to_be_bytes());
        head[8..10].copy_from_slice(&[200, proto::ICMP]);
        head[12..16].copy_from_slice(&self.src.octets());
        head[16..20].copy_from_slice(&self.dst.octets());
        store_checksum(head, 20);
        head[20] = kind::ECHO;
        // the identifier in little-endian order, as Click sends it
        head[24..26].copy_from_slice(&self.id.to_le_bytes());
        head[26..28].copy_from_slice(&sequence.to_be_bytes());
        // as in Click, the checksum covers as much data as DATA has, even for a mirrored packet
        let covered = &data[..data.len().min(self.data.len())];
        let sum = !checksum::fold(checksum::sum(covered, checksum::sum(&head[20..], 0)));
        head[22..24].copy_from_slice(&sum.to_be_bytes());
        p.set_network_header(0, 20);
        p.anno.set_dst_ip(self.dst.octets());
        p.anno.timestamp = cx.now;
        if let Some(sent) = self
            .receiver
            .as_mut()
            .and_then(|r| r.sent.get_mut(usize::from(sequence)))
        {
            *sent = cx.now.nanos();
        }
    }

    fn request(&mut self, cx: &mut Cx<'_>) -> Pkt {
        let mut p = cx.make(&[]);
        p.put(28);
        let at = p.len();
        p.put(self.data.len());
        if let Some(d) = p.data_mut().get_mut(at..) {
            d.copy_from_slice(&self.data);
        }
        self.fill(&mut p, cx);
        self.count = self.count.wrapping_add(1);
        p
    }

    fn schedule(&mut self, after_ms: i64, cx: &mut Cx<'_>) {
        self.scheduled = true;
        cx.set_timer_after(TIMER, Timestamp::from_millis(after_ms));
    }

    fn summary(&self) -> String {
        let Some(r) = &self.receiver else {
            return String::new();
        };
        let count = i64::from(self.count);
        let mut s = format!(
            "{count} packets transmitted, {} received",
            r.received - r.duplicates
        );
        if r.duplicates > 0 {
            s += &format!(", +{} duplicates", r.duplicates);
        }
        if count > 0 {
            let lost = (count - r.received - r.duplicates) * 100 / count;
            s += &format!(", {lost}% packet loss\n");
        }
        if r.received > 0 {
            let mean_square = r.squares / r.received as u128;
            let avg = u128::from(r.average());
            let deviation = mean_square.saturating_sub(avg * avg).isqrt() as u64;
            let ms = |us: u64| format!("{}.{:03}", us / 1000, us % 1000);
            s += &format!(
                "rtt min/avg/max/mdev = {}/{}/{}/{}\n",
                ms(r.min),
                ms(r.average()),
                ms(r.max),
                ms(deviation)
            );
        }
        s
    }

    /// Counts a reply; what is to be said about it.
    fn reply(&mut self, p: &Pkt) -> Option<String> {
        let h = ip4::header(p)?;
        let t = p.transport()?;
        let sequence = u16::from_be_bytes([*t.get(6)?, *t.get(7)?]);
        let r = self.receiver.as_mut()?;
        let sent = r.sent.get_mut(usize::from(sequence))?;
        if *sent == 0 {
            return None;
        }
        if *sent < 0 {
            r.duplicates += 1;
            *sent = -*sent;
        }
        let mut took = 0;
        if p.anno.timestamp.is_set() {
            took = ((p.anno.timestamp.nanos() - *sent) / 1000).max(0) as u64;
            if took < r.min || r.received == 0 {
                r.min = took;
            }
            r.max = r.max.max(took);
            r.sum += took;
            r.squares += u128::from(took) * u128::from(took);
        }
        r.received += 1;
        *sent = -*sent;
        let bytes = i64::from(h.total_len()) - h.header_len() as i64 - 8;
        Some(format!(
            "{bytes} bytes from {}: icmp_seq={sequence} ttl={} time={}.{:03} ms",
            Ipv4Addr::from(h.src()),
            h.ttl(),
            took / 1000,
            took % 1000
        ))
    }
}

impl Element for IcmpPingSource {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.src = args.mandatory("SRC").unwrap_or(self.src);
        self.dst = args.mandatory("DST").unwrap_or(self.dst);
        self.interval = args.keyword("INTERVAL").map_or(1000, millis);
        self.id = args.keyword("IDENTIFIER").unwrap_or(0);
        self.data = args.keyword("DATA").map_or(Vec::new(), |Data(d)| d);
        self.limit = args.keyword("LIMIT").unwrap_or(-1);
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        self.verbose = args.keyword("VERBOSE").unwrap_or(true);
        self.stop = args.keyword("STOP").unwrap_or(false);
        self.mirror = args.keyword("MIRROR").unwrap_or(false);
        if self.data.len() > 0xffff - 28 {
            args.error(format!("DATA: longer than {} bytes", 0xffff - 28));
        }
        if cx.ninputs > 0 {
            self.receiver = Some(Receiver::new());
        }
        if self.interval == 0 {
            args.warning("INTERVAL so small that it is zero");
        }
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.pulled = cx.output_is_pull(0);
        self.scheduled = !self.pulled && self.active && self.limit != 0;
        if self.pulled && self.mirror {
            return Err(vec![onefold_element::ConfigError::new(
                "MIRROR: not with a pull output",
            )]);
        }
        Ok(())
    }

    fn initial_timers(&self) -> Vec<(TimerId, Timestamp)> {
        match self.scheduled {
            true => vec![(TIMER, Timestamp::from_millis(self.interval.max(1)))],
            false => Vec::new(),
        }
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("reads replies to its own requests")
    }
    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        self.scheduled = false;
        if self.left() {
            let p = self.request(cx);
            cx.emit(0, p);
            self.schedule(self.interval.max(1), cx);
        } else if self.stop {
            cx.host.stop();
        }
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        if self.left() {
            return Some(self.request(cx));
        }
        if self.stop {
            self.stop = false;
            cx.host.stop();
        }
        None
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let icmp = ip4::header(&p).is_some_and(|h| h.protocol() == proto::ICMP);
        let id = self.id.to_le_bytes();
        let ours = |t: &[u8]| t.len() >= 8 && t[0] == kind::ECHO_REPLY && t[4..6] == id;
        if !icmp || !p.transport().is_some_and(ours) {
            return cx.drop(p, "ICMPPingSource: no reply to its requests");
        }
        if let Some(text) = self.reply(&p)
            && self.verbose
        {
            let name = cx.host.element_name(cx.elem);
            cx.chatter(&format!("{name} :: ICMPPingSource: {text}\n"));
        }
        if !self.mirror {
            return cx.drop(p, "ICMPPingSource: reply");
        }
        let skip = p.network_header_offset().unwrap_or(0).max(0) as usize;
        p.pull(skip);
        if p.len() < 28 {
            return cx.drop(p, "ICMPPingSource: reply");
        }
        self.fill(&mut p, cx);
        self.count = self.count.wrapping_add(1);
        cx.emit(0, p);
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if self.receiver.is_some() && self.verbose {
            let name = cx.host.element_name(cx.elem);
            let text = self.summary();
            cx.chatter(&format!("{name} :: ICMPPingSource: {}\n", text.trim_end()));
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("active"),
            HandlerInfo::rw("src"),
            HandlerInfo::rw("dst"),
            HandlerInfo::r("count"),
            HandlerInfo::w("limit"),
            HandlerInfo::w("interval"),
            HandlerInfo::button("reset_counts").counts(),
            HandlerInfo::r("summary"),
            HandlerInfo::r("rtt_min"),
            HandlerInfo::r("rtt_avg"),
            HandlerInfo::r("rtt_max"),
        ];
        match self.receiver {
            Some(_) => H,
            None => &H[..7],
        }
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        let missing = || HandlerError::NoSuchHandler(name.to_string());
        Ok(match name {
            "active" => self.active.to_string(),
            "src" => self.src.to_string(),
            "dst" => self.dst.to_string(),
            "count" => self.count.to_string(),
            _ => {
                let r = self.receiver.as_ref().ok_or_else(missing)?;
                match name {
                    "summary" => self.summary(),
                    "rtt_min" => show_micros(r.min),
                    "rtt_avg" => show_micros(r.average()),
                    "rtt_max" => show_micros(r.max),
                    _ => return Err(missing()),
                }
            }
        })
    }

    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let bad = |m: &str| HandlerError::BadValue(m.to_string());
        let mut wake = None;
        match name {
            "active" => {
                self.active = parse_bool(value)?;
                if !self.active {
                    self.scheduled = false;
                    cx.clear_timer(TIMER);
                }
                wake = Some(0);
            }
            "src" => self.src = cx.value(name, value)?,
            "dst" => self.dst = cx.value(name, value)?,
            "limit" => {
                let limit = value.trim().parse();
                self.limit = limit.map_err(|_| bad("'limit' should be integer"))?;
                wake = self.left().then_some(self.interval.max(1));
            }
            "interval" => {
                let v = cx.value::<Seconds>(name, value);
                self.interval = millis(v.map_err(|_| bad("'interval' should be an interval"))?);
            }
            "reset_counts" => {
                self.count = 0;
                if self.receiver.is_some() {
                    self.receiver = Some(Receiver::new());
                }
                wake = (self.count < self.limit).then_some(self.interval.max(1));
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        if let Some(after) = wake
            && self.active
            && !self.scheduled
            && !self.pulled
        {
            self.schedule(after, cx);
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::routing::testpkt::*;
    use crate::testing::{Bench, Setup};
    use onefold_packet::{Timestamp, checksum};

    fn echo(data: &[u8]) -> Vec<u8> {
        let mut m = vec![8, 0, 0, 0, 1, 2, 0, 9];
        m.extend_from_slice(data);
        let sum = checksum::internet(&m).to_be_bytes();
        m[2..4].copy_from_slice(&sum);
        ip(A, B, 1, &[], &m)
    }

    #[test]
    fn responder_turns_requests_round() {
        let mut b = Bench::new("ICMPPingResponder", "", 1, 2).unwrap();
        let mut d = echo(b"hello");
        d[6] = 0x40;
        fix(&mut d);
        let mut p = marked(&d);
        p.anno.set_paint(3);
        let out = b.push_packet(0, p);
        let q = &out[0].1;
        assert_eq!(out[0].0, 0);
        assert_eq!((&q.data()[12..16], &q.data()[16..20]), (&B[..], &A[..]));
        assert_eq!((q.data()[6], q.data()[8]), (0, 255));
        assert!(sound(q.data()));
        assert_eq!(q.data()[20..22], [0, 0]);
        assert_eq!(checksum::internet(&q.data()[20..]), 0);
        assert_eq!((q.anno.dst_ip(), q.anno.paint()), (A, 0));
        assert_eq!(q.anno.timestamp, b.now);
        assert_eq!(
            b.push_packet(0, marked(&ip(A, B, 17, &[], &[8; 8])))[0].0,
            1
        );
        assert_eq!(b.push_packet(0, marked(&echo(&[])[..27]))[0].0, 1);
        assert_eq!(b.push(0, &d)[0].0, 1);
    }

    #[test]
    fn responder_may_check_the_checksum() {
        let mut wrong = echo(b"hello");
        wrong[30] ^= 1;
        for (config, port) in [("", 0), ("CHECKSUM true", 1)] {
            let mut b = Bench::new("ICMPPingResponder", config, 1, 2).unwrap();
            assert_eq!(b.push_packet(0, marked(&wrong))[0].0, port, "{config}");
            assert_eq!(b.push_packet(0, marked(&echo(b"hello")))[0].0, 0);
        }
        assert!(Bench::new("ICMPPingResponder", "CHECKSUM x", 1, 1).is_err());
    }

    /// A reply of nothing but zeros must carry checksum 0xffff.
    #[test]
    fn responder_zero_message() {
        let mut b = Bench::new("ICMPPingResponder", "", 1, 1).unwrap();
        let d = ip(A, B, 1, &[], &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
        let out = b.push_packet(0, marked(&d));
        assert_eq!(out[0].1.data()[20..], [0, 0, 0xff, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    fn source_sends_and_measures() {
        let c = "1.0.0.1, 1.0.0.2, INTERVAL 0.5, IDENTIFIER 258, LIMIT 3, DATA xyz, STOP true";
        let mut b = Bench::new("ICMPPingSource", c, 1, 1).unwrap();
        b.now = Timestamp::from_secs(10);
        for (t, at) in b.element.initial_timers() {
            b.host.timers.insert(t, b.now + at);
        }
        let out = b.advance_to(Timestamp::from_millis(10_999));
        assert_eq!(out.len(), 1);
        let q = &out[0].1;
        let mut want = vec![
            0x45, 0, 0, 31, 0, 1, 0, 0, 200, 1, 0, 0, 1, 0, 0, 1, 1, 0, 0, 2,
        ];
        fix(&mut want);
        want.extend_from_slice(&[8, 0, 0, 0, 2, 1, 0, 1, b'x', b'y', b'z']);
        let sum = checksum::internet(&want[20..]).to_be_bytes();
        want[22..24].copy_from_slice(&sum);
        assert_eq!(q.data(), want);
        assert_eq!(q.anno.dst_ip(), [1, 0, 0, 2]);
        // a reply 12.3 ms later, twice
        let mut r = ip(
            [1, 0, 0, 2],
            [1, 0, 0, 1],
            1,
            &[],
            &[0, 0, 0, 0, 2, 1, 0, 1],
        );
        for _ in 0..2 {
            let mut p = marked(&r);
            p.anno.timestamp = Timestamp::from_micros(10_512_300);
            assert!(b.push_packet(0, p).is_empty());
        }
        assert!(
            b.host
                .log
                .contains("0 bytes from 1.0.0.2: icmp_seq=1 ttl=64 time=12.300 ms")
        );
        r[24] = 9;
        b.push_packet(0, marked(&r));
        assert_eq!(b.drops()["ICMPPingSource: no reply to its requests"], 1);
        assert_eq!(b.read("rtt_min").unwrap(), "0.0123s");
        assert_eq!(b.advance_to(Timestamp::from_secs(20)).len(), 2);
        assert_eq!(b.read("count").unwrap(), "3");
        assert!(b.host.stopped);
        assert_eq!(
            b.read("summary").unwrap(),
            "3 packets transmitted, 1 received, +1 duplicates, 0% packet loss\n\
             rtt min/avg/max/mdev = 12.300/12.300/12.300/0.000\n"
        );
        b.write("reset_counts", "").unwrap();
        assert_eq!(b.advance_to(Timestamp::from_secs(30)).len(), 3);
    }

    #[test]
    fn source_may_be_pulled() {
        let setup = Setup {
            noutputs: 1,
            pull: true,
            ..Setup::default()
        };
        let names = onefold_element::NameDb::builtin();
        let mut b =
            Bench::with_setup("ICMPPingSource", "1.0.0.1, 1.0.0.2, LIMIT 2", setup, names).unwrap();
        assert!(b.element.initial_timers().is_empty());
        assert!(b.pull(0).is_some() && b.pull(0).is_some() && b.pull(0).is_none());
        assert!(Bench::new("ICMPPingSource", "1.0.0.1", 0, 1).is_err());
        assert!(b.read("summary").is_err(), "only with an input");
    }
}
