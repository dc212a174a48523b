//! The declarative form of a filter: a tree of tests on header fields, with the place in the text that each came from.

use super::names::{IP_FIELDS, IP6_FIELDS, PROTOCOL, TCP_FLAGS, protocol_name};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of the rule's text that something came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Byte behind the last.
    pub end: u32,
}

/// A filter expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expr {
    /// `true`, `false`, `all`.
    Const(bool),
    /// A primitive.
    Test(Test),
    /// All of them hold (`and`).
    All(Vec<Expr>),
    /// At least one holds (`or`).
    Any(Vec<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// `c1 ? v1 : c2 ? v2 : ... : otherwise`.
    Choose {
        /// Conditions and what counts if they are the first to hold.
        cases: Vec<(Expr, Expr)>,
        /// What counts if no condition holds.
        otherwise: Box<Expr>,
    },
}

/// One primitive: a protocol, being the first fragment (if the check reads the transport header), and a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Where it stands.
    pub span: Span,
    /// The IP protocol that the packet must have.
    pub transport: Option<Transport>,
    /// What is looked at.
    pub check: Check,
}

/// A condition on the IP protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// This protocol.
    Protocol(u8),
    /// TCP or UDP.
    TcpOrUdp,
}

impl Transport {
    /// Is this one of its protocols?
    #[inline]
    pub fn has(self, protocol: u8) -> bool {
        match self {
            Transport::Protocol(p) => p == protocol,
            Transport::TcpOrUdp => matches!(protocol, 6 | 17),
        }
    }
}

impl Expr {
    /// What protocol every packet has that matches, if that is said: others need not be looked at.
    pub fn transport(&self) -> Option<Transport> {
        match self {
            Expr::Test(t) => t.transport,
            Expr::All(list) => list.iter().find_map(Expr::transport),
            Expr::Any(list) => {
                let first = list.first()?.transport();
                first.filter(|_| list.iter().all(|e| e.transport() == first))
            }
            Expr::Const(_) | Expr::Not(_) | Expr::Choose { .. } => None,
        }
    }

    /// Addresses of which every packet that matches has one: to be asked before the rest. `None` where that is not
    /// said.
    pub fn hosts(&self) -> Option<Vec<Host>> {
        match self {
            Expr::Test(Test {
                check:
                    Check::Host {
                        which,
                        addr,
                        mask,
                        negated: false,
                    },
                ..
            }) => {
                let one = |at| Host {
                    at,
                    addr: *addr,
                    mask: *mask,
                };
                Some(match which {
                    Which::Src | Which::Both => vec![one(HostAt::Source)],
                    Which::Dst => vec![one(HostAt::Destination)],
                    Which::Either => vec![one(HostAt::Source), one(HostAt::Destination)],
                })
            }
            Expr::All(list) => list.iter().find_map(Expr::hosts),
            Expr::Any(list) => {
                let all: Option<Vec<_>> = list.iter().map(Expr::hosts).collect();
                all.map(|l| l.concat())
            }
            _ => None,
        }
    }

    /// Does it look at MAC addresses?
    pub fn asks_mac(&self) -> bool {
        match self {
            Expr::Const(_) => false,
            Expr::Test(t) => matches!(t.check, Check::Ether { .. }),
            Expr::All(list) | Expr::Any(list) => list.iter().any(Expr::asks_mac),
            Expr::Not(e) => e.asks_mac(),
            Expr::Choose { cases, otherwise } => {
                let one = |(c, v): &(Expr, Expr)| c.asks_mac() || v.asks_mac();
                cases.iter().any(one) || otherwise.asks_mac()
            }
        }
    }
}

/// An IPv4 address, or the network that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Which of the two.
    pub at: HostAt,
    /// Bits outside the mask are zero.
    pub addr: u32,
    /// Mask.
    pub mask: u32,
}

/// One of a packet's two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostAt {
    /// Source.
    Source,
    /// Destination.
    Destination,
}

/// Which of a packet's two addresses or ports a test means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The source's.
    Src,
    /// The destination's.
    Dst,
    /// Both must fit.
    Both,
    /// One of them must fit.
    Either,
}

impl Which {
    /// Is the source's looked at?
    pub fn src(self) -> bool {
        self != Which::Dst
    }
    /// Is the destination's looked at?
    pub fn dst(self) -> bool {
        self != Which::Src
    }
}

/// Where a field's offset counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The network header.
    Net,
    /// The IPv6 header; see [`super::View6`].
    Net6,
    /// The transport header.
    Transport,
}

