//! How packets come to a stage: conditions at the entry, and what has become of the packet since.

use super::coverage::width;
use super::index::Index;
use crate::rng::Rng;
use onefold_element::ElemId;
use onefold_element::model::{AnnoKey, ValueSet, max_of};
use onefold_synth::program::{
    Action, Address, Dim, End, EndAt, Expr, Filter, Image, Next, Program, Stage, Step,
};

/// Most ways kept for a stage.
const MAX_WAYS: usize = 16;
/// Ways of a stage that are followed further.
const FOLLOWED: usize = 6;
/// Most earlier rules that a way remembers.
const MAX_EARLIER: usize = 20_000;
/// Most stages looked at.
const MAX_VISITS: usize = 20_000;

/// A condition on an epoch, said about the packet at the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Of(Dim, ValueSet),
    Always,
    Never,
    /// It cannot be said.
    Unknown,
}

/// What has become of a packet since the entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map {
    /// The epoch's first byte, counted from the entry's.
    shift: i32,
    end_changed: bool,
    /// Where the packet ends, in the entry's positions, as far as that is where an IP packet ends.
    end: Option<EndAt>,
    /// Fields written, in the entry's positions, with values in the entry's terms where they are known.
    writes: Vec<(i32, u8, Option<Expr>)>,
    annos: Vec<(AnnoKey, Option<Expr>)>,
    changed: bool,
}

impl Map {
    fn say(&self, d: Dim, set: &ValueSet) -> Said {
        match d {
            _ if !self.changed => Said::Of(d, set.clone()),
            Dim::Len if self.end_changed => self.said_end(set),
            Dim::Len => {
                let back = (-i64::from(self.shift)) as u128 & max_of(32);
                Said::Of(Dim::Len, set.shifted_back(back, 32))
            }
            Dim::Bits { bit, bits } => {
                let bit = bit + self.shift * 8;
                let (from, to) = (bit, bit + i32::from(bits));
                let touched = (self.writes.iter())
                    .filter(|(b, n, _)| *b < to && *b + i32::from(*n) > from)
                    .collect::<Vec<_>>();
                match touched[..] {
                    [] => Said::Of(Dim::Bits { bit, bits }, set.clone()),
                    [(b, n, Some(e))] => self.written(*e, *b, *n, bit, bits, set),
                    _ => Said::Unknown,
                }
            }
            Dim::Check { check, at, end } => Said::Of(
                Dim::Check {
                    check,
                    at: at + self.shift,
                    end: match end {
                        EndAt::Same => EndAt::Same,
                        EndAt::Ip4(at) => EndAt::Ip4(at + self.shift),
                        EndAt::Ip6(at) => EndAt::Ip6(at + self.shift),
                    },
                },
                set.clone(),
            ),
            Dim::Slot(_) => Said::Of(d, set.clone()),
            Dim::Anno(key) => match self.annos.iter().find(|(k, _)| *k == key) {
                Some((_, Some(e))) => self.written(*e, 0, key.size * 8, 0, key.size * 8, set),
                Some((_, None)) => Said::Unknown,
                None => match set.contains(0) {
                    true => Said::Always,
                    false => Said::Unknown,
                },
            },
            Dim::PacketType => Said::Unknown,
            Dim::Route { table, of, what } => {
                let of = match of {
                    Address::Is { .. } => of,
                    Address::Bits { bit, bits } => {
                        let bit = bit + self.shift * 8;
                        let (from, to) = (bit, bit + i32::from(bits));
                        let mut near = self.writes.iter();
                        if near.any(|(b, n, _)| *b < to && *b + i32::from(*n) > from) {
                            return Said::Unknown;
                        }
                        Address::Bits { bit, bits }
                    }
                    Address::Anno(_) => return Said::Unknown,
                };
                Said::Of(Dim::Route { table, of, what }, set.clone())
            }
        }
    }

    /// A length, where the packet ends with its IP packet: said about that packet's own length.
    fn said_end(&self, set: &ValueSet) -> Said {
        let (at, field, more) = match self.end {
            Some(EndAt::Ip4(at)) => (at, at + 2, 0),
            Some(EndAt::Ip6(at)) => (at, at + 4, 40),
            _ => return Said::Unknown,
        };
        let bit = field * 8;
        if (self.writes.iter()).any(|(b, n, _)| *b < bit + 16 && *b + i32::from(*n) > bit) {
            return Said::Unknown;
        }
        // the length is `at + more + field - shift`
        let less = i64::from(at) + more - i64::from(self.shift);
        let moved = set.intervals().iter().filter_map(|(lo, hi)| {
            let cut = |v: u128| v.min(1 << 20) as i64 - less;
            let (lo, hi) = (cut(*lo).max(0), cut(*hi).min(0xffff));
            (lo <= hi).then_some((lo as u128, hi as u128))
        });
        let moved = ValueSet::from_intervals(moved);
        match moved.is_empty() {
            true => Said::Never,
            false => Said::Of(Dim::Bits { bit, bits: 16 }, moved),
        }
    }

