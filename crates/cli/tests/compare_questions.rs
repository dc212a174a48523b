//! `onefold compare kernel` of rules that ask for sets of ipset, and for every so many-th packet; and rules that draw
//! packets at random, by how often they hold in the kernel and in the chain.

use crate::common;

use common::kernel::{CHAIN, can, compare, firewall, listed, write};
use common::{run, temp};
use onefold_chain::Options;
use onefold_chain::kernel::load_for_kernel;
use onefold_element::ElemId;
use onefold_engine::{BuildOptions, Graph};
use onefold_kernel::{Lab, Pinned};
use onefold_packet::Timestamp;
use std::path::Path;

/// As `ipset save` prints them.
const SETS: &str = "create hosts hash:ip family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x157388e6
add hosts 10.0.0.1
add hosts 10.0.0.2
add hosts 192.168.1.77
create nets hash:net family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x78cf7dc9
add nets 10.0.0.0/8
add nets 10.1.0.0/16 nomatch
add nets 10.1.2.0/24
add nets 198.51.100.0/25
create services hash:ip,port family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x00000001
add services 203.0.113.10,tcp:80
add services 203.0.113.10,udp:53
add services 203.0.113.11,tcp:443
add services 203.0.113.12,icmp:8/0
create ways hash:ip,port,net family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x00000002
add ways 10.1.2.3,tcp:22,203.0.113.0/24
add ways 10.1.2.4,udp:123,198.51.100.0/24
create pairs hash:ip,port,ip family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x00000003
add pairs 10.0.0.1,tcp:8080,203.0.113.20
add pairs 10.0.0.2,udp:5060,203.0.113.20
create netports hash:net,port family inet hashsize 1024 maxelem 65536 bucketsize 12 initval 0x00000004
add netports 203.0.113.128/26,tcp:25
add netports 203.0.113.192/26,udp:4500
create odd bitmap:port range 0-65535
add odd 1000-1999
add odd 5353
create block bitmap:ip range 172.16.0.0-172.16.255.255
add block 172.16.3.0-172.16.3.255
add block 172.16.9.9
create hosts6 hash:ip family inet6 hashsize 1024 maxelem 65536 bucketsize 12 initval 0x00000005
add hosts6 2001:db8::1
add hosts6 2001:db8::2
create nets6 hash:net family inet6 hashsize 1024 maxelem 65536 bucketsize 12 initval 0x00000006
add nets6 2001:db8:1::/48
add nets6 2001:db8:1:2::/64 nomatch
create services6 hash:ip,port family inet6 hashsize 1024 maxelem 65536 bucketsize 12 initval 0x00000007
add services6 2001:db8:2::10,tcp:80
add services6 2001:db8:2::10,ipv6-icmp:128/0
create trusted list:set size 8
add trusted hosts
add trusted nets
create mixed list:set size 8
add mixed hosts
add mixed hosts6
add mixed nets6
";

/// With sets by either side, of fewer parts than they have, and lists of sets of the other family.
const ASKS: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -m set --match-set block src -j DROP
-A FORWARD -i lan0 -m set --match-set services dst,dst -j ACCEPT
-A FORWARD -i wan0 -m set --match-set services src,src -j ACCEPT
-A FORWARD -m set --match-set ways src,dst,dst -j ACCEPT
-A FORWARD -m set --match-set pairs src,dst,dst -j ACCEPT
-A FORWARD -m set --match-set netports dst,dst -j ACCEPT
-A FORWARD -p udp -m set --match-set odd dst -m set ! --match-set trusted src -j DROP
-A FORWARD -i lan0 -m set --match-set trusted src -j ACCEPT
-A FORWARD -i wan0 -m set --match-set nets dst -m set ! --match-set hosts dst -j ACCEPT
-A FORWARD -m set --match-set mixed dst -j ACCEPT
-A FORWARD -m set --match-set services dst -j ACCEPT
-A FORWARD -p tcp -m set ! --match-set services dst -m tcp --dport 7 -j ACCEPT
COMMIT
";

const ASKS6: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -m set --match-set mixed src -j ACCEPT
-A FORWARD -m set --match-set services6 dst,dst -j ACCEPT
-A FORWARD -i lan0 -m set ! --match-set nets6 src -p tcp -j DROP
-A FORWARD -i lan0 -m set --match-set odd dst -j ACCEPT
-A FORWARD -m set --match-set nets6 dst -j ACCEPT
COMMIT
";

