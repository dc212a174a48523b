//! Network functions in processes of their own: what they share, and how they are launched.
//!
//! A chain's processes share one [`Region`] of memory: slots for packets, and rings of descriptors that say where a
//! packet lies. A packet that goes from one function to the next one is a descriptor put into the next one's ring by
//! who had it: no copy, no system call but where somebody sleeps, and nobody in between.
//!
//! - [`Region`] and its [`Shape`]: what lies where. [`Plan`]: which rings lead where.
//! - [`Producer`], [`Consumer`]: the two ends of a ring; occupancy and length can be read by others.
//! - [`Seat`]: a process's ends of all its rings, the slots that it has, how it sleeps and is woken ([`bell`]).
//! - [`reclaim()`]: what a process had that has ended; [`quiet`]: is nothing under way?
//! - [`Process`], [`Channel`]: launching, and what a process is told and says. [`Isolation`]: in namespaces of its own.
//! - [`native`]: the place of a program of its own, for the C library (crate `nf-c`) and for programs in Rust.
//! - [`storage`]: files that are read and written while packets go on.
//! - [`service`]: how long a process takes for a packet, for others to read; [`cycles`]: the processor's own clock.
//! - [`ecn`]: marks on packets that say that a ring fills up.
//!
//! **No peer is trusted.** What is read from the region are numbers that anybody may have written: counters are
//! checked against what they can be, slot numbers and lengths against what there is, a slot that a process has already
//! is not taken again, and every sleep ends by itself. A process that writes whatever it likes can spoil packets and
//! stop its chain; it cannot make another one read or write beyond the region, or go round for ever. Sizes are sealed.
//!
//! ```
//! use onefold_nf::{Plan, Region, Seat, Shape};
//! use std::sync::Arc;
//!
//! // the launcher and one function, a ring each way
//! let shape = Shape { nfs: 2, rings: 0, places: 64, slots: 128, slot_bytes: 2112 };
//! let plan = Plan::new(shape, &[(0, 1), (1, 0)])?;
//! let region = Arc::new(Region::heap(plan.shape)?);
//! let mut launcher = Seat::new(region.clone(), &plan, 0, vec![])?;
//! let mut function = Seat::new(region, &plan, 1, vec![])?;
//!
//! let mut frame = launcher.take_slot().ok_or("no slot")?;
//! frame[64..67].copy_from_slice(b"abc");
//! let packet = launcher.describe(frame, 64, 3).ok_or("no frame of the region")?;
//! launcher.queue(0, packet);
//! launcher.flush()?;
//!
//! let mut arrived = Vec::new();
//! assert_eq!(function.receive(0, &mut arrived, 32)?, 1);
//! assert_eq!(&arrived[0].frame[64..67], b"abc");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

pub mod atomics;
pub mod bell;
pub mod cycles;
pub mod ecn;
mod frames;
mod futex;
mod memory;
pub mod native;
mod plan;
mod process;
mod reclaim;
mod region;
pub mod ring;
mod seat;
pub mod service;
mod space;
pub mod storage;
mod watch;
mod ways;

pub use frames::SharedFrames;
pub use memory::Memory;
pub use plan::{Plan, PlanError, Purpose, RingPlan};
pub use process::{Channel, LIFE, Process, State, TELL};
pub use reclaim::{Reclaimed, quiet, reclaim};
pub use region::{
    Classes, HEADROOM, MOST_NFS, MOST_RINGS, MOST_SLOTS, NO_CLASS, NfBlock, Orders, Region, Ring,
    Said, Shape, ShapeError, WhenFull,
};
pub use ring::{Consumer, Descriptor, MOST_PLACES, Producer, RingError, RingMemory, occupancy};
pub use seat::{Arrived, LONGEST_SLEEP, SPARE_SLOTS, Seat, SeatError, Waker};
pub use space::{Isolation, NetSpace, Network, unprepared};
pub use watch::Watch;
pub use ways::Ways;