    fn written(&self, e: Expr, b: i32, n: u8, bit: i32, bits: u8, set: &ValueSet) -> Said {
        match e {
            Expr::Const(c) if bit >= b && bit + i32::from(bits) <= b + i32::from(n) => {
                let low = b + i32::from(n) - bit - i32::from(bits);
                let v = (c >> low) & max_of(bits);
                match set.contains(v) {
                    true => Said::Always,
                    false => Said::Never,
                }
            }
            // a part of a field that was copied
            Expr::Of(
                Dim::Bits {
                    bit: from,
                    bits: all,
                },
                0,
            ) if all == n && bit >= b && bit + i32::from(bits) <= b + i32::from(n) => {
                let bit = from + (bit - b);
                Said::Of(Dim::Bits { bit, bits }, set.clone())
            }
            Expr::Of(d, plus) if b == bit && n == bits => match d {
                Dim::Slot(_) => Said::Of(d, set.shifted_back(plus, bits)),
                d if d.width() == bits => Said::Of(d, set.shifted_back(plus, bits)),
                _ => Said::Unknown,
            },
            _ => Said::Unknown,
        }
    }

    /// A filter in the entry's terms, added to `to`. `None` when nothing fits; false when part of it could not be said.
    pub fn narrow(&self, p: &Program, f: &Filter, to: &Filter) -> Option<(Filter, bool)> {
        let mut out = to.clone();
        let mut whole = true;
        for (d, set) in &f.0 {
            match self.say(*d, set) {
                Said::Of(d, set) => {
                    if !out.narrow(d, &set, width(p, d)) {
                        return None;
                    }
                }
                Said::Always => {}
                Said::Never => return None,
                Said::Unknown => whole = false,
            }
            // what is not zero is not behind an end that the packet got on the way
            if let (true, Some(least)) = (self.end_changed, bytes_of(*d, set)) {
                match self.say(Dim::Len, &ValueSet::range(least, max_of(32))) {
                    Said::Of(d, set) => {
                        if !out.narrow(d, &set, width(p, d)) {
                            return None;
                        }
                    }
                    Said::Never => return None,
                    Said::Always | Said::Unknown => {}
                }
            }
        }
        Some((out, whole))
    }

    /// Nothing has changed since the entry.
    pub fn is_identity(&self) -> bool {
        !self.changed
    }

    /// An expression in the entry's terms.
    pub(super) fn expr(&self, e: Expr) -> Option<Expr> {
        match e {
            Expr::Const(_) => Some(e),
            Expr::Of(d, plus) => {
                let w = d.width();
                // where the identity on values comes from
                match self.say(d, &ValueSet::one(0)) {
                    Said::Of(n, s) => {
                        let delta = s.single()?.wrapping_neg() & max_of(w);
                        Some(Expr::Of(n, plus.wrapping_add(delta) & max_of(w)))
                    }
                    _ => match d {
                        Dim::Bits { bit, bits } => {
                            let bit = bit + self.shift * 8;
                            let exact =
                                self.writes.iter().find(|(b, n, _)| *b == bit && *n == bits);
                            match exact {
                                Some((_, _, Some(Expr::Const(c)))) => {
                                    Some(Expr::Const(c.wrapping_add(plus) & max_of(bits)))
                                }
                                _ => None,
                            }
                        }
                        _ => None,
                    },
                }
            }
        }
    }

