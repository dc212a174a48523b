//! What both versions of IP say of a packet, read from either header.

use super::reasons::{CUT, EXTENSION, FRAGMENT_EXTENSION, SOURCE_ROUTE};
use onefold_element::DropReason;
use onefold_packet::checksum::{fold, sum};
use onefold_packet::wire::ipv4::{self, proto};
use onefold_packet::wire::ipv6;

/// Most extension headers that are skipped.
const MOST_EXTENSIONS: usize = 8;
/// Extension headers of IPv6 that may be skipped: hop by hop, routing, destination options.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// Bytes of a fragment header.
pub(super) const FRAGMENT_LEN: usize = 8;

/// A fragment's place in its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment {
    pub id: u32,
    /// In units of eight bytes.
    pub offset: u16,
    pub more: bool,
}

/// A packet, with addresses of either version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Datagram<'a, A> {
    pub src: A,
    pub dst: A,
    /// Type of service or traffic class.
    pub class: u8,
    /// Time to live or hop limit.
    pub hops: u8,
    /// The transport's number, behind extension headers.
    pub protocol: u8,
    /// Of a fragment, or of an IPv6 packet that has a fragment header all the same (RFC 6946).
    pub fragment: Option<Fragment>,
    /// IPv4: must not be fragmented. IPv6 never is.
    pub whole: bool,
    /// IPv4: its identification.
    pub id: u16,
    /// What is there behind all headers of IP.
    pub payload: &'a [u8],
    /// How much the header says that is; more than there is where a quoted packet is cut.
    pub length: usize,
}

pub(super) type Six<'a> = Datagram<'a, [u8; 16]>;
pub(super) type Four<'a> = Datagram<'a, [u8; 4]>;

impl<A: Copy> Datagram<'_, A> {
    /// A fragment behind the first one: there are no ports, nor a checksum.
    pub fn is_later(&self) -> bool {
        self.fragment.is_some_and(|f| f.offset > 0)
    }
    /// Is it a part of a datagram, and not the whole?
    pub fn is_part(&self) -> bool {
        self.fragment.is_some_and(|f| f.offset > 0 || f.more)
    }
    /// The first byte of the transport's header, if there is one.
    pub fn kind(&self) -> Option<u8> {
        self.payload.first().copied().filter(|_| !self.is_later())
    }
}

/// Reads an IPv6 packet; `quoted`: by an ICMPv6 error, so that its end may be missing.
pub(super) fn read_six(ip: &[u8], quoted: bool) -> Result<Six<'_>, DropReason> {
    let h = ipv6::Header::parse(ip)
        .filter(|h| h.version() == 6)
        .ok_or(CUT)?;
    let said = usize::from(h.payload_len());
    let rest = ip.get(ipv6::LEN..).unwrap_or(&[]);
    if rest.len() < said && !quoted {
        return Err(CUT);
    }
    let mut payload = &rest[..rest.len().min(said)];
    let (mut length, mut protocol, mut fragment) = (said, h.next_header(), None);
    for _ in 0..MOST_EXTENSIONS {
        let skipped = match protocol {
            HOP_BY_HOP | DESTINATION | ROUTING => {
                if fragment.is_some() {
                    return Err(FRAGMENT_EXTENSION);
                }
                let units = usize::from(*payload.get(1).ok_or(CUT)?);
                if protocol == ROUTING && payload.get(3) != Some(&0) {
                    return Err(SOURCE_ROUTE);
                }
                (units + 1) * 8
            }
            FRAGMENT if fragment.is_none() => {
                let f = payload.first_chunk::<FRAGMENT_LEN>().ok_or(CUT)?;
                let place = u16::from_be_bytes([f[2], f[3]]);
                fragment = Some(Fragment {
                    id: u32::from_be_bytes([f[4], f[5], f[6], f[7]]),
                    offset: place >> 3,
                    more: place & 1 != 0,
                });
                FRAGMENT_LEN
            }
            _ => break,
        };
        protocol = *payload.first().ok_or(CUT)?;
        payload = payload.get(skipped..).ok_or(CUT)?;
        length = length.checked_sub(skipped).ok_or(CUT)?;
        if fragment.is_some_and(|f| f.offset > 0) {
            break;
        }
    }
    if matches!(protocol, HOP_BY_HOP | DESTINATION | ROUTING | FRAGMENT) {
        return Err(match fragment {
            Some(_) => FRAGMENT_EXTENSION,
            None => EXTENSION,
        });
    }
    Ok(Datagram {
        src: h.src(),
        dst: h.dst(),
        class: h.traffic_class(),
        hops: h.hop_limit(),
        protocol,
        fragment,
        whole: true,
        id: 0,
        payload,
        length,
    })
}

/// Reads an IPv4 packet; `quoted`: by an ICMP error, so that its end may be missing. Options are left out.
pub(super) fn read_four(ip: &[u8], quoted: bool) -> Result<Four<'_>, DropReason> {
    let h = ipv4::Header::parse(ip)
        .filter(|h| h.version() == 4)
        .ok_or(CUT)?;
    let (header, total) = (h.header_len(), usize::from(h.total_len()));
    let length = total.checked_sub(header).filter(|_| header >= ipv4::LEN);
    let (Some(length), Some(rest)) = (length, ip.get(header..)) else {
        return Err(CUT);
    };
    if rest.len() < length && !quoted {
        return Err(CUT);
    }
    if !quoted && has_route(ip.get(ipv4::LEN..header).unwrap_or(&[])) {
        return Err(SOURCE_ROUTE);
    }
    let (word, id) = (h.frag_word(), h.id());
    let fragment = h.is_fragment().then_some(Fragment {
        id: id.into(),
        offset: word & 0x1fff,
        more: word & 0x2000 != 0,
    });
    Ok(Datagram {
        src: h.src(),
        dst: h.dst(),
        class: h.tos(),
        hops: h.ttl(),
        protocol: h.protocol(),
        fragment,
        whole: word & 0x4000 != 0,
        id,
        payload: &rest[..rest.len().min(length)],
        length,
    })
}

/// Is there a source route among these options that has not been followed to its end (RFC 7915 4.1)?
fn has_route(mut options: &[u8]) -> bool {
    // Bound: each turn takes a byte at least
    while let [kind, rest @ ..] = options {
        options = match kind {
            0 => return false,
            1 => rest,
            _ => {
                let length = usize::from(*rest.first().unwrap_or(&0));
                let pointer = rest.get(1).map_or(0, |p| usize::from(*p));
                if matches!(kind, 131 | 137) && pointer <= length {
                    return true;
                }
                options.get(length.max(2)..).unwrap_or(&[])
            }
        };
    }
    false
}

/// What a checksum becomes when what was summed up as `before` is `after` (RFC 1624).
pub(super) fn adjusted(checksum: u16, before: u64, after: u64) -> u16 {
    let kept = u64::from(!checksum) + u64::from(!fold(before));
    !fold(kept + u64::from(fold(after)))
}

/// A transport's number in IPv4, of what it is in IPv6, and the other way round.
pub(super) fn other_number(protocol: u8) -> u8 {
    match protocol {
        proto::ICMP => proto::ICMP6,
        proto::ICMP6 => proto::ICMP,
        p => p,
    }
}

/// The checksum over `message` (whose field is zero) and a pseudo header.
pub(super) fn computed(message: &[u8], pseudo: u64) -> u16 {
    !fold(sum(message, pseudo))
}
