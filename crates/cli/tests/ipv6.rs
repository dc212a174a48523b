//! IPv6 through the binary, from captures to captures: prefixes that are translated, servers that connections go to.
//! Packets are made and taken apart by another library.

use crate::common::{json, run, temp};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use onefold_capture::{CaptureReader, CaptureWriter, LinkType};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::path::Path;

fn at(text: &str, port: u16) -> SocketAddrV6 {
    SocketAddrV6::new(text.parse().unwrap(), port, 0, 0)
}

/// A UDP datagram in its frame.
fn udp(src: SocketAddrV6, dst: SocketAddrV6) -> Vec<u8> {
    let b = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv6(src.ip().octets(), dst.ip().octets(), 64)
        .udp(src.port(), dst.port());
    let mut f = Vec::new();
    b.write(&mut f, b"a payload").unwrap();
    f
}

/// Writes frames, a millisecond apart, the first one this many milliseconds from the beginning.
fn write(dir: &Path, name: &str, first: i64, frames: &[Vec<u8>]) {
    let mut w = CaptureWriter::create_for(dir.join(name), LinkType::ETHERNET).unwrap();
    for (i, f) in (first..).zip(frames) {
        w.write(i * 1_000_000, f, f.len() as u32).unwrap();
    }
}

/// The flows of a capture, whose checksums must be right.
fn read(dir: &Path, name: &str) -> Vec<(SocketAddrV6, SocketAddrV6)> {
    let frames = CaptureReader::open(dir.join(name)).unwrap();
    let flow = |f: onefold_capture::Frame| {
        let p = SlicedPacket::from_ethernet(&f.data).unwrap();
        let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Udp(udp))) = (&p.net, &p.transport)
        else {
            panic!("{:02x?}", f.data);
        };
        let (src, dst) = (ip.header().source(), ip.header().destination());
        let header = udp.to_header();
        let right = header
            .calc_checksum_ipv6_raw(src, dst, udp.payload())
            .unwrap();
        assert_eq!(header.checksum, right);
        let end = |a: [u8; 16], port| SocketAddrV6::new(Ipv6Addr::from(a), port, 0, 0);
        (
            end(src, udp.source_port()),
            end(dst, udp.destination_port()),
        )
    };
    frames.map(|f| flow(f.unwrap())).collect()
}

fn swapped(all: &[(SocketAddrV6, SocketAddrV6)]) -> Vec<Vec<u8>> {
    all.iter().map(|(src, dst)| udp(*dst, *src)).collect()
}

