//! Ports that are network interfaces of Linux, through AF_XDP sockets: `xdp:IF`, without DPDK and without libbpf.
//!
//! - An XDP program that is assembled here (`program`) hands the frames of one receive queue to a socket, before the
//!   host's stack sees them; what other queues get goes to the host. Several workers have a queue each
//!   ([`XdpPort::open_for`]).
//! - Another program may take its place ([`XdpPort::offload`]), which drops frames before anything is copied.
//! - Frames lie in a memory that the kernel was told of ([`Umem`]), which all ports of a run share: a packet goes
//!   through the chain where it lies, and leaves without being copied by us. Where the driver reads and writes that
//!   memory itself (*zero copy*), nobody copies; elsewhere the kernel does, once each way.
//! - What elements hold is bounded: where few frames are free, what comes in is copied to the heap, and its frame is
//!   used again at once.
//! - Checksums that a virtual interface's peer has left unfinished are finished (`onefold_port_interface::finish`).
//! - An interface that goes down, or away, and comes back is followed.
//!
//! All `unsafe` code is in `socket` and `ring`, and what loads programs in the crate `bpf`.
#![deny(unsafe_code)]

mod device;
mod error;
mod frames;
mod group;
mod offload;
mod program;
mod queues;
mod ring;
mod socket;
mod transmit;
mod umem;

pub use error::XdpError;
pub use offload::{Loaded, Offload};
pub use queues::queues;
pub use umem::{MAX_MTU, Umem};

use device::Device;
use group::Group;
use onefold_packet::{Pkt, Timestamp};
use onefold_port_interface::{Control, Interface, finish};
use onefold_runtime::{LinkState, Loss, Port, PortError};
use queues::{MAX_QUEUE, check_queue, control_of};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use transmit::Transmitter;

/// Who copies frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nobody where the driver can do that, else the kernel.
    #[default]
    Auto,
    /// The kernel.
    Copy,
    /// Nobody.
    ZeroCopy,
}

/// How an interface is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The receive queue; `None`: the only one.
    pub queue: Option<u32>,
    /// Who copies.
    pub mode: Mode,
    /// Places of each of the four rings: a power of two, [`MIN_RING`] to [`MAX_RING`].
    pub ring: u32,
}

/// Fewest places of a ring.
pub const MIN_RING: u32 = 64;
/// Most places of a ring.
pub const MAX_RING: u32 = 8192;

impl Default for Options {
    fn default() -> Self {
        Options {
            queue: None,
            mode: Mode::Auto,
            ring: 1024,
        }
    }
}

/// How long an interface that is occupied is waited for at the start.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// What happened, besides [`Transmitter`]'s.
#[derive(Debug, Default)]
struct Counts {
    /// The kernel has named a frame that it did not have.
    invalid: u64,
    /// Copied because few frames were free.
    copied_in: u64,
    /// Checksums that were finished.
    finished: u64,
    /// Of sockets that are gone.
    kernel: Kernel,
}

/// The kernel's counters.
#[derive(Debug, Clone, Copy, Default)]
struct Kernel {
    dropped: u64,
    ring_full: u64,
    fill_empty: u64,
    invalid: u64,
}

impl Kernel {
    fn plus(self, s: &libc::xdp_statistics) -> Kernel {
        Kernel {
            // a frame that finds none to be copied to counts twice
            dropped: self.dropped + s.rx_dropped.saturating_sub(s.rx_fill_ring_empty_descs),
            ring_full: self.ring_full + s.rx_ring_full,
            fill_empty: self.fill_empty + s.rx_fill_ring_empty_descs,
            invalid: self.invalid + s.rx_invalid_descs + s.tx_invalid_descs,
        }
    }
}

/// See the crate's text.
#[derive(Debug)]
pub struct XdpPort {
    /// The chain's port, for messages.
    name: String,
    interface: Interface,
    options: Options,
    control: Control,
    /// Whose program it is.
    group: Group,
    /// Where that has this socket.
    place: u32,
    umem: Umem,
    /// None while the interface is gone.
    device: Option<Device>,
    transmitter: Transmitter,
    /// Packets without a frame.
    handles: Vec<Pkt>,
    finishes: bool,
    counts: Counts,
    link: LinkState,
    started: Option<bool>,
}

