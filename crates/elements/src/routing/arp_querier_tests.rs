//! Tests of [`super`].

use crate::routing::testpkt::*;
use crate::testing::Bench;
use onefold_element::{NameDb, Port};
use onefold_packet::wire::arp;
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp};

const ME: [u8; 6] = [0, 0, 0xc0, 0xae, 0x67, 0xef];
const THEM: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn bench(more: &str) -> Bench {
    Bench::new(
        "ARPQuerier",
        &format!("10.0.0.1/24, 00:00:C0:AE:67:EF{more}"),
        2,
        2,
    )
    .unwrap()
}
fn packet(dst: [u8; 4]) -> Pkt {
    marked(&ip(A, dst, 17, &[], &[1, 2, 3, 4]))
}
fn reply(ip: [u8; 4], eth: [u8; 6]) -> Vec<u8> {
    let mut f = [&ME[..], &eth, &[8, 6]].concat();
    let m = arp::build(
        arp::REPLY,
        (EtherAddr(eth), ip),
        (EtherAddr(ME), [10, 0, 0, 1]),
    );
    f.extend_from_slice(&m);
    f
}
fn ports(out: &[(Port, Pkt)]) -> Vec<Port> {
    out.iter().map(|o| o.0).collect()
}

#[test]
fn asks_waits_and_sends_in_order() {
    let mut b = bench("");
    let mut p = packet([10, 0, 0, 9]);
    p.anno.set_vlan_tci(5);
    let out = b.push_packet(0, p);
    assert_eq!(ports(&out), [1]);
    let mut want = [
        &[0xff; 6][..],
        &ME,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &ME,
        &[10, 0, 0, 1],
    ]
    .concat();
    want.extend_from_slice(&[0, 0, 0, 0, 0, 0, 10, 0, 0, 9]);
    assert_eq!(out[0].1.data(), want);
    assert_eq!(out[0].1.anno.vlan_tci(), 5);
    // at most ten queries a second
    assert!(b.push_packet(0, packet([10, 0, 0, 9])).is_empty());
    b.now = b.now + Timestamp::from_millis(100);
    assert_eq!(ports(&b.push_packet(0, packet([10, 0, 0, 9]))), [1]);
    assert_eq!(b.store.held(), 3);
    assert_eq!(
        (b.read("length").unwrap(), b.read("count").unwrap()),
        ("3".into(), "1".into())
    );
    assert_eq!(
        b.read("table").unwrap(),
        "10.0.0.9 0 FF-FF-FF-FF-FF-FF 0.100000\n"
    );
    let out = b.push(1, &reply([10, 0, 0, 9], THEM));
    assert_eq!(ports(&out), [0, 0, 0]);
    for (_, q) in &out {
        assert_eq!(q.data()[..14], [&THEM[..], &ME, &[8, 0]].concat());
        assert_eq!(q.data()[14..], *packet([10, 0, 0, 9]).data());
        assert_eq!(
            (q.mac_header_offset(), q.network_header_offset()),
            (Some(0), Some(14))
        );
    }
    assert_eq!(b.store.held(), 0);
    assert_eq!(
        b.read("table").unwrap(),
        "10.0.0.9 1 02-00-00-00-00-09 0.000000\n"
    );
    assert_eq!(ports(&b.push_packet(0, packet([10, 0, 0, 9]))), [0]);
    assert_eq!(
        b.read("stats").unwrap(),
        "0 packets killed\n2 ARP queries sent\n"
    );
    assert_eq!(b.read("responses").unwrap(), "1");
    assert_eq!(b.drops()["ARPQuerier: ARP reply, noted"], 1);
}

#[test]
fn special_addresses() {
    let mut b = bench("");
    for (dst, to) in [
        ([255; 4], [0xff; 6]),
        ([10, 0, 0, 255], [0xff; 6]),
        ([224, 129, 2, 3], [1, 0, 0x5e, 1, 2, 3]),
    ] {
        assert_eq!(b.push_packet(0, packet(dst))[0].1.data()[..6], to);
    }
    assert!(b.push_packet(0, packet([0; 4])).is_empty());
    assert!(b.push_packet(0, packet([0; 4])).is_empty());
    assert_eq!(b.read("drops").unwrap(), "2");
    assert_eq!(
        b.host.log,
        "e0 :: ARPQuerier: would query for 0.0.0.0; missing dest IP addr annotation?\n"
    );
    assert_eq!(b.read("broadcast").unwrap(), "10.0.0.255");
    b.write("ipaddr", "0.0.0.0").unwrap();
    assert!(b.push_packet(0, packet([255; 4])).is_empty());
}

