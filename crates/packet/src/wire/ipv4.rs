//! IPv4 (RFC 791).

use super::{be16, be32, put, view};
use crate::checksum;

view! {
    /// An IPv4 header.
    20
}

/// IP protocol numbers.
pub mod proto {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMPv6.
    pub const ICMP6: u8 = 58;
}

/// Don't-fragment flag in the fragment word.
pub const DF: u16 = 0x4000;
/// More-fragments flag in the fragment word.
pub const MF: u16 = 0x2000;
/// Reserved flag in the fragment word.
pub const RF: u16 = 0x8000;
/// Mask of the fragment offset (8-byte units).
pub const OFFSET_MASK: u16 = 0x1fff;

impl<T: AsRef<[u8]>> Header<T> {
    /// Version (4).
    #[inline]
    pub fn version(&self) -> u8 {
        self.b()[0] >> 4
    }
    /// Header length in bytes as the header says (may be below 20 or beyond the data).
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.b()[0] & 15) * 4
    }
    /// Type of service: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.b()[1]
    }
    /// Total length as the header says.
    #[inline]
    pub fn total_len(&self) -> u16 {
        be16(self.b(), 2)
    }
    /// Identification.
    pub fn id(&self) -> u16 {
        be16(self.b(), 4)
    }
    /// Flags and fragment offset.
    #[inline]
    pub fn frag_word(&self) -> u16 {
        be16(self.b(), 6)
    }
    /// A fragment (first, middle or last).
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.frag_word() & (MF | OFFSET_MASK) != 0
    }
    /// Unfragmented or the first fragment: the transport header is here.
    #[inline]
    pub fn is_first_fragment(&self) -> bool {
        self.frag_word() & OFFSET_MASK == 0
    }
    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.b()[8]
    }
    /// Protocol.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.b()[9]
    }
    /// Header checksum field.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.b(), 10)
    }
    /// Source address.
    #[inline]
    pub fn src(&self) -> [u8; 4] {
        be32(self.b(), 12).to_be_bytes()
    }
    /// Destination address.
    #[inline]
    pub fn dst(&self) -> [u8; 4] {
        be32(self.b(), 16).to_be_bytes()
    }
    /// The option bytes, cut to what is there.
    pub fn options(&self) -> &[u8] {
        let end = self.header_len().min(self.b().len()).max(LEN);
        &self.b()[LEN..end]
    }
    /// Where the packet is going in the end: the last address of a source route option, or the destination address. The
    /// pseudo-header of transport checksums has this one (RFC 1122, 3.2.1.8).
    pub fn final_dst(&self) -> [u8; 4] {
        let mut o = self.options();
        // Bound: 40 option bytes, each turn removes at least one.
        while let Some(&kind) = o.first() {
            match kind {
                0 => break,
                1 => o = &o[1..],
                _ => {
                    let n = usize::from(o.get(1).copied().unwrap_or(0));
                    if n < 2 || n > o.len() {
                        break;
                    }
                    if matches!(kind, 131 | 137) && n >= 7 {
                        return be32(o, n - 4).to_be_bytes();
                    }
                    o = &o[n..];
                }
            }
        }
        self.dst()
    }
    /// What follows the header, up to the total length, cut to what is there.
    pub fn payload(&self) -> &[u8] {
        let b = self.b();
        let start = self.header_len().max(LEN).min(b.len());
        let end = usize::from(self.total_len()).clamp(start, b.len());
        &b[start..end]
    }
    /// The header's checksum as it should be.
    pub fn computed_checksum(&self) -> u16 {
        let end = self.header_len().clamp(LEN, self.b().len());
        let b = &self.b()[..end];
        !checksum::fold(checksum::sum(&b[..10], checksum::sum(&b[12..], 0)))
    }
    /// The checksum over the header as it stands comes to all ones.
    #[inline]
    pub fn checksum_ok(&self) -> bool {
        let n = self.header_len();
        if let (true, Some(h)) = (n == LEN, self.b().first_chunk()) {
            return checksum::header_ok(h);
        }
        let end = n.clamp(LEN, self.b().len());
        checksum::internet(&self.b()[..end]) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets version and header length (bytes, a multiple of four).
    pub fn set_version_header_len(&mut self, len: usize) {
        self.0.as_mut()[0] = 0x40 | (len / 4) as u8 & 15;
    }
    /// Sets the type of service.
    #[inline]
    pub fn set_tos(&mut self, v: u8) {
        self.0.as_mut()[1] = v;
    }
    /// Sets the total length.
    pub fn set_total_len(&mut self, v: u16) {
        put(self.0.as_mut(), 2, v.to_be_bytes());
    }
    /// Sets the identification.
    pub fn set_id(&mut self, v: u16) {
        put(self.0.as_mut(), 4, v.to_be_bytes());
    }
    /// Sets flags and fragment offset.
    pub fn set_frag_word(&mut self, v: u16) {
        put(self.0.as_mut(), 6, v.to_be_bytes());
    }
    /// Sets the time to live.
    #[inline]
    pub fn set_ttl(&mut self, v: u8) {
        self.0.as_mut()[8] = v;
    }
    /// Sets the protocol.
    pub fn set_protocol(&mut self, v: u8) {
        self.0.as_mut()[9] = v;
    }
    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, v: u16) {
        put(self.0.as_mut(), 10, v.to_be_bytes());
    }
    /// Sets the source address; the checksum is left alone.
    #[inline]
    pub fn set_src(&mut self, a: [u8; 4]) {
        put(self.0.as_mut(), 12, a);
    }
    /// Sets the destination address; the checksum is left alone.
    #[inline]
    pub fn set_dst(&mut self, a: [u8; 4]) {
        put(self.0.as_mut(), 16, a);
    }
    /// Recomputes the header checksum.
    pub fn fill_checksum(&mut self) {
        let c = self.computed_checksum();
        self.set_checksum(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The well-known example header with checksum 0xb861.
    #[test]
    fn known_header() {
        let mut b = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        let h = Header::parse(&b[..]).unwrap();
        assert!(h.checksum_ok());
        assert_eq!(h.computed_checksum(), 0xb861);
        assert_eq!((h.header_len(), h.total_len(), h.ttl()), (20, 0x73, 64));
        let mut h = Header::parse(&mut b[..]).unwrap();
        h.set_ttl(63);
        assert!(!h.checksum_ok());
        h.fill_checksum();
        assert!(h.checksum_ok());
    }

    #[test]
    fn source_route_leads_to_its_last_address() {
        let mut b = [0u8; 32];
        b[0] = 0x48;
        b[16..20].copy_from_slice(&[9, 9, 9, 9]);
        // no-operation, loose source route with one address, end of list
        b[20..32].copy_from_slice(&[1, 131, 7, 4, 1, 2, 3, 4, 0, 137, 7, 4]);
        assert_eq!(Header::parse(&b[..]).unwrap().final_dst(), [1, 2, 3, 4]);
        b[22] = 99; // longer than the header
        assert_eq!(Header::parse(&b[..]).unwrap().final_dst(), [9, 9, 9, 9]);
    }

    #[test]
    fn lying_lengths_do_not_panic() {
        for first in 0..=255u8 {
            for len in 0..70usize {
                let mut b = vec![0xffu8; len];
                if let Some(x) = b.first_mut() {
                    *x = first;
                }
                if let Some(h) = Header::parse(&b[..]) {
                    let _ = (
                        h.options(),
                        h.payload(),
                        h.computed_checksum(),
                        h.checksum_ok(),
                        h.final_dst(),
                    );
                }
            }
        }
    }
}
