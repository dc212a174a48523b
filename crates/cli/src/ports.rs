//! `--port PORT=KIND:NAME`: ports that are not captures bound by `--in` and `--out`.

use anyhow::{Result, bail};
use onefold_capture::CaptureReader;
use onefold_packet::EtherAddr;
use onefold_port_interface::{Interface, Needs};
use onefold_port_packet::{MAX_BATCH, Mode, PacketPort};
use onefold_port_tap::TapPort;
use onefold_runtime::{CapturePort, Keep, MemoryPort, Port};

/// What is behind a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Frames in memory: those of a capture, read before the clock starts, or none. What leaves is copied to memory,
    /// where the last 256 KiB of it stay.
    Memory(Option<String>),
    /// A capture whose frames arrive; what leaves is counted.
    Pcap(String),
    /// A network interface through packet sockets.
    Packet(Device, Mode),
    /// A TAP interface: the host is at the other end.
    Tap(Device),
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
        ("memory", file) => Kind::Memory(Some(file.to_string())),
        ("pcap", "") => return Err("pcap: wants a file, pcap:FILE".to_string()),
        ("pcap", file) => Kind::Pcap(file.to_string()),
        ("packet", rest) => packet(rest)?,
        ("tap", rest) => {
            let (device, left) = device("tap", rest)?;
            match left.first() {
                Some((k, v)) => return Err(unknown("tap", k, v)),
                None => Kind::Tap(device),
            }
        }
        (other, _) => {
            return Err(format!(
                "'{other}' is no kind of port; there are packet:, tap:, memory: and pcap:"
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
        "packet" => "mode=ring, mode=mmsg, batch=1 to batch=256, ",
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
    let (mut vectors, mut batch) = (false, None);
    for (k, v) in left {
        match (k, v) {
            ("mode", "ring") => vectors = false,
            ("mode", "mmsg") => vectors = true,
            ("batch", n) => match n.parse::<usize>() {
                Ok(n @ 1..=MAX_BATCH) => batch = Some(n),
                _ => return Err(format!("packet: batch is from 1 to {MAX_BATCH}, not '{n}'")),
            },
            _ => return Err(unknown("packet", k, v)),
        }
    }
    match (vectors, batch) {
        (false, Some(_)) => Err("packet: batch=N goes with mode=mmsg".to_string()),
        (false, None) => Ok(Kind::Packet(device, Mode::Ring)),
        (true, n) => Ok(Kind::Packet(device, Mode::Vectors(n.unwrap_or(VECTORS)))),
    }
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
    /// Its name on the command line.
    pub shown: String,
    /// The host, not the chain, has the interface's MAC address.
    pub host_side: bool,
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
        let needs = Needs {
            mtu,
            kernel_may_share: self.device.shared || self.host_side,
        };
        Ok(self.interface.check(needs)?)
    }
}

impl PortArg {
    /// The capture that packets come from, if they do.
    pub fn input(&self) -> Option<&str> {
        match &self.kind {
            Kind::Memory(file) => file.as_deref(),
            Kind::Pcap(file) => Some(file),
            Kind::Packet(..) | Kind::Tap(_) => None,
        }
    }

    /// The network interface, if it is one.
    pub fn device(&self) -> Option<&Device> {
        match &self.kind {
            Kind::Packet(d, _) | Kind::Tap(d) => Some(d),
            Kind::Memory(_) | Kind::Pcap(_) => None,
        }
    }

    /// Makes a port with captures ready.
    ///
    /// # Errors
    /// When the capture cannot be read.
    pub fn open(&self) -> Result<Box<dyn Port>> {
        Ok(match &self.kind {
            Kind::Pcap(file) => {
                Box::new(CapturePort::new(&self.port).reads(CaptureReader::open(file)?))
            }
            Kind::Memory(None) => Box::new(MemoryPort::new(Keep::Recent)),
            Kind::Memory(Some(file)) => {
                let p = CapturePort::new(&self.port).reads(CaptureReader::open(file)?);
                let (memory, warnings) = p.into_memory(Keep::Recent);
                if let Some(w) = warnings.first() {
                    bail!("{w}");
                }
                Box::new(memory)
            }
            Kind::Packet(..) | Kind::Tap(_) => {
                bail!(
                    "port '{}' is an interface, which is opened before",
                    self.port
                )
            }
        })
    }

    /// Makes a port that is an interface ready; `None`: it is none.
    ///
    /// # Errors
    /// What is wrong with the interface, with what to type.
    pub fn open_live(&self) -> Result<Option<Live>> {
        let (device, interface, open, shown, host_side): (_, _, Box<dyn Port>, _, _) =
            match &self.kind {
                Kind::Packet(d, mode) => {
                    let interface = Interface::find(&d.interface)?;
                    // what is wrong with it is said before what is wrong with us
                    interface.check(Needs {
                        mtu: 0,
                        kernel_may_share: d.shared,
                    })?;
                    let p = PacketPort::open(&self.port, interface.clone(), *mode)?;
                    let how = match mode {
                        Mode::Ring => "ring".to_string(),
                        Mode::Vectors(n) => format!("{n} frames a system call"),
                    };
                    let shown = format!("packet:{} ({how})", d.interface);
                    (d, interface, Box::new(p), shown, false)
                }
                Kind::Tap(d) => {
                    let p = TapPort::open(&self.port, &d.interface)?;
                    let interface = p.interface().clone();
                    let shown = format!("tap:{}", d.interface);
                    (d, interface, Box::new(p), shown, true)
                }
                Kind::Memory(_) | Kind::Pcap(_) => return Ok(None),
            };
        Ok(Some(Live {
            port: self.port.clone(),
            device: device.clone(),
            interface,
            open,
            shown,
            host_side,
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
        assert_eq!(kind("lan=pcap:x"), Ok(Kind::Pcap("x".to_string())));
        let device = Device {
            interface: "eth1".to_string(),
            keeps_mac: false,
            keeps_neighbours: false,
            shared: false,
        };
        let ring = Kind::Packet(device.clone(), Mode::Ring);
        assert_eq!(kind("lan=packet:eth1"), Ok(ring));
        let all = Device {
            keeps_mac: true,
            keeps_neighbours: true,
            shared: true,
            ..device.clone()
        };
        let text = "lan=packet:eth1,mac=keep,mode=mmsg,neighbours=keep,batch=256,kernel=shared";
        assert_eq!(kind(text), Ok(Kind::Packet(all, Mode::Vectors(256))));
        assert_eq!(kind("lan=tap:eth1"), Ok(Kind::Tap(device)));
        for wrong in [
            "lan",
            "lan=memory",
            "lan=pcap:",
            "lan=carrier-pigeon:7",
            "lan=packet:",
            "lan=packet:eth1,mode=rong",
            "lan=packet:eth1,mode=mmsg,batch=257",
            "lan=packet:eth1,mode=mmsg,batch=0",
            "lan=packet:eth1,batch=8",
            "lan=packet:eth1,mmsg",
            "lan=tap:",
            "lan=tap:t0,batch=8",
        ] {
            assert!(port_arg(wrong).is_err(), "{wrong}");
        }
    }
}
