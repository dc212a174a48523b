//! Text that remembers where each of its parts came from.

use crate::conf;
use crate::source::Span;
use std::fmt;
use std::ops::{Deref, Range};

/// `text[at..]`, up to the next piece, came from `src`: byte by byte if both have the same length, as a whole otherwise
/// (such as a value that had to be quoted).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    at: u32,
    src: Span,
}

/// A string with the source place of every part of it.
///
/// Configuration strings are of this type: after the parameters of compound elements are substituted, each argument
/// still knows the file and line it was written at.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SrcText {
    text: String,
    pieces: Vec<Piece>,
}

impl SrcText {
    /// An empty text that stands at `span`.
    pub fn empty_at(span: Span) -> SrcText {
        SrcText {
            text: String::new(),
            pieces: vec![Piece { at: 0, src: span }],
        }
    }

    /// `text`, as it was written at `span`.
    pub fn new(text: impl Into<String>, span: Span) -> SrcText {
        SrcText {
            text: text.into(),
            pieces: vec![Piece { at: 0, src: span }],
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// About how much memory it takes.
    pub(crate) fn weight(&self) -> usize {
        self.text.len() + self.pieces.len() * std::mem::size_of::<Piece>()
    }

    fn piece_end(&self, index: usize) -> usize {
        self.pieces
            .get(index + 1)
            .map_or(self.text.len(), |p| p.at as usize)
    }

    /// The pieces that have bytes in `range`, or for an empty range the piece it is in, as (range of the text, source).
    fn pieces_in(&self, range: Range<usize>) -> impl Iterator<Item = (Range<usize>, Span)> + '_ {
        let first = self
            .pieces
            .partition_point(|p| p.at as usize <= range.start)
            .saturating_sub(1);
        let wanted = range.clone();
        (first..self.pieces.len())
            .take_while(move |&i| {
                i == first
                    || self
                        .pieces
                        .get(i)
                        .is_some_and(|p| (p.at as usize) < wanted.end)
            })
            .filter_map(move |i| {
                let piece = self.pieces.get(i)?;
                let whole = piece.at as usize..self.piece_end(i);
                let part = whole.start.max(range.start)
                    ..whole.end.min(range.end).max(whole.start.max(range.start));
                let src = if whole.len() == piece.src.len() {
                    let start = piece.src.start as usize + (part.start - whole.start);
                    Span::new(piece.src.file, start, start + part.len())
                } else {
                    piece.src
                };
                Some((part, src))
            })
    }

    /// Where `range` of the text was written: its first part and what directly belongs to it.
    pub fn span_of(&self, range: Range<usize>) -> Option<Span> {
        let mut pieces = self.pieces_in(range).map(|(_, src)| src);
        let first = pieces.next()?;
        Some(
            pieces
                .take_while(|p| p.file == first.file && p.start >= first.end)
                .fold(first, Span::to),
        )
    }

    /// Where the text was written.
    pub fn span(&self) -> Option<Span> {
        self.span_of(0..self.text.len())
    }

    /// A part of the text. Offsets that are no character boundaries give an empty text.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> SrcText {
        let mut out = SrcText::default();
        out.push_slice(self, range);
        out
    }

    /// Appends a part of another text.
    pub fn push_slice(&mut self, other: &SrcText, range: Range<usize>) {
        let Some(text) = other.text.get(range.clone()) else {
            return;
        };
        if !self.text.is_empty() && text.is_empty() {
            return;
        }
        let base = self.text.len();
        for (part, src) in other.pieces_in(range.clone()) {
            self.push_piece(
                base + part.start.saturating_sub(range.start),
                part.len(),
                src,
            );
        }
        self.text.push_str(text);
    }

    /// Appends another text.
    pub fn push(&mut self, other: &SrcText) {
        self.push_slice(other, 0..other.text.len());
    }

    /// Appends a string that was written at `span`, perhaps in other letters.
    pub fn push_str(&mut self, text: &str, span: Span) {
        if !text.is_empty() {
            self.push_piece(self.text.len(), text.len(), span);
            self.text.push_str(text);
        }
    }

