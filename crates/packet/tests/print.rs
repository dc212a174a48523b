//! Packets are printed as tcpdump prints them: many kinds of them, made here, and those of tcpdump's own captures.

use onefold_capture::{CaptureReader, CaptureWriter, Format, LinkType};
use onefold_packet::print;
use std::io::Write;
use std::process::{Command, Stdio};

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    let to_from = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    [&to_from[..], &kind.to_be_bytes(), rest].concat()
}

/// An IPv4 packet with `word` for flags and fragment offset.
fn ip4(protocol: u8, word: u16, body: &[u8]) -> Vec<u8> {
    let total = (20 + body.len()) as u16;
    let mut b = vec![0x45, 0];
    b.extend(total.to_be_bytes());
    b.extend([0, 7]);
    b.extend(word.to_be_bytes());
    b.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    b.extend(body);
    b
}

fn ip6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut b = vec![0x60, 0, 0, 0];
    b.extend((body.len() as u16).to_be_bytes());
    b.extend([next, 64]);
    for last in [1, 2] {
        b.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    b.extend(body);
    b
}

/// TCP from port 1234 to 4321.
fn tcp(flags: u8, options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut b = vec![4, 210, 0x10, 0xe1, 0, 0, 0, 1, 0, 0, 0, 9];
    b.extend([
        (((20 + options.len()) / 4) << 4) as u8,
        flags,
        2,
        0,
        0,
        0,
        0,
        5,
    ]);
    b.extend(options);
    b.extend(data);
    b
}

/// UDP that says it has so many bytes.
fn udp(length: u16, data: &[u8]) -> Vec<u8> {
    let mut b = vec![4, 210, 0x10, 0xe1];
    b.extend(length.to_be_bytes());
    b.extend([0, 0]);
    b.extend(data);
    b
}

fn arp(op: u8, asked_mac: u8) -> Vec<u8> {
    let mut b = vec![0, 1, 8, 0, 6, 4, 0, op, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1];
    b.extend([asked_mac; 6]);
    b.extend([10, 0, 0, 2]);
    b
}

/// ICMP or ICMPv6: type, code, four bytes, and what follows.
fn icmp(kind: u8, code: u8, word: [u8; 4], rest: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0][..], &word, rest].concat()
}

fn icmp4() -> Vec<Vec<u8>> {
    let about = |protocol| ip4(protocol, 0, &tcp(2, &[], &[]));
    let mut all = vec![
        icmp(8, 0, [0, 1, 0, 2], &[0; 56]),
        icmp(0, 0, [0, 1, 0, 2], &[0; 56]),
        icmp(3, 3, [0; 4], &about(6)),
        icmp(3, 3, [0; 4], &about(17)),
        icmp(3, 3, [0; 4], &about(132)),
        icmp(3, 4, [0, 0, 5, 0], &about(6)),
        icmp(3, 4, [0, 0, 0, 0], &about(6)),
        icmp(4, 0, [0; 4], &about(6)),
        icmp(11, 0, [0; 4], &about(6)),
        icmp(11, 1, [0; 4], &about(6)),
        icmp(11, 7, [0; 4], &about(6)),
        icmp(12, 0, [20, 0, 0, 0], &about(6)),
        icmp(12, 1, [20, 0, 0, 0], &about(6)),
        icmp(10, 0, [0; 4], &[]),
        icmp(13, 0, [0, 1, 0, 2], &[0; 12]),
        icmp(17, 0, [0, 1, 0, 2], &[0; 4]),
        icmp(18, 0, [0, 1, 0, 2], &[255, 255, 255, 0]),
        icmp(77, 1, [0; 4], &[]),
        icmp(8, 0, [0, 1, 0, 2], &[]),
    ];
    all.extend((0..4).map(|code| icmp(5, code, [10, 0, 0, 9], &about(6))));
    for code in (0..3).chain(5..17) {
        all.push(icmp(3, code, [0; 4], &about(6)));
    }
    all.iter().map(|b| ip4(1, 0, b)).collect()
}

