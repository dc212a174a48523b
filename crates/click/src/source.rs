//! Source files, spans in them, and where a span is for the person who wrote it.
//!
//! A [`Span`] is a byte range of one file. [`SourceMap::locate`] turns it into a [`Location`]: file name, line
//! and column, honouring line directives (`# 12 "rules.txt"`), which generated configurations use to point
//! at the rule file that an argument came from.

use std::fmt;

/// The largest source file that is read, in bytes.
pub const MAX_SOURCE_BYTES: usize = 64 << 20;

/// How much of a line an [`Excerpt`] shows before and after the place it is about, in bytes.
const EXCERPT_CONTEXT: usize = 100;

/// A file of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

/// A byte range of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// The span of `start..end` in `file`.
    pub fn new(file: FileId, start: usize, end: usize) -> Span {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span {
            file,
            start: clamp(start),
            end: clamp(end.max(start)),
        }
    }

    /// The smallest span over both; `self` if they are in different files.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span {
            file: self.file,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Number of bytes.
    pub fn len(self) -> usize {
        (self.end.saturating_sub(self.start)) as usize
    }

    /// Whether the span has no bytes.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }
}

/// A place as people read it. Lines and columns count from 1; columns and length count characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Location {
    /// File name, as given to [`SourceMap::add`] or by a line directive.
    pub file: String,
    /// Line number.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// Number of characters, at least 1, to the end of the span or of its first line.
    pub length: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The text of the first line of a span, shortened around the span where the line is long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The text, one line without its end.
    pub text: String,
    /// Byte offset in `text` where the span starts.
    pub start: usize,
    /// Byte offset in `text` where the span ends, or the line does.
    pub end: usize,
}

/// A line directive: from `offset` on, lines count from `line` and belong to the file `name`.
#[derive(Clone, Debug)]
struct LineMark {
    offset: u32,
    line: u32,
    name: String,
}

#[derive(Clone, Debug)]
struct SourceFile {
    name: String,
    bytes: Vec<u8>,
    /// Offset of the first byte of every line.
    lines: Vec<u32>,
    /// Ascending by offset.
    marks: Vec<LineMark>,
    characters: Characters,
}

/// How many characters stand before an offset, without counting from the start: a configuration of one line may have a
/// million arguments, and each has a place.
#[derive(Clone, Debug)]
enum Characters {
    /// Every byte is one.
    Ascii,
    /// At the start of a character about every [`BLOCK`] bytes: its offset, and the characters before it.
    Blocks(Vec<(u32, u32)>),
}

/// See [`Characters`].
const BLOCK: usize = 4096;

impl Characters {
    fn of(bytes: &[u8]) -> Characters {
        if bytes.is_ascii() {
            return Characters::Ascii;
        }
        let mut blocks = vec![(0, 0)];
        let (mut at, mut count, mut next) = (0, 0, BLOCK);
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                if at >= next {
                    blocks.push((at as u32, count));
                    next = at + BLOCK;
                }
                at += c.len_utf8();
                count += 1;
            }
            at += chunk.invalid().len();
            count += chunk.invalid().len() as u32;
        }
        Characters::Blocks(blocks)
    }

    /// The characters in `bytes[..to]`.
    fn before(&self, bytes: &[u8], to: usize) -> u32 {
        match self {
            Characters::Ascii => to as u32,
            Characters::Blocks(blocks) => {
                let i = blocks.partition_point(|(at, _)| *at as usize <= to);
                let (at, count) = blocks.get(i.saturating_sub(1)).copied().unwrap_or_default();
                count + characters(bytes.get(at as usize..to).unwrap_or(&[]))
            }
        }
    }

    /// The characters in `bytes[from..to]`.
    fn between(&self, bytes: &[u8], from: usize, to: usize) -> u32 {
        self.before(bytes, to)
            .saturating_sub(self.before(bytes, from))
    }
}

impl SourceFile {
    fn line_index(&self, offset: u32) -> usize {
        self.lines
            .partition_point(|&start| start <= offset)
            .saturating_sub(1)
    }

