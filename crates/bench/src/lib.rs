//! What Onefold is measured and tested with, made from a seed: traffic, rule sets, headers that exercise rules.
//!
//! Six layers, each usable alone:
//! - [`Generator`] yields frames from [`TrafficParams`]: flows, sizes, skew, protocols, TCP connections, exceptions.
//!   It writes nothing: benchmarks keep the frames in memory.
//! - [`generate_rules`] makes a rule set from [`RuleParams`], [`exercise`] makes headers of which each rule is
//!   the first match equally often.
//! - [`run`] is the command `onefold gen` ([`GenArgs`] are its options) without its terminal: it writes files and
//!   reports to a [`Progress`].
//! - [`chains`] makes chain files of every kind of network function, for tests.
//! - [`measure`] runs chains on such packets and says what they cost; [`experiment`] has, as data, what the papers
//!   measured.
//!
//! Same parameters and same seed give the same bytes, on every machine and in every release, unless the
//! changelog says otherwise.
//!
//! ```
//! use onefold_bench::{RuleKind, RuleParams, exercise, first_match, generate_rules};
//!
//! let set = generate_rules(&RuleParams::preset(RuleKind::Acl), 100, 7)?;
//! let headers = exercise(&set.rules, 500, 7, true);
//! for (header, rule) in &headers.headers {
//!     assert_eq!(first_match(&set.rules, header), Some(*rule));
//! }
//! # Ok::<(), onefold_bench::RuleParamsError>(())
//! ```
#![forbid(unsafe_code)]

mod aimed;
mod answers;
mod args;
pub mod chains;
mod error;
pub mod experiment;
mod hostile;
pub mod measure;
pub mod output;
mod ranges;
mod rng;
mod rules;
mod run;
pub mod scheduling;
mod sizes;
mod traffic;
mod zipf;

pub use aimed::{AimedParams, AimedSummary, write_aimed};
pub use answers::answer;
pub use args::{GenArgs, RuleFormat};
pub use error::GenError;
pub use hostile::Hostile;
pub use ranges::{Addresses, Ports, ProtocolMix, RangeError, Transport};
pub use rng::Rng;
pub use rules::{
    Exercise, Generated, Header, LengthWeight, MAX_RULES, PortMix, ProtoMatch, ProtocolWeight,
    Rule, RuleError, RuleKind, RuleParams, RuleParamsError, Verdict, exercise, first_match,
    generate_rules, parse_rules, write_click_filter, write_headers, write_rules,
};
pub use run::{GenSummary, NoProgress, Progress, RuleSummary, WrittenFile, run, traffic};
pub use sizes::{MAX_SIZE, MIN_FRAME, SizeError, SizeModel};
pub use traffic::{
    Counts, Direction, ExceptionKind, GeneratedFrame, Generator, LinkAddresses, MAX_FLOWS, Payload,
    TcpStyle, TrafficError, TrafficParams,
};
pub use zipf::Zipf;
