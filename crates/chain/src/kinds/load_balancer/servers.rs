//! The servers of a load balancer: the mapper that chooses among them.

use super::{LoadBalancer, Policy, Server};
use crate::kinds::{ClickText, KindCx};
use onefold_click::source::Span;
use std::net::{IpAddr, SocketAddr};

/// Most servers.
const MAX_SERVERS: usize = 1024;
/// Largest weight.
const MAX_WEIGHT: u32 = 100;
/// Largest weight by a hash of the source: a server has an identity in the hash for each.
const MAX_HASH_WEIGHT: u32 = 63;
/// Most identities in the hash.
const MAX_IDENTITIES: u32 = 4096;

/// A server that takes new flows, checked.
pub(super) struct Checked {
    /// Its number in the chain file.
    number: usize,
    pub address: IpAddr,
    pub port: Option<u16>,
    pub weight: u32,
    at: Span,
}

impl Checked {
    /// As `backend` takes it.
    pub fn name(&self) -> String {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).to_string(),
            None => self.address.to_string(),
        }
    }
    /// What becomes of flows, and where they go.
    fn pattern(&self) -> String {
        let port = self.port.map_or("-".to_string(), |p| p.to_string());
        format!("- - {} {port} 0 1", self.address)
    }
}

impl Policy {
    fn class(self) -> &'static str {
        match self {
            Policy::RoundRobin => "RoundRobinIPMapper",
            Policy::SourceHash => "SourceIPHashMapper",
            Policy::Maglev => "MaglevIPMapper",
        }
    }
    fn max_weight(self) -> u32 {
        match self {
            Policy::SourceHash => MAX_HASH_WEIGHT,
            Policy::RoundRobin | Policy::Maglev => MAX_WEIGHT,
        }
    }
}

impl LoadBalancer {
    /// Those that take new flows, of the version of IP that the balancer's own address is of; what is wrong with others
    /// is told. `None`: there is nothing to go on with.
    pub(super) fn checked(&self, cx: &mut KindCx<'_>, six: bool) -> Option<Vec<Checked>> {
        if self.servers.is_empty() || self.servers.len() > MAX_SERVERS {
            cx.error_whole("a load balancer has 1 to 1024 servers");
            return None;
        }
        let mut all: Vec<Checked> = Vec::new();
        let mut wrong = false;
        for (number, s) in self.servers.iter().enumerate() {
            match self.check((number, six), s, cx) {
                None => wrong = true,
                Some(c) if c.weight == 0 => {}
                Some(c) => all.push(c),
            }
        }
        if !wrong && all.is_empty() {
            cx.error_whole(
                "all servers are drained (weight 0): new flows would have nowhere to go",
            );
            return None;
        }
        Some(all)
    }

    fn check(
        &self,
        (number, six): (usize, bool),
        s: &Server,
        cx: &mut KindCx<'_>,
    ) -> Option<Checked> {
        let (version, other) = if six {
            ("IPv6", "IPv4")
        } else {
            ("IPv4", "IPv6")
        };
        let address = match s.address.value.parse::<IpAddr>() {
            Ok(a) if a.is_ipv6() == six => a,
            Ok(_) => {
                let text = format!(
                    "'{}' is an {other} address, and the balancer's own is an {version} one: servers are of the same \
                     version of IP; put those of the other one behind a balancer of their own",
                    s.address.value
                );
                cx.error(&s.address, text);
                return None;
            }
            Err(_) => {
                let text = format!("expected an {version} address, found '{}'", s.address.value);
                cx.error(&s.address, text);
                return None;
            }
        };
        let (weight, most) = (s.weight(), self.policy.max_weight());
        if let Some(w) = s.weight.as_ref().filter(|w| w.value > most) {
            cx.error(
                w,
                format!("a weight is from 1 to {most}, or 0: the server is drained"),
            );
            return None;
        }
        if let Some(port) = s.port.as_ref().filter(|p| p.value == 0) {
            cx.error(port, "a port is from 1 to 65535");
            return None;
        }
        Some(Checked {
            number,
            address,
            port: s.port.as_ref().map(|p| p.value),
            weight,
            at: cx.at(&s.address),
        })
    }

