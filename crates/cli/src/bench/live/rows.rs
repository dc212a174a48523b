//! What is measured: devices, their port kinds, and the packets that are sent through them.

use super::topology::DEVICE_MACS;
use crate::ports::port_arg;
use onefold_bench::Hostile;

/// A kind of port, and how it is written: `{}` is the interface, `{n}` the number of the port (0 or 1), `{socket}` a
/// socket that both sides know.
pub struct Kind {
    /// In figures.
    pub name: &'static str,
    /// As `--port PORT=` of the device.
    pub spec: &'static str,
    /// As `--port PORT=` of the generator at the other end.
    pub generator: &'static str,
    /// It is in the comparison of port kinds, not only in the one of batches.
    pub compared: bool,
}

const fn kind(name: &'static str, spec: &'static str, compared: bool) -> Kind {
    Kind {
        name,
        spec,
        generator: "packet:{}",
        compared,
    }
}

/// The kind of ports that two processes have in memory.
pub const MEMIF: usize = 13;

/// The kinds of ports: one more is one more line. One that this build does not know is left out, and said.
pub const KINDS: [Kind; 14] = [
    kind("packet", "packet:{}", true),
    kind("packet, batch 1", "packet:{},mode=mmsg,batch=1", false),
    kind("packet, batch 2", "packet:{},mode=mmsg,batch=2", false),
    kind("packet, batch 4", "packet:{},mode=mmsg,batch=4", false),
    kind("packet, batch 8", "packet:{},mode=mmsg,batch=8", false),
    kind("packet, batch 16", "packet:{},mode=mmsg,batch=16", false),
    kind("packet, batch 32", "packet:{},mode=mmsg,batch=32", true),
    kind("packet, batch 64", "packet:{},mode=mmsg,batch=64", false),
    kind("packet, batch 128", "packet:{},mode=mmsg,batch=128", false),
    kind("packet, batch 256", "packet:{},mode=mmsg,batch=256", false),
    kind("xdp", "xdp:{}", true),
    kind("dpdk af_packet", "dpdk:net_af_packet{n},iface={}", true),
    kind("dpdk af_xdp", "dpdk:net_af_xdp{n},iface={}", true),
    Kind {
        name: "dpdk memif",
        spec: "dpdk:net_memif{n},id={n},role=server,socket={socket},socket-abstract=no",
        generator: "dpdk:net_memif{n},id={n},role=client,socket={socket},socket-abstract=no",
        compared: true,
    },
];

/// How packets come to a row's device in the experiment without a network.
pub const MEMORY: &str = "from memory";

/// One of the two ports of a device, or of the generator.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// Its number.
    pub number: usize,
    /// The interface there.
    pub interface: &'a str,
    /// What two processes meet at.
    pub socket: &'a str,
}

impl End<'_> {
    fn fill(&self, spec: &str) -> String {
        spec.replace("{}", self.interface)
            .replace("{n}", &self.number.to_string())
            .replace("{socket}", self.socket)
    }
}

impl Kind {
    /// The device's port.
    pub fn device(&self, end: End<'_>) -> String {
        end.fill(self.spec)
    }

    /// The generator's.
    pub fn generator(&self, end: End<'_>) -> String {
        end.fill(self.generator)
    }

    /// Why this build cannot have such ports.
    pub fn obstacle(&self) -> Option<String> {
        if self.name.starts_with("dpdk") && !cfg!(feature = "dpdk") {
            return Some("this onefold was built without DPDK (feature dpdk)".to_string());
        }
        let end = End {
            number: 0,
            interface: "eth0",
            socket: "/run/x.sock",
        };
        port_arg(&format!("x={}", self.device(end))).err()
    }
}

/// Who forwards packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// A chain, on ports of this kind (its place in [`KINDS`]).
    Chain(usize),
    /// A chain whose packets come from memory, over and over, and go nowhere.
    Memory,
    /// DPDK's own program, which exchanges MAC addresses, on ports of this kind or, without one, as
    /// [`Device::Memory`].
    Testpmd(Option<usize>),
    /// The kernel: routes, and in nftables masquerade and the rules of a file.
    Kernel(Filter),
}

/// What the kernel does besides forwarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Nothing.
    Nothing,
    /// Masquerade, and each packet is compared with the rules.
    Rules,
    /// The same, but packets of known connections pass without being compared with the rules.
    EstablishedFirst,
}