fn icmp6() -> Vec<Vec<u8>> {
    let about = |next| ip6(next, &tcp(2, &[], &[]));
    let whom = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let mut all = vec![
        icmp(128, 0, [0, 1, 0, 2], &[0; 56]),
        icmp(129, 0, [0, 1, 0, 2], &[0; 56]),
        icmp(2, 0, [0, 0, 5, 0], &about(6)),
        icmp(3, 0, [0; 4], &about(6)),
        icmp(3, 1, [0; 4], &about(6)),
        icmp(4, 0, [0, 0, 0, 6], &about(6)),
        icmp(4, 1, [0, 0, 0, 6], &about(6)),
        icmp(4, 2, [0, 0, 0, 6], &about(6)),
        icmp(135, 0, [0; 4], &whom),
        icmp(136, 0, [0x60, 0, 0, 0], &whom),
        icmp(133, 0, [0; 4], &[]),
    ];
    all.extend([6, 17].map(|next| icmp(1, 4, [0; 4], &about(next))));
    all.extend([0, 1, 2, 3].map(|code| icmp(1, code, [0; 4], &about(6))));
    all.iter().map(|b| ip6(58, b)).collect()
}

fn tcps() -> Vec<Vec<u8>> {
    let syn_options = [
        2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let sack = [1, 1, 5, 10, 0, 0, 0, 20, 0, 0, 0, 30];
    let mut all = vec![
        tcp(2, &syn_options, &[]),
        tcp(0x12, &syn_options, &[]),
        tcp(0x10, &sack, &[]),
        tcp(0x10, &[1, 1, 5, 9, 0, 0, 0, 20, 0, 0, 0, 0], &[]),
        tcp(0x10, &[0xfe, 4, 0x12, 0x34, 0, 0, 0, 0], &[]),
        tcp(0x10, &[200, 4, 0x12, 0x34, 1, 1, 1, 0], &[]),
        tcp(0x10, &[2, 0, 1, 0], &[]),
        tcp(0x10, &[1, 1, 1, 2], &[]),
        tcp(0x18, &[], &[7; 100]),
        tcp(0x14, &[], &[]),
        tcp(0, &[], &[]),
        tcp(0x38, &[], &[1]),
        tcp(0xc2, &[], &[]),
        tcp(0xff, &[], &[]),
        tcp(0x11, &[], &[]),
        tcp(2, &[], &[])[..2].to_vec(),
        tcp(2, &[], &[])[..10].to_vec(),
    ];
    // a header that is said to be too short, and too long
    let mut short = tcp(2, &[], &[]);
    short[12] = 0x40;
    let mut long = tcp(2, &[], &[]);
    long[12] = 0x80;
    all.extend([short, long]);
    all
}

/// Frames of many kinds.
fn frames() -> Vec<Vec<u8>> {
    let (v4, v6) = (
        |b: &Vec<u8>| ethernet(0x0800, b),
        |b: &Vec<u8>| ethernet(0x86dd, b),
    );
    let syn = tcp(2, &[], &[]);
    let mut all = Vec::new();
    all.extend(tcps().iter().map(|t| v4(&ip4(6, 0x4000, t))));
    all.extend(tcps().iter().map(|t| v6(&ip6(6, t))));
    all.extend(icmp4().iter().map(v4));
    all.extend(icmp6().iter().map(v6));
    for u in [
        udp(8, &[]),
        udp(40, &[0; 32]),
        udp(60, &[0; 32]),
        udp(3, &[]),
        udp(20, &[0; 32]),
    ] {
        all.extend([v4(&ip4(17, 0, &u)), v6(&ip6(17, &u))]);
    }
    all.push(v4(&ip4(17, 0, &udp(8, &[])[..5])));
    // fragments: the first, one in the middle, the last
    for word in [0x2000, 0x2010, 0x0020] {
        all.extend([
            v4(&ip4(17, word, &udp(40, &[0; 24]))),
            v4(&ip4(6, word, &syn)),
        ]);
        let fragment = |next: u8, body: &[u8]| {
            let [a, b] = ((word & 0x1fff) << 3 | word >> 13).to_be_bytes();
            [&[next, 0, a, b, 0, 0, 0, 7][..], body].concat()
        };
        all.push(v6(&ip6(44, &fragment(17, &udp(40, &[0; 24])))));
        all.push(v6(&ip6(44, &fragment(6, &syn))));
    }
    // options, and packets that say too much or too little
    let mut options = ip4(17, 0, &[&[1, 1, 1, 0][..], &udp(8, &[])].concat());
    options[0] = 0x46;
    all.push(v4(&options));
    let mut other = ip4(6, 0, &syn);
    other[0] = 0x44;
    all.push(v4(&other));
    let mut other = ip4(6, 0, &syn);
    other[3] = 60;
    all.push(v4(&other));
    let mut other = ip4(6, 0, &syn);
    other[3] = 10;
    all.push(v4(&other));
    all.push(v4(&[ip4(6, 0, &syn), vec![0; 6]].concat()));
    // extension headers, others in IP
    let hop = |next: u8, body: &[u8]| [&[next, 0, 1, 4, 0, 0, 0, 0][..], body].concat();
    all.push(v6(&ip6(0, &hop(17, &udp(8, &[])))));
    all.push(v6(&ip6(60, &hop(6, &syn))));
    all.push(v6(&ip6(59, &[])));
    all.push(v6(&ip6(253, &[0; 20])));
    all.push(v4(&ip4(253, 0, &[0; 20])));
    all.push(v4(&ip4(4, 0, &ip4(6, 0, &syn))));
    all.push(v4(&ip4(41, 0, &ip6(6, &syn))));
    all.push(v6(&ip6(4, &ip4(6, 0, &syn))));
    all.push(v6(&ip6(41, &ip6(6, &syn))));
    all.push(v4(&ip4(
        47,
        0,
        &[&[0, 0, 8, 0][..], &ip4(6, 0, &syn)].concat(),
    )));
    all.push(v4(&ip4(
        47,
        0,
        &[&[0x20, 0, 8, 0, 0, 0, 0, 7][..], &ip4(6, 0, &syn)].concat(),
    )));
    all.push(v4(&ip4(50, 0, &[0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0])));
    // ARP, padded and not; tags; what is neither
    all.extend(
        [(1, 0), (1, 255), (2, 2), (3, 2), (4, 2)].map(|(op, m)| ethernet(0x0806, &arp(op, m))),
    );
    all.push(ethernet(0x0806, &[arp(1, 0), vec![0; 18]].concat()));
    all.push(ethernet(
        0x8100,
        &[&[0, 7, 8, 0][..], &ip4(6, 0, &syn)].concat(),
    ));
    all.push(ethernet(
        0x88a8,
        &[&[0xe0, 7, 0x81, 0, 0x10, 9, 0x86, 0xdd][..], &ip6(6, &syn)].concat(),
    ));
    all.push(ethernet(
        0x8100,
        &[&[0x20, 7, 8, 6][..], &arp(2, 2)].concat(),
    ));
    all
}

fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut w = CaptureWriter::new(Vec::new(), Format::PcapUs, LinkType::ETHERNET, 0).unwrap();
    for f in frames {
        w.write(0, f, f.len() as u32).unwrap();
    }
    w.finish().unwrap()
}

