//! What is found, by either matcher.

use super::*;
use proptest::prelude::*;

fn by(choice: Choice, patterns: Vec<Pattern>) -> Scanner {
    Scanner::with(patterns, DEFAULT_REGEX_MEMORY, choice).unwrap()
}

/// What a scanner and its clone find, looked at in every way there is.
fn found_by(s: &mut Scanner, data: &[u8]) -> Vec<usize> {
    let any = s.any(data);
    let n = s.patterns().len();
    let mut clone = s.clone();
    let f = s.scan(data);
    let v: Vec<usize> = (0..n).filter(|i| f.has(*i)).collect();
    assert_eq!(
        (any, f.count(), f.first()),
        (!v.is_empty(), v.len(), v.first().copied())
    );
    let mut numbers: Vec<usize> = clone
        .scan(data)
        .numbers()
        .iter()
        .map(|i| *i as usize)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, v);
    v
}

/// What is found, by all matchers that there are.
fn found(patterns: Vec<Pattern>, data: &[u8]) -> Vec<usize> {
    let v = found_by(&mut by(Choice::Portable, patterns.clone()), data);
    if onefold_hyperscan::library().is_ok() {
        let mut s = by(Choice::Vectorscan, patterns);
        assert_eq!(found_by(&mut s, data), v, "{data:?} {}", s.engine());
    }
    v
}

/// Is Vectorscan there? Said as a skip if it is not.
fn vectorscan() -> bool {
    onefold_hyperscan::library()
        .map_err(onefold_testing::skip)
        .is_ok()
}

#[test]
fn who_looks_is_said() {
    let list = || vec![Pattern::literal(&b"ab"[..]), Pattern::regex("(?m)^a")];
    let s = by(Choice::Portable, list());
    assert_eq!(s.engine().to_string(), "portable, 2 patterns; as asked");
    let auto = by(Choice::Auto, list()).engine().to_string();
    if onefold_hyperscan::library().is_err() {
        assert!(
            auto.starts_with("portable, 2 patterns; libhs.so.5 "),
            "{auto}"
        );
        let e = Scanner::with(list(), DEFAULT_REGEX_MEMORY, Choice::Vectorscan);
        assert!(matches!(e, Err(PatternError::NoVectorscan(_))));
    }
    if !vectorscan() {
        return;
    }
    let who = auto.split(" 5.").next().unwrap_or("");
    assert!(["hyperscan", "vectorscan"].contains(&who), "{auto}");
    assert!(auto.ends_with(", 2 patterns, 1 of them portable"), "{auto}");
    // nothing that it could look for
    let s = by(Choice::Auto, vec![Pattern::regex("(?m)^a")]);
    assert_eq!(s.engine().to_string(), "portable, 1 pattern");
}

/// The limits of a configuration are the same, whoever looks.
#[test]
fn what_is_refused_is_refused_by_all() {
    let list = vec![Pattern::regex("(a{1,1000}){1,100}")];
    for choice in [Choice::Auto, Choice::Portable] {
        let e = Scanner::with(list.clone(), 1 << 20, choice).unwrap_err();
        assert!(matches!(e, PatternError::TooBig(_)), "{e}");
    }
}

/// Few strings of one byte are looked for beside the library, many by it.
#[test]
fn single_bytes() {
    for n in [3usize, 40] {
        let one = |i: usize| Pattern {
            nocase: i.is_multiple_of(2),
            offset: (i % 3) as u32,
            depth: i.is_multiple_of(5).then_some(2),
            ..Pattern::literal(vec![b'A' + i as u8])
        };
        let list: Vec<Pattern> = (0..n)
            .map(one)
            .chain([Pattern::literal(&b"xyz"[..])])
            .collect();
        for data in [
            &b"abcABC"[..],
            b"..a",
            b"bcd",
            b"A",
            b"",
            b"cba xyz",
            b"QRSTUVWXYZ[xyz",
        ] {
            found(list.clone(), data);
        }
    }
}

/// Clones and scanners of the same patterns share one database.
#[test]
fn databases_are_made_once() {
    if !vectorscan() {
        return;
    }
    let list = || vec![Pattern::literal(&b"made once only"[..])];
    let s = by(Choice::Vectorscan, list());
    let t = by(Choice::Vectorscan, list());
    let u = t.clone();
    let of = |s: &Scanner| s.vectorscan.as_ref().map(|v| v.database_address());
    assert!(of(&s).is_some());
    assert_eq!((of(&s), of(&s)), (of(&t), of(&u)));
}

