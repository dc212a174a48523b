//! Models compared with their elements: sample packets, probes of every case, mutants. For tests only (feature
//! `testing`).

pub mod alike;
pub mod asked;
pub mod check;
pub mod mutate;
pub mod probe;
pub mod samples;
