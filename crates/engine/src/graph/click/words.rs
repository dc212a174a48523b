//! What Click says where Onefold says it in other words: whoever runs `onefold click` in Click's place, or a script of
//! theirs, knows these. Everything else is said as everywhere.

use onefold_click::diag::Diagnostic;

/// A message of the language, and what stands at the place of its note if it has one.
pub(super) fn of_language(d: &Diagnostic) -> (String, Option<String>) {
    let m = d.message.as_str();
    let quoted = |from: &str, to: &str| {
        let name = m.strip_prefix(from)?.strip_suffix(to)?;
        (!name.contains('\'')).then_some(name)
    };
    if let Some(name) = quoted("element '", "' is declared twice") {
        let note = format!("element '{name}' previously declared here");
        return (format!("redeclaration of element '{name}'"), Some(note));
    }
    if let Some(name) = quoted("'", "' is an element class, not a name for an element") {
        return (format!("class '{name}' used as element name"), None);
    }
    if let Some(found) = quoted("unexpected '", "'") {
        return (format!("syntax error near '{found}'"), None);
    }
    if let Some((outputs, inputs)) = m.split_once(" are connected to ")
        && outputs.ends_with("outputs")
    {
        let text = format!("connection mismatch: {outputs} connected to {inputs}");
        return (text, None);
    }
    let known = match m {
        "a connection can have one open port list at most" => {
            "at most one expandable port allowed per connection"
        }
        "connections of several ports to several ports are written '=>'" => {
            "syntax error: many-to-many connections require '=>'"
        }
        _ => {
            let expected = d.expected.as_ref().map(|e| format!(", expected {e}"));
            return (format!("{m}{}", expected.unwrap_or_default()), None);
        }
    };
    (known.to_string(), None)
}

/// What is said of an input specification of a rewriter: `input spec 0: bad source port`. `argument`: INPUTSPEC_1.
pub(super) fn of_input(argument: &str, message: &str) -> Option<String> {
    let n: usize = argument.strip_prefix("INPUTSPEC_")?.parse().ok()?;
    let (what, _) = message.strip_prefix("bad ")?.split_once(" '")?;
    Some(format!("input spec {}: bad {what}", n.checked_sub(1)?))
}

#[cfg(test)]
mod tests {
    use crate::graph::click::report;

    fn said(text: &str) -> String {
        match onefold_click::load(text.as_bytes(), "c", &[], &Default::default()) {
            Ok(g) => report::language(&g.warnings),
            Err(all) => report::language(&all),
        }
    }

    #[test]
    fn words_of_the_language() {
        for (text, wanted) in [
            (
                "a :: Idle;\na :: Idle;\n",
                "c:2: redeclaration of element 'a'\nc:1: element 'a' previously declared here\n",
            ),
            ("-> Null;", "c:1: syntax error near '->'\n"),
            (
                "a, b :: Idle;\na [0,1] => [0,1,2] b;",
                "c:2: connection mismatch: 2 outputs connected to 3 inputs\n",
            ),
            (
                "a, b :: Idle;\na [] => [] b;",
                "c:2: at most one expandable port allowed per connection\n",
            ),
            (
                "a, b :: Idle;\na [0,1] -> [0,1] b;",
                "c:2: syntax error: many-to-many connections require '=>'\n",
            ),
            (
                "elementclass C { A -> Idle }\nA :: Idle;",
                "c:2: class 'A' used as element name\n",
            ),
        ] {
            assert_eq!(said(text), wanted, "{text}");
        }
        // others stay as they are
        let all = onefold_click::load(b"q :: Idle(;", "c", &[], &Default::default()).unwrap_err();
        assert!(said("q :: Idle(;").contains(&all[0].message), "{all:?}");
    }

    #[test]
    fn words_of_input_specifications() {
        use super::of_input;
        let m = "bad source port '1x', expected a port, 'LOW-HIGH', 'LOW-HIGH#' or '-'";
        assert_eq!(
            of_input("INPUTSPEC_1", m).unwrap(),
            "input spec 0: bad source port"
        );
        assert_eq!(of_input("INPUTSPEC_0", m), None);
        assert_eq!(of_input("TIMEOUT", m), None);
        assert_eq!(of_input("INPUTSPEC_2", "two connected outputs"), None);
    }
}
