//! ICMP (RFC 792).

use super::{be16, put, view};

view! {
    /// An ICMP header: type, code, checksum, and four bytes that depend on the type.
    8
}

/// ICMP types.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench.
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp request.
    pub const TIMESTAMP: u8 = 13;
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: u8 = 14;
}

impl<T: AsRef<[u8]>> Header<T> {
    /// Type.
    pub fn kind(&self) -> u8 {
        self.b()[0]
    }
    /// Code.
    pub fn code(&self) -> u8 {
        self.b()[1]
    }
    /// Checksum field.
    pub fn checksum(&self) -> u16 {
        be16(self.b(), 2)
    }
    /// Identifier (echo, timestamp).
    pub fn id(&self) -> u16 {
        be16(self.b(), 4)
    }
    /// Sequence number (echo, timestamp).
    pub fn sequence(&self) -> u16 {
        be16(self.b(), 6)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets type and code.
    pub fn set_kind_code(&mut self, kind: u8, code: u8) {
        put(self.0.as_mut(), 0, [kind, code]);
    }
    /// Sets the checksum field.
    pub fn set_checksum(&mut self, v: u16) {
        put(self.0.as_mut(), 2, v.to_be_bytes());
    }
    /// Sets the identifier.
    pub fn set_id(&mut self, v: u16) {
        put(self.0.as_mut(), 4, v.to_be_bytes());
    }
    /// Sets the sequence number.
    pub fn set_sequence(&mut self, v: u16) {
        put(self.0.as_mut(), 6, v.to_be_bytes());
    }
}
