//! `onefold compare kernel`: real rules and routes, in the kernel and in Onefold.

use crate::common;

use common::kernel::{CHAIN, can, compare, firewall, known, listed, write};
use common::{onefold, temp};
use std::fmt::Write;
use std::process::Command;

const RULES: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:SERVICES - [0:0]
-A FORWARD -i lan0 -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j ACCEPT
-A FORWARD -s 192.168.1.0/24 -p udp -m udp --sport 1024:65535 --dport 53 -j ACCEPT
-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST,ACK,FIN SYN -j SERVICES
-A FORWARD ! -s 172.16.0.0/12 -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A FORWARD -p tcp -m multiport --dports 22,443,8000:8080 -j ACCEPT
-A FORWARD -f -j ACCEPT
-A FORWARD -m ttl --ttl-lt 5 -j DROP
-A FORWARD -o wan0 -m iprange --src-range 10.1.2.3-10.1.9.200 -j ACCEPT
-A FORWARD -p udp -j REJECT --reject-with icmp-port-unreachable
-A SERVICES -d 203.0.113.0/24 -p tcp -m tcp --dport 25 -j ACCEPT
-A SERVICES -d 203.0.113.7/32 -j RETURN
-A SERVICES -p tcp -m tcp --dport 110 -j DROP
COMMIT
";

const RULES6: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -s 2001:db8::/32 -p tcp -m tcp --dport 80 -j ACCEPT
-A FORWARD -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j ACCEPT
-A FORWARD -p udp -m multiport --dports 53,123 -j ACCEPT
-A FORWARD -m hl --hl-gt 200 -j DROP
-A FORWARD -d 2001:db8:1::/48 -j ACCEPT
COMMIT
";

/// Maps. That by name jumps nowhere: nft 1.0.6 does not read back what it lists of one that does.
const MAPS_NFT: &str = "table inet filter {
 map services { type inet_service : verdict; elements = { 22 : accept, 23 : drop, 80 : accept } }
 chain web {
  ip saddr 10.0.0.0/9 return
  accept
 }
 chain lan {
  tcp dport vmap @services
  udp dport vmap { 53 : accept, 1000-2000 : accept, 67 : drop }
  ip saddr . tcp dport vmap { 10.0.0.1 . 80 : accept, 10.0.0.2 . 443 : drop, 10.0.0.3 . 443 : goto web }
  tcp dport 443 accept
 }
 chain forward {
  type filter hook forward priority 0; policy drop;
  iifname . oifname vmap { \"lan0\" . \"wan0\" : jump lan, \"wan0\" . \"lan0\" : continue }
  ip saddr vmap { 10.1.0.0/16 : accept, 10.2.0.0/16 : drop }
  ip daddr . udp dport { 10.1.0.1 . 123, 10.1.0.2 . 53 } accept
  meta l4proto vmap { icmp : accept, 47 : drop }
  icmpv6 type vmap { echo-request : accept, echo-reply : drop }
  ip6 saddr . tcp dport { 2001:db8::1 . 22, 2001:db8::2 . 80 } accept
 }
}
";

const NFT: &str = "table inet filter {
 set blocked { type ipv4_addr; flags interval; elements = { 10.66.0.0/16, 192.0.2.7 } }
 chain services {
  tcp dport { 22, 80, 443 } accept
  udp dport 53 accept
  tcp dport 1000-2000 return
  tcp flags syn / syn,ack drop
 }
 chain forward {
  type filter hook forward priority 0; policy drop;
  ip saddr @blocked drop
  iifname \"lan0\" ip saddr 10.0.0.0/8 jump services
  ip daddr 203.0.113.0/24 tcp dport 25 accept
  ip6 saddr 2001:db8::/32 tcp dport != 25 accept
  meta l4proto icmp icmp type echo-request accept
  icmpv6 type { echo-request, echo-reply } accept
  udp sport 1024-65535 udp dport 123 reject
  ip protocol udp ip daddr 198.51.100.1 accept
 }
}
";

/// Rules that ask about connections.
const STATEFUL: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -i lan0 -p tcp -m tcp --dport 80 -m conntrack --ctstate NEW -j ACCEPT
-A FORWARD -i lan0 -p udp -m udp --dport 53 -j ACCEPT
-A FORWARD -p icmp -m icmp --icmp-type 8 -m state --state NEW -j ACCEPT
-A FORWARD -i wan0 -d 10.1.0.0/16 -p tcp -m tcp --dport 443 -m conntrack ! --ctstate INVALID --ctdir ORIGINAL -j ACCEPT
COMMIT
";

