//! Where a function runs, and what becomes of its packets when it has ended: `run`, `affinity`, `on-crash` and
//! `priority` of a chain file's functions, and the file's `interconnect` and `schedule`.

use crate::error::Reader;
use crate::file::{ChainFile, Function, Loc};
use crate::stitch::Chain;
use onefold_click::source::{FileId, Span};
use onefold_click::suggest::did_you_mean;
use onefold_sched::KNOWN;
use onefold_sched::spec::{Spec, SpecError};

/// Where a function runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Run {
    /// Merged with its neighbours that are inline, too, into one program.
    #[default]
    Inline,
    /// In a process of its own.
    Process,
    /// In a process of its own, in a network namespace of its own: it sees no interface of the host.
    Namespace,
    /// It is a black box: a program of somebody else's, in namespaces of its own.
    External,
}

impl Run {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Run::Inline => "inline",
            Run::Process => "process",
            Run::Namespace => "namespace",
            Run::External => "external",
        }
    }
}

/// What becomes of the packets of a function whose process has ended, until it is there again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnCrash {
    /// They wait: the chain fails closed.
    #[default]
    Wait,
    /// They pass the function by, from its port 0 to its port 1 and back: the chain fails open.
    Bypass,
}

impl OnCrash {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            OnCrash::Wait => "wait",
            OnCrash::Bypass => "bypass",
        }
    }
}

/// How functions in processes of their own are connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Interconnect {
    /// Rings in shared memory, from each process to the next one.
    #[default]
    Rings,
    /// Rings in shared memory, and a manager that forwards between them, as openNetVM has it.
    Manager,
    /// Pairs of virtual interfaces, back to back, between processes in namespaces.
    Veth,
    /// Virtual interfaces to Open vSwitch (its userspace datapath), which forwards between them.
    Ovs,
}

impl Interconnect {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Interconnect::Rings => "rings",
            Interconnect::Manager => "manager",
            Interconnect::Veth => "veth",
            Interconnect::Ovs => "ovs",
        }
    }

    /// Do packets go from process to process through interfaces of the kernel?
    pub fn is_wired(self) -> bool {
        matches!(self, Interconnect::Veth | Interconnect::Ovs)
    }
}

/// All that a chain file says of where a function runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Where.
    pub run: Run,
    /// The core that it is executed on; `None`: one is chosen.
    pub affinity: Option<u32>,
    /// See [`OnCrash`].
    pub on_crash: OnCrash,
    /// How much its load counts when cores are shared by load.
    pub priority: u32,
}

/// Most that a function's load counts.
const MOST_PRIORITY: u32 = 1000;

impl Default for Placement {
    fn default() -> Self {
        Placement {
            run: Run::default(),
            affinity: None,
            on_crash: OnCrash::default(),
            priority: 1,
        }
    }
}

/// Words of a key that mean something.
struct Words<T: 'static> {
    key: &'static str,
    known: &'static [(&'static str, T)],
}

const RUN: Words<Run> = Words {
    key: "run",
    known: &[
        ("inline", Run::Inline),
        ("process", Run::Process),
        ("namespace", Run::Namespace),
        ("external", Run::External),
    ],
};
const ON_CRASH: Words<OnCrash> = Words {
    key: "on-crash",
    known: &[("wait", OnCrash::Wait), ("bypass", OnCrash::Bypass)],
};
const INTERCONNECT: Words<Interconnect> = Words {
    key: "interconnect",
    known: &[
        ("rings", Interconnect::Rings),
        ("manager", Interconnect::Manager),
        ("veth", Interconnect::Veth),
        ("ovs", Interconnect::Ovs),
        // the word of earlier versions
        ("ring", Interconnect::Rings),
    ],
};

impl<T: Copy + Default> Words<T> {
    /// What a word means. Other words are told to the reader.
    fn read(&self, word: Option<&Loc<String>>, file: FileId, reader: &mut Reader) -> T {
        let Some(word) = word else {
            return T::default();
        };
        if let Some((_, meaning)) = self.known.iter().find(|k| k.0 == word.value) {
            return *meaning;
        }
        let span = Span::new(file, word.start, word.start + word.len.max(1));
        let known: Vec<&str> = self.known.iter().map(|k| k.0).collect();
        let list = known.join(", ");
        let (key, value) = (self.key, &word.value);
        let near = did_you_mean(value, known);
        let hint = near.unwrap_or_else(|| format!("one of: {list}"));
        reader.error_hint(span, format!("{key}: unknown word '{value}'"), hint);
        T::default()
    }
}