    /// Appends text that nobody wrote, such as the space that replaces a comment. It belongs to what is before it.
    pub(crate) fn push_filler(&mut self, text: &str) {
        let span = self.pieces.last().map(|p| p.src);
        match span {
            Some(src) => self.push_str(
                text,
                Span {
                    start: src.end,
                    ..src
                },
            ),
            None => self.text.push_str(text),
        }
    }

    fn push_piece(&mut self, at: usize, len: usize, src: Span) {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        if let Some(last) = self.pieces.last_mut() {
            let last_len = at.saturating_sub(last.at) as usize;
            if last_len == 0 {
                *last = Piece { at, src };
                return;
            }
            let exact = last_len == last.src.len() && len == src.len();
            if exact && last.src.file == src.file && last.src.end == src.start {
                last.src.end = src.end;
                return;
            }
        }
        self.pieces.push(Piece { at, src });
    }

    fn join(&self, parts: &[Range<usize>]) -> SrcText {
        let mut out = SrcText::default();
        for part in parts {
            if !out.text.is_empty() {
                out.push_filler(" ");
            }
            out.push_slice(self, part.clone());
        }
        out
    }

    /// The arguments, as [`conf::split_args`] splits them.
    pub fn split_args(&self) -> Vec<SrcText> {
        conf::arg_parts(&self.text)
            .iter()
            .map(|parts| self.join(parts))
            .collect()
    }

    /// The words, as [`conf::split_spaces`] splits them.
    pub fn split_spaces(&self) -> Vec<SrcText> {
        conf::word_ranges(&self.text)
            .into_iter()
            .map(|r| self.slice(r))
            .collect()
    }

    /// The first word and the rest, as [`conf::shift_word`] splits them.
    pub fn shift_word(&self) -> (SrcText, SrcText) {
        let (word, rest) = conf::shift_word_ranges(&self.text);
        (self.slice(word), self.slice(rest))
    }

    /// Keyword and value, as [`conf::split_keyword`] splits them.
    pub fn split_keyword(&self) -> Option<(&str, SrcText)> {
        let (keyword, value) = conf::keyword_ranges(&self.text)?;
        Some((self.text.get(keyword)?, self.slice(value)))
    }
}

impl Deref for SrcText {
    type Target = str;
    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for SrcText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for SrcText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl PartialEq<str> for SrcText {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for SrcText {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceMap;

    #[test]
    fn slices_keep_their_places() {
        let mut sources = SourceMap::new();
        let file = sources.add("f", "0123456789");
        let text = SrcText::new("3456", Span::new(file, 3, 7));
        assert_eq!(text.slice(1..3).span(), Some(Span::new(file, 4, 6)));
        assert_eq!(text.slice(1..1).span(), Some(Span::new(file, 4, 4)));
        let mut both = text.slice(0..2);
        both.push_str("xyz", Span::new(file, 0, 1));
        both.push(&text.slice(2..4));
        assert_eq!(both, "34xyz56");
        assert_eq!(both.span_of(3..4), Some(Span::new(file, 0, 1)));
        assert_eq!(both.span_of(6..7), Some(Span::new(file, 6, 7)));
        assert_eq!(both.slice(4..7).span_of(1..2), Some(Span::new(file, 5, 6)));
    }

    #[test]
    fn arguments_keep_their_places() {
        let conf = "a b, /* one */ c /* two */ d";
        let mut sources = SourceMap::new();
        let file = sources.add("f", conf);
        let args = SrcText::new(conf, Span::new(file, 0, conf.len())).split_args();
        assert_eq!((args[0].as_str(), args[1].as_str()), ("a b", "c d"));
        assert_eq!(args[1].span(), Some(Span::new(file, 15, 28)));
        assert_eq!(args[1].span_of(2..3), Some(Span::new(file, 27, 28)));
        assert_eq!(
            args[0].split_spaces()[1].span(),
            Some(Span::new(file, 2, 3))
        );
    }
}
