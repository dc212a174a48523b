//! From script text to instructions.

use super::text::shift_word;
use super::{Script, Type, format};
use onefold_element::args::Args;

/// What an instruction does. Variables are indices into the script's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    /// Stands before a first instruction that does not wait.
    Initial,
    WaitStep,
    WaitTime,
    Print {
        newline: bool,
        unquote: bool,
    },
    /// `save` and `append`: a handler's value into a file.
    Save {
        append: bool,
    },
    Read {
        unquote: bool,
    },
    Write {
        unquote: bool,
    },
    Set {
        var: usize,
        unquote: bool,
    },
    Init {
        var: usize,
        unquote: bool,
    },
    Export {
        var: usize,
        unquote: bool,
    },
    Return {
        var: usize,
        unquote: bool,
    },
    Label,
    /// To an instruction, or (negative) to one of the ends: see [`end_of`].
    Goto(i64),
    Exit,
    End,
    Stop,
    Error {
        unquote: bool,
    },
}

/// One instruction.
#[derive(Debug, Clone)]
pub(super) struct Insn {
    pub op: Op,
    pub text: String,
    /// `pause`: how many steps; the initial instruction: whether a step is to be taken off.
    pub count: u32,
    /// `pause`: steps taken so far.
    pub done: u32,
    /// Its place among the arguments.
    pub argument: usize,
}

/// The ends of a script that can be jumped to.
pub(super) fn end_of(to: i64) -> Option<Op> {
    Some(match to {
        -1 => Op::Exit,
        -2 => Op::End,
        -3 => Op::Stop,
        -4 => Op::Error { unquote: false },
        -5 => Op::Error { unquote: true },
        _ => return None,
    })
}

fn end_number(label: &str) -> Option<i64> {
    Some(match label {
        "exit" => -1,
        "end" => -2,
        "stop" => -3,
        "error" => -4,
        "errorq" => -5,
        _ => return None,
    })
}

impl Script {
    fn variable(&mut self, name: &str) -> usize {
        match self.vars.iter().position(|(n, _)| n == name) {
            Some(i) => i,
            None => {
                self.vars.push((name.to_string(), String::new()));
                self.vars.len() - 1
            }
        }
    }

    /// The instruction that a label means; negative for an end. `None` if there is no such label.
    pub(super) fn find_label(&self, label: &str) -> Option<i64> {
        let at = |i: &Insn| i.op == Op::Label && i.text == label;
        if let Some(i) = self.program.iter().position(at) {
            return Some(i as i64);
        }
        end_number(label).or(matches!(label, "begin" | "loop").then_some(0))
    }

    fn add(&mut self, argument: usize, op: Op, text: &str, count: u32) {
        let waits = matches!(op, Op::Initial | Op::WaitStep | Op::WaitTime);
        if self.program.is_empty() && !waits {
            self.add(argument, Op::Initial, "", 0);
        }
        self.program.push(Insn {
            op,
            text: text.to_string(),
            count,
            done: 0,
            argument,
        });
    }

    /// Compiles all arguments that are left. Errors go to `args`.
    pub(super) fn compile(&mut self, args: &mut Args<'_>) {
        self.program.clear();
        for (i, arg) in args.rest() {
            let (word, rest) = shift_word(arg);
            if word.is_empty() {
                continue;
            }
            if !self.compile_one(i, word, rest) {
                args.error_at(i, "INSTRUCTION", format!("syntax error at '{word}'"));
            }
        }
        let mut missing = Vec::new();
        for i in 0..self.program.len() {
            let (Op::Goto(_), false) = (&self.program[i].op, self.program[i].text.is_empty())
            else {
                continue;
            };
            let text = self.program[i].text.clone();
            let (label, condition) = shift_word(&text);
            match self.find_label(label) {
                Some(to) => {
                    self.program[i].op = Op::Goto(to);
                    self.program[i].text = condition.to_string();
                }
                None => missing.push((self.program[i].argument, label.to_string())),
            }
        }
        for (at, label) in missing {
            args.error_at(at, "goto", format!("no such label '{label}'"));
        }
        let last = args.len();
        let driver = self.is(Type::Driver);
        if self.program.is_empty() && driver {
            self.add(last, Op::WaitStep, "", 1);
        }
        self.add(last, if driver { Op::Stop } else { Op::End }, "", 0);
    }

    fn compile_one(&mut self, at: usize, word: &str, rest: &str) -> bool {
        let unquote = word.ends_with('q');
        match word {
            "pause" | "wait_step" | "wait_stop" => return self.compile_pause(at, rest),
            "wait" if rest.is_empty() => return self.compile_pause(at, rest),
            "wait" | "wait_for" | "wait_time" => self.add(at, Op::WaitTime, rest, 0),
            "write" | "writeq" => self.add(at, Op::Write { unquote }, rest, 0),
            "read" | "readq" => self.add(at, Op::Read { unquote }, rest, 0),
            "print" | "printq" | "printn" | "printnq" => {
                let newline = !word.starts_with("printn");
                self.add(at, Op::Print { newline, unquote }, rest, 0);
            }
            "save" => self.add(at, Op::Save { append: false }, rest, 0),
            "append" => self.add(at, Op::Save { append: true }, rest, 0),
            "goto" => self.add(at, Op::Goto(0), rest, 0),
            "loop" if rest.is_empty() => self.add(at, Op::Goto(0), "", 0),
            "return" | "returnq" => {
                let var = self.variable("_");
                self.add(at, Op::Return { var, unquote }, rest, 0);
            }
            "set" | "setq" | "init" | "initq" | "export" | "exportq" => {
                let (name, text) = shift_word(rest);
                if name.is_empty() || (word.starts_with("set") && text.is_empty()) {
                    return false;
                }
                let var = self.variable(name);
                let op = match word {
                    "set" | "setq" => Op::Set { var, unquote },
                    "init" | "initq" => Op::Init { var, unquote },
                    _ => Op::Export { var, unquote },
                };
                self.add(at, op, text, 0);
            }
            "label" => {
                let (name, more) = shift_word(rest);
                if name.is_empty() || !more.is_empty() {
                    return false;
                }
                self.add(at, Op::Label, name, 0);
            }
            "exit" if rest.is_empty() => self.add(at, Op::Exit, "", 0),
            "end" if rest.is_empty() => self.add(at, Op::End, "", 0),
            "stop" if rest.is_empty() => self.add(at, Op::Stop, "", 0),
            "error" | "errorq" => self.add(at, Op::Error { unquote }, rest, 0),
            _ => return false,
        }
        true
    }

    fn compile_pause(&mut self, at: usize, rest: &str) -> bool {
        let n = match rest.is_empty() {
            true => Some(1),
            false => format::integer(rest).and_then(|n| u32::try_from(n).ok()),
        };
        match n {
            Some(n) => self.add(at, Op::WaitStep, "", n),
            None => return false,
        }
        true
    }
}
