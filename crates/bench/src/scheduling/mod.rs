//! Experiments with scheduling of functions in processes: what the papers on it have measured, as data.
//!
//! An [`Experiment`] says which functions there are, what they cost, which chains pass them under which load
//! ([`Setting`]), which policies are compared ([`Run`]), what is told of them, what the papers report, what had to
//! shrink, and which lines are to hold ([`Line`]). One harness (the command `onefold bench sched`) runs them all;
//! [`Results`] is what it has measured.
//!
//! To add one: a `pub const` in a file here, and a line in [`ALL`].
//!
//! ```
//! use onefold_bench::scheduling::ALL;
//! for e in ALL {
//!     assert!((e.settings)(true).iter().all(|s| !s.runs.is_empty()), "{}", e.name);
//! }
//! ```

mod fabrics;
mod lengths;
mod nfvnice;
mod nfvnice_io;
mod nfvnice_shares;
mod nfvnice_sweeps;
mod niu;
pub mod own;
mod results;
mod scc;
mod unis;
mod unis_rings;

pub use results::{Cell, Figures, Line, Results};

/// All of them, in the order in which they are listed.
pub const ALL: &[&Experiment] = &[
    &nfvnice_shares::KERNEL,
    &nfvnice::LINE,
    &nfvnice::CORES,
    &nfvnice::SHARED,
    &nfvnice::THROTTLE,
    &nfvnice::VARIABLE,
    &nfvnice::ORDERS,
    &nfvnice::FLOWS,
    &nfvnice_io::TCP,
    &nfvnice_io::STORAGE,
    &nfvnice_shares::STEP,
    &nfvnice_shares::JAIN,
    &nfvnice_sweeps::LENGTHS,
    &nfvnice_sweeps::WATERMARKS,
    &unis::SLICES,
    &unis::LENGTHS,
    &unis::LATENCY,
    &unis::MIXED,
    &unis::COLOCATED,
    &unis::BATCHES,
    &unis::OCCUPANCY,
    &unis_rings::SLICES,
    &fabrics::SWITCHED,
    &scc::ROUTERS,
    &lengths::MERGED,
    &fabrics::FABRICS,
    &niu::CHAINS,
    &niu::COLOCATED,
];

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|e| e.name == name).copied()
}

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it shows, and how.
    pub shows: &'static str,
    /// What is smaller than in the paper, and why the conclusion stands.
    pub shrunk: &'static str,
    /// What others report: where, and what.
    pub published: &'static [(&'static str, &'static str)],
    /// What is swept.
    pub axis: &'static str,
    /// What is plotted: a figure by its name ([`Results`]).
    pub plot: &'static str,
    /// What is told, besides.
    pub columns: &'static [&'static str],
    /// What is run; a part of it that shows the same if only seconds are to be spent.
    pub settings: fn(quick: bool) -> Vec<Setting>,
    /// What is to hold.
    pub lines: fn(&Results) -> Vec<Line>,
}

/// What a function does with packets.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Nothing but cost ticks of the time stamp counter (`onefold burn`).
    Burn {
        /// For each packet; several: one after the other, or by chance.
        cycles: Vec<u64>,
        /// For each of its bytes, besides.
        per_byte: f64,
        /// By chance.
        random: bool,
        /// It sleeps for so long instead: it stands for a function on a core that there is not.
        asleep: bool,
        /// Packets of this chain are written to a file, by their place in [`Setting::chains`].
        logs: Option<usize>,
    },
    /// A full IP router with ten routes.
    Router,
    /// One of the examples' configurations in Click's language: its text.
    Click(&'static str),
}

/// A function.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it does.
    pub work: Work,
}

impl Function {
    /// Costs so much.
    pub fn burn(name: impl Into<String>, cycles: &[u64]) -> Function {
        let work = Work::Burn {
            cycles: cycles.to_vec(),
            per_byte: 0.0,
            random: cycles.len() > 1,
            asleep: false,
            logs: None,
        };
        let name = name.into();
        Function { name, work }
    }

    /// Takes so long, and no core.
    pub fn asleep(name: impl Into<String>, cycles: u64) -> Function {
        let work = Work::Burn {
            cycles: vec![cycles],
            per_byte: 0.0,
            random: false,
            asleep: true,
            logs: None,
        };
        let name = name.into();
        Function { name, work }
    }

    /// Costs so much, and writes packets of a chain to a file.
    pub fn logger(name: impl Into<String>, cycles: u64, chain: usize) -> Function {
        let work = Work::Burn {
            cycles: vec![cycles],
            per_byte: 0.0,
            random: false,
            asleep: false,
            logs: Some(chain),
        };
        let name = name.into();
        Function { name, work }
    }
}

/// How many packets come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// So many a second.
    Pps(u64),
    /// A share of what comes out under the setting's first policy with far more coming.
    Share(f64),
    /// As many as a TCP connection brings through, between two hosts at network interfaces; where a number is given, of
    /// so many million bits a second that one of them has to send at most.
    Tcp(Option<u32>),
}

