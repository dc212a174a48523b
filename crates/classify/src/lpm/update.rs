//! Changes of single routes.
//!
//! A route that ends in the first table is written to the slots that no longer one owns: 2^18 at most. Any other one
//! changes its node alone: its 64 slots are painted anew and its run of values is replaced; a child that comes or goes
//! replaces its parent's run of children. That is at most one node per level.

use super::arena::Arena;
use super::{FIRST, NONE, Node, PrefixTrie, RouteError, STRIDE, Slot};
use crate::rule::prefix_mask;
use crate::{Kind, NO_MATCH, Refusal};
use std::collections::BTreeMap;

impl PrefixTrie {
    /// An empty table of prefixes of a field of `bits` bits that stands at word `word` of keys.
    ///
    /// # Errors
    /// The width is not 1 to 128, or the budget does not suffice for the first table.
    pub fn new(bits: u8, word: usize, budget: usize) -> Result<Self, RouteError> {
        if !(1..=128).contains(&bits) {
            return Err(RouteError::Width { bits });
        }
        let first = bits.min(FIRST);
        let none = Slot {
            node: NONE,
            value: NO_MATCH,
        };
        let t = Self {
            bits,
            first,
            word,
            table: vec![none; 1 << first],
            nodes: Arena::new(),
            values: Arena::new(),
            owner: vec![0; 1 << first],
            short: BTreeMap::new(),
            long: BTreeMap::new(),
            len: 0,
            budget,
        };
        t.afford()?;
        Ok(t)
    }

    /// Bytes by what is stored, the same for the same history: what the budget is held against.
    fn afford(&self) -> Result<(), RouteError> {
        let needed = self.table.len() * 9
            + self.nodes.bytes()
            + self.values.bytes()
            + self.short.len() * 56
            + self.long.len() * 72
            + self.len * 8;
        match needed <= self.budget {
            true => Ok(()),
            false => Err(RouteError::Refused(Refusal::Memory {
                kind: Kind::PrefixTrie,
                needed,
                budget: self.budget,
            })),
        }
    }

    /// The prefix, left-aligned in 128 bits, host bits cleared.
    fn align(&self, value: u128, len: u8) -> Result<u128, RouteError> {
        let bits = self.bits;
        if len > bits {
            return Err(RouteError::Length { len, bits });
        }
        if value & !prefix_mask(bits, bits) != 0 {
            return Err(RouteError::Value { value, bits });
        }
        Ok((value & prefix_mask(bits, len)) << (128 - bits))
    }

    /// Adds a route, or gives one another value; answers the value it had.
    ///
    /// # Errors
    /// No such prefix, the reserved value, or a table that has no room for more; the table is as it was.
    pub fn insert(&mut self, value: u128, len: u8, next: u32) -> Result<Option<u32>, RouteError> {
        let a = self.align(value, len)?;
        if next == NO_MATCH {
            return Err(RouteError::Reserved);
        }
        self.afford()?;
        let old = if len <= self.first {
            let old = self.short.insert((len, a), next);
            self.paint(a, len, len + 1, next, |owner| owner <= len + 1);
            old
        } else {
            let (base, place) = self.place(a, len);
            let node = self.open(a, base);
            let list = self.long.entry((base, a & mask(base))).or_default();
            let old = match list.binary_search_by_key(&place, |e| e.0) {
                Ok(i) => list.get_mut(i).map(|e| std::mem::replace(&mut e.1, next)),
                Err(i) => {
                    list.insert(i, (place, next));
                    None
                }
            };
            repaint(&mut self.nodes, &mut self.values, node, list);
            old
        };
        self.len += usize::from(old.is_none());
        Ok(old)
    }

    /// Removes a route; answers its value, if it was there.
    ///
    /// # Errors
    /// No such prefix.
    pub fn remove(&mut self, value: u128, len: u8) -> Result<Option<u32>, RouteError> {
        let a = self.align(value, len)?;
        let old = if len <= self.first {
            let old = self.short.remove(&(len, a));
            if old.is_some() {
                // the next shorter one gets its slots
                let heir = (0..len)
                    .rev()
                    .find_map(|l| self.short.get(&(l, a & mask(l))).map(|v| (l + 1, *v)));
                let (owner, next) = heir.unwrap_or((0, NO_MATCH));
                self.paint(a, len, owner, next, |owner| owner == len + 1);
            }
            old
        } else {
            let (base, place) = self.place(a, len);
            let key = (base, a & mask(base));
            let Some(list) = self.long.get_mut(&key) else {
                return Ok(None);
            };
            let Ok(i) = list.binary_search_by_key(&place, |e| e.0) else {
                return Ok(None);
            };
            let old = list.remove(i).1;
            let list = match list.is_empty() {
                true => {
                    self.long.remove(&key);
                    Vec::new()
                }
                false => list.clone(),
            };
            let path = self.path(a, base);
            if let Some(node) = path.last() {
                repaint(&mut self.nodes, &mut self.values, *node, &list);
            }
            self.close(a, &path);
            Some(old)
        };
        self.len -= usize::from(old.is_some());
        Ok(old)
    }

    /// The value of exactly this prefix.
    pub fn get(&self, value: u128, len: u8) -> Option<u32> {
        let a = self.align(value, len).ok()?;
        if len <= self.first {
            return self.short.get(&(len, a)).copied();
        }
        let (base, place) = self.place(a, len);
        let list = self.long.get(&(base, a & mask(base)))?;
        let i = list.binary_search_by_key(&place, |e| e.0).ok()?;
        list.get(i).map(|e| e.1)
    }

