//! Marks of packets and of connections: what rules ask of them, and what they make of them.
//!
//! A mark is a number of 32 bits. What a rule sets it to is made of single bits of the packet's mark and of its
//! connection's, some of them inverted: that is what `MARK`, `CONNMARK` and nft's `&`, `|` and `^` come to.

/// Whose mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkOf {
    /// The packet's.
    Packet,
    /// Its connection's.
    Connection,
}

/// A question about a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkTest {
    /// Whose. A packet without a connection fits no question about its connection's mark, negated or not.
    pub of: MarkOf,
    /// The bits that are looked at.
    pub mask: u32,
    /// They are in one of these ranges.
    pub ranges: Vec<(u32, u32)>,
    /// They are in none.
    pub not: bool,
}

impl MarkTest {
    /// Asks whether there is a connection at all.
    pub fn connected() -> MarkTest {
        MarkTest {
            of: MarkOf::Connection,
            mask: 0,
            ranges: vec![(0, 0)],
            not: false,
        }
    }
    /// The answer for a mark.
    pub fn holds(&self, mark: u32) -> bool {
        let v = mark & self.mask;
        self.ranges.iter().any(|(lo, hi)| (*lo..=*hi).contains(&v)) != self.not
    }
}

/// What a mark is set to: these bits of the packet's mark, these of its connection's, one against the other and against
/// `flip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MarkValue {
    /// Bits of the packet's mark.
    pub packet: u32,
    /// Bits of its connection's.
    pub connection: u32,
    /// Bits that are inverted.
    pub flip: u32,
}

impl MarkValue {
    /// A number.
    pub fn constant(n: u32) -> MarkValue {
        MarkValue {
            flip: n,
            ..MarkValue::default()
        }
    }
    /// The mark as it is.
    pub fn of(of: MarkOf) -> MarkValue {
        match of {
            MarkOf::Packet => MarkValue {
                packet: u32::MAX,
                ..MarkValue::default()
            },
            MarkOf::Connection => MarkValue {
                connection: u32::MAX,
                ..MarkValue::default()
            },
        }
    }
    /// `value & mask`
    pub fn and(self, mask: u32) -> MarkValue {
        MarkValue {
            packet: self.packet & mask,
            connection: self.connection & mask,
            flip: self.flip & mask,
        }
    }
    /// `value ^ n`
    pub fn xor(self, n: u32) -> MarkValue {
        MarkValue {
            flip: self.flip ^ n,
            ..self
        }
    }
    /// `value | n`
    pub fn or(self, n: u32) -> MarkValue {
        self.and(!n).xor(n)
    }
    /// One value against another, of which no bit comes from the same mark.
    pub fn with(self, other: MarkValue) -> MarkValue {
        MarkValue {
            packet: self.packet | other.packet,
            connection: self.connection | other.connection,
            flip: self.flip ^ other.flip,
        }
    }
    /// Of these marks.
    pub fn apply(self, packet: u32, connection: u32) -> u32 {
        packet & self.packet ^ connection & self.connection ^ self.flip
    }
}

/// What a rule changes before it decides, or goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The packet's mark. Where that needs its connection's and there is none, it stays.
    PacketMark(MarkValue),
    /// Its connection's mark, if there is one.
    ConnectionMark(MarkValue),
    /// It is of no connection.
    Untrack,
    /// Its header: the element that does it.
    Header(String),
}

impl Change {
    /// Must the connection's mark be known, or whether there is a connection?
    pub fn needs_connection(&self) -> bool {
        match self {
            Change::PacketMark(v) => v.connection != 0,
            Change::ConnectionMark(_) => true,
            Change::Untrack | Change::Header(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_their_operators_make_of_them() {
        let numbers = [0, 1, 0x10, 0xff00, 0x1234_5678, u32::MAX];
        for a in numbers {
            for m in numbers {
                let v = MarkValue::of(MarkOf::Packet);
                assert_eq!(v.and(m).apply(a, 7), a & m);
                assert_eq!(v.or(m).apply(a, 7), a | m);
                assert_eq!(v.xor(m).apply(a, 7), a ^ m);
                assert_eq!(v.and(m).or(5).xor(9).apply(a, 7), (a & m | 5) ^ 9);
                let c = MarkValue::of(MarkOf::Connection);
                // restored: bits of the packet's outside of the mask, those of the connection's within it
                assert_eq!(v.and(!m).with(c.and(m)).apply(a, 99), a & !m | 99 & m);
                assert_eq!(MarkValue::constant(m).apply(a, a), m);
            }
        }
    }

    #[test]
    fn questions_look_at_their_bits() {
        let mut t = MarkTest {
            of: MarkOf::Packet,
            mask: 0xff,
            ranges: vec![(1, 2), (5, 5)],
            not: false,
        };
        assert!(t.holds(0x101) && t.holds(5) && !t.holds(3));
        t.not = true;
        assert!(t.holds(3) && !t.holds(0x202));
        assert!(MarkTest::connected().holds(77));
    }
}
