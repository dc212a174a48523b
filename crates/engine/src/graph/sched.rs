//! Who runs next: the task list and the timers.
//!
//! Tasks are taken in stride order as user-level Click does, so that configurations with several tasks interleave in the
//! same way: every task has a pass value, the lowest runs, and its pass grows by its stride. Timers are ordered by time,
//! and by the order in which they were set where times are equal.

use onefold_element::TimerId;
use onefold_packet::Timestamp;
use std::collections::{BTreeMap, VecDeque};

/// Stride of a task with one ticket; a task with the default number of tickets has `STRIDE_ONE / DEFAULT_TICKETS`.
const STRIDE_ONE: u64 = 1 << 16;
/// Tickets that a task has unless told otherwise.
pub(crate) const DEFAULT_TICKETS: u32 = 1024;
/// Most tickets.
const MAX_TICKETS: u32 = 1 << 15;

/// The tasks that want to run.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunList {
    /// (pass, element), ascending.
    list: VecDeque<(u64, u32)>,
    /// Per element: wants to run.
    scheduled: Vec<bool>,
    stride: Vec<u64>,
    tickets: Vec<u32>,
    /// The task that is running.
    current: Option<(u64, u32)>,
}

impl RunList {
    pub fn new(elements: usize) -> Self {
        RunList {
            list: VecDeque::new(),
            scheduled: vec![false; elements],
            stride: vec![STRIDE_ONE / DEFAULT_TICKETS as u64; elements],
            tickets: vec![DEFAULT_TICKETS; elements],
            current: None,
        }
    }

    pub fn set_tickets(&mut self, element: u32, tickets: u32) {
        let tickets = tickets.clamp(1, MAX_TICKETS);
        if let Some(s) = self.stride.get_mut(element as usize) {
            *s = STRIDE_ONE / tickets as u64;
        }
        if let Some(t) = self.tickets.get_mut(element as usize) {
            *t = tickets;
        }
    }

    pub fn tickets(&self, element: u32) -> u32 {
        self.tickets.get(element as usize).copied().unwrap_or(0)
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Does this task want to run?
    pub fn is_scheduled(&self, element: u32) -> bool {
        self.scheduled.get(element as usize) == Some(&true)
    }

    fn insert(&mut self, pass: u64, element: u32) {
        let at = self.list.partition_point(|(p, _)| *p <= pass);
        self.list.insert(at, (pass, element));
    }

    /// The task does not want to run. Not to be called while one runs.
    pub fn forget(&mut self, element: u32) {
        if let Some(s) = self.scheduled.get_mut(element as usize) {
            *s = false;
        }
        self.list.retain(|(_, e)| *e != element);
    }

    /// Makes a task want to run.
    pub fn wake(&mut self, element: u32) {
        let Some(s) = self.scheduled.get_mut(element as usize) else {
            return;
        };
        if std::mem::replace(s, true) || self.current.is_some_and(|(_, e)| e == element) {
            return;
        }
        let head = self.current.or_else(|| self.list.front().copied());
        let stride = self.stride[element as usize];
        self.insert(head.map_or(0, |(p, _)| p).saturating_add(stride), element);
    }

    /// Takes the next task to run.
    pub fn begin(&mut self) -> Option<u32> {
        let (pass, e) = self.list.pop_front()?;
        self.scheduled[e as usize] = false;
        self.current = Some((pass, e));
        Some(e)
    }

    /// The task that [`RunList::begin`] gave has run. `again`: it wants to run again; `worked`: it did something.
    pub fn end(&mut self, again: bool, worked: bool) {
        let Some((mut pass, e)) = self.current.take() else {
            return;
        };
        if !again && !self.scheduled[e as usize] {
            return;
        }
        self.scheduled[e as usize] = true;
        pass = pass.saturating_add(self.stride[e as usize]);
        if !worked && let Some((next, _)) = self.list.front() {
            // one that did nothing goes behind the next
            pass = pass.max(*next);
        }
        self.insert(pass, e);
    }
}

/// Timers that are set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    by_time: BTreeMap<(Timestamp, u64), (u32, TimerId)>,
    /// By element: its timers that are set (elements have one or two), and their keys in `by_time`.
    set: Vec<Vec<(TimerId, (Timestamp, u64))>>,
    sequence: u64,
    /// When the next one is due: asked for with every packet.
    soonest: Option<Timestamp>,
}

