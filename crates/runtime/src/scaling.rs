//! When groups of flows go from one worker to another one.
//!
//! Packets are divided into a fixed number of groups; each worker has some of them, and the *map* says which
//! ([`Scaler::map`]). A worker that is overloaded is *split*: half of its groups, by what they cost, go to a worker
//! that has none. Two workers that have little to do are *merged*: all groups of one go to the other. This is Metron's
//! scaling (Katsikas, KTH thesis 2018, 8.1.3.4) with groups in the place of tags: the factor is two, the first half
//! stays, and what cannot be divided is left as it is. Where all workers have groups already, an overloaded one gives
//! some to the one with the least load. Nothing here knows of threads or clocks: somebody samples loads at equal
//! distances ([`EVERY`]), and carries out what is decided.

use std::time::Duration;

/// Loads are looked at so often, unless somebody says otherwise.
pub const EVERY: Duration = Duration::from_millis(500);

/// When groups are moved. What Metron's description leaves open is a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// A worker with more load than this is split.
    pub split: f64,
    /// Two workers with less load than this together are merged.
    pub merge: f64,
    /// Samples in a row that must say so.
    pub samples: u32,
    /// A worker that groups have left, or come to, is left alone until the sample with this number after that.
    pub hold_off: u32,
    /// Weight of a sample that is above the average so far, and of one that is below it.
    pub weights: (f64, f64),
    /// A split that would move less load than this is none: one group has nearly all of it.
    pub worth: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            split: 0.7,
            merge: 0.5,
            samples: 2,
            hold_off: 2,
            weights: (0.5, 0.3),
            worth: 0.05,
        }
    }
}

/// What was measured since the last sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// By worker: the share of the time in which it had something to do; `None`: it has not said.
    pub busy: Vec<Option<f64>>,
    /// By group: what its packets cost, in any unit.
    pub cost: Vec<f64>,
}

/// Why groups move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Half of a worker's groups go to one that has none.
    Split,
    /// No worker is without groups: some go to the one with the least load.
    Balance,
    /// All of them do.
    Merge,
}

impl Kind {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Split => "split",
            Kind::Balance => "balance",
            Kind::Merge => "merge",
        }
    }
}

/// Groups that go to another worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// Why.
    pub kind: Kind,
    /// Whose they were.
    pub from: usize,
    /// Whose they are from now on.
    pub to: usize,
    /// Which ones, in order.
    pub groups: Vec<usize>,
    /// Load of both workers before, as far as it is known.
    pub load: (f64, f64),
}

/// What comes of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Groups move; the map has changed already.
    Move(Move),
    /// A worker is overloaded, and one of its groups has nearly all of its load. Said once until that is over.
    Undividable {
        /// The worker.
        worker: usize,
        /// The group.
        group: usize,
    },
}

#[derive(Debug, Clone, Default)]
struct WorkerState {
    /// Average of its busy shares.
    load: f64,
    /// Samples in a row that were above the limit.
    over: u32,
    /// Samples until it may be changed again.
    held: u32,
    /// It was said that it cannot be divided.
    told: bool,
}

/// Some of a worker's groups.
#[derive(Default)]
struct Half {
    cost: f64,
    groups: Vec<usize>,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Scaler {
    limits: Limits,
    /// Fewest and most workers.
    range: (usize, usize),
    /// By group: its worker.
    map: Vec<usize>,
    /// By group: average of its costs.
    costs: Vec<f64>,
    workers: Vec<WorkerState>,
    /// Samples in a row in which two workers had little to do.
    under: u32,
}

fn average(weights: (f64, f64), before: f64, now: f64) -> f64 {
    let weight = if now > before { weights.0 } else { weights.1 };
    before + weight * (now - before)
}

impl Scaler {
    /// For so many groups, and from `range.0` to `range.1` workers, of which `range.0` have groups in the beginning:
    /// equal numbers of them, as far as that is possible by halves.
    pub fn new(limits: Limits, range: (usize, usize), groups: usize) -> Scaler {
        let most = range.1.clamp(1, groups.max(1));
        let mut s = Scaler {
            limits,
            range: (range.0.clamp(1, most), most),
            map: vec![0; groups],
            costs: vec![0.0; groups],
            workers: vec![WorkerState::default(); most],
            under: 0,
        };
        s.fill();
        s.workers.iter_mut().for_each(|w| w.held = 0);
        s
    }

    /// By group: its worker.
    pub fn map(&self) -> &[usize] {
        &self.map
    }

    /// Fewest and most workers with groups.
    pub fn range(&self) -> (usize, usize) {
        self.range
    }

    /// Workers that have groups.
    pub fn active(&self) -> usize {
        (0..self.workers.len()).filter(|w| self.has(*w)).count()
    }

    /// By worker: its load, as far as it is known.
    pub fn loads(&self) -> impl Iterator<Item = f64> {
        self.workers.iter().map(|w| w.load)
    }

