//! Packets of one version of IP written as packets of the other one (RFC 7915).

use super::datagram::{
    Datagram, FRAGMENT_LEN, Four, Fragment, Six, adjusted, computed, other_number,
};
use super::icmp::{self, ECHO, ECHO_REPLY, ECHO_REPLY6, ECHO6};
use super::reasons::{CUT, ICMP, ICMP_CHECKSUM, NO_CHECKSUM, PROTOCOL, TOO_LONG};
use onefold_element::DropReason;
use onefold_packet::checksum::{pseudo_v4, pseudo_v6};
use onefold_packet::wire::ipv4::{self, proto};
use onefold_packet::wire::ipv6;

/// Up to this length, the header of IPv4 included, a packet may be fragmented on its way (RFC 7915 5.1).
const MAY_BE_FRAGMENTED: usize = 1260;
/// Longest errors (RFC 1812 4.3.2.3, RFC 4443 2.4).
const LONGEST_ERROR4: usize = 576;
const LONGEST_ERROR6: usize = 1280;
const UDP_LEN: usize = 8;
const TCP_LEN: usize = 20;
/// ICMP's header of four bytes, and four that belong to the type.
const ICMP_LEN: usize = 8;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
/// The number of IPv6's fragment header.
const FRAGMENT: u8 = 44;

/// Source and destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends<A> {
    pub src: A,
    pub dst: A,
}

pub(super) type Ends4 = Ends<[u8; 4]>;
pub(super) type Ends6 = Ends<[u8; 16]>;

/// How much of a packet there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All.
    Whole,
    /// What an error quotes.
    Quoted,
}

/// Appends an IPv6 packet as one of IPv4. `id`: its identification, if it has none and may be fragmented.
///
/// # Errors
/// It has no counterpart.
pub(super) fn six_to_four(
    out: &mut Vec<u8>,
    d: &Six<'_>,
    ends: &Ends4,
    id: u16,
    extent: Extent,
) -> Result<(), DropReason> {
    out.extend(header4(d, ends, d.length, id)?);
    match d.protocol {
        proto::TCP | proto::UDP => {
            let before = pseudo_v6(&d.src, &d.dst, 0, 0);
            let after = pseudo_v4(ends.src, ends.dst, 0, 0);
            ports(out, d, (before, after), None, extent)
        }
        proto::ICMP6 => {
            let kind = match d.kind() {
                Some(ECHO6) => ECHO,
                Some(ECHO_REPLY6) => ECHO_REPLY,
                _ => return Err(ICMP),
            };
            let pseudo = pseudo_v6(&d.src, &d.dst, proto::ICMP6, d.length as u32);
            echo(out, d, kind, (pseudo, 0))
        }
        _ => Err(PROTOCOL),
    }
}

/// Appends an IPv4 packet as one of IPv6, with a fragment header if it is a fragment.
///
/// # Errors
/// It has no counterpart.
pub(super) fn four_to_six(
    out: &mut Vec<u8>,
    d: &Four<'_>,
    ends: &Ends6,
    extent: Extent,
) -> Result<(), DropReason> {
    header6(out, d, ends, d.length);
    match d.protocol {
        proto::TCP | proto::UDP => {
            let before = pseudo_v4(d.src, d.dst, 0, 0);
            let after = pseudo_v6(&ends.src, &ends.dst, 0, 0);
            ports(out, d, (before, after), Some(ends), extent)
        }
        proto::ICMP => {
            let kind = match d.kind() {
                Some(ECHO) => ECHO6,
                Some(ECHO_REPLY) => ECHO_REPLY6,
                _ => return Err(ICMP),
            };
            let pseudo = pseudo_v6(&ends.src, &ends.dst, proto::ICMP6, d.length as u32);
            echo(out, d, kind, (0, pseudo))
        }
        _ => Err(PROTOCOL),
    }
}

