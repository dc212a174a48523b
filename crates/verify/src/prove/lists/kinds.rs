//! What the program does about the packets of each case, and which cases are of one kind because that is the same.

use super::compared::Compared;
use super::cube::Blocks;
use super::marks::{Marks, Parts};
use super::place::Lists;
use super::residual::{Remaining, Rest};
use crate::prove::dd::{Dd, NO, Ref};
use crate::prove::first::Rule;
use crate::prove::vars::Vars;
use std::collections::{BTreeMap, HashMap};

/// Most kinds of cases, before some are merged ...
const MAX_UNMERGED: usize = 20_000;
/// ... and after that.
const MAX_KINDS: usize = 4_096;
/// A kind whose functions have more nodes is not merged with others.
const MAX_MERGED: usize = 20_000;
/// Most kinds that one kind is tried to be merged with.
const MAX_MERGES: usize = 64;

/// A kind of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    /// What the cases say.
    pub says: u32,
    /// What the program does about their packets: its action's number plus one; zero where no rule fits.
    pub does: Ref,
    /// Contains all packets about which these cases decide.
    pub care: Ref,
}

/// What of the domain the remaining rules cover.
#[derive(Clone, Copy)]
struct Cover {
    /// What those before all rules of later cases leave.
    left: Ref,
    /// The rule behind which nothing is left.
    whole: Option<usize>,
}

/// Rules, how many of them are early, the domain and what is known of the packets.
type CoverKey = (Vec<Rest>, usize, Option<Parts>, Ref);

/// What has been worked out for lists of remaining rules: they are the same for most cases.
#[derive(Default)]
struct Known {
    covers: HashMap<CoverKey, Cover>,
    functions: HashMap<Vec<Rest>, Ref>,
}

impl Known {
    fn cover(&mut self, dd: &mut Dd, r: &Remaining, known: Ref) -> Cover {
        let list: Vec<Rest> = r.rules.iter().map(|(_, rest)| rest.clone()).collect();
        let key = (list, r.early, r.domain.clone(), known);
        if let Some(c) = self.covers.get(&key) {
            return *c;
        }
        let mut here = match &r.domain {
            Some(parts) => dd.all(parts.iter().map(|p| p.1)),
            None => NO,
        };
        here = dd.and(here, known);
        let mut cover = Cover {
            left: here,
            whole: None,
        };
        for (n, (parts, _)) in key.0.iter().enumerate() {
            if here == NO {
                break;
            }
            let of = dd.all(parts.iter().map(|p| p.1));
            here = dd.minus(here, of);
            if n < r.early {
                cover.left = here;
            }
            if here == NO {
                cover.whole = Some(n);
            }
        }
        self.covers.insert(key, cover);
        cover
    }

    /// The value of the first of these rules that fits.
    fn function(&mut self, dd: &mut Dd, list: Vec<Rest>) -> Ref {
        if let Some(f) = self.functions.get(&list) {
            return *f;
        }
        let rules = list.iter().map(|(parts, value)| Rule {
            all: parts.iter().map(|p| p.1).collect(),
            value: *value,
        });
        let f = dd.first_match(rules.collect());
        self.functions.insert(list, f);
        f
    }
}

/// Compares the cases of a source list with a program's rules; `None` where that takes too much. `marks` are the
/// functions that elements before and behind the list ask about.
pub fn compare(
    dd: &mut Dd,
    vars: &mut Vars,
    nth: u32,
    source: &[Rule],
    program: &[Rule],
    marks: &[Ref],
) -> Option<Compared> {
    let blocks = Blocks::of(dd, [source, program])?;
    let mut lists = Lists::of(dd, &blocks, source, program)?;
    let mut known = Known::default();
    let mut marks = Marks::of(dd, &blocks, marks);
    let mut kinds: Vec<Kind> = Vec::new();
    let mut index: HashMap<Kind, u32> = HashMap::new();
    let mut of: Vec<Option<u32>> = Vec::with_capacity(lists.source.len());
    for i in 0..lists.source.len() {
        if lists.dead.get(i) == Some(&true) {
            of.push(None);
            continue;
        }
        let kind = kind(dd, &mut lists, &mut known, &mut marks, i);
        let Some(kind) = kind? else {
            of.push(None);
            if let Some(dead) = lists.dead.get_mut(i) {
                *dead = true;
            }
            continue;
        };
        let n = *index.entry(kind).or_insert_with(|| {
            kinds.push(kind);
            kinds.len() as u32 - 1
        });
        of.push(Some(n));
        if kinds.len() > MAX_UNMERGED || dd.stopped().is_some() {
            return None;
        }
    }
    let (kinds, to) = merge(dd, kinds);
    if kinds.len() > MAX_KINDS {
        return None;
    }
    let each = lists.source.into_iter().zip(lists.source_bounds).zip(of);
    let source = each.filter_map(|((c, b), k)| Some((c, b, *to.get(k? as usize)?)));
    let out = Compared::new(dd, vars, nth, &kinds, source.collect());
    dd.stopped().is_none().then_some(out)
}

