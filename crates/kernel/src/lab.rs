//! The namespaces of a chain, and what is asked of them.

use crate::KernelError;
use crate::commands::{has, own_ip};
use crate::host;
use crate::plan::{
    MTU, entered, families, firewalls, formats, interface, networks, own, rounds, translates,
};
use crate::trace::Monitor;
use crate::wires::{End, Wires};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onefold_chain::import::RuleFormat;
use onefold_chain::kernel::{KernelForm, KernelFunction, KernelPlan};
use onefold_nf::NetSpace;
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_port_interface::Interface;
use onefold_port_packet::{Mode, PacketPort};
use onefold_runtime::Port;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames of one call.
const BATCH: usize = 64;
/// Longest wait for a marker: it is under way on the processor that waits, which others may need.
const PATIENCE: Duration = Duration::from_secs(20);
/// Ethernet type of markers: for local experiments (IEEE 802).
const MARKER: [u8; 2] = [0x88, 0xb5];
/// Bytes of a marker.
const MARKER_LEN: usize = 60;

/// Something that left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// The chain's port, by number.
    pub port: usize,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// A port of the chain: the tester's socket there, and one at the other end of the wire, which sends markers back.
struct Gate {
    near: PacketPort,
    far: PacketPort,
    /// What is written into frames' destinations: the interface's address.
    mac: [u8; 6],
    /// Only if they have this one; `None`: whatever they have.
    expected: Option<[u8; 6]>,
    /// A firewall is there.
    passes: bool,
    /// Frames leave by a router.
    routed: bool,
    mtu: usize,
}

/// A chain in the kernel.
pub struct Lab {
    /// By function.
    spaces: Vec<Arc<NetSpace>>,
    names: Vec<String>,
    gates: Vec<Option<Gate>>,
    rounds: usize,
    free: Vec<Pkt>,
    batch: Vec<Pkt>,
    mark: u64,
    late: u64,
    /// Families that all functions have rules or addresses for: IPv4, IPv6.
    families: [bool; 2],
    /// There are rules of iptables.
    iptables: bool,
    /// Functions whose rules ask about connections.
    trackers: Vec<usize>,
    /// Functions whose rules count packets, with their numbers and names of interfaces.
    counters: Vec<(KernelFunction, usize, Vec<String>)>,
    /// Rules ask whether connections are assured.
    asks_assured: bool,
    /// Rules translate addresses; do they draw ports?
    translates: Option<bool>,
    /// Networks of routers' interfaces.
    networks: Vec<(IpAddr, u8)>,
    own: Vec<IpAddr>,
    /// There are firewalls, and routers.
    has: (bool, bool),
}

/// Why a chain cannot be in the kernel here, with a cure.
pub fn obstacle(plan: &KernelPlan) -> Option<KernelError> {
    let missing = |what: &str, cure: &str| {
        Some(KernelError::Missing {
            what: what.to_string(),
            cure: cure.to_string(),
        })
    };
    if !nix::unistd::geteuid().is_root() {
        return missing(
            "comparing with the kernel makes network namespaces, which needs root",
            "type: sudo onefold compare kernel CHAIN",
        );
    }
    if !has("ip") {
        return missing("there is no 'ip'", "type: apt install iproute2");
    }
    if formats(plan).next().is_some() && !has("nft") {
        return missing("there is no 'nft'", "type: apt install nftables");
    }
    if formats(plan).any(|f| f == RuleFormat::Iptables) && !has("iptables-restore") {
        return missing(
            "there is no 'iptables-restore'",
            "type: apt install iptables",
        );
    }
    if firewalls(plan).any(|(_, w)| w.sets.is_some()) && !has("ipset") {
        return missing("there is no 'ipset'", "type: apt install ipset");
    }
    // what a rule draws cannot be compared packet by packet
    let mut drawn = firewalls(plan).filter_map(|(f, w)| Some((f, w.chance.clone()?)));
    drawn.next().map(|(f, file)| KernelError::Chance {
        function: f.name.clone(),
        file,
    })
}

