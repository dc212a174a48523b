//! Which variable stands for which bit of what a program or a model reads.

use super::dd::{Dd, Ref};
use onefold_element::ElemId;
use onefold_element::model::{HeaderCheck, RouteWhat};
use onefold_synth::program::EndAt;
use std::collections::HashMap;

/// First of all levels: the kind of case that decides, so many bits for each comparison ([`Bit::Decided`]).
const DECIDED_BITS: u32 = 16;
/// Most comparisons.
pub const MAX_DECIDED: u32 = 64;
const CHECK: u32 = MAX_DECIDED * DECIDED_BITS;
const LEN: u32 = 4096;
/// Number of questions whose levels come before lengths.
const CHECKS: u32 = LEN - CHECK;
const TYPE: u32 = LEN + 32;
const ANNO: u32 = TYPE + 8;
/// What route tables say: behind all annotations, so many levels for each.
const ROUTE: u32 = 8192;
const ROUTE_BITS: u32 = 128;
const ROUTE_END: u32 = 1_000_000;
const PACKET: u32 = 2_000_000;
const BOUND: u32 = 4_000_000;
/// Above all questions.
const APART: u32 = 20_000_000;
const APART_FROM: u32 = 16_000_000;
/// Bits that a binding gives: source address, destination address, source port, destination port, terms of the IP and
/// of the transport checksum, an annotation.
pub const BOUND_BITS: [u8; 7] = [32, 32, 16, 16, 16, 16, 8];
/// Levels that it takes.
const STRIDE: u32 = 256;
/// Most bindings on one path of an epoch.
pub const MAX_BOUND: u32 = 4_000_000;

/// A question about a header: question, first byte, the packet's end.
pub type Question = (HeaderCheck, i32, EndAt);

/// What a route table is asked: the look-up element, what, and the address's bits.
pub type RouteQuestion = (ElemId, RouteWhat, Vec<Ref>);

/// What a variable stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bit {
    /// The answer to a question.
    Check(Question),
    /// A bit of the packet's length, 0 the most significant of 32.
    Len(u8),
    /// A bit of the packet type, of 8.
    Type(u8),
    /// A bit of the annotations, of 384.
    Anno(u16),
    /// A bit of what a route table says: the question's number, which bit.
    Route(u32, u8),
    /// A bit of the packet, counted from its first byte when the epoch began.
    Packet(i32),
    /// Of the n-th binding on a path: which value, which bit.
    Bound(u32, u8, u8),
    /// A bit of the reference graph's packet where it may not be what the program's is.
    Apart(i32),
    /// Of the n-th comparison of a list of cases with a list of rules: a bit of the number of the kind of case that
    /// decides.
    Decided(u32, u8),
}

/// Numbers of variables; earlier ones are tested first.
#[derive(Default)]
pub struct Vars {
    questions: Vec<Question>,
    index: HashMap<Question, u32>,
    routes: HashMap<RouteQuestion, u32>,
}

impl Vars {
    /// The variable's level.
    pub fn level(&mut self, b: Bit) -> u32 {
        match b {
            Bit::Check(q) => {
                let n = self.questions.len() as u32;
                let i = *self.index.entry(q).or_insert(n);
                if i == n {
                    self.questions.push(q);
                }
                // more questions than places share the last one's neighbourhood above all others
                if i < CHECKS { CHECK + i } else { BOUND * 2 + i }
            }
            Bit::Len(i) => LEN + u32::from(i),
            Bit::Type(i) => TYPE + u32::from(i),
            Bit::Anno(i) => ANNO + u32::from(i),
            Bit::Route(n, i) => ROUTE + n * ROUTE_BITS + u32::from(i),
            Bit::Packet(p) => PACKET.saturating_add_signed(p),
            Bit::Bound(n, what, bit) => {
                let first: u32 = (BOUND_BITS.iter().take(what.into()))
                    .map(|b| u32::from(*b))
                    .sum();
                BOUND + (n % (MAX_BOUND / STRIDE)) * STRIDE + first + u32::from(bit)
            }
            Bit::Apart(p) => APART.saturating_add_signed(p).max(APART_FROM),
            Bit::Decided(n, i) => {
                (n % MAX_DECIDED) * DECIDED_BITS + u32::from(i).min(DECIDED_BITS - 1)
            }
        }
    }

