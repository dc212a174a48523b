//! What lies where in the memory that the processes of a chain share.
//!
//! | what | how many | who writes |
//! |---|---|---|
//! | blocks ([`NfBlock`]) | one for each process, number 0 for who launched the others | line by line, see there |
//! | owners | a word for each slot | who takes the slot out of a ring |
//! | classes | a word for each slot | who puts a packet into it; it stays with the packet on its way through |
//! | rings ([`Ring`]) | as many as the plan has | `tail` and places: the producer; `taken`, `head`: the consumer |
//! | slots | a fixed number, of one length | whose the slot is |
//!
//! Numbers, lengths and places follow from the [`Shape`], which a process is told when it is launched; nothing of it is
//! read from the memory.

use crate::atomics::Native;
use crate::memory::{Memory, PAGE, Shared};
use crate::ring::{MOST_PLACES, RingMemory, WORDS};
use crate::service::BUCKETS;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Most processes of a region, the launcher among them.
pub const MOST_NFS: u32 = 256;
/// Most rings of a region.
pub const MOST_RINGS: u32 = 4096;
/// Most slots of a region.
pub const MOST_SLOTS: u32 = 1 << 20;
/// Longest slot, in bytes.
pub const MOST_SLOT_BYTES: u32 = 1 << 16;
/// Longest region, in bytes.
pub const MOST_BYTES: usize = 1 << 36;
/// Free bytes in front of a packet that is put into a slot.
pub const HEADROOM: usize = 64;

/// Of a packet of which nobody has said what it is.
pub const NO_CLASS: u32 = 0;

/// Classes of packets ([`Ring::classes`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Classes {
    /// Bit `c - 1` for class `c`, up to 64.
    pub known: u64,
    /// There are packets of no such class.
    pub others: bool,
}

/// How a region is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Processes, the launcher (number 0) among them.
    pub nfs: u32,
    /// Rings.
    pub rings: u32,
    /// Places of each ring: a power of two.
    pub places: u32,
    /// Slots for packets.
    pub slots: u32,
    /// Bytes of a slot: whole cache lines; as memory of packets it should be an odd number of lines (headers then do
    /// not share a few sets of the cache).
    pub slot_bytes: u32,
}

/// A shape that no region has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a region cannot have {what}: {found}, expected {expected}")]
pub struct ShapeError {
    /// Of what there would be.
    what: &'static str,
    found: u64,
    expected: &'static str,
}

/// Where parts begin, in bytes.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    owners: usize,
    classes: usize,
    rings: usize,
    ring_bytes: usize,
    slots: usize,
    len: usize,
}

impl Shape {
    /// Where everything begins.
    ///
    /// # Errors
    /// One of the numbers is beyond its bound.
    fn offsets(&self) -> Result<Offsets, ShapeError> {
        let check = |what, found: u32, ok: bool, expected| match ok {
            true => Ok(()),
            false => Err(ShapeError {
                what,
                found: u64::from(found),
                expected,
            }),
        };
        check(
            "so many processes",
            self.nfs,
            (1..=MOST_NFS).contains(&self.nfs),
            "1 to 256",
        )?;
        check(
            "so many rings",
            self.rings,
            self.rings <= MOST_RINGS,
            "4096 at most",
        )?;
        let fits = self.places.is_power_of_two() && self.places <= MOST_PLACES;
        check(
            "rings of so many places",
            self.places,
            fits,
            "a power of two, 65536 at most",
        )?;
        let fits = (1..=MOST_SLOTS).contains(&self.slots);
        check("so many slots", self.slots, fits, "1 to 1048576")?;
        let fits = self.slot_bytes.is_multiple_of(64)
            && (2 * HEADROOM as u32..=MOST_SLOT_BYTES).contains(&self.slot_bytes);
        check(
            "slots of so many bytes",
            self.slot_bytes,
            fits,
            "a multiple of 64, 128 to 65536",
        )?;
        let owners = self.nfs as usize * PAGE;
        let classes = (owners + self.slots as usize * 4).next_multiple_of(PAGE);
        let rings = (classes + self.slots as usize * 4).next_multiple_of(PAGE);
        let places = self.places as usize * WORDS * 8;
        let ring_bytes = (size_of::<RingCounters>() + places).next_multiple_of(128);
        let slots = (rings + self.rings as usize * ring_bytes).next_multiple_of(PAGE);
        let len = (slots + self.slots as usize * self.slot_bytes as usize).next_multiple_of(PAGE);
        if len > MOST_BYTES {
            return Err(ShapeError {
                what: "so many bytes",
                found: len as u64,
                expected: "64 GiB at most",
            });
        }
        Ok(Offsets {
            owners,
            classes,
            rings,
            ring_bytes,
            slots,
            len,
        })
    }

