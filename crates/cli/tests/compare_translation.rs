//! `onefold compare kernel` of rules that translate addresses.

use crate::common;

use common::kernel::{CHAIN, can, compare, known, listed, write};
use common::temp;

/// An office's router: its own address outside, and two forwards.
const OFFICE: &str = "*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i wan0 -p tcp -m tcp --dport 443 -j DNAT --to-destination 192.168.1.80:8443
-A PREROUTING -i wan0 -d 203.0.113.1/32 -p udp -m udp --dport 5000:5010 -j DNAT --to-destination 192.168.1.81
-A POSTROUTING -s 192.168.1.0/24 -o wan0 -j MASQUERADE
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -i lan0 -o wan0 -j ACCEPT
-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT
COMMIT
";

/// Every kind of range.
const RANGES: &str = "*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:PUBLIC - [0:0]
-A PREROUTING -i wan0 -j PUBLIC
-A PREROUTING -i lan0 -p udp -m udp --dport 53 -j DNAT --to-destination 198.51.100.53-198.51.100.54
-A POSTROUTING -s 192.168.1.0/28 -o wan0 -p tcp -j SNAT --to-source 203.0.113.8-203.0.113.11:1024-1055
-A POSTROUTING -s 192.168.1.0/28 -o wan0 -j SNAT --to-source 203.0.113.8-203.0.113.11 --persistent
-A POSTROUTING -s 192.168.2.0/24 -o wan0 -j NETMAP --to 203.0.114.0/24
-A POSTROUTING -s 192.168.1.64/26 -o wan0 -p udp -j MASQUERADE --random
-A POSTROUTING -s 192.168.1.128/25 -d 198.51.100.0/24 -o wan0 -j ACCEPT
-A POSTROUTING -o wan0 -j MASQUERADE
-A PUBLIC -d 203.0.114.0/24 -j NETMAP --to 192.168.2.0/24
-A PUBLIC -s 198.51.100.9/32 -j RETURN
-A PUBLIC -p tcp -m tcp --dport 8000:8009 -j DNAT --to-destination 192.168.1.80:9000-9009/8000
-A PUBLIC -p tcp -m tcp --dport 80 -j DNAT --to-destination 192.168.1.80-192.168.1.83:8080-8081
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -i wan0 -m conntrack --ctstate DNAT -j ACCEPT
-A FORWARD -i wan0 -m conntrack --ctstate NEW -j DROP
COMMIT
";

/// Both families of nftables.
const NAT_NFT: &str = "table ip nat {
 chain prerouting {
  type nat hook prerouting priority -100;
  iifname \"wan0\" tcp dport 443 dnat to 192.168.1.80:8443
  iifname \"wan0\" udp dport 5000-5010 dnat to 192.168.1.81
 }
 chain postrouting {
  type nat hook postrouting priority 100;
  oifname \"wan0\" ip saddr 192.168.1.0/28 snat to 203.0.113.8-203.0.113.11
  oifname \"wan0\" ip saddr 192.168.2.0/24 snat ip prefix to 203.0.114.0/24
  oifname \"wan0\" masquerade
 }
}
table ip6 nat {
 chain prerouting {
  type nat hook prerouting priority -100;
  iifname \"wan0\" tcp dport 443 dnat to [2001:db8:1::80]:8443
 }
 chain postrouting {
  type nat hook postrouting priority 100;
  oifname \"wan0\" ip6 saddr 2001:db8:1::/64 masquerade
 }
}
table inet filter {
 chain forward {
  type filter hook forward priority 0; policy drop;
  ct state established,related accept
  iifname \"lan0\" accept
  ct status dnat accept
 }
}
";

