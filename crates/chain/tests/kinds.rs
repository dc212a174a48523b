//! What is wrong with a function of each kind is said with its place, its key and what it wants; and the graphs of
//! right ones are accepted by the engine.

use crate::common;

use common::{Frame, build, errors, load_in, send};
use std::path::{Path, PathBuf};

/// Wraps a function in a chain; the function begins in line 3.
fn chain(function: &str, ports: usize) -> String {
    let mut s = format!("functions:\n  f:\n{function}\nports:\n");
    for i in 0..ports {
        s.push_str(&format!("  p{i}: f[{i}]\n"));
    }
    s
}

fn wrong(function: &str, ports: usize, wanted: &[&str]) {
    let e = errors(&chain(function, ports));
    for w in wanted {
        assert!(e.contains(w), "missing '{w}' in\n{e}\nof\n{function}");
    }
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("onefold-kinds-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn vlan() {
    wrong(
        "    vlan: { id: 0 }",
        2,
        &["t/chain.yaml:3:17: error: f: VLAN id 0 out of range, 1 to 4094"],
    );
    wrong(
        "    vlan: { id: 1, priority: 9 }",
        2,
        &["t/chain.yaml:3:30: error: f: priority 9 out of range, 0 to 7"],
    );
    wrong("    vlan: { id: x }", 2, &["t/chain.yaml:3:"]);
    wrong(
        "    vlan: { id: 1, prio: 2 }",
        2,
        &["t/chain.yaml:3:", "prio"],
    );
}

#[test]
fn monitor() {
    wrong(
        "    monitor: { flows: 0 }",
        2,
        &["t/chain.yaml:3:23: error: f: flows must be at least 1"],
    );
    wrong("    monitor: { flows: -1 }", 2, &["t/chain.yaml:3:"]);
}

/// Nothing in front of a monitor has marked the headers for it.
#[test]
fn a_monitor_at_an_entry_knows_flows() {
    let text = chain("    monitor: {}", 2);
    let c = load_in(Path::new("."), &text).unwrap();
    let mut graph = build(&c);
    let plain = Frame::udp([10, 0, 0, 1], [10, 0, 0, 2], 53);
    let tagged = plain.clone().with(|f| f.vlan = Some(42));
    let mut v6 = vec![0u8; 12];
    v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
    v6.extend([0xfd; 16]);
    v6.extend([0xfe; 16]);
    v6.extend([0, 7, 0, 9, 0, 8, 0, 0]);
    let mut arp = vec![0u8; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    for (port, other) in [("p0", "p1"), ("p1", "p0")] {
        let frames = [plain.bytes(), tagged.bytes(), v6.clone(), arp.clone()];
        let out = send(&c, &mut graph, port, &frames);
        assert_eq!(out, frames.map(|f| (other.to_string(), f)), "unchanged");
    }
    for way in ["up", "down"] {
        let mut read = |what: &str| {
            graph
                .read_handler(&format!("f/{way}_flows.{what}"))
                .unwrap()
        };
        let flows = read("flows");
        let flows: Vec<&str> = flows.lines().collect();
        assert_eq!(flows.len(), 2, "{flows:?}");
        assert!(flows[0].starts_with("17 10.0.0.1 5000 10.0.0.2 53 2 "));
        assert!(flows[1].starts_with("17 fdfd:"), "{}", flows[1]);
        assert_eq!(read("skipped"), "1");
    }
}

#[test]
fn firewall() {
    wrong(
        "    firewall: {}",
        2,
        &[
            "t/chain.yaml:3:",
            "give the rules either inline ('rules') or in a file ('rules-file')",
        ],
    );
    wrong(
        "    firewall:\n      rules:\n        - allow tcp\n        - permitt udp\n        - deny (tcp",
        2,
        &[
            "t/chain.yaml:6:11: error: f: `permitt`: expected 'allow' or 'deny' and a filter expression (did you mean 'permit'?)",
            "t/chain.yaml:7:11: error: f: commas and unbalanced",
        ],
    );
    wrong(
        "    firewall: { rules-file: nowhere.rules }",
        2,
        &["t/chain.yaml:3:29: error: cannot read './nowhere.rules'"],
    );
    wrong(
        "    firewall: { rules: [allow], default: maybe }",
        2,
        &["t/chain.yaml:3:", "maybe"],
    );
    wrong(
        "    firewall: { rules: [allow], rules6: [allow], rules6-file: x }",
        2,
        &["'rules6'"],
    );
}

#[test]
fn firewall_rule_files() {
    let dir = folder("rules");
    let file = |text: &str, more: &str| {
        std::fs::write(dir.join("r"), text).unwrap();
        let f = format!("    firewall: {{ rules-file: r{more} }}");
        load_in(&dir, &chain(&f, 2))
    };
    let e = file("*filter\n:FORWARD DROP [0:0]\n-A FORWARD -m conntrack --ctstate FOO -j ACCEPT\n-A FORWARD -p tcp --dport x -j DROP\n", "").unwrap_err().join("\n");
    assert!(e.contains("/r:3:35: error: connection state 'FOO'"), "{e}");
    assert!(
        e.contains("/r:4:27: error: `x` is no port or service"),
        "{e}"
    );
    let e = file("@1.2.3.4/33 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF\nx\n", "")
        .unwrap_err()
        .join("\n");
    assert!(
        e.contains("/r:1:2: error: expected a prefix")
            && e.contains("/r:2:1: error: a ClassBench rule"),
        "{e}"
    );
    let e = file("{\"nftables\": [\n{\"chain\": {\"family\": \"ip\", \"table\": \"t\", \"name\": \"c\", \"type\": \"filter\", \"hook\": \"forward\"}},\n{\"rule\": {\"family\": \"ip\", \"table\": \"t\", \"chain\": \"c\", \"expr\": [{\"limit\": {}}]}}]}", "").unwrap_err().join("\n");
    assert!(
        e.contains("/r:3:66: error: statement 'limit' by name is not supported"),
        "{e}"
    );
    // every kind of test that the importers write is one that the element understands, and means what it should
    let all = "*filter\n:FORWARD DROP [0:0]\n:own - [0:0]\n\
        -A FORWARD -s 10.9.0.0/16 ! -d 10.9.9.9 -m iprange --src-range 10.9.0.3-10.9.0.9 -j own\n\
        -A FORWARD -i lan0 -p tcp -m tcp ! --dport 81:90 --sport :6000 ! --tcp-flags SYN,ACK SYN -j REJECT\n\
        -A FORWARD -o wan0 -p tcp -m multiport --ports 80,90:95 --syn -m ttl --ttl-gt 5 -j ACCEPT\n\
        -A FORWARD -f -p icmp -m icmp --icmp-type 3/4 -j DROP\n-A FORWARD ! -p all -j DROP\n-A FORWARD ! -p udp -g own\n-A FORWARD -p udp -m multiport ! --dports 1,5 -j ACCEPT\n\
        -A own -p udp -j RETURN\n-A own -j LOG\n-A own -j DROP\nCOMMIT\n";
    let c = file(all, ", interfaces: { inside: lan0, outside: wan0 }")
        .unwrap_or_else(|e| panic!("{}", e.join("\n")));
    assert_eq!(c.warnings.len(), 2, "{:?}", c.warnings);
    let mut g = build(&c);
    let (a, b) = ([10, 1, 0, 1], [10, 2, 0, 1]);
    let mut out = |port: &str, f: Frame| send(&c, &mut g, port, &[f.bytes()]).len();
    assert_eq!(out("p0", Frame::tcp(a, b, 80, 2)), 1, "SYN to port 80");
    assert_eq!(out("p0", Frame::tcp(a, b, 80, 16)), 0, "REJECT");
    assert_eq!(
        out("p1", Frame::tcp(a, b, 80, 2)),
        0,
        "goto, from the other side"
    );
    assert_eq!(out("p0", Frame::udp(a, b, 53)), 1);
    assert_eq!(out("p0", Frame::udp(a, b, 5)), 0);
    assert_eq!(out("p1", Frame::udp([10, 9, 0, 4], b, 53)), 1, "returned");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Rules that mix `&&` and `or`, and rule files without rules, are warned of at their place, with what they are read
/// as.
#[test]
fn firewall_and_dpi_warnings() {
    let dir = folder("mixed");
    let said = |f: &str, ports: usize| -> Vec<String> {
        let c = load_in(&dir, &chain(f, ports)).unwrap_or_else(|e| panic!("{}", e.join("\n")));
        (c.warnings.iter())
            .map(|w| format!("{w} | {}", w.hint.clone().unwrap_or_default()))
            .collect()
    };
    let f = "    firewall:\n      rules:\n        - deny udp\n        - allow tcp && dst port 80 or 443\n        \
        - \"allow src net 10.0.0.0/8 and (tcp || udp && port 53)\"\n      rules6: [allow udp or tcp && dst port 22]";
    let w = said(f, 2);
    assert_eq!(w.len(), 3, "{w:?}");
    for (w, place, reading, other) in [
        (
            &w[0],
            ":6:36: warning",
            "(tcp && dst port 80) or dst port 443",
            "tcp && (dst port 80 or dst port 443)",
        ),
        (
            &w[1],
            ":7:46: warning",
            "(tcp || (udp && port 53))",
            "((tcp || udp) && port 53)",
        ),
        (
            &w[2],
            ":8:26: warning",
            "udp or (tcp && dst port 22)",
            "(udp or tcp) && dst port 22",
        ),
    ] {
        assert!(
            w.contains(place) && w.contains(reading) && w.contains(other),
            "{w}"
        );
    }
    // files: only what people write is looked at
    let mixed = "# web\nallow tcp\n  deny src net 10.0.0.0/8 && udp or icmp # a comment\n";
    std::fs::write(dir.join("r"), mixed.repeat(30)).unwrap();
    let w = said("    firewall: { rules-file: r }", 2);
    assert_eq!(w.len(), 21, "{w:?}");
    assert!(
        w[0].contains("/r:3:34: warning") && w[0].contains("(src net 10.0.0.0/8 && udp) or icmp"),
        "{}",
        w[0]
    );
    assert!(w[20].contains("and 10 more"), "{}", w[20]);
    let tables = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -m multiport --ports 80,90:95 -j DROP\nCOMMIT\n";
    std::fs::write(dir.join("r"), tables).unwrap();
    assert!(said("    firewall: { rules-file: r }", 2).is_empty());
    // nothing in a file
    std::fs::write(dir.join("r"), "# nothing yet\n").unwrap();
    let w = said("    firewall: { rules-file: r, rules6-file: r }", 2);
    assert_eq!(w.len(), 2, "{w:?}");
    assert!(
        w[0].contains("t/chain.yaml:3:29: warning") && w[0].contains("/r has no rules"),
        "{}",
        w[0]
    );
    let w = said(
        "    dpi:\n      patterns: [{ action: drop, filter: tcp && port 80 or 443 }]\n      rules-files: [r]",
        2,
    );
    assert!(
        w.len() == 2 && w[0].contains(":4:57: warning") && w[1].contains("has no rules"),
        "{w:?}"
    );
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn firewall_for_ipv6_from_files() {
    let dir = folder("rules6");
    std::fs::write(dir.join("r6"), "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -s fd00::/8 -p tcp -m multiport --dports 22,80:90 -j DROP\n-A FORWARD -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j DROP\nCOMMIT\n").unwrap();
    let f = "    firewall: { rules: [allow], rules6-file: r6 }";
    let c = load_in(&dir, &chain(f, 2)).unwrap_or_else(|e| panic!("{}", e.join("\n")));
    build(&c);
    let args = &c
        .graph
        .elements
        .iter()
        .find(|e| e.class == "IP6Filter")
        .unwrap()
        .args;
    assert_eq!(args.last().unwrap(), "allow all");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn dpi() {
    wrong(
        "    dpi: {}",
        2,
        &["t/chain.yaml:3:", "give 'patterns', 'rules-files', or both"],
    );
    wrong(
        "    dpi:\n      patterns:\n        - { action: drop, hex: 4x }\n        - { action: drop, regex: \"(\" }\n        - { action: drop, regex: a, depth: 3 }\n\
         \x20       - { action: drop, text: abc, depth: 2 }\n        - { action: drop }\n        - { action: drop, text: \"\" }",
        2,
        &[
            "t/chain.yaml:5:32: error: f: hex: expected pairs of hexadecimal digits",
            "t/chain.yaml:6:34: error: f: regex: unclosed group",
            "t/chain.yaml:7:44: error: f: depth: goes with 'text' or 'hex'",
            "t/chain.yaml:8:45: error: f: depth: 2 is less than the pattern's 3 bytes",
            "t/chain.yaml:9:11: error: f: a pattern needs 'text', 'hex', 'regex' or 'filter'",
            "t/chain.yaml:10:33: error: f: expected at least one byte",
        ],
    );
    wrong(
        "    dpi: { patterns: [ { action: log, text: a } ] }",
        2,
        &["t/chain.yaml:3:", "log"],
    );
    let dir = folder("dpi");
    std::fs::write(dir.join("s.rules"), "# one\nalert tcp any any -> any any (content:\"a\"; http_uri; sid:5;)\nalert tcp $X any -> any any (flow:established; sid:6;)\ndrop udp any any -> any 53 (content:\"abc\"; sid:7;)\n").unwrap();
    let with = |more: &str| {
        let f = format!("    dpi: {{ rules-files: [s.rules]{more} }}");
        load_in(&dir, &chain(&f, 2))
    };
    let e = with("").unwrap_err().join("\n");
    assert!(
        e.contains("s.rules:2:1: error: sid 5 is not supported: option 'http_uri'"),
        "{e}"
    );
    assert!(
        e.contains(
            "s.rules:3:1: error: sid 6 is not supported: variable $X is not given, option 'flow'"
        ),
        "{e}"
    );
    assert!(e.contains("2 of 3 rules cannot be expressed"), "{e}");
    let c = with(", skip-unsupported: true").unwrap();
    assert_eq!(c.warnings.len(), 1);
    let w = format!("{:?}", c.warnings[0]);
    assert!(
        w.contains("2 of 3 rules of") && w.contains("option 'flow' (1): sid 6"),
        "{w}"
    );
    build(&c);
    let c =
        with(", skip-unsupported: true, flow: ignore, variables: { X: \"10.0.0.0/8\" }").unwrap();
    assert_eq!(
        c.graph
            .elements
            .iter()
            .find(|e| e.class == "PayloadFilter")
            .unwrap()
            .args
            .len(),
        2
    );
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn dpi_directions_and_alerts() {
    let f = "    dpi:\n      alerts: true\n      patterns:\n        - { action: drop, text: secret, direction: out, ignore-case: true }\n        - { action: alert, regex: 'pass(word|phrase)' }";
    let c = load_in(
        Path::new("."),
        &chain(f, 2).replace("p1: f[1]", "p1: f[1]\n  p2: { out: \"f[2]\" }"),
    )
    .unwrap();
    let mut g = build(&c);
    let mut out = |port: &str, text: &str| -> Vec<String> {
        let f = Frame::udp([1, 1, 1, 1], [2, 2, 2, 2], 9).with(|f| f.payload = text.into());
        send(&c, &mut g, port, &[f.bytes()])
            .into_iter()
            .map(|(p, b)| {
                assert_eq!(b, f.bytes(), "frames pass unchanged");
                p
            })
            .collect()
    };
    assert_eq!(out("p0", "a SECRET"), Vec::<String>::new());
    assert_eq!(out("p1", "a SECRET"), ["p0"]);
    assert_eq!(out("p0", "the passphrase"), ["p2", "p1"]);
    // without the alert port, port 2 does not exist
    wrong(
        "    dpi: { patterns: [ { action: alert, text: a } ] }",
        3,
        &["'f' has no port 2"],
    );
}

#[test]
fn router() {
    wrong(
        "    router: { interfaces: [] }",
        1,
        &["t/chain.yaml:3:", "a router has 1 to 254 interfaces"],
    );
    wrong(
        "    router:\n      interfaces: [ { address6: \"fd00::1/64\", mac: \"02:00:00:00:00:01\", gateway-mac: \"02:00:00:00:00:02\", mtu: 1279 } ]\n      icmp-rate: 1000001\n      icmp-burst: 0",
        1,
        &[
            "t/chain.yaml:4:112: error: f: the MTU of an interface with an IPv6 address is at least 1280 bytes (RFC 8200)",
            "t/chain.yaml:5:18: error: f: icmp-rate 1000001 out of range, 1 to 1000000",
            "t/chain.yaml:6:19: error: f: icmp-burst 0 out of range, 1 to 10000",
        ],
    );
    wrong(
        "    router:\n      interfaces:\n        - { address: 10.0.0.1, mac: \"02:00:00:00:00:01\" }\n        - { address: 10.0.0.1/24, mac: nonsense }\n        - { mac: \"02:00:00:00:00:01\" }\n\
         \x20       - { address6: \"fd00::1/64\", mac: \"02:00:00:00:00:01\" }\n        - { address: 10.0.0.1/24, mac: \"02:00:00:00:00:01\", mtu: 10 }",
        5,
        &[
            "t/chain.yaml:5:22: error: f: `10.0.0.1`: the length of the prefix is missing, as in 192.168.1.1/24",
            "t/chain.yaml:6:40: error: f: `nonsense`: expected a MAC address such as",
            "t/chain.yaml:7:18: error: f: an interface needs 'address', 'address6', or both",
            "t/chain.yaml:8:42: error: f: an interface with an IPv6 address needs 'gateway-mac'",
            "t/chain.yaml:9:66: error: f: an MTU is at least 68 bytes",
        ],
    );
    wrong(
        "    router:\n      interfaces: [ { name: a, address: 10.0.0.1/24, mac: \"02:00:00:00:00:01\" } ]\n      routes:\n        - 10.0.0.0/33 dev a\n        - 10.1.0.0/16 dev b\n        - 10.2.0.0/16 via 9.9.9.9\n        - 10.3.0.0/16",
        1,
        &[
            "t/chain.yaml:6:11: error: f: `10.0.0.0/33`: a prefix is at most 32 bits long",
            "t/chain.yaml:7: route 10.1.0.0/16: no interface 'b'",
            "next hop 9.9.9.9 is on no interface's network",
            "expected 'via ADDRESS' or 'dev PORT'",
        ],
    );
}

#[test]
fn nat() {
    wrong(
        "    nat: {}",
        2,
        &[
            "t/chain.yaml:3:",
            "give either 'pool' (address and port translation) or 'one-to-one', or 'prefixes' (of IPv6)",
        ],
    );
    wrong(
        "    nat: { pool: 1.2.3 }",
        2,
        &["t/chain.yaml:3:18: error: f: expected an address or a range of at most 256"],
    );
    wrong(
        "    nat: { pool: 1.2.3.4, port-range: 5-1 }",
        2,
        &["t/chain.yaml:3:39: error: f: expected a port range such as 1024-65535"],
    );
    wrong(
        "    nat: { pool: 1.2.3.4, forward: [x] }",
        2,
        &["t/chain.yaml:3:37: error: f: expected 'tcp 203.0.113.1:80 -> 10.0.0.5:8080', found 'x'"],
    );
    wrong(
        "    nat: { one-to-one: [10.0.0.1] }",
        2,
        &["t/chain.yaml:3:25: error: f: expected INSIDE = OUTSIDE"],
    );
    wrong(
        "    nat: { one-to-one: [10.0.0.1 = 1.1.1.1], forward: [] }",
        2,
        &["'forward' goes with 'pool'"],
    );
    wrong(
        "    nat: { pool: 1.2.3.4, encap-inside: { mac: x, next-hop: y } }",
        2,
        &["t/chain.yaml:3:48: error: f: `x`: expected a MAC address"],
    );
}

#[test]
fn load_balancer() {
    wrong(
        "    load-balancer: { address: x, servers: [] }",
        2,
        &["t/chain.yaml:3:31: error: f: expected an address, found 'x'"],
    );
    wrong(
        "    load-balancer: { address: 1.1.1.1, servers: [] }",
        2,
        &["a load balancer has 1 to 1024 servers"],
    );
    wrong(
        "    load-balancer:\n      address: 1.1.1.1\n      servers: [ { address: 2.2.2 }, { address: 2.2.2.2, weight: 101 } ]",
        2,
        &[
            "t/chain.yaml:5:29: error: f: expected an IPv4 address, found '2.2.2'",
            "t/chain.yaml:5:66: error: f: a weight is from 1 to 100",
        ],
    );
    wrong(
        "    load-balancer: { address: 1.1.1.1, policy: source-hash, servers: [ { address: 2.2.2.2, weight: 64 } ] }",
        2,
        &["a weight is from 1 to 63"],
    );
    wrong(
        "    load-balancer: { address: 1.1.1.1, servers: [ { address: 2.2.2.2, port: 0 } ] }",
        2,
        &["a port is from 1 to 65535"],
    );
}

#[test]
fn click() {
    wrong(
        "    click: { config: \"FromDevice(0) -> ToDevice(1)\", file: x }",
        2,
        &["click wants either 'file' or 'config'"],
    );
    wrong(
        "    click: { config: \"FromDevice(0 -> ToDevice(1)\" }",
        2,
        &["f (config):1:"],
    );
    wrong(
        "    click: nowhere.click",
        2,
        &["t/chain.yaml:3:", "cannot read './nowhere.click'"],
    );
    wrong(
        "    click: { config: \"FromDevice(0) -> ToDevice(1)\" }\n    ports: [a, b]",
        2,
        &["no device element uses 'a'"],
    );
}
