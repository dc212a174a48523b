//! The elements: every class that a configuration may name, family by family.
//!
//! - [`lookup`] finds an [`ElementClass`](onefold_element::ElementClass) by name; every family of elements has a file
//!   (or folder) of its own and lists its classes in a `CLASSES` constant.
//! - What an element is at all, is in `onefold-element`; the bindings of rewriters are in `onefold-nat`.
//! - [`testing`]: a bench for single elements. `model_check` (feature `testing`) compares models with their elements.
//!
//! The crate starts no thread and never panics on packets or configurations. The only I/O is that of the elements whose
//! purpose is a file (FromDump, ToDump, the summary dumps, Print's OUTFILE): opened when initialized, never by an
//! element that the engine has bound to a port or by a clone.
#![forbid(unsafe_code)]

mod classify;
mod control;
mod flows_to;
mod headers;
pub mod icmp_names;
mod ip4;
mod ip6;
mod link;
#[cfg(any(test, feature = "testing"))]
pub mod model_check;
pub mod payload;
mod print;
mod queues;
pub mod rate;
mod registry;
mod rewrite;
pub mod routing;
mod sources;
mod standard;
pub mod testing;
pub mod token_bucket;
mod track;

use onefold_element::ElementClass;

/// Every family's list of classes.
const FAMILIES: &[&[ElementClass]] = &[
    standard::CLASSES,
    link::CLASSES,
    classify::CLASSES,
    control::CLASSES,
    headers::CLASSES,
    ip6::CLASSES,
    payload::CLASSES,
    print::CLASSES,
    queues::CLASSES,
    rewrite::CLASSES,
    routing::CLASSES,
    sources::CLASSES,
    track::CLASSES,
];

pub use classify::filter;
pub use registry::{all_classes, lookup, near_misses};
pub use track::class as connection;
