//! Decision diagrams: functions of boolean variables, each represented once, so that equality is equality of numbers.
//!
//! Reduced and ordered, with any number of terminals: `0` is "no", `1` is "yes", greater ones are whatever a caller
//! means (the number of a case or an action, plus one). Nothing is ever freed. A bound on nodes and a deadline end
//! the work: every operation answers [`NO`] from then on, [`Dd::stopped`] says so, and nothing that was computed may
//! be believed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

mod relate;

/// A hasher for functions and for what is hashed already.
#[derive(Default, Clone, Copy)]
pub struct Mixer(u64);
/// Maps with that hasher.
pub type Quick = BuildHasherDefault<Mixer>;

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        let h = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = h ^ (h >> 32);
    }
    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64 ^ (n >> 64) as u64);
    }
}

/// A function.
pub type Ref = u32;
/// Never.
pub const NO: Ref = 0;
/// Always.
pub const YES: Ref = 1;

const TERMINAL: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Node {
    /// Of its variable; [`TERMINAL`]: `lo` is the value.
    level: u32,
    lo: Ref,
    hi: Ref,
}

#[derive(Clone, Copy)]
struct Known {
    key: [u32; 4],
    value: Ref,
}

const UNUSED: Known = Known {
    key: [u32::MAX; 4],
    value: NO,
};

const ITE: u32 = 0;
const OVER: u32 = 1;
const IMPLIES: u32 = 2;
const DISJOINT: u32 = 3;
const WITHIN: u32 = 4;

/// Why the work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// More nodes than allowed.
    Nodes,
    /// Later than allowed.
    Time,
}

/// All functions.
pub struct Dd {
    nodes: Vec<Node>,
    /// Open addressing, a power of two; zero: free (terminals `0` and `1` are found without it).
    table: Vec<u32>,
    cache: Vec<Known>,
    limit: usize,
    deadline: Option<Instant>,
    stop: Option<Stop>,
    made: u32,
    /// What else is remembered at the moment, counted like nodes.
    pub(super) extra: usize,
}