/// Appends an ICMPv6 error, which is about `quote`, as one of ICMP.
///
/// # Errors
/// It has no counterpart, or its checksum is wrong.
pub(super) fn error_to_four(
    out: &mut Vec<u8>,
    (d, ends): (&Six<'_>, &Ends4),
    (quote, quote_ends): (&Six<'_>, &Ends4),
    mtu: u32,
    id: u16,
) -> Result<(), DropReason> {
    let pseudo = pseudo_v6(&d.src, &d.dst, proto::ICMP6, d.length as u32);
    if computed(d.payload, pseudo) != 0 {
        return Err(ICMP_CHECKSUM);
    }
    let e = icmp::six_to_four(d.payload, mtu)?;
    let at = out.len();
    let message = at + ipv4::LEN;
    out.resize(message, 0);
    out.extend([e.kind, e.code, 0, 0]);
    out.extend(e.word.to_be_bytes());
    six_to_four(out, quote, quote_ends, 0, Extent::Quoted)?;
    out.truncate(at + LONGEST_ERROR4);
    let header = header4(d, ends, out.len() - message, id)?;
    out[at..message].copy_from_slice(&header);
    let checksum = computed(&out[message..], 0).to_be_bytes();
    out[message + 2..message + 4].copy_from_slice(&checksum);
    Ok(())
}

/// Appends an ICMP error, which is about `quote`, as one of ICMPv6. `total`: the length that the quoted packet has by
/// its header.
///
/// # Errors
/// It has no counterpart, or its checksum is wrong.
pub(super) fn error_to_six(
    out: &mut Vec<u8>,
    (d, ends): (&Four<'_>, &Ends6),
    (quote, quote_ends): (&Four<'_>, &Ends6),
    mtu: u32,
    total: u16,
) -> Result<(), DropReason> {
    if computed(d.payload, 0) != 0 {
        return Err(ICMP_CHECKSUM);
    }
    let e = icmp::four_to_six(d.payload, mtu, total)?;
    let at = out.len();
    header6(out, d, ends, 0);
    let message = out.len();
    out.extend([e.kind, e.code, 0, 0]);
    out.extend(e.word.to_be_bytes());
    four_to_six(out, quote, quote_ends, Extent::Quoted)?;
    out.truncate(at + LONGEST_ERROR6);
    let length = out.len() - message;
    out[at + 4..at + 6].copy_from_slice(&(length as u16).to_be_bytes());
    let pseudo = pseudo_v6(&ends.src, &ends.dst, proto::ICMP6, length as u32);
    let checksum = computed(&out[message..], pseudo).to_be_bytes();
    out[message + 2..message + 4].copy_from_slice(&checksum);
    Ok(())
}

/// The header of IPv4 for a packet with so many bytes behind it (RFC 7915 5.1, 5.1.1).
fn header4(
    d: &Six<'_>,
    ends: &Ends4,
    length: usize,
    id: u16,
) -> Result<[u8; ipv4::LEN], DropReason> {
    let total = length + ipv4::LEN;
    let total_len = u16::try_from(total).map_err(|_| TOO_LONG)?;
    let (id, word) = match d.fragment {
        Some(f) if f.more => (f.id as u16, MORE_FRAGMENTS | f.offset),
        Some(f) => (f.id as u16, f.offset),
        None if total <= MAY_BE_FRAGMENTED => (id, 0),
        None => (0, DONT_FRAGMENT),
    };
    let mut b = [0; ipv4::LEN];
    if let Some(mut h) = ipv4::Header::parse(&mut b[..]) {
        h.set_version_header_len(ipv4::LEN);
        h.set_tos(d.class);
        h.set_total_len(total_len);
        h.set_id(id);
        h.set_frag_word(word);
        h.set_ttl(d.hops);
        h.set_protocol(other_number(d.protocol));
        h.set_src(ends.src);
        h.set_dst(ends.dst);
        h.fill_checksum();
    }
    Ok(b)
}

/// Appends the header of IPv6 for a packet with so many bytes behind all headers (RFC 7915 4.1).
fn header6(out: &mut Vec<u8>, d: &Four<'_>, ends: &Ends6, length: usize) {
    let protocol = other_number(d.protocol);
    let (next, more) = match d.fragment {
        Some(_) => (FRAGMENT, FRAGMENT_LEN),
        None => (protocol, 0),
    };
    let mut b = [0; ipv6::LEN];
    if let Some(mut h) = ipv6::Header::parse(&mut b[..]) {
        h.set_version_class_label(d.class, 0);
        // an IPv4 packet has 65,515 bytes behind its header at most
        h.set_payload_len((length + more) as u16);
        h.set_next_header(next);
        h.set_hop_limit(d.hops);
        h.set_src(ends.src);
        h.set_dst(ends.dst);
    }
    out.extend(b);
    if let Some(f) = &d.fragment {
        out.extend(fragment_header(protocol, f));
    }
}

fn fragment_header(next: u8, f: &Fragment) -> [u8; FRAGMENT_LEN] {
    let [a, b] = (f.offset << 3 | u16::from(f.more)).to_be_bytes();
    let [w, x, y, z] = f.id.to_be_bytes();
    [next, 0, a, b, w, x, y, z]
}

/// Appends a TCP segment or UDP datagram, or a fragment of one, whose pseudo header was summed up as `before` and is
/// now as `after`. `six`: where it goes to, of IPv6, where checksums must be (RFC 7915 4.5).
fn ports<A: Copy>(
    out: &mut Vec<u8>,
    d: &Datagram<'_, A>,
    (before, after): (u64, u64),
    six: Option<&Ends6>,
    extent: Extent,
) -> Result<(), DropReason> {
    let at = out.len();
    out.extend(d.payload);
    if d.is_later() {
        return Ok(());
    }
    let (header, field) = match d.protocol {
        proto::TCP => (TCP_LEN, 16),
        _ => (UDP_LEN, 6),
    };
    let body = &mut out[at..];
    if body.len() < header && extent == Extent::Whole {
        return Err(CUT);
    }
    let Some(old) = body.get(field..).and_then(|b| b.first_chunk::<2>()) else {
        return Ok(());
    };
    let old = u16::from_be_bytes(*old);
    let new = match (old, d.protocol, extent, six) {
        (0, proto::UDP, Extent::Quoted, _) => 0,
        (0, proto::UDP, Extent::Whole, Some(ends)) if !d.is_part() => made(body, ends)?,
        (0, proto::UDP, Extent::Whole, _) => return Err(NO_CHECKSUM),
        (old, proto::UDP, ..) => never_zero(adjusted(old, before, after)),
        (old, ..) => adjusted(old, before, after),
    };
    body[field..field + 2].copy_from_slice(&new.to_be_bytes());
    Ok(())
}

/// The checksum of a UDP datagram that has none.
fn made(body: &[u8], ends: &Ends6) -> Result<u16, DropReason> {
    let length = match body {
        [_, _, _, _, a, b, ..] => u16::from_be_bytes([*a, *b]),
        _ => 0,
    };
    let datagram = body.get(..usize::from(length)).ok_or(NO_CHECKSUM)?;
    if datagram.len() < UDP_LEN {
        return Err(NO_CHECKSUM);
    }
    let pseudo = pseudo_v6(&ends.src, &ends.dst, proto::UDP, length.into());
    Ok(never_zero(computed(datagram, pseudo)))
}

/// Zero says that there is no checksum, and is the same number as 0xffff.
fn never_zero(checksum: u16) -> u16 {
    match checksum {
        0 => 0xffff,
        c => c,
    }
}

/// Appends an echo message as one of type `kind`. Only ICMPv6's checksum is over a pseudo header.
fn echo<A: Copy>(
    out: &mut Vec<u8>,
    d: &Datagram<'_, A>,
    kind: u8,
    (before, after): (u64, u64),
) -> Result<(), DropReason> {
    let at = out.len();
    out.extend(d.payload);
    let body = &mut out[at..];
    let Some([old, code, a, b, _, _, _, _]) = body.first_chunk_mut::<ICMP_LEN>() else {
        return Err(CUT);
    };
    let word = |kind: u8, code: u8| u64::from(u16::from_be_bytes([kind, code]));
    let was = u16::from_be_bytes([*a, *b]);
    let before = before + word(*old, *code);
    let [x, y] = adjusted(was, before, after + word(kind, *code)).to_be_bytes();
    (*old, *a, *b) = (kind, x, y);
    Ok(())
}

/// Cuts an IPv6 packet of [`four_to_six`], made of `d`, in fragments of at most `limit` bytes (RFC 7915 4.1).
pub(super) fn pieces(packet: &[u8], d: &Four<'_>, limit: usize) -> Vec<Vec<u8>> {
    let headers = ipv6::LEN + d.fragment.map_or(0, |_| FRAGMENT_LEN);
    let (Some(header), Some(payload)) =
        (packet.first_chunk::<{ ipv6::LEN }>(), packet.get(headers..))
    else {
        return Vec::new();
    };
    let base = d.fragment.unwrap_or(Fragment {
        id: d.id.into(),
        offset: 0,
        more: false,
    });
    let room = (limit.saturating_sub(ipv6::LEN + FRAGMENT_LEN) / 8).max(1) * 8;
    let count = payload.len().div_ceil(room);
    let piece = |(i, part): (usize, &[u8])| {
        let f = Fragment {
            offset: base.offset.wrapping_add((i * room / 8) as u16) & 0x1fff,
            more: base.more || i + 1 < count,
            ..base
        };
        let mut b = header.to_vec();
        let length = (part.len() + FRAGMENT_LEN) as u16;
        b[4..6].copy_from_slice(&length.to_be_bytes());
        b[6] = FRAGMENT;
        b.extend(fragment_header(other_number(d.protocol), &f));
        b.extend(part);
        b
    };
    payload.chunks(room).enumerate().map(piece).collect()
}