    /// The bytes of a line, without the characters that end it.
    fn line_bytes(&self, index: usize) -> (usize, &[u8]) {
        let start = self.lines.get(index).map_or(0, |&s| s as usize);
        let end = self
            .lines
            .get(index + 1)
            .map_or(self.bytes.len(), |&s| s as usize);
        let mut line = self.bytes.get(start..end).unwrap_or(&[]);
        while let [rest @ .., b'\n' | b'\r'] = line {
            line = rest;
        }
        (start, line)
    }
}

/// The texts that configurations were read from.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// An empty map.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a text. Bytes beyond [`MAX_SOURCE_BYTES`] are left out (the parser reports that).
    pub fn add(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> FileId {
        let mut bytes = bytes.into();
        bytes.truncate(MAX_SOURCE_BYTES);
        let mut lines = vec![0];
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            if byte == b'\r' && bytes.get(at) == Some(&b'\n') {
                at += 1;
            }
            if byte == b'\n' || byte == b'\r' {
                lines.push(at as u32);
            }
        }
        let id = FileId(self.files.len() as u32);
        let characters = Characters::of(&bytes);
        self.files.push(SourceFile {
            name: name.into(),
            bytes,
            lines,
            marks: Vec::new(),
            characters,
        });
        id
    }

    fn get(&self, file: FileId) -> Option<&SourceFile> {
        self.files.get(file.0 as usize)
    }

    /// The bytes of a file.
    pub fn bytes(&self, file: FileId) -> &[u8] {
        self.get(file).map_or(&[], |f| &f.bytes)
    }

    /// The name of a file.
    pub fn name(&self, file: FileId) -> &str {
        self.get(file).map_or("", |f| &f.name)
    }

    /// Records a line directive: the line that contains `offset` has number `line` of the file `name`.
    /// Directives are recorded in ascending order of their offsets; others are ignored.
    pub fn add_line_mark(&mut self, file: FileId, offset: usize, line: u32, name: &str) {
        let Some(f) = self.files.get_mut(file.0 as usize) else {
            return;
        };
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        if f.marks.last().is_none_or(|last| last.offset < offset) {
            f.marks.push(LineMark {
                offset,
                line,
                name: name.to_owned(),
            });
        }
    }

    /// The file name and line number that hold at the start of `span`.
    pub fn line_of(&self, span: Span) -> (&str, u32) {
        let Some(f) = self.get(span.file) else {
            return ("", 0);
        };
        let index = f.line_index(span.start);
        match f
            .marks
            .partition_point(|m| m.offset <= span.start)
            .checked_sub(1)
            .and_then(|i| f.marks.get(i))
        {
            Some(mark) => {
                let since = index.saturating_sub(f.line_index(mark.offset));
                (&mark.name, mark.line.saturating_add(since as u32))
            }
            None => (&f.name, index as u32 + 1),
        }
    }

    /// Where `span` starts, for people.
    pub fn locate(&self, span: Span) -> Location {
        let (file, line) = self.line_of(span);
        let (mut column, mut length) = (1, 1);
        if let Some(f) = self.get(span.file) {
            let (start, bytes) = f.line_bytes(f.line_index(span.start));
            let from = (span.start as usize).saturating_sub(start).min(bytes.len());
            let to = (span.end as usize)
                .saturating_sub(start)
                .clamp(from, bytes.len());
            let count = |from, to| f.characters.between(&f.bytes, start + from, start + to);
            column = count(0, from) + 1;
            length = count(from, to).max(1);
        }
        Location {
            file: file.to_owned(),
            line,
            column,
            length,
        }
    }

    /// The line that `span` starts in.
    pub fn excerpt(&self, span: Span) -> Option<Excerpt> {
        let f = self.get(span.file)?;
        let (start, bytes) = f.line_bytes(f.line_index(span.start));
        let from = (span.start as usize).saturating_sub(start).min(bytes.len());
        let to = (span.end as usize)
            .saturating_sub(start)
            .clamp(from, bytes.len());
        let to = to.min(from + 2 * EXCERPT_CONTEXT);
        let first = boundary(bytes, from.saturating_sub(EXCERPT_CONTEXT));
        let last = boundary(bytes, (to + EXCERPT_CONTEXT).min(bytes.len()));
        let show = |range: &[u8]| {
            String::from_utf8_lossy(range).replace(|c: char| c.is_control() && c != '\t', " ")
        };
        let before = show(&bytes[first..from]);
        let inside = show(&bytes[from..to]);
        let after = show(&bytes[to.min(last)..last]);
        let (start, end) = (before.len(), before.len() + inside.len());
        Some(Excerpt {
            text: before + &inside + &after,
            start,
            end,
        })
    }
}

