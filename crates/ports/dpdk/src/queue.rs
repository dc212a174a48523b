//! A queue of a device, both ways: one worker's.

use crate::ffi::{Device, Leaving, Pool};
use onefold_packet::{DEFAULT_HEADROOM, Pkt};
use onefold_runtime::TRANSMIT_QUEUE_FULL;
use onefold_table::Frame;
use std::sync::Arc;

/// Most frames that wait for room.
pub(crate) const MOST: usize = 1024;
/// Least bytes of a frame: drivers of cards take shorter ones for an attack.
const LEAST: usize = 17;
/// Bytes of an Ethernet header, and of a VLAN tag, which an MTU does not count.
const LINK: usize = 14;
const TAG: usize = 4;
/// Frames that are taken at once for packets that lie elsewhere.
const FRESH: usize = 32;

/// How packets left, and which did not.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sent {
    moved: u64,
    copied: u64,
    full: u64,
    no_frame: u64,
    long: u64,
    short: u64,
    down: u64,
}

impl Sent {
    /// What could not be sent, by reason.
    pub fn losses(&self) -> [(&'static str, u64); 5] {
        [
            (TRANSMIT_QUEUE_FULL, self.full),
            ("no free frame to be copied to", self.no_frame),
            ("longer than the device's MTU", self.long),
            ("shorter than 17 bytes", self.short),
            ("link down, not sent", self.down),
        ]
    }

    /// How it left.
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        [
            ("left where they lay, not copied", self.moved),
            ("copied out (from elsewhere)", self.copied),
        ]
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Queue {
    pub number: u16,
    pool: Arc<Pool>,
    leaving: Leaving,
    /// Frames for packets that lie elsewhere.
    fresh: Vec<Frame>,
    pub sent: Sent,
}

impl Queue {
    /// With frames of this pool.
    pub fn new(number: u16, pool: &Arc<Pool>) -> Queue {
        Queue {
            number,
            pool: Arc::clone(pool),
            leaving: Leaving::new(Arc::clone(pool), MOST),
            fresh: Vec::new(),
            sent: Sent::default(),
        }
    }

    /// Frames that wait.
    pub fn backlog(&self) -> usize {
        self.leaving.len()
    }

    /// The device is gone: what waits is lost.
    pub fn clear(&mut self) {
        self.sent.down += self.leaving.clear() as u64;
        self.fresh.clear();
    }

    /// Packets are lost, as nothing can be sent.
    pub fn lose(&mut self, packets: usize) {
        self.sent.down += packets as u64;
    }

    /// May a frame leave as it is? It is counted if not.
    #[inline]
    fn fits(&mut self, frame: &[u8], mtu: usize) -> bool {
        if frame.len() < LEAST {
            self.sent.short += 1;
            return false;
        }
        if frame.len() > mtu + LINK {
            let tagged = matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
            if !tagged || frame.len() > mtu + LINK + TAG {
                self.sent.long += 1;
                return false;
            }
        }
        true
    }

    /// Sends packets, in order, behind those that wait. Packets that leave where they lie have no frame afterwards.
    pub fn send(&mut self, device: &Device, mtu: usize, packets: &mut [Pkt]) {
        // the device took nothing: it is not asked again for every packet
        let mut is_full = false;
        for p in packets.iter_mut() {
            if !self.fits(p.data(), mtu) {
                continue;
            }
            if self.leaving.len() >= MOST {
                is_full = is_full || self.leaving.send(device, self.number) == 0;
                if self.leaving.len() >= MOST {
                    self.sent.full += 1;
                    continue;
                }
            }
            let len = p.len();
            if self.pool.owns(p.frame()) {
                let at = p.data_offset();
                let frame = p.detach();
                self.sent.moved += u64::from(self.leaving.push(frame, at, len));
            } else {
                self.copy(p.data());
            }
        }
        if !is_full {
            self.leaving.send(device, self.number);
        }
    }

    /// A copy of a packet that lies elsewhere leaves.
    fn copy(&mut self, data: &[u8]) {
        if self.fresh.is_empty() {
            self.pool.take(FRESH, &mut self.fresh);
        }
        let Some(mut frame) = self.fresh.pop() else {
            self.sent.no_frame += 1;
            return;
        };
        let at = DEFAULT_HEADROOM;
        match frame.get_mut(at..at + data.len()) {
            Some(to) => to.copy_from_slice(data),
            None => {
                self.sent.long += 1;
                self.fresh.push(frame);
                return;
            }
        }
        self.sent.copied += u64::from(self.leaving.push(frame, at, data.len()));
    }

    /// Tries to send what waits.
    pub fn flush(&mut self, device: &Device) {
        if self.leaving.len() > 0 {
            self.leaving.send(device, self.number);
        }
    }
}
