//! Annotations: what travels with a packet but not on the wire.

use crate::Timestamp;

/// How the link layer saw the packet's destination (Click's packet-type annotation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum PacketType {
    /// Sent to this host.
    #[default]
    Host = 0,
    /// Sent to the link-layer broadcast address.
    Broadcast = 1,
    /// Sent to a link-layer multicast address.
    Multicast = 2,
    /// Sent to another host, seen promiscuously.
    OtherHost = 3,
    /// Sent by this host.
    Outgoing = 4,
    /// Looped back.
    Loopback = 5,
    /// Fast-routed.
    FastRoute = 6,
}

/// The place of a named annotation in the 48-byte annotation area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnnoField {
    /// First byte, 0 to 47.
    pub offset: u8,
    /// Bytes.
    pub size: u8,
}

/// Click's named annotations (offset and size in the 48-byte area); several overlap, as in Click.
#[rustfmt::skip]
pub mod anno_field {
    use super::AnnoField;
    const fn f(offset: u8, size: u8) -> AnnoField { AnnoField { offset, size } }
    /// IPv4 address that the next hop look-up uses.
    pub const DST_IP: AnnoField = f(0, 4);
    /// IPv6 address that the next hop look-up uses.
    pub const DST_IP6: AnnoField = f(0, 16);
    /// Paint colour.
    pub const PAINT: AnnoField = f(16, 1);
    /// Offset that an ICMP parameter-problem message points at.
    pub const ICMP_PARAMPROB: AnnoField = f(17, 1);
    /// Set: FixIPSrc rewrites the source address.
    pub const FIX_IP_SRC: AnnoField = f(19, 1);
    /// VLAN tag control information.
    pub const VLAN_TCI: AnnoField = f(20, 2);
    /// Aggregate number.
    pub const AGGREGATE: AnnoField = f(20, 4);
    /// Forward rate.
    pub const FWD_RATE: AnnoField = f(20, 4);
    /// Spare IP address.
    pub const MISC_IP: AnnoField = f(20, 4);
    /// Packets that this one stands for, less one.
    pub const EXTRA_PACKETS: AnnoField = f(24, 4);
    /// Reverse rate.
    pub const REV_RATE: AnnoField = f(24, 4);
    /// Bytes of the original frame that are not in the buffer.
    pub const EXTRA_LENGTH: AnnoField = f(28, 4);
    /// Time stamp of a flow's first packet.
    pub const FIRST_TIMESTAMP: AnnoField = f(32, 8);
    /// Packet number.
    pub const PACKET_NUMBER: AnnoField = f(32, 4);
    /// IPsec SPI.
    pub const IPSEC_SPI: AnnoField = f(32, 4);
    /// Sequence number.
    pub const SEQUENCE_NUMBER: AnnoField = f(36, 4);
    /// Cycle counter.
    pub const PERFCTR: AnnoField = f(40, 8);
}

/// All annotations of a packet. Header offsets are kept by [`crate::Packet`] relative to its buffer.
///
/// What every packet has stands first, in one cache line with the packet's own fields; the area behind is cleared only
/// if somebody has written to it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Anno {
    /// Time stamp annotation.
    pub timestamp: Timestamp,
    /// Ingress chain port (index given by the engine), if the packet came from outside.
    pub ingress: Option<u16>,
    /// Packet-type annotation.
    pub packet_type: PacketType,
    /// The area may hold something else than zeros.
    used: bool,
    bytes: [u8; 48],
}

impl PartialEq for Anno {
    fn eq(&self, o: &Anno) -> bool {
        let key = |a: &Anno| (a.timestamp, a.ingress, a.packet_type);
        key(self) == key(o) && self.bytes == o.bytes
    }
}
impl Eq for Anno {}

impl Default for Anno {
    fn default() -> Self {
        Anno {
            timestamp: Timestamp::ZERO,
            ingress: None,
            packet_type: PacketType::Host,
            used: false,
            bytes: [0; 48],
        }
    }
}

