//! Conditions on addresses that only the router's own addresses and networks answer: `-m addrtype`, `-m rpfilter`,
//! nft's `fib`.
//!
//! Routes are not known here. A network of a port is reached by that port, everything else by port 1.

use super::chains::{At, Interfaces};
use super::rule::{Devices, Way};
use std::net::{IpAddr, Ipv4Addr};

/// A condition on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnTest {
    /// The source instead of the destination.
    pub src: bool,
    /// One of the interface that the packet came in by (false) or goes out by (true); of any, if not said.
    pub at: Option<bool>,
    /// The opposite must hold.
    pub not: bool,
    /// IPv6 instead of IPv4.
    pub six: bool,
    /// What it must be.
    pub kind: AddressKind,
}

/// What an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// One of these types.
    Types(Types),
    /// A packet to it would leave by the interface that the packet came in by.
    Reverse {
        /// By any.
        loose: bool,
        /// Own addresses are fine, too.
        own: bool,
    },
}

/// Types of addresses, as routes have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Types {
    /// The host's own.
    pub local: bool,
    /// All hosts of a network.
    pub broadcast: bool,
    /// A group.
    pub multicast: bool,
    /// None of these.
    pub unicast: bool,
    /// Of IPv6, own addresses are unicast, too (`-m addrtype`).
    pub wide: bool,
}

impl Types {
    /// By name, in small letters; `None` if nothing here has that type.
    pub fn add(&mut self, name: &str) -> Option<()> {
        match name {
            "local" => self.local = true,
            "broadcast" => self.broadcast = true,
            "multicast" => self.multicast = true,
            "unicast" => self.unicast = true,
            // there are no such routes here
            "anycast" | "blackhole" | "unreachable" | "prohibit" | "throw" | "nat" | "xresolve" => {
            }
            _ => return None,
        }
        Some(())
    }
}

impl OwnTest {
    /// Is the address one of the host's own?
    pub fn local(src: bool, six: bool) -> OwnTest {
        OwnTest {
            src,
            at: None,
            not: false,
            six,
            kind: AddressKind::Types(Types {
                local: true,
                ..Types::default()
            }),
        }
    }

    /// The expression, for packets that go this way.
    ///
    /// # Errors
    /// No address is known.
    pub fn test(self, at: At, names: &Interfaces) -> Result<String, String> {
        let test = match self.kind {
            AddressKind::Types(types) => self.types(types, at, names)?,
            AddressKind::Reverse { loose, own } => self.reverse((loose, own), at, names)?,
        };
        Ok(match self.not {
            true => format!("not {test}"),
            false => test,
        })
    }

