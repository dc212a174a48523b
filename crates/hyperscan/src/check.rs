//! Does a library find what is there, and nothing else?
//!
//! Its ways of searching differ by the number of strings, their lengths and the length of the data; what went wrong
//! in releases was the end of a vector. So strings of all small lengths are looked for alone, in twos, threes and
//! crowds, near every multiple of 16 bytes of data of several lengths, and expressions behind runs of all lengths.

use crate::{Expression, Library, Scanner};
use std::sync::Arc;

/// Lengths of data: around those of one, two and four vectors of up to 64 bytes, and some more.
const LENGTHS: [usize; 12] = [9, 16, 17, 33, 63, 64, 65, 70, 127, 130, 193, 260];
/// Letters of strings that are looked for; data is of others.
const LETTERS: &[u8] = b"ABCDEFGHIJK";

/// The string with this number, of this length.
fn word(k: usize, len: usize) -> Vec<u8> {
    let letter = |i: usize| LETTERS.get((i + k * 3 + i * k) % LETTERS.len()).copied();
    (0..len).filter_map(letter).collect()
}

fn scanner(library: &'static Library, list: &[Expression]) -> Result<Scanner, String> {
    let database = library.compile(list).map_err(|e| e.to_string())?;
    Scanner::new(Arc::new(database)).map_err(|e| e.to_string())
}

/// Is expression 0 found? (Others may be, too.)
fn first(s: &mut Scanner, data: &[u8]) -> Result<bool, String> {
    let mut found = false;
    s.scan(data, |id| {
        found |= id == 0;
        true
    })
    .map_err(|e| e.to_string())?;
    Ok(found)
}

/// `n` strings, the first of this length.
fn strings(library: &'static Library, n: usize, len: usize, caseless: bool) -> Result<(), String> {
    let words: Vec<Vec<u8>> = (0..n).map(|k| word(k, len + k / 8)).collect();
    let list = words.iter().enumerate().filter_map(|(k, w)| {
        let e = Expression::new(k as u32, w.clone())?;
        Some(Expression { caseless, ..e })
    });
    let mut s = scanner(library, &list.collect::<Vec<_>>())?;
    let Some(word) = words.first() else {
        return Ok(());
    };
    let mut data = Vec::new();
    for of in LENGTHS {
        for filler in [b'b', b'z'] {
            data.clear();
            data.resize(of, filler);
            let absent = first(&mut s, &data)?;
            // caseless words may have the filler's letter, and be nothing else
            let may = caseless && word.iter().all(|b| b.eq_ignore_ascii_case(&filler));
            if absent && !may {
                return Err(format!(
                    "{} of {n} in {of} bytes without it",
                    word.escape_ascii()
                ));
            }
            for at in 0..=of.saturating_sub(len) {
                // near the ends of vectors, and of the data
                let near = (at + len) % 16 < len + 2 || at % 16 > 13 || at + len + 1 >= of;
                let Some(place) = data.get_mut(at..at + len).filter(|_| near) else {
                    continue;
                };
                place.copy_from_slice(word);
                let there = first(&mut s, &data)?;
                if let Some(place) = data.get_mut(at..at + len) {
                    place.fill(filler);
                }
                if !there {
                    return Err(format!(
                        "{} of {n} at {at} of {of} bytes",
                        word.escape_ascii()
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Expressions, and something that matches each behind a run of one byte: run, matching, not matching.
const EXPRESSIONS: [(&str, u8, &[u8], &[u8]); 8] = [
    (
        "curl[\\x00-\\xff]*\\x7c[\\x09-\\x0d\\x20]*python",
        b'x',
        b"curl http://x:80/ 2>&1 | python",
        b"curl http://x/ ! python",
    ),
    (
        "x[^b]*yz",
        b'c',
        b"x...............................................yz",
        b"x......b.....yz",
    ),
    ("ab{2,9}c", b'b', b"abbbbbbbc", b"abbbbbbbbbbbbc"),
    ("[a-c]{5}d", b'z', b"abcabd", b"abcad"),
    (
        "(?:one|three|seven)[0-9]+x",
        b' ',
        b"seven0123456789x",
        b"seven0123456789y",
    ),
    ("\\bword\\b", b' ', b"word", b"words"),
    ("end\\z", b'-', b"end", b"end-"),
    (
        "[\\x00-\\x1f][^\\x00]{3}\\x00",
        b'a',
        b"\x01abc\x00",
        b"\x01ab\x00",
    ),
];

fn expressions(library: &'static Library) -> Result<(), String> {
    for (text, run, yes, no) in EXPRESSIONS {
        let Some(e) = Expression::new(0, text) else {
            continue;
        };
        let mut s = scanner(library, &[e])?;
        for n in (0..140).chain([255, 256, 257]) {
            for (what, wanted) in [(yes, true), (no, false)] {
                let mut data = vec![run; n];
                data.extend(what);
                if first(&mut s, &data)? != wanted {
                    return Err(format!("{text} behind {n} bytes"));
                }
            }
        }
    }
    Ok(())
}

/// Tries a library; an error says what it was wrong about. A few hundredths of a second.
pub fn check(library: &'static Library) -> Result<(), String> {
    for len in 1..=9 {
        for n in [1, 2, 3] {
            strings(library, n, len, len % 2 == 0)?;
        }
    }
    for (n, len) in [(1, 1), (2, 4), (3, 7)] {
        strings(library, n, len, true)?;
        strings(library, n, len, false)?;
    }
    for (n, len) in [(12, 2), (40, 3), (100, 4)] {
        strings(library, n, len, false)?;
    }
    expressions(library)
}
