//! Link types of captures by Click's names, and where the IP header of a frame stands.

use onefold_element::model::build::{Cases, OPTIONS};
use onefold_element::model::{
    Base, Cond, Exit, Model, Op, Read, Value, ValueSet, bits, bytes, field,
};

/// Ethernet.
pub const ETHER: u32 = 1;
/// IP without a link header.
pub const RAW: u32 = 101;
/// The same, as some hosts number it.
const HOST_RAW: u32 = 12;

/// Names that ENCAP takes, with link types; the first name of a type is the one shown.
const NAMES: &[(&str, u32)] = &[
    ("NULL", 0),
    ("IP", RAW),
    ("ETHER", ETHER),
    ("FDDI", 10),
    ("ATM", 100),
    ("RFC1483", 100),
    ("ATM_RFC1483", 100),
    ("802_11", 105),
    ("802.11", 105),
    ("802_11_RADIO", 127),
    ("802.11_RADIO", 127),
    ("SLL", 113),
    ("AIRONET", 120),
    ("HDLC", 104),
    ("PPP_HDLC", 50),
    ("PPP", 9),
    ("SUNATM", 123),
    ("PRISM", 119),
];

/// The link type that an ENCAP argument names; `#N` is type N.
pub fn parse(name: &str) -> Option<u32> {
    if let Some((_, n)) = NAMES.iter().find(|(s, _)| *s == name) {
        return Some(*n);
    }
    let n: u32 = name.strip_prefix('#')?.parse().ok()?;
    (n < 0x7fff_ffff).then_some(n)
}

/// A link type's name.
pub fn unparse(link: u32) -> String {
    match NAMES.iter().find(|(_, n)| *n == link) {
        Some((s, _)) => s.to_string(),
        None => format!("#{link}"),
    }
}

/// Can IP headers be found in frames of this type?
pub fn knows_ip(link: u32) -> bool {
    [0, 1, 9, 10, 12, 50, 100, 101, 104, 105, 113, 119, 123, 127].contains(&link)
}

fn byte(d: &[u8], at: usize) -> Option<u8> {
    d.get(at).copied()
}

fn half(d: &[u8], at: usize) -> Option<u16> {
    let b = d.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*b))
}

fn is_ip_type(t: u16) -> bool {
    t == 0x0800 || t == 0x86dd
}

/// Behind an Ethernet type field at `at`, past one VLAN tag.
fn by_ethertype(d: &[u8], at: usize) -> Option<usize> {
    match half(d, at)? {
        t if is_ip_type(t) => Some(at + 2),
        0x8100 if is_ip_type(half(d, at + 4)?) => Some(at + 6),
        _ => None,
    }
}

/// Most link headers within each other that are followed.
const MAX_NESTING: usize = 16;

/// Behind an 802.2 LLC header at `at`, or a whole frame bridged in one.
fn by_llc(d: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..MAX_NESTING {
        let lsap = half(d, at)?;
        let snap = d.get(at..at + 8);
        if let Some(h) = snap
            && h.starts_with(&[0xaa, 0xaa, 3, 0, 0, 0])
            && is_ip_type(u16::from_be_bytes([h[6], h[7]]))
        {
            return Some(at + 8);
        }
        if lsap == 0x0606 {
            return (at + 4 <= d.len()).then_some(at + 4);
        }
        let h = snap.filter(|h| h[0] == 0xaa && h[1] == 0xaa)?;
        let protocol = u16::from_be_bytes([h[6], h[7]]);
        match ([h[3], h[4], h[5]], protocol) {
            ([0, 0, 0] | [0, 0, 0xf8], _) => return by_ethertype(d, at + 6),
            // RFC 2684: bridged Ethernet, bridged FDDI, with and without a check sequence
            ([0, 0x80, 0xc2], 1 | 7) => return by_ethertype(d, at + 8 + 12),
            ([0, 0x80, 0xc2], 4 | 10) => at = fddi_llc(d, at + 9)?,
            _ => return None,
        }
    }
    None
}

/// Where the LLC header of an FDDI frame at `at` stands.
fn fddi_llc(d: &[u8], at: usize) -> Option<usize> {
    let long_enough = at + 21 <= d.len();
    (long_enough && byte(d, at)? & 0xf0 == 0x50).then_some(at + 13)
}

