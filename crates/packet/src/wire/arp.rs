//! ARP for IPv4 over Ethernet (RFC 826).

use super::{be16, put, view};
use crate::EtherAddr;

view! {
    /// An Ethernet/IPv4 ARP message.
    28
}

/// Operation: request.
pub const REQUEST: u16 = 1;
/// Operation: reply.
pub const REPLY: u16 = 2;

impl<T: AsRef<[u8]>> Header<T> {
    /// Hardware type (1 for Ethernet).
    pub fn hardware(&self) -> u16 {
        be16(self.b(), 0)
    }
    /// Protocol type (0x0800 for IPv4).
    pub fn protocol(&self) -> u16 {
        be16(self.b(), 2)
    }
    /// Hardware address length.
    pub fn hardware_len(&self) -> u8 {
        self.b()[4]
    }
    /// Protocol address length.
    pub fn protocol_len(&self) -> u8 {
        self.b()[5]
    }
    /// Operation.
    pub fn operation(&self) -> u16 {
        be16(self.b(), 6)
    }
    /// Sender hardware address.
    pub fn sender_ether(&self) -> EtherAddr {
        EtherAddr::from_slice(&self.b()[8..]).unwrap_or_default()
    }
    /// Sender protocol address.
    pub fn sender_ip(&self) -> [u8; 4] {
        super::be32(self.b(), 14).to_be_bytes()
    }
    /// Target hardware address.
    pub fn target_ether(&self) -> EtherAddr {
        EtherAddr::from_slice(&self.b()[18..]).unwrap_or_default()
    }
    /// Target protocol address.
    pub fn target_ip(&self) -> [u8; 4] {
        super::be32(self.b(), 24).to_be_bytes()
    }
    /// The fixed fields say Ethernet and IPv4.
    pub fn is_ether_ipv4(&self) -> bool {
        self.hardware() == 1
            && self.protocol() == 0x0800
            && self.hardware_len() == 6
            && self.protocol_len() == 4
    }
}

/// The bytes of an ARP message.
pub fn build(
    operation: u16,
    sender: (EtherAddr, [u8; 4]),
    target: (EtherAddr, [u8; 4]),
) -> [u8; LEN] {
    let mut b = [0u8; LEN];
    put(&mut b, 0, 1u16.to_be_bytes());
    put(&mut b, 2, 0x0800u16.to_be_bytes());
    b[4] = 6;
    b[5] = 4;
    put(&mut b, 6, operation.to_be_bytes());
    put(&mut b, 8, sender.0.0);
    put(&mut b, 14, sender.1);
    put(&mut b, 18, target.0.0);
    put(&mut b, 24, target.1);
    b
}
