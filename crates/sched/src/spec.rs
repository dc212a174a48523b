//! Policies as they are written: `NAME[,KEY=VALUE...]`, on the command line and in chain files.

use crate::baseline::{Baseline, Cooperative, scc_quantum};
use crate::decision::{Class, Decisions};
use crate::known::KNOWN;
use crate::latency_target::{LatencyTarget, TargetError};
use crate::nfvnice::{Nfvnice, NfvniceConfig, NfvniceError};
use crate::topology::Topology;
use crate::unis::{Ageing, Unis, UnisConfig, UnisError};
use crate::{MICROSECOND, MILLISECOND, Nanos, Policy};
use std::str::FromStr;

/// Longest text.
pub const LONGEST: usize = 4096;

/// What is wrong with what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no such policy.
    #[error("'{name}' is no scheduling policy; there are {}", names())]
    Name {
        /// What was written.
        name: String,
    },
    /// It has no such parameter.
    #[error("{policy}: there is no '{key}'; there are {}", keys(.policy))]
    Key {
        /// The policy.
        policy: &'static str,
        /// What was written.
        key: String,
    },
    /// A value that cannot be.
    #[error("{policy}: {key}={value}: expected {expected}")]
    Value {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        key: String,
        /// What was written.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A part that is no parameter.
    #[error("expected KEY=VALUE behind the comma, not '{0}'")]
    Part(String),
    /// NFVnice cannot be so.
    #[error(transparent)]
    Nfvnice(#[from] NfvniceError),
    /// UNiS cannot be so.
    #[error(transparent)]
    Unis(#[from] UnisError),
    /// A latency target cannot be so.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A chain that there is not has a target.
    #[error("latency: target.{name}: no packets enter at a port '{name}'; they do at {there}")]
    Chain {
        /// What was written.
        name: String,
        /// Ports that they enter at.
        there: String,
    },
}

fn names() -> String {
    KNOWN.iter().map(|k| k.name).collect::<Vec<_>>().join(", ")
}

fn keys(policy: &str) -> String {
    let all = KNOWN.iter().find(|k| k.name == policy);
    let all: Vec<&str> = all
        .map_or(&[][..], |k| k.parameters)
        .iter()
        .map(|p| p.0)
        .collect();
    match all.is_empty() {
        true => "none".to_string(),
        false => all.join(", "),
    }
}

/// What it is, with its parameters.
#[derive(Debug, Clone, PartialEq)]
enum What {
    Kernel,
    Class {
        class: Class,
        nice: i32,
        blocks: bool,
    },
    Cooperative(Cooperative),
    Nfvnice {
        config: NfvniceConfig,
        class: Class,
    },
    Unis {
        config: UnisConfig,
        costs: Vec<Nanos>,
    },
    Latency {
        /// Of chains that have none of their own; `None`: [`LatencyTarget::usual`].
        target: Option<Nanos>,
        of: Vec<(String, Nanos)>,
    },
}

/// A policy as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    name: &'static str,
    text: String,
    what: What,
}

/// A policy that is ready, and the levers that it begins with.
pub type Made = (Box<dyn Policy + Send>, Decisions);

impl Spec {
    /// Nothing is done.
    pub fn kernel() -> Spec {
        Spec {
            name: "kernel",
            text: "kernel".to_string(),
            what: What::Kernel,
        }
    }

    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Is nothing to be done?
    pub fn is_kernel(&self) -> bool {
        self.what == What::Kernel
    }

    /// Does it schedule functions in real time, so that whoever else is on their cores waits?
    pub fn is_real_time(&self) -> bool {
        match &self.what {
            What::Kernel => false,
            What::Class { class, .. } | What::Nfvnice { class, .. } => class.is_real_time(),
            What::Cooperative(_) | What::Unis { .. } | What::Latency { .. } => true,
        }
    }

    /// Does it do with what is left of it where functions are not to be in real time?
    pub fn goes_without_real_time(&self) -> bool {
        matches!(self.what, What::Latency { .. })
    }

    /// Does it pull the lever of shares?
    pub fn has_shares(&self) -> bool {
        matches!(&self.what, What::Nfvnice { config, class } if config.with_shares && !class.is_real_time())
    }

    /// Does it know functions of one chain only, so that chains which share one have to be told to it as one?
    pub fn merges_chains(&self) -> bool {
        matches!(self.what, What::Unis { .. })
    }

    /// Makes the policy for these functions. `chains`: what each chain is called.
    ///
    /// # Errors
    /// It does not fit them.
    pub fn build(&self, topology: &Topology, chains: &[String]) -> Result<Made, SpecError> {
        let mut first = Decisions::new(topology);
        let policy: Box<dyn Policy + Send> = match &self.what {
            What::Kernel => Box::new(Baseline::normal()),
            What::Class {
                class,
                nice,
                blocks,
            } => {
                for n in &mut first.nfs {
                    (n.class, n.nice, n.blocks_when_full) = (*class, *nice, *blocks);
                }
                Box::new(Baseline::of(*class))
            }
            What::Cooperative(c) => {
                first.nfs.iter_mut().for_each(|n| n.class = Class::Fifo);
                Box::new(*c)
            }
            What::Nfvnice { config, class } => {
                first.nfs.iter_mut().for_each(|n| n.class = *class);
                Box::new(Nfvnice::new(topology, *config)?)
            }
            What::Unis { config, costs } => {
                let config = UnisConfig {
                    learns: costs.is_empty(),
                    ..*config
                };
                let costs = match costs.is_empty() {
                    true => vec![crate::unis::FIRST_COST; topology.nfs().len()],
                    false => costs.clone(),
                };
                Box::new(Unis::new(topology, costs, config)?)
            }
            What::Latency { target, of } => {
                if let Some((name, _)) = of.iter().find(|o| !chains.contains(&o.0)) {
                    return Err(SpecError::Chain {
                        name: name.clone(),
                        there: chains.join(", "),
                    });
                }
                let targets = chains.iter().enumerate().map(|(i, c)| {
                    let own = of.iter().rev().find(|o| o.0 == *c).map(|o| o.1);
                    own.or(*target)
                        .unwrap_or_else(|| LatencyTarget::usual(topology, i))
                });
                first.nfs.iter_mut().for_each(|n| n.class = Class::Fifo);
                Box::new(LatencyTarget::new(topology, targets.collect())?)
            }
        };
        Ok((policy, first))
    }
}

/// A time: a number and `ns`, `us`, `ms` or `s`.
fn time(s: &str) -> Option<Nanos> {
    let digits = s.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = s.split_at(digits);
    let unit = match unit {
        "ns" => 1,
        "us" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => 1000 * MILLISECOND,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let ns = number * unit as f64;
    (1.0..=3.6e12).contains(&ns).then_some(ns as Nanos)
}

const TIME: &str = "a time, for instance 50us or 10ms, at most an hour";
const SWITCH: &str = "on or off";
const PART: &str = "a number from 0 to 1";

/// What is left of the parameters while they are read.
struct Reading {
    policy: &'static str,
    left: Vec<(String, String)>,
}

impl Reading {
    /// The value of a parameter, read by `f`; the last one, if it stands there twice.
    fn get<T>(
        &mut self,
        key: &str,
        expected: &'static str,
        f: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, SpecError> {
        let mut found = None;
        while let Some(at) = self.left.iter().position(|l| l.0 == key) {
            let (key, value) = self.left.remove(at);
            let Some(v) = f(&value) else {
                let policy = self.policy;
                return Err(SpecError::Value {
                    policy,
                    key,
                    value,
                    expected,
                });
            };
            found = Some(v);
        }
        Ok(found)
    }

    fn time(&mut self, key: &str) -> Result<Option<Nanos>, SpecError> {
        self.get(key, TIME, time)
    }

    fn switch(&mut self, key: &str) -> Result<Option<bool>, SpecError> {
        self.get(key, SWITCH, |v| match v {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })
    }

    fn part(&mut self, key: &str) -> Result<Option<f64>, SpecError> {
        self.get(key, PART, |v| {
            let v: f64 = v.parse().ok()?;
            (0.0..=1.0).contains(&v).then_some(v)
        })
    }

    fn per_cent(&mut self, key: &str) -> Result<Option<u32>, SpecError> {
        self.get(key, "a number from 1 to 100", |v| {
            v.parse().ok().filter(|v| (1..=100).contains(v))
        })
    }

    fn number(&mut self, key: &str) -> Result<Option<u32>, SpecError> {
        self.get(key, "a number from 1 to 65536", |v| {
            v.parse().ok().filter(|v| (1..=65_536).contains(v))
        })
    }

    fn nice(&mut self) -> Result<i32, SpecError> {
        let nice = self.get("nice", "a number from -20 to 19", |v| {
            v.parse().ok().filter(|v| (-20..=19).contains(v))
        });
        Ok(nice?.unwrap_or(0))
    }

    fn class(&mut self, otherwise: Class) -> Result<Class, SpecError> {
        let class = self.get("class", "normal, batch, rr or fifo", |v| match v {
            "normal" => Some(Class::Normal {
                slice: Class::KERNELS,
            }),
            "batch" => Some(Class::Batch {
                slice: Class::KERNELS,
            }),
            "rr" => Some(Class::RoundRobin {
                quantum: 100 * MILLISECOND,
            }),
            "fifo" => Some(Class::Fifo),
            _ => None,
        });
        Ok(class?.unwrap_or(otherwise))
    }
}

fn what(r: &mut Reading) -> Result<What, SpecError> {
    Ok(match r.policy {
        "normal" | "batch" => {
            let slice = r.time("slice")?.unwrap_or(Class::KERNELS);
            let class = match r.policy {
                "normal" => Class::Normal { slice },
                _ => Class::Batch { slice },
            };
            let blocks = r.switch("blocks")?.unwrap_or(false);
            What::Class {
                class,
                nice: r.nice()?,
                blocks,
            }
        }
        "rr" => What::Class {
            class: Class::RoundRobin {
                quantum: r.time("quantum")?.unwrap_or(100 * MILLISECOND),
            },
            nice: 0,
            blocks: r.switch("blocks")?.unwrap_or(false),
        },
        "fifo" => What::Class {
            class: Class::Fifo,
            nice: 0,
            blocks: r.switch("blocks")?.unwrap_or(false),
        },
        "scc" => {
            let nice = r.nice()?;
            // within its bounds: nice was read
            let slice = scc_quantum(nice).unwrap_or(100 * MILLISECOND);
            let class = match r.class(Class::Batch { slice })? {
                Class::Normal { .. } => Class::Normal { slice },
                _ => Class::Batch { slice },
            };
            What::Class {
                class,
                nice,
                blocks: false,
            }
        }
        "cooperative" => What::Cooperative(Cooperative {
            batches: r.number("batches")?.unwrap_or(8),
        }),
        "nfvnice" => {
            let d = NfvniceConfig::default();
            let config = NfvniceConfig {
                period: r.time("period")?.unwrap_or(d.period),
                high: r.per_cent("high")?.unwrap_or(d.high),
                low: r.per_cent("low")?.unwrap_or(d.low),
                queueing_time: r.time("queueing-time")?.unwrap_or(d.queueing_time),
                shares_each: r.number("shares-each")?.unwrap_or(d.shares_each),
                ecn_gain: r.part("ecn-gain")?.unwrap_or(d.ecn_gain),
                ecn_above: r.part("ecn-above")?.unwrap_or(d.ecn_above),
                with_shares: r.switch("shares")?.unwrap_or(true),
                with_backpressure: r.switch("backpressure")?.unwrap_or(true),
                with_blocking: r.switch("blocking")?.unwrap_or(true),
            };
            let class = r.class(Class::Normal {
                slice: Class::KERNELS,
            })?;
            What::Nfvnice { config, class }
        }
        "unis" => unis(r)?,
        "latency" => {
            let target = r.time("target")?;
            let mut of = Vec::new();
            for (key, value) in std::mem::take(&mut r.left) {
                match (key.strip_prefix("target."), time(&value)) {
                    (Some(chain), Some(t)) => of.push((chain.to_string(), t)),
                    (Some(_), None) => {
                        let (policy, expected) = (r.policy, TIME);
                        return Err(SpecError::Value {
                            policy,
                            key,
                            value,
                            expected,
                        });
                    }
                    (None, _) => r.left.push((key, value)),
                }
            }
            What::Latency { target, of }
        }
        _ => What::Kernel,
    })
}

fn unis(r: &mut Reading) -> Result<What, SpecError> {
    let d = UnisConfig::default();
    let off = |v: &str| (v == "off").then_some(None);
    let config = UnisConfig {
        period: r.time("period")?.unwrap_or(d.period),
        gamma: r
            .get("gamma", "a number above 0, at most 10", |v| {
                v.parse().ok().filter(|g| *g > 0.0 && *g <= 10.0)
            })?
            .unwrap_or(d.gamma),
        theta_min: r
            .get("theta-min", "a number from 0 to 65536", |v| {
                v.parse().ok().filter(|n| *n <= 65_536)
            })?
            .unwrap_or(d.theta_min),
        theta_max: r
            .get("theta-max", "a number above 0, at most 1, or off", |v| {
                off(v).or_else(|| Some(Some(v.parse().ok().filter(|p| *p > 0.0 && *p <= 1.0)?)))
            })?
            .unwrap_or(d.theta_max),
        ageing: r
            .get("ageing", "a time, for instance 1ms, or off", |v| match v {
                "off" => Some(Ageing::Faithful),
                v => Some(Ageing::After(time(v)?)),
            })?
            .unwrap_or(d.ageing),
        learns: false,
    };
    let costs = r.get(
        "costs",
        "times with / between them, for instance 50ns/120ns",
        |v| v.split('/').map(time).collect::<Option<Vec<_>>>(),
    )?;
    let costs = costs.unwrap_or_default();
    Ok(What::Unis { config, costs })
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        let text: String = text.chars().take(LONGEST).collect();
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let Some(known) = KNOWN.iter().find(|k| k.name == name) else {
            return Err(SpecError::Name {
                name: name.to_string(),
            });
        };
        let mut left = Vec::new();
        for p in parts {
            let (key, value) = p
                .split_once('=')
                .ok_or_else(|| SpecError::Part(p.to_string()))?;
            left.push((key.trim().to_string(), value.trim().to_string()));
        }
        let mut reading = Reading {
            policy: known.name,
            left,
        };
        let what = what(&mut reading)?;
        match reading.left.into_iter().next() {
            Some((key, _)) => Err(SpecError::Key {
                policy: known.name,
                key,
            }),
            None => Ok(Spec {
                name: known.name,
                text,
                what,
            }),
        }
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::NfSpec;

    fn spec(s: &str) -> Result<Spec, SpecError> {
        s.parse()
    }

    fn topology(chains: usize) -> Topology {
        let nf = NfSpec {
            core: 0,
            priority: 1,
            capacity: 64,
        };
        Topology::new(1, vec![nf; 2], vec![vec![0, 1]; chains]).unwrap()
    }

    #[test]
    fn all_policies_are_there_as_they_are_listed() {
        for k in KNOWN {
            let s = spec(k.name).unwrap();
            assert_eq!((s.name(), s.text()), (k.name, k.name));
            let chains = ["lan".to_string()];
            let (policy, first) = s.build(&topology(1), &chains).unwrap();
            assert!(policy.period() > 0 && first.nfs.len() == 2);
            // what is listed is known, and what is not is not
            for (key, _, _) in k.parameters {
                let wrong = spec(&format!("{},{key}=?", k.name)).unwrap_err();
                assert!(matches!(wrong, SpecError::Value { .. }), "{wrong}");
            }
            let wrong = spec(&format!("{},colour=red", k.name)).unwrap_err();
            assert!(
                wrong.to_string().contains("there is no 'colour'"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |s| spec(s).unwrap_err().to_string();
        assert!(
            said("nfvnise").contains("there are kernel, normal"),
            "{}",
            said("nfvnise")
        );
        assert_eq!(
            said("rr,quantum"),
            "expected KEY=VALUE behind the comma, not 'quantum'"
        );
        assert!(said("rr,quantum=4").contains("expected a time"));
        assert!(said("unis,theta-max=2").contains("or off"));
        let low = spec("nfvnice,low=90")
            .unwrap()
            .build(&topology(1), &["a".into()]);
        assert!(low.is_err_and(|e| e.to_string().contains("LOW < HIGH")));
        let shared = spec("unis").unwrap().build(&topology(2), &[]);
        assert!(shared.is_err());
        let chain = spec("latency,target.x=1ms")
            .unwrap()
            .build(&topology(1), &["lan".into()]);
        assert!(chain.is_err_and(|e| e.to_string().contains("they do at lan")));
    }

    #[test]
    fn parameters_are_read() {
        let s = spec("unis, theta-max=off, ageing=off, costs=50ns/0.1us, gamma=1.25").unwrap();
        let What::Unis { config, costs } = &s.what else {
            panic!("{s:?}");
        };
        assert_eq!((config.theta_max, config.ageing), (None, Ageing::Faithful));
        assert_eq!(
            (costs.as_slice(), config.gamma),
            ([50, 100].as_slice(), 1.25)
        );
        assert!(s.is_real_time() && s.merges_chains() && !s.has_shares());
        let s = spec("nfvnice,class=rr").unwrap();
        assert!(s.is_real_time() && !s.has_shares());
        assert!(spec("nfvnice").unwrap().has_shares());
        let s = spec("scc,nice=-20,class=normal").unwrap();
        let class = Class::Normal {
            slice: 800 * MILLISECOND,
        };
        assert_eq!(
            s.what,
            What::Class {
                class,
                nice: -20,
                blocks: false
            }
        );
    }
}
