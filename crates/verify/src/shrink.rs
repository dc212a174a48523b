//! A difference becomes small: fewer packets first, then simpler ones.

use crate::compare::{Difference, Pair, replay_while};
use crate::event::{Event, Record};
use crate::frame::{self, Keep};
use crate::run::At;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Seconds that one difference is shrunk for, if nobody says otherwise.
pub const SECONDS: u64 = 30;
/// Events replayed in all while a sequence is shrunk.
const BUDGET: usize = 4_000_000;

/// A difference and the smallest sequence found that shows it.
#[derive(Debug, Clone)]
pub struct Small {
    /// What is left.
    pub events: Vec<Event>,
    /// The difference that it makes.
    pub difference: Difference,
}

/// Why a sequence may not be the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The time was up.
    Time,
    /// Too many events would have had to be replayed.
    Work,
    /// It was ended from outside.
    Interrupted,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// The smallest sequence found; `None` when the difference did not come again, or not before it was cut short.
    pub small: Option<Small>,
    /// It was cut short.
    pub cut: Option<Cut>,
}

/// How long it may take.
pub struct Patience<'a> {
    /// At most so long.
    pub time: Duration,
    /// Told what is left so far; ends it with false.
    pub go_on: &'a mut dyn FnMut(At) -> bool,
}

struct Shrinker<'a, 'b> {
    pristine: &'a Pair,
    want: Difference,
    budget: usize,
    begun: Instant,
    patience: Patience<'b>,
    cut: Option<Cut>,
    /// Events of the smallest sequence so far.
    left: usize,
}

impl Shrinker<'_, '_> {
    /// Does this sequence show the same trouble?
    fn try_it(&mut self, events: &mut [Event]) -> Option<Difference> {
        if events.len() > self.budget {
            self.cut.get_or_insert(Cut::Work);
        }
        if events.is_empty() || self.cut.is_some() {
            return None;
        }
        // an answer without what it answers would be bound to an address and port that this run does not give
        let ids: HashSet<u64> = events.iter().map(|e| e.id).collect();
        if !(events.iter()).all(|e| e.answers.is_none_or(|a| ids.contains(&a.0))) {
            return None;
        }
        self.budget -= events.len();
        let at = At::Shrinking(self.left);
        let (patience, begun) = (&mut self.patience, self.begun);
        let mut cut = None;
        let mut go_on = || {
            if begun.elapsed() >= patience.time {
                cut = Some(Cut::Time);
            } else if !(patience.go_on)(at) {
                cut = Some(Cut::Interrupted);
            }
            cut.is_none()
        };
        let found = match go_on() {
            true => replay_while(self.pristine, events, &mut go_on),
            false => None,
        };
        self.cut = cut;
        let found = found.filter(|d| d.is_like(&self.want));
        if found.is_some() {
            self.left = events.len();
        }
        found
    }
}

/// Shrinks the sequence that ends with event `last` of `record`.
pub fn shrink(
    pristine: &Pair,
    record: &Record,
    found: &Difference,
    patience: Patience<'_>,
) -> Shrunk {
    let last = (found.event + 1).min(record.len());
    let mut s = Shrinker {
        pristine,
        want: found.clone(),
        budget: BUDGET.max(record.len() * 2),
        begun: Instant::now(),
        patience,
        cut: None,
        left: last,
    };
    let small = shrunk(&mut s, record, last);
    Shrunk { small, cut: s.cut }
}

fn shrunk(s: &mut Shrinker<'_, '_>, record: &Record, last: usize) -> Option<Small> {
    let (mut events, mut difference) = shortest_suffix(s, record, last)?;
    events.truncate(difference.event + 1);
    // by delta debugging
    let mut parts = 2usize;
    while events.len() > 1 && s.cut.is_none() {
        let size = events.len().div_ceil(parts);
        let mut smaller = None;
        for start in (0..events.len()).step_by(size) {
            if s.cut.is_some() {
                break;
            }
            let mut rest = events.clone();
            let cut = (start + size).min(events.len());
            rest.drain(start..cut);
            unjoin(&mut rest, start);
            if let Some(d) = s.try_it(&mut rest) {
                smaller = Some((rest, d));
                break;
            }
        }
        match smaller {
            Some((rest, d)) => {
                events = rest;
                events.truncate(d.event + 1);
                difference = d;
                parts = (parts - 1).max(2);
            }
            None if size == 1 => break,
            None => parts = (parts * 2).min(events.len()),
        }
    }
    simplify(s, &mut events, &mut difference);
    Some(Small { events, difference })
}

