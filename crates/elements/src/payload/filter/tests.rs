//! Behaviour of `PayloadFilter`.

use super::rule::{self, Scratch};
use crate::testing::Bench;
use onefold_element::args::Args;
use onefold_packet::{Packet, Pkt};
use proptest::prelude::*;

fn packet(dport: u16, payload: &[u8]) -> Pkt {
    let total = (28 + payload.len()) as u16;
    let mut b = vec![0x45, 0];
    b.extend(total.to_be_bytes());
    b.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0]);
    b.extend(dport.to_be_bytes());
    b.extend([0, 0, 0, 0]);
    b.extend(payload);
    let mut p = Box::new(Packet::from_slice(&b));
    p.set_network_header(0, 20);
    p
}

/// Does this rule match this payload?
fn hit(rule: &str, payload: &[u8]) -> bool {
    let args = Args::from_strings(&[]);
    let r = rule::parse(&format!("drop {rule}"), &args.scope()).unwrap();
    let mut s = Scratch::default();
    let first = r.payload_matches(payload, &mut s);
    s.reset();
    assert_eq!(first, r.payload_matches(payload, &mut s), "scratch matters");
    first
}

#[test]
fn literals_and_where_they_stand() {
    assert!(hit("LITERAL abc", b"xxabcxx"));
    assert!(!hit("LITERAL abc", b"xxABCxx"));
    assert!(hit("LITERAL AbC NOCASE", b"xxaBcxx"));
    assert!(hit("LITERAL \\<61 62> LITERAL \"c d\"", b"c d ab"));
    assert!(hit("LITERAL ab OFFSET 2 DEPTH 2", b"..ab"));
    assert!(!hit("LITERAL ab OFFSET 2 DEPTH 2", b"...ab"));
    assert!(!hit("LITERAL ab OFFSET 3", b"..ab"));
    assert!(hit("NOT LITERAL ab DEPTH 3", b"..ab"));
    assert!(!hit("NOT LITERAL ab", b"..ab"));
    assert!(!hit("LITERAL ab OFFSET 90", b"ab"));
    assert!(hit("", b""));
}

#[test]
fn relative_to_the_last_match() {
    // a distance is counted from the end of the match before, within from there
    assert!(hit("LITERAL ab LITERAL cd DISTANCE 1", b"ab.cd"));
    assert!(!hit("LITERAL ab LITERAL cd DISTANCE 2", b"ab.cd"));
    assert!(hit("LITERAL ab LITERAL cd WITHIN 3", b"ab.cd"));
    assert!(!hit("LITERAL ab LITERAL cd WITHIN 2", b"ab.cd"));
    assert!(hit("LITERAL ab LITERAL cd DISTANCE 1 WITHIN 2", b"ab.cd"));
    assert!(!hit("LITERAL ab LITERAL cd DISTANCE 1 WITHIN 2", b"ab..cd"));
    assert!(hit("LITERAL cd LITERAL ab DISTANCE -4", b"abcd"));
    // the first `ab` is too far away, the second is not; `zz` must follow a `cd` that follows an `ab`
    assert!(hit("LITERAL ab LITERAL cd WITHIN 2", b"ab....abcd"));
    assert!(hit(
        "LITERAL ab LITERAL cd DISTANCE 0 LITERAL zz WITHIN 2",
        b"ab cd . cdzz"
    ));
    assert!(!hit(
        "LITERAL ab LITERAL cd WITHIN 3 LITERAL zz WITHIN 2",
        b"ab cd . cdzz"
    ));
    // overlapping occurrences
    assert!(hit("LITERAL aa LITERAL b WITHIN 1", b"aaab"));
    assert!(hit("LITERAL ab NOT LITERAL cd WITHIN 5", b"ab....cd"));
    assert!(!hit("LITERAL ab NOT LITERAL cd WITHIN 6", b"ab....cd"));
    assert!(hit("LITERAL ab NOT LITERAL cd WITHIN 6", b"abcd....ab"));
    // the negated condition does not move the place that the next one speaks of
    assert!(hit(
        "LITERAL ab NOT LITERAL xx WITHIN 9 LITERAL cd WITHIN 2",
        b"abcd"
    ));
    assert!(hit("LITERAL ab NOT AFTER 1", b"..ab"));
    assert!(!hit("LITERAL ab NOT AFTER 1", b"..ab."));
    assert!(hit("LITERAL ab AFTER 3", b"ab..."));
    assert!(!hit("LITERAL ab AFTER 4", b"ab..."));
    // without a match before: from the payload's begin
    assert!(hit("LITERAL ab WITHIN 3", b".ab"));
    assert!(!hit("LITERAL ab WITHIN 3", b"..ab"));
}

