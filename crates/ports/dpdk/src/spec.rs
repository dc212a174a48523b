//! What stands behind `dpdk:`: a device as the EAL has it, and what Onefold wants of it.

use std::fmt;

/// Queues of a device, each way, at most.
pub const MAX_QUEUES: u16 = 64;
/// Fewest and most descriptors of a queue.
pub const DESCRIPTORS: [u16; 2] = [32, 32_768];
/// Descriptors of a queue, if nobody says otherwise.
const USUAL: u16 = 1024;
/// Frames that a port may ask for in addition, at most.
pub const MAX_FRAMES: u32 = 1 << 20;

/// How the EAL finds a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    /// By its address on the PCI bus.
    Pci,
    /// By a name in front of which another bus stands (`auxiliary:mlx5_core.sf.1`).
    Other,
    /// It makes it (`--vdev`).
    Virtual,
}

/// A device, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Where it is.
    pub bus: Bus,
    /// Its name without arguments: `0000:3b:00.0`, `net_memif0`.
    pub name: String,
    /// Its driver's arguments, as they were given.
    pub arguments: Vec<String>,
    /// Queues each way.
    pub queues: u16,
    /// Descriptors of each queue.
    pub descriptors: u16,
    /// The MTU to be set, in bytes; `None`: what the device has.
    pub mtu: Option<u16>,
    /// Frames beside those that queues and holds need, for drivers that keep some.
    pub frames: u32,
}

