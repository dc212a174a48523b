//! Ports that are network interfaces of Linux, through packet sockets: `packet:IF`.
//!
//! - Frames arrive in a ring shared with the kernel ([`Mode::Ring`]), or in vectors of 1 to 256 with one system call
//!   ([`Mode::Vectors`], SCC's multiplexed system call); they leave with one system call for a batch either way.
//! - The interface is promiscuous while the port is open; what the host itself sends there does not arrive.
//! - The kernel's offloads are undone: VLAN tags that it has taken out are put back, checksums that it has not
//!   finished are finished, and frames of up to 64 KiB are cut into those that a wire would carry ([`offload`]).
//! - An interface that goes down, or away, and comes back is followed ([`Port::attend`]); what cannot be sent
//!   meanwhile is counted.
//!
//! Several workers have a socket each, which gets a part of the frames ([`PacketPort::open_for`]).
//!
//! A frame is copied once on its way in, and once by the kernel on its way out.
#![deny(unsafe_code)]

mod backlog;
mod fanout;
mod frame;
pub mod offload;
mod ring;
mod socket;
mod transmit;
mod vectors;

pub use ring::{MAX_SLOTS, MIN_SLOTS, SLOTS};
pub use vectors::MAX_BATCH;

use fanout::Member;
use frame::{Intake, Whole};
use offload::{HEADER, MAX_FRAME, Offload};
use onefold_packet::{Pkt, Timestamp};
use onefold_port_interface::{Control, Interface, InterfaceError};
use onefold_runtime::{LinkState, Loss, Port, PortError};
use ring::{Came, Ring};
use socket::Socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use transmit::Transmitter;
use vectors::Receiver;

/// How frames come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Through memory that is shared with the kernel, with slots for so many frames ([`MIN_SLOTS`] to [`MAX_SLOTS`]):
    /// no system call while packets come.
    Ring(u32),
    /// With one system call for so many frames, 1 to [`MAX_BATCH`]; they leave in calls of so many, too.
    Vectors(usize),
}

/// Frames sent with one call, if frames come through a ring.
const SEND_BATCH: usize = 64;
/// Bytes of the socket's own buffers: for frames that are longer than a slot, and frames that leave.
const SOCKET_BUFFER: usize = 8 << 20;

const OPENING: &str = "opening a packet socket on";
const RAW: &str = "CAP_NET_RAW";

/// How frames come in, and what is needed for it.
#[derive(Debug)]
enum Receive {
    Ring {
        ring: Ring,
        /// For a frame that is longer than a slot, with the header in front of it.
        long: Box<[u8]>,
    },
    Vectors(Receiver),
}

/// Sockets of one interface.
#[derive(Debug)]
struct Device {
    index: u32,
    input: Socket,
    receive: Receive,
}

impl Device {
    fn open(interface: &Interface, mode: Mode) -> io::Result<Device> {
        let input = Socket::open(SOCKET_BUFFER)?;
        // the options of a ring must be set before the ring is there
        input.set_packet(libc::PACKET_VNET_HDR, 1)?;
        input.set_packet(libc::PACKET_IGNORE_OUTGOING, 1)?;
        let receive = match mode {
            Mode::Ring(slots) => {
                // frames that do not fit into a slot go to the socket's queue
                input.set_packet(libc::PACKET_COPY_THRESH, 1)?;
                Receive::Ring {
                    ring: Ring::new(&input, interface.mtu, slots)?,
                    long: vec![0; HEADER + MAX_FRAME].into(),
                }
            }
            Mode::Vectors(n) => {
                input.set_packet(libc::PACKET_AUXDATA, 1)?;
                Receive::Vectors(Receiver::new(n))
            }
        };
        input.promiscuous(interface.index)?;
        Ok(Device {
            index: interface.index,
            input,
            receive,
        })
    }

    /// Frames arrive from now on, if any are to be received: all, or the part of one of several sockets.
    fn begin(&self, member: Option<&Member>, receives: bool) -> io::Result<()> {
        match member.filter(|_| receives) {
            Some(m) => m.join(&self.input, self.index),
            None => self.input.bind(self.index, receives),
        }
    }
}

/// Counters of what did not get through, besides those of [`Transmitter`] and [`Intake`].
#[derive(Debug, Default)]
struct Lost {
    /// By the kernel, for want of room.
    ring_full: u64,
    /// Longer than any frame may be.
    cut: u64,
}

/// See the module's text.
#[derive(Debug)]
pub struct PacketPort {
    /// The chain's port, for messages.
    name: String,
    interface: Interface,
    mode: Mode,
    /// One of several sockets on the interface.
    member: Option<Member>,
    control: Control,
    /// None while the interface is gone.
    device: Option<Device>,
    transmitter: Transmitter,
    intake: Intake,
    lost: Lost,
    link: LinkState,
    started: Option<bool>,
    /// How often the interface went away, and down.
    pub(crate) gone: u64,
    pub(crate) downs: u64,
}

