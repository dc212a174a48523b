//! Which structure? Estimates for all, the promising ones built, the best one kept, and a report of why.
//!
//! 1. A [`profile`] of the table (entries, tests, wildcards, tuples) gives an estimate of time, memory and build time
//!    for each structure: see [`cost`].
//! 2. Structures whose estimate is within [`PROMISING`] of the best are built within the budget; what their shape says
//!    (levels and blocks of trees on sample keys, tables of a tuple space) replaces the estimate.
//! 3. If asked to, those are measured on the sample keys, and measurement decides.
//!
//! Sample keys are the caller's, if it knows what packets look like; otherwise they are drawn from the rules, each as
//! often as any other.

mod cost;
mod profile;
mod sample;

pub use profile::Profile;
pub(crate) use sample::drawn;

use crate::{
    BitVector, Classifier, DecisionCode, DecisionTree, KeyBuf, Keys, Kind, NO_MATCH, PrefixTrie,
    Refusal, Table, TreeSettings, TupleSpace,
};
use std::fmt;
use std::time::{Duration, Instant};

/// Estimates this many times that of the best one are worth building.
pub const PROMISING: f64 = 2.5;
/// Structures that are built at most, the table that changes included.
const BUILT: usize = 3;
/// Keys of a sample.
const SAMPLE: usize = 4096;
/// Times that a measurement is repeated; the best counts.
const REPEATS: usize = 5;

/// What a structure has to do.
#[derive(Debug, Clone)]
pub struct Needs<'a> {
    /// Bytes, at most.
    pub memory: usize,
    /// Keys per batch, as a rule.
    pub batch: usize,
    /// Rules will come and go one by one.
    pub changes: bool,
    /// Measure before choosing: some milliseconds for each candidate.
    pub measure: bool,
    /// Keys as they will come, if that is known.
    pub keys: Option<Keys<'a>>,
}

impl Default for Needs<'_> {
    fn default() -> Self {
        Self {
            memory: 1500 << 20,
            batch: 64,
            changes: false,
            measure: false,
            keys: None,
        }
    }
}

/// What a structure takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Nanoseconds per key.
    pub ns: f64,
    /// Bytes.
    pub memory: usize,
    /// Seconds.
    pub build: f64,
}

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is the one.
    Chosen,
    /// It was built, but another one is faster.
    Slower,
    /// Its estimate was not worth building it.
    NotBuilt,
    /// It cannot change rule by rule, as is needed.
    Fixed,
    /// It does not take these rules.
    Refused(Refusal),
}

/// A structure, as a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Which one.
    pub kind: Kind,
    /// From the profile of the rules alone.
    pub estimate: Estimate,
    /// From its shape, where it was built: nanoseconds by its shape, bytes and seconds as they were.
    pub built: Option<Estimate>,
    /// Its shape, where it was built.
    pub shape: String,
    /// Nanoseconds per key as measured on the sample.
    pub measured: Option<f64>,
    /// What became of it.
    pub outcome: Outcome,
}

impl Candidate {
    /// The best that is known: measured, by its shape, by the rules' profile.
    pub fn ns(&self) -> f64 {
        let shape = self.built.map_or(self.estimate.ns, |b| b.ns);
        self.measured.unwrap_or(shape)
    }
}

/// Why a structure was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What the rules are like.
    pub profile: Profile,
    /// All candidates, in the order of their estimates.
    pub candidates: Vec<Candidate>,
}

impl Report {
    /// The one that was chosen.
    pub fn chosen(&self) -> Option<&Candidate> {
        self.candidates
            .iter()
            .find(|c| c.outcome == Outcome::Chosen)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.profile)?;
        for c in &self.candidates {
            let Estimate { ns, memory, build } = c.built.unwrap_or(c.estimate);
            write!(f, "  {:14} {ns:7.1} ns", c.kind)?;
            match c.measured {
                Some(m) => write!(f, " (measured {m:6.1})")?,
                None => write!(f, "{:18}", "")?,
            }
            write!(f, " {:9.1} KiB {build:8.4} s  ", memory as f64 / 1024.0)?;
            match &c.outcome {
                Outcome::Chosen => writeln!(f, "chosen: {}", c.shape)?,
                Outcome::Slower => writeln!(f, "slower: {}", c.shape)?,
                Outcome::NotBuilt => writeln!(f, "not built: the estimate is too high")?,
                Outcome::Fixed => writeln!(f, "not built: it cannot change rule by rule")?,
                Outcome::Refused(r) => writeln!(f, "refused: {r}")?,
            }
        }
        Ok(())
    }
}

