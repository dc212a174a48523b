//! The XDP program that hands a queue's frames to its socket: five instructions, assembled here and loaded by `bpf(2)`.
//!
//! It is attached by a link, which is a descriptor: when that is closed, by whatever end of the process, the program is
//! gone from the interface. What queues get that have no socket goes to the host as if nothing was there.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

// commands of bpf(2), and what they are asked for (linux/bpf.h)
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// `XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`.
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;
/// `BPF_FUNC_redirect_map`.
const REDIRECT_MAP: i32 = 51;
/// `XDP_PASS`.
const PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE: i16 = 16;

/// An instruction (`struct bpf_insn`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper one.
    registers: u8,
    offset: i16,
    value: i32,
}

const fn instruction(code: u8, (to, from): (u8, u8), offset: i16, value: i32) -> Instruction {
    Instruction {
        code,
        registers: to | from << 4,
        offset,
        value,
    }
}

/// `return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);`
const fn assembled(sockets: RawFd) -> [Instruction; 6] {
    [
        // r2 = *(u32 *)(r1 + QUEUE)
        instruction(0x61, (2, 1), QUEUE, 0),
        // r1 = the map of this descriptor, in two
        instruction(0x18, (1, 1), 0, sockets),
        instruction(0, (0, 0), 0, 0),
        // r3 = PASS
        instruction(0xb7, (3, 0), 0, PASS),
        instruction(0x85, (0, 0), 0, REDIRECT_MAP),
        // return r0
        instruction(0x95, (0, 0), 0, 0),
    ]
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
struct MapUpdate {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
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
struct LinkCreate {
    program: u32,
    target: u32,
    attach: u32,
    flags: u32,
}

/// A command of bpf(2), which gives a descriptor or zero.
///
/// # Safety
/// The attributes are the command's, and what they point at lives for the time of the call.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<RawFd> {
    let at = std::ptr::from_ref(attributes);
    // SAFETY: as promised; the kernel reads as many bytes as it is told
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
unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: as promised; the descriptor was made just now and belongs to nobody else
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// The program, attached to an interface until this is dropped.
#[derive(Debug)]
pub struct Program {
    #[allow(dead_code)]
    link: OwnedFd,
    sockets: OwnedFd,
    /// The driver does not know XDP: the kernel runs the program behind it.
    pub generic: bool,
}

/// What went wrong.
#[derive(Debug)]
pub enum ProgramError {
    /// The program could not be loaded.
    Load(io::Error),
    /// It could not be attached.
    Attach(io::Error),
    /// Another one is attached.
    Occupied,
}

impl Program {
    /// Loads it with room for sockets of so many queues, and attaches it: in the driver, or, where that does not know
    /// XDP, behind it. Nothing is redirected yet.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn attach(index: u32, queues: u32) -> Result<Program, ProgramError> {
        let map = MapCreate {
            kind: MAP_OF_SOCKETS,
            key: 4,
            value: 4,
            entries: queues,
            flags: 0,
        };
        // SAFETY: the command's attributes, without pointers
        let sockets = unsafe { bpf_fd(MAP_CREATE, &map) }.map_err(ProgramError::Load)?;
        let instructions = assembled(sockets.as_raw_fd());
        let license = c"Apache-2.0";
        let mut load = ProgramLoad {
            kind: PROGRAM_XDP,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr().expose_provenance() as u64,
            license: license.as_ptr().expose_provenance() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel: 0,
            flags: 0,
            name: [0; 16],
            interface: 0,
            attach: ATTACH_XDP,
        };
        load.name[..7].copy_from_slice(b"onefold");
        // SAFETY: the command's attributes; instructions and license live until after the call
        let program = unsafe { bpf_fd(PROGRAM_LOAD, &load) }.map_err(ProgramError::Load)?;
        let mut error = None;
        for flags in [NATIVE, GENERIC] {
            let create = LinkCreate {
                program: program.as_raw_fd() as u32,
                target: index,
                attach: ATTACH_XDP,
                flags,
            };
            // SAFETY: the command's attributes, without pointers
            match unsafe { bpf_fd(LINK_CREATE, &create) } {
                Ok(link) => {
                    return Ok(Program {
                        link,
                        sockets,
                        generic: flags == GENERIC,
                    });
                }
                Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                    return Err(ProgramError::Occupied);
                }
                Err(e) => error = error.or(Some(e)),
            }
        }
        let error = error.unwrap_or_else(|| io::Error::from(io::ErrorKind::Unsupported));
        Err(ProgramError::Attach(error))
    }

    /// From now on frames of a queue go to this socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn redirect(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        let socket = socket as u32;
        let update = MapUpdate {
            map: self.sockets.as_raw_fd() as u32,
            pad: 0,
            key: std::ptr::from_ref(&queue).expose_provenance() as u64,
            value: std::ptr::from_ref(&socket).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: the command's attributes; key and value are of the map's sizes and live until after the call
        unsafe { bpf(MAP_UPDATE, &update) }.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        assert_eq!(size_of::<Instruction>(), 8);
        let all = assembled(7);
        let load = instruction(0x61, (2, 1), 16, 0);
        assert_eq!((all[0], load.registers), (load, 0x12));
        assert_eq!((all[1].registers, all[1].value), (0x11, 7));
        assert_eq!(all[5].code, 0x95);
        assert_eq!(std::mem::offset_of!(ProgramLoad, attach), 68);
        assert_eq!(std::mem::offset_of!(MapUpdate, key), 8);
    }
}