impl Placement {
    /// Reads it. Unknown words, and words that do not go with the function's kind, are told to the reader.
    pub(crate) fn of(f: &Function, file: FileId, reader: &mut Reader) -> Placement {
        let placement = Placement {
            run: run_of(f, file, reader),
            affinity: f.affinity.as_ref().map(|a| a.value),
            on_crash: ON_CRASH.read(f.on_crash.as_ref(), file, reader),
            priority: f.priority.as_ref().map_or(1, |p| p.value),
        };
        if let Some(p) = &f.priority
            && !(1..=MOST_PRIORITY).contains(&p.value)
        {
            let span = Span::new(file, p.start, p.start + p.len.max(1));
            reader.error(span, format!("priority must be from 1 to {MOST_PRIORITY}"));
        }
        let only_of_processes = [
            ("affinity", f.affinity.as_ref().map(|a| (a.start, a.len))),
            ("on-crash", f.on_crash.as_ref().map(|a| (a.start, a.len))),
            ("priority", f.priority.as_ref().map(|a| (a.start, a.len))),
        ];
        for (key, at) in only_of_processes {
            if let (Some((start, len)), Run::Inline) = (at, placement.run)
                && f.run.as_ref().is_none_or(|r| r.value == "inline")
            {
                let span = Span::new(file, start, start + len.max(1));
                let text = format!("{key} is of functions in processes of their own");
                reader.error_hint(span, text, "add 'run: process', or leave it out");
            }
        }
        placement
    }
}

/// Where a function runs, by its word and its kind.
fn run_of(f: &Function, file: FileId, reader: &mut Reader) -> Run {
    let read = RUN.read(f.run.as_ref(), file, reader);
    let (Some(word), kind) = (&f.run, (f.native.is_some(), f.external.is_some())) else {
        return match (&f.native, &f.external) {
            (_, Some(_)) => Run::External,
            (Some(_), None) => Run::Process,
            (None, None) => Run::Inline,
        };
    };
    let span = Span::new(file, word.start, word.start + word.len.max(1));
    let mut wrong = |text: &str, hint: &str, instead: Run| {
        reader.error_hint(span, text, hint);
        instead
    };
    match (kind, read) {
        ((_, true), Run::External) => Run::External,
        ((_, true), _) => wrong(
            "an external function is a black box, which runs in namespaces of its own",
            "leave 'run' out, or write 'run: external'",
            Run::External,
        ),
        ((true, _), Run::Inline) => wrong(
            "a native function is a program, which runs in a process of its own",
            "leave 'run' out, or write 'run: process'",
            Run::Process,
        ),
        (_, Run::External) => wrong(
            "run: external is for programs of others, which 'external' names",
            "write 'run: process', or 'external: { command: [...], ports: [...] }' in place of the kind",
            Run::Process,
        ),
        (_, run) => run,
    }
}

/// How processes are connected.
pub(crate) fn interconnect(doc: &ChainFile, file: FileId, reader: &mut Reader) -> Interconnect {
    INTERCONNECT.read(doc.interconnect.as_ref(), file, reader)
}

/// What cannot be connected so is told.
pub(crate) fn check(
    chain: &Chain,
    interconnect: Interconnect,
    doc: &ChainFile,
    file: FileId,
    reader: &mut Reader,
) {
    let Some(word) = doc
        .interconnect
        .as_ref()
        .filter(|_| interconnect.is_wired())
    else {
        return;
    };
    let span = Span::new(file, word.start, word.start + word.len.max(1));
    for f in &chain.functions {
        let (name, how) = (&f.name, interconnect.name());
        if f.native.is_some() {
            let text =
                format!("interconnect: {how}: {name} is a native function, which reads rings only");
            reader.error_hint(span, text, "write 'interconnect: rings'");
        }
        if f.placement.on_crash == OnCrash::Bypass {
            let text = format!("interconnect: {how}: {name} cannot be bypassed there");
            reader.error_hint(
                span,
                text,
                "write 'interconnect: rings', or 'on-crash: wait'",
            );
        }
    }
}

/// Reads how processes are to be scheduled; without any, that is nobody's wish.
pub(crate) fn schedule(
    doc: &ChainFile,
    processes: bool,
    file: FileId,
    reader: &mut Reader,
) -> Option<Spec> {
    let s = doc.schedule.as_ref()?;
    let span = Span::new(file, s.start, s.start + s.len.max(1));
    match s.value.parse::<Spec>() {
        Ok(spec) => {
            if !processes {
                let text = "schedule is for chains with functions in processes of their own";
                reader.error_hint(span, text, "add 'run: process' to some, or leave it out");
            }
            Some(spec)
        }
        Err(e) => {
            let names = KNOWN.iter().map(|k| k.name);
            let word = s.value.split(',').next().unwrap_or_default();
            let near =
                did_you_mean(word.trim(), names).filter(|_| matches!(e, SpecError::Name { .. }));
            let hint =
                near.unwrap_or_else(|| "onefold schedule list explains all policies".to_string());
            reader.error_hint(span, format!("schedule: {e}"), hint);
            None
        }
    }
}