const STATEFUL_NFT: &str = "table inet filter {
 chain early {
  ct state vmap { invalid : drop, established : accept, related : accept }
 }
 chain forward {
  type filter hook forward priority 0; policy drop;
  jump early
  iifname \"lan0\" ct state new tcp dport { 22, 80 } accept
  iifname \"lan0\" udp dport 53 accept
  ct state new icmp type echo-request accept
  icmpv6 type echo-request accept
  ct state untracked icmpv6 type != nd-neighbor-advert accept
  ip6 saddr 2001:db8::/32 tcp dport 443 ct direction original accept
 }
}
";

/// Others: direction and status.
const STATUS_NFT: &str = "table inet filter {
 chain forward {
  type filter hook forward priority 0; policy drop;
  ct direction reply ct status seen-reply tcp sport 80 accept
  ct status assured meta l4proto tcp accept
  ct state { new, related } ip saddr 10.0.0.0/8 accept
  ct direction != reply ct state established udp sport 1000-2000 accept
  ct state != new ct state != invalid tcp dport 80-100 accept
  tcp dport 80 tcp flags syn accept
  ct status != assured ip6 saddr 2001:db8::/32 accept
 }
}
";

#[test]
fn rules_of_iptables() {
    if !can() {
        return;
    }
    let dir = temp("compare-iptables");
    write(&dir, "v4.rules", RULES);
    write(&dir, "v6.rules", RULES6);
    firewall(&dir, "chain.yaml", "v4.rules", "v6.rules");
    let v = compare(&dir, 0, &["chain.yaml", "--packets", "3000"]);
    assert_eq!(v["differences"], 0, "{v}");
    assert!(v["compared"].as_u64() > Some(2500), "{v}");
    assert!(v["with_output"].as_u64() > Some(1000), "{v}");
    // REJECT has an answer in the kernel, and none here
    assert!(known(&v, "answers of REJECT") > 0, "{v}");
}

/// A file with what a script says.
const SCRIPT: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-F
-P FORWARD DROP
-N services
-N empty
-X empty
-4 -A FORWARD -p icmp -m icmp --icmp-type 8 -j ACCEPT
-6 -A FORWARD -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j ACCEPT
-A FORWARD -p tcp -j DROP
-A FORWARD -p tcp -j services
-D FORWARD 2
-I FORWARD -p udp -m udp --dport 53 -j ACCEPT
-I FORWARD 2 -p tcp -m tcp --dport 25 -j DROP
-I FORWARD 5 --ipv4 -s 10.0.0.0/9 -j ACCEPT
-A services -p tcp -m tcp --dport 1000:2000 -j DROP
-A services -j DROP
-F services
-A services -p tcp -m multiport --dports 22,25,80 -j ACCEPT
COMMIT
";

/// Rates that are never reached, and jumps and returns with them. Those of a clock are not the kernel's.
const RATES: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:LIMITED - [0:0]
:FLOOD - [0:0]
-A FORWARD -p tcp -m tcp --dport 80 -m limit --limit 10000/sec --limit-burst 10000 -j ACCEPT
-A FORWARD -m limit --limit 10000/sec --limit-burst 10000 -m udp -p udp --dport 53 -j ACCEPT
-A FORWARD -p udp -j FLOOD
-A FORWARD -s 10.0.0.0/8 -m limit --limit 10000/sec --limit-burst 10000 -g LIMITED
-A FORWARD -p icmp -m limit --limit 1/day --limit-burst 1 -j LOG
-A FORWARD -p icmp -j ACCEPT
-A LIMITED -p tcp -m tcp --dport 22 -j ACCEPT
-A FLOOD -m limit --limit 10000/sec --limit-burst 10000 -j RETURN
-A FLOOD -j ACCEPT
COMMIT
";

/// The same of nftables: what is beyond a rate that is never reached is nothing.
const RATES_NFT: &str = "table inet filter {
 chain forward {
  type filter hook forward priority 0; policy drop;
  limit rate over 100000/second burst 100000 packets drop
  tcp dport 80 limit rate 500 mbytes/second accept
  udp dport 53 limit rate over 1000000/second burst 1000000 packets accept
  ip saddr 10.0.0.0/8 limit rate 100000/second burst 100000 packets jump own
  icmpv6 type echo-request limit rate 100000/second burst 100000 packets accept
 }
 chain own {
  tcp dport 22 accept
  udp dport 1000-2000 limit rate 100000/second burst 100000 packets return
  meta l4proto udp accept
 }
}
";

