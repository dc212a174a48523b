//! Tests of [`super`].

use crate::ip6::testpkt::*;
use crate::testing::Bench;
use onefold_packet::{Pkt, Timestamp};

const ME: &str = "00:00:c0:ae:67:ef";
const ME_BYTES: [u8; 6] = [0, 0, 0xc0, 0xae, 0x67, 0xef];
const THEM: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn frame(kind: u8, src: &str, dst: &str, target: &str) -> Vec<u8> {
    let mut m = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    m.extend_from_slice(&addr(target));
    m.extend_from_slice(&[1, 1]);
    m.extend_from_slice(&THEM);
    let mut d = ip6(src, dst, 58, &m);
    d[7] = 255;
    put_checksum(&mut d, 42);
    [&[0x33, 0x33, 0xff, 0, 0, 5][..], &THEM, &[0x86, 0xdd], &d].concat()
}

#[test]
fn advertiser_answers_for_its_networks() {
    let c = format!("3ffe:1ce1:2::5/128 {ME}, 3ffe:1ce1:2::/80 2:2:2:2:2:2");
    let mut b = Bench::new("IP6NDAdvertiser", &c, 1, 1).unwrap();
    let f = frame(135, "3ffe::9", "ff02::1:ff00:5", "3ffe:1ce1:2::5");
    let out = b.push(0, &f);
    let q = out[0].1.data();
    assert_eq!(q[..14], [&THEM[..], &ME_BYTES, &[0x86, 0xdd]].concat());
    assert_eq!(q[14 + 8..14 + 24], addr("3ffe:1ce1:2::5"));
    assert_eq!(q[14 + 24..54], addr("3ffe::9"));
    assert_eq!((q[54], q[58], q[14 + 7]), (136, 0xe0, 255));
    assert_eq!(q[62..78], addr("3ffe:1ce1:2::5"));
    assert_eq!(q[78..86], [&[2, 1][..], &ME_BYTES].concat());
    assert!(checksum_ok(&q[14..]));
    let f2 = frame(135, "3ffe::9", "ff02::1:ff00:5", "3ffe:1ce1:2::77");
    let out = b.push(0, &f2);
    assert_eq!(out[0].1.data()[6..12], [2; 6]);
    assert_eq!(out[0].1.data()[58], 0xc0, "a proxy overrides nothing");
    assert_eq!(b.host.decisions[1].0, Some(1));
    assert!(
        b.push(0, &frame(135, "3ffe::9", "::1", "3ffe:9::1"))
            .is_empty()
    );
    for (at, why) in [
        (13, "type"),
        (21, "hop limit"),
        (54, "type"),
        (55, "code"),
        (56, "checksum"),
    ] {
        let mut g = f.clone();
        g[at] ^= 1;
        assert!(b.push(0, &g).is_empty(), "{why}");
    }
    for n in 0..f.len() {
        assert!(b.push(0, &f[..n]).is_empty());
    }
    for bad in ["x", "::1 1:1:1:1:1:1 2:2:2:2:2:2", "1:1:1:1:1:1"] {
        assert!(Bench::new("IP6NDAdvertiser", bad, 1, 1).is_err(), "{bad}");
    }
}

/// A solicitation with these options behind it.
fn asking(src: &str, dst: &str, options: &[u8]) -> Vec<u8> {
    let mut f = frame(135, src, dst, "3ffe:1ce1:2::5")[..14].to_vec();
    let m = [
        &[135, 0, 0, 0, 0, 0, 0, 0][..],
        &addr("3ffe:1ce1:2::5"),
        options,
    ]
    .concat();
    let mut d = ip6(src, dst, 58, &m);
    d[7] = 255;
    put_checksum(&mut d, 42);
    f.extend(d);
    f
}

