//! UDP (RFC 768).

use super::{be16, put, view};

view! {
    /// A UDP header.
    8
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
    /// Length as the header says.
    pub fn len(&self) -> u16 {
        be16(self.b(), 4)
    }
    /// The header says that there is not even a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Checksum field; 0 means none was computed.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.b(), 6)
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
    /// Sets the length.
    pub fn set_len(&mut self, v: u16) {
        put(self.0.as_mut(), 4, v.to_be_bytes());
    }
    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, v: u16) {
        put(self.0.as_mut(), 6, v.to_be_bytes());
    }
}
