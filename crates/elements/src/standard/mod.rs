//! The plainest elements: Null, Discard, Idle, Tee, Counter.

mod counter;
mod plain;

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    counter::COUNTER,
    plain::DISCARD,
    plain::IDLE,
    plain::NULL,
    plain::TEE,
];
