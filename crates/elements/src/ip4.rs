//! Small helpers around the IPv4 header that a packet's network header annotation points at.

use onefold_element::model::{Base, Case, Cond, Exit, Read, ValueSet, field};
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

/// Guards that a model begins with: packets without a marked network header, or with fewer than 20 bytes of it, leave
/// so.
pub(crate) fn unless_header(exit: Exit) -> [Case; 2] {
    [
        Case::new(Cond::In(Read::HasNet, ValueSet::one(0)), exit.clone()),
        Case::new(Cond::less(Read::NetLen, 20), exit),
    ]
}

/// Guards behind [`unless_header`]: header lengths below 20 bytes leave so.
pub(crate) fn unless_ihl(exit: Exit) -> Case {
    Case::new(Cond::between(field::IP_IHL, 0, 4), exit)
}

/// A guard for models that want headers of 20 bytes: packets with options are punted.
pub(crate) fn punt_options() -> Case {
    let more = Cond::between(field::IP_IHL, 6, 15);
    Case::new(more, Exit::Punt("IP options"))
}

/// Neither a first nor a later fragment: the more-fragments flag and the offset are zero.
pub(crate) fn whole_packet() -> Cond {
    Cond::eq(onefold_element::model::bits(Base::Net, 50, 14), 0)
}
