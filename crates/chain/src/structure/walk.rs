//! A tree held against the schema.

use super::node::{Node, What};
use crate::file;
use onefold_click::source::{FileId, Span};
use onefold_click::suggest::did_you_mean;
use serde_json::{Map, Value};

/// Longest text of a value that is shown, in characters.
const MOST_SHOWN: usize = 40;

/// Something that is not as it should be.
#[derive(Debug)]
pub(super) struct Wrong {
    pub start: usize,
    pub len: usize,
    pub message: String,
    pub hint: Option<String>,
    /// Keys that lead there, the first two.
    pub way: Vec<String>,
}

impl Wrong {
    pub fn span(&self, file: FileId) -> Span {
        Span::new(file, self.start, self.start + self.len.max(1))
    }
}

/// All that is wrong, by place. `raw`: parameters have not been replaced, and may be anything.
pub(super) fn walk(text: &str, raw: bool, tree: &Node) -> Vec<Wrong> {
    let schema = file::schema();
    let mut w = Walk {
        text,
        raw,
        schema: &schema,
        wrong: Vec::new(),
        way: Vec::new(),
    };
    w.check(tree, &schema);
    let mut wrong = w.wrong;
    wrong.sort_by_key(|w| w.start);
    wrong
}

struct Walk<'a> {
    text: &'a str,
    raw: bool,
    schema: &'a Value,
    wrong: Vec<Wrong>,
    way: Vec<String>,
}

impl<'a> Walk<'a> {
    fn tell(&mut self, start: usize, len: usize, message: String, hint: Option<String>) {
        let way = self.way.iter().take(2).cloned().collect();
        self.wrong.push(Wrong {
            start,
            len,
            message,
            hint,
            way,
        });
    }

    /// A schema, or what it refers to. Definitions do not refer to each other in circles, and a circle ends here.
    fn resolve(&self, mut s: &'a Value) -> &'a Value {
        for _ in 0..16 {
            let name = s.get("$ref").and_then(Value::as_str);
            let Some(name) = name.and_then(|n| n.strip_prefix("#/$defs/")) else {
                break;
            };
            match self.schema.get("$defs").and_then(|d| d.get(name)) {
                Some(found) => s = found,
                None => break,
            }
        }
        s
    }

    /// What a schema allows one of.
    fn alternatives(&self, s: &'a Value) -> Vec<&'a Value> {
        let s = self.resolve(s);
        let of = |k: &str| s.get(k).and_then(Value::as_array);
        match of("anyOf").or(of("oneOf")) {
            Some(all) => all.iter().flat_map(|s| self.alternatives(s)).collect(),
            None => vec![s],
        }
    }

    /// As written in the text.
    fn source(&self, n: &Node) -> &'a str {
        self.text.get(n.start..n.start + n.len).unwrap_or("")
    }

    fn check(&mut self, n: &Node, schema: &'a Value) {
        let all = self.alternatives(schema);
        let fits = |kind: &str| all.iter().copied().find(|s| has_type(s, kind));
        match &n.what {
            What::Map(entries) => match fits("object") {
                Some(s) => self.check_map(n, entries, s),
                None => self.not_what_is_expected(n, &all),
            },
            What::List(items) => match fits("array") {
                Some(s) => {
                    let of = s.get("items");
                    for i in items {
                        if let Some(of) = of {
                            self.check(i, of);
                        }
                    }
                }
                None => self.not_what_is_expected(n, &all),
            },
            What::Null => {
                let object = fits("object");
                let empty = object.is_some_and(|s| required(s).next().is_none());
                if !(empty || fits("null").is_some() || fits("array").is_some()) {
                    match object {
                        Some(s) => self.check_map(n, &[], s),
                        None => self.not_what_is_expected(n, &all),
                    }
                }
            }
            What::Scalar => {
                let unknown = self.raw && self.source(n).contains("$(");
                if !unknown && !all.iter().any(|s| scalar_fits(self.source(n), s)) {
                    self.not_what_is_expected(n, &all);
                }
            }
        }
    }

    fn check_map(&mut self, n: &Node, entries: &[(super::node::Key, Node)], schema: &'a Value) {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let known: Vec<&str> = (properties.unwrap_or(&none).keys())
            .map(String::as_str)
            .collect();
        let others = schema.get("additionalProperties");
        for (i, (key, value)) in entries.iter().enumerate() {
            let name = &key.name;
            self.way.push(name.clone());
            let at = (key.start, name.len());
            if entries[..i].iter().any(|(k, _)| k.name == *name) {
                self.tell(
                    at.0,
                    at.1,
                    format!("`{name}` is here for the second time"),
                    None,
                );
            }
            match (properties.and_then(|p| p.get(name)), others) {
                (Some(s), _) => self.check(value, s),
                (None, Some(s)) if s.is_object() => self.check(value, s),
                (None, Some(Value::Bool(true)) | None) if known.is_empty() => {}
                _ => {
                    let hint = did_you_mean(name, known.iter().copied());
                    let hint = hint.unwrap_or_else(|| format!("keys here: {}", known.join(", ")));
                    self.tell(at.0, at.1, format!("unknown key `{name}`"), Some(hint));
                }
            }
            self.way.pop();
        }
        for r in required(schema) {
            if !entries.iter().any(|(k, _)| k.name == r) {
                let what = properties.and_then(|p| p.get(r));
                let what = what
                    .and_then(|p| p.get("description"))
                    .and_then(Value::as_str);
                let hint = what.map(|w| format!("{r}: {}", first_sentence(w)));
                let at = entries
                    .first()
                    .map_or(n.start, |(k, _)| k.start.min(n.start));
                self.tell(at, n.len, format!("key `{r}` is missing"), hint);
            }
        }
    }

    fn not_what_is_expected(&mut self, n: &Node, all: &[&Value]) {
        let found = match &n.what {
            What::Null => "found nothing".to_string(),
            What::List(_) => "found a list".to_string(),
            What::Map(_) => "found a map".to_string(),
            What::Scalar => String::new(),
        };
        let text = self.source(n);
        let shown: String = text.chars().take(MOST_SHOWN).collect();
        let mut names: Vec<String> = Vec::new();
        for s in all
            .iter()
            .filter(|s| s.get("type").is_none_or(|t| t != "null"))
        {
            let name = expected(s);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let list = match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            Some((last, _)) => last.clone(),
            None => "nothing".to_string(),
        };
        let words = names.iter().filter_map(|n| n.strip_prefix('`'));
        let words = words.filter_map(|n| n.strip_suffix('`'));
        let scalar = matches!(n.what, What::Scalar);
        let hint = scalar.then(|| did_you_mean(text, words)).flatten();
        let message = match scalar {
            true => format!("`{shown}`: expected {list}"),
            false => format!("expected {list}, {found}"),
        };
        self.tell(n.start, n.len, message, hint);
    }
}

fn first_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.find(". ").unwrap_or(line.len());
    line[..end].trim_end_matches('.').to_string()
}

