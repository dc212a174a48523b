//! Files that are read and written while packets go on: what C hands in, over [`onefold_nf::storage`].

use crate::{Inner, Nf, inner};
use onefold_nf::storage::{Data, Done, Settings, Storage};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::os::fd::RawFd;
use std::ptr::null;
use std::time::Duration;

/// `onefold_nf_data_callback`.
pub type Callback = unsafe extern "C" fn(*mut Nf, c_int, *mut c_void, i64, *mut c_void);

/// Bytes of the program's, and what is done when they are written or read.
#[derive(Debug)]
pub struct Bytes {
    fd: RawFd,
    buffer: *mut u8,
    len: usize,
    callback: Option<Callback>,
    context: *mut c_void,
}

// SAFETY: the buffer is the library's until the callback, and nobody else touches it meanwhile (the caller's part); the
// context is handed back only.
unsafe impl Send for Bytes {}

// SAFETY: the buffer is where the caller says, wherever this is moved to; the caller leaves it and the descriptor alone
// until the callback.
unsafe impl Data for Bytes {
    fn fd(&self) -> RawFd {
        self.fd
    }
    fn bytes(&mut self) -> (*mut u8, usize) {
        (self.buffer, self.len)
    }
}

/// Callbacks of what was read and written.
///
/// # Safety
/// `nf` is null, or one that [`crate::onefold_nf_open`] has given; nobody has a reference to what is in it.
pub unsafe fn complete(nf: *mut Nf) {
    let mut all = Vec::new();
    // SAFETY: the caller says so; the reference ends before callbacks begin.
    if let Some(storage) = unsafe { inner(nf) }.and_then(|n| n.storage.as_mut()) {
        storage.take_done(&mut all);
    }
    // SAFETY: the caller says so.
    unsafe { call(nf, all) };
}

/// What is under way is waited for, with its callbacks, and with what these make.
///
/// # Safety
/// As [`complete`].
pub unsafe fn finish(nf: *mut Nf) {
    loop {
        let mut all = Vec::new();
        // SAFETY: the caller says so; the reference ends before callbacks begin.
        let storage = unsafe { inner(nf) }.and_then(|n| n.storage.as_mut());
        let Some(storage) = storage else { return };
        storage.finish();
        storage.take_done(&mut all);
        if all.is_empty() {
            return;
        }
        // SAFETY: the caller says so.
        unsafe { call(nf, all) };
    }
}

/// Calls back, in the order of the requests.
///
/// # Safety
/// As [`complete`].
unsafe fn call(nf: *mut Nf, all: Vec<Done<Bytes>>) {
    for d in all {
        let result = match d.result {
            Ok(n) => n as i64,
            Err(e) => -i64::from(e.raw_os_error().unwrap_or(libc::EIO)),
        };
        let b = d.data;
        if let Some(callback) = b.callback {
            // SAFETY: the caller's function, with what it has given; nobody has a reference to what is in `nf`.
            unsafe { callback(nf, b.fd, b.buffer.cast(), result, b.context) };
        }
    }
}

impl Inner {
    /// Its storage, as it is if nothing was said.
    fn storage(&mut self) -> &mut Storage<Bytes> {
        let bell = self.native.bell();
        self.storage
            .get_or_insert_with(|| Storage::new(Settings::default(), Some(bell)))
    }

    /// Something to be read or written; gives the core up first if both buffers are full.
    fn queue(&mut self, write: bool, bytes: Bytes, offset: u64) -> c_int {
        if bytes.buffer.is_null() && bytes.len > 0 {
            self.error = CString::from(c"no buffer was given");
            return -1;
        }
        let holds = self.holds;
        self.storage();
        let Inner {
            native, storage, ..
        } = self;
        let Some(storage) = storage else { return -1 };
        if let Err(e) = native.yield_to_storage(storage, holds) {
            return self.failed(&e);
        }
        let queued = match write {
            true => storage.write(bytes, offset),
            false => storage.read(bytes, offset),
        };
        match queued {
            Ok(()) => 0,
            Err(e) => self.failed(&e),
        }
    }
}

/// See the header.
///
/// # Safety
/// `nf` is one that [`crate::onefold_nf_open`] has given and that is not closed; so it is for all that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_data_setup(
    nf: *mut Nf,
    batch: c_uint,
    flush_microseconds: c_uint,
) -> c_int {
    // SAFETY: the caller says so.
    let Some(nf) = (unsafe { inner(nf) }) else {
        return -1;
    };
    if nf
        .storage
        .as_ref()
        .is_some_and(|s| !s.is_idle() || s.is_ready())
    {
        nf.error = CString::from(c"requests are under way");
        return -1;
    }
    let settings = Settings {
        batch: batch as usize,
        flush: Duration::from_micros(u64::from(flush_microseconds)),
        ..Settings::default()
    };
    nf.storage = Some(Storage::new(settings, Some(nf.native.bell())));
    0
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_data_setup`]; `size` bytes from `buffer` on are the library's until the callback has been called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_write_data(
    nf: *mut Nf,
    fd: c_int,
    buffer: *const c_void,
    size: usize,
    offset: u64,
    callback: Option<Callback>,
    context: *mut c_void,
) -> c_int {
    let bytes = Bytes {
        fd,
        // it is read from only
        buffer: buffer.cast_mut().cast(),
        len: size,
        callback,
        context,
    };
    // SAFETY: the caller says so.
    let nf = unsafe { inner(nf) };
    nf.map_or(-1, |nf| nf.queue(true, bytes, offset))
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_write_data`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_read_data(
    nf: *mut Nf,
    fd: c_int,
    buffer: *mut c_void,
    size: usize,
    offset: u64,
    callback: Option<Callback>,
    context: *mut c_void,
) -> c_int {
    let bytes = Bytes {
        fd,
        buffer: buffer.cast(),
        len: size,
        callback,
        context,
    };
    // SAFETY: the caller says so.
    let nf = unsafe { inner(nf) };
    nf.map_or(-1, |nf| nf.queue(false, bytes, offset))
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_data_setup`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_data_room(nf: *mut Nf) -> c_uint {
    // SAFETY: the caller says so.
    let nf = unsafe { inner(nf) };
    nf.map_or(0, |nf| nf.storage().room() as c_uint)
}

/// See the header.
///
/// # Safety
/// As [`onefold_nf_data_setup`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onefold_nf_data_engine(nf: *mut Nf) -> *const c_char {
    // SAFETY: the caller says so.
    let nf = unsafe { inner(nf) };
    nf.map_or(null(), |nf| match nf.storage().engine() {
        "io_uring" => c"io_uring".as_ptr(),
        _ => c"thread".as_ptr(),
    })
}
