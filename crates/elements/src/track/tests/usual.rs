//! What is read in few instructions, against what is read in many.

use super::super::headers::{Seen, read, read_usual};
use super::{ACK, FIN, SYN, packet, tcp, udp};
use crate::testing::cases;
use proptest::prelude::*;

/// Packets, and whether they are of those that are to be read in few instructions.
fn usual_or_not() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let protocols = prop::sample::select(vec![6u8, 6, 17, 17, 1, 58, 132, 0]);
    let upper = (0usize..8, 0usize..40, any::<bool>(), 0u16..3, 0u16..3);
    let damaged = (
        prop::option::of((0usize..70, any::<u8>())),
        0usize..12,
        0usize..3,
    );
    let ends = (any::<bool>(), 0u8..3, 0u8..3);
    (ends, protocols, upper, damaged).prop_map(|((v6, src, dst), protocol, upper, damaged)| {
        let (flags, payload, summed, from, to) = upper;
        let flags = [ACK, ACK, ACK | 8, ACK | 0xc0, SYN, FIN | ACK, ACK | 32, 0][flags];
        let upper = match protocol {
            17 => udp((from, to)),
            _ => tcp((from, to), flags, 7, 9, payload),
        };
        let mut b = packet(v6, (src, dst), protocol, &upper);
        if protocol == 17 && !summed {
            let at = b.len() - upper.len() + 6;
            b[at..at + 2].fill(0);
        }
        let (wrong, cut, longer) = damaged;
        if let Some((at, x)) = wrong
            && let Some(byte) = b.get_mut(at)
        {
            *byte = x;
        }
        match cut {
            0 => b.truncate(b.len() - 9),
            _ => b.resize(b.len() + longer, 3),
        }
        let usual = protocol == 17 || protocol == 6 && flags & 0x37 == ACK;
        (b, usual && wrong.is_none() && cut > 0)
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    /// What is read in few instructions says the same in many, and what is to be is.
    #[test]
    fn usual_packets_are_read_alike((b, usual) in usual_or_not(), checksum in any::<bool>()) {
        match read_usual(&b, checksum) {
            Some(seen) => prop_assert_eq!(read(&b, checksum), Seen::Packet(seen)),
            None => prop_assert!(!usual, "{:?}", b),
        }
    }
}