    fn side(self) -> &'static str {
        if self.src { "src" } else { "dst" }
    }

    /// All own addresses must be known for it.
    fn known(self, names: &Interfaces) -> Result<(), String> {
        match names.own.iter().any(|a| a.is_ipv6() == self.six) {
            true => Ok(()),
            false => Err(
                "the rule asks for the router's own addresses: say them with \
                 'addresses: { inside: [192.168.1.1/24], outside: [203.0.113.1/24] }'"
                    .into(),
            ),
        }
    }

    fn types(self, types: Types, at: At, names: &Interfaces) -> Result<String, String> {
        if types.local || types.unicast || types.broadcast && !self.six {
            self.known(names)?;
        }
        let local = any(&self.own_addresses(at, names));
        let broadcast = any(&self.broadcasts(at, names));
        let side = self.side();
        let multicast = match self.six {
            false => format!("({side} net 224.0.0.0/4)"),
            true => format!("({side} net ff00::/8)"),
        };
        let mut all = Vec::new();
        if types.unicast {
            let none = match (self.six, types.wide) {
                (false, _) => format!("{local} or {broadcast} or {multicast}"),
                (true, false) => format!("{local} or {multicast} or {side} host ::"),
                (true, true) => format!("{multicast} or {side} host ::"),
            };
            all.push(format!("not ({none})"));
        }
        all.extend(types.local.then_some(local));
        all.extend(types.broadcast.then_some(broadcast));
        all.extend(types.multicast.then_some(multicast));
        Ok(any(&all))
    }

    /// The interface whose addresses count, if not all do: the port, or the loopback interface.
    fn interface(self, (way, devices): At) -> Option<Option<usize>> {
        let out = self.at?;
        Some(match devices {
            Devices::InLoop | Devices::OutLoop => None,
            _ => Some(usize::from((way == Way::Up) == out)),
        })
    }

    /// Tests for own addresses.
    fn own_addresses(self, at: At, names: &Interfaces) -> Vec<String> {
        let side = self.side();
        let of = |all: &[IpAddr]| -> Vec<String> {
            let ours = all.iter().filter(|a| a.is_ipv6() == self.six);
            ours.map(|a| format!("{side} host {a}")).collect()
        };
        let mut found = match self.interface(at) {
            None => of(&names.own),
            Some(Some(port)) => of(&names.at[port]),
            Some(None) => Vec::new(),
        };
        // the loopback interface has all of its networks
        if matches!(at.1, Devices::InLoop | Devices::OutLoop) {
            found.push(match self.six {
                false => format!("{side} net 127.0.0.0/8"),
                true => format!("{side} host ::1"),
            });
        }
        found
    }

    /// Tests for the addresses of all hosts of a network (`__inet_dev_addr_type`).
    fn broadcasts(self, at: At, names: &Interfaces) -> Vec<String> {
        if self.six {
            return Vec::new();
        }
        let side = self.side();
        let mut out = vec![
            format!("{side} host 0.0.0.0"),
            format!("{side} host 255.255.255.255"),
        ];
        let port = self.interface(at);
        let ports = [0, 1].into_iter().filter(|p| match port {
            None => true,
            Some(only) => only == Some(*p),
        });
        for (a, len) in ports.flat_map(|p| &names.networks[p]) {
            if let IpAddr::V4(a) = a
                && *len < 31
            {
                let hosts = u32::MAX.checked_shr((*len).into()).unwrap_or(0);
                let all = Ipv4Addr::from(u32::from(*a) | hosts);
                out.push(format!("{side} host {all}"));
            }
        }
        out
    }

    /// See [`AddressKind::Reverse`] (xt_rpfilter.c, nft_fib_ipv4.c).
    fn reverse(
        self,
        (loose, own): (bool, bool),
        (way, devices): At,
        names: &Interfaces,
    ) -> Result<String, String> {
        // what comes from the loopback interface is right
        if devices == Devices::InLoop {
            return Ok("true".into());
        }
        self.known(names)?;
        let side = self.side();
        let at = (way, devices);
        let everywhere = OwnTest { at: None, ..self };
        let mut ours = everywhere.own_addresses(at, names);
        ours.push(match self.six {
            false => format!("{side} net 127.0.0.0/8"),
            true => format!("{side} host ::1"),
        });
        let here = match loose {
            true => "true".to_string(),
            false => self.by_port(usize::from(way == Way::Down), names),
        };
        // by no route are these reached
        let mut never: Vec<String> = Vec::new();
        if !self.six {
            let named = everywhere.broadcasts(at, names).into_iter().skip(2);
            never.extend(named);
        }
        let test = match own {
            true => format!("({here} or {})", any(&ours)),
            false => {
                never.extend(ours);
                here
            }
        };
        Ok(match never.is_empty() {
            true => test,
            false => format!("({test} && not {})", any(&never)),
        })
    }

    /// A test for addresses that are reached by a port.
    fn by_port(self, port: usize, names: &Interfaces) -> String {
        let side = self.side();
        let mut all: Vec<(u8, usize, IpAddr)> = Vec::new();
        for (p, list) in names.networks.iter().enumerate() {
            let mine = list.iter().filter(|(a, _)| a.is_ipv6() == self.six);
            all.extend(mine.map(|(a, len)| (*len, p, *a)));
        }
        // longer prefixes are asked first, and so written last
        all.sort();
        let mut test = if port == 1 { "true" } else { "false" }.to_string();
        for (len, p, a) in all {
            let net = format!("{side} net {a}/{len}");
            test = match (p == port, test.as_str()) {
                (true, "true") | (false, "false") => continue,
                (true, "false") => format!("({net})"),
                (false, "true") => format!("(not {net})"),
                (true, _) => format!("({net} or {test})"),
                (false, _) => format!("(not {net} && {test})"),
            };
        }
        // neighbours are reached by each interface
        match self.six {
            true => format!("({test} or {side} net fe80::/10)"),
            false => test,
        }
    }
}

