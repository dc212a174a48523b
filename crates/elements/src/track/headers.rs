//! What a tracker reads of a packet.

use super::key::{ConnKey, Ends, Place};
use super::tcp::Segment;
use onefold_packet::wire::{ipv4, ipv6};
use onefold_packet::{Packet, checksum};

const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const ICMP6: u8 = 58;
const SCTP: u8 = 132;

/// A packet as a tracker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Not to be tracked: neighbour discovery and multicast listeners of IPv6.
    Untracked,
    /// Of no connection, for this reason.
    Invalid(&'static str),
    /// An ICMP error about a packet of this key, which it has gone against if `flipped` is false.
    Error {
        /// The quoted packet's key.
        key: ConnKey,
        /// The error goes from the key's second end to its first.
        flipped: bool,
    },
    /// A packet of a connection, or the first one of one.
    Packet(Tracked),
}

/// See [`Seen::Packet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tracked {
    /// Both directions' key.
    pub key: ConnKey,
    /// It goes from the key's second end to its first.
    pub flipped: bool,
    /// Source and destination are the same.
    pub to_itself: bool,
    /// What the protocol says.
    pub upper: Upper,
}

/// What the protocol of a tracked packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upper {
    /// TCP.
    Tcp(Segment),
    /// UDP.
    Udp,
    /// ICMP or ICMPv6 that asks or answers; an answer begins no connection.
    Icmp {
        /// It asks.
        asks: bool,
    },
    /// Any other protocol.
    Other,
}

/// An IP packet taken apart.
struct Ip<'a> {
    src: &'a [u8],
    dst: &'a [u8],
    protocol: u8,
    /// Where the upper-layer header begins.
    at: usize,
    /// From the upper-layer header to the packet's end, as the IP header says.
    upper: &'a [u8],
}

/// Reads an IP header; `quoted`: of a packet that is not there as a whole.
fn ip(net: &[u8], quoted: bool) -> Result<Ip<'_>, &'static str> {
    const CUT: &str = "an IP header that is cut off or wrong";
    match net.first().map(|b| b >> 4) {
        Some(4) => {
            let h = ipv4::Header::parse(net).ok_or(CUT)?;
            let (header, total) = (h.header_len(), usize::from(h.total_len()));
            if header < ipv4::LEN || !quoted && (total < header || total > net.len()) {
                return Err(CUT);
            }
            // what a quoted packet says of its length is not looked at
            let end = if quoted { net.len() } else { total };
            if h.frag_word() & 0x1fff != 0 || h.is_fragment() && !quoted {
                return Err("a fragment");
            }
            Ok(Ip {
                src: net.get(12..16).ok_or(CUT)?,
                dst: net.get(16..20).ok_or(CUT)?,
                protocol: h.protocol(),
                at: header,
                upper: net.get(header..end).ok_or(CUT)?,
            })
        }
        Some(6) => {
            let h = ipv6::Header::parse(net).ok_or(CUT)?;
            let total = ipv6::LEN + usize::from(h.payload_len());
            if total > net.len() && !quoted {
                return Err(CUT);
            }
            let end = if quoted { net.len() } else { total };
            let chain = upper6(net, h.next_header());
            if chain.later || chain.fragment && !quoted {
                return Err("a fragment");
            }
            let (protocol, at) = (chain.upper)
                .ok_or("IPv6 extension headers that are cut off, too many, or lead to nothing")?;
            Ok(Ip {
                src: net.get(8..24).ok_or(CUT)?,
                dst: net.get(24..40).ok_or(CUT)?,
                protocol,
                at,
                // headers that lead behind the end lead to nothing, which some protocols can do with
                upper: net.get(at..end).unwrap_or(&[]),
            })
        }
        _ => Err(CUT),
    }
}

/// Most extension headers.
const MAX_EXTENSIONS: usize = 32;

/// What the extension headers of an IPv6 packet lead to.
#[derive(Default)]
struct Chain {
    /// Protocol and place of the upper-layer header; `None`: they are cut off, too many, or lead to nothing.
    upper: Option<(u8, usize)>,
    /// There is a fragment header, and the packet is not whole.
    fragment: bool,
    /// It is another fragment than the first.
    later: bool,
}