    /// Gives the slots of a short prefix whose owners yield to another owner.
    fn paint(&mut self, a: u128, len: u8, owner: u8, value: u32, yields: impl Fn(u8) -> bool) {
        let from = top(a, self.first);
        let n = 1usize << (self.first - len);
        let slots = self.table.iter_mut().zip(&mut self.owner);
        for (s, o) in slots.skip(from).take(n) {
            if yields(*o) {
                *o = owner;
                s.value = value;
            }
        }
    }

    /// The first bit of the node in which a prefix ends, and its place there.
    fn place(&self, a: u128, len: u8) -> (u8, u8) {
        let base = self.first + (len - self.first - 1) / STRIDE * STRIDE;
        let r = len - base;
        let bits = ((a << base) >> (128 - u32::from(r))) as u8;
        (base, 1 << r | bits)
    }

    /// The node of `base` for a prefix; nodes that are missing on the way are made.
    fn open(&mut self, a: u128, base: u8) -> usize {
        let slot = top(a, self.first);
        let mut node = match self.table.get(slot) {
            Some(s) if s.node != NONE => s.node as usize,
            _ => {
                let n = self.nodes.take(1);
                self.set(n as usize, Node::default());
                if let Some(s) = self.table.get_mut(slot) {
                    s.node = n;
                }
                n as usize
            }
        };
        // Bound: the levels of the field.
        for b in (self.first..base).step_by(usize::from(STRIDE)) {
            let bit = 1u64 << six(a, b);
            let mut n = self.nodes.get(node).copied().unwrap_or_default();
            if n.kids & bit == 0 {
                let count = n.kids.count_ones() as usize;
                let rank = (n.kids & (bit - 1)).count_ones() as usize;
                let mut kids = self.nodes.run(n.kid, count).to_vec();
                kids.insert(rank, Node::default());
                self.kids(node, n.kids | bit, &kids);
                n = self.nodes.get(node).copied().unwrap_or_default();
            }
            node = (n.kid + (n.kids & (bit - 1)).count_ones()) as usize;
        }
        node
    }

    /// Nodes from the first table down to the one of `base`.
    fn path(&self, a: u128, base: u8) -> Vec<usize> {
        let mut path = Vec::new();
        let Some(s) = self.table.get(top(a, self.first)) else {
            return path;
        };
        let mut node = s.node as usize;
        path.push(node);
        for b in (self.first..base).step_by(usize::from(STRIDE)) {
            let bit = 1u64 << six(a, b);
            let n = self.nodes.get(node).copied().unwrap_or_default();
            node = (n.kid + (n.kids & (bit - 1)).count_ones()) as usize;
            path.push(node);
        }
        path
    }

    /// Gives back nodes that have become empty, from the last one of a path upwards.
    fn close(&mut self, a: u128, path: &[usize]) {
        for (i, node) in path.iter().enumerate().rev() {
            let n = self.nodes.get(*node).copied().unwrap_or_default();
            if n.kids != 0 || n.has != 0 {
                return;
            }
            self.values.give(n.value, n.runs.count_ones() as usize);
            let Some(parent) = i.checked_sub(1).and_then(|i| path.get(i)) else {
                self.nodes.give(*node as u32, 1);
                if let Some(s) = self.table.get_mut(top(a, self.first)) {
                    s.node = NONE;
                }
                return;
            };
            let p = self.nodes.get(*parent).copied().unwrap_or_default();
            let bit = 1u64 << six(a, self.first + (i as u8 - 1) * STRIDE);
            let mut kids = self.nodes.run(p.kid, p.kids.count_ones() as usize).to_vec();
            kids.remove((p.kids & (bit - 1)).count_ones() as usize);
            self.kids(*parent, p.kids & !bit, &kids);
        }
    }

    /// Replaces a node's children.
    fn kids(&mut self, node: usize, bits: u64, kids: &[Node]) {
        let old = self.nodes.get(node).copied().unwrap_or_default();
        self.nodes.give(old.kid, old.kids.count_ones() as usize);
        let at = self.nodes.take(kids.len());
        self.nodes.run_mut(at, kids.len()).copy_from_slice(kids);
        if let Some(n) = self.nodes.get_mut(node) {
            n.kids = bits;
            n.kid = at;
        }
    }

    fn set(&mut self, node: usize, to: Node) {
        if let Some(n) = self.nodes.get_mut(node) {
            *n = to;
        }
    }
}

/// Paints a node's slots: its prefixes in order of places, thus of lengths.
fn repaint(nodes: &mut Arena<Node>, values: &mut Arena<u32>, node: usize, list: &[(u8, u32)]) {
    let mut slots = [NO_MATCH; 64];
    for (place, v) in list {
        let r = place.ilog2();
        let (bits, n) = (usize::from(place ^ 1 << r), 1usize << (6 - r));
        slots[bits * n..(bits + 1) * n].fill(*v);
    }
    let Some(n) = nodes.get_mut(node) else { return };
    values.give(n.value, n.runs.count_ones() as usize);
    (n.has, n.runs) = (0, 0);
    let mut list = [0; 64];
    let mut before = None;
    for (s, v) in slots.iter().enumerate() {
        if before != Some(v) {
            list[n.runs.count_ones() as usize & 63] = *v;
            n.runs |= 1 << s;
            before = Some(v);
        }
        n.has |= u64::from(*v != NO_MATCH) << s;
    }
    let count = n.runs.count_ones() as usize;
    n.value = values.take(count);
    values
        .run_mut(n.value, count)
        .copy_from_slice(&list[..count]);
}

fn mask(len: u8) -> u128 {
    prefix_mask(128, len)
}

fn top(a: u128, bits: u8) -> usize {
    (a >> (128 - u32::from(bits))) as usize
}

fn six(a: u128, base: u8) -> u32 {
    ((a << (base & 127)) >> 122) as u32
}
