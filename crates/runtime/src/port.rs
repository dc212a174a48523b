//! What a port is.

use onefold_packet::{Pkt, Timestamp};

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
}

/// How far a port is with what it gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read so far.
    pub read: u64,
    /// Bytes in all, if that is known.
    pub total: Option<u64>,
}

/// Where packets come from and go to.
pub trait Port: Send {
    /// When the next packet arrives; `None`: no more do. The same until it has been received.
    fn next_at(&mut self) -> Option<Timestamp>;

    /// Adds packets that arrive before `until`, `n` at most, to the end of `batch`, each with its time in its annotation. Their buffers are taken from
    /// `free`, which has `n` at least.
    fn receive(&mut self, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, until: Timestamp, n: usize);

    /// Packets leave here, in this order. Those that have no time leave at `now`. The packets stay in `packets`.
    ///
    /// # Errors
    /// When they cannot be written.
    fn transmit(&mut self, packets: &[Pkt], now: Timestamp) -> Result<(), PortError>;

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
}
