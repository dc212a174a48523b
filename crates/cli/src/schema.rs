//! JSON Schemas of what `--json` prints, made of the tables in docs/json.md, so that the page and the schemas cannot
//! say different things.
//!
//! A table's rows are keys: `` `a`, `b[]`? `` are two keys, of which `b` is an array, and neither is always there.
//! Where a description speaks of null, null is allowed. `a[].b` is a key of `a`'s elements. A table headed "key of a
//! ..." says what elements of an array of the section's first tables are (`PARTS`). A paragraph with "other keys" or
//! "the keys are" in front of a table begins another form of the object; behind any other paragraph that begins with
//! "With" the keys are those of an option.

use serde_json::{Map, Value, json};

/// The page.
const PAGE: &str = include_str!("../../../docs/json.md");

/// Names, how the page's headings begin, and the section whose keys are there, too.
const SECTIONS: &[(&str, &str, Option<&str>)] = &[
    ("ask", "`ask CHAIN", None),
    ("backend", "`reload`", None),
    ("bench", "`bench CHAIN", None),
    ("bench-experiment", "`bench --experiment", None),
    ("bench-live", "`bench live`", None),
    ("bench-sched", "`bench sched", None),
    ("check", "`check CHAIN", None),
    ("compare", "`compare kernel", None),
    ("diff", "`diff OLD", None),
    ("explain", "`explain CHAIN", None),
    ("gen", "`gen`", None),
    ("reload", "`reload`", None),
    ("route", "`reload`", None),
    ("rule", "`reload`", None),
    ("run", "`run CHAIN", None),
    ("scale", "`scale`", None),
    ("schedule", "`schedule`", None),
    ("show", "`show CHAIN", None),
    ("status", "`status`", Some("run")),
    ("trace", "`trace CHAIN", None),
    ("verify", "`verify CHAIN", None),
];

/// What tables "key of a NAME" are about: by schema and name, the array.
const PARTS: &[(&str, &str, &str)] = &[
    ("bench", "chain", "chains"),
    ("explain", "class", "classes"),
];

/// The chain file's schema has this name.
pub const CHAIN: &str = "chain";

/// All names, the chain file's first.
pub fn names() -> Vec<&'static str> {
    let all = SECTIONS.iter().map(|s| s.0);
    std::iter::once(CHAIN).chain(all).collect()
}

/// The schema of that name.
pub fn of(name: &str) -> Option<Value> {
    if name == CHAIN {
        return Some(onefold_chain::schema());
    }
    let (_, heading, more) = SECTIONS.iter().find(|s| s.0 == name)?;
    let mut forms = vec![Form::default()];
    if let Some(more) = more {
        let (_, heading, _) = SECTIONS.iter().find(|s| s.0 == *more)?;
        read(more, section(heading)?, &mut forms);
        // what a run says at its end may not be said of one that goes on
        forms = vec![Form {
            properties: std::mem::take(&mut forms.first_mut()?.properties),
            required: Vec::new(),
        }];
    }
    read(name, section(heading)?, &mut forms);
    let mut properties = Map::new();
    for f in &forms {
        for (k, v) in &f.properties {
            properties.entry(k).or_insert_with(|| v.clone());
        }
    }
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("onefold {} --json", name.replace('-', " ")),
        "type": "object",
        "properties": properties,
    });
    match &forms[..] {
        [one] => schema["required"] = one.required.as_slice().into(),
        all => {
            schema["anyOf"] = all
                .iter()
                .map(|f| json!({ "required": f.required }))
                .collect();
        }
    }
    Some(schema)
}

/// One form of an object.
#[derive(Debug, Clone, Default)]
struct Form {
    properties: Map<String, Value>,
    required: Vec<String>,
}

/// A section's text.
fn section(heading: &str) -> Option<&'static str> {
    let at = PAGE.find(&format!("\n## {heading}"))? + 1;
    let rest = PAGE.get(at..)?;
    let end = rest.get(2..)?.find("\n## ").map_or(rest.len(), |e| e + 2);
    rest.get(..end)
}

