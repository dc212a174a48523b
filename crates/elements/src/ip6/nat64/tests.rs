//! Packets through the element, whose checksums are summed up here word by word.

use crate::ip6::testpkt::{addr, ip6, put_checksum};
use crate::testing::Bench;
use onefold_packet::{Packet, Pkt, Timestamp};

mod errors;
mod round_trip;

const HOST: &str = "2001:db8::5";
const PREFIX: &str = "64:ff9b:1::/96";
const REMOTE: &str = "64:ff9b:1::198.51.100.7";
const REMOTE4: [u8; 4] = [198, 51, 100, 7];
const HANDLE: [u8; 4] = [240, 0, 0, 0];

fn bench(more: &str) -> Bench {
    Bench::new("NAT64", &format!("{PREFIX}{more}"), 2, 3).unwrap()
}

fn packet(b: &[u8], header: usize) -> Pkt {
    let mut p = Box::new(Packet::from_slice(b));
    p.set_network_header(0, header);
    p
}

/// What leaves, all at this output.
fn send(b: &mut Bench, port: usize, d: &[u8]) -> Vec<Vec<u8>> {
    let header = if port == 0 { 40 } else { 20 };
    let out = b.push_packet(port, packet(d, header));
    assert!(out.iter().all(|(o, _)| *o == port));
    out.into_iter().map(|(_, p)| p.data().to_vec()).collect()
}

fn one(b: &mut Bench, port: usize, d: &[u8]) -> Vec<u8> {
    let mut all = send(b, port, d);
    assert_eq!(all.len(), 1, "{:?}", b.drops());
    all.remove(0)
}

fn lost(b: &mut Bench, port: usize, d: &[u8]) -> String {
    let before = b.drops();
    assert_eq!(send(b, port, d), Vec::<Vec<u8>>::new());
    let after = b.drops();
    let new = after.into_iter().find(|(r, n)| before.get(r) != Some(n));
    new.unwrap().0.trim_start_matches("NAT64: ").to_string()
}

/// RFC 1071, word by word.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut acc = 0u32;
    for part in parts {
        for w in part.chunks(2) {
            acc += u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
            acc = (acc & 0xffff) + (acc >> 16);
        }
    }
    acc as u16
}

fn pseudo4(d: &[u8]) -> Vec<u8> {
    let length = (d.len() as u16 - 20).to_be_bytes();
    [&d[12..20], &[0, d[9]], &length].concat()
}

/// An IPv4 packet; TCP, UDP and ICMP get their checksums.
fn ip4(src: [u8; 4], dst: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut d = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0];
    d.extend(src);
    d.extend(dst);
    d.extend(payload);
    let total = (d.len() as u16).to_be_bytes();
    d[2..4].copy_from_slice(&total);
    let pseudo = match protocol {
        1 => Vec::new(),
        _ => pseudo4(&d),
    };
    if let Some(at) = [(1, 22), (6, 36), (17, 26)]
        .iter()
        .find(|c| c.0 == protocol)
    {
        d[at.1..at.1 + 2].fill(0);
        let c = (!sum(&[&d[20..], &pseudo])).to_be_bytes();
        d[at.1..at.1 + 2].copy_from_slice(&c);
    }
    fill(&mut d);
    d
}

/// The header's checksum.
fn fill(d: &mut [u8]) {
    let n = usize::from(d[0] & 15) * 4;
    d[10..12].fill(0);
    let c = (!sum(&[&d[..n]])).to_be_bytes();
    d[10..12].copy_from_slice(&c);
}

/// Lengths and checksums are right of a packet that is no fragment.
fn check4(d: &[u8]) {
    assert_eq!(usize::from(u16::from_be_bytes([d[2], d[3]])), d.len());
    assert_eq!((d[0], sum(&[&d[..20]])), (0x45, 0xffff));
    let pseudo = match d[9] {
        1 => Vec::new(),
        _ => pseudo4(d),
    };
    assert_eq!(sum(&[&d[20..], &pseudo]), 0xffff, "{d:02x?}");
}

fn check6(d: &[u8]) {
    assert_eq!(usize::from(u16::from_be_bytes([d[4], d[5]])), d.len() - 40);
    assert_eq!(d[0] >> 4, 6);
    let length = (d.len() as u32 - 40).to_be_bytes();
    let sum = sum(&[&d[8..40], &length, &[0, 0, 0, d[6]], &d[40..]]);
    assert_eq!(sum, 0xffff, "{d:02x?}");
}