/// What is sent, as `onefold gen --for` makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The chain that packets are aimed at.
    pub chain: String,
    /// Its parameters.
    pub set: Vec<(String, String)>,
    /// The ports at which packets enter and leave.
    pub ports: [String; 2],
    /// Where frames are sent, if nobody is asked.
    pub to_mac: Option<String>,
    /// Frame lengths; `None`: as of the command line.
    pub size: Option<String>,
    /// Flows are opened. The kernel's connection tracking takes a handshake without answers for invalid, and flows
    /// that it sees from the middle for established.
    pub opens: bool,
    /// What else is sent.
    pub beside: Beside,
}

/// What flows share the device with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Nothing; they are of UDP.
    Nobody,
    /// As many others; TCP and UDP.
    Benign,
    /// As many packets of an attacker, which are not counted; TCP and UDP.
    Attacker(Hostile),
}

/// A line of the figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The chain, or the kernel.
    pub name: String,
    /// Who forwards.
    pub device: Device,
    /// What.
    pub traffic: Traffic,
}

impl Row {
    /// A chain on ports of a kind.
    pub fn chain(name: &str, kind: usize, traffic: &Traffic) -> Row {
        Row {
            name: name.to_string(),
            device: Device::Chain(kind),
            traffic: traffic.clone(),
        }
    }

    /// A chain with packets from memory.
    pub fn memory(name: &str, traffic: &Traffic) -> Row {
        Row {
            device: Device::Memory,
            ..Row::chain(name, 0, traffic)
        }
    }

    /// DPDK's MAC swap.
    pub fn testpmd(kind: Option<usize>) -> Row {
        Row {
            device: Device::Testpmd(kind),
            ..Row::chain("testpmd, MAC swap", 0, &swap())
        }
    }

    /// The kind of its ports.
    pub fn kind(&self) -> &'static str {
        match self.device {
            Device::Chain(k) | Device::Testpmd(Some(k)) => KINDS.get(k).map_or("", |k| k.name),
            Device::Memory | Device::Testpmd(None) => MEMORY,
            Device::Kernel(_) => "kernel",
        }
    }

    /// The name in figures.
    pub fn title(&self) -> String {
        match self.device {
            Device::Kernel(_) => self.name.clone(),
            _ => format!("{}, {}", self.name, self.kind()),
        }
    }
}

/// The bare MAC swap.
pub fn swap() -> Traffic {
    one_way("l2fwd")
}

/// A chain that packets pass from port `in` to port `out`.
pub fn one_way(chain: &str) -> Traffic {
    Traffic {
        chain: chain.to_string(),
        set: Vec::new(),
        ports: ["in", "out"].map(String::from),
        to_mac: None,
        size: None,
        opens: true,
        beside: Beside::Nobody,
    }
}

/// The ISP edge with rules of a file.
pub fn isp_edge(rules: &str) -> Traffic {
    Traffic {
        chain: "isp-edge".to_string(),
        set: vec![("rules".to_string(), rules.to_string())],
        ports: ["lan", "wan"].map(String::from),
        to_mac: None,
        size: None,
        opens: true,
        beside: Beside::Nobody,
    }
}

/// The ISP edge with rules of a file, beside others.
pub fn shared_edge(rules: &str, beside: Beside) -> Traffic {
    Traffic {
        beside,
        ..isp_edge(rules)
    }
}

/// Routers in a row, 1 to 10.
pub fn routers(n: usize) -> Traffic {
    Traffic {
        chain: format!("routers-{n}"),
        set: Vec::new(),
        ports: ["left", "right"].map(String::from),
        to_mac: None,
        size: None,
        opens: true,
        beside: Beside::Nobody,
    }
}

/// The same packets for the kernel.
pub fn for_kernel(t: &Traffic) -> Traffic {
    Traffic {
        to_mac: Some(DEVICE_MACS[0].to_string()),
        opens: false,
        ..t.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_known_and_have_names_of_their_own() {
        assert_eq!(KINDS[MEMIF].name, "dpdk memif");
        for (i, k) in KINDS.iter().enumerate() {
            let without = k.name.starts_with("dpdk") && !cfg!(feature = "dpdk");
            assert_eq!(
                k.obstacle().is_some(),
                without,
                "{} {:?}",
                k.name,
                k.obstacle()
            );
            assert!(KINDS[..i].iter().all(|o| o.name != k.name));
        }
    }
}
