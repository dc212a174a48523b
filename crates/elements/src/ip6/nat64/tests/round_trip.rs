//! Any packets.

use super::super::prefix::Prefix64;
use super::*;
use crate::testing::cases;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(512))]

    /// There and back is the same packet, but for what the other version has no place for: the flow label.
    #[test]
    #[test]
    fn there_and_back(
        kind in 0..3usize, body in proptest::collection::vec(any::<u8>(), 20..200),
        class in any::<u8>(), hops in any::<u8>(), v4 in any::<u32>(), length in 0..6usize,
    ) {
        let prefix = ["fd00::/32", "fd00::/40", "fd00::/48", "fd00::/56", "fd00::/64", "fd00::/96"][length];
        let mut b = Bench::new("NAT64", prefix, 2, 2).unwrap();
        let v4 = (v4 % 0xdf00_0000).max(0x0100_0000).to_be_bytes();
        prop_assume!(v4[0] != 127);
        let text = prefix.split('/').next().unwrap();
        let remote = {
            let n = prefix.split('/').nth(1).unwrap().parse().unwrap();
            let p = Prefix64::new(text.parse().unwrap(), n).unwrap();
            std::net::Ipv6Addr::from(p.embed(v4)).to_string()
        };
        let mut body = body;
        let next = [6, 17, 58][kind];
        match next {
            17 => { let n = body.len() as u16; body[4..6].copy_from_slice(&n.to_be_bytes()); }
            58 => {
                let kind = 128 + body[3] % 2;
                body[..2].copy_from_slice(&[kind, 0]);
            }
            _ => {}
        }
        let at = [16, 6, 2][kind];
        let mut d = ip6(HOST, &remote, next, &body);
        (d[0], d[1], d[7]) = (0x60 | class >> 4, class << 4, hops);
        put_checksum(&mut d, 40 + at);
        if next == 17 && d[46..48] == [0, 0] { d[46..48].fill(0xff); }
        let four = one(&mut b, 0, &d);
        check4(&four);
        prop_assert_eq!(ends4(&four), (HANDLE, v4));
        // what IPv4 makes of it on its way back: addresses exchanged
        let mut back = four.clone();
        back[12..16].copy_from_slice(&v4);
        back[16..20].copy_from_slice(&HANDLE);
        let six = one(&mut b, 1, &back);
        check6(&six);
        let mut want = d.clone();
        want[8..24].copy_from_slice(&addr(&remote));
        want[24..40].copy_from_slice(&addr(HOST));
        // the same sum: the same checksum, but that zero has two forms
        let (got, sent) = (&six[40 + at..42 + at], &want[40 + at..42 + at]);
        let zeros = [[0u8, 0], [0xff, 0xff]];
        prop_assert!(got == sent || zeros.iter().any(|z| z == got) && zeros.iter().any(|z| z == sent));
        want[40 + at..42 + at].copy_from_slice(got);
        prop_assert_eq!(six, want);
    }

    /// Whatever comes, in frames with the beginning of a header: it leaves or is dropped.
    #[test]
    #[test]
    fn any_bytes(
        port in 0..2usize, known in any::<bool>(), next in 0..6usize, whole in any::<bool>(),
        body in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut b = bench("");
        if known { one(&mut b, 0, &six(17, &udp(4))); }
        let protocol = [[58, 6, 17, 44, 0, 43], [1, 6, 17, 1, 1, 1]][port][next];
        let mut d = match port {
            0 => ip6(HOST, REMOTE, protocol, &body),
            _ => ip4(REMOTE4, HANDLE, 50, &body),
        };
        if port == 1 { d[9] = protocol; fill(&mut d); }
        if !whole { d.truncate(d.len() * 2 / 3); }
        let header = if port == 0 { 40 } else { 20 };
        let out = b.push_packet(port, packet(&d, header));
        prop_assert!(out.len() <= 1);
        for (o, p) in &out {
            prop_assert_eq!(*o, port);
            let n = p.data().len();
            let said = match port {
                0 => usize::from(u16::from_be_bytes([p.data()[2], p.data()[3]])),
                _ => 40 + usize::from(u16::from_be_bytes([p.data()[4], p.data()[5]])),
            };
            prop_assert_eq!(said, n);
        }
    }
}
