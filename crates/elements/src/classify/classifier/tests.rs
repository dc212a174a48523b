use super::*;
use crate::testing::Bench;
use proptest::prelude::*;

#[test]
fn documented_example() {
    let mut b = Bench::new(
        "Classifier",
        "12/0806 20/0001, 12/0806 20/0002, 12/0800, -",
        1,
        4,
    )
    .unwrap();
    let mut arp = [0u8; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    arp[21] = 1;
    assert_eq!(b.push(0, &arp)[0].0, 0);
    arp[21] = 2;
    assert_eq!(b.push(0, &arp)[0].0, 1);
    arp[21] = 3;
    assert_eq!(b.push(0, &arp)[0].0, 3);
    arp[13] = 0;
    assert_eq!(b.push(0, &arp)[0].0, 2);
    // too short for the ethertype
    assert_eq!(b.push(0, &arp[..13])[0].0, 3);
    assert_eq!(b.push(0, &[])[0].0, 3);
    let counts = "0 1 60\n1 1 60\n2 1 60\n3 3 73\n";
    assert_eq!(b.read("rule_counts").unwrap(), counts);
    assert_eq!(
        b.host.decisions[0],
        (Some(0), "12/0806 20/0001 -> output 0".to_string())
    );
    assert_eq!(
        b.read("program").unwrap(),
        " 0 12/0806 20/0001  yes->[0]\n 1 12/0806 20/0002  yes->[1]\n 2 12/0800  yes->[2]\n 3 -  yes->[3]\n"
    );
}

#[test]
fn masks_negation_and_length() {
    let m =
        |pattern: &str, data: &[u8]| Compiled::new(&parse_pattern(pattern).unwrap()).matches(data);
    assert!(m("0/12%f0", &[0x1f]) && !m("0/12%f0", &[0x2f]));
    assert!(m("0/1?", &[0x1f]) && !m("0/1?", &[0x2f]));
    assert!(m("!0/12", &[0x13]) && !m("!0/12", &[0x12]));
    // a clause that does not fit fails; negated, it holds
    assert!(!m("3/00", &[0; 3]) && m("!3/00", &[0; 3]));
    // what is not looked at need not be there
    assert!(m("0/12????", &[0x12]) && m("2/0000%0000", &[]));
    assert!(m("1/ab 0/cd!0/00", &[0xcd, 0xab]));
    assert!(m("", &[]) && m("-", &[]));
    let long = "0/000102030405060708090a0b0c0d0e0f1011";
    let data: Vec<u8> = (0..18).collect();
    assert!(m(long, &data) && !m(long, &data[..17]));
}

#[test]
fn errors() {
    let e = |t: &str| parse_pattern(t).unwrap_err().to_string();
    assert_eq!(e("x"), "expected a digit at 'x'");
    assert_eq!(e("12 0800"), "expected '/' at ' 0800'");
    assert_eq!(e("12/8"), "value has less than 2 hex digits");
    assert_eq!(e("12/800"), "value has odd number of hex digits");
    assert_eq!(e("12/0800%ff"), "mask has too few hex digits");
    assert_eq!(e("12/08%ffff"), "mask has too many hex digits");
    assert_eq!(
        e("99999999999999999999999/08"),
        "offset out of range, 0 to 65535"
    );
    assert_eq!(e("12/0800 !"), "expected a digit at ''");
    let e = Bench::new("Classifier", "12/0800, z, 1/2", 1, 2)
        .err()
        .unwrap();
    assert_eq!(
        e,
        [
            "need 2 arguments, one per output port; there are 3",
            "pattern 1: expected a digit at 'z'",
            "pattern 2: value has less than 2 hex digits"
        ]
    );
    let b = Bench::new(
        "Classifier",
        "12/0806 12/0800, 12/0800, 12/0800 23/06, -, 0/00",
        1,
        5,
    )
    .unwrap();
    let w: Vec<&str> = b.warnings.iter().map(String::as_str).collect();
    assert_eq!(
        w,
        [0, 2, 4].map(|i| format!("output {i} matches no packets"))
    );
}

proptest! {
    /// Byte by byte, the meaning of a clause.
    #[test]
    fn pieces_mean_the_clause(
        clauses in prop::collection::vec((any::<bool>(), 0usize..30, prop::collection::vec((0u8..4, prop::sample::select(vec![0u8, 0xff, 3, 0xf0])), 1..20)), 0..4),
        data in prop::collection::vec(0u8..4, 0..50),
    ) {
        let clauses: Vec<Clause> = clauses.into_iter().map(|(negated, offset, vm)| Clause {
            negated,
            offset,
            value: vm.iter().map(|(v, m)| v & m).collect(),
            mask: vm.iter().map(|(_, m)| *m).collect(),
        }).collect();
        let want = clauses.iter().all(|c| {
            let hit = c.value.iter().zip(&c.mask).enumerate().all(|(i, (v, m))| {
                *m == 0 || data.get(c.offset + i).is_some_and(|d| d & m == *v)
            });
            hit != c.negated
        });
        prop_assert_eq!(Compiled::new(&clauses).matches(&data), want);
        let text = clauses.iter().map(Clause::to_string).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(parse_pattern(&text).unwrap(), clauses);
    }

    #[test]
    fn any_text(text in "[-0-9a-f/%!? ]{0,40}", data in prop::collection::vec(any::<u8>(), 0..20)) {
        if let Ok(p) = parse_pattern(&text) {
            let _ = Compiled::new(&p).matches(&data);
        }
    }
}
