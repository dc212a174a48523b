//! `onefold compare kernel` of rules that set marks and header fields, or leave packets untracked.

use crate::common;

use common::kernel::{CHAIN, can, compare, listed, write};
use common::temp;

/// Marks that are set in one table and asked for in another, with masks, in chains that are called and come back.
const MARKS: &str = "*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -s 192.168.1.0/28 -j MARK --set-xmark 0x100/0xf00
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i lan0 -p tcp -m tcp --dport 80 -j MARK --or-mark 0x1
-A PREROUTING -i lan0 -p udp -j MARK --xor-mark 0x3
-A PREROUTING -m mark --mark 0x1/0x1 -d 198.51.100.0/24 -j MARK --set-mark 0x10/0x30
-A FORWARD -m mark --mark 0x101/0xfff -j DROP
-A POSTROUTING -m mark ! --mark 0x0/0x2 -p udp -m udp --dport 53 -j DROP
COMMIT
*filter
:FORWARD DROP [0:0]
:own - [0:0]
-A FORWARD -m mark --mark 0x2/0x2 -j own
-A FORWARD -m mark --mark 0x10/0x30 -j ACCEPT
-A FORWARD -i wan0 -j ACCEPT
-A own -s 192.168.1.32/27 -j MARK --and-mark 0xfffffffd
-A own -m mark --mark 0x2/0x2 -j RETURN
-A own -p udp -m udp --dport 1000:2000 -j DROP
-A own -j ACCEPT
COMMIT
";

/// Marks of connections: saved, restored, asked for of replies.
const CONNMARKS: &str = "*mangle
:PREROUTING ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -j CONNMARK --restore-mark
-A PREROUTING -m mark ! --mark 0x0 -j ACCEPT
-A PREROUTING -i lan0 -p tcp -m tcp --dport 80 -j MARK --set-mark 1
-A PREROUTING -i lan0 -p udp -m udp --dport 53 -j MARK --set-mark 2
-A PREROUTING -m mark --mark 0x2 -j CONNMARK --save-mark
-A FORWARD -m connmark --mark 0x3 -m conntrack --ctdir REPLY -j DROP
-A FORWARD -i lan0 -p tcp -m mark --mark 0x1 -j CONNMARK --set-mark 3
-A POSTROUTING -m connmark ! --mark 0x0 -p icmp -j DROP
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -m mark --mark 0x2 -j ACCEPT
-A FORWARD -m connmark --mark 0x3 -j ACCEPT
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -i lan0 -p icmp -j CONNMARK --set-xmark 0x40/0x40
-A FORWARD -i lan0 -p icmp -j ACCEPT
-A FORWARD -i lan0 -p tcp -m tcp --dport 22 -j ACCEPT
COMMIT
";

/// As hosts of containers do: what is marked in front of the rules is masqueraded behind them.
const NATMARKS: &str = "*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:MARK-MASQ - [0:0]
:SVC - [0:0]
-A PREROUTING -d 192.168.1.1/32 -p tcp -m tcp --dport 80 -j SVC
-A PREROUTING -i lan0 -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j SVC
-A PREROUTING -i wan0 -d 203.0.113.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 192.168.1.53
-A SVC ! -s 192.168.1.128/25 -j MARK-MASQ
-A SVC -s 192.168.1.64/26 -j RETURN
-A SVC -p tcp -j DNAT --to-destination 198.51.100.80:8443
-A MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A POSTROUTING -o wan0 -j MASQUERADE
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -s 192.168.1.128/25 -j ACCEPT
-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT
COMMIT
";

/// Packets that are not tracked, with marks and without.
const NOTRACK: &str = "*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -i lan0 -p udp -m udp --dport 53 -j CT --notrack
-A PREROUTING -i wan0 -p udp -m udp --sport 53 -j NOTRACK
-A PREROUTING -s 192.168.1.0/29 -j MARK --set-mark 7
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate UNTRACKED -m mark ! --mark 7 -j ACCEPT
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -i lan0 -p tcp -j ACCEPT
-A FORWARD -i lan0 -m conntrack --ctstate NEW -p udp -j ACCEPT
-A FORWARD -i lan0 -m mark --mark 7 -p icmp -j ACCEPT
COMMIT
";

