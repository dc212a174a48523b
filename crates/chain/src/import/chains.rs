//! Chains of rules that jump to one another, as iptables and nftables have them; [`super::walk`] makes lists of them.

use super::asks::Ask;
use super::mark::{Change, MarkTest};
use super::nat::NatTarget;
use super::own::OwnTest;
use super::rule::{Devices, Verdict, Way};
use crate::rules::RulePlace;
use std::sync::Arc;

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Decides.
    Verdict(Verdict),
    /// In a table nat: decides what the connection's ends become.
    Nat(NatTarget),
    /// Leaves the chain.
    Return,
    /// Asks another chain and comes back if that does not decide.
    Jump(String),
    /// Asks another chain and leaves this one.
    Goto(String),
    /// Only counts or logs.
    Nothing,
}

/// A rule of a chain.
#[derive(Debug, Clone)]
pub struct ChainRule {
    /// Expressions that all must hold.
    pub tests: Vec<String>,
    /// Interfaces that must match.
    pub interfaces: Vec<InterfaceTest>,
    /// Addresses that must be of certain kinds, such as the host's own.
    pub own: Vec<OwnTest>,
    /// Marks that must match.
    pub marks: Vec<MarkTest>,
    /// What is asked of packets of which all this holds, one behind the other.
    pub asks: Vec<Ask>,
    /// What it changes of packets that match, before its target.
    pub changes: Vec<Change>,
    /// What it does.
    pub target: Target,
    /// What of it cannot be said; it stands in nobody's way where no packet comes to it.
    pub refused: Option<String>,
    /// Line, from 1.
    pub line: u32,
    /// Where it is.
    pub place: Option<Arc<RulePlace>>,
}

/// A condition on the interface that a packet came in by or goes out by.
#[derive(Debug, Clone)]
pub struct InterfaceTest {
    /// Out instead of in.
    pub out: bool,
    /// The opposite must hold.
    pub not: bool,
    /// Names; a `+` or `*` at the end stands for any end. Or groups, or types.
    pub names: Vec<String>,
    /// Of what.
    pub of: Property,
}

/// What of an interface is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Property {
    /// Its name.
    #[default]
    Name,
    /// The number of its group.
    Group,
    /// What it is, as nft calls it.
    Type,
}

/// The names of the interfaces at port 0 and port 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// At port 0.
    pub inside: Option<String>,
    /// At port 1.
    pub outside: Option<String>,
    /// The host's own addresses, of both.
    pub own: Vec<std::net::IpAddr>,
    /// Those of each port.
    pub at: [Vec<std::net::IpAddr>; 2],
    /// The same with the lengths of their networks' prefixes.
    pub networks: [Vec<(std::net::IpAddr, u8)>; 2],
    /// The group of the interface at each port.
    pub groups: [u32; 2],
    /// The smaller one of both ports' MTUs, if it is said.
    pub mtu: Option<u16>,
    /// Sets that rules ask for, if they are known.
    pub sets: Option<Arc<super::ipset::IpSets>>,
    /// Rules are wanted that no packet comes to, too.
    pub whole: bool,
}

/// Which way packets go, and which interfaces are known.
pub type At = (Way, Devices);

impl InterfaceTest {
    pub fn holds(&self, (way, devices): At, names: &Interfaces) -> bool {
        let known = match devices {
            Devices::Both => true,
            Devices::In | Devices::InLoop => !self.out,
            Devices::Out | Devices::OutLoop => self.out,
        };
        let looped = matches!(devices, Devices::InLoop | Devices::OutLoop);
        let port = usize::from((way == Way::Up) == self.out);
        let group = match looped {
            true => 0,
            false => names.groups[port],
        };
        let group = group.to_string();
        let name = match self.of {
            // there is no such interface at this hook: its name is empty
            Property::Name if !known => Some(""),
            Property::Name if looped => Some("lo"),
            Property::Name if port == 0 => names.inside.as_deref(),
            Property::Name => names.outside.as_deref(),
            // and of none, nothing holds
            Property::Group | Property::Type if !known => return false,
            Property::Group => Some(group.as_str()),
            Property::Type if looped => Some("loopback"),
            Property::Type => Some("ether"),
        };
        let is = name.is_some_and(|name| {
            self.names.iter().any(|n| match n.strip_suffix(['+', '*']) {
                Some(begin) => name.starts_with(begin),
                None => n == name,
            })
        });
        is != self.not
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it is not known yet, or not any more, an interface has no name.
    #[test]
    fn interfaces_that_are_not_known() {
        let names = Interfaces {
            inside: Some("eth1".into()),
            outside: Some("ppp0".into()),
            ..Interfaces::default()
        };
        let test = |out, not, name: &str| InterfaceTest {
            out,
            not,
            names: vec![name.into()],
            of: Property::Name,
        };
        let comes = test(false, false, "eth+");
        let leaves = test(true, true, "ppp0");
        for (way, devices, holds) in [
            (Way::Up, Devices::Both, (true, false)),
            (Way::Down, Devices::Both, (false, true)),
            (Way::Up, Devices::In, (true, true)),
            (Way::Up, Devices::Out, (false, false)),
            (Way::Down, Devices::Out, (false, true)),
            (Way::Up, Devices::OutLoop, (false, true)),
        ] {
            let at = (way, devices);
            let found = (comes.holds(at, &names), leaves.holds(at, &names));
            assert_eq!(found, holds, "{at:?}");
        }
        assert!(test(false, false, "lo").holds((Way::Up, Devices::InLoop), &names));
    }

    #[test]
    fn groups_and_types_of_interfaces() {
        let names = Interfaces {
            groups: [2, 0],
            ..Interfaces::default()
        };
        let test = |of, not, name: &str| InterfaceTest {
            out: false,
            not,
            names: vec![name.into()],
            of,
        };
        for (of, name, way, devices, holds) in [
            (Property::Group, "2", Way::Up, Devices::Both, (true, false)),
            (Property::Group, "2", Way::Down, Devices::In, (false, true)),
            (
                Property::Group,
                "0",
                Way::Up,
                Devices::InLoop,
                (true, false),
            ),
            // of no interface, nothing holds
            (
                Property::Group,
                "0",
                Way::Down,
                Devices::Out,
                (false, false),
            ),
            (
                Property::Type,
                "ether",
                Way::Down,
                Devices::Both,
                (true, false),
            ),
            (
                Property::Type,
                "loopback",
                Way::Up,
                Devices::InLoop,
                (true, false),
            ),
        ] {
            let at = (way, devices);
            let found = [false, true].map(|not| test(of, not, name).holds(at, &names));
            assert_eq!((found[0], found[1]), holds, "{of:?} {name} {at:?}");
        }
    }
}
