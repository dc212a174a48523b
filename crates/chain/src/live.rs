//! Chains whose ports are network interfaces: which function's port is at the interface, and what it takes from it.
//!
//! Behind a port of the chain there may be functions that no host knows of (firewall, dpi, monitor, vlan): frames
//! pass them as they are. The first other function on the way has MAC addresses: of a router, a NAT and a load
//! balancer the port there takes the interface's address and MTU, answers for its IP addresses, and asks for those of
//! its neighbours, instead of what the chain file says for captures, in which nobody answers. The MAC addresses of a
//! Click configuration are its own.

use crate::error::Reader;
use crate::file::{ChainFile, Function, PortSpec};
use crate::links::{Link, PortRef, parse_links, parse_port};
use crate::stitch::Chain;
use onefold_packet::EtherAddr;
use std::collections::{HashMap, HashSet};

/// A port of a chain that is a network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivePort {
    /// The chain's port.
    pub port: String,
    /// The function's port takes this MAC address; `None`: it has the chain file's.
    pub mac: Option<EtherAddr>,
    /// Most bytes of an IP packet there.
    pub mtu: u32,
    /// MAC addresses of neighbours are asked for; if not, they are those of the chain file.
    pub learns: bool,
}

/// What became of a port that is an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The chain's port.
    pub port: String,
    /// The function's port whose addresses are used there (`router[0]`), and its kind; `None`: frames pass as they
    /// are, or all functions there are Click configurations.
    pub at: Option<(String, &'static str)>,
    /// The interface must take IP packets of so many bytes.
    pub mtu: u32,
}

impl Attached {
    /// The element that asks for the MAC addresses of IPv4 neighbours there, if neighbours are asked for: its table
    /// is emptied (handler `clear`) when the link comes back.
    pub fn asks(&self) -> Option<String> {
        let (at, _) = self.at.as_ref()?;
        let (function, port) = at.split_once('[')?;
        Some(format!("{function}/arpq{}", port.trim_end_matches(']')))
    }
}

/// The chain's live ports by the function's port.
#[derive(Debug, Default)]
pub struct Live {
    pub(crate) ports: Vec<LivePort>,
    at: HashMap<(String, usize), LivePort>,
    attached: Vec<Attached>,
}

impl Live {
    /// These ports are interfaces.
    pub(crate) fn new(ports: &[LivePort]) -> Live {
        Live {
            ports: ports.to_vec(),
            ..Live::default()
        }
    }

    /// What is at a function's port.
    pub(crate) fn at(&self, function: &str, port: usize) -> Option<&LivePort> {
        self.at.get(&(function.to_string(), port))
    }

    /// What became of them, in this chain. A Click configuration has no chain file that says where they are.
    pub(crate) fn attached_in(self, chain: &Chain) -> Vec<Attached> {
        let unread = self.attached.is_empty();
        match chain.functions.first() {
            Some(f) if f.kind == "click" && unread => {
                let plain = self.ports.into_iter().map(|l| Attached {
                    port: l.port,
                    at: None,
                    mtu: 0,
                });
                plain.collect()
            }
            _ => self.attached,
        }
    }

    /// A function says which MTU it needs at a port.
    pub(crate) fn needs(&mut self, function: &str, port: usize, mtu: u32) {
        let name = format!("{function}[{port}]");
        let here = |a: &&mut Attached| a.at.as_ref().is_some_and(|(at, _)| *at == name);
        for a in self
            .attached
            .iter_mut()
            .filter_map(|a| Some(a).filter(here))
        {
            a.mtu = a.mtu.max(mtu);
        }
    }
}

