//! What elements before and behind a long list ask about ("is the destination inside?"), field by field.
//!
//! The functions asked about divide a field's values into *cells*: within one cell, every such function is constant.
//! Two things are said in cells, so that they are the same for many cases of the list: which values the packets of a
//! case may have ([`Marks::known`]), and what a rule of the program still asks about the packets of a case
//! ([`Marks::rest`]).

use super::cube::{Blocks, Cube};
use crate::prove::dd::{Dd, NO, Quick, Ref, YES};
use std::collections::HashMap;

/// Most cells of one field. A field with more is treated as if nobody asked about it in cells: exactly, case by case.
const MAX_CELLS: usize = 1_024;

/// Functions by block.
pub type Parts = Vec<(u16, Ref)>;

/// The cells of fields that somebody beside the list asks about.
pub struct Marks {
    /// By block; `None`: too many cells.
    cells: HashMap<u16, Option<Vec<Ref>>>,
    /// By block and set of values: the cells it meets, as numbers and as one function.
    met: HashMap<(u16, Ref), (Vec<u32>, Ref), Quick>,
    /// By block, function and values: the cells where the function holds; `None`: some cell is cut.
    rest: HashMap<(u16, Ref, Ref), Option<Ref>, Quick>,
}

impl Marks {
    /// The cells of all functions that depend on one block alone.
    pub fn of(dd: &mut Dd, blocks: &Blocks, marks: &[Ref]) -> Marks {
        let mut cells: HashMap<u16, Option<Vec<Ref>>> = HashMap::new();
        for m in marks {
            let Some(b) = blocks.only(dd, *m) else {
                continue;
            };
            let entry = cells.entry(b).or_insert_with(|| Some(vec![YES]));
            let Some(list) = entry else {
                continue;
            };
            let mut split = Vec::with_capacity(list.len() + 1);
            for c in list.iter() {
                let parts = [dd.and(*c, *m), dd.minus(*c, *m)];
                split.extend(parts.into_iter().filter(|f| *f != NO));
            }
            match split.len() > MAX_CELLS {
                true => *entry = None,
                false => *list = split,
            }
        }
        Marks {
            cells,
            met: HashMap::default(),
            rest: HashMap::default(),
        }
    }

    /// The cells that a set of a block's values meets. `None`: the block has none.
    fn met(&mut self, dd: &mut Dd, block: u16, values: Ref) -> Option<(Vec<u32>, Ref)> {
        let cells = self.cells.get(&block)?.as_ref()?;
        if let Some(m) = self.met.get(&(block, values)) {
            return Some(m.clone());
        }
        let (mut numbers, mut all) = (Vec::new(), NO);
        for (n, c) in (0..).zip(cells) {
            if !dd.disjoint(values, *c) {
                numbers.push(n);
                all = dd.or(all, *c);
            }
        }
        self.met.insert((block, values), (numbers.clone(), all));
        Some((numbers, all))
    }

    /// Where a function holds among some values of a block, as a union of cells that those values meet. `None`: it is
    /// no such union, or the block has no cells.
    fn in_cells(&mut self, dd: &mut Dd, block: u16, f: Ref, values: Ref) -> Option<Ref> {
        if let Some(r) = self.rest.get(&(block, f, values)) {
            return *r;
        }
        let (numbers, _) = self.met(dd, block, values)?;
        let cells = self.cells.get(&block)?.as_ref()?;
        let mut out = Some(NO);
        for n in numbers {
            let Some(c) = cells.get(n as usize).copied() else {
                continue;
            };
            // most cells are wholly on one side, which is seen without a new function
            if dd.disjoint(c, f) {
                continue;
            }
            let here = match dd.implies(c, f) {
                true => c,
                false => dd.and(c, values),
            };
            match (dd.disjoint(here, f), dd.implies(here, f)) {
                (true, _) => {}
                (false, true) => out = out.map(|o| dd.or(o, c)),
                (false, false) => {
                    out = None;
                    break;
                }
            }
        }
        self.rest.insert((block, f, values), out);
        out
    }

    /// What a rule still asks about the packets of a case: for each block a function that says the same as the rule's
    /// for all values that the case has. `None`: no packet of the case fits. Blocks where that is not said in cells
    /// are added to `exact`.
    pub fn rest(
        &mut self,
        dd: &mut Dd,
        rule: &Cube,
        case: &Cube,
        exact: &mut Vec<u16>,
    ) -> Option<Parts> {
        let mut out = rule.behind(dd, case)?;
        for (b, f) in &mut out {
            if !self.cells.contains_key(b) {
                continue;
            }
            match self.in_cells(dd, *b, rule.get(*b), case.get(*b)) {
                Some(cells) => *f = cells,
                None if exact.contains(b) => {}
                None => exact.push(*b),
            }
        }
        Some(out)
    }

    /// What is known of a case's packets: of blocks that are asked about, the cells that they may be in, or (`exact`)
    /// all that the case says.
    pub fn known(&mut self, dd: &mut Dd, case: &Cube, exact: &[u16]) -> Ref {
        let mut out = YES;
        for (b, f) in &case.parts {
            if !self.cells.contains_key(b) {
                continue;
            }
            let known = match exact.contains(b) {
                true => *f,
                false => self.met(dd, *b, *f).map_or(*f, |m| m.1),
            };
            out = dd.and(out, known);
        }
        out
    }
}
