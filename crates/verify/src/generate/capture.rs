//! Captures as a source of events.

use super::Source;
use crate::event::Event;
use crate::subject::Outputs;
use onefold_elements::ElemId;
use onefold_engine::program::ProgramStep;
use onefold_io::{CaptureError, CaptureReader, Merge};
use onefold_packet::Timestamp;

/// Captures that arrive at ports, merged by time. The clock never goes back.
pub struct Capture {
    merge: Merge,
    sources: Vec<ElemId>,
    now: Timestamp,
    buf: Vec<u8>,
    /// What was wrong with them.
    pub warnings: Vec<String>,
}

impl Capture {
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
            warnings: Vec::new(),
        })
    }
}

impl Source for Capture {
    fn next(&mut self) -> Option<Event> {
        // bound: damage ends a file, so there is at most one such turn for each
        loop {
            match self.merge.next_into(&mut self.buf)? {
                Ok((input, meta)) => {
                    let at = self.now.max(Timestamp(meta.ts_ns));
                    let joined = at == self.now;
                    self.now = at;
                    let source = *self.sources.get(input)?;
                    return Some(Event {
                        joined,
                        ..Event::frame(at, source, self.buf.clone())
                    });
                }
                Err(e) => self.warnings.push(e.to_string()),
            }
        }
    }
    fn seen(&mut self, _: &[Event], _: &Outputs, _: &[ProgramStep]) {}
}
