//! Parameters: `$(name)` in a chain file.
//!
//! They are substituted in the text, before it is read as YAML: a parameter can stand for a number as well as for a
//! part of a string. Only declared names are touched, so that `$(element.handler)` in an embedded Click script stays.

/// Longest value of a parameter, in bytes.
pub const MAX_VALUE_LEN: usize = 4096;
/// Most substitutions in one file.
pub const MAX_SUBSTITUTIONS: usize = 10_000;

/// Is this a parameter's name?
pub fn is_name(s: &str) -> bool {
    let mut b = s.bytes();
    b.next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == b'_')
        && b.all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

/// Replaces every `$(name)` whose name has a value. `Err` when there are more than [`MAX_SUBSTITUTIONS`].
pub fn substitute(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut n = 0;
    while let Some(i) = rest.find("$(") {
        let (before, from) = rest.split_at(i);
        out.push_str(before);
        let inner = &from[2..];
        let found = inner.find(')').and_then(|e| {
            let name = &inner[..e];
            if is_name(name) || matches!(name, "i+1" | "i-1") {
                value(name).map(|v| (v, e))
            } else {
                None
            }
        });
        match found {
            Some((v, e)) => {
                n += 1;
                if n > MAX_SUBSTITUTIONS {
                    return Err(format!("more than {MAX_SUBSTITUTIONS} parameters are used"));
                }
                out.push_str(&v);
                rest = &inner[e + 1..];
            }
            None => {
                out.push_str("$(");
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// The names in `$(name)` that are left in a text.
pub fn unresolved(text: &str) -> Vec<&str> {
    text.match_indices("$(")
        .filter_map(|(i, _)| {
            let inner = &text[i + 2..];
            let name = &inner[..inner.find(')')?];
            is_name(name).then_some(name)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_replaced() {
        let v = |n: &str| (n == "rules").then(|| "a.txt".to_string());
        assert_eq!(
            substitute("x $(rules) $(c.count) $(other) $(", v).unwrap(),
            "x a.txt $(c.count) $(other) $("
        );
        assert_eq!(unresolved("$(other) $(c.count) $(x"), ["other"]);
    }
}
