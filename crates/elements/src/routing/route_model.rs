//! The model of a route table: which destinations go where.

use super::table::{Addr, Hop, Route, RouteTable};
use crate::model::{AnnoKey, Case, Cond, Exit, Op, Read, Value, ValueSet, max_of};
use std::collections::HashMap;

/// More routes than this are grouped: one case per next hop instead of one per route.
const MAX_SINGLE: usize = 1000;

/// Cases that lead packets to the output of the longest matching route and set the annotation to its gateway; addresses
/// without a route match none of them. `None` where a mask is not contiguous: precedence is not by length then.
pub(crate) fn cases<K: Addr + Into<u128>>(t: &RouteTable<K>, anno: AnnoKey) -> Option<Vec<Case>> {
    let bits = anno.size.saturating_mul(8);
    let mut routes = Vec::with_capacity(t.len());
    for r in t.routes() {
        routes.push((r.mask.mask_len()?, r));
    }
    if routes.len() > MAX_SINGLE {
        return Some(grouped(&mut routes, anno, bits));
    }
    routes.sort_by_key(|(len, r)| (std::cmp::Reverse(*len), r.addr.into()));
    let one = |(len, r): &(u8, &Route<K>)| {
        let set = ValueSet::prefix(r.addr.into(), *len, bits);
        let mut c = case(anno, set, r.gw.into(), r.port);
        c.origin = r.arg.map(|i| i as usize);
        c
    };
    Some(routes.iter().map(one).collect())
}

fn case(anno: AnnoKey, set: ValueSet, gw: u128, port: u32) -> Case {
    let c = Case::new(Cond::In(Read::Anno(anno), set), Exit::Port(port as usize));
    match gw {
        0 => c,
        g => c.with([Op::SetAnno(anno, Value::Const(g))]),
    }
}

/// A next hop, and the intervals that lead there.
type Group<K> = (Hop<K>, Vec<(u128, u128)>);

/// One sweep over the address space, in which prefixes nest: each stretch belongs to the innermost prefix open there.
fn grouped<K: Addr + Into<u128>>(
    routes: &mut [(u8, &Route<K>)],
    anno: AnnoKey,
    bits: u8,
) -> Vec<Case> {
    routes.sort_by_key(|(len, r)| (r.addr.into(), *len));
    let mut groups: Vec<Group<K>> = Vec::new();
    let mut index: HashMap<Hop<K>, usize> = HashMap::new();
    // open prefixes, outermost first: last address, group
    let mut open: Vec<(u128, usize)> = Vec::new();
    let put = |groups: &mut Vec<Group<K>>, g: usize, lo, hi| {
        if lo <= hi
            && let Some(group) = groups.get_mut(g)
        {
            group.1.push((lo, hi));
        }
    };
    // the first address not yet given away
    let mut at = 0u128;
    for (len, r) in routes.iter() {
        let hop = Hop {
            gw: r.gw,
            port: r.port,
        };
        let g = *index.entry(hop).or_insert_with(|| {
            groups.push((hop, Vec::new()));
            groups.len() - 1
        });
        let lo: u128 = r.addr.into();
        let host = match len {
            0 => max_of(bits),
            n => max_of(bits) & !(u128::MAX << (bits - n)),
        };
        while let Some((end, inner)) = open.pop_if(|o| o.0 < lo) {
            put(&mut groups, inner, at, end);
            at = at.max(end + 1);
        }
        if let (Some((_, outer)), Some(before)) = (open.last(), lo.checked_sub(1)) {
            put(&mut groups, *outer, at, before);
        }
        at = lo;
        open.push((lo | host, g));
    }
    while let Some((end, g)) = open.pop() {
        put(&mut groups, g, at, end);
        // at the end of the address space, whatever else is open ends here, too
        let Some(next) = end.checked_add(1).filter(|_| end != max_of(bits)) else {
            break;
        };
        at = at.max(next);
    }
    let case = |(hop, set): Group<K>| {
        let set = ValueSet::from_intervals(set);
        case(anno, set, hop.gw.into(), hop.port)
    };
    groups.into_iter().map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::table::Placing;
    use onefold_packet::anno_field::DST_IP;
    use proptest::prelude::*;

    fn table(routes: &[(u32, u8, u32, u32)]) -> RouteTable<u32> {
        let mut t = RouteTable::new(Placing::First);
        for (i, (addr, len, gw, port)) in routes.iter().enumerate() {
            let r = Route {
                addr: *addr,
                mask: u32::mask(*len),
                gw: *gw,
                port: *port,
                arg: Some(i as u32),
            };
            let _ = t.add(r, true);
        }
        t
    }

    fn decide(cases: &[Case], a: u32) -> Option<(u128, usize)> {
        let hit = cases.iter().find(|c| match &c.when {
            Cond::In(Read::Anno(_), set) => set.contains(a.into()),
            _ => false,
        })?;
        let gw = match hit.ops[..] {
            [Op::SetAnno(_, Value::Const(g))] => g,
            _ => 0,
        };
        match hit.exit {
            Exit::Port(p) => Some((gw, p)),
            _ => None,
        }
    }

    proptest! {
        /// One case per route and one per next hop both say what the look-up says, at and around every boundary.
        #[test]
        fn both_forms_agree_with_the_lookup(
            routes in prop::collection::vec((0u32..16, 0u32..16, 0u8..=32, 0u32..3, 0u32..3), 0..40)
        ) {
            let routes: Vec<_> = routes
                .iter()
                .map(|(hi, lo, len, gw, port)| (hi << 28 | lo << 12 | lo, *len, *gw, *port))
                .collect();
            let t = table(&routes);
            let single = cases(&t, DST_IP.into()).unwrap();
            let mut all: Vec<_> = t.routes().map(|r| (r.mask.mask_len().unwrap(), r)).collect();
            let many = grouped(&mut all, DST_IP.into(), 32);
            for r in t.routes() {
                let (first, last) = (r.addr, r.addr | !r.mask);
                for a in [first, last, first.wrapping_sub(1), last.wrapping_add(1), 0, u32::MAX] {
                    let want = t.lookup(a).map(|h| (u128::from(h.gw), h.port as usize));
                    prop_assert_eq!(decide(&single, a), want, "{:x}", a);
                    prop_assert_eq!(decide(&many, a), want, "{:x}", a);
                }
            }
            // no address twice
            let n: usize = many.iter().map(|c| match &c.when {
                Cond::In(_, s) => s.intervals().len(),
                _ => 0,
            }).sum();
            prop_assert!(n <= 2 * t.len() + 1);
        }
    }

    #[test]
    fn odd_masks_have_no_model() {
        let mut t = table(&[(0, 0, 0, 0)]);
        let odd = Route {
            addr: 0,
            mask: 0x00ff_0000,
            gw: 0,
            port: 1,
            arg: None,
        };
        assert!(t.add(odd, false).is_ok());
        assert!(cases(&t, DST_IP.into()).is_none());
    }

    #[test]
    fn many_routes_make_few_cases() {
        let routes: Vec<_> = (0..5000u32)
            .map(|i| (i << 12, 20, 1 + i % 3, i % 2))
            .collect();
        let t = table(&routes);
        assert_eq!(cases(&t, DST_IP.into()).unwrap().len(), 6);
    }
}