    /// The element `servers` of IPv6: a ConnBalancer.
    pub(super) fn balancer6(&self, servers: &[Checked], cx: &mut KindCx<'_>, t: &mut ClickText) {
        let policy = match self.policy {
            Policy::RoundRobin => "round-robin",
            Policy::SourceHash => "source-hash, SEED 0xbeef",
            Policy::Maglev => "maglev",
        };
        let sum = servers.iter().map(|s| s.weight).sum::<u32>();
        if self.policy == Policy::SourceHash && sum > MAX_IDENTITIES {
            cx.error_whole(format!(
                "the weights of servers chosen by source-hash add up to {MAX_IDENTITIES} at most"
            ));
            return;
        }
        by_flow(servers, cx);
        t.line(format!("servers :: ConnBalancer({policy},"));
        let size = self
            .table
            .as_ref()
            .map(|size| (cx.at(size), format!("SIZE {}", size.value)));
        let each = servers.iter().map(|s| {
            let text = format!("{} {} {}", s.name(), s.weight, s.number);
            (s.at, text)
        });
        let lines: Vec<(Span, String)> = each.chain(size).collect();
        for (i, (at, l)) in lines.iter().enumerate() {
            let comma = if i + 1 < lines.len() { "," } else { "" };
            t.line_at(cx.reader, *at, format!("{l}{comma}"));
        }
        t.line(");");
    }

    /// The element `servers`.
    pub(super) fn mapper(&self, servers: &[Checked], cx: &mut KindCx<'_>, t: &mut ClickText) {
        t.line(format!("servers :: {}(", self.policy.class()));
        let mut lines: Vec<(Span, String)> = match self.policy {
            Policy::RoundRobin => in_turn(servers),
            Policy::SourceHash => match by_source(servers) {
                Some(lines) => {
                    t.line("100 0xbeef,");
                    lines
                }
                None => {
                    cx.error_whole(format!(
                        "the weights of servers chosen by source-hash add up to {MAX_IDENTITIES} at most"
                    ));
                    return;
                }
            },
            Policy::Maglev => {
                by_flow(servers, cx);
                let line = |s: &Checked| {
                    let text = format!("{} {} {}", s.pattern(), s.name(), s.weight);
                    (s.at, text)
                };
                servers.iter().map(line).collect()
            }
        };
        if let Some(size) = &self.table {
            lines.push((cx.at(size), format!("SIZE {}", size.value)));
        }
        for (i, (at, l)) in lines.iter().enumerate() {
            let comma = if i + 1 < lines.len() { "," } else { "" };
            t.line_at(cx.reader, *at, format!("{l}{comma}"));
        }
        t.line(");");
    }
}

fn in_turn(servers: &[Checked]) -> Vec<(Span, String)> {
    let each = servers.iter();
    each.flat_map(|s| (0..s.weight).map(move |_| (s.at, s.pattern())))
        .collect()
}

/// The last number is an identity in the hash, and a server has as many as its weight: others' stay what they are when
/// servers or weights change. They stand in ascending order, as the mapper counts servers in that order. `None`: there
/// are too many.
fn by_source(servers: &[Checked]) -> Option<Vec<(Span, String)>> {
    if servers.iter().map(|s| s.weight).sum::<u32>() > MAX_IDENTITIES {
        return None;
    }
    let identity = |s: &Checked, k: u32| k as usize * MAX_SERVERS + s.number;
    let mut all: Vec<(usize, &Checked)> = servers
        .iter()
        .flat_map(|s| (0..s.weight).map(move |k| (identity(s, k), s)))
        .collect();
    all.sort_by_key(|a| a.0);
    let line = |(id, s): (usize, &Checked)| (s.at, format!("{} {id}", s.pattern()));
    Some(all.into_iter().map(line).collect())
}

/// A server's places in Maglev's table follow from its name: no two have the same.
fn by_flow(servers: &[Checked], cx: &mut KindCx<'_>) {
    let mut names = std::collections::HashSet::new();
    for s in servers {
        if !names.insert((s.address, s.port)) {
            let text = format!("{}: {} is there already", cx.name, s.name());
            cx.reader.error(s.at, text);
        }
    }
}
