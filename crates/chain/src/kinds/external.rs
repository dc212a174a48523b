//! `external`: a black box, that is a program of somebody else's, or a namespace that the kernel alone works in.
//! Onefold launches it, gives it interfaces, and cannot see into it: nothing but `run` executes such a chain, and
//! nothing is claimed of what it does. The program is never modified, and gets no hint of Onefold's: its arguments, its
//! folder and its environment are what the chain file says.

use super::{ClickText, KindCx};
use crate::file::Loc;
use indexmap::IndexMap;
use onefold_packet::EtherAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most ports of a black box.
const MOST_PORTS: usize = 16;
/// Most set-up commands, routes and so on, each.
const MOST_LINES: usize = 4096;
/// Longest name of an interface, in bytes (`IFNAMSIZ` less the end).
const LONGEST_NAME: usize = 15;
/// See [`External::settle`], in seconds.
const SETTLE: f64 = 0.1;
/// What a program finds its helpers by, if the chain file says nothing else.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where sockets of memif and vhost-user are, a file system of the black box's own.
pub const SCRATCH: &str = "/run/onefold-box";

/// A black box: a program, or a namespace alone.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct External {
    /// The program and its arguments; absent, the kernel alone works in the namespace, as `set-up` says. A program
    /// whose name has a slash is looked for from the chain file's folder on.
    #[serde(default)]
    pub command: Vec<Loc<String>>,
    /// Its folder; the chain file's, if not given.
    pub directory: Option<Loc<String>>,
    /// Its whole environment. Nothing is added but a PATH, if there is none here.
    #[serde(default)]
    pub environment: IndexMap<String, String>,
    /// Its ports, from 0, in this order.
    pub ports: Vec<Loc<BoxPort>>,
    /// Routes of its namespace, as behind `ip route add`.
    #[serde(default)]
    pub routes: Vec<Loc<String>>,
    /// Neighbours that it need not ask for, as behind `ip neigh add`.
    #[serde(default)]
    pub neighbours: Vec<Loc<String>>,
    /// Settings of its namespace, by name: `net.ipv4.ip_forward: 1`.
    #[serde(default)]
    pub sysctls: IndexMap<String, Loc<Setting>>,
    /// Commands (for /bin/sh) that are carried out in its namespace before the program, one after the other.
    #[serde(default)]
    pub set_up: Vec<Loc<String>>,
    /// Commands that are tried again until each succeeds, for ten seconds, before packets go in.
    #[serde(default)]
    pub ready: Vec<Loc<String>>,
    /// With captures: when nothing has come out for so many seconds, nothing more is waited for. 0.1, if not given.
    pub settle: Option<Loc<f64>>,
}

/// A setting's value.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    /// A number.
    Number(i64),
    /// A text, such as a range.
    Text(String),
}

/// How a black box gets and gives packets at a port: exactly one of these.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BoxPort {
    /// A virtual interface (veth) in its namespace.
    pub veth: Option<Interface>,
    /// A TAP interface in its namespace.
    pub tap: Option<Interface>,
    /// Shared memory of DPDK's net_memif: Onefold is the server.
    pub memif: Option<Socket>,
    /// vhost-user: the program's DPDK has net_virtio_user, and Onefold is the server (net_vhost).
    pub virtio_user: Option<Socket>,
}

/// An interface in a black box's namespace: its name, or more.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Interface {
    /// Its name.
    Name(String),
    /// With addresses.
    Full(InterfaceFull),
}

/// An interface with addresses.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterfaceFull {
    /// Its name there.
    pub name: String,
    /// Its MAC address; if absent, one made of the function's name and the port.
    pub mac: Option<String>,
    /// Its MTU, in bytes; 1500, if not given.
    pub mtu: Option<u32>,
    /// Its addresses, each with the length of its prefix: `10.0.0.1/24`, `2001:db8::1/64`.
    #[serde(default)]
    pub addresses: Vec<String>,
}

/// A socket that the program finds a port by.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Socket {
    /// Its file, below `/run/onefold-box`, which is a folder of the black box's own.
    pub socket: String,
}

/// A black box, ready to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlackBox {
    /// The program and its arguments; `None`: there is none.
    pub command: Option<(PathBuf, Vec<String>)>,
    /// The folder that commands are carried out in.
    pub directory: PathBuf,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Ports.
    pub ports: Vec<Attach>,
    /// Arguments of `ip route add`.
    pub routes: Vec<String>,
    /// Arguments of `ip neigh add`.
    pub neighbours: Vec<String>,
    /// Names and values.
    pub sysctls: Vec<(String, String)>,
    /// Before the program.
    pub set_up: Vec<String>,
    /// Before packets.
    pub ready: Vec<String>,
    /// With captures, in seconds.
    pub settle: f64,
}

/// How a port of a black box is attached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Attach {
    /// A veth pair.
    Veth(Inside),
    /// A TAP interface.
    Tap(Inside),
    /// DPDK's net_memif, by this socket.
    Memif(String),
    /// vhost-user, by this socket.
    VirtioUser(String),
}

