//! The text of input specifications: what a rewriter does with a packet that no mapping matches ([`InputSpec`]).

use super::pattern::parse_words;
use onefold_element::args::{ArgScope, FromArg, split_words};
use onefold_element::reason::Reason;
use onefold_element::{StateId, StateStore};
use onefold_nat::{InputSpec, PatternRef, PatternSet};

/// Classes whose elements may stand as an input specification.
pub(super) const MAPPER_CLASSES: [&str; 3] =
    ["RoundRobinIPMapper", "SourceIPHashMapper", "MaglevIPMapper"];

/// What a specification may refer to.
pub(super) struct SpecScope<'a> {
    pub args: ArgScope<'a>,
    pub classes: &'a [String],
    pub noutputs: usize,
    /// All sets of named patterns.
    pub named: &'a [StateId],
    /// Where patterns without a name go.
    pub set: StateId,
}

/// A number as Click's `IntArg` takes it.
fn int(s: &str, scope: &ArgScope<'_>) -> Option<i64> {
    i64::from_arg(s, scope).ok()
}

/// The words of `PATTERN FOUTPUT ROUTPUT`, or `NAME FOUTPUT ROUTPUT`; the outputs are not checked.
pub(super) fn parse_pattern(
    words: &[&str],
    scope: &SpecScope<'_>,
    store: &mut StateStore,
) -> Result<(PatternRef, i64, i64), String> {
    let [head @ .., f, r] = words else {
        return Err("expected a pattern, then forward and reply output".into());
    };
    let (f, r) = parse_outputs(f, r, &scope.args)?;
    let p = match head {
        [] => return Err("expected a pattern before the outputs".into()),
        [name] => PatternSet::find(store, scope.named, scope.args.element, name)
            .ok_or_else(|| format!("no pattern named '{name}' in any IPRewriterPatterns"))?,
        words => {
            let p = parse_words(words, &scope.args)?;
            PatternSet::add(store, scope.set, p)
        }
    };
    Ok((p, f, r))
}

fn parse_outputs(f: &str, r: &str, scope: &ArgScope<'_>) -> Result<(i64, i64), String> {
    let f = int(f, scope).ok_or_else(|| format!("bad forward output '{f}', expected a number"))?;
    let r = int(r, scope).ok_or_else(|| format!("bad reply output '{r}', expected a number"))?;
    Ok((f, r))
}

/// Reads a specification; `Err` says what is wrong with it.
pub(super) fn parse(
    text: &str,
    scope: &SpecScope<'_>,
    store: &mut StateStore,
) -> Result<InputSpec, String> {
    let words = split_words(text);
    let Some((first, rest)) = words.split_first() else {
        return Err(
            "empty input specification; expected drop, pass, keep, pattern or an element's name"
                .into(),
        );
    };
    let check = |o: i64| {
        usize::try_from(o)
            .ok()
            .filter(|o| *o < scope.noutputs)
            .ok_or_else(|| {
                format!(
                    "output {o} out of range, {} outputs are connected",
                    scope.noutputs
                )
            })
    };
    match *first {
        "drop" | "discard" => match rest {
            [] => Ok(InputSpec::Drop(None)),
            [text] if text.starts_with('"') => {
                let reason = Reason::from_arg(text, &scope.args).map_err(|why| {
                    why.unwrap_or_else(|| format!("expected {} after '{first}'", Reason::WANTS))
                })?;
                Ok(InputSpec::Drop(Some(reason.0)))
            }
            _ => Err(format!(
                "expected nothing after '{first}', or a reason in quotes"
            )),
        },
        "pass" | "passthrough" | "nochange" => match rest {
            [] => Ok(InputSpec::Pass(check(0)?)),
            [o] => {
                let o = int(o, &scope.args)
                    .ok_or_else(|| format!("expected '{first} [OUTPUT]', found '{o}'"))?;
                Ok(InputSpec::Pass(check(o)?))
            }
            _ => Err(format!("expected '{first} [OUTPUT]'")),
        },
        "keep" => match rest {
            [f, r] => {
                let (f, r) = parse_outputs(f, r, &scope.args)?;
                Ok(InputSpec::Keep(check(f)?, check(r)?))
            }
            _ => Err("expected 'keep FOUTPUT ROUTPUT'".into()),
        },
        "mapped" => match rest {
            [f, r] => {
                let (f, r) = parse_outputs(f, r, &scope.args)?;
                Ok(InputSpec::Mapped(check(f)?, check(r)?))
            }
            _ => Err("expected 'mapped FOUTPUT ROUTPUT'".into()),
        },
        "pattern" | "xpattern" => {
            let (p, f, r) = parse_pattern(rest, scope, store)?;
            Ok(InputSpec::Pattern(p, check(f)?, check(r)?))
        }
        name => {
            let found =
                onefold_element::find_element(scope.args.elements, scope.args.element, name);
            let Some(e) = found else {
                return Err(format!(
                    "unknown specification '{name}'; expected drop, pass, keep, pattern or an element's name"
                ));
            };
            let class = scope.classes.get(e.0 as usize).map_or("", String::as_str);
            if !MAPPER_CLASSES.contains(&class) {
                return Err(format!("element '{name}' ({class}) is not a mapper"));
            }
            if !rest.is_empty() {
                return Err(format!("expected nothing after the mapper '{name}'"));
            }
            Ok(InputSpec::Mapper(e))
        }
    }
}
