//! Rule sets: their text, a generator for them, and headers that exercise them.

mod classbench;
mod exercise;
mod generate;
mod params;

pub(crate) use classbench::mask;
pub use classbench::{Header, ProtoMatch, Rule, RuleError, first_match, parse_rules, write_rules};
pub use exercise::{Exercise, exercise, write_headers};
pub use generate::{Generated, Verdict, generate_rules, write_click_filter};
pub use params::{
    Inside, LengthWeight, PortMix, ProtocolWeight, RuleKind, RuleParams, RuleParamsError,
};

/// The most rules that are read or generated.
pub const MAX_RULES: usize = 131_072;