/// Prefixes without state (RFC 6296): with prefixes of up to 48 bits the subnet is adjusted, with longer ones a word
/// behind it. Their packets are not tracked, and all others are. About an identifier of all ones the kernel would send
/// a Parameter Problem, which is not done here: such packets are dropped before.
const PREFIXES: &str = "*raw
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A PREROUTING -s fd02:1:2:300:ffff:ffff:ffff:ffff/128 -j DROP
-A PREROUTING -d 2001:db8:b:100:ffff:ffff:ffff:ffff/128 -j DROP
-A PREROUTING -s fd01:203:405::/48 -i lan0 -j NOTRACK
-A PREROUTING -s fd02:1:2:300::/64 -i lan0 -j NOTRACK
-A PREROUTING -d 2001:db8:a::/48 -i wan0 -j NOTRACK
-A PREROUTING -d 2001:db8:b:100::/64 -i wan0 -j NOTRACK
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -d 2001:db8:a::/48 -i wan0 -j DNPT --src-pfx 2001:db8:a::/48 --dst-pfx fd01:203:405::/48
-A PREROUTING -d 2001:db8:b:100::/64 -i wan0 -j DNPT --src-pfx 2001:db8:b:100::/64 --dst-pfx fd02:1:2:300::/64
-A POSTROUTING -s fd01:203:405::/48 -o wan0 -j SNPT --src-pfx fd01:203:405::/48 --dst-pfx 2001:db8:a::/48
-A POSTROUTING -s fd02:1:2:300::/64 -o wan0 -j SNPT --src-pfx fd02:1:2:300::/64 --dst-pfx 2001:db8:b:100::/64
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,UNTRACKED -j ACCEPT
-A FORWARD -i lan0 -o wan0 -j ACCEPT
COMMIT
";

/// NETMAP of IPv6: the other half stays, connections are tracked.
const NETMAP6: &str = "*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -d 2001:db8:a::/64 -i wan0 -j NETMAP --to 2001:db8:1::/64
-A POSTROUTING -s 2001:db8:1::/64 -o wan0 -j NETMAP --to 2001:db8:a::/64
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -i wan0 -m conntrack --ctstate NEW -p udp -j DROP
COMMIT
";

/// The same by nftables.
const PREFIX_NFT: &str = "table inet filter {
 chain forward {
  type filter hook forward priority 0; policy accept;
 }
}
table ip6 nat {
 chain prerouting {
  type nat hook prerouting priority -100;
  iifname \"wan0\" ip6 daddr 2001:db8:a::/64 dnat ip6 prefix to 2001:db8:1::/64
 }
 chain postrouting {
  type nat hook postrouting priority 100;
  oifname \"wan0\" ip6 saddr 2001:db8:1::/64 snat ip6 prefix to 2001:db8:a::/64
 }
}
";

/// A router's own addresses, of both families.
const ADDRESSES: &str = "addresses: { inside: [192.168.1.1/24, \"2001:db8:1::1/64\"], \
                         outside: [203.0.113.1/24, \"2001:db8:2::1/64\"] }";

/// Translation: the same addresses, and ports that are a one-to-one mapping where they are drawn.
#[test]
fn translated_connections() {
    if !can() {
        return;
    }
    let dir = temp("compare-translation");
    let with = format!("wan0 }}, {ADDRESSES}");
    let chain = CHAIN.replace("wan0 }", &with);
    let v4 = chain.replace(", rules6-file: FILE6", "");
    write(&dir, "office.rules", OFFICE);
    write(&dir, "office.yaml", &v4.replace("FILE", "office.rules"));
    write(&dir, "ranges.rules", RANGES);
    write(&dir, "ranges.yaml", &v4.replace("FILE", "ranges.rules"));
    write(&dir, "nat.nft", NAT_NFT);
    write(&dir, "nat.json", &listed(&dir.join("nat.nft")));
    let both = chain.replace("FILE6", "nat.json");
    write(&dir, "nft.yaml", &both.replace("FILE", "nat.json"));
    for chain in ["office.yaml", "ranges.yaml", "nft.yaml"] {
        let v = compare(&dir, 0, &[chain, "--packets", "4000"]);
        assert_eq!(v["differences"], 0, "{chain}: {v}");
        assert!(v["compared"].as_u64() > Some(2000), "{chain}: {v}");
        assert!(v["with_output"].as_u64() > Some(500), "{chain}: {v}");
        assert!(known(&v, "ports and identifiers") > 0, "{chain}: {v}");
    }
}

