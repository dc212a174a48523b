//! IPv6: RFC 4443, RFC 4861, RFC 4291.

use crate::router::packets::*;
use onefold_packet::Timestamp;

const ROUTER: &str = r#"interfaces:
  - { name: lan, address6: "2001:db8:1::1/64", mac: "02:00:00:00:00:00", gateway-mac: "02:00:00:00:01:00" }
  - { name: wan, address6: "2001:db8:2::1/64", mac: "02:00:00:00:00:01", gateway-mac: "02:00:00:00:01:01", mtu: 1280 }
  - { name: old, address: 192.0.2.1/30, mac: "02:00:00:00:00:02", gateway-mac: "02:00:00:00:01:02" }
routes:
  - 2001:db8:99::/48 via 2001:db8:2::2
  - fe80::/64 dev wan
  - ff00::/8 dev wan
  - 2001:db8:dead::/48 blackhole"#;

const ME: &str = "2001:db8:1::1";
const OTHER: &str = "2001:db8:2::1";
const HOST: &str = "2001:db8:1::9";
const FAR: &str = "2001:db8:99::7";
const LINK: &str = "fe80::9";

fn router() -> Net {
    Net::router(ROUTER, 3)
}

/// One reply: where it leaves, from whom, to whom.
fn reply(out: &Out) -> (String, [u8; 16], [u8; 16]) {
    assert_eq!(kinds(out), [(129, 0)], "{out:?}");
    let p = &out[0].1;
    assert_eq!((&p[44..48], &p[48..]), (&[0, 1, 0, 2][..], &b"abc"[..]));
    let of = |r: std::ops::Range<usize>| p[r].first_chunk::<16>().copied().expect("a header");
    (out[0].0.clone(), of(8..24), of(24..40))
}

/// RFC 4443 4.2: every own address is answered for, by itself, whichever interface asks.
#[test]
fn pings_to_its_own_addresses_are_answered() {
    let mut r = router();
    for me in [ME, OTHER] {
        let out = r.send(0, &ping6(HOST, me));
        assert_eq!(reply(&out), ("p0".into(), a6(me), a6(HOST)));
        let out = r.send(1, &ping6(FAR, me));
        assert_eq!(reply(&out), ("p1".into(), a6(me), a6(FAR)));
        // back by the way that leads there, not by the way that it came
        let out = r.send(1, &ping6(HOST, me));
        assert_eq!(reply(&out), ("p0".into(), a6(me), a6(HOST)));
        // to its neighbours: where they are
        for n in [0, 1] {
            let out = r.send(n, &ping6(LINK, me));
            assert_eq!(reply(&out), (format!("p{n}"), a6(me), a6(LINK)));
        }
    }
    let mut wrong = ping6(HOST, ME);
    wrong[50] ^= 1;
    assert!(r.send(0, &wrong).is_empty(), "wrong checksum");
    // a ping through the router is forwarded
    let out = r.send(0, &ping6(HOST, FAR));
    assert_eq!(
        (out[0].0.as_str(), kind(&out[0].1), out[0].1[7]),
        ("p1", Some((128, 0)), 63)
    );
}

/// RFC 4443 4.2: pings to all nodes and all routers are answered from the interface's address.
#[test]
fn pings_to_groups_are_answered_from_the_interface() {
    let mut r = router();
    for group in ["ff02::1", "ff02::2"] {
        for (n, me) in [(0, ME), (1, OTHER)] {
            let f = frame([0x33, 0x33, 0, 0, 0, 1], &ping6(LINK, group));
            let out = r.frame(&format!("p{n}"), &f);
            let out: Out = out
                .into_iter()
                .map(|(p, f)| (p, f[14..].to_vec()))
                .collect();
            assert_eq!(reply(&out), (format!("p{n}"), a6(me), a6(LINK)));
        }
    }
    for other in ["ff02::5", "ff05::2", "ff0e::1"] {
        assert!(r.send(0, &ping6(LINK, other)).is_empty(), "{other}");
    }
    // a request to one address in a frame to all
    let f = frame([0x33, 0x33, 0, 0, 0, 1], &ping6(HOST, ME));
    assert!(r.frame("p0", &f).is_empty());
    // an interface whose only address is link-local answers on its link, and speaks for itself elsewhere
    let text = ROUTER.replace("2001:db8:1::1/64", "fe80::1/64");
    let mut r = Net::router(&text, 3);
    assert_eq!(reply(&r.send(0, &ping6(LINK, "fe80::1"))).1, a6("fe80::1"));
    assert!(
        r.send(1, &ping6(LINK, "fe80::1")).is_empty(),
        "another link"
    );
    assert!(r.send(0, &ping6(FAR, "fe80::2")).is_empty());
}

/// RFC 4291 2.5.6: link-local addresses stay on their link, whatever routes say; RFC 4291 2.5.2, 2.5.3, 2.7:
/// unspecified, loopback and multicast sources, and such destinations, are not forwarded.
#[test]
fn what_belongs_to_a_link_stays_there() {
    let mut r = router();
    assert_eq!(r.send(0, &udp6(HOST, FAR, 64))[0].0, "p1");
    for src in [LINK, "febf::1", "::", "::1", "ff02::1", "ff0e::1"] {
        for (dst, hops) in [
            (FAR, 64),
            (FAR, 1),
            ("2001:db8:1::8", 64),
            ("2001:db8:7::1", 64),
        ] {
            let out = r.send(0, &udp6(src, dst, hops));
            assert!(out.is_empty(), "{src} {dst}: {out:?}");
        }
    }
    for dst in [
        LINK, "febf::1", "::", "::1", "ff02::1", "ff05::1", "ff0e::1",
    ] {
        for (n, hops) in [(0, 64), (0, 1), (1, 64)] {
            let out = r.send(n, &udp6(HOST, dst, hops));
            assert!(out.is_empty(), "{dst}: {out:?}");
        }
    }
    // addresses beside the link's are none
    assert_eq!(r.send(0, &udp6("fec0::1", FAR, 64)).len(), 1);
    // what came to everybody is not forwarded
    let f = frame([0x33, 0x33, 0, 0, 0, 1], &udp6(HOST, FAR, 64));
    assert!(r.frame("p0", &f).is_empty());
}