#[test]
fn entries_are_renewed_and_expire() {
    let mut b = bench(", TIMEOUT 10, POLL_TIMEOUT 4");
    b.write("insert", "10.0.0.9 2:0:0:0:0:9").unwrap();
    b.now = b.now + Timestamp::from_secs(3);
    assert_eq!(ports(&b.push_packet(0, packet([10, 0, 0, 9]))), [0]);
    b.now = b.now + Timestamp::from_secs(1);
    let out = b.push_packet(0, packet([10, 0, 0, 9]));
    assert_eq!(ports(&out), [1, 0], "the query first");
    assert_eq!(out[0].1.data()[..6], THEM, "to the known address");
    b.now = b.now + Timestamp::from_secs(7);
    assert_eq!(ports(&b.push_packet(0, packet([10, 0, 0, 9]))), [1]);
    assert_eq!(b.store.held(), 1);
    // the timer gives up what nobody answers
    let timers = b.element.initial_timers();
    assert_eq!(timers, [(0, Timestamp::from_secs(10))]);
    b.host.timers.insert(0, b.now);
    b.advance_to(b.now + Timestamp::from_secs(40));
    assert_eq!(b.store.held(), 0);
    assert_eq!(
        b.drops()["ARPTable: next hop did not answer ARP in time"],
        1
    );
    assert_eq!(b.read("count").unwrap(), "0");
    let mut b = bench(", POLL_TIMEOUT 1, BROADCAST_POLL true, TIMEOUT 0");
    assert!(b.element.initial_timers().is_empty());
    b.write("insert", "10.0.0.9 2:0:0:0:0:9").unwrap();
    b.now = b.now + Timestamp::from_secs(100_000);
    assert_eq!(
        b.push_packet(0, packet([10, 0, 0, 9]))[0].1.data()[..6],
        [0xff; 6]
    );
}

#[test]
fn capacities() {
    let mut b = bench(", CAPACITY 4");
    for i in 0..5 {
        b.push_packet(0, packet([10, 0, 0, 10 + i]));
    }
    // the fifth makes it five: half of the four go, oldest first
    assert_eq!(b.read("length").unwrap(), "2");
    assert_eq!(
        b.drops()["ARPTable: next hop did not answer ARP in time"],
        3
    );
    let mut b = bench(", ENTRY_PACKET_CAPACITY 2");
    for _ in 0..5 {
        b.push_packet(0, packet([10, 0, 0, 10]));
    }
    assert_eq!(
        b.drops()["ARPQuerier: too many packets wait for this address"],
        3
    );
    let mut b = bench(", ENTRY_CAPACITY 2");
    for i in 0..5 {
        b.push_packet(0, packet([10, 0, 0, 10 + i]));
    }
    assert_eq!((b.read("count").unwrap(), b.store.held()), ("2".into(), 2));
    assert!(b.read("table").unwrap().starts_with("10.0.0.13 "));
    b.write("clear", "").unwrap();
    assert_eq!((b.read("count").unwrap(), b.store.held()), ("0".into(), 0));
}

#[test]
fn wrong_replies_are_ignored() {
    let mut b = bench("");
    b.push_packet(0, packet([10, 0, 0, 9]));
    let good = reply([10, 0, 0, 9], THEM);
    for (at, v) in [(12, 9), (14, 9), (16, 9), (21, 1), (22, 1)] {
        let mut f = good.clone();
        f[at] = v;
        assert!(b.push(1, &f).is_empty(), "byte {at}");
    }
    for n in 0..good.len() {
        assert!(b.push(1, &good[..n]).is_empty());
    }
    assert_eq!(b.store.held(), 1);
    assert_eq!(b.push(1, &good).len(), 1);
    b.write("delete", "10.0.0.9").unwrap();
    assert_eq!(ports(&b.push_packet(0, packet([10, 0, 0, 9]))), [1]);
    assert!(b.write("insert", "x").is_err());
}

#[test]
fn arguments() {
    let mut names = NameDb::default();
    let d = names.define("", "me");
    d.ip4 = Some([10, 0, 0, 1]);
    d.ether = Some(EtherAddr(ME));
    let mut b = Bench::with_names("ARPQuerier", "me", 2, 1, &names).unwrap();
    let out = b.push_packet(0, Box::new(Packet::from_slice(&[])));
    assert!(out.is_empty());
    for (config, want) in [
        (
            "10.0.0.1",
            "ETH: required argument missing; '10.0.0.1' names no Ethernet address",
        ),
        (
            "10.0.0.1, 5",
            "ETH: expected an Ethernet address, found '5'",
        ),
        (
            "10.0.0.1, 1:1:1:1:1:1, CAPACITY_SLIM_FACTOR 0",
            "CAPACITY_SLIM_FACTOR: cannot be zero",
        ),
        ("10.0.0.1, 1:1:1:1:1:1, FOO 1", "FOO: unknown argument"),
        (
            "10.0.0.1, 1:1:1:1:1:1, TABLE nobody",
            "TABLE: no element named 'nobody'",
        ),
    ] {
        let e = Bench::new("ARPQuerier", config, 2, 1).err().unwrap();
        assert_eq!(e[0], want);
    }
}
