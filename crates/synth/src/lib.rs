//! Synthesis: the models of a chain's elements, composed along all paths into traffic classes with one action each.
//!
//! [`program`] is the result: stages of first-match rules, actions, images. It is plain data. [`synthesize`] makes it
//! from [`Input`]: models and wiring of a configured graph.
#![forbid(unsafe_code)]

pub mod check;
mod cond;
mod filter;
mod input;
mod layout;
pub mod parts;
pub mod program;
mod progress;
mod state;
pub mod text;
mod traverse;

pub use input::{Budget, ElementInfo, Input};
pub use layout::Layout;
pub use program::Program;
pub use traverse::{MAX_CROSSINGS, MAX_ROUNDS, MAX_VISITS, synthesize};
