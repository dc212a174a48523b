//! The plainest elements: Null, Discard, Idle, Tee, Counter, AverageCounter.

mod average;
mod clipboard;
mod counter;
mod hub;
mod plain;

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    average::AVERAGE_COUNTER,
    average::AVERAGE_COUNTER_IMP,
    average::AVERAGE_COUNTER_MP,
    clipboard::CLIPBOARD,
    counter::COUNTER,
    counter::COUNTER_MP,
    hub::HUB,
    plain::DISCARD,
    plain::IDLE,
    plain::NULL,
    plain::TEE,
];