    /// Bytes of a region of this shape.
    ///
    /// # Errors
    /// One of the numbers is beyond its bound.
    pub fn bytes(&self) -> Result<usize, ShapeError> {
        Ok(self.offsets()?.len)
    }

    /// Bytes of a packet that a slot has room for.
    pub fn room(&self) -> usize {
        self.slot_bytes as usize - HEADROOM
    }
}

/// A counter on lines of its own: processors fetch two at a time.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Apart<T>(T);

#[derive(Debug, Default)]
#[repr(C)]
struct Consumed {
    taken: AtomicU32,
    head: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(C)]
struct Produced {
    tail: AtomicU32,
    /// Packets that found it full and were dropped.
    full: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(C)]
struct RingCounters {
    tail: Apart<Produced>,
    consumed: Apart<Consumed>,
}

// SAFETY (of the trait's implementation): atomic words and padding.
#[allow(unsafe_code)]
unsafe impl Shared for RingCounters {}

/// What the launcher tells a process. The launcher writes it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Orders {
    /// The number of the last command, and what it is ([`crate::Command`]).
    pub command: AtomicU32,
    /// Not zero: the process is to sleep after its batch, whatever waits, until it is zero again.
    pub relinquish: AtomicU32,
    /// The command's time, nanoseconds since 1970.
    pub time: AtomicU64,
    /// It yields its core after so many batches; 0: it does not.
    pub yield_after: AtomicU32,
    /// What it does with packets that find a ring full: see [`WhenFull`].
    pub when_full: AtomicU32,
    /// Not zero: packets that are ECN-capable are marked (CE, RFC 3168) as it takes them out of a ring.
    pub mark_ecn: AtomicU32,
}

/// What a process does with packets that find a ring full ([`Orders::when_full`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum WhenFull {
    /// It takes nothing in until there is room; with packets in real time, what has waited for 20 ms, with none of it
    /// sent, is dropped, or two processes could wait for each other for ever.
    #[default]
    Block = 0,
    /// They are dropped, and counted with the ring. With packets in real time only: recorded ones wait.
    Drop = 1,
    /// As [`WhenFull::Block`], for half a second: whoever says so knows that nobody waits for this one in turn.
    Wait = 2,
    /// What leads to the full ring, and only there, is not taken in until there is room; the process goes on with what
    /// leads elsewhere. What has waited for 20 ms, with none of it sent, is dropped.
    ByWay = 3,
}

impl WhenFull {
    /// How long packets in real time wait for room, with none of them sent.
    #[inline]
    pub fn patience(self) -> Duration {
        match self {
            WhenFull::Block | WhenFull::ByWay => Duration::from_millis(20),
            WhenFull::Drop => Duration::ZERO,
            WhenFull::Wait => Duration::from_millis(500),
        }
    }
}

impl Orders {
    /// What is to be done with packets that find a ring full; what cannot be means [`WhenFull::Block`].
    #[inline]
    pub fn full(&self) -> WhenFull {
        match self.when_full.load(Ordering::Relaxed) {
            1 => WhenFull::Drop,
            2 => WhenFull::Wait,
            3 => WhenFull::ByWay,
            _ => WhenFull::Block,
        }
    }
}

