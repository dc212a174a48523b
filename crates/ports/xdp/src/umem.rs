//! The frames of all AF_XDP ports of a run: one memory that the kernel is told of, so that a packet that came in at one
//! port leaves at another without being copied.

use crate::socket::Socket;
use onefold_packet::{DEFAULT_HEADROOM, Pkt};
use onefold_table::{FrameLayout, FramePool};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Bytes that the kernel keeps in front of a frame's data (`XDP_PACKET_HEADROOM`).
pub(crate) const KERNEL_HEADROOM: usize = 256;
/// Ethernet header and two VLAN tags.
pub(crate) const LINK: usize = 14 + 8;
/// Bytes from one frame to the next: the kernel wants a power of two up to a page.
const STRIDES: [usize; 2] = [2048, 4096];
/// Frames that the elements of a chain may hold while ports go on without copying.
const HOLDS: usize = 2048;
/// The memory is not smaller, so that it begins at a page.
const LEAST: usize = 1 << 20;
/// Handles of packets that are kept for the next ones.
const HANDLES: usize = 4096;

/// Largest MTU whose frames fit.
pub const MAX_MTU: u32 = (STRIDES[1] - KERNEL_HEADROOM - LINK) as u32;

/// See the module's text. A clone is the same memory.
#[derive(Debug, Clone)]
pub struct Umem(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: FramePool,
    /// Free frames below which packets are copied: what the transmit rings of all ports hold.
    reserve: usize,
    /// Sockets that have told the kernel of the memory, for others to follow.
    sockets: Mutex<Vec<Weak<OwnedFd>>>,
    /// Packets without a frame.
    handles: Mutex<Vec<Pkt>>,
}

impl Umem {
    /// For so many ports with rings of so many frames; `mtu` is the largest of the interfaces'.
    pub fn new(ports: usize, ring: u32, mtu: u32) -> Umem {
        let needed = KERNEL_HEADROOM + LINK + mtu as usize;
        let stride = if needed <= STRIDES[0] {
            STRIDES[0]
        } else {
            STRIDES[1]
        };
        let reserve = ports.max(1) * ring as usize;
        // as many in fill rings
        let frames = (2 * reserve + HOLDS).max(LEAST / stride);
        Umem(Arc::new(Shared {
            pool: FramePool::new(FrameLayout {
                frames,
                stride,
                skip: KERNEL_HEADROOM - DEFAULT_HEADROOM,
            }),
            reserve,
            sockets: Mutex::default(),
            handles: Mutex::default(),
        }))
    }

    /// The frames.
    pub fn pool(&self) -> &FramePool {
        &self.0.pool
    }

    /// Largest MTU whose frames fit.
    pub fn most_mtu(&self) -> u32 {
        (self.pool().stride() - KERNEL_HEADROOM - LINK) as u32
    }

    /// Are so few frames free that what comes in is copied?
    pub(crate) fn is_scarce(&self) -> bool {
        self.pool().free() < self.0.reserve
    }

    /// A socket that has told the kernel of the memory, if there is one.
    pub(crate) fn registered(&self) -> Option<Arc<OwnedFd>> {
        let mut all = self
            .0
            .sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.retain(|w| w.strong_count() > 0);
        all.iter().find_map(Weak::upgrade)
    }

    /// This socket has, and is bound.
    pub(crate) fn add(&self, socket: &Socket) {
        let mut all = self
            .0
            .sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::downgrade(socket.shared()));
    }

    /// Takes packets without a frame into `to`, which is empty.
    pub(crate) fn take_handles(&self, to: &mut Vec<Pkt>) {
        let mut all = self
            .0
            .handles
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *all, to);
    }

    /// Packets without a frame, for other ports.
    pub(crate) fn give_handles(&self, from: &mut Vec<Pkt>) {
        let mut all = self
            .0
            .handles
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.append(from);
        all.truncate(HANDLES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_frames_for_every_ring_and_for_holds() {
        let u = Umem::new(2, 1024, 1500);
        assert_eq!(
            (u.pool().frames(), u.pool().stride()),
            (4 * 1024 + 2048, 2048)
        );
        assert!(u.most_mtu() >= 1500 && u.pool().memory().0.addr().is_multiple_of(4096));
        let big = Umem::new(1, 64, 3000);
        assert_eq!((big.pool().stride(), big.most_mtu()), (4096, MAX_MTU));
        // all fill rings are full, and as much is held as may be: from the next one on it is copied
        let mut frames = Vec::new();
        u.pool().take(2 * 1024 + 2048, &mut frames);
        assert!(!u.is_scarce());
        u.pool().take(1, &mut frames);
        assert!(u.is_scarce());
        frames.pop();
        assert!(!u.is_scarce());
    }
}
