//! The functions of the header, by their names in C.

use super::data::{complete, finish};
use super::{BATCH, Handler, NONE, Nf, Packet, inner, text};
use onefold_nf::native::Native;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long [`onefold_nf_run`] sleeps at most, in milliseconds.
const SLEEP: c_uint = 100;

thread_local! {
    /// Why [`onefold_nf_open`] has given nothing.
    static WHY: RefCell<CString> = RefCell::default();
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn onefold_nf_open() -> *mut Nf {
    match Native::from_environment() {
        Ok(native) => Box::into_raw(Box::new(Nf::new(native))),
        Err(e) => {
            WHY.with(|why| *why.borrow_mut() = text(&e));
            null_mut()
        }
    }
}

/// See the header.
///
/// # Safety
/// `nf` is one that [`onefold_nf_open`] has given, or null, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_close(nf: *mut Nf) -> c_int {
    if nf.is_null() {
        return -1;
    }
    // what was to be written is written
    // SAFETY: the caller says so.
    unsafe { finish(nf) };
    // SAFETY: the caller says so.
    let nf = unsafe { Box::from_raw(nf) }.inner.into_inner();
    drop((nf.held, nf.storage));
    match nf.native.end() {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

/// See the header.
///
/// # Safety
/// `nf` is one that [`onefold_nf_open`] has given and that is not closed; so it is for all that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_ports(nf: *const Nf) -> u32 {
    // SAFETY: the caller says so.
    unsafe { inner(nf) }.map_or(0, |nf| nf.native.ports() as u32)
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_ports`], and `pkts` has `n` places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_read_pkt(nf: *mut Nf, pkts: *mut Packet, n: c_uint) -> c_int {
    // SAFETY: the caller says so.
    unsafe { complete(nf) };
    // SAFETY: the caller says so.
    let Some(nf) = (unsafe { inner(nf) }) else {
        return -1;
    };
    if pkts.is_null() {
        return -1;
    }
    let n = (n as usize).min(BATCH);
    nf.read(n, |i, p| {
        if i < n {
            // SAFETY: one of the caller's places, which may not be written yet.
            unsafe { pkts.add(i).write(p) };
        }
    })
}

/// `n` packets of the caller's; none where there are none.
///
/// # Safety
/// `pkts` is null, or has `n` packets.
unsafe fn packets<'a>(pkts: *const Packet, n: c_uint) -> &'a [Packet] {
    match pkts.is_null() {
        true => &[],
        // SAFETY: the caller says so.
        false => unsafe { std::slice::from_raw_parts(pkts, n as usize) },
    }
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_ports`], and `pkts` has `n` packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_write_pkt(
    nf: *mut Nf,
    pkts: *const Packet,
    n: c_uint,
    port: u32,
) -> c_int {
    // SAFETY: the caller says so.
    let (Some(nf), pkts) = (unsafe { (inner(nf), packets(pkts, n)) }) else {
        return -1;
    };
    let written = pkts.iter().filter(|p| nf.write(p, port)).count();
    written as c_int
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_write_pkt`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_drop_pkt(nf: *mut Nf, pkts: *const Packet, n: c_uint) {
    // SAFETY: the caller says so.
    let (Some(nf), pkts) = (unsafe { (inner(nf), packets(pkts, n)) }) else {
        return;
    };
    pkts.iter().for_each(|p| drop(nf.take(p)));
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_ports`], and `pkt` is a place for a packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_new_pkt(nf: *mut Nf, pkt: *mut Packet) -> c_int {
    // SAFETY: the caller says so.
    let Some(nf) = (unsafe { inner(nf) }) else {
        return -1;
    };
    match nf.native.make() {
        Some(p) if !pkt.is_null() => {
            let p = nf.hold(p);
            // SAFETY: the caller's place, which may not be written yet.
            unsafe { pkt.write(p) };
            0
        }
        _ => -1,
    }
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_ports`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_wait(nf: *mut Nf, milliseconds: c_uint) -> c_int {
    // SAFETY: the caller says so.
    let status = match unsafe { inner(nf) } {
        Some(nf) => nf.wait(Duration::from_millis(u64::from(milliseconds))),
        None => -1,
    };
    // SAFETY: as above.
    unsafe { complete(nf) };
    status
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_ports`]; the handler may be called with `nf`, and with packets that it has until it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_run(
    nf: *mut Nf,
    handler: Option<Handler>,
    context: *mut c_void,
) -> c_int {
    let Some(handler) = handler.filter(|_| !nf.is_null()) else {
        return -1;
    };
    let mut batch = [NONE; BATCH];
    loop {
        // SAFETY: the caller says so; what others use of it is shared.
        if unsafe { nf.as_ref() }.is_some_and(Nf::is_stopped) {
            return 0;
        }
        // SAFETY: the caller says so; nobody else has a reference while this one is used.
        let got = unsafe { onefold_nf_read_pkt(nf, batch.as_mut_ptr(), BATCH as c_uint) };
        let Ok(got) = usize::try_from(got) else {
            return -1;
        };
        for p in batch.iter_mut().take(got) {
            // SAFETY: as above; the handler gets a packet that lives until it returns, and may use `nf` itself.
            let port = unsafe { handler(nf, p, context) };
            // SAFETY: as above. A packet that the handler has written or dropped is not there any more.
            if let Some(nf) = unsafe { inner(nf) } {
                nf.write(p, port);
            }
        }
        if got > 0 {
            continue;
        }
        // SAFETY: as above.
        match unsafe { onefold_nf_wait(nf, SLEEP) } {
            0 => {}
            1 => return 0,
            _ => return -1,
        }
    }
}

/// See the header. It takes no lock and allocates nothing.
///
/// # Safety
/// As [`onefold_nf_ports`]; the program's thread may be anywhere in the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_stop(nf: *const Nf) {
    // SAFETY: the caller says so; what is in the cell is not touched.
    if let Some(nf) = unsafe { nf.as_ref() } {
        nf.stop.store(true, Ordering::Release);
        nf.bell.ring();
    }
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_ports`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_relinquish(nf: *const Nf) -> c_int {
    // SAFETY: the caller says so.
    unsafe { inner(nf) }.map_or(0, |nf| c_int::from(nf.native.relinquishes()))
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_ports`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_cost_hint(nf: *mut Nf, ns: u64) {
    // SAFETY: the caller says so.
    if let Some(nf) = unsafe { inner(nf) } {
        nf.native.cost_hint(ns);
    }
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_ports`], or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_error(nf: *const Nf) -> *const c_char {
    // SAFETY: the caller says so.
    match unsafe { inner(nf) } {
        Some(nf) => nf.error.as_ptr(),
        None => WHY.with(|why| why.borrow().as_ptr()),
    }
}
