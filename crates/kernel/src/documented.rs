//! Differences that are known, each with its reason: they are counted, and are none.
//!
//! The list is docs/compare.md's; a test compares both.

use crate::canon::{Form, Way, ends, form};
use onefold_packet::checksum;
use onefold_packet::wire::{ipv6, udp};
use onefold_verify::frame::view;
use std::net::IpAddr;

/// What is not compared, or differs for a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Known {
    /// In a few words.
    pub name: &'static str,
    /// Why.
    pub why: &'static str,
}

macro_rules! known {
    ($($id:ident: $name:literal, $why:literal;)*) => {
        $(
            #[doc = $name]
            pub const $id: Known = Known { name: $name, why: $why };
        )*
        /// All of them.
        pub const ALL: &[Known] = &[$($id),*];
    };
}

known! {
    NOT_IP: "frames that are not IP",
        "the kernel is there as a router; ARP and other protocols are its own business";
    FAMILY: "packets of a family without rules or addresses",
        "the chain says nothing of them that a kernel could be told";
    LONG: "packets longer than an interface that they enter by",
        "a pair of virtual interfaces loses them before any rule";
    OPTIONS: "IPv4 options at a firewall, and IPv6 hop-by-hop options",
        "a router reads and changes IPv4 options, a firewall of Onefold passes them as they are; the kernel reads \
         hop-by-hop options, which a router need not (RFC 8200 4.3), and Onefold's does not";
    MARTIAN: "addresses that no router forwards, at a firewall",
        "the kernel drops packets from and to groups, broadcast and the unspecified address (RFC 1812 5.3.7), and IPv6 \
         packets that must not leave their link (RFC 4291); a firewall of Onefold is no router";
    NO_HOST: "addresses that no host has, or none beyond its link, at a router",
        "Onefold's router drops packets from and to 0/8, 127/8, 240/4, groups, ::, ::1, fe80::/10, and the first and \
         last address of its IPv4 networks first of all (RFC 1812 5.3.7, RFC 4291); newer kernels forward from and to \
         0/8 and 240/4, take a network's first address for a host's, look at the hop limit first, and at IPv6 sources \
         only where a packet leaves by another interface than it came by";
    ANYCAST: "the anycast address of a router's IPv6 networks",
        "a kernel that forwards has it (RFC 4291 2.6.1); for Onefold's router it is an address as any other";
    NO_HOPS: "packets without a hop left, at a firewall",
        "a router answers with an ICMP error; a firewall of Onefold passes them on";
    AFTER_END: "bytes behind the end of a list of IPv4 options, at a router",
        "the kernel clears them; RFC 791 says nothing of them, and Onefold's router passes them on";
    OWN: "packets from a router's own IPv4 addresses",
        "the kernel takes them for forged (accept_local is off, as it is by default); Onefold's router forwards them";
    GROUP: "packets to groups, and from addresses, of an IPv6 link, for a router",
        "the namespaces have no addresses of links, so that the kernel says nothing of its own accord: it answers such \
         packets by its routes, or not at all";
    REJECT: "answers of REJECT",
        "the importers of rules drop without an answer, and say so";
    CUT: "transport headers that are cut short, at rules of iptables",
        "iptables drops such a packet, and a TCP fragment that begins within the header (RFC 1858), at the first rule \
         that looks into its ports, flags or type; for Onefold, as for nftables, the rule does not match";
    LATER: "later fragments of TCP and UDP, at a firewall",
        "nftables, of which iptables-nft makes its rules, may read a port where a later fragment has other bytes; for \
         Onefold, as for iptables of old, such a packet has none, and the rule does not match";
    CUT_EXTENSION: "IPv6 extension headers that are cut off, at a firewall whose rules ask about connections",
        "the kernel passes such a packet on by its addresses, as one of no connection; Onefold drops it, as there is \
         no header that can be followed";
    FRAGMENT: "fragments, at a firewall whose rules ask about connections",
        "the kernel puts them together before anything else; for Onefold they are of no connection (invalid)";
    OTHERS: "SCTP, DCCP, UDP-Lite and GRE, at a firewall whose rules ask about connections",
        "the kernel follows the states of each; for Onefold they are as all protocols without states";
    STREAM: "UDP, where rules ask whether connections are assured",
        "a connection of UDP is when it has been answered for two seconds: by the kernel's clock, or by the chain's";
    NO_TCP: "TCP for the router itself",
        "a kernel has TCP, and resets connections that nobody waits for; Onefold's router has none";
    DRAWN: "ports and identifiers that are drawn",
        "where a connection cannot keep its own, chain and kernel draw others: they are compared as a one-to-one \
         mapping of connections, and are not held against the range that a rule names";
    STRAYS: "packets of a translated connection that come by another port than its first one",
        "the kernel drops such a packet and the connection if that is masqueraded (nf_nat_core.c); for Onefold it is \
         one of the connection's";
    STRANGER: "packets to a port that only the kernel has drawn",
        "the chain has no connection there";
    OWN_SYN: "packets that open a connection of TCP from an address of the translator itself",
        "a kernel drops them unless it is told otherwise, as it is here, and then gives up a connection that a reset \
         has ended, if they would have its ports behind DNAT";
    APART: "packets of connections that one side has given up",
        "a port that is drawn may be that of a connection which a reset has ended, and which is gone then: in the \
         chain it is another one than in the kernel; and what answers one whose port is drawn, and which a reset has \
         ended, comes to another port on each side; where who has answered opens a connection, and that is not \
         translated, it may be of no connection or the first packet of one";
    RESET: "resets of TCP connections whose numbers jump",
        "a reset ends an established connection if it has the number that the other side has acknowledged: for the \
         kernel an acknowledgement counts if it is in its window, for Onefold each one does";
    UNKNOWN_ICMP: "ICMP errors about ICMP messages of types that nobody knows",
        "the kernel takes such a message for an error, which no error is sent about; Onefold's router tells";
    SHORT_ICMP: "ICMP errors about ICMP messages over IPv4 of less than four bytes",
        "the kernel sends one if the message has a type; for Onefold's router, as for Click's, a message without type, \
         code and checksum may be an error, which no error is sent about";
    IGMP: "IGMP for the router itself",
        "a kernel has IGMP, and says nothing; Onefold's router says that it has no such protocol";
    CODED: "pings with a code, for the router itself",
        "RFC 792 and RFC 4443 have no code but 0: the kernel answers whatever it is, over IPv4 with the same; \
         Onefold's router answers with code 0 over IPv4, and not at all over IPv6";
    SOURCE_ROUTE: "IPv6 routing headers, for the router itself",
        "the kernel says which byte it does not know (RFC 5095); Onefold's router does not answer";
    NO_FRAGMENT: "IPv6 packets whose fragment header is cut short, for the router itself",
        "the kernel says that there is something wrong with the header; Onefold's router does not answer";
    BAD_UDP: "UDP with a wrong length or checksum, for the router itself",
        "the kernel looks at both before it says that nobody listens; Onefold's router says so at once";
    LIMITED: "ICMP errors about IPv4 packets that have no way, more than five to one source",
        "the kernel sends five of them to a source at once, and then one a second, those counted that are about ICMP \
         errors and never sent, and cannot be told otherwise in a namespace (net.ipv4.route.error_cost is the whole \
         machine's)";
    QUOTED: "source address and length of ICMP errors",
        "which address an ICMP error comes from, and how much it quotes, is the router's choice (RFC 1812 4.3.2)";
}

