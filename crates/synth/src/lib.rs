//! Synthesis: the models of a chain's elements, composed along all paths into traffic classes with one action each.
//!
//! [`program`] is the result: stages of first-match rules, actions, images. It is plain data.
#![forbid(unsafe_code)]

pub mod program;
