//! The options.

use crate::live::{Poll, seconds};
use crate::ports::{PortArg, port_arg};
use clap::ValueEnum;
use onefold_bench::Hostile;
use onefold_packet::EtherAddr;
use onefold_traffic::{Arrivals, Rate};
use std::net::IpAddr;
use std::time::Duration;

/// How packets are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Spread {
    /// Evenly.
    Constant,
    /// With exponentially distributed gaps, as of many independent senders.
    Poisson,
    /// --burst of them at one moment, then none until their share of time is over.
    Bursty,
}

/// Something that may be said of one port, or of all.
pub type OfPort<T> = (Option<String>, T);

/// What was said of this port, or else of all.
pub fn of_port<T: Copy>(all: &[OfPort<T>], port: &str) -> Option<T> {
    let own = all.iter().find(|(p, _)| p.as_deref() == Some(port));
    let any = || all.iter().find(|(p, _)| p.is_none());
    own.or_else(any).map(|(_, v)| *v)
}

/// Options of `onefold gen` on live ports.
#[derive(clap::Args, Debug, Clone)]
pub struct LiveArgs {
    /// Sends on a network interface instead: packet:IF, xdp:IF, tap:NAME, dpdk:DEVICE, as of `onefold run`. Packets
    /// leave at the first port (with --for: at the port of that name, and ports have the chain's names); they are
    /// recognised at all of them. Without PORT= a port has the interface's name
    #[arg(long = "port", value_name = "[PORT=]KIND:NAME", value_parser = live_port, help_heading = "On live ports")]
    pub ports: Vec<PortArg>,
    /// Packets per second, 1 or more, also as 10k or 1.5M; max: as many as the port takes [default: max; with --replay
    /// as recorded]
    #[arg(long, value_name = "PPS", value_parser = rate, requires = "ports", help_heading = "On live ports")]
    pub rate: Option<Rate>,
    /// Sends for so long; if neither this nor --packets is given, until Ctrl-C
    #[arg(long, visible_alias = "duration", value_name = "S", value_parser = seconds, requires = "ports",
          help_heading = "On live ports")]
    pub seconds: Option<Duration>,
    /// How packets are spread over time
    #[arg(long, value_enum, default_value_t = Spread::Constant, requires = "ports", help_heading = "On live ports")]
    pub arrivals: Spread,
    /// Packets of a burst
    #[arg(long, value_name = "N", default_value_t = 32, requires = "ports", help_heading = "On live ports",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub burst: u32,
    /// Sends the packets of a capture, once and with its timing; with --rate at that rate, with --seconds over again.
    /// Several ports' captures are merged by time
    #[arg(long, value_name = "[PORT=]FILE", value_parser = replay, requires = "ports", help_heading = "On live ports")]
    pub replay: Vec<OfPort<String>>,
    /// The MAC address that frames are sent to
    #[arg(long, value_name = "[PORT=]MAC", value_parser = mac, requires = "ports", help_heading = "On live ports")]
    pub to_mac: Vec<OfPort<EtherAddr>>,
    /// Asks who has this address (ARP, neighbour discovery), and sends there [default: with --for the first address
    /// that the chain answers for, if somebody has it; else frames go to --dst-mac, or to the chain file's MAC address]
    #[arg(long, value_name = "[PORT=]IP", value_parser = ip, requires = "ports", help_heading = "On live ports")]
    pub gateway: Vec<OfPort<IpAddr>>,
    /// Does not answer those who ask for neighbours; otherwise it has all addresses that anybody asks for
    #[arg(long, requires = "ports", help_heading = "On live ports")]
    pub no_answers: bool,
    /// Most packets that are handed to a port at once, 1 to 256
    #[arg(long, value_name = "N", default_value_t = 64, requires = "ports", help_heading = "On live ports",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub batch: u16,
    /// What is done while nothing is due and nothing comes: look again and again (a whole core, the truest times),
    /// sleep after a moment, or sleep at once
    #[arg(long, value_enum, default_value_t = Poll::Adaptive, requires = "ports", help_heading = "On live ports")]
    pub poll: Poll,
    /// Packets on their way are waited for until none has come for so long
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = seconds, requires = "ports",
          help_heading = "On live ports")]
    pub settle: Duration,
    /// The core to run on
    #[arg(
        long,
        value_name = "N",
        requires = "ports",
        help_heading = "On live ports"
    )]
    pub core: Option<usize>,
    /// Searches for the highest rate (at most --rate) without too much loss, as of RFC 2544
    #[arg(long, requires = "ports", help_heading = "Throughput")]
    pub search: bool,
    /// The most that may be lost, as a share of what is sent
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.001,
        help_heading = "Throughput"
    )]
    pub loss: f64,
    /// How long each trial sends
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds, help_heading = "Throughput")]
    pub trial: Duration,
    /// The search ends when the highest rate that passed and the lowest that did not are no further apart than this
    /// share
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.01,
        help_heading = "Throughput"
    )]
    pub step: f64,
    /// Does not send what opens flows (handshakes), only their packets with data
    #[arg(long, requires = "ports", help_heading = "On live ports")]
    pub no_openings: bool,
    /// A rate passes if one of so many trials does: for machines on which other work takes a core away now and then
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Throughput",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub attempts: u32,
    /// Answers the first packet of each flow that arrives at another port, as a host would: whoever tracks connections
    /// takes the flow for established then
    #[arg(long, requires = "ports", help_heading = "On live ports")]
    pub establish: bool,
    /// Sends packets of attackers, too, made from those that the chain of --for lets pass; they have no stamps, so that
    /// figures are those of the others
    #[arg(
        long,
        value_enum,
        value_name = "ATTACK",
        requires = "ports",
        help_heading = "On live ports"
    )]
    pub hostile: Option<Hostile>,
    /// So much of all that is sent is hostile
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.5,
        requires = "hostile",
        help_heading = "On live ports"
    )]
    pub hostile_share: f64,
    /// Obeys commands on standard input, a JSON object each: `search [NEAR]`, `trial PPS|max SECONDS`
    #[arg(long, hide = true, requires = "ports")]
    pub commands: bool,
}

