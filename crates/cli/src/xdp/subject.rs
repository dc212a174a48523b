//! The chain with its XDP programs in front, as a comparison sees it.

use super::{PortProgram, account};
use anyhow::{Result, bail};
use onefold_bpf::{Map, Program, Table};
use onefold_element::ElemId;
use onefold_engine::{DropCount, Graph, Totals};
use onefold_packet::Timestamp;
use onefold_verify::{Outputs, Reference, Subject};
use onefold_xdp_program::{Count, Generated, Verdict};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Who carries the code out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The kernel, by `BPF_PROG_TEST_RUN`.
    Kernel,
    /// The interpreter here, since the kernel does not, for this reason.
    Interpreter(String),
}

/// What was asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// Frames.
    pub frames: u64,
    /// Dropped early.
    pub dropped: u64,
    /// Dropped by the chain, these included.
    pub of: u64,
    /// Frames that the kernel does not take for this: shorter than 14 bytes, or longer than a page has room for. They
    /// pass.
    pub unasked: u64,
}

/// Code in the kernel.
struct Kernel {
    program: Program,
    counters: Map,
    /// Of each class: what had been counted when it was asked last.
    last: RefCell<Vec<Count>>,
}

enum Machine {
    Kernel(Kernel),
    Here,
}

/// The program of an entry, ready.
struct Gate {
    entry: ElemId,
    generated: Generated,
    machine: Machine,
}

/// See the module's text.
pub struct Early {
    inner: Reference,
    gates: Rc<Vec<Gate>>,
    /// Of programs that are carried out here, in the gates' order.
    tables: Vec<[Table; 2]>,
    told: Rc<Cell<Told>>,
}

impl Early {
    /// With programs that tell what they do.
    ///
    /// # Errors
    /// The kernel's verifier refuses one.
    pub fn new(graph: Graph, programs: Vec<PortProgram>) -> Result<(Early, Asked)> {
        let mut asked = Asked::Kernel;
        let mut gates = Vec::new();
        for p in programs {
            let machine = match &asked {
                Asked::Interpreter(_) => Machine::Here,
                Asked::Kernel => match load(&p.generated)? {
                    Ok(machine) => machine,
                    Err(why) => {
                        asked = Asked::Interpreter(why);
                        Machine::Here
                    }
                },
            };
            gates.push(Gate {
                entry: p.entry,
                generated: p.generated,
                machine,
            });
        }
        let early = Early {
            inner: Reference(graph),
            tables: gates.iter().map(|g| g.generated.tables()).collect(),
            gates: Rc::new(gates),
            told: Rc::default(),
        };
        Ok((early, asked))
    }

    /// What was asked, copies' frames included.
    pub fn told(&self) -> Rc<Cell<Told>> {
        Rc::clone(&self.told)
    }

    /// The class of a frame that is dropped, and what was counted of it.
    fn ask(&mut self, gate: usize, frame: &[u8]) -> Option<(u32, Count)> {
        let g = self.gates.get(gate)?;
        let tables = self.tables.get_mut(gate)?;
        let mut told = self.told.get();
        told.frames += 1;
        let answer = match &g.machine {
            Machine::Kernel(k) => match k.program.run(frame) {
                Ok(result) => Verdict::told(result),
                Err(_) => {
                    told.unasked += 1;
                    Some(Verdict::Pass(None))
                }
            },
            Machine::Here => g.generated.verdict(tables, frame).unwrap_or(None),
        };
        let class = match answer {
            Some(Verdict::Drop(class)) => Some(class),
            Some(Verdict::Pass(_)) => None,
            // no answer at all: a frame that is gone, which the chain will not agree with
            None => Some(u32::MAX),
        };
        told.dropped += u64::from(class.is_some());
        self.told.set(told);
        let class = class?;
        let count = match &g.machine {
            Machine::Kernel(k) => k.since(class),
            Machine::Here => {
                let count = g.generated.counted(tables, class);
                *tables = g.generated.tables();
                count
            }
        };
        Some((class, count))
    }

    /// A frame arrives. True: it was dropped early, and has been accounted for.
    fn dropped(&mut self, source: ElemId, frame: &[u8]) -> bool {
        let Some(gate) = self.gates.iter().position(|g| g.entry == source) else {
            return false;
        };
        let Some((class, count)) = self.ask(gate, frame) else {
            return false;
        };
        let class = (self.gates.get(gate)).and_then(|g| g.generated.classes.get(class as usize));
        class.is_none_or(|c| account(&mut self.inner.0, c, count))
    }
}

impl Kernel {
    /// What has been counted of a class since the last time.
    fn since(&self, class: u32) -> Count {
        let mut words = [0; Count::WORDS];
        if self.counters.read(class, &mut words).is_err() {
            return Count::default();
        }
        let now = Count::of(words);
        match self.last.borrow_mut().get_mut(class as usize) {
            Some(last) => now.since(std::mem::replace(last, now)),
            None => Count::default(),
        }
    }
}

impl Subject for Early {
    fn name(&self) -> &'static str {
        "xdp"
    }
    fn fork(&self) -> Box<dyn Subject> {
        Box::new(Early {
            inner: Reference(self.inner.0.fork()),
            gates: Rc::clone(&self.gates),
            tables: self.tables.clone(),
            told: Rc::clone(&self.told),
        })
    }
    fn inject(&mut self, source: ElemId, frames: &[&[u8]], at: Timestamp) {
        for f in frames {
            // what is due before it arrives takes place
            self.inner.advance(at);
            let before = self.inner.0.totals().dropped;
            if !self.dropped(source, f) {
                self.inner.inject(source, &[f], at);
            }
            let mut told = self.told.get();
            told.of += self.inner.0.totals().dropped - before;
            self.told.set(told);
        }
    }
    fn advance(&mut self, at: Timestamp) {
        self.inner.advance(at);
    }
    fn clear(&mut self, elem: ElemId) {
        self.inner.clear(elem);
    }
    fn outputs(&mut self, into: &mut Outputs) {
        self.inner.outputs(into);
    }
    fn drops(&self) -> Vec<DropCount> {
        self.inner.drops()
    }
    fn totals(&self) -> Totals {
        self.inner.totals()
    }
    fn state(&mut self) -> Vec<(String, String)> {
        self.inner.state()
    }
    fn keep_printed(&mut self) {
        self.inner.keep_printed();
    }
    fn printed(&mut self) -> String {
        self.inner.printed()
    }
    fn start_trace(&mut self) {
        self.inner.start_trace();
    }
    fn take_trace(&mut self) -> Vec<String> {
        self.inner.take_trace()
    }
}

/// `Ok(Err(why))`: there is no right to, or no way.
fn load(g: &Generated) -> Result<Result<Machine, String>> {
    let counters = match Map::counters(g.classes.len().max(1) as u32, Count::WORDS) {
        Ok(m) => m,
        Err(e) => return Ok(Err(e.to_string())),
    };
    let sockets = match Map::sockets(g.places.max(1)) {
        Ok(m) => m,
        Err(e) => return Ok(Err(e.to_string())),
    };
    match Program::load(&g.code, &[&counters, &sockets]) {
        Ok(program) => Ok(Ok(Machine::Kernel(Kernel {
            program,
            counters,
            last: RefCell::new(vec![Count::default(); g.classes.len()]),
        }))),
        Err(e) if e.log.is_empty() => Ok(Err(e.to_string())),
        Err(e) => bail!("{e}"),
    }
}
