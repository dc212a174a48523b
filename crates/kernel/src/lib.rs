//! The Linux kernel as an execution of a chain.
//!
//! Each function of the chain becomes a network namespace with the rules and routes that the operator wrote, loaded by
//! the tools that she uses (`iptables-restore`, `nft`, `ip route`); links and ports become pairs of virtual interfaces.
//! A packet is sent into the namespace behind its port by a packet socket, and what comes out anywhere is compared with
//! what the reference graph gives.
//!
//! - [`Lab`]: the namespaces, and what is asked of them: [`Lab::exchange`] sends one frame and collects what comes of
//!   it.
//! - [`Judged`]: reference graph and kernel as one [`Subject`](onefold_verify::Subject) for
//!   [`Pair`](onefold_verify::Pair): what the kernel does alike, or differently for a reason that is written down
//!   ([`documented`]), is what the reference graph does; anything else is a difference, which `onefold_verify` shrinks.
//! - [`run()`]: packets from a source through both, until a difference or the end.
//!
//! Namespaces have no names: they are gone with the process that made them, however it ends.
//!
//! Nothing here needs to wait for time to pass. All of a batch of packets is worked on by the processor that sends it,
//! in order (softirq, one queue for each processor); a marker that is sent behind a packet on the same way comes back
//! when everything that came of the packet has arrived. The thread stays on one processor for that ([`Pinned`]).
#![forbid(unsafe_code)]

mod canon;
mod chosen;
mod commands;
mod crowd;
pub mod documented;
mod ends;
mod error;
mod forget;
mod host;
mod judged;
mod lab;
mod numbers;
mod pinned;
mod plan;
mod run;
mod trace;
mod wires;

pub use error::KernelError;
pub use judged::{Counts, Judged, SharedLab};
pub use lab::{Lab, Left, obstacle};
pub use pinned::Pinned;
pub use run::{Options, Outcome, run};