impl LiveArgs {
    /// How packets are spread.
    pub fn spread(&self) -> Arrivals {
        match self.arrivals {
            Spread::Constant => Arrivals::Constant,
            Spread::Poisson => Arrivals::Poisson,
            Spread::Bursty => Arrivals::Bursty(self.burst),
        }
    }
}

/// Reads `[PORT=]KIND:NAME`.
fn live_port(s: &str) -> Result<PortArg, String> {
    let kind = s.split(':').next().unwrap_or_default();
    let named = match kind.contains('=') {
        true => port_arg(s)?,
        false => {
            let name = s.split_once(':').map_or("", |(_, rest)| rest);
            let name = name.split(',').next().unwrap_or_default();
            port_arg(&format!("{name}={s}"))?
        }
    };
    match named.device() {
        Some(_) => Ok(named),
        None => {
            Err("traffic is sent on network interfaces: packet:IF, xdp:IF, tap:NAME".to_string())
        }
    }
}

/// Reads a rate.
pub fn rate(s: &str) -> Result<Rate, String> {
    if s == "max" {
        return Ok(Rate::Max);
    }
    let (number, unit) = match (s.strip_suffix('k'), s.strip_suffix('M')) {
        (Some(n), _) => (n, 1e3),
        (_, Some(n)) => (n, 1e6),
        _ => (s, 1.0),
    };
    match number.parse::<f64>().map(|n| n * unit) {
        Ok(n) if (1.0..=1e9).contains(&n) => Ok(Rate::Pps(n)),
        _ => Err("expected packets per second, 1 or more (1000, 10k, 1.5M), or max".to_string()),
    }
}

/// `[PORT=]VALUE`.
fn of(s: &str) -> OfPort<&str> {
    match s.split_once('=') {
        Some((port, v)) => (Some(port.to_string()), v),
        None => (None, s),
    }
}

fn replay(s: &str) -> Result<OfPort<String>, String> {
    let (port, file) = of(s);
    match file.is_empty() {
        true => Err("expected a capture".to_string()),
        false => Ok((port, file.to_string())),
    }
}

fn mac(s: &str) -> Result<OfPort<EtherAddr>, String> {
    let (port, mac) = of(s);
    let mac = mac.parse();
    let mac = mac.map_err(|()| "expected a MAC address such as 02:00:00:00:00:01".to_string())?;
    Ok((port, mac))
}

fn ip(s: &str) -> Result<OfPort<IpAddr>, String> {
    let (port, ip) = of(s);
    let ip = ip.parse();
    let ip = ip.map_err(|_| "expected an IP address such as 10.0.0.1".to_string())?;
    Ok((port, ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_may_have_names() {
        let name = |s| live_port(s).map(|p| p.port);
        assert_eq!(name("lan=packet:eth1").as_deref(), Ok("lan"));
        assert_eq!(name("packet:eth1").as_deref(), Ok("eth1"));
        assert_eq!(name("packet:eth1,mode=mmsg,batch=8").as_deref(), Ok("eth1"));
        assert_eq!(name("xdp:eth1,queue=0").as_deref(), Ok("eth1"));
        for wrong in ["memory:", "lan=pcap:x", "eth1", "", "lan=eth1"] {
            assert!(live_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(rate("max"), Ok(Rate::Max));
        assert_eq!(rate("1"), Ok(Rate::Pps(1.0)));
        assert_eq!(rate("1.5M"), Ok(Rate::Pps(1.5e6)));
        assert_eq!(rate("20k"), Ok(Rate::Pps(20_000.0)));
        for wrong in ["0", "-1", "0.5", "1e12", "k", "", "1kk", "nan", "fast"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_said_of_a_port_counts_before_what_is_said_of_all() {
        let all = [mac("2:0:0:0:0:1"), mac("b=2:0:0:0:0:2")];
        let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        assert_eq!(of_port(&all, "a").map(|m| m.0[5]), Some(1));
        assert_eq!(of_port(&all, "b").map(|m| m.0[5]), Some(2));
        assert_eq!(of_port(&all[1..], "a"), None);
        assert!(ip("a=10.0.0").is_err() && replay("a=").is_err());
    }
}
