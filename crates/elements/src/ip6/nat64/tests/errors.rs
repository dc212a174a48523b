//! ICMP errors, with what they quote.

use super::*;

/// An error about the beginning of a packet.
fn error6(src: &str, dst: &str, head: [u8; 8], about: &[u8]) -> Vec<u8> {
    let mut d = ip6(src, dst, 58, &[&head[..], about].concat());
    put_checksum(&mut d, 42);
    d
}

fn error4(src: [u8; 4], head: [u8; 8], about: &[u8]) -> Vec<u8> {
    ip4(src, HANDLE, 1, &[&head[..], about].concat())
}

#[test]
fn errors_from_ipv4() {
    let mut b = bench("");
    for sent in [
        six(17, &udp(40)),
        six(6, &tcp()),
        six(58, &[128, 0, 0, 0, 0, 9, 0, 1]),
    ] {
        let about = one(&mut b, 0, &sent);
        for n in [about.len(), 28] {
            let e = error4([192, 0, 2, 1], [11, 0, 0, 0, 0, 0, 0, 0], &about[..n]);
            let e = one(&mut b, 1, &e);
            check6(&e);
            assert_eq!(ends6(&e), (addr("64:ff9b:1::192.0.2.1"), addr(HOST)));
            assert_eq!(e[40..42], [3, 0]);
            // the packet as it was sent, or its beginning
            assert_eq!(e[48..], sent[..n + 20]);
        }
    }
    let about = one(&mut b, 0, &six(17, &udp(1400)));
    let e = error4([192, 0, 2, 1], [3, 4, 0, 0, 0, 0, 5, 0x78], &about[..548]);
    let e = one(&mut b, 1, &e);
    check6(&e);
    // 1400 for IPv4 are 1420
    assert_eq!(e[40..48], [&[2, 0], &e[42..44], &[0, 0, 5, 0x8c]].concat());
    let e = error4([192, 0, 2, 1], [3, 4, 0, 0, 0, 0, 5, 0x78], &about);
    assert_eq!(one(&mut b, 1, &e).len(), 1280);
    let mut wrong = error4([192, 0, 2, 1], [3, 4, 0, 0, 0, 0, 5, 0x78], &about);
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(lost(&mut b, 1, &wrong), "ICMP error with a wrong checksum");
    let nobody = ip4([240, 0, 0, 9], REMOTE4, 17, &udp(4));
    let e = error4([192, 0, 2, 1], [3, 1, 0, 0, 0, 0, 0, 0], &nobody);
    assert_eq!(lost(&mut b, 1, &e), "ICMP error about a packet of nobody's");
    // an error about an error
    let about = ip4(HANDLE, REMOTE4, 1, &[3, 1, 0, 0, 0, 0, 0, 0]);
    let e = error4([192, 0, 2, 1], [3, 1, 0, 0, 0, 0, 0, 0], &about);
    assert_eq!(lost(&mut b, 1, &e), "ICMP message that has no counterpart");
}

#[test]
fn errors_from_ipv6() {
    let mut b = bench("");
    one(&mut b, 0, &six(17, &udp(4)));
    for sent in [
        ip4(REMOTE4, HANDLE, 17, &udp(40)),
        ip4(REMOTE4, HANDLE, 6, &tcp()),
        ip4(REMOTE4, HANDLE, 1, &[0, 0, 0, 0, 0, 9, 0, 1]),
    ] {
        let about = one(&mut b, 1, &sent);
        // by the host, and by a router in front of it
        for from in [HOST, "2001:db8::1"] {
            let e = error6(from, REMOTE, [1, 4, 0, 0, 0, 0, 0, 0], &about);
            let e = one(&mut b, 0, &e);
            check4(&e);
            assert_eq!((ends4(&e), &e[20..22]), ((HANDLE, REMOTE4), &[3, 3][..]));
            let quoted = &e[28..];
            assert_eq!((&quoted[..4], sum(&[&quoted[..20]])), (&sent[..4], 0xffff));
            assert_eq!((&quoted[8..10], &quoted[12..]), (&sent[8..10], &sent[12..]));
        }
    }
    let about = one(&mut b, 1, &ip4(REMOTE4, HANDLE, 17, &udp(1000)));
    let e = one(
        &mut b,
        0,
        &error6(HOST, REMOTE, [2, 0, 0, 0, 0, 0, 5, 0x14], &about),
    );
    check4(&e);
    // 1300 for IPv6 are 1280; RFC 1812: no longer than 576 bytes
    assert_eq!(
        (&e[20..22], &e[24..28], e.len()),
        (&[3, 4][..], &[0, 0, 5, 0][..], 576)
    );
    let mut wrong = error6(HOST, REMOTE, [1, 4, 0, 0, 0, 0, 0, 0], &about);
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(lost(&mut b, 0, &wrong), "ICMP error with a wrong checksum");
    let nobody = ip6(REMOTE, "2001:db8::77", 17, &udp(4));
    let e = error6(HOST, REMOTE, [1, 4, 0, 0, 0, 0, 0, 0], &nobody);
    assert_eq!(lost(&mut b, 0, &e), "ICMP error about a packet of nobody's");
    // that makes nobody known
    assert_eq!(b.read("count").unwrap(), "1");
}
