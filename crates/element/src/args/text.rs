//! Click's configuration strings. The language crate knows their rules; these are the forms that elements use.

use onefold_click::conf;

/// Splits a configuration string at its top-level commas; see [`conf::split_args`].
pub fn split_args(config: &str) -> Vec<String> {
    conf::split_args(config)
        .into_iter()
        .map(|a| a.text)
        .collect()
}

/// Splits at unquoted white space; quotes stay in the words. See [`conf::split_spaces`].
pub fn split_words(text: &str) -> Vec<&str> {
    conf::split_spaces(text)
}

/// Removes quotes and resolves escapes; see [`conf::unquote`].
pub fn unquote(text: &str) -> Vec<u8> {
    conf::unquote(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas() {
        assert_eq!(
            split_args("a, \"b,c\" , 'd,e' // f,g\n, /* h, */ i"),
            ["a", "\"b,c\"", "'d,e'", "i"]
        );
        assert_eq!(split_args(""), Vec::<String>::new());
        assert_eq!(split_args("a,,b,"), ["a", "", "b"]);
        assert_eq!(split_args("\\<00, 01>, x"), ["\\<00, 01>", "x"]);
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(
            split_words(" a  \"b c\"d 'e f' "),
            ["a", "\"b c\"d", "'e f'"]
        );
        assert_eq!(unquote(r#""a\tb\x41\101"c'\n'"#), b"a\tbAAc\\n");
        assert_eq!(unquote(r"\<00 ff /* x */ 1 2>z"), b"\x00\xff\x12z");
    }
}