#[test]
fn prefixes_there_and_back() {
    let dir = temp("ipv6-prefixes");
    let chain = "functions:\n  npt:\n    nat:\n      prefixes:\n        - { inside: \"fd01:203:405::/48\", outside: \
                 \"2001:db8:1::/48\" }\nports: { lan: \"npt[0]\", wan: \"npt[1]\" }\n";
    std::fs::write(dir.join("npt.yaml"), chain).unwrap();
    run(&dir, 0, &["check", "npt.yaml"]);
    run(&dir, 0, &["verify", "npt.yaml", "--prove"]);
    let hosts: Vec<SocketAddrV6> = (1..=100u16)
        .map(|n| at(&format!("fd01:203:405:{n:x}::1234"), 1000 + n))
        .collect();
    let remote = at("3fff::5", 53);
    let sent: Vec<Vec<u8>> = hosts.iter().map(|h| udp(*h, remote)).collect();
    write(&dir, "lan.pcap", 0, &sent);
    let args = |files: &[&'static str]| -> Vec<&'static str> {
        [&["run", "npt.yaml", "-q"], files].concat()
    };
    let out = args(&["--in", "lan=lan.pcap", "--out", "wan=wan.pcap"]);
    let r = json(&dir, 0, &out);
    assert_eq!(r["ports"]["wan"]["out"]["packets"], 100, "{r}");
    let shown = read(&dir, "wan.pcap");
    // RFC 6296 section 3.6
    assert_eq!(shown[0].0, at("2001:db8:1:d550::1234", 1001));
    for ((src, dst), host) in shown.iter().zip(&hosts) {
        assert_eq!((src.port(), *dst), (host.port(), remote));
        let (a, b) = (src.ip().segments(), host.ip().segments());
        assert_eq!((&a[..3], &a[4..]), (&[0x2001, 0xdb8, 1][..], &b[4..]));
    }
    write(&dir, "answers.pcap", 0, &swapped(&shown));
    json(
        &dir,
        0,
        &args(&["--in", "wan=answers.pcap", "--out", "lan=back.pcap"]),
    );
    let back: Vec<SocketAddrV6> = read(&dir, "back.pcap").iter().map(|f| f.1).collect();
    assert_eq!(back, hosts);
    // each packet's way is told, and what became of one that has none
    let (out, _) = run(&dir, 0, &["trace", "npt.yaml", "--in", "lan=lan.pcap#1"]);
    assert!(out.contains("becomes 2001:db8:1:d550::1234"), "{out}");
    write(&dir, "other.pcap", 0, &[udp(at("fd09::1", 1), remote)]);
    let r = json(&dir, 0, &args(&["--in", "lan=other.pcap"]));
    let drops = r["drops"].to_string();
    assert!(
        drops.contains("source address is in no prefix that is translated"),
        "{drops}"
    );
}

#[test]
fn servers_of_connections() {
    let dir = temp("ipv6-servers");
    let chain = "functions:\n  lb:\n    load-balancer:\n      address: \"2001:db8:80::80\"\n      ports: [80]\n      \
                 policy: maglev\n      servers:\n        - { address: \"2001:db8:3::1\", weight: 2 }\n        \
                 - { address: \"2001:db8:3::2\", port: 8080 }\n        - { address: \"2001:db8:3::3\", weight: 0 }\n\
                 ports: { clients: \"lb[0]\", servers: \"lb[1]\" }\n";
    std::fs::write(dir.join("lb.yaml"), chain).unwrap();
    run(&dir, 0, &["check", "lb.yaml"]);
    run(&dir, 0, &["verify", "lb.yaml", "--prove"]);
    run(&dir, 0, &["verify", "lb.yaml", "--packets", "2000"]);
    let vip = at("2001:db8:80::80", 80);
    let clients: Vec<SocketAddrV6> = (1..=300u16)
        .map(|n| at(&format!("2001:db8:9::{n:x}"), 2000 + n))
        .collect();
    let sent: Vec<Vec<u8>> = clients.iter().map(|c| udp(*c, vip)).collect();
    write(&dir, "clients.pcap", 0, &sent);
    let first = [
        "run",
        "lb.yaml",
        "-q",
        "--in",
        "clients=clients.pcap",
        "--out",
        "servers=servers.pcap",
    ];
    json(&dir, 0, &first);
    let asked = read(&dir, "servers.pcap");
    let mut shares = BTreeMap::new();
    for ((src, dst), client) in asked.iter().zip(&clients) {
        assert_eq!(src, client);
        *shares.entry(dst.to_string()).or_insert(0) += 1;
    }
    let names: Vec<&str> = shares.keys().map(String::as_str).collect();
    assert_eq!(names, ["[2001:db8:3::1]:80", "[2001:db8:3::2]:8080"]);
    let of_first = shares["[2001:db8:3::1]:80"];
    assert!(
        (170..230).contains(&of_first),
        "two thirds of 300: {shares:?}"
    );
    // who is asked by the same clients again answers them, and later packets stay with them
    write(&dir, "answers.pcap", 1000, &swapped(&asked));
    let twice = [sent.clone(), sent].concat();
    write(&dir, "more.pcap", 0, &twice);
    let both = [
        "run",
        "lb.yaml",
        "-q",
        "--in",
        "clients=more.pcap",
        "--in",
        "servers=answers.pcap",
        "--out",
        "servers=again.pcap",
        "--out",
        "clients=back.pcap",
    ];
    let r = json(&dir, 0, &both);
    assert_eq!(r["ports"]["clients"]["out"]["packets"], 300, "{r}");
    let again = read(&dir, "again.pcap");
    assert_eq!((&again[..300], &again[300..]), (&asked[..], &asked[..]));
    let back: Vec<_> = read(&dir, "back.pcap");
    let wanted: Vec<_> = clients.iter().map(|c| (vip, *c)).collect();
    assert_eq!(back, wanted);
}