/// What stood behind a removed first packet of a batch begins one.
fn unjoin(events: &mut [Event], at: usize) {
    let continues = match at.checked_sub(1).and_then(|i| events.get(i)) {
        Some(before) => {
            let e = events.get(at);
            e.is_some_and(|e| e.source == before.source && e.at == before.at)
        }
        None => false,
    };
    if let Some(e) = events.get_mut(at)
        && !continues
    {
        e.joined = false;
    }
}

fn shortest_suffix(
    s: &mut Shrinker<'_, '_>,
    record: &Record,
    last: usize,
) -> Option<(Vec<Event>, Difference)> {
    let mut n = 1;
    loop {
        let mut events = record.range(last.saturating_sub(n), last);
        unjoin(&mut events, 0);
        if let ([e], 1) = (&mut events[..], n) {
            // alone it answers nothing
            e.answers = None;
        }
        if let Some(d) = s.try_it(&mut events) {
            return Some((events, d));
        }
        if n >= last || s.cut.is_some() {
            return None;
        }
        // an output differs at once, and mostly because of what came shortly before
        n = (n * 4).min(last);
    }
}

fn simplify(s: &mut Shrinker<'_, '_>, events: &mut [Event], difference: &mut Difference) {
    // times
    if let Some(first) = events.first().map(|e| e.at) {
        let mut same = events.to_vec();
        same.iter_mut().for_each(|e| e.at = first);
        if let Some(d) = s.try_it(&mut same) {
            events.clone_from_slice(&same);
            *difference = d;
        }
    }
    for i in 0..events.len() {
        if s.cut.is_some() {
            return;
        }
        for change in CHANGES {
            let mut simple = events.to_vec();
            let Some(e) = simple.get_mut(i) else { continue };
            let (ip, transport) = frame::sums_right(&e.bytes);
            change(&mut e.bytes);
            let keep = Keep {
                ip_len: true,
                udp_len: true,
                ip_sum: ip == Some(false),
                transport_sum: transport == Some(false),
            };
            frame::finish(&mut e.bytes, keep);
            if simple[i] != events[i]
                && let Some(d) = s.try_it(&mut simple)
            {
                events.clone_from_slice(&simple);
                *difference = d;
            }
        }
        zero_bytes(s, events, i, difference);
    }
}

type Change = fn(&mut Vec<u8>);

/// Simplifications of a frame; lengths are made right by those that change them.
const CHANGES: &[Change] = &[
    |b| {
        // no payload
        if let Some(v) = frame::view(b)
            && let Some(t) = v.transport
        {
            let head = match v.proto {
                6 => 20,
                _ => 8,
            };
            if b.len() > t + head {
                b.truncate(t + head);
                frame::finish(b, Keep::default());
            }
        }
    },
    |b| {
        // half of it
        if let Some(v) = frame::view(b)
            && let Some(t) = v.transport
            && b.len() > t + 20
        {
            let n = t + 20 + (b.len() - t - 20) / 2;
            b.truncate(n);
            frame::finish(b, Keep::default());
        }
    },
    |b| {
        if let Some(v) = frame::view(b)
            && v.ether_type == 0x0800
            && let Some(ttl) = b.get_mut(v.net + 8)
        {
            *ttl = 64;
        }
    },
    |b| {
        if let Some(v) = frame::view(b)
            && let Some(t) = v.transport
            && v.proto == 6
            && let Some(seq) = b.get_mut(t + 4..t + 12)
        {
            seq.fill(0);
        }
    },
];

/// Payload and header bytes become zero, in pieces.
fn zero_bytes(
    s: &mut Shrinker<'_, '_>,
    events: &mut [Event],
    i: usize,
    difference: &mut Difference,
) {
    let len = events.get(i).map_or(0, |e| e.bytes.len());
    let mut size = len.next_power_of_two().max(1);
    while size >= 1 && s.cut.is_none() {
        for at in (0..len).step_by(size) {
            let mut simple = events.to_vec();
            let Some(e) = simple.get_mut(i) else { return };
            let (ip, transport) = frame::sums_right(&e.bytes);
            let end = (at + size).min(len);
            if e.bytes[at..end].iter().all(|b| *b == 0) {
                continue;
            }
            e.bytes[at..end].fill(0);
            let keep = Keep {
                ip_len: true,
                udp_len: true,
                ip_sum: ip != Some(true),
                transport_sum: transport != Some(true),
            };
            frame::finish(&mut e.bytes, keep);
            if simple[i].bytes != events[i].bytes
                && let Some(d) = s.try_it(&mut simple)
            {
                events.clone_from_slice(&simple);
                *difference = d;
            }
        }
        size /= 2;
        // single bytes of a long frame are not worth it
        if size < 4 && len > 512 {
            break;
        }
    }
}
