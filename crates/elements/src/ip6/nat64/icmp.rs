//! ICMP and ICMPv6 messages, one by the other (RFC 7915 4.2, 4.3, 5.2, 5.3).

use super::reasons::ICMP;
use onefold_element::DropReason;

/// Least MTU of IPv6.
const LEAST6: u32 = 1280;
/// Least MTU of IPv4.
const LEAST4: u32 = 68;
/// How much longer the header of IPv6 is.
const MORE: u32 = 20;
/// What MTUs there are, of a router that does not say (RFC 1191 section 7).
const PLATEAUS: [u32; 11] = [
    65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68,
];

pub(super) const ECHO: u8 = 8;
pub(super) const ECHO_REPLY: u8 = 0;
pub(super) const ECHO6: u8 = 128;
pub(super) const ECHO_REPLY6: u8 = 129;

/// The first eight bytes of an error, without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Error {
    pub kind: u8,
    pub code: u8,
    /// Bytes four to seven: MTU, pointer.
    pub word: u32,
}

/// Is a message of ICMP with this type an error that is translated?
pub(super) fn is_error4(kind: u8) -> bool {
    matches!(kind, 3 | 11 | 12)
}

/// The same of ICMPv6.
pub(super) fn is_error6(kind: u8) -> bool {
    matches!(kind, 1..=4)
}

/// How many of the bytes behind an error's header are of the packet that it quotes: what is behind these are
/// extensions (RFC 4884), which are left out. `unit`: bytes that the length counts.
fn quoted_length(length: u8, unit: usize) -> usize {
    match usize::from(length) * unit {
        0 => usize::MAX,
        n => n,
    }
}

/// The packet that an error of ICMP quotes.
pub(super) fn quoted4(message: &[u8]) -> &[u8] {
    let quote = message.get(8..).unwrap_or(&[]);
    let length = message.get(5).copied().unwrap_or(0);
    &quote[..quote.len().min(quoted_length(length, 4))]
}

/// The packet that an error of ICMPv6 quotes.
pub(super) fn quoted6(message: &[u8]) -> &[u8] {
    let quote = message.get(8..).unwrap_or(&[]);
    let length = match message {
        [1 | 3, _, _, _, length, ..] => *length,
        _ => 0,
    };
    &quote[..quote.len().min(quoted_length(length, 8))]
}

/// What an error of ICMP is as one of ICMPv6; `mtu` of the link, `total` the length of the packet that it quotes.
pub(super) fn four_to_six(message: &[u8], mtu: u32, total: u16) -> Result<Error, DropReason> {
    let Some(&[kind, code, _, _, a, _, c, d]) = message.first_chunk::<8>() else {
        return Err(ICMP);
    };
    let error = |kind, code, word| Ok(Error { kind, code, word });
    match (kind, code) {
        (3, 2) => error(4, 1, 6),
        (3, 3) => error(1, 4, 0),
        (3, 4) => {
            let said = match u32::from(u16::from_be_bytes([c, d])) {
                0 => plateau(total),
                n => n,
            };
            error(2, 0, (said + MORE).min(mtu).max(LEAST6))
        }
        (3, 9 | 10 | 13 | 15) => error(1, 1, 0),
        (3, 0 | 1 | 5..=8 | 11 | 12) => error(1, 0, 0),
        (11, code) => error(3, code, 0),
        (12, 0 | 2) => error(4, 0, pointer6(a).ok_or(ICMP)?),
        _ => Err(ICMP),
    }
}

/// What an error of ICMPv6 is as one of ICMP.
pub(super) fn six_to_four(message: &[u8], mtu: u32) -> Result<Error, DropReason> {
    let Some(&[kind, code, _, _, a, b, c, d]) = message.first_chunk::<8>() else {
        return Err(ICMP);
    };
    let word = u32::from_be_bytes([a, b, c, d]);
    let error = |kind, code, word| Ok(Error { kind, code, word });
    match (kind, code) {
        (1, 0 | 2 | 3) => error(3, 1, 0),
        (1, 1) => error(3, 10, 0),
        (1, 4) => error(3, 3, 0),
        (2, _) => {
            let least = word.min(mtu).saturating_sub(MORE).max(LEAST4);
            error(3, 4, least.min(u32::from(u16::MAX)))
        }
        (3, code) => error(11, code, 0),
        (4, 0) => error(12, 0, u32::from(pointer4(word).ok_or(ICMP)?) << 24),
        (4, 1) => error(3, 2, 0),
        _ => Err(ICMP),
    }
}

/// The greatest MTU that a packet of this length does not fit in.
fn plateau(total: u16) -> u32 {
    let fits = |p: &&u32| **p < u32::from(total);
    PLATEAUS.iter().find(fits).copied().unwrap_or(LEAST4)
}

/// Where a field of IPv4's header stands in IPv6's (RFC 7915 figure 3).
fn pointer6(at: u8) -> Option<u32> {
    Some(match at {
        0 => 0,
        1 => 1,
        2 | 3 => 4,
        8 => 7,
        9 => 6,
        12..=15 => 8,
        16..=19 => 24,
        _ => return None,
    })
}

