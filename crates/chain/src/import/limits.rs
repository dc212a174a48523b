//! Rates that rules ask for (`limit`): a bucket for each rule of a file.
//!
//! Where they are asked is said by [`super::asks`].

/// A rate: so many packets, or bytes, in so many seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many.
    pub rate: u64,
    /// Seconds.
    pub per: u64,
    /// How many at once, or bytes more.
    pub burst: u64,
    /// Bytes instead of packets.
    pub bytes: bool,
    /// It holds of packets beyond the rate instead of those within.
    pub over: bool,
}