/// `0000:3b:00.0`, if it is an address on the PCI bus: the domain may be missing.
fn pci(s: &str) -> Option<String> {
    let hex = |s: &str, n: std::ops::RangeInclusive<usize>| {
        n.contains(&s.len()) && s.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let (rest, function) = s.rsplit_once('.')?;
    let mut parts = rest.rsplit(':');
    let (device, bus, domain) = (parts.next()?, parts.next()?, parts.next());
    let good = hex(device, 2..=2)
        && hex(bus, 2..=2)
        && domain.is_none_or(|d| hex(d, 4..=8))
        && parts.next().is_none()
        && matches!(function.as_bytes(), [b'0'..=b'7']);
    let domain = domain.unwrap_or("0000");
    good.then(|| format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
}

impl Spec {
    /// Reads `DEVICE,KEY=VALUE,...`. What is Onefold's (`worker-queues`, `descriptors`, `set-mtu`, `frames`) is taken
    /// out; the rest is the driver's.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(s: &str) -> Result<Spec, String> {
        let mut parts = s.split(',');
        let device = parts.next().unwrap_or_default();
        if device.is_empty() || device.contains(char::is_whitespace) {
            return Err(
                "dpdk: wants a device, for instance dpdk:0000:3b:00.0 or dpdk:net_af_xdp0,iface=eth1".to_string(),
            );
        }
        let address = pci(device.strip_prefix("pci:").unwrap_or(device));
        let (bus, name) = match address {
            Some(a) => (Bus::Pci, a),
            None if device.contains(':') => (Bus::Other, device.to_string()),
            None => (Bus::Virtual, device.to_string()),
        };
        let mut spec = Spec {
            bus,
            name,
            arguments: Vec::new(),
            queues: 1,
            descriptors: USUAL,
            mtu: None,
            frames: 0,
        };
        for p in parts {
            let own = p.split_once('=').map_or((p, ""), |(k, v)| (k, v));
            match own {
                ("worker-queues", n) => spec.queues = number(own, n, 1, MAX_QUEUES)?,
                ("descriptors", n) => {
                    spec.descriptors = number(own, n, DESCRIPTORS[0], DESCRIPTORS[1])?;
                }
                ("set-mtu", n) => spec.mtu = Some(number(own, n, 68, 65_000)?),
                ("frames", n) => spec.frames = number(own, n, 0, MAX_FRAMES)?,
                _ => spec.arguments.push(p.to_string()),
            }
        }
        for driver in ["net_af_packet", "net_af_xdp"] {
            if spec.is(driver) && spec.argument("iface").is_none() {
                return Err(format!(
                    "dpdk: {name} wants an interface of the kernel's; type: dpdk:{name},iface=IF",
                    name = spec.name
                ));
            }
        }
        Ok(spec)
    }

    /// The device and its driver's arguments, as the EAL reads them.
    pub fn devargs(&self) -> String {
        let parts = std::iter::once(&self.name).chain(&self.arguments);
        parts.cloned().collect::<Vec<_>>().join(",")
    }

    /// The value of an argument of the driver's.
    pub fn argument(&self, key: &str) -> Option<&str> {
        let all = self.arguments.iter().filter_map(|a| a.split_once('='));
        all.filter(|(k, _)| *k == key).map(|(_, v)| v).next()
    }

    /// Is it made by this driver (`net_tap` makes `net_tap0`)?
    pub fn is(&self, driver: &str) -> bool {
        self.bus == Bus::Virtual
            && self
                .name
                .strip_prefix(driver)
                .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Does it give packets that are recorded, or made, rather than arrive?
    pub fn replays(&self) -> bool {
        ["net_pcap", "net_null", "net_ring"]
            .iter()
            .any(|d| self.is(d))
    }

    /// The interface of the kernel's that the device takes its packets from.
    pub fn interface(&self) -> Option<&str> {
        let takes = self.is("net_af_packet") || self.is("net_af_xdp");
        self.argument("iface").filter(|_| takes)
    }

    /// The name of the driver that would make it: `net_memif` of `net_memif0`.
    pub fn driver(&self) -> &str {
        self.name.trim_end_matches(|c: char| c.is_ascii_digit())
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn number<T: std::str::FromStr + PartialOrd + fmt::Display>(
    (key, value): (&str, &str),
    n: &str,
    from: T,
    to: T,
) -> Result<T, String> {
    match n.parse::<T>() {
        Ok(n) if n >= from && n <= to => Ok(n),
        _ => Err(format!("dpdk: {key} is from {from} to {to}, not '{value}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_what_belongs_to_whom() {
        let s = Spec::parse("3b:00.0,set-mtu=9000,worker-queues=4,dv_flow_en=1").unwrap();
        assert_eq!((s.bus, s.name.as_str()), (Bus::Pci, "0000:3b:00.0"));
        assert_eq!((s.mtu, s.queues), (Some(9000), 4));
        assert_eq!(s.devargs(), "0000:3b:00.0,dv_flow_en=1");
        let s = Spec::parse("pci:0001:3B:1f.7").unwrap();
        assert_eq!((s.bus, s.name.as_str()), (Bus::Pci, "0001:3b:1f.7"));
        let s = Spec::parse("net_af_xdp0,iface=eth1,queue_count=2,descriptors=512").unwrap();
        assert_eq!((s.bus, s.driver()), (Bus::Virtual, "net_af_xdp"));
        assert_eq!((s.interface(), s.descriptors), (Some("eth1"), 512));
        assert_eq!(s.devargs(), "net_af_xdp0,iface=eth1,queue_count=2");
        assert!(s.is("net_af_xdp") && !s.is("net_af") && !s.replays());
        assert!(Spec::parse("net_pcap1,rx_pcap=x").unwrap().replays());
        // another driver's word of the same name
        let s = Spec::parse("net_tap0,iface=t0,mac=fixed,frames=9").unwrap();
        assert_eq!(
            (s.interface(), s.argument("mac"), s.frames),
            (None, Some("fixed"), 9)
        );
        let s = Spec::parse("auxiliary:mlx5_core.sf.1").unwrap();
        assert_eq!(
            (s.bus, s.name.as_str()),
            (Bus::Other, "auxiliary:mlx5_core.sf.1")
        );
        for wrong in [
            "",
            ",iface=x",
            "net null0",
            "net_af_packet0",
            "net_af_xdp0,queue_count=2",
            "net_null0,worker-queues=0",
            "net_null0,worker-queues=65",
            "net_null0,descriptors=16",
            "net_null0,descriptors=many",
            "net_null0,set-mtu=67",
            "net_null0,frames=-1",
        ] {
            let e = Spec::parse(wrong).unwrap_err();
            assert!(e.starts_with("dpdk:"), "{wrong}: {e}");
        }
    }
}
