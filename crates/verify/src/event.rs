//! What is fed to the executions: frames with entry and time.

use onefold_elements::ElemId;
use onefold_packet::Timestamp;

/// One thing that happens: a frame arrives, or nothing but time passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// Through which source element a frame arrives; `None`: only the clock moves.
    pub source: Option<ElemId>,
    /// The frame.
    pub bytes: Vec<u8>,
    /// It belongs to the batch of the event before it, where batches are compared (same source, same time).
    pub joined: bool,
}

/// A long sequence of events, compactly.
#[derive(Debug, Clone, Default)]
pub struct Record {
    bytes: Vec<u8>,
    events: Vec<(Timestamp, u32, u32, bool)>,
    ends: Vec<usize>,
}

/// Stands for "no source".
const CLOCK: u32 = u32::MAX;

impl Record {
    /// Adds an event.
    pub fn push(&mut self, e: &Event) {
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
            bytes: self.bytes.get(end - len as usize..end)?.to_vec(),
            joined,
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
        let events = [
            Event {
                at: Timestamp(1),
                source: Some(ElemId(3)),
                bytes: vec![1, 2, 3],
                joined: false,
            },
            Event {
                at: Timestamp(5),
                source: None,
                bytes: vec![],
                joined: false,
            },
            Event {
                at: Timestamp(9),
                source: Some(ElemId(0)),
                bytes: vec![9],
                joined: true,
            },
        ];
        for e in &events {
            r.push(e);
        }
        assert_eq!(r.range(0, 10), events);
        assert_eq!(r.get(3), None);
    }
}