/// What was sent, and what is known of where.
pub(crate) struct Sent<'a> {
    pub frame: &'a [u8],
    /// Came in at a firewall.
    pub passes: bool,
    /// There are firewalls, and routers, in the chain.
    pub firewalls: bool,
    pub routers: bool,
    /// There are rules of iptables on the way.
    pub iptables: bool,
    /// Rules on the way ask about connections, and whether they are assured.
    pub tracks: bool,
    /// Rules on the way count packets.
    pub counts: bool,
    pub asks_assured: bool,
    pub mtu: usize,
    pub families: [bool; 2],
    /// Networks of routers' interfaces.
    pub networks: &'a [(IpAddr, u8)],
}

/// Why a frame is not compared at all.
pub(crate) fn not_compared(s: &Sent<'_>) -> Option<Known> {
    let Some(v) = view(s.frame) else {
        return Some(NOT_IP);
    };
    let tagged = v.net != 14;
    let v6 = match v.ether_type {
        0x0800 if !tagged => false,
        0x86dd if !tagged => true,
        _ => return Some(NOT_IP),
    };
    if !s.families[usize::from(v6)] {
        return Some(FAMILY);
    }
    if s.frame.len() > s.mtu + 14 {
        return Some(LONG);
    }
    let first = s.frame.get(14).copied().unwrap_or(0);
    let options = match v6 {
        false => first & 15 > 5,
        true => s.frame.get(20) == Some(&0),
    };
    if (s.firewalls || v6) && options {
        return Some(OPTIONS);
    }
    if s.tracks {
        return untold(s, v6);
    }
    if s.counts { uncounted(s, v6) } else { None }
}