/// A numeric header field of 1 to 32 bits that lies within one aligned 32-bit word of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Which header.
    pub layer: Layer,
    /// First bit, counted from the header's start, most significant first.
    pub bit: u16,
    /// Number of bits.
    pub bits: u8,
}

impl Field {
    pub(super) const fn net(byte: u16, bytes: u8) -> Field {
        Field {
            layer: Layer::Net,
            bit: byte * 8,
            bits: bytes * 8,
        }
    }
    /// The largest value that it can have.
    pub fn max(self) -> u32 {
        u32::MAX >> (32 - u32::from(self.bits.clamp(1, 32)))
    }
}

/// A relation between a field and a number. `value` is a subset of `mask`; with `Op::Greater` it is less than `mask`.
/// A mask of zero makes the comparison constant: `0 == 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compare {
    /// Bits of the field that count.
    pub mask: u32,
    /// Equal or greater.
    pub op: Op,
    /// What the field is compared with.
    pub value: u32,
    /// The opposite relation (`!=`, `<=`). Unlike [`Expr::Not`] it is still false when the packet has no such field.
    pub negated: bool,
}

/// See [`Compare`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `field & mask == value`
    Equal,
    /// `field & mask > value`
    Greater,
}

impl Compare {
    /// Does a field with this value satisfy it?
    pub fn holds(self, field: u32) -> bool {
        let hit = match self.op {
            Op::Equal => field & self.mask == self.value,
            Op::Greater => field & self.mask > self.value,
        };
        hit != self.negated
    }
    /// `Some` if the answer does not depend on the field.
    pub fn constant(self) -> Option<bool> {
        (self.mask == 0).then_some(!self.negated)
    }
}

/// What a primitive looks at. Everything is in host byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// Nothing besides the protocol (`tcp`).
    Protocol,
    /// IPv4 addresses.
    Host {
        /// Source or destination.
        which: Which,
        /// Address; bits outside the mask are zero.
        addr: u32,
        /// Mask, contiguous or not.
        mask: u32,
        /// `!=`.
        negated: bool,
    },
    /// IPv6 addresses.
    Host6 {
        /// Source or destination.
        which: Which,
        /// Address; bits outside the mask are zero.
        addr: u128,
        /// Mask, contiguous.
        mask: u128,
        /// `!=`.
        negated: bool,
    },
    /// Ethernet addresses, found through the packet's MAC header annotation.
    Ether {
        /// Source or destination.
        which: Which,
        /// Address; bits outside the mask are zero.
        addr: [u8; 6],
        /// Mask.
        mask: [u8; 6],
        /// `!=`.
        negated: bool,
    },
    /// Ports of a first fragment.
    Port {
        /// Source or destination.
        which: Which,
        /// Relation.
        compare: Compare,
    },
    /// All these TCP flags are set in a first fragment.
    TcpFlags(u8),
    /// The packet is a fragment (first or not), or with `false` is none.
    Fragment(bool),
    /// A numeric field; of a first fragment if it is one of the transport header.
    Field {
        /// Field.
        field: Field,
        /// Relation.
        compare: Compare,
    },
}

impl Check {
    /// Does it hold for first fragments (and whole packets) only?
    pub fn first_fragment_only(&self) -> bool {
        match self {
            Check::Port { .. } | Check::TcpFlags(_) => true,
            Check::Field { field, .. } => field.layer == Layer::Transport,
            _ => false,
        }
    }
}

fn which_prefix(w: Which) -> &'static str {
    match w {
        Which::Src => "src ",
        Which::Dst => "dst ",
        Which::Both => "src and dst ",
        Which::Either => "",
    }
}

/// The relation as filter text: `& 0x0f >= 3`, without what is implied.
struct Relation(Compare, u32);

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Relation(c, full) = self;
        match c.constant() {
            // any text that is read back as a constant relation
            Some(true) => return write!(f, ">= 0"),
            Some(false) => return write!(f, "< 0"),
            None => {}
        }
        if c.mask != *full {
            write!(f, "& {:#x} ", c.mask)?;
        }
        let op = match (c.op, c.negated) {
            (Op::Equal, false) => "==",
            (Op::Equal, true) => "!=",
            (Op::Greater, false) => ">",
            (Op::Greater, true) => "<=",
        };
        write!(f, "{op} {}", c.value)
    }
}

