//! From one epoch to the next: the packet is written out, and what was known of it is said anew of the packet as it is
//! now.
//!
//! Never less than the truth: what cannot be said is left open.

use super::dd::{NO, Ref, YES};
use super::packet::{AnnoBit, Facts, Sym, World};
use super::vars::Bit;
use onefold_synth::program::EndAt;
use std::collections::{BTreeSet, HashMap};

/// What is known of a packet that is `sym` where `here` holds, when the next epoch begins; positions count from its
/// first byte. The program's may have other checksums at the bytes `apart`.
pub fn carry(w: &mut World, sym: &Sym, here: Ref, apart: &[i32]) -> (Facts, Ref) {
    let shift = sym.start;
    let known = |f: &Ref| match *f {
        NO => Some(false),
        YES => Some(true),
        _ => None,
    };
    let ends = match w.end(sym.end) {
        EndAt::Ip4(at) if !sym.touched((at + 2) * 8, 16) => EndAt::Ip4(at - shift),
        EndAt::Ip6(at) if !sym.touched((at + 4) * 8, 16) => EndAt::Ip6(at - shift),
        _ => EndAt::Same,
    };
    let facts = Facts {
        net: sym.net.map(|(at, len)| (at - shift, len)),
        mac: sym.mac.map(|at| at - shift),
        annos: annotations(w, sym, apart),
        kind: sym.kind.iter().map(known).collect(),
        ends,
        apart: apart.iter().map(|at| at - shift).collect(),
        fixed: fixed_destination(sym),
    };
    // where what a variable stands for is now
    let mut moved: HashMap<u32, Bit> = HashMap::new();
    for (at, f) in &sym.bits {
        if let Some(level) = w.dd.is_var(*f)
            && !within(apart, *at)
        {
            moved.insert(level, Bit::Packet(at - shift * 8));
        }
    }
    for (i, f) in sym.annos.iter().enumerate() {
        if let Some(level) = w.dd.is_var(*f)
            && w.vars.bit(level) == Some(Bit::Anno(i as u16))
        {
            moved.insert(level, Bit::Anno(i as u16));
        }
    }
    for (i, f) in sym.kind.iter().enumerate() {
        if let Some(level) = w.dd.is_var(*f)
            && w.vars.bit(level) == Some(Bit::Type(i as u8))
        {
            moved.insert(level, Bit::Type(i as u8));
        }
    }
    let mut gone = BTreeSet::new();
    let mut by = undone(w, sym, apart);
    let mut length: Option<Vec<Ref>> = None;
    for level in w.dd.support(here) {
        if by.contains_key(&level) {
            continue;
        }
        let to = match w.vars.bit(level) {
            // of what may be another's nothing is known
            Some(Bit::Packet(p)) if within(apart, p) => None,
            Some(Bit::Packet(p)) if !sym.touched(p, 1) => Some(Bit::Packet(p - shift * 8)),
            Some(Bit::Len(i)) if w.end(sym.end) == EndAt::Same => {
                // the length then is the length now and what was cut off in front
                let v = match &length {
                    Some(v) => v.clone(),
                    None => {
                        let now: Vec<Ref> = (0..32)
                            .map(|i| w.vars.var(&mut w.dd, Bit::Len(i)))
                            .collect();
                        let add = i128::from(shift).rem_euclid(1 << 32) as u128;
                        let v = super::bits::plus(&mut w.dd, &now, add);
                        length = Some(v.clone());
                        v
                    }
                };
                if let Some(f) = v.get(usize::from(i)) {
                    by.insert(level, *f);
                    continue;
                }
                None
            }
            Some(Bit::Check((check, at, end))) => {
                let same = w.check(sym, check, at, here);
                let f = w.vars.var(&mut w.dd, Bit::Check((check, at, end)));
                match same {
                    Ok(g) if f == g => Some(Bit::Check((check, at - shift, EndAt::Same))),
                    _ => None,
                }
            }
            _ => moved.get(&level).copied(),
        };
        match to {
            Some(b) => {
                let level_now = w.vars.level(b);
                if level_now != level {
                    by.insert(level, w.dd.var(level_now));
                }
            }
            None => {
                gone.insert(level);
            }
        }
    }
    let set = w.dd.exists(here, &gone);
    let mut set = w.dd.put(set, &by);
    for (at, f) in &sym.bits {
        if (*f == YES || *f == NO) && !within(apart, *at) {
            let v = w.vars.var(&mut w.dd, Bit::Packet(at - shift * 8));
            set = match *f {
                YES => w.dd.and(set, v),
                _ => w.dd.minus(set, v),
            };
        }
    }
    (facts, set)
}