#[test]
fn lines_of_scripts_and_rates() {
    if !can() {
        return;
    }
    let dir = temp("compare-scripts");
    write(&dir, "script.rules", SCRIPT);
    firewall(&dir, "script.yaml", "script.rules", "script.rules");
    write(&dir, "rates.rules", RATES);
    let text = CHAIN
        .replace(", rules6-file: FILE6", "")
        .replace("FILE", "rates.rules");
    write(&dir, "rates.yaml", &text);
    write(&dir, "rates.nft", RATES_NFT);
    write(&dir, "rates.json", &listed(&dir.join("rates.nft")));
    firewall(&dir, "nft.yaml", "rates.json", "rates.json");
    for chain in ["script.yaml", "rates.yaml", "nft.yaml"] {
        let v = compare(&dir, 0, &[chain, "--packets", "3000"]);
        assert_eq!(v["differences"], 0, "{chain}: {v}");
        assert!(v["compared"].as_u64() > Some(2000), "{chain}: {v}");
        assert!(v["with_output"].as_u64() > Some(300), "{chain}: {v}");
    }
}

/// Connections: the same packets make the same ones in the kernel, and are told apart alike.
#[test]
fn connections() {
    if !can() {
        return;
    }
    let dir = temp("compare-connections");
    write(&dir, "v4.rules", STATEFUL);
    let text = CHAIN
        .replace(", rules6-file: FILE6", "")
        .replace("FILE", "v4.rules");
    write(&dir, "iptables.yaml", &text);
    for (name, rules) in [("states", STATEFUL_NFT), ("status", STATUS_NFT)] {
        write(&dir, "rules.nft", rules);
        let json = format!("{name}.json");
        write(&dir, &json, &listed(&dir.join("rules.nft")));
        firewall(&dir, &format!("{name}.yaml"), &json, &json);
    }
    for chain in ["iptables.yaml", "states.yaml", "status.yaml"] {
        let v = compare(&dir, 0, &[chain, "--packets", "6000"]);
        assert_eq!(v["differences"], 0, "{chain}: {v}");
        assert!(v["compared"].as_u64() > Some(2000), "{chain}: {v}");
        assert!(v["with_output"].as_u64() > Some(500), "{chain}: {v}");
    }
}

/// What is known of both is a difference, too, where that is asked for: here that iptables drops a packet whose
/// transport header is cut short, or answers to one that it rejects.
#[test]
fn what_is_known_is_told_with_strict() {
    if !can() {
        return;
    }
    let dir = temp("compare-strict");
    write(&dir, "v4.rules", RULES);
    write(&dir, "v6.rules", RULES6);
    firewall(&dir, "chain.yaml", "v4.rules", "v6.rules");
    let args = [
        "chain.yaml",
        "--packets",
        "2000",
        "--strict",
        "--shrink-time",
        "5",
    ];
    let v = compare(&dir, 1, &args);
    assert_eq!(v["differences"], 1, "{v}");
    let trace = v["found"][0]["trace_compared"].to_string();
    assert!(trace.contains("in at "), "{v}");
}

#[test]
fn rules_of_nftables() {
    if !can() {
        return;
    }
    let dir = temp("compare-nftables");
    write(&dir, "rules.nft", NFT);
    let json = listed(&dir.join("rules.nft"));
    write(&dir, "rules.json", &json);
    firewall(&dir, "chain.yaml", "rules.json", "rules.json");
    let v = compare(&dir, 0, &["chain.yaml", "--packets", "3000", "--seed", "5"]);
    assert_eq!(v["differences"], 0, "{v}");
    assert!(v["with_output"].as_u64() > Some(1000), "{v}");
}

/// Verdict maps, by value and by name, and comparisons of concatenated values.
#[test]
fn maps_of_nftables() {
    if !can() {
        return;
    }
    let dir = temp("compare-maps");
    write(&dir, "rules.nft", MAPS_NFT);
    let json = listed(&dir.join("rules.nft"));
    write(&dir, "rules.json", &json);
    firewall(&dir, "chain.yaml", "rules.json", "rules.json");
    let v = compare(&dir, 0, &["chain.yaml", "--packets", "4000"]);
    assert_eq!(v["differences"], 0, "{v}");
    assert!(v["with_output"].as_u64() > Some(500), "{v}");
}