impl Lab {
    /// Makes it.
    ///
    /// # Errors
    /// The kernel, or one of its tools, refuses something: what, and why.
    pub fn make(plan: &KernelPlan) -> Result<Lab, KernelError> {
        let wires = Wires::of(plan)?;
        let space = || {
            let made = NetSpace::new().map_err(KernelError::system("making a network namespace"));
            made.map(Arc::new)
        };
        let tester = space()?;
        // nothing is said there that was not sent
        crate::commands::settings(
            &tester,
            &[
                ("net/ipv6/conf/all/disable_ipv6", "1"),
                ("net/ipv6/conf/default/disable_ipv6", "1"),
            ],
        )?;
        let mut lab = Lab {
            spaces: Vec::new(),
            names: plan.functions.iter().map(|f| f.name.clone()).collect(),
            gates: plan.ports.iter().map(|_| None).collect(),
            rounds: rounds(plan),
            free: Vec::new(),
            batch: Vec::new(),
            mark: 0,
            late: 0,
            families: families(plan),
            networks: networks(plan),
            own: own(plan),
            has: (
                plan.functions
                    .iter()
                    .any(|f| matches!(f.form, KernelForm::Firewall(_))),
                plan.functions
                    .iter()
                    .any(|f| matches!(f.form, KernelForm::Router(_))),
            ),
            iptables: formats(plan).any(|f| f == RuleFormat::Iptables),
            trackers: crate::forget::trackers(plan).collect(),
            counters: Vec::new(),
            translates: translates(plan)?,
            asks_assured: firewalls(plan).any(|(_, w)| w.asks_assured),
        };
        let mut names = Vec::new();
        for f in &plan.functions {
            let s = space()?;
            host::before(f, &s)?;
            names.push(host::names(f)?);
            lab.spaces.push(s);
        }
        for (f, all) in names.iter().enumerate() {
            for port in 0..all.len() {
                lab.wire(plan, &wires, &names, (f, port), &tester)?;
            }
        }
        for ((f, space), names) in plan.functions.iter().zip(&lab.spaces).zip(&names) {
            host::configure(f, space, names)?;
        }
        let functions = plan.functions.iter().zip(names).enumerate();
        let counts = |f: &KernelFunction| matches!(&f.form, KernelForm::Firewall(w) if w.counts);
        lab.counters = functions
            .filter(|(_, (f, _))| counts(f))
            .map(|(i, (f, names))| (f.clone(), i, names))
            .collect();
        Ok(lab)
    }

    /// Lays the wire at a function's port, if that has not been done from its other end.
    fn wire(
        &mut self,
        plan: &KernelPlan,
        wires: &Wires,
        names: &[Vec<String>],
        (f, port): (usize, usize),
        tester: &Arc<NetSpace>,
    ) -> Result<(), KernelError> {
        let (Some(function), Some(space)) = (plan.functions.get(f), self.spaces.get(f)) else {
            return Ok(());
        };
        let name = names
            .get(f)
            .and_then(|n| n.get(port))
            .cloned()
            .unwrap_or_default();
        let (mac, mtu) = interface(plan, (f, port));
        let ours = format!("link add {name} address {mac} mtu {mtu}");
        let up = |name: &str| {
            vec![
                format!("link set {name} arp off"),
                format!("link set {name} up"),
            ]
        };
        match wires.peers.get(&(f, port)) {
            // laid already
            Some(End::Function(g, q)) if (*g, *q) < (f, port) => Ok(()),
            None => {
                let all = [vec![format!("{ours} type dummy")], up(&name)].concat();
                own_ip(&function.name, space, false, &all)
            }
            Some(End::Function(g, q)) => {
                let Some(other) = self.spaces.get(*g) else {
                    return Ok(());
                };
                let peer = names
                    .get(*g)
                    .and_then(|n| n.get(*q))
                    .cloned()
                    .unwrap_or_default();
                let (_, mtu) = interface(plan, (*g, *q));
                // both ends have one address: without ARP an interface sends to its own
                let add = format!(
                    "{ours} type veth peer name {peer} address {mac} mtu {mtu} netns {}",
                    other.path()
                );
                own_ip(
                    &function.name,
                    space,
                    false,
                    &[vec![add], up(&name)].concat(),
                )?;
                own_ip(&function.name, other, false, &up(&peer))
            }
            Some(End::Chain(i)) => {
                let peer = format!("t{i}");
                let add = format!(
                    "{ours} type veth peer name {peer} mtu {MTU} netns {}",
                    tester.path()
                );
                own_ip(
                    &function.name,
                    space,
                    false,
                    &[vec![add], up(&name)].concat(),
                )?;
                own_ip(&function.name, tester, false, &up(&peer))?;
                let routed = matches!(function.form, KernelForm::Router(_));
                let gate = Gate {
                    near: open(tester, &peer)?,
                    far: open(space, &name)?,
                    mac: mac
                        .parse::<onefold_packet::EtherAddr>()
                        .map_or([0; 6], |m| m.0),
                    expected: wires.expected(plan, (f, port)),
                    passes: !routed,
                    routed,
                    mtu: usize::from(entered(plan, wires, (f, port))),
                };
                if let Some(g) = self.gates.get_mut(*i) {
                    *g = Some(gate);
                }
                Ok(())
            }
        }
    }

