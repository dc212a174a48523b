//! The kernel's side, by `bpf(2)`: maps, programs, links.
#![allow(unsafe_code)]

mod link;

pub use link::{AttachError, Link, make_link};

use crate::assembler::Code;
use crate::instruction::Instruction;
use onefold_privilege::{Request, ask, is_asked};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

// commands of bpf(2), and what they are asked for (linux/bpf.h)
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const PROGRAM_TEST_RUN: libc::c_int = 10;
const MAP_LOOKUP_BATCH: libc::c_int = 24;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// What the kernel's verifier says, at most.
const LOG: usize = 1 << 20;
/// Of that, the end is told.
const TOLD: usize = 2000;

/// What a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// Numbers to values, a copy for each processor.
    PerCpuArray,
    /// Numbers to AF_XDP sockets.
    Sockets,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapAccess {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct MapBatch {
    begin: u64,
    end: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct TestRun {
    program: u32,
    result: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

/// A command of bpf(2), which gives a descriptor or zero.
///
/// # Safety
/// The attributes are the command's, and what they point at lives for the time of the call.
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<RawFd> {
    let at = std::ptr::from_mut(attributes);
    // SAFETY: as promised; the kernel reads and writes as many bytes as it is told
    let r = unsafe { libc::syscall(libc::SYS_bpf, command, at, size_of::<T>()) };
    match r {
        0.. => Ok(r as RawFd),
        _ => Err(io::Error::last_os_error()),
    }
}

/// As [`bpf`], of commands that give a descriptor.
///
/// # Safety
/// As there.
unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: as promised; the descriptor was made just now and belongs to nobody else
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Processors that the system may come to have: a per-processor value has a copy for each. The kernel writes as many
/// as it says here, so a number that cannot be read is an error, not a guess.
fn possible_cpus() -> io::Result<usize> {
    let file = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(file)?;
    count_cpus(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, file))
}

/// How many a list such as `0-3,8` has.
fn count_cpus(list: &str) -> Option<usize> {
    let mut n = 0usize;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        n = n.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(n)
}

/// Makes a map: counters, of so many 64-bit numbers for each processor, or places for AF_XDP sockets.
///
/// # Errors
/// What the system says.
pub fn make_map(counters: bool, entries: u32, words: u32) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        // BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_XSKMAP
        kind: if counters { 6 } else { 17 },
        key: 4,
        value: if counters { words.saturating_mul(8) } else { 4 },
        entries,
        flags: 0,
    };
    // SAFETY: the command's attributes, without pointers
    unsafe { bpf_fd(MAP_CREATE, &mut attributes) }
}

/// A map.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    kind: MapKind,
    entries: u32,
    /// 64-bit numbers of a value.
    words: usize,
    cpus: usize,
}

impl Map {
    /// A per-processor array of so many values of so many 64-bit numbers, all zero.
    ///
    /// # Errors
    /// What the system says.
    pub fn counters(entries: u32, words: usize) -> io::Result<Map> {
        Map::create(MapKind::PerCpuArray, entries, words)
    }

    /// Places for so many AF_XDP sockets.
    ///
    /// # Errors
    /// What the system says.
    pub fn sockets(entries: u32) -> io::Result<Map> {
        Map::create(MapKind::Sockets, entries, 0)
    }

    fn create(kind: MapKind, entries: u32, words: usize) -> io::Result<Map> {
        let cpus = possible_cpus()?;
        let counters = kind == MapKind::PerCpuArray;
        let numbers = words as u32;
        let request = Request::Map {
            counters,
            entries,
            words: numbers,
        };
        let fd = match ask(&request, &[]) {
            Some(answer) => answer.map_err(|a| a.error)?,
            None => make_map(counters, entries, numbers)?,
        };
        Ok(Map {
            fd,
            kind,
            entries,
            words,
            cpus,
        })
    }