/// What is not tracked is not translated.
const NATNOTRACK: &str = "*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -i lan0 -p udp -m udp --dport 53 -j CT --notrack
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -s 192.168.1.0/24 -o wan0 -j MASQUERADE
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -i lan0 -j ACCEPT
COMMIT
";

/// Fields of headers, one rule behind the other.
const FIELDS: &str = "*mangle
:PREROUTING ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i lan0 -p udp -j DSCP --set-dscp 0x0a
-A FORWARD -i lan0 -p udp -m udp --dport 9000:40000 -j TTL --ttl-set 40
-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
-A POSTROUTING -o wan0 -p icmp -j TTL --ttl-inc 3
-A POSTROUTING -o lan0 -p icmp -j TTL --ttl-dec 2
-A POSTROUTING -s 192.168.1.0/26 -j DSCP --set-dscp-class CS6
COMMIT
*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -d 198.51.100.0/24 -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 800
-A FORWARD -p udp -m udp --dport 7 -j DROP
COMMIT
";

/// All of it in the words of nftables, for both families.
const NFT: &str = "table inet t {
 chain raw { type filter hook prerouting priority raw; policy accept;
  iifname \"lan0\" udp dport 53 notrack
  iifname \"wan0\" udp sport 53 notrack
  ip saddr 192.168.1.0/28 meta mark set meta mark | 0x100
  ip6 saddr 2001:db8:1::/96 meta mark set meta mark | 0x100
 }
 chain pre { type filter hook prerouting priority mangle; policy accept;
  meta mark set ct mark & 0xff | 0x200
  meta mark & 0xff != 0 accept
  iifname \"lan0\" tcp dport 80 meta mark set meta mark ^ 0x3
  iifname \"lan0\" tcp dport { 22, 443 } meta mark set 0x7
  ct state new ct mark set meta mark & 0x0f
 }
 chain forward { type filter hook forward priority filter; policy drop;
  ct state untracked accept
  ct mark 0x7 ct direction reply drop
  meta mark & 0xff == 0x3 accept
  ct mark { 0x3, 0x7 } accept
  ct state established,related accept
  iifname \"lan0\" meta l4proto { icmp, ipv6-icmp } meta mark set 0x9 accept
 }
 chain post { type filter hook postrouting priority mangle; policy accept;
  meta mark 0x9 ip dscp set cs3
  meta mark 0x9 ip6 dscp set 46
  tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu
  oifname \"wan0\" udp dport 53 ip ttl set 33
  oifname \"wan0\" udp dport 53 ip6 hoplimit set 33
  oifname \"wan0\" tcp flags syn tcp option maxseg size set 900
 }
}
";

/// The router's own addresses.
const ADDRESSES: &str = "addresses: { inside: [192.168.1.1/24, \"2001:db8:1::1/64\"], \
                         outside: [203.0.113.1/24, \"2001:db8:2::1/64\"] }";

/// The same packets with the same fields come out, whatever marks they have had on their way.
#[test]
fn marks_and_fields() {
    if !can() {
        return;
    }
    let dir = temp("compare-marks");
    let with = format!("wan0 }}, {ADDRESSES}");
    let chain = CHAIN.replace("wan0 }", &with);
    let v4 = chain.replace(", rules6-file: FILE6", "");
    for (name, rules) in [
        ("marks", MARKS),
        ("connmarks", CONNMARKS),
        ("natmarks", NATMARKS),
        ("notrack", NOTRACK),
        ("natnotrack", NATNOTRACK),
        ("fields", FIELDS),
    ] {
        let file = format!("{name}.rules");
        write(&dir, &file, rules);
        write(&dir, &format!("{name}.yaml"), &v4.replace("FILE", &file));
    }
    write(&dir, "rules.nft", NFT);
    write(&dir, "rules.json", &listed(&dir.join("rules.nft")));
    let both = chain.replace("FILE6", "rules.json");
    write(&dir, "nft.yaml", &both.replace("FILE", "rules.json"));
    for name in [
        "marks",
        "connmarks",
        "natmarks",
        "notrack",
        "natnotrack",
        "fields",
        "nft",
    ] {
        let v = compare(&dir, 0, &[&format!("{name}.yaml"), "--packets", "3000"]);
        assert_eq!(v["differences"], 0, "{name}: {v}");
        assert!(v["compared"].as_u64() > Some(700), "{name}: {v}");
        assert!(v["with_output"].as_u64() > Some(200), "{name}: {v}");
    }
}
