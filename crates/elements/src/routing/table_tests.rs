//! Tests of [`super`].

use super::*;

fn route(addr: [u8; 4], len: u8, port: u32) -> Route<u32> {
    Route {
        addr: u32::from_be_bytes(addr),
        mask: u32::mask(len),
        gw: 0,
        port,
        arg: None,
    }
}
fn shown(t: &RouteTable<u32>) -> Vec<u32> {
    t.routes().map(|r| r.port).collect()
}

#[test]
fn slots_are_reused_in_the_documented_order() {
    for (placing, want) in [
        (Placing::First, vec![5, 7, 6, 4]),
        (Placing::Latest, vec![6, 5, 7, 4]),
    ] {
        let mut t = RouteTable::new(placing);
        for i in 0..4u8 {
            t.add(route([i, 0, 0, 0], 8, u32::from(i) + 1), false)
                .unwrap();
        }
        let r = |i: u8| route([i, 0, 0, 0], 8, 0);
        assert_eq!(t.remove(r(0).addr, r(0).mask, None).unwrap().port, 1);
        assert_eq!(t.remove(r(2).addr, r(2).mask, None).unwrap().port, 3);
        t.add(route([9, 0, 0, 0], 8, 5), false).unwrap();
        t.add(route([9, 1, 0, 0], 16, 6), false).unwrap();
        // replaces the second one
        let old = t.add(route([1, 0, 0, 0], 8, 7), true).unwrap().unwrap();
        assert_eq!(old.port, 2);
        let mut got = shown(&t);
        if placing == Placing::Latest {
            // 9/8 took slot 2, 9.1/16 slot 0, the replacement slot 4, slot 1 is free
            assert_eq!(got, [6, 5, 4, 7]);
            got = vec![6, 5, 7, 4];
        }
        assert_eq!(got, want);
        assert_eq!(t.len(), 4);
    }
}

#[test]
fn odd_masks_are_searched_in_order() {
    let mut t = RouteTable::new(Placing::First);
    t.add(route([10, 0, 0, 0], 8, 1), false).unwrap();
    let odd = Route {
        mask: 0xff00_ff00,
        ..route([10, 0, 5, 0], 8, 2)
    };
    t.add(odd, false).unwrap();
    t.add(route([10, 9, 0, 0], 16, 3), false).unwrap();
    let look = |t: &RouteTable<u32>, a: [u8; 4]| t.lookup(u32::from_be_bytes(a)).map(|h| h.port);
    assert_eq!(look(&t, [10, 8, 5, 1]), Some(2));
    // both match, neither is as specific as the other: the first stays
    assert_eq!(look(&t, [10, 9, 5, 1]), Some(2));
    assert_eq!(look(&t, [10, 9, 6, 1]), Some(3));
    assert_eq!(look(&t, [11, 9, 6, 1]), None);
    assert!(matches!(t.add(odd, false), Err(AddError::Exists(_))));
    assert!(t.remove(odd.addr, odd.mask, None).is_some());
    assert_eq!(look(&t, [10, 9, 5, 1]), Some(3));
    assert_eq!(t.version(), 4);
}

#[test]
fn ip6_text() {
    assert_eq!(show_ip6(0), "::");
    assert_eq!(show_ip6(1), "::0.0.0.1");
    assert_eq!(show_ip6(0xffff_0102_0304), "::ffff:1.2.3.4");
    assert_eq!(show_ip6(0x2001_0db8 << 96 | 1), "2001:db8::1");
}
