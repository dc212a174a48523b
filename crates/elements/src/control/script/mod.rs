//! Script and DriverManager: instructions that set variables, call handlers, wait and stop the run.
//!
//! Click elements Script, DriverManager. Differences: `TYPE SIGNAL` is refused (the process's signals belong to the
//! command line), `kill` does nothing but fail. A script that is called while it is running is called again when it has
//! finished.

mod arithmetic;
mod expand;
mod format;
mod program;
mod run;
mod text;

use onefold_element::args::{AnyArg, Args};
use onefold_element::handler::{HandlerError, HandlerFlags, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Batching, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TimerId, element_any,
};
use onefold_packet::Pkt;
use program::{Insn, Op};

/// `Script`.
pub const SCRIPT: ElementClass = ElementClass {
    name: "Script",
    ports: "-/-",
    processing: "ah/ah",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "INSTRUCTION ... [, keyword TYPE]",
    summary: "a script: sets variables, calls handlers, waits, stops the run",
    new: || Box::new(Script::new(None)),
};

/// `DriverManager`.
pub const DRIVER_MANAGER: ElementClass = ElementClass {
    name: "DriverManager",
    summary: "a script that decides what happens when the run is asked to stop",
    new: || Box::new(Script::new(Some(Type::Driver))),
    ..SCRIPT
};

/// When a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Active,
    Driver,
    Passive,
    Proxy,
    Packet,
}

/// Why a step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Normal,
    /// The run has been asked to stop.
    Router,
    Timer,
    Jump,
}

#[derive(Debug, Clone)]
struct Script {
    kind: Option<Type>,
    program: Vec<Insn>,
    /// Variables in order of their first mention.
    vars: Vec<(String, String)>,
    pos: usize,
    steps: i64,
    write_status: i32,
    run_args: String,
    run_handler: String,
    run_is_write: bool,
    name: String,
    class: &'static str,
}

/// What the system says about an error, without the number that Rust adds.
fn os_error(e: &std::io::Error) -> String {
    let text = e.to_string();
    match text.find(" (os error") {
        Some(n) => text[..n].to_string(),
        None => text,
    }
}

/// The only timer: the end of a `wait`.
const WAKE: TimerId = 0;

impl Script {
    fn new(kind: Option<Type>) -> Self {
        Script {
            kind,
            program: Vec::new(),
            vars: Vec::new(),
            pos: 0,
            steps: 0,
            write_status: 0,
            run_args: String::new(),
            run_handler: String::new(),
            run_is_write: false,
            name: String::new(),
            class: match kind {
                Some(Type::Driver) => "DriverManager",
                _ => "Script",
            },
        }
    }

    fn is(&self, kind: Type) -> bool {
        self.kind == Some(kind)
    }

    fn set_var(&mut self, name: &str, value: String) {
        match self.vars.iter_mut().find(|(n, _)| n == name) {
            Some((_, v)) => *v = value,
            None => self.vars.push((name.to_string(), value)),
        }
    }

    /// Prints errors of a run that nobody asked for.
    fn report(&self, errors: Vec<String>, cx: &mut Cx<'_>) {
        if errors.is_empty() {
            return;
        }
        let mut text = format!("While executing '{} :: {}':\n", self.name, self.class);
        for e in errors {
            for line in e.lines() {
                text.push_str(&format!("  {line}\n"));
            }
        }
        cx.chatter(&text);
    }

    /// Runs a packet script; the port that the packet goes to.
    fn run_packet(&mut self, input: Port, cx: &mut Cx<'_>) -> Option<Port> {
        self.set_var("input", input.to_string());
        self.pos = 0;
        let mut errors = Vec::new();
        self.step(0, Step::Jump, &mut errors, cx);
        self.report(errors, cx);
        let out = self.result();
        format::int64(out.trim()).and_then(|p| usize::try_from(p).ok())
    }

