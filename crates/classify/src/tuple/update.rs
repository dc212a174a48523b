//! Rules come and go.

use super::{Bucket, EMPTY, Group, LANES, MAX_TABLES, NONE, Rows, TupleSpace, bucket, hash, tag};
use crate::left_right::Apply;
use crate::table::{Test, parts};
use crate::{Kind, Layout, Match, NO_MATCH, Refusal, RuleError, Rules, Table};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Rules with the same bits of a table that stand there, at most, as long as there is a table with more bits for them.
const TOGETHER: usize = 6;
/// Ways to choose a table's bits, from few to all that the rule fixes.
const LEVELS: usize = 3;

/// A change that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The rule cannot be.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// There is a rule of this priority.
    #[error("there is a rule of priority {priority}")]
    Taken {
        /// The priority.
        priority: u32,
    },
    /// No room.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A change of a [`TupleSpace`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleChange {
    /// A new rule.
    Insert {
        /// The least one comes first.
        priority: u32,
        /// One match per field.
        matches: Vec<Match>,
        /// What a look-up answers.
        value: u32,
    },
    /// A rule is no more.
    Remove {
        /// Its priority.
        priority: u32,
    },
}

impl Apply<RuleChange> for TupleSpace {
    type Error = UpdateError;

    fn apply(&mut self, change: &RuleChange) -> Result<(), UpdateError> {
        match change {
            RuleChange::Insert {
                priority,
                matches,
                value,
            } => self.insert(*priority, matches, *value),
            RuleChange::Remove { priority } => {
                self.remove(*priority);
                Ok(())
            }
        }
    }
}

impl TupleSpace {
    /// No rules yet.
    pub fn empty(layout: &Layout, budget: usize) -> Self {
        let words = layout.words();
        Self {
            layout: layout.clone(),
            groups: Vec::new(),
            rows: Rows {
                data: Vec::new(),
                stride: 2 + 3 * words,
                words,
                free: Vec::new(),
            },
            by_priority: BTreeMap::new(),
            key: RandomState::new().hash_one(0),
            budget,
        }
    }

    /// The entries of a table; each one's priority is its number.
    ///
    /// # Errors
    /// Too many tables, or the budget does not suffice.
    pub fn new(table: &Table, budget: usize) -> Result<Self, Refusal> {
        let mut t = Self::empty(table.layout(), budget);
        for (e, value) in table.values().iter().enumerate() {
            t.place(e as u32, table.row(e), *value)?;
        }
        Ok(t)
    }

    /// A list with room between its rules: rule `i` has priority `i * gap`.
    ///
    /// # Errors
    /// A rule cannot be, priorities would not fit 32 bits, or there is no room.
    pub fn with_gaps(rules: &Rules, gap: u32, budget: usize) -> Result<Self, UpdateError> {
        let mut t = Self::empty(rules.layout(), budget);
        for (i, (matches, value)) in rules.iter().enumerate() {
            let priority = (i as u32).checked_mul(gap).filter(|p| *p != NONE);
            let priority = priority.ok_or(RuleError::TooMany {
                limit: (NONE / gap.max(1)) as usize,
            })?;
            t.insert(priority, matches, value)?;
        }
        Ok(t)
    }

    /// Adds a rule; the least priority comes first.
    ///
    /// # Errors
    /// The rule cannot be, its priority is taken, or there is no room; nothing has changed.
    pub fn insert(
        &mut self,
        priority: u32,
        matches: &[Match],
        value: u32,
    ) -> Result<(), UpdateError> {
        // a list of one, to check the rule
        let mut one = Rules::new(self.layout.clone());
        one.push(matches, value)?;
        if self.by_priority.contains_key(&priority) || priority == NONE || value == NO_MATCH {
            return Err(UpdateError::Taken { priority });
        }
        for row in parts(&self.layout, matches, 0)? {
            if let Err(r) = self.place(priority, &row, value) {
                self.remove(priority);
                return Err(r.into());
            }
        }
        Ok(())
    }

    /// Removes a rule; answers whether it was there.
    pub fn remove(&mut self, priority: u32) -> bool {
        let Some(entries) = self.by_priority.remove(&priority) else {
            return false;
        };
        for e in entries {
            let Some((_, _, tests)) = self.rows.get(e) else {
                continue;
            };
            let lows: Vec<u32> = tests.iter().map(|t| t[1]).collect();
            for g in &mut self.groups {
                if g.take(self.key, &lows, e) {
                    break;
                }
            }
            self.rows.free.push(e);
        }
        self.groups.retain(|g| g.len > 0);
        true
    }

