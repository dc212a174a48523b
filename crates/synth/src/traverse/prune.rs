//! Rules that no packet comes to, because earlier ones take all that fits them.

use super::Leaf;
use super::known::Known;
use crate::program::{Filter, SlotInfo};
use crate::text::width;

/// Most pieces that a rule may fall into while earlier ones are taken out of it; then it stays.
const MAX_PIECES: usize = 64;
/// Most pairs of filters that are looked at in one stage; then the rest stay.
const MAX_WORK: usize = 400_000;

/// Removes rules (in order) of which nothing is left behind earlier ones.
pub(super) fn taken_before(leaves: &mut Vec<Leaf>, known: &Known, slots: &[SlotInfo]) {
    let mut work = MAX_WORK;
    let mut kept: Vec<Leaf> = Vec::with_capacity(leaves.len());
    for l in leaves.drain(..) {
        if !taken(&l.part.filter, &kept, known, slots, &mut work) {
            kept.push(l);
        }
    }
    *leaves = kept;
}

fn taken(f: &Filter, before: &[Leaf], known: &Known, slots: &[SlotInfo], work: &mut usize) -> bool {
    let mut left: Vec<Filter> = Vec::new();
    for c in known.cubes() {
        let mut piece = f.clone();
        if c.0
            .iter()
            .all(|(d, s)| piece.narrow(*d, s, width(slots, *d)))
        {
            left.push(piece);
        }
    }
    for b in before {
        let Some(rest) = work.checked_sub(left.len().max(1)) else {
            return false;
        };
        *work = rest;
        if left.iter().all(|p| p.is_disjoint(&b.part.filter)) {
            continue;
        }
        let mut pieces = Vec::with_capacity(left.len());
        for p in left {
            match p.is_disjoint(&b.part.filter) {
                true => pieces.push(p),
                false => p.subtract(&b.part.filter, |d| width(slots, d), &mut pieces),
            }
        }
        if pieces.len() > MAX_PIECES {
            return false;
        }
        left = pieces;
        if left.is_empty() {
            return true;
        }
    }
    left.is_empty()
}