    /// `step`, `goto` and `run`.
    fn control(
        &mut self,
        name: &str,
        value: &str,
        is_write: bool,
        cx: &mut Cx<'_>,
    ) -> HandlerResult {
        self.run_handler = name.to_string();
        self.run_is_write = is_write;
        let data = value.trim();
        let (steps, kind) = match name {
            "goto" => {
                let to = self.find_label(data);
                let Some(at) = to.filter(|t| *t >= 0).map(|t| t as usize) else {
                    return Err(HandlerError::BadValue("jump to nonexistent label".into()));
                };
                for i in self.program.iter_mut().skip(at) {
                    i.done = 0;
                }
                self.pos = at;
                (0, Step::Jump)
            }
            "step" => match data {
                "router" => (1, Step::Router),
                "" => (1, Step::Normal),
                _ => match format::int64(data).and_then(|n| i32::try_from(n).ok()) {
                    Some(n) => (i64::from(n), Step::Normal),
                    None => return Err(HandlerError::BadValue("syntax error".into())),
                },
            },
            // `run`, and everything else for a proxy
            _ => {
                self.pos = 0;
                self.run_args = value.to_string();
                (0, Step::Jump)
            }
        };
        let mut errors = Vec::new();
        self.step(steps, kind, &mut errors, cx);
        let result = self.result();
        let failed = self.ended_with(|op| matches!(op, Op::Error { .. }));
        self.run_handler.clear();
        self.run_is_write = false;
        if failed || !errors.is_empty() {
            self.run_args.clear();
            return Err(HandlerError::BadValue(errors.join("\n")));
        }
        Ok(result)
    }
}

impl Element for Script {
    fn batching(&self, _: Batching) -> Batching {
        Batching::Calls
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.name = cx.name.to_string();
        let has_ports = cx.ninputs > 0 || cx.noutputs > 0;
        if let Some(AnyArg(t)) = args.keyword("TYPE") {
            let kind = match t.trim() {
                "ACTIVE" => Some(Type::Active),
                "PASSIVE" => Some(Type::Passive),
                "PACKET" | "PUSH" => Some(Type::Packet),
                "PROXY" => Some(Type::Proxy),
                "DRIVER" => Some(Type::Driver),
                t if t.split_whitespace().next() == Some("SIGNAL") => {
                    args.error("TYPE: SIGNAL is not available; use DRIVER or ACTIVE");
                    None
                }
                t => {
                    args.error(format!(
                        "TYPE: expected ACTIVE, PASSIVE, PACKET, PROXY or DRIVER, found '{t}'"
                    ));
                    None
                }
            };
            self.kind = kind.or(self.kind);
        }
        let kind = *self.kind.get_or_insert(match has_ports {
            true => Type::Packet,
            false => Type::Active,
        });
        if kind == Type::Packet && cx.ninputs == 0 {
            args.error("PACKET script must have inputs");
        } else if kind != Type::Packet && has_ports {
            args.error("ports allowed only on PACKET scripts");
        }
        self.compile(args);
        args.finish()
    }

    fn started(&mut self, cx: &mut Cx<'_>) {
        let mut errors = Vec::new();
        for i in 0..self.program.len() {
            let (var, quoted) = match &self.program[i].op {
                Op::Init { var, unquote } | Op::Export { var, unquote } => (*var, *unquote),
                _ => continue,
            };
            let text = self.program[i].text.clone();
            let mut v = self.expand(&text, false, &mut errors, cx);
            if quoted {
                v = run::unquoted(&v);
            }
            if let Some(slot) = self.vars.get_mut(var) {
                slot.1 = v;
            }
        }
        if matches!(self.kind, Some(Type::Active | Type::Driver)) {
            match self.program.first().map(|i| &i.op) {
                Some(Op::WaitTime) => {
                    self.pos = 0;
                    self.start_wait(0, &mut errors, cx);
                }
                Some(Op::Initial) => {
                    if let Some(i) = self.program.first_mut() {
                        i.count = 1;
                    }
                    match self.is(Type::Driver) {
                        // asks to stop, so that the driver calls it right away
                        true => cx.host.adjust_run_count(-1),
                        false => cx.set_timer(WAKE, cx.now),
                    }
                }
                _ => {}
            }
        }
        self.report(errors, cx);
    }

