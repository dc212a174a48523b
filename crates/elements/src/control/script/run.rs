//! Running a script's instructions.

use super::expand::{self, Reference};
use super::program::{Op, end_of};
use super::text::shift_word;
use super::{Script, Step, WAKE, arithmetic};
use onefold_element::args::{ArgScope, FromArg, Seconds, unquote};
use onefold_element::handler::{HandlerError, HandlerResult, parse_bool};
use onefold_element::{Cx, LogStream, NameDb};
use std::io::Write;

/// Jumps that a script may make without waiting; then it is disabled.
const MAX_JUMPS: u32 = 1000;

/// Status of a failed write handler in `$?`.
const FAILED: i32 = -22;

/// A failed call in the words that scripts' readers know from Click.
fn call_error(e: &HandlerError, write: bool) -> String {
    match e {
        HandlerError::NoSuchHandler(n) | HandlerError::WrongDirection(n, _) => {
            format!("no '{n}' {} handler", if write { "write" } else { "read" })
        }
        e => e.to_string(),
    }
}

pub(super) fn unquoted(s: &str) -> String {
    String::from_utf8_lossy(&unquote(s)).into_owned()
}

impl Script {
    /// Where the script stands, as an operation; ends that a `goto` leads to count as such.
    pub(super) fn ended_with(&self, what: impl Fn(&Op) -> bool) -> bool {
        match self.program.get(self.pos).map(|i| &i.op) {
            Some(Op::Goto(to)) => end_of(*to).is_some_and(|op| what(&op)),
            Some(op) => what(op),
            None => false,
        }
    }

    /// What the script returns.
    pub(super) fn result(&self) -> String {
        match self.program.get(self.pos).map(|i| &i.op) {
            Some(Op::Return { var, .. }) => {
                self.vars.get(*var).map_or(String::new(), |v| v.1.clone())
            }
            Some(Op::End) if self.is(super::Type::Packet) => "0".into(),
            Some(Op::Goto(-2)) if self.is(super::Type::Packet) => "0".into(),
            _ => String::new(),
        }
    }

    /// Substitutes variables and handler values.
    pub(super) fn expand(
        &mut self,
        text: &str,
        always_quote: bool,
        errors: &mut Vec<String>,
        cx: &mut Cx<'_>,
    ) -> String {
        expand::expand(text, always_quote, 0, &mut |name, kind| match kind {
            Reference::Variable => self.variable_value(name),
            Reference::Call => match self.read_any(name, false, cx) {
                Ok(v) => Some(v),
                Err((initialized, e)) => {
                    errors.push(call_error(&e, false));
                    initialized.then(String::new)
                }
            },
        })
    }

    fn variable_value(&self, name: &str) -> Option<String> {
        if let Some((_, v)) = self.vars.iter().find(|(n, _)| n == name) {
            return Some(v.clone());
        }
        Some(match name {
            "?" => self.write_status.to_string(),
            "args" => self.run_args.clone(),
            "$" => std::process::id().to_string(),
            "0" => self.run_handler.clone(),
            "#" => onefold_element::args::split_words(&self.run_args)
                .len()
                .to_string(),
            "write" => self.run_is_write.to_string(),
            _ => {
                let n: usize = name.parse().ok().filter(|n| *n > 0)?;
                let words = onefold_element::args::split_words(&self.run_args);
                words.get(n - 1).map_or(String::new(), |w| w.to_string())
            }
        })
    }

