//! Arguments to parameters of compound element classes.

use crate::router::Router;
use crate::suggest::did_you_mean;
use crate::text::SrcText;

/// The values of the parameters of a compound class; `None` if the arguments do not fit.
pub(crate) fn assign(router: &Router, args: &[SrcText]) -> Option<Vec<SrcText>> {
    let formals = &router.formals;
    if formals.last().is_none_or(|f| f.keyword.is_none()) {
        return (args.len() == formals.len()).then(|| args.to_vec());
    }
    let rest = formals
        .last()
        .is_some_and(|f| f.keyword.as_deref() == Some("__REST__"));
    let named = formals.len() - usize::from(rest);
    let positional = formals
        .iter()
        .take(named)
        .take_while(|f| f.keyword.is_none())
        .count();
    let mut values: Vec<Option<SrcText>> = vec![None; named];
    let mut left_over = Vec::new();
    let (mut supplied, mut keywords) = (0, false);
    for arg in args {
        if supplied >= positional {
            let slot = arg.split_keyword().and_then(|(keyword, value)| {
                let slot = formals
                    .iter()
                    .take(named)
                    .position(|f| f.keyword.as_deref() == Some(keyword))?;
                Some((slot, value))
            });
            if let Some((slot, value)) = slot {
                keywords = true;
                if let Some(v) = values.get_mut(slot) {
                    *v = Some(value);
                }
                continue;
            }
            if keywords && !rest {
                return None;
            }
            if !keywords {
                supplied += 1;
            }
            left_over.push(arg);
        } else {
            if let Some(v) = values.get_mut(supplied) {
                *v = Some(arg.clone());
            }
            supplied += 1;
        }
    }
    if supplied > positional && !rest {
        return None;
    }
    let mut values: Vec<SrcText> = values.into_iter().collect::<Option<_>>()?;
    if rest {
        let mut joined = SrcText::default();
        for (i, arg) in left_over.into_iter().enumerate() {
            if i > 0 {
                joined.push_filler(", ");
            }
            joined.push(arg);
        }
        values.push(joined);
    }
    Some(values)
}

/// A class with its parameters and ports, for people.
pub(crate) fn signature(router: &Router) -> String {
    let formals: Vec<String> = router
        .formals
        .iter()
        .map(|f| match f.keyword.as_deref() {
            None => format!("${}", f.name),
            Some("__REST__") => "...".to_owned(),
            Some(keyword) => format!("{keyword} ${}", f.name),
        })
        .collect();
    let name = if router.name.is_empty() {
        "{...}"
    } else {
        &router.name
    };
    format!(
        "{name}({}) with {} and {}",
        formals.join(", "),
        count(router.ninputs, "input"),
        count(router.noutputs, "output")
    )
}

/// `1 input`, `2 inputs`
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Why the arguments do not fit.
pub(crate) fn misfit(router: &Router, args: &[SrcText]) -> Option<String> {
    let formals = &router.formals;
    let positional = formals.iter().take_while(|f| f.keyword.is_none()).count();
    let keywords: Vec<&str> = formals
        .iter()
        .filter_map(|f| f.keyword.as_deref())
        .filter(|&k| k != "__REST__")
        .collect();
    let rest = formals
        .last()
        .is_some_and(|f| f.keyword.as_deref() == Some("__REST__"));
    if args.len() < positional || (keywords.is_empty() && !rest) {
        let least = if rest { "at least " } else { "" };
        return Some(format!(
            "it takes {least}{}, {} given",
            count(positional, "argument"),
            args.len()
        ));
    }
    let given: Vec<&str> = args
        .iter()
        .skip(positional)
        .map(|a| a.split_keyword().map_or(a.as_str(), |(keyword, _)| keyword))
        .collect();
    let missing: Vec<&str> = keywords
        .iter()
        .copied()
        .filter(|k| !given.contains(k))
        .collect();
    let unknown = given.iter().find(|g| !keywords.contains(g));
    match (missing.as_slice(), unknown) {
        ([], Some(unknown)) => Some(format!("'{unknown}' is none of its keywords")),
        ([], None) => None,
        (missing, unknown) => {
            let near = unknown
                .filter(|_| !rest)
                .and_then(|u| did_you_mean(u, missing.iter().copied()));
            Some(near.map_or_else(
                || format!("{} is missing", missing.join(", ")),
                |near| {
                    format!(
                        "'{}' is none of its keywords, {near}",
                        unknown.unwrap_or(&"")
                    )
                },
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{LoadOptions, load};

    /// The configuration of `A` in a class with these parameters, or the hint why the arguments do not fit.
    fn fit(formals: &str, args: &str) -> String {
        let uses: Vec<String> = formals
            .split([',', ' '])
            .filter(|word| word.starts_with('$'))
            .map(|word| format!("<{word}>"))
            .collect();
        let text = format!(
            "elementclass C {{ {formals} | A({}) }} C({args})",
            uses.join("")
        );
        match load(text.as_bytes(), "c", &[], &LoadOptions::default()) {
            Ok(graph) => graph.elements[0].config.to_string(),
            Err(errors) => errors[0].hint.clone().unwrap_or_default(),
        }
    }

    #[test]
    fn arguments_by_place_and_by_name() {
        assert_eq!(fit("$a, $b", "1, 2"), "<1><2>");
        assert_eq!(fit("$a, K $k", "1, K 2"), "<1><2>");
        assert_eq!(fit("$a, K $k", "K 1, K 2"), "<K 1><2>");
        assert_eq!(fit("K $k, L $l", "L 1, K"), "<><1>");
        assert_eq!(
            fit("$a, K $k, __REST__ $r", "1, 2, K 3, 4, L 5"),
            "<1><3><2, 4, L 5>"
        );
        assert_eq!(fit("__REST__ $r", ""), "<>");
        assert_eq!(fit("__REST__ $r", "a, , \"b,c\""), "<a, , \"b,c\">");
    }

    #[test]
    fn arguments_that_do_not_fit() {
        assert_eq!(fit("$a, $b", "1"), "it takes 2 arguments, 1 given");
        assert_eq!(fit("$a", "1, 2"), "it takes 1 argument, 2 given");
        assert_eq!(
            fit("$a, __REST__ $r", ""),
            "it takes at least 1 argument, 0 given"
        );
        assert_eq!(fit("$a, K $k", "1"), "K is missing");
        assert_eq!(
            fit("RATE $r", "RAET 5"),
            "'RAET' is none of its keywords, did you mean 'RATE'?"
        );
        assert_eq!(fit("K $k", "K 1, L 2"), "'L' is none of its keywords");
        assert_eq!(fit("K $k", "5, K 1"), "'5' is none of its keywords");
    }
}