/// Follows the headers that Linux follows (`ipv6_skip_exthdr`): what else calls itself an extension is a protocol as
/// any.
fn upper6(net: &[u8], first: u8) -> Chain {
    let mut chain = Chain::default();
    chain.upper = follow(net, first, &mut chain.fragment, &mut chain.later);
    chain
}

fn follow(net: &[u8], first: u8, fragment: &mut bool, later: &mut bool) -> Option<(u8, usize)> {
    let (mut next, mut at) = (first, ipv6::LEN);
    for _ in 0..MAX_EXTENSIONS {
        let head = || net.get(at..).and_then(|b| b.first_chunk::<2>()).copied();
        let len = match next {
            // hop-by-hop, routing, destination options
            0 | 43 | 60 => (usize::from(head()?[1]) + 1) * 8,
            44 => {
                let word = net.get(at + 2..).and_then(|b| b.first_chunk::<2>())?;
                let word = u16::from_be_bytes(*word);
                *fragment |= word & 0xfff9 != 0;
                if word & 0xfff8 != 0 {
                    *later = true;
                    return Some((head()?[0], at + 8));
                }
                8
            }
            // authentication
            51 => (usize::from(head()?[1]) + 2) * 4,
            // nothing follows
            59 => return None,
            _ => return Some((next, at)),
        };
        (next, at) = (head()?[0], at + len);
    }
    None
}

/// Is it a piece of a packet?
pub(super) fn is_fragment(net: &[u8]) -> bool {
    match net.first().map(|b| b >> 4) {
        Some(4) => ipv4::Header::parse(net).is_some_and(|h| h.is_fragment()),
        Some(6) => ipv6::Header::parse(net).is_some_and(|h| upper6(net, h.next_header()).fragment),
        _ => false,
    }
}

impl Ip<'_> {
    /// Is the checksum over the upper layer right? The IP payload's length counts, whatever the upper layer says.
    fn checksum_ok(&self) -> bool {
        let len = self.upper.len() as u64;
        let pseudo = match self.protocol {
            ICMP => 0,
            p => checksum::sum(self.src, checksum::sum(self.dst, u64::from(p) + len)),
        };
        checksum::fold(checksum::sum(self.upper, pseudo)) == 0xffff
    }

    /// The key of a packet of a protocol that asks for no more than ports, or nothing.
    fn plain_key(&self) -> Option<(ConnKey, bool)> {
        let ports = match self.protocol {
            TCP | UDP | SCTP => *self.upper.first_chunk::<4>()?,
            _ => [0; 4],
        };
        Some(ConnKey::of(self.src, self.dst, self.protocol, ports))
    }

    /// The key of an ICMP message that asks or answers, and whether it answers.
    fn icmp_key(&self) -> Option<(ConnKey, bool)> {
        let [kind, code, _, _, i0, i1, ..] = *self.upper.first_chunk::<8>()?;
        let request = match (self.protocol, kind) {
            (ICMP, 8 | 13 | 15 | 17) | (ICMP6, 128 | 139) => Some(kind),
            _ => None,
        };
        let answer = match (self.protocol, kind) {
            (ICMP, 0) => Some(8),
            (ICMP, 14 | 16 | 18) | (ICMP6, 129 | 140) => Some(kind - 1),
            _ => None,
        };
        let of = |asks: &[u8], answers: &[u8], kind: u8| {
            ConnKey::of_question(asks, answers, self.protocol, [i0, i1], [kind, code])
        };
        match (request, answer) {
            (Some(k), _) => Some((of(self.src, self.dst, k), false)),
            (_, Some(k)) => Some((of(self.dst, self.src, k), true)),
            _ => None,
        }
    }

    /// The key of a packet that an ICMP error quotes.
    fn quoted_key(&self) -> Option<(ConnKey, bool)> {
        match self.protocol {
            ICMP | ICMP6 => self.icmp_key(),
            _ => self.plain_key(),
        }
    }
}

/// Version 6, protocol, and where the upper-layer header begins; `quoted`: of a packet that is not there as a whole.
pub(super) fn place_of_upper(net: &[u8], quoted: bool) -> Option<(bool, u8, usize)> {
    let found = ip(net, quoted).ok()?;
    Some((found.src.len() == 16, found.protocol, found.at))
}

