use crate::testing::Bench;
use onefold_packet::Packet;

const ALL: [&str; 7] = [
    "StaticIPLookup",
    "LookupIPRouteMP",
    "LinearIPLookup",
    "SortedIPLookup",
    "RadixIPLookup",
    "DirectIPLookup",
    "RangeIPLookup",
];

/// Where a packet with this destination annotation goes, and the annotation that it leaves with.
fn route(b: &mut Bench, a: [u8; 4]) -> Option<(usize, [u8; 4])> {
    let mut p = Box::new(Packet::from_slice(b"x"));
    p.anno.set_dst_ip(a);
    let out = b.push_packet(0, p);
    out.first().map(|(port, p)| (*port, p.anno.dst_ip()))
}

/// The example of Click's LinearIPLookup page, for all elements of the family.
#[test]
fn documented_example() {
    let c = "18.26.4.24/32 0, 18.26.4.255/32 0, 18.26.4.0/32 0, 18.26.4/24 1, 0/0 18.26.4.1 1";
    for class in ALL {
        let mut b = Bench::new(class, c, 1, 2).unwrap();
        let cases = [
            ([18, 26, 4, 24], 0, [18, 26, 4, 24]),
            ([18, 26, 4, 255], 0, [18, 26, 4, 255]),
            ([18, 26, 4, 0], 0, [18, 26, 4, 0]),
            ([18, 26, 4, 9], 1, [18, 26, 4, 9]),
            ([1, 2, 3, 4], 1, [18, 26, 4, 1]),
            ([0, 0, 0, 0], 1, [18, 26, 4, 1]),
        ];
        for (a, port, anno) in cases {
            assert_eq!(route(&mut b, a), Some((port, anno)), "{class} {a:?}");
        }
        assert_eq!(b.host.decisions[3].0, Some(3), "{:?}", b.host.decisions);
        assert_eq!(b.read("lookup 1.2.3.4").unwrap(), "1 18.26.4.1");
        assert_eq!(b.read("lookup 18.26.4.7").unwrap(), "1");
        assert!(b.read("lookup x").is_err());
    }
}

#[test]
fn no_route_drops_and_complains_five_times() {
    let mut b = Bench::new("RadixIPLookup", "10.0.0.0/8 0", 1, 1).unwrap();
    for _ in 0..7 {
        assert_eq!(route(&mut b, [11, 0, 0, 1]), None);
    }
    assert_eq!(b.drops()["RadixIPLookup: no route"], 7);
    assert_eq!(
        b.host.log,
        "IPRouteTable: no route for 11.0.0.1\n".repeat(5)
    );
    assert_eq!(b.read("lookup 11.0.0.1").unwrap(), "-1");
}

#[test]
fn the_first_of_equal_prefixes_stays() {
    for class in ALL {
        let mut b = Bench::new(
            class,
            "10.0.0.0/8 0, 10.9.9.9/8 1, 0/0 1, 0.0.0.0/0 0",
            1,
            2,
        )
        .unwrap();
        assert!(b.warnings.last().unwrap().contains("2 routes left out"));
        assert_eq!(route(&mut b, [10, 0, 0, 1]).unwrap().0, 0);
        assert_eq!(route(&mut b, [9, 0, 0, 1]).unwrap().0, 1);
    }
}

#[test]
fn arguments_say_what_is_wrong() {
    let e = Bench::new(
        "RadixIPLookup",
        "1/8 7, 2/8, 3.3.3.3/16 3 0, 4/255.0.255.0 0",
        1,
        1,
    );
    let e = e.err().unwrap();
    assert_eq!(e[0], "OUTPUT: output 7 is not connected, 1 outputs are");
    assert_eq!(
        e[1],
        "ROUTE: expected 'ADDR/MASK [GATEWAY] OUTPUT', found '2/8'"
    );
    assert_eq!(
        e[2],
        "ROUTE: expected 'ADDR/MASK [GATEWAY] OUTPUT', found '3.3.3.3/16 3 0'"
    );
    assert_eq!(e[3], "MASK: mask 255.0.255.0 is not contiguous");
    let mut b = Bench::new("LinearIPLookup", "4.0.1.0/255.0.255.0 0", 1, 1).unwrap();
    assert!(route(&mut b, [4, 77, 1, 9]).is_some());
    assert_eq!(b.read("table").unwrap(), "4.0.1.0/255.0.255.0\t-\t\t0\n");
}

