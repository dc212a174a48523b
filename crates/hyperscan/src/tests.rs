//! The library, where there is one.

use super::*;
use std::sync::Arc;

/// The library, or a skip.
fn there() -> Option<&'static Library> {
    library().map_err(onefold_testing::skip).ok()
}

fn expression(id: u32, text: &str) -> Expression {
    Expression::new(id, text).unwrap()
}

fn found(s: &mut Scanner, data: &[u8]) -> Vec<u32> {
    let mut v = Vec::new();
    s.scan(data, |id| {
        v.push(id);
        true
    })
    .unwrap();
    v.sort_unstable();
    v
}

#[test]
fn finds_each_expression_once_and_stops_when_told() {
    let Some(library) = there() else { return };
    assert!(library.version().starts_with("5."), "{}", library.version());
    let list = [
        expression(1, "ab"),
        Expression {
            caseless: true,
            ..expression(2, "XY")
        },
        Expression {
            min_end: Some(4),
            max_end: Some(6),
            ..expression(3, "\\x00b")
        },
        expression(u32::MAX, "a.*z"),
    ];
    let mut s = Scanner::new(Arc::new(library.compile(&list).unwrap())).unwrap();
    assert!(s.database().size() > 0);
    assert_eq!(found(&mut s, b"ab ab xY"), [1, 2]);
    assert_eq!(found(&mut s, b"\0b...\0b"), [0u32; 0]);
    assert_eq!(found(&mut s, b"\0b..\0b a z"), [3, u32::MAX]);
    assert_eq!(found(&mut s, b""), [0u32; 0]);
    let mut n = 0;
    s.scan(b"ab xy", |_| {
        n += 1;
        false
    })
    .unwrap();
    assert_eq!(n, 1);
}

/// Whatever library is there, it is used if it is right about these, and only then. (Vectorscan 5.4.9 misses the
/// first and the second.)
#[test]
fn wrong_libraries_are_not_used() {
    let library = match ffi::unchecked() {
        Ok(l) => l,
        Err(e) => return onefold_testing::skip(e),
    };
    let misses = |texts: &[&str], data: &[u8]| {
        let list: Vec<_> = (0..).zip(texts).map(|(i, t)| expression(i, t)).collect();
        let mut s = Scanner::new(Arc::new(library.compile(&list).unwrap())).unwrap();
        !found(&mut s, data).contains(&0)
    };
    let mut data = vec![b'b'; 65];
    data[64] = b'A';
    let one = misses(&["A"], &data);
    let mut data = vec![b'z'; 68];
    data[61..65].copy_from_slice(b"ABCD");
    let two = misses(&["ABCD", "DEFG"], &data);
    match crate::library() {
        Ok(_) => assert!(!one && !two),
        Err(e) => assert!(matches!(e, Missing::Wrong(..)), "{e}"),
    }
    if one || two {
        assert!(crate::library().is_err());
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let Some(library) = there() else { return };
    let e = library
        .compile(&[expression(0, "fine"), expression(1, "(?=look)ahead")])
        .unwrap_err();
    assert_eq!(e.expression, Some(1));
    assert!(!e.message.is_empty());
    assert!(library.compile(&[]).is_err());
    assert_eq!(Expression::new(0, "a\0b"), None);
}

/// One database, a scanner in each thread; a clone outlives what it was cloned from.
#[test]
fn databases_are_shared_and_scanners_are_not() {
    let Some(library) = there() else { return };
    let list: Vec<Expression> = (0..200)
        .map(|i| expression(i, &format!("needle{i:03}")))
        .collect();
    let database = Arc::new(library.compile(&list).unwrap());
    let first = Scanner::new(database.clone()).unwrap();
    let threads: Vec<_> = (0..4u32)
        .map(|t| {
            let mut s = first.clone();
            std::thread::spawn(move || {
                (0..500u32).all(|i| {
                    let id = (i * 7 + t) % 200;
                    found(&mut s, format!("hay needle{id:03} hay").as_bytes()) == [id]
                })
            })
        })
        .collect();
    drop(first);
    assert!(threads.into_iter().all(|t| t.join().unwrap()));
    assert_eq!(Arc::strong_count(&database), 1);
}
