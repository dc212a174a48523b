use super::super::testpkt::{ip6, marked};
use crate::testing::Bench;

fn tcp(dport: u16, flags: u8) -> Vec<u8> {
    let mut t = vec![0x10, 0];
    t.extend(dport.to_be_bytes());
    t.extend([0; 9]);
    t.push(flags);
    t.extend([0; 6]);
    ip6("2001:db8::1", "2001:db8:1::2", 6, &t)
}

fn matches(expr: &str, packet: &[u8]) -> bool {
    let mut b = Bench::new("IP6Filter", &format!("allow {expr}, deny all"), 1, 1)
        .unwrap_or_else(|e| panic!("{expr}: {e:?}"));
    let hit = !b.push_packet(0, marked(packet)).is_empty();
    let mut b = Bench::new("IP6Filter", &format!("deny not ({expr}), allow"), 1, 1).unwrap();
    assert_eq!(
        !b.push_packet(0, marked(packet)).is_empty(),
        hit,
        "not {expr}"
    );
    hit
}

#[test]
fn primitives() {
    let syn = tcp(80, 2);
    for yes in [
        "all",
        "src net 2001:db8::/32",
        "src 2001:db8::1",
        "dst host 2001:db8:1::2",
        "net 2001:db8:1::/48",
        "src and dst net 2001:db8::/32",
        "2001:db8::1",
        "tcp",
        "ip proto tcp",
        "ip proto 6",
        "dst port 80",
        "dst tcp port 80",
        "port 80",
        "dst port 443 or 80",
        "src port >= 4096 && src port <= 4096",
        "tcp opt syn",
        "tcp[13:1] & 18 == 2",
        "tcp[2:2] == 0x50",
        "ip[7:1] > 63",
        "ip hlim 64",
        "ip unfrag",
        "udp or (tcp and not dst port 22)",
        "!udp",
        "src net fd00::/8 or 2001:db8::/48",
    ] {
        assert!(matches(yes, &syn), "{yes}");
    }
    for no in [
        "false",
        "src net 2001:db8:1::/48",
        "src and dst net 2001:db8:1::/48",
        "udp",
        "dst udp port 80",
        "src port 80",
        "tcp opt ack",
        "tcp[200:1] >= 0",
        "udp[0:2] >= 0",
        "ip frag",
        "ip hlim < 64",
        "ip tclass != 0",
        "icmp6 type >= 0",
    ] {
        assert!(!matches(no, &syn), "{no}");
    }
    let ping = ip6("::1", "::2", 58, &[128, 0, 0, 0]);
    assert!(matches("icmp6 type 128 && icmp6[1:1] == 0", &ping));
    assert!(!matches("icmp6 type 129", &ping));
}

#[test]
fn extension_headers_and_fragments() {
    // first fragment behind destination options
    let mut payload = vec![44, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9];
    payload.extend([0, 53, 0, 54, 0, 8, 0, 0]);
    let mut first = ip6("::1", "::2", 60, &payload);
    assert!(matches(
        "udp && src port 53 && dst port 54 && ip frag",
        &first
    ));
    // a later one: the protocol is known, the ports are absent, not zero
    first[40 + 10] = 1;
    assert!(matches("udp && ip frag", &first));
    assert!(!matches("src port >= 0", &first));
    for cut in 0..first.len() {
        let mut b = Bench::new("IP6Filter", "allow src port 53, allow udp, 0 all", 1, 1).unwrap();
        let out = b.push_packet(0, marked(&first[..cut])).len();
        assert_eq!(out, usize::from(cut >= 40), "{cut}");
    }
    let mut b = Bench::new("IP6Filter", "allow all", 1, 1).unwrap();
    assert!(b.push_packet(0, marked(&[0x45; 60])).is_empty());
    assert_eq!(b.drops()["IP6Filter: no IPv6 header"], 1);
}

#[test]
fn words_end_at_ascii_white_space_only() {
    // a vertical tab and a no-break space are white space to Unicode, and once made the reader go round for ever
    for odd in ["\u{b}", "\u{a0}", "a\u{b}b", "\u{2003}"] {
        let e = Bench::new("IP6Filter", &format!("allow tcp {odd} udp"), 1, 1).err();
        assert!(e.is_some_and(|e| e[0].contains("expected")), "{odd:?}");
    }
}

#[test]
fn errors() {
    let deep = format!("allow {}tcp", "(".repeat(200));
    let e = Bench::new(
        "IP6Filter",
        &format!(
            "permit tcp, 3 tcp, allow src net 10.0.0.0/8, allow port 70000, allow tcp udp, allow (tcp, allow tcp[13:3] == 1, \
             allow src, allow ip proto xyz, allow tcp opt x, allow 80, {deep}"
        ),
        1,
        1,
    )
    .err()
    .unwrap();
    assert_eq!(
        e,
        [
            "pattern 0: unknown action 'permit', expected allow, deny, drop or an output number",
            "pattern 1: output 3 out of range, the element has 1",
            "pattern 2: expected an IPv6 address or prefix, found '10.0.0.0/8'",
            "pattern 3: expected a port of 0 to 65535, found '70000'",
            "pattern 4: expected 'and', 'or' or the end, found 'udp'",
            "pattern 5: expected ')' at the end",
            "pattern 6: expected something like tcp[13:1], found 'tcp[13:3]'",
            "pattern 7: expected a test at the end",
            "pattern 8: expected a protocol, by name or number, found 'xyz'",
            "pattern 9: expected syn, ack, fin, rst, psh or urg, found 'x'",
            "pattern 10: expected a test such as 'src net 2001:db8::/32' or 'tcp', found '80'",
            "pattern 11: nested more than 100 deep",
        ]
    );
}
