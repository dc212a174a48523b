use super::{ip_options, tcp_options, tcp_options::Which};
use crate::testing::{Bench, Setup};
use onefold_element::NameDb;
use onefold_packet::{Packet, Pkt, Timestamp, anno_field, checksum};
use proptest::prelude::*;

const EXTRA_LENGTH: usize = anno_field::EXTRA_LENGTH.offset as usize;

fn source(config: &str) -> Result<Bench, Vec<String>> {
    let setup = Setup {
        noutputs: 1,
        unbound: true,
        ..Setup::default()
    };
    Bench::with_setup("FromIPSummaryDump", config, setup, NameDb::builtin())
}

/// All packets that a dump's text gives.
fn packets(more: &str, text: &str) -> Vec<Pkt> {
    let quoted = onefold_click::conf::quote(text.as_bytes());
    let mut b = source(&format!("DATA {quoted}, STOP true{more}")).unwrap();
    let mut out = Vec::new();
    for _ in 0..1000 {
        if b.host.stopped {
            return out;
        }
        out.extend(b.run_task().into_iter().map(|(_, p)| p));
    }
    panic!("does not stop");
}

fn sink(config: &str) -> Result<Bench, Vec<String>> {
    let setup = Setup {
        ninputs: 1,
        unbound: true,
        ..Setup::default()
    };
    Bench::with_setup(
        "ToIPSummaryDump",
        &format!("-, {config}"),
        setup,
        NameDb::builtin(),
    )
}

/// What a summary with these fields says about packets, without the header.
fn summary(config: &str, all: Vec<Pkt>) -> String {
    let mut b = sink(&format!("HEADER false, {config}")).unwrap();
    for p in all {
        b.push_packet(0, p);
    }
    String::from_utf8(b.host.stdout).unwrap()
}

fn round_trip(fields: &str, lines: &str) -> String {
    let all = packets("", &format!("!IPSummaryDump 1.3\n!data {fields}\n{lines}"));
    summary(&format!("FIELDS {fields}"), all)
}

#[test]
fn fields_come_back() {
    for (fields, lines) in [
        (
            "timestamp ip_src ip_dst",
            "1.500000 1.2.3.4 5.6.7.8\n2.000000001 0.0.0.0 9.9.9.9\n",
        ),
        ("ts_sec ts_usec count link", "7 5 3 2\n"),
        (
            "ts_usec1 aggregate direction",
            "996033261451094 973 <\n0 0 >\n",
        ),
        ("first_timestamp", "3.250000\n"),
        (
            "ip_tos ip_ttl ip_id ip_sum ip_hl",
            "29 254 48759 43812 20\n",
        ),
        ("ip_dscp ip_ecn", "29 ect1\n0 no\n1 ce\n"),
        ("ip_frag ip_len", "F 40\n. 40\n"),
        ("ip_len ip_frag", "99 !\n40 F\n"),
        ("ip_fragoff", "0\n0+\n64+\n80\n0!\n"),
        ("ip_proto sport dport", "T 22 2943\nU 53 1\n47 - -\n"),
        (
            "tcp_seq tcp_ack tcp_flags tcp_window tcp_urp tcp_off",
            "93167339 7 SA 480 9 20\n0 0 . 0 0 20\n1 1 PA 1 1 20\n2 2 FSRPAUECN 2 2 24\n",
        ),
        (
            "tcp_opt",
            "mss1400;wscale10;sackok\nts669063908:38382731\n99=0:5:10\n.\n",
        ),
        (
            "ip_opt",
            "rr{10.0.0.1,20.0.0.2}+5\nssrr{1.0.0.1,1.0.0.2^1.0.0.3}\nts{1,10000,!45}+2++3\nts.ip{1.0.0.1=1,1.0.0.2=2}+1\nts.preip{1.0.0.1=1^1.0.0.2,1.0.0.3}\n98=1\n.\n",
        ),
        ("ip_proto icmp_type icmp_code", "I 8 0\nI 3 4\n"),
        (
            "ip_proto icmp_type_name icmp_code_name icmp_nextmtu",
            "I unreachable needfrag 256\nI echo 0 -\nI 200 7 -\n",
        ),
        ("ip_proto icmp_type icmp_flowid icmp_seq", "I 8 256 9\n"),
        ("ip_proto udp_len", "U 34\n"),
        (
            "eth_src eth_dst eth_type ip_src",
            "00-0A-95-A6-D9-BC 00-0A-95-A6-D9-BD 0800 1.0.0.1\n",
        ),
        ("payload payload_len", "\"hello\\n\\001\" 7\n"),
        ("ip_proto payload_len", "T 34\n"),
    ] {
        assert_eq!(round_trip(fields, lines), lines, "{fields}");
    }
}

