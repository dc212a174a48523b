//! Rewriters to be checked: their configuration as data, from which both the element's text and the expectation follow.

use std::fmt::Write;
use std::net::Ipv4Addr;

/// Which rewriter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// IPRewriter: TCP and UDP, a map each.
    Ip,
    /// TCPRewriter.
    Tcp,
    /// UDPRewriter.
    Udp,
    /// IPAddrRewriter.
    Addr,
    /// IPAddrPairRewriter.
    AddrPair,
    /// ICMPPingRewriter.
    Ping,
}

impl Kind {
    /// Its element class.
    pub fn class(self) -> &'static str {
        match self {
            Kind::Ip => "IPRewriter",
            Kind::Tcp => "TCPRewriter",
            Kind::Udp => "UDPRewriter",
            Kind::Addr => "IPAddrRewriter",
            Kind::AddrPair => "IPAddrPairRewriter",
            Kind::Ping => "ICMPPingRewriter",
        }
    }
}

/// How a variation is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// No suffix: the packet's own port if it is free, else any.
    OwnFirst,
    /// `#`: one after the other.
    InTurn,
    /// `?`: any.
    Any,
}

/// A pattern: zero leaves a field as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Source address, or the first of several.
    pub saddr: u32,
    /// Source port, or the first of several.
    pub sport: u16,
    /// Destination address.
    pub daddr: u32,
    /// Destination port.
    pub dport: u16,
    /// So many variations besides the first: of the port, if there is one, else of the address.
    pub more: u32,
    /// How one is chosen.
    pub how: How,
}

impl Pattern {
    fn text(&self) -> String {
        let ip = |a: u32| match a {
            0 => "-".to_string(),
            a => Ipv4Addr::from(a).to_string(),
        };
        let port = |p: u16| match p {
            0 => "-".to_string(),
            p => p.to_string(),
        };
        let suffix = match self.how {
            How::OwnFirst => "",
            How::InTurn => "#",
            How::Any => "?",
        };
        match (self.sport, self.more) {
            (0, 0) => format!(
                "{} - {} {}",
                ip(self.saddr),
                ip(self.daddr),
                port(self.dport)
            ),
            (0, n) => {
                let last = Ipv4Addr::from(self.saddr + n);
                format!("{}-{last}{suffix} {}", ip(self.saddr), ip(self.daddr))
            }
            (p, 0) => format!(
                "{} {p} {} {}",
                ip(self.saddr),
                ip(self.daddr),
                port(self.dport)
            ),
            (p, n) => format!(
                "{} {p}-{}{suffix} {} {}",
                ip(self.saddr),
                u32::from(p) + n,
                ip(self.daddr),
                port(self.dport)
            ),
        }
    }
}

/// What an input does with a packet that no binding is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spec {
    /// `drop`.
    Drop,
    /// `pass OUTPUT`.
    Pass(usize),
    /// `keep FOUTPUT ROUTPUT`.
    Keep(usize, usize),
    /// `pattern ... FOUTPUT ROUTPUT`.
    Pattern(Pattern, usize, usize),
    /// The mapper.
    Mapper,
    /// `mapped FOUTPUT ROUTPUT`.
    Mapped(usize, usize),
}

impl Spec {
    /// As the configuration has it, and as a `patternN` handler takes it.
    pub fn text(&self) -> String {
        match self {
            Spec::Drop => "drop".into(),
            Spec::Pass(o) => format!("pass {o}"),
            Spec::Keep(f, r) => format!("keep {f} {r}"),
            Spec::Pattern(p, f, r) => format!("pattern {} {f} {r}", p.text()),
            Spec::Mapper => "mapper".into(),
            Spec::Mapped(f, r) => format!("mapped {f} {r}"),
        }
    }
}

/// How a mapper chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// In turn: RoundRobinIPMapper.
    InTurn,
    /// By the source address: SourceIPHashMapper.
    BySource,
    /// By the whole flow: MaglevIPMapper.
    ByFlow,
}

/// A mapper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapper {
    /// How it chooses.
    pub choice: Choice,
    /// Patterns with forward and reply output.
    pub entries: Vec<(Pattern, usize, usize)>,
}

