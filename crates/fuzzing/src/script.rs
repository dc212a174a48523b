//! Bytes as a sequence of frames: when, where, and what. Any bytes mean something, so that a change of a byte is a
//! small change.
//!
//! A script begins with the number of the chain and a byte of switches; then come records until the bytes end:
//!
//! | byte | |
//! |---|---|
//! | kind and time | lower four bits: [`Record`]; upper four: how long after the one before, [`STEPS`] |
//! | entry | which of the chain's entries; the highest bit: with a VLAN tag |
//! | ... | what the kind wants |
//! | patches | lower three bits: how many follow; 0x40: the IPv4 header's checksum is left as it comes out |

use crate::frames::{Frame, Kind, repair};

/// Most records of a script.
pub const MAX_RECORDS: usize = 64;
/// Longest frame.
pub const MAX_FRAME: usize = 4096;

/// Nanoseconds between records.
pub const STEPS: [i64; 16] = [
    0,
    0,
    0,
    0,
    1,
    1_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    5_000_000_000,
    31_000_000_000,
    61_000_000_000,
    301_000_000_000,
    3_601_000_000_000,
    100_000_000_000_000,
];

/// What a record is about.
#[derive(Debug, Clone)]
pub enum Record {
    /// A frame from the script.
    Frame(Vec<u8>),
    /// A frame of our making, whose destination is the entry's unless it says another.
    Made(Frame, bool),
    /// The answer to a frame that left, counted from the last one; it enters where that one left, if one can.
    Answer(usize),
    /// A frame that entered, counted from the last one, enters again.
    Again(usize),
    /// Nothing; time passes.
    Nothing,
}

/// A record, with what comes before and behind it.
#[derive(Debug, Clone)]
pub struct Step {
    /// Nanoseconds after the one before.
    pub after: i64,
    /// Which entry (modulo what there is).
    pub entry: usize,
    /// What.
    pub record: Record,
    /// Damage: operation, place, value.
    patches: Vec<(u8, u16, u8)>,
    repair: bool,
}

impl Step {
    /// Applies the damage.
    pub fn finish(&self, f: &mut Vec<u8>) {
        for (op, at, value) in &self.patches {
            let at = usize::from(*at);
            match op % 6 {
                0 => {
                    if let Some(b) = f.get_mut(at) {
                        *b = *value;
                    }
                }
                1 => {
                    if let Some(b) = f.get_mut(at) {
                        *b ^= 1 << (value & 7);
                    }
                }
                2 => f.truncate(at),
                3 => f.resize((f.len() + usize::from(*value)).min(MAX_FRAME), 0),
                4 if at <= f.len() => {
                    let n = usize::from(*value).min(MAX_FRAME.saturating_sub(f.len()));
                    f.splice(at..at, std::iter::repeat_n(*value, n));
                }
                _ => {
                    let end = (at + usize::from(*value)).min(f.len());
                    f.drain(at.min(end)..end);
                }
            }
        }
        if self.repair {
            repair(f);
        }
    }
}

/// Reads a script.
pub struct Script<'a> {
    rest: &'a [u8],
    left: usize,
    /// The chain (modulo what there is).
    pub chain: usize,
    /// Switches.
    pub switches: u8,
}

impl<'a> Script<'a> {
    /// Begins.
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        let mut s = Script {
            rest: bytes,
            left: MAX_RECORDS,
            chain: 0,
            switches: 0,
        };
        s.chain = usize::from(s.byte());
        s.switches = s.byte();
        s
    }

    /// Zeros follow the end.
    fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((b, rest)) => {
                self.rest = rest;
                *b
            }
            None => 0,
        }
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }
}

