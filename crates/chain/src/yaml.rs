//! Reading YAML: errors with their place, in words of a chain file. The library bounds depth, aliases and the number of
//! values.

use crate::error::Reader;
use onefold_click::diag::Diagnostic;
use onefold_click::source::{FileId, Span};
use serde_saphyr::Error;

/// Reads a document; what is wrong with it is recorded.
pub(crate) fn read<T: serde::de::DeserializeOwned>(
    text: &str,
    file: FileId,
    reader: &mut Reader,
) -> Option<T> {
    let e = match serde_saphyr::from_str(text) {
        Ok(v) => return Some(v),
        Err(e) => e,
    };
    let span = match e.location() {
        Some(l) => match (l.span().byte_offset(), l.span().byte_len()) {
            (Some(at), len) => {
                let at = at as usize;
                Span::new(file, at, at + (len.unwrap_or(1) as usize).max(1))
            }
            // the scanner's own errors tell line and column only
            (None, _) => {
                let at = offset(text, l.line() as usize, l.column() as usize);
                Span::new(file, at, at + 1)
            }
        },
        None => Span::new(file, 0, 1),
    };
    let (message, hint) = words(&e);
    let d = Diagnostic::error(message).at(&reader.sources, span);
    reader.diagnostics.push(match hint {
        Some(h) => d.hint(h),
        None => d,
    });
    None
}

/// Reads a document whose errors have been told.
pub(crate) fn read_quietly<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_saphyr::from_str(text).ok()
}

/// Where line and column (in characters, both from 1) are, in bytes; the text's end where it has no such place.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start = match line {
        0 | 1 => 0,
        _ => match text.match_indices('\n').nth(line - 2) {
            Some((at, _)) => at + 1,
            None => return text.len(),
        },
    };
    let rest = &text[start..];
    let within = rest.char_indices().nth(column.saturating_sub(1));
    start + within.map_or(rest.len(), |(at, _)| at)
}

/// The library's words, without the place that the diagnostic shows itself; its own where a user of chain files would
/// not understand.
fn words(e: &Error) -> (String, Option<&'static str>) {
    use serde_saphyr::budget::BudgetBreach as B;
    match e {
        Error::Budget { breach, .. } => match breach {
            B::Depth { .. } => ("lists and maps nested too deep".into(), None),
            B::Aliases { .. } | B::Anchors { .. } | B::MergeKeys { .. } => {
                ("too many anchors and aliases".into(), None)
            }
            _ => (
                "too many values in one file".into(),
                Some("long lists of rules go into files of their own: 'rules-file: NAME'"),
            ),
        },
        Error::AliasError { error, .. } | Error::WithSnippet { error, .. } => words(error),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            (format!("`{key}` is here for the second time"), None)
        }
        e => {
            let text = e.to_string();
            let text = text.split(" at line ").next().unwrap_or("").trim();
            let hint = text
                .contains("flow mapping")
                .then_some("within {}, values that contain [, ], {, } or a comma need quotes");
            (text.to_string(), hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let mut r = Reader::without_files();
        let file = r.sources.add("chain.yaml", text);
        assert!(read::<serde_json::Value>(text, file, &mut r).is_none());
        r.diagnostics.iter().map(|d| d.to_string()).collect()
    }

    #[test]
    fn errors_say_where() {
        for (text, place, what) in [
            (
                "a:\n  b: 1\nports: {lan: fw[0]}\n",
                "chain.yaml:3:",
                "flow mapping",
            ),
            ("a:\n\tb: 3\n", "chain.yaml:2:", "tabs"),
            ("a: 1\nb: 2\na: 2\n", "chain.yaml:3:1", "`a` is here"),
            ("ä: ö\nb: \"é\n", "chain.yaml:", "quoted"),
        ] {
            let said = wrong(text);
            assert!(said.contains(place) && said.contains(what), "{text}{said}");
        }
    }

    #[test]
    fn places_in_bytes() {
        let text = "ä\nöx\n";
        let all = [
            (1, 1, 0),
            (1, 2, 2),
            (2, 1, 3),
            (2, 2, 5),
            (2, 9, 7),
            (9, 1, 7),
            (0, 0, 0),
        ];
        for (line, column, at) in all {
            assert_eq!(offset(text, line, column), at, "{line}:{column}");
        }
    }

    #[test]
    fn bounds_are_said() {
        let deep = format!("a: {}1{}", "[".repeat(90), "]".repeat(90));
        assert!(wrong(&deep).contains("nested too deep"), "{}", wrong(&deep));
        let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..10 {
            let of = format!("*a{}", i - 1);
            laughs += &format!("a{i}: &a{i} [{}]\n", vec![of; 10].join(","));
        }
        assert!(wrong(&laughs).contains("too many"), "{}", wrong(&laughs));
    }
}
