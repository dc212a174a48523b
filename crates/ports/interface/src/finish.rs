//! Checksums that the kernel has not finished.
//!
//! A virtual interface hands over what its peer's kernel has left for hardware to do. Who takes frames from it without
//! the kernel's headers (an XDP program, DPDK) is not told of it: a frame with an unfinished checksum looks like any
//! other. What stands in the field then is the sum of the pseudo header (RFC 9293 section 3.1), not complemented
//! (`CHECKSUM_PARTIAL`). A frame in whose field that stands, and whose checksum is wrong, is taken for unfinished, and
//! finished as the kernel would (`skb_checksum_help`). Of frames that were damaged on their way, one in 65,536
//! looks so.

use onefold_packet::checksum::{fold, internet, pseudo_v4, pseudo_v6, sum};

const ETHERNET: usize = 14;
const TAG: usize = 4;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

fn word(f: &[u8], at: usize) -> Option<u16> {
    let b = f.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*b))
}

/// Where a whole TCP or UDP segment lies in a frame, its protocol, and the sum of its pseudo header.
fn segment(f: &[u8]) -> Option<(usize, usize, u8, u64)> {
    let mut ip = ETHERNET;
    let mut kind = word(f, ip - 2)?;
    for _ in 0..2 {
        if TAGS.contains(&kind) {
            ip += TAG;
            kind = word(f, ip - 2)?;
        }
    }
    let h = f.get(ip..)?;
    match kind {
        IPV4 => {
            let h: &[u8; 20] = h.first_chunk()?;
            let header = usize::from(h[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
            // fragments have a part of a segment
            if h[0] >> 4 != 4 || header < 20 || total < header || h[6] & 0x3f | h[7] != 0 {
                return None;
            }
            let (src, dst) = (h[12..16].first_chunk()?, h[16..20].first_chunk()?);
            let pseudo = pseudo_v4(*src, *dst, h[9], (total - header) as u16);
            Some((ip + header, ip + total, h[9], pseudo))
        }
        IPV6 => {
            let h: &[u8; 40] = h.first_chunk()?;
            let len = u16::from_be_bytes([h[4], h[5]]);
            if h[0] >> 4 != 6 {
                return None;
            }
            let (src, dst) = (h[8..24].first_chunk()?, h[24..40].first_chunk()?);
            let pseudo = pseudo_v6(src, dst, h[6], u32::from(len));
            Some((ip + 40, ip + 40 + usize::from(len), h[6], pseudo))
        }
        _ => None,
    }
}

/// Drivers whose peer leaves checksums to hardware that there is not.
const VIRTUAL: [&str; 1] = ["veth"];

/// Does a driver of this name ([`crate::Control::driver`]) hand over frames with unfinished checksums?
pub fn leaves_unfinished(driver: &str) -> bool {
    VIRTUAL.contains(&driver)
}

/// Finishes a frame's checksum if it is unfinished. True if it was.
#[inline]
pub fn finish(frame: &mut [u8]) -> bool {
    let Some((from, to, protocol, pseudo)) = segment(frame) else {
        return false;
    };
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return false,
    };
    let Some(segment) = frame.get_mut(from..to) else {
        return false;
    };
    if word(segment, at) != Some(fold(pseudo)) {
        return false;
    }
    // with the pseudo header's sum in its place the field is what a sum over the segment alone makes of it
    if fold(sum(segment, pseudo)) == 0xffff {
        return false;
    }
    let finished = match internet(segment) {
        0 => 0xffff,
        s => s,
    };
    match segment.get_mut(at..at + 2) {
        Some(field) => field.copy_from_slice(&finished.to_be_bytes()),
        None => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a TCP or UDP segment, without a checksum.
    fn frame(v6: bool, protocol: u8, payload: &[u8], tags: usize) -> (Vec<u8>, usize) {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        (0..tags).for_each(|_| f.extend([0x81, 0, 0, 7]));
        let header = if protocol == TCP { 20 } else { 8 };
        let len = (header + payload.len()) as u16;
        if v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            f.extend(len.to_be_bytes());
            f.extend([protocol, 64]);
            f.extend((0..32).map(|i| i * 7));
        } else {
            f.extend([8, 0, 0x45, 0]);
            f.extend((len + 20).to_be_bytes());
            f.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9]);
        }
        let from = f.len();
        f.extend((0..header as u8).map(|i| i + 30));
        let at = from + if protocol == TCP { 16 } else { 6 };
        f[at..at + 2].fill(0);
        f.extend(payload);
        // what an Ethernet frame is padded with
        f.extend([0xaa; 5]);
        (f, at)
    }

    #[test]
    fn an_unfinished_checksum_is_finished_and_no_other_is_touched() {
        for (v6, protocol) in [(false, TCP), (false, UDP), (true, TCP), (true, UDP)] {
            for (n, tags) in [(0, 0), (1, 1), (64, 2), (999, 0)] {
                let payload: Vec<u8> = (0..n).map(|i| i as u8).collect();
                let (mut f, at) = frame(v6, protocol, &payload, tags);
                let (from, to, _, pseudo) = segment(&f).unwrap();
                let right = !fold(sum(&f[from..to], pseudo));
                // finished: it stays
                f[at..at + 2].copy_from_slice(&right.to_be_bytes());
                let whole = f.clone();
                assert!(!finish(&mut f));
                assert_eq!(f, whole);
                // unfinished
                f[at..at + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
                assert!(finish(&mut f), "{v6} {protocol} {n}");
                assert_eq!(f, whole);
                // wrong in another way, or absent: nobody's business
                for wrong in [right ^ 0x0101, 0] {
                    f[at..at + 2].copy_from_slice(&wrong.to_be_bytes());
                    let before = f.clone();
                    assert!(!finish(&mut f));
                    assert_eq!(f, before);
                }
            }
        }
    }

    #[test]
    fn a_right_checksum_that_looks_unfinished_stays() {
        let (mut f, at) = frame(false, UDP, &[0; 2], 0);
        let (from, to, _, pseudo) = segment(&f).unwrap();
        f[at..at + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
        // the payload makes it right
        let rest = !fold(sum(&f[from..to], pseudo));
        let end = to - 2;
        f[end..to].copy_from_slice(&rest.to_be_bytes());
        let before = f.clone();
        assert!(!finish(&mut f));
        assert_eq!(f, before);
    }

    #[test]
    fn frames_that_lie_are_left_alone() {
        let (whole, at) = frame(false, TCP, &[1; 40], 0);
        for n in 0..whole.len() {
            let mut f = whole[..n].to_vec();
            assert!(!finish(&mut f), "{n}");
        }
        for (i, v) in [
            (14, 0x4f),
            (14, 0x65),
            (16, 0xff),
            (17, 3),
            (20, 0x20),
            (21, 9),
            (23, 1),
        ] {
            let mut f = whole.clone();
            f[i] = v;
            let pseudo = segment(&f).map_or(0, |s| s.3);
            f[at..at + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
            let _ = finish(&mut f);
            assert_eq!(f.len(), whole.len());
        }
    }
}