/// RFC 4443 2.4 (e.6): nobody is answered who is no single host.
#[test]
fn sources_that_are_no_host_get_nothing() {
    let mut r = router();
    for src in ["::", "::1", "ff02::1", "ff0e::1"] {
        for d in [ping6(src, ME), udp6(src, ME, 64), ping6(src, "ff02::1")] {
            assert!(r.send(0, &d).is_empty(), "{src}");
        }
    }
    // no errors about errors, multicast, frames to everybody (2.4 e.1, e.3, e.4)
    let error = ip6(HOST, FAR, 58, 1, &[1, 0, 0, 0, 0, 0, 0, 0]);
    assert!(r.send(0, &error).is_empty());
    assert!(r.send(0, &udp6(HOST, "ff0e::9", 1)).is_empty());
    let f = frame([0x33, 0x33, 0, 0, 0, 1], &udp6(HOST, "2001:db8:7::1", 64));
    assert!(r.frame("p0", &f).is_empty());
}

/// RFC 4443 3: hop limit, no route, too big: with the MTU of the link, and as much of the packet as fits in 1280 bytes.
#[test]
fn errors_say_what_is_wrong() {
    let mut r = router();
    let out = r.send(0, &udp6(HOST, FAR, 1));
    assert_eq!(kinds(&out), [(3, 0)]);
    assert_eq!(
        (out[0].0.as_str(), &out[0].1[24..40]),
        ("p0", &a6(HOST)[..])
    );
    assert_eq!(
        kinds(&r.send(0, &udp6(HOST, "2001:db8:7::1", 64))),
        [(1, 0)]
    );
    assert!(r.send(0, &udp6(HOST, "2001:db8:dead::1", 64)).is_empty());
    let long = ip6(HOST, FAR, 17, 64, &[0; 1400]);
    let out = r.send(0, &long);
    let p = &out[0].1;
    assert_eq!((kinds(&out), p.len()), (vec![(2, 0)], 1280));
    assert_eq!(p[44..48], 1280u32.to_be_bytes());
    // with a default route, everything is reached
    let mut r = Net::router(&format!("{ROUTER}\n  - default via 2001:db8:2::2"), 3);
    assert_eq!(r.send(0, &udp6(HOST, "2001:db8:7::1", 64))[0].0, "p1");
    assert!(r.send(0, &udp6(HOST, "fe80::7", 64)).is_empty());
}

/// RFC 4443 2.4 (f).
#[test]
fn errors_are_limited_in_rate() {
    let mut r = router();
    let d = udp6(HOST, FAR, 1);
    let n: usize = (0..1000).map(|_| r.send(0, &d).len()).sum();
    assert_eq!(n, 10);
    let mut n = 0;
    for _ in 0..1000 {
        r.now = r.now + Timestamp::from_millis(1);
        n += r.send(0, &d).len();
    }
    assert!((95..=111).contains(&n), "{n}");
    let n: usize = (0..100).map(|_| r.send(0, &ping6(HOST, ME)).len()).sum();
    assert_eq!(n, 100, "replies are no errors");
}

/// RFC 4861 7.2.4: the router's neighbours find its MAC address, and see that its addresses are taken.
#[test]
fn solicitations_for_its_addresses_are_answered() {
    let mut r = router();
    let ask = |src: &str, dst: &str, options: &[u8]| {
        let m = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &a6(ME), options].concat();
        ip6(src, dst, 58, 255, &m)
    };
    let address = [1, 1, 2, 0, 0, 0, 0, 0x99];
    let group = [0x33, 0x33, 0xff, 0, 0, 1];
    for (src, to, dst) in [
        (LINK, group, "ff02::1:ff00:1"),
        (HOST, group, "ff02::1:ff00:1"),
        (HOST, mac(0), ME),
        (LINK, mac(0), ME),
    ] {
        let out = r.frame("p0", &frame(to, &ask(src, dst, &address)));
        assert_eq!(out.len(), 1, "{src} {dst} {}", r.drops());
        let (port, f) = &out[0];
        assert_eq!((port.as_str(), &f[..6]), ("p0", &[2, 0, 0, 0, 0, 0x99][..]));
        assert_eq!(kind(&f[14..]), Some((136, 0)));
        assert_eq!((&f[62..78], &f[80..86]), (&a6(ME)[..], &mac(0)[..]));
    }
    // duplicate address detection
    let out = r.frame("p0", &frame(group, &ask("::", "ff02::1:ff00:1", &[])));
    assert_eq!((out.len(), &out[0].1[38..54]), (1, &a6("ff02::1")[..]));
    // not for the address of another interface
    let out = r.frame("p1", &frame(group, &ask(LINK, "ff02::1:ff00:1", &address)));
    assert!(out.is_empty());
}