impl Mapper {
    /// Its element class.
    pub fn class(&self) -> &'static str {
        match self.choice {
            Choice::InTurn => "RoundRobinIPMapper",
            Choice::BySource => "SourceIPHashMapper",
            Choice::ByFlow => "MaglevIPMapper",
        }
    }
    /// Its configuration.
    pub fn text(&self) -> String {
        let mut all = Vec::new();
        if self.choice == Choice::BySource {
            all.push("100 17".to_string());
        }
        for (i, (p, f, r)) in self.entries.iter().enumerate() {
            let mut s = format!("{} {f} {r}", p.text());
            // writing to a String cannot fail
            let _ = match self.choice {
                Choice::InTurn => Ok(()),
                Choice::BySource => write!(s, " {}", i + 1),
                Choice::ByFlow => write!(s, " server{i} {}", i + 1),
            };
            all.push(s);
        }
        if self.choice == Choice::ByFlow {
            all.push("SIZE 251, SEED 17".to_string());
        }
        all.join(", ")
    }
}

/// Time-outs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// A flow is not evicted before it has been silent for so long.
    pub guarantee: u64,
    /// TCP with data one way at most; flows of rewriters that do not follow connections.
    pub base: u64,
    /// TCP with data both ways.
    pub data: u64,
    /// TCP closed both ways.
    pub done: u64,
    /// UDP.
    pub udp: u64,
    /// UDP, three packets and a reply among them.
    pub streaming: u64,
    /// Between two sweeps.
    pub sweep: u64,
}

/// A rewriter to be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// For people.
    pub name: &'static str,
    /// Which rewriter.
    pub kind: Kind,
    /// By input.
    pub inputs: Vec<Spec>,
    /// Number of outputs.
    pub outputs: usize,
    /// What [`Spec::Mapper`] names.
    pub mapper: Option<Mapper>,
    /// Time-outs.
    pub times: Times,
    /// Most bindings.
    pub capacity: u32,
    /// A new flow takes the place of one with the same replies where it has no choice; else it is refused.
    pub take_over: bool,
    /// An inside address and port has one outside address and port, which nobody else has.
    pub endpoints: bool,
    /// Acknowledgements count as data.
    pub handshake: bool,
}

