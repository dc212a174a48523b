//! The model of a route table: which destinations go where.

use super::table::{Addr, Hop, Route, RouteTable};
use onefold_element::model::{
    AnnoKey, Case, Cond, Exit, ModelCx, Op, Read, RouteWhat, Value, ValueSet, max_of,
};
use std::collections::HashMap;

/// More routes than this are grouped: one case per next hop instead of one per route.
const MAX_SINGLE: usize = 1000;
/// More routes than this are no part of the model: its cases say that the table is asked, and what it may answer.
pub(crate) const MAX_LISTED: usize = 4096;

/// Cases that lead packets to the output of the longest matching route and set the annotation to its gateway; addresses
/// without a route match none of them. `None` where a mask is not contiguous: precedence is not by length then.
pub(crate) fn cases<K: Addr + Into<u128>>(
    t: &RouteTable<K>,
    anno: AnnoKey,
    cx: &ModelCx<'_>,
) -> Option<Vec<Case>> {
    if t.len() > MAX_LISTED {
        return Some(asked(anno, cx));
    }
    listed(t, anno)
}

/// One case per output: the table is asked when a packet comes. Whatever becomes of its routes, the model stays.
fn asked(anno: AnnoKey, cx: &ModelCx<'_>) -> Vec<Case> {
    let read = |what| Read::Route {
        table: cx.elem,
        anno,
        what,
    };
    let one = |port: usize| {
        let here = Cond::In(read(RouteWhat::Output), ValueSet::one(port as u128));
        let hop = Value::Of(read(RouteWhat::NextHop));
        Case::new(here, Exit::Port(port)).with([Op::SetAnno(anno, hop)])
    };
    (0..cx.noutputs).map(one).collect()
}

fn listed<K: Addr + Into<u128>>(t: &RouteTable<K>, anno: AnnoKey) -> Option<Vec<Case>> {
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
            let single = listed(&t, DST_IP.into()).unwrap();
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
        assert!(listed(&t, DST_IP.into()).is_none());
    }

    #[test]
    fn many_routes_make_few_cases() {
        let routes: Vec<_> = (0..5000u32)
            .map(|i| (i << 12, 20, 1 + i % 3, i % 2))
            .collect();
        let t = table(&routes);
        assert_eq!(listed(&t, DST_IP.into()).unwrap().len(), 6);
    }

    /// Of a large table the model says that it is asked, and the table says what its look-up says.
    #[test]
    fn large_tables_are_asked() {
        use crate::routing::table::{HeldRoutes, NO_ROUTE, Routes};
        use onefold_element::StateStore;
        let routes: Vec<_> = (0..=MAX_LISTED as u32)
            .map(|i| (0x0a00_0000 | i << 8, 24, i % 3, i % 2))
            .collect();
        let t = table(&routes);
        let mut store = StateStore::new();
        let (elem, id) = (
            onefold_element::ElemId(7),
            store.alloc(Box::new(Routes::new(t))),
        );
        store.publish(elem, id);
        let held = HeldRoutes::of(&store, elem).unwrap();
        let cx = ModelCx {
            elem,
            ninputs: 1,
            noutputs: 2,
            store: &store,
        };
        let list = cases(store.get::<Routes<u32>>(id).unwrap(), DST_IP.into(), &cx).unwrap();
        assert_eq!(list.len(), 2);
        for (i, c) in list.iter().enumerate() {
            assert_eq!(c.exit, Exit::Port(i));
            let Cond::In(Read::Route { table, what, .. }, set) = &c.when else {
                panic!("{c:?}")
            };
            assert_eq!(
                (*table, *what, set.single()),
                (elem, RouteWhat::Output, Some(i as u128))
            );
        }
        for i in [0u32, 1, 2, 3, 4, 5, 4096] {
            let a = u128::from(0x0a00_0000 | i << 8 | 9);
            assert_eq!(held.ask(RouteWhat::Output, a), u128::from(i % 2));
            let hop = if i % 3 == 0 { a } else { u128::from(i % 3) };
            assert_eq!(held.ask(RouteWhat::NextHop, a), hop);
        }
        assert_eq!(held.ask(RouteWhat::Output, 0x0b00_0000), NO_ROUTE.into());
        assert_eq!(held.ask(RouteWhat::NextHop, 0x0b00_0000), 0x0b00_0000);
        let a = held.example(&ValueSet::one(1), 12).unwrap();
        assert_eq!(held.ask(RouteWhat::Output, a), 1);
        assert_eq!(held.example(&ValueSet::one(2), 12), None);
    }
}