fn mix(a: u32, b: u32, c: u32, d: u32) -> usize {
    let h = (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (u64::from(c) << 32 | u64::from(d)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    let h = (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (h ^ (h >> 32)) as usize
}

impl Dd {
    /// With at most so many nodes, until a deadline.
    pub fn new(limit: usize, deadline: Option<Instant>) -> Dd {
        let terminal = |v| Node {
            level: TERMINAL,
            lo: v,
            hi: 0,
        };
        Dd {
            nodes: vec![terminal(0), terminal(1)],
            table: vec![0; 1 << 12],
            cache: vec![UNUSED; 1 << 12],
            limit,
            deadline,
            stop: None,
            made: 0,
            extra: 0,
        }
    }

    /// Has a bound been reached? Nothing holds then.
    pub fn stopped(&self) -> Option<Stop> {
        self.stop
    }
    /// Nodes so far.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Tries something that may take at most so many nodes more; `None`, and as if nothing had been tried, where it
    /// takes more. Nothing that was made on the way may be kept then.
    pub fn attempt<T>(&mut self, more: usize, what: impl FnOnce(&mut Dd) -> T) -> Option<T> {
        if self.stop.is_some() {
            return None;
        }
        let (limit, before) = (self.limit, self.nodes.len());
        self.limit = limit.min(before + self.extra + more);
        let extra = self.extra;
        let out = what(self);
        self.limit = limit;
        if self.stop != Some(Stop::Nodes) {
            return self.stop.is_none().then_some(out);
        }
        self.stop = None;
        self.extra = extra;
        self.nodes.truncate(before);
        self.cache.fill(UNUSED);
        self.fill(self.table.len());
        None
    }

    #[inline]
    fn node(&self, f: Ref) -> Node {
        self.nodes.get(f as usize).copied().unwrap_or(Node {
            level: TERMINAL,
            lo: 0,
            hi: 0,
        })
    }

    /// The level of the variable that is looked at first; the greatest number where there is none.
    #[inline]
    pub(super) fn level(&self, f: Ref) -> u32 {
        self.node(f).level
    }
    /// A function with the variable of this level, which none of its variables comes before, set.
    #[inline]
    pub(super) fn cofactor(&self, f: Ref, level: u32, hi: bool) -> Ref {
        let n = self.node(f);
        match (n.level == level, hi) {
            (false, _) => f,
            (true, false) => n.lo,
            (true, true) => n.hi,
        }
    }
    /// Level and both sides; nothing where it is always the same.
    pub(super) fn parts(&self, f: Ref) -> Option<(u32, Ref, Ref)> {
        let n = self.node(f);
        (n.level != TERMINAL).then_some((n.level, n.lo, n.hi))
    }

    pub(super) fn make(&mut self, level: u32, lo: Ref, hi: Ref) -> Ref {
        if lo == hi && level != TERMINAL {
            return lo;
        }
        let mask = self.table.len() - 1;
        let mut i = mix(level, lo, hi, 0) & mask;
        let new = Node { level, lo, hi };
        loop {
            match self.table[i] {
                0 => break,
                n if self.nodes[n as usize] == new => return n,
                _ => i = (i + 1) & mask,
            }
        }
        self.made = self.made.wrapping_add(1);
        if self.made.is_multiple_of(1 << 14) && self.deadline.is_some_and(|d| Instant::now() > d) {
            self.stop.get_or_insert(Stop::Time);
        }
        if self.nodes.len() + self.extra >= self.limit {
            self.stop.get_or_insert(Stop::Nodes);
        }
        if self.stop.is_some() {
            return NO;
        }
        let id = self.nodes.len() as u32;
        self.nodes.push(new);
        self.table[i] = id;
        if self.nodes.len() * 2 > self.table.len() {
            self.grow();
        }
        id
    }

    fn grow(&mut self) {
        let size = self.table.len() * 2;
        self.fill(size);
        if self.cache.len() < 1 << 21 {
            self.cache = vec![UNUSED; size];
        }
    }

    fn fill(&mut self, size: usize) {
        let mut table = vec![0u32; size];
        for (id, n) in self.nodes.iter().enumerate().skip(2) {
            let mut i = mix(n.level, n.lo, n.hi, 0) & (size - 1);
            while table[i] != 0 {
                i = (i + 1) & (size - 1);
            }
            table[i] = id as u32;
        }
        self.table = table;
    }

    /// The function that is always `v`.
    pub fn terminal(&mut self, v: u32) -> Ref {
        match v {
            0 => NO,
            1 => YES,
            v => self.make(TERMINAL, v, 0),
        }
    }
    /// The value of a function that is always the same.
    pub fn value(&self, f: Ref) -> Option<u32> {
        let n = self.node(f);
        (n.level == TERMINAL).then_some(n.lo)
    }
    /// A variable.
    pub fn var(&mut self, level: u32) -> Ref {
        self.make(level, NO, YES)
    }
    /// The variable that a function is, if it is one.
    pub fn is_var(&self, f: Ref) -> Option<u32> {
        let n = self.node(f);
        (n.level != TERMINAL && n.lo == NO && n.hi == YES).then_some(n.level)
    }

    fn known(&self, key: [u32; 4]) -> Option<Ref> {
        let i = mix(key[0], key[1], key[2], key[3]) & (self.cache.len() - 1);
        let k = self.cache[i];
        (k.key == key).then_some(k.value)
    }
    fn learn(&mut self, key: [u32; 4], value: Ref) {
        let i = mix(key[0], key[1], key[2], key[3]) & (self.cache.len() - 1);
        self.cache[i] = Known { key, value };
    }

    /// `g` where `f` holds, else `h`; `f` has no terminals but "no" and "yes".
    pub fn ite(&mut self, f: Ref, g: Ref, h: Ref) -> Ref {
        if f == YES || g == h {
            return g;
        }
        if f == NO {
            return h;
        }
        if g == YES && h == NO {
            return f;
        }
        if self.stop.is_some() {
            return NO;
        }
        let key = [ITE, f, g, h];
        if let Some(r) = self.known(key) {
            return r;
        }
        let (nf, ng, nh) = (self.node(f), self.node(g), self.node(h));
        let level = nf.level.min(ng.level).min(nh.level);
        let at = |n: Node, r: Ref, side: bool| match n.level == level {
            true if side => n.hi,
            true => n.lo,
            false => r,
        };
        let lo = self.ite(at(nf, f, false), at(ng, g, false), at(nh, h, false));
        let hi = self.ite(at(nf, f, true), at(ng, g, true), at(nh, h, true));
        let r = self.make(level, lo, hi);
        self.learn(key, r);
        r
    }
    /// Not.
    pub fn not(&mut self, f: Ref) -> Ref {
        self.ite(f, NO, YES)
    }
    /// Both.
    pub fn and(&mut self, f: Ref, g: Ref) -> Ref {
        let (a, b) = (f.min(g), f.max(g));
        self.ite(a, b, NO)
    }
    /// At least one.
    pub fn or(&mut self, f: Ref, g: Ref) -> Ref {
        let (a, b) = (f.min(g), f.max(g));
        self.ite(a, YES, b)
    }
    /// The first and not the second.
    pub fn minus(&mut self, f: Ref, g: Ref) -> Ref {
        self.ite(g, NO, f)
    }
    /// Exactly one.
    pub fn xor(&mut self, f: Ref, g: Ref) -> Ref {
        let (a, b) = (f.min(g), f.max(g));
        let n = self.not(b);
        self.ite(a, n, b)
    }

    /// What `a` says, and where that is nothing (zero) what `b` says.
    pub fn over(&mut self, a: Ref, b: Ref) -> Ref {
        if a == NO || a == b {
            return b;
        }
        if b == NO || self.node(a).level == TERMINAL {
            return a;
        }
        if self.stop.is_some() {
            return NO;
        }
        let key = [OVER, a, b, 0];
        if let Some(r) = self.known(key) {
            return r;
        }
        let (na, nb) = (self.node(a), self.node(b));
        let level = na.level.min(nb.level);
        let side = |n: Node, r: Ref| match n.level == level {
            true => (n.lo, n.hi),
            false => (r, r),
        };
        let ((al, ah), (bl, bh)) = (side(na, a), side(nb, b));
        let lo = self.over(al, bl);
        let hi = self.over(ah, bh);
        let r = self.make(level, lo, hi);
        self.learn(key, r);
        r
    }

    /// First match: what the first of the list says that says anything. Halves are joined, so that big lists meet big
    /// ones.
    pub fn first(&mut self, list: &[Ref]) -> Ref {
        match list {
            [] => NO,
            [one] => *one,
            _ => {
                let (a, b) = list.split_at(list.len() / 2);
                let (a, b) = (self.first(a), self.first(b));
                self.over(a, b)
            }
        }
    }
    /// All of a list.
    pub fn all(&mut self, list: impl IntoIterator<Item = Ref>) -> Ref {
        let mut r = YES;
        for f in list {
            r = self.and(r, f);
            if r == NO {
                break;
            }
        }
        r
    }

    /// Where a function has this value.
    pub fn is(&mut self, f: Ref, v: u32) -> Ref {
        let mut memo = HashMap::default();
        self.map(f, &mut memo, &mut |x| match x == v {
            true => YES,
            false => NO,
        })
    }
    fn map(
        &mut self,
        f: Ref,
        memo: &mut HashMap<Ref, Ref, Quick>,
        to: &mut dyn FnMut(u32) -> Ref,
    ) -> Ref {
        let n = self.node(f);
        if n.level == TERMINAL {
            return to(n.lo);
        }
        if let Some(r) = memo.get(&f) {
            return *r;
        }
        let lo = self.map(n.lo, memo, to);
        let hi = self.map(n.hi, memo, to);
        let r = self.make(n.level, lo, hi);
        memo.insert(f, r);
        r
    }

    fn reached(&self, f: Ref, mut visit: impl FnMut(Node)) {
        let mut seen: HashSet<Ref, Quick> = HashSet::default();
        let mut stack = vec![f];
        while let Some(f) = stack.pop() {
            if !seen.insert(f) {
                continue;
            }
            let n = self.node(f);
            visit(n);
            if n.level != TERMINAL {
                stack.extend([n.lo, n.hi]);
            }
        }
    }
    /// The values that a function has, zero excepted.
    pub fn values(&self, f: Ref) -> BTreeSet<u32> {
        let mut out = BTreeSet::new();
        self.reached(f, |n| {
            if n.level == TERMINAL && n.lo != 0 {
                out.insert(n.lo);
            }
        });
        out
    }
    /// Levels of the variables that it depends on.
    pub fn support(&self, f: Ref) -> BTreeSet<u32> {
        let mut out = BTreeSet::new();
        self.reached(f, |n| {
            if n.level != TERMINAL {
                out.insert(n.level);
            }
        });
        out
    }

    /// Does some value of the variables make it hold?
    pub fn exists(&mut self, f: Ref, gone: &BTreeSet<u32>) -> Ref {
        match gone.is_empty() {
            true => f,
            false => self.without(f, gone, &mut HashMap::default()),
        }
    }
    fn without(
        &mut self,
        f: Ref,
        gone: &BTreeSet<u32>,
        memo: &mut HashMap<Ref, Ref, Quick>,
    ) -> Ref {
        let n = self.node(f);
        if n.level == TERMINAL || self.stop.is_some() {
            return f;
        }
        if let Some(r) = memo.get(&f) {
            return *r;
        }
        let lo = self.without(n.lo, gone, memo);
        let r = if gone.contains(&n.level) {
            if lo == YES {
                YES
            } else {
                let hi = self.without(n.hi, gone, memo);
                self.or(lo, hi)
            }
        } else {
            let hi = self.without(n.hi, gone, memo);
            self.make(n.level, lo, hi)
        };
        memo.insert(f, r);
        r
    }

    /// Functions in place of variables, all at once.
    pub fn put(&mut self, f: Ref, by: &HashMap<u32, Ref>) -> Ref {
        match by.is_empty() {
            true => f,
            false => self.put_in(f, by, &mut HashMap::default()),
        }
    }
    fn put_in(
        &mut self,
        f: Ref,
        by: &HashMap<u32, Ref>,
        memo: &mut HashMap<Ref, Ref, Quick>,
    ) -> Ref {
        let n = self.node(f);
        if n.level == TERMINAL || self.stop.is_some() {
            return f;
        }
        if let Some(r) = memo.get(&f) {
            return *r;
        }
        let lo = self.put_in(n.lo, by, memo);
        let hi = self.put_in(n.hi, by, memo);
        let v = match by.get(&n.level) {
            Some(v) => *v,
            None => self.var(n.level),
        };
        let r = self.ite(v, hi, lo);
        memo.insert(f, r);
        r
    }

    /// Values of variables with which it holds; those not named do not matter.
    pub fn pick(&self, f: Ref) -> Option<Vec<(u32, bool)>> {
        let mut out = Vec::new();
        let mut f = f;
        loop {
            let n = self.node(f);
            if n.level == TERMINAL {
                return (n.lo != 0).then_some(out);
            }
            let side = n.lo == NO;
            out.push((n.level, side));
            f = if side { n.hi } else { n.lo };
        }
    }

    /// The same, by chance: `side` says which where both sides can hold.
    pub fn pick_by(&self, f: Ref, side: &mut dyn FnMut(u32) -> bool) -> Option<Vec<(u32, bool)>> {
        let mut out = Vec::new();
        let mut f = f;
        loop {
            let n = self.node(f);
            if n.level == TERMINAL {
                return (n.lo != 0).then_some(out);
            }
            let hi = n.lo == NO || n.hi != NO && side(n.level);
            out.push((n.level, hi));
            f = if hi { n.hi } else { n.lo };
        }
    }
    /// The number of its nodes, counted up to `most`.
    pub fn size(&self, f: Ref, most: usize) -> usize {
        let mut seen: HashSet<Ref, Quick> = HashSet::default();
        let mut stack = vec![f];
        while let Some(f) = stack.pop() {
            let n = self.node(f);
            if n.level != TERMINAL && seen.len() < most && seen.insert(f) {
                stack.extend([n.lo, n.hi]);
            }
        }
        seen.len()
    }

    /// The share of all values of the variables with which it holds.
    pub fn share(&self, f: Ref) -> f64 {
        let mut memo: HashMap<Ref, f64, Quick> = HashMap::default();
        let mut stack = vec![f];
        while let Some(&f) = stack.last() {
            let n = self.node(f);
            if n.level == TERMINAL {
                memo.insert(f, if n.lo == 0 { 0.0 } else { 1.0 });
                stack.pop();
                continue;
            }
            match (memo.get(&n.lo), memo.get(&n.hi)) {
                (Some(a), Some(b)) => {
                    let s = (a + b) / 2.0;
                    memo.insert(f, s);
                    stack.pop();
                }
                (None, _) => stack.push(n.lo),
                (_, None) => stack.push(n.hi),
            }
        }
        memo.get(&f).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests;
