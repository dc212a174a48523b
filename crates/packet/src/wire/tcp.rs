//! TCP (RFC 9293).

use super::{be16, be32, put, view};

view! {
    /// A TCP header.
    20
}

/// Flag bits.
#[rustfmt::skip]
pub mod flag {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronize.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// Acknowledgment valid.
    pub const ACK: u8 = 0x10;
    /// Urgent pointer valid.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

impl<T: AsRef<[u8]>> Header<T> {
    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        be16(self.b(), 0)
    }
    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        be16(self.b(), 2)
    }
    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        be32(self.b(), 4)
    }
    /// Acknowledgment number.
    pub fn ack(&self) -> u32 {
        be32(self.b(), 8)
    }
    /// Header length in bytes as the header says.
    pub fn header_len(&self) -> usize {
        usize::from(self.b()[12] >> 4) * 4
    }
    /// Flags; see [`flag`].
    #[inline]
    pub fn flags(&self) -> u8 {
        self.b()[13]
    }
    /// Window.
    pub fn window(&self) -> u16 {
        be16(self.b(), 14)
    }
    /// Checksum field.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.b(), 16)
    }
    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        be16(self.b(), 18)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&mut self, v: u16) {
        put(self.0.as_mut(), 0, v.to_be_bytes());
    }
    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&mut self, v: u16) {
        put(self.0.as_mut(), 2, v.to_be_bytes());
    }
    /// Sets the sequence number.
    pub fn set_sequence(&mut self, v: u32) {
        put(self.0.as_mut(), 4, v.to_be_bytes());
    }
    /// Sets the acknowledgment number.
    pub fn set_ack(&mut self, v: u32) {
        put(self.0.as_mut(), 8, v.to_be_bytes());
    }
    /// Sets the header length (bytes, a multiple of four).
    pub fn set_header_len(&mut self, len: usize) {
        let b = &mut self.0.as_mut()[12];
        *b = *b & 15 | ((len / 4) as u8) << 4;
    }
    /// Sets the flags.
    pub fn set_flags(&mut self, v: u8) {
        self.0.as_mut()[13] = v;
    }
    /// Sets the window.
    pub fn set_window(&mut self, v: u16) {
        put(self.0.as_mut(), 14, v.to_be_bytes());
    }
    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, v: u16) {
        put(self.0.as_mut(), 16, v.to_be_bytes());
    }
}