#[test]
fn recordings_are_what_was_scanned() {
    let mut s = by(Choice::Auto, vec![Pattern::literal(&b"ab"[..])]);
    let mut r = record::record(10, || {
        s.scan(b"xab");
        s.any(b"ab");
        s.scan(b"more than there is room for");
    });
    assert_eq!((r.scans(), r.bytes(), r.scanners().len()), (2, 5, 1));
    assert_eq!(r.replay(), 2);
    s.scan(b"ab");
    assert_eq!(record::record(10, || {}).scans(), 0);
}

#[test]
fn literals_and_regexes_at_once() {
    let list = || {
        vec![
            Pattern::literal(&b"he"[..]),
            Pattern::literal(&b"she"[..]),
            Pattern {
                nocase: true,
                ..Pattern::literal(&b"HERS"[..])
            },
            Pattern::regex("^GET [^ ]+\\.php"),
            Pattern {
                nocase: true,
                ..Pattern::regex("s.e")
            },
            Pattern::regex("\\xff\\x00"),
        ]
    };
    assert_eq!(found(list(), b"ushers"), [0, 1, 2, 4]);
    assert_eq!(found(list(), b"GET /a.php SHE"), [3, 4]);
    assert_eq!(found(list(), b" GET /a.php\xff\x00"), [5]);
    assert_eq!(found(list(), b""), [0usize; 0]);
    assert_eq!(found(Vec::new(), b"x"), [0usize; 0]);
}

#[test]
fn offset_and_depth() {
    let p = |offset, depth| Pattern {
        offset,
        depth,
        ..Pattern::literal(&b"ab"[..])
    };
    let list = vec![
        p(0, Some(2)),
        p(1, Some(3)),
        p(2, None),
        p(5, None),
        p(0, Some(1)),
    ];
    assert_eq!(found(list.clone(), b"ab"), [0]);
    // the second occurrence fits where the first does not
    assert_eq!(found(list.clone(), b"abab"), [0, 1, 2]);
    assert_eq!(found(list, b"-----ab"), [2, 3]);
}

#[test]
fn errors_and_limits() {
    let e = |p: Pattern| check(&p).unwrap_err().to_string();
    assert_eq!(e(Pattern::literal(Vec::new())), "empty pattern");
    assert_eq!(
        e(Pattern::literal(vec![0; 5000])),
        "pattern of 5000 bytes, at most 4096 are allowed"
    );
    assert_eq!(
        e(Pattern::regex("a(b")),
        "bad regular expression: unclosed group"
    );
    assert!(
        e(Pattern::regex("(?=a)b")).contains("look-around"),
        "{}",
        e(Pattern::regex("(?=a)b"))
    );
    assert!(e(Pattern::regex("(".repeat(200) + &")".repeat(200))).contains("nest"));
    let big = Scanner::new(vec![Pattern::regex("(a{1,1000}){1,100}")], 1 << 20).unwrap_err();
    assert_eq!(
        big.to_string(),
        "the regular expressions need more than 1048576 bytes of memory"
    );
}

/// Strings that overlap, are prefixes of one another, have zero bytes, and differ in case only.
fn literal() -> impl Strategy<Value = Pattern> {
    let byte = prop_oneof![8 => prop::sample::select(&b"abAB"[..]), 1 => Just(0u8), 1 => Just(0xff), 1 => any::<u8>()];
    let bytes = prop_oneof![
        12 => prop::collection::vec(byte.clone(), 1..5),
        2 => prop::collection::vec(byte, 5..40),
        1 => (prop::sample::select(&b"aA\0"[..]), 1usize..70).prop_map(|(b, n)| vec![b; n]),
    ];
    (bytes, any::<bool>(), 0u32..4, prop::option::of(0u32..40)).prop_map(
        |(b, nocase, offset, depth)| Pattern {
            nocase,
            offset: offset.saturating_sub(1),
            depth: depth.filter(|d| d % 2 == 0),
            ..Pattern::literal(b)
        },
    )
}