/// What is known of the annotations' bits: those that are constant, and those that stand in the packet, too.
fn annotations(w: &World, sym: &Sym, apart: &[i32]) -> Vec<Option<AnnoBit>> {
    // where bits of the packet stand; the first of those that are the same
    let mut places: HashMap<Ref, i32> = HashMap::new();
    for (at, f) in &sym.bits {
        if !within(apart, *at) {
            places.entry(*f).or_insert(*at);
        }
    }
    let first = sym.start * 8;
    let known = |f: &Ref| match *f {
        NO => Some(AnnoBit::Is(false)),
        YES => Some(AnnoBit::Is(true)),
        f => stands_at(w, sym, f, &places, apart)
            .filter(|at| *at >= first)
            .map(|at| AnnoBit::Packet(at - first)),
    };
    sym.annos.iter().map(known).collect()
}

/// Bits of the IP destination address, if all of them have one value, and an annotation has the same.
///
/// Of the annotation its value is known then, and of the packet that the address has this value: both are ways to ask a
/// route table for the same address, and the proof must know it for the same question.
fn fixed_destination(sym: &Sym) -> Vec<(i32, bool)> {
    let (first, bits) = match sym.net {
        Some((net, Some(20))) => ((net + 16) * 8, 32usize),
        Some((net, Some(40))) => ((net + 24) * 8, 128),
        _ => return Vec::new(),
    };
    let constant = |at: i32| match sym.bits.get(&at) {
        Some(f) if *f == NO || *f == YES => Some(*f),
        _ => None,
    };
    let address: Option<Vec<Ref>> = (first..).take(bits).map(constant).collect();
    let Some(address) = address else {
        return Vec::new();
    };
    // annotations lie at whole words
    let same = |from: usize| sym.annos.get(from..from + bits) == Some(&address[..]);
    match (0..sym.annos.len()).step_by(32).any(same) {
        true => (first - sym.start * 8..)
            .zip(address.iter().map(|f| *f == YES))
            .collect(),
        false => Vec::new(),
    }
}

/// The bit of the packet that this function is now, if it is one: an untouched one, or one that was written.
fn stands_at(
    w: &World,
    sym: &Sym,
    f: Ref,
    places: &HashMap<Ref, i32>,
    apart: &[i32],
) -> Option<i32> {
    if let Some(Bit::Packet(at)) = w.dd.is_var(f).and_then(|level| w.vars.bit(level))
        && !sym.touched(at, 1)
        && !within(apart, at)
    {
        return Some(at);
    }
    places.get(&f).copied()
}

/// Is the bit one of these checksums?
fn within(sums: &[i32], bit: i32) -> bool {
    sums.iter().any(|at| (at * 8..at * 8 + 16).contains(&bit))
}

/// Fields that became what they were plus a number: what they were, by what they are now.
fn undone(w: &mut World, sym: &Sym, apart: &[i32]) -> HashMap<u32, Ref> {
    let mut by = HashMap::new();
    let mut runs: Vec<(i32, Vec<Ref>)> = Vec::new();
    for (at, f) in &sym.bits {
        let known = *f == NO || *f == YES || w.dd.is_var(*f).is_some();
        match runs.last_mut() {
            // fields end where bytes do, at the latest
            Some((from, v)) if from.wrapping_add(v.len() as i32) == *at && at % 8 != 0 => {
                v.push(*f);
            }
            _ if known => {}
            _ => runs.push((*at, vec![*f])),
        }
    }
    for (at, now) in runs {
        let bits = at..at + now.len() as i32;
        if sym.sum_in(at, now.len() as i32) || bits.clone().any(|i| within(apart, i)) {
            continue;
        }
        let then = w.vars.packet(&mut w.dd, at, now.len() as u8);
        let zero: HashMap<u32, Ref> = (then.iter())
            .filter_map(|f| Some((w.dd.is_var(*f)?, NO)))
            .collect();
        let mut added = Some(0u128);
        for f in &now {
            added = match (w.dd.put(*f, &zero), added) {
                (NO, Some(n)) => Some(n << 1),
                (YES, Some(n)) => Some(n << 1 | 1),
                _ => None,
            };
        }
        let Some(added) = added else { continue };
        if super::bits::plus(&mut w.dd, &then, added) != now {
            continue;
        }
        let new = w
            .vars
            .packet(&mut w.dd, at - sym.start * 8, now.len() as u8);
        let back = (1u128 << now.len()) - added;
        let old = super::bits::plus(&mut w.dd, &new, back);
        for (v, f) in then.iter().zip(old) {
            if let Some(level) = w.dd.is_var(*v) {
                by.insert(level, f);
            }
        }
    }
    by
}
