//! The questions that an interface is asked (`ioctl`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `ARPHRD_ETHER`: what an interface with Ethernet frames says of its addresses.
const ETHERNET: u16 = 1;
/// `ETHTOOL_GLINK`: has it a carrier? The kernel writes the answer (`struct ethtool_value`) behind the question.
const ETHTOOL_GLINK: u32 = 0x0a;

/// `ETHTOOL_GDRVINFO` (`struct ethtool_drvinfo`): which driver is it?
const ETHTOOL_GDRVINFO: u32 = 0x03;
/// `ETHTOOL_GCHANNELS` (`struct ethtool_channels`): how many queues has it?
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// State of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// The administrator has set it up.
    pub up: bool,
    /// It has a carrier.
    pub running: bool,
}

/// A socket that questions about interfaces go through.
#[derive(Debug)]
pub struct Control(OwnedFd);

impl Control {
    /// A socket of the namespace that the calling thread is in.
    ///
    /// # Errors
    /// When there is none to have.
    pub fn open() -> io::Result<Control> {
        // SAFETY: no pointers are passed
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made just now and belongs to nobody else
        Ok(Control(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Its number.
    ///
    /// # Errors
    /// `ENODEV` when there is no such interface.
    pub fn index(&self, name: &str) -> io::Result<u32> {
        let r = self.ask(name, libc::SIOCGIFINDEX, |_| {})?;
        // SAFETY: this question's answer is the number
        Ok(unsafe { r.ifr_ifru.ifru_ifindex } as u32)
    }

    /// Its MAC address; `None`: its frames are not Ethernet frames.
    ///
    /// # Errors
    /// As [`Control::index`].
    pub fn mac(&self, name: &str) -> io::Result<Option<[u8; 6]>> {
        let r = self.ask(name, libc::SIOCGIFHWADDR, |_| {})?;
        // SAFETY: this question's answer is an address
        let a = unsafe { r.ifr_ifru.ifru_hwaddr };
        let bytes = a.sa_data.first_chunk::<6>();
        let bytes = bytes.map(|b| b.map(|c| c as u8));
        Ok(bytes.filter(|_| a.sa_family == ETHERNET))
    }

    /// Its MTU, in bytes.
    ///
    /// # Errors
    /// As [`Control::index`].
    pub fn mtu(&self, name: &str) -> io::Result<u32> {
        let r = self.ask(name, libc::SIOCGIFMTU, |_| {})?;
        // SAFETY: this question's answer is the MTU
        Ok(unsafe { r.ifr_ifru.ifru_mtu } as u32)
    }

    /// Its state.
    ///
    /// # Errors
    /// As [`Control::index`].
    pub fn flags(&self, name: &str) -> io::Result<Flags> {
        let f = self.raw_flags(name)?;
        // the kernel's own flag follows the carrier after up to a second
        let running = self.carrier(name).unwrap_or(f & libc::IFF_RUNNING != 0);
        Ok(Flags {
            up: f & libc::IFF_UP != 0,
            running,
        })
    }

    /// Has it a carrier? `None`: its driver does not say.
    fn carrier(&self, name: &str) -> Option<bool> {
        let mut value = [ETHTOOL_GLINK, 0];
        self.ask(name, libc::SIOCETHTOOL, |r| {
            r.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        })
        .ok()?;
        Some(value[1] != 0)
    }

    /// Its driver's name; `None`: it does not say.
    pub fn driver(&self, name: &str) -> Option<String> {
        // a number, five texts of 32 bytes and one of 12, five numbers
        let mut info = [0u32; 49];
        info[0] = ETHTOOL_GDRVINFO;
        self.ask(name, libc::SIOCETHTOOL, |r| {
            r.ifr_ifru.ifru_data = info.as_mut_ptr().cast();
        })
        .ok()?;
        let bytes = info.iter().skip(1).take(8).flat_map(|w| w.to_ne_bytes());
        let text: Vec<u8> = bytes.take_while(|b| *b != 0).collect();
        String::from_utf8(text).ok()
    }

    /// Receive queues, and queues for both ways, that are in use; `None`: its driver does not say.
    pub fn channels(&self, name: &str) -> Option<(u32, u32)> {
        // four limits, then as many counts: receive, transmit, other, combined
        let mut all = [0u32; 9];
        all[0] = ETHTOOL_GCHANNELS;
        self.ask(name, libc::SIOCETHTOOL, |r| {
            r.ifr_ifru.ifru_data = all.as_mut_ptr().cast();
        })
        .ok()?;
        Some((all[5], all[8]))
    }

    /// Sets it up.
    ///
    /// # Errors
    /// As [`Control::index`], and without permission.
    pub fn set_up(&self, name: &str) -> io::Result<()> {
        let flags = self.raw_flags(name)? | libc::IFF_UP;
        self.ask(name, libc::SIOCSIFFLAGS, |r| {
            r.ifr_ifru.ifru_flags = flags as libc::c_short;
        })?;
        Ok(())
    }

    fn raw_flags(&self, name: &str) -> io::Result<libc::c_int> {
        let r = self.ask(name, libc::SIOCGIFFLAGS, |_| {})?;
        // SAFETY: this question's answer are the flags
        Ok(libc::c_int::from(unsafe { r.ifr_ifru.ifru_flags }))
    }

    /// Asks something about an interface; `fill` puts in what the question needs besides the name.
    fn ask(
        &self,
        name: &str,
        question: libc::Ioctl,
        fill: impl FnOnce(&mut libc::ifreq),
    ) -> io::Result<libc::ifreq> {
        if name.len() > crate::MAX_NAME {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        // SAFETY: all zero is a valid request: a name without letters, and numbers
        let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in r.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        fill(&mut r);
        // SAFETY: the questions of this module read and write one `ifreq`, and those of ethtool the structure that it
        // leads to, which is as large as the question wants; all live for the time of the call
        match unsafe { libc::ioctl(self.0.as_raw_fd(), question, &mut r) } {
            0.. => Ok(r),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
