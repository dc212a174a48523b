//! Which rule does a packet match first? The look-up structures of the fast path.
//!
//! A [`Layout`] says which fields a key has; [`Rules`] is a first-match list over them (ranges, prefixes, any masks).
//! [`Table`] is its normal form, from which structures are built, each for other sets:
//!
//! | structure | for |
//! |---|---|
//! | [`DecisionCode`] | a handful up to some dozens of rules: all compared, 64 keys at a time |
//! | [`BitVector`] | hundreds to some ten thousand rules, whatever their shape |
//! | [`DecisionTree`] | hundreds to a hundred thousand rules: the usual choice |
//! | [`PrefixTrie`] | prefixes of one field: routes, a full table of them; single changes |
//! | [`TupleSpace`] | rules that come and go one by one |
//! | [`Linear`] | nothing but to say what is right |
//!
//! [`choose`] takes the one that its cost model expects to be the fastest, or that is, and reports why.
//!
//! All of them are [`Classifier`]s: they look up batches of [`Keys`] (structure of arrays), in stages with prefetch
//! between them, and answer like [`Linear`]. What does not fit in a budget is refused with a [`Refusal`], never built
//! halfway.
//!
//! ```
//! use onefold_classify::*;
//!
//! let layout = Layout::new(&[32, 32, 16, 16, 8])?;
//! let mut rules = Rules::new(layout.clone());
//! let net = Match::Prefix { value: 0x0a00_0000, len: 8 };
//! rules.push(&[net, Match::Any, Match::Any, Match::Exact(22), Match::Exact(6)], 0)?;
//! rules.push(&[net, Match::Any, Match::Any, Match::Range { lo: 0, hi: 1023 }, Match::Any], 1)?;
//! rules.push(&[Match::Any; 5], 2)?;
//!
//! let table = Table::new(&rules)?;
//! let (code, report) = choose(&table, &Needs::default())?;
//! assert_eq!(report.chosen().map(|c| c.kind), Some(Kind::DecisionCode));
//! let mut keys = KeyBuf::new(&layout, 64);
//! keys.push(&[0x0a01_0203, 0xc000_0201, 40_000, 22, 6]);
//! keys.push(&[0x0a01_0203, 0xc000_0201, 40_000, 53, 17]);
//! keys.push(&[0x0b01_0203, 0xc000_0201, 40_000, 53, 17]);
//! let mut out = [NO_MATCH; 3];
//! code.lookup(keys.keys(), &mut out);
//! assert_eq!(out, [0, 1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod bits;
mod error;
mod keys;
mod layout;
mod left_right;
mod linear;
mod lpm;
mod plan;
mod rule;
#[allow(unsafe_code)]
mod simd;
mod small;
mod steps;
mod table;
mod tree;
mod tuple;

pub use bits::BitVector;
pub use error::{Refusal, RuleError};
pub use keys::{KeyBuf, Keys};
pub use layout::{Layout, MAX_FIELDS, MAX_WORDS};
pub use left_right::{Apply, LeftRight, MAX_QUEUED, Published, Reader, Stalled};
pub use linear::Linear;
pub use lpm::{PrefixTrie, RouteChange, RouteError, Routes};
pub use plan::{
    Candidate, Estimate, Needs, Outcome, PROMISING, Profile, Report, choose, sample_keys,
};
pub use rule::{MAX_RULES, Match, Rules};
pub use simd::{UnknownIsa, Vectors, check_environment, limit_vectors, vectors_limit};
pub use small::{DecisionCode, MAX_SMALL};
pub use table::{MAX_ENTRIES, MAX_PARTS, Table, Test};
pub use tree::{DecisionTree, MAX_DEPTH, Settings as TreeSettings, Steps as TreeSteps};
pub use tuple::{MAX_TABLES, RuleChange, TupleSpace, UpdateError};

/// What a look-up answers where no rule fits.
pub const NO_MATCH: u32 = u32::MAX;

/// The structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Linear`].
    Linear,
    /// [`DecisionCode`].
    DecisionCode,
    /// [`BitVector`].
    BitVector,
    /// [`DecisionTree`].
    DecisionTree,
    /// [`PrefixTrie`].
    PrefixTrie,
    /// [`TupleSpace`].
    TupleSpace,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Linear => "linear scan",
            Self::DecisionCode => "decision code",
            Self::BitVector => "bit vector",
            Self::DecisionTree => "decision tree",
            Self::PrefixTrie => "prefix trie",
            Self::TupleSpace => "tuple space",
        })
    }
}

/// A structure that finds the first rule of keys.
pub trait Classifier: std::fmt::Debug + Send + Sync {
    /// Which structure this is.
    fn kind(&self) -> Kind;

    /// The value of the first rule that fits each key, or [`NO_MATCH`]; as many as both `keys` and `out` have.
    fn lookup(&self, keys: Keys<'_>, out: &mut [u32]);

    /// The same for one key, its words in order.
    fn lookup_one(&self, key: &[u32]) -> u32 {
        let mut out = [NO_MATCH];
        self.lookup(Keys::one(key), &mut out);
        out[0]
    }

    /// Bytes on the heap.
    fn memory_bytes(&self) -> usize;

    /// How it is built, in a few words and numbers.
    fn shape(&self) -> String;
}
