//! What can go wrong between the chain and the kernel.

use onefold_port_interface::InterfaceError;
use onefold_runtime::PortError;
use std::io;

/// Why the kernel cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A tool is missing, or the privilege for namespaces.
    #[error("{what}\n  hint: {cure}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to type.
        cure: String,
    },
    /// A function's port has two ends: what enters and what leaves there come from, or go to, different places.
    #[error(
        "{port}: what enters there and what leaves there are at different places; an interface of the kernel is both"
    )]
    TwoEnds {
        /// The function's port.
        port: String,
    },
    /// Two functions translate addresses.
    #[error(
        "{first} and {second} both translate addresses: which ports each has drawn cannot be seen from outside\n  \
         hint: compare each in a chain of its own"
    )]
    TwoNats {
        /// The first one's name.
        first: String,
        /// The second one's name.
        second: String,
    },
    /// Rules draw packets at random.
    #[error(
        "{function}: '{file}' draws packets at random (statistic --mode random, numgen random), and the kernel draws \
         others\n  hint: leave these rules out for this comparison"
    )]
    Chance {
        /// The function.
        function: String,
        /// The file with the rules.
        file: String,
    },
    /// A name that no interface can have.
    #[error(
        "{function}: '{name}' cannot be an interface's name in Linux: 1 to 15 characters without '/' and spaces"
    )]
    Name {
        /// The function.
        function: String,
        /// The name.
        name: String,
    },
    /// A tool refuses what it is given.
    #[error("{function}: {tool} refuses {what}: {said}")]
    Refused {
        /// The function whose rules or routes these are.
        function: String,
        /// `nft`, `iptables-restore`, `ip`.
        tool: String,
        /// A file's name, or a line.
        what: String,
        /// What the tool says.
        said: String,
    },
    /// The system refuses something.
    #[error("{doing}: {error}")]
    System {
        /// What was done.
        doing: String,
        /// What the system says.
        error: io::Error,
    },
    /// A packet socket cannot be opened.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A packet socket fails.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A marker did not come back in time.
    #[error(
        "{seconds} seconds after a packet the kernel has not worked on what was sent behind it"
    )]
    Silent {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Packets were lost in sockets: nothing can be said about them.
    #[error("{packets} packets were lost in sockets ({reason})")]
    Lost {
        /// How many.
        packets: u64,
        /// Why.
        reason: &'static str,
    },
}

impl KernelError {
    /// Something that the system refuses.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> KernelError {
        let doing = doing.into();
        move |error| KernelError::System { doing, error }
    }
}
