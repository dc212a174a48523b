//! The program as text: stable, readable, diffable and complete. `parse(print(p)) == p` for every program.
//!
//! The grammar stands in `docs/program.md`. A small example:
//!
//! ```
//! use onefold_synth::text;
//! let text = r#"
//! onefold program 1
//! element e0 "fw/FromDevice"
//! element e1 "fw/IPFilter"
//! element e2 "fw/ToDevice"
//! entry e0 stage0
//! stage0 at e1[0] entry fresh {
//!   when len >= 42, eth.type = 0x0800, ip.proto = 17, udp.dport = 53 => a0 from e1.0
//!   when any => a1 from e1.1
//!   a0 {
//!     output e2 {}
//!     path e0 e1 e2
//!   }
//!   a1 {
//!     drop e1 "IPFilter: filtered out"
//!   }
//! }
//! "#;
//! let program = text::parse(text).unwrap();
//! assert_eq!(program.stages[0].rules.len(), 2);
//! assert_eq!(text::parse(&text::print(&program)).unwrap(), program);
//! ```

mod lex;
mod names;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use names::Layout;
pub use parse::{MAX_ERRORS, ParseError, parse, parse_all};
pub use print::{Words, print, values};

use crate::program::{Dim, SlotInfo};

/// A dimension's width: a slot's own, if it is declared.
pub(crate) fn width(slots: &[SlotInfo], d: Dim) -> u8 {
    match d {
        Dim::Slot(s) => slots.get(usize::from(s.0)).map_or(128, |i| i.bits),
        d => d.width(),
    }
}
