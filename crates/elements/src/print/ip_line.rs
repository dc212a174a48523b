//! One line of IPPrint: the transport protocols, fragments, and the bytes below.

use super::line::{Contents, ascii, hex};
use crate::icmp_names::{code_name, type_name};
use onefold_packet::wire::ipv4::{Header, MF, OFFSET_MASK, proto};
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// A big-endian 16-bit field; zero behind the end.
fn be16(b: &[u8], at: usize) -> u16 {
    let f = b.get(at..).and_then(|b| b.first_chunk());
    f.map_or(0, |f| u16::from_be_bytes(*f))
}

/// A big-endian 32-bit field; zero behind the end.
fn be32(b: &[u8], at: usize) -> u32 {
    let f = b.get(at..).and_then(|b| b.first_chunk());
    f.map_or(0, |f| u32::from_be_bytes(*f))
}

fn ip(a: [u8; 4]) -> Ipv4Addr {
    a.into()
}

/// One packet being printed.
pub struct Line<'a> {
    /// The IP header.
    pub h: Header<&'a [u8]>,
    /// Bytes from the transport header on.
    pub t: &'a [u8],
    /// How many of them belong to the IP packet; negative if the header lies.
    pub len: i64,
    /// Length of the packet.
    pub packet_len: usize,
    /// The text so far.
    pub s: String,
}

