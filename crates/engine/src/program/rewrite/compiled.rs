//! Images that are quickly written: what an image writes into a packet's first bytes, taken apart when the program is loaded.
//!
//! Fields that always get the same value are put together, sixteen bytes at a time; values of up to 64 bits are reckoned with as such; a
//! checksum's constant terms are one number. Where fields overlap, stand behind the first bytes or are wider, [`Quick::of`] says so and the image is written
//! field by field ([`crate::program::rewrite::image`]), which is also what tests compare it with.

use crate::program::rewrite::value::{CONST, FieldWrite, Sum, Term, Value};
use onefold_packet::checksum;
use onefold_synth::program::SumKind;

/// Bytes of a packet that are written to.
pub(crate) const WINDOW: usize = 64;
/// Bytes that are written at once where they always get the same value.
const CHUNK: usize = 16;

/// [`Value`] of up to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Narrow {
    reg: u16,
    add: u64,
    mask: u64,
}

impl Narrow {
    fn of(v: &Value) -> Option<Narrow> {
        let mask = match v.reg {
            // a constant is not cut
            CONST => u64::MAX,
            _ => u64::try_from(v.mask).ok()?,
        };
        let n = Narrow {
            reg: v.reg,
            // more of it does not count: the sum is cut to 64 bits at most
            add: v.add as u64,
            mask,
        };
        (v.reg != CONST || u64::try_from(v.add).is_ok()).then_some(n)
    }
    #[inline(always)]
    fn get(&self, regs: &[u128]) -> u64 {
        match self.reg {
            CONST => self.add,
            r => {
                (regs.get(usize::from(r))).map_or(0, |v| (*v as u64).wrapping_add(self.add))
                    & self.mask
            }
        }
    }
}

/// Bytes that always get the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fixed {
    keep: u128,
    set: u128,
    at: u8,
}

/// Whole bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    value: Narrow,
    at: u8,
    bytes: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Slot(u16),
    /// A field changes; see [`Term::Change`].
    Change {
        from: Narrow,
        to: Narrow,
        shift: i16,
        words: u8,
    },
}

impl Part {
    fn of(t: &Term) -> Option<Part> {
        match t {
            Term::Fixed(_) => None,
            Term::Slot(r) => Some(Part::Slot(*r)),
            Term::Change {
                from,
                to,
                shift,
                words,
            } => {
                let last = shift + 16 * (i16::from(*words) - 1);
                let (from, to) = (Narrow::of(from)?, Narrow::of(to)?);
                (*shift > -64 && last < 16).then_some(Part::Change {
                    from,
                    to,
                    shift: *shift,
                    words: *words,
                })
            }
        }
    }

    #[inline(always)]
    fn sum(&self, regs: &[u128]) -> u64 {
        match self {
            Part::Slot(r) => regs
                .get(usize::from(*r))
                .map_or(0, |v| u64::from(*v as u16)),
            Part::Change {
                from,
                to,
                shift,
                words,
            } => {
                let (from, to) = (from.get(regs), to.get(regs));
                let mut sum = 0;
                let mut s = *shift;
                for _ in 0..*words {
                    let part = |v: u64| match s >= 0 {
                        true => (v << (s & 63)) as u16,
                        false => (v >> (-s & 63)) as u16,
                    };
                    sum += u64::from(!part(from)) + u64::from(part(to));
                    s += 16;
                }
                sum
            }
        }
    }
}

