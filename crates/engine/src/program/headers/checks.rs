//! Questions about a whole header ([`HeaderCheck`]), asked lazily: most of them sum bytes.

use onefold_element::model::HeaderCheck;
use onefold_packet::checksum;

/// The answer about the header at byte `at` of a packet that starts at `head` of `buf` and ends at `end`. Where the header is
/// not there, the answer is no.
pub(crate) fn holds(check: HeaderCheck, buf: &[u8], head: usize, at: i32, end: i64) -> bool {
    let start = head as i64 + i64::from(at);
    let stop = head as i64 + end;
    let (Ok(start), Ok(stop)) = (usize::try_from(start), usize::try_from(stop)) else {
        return false;
    };
    match buf.get(start..stop.min(buf.len())) {
        Some(b) => about(check, b).unwrap_or(false),
        None => false,
    }
}

/// About the header at the start of `b`, which ends with the packet.
fn about(check: HeaderCheck, b: &[u8]) -> Option<bool> {
    let word = |b: &[u8], i: usize| -> Option<usize> {
        let w = b.get(i..)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_be_bytes(*w)))
    };
    if check == HeaderCheck::Ip6Fits {
        b.get(..40)?;
        return Some(word(b, 4)? + 40 <= b.len());
    }
    b.get(..20)?;
    let total = word(b, 2)?;
    let header_len = usize::from(b[0] & 15) * 4;
    // option-free, and what the length says is there
    let segment = || {
        let whole = header_len == 20 && total >= 20;
        whole.then(|| b.get(20..total)).flatten()
    };
    let sum_ok = |s: &[u8]| {
        let pseudo = checksum::sum(&b[12..20], u64::from(b[9]) + s.len() as u64);
        checksum::fold(checksum::sum(s, pseudo)) == 0xffff
    };
    Some(match check {
        HeaderCheck::Ip4Fits => total <= b.len(),
        HeaderCheck::Ip4Checksum if header_len <= 20 => checksum::header_ok(b.first_chunk()?),
        HeaderCheck::Ip4Checksum => checksum::internet(b.get(..header_len)?) == 0,
        HeaderCheck::TcpChecksum => sum_ok(segment()?),
        HeaderCheck::UdpChecksum => {
            let s = segment()?;
            sum_ok(s.get(..word(s, 4)?)?)
        }
        HeaderCheck::IcmpChecksum => checksum::internet(segment()?) == 0,
        HeaderCheck::UdpFits => {
            let s = segment()?;
            (8..=s.len()).contains(&word(s, 4)?)
        }
        HeaderCheck::Ip6Fits => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use HeaderCheck::*;

    fn udp() -> Vec<u8> {
        let mut b = vec![
            0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 4, 0, 0, 12,
            0, 0, 1, 2, 3, 4,
        ];
        let c = checksum::internet(&b[..20]);
        b[10..12].copy_from_slice(&c.to_be_bytes());
        let pseudo = checksum::sum(&b[12..20], 17 + 12);
        let c = !checksum::fold(checksum::sum(&b[20..], pseudo));
        b[26..28].copy_from_slice(&c.to_be_bytes());
        b
    }

    #[test]
    fn answers() {
        let ask = |b: &[u8], c| holds(c, b, 0, 0, b.len() as i64);
        let b = udp();
        for c in [Ip4Fits, Ip4Checksum, UdpChecksum, UdpFits] {
            assert!(ask(&b, c), "{c:?}");
            for i in 0..b.len() {
                assert!(
                    !ask(&b[..i], c) || (c == Ip4Checksum && i >= 20),
                    "{c:?} {i}"
                );
            }
        }
        assert!(!ask(&b, IcmpChecksum));
        let mut bad = b.clone();
        bad[30] ^= 1;
        assert!(ask(&bad, Ip4Checksum) && !ask(&bad, UdpChecksum));
        bad[25] = 13;
        assert!(!ask(&bad, UdpFits));
        // a cut end, and a header that starts in front of the buffer
        assert!(!holds(Ip4Fits, &b, 0, 0, 31));
        assert!(!holds(Ip4Fits, &b, 0, -1, 32));
        assert!(!holds(Ip4Fits, &b, 10, i32::MAX, i64::from(i32::MAX)));
        let mut six = vec![0x60, 0, 0, 0, 0, 2];
        six.resize(42, 0);
        assert!(ask(&six, Ip6Fits) && !ask(&six[..41], Ip6Fits));
    }
}
