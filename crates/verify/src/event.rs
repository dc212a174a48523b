//! What is fed to the executions: frames with entry and time.

use onefold_element::ElemId;
use onefold_packet::Timestamp;
use std::collections::HashMap;

/// One thing that happens: a frame arrives, or nothing but time passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// Through which source element a frame arrives; `None`: only the clock moves.
    pub source: Option<ElemId>,
    /// Somebody has this rewriter forget its flows, by its handler `clear`; no frame arrives then.
    pub clears: Option<ElemId>,
    /// The frame.
    pub bytes: Vec<u8>,
    /// It belongs to the batch of the event before it, where batches are compared (same source, same time).
    pub joined: bool,
    /// Its number; what answers it names that.
    pub id: u64,
    /// It answers this event's output: number, and which of the packets that left.
    pub answers: Option<(u64, u32)>,
}

impl Event {
    /// Nothing but time passes.
    pub fn clock(at: Timestamp) -> Event {
        Event {
            at,
            source: None,
            clears: None,
            bytes: Vec::new(),
            joined: false,
            id: 0,
            answers: None,
        }
    }
    /// A rewriter is made to forget its flows.
    pub fn clear(at: Timestamp, elem: ElemId) -> Event {
        Event {
            clears: Some(elem),
            ..Event::clock(at)
        }
    }
    /// A frame.
    pub fn frame(at: Timestamp, source: ElemId, bytes: Vec<u8>) -> Event {
        Event {
            source: Some(source),
            bytes,
            ..Event::clock(at)
        }
    }
}

/// A long sequence of events, compactly.
#[derive(Debug, Clone, Default)]
pub struct Record {
    bytes: Vec<u8>,
    events: Vec<(Timestamp, u32, u32, bool)>,
    answers: HashMap<usize, (u64, u32)>,
    clears: HashMap<usize, ElemId>,
    ends: Vec<usize>,
}

/// Stands for "no source".
const CLOCK: u32 = u32::MAX;

impl Record {
    /// Adds an event, whose number becomes its place here.
    pub fn push(&mut self, e: &mut Event) {
        e.id = self.len() as u64;
        if let Some(a) = e.answers {
            self.answers.insert(self.len(), a);
        }
        if let Some(c) = e.clears {
            self.clears.insert(self.len(), c);
        }
        self.bytes.extend_from_slice(&e.bytes);
        let source = e.source.map_or(CLOCK, |s| s.0);
        self.events
            .push((e.at, source, e.bytes.len() as u32, e.joined));
        self.ends.push(self.bytes.len());
    }
    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }
    /// Nothing at all.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
    /// One of them.
    pub fn get(&self, i: usize) -> Option<Event> {
        let (at, source, len, joined) = *self.events.get(i)?;
        let end = *self.ends.get(i)?;
        Some(Event {
            at,
            source: (source != CLOCK).then_some(ElemId(source)),
            clears: self.clears.get(&i).copied(),
            bytes: self.bytes.get(end - len as usize..end)?.to_vec(),
            joined,
            id: i as u64,
            answers: self.answers.get(&i).copied(),
        })
    }
    /// Those from `from` up to, but without, `to`.
    pub fn range(&self, from: usize, to: usize) -> Vec<Event> {
        (from..to.min(self.len()))
            .filter_map(|i| self.get(i))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_comes_back() {
        let mut r = Record::default();
        let mut events = [
            Event::frame(Timestamp(1), ElemId(3), vec![1, 2, 3]),
            Event::clock(Timestamp(5)),
            Event::clear(Timestamp(6), ElemId(4)),
            Event {
                joined: true,
                answers: Some((0, 2)),
                ..Event::frame(Timestamp(9), ElemId(0), vec![9])
            },
        ];
        for e in &mut events {
            r.push(e);
        }
        assert_eq!(events.each_ref().map(|e| e.id), [0, 1, 2, 3]);
        assert_eq!(r.range(0, 10), events);
        assert_eq!(r.get(4), None);
    }
}
