//! Values of parameters: from the command line, or a chain file's defaults.

use crate::error::Reader;
use crate::file::Parameter;
use crate::params;
use indexmap::IndexMap;
use onefold_click::diag::Diagnostic;
use onefold_click::source::{FileId, Span};
use onefold_click::suggest::did_you_mean;

/// The parameters that a chain file declares.
type Parameters = IndexMap<String, Parameter>;

/// The parameters' values; what is set on the command line (`set`) comes first, the last of one name. What is wrong is
/// told at the place `whole`.
pub(crate) fn of_parameters(
    parameters: &Parameters,
    set: &[(String, String)],
    whole: Span,
    reader: &mut Reader,
) -> Vec<(String, String)> {
    for (k, _) in set.iter().filter(|(k, _)| !parameters.contains_key(k)) {
        let known: Vec<&str> = parameters.keys().map(String::as_str).collect();
        let near = did_you_mean(k, known.iter().copied());
        let hint = near.unwrap_or(match known.is_empty() {
            true => "this chain has no parameters".to_string(),
            false => format!("its parameters are {}", known.join(", ")),
        });
        reader.error_hint(whole, format!("the chain has no parameter '{k}'"), hint);
    }
    let mut values: Vec<(String, String)> = Vec::new();
    for (name, p) in parameters {
        let given = set.iter().rev().find(|(k, _)| k == name);
        let given = given.map(|(_, v)| v.clone());
        if let Some(v) = value(name, p, given, whole, reader) {
            values.push((name.clone(), v));
        }
    }
    values
}

/// A parameter's value, given or its default.
fn value(
    name: &str,
    p: &Parameter,
    given: Option<String>,
    whole: Span,
    reader: &mut Reader,
) -> Option<String> {
    if !params::is_name(name) || name == "i" {
        reader.error(whole, format!("'{name}' cannot be a parameter's name"));
    }
    let Some(v) = given.or_else(|| p.default.as_ref().map(|d| d.to_string())) else {
        let what = p.description.as_deref();
        let what = what.map_or(String::new(), |d| format!(" ({d})"));
        let text = format!("parameter '{name}' has no value{what}");
        reader.error_hint(whole, text, format!("--set {name}=VALUE"));
        return None;
    };
    if v.len() > params::MAX_VALUE_LEN || v.contains(['\n', '\r']) {
        let text = format!("the value of parameter '{name}' is too long or has line breaks");
        reader.error(whole, text);
        return None;
    }
    if p.min.is_some() || p.max.is_some() {
        let (lo, hi) = (p.min.unwrap_or(i64::MIN), p.max.unwrap_or(i64::MAX));
        if !v.parse::<i64>().is_ok_and(|n| (lo..=hi).contains(&n)) {
            let text = format!("parameter '{name}' is '{v}', expected a number from {lo} to {hi}");
            reader.error(whole, text);
        }
    }
    Some(v)
}

/// Tells names in a text that look like parameters and are none.
pub(crate) fn tell_unresolved(
    text: &str,
    file: FileId,
    parameters: &Parameters,
    reader: &mut Reader,
) {
    for name in params::unresolved(text) {
        let at = text.find(&format!("$({name})")).unwrap_or(0);
        let near = did_you_mean(name, parameters.keys().map(String::as_str));
        let d = Diagnostic::error(format!("no parameter named '$({name})'"));
        let place = Span::new(file, at, at + name.len() + 3);
        let d = d.at(&reader.sources, place).maybe_hint(near);
        reader.diagnostics.push(d);
    }
}