    /// The script's own read handlers.
    pub(super) fn read_own(&mut self, name: &str, param: &str, cx: &mut Cx<'_>) -> HandlerResult {
        match name {
            "run" => return self.control("run", param, false, cx),
            "get" | "shift" => {
                let (var, rest) = shift_word(param);
                let var = match (var, name) {
                    ("", "shift") => "args",
                    ("", _) => return Err(HandlerError::BadValue("no variable".into())),
                    _ => var,
                };
                if !rest.is_empty() {
                    return Err(HandlerError::BadValue("too many arguments".into()));
                }
                let slot = match var {
                    "args" => Some(&mut self.run_args),
                    _ => self
                        .vars
                        .iter_mut()
                        .find(|(n, _)| n == var)
                        .map(|v| &mut v.1),
                };
                let Some(slot) = slot else {
                    let m = format!("undefined variable '{var}'");
                    return Err(HandlerError::BadValue(m));
                };
                if name == "get" {
                    return Ok(slot.clone());
                }
                let (word, rest) = shift_word(slot);
                let (word, rest) = (word.to_string(), rest.to_string());
                *slot = rest;
                return Ok(word);
            }
            _ => {}
        }
        if let Some(r) = arithmetic::call(name, param, cx) {
            return r;
        }
        let exported = self.program.iter().find_map(|i| match &i.op {
            Op::Export { var, .. } => self.vars.get(*var).filter(|(n, _)| n == name),
            _ => None,
        });
        if let Some((_, v)) = exported {
            return Ok(v.clone());
        }
        if self.is(super::Type::Proxy) {
            return self.control(name, param, false, cx);
        }
        Err(HandlerError::NoSuchHandler(name.to_string()))
    }

    /// The handler of its own that a call means, if it means one.
    fn own_call(&self, name: &str, cx: &Cx<'_>) -> Option<String> {
        let is_own = |h: &str| {
            matches!(h, "get" | "shift" | "set" | "step" | "goto" | "run")
                || arithmetic::NAMES.contains(&h)
                || self.vars.iter().any(|(n, _)| n == h)
        };
        match name.split_once('.') {
            None => is_own(name).then(|| name.to_string()),
            Some((element, handler)) => {
                let e = cx.host.find_element(cx.elem, element)?;
                (e == cx.elem && is_own(handler)).then(|| handler.to_string())
            }
        }
    }

    /// Reads a handler: `"element.handler params"` or one of its own. An error says whether the handler exists.
    fn read_any(
        &mut self,
        call: &str,
        unquote_params: bool,
        cx: &mut Cx<'_>,
    ) -> Result<String, (bool, HandlerError)> {
        let (name, params) = shift_word(call);
        let name = unquoted(name);
        let params = match unquote_params {
            true => unquoted(params),
            false => params.to_string(),
        };
        if let Some(own) = self.own_call(&name, cx) {
            if matches!(own.as_str(), "run" | "step" | "goto") {
                let e = HandlerError::Busy(self.name.clone());
                return Err((false, e));
            }
            return self.read_own(&own, &params, cx).map_err(|e| (true, e));
        }
        let full = match params.is_empty() {
            true => name,
            false => format!("{name} {params}"),
        };
        let (out, store) = (&mut *cx.out, &mut *cx.store);
        let r = cx.host.read_handler(cx.elem, &full, out, store);
        r.map_err(|e| {
            let exists = !matches!(
                e,
                HandlerError::NoSuchElement(_)
                    | HandlerError::NoSuchHandler(_)
                    | HandlerError::WrongDirection(..)
            );
            (exists, e)
        })
    }

    /// `element.handler` as messages show it.
    fn call_name(&self, call: &str, cx: &Cx<'_>) -> String {
        let name = unquoted(shift_word(call).0);
        match self.own_call(&name, cx) {
            Some(own) => format!("{}.{own}", self.name),
            None => name,
        }
    }