/// Why a packet must not come to a firewall whose rules count packets: only one side would count it.
fn uncounted(s: &Sent<'_>, v6: bool) -> Option<Known> {
    let ip = s.frame.get(view(s.frame)?.net..)?;
    let (src, dst, _) = ends(ip)?;
    if s.iptables && is_cut(s.frame) {
        return Some(CUT);
    }
    if s.firewalls && is_later(s.frame) {
        return Some(LATER);
    }
    if s.passes && ip.get(if v6 { 7 } else { 8 }) == Some(&0) {
        return Some(NO_HOPS);
    }
    (s.passes && martian(src, dst)).then_some(MARTIAN)
}

/// Why a packet must not come to a firewall that tracks connections: what the kernel does with it by itself would leave
/// other connections behind.
fn untold(s: &Sent<'_>, v6: bool) -> Option<Known> {
    let v = view(s.frame)?;
    let ip = s.frame.get(v.net..)?;
    let (src, dst, _) = ends(ip)?;
    let (fragment, proto) = match v6 {
        false => {
            let word = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]);
            (word & 0x3fff != 0, v.proto)
        }
        true => {
            let last = last_header(ip);
            (last == 44, last)
        }
    };
    if fragment {
        return Some(FRAGMENT);
    }
    if is_cut(s.frame) {
        return Some(CUT);
    }
    if matches!(proto, 33 | 47 | 132 | 136) {
        return Some(OTHERS);
    }
    if s.passes && ip.get(if v6 { 7 } else { 8 }) == Some(&0) {
        return Some(NO_HOPS);
    }
    (s.passes && martian(src, dst)).then_some(MARTIAN)
}

/// The upper-layer protocol of an IPv6 packet, or a fragment header's number.
fn last_header(ip: &[u8]) -> u8 {
    let (mut next, mut at) = (ip.get(6).copied().unwrap_or(59), 40);
    // Bound: each header has eight bytes at least
    while let (0 | 43 | 51 | 60, Some([n, len])) =
        (next, ip.get(at..).and_then(|b| b.first_chunk::<2>()))
    {
        let words = usize::from(*len);
        at += if next == 51 {
            (words + 2) * 4
        } else {
            (words + 1) * 8
        };
        next = *n;
    }
    next
}