/// Expressions of all that may stand in one.
fn regex() -> impl Strategy<Value = Pattern> {
    let leaf = prop::sample::select(vec![
        "a",
        "b",
        "A",
        "ab",
        "\\x00",
        "\\xff",
        ".",
        "(?s:.)",
        "[ab]",
        "[^a]",
        "\\d",
        "\\w",
        "\\W",
        "\\s",
        "^",
        "$",
        "\\b",
        "\\B",
        "\\A",
        "\\z",
        "(?m:^)",
        "(?m:$)",
        "(?i:aB)",
        "\\n",
        "[[:alpha:]]",
        "(?R:$)",
        "[a-b&&b]",
    ])
    .prop_map(str::to_string);
    let tree = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 1..4).prop_map(|v| v.concat()),
            2 => prop::collection::vec(inner.clone(), 1..4).prop_map(|v| format!("({})", v.join("|"))),
            2 => (inner.clone(), prop::sample::select(vec!["*", "+", "?", "*?", "{2}", "{1,3}", "{2,}"]))
                .prop_map(|(e, r)| format!("(?:{e}){r}")),
            1 => inner.prop_map(|e| format!("({e})")),
        ]
    });
    (tree, any::<bool>()).prop_map(|(t, nocase)| Pattern {
        nocase,
        ..Pattern::regex(t)
    })
}

/// Payloads of the patterns' bytes, long runs among them, and ends of lines.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![10 => prop::sample::select(&b"aabAB"[..]), 1 => Just(b'\n'), 1 => Just(0u8), 1 => Just(0xff), 1 => any::<u8>()];
    let part = prop_oneof![
        4 => prop::collection::vec(byte, 0..24),
        1 => (prop::sample::select(&b"aAb\0\n"[..]), 1usize..100).prop_map(|(b, n)| vec![b; n]),
    ];
    prop::collection::vec(part, 0..4).prop_map(|v| v.concat())
}

fn naive(p: &Pattern, data: &[u8]) -> Option<bool> {
    let Look::Literal(b) = &p.look else {
        return None;
    };
    let same = |w: &[u8]| match p.nocase {
        true => w.eq_ignore_ascii_case(b),
        false => w == b,
    };
    let mut places = (0..data.len()).filter(|i| data.get(*i..i + b.len()).is_some_and(same));
    Some(places.any(|i| p.accepts(i, i + b.len())))
}

proptest! {
    #![proptest_config(crate::testing::cases(300))]

    /// Portable, Vectorscan and a search by hand (of literals; of expressions, one by one) find the same.
    #[test]
    fn all_matchers_agree(
        list in prop::collection::vec(prop_oneof![3 => literal(), 1 => regex()], 1..12),
        data in prop::collection::vec(payload(), 1..6),
    ) {
        let mut portable = by(Choice::Portable, list.clone());
        let mut other = onefold_hyperscan::library().ok().map(|_| by(Choice::Vectorscan, list.clone()));
        for d in &data {
            let v = found_by(&mut portable, d);
            for (i, p) in list.iter().enumerate() {
                let alone = naive(p, d).unwrap_or_else(|| {
                    let text = match &p.look { Look::Regex(r) => r.as_str(), Look::Literal(_) => "" };
                    let one = regex_automata::meta::Regex::builder()
                        .configure(regex_automata::meta::Config::new().utf8_empty(false))
                        .syntax(syntax_config(p.nocase))
                        .build(text);
                    one.unwrap().is_match(d)
                });
                prop_assert_eq!(v.contains(&i), alone, "{:?} in {:?}", p, d);
            }
            if let Some(s) = &mut other {
                prop_assert_eq!(found_by(s, d), v, "{:?} in {:?}: {}", &list, d, s.engine());
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::testing::cases(64))]

    #[test]
    fn agrees_with_a_naive_search(
        patterns in prop::collection::vec((prop::collection::vec(97u8..100, 1..4), any::<bool>(), 0u32..4, prop::option::of(0u32..8)), 1..8),
        data in prop::collection::vec(prop_oneof![97u8..100, 65u8..68], 0..24),
    ) {
        let list: Vec<Pattern> = patterns.iter().map(|(b, nocase, offset, depth)| Pattern {
            nocase: *nocase, offset: *offset, depth: *depth, ..Pattern::literal(b.clone())
        }).collect();
        let want: Vec<usize> = (0..list.len()).filter(|i| {
            let (b, nocase, offset, depth) = &patterns[*i];
            let end = depth.map_or(data.len(), |d| data.len().min((offset + d) as usize));
            let window = data.get(*offset as usize..end).unwrap_or(&[]);
            window.windows(b.len()).any(|w| if *nocase { w.eq_ignore_ascii_case(b) } else { w == b })
        }).collect();
        prop_assert_eq!(found(list, &data), want);
    }
}
