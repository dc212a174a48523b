//! Sources and sinks: devices, captures, generators.

mod data;
mod device;
mod from_dump;
mod infinite;
mod link;
mod rated;
mod summary;
mod timed;
mod to_dump;
mod util;

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    device::FROM_DEVICE,
    device::POLL_DEVICE,
    device::FROM_DPDK_DEVICE,
    device::FROM_HOST,
    device::TO_DEVICE,
    device::TO_DPDK_DEVICE,
    device::TO_HOST,
    from_dump::FROM_DUMP,
    infinite::INFINITE_SOURCE,
    rated::RATED_SOURCE,
    summary::FROM_IP_SUMMARY_DUMP,
    summary::TO_IP_SUMMARY_DUMP,
    timed::TIMED_SOURCE,
    to_dump::TO_DUMP,
];
