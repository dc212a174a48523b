//! Ports that are TAP interfaces of Linux: `tap:NAME`. The host, with its addresses and routes, is at the other end
//! of the wire.
//!
//! - The interface is made if there is none of this name, set up, and removed when the port is closed; one that was
//!   there stays.
//! - Its MAC address is the host's: the chain has its own.
//! - Frames arrive whole: without offloads the kernel finishes checksums and cuts large frames itself. A frame costs
//!   one system call.
#![deny(unsafe_code)]

mod device;

use device::Device;
use onefold_packet::{Pkt, Timestamp};
use onefold_port_interface::{Control, Interface, InterfaceError};
use onefold_runtime::{LinkState, Loss, Port, PortError, TRANSMIT_QUEUE_FULL};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes of an Ethernet header and two VLAN tags.
const LINK: usize = 14 + 8;
/// Bytes of the longest frame: no MTU is larger.
const LONGEST: usize = 65_535 + LINK;

/// What could not be sent.
#[derive(Debug, Default)]
struct Lost {
    full: u64,
    down: u64,
    refused: u64,
}

/// See the module's text.
#[derive(Debug)]
pub struct TapPort {
    name: String,
    interface: Interface,
    control: Control,
    /// None while the interface is gone.
    device: Option<Device>,
    frame: Box<[u8]>,
    link: LinkState,
    lost: Lost,
}

impl TapPort {
    /// A port of this name on the TAP interface `tap`, which is made if there is none, and set up.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN, where the kernel has no TAP interfaces, when somebody else has it open, or it is no TAP
    /// interface.
    pub fn open(name: &str, tap: &str) -> Result<TapPort, InterfaceError> {
        let told = |doing| {
            move |error: io::Error| match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => InterfaceError::NotSupported {
                    what: "/dev/net/tun, the kernel's TAP interfaces,",
                    error,
                    cure: "type: modprobe tun",
                },
                _ => InterfaceError::of(tap, doing, "CAP_NET_ADMIN", error),
            }
        };
        if tap.is_empty()
            || tap.len() > onefold_port_interface::MAX_NAME
            || tap.contains(['/', ' ', '%'])
        {
            return Err(InterfaceError::NoName {
                name: tap.to_string(),
            });
        }
        let device = Device::open(tap).map_err(told("making the TAP interface"))?;
        let control = Control::open().map_err(told("opening a socket"))?;
        control.set_up(tap).map_err(told("setting up"))?;
        Ok(TapPort {
            name: name.to_string(),
            interface: Interface::find(tap)?,
            control,
            device: Some(device),
            frame: vec![0; LONGEST].into(),
            link: LinkState::Up,
            lost: Lost::default(),
        })
    }

    /// The interface.
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
}

/// Does this say that the interface is down, or gone?
fn is_down(e: &io::Error) -> bool {
    let down = [libc::EIO, libc::EBADFD, libc::ENETDOWN, libc::ENODEV];
    e.raw_os_error().is_some_and(|e| down.contains(&e))
}

impl Port for TapPort {
    /// A live port has no packets of which it knows when they come.
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}

    fn is_live(&self) -> bool {
        true
    }

    /// What has arrived before is not for the chain.
    fn start(&mut self, _: bool) -> Result<(), PortError> {
        // Bound: as many as its queue may hold by default, and then some
        for _ in 0..4096 {
            let d = self.device.as_ref();
            if d.is_none_or(|d| d.read(&mut self.frame).is_err()) {
                break;
            }
        }
        Ok(())
    }

    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let Some(d) = &self.device else { return Ok(()) };
        for _ in 0..n {
            let got = match d.read(&mut self.frame) {
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock || is_down(&e) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(self.failed("reading", e)),
            };
            let (Some(frame), Some(mut p)) = (self.frame.get(..got), free.pop()) else {
                break;
            };
            p.refill(frame);
            batch.push(p);
        }
        Ok(())
    }

    fn transmit(&mut self, packets: &mut Vec<Pkt>, _: Timestamp) -> Result<(), PortError> {
        for p in packets.iter() {
            let sent = match &self.device {
                Some(d) => d.write(p.data()),
                None => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            };
            match sent.map_err(|e| (e.raw_os_error(), e)) {
                Ok(_) => {}
                Err((Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM), _)) => self.lost.full += 1,
                Err((_, e)) if is_down(&e) => self.lost.down += 1,
                // too short, too long
                Err((Some(libc::EINVAL | libc::EMSGSIZE), _)) => self.lost.refused += 1,
                Err((_, e)) => return Err(self.failed("writing", e)),
            }
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self.link {
            // a descriptor of an interface that is down is always ready
            LinkState::Up => self.device.as_ref().map(|d| d.as_fd()),
            _ => None,
        }
    }

    fn attend(&mut self) -> Option<String> {
        let name = self.interface.name.clone();
        let there = self.control.index(&name).ok();
        if self.device.is_none() {
            // somebody has made it again: one that was made by us is not made twice
            there?;
            self.device = Some(Device::open(&name).ok()?);
            self.interface = Interface::find(&name).ok()?;
            self.link = LinkState::Up;
            return Some(format!("interface {name} is back"));
        }
        if there != Some(self.interface.index) {
            self.device = None;
            self.link = LinkState::Gone;
            return Some(format!(
                "interface {name} is gone; waiting until it comes back"
            ));
        }
        let link = match self.control.flags(&name).ok()?.up {
            true => LinkState::Up,
            false => LinkState::Down,
        };
        if link == self.link {
            return None;
        }
        self.link = link;
        Some(format!("link of {name} {}", link.name()))
    }

    fn link(&self) -> LinkState {
        self.link
    }

    fn losses(&self) -> Vec<Loss> {
        let all = [
            (TRANSMIT_QUEUE_FULL, self.lost.full),
            ("link down, not sent", self.lost.down),
            (
                "refused by the interface: too short or too long",
                self.lost.refused,
            ),
        ];
        all.into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(reason, packets)| Loss { reason, packets })
            .collect()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}