/// Makes one kind of kinds that say the same, if the program does the same about all packets that both may have.
/// Nothing is lost: about a packet of the new kind, the program does what it does about that packet of one of the
/// others. Gives the new kinds, and for each old kind the number of the new one.
fn merge(dd: &mut Dd, kinds: Vec<Kind>) -> (Vec<Kind>, Vec<u32>) {
    let mut out: Vec<Kind> = Vec::new();
    let mut to = Vec::with_capacity(kinds.len());
    let mut by: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for k in kinds {
        let like = by.entry(k.says).or_default();
        let mut found = None;
        for n in like.iter().take(MAX_MERGES) {
            let Some(o) = out.get_mut(*n as usize) else {
                continue;
            };
            let both = dd.and(o.care, k.care);
            let (a, b) = (dd.ite(both, o.does, NO), dd.ite(both, k.does, NO));
            if a != b {
                continue;
            }
            let does = dd.ite(k.care, k.does, o.does);
            let care = dd.or(o.care, k.care);
            let small = |f| dd.size(f, MAX_MERGED) < MAX_MERGED;
            if does == o.does && care == o.care || small(does) && small(care) {
                (o.does, o.care) = (does, care);
                found = Some(*n);
                break;
            }
        }
        to.push(found.unwrap_or_else(|| {
            let n = out.len() as u32;
            out.push(k);
            like.push(n);
            n
        }));
    }
    (out, to)
}

/// The kind of the i-th case; `None` where that takes too much. A case of which earlier ones leave nothing has none.
fn kind(
    dd: &mut Dd,
    lists: &mut Lists,
    known: &mut Known,
    marks: &mut Marks,
    i: usize,
) -> Option<Option<Kind>> {
    lists.tests = lists.tests.checked_sub(i as u64)?;
    let Some(case) = lists.residual(dd, i) else {
        return Some(None);
    };
    let mut r = lists.remaining(dd, marks, (i, &case))?;
    let mut care = marks.known(dd, &case, &r.exact);
    let cover = known.cover(dd, &r, care);
    let whole = cover.whole.and_then(|n| r.rules.get(n)).map(|r| r.0);
    if let Some(end) = whole {
        // no packet of the domain gets past that rule
        let domain = &lists.domain;
        let program = &lists.program;
        r.rules.retain(|(j, _)| {
            let rule = program.get(*j as usize);
            *j <= end || !rule.is_some_and(|r| r.is_in(dd, domain))
        });
    }
    if cover.left != NO {
        let region = case.region(dd);
        let all = dd.and(region, cover.left);
        let here = lists.unshadowed(dd, i, all)?;
        if here != NO {
            // only rules before the one behind which nothing is left
            let end = whole.unwrap_or(u32::MAX);
            let late = lists.late(dd, (marks, &mut r.exact), (i, &case), (here, end))?;
            r.rules.extend(late);
            r.rules.sort_unstable_by_key(|r| r.0);
            care = marks.known(dd, &case, &r.exact);
        }
        if here != all || here == NO {
            // the others are packets of earlier cases, or not of this one: the program's rules for them may be any
            let shadowed = dd.minus(cover.left, here);
            care = dd.minus(care, shadowed);
        }
    }
    // these are packets of earlier cases whatever else they are
    let general = lists.general_before(i);
    let care = dd.minus(care, general);
    let list = r.rules.into_iter().map(|(_, rest)| rest).collect();
    Some(Some(Kind {
        says: case.value,
        does: known.function(dd, list),
        care,
    }))
}
