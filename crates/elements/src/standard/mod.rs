//! The plainest elements: Null, Discard, Idle, Tee, Counter, AverageCounter, LoopGuard.

mod aggregate_counter;
mod average;
mod clipboard;
mod counter;
mod hub;
mod loop_guard;
mod plain;

pub(crate) use loop_guard::{MARK_ANNO, ROUNDS_ANNOS};
use onefold_element::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    aggregate_counter::AGGREGATE_COUNTER,
    average::AVERAGE_COUNTER,
    average::AVERAGE_COUNTER_IMP,
    average::AVERAGE_COUNTER_MP,
    clipboard::CLIPBOARD,
    counter::COUNTER,
    counter::COUNTER_MP,
    hub::HUB,
    loop_guard::LOOP_GUARD,
    plain::DISCARD,
    plain::IDLE,
    plain::NULL,
    plain::ENSURE_DPDK_BUFFER,
    plain::TEE,
];