impl Iterator for Script<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.rest.is_empty() || self.left == 0 {
            return None;
        }
        self.left -= 1;
        let kind = self.byte();
        let entry = self.byte();
        let record = match kind & 15 {
            0 => {
                let n = usize::from(self.word()).min(MAX_FRAME).min(self.rest.len());
                let (f, rest) = self.rest.split_at(n);
                self.rest = rest;
                Record::Frame(f.to_vec())
            }
            13 => Record::Answer(usize::from(self.byte())),
            14 => Record::Again(usize::from(self.byte())),
            15 => Record::Nothing,
            n => {
                let (kind, six) = match n {
                    1 | 2 => (Kind::Tcp, false),
                    3 | 4 => (Kind::Udp, false),
                    5 => (Kind::Icmp, false),
                    6 => (Kind::Other, false),
                    7 => (Kind::Arp, false),
                    8 | 9 => (Kind::Tcp, true),
                    10 => (Kind::Udp, true),
                    11 => (Kind::Icmp, true),
                    _ => (Kind::Other, true),
                };
                let mut f = Frame::new(kind);
                f.six = six;
                let mac = self.byte();
                let special = mac != 0;
                f.mac = match mac {
                    0xff => [0xff; 6],
                    0xfe => [0x01, 0, 0x5e, 0, 0, 5],
                    0xfd => [0x33, 0x33, 0, 0, 0, 1],
                    m => [2, 0, 0, 0, m >> 4, m & 15],
                };
                f.src = self.byte();
                f.dst = self.byte();
                f.sport = self.byte();
                f.dport = self.byte();
                f.flags = self.byte();
                f.ttl = self.byte();
                f.payload = self.byte();
                f.fill = self.byte();
                f.options = self.byte();
                f.fragment = self.byte();
                f.vlan = match entry & 0x80 {
                    0 => None,
                    _ => Some(self.word()),
                };
                Record::Made(f, !special)
            }
        };
        let p = self.byte();
        let patches = (0..p & 7)
            .map(|_| (self.byte(), self.word(), self.byte()))
            .collect();
        Some(Step {
            after: STEPS[usize::from(kind >> 4)],
            entry: usize::from(entry & 0x7f),
            record,
            patches,
            repair: p & 0x40 == 0,
        })
    }
}

/// Writes scripts: for seeds.
#[derive(Debug, Clone)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Begins.
    pub fn new(chain: u8, switches: u8) -> Writer {
        Writer(vec![chain, switches])
    }

    /// A frame from outside.
    pub fn frame(&mut self, step: u8, entry: u8, bytes: &[u8]) -> &mut Writer {
        let bytes = &bytes[..bytes.len().min(MAX_FRAME)];
        self.0.extend([step << 4, entry & 0x7f]);
        self.0.extend((bytes.len() as u16).to_be_bytes());
        self.0.extend(bytes);
        self.0.push(0);
        self
    }

    /// A frame of our making, to the entry's address.
    pub fn made(&mut self, step: u8, entry: u8, f: &Frame) -> &mut Writer {
        let kind = match (f.kind, f.six) {
            (Kind::Tcp, false) => 1,
            (Kind::Udp, false) => 3,
            (Kind::Icmp, false) => 5,
            (Kind::Other, false) => 6,
            (Kind::Arp, _) => 7,
            (Kind::Tcp, true) => 8,
            (Kind::Udp, true) => 10,
            (Kind::Icmp, true) => 11,
            (Kind::Other, true) => 12,
        };
        let tag = if f.vlan.is_some() { 0x80 } else { 0 };
        self.0.extend([step << 4 | kind, entry & 0x7f | tag, 0]);
        self.0.extend([
            f.src, f.dst, f.sport, f.dport, f.flags, f.ttl, f.payload, f.fill,
        ]);
        self.0.extend([f.options, f.fragment]);
        self.0.extend(f.vlan.iter().flat_map(|v| v.to_be_bytes()));
        self.0.push(0);
        self
    }

    /// The answer to what left `back` frames ago.
    pub fn answer(&mut self, step: u8, back: u8) -> &mut Writer {
        self.0.extend([step << 4 | 13, 0, back, 0]);
        self
    }

    /// What entered `back` frames ago.
    pub fn again(&mut self, step: u8, back: u8) -> &mut Writer {
        self.0.extend([step << 4 | 14, 0, back, 0]);
        self
    }

    /// Time passes.
    pub fn nothing(&mut self, step: u8) -> &mut Writer {
        self.0.extend([step << 4 | 15, 0, 0]);
        self
    }

    /// The script.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
