//! The share of the header space in sets that depend on which case of a long list decides.
//!
//! It is exact where the list is a small enough diagram. Where it is not, the cases with fewest packets are left out,
//! up to a stated share of the header space: no figure is wrong by more than that.

use super::{All, Compared};
use crate::prove::dd::{NO, Ref};
use crate::prove::first::Rule;
use crate::prove::packet::World;
use crate::prove::vars::Bit;
use std::collections::HashMap;

/// Most nodes for one attempt.
const NODES: usize = 500_000;
/// Shares of the header space that may be left out, one attempt after the other.
const LEFT_OUT: [f64; 5] = [0.0, 1e-9, 1e-6, 1e-4, 1e-2];

/// The sets without unknown kinds: what is in them with the case that really decides. They may be wrong for the share
/// of the header space that is given with them. `None`: that takes too much.
pub fn settle<const N: usize>(
    w: &mut World,
    all: &All,
    mut sets: [Ref; N],
) -> Option<([Ref; N], f64)> {
    let mut within = 0.0;
    for c in all {
        let (dd, vars) = (&mut w.dd, &mut w.vars);
        if !sets.iter().any(|f| c.is_in(dd, vars, *f)) {
            continue;
        }
        let (to, share) = one(w, c, sets)?;
        sets = to;
        within += share;
    }
    Some((sets, within))
}

fn one<const N: usize>(w: &mut World, c: &Compared, sets: [Ref; N]) -> Option<([Ref; N], f64)> {
    // kinds for which all sets are the same are one here
    let mut numbers: HashMap<[Ref; N], u32> = HashMap::new();
    let mut parts: Vec<[Ref; N]> = Vec::new();
    let mut of = Vec::new();
    for k in 0..c.kinds() {
        let part = sets.map(|f| c.part(&mut w.dd, &mut w.vars, f, k));
        of.push(*numbers.entry(part).or_insert_with(|| {
            parts.push(part);
            parts.len() as u32
        }));
    }
    let mut shares: HashMap<Ref, f64> = HashMap::new();
    let mut cases: Vec<(f64, Rule)> = Vec::new();
    for (cube, k) in c.cases() {
        let mut share = 1.0;
        for (_, f) in &cube.parts {
            share *= match shares.get(f) {
                Some(s) => *s,
                None => {
                    let s = share_of(w, *f);
                    shares.insert(*f, s);
                    s
                }
            };
        }
        let all = cube.parts.iter().map(|p| p.1).collect();
        let value = of.get(k as usize).copied()?;
        cases.push((share, Rule { all, value }));
    }
    let mut order: Vec<f64> = cases.iter().map(|c| c.0).collect();
    order.sort_unstable_by(f64::total_cmp);
    let mut last = usize::MAX;
    for most in LEFT_OUT {
        // the smallest share that is kept
        let (mut sum, mut n) = (0.0, 0);
        while let Some(s) = order.get(n)
            && sum + s <= most
        {
            sum += s;
            n += 1;
        }
        let least = order.get(n).copied().unwrap_or(f64::MAX);
        // cases as small as the first one that is kept are kept
        let left = order.iter().filter(|s| **s < least);
        let (n, sum) = (left.clone().count(), left.sum::<f64>());
        if n == last {
            continue;
        }
        last = n;
        let list: Vec<Rule> = cases
            .iter()
            .filter(|(s, _)| *s >= least)
            .map(|(_, r)| Rule {
                all: r.all.clone(),
                value: r.value,
            })
            .collect();
        let made = w.dd.attempt(NODES, |dd| {
            let which = dd.first_match(list);
            let mut out = [NO; N];
            for (value, part) in (1..).zip(&parts) {
                let is = dd.is(which, value);
                for (to, f) in out.iter_mut().zip(part) {
                    let here = dd.and(is, *f);
                    *to = dd.or(*to, here);
                }
            }
            out
        });
        match made {
            Some(out) => return Some((out, sum)),
            None if w.dd.stopped().is_some() => return None,
            None => {}
        }
    }
    None
}

/// An upper bound of the share of packets for which a function holds. Functions of lengths are not counted, because
/// shares are of short frames only, nor are functions of what a binding gives, which may be anything.
fn share_of(w: &World, f: Ref) -> f64 {
    let free = |l: &u32| matches!(w.vars.bit(*l), Some(Bit::Len(_) | Bit::Bound(..)));
    match w.dd.support(f).iter().any(free) {
        true => 1.0,
        false => w.dd.share(f),
    }
}
