//! Captures as a source of events.

use super::adapt::{Adapter, Variant};
use super::{Port, Source};
use crate::event::Event;
use crate::frame;
use crate::subject::Outputs;
use onefold_capture::{CaptureError, CaptureReader, Merge};
use onefold_element::ElemId;
use onefold_engine::program::ProgramStep;
use onefold_packet::Timestamp;
use std::collections::{BTreeMap, VecDeque};

/// Captures that arrive at ports, merged by time. The clock never goes back.
pub struct Capture {
    merge: Merge,
    sources: Vec<ElemId>,
    now: Timestamp,
    buf: Vec<u8>,
    adapter: Option<Adapter>,
    /// Frames of a batch have times of their own.
    stamped: bool,
    /// Where packets leave -> where answers to them enter.
    back: Vec<(ElemId, ElemId)>,
    /// Other forms of the frame before.
    queue: VecDeque<(Variant, Event)>,
    last: Variant,
    /// Frames by how they were fed, and after how many of them something left the chain (counted where each is executed
    /// alone).
    pub counts: BTreeMap<Variant, (u64, u64)>,
    /// What was wrong with them.
    pub warnings: Vec<String>,
}

impl Capture {
    /// Frames that come at different times may be of one batch, too, each with its own.
    pub fn stamp(&mut self) {
        self.stamped = true;
    }

    /// Opens files, each with the source that its frames arrive at.
    ///
    /// # Errors
    /// When one cannot be read as a capture.
    pub fn open(files: &[(ElemId, String)]) -> Result<Capture, CaptureError> {
        let readers = files.iter().map(|(_, f)| CaptureReader::open(f));
        Ok(Capture {
            merge: Merge::new(readers.collect::<Result<_, _>>()?),
            sources: files.iter().map(|(e, _)| *e).collect(),
            now: Timestamp::ZERO,
            buf: Vec::new(),
            adapter: None,
            stamped: false,
            back: Vec::new(),
            queue: VecDeque::new(),
            last: Variant::AsIs,
            counts: BTreeMap::new(),
            warnings: Vec::new(),
        })
    }

    /// Each frame also comes in the forms that fit the chain, and what leaves at a port that packets enter at, too, is
    /// answered.
    pub fn adapt(&mut self, adapter: Adapter, ports: &[Port]) {
        self.adapter = Some(adapter);
        self.back = (ports.iter())
            .filter_map(|p| Some((p.source?, &p.sinks)))
            .flat_map(|(s, sinks)| sinks.iter().map(move |k| (*k, s)))
            .collect();
    }

    fn hand_out(&mut self, variant: Variant, e: Event) -> Option<Event> {
        self.last = variant;
        self.counts.entry(variant).or_default().0 += 1;
        Some(e)
    }
}

impl Source for Capture {
    fn next(&mut self) -> Option<Event> {
        if let Some((variant, e)) = self.queue.pop_front() {
            return self.hand_out(variant, e);
        }
        // bound: damage ends a file, so there is at most one such turn for each
        loop {
            match self.merge.next_into(&mut self.buf)? {
                Ok((input, meta)) => {
                    let at = self.now.max(Timestamp(meta.ts_ns));
                    let joined = self.stamped || at == self.now;
                    self.now = at;
                    let source = *self.sources.get(input)?;
                    for (variant, bytes) in
                        (self.adapter.iter()).flat_map(|a| a.variants(source, meta.link, &self.buf))
                    {
                        let e = Event {
                            joined: true,
                            ..Event::frame(at, source, bytes)
                        };
                        self.queue.push_back((variant, e));
                    }
                    let e = Event {
                        joined,
                        ..Event::frame(at, source, self.buf.clone())
                    };
                    return self.hand_out(Variant::AsIs, e);
                }
                Err(e) => self.warnings.push(e.to_string()),
            }
        }
    }

    fn seen(&mut self, events: &[Event], outputs: &Outputs, _: &[ProgramStep]) {
        let ([e], false) = (events, outputs.is_empty()) else {
            return;
        };
        // alone: it is the one that was handed out last
        self.counts.entry(self.last).or_default().1 += 1;
        if self.adapter.is_none() || e.answers.is_some() {
            return;
        }
        for (nth, (sink, _, bytes)) in outputs.iter().enumerate() {
            let entry = self.back.iter().find(|(s, _)| *s == sink);
            if let (Some((_, source)), Some(bytes)) = (entry, frame::answer(bytes)) {
                let answer = Event {
                    answers: Some((e.id, nth as u32)),
                    ..Event::frame(self.now, *source, bytes)
                };
                self.queue.push_front((Variant::Answer, answer));
            }
        }
    }
}
