//! Where a packet's data stands in its buffer, to be said and set again.

use crate::buffer::Packet;
use std::ops::Range;

impl Packet {
    /// Where the data stands in the buffer.
    #[inline]
    pub fn extent(&self) -> Range<u32> {
        self.head..self.tail
    }

    /// The data stands where it stood when [`Packet::extent`] said so. Nothing happens where there is no such place.
    #[inline]
    pub fn set_extent(&mut self, extent: Range<u32>) {
        if extent.start <= extent.end && extent.end as usize <= self.buf.len() {
            (self.head, self.tail) = (extent.start, extent.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_off_is_there_again() {
        let mut p = Packet::from_slice(b"header and data");
        let was = p.extent();
        p.pull(7);
        p.keep(3);
        assert_eq!(p.data(), b"and");
        p.set_extent(was.clone());
        assert_eq!(p.data(), b"header and data");
        p.set_extent(was.start..u32::MAX);
        p.set_extent(was.end..was.start);
        assert_eq!(p.extent(), was);
    }
}
