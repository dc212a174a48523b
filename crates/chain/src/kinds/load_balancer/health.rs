//! Which servers are up: what a file says, and what probes find.

use super::LoadBalancer;
use super::servers::Checked;
use crate::file::Loc;
use crate::kinds::KindCx;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How it is found out which servers are up. Of file and probe, those that are given: a server is up if all say so.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Health {
    /// A file with a line `ADDRESS[:PORT] down` (or `up`, IPv6 `[ADDRESS]:PORT`) for each server; those that are not in
    /// it are up. It is read again when it changes.
    pub file: Option<Loc<String>>,
    /// Servers are tried.
    pub probe: Option<Loc<ProbeKind>>,
    /// Where they are tried: the server's own port if not given, or the balancer's if it has one.
    pub port: Option<Loc<u16>>,
    /// Seconds from one try to the next: 2 if not given.
    pub interval: Option<Loc<f64>>,
    /// Seconds after which a try has failed: 1 if not given, and not more than the interval.
    pub timeout: Option<Loc<f64>>,
    /// So many tries in a row that succeed, and a server that was down is up: 2 if not given.
    pub rise: Option<Loc<u32>>,
    /// So many tries in a row that fail, and a server that was up is down: 3 if not given.
    pub fall: Option<Loc<u32>>,
}

/// What a try is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeKind {
    /// A TCP connection, which is closed as soon as it is established.
    Tcp,
}

/// Where health is looked for, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthPlan {
    /// The function.
    pub function: String,
    /// The element of the chain that is told, by its handler `down`.
    pub mapper: String,
    /// The servers that take new flows.
    pub servers: Vec<HealthServer>,
    /// The file.
    pub file: Option<PathBuf>,
    /// How servers are tried.
    pub probe: Option<Probe>,
}

/// A server whose health is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HealthServer {
    /// Its address.
    pub address: IpAddr,
    /// Where it listens, if it has a port of its own.
    pub port: Option<u16>,
}

impl std::fmt::Display for HealthServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(self.address, port)),
            None => write!(f, "{}", self.address),
        }
    }
}

impl std::str::FromStr for HealthServer {
    type Err = ();
    fn from_str(text: &str) -> Result<HealthServer, ()> {
        let (address, port) = super::end_of(text).ok_or(())?;
        Ok(HealthServer { address, port })
    }
}

/// How servers are tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Where, if not at the server's own port.
    pub port: Option<u16>,
    /// From one try to the next.
    pub interval: Duration,
    /// A try has failed after so long.
    pub timeout: Duration,
    /// So many in a row make a server that was down one that is up.
    pub rise: u32,
    /// So many in a row make a server that was up one that is down.
    pub fall: u32,
}

impl HealthPlan {
    /// The port that a server is tried at.
    pub fn probed_port(&self, server: &HealthServer) -> Option<u16> {
        self.probe.and_then(|p| p.port.or(server.port))
    }
}

/// Shortest and longest interval, in seconds.
const INTERVALS: (f64, f64) = (0.1, 3600.0);
/// Most tries in a row.
const MAX_TRIES: u32 = 100;

impl LoadBalancer {
    /// What is to be looked at, of these servers.
    pub(super) fn health_plan(
        &self,
        servers: &[Checked],
        cx: &mut KindCx<'_>,
    ) -> Option<HealthPlan> {
        let h = self.health.as_ref()?;
        if h.file.is_none() && h.probe.is_none() {
            cx.error_whole("health wants 'file', 'probe: tcp', or both");
            return None;
        }
        let probe = match &h.probe {
            Some(_) => Some(h.probe(self, cx)?),
            None => {
                h.no_probe(cx)?;
                None
            }
        };
        if let Some(at) = h.probe.as_ref().filter(|_| {
            let port = probe.and_then(|p| p.port);
            port.is_none() && servers.iter().any(|s| s.port.is_none())
        }) {
            cx.error(
                at,
                "which port are servers tried at? Give 'port' here, or each server one",
            );
            return None;
        }
        let each = servers.iter().map(|s| HealthServer {
            address: s.address,
            port: s.port,
        });
        let mut servers: Vec<HealthServer> = each.collect();
        servers.sort_unstable();
        servers.dedup();
        Some(HealthPlan {
            function: cx.name.to_string(),
            mapper: format!("{}/servers", cx.name),
            servers,
            file: h.file.as_ref().map(|f| cx.reader.dir.join(&f.value)),
            probe,
        })
    }
}

impl Health {
    fn probe(&self, lb: &LoadBalancer, cx: &mut KindCx<'_>) -> Option<Probe> {
        let interval = seconds(&self.interval, 2.0, INTERVALS, cx)?;
        let most = interval.as_secs_f64();
        let timeout = seconds(&self.timeout, most.min(1.0), (0.01, most), cx)?;
        let mut tries = |given: &Option<Loc<u32>>, default| match given {
            Some(n) if n.value == 0 || n.value > MAX_TRIES => {
                cx.error(
                    n,
                    format!("expected a number of tries from 1 to {MAX_TRIES}"),
                );
                None
            }
            given => Some(given.as_ref().map_or(default, |n| n.value)),
        };
        let (rise, fall) = (tries(&self.rise, 2)?, tries(&self.fall, 3)?);
        if let Some(port) = self.port.as_ref().filter(|p| p.value == 0) {
            cx.error(port, "a port is from 1 to 65535");
            return None;
        }
        let own = match lb.ports.as_deref() {
            // a server without a port listens where the balancer does
            Some([only]) if lb.servers.iter().all(|s| s.port.is_none()) => Some(only.value),
            _ => None,
        };
        Some(Probe {
            port: self.port.as_ref().map(|p| p.value).or(own),
            interval,
            timeout,
            rise,
            fall,
        })
    }

    /// What belongs to a probe is not given without.
    fn no_probe(&self, cx: &mut KindCx<'_>) -> Option<()> {
        let given = [
            ("port", self.port.is_some()),
            ("interval", self.interval.is_some()),
            ("timeout", self.timeout.is_some()),
            ("rise", self.rise.is_some()),
            ("fall", self.fall.is_some()),
        ];
        match given.iter().find(|g| g.1) {
            Some((name, _)) => {
                cx.error_whole(format!("health: '{name}' goes with 'probe: tcp'"));
                None
            }
            None => Some(()),
        }
    }
}

fn seconds(
    given: &Option<Loc<f64>>,
    default: f64,
    (least, most): (f64, f64),
    cx: &mut KindCx<'_>,
) -> Option<Duration> {
    match given {
        // NaN is in no range
        Some(s) if !(least..=most).contains(&s.value) => {
            cx.error(s, format!("expected seconds from {least} to {most}"));
            None
        }
        given => Some(Duration::from_secs_f64(
            given.as_ref().map_or(default, |s| s.value),
        )),
    }
}
