//! DPDK, as far as it is called: the shim's functions (`shim.c`), and around them types that own what they lead to.
//!
//! Frames belong to whoever has the [`Frame`]; what has none belongs to DPDK: it is in its pool, or a driver has it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

mod frames;

pub use frames::{Burst, Leaving, Pool, Received};

/// Longest burst (`BURST`).
pub const BURST: usize = 256;

/// `struct of_info`.
#[repr(C)]
struct RawInfo {
    driver: [c_char; 64],
    mac: [u8; 6],
    mtu: u16,
    max_queues: [u16; 2],
    rx_descriptors: [u16; 3],
    tx_descriptors: [u16; 3],
    min_mtu: u32,
    max_mtu: u32,
    min_rx_buffer: u32,
    rss: u64,
    hash_key: u8,
    socket: i32,
}

/// `struct of_pool`.
#[repr(C)]
struct RawPool {
    mempool: *mut c_void,
    mbufs: *mut *mut c_void,
    base: usize,
    numbers: u32,
    stride: u32,
    inverse: u64,
    lines: u32,
}

/// `struct of_setup`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The device.
    pub port: u16,
    /// Queues each way.
    pub queues: u16,
    /// Descriptors of each receive queue.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue.
    pub tx_descriptors: u16,
    /// In bytes.
    pub mtu: u16,
    /// Receive interrupts are wanted.
    pub interrupts: u8,
    /// All frames are wanted.
    pub promiscuous: u8,
    /// What the device spreads packets by.
    pub rss: u64,
    /// Bytes of its key.
    pub hash_key: u8,
}

/// `struct of_state`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct State {
    /// Arrived while no descriptor was free.
    pub missed: u64,
    /// Damaged.
    pub rx_errors: u64,
    /// Arrived while no frame was free.
    pub no_mbuf: u64,
    /// Not sent.
    pub tx_errors: u64,
    /// Zero: not known.
    pub mtu: u16,
    /// The link's state.
    pub up: u8,
}

/// `struct of_frame`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RawFrame {
    at: *mut u8,
    number: u32,
    length: u32,
    offset: u16,
    plain: u16,
}

const NO_FRAME: RawFrame = RawFrame {
    at: std::ptr::null_mut(),
    number: 0,
    length: 0,
    offset: 0,
    plain: 0,
};

/// `struct of_leaving`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct RawLeaving {
    at: NonNull<u8>,
    length: u32,
    offset: u32,
}

unsafe extern "C" {
    fn of_log_take(to: *mut u8, room: usize) -> usize;
    fn of_start(argc: c_int, argv: *mut *mut c_char, loud: c_int) -> c_int;
    fn of_abi() -> c_int;
    fn of_version() -> *const c_char;
    fn of_runtime_dir() -> *const c_char;
    fn of_probe(devargs: *const c_char, name: *const c_char) -> c_int;
    fn of_info(port: u16, to: *mut RawInfo) -> c_int;
    fn of_pool_make(mbufs: u32, room: u16, cache: u32, socket: c_int, to: *mut RawPool) -> c_int;
    fn of_configure(s: *const Setup, p: *const RawPool) -> c_int;
    fn of_begin(port: u16, promiscuous: c_int) -> c_int;
    fn of_running();
    fn of_stop(port: u16);
    fn of_close(port: u16, promiscuous: c_int);
    fn of_state(port: u16, to: *mut State) -> c_int;
    fn of_wake(port: u16, queue: u16, epoll: c_int) -> c_int;
    fn of_arm(port: u16, queue: u16);
    fn of_disarm(port: u16, first: u16, queues: u16, epoll: c_int);
    fn of_receive(p: *const RawPool, port: u16, queue: u16, to: *mut RawFrame, n: u16) -> u16;
    fn of_copy_out(mbuf: *mut u8, to: *mut u8, room: u32) -> u32;
    fn of_take(p: *const RawPool, to: *mut RawFrame, n: u16) -> u16;
    fn of_give(p: *const RawPool, frames: *const *mut u8, n: u32);
    fn of_give_numbers(p: *const RawPool, numbers: *const u32, n: u32);
    fn of_send(port: u16, queue: u16, frames: *const RawLeaving, n: u16) -> u16;
    fn of_thread() -> c_int;
}