impl Line<'_> {
    /// Appends the addresses.
    pub fn addresses(&mut self) {
        let _ = write!(self.s, "{} > {}", ip(self.h.src()), ip(self.h.dst()));
    }
    fn addresses_and_ports(&mut self) {
        let (sport, dport) = (be16(self.t, 0), be16(self.t, 2));
        let _ = write!(
            self.s,
            "{}.{sport} > {}.{dport}: ",
            ip(self.h.src()),
            ip(self.h.dst())
        );
    }
    /// Starts the line of a packet with ports; false if there are none to print and the line is complete.
    fn start(&mut self, what: &str) -> bool {
        let first = self.h.is_first_fragment();
        if self.len >= 4 && first {
            self.addresses_and_ports();
            return true;
        }
        self.addresses();
        self.s.push_str(if first { ": truncated-" } else { ": " });
        self.s.push_str(what);
        false
    }

    /// Appends a TCP segment's summary.
    pub fn tcp(&mut self) {
        if !self.start("tcp") {
            return;
        }
        if self.len < 14 {
            return self.s.push_str("truncated-tcp");
        }
        let ip_len = i32::from(self.h.total_len());
        let data_offset = i32::from(self.t.get(12).map_or(0, |b| b >> 4)) * 4;
        let flags = self.t.get(13).copied().unwrap_or(0);
        let mut seq_len = ip_len - self.h.header_len() as i32 - data_offset;
        for (bit, letter, counts) in [
            (2, 'S', true),
            (1, 'F', true),
            (4, 'R', false),
            (8, 'P', false),
        ] {
            if flags & bit != 0 {
                self.s.push(letter);
                seq_len += i32::from(counts);
            }
        }
        if flags & 0x0f == 0 {
            self.s.push('.');
        }
        let seq = be32(self.t, 4);
        let end = seq.wrapping_add(seq_len as u32);
        let _ = write!(
            self.s,
            " {seq}:{end}({seq_len},{},{ip_len})",
            self.packet_len
        );
        if flags & 0x10 != 0 {
            let _ = write!(self.s, " ack {}", be32(self.t, 8));
        }
        if self.len < 16 {
            return self.s.push_str("truncated-tcp");
        }
        let _ = write!(self.s, " win {}", be16(self.t, 14));
    }

    /// Appends a UDP datagram's summary.
    pub fn udp(&mut self) {
        if !self.start("udp") {
            return;
        }
        if self.len < 8 {
            return self.s.push_str("truncated-udp");
        }
        let _ = write!(self.s, "udp {}", be16(self.t, 4));
    }

    /// Appends an ICMP message's summary; `swap`: identifier and sequence number in network order.
    pub fn icmp(&mut self, swap: bool) {
        self.addresses();
        self.s.push_str(": ");
        if !self.h.is_first_fragment() {
            return self.s.push_str("icmp");
        }
        if self.len < 2 {
            return self.s.push_str("truncated-icmp");
        }
        let kind = self.t.first().copied().unwrap_or(0);
        let code = self.t.get(1).copied().unwrap_or(0);
        match kind {
            0 | 8 => {
                self.s.push_str(if kind == 8 {
                    "icmp echo "
                } else {
                    "icmp echo-reply "
                });
                if self.len < 8 {
                    return self.s.push_str("truncated-icmp");
                }
                let field = |at| {
                    let v = be16(self.t, at);
                    if swap { v } else { v.swap_bytes() }
                };
                let (id, seq) = (field(4), field(6));
                let _ = write!(self.s, "({id}, {seq})");
            }
            3 => self.unreachable(code),
            _ => {
                self.s.push_str("icmp ");
                match type_name(kind) {
                    Some(t) => self.s.push_str(t),
                    None => {
                        let _ = write!(self.s, "type {kind}");
                    }
                }
                match code_name(kind, code) {
                    Some(c) => {
                        let _ = write!(self.s, " {c}");
                    }
                    None if code != 0 => {
                        let _ = write!(self.s, " code {code}");
                    }
                    None => {}
                }
            }
        }
    }

    fn unreachable(&mut self, code: u8) {
        let code_text = code_name(3, code).map_or_else(|| format!("code {code}"), str::to_string);
        let inner = self.t.get(8..).unwrap_or(&[]);
        let inner_len = self.len - 8;
        let Some(e) = Header::parse(inner).filter(|_| inner_len >= 20) else {
            let _ = write!(self.s, "icmp unreachable {code_text} truncated-icmp");
            return;
        };
        let _ = write!(self.s, "icmp {} unreachable {code_text}", ip(e.dst()));
        let number = e.protocol();
        match code {
            2 => {
                let name = protocol(number).map_or_else(|| number.to_string(), str::to_string);
                let _ = write!(self.s, " {name}");
            }
            3 => {
                let name =
                    protocol(number).map_or_else(|| format!("protocol {number}"), str::to_string);
                let _ = write!(self.s, " {name}");
                if inner_len - (e.header_len() as i64) < 4 {
                    self.s.push_str("truncated-icmp");
                } else {
                    let _ = write!(self.s, "/{}", be16(inner, e.header_len() + 2));
                }
            }
            4 => {
                let mtu = be16(self.t, 6);
                if mtu != 0 {
                    let _ = write!(self.s, " (mtu {mtu})");
                }
            }
            _ => {}
        }
    }

    /// Appends where a fragment belongs.
    pub fn fragment(&mut self) {
        let (id, word) = (self.h.id(), self.h.frag_word());
        let payload = i32::from(self.h.total_len()) - self.h.header_len() as i32;
        let offset = u32::from(word & OFFSET_MASK) * 8;
        let more = if word & MF != 0 { "+" } else { "" };
        let _ = write!(self.s, " (frag {id}:{payload}@{offset}{more})");
    }

    /// Where the bytes start that PAYLOAD prints. A cut TCP header has no payload behind it.
    pub fn payload_start(&self) -> usize {
        match self.h.protocol() {
            proto::TCP if self.h.is_first_fragment() => match self.t.get(12) {
                Some(b) => usize::from(b >> 4) * 4,
                None => self.t.len(),
            },
            proto::UDP if self.h.is_first_fragment() => 8,
            _ => 0,
        }
    }
}

/// Appends lines of bytes.
pub fn dump(s: &mut String, data: &[u8], contents: Contents) {
    let (per_line, per_word) = match contents {
        Contents::None => return,
        Contents::Hex => (24, 4),
        Contents::Ascii => (48, 8),
    };
    for (i, b) in data.iter().enumerate() {
        if i % per_line == 0 {
            s.push_str("\n  ");
        } else if i % per_word == 0 {
            s.push(' ');
        }
        match contents {
            Contents::Ascii => ascii(s, *b),
            _ => hex(s, *b),
        }
    }
}

/// An IP protocol that has a name of its own in Click's output.
fn protocol(p: u8) -> Option<&'static str> {
    Some(match p {
        1 => "icmp",
        2 => "igmp",
        4 => "ipip",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        132 => "sctp",
        _ => return None,
    })
}
