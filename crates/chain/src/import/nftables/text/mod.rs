//! nft's language, as files of it are written and as `nft list ruleset` prints it: made to what `nft -j list ruleset`
//! prints, which is then read.
//!
//! What is not known here is an error that names it. Chains, sets and maps are in the order of the file. Files that are
//! included are not read.

mod lexer;
mod statement;
#[cfg(test)]
mod tests;
mod value;

use lexer::{Placed, Token};
use serde_json::{Map, Value, json};

/// Most objects of a ruleset.
const MAX_OBJECTS: usize = 1_000_000;

type Wrong = (u32, String);
type Read<T> = Result<T, Wrong>;

/// A ruleset as objects, and the lines of its rules.
#[derive(Debug, Default)]
pub struct Ruleset {
    /// As in `{"nftables": [...]}`.
    pub objects: Vec<Value>,
    /// Of the rules among them, in order.
    pub lines: Vec<u32>,
    /// What is not quite as it was.
    pub warnings: Vec<String>,
}

/// An object and its line.
struct Object {
    kind: &'static str,
    body: Map<String, Value>,
    line: u32,
}

/// Reads a text; errors are (line, message).
///
/// # Errors
/// What is not known.
pub fn parse(text: &str) -> Result<Ruleset, Vec<Wrong>> {
    let tokens = lexer::tokens(text).and_then(lexer::defined);
    let mut p = Parser {
        tokens: tokens.map_err(|e| vec![e])?,
        at: 0,
        objects: Vec::new(),
        included: 0,
        errors: Vec::new(),
    };
    // Bound: each turn takes a token at least
    while !p.is_done() {
        let wrong = match p.objects.len() > MAX_OBJECTS {
            true => Some((p.line(), format!("more than {MAX_OBJECTS} objects"))),
            false => p.command().err(),
        };
        // what follows would be read in the wrong place
        if let Some(e) = wrong {
            p.errors.push(e);
            break;
        }
    }
    if !p.errors.is_empty() {
        return Err(p.errors);
    }
    let mut out = Ruleset::default();
    if p.included > 0 {
        out.warnings.push(format!(
            "{} lines include files by a pattern: these are not read",
            p.included
        ));
    }
    for o in p.objects {
        if o.kind == "rule" {
            out.lines.push(o.line);
        }
        out.objects.push(json!({ o.kind: Value::Object(o.body) }));
    }
    Ok(out)
}

struct Parser {
    tokens: Vec<Placed>,
    at: usize,
    objects: Vec<Object>,
    /// Lines that include what a pattern says.
    included: usize,
    /// What is wrong with rules so far.
    errors: Vec<Wrong>,
}

/// A table, a chain or a set: its family, table and name.
#[derive(Clone)]
struct Name {
    family: String,
    table: String,
    name: String,
}

impl Name {
    fn body(&self) -> Map<String, Value> {
        let mut m = Map::new();
        m.insert("family".into(), json!(self.family));
        m.insert("table".into(), json!(self.table));
        m.insert("name".into(), json!(self.name));
        m
    }
    fn is(&self, o: &Object) -> bool {
        let has = |k: &str, v: &str| o.body.get(k).is_some_and(|x| x == v);
        has("family", &self.family) && has("table", &self.table)
    }
}