#[test]
fn other_spellings() {
    let all = packets(
        "",
        "!data ip_frag tcp_flags direction ip_fragoff\nf W L -\n- 18 X -\n",
    );
    assert_eq!(
        summary("FIELDS ip_fragoff direction", all),
        // a later fragment of 100 units of eight bytes
        "800 >\n0 <\n"
    );
    let all = packets("", "!data tcp_flags\nXY\n0x18\n");
    assert_eq!(summary("FIELDS tcp_flags", all), "EC\nPA\n");
    let all = packets("", "!IPSummaryDump 1.0\n!data ip_fragoff\n8+\n");
    assert_eq!(summary("FIELDS ip_fragoff", all), "64+\n");
    let all = packets("", "!data \"ip src\" \"tcp seq\" len\n1.1.1.1 5 100\n");
    assert_eq!(
        summary("FIELDS src tcp_seqno length", all),
        "1.1.1.1 5 100\n"
    );
}

/// By hand: defaults, lengths, the extra length annotation, and (with CHECKSUM) checksums and all bytes.
#[test]
fn a_packet_byte_by_byte() {
    let text = "!data ip_src ip_dst sport dport ip_len\n1.0.0.1 2.0.0.2 5 6 44\n";
    let p = &packets("", text)[0];
    let mut want = vec![
        0x45, 0, 0, 44, 0, 0, 0, 0, 100, 6, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2,
    ];
    want.extend([
        0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0,
    ]);
    assert_eq!(p.data(), want);
    assert_eq!(p.anno.u32(EXTRA_LENGTH), 4);
    assert_eq!(p.anno.dst_ip(), [2, 0, 0, 2]);
    assert_eq!(
        (p.network_header_offset(), p.transport_header_offset()),
        (Some(0), Some(20))
    );
    let q = &packets(", CHECKSUM true, PROTO 17", text)[0];
    assert_eq!((q.len(), q.anno.u32(EXTRA_LENGTH)), (44, 0));
    assert_eq!(checksum::internet(&q.data()[..20]), 0);
    assert_eq!(q.data()[24..26], [0, 24]);
    let pseudo = checksum::pseudo_v4([1, 0, 0, 1], [2, 0, 0, 2], 17, 24);
    assert_eq!(!checksum::fold(checksum::sum(&q.data()[20..], pseudo)), 0);
}

#[test]
fn flows_protocols_and_short_lines() {
    let text = "!flowid 1.0.0.1 5 2.0.0.2 6 U\n!data ip_id sport\n7\n8 9\n";
    let all = packets("", text);
    let fields = "FIELDS ip_id src sport dst dport proto";
    assert_eq!(
        summary(fields, all),
        "7 1.0.0.1 5 2.0.0.2 6 U\n8 1.0.0.1 9 2.0.0.2 6 U\n"
    );
    let all = packets(
        ", FLOWID 1.0.0.1 5 - 6",
        "!data ip_id\n!proto 132\n7\n!proto tcp\n8\n",
    );
    assert_eq!(
        summary(fields, all),
        "7 1.0.0.1 - 0.0.0.0 - 132\n8 1.0.0.1 5 0.0.0.0 6 T\n"
    );
    let all = packets(
        ", FIELDS src",
        "9.9.9.9\n# no packet\n\n  \n8.8.8.8 and more\n",
    );
    assert_eq!(summary("FIELDS src", all), "9.9.9.9\n8.8.8.8\n");
}

#[test]
fn messages() {
    let b = source("DATA \"1.1.1.1\"").unwrap();
    assert_eq!(
        b.warnings,
        ["<data>:0: missing banner line; is this an IP summary dump?"]
    );
    let mut b = source("DATA \"!data nonsense ip_src payload_md5\nx y z\nx y z\n\"").unwrap();
    b.run_task();
    b.run_task();
    b.run_task();
    assert_eq!(
        b.host.log,
        "<data>:2: warning: unknown content type 'nonsense'\n\
         <data>:2: warning: unknown content type 'payload_md5'\n\
         <data>:2: packet parse error\n"
    );
    let e = |c: &str| source(c).err().unwrap();
    assert_eq!(e("STOP true"), ["FILENAME: required argument missing"]);
    assert_eq!(e("x, DATA y"), ["FILENAME and DATA conflict"]);
    assert_eq!(e("/nowhere/x"), ["/nowhere/x: No such file or directory"]);
    assert!(source("/nowhere/x, ALLOW_NONEXISTENT true").is_ok());
    let e = sink("FIELDS foo").err().unwrap();
    assert_eq!(e, ["unknown content type 'foo'", "no contents specified"]);
    let e = sink("FIELDS payload, BINARY true").err().unwrap();
    assert_eq!(e[0], "cannot use field payload with BINARY");
}

