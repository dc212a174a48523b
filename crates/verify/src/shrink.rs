//! A difference becomes small: fewer packets first, then simpler ones.

use crate::compare::{Difference, Pair, replay};
use crate::event::{Event, Record};
use crate::frame::{self, Keep};
use std::collections::HashSet;

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

struct Shrinker<'a> {
    pristine: &'a Pair,
    want: Difference,
    budget: usize,
}

impl Shrinker<'_> {
    /// Does this sequence show the same trouble?
    fn try_it(&mut self, events: &mut [Event]) -> Option<Difference> {
        if events.is_empty() || events.len() > self.budget {
            return None;
        }
        // an answer without what it answers would be bound to an address and port that this run does not give
        let ids: HashSet<u64> = events.iter().map(|e| e.id).collect();
        if !(events.iter()).all(|e| e.answers.is_none_or(|a| ids.contains(&a.0))) {
            return None;
        }
        self.budget -= events.len();
        replay(self.pristine, events).filter(|d| d.is_like(&self.want))
    }
}

/// Shrinks the sequence that ends with event `last` of `record`. `None` when the difference does not come again.
pub fn shrink(pristine: &Pair, record: &Record, found: &Difference) -> Option<Small> {
    let last = (found.event + 1).min(record.len());
    let mut s = Shrinker {
        pristine,
        want: found.clone(),
        budget: BUDGET.max(record.len() * 2),
    };
    let (mut events, mut difference) = shortest_suffix(&mut s, record, last)?;
    events.truncate(difference.event + 1);
    // by delta debugging
    let mut parts = 2usize;
    while events.len() > 1 {
        let size = events.len().div_ceil(parts);
        let mut smaller = None;
        for start in (0..events.len()).step_by(size) {
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
    simplify(&mut s, &mut events, &mut difference);
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
    s: &mut Shrinker<'_>,
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
        if n >= last {
            return None;
        }
        // an output differs at once, and mostly because of what came shortly before
        n = (n * 4).min(last);
    }
}

fn simplify(s: &mut Shrinker<'_>, events: &mut [Event], difference: &mut Difference) {
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
fn zero_bytes(s: &mut Shrinker<'_>, events: &mut [Event], i: usize, difference: &mut Difference) {
    let len = events.get(i).map_or(0, |e| e.bytes.len());
    let mut size = len.next_power_of_two().max(1);
    while size >= 1 {
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
