//! The front door: packets from ports, through an executor, to ports.
//!
//! - A [`Port`] gives packets, each with the time at which it arrives, and takes those that leave there: captures
//!   ([`CapturePort`]), frames in memory ([`MemoryPort`]; in real time, [`PacedPort`]).
//! - A [`Worker`] owns an executor ([`onefold_engine::Executor`]) and the ports of a chain. A [`Worker::step`] takes a
//!   batch from the port whose next packet is the earliest, as many as arrive before any other port's, sends it all its
//!   way, and hands what has left to the ports. Between two steps plans are installed and handlers called.
//! - Between two batches a worker does what others want of it ([`Mailbox`]): a command may put another executor in the
//!   place of its own ([`Worker::replace`]). [`Load`] says how busy it is.
//! - A [`Planner`] makes plans in a thread of its own.
//!
//! With recorded ports the clock is the packets' time, and never goes back. What leaves, in which order, and what state
//! stays behind is what the scalar reference graph does with the same packets, whatever the executor and the size of
//! batches.
//!
//! With live ports ([`Port::is_live`]) the clock is the real one ([`Clock`]): [`Worker::live_step`] takes what has
//! arrived, [`Worker::idle`] and [`Worker::wait`] do what there is to do while nothing does. Several workers get their
//! packets from a [`Dispatcher`].
#![forbid(unsafe_code)]

mod capture;
mod control;
mod dispatch;
mod histogram;
mod live;
mod load;
mod memory;
mod paced;
mod planner;
mod port;
mod pressure;
pub mod scaling;
mod worker;

pub use capture::{CapturePort, Share};
pub use control::{MOST_COMMANDS, Mailbox, SendError, Sender, Wakes, mailbox};
pub use dispatch::{
    AT_WRONG_WORKER, DispatchCounts, Dispatcher, Ending, Entrance, FirstTag, LiveReport,
    QueueCounts, QueuePort, Queues, RingPort, Tags,
};
pub use histogram::{Histogram, Percentiles};
pub use live::{
    Clock, Idle, LONGEST_SLEEP, MODERATION, Polling, PortState, Remark, Rhythm, SPIN, wait_for_any,
};
pub use load::{Load, LoadReport};
pub use memory::{Keep, MemoryPort};
pub use paced::{HIGHEST_RATE, NOT_TAKEN, PacedPort};
pub use planner::{Planned, Planner, stand_back};
pub use port::{LinkState, Loss, Port, PortError, Progress, TRANSMIT_QUEUE_FULL};
pub use worker::{Binding, Count, PortSpec, ReplaceError, Step, Tap, Worker};
