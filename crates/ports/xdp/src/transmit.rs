//! What leaves at an interface: frames of the shared memory as they are, others copied into it; what the transmit ring
//! has no room for waits, as far as that is bounded.

use crate::device::Device;
use crate::is_down;
use crate::umem::Umem;
use onefold_packet::{DEFAULT_HEADROOM, Pkt};
use onefold_runtime::TRANSMIT_QUEUE_FULL;
use onefold_table::Frame;
use std::collections::VecDeque;
use std::io;

/// Most frames that wait.
const MOST: usize = 1024;
/// Least bytes of a frame: what an Ethernet header is.
const LEAST: usize = 14;
/// Bytes of a VLAN tag, which an MTU does not count.
const TAG: usize = 4;

/// A frame that leaves: its bytes begin at `at`.
#[derive(Debug)]
struct Leaving {
    frame: Frame,
    at: usize,
    len: u32,
}

/// See the module's text.
#[derive(Debug)]
pub struct Transmitter {
    waiting: VecDeque<Leaving>,
    /// In the transmit ring when it was looked at last.
    pending: usize,
    mtu: usize,
    /// The interface is down: what is sent is lost.
    is_down: bool,
    /// Frames taken for packets that lie elsewhere.
    fresh: Vec<Frame>,
    moved: u64,
    copied: u64,
    full: u64,
    long: u64,
    short: u64,
    down: u64,
}

impl Transmitter {
    /// For an interface of this MTU, in bytes.
    pub fn new(mtu: u32) -> Transmitter {
        Transmitter {
            waiting: VecDeque::with_capacity(MOST),
            pending: 0,
            mtu: mtu as usize,
            is_down: false,
            fresh: Vec::new(),
            moved: 0,
            copied: 0,
            full: 0,
            long: 0,
            short: 0,
            down: 0,
        }
    }

    /// The interface's MTU, in bytes.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu as usize;
    }

    /// The interface is down, or up again.
    pub fn set_down(&mut self, is_down: bool) {
        self.is_down = is_down;
    }

    /// The interface is gone.
    pub fn clear(&mut self) {
        self.down += self.waiting.len() as u64;
        self.waiting.clear();
        self.fresh.clear();
        self.pending = 0;
    }

    /// Frames that wait, here or for the kernel.
    pub fn backlog(&self) -> usize {
        self.waiting.len() + self.pending
    }

    /// What could not be sent, by reason.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            (TRANSMIT_QUEUE_FULL, self.full),
            ("longer than the interface's MTU", self.long),
            ("shorter than an Ethernet header", self.short),
            ("link down, not sent", self.down),
        ]
        .into_iter()
    }

    /// How it left.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("left where they lay, not copied", self.moved),
            ("copied out (from elsewhere)", self.copied),
        ]
        .into_iter()
    }

    /// May a frame leave as it is? It is counted if not.
    #[inline]
    fn fits(&mut self, frame: &[u8]) -> bool {
        if frame.len() < LEAST {
            self.short += 1;
            return false;
        }
        if frame.len() > self.mtu + LEAST {
            let tagged = matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
            if !tagged || frame.len() > self.mtu + LEAST + TAG {
                self.long += 1;
                return false;
            }
        }
        true
    }

    /// Sends packets, in order, behind those that wait. Packets that leave where they lie have no frame afterwards.
    ///
    /// # Errors
    /// The device is broken.
    pub fn send(
        &mut self,
        device: Option<&mut Device>,
        umem: &Umem,
        packets: &mut [Pkt],
    ) -> io::Result<()> {
        let Some(d) = device.filter(|_| !self.is_down) else {
            self.down += packets.len() as u64;
            return Ok(());
        };
        d.reap(umem);
        self.fill_ring(d);
        for p in packets.iter_mut() {
            if !self.fits(p.data()) {
                continue;
            }
            if self.waiting.len() >= MOST {
                self.full += 1;
                continue;
            }
            let len = p.len() as u32;
            let leaving = if umem.pool().owns(p.frame()) {
                self.moved += 1;
                let at = p.data_offset();
                let frame = p.detach();
                Leaving { frame, at, len }
            } else {
                match self.copy(d, umem, p.data()) {
                    Some(l) => l,
                    None => {
                        self.full += 1;
                        continue;
                    }
                }
            };
            self.put(d, leaving);
        }
        self.kick(d, umem)
    }

    /// A copy of a packet that lies elsewhere, in a frame of the shared memory, if one is free.
    fn copy(&mut self, d: &mut Device, umem: &Umem, data: &[u8]) -> Option<Leaving> {
        const BATCH: usize = 32;
        if self.fresh.is_empty() {
            let mut frames = d.frames.enter();
            let from = frames.spare.len().saturating_sub(BATCH);
            self.fresh.extend(frames.spare.drain(from..));
            if self.fresh.is_empty() {
                umem.pool().take(BATCH, &mut self.fresh);
            }
        }
        let mut frame = self.fresh.pop()?;
        let at = DEFAULT_HEADROOM;
        // what fits the MTU fits the frame
        frame.get_mut(at..at + data.len())?.copy_from_slice(data);
        self.copied += 1;
        let len = data.len() as u32;
        Some(Leaving { frame, at, len })
    }

    /// Into the ring, or behind those that wait for it.
    #[inline]
    fn put(&mut self, d: &mut Device, l: Leaving) {
        let Leaving { frame, at, len } = l;
        let frame = match self.waiting.is_empty() {
            true => match d.put(frame, at, len) {
                Ok(()) => return,
                Err(frame) => frame,
            },
            false => frame,
        };
        self.waiting.push_back(Leaving { frame, at, len });
    }

    /// Those that wait, as far as there is room.
    fn fill_ring(&mut self, d: &mut Device) {
        while let Some(Leaving { frame, at, len }) = self.waiting.pop_front() {
            if let Err(frame) = d.put(frame, at, len) {
                self.waiting.push_front(Leaving { frame, at, len });
                break;
            }
        }
    }

    /// Tells the kernel.
    fn kick(&mut self, d: &mut Device, umem: &Umem) -> io::Result<()> {
        // Bound: each further round has sent something
        loop {
            let before = d.transmit.pending();
            let sent = d.send();
            match sent {
                // the kernel keeps what is in the ring until the link is up again
                Err(e) if is_down(&e) => self.is_down = true,
                Err(e) => return Err(e),
                Ok(()) => {}
            }
            self.pending = d.transmit.pending() as usize;
            if self.waiting.is_empty() || self.pending as u32 >= before {
                return Ok(());
            }
            d.reap(umem);
            self.fill_ring(d);
        }
    }

    /// Tries to send what waits.
    ///
    /// # Errors
    /// The device is broken.
    pub fn flush(&mut self, device: Option<&mut Device>, umem: &Umem) -> io::Result<()> {
        let Some(d) = device else { return Ok(()) };
        d.reap(umem);
        self.fill_ring(d);
        self.kick(d, umem)
    }
}
