//! Captures: a file whose frames arrive, a file that what leaves is written to.

use crate::memory::{Keep, MemoryPort};
use crate::port::{Port, PortError, Progress};
use onefold_capture::{CaptureReader, CaptureWriter, LinkType};
use onefold_packet::{Pkt, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;

/// Further forms in which a frame arrives, besides as it is.
pub type Variants = Box<dyn Fn(LinkType, &[u8]) -> Vec<Vec<u8>> + Send>;

/// Says of a frame, in the order in which frames arrive, whether it is one of those that arrive here.
pub type Share = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// A port that is two files, or one of them.
pub struct CapturePort {
    name: String,
    reader: Option<CaptureReader>,
    writer: Option<CaptureWriter<File>>,
    variants: Option<Variants>,
    share: Option<Share>,
    /// The next frame, if it has been read.
    next: Option<Timestamp>,
    frame: Vec<u8>,
    /// Other forms of the frame that was read last.
    more: VecDeque<Vec<u8>>,
    /// The reader has ended, or what is behind is damaged.
    ended: bool,
    read: u64,
    total: u64,
    /// Frames of other link types than Ethernet.
    foreign: BTreeMap<u32, u64>,
    damage: Option<String>,
}

/// What a frame's header takes in a capture, about: for the progress.
const RECORD: u64 = 16;

impl CapturePort {
    /// Neither file yet. `name` is for messages.
    pub fn new(name: &str) -> CapturePort {
        CapturePort {
            name: name.to_string(),
            reader: None,
            writer: None,
            variants: None,
            share: None,
            next: None,
            frame: Vec::new(),
            more: VecDeque::new(),
            ended: false,
            read: 0,
            total: 0,
            foreign: BTreeMap::new(),
            damage: None,
        }
    }

    /// Frames of this capture arrive.
    pub fn reads(mut self, reader: CaptureReader) -> CapturePort {
        let path = reader.path().map(std::fs::metadata);
        self.total = path.and_then(Result::ok).map_or(0, |m| m.len());
        self.reader = Some(reader);
        self
    }

    /// What leaves is written there.
    pub fn writes(mut self, writer: CaptureWriter<File>) -> CapturePort {
        self.writer = Some(writer);
        self
    }

    /// Each frame arrives in further forms, too.
    pub fn with_variants(mut self, variants: Variants) -> CapturePort {
        self.variants = Some(variants);
        self
    }

    /// Only some of the frames arrive, in whichever form: a worker's share of a capture that several read.
    pub fn with_share(mut self, share: Share) -> CapturePort {
        self.share = Some(share);
        self
    }

    /// All frames that are still to arrive, in memory, and remarks about them. `keep`: as [`MemoryPort::new`].
    pub fn into_memory(mut self, keep: Keep) -> (MemoryPort, Vec<String>) {
        let mut memory = MemoryPort::new(keep);
        // Bound: the capture ends
        let mut full = false;
        while let Some(at) = self.next_at().filter(|_| !full) {
            full = !memory.push(at, &self.frame);
            self.received();
        }
        let mut warnings = self.take_warnings();
        if full {
            warnings.push("more frames than memory has places for: the rest is left out".into());
        }
        (memory, warnings)
    }

    /// The next frame has been received: its other forms arrive at the same time.
    fn received(&mut self) {
        match self.more.pop_front() {
            Some(frame) => self.frame = frame,
            None => self.next = None,
        }
    }

    /// Reads frames until one arrives here.
    fn look(&mut self) {
        // Bound: the capture ends
        while self.next.is_none() && !self.ended {
            self.read_one();
        }
    }

    /// Reads the next frame; it may be for others.
    fn read_one(&mut self) {
        let Some(reader) = self.reader.as_mut() else {
            self.ended = true;
            return;
        };
        match reader.next_into(&mut self.frame) {
            Some(Ok(meta)) => {
                self.read += self.frame.len() as u64 + RECORD;
                if meta.link != LinkType::ETHERNET {
                    *self.foreign.entry(meta.link.0).or_default() += 1;
                }
                if let Some(variants) = &self.variants {
                    self.more.extend(variants(meta.link, &self.frame));
                }
                if let Some(share) = &mut self.share {
                    let whole = share(&self.frame);
                    self.more.retain(|f| share(f));
                    if !whole {
                        match self.more.pop_front() {
                            Some(form) => self.frame = form,
                            None => return,
                        }
                    }
                }
                self.next = Some(Timestamp(meta.ts_ns));
            }
            // what was read before the damage has been used; the rest of the file is lost
            Some(Err(e)) => {
                self.ended = true;
                self.damage = Some(format!("port {}: {e}", self.name));
            }
            None => self.ended = true,
        }
    }
}

impl Port for CapturePort {
    fn next_at(&mut self) -> Option<Timestamp> {
        if self.next.is_none() {
            self.look();
        }
        self.next
    }
    fn receive(&mut self, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, until: Timestamp, n: usize) {
        for _ in 0..n {
            let at = match self.next_at() {
                Some(at) if at < until => at,
                _ => break,
            };
            let Some(mut p) = free.pop() else { break };
            p.refill(&self.frame);
            p.anno.timestamp = at;
            batch.push(p);
            self.received();
        }
    }
    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError> {
        let Some(w) = &mut self.writer else {
            return Ok(());
        };
        for p in packets.iter() {
            let at = match p.anno.timestamp.is_set() {
                true => p.anno.timestamp,
                false => now,
            };
            w.write(at.0, p.data(), p.len() as u32)
                .map_err(|error| PortError::Write {
                    port: self.name.clone(),
                    error,
                })?;
        }
        Ok(())
    }
    fn finish(&mut self) -> Result<(), PortError> {
        match self.writer.take().map(CaptureWriter::finish) {
            Some(Err(error)) => Err(PortError::Write {
                port: self.name.clone(),
                error,
            }),
            _ => Ok(()),
        }
    }
    fn progress(&self) -> Progress {
        Progress {
            read: self.read,
            total: Some(self.total),
        }
    }
    fn take_warnings(&mut self) -> Vec<String> {
        let mut all: Vec<String> = self.damage.take().into_iter().collect();
        for (link, count) in std::mem::take(&mut self.foreign) {
            let name = LinkType(link)
                .name()
                .map_or(format!("{link}"), |s| format!("{link} ({s})"));
            all.push(format!(
                "port {}: {count} frames of link type {name} were treated as Ethernet frames",
                self.name
            ));
        }
        all
    }
}
