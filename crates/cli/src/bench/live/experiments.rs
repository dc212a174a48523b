//! What can be measured: the rows of each experiment, and what others have found.

use super::measure::Load;
use super::report::Published;
use super::rows::{self, Beside, Device, Filter, KINDS, Row};
use crate::common;
use anyhow::{Context, Result};
use clap::ValueEnum;
use onefold_bench::{Hostile, RuleKind, RuleParams, generate_rules};
use std::path::PathBuf;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// The highest rate without too much loss, and processor time per packet: a MAC swap and the ISP edge with 251
    /// rules on every kind of port, and the kernel with the same rules.
    Throughput,
    /// Latency of a MAC swap against the number of frames of a system call, 1 to 256 (SCC, figure 8).
    Batch,
    /// Latency at 10, 50 and 80% of the throughput: a MAC swap, the ISP edge with 251, 713 and 8,550 rules (SNF, figure
    /// 7.12), one to eight routers.
    Latency,
    /// Processor time per packet of chains, and of DPDK's own MAC swap, with packets that come from memory and go
    /// nowhere: no network, no generator.
    Memory,
    /// Rates of l2fwd, l3fwd (ten routes), fw10 (ten rules) and their chains, by length of frames (Niu et al.).
    Chains,
    /// The rate of established flows through the ISP edge with 713 rules while half of the packets are an attacker's,
    /// in their rate beside as many other flows, at as many packets as the generator can send.
    Attack,
}

impl Experiment {
    /// In figures.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Throughput => "throughput",
            Experiment::Batch => "batch",
            Experiment::Latency => "latency",
            Experiment::Memory => "memory",
            Experiment::Chains => "chains",
            Experiment::Attack => "attack",
        }
    }
}

/// The rows of an experiment, and the loads at which latency is measured.
pub type Plan = (Vec<Row>, Vec<(String, Load)>);

/// Rules in a file that is removed.
#[derive(Debug)]
pub struct RuleFile(PathBuf);

impl RuleFile {
    /// So many rules that allow.
    pub fn make(count: usize, seed: u64) -> Result<RuleFile> {
        let mut params = RuleParams::preset(RuleKind::Acl);
        params.deny = 0.0;
        params.inside = "204.152.0.0/16".parse().ok();
        let set = generate_rules(&params, count, seed)?;
        let mut text = Vec::new();
        onefold_bench::write_rules(&mut text, &set.rules)?;
        RuleFile::of(&count.to_string(), &text)
    }

    /// These; the name tells them from others.
    pub fn of(name: &str, text: &[u8]) -> Result<RuleFile> {
        let name = format!("onefold-bench-{}-{name}.rules", std::process::id());
        let file = RuleFile(std::env::temp_dir().join(name));
        std::fs::write(&file.0, text).with_context(|| format!("'{}'", file.0.display()))?;
        Ok(file)
    }
}

impl Drop for RuleFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The file of the rules that chain isp-edge is shipped with.
pub fn shipped_rules(name: &str) -> Result<String> {
    let args = common::ChainArgs {
        chain: "isp-edge".to_string(),
        set: Vec::new(),
    };
    let (file, _) = onefold_chain::find("isp-edge", &args.options())?;
    Ok(file.with_file_name(name).display().to_string())
}

/// A kind of ports by its name.
fn kind(name: &str) -> usize {
    let at = KINDS.iter().position(|k| k.name == name);
    at.unwrap_or(0)
}

/// Rules that are made for an experiment.
#[derive(Debug, Default)]
pub struct RuleFiles {
    /// The longest list of the latency experiment.
    pub long: Option<RuleFile>,
    /// Rules behind those for known connections.
    pub stateful: Option<RuleFile>,
}

/// The rows of an experiment.
pub fn plan(experiment: Experiment, rules: &str, files: &RuleFiles) -> Plan {
    let (swap, edge) = (rows::swap(), rows::isp_edge(rules));
    let kinds = |wanted: fn(usize) -> bool| (0..KINDS.len()).filter(move |k| wanted(*k));
    match experiment {
        Experiment::Throughput => {
            let compared = |k: usize| KINDS[k].compared;
            let mut all: Vec<Row> = Vec::new();
            all.extend(kinds(compared).map(|k| Row::chain("l2fwd", k, &swap)));
            all.extend(kinds(compared).map(|k| Row::chain("isp-edge, 251 rules", k, &edge)));
            if let Some(file) = &files.stateful {
                let t = rows::isp_edge(&file.0.display().to_string());
                let row =
                    |ports| Row::chain("isp-edge, 251 rules, established first", kind(ports), &t);
                all.extend(["packet", "xdp"].map(row));
            }
            let kernel = |name: &str, filter| Row {
                name: name.to_string(),
                device: Device::Kernel(filter),
                traffic: rows::for_kernel(&edge),
            };
            all.push(Row::testpmd(Some(rows::MEMIF)));
            let rules = "kernel, nftables 251 rules and masquerade";
            all.push(kernel(rules, Filter::Rules));
            all.push(kernel(
                "kernel, the same, established first",
                Filter::EstablishedFirst,
            ));
            all.push(kernel("kernel, forwarding alone", Filter::Nothing));
            (all, Vec::new())
        }
        Experiment::Batch => {
            let vectors = |k: usize| KINDS[k].name.starts_with("packet, batch");
            let row = |k| Row::chain("l2fwd", k, &swap);
            (kinds(vectors).map(row).collect(), Vec::new())
        }
        Experiment::Latency => {
            let packet = kind("packet");
            let mut all = vec![Row::chain("l2fwd", packet, &swap)];
            for rules in ["acl-251.rules", "acl-713.rules"] {
                let n = rules.trim_start_matches("acl-").trim_end_matches(".rules");
                let name = format!("isp-edge, {n} rules");
                all.push(Row::chain(&name, packet, &rows::isp_edge(rules)));
            }
            if let Some(file) = &files.long {
                let t = rows::isp_edge(&file.0.display().to_string());
                all.push(Row::chain("isp-edge, 8550 rules", packet, &t));
            }
            for n in 1..=8 {
                let name = format!("{n} router{}", if n == 1 { "" } else { "s" });
                all.push(Row::chain(&name, packet, &rows::routers(n)));
            }
            let loads = [0.1, 0.5, 0.8].map(|s| (format!("{:.0}%", s * 100.0), Load::Share(s)));
            (all, loads.to_vec())
        }
        Experiment::Memory => (from_memory(), Vec::new()),
        Experiment::Chains => (by_size(), Vec::new()),
        Experiment::Attack => (under_attack(), Vec::new()),
    }
}

