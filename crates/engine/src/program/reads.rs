//! What decides which way a packet goes within its first epoch: everything that the stages which can be reached read,
//! with the values at which an answer can change. Told for each shape of packets that the flow table knows: a rule
//! that no packet of a shape fits does not matter for it, nor what lies behind.

use crate::program::followers::followers_of;
use crate::program::headers::registers::Bits;
use crate::program::headers::shape::Shape;
use onefold_element::model::{HeaderCheck, RouteWhat, ValueSet};
use onefold_synth::program::{Action, Address, Dim, End, EndAt, Entry, Program, Step};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Values at which a dimension's answers can change, at most; of more it is only known that there are many.
pub(crate) const MAX_CUTS: usize = 4096;

/// A dimension that is read.
#[derive(Debug, Clone)]
pub(crate) struct DimRead {
    pub dim: Dim,
    /// Its register.
    pub reg: u16,
    /// Each is the first value of an interval within which no filter makes a difference; ascending, without 0.
    /// `None`: too many.
    pub cuts: Option<Vec<u128>>,
}

/// What packets of one shape are read for.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShapeReads {
    pub dims: Vec<DimRead>,
    /// Of the flow's key.
    pub keys: Vec<DimRead>,
    /// Something is decided by what was bound or found on the way.
    pub slots: bool,
    /// Rewriters are asked for bindings.
    pub binds: bool,
}

/// The time to live is counted down so many times, at most, between an entry and a place where it is asked again, for
/// what is asked there to be asked at the entry.
const COUNTED_DOWN: u128 = 3;

impl ShapeReads {
    /// Adds what is asked of these packets later, when they are of shape `then`, as far as it is bits of MAC
    /// addresses, of the IP header or behind it: whatever is asked too much costs matches, and is not wrong.
    pub fn widen(&mut self, later: &ShapeReads, now: Shape, then: Shape) {
        let by = (now.l3 as i32 - then.l3 as i32) * 8;
        let ttl = (now.l3 + if now.v6 { 7 } else { 8 }) as i32 * 8;
        self.binds |= later.binds;
        self.slots |= later.slots;
        for d in &later.dims {
            let dim = match d.dim {
                Dim::Bits { bit, bits } if bit >= then.l3 as i32 * 8 && bits <= 64 => Dim::Bits {
                    bit: bit + by,
                    bits,
                },
                // a tag is put in behind MAC addresses, or taken out there
                Dim::Bits { bit, bits } if bit >= 0 && bit + i32::from(bits) <= 96 => d.dim,
                Dim::Check { check, at, end }
                    if check == HeaderCheck::Ip4Checksum && at == then.l3 as i32 =>
                {
                    Dim::Check {
                        check,
                        at: at + by / 8,
                        end,
                    }
                }
                _ => continue,
            };
            let mut cuts = d.cuts.clone();
            if dim == (Dim::Bits { bit: ttl, bits: 8 })
                && let Some(cuts) = &mut cuts
            {
                let more = |c: u128| (0..=COUNTED_DOWN).map(move |n| c + n);
                *cuts = cuts
                    .iter()
                    .copied()
                    .flat_map(more)
                    .filter(|c| *c <= 0xff)
                    .collect();
            }
            add(&mut self.dims, DimRead { dim, cuts, ..*d });
        }
        for d in &later.keys {
            if let Dim::Bits { bit, bits } = d.dim {
                let dim = Dim::Bits {
                    bit: bit + by,
                    bits,
                };
                add(
                    &mut self.keys,
                    DimRead {
                        dim,
                        cuts: d.cuts.clone(),
                        ..*d
                    },
                );
            }
        }
    }
}

/// Another dimension, or more of one that is known; of too much nothing is added.
fn add(all: &mut Vec<DimRead>, more: DimRead) {
    let Some(cuts) = more.cuts else { return };
    match all.iter_mut().find(|d| d.dim == more.dim) {
        Some(DimRead {
            cuts: Some(had), ..
        }) => {
            let both: BTreeSet<u128> = had.iter().chain(&cuts).copied().collect();
            if both.len() <= MAX_CUTS {
                *had = both.into_iter().collect();
            }
        }
        Some(_) => {}
        None => {
            let at = all.partition_point(|d| d.dim < more.dim);
            let cuts = cuts
                .into_iter()
                .collect::<BTreeSet<u128>>()
                .into_iter()
                .collect();
            all.insert(
                at,
                DimRead {
                    cuts: Some(cuts),
                    ..more
                },
            );
        }
    }
}

/// What is read behind an entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryReads {
    /// The source element.
    pub source: u32,
    /// By [`Shape::all`].
    pub shapes: Vec<ShapeReads>,
}