/// Chooses and builds a structure.
///
/// # Errors
/// No structure takes the rules within the memory: the refusal of the most promising one that lacks it.
pub fn choose(table: &Table, needs: &Needs<'_>) -> Result<(Box<dyn Classifier>, Report), Refusal> {
    let profile = Profile::of(table);
    let own = drawn(table, SAMPLE);
    let keys = needs.keys.filter(|k| !k.is_empty()).unwrap_or(own.keys());
    let keys = keys.part(0, SAMPLE);
    let mut candidates: Vec<Candidate> = (cost::KINDS.iter())
        .map(|kind| Candidate {
            kind: *kind,
            estimate: cost::estimate(*kind, &profile, needs.batch),
            built: None,
            shape: String::new(),
            measured: None,
            outcome: match needs.changes && !cost::changes(*kind) {
                true => Outcome::Fixed,
                false => cost::form(*kind, &profile).map_or(Outcome::NotBuilt, Outcome::Refused),
            },
        })
        .collect();
    candidates.sort_by(|a, b| a.estimate.ns.total_cmp(&b.estimate.ns));
    let mut made: Vec<Option<Box<dyn Classifier>>> = Vec::new();
    let mut best = f64::INFINITY;
    for c in &mut candidates {
        let built = made.iter().flatten().count();
        let worth = built == 0 || built < BUILT && c.estimate.ns < best * PROMISING;
        made.push(None);
        if c.outcome != Outcome::NotBuilt || !worth {
            continue;
        }
        let start = Instant::now();
        let (s, ns) = match build(c.kind, table, needs, keys, &profile) {
            Ok(s) => s,
            Err(r) => {
                c.outcome = Outcome::Refused(r);
                continue;
            }
        };
        c.built = Some(Estimate {
            ns,
            memory: s.memory_bytes(),
            build: start.elapsed().as_secs_f64(),
        });
        c.shape = s.shape();
        c.outcome = Outcome::Slower;
        if needs.measure {
            c.measured = Some(measure(&*s, keys, needs.batch));
        }
        best = best.min(c.ns());
        if let Some(last) = made.last_mut() {
            *last = Some(s);
        }
    }
    let winner = (candidates.iter_mut().zip(made))
        .filter_map(|(c, s)| s.map(|s| (c, s)))
        .min_by(|a, b| a.0.ns().total_cmp(&b.0.ns()));
    match winner {
        Some((c, s)) => {
            c.outcome = Outcome::Chosen;
            Ok((
                s,
                Report {
                    profile,
                    candidates,
                },
            ))
        }
        None => {
            let refusals = candidates.into_iter().filter_map(|c| match c.outcome {
                Outcome::Refused(r) => Some(r),
                _ => None,
            });
            // the lack of memory is what the caller can do something about
            let best = refusals.min_by_key(|r| !matches!(r, Refusal::Memory { .. }));
            Err(best.unwrap_or(Refusal::Form {
                kind: Kind::TupleSpace,
                why: "no structure changes rule by rule",
            }))
        }
    }
}

/// Builds a structure; answers what its shape says of its time.
fn build(
    kind: Kind,
    table: &Table,
    needs: &Needs<'_>,
    keys: Keys<'_>,
    profile: &Profile,
) -> Result<(Box<dyn Classifier>, f64), Refusal> {
    Ok(match kind {
        Kind::Linear | Kind::DecisionCode => {
            let s = DecisionCode::new(table)?;
            let ns = cost::code(s.comparisons(), profile.entries, needs.batch);
            (Box::new(s), ns)
        }
        Kind::BitVector => {
            let s = BitVector::new(table, needs.memory)?;
            (Box::new(s), cost::estimate(kind, profile, needs.batch).ns)
        }
        Kind::DecisionTree => {
            let settings = TreeSettings {
                budget: needs.memory,
                ..TreeSettings::default()
            };
            let s = DecisionTree::new(table, &settings)?;
            let ns = s.steps(keys).ns(s.memory_bytes());
            (Box::new(s), ns)
        }
        Kind::PrefixTrie => {
            let s = PrefixTrie::of_table(table, needs.memory)?;
            (Box::new(s), cost::estimate(kind, profile, needs.batch).ns)
        }
        Kind::TupleSpace => {
            let s = TupleSpace::new(table, needs.memory)?;
            let ns = cost::tuples(s.tables(), s.memory_bytes());
            (Box::new(s), ns)
        }
    })
}

/// Nanoseconds per key, the best of some rounds over all keys: wall time, so that others on the machine make it too
/// long, seldom all rounds.
fn measure(s: &dyn Classifier, keys: Keys<'_>, batch: usize) -> f64 {
    let batch = batch.clamp(1, 1024);
    let mut out = vec![NO_MATCH; batch];
    let mut best = Duration::MAX;
    for _ in 0..REPEATS {
        let start = Instant::now();
        let mut at = 0;
        while at < keys.len() {
            s.lookup(keys.part(at, batch), &mut out);
            at += batch;
        }
        best = best.min(start.elapsed());
    }
    best.as_nanos() as f64 / keys.len().max(1) as f64
}

/// Keys of one's own, for those who have a table but no keys.
pub fn sample_keys(table: &Table, n: usize) -> KeyBuf {
    drawn(table, n.min(1 << 24))
}