    /// Starts to follow packets through rules of nftables, and those of iptables that are some of nftables.
    ///
    /// # Errors
    /// `nft` cannot be started.
    pub(crate) fn monitors(&self) -> Result<Vec<Monitor>, KernelError> {
        let all = self.names.iter().zip(&self.spaces);
        all.map(|(name, space)| Monitor::start(name, space))
            .collect()
    }

    /// Which families are compared: IPv4, IPv6.
    pub fn families(&self) -> [bool; 2] {
        self.families
    }

    /// Own addresses of the firewall that translates.
    pub(crate) fn own(&self) -> &[IpAddr] {
        &self.own
    }

    /// Networks of routers' interfaces.
    pub(crate) fn networks(&self) -> &[(IpAddr, u8)] {
        &self.networks
    }

    /// Are there firewalls, and routers, in the chain?
    pub(crate) fn has(&self) -> (bool, bool) {
        self.has
    }

    /// Do rules ask about connections?
    pub(crate) fn tracks(&self) -> bool {
        !self.trackers.is_empty()
    }

    /// Do rules ask whether connections are assured?
    pub(crate) fn asks_assured(&self) -> bool {
        self.asks_assured
    }

    /// Do rules translate addresses, and if so, do they draw ports whatever a packet has?
    pub(crate) fn translates(&self) -> Option<bool> {
        self.translates
    }

    /// Do rules count packets?
    pub(crate) fn counts(&self) -> bool {
        !self.counters.is_empty()
    }

    /// Does what becomes of a packet hang on those before it?
    pub(crate) fn remembers(&self) -> bool {
        self.tracks() || self.counts()
    }

    /// The kernel forgets all connections, and what rules have counted.
    ///
    /// # Errors
    /// It refuses.
    pub(crate) fn flush(&self) -> Result<(), KernelError> {
        for (f, number, names) in &self.counters {
            if let Some(space) = self.spaces.get(*number) {
                host::anew(f, space, names)?;
            }
        }
        let spaces = self.trackers.iter().filter_map(|f| self.spaces.get(*f));
        // Bound: the functions
        for space in spaces {
            crate::forget::forget(space)?;
        }
        Ok(())
    }

    /// Are there rules of iptables?
    pub(crate) fn iptables(&self) -> bool {
        self.iptables
    }

    /// Most bytes of an IP packet that can enter at a port; 0 where nothing can.
    pub fn mtu(&self, port: usize) -> usize {
        self.gate(port).map_or(0, |g| g.mtu)
    }

    /// Is there a firewall at a port of the chain?
    pub fn passes(&self, port: usize) -> bool {
        self.gate(port).is_some_and(|g| g.passes)
    }

    /// Do frames that leave at a port come from a router, whose address they have?
    pub fn routed(&self, port: usize) -> bool {
        self.gate(port).is_some_and(|g| g.routed)
    }

    fn gate(&self, port: usize) -> Option<&Gate> {
        self.gates.get(port).and_then(Option::as_ref)
    }

    /// Frames that came when nothing was under way any more: what they came of is not known.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Sends a frame into the chain at a port; what left until all that came of it has been worked on, port by port in
    /// the order in which it left.
    ///
    /// # Errors
    /// A socket fails, loses frames, or a marker does not come back.
    pub fn exchange(&mut self, port: usize, frame: &[u8]) -> Result<Vec<Left>, KernelError> {
        let mut left = Vec::new();
        self.collect(&mut left)?;
        self.late += left.len() as u64;
        left.clear();
        let Some(gate) = self.gates.get_mut(port).and_then(Option::as_mut) else {
            return Ok(left);
        };
        let mut sent = frame.to_vec();
        if let Some(to) = sent.get_mut(..6)
            && gate.passes
            && gate.expected.is_none_or(|e| to == e)
        {
            to.copy_from_slice(&gate.mac);
        }
        send(&mut gate.near, &sent)?;
        for _ in 0..self.rounds {
            for far in [false, true] {
                self.mark += 1;
                let marker = marker(self.mark);
                let Some(gate) = self.gates.get_mut(port).and_then(Option::as_mut) else {
                    return Ok(left);
                };
                let (from, to) = match far {
                    false => (&mut gate.near, &mut gate.far),
                    true => (&mut gate.far, &mut gate.near),
                };
                send(from, &marker)?;
                // at the far end the packet itself comes by
                let into = far.then_some(&mut left);
                wait(to, &marker, (&mut self.free, &mut self.batch), (port, into))?;
            }
        }
        self.collect(&mut left)?;
        self.losses()?;
        Ok(left)
    }