/// Why both may differ; the forms by port, those only of Onefold and those only of the kernel.
pub(crate) fn excuse(
    s: &Sent<'_>,
    ours: &[&(usize, Form)],
    theirs: &[&(usize, Form)],
) -> Option<Known> {
    let v = view(s.frame)?;
    let ip = s.frame.get(v.net..)?;
    let (src, dst, _) = ends(ip)?;
    let answers = |all: &[&(usize, Form)]| {
        let answer = |f: &&(usize, Form)| matches!(f.1, Form::Error(_) | Form::Reset(_));
        !all.is_empty() && all.iter().all(answer)
    };
    if s.iptables && theirs.is_empty() && !ours.is_empty() && is_cut(s.frame) {
        return Some(CUT);
    }
    if s.firewalls && theirs.is_empty() != ours.is_empty() && is_later(s.frame) {
        return Some(LATER);
    }
    let no_upper = |h: ipv6::Header<&[u8]>| h.version() == 6 && h.upper().is_none();
    if s.tracks
        && s.firewalls
        && ours.is_empty()
        && !theirs.is_empty()
        && ipv6::Header::parse(ip).is_some_and(no_upper)
    {
        return Some(CUT_EXTENSION);
    }
    if s.asks_assured && v.proto == 17 {
        return Some(STREAM);
    }
    if s.passes {
        let hops = ip
            .get(if v.ether_type == 0x0800 { 8 } else { 7 })
            .copied()?;
        if hops == 0 && (theirs.is_empty() || answers(theirs)) {
            return Some(NO_HOPS);
        }
        // a group, or an address of a link, is looked for at the interface that the packet came in at
        let back = stays(dst) && theirs.len() == ours.len();
        if !ours.is_empty() && (theirs.is_empty() || answers(theirs) || back) && martian(src, dst) {
            return Some(MARTIAN);
        }
        if ours.is_empty() && answers(theirs) && s.firewalls {
            return Some(REJECT);
        }
    }
    if s.routers {
        at_router(s, ours, theirs)
    } else {
        None
    }
}

/// The same where there are routers on the way.
fn at_router(s: &Sent<'_>, ours: &[&(usize, Form)], theirs: &[&(usize, Form)]) -> Option<Known> {
    let ip = s.frame.get(view(s.frame)?.net..)?;
    let (src, dst, proto) = ends(ip)?;
    let ends_of_network = |a: &[u8]| s.networks.iter().any(|n| is_end(a, n));
    if (martian(src, dst) || ends_of_network(src) || ends_of_network(dst)) && ours.is_empty() {
        return Some(NO_HOST);
    }
    if dst.len() == 16 && (ends_of_network(dst) || ends_of_network(src)) {
        return Some(ANYCAST);
    }
    if stays(src) || stays(dst) {
        return Some(GROUP);
    }
    if src.len() == 4 && ends_early(ip) {
        return Some(AFTER_END);
    }
    let own = |(a, _): &(IpAddr, u8)| matches!(a, IpAddr::V4(a) if a.octets() == src);
    if theirs.is_empty() && s.networks.iter().any(own) {
        return Some(OWN);
    }
    let errors = ours.iter().all(|f| matches!(f.1, Form::Error(_)));
    if theirs.is_empty() && errors && is_unanswered(s.frame) && !is_error(s.frame) {
        return Some(UNKNOWN_ICMP);
    }
    let their_errors = theirs.iter().all(|f| matches!(f.1, Form::Error(_)));
    if ours.is_empty() && !theirs.is_empty() && their_errors && is_short_icmp(ip) {
        return Some(SHORT_ICMP);
    }
    let reset = |f: &&(usize, Form)| matches!(f.1, Form::Reset(_));
    if proto == 6 && ours.is_empty() && !theirs.is_empty() && theirs.iter().all(reset) {
        return Some(NO_TCP);
    }
    if let Some(known) = answered_by_one(s.frame, ours, theirs) {
        return Some(known);
    }
    let unreachable = |f: &Form| match f {
        Form::Error(e) => e.ends_with(if src.len() == 4 { &[3, 3] } else { &[1, 4] }),
        _ => false,
    };
    if let [(_, f)] = ours
        && theirs.is_empty()
        && unreachable(f)
        && proto == 17
        && !udp_is_right(s.frame)
    {
        return Some(BAD_UDP);
    }
    None
}