/// Chains with packets from memory.
fn from_memory() -> Vec<Row> {
    let mut all = vec![Row::memory("l2fwd", &rows::swap()), Row::testpmd(None)];
    for n in [251, 713] {
        let t = rows::isp_edge(&format!("acl-{n}.rules"));
        all.push(Row::memory(&format!("isp-edge, {n} rules"), &t));
    }
    for chain in ["l3fwd", "fw10", "fw-l3fwd-l2fwd"] {
        all.push(Row::memory(chain, &rows::one_way(chain)));
    }
    for n in [1, 4, 8] {
        all.push(Row::memory(&format!("routers-{n}"), &rows::routers(n)));
    }
    all
}

/// The ISP edge, as it is, beside other flows and beside attackers.
fn under_attack() -> Vec<Row> {
    let attackers = Hostile::value_variants()
        .iter()
        .map(|h| Beside::Attacker(*h));
    let mut all = Vec::new();
    for beside in [Beside::Benign].into_iter().chain(attackers) {
        let name = match beside {
            Beside::Attacker(attack) => attack.name(),
            _ => "benign",
        };
        let t = rows::shared_edge("acl-713.rules", beside);
        for ports in ["packet", "xdp"] {
            all.push(Row::chain(
                &format!("isp-edge, 713 rules, {name}"),
                kind(ports),
                &t,
            ));
        }
    }
    all
}

/// Chains by length of frames, as it is on the wire: with the four bytes of the check sequence.
fn by_size() -> Vec<Row> {
    let sizes = [64u32, 128, 256, 512, 1024, 1500].map(|n| (format!("{n} B"), (n - 4).to_string()));
    let mix = ("datacenter mix".to_string(), "datacenter".to_string());
    let mut all = Vec::new();
    for chain in ["l2fwd", "l3fwd", "fw10", "fw-l3fwd", "fw-l3fwd-l2fwd"] {
        for (name, size) in sizes.iter().chain([&mix]) {
            let traffic = rows::Traffic {
                size: Some(size.clone()),
                ..rows::one_way(chain)
            };
            all.push(Row::chain(
                &format!("{chain}, {name}"),
                kind("packet"),
                &traffic,
            ));
        }
    }
    all
}

/// What others have found.
pub fn published(e: Experiment) -> Vec<Published> {
    match e {
        Experiment::Throughput | Experiment::Memory | Experiment::Attack => Vec::new(),
        Experiment::Batch => vec![Published {
            source: "SCC, figure 8 (one core, 0.82 Mpps whatever the frame size)",
            reported: "Medians of 270 to 310 us with one frame a system call, 80 to 115 us with 2 to 32; 64 and 128 \
                       still better than 1; 256 worse than 1 in latency and spread. Conclusion drawn: 2 to 32 for \
                       latency, 2 for jitter.",
        }],
        Experiment::Chains => vec![Published {
            source: "Niu et al. 2016, one virtual core of 2.4 GHz, 64 bytes",
            reported: "SoftNIC: l3fwd 8.60 and firewall 8.87 Mpps; ClickOS: 4.26 and 4.24. Line rate from 128 bytes \
                       (SoftNIC) and 256 bytes (ClickOS) on. The chains l3fwd, fw-l3fwd and fw-l3fwd-l2fwd on one \
                       socket keep the rate; over two sockets 64 bytes nearly halve. Data-centre mix, median 120 \
                       bytes: 8.662 Mpps.",
        }],
        Experiment::Latency => vec![Published {
            source: "SNF, figure 7.12",
            reported: "251, 713 and 8,550 rules: a median latency of less than 300 us, 1.1 to 12 times lower than \
                       FastClick's, its variance 1.8 to 3.5 times lower.",
        }],
    }
}