    /// What a level stands for.
    pub fn bit(&self, level: u32) -> Option<Bit> {
        Some(match level {
            0..CHECK => Bit::Decided(level / DECIDED_BITS, (level % DECIDED_BITS) as u8),
            CHECK..LEN => Bit::Check(*self.questions.get((level - CHECK) as usize)?),
            LEN..TYPE => Bit::Len((level - LEN) as u8),
            TYPE..ANNO => Bit::Type((level - TYPE) as u8),
            ANNO..ROUTE => Bit::Anno((level - ANNO) as u16),
            ROUTE..ROUTE_END => {
                let (n, i) = ((level - ROUTE) / ROUTE_BITS, (level - ROUTE) % ROUTE_BITS);
                Bit::Route(n, i as u8)
            }
            ROUTE_END..BOUND => Bit::Packet(level as i32 - PACKET as i32),
            l if l < BOUND * 2 => {
                let (n, mut rest) = ((l - BOUND) / STRIDE, (l - BOUND) % STRIDE);
                for (what, bits) in BOUND_BITS.iter().enumerate() {
                    if rest < u32::from(*bits) {
                        return Some(Bit::Bound(n, what as u8, rest as u8));
                    }
                    rest -= u32::from(*bits);
                }
                return None;
            }
            l if l < APART_FROM => Bit::Check(*self.questions.get((l - BOUND * 2) as usize)?),
            l => Bit::Apart(l as i32 - APART as i32),
        })
    }

    /// The variable.
    pub fn var(&mut self, dd: &mut Dd, b: Bit) -> Ref {
        let level = self.level(b);
        dd.var(level)
    }
    /// What a route table says of an address: variables of its own for each question, the same for the same one.
    /// `None`: too many.
    pub fn route(&mut self, dd: &mut Dd, q: RouteQuestion) -> Option<Vec<Ref>> {
        let bits = q.1.width(u8::try_from(q.2.len()).unwrap_or(0));
        let n = self.routes.len() as u32;
        if n >= (ROUTE_END - ROUTE) / ROUTE_BITS {
            return None;
        }
        let n = *self.routes.entry(q).or_insert(n);
        let all = (0..bits).map(|i| self.var(dd, Bit::Route(n, i)));
        Some(all.collect())
    }
    /// So many bits of the packet.
    pub fn packet(&mut self, dd: &mut Dd, bit: i32, bits: u8) -> Vec<Ref> {
        let all = (0..i32::from(bits)).map(|i| self.var(dd, Bit::Packet(bit + i)));
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut v = Vars::default();
        let check = |i| (HeaderCheck::Ip4Fits, i, EndAt::Same);
        let mut all = vec![
            Bit::Len(0),
            Bit::Len(31),
            Bit::Type(7),
            Bit::Anno(0),
            Bit::Anno(383),
            Bit::Route(0, 0),
            Bit::Route(5, 127),
            Bit::Packet(-112),
            Bit::Packet(0),
            Bit::Packet(800),
            Bit::Bound(0, 0, 0),
            Bit::Bound(3, 5, 15),
            Bit::Bound(3, 6, 7),
            Bit::Bound(4, 0, 0),
            Bit::Apart(-112),
            Bit::Apart(800),
            Bit::Decided(0, 0),
            Bit::Decided(MAX_DECIDED - 1, 15),
        ];
        all.extend((0..5000).map(|i| Bit::Check(check(i))));
        let mut seen = std::collections::HashSet::new();
        for b in all {
            let l = v.level(b);
            assert!(seen.insert(l), "{b:?}");
            assert_eq!(v.bit(l), Some(b));
        }
    }
}