    /// A new epoch begins with this image.
    pub(super) fn then(&self, image: &Image) -> Map {
        let mut m = self.clone();
        m.changed = true;
        for w in &image.writes {
            let bit = w.bit + self.shift * 8;
            let value = self.expr(w.value);
            let (from, to) = (bit, bit + i32::from(w.bits));
            m.writes.retain(|(b, n, _)| {
                *b >= to || *b + i32::from(*n) <= from || *b == bit && *n == w.bits
            });
            match m
                .writes
                .iter_mut()
                .find(|(b, n, _)| *b == bit && *n == w.bits)
            {
                Some(old) => old.2 = value,
                None => m.writes.push((bit, w.bits, value)),
            }
        }
        if image.cleared {
            m.annos.clear();
        }
        for (k, e) in &image.annos {
            let value = self.expr(*e);
            m.annos.retain(|(o, _)| o != k);
            m.annos.push((*k, value));
        }
        m.shift += image.start;
        m.end_changed |= image.end != EndAt::Same;
        m.end = match image.end {
            EndAt::Same => m.end,
            EndAt::Ip4(at) => Some(EndAt::Ip4(at + self.shift)),
            EndAt::Ip6(at) => Some(EndAt::Ip6(at + self.shift)),
        };
        m
    }
}

/// Bytes that a packet has at least whose field has a value of the set; `None` if that is not told.
fn bytes_of(d: Dim, set: &ValueSet) -> Option<u128> {
    let Dim::Bits { bit, bits } = d else {
        return None;
    };
    let bit = u128::try_from(bit).ok()?;
    match set.single() {
        _ if set.contains(0) => None,
        Some(v) => Some((bit + u128::from(bits) - u128::from(v.trailing_zeros())).div_ceil(8)),
        None => Some(bit / 8 + 1),
    }
}

/// A way to a stage.
#[derive(Debug, Clone)]
pub struct StagePath {
    /// Where packets enter.
    pub source: ElemId,
    /// What they are like there.
    pub cube: Filter,
    /// What has become of them.
    pub map: Map,
    /// Rules that must not take them, in the entry's terms.
    pub earlier: Vec<Filter>,
    /// It needs a binding that was made before.
    pub stateful: bool,
}

