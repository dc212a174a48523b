//! IPv4: RFC 1812.

use crate::router::packets::*;
use onefold_packet::Timestamp;

/// Two networks; 10.0.0.0/8 is behind a second router on the first one, and 10.2.0.0/16 is said to be on the link
/// itself.
const ROUTER: &str = r#"interfaces:
  - { name: lan, address: 192.168.1.1/24, mac: "02:00:00:00:00:00", gateway-mac: "02:00:00:00:01:00" }
  - { name: wan, address: 192.0.2.1/30, mac: "02:00:00:00:00:01", gateway-mac: "02:00:00:00:01:01" }
routes:
  - 10.0.0.0/8 via 192.168.1.2
  - 10.2.0.0/16 dev lan
  - 198.51.100.0/24 via 192.0.2.2
  - 203.0.113.0/24 blackhole"#;

const HOST: [u8; 4] = [192, 168, 1, 9];
const FAR: [u8; 4] = [172, 16, 5, 5];
const BEHIND: [u8; 4] = [10, 1, 1, 1];

fn router() -> Net {
    Net::router(ROUTER, 2)
}

const REDIRECT: (u8, u8) = (5, 1);
const EXPIRED: (u8, u8) = (11, 0);

/// RFC 1812 5.2.7.2: the packet leaves by the interface that it came in by, and its source is on the next hop's
/// network.
#[test]
fn redirects_go_to_hosts_on_the_next_hops_network() {
    let mut r = router();
    let d = udp4(HOST, BEHIND, 64);
    let out = r.send(0, &d);
    assert_eq!(out.len(), 2, "redirected, and still forwarded: {out:?}");
    let (port, m) = &out[0];
    assert_eq!((port.as_str(), kind(m)), ("p0", Some(REDIRECT)));
    assert_eq!((&m[12..16], &m[16..20]), (&[192, 168, 1, 1][..], &HOST[..]));
    assert_eq!(m[24..28], [192, 168, 1, 2], "the better next hop");
    assert_eq!((out[1].0.as_str(), out[1].1[8]), ("p0", 63));
    // not on that network, from elsewhere, next hop not on it
    let forwarded = |out: Out| out.len() == 1 && kind(&out[0].1).is_none();
    assert!(forwarded(r.send(0, &udp4(FAR, BEHIND, 64))));
    assert!(forwarded(r.send(1, &udp4(HOST, BEHIND, 64))));
    assert!(forwarded(r.send(0, &udp4(HOST, [10, 2, 0, 1], 64))));
    assert!(forwarded(r.send(0, &udp4(HOST, [198, 51, 100, 7], 64))));
    // its neighbours reach each other
    assert_eq!(
        kinds(&r.send(0, &udp4(HOST, [192, 168, 1, 8], 64))),
        [REDIRECT]
    );
    // a source route, a broadcast
    let lsrr = [131, 7, 4, 10, 1, 1, 1, 0];
    let routed = ip4(HOST, BEHIND, 17, 64, &lsrr, &[0; 12]);
    assert!(forwarded(r.send(0, &routed)));
    for dst in [[192, 168, 1, 255], [255; 4], [192, 168, 1, 0]] {
        assert!(r.send(0, &udp4(HOST, dst, 64)).is_empty(), "{dst:?}");
    }
    let mut r = Net::router(&format!("redirects: false\n{ROUTER}"), 2);
    assert!(forwarded(r.send(0, &d)));
}

/// RFC 1812 4.3.2.8: a token bucket for errors, and one for redirects.
#[test]
fn errors_and_redirects_are_limited_in_rate() {
    let mut r = router();
    let many = |r: &mut Net, d: &[u8], n: usize, step: Timestamp| {
        let mut sent = 0;
        for _ in 0..n {
            r.now = r.now + step;
            sent += kinds(&r.send(0, d)).len();
        }
        sent
    };
    let (old, turned) = (udp4(FAR, [198, 51, 100, 7], 1), udp4(HOST, BEHIND, 64));
    let back = udp4(HOST, [198, 51, 100, 7], 1);
    assert_eq!(many(&mut r, &back, 1000, Timestamp::ZERO), 10);
    // redirects are counted by themselves, and packets are forwarded all the same
    assert_eq!(many(&mut r, &turned, 1000, Timestamp::ZERO), 10);
    assert_eq!(r.send(0, &turned).len(), 1);
    assert_eq!(many(&mut r, &old, 100, Timestamp::ZERO), 0);
    // 100 a second
    let n = many(&mut r, &back, 1000, Timestamp::from_millis(1));
    assert!((95..=111).contains(&n), "{n}");
    // replies to pings are no errors
    assert_eq!(
        many(&mut r, &ping4(HOST, [192, 168, 1, 1]), 100, Timestamp::ZERO),
        100
    );
    let mut r = Net::router(&format!("icmp-rate: 5\nicmp-burst: 3\n{ROUTER}"), 2);
    assert_eq!(many(&mut r, &back, 1000, Timestamp::ZERO), 3);
    let n = many(&mut r, &back, 2000, Timestamp::from_millis(1));
    assert!((9..=13).contains(&n), "{n}");
}

