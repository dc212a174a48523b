//! Who asks for a neighbour's address, and the answer to a solicitation.

use crate::frame::view;

/// Makes an advertisement (RFC 4861, section 4.4) of the answer to a solicitation; `at`: where its IPv6 header and its
/// message begin. Whoever was asked has an address that follows from the one that was asked for.
pub(crate) fn advertise(solicitation: &[u8], r: &mut [u8], (net, t): (usize, usize)) -> Option<()> {
    let target = solicitation.get(t + 8..t + 24)?;
    let mac = [2, 0xbb, target[12], target[13], target[14], target[15]];
    r.get_mut(6..12)?.copy_from_slice(&mac);
    *r.get_mut(net + 7)? = 255;
    r.get_mut(net + 8..net + 24)?.copy_from_slice(target);
    *r.get_mut(t)? = 136;
    // solicited, override
    r.get_mut(t + 4..t + 8)?.copy_from_slice(&[0x60, 0, 0, 0]);
    r.get_mut(t + 24..t + 26)?.copy_from_slice(&[2, 1]);
    r.get_mut(t + 26..t + 32)?.copy_from_slice(&mac);
    Some(())
}

/// Does the frame ask for a neighbour's address: an ARP request, or a solicitation?
pub fn asks_for_neighbour(b: &[u8]) -> bool {
    let Some(v) = view(b) else { return false };
    match (v.ether_type, v.proto, v.transport) {
        (0x0806, ..) => b.get(v.net + 6..v.net + 8) == Some(&[0, 1]),
        (0x86dd, 58, Some(t)) => b.get(t) == Some(&135),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Keep, answer, finish};

    #[test]
    fn solicitations_are_answered() {
        let [me, target] = [[9u8; 16], [7; 16]];
        let mut q = vec![0x33, 0x33, 0xff, 7, 7, 7, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
        q.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
        q.extend(me);
        q.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 7, 7, 7]);
        q.extend([135, 0, 0, 0, 0, 0, 0, 0]);
        q.extend(target);
        q.extend([1, 1, 2, 0, 0, 0, 0, 9]);
        finish(&mut q, Keep::default());
        assert!(asks_for_neighbour(&q));
        let a = answer(&q).unwrap();
        assert_eq!((&a[..6], a[21], a[54]), (&q[6..12], 255, 136));
        assert_eq!((&a[22..38], &a[38..54]), (&target[..], &me[..]));
        assert_eq!(&a[62..78], &target);
        assert_eq!(&a[78..86], &[2, 1, 2, 0xbb, 7, 7, 7, 7]);
        // its checksum is right
        let mut right = a.clone();
        finish(&mut right, Keep::default());
        assert_eq!(right, a);
        assert!(!asks_for_neighbour(&a));
        assert_eq!(answer(&a), None);
    }
}