/// For every entry of a program. `regs` has the register of each dimension.
pub(crate) fn of(
    p: &Program,
    regs: &HashMap<Dim, u16>,
) -> (Vec<EntryReads>, Option<Arc<LaterReads>>) {
    let entry = |e: &Entry| EntryReads {
        source: e.source.0,
        shapes: of_shapes(p, regs, e.stage.0, 0),
    };
    let entries = p.entries.iter().map(entry).collect();
    (entries, LaterReads::of(p, regs).map(Arc::new))
}

fn of_shapes(p: &Program, regs: &HashMap<Dim, u16>, stage: u32, shift: i32) -> Vec<ShapeReads> {
    (Shape::all().iter())
        .map(|s| of_shape(p, regs, (stage, shift), *s))
        .collect()
}

/// What is read where an epoch begins behind a write-out or an element that was asked: found out when the flow table
/// asks, as few of these places see packets.
#[derive(Debug, Clone)]
pub(crate) struct LaterReads {
    program: Program,
    regs: HashMap<Dim, u16>,
}

impl LaterReads {
    /// `None` where there are no such places.
    pub fn of(p: &Program, regs: &HashMap<Dim, u16>) -> Option<LaterReads> {
        let goes_on = |a: &Action| matches!(a.end, End::Write { .. } | End::Ask { .. });
        let any = p.stages.iter().any(|s| s.actions.iter().any(goes_on));
        any.then(|| LaterReads {
            program: p.clone(),
            regs: regs.clone(),
        })
    }

    /// Behind this stage, of packets that are looked at from `shift` bytes before their first one.
    pub fn at(&self, stage: u32, shift: i32) -> EntryReads {
        EntryReads {
            source: u32::MAX,
            shapes: of_shapes(&self.program, &self.regs, stage, shift),
        }
    }
}

/// What a dimension is for who looks at packets from so many bytes before their first one.
fn shifted(d: Dim, shift: i32) -> Dim {
    let end = |e: EndAt| match e {
        EndAt::Same => EndAt::Same,
        EndAt::Ip4(at) => EndAt::Ip4(at + shift),
        EndAt::Ip6(at) => EndAt::Ip6(at + shift),
    };
    match d {
        Dim::Bits { bit, bits } => Dim::Bits {
            bit: bit + shift * 8,
            bits,
        },
        Dim::Check { check, at, end: e } => Dim::Check {
            check,
            at: at + shift,
            end: end(e),
        },
        Dim::Route { table, of, what } => Dim::Route {
            table,
            of: match of {
                Address::Bits { bit, bits } => Address::Bits {
                    bit: bit + shift * 8,
                    bits,
                },
                of => of,
            },
            what,
        },
        Dim::Len | Dim::Slot(_) | Dim::Anno(_) | Dim::PacketType => d,
    }
}

fn of_shape(
    p: &Program,
    regs: &HashMap<Dim, u16>,
    (stage, shift): (u32, i32),
    shape: Shape,
) -> ShapeReads {
    let mut seen = HashSet::new();
    let mut todo = vec![stage];
    let mut cuts = Cuts::default();
    let mut binds = false;
    let mut known: HashMap<Dim, Known> = HashMap::new();
    // Bound: each stage once.
    while let Some(i) = todo.pop() {
        let Some(s) = p.stages.get(i as usize).filter(|_| seen.insert(i)) else {
            continue;
        };
        let mut actions = BTreeSet::new();
        for r in &s.rules {
            let known = |d: &Dim| {
                *(known.entry(*d)).or_insert_with(|| Known::of(shifted(*d, shift), shape))
            };
            if read(&r.filter.0, known, &mut cuts) {
                actions.insert(r.action.0);
            }
        }
        for a in actions.iter().filter_map(|a| s.actions.get(*a as usize)) {
            binds |= a.steps.iter().any(|s| matches!(s, Step::Bind { .. }));
            todo.extend(followers_of(a));
        }
    }
    let told = |cuts: HashMap<Dim, BTreeSet<u128>>| {
        let mut dims: Vec<DimRead> = (cuts.into_iter())
            .filter_map(|(dim, cuts)| {
                // a packet is so much longer
                let more = u128::from((dim == Dim::Len) as u8) * shift as u128;
                Some(DimRead {
                    dim: shifted(dim, shift),
                    reg: *regs.get(&dim)?,
                    cuts: (cuts.len() <= MAX_CUTS)
                        .then(|| cuts.into_iter().map(|c| c.saturating_add(more)).collect()),
                })
            })
            .collect();
        dims.sort_by_key(|d| d.dim);
        dims
    };
    ShapeReads {
        dims: told(cuts.dims),
        keys: told(cuts.keys),
        slots: cuts.slots,
        binds,
    }
}

/// What filters read, and where answers change.
#[derive(Default)]
struct Cuts {
    dims: HashMap<Dim, BTreeSet<u128>>,
    keys: HashMap<Dim, BTreeSet<u128>>,
    slots: bool,
}

