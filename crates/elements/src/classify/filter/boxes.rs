//! Rules as boxes: for every rule a union of products of ranges over (source, destination, protocol, ports), plus what
//! does not fit that form as checks of their own.
//!
//! Ports have two values beyond the real ones: [`ABSENT`] when the packet ends before the port, and [`LATER`] when it
//! is not a first fragment. So "the port is missing" is one more value of a range and needs no case of its own.
//!
//! This holds for packets whose IP header's first 20 bytes are there. Where a port is cut in half, regions only say
//! what may match: see [`Ports`].

use super::eval::View;
use super::expr::{Check, Compare, Expr, Op, Test, Transport, Which};
use super::names::PROTOCOL;

/// Dimensions of a box.
pub(super) const DIMS: usize = 5;
pub(super) const SRC: usize = 0;
pub(super) const DST: usize = 1;
pub(super) const PROTO: usize = 2;
pub(super) const SPORT: usize = 3;
pub(super) const DPORT: usize = 4;

/// A port's value when the packet is too short for it.
pub(super) const ABSENT: u32 = 0x1_0000;
/// Both ports' value in a fragment that is not the first.
pub(super) const LATER: u32 = 0x1_0001;

/// Highest value in each dimension.
pub(super) const MAX: [u32; DIMS] = [u32::MAX, u32::MAX, 255, LATER, LATER];

/// More boxes than this for one rule, and the rule is evaluated as a tree instead.
const MAX_BOXES: usize = 64;

/// An inclusive range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub lo: u32,
    pub hi: u32,
}

/// A product of ranges, and checks that must come out as said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Region {
    pub r: [Range; DIMS],
    pub checks: Vec<(Check, bool)>,
}

impl Region {
    pub fn full() -> Region {
        Region {
            r: MAX.map(|hi| Range { lo: 0, hi }),
            checks: Vec::new(),
        }
    }
    fn with(dim: usize, lo: u32, hi: u32) -> Region {
        let mut c = Region::full();
        c.r[dim] = Range { lo, hi };
        c
    }
    fn check(c: Check, wanted: bool) -> Region {
        let mut r = Region::full();
        r.checks.push((c, wanted));
        r
    }
    fn and(&self, other: &Region) -> Option<Region> {
        let mut out = self.clone();
        for (a, b) in out.r.iter_mut().zip(&other.r) {
            a.lo = a.lo.max(b.lo);
            a.hi = a.hi.min(b.hi);
            if a.lo > a.hi {
                return None;
            }
        }
        out.checks.extend_from_slice(&other.checks);
        Some(out)
    }
}

/// A union of regions; `Err` when it would take more than [`MAX_BOXES`].
type Union = Result<Vec<Region>, TooMany>;

/// See [`MAX_BOXES`].
#[derive(Debug)]
pub(super) struct TooMany;

fn product(a: &[Region], b: &[Region]) -> Union {
    let mut out = Vec::new();
    for x in a {
        for y in b {
            out.extend(x.and(y));
            if out.len() > MAX_BOXES {
                return Err(TooMany);
            }
        }
    }
    Ok(out)
}

fn union(mut a: Vec<Region>, b: Vec<Region>) -> Union {
    a.extend(b);
    if a.len() > MAX_BOXES {
        return Err(TooMany);
    }
    Ok(a)
}

/// What is known of the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    /// Each port is there or is not.
    Known,
    /// A port is cut in half: checks of the transport header may come out either way, and the regions are those of all
    /// packets that *may* match.
    Unknown,
}

/// The packets that an expression matches, or with `wanted` false does not match.
pub(super) fn regions(e: &Expr, wanted: bool, ports: Ports) -> Union {
    match e {
        Expr::Const(b) => Ok(constant(*b == wanted)),
        Expr::Test(t) => test(t, wanted, ports),
        Expr::Not(e) => regions(e, !wanted, ports),
        Expr::All(list) => chain(list, true, wanted, ports),
        Expr::Any(list) => chain(list, false, wanted, ports),
        Expr::Choose { cases, otherwise } => {
            // not the first condition, not the second ... then the value of the one that holds
            let mut so_far = constant(true);
            let mut out = Vec::new();
            for (c, v) in cases {
                let here = product(&so_far, &regions(c, true, ports)?)?;
                out = union(out, product(&here, &regions(v, wanted, ports)?)?)?;
                so_far = product(&so_far, &regions(c, false, ports)?)?;
            }
            let rest = product(&so_far, &regions(otherwise, wanted, ports)?)?;
            union(out, rest)
        }
    }
}

