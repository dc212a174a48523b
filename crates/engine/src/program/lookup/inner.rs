//! What is left of a stage's rules behind a guard, and the structure that finds the first of them.

use crate::program::lookup::cells::Cells;
use crate::program::lookup::columns::Columns;
use crate::program::lookup::gaps::Gaps;
use crate::program::lookup::left_rules::Inner;
use crate::program::lookup::report::{StructureReport, Tried};
use crate::program::lookup::rules::StageRules;
use crate::program::lookup::using::{Structures, Using};
use onefold_classify::{
    BitVector, Classifier, DecisionCode, DecisionTree, Kind, Layout, Linear, MAX_FIELDS, Match,
    NO_MATCH, Needs, PrefixTrie, Rules, Table, TreeSettings, TupleSpace, choose,
};
use onefold_synth::program::Dim;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Entries that rules may come apart into: so many times as many as there are, and some.
const MAX_COPIES: usize = 4;
const MORE: usize = 4096;
/// A structure's bytes, at most.
const MEMORY: usize = 512 << 20;
/// With at most so many entries nothing is to be chosen.
const PLAIN: usize = 12;

/// How the first of the rules that are left is found.
#[derive(Debug)]
pub(crate) enum Find {
    /// It is always this one.
    Always(u32),
    /// By a structure.
    By(Columns, Box<dyn Classifier>),
}

impl Inner {
    /// Makes the structure. `cells`: of every field that has them. The error says why there is none.
    pub fn find(
        &self,
        all: &StageRules,
        cells: &[Option<Cells>],
        dims: &[Dim],
        using: &Using,
    ) -> Result<(Find, StructureReport), String> {
        let start = Instant::now();
        let fields = self.fields(all);
        if fields.is_empty() {
            let rule = self.rules.first().copied().unwrap_or(NO_MATCH);
            return Ok((Find::Always(rule), StructureReport::always()));
        }
        if let Some(f) = fields
            .iter()
            .find(|f| all.fields[usize::from(**f)].sums_payload())
        {
            let check = all.fields[usize::from(*f)].check();
            return Err(format!(
                "{check:?} would be answered for packets that nobody asks about"
            ));
        }
        if fields.len() > MAX_FIELDS {
            return Err(format!("{} fields, {MAX_FIELDS} at most", fields.len()));
        }
        let (columns, rules) = match fields[..] {
            [f] => self.one_field(all, f)?,
            _ => self.many_fields(all, &fields, cells)?,
        };
        let table = Table::new(&rules).map_err(|e| e.to_string())?;
        let made = make(&rules, &table, using)?;
        let report = StructureReport {
            kind: Some(made.0.kind()),
            fields: fields
                .iter()
                .filter_map(|f| dims.get(usize::from(*f)).copied())
                .collect(),
            words: columns.words(),
            entries: table.len(),
            memory: made.0.memory_bytes(),
            seconds: start.elapsed().as_secs_f64(),
            shape: made.0.shape(),
            tried: made.1,
        };
        Ok((Find::By(columns, made.0), report))
    }

    /// One field: disjoint intervals, each with its first rule.
    fn one_field(&self, all: &StageRules, field: u16) -> Result<(Columns, Rules), String> {
        let f = &all.fields[usize::from(field)];
        let max = onefold_element::model::max_of(f.bits);
        // begins of intervals, and the rules that begin there: (from, rule, to)
        let mut begins: Vec<(u128, u32, u128)> = Vec::new();
        let limit = self.rules.len() * 64 * MAX_COPIES + MORE;
        for r in &self.rules {
            match self.open(all, *r).next() {
                None => begins.push((0, *r, max)),
                Some((.., set)) => {
                    begins.extend(set.intervals().iter().map(|(lo, hi)| (*lo, *r, *hi)))
                }
            }
            if begins.len() > limit {
                return Err(format!("more than {limit} intervals"));
            }
        }
        begins.sort_unstable();
        let mut edges: Vec<u128> = Vec::with_capacity(begins.len() * 2);
        edges.extend(begins.iter().map(|b| b.0));
        edges.extend(begins.iter().filter(|b| b.2 < max).map(|b| b.2 + 1));
        edges.sort_unstable();
        edges.dedup();
        // of those that have begun, the first rule that has not ended
        let mut open: BinaryHeap<std::cmp::Reverse<(u32, u128)>> = BinaryHeap::new();
        let mut next = begins.iter().peekable();
        let mut parts: Vec<(u128, u128, u32)> = Vec::new();
        for (i, from) in edges.iter().enumerate() {
            while let Some((_, rule, to)) = next.next_if(|b| b.0 <= *from) {
                open.push(std::cmp::Reverse((*rule, *to)));
            }
            while open.peek().is_some_and(|o| o.0.1 < *from) {
                open.pop();
            }
            let to = edges.get(i + 1).map_or(max, |e| e - 1);
            let Some(std::cmp::Reverse((rule, _))) = open.peek() else {
                continue;
            };
            match parts.last_mut() {
                Some(last) if last.2 == *rule && last.1 + 1 == *from => last.1 = to,
                _ => parts.push((*from, to, *rule)),
            }
        }
        let layout = Layout::new(&[f.bits]).map_err(|e| e.to_string())?;
        let mut rules = Rules::new(layout);
        for (lo, hi, rule) in parts {
            rules
                .push(&[Match::Range { lo, hi }], rule)
                .map_err(|e| e.to_string())?;
        }
        let mut columns = Columns::default();
        columns.field(f);
        Ok((columns, rules))
    }