    fn write_any(
        &mut self,
        call: &str,
        unquote_value: bool,
        errors: &mut Vec<String>,
        cx: &mut Cx<'_>,
    ) {
        let (name, value) = shift_word(call);
        let name = unquoted(name);
        let value = match unquote_value {
            true => unquoted(value),
            false => value.to_string(),
        };
        let r = match self.own_call(&name, cx).as_deref() {
            Some("set") => {
                let (var, text) = shift_word(&value);
                match var {
                    "args" => self.run_args = text.to_string(),
                    _ => self.set_var(var, text.to_string()),
                }
                Ok(())
            }
            // `step`, `goto`, `run` of itself: once it has finished
            _ => {
                let (out, store) = (&mut *cx.out, &mut *cx.store);
                cx.host.write_handler(cx.elem, &name, &value, out, store)
            }
        };
        self.write_status = match r {
            Ok(()) => 0,
            Err(
                e @ (HandlerError::NoSuchElement(_)
                | HandlerError::NoSuchHandler(_)
                | HandlerError::WrongDirection(..)),
            ) => {
                errors.push(call_error(&e, true));
                self.write_status
            }
            Err(e) => {
                errors.push(format!("While calling '{name}':\n  {e}"));
                FAILED
            }
        };
    }

    /// Sets the timer of the `wait` at `at`.
    pub(super) fn start_wait(&mut self, at: usize, errors: &mut Vec<String>, cx: &mut Cx<'_>) {
        let text = self
            .program
            .get(at)
            .map_or(String::new(), |i| i.text.clone());
        let text = self.expand(&text, false, errors, cx);
        let scope = ArgScope {
            names: NameDb::builtin(),
            element: "",
            elements: &[],
        };
        match Seconds::from_arg(text.trim(), &scope) {
            Ok(Seconds(t)) => cx.set_timer_after(WAKE, t),
            Err(_) => errors.push("syntax error at 'wait'".into()),
        }
    }

    fn print(
        &mut self,
        text: &str,
        newline: bool,
        unquote_params: bool,
        errors: &mut Vec<String>,
        cx: &mut Cx<'_>,
    ) {
        let mut text = text;
        let mut file: Option<(String, bool)> = None;
        if let Some(t) = text.strip_prefix('>') {
            let (append, t) = match t.strip_prefix('>') {
                Some(t) => (true, t),
                None => (false, t),
            };
            let (name, rest) = shift_word(t);
            text = rest;
            if !name.is_empty() && name != "-" {
                file = Some((name.to_string(), append));
            }
        }
        // like Click, the file is made even if there is nothing to print
        let mut sink = None;
        if let Some((name, append)) = file {
            let mut options = std::fs::OpenOptions::new();
            options
                .create(true)
                .write(true)
                .append(append)
                .truncate(!append);
            match options.open(&name) {
                Ok(f) => sink = Some(f),
                Err(e) => {
                    errors.push(format!("{name}: {}", super::os_error(&e)));
                    return;
                }
            }
        }
        let before = errors.len();
        let call = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_');
        let mut result = if call {
            let t = self.expand(text, false, errors, cx);
            match self.read_any(&t, unquote_params, cx) {
                Ok(v) => v,
                Err((true, e)) => {
                    errors.push(format!(
                        "While calling '{}':\n  {e}",
                        self.call_name(&t, cx)
                    ));
                    String::new()
                }
                Err((false, e)) => {
                    errors.push(call_error(&e, false));
                    String::new()
                }
            }
        } else {
            unquoted(&self.expand(text, true, errors, cx))
        };
        if errors.len() == before && newline && !result.ends_with('\n') {
            result.push('\n');
        }
        match sink {
            Some(mut f) => {
                if let Err(e) = f.write_all(result.as_bytes()) {
                    errors.push(super::os_error(&e));
                }
            }
            None => cx.host.write(LogStream::Stdout, result.as_bytes()),
        }
    }

