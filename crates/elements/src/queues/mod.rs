//! Queues, schedulers, switches, meters and shapers.

mod queue;
mod sched;
mod switch;
mod unqueue;
mod util;

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    queue::QUEUE,
    queue::FULL_NOTE_QUEUE,
    queue::QUICK_NOTE_QUEUE,
    queue::THREAD_SAFE_QUEUE,
    queue::MS_QUEUE,
    queue::SIMPLE_QUEUE,
    queue::NOTIFIER_QUEUE,
    queue::MIXED_QUEUE,
    queue::FRONT_DROP_QUEUE,
    unqueue::UNQUEUE,
    unqueue::ROUND_ROBIN_UNQUEUE,
    sched::ROUND_ROBIN,
    sched::SIMPLE_ROUND_ROBIN,
    sched::PRIO,
    sched::SIMPLE_PRIO,
    sched::DRR,
    switch::SWITCH,
    switch::STATIC_SWITCH,
    switch::ROUND_ROBIN_SWITCH,
    switch::HASH_SWITCH,
    switch::RANDOM_SWITCH,
    switch::CPU_SWITCH,
    switch::INPUT_SWITCH,
];