impl Anno {
    /// The 48-byte user annotation area; see [`anno_field`].
    #[inline]
    pub fn bytes(&self) -> &[u8; 48] {
        &self.bytes
    }
    /// [`Anno::bytes`], to be changed.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8; 48] {
        self.used = true;
        &mut self.bytes
    }
    /// All of the area is zero afterwards.
    #[inline]
    pub fn clear_bytes(&mut self) {
        if self.used {
            self.bytes = [0; 48];
            self.used = false;
        }
    }
    /// As [`Anno::default`].
    #[inline]
    pub fn clear(&mut self) {
        self.clear_bytes();
        self.timestamp = Timestamp::ZERO;
        self.ingress = None;
        self.packet_type = PacketType::Host;
    }
    /// May the area hold something else than zeros?
    #[inline]
    pub(crate) fn used(&self) -> bool {
        self.used
    }
    /// As [`Anno::default`] with this time, where the area is zero.
    #[inline]
    pub(crate) fn fresh(&mut self, at: Timestamp) {
        self.timestamp = at;
        self.ingress = None;
        self.packet_type = PacketType::Host;
    }
    /// The paint annotation.
    pub fn paint(&self) -> u8 {
        self.bytes[16]
    }
    /// Sets the paint annotation.
    pub fn set_paint(&mut self, v: u8) {
        self.bytes_mut()[16] = v;
    }
    /// The destination IPv4 annotation, network byte order.
    pub fn dst_ip(&self) -> [u8; 4] {
        [self.bytes[0], self.bytes[1], self.bytes[2], self.bytes[3]]
    }
    /// Sets the destination IPv4 annotation.
    pub fn set_dst_ip(&mut self, a: [u8; 4]) {
        self.bytes_mut()[..4].copy_from_slice(&a);
    }
    /// The destination IPv6 annotation.
    pub fn dst_ip6(&self) -> [u8; 16] {
        let mut a = [0; 16];
        a.copy_from_slice(&self.bytes[..16]);
        a
    }
    /// Sets the destination IPv6 annotation.
    pub fn set_dst_ip6(&mut self, a: [u8; 16]) {
        self.bytes_mut()[..16].copy_from_slice(&a);
    }
    /// The VLAN tag control information (host order).
    pub fn vlan_tci(&self) -> u16 {
        u16::from_be_bytes([self.bytes[20], self.bytes[21]])
    }
    /// Sets the VLAN tag control information (host order); stored in network order, as Click does.
    pub fn set_vlan_tci(&mut self, v: u16) {
        self.bytes_mut()[20..22].copy_from_slice(&v.to_be_bytes());
    }
    /// One byte; 0 outside the area.
    pub fn u8(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or(0)
    }
    /// Sets one byte; ignored outside the area.
    pub fn set_u8(&mut self, offset: usize, v: u8) {
        if let Some(b) = self.bytes_mut().get_mut(offset) {
            *b = v;
        }
    }
    /// A native-order 32-bit value (as Click's `anno_u32`); 0 where it does not fit.
    pub fn u32(&self, offset: usize) -> u32 {
        match self.bytes.get(offset..).and_then(|b| b.first_chunk::<4>()) {
            Some(b) => u32::from_ne_bytes(*b),
            None => 0,
        }
    }
    /// Sets a native-order 32-bit value; ignored where it does not fit.
    pub fn set_u32(&mut self, offset: usize, v: u32) {
        if let Some(b) = self.bytes_mut().get_mut(offset..offset.saturating_add(4)) {
            b.copy_from_slice(&v.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_packet_has_is_in_one_cache_line() {
        use crate::Packet;
        let before = std::mem::offset_of!(Packet, anno) + std::mem::offset_of!(Anno, bytes);
        assert!(before <= 64 && size_of::<Packet>() == 128, "{before}");
    }

    #[test]
    fn cleared_is_new() {
        let mut a = Anno::default();
        a.set_u32(40, 7);
        a.set_paint(3);
        a.ingress = Some(1);
        a.timestamp = Timestamp::from_secs(9);
        a.packet_type = PacketType::Multicast;
        assert_ne!(a, Anno::default());
        a.clear();
        assert_eq!(a, Anno::default());
        assert_eq!(*a.bytes(), [0; 48]);
    }
}