/// An interface in a black box's namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: String,
    /// Its MTU.
    pub mtu: u32,
    /// Its addresses.
    pub addresses: Vec<String>,
}

impl Attach {
    /// The word of the chain file.
    pub fn kind(&self) -> &'static str {
        match self {
            Attach::Veth(_) => "veth",
            Attach::Tap(_) => "tap",
            Attach::Memif(_) => "memif",
            Attach::VirtioUser(_) => "virtio-user",
        }
    }

    /// The interface in the namespace, if it is one.
    pub fn inside(&self) -> Option<&Inside> {
        match self {
            Attach::Veth(i) | Attach::Tap(i) => Some(i),
            Attach::Memif(_) | Attach::VirtioUser(_) => None,
        }
    }
}

/// A locally administered MAC address made of a name and a number (FNV-1a), so that it is the same in each run.
fn made_mac(name: &str, port: usize) -> EtherAddr {
    let bytes = name.bytes().chain([b'/', port as u8]);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    EtherAddr([0x02, a, b, c, d, e])
}

/// One line, which a program that reads lines takes for one: without control characters.
fn is_line(s: &str) -> bool {
    !s.trim().is_empty() && !s.chars().any(char::is_control)
}

impl External {
    /// An interface as it is written, checked.
    fn inside(&self, cx: &mut KindCx<'_>, n: usize, i: &Interface, at: &Loc<BoxPort>) -> Inside {
        let full = match i {
            Interface::Full(f) => f.clone(),
            Interface::Name(name) => InterfaceFull {
                name: name.clone(),
                mac: None,
                mtu: None,
                addresses: Vec::new(),
            },
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name = &full.name;
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) || name == "lo"
        {
            let text = format!(
                "'{name}' cannot be an interface's name: up to {LONGEST_NAME} letters, digits, '-', '_' and '.'"
            );
            cx.error(at, text);
        }
        let mac = full
            .mac
            .map_or_else(|| Ok(made_mac(cx.name, n)), |m| m.parse().map_err(|_| m));
        let mac = match mac {
            Ok(m) if m.0[0] & 1 == 0 => m,
            wrong => {
                let wrong = wrong.map_or_else(|text| text, |m| m.to_string());
                cx.error(
                    at,
                    format!("mac: '{wrong}' is no MAC address of an interface"),
                );
                EtherAddr::default()
            }
        };
        // as the kernel's tools write it
        let mac = mac.0.map(|b| format!("{b:02x}")).join(":");
        let mtu = full.mtu.unwrap_or(1500);
        if !(68..=65_535).contains(&mtu) {
            cx.error(at, format!("mtu must be from 68 to 65535, not {mtu}"));
        }
        for a in &full.addresses {
            let ok = a.split_once('/').is_some_and(|(ip, len)| {
                let most = ip
                    .parse::<std::net::IpAddr>()
                    .map(|ip| if ip.is_ipv4() { 32 } else { 128 });
                most.is_ok_and(|most| len.parse::<u8>().is_ok_and(|n| n <= most))
            });
            if !ok {
                let text = format!(
                    "addresses: '{a}' is no address with a prefix's length, such as 10.0.0.1/24"
                );
                cx.error(at, text);
            }
        }
        Inside {
            name: full.name,
            mac,
            mtu,
            addresses: full.addresses,
        }
    }

    fn attach(&self, cx: &mut KindCx<'_>, n: usize, p: &Loc<BoxPort>) -> Option<Attach> {
        let mut all = Vec::new();
        if let Some(i) = &p.value.veth {
            all.push(Attach::Veth(self.inside(cx, n, i, p)));
        }
        if let Some(i) = &p.value.tap {
            all.push(Attach::Tap(self.inside(cx, n, i, p)));
        }
        let sockets = [(&p.value.memif, false), (&p.value.virtio_user, true)];
        for (s, vhost) in sockets {
            let Some(s) = s else { continue };
            let file = s
                .socket
                .strip_prefix(SCRATCH)
                .and_then(|f| f.strip_prefix('/'));
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if !file.is_some_and(|f| (1..=60).contains(&f.len()) && f.chars().all(plain)) {
                let text = format!(
                    "socket: '{}' is no file of {SCRATCH}, such as {SCRATCH}/0.sock",
                    s.socket
                );
                cx.error(p, text);
            }
            all.push(match vhost {
                true => Attach::VirtioUser(s.socket.clone()),
                false => Attach::Memif(s.socket.clone()),
            });
        }
        if all.len() != 1 {
            cx.error(
                p,
                format!("port {n}: give exactly one of veth, tap, memif, virtio-user"),
            );
        }
        all.pop()
    }

