//! The options of `onefold gen`.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use onefold_packet::EtherAddr;

use crate::error::GenError;
use crate::ranges::{Ports, ProtocolMix};
use crate::rules::{Inside, RuleKind};
use crate::traffic::{ExceptionKind, Payload};

/// How a rule set is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleFormat {
    /// 5-tuples as of ClassBench; verdicts are left to whoever uses the rules.
    Classbench,
    /// ClassBench with one more column, `allow` or `deny`.
    ClassbenchVerdicts,
    /// Arguments of a Click IPFilter: `allow src net 10.0.0.0/8 && tcp && dst port 80,`
    Click,
}

/// Generates captures, and rule sets to go with them.
#[derive(Clone, Debug, Args)]
#[command(
    long_about = "Generates captures, and rule sets to go with them.\n\n\
        With --for CHAIN, packets that the chain lets pass: begin with that. Without it, packets for no chain in particular; most chains \
        drop most of them, because their MAC addresses and rules want others.\n\n\
        Same options, same seed: same bytes. A capture holds flows (pairwise different addresses, ports, protocols) \
        which send one packet each in random order, round after round, or by Zipf's law. TCP flows open, use and close \
        connections. With --reverse, servers answer, into a second capture on the same clock.",
    after_long_help = "Examples:\n  \
        Packets that an example chain lets pass, and what comes back:\n    \
        onefold gen --for isp-edge --packets 100000 --out lan.pcap --reverse wan.pcap\n  \
        A million packets of 10,000 flows, IMIX sizes:\n    \
        onefold gen --out in.pcap\n  \
        64-byte UDP, 50 flows carry most of the traffic:\n    \
        onefold gen --size 64 --protocols udp --flows 100000 --zipf 1.1 --out in.pcap\n  \
        Both sides of a router, TCP only, as two captures:\n    \
        onefold gen --protocols tcp --out lan.pcap --reverse wan.pcap\n  \
        An access list of 713 rules, and traffic that exercises each of them:\n    \
        onefold gen --rules acl --count 713 --out acl713.rules\n    \
        onefold gen --from-rules acl713.rules --flows 7130 --out in.pcap\n  \
        Hostile input, a tenth of it options, fragments, wrong checksums and the like:\n    \
        onefold gen --exceptions 0.1 --out odd.pcapng\n  \
        On network interfaces, ten thousand packets a second; what came back, and how late:\n    \
        onefold gen --for isp-edge --port lan=packet:eth1 --port wan=packet:eth2 --rate 10k --seconds 10\n  \
        The highest rate at which less than a thousandth is lost:\n    \
        onefold gen --for l2fwd --port in=packet:eth1 --port out=packet:eth2 --size 60 --search\n  \
        A capture, with its timing:\n    \
        onefold gen --port packet:eth1 --port packet:eth2 --replay seen.pcap"
)]
pub struct GenArgs {
    /// Capture (or, with --rules, rule set) to write; a name that ends in .pcapng gives pcapng, any other pcap with
    /// nanoseconds; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Frames to write, over all captures together; with --rules and --headers, headers [default: 1000000; on live
    /// ports no limit]
    #[arg(long, value_name = "N", help_heading = "How much")]
    pub packets: Option<u64>,