#[test]
fn expressions_and_sizes() {
    assert!(hit("REGEX 'a.+d'", b"xabcd"));
    assert!(!hit("NOT REGEX 'a.+d'", b"xabcd"));
    assert!(hit("REGEX '(?i)^GET\\s+/\\xff'", b"get  /\xff"));
    assert!(hit(
        "LITERAL ab REGEX '^[0-9]{2}' RELATIVE LITERAL x WITHIN 1",
        b"ab ab12x"
    ));
    assert!(!hit(
        "LITERAL ab REGEX '^[0-9]{2}' RELATIVE LITERAL x WITHIN 1",
        b"ab1 12x"
    ));
    assert!(hit("LITERAL ab NOT REGEX '^[0-9]' RELATIVE", b"ab1abx"));
    assert!(!hit("LITERAL ab NOT REGEX '[0-9]' RELATIVE", b"ab1ab2"));
    assert!(hit("SIZE 3", b"abc") && !hit("SIZE 3", b"ab") && hit("NOT SIZE 3", b"ab"));
    assert!(hit("SIZE 2-4", b"abcd") && !hit("SIZE 2-4", b"abcde") && hit("SIZE 2-", b"abcde"));
}

#[test]
fn the_first_decision_ends_the_search_and_alerts_come_before() {
    let rules = "alert NAME one LITERAL evil NOCASE, allow FILTER \"dst udp port 53\", alert NAME two REGEX \"e.il\", \
                 drop LITERAL EVIL, drop FILTER \"dst port 7\"";
    let mut b = Bench::new("PayloadFilter", rules, 1, 2).unwrap();
    let ports = |v: Vec<(usize, Pkt)>| v.iter().map(|x| x.0).collect::<Vec<_>>();
    assert_eq!(ports(b.push_packet(0, packet(80, b"good"))), [0]);
    assert_eq!(ports(b.push_packet(0, packet(80, b"evil"))), [1, 0]);
    assert_eq!(ports(b.push_packet(0, packet(53, b"EVIL"))), [1, 0]);
    assert_eq!(ports(b.push_packet(0, packet(80, b"EVIL"))), [1]);
    assert!(b.push_packet(0, packet(7, b"")).is_empty());
    assert_eq!(b.drops()["PayloadFilter: dropped by a rule"], 2);
    assert_eq!(
        b.read("counts").unwrap(),
        "0 3 one\n1 1\n2 1 two\n3 1\n4 1\n"
    );
    assert_eq!(b.read("alerts").unwrap(), "3");
    assert_eq!(b.read("matches").unwrap(), "7");
    assert_eq!(b.host.decisions[0], (Some(0), "alert one".to_string()));
    b.write("reset_counts", "").unwrap();
    assert_eq!(b.read("counts").unwrap(), "");
    // no IP packet, and an IPv6 packet, which rules with a filter say nothing about
    assert!(b.push(0, b"evil").is_empty());
    let mut v6 = vec![0x60, 0, 0, 0, 0, 12, 17, 64];
    v6.extend([0; 34]);
    v6.extend([0, 7, 0, 12, 0, 0]);
    v6.extend(b"evil");
    let mut p = Box::new(Packet::from_slice(&v6));
    p.set_network_header(0, 40);
    assert_eq!(ports(b.push_packet(0, p)), [1, 0]);
    // with one output, alerts are only counted
    let mut b = Bench::new("PayloadFilter", rules, 1, 1).unwrap();
    assert_eq!(ports(b.push_packet(0, packet(80, b"evil"))), [0]);
    assert_eq!(b.read("alerts").unwrap(), "1");
}

