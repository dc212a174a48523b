//! Ports that are devices of DPDK: `dpdk:DEVICE`, whatever has a driver there (cards, `net_af_xdp`, `net_memif`, ...).
//!
//! - DPDK is started once for all `dpdk:` ports of a run ([`Dpdk::start`]), without files that it would leave behind,
//!   without a thread of its own that takes packets, without signals, and without moving our thread to another
//!   processor. What it says is kept, and shown when something fails.
//! - Frames are its mbufs, of one memory that all ports share, on huge pages if there are some: a packet goes through
//!   the chain where it lies, and leaves without being copied; from ports of another kind with one copy.
//! - What elements hold is bounded: beyond it, what comes in is copied to the heap, and its frame goes back.
//! - A device has one queue or several; each belongs to one worker ([`Dpdk::open_for`]), or one worker has all.
//! - No offloads are asked for. What a virtual interface's peer has left unfinished is finished.
//! - What can be wrong at the start is looked at before, and said with what to type ([`DpdkError`]).
//!
//! Without the feature `dpdk` nothing of DPDK is needed, and [`Dpdk::start`] says so. All `unsafe` code is in `ffi`,
//! and in `shim.c`, which calls DPDK's inline functions for whole bursts.
#![deny(unsafe_code)]

mod error;
mod spec;

#[cfg(any(feature = "dpdk", test))]
mod arguments;
#[cfg(any(feature = "dpdk", test))]
mod host;

#[cfg(feature = "dpdk")]
mod family;
#[cfg(feature = "dpdk")]
mod ffi;
#[cfg(feature = "dpdk")]
mod group;
#[cfg(feature = "dpdk")]
mod opened;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod queue;

#[cfg(any(not(feature = "dpdk"), test))]
#[cfg_attr(
    feature = "dpdk",
    allow(dead_code, reason = "tested, whatever is built")
)]
mod absent;

pub use error::DpdkError;
pub use spec::{Bus, DESCRIPTORS, MAX_FRAMES, MAX_QUEUES, Spec};

#[cfg(not(feature = "dpdk"))]
pub use absent::{Dpdk, DpdkPort};
#[cfg(feature = "dpdk")]
pub use family::Dpdk;
#[cfg(feature = "dpdk")]
pub use port::DpdkPort;