    /// From now on frames that are redirected to place `index` go to this socket.
    ///
    /// # Errors
    /// What the system says; the map has no places for sockets.
    pub fn set_socket(&self, index: u32, socket: RawFd) -> io::Result<()> {
        if self.kind != MapKind::Sockets {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let socket = socket as u32;
        let mut update = MapAccess {
            map: self.fd.as_raw_fd() as u32,
            pad: 0,
            key: std::ptr::from_ref(&index).expose_provenance() as u64,
            value: std::ptr::from_ref(&socket).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: the command's attributes; key and value are of the map's sizes and live until after the call
        unsafe { bpf(MAP_UPDATE, &mut update) }.map(|_| ())
    }

    /// A value's numbers, all processors' together, added to `sums`.
    ///
    /// # Errors
    /// What the system says; the map has no such values.
    pub fn read(&self, index: u32, sums: &mut [u64]) -> io::Result<()> {
        if self.kind != MapKind::PerCpuArray {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut all = vec![0u64; self.words * self.cpus];
        let mut lookup = MapAccess {
            map: self.fd.as_raw_fd() as u32,
            pad: 0,
            key: std::ptr::from_ref(&index).expose_provenance() as u64,
            value: all.as_mut_ptr().expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: the command's attributes; the key is of the map's size, `all` has room for a value of every possible
        // processor, and both live until after the call
        unsafe { bpf(MAP_LOOKUP, &mut lookup) }?;
        for one in all.chunks_exact(self.words.max(1)) {
            for (s, v) in sums.iter_mut().zip(one) {
                *s = s.wrapping_add(*v);
            }
        }
        Ok(())
    }

    /// All values' numbers, all processors' together, one value after the other.
    ///
    /// # Errors
    /// As [`Map::read`].
    pub fn read_all(&self) -> io::Result<Vec<u64>> {
        let words = self.words.max(1);
        let mut sums = vec![0u64; self.entries as usize * words];
        // Linux 5.13 has this
        let Ok(all) = self.read_batch() else {
            for (i, s) in sums.chunks_exact_mut(words).enumerate() {
                self.read(i as u32, s)?;
            }
            return Ok(sums);
        };
        let of_entries = all.chunks_exact(words * self.cpus);
        for (sum, all) in sums.chunks_exact_mut(words).zip(of_entries) {
            for one in all.chunks_exact(words) {
                for (s, w) in sum.iter_mut().zip(one) {
                    *s = s.wrapping_add(*w);
                }
            }
        }
        Ok(sums)
    }

    /// All values with one call, each as often as there are processors.
    fn read_batch(&self) -> io::Result<Vec<u64>> {
        if self.kind != MapKind::PerCpuArray {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let entries = self.entries as usize;
        let mut keys = vec![0u32; entries];
        let mut all = vec![0u64; entries * self.words * self.cpus];
        let mut end = 0u32;
        let mut batch = MapBatch {
            begin: 0,
            end: std::ptr::from_mut(&mut end).expose_provenance() as u64,
            keys: keys.as_mut_ptr().expose_provenance() as u64,
            values: all.as_mut_ptr().expose_provenance() as u64,
            count: self.entries,
            map: self.fd.as_raw_fd() as u32,
            element_flags: 0,
            flags: 0,
        };
        // SAFETY: the command's attributes; `keys` and `all` have room for every key and for a value of every possible
        // processor, `end` for a key, and all of them live until after the call
        let done = unsafe { bpf(MAP_LOOKUP_BATCH, &mut batch) };
        match done {
            // there is nothing behind the last one
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
            _ if batch.count == self.entries => Ok(all),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Its descriptor, for [`Program::load`].
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// The kernel does not take a program.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses the program: {error}{}{log}", if log.is_empty() { "" } else { "; its verifier says: " })]
pub struct LoadError {
    /// What the system says.
    pub error: io::Error,
    /// The end of what its verifier says.
    pub log: String,
}

/// Loads instructions, with these maps for their numbers.
///
/// # Errors
/// As [`Program::load`].
pub fn make_program(
    instructions: Vec<Instruction>,
    maps: &[BorrowedFd<'_>],
) -> Result<OwnedFd, LoadError> {
    let code = Code {
        instructions,
        ..Code::default()
    };
    match try_load(&code, maps, &mut []) {
        Ok(fd) => Ok(fd),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM)) => Err(LoadError {
            error,
            log: String::new(),
        }),
        Err(_) => {
            // once more, to hear why
            let mut log = vec![0; LOG];
            try_load(&code, maps, &mut log).map_err(|error| {
                let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
                let said = log.get(end.saturating_sub(TOLD)..end).unwrap_or_default();
                LoadError {
                    error,
                    log: String::from_utf8_lossy(said).trim().to_string(),
                }
            })
        }
    }
}

fn try_load(code: &Code, maps: &[BorrowedFd<'_>], log: &mut [u8]) -> io::Result<OwnedFd> {
    let fds: Vec<RawFd> = maps.iter().map(AsRawFd::as_raw_fd).collect();
    let instructions = code.bound(&fds);
    let license = c"Apache-2.0";
    let mut load = ProgramLoad {
        kind: PROGRAM_XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr().expose_provenance() as u64,
        license: license.as_ptr().expose_provenance() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: match log.is_empty() {
            true => 0,
            false => log.as_mut_ptr().expose_provenance() as u64,
        },
        kernel: 0,
        flags: 0,
        name: [0; 16],
        interface: 0,
        attach: ATTACH_XDP,
    };
    load.name[..7].copy_from_slice(b"onefold");
    // SAFETY: the command's attributes; instructions, license and log live until after the call
    unsafe { bpf_fd(PROGRAM_LOAD, &mut load) }
}

/// A program for XDP, loaded.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

impl Program {
    /// Loads code, with these maps for its numbers ([`crate::MapRef`]).
    ///
    /// # Errors
    /// There is no right to, or the kernel's verifier does not like it.
    pub fn load(code: &Code, maps: &[&Map]) -> Result<Program, LoadError> {
        let fds: Vec<_> = maps.iter().map(|m| m.fd.as_fd()).collect();
        let bytes = || Instruction::bytes_of(&code.instructions);
        let fd = match is_asked().then(|| ask(&Request::Program(bytes()), &fds)) {
            Some(Some(answer)) => answer.map_err(|a| LoadError {
                error: a.error,
                log: a.log,
            })?,
            _ => make_program(code.instructions.clone(), &fds)?,
        };
        Ok(Program { fd })
    }

    /// What it gives back for a frame that arrives at receive queue 0 of no interface. Nothing is sent. Maps change.
    ///
    /// # Errors
    /// What the system says: no right to, a frame of less than 14 bytes, or of more than about 3,500.
    pub fn run(&self, frame: &[u8]) -> io::Result<u32> {
        let mut run = TestRun {
            program: self.fd.as_raw_fd() as u32,
            result: 0,
            data_size_in: frame.len() as u32,
            data_size_out: 0,
            data_in: frame.as_ptr().expose_provenance() as u64,
            data_out: 0,
            repeat: 1,
            duration: 0,
            context_size_in: 0,
            context_size_out: 0,
            context_in: 0,
            context_out: 0,
            flags: 0,
            cpu: 0,
            batch_size: 0,
            pad: 0,
        };
        // SAFETY: the command's attributes; the frame is only read, and lives until after the call
        unsafe { bpf(PROGRAM_TEST_RUN, &mut run) }?;
        Ok(run.result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Assembler, Helper, MapRef, Op, Reg, Size, When};

    #[test]
    fn attributes_lie_where_the_kernel_reads_them() {
        assert_eq!(std::mem::offset_of!(ProgramLoad, attach), 68);
        assert_eq!(std::mem::offset_of!(MapAccess, key), 8);
        assert_eq!(std::mem::offset_of!(TestRun, data_in), 16);
        assert_eq!(std::mem::offset_of!(TestRun, context_in), 48);
    }

    #[test]
    fn processors_are_counted() {
        assert_eq!(count_cpus("0-1\n"), Some(2));
        assert_eq!(count_cpus("0\n"), Some(1));
        assert_eq!(count_cpus("0-3,8-11,15\n"), Some(9));
        for wrong in ["", "x", "3-1", "0-"] {
            assert_eq!(count_cpus(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_kernel_counts_frames() {
        let mut a = Assembler::default();
        let end = a.label();
        a.mov(Reg(1), 1);
        a.store(Size::Word, Reg(10), -4, Reg(1));
        a.mov(Reg(2), Reg(10));
        a.op(Op::Add, Reg(2), -4);
        a.map(Reg(1), MapRef(0));
        a.call(Helper::Lookup);
        a.jump_if(Reg(0), When::Eq, 0, end);
        a.load(Size::Double, Reg(1), Reg(0), 8);
        a.op(Op::Add, Reg(1), 5);
        a.store(Size::Double, Reg(0), 8, Reg(1));
        a.place(end);
        a.mov(Reg(0), 77);
        a.exit();
        let code = a.finish().unwrap();
        let map = match Map::counters(2, 2) {
            Ok(m) => m,
            Err(e) => return onefold_testing::skip(format_args!("no right to load programs: {e}")),
        };
        let p = Program::load(&code, &[&map]).unwrap();
        for _ in 0..3 {
            assert_eq!(p.run(&[0; 60]).unwrap(), 77);
        }
        let mut sums = [0; 2];
        map.read(1, &mut sums).unwrap();
        assert_eq!(sums, [0, 15]);
        map.read(0, &mut sums).unwrap();
        assert_eq!(sums, [0, 15]);
        assert_eq!(map.read_all().unwrap(), [0, 0, 0, 15]);
    }

    #[test]
    fn what_the_verifier_says_is_told() {
        let mut a = Assembler::default();
        a.load(Size::Word, Reg(2), Reg(1), 0);
        a.load(Size::Word, Reg(0), Reg(2), 0);
        a.exit();
        let code = a.finish().unwrap();
        match Program::load(&code, &[]) {
            Err(e) if e.error.raw_os_error() == Some(libc::EPERM) => {
                onefold_testing::skip(format_args!("no right to load programs: {e}"));
            }
            Err(e) => assert!(e.log.contains("invalid access to packet"), "{e}"),
            Ok(_) => panic!("the frame's length was not looked at"),
        }
    }
}
