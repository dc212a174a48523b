//! The filter language of IPFilter and IPClassifier.
//!
//! Source: the documentation of Click's `IPFilter` and `IPClassifier` elements (kohler/click), `tcpdump(1)`-like
//! patterns.
//!
//! The text is read into a tree of tests ([`Expr`]), which is kept: it says what a rule means and where in the text
//! each part stands. [`Expr::matches`] is that meaning. [`Filter`] finds the first rule of a list that matches: by
//! walking the list ([`Filter::first_match_linear`]), or by a search over the rules' address, protocol and port ranges
//! ([`Filter::first_match`]); both always agree.
//!
//! ```
//! use onefold_elements::filter::{Filter, Rule, View, parse_rule};
//! use onefold_element::NameDb;
//! use onefold_element::args::ArgScope;
//!
//! let scope = ArgScope { names: NameDb::builtin(), element: "", elements: &[] };
//! let rules = ["allow src net 10.0.0.0/8 && dst tcp port 80 or 443", "deny all"];
//! let rules = rules.iter().enumerate().map(|(i, text)| {
//!     let (action, parsed) = parse_rule(text, 1, &scope).unwrap();
//!     Rule { argument: i as u32, action, expr: parsed.expr }
//! });
//! let filter = Filter::new(rules.collect());
//! let packet = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 2, 3, 1, 1, 1, 1, 4, 0, 1, 0xbb];
//! let view = View { net: &packet, transport: &packet[20..], mac: &[], net6: &[] };
//! assert_eq!(filter.first_match(&view), Some(0));
//! ```
//!
//! # Where this differs from Click
//!
//! - A whole-number mask on a host (`src & 0xff000000 == 10.0.0.0`) is in the order in which it is written; Click
//!   reverses its bytes on little-endian machines.
//! - `ip[256]` and beyond read the IP packet at that offset; Click reads the transport header instead.
//! - Header bytes behind the packet's end are missing; Click, once one transport byte is there, takes all bytes after
//!   the IP header for present and reads what happens to be in memory.
//! - Numbers may be as large as 4294967295; Click refuses those above 2147483647.
//! - `transp` and `payload` alone (without `[...]`) are refused; in Click they make the rest of the rules vanish.
//! - `ip proto N` refuses numbers above 255; in Click some of them mean its internal pseudo-protocols.
//! - A test of both ports (`port > N`, `src and dst port != N`) on a packet that ends between or inside them is decided
//!   by the source port if that suffices; Click's optimizer may merge both ports into one test, which then fails.
//! - Behind an operator a value must stand; Click takes a keyword there (`tcp == win 1`) for another primitive.
//! - Protocol and service names come from fixed tables, not from the machine's `/etc`.

mod boxes;
mod error;
mod eval;
mod expr;
mod lex;
pub(crate) mod model;
mod names;
mod parse;
mod primitive;
mod rules;
mod search;
#[cfg(test)]
mod tests;
mod why;

pub use error::{FilterError, FilterErrorKind};
pub use eval::{View, View6};
pub use expr::{
    Check, Compare, Expr, Field, Host, HostAt, Layer, Op, Span, Test, Transport, Which,
};
pub use parse::{
    Action, MAX_DEPTH, Parsed, parse_pattern, parse_pattern6, parse_rule, parse_rule6,
};
pub use rules::{Filter, Rule};