/// What is for a router itself, and only one of both has an answer to.
fn answered_by_one(
    frame: &[u8],
    ours: &[&(usize, Form)],
    theirs: &[&(usize, Form)],
) -> Option<Known> {
    let v = view(frame)?;
    let ip = frame.get(v.net..)?;
    let (_, dst, proto) = ends(ip)?;
    let v6 = dst.len() == 16;
    // behind the receiver's address, type and code
    let tells = |all: &[&(usize, Form)], says: fn(&[u8]) -> bool| {
        let one = |f: &&(usize, Form)| match &f.1 {
            Form::Error(e) => e.get(dst.len()..).is_some_and(says),
            _ => false,
        };
        !all.is_empty() && all.iter().all(one)
    };
    if !v6 && proto == 2 && theirs.is_empty() && tells(ours, |e| e == [3, 2]) {
        return Some(IGMP);
    }
    if v6 && ours.is_empty() && tells(theirs, |e| e.first() == Some(&4)) {
        match proto {
            43 => return Some(SOURCE_ROUTE),
            44 if payload(ip)? < 8 => return Some(NO_FRAGMENT),
            _ => {}
        }
    }
    let head = frame.get(v.transport?..)?.first_chunk::<2>()?;
    let coded = match (v6, ours, theirs) {
        (false, [(p, Form::Packet(a))], [(q, Form::Packet(b))]) => {
            proto == 1 && head[0] == 8 && p == q && same_but_code(a, b)
        }
        (true, [], [(_, Form::Packet(_))]) => proto == 58 && head[0] == 128,
        _ => false,
    };
    (coded && head[1] != 0).then_some(CODED)
}

/// Bytes behind an IPv6 header, as it says.
fn payload(ip: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes([*ip.get(4)?, *ip.get(5)?]))
}

/// Are two messages of ICMP the same but for code and checksum?
fn same_but_code(a: &[u8], b: &[u8]) -> bool {
    let without = |f: &[u8]| {
        let at = view(f)?.transport?;
        let mut f = f.to_vec();
        f.get_mut(at + 1..at + 4)?.fill(0);
        Some(f)
    };
    without(a).is_some() && without(a) == without(b)
}

/// Are length and checksum of a UDP packet as they have to be (RFC 768, RFC 8200 8.1)?
fn udp_is_right(frame: &[u8]) -> bool {
    let right = || {
        let v = view(frame)?;
        let (src, dst, _) = ends(frame.get(v.net..)?)?;
        let udp = frame.get(v.transport?..)?;
        let h = udp::Header::parse(udp)?;
        let body = udp.get(..usize::from(h.len()))?;
        let sum = match (<[u8; 16]>::try_from(src), <[u8; 16]>::try_from(dst)) {
            (Ok(src), Ok(dst)) => checksum::pseudo_v6(&src, &dst, 17, h.len().into()),
            _ if h.checksum() == 0 => return Some(body.len() >= udp::LEN),
            _ => checksum::pseudo_v4(src.try_into().ok()?, dst.try_into().ok()?, 17, h.len()),
        };
        let right = checksum::fold(checksum::sum(body, sum)) == 0xffff;
        Some(right && h.checksum() != 0 && body.len() >= udp::LEN)
    };
    right() == Some(true)
}

/// An ICMP error that says that an IPv4 packet has no way: to nowhere, to an unreachable host, or forbidden (what a
/// kernel's route without a next hop makes).
pub(crate) fn no_way(f: &Form) -> bool {
    match f {
        Form::Error(e) => matches!(e[..], [_, _, _, _, 3, 0 | 1 | 13]),
        _ => false,
    }
}

/// Is what left when `sent` was sent such an error?
pub(crate) fn tells_no_way(left: &[u8], sent: &[u8]) -> bool {
    // of errors the way says nothing
    let way = Way {
        routed: false,
        topmost: false,
        translated: false,
    };
    no_way(&form(left, sent, way))
}

/// Of a message of ICMP over IPv4, its type.
fn icmp_type(frame: &[u8]) -> Option<u8> {
    let v = view(frame).filter(|v| v.ether_type == 0x0800 && v.proto == 1)?;
    frame.get(v.transport?).copied()
}

/// Is it an IPv4 packet that the kernel sends no ICMP error about (net/ipv4/icmp.c, `icmp_pointers`): an error itself,
/// or a message of a type that nobody knows? If it has no way, that is counted all the same (net/ipv4/route.c).
pub(crate) fn is_unanswered(frame: &[u8]) -> bool {
    icmp_type(frame).is_some_and(|kind| !matches!(kind, 0 | 8 | 13..=18))
}

/// Is it ICMP over IPv4 without a whole word, as its header says?
fn is_short_icmp(ip: &[u8]) -> bool {
    let Some([first, _, l0, l1, _, _, _, _, _, 1]) = ip.first_chunk::<10>() else {
        return false;
    };
    let header = usize::from(first & 15) * 4;
    first >> 4 == 4 && usize::from(u16::from_be_bytes([*l0, *l1])) < header + 4
}

