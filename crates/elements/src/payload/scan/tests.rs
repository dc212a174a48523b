//! What is found, by either matcher.

use super::*;
use proptest::prelude::*;

fn found(patterns: Vec<Pattern>, data: &[u8]) -> Vec<usize> {
    let n = patterns.len();
    let mut s = Scanner::new(patterns, DEFAULT_REGEX_MEMORY).unwrap();
    let any = s.any(data);
    let f = s.scan(data);
    let v: Vec<usize> = (0..n).filter(|i| f.has(*i)).collect();
    assert_eq!(
        (any, f.count(), f.first()),
        (!v.is_empty(), v.len(), v.first().copied())
    );
    v
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

proptest! {
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
