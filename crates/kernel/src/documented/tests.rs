use super::*;

#[test]
fn lengths_and_checksums_of_udp() {
    let mut f = [0u8; 62];
    f[12..14].copy_from_slice(&[0x86, 0xdd]);
    f[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 8, 17, 64]);
    (f[37], f[53]) = (11, 1);
    f[54..62].copy_from_slice(&[0, 1, 0, 2, 0, 8, 0, 0]);
    assert!(!udp_is_right(&f), "no checksum");
    let sum = 11 + 1 + 17 + 8 + 1 + 2 + 8;
    f[60..62].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    assert!(udp_is_right(&f));
    f[59] = 9;
    assert!(!udp_is_right(&f), "longer than it is");
    f[59] = 8;
    f[55] = 3;
    assert!(!udp_is_right(&f), "another port");
}

#[test]
fn answers_with_a_code() {
    let mut a = vec![0u8; 14];
    a[12..14].copy_from_slice(&[8, 0]);
    a.extend([
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    a.extend([0, 0, 0xff, 0xf7, 0, 7, 0, 1]);
    let mut b = a.clone();
    (b[35], b[36], b[37]) = (0xff, 0xfe, 0xf8);
    assert!(same_but_code(&a, &b));
    b[39] = 8;
    assert!(!same_but_code(&a, &b));
    assert!(!same_but_code(&[], &[]));
}

#[test]
fn what_no_router_answers() {
    let icmp = |kind| {
        crate::ends::tests::frame(
            [10, 0, 0, 1],
            [10, 0, 0, 2],
            1,
            &[kind, 0, 0, 0, 0, 0, 0, 0],
        )
    };
    for (kind, is) in [
        (0, false),
        (8, false),
        (17, false),
        (3, true),
        (11, true),
        (104, true),
    ] {
        assert_eq!(is_unanswered(&icmp(kind)), is, "{kind}");
        assert_eq!(is_error(&icmp(kind)), is && kind < 13, "{kind}");
    }
    let udp = crate::ends::tests::udp([10, 0, 0, 1], 0x0300, [10, 0, 0, 2], 4);
    assert!(!is_unanswered(&udp));
}

#[test]
fn what_has_no_way() {
    let error = |t, c| Form::Error(vec![10, 0, 0, 1, t, c]);
    assert!(no_way(&error(3, 0)) && no_way(&error(3, 1)) && no_way(&error(3, 13)));
    assert!(!no_way(&error(3, 3)) && !no_way(&error(11, 0)));
}

/// IPv6 to a firewall with extension headers that are `rest`, the first one a routing header.
fn extended(rest: &[u8]) -> Vec<u8> {
    let mut f = vec![0u8; 54];
    f[12..14].copy_from_slice(&[0x86, 0xdd]);
    f[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, rest.len() as u8, 43, 64]);
    f[22] = 0x20;
    f[38] = 0x20;
    f.extend(rest);
    f
}

#[test]
fn a_cut_extension_header_is_known_where_only_the_kernel_passes_it() {
    let cut = extended(&[17, 2, 0, 0, 0, 0, 0, 0]);
    let whole = extended(&[17, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 8, 0, 0]);
    let known = |frame: &[u8], tracks, ours: &[&(usize, Form)], theirs: &[&(usize, Form)]| {
        let sent = Sent {
            frame,
            passes: true,
            firewalls: true,
            routers: false,
            iptables: false,
            tracks,
            counts: false,
            asks_assured: false,
            mtu: 1500,
            families: [true; 2],
            networks: &[],
        };
        excuse(&sent, ours, theirs)
    };
    let passed = (1, Form::Packet(cut.clone()));
    assert_eq!(known(&cut, true, &[], &[&passed]), Some(CUT_EXTENSION));
    assert_eq!(
        known(&cut, true, &[&passed], &[]),
        None,
        "the other way round"
    );
    assert_eq!(known(&cut, false, &[], &[&passed]), None, "nobody asks");
    assert_eq!(known(&whole, true, &[], &[&passed]), None, "nothing is cut");
}

#[test]
fn icmp_without_a_whole_word() {
    let mut f = crate::ends::tests::frame([10, 0, 0, 1], [10, 0, 0, 2], 1, &[0; 8]);
    for (n, short) in [(1, true), (3, true), (4, false), (8, false)] {
        f[17] = 20 + n;
        assert_eq!(is_short_icmp(&f[14..]), short, "{n}");
    }
    let udp = crate::ends::tests::udp([10, 0, 0, 1], 1, [10, 0, 0, 2], 4);
    assert!(!is_short_icmp(&udp[14..]) && !is_short_icmp(&[]));
}
