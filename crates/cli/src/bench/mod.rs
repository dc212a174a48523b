//! `onefold bench`: what is measured, and how it is told in words and pictures (the page: `html/bench.rs`).

pub mod experiment;
pub mod live;
pub mod markdown;
pub mod point;
pub mod sched;
pub mod text;
