//! Rust text without its comments, literals and tests, for checks that look at words.

/// `text` with comments, and what is within string and character literals, replaced by spaces: bytes and lines stay
/// where they were.
pub fn blank(text: &str) -> String {
    let b = text.as_bytes();
    let mut out = b.to_vec();
    let mut i = 0;
    while i < b.len() {
        let end = match b[i] {
            b'/' if b.get(i + 1) == Some(&b'/') => end_of_line(b, i),
            b'/' if b.get(i + 1) == Some(&b'*') => end_of_comment(b, i),
            b'"' => end_of_string(b, i + 1),
            b'r' if !part_of_word(b, i) => raw_string(b, i).unwrap_or(i),
            b'\'' => end_of_char(b, i).unwrap_or(i),
            _ => i,
        };
        if end == i {
            i += 1;
            continue;
        }
        for o in &mut out[i..end] {
            if *o != b'\n' {
                *o = b' ';
            }
        }
        i = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether the byte at `i` continues a word (`br"` is a raw string, `var"` is not).
fn part_of_word(b: &[u8], i: usize) -> bool {
    i > 0 && is_word(b[i - 1]) && !(b[i - 1] == b'b' && (i < 2 || !is_word(b[i - 2])))
}

/// Whether a byte may be part of an identifier.
pub fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80
}

fn end_of_line(b: &[u8], i: usize) -> usize {
    b[i..]
        .iter()
        .position(|&c| c == b'\n')
        .map_or(b.len(), |n| i + n)
}

/// Behind a block comment that begins at `i`; block comments nest.
fn end_of_comment(b: &[u8], mut i: usize) -> usize {
    let mut depth = 0;
    while i < b.len() {
        match (b[i], b.get(i + 1)) {
            (b'/', Some(b'*')) => (depth, i) = (depth + 1, i + 2),
            (b'*', Some(b'/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    b.len()
}

/// Behind the string whose content begins at `i`.
fn end_of_string(b: &[u8], mut i: usize) -> usize {
    while i < b.len() {
        match b[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    b.len()
}

/// Behind the raw string at `i` (`r"..."`, `r#"..."#`), or `None` where none is (`r#match`, `r`).
fn raw_string(b: &[u8], i: usize) -> Option<usize> {
    let hashes = b[i + 1..].iter().take_while(|&&c| c == b'#').count();
    let start = i + 1 + hashes;
    if b.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    while at < b.len() {
        if b[at] == b'"'
            && b[at + 1..]
                .iter()
                .take(hashes)
                .filter(|&&c| c == b'#')
                .count()
                == hashes
        {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(b.len())
}

/// Behind the character literal at `i`, or `None` where a lifetime begins.
fn end_of_char(b: &[u8], i: usize) -> Option<usize> {
    if b.get(i + 1) == Some(&b'\\') {
        let close = b[i + 3..].iter().position(|&c| c == b'\'')?;
        return Some(i + 4 + close);
    }
    let width = match b.get(i + 1)? {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (b.get(i + 1 + width) == Some(&b'\'')).then_some(i + 2 + width)
}

/// Where the block ends that opens at or behind `from` (behind its brace), or the `;` that comes first outside of
/// brackets. `None` where the text ends before.
pub fn end_of_item(code: &[u8], from: usize) -> Option<usize> {
    let (mut braces, mut others) = (0u32, 0u32);
    for (i, c) in code.iter().enumerate().skip(from) {
        match c {
            b'{' => braces += 1,
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && others == 0 {
                    return Some(i + 1);
                }
            }
            b'(' | b'[' => others += 1,
            b')' | b']' => others = others.checked_sub(1)?,
            b';' if braces == 0 && others == 0 => return Some(i + 1),
            _ => {}
        }
    }
    None
}

/// Blank `code` with the items behind `#[cfg(test)]` blanked as well, and the modules among these that are files of
/// their own (`mod tests;`).
pub fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut out = code.as_bytes().to_vec();
    let mut files = Vec::new();
    for (at, mark) in code.match_indices("#[cfg(test)]") {
        if out[at] == b' ' {
            continue; // within an item that is blank already
        }
        let Some(end) = end_of_item(code.as_bytes(), at + mark.len()) else {
            continue;
        };
        let item = &code[at + mark.len()..end];
        let words: Vec<&str> = words(item).map(|(_, w)| w).collect();
        if item.ends_with(';')
            && let Some(m) = words.iter().position(|w| *w == "mod")
            && let Some(name) = words.get(m + 1)
        {
            files.push((*name).to_owned());
        }
        for o in &mut out[at..end] {
            if *o != b'\n' {
                *o = b' ';
            }
        }
    }
    (String::from_utf8_lossy(&out).into_owned(), files)
}

/// The words of blanked code with their places.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let b = code.as_bytes();
    let mut i = 0;
    std::iter::from_fn(move || {
        while i < b.len() && !is_word(b[i]) {
            i += 1;
        }
        let start = i;
        while i < b.len() && is_word(b[i]) {
            i += 1;
        }
        (start < i).then(|| (start, &code[start..i]))
    })
}

/// The line, from 1, of a byte.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|&&c| c == b'\n')
        .count()
        + 1
}

#[test]
fn comments_and_literals_become_blank() {
    let text = "a /* b /* c */ d */ e // f\n\"g\\\"h\" r#\"i\"j\"# 'k' '\\n' &'l m b'n' br\"o\" r\"p\" 'é' q";
    let code = blank(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(code.matches('\n').count(), 1);
    let left: Vec<&str> = words(&code).map(|(_, w)| w).collect();
    assert_eq!(left, ["a", "e", "l", "m", "b", "b", "q"]);
}

#[test]
fn tests_become_blank() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { if x { } } }\n#[cfg(test)]\nmod c;\nfn d() {}";
    let (code, files) = without_tests(text);
    let left: Vec<&str> = words(&code).map(|(_, w)| w).collect();
    assert_eq!(left, ["fn", "a", "fn", "d"]);
    assert_eq!(files, ["c"]);
}
