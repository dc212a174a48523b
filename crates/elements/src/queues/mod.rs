//! Queues, schedulers, switches, meters and shapers.

mod bypass;
mod delay;
mod gate;
mod link;
mod meter;
mod notifier_debug;
mod pull;
mod queue;
mod rate_limit;
mod rated;
mod recent;
mod red;
mod replay;
mod sched;
mod shaper;
mod stride;
mod switch;
mod time_sorted;
mod timed;
mod turns;
mod unqueue;
mod util;

use onefold_element::ElementClass;

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
    bypass::BYPASS,
    notifier_debug::NOTIFIER_DEBUG,
    unqueue::UNQUEUE,
    unqueue::ROUND_ROBIN_UNQUEUE,
    sched::ROUND_ROBIN,
    sched::SIMPLE_ROUND_ROBIN,
    sched::PRIO,
    sched::SIMPLE_PRIO,
    sched::DRR,
    stride::STRIDE_SCHED,
    stride::STRIDE_SWITCH,
    time_sorted::TIME_SORTED_SCHED,
    rated::RATED_UNQUEUE,
    rated::BANDWIDTH_RATED_UNQUEUE,
    rated::RATED_SPLITTER,
    rated::BANDWIDTH_RATED_SPLITTER,
    shaper::SHAPER,
    shaper::BANDWIDTH_SHAPER,
    rate_limit::RATE_LIMIT,
    rate_limit::RATE_CHECK,
    recent::RECENT_LIST,
    recent::RECENT_CHECK,
    turns::TURNS,
    turns::TURN_CHECK,
    meter::METER,
    meter::BANDWIDTH_METER,
    delay::DELAY_SHAPER,
    delay::DELAY_UNQUEUE,
    link::LINK_UNQUEUE,
    timed::TIMED_UNQUEUE,
    timed::BURSTER,
    red::RED,
    replay::REPLAY_UNQUEUE,
    replay::MULTI_REPLAY_UNQUEUE,
    pull::PULL_SWITCH,
    pull::SIMPLE_PULL_SWITCH,
    pull::STATIC_PULL_SWITCH,
    pull::PULL_TEE,
    pull::PULL_NULL,
    pull::PUSH_NULL,
    gate::SUPPRESSOR,
    gate::BLOCK,
    gate::RANDOM_SAMPLE,
    switch::SWITCH,
    switch::STATIC_SWITCH,
    switch::ROUND_ROBIN_SWITCH,
    switch::HASH_SWITCH,
    switch::RANDOM_SWITCH,
    switch::CPU_SWITCH,
    switch::INPUT_SWITCH,
];