/// What is added to a checksum's complement between two elements.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    fixed: u64,
    parts: Box<[Part]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ChecksumUpdate {
    at: u8,
    udp: bool,
    groups: Box<[Group]>,
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quick {
    fixed: Box<[Fixed]>,
    fields: Box<[Field]>,
    sums: Box<[ChecksumUpdate]>,
    /// Bytes that the packet must have.
    pub least: usize,
}

impl Quick {
    /// `None` where an image is more than that. `start`: where the packet begins afterwards, in front of which nothing
    /// is written.
    pub fn of(start: i32, writes: &[FieldWrite], sums: &[Sum]) -> Option<Quick> {
        let mut taken = [false; WINDOW];
        let mut least = 0;
        let mut take = |at: i32, bytes: usize| {
            let at = usize::try_from(at.checked_sub(start)?).ok()?;
            let all = taken.get_mut(at..at.checked_add(bytes)?)?;
            if all.iter().any(|t| *t) {
                return None;
            }
            all.fill(true);
            least = least.max(at + bytes);
            Some(at as u8)
        };
        let (mut keep, mut set) = ([0xff_u8; WINDOW], [0_u8; WINDOW]);
        let mut fields = Vec::new();
        for w in writes {
            if w.bit & 7 != 0 || w.bits & 7 != 0 || w.bits == 0 || w.bits > 64 {
                return None;
            }
            let bytes = usize::from(w.bits / 8);
            let at = take(w.bit / 8, bytes)?;
            let value = Narrow::of(&w.value)?;
            if w.value.reg == CONST {
                let from = usize::from(at);
                keep.get_mut(from..from + bytes)?.fill(0);
                let v = value.add.to_be_bytes();
                let to = set.get_mut(from..from + bytes)?;
                to.copy_from_slice(v.get(8 - bytes..)?);
            } else {
                let bytes = bytes as u8;
                fields.push(Field { value, at, bytes });
            }
        }
        let mut updates = Vec::new();
        for s in sums {
            // a message of nothing but zeros is looked at as a whole
            if s.anew || s.kind == SumKind::Icmp {
                return None;
            }
            let mut groups = Vec::new();
            for g in &s.groups {
                let mut all = Group {
                    fixed: 0,
                    parts: Box::default(),
                };
                let mut parts = Vec::new();
                for t in g {
                    match t {
                        Term::Fixed(n) => all.fixed += n,
                        t => parts.push(Part::of(t)?),
                    }
                }
                all.parts = parts.into();
                groups.push(all);
            }
            updates.push(ChecksumUpdate {
                at: take(s.at, 2)?,
                udp: s.kind == SumKind::Udp,
                groups: groups.into(),
            });
        }
        let mut fixed = Vec::new();
        let chunks = keep.as_chunks::<CHUNK>().0.iter().zip(set.as_chunks().0);
        for (i, (k, s)) in chunks.enumerate() {
            if *k != [0xff; CHUNK] {
                fixed.push(Fixed {
                    keep: u128::from_ne_bytes(*k),
                    set: u128::from_ne_bytes(*s),
                    at: (i * CHUNK) as u8,
                });
            }
        }
        Some(Quick {
            fixed: fixed.into(),
            fields: fields.into(),
            sums: updates.into(),
            least,
        })
    }

    /// Writes all of it into a packet's first bytes, as it begins afterwards; at least [`Quick::least`] of them are the
    /// packet's.
    #[inline]
    pub fn write(&self, w: &mut [u8; WINDOW], regs: &[u128]) {
        // first what is written as a whole: what has been written in parts is slow to read as a whole
        for f in &self.fixed {
            let c = w.get_mut(usize::from(f.at)..);
            if let Some(c) = c.and_then(|c| c.first_chunk_mut()) {
                *c = (u128::from_ne_bytes(*c) & f.keep | f.set).to_ne_bytes();
            }
        }
        for f in &self.fields {
            put(w, f, f.value.get(regs));
        }
        for s in &self.sums {
            s.apply(w, regs);
        }
    }
}

#[inline(always)]
fn put(w: &mut [u8; WINDOW], f: &Field, v: u64) {
    let Some(to) = w.get_mut(usize::from(f.at)..) else {
        return;
    };
    match f.bytes {
        1 => {
            if let Some(to) = to.first_chunk_mut() {
                *to = (v as u8).to_be_bytes();
            }
        }
        2 => {
            if let Some(to) = to.first_chunk_mut() {
                *to = (v as u16).to_be_bytes();
            }
        }
        4 => {
            if let Some(to) = to.first_chunk_mut() {
                *to = (v as u32).to_be_bytes();
            }
        }
        8 => {
            if let Some(to) = to.first_chunk_mut() {
                *to = v.to_be_bytes();
            }
        }
        n => {
            // what the value has less than eight bytes stands in front
            for (to, b) in (to.iter_mut()).zip(v.to_be_bytes().into_iter().skip(8 - usize::from(n)))
            {
                *to = b;
            }
        }
    }
}

impl ChecksumUpdate {
    #[inline(always)]
    fn apply(&self, w: &mut [u8; WINDOW], regs: &[u128]) {
        let field = w.get_mut(usize::from(self.at)..);
        let Some(field) = field.and_then(|f| f.first_chunk_mut::<2>()) else {
            return;
        };
        let mut c = u16::from_be_bytes(*field);
        for g in &self.groups {
            if self.udp && c == 0 {
                break;
            }
            let terms = g.parts.iter().fold(g.fixed, |n, p| n + p.sum(regs));
            c = !checksum::fold(u64::from(!c) + terms);
        }
        *field = c.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::rewrite::image::{Image, Kind};
    use onefold_packet::Packet;
    use onefold_synth::program::{EndAt, Mark};
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = (u16, u128, u8)> {
        (0u16..6, any::<u128>(), 1u8..=64)
    }
    fn of((reg, add, bits): (u16, u128, u8)) -> Value {
        let mask = u128::MAX >> (128 - u32::from(bits));
        match reg {
            0 => Value {
                reg: CONST,
                add: add & mask,
                mask: u128::MAX,
            },
            r => Value {
                reg: r - 1,
                add,
                mask,
            },
        }
    }

    proptest! {
        /// Whatever is quickly written is what is written field by field.
        #[test]
        fn as_field_by_field(
            writes in proptest::collection::vec((-20i32..70, 1u8..9, value()), 0..5),
            sums in proptest::collection::vec(
                (0i32..66, 0usize..3, proptest::collection::vec(proptest::collection::vec((0u8..3, -8i32..500, value(), value()), 0..3), 0..3)),
                0..3
            ),
            start in -20i32..20,
            data in proptest::collection::vec(any::<u8>(), 60..90),
            zero in any::<bool>(),
            regs in proptest::collection::vec(any::<u128>(), 5),
        ) {
            let kinds = [SumKind::Ip4, SumKind::Tcp, SumKind::Udp];
            let writes: Vec<FieldWrite> = writes.into_iter().map(|(at, n, (r, a, _))| FieldWrite {
                bit: at * 8,
                bits: n * 8,
                value: of((r, a, n * 8)),
            }).collect();
            let sums: Vec<Sum> = sums.into_iter().map(|(at, kind, groups)| Sum {
                kind: kinds[kind],
                header: 14,
                at,
                anew: false,
                groups: groups.into_iter().map(|g| g.into_iter().map(|(what, bit, from, to)| match what {
                    0 => Term::Fixed(from.1 as u64 & 0xffff_ffff),
                    1 => Term::Slot(from.0),
                    _ => Term::change(bit.max(0), to.2, 0, of((from.0, from.1, to.2)), of(to)),
                }).collect()).collect(),
            }).collect();
            let m = Image {
                start,
                end: EndAt::Same,
                writes: writes.clone().into(),
                sums: sums.clone().into(),
                net: Mark::Same,
                mac: Mark::Same,
                cleared: false,
                annos: Box::default(),
                kind: Kind::Same,
                tuple: None,
                quick: None,
            };
            let quick = Quick::of(start, &writes, &sums);
            let mut p = Packet::from_slice(&data);
            if zero && let Some(s) = sums.first() && let Some(to) = p.data_mut().get_mut(s.at as usize..) {
                to.iter_mut().take(2).for_each(|b| *b = 0);
            }
            let mut slow = p.clone();
            m.apply(&mut slow, &regs, &[]);
            Image { quick, ..m }.apply(&mut p, &regs, &[]);
            prop_assert_eq!(p.data(), slow.data());
        }
    }

    #[test]
    fn what_a_translator_behind_a_router_writes() {
        let constant = |bit, bits, add| FieldWrite {
            bit,
            bits,
            value: Value {
                reg: CONST,
                add,
                mask: u128::MAX,
            },
        };
        let port = FieldWrite {
            bit: 34 * 8,
            bits: 16,
            value: Value {
                reg: 2,
                add: 0,
                mask: 0xffff,
            },
        };
        let writes = [
            constant(0, 48, 1),
            constant(48, 48, 2),
            constant(96, 16, 0x800),
            port,
        ];
        let q = Quick::of(0, &writes, &[]).unwrap();
        assert_eq!((q.fixed.len(), q.fields.len(), q.least), (1, 1, 36));
        assert_eq!(Quick::of(14, &writes, &[]), None, "in front of it");
        let q = Quick::of(-14, &writes, &[]).unwrap();
        assert_eq!((q.fixed.len(), q.fields.len(), q.least), (2, 1, 50));
        assert_eq!(Quick::of(0, &[port, port], &[]), None, "one over the other");
        assert_eq!(Quick::of(0, &[constant(4, 8, 1)], &[]), None, "half bytes");
    }
}