    fn is_driver_script(&self) -> bool {
        self.is(Type::Driver)
    }

    fn driver_step(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut errors = Vec::new();
        self.step(1, Step::Router, &mut errors, cx);
        for e in errors {
            cx.chatter(&format!("{e}\n"));
        }
        !self.ended_with(|op| matches!(op, Op::Error { .. } | Op::Stop))
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("Script: runs its program for a packet")
    }
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        match self.run_packet(port, cx) {
            Some(to) => cx.emit_or_drop(to, p, "Script: dropped"),
            None => cx.drop(p, "Script: dropped"),
        }
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let p = cx.pull(0)?;
        match self.run_packet(0, cx) {
            Some(0) => return Some(p),
            Some(to) => cx.emit_or_drop(to, p, "Script: dropped"),
            None => cx.drop(p, "Script: dropped"),
        }
        None
    }

    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        let mut errors = Vec::new();
        self.step(1, Step::Timer, &mut errors, cx);
        self.report(errors, cx);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::w("step"),
            HandlerInfo::w("goto"),
            HandlerInfo::rw("run"),
            HandlerInfo::rp("add"),
            HandlerInfo::rp("sub"),
            HandlerInfo::rp("min"),
            HandlerInfo::rp("max"),
            HandlerInfo::rp("mul"),
            HandlerInfo::rp("div"),
            HandlerInfo::rp("idiv"),
            HandlerInfo::rp("mod"),
            HandlerInfo::rp("rem"),
            HandlerInfo::rp("neg"),
            HandlerInfo::rp("abs"),
            HandlerInfo::rp("eq"),
            HandlerInfo::rp("ne"),
            HandlerInfo::rp("gt"),
            HandlerInfo::rp("ge"),
            HandlerInfo::rp("lt"),
            HandlerInfo::rp("le"),
            HandlerInfo::rp("not"),
            HandlerInfo::rp("sprintf"),
            HandlerInfo::rp("first"),
            HandlerInfo::rp("random"),
            HandlerInfo::rp("and"),
            HandlerInfo::rp("or"),
            HandlerInfo::rp("nand"),
            HandlerInfo::rp("nor"),
            HandlerInfo::rp("if"),
            HandlerInfo::rp("in"),
            HandlerInfo::r("now"),
            HandlerInfo::rp("readable"),
            HandlerInfo::rp("writable"),
            HandlerInfo::rp("length"),
            HandlerInfo::rp("unquote"),
            HandlerInfo::rp("htons"),
            HandlerInfo::rp("htonl"),
            HandlerInfo::rp("ntohs"),
            HandlerInfo::rp("ntohl"),
            HandlerInfo::rp("cat"),
            HandlerInfo::rp("catq"),
            HandlerInfo::rp("kill"),
            HandlerInfo::rp("get"),
            HandlerInfo::w("set"),
            HandlerInfo::rp("shift"),
        ];
        H
    }

    fn dynamic_handlers(&self) -> Vec<(String, HandlerFlags)> {
        let exported = self.program.iter().filter_map(|i| match &i.op {
            Op::Export { var, .. } => self.vars.get(*var).map(|(n, _)| n.clone()),
            _ => None,
        });
        let mut all: Vec<(String, HandlerFlags)> =
            exported.map(|n| (n, HandlerFlags::Read)).collect();
        if self.is(Type::Proxy) {
            all.push(("*".into(), HandlerFlags::ReadWrite));
        }
        all
    }

    fn read(&mut self, name: &str, param: &str, cx: &mut Cx<'_>) -> HandlerResult {
        self.read_own(name, param, cx)
    }

    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "set" => {
                let (var, text) = text::shift_word(value);
                if var.is_empty() {
                    return Err(HandlerError::BadValue("no variable".into()));
                }
                match var {
                    "args" => self.run_args = text.to_string(),
                    _ => self.set_var(var, text.to_string()),
                }
                Ok(())
            }
            "step" | "goto" | "run" => self.control(name, value, true, cx).map(|_| ()),
            _ if self.is(Type::Proxy) => self.control(name, value, true, cx).map(|_| ()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests;