/// What a process says of itself. It alone writes it, and others read it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Said {
    /// The last command that was carried out.
    pub done: AtomicU32,
    /// Its place in its life: see [`crate::State`].
    pub state: AtomicU32,
    /// Batches so far.
    pub batches: AtomicU64,
    /// Packets taken out of rings.
    pub received: AtomicU64,
    /// Packets put into rings.
    pub sent: AtomicU64,
    /// Packets that did not fit anywhere.
    pub lost: AtomicU64,
    /// What it says that a packet costs, in ns; 0: nothing.
    pub cost_hint: AtomicU64,
    /// Times that it slept.
    pub sleeps: AtomicU64,
    /// Packets that it has and that wait for room in a ring: written before it says that it is done with what it took
    /// out of one, and after it has put them into one.
    pub waiting: AtomicU64,
    /// Times that it yielded because it was told to.
    pub yields: AtomicU64,
    /// Packets that it marked (CE).
    pub marked: AtomicU64,
    /// Processor time of a packet, in ns, in the batch that was timed last.
    pub sample: AtomicU64,
    /// How many batches were timed.
    pub samples: AtomicU32,
    /// Not zero: it has given its core up until files have been written or read ([`crate::storage`]), whatever waits.
    pub in_storage: AtomicU32,
    /// Times that it did.
    pub storage_waits: AtomicU64,
}

/// What the launcher and a process know of each other.
#[derive(Debug)]
#[repr(C)]
pub struct NfBlock {
    orders: Apart<Orders>,
    /// See [`crate::bell`]: whoever has put something into one of its rings looks here.
    sleeping: Apart<AtomicU32>,
    said: Apart<Said>,
    service: Apart<[AtomicU64; BUCKETS]>,
}

// SAFETY (of the trait's implementation): atomic words and padding.
#[allow(unsafe_code)]
unsafe impl Shared for NfBlock {}

const _: () = assert!(size_of::<NfBlock>() <= PAGE);

impl NfBlock {
    /// What the launcher tells it.
    pub fn orders(&self) -> &Orders {
        &self.orders.0
    }
    /// Does it sleep?
    pub fn sleeping(&self) -> &AtomicU32 {
        &self.sleeping.0
    }
    /// What it says of itself.
    pub fn said(&self) -> &Said {
        &self.said.0
    }
    /// How long it takes for a packet: samples by bucket ([`crate::service`]).
    pub fn service(&self) -> &[AtomicU64; BUCKETS] {
        &self.service.0
    }
}

/// A memory with a shape.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    shape: Shape,
    at: Offsets,
}

impl Region {
    /// Of a memory that is long enough.
    ///
    /// # Errors
    /// The shape's numbers are beyond their bounds, or the memory is too short.
    pub fn new(memory: Memory, shape: Shape) -> Result<Region, ShapeError> {
        let at = shape.offsets()?;
        if memory.len() < at.len {
            return Err(ShapeError {
                what: "a memory of so many bytes",
                found: memory.len() as u64,
                expected: "as many as its shape has",
            });
        }
        Ok(Region { memory, shape, at })
    }

    /// Of the heap, for threads of one process.
    ///
    /// # Errors
    /// The shape's numbers are beyond their bounds.
    pub fn heap(shape: Shape) -> Result<Region, ShapeError> {
        let len = shape.bytes()?;
        let memory = Memory::heap(len).ok_or(ShapeError {
            what: "so many bytes",
            found: len as u64,
            expected: "as many as there are",
        })?;
        Region::new(memory, shape)
    }

    /// How it is made up.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// There are always some.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// The block of a process; `None`: there is no such process.
    pub fn nf(&self, number: u32) -> Option<&NfBlock> {
        if number >= self.shape.nfs {
            return None;
        }
        self.memory.at(number as usize * PAGE)
    }

    /// Whose each slot is: the number of who took it out of a ring last.
    pub fn owners(&self) -> &[AtomicU32] {
        let n = self.shape.slots as usize;
        self.memory.slice(self.at.owners, n).unwrap_or_default()
    }

    /// What kind of packet is in each slot, as who put it there says ([`NO_CLASS`]: nobody has): it goes the whole way
    /// with a packet that is not copied, and costs nobody on the way anything.
    pub fn classes(&self) -> &[AtomicU32] {
        let n = self.shape.slots as usize;
        self.memory.slice(self.at.classes, n).unwrap_or_default()
    }

