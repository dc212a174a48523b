//! Several ports, one sequence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::CaptureError;
use crate::frame::{Frame, FrameMeta};
use crate::reader::CaptureReader;

/// A capture that was damaged; the other ports go on.
#[derive(Debug, thiserror::Error)]
#[error("port {port}: {error}")]
pub struct MergeError {
    /// The index of the port, as given to [`Merge::new`].
    pub port: usize,
    /// The damage.
    pub error: CaptureError,
}

/// The frames of several ports in the order of their times.
///
/// The order within a port is that of its capture, always. Of frames with equal times, those of the port that was given
/// first come first. A capture whose time runs backwards is not sorted: a frame older than its predecessor follows it
/// at once, with its own time; whoever runs a clock by these times clamps it. The damage of a port is reported when its
/// last good frame has been delivered, and the other ports go on.
#[derive(Debug)]
pub struct Merge {
    ports: Vec<Port>,
    /// The head of each port that has one: earliest time first, then the lowest port.
    heads: BinaryHeap<Reverse<(i64, usize)>>,
    /// The port whose head was handed out last and is to be read on before the next choice.
    refill: Vec<usize>,
}

#[derive(Debug)]
struct Port {
    reader: CaptureReader,
    head: Option<FrameMeta>,
    data: Vec<u8>,
}

impl Merge {
    /// Merges these captures; the position of a reader is the index of its port. Nothing is read yet.
    pub fn new(readers: Vec<CaptureReader>) -> Self {
        let ports: Vec<Port> = readers
            .into_iter()
            .map(|reader| Port {
                reader,
                head: None,
                data: Vec::new(),
            })
            .collect();
        Self {
            heads: BinaryHeap::with_capacity(ports.len()),
            // Popped from the back: port 0 is read first.
            refill: (0..ports.len()).rev().collect(),
            ports,
        }
    }

    /// The next frame: its bytes end up in `buf` (by exchanging buffers: no copy, and no allocation once the buffers
    /// have grown). `None` when all ports have ended.
    pub fn next_into(
        &mut self,
        buf: &mut Vec<u8>,
    ) -> Option<Result<(usize, FrameMeta), MergeError>> {
        while let Some(port) = self.refill.pop() {
            let Some(p) = self.ports.get_mut(port) else {
                continue;
            };
            match p.reader.next_into(&mut p.data) {
                Some(Ok(meta)) => {
                    p.head = Some(meta);
                    self.heads.push(Reverse((meta.ts_ns, port)));
                }
                Some(Err(error)) => return Some(Err(MergeError { port, error })),
                None => {}
            }
        }
        let Reverse((_, port)) = self.heads.pop()?;
        let p = self.ports.get_mut(port)?;
        let meta = p.head.take()?;
        std::mem::swap(&mut p.data, buf);
        self.refill.push(port);
        Some(Ok((port, meta)))
    }

    /// The readers, in the order of the ports: for their paths and counts.
    pub fn readers(&self) -> impl Iterator<Item = &CaptureReader> {
        self.ports.iter().map(|p| &p.reader)
    }
}

impl Iterator for Merge {
    type Item = Result<(usize, Frame), MergeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut data = Vec::new();
        Some(
            self.next_into(&mut data)?
                .map(|(port, meta)| (port, Frame::new(meta, data))),
        )
    }
}
