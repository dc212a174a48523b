//! Network interfaces of the system: name, index, MAC address, MTU, state, addresses; and what keeps one from being a
//! port, with what to type against it.
//!
//! - [`Interface::find`] reads what there is to know, [`Interface::check`] says what is wrong ([`InterfaceError`]).
//! - [`Control`] asks again, later and often: it keeps the socket that the questions go through.
//! - [`finish`] finishes the checksums that a virtual interface hands over unfinished.
//!
//! All `unsafe` code is in `control` and `promiscuous`.
//!
//! Everything is about the network namespace that the calling thread is in.
#![deny(unsafe_code)]

mod control;
mod error;
pub mod finish;
mod promiscuous;

pub use control::Control;
pub use error::InterfaceError;
pub use promiscuous::Promiscuous;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use onefold_packet::EtherAddr;
use std::net::IpAddr;

/// Most bytes of an interface's name (`IFNAMSIZ` without the zero behind it).
pub const MAX_NAME: usize = 15;

/// What is known of a network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number in its namespace.
    pub index: u32,
    /// Its MAC address.
    pub mac: EtherAddr,
    /// Most bytes of a packet, the Ethernet header not among them.
    pub mtu: u32,
    /// The administrator has set it up.
    pub up: bool,
    /// It has a carrier.
    pub running: bool,
    /// Its IP addresses, those that are good on their link only not among them.
    pub addresses: Vec<IpAddr>,
    /// The kernel routes what comes in there: IPv4, IPv6.
    pub forwards: [bool; 2],
}

/// What a port wants of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Least MTU, in bytes.
    pub mtu: u32,
    /// It may have IP addresses, and the kernel may route what comes in there, although the chain does so, too.
    pub kernel_may_share: bool,
}

impl Interface {
    /// The interface of this name.
    ///
    /// # Errors
    /// There is none, it is no Ethernet interface, or the system does not answer.
    pub fn find(name: &str) -> Result<Interface, InterfaceError> {
        let system = |doing| {
            let name = name.to_string();
            move |error| InterfaceError::System { name, doing, error }
        };
        if name.is_empty() || name.len() > MAX_NAME || name.contains(['/', '\0', ' ']) {
            return Err(InterfaceError::NoName {
                name: name.to_string(),
            });
        }
        let control = Control::open().map_err(system("opening a socket"))?;
        let index = control.index(name).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => InterfaceError::Missing {
                name: name.to_string(),
                known: names(),
            },
            _ => system("asking for its number")(e),
        })?;
        let Some(mac) = control
            .mac(name)
            .map_err(system("asking for its address"))?
        else {
            return Err(InterfaceError::NotEthernet {
                name: name.to_string(),
            });
        };
        let flags = control
            .flags(name)
            .map_err(system("asking for its state"))?;
        Ok(Interface {
            name: name.to_string(),
            index,
            mac: EtherAddr(mac),
            mtu: control.mtu(name).map_err(system("asking for its MTU"))?,
            up: flags.up,
            running: flags.running,
            addresses: addresses(name),
            forwards: ["ipv4", "ipv6"].map(|family| forwards(family, name)),
        })
    }

    /// Can it be a port of a chain?
    ///
    /// # Errors
    /// What is wrong, with what to type.
    pub fn check(&self, needs: Needs) -> Result<(), InterfaceError> {
        let name = self.name.clone();
        if !self.up {
            return Err(InterfaceError::Down { name });
        }
        if self.mtu < needs.mtu {
            return Err(InterfaceError::SmallMtu {
                name,
                mtu: self.mtu,
                needed: needs.mtu,
            });
        }
        if needs.kernel_may_share {
            return Ok(());
        }
        if let Some(address) = self.addresses.first() {
            return Err(InterfaceError::HasAddress {
                name,
                address: *address,
            });
        }
        let routed = ["ipv4", "ipv6"].iter().zip(self.forwards).find(|f| f.1);
        match routed {
            Some((family, _)) => Err(InterfaceError::Forwards { name, family }),
            None => Ok(()),
        }
    }
}