fn state(i: &Interface) -> LinkState {
    match i.running {
        true => LinkState::Up,
        false => LinkState::Down,
    }
}

impl XdpPort {
    /// A port of this name on an interface, with frames of `umem`. Nothing arrives before [`Port::start`].
    ///
    /// # Errors
    /// What is wrong, with what to type.
    pub fn open(
        name: &str,
        interface: Interface,
        options: Options,
        umem: &Umem,
    ) -> Result<XdpPort, XdpError> {
        XdpPort::open_in(None, name, interface, options, umem)
    }

    /// Ports for as many workers as the interface has receive queues ([`queues`]), with a queue each.
    ///
    /// # Errors
    /// As [`XdpPort::open`].
    pub fn open_for(
        name: &str,
        interface: &Interface,
        options: Options,
        umem: &Umem,
        workers: usize,
    ) -> Result<Vec<XdpPort>, XdpError> {
        let workers = u32::try_from(workers).unwrap_or(MAX_QUEUE);
        let group = Group::new(workers);
        let one = |queue| {
            let group = Some((group.clone(), queue));
            let queue = Some(queue);
            let options = Options { queue, ..options };
            XdpPort::open_in(group, name, interface.clone(), options, umem)
        };
        (0..workers).map(one).collect()
    }

    /// So many ports with a socket each, all of one receive queue: the only one, or [`Options::queue`]. Frames of that
    /// queue come to the first one until a program is installed ([`XdpPort::offload`]) that says whose a frame is:
    /// place N of its map 1 is port N's.
    ///
    /// # Errors
    /// As [`XdpPort::open`].
    pub fn open_shared(
        name: &str,
        interface: &Interface,
        options: Options,
        umem: &Umem,
        sockets: usize,
    ) -> Result<Vec<XdpPort>, XdpError> {
        let sockets = u32::try_from(sockets).unwrap_or(MAX_QUEUE);
        let control = control_of(interface)?;
        check_queue(&control, interface, options.queue)?;
        let group = Group::of_queue(sockets);
        let one = |place| {
            let group = Some((group.clone(), place));
            XdpPort::open_in(group, name, interface.clone(), options, umem)
        };
        (0..sockets).map(one).collect()
    }

    fn open_in(
        group: Option<(Group, u32)>,
        name: &str,
        interface: Interface,
        options: Options,
        umem: &Umem,
    ) -> Result<XdpPort, XdpError> {
        let most = umem.most_mtu();
        if interface.mtu > most {
            return Err(XdpError::LargeMtu {
                name: interface.name,
                mtu: interface.mtu,
                most: MAX_MTU,
            });
        }
        let control = control_of(&interface)?;
        let (group, place) = match group {
            Some(of_several) => of_several,
            None => {
                check_queue(&control, &interface, options.queue)?;
                let queue = options.queue.unwrap_or(0);
                (Group::new(queue + 1), queue)
            }
        };
        let device = open_device(&interface, &options, umem, &group)?;
        let driver = control.driver(&interface.name);
        Ok(XdpPort {
            name: name.to_string(),
            link: state(&interface),
            transmitter: Transmitter::new(interface.mtu),
            finishes: driver.is_some_and(|d| finish::leaves_unfinished(&d)),
            interface,
            options,
            control,
            group,
            place,
            umem: umem.clone(),
            device: Some(device),
            handles: Vec::new(),
            counts: Counts::default(),
            started: None,
        })
    }

    /// The interface, as it was when the port was opened, or when it came back.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Where a program can be put in the place of the one that only hands frames to the socket. Map 1 of its code has
    /// the socket at the receive queue's number.
    pub fn offload(&self) -> Offload {
        self.group.offload().clone()
    }

