//! The fields of a summary.

/// How a field stands in a binary record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// Not at all.
    Never,
    /// A number of so many bytes.
    Number(usize),
    /// An address of so many bytes.
    Address(usize),
    /// Seconds, then microseconds.
    Micros,
    /// Nanoseconds, then seconds.
    Nanos,
    /// A digest.
    Digest,
    /// A length byte, then as many bytes.
    Counted,
}

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // their documented names are in the table below
pub enum Field {
    Timestamp,
    NanoTimestamp,
    Sec,
    Usec,
    Usec1,
    FirstTimestamp,
    FirstNanoTimestamp,
    Count,
    Link,
    Direction,
    Aggregate,
    WireLen,
    EthSrc,
    EthDst,
    EthType,
    IpSrc,
    IpDst,
    IpTos,
    IpDscp,
    IpEcn,
    IpTtl,
    IpFrag,
    IpFragOff,
    IpId,
    IpSum,
    IpProto,
    IpHl,
    IpLen,
    IpCaptureLen,
    IpOpt,
    Sport,
    Dport,
    TcpSeq,
    TcpAck,
    TcpOff,
    TcpFlags,
    TcpWindow,
    TcpUrp,
    TcpOpt,
    TcpNtOpt,
    TcpSack,
    UdpLen,
    IcmpType,
    IcmpCode,
    IcmpTypeName,
    IcmpCodeName,
    IcmpFlowId,
    IcmpSeq,
    IcmpNextMtu,
    PayloadLen,
    Payload,
    PayloadMd5,
    PayloadMd5Hex,
    /// A field of an input that is not understood.
    Ignored,
}

/// What is known about a field.
#[derive(Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name.
    pub name: &'static str,
    /// The field.
    pub field: Field,
    /// Its binary form.
    pub binary: Binary,
    /// When it is set in a packet that is made: lower first; `None` if it cannot be.
    pub order: Option<u16>,
}

const fn f(name: &'static str, field: Field, binary: Binary, order: u16) -> Info {
    Info {
        name,
        field,
        binary,
        order: Some(order),
    }
}

/// For a field of an input that is not understood.
pub const IGNORED: &Info = &Info {
    name: "none",
    field: Field::Ignored,
    binary: Binary::Number(0),
    order: None,
};

const ANNO: u16 = 100;
const LINK: u16 = 200;
const NET: u16 = 300;
const TRANSPORT: u16 = 400;
const PAYLOAD: u16 = 500;

#[rustfmt::skip]
const FIELDS: &[Info] = &{
    use Binary::{Address, Counted, Digest, Micros, Nanos, Never, Number};
    use Field as F;
    [
        f("timestamp", F::Timestamp, Micros, ANNO),
        f("ntimestamp", F::NanoTimestamp, Nanos, ANNO),
        f("ts_sec", F::Sec, Number(4), ANNO),
        f("ts_usec", F::Usec, Number(4), ANNO),
        f("ts_usec1", F::Usec1, Number(8), ANNO),
        f("first_timestamp", F::FirstTimestamp, Micros, ANNO),
        f("first_ntimestamp", F::FirstNanoTimestamp, Nanos, ANNO),
        f("count", F::Count, Number(4), ANNO),
        f("link", F::Link, Number(1), ANNO),
        f("paint", F::Link, Number(1), ANNO),
        f("direction", F::Direction, Number(1), ANNO),
        f("aggregate", F::Aggregate, Number(4), ANNO),
        f("wire_len", F::WireLen, Number(4), ANNO),
        f("eth_src", F::EthSrc, Address(6), LINK),
        f("eth_dst", F::EthDst, Address(6), LINK),
        f("eth_type", F::EthType, Number(2), LINK),
        f("ip_src", F::IpSrc, Address(4), NET),
        f("ip_dst", F::IpDst, Address(4), NET),
        f("ip_tos", F::IpTos, Number(1), NET),
        f("ip_dscp", F::IpDscp, Number(1), NET),
        f("ip_ecn", F::IpEcn, Number(1), NET),
        f("ip_ttl", F::IpTtl, Number(1), NET),
        f("ip_frag", F::IpFrag, Number(1), NET - 2),
        f("ip_fragoff", F::IpFragOff, Number(2), NET - 1),
        f("ip_id", F::IpId, Number(2), NET),
        f("ip_sum", F::IpSum, Number(2), NET + 2),
        f("ip_proto", F::IpProto, Number(1), NET),
        f("ip_hl", F::IpHl, Number(1), NET - 1),
        f("ip_len", F::IpLen, Number(4), NET + 1),
        f("ip_capture_len", F::IpCaptureLen, Number(4), PAYLOAD + 2),
        f("ip_opt", F::IpOpt, Counted, NET),
        f("sport", F::Sport, Number(2), TRANSPORT),
        f("dport", F::Dport, Number(2), TRANSPORT),
        f("tcp_seq", F::TcpSeq, Number(4), TRANSPORT),
        f("tcp_ack", F::TcpAck, Number(4), TRANSPORT),
        f("tcp_off", F::TcpOff, Number(1), TRANSPORT - 1),
        f("tcp_flags", F::TcpFlags, Number(1), TRANSPORT),
        f("tcp_window", F::TcpWindow, Number(2), TRANSPORT),
        f("tcp_urp", F::TcpUrp, Number(2), TRANSPORT),
        f("tcp_opt", F::TcpOpt, Counted, TRANSPORT + 3),
        f("tcp_ntopt", F::TcpNtOpt, Counted, TRANSPORT + 2),
        f("tcp_sack", F::TcpSack, Counted, TRANSPORT + 1),
        f("udp_len", F::UdpLen, Number(4), TRANSPORT),
        f("icmp_type", F::IcmpType, Number(1), TRANSPORT),
        f("icmp_code", F::IcmpCode, Number(1), TRANSPORT + 1),
        f("icmp_type_name", F::IcmpTypeName, Number(1), TRANSPORT),
        f("icmp_code_name", F::IcmpCodeName, Number(1), TRANSPORT + 1),
        f("icmp_flowid", F::IcmpFlowId, Number(2), TRANSPORT + 2),
        f("icmp_seq", F::IcmpSeq, Number(2), TRANSPORT + 2),
        f("icmp_nextmtu", F::IcmpNextMtu, Number(2), TRANSPORT + 2),
        f("payload_len", F::PayloadLen, Number(4), PAYLOAD + 1),
        f("payload", F::Payload, Never, PAYLOAD),
        Info { name: "payload_md5", field: F::PayloadMd5, binary: Digest, order: None },
        Info { name: "payload_md5_hex", field: F::PayloadMd5Hex, binary: Digest, order: None },
    ]
};

