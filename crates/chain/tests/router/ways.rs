//! Which route counts, several next hops, and routes that say something instead of forwarding.

use crate::common::{errors, load_in};
use crate::router::packets::*;
use std::collections::BTreeMap;
use std::path::Path;

const INTERFACES: &str = r#"interfaces:
  - { name: lan, address: 192.168.1.1/24, address6: "2001:db8:1::1/64",
      mac: "02:00:00:00:00:00", gateway-mac: "02:00:00:00:01:00" }
  - { name: wan, address: 192.0.2.1/24, address6: "2001:db8:2::1/64",
      mac: "02:00:00:00:00:01", gateway-mac: "02:00:00:00:01:01" }
  - { name: dmz, address: 10.0.0.1/24, address6: "2001:db8:3::1/64",
      mac: "02:00:00:00:00:02", gateway-mac: "02:00:00:00:01:02" }
"#;
const HOST: [u8; 4] = [192, 168, 1, 9];
const HOST6: &str = "2001:db8:1::9";

fn router(routes: &str) -> Net {
    let lines: String = routes
        .lines()
        .map(|l| format!("\n  - \"{}\"", l.trim()))
        .collect();
    Net::router(&format!("{INTERFACES}routes:{lines}"), 3)
}

#[test]
fn the_lowest_metric_is_the_way() {
    let mut r = router(
        "198.51.100.0/24 via 10.0.0.2 metric 200
         198.51.100.0/24 via 192.0.2.2 metric 100
         198.51.100.0/24 via 10.0.0.3 metric 300
         2001:db8:9::/48 via 2001:db8:3::2 metric 2000
         2001:db8:9::/48 via 2001:db8:2::2
         203.0.113.0/24 via 192.0.2.2 table vpn",
    );
    assert_eq!(r.send(0, &udp4(HOST, [198, 51, 100, 7], 64))[0].0, "p1");
    assert_eq!(r.send(0, &udp6(HOST6, "2001:db8:9::7", 64))[0].0, "p1");
    let out = r.send(0, &udp4(HOST, [203, 0, 113, 7], 64));
    assert_eq!(kinds(&out), [(3, 0)], "a table that nothing asks");
}

#[test]
fn what_never_counts_is_told() {
    let lines = "routes: [ 198.51.100.0/24 via 10.0.0.2, 198.51.100.0/24 via 192.0.2.2, \
                 10.9.0.0/16 via 10.0.0.2 table 7 ]";
    let text = format!("{INTERFACES}{lines}").replace('\n', "\n      ");
    let text = format!(
        "functions:\n  r:\n    router:\n      {text}\nports: {{ a: \"r[0]\", b: \"r[1]\", c: \"r[2]\" }}\n"
    );
    let chain = load_in(Path::new("."), &text).unwrap();
    let said: Vec<String> = chain.warnings.iter().map(|w| w.to_string()).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("1 route of table 7"), "{said:?}");
    assert!(said[1].contains("never used"), "{said:?}");
    let many = text.replace("via 10.0.0.2,", "nexthop via 10.0.0.2 nexthop via 9.9.9.9,");
    assert!(
        errors(&many).contains("on no interface's network"),
        "{}",
        errors(&many)
    );
}

/// Ports, by how many of so many hosts' packets left there. A host's packets all go one way.
fn spread(r: &mut Net, packet: impl Fn(u8) -> Vec<u8>) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for host in 0..200 {
        let first = r.send(0, &packet(host));
        assert_eq!(first.len(), 1, "host {host}");
        assert_eq!(r.send(0, &packet(host)), first, "host {host}");
        *out.entry(first[0].0.clone()).or_default() += 1;
    }
    out
}

#[test]
fn flows_are_spread_over_next_hops_by_weight() {
    let mut r = router(
        "198.51.100.0/24 nexthop via 10.0.0.2 weight 3 nexthop via 192.0.2.2 weight 6
         2001:db8:9::/48 via 2001:db8:3::2
         2001:db8:9::/48 via 2001:db8:2::2",
    );
    let v4 = spread(&mut r, |host| {
        udp4([192, 168, 1, host.max(2)], [198, 51, 100, 7], 64)
    });
    // 200 hosts, whose sums are as many of each remainder as can be
    assert_eq!(v4.values().sum::<usize>(), 200);
    assert!(
        (60..=74).contains(&v4["p2"]) && (126..=140).contains(&v4["p1"]),
        "{v4:?}"
    );
    let v6 = spread(&mut r, |host| {
        udp6(
            &format!("2001:db8:1::{:x}", u16::from(host) + 2),
            "2001:db8:9::7",
            64,
        )
    });
    assert!(v6["p1"] > 80 && v6["p2"] > 80, "{v6:?}");
    // no redirects, and what is too old is said as ever
    let old = r.send(0, &udp4(HOST, [198, 51, 100, 7], 1));
    assert_eq!(kinds(&old), [(11, 0)]);
    let old = r.send(0, &udp6(HOST6, "2001:db8:9::7", 1));
    assert_eq!(kinds(&old), [(3, 0)]);
}

#[test]
fn routes_that_say_something() {
    let mut r = router(
        "default via 192.0.2.2
         unreachable 10.1.0.0/16
         prohibit 10.2.0.0/16
         throw 10.3.0.0/16
         blackhole 10.4.0.0/16
         local 10.5.0.1 dev lo table local
         broadcast 10.5.0.255 dev dmz table local
         broadcast 192.168.1.255 dev lan table local
         default via 2001:db8:2::2
         unreachable 2001:db8:a::/48
         prohibit 2001:db8:b::/48
         blackhole 2001:db8:c::/48
         throw 2001:db8:d::/48
         local 2001:db8:e::1 dev lo table local",
    );
    for (to, said) in [
        (1, Some((3, 1))),
        (2, Some((3, 13))),
        (3, Some((3, 0))),
        (4, None),
    ] {
        let out = r.send(0, &udp4(HOST, [10, to, 0, 1], 64));
        assert_eq!(kinds(&out), Vec::from_iter(said), "10.{to}.0.0/16");
        assert_eq!(out.len(), usize::from(said.is_some()));
    }
    assert_eq!(kinds(&r.send(0, &ping4(HOST, [10, 5, 0, 1]))), [(0, 0)]);
    assert!(r.send(0, &udp4(HOST, [10, 5, 0, 255], 64)).is_empty());
    assert_eq!(r.send(0, &udp4(HOST, [10, 5, 0, 2], 64))[0].0, "p1");
    for (to, said) in [
        ("a", Some((1, 0))),
        ("b", Some((1, 1))),
        ("c", None),
        ("d", Some((1, 0))),
    ] {
        let out = r.send(0, &udp6(HOST6, &format!("2001:db8:{to}::1"), 64));
        assert_eq!(kinds(&out), Vec::from_iter(said), "2001:db8:{to}::/48");
    }
    assert_eq!(
        kinds(&r.send(0, &ping6(HOST6, "2001:db8:e::1"))),
        [(129, 0)]
    );
    assert_eq!(r.send(0, &udp6(HOST6, "2001:db8:e::2", 64))[0].0, "p1");
}
