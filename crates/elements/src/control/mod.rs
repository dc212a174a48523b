//! Control: Script, DriverManager, Message and the information elements.

mod info;
mod message;
mod random_seed;
mod script;
mod socket;

use onefold_element::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    script::SCRIPT,
    script::DRIVER_MANAGER,
    message::MESSAGE,
    message::ERROR,
    socket::CONTROL_SOCKET,
    socket::CHATTER_SOCKET,
    info::ADDRESS_INFO,
    info::PORT_INFO,
    info::ANNOTATION_INFO,
    info::ALIGNMENT_INFO,
    info::SCHEDULE_INFO,
    info::STATIC_THREAD_SCHED,
    info::BALANCED_THREAD_SCHED,
    info::CLICKY_INFO,
    info::DPDK_INFO,
    info::FLOW_INFO,
    random_seed::RANDOM_SEED,
    info::DEVIRTUALIZE_INFO,
];