fn by_802_11(d: &[u8], at: usize) -> Option<usize> {
    if at + 24 > d.len() || byte(d, at)? & 0x0c != 0x08 {
        return None;
    }
    let four_addresses = byte(d, at + 1)? & 3 == 3;
    by_llc(d, at + if four_addresses { 30 } else { 24 })
}

fn by_hdlc(d: &[u8]) -> Option<usize> {
    is_ip_type(half(d, 2)?).then_some(4)
}

fn header_at(d: &[u8], link: u32) -> Option<usize> {
    const IP: u8 = 0x21;
    const IP6: u8 = 0x57;
    match link {
        RAW | HOST_RAW => Some(0),
        ETHER => by_ethertype(d, 12),
        10 => by_llc(d, fddi_llc(d, 0)?),
        100 => by_llc(d, 0),
        123 => by_llc(d, 4),
        113 => is_ip_type(half(d, 14)?).then_some(16),
        104 => by_hdlc(d),
        50 => match *d.first_chunk::<4>()? {
            [0xff, _, 0, IP | IP6] => Some(4),
            [0x0f | 0x8f, ..] => by_hdlc(d),
            _ => None,
        },
        9 => {
            let at = if d.starts_with(&[0xff, 3]) { 2 } else { 0 };
            match [byte(d, at)?, byte(d, at + 1)?] {
                [IP | IP6, _] => Some(at + 1),
                [0, IP | IP6] => Some(at + 2),
                _ => None,
            }
        }
        105 => by_802_11(d, 0),
        119 => by_802_11(d, 144),
        127 => {
            let b = d.first_chunk::<4>()?;
            let len = u16::from_le_bytes([b[2], b[3]]);
            if len < 8 {
                return None;
            }
            by_802_11(d, usize::from(len))
        }
        0 => {
            let b = d.first_chunk::<4>()?;
            let family = match u16::from_le_bytes([b[0], b[1]]) {
                0 => u16::from_be_bytes([b[2], b[3]]),
                f => f,
            };
            [2, 24, 28, 30].contains(&family).then_some(4)
        }
        _ => None,
    }
}

/// The IP header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpHeader {
    /// Where it starts.
    pub offset: usize,
    /// Its length.
    pub len: usize,
    /// The destination address, if it is IPv4.
    pub dst: Option<[u8; 4]>,
}

/// Finds the IPv4 or IPv6 header of a frame; nothing unless all of the header is there.
pub fn find_ip(d: &[u8], link: u32) -> Option<IpHeader> {
    let offset = header_at(d, link)?;
    let h = d.get(offset..)?;
    match h.first()? >> 4 {
        4 => {
            let len = usize::from(h[0] & 15) * 4;
            let ok = len >= 20 && len <= h.len();
            ok.then(|| IpHeader {
                offset,
                len,
                dst: h.get(16..).and_then(|a| a.first_chunk()).copied(),
            })
        }
        6 if h.len() >= 40 => Some(IpHeader {
            offset,
            len: 40,
            dst: None,
        }),
        _ => None,
    }
}

