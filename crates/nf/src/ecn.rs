//! Congestion marks: a packet whose sender can be told of congestion (ECT) says that there was some (CE), as of RFC
//! 3168.

/// Where the IP header of an Ethernet frame begins, and its version; two VLAN tags at most are passed over.
fn ip(frame: &[u8]) -> Option<(usize, u8)> {
    let mut at = 12;
    // Bound: three EtherTypes
    for _ in 0..3 {
        let kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        match kind {
            0x8100 | 0x88a8 => at += 4,
            0x0800 => return Some((at + 2, 4)),
            0x86dd => return Some((at + 2, 6)),
            _ => return None,
        }
    }
    None
}

/// Marks a frame, if it is an IPv4 or IPv6 packet that is ECN-capable and not marked yet. The checksum of IPv4 follows
/// (RFC 1624), a wrong one stays as wrong as it was. Was it marked?
pub fn mark(frame: &mut [u8]) -> bool {
    let Some((at, version)) = ip(frame) else {
        return false;
    };
    let Some(header) = frame.get_mut(at..) else {
        return false;
    };
    // the two lowest bits of the traffic class: of an IPv6 header they are in the middle of its second byte
    let (Some(&[first, second]), shift) = (header.first_chunk(), if version == 6 { 4 } else { 0 })
    else {
        return false;
    };
    if first >> 4 != version || !matches!(second >> shift & 3, 1 | 2) {
        return false;
    }
    if version == 4 {
        let Some(sum) = header.get_mut(10..12) else {
            return false;
        };
        let (before, after) = (
            u16::from_be_bytes([first, second]),
            u16::from_be_bytes([first, second | 3]),
        );
        let old = u16::from_be_bytes([sum[0], sum[1]]);
        let new = u32::from(!old) + u32::from(!before) + u32::from(after);
        let new = (new & 0xffff) + (new >> 16);
        let new = (new & 0xffff) + (new >> 16);
        sum.copy_from_slice(&(!(new as u16)).to_be_bytes());
    }
    if let Some(b) = header.get_mut(1) {
        *b |= 3 << shift;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(header: &[u8]) -> u16 {
        let words = header
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let all: u32 = words.sum();
        let all = (all & 0xffff) + (all >> 16);
        ((all & 0xffff) + (all >> 16)) as u16
    }

    fn frame(tags: usize, tos: u8, id: u16) -> Vec<u8> {
        let mut f = vec![2; 12];
        for _ in 0..tags {
            f.extend([0x81, 0, 0, 5]);
        }
        f.extend([8, 0]);
        let mut ip = vec![
            0x45, tos, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        let check = !sum(&ip);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        f.extend(ip);
        f
    }

    proptest! {
        #[test]
        fn what_is_capable_is_marked_and_its_checksum_is_right(tags in 0usize..3, tos: u8, id: u16) {
            let before = frame(tags, tos, id);
            let mut after = before.clone();
            let marked = mark(&mut after);
            prop_assert_eq!(marked, matches!(tos & 3, 1 | 2));
            let at = 14 + 4 * tags;
            prop_assert_eq!(sum(&after[at..]), 0xffff);
            prop_assert_eq!(after[at + 1], if marked { tos | 3 } else { tos });
            if !marked {
                prop_assert_eq!(before, after);
            }
        }

        #[test]
        fn any_bytes_are_looked_at(mut bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0usize..4) {
            if bytes.len() > 14 {
                let kinds = [[8, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0xa8]];
                bytes[12..14].copy_from_slice(&kinds[kind]);
            }
            let before = bytes.clone();
            if !mark(&mut bytes) {
                prop_assert_eq!(before, bytes);
            }
        }
    }

    #[test]
    fn of_ipv6_the_traffic_class_is_marked_and_nothing_else() {
        let mut f = vec![2; 12];
        f.extend([0x86, 0xdd, 0x6a, 0x2b, 0xcd, 0xef, 0, 0, 6, 64]);
        f.extend([1; 32]);
        let before = f.clone();
        assert!(mark(&mut f));
        assert_eq!(f[15], 0x3b);
        f[15] = before[15];
        assert_eq!(f, before);
        // three tags are too many
        let mut deep = frame(2, 2, 7);
        deep.splice(12..12, [0x81, 0, 0, 1]);
        assert!(!mark(&mut deep));
    }
}