fn constant(b: bool) -> Vec<Region> {
    if b { vec![Region::full()] } else { Vec::new() }
}

/// A list joined by `and` (`conjunction`) or `or`.
fn chain(list: &[Expr], conjunction: bool, wanted: bool, ports: Ports) -> Union {
    if conjunction == wanted {
        let mut out = constant(true);
        for e in list {
            out = product(&out, &regions(e, wanted, ports)?)?;
        }
        return Ok(out);
    }
    let mut out = Vec::new();
    for e in list {
        out = union(out, regions(e, wanted, ports)?)?;
    }
    Ok(out)
}

fn protocols(t: Option<Transport>) -> Vec<Range> {
    let one = |p: u8| Range {
        lo: p.into(),
        hi: p.into(),
    };
    match t {
        None => vec![Range { lo: 0, hi: 255 }],
        Some(Transport::Protocol(p)) => vec![one(p)],
        Some(Transport::TcpOrUdp) => vec![one(6), one(17)],
    }
}

fn on(dim: usize, ranges: Vec<Range>) -> Vec<Region> {
    ranges
        .iter()
        .map(|r| Region::with(dim, r.lo, r.hi))
        .collect()
}

fn test(t: &Test, wanted: bool, ports: Ports) -> Union {
    let protocol = protocols(t.transport);
    let first_only = t.check.first_fragment_only();
    let first = Region::with(SPORT, 0, ABSENT);
    let head = |ranges: Vec<Range>| -> Union {
        let p = on(PROTO, ranges);
        if first_only {
            product(&p, std::slice::from_ref(&first))
        } else {
            Ok(p)
        }
    };
    if wanted {
        return product(&head(protocol)?, &check(&t.check, true, ports)?);
    }
    // another protocol, or a later fragment, or the check fails. The three are kept apart, so that a range of ports is
    // never asked for without "first fragment"
    let mut out = on(PROTO, complement(&protocol, 0, 255));
    if first_only {
        let later = Region::with(SPORT, LATER, LATER);
        out = union(out, product(&on(PROTO, protocol.clone()), &[later])?)?;
    }
    let failed = product(&head(protocol)?, &check(&t.check, false, ports)?)?;
    union(out, failed)
}

/// What is left of `lo..=hi` without sorted, disjoint `ranges`.
fn complement(ranges: &[Range], lo: u32, hi: u32) -> Vec<Range> {
    let mut out = Vec::new();
    let mut next = Some(lo);
    for r in ranges {
        if let Some(n) = next
            && n < r.lo
        {
            out.push(Range {
                lo: n,
                hi: r.lo - 1,
            });
        }
        next = r.hi.checked_add(1);
    }
    if let Some(n) = next
        && n <= hi
    {
        out.push(Range { lo: n, hi });
    }
    out
}

/// The values in `0..=max` that satisfy a relation, if they are at most two ranges: the mask covers the whole field, or
/// its leading bits and the relation is equality, or nothing.
fn values(c: Compare, max: u32) -> Option<Vec<Range>> {
    let hit = match c.op {
        Op::Equal if c.mask == 0 => Range { lo: 0, hi: max },
        Op::Equal => {
            let low = max & !c.mask;
            // the bits outside the mask must be the lowest ones
            if low & low.wrapping_add(1) != 0 {
                return None;
            }
            Range {
                lo: c.value,
                hi: c.value | low,
            }
        }
        Op::Greater if c.mask == max => Range {
            lo: c.value.saturating_add(1),
            hi: max,
        },
        Op::Greater => return None,
    };
    Some(match c.negated {
        false => vec![hit],
        true => complement(&[hit], 0, max),
    })
}

