//! What keeps an interface from being an AF_XDP port.

use onefold_port_interface::InterfaceError;

/// What is wrong, and what to type.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// As with every kind of interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Another XDP program is there.
    #[error(
        "interface '{name}' has an XDP program already, which another program needs, or left behind; type: \
         ip link set dev {name} xdp off; or use packet:{name}"
    )]
    Occupied {
        /// The interface.
        name: String,
    },
    /// Another socket has the queue.
    #[error(
        "queue {queue} of interface '{name}' belongs to another AF_XDP socket; type: ss -a --xdp -p; \
         or use packet:{name}"
    )]
    Busy {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
    },
    /// Frames would not fit.
    #[error(
        "interface '{name}' takes packets of {mtu} bytes, an AF_XDP frame holds {most}; type: \
         ip link set dev {name} mtu {most}; or use packet:{name}"
    )]
    LargeMtu {
        /// The interface.
        name: String,
        /// What it takes, in bytes.
        mtu: u32,
        /// Largest MTU whose frames fit.
        most: u32,
    },
    /// Packets would arrive at queues that nobody looks at.
    #[error(
        "interface '{name}' spreads packets over {queues} receive queues, an xdp: port takes one: the others' packets \
         would go to the host; type: ethtool -L {name} {kind} 1; or take one queue on purpose: xdp:{name},queue=0"
    )]
    Queues {
        /// The interface.
        name: String,
        /// How many there are.
        queues: u32,
        /// `combined` or `rx`.
        kind: &'static str,
    },
    /// There is no such queue.
    #[error(
        "interface '{name}' has no queue {queue}: it has {queues}, from 0; type: ethtool -l {name}"
    )]
    NoQueue {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
        /// How many there are.
        queues: u32,
    },
    /// The driver cannot be told of the frames.
    #[error(
        "interface '{name}': its driver has no zero copy for AF_XDP ({error}); leave mode=zerocopy out, or say \
         mode=copy"
    )]
    NoZeroCopy {
        /// The interface.
        name: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// Too much memory would be locked.
    #[error(
        "no permission to lock {mib} MiB of memory for the frames of interface '{name}'; run onefold as root, type: \
         ulimit -l unlimited; or take smaller rings: xdp:{name},ring=256"
    )]
    LockedMemory {
        /// The interface.
        name: String,
        /// How much it is.
        mib: usize,
    },
}
