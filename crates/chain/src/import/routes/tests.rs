use super::*;

fn all(text: &str) -> Vec<Route> {
    let (routes, errors) = match text.trim_start().starts_with(['[', '{']) {
        true => json::read(text),
        false => text::read(text),
    };
    assert_eq!(errors, vec![], "{text}");
    routes.into_iter().map(|r| r.0).collect()
}

fn hops(r: &Route) -> Vec<(Option<String>, Option<&str>, u32)> {
    let text = |h: &Hop| h.via.map(|v| v.to_string());
    r.hops()
        .map(|h| (text(h), h.dev.as_deref(), h.weight))
        .collect()
}

fn placed(text: &str) -> Vec<PlacedRoute> {
    let routes = all(text).into_iter().enumerate();
    routes
        .map(|(n, r)| (r, "f".to_string(), n as u32 + 1))
        .collect()
}

#[test]
fn what_ip_route_prints() {
    let r =
        parse_route("default via 10.0.2.2 dev eth0 proto dhcp src 10.0.2.15 metric 100").unwrap();
    assert_eq!((r.len, r.metric), (0, 100));
    assert_eq!(hops(&r), [(Some("10.0.2.2".to_string()), Some("eth0"), 1)]);
    let r = parse_route("10.0.2.0/24 dev eth0 proto kernel scope link src 10.0.2.15").unwrap();
    assert_eq!(r.prefix_text(), "10.0.2.0/24");
    assert_eq!(parse_route("192.0.2.7").unwrap().len, 32);
    for text in ["blackhole 192.0.2.0/24", "192.0.2.0/24 blackhole"] {
        assert_eq!(parse_route(text).unwrap().kind, RouteKind::Blackhole);
    }
    assert_eq!(
        parse_route("unreachable 10.0.0.0/8 metric 9").unwrap().kind,
        RouteKind::Unreachable
    );
    let r = parse_route("default via fe80::1 dev 0").unwrap();
    assert!(r.net.is_ipv6() && r.metric == 1024);
    let r =
        parse_route("unreachable default dev lo metric 4294967295 error -101 pref medium").unwrap();
    assert_eq!(
        (r.net.is_ipv6(), r.kind, r.metric),
        (true, RouteKind::Unreachable, u32::MAX)
    );
    for (bad, word) in [
        ("10.0.0.0/8 encap mpls 100 via 1.1.1.1", "encap"),
        ("10.0.0.0/8 tos 0x10 via 1.1.1.1", "type of service"),
        ("10.0.0.0/33 dev 1", "prefix"),
        ("10.0.0.0/8 via ::1", "other IP version"),
        ("10.0.0.0/8 via inet6 fe80::1 dev eth0", "other IP version"),
        ("10.0.0.0/8 nexthop via 1.1.1.1 weight 0", "weight"),
        (
            "10.0.0.0/8 nexthop via 1.1.1.1 weight 255 nexthop via 1.1.1.2 weight 254",
            "256 next hops",
        ),
        ("10.0.0.0/8 via 1.1.1.1 dev eth0 dead", "down"),
        (
            "blackhole 10.0.0.0/8 nexthop via 1.1.1.1 nexthop via 1.1.1.2",
            "forward",
        ),
        ("10.0.0.0/8 metric much", "metric"),
        ("", "expected a route"),
    ] {
        let e = parse_route(bad).unwrap_err();
        assert!(e.contains(word), "{bad}: {e}");
    }
}

#[test]
fn several_next_hops_are_on_lines_of_their_own() {
    let routes = all(
        "default proto static metric 20 \n\tnexthop via 10.0.0.1 dev eth0 weight 2 \n\
                      \tnexthop via 10.0.0.2 dev eth1 weight 4 \n\
                      \tnexthop via 10.0.0.3 dev eth2 weight 1 dead linkdown \n\
                      10.1.0.0/16 nhid 12 via 10.0.0.1 dev eth0\nmulticast ff00::/8 dev eth0 table local\n",
    );
    assert_eq!(routes.len(), 2);
    let named = |a: &str| Some(a.to_string());
    assert_eq!(
        hops(&routes[0]),
        [
            (named("10.0.0.1"), Some("eth0"), 2),
            (named("10.0.0.2"), Some("eth1"), 4)
        ]
    );
    assert_eq!(shares(&routes[0]), Some(vec![0, 1, 1]));
    assert_eq!(hops(&routes[1]), [(named("10.0.0.1"), Some("eth0"), 1)]);
}

#[test]
fn the_lowest_metric_counts() {
    let text = "default via 10.0.0.2 dev eth1 metric 200\ndefault via 10.0.0.1 dev eth0 metric 100\n\
                default via 10.0.0.3 dev eth1 metric 300\n10.1.0.0/16 via 10.0.0.1\n10.1.0.0/16 via 10.0.0.2\n\
                10.2.0.0/16 dev eth0\nlocal 10.0.0.9 dev eth0 table local\n10.0.0.9 via 10.0.0.1\n\
                10.5.0.0/16 via 10.0.0.1 table 100\n10.6.0.0/16 via 10.0.0.1 table vpn\n10.7.0.0/16 dev a table vpn\n";
    let found = select(placed(text));
    let lines: Vec<u32> = found.routes.iter().map(|r| r.2).collect();
    assert_eq!(lines, [2, 4, 6, 7]);
    assert_eq!(found.repeated, [("f".to_string(), 5, "f".to_string(), 4)]);
    let tables: Vec<_> = found
        .tables
        .iter()
        .map(|t| (t.0.as_str(), t.2, t.3))
        .collect();
    assert_eq!(tables, [("100", 9, 1), ("vpn", 10, 2)]);
}