/// Ways to all stages.
pub fn ways(p: &Program, rng: &mut Rng) -> Vec<Vec<StagePath>> {
    let mut all: Vec<Vec<StagePath>> = vec![Vec::new(); p.stages.len()];
    let mut offered = vec![0usize; p.stages.len()];
    let mut queue = std::collections::VecDeque::new();
    for e in &p.entries {
        let way = StagePath {
            source: e.source,
            cube: Filter::default(),
            map: Map::default(),
            earlier: Vec::new(),
            stateful: false,
        };
        if let Some(to) = all.get_mut(e.stage.0 as usize) {
            to.push(way);
            queue.push_back(e.stage.0 as usize);
        }
    }
    let mut followed = vec![0usize; p.stages.len()];
    let mut indices: Vec<Option<Index>> = vec![None; p.stages.len()];
    let mut visits = 0;
    while let Some(at) = queue.pop_front() {
        visits += 1;
        if visits > MAX_VISITS {
            break;
        }
        let Some(stage) = p.stages.get(at) else {
            continue;
        };
        // those that have come since the stage was looked at last
        let from = followed[at];
        let to = all[at].len().min(FOLLOWED);
        followed[at] = to.max(from);
        for w in all[at].get(from..to).unwrap_or(&[]).to_vec() {
            for (i, r) in stage.rules.iter().enumerate() {
                let Some(action) = stage.actions.get(r.action.0 as usize) else {
                    continue;
                };
                let next = successors(action);
                if next.is_empty() {
                    continue;
                }
                let Some((cube, _)) = w.map.narrow(p, &r.filter, &w.cube) else {
                    continue;
                };
                for (to, image, stateful) in next {
                    let Some(list) = all.get_mut(to) else {
                        continue;
                    };
                    offered[to] += 1;
                    // the later ones change places, so that they are of many kinds
                    let place = match list.len() {
                        n if n < MAX_WAYS => n,
                        _ if rng.below(offered[to]) < MAX_WAYS - FOLLOWED => {
                            FOLLOWED + rng.below(MAX_WAYS - FOLLOWED)
                        }
                        _ => continue,
                    };
                    let index = indices[at]
                        .get_or_insert_with(|| Index::new(stage.rules.iter().map(|r| &r.filter)));
                    let way = StagePath {
                        source: w.source,
                        cube: cube.clone(),
                        map: image.map_or_else(|| w.map.clone(), |i| w.map.then(i)),
                        earlier: earlier_rules(p, stage, index, i, &w, &cube),
                        stateful: w.stateful || stateful,
                    };
                    match list.get_mut(place) {
                        Some(old) => *old = way,
                        None => {
                            list.push(way);
                            if list.len() <= FOLLOWED {
                                queue.push_back(to);
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

/// The rules that may take a packet before rule `i` does: those on the way, and those of its stage, in the entry's
/// terms.
fn earlier_rules(
    p: &Program,
    stage: &Stage,
    index: &Index,
    i: usize,
    w: &StagePath,
    cube: &Filter,
) -> Vec<Filter> {
    let mut earlier = w.earlier.clone();
    earlier.retain(|e| !e.is_disjoint(cube));
    let Some(rule) = stage.rules.get(i) else {
        return earlier;
    };
    index.overlapping(&rule.filter, i, &mut |e| {
        if earlier.len() < MAX_EARLIER
            && let Some(e) = stage.rules.get(e)
            && !e.filter.is_disjoint(&rule.filter)
            && let Some((f, true)) = w.map.narrow(p, &e.filter, &Filter::default())
            && !f.is_disjoint(cube)
        {
            earlier.push(f);
        }
    });
    earlier
}

/// Stages that an action leads to, with the image of a new epoch, and whether that takes a binding made before.
fn successors(a: &Action) -> Vec<(usize, Option<&Image>, bool)> {
    let mut all = Vec::new();
    let stage = |n: &Next| match n {
        Next::Stage(s) => Some(s.0 as usize),
        Next::Unconnected(_) | Next::Never => None,
    };
    match &a.end {
        End::Goto(s) => all.push((s.0 as usize, None, false)),
        End::Write { image, next } => all.push((next.0 as usize, Some(&**image), false)),
        End::Ask { image, outputs, .. } => {
            all.extend((outputs.iter().filter_map(stage)).map(|s| (s, Some(&**image), false)));
        }
        End::Fork(ways) => all.extend(ways.iter().filter_map(stage).map(|s| (s, None, false))),
        _ => {}
    }
    for s in &a.steps {
        if let Step::Bind { bound, pass, .. } = s {
            all.extend(pass.iter().filter_map(stage).map(|s| (s, None, false)));
            all.extend(bound.iter().filter_map(stage).map(|s| (s, None, true)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_synth::program::Write;

    #[test]
    fn what_is_not_zero_is_before_the_end() {
        let p = Program::default();
        let image = Image {
            start: 14,
            end: EndAt::Ip4(14),
            ..Image::default()
        };
        let m = Map::default().then(&image);
        let bits = |bit, bits| Dim::Bits { bit, bits };
        let least = |d, v| {
            let want = Filter(vec![(d, ValueSet::one(v))]);
            let (f, whole) = m.narrow(&p, &want, &Filter::default()).unwrap();
            assert!(whole);
            f.get(bits(16 * 8, 16)).map(|s| s.intervals()[0].0)
        };
        // two bytes behind the header: how many of them must be there
        assert_eq!(least(bits(160, 16), 0x08ff), Some(22));
        assert_eq!(least(bits(160, 16), 0x0800), Some(21));
        assert_eq!(least(bits(160, 16), 0), None);
    }

    #[test]
    fn conditions_are_said_about_the_entry() {
        let p = Program::default();
        let bits = |bit, bits| Dim::Bits { bit, bits };
        let ttl = bits(8 * 22, 8);
        let image = Image {
            start: 14,
            writes: vec![
                Write {
                    bit: 8 * 22,
                    bits: 8,
                    value: Expr::Of(ttl, 255),
                },
                Write {
                    bit: 0,
                    bits: 48,
                    value: Expr::Const(7),
                },
            ],
            ..Image::default()
        };
        let m = Map::default().then(&image).then(&image);
        let say = |d, set: ValueSet| m.say(d, &set);
        // two decrements: 8 there was 9 after the first epoch's image, which the second one's bytes do not cover
        assert_eq!(
            Map::default()
                .then(&image)
                .say(bits(64, 8), &ValueSet::one(8)),
            Said::Of(ttl, ValueSet::one(9))
        );
        assert_eq!(
            say(Dim::Len, ValueSet::one(20)),
            Said::Of(Dim::Len, ValueSet::one(48))
        );
        assert_eq!(
            say(bits(0, 8), ValueSet::one(1)),
            Said::Of(bits(224, 8), ValueSet::one(1))
        );
        assert_eq!(say(bits(-112, 48), ValueSet::one(7)), Said::Always);
        assert_eq!(say(bits(-112, 48), ValueSet::one(8)), Said::Never);
        assert_eq!(
            m.narrow(
                &p,
                &Filter(vec![(bits(-112, 48), ValueSet::one(8))]),
                &Filter::default()
            ),
            None
        );
    }
}