impl Config {
    /// The first outside address, its first port, and how many follow.
    pub fn outside(&self) -> (u32, u16, usize) {
        let found = self.inputs.iter().find_map(|s| match s {
            Spec::Pattern(p, ..) => Some((p.saddr, p.sport, p.more as usize)),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// The rewriter's configuration.
    pub fn text(&self) -> String {
        let mut all: Vec<String> = self.inputs.iter().map(Spec::text).collect();
        let t = &self.times;
        let mut key = |k: &str, v: u64| all.push(format!("{k} {v}"));
        match self.kind {
            Kind::Ip => {
                key("TCP_NODATA_TIMEOUT", t.base);
                key("TCP_TIMEOUT", t.data);
                key("TCP_DONE_TIMEOUT", t.done);
                key("TCP_GUARANTEE", t.guarantee);
                key("UDP_TIMEOUT", t.udp);
                key("UDP_STREAMING_TIMEOUT", t.streaming);
                key("UDP_GUARANTEE", t.guarantee);
            }
            Kind::Tcp => {
                key("TCP_NODATA_TIMEOUT", t.base);
                key("TCP_TIMEOUT", t.data);
                key("TCP_DONE_TIMEOUT", t.done);
                key("TCP_GUARANTEE", t.guarantee);
            }
            Kind::Udp => {
                key("TIMEOUT", t.udp);
                key("STREAMING_TIMEOUT", t.streaming);
                key("GUARANTEE", t.guarantee);
            }
            Kind::Addr | Kind::AddrPair | Kind::Ping => {
                key("TIMEOUT", t.base);
                key("GUARANTEE", t.guarantee);
            }
        }
        key("REAP_INTERVAL", t.sweep);
        key("MAPPING_CAPACITY", u64::from(self.capacity));
        if !self.take_over {
            all.push("TAKE_OVER false".into());
        }
        if self.endpoints {
            all.push("MAPPING endpoint".into());
        }
        if self.handshake {
            all.push("TCP_HANDSHAKE true".into());
        }
        all.join(", ")
    }
}

const fn ip(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// The public side of the patterns below.
const OUTSIDE: u32 = ip(203, 0, 113, 1);

fn ports(first: u16, more: u32, how: How) -> Pattern {
    Pattern {
        saddr: OUTSIDE,
        sport: first,
        daddr: 0,
        dport: 0,
        more,
        how,
    }
}

/// What is checked: every rewriter, each choice of variation, both mappers. `flows` bounds ports and capacity, so that
/// both run out when about twice as many flows come.
pub fn all(flows: u32) -> Vec<Config> {
    let times = Times {
        guarantee: 5,
        base: 30,
        data: 120,
        done: 8,
        udp: 20,
        streaming: 60,
        sweep: 15,
    };
    // more flows than ports, more flows than room: each runs out alone and together
    let (few, room) = (flows.max(2) - 1, flows + flows / 2);
    let config = |name, kind, inputs: Vec<Spec>| Config {
        name,
        kind,
        inputs,
        outputs: 3,
        mapper: None,
        times,
        capacity: room,
        take_over: true,
        endpoints: false,
        handshake: false,
    };
    let one = |(name, kind, inputs)| config(name, kind, inputs);
    let mut v: Vec<Config> = rewriters(few).into_iter().map(one).collect();
    let inputs = vec![Spec::Mapper, Spec::Drop];
    v.extend(mappers(config("balancer, in turn", Kind::Ip, inputs), few));
    v.extend(nobody_is_taken_over(&v));
    v.extend(endpoint_independent(&v, few));
    v
}

/// Rewriters whose mappings are endpoint-independent; `all`: others, whose times and room these have.
fn endpoint_independent(all: &[Config], few: u32) -> Vec<Config> {
    let Some(like) = all.first() else {
        return Vec::new();
    };
    let config = |name, kind, inputs: Vec<Spec>| Config {
        name,
        kind,
        inputs,
        mapper: None,
        take_over: false,
        endpoints: true,
        handshake: matches!(kind, Kind::Ip | Kind::Tcp),
        ..like.clone()
    };
    // ports of both classes, of which there are too few
    let napt = |first| Spec::Pattern(ports(first, few / 2, How::OwnFirst), 0, 1);
    vec![
        config(
            "NAPT, endpoint-independent",
            Kind::Ip,
            vec![napt(2000), Spec::Mapped(2, 1), Spec::Drop],
        ),
        config(
            "NAPT, endpoint-independent, ports of both classes",
            Kind::Ip,
            vec![
                napt(1024 - few as u16 / 4),
                Spec::Keep(2, 1),
                Spec::Mapped(2, 1),
            ],
        ),
        config(
            "TCPRewriter, endpoint-independent",
            Kind::Tcp,
            vec![napt(1999), Spec::Drop],
        ),
        config(
            "pings, endpoint-independent",
            Kind::Ping,
            vec![napt(1), Spec::Mapped(2, 1)],
        ),
    ]
}

/// Rewriters with patterns of `few` ports or addresses: name, kind, what their inputs do.
fn rewriters(few: u32) -> Vec<(&'static str, Kind, Vec<Spec>)> {
    let addresses = |how| Pattern {
        saddr: OUTSIDE,
        sport: 0,
        daddr: 0,
        dport: 0,
        more: few,
        how,
    };
    vec![
        (
            "NAPT, two inside ports with one pool each",
            Kind::Ip,
            vec![
                Spec::Pattern(ports(2000, few, How::OwnFirst), 0, 1),
                Spec::Pattern(ports(9000, few, How::InTurn), 0, 2),
                Spec::Drop,
            ],
        ),
        (
            "NAPT beside flows that stay as they are",
            Kind::Ip,
            vec![
                Spec::Pattern(ports(2000, few, How::Any), 0, 1),
                Spec::Keep(2, 1),
                Spec::Pass(2),
            ],
        ),
        (
            "TCPRewriter",
            Kind::Tcp,
            vec![
                Spec::Pattern(ports(2000, few, How::InTurn), 0, 1),
                Spec::Keep(2, 1),
            ],
        ),
        (
            "UDPRewriter",
            Kind::Udp,
            vec![
                Spec::Pattern(ports(2000, few, How::OwnFirst), 0, 1),
                Spec::Pass(2),
            ],
        ),
        (
            "IPAddrRewriter: basic NAT",
            Kind::Addr,
            vec![Spec::Pattern(addresses(How::InTurn), 0, 1), Spec::Drop],
        ),
        (
            "IPAddrPairRewriter",
            Kind::AddrPair,
            vec![Spec::Pattern(addresses(How::Any), 0, 1), Spec::Keep(2, 1)],
        ),
        (
            "ICMPPingRewriter",
            Kind::Ping,
            vec![
                Spec::Pattern(ports(1, few, How::OwnFirst), 0, 1),
                Spec::Drop,
            ],
        ),
    ]
}

/// Balancers and a NAPT with `few` ports behind mappers; `c` is the first of them, without its mapper.
fn mappers(mut c: Config, few: u32) -> Vec<Config> {
    let server = |n: u8| {
        let p = Pattern {
            saddr: 0,
            sport: 0,
            daddr: ip(10, 9, 9, n),
            dport: 8080,
            more: 0,
            how: How::OwnFirst,
        };
        (p, 0, 1)
    };
    let nat = |n: u8, first| {
        let mut p = ports(first, few / 2, How::InTurn);
        p.saddr += u32::from(n);
        (p, usize::from(n), 2)
    };
    c.mapper = Some(Mapper {
        choice: Choice::InTurn,
        entries: vec![server(1), server(2), server(3)],
    });
    let mut v = vec![c.clone()];
    c.name = "balancer by source";
    if let Some(m) = &mut c.mapper {
        m.choice = Choice::BySource;
    }
    v.push(c.clone());
    c.name = "balancer by flow";
    if let Some(m) = &mut c.mapper {
        m.choice = Choice::ByFlow;
    }
    v.push(c.clone());
    c.name = "NAPT with two pools in turn";
    c.mapper = Some(Mapper {
        choice: Choice::InTurn,
        entries: vec![nat(0, 3000), nat(1, 4000)],
    });
    v.push(c);
    v
}

/// Configurations without variations in which a new flow is refused where another one has its replies. `all`: others,
/// whose times and room these have.
fn nobody_is_taken_over(all: &[Config]) -> Vec<Config> {
    let Some(like) = all.first() else {
        return Vec::new();
    };
    let config = |name, kind, inputs: Vec<Spec>, mapper: Option<Mapper>| Config {
        name,
        kind,
        inputs,
        mapper,
        take_over: false,
        ..like.clone()
    };
    let forward = |daddr| Pattern {
        saddr: 0,
        sport: 0,
        daddr,
        dport: 8080,
        more: 0,
        how: How::OwnFirst,
    };
    let address = Pattern {
        sport: 0,
        ..ports(0, 0, How::OwnFirst)
    };
    let server = ip(10, 9, 9, 1);
    vec![
        config(
            "NAPT with one port, two forwards to one server",
            Kind::Ip,
            vec![
                Spec::Pattern(ports(2000, 0, How::OwnFirst), 0, 1),
                Spec::Pattern(forward(server), 1, 0),
                Spec::Keep(2, 1),
                Spec::Drop,
            ],
            None,
        ),
        config(
            "IPAddrPairRewriter, one address",
            Kind::AddrPair,
            vec![Spec::Pattern(address, 0, 1), Spec::Keep(2, 1)],
            None,
        ),
        config(
            "ICMPPingRewriter, identifiers stay",
            Kind::Ping,
            vec![Spec::Pattern(address, 0, 1), Spec::Drop],
            None,
        ),
        config(
            "balancer in turn, nobody is taken over",
            Kind::Ip,
            vec![Spec::Mapper, Spec::Drop],
            Some(Mapper {
                choice: Choice::InTurn,
                entries: vec![(forward(server), 0, 1), (forward(server + 1), 0, 1)],
            }),
        ),
    ]
}
