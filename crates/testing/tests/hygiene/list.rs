//! The lists beside the tests: one entry a line, fields between `|`, `#` begins a comment.

use std::path::PathBuf;

/// Where a list is.
pub fn file(name: &str) -> PathBuf {
    onefold_testing::root()
        .join("crates/testing/tests/hygiene")
        .join(name)
}

/// A list's entries: the fields of each line, without spaces around them.
///
/// # Panics
/// Where the list cannot be read or a line has another number of fields.
pub fn read(name: &str, fields: usize) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(file(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    parse(&text, fields).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn parse(text: &str, fields: usize) -> Result<Vec<Vec<String>>, String> {
    let mut entries = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry: Vec<String> = line.split('|').map(|f| f.trim().to_owned()).collect();
        if entry.len() != fields || entry.iter().any(String::is_empty) {
            return Err(format!("line {}: not {fields} fields: {line}", i + 1));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The comment that a list begins with.
pub fn heading(name: &str) -> String {
    let text = std::fs::read_to_string(file(name)).unwrap_or_default();
    text.lines()
        .take_while(|l| l.starts_with('#'))
        .map(|l| format!("{l}\n"))
        .collect()
}

#[test]
fn lists_are_read() {
    assert_eq!(
        parse("# c\n\n a | b c\n", 2),
        Ok(vec![vec!["a".into(), "b c".into()]])
    );
    assert!(parse("a\n", 2).is_err());
    assert!(parse("a | \n", 2).is_err());
}