/// Packets that pass functions.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// Its name: that of the port where they enter is `in-NAME`.
    pub name: String,
    /// The functions, by their place in [`Setting::functions`], each of them once.
    pub via: Vec<usize>,
    /// How many.
    pub load: Load,
    /// Bytes of their frames, without check sequence: one of them after the other.
    pub sizes: &'static [u16],
}

/// Sizes of frames: 64 bytes with their check sequence.
pub const SMALL: &[u16] = &[60];

impl Chain {
    /// Small packets.
    pub fn new(name: impl Into<String>, via: impl IntoIterator<Item = usize>, pps: u64) -> Chain {
        Chain {
            name: name.into(),
            via: via.into_iter().collect(),
            load: Load::Pps(pps),
            sizes: SMALL,
        }
    }
}

/// A function's cost changes while it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When, as a share of the time that is measured.
    pub at: f64,
    /// Whose.
    pub function: usize,
    /// To what.
    pub cycles: u64,
    /// Its share of the processor time of all functions is to be this from then on.
    pub share: f64,
}

/// A policy on a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What it is called in tables.
    pub label: String,
    /// As `--schedule` has it; `None`: functions are merged, and there is nothing to schedule.
    pub policy: Option<String>,
    /// Functions poll while no packets come; they sleep, else.
    pub polls: bool,
    /// Packets that functions take together.
    pub batch: u16,
    /// How packets go from process to process, as a chain file's `interconnect` has it.
    pub interconnect: &'static str,
    /// Functions that write packets to files do so behind them; else they wait for each.
    pub behind: bool,
    /// Who decides it, for who compares policies ([`own`]).
    pub kind: Kind,
}

/// What a policy takes of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: programs as they are.
    NonIntrusive,
    /// That they are written for it: they yield, or relinquish.
    Intrusive,
    /// Onefold's own.
    Own,
    /// Not compared with others: a part of a policy, or none.
    Apart,
}

/// From each process into the next one's ring.
pub const RINGS: &str = "rings";

/// Batches of functions, if nothing is said.
pub const BATCH: u16 = 32;

impl Run {
    /// Of the kernel alone, or a policy for functions that sleep.
    pub fn sleeping(label: &str, policy: &str, kind: Kind) -> Run {
        Run {
            label: label.to_string(),
            policy: Some(policy.to_string()),
            polls: false,
            batch: BATCH,
            interconnect: RINGS,
            behind: true,
            kind,
        }
    }

    /// Of functions that poll.
    pub fn polling(label: &str, policy: &str, kind: Kind) -> Run {
        Run {
            polls: true,
            ..Run::sleeping(label, policy, kind)
        }
    }

    /// Nothing to schedule.
    pub fn merged() -> Run {
        Run {
            label: "merged".to_string(),
            policy: None,
            ..Run::sleeping("", "", Kind::Apart)
        }
    }
}

/// What runs, under which load.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Where on the axis.
    pub x: f64,
    /// What stands there.
    pub label: String,
    /// All functions.
    pub functions: Vec<Function>,
    /// All chains.
    pub chains: Vec<Chain>,
    /// What changes meanwhile.
    pub steps: Vec<Step>,
    /// What is compared.
    pub runs: Vec<Run>,
    /// Longer (or shorter) than the harness measures by itself, by so much.
    pub longer: f64,
    /// Places of rings, if not as many as a run makes by itself.
    pub ring: Option<u32>,
}

impl Setting {
    /// Functions in a row, one chain.
    pub fn line(x: f64, label: impl Into<String>, functions: Vec<Function>, pps: u64) -> Setting {
        let chain = Chain::new("a", 0..functions.len(), pps);
        Setting {
            x,
            label: label.into(),
            functions,
            chains: vec![chain],
            steps: Vec::new(),
            runs: Vec::new(),
            longer: 1.0,
            ring: None,
        }
    }

    /// These are compared.
    pub fn with(self, runs: Vec<Run>) -> Setting {
        Setting { runs, ..self }
    }
}

/// The kernel's policies that NFVnice is compared with.
fn kernels() -> Vec<Run> {
    vec![
        Run::sleeping("normal", "normal", Kind::NonIntrusive),
        Run::sleeping("batch", "batch", Kind::NonIntrusive),
        Run::sleeping("rr 4 ms", "rr,quantum=4ms", Kind::NonIntrusive),
        Run::sleeping("rr 100 ms", "rr,quantum=100ms", Kind::NonIntrusive),
    ]
}

/// Who else there is: UNiS, its baseline, and Onefold's own.
fn others() -> Vec<Run> {
    vec![
        Run::polling("cooperative", "cooperative", Kind::Intrusive),
        Run::polling("unis", "unis", Kind::NonIntrusive),
        Run::polling("latency", "latency", Kind::Own),
    ]
}

/// NFVnice above a class of the kernel's.
fn nfvnice(label: &str, more: &str, kind: Kind) -> Run {
    Run::sleeping(label, &format!("nfvnice{more}"), kind)
}

/// All policies, each as it is by itself.
fn all_policies() -> Vec<Run> {
    let mut all = kernels();
    all.push(nfvnice("nfvnice", "", Kind::Intrusive));
    all.extend(others());
    all
}

#[cfg(test)]
mod tests;