#[test]
fn ipv6_routes_of_one_metric_are_siblings() {
    let text = "2001:db8::/32 via fe80::1 dev eth0 metric 1024\n2001:db8::/32 via fe80::2 dev eth1\n\
                2001:db8::/32 via fe80::3 dev eth1 metric 2000\n2001:db8::/32 via fe80::1 dev eth0\n";
    let found = select(placed(text));
    assert_eq!(found.routes.len(), 1);
    assert_eq!(found.routes[0].0.hops().count(), 2);
    assert!(found.repeated.is_empty());
}

#[test]
fn what_ip_j_route_prints() {
    let text = r#"[{"dst":"default","gateway":"10.0.2.2","dev":"eth0","protocol":"dhcp",
  "prefsrc":"10.0.2.15","metric":100,"flags":[]},
 {"type":"unreachable","dst":"10.9.0.0/16","flags":[]},
 {"dst":"10.8.0.0/16","metric":5,"flags":[],"nexthops":[{"gateway":"10.0.2.3","dev":"eth0","weight":1,"flags":[]},
  {"via":{"family":"inet","host":"10.0.2.4"},"dev":"eth1","weight":3,"flags":["linkdown"]}]},
 {"type":"multicast","dst":"ff00::/8","dev":"eth0","table":"local","flags":[],"pref":"medium"},
 {"dst":"default","dev":"eth0","metric":1024,"flags":[],"pref":"medium"}]"#;
    let routes = all(text);
    let kinds: Vec<_> = routes
        .iter()
        .map(|r| (r.prefix_text(), r.kind, r.metric))
        .collect();
    let unicast = RouteKind::Unicast;
    assert_eq!(
        kinds,
        [
            ("0.0.0.0/0".to_string(), unicast, 100),
            ("10.9.0.0/16".to_string(), RouteKind::Unreachable, 0),
            ("10.8.0.0/16".to_string(), unicast, 5),
            ("::/0".to_string(), unicast, 1024),
        ]
    );
    assert_eq!(
        hops(&routes[2])[1],
        (Some("10.0.2.4".to_string()), Some("eth1"), 3)
    );
    let (_, errors) =
        json::read("[{\"dst\":\"10.0.0.0/8\"},\n{\"dst\":\"10.0.0.0/8\",\"encap\":\"mpls\"}]");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].0, 2);
    assert!(json::read("[").1[0].1.contains("no JSON"));
}

#[test]
fn what_frr_prints() {
    let text = r#"{"0.0.0.0/0":[{"prefix":"0.0.0.0/0","protocol":"static","installed":true,"table":254,"nexthops":[
   {"fib":true,"ip":"192.0.2.1","interfaceName":"eth0","active":true,"weight":1}]}],
 "10.1.0.0/16":[
  {"prefix":"10.1.0.0/16","protocol":"bgp","selected":true,"installed":true,"nexthops":[
   {"ip":"203.0.113.9","recursive":true,"active":true},
   {"fib":true,"ip":"192.0.2.2","interfaceName":"eth0","resolver":true,"weight":2},
   {"fib":true,"ip":"192.0.2.3","interfaceName":"eth1","resolver":true,"weight":1}]},
  {"prefix":"10.1.0.0/16","protocol":"ospf","nexthops":[{"ip":"192.0.2.4","interfaceName":"eth1"}]}],
 "10.2.0.0/16":[{"prefix":"10.2.0.0/16","protocol":"static","installed":true,"nexthops":[
   {"fib":true,"unreachable":true,"reject":true,"active":true}]}],
 "2001:db8::/32":[{"prefix":"2001:db8::/32","protocol":"connected","installed":true,"nexthops":[
   {"fib":true,"directlyConnected":true,"interfaceName":"eth1","active":true}]}]}"#;
    let routes = all(text);
    assert_eq!(routes.len(), 4);
    let of = |p: &str| routes.iter().find(|r| r.prefix_text() == p).unwrap();
    assert_eq!(hops(of("10.1.0.0/16")).len(), 2);
    assert_eq!(of("10.2.0.0/16").kind, RouteKind::Unreachable);
    assert_eq!(hops(of("2001:db8::/32")), [(None, Some("eth1"), 1)]);
    assert_eq!(hops(of("0.0.0.0/0"))[0].0.as_deref(), Some("192.0.2.1"));
    let (_, errors) = json::read(r#"{"default": {"10.0.0.0/8": []}}"#);
    assert!(
        errors[0].1.contains("expected a list of routes"),
        "{errors:?}"
    );
}