    /// How frames come and go, in words.
    pub fn shown(&self) -> String {
        let Some(d) = &self.device else {
            return "gone".to_string();
        };
        let copies = match (d.zero_copy, self.options.mode) {
            (true, _) => "zero copy",
            (false, Mode::Copy) => "copy",
            (false, _) => "copy, as the driver has no zero copy",
        };
        let program = match d.program.generic {
            true => "program behind the driver, which has no XDP",
            false => "program in the driver",
        };
        let queue = self.options.queue.unwrap_or(0);
        format!("queue {queue}, {copies}, {program}")
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> PortError {
        PortError::Device {
            port: self.name.clone(),
            doing,
            error,
        }
    }

    /// Lets frames come in.
    fn begin(&mut self) -> io::Result<()> {
        let Some(d) = &mut self.device else {
            return Ok(());
        };
        if self.started == Some(true) {
            d.refill(&self.umem);
            let fd = d.socket.raw();
            d.program.redirect(self.place, fd)?;
        }
        Ok(())
    }

    /// Follows an interface that is there again, with another number.
    fn reopen(&mut self) -> Option<String> {
        let interface = Interface::find(&self.interface.name).ok()?;
        if interface.mtu > self.umem.most_mtu() {
            return None;
        }
        let device = Device::open(&interface, &self.options, &self.umem, &self.group);
        self.device = Some(device.ok()?);
        if self.begin().is_err() {
            self.device = None;
            return None;
        }
        self.transmitter.set_mtu(interface.mtu);
        self.transmitter.set_down(false);
        self.link = state(&interface);
        self.interface = interface;
        let (name, link) = (&self.interface.name, self.link.name());
        Some(format!("interface {name} is back, link {link}"))
    }

    /// The interface is gone: so is what was under way. Frames go back to the pool.
    fn close(&mut self) -> String {
        self.counts.kernel = self.kernel();
        self.device = None;
        self.transmitter.clear();
        self.link = LinkState::Gone;
        let name = &self.interface.name;
        format!("interface {name} is gone; waiting until it comes back")
    }

    /// The kernel's counters, of all sockets that there were.
    fn kernel(&self) -> Kernel {
        let now = self
            .device
            .as_ref()
            .and_then(|d| d.socket.statistics().ok());
        now.map_or(self.counts.kernel, |s| self.counts.kernel.plus(&s))
    }

    /// A packet's handle: one without a frame, as long as there are some.
    #[inline]
    fn handle(handles: &mut Vec<Pkt>, free: &mut Vec<Pkt>) -> Option<Pkt> {
        handles.pop().or_else(|| free.pop())
    }
}

/// Opens a queue. The kernel lets go of the queue and the program of a process that has ended a moment later: what is
/// occupied is tried again for [`PATIENCE`].
fn open_device(
    interface: &Interface,
    options: &Options,
    umem: &Umem,
    group: &Group,
) -> Result<Device, XdpError> {
    let begun = Instant::now();
    loop {
        match Device::open(interface, options, umem, group) {
            Err(XdpError::Busy { .. } | XdpError::Occupied { .. })
                if begun.elapsed() < PATIENCE =>
            {
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Does this say that the interface is down, or going away?
fn is_down(e: &io::Error) -> bool {
    let down = [libc::ENETDOWN, libc::ENXIO, libc::ENODEV];
    e.raw_os_error().is_some_and(|e| down.contains(&e))
}

impl Port for XdpPort {
    /// A live port has no packets of which it knows when they come.
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}

    fn is_live(&self) -> bool {
        true
    }

    fn lends_frames(&self) -> bool {
        true
    }

    fn start(&mut self, receives: bool) -> Result<(), PortError> {
        self.started = Some(receives);
        match self.begin() {
            Err(e) if !is_down(&e) => Err(self.failed("redirecting frames", e)),
            _ => Ok(()),
        }
    }

    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let Some(d) = &mut self.device else {
            return Ok(());
        };
        let n = d
            .receive
            .available()
            .min(u32::try_from(n).unwrap_or(u32::MAX));
        if n == 0 {
            return Ok(());
        }
        let scarce = self.umem.is_scarce();
        let mut frames = d.frames.enter();
        if self.handles.is_empty() {
            self.umem.take_handles(&mut self.handles);
        }
        for i in 0..n {
            let desc = d.receive.get(i);
            let Some((frame, at)) = frames.back(desc.addr) else {
                self.counts.invalid += 1;
                continue;
            };
            let data = at..at + desc.len as usize;
            let Some(mut p) = Self::handle(&mut self.handles, free) else {
                frames.spare.push(frame);
                continue;
            };
            if scarce {
                p.refill(frame.get(data).unwrap_or_default());
                frames.spare.push(frame);
                self.counts.copied_in += 1;
            } else {
                p.attach(frame, data);
            }
            if self.finishes && finish::finish(p.data_mut()) {
                self.counts.finished += 1;
            }
            batch.push(p);
        }
        d.receive.release(n);
        frames.reap();
        frames.refill(&self.umem, &d.socket);
        frames.give_spare(&self.umem);
        Ok(())
    }

    fn transmit(&mut self, packets: &mut Vec<Pkt>, _: Timestamp) -> Result<(), PortError> {
        let device = self.device.as_mut();
        let sent = self.transmitter.send(device, &self.umem, packets);
        // those whose frames are gone are other ports' to use
        let mut i = 0;
        while let Some(p) = packets.get(i) {
            match p.frame().is_empty() {
                true => self.handles.push(packets.swap_remove(i)),
                false => i += 1,
            }
        }
        self.umem.give_handles(&mut self.handles);
        sent.map_err(|e| self.failed("sending", e))
    }

    fn backlog(&self) -> usize {
        self.transmitter.backlog()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let sent = self.transmitter.flush(self.device.as_mut(), &self.umem);
        sent.map_err(|e| self.failed("sending", e))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.device.as_ref().map(|d| d.socket.as_fd())
    }

    fn send_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor()
    }

    fn attend(&mut self) -> Option<String> {
        let Some(d) = &mut self.device else {
            self.started?;
            return self.reopen();
        };
        // an error that nobody asks for would make every wait end at once
        d.socket.take_error();
        if self.started == Some(true) {
            // frames may have been too few before
            d.refill(&self.umem);
        }
        d.reap(&self.umem);
        let index = d.index;
        if self.control.index(&self.interface.name).ok() != Some(index) {
            return Some(self.close());
        }
        if let Ok(mtu) = self.control.mtu(&self.interface.name) {
            self.transmitter.set_mtu(mtu);
        }
        let flags = self.control.flags(&self.interface.name).ok()?;
        let link = match flags.up && flags.running {
            true => LinkState::Up,
            false => LinkState::Down,
        };
        self.transmitter.set_down(link != LinkState::Up);
        if link == self.link {
            return None;
        }
        self.link = link;
        let name = &self.interface.name;
        Some(format!("link of {name} {}", link.name()))
    }

    fn link(&self) -> LinkState {
        self.link
    }

    fn losses(&self) -> Vec<Loss> {
        let k = self.kernel();
        let own = [
            (
                "arrived faster than they were taken (receive ring full)",
                k.ring_full,
            ),
            (
                "arrived while no frame was free (fill ring empty)",
                k.fill_empty,
            ),
            ("dropped by the kernel's AF_XDP socket", k.dropped),
            ("descriptor refused by the kernel", k.invalid),
            (
                "descriptor of the kernel that names no frame",
                self.counts.invalid,
            ),
        ];
        let all = own.into_iter().chain(self.transmitter.losses());
        all.filter(|(_, n)| *n > 0)
            .map(|(reason, packets)| Loss { reason, packets })
            .collect()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let own = [
            ("copied in (few free frames)", self.counts.copied_in),
            ("checksums finished", self.counts.finished),
            (
                "dropped early, by the XDP program",
                self.group.offload().dropped(),
            ),
        ];
        let all = own.into_iter().chain(self.transmitter.counters());
        all.filter(|(_, n)| *n > 0).collect()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}