    /// Stores an entry in the first table that has room for it.
    fn place(&mut self, priority: u32, row: &[Test], value: u32) -> Result<(), Refusal> {
        let needed = self.rows.data.len() * 4
            + self.by_priority.len() * 48
            + (self.groups.iter())
                .map(|g| g.buckets.len() * size_of::<Bucket>())
                .sum::<usize>();
        if needed > self.budget {
            return Err(Refusal::Memory {
                kind: Kind::TupleSpace,
                needed,
                budget: self.budget,
            });
        }
        let bits = self.layout.word_bits();
        let lows: Vec<u32> = row.iter().map(|t| t.lo).collect();
        let fits = |g: &Group| {
            g.mask
                .iter()
                .all(|(w, m)| m & !row[usize::from(*w)].fixed() == 0)
        };
        let open = |g: &Group| fits(g) && g.same_bits(self.key, &lows, &self.rows) < TOGETHER;
        let number = match self.groups.iter().position(open) {
            Some(n) => n,
            None => {
                let masks = (0..LEVELS).map(|l| mask(row, bits, l));
                let known = |m: &Vec<(u8, u32)>| self.groups.iter().position(|g| g.mask == *m);
                // the last one takes what no other does
                let last = mask(row, bits, LEVELS - 1);
                let new = masks.into_iter().find(|m| known(m).is_none());
                match (new, known(&last)) {
                    (Some(mask), _) => {
                        if self.groups.len() == MAX_TABLES {
                            return Err(Refusal::TooMany {
                                kind: Kind::TupleSpace,
                                found: MAX_TABLES + 1,
                                limit: MAX_TABLES,
                            });
                        }
                        self.groups.push(Group {
                            mask,
                            buckets: vec![EMPTY; 4],
                            bits: 2,
                            len: 0,
                            best: NONE,
                        });
                        self.groups.len() - 1
                    }
                    (None, n) => n.unwrap_or(0),
                }
            }
        };
        let e = self.rows.put(priority, row, value);
        if let Some(g) = self.groups.get_mut(number) {
            if g.len >= (LANES * 5 / 8) << g.bits {
                g.grow(self.key, &self.rows);
            }
            g.put(self.key, &lows, e);
            g.best = g.best.min(priority);
        }
        self.groups.sort_by_key(|g| g.best);
        self.by_priority.entry(priority).or_default().push(e);
        Ok(())
    }
}

/// Bits of a rule by which a table is made: of addresses whole bytes, one less if it is all of them; finer ones and
/// exact ports; all.
fn mask(row: &[Test], bits: &[u8], level: usize) -> Vec<(u8, u32)> {
    let mut list = Vec::new();
    for (w, (t, bits)) in row.iter().zip(bits).enumerate() {
        let all = crate::layout::word_max(*bits);
        let fixed = t.fixed() & all;
        let len = u32::from(*bits) - (all & !fixed).checked_ilog2().map_or(0, |b| b + 1);
        let first = |n: u32| all & !u32::MAX.checked_shr(n + 32 - u32::from(*bits)).unwrap_or(0);
        let mask = match (level, *bits > 16) {
            (0, true) => first(len.min(u32::from(*bits) - 8) / 8 * 8),
            (0, false) => 0,
            (1, true) => first(len / 4 * 4),
            (1, false) if fixed == all && *bits > 8 => all,
            (1, false) => 0,
            _ => fixed,
        };
        if mask != 0 {
            list.push((w as u8, mask));
        }
    }
    list
}

impl Rows {
    fn put(&mut self, priority: u32, row: &[Test], value: u32) -> u32 {
        let e = self.free.pop().unwrap_or_else(|| {
            let e = self.data.len() / self.stride;
            self.data.resize(self.data.len() + self.stride, 0);
            e as u32
        });
        let from = [priority, value].into_iter();
        let from = from.chain(row.iter().flat_map(|t| [t.mask, t.lo, t.span]));
        let at = e as usize * self.stride;
        for (to, v) in self.data.iter_mut().skip(at).zip(from) {
            *to = v;
        }
        e
    }
}

impl Group {
    fn hash(&self, key: u64, lows: &[u32]) -> u64 {
        let word = |(w, m): &(u8, u32)| lows.get(usize::from(*w)).map_or(0, |l| l & m);
        hash(key, self.mask.iter().map(word))
    }

    /// How many rules have the same bits.
    fn same_bits(&self, key: u64, lows: &[u32], rows: &Rows) -> usize {
        let h = self.hash(key, lows);
        let same = |e: u32| {
            rows.get(e).is_some_and(|(_, _, tests)| {
                (self.mask.iter()).all(|(w, m)| {
                    let w = usize::from(*w);
                    tests.get(w).map(|t| t[1] & m) == lows.get(w).map(|l| l & m)
                })
            })
        };
        let (mut at, mut n) = (bucket(h, self.bits), 0);
        // Bound: a bucket is linked to once.
        while let Some(b) = self.buckets.get(at) {
            let lanes = b.tags.iter().zip(b.entries);
            n += lanes.filter(|(t, e)| **t == tag(h) && same(*e)).count();
            at = b.more as usize;
        }
        n
    }

    /// Stores an entry in its bucket, or in one linked to it.
    fn put(&mut self, key: u64, lows: &[u32], e: u32) {
        let h = self.hash(key, lows);
        let mut at = bucket(h, self.bits);
        let end = self.buckets.len() as u32;
        // Bound: a bucket is linked to once.
        while let Some(b) = self.buckets.get_mut(at) {
            if let Some(lane) = b.tags.iter().position(|t| *t == 0) {
                b.tags[lane] = tag(h);
                b.entries[lane] = e;
                self.len += 1;
                return;
            }
            if b.more == NONE {
                b.more = end;
                self.buckets.push(EMPTY);
            }
            at = self.buckets.get(at).map_or(0, |b| b.more as usize);
        }
    }

    fn take(&mut self, key: u64, lows: &[u32], e: u32) -> bool {
        let mut at = bucket(self.hash(key, lows), self.bits);
        while let Some(b) = self.buckets.get_mut(at) {
            if let Some(lane) = b.entries.iter().position(|x| *x == e) {
                b.tags[lane] = 0;
                b.entries[lane] = NONE;
                self.len -= 1;
                return true;
            }
            at = b.more as usize;
        }
        false
    }

    /// Twice the buckets.
    fn grow(&mut self, key: u64, rows: &Rows) {
        let old = std::mem::take(&mut self.buckets);
        self.bits += 1;
        self.buckets = vec![EMPTY; 1 << self.bits];
        self.len = 0;
        for e in old.iter().flat_map(|b| b.entries).filter(|e| *e != NONE) {
            if let Some((_, _, tests)) = rows.get(e) {
                let lows: Vec<u32> = tests.iter().map(|t| t[1]).collect();
                self.put(key, &lows, e);
            }
        }
    }
}