fn ends4(d: &[u8]) -> ([u8; 4], [u8; 4]) {
    (d[12..16].try_into().unwrap(), d[16..20].try_into().unwrap())
}

fn ends6(d: &[u8]) -> ([u8; 16], [u8; 16]) {
    (d[8..24].try_into().unwrap(), d[24..40].try_into().unwrap())
}

fn udp(length: usize) -> Vec<u8> {
    let mut t = vec![0x10, 0, 0, 53];
    t.extend((length as u16 + 8).to_be_bytes());
    t.extend([0, 0]);
    t.extend((0..length).map(|i| i as u8));
    t
}

fn tcp() -> Vec<u8> {
    vec![
        0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0,
    ]
}

/// With its checksum, at this place of the payload.
fn six(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut d = ip6(HOST, REMOTE, next, payload);
    let at = match next {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    put_checksum(&mut d, 40 + at);
    d
}

/// RFC 7915 sections 4.1 and 5.1, field by field.
#[test]
fn headers_field_by_field() {
    let mut b = bench("");
    let mut d = six(17, &udp(4));
    d[..4].copy_from_slice(&[0x6b, 0x81, 0x23, 0x45]);
    d[7] = 33;
    let out = one(&mut b, 0, &d);
    check4(&out);
    assert_eq!(ends4(&out), (HANDLE, REMOTE4));
    // type of service, length, an identification, no flags; TTL as it was
    assert_eq!((out[1], &out[2..4]), (0xb8, &[0, 32][..]));
    assert_eq!((&out[4..8], out[8], out[9]), (&[0, 1, 0, 0][..], 33, 17));
    assert_eq!(one(&mut b, 0, &d)[4..6], [0, 2]);
    // what is longer than 1,260 bytes is not to be fragmented
    assert_eq!(one(&mut b, 0, &six(17, &udp(1232)))[6..8], [0, 0]);
    let long = one(&mut b, 0, &six(17, &udp(1233)));
    check4(&long);
    assert_eq!(long[4..8], [0, 0, 0x40, 0]);
    let mut r = ip4(REMOTE4, HANDLE, 17, &udp(4));
    (r[1], r[8]) = (0xb8, 7);
    fill(&mut r);
    let back = one(&mut b, 1, &r);
    check6(&back);
    assert_eq!(ends6(&back), (addr(REMOTE), addr(HOST)));
    assert_eq!(back[..8], [0x6b, 0x80, 0, 0, 0, 12, 17, 7]);
}

#[test]
fn frames_and_annotations() {
    let mut b = bench("");
    let macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let frame = [&macs[..], &[0x86, 0xdd], &six(6, &tcp())].concat();
    let mut p = Box::new(Packet::from_slice(&frame));
    p.pull(14);
    p.set_network_header(0, 40);
    let (_, mut p) = b.push_packet(0, p).remove(0);
    check4(p.data());
    assert_eq!(p.anno.dst_ip(), REMOTE4);
    assert_eq!(
        (p.mac_header_offset(), p.transport_header_offset()),
        (Some(-14), Some(20))
    );
    p.push(14);
    assert_eq!(p.data()[..14], [&macs[..], &[8, 0]].concat());
    // and back, with little room in front
    let reply = [&macs[..], &[8, 0], &ip4(REMOTE4, HANDLE, 6, &tcp())].concat();
    let mut p = Box::new(Packet::with_room(0, &reply, 0));
    p.pull(14);
    p.set_network_header(0, 20);
    let (_, mut p) = b.push_packet(1, p).remove(0);
    check6(p.data());
    assert_eq!(p.anno.dst_ip6(), addr(HOST));
    p.push(14);
    assert_eq!(p.data()[..14], [&macs[..], &[0x86, 0xdd]].concat());
}

#[test]
fn echoes() {
    let mut b = bench("");
    let ping = one(&mut b, 0, &six(58, &[128, 0, 0, 0, 0, 9, 0, 1, 1, 2, 3]));
    check4(&ping);
    assert_eq!(
        (ping[9], &ping[20..22], &ping[24..28]),
        (1, &[8, 0][..], &[0, 9, 0, 1][..])
    );
    let pong = one(
        &mut b,
        1,
        &ip4(REMOTE4, HANDLE, 1, &[0, 0, 0, 0, 0, 9, 0, 1, 1, 2, 3]),
    );
    check6(&pong);
    assert_eq!((pong[6], &pong[40..42]), (58, &[129, 0][..]));
    let asked = one(
        &mut b,
        1,
        &ip4(REMOTE4, HANDLE, 1, &[8, 0, 0, 0, 0, 9, 0, 1]),
    );
    check6(&asked);
    assert_eq!(asked[40], 128);
    let answer = one(&mut b, 0, &six(58, &[129, 0, 0, 0, 0, 9, 0, 1]));
    check4(&answer);
    assert_eq!(answer[20], 0);
    // what has no counterpart (RFC 7915 4.2, 5.2)
    for kind in [130, 131, 132, 133, 134, 135, 136, 137, 200] {
        let said = lost(&mut b, 0, &six(58, &[kind, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(said, "ICMP message that has no counterpart", "{kind}");
    }
    for kind in [4, 5, 9, 10, 13, 14, 15, 16, 17, 18, 40] {
        let said = lost(
            &mut b,
            1,
            &ip4(REMOTE4, HANDLE, 1, &[kind, 0, 0, 0, 0, 0, 0, 0]),
        );
        assert_eq!(said, "ICMP message that has no counterpart", "{kind}");
    }
}

/// RFC 7915 section 4.5.
#[test]
fn udp_without_a_checksum() {
    let mut b = bench("");
    one(&mut b, 0, &six(17, &udp(4)));
    let mut r = ip4(REMOTE4, HANDLE, 17, &udp(5));
    r[26..28].fill(0);
    check6(&one(&mut b, 1, &r));
    // padding behind the datagram is in no checksum
    let mut padded = udp(5);
    padded.extend([7; 3]);
    let mut r = ip4(REMOTE4, HANDLE, 17, &padded);
    r[26..28].fill(0);
    let mut out = one(&mut b, 1, &r);
    out.truncate(out.len() - 3);
    out[5] -= 3;
    check6(&out);
    let none = "UDP without a checksum that can be made";
    let mut short = ip4(REMOTE4, HANDLE, 17, &udp(5));
    (short[25], short[26], short[27]) = (200, 0, 0);
    assert_eq!(lost(&mut b, 1, &short), none);
    let mut first = ip4(REMOTE4, HANDLE, 17, &udp(8));
    (first[6], first[26], first[27]) = (0x20, 0, 0);
    fill(&mut first);
    assert_eq!(lost(&mut b, 1, &first), none);
    assert_eq!(lost(&mut b, 0, &ip6(HOST, REMOTE, 17, &udp(4))), none);
}

#[test]
fn fragments() {
    let mut b = bench("");
    let whole = six(17, &udp(56));
    let piece = |offset: u16, more: bool, part: &[u8]| {
        let [x, y] = (offset << 3 | u16::from(more)).to_be_bytes();
        ip6(
            HOST,
            REMOTE,
            44,
            &[&[17, 0, x, y, 0xab, 0xcd, 0x12, 0x35], part].concat(),
        )
    };
    let parts = [
        one(&mut b, 0, &piece(0, true, &whole[40..72])),
        one(&mut b, 0, &piece(4, false, &whole[72..])),
    ];
    let mut together = Vec::new();
    for (p, word) in parts.iter().zip([[0x20, 0], [0, 4]]) {
        assert_eq!((sum(&[&p[..20]]), p[9]), (0xffff, 17));
        assert_eq!((&p[4..6], &p[6..8]), (&[0x12, 0x35][..], &word[..]));
        together.extend(&p[20..]);
    }
    let pseudo = pseudo4(&[&parts[0][..20], &together].concat());
    assert_eq!(sum(&[&together, &pseudo]), 0xffff);
    // an atomic fragment is a whole packet, with the identification that it has
    let atomic = one(&mut b, 0, &piece(0, false, &whole[40..]));
    check4(&atomic);
    assert_eq!(atomic[4..8], [0x12, 0x35, 0, 0]);
    // and from IPv4
    let whole = ip4(REMOTE4, HANDLE, 17, &udp(56));
    let piece = |word: [u8; 2], part: &[u8]| {
        let mut d = whole[..20].to_vec();
        d.extend(part);
        (d[3], d[6], d[7]) = (d.len() as u8, word[0], word[1]);
        fill(&mut d);
        d
    };
    let mut together = Vec::new();
    for (d, word) in [
        (piece([0x20, 0], &whole[20..52]), [0, 1]),
        (piece([0, 4], &whole[52..]), [0, 32]),
    ] {
        let p = one(&mut b, 1, &d);
        assert_eq!((p[6], p[40], p[41]), (44, 17, 0));
        assert_eq!(
            (&p[42..44], &p[44..48]),
            (&word[..], &[0, 0, 0x12, 0x34][..])
        );
        together.extend(&p[48..]);
    }
    let d = ip6(REMOTE, HOST, 17, &together);
    check6(&d);
    // those of ICMP have a checksum over a length that they do not tell
    let mut f = ip4(REMOTE4, HANDLE, 1, &[8, 0, 0, 0, 0, 0, 0, 0]);
    f[6] = 0x20;
    fill(&mut f);
    assert_eq!(lost(&mut b, 1, &f), "fragment of an ICMP message");
    let f = ip6(HOST, REMOTE, 44, &[58, 0, 0, 8, 0, 0, 0, 1, 1, 2, 3, 4]);
    assert_eq!(lost(&mut b, 0, &f), "fragment of an ICMP message");
}

/// RFC 7915 section 4.1: what may be fragmented is cut to what every link takes; what must not is answered.
#[test]
fn long_packets_from_ipv4() {
    let mut b = bench(", MTU 1400, LOWEST_MTU 1300");
    one(&mut b, 0, &six(17, &udp(4)));
    let mut d = ip4(REMOTE4, HANDLE, 17, &udp(3000));
    let all = send(&mut b, 1, &d);
    let mut together = Vec::new();
    for (i, p) in all.iter().enumerate() {
        assert!(p.len() <= 1300);
        assert_eq!(usize::from(u16::from_be_bytes([p[4], p[5]])), p.len() - 40);
        let word = u16::from_be_bytes([p[42], p[43]]);
        assert_eq!(usize::from(word & !7), together.len());
        assert_eq!(
            (word & 1 == 1, &p[44..48]),
            (i + 1 < all.len(), &[0, 0, 0x12, 0x34][..])
        );
        together.extend(&p[48..]);
    }
    assert_eq!((all.len(), together.len()), (3, 3008));
    check6(&ip6(REMOTE, HOST, 17, &together));
    // a fragment is cut further, at its own place
    d[6] = 0x20 | 0x01;
    fill(&mut d);
    let all = send(&mut b, 1, &d);
    let words: Vec<u16> = all
        .iter()
        .map(|p| u16::from_be_bytes([p[42], p[43]]))
        .collect();
    assert_eq!(words, [256 * 8 + 1, 256 * 8 + 1248 + 1, 256 * 8 + 2496 + 1]);
    // as long as the link takes it
    let mut d = ip4(REMOTE4, HANDLE, 17, &udp(1352));
    d[6] = 0x40;
    fill(&mut d);
    assert_eq!(one(&mut b, 1, &d).len(), 1400);
    let mut d = ip4(REMOTE4, HANDLE, 17, &udp(1353));
    d[6] = 0x40;
    fill(&mut d);
    let out = b.push_packet(1, packet(&d, 20));
    assert_eq!((out.len(), out[0].0, out[0].1.data()), (1, 2, &d[..]));
}

#[test]
fn extension_headers_and_options() {
    let mut b = bench("");
    let datagram = six(17, &udp(4))[40..].to_vec();
    let with = |next: u8, headers: &[u8]| ip6(HOST, REMOTE, next, &[headers, &datagram].concat());
    let skipped = with(0, &[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0]);
    let p = one(&mut b, 0, &skipped);
    check4(&p);
    assert_eq!((p.len(), p[9]), (32, 17));
    let passed = with(43, &[17, 0, 4, 0, 0, 0, 0, 0]);
    check4(&one(&mut b, 0, &passed));
    let routed = with(43, &[17, 0, 4, 1, 0, 0, 0, 0]);
    assert_eq!(lost(&mut b, 0, &routed), "source route that has not ended");
    let behind = with(44, &[60, 0, 0, 1, 0, 0, 0, 1, 17, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(
        lost(&mut b, 0, &behind),
        "extension headers behind a fragment header"
    );
    let many = with(60, &[[60, 0, 1, 4, 0, 0, 0, 0]; 9].concat());
    assert_eq!(lost(&mut b, 0, &many), "too many extension headers");
    assert_eq!(lost(&mut b, 0, &with(50, &[])), "neither TCP, UDP nor ICMP");
    // IPv4's options go
    let plain = ip4(REMOTE4, HANDLE, 17, &udp(4));
    let with = |options: [u8; 8]| {
        let mut d = [&plain[..20], &options, &plain[20..]].concat();
        (d[0], d[3]) = (0x47, d.len() as u8);
        fill(&mut d);
        d
    };
    check6(&one(&mut b, 1, &with([1, 7, 7, 4, 0, 0, 0, 0])));
    check6(&one(&mut b, 1, &with([131, 7, 8, 9, 9, 9, 9, 0])));
    let said = lost(&mut b, 1, &with([1, 131, 7, 4, 9, 9, 9, 9]));
    assert_eq!(said, "source route that has not ended");
}

#[test]
fn who_is_not_translated() {
    let mut b = bench("");
    let from_to = |src: &str, dst: &str| {
        let mut d = ip6(src, dst, 17, &udp(4));
        put_checksum(&mut d, 46);
        d
    };
    for (src, dst, why) in [
        (
            HOST,
            "2001:db8::9",
            "destination stands for no IPv4 address",
        ),
        (
            HOST,
            "64:ff9b:1::224.0.0.1",
            "destination is no single IPv4 host",
        ),
        (
            HOST,
            "64:ff9b:1::127.0.0.1",
            "destination is no single IPv4 host",
        ),
        (
            HOST,
            "64:ff9b:1::0.0.0.1",
            "destination is no single IPv4 host",
        ),
        (
            HOST,
            "64:ff9b:1::240.0.0.1",
            "destination is no single IPv4 host",
        ),
        (REMOTE, REMOTE, "source is in the prefix of IPv4 addresses"),
    ] {
        assert_eq!(lost(&mut b, 0, &from_to(src, dst)), why);
    }
    let r = ip4(REMOTE4, HANDLE, 17, &udp(4));
    assert_eq!(lost(&mut b, 1, &r), "no IPv6 host has this handle");
    let mut known = Bench::new("NAT64", "64:ff9b::/96", 2, 2).unwrap();
    let why = "IPv4 address that is not global behind 64:ff9b::/96 (RFC 6052 3.1)";
    let local = from_to(HOST, "64:ff9b::10.0.0.1");
    assert_eq!(lost(&mut known, 0, &local), why);
    check4(&one(&mut known, 0, &from_to(HOST, "64:ff9b::8.8.8.8")));
    let r = ip4([10, 0, 0, 1], HANDLE, 17, &udp(4));
    assert_eq!(lost(&mut known, 1, &r), why);
}

#[test]
fn hosts_and_their_handles() {
    let mut b = bench(", 2001:db8::80, CAPACITY 1, UDP_TIMEOUT 60, SWEEP 30");
    assert_eq!(b.read("hosts").unwrap(), "240.0.0.0 2001:db8::80 -\n");
    let r = ip4(REMOTE4, HANDLE, 6, &tcp());
    assert_eq!(ends6(&one(&mut b, 1, &r)).1, addr("2001:db8::80"));
    let from = |src: &str| {
        let mut d = ip6(src, REMOTE, 17, &udp(4));
        put_checksum(&mut d, 46);
        d
    };
    assert_eq!(ends4(&one(&mut b, 0, &from(HOST))).0, [240, 0, 0, 1]);
    assert_eq!(lost(&mut b, 0, &from("2001:db8::6")), "too many IPv6 hosts");
    b.now = b.now + Timestamp::from_secs(90);
    assert_eq!(lost(&mut b, 0, &from("2001:db8::6")), "too many IPv6 hosts");
    b.now = b.now + Timestamp::from_secs(1);
    assert_eq!(
        ends4(&one(&mut b, 0, &from("2001:db8::6"))).0,
        [240, 0, 0, 1]
    );
    assert_eq!(b.read("count").unwrap(), "2");
}

#[test]
fn arguments() {
    for (c, want) in [
        ("", "PREFIX: required argument missing"),
        ("64:ff9b::/95", "32, 40, 48, 56, 64 or 96 bits"),
        ("64:ff9b::/96, MTU 1000", "MTU: expected 1280 to 65535"),
        ("64:ff9b::/96, LOWEST_MTU 1279", "LOWEST_MTU: expected 1280"),
        (
            "64:ff9b::/96, CAPACITY 0",
            "CAPACITY: expected 1 to 4194304",
        ),
        ("64:ff9b::/96, 10.0.0.1", "HOST_1: expected an IPv6 address"),
        ("64:ff9b::/96, ::7, ::7", "HOST_2: ::7 is there twice"),
    ] {
        let said = Bench::new("NAT64", c, 2, 2).err().unwrap().join("\n");
        assert!(said.contains(want), "{c}: {said}");
    }
}