    /// Where a slot lies; `None`: there is no such slot.
    pub fn slot(&self, number: u32) -> Option<NonNull<u8>> {
        if number >= self.shape.slots {
            return None;
        }
        let bytes = self.shape.slot_bytes as usize;
        self.memory
            .bytes(self.at.slots + number as usize * bytes, bytes)
    }

    /// A ring; `None`: there is none of this number.
    pub fn ring(self: &Arc<Self>, number: u32) -> Option<Ring> {
        if number >= self.shape.rings {
            return None;
        }
        let at = self.at.rings + number as usize * self.at.ring_bytes;
        let counters: &RingCounters = self.memory.at(at)?;
        let places: &[[AtomicU64; WORDS]] = self
            .memory
            .slice(at + size_of::<RingCounters>(), self.shape.places as usize)?;
        Some(Ring {
            counters: NonNull::from(counters),
            places: NonNull::from(places),
            region: self.clone(),
        })
    }

    /// What others write, for tests of what they can do: all words in front of the slots.
    pub fn words(&self) -> &[AtomicU32] {
        self.memory.slice(0, self.at.slots / 4).unwrap_or_default()
    }
}

/// A ring of a region.
#[derive(Debug, Clone)]
pub struct Ring {
    counters: NonNull<RingCounters>,
    places: NonNull<[[AtomicU64; WORDS]]>,
    region: Arc<Region>,
}

// SAFETY: it leads to atomic words, which are there as long as the region is, which it has a part in.
#[allow(unsafe_code)]
unsafe impl Send for Ring {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Ring {}

impl Ring {
    /// The region that it lies in.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Packets that found it full and were dropped; the producer counts them, and the count runs round.
    #[inline]
    pub fn full(&self) -> &AtomicU32 {
        &self.counters().tail.0.full
    }

    /// Classes of packets that wait in it ([`Region::classes`]), as far as `most` of them tell, one in so many of all.
    ///
    /// What the consumer has taken is not looked at: it may have sent that on already, so that its slots have other
    /// packets by now, of other classes.
    pub fn classes(&self, most: u32) -> Classes {
        let taken = self.taken().load(Ordering::Acquire);
        let tail = self.tail().load(Ordering::Acquire);
        let n = tail.wrapping_sub(taken);
        let mut found = Classes::default();
        if n > self.places() {
            return found;
        }
        let every = n.div_ceil(most.max(1)).max(1);
        let classes = self.region.classes();
        // Bound: `most`
        for i in (0..n).step_by(every as usize) {
            let slot = crate::ring::read(self, taken.wrapping_add(i)).slot;
            let class = classes.get(slot as usize);
            let class = class.map_or(NO_CLASS, |c| c.load(Ordering::Relaxed));
            // if it was taken meanwhile, what was read may be another packet's
            std::sync::atomic::fence(Ordering::Acquire);
            let now = self.taken().load(Ordering::Acquire);
            if now.wrapping_sub(taken) > i {
                continue;
            }
            match class {
                1..=64 => found.known |= 1 << (class - 1),
                _ => found.others = true,
            }
        }
        found
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    fn counters(&self) -> &RingCounters {
        // SAFETY: made of a reference into the region's memory, which is there as long as the region is.
        unsafe { self.counters.as_ref() }
    }
}

impl RingMemory for Ring {
    type A = Native;
    #[inline(always)]
    fn places(&self) -> u32 {
        self.places.len() as u32
    }
    #[inline(always)]
    fn tail(&self) -> &AtomicU32 {
        &self.counters().tail.0.tail
    }
    #[inline(always)]
    fn taken(&self) -> &AtomicU32 {
        &self.counters().consumed.0.taken
    }
    #[inline(always)]
    fn head(&self) -> &AtomicU32 {
        &self.counters().consumed.0.head
    }
    #[inline(always)]
    #[allow(unsafe_code)]
    fn place(&self, number: u32) -> &[AtomicU64; WORDS] {
        // SAFETY: as `counters`.
        let places = unsafe { self.places.as_ref() };
        // a power of two, not zero: the shape was checked
        &places[number as usize & (places.len() - 1)]
    }
}