impl Timers {
    pub fn set(&mut self, element: u32, timer: TimerId, at: Timestamp) {
        self.clear(element, timer);
        self.sequence += 1;
        let key = (at, self.sequence);
        self.by_time.insert(key, (element, timer));
        let place = element as usize;
        if place >= self.set.len() {
            self.set.resize_with(place + 1, Vec::new);
        }
        self.set[place].push((timer, key));
        self.look();
    }
    pub fn clear(&mut self, element: u32, timer: TimerId) {
        if let Some(key) = self.forget(element, timer) {
            self.by_time.remove(&key);
            self.look();
        }
    }
    /// The key of a timer that was set, and no longer is.
    fn forget(&mut self, element: u32, timer: TimerId) -> Option<(Timestamp, u64)> {
        let mine = self.set.get_mut(element as usize)?;
        let i = mine.iter().position(|(t, _)| *t == timer)?;
        Some(mine.swap_remove(i).1)
    }
    /// All that are set, in the order in which they expire.
    pub fn all(&self) -> impl Iterator<Item = (u32, TimerId, Timestamp)> + '_ {
        let all = self.by_time.iter();
        all.map(|((at, _), (element, timer))| (*element, *timer, *at))
    }
    /// None of the element's is set.
    pub fn clear_all(&mut self, element: u32) {
        let mine = self.all().filter(|(e, ..)| *e == element);
        let mine: Vec<TimerId> = mine.map(|(_, timer, _)| timer).collect();
        for timer in mine {
            self.clear(element, timer);
        }
    }
    fn look(&mut self) {
        self.soonest = self.by_time.first_key_value().map(|((t, _), _)| *t);
    }
    /// When the next one is due.
    #[inline]
    pub fn next(&self) -> Option<Timestamp> {
        self.soonest
    }
    /// Takes out the first one that is due at `now`.
    pub fn take_due(&mut self, now: Timestamp) -> Option<(u32, TimerId)> {
        let entry = self.by_time.first_entry().filter(|e| e.key().0 <= now)?;
        let owner = entry.remove();
        self.forget(owner.0, owner.1);
        self.look();
        Some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_tickets_alternate() {
        let mut r = RunList::new(3);
        for e in 0..3 {
            r.wake(e);
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let e = r.begin().unwrap();
            order.push(e);
            r.end(true, true);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
        r.begin();
        r.end(false, true);
        assert_eq!(r.len(), 2);
        assert!(!r.is_scheduled(0));
        // a task that wakes itself while it runs is kept
        let e = r.begin().unwrap();
        r.wake(e);
        r.end(false, true);
        assert!(r.is_scheduled(e));
    }

    #[test]
    fn tickets_share_turns() {
        let mut r = RunList::new(2);
        r.set_tickets(0, 2048);
        r.wake(0);
        r.wake(1);
        let mut turns = [0, 0];
        for _ in 0..300 {
            turns[r.begin().unwrap() as usize] += 1;
            r.end(true, true);
        }
        assert_eq!(turns, [200, 100]);
    }

    #[test]
    fn timers_fire_by_time_then_by_the_order_set() {
        let t = Timestamp::from_secs;
        let mut x = Timers::default();
        x.set(1, 0, t(5));
        x.set(2, 0, t(3));
        x.set(3, 0, t(5));
        x.set(1, 0, t(5)); // moved: now behind 3
        x.set(4, 0, t(4));
        x.clear(4, 0);
        assert_eq!(x.next(), Some(t(3)));
        assert_eq!(x.take_due(t(2)), None);
        let all: Vec<u32> = std::iter::from_fn(|| x.take_due(t(9)))
            .map(|(e, _)| e)
            .collect();
        assert_eq!(all, [2, 3, 1]);
        assert_eq!(x.next(), None);
    }
}