/// The names of all interfaces, sorted.
pub fn names() -> Vec<String> {
    let all = nix::net::if_::if_nameindex();
    let mut names: Vec<String> = (all.iter().flat_map(|l| l.iter()))
        .map(|i| i.name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The IP addresses of an interface, without those that are good on their link only: the kernel gives itself such a
/// one on every IPv6 interface.
fn addresses(name: &str) -> Vec<IpAddr> {
    let all: Result<_, Errno> = getifaddrs();
    let mine = all
        .into_iter()
        .flatten()
        .filter(|a| a.interface_name == name);
    let ip = mine.filter_map(|a| {
        let a = a.address?;
        let v4 = a.as_sockaddr_in().map(|s| IpAddr::V4(s.ip()));
        v4.or_else(|| a.as_sockaddr_in6().map(|s| IpAddr::V6(s.ip())))
    });
    let near = |a: &IpAddr| matches!(a, IpAddr::V6(a) if a.segments()[0] & 0xffc0 == 0xfe80);
    ip.filter(|a| !near(a)).collect()
}

/// Does the kernel route what comes in there? What cannot be read is taken for no.
fn forwards(family: &str, name: &str) -> bool {
    let file = format!("/proc/sys/net/{family}/conf/{name}/forwarding");
    std::fs::read_to_string(file).is_ok_and(|s| s.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        Interface {
            name: "eth7".to_string(),
            index: 7,
            mac: EtherAddr([2, 0, 0, 0, 0, 7]),
            mtu: 1400,
            up: true,
            running: true,
            addresses: Vec::new(),
            forwards: [false; 2],
        }
    }

    #[test]
    fn who_is_missing_is_said_with_those_that_there_are() {
        let e = Interface::find("onefold-no-such").unwrap_err();
        let InterfaceError::Missing { known, .. } = &e else {
            panic!("{e:?}")
        };
        assert!(known.iter().any(|n| n == "lo"), "{known:?}");
        assert!(e.to_string().contains("ip link"), "{e}");
    }

    #[test]
    fn names_that_cannot_be() {
        for n in ["", "a/b", "more-than-fifteen-bytes"] {
            let e = Interface::find(n).unwrap_err();
            assert!(matches!(e, InterfaceError::NoName { .. }), "{n}: {e}");
        }
    }

    #[test]
    fn loopback_is_not_ethernet() {
        let e = Interface::find("lo").unwrap_err();
        assert!(matches!(e, InterfaceError::NotEthernet { .. }), "{e}");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_type() {
        let good = interface();
        let needs = |mtu| Needs {
            mtu,
            ..Needs::default()
        };
        assert!(good.check(needs(1400)).is_ok());
        let small = good.check(needs(1500)).unwrap_err();
        assert!(
            small.to_string().contains("ip link set dev eth7 mtu 1500"),
            "{small}"
        );
        let down = Interface {
            up: false,
            ..interface()
        };
        let e = down.check(Needs::default()).unwrap_err();
        assert!(e.to_string().contains("ip link set dev eth7 up"), "{e}");
        let addressed = Interface {
            addresses: vec![[192, 0, 2, 7].into()],
            ..interface()
        };
        let e = addressed.check(Needs::default()).unwrap_err();
        assert!(e.to_string().contains("ip address flush dev eth7"), "{e}");
        let may = Needs {
            kernel_may_share: true,
            ..Needs::default()
        };
        assert!(addressed.check(may).is_ok());
        let routed = Interface {
            forwards: [false, true],
            ..interface()
        };
        let e = routed.check(Needs::default()).unwrap_err();
        assert!(
            e.to_string()
                .contains("sysctl -w net.ipv6.conf.eth7.forwarding=0"),
            "{e}"
        );
        assert!(routed.check(may).is_ok());
    }
}
