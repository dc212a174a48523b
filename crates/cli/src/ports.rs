//! `--port PORT=KIND:NAME`: ports that are not captures bound by `--in` and `--out`.

mod paced;
mod receivers;

pub use receivers::Receivers;

use crate::files;
use anyhow::{Result, bail};
use onefold_packet::EtherAddr;
use onefold_port_dpdk::{Dpdk, DpdkPort, Spec};
use onefold_port_interface::{Interface, Needs};
use onefold_port_packet::{MAX_BATCH, MAX_SLOTS, MIN_SLOTS, Mode, PacketPort, SLOTS};
use onefold_port_tap::TapPort;
use onefold_port_xdp::{MAX_RING, MIN_RING, Offload, Options, Umem, XdpPort};
use onefold_runtime::{CapturePort, Keep, MemoryPort, Port, Share};

/// What is behind a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Frames in memory: those of a capture, read before the clock starts, or none. What leaves is copied to memory,
    /// where the last 256 KiB of it stay.
    Memory(Option<String>),
    /// Frames of a capture in memory that arrive in real time, so many a second, again and again.
    Paced(Device, paced::Paced),
    /// A capture whose frames arrive; what leaves is counted.
    Pcap(String),
    /// A network interface through packet sockets.
    Packet(Device, Mode),
    /// A network interface through AF_XDP.
    Xdp(Device, Options),
    /// A TAP interface: the host is at the other end.
    Tap(Device),
    /// A device of DPDK; the interface's name is the device's.
    Dpdk(Device, Spec),
}

/// A network interface, and how the chain stands to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The interface's name.
    pub interface: String,
    /// The function at the port keeps the chain file's MAC address.
    pub keeps_mac: bool,
    /// Neighbours have the chain file's MAC addresses.
    pub keeps_neighbours: bool,
    /// The kernel may have addresses there, too.
    pub shared: bool,
}

/// A port and what is behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortArg {
    /// The chain's port.
    pub port: String,
    /// What is behind it.
    pub kind: Kind,
}

/// Frames with one system call in `mode=mmsg`, if nobody says otherwise.
const VECTORS: usize = 32;

/// Reads `PORT=KIND:NAME`.
///
/// # Errors
/// What is wrong, in words.
pub fn port_arg(s: &str) -> Result<PortArg, String> {
    let shape = || {
        format!(
            "expected PORT=KIND:NAME, for instance lan=packet:eth1 or lan=memory:lan.pcap, not '{s}'"
        )
    };
    let (port, rest) = s.split_once('=').ok_or_else(shape)?;
    let (kind, name) = rest.split_once(':').ok_or_else(shape)?;
    let kind = match (kind, name) {
        ("memory", "") => Kind::Memory(None),
        ("memory", file) => match file.rsplit_once(",rate=") {
            None => Kind::Memory(Some(file.to_string())),
            Some((file, rate)) => paced::parse(port, file, rate)?,
        },
        ("pcap", "") => return Err("pcap: wants a file, pcap:FILE".to_string()),
        ("pcap", file) => Kind::Pcap(file.to_string()),
        ("packet", rest) => packet(rest)?,
        ("xdp", rest) => xdp(rest)?,
        ("dpdk", rest) => dpdk(rest)?,
        ("tap", rest) => {
            let (device, left) = device("tap", rest)?;
            match left.first() {
                Some((k, v)) => return Err(unknown("tap", k, v)),
                None => Kind::Tap(device),
            }
        }
        (other, _) => {
            return Err(format!(
                "'{other}' is no kind of port; there are packet:, xdp:, dpdk:, tap:, memory: and pcap:"
            ));
        }
    };
    Ok(PortArg {
        port: port.to_string(),
        kind,
    })
}

fn unknown(kind: &str, key: &str, value: &str) -> String {
    let more = match kind {
        "packet" => "mode=ring, ring=64 to ring=65536, mode=mmsg, batch=1 to batch=256, ",
        "xdp" => {
            "queue=N, mode=auto, mode=copy, mode=zerocopy, ring=64 to ring=8192 (powers of two), "
        }
        _ => "",
    };
    format!(
        "{kind}: knows no '{key}={value}'; it knows {more}mac=keep, neighbours=keep and kernel=shared"
    )
}

/// What of `KEY=VALUE,...` is left.
type Left<'a> = Vec<(&'a str, &'a str)>;