/// Combines the sides of a test. `good` are the values that pass on one side; all of `0..=max` of which they are the
/// passing part, `max` counting in "absent" where there is such a thing.
fn sides(
    which: Which,
    negated: bool,
    dims: (usize, usize),
    good: Vec<Range>,
    max: u32,
    wanted: bool,
) -> Union {
    let both = match which {
        Which::Src | Which::Dst => {
            let dim = if which == Which::Src { dims.0 } else { dims.1 };
            return Ok(on(
                dim,
                if wanted {
                    good
                } else {
                    complement(&good, 0, max)
                },
            ));
        }
        // `!=` turns "one of them" into "both", as the documentation has it
        Which::Both => !negated,
        Which::Either => negated,
    };
    let set = if wanted {
        good
    } else {
        complement(&good, 0, max)
    };
    let (a, b) = (on(dims.0, set.clone()), on(dims.1, set));
    if both == wanted {
        product(&a, &b)
    } else {
        union(a, b)
    }
}

fn check(c: &Check, wanted: bool, ports: Ports) -> Union {
    if ports == Ports::Unknown && c.first_fragment_only() {
        return Ok(constant(true));
    }
    let other = || Ok(vec![Region::check(c.clone(), wanted)]);
    match c {
        Check::Protocol => Ok(constant(wanted)),
        Check::Host {
            which,
            addr,
            mask,
            negated,
        } => {
            let c = Compare {
                mask: *mask,
                op: Op::Equal,
                value: *addr,
                negated: *negated,
            };
            match values(c, u32::MAX) {
                Some(v) => sides(*which, *negated, (SRC, DST), v, u32::MAX, wanted),
                None => other(),
            }
        }
        // the addresses' first 32 bits are in the boxes, the rest is left to the check
        Check::Host6 {
            which: which @ (Which::Src | Which::Dst | Which::Both),
            addr,
            mask,
            negated: false,
        } if wanted => {
            let first = Compare {
                mask: (*mask >> 96) as u32,
                op: Op::Equal,
                value: (*addr >> 96) as u32,
                negated: false,
            };
            match values(first, u32::MAX) {
                Some(v) => {
                    let near = sides(*which, false, (SRC, DST), v, u32::MAX, true)?;
                    product(&near, &[Region::check(c.clone(), true)])
                }
                None => other(),
            }
        }
        Check::Port { which, compare } => match values(*compare, 0xffff) {
            // a constant relation does not look at the port, so that an absent one is as good
            _ if compare.mask == 0 => Ok(constant(compare.negated != wanted)),
            Some(v) => sides(*which, compare.negated, (SPORT, DPORT), v, ABSENT, wanted),
            None => other(),
        },
        Check::Field { field, compare } if *field == PROTOCOL => match values(*compare, 255) {
            Some(v) if wanted => Ok(on(PROTO, v)),
            Some(v) => Ok(on(PROTO, complement(&v, 0, 255))),
            None => other(),
        },
        _ => other(),
    }
}

/// A packet's value in every dimension.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    /// All known.
    Exact([u32; DIMS]),
    /// A port is cut in half: the values of [`Ports::Unknown`].
    CutPort([u32; DIMS]),
    /// Not even the IP header's first 20 bytes are there.
    CutHeader,
}

impl Key {
    /// Reads a packet's headers once.
    #[inline]
    pub fn of(view: &View<'_>) -> Key {
        let Some(h) = view.net.first_chunk::<20>() else {
            return Key::CutHeader;
        };
        let be32 = |i: usize| u32::from_be_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
        let be16 = |a: u8, b: u8| u32::from(u16::from_be_bytes([a, b]));
        let key = |sport, dport| [be32(12), be32(16), u32::from(h[9]), sport, dport];
        let first = be32(4) & 0x1fff == 0;
        match view.transport {
            _ if !first => Key::Exact(key(LATER, LATER)),
            [a, b, c, d, ..] => Key::Exact(key(be16(*a, *b), be16(*c, *d))),
            [a, b] => Key::Exact(key(be16(*a, *b), ABSENT)),
            [] => Key::Exact(key(ABSENT, ABSENT)),
            _ => Key::CutPort(key(0, 0)),
        }
    }
}