    /// Names of interfaces, lines, settings and variables that cannot be are told.
    fn check(&self, cx: &mut KindCx<'_>, ports: &[Attach]) {
        if self.ports.is_empty() || self.ports.len() > MOST_PORTS {
            cx.error_whole(format!("external: wants 1 to {MOST_PORTS} ports"));
        }
        let inside = ports.iter().filter_map(Attach::inside);
        let names: Vec<&str> = inside.map(|i| i.name.as_str()).collect();
        for (i, name) in names.iter().enumerate() {
            if names.iter().take(i).any(|other| other == name) {
                cx.error_whole(format!("external: two ports are the interface '{name}'"));
            }
        }
        for (what, lines) in [("routes", &self.routes), ("neighbours", &self.neighbours)] {
            for l in lines.iter().filter(|l| !is_line(&l.value)) {
                cx.error(l, format!("{what}: not one line of text"));
            }
        }
        let lines = [&self.routes, &self.neighbours, &self.set_up, &self.ready];
        if lines.iter().any(|l| l.len() > MOST_LINES) || self.sysctls.len() > MOST_LINES {
            cx.error_whole(format!(
                "external: more than {MOST_LINES} lines of one kind"
            ));
        }
        for (name, value) in &self.sysctls {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            let part = |p: &str| !p.is_empty() && p.chars().all(plain);
            if !name.starts_with("net.") || !name.split('.').all(part) {
                let text = format!(
                    "sysctls: '{name}' is none of a network namespace, such as net.ipv4.ip_forward"
                );
                cx.error(value, text);
            }
        }
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                cx.error_whole(format!("environment: '{name}' cannot be a variable"));
            }
        }
        if let Some(s) = &self.settle
            && !(0.001..=60.0).contains(&s.value)
        {
            cx.error(s, "settle must be from 0.001 to 60 seconds");
        }
        if let Some(first) = self.command.first().filter(|c| c.value.is_empty()) {
            cx.error(first, "command names no program");
        }
    }

    /// What is made; `None`: something is wrong with it, and was told.
    pub(crate) fn black_box(&self, cx: &mut KindCx<'_>) -> Option<BlackBox> {
        let before = cx.reader.diagnostics.len();
        let ports = self.ports.iter().enumerate();
        let ports: Vec<Attach> = ports.filter_map(|(n, p)| self.attach(cx, n, p)).collect();
        self.check(cx, &ports);
        let mut new = cx.reader.diagnostics.iter().skip(before);
        if new.any(onefold_click::diag::Diagnostic::is_error) {
            return None;
        }
        let mut environment: Vec<(String, String)> = (self.environment.iter())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        if !self.environment.contains_key("PATH") {
            environment.push(("PATH".to_string(), PATH.to_string()));
        }
        let dir = cx.reader.dir.clone();
        let directory = match &self.directory {
            Some(d) => dir.join(&d.value),
            None => dir.clone(),
        };
        let command = self.command.split_first().map(|(first, rest)| {
            let program = match first.value.contains('/') {
                true => absolute(dir.join(&first.value)),
                false => PathBuf::from(&first.value),
            };
            (program, rest.iter().map(|a| a.value.clone()).collect())
        });
        let text = |all: &[Loc<String>]| all.iter().map(|l| l.value.clone()).collect();
        Some(BlackBox {
            command,
            directory: absolute(directory),
            environment,
            ports,
            routes: text(&self.routes),
            neighbours: text(&self.neighbours),
            sysctls: (self.sysctls.iter())
                .map(|(k, v)| match &v.value {
                    Setting::Number(n) => (k.clone(), n.to_string()),
                    Setting::Text(t) => (k.clone(), t.clone()),
                })
                .collect(),
            set_up: text(&self.set_up),
            ready: text(&self.ready),
            settle: self.settle.as_ref().map_or(SETTLE, |s| s.value),
        })
    }

    /// The graph as Click text: devices that nothing comes from and nothing is sent to, as of a native function.
    pub fn click(&self) -> String {
        let mut t = ClickText::new();
        for n in 0..self.ports.len().min(MOST_PORTS) {
            t.line(format!("in{n} :: FromDevice({n}) -> taken{n} :: Discard;"))
                .line(format!("given{n} :: Idle -> out{n} :: ToDevice({n});"));
        }
        t.finish()
    }
}

/// What a path is for who has another folder.
fn absolute(path: PathBuf) -> PathBuf {
    // the folder of a file that is named alone
    let path = match path.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => path,
    };
    std::path::absolute(&path).unwrap_or(path)
}

/// The port of a black box, and whether packets come out of it there, that an element of its graph stands for.
pub(crate) fn door_of(element: &str) -> Option<(usize, bool)> {
    let name = element.split_once('/').map_or(element, |(_, n)| n);
    let into = name.strip_prefix("taken").and_then(|n| n.parse().ok());
    let out_of = || name.strip_prefix("given").and_then(|n| n.parse().ok());
    into.map(|n| (n, false))
        .or_else(|| out_of().map(|n| (n, true)))
}