impl Parser {
    fn is_done(&self) -> bool {
        self.at >= self.tokens.len()
    }
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |t| &t.0)
    }
    fn line(&self) -> u32 {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |t| t.1)
    }
    fn next(&mut self) -> Token {
        let t = self.peek().clone();
        self.at += 1;
        t
    }
    fn wrong<T>(&self, text: impl Into<String>) -> Read<T> {
        Err((self.line(), text.into()))
    }
    /// What stands there, for messages.
    fn shown(&self) -> String {
        match self.peek() {
            Token::Word(w) => format!("'{w}'"),
            Token::Text(t) => format!("\"{t}\""),
            Token::Sign(s) => format!("'{s}'"),
            Token::End => "the end of the line".into(),
        }
    }
    fn is_word(&self, w: &str) -> bool {
        matches!(self.peek(), Token::Word(t) if t == w)
    }
    fn is_sign(&self, s: &str) -> bool {
        matches!(self.peek(), Token::Sign(t) if *t == s)
    }
    /// Takes a word if it is this one.
    fn take(&mut self, w: &str) -> bool {
        let is = self.is_word(w);
        self.at += usize::from(is);
        is
    }
    fn take_sign(&mut self, s: &str) -> bool {
        let is = self.is_sign(s);
        self.at += usize::from(is);
        is
    }
    fn expect_sign(&mut self, s: &str) -> Read<()> {
        match self.take_sign(s) {
            true => Ok(()),
            false => self.wrong(format!("expected '{s}', found {}", self.shown())),
        }
    }
    /// A word, or what stands in quotes.
    fn name(&mut self, what: &str) -> Read<String> {
        match self.peek().clone() {
            Token::Word(w) => {
                self.at += 1;
                Ok(w)
            }
            Token::Text(t) => {
                self.at += 1;
                Ok(t)
            }
            _ => self.wrong(format!("expected {what}, found {}", self.shown())),
        }
    }
    fn number(&mut self, what: &str) -> Read<i64> {
        let found = self.name(what)?;
        let n = found.parse::<i64>();
        n.or_else(|_| {
            self.at -= 1;
            self.wrong(format!("expected {what}, found '{found}'"))
        })
    }
    fn skip_ends(&mut self) {
        // Bound: the tokens
        while !self.is_done() && *self.peek() == Token::End {
            self.at += 1;
        }
    }
    fn skip_line(&mut self) {
        // Bound: the tokens
        while !self.is_done() && *self.peek() != Token::End {
            self.at += 1;
        }
    }

    /// A line outside of tables.
    fn command(&mut self) -> Read<()> {
        self.skip_ends();
        if self.is_done() {
            return Ok(());
        }
        let line = self.line();
        if self.take("table") {
            return self.table();
        }
        if self.take("include") {
            return self.include(line);
        }
        let command = self.name("a command")?;
        let object = match command.as_str() {
            "add" | "create" | "insert" | "flush" | "delete" | "destroy" => {
                self.name("an object")?
            }
            _ => return Err((line, format!("command '{command}' is not supported"))),
        };
        match (command.as_str(), object.as_str()) {
            ("flush", "ruleset") => {
                self.objects.clear();
                Ok(())
            }
            ("flush" | "delete" | "destroy", "table") => {
                let (family, table) = self.table_name()?;
                let name = Name {
                    family,
                    table,
                    name: String::new(),
                };
                let all = command != "flush";
                self.objects
                    .retain(|o| !(name.is(o) && (all || o.kind == "rule")));
                Ok(())
            }
            ("flush", "chain") => {
                let name = self.full_name()?;
                let chain = |o: &Object| o.body.get("chain").is_some_and(|c| *c == name.name);
                self.objects
                    .retain(|o| !(o.kind == "rule" && name.is(o) && chain(o)));
                Ok(())
            }
            ("add" | "create", "table") => self.table(),
            ("add" | "create", "chain") => {
                let name = self.full_name()?;
                self.chain(&name)
            }
            ("add" | "create", "set") => {
                let name = self.full_name()?;
                self.set(&name, false)
            }
            ("add" | "create", "map") => {
                let name = self.full_name()?;
                self.set(&name, true)
            }
            ("add" | "insert", "rule") => {
                let name = self.full_name()?;
                self.added_rule(&name, command == "insert")
            }
            ("add" | "create", "element") => {
                let name = self.full_name()?;
                let elements = self.elements()?;
                self.add_elements(&name, elements)
            }
            _ => Err((
                line,
                format!("command '{command} {object}' is not supported"),
            )),
        }
    }

    /// A file, or a pattern, of which there may be none.
    fn include(&mut self, line: u32) -> Read<()> {
        let file = self.name("a file")?;
        if file.contains(['*', '?', '[']) {
            self.included += 1;
            return Ok(());
        }
        let text = format!("'{file}' is included: put what it says into this file");
        Err((line, text))
    }

    fn table_name(&mut self) -> Read<(String, String)> {
        let first = self.name("a table")?;
        match first.as_str() {
            "ip" | "ip6" | "inet" | "arp" | "bridge" | "netdev" => {
                Ok((first, self.name("a table")?))
            }
            _ => Ok(("ip".into(), first)),
        }
    }

    fn full_name(&mut self) -> Read<Name> {
        let (family, table) = self.table_name()?;
        let name = self.name("a name")?;
        Ok(Name {
            family,
            table,
            name,
        })
    }

    /// `FAMILY NAME { ... }`
    fn table(&mut self) -> Read<()> {
        let (family, table) = self.table_name()?;
        if !self.take_sign("{") {
            return Ok(());
        }
        // Bound: each turn takes a token at least
        loop {
            self.skip_ends();
            if self.is_done() {
                return self.wrong(format!("table '{table}' does not end: expected '}}'"));
            }
            if self.take_sign("}") {
                return Ok(());
            }
            let line = self.line();
            if self.take("include") {
                self.include(line)?;
                continue;
            }
            let mut kind = self.name("chain, set or map")?;
            if matches!(kind.as_str(), "comment" | "flags") {
                self.skip_statement();
                continue;
            }
            if kind == "ct" {
                kind = format!("ct {}", self.name("helper, timeout or expectation")?);
            }
            let name = Name {
                family: family.clone(),
                table: table.clone(),
                name: self.name("a name")?,
            };
            match kind.as_str() {
                "chain" => self.chain(&name)?,
                "set" => self.set(&name, false)?,
                "map" => self.set(&name, true)?,
                "flowtable" | "ct helper" | "ct timeout" | "ct expectation" | "counter"
                | "quota" | "limit" | "secmark" | "synproxy" => self.skip_block()?,
                other => return Err((line, format!("object '{other}' is not supported"))),
            }
        }
    }

    /// `{ ... }`, of which nothing counts.
    fn skip_block(&mut self) -> Read<()> {
        self.expect_sign("{")?;
        let mut depth = 1;
        // Bound: the tokens
        while depth > 0 {
            if self.is_done() {
                return self.wrong("a block does not end: expected '}'");
            }
            match self.next() {
                Token::Sign("{") => depth += 1,
                Token::Sign("}") => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// `[{ ... }]`, with a chain's hook, policy and rules.
    fn chain(&mut self, name: &Name) -> Read<()> {
        let line = self.line();
        let known = self.objects.iter().position(|o| {
            o.kind == "chain" && name.is(o) && o.body.get("name").is_some_and(|n| *n == name.name)
        });
        let at = known.unwrap_or(self.objects.len());
        if known.is_none() {
            self.objects.push(Object {
                kind: "chain",
                body: name.body(),
                line,
            });
        }
        if !self.take_sign("{") {
            return Ok(());
        }
        // Bound: each turn takes a token at least
        loop {
            self.skip_ends();
            if self.is_done() {
                return self.wrong(format!("chain '{}' does not end: expected '}}'", name.name));
            }
            if self.take_sign("}") {
                return Ok(());
            }
            if self.take("type") {
                let found = self.hook()?;
                if let Some(o) = self.objects.get_mut(at) {
                    o.body.extend(found);
                }
                continue;
            }
            if self.take("policy") {
                let policy = self.name("accept or drop")?;
                if let Some(o) = self.objects.get_mut(at) {
                    o.body.insert("policy".into(), json!(policy));
                }
                continue;
            }
            if self.is_word("comment") || self.is_word("flags") {
                self.skip_statement();
                continue;
            }
            let line = self.line();
            match self.rule() {
                Ok(rule) => self.objects.push(rule_object(name, rule, line)),
                Err(e) => {
                    self.errors.push(e);
                    self.skip_line();
                }
            }
        }
    }

    /// `filter hook input [device "x"] priority filter + 10`
    fn hook(&mut self) -> Read<Map<String, Value>> {
        let mut out = Map::new();
        out.insert("type".into(), json!(self.name("a type")?));
        if !self.take("hook") {
            return self.wrong("expected 'hook'");
        }
        out.insert("hook".into(), json!(self.name("a hook")?));
        if self.take("device") {
            self.name("an interface")?;
        }
        if self.take("devices") {
            self.expect_sign("=")?;
            self.skip_block()?;
        }
        if !self.take("priority") {
            return self.wrong("expected 'priority'");
        }
        out.insert("prio".into(), json!(self.priority()?));
        Ok(out)
    }

    /// `filter`, `-150`, `mangle + 1`, `raw - 5`; by a name at any hook, as newer versions of nft have it.
    fn priority(&mut self) -> Read<i64> {
        let first = self.name("a priority")?;
        let base = match first.as_str() {
            "raw" => -300,
            "mangle" => -150,
            "dstnat" => -100,
            "filter" => 0,
            "security" => 50,
            "srcnat" => 100,
            "out" => 100,
            n => match n.parse::<i64>() {
                Ok(n) => n,
                // "+10", "filter+10"
                Err(_) => return self.wrong(format!("priority '{n}'")),
            },
        };
        let by = if self.take("+") {
            self.number("a number")?
        } else if self.take("-") {
            -self.number("a number")?
        } else {
            match self.peek() {
                Token::Word(w) if w.starts_with(['+', '-']) => self.number("a number")?,
                _ => 0,
            }
        };
        Ok(base.saturating_add(by))
    }

    /// `[index N | handle N | position N] RULE`
    fn added_rule(&mut self, name: &Name, first: bool) -> Read<()> {
        let (line, mut index) = (self.line(), None);
        if self.take("index") {
            index = Some(self.number("a number")?);
        } else if self.is_word("handle") || self.is_word("position") {
            return self.wrong("rules at a handle or position are not supported: give 'index'");
        }
        let rule = rule_object(name, self.rule()?, line);
        let here = |o: &Object| {
            o.kind == "rule" && name.is(o) && o.body.get("chain").is_some_and(|c| *c == name.name)
        };
        let all: Vec<usize> = (0..self.objects.len())
            .filter(|i| self.objects.get(*i).is_some_and(here))
            .collect();
        let nth = match (index.map(usize::try_from), first) {
            (None, true) => Some(0),
            (None, false) => None,
            (Some(Ok(n)), first) if n < all.len() => Some(n + usize::from(!first)),
            _ => return Err((line, "there is no rule at this index".into())),
        };
        match nth.and_then(|n| all.get(n)) {
            Some(at) => self.objects.insert(*at, rule),
            None => match nth.and_then(|_| all.last()) {
                Some(last) => self.objects.insert(last + 1, rule),
                None => self.objects.push(rule),
            },
        }
        Ok(())
    }

    /// `{ type ...; flags ...; elements = { ... } }`
    fn set(&mut self, name: &Name, map: bool) -> Read<()> {
        let line = self.line();
        let mut body = name.body();
        body.insert("type".into(), json!(""));
        let mut flags: Vec<String> = Vec::new();
        self.expect_sign("{")?;
        // Bound: each turn takes a token at least
        loop {
            self.skip_ends();
            if self.is_done() {
                return self.wrong(format!("set '{}' does not end: expected '}}'", name.name));
            }
            if self.take_sign("}") {
                break;
            }
            let key = self.name("a property of the set")?;
            match key.as_str() {
                "flags" => {
                    flags.push(self.name("a flag")?);
                    while self.take_sign(",") {
                        flags.push(self.name("a flag")?);
                    }
                }
                "timeout" => {
                    body.insert("timeout".into(), json!(self.name("a time")?));
                    flags.push("timeout".into());
                }
                "elements" => {
                    self.expect_sign("=")?;
                    let elements = self.elements()?;
                    body.insert("elem".into(), Value::Array(elements));
                }
                "type" | "typeof" | "size" | "gc-interval" | "auto-merge" | "policy"
                | "comment" | "counter" => self.skip_statement(),
                other => {
                    return self.wrong(format!("'{other}' of set '{}' is not known", name.name));
                }
            }
        }
        if !flags.is_empty() {
            body.insert("flags".into(), json!(flags));
        }
        self.objects.push(Object {
            kind: if map { "map" } else { "set" },
            body,
            line,
        });
        Ok(())
    }

    fn add_elements(&mut self, name: &Name, elements: Vec<Value>) -> Read<()> {
        let is = |o: &&mut Object| {
            matches!(o.kind, "set" | "map")
                && name.is(o)
                && o.body.get("name").is_some_and(|n| *n == name.name)
        };
        let Some(o) = self.objects.iter_mut().find(is) else {
            return self.wrong(format!("there is no set '{}'", name.name));
        };
        let all = o.body.entry("elem").or_insert_with(|| json!([]));
        if let Some(all) = all.as_array_mut() {
            all.extend(elements);
        }
        Ok(())
    }
}

fn rule_object(name: &Name, expr: Vec<Value>, line: u32) -> Object {
    let mut body = Map::new();
    body.insert("family".into(), json!(name.family));
    body.insert("table".into(), json!(name.table));
    body.insert("chain".into(), json!(name.name));
    body.insert("expr".into(), Value::Array(expr));
    Object {
        kind: "rule",
        body,
        line,
    }
}