/// Filter text that is read back as the same test.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            None => "",
            Some(Transport::TcpOrUdp) => "tcpudp ",
            Some(Transport::Protocol(p)) => match (protocol_name(p), &self.check) {
                (Some(n), Check::Protocol) => return write!(f, "{n}"),
                (Some(n), _) => &format!("{n} "),
                (None, _) => return write!(f, "ip proto {p}"),
            },
        };
        match &self.check {
            Check::Protocol => write!(f, "tcpudp"),
            Check::Host {
                which,
                addr,
                mask,
                negated,
            } => {
                let ne = if *negated { "!= " } else { "" };
                let (w, a, m) = (
                    which_prefix(*which),
                    Ipv4Addr::from(*addr),
                    Ipv4Addr::from(*mask),
                );
                match mask.leading_ones() {
                    32 => write!(f, "{transport}{w}host {ne}{a}"),
                    n if n == mask.count_ones() => write!(f, "{transport}{w}net {ne}{a}/{n}"),
                    _ => write!(f, "{transport}{w}net {ne}{a} mask {m}"),
                }
            }
            Check::Host6 {
                which,
                addr,
                mask,
                negated,
            } => {
                let ne = if *negated { "!= " } else { "" };
                let (w, a) = (which_prefix(*which), Ipv6Addr::from(*addr));
                match mask.count_ones() {
                    128 => write!(f, "{transport}{w}host {ne}{a}"),
                    n => write!(f, "{transport}{w}net {ne}{a}/{n}"),
                }
            }
            Check::Ether {
                which,
                addr,
                mask,
                negated,
            } => {
                let text =
                    |b: &[u8; 6]| onefold_packet::EtherAddr(*b).to_string().replace('-', ":");
                write!(f, "{transport}ether {}host ", which_prefix(*which))?;
                if *mask != [0xff; 6] {
                    write!(f, "& {} ", text(mask))?;
                }
                write!(f, "{}{}", if *negated { "!= " } else { "" }, text(addr))
            }
            Check::Port { which, compare } => {
                let transport = match self.transport {
                    Some(Transport::TcpOrUdp) => "",
                    _ => transport,
                };
                let r = Relation(*compare, 0xffff);
                write!(f, "{}{transport}port {r}", which_prefix(*which))
            }
            Check::TcpFlags(v) => match TCP_FLAGS.iter().find(|(_, b)| b == v) {
                Some((name, _)) => write!(f, "tcp opt {name}"),
                None => write!(f, "tcp opt {v}"),
            },
            Check::Fragment(yes) => {
                write!(f, "{transport}ip {}", if *yes { "frag" } else { "unfrag" })
            }
            Check::Field { field, compare } => {
                let r = Relation(*compare, field.max());
                if let Some((name, _)) = IP_FIELDS.iter().find(|(_, x)| x == field) {
                    return write!(f, "{transport}ip {name} {r}");
                }
                if let Some((name, _)) = IP6_FIELDS.iter().find(|(_, x)| x == field) {
                    return write!(f, "{transport}ip6 {name} {r}");
                }
                // 'ip proto == N' would be read back as the condition that other primitives have, too
                let condition = compare.op == Op::Equal && compare.mask == 0xff && !compare.negated;
                if *field == PROTOCOL && self.transport.is_none() && !condition {
                    return write!(f, "ip proto {r}");
                }
                let base = match (field.layer, self.transport) {
                    (Layer::Net, _) => "ip",
                    (Layer::Net6, _) => "ip6",
                    (Layer::Transport, None) => "transp",
                    (Layer::Transport, Some(_)) => transport.trim_end(),
                };
                write!(f, "{base}[{}:{}] {r}", field.bit / 8, field.bits / 8)
            }
        }
    }
}

impl Expr {
    fn write_list(f: &mut fmt::Formatter<'_>, list: &[Expr], word: &str) -> fmt::Result {
        for (i, e) in list.iter().enumerate() {
            if i > 0 {
                write!(f, " {word} ")?;
            }
            match e {
                Expr::All(_) | Expr::Any(_) | Expr::Choose { .. } => write!(f, "({e})")?,
                _ => write!(f, "{e}")?,
            }
        }
        Ok(())
    }
}

/// Filter text that is read back as the same tree.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Const(b) => write!(f, "{b}"),
            Expr::Test(t) => write!(f, "{t}"),
            Expr::All(v) => Expr::write_list(f, v, "and"),
            Expr::Any(v) => Expr::write_list(f, v, "or"),
            Expr::Not(e) => write!(f, "not ({e})"),
            Expr::Choose { cases, otherwise } => {
                for (c, v) in cases {
                    write!(f, "({c}) ? ({v}) : ")?;
                }
                write!(f, "({otherwise})")
            }
        }
    }
}