    /// Number of flows [default: 10000; with --from-rules, ten for each rule, at most a million]
    #[arg(long, value_name = "N", help_heading = "How much")]
    pub flows: Option<u32>,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "How much")]
    pub seed: u64,

    /// Frame size without check sequence: bytes (60 or more), imix, campus, router, isp, datacenter, or a model of
    /// --size-models. Frames that carry no data (TCP handshakes) are as short as they can be
    #[arg(
        long,
        value_name = "BYTES|MODEL",
        default_value = "imix",
        help_heading = "Packets"
    )]
    pub size: String,

    /// JSON file with more size models: {"models": [{"name", and "ratio" + "frame", "bins", "bins_right_edge",
    /// "peaks_ip" or "percentiles"}]}
    #[arg(long, value_name = "FILE", help_heading = "Packets")]
    pub size_models: Option<PathBuf>,

    /// What packets carry
    #[arg(long, value_enum, default_value_t = Payload::Random, help_heading = "Packets")]
    pub payload: Payload,

    /// Text to hide in payloads that are long enough, for payload inspection to find
    #[arg(long, value_name = "TEXT", help_heading = "Packets")]
    pub needle: Option<String>,

    /// Share of packets that get the needle
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.01,
        help_heading = "Packets"
    )]
    pub needle_share: f64,

    /// TTL, and hop limit
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Packets")]
    pub ttl: u8,

    /// Differentiated services code point, 0 to 63
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Packets")]
    pub dscp: u8,

    /// VLAN tag
    #[arg(long, value_name = "ID", help_heading = "Packets")]
    pub vlan: Option<u16>,

    /// Share of frames that are exceptional, for example 0.01
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        help_heading = "Packets"
    )]
    pub exceptions: f64,

    /// How they are exceptional [default: all kinds in equal parts]
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        value_delimiter = ',',
        help_heading = "Packets"
    )]
    pub exception_kinds: Vec<ExceptionKind>,

    /// Zipf exponent of the flows' popularity; 0: all flows alike
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Flows")]
    pub zipf: f64,

    /// Shares of the flows' protocols
    #[arg(
        long,
        value_name = "MIX",
        default_value = "tcp=80,udp=19,icmp=1",
        help_heading = "Flows"
    )]
    pub protocols: ProtocolMix,

    /// Share of the flows that are IPv6
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        help_heading = "Flows"
    )]
    pub ipv6: f64,

    /// Client addresses: prefixes, ranges, addresses, or @FILE with one a line. Every entry is equally likely
    #[arg(
        long,
        value_name = "LIST",
        default_value = "10.0.0.0/8",
        help_heading = "Flows"
    )]
    pub src: String,

    /// Server addresses
    #[arg(
        long,
        value_name = "LIST",
        default_value = "198.18.0.0/15",
        help_heading = "Flows"
    )]
    pub dst: String,

    /// Client addresses of IPv6 flows
    #[arg(
        long,
        value_name = "LIST",
        default_value = "2001:db8::/48",
        help_heading = "Flows"
    )]
    pub src6: String,

    /// Server addresses of IPv6 flows
    #[arg(
        long,
        value_name = "LIST",
        default_value = "2001:2::/48",
        help_heading = "Flows"
    )]
    pub dst6: String,

    /// Client ports: 1024-65535, or 5000,6000-6099
    #[arg(
        long,
        value_name = "LIST",
        default_value = "1024-65535",
        help_heading = "Flows"
    )]
    pub sport: Ports,

    /// Server ports
    #[arg(
        long,
        value_name = "LIST",
        default_value = "80,443,22,25,53,123,1234,8080",
        help_heading = "Flows"
    )]
    pub dport: Ports,

    /// Data segments of a TCP connection
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Flows")]
    pub segments: u32,

    /// TCP without connections: data segments only, as from the middle of one
    #[arg(long, conflicts_with = "segments", help_heading = "Flows")]
    pub stateless: bool,

    /// ClassBench rule set whose rules the traffic exercises, each as the first match of equally many flows (instead of
    /// addresses, ports and protocols)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "rules",
        help_heading = "Flows"
    )]
    pub from_rules: Option<PathBuf>,

    /// Second capture: what the servers answer, on the same clock
    #[arg(long, value_name = "FILE", help_heading = "Directions")]
    pub reverse: Option<PathBuf>,

    /// Source MAC address of --out
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01", value_parser = mac, help_heading = "Directions")]
    pub src_mac: EtherAddr,

    /// Destination MAC address of --out: what the chain's port has
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02", value_parser = mac, help_heading = "Directions")]
    pub dst_mac: EtherAddr,

    /// Source MAC address of --reverse [default: that of --dst-mac]
    #[arg(long, value_name = "MAC", value_parser = mac, help_heading = "Directions")]
    pub reverse_src_mac: Option<EtherAddr>,

    /// Destination MAC address of --reverse [default: that of --src-mac]
    #[arg(long, value_name = "MAC", value_parser = mac, help_heading = "Directions")]
    pub reverse_dst_mac: Option<EtherAddr>,

    /// IPv4 answers go to this address rather than to the client: the outside of a NAT that keeps ports
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "reverse",
        help_heading = "Directions"
    )]
    pub reply_to: Option<Ipv4Addr>,

    /// Writes the answers to a capture instead: what the other side sends back to packets that were seen, for example
    /// behind a NAT
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["rules", "from_rules", "reverse", "flows", "headers"],
        help_heading = "Directions"
    )]
    pub answers_to: Option<PathBuf>,

    /// Packets per second of capture time, all captures together
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        help_heading = "Directions"
    )]
    pub pps: u64,

    /// Time of the first frame, seconds since 1970
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 1_700_000_000,
        help_heading = "Directions"
    )]
    pub start: u32,

    /// Write a generated rule set to --out instead of a capture: acl (access list), fw (firewall), ipc (in between)
    #[arg(long, value_enum, value_name = "KIND", help_heading = "Rule sets")]
    pub rules: Option<RuleKind>,

    /// Number of rules
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000,
        requires = "rules",
        help_heading = "Rule sets"
    )]
    pub count: usize,

    /// How the rule set is written
    #[arg(long, value_enum, default_value_t = RuleFormat::Classbench, requires = "rules", help_heading = "Rule sets")]
    pub rule_format: RuleFormat,

    /// Share of rules that deny [default: 0.33]
    #[arg(
        long,
        value_name = "SHARE",
        requires = "rules",
        help_heading = "Rule sets"
    )]
    pub deny: Option<f64>,

    /// Share of addresses that are wildcards [default: the kind's]
    #[arg(
        long,
        value_name = "SHARE",
        requires = "rules",
        help_heading = "Rule sets"
    )]
    pub wildcards: Option<f64>,

    /// Share of prefixes that lie within another rule's, or contain it [default: the kind's]
    #[arg(
        long,
        value_name = "SHARE",
        requires = "rules",
        help_heading = "Rule sets"
    )]
    pub nesting: Option<f64>,

    /// Source addresses of all rules lie within this prefix, for example 204.152.0.0/16; wildcards become the whole
    /// prefix
    #[arg(
        long,
        value_name = "PREFIX",
        requires = "rules",
        help_heading = "Rule sets"
    )]
    pub inside: Option<Inside>,

    /// JSON file with all parameters of rules, instead of the kind's; --write-rule-params gives one to start from
    #[arg(
        long,
        value_name = "FILE",
        requires = "rules",
        help_heading = "Rule sets"
    )]
    pub rule_params: Option<PathBuf>,

    /// Write the parameters that are used, as JSON
    #[arg(
        long,
        value_name = "FILE",
        requires = "rules",
        help_heading = "Rule sets"
    )]
    pub write_rule_params: Option<PathBuf>,

    /// Text file of headers that exercise the rules of --rules or --from-rules: source, destination, ports, protocol,
    /// flags, index of the first matching rule from 0
    #[arg(long, value_name = "FILE", help_heading = "Rule sets")]
    pub headers: Option<PathBuf>,
}

/// Frames unless told otherwise.
const PACKETS: u64 = 1_000_000;

impl GenArgs {
    /// Frames to write.
    pub fn frames(&self) -> u64 {
        self.packets.unwrap_or(PACKETS)
    }

    /// The file to write.
    ///
    /// # Errors
    /// None was given.
    pub fn file(&self) -> Result<&Path, GenError> {
        self.out.as_deref().ok_or_else(|| GenError::Usage {
            flag: "--out",
            message: "expected a file to write; or --port, an interface to send on".to_string(),
        })
    }
}

fn mac(s: &str) -> Result<EtherAddr, String> {
    s.parse()
        .map_err(|()| "expected a MAC address such as 02:00:00:00:00:01".to_owned())
}
