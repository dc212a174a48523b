//! Rules in IPFilter's own language: `allow EXPRESSION` or `deny EXPRESSION`, one a line.

use super::rule::{Rule, RuleSet, Verdict};
use crate::kinds::connections::Asking;

/// Reads rules; errors are (line, message).
pub fn parse(text: &str) -> Result<RuleSet, Vec<(u32, String)>> {
    let mut set = RuleSet::default();
    let mut errors = Vec::new();
    for (i, raw) in text.lines().enumerate() {
        let line = i as u32 + 1;
        let l = raw
            .split_once('#')
            .map_or(raw, |(a, _)| a)
            .trim()
            .trim_end_matches(',')
            .trim();
        if l.is_empty() {
            continue;
        }
        match parse_rule(l) {
            Ok((verdict, filter)) => set.rules.push(Rule {
                verdict,
                filter,
                line,
                place: None,
                onward: None,
            }),
            Err(e) => errors.push((line, e)),
        }
    }
    if errors.is_empty() {
        Ok(set)
    } else {
        Err(errors)
    }
}

/// Words that a rule begins with.
const VERDICTS: [&str; 7] = ["allow", "accept", "pass", "permit", "deny", "drop", "block"];

/// One rule: its verdict and its expression.
pub fn parse_rule(l: &str) -> Result<(Verdict, String), String> {
    let (word, rest) = l.split_once(char::is_whitespace).unwrap_or((l, ""));
    let verdict = match word {
        "allow" | "accept" | "pass" | "permit" => Verdict::Allow,
        "deny" | "drop" | "block" => Verdict::Deny,
        _ => {
            let near = onefold_click::suggest::did_you_mean(word, VERDICTS);
            let near = near.map_or(String::new(), |n| format!(" ({n})"));
            return Err(format!(
                "`{word}`: expected 'allow' or 'deny' and a filter expression{near}"
            ));
        }
    };
    let filter = rest.trim();
    let asked = Asking::of(filter)?.without_questions();
    if asked.contains([',', '(']) && !balanced(&asked) {
        return Err(
            "commas and unbalanced parentheses cannot stand in a filter expression".to_string(),
        );
    }
    Ok((
        verdict,
        if filter.is_empty() {
            "all".to_string()
        } else {
            filter.to_string()
        },
    ))
}

/// Parentheses match and no comma ends the expression early.
fn balanced(s: &str) -> bool {
    let mut depth = 0i32;
    for c in s.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' => return false,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_rules() {
        let s =
            parse("# head\nallow src net 10.0.0.0/8 && tcp # web\n\ndeny (udp or icmp),\nallow\n")
                .unwrap();
        assert_eq!(s.rules.len(), 3);
        assert_eq!((s.rules[1].verdict, s.rules[1].line), (Verdict::Deny, 4));
        assert_eq!(s.rules[2].filter, "all");
        let e = parse("permit tcp\nfoo bar\nallow (tcp").unwrap_err();
        assert_eq!(e.iter().map(|x| x.0).collect::<Vec<_>>(), [2, 3]);
    }
}