#[test]
fn several_packets_per_line() {
    let text = "!data timestamp first_timestamp count ip_len ip_proto\n3 1 3 300 U\n";
    let all = packets(", MULTIPACKET true", text);
    assert_eq!(
        summary("FIELDS timestamp ip_len udp_len count", all),
        "1.000000 100 80 1\n2.000000 100 80 1\n3.000000 100 80 1\n"
    );
    let all = packets("", text);
    assert_eq!(
        summary("FIELDS timestamp ip_capture_len, MULTIPACKET true", all),
        "1.000000 28\n2.000000 28\n3.000000 28\n"
    );
    let all = packets("", text);
    assert_eq!(summary("FIELDS count, MULTIPACKET true", all), "3\n");
}

#[test]
fn headers_of_the_dump_and_bad_packets() {
    let b = sink("FIELDS ntimestamp src, BANNER \"a \\\"b\\\"\", BINARY false").unwrap();
    assert_eq!(
        String::from_utf8(b.host.stdout).unwrap(),
        "!IPSummaryDump 1.3\n!creator \"a \\\"b\\\"\"\n!data timestamp ip_src\n"
    );
    let mut b = sink("HEADER false, FIELDS src sport eth_src, BAD_PACKETS true").unwrap();
    let mut ip = [0u8; 24];
    ip[0] = 0x45;
    ip[3] = 30;
    ip[9] = 6;
    for (cut, first) in [
        (24, 0x45),
        (24, 0x65),
        (24, 0x41),
        (2, 0x45),
        (10, 0x45),
        (20, 0x45),
    ] {
        ip[0] = first;
        let mut p = Box::new(Packet::from_slice(&ip[..cut]));
        p.set_network_header(0, 20);
        b.push_packet(0, p);
    }
    b.push(0, &ip);
    assert_eq!(
        String::from_utf8(b.host.stdout).unwrap(),
        "!bad truncated IP missing 6\n0.0.0.0 0 -\n\
         !bad IP version 6\n- - -\n\
         !bad IP header length 1\n- - -\n\
         !bad truncated IP header\n- - -\n\
         !bad truncated IP missing 20\n- - -\n\
         !bad truncated IP missing 10\n0.0.0.0 - -\n\
         !bad no IP header\n- - -\n"
    );
}