    /// Adds what has come to the tester's sockets.
    fn collect(&mut self, left: &mut Vec<Left>) -> Result<(), KernelError> {
        for (port, gate) in self.gates.iter_mut().enumerate() {
            let Some(gate) = gate else { continue };
            // Bound: what is in a socket's buffer; nobody sends meanwhile
            while take(&mut gate.near, (&mut self.free, &mut self.batch), |bytes| {
                if !chatter(bytes) {
                    left.push(Left {
                        port,
                        bytes: bytes.to_vec(),
                    });
                }
                false
            })?
            .0 > 0
            {}
        }
        Ok(())
    }

    fn losses(&self) -> Result<(), KernelError> {
        for gate in self.gates.iter().flatten() {
            if let Some(l) = gate
                .near
                .losses()
                .into_iter()
                .chain(gate.far.losses())
                .next()
            {
                return Err(KernelError::Lost {
                    packets: l.packets,
                    reason: l.reason,
                });
            }
        }
        Ok(())
    }
}

fn open(space: &Arc<NetSpace>, name: &str) -> Result<PacketPort, KernelError> {
    let open = || -> Result<PacketPort, KernelError> {
        let interface = Interface::find(name)?;
        let mut port = PacketPort::open(name, interface, Mode::Vectors(BATCH))?;
        port.start(true)?;
        Ok(port)
    };
    space
        .within(open)
        .map_err(KernelError::system("entering a network namespace"))?
}

fn send(port: &mut PacketPort, frame: &[u8]) -> Result<(), KernelError> {
    let mut one: Vec<Pkt> = vec![Box::new(Packet::from_slice(frame))];
    port.transmit(&mut one, Timestamp::ZERO)?;
    // Bound: an interface of this kind takes a frame at once, or loses it
    for _ in 0..1000 {
        if port.backlog() == 0 {
            return Ok(());
        }
        port.flush()?;
    }
    Err(KernelError::Lost {
        packets: 1,
        reason: "an interface takes no frames",
    })
}

fn marker(number: u64) -> Vec<u8> {
    let mut m = vec![0xff; 6];
    m.extend([0x02, 0x0f, 0, 0, 0, 1]);
    m.extend(MARKER);
    m.extend(number.to_be_bytes());
    m.resize(MARKER_LEN, 0);
    m
}

/// What the kernel says of its own accord, in spite of all settings: reports of groups (RFC 3810), which are not
/// forwarded and so never what came of a packet.
fn chatter(b: &[u8]) -> bool {
    let v6 = b.get(12..14) == Some(&[0x86, 0xdd]);
    let link_group = b.get(38..40) == Some(&[0xff, 0x02]);
    // behind a hop-by-hop option, the router alert
    v6 && link_group && b.get(20) == Some(&0) && matches!(b.get(62), Some(130..=132 | 143))
}

/// Takes what has come; `is` sees each frame, and ends it with true. How many there were, and whether it was ended.
fn take(
    port: &mut PacketPort,
    (free, batch): (&mut Vec<Pkt>, &mut Vec<Pkt>),
    mut is: impl FnMut(&[u8]) -> bool,
) -> Result<(usize, bool), KernelError> {
    while free.len() < BATCH {
        free.push(Box::new(Packet::from_slice(&[])));
    }
    port.poll(free, batch, BATCH)?;
    let n = batch.len();
    let mut ended = false;
    for p in batch.iter() {
        ended |= is(p.data());
    }
    free.append(batch);
    Ok((n, ended))
}

/// Waits for a marker; other frames go to `into`, if they are wanted.
fn wait(
    port: &mut PacketPort,
    marker: &[u8],
    (free, batch): (&mut Vec<Pkt>, &mut Vec<Pkt>),
    (number, mut into): (usize, Option<&mut Vec<Left>>),
) -> Result<(), KernelError> {
    let begun = Instant::now();
    loop {
        let (n, came) = take(port, (&mut *free, &mut *batch), |bytes| {
            if bytes == marker {
                return true;
            }
            if let Some(into) = into.as_mut()
                && !chatter(bytes)
            {
                into.push(Left {
                    port: number,
                    bytes: bytes.to_vec(),
                });
            }
            false
        })?;
        if came {
            return Ok(());
        }
        if n > 0 {
            continue;
        }
        if begun.elapsed() > PATIENCE {
            return Err(KernelError::Silent {
                seconds: PATIENCE.as_secs(),
            });
        }
        if let Some(d) = port.descriptor() {
            let mut fds = [PollFd::new(d, PollFlags::POLLIN)];
            // whatever it says, the socket is asked again
            let _ = poll(&mut fds, PollTimeout::from(10u8));
        }
    }
}
