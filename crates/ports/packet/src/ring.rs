//! Frames that the kernel writes into memory that we share with it (`PACKET_RX_RING`, `TPACKET_V2`: a slot for each
//! frame, which is ours as soon as it is filled; blocks of version 3 would be ours when they are full or a timer has
//! run out).
#![allow(unsafe_code)]

use crate::frame::{Tag, Whole};
use crate::offload::{HEADER, Offload};
use crate::socket::Socket;
use std::io;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots, if nobody says otherwise: bursts of so many frames find room. More of them are more memory that frames go
/// through, and does not stay in caches.
pub const SLOTS: u32 = 2048;
/// Fewest slots.
pub const MIN_SLOTS: u32 = 64;
/// Most slots: 115 MB at an MTU of 1,500.
pub const MAX_SLOTS: u32 = 65_536;
/// Bytes of the kernel's headers in front of a frame: `struct tpacket2_hdr`, an address, `struct virtio_net_hdr`, and
/// what aligns them.
const IN_FRONT: u32 = 128;
/// Bytes of Ethernet header and two VLAN tags.
const LINK: u32 = 14 + 8;
/// Slots are a multiple of this long, an odd one: frames begin in different sets of the caches.
const LINE: u32 = 64;
/// Blocks of the ring: a multiple of a page.
const BLOCK: u32 = 1 << 18;
/// Largest slot: what is longer comes through the socket's queue.
const MAX_SLOT: u32 = 16_384;

/// The ring.
#[derive(Debug)]
pub struct Ring {
    memory: NonNull<u8>,
    bytes: usize,
    slot: usize,
    per_block: u32,
    slots: u32,
    /// The slot that is filled next.
    at: u32,
}

// SAFETY: the mapping belongs to the ring alone, and is reached through it only; the kernel's side of it does not
// depend on the thread
unsafe impl Send for Ring {}

/// What has come.
#[derive(Debug)]
pub enum Came<'a> {
    /// A frame, in the slot.
    Here(Whole<'a>),
    /// A frame that did not fit: it is the next one in the socket's queue.
    Queued(Tag),
    /// A frame of which only the beginning is there.
    Cut,
}

impl Ring {
    /// Asks the kernel for a ring of at least so many slots, each for a frame of this MTU. The socket must not be bound
    /// yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(socket: &Socket, mtu: u32, slots: u32) -> io::Result<Ring> {
        let slot = (IN_FRONT + LINK).saturating_add(mtu).min(MAX_SLOT);
        let slot = (slot.div_ceil(LINE) | 1) * LINE;
        let per_block = BLOCK / slot;
        let blocks = slots.clamp(MIN_SLOTS, MAX_SLOTS).div_ceil(per_block);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK,
            tp_block_nr: blocks,
            tp_frame_size: slot,
            tp_frame_nr: blocks * per_block,
        };
        socket.set_packet(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as i32,
        )?;
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let bytes = BLOCK as usize * blocks as usize;
        // SAFETY: a new mapping of the size that the kernel has just agreed to; nothing is mapped over
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.raw(),
                0,
            )
        };
        let memory = match memory {
            libc::MAP_FAILED => None,
            m => NonNull::new(m.cast()),
        };
        Ok(Ring {
            memory: memory.ok_or_else(io::Error::last_os_error)?,
            bytes,
            slot: slot as usize,
            per_block,
            slots: blocks * per_block,
            at: 0,
        })
    }

    fn slot(&self) -> NonNull<u8> {
        let (block, in_block) = (self.at / self.per_block, self.at % self.per_block);
        let offset = block as usize * BLOCK as usize + in_block as usize * self.slot;
        // SAFETY: `at` is less than `slots`: the slot lies within the mapping
        unsafe { self.memory.add(offset) }
    }

    /// The word with which a slot changes hands.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins with this word, aligned to 64 bytes; it is accessed as an atomic only, by us and by
        // the kernel
        unsafe { self.slot().cast::<AtomicU32>().as_ref() }
    }

    /// What has come next, if anything has; [`Ring::release`] gives the slot back.
    #[inline]
    pub fn next(&self) -> Option<Came<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is ours until we give it back: nobody writes to it. It begins with this header.
        let h = unsafe { self.slot().cast::<libc::tpacket2_hdr>().as_ref() };
        let tag = Tag::new(status, h.tp_vlan_tci, h.tp_vlan_tpid);
        if status & libc::TP_STATUS_COPY != 0 {
            return Some(Came::Queued(tag));
        }
        // what the kernel writes fits; a slot that says otherwise is not followed
        let (mac, n) = (usize::from(h.tp_mac), h.tp_snaplen as usize);
        if h.tp_snaplen < h.tp_len
            || mac + n > self.slot
            || mac < size_of::<libc::tpacket2_hdr>() + HEADER
        {
            return Some(Came::Cut);
        }
        // SAFETY: as above; both slices lie within the slot
        let (header, frame) = unsafe {
            let frame = self.slot().add(mac);
            (
                frame.sub(HEADER).cast::<[u8; HEADER]>().as_ref(),
                std::slice::from_raw_parts(frame.as_ptr(), n),
            )
        };
        Some(Came::Here(Whole {
            frame,
            offload: Offload::read(header),
            tag,
        }))
    }

    /// The slot that was looked at is the kernel's again.
    #[inline]
    pub fn release(&mut self) {
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at = match self.at + 1 < self.slots {
            true => self.at + 1,
            false => 0,
        };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is the ring's own, and nothing that refers to it outlives the ring
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}
