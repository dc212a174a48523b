//! Tests of [`super`].

use crate::ip6::testpkt::*;
use crate::testing::Bench;
use onefold_element::Accounts;

#[test]
fn checks_in_order_and_cuts_padding() {
    let mut b = Bench::new("CheckIP6Header", "2001:db8::bad 2001:db8::worse0", 1, 2);
    assert!(b.is_err());
    b = Bench::new("CheckIP6Header", "2001:db8::bad ::1, 2", 1, 2);
    let mut b = b.unwrap();
    let d = ip6("2001:db8::1", "2001:db8::2", 17, &[1; 8]);
    let mut padded = [&[0, 0][..], &d, &[9; 5]].concat();
    let out = b.push(0, &padded);
    let q = &out[0].1;
    assert_eq!((out[0].0, q.len()), (0, 50));
    assert_eq!(
        (q.network_header_offset(), q.transport_header_offset()),
        (Some(2), Some(42))
    );
    for src in [
        "2001:db8::bad",
        "::1",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ] {
        let f = [&[0, 0][..], &ip6(src, "2001:db8::2", 17, &[])].concat();
        assert_eq!(b.push(0, &f)[0].0, 1, "{src}");
    }
    padded[2] = 0x45;
    assert_eq!(b.push(0, &padded)[0].0, 1);
    padded[2] = 0x60;
    padded[6..8].copy_from_slice(&[0, 14]);
    assert_eq!(b.push(0, &padded)[0].0, 1, "longer than the packet");
    for n in 0..50 {
        assert_eq!(b.push(0, &padded[..n])[0].0, 1);
    }
    assert_eq!(b.read("drops").unwrap(), "55");
    assert_eq!(b.host.log, "IP6 header check failed\n");
}

/// Whoever counts passed packets may tell of many at once; what is printed has its place.
#[test]
fn passed_packets_are_told_of_later() {
    let check = (super::CHECK_IP6_HEADER.new)();
    assert_eq!(check.accounts(super::PASSED), Accounts::Later);
    assert_eq!(check.accounts(super::DROPPED), Accounts::Now);
    assert_eq!((super::DEC_IP6_HLIM.new)().accounts(0), Accounts::Later);
}

#[test]
fn bad_sources_may_be_prefixes() {
    let c = "::/127 ff00::/8 2001:db8::bad";
    let mut b = Bench::new("CheckIP6Header", c, 1, 2).unwrap();
    let mut port = |src: &str| b.push(0, &ip6(src, "2001:db8::2", 17, &[]))[0].0;
    for bad in ["::", "::1", "ff00::", "ff02::1", "2001:db8::bad"] {
        assert_eq!(port(bad), 1, "{bad}");
    }
    for good in ["::2", "feff::1", "2001:db8::bae"] {
        assert_eq!(port(good), 0, "{good}");
    }
}

#[test]
fn extension_headers_may_be_followed() {
    let d = ip6(
        "2001:db8::1",
        "2001:db8::2",
        0,
        &[17, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5],
    );
    for (config, at) in [("", 40), ("PROCESS_EH true", 48)] {
        let mut b = Bench::new("CheckIP6Header", config, 1, 1).unwrap();
        assert_eq!(b.push(0, &d)[0].1.transport_header_offset(), Some(at));
    }
}

#[test]
fn hop_limit() {
    let mut b = Bench::new("DecIP6HLIM", "", 1, 2).unwrap();
    for n in 0..=255u8 {
        let mut d = ip6("::1", "::2", 17, &[]);
        d[7] = n;
        let out = b.push_packet(0, marked(&d));
        let want = if n <= 1 { (1, n) } else { (0, n - 1) };
        assert_eq!((out[0].0, out[0].1.data()[7]), want);
    }
    assert_eq!(b.read("drops").unwrap(), "2");
    assert!(b.push(0, &[0x60; 40]).is_empty());
    assert!(b.push_packet(0, marked(&[0x60; 39])).is_empty());
    assert!(Bench::new("DecIP6HLIM", "1", 1, 1).is_err());
}