/// Reads `IF,KEY=VALUE,...`: what all kinds of interfaces know; the rest is given back.
fn device<'a>(kind: &str, s: &'a str) -> Result<(Device, Left<'a>), String> {
    let mut parts = s.split(',');
    let interface = parts.next().unwrap_or_default();
    if interface.is_empty() {
        return Err(format!("{kind}: wants the name of an interface, {kind}:IF"));
    }
    let mut d = Device {
        interface: interface.to_string(),
        keeps_mac: false,
        keeps_neighbours: false,
        shared: false,
    };
    let mut left = Vec::new();
    for p in parts {
        let (k, v) = p
            .split_once('=')
            .ok_or_else(|| format!("{kind}: expected KEY=VALUE behind the comma, not '{p}'"))?;
        match (k, v) {
            ("mac", "keep" | "interface") => d.keeps_mac = v == "keep",
            ("neighbours", "keep" | "learn") => d.keeps_neighbours = v == "keep",
            ("kernel", "shared") => d.shared = true,
            _ => left.push((k, v)),
        }
    }
    Ok((d, left))
}

fn packet(s: &str) -> Result<Kind, String> {
    let (device, left) = device("packet", s)?;
    let (mut vectors, mut batch, mut slots) = (false, None, None);
    for (k, v) in left {
        match (k, v) {
            ("mode", "ring") => vectors = false,
            ("mode", "mmsg") => vectors = true,
            ("batch", n) => match n.parse::<usize>() {
                Ok(n @ 1..=MAX_BATCH) => batch = Some(n),
                _ => return Err(format!("packet: batch is from 1 to {MAX_BATCH}, not '{n}'")),
            },
            ("ring", n) => match n.parse::<u32>() {
                Ok(n) if (MIN_SLOTS..=MAX_SLOTS).contains(&n) => slots = Some(n),
                _ => {
                    return Err(format!(
                        "packet: ring is from {MIN_SLOTS} to {MAX_SLOTS} frames, not '{n}'"
                    ));
                }
            },
            _ => return Err(unknown("packet", k, v)),
        }
    }
    let mode = match (vectors, batch, slots) {
        (false, Some(_), _) => return Err("packet: batch=N goes with mode=mmsg".to_string()),
        (true, _, Some(_)) => return Err("packet: ring=N goes with mode=ring".to_string()),
        (false, None, n) => Mode::Ring(n.unwrap_or(SLOTS)),
        (true, n, None) => Mode::Vectors(n.unwrap_or(VECTORS)),
    };
    Ok(Kind::Packet(device, mode))
}

fn xdp(s: &str) -> Result<Kind, String> {
    let (device, left) = device("xdp", s)?;
    let mut o = Options::default();
    for (k, v) in left {
        match (k, v) {
            ("queue", n) => match n.parse() {
                Ok(n) => o.queue = Some(n),
                Err(_) => return Err(format!("xdp: queue is a number from 0, not '{n}'")),
            },
            ("mode", "auto") => o.mode = onefold_port_xdp::Mode::Auto,
            ("mode", "copy") => o.mode = onefold_port_xdp::Mode::Copy,
            ("mode", "zerocopy") => o.mode = onefold_port_xdp::Mode::ZeroCopy,
            ("ring", n) => match n.parse::<u32>() {
                Ok(n) if n.is_power_of_two() && (MIN_RING..=MAX_RING).contains(&n) => o.ring = n,
                _ => {
                    return Err(format!(
                        "xdp: ring is a power of two from {MIN_RING} to {MAX_RING}, not '{n}'"
                    ));
                }
            },
            _ => return Err(unknown("xdp", k, v)),
        }
    }
    Ok(Kind::Xdp(device, o))
}

/// Reads what is behind `dpdk:`. What all kinds of interfaces know is taken out; the rest is DPDK's, and the driver's.
fn dpdk(s: &str) -> Result<Kind, String> {
    let ours = |p: &&str| {
        [
            "mac=keep",
            "mac=interface",
            "neighbours=keep",
            "neighbours=learn",
            "kernel=shared",
        ]
        .contains(p)
    };
    let (own, rest): (Vec<&str>, Vec<&str>) = s.split(',').partition(ours);
    let spec = Spec::parse(&rest.join(","))?;
    let named = std::iter::once(spec.name.as_str()).chain(own);
    let (device, _) = device("dpdk", &named.collect::<Vec<_>>().join(","))?;
    Ok(Kind::Dpdk(device, spec))
}

/// What DPDK is started with.
#[derive(Debug, Clone, Default)]
pub struct DpdkSetup {
    /// Arguments of the operator's.
    pub extra: Vec<String>,
    /// The worker sleeps while no packets come.
    pub sleeps: bool,
}

