//! A socket of a queue of an interface: its rings, its program, and the frames that the kernel has.

use crate::error::XdpError;
use crate::frames::{Frames, OfQueue};
use crate::group::Group;
use crate::program::{Program, ProgramError};
use crate::ring::{Consumer, Producer};
use crate::socket::{Socket, Wake};
use crate::umem::Umem;
use crate::{Mode, Options};
use onefold_port_interface::{Interface, InterfaceError, Promiscuous};
use onefold_table::Frame;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

const OPENING: &str = "opening an AF_XDP socket on";
const CAPABILITIES: &str = "CAP_NET_RAW,CAP_NET_ADMIN,CAP_BPF";
/// Frames that the kernel sends in a call, where it copies them.
const KERNEL_BATCH: u32 = 32;

/// See the module's text.
#[derive(Debug)]
pub struct Device {
    pub index: u32,
    pub program: Arc<Program>,
    pub socket: Socket,
    pub receive: Consumer<libc::xdp_desc>,
    pub transmit: Producer<libc::xdp_desc>,
    pub zero_copy: bool,
    /// Behind all that makes the kernel forget them.
    pub frames: Frames,
    #[allow(dead_code)]
    promiscuous: Promiscuous,
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
        let bound = match group.frames() {
            None => bind_alone((interface.index, queue), o, umem),
            Some(shared) => shared.bind((interface.index, queue), o, umem),
        };
        let bound = bound.map_err(|e| match (e.raw_os_error(), o.mode) {
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
        let zero_copy = bound.socket.is_zero_copy();
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
            receive: bound.receive,
            transmit: bound.transmit,
            socket: bound.socket,
            frames: bound.frames,
            promiscuous,
            ring: o.ring,
        })
    }

    /// Takes back what was sent, and gives what is more than a few to all ports.
    pub fn reap(&mut self, umem: &Umem) {
        let mut frames = self.frames.enter();
        frames.reap();
        frames.give_spare(umem);
    }

    /// Fills the fill ring, as far as there are frames.
    pub fn refill(&mut self, umem: &Umem) {
        self.frames.enter().refill(umem, &self.socket);
    }

    /// Puts a frame into the transmit ring; it comes back if there is no room.
    #[inline]
    pub fn put(&mut self, frame: Frame, at: usize, len: u32) -> Result<(), Frame> {
        if !self.transmit.has_room() {
            return Err(frame);
        }
        if let Some(addr) = self.frames.enter().lend_for_sending(frame, at) {
            self.transmit.push(libc::xdp_desc {
                addr,
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
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {
                        self.frames.enter().reap();
                    }
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

/// A socket that is bound to a queue.
pub struct Bound {
    socket: Socket,
    receive: Consumer<libc::xdp_desc>,
    transmit: Producer<libc::xdp_desc>,
    frames: Frames,
}

/// What the sockets of one queue have in common, as long as one of them is there.
#[derive(Debug, Default)]
pub struct SharedFrames(Mutex<Option<First>>);

#[derive(Debug)]
struct First {
    index: u32,
    frames: Weak<Mutex<OfQueue>>,
    socket: Weak<OwnedFd>,
}

impl SharedFrames {
    /// A socket of the queue: the first one, or one that shares the first one's frames.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(&self, at: (u32, u32), o: &Options, umem: &Umem) -> io::Result<Bound> {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(f) = first.as_ref().filter(|f| f.index == at.0)
            && let (Some(frames), Some(fd)) = (f.frames.upgrade(), f.socket.upgrade())
        {
            let s = Socket::open()?;
            let (receive, transmit) = own_rings(&s, o.ring)?;
            s.bind(at, 0, Some(&fd))?;
            return Ok(Bound {
                socket: s,
                receive,
                transmit,
                frames: Frames::Shared(frames),
            });
        }
        let mut bound = bind_alone(at, o, umem)?;
        if let Frames::Own(own) = bound.frames {
            let shared = Arc::new(Mutex::new(*own));
            *first = Some(First {
                index: at.0,
                frames: Arc::downgrade(&shared),
                socket: Arc::downgrade(bound.socket.shared()),
            });
            bound.frames = Frames::Shared(shared);
        }
        Ok(bound)
    }
}
/// The rings that each socket has.
fn own_rings(
    s: &Socket,
    places: u32,
) -> io::Result<(Consumer<libc::xdp_desc>, Producer<libc::xdp_desc>)> {
    s.make_ring(libc::XDP_RX_RING, places)?;
    s.make_ring(libc::XDP_TX_RING, places)?;
    let at = s.offsets()?;
    Ok((
        Consumer::map(s, &at.rx, libc::XDP_PGOFF_RX_RING, places)?,
        Producer::map(s, &at.tx, libc::XDP_PGOFF_TX_RING, places)?,
    ))
}

/// The rings that a queue has: by its first socket.
fn queue_rings(s: &Socket, places: u32) -> io::Result<(Producer<u64>, Consumer<u64>)> {
    s.make_ring(libc::XDP_UMEM_FILL_RING, places)?;
    s.make_ring(libc::XDP_UMEM_COMPLETION_RING, places)?;
    let at = s.offsets()?;
    let (fill, completion) = (
        libc::XDP_UMEM_PGOFF_FILL_RING,
        libc::XDP_UMEM_PGOFF_COMPLETION_RING,
    );
    Ok((
        Producer::map(s, &at.fr, fill as libc::off_t, places)?,
        Consumer::map(s, &at.cr, completion as libc::off_t, places)?,
    ))
}

/// The only socket of a queue, or the first one.
fn bind_alone(at: (u32, u32), o: &Options, umem: &Umem) -> io::Result<Bound> {
    if let Some(first) = umem.registered()
        && let Ok(bound) = bind(at, o, umem, Some(&first))
    {
        return Ok(bound);
    }
    // the first one of all, or one whose driver wants it otherwise: the same memory is told of again
    bind(at, o, umem, None)
}

/// A socket with its four rings, bound to a queue.
fn bind(at: (u32, u32), o: &Options, umem: &Umem, shared: Option<&OwnedFd>) -> io::Result<Bound> {
    let s = Socket::open()?;
    if shared.is_none() {
        s.register(umem.pool())?;
    }
    let (fill, completion) = queue_rings(&s, o.ring)?;
    let (receive, transmit) = own_rings(&s, o.ring)?;
    let flags = libc::XDP_USE_NEED_WAKEUP
        | match o.mode {
            // the kernel takes zero copy where there is some
            Mode::Auto => 0,
            Mode::Copy => libc::XDP_COPY,
            Mode::ZeroCopy => libc::XDP_ZEROCOPY,
        };
    s.bind(at, flags, shared)?;
    if shared.is_none() {
        umem.add(&s);
    }
    let frames = OfQueue::new(fill, completion, umem, o.ring);
    Ok(Bound {
        socket: s,
        receive,
        transmit,
        frames: Frames::Own(Box::new(frames)),
    })
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