fn required(s: &Value) -> impl Iterator<Item = &str> {
    let all = s.get("required").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str)
}

/// Does a schema allow values of a type?
fn has_type(s: &Value, kind: &str) -> bool {
    match s.get("type") {
        Some(Value::String(t)) => t == kind,
        Some(Value::Array(all)) => all.iter().any(|t| t == kind),
        _ => false,
    }
}

/// The words that a schema allows.
fn words(s: &Value) -> Vec<&str> {
    let all = s.get("enum").and_then(Value::as_array);
    let one = s.get("const").and_then(Value::as_str);
    let all = all.into_iter().flatten().filter_map(Value::as_str);
    all.chain(one).collect()
}

/// Does a schema allow what is written there? Numbers are read by the library, as they will be for good.
fn scalar_fits(text: &str, s: &Value) -> bool {
    let words = words(s);
    if !words.is_empty() {
        let word = serde_saphyr::from_str::<String>(text).unwrap_or_default();
        return words.contains(&word.as_str());
    }
    if has_type(s, "string") {
        return true;
    }
    let bound = |k: &str| s.get(k).and_then(Value::as_f64);
    let within = |n: f64| {
        n >= bound("minimum").unwrap_or(f64::NEG_INFINITY)
            && n <= bound("maximum").unwrap_or(f64::INFINITY)
    };
    let whole = || serde_saphyr::from_str::<i128>(text).is_ok_and(|n| within(n as f64));
    let number = || serde_saphyr::from_str::<f64>(text).is_ok_and(within);
    has_type(s, "integer") && whole()
        || has_type(s, "number") && number()
        || has_type(s, "boolean") && serde_saphyr::from_str::<bool>(text).is_ok()
}

/// What a schema wants, in words.
fn expected(s: &Value) -> String {
    let words = words(s);
    if !words.is_empty() {
        let all: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
        return all.join(", ");
    }
    let bound = |k: &str| s.get(k).and_then(Value::as_i64);
    let least = bound("minimum");
    let most = bound("maximum").or(match s.get("format").and_then(Value::as_str) {
        Some("uint32") => Some(i64::from(u32::MAX)),
        _ => None,
    });
    if has_type(s, "integer") {
        return match (least, most) {
            (Some(a), Some(b)) => format!("a number from {a} to {b}"),
            (Some(a), None) => format!("a whole number, at least {a}"),
            _ => "a whole number".to_string(),
        };
    }
    let known = [
        ("number", "a number"),
        ("boolean", "true or false"),
        ("array", "a list"),
        ("object", "a map"),
        ("string", "a text"),
    ];
    let found = known.iter().find(|(kind, _)| has_type(s, kind));
    found
        .map_or("something else", |(_, name)| *name)
        .to_string()
}