/// Is it an ICMP error over IPv4?
fn is_error(frame: &[u8]) -> bool {
    icmp_type(frame).is_some_and(|kind| matches!(kind, 3..=5 | 11 | 12))
}

/// Is the transport header not whole: fewer bytes than it has, or a TCP fragment that begins within it?
fn is_cut(frame: &[u8]) -> bool {
    let cut = || {
        let v = view(frame)?;
        let ip = frame.get(v.net..)?;
        let be16 = |at: usize| {
            Some(usize::from(u16::from_be_bytes([
                *ip.get(at)?,
                *ip.get(at + 1)?,
            ])))
        };
        let v4 = v.ether_type == 0x0800;
        if v4 && v.proto == 6 && be16(6)? & 0x1fff == 1 {
            return Some(true);
        }
        let end = v.net + if v4 { be16(2)? } else { 40 + be16(4)? };
        let whole = match v.proto {
            6 => 20,
            33 | 132 => 12,
            1 | 17 | 58 | 136 => 8,
            _ => return None,
        };
        Some(end.min(frame.len()) < v.transport? + whole)
    };
    cut() == Some(true)
}

/// Is it a fragment of TCP or UDP over IPv4 that is not the first one?
fn is_later(frame: &[u8]) -> bool {
    let Some(v) = view(frame).filter(|v| v.ether_type == 0x0800 && matches!(v.proto, 6 | 17))
    else {
        return false;
    };
    let at = v.net + 6;
    let field = frame.get(at..at + 2);
    field.is_some_and(|b| u16::from_be_bytes([b[0], b[1]]) & 0x1fff != 0)
}

/// Is there anything behind the end of a list of IPv4 options (RFC 791)?
fn ends_early(ip: &[u8]) -> bool {
    let head = usize::from(ip.first().copied().unwrap_or(0) & 15) * 4;
    let mut rest = ip.get(20..head).unwrap_or_default();
    // Bound: an option has one byte at least
    while let [kind, tail @ ..] = rest {
        let n = match kind {
            0 => return tail.iter().any(|b| *b != 0),
            1 => 1,
            _ => usize::from(tail.first().copied().unwrap_or(0)).max(2),
        };
        rest = rest.get(n..).unwrap_or_default();
    }
    false
}

/// Is it the first address of a network, or the last one of an IPv4 network?
fn is_end(a: &[u8], (network, len): &(IpAddr, u8)) -> bool {
    match (network, <[u8; 4]>::try_from(a), <[u8; 16]>::try_from(a)) {
        (IpAddr::V4(n), Ok(a), _) if *len < 31 => {
            let (n, a) = (u32::from(*n), u32::from_be_bytes(a));
            let hosts = u32::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
            a == n & !hosts || a == n | hosts
        }
        (IpAddr::V6(n), _, Ok(a)) if *len < 127 => {
            let hosts = u128::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
            u128::from_be_bytes(a) == u128::from(*n) & !hosts
        }
        _ => false,
    }
}

/// An IPv6 address that is good on one link only: a group, or the link's own.
fn stays(a: &[u8]) -> bool {
    let link = a.first() == Some(&0xfe) && a.get(1).is_some_and(|b| b & 0xc0 == 0x80);
    a.len() == 16 && (link || a.first() == Some(&0xff))
}

/// Addresses that a router does not forward from, or to.
fn martian(src: &[u8], dst: &[u8]) -> bool {
    match (src, dst) {
        ([s, ..], [d, ..]) if src.len() == 4 => {
            let group = |a: u8| (224..240).contains(&a);
            let own = |a: u8| a == 0 || a == 127 || a >= 240;
            own(*s) || own(*d) || group(*s) || group(*d)
        }
        _ => {
            let own =
                |a: &[u8]| a.iter().take(15).all(|b| *b == 0) && a.get(15).is_some_and(|b| *b < 2);
            own(src) || own(dst) || stays(src) || stays(dst)
        }
    }
}

#[cfg(test)]
mod tests;