/// A rule is changed in one of two files, and the kernel is given the other one: that is found, made small, and
/// followed through the rules of both.
#[test]
fn a_planted_difference_is_found_and_made_small() {
    if !can() {
        return;
    }
    let dir = temp("compare-planted");
    write(&dir, "v4.rules", RULES);
    write(&dir, "v6.rules", RULES6);
    // a port of a list is missing
    write(&dir, "other.rules", &RULES.replace("22,443,", "443,"));
    firewall(&dir, "chain.yaml", "v4.rules", "v6.rules");
    firewall(&dir, "other.yaml", "other.rules", "v6.rules");
    let args = [
        "chain.yaml",
        "--against",
        "other.yaml",
        "--packets",
        "5000",
        "--out-dir",
        "found",
    ];
    let v = compare(&dir, 1, &args);
    assert_eq!(v["differences"], 1, "{v}");
    let f = &v["found"][0];
    assert_eq!(f["compared"], "nothing", "{f}");
    let sequence = f["sequence"].as_array().expect("it came again");
    assert_eq!(sequence.len(), 1, "{f}");
    // TCP to port 22
    let packet = sequence[0]["packet"].as_str().expect("hexadecimal");
    assert_eq!(&packet[46..48], "06", "{f}");
    assert_eq!(&packet[72..76], "0016", "{f}");
    let ours = f["trace_reference"].to_string();
    assert!(ours.contains("v4.rules:10"), "{f}");
    let theirs = f["trace_compared"].to_string();
    assert!(theirs.contains("nothing left"), "{f}");
    assert!(
        theirs.contains("FORWARD"),
        "what the kernel's rules did: {f}"
    );
    let captures = v["captures"].as_array().expect("a list");
    assert!(
        captures
            .iter()
            .all(|c| dir.join(c.as_str().unwrap_or("?")).exists()),
        "{v}"
    );
    assert!(!captures.is_empty(), "{v}");
}

/// So many routes to three interfaces, one of which takes short packets only.
fn routes(n: u32) -> String {
    let mut t = String::new();
    for i in 0..n {
        // prefixes of three lengths, some within others
        let (net, len) = match i % 4 {
            0 => (i / 4 * 0x0001_0000, 16),
            3 => (i / 4 * 0x0001_0000 + 0x4000, 20),
            k => (i / 4 * 0x0001_0000 + k * 0x100, 24),
        };
        let net = std::net::Ipv4Addr::from(0x1400_0000 + net);
        let _ = match i % 23 {
            5 => writeln!(t, "blackhole {net}/{len}"),
            9 => writeln!(t, "unreachable {net}/{len}"),
            13 => writeln!(t, "prohibit {net}/{len}"),
            17 => writeln!(t, "throw {net}/{len}"),
            _ => writeln!(
                t,
                "{net}/{len} via 10.{}.0.{} dev eth{} proto static",
                i % 3,
                2 + i % 200,
                i % 3
            ),
        };
    }
    t + "default via 10.2.0.254 dev eth2 proto static metric 200\n\
         default via 10.1.0.254 dev eth1 proto dhcp metric 100\n\
         default via 10.0.0.254 dev eth0 proto static metric 300\n\
         10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.1\n"
}