impl PacketPort {
    /// A port of this name on an interface. Nothing arrives before [`Port::start`].
    ///
    /// # Errors
    /// Without CAP_NET_RAW, and where the kernel has no packet sockets.
    pub fn open(
        name: &str,
        interface: Interface,
        mode: Mode,
    ) -> Result<PacketPort, InterfaceError> {
        PacketPort::open_as(name, interface, mode, None)
    }

    /// The same for so many workers: ports that each get a part of the interface's frames, and send by a socket of
    /// their own. Both directions of a flow between the same addresses and ports arrive at the same one.
    ///
    /// # Errors
    /// As [`PacketPort::open`].
    pub fn open_for(
        name: &str,
        interface: &Interface,
        mode: Mode,
        workers: usize,
    ) -> Result<Vec<PacketPort>, InterfaceError> {
        let members = Member::group(interface, workers).into_iter();
        members
            .map(|m| PacketPort::open_as(name, interface.clone(), mode, Some(m)))
            .collect()
    }

    fn open_as(
        name: &str,
        interface: Interface,
        mode: Mode,
        member: Option<Member>,
    ) -> Result<PacketPort, InterfaceError> {
        let told = |error: io::Error| match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => InterfaceError::NotSupported {
                what: "the kernel's packet sockets (CONFIG_PACKET)",
                error,
                cure: "type: modprobe af_packet",
            },
            _ => InterfaceError::of(&interface.name, OPENING, RAW, error),
        };
        let device = Device::open(&interface, mode).map_err(told)?;
        let batch = match mode {
            Mode::Ring(_) => SEND_BATCH,
            Mode::Vectors(n) => n,
        };
        let transmitter = Transmitter::open(&interface, batch).map_err(told)?;
        let control = Control::open().map_err(told)?;
        Ok(PacketPort {
            name: name.to_string(),
            link: match interface.running {
                true => LinkState::Up,
                false => LinkState::Down,
            },
            interface,
            mode,
            member,
            control,
            device: Some(device),
            transmitter,
            intake: Intake::default(),
            lost: Lost::default(),
            started: None,
            gone: 0,
            downs: 0,
        })
    }

    /// The interface, as it was when the port was opened, or when it came back.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> PortError {
        PortError::Device {
            port: self.name.clone(),
            doing,
            error,
        }
    }

    /// Follows an interface that is there again, with another number.
    fn reopen(&mut self) -> Option<String> {
        let interface = Interface::find(&self.interface.name).ok()?;
        let receives = self.started?;
        let again = || -> io::Result<Device> {
            let device = Device::open(&interface, self.mode)?;
            device.begin(self.member.as_ref(), receives)?;
            Ok(device)
        };
        let device = again().ok()?;
        self.transmitter.reopen(&interface).ok()?;
        self.device = Some(device);
        self.link = match interface.running {
            true => LinkState::Up,
            false => LinkState::Down,
        };
        self.interface = interface;
        let (name, state) = (&self.interface.name, self.link.name());
        Some(format!("interface {name} is back, link {state}"))
    }

    /// The interface is gone: so is what was under way.
    fn close(&mut self) -> Option<String> {
        self.count_drops();
        self.device = None;
        self.intake.clear();
        self.transmitter.close();
        self.link = LinkState::Gone;
        self.gone += 1;
        let name = &self.interface.name;
        Some(format!(
            "interface {name} is gone; waiting until it comes back"
        ))
    }

    /// Adds what the kernel has dropped since the last time.
    fn count_drops(&mut self) {
        if let Some(d) = &self.device
            && let Ok(s) = d.input.statistics()
        {
            self.lost.ring_full += u64::from(s.drops);
        }
    }
}

/// Takes frames out of a ring.
fn poll_ring(
    (ring, socket, long): (&mut Ring, &Socket, &mut [u8]),
    (intake, lost): (&mut Intake, &mut Lost),
    (free, batch): (&mut Vec<Pkt>, &mut Vec<Pkt>),
    n: usize,
) {
    let most = batch.len() + n;
    // what is dropped counts, too: a flood of frames that are refused does not keep the worker here
    for _ in 0..n {
        if batch.len() >= most || intake.is_busy() {
            break;
        }
        let left = most - batch.len();
        match ring.next() {
            None => break,
            Some(Came::Here(w)) => intake.take(&w, free, batch, left),
            Some(Came::Queued(tag)) => match socket.receive(long) {
                Ok(got) => match long
                    .get(..got)
                    .and_then(<[u8]>::split_first_chunk::<HEADER>)
                {
                    Some((header, frame)) => {
                        let offload = Offload::read(header);
                        intake.take(
                            &Whole {
                                frame,
                                offload,
                                tag,
                            },
                            free,
                            batch,
                            left,
                        );
                    }
                    None => lost.cut += 1,
                },
                Err(_) => lost.cut += 1,
            },
            Some(Came::Cut) => lost.cut += 1,
        }
        ring.release();
    }
}

