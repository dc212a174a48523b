//! Packets made of a summary's fields.

use super::field::Field;
use super::input::Read;
use super::view::{has_ports, icmp_has_flow, set_first_timestamp};
use onefold_packet::{Anno, Timestamp, anno_field, checksum};

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;
/// IP header without options.
const IP_LEN: usize = 20;
/// TCP header without options.
const TCP_LEN: usize = 20;
/// Longest header of either kind.
const MAX_HEADER: usize = 60;
/// Default time to live.
const TTL: u8 = 100;

/// Addresses and ports that packets have unless the dump says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// Source address.
    pub src: [u8; 4],
    /// Source port.
    pub sport: u16,
    /// Destination address.
    pub dst: [u8; 4],
    /// Destination port.
    pub dport: u16,
}

/// A packet that is being made.
#[derive(Debug, Clone)]
pub struct Builder {
    /// The bytes so far.
    pub data: Vec<u8>,
    /// Annotations so far.
    pub anno: Anno,
    /// Where the Ethernet header stands, if there is one.
    pub mac: Option<usize>,
    /// Where the IP header stands, if there is one.
    pub network: Option<usize>,
    transport: usize,
    is_ip: bool,
    have_icmp_type: bool,
    have_icmp_code: bool,
    have_ip_header_len: bool,
    have_tcp_header_len: bool,
    default_proto: u8,
    flow: Option<Flow>,
    /// Bytes that the packet is to have in all.
    want_len: u32,
}

impl Builder {
    /// Nothing yet.
    pub fn new(default_proto: u8, flow: Option<Flow>) -> Self {
        Builder {
            data: Vec::with_capacity(64),
            anno: Anno::default(),
            mac: None,
            network: None,
            transport: 0,
            is_ip: true,
            have_icmp_type: false,
            have_icmp_code: false,
            have_ip_header_len: false,
            have_tcp_header_len: false,
            default_proto,
            flow,
            want_len: 0,
        }
    }

    // bytes of the packet; what is written behind its end is lost