/// The kernel has the sets from `ipset restore`, and does with them what the chain does; an element that it has not is
/// found.
#[test]
fn sets_of_ipset() {
    if !can() || !onefold_testing::tool("ipset") {
        return;
    }
    let dir = temp("compare-ipset");
    write(&dir, "v4.rules", ASKS);
    write(&dir, "v6.rules", ASKS6);
    write(&dir, "sets", SETS);
    write(&dir, "other", &SETS.replace("add hosts 10.0.0.2\n", ""));
    let both = CHAIN
        .replace("FILE6", "v6.rules")
        .replace("FILE", "v4.rules");
    for (chain, sets) in [("chain.yaml", "sets"), ("other.yaml", "other")] {
        let with = both.replace("interfaces:", &format!("sets-file: {sets}, interfaces:"));
        write(&dir, chain, &with);
    }
    let v = compare(&dir, 0, &["chain.yaml", "--packets", "6000"]);
    assert_eq!(v["differences"], 0, "{v}");
    assert!(v["compared"].as_u64() > Some(5500), "{v}");
    assert!(v["with_output"].as_u64() > Some(3000), "{v}");
    let args = ["chain.yaml", "--against", "other.yaml", "--packets", "6000"];
    let v = compare(&dir, 1, &args);
    assert!(v["found"][0]["sequence"].is_array(), "{v}");
}

/// Turns of rules in several chains, one behind the other.
const TURNS: &str = "*mangle
:PREROUTING ACCEPT [0:0]
-A PREROUTING -i lan0 -p tcp -m statistic --mode nth --every 4 --packet 1 -j DROP
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:even - [0:0]
-A FORWARD -p udp -m udp --dport 53 -m statistic --mode nth --every 3 --packet 0 -j ACCEPT
-A FORWARD -p udp -m udp --dport 53 -m statistic --mode nth --every 2 --packet 0 -j DROP
-A FORWARD -p udp -m udp --dport 53 -j ACCEPT
-A FORWARD -p tcp -m statistic --mode nth ! --every 5 --packet 3 -j even
-A FORWARD -p icmp -m statistic --mode nth --every 2 --packet 1 -j ACCEPT
-A FORWARD -i lan0 -m statistic --mode nth --every 7 --packet 6 -j DROP
-A FORWARD -j ACCEPT
-A even -m statistic --mode nth --every 2 --packet 0 -j RETURN
-A even -j DROP
COMMIT
";

/// The same beside connections, which the kernel forgets when it is to begin anew.
const TURNS_STATEFUL: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -p tcp -m conntrack --ctstate NEW -m statistic --mode nth --every 2 --packet 0 -j DROP
-A FORWARD -i lan0 -j ACCEPT
COMMIT
";

/// Each rule counts what comes to it, on both sides the same: packets of which only one side knows come to neither.
/// One that begins at another packet is found.
#[test]
fn every_so_many_th_packet() {
    if !can() {
        return;
    }
    let dir = temp("compare-turns");
    write(&dir, "turns.rules", TURNS);
    write(
        &dir,
        "other.rules",
        &TURNS.replace("--every 4 --packet 1", "--every 4 --packet 2"),
    );
    write(&dir, "stateful.rules", TURNS_STATEFUL);
    let v4 = CHAIN.replace(", rules6-file: FILE6", "");
    for name in ["turns", "other", "stateful"] {
        let chain = v4.replace("FILE", &format!("{name}.rules"));
        write(&dir, &format!("{name}.yaml"), &chain);
    }
    for name in ["turns", "stateful"] {
        let v = compare(&dir, 0, &[&format!("{name}.yaml"), "--packets", "6000"]);
        assert_eq!(v["differences"], 0, "{name}: {v}");
        assert!(v["compared"].as_u64() > Some(5000), "{name}: {v}");
        assert!(v["with_output"].as_u64() > Some(1500), "{name}: {v}");
    }
    let args = ["turns.yaml", "--against", "other.yaml", "--packets", "2000"];
    let v = compare(&dir, 1, &args);
    // the second segment is dropped by the one, the third by the other: it comes again, with few packets
    let sequence = v["found"][0]["sequence"].as_array().expect("it came again");
    assert!(sequence.len() <= 3, "{v}");
}

/// For each port of UDP, what share of packets passes; the last one as kube-proxy chooses among three.
const CHANCES: [(u16, f64); 5] = [(1, 0.2), (2, 0.5), (3, 0.1), (4, 1.0 / 3.0), (5, 0.97)];

const CHANCE: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:fourth - [0:0]
-A FORWARD -p udp -m udp --dport 1 -m statistic --mode random --probability 0.20000000019 -j ACCEPT
-A FORWARD -p udp -m udp --dport 2 -m statistic --mode random --probability 0.50000000000 -j ACCEPT
-A FORWARD -p udp -m udp --dport 3 -m statistic --mode random ! --probability 0.89999999991 -j ACCEPT
-A FORWARD -p udp -m udp --dport 4 -j fourth
-A FORWARD -p udp -m udp --dport 5 -m statistic --mode random --probability 0.96999999974 -j ACCEPT
-A fourth -m statistic --mode random --probability 0.33333333349 -j DROP
-A fourth -m statistic --mode random --probability 0.50000000000 -j ACCEPT
COMMIT
";