/// What tcpdump prints of a capture, a line a packet.
fn tcpdump(capture: &[u8], options: &[&str]) -> Vec<String> {
    let mut child = Command::new("tcpdump")
        .args(["-nn", "-S", "-t", "--number", "-r", "-"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = capture.to_vec();
    let writer = std::thread::spawn(move || {
        // it may end before it has read all
        let _ = stdin.write_all(&bytes);
    });
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let mut lines = Vec::new();
    // packets are numbered; what is behind a packet's first line is none of ours
    for l in String::from_utf8_lossy(&out.stdout).lines() {
        let next = format!("{}  ", lines.len() + 1);
        if let Some(line) = l.trim_start().strip_prefix(&next) {
            lines.push(line.to_string());
        }
    }
    lines
}

/// Without the tags that tcpdump prints with `-e` only.
fn untagged(mut line: &str) -> &str {
    while let Some(rest) = line.strip_prefix("vlan ") {
        let mut parts = rest.splitn(3, ", ").skip(2);
        line = parts.next().unwrap();
        line = line.strip_prefix("DEI, ").unwrap_or(line);
    }
    line
}

#[test]
fn as_tcpdump_does() {
    if !onefold_testing::tool("tcpdump") {
        return;
    }
    let frames = frames();
    let theirs = tcpdump(&capture(&frames), &[]);
    assert_eq!(theirs.len(), frames.len());
    let mut wrong = Vec::new();
    for (f, t) in frames.iter().zip(&theirs) {
        let line = print::frame(f);
        if untagged(&line) != t {
            wrong.push(format!("ours    {line}\ntcpdump {t}\n"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}\n{}",
        wrong.len(),
        frames.len(),
        wrong.join("\n")
    );
    // tags are as `-e` has them
    let tagged: Vec<_> = frames
        .iter()
        .filter(|f| matches!(f[12], 0x81 | 0x88))
        .cloned()
        .collect();
    let theirs = tcpdump(&capture(&tagged), &["-e"]);
    for (f, t) in tagged.iter().zip(&theirs) {
        let line = print::frame(f);
        for tag in line.split("vlan ").skip(1) {
            let tag: Vec<_> = tag.split(", ").take(2).collect();
            assert!(
                t.contains(&format!("vlan {}", tag.join(", "))),
                "{line}\n{t}"
            );
        }
    }
}

/// What tcpdump takes further apart, or will not print: options with a secret or a protocol of their own, questions to
/// nodes, multicast groups, routing headers, packets that are offloaded segments.
const DEEPER: [&str; 6] = [
    "md5 ",
    "mptcp ",
    "unknown icmp6 type",
    "multicast listener",
    "srcrt ",
    "bad-len 0",
];

/// Is it the same, but for what tcpdump says of the payload behind it?
fn alike(ours: &str, theirs: &str) -> bool {
    if DEEPER
        .iter()
        .any(|d| ours.contains(d) || theirs.contains(d))
        || theirs.starts_with(ours)
    {
        return true;
    }
    // in place of UDP and its length
    ours.rsplit_once("UDP, ")
        .is_some_and(|(ends, _)| theirs.starts_with(ends.trim_end_matches(": ")))
}

/// The packets of tcpdump's own captures that are TCP, UDP, ICMP or ARP in IP.
#[test]
fn as_tcpdump_does_of_its_captures() {
    let Some(dir) = onefold_testing::data("pcap/tcpdump/tests") else {
        return;
    };
    if !onefold_testing::tool("tcpdump") {
        return;
    }
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    let mut all = Vec::new();
    for f in files {
        let Ok(mut r) = CaptureReader::open(&f) else {
            continue;
        };
        let mut n = 0;
        while let Some(Ok(f)) = r.next() {
            let whole = f.orig_len as usize == f.data.len();
            if f.link == LinkType::ETHERNET && whole && n < 50 {
                n += 1;
                all.push(f.data);
            }
        }
    }
    let theirs = tcpdump(&capture(&all), &[]);
    assert_eq!(theirs.len(), all.len());
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (f, t) in all.iter().zip(&theirs) {
        let line = print::frame(f);
        let line = untagged(&line);
        let kinds = ["Flags [", "UDP, ", "ICMP ", "ICMP6, ", "ARP, R"];
        if kinds.iter().any(|k| line.contains(k)) {
            compared += 1;
            if !alike(line, t) {
                wrong.push(format!("ours    {line}\ntcpdump {t}\n"));
            }
        }
    }
    assert!(compared > 1000, "{compared}");
    let n = wrong.len();
    assert!(wrong.is_empty(), "{n} of {compared}\n{}", wrong.join("\n"));
}