/// The number of characters in `bytes`, a byte that is not part of UTF-8 counting as one.
fn characters(bytes: &[u8]) -> u32 {
    let n: usize = bytes
        .utf8_chunks()
        .map(|c| c.valid().chars().count() + c.invalid().len())
        .sum();
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// `at`, moved back to where a character starts.
fn boundary(bytes: &[u8], at: usize) -> usize {
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&i| bytes.get(i).is_none_or(|b| b & 0xc0 != 0x80))
        .unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_far_into_a_long_line_are_characters() {
        for (piece, characters) in [("a,", 2), ("ä€,", 3), ("\u{1f600}x", 2)] {
            let mut text = b"first\n".to_vec();
            text.extend(piece.repeat(9000).bytes());
            text.push(0xff);
            text.extend(b"z");
            let mut map = SourceMap::new();
            let file = map.add("f", text.clone());
            for n in [0, 1, 1365, 1366, 2047, 2048, 2049, 4096, 8999, 9000] {
                let start = 6 + n * piece.len();
                let place = map.locate(Span::new(file, start, text.len()));
                assert_eq!(place.column as usize, n * characters + 1, "{piece} {n}");
                assert_eq!(place.length as usize, (9000 - n) * characters + 2);
            }
        }
    }

    #[test]
    fn lines_end_in_any_of_three_ways() {
        let mut map = SourceMap::new();
        let file = map.add("f", "a\nb\r\nc\rd");
        let at = |n| map.locate(Span::new(file, n, n + 1)).to_string();
        assert_eq!(
            [at(0), at(2), at(5), at(7)],
            ["f:1:1", "f:2:1", "f:3:1", "f:4:1"]
        );
    }

    #[test]
    fn line_marks_rename_and_renumber() {
        let mut map = SourceMap::new();
        let file = map.add("f", "one\n# 12 \"rules\"\ntwo\nthree");
        map.add_line_mark(file, 17, 12, "rules");
        let at = |n| map.locate(Span::new(file, n, n + 1)).to_string();
        assert_eq!(
            [at(0), at(17), at(22)],
            ["f:1:1", "rules:12:1", "rules:13:2"]
        );
    }

    #[test]
    fn columns_count_characters() {
        let mut map = SourceMap::new();
        let file = map.add("f", "\u{e9}\u{e9} x".as_bytes());
        let loc = map.locate(Span::new(file, 5, 6));
        assert_eq!((loc.column, loc.length), (4, 1));
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let mut map = SourceMap::new();
        let text = "y".repeat(10_000);
        let file = map.add("f", text.as_bytes());
        let excerpt = map.excerpt(Span::new(file, 5000, 5001)).unwrap();
        assert!(excerpt.text.len() < 400);
        assert_eq!(&excerpt.text[excerpt.start..excerpt.end], "y");
    }

    #[test]
    fn spans_beyond_the_end_are_harmless() {
        let mut map = SourceMap::new();
        let file = map.add("f", "x");
        assert_eq!(map.locate(Span::new(file, 70, 90)).line, 1);
        assert!(map.excerpt(Span::new(file, 70, 90)).is_some());
    }
}