#[test]
fn table_text_and_its_order() {
    let c = "10.0.0.0/8 0, 0/0 100.100.100.1 1, 10.1.0.0/16 - 1, 192.168.100.0/24 1.1.1.1 0";
    let line = |s: &str| format!("{s}\n");
    let lines = [
        line("10.0.0.0/8\t\t-\t\t0"),
        line("0.0.0.0/0\t\t100.100.100.1\t1"),
        line("10.1.0.0/16\t\t-\t\t1"),
        line("192.168.100.0/24\t1.1.1.1\t\t0"),
    ];
    let pick = |order: [usize; 4]| order.map(|i| lines[i].clone()).concat();
    for (class, order) in [
        ("StaticIPLookup", [0, 1, 2, 3]),
        ("LookupIPRouteMP", [0, 1, 2, 3]),
        ("LinearIPLookup", [0, 1, 2, 3]),
        ("RadixIPLookup", [0, 1, 2, 3]),
        ("DirectIPLookup", [1, 0, 2, 3]),
        ("SortedIPLookup", [3, 2, 0, 1]),
    ] {
        let mut b = Bench::new(class, c, 1, 2).unwrap();
        assert_eq!(b.read("table").unwrap(), pick(order), "{class}");
    }
}

#[test]
fn handlers_change_routes_with_clicks_messages() {
    for class in [
        "LinearIPLookup",
        "RadixIPLookup",
        "DirectIPLookup",
        "RangeIPLookup",
    ] {
        let mut b = Bench::new(class, "1.0.0.0/8 0", 1, 2).unwrap();
        let err = |b: &mut Bench, h: &str, v: &str| b.write(h, v).unwrap_err().to_string();
        assert_eq!(
            err(&mut b, "add", "1/8 1"),
            "conflict with existing route '1.0.0.0/8 - 0'"
        );
        assert_eq!(
            err(&mut b, "remove", "2/8"),
            "route '2.0.0.0/8 - -1' not found"
        );
        assert_eq!(
            err(&mut b, "remove", "1/8 1.1.1.1 0"),
            "route '1.0.0.0/8 1.1.1.1 0' not found"
        );
        assert_eq!(
            err(&mut b, "add", "x"),
            "expected 'ADDR/MASK [GATEWAY] OUTPUT'"
        );
        assert_eq!(
            err(&mut b, "remove", "x"),
            "expected 'ADDR/MASK [GATEWAY OUTPUT]'"
        );
        assert_eq!(err(&mut b, "add", "1/8 9"), "bad OUTPUT");
        assert_eq!(err(&mut b, "ctrl", "foo"), "bad command 'foo'");
        b.write("set", "1/8 9.9.9.9 1").unwrap();
        assert_eq!(route(&mut b, [1, 2, 3, 4]), Some((1, [9, 9, 9, 9])));
        // all or nothing, blank lines skipped
        let e = err(
            &mut b,
            "ctrl",
            "add 2/8 0\n\nset 1/8 0\nremove 1/8\nadd 3/8 0\nadd 2/8 0",
        );
        assert_eq!(e, "conflict with existing route '2.0.0.0/8 - 0'");
        assert_eq!(b.read("table").unwrap(), "1.0.0.0/8\t\t9.9.9.9\t\t1\n");
        b.write("ctrl", "add 2/8 0\nadd 2.1.0.0/16 1\nremove 1/8 9.9.9.9 1")
            .unwrap();
        assert_eq!(route(&mut b, [1, 2, 3, 4]), None);
        assert_eq!(route(&mut b, [2, 1, 3, 4]).unwrap().0, 1);
        b.write("remove", "2.1.0.0/16").unwrap();
        assert_eq!(route(&mut b, [2, 1, 3, 4]).unwrap().0, 0);
        match class {
            "LinearIPLookup" => assert!(b.write("flush", "").is_err()),
            _ => {
                b.write("flush", "").unwrap();
                assert_eq!(b.read("table").unwrap(), "");
                assert_eq!(route(&mut b, [2, 1, 3, 4]), None);
            }
        }
    }
    let mut b = Bench::new("StaticIPLookup", "1.0.0.0/8 0", 1, 1).unwrap();
    assert!(b.write("add", "2/8 0").is_err());
}
