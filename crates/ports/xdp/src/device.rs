//! One queue of an interface: socket, rings, program, and which frames the kernel has.

use crate::error::XdpError;
use crate::group::Group;
use crate::program::{Program, ProgramError};
use crate::ring::{Consumer, Producer};
use crate::socket::{Socket, Wake};
use crate::umem::Umem;
use crate::{Mode, Options};
use onefold_port_interface::{Interface, InterfaceError, Promiscuous};
use onefold_table::Frame;
use std::io;
use std::sync::Arc;

const OPENING: &str = "opening an AF_XDP socket on";
const CAPABILITIES: &str = "CAP_NET_RAW,CAP_NET_ADMIN,CAP_BPF";
/// Frames that a port keeps beside its rings.
const SPARE: usize = 64;
/// Frames that the kernel sends in a call, where it copies them.
const KERNEL_BATCH: u32 = 32;

/// Frames that went to the kernel, or came back, are in `with_kernel` by their number: the kernel reads and writes them
/// until it says that it is done.
#[derive(Debug)]
pub struct Device {
    pub index: u32,
    pub program: Arc<Program>,
    pub socket: Socket,
    pub fill: Producer<u64>,
    completion: Consumer<u64>,
    pub receive: Consumer<libc::xdp_desc>,
    pub transmit: Producer<libc::xdp_desc>,
    pub zero_copy: bool,
    /// Frames that are ours and in no ring.
    pub spare: Vec<Frame>,
    /// Behind all that makes the kernel forget them.
    with_kernel: Vec<Option<Frame>>,
    #[allow(dead_code)]
    promiscuous: Promiscuous,
    stride: u64,
    skip: usize,
    ring: u32,
}

impl Device {
    /// Opens a queue of an interface. Nothing arrives yet.
    ///
    /// # Errors
    /// What is wrong, with what to type.
    pub fn open(
        interface: &Interface,
        o: &Options,
        umem: &Umem,
        group: &Group,
    ) -> Result<Device, XdpError> {
        let name = || interface.name.clone();
        let system = |e: io::Error| XdpError::from(told(&interface.name, e));
        let queue = o.queue.unwrap_or(0);
        // the first thing that takes a capability
        let probe = Socket::open().map_err(system)?;
        drop(probe);
        let promiscuous = Promiscuous::on(interface.index).map_err(system)?;
        let program = match group.program(interface.index) {
            Ok(p) => p,
            Err(ProgramError::Occupied) => return Err(XdpError::Occupied { name: name() }),
            Err(ProgramError::Load(e) | ProgramError::Attach(e)) => return Err(system(e)),
        };
        let shared = umem.registered();
        let mut bound = Err(io::Error::from(io::ErrorKind::NotFound));
        if let Some(first) = &shared {
            bound = bind(interface.index, queue, o, umem, Some(first));
        }
        if bound.is_err() {
            // the first one, or one whose driver wants it otherwise: the same memory is told of again
            bound = bind(interface.index, queue, o, umem, None);
        }
        let (socket, rings) = bound.map_err(|e| match (e.raw_os_error(), o.mode) {
            (Some(libc::EBUSY), _) => XdpError::Busy {
                name: name(),
                queue,
            },
            (Some(libc::ENOBUFS), _) => XdpError::LockedMemory {
                name: name(),
                mib: umem.pool().memory().1 >> 20,
            },
            (Some(libc::EOPNOTSUPP | libc::EINVAL), Mode::ZeroCopy) => XdpError::NoZeroCopy {
                name: name(),
                error: e,
            },
            _ => system(e),
        })?;
        let zero_copy = socket.is_zero_copy();
        if o.mode == Mode::ZeroCopy && !zero_copy {
            return Err(XdpError::NoZeroCopy {
                name: name(),
                error: io::Error::from(io::ErrorKind::Unsupported),
            });
        }
        Ok(Device {
            index: interface.index,
            program,
            zero_copy,
            fill: rings.fill,
            completion: rings.completion,
            receive: rings.receive,
            transmit: rings.transmit,
            socket,
            spare: Vec::with_capacity(2 * o.ring as usize),
            with_kernel: (0..umem.pool().frames()).map(|_| None).collect(),
            promiscuous,
            stride: umem.pool().stride() as u64,
            skip: umem.pool().skip(),
            ring: o.ring,
        })
    }

    /// Which frame an address is in, and where its bytes begin in what the frame shows of it.
    #[inline]
    fn place(&self, address: u64) -> (usize, Option<usize>) {
        let at = (address % self.stride) as usize;
        ((address / self.stride) as usize, at.checked_sub(self.skip))
    }

    /// The kernel gives a frame back: `None` if it never had it.
    #[inline]
    pub fn back(&mut self, address: u64) -> Option<(Frame, usize)> {
        let (number, at) = self.place(address);
        let frame = self.with_kernel.get_mut(number)?.take()?;
        match at {
            Some(at) => Some((frame, at)),
            None => {
                self.spare.push(frame);
                None
            }
        }
    }

    /// The kernel gets a frame; where it is. A frame of another memory is dropped.
    #[inline]
    fn lend(&mut self, frame: Frame) -> Option<u64> {
        let number = frame.number()?;
        let place = self.with_kernel.get_mut(number as usize)?;
        *place = Some(frame);
        Some(u64::from(number) * self.stride)
    }