    /// From now on there are from `range.0` to `range.1` workers, of those that there may be. What moves at once so
    /// that it holds.
    pub fn set_range(&mut self, range: (usize, usize)) -> Vec<Move> {
        let most = range.1.clamp(1, self.workers.len());
        self.range = (range.0.clamp(1, most), most);
        let mut moves = self.fill();
        while self.active() > most {
            let Some((a, b)) = self.least(|_| true) else {
                break;
            };
            moves.push(self.merge(a, b));
        }
        moves
    }

    /// Splits until there are as many workers as there must be.
    fn fill(&mut self) -> Vec<Move> {
        let mut moves = Vec::new();
        while self.active() < self.range.0 {
            let heavier = |a: &usize, b: &usize| {
                let of = |w: usize| (self.workers.get(w).map_or(0.0, |w| w.load), self.count(w));
                let ((x, n), (y, m)) = (of(*a), of(*b));
                // of equal ones the first
                x.total_cmp(&y).then(n.cmp(&m)).then(b.cmp(a))
            };
            let dividable = (0..self.workers.len()).filter(|w| self.count(*w) > 1);
            let (Some(from), Some(to)) = (dividable.max_by(heavier), self.free()) else {
                break;
            };
            let Some((groups, share)) = self.half(from) else {
                break;
            };
            moves.push(self.split(from, to, groups, share));
        }
        moves
    }

    /// Loads since the last time: what is to be done now.
    pub fn sample(&mut self, s: &Sample) -> Vec<Decision> {
        self.measure(s);
        let mut decisions: Vec<Decision> = self.fill().into_iter().map(Decision::Move).collect();
        for w in 0..self.workers.len() {
            let limits = self.limits;
            let Some(state) = self.workers.get(w) else {
                continue;
            };
            if state.over >= limits.samples && state.held == 0 && self.has(w) {
                decisions.extend(self.relieve(w));
            }
        }
        let moved = |d: &Decision| matches!(d, Decision::Move(_));
        if !decisions.iter().any(moved) && self.active() > self.range.0 {
            decisions.extend(self.unite().map(Decision::Move));
        } else {
            self.under = 0;
        }
        decisions
    }

    fn measure(&mut self, s: &Sample) {
        let limits = self.limits;
        for (w, state) in self.workers.iter_mut().enumerate() {
            state.held = state.held.saturating_sub(1);
            if !self.map.contains(&w) {
                *state = WorkerState::default();
                continue;
            }
            if let Some(busy) = s.busy.get(w).copied().flatten() {
                state.load = average(limits.weights, state.load, busy.clamp(0.0, 1.0));
            }
            match state.load > limits.split {
                true => state.over += 1,
                false => (state.over, state.told) = (0, false),
            }
        }
        for (average_so_far, cost) in self.costs.iter_mut().zip(&s.cost) {
            *average_so_far = average(limits.weights, *average_so_far, cost.max(0.0));
        }
    }

    fn has(&self, worker: usize) -> bool {
        self.map.contains(&worker)
    }

    fn count(&self, worker: usize) -> usize {
        self.map.iter().filter(|w| **w == worker).count()
    }

    /// The first worker without groups, of as many as there may be.
    fn free(&self) -> Option<usize> {
        let one = (0..self.workers.len()).find(|w| !self.has(*w));
        one.filter(|_| self.active() < self.range.1)
    }

    /// Half of a worker's groups by what they cost, and the share of its load that they have: heavy ones first, each to
    /// the half that has less. The half with the first group stays. By number where nothing is known of their costs.
    /// `None`: there are not two.
    fn half(&self, worker: usize) -> Option<(Vec<usize>, f64)> {
        let cost = |g: &usize| self.costs.get(*g).copied().unwrap_or(0.0);
        let mut mine: Vec<usize> = (0..self.map.len())
            .filter(|g| self.map.get(*g) == Some(&worker))
            .collect();
        let first = *mine.first()?;
        if mine.len() < 2 {
            return None;
        }
        let all: f64 = mine.iter().map(cost).sum();
        if all <= 0.0 {
            let gone = mine.split_off(mine.len().div_ceil(2));
            return Some((gone, 0.5));
        }
        // a stable sort: equal ones in order
        mine.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        let mut one = Half::default();
        let mut other = Half::default();
        for g in mine {
            let less = one.cost.total_cmp(&other.cost);
            let to = match less.then(one.groups.len().cmp(&other.groups.len())) {
                std::cmp::Ordering::Greater => &mut other,
                _ => &mut one,
            };
            to.cost += cost(&g);
            to.groups.push(g);
        }
        let Half { cost, groups } = match one.groups.contains(&first) {
            true => other,
            false => one,
        };
        let mut gone = groups;
        gone.sort_unstable();
        Some((gone, cost / all))
    }

