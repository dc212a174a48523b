//! Receive queues of interfaces.

use crate::error::XdpError;
use onefold_port_interface::{Control, Interface, InterfaceError};

/// Receive queues that an interface may have, at most.
pub(crate) const MAX_QUEUE: u32 = 4096;

/// What interfaces are asked by.
pub(crate) fn control_of(interface: &Interface) -> Result<Control, XdpError> {
    Control::open().map_err(|error| {
        InterfaceError::System {
            name: interface.name.clone(),
            doing: "opening a socket",
            error,
        }
        .into()
    })
}

/// Receive queues of an interface, and how many of them are transmit queues, too. A driver that does not say has one.
fn channels(control: &Control, name: &str) -> (u32, u32) {
    let (rx, combined) = control.channels(name).unwrap_or((1, 0));
    ((rx + combined).clamp(1, MAX_QUEUE), combined)
}

/// How many receive queues has an interface; `None`: there is no such interface.
pub fn queues(name: &str) -> Option<u32> {
    let control = Control::open().ok()?;
    control.index(name).ok()?;
    Some(channels(&control, name).0)
}

/// Is there such a queue, or only one?
pub(crate) fn check_queue(
    control: &Control,
    interface: &Interface,
    queue: Option<u32>,
) -> Result<(), XdpError> {
    let name = interface.name.clone();
    let (queues, combined) = channels(control, &name);
    match queue {
        Some(queue) if queue >= queues => Err(XdpError::NoQueue {
            name,
            queue,
            queues,
        }),
        None if queues > 1 => Err(XdpError::Queues {
            name,
            queues,
            kind: if combined > 0 { "combined" } else { "rx" },
        }),
        _ => Ok(()),
    }
}
