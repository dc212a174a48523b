//! Sources and sinks: devices, captures, generators.

mod data;
mod device;
mod fast;
mod from_dump;
mod infinite;
mod kernel_tun;
mod link;
mod rated;
mod summary;
mod timed;
mod to_dump;
mod util;

use onefold_element::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    device::FROM_DEVICE,
    device::POLL_DEVICE,
    device::FROM_DPDK_DEVICE,
    device::FROM_DPDK_RING,
    device::FROM_HOST,
    device::FROM_NETMAP_DEVICE,
    device::TO_DEVICE,
    device::TO_DPDK_DEVICE,
    device::TO_DPDK_RING,
    device::TO_HOST,
    device::TO_HOST_SNIFFERS,
    device::TO_NETMAP_DEVICE,
    fast::FAST_TCP_FLOWS,
    fast::FAST_UDP_FLOWS,
    fast::FAST_UDP_SOURCE,
    from_dump::FROM_DUMP,
    infinite::INFINITE_SOURCE,
    infinite::RANDOM_SOURCE,
    kernel_tun::KERNEL_TAP,
    kernel_tun::KERNEL_TUN,
    rated::RATED_SOURCE,
    summary::FROM_IP_SUMMARY_DUMP,
    summary::TO_IP_SUMMARY_DUMP,
    timed::TIMED_SINK,
    timed::TIMED_SOURCE,
    to_dump::TO_DUMP,
];