fn system(error: c_int) -> io::Error {
    io::Error::from_raw_os_error(error)
}

fn check(error: c_int) -> io::Result<()> {
    match error {
        0 => Ok(()),
        e => Err(system(e)),
    }
}

fn text(s: &str) -> io::Result<CString> {
    CString::new(s).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Starts the EAL with this command line; `loud`: what DPDK says goes to standard error as it says it.
///
/// # Errors
/// As the EAL fails; [`said`] has the reason.
pub fn start(arguments: &[String], loud: bool) -> io::Result<()> {
    let texts: Vec<CString> = arguments
        .iter()
        .map(|a| text(a))
        .collect::<Result<_, _>>()?;
    // the EAL keeps what it is given, and may write there
    let mut argv: Vec<*mut c_char> = texts.into_iter().map(CString::into_raw).collect();
    let argc = argv.len() as c_int;
    argv.push(std::ptr::null_mut());
    let argv = argv.leak();
    // SAFETY: a command line as `main` gets it, for good
    check(unsafe { of_start(argc, argv.as_mut_ptr(), c_int::from(loud)) })
}

/// From now on others have something to say on standard output and error, too: what drivers print there is not kept any
/// more.
pub fn running() {
    // SAFETY: no pointers; an atomic flag
    unsafe { of_running() };
}

/// What DPDK has said since the last time, its last 64 KiB.
pub fn said() -> Vec<String> {
    let mut all = vec![0; 65_536];
    // SAFETY: so many bytes are there to be written
    let n = unsafe { of_log_take(all.as_mut_ptr(), all.len()) };
    all.truncate(n);
    let lines = String::from_utf8_lossy(&all);
    let lines = lines.lines().map(|l| l.trim().to_string());
    lines.filter(|l| !l.is_empty()).collect()
}

/// What the names of packages end in.
pub fn abi() -> i32 {
    // SAFETY: a number
    unsafe { of_abi() }
}

/// `DPDK 22.11.11`, without the name.
pub fn version() -> String {
    // SAFETY: a text that DPDK has for good
    let v = unsafe { CStr::from_ptr(of_version()) };
    let v = v.to_string_lossy();
    v.strip_prefix("DPDK ").unwrap_or(&v).to_string()
}

/// The EAL's folder, when it has been started.
pub fn runtime_dir() -> Option<String> {
    // SAFETY: a text that DPDK has for good, or null
    let d = unsafe {
        let d = of_runtime_dir();
        if d.is_null() {
            return None;
        }
        CStr::from_ptr(d)
    };
    Some(d.to_string_lossy().into_owned())
}

/// The calling thread gets a cache of the pool's; without one every frame is taken from the ring that all share.
///
/// # Errors
/// When there are too many threads.
pub fn register_thread() -> io::Result<()> {
    // SAFETY: no pointers
    check(unsafe { of_thread() })
}

/// What a device says of itself.
#[derive(Debug, Clone)]
pub struct Info {
    /// Its driver's name.
    pub driver: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its MTU, in bytes.
    pub mtu: u16,
    /// Queues that it has, receive and transmit.
    pub queues: [u16; 2],
    /// Most, least, and a divisor of the descriptors of a receive queue; zero: any.
    pub rx_descriptors: [u16; 3],
    /// The same of a transmit queue.
    pub tx_descriptors: [u16; 3],
    /// Least and most MTU.
    pub mtus: [u32; 2],
    /// Least room of a frame.
    pub room: u32,
    /// What it spreads packets by.
    pub rss: u64,
    /// Bytes of its key.
    pub hash_key: u8,
    /// The memory that it is near to; negative: any.
    pub socket: i32,
}

/// A device of DPDK's, which is closed and forgotten when this goes.
#[derive(Debug)]
pub struct Device {
    port: u16,
    promiscuous: bool,
}

impl Device {
    /// Makes a device known, or finds it.
    ///
    /// # Errors
    /// As the driver fails; [`said`] has the reason.
    pub fn probe(devargs: &str, name: &str) -> io::Result<Device> {
        let (d, n) = (text(devargs)?, text(name)?);
        // SAFETY: texts that live for the time of the call
        let port = unsafe { of_probe(d.as_ptr(), n.as_ptr()) };
        match u16::try_from(port) {
            Ok(port) => Ok(Device {
                port,
                promiscuous: false,
            }),
            Err(_) => Err(system(-port)),
        }
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn info(&self) -> io::Result<Info> {
        // SAFETY: all zero is a valid value: numbers
        let mut raw: RawInfo = unsafe { std::mem::zeroed() };
        // SAFETY: a structure as the shim has it
        check(unsafe { of_info(self.port, &mut raw) })?;
        let driver = raw.driver.map(|c| c as u8);
        let driver = CStr::from_bytes_until_nul(&driver).unwrap_or_default();
        Ok(Info {
            driver: driver.to_string_lossy().into_owned(),
            mac: raw.mac,
            mtu: raw.mtu,
            queues: raw.max_queues,
            rx_descriptors: raw.rx_descriptors,
            tx_descriptors: raw.tx_descriptors,
            mtus: [raw.min_mtu, raw.max_mtu],
            room: raw.min_rx_buffer,
            rss: raw.rss,
            hash_key: raw.hash_key,
            socket: raw.socket,
        })
    }

    /// Sets it up, with frames of this pool. `setup.port` does not matter.
    ///
    /// # Errors
    /// What was done, and how it failed.
    pub fn configure(
        &mut self,
        setup: Setup,
        pool: &Pool,
    ) -> Result<(), (&'static str, io::Error)> {
        let setup = Setup {
            port: self.port,
            ..setup
        };
        self.promiscuous = setup.promiscuous != 0;
        // SAFETY: structures as the shim has them; the pool stays for good
        let r = unsafe { of_configure(&setup, &pool.raw) };
        let doing = match r >> 16 {
            0 => return Ok(()),
            1 => "configuring it",
            2 => "setting its MTU",
            3 => "setting up a receive queue",
            _ => "setting up a transmit queue",
        };
        Err((doing, system(r & 0xffff)))
    }

    /// It may be configured again.
    pub fn stop(&self) {
        // SAFETY: no pointers
        unsafe { of_stop(self.port) };
    }

    /// Packets may come and go.
    ///
    /// # Errors
    /// As the driver fails.
    pub fn start(&self) -> io::Result<()> {
        // SAFETY: no pointers
        check(unsafe { of_begin(self.port, c_int::from(self.promiscuous)) })
    }

    /// How it is.
    ///
    /// # Errors
    /// When it is gone.
    pub fn state(&self) -> io::Result<State> {
        let mut s = State::default();
        // SAFETY: a structure as the shim has it
        check(unsafe { of_state(self.port, &mut s) })?;
        Ok(s)
    }

    /// From now on a packet in this queue makes the epoll descriptor readable, when it was armed before.
    ///
    /// # Errors
    /// When the driver has no receive interrupts.
    pub fn wake(&self, queue: u16, epoll: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: no pointers
        check(unsafe { of_wake(self.port, queue, epoll.as_raw_fd()) })
    }

    /// The next packet in this queue wakes. Packets that have come before may not.
    pub fn arm(&self, queue: u16) {
        // SAFETY: no pointers
        unsafe { of_arm(self.port, queue) };
    }

    /// None of the `queues` queues from `first` on wakes any more, and what has woken is forgotten.
    pub fn disarm(&self, first: u16, queues: u16, epoll: BorrowedFd<'_>) {
        // SAFETY: no pointers
        unsafe { of_disarm(self.port, first, queues, epoll.as_raw_fd()) };
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: no pointers; nobody uses the device any more
        unsafe { of_close(self.port, c_int::from(self.promiscuous)) };
    }
}
