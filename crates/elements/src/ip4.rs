//! Small helpers around the IPv4 header that a packet's network header annotation points at.

use onefold_packet::Packet;
use onefold_packet::wire::ipv4;

/// A view of the IPv4 header; `None` without annotation or when fewer than 20 bytes are there.
#[inline]
pub(crate) fn header(p: &Packet) -> Option<ipv4::Header<&[u8]>> {
    ipv4::Header::parse(p.network()?)
}

/// [`header`], to be changed.
#[inline]
pub(crate) fn header_mut(p: &mut Packet) -> Option<ipv4::Header<&mut [u8]>> {
    ipv4::Header::parse(p.network_mut()?)
}

/// The header's length in bytes as it says, if that is at least 20 and all of it is there.
#[inline]
pub(crate) fn whole_header_len(p: &Packet) -> Option<usize> {
    let h = header(p)?;
    let n = h.header_len();
    (n >= ipv4::LEN && n <= h.bytes().len()).then_some(n)
}