/// RFC 4861 7.2.4 and 7.1.1: duplicate address detection is answered to all nodes, solicited by nobody;
/// unreachability detection may ask without its own address; what is not valid is not answered.
#[test]
fn advertiser_answers_what_is_valid() {
    let mut b = Bench::new("IP6NDAdvertiser", &format!("3ffe:1ce1:2::5/128 {ME}"), 1, 1).unwrap();
    let (group, own) = ([1, 1, 2, 0, 0, 0, 0, 9], &[][..]);
    let out = b.push(0, &asking("::", "ff02::1:ff00:5", own));
    let q = out[0].1.data();
    assert_eq!(q[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!((&q[38..54], q[58]), (&addr("ff02::1")[..], 0xa0));
    assert!(checksum_ok(&q[14..]));
    let out = b.push(0, &asking("3ffe::9", "3ffe:1ce1:2::5", own));
    assert_eq!(out[0].1.data()[58], 0xe0);
    // unspecified source, but an address or no group; options that do not end
    for bad in [
        asking("::", "ff02::1:ff00:5", &group),
        asking("::", "3ffe:1ce1:2::5", own),
        asking("3ffe::9", "ff02::1:ff00:5", &[1, 0, 0, 0, 0, 0, 0, 0]),
        asking("3ffe::9", "ff02::1:ff00:5", &[1, 2, 0, 0, 0, 0, 0, 0]),
        asking("3ffe::9", "ff02::1:ff00:5", &[1]),
    ] {
        assert!(b.push(0, &bad).is_empty(), "{bad:02x?}");
    }
}

fn packet(dst: &str) -> Pkt {
    let mut p = marked(&ip6("3ffe::1", dst, 17, &[4; 4]));
    p.anno.set_dst_ip6(addr(dst));
    p
}

#[test]
fn solicitor_asks_waits_and_sends() {
    let mut b = Bench::new("IP6NDSolicitor", &format!("3ffe::1, {ME}"), 2, 2).unwrap();
    let out = b.push_packet(0, packet("3ffe::12:3456"));
    assert_eq!(out[0].0, 1);
    let q = out[0].1.data();
    assert_eq!(
        q[..14],
        [
            &[0x33, 0x33, 0xff, 0x12, 0x34, 0x56][..],
            &ME_BYTES,
            &[0x86, 0xdd]
        ]
        .concat()
    );
    assert_eq!(q[14 + 24..54], addr("ff02::1:ff12:3456"));
    assert_eq!(
        (q[54], &q[62..78], &q[80..86]),
        (135, &addr("3ffe::12:3456")[..], &ME_BYTES[..])
    );
    assert!(checksum_ok(&q[14..]));
    // only the last packet waits, and every one asks
    assert_eq!(b.push_packet(0, packet("3ffe::12:3456")).len(), 1);
    assert_eq!(
        (
            b.store.held(),
            b.drops()["IP6NDSolicitor: another packet waits instead"]
        ),
        (1, 1)
    );
    assert_eq!(
        b.read("table").unwrap(),
        "3ffe::12:3456 0 00-00-00-00-00-00\n"
    );
    let out = b.push(1, &frame(136, "3ffe::9", "3ffe::1", "3ffe::12:3456"));
    assert_eq!((out.len(), out[0].0), (1, 0));
    assert_eq!(
        out[0].1.data()[..14],
        [&THEM[..], &ME_BYTES, &[0x86, 0xdd]].concat()
    );
    assert_eq!(b.store.held(), 0);
    assert_eq!(
        b.read("table").unwrap(),
        "3ffe::12:3456 1 02-00-00-00-00-09\n"
    );
    assert_eq!(
        b.read("stats").unwrap(),
        "1 packets killed\n2 ND Solicitation Message sent\n"
    );
    // asked again after a minute, forgotten after two
    b.host.timers.insert(0, b.now);
    b.advance_to(b.now + Timestamp::from_secs(80));
    let ports: Vec<_> = b
        .push_packet(0, packet("3ffe::12:3456"))
        .iter()
        .map(|o| o.0)
        .collect();
    assert_eq!(ports, [1, 0]);
    b.advance_to(b.now + Timestamp::from_secs(80));
    assert_eq!(b.read("table").unwrap(), "");
    assert!(
        b.push(1, &frame(136, "3ffe::9", "3ffe::1", "3ffe::77"))
            .is_empty()
    );
    for n in 0..86 {
        b.push(1, &frame(136, "3ffe::9", "3ffe::1", "3ffe::77")[..n]);
    }
}

#[test]
fn strangers_cannot_fill_the_table_for_good() {
    let mut b = Bench::new("IP6NDSolicitor", &format!("3ffe::1, {ME}"), 2, 1).unwrap();
    for i in 0..super::MAX_NEIGHBORS + 3 {
        b.push_packet(0, packet(&format!("3ffe::{:x}:{:x}", i >> 16, i & 0xffff)));
    }
    assert_eq!(b.store.held(), super::MAX_NEIGHBORS);
    assert_eq!(b.drops()["IP6NDSolicitor: too many neighbors"], 3);
    b.host.timers.insert(0, b.now);
    b.advance_to(b.now + Timestamp::from_secs(1));
    assert_eq!(b.store.held(), 0);
    assert_eq!(
        b.drops()["IP6NDSolicitor: next hop did not answer in time"],
        super::MAX_NEIGHBORS as u64
    );
}