    /// Several fields. One that comes apart too much is looked up by the numbers of its cells, or by its sets.
    fn many_fields(
        &self,
        all: &StageRules,
        fields: &[u16],
        cells: &[Option<Cells>],
    ) -> Result<(Columns, Rules), String> {
        let most = self.rules.len() * MAX_COPIES + MORE;
        let gaps = Gaps::new(all, self);
        // intervals that a field adds, with the others as they are
        let mut extra = vec![0usize; all.fields.len()];
        for (i, r) in self.rules.iter().enumerate() {
            for (f, s, set) in self.open(all, *r) {
                extra[usize::from(f)] += gaps.closed(i, (f, s), set).len() - 1;
            }
        }
        let by_cells = |f: &u16| {
            let at = usize::from(*f);
            let many = extra[at] > self.rules.len() / 32 + 16;
            let c = cells.get(at).and_then(|c| c.as_ref());
            let c = c.filter(|c| many && c.len() <= 256)?;
            // numbers of cells can be cut like any others, but sets should be of a piece
            let sets = 0..all.fields[at].sets.len();
            let whole = sets.clone().all(|s| runs(c.of_set(s)).len() < 2);
            Some((c, !whole && sets.len() <= 32))
        };
        let coded: Vec<Option<(&Cells, bool)>> = fields.iter().map(by_cells).collect();
        let mut columns = Columns::default();
        let mut bits = Vec::with_capacity(fields.len());
        let mut place = vec![usize::MAX; all.fields.len()];
        for (i, (f, c)) in fields.iter().zip(&coded).enumerate() {
            let field = &all.fields[usize::from(*f)];
            place[usize::from(*f)] = i;
            match c {
                Some((c, sets)) => {
                    columns.cells(field, c, *sets);
                    bits.push(if *sets { 32 } else { 8 });
                }
                None => {
                    columns.field(field);
                    bits.push(field.bits);
                }
            }
        }
        let layout = Layout::new(&bits).map_err(|e| e.to_string())?;
        let mut rules = Rules::new(layout);
        let mut lists: Vec<(usize, Vec<Match>)> = Vec::new();
        let mut one = vec![Match::Any; fields.len()];
        for (number, r) in self.rules.iter().enumerate() {
            lists.clear();
            let mut n = 1usize;
            for (f, s, set) in self.open(all, *r) {
                let i = place[usize::from(f)];
                let list: Vec<Match> = match coded[i] {
                    Some((_, true)) => vec![Match::Mask {
                        value: 1 << s,
                        mask: 1 << s,
                    }],
                    Some((c, false)) => runs(c.of_set(s as usize)),
                    None => (gaps.closed(number, (f, s), set).iter())
                        .map(|(lo, hi)| Match::Range { lo: *lo, hi: *hi })
                        .collect(),
                };
                n = n.saturating_mul(list.len());
                lists.push((i, list));
            }
            if rules.len().saturating_add(n) > most {
                return Err(format!("rules come apart into more than {most}"));
            }
            // an odometer over the lists
            let mut turn = vec![0usize; lists.len()];
            for _ in 0..n {
                one.fill(Match::Any);
                for ((i, list), t) in lists.iter().zip(&turn) {
                    one[*i] = list[*t];
                }
                rules.push(&one, *r).map_err(|e| e.to_string())?;
                for ((_, list), t) in lists.iter().zip(&mut turn) {
                    *t += 1;
                    if *t < list.len() {
                        break;
                    }
                    *t = 0;
                }
            }
        }
        Ok((columns, rules))
    }
}

/// Ascending numbers as ranges.
fn runs(numbers: impl Iterator<Item = u16>) -> Vec<Match> {
    let mut list: Vec<(u128, u128)> = Vec::new();
    for n in numbers.map(u128::from) {
        match list.last_mut() {
            Some((_, hi)) if *hi + 1 == n => *hi = n,
            _ => list.push((n, n)),
        }
    }
    list.into_iter()
        .map(|(lo, hi)| Match::Range { lo, hi })
        .collect()
}

type Made = (Box<dyn Classifier>, Vec<Tried>);

fn make(rules: &Rules, table: &Table, using: &Using) -> Result<Made, String> {
    let kind = match using.structures {
        Structures::Only(kind) => kind,
        Structures::Tree => return Err("the tree was asked for".to_string()),
        Structures::Chosen if table.len() <= PLAIN && !using.measure => Kind::DecisionCode,
        Structures::Chosen => {
            let needs = Needs {
                memory: MEMORY,
                measure: using.measure,
                ..Needs::default()
            };
            let (s, report) = choose(table, &needs).map_err(|e| e.to_string())?;
            return Ok((s, report.candidates.into_iter().map(Tried::from).collect()));
        }
    };
    let s: Result<Box<dyn Classifier>, _> = match kind {
        Kind::Linear => Ok(Box::new(Linear::new(rules)) as _),
        Kind::DecisionCode => DecisionCode::new(table).map(|s| Box::new(s) as _),
        Kind::BitVector => BitVector::new(table, MEMORY).map(|s| Box::new(s) as _),
        Kind::DecisionTree => {
            let settings = TreeSettings {
                budget: MEMORY,
                ..TreeSettings::default()
            };
            DecisionTree::new(table, &settings).map(|s| Box::new(s) as _)
        }
        Kind::PrefixTrie => PrefixTrie::of_table(table, MEMORY).map(|s| Box::new(s) as _),
        Kind::TupleSpace => TupleSpace::new(table, MEMORY).map(|s| Box::new(s) as _),
    };
    s.map(|s| (s, Vec::new())).map_err(|e| e.to_string())
}