/// What the next table is about.
enum Table {
    /// The object; whether its keys are those of an option.
    Object(bool),
    /// Elements of this array of the object.
    Part(&'static str),
    /// Something that is no part of the schema.
    Other,
}

/// Reads a section's tables.
fn read(name: &str, text: &str, forms: &mut Vec<Form>) {
    let mut table = Table::Other;
    let mut typed = true;
    let mut paragraph = String::new();
    for line in text.lines() {
        let Some(row) = line.strip_prefix('|') else {
            match line.trim() {
                "" => {}
                text => {
                    paragraph.push_str(text);
                    paragraph.push(' ');
                }
            }
            continue;
        };
        // a bar in code is no border
        let cells: Vec<&str> = row
            .trim_end_matches('|')
            .split(" | ")
            .map(str::trim)
            .collect();
        let first = cells.first().copied().unwrap_or("");
        if first.starts_with("---") {
            continue;
        }
        if let Some(what) = first.strip_prefix("key") {
            let other = ["other keys", "the keys are"]
                .iter()
                .any(|t| paragraph.contains(t));
            if other {
                forms.push(Form::default());
            }
            let option = !other && paragraph.starts_with("With ");
            paragraph.clear();
            typed = cells.len() == 3;
            table = match what.strip_prefix(" of a ") {
                None => Table::Object(option),
                Some(part) => (PARTS.iter().find(|p| p.0 == name && p.1 == part))
                    .map_or(Table::Other, |p| Table::Part(p.2)),
            };
            continue;
        }
        let kinds = if typed {
            cells.get(1).copied().unwrap_or("")
        } else {
            ""
        };
        let what = cells.get(if typed { 2 } else { 1 }).copied().unwrap_or("");
        let row = Row::of(first, kinds, what);
        let Some(form) = forms.last_mut() else {
            continue;
        };
        match table {
            Table::Object(option) => row.add(&mut form.properties, &mut form.required, option),
            Table::Part(of) => {
                let array = form
                    .properties
                    .entry(of)
                    .or_insert_with(|| array(json!({})));
                let items = &mut array["items"];
                let mut properties = take(items, "properties");
                let mut required: Vec<String> =
                    (items["required"].as_array().into_iter().flatten())
                        .filter_map(|v| Some(v.as_str()?.to_string()))
                        .collect();
                row.add(&mut properties, &mut required, false);
                items["properties"] = properties.into();
                items["required"] = required.into();
            }
            Table::Other => {}
        }
    }
}

fn take(v: &mut Value, key: &str) -> Map<String, Value> {
    match v.get_mut(key).map(Value::take) {
        Some(Value::Object(m)) => m,
        _ => Map::new(),
    }
}

fn array(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// A row of a table.
struct Row<'a> {
    keys: Vec<&'a str>,
    kinds: Vec<&'a str>,
    what: &'a str,
    /// Not always there.
    sometimes: bool,
}

impl<'a> Row<'a> {
    fn of(keys: &'a str, kinds: &'a str, what: &'a str) -> Row<'a> {
        Row {
            keys: keys.split('`').skip(1).step_by(2).collect(),
            kinds: kinds.split(", ").collect(),
            what,
            sometimes: keys.ends_with('?'),
        }
    }

    fn add(&self, properties: &mut Map<String, Value>, required: &mut Vec<String>, option: bool) {
        for (i, path) in self.keys.iter().enumerate() {
            let kind = match self.kinds.len() == self.keys.len() {
                true => self.kinds.get(i),
                false => self.kinds.first(),
            };
            let name = path
                .split('.')
                .next()
                .unwrap_or(path)
                .trim_end_matches("[]");
            if !path.contains('.') && !self.sometimes && !option {
                required.push(name.to_string());
            }
            insert(properties, path, self.schema(kind.copied().unwrap_or("")));
        }
    }

    /// What one of the row's values is.
    fn schema(&self, kind: &str) -> Value {
        let null = self.what.contains("null");
        let kind = match kind.trim() {
            "bool" => "boolean",
            k => k,
        };
        let mut v = match kind {
            "spread" => {
                let n = json!({ "type": "number" });
                json!({ "type": "object", "properties": { "median": n, "min": n, "max": n } })
            }
            "boolean" | "integer" | "number" | "object" | "string" | "array" => {
                json!({ "type": kind })
            }
            _ => json!({}),
        };
        if (null || kind == "spread")
            && let Some(t) = v.get("type").cloned()
        {
            v["type"] = json!([t, "null"]);
        }
        if !self.what.is_empty() {
            v["description"] = self.what.into();
        }
        v
    }
}

/// Puts a key's schema where its path says.
fn insert(properties: &mut Map<String, Value>, path: &str, schema: Value) {
    let (here, rest) = match path.split_once('.') {
        Some((here, rest)) => (here, Some(rest)),
        None => (path, None),
    };
    let (name, is_array) = match here.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (here, false),
    };
    let Some(rest) = rest else {
        let whole = match is_array {
            false => schema,
            true => {
                let mut items = schema;
                let said = items.as_object_mut().and_then(|i| i.remove("description"));
                let mut all = array(Value::Null);
                if items["type"].is_array() {
                    // it is the whole that may be null
                    all["type"] = json!(["array", "null"]);
                    items["type"] = items["type"][0].take();
                }
                all["items"] = items;
                if let Some(said) = said {
                    all["description"] = said;
                }
                all
            }
        };
        properties.insert(name.to_string(), whole);
        return;
    };
    let of = properties.entry(name).or_insert_with(|| json!({}));
    let inner = match is_array {
        true => &mut of["items"],
        false => of,
    };
    let mut below = take(inner, "properties");
    insert(&mut below, rest, schema);
    inner["properties"] = below.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_a_schema() {
        for name in names() {
            let s = of(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(s["type"], "object", "{name}: {s}");
            assert!(
                s["properties"].as_object().unwrap().len() > 2,
                "{name}: {s}"
            );
        }
        assert_eq!(of("nothing"), None);
    }

    #[test]
    fn rows_are_read() {
        let mut properties = Map::new();
        let mut required = Vec::new();
        let rows = [
            ("`a`, `b[]`", "integer, object", "numbers; null: none"),
            ("`b[].c`", "spread", ""),
            ("`d`?", "", "what"),
        ];
        for (keys, kinds, what) in rows {
            Row::of(keys, kinds, what).add(&mut properties, &mut required, false);
        }
        assert_eq!(required, ["a", "b"]);
        assert_eq!(properties["a"]["type"], json!(["integer", "null"]));
        assert_eq!(properties["b"]["type"], json!(["array", "null"]));
        assert_eq!(
            properties["b"]["items"]["properties"]["c"]["type"],
            json!(["object", "null"])
        );
        assert_eq!(properties["d"], json!({ "description": "what" }));
    }
}