/// Finds the functions' ports that are at interfaces.
pub(crate) fn attach(doc: &ChainFile, reader: &mut Reader) {
    if reader.live.ports.is_empty() {
        return;
    }
    let links = links(doc);
    for live in reader.live.ports.clone() {
        // what is wrong with ports and links is said where they are read
        let Some(spec) = doc.ports.get(&live.port) else {
            continue;
        };
        let begins: Vec<PortRef> = match &spec.value {
            PortSpec::Both(t) => parse_port(t).into_iter().collect(),
            PortSpec::Apart(a) => {
                let both = a.input.iter().chain(&a.output);
                both.filter_map(|t| parse_port(t).ok()).collect()
            }
        };
        let mut found = None;
        for at in begins {
            if let Some((at, kind)) = first_addressed(doc, &links, at) {
                found.get_or_insert((at.to_string(), kind));
                (reader.live.at).insert((at.function, at.port), live.clone());
            }
        }
        reader.live.attached.push(Attached {
            port: live.port,
            at: found,
            mtu: 0,
        });
    }
}

/// The functions' ports with addresses at the chain's edge.
pub(crate) fn edges(doc: &ChainFile) -> Vec<PortRef> {
    let links = links(doc);
    let begins = doc.ports.values().flat_map(|spec| match &spec.value {
        PortSpec::Both(t) => vec![t],
        PortSpec::Apart(a) => a.input.iter().chain(&a.output).collect(),
    });
    let refs = begins.filter_map(|t| parse_port(t).ok());
    refs.filter_map(|at| Some(first_addressed(doc, &links, at)?.0))
        .collect()
}

/// All ports of functions that the chain file connects to something, or calls unused.
pub(crate) fn wired(doc: &ChainFile) -> HashSet<PortRef> {
    let links = links(doc).into_iter().flat_map(|l| [l.from, l.to]);
    let ports = doc.ports.values().flat_map(|spec| match &spec.value {
        PortSpec::Both(t) => vec![t],
        PortSpec::Apart(a) => a.input.iter().chain(&a.output).collect(),
    });
    let said = ports.chain(doc.unused.iter().map(|u| &u.value));
    links
        .chain(said.filter_map(|t| parse_port(t).ok()))
        .collect()
}

/// All links, those between repeated functions too.
fn links(doc: &ChainFile) -> Vec<Link> {
    let mut all: Vec<Link> = Vec::new();
    for l in &doc.links {
        all.extend(parse_links(&l.value).into_iter().flatten());
    }
    for (name, f) in &doc.functions {
        let (Some(n), Some(l)) = (f.value.repeat, &f.value.link) else {
            continue;
        };
        let arrow = if l.value.contains("<->") { "<->" } else { "->" };
        let Some((a, b)) = l.value.split_once(arrow) else {
            continue;
        };
        for i in 1..n.min(crate::load::MAX_FUNCTIONS as u32) {
            let text = format!("{name}{i}{} {arrow} {}{name}{}", a.trim(), b.trim(), i + 1);
            all.extend(parse_links(&text).into_iter().flatten());
        }
    }
    all
}

/// The declaration of a function, which may be one of many.
fn declared<'a>(doc: &'a ChainFile, name: &str) -> Option<&'a Function> {
    if let Some(f) = doc.functions.get(name) {
        return Some(&f.value);
    }
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let f = &doc.functions.get(base)?.value;
    f.repeat.map(|_| f)
}

/// The first port with MAC addresses on the way from this one on, and the kind of its function.
fn first_addressed(
    doc: &ChainFile,
    links: &[Link],
    mut at: PortRef,
) -> Option<(PortRef, &'static str)> {
    // Bound: a way that passes more functions than there are goes round
    for _ in 0..crate::load::MAX_FUNCTIONS {
        let f = declared(doc, &at.function)?;
        let kinds = [
            ("router", f.router.is_some()),
            ("nat", f.nat.is_some()),
            ("load-balancer", f.load_balancer.is_some()),
        ];
        if let Some((kind, _)) = kinds.iter().find(|(_, is)| *is) {
            return Some((at, kind));
        }
        let passes =
            f.firewall.is_some() || f.dpi.is_some() || f.monitor.is_some() || f.vlan.is_some();
        if !passes || at.port > 1 {
            return None;
        }
        let other = PortRef {
            port: 1 - at.port,
            ..at
        };
        at = links.iter().find_map(|l| match (&l.from, &l.to) {
            (a, b) if *a == other => Some(b.clone()),
            (a, b) if *b == other => Some(a.clone()),
            _ => None,
        })?;
    }
    None
}