/// Two routers that send each other what they do not know: one packet makes one error, or as many redirects as the rate
/// allows.
#[test]
fn a_loop_of_two_routers_makes_few_messages() {
    let one = |n: u8, other: u8| {
        format!(
            "    router:
      interfaces:
        - {{ address: 192.168.{n}.1/24, mac: \"02:00:00:00:00:00\", gateway-mac: \"02:00:00:00:01:00\" }}
        - {{ address: 172.31.0.{n}/24, mac: \"02:00:00:00:02:{n:02}\", gateway-mac: \"02:00:00:00:02:{other:02}\" }}
      routes: [ \"default via 172.31.0.{other}\" ]\n"
        )
    };
    let text = format!(
        "functions:\n  a:\n{}  b:\n{}links: [ \"a[1] <-> [1]b\" ]\nports: {{ p0: \"a[0]\", p1: \"b[0]\" }}\n",
        one(1, 2),
        one(2, 1)
    );
    let mut net = Net::new(&text);
    let out = net.send(0, &udp4([192, 168, 1, 9], [8, 8, 8, 8], 255));
    assert_eq!(kinds(&out), [EXPIRED], "{}", net.drops());
    // a source on the network between them is told of the way by both
    let out = net.send(0, &udp4([172, 31, 0, 9], [8, 8, 8, 8], 255));
    let made = net.dropped("ICMPError: answered with an ICMP error") - 1;
    let sent = made - net.dropped("ICMP error or redirect above the rate (icmp-rate)");
    // ten redirects each, and one error about the time to live: to a host that is not there
    assert_eq!((made, sent, out.len()), (255, 21, 0), "{}", net.drops());
}

/// Sources that are no single host (RFC 1812 5.3.7, 4.2.2.11): neither answered nor forwarded.
#[test]
fn sources_that_are_no_host_get_nothing() {
    let mut r = router();
    let me = [192, 168, 1, 1];
    assert_eq!(kinds(&r.send(0, &ping4(HOST, me))), [(0, 0)]);
    for src in [
        [255; 4],
        [192, 168, 1, 255],
        [192, 168, 1, 0],
        [224, 0, 0, 1],
        [239, 255, 255, 255],
        [240, 1, 1, 1],
        [127, 0, 0, 1],
        [0; 4],
        [0, 1, 2, 3],
    ] {
        for d in [
            ping4(src, me),
            udp4(src, me, 64),
            udp4(src, [198, 51, 100, 7], 64),
            udp4(src, [198, 51, 100, 7], 1),
            udp4(src, [9, 9, 9, 9], 64),
            udp4(src, BEHIND, 64),
        ] {
            let out = r.send(0, &d);
            assert!(out.is_empty(), "{src:?}: {out:?}");
        }
    }
    // the broadcast addresses of the other interface's network are no hosts either
    for src in [[192, 0, 2, 3], [192, 0, 2, 0]] {
        assert!(r.send(0, &ping4(src, me)).is_empty());
        assert!(r.send(0, &udp4(src, [9, 9, 9, 9], 64)).is_empty());
    }
}

/// Destinations that are no single host (RFC 1812 4.3.2.7, 5.3.7): no replies, no errors, not forwarded.
#[test]
fn destinations_that_are_no_host_get_no_answer() {
    let mut r = router();
    for dst in [
        [255; 4],
        [192, 168, 1, 255],
        [192, 168, 1, 0],
        [192, 0, 2, 3],
        [224, 0, 0, 1],
        [239, 1, 1, 1],
        [240, 1, 1, 1],
        [127, 0, 0, 1],
        [0; 4],
        [0, 9, 9, 9],
    ] {
        for d in [ping4(HOST, dst), udp4(HOST, dst, 1), udp4(HOST, dst, 64)] {
            let out = r.send(0, &d);
            assert!(out.is_empty(), "{dst:?}: {out:?}");
        }
    }
    // a frame to everybody (RFC 1812 5.3.4, 4.3.2.7)
    for to in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        for d in [
            ping4(HOST, [192, 168, 1, 1]),
            udp4(HOST, [198, 51, 100, 7], 1),
            udp4(HOST, [198, 51, 100, 7], 64),
            udp4(HOST, [9, 9, 9, 9], 64),
            udp4(HOST, [192, 168, 1, 1], 64),
        ] {
            assert!(r.frame("p0", &frame(to, &d)).is_empty());
        }
    }
    // a route that names such a network is followed
    let mut r = Net::router(&format!("{ROUTER}\n  - 239.0.0.0/8 dev wan"), 2);
    assert_eq!(r.send(0, &udp4(HOST, [239, 1, 1, 1], 64)).len(), 1);
}

/// RFC 1812 4.3.2.7: no errors about errors, nor about fragments but the first.
#[test]
fn errors_and_later_fragments_cause_no_errors() {
    let mut r = router();
    let far = [198, 51, 100, 7];
    for t in [3, 4, 5, 11, 12] {
        let d = ip4(HOST, far, 1, 1, &[], &icmp(t, 0, &[0x45; 28]));
        assert!(r.send(0, &d).is_empty(), "{t}");
    }
    let d = ip4(HOST, far, 1, 1, &[], &icmp(8, 0, &[]));
    assert_eq!(kinds(&r.send(0, &d)), [EXPIRED]);
    let mut d = udp4(HOST, far, 1);
    d[7] = 1;
    fix(&mut d);
    assert!(r.send(0, &d).is_empty());
    d[6..8].copy_from_slice(&[0x20, 0]);
    fix(&mut d);
    assert_eq!(kinds(&r.send(0, &d)), [EXPIRED]);
}

/// RFC 1812 4.3.3.1: where nothing leads, and where nobody listens.
#[test]
fn what_cannot_be_reached_is_said() {
    let mut r = router();
    let me = [192, 168, 1, 1];
    let said = |out: Out| kinds(&out);
    let out = r.send(0, &udp4(HOST, [9, 9, 9, 9], 64));
    assert_eq!(
        (out[0].0.as_str(), &out[0].1[12..20]),
        ("p0", &[me, HOST].concat()[..])
    );
    assert_eq!(said(out), [(3, 0)]);
    assert_eq!(said(r.send(0, &udp4(HOST, me, 64))), [(3, 3)]);
    let odd = ip4(HOST, me, 99, 64, &[], &[0; 8]);
    assert_eq!(said(r.send(0, &odd)), [(3, 2)]);
    // a blackhole says nothing, and nothing is said of TCP, which has its own way
    assert!(r.send(0, &udp4(HOST, [203, 0, 113, 1], 64)).is_empty());
    assert!(r.send(0, &ip4(HOST, me, 6, 64, &[], &[0; 20])).is_empty());
    // with a default route, everything is reached
    let mut r = Net::router(&format!("{ROUTER}\n  - default via 192.0.2.2"), 2);
    assert_eq!(r.send(0, &udp4(HOST, [9, 9, 9, 9], 64))[0].0, "p1");
}

/// A damaged or incomplete request has no reply (RFC 1122 3.2.2, RFC 792).
#[test]
fn only_whole_requests_are_answered() {
    let mut r = router();
    let d = ping4(HOST, [192, 0, 2, 1]);
    let out = r.send(0, &d);
    assert_eq!((out[0].0.as_str(), kind(&out[0].1)), ("p0", Some((0, 0))));
    assert_eq!(out[0].1[12..20], [[192, 0, 2, 1], HOST].concat());
    let mut bad = d.clone();
    bad[28] ^= 1;
    assert!(r.send(0, &bad).is_empty(), "wrong checksum");
    let mut part = d;
    part[6] = 0x20;
    fix(&mut part);
    assert!(r.send(0, &part).is_empty(), "a fragment");
}