/// The cases of a model that finds the IP header of a frame: of Ethernet or, with `raw`, of IP without a link header.
/// `good` is done where there is one, beside marking it; the rest leaves at `bad` with `always`, as do good packets.
pub fn find_ip_model(raw: bool, always: &[Op], good: &[Op], bad: Exit) -> Model {
    let kinds = ValueSet::from_intervals([(0x0800, 0x0800), (0x86dd, 0x86dd)]);
    let here = |at: u16| Cond::In(Read::Field(bytes(Base::Data, at, 2)), kinds.clone());
    let long = |n: u16| Cond::at_least(Read::Len, n.into());
    let mut places = vec![(0, Cond::Always)];
    if !raw {
        let tagged = vec![long(18), Cond::eq(field::ETH_TYPE, 0x8100), here(16)];
        places = vec![(14, long(14).and(here(12))), (18, Cond::All(tagged))];
    }
    let mut c = Cases::new();
    for (at, guard) in places {
        let when = |more: Vec<Cond>| Cond::All([vec![guard.clone()], more].concat());
        let byte = |i: u16, n: u8| bytes(Base::Data, at + i, n);
        let ihl = bits(Base::Data, at * 8 + 4, 4);
        let version = |v| Cond::eq(bits(Base::Data, at * 8, 4), v);
        let four = |n: u16, more| when(vec![long(at + n), version(4), more]);
        let mark = |len| Op::SetNet { at: at as i16, len };
        let dst = Value::Of(Read::Field(byte(16, 4)));
        let dst = Op::SetAnno(onefold_packet::anno_field::DST_IP.into(), dst);
        c = c
            .case(
                four(20, Cond::eq(ihl, 5)),
                [always, &[mark(20), dst], good].concat(),
                Exit::Port(0),
            )
            .punt(four(20, Cond::between(ihl, 6, 15)), OPTIONS)
            .case(
                when(vec![long(at + 40), version(6)]),
                [always, &[mark(40)], good].concat(),
                Exit::Port(0),
            );
    }
    c.otherwise(always.iter().copied(), bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip4() -> Vec<u8> {
        let mut h = vec![0x45; 1];
        h.resize(20, 0);
        h[16..].copy_from_slice(&[10, 0, 0, 9]);
        h
    }

    fn at(link: u32, front: &[u8]) -> Option<usize> {
        let frame = [front, &ip4()].concat();
        find_ip(&frame, link).map(|h| h.offset)
    }

    #[test]
    fn names() {
        assert_eq!(parse("ETHER"), Some(1));
        assert_eq!(parse("802.11"), Some(105));
        assert_eq!(parse("#7"), Some(7));
        assert_eq!(parse("ether"), None);
        assert_eq!(parse("#"), None);
        assert_eq!((unparse(100), unparse(77)), ("ATM".into(), "#77".into()));
    }

    #[test]
    fn ip_headers_behind_link_headers() {
        let mut ether = [0u8; 14];
        ether[12] = 8;
        assert_eq!(at(ETHER, &ether), Some(14));
        let vlan = [&[0; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat();
        assert_eq!(at(ETHER, &vlan), Some(18));
        ether[13] = 6;
        assert_eq!(at(ETHER, &ether), None);
        assert_eq!(at(RAW, &[]), Some(0));
        assert_eq!(at(0, &[2, 0, 0, 0]), Some(4));
        assert_eq!(at(0, &[0, 0, 0, 30]), Some(4));
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        assert_eq!(at(100, &snap), Some(8));
        assert_eq!(at(123, &[&[0; 4][..], &snap].concat()), Some(12));
        assert_eq!(at(113, &[&[0; 14][..], &[8, 0]].concat()), Some(16));
        assert_eq!(at(104, &[0x0f, 0, 8, 0]), Some(4));
        assert_eq!(at(50, &[0xff, 3, 0, 0x21]), Some(4));
        assert_eq!(at(50, &[0x8f, 0, 8, 0]), Some(4));
        assert_eq!(at(9, &[0xff, 3, 0x21]), Some(3));
        assert_eq!(at(9, &[0, 0x21]), Some(2));
        let mut wifi = vec![0u8; 24];
        wifi[0] = 8;
        wifi.extend(snap);
        assert_eq!(at(105, &wifi), Some(32));
        let radio = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wifi].concat();
        assert_eq!(at(127, &radio), Some(40));
        let fddi = [&[0x50][..], &[0; 12], &snap].concat();
        assert_eq!(at(10, &fddi), Some(21));
        let bridged = [&[0xaa, 0xaa, 3, 0, 0x80, 0xc2, 0, 7][..], &[0; 12], &[8, 0]].concat();
        assert_eq!(at(100, &bridged), Some(22));
        assert_eq!(find_ip(&ip4(), RAW).unwrap().dst, Some([10, 0, 0, 9]));
    }

    proptest! {
        #[test]
        fn never_past_the_end(d: Vec<u8>, link in 0u32..130) {
            if let Some(h) = find_ip(&d, link) {
                prop_assert!(h.offset + h.len <= d.len());
            }
        }
    }
}
