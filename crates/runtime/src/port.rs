//! What a port is.

use crate::worker::Count;
use onefold_packet::{Pkt, Timestamp};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Why a port cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// What leaves cannot be written.
    #[error("{port}: {error}")]
    Write {
        /// The port's name.
        port: String,
        /// Why not.
        error: onefold_capture::WriteError,
    },
    /// A port that gives packets only was given some.
    #[error("{port}: packets leave here, but the port only gives packets")]
    ReceivesOnly {
        /// The port's name.
        port: String,
    },
    /// A live port has failed in a way that it does not recover from.
    #[error("{port}: {doing}: {error}")]
    Device {
        /// The port's name.
        port: String,
        /// What it was doing.
        doing: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
}

/// The state of what a live port is connected to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkState {
    /// Packets can arrive and leave.
    #[default]
    Up,
    /// The interface is there, but down or without a carrier.
    Down,
    /// The interface is not there any more.
    Gone,
}

impl LinkState {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::Up => "up",
            LinkState::Down => "down",
            LinkState::Gone => "gone",
        }
    }
}

/// Packets that a port has lost, or has refused to take, for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Why, in the operator's words.
    pub reason: &'static str,
    /// How many packets.
    pub packets: u64,
}

/// Of a packet that neither the device nor the port's bounded backlog has room for.
pub const TRANSMIT_QUEUE_FULL: &str = "transmit queue full";

/// How far a port is with what it gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far.
    pub read: u64,
    /// Bytes in all, if that is known.
    pub total: Option<u64>,
}

/// Where packets come from and go to.
///
/// *Recorded* ports know when each of their packets arrives ([`Port::next_at`], [`Port::receive`]): the chain's clock
/// is the packets'. *Live* ports ([`Port::is_live`]) give what has arrived by now ([`Port::poll`]): the chain's clock
/// is the real one. The other half of the methods does nothing.
pub trait Port: Send {
    /// When the next packet arrives; `None`: no more do. The same until it has been received.
    fn next_at(&mut self) -> Option<Timestamp>;

    /// Adds packets that arrive before `until`, `n` at most, to the end of `batch`, each with its time in its
    /// annotation. Their buffers are taken from `free`, which has `n` at least.
    fn receive(&mut self, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, until: Timestamp, n: usize);

    /// Packets leave here, in this order. Those that have no time leave at `now`. Packets that stay in `packets` are
    /// used again by whoever called; a port takes out those whose frames it keeps.
    ///
    /// # Errors
    /// When they cannot be written.
    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError>;

    /// Nothing more leaves here: what is buffered is written.
    ///
    /// # Errors
    /// When it cannot be written.
    fn finish(&mut self) -> Result<(), PortError>;

    /// How far it is.
    fn progress(&self) -> Progress {
        Progress::default()
    }

    /// Remarks about what has been received: damage, foreign link types. Each once.
    fn take_warnings(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Do packets arrive in frames that the port waits for ([`onefold_packet::Packet::is_borrowed`])? They go back as
    /// soon as they have left, wherever that is.
    fn lends_frames(&self) -> bool {
        false
    }

    /// Are the last eight bytes of what arrives to say when it did? Of loads of experiments.
    fn stamps(&self) -> bool {
        false
    }

    /// Do packets arrive in real time?
    fn is_live(&self) -> bool {
        false
    }

    /// From now on packets may leave, and arrive if the chain `receives` any here. What a live port got before is not
    /// for the chain.
    ///
    /// # Errors
    /// When the device refuses.
    fn start(&mut self, _receives: bool) -> Result<(), PortError> {
        Ok(())
    }

    /// Adds packets that have arrived, `n` at most, to the end of `batch`; does not wait for any. Their buffers are
    /// taken from `free`, which has `n` at least. Their time is not set.
    ///
    /// # Errors
    /// When the device is broken; one that is down, or gone for the time being, just gives nothing.
    fn poll(
        &mut self,
        _free: &mut Vec<Pkt>,
        _batch: &mut Vec<Pkt>,
        _n: usize,
    ) -> Result<(), PortError> {
        Ok(())
    }

    /// Packets that have arrived, `most` at most, are taken from the device and dropped, for who takes none in: which
    /// were they? `None`: this port hands over what it is to drop.
    fn discard(&mut self, _most: u64) -> Option<Count> {
        None
    }

    /// Nothing more is taken in from the device; what has been taken in before still comes.
    fn stop(&mut self) {}

    /// Is there more that was taken in before [`Port::stop`]?
    fn has_more(&self) -> bool {
        false
    }

    /// Packets that wait for room in the device's queue: [`Port::flush`] tries again. A port states the most that
    /// wait; what is more is lost as [`TRANSMIT_QUEUE_FULL`].
    fn backlog(&self) -> usize {
        0
    }

    /// Tries to send what waits; does not wait for room.
    ///
    /// # Errors
    /// As [`Port::poll`].
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// The descriptor that becomes readable when packets arrive; `None`: there is none at present.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// A second descriptor that becomes readable when packets arrive, from other workers; asked for when the worker is
    /// about to sleep.
    fn wake_descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// How long a worker may sleep at most although the port has no [`Port::descriptor`]: nothing tells it of packets.
    fn longest_sleep(&self) -> Option<Duration> {
        None
    }

    /// The descriptor that becomes writable when there is room for what waits.
    fn send_descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Looks after the device: state of the link, an interface that has come back, counters of the kernel. Called
    /// several times a second (never between two packets of a batch). A remark if something has changed.
    fn attend(&mut self) -> Option<String> {
        None
    }

    /// Is the link up?
    fn link(&self) -> LinkState {
        LinkState::Up
    }

    /// What else was counted, in the operator's words; zeros are left out.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What was lost so far, by reason; reasons without packets are left out.
    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }
}