const CHANCE_NFT: &str = "table inet filter {
 chain fourth {
  numgen random mod 3 < 1 drop
  numgen random mod 2 0 accept
 }
 chain forward {
  type filter hook forward priority 0; policy drop;
  udp dport 1 numgen random mod 10 < 2 accept
  udp dport 2 numgen random mod 2 1 accept
  udp dport 3 numgen random mod 10 >= 9 accept
  udp dport 4 jump fourth
  udp dport 5 numgen random mod 100 < 97 accept
 }
}
";

/// Packets for each port.
const DRAWS: u32 = 4000;
/// Standard deviations within which shares are: one run in a million has one that is not.
const DEVIATIONS: f64 = 5.0;

/// UDP from 10.0.0.1 to 203.0.113.9.
fn datagram(number: u16, port: u16) -> Vec<u8> {
    let packet = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [203, 0, 113, 9], 64)
        .udp(1024 + number, port);
    let mut frame = Vec::new();
    packet.write(&mut frame, &[0; 8]).expect("a frame");
    frame
}

/// What passed of packets that came one by one: so many as it should be, and no more often one behind another.
fn holds(who: &str, port: u16, p: f64, passed: &[bool]) {
    let n = passed.len() as f64;
    let all = passed.iter().filter(|x| **x).count() as f64;
    let off = (all - n * p).abs();
    assert!(
        off <= DEVIATIONS * (n * p * (1.0 - p)).sqrt(),
        "{who}, port {port}: {all} of {n} passed, expected {p}"
    );
    let twice = passed.windows(2).filter(|w| w[0] && w[1]).count() as f64;
    let (both, three) = (p * p, p * p * p);
    let variance = n * (both * (1.0 - both) + 2.0 * three * (1.0 - p));
    assert!(
        (twice - (n - 1.0) * both).abs() <= DEVIATIONS * variance.sqrt(),
        "{who}, port {port}: {twice} of {n} passed behind one that passed, expected {both}"
    );
}

/// Sends the packets through the kernel and the chain.
fn draws(dir: &Path, chain: &str) {
    let path = dir.join(chain).display().to_string();
    let (loaded, plan) = load_for_kernel(&path, &Options::default()).expect("a chain");
    let lan = loaded.ports.iter().position(|p| p.name == "lan");
    let lan = lan.expect("a port");
    let source = loaded.ports[lan].source.expect("packets enter there");
    let mut graph = Graph::build(loaded.graph, &BuildOptions::default()).expect("a graph");
    let mut lab = Lab::make(&plan).expect("namespaces");
    let _pinned = Pinned::here().expect("one processor");
    for (port, p) in CHANCES {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for n in 0..DRAWS {
            let frame = datagram(n as u16, port);
            let left = lab.exchange(lan, &frame).expect("the kernel goes on");
            assert!(left.len() <= 1, "{chain}: {left:?}");
            theirs.push(!left.is_empty());
            let at = Timestamp::from_millis(i64::from(n));
            graph.inject(ElemId(source as u32), &frame, at);
            let mut out = 0;
            graph.drain_transmitted(|_, _| out += 1);
            assert!(out <= 1, "{chain}");
            ours.push(out == 1);
        }
        holds(&format!("{chain}: the kernel"), port, p, &theirs);
        holds(&format!("{chain}: the chain"), port, p, &ours);
    }
}

/// What a rule draws, the kernel draws otherwise: they are held against one another by how often they hold, and packet
/// by packet they are refused.
#[test]
fn chance_by_its_distribution() {
    if !can() {
        return;
    }
    let dir = temp("compare-chance");
    write(&dir, "chance.rules", CHANCE);
    write(&dir, "chance.nft", CHANCE_NFT);
    write(&dir, "chance.json", &listed(&dir.join("chance.nft")));
    let v4 = CHAIN.replace(", rules6-file: FILE6", "");
    write(&dir, "iptables.yaml", &v4.replace("FILE", "chance.rules"));
    firewall(&dir, "nft.yaml", "chance.json", "chance.json");
    for (chain, file) in [
        ("iptables.yaml", "chance.rules"),
        ("nft.yaml", "chance.json"),
    ] {
        draws(&dir, chain);
        let (_, err) = run(&dir, 2, &["compare", "kernel", chain, "-q"]);
        assert!(err.contains(file) && err.contains("at random"), "{err}");
        assert!(err.contains("hint") || err.contains("help"), "{err}");
    }
}
