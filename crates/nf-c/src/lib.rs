//! The NF library: a C ABI over [`onefold_nf::native`], for network functions that are programs of their own. The
//! header is `include/onefold_nf.h`; programs in Rust use the crate `onefold-nf` itself (`examples/mirror.rs`).
//!
//! What C hands in are pointers, and structures that C may have written anything into: pointers are as the header says
//! (the caller's part), and what is in a [`Packet`] is checked before it means anything, by the slot's number, which
//! must be one that the program has.
#![allow(unsafe_code)]

mod abi;
mod data;

pub use abi::*;
pub use data::*;

use onefold_nf::native::{Native, NativePacket, OwnBell};
use onefold_nf::storage::Storage;
use std::cell::UnsafeCell;
use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most packets of a batch, as in NFVnice.
pub const BATCH: usize = 32;
/// As a port: the packet is dropped.
pub const DROP: u32 = u32::MAX;
/// The packet goes on in the next one.
const MORE: u32 = 1;

/// `onefold_pkt`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Packet {
    data: *mut u8,
    len: u32,
    slot_len: u32,
    slot: *mut u8,
    time: u64,
    port: u32,
    flags: u32,
    number: u32,
    reserved: u32,
}

const NONE: Packet = Packet {
    data: null_mut(),
    len: 0,
    slot_len: 0,
    slot: null_mut(),
    time: 0,
    port: 0,
    flags: 0,
    number: 0,
    reserved: 0,
};

/// `onefold_nf`.
#[derive(Debug)]
pub struct Nf {
    /// Everything that the program's one thread uses.
    inner: UnsafeCell<Inner>,
    /// [`onefold_nf_stop`] was called: by a handler of signals, too, while the thread is anywhere.
    stop: AtomicBool,
    bell: OwnBell,
}

/// What is in an [`Nf`].
///
/// # Safety
/// `nf` is null, or one that [`onefold_nf_open`] has given and that is not closed, and nobody else has a reference to
/// what is in it while this one is used.
unsafe fn inner<'a>(nf: *const Nf) -> Option<&'a mut Inner> {
    // SAFETY: the caller says so.
    unsafe { nf.as_ref().map(|n| &mut *n.inner.get()) }
}

/// See [`Nf`].
#[derive(Debug)]
struct Inner {
    native: Native,
    /// By slot: packets that the program has.
    held: Vec<Option<NativePacket>>,
    holds: usize,
    arrived: Vec<NativePacket>,
    storage: Option<Storage<Bytes>>,
    error: CString,
}

fn text(e: &impl std::fmt::Display) -> CString {
    CString::new(e.to_string()).unwrap_or_default()
}

/// `onefold_nf_handler`.
pub type Handler = unsafe extern "C" fn(*mut Nf, *mut Packet, *mut c_void) -> u32;

impl Nf {
    fn new(native: Native) -> Nf {
        let bell = native.bell();
        let inner = Inner {
            native,
            held: Vec::new(),
            holds: 0,
            arrived: Vec::new(),
            storage: None,
            error: CString::default(),
        };
        Nf {
            inner: UnsafeCell::new(inner),
            stop: AtomicBool::new(false),
            bell,
        }
    }

    /// Has the program said that it ends?
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

impl Inner {
    /// The program has this packet from now on.
    fn hold(&mut self, mut p: NativePacket) -> Packet {
        let number = p.number();
        let (offset, len, port, time) = (p.offset, p.len, p.port, p.time);
        let flags = u32::from(p.continues()) * MORE;
        let slot = p.slot();
        let (base, slot_len) = (slot.as_mut_ptr(), slot.len());
        if self.held.len() <= number as usize {
            self.held.resize_with(number as usize + 1, || None);
        }
        if let Some(place) = self.held.get_mut(number as usize) {
            *place = Some(p);
            self.holds += 1;
        }
        Packet {
            data: base.wrapping_add(offset.min(slot_len)),
            len: len as u32,
            slot_len: slot_len as u32,
            slot: base,
            time: time as u64,
            port: port as u32,
            flags,
            number,
            reserved: 0,
        }
    }

    /// A packet of the program's, with its data where the program says; `None`: it has no such packet.
    fn take(&mut self, c: &Packet) -> Option<NativePacket> {
        let mut p = self.held.get_mut(c.number as usize)?.take()?;
        self.holds -= 1;
        let offset = c.data.addr().wrapping_sub(p.slot().as_ptr().addr());
        // beyond the slot: refused when it is written
        (p.offset, p.len) = (offset, c.len as usize);
        p.time = c.time as i64;
        Some(p)
    }

    fn failed(&mut self, e: &impl std::fmt::Display) -> c_int {
        self.error = text(e);
        -1
    }

    fn read(&mut self, most: usize, mut to: impl FnMut(usize, Packet)) -> c_int {
        let most = most.min(BATCH);
        let holds = self.holds;
        let mut arrived = std::mem::take(&mut self.arrived);
        let got = self.native.read_holding(&mut arrived, most, holds);
        for (i, p) in arrived.drain(..).enumerate() {
            let p = self.hold(p);
            to(i, p);
        }
        self.arrived = arrived;
        match got {
            Ok(n) => n as c_int,
            Err(e) => self.failed(&e),
        }
    }

    fn write(&mut self, p: &Packet, port: u32) -> bool {
        match self.take(p) {
            Some(p) if port == DROP => {
                drop(p);
                true
            }
            Some(p) => self.native.write(p, port as usize),
            None => false,
        }
    }

    fn wait(&mut self, most: Duration) -> c_int {
        let waited = match &self.storage {
            Some(s) => self.native.wait_with(most, self.holds, s),
            None => self.native.wait_holding(most, self.holds),
        };
        match waited {
            Ok(()) => c_int::from(self.native.is_over()),
            Err(e) => self.failed(&e),
        }
    }
}