/// What a shape says of a dimension.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// This is its value.
    Is(u128),
    /// It is part of the key.
    Key,
    /// It is what was bound or found on the way, or what a table of neighbours says of what is part of the key.
    Slot,
    /// That it is none of these values, which have shapes of their own.
    Not(&'static [u8]),
    /// What a table of neighbours says of a constant.
    Neighbor,
    /// Nothing.
    No,
}

impl Known {
    fn of(d: Dim, shape: Shape) -> Known {
        match d {
            Dim::Slot(_) => Known::Slot,
            Dim::Bits { bit, bits } if shape.in_shape(bit, bits) => {
                Known::Is(Bits::new(bit, bits).read(&shape.fixed().1, 0))
            }
            Dim::Bits { bit, bits } if shape.in_key(bit, bits) => Known::Key,
            Dim::Bits { bit, bits: 8 } if bit == shape.protocol() as i32 * 8 => {
                Known::Not(shape.never())
            }
            // an action that stands on what a table of neighbours says rests when that changes
            Dim::Route {
                of,
                what: RouteWhat::Known | RouteWhat::Ether,
                ..
            } => match of {
                // each address has its own answer, as each flow has what it is bound to
                Address::Bits { bit, bits } if shape.in_key(bit, bits) => Known::Slot,
                Address::Is { .. } => Known::Neighbor,
                _ => Known::No,
            },
            // what a route table says of an address is the same until a handler is written to, which ends all entries
            Dim::Route { of, .. } => match of {
                Address::Bits { bit, bits } if shape.in_key(bit, bits) => Known::Key,
                Address::Is { .. } => Known::Key,
                _ => Known::No,
            },
            Dim::Check { check, at, end } if at == shape.l3 as i32 && end == EndAt::Same => {
                match check {
                    HeaderCheck::Ip4Fits if !shape.v6 => Known::Is(1),
                    HeaderCheck::Ip6Fits if shape.v6 => Known::Is(1),
                    _ => Known::No,
                }
            }
            _ => Known::No,
        }
    }
}

/// Has a set no other values than these?
fn within(set: &ValueSet, values: &[u8]) -> bool {
    let among = |v: u128| values.iter().any(|x| u128::from(*x) == v);
    // Bound: what is longer than these cannot be within them
    let longest = values.len() as u128;
    (set.intervals().iter()).all(|(lo, hi)| hi - lo < longest && (*lo..=*hi).all(among))
}

/// Takes down what a filter reads; false, and nothing, when no packet of the shape fits it.
fn read(filter: &[(Dim, ValueSet)], mut known: impl FnMut(&Dim) -> Known, cuts: &mut Cuts) -> bool {
    let mut open = Vec::with_capacity(filter.len());
    let mut slots = false;
    for (d, set) in filter {
        match known(d) {
            Known::Is(v) if !set.contains(v) => return false,
            Known::Is(_) | Known::Neighbor => {}
            // ports of protocols that have none would be guarded, a box for each interval
            Known::Not(values) if within(set, values) => return false,
            Known::Slot => slots = true,
            Known::Key => open.push((d, set, true)),
            Known::Not(_) | Known::No => open.push((d, set, false)),
        }
    }
    cuts.slots |= slots;
    for (d, set, key) in open {
        let all = if key { &mut cuts.keys } else { &mut cuts.dims };
        let all = all.entry(*d).or_default();
        // one more than is kept says that there are many
        for (lo, hi) in set.intervals() {
            if all.len() > MAX_CUTS {
                break;
            }
            all.extend((*lo > 0).then_some(*lo));
            all.extend(hi.checked_add(1));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TCP's ports are not asked of what is neither TCP nor UDP; what a rule says of other protocols is.
    #[test]
    fn rules_for_shapes_are_not_read_for_others() {
        let other = Shape::all()
            .into_iter()
            .find(|s| s.l3 == 14 && !s.v6 && s.special().len() == 3)
            .unwrap();
        let protocol = Dim::Bits { bit: 184, bits: 8 };
        let port = Dim::Bits { bit: 288, bits: 16 };
        let asked = |protocols: &[(u128, u128)]| {
            let of = |at: &[(u128, u128)]| ValueSet::from_intervals(at.iter().copied());
            let filter = [(protocol, of(protocols)), (port, of(&[(80, 80)]))];
            let mut cuts = Cuts::default();
            read(&filter, |d| Known::of(*d, other), &mut cuts);
            cuts.dims.contains_key(&port)
        };
        assert!(!asked(&[(6, 6)]) && !asked(&[(17, 17)]) && !asked(&[(6, 6), (17, 17)]));
        // ICMP that is no echo message is of this shape
        assert!(asked(&[(6, 7)]) && asked(&[(1, 1)]) && asked(&[(0, 255)]));
    }
}