/// Starts DPDK with all its ports among these; `None`: there is no such port.
///
/// # Errors
/// What is wrong, with what to type.
pub fn start_dpdk(ports: &[PortArg], setup: &DpdkSetup) -> Result<Option<Dpdk>> {
    let mut specs = Vec::new();
    for p in ports {
        let Kind::Dpdk(d, s) = &p.kind else { continue };
        if let Some(i) = s.interface() {
            let needs = Needs {
                mtu: 0,
                kernel_may_share: d.shared,
            };
            Interface::find(i)?.check(needs)?;
        }
        specs.push(s.clone());
    }
    match specs.is_empty() {
        true => Ok(None),
        false => Ok(Some(Dpdk::start(&specs, &setup.extra, setup.sleeps)?)),
    }
}

/// The frames of all AF_XDP ports among these, with so many sockets each; `None`: there is no such port.
pub fn umem(ports: &[PortArg], sockets: usize) -> Option<Umem> {
    let xdp = |p: &PortArg| match &p.kind {
        Kind::Xdp(d, o) => Some((d.interface.clone(), o.ring)),
        _ => None,
    };
    let all: Vec<_> = ports.iter().filter_map(xdp).collect();
    let ring = all.iter().map(|p| p.1).max()?;
    // one that is not there is said later
    let mtus = all
        .iter()
        .filter_map(|p| Some(Interface::find(&p.0).ok()?.mtu));
    let most = onefold_port_xdp::MAX_MTU;
    let mtu = mtus.max().unwrap_or(0).min(most);
    Some(Umem::new(all.len() * sockets.max(1), ring, mtu))
}

/// A live port that is open, and the interface behind it.
pub struct Live {
    /// The chain's port.
    pub port: String,
    /// As it was asked for.
    pub device: Device,
    /// As it is.
    pub interface: Interface,
    /// Ready, but nothing arrives yet.
    pub open: Box<dyn Port>,
    /// Of several workers: the other ones' queues.
    pub others: Vec<Box<dyn Port>>,
    /// Its name on the command line.
    pub shown: String,
    /// The host, not the chain, has the interface's MAC address.
    pub host_side: bool,
    /// Of a device of DPDK: what it was asked for with.
    pub spec: Option<Spec>,
    /// Where an XDP program can be put in front, and the receive queue.
    pub offload: Option<(Offload, u32)>,
}

impl Live {
    /// The MAC address that the chain takes.
    pub fn mac(&self) -> Option<EtherAddr> {
        let own = !self.device.keeps_mac && !self.host_side;
        own.then_some(self.interface.mac)
    }

    /// Can the interface be used for a chain that sends packets of so many bytes there?
    ///
    /// # Errors
    /// What is wrong, with what to type.
    pub fn check(&self, mtu: u32) -> Result<()> {
        if let Some(s) = &self.spec {
            return Ok(DpdkPort::check(s, self.interface.mtu, mtu)?);
        }
        let needs = Needs {
            mtu,
            kernel_may_share: self.device.shared || self.host_side,
        };
        Ok(self.interface.check(needs)?)
    }
}

/// Ports of several workers, or one.
type Queues = Vec<Box<dyn Port>>;

fn boxed<P: Port + 'static>(ports: Vec<P>) -> Queues {
    let all = ports.into_iter();
    all.map(|p| Box::new(p) as Box<dyn Port>).collect()
}

impl PortArg {
    /// The capture that packets come from, if they do.
    pub fn input(&self) -> Option<&str> {
        match &self.kind {
            Kind::Memory(file) => file.as_deref(),
            Kind::Pcap(file) => Some(file),
            Kind::Packet(..) | Kind::Xdp(..) | Kind::Tap(_) | Kind::Dpdk(..) | Kind::Paced(..) => {
                None
            }
        }
    }

    /// The network interface, if it is one, or what stands in its place: packets arrive in real time.
    pub fn device(&self) -> Option<&Device> {
        match &self.kind {
            Kind::Packet(d, _)
            | Kind::Xdp(d, _)
            | Kind::Tap(d)
            | Kind::Dpdk(d, _)
            | Kind::Paced(d, ..) => Some(d),
            Kind::Memory(_) | Kind::Pcap(_) => None,
        }
    }

    /// Is it an interface through AF_XDP?
    pub fn is_xdp(&self) -> bool {
        matches!(self.kind, Kind::Xdp(..))
    }

    /// Is it a device of DPDK?
    pub fn is_dpdk(&self) -> bool {
        matches!(self.kind, Kind::Dpdk(..))
    }

