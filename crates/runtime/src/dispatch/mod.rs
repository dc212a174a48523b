//! Several workers on live ports: how packets come to the worker whose they are.
//!
//! Which worker that is says a [`Partition`](onefold_partition::Partition), whatever brings the packets there:
//!
//! - A [`Dispatcher`] is one thread that receives at all ports and hands packets over by a bounded queue for each port
//!   and worker; what leaves comes back to it the same way. It works with every kind of port. What a worker has in the
//!   place of a port is a [`RingPort`].
//! - Where every worker has a queue of its own at each port, it receives there and sends there, and hands over what is
//!   another one's ([`QueuePort`]). The same where frames carry a tag ([`Tags`]) by which somebody has decided
//!   upstream.
//!
//! Workers share nothing but these queues. A dispatcher leaves packets with their port while queues are full, as far as
//! that is right ([`patience`]); else a packet that finds its queue full is lost and counted.

mod bell;
mod check;
mod dispatcher;
mod ending;
mod patience;
mod queue_port;
mod ring_port;
mod tag;

pub use dispatcher::{DispatchCounts, Dispatcher, Entrance, LiveReport};
pub use ending::Ending;
pub use queue_port::{QueueCounts, QueuePort, Queues};
pub use ring_port::{AT_WRONG_WORKER, RingPort};
pub use tag::{FirstTag, Tags};

/// Places of the queue of a port and a worker, each way. Where workers share cores with others, the system does not
/// execute one for tens of milliseconds: 1,024 places (10 ms at 100,000 packets a second) were full in each such pause
/// (docs/soak.md, `live` and `scaling`). Buffers are made as packets wait, so that room that nobody uses costs its
/// pointers.
pub const QUEUE: usize = 8192;