/// Both ends as they stand in a packet, in its own direction (of ICMP: identifier at the source, type and code of the
/// request at the destination), and where its upper-layer header begins.
pub(super) fn read_ends(net: &[u8], quoted: bool) -> Option<(Ends, usize)> {
    let found = ip(net, quoted).ok()?;
    let (v6, protocol, at) = (found.src.len() == 16, found.protocol, found.at);
    let address = |b: &[u8]| {
        let mut a = [0; 16];
        for (to, from) in a.iter_mut().zip(b) {
            *to = *from;
        }
        a
    };
    let (mut sport, mut dport) = (0, 0);
    match protocol {
        TCP | UDP | SCTP => {
            let [a, b, c, d] = *found.upper.first_chunk::<4>()?;
            (sport, dport) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        }
        ICMP | ICMP6 => {
            let question = Ends::of(&found.icmp_key()?.0, false);
            (sport, dport) = (question.src.port, question.dst.port);
        }
        _ => {}
    }
    let place = |address, port| Place { address, port };
    let ends = Ends {
        src: place(address(found.src), sport),
        dst: place(address(found.dst), dport),
        protocol,
        v6,
    };
    Some((ends, at))
}

/// Takes apart a packet that begins with its IP header. `checksum`: the upper layer's has to be right.
pub(super) fn read(net: &[u8], checksum: bool) -> Seen {
    let ip = match ip(net, false) {
        Ok(ip) => ip,
        Err(why) => return Seen::Invalid(why),
    };
    let wrong = |ip: &Ip<'_>| checksum && !ip.checksum_ok();
    const CHECKSUM: &str = "a wrong checksum";
    let upper = match ip.protocol {
        ICMP | ICMP6 => return icmp(&ip, wrong(&ip)),
        TCP => match Segment::read(ip.upper) {
            None => {
                return Seen::Invalid(
                    "a TCP header that is cut off, or flags that exclude one another",
                );
            }
            Some(_) if wrong(&ip) => return Seen::Invalid(CHECKSUM),
            Some(s) => Upper::Tcp(s),
        },
        UDP => {
            let Some(h) = ip.upper.first_chunk::<8>() else {
                return Seen::Invalid("a UDP header that is cut off");
            };
            let len = usize::from(u16::from_be_bytes([h[4], h[5]]));
            if len < 8 || len > ip.upper.len() {
                return Seen::Invalid("a UDP length that is not the packet's");
            }
            // no checksum: zero
            if [h[6], h[7]] != [0; 2] && wrong(&ip) {
                return Seen::Invalid(CHECKSUM);
            }
            Upper::Udp
        }
        _ => Upper::Other,
    };
    let Some((key, flipped)) = ip.plain_key() else {
        return Seen::Invalid("a header that is cut off");
    };
    let ports = match ip.protocol {
        TCP | UDP | SCTP => ip.upper.first_chunk::<4>().copied().unwrap_or_default(),
        _ => [0; 4],
    };
    Seen::Packet(Tracked {
        key,
        flipped,
        to_itself: ip.src == ip.dst && ports[..2] == ports[2..],
        upper,
    })
}