#[test]
fn binary_records() {
    let text = "!data timestamp ip_src sport ip_opt\n1.5 1.2.3.4 258 rr{}+1\n";
    let mut b = sink("FIELDS timestamp src sport ip_opt payload_md5, BINARY true").unwrap();
    for p in packets("", text) {
        b.push_packet(0, p);
    }
    let out = b.host.stdout;
    let header = b"!IPSummaryDump 1.3\n!data timestamp ip_src sport ip_opt payload_md5\n!binary\n";
    let record = out.strip_prefix(header).unwrap();
    // the MD5 digest of nothing
    let nothing = [
        0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0, 0xb2, 4, 0xe9, 0x80, 9, 0x98, 0xec, 0xf8, 0x42, 0x7e,
    ];
    let mut want = vec![0, 0, 0, 43, 0, 0, 0, 1, 0, 7, 0xa1, 0x20, 1, 2, 3, 4, 1, 2];
    want.extend([8, 7, 7, 4, 0, 0, 0, 0, 0]);
    want.extend(nothing);
    assert_eq!(record, want);
    // and back
    let path = std::env::temp_dir().join(format!("onefold-summary-{}", std::process::id()));
    std::fs::write(&path, &out).unwrap();
    let mut from = source(&format!("{}", path.display())).unwrap();
    let p = from.run_task().remove(0).1;
    assert_eq!(
        summary("FIELDS timestamp src sport ip_opt", vec![p]),
        "1.500000 1.2.3.4 258 rr{}+1\n"
    );
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn digests() {
    let all = || packets("", "!data payload\n\"hello\"\n");
    assert_eq!(
        summary("FIELDS payload_md5_hex payload_md5", all()),
        "5d41402abc4b2a76b9719d911017c592 Dfa6a1UkSXBWsu4d_jwlG3\n".replace(
            "Dfa6a1UkSXBWsu4d_jwlG3",
            // six bits at a time, lowest first
            &digest_by_hand("5d41402abc4b2a76b9719d911017c592")
        )
    );
}

fn digest_by_hand(hex: &str) -> String {
    let chars = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let mut bits = Vec::new();
    for i in 0..16 {
        let byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        bits.extend((0..8).map(|b| usize::from(byte >> b & 1)));
    }
    bits.chunks(6)
        .map(|c| char::from(chars[c.iter().enumerate().map(|(i, b)| b << i).sum::<usize>()]))
        .collect()
}

#[test]
fn timing_and_handlers() {
    let mut b = source("DATA \"!data timestamp\n5\n7\n\", TIMING true").unwrap();
    assert_eq!(b.run_task().len(), 1);
    assert_eq!(b.run_task().len(), 0);
    assert_eq!(b.host.timers[&0], Timestamp::from_secs(3));
    assert_eq!(b.element.held(), 1);
    b.advance_to(Timestamp::from_secs(3));
    assert_eq!(b.host.woken, 1);
    assert_eq!(b.run_task().len(), 1);
    assert_eq!(b.read("encap").unwrap(), "IP");
    assert_eq!(b.read("filename").unwrap(), "<data>");
    b.write("stop", "").unwrap();
    assert!(b.host.stopped);
    // a copy of the graph reads nothing
    let b = source("DATA \"!data timestamp\n5\n7\n\"").unwrap();
    let mut copy = b.element.clone();
    let mut b = b;
    std::mem::swap(&mut b.element, &mut copy);
    assert!(b.run_task().is_empty());
    b.element = copy;
    assert_eq!(b.run_task().len(), 1);
}

#[test]
fn options_that_are_wrong() {
    assert_eq!(tcp_options::text(&[2, 3, 1], Which::All), "?");
    assert_eq!(tcp_options::text(&[8], Which::All), "?");
    assert_eq!(tcp_options::text(&[1, 1, 0, 9], Which::All), ".");
    assert_eq!(
        tcp_options::text(&[3, 3, 7, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2], Which::Sack),
        "sack1-2"
    );
    assert_eq!(ip_options::text(&[7, 3, 3]), "?");
    assert_eq!(ip_options::text(&[7, 200, 4]), "?");
    for bad in [
        "mss",
        "mss65536",
        "wscale256",
        "sack1",
        "ts1",
        "x",
        "mss1 ",
        "99=",
        "eol,",
        "mss1;;",
    ] {
        assert_eq!(
            tcp_options::parse(bad.as_bytes(), Which::All),
            None,
            "{bad}"
        );
    }
    for bad in [
        "rr{",
        "rr{1.2.3}",
        "rr{1.2.3.256}",
        "ts{",
        "ts.16{}",
        "ts.ip{1.2.3.4}",
        "rr{}+1+",
        "256",
    ] {
        let ok = bad == "ts{";
        assert_eq!(ip_options::parse(bad.as_bytes()).is_some(), ok, "{bad}");
    }
    // padding in front goes when there is no room for it
    let many = "nop;".repeat(3) + &"98=1:2;".repeat(9) + "98=1:2";
    assert_eq!(
        tcp_options::parse(many.as_bytes(), Which::All).map(|o| o.len()),
        Some(40)
    );
}

proptest! {
    /// What is read from any options reads back as the same text. (An unknown option without data does not: its text is
    /// a bare number, which Click reads as one byte.)
    #[test]
    fn tcp_options_come_back(o in proptest::collection::vec(any::<u8>(), 0..40)) {
        let text = tcp_options::text(&o, Which::All);
        let bare = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if text != "?" && text != "." && !text.split([',', ';']).any(bare) {
            let again = tcp_options::parse(text.as_bytes(), Which::All);
            if let Some(again) = again {
                prop_assert_eq!(tcp_options::text(&again, Which::All), text);
            }
        }
    }

    /// No packet and no line is too strange.
    #[test]
    fn nothing_panics(
        packet: Vec<u8>,
        at in 0isize..40,
        header in 0usize..60,
        line in "[ -~]{0,80}",
        options in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = ip_options::text(&options);
        let _ = ip_options::parse(line.as_bytes());
        let _ = tcp_options::parse(line.as_bytes(), Which::NoTimestamps);
        let mut p = Box::new(Packet::from_slice(&packet));
        p.set_mac_header(0);
        p.set_network_header(at, header);
        let fields = "timestamp ip_src ip_dst ip_opt ip_len ip_capture_len sport dport tcp_opt tcp_sack tcp_flags udp_len \
                      icmp_type icmp_seq payload payload_len payload_md5 eth_src ip_frag wire_len";
        summary(&format!("BAD_PACKETS true, FIELDS {fields}"), vec![p]);
        let all = packets(", CHECKSUM true", &format!("!data eth_src ip_opt ip_hl ip_len tcp_off tcp_opt payload payload_len\n{line}\n"));
        for p in all {
            prop_assert!(p.len() < 100_000);
        }
    }

    /// Lines of plausible numbers neither panic nor lose their packet.
    #[test]
    fn lengths_that_lie(hl in 0u32..300, len in 0u32..70_000, off in 0u32..300, plen in 0u32..70_000, proto in 0u32..256) {
        let line = format!("{hl} {len} {proto} {off} {plen}");
        let text = format!("!data ip_hl ip_len ip_proto tcp_off payload_len\n{line}\n");
        prop_assert_eq!(packets(", CHECKSUM true", &text).len(), 1);
        prop_assert_eq!(packets("", &text).len(), 1);
    }
}