#[test]
fn all_errors_with_their_arguments() {
    let e = Bench::new(
        "PayloadFilter",
        "permit LITERAL x, drop LITERAL, drop LITERAL abc DEPTH 2, drop LITERAL a OFFSET 1 WITHIN 2, drop REGEX '(', \
         drop FILTER 'prt 80' LITERAL x, drop NOT, drop SIZE x, drop WORD, drop LITERAL \"\", drop LITERAL a OFFSET -1",
        1,
        1,
    );
    assert_eq!(
        e.err().unwrap(),
        [
            "rule 0: expected allow, drop or alert, found 'permit'",
            "rule 1: expected a value behind LITERAL",
            "rule 2: DEPTH 2 is less than the literal's 3 bytes",
            "rule 3: OFFSET and DEPTH count from the payload's begin, DISTANCE and WITHIN from the last match: give one kind",
            "rule 4: REGEX: unclosed group",
            "rule 5: FILTER: unknown word 'prt'",
            "rule 6: expected a condition behind NOT",
            "rule 7: expected a number behind SIZE, found 'x'",
            "rule 8: expected NAME, FILTER, NOT, LITERAL, REGEX, AFTER or SIZE, found 'WORD'",
            "rule 9: LITERAL: expected 1 to 8192 bytes",
            "rule 10: OFFSET -1 is negative",
        ]
    );
    assert!(Bench::new("PayloadFilter", "", 1, 1).is_ok());
}

#[test]
fn quoted_bytes_come_back() {
    for b in [
        &b"plain text"[..],
        b"a\"b",
        b"a$b",
        b"a\\b'",
        b"\x00\xff",
        b"it's $x",
        b"//x",
    ] {
        assert_eq!(
            onefold_element::args::unquote(&rule::quote(b)),
            b,
            "{}",
            rule::quote(b)
        );
        assert_eq!(onefold_element::args::split_words(&rule::quote(b)).len(), 1);
    }
}

/// The meaning of a row of literals, by trying every choice of places.
fn naive(list: &[(Vec<u8>, Option<i64>, Option<usize>)], at: usize, data: &[u8]) -> bool {
    let Some(((bytes, distance, within), rest)) = list.split_first() else {
        return true;
    };
    let relative = distance.is_some() || within.is_some();
    (0..data.len()).any(|i| {
        let end = i + bytes.len();
        let base = at as i64 + distance.unwrap_or(0);
        let fits = !relative
            || (i as i64 >= base.max(0) && within.is_none_or(|w| end as i64 <= base + w as i64));
        data.get(i..end) == Some(bytes) && fits && naive(rest, end, data)
    })
}

proptest! {
    #[test]
    fn as_by_trying_every_choice(
        list in proptest::collection::vec(
            ("[ab]{1,2}", proptest::option::of(-3i64..4), proptest::option::of(2usize..6)), 1..4),
        data in "[ab.]{0,14}",
    ) {
        let mut text = String::new();
        let list: Vec<_> = list.into_iter().map(|(s, d, w)| (s.into_bytes(), d, w)).collect();
        for (b, d, w) in &list {
            text.push_str(&format!(" LITERAL {}", rule::quote(b)));
            if let Some(d) = d { text.push_str(&format!(" DISTANCE {d}")); }
            if let Some(w) = w { text.push_str(&format!(" WITHIN {w}")); }
        }
        prop_assert_eq!(hit(&text, data.as_bytes()), naive(&list, 0, data.as_bytes()), "{} on {}", text, data);
    }

    /// The search for candidates leaves no rule out.
    #[test]
    fn first_rule_as_by_asking_all(
        rules in proptest::collection::vec("[abAB]{1,3}", 1..8),
        nocase in proptest::bits::u8::ANY,
        data in "[abAB.]{0,12}",
    ) {
        let texts: Vec<String> = rules.iter().enumerate()
            .map(|(i, r)| format!("drop LITERAL {r}{}", if nocase >> i & 1 == 1 { " NOCASE" } else { "" }))
            .collect();
        let mut b = Bench::new("PayloadFilter", &texts.join(", "), 1, 1).unwrap();
        b.push_packet(0, packet(1, data.as_bytes()));
        let first = texts.iter().position(|t| hit(&t[5..], data.as_bytes()));
        let counted = b.read("counts").unwrap().split(' ').next().and_then(|n| n.parse::<usize>().ok());
        prop_assert_eq!(counted, first);
    }
}