    fn u8(&self, at: usize) -> u8 {
        self.data.get(at).copied().unwrap_or(0)
    }
    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.u8(at), self.u8(at + 1)])
    }
    fn set(&mut self, at: usize, bytes: &[u8]) {
        for (i, b) in bytes.iter().enumerate() {
            if let Some(d) = self.data.get_mut(at + i) {
                *d = *b;
            }
        }
    }
    fn put(&mut self, n: usize) {
        self.data.resize(self.data.len() + n, 0);
    }
    /// Makes it at least so long.
    fn reach(&mut self, end: usize) {
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
    }

    fn ip(&self) -> usize {
        self.network.unwrap_or(0)
    }
    fn proto(&self) -> u8 {
        self.u8(self.ip() + 9)
    }
    fn ip_header_len(&self) -> usize {
        usize::from(self.u8(self.ip()) & 15) * 4
    }
    fn set_ip_header_len(&mut self, n: usize) {
        let at = self.ip();
        let v = self.u8(at) & 0xf0 | (n / 4) as u8 & 15;
        self.set(at, &[v]);
    }
    fn tcp_header_len(&self) -> usize {
        usize::from(self.u8(self.transport + 12) >> 4) * 4
    }
    fn set_tcp_header_len(&mut self, n: usize) {
        let at = self.transport + 12;
        let v = self.u8(at) & 15 | ((n / 4) as u8) << 4;
        self.set(at, &[v]);
    }
    fn first_fragment(&self) -> bool {
        self.u16(self.ip() + 6) & 0x1fff == 0
    }
    /// Bytes behind the start of the transport header.
    fn transport_len(&self) -> usize {
        self.data.len().saturating_sub(self.transport)
    }

    /// The IP header; false if the packet has none, or is of another protocol than asked for.
    fn make_ip(&mut self, proto: Option<u8>) -> bool {
        if !self.is_ip {
            return false;
        }
        let at = self.network.unwrap_or(0);
        self.network = Some(at);
        if self.data.len() < at + IP_LEN {
            self.data.resize(at + IP_LEN, 0);
            self.transport = at + IP_LEN;
            self.set(at, &[0x45]);
            self.set(at + 8, &[TTL, self.default_proto]);
            if let Some(f) = self.flow {
                self.set(at + 12, &f.src);
                self.set(at + 16, &f.dst);
            }
        }
        proto.is_none_or(|p| self.proto() == 0 || self.proto() == p)
    }

    /// The transport header, after [`Builder::make_ip`]; false in later fragments.
    fn make_transport(&mut self) -> bool {
        if !self.first_fragment() {
            return false;
        }
        if self.transport_len() >= 8 {
            return true;
        }
        let mut len = match self.proto() {
            TCP => TCP_LEN,
            UDP | UDP_LITE | ICMP => 8,
            DCCP => 12,
            _ => return true,
        };
        let want = self.want_len as usize;
        if want > 0 && want < self.transport + len {
            match want.checked_sub(self.transport) {
                Some(l) => len = l,
                None => return true,
            }
        }
        if self.transport_len() < len {
            // ports are written whatever the length
            self.reach(self.transport + len.max(4));
            if self.proto() == TCP && len >= 13 {
                self.set_tcp_header_len(TCP_LEN);
            }
            if let Some(f) = self.flow {
                let at = self.transport;
                self.set(at, &f.sport.to_be_bytes());
                self.set(at + 2, &f.dport.to_be_bytes());
            }
            self.data.truncate(self.transport + len);
        }
        true
    }

    /// Sets a field.
    pub fn inject(&mut self, field: Field, value: &Read) {
        use Field as F;
        match field {
            F::EthSrc | F::EthDst | F::EthType => self.inject_link(field, value),
            F::Sport | F::Dport => {
                if let Read::Number(n) = value
                    && self.make_ip(None)
                    && self.make_transport()
                    && (self.proto() == 0 || has_ports(self.proto()))
                {
                    let at = self.transport + if field == F::Dport { 2 } else { 0 };
                    self.set(at, &(*n as u16).to_be_bytes());
                }
            }
            F::TcpSeq
            | F::TcpAck
            | F::TcpOff
            | F::TcpFlags
            | F::TcpWindow
            | F::TcpUrp
            | F::TcpOpt
            | F::TcpNtOpt
            | F::TcpSack => self.inject_tcp(field, value),
            F::UdpLen => {
                if let Read::Number(n) = value
                    && self.make_ip(None)
                    && self.make_transport()
                    && matches!(self.proto(), 0 | UDP | UDP_LITE)
                {
                    self.reach(self.transport + 8);
                    self.set(self.transport + 4, &(*n as u16).to_be_bytes());
                }
            }
            F::IcmpType
            | F::IcmpTypeName
            | F::IcmpCode
            | F::IcmpCodeName
            | F::IcmpFlowId
            | F::IcmpSeq
            | F::IcmpNextMtu => {
                if let Read::Number(n) = value {
                    self.inject_icmp(field, *n);
                }
            }
            F::Payload | F::PayloadLen => self.inject_payload(value),
            _ if field.needs_ip() => self.inject_ip(field, value),
            _ => self.inject_anno(field, value),
        }
    }

    fn inject_anno(&mut self, field: Field, value: &Read) {
        use Field as F;
        let a = &mut self.anno;
        let offset = |f: onefold_packet::AnnoField| usize::from(f.offset);
        match (field, value) {
            (F::Timestamp | F::NanoTimestamp, Read::Time(t)) => a.timestamp = *t,
            (F::FirstTimestamp | F::FirstNanoTimestamp, Read::Time(t)) => {
                set_first_timestamp(a.bytes_mut(), *t);
            }
            (F::Sec, Read::Number(n)) => {
                let nanos = Timestamp(i64::from(a.timestamp.subsec_nanos()));
                a.timestamp = Timestamp::from_secs(*n as i64) + nanos;
            }
            (F::Usec, Read::Number(n)) => {
                a.timestamp =
                    Timestamp::from_secs(a.timestamp.sec()) + Timestamp::from_micros(*n as i64);
            }
            (F::Usec1, Read::Number(n)) => {
                a.timestamp = Timestamp::from_micros(i64::try_from(*n).unwrap_or(i64::MAX));
            }
            (F::Count, Read::Number(n)) => {
                a.set_u32(
                    offset(anno_field::EXTRA_PACKETS),
                    n.saturating_sub(1) as u32,
                );
            }
            (F::Link | F::Direction, Read::Number(n)) => a.set_paint(*n as u8),
            (F::Aggregate, Read::Number(n)) => a.set_u32(offset(anno_field::AGGREGATE), *n as u32),
            (F::WireLen, Read::Number(n)) => self.want_len = *n as u32,
            _ => {}
        }
    }

    fn inject_link(&mut self, field: Field, value: &Read) {
        const HEADER: usize = 14;
        const ETHERTYPE_IP: u16 = 0x0800;
        const ETHERTYPE_IP6: u16 = 0x86dd;
        if self.mac.is_none() {
            // link fields come first: the packet is empty
            self.data.splice(0..0, [0; HEADER]);
            self.mac = Some(0);
            self.network = Some(HEADER);
            self.transport += HEADER;
            self.set(12, &ETHERTYPE_IP.to_be_bytes());
        }
        match (field, value) {
            (Field::EthDst, Read::Bytes(a)) => self.set(0, a),
            (Field::EthSrc, Read::Bytes(a)) => self.set(6, a),
            (Field::EthType, Read::Number(n)) => {
                let t = *n as u16;
                self.set(12, &t.to_be_bytes());
                self.is_ip &= t == ETHERTYPE_IP || t == ETHERTYPE_IP6;
            }
            _ => {}
        }
    }

    fn inject_ip(&mut self, field: Field, value: &Read) {
        use Field as F;
        if !self.make_ip(None) {
            return;
        }
        let at = self.ip();
        match value {
            Read::Bytes(a) => match field {
                F::IpSrc => self.set(at + 12, a),
                F::IpDst => self.set(at + 16, a),
                F::IpOpt => self.ip_options(a),
                _ => {}
            },
            Read::Number(n) => {
                let (byte, half) = (*n as u8, (*n as u16).to_be_bytes());
                let tos = self.u8(at + 1);
                match field {
                    F::IpTos => self.set(at + 1, &[byte]),
                    F::IpDscp => self.set(at + 1, &[tos & 3 | byte << 2]),
                    F::IpEcn => self.set(at + 1, &[tos & 0xfc | byte & 3]),
                    F::IpTtl => self.set(at + 8, &[byte]),
                    F::IpFrag | F::IpFragOff => self.set(at + 6, &half),
                    F::IpId => self.set(at + 4, &half),
                    F::IpSum => self.set(at + 10, &half),
                    F::IpProto => self.set(at + 9, &[byte]),
                    F::IpHl => self.force_ip_header_len(usize::from(byte)),
                    F::IpLen => self.want_len = (at as u32).wrapping_add(*n as u32),
                    _ => {}
                }
            }
            Read::Time(_) => {}
        }
    }

    fn ip_options(&mut self, options: &[u8]) {
        self.have_ip_header_len = true;
        let len = (IP_LEN + options.len() + 3) & !3;
        if options.is_empty() || len > MAX_HEADER {
            return;
        }
        let at = self.ip();
        self.reach(at + len);
        if len > self.ip_header_len() {
            self.set_ip_header_len(len);
            self.transport = at + len;
        }
        self.set(at + IP_LEN, options);
        let padding = vec![0; len - IP_LEN - options.len()];
        self.set(at + IP_LEN + options.len(), &padding);
    }

    fn force_ip_header_len(&mut self, len: usize) {
        self.have_ip_header_len = true;
        let len = (len + 3) & !3;
        let have = self.ip_header_len();
        if len > have {
            self.put(len - have);
            self.transport = self.ip() + len;
        }
        self.set_ip_header_len(len);
    }

    fn inject_tcp(&mut self, field: Field, value: &Read) {
        use Field as F;
        if !self.make_ip(Some(TCP)) || !self.make_transport() {
            return;
        }
        let at = self.transport;
        match (field, value) {
            (F::TcpSeq, Read::Number(n)) => self.set(at + 4, &(*n as u32).to_be_bytes()),
            (F::TcpAck, Read::Number(n)) => self.set(at + 8, &(*n as u32).to_be_bytes()),
            (F::TcpFlags, Read::Number(n)) => {
                let high = self.u8(at + 12) & 0xf0 | (*n >> 8) as u8 & 15;
                self.set(at + 12, &[high, *n as u8]);
            }
            (F::TcpOff, Read::Number(n)) => {
                let len = (usize::from(*n as u8) + 3) & !3;
                let have = self.tcp_header_len();
                if len > have {
                    self.put(len - have);
                }
                self.set_tcp_header_len(len);
            }
            (F::TcpWindow, Read::Number(n)) => self.set(at + 14, &(*n as u16).to_be_bytes()),
            (F::TcpUrp, Read::Number(n)) => self.set(at + 18, &(*n as u16).to_be_bytes()),
            (F::TcpOpt | F::TcpNtOpt | F::TcpSack, Read::Bytes(options)) => {
                self.have_tcp_header_len = true;
                let len = (TCP_LEN + options.len() + 3) & !3;
                if options.is_empty() || len > MAX_HEADER {
                    return;
                }
                self.reach(at + len);
                if len > self.tcp_header_len() {
                    self.set_tcp_header_len(len);
                }
                self.set(at + TCP_LEN, options);
                let padding = vec![0; len - TCP_LEN - options.len()];
                self.set(at + TCP_LEN + options.len(), &padding);
            }
            _ => {}
        }
    }

    /// The ICMP type, if it was given.
    pub fn icmp_type(&self) -> Option<u8> {
        self.have_icmp_type.then(|| self.u8(self.transport))
    }

    fn inject_icmp(&mut self, field: Field, n: u64) {
        use Field as F;
        const UNREACHABLE: u8 = 3;
        const NEED_FRAGMENT: u8 = 4;
        const TIMESTAMP_LEN: usize = 20;
        if !self.make_ip(Some(ICMP)) || !self.make_transport() {
            return;
        }
        let at = self.transport;
        self.reach(at + 8);
        let (kind, code) = (self.u8(at), self.u8(at + 1));
        let flow = !self.have_icmp_type || icmp_has_flow(kind);
        let mtu = (!self.have_icmp_type || kind == UNREACHABLE)
            && (!self.have_icmp_code || code == NEED_FRAGMENT);
        let half = (n as u16).to_be_bytes();
        match field {
            F::IcmpType | F::IcmpTypeName => {
                self.set(at, &[n as u8]);
                self.have_icmp_type = true;
                if matches!(n, 13 | 14) {
                    self.reach(at + TIMESTAMP_LEN);
                }
            }
            F::IcmpCode | F::IcmpCodeName => {
                self.set(at + 1, &[n as u8]);
                self.have_icmp_code = true;
            }
            F::IcmpFlowId if flow => self.set(at + 4, &half),
            F::IcmpSeq if flow => self.set(at + 6, &half),
            F::IcmpNextMtu if mtu => self.set(at + 6, &half),
            _ => {}
        }
    }

    fn inject_payload(&mut self, value: &Read) {
        if self.make_ip(None) {
            // a later fragment has no transport header
            let _ = self.make_transport();
        }
        let at = self.payload_offset();
        match value {
            Read::Bytes(b) if !b.is_empty() => {
                self.payload_len(at, b.len() as u64);
                // the headers may have grown, but the payload stands where it would have stood
                self.reach(at + b.len());
                self.set(at, b);
            }
            Read::Number(n) => self.payload_len(at, *n),
            _ => {}
        }
    }

    fn payload_offset(&self) -> usize {
        if !self.is_ip {
            return 0;
        }
        let mut at = self.transport;
        if self.first_fragment() {
            at += match self.proto() {
                TCP if self.transport_len() >= 13 => self.tcp_header_len().max(TCP_LEN),
                TCP => TCP_LEN,
                UDP | UDP_LITE => 8,
                _ => 0,
            };
        }
        at
    }

    /// The payload has `len` bytes from `at` on. If the packet is longer, by what the dump says, then its headers must
    /// have options that the dump does not show.
    fn payload_len(&mut self, at: usize, len: u64) {
        let end = at as u64 + len;
        if !self.is_ip || self.want_len == 0 {
            self.want_len = u32::try_from(end).unwrap_or(u32::MAX);
            return;
        }
        let total = u64::from(self.want_len) + self.ip() as u64;
        let Some(mut over) = total.checked_sub(end).filter(|d| *d > 0) else {
            return;
        };
        let options =
            |over: u64, header: usize| (over - over % 4).min((MAX_HEADER - header) as u64) as usize;
        if self.first_fragment()
            && self.proto() == TCP
            && !self.have_tcp_header_len
            && self.tcp_header_len() == TCP_LEN
        {
            let more = options(over, TCP_LEN);
            self.insert(self.transport + TCP_LEN, more);
            self.set_tcp_header_len(TCP_LEN + more);
            over -= more as u64;
        }
        if over > 0 && !self.have_ip_header_len && self.ip_header_len() == IP_LEN {
            let more = options(over, IP_LEN);
            self.insert(self.ip() + IP_LEN, more);
            self.set_ip_header_len(IP_LEN + more);
            self.transport = self.ip() + IP_LEN + more;
        }
    }

    /// Inserts zero bytes.
    fn insert(&mut self, at: usize, n: usize) {
        self.reach(at);
        self.data.splice(at..at, std::iter::repeat_n(0, n));
    }

    /// Everything is set: completes headers and lengths. `checksums`: with checksums and all bytes that the IP length
    /// says.
    pub fn finish(&mut self, checksums: bool) {
        if self.flow.is_some() {
            self.make_ip(None);
        }
        if self.is_ip && self.network.is_some_and(|n| self.data.len() >= n + IP_LEN) {
            self.finish_ip(checksums);
        }
        let missing = self.want_len.saturating_sub(self.data.len() as u32);
        if missing > 0 {
            let at = usize::from(anno_field::EXTRA_LENGTH.offset);
            self.anno.set_u32(at, missing);
        }
    }

    fn finish_ip(&mut self, checksums: bool) {
        self.make_transport();
        let at = self.ip();
        let mut len = u32::from(self.u16(at + 2));
        if len == 0 {
            let behind_link = self.want_len.checked_sub(at as u32);
            len = match behind_link.unwrap_or(self.want_len) {
                0 => (self.data.len() - at).min(0xffff) as u32,
                n => n.min(0xffff),
            };
            self.set(at + 2, &(len as u16).to_be_bytes());
        }
        if self.proto() == UDP && self.first_fragment() && self.u16(self.transport + 4) == 0 {
            let udp = len.saturating_sub((self.transport - at) as u32) as u16;
            self.set(self.transport + 4, &udp.to_be_bytes());
        }
        let dst = [
            self.u8(at + 16),
            self.u8(at + 17),
            self.u8(at + 18),
            self.u8(at + 19),
        ];
        self.anno.set_dst_ip(dst);
        if checksums {
            self.reach(at + len as usize);
            self.checksums(dst);
        }
    }

    fn checksums(&mut self, dst: [u8; 4]) {
        let at = self.ip();
        self.set(at + 10, &[0, 0]);
        let header = self.data.get(at..at + self.ip_header_len());
        let sum = header.map_or(0, checksum::internet);
        self.set(at + 10, &sum.to_be_bytes());
        if self.u16(at + 6) & 0x3fff != 0 {
            return;
        }
        let field = match self.proto() {
            TCP => 16,
            UDP => 6,
            ICMP => 2,
            _ => return,
        };
        self.set(self.transport + field, &[0, 0]);
        let body = self.data.get(self.transport..).unwrap_or_default();
        let sum = match self.proto() {
            ICMP => checksum::internet(body),
            proto => {
                let src = [
                    self.u8(at + 12),
                    self.u8(at + 13),
                    self.u8(at + 14),
                    self.u8(at + 15),
                ];
                let dst = self.final_destination().unwrap_or(dst);
                let pseudo = checksum::pseudo_v4(src, dst, proto, body.len() as u16);
                !checksum::fold(checksum::sum(body, pseudo))
            }
        };
        self.set(self.transport + field, &sum.to_be_bytes());
    }

    /// The last address of a source route, which checksums are computed with.
    fn final_destination(&self) -> Option<[u8; 4]> {
        let at = self.ip();
        let mut o = self.data.get(at + IP_LEN..at + self.ip_header_len())?;
        loop {
            match *o.first()? {
                0 => return None,
                1 => o = o.get(1..)?,
                kind => {
                    let len = usize::from(*o.get(1)?).max(2);
                    let (option, rest) = o.split_at_checked(len)?;
                    if matches!(kind, 131 | 137) && len >= 7 {
                        return option.last_chunk::<4>().copied();
                    }
                    o = rest;
                }
            }
        }
    }

    /// Where header annotations point: IP header and its length, if there is one.
    pub fn ip_header(&self) -> Option<(usize, usize)> {
        let at = self.network.filter(|_| self.is_ip)?;
        (self.data.len() >= at + IP_LEN).then(|| (at, self.transport - at))
    }
}