/// Takes frames out of vectors, which are filled when they are empty.
fn poll_vectors(
    (receiver, socket): (&mut Receiver, &Socket),
    (intake, lost): (&mut Intake, &mut Lost),
    (free, batch): (&mut Vec<Pkt>, &mut Vec<Pkt>),
    n: usize,
) -> io::Result<()> {
    let most = batch.len() + n;
    if receiver.is_empty() {
        receiver.receive(socket, n)?;
    }
    // Bound: the frames of one vector
    while batch.len() < most && !intake.is_busy() {
        let left = most - batch.len();
        match receiver.next() {
            None => break,
            Some(Ok(w)) => intake.take(&w, free, batch, left),
            Some(Err(())) => lost.cut += 1,
        }
    }
    Ok(())
}

/// Does this say that the interface is down, or going away?
fn is_down(e: &io::Error) -> bool {
    let down = [libc::ENETDOWN, libc::ENXIO, libc::ENODEV];
    e.raw_os_error().is_some_and(|e| down.contains(&e))
}

impl Port for PacketPort {
    /// A live port has no packets of which it knows when they come.
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}

    fn is_live(&self) -> bool {
        true
    }

    fn start(&mut self, receives: bool) -> Result<(), PortError> {
        self.started = Some(receives);
        let Some(d) = &self.device else { return Ok(()) };
        if let Some(m) = &self.member {
            m.wait_for_turn();
        }
        let begun = d.begin(self.member.as_ref(), receives);
        if let Some(m) = &self.member {
            m.pass_turn();
        }
        match begun {
            // a group takes sockets of interfaces that are up only: this one joins when it is
            Err(_) if self.member.is_some() && self.link != LinkState::Up => {
                self.device = None;
                self.link = LinkState::Gone;
                Ok(())
            }
            Err(e) if !is_down(&e) => Err(self.failed("binding the packet socket", e)),
            // it is looked after from now on
            _ => Ok(()),
        }
    }

    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        if self.intake.is_busy() {
            self.intake.more(free, batch, n);
            return Ok(());
        }
        let Some(d) = &mut self.device else {
            return Ok(());
        };
        let counts = (&mut self.intake, &mut self.lost);
        let packets = (free, batch);
        match &mut d.receive {
            Receive::Ring { ring, long } => {
                poll_ring((ring, &d.input, long), counts, packets, n);
                Ok(())
            }
            Receive::Vectors(receiver) => {
                match poll_vectors((receiver, &d.input), counts, packets, n) {
                    Err(e) if !is_down(&e) => Err(self.failed("receiving", e)),
                    _ => Ok(()),
                }
            }
        }
    }

    fn transmit(&mut self, packets: &mut Vec<Pkt>, _: Timestamp) -> Result<(), PortError> {
        let sent = self.transmitter.send(packets.iter().map(|p| p.data()));
        sent.map_err(|e| self.failed("sending", e))
    }

    fn backlog(&self) -> usize {
        self.transmitter.backlog()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let sent = self.transmitter.flush();
        sent.map_err(|e| self.failed("sending", e))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let d = self.device.as_ref()?;
        Some(d.input.as_fd())
    }

    fn send_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.transmitter.descriptor()
    }

    fn attend(&mut self) -> Option<String> {
        let Some(d) = &self.device else {
            return self.reopen();
        };
        // an error that nobody asks for would make every wait end at once
        let _ = d.input.take_error();
        self.transmitter.take_error();
        self.count_drops();
        let index = self.device.as_ref().map(|d| d.index);
        if self.control.index(&self.interface.name).ok() != index {
            return self.close();
        }
        if let Ok(mtu) = self.control.mtu(&self.interface.name) {
            self.transmitter.set_mtu(mtu);
        }
        let flags = self.control.flags(&self.interface.name).ok()?;
        let link = match flags.up && flags.running {
            true => LinkState::Up,
            false => LinkState::Down,
        };
        if link == self.link {
            return None;
        }
        self.link = link;
        self.downs += u64::from(link == LinkState::Down);
        let name = &self.interface.name;
        Some(format!("link of {name} {}", link.name()))
    }

    fn link(&self) -> LinkState {
        self.link
    }

    fn losses(&self) -> Vec<Loss> {
        let own = [
            (
                "arrived faster than they were taken (receive ring full)",
                self.lost.ring_full,
            ),
            ("longer than a frame may be", self.lost.cut),
            (Intake::REFUSED, self.intake.refused),
        ];
        let all = own.into_iter().chain(self.transmitter.losses());
        all.filter(|(_, n)| *n > 0)
            .map(|(reason, packets)| Loss { reason, packets })
            .collect()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.count_drops();
        Ok(())
    }
}