/// Other names of fields.
const SYNONYMS: &[(&str, &str)] = &[
    ("utimestamp", "timestamp"),
    ("ts", "timestamp"),
    ("sec", "ts_sec"),
    ("usec", "ts_usec"),
    ("usec1", "ts_usec1"),
    ("first_utimestamp", "first_timestamp"),
    ("first_ts", "first_timestamp"),
    ("pkt_count", "count"),
    ("packet_count", "count"),
    ("agg", "aggregate"),
    ("wire_length", "wire_len"),
    ("ether_src", "eth_src"),
    ("ether_dst", "eth_dst"),
    ("ether_type", "eth_type"),
    ("length", "ip_len"),
    ("ip_p", "ip_proto"),
    ("tcp_seqno", "tcp_seq"),
    ("tcp_ackno", "tcp_ack"),
    ("tcp_win", "tcp_window"),
    ("payload_length", "payload_len"),
];

/// Finds a field by its name, an old name with spaces, or without its `ip_`.
pub fn find(name: &str) -> Option<&'static Info> {
    let exact = |n: &str| FIELDS.iter().find(|i| i.name == n);
    let mut name = name.to_string();
    // Bound: every turn takes a space out, or is the last but one.
    loop {
        if let Some((_, n)) = SYNONYMS.iter().find(|(s, _)| *s == name) {
            return exact(n);
        }
        if let Some(i) = exact(&name) {
            return Some(i);
        }
        name = match name.split_once(' ') {
            Some((a, b)) => format!("{a}_{b}"),
            None if !name.contains('_') => format!("ip_{name}"),
            None => return None,
        };
    }
}

impl Field {
    /// Is it about the IP packet (and not about annotations or the link header)?
    pub fn needs_ip(self) -> bool {
        use Field as F;
        !matches!(
            self,
            F::Timestamp
                | F::NanoTimestamp
                | F::Sec
                | F::Usec
                | F::Usec1
                | F::FirstTimestamp
                | F::FirstNanoTimestamp
                | F::Count
                | F::Link
                | F::Direction
                | F::Aggregate
                | F::WireLen
                | F::EthSrc
                | F::EthDst
                | F::EthType
                | F::Ignored
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let n = |s| find(s).map(|i| i.name);
        assert_eq!(n("src"), Some("ip_src"));
        assert_eq!(n("ip src"), Some("ip_src"));
        assert_eq!(n("tcp seq"), Some("tcp_seq"));
        assert_eq!(n("proto"), Some("ip_proto"));
        assert_eq!(n("p"), Some("ip_proto"));
        assert_eq!(n("length"), Some("ip_len"));
        assert_eq!(n("len"), Some("ip_len"));
        assert_eq!(n("ts"), Some("timestamp"));
        assert_eq!(n("foo"), None);
        assert_eq!(n("a b c d"), None);
        assert_eq!(n(""), None);
        for (_, to) in SYNONYMS {
            assert!(FIELDS.iter().any(|i| i.name == *to), "{to}");
        }
    }
}
