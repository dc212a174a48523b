//! Ethernet II and IEEE 802.1Q.

use super::{be16, put, view};
use crate::{EtherAddr, PacketType};

view! {
    /// An Ethernet header: destination, source, type.
    14
}

/// EtherType values.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// 802.1Q customer VLAN tag.
    pub const VLAN: u16 = 0x8100;
    /// 802.1ad service VLAN tag.
    pub const QINQ: u16 = 0x88a8;
}

/// Bytes of a VLAN tag.
pub const VLAN_TAG_LEN: usize = 4;

impl<T: AsRef<[u8]>> Header<T> {
    /// Destination address.
    pub fn dst(&self) -> EtherAddr {
        EtherAddr::from_slice(self.b()).unwrap_or_default()
    }
    /// Source address.
    pub fn src(&self) -> EtherAddr {
        EtherAddr::from_slice(&self.b()[6..]).unwrap_or_default()
    }
    /// EtherType (or length).
    pub fn ethertype(&self) -> u16 {
        be16(self.b(), 12)
    }
    /// How the link layer would see this destination on an interface with address `own`, as a device does.
    pub fn packet_type(&self, own: Option<EtherAddr>) -> PacketType {
        let d = self.dst();
        if d.is_broadcast() {
            PacketType::Broadcast
        } else if d.is_group() {
            PacketType::Multicast
        } else if own.is_some_and(|o| o != d) {
            PacketType::OtherHost
        } else {
            PacketType::Host
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets the destination address.
    pub fn set_dst(&mut self, a: EtherAddr) {
        put(self.0.as_mut(), 0, a.0);
    }
    /// Sets the source address.
    pub fn set_src(&mut self, a: EtherAddr) {
        put(self.0.as_mut(), 6, a.0);
    }
    /// Sets the EtherType.
    pub fn set_ethertype(&mut self, t: u16) {
        put(self.0.as_mut(), 12, t.to_be_bytes());
    }
}
