//! What a stage's rules are looked up in, and why.

use onefold_classify::{Candidate, Kind, Outcome};
use onefold_synth::program::{Dim, Filter};

/// A structure that could have been taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Which one.
    pub kind: Kind,
    /// Estimated nanoseconds per packet: by its shape, where it was built.
    pub ns: f64,
    /// Nanoseconds as measured, where that was asked for.
    pub measured: Option<f64>,
    /// Bytes, as they are or as estimated.
    pub memory: usize,
    /// Seconds to build, as they were or as estimated.
    pub seconds: f64,
    /// It is the one.
    pub chosen: bool,
    /// What became of it.
    pub why: String,
}

impl From<Candidate> for Tried {
    fn from(c: Candidate) -> Tried {
        let e = c.built.unwrap_or(c.estimate);
        Tried {
            kind: c.kind,
            ns: e.ns,
            measured: c.measured,
            memory: e.memory,
            seconds: e.build,
            chosen: c.outcome == Outcome::Chosen,
            why: match c.outcome {
                Outcome::Chosen => c.shape,
                Outcome::Slower => format!("slower: {}", c.shape),
                Outcome::NotBuilt => "not built: the estimate is too high".to_string(),
                Outcome::Fixed => "not built: its rules cannot change one by one".to_string(),
                Outcome::Refused(r) => format!("refused: {r}"),
            },
        }
    }
}

/// A structure that is used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StructureReport {
    /// Which one; none where the guard has answered everything.
    pub kind: Option<Kind>,
    /// What a key is made of.
    pub fields: Vec<Dim>,
    /// Words of a key.
    pub words: usize,
    /// Entries: rules, taken apart.
    pub entries: usize,
    /// Bytes.
    pub memory: usize,
    /// Seconds it took to build.
    pub seconds: f64,
    /// How it is built.
    pub shape: String,
    /// All candidates, where there was a choice.
    pub tried: Vec<Tried>,
}

impl StructureReport {
    /// Nanoseconds per packet, without guard and extraction: measured, or estimated, where there was a choice.
    pub fn ns(&self) -> Option<f64> {
        let chosen = self.tried.iter().find(|t| t.chosen)?;
        Some(chosen.measured.unwrap_or(chosen.ns))
    }

    pub(crate) fn always() -> StructureReport {
        StructureReport {
            shape: "the guard has answered everything".to_string(),
            ..StructureReport::default()
        }
    }
}

/// Rules as they are behind a guard.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewReport {
    /// What packets pass it.
    pub guard: Filter,
    /// Tests that the guard makes.
    pub tests: usize,
    /// Share of ordinary packets, as the rules let one guess, that pass it and none before.
    pub share: f64,
    /// Rules that are left behind it.
    pub rules: usize,
    /// The structure.
    pub structure: StructureReport,
}

/// How a stage finds the first rule that fits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StageReport {
    /// Index into [`onefold_synth::program::Program::stages`].
    pub stage: usize,
    /// Its rules.
    pub rules: usize,
    /// Asked one after the other.
    pub views: Vec<ViewReport>,
    /// Why the tree takes what passes no guard; `None` where the last one lets all packets pass.
    pub rest: Option<String>,
    /// Seconds it took to make all of it.
    pub seconds: f64,
}
