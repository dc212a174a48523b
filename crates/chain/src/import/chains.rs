//! Chains of rules that jump to one another, as iptables and nftables have them; [`super::walk`] makes lists of them.

use super::limits::Rate;
use super::mark::{Change, MarkTest};
use super::nat::NatTarget;
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
    /// Addresses that must be the host's own.
    pub own: Vec<OwnTest>,
    /// Marks that must match.
    pub marks: Vec<MarkTest>,
    /// How often packets match of which all this holds.
    pub rate: Option<Rate>,
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
    /// Names; a `+` or `*` at the end stands for any end.
    pub names: Vec<String>,
}

/// A condition that an address is one of the host's own.
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
}

impl OwnTest {
    /// The expression, for packets that go this way.
    ///
    /// # Errors
    /// No address is known.
    pub fn test(self, (way, devices): At, names: &Interfaces) -> Result<String, String> {
        let of = |all: &[std::net::IpAddr]| -> Vec<String> {
            let side = if self.src { "src" } else { "dst" };
            let ours = all.iter().filter(|a| a.is_ipv6() == self.six);
            ours.map(|a| format!("{side} host {a}")).collect()
        };
        if of(&names.own).is_empty() {
            return Err(
                "the rule asks for the router's own addresses: say them with \
                 'addresses: { inside: [192.168.1.1/24], outside: [203.0.113.1/24] }'"
                    .into(),
            );
        }
        let found = match (self.at, devices) {
            // the loopback interface has all of its networks
            (at, Devices::InLoop | Devices::OutLoop) => {
                let side = if self.src { "src" } else { "dst" };
                let mut all = if at.is_none() {
                    of(&names.own)
                } else {
                    Vec::new()
                };
                all.push(match self.six {
                    false => format!("{side} net 127.0.0.0/8"),
                    true => format!("{side} host ::1"),
                });
                all
            }
            (None, _) => of(&names.own),
            (Some(out), _) => of(&names.at[usize::from((way == Way::Up) == out)]),
        };
        let test = match found.len() {
            0 => "false".to_string(),
            _ => format!("({})", found.join(" or ")),
        };
        Ok(if self.not {
            format!("not {test}")
        } else {
            test
        })
    }
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
    /// The smaller one of both ports' MTUs, if it is said.
    pub mtu: Option<u16>,
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
        let name = match (way == Way::Up, self.out) {
            // there is no such interface at this hook: its name is empty
            _ if !known => Some(""),
            _ if matches!(devices, Devices::InLoop | Devices::OutLoop) => Some("lo"),
            (true, false) | (false, true) => names.inside.as_deref(),
            _ => names.outside.as_deref(),
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
    fn own_addresses_of_the_loopback_interface() {
        let names = Interfaces {
            own: vec!["192.168.1.1".parse().unwrap()],
            ..Interfaces::default()
        };
        let own = |at| OwnTest {
            src: false,
            at,
            not: false,
            six: false,
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
}