    /// Takes `nsteps` steps past blocking instructions and runs until the next one.
    pub(super) fn step(
        &mut self,
        nsteps: i64,
        kind: Step,
        errors: &mut Vec<String>,
        cx: &mut Cx<'_>,
    ) {
        let target = nsteps.saturating_add(self.steps);
        let mut jumps = 0;
        while target >= self.steps && self.pos < self.program.len() && jumps < MAX_JUMPS {
            let at = self.pos;
            self.pos += 1;
            let (op, text) = (self.program[at].op.clone(), self.program[at].text.clone());
            match op {
                Op::Stop => {
                    self.steps += 1;
                    self.pos = at;
                    if kind != Step::Router {
                        cx.host.adjust_run_count(-1);
                    }
                    return;
                }
                Op::WaitStep => {
                    let i = &mut self.program[at];
                    while self.steps < target && i.done < i.count {
                        i.done += 1;
                        self.steps += 1;
                    }
                    if self.steps == target && i.done < i.count {
                        self.pos = at;
                        break;
                    }
                }
                Op::WaitTime => {
                    if self.steps == target {
                        let before = errors.len();
                        self.start_wait(at, errors, cx);
                        if errors.len() == before {
                            self.pos = at;
                        }
                        break;
                    }
                    self.steps += 1;
                    cx.clear_timer(WAKE);
                }
                Op::Initial => {
                    if self.program[at].count > 0 {
                        self.steps += 1;
                        self.program[at].count = 0;
                    }
                }
                Op::Save { append } => {
                    let (word, file) = shift_word(&text);
                    let file = if file.is_empty() { "-" } else { file };
                    let arrow = if append { ">>" } else { ">" };
                    let t = format!("{arrow}{file} {word}");
                    self.print(&t, true, false, errors, cx);
                }
                Op::Print { newline, unquote } => {
                    self.print(&text, newline, unquote, errors, cx);
                }
                Op::Read { unquote } => {
                    let t = self.expand(&text, false, errors, cx);
                    let name = self.call_name(&t, cx);
                    match self.read_any(&t, unquote, cx) {
                        Ok(v) => cx.chatter(&format!("{name}:\n{v}\n")),
                        Err((true, e)) => errors.push(format!("While calling '{name}':\n  {e}")),
                        Err((false, e)) => errors.push(call_error(&e, false)),
                    }
                }
                Op::Write { unquote } => {
                    let t = self.expand(&text, false, errors, cx);
                    self.write_any(&t, unquote, errors, cx);
                }
                Op::Set { var, unquote } | Op::Return { var, unquote } => {
                    let mut v = self.expand(&text, false, errors, cx);
                    if unquote {
                        v = unquoted(&v);
                    }
                    if let Some(slot) = self.vars.get_mut(var) {
                        slot.1 = v;
                    }
                    if matches!(op, Op::Return { .. }) && self.pos == at + 1 {
                        self.pos = at;
                        break;
                    }
                }
                Op::Goto(to) => {
                    let condition = self.expand(&text, false, errors, cx);
                    let condition = condition.trim();
                    let jump = match (condition.is_empty(), parse_bool(condition)) {
                        (true, _) => true,
                        (_, Ok(c)) => c,
                        (_, Err(_)) => {
                            errors.push(format!("bad condition '{condition}'"));
                            false
                        }
                    };
                    if jump && to < 0 {
                        self.pos = at;
                        if end_of(to) == Some(Op::Stop) && kind != Step::Router {
                            cx.host.adjust_run_count(-1);
                        }
                        return;
                    }
                    if jump {
                        let to = to as usize;
                        for i in self.program.iter_mut().take(at).skip(to) {
                            if i.op == Op::WaitStep {
                                i.done = 0;
                            }
                        }
                        self.pos = to;
                    }
                }
                Op::Error { unquote } => {
                    let mut m = self.expand(&text, false, errors, cx);
                    if unquote {
                        m = unquoted(&m);
                    }
                    if !m.is_empty() {
                        errors.push(m);
                    }
                    self.pos = at;
                    return;
                }
                Op::End | Op::Exit => {
                    self.pos = at;
                    return;
                }
                Op::Label | Op::Init { .. } | Op::Export { .. } => {}
            }
            if self.pos != at + 1 {
                jumps += 1;
            }
        }
        if jumps >= MAX_JUMPS {
            let m = format!(
                "{} :: {}: too many jumps, giving up\n",
                self.name, self.class
            );
            cx.chatter(&m);
            self.pos = self.program.len();
            cx.clear_timer(WAKE);
        }
        if kind == Step::Router {
            cx.host.adjust_run_count(1);
        }
    }
}
