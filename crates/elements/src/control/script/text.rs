//! Words of script text.

use onefold_element::args::split_words;

/// Splits off the first word: the word, quotes and all, and the rest without the space between.
pub(super) fn shift_word(text: &str) -> (&str, &str) {
    let Some(word) = split_words(text).first().copied() else {
        return ("", "");
    };
    // the word is a part of the text
    let start = text.len() - text.trim_start().len();
    let end = start + word.len();
    (word, text.get(end..).unwrap_or("").trim_start())
}

#[cfg(test)]
mod tests {
    use super::shift_word;

    #[test]
    fn words_keep_their_quotes() {
        assert_eq!(shift_word("  a b  c "), ("a", "b  c "));
        assert_eq!(shift_word("\"x y\" z"), ("\"x y\"", "z"));
        assert_eq!(shift_word("   "), ("", ""));
        assert_eq!(shift_word("one"), ("one", ""));
    }
}