    /// Makes a port with captures ready; `share`: of which these frames arrive only.
    ///
    /// # Errors
    /// When the capture cannot be read.
    pub fn open(&self, share: Option<Share>) -> Result<Box<dyn Port>> {
        let reads = |file: &str| -> Result<CapturePort> {
            let p = CapturePort::new(&self.port).reads(files::open(file)?);
            Ok(match share {
                Some(s) => p.with_share(s),
                None => p,
            })
        };
        Ok(match &self.kind {
            Kind::Pcap(file) => Box::new(reads(file)?),
            Kind::Memory(None) => Box::new(MemoryPort::new(Keep::Recent)),
            Kind::Memory(Some(file)) => {
                let (memory, warnings) = reads(file)?.into_memory(Keep::Recent);
                if let Some(w) = warnings.first() {
                    bail!("{w}");
                }
                Box::new(memory)
            }
            Kind::Packet(..) | Kind::Xdp(..) | Kind::Tap(_) | Kind::Dpdk(..) | Kind::Paced(..) => {
                bail!(
                    "port '{}' is an interface, which is opened before",
                    self.port
                )
            }
        })
    }

    /// Makes a port that is an interface ready; `None`: it is none. `umem`: see [`umem`];
    /// `dpdk`: see [`start_dpdk`].
    ///
    /// # Errors
    /// What is wrong with the interface, with what to type.
    pub fn open_live(
        &self,
        umem: Option<&Umem>,
        dpdk: Option<&mut Dpdk>,
        receivers: Receivers,
    ) -> Result<Option<Live>> {
        let queues = receivers.count();
        let (mut spec, mut offload) = (None, None);
        let (device, interface, open, shown, host_side): (_, _, Queues, _, _) = match &self.kind {
            Kind::Packet(d, mode) => {
                let interface = Interface::find(&d.interface)?;
                // what is wrong with it is said before what is wrong with us
                interface.check(Needs {
                    mtu: 0,
                    kernel_may_share: d.shared,
                })?;
                let p = match queues {
                    0 | 1 => vec![PacketPort::open(&self.port, interface.clone(), *mode)?],
                    n => PacketPort::open_for(&self.port, &interface, *mode, n)?,
                };
                let how = match mode {
                    Mode::Ring(SLOTS) => "ring".to_string(),
                    Mode::Ring(n) => format!("ring of {n} frames"),
                    Mode::Vectors(n) => format!("{n} frames a system call"),
                };
                let shown = format!("packet:{} ({how})", d.interface);
                (d, interface, boxed(p), shown, false)
            }
            Kind::Xdp(d, o) => {
                let interface = Interface::find(&d.interface)?;
                interface.check(Needs {
                    mtu: 0,
                    kernel_may_share: d.shared,
                })?;
                let own;
                let umem = match umem {
                    Some(u) => u,
                    None => {
                        own = Umem::new(1, o.ring, interface.mtu);
                        &own
                    }
                };
                let name = &self.port;
                let p = match receivers {
                    Receivers::Tagged(n) => XdpPort::open_shared(name, &interface, *o, umem, n)?,
                    Receivers::Queues(0 | 1) => {
                        vec![XdpPort::open(name, interface.clone(), *o, umem)?]
                    }
                    Receivers::Queues(n) => XdpPort::open_for(name, &interface, *o, umem, n)?,
                };
                offload = p.first().map(|p| (p.offload(), o.queue.unwrap_or(0)));
                let shown: Vec<String> = p.iter().map(XdpPort::shown).collect();
                let shown = format!("xdp:{} ({})", d.interface, shown.join("; "));
                (d, interface, boxed(p), shown, false)
            }
            Kind::Tap(d) => {
                let p = TapPort::open(&self.port, &d.interface)?;
                let interface = p.interface().clone();
                let shown = format!("tap:{}", d.interface);
                (d, interface, boxed(vec![p]), shown, true)
            }
            Kind::Dpdk(d, s) => {
                // started with all its devices, before the first of them is opened
                let Some(dpdk) = dpdk else { return Ok(None) };
                let p = match queues {
                    0 | 1 => vec![dpdk.open(s)?],
                    _ => dpdk.open_for(s)?,
                };
                let Some(first) = p.first() else {
                    return Ok(None);
                };
                let interface = first.interface();
                let shown = format!("dpdk:{} ({})", s.name, first.shown());
                spec = Some(s.clone());
                (d, interface, boxed(p), shown, s.is("net_tap"))
            }
            Kind::Paced(d, paced) => {
                let (interface, p) = paced::open(&self.port, d, paced)?;
                let shown = format!("memory:{}, {} packets a second", paced.file, paced.rate);
                let p = vec![p];
                (d, interface, boxed(p), shown, false)
            }
            Kind::Memory(_) | Kind::Pcap(_) => return Ok(None),
        };
        let mut open = open.into_iter();
        let Some(first) = open.next() else {
            return Ok(None);
        };
        Ok(Some(Live {
            port: self.port.clone(),
            device: device.clone(),
            interface,
            open: first,
            others: open.collect(),
            shown,
            host_side,
            spec,
            offload,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let kind = |s| port_arg(s).map(|p| p.kind);
        assert_eq!(kind("lan=memory:"), Ok(Kind::Memory(None)));
        let file = Kind::Memory(Some("a:b.pcap".to_string()));
        assert_eq!(kind("lan=memory:a:b.pcap"), Ok(file));
        let rate = |s| match kind(s) {
            Ok(Kind::Paced(d, p)) => Some((d.interface, p.file, p.rate, p.stamp)),
            _ => None,
        };
        let paced = |stamp| {
            let of = "memory of lan".to_string();
            Some((of, "a,b".to_string(), 1_500_000, stamp))
        };
        assert_eq!(rate("lan=memory:a,b,rate=1.5M"), paced(false));
        assert_eq!(rate("lan=memory:a,b,rate=1500k,stamp"), paced(true));
        for wrong in [
            "lan=memory:,rate=1",
            "lan=memory:a,rate=",
            "lan=memory:a,rate=0",
            "lan=memory:a,rate=NaN",
        ] {
            assert!(kind(wrong).is_err(), "{wrong}");
        }
        assert_eq!(kind("lan=pcap:x"), Ok(Kind::Pcap("x".to_string())));
        let device_of = |name: &str| Device {
            interface: name.to_string(),
            keeps_mac: false,
            keeps_neighbours: false,
            shared: false,
        };
        let device = device_of("eth1");
        let ring = Kind::Packet(device.clone(), Mode::Ring(SLOTS));
        assert_eq!(kind("lan=packet:eth1"), Ok(ring));
        let large = Kind::Packet(device.clone(), Mode::Ring(8192));
        assert_eq!(kind("lan=packet:eth1,mode=ring,ring=8192"), Ok(large));
        let all = Device {
            keeps_mac: true,
            keeps_neighbours: true,
            shared: true,
            ..device.clone()
        };
        let text = "lan=packet:eth1,mac=keep,mode=mmsg,neighbours=keep,batch=256,kernel=shared";
        assert_eq!(kind(text), Ok(Kind::Packet(all, Mode::Vectors(256))));
        assert_eq!(kind("lan=tap:eth1"), Ok(Kind::Tap(device)));
        let plain = Kind::Xdp(device_of("eth1"), Options::default());
        assert_eq!(kind("lan=xdp:eth1"), Ok(plain.clone()));
        assert_eq!(kind("lan=xdp:eth1,mode=auto"), Ok(plain));
        let all = Options {
            queue: Some(3),
            mode: onefold_port_xdp::Mode::ZeroCopy,
            ring: 256,
        };
        let text = "lan=xdp:eth1,queue=3,mode=zerocopy,ring=256";
        assert_eq!(kind(text), Ok(Kind::Xdp(device_of("eth1"), all)));
        let Ok(Kind::Dpdk(d, s)) = kind("lan=dpdk:net_tap0,mac=keep,iface=t0,mac=fixed") else {
            panic!("a device of DPDK")
        };
        assert!(d.keeps_mac && d.interface == "net_tap0");
        assert_eq!(s.devargs(), "net_tap0,iface=t0,mac=fixed");
        for wrong in [
            "lan=dpdk:",
            "lan=dpdk:,iface=eth1",
            "lan=dpdk:net_null0,descriptors=1",
            "lan=xdp:",
            "lan=xdp:eth1,ring=100",
            "lan=xdp:eth1,ring=32",
            "lan=xdp:eth1,queue=-1",
            "lan=xdp:eth1,mode=ring",
            "lan",
            "lan=memory",
            "lan=pcap:",
            "lan=carrier-pigeon:7",
            "lan=packet:",
            "lan=packet:eth1,mode=rong",
            "lan=packet:eth1,mode=mmsg,batch=257",
            "lan=packet:eth1,mode=mmsg,batch=0",
            "lan=packet:eth1,batch=8",
            "lan=packet:eth1,ring=63",
            "lan=packet:eth1,ring=65537",
            "lan=packet:eth1,ring=64,mode=mmsg",
            "lan=packet:eth1,mmsg",
            "lan=tap:",
            "lan=tap:t0,batch=8",
        ] {
            assert!(port_arg(wrong).is_err(), "{wrong}");
        }
    }
}