/// Prefixes of IPv6: without state and with it.
#[test]
fn translated_prefixes() {
    if !can() {
        return;
    }
    let dir = temp("compare-prefixes");
    let with = format!("wan0 }}, {ADDRESSES}");
    let chain = CHAIN
        .replace("wan0 }", &with)
        .replace("rules-file: FILE, ", "rules: [], ");
    // connections are entered as their packets arrived: answers belong to none
    let tracked: String = (PREFIXES.lines().filter(|l| !l.ends_with("NOTRACK")))
        .map(|l| format!("{l}\n"))
        .collect();
    for (name, rules, least) in [
        ("prefixes.rules", PREFIXES, 300),
        ("tracked.rules", &tracked, 300),
        ("netmap6.rules", NETMAP6, 300),
        ("prefix.nft", PREFIX_NFT, 300),
    ] {
        write(&dir, name, rules);
        let file = match name.strip_suffix(".nft") {
            Some(_) => {
                write(&dir, "prefix.json", &listed(&dir.join(name)));
                "prefix.json"
            }
            None => name,
        };
        write(&dir, "chain.yaml", &chain.replace("FILE6", file));
        let v = compare(&dir, 0, &["chain.yaml", "--packets", "4000"]);
        assert_eq!(v["differences"], 0, "{name}: {v}");
        assert!(v["with_output"].as_u64() > Some(least), "{name}: {v}");
    }
}

/// Whole rulesets as they were found: hosts of containers, and routers.
#[test]
fn published_rulesets() {
    if !can() {
        return;
    }
    let dir = temp("compare-published");
    for (file, inside, outside, address) in [
        (
            "containers/docker-published.rules",
            "docker0",
            "eth0",
            "172.17.0.1/16",
        ),
        (
            "containers/docker-bridge.rules",
            "br-dummy",
            "eth0",
            "192.168.0.1/24",
        ),
        (
            "iptables/home-router.rules",
            "br0",
            "eth0",
            "192.168.1.254/24",
        ),
    ] {
        let Some(path) = onefold_testing::ruleset(file) else {
            return;
        };
        let chain = CHAIN
            .replace(", rules6-file: FILE6", "")
            .replace("FILE", &format!("\"{}\"", path.display()))
            .replace("lan0", inside)
            .replace("wan0 }", &format!("{outside} }}, {ADDRESSES}"))
            .replace("192.168.1.1/24", address);
        write(&dir, "chain.yaml", &chain);
        let v = compare(&dir, 0, &["chain.yaml", "--packets", "3000"]);
        assert_eq!(v["differences"], 0, "{file}: {v}");
        assert!(v["with_output"].as_u64() > Some(300), "{file}: {v}");
    }
}

/// Another address in the kernel's rules, or a port that stays in one of both: found.
#[test]
fn a_planted_translation_is_found() {
    if !can() {
        return;
    }
    let dir = temp("compare-planted-nat");
    let with = format!("wan0 }}, {ADDRESSES}");
    let chain = CHAIN.replace("wan0 }", &with);
    let chain = chain.replace(", rules6-file: FILE6", "");
    write(&dir, "office.rules", OFFICE);
    write(&dir, "office.yaml", &chain.replace("FILE", "office.rules"));
    for (was, is) in [
        ("192.168.1.80:8443", "192.168.1.80:8444"),
        ("192.168.1.81", "192.168.1.82"),
        ("MASQUERADE", "SNAT --to-source 203.0.113.2"),
    ] {
        write(&dir, "other.rules", &OFFICE.replace(was, is));
        write(&dir, "other.yaml", &chain.replace("FILE", "other.rules"));
        let args = [
            "office.yaml",
            "--against",
            "other.yaml",
            "--packets",
            "4000",
        ];
        let v = compare(&dir, 1, &args);
        assert_eq!(v["differences"], 1, "{was}: {v}");
    }
}
