//! Mappers whose servers go down and come back, and Maglev hashing.

use super::{Net, udp_packet};
use onefold_element::ElemId;
use std::collections::BTreeMap;

/// Each mapper, of the same three servers; the last one has a port of its own.
fn mappers() -> [(&'static str, &'static str); 3] {
    [
        (
            "RoundRobinIPMapper",
            "- - 5.0.0.1 - 0 1, - - 5.0.0.2 - 0 1, - - 5.0.0.3 81 0 1",
        ),
        (
            "SourceIPHashMapper",
            "20 99, - - 5.0.0.1 - 0 1 1, - - 5.0.0.2 - 0 1 2, - - 5.0.0.3 81 0 1 3",
        ),
        (
            "MaglevIPMapper",
            "- - 5.0.0.1 - 0 1 a 1, - - 5.0.0.2 - 0 1 b 1, - - 5.0.0.3 81 0 1 c 1, SIZE 1021",
        ),
    ]
}

fn net(class: &'static str, config: &'static str) -> Net {
    Net::new(&[
        ("m", class, config, 0, 0),
        ("rw", "IPRewriter", "m, drop", 2, 2),
    ])
    .unwrap()
}

/// Where the packets of so many clients go, by client.
fn servers(n: &mut Net, clients: std::ops::Range<u16>) -> BTreeMap<u16, String> {
    let mut to = BTreeMap::new();
    for c in clients {
        let from = format!("10.0.{}.{}", c / 250, c % 250 + 1);
        let said = n.go(0, udp_packet((&from, 1000 + c), ("9.9.9.9", 80), b""));
        let server = said.split("> ").nth(1).unwrap_or("-").to_string();
        to.insert(c, server);
    }
    to
}

fn count(all: &BTreeMap<u16, String>, server: &str) -> usize {
    all.values().filter(|s| *s == server).count()
}

#[test]
fn servers_that_are_down_get_no_new_flows() {
    for (class, config) in mappers() {
        let mut n = net(class, config);
        let before = servers(&mut n, 0..300);
        for server in ["5.0.0.1 80", "5.0.0.2 80", "5.0.0.3 81"] {
            assert!(count(&before, server) > 40, "{class}: {before:?}");
        }
        n.write("m", "down", "5.0.0.3:81\n5.0.0.2").unwrap();
        assert_eq!(n.read("m", "down"), "5.0.0.2\n5.0.0.3:81\n");
        assert_eq!(
            servers(&mut n, 0..300),
            before,
            "{class}: flows that there are stay"
        );
        let after = servers(&mut n, 300..400);
        assert_eq!(count(&after, "5.0.0.1 80"), 100, "{class}: {after:?}");
        // it comes back
        n.write("m", "down", "5.0.0.2").unwrap();
        let back = servers(&mut n, 400..600);
        assert!(count(&back, "5.0.0.3 81") > 40 && count(&back, "5.0.0.2 80") == 0);
        // all go
        n.write("m", "down", "5.0.0.1 5.0.0.2 5.0.0.3:81").unwrap();
        assert_eq!(count(&servers(&mut n, 600..603), "-"), 3);
        assert_eq!(n.drops("IPRewriter: all servers are down"), 3);
        assert_eq!(n.drops("IPRewriter: no free port or address"), 0);
        assert_eq!(
            servers(&mut n, 0..300),
            before,
            "{class}: flows that there are stay"
        );
        n.write("m", "down", "").unwrap();
        assert_eq!(n.read("m", "down"), "");
        assert_eq!(count(&servers(&mut n, 700..750), "-"), 0);
    }
}

/// A reload: another list, in another order, with a server more and another one in the place of the first.
#[test]
fn who_is_down_is_known_by_address_where_another_graph_takes_over() {
    let lists = [
        "- - 5.0.0.9 - 0 1, - - 5.0.0.3 81 0 1, - - 5.0.0.2 - 0 1, - - 5.0.0.4 - 0 1",
        "20 99, - - 5.0.0.9 - 0 1 4, - - 5.0.0.3 81 0 1 3, - - 5.0.0.2 - 0 1 2, - - 5.0.0.4 - 0 1 5",
        "- - 5.0.0.9 - 0 1 d 1, - - 5.0.0.3 81 0 1 c 1, - - 5.0.0.2 - 0 1 b 1, - - 5.0.0.4 - 0 1 e 1, \
         SIZE 1021",
    ];
    for ((class, before), after) in mappers().into_iter().zip(lists) {
        let (mut old, mut new) = (net(class, before), net(class, after));
        old.write("m", "down", "5.0.0.1 5.0.0.3:81").unwrap();
        let id = |n: &Net| n.store.published_by(ElemId(0)).unwrap();
        let (to, from) = (id(&new), id(&old));
        assert!((new.store).take_state(to, &mut old.store, from, &|_| None));
        assert_eq!(new.read("m", "down"), "5.0.0.3:81\n", "{class}");
        let all = servers(&mut new, 0..300);
        for (server, least) in [("5.0.0.9 80", 60), ("5.0.0.2 80", 60), ("5.0.0.4 80", 60)] {
            assert!(count(&all, server) > least, "{class}: {all:?}");
        }
        assert_eq!(count(&all, "5.0.0.3 81"), 0);
    }
}

