//! Who takes packets in at a port, and whether it has what that takes.

use super::{Kind, PortArg};

/// Who takes packets in at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receivers {
    /// One, or several with a queue each.
    Queues(usize),
    /// So many, each with a socket of the one queue: a program in the driver says whose a frame is, by its tag.
    Tagged(usize),
}

impl Receivers {
    /// How many there are.
    pub fn count(self) -> usize {
        let (Receivers::Queues(n) | Receivers::Tagged(n)) = self;
        n
    }
}

impl PortArg {
    /// Can each of so many workers have a queue of its own there?
    ///
    /// # Errors
    /// Why not, in words.
    pub fn has_queues(&self, workers: usize) -> Result<(), String> {
        let port = &self.port;
        match &self.kind {
            Kind::Packet(..) | Kind::Memory(_) | Kind::Pcap(_) => Ok(()),
            Kind::Tap(_) => Err(format!("port {port}: a TAP interface has one queue")),
            Kind::Paced(..) => Err(format!("port {port}: frames in memory have one queue")),
            Kind::Xdp(d, o) if o.queue.is_some() => Err(format!(
                "port {port}: queue=N is one queue of {}",
                d.interface
            )),
            Kind::Xdp(d, _) => match onefold_port_xdp::queues(&d.interface) {
                Some(n) if n as usize != workers => Err(format!(
                    "port {port}: {} has {n} receive queues; as many as workers (or groups of flows) would give each \
                     its own, ethtool -L {} combined {workers} or rx {workers}",
                    d.interface, d.interface
                )),
                // one that is not there is said when it is opened
                _ => Ok(()),
            },
            Kind::Dpdk(_, s) if usize::from(s.queues) == workers => Ok(()),
            Kind::Dpdk(_, s) => Err(format!(
                "port {port}: worker-queues={workers} would give each worker a queue of {}",
                s.name
            )),
        }
    }

    /// Can a program in the driver say by a tag whose a frame is?
    ///
    /// # Errors
    /// Why not, in words.
    pub fn takes_tags(&self) -> Result<(), String> {
        let port = &self.port;
        match &self.kind {
            Kind::Memory(_) | Kind::Pcap(_) => Ok(()),
            Kind::Xdp(d, _) if d.keeps_mac => Err(format!(
                "port {port}: with mac=keep nobody knows which address a frame had before it was tagged"
            )),
            Kind::Xdp(_, o) if o.queue.is_some() => Err(format!(
                "port {port}: with queue=N frames of other queues go to the host, whatever their tag"
            )),
            Kind::Xdp(d, _) => match onefold_port_xdp::queues(&d.interface) {
                Some(n) if n > 1 => Err(format!(
                    "port {port}: {} has {n} receive queues, and a tag is for a socket of one: ethtool -L {} combined \
                     1 or rx 1",
                    d.interface, d.interface
                )),
                // one that is not there is said when it is opened
                _ => Ok(()),
            },
            Kind::Packet(d, _) => Err(format!(
                "port {port}: packet: has no program that looks at tags; use --port {port}=xdp:{}",
                d.interface
            )),
            Kind::Tap(_) | Kind::Paced(..) | Kind::Dpdk(..) => Err(format!(
                "port {port}: only xdp: ports have a program that looks at tags"
            )),
        }
    }
}
