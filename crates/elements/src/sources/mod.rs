//! Sources and sinks: devices, captures, generators.

mod device;

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
];