/// A router with so many routes, and so many packets; at least so many of them leave.
fn router(name: &str, number: u32, packets: &str, least: u64) {
    if !can() {
        return;
    }
    let dir = temp(name);
    write(&dir, "routes.txt", &routes(number));
    let chain = "functions:
  r:
    router:
      routes-file: routes.txt
      interfaces:
        - { name: eth0, address: 10.0.0.1/24, mac: \"02:00:00:00:00:01\" }
        - { name: eth1, address: 10.1.0.1/24, mac: \"02:00:00:00:00:02\" }
        - { name: eth2, address: 10.2.0.1/24, mac: \"02:00:00:00:00:03\", mtu: 600 }
ports: { a: \"r[0]\", b: \"r[1]\", c: \"r[2]\" }
";
    write(&dir, "chain.yaml", chain);
    let v = compare(&dir, 0, &["chain.yaml", "--packets", packets]);
    assert_eq!(v["differences"], 0, "{v}");
    assert!(v["with_output"].as_u64() >= Some(least), "{v}");
}

#[test]
fn a_router_with_forty_routes() {
    router("compare-router", 40, "2000", 400);
}

/// So many that a program asks the table, whatever is in it.
#[test]
fn a_router_with_five_thousand_routes() {
    router("compare-routes", 5000, "1000", 200);
}

#[test]
fn a_router_of_ipv6_behind_a_firewall() {
    if !can() {
        return;
    }
    let dir = temp("compare-chain");
    write(&dir, "v6.rules", RULES6);
    let chain = "functions:
  fw: { firewall: { rules: [], rules6-file: v6.rules } }
  r:
    router:
      routes:
        - 2001:db8:a::/48 via 2001:db8:1::2
        - default via fe80::8 dev 0 metric 2048
        - default via fe80::9 dev 1
        - 2001:db8:c::/48 blackhole
        - unreachable 2001:db8:1:8000::/49
        - prohibit 2001:db8:1:4000::/50
      interfaces:
        - { address6: \"2001:db8:0::1/64\", mac: \"02:00:00:00:00:01\", gateway-mac: \"02:00:00:00:01:01\" }
        - { address6: \"2001:db8:1::1/64\", mac: \"02:00:00:00:00:02\", gateway-mac: \"02:00:00:00:01:02\" }
links: [\"fw[1] <-> [0]r\"]
ports: { lan: \"fw[0]\", wan: \"r[1]\" }
";
    write(&dir, "chain.yaml", chain);
    let v = compare(&dir, 0, &["chain.yaml", "--packets", "1500"]);
    assert_eq!(v["differences"], 0, "{v}");
    assert!(v["with_output"].as_u64() > Some(200), "{v}");
}

/// What has no equivalent is refused by name, each with a hint; this needs no privilege.
#[test]
fn what_the_kernel_has_not_is_refused_by_name() {
    let dir = temp("compare-refused");
    write(
        &dir,
        "v4.rules",
        "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p tcp -j ACCEPT\nCOMMIT\n",
    );
    let ports = "ports: { lan: \"f[0]\", wan: \"f[1]\" }\n";
    for (function, words) in [
        ("monitor: {}", "a monitor has no equivalent"),
        (
            "firewall: { rules: [\"allow tcp\"] }",
            "IPFilter's language",
        ),
        (
            "firewall: { rules-file: v4.rules, default: allow }",
            "'default' has no equivalent",
        ),
        (
            "firewall: { rules-file: v4.rules, back: allow }",
            "'back' has no equivalent",
        ),
    ] {
        write(
            &dir,
            "chain.yaml",
            &format!("functions: {{ f: {{ {function} }} }}\n{ports}"),
        );
        let o = onefold(&dir, &["compare", "kernel", "chain.yaml"]);
        let err = String::from_utf8_lossy(&o.stderr).into_owned();
        assert_eq!(o.status.code(), Some(2), "{function}: {err}");
        assert!(
            err.contains(words) && err.contains("chain.yaml:1"),
            "{function}: {err}"
        );
        assert!(
            err.contains("help") || err.contains("hint"),
            "{function}: {err}"
        );
    }
}

/// Each thing that is known is on the page that lists them.
#[test]
fn the_page_lists_what_is_known() {
    let page = std::fs::read_to_string(common::root().join("docs/compare.md")).expect("the page");
    let page: String = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for k in onefold_kernel::documented::ALL {
        assert!(
            page.contains(k.name),
            "docs/compare.md says nothing of '{}'",
            k.name
        );
        let why: String = k.why.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            page.contains(&why),
            "docs/compare.md has another reason for '{}'",
            k.name
        );
    }
}

/// Ctrl-C ends it at once, and no namespace, interface or process is left.
#[test]
fn nothing_is_left_behind() {
    if !can() {
        return;
    }
    let dir = temp("compare-interrupted");
    write(&dir, "v4.rules", RULES);
    write(&dir, "v6.rules", RULES6);
    firewall(&dir, "chain.yaml", "v4.rules", "v6.rules");
    let args = [
        "compare",
        "kernel",
        "chain.yaml",
        "--packets",
        "100000000",
        "-q",
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .current_dir(&dir)
        .args(args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    // whenever it comes, it ends it
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let pid = child.id();
    let sent = Command::new("kill")
        .args(["-INT", &pid.to_string()])
        .status();
    assert!(sent.is_ok_and(|s| s.success()));
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    let mine = |n: String| n.contains("onefold") && n.contains(&pid.to_string());
    let names = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .flatten();
    assert!(
        !names
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .any(mine)
    );
}