/// Where a field of IPv6's header stands in IPv4's (RFC 7915 figure 6).
fn pointer4(at: u32) -> Option<u8> {
    Some(match at {
        0 => 0,
        1 => 1,
        4 | 5 => 2,
        6 => 9,
        7 => 8,
        8..=23 => 12,
        24..=39 => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn six(kind: u8, code: u8, word: u32) -> Result<Error, DropReason> {
        let [a, b, c, d] = word.to_be_bytes();
        four_to_six(&[kind, code, 0, 0, a, b, c, d], 1500, 1500)
    }

    fn four(kind: u8, code: u8, word: u32) -> Result<Error, DropReason> {
        let [a, b, c, d] = word.to_be_bytes();
        six_to_four(&[kind, code, 0, 0, a, b, c, d], 1500)
    }

    /// RFC 7915 section 4.2, message by message.
    #[test]
    fn errors_of_ipv4() {
        for (code, to) in [
            (0, (1, 0)),
            (1, (1, 0)),
            (3, (1, 4)),
            (5, (1, 0)),
            (6, (1, 0)),
            (7, (1, 0)),
            (8, (1, 0)),
            (9, (1, 1)),
            (10, (1, 1)),
            (11, (1, 0)),
            (12, (1, 0)),
            (13, (1, 1)),
            (15, (1, 1)),
        ] {
            let e = six(3, code, 0).unwrap();
            assert_eq!((e.kind, e.code, e.word), (to.0, to.1, 0), "{code}");
        }
        let e = |kind, code, word| Ok(Error { kind, code, word });
        assert_eq!(six(3, 2, 0), e(4, 1, 6));
        assert_eq!((six(11, 0, 0), six(11, 1, 0)), (e(3, 0, 0), e(3, 1, 0)));
        for (kind, code) in [(3, 14), (3, 16), (4, 0), (5, 1), (12, 1), (12, 3), (40, 0)] {
            assert_eq!(six(kind, code, 0), Err(ICMP), "{kind} {code}");
        }
        let pointers = [
            (0, Some(0)),
            (1, Some(1)),
            (2, Some(4)),
            (3, Some(4)),
            (4, None),
            (7, None),
            (8, Some(7)),
            (9, Some(6)),
            (10, None),
            (12, Some(8)),
            (15, Some(8)),
            (16, Some(24)),
            (19, Some(24)),
            (20, None),
        ];
        for (at, to) in pointers {
            let want = to.map_or(Err(ICMP), |to| e(4, 0, to));
            assert_eq!(six(12, 0, at << 24), want, "{at}");
            assert_eq!(six(12, 2, at << 24), want, "{at}");
        }
    }

    /// RFC 7915 section 5.2.
    #[test]
    fn errors_of_ipv6() {
        let e = |kind, code, word| Ok(Error { kind, code, word });
        assert_eq!(four(1, 0, 0), e(3, 1, 0));
        assert_eq!(four(1, 1, 0), e(3, 10, 0));
        assert_eq!(four(1, 2, 0), e(3, 1, 0));
        assert_eq!(four(1, 3, 0), e(3, 1, 0));
        assert_eq!(four(1, 4, 0), e(3, 3, 0));
        assert_eq!((four(3, 0, 0), four(3, 1, 0)), (e(11, 0, 0), e(11, 1, 0)));
        assert_eq!(four(4, 1, 40), e(3, 2, 0));
        for (kind, code) in [(1, 5), (1, 6), (4, 2), (5, 0), (127, 0), (130, 0), (135, 0)] {
            assert_eq!(four(kind, code, 0), Err(ICMP), "{kind} {code}");
        }
        let pointers = [
            (0, Some(0)),
            (1, Some(1)),
            (2, None),
            (3, None),
            (4, Some(2)),
            (5, Some(2)),
            (6, Some(9)),
            (7, Some(8)),
            (8, Some(12)),
            (23, Some(12)),
            (24, Some(16)),
            (39, Some(16)),
            (40, None),
            (1 << 30, None),
        ];
        for (at, to) in pointers {
            let want = to.map_or(Err(ICMP), |to: u32| e(12, 0, to << 24));
            assert_eq!(four(4, 0, at), want, "{at}");
        }
    }

    #[test]
    fn mtus_differ_by_the_headers() {
        let mtu = |said| six(3, 4, said).unwrap().word;
        assert_eq!((mtu(1400), mtu(1490), mtu(9000)), (1420, 1500, 1500));
        // RFC 8200: an IPv6 host takes nothing below 1280
        assert_eq!((mtu(576), mtu(1260)), (1280, 1280));
        // a router that does not say: the next one below what the packet was
        assert_eq!(mtu(0), 1500);
        let old = |total| four_to_six(&[3, 4, 0, 0, 0, 0, 0, 0], 9000, total).unwrap();
        assert_eq!((old(8166).word, old(8167).word), (4372, 8186));
        assert_eq!((old(1492).word, old(40).word), (1280, 1280));
        let mtu = |said| four(2, 0, said).unwrap().word;
        assert_eq!((mtu(1400), mtu(1500), mtu(9000)), (1380, 1480, 1480));
        assert_eq!((mtu(1280), mtu(5), mtu(u32::MAX)), (1260, 68, 1480));
    }

    /// RFC 4884: what follows the quoted packet is no part of it.
    #[test]
    fn extensions_are_left_out() {
        let mut m = [7u8; 200];
        m[..8].copy_from_slice(&[11, 0, 0, 0, 0, 32, 0, 0]);
        assert_eq!(quoted4(&m).len(), 128);
        m[5] = 0;
        assert_eq!(quoted4(&m).len(), 192);
        m[5] = 255;
        assert_eq!(quoted4(&m).len(), 192);
        m[..8].copy_from_slice(&[3, 0, 0, 0, 16, 0, 0, 0]);
        assert_eq!(quoted6(&m).len(), 128);
        // of other errors the field is another
        m[..8].copy_from_slice(&[2, 0, 0, 0, 16, 0, 5, 0]);
        assert_eq!(quoted6(&m).len(), 192);
        assert_eq!((quoted4(&[3]).len(), quoted6(&[]).len()), (0, 0));
    }
}