    /// Relieves an overloaded worker, if that is possible.
    fn relieve(&mut self, w: usize) -> Option<Decision> {
        let load = self.workers.get(w)?.load;
        let worth = self.limits.worth;
        let divided = self.half(w);
        let divided = divided.filter(|(_, share)| load * share.min(1.0 - share) >= worth);
        let Some((groups, share)) = divided else {
            let state = self.workers.get_mut(w)?;
            if std::mem::replace(&mut state.told, true) {
                return None;
            }
            let mine = (0..self.map.len()).filter(|g| self.map.get(*g) == Some(&w));
            let cost = |g: &usize| self.costs.get(*g).copied().unwrap_or(0.0);
            let group = mine.max_by(|a, b| cost(a).total_cmp(&cost(b)))?;
            return Some(Decision::Undividable { worker: w, group });
        };
        match self.free() {
            Some(to) => Some(Decision::Move(self.split(w, to, groups, share))),
            None => self.balance(w).map(Decision::Move),
        }
    }

    /// Nobody is free: an overloaded worker gives to the one with the least load what it has more, if that is worth it.
    fn balance(&mut self, w: usize) -> Option<Move> {
        let load = |w: usize| self.workers.get(w).map_or(0.0, |s| s.load);
        let others = (0..self.workers.len()).filter(|o| *o != w && self.has(*o));
        let to = others.min_by(|a, b| load(*a).total_cmp(&load(*b)))?;
        let (from_load, more) = (load(w), (load(w) - load(to)) / 2.0);
        let held = self.workers.get(to).is_none_or(|s| s.held > 0);
        if held || more < 2.0 * self.limits.worth {
            return None;
        }
        let cost = |g: &usize| self.costs.get(*g).copied().unwrap_or(0.0);
        let mut mine: Vec<usize> = (0..self.map.len())
            .filter(|g| self.map.get(*g) == Some(&w))
            .collect();
        let all: f64 = mine.iter().map(cost).sum();
        mine.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        // heavy ones first, as long as they fit
        let mut moved = 0.0;
        let fits = |g: &usize| {
            let more_cost = cost(g) * from_load / all.max(f64::MIN_POSITIVE);
            let fits = more_cost > 0.0 && moved + more_cost <= more;
            moved += if fits { more_cost } else { 0.0 };
            fits
        };
        let mut groups: Vec<usize> = mine.into_iter().filter(fits).collect();
        groups.sort_unstable();
        match moved >= self.limits.worth {
            true => Some(self.shift(Kind::Balance, (w, to), groups, moved)),
            false => None,
        }
    }

    /// Two workers become one, if that has been possible for long enough.
    fn unite(&mut self) -> Option<Move> {
        let pair = self.least(|s| s.held == 0);
        let load = |w: usize| self.workers.get(w).map_or(0.0, |s| s.load);
        let pair = pair.filter(|(a, b)| load(*a) + load(*b) < self.limits.merge);
        self.under = match pair {
            Some(_) => self.under + 1,
            None => 0,
        };
        let (a, b) = pair.filter(|_| self.under >= self.limits.samples)?;
        self.under = 0;
        Some(self.merge(a, b))
    }

    /// The two workers with the least load that are `fit`, in order.
    fn least(&self, fit: impl Fn(&WorkerState) -> bool) -> Option<(usize, usize)> {
        let load = |w: &usize| self.workers.get(*w).map_or(0.0, |s| s.load);
        let mut all: Vec<usize> = (0..self.workers.len())
            .filter(|w| self.has(*w) && self.workers.get(*w).is_some_and(&fit))
            .collect();
        // of equal ones the last: the first workers stay
        all.sort_by(|a, b| load(a).total_cmp(&load(b)).then(b.cmp(a)));
        match all.as_slice() {
            [a, b, ..] => Some((*a.min(b), *a.max(b))),
            _ => None,
        }
    }

    fn split(&mut self, from: usize, to: usize, groups: Vec<usize>, share: f64) -> Move {
        let load = self.workers.get(from).map_or(0.0, |w| w.load);
        self.shift(Kind::Split, (from, to), groups, load * share)
    }

    fn merge(&mut self, stays: usize, goes: usize) -> Move {
        let load = self.workers.get(goes).map_or(0.0, |w| w.load);
        let groups = (0..self.map.len()).filter(|g| self.map.get(*g) == Some(&goes));
        let groups = groups.collect();
        self.shift(Kind::Merge, (goes, stays), groups, load)
    }

    /// Groups with so much load go. Both workers are expected to have what follows from it.
    fn shift(
        &mut self,
        kind: Kind,
        (from, to): (usize, usize),
        groups: Vec<usize>,
        load: f64,
    ) -> Move {
        for g in &groups {
            if let Some(w) = self.map.get_mut(*g) {
                *w = to;
            }
        }
        let of = |s: &Scaler, w: usize| s.workers.get(w).map_or(0.0, |w| w.load);
        let before = (of(self, from), of(self, to));
        let hold_off = self.limits.hold_off;
        for (w, load) in [(from, before.0 - load), (to, before.1 + load)] {
            if let Some(state) = self.workers.get_mut(w) {
                *state = WorkerState {
                    load: load.clamp(0.0, 1.0),
                    held: hold_off,
                    ..WorkerState::default()
                };
            }
        }
        Move {
            kind,
            from,
            to,
            groups,
            load: before,
        }
    }
}
