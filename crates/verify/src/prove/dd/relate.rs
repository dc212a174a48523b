//! How two functions relate: implication, disjointness, and one function where another one holds.

use super::{DISJOINT, Dd, IMPLIES, NO, Ref, TERMINAL, WITHIN, YES};

impl Dd {
    /// Does `g` hold wherever `f` does? Makes no nodes.
    pub fn implies(&mut self, f: Ref, g: Ref) -> bool {
        if f == NO || g == YES || f == g {
            return true;
        }
        if f == YES || g == NO {
            return false;
        }
        let key = [IMPLIES, f, g, 0];
        if let Some(r) = self.known(key) {
            return r == YES;
        }
        let level = self.level(f).min(self.level(g));
        let r = [false, true].into_iter().all(|side| {
            let (f, g) = (self.cofactor(f, level, side), self.cofactor(g, level, side));
            self.implies(f, g)
        });
        self.learn(key, if r { YES } else { NO });
        r
    }
    /// Do two functions never hold at once? Makes no nodes.
    pub fn disjoint(&mut self, f: Ref, g: Ref) -> bool {
        if f == NO || g == NO {
            return true;
        }
        if f == YES || g == YES || f == g {
            return false;
        }
        let key = [DISJOINT, f.min(g), f.max(g), 0];
        if let Some(r) = self.known(key) {
            return r == YES;
        }
        let level = self.level(f).min(self.level(g));
        let r = [false, true].into_iter().all(|side| {
            let (f, g) = (self.cofactor(f, level, side), self.cofactor(g, level, side));
            self.disjoint(f, g)
        });
        self.learn(key, if r { YES } else { NO });
        r
    }
    /// A function that is `f` wherever `care` holds, without what `care` settles.
    pub fn within(&mut self, f: Ref, care: Ref) -> Ref {
        if care == YES || care == NO || self.node(f).level == TERMINAL || self.stop.is_some() {
            return f;
        }
        let key = [WITHIN, f, care, 0];
        if let Some(r) = self.known(key) {
            return r;
        }
        let (nf, nc) = (self.node(f), self.node(care));
        let r = if nc.level < nf.level {
            let either = self.or(nc.lo, nc.hi);
            self.within(f, either)
        } else {
            let (cl, ch) = match nc.level == nf.level {
                true => (nc.lo, nc.hi),
                false => (care, care),
            };
            match (cl, ch) {
                (NO, _) => self.within(nf.hi, ch),
                (_, NO) => self.within(nf.lo, cl),
                _ => {
                    let lo = self.within(nf.lo, cl);
                    let hi = self.within(nf.hi, ch);
                    self.make(nf.level, lo, hi)
                }
            }
        };
        self.learn(key, r);
        r
    }
}