    /// Takes back what was sent.
    pub fn reap(&mut self) {
        let n = self.completion.available();
        for i in 0..n {
            let address = self.completion.get(i);
            if let Some((frame, _)) = self.back(address) {
                self.spare.push(frame);
            }
        }
        self.completion.release(n);
    }

    /// Frames beyond a few go back to all ports: what comes in at one of them and leaves here would end up here.
    pub fn give_spare(&mut self, umem: &Umem) {
        if self.spare.len() > SPARE {
            umem.pool().give(self.spare.drain(SPARE..));
        }
    }

    /// Fills the fill ring, as far as there are frames.
    pub fn refill(&mut self, umem: &Umem) {
        let room = self.fill.room() as usize;
        if room == 0 {
            return;
        }
        if self.spare.len() < room {
            let missing = room - self.spare.len();
            umem.pool().take(missing, &mut self.spare);
        }
        for _ in 0..room {
            let Some(frame) = self.spare.pop() else { break };
            if let Some(address) = self.lend(frame)
                && !self.fill.push(address)
            {
                // there was room
                drop(self.back(address + self.skip as u64));
                break;
            }
        }
        self.fill.submit();
        if self.fill.needs_wakeup() {
            // what stays to be done is done at the next call
            let _ = self.socket.wake(Wake::Receive);
        }
    }

    /// Puts a frame into the transmit ring; it comes back if there is no room.
    #[inline]
    pub fn put(&mut self, frame: Frame, at: usize, len: u32) -> Result<(), Frame> {
        if !self.transmit.has_room() {
            return Err(frame);
        }
        if let Some(address) = self.lend(frame) {
            self.transmit.push(libc::xdp_desc {
                addr: address + (self.skip + at) as u64,
                len,
                options: 0,
            });
        }
        Ok(())
    }

    /// Tells the kernel of what was put into the transmit ring.
    ///
    /// # Errors
    /// The interface is down, gone, or broken.
    pub fn send(&mut self) -> io::Result<()> {
        self.transmit.submit();
        if !self.transmit.needs_wakeup() {
            return Ok(());
        }
        // Bound: what is in the ring, a batch of the kernel a call
        for _ in 0..=self.ring / KERNEL_BATCH {
            let before = self.transmit.pending();
            if before == 0 {
                break;
            }
            match self.socket.wake(Wake::Transmit) {
                Ok(()) => {}
                Err(e) => match e.raw_os_error() {
                    // what was sent needs room in the completion ring, or the device is slow
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => self.reap(),
                    _ => return Err(e),
                },
            }
            if self.transmit.pending() == before {
                break;
            }
        }
        Ok(())
    }
}

struct Rings {
    fill: Producer<u64>,
    completion: Consumer<u64>,
    receive: Consumer<libc::xdp_desc>,
    transmit: Producer<libc::xdp_desc>,
}

/// A socket with its four rings, bound to a queue.
fn bind(
    index: u32,
    queue: u32,
    o: &Options,
    umem: &Umem,
    shared: Option<&std::os::fd::OwnedFd>,
) -> io::Result<(Socket, Rings)> {
    let s = Socket::open()?;
    if shared.is_none() {
        s.register(umem.pool())?;
    }
    let kinds = [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ];
    for kind in kinds {
        s.make_ring(kind, o.ring)?;
    }
    let at = s.offsets()?;
    let (fill, completion) = (
        libc::XDP_UMEM_PGOFF_FILL_RING,
        libc::XDP_UMEM_PGOFF_COMPLETION_RING,
    );
    let rings = Rings {
        fill: Producer::map(&s, &at.fr, fill as libc::off_t, o.ring)?,
        completion: Consumer::map(&s, &at.cr, completion as libc::off_t, o.ring)?,
        receive: Consumer::map(&s, &at.rx, libc::XDP_PGOFF_RX_RING, o.ring)?,
        transmit: Producer::map(&s, &at.tx, libc::XDP_PGOFF_TX_RING, o.ring)?,
    };
    let flags = libc::XDP_USE_NEED_WAKEUP
        | match o.mode {
            // the kernel takes zero copy where there is some
            Mode::Auto => 0,
            Mode::Copy => libc::XDP_COPY,
            Mode::ZeroCopy => libc::XDP_ZEROCOPY,
        };
    s.bind((index, queue), flags, shared)?;
    if shared.is_none() {
        umem.add(&s);
    }
    Ok((s, rings))
}

/// What the system says, with what to type.
fn told(name: &str, error: io::Error) -> InterfaceError {
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => InterfaceError::NotSupported {
            what: "the kernel's AF_XDP sockets (CONFIG_XDP_SOCKETS)",
            error,
            cure: "use packet:IF in the place of xdp:IF",
        },
        Some(libc::EOPNOTSUPP) => InterfaceError::NotSupported {
            what: "XDP on this interface",
            error,
            cure: "use packet:IF in the place of xdp:IF",
        },
        _ => InterfaceError::of(name, OPENING, CAPABILITIES, error),
    }
}