#[test]
fn what_is_no_server_is_refused_and_changes_nothing() {
    for (class, config) in mappers() {
        let mut n = net(class, config);
        n.write("m", "down", "5.0.0.1").unwrap();
        for (text, why) in [
            ("5.0.0.3", "no pattern leads to 5.0.0.3"),
            ("5.0.0.2 5.0.0.1:80", "no pattern leads to 5.0.0.1:80"),
            ("5.0.0.1:0", "expected ADDRESS or ADDRESS:PORT"),
            ("nowhere", "expected ADDRESS or ADDRESS:PORT"),
        ] {
            let said = n.write("m", "down", text).unwrap_err();
            assert!(said.contains(why), "{class}: {said}");
            assert_eq!(n.read("m", "down"), "5.0.0.1\n");
        }
    }
}

#[test]
fn round_robin_passes_over_the_dead_and_the_full() {
    let config = "1.0.0.1 7-8# 5.0.0.1 - 0 1, - - 5.0.0.2 - 0 1, - - 5.0.0.3 - 0 1";
    let mut n = net("RoundRobinIPMapper", config);
    n.write("m", "down", "5.0.0.2 5.0.0.3").unwrap();
    assert_eq!(count(&servers(&mut n, 0..2), "5.0.0.1 80"), 2);
    // the one that is up has no port left: that is what is said
    assert_eq!(count(&servers(&mut n, 2..3), "-"), 1);
    assert_eq!(n.drops("IPRewriter: no free port or address"), 1);
    n.write("m", "down", "5.0.0.2").unwrap();
    assert_eq!(count(&servers(&mut n, 3..6), "5.0.0.3 80"), 3);
}

/// A flow's server follows from addresses, ports and protocol, names and weights: not from the order of servers, and
/// not from what has been before.
#[test]
fn maglev_chooses_by_the_flow() {
    let [.., (class, config)] = mappers();
    let turned = "- - 5.0.0.3 81 0 1 c 1, - - 5.0.0.1 - 0 1 a 1, SIZE 1021, - - 5.0.0.2 - 0 1 b 1";
    let before = servers(&mut net(class, config), 0..300);
    assert_eq!(servers(&mut net(class, turned), 0..300), before);
    let mut n = net(class, config);
    n.write("m", "down", "5.0.0.1").unwrap();
    for (c, server) in servers(&mut n, 0..300) {
        let was = before.get(&c).unwrap();
        assert!(
            was == "5.0.0.1 80" || *was == server,
            "{c}: {was}, now {server}"
        );
    }
    // one client's ports are spread, and another seed spreads them in another way
    let of_one = |config| {
        let mut n = net(class, config);
        let all = (1..200u16).map(|p| n.go(0, udp_packet(("10.0.0.1", p), ("9.9.9.9", 80), b"")));
        let all: Vec<String> = all.collect();
        assert!(all.iter().filter(|s| s.ends_with("5.0.0.1 80")).count() > 30);
        all
    };
    let seeded =
        "- - 5.0.0.1 - 0 1 a 1, - - 5.0.0.2 - 0 1 b 1, - - 5.0.0.3 81 0 1 c 1, SIZE 1021, SEED 8";
    assert_ne!(of_one(config), of_one(seeded));
}

/// Against the servers that packets went to, of a table of one part and one of two.
#[test]
fn flows_are_counted_by_server_a_part_of_the_table_at_a_time() {
    for ((class, config), flows) in mappers().into_iter().zip([70_000u32, 300, 300]) {
        let mut n = net(class, config);
        n.at(1.0);
        let mut went: BTreeMap<String, u64> = BTreeMap::new();
        for c in 0..flows {
            let [_, a, b, d] = c.to_be_bytes();
            let from = format!("10.{a}.{b}.{d}");
            let said = n.go(0, udp_packet((&from, 1000), ("9.9.9.9", 80), b""));
            let server = said.split("> ").nth(1).unwrap_or("-").to_string();
            *went.entry(server).or_default() += 1;
        }
        let counted = |n: &mut Net| {
            let (mut sum, mut from, mut parts) = ([0; 4], 0, 0);
            loop {
                let call = format!("flows_to {from} 5.0.0.1 5.0.0.3:81 5.0.0.9");
                let said = n.read("rw", &call);
                let numbers: Vec<u64> = said.split(' ').map(|n| n.parse().unwrap()).collect();
                for (all, n) in sum.iter_mut().zip(&numbers[1..]) {
                    *all += n;
                }
                parts += 1;
                from = numbers[0];
                if from == 0 {
                    return (sum, parts);
                }
            }
        };
        let of = |server: &str| went.get(server).copied().unwrap_or(0);
        let expected = [of("5.0.0.1 80"), of("5.0.0.3 81"), 0, of("5.0.0.2 80")];
        assert_eq!(expected.iter().sum::<u64>(), u64::from(flows));
        let parts = if flows > 1 << 16 { 2 } else { 1 };
        assert_eq!(counted(&mut n), (expected, parts), "{class}");
        // some are used once more, and the others end
        n.at(290.0);
        let again = udp_packet(("10.0.0.7", 1000), ("9.9.9.9", 80), b"");
        n.go(0, again);
        n.at(400.0);
        assert_eq!(counted(&mut n).0.iter().sum::<u64>(), 1, "{class}");
    }
}