/// One of these holds.
fn any(tests: &[String]) -> String {
    match tests {
        [] => "false".into(),
        [one] if one.starts_with('(') || one.starts_with("not (") => one.clone(),
        all => format!("({})", all.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Interfaces {
        Interfaces {
            own: vec![
                "192.168.1.1".parse().unwrap(),
                "203.0.113.1".parse().unwrap(),
            ],
            at: [
                vec!["192.168.1.1".parse().unwrap()],
                vec!["203.0.113.1".parse().unwrap()],
            ],
            networks: [
                vec![("192.168.1.1".parse().unwrap(), 24)],
                vec![("203.0.113.1".parse().unwrap(), 24)],
            ],
            ..Interfaces::default()
        }
    }

    #[test]
    fn own_addresses_of_the_loopback_interface() {
        let names = Interfaces {
            own: vec!["192.168.1.1".parse().unwrap()],
            ..Interfaces::default()
        };
        let own = |at| OwnTest {
            at,
            ..OwnTest::local(false, false)
        };
        let test = |o: OwnTest, devices| o.test((Way::Up, devices), &names).unwrap();
        assert_eq!(test(own(None), Devices::Out), "(dst host 192.168.1.1)");
        assert_eq!(
            test(own(None), Devices::OutLoop),
            "(dst host 192.168.1.1 or dst net 127.0.0.0/8)"
        );
        assert_eq!(
            test(own(Some(false)), Devices::InLoop),
            "(dst net 127.0.0.0/8)"
        );
    }

    #[test]
    fn types_of_addresses() {
        let of = |list: &[&str], at| {
            let mut types = Types::default();
            list.iter().for_each(|n| types.add(n).unwrap());
            let kind = AddressKind::Types(types);
            let own = OwnTest {
                at,
                kind,
                ..OwnTest::local(false, false)
            };
            own.test((Way::Up, Devices::Both), &names()).unwrap()
        };
        assert_eq!(of(&["multicast"], None), "(dst net 224.0.0.0/4)");
        assert_eq!(
            of(&["broadcast"], Some(false)),
            "(dst host 0.0.0.0 or dst host 255.255.255.255 or dst host 192.168.1.255)"
        );
        assert_eq!(of(&["blackhole"], None), "false");
        assert!(of(&["unicast"], None).starts_with("not ((dst host 192.168.1.1 or "));
        assert!(Types::default().add("local!").is_none());
    }

    #[test]
    fn ways_back() {
        let of = |loose, own, way| {
            let test = OwnTest {
                kind: AddressKind::Reverse { loose, own },
                ..OwnTest::local(true, false)
            };
            test.test((way, Devices::In), &names()).unwrap()
        };
        let never = "not (src host 192.168.1.255 or src host 203.0.113.255 or src host 192.168.1.1 or src host \
                     203.0.113.1 or src net 127.0.0.0/8)";
        let (up, down) = ("src net 192.168.1.1/24", "src net 203.0.113.1/24");
        assert_eq!(
            of(false, false, Way::Up),
            format!("((not {down} && ({up})) && {never})")
        );
        assert_eq!(
            of(false, false, Way::Down),
            format!("(({down} or (not {up})) && {never})")
        );
        assert_eq!(of(true, false, Way::Up), format!("(true && {never})"));
        let own = of(false, true, Way::Up);
        assert!(
            own.starts_with(&format!(
                "(((not {down} && ({up})) or (src host 192.168.1.1 or "
            )),
            "{own}"
        );
    }
}