#[test]
fn annotations() {
    let d = ip6("2001:db8::1", "2001:db8::2", 17, &[]);
    let mut b = Bench::new("GetIP6Address", "24", 1, 1).unwrap();
    assert_eq!(b.push(0, &d)[0].1.anno.dst_ip6(), addr("2001:db8::2"));
    assert!(b.push(0, &d[..39]).is_empty());
    let mut b = Bench::new("SetIP6Address", "2001:db8::7", 1, 1).unwrap();
    assert_eq!(b.push(0, &[])[0].1.anno.dst_ip6(), addr("2001:db8::7"));
    let e = Bench::new("SetIP6Address", "1.2.3.4", 1, 1).err().unwrap();
    assert_eq!(e, ["IPADDR: expected an IPv6 address, found '1.2.3.4'"]);
    let mut b = Bench::new("MarkIP6Header", "14", 1, 1).unwrap();
    let out = b.push(0, &d);
    assert_eq!(out[0].1.transport_header_offset(), Some(54));
    assert_eq!(b.push(0, &[1]).len(), 1, "a packet that ends before OFFSET");
}

#[test]
fn writers() {
    let mut b = Bench::new("SetIP6DSCP", "46", 1, 1).unwrap();
    let mut d = ip6("::1", "::2", 17, &[]);
    d[..2].copy_from_slice(&[0x6f, 0xff]);
    assert_eq!(b.push_packet(0, marked(&d))[0].1.data()[..2], [0x6b, 0xbf]);
    b.write("dscp", "0").unwrap();
    assert_eq!(b.push_packet(0, marked(&d))[0].1.data()[..2], [0x60, 0x3f]);
    assert!(b.write("dscp", "64").is_err());
    assert!(Bench::new("SetIP6DSCP", "64", 1, 1).is_err());
    let mut b = Bench::new("IP6Mirror", "", 1, 1).unwrap();
    let d = ip6("::1", "::2", 17, &[1, 2, 3, 4, 0, 8, 0, 0]);
    let out = b.push_packet(0, marked(&d));
    assert_eq!(out[0].1.data()[40..44], [3, 4, 1, 2]);
    assert_eq!(out[0].1.data()[8..40], ip6("::2", "::1", 17, &[])[8..40]);
    let d = ip6("::1", "::2", 17, &[1, 2, 3, 4, 0, 8, 0]);
    assert_eq!(
        b.push_packet(0, marked(&d))[0].1.data()[40..44],
        [1, 2, 3, 4]
    );
}

#[test]
fn encapsulates() {
    let c = "4, 2000:10:1::2, 2000:20:1::2, HLIM 20, CLASS 3";
    let mut b = Bench::new("IP6Encap", c, 1, 1).unwrap();
    let out = b.push(0, &[7; 3]);
    let mut want = vec![0x60, 0x30, 0, 0, 0, 3, 4, 20];
    want.extend_from_slice(&addr("2000:10:1::2"));
    want.extend_from_slice(&addr("2000:20:1::2"));
    want.extend_from_slice(&[7; 3]);
    assert_eq!(out[0].1.data(), want);
    assert_eq!(out[0].1.anno.dst_ip6(), addr("2000:20:1::2"));
    assert_eq!(b.read("src").unwrap(), "2000:10:1::2");
    b.write("dst", "DST_ANNO").unwrap();
    let mut p = marked(&[]);
    p.anno.set_dst_ip6(addr("::9"));
    assert_eq!(b.push_packet(0, p)[0].1.data()[24..40], addr("::9"));
    assert!(Bench::new("IP6Encap", "udp, ::1, here", 1, 1).is_err());
    assert!(Bench::new("IP6Encap", "300, ::1, ::2", 1, 1).is_err());
}
