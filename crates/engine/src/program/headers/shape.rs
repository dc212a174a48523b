//! Shapes: which headers a packet has, and where they are.
//!
//! A shape says what a flow's key is: addresses and ports; of an echo message, addresses and identifier; of everything else, addresses
//! alone. What a shape does not say and some filter asks is [guarded](crate::flow::masked_match).

use crate::simd::WINDOW;

/// What stands behind the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    /// ICMP echo requests and replies, of IPv4.
    Echo,
    /// Anything else, also extension headers.
    Other,
}

/// Least bytes of a transport header that can be rewritten: up to the checksum.
const TCP_LEAST: usize = 20;
const UDP_LEAST: usize = 8;

const ICMP: u8 = 1;
/// Types of echo messages.
pub(crate) const ECHO: [u8; 2] = [0, 8];

/// Where the headers are: IPv4 without options that is no fragment, or IPv6; with or without a VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// First byte of the IP header.
    pub l3: usize,
    pub v6: bool,
    pub transport: Transport,
}

const fn shape(l3: usize, v6: bool, transport: Transport) -> Shape {
    Shape { l3, v6, transport }
}

/// All of them, those first that a packet is taken for if it fits several.
const ALL: [Shape; 14] = {
    use Transport::{Echo, Other, Tcp, Udp};
    [
        shape(14, false, Udp),
        shape(14, false, Tcp),
        shape(14, true, Udp),
        shape(14, true, Tcp),
        shape(18, false, Udp),
        shape(18, false, Tcp),
        shape(18, true, Udp),
        shape(18, true, Tcp),
        shape(14, false, Echo),
        shape(18, false, Echo),
        shape(14, false, Other),
        shape(14, true, Other),
        shape(18, false, Other),
        shape(18, true, Other),
    ]
};

impl Shape {
    /// All of them, in a fixed order.
    pub const fn all() -> [Shape; 14] {
        ALL
    }
    pub fn tcp(self) -> bool {
        self.transport == Transport::Tcp
    }
    pub fn udp(self) -> bool {
        self.transport == Transport::Udp
    }
    pub fn echo(self) -> bool {
        self.transport == Transport::Echo
    }
    /// First byte of the transport header.
    pub fn l4(self) -> usize {
        self.l3 + if self.v6 { 40 } else { 20 }
    }
    /// Least bytes from the IP header's first one.
    pub fn least(self) -> usize {
        let transport = match self.transport {
            Transport::Tcp => TCP_LEAST,
            Transport::Udp | Transport::Echo => UDP_LEAST,
            Transport::Other => 0,
        };
        self.l4() - self.l3 + transport
    }
    /// Bits of the window that the shape says, and what they are.
    pub fn fixed(self) -> ([u8; WINDOW], [u8; WINDOW]) {
        let (mut mask, mut value) = ([0; WINDOW], [0; WINDOW]);
        let mut set = |at: usize, m: u8, v: u8| {
            if let (Some(x), Some(y)) = (mask.get_mut(at), value.get_mut(at)) {
                (*x, *y) = (m, v);
            }
        };
        let l3 = self.l3;
        if l3 == 18 {
            set(12, 0xff, 0x81);
            set(13, 0xff, 0);
        }
        let (hi, lo) = if self.v6 { (0x86, 0xdd) } else { (8, 0) };
        set(l3 - 2, 0xff, hi);
        set(l3 - 1, 0xff, lo);
        let protocol = match self.transport {
            Transport::Tcp => Some(6),
            Transport::Udp => Some(17),
            Transport::Echo => Some(1),
            Transport::Other => None,
        };
        if self.v6 {
            set(l3, 0xf0, 0x60);
        } else {
            set(l3, 0xff, 0x45);
            // neither more fragments nor an offset
            set(l3 + 6, 0x3f, 0);
            set(l3 + 7, 0xff, 0);
        }
        if let Some(p) = protocol {
            set(self.protocol(), 0xff, p);
        }
        if self.echo() {
            // 0 or 8
            set(self.l4(), 0xf7, 0);
        }
        (mask, value)
    }
    /// The byte that says what follows the IP header.
    pub fn protocol(self) -> usize {
        self.l3 + if self.v6 { 6 } else { 9 }
    }
    /// Protocols that have shapes of their own, at least some of their packets: boxes of this shape tell them from others.
    pub fn special(self) -> &'static [u8] {
        match (self.transport, self.v6) {
            (Transport::Other, false) => &[ICMP, 6, 17],
            (Transport::Other, true) => &[6, 17],
            _ => &[],
        }
    }
    /// Protocols that no packet of this shape has.
    pub fn never(self) -> &'static [u8] {
        match self.transport {
            Transport::Other => &[6, 17],
            // what it is is said
            _ => &[],
        }
    }
    /// Is a packet not for this shape, though nothing else speaks against it? It has one of its own.
    pub fn excludes(self, w: &[u8; WINDOW]) -> bool {
        match w.get(self.protocol()) {
            Some(&ICMP) if !self.v6 => {
                self.is_icmp(w) && w.get(self.l4()).is_none_or(|t| t & 0xf7 == 0)
            }
            Some(p) => self.special().contains(p),
            None => true,
        }
    }
    /// Is it ICMP for IPv4, and no echo by its shape?
    pub fn is_icmp(self, w: &[u8; WINDOW]) -> bool {
        let other = self.transport == Transport::Other && !self.v6;
        other && w.get(self.protocol()) == Some(&ICMP)
    }
    /// First byte of the addresses, and the one behind them.
    pub fn addresses(self) -> (usize, usize) {
        match self.v6 {
            true => (self.l3 + 8, self.l3 + 40),
            false => (self.l3 + 12, self.l3 + 20),
        }
    }
    /// First byte of the ports, or of the identifier, and the one behind them; nothing where there are none.
    pub fn ports(self) -> (usize, usize) {
        let l4 = self.l4();
        match self.transport {
            Transport::Tcp | Transport::Udp => (l4, l4 + 4),
            Transport::Echo => (l4 + 4, l4 + 6),
            Transport::Other => (l4, l4),
        }
    }
    /// Are these bits part of the key?
    pub fn in_key(self, bit: i32, bits: u8) -> bool {
        let end = bit + i32::from(bits);
        let within = |(from, to): (usize, usize)| bit >= from as i32 * 8 && end <= to as i32 * 8;
        // one piece, where ports follow addresses
        let ((from, next), (ports, to)) = (self.addresses(), self.ports());
        match next == ports {
            true => within((from, to)),
            false => within((from, next)) || within((ports, to)),
        }
    }
    /// Is any of these bits part of the key?
    pub fn meets_key(self, bit: i32, bits: u8) -> bool {
        (bit..bit + i32::from(bits)).any(|b| self.in_key(b, 1))
    }
    /// Does the shape say what these bits are?
    pub fn in_shape(self, bit: i32, bits: u8) -> bool {
        let (mask, _) = self.fixed();
        (bit..bit + i32::from(bits)).all(|b| {
            let byte = usize::try_from(b / 8).ok().and_then(|i| mask.get(i));
            byte.is_some_and(|m| b >= 0 && m >> (7 - b % 8) & 1 == 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No bit is both part of a key and said by the shape, and all keys are within the window.
    #[test]
    fn keys_are_what_shapes_leave_open() {
        for s in Shape::all() {
            for bit in 0..WINDOW as i32 * 8 {
                assert!(!(s.in_key(bit, 1) && s.in_shape(bit, 1)), "{s:?} {bit}");
            }
            assert!(
                s.ports().1 <= WINDOW && s.l3 + s.least() >= s.ports().1,
                "{s:?}"
            );
        }
    }
}