/// [`read`] of most packets in few instructions: UDP, and TCP with ACK alone (and PSH), behind an IP header without
/// options or extension headers. `None`: [`read`] tells, whatever it is.
#[inline]
pub(super) fn read_usual(net: &[u8], checksum: bool) -> Option<Tracked> {
    // to where the addresses stand, one behind the other, up to the upper layer
    let (v6, from, total, protocol) = match *net.first_chunk::<20>()? {
        [0x45, _, t0, t1, _, _, f0, f1, _, protocol, ..] if (f0 & 0x3f) | f1 == 0 => (
            false,
            12,
            usize::from(u16::from_be_bytes([t0, t1])),
            protocol,
        ),
        [v, _, _, _, p0, p1, next, ..] if v >> 4 == 6 => {
            let total = ipv6::LEN + usize::from(u16::from_be_bytes([p0, p1]));
            (true, 8, total, next)
        }
        _ => return None,
    };
    let header = if v6 { ipv6::LEN } else { ipv4::LEN };
    let upper = net.get(header..total)?;
    let (ports, upper, summed) = match (protocol, upper.first_chunk::<8>()?) {
        (UDP, [a, b, c, d, l0, l1, s0, s1]) => {
            let len = usize::from(u16::from_be_bytes([*l0, *l1]));
            if len < 8 || len > upper.len() {
                return None;
            }
            ([*a, *b, *c, *d], Upper::Udp, s0 | s1 != 0)
        }
        (TCP, [a, b, c, d, ..]) => {
            let s = Segment::read_ack(upper)?;
            ([*a, *b, *c, *d], Upper::Tcp(s), true)
        }
        _ => return None,
    };
    if checksum && summed {
        let pseudo = u64::from(protocol) + (total - header) as u64;
        if checksum::fold(checksum::sum(net.get(from..total)?, pseudo)) != 0xffff {
            return None;
        }
    }
    let (addresses, [s0, s1, d0, d1]) = (net.get(from..header)?, ports);
    let ((key, flipped), same) = if v6 {
        let (src, rest) = addresses.split_first_chunk::<16>()?;
        let dst = *rest.first_chunk::<16>()?;
        (ConnKey::of_v6(*src, dst, protocol, ports), *src == dst)
    } else {
        let (src, rest) = addresses.split_first_chunk::<4>()?;
        let dst = *rest.first_chunk::<4>()?;
        (ConnKey::of_v4(*src, dst, protocol, ports), *src == dst)
    };
    Some(Tracked {
        key,
        flipped,
        to_itself: same && [s0, s1] == [d0, d1],
        upper,
    })
}

/// [`read`], the usual packets first.
#[inline]
pub(super) fn read_any(net: &[u8], checksum: bool) -> Seen {
    match read_usual(net, checksum) {
        Some(seen) => Seen::Packet(seen),
        None => read(net, checksum),
    }
}

fn icmp(ip: &Ip<'_>, wrong: bool) -> Seen {
    let Some(h) = ip.upper.first_chunk::<8>() else {
        return Seen::Invalid("an ICMP header that is cut off");
    };
    if wrong {
        return Seen::Invalid("a wrong checksum");
    }
    let kind = h[0];
    let (v4, is_v6_address) = (ip.protocol == ICMP, ip.src.len() == 16);
    if v4 == is_v6_address {
        // ICMP for IPv4 over IPv6, or the other way round: a protocol like any other, but one that is asked for more
        return Seen::Invalid("ICMP of the other version of IP");
    }
    // listeners of groups, routers, neighbours: they keep no connections
    if !v4 && matches!(kind, 130..=136 | 143) {
        return Seen::Untracked;
    }
    if v4 && kind > 18 {
        return Seen::Invalid("an ICMP type that is not known");
    }
    let is_error = match v4 {
        true => matches!(kind, 3 | 4 | 5 | 11 | 12),
        false => kind < 128,
    };
    if is_error {
        return quoted(ip);
    }
    match ip.icmp_key() {
        Some((key, answers)) => Seen::Packet(Tracked {
            key,
            flipped: answers,
            to_itself: false,
            upper: Upper::Icmp { asks: !answers },
        }),
        None => Seen::Invalid("an ICMP type that neither asks nor answers"),
    }
}

/// An error: about a packet that it quotes, whose source it is sent to.
fn quoted(error: &Ip<'_>) -> Seen {
    const NOTHING: &str = "an ICMP error that quotes no packet";
    let Some(inner) = error.upper.get(8..).and_then(|q| ip(q, true).ok()) else {
        return Seen::Invalid(NOTHING);
    };
    if inner.src.len() != error.src.len() {
        return Seen::Invalid(NOTHING);
    }
    if inner.src != error.dst {
        return Seen::Invalid(
            "an ICMP error about a packet of somebody else than whom it is sent to",
        );
    }
    match inner.quoted_key() {
        Some((key, flipped)) => Seen::Error {
            key,
            flipped: !flipped,
        },
        None => Seen::Invalid(NOTHING),
    }
}

/// A packet whose network header is marked; what has no header is invalid.
pub(super) fn of_packet(p: &Packet, checksum: bool) -> Seen {
    match p.network() {
        Some(net) => read_any(net, checksum),
        None => Seen::Invalid("no IP header"),
    }
}
