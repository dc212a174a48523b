//! Random chain files: every kind of network function with its options, one to four in a row, valid by construction.
//!
//! Addresses, ports and MAC addresses come from small pools that neighbours share ([`words`]), and every function
//! knows what is on either side of it ([`line`]): packets are meant to pass several functions. A little of everything
//! is wrong on purpose (a next hop that nobody has, a rule that nothing meets), because operators' files are so, too.
//!
//! The same seed and the same options give the same files, on every machine.
//!
//! ```
//! use onefold_bench::chains::{ChainOptions, random_chain};
//!
//! let chain = random_chain(7, &ChainOptions::default());
//! assert_eq!(chain.files, random_chain(7, &ChainOptions::default()).files);
//! assert!(chain.files[0].1.contains("functions:"));
//! ```

mod filter;
mod firewall;
mod line;
mod others;
mod router;
mod rules;
mod translate;
mod words;

use std::path::{Path, PathBuf};

/// What a random chain may have in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainOptions {
    /// Most functions, repeated ones counted one by one: 1 to 4.
    pub functions: u32,
    /// `hairpin: true` at a NAPT.
    pub hairpin: bool,
    /// NAPT with a range of one port, whose flows take over each other's place.
    pub one_port: bool,
    /// Two forwards of a NAPT to one address and port inside.
    pub shared_forwards: bool,
    /// Translators in a row that have addresses of their pools in common.
    pub shared_pools: bool,
}

impl Default for ChainOptions {
    fn default() -> Self {
        ChainOptions {
            functions: 4,
            hairpin: true,
            one_port: true,
            shared_forwards: true,
            shared_pools: true,
        }
    }
}

/// A chain file and the files that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomChain {
    /// What it was made from.
    pub seed: u64,
    /// The kinds of its functions, in a row; those of a branch behind them.
    pub kinds: Vec<&'static str>,
    /// Names and texts; the first is `chain.yaml`.
    pub files: Vec<(String, String)>,
}

impl RandomChain {
    /// Writes the files into a folder, which is made; gives the chain file's path.
    pub fn write(&self, dir: &Path) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(dir)?;
        for (name, text) in &self.files {
            std::fs::write(dir.join(name), text)?;
        }
        Ok(dir.join("chain.yaml"))
    }
}

/// The chain of a seed.
pub fn random_chain(seed: u64, options: &ChainOptions) -> RandomChain {
    line::Line::new(seed, options).make()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_seed_is_a_chain_and_all_kinds_come() {
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        let mut lengths = [0u32; 5];
        for seed in 1..=300 {
            let c = random_chain(seed, &ChainOptions::default());
            assert_eq!(c, random_chain(seed, &ChainOptions::default()));
            for k in &c.kinds {
                *seen.entry(k).or_default() += 1;
            }
            assert!(
                (1..=4).contains(&c.kinds.len()),
                "seed {seed}: {:?}",
                c.kinds
            );
            lengths[c.kinds.len()] += 1;
        }
        let kinds = [
            "dpi",
            "firewall",
            "load-balancer",
            "monitor",
            "nat",
            "router",
            "vlan",
        ];
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), kinds);
        assert!(seen.values().all(|n| *n >= 15), "{seen:?}");
        assert!(lengths[1..].iter().all(|n| *n >= 20), "{lengths:?}");
    }

    #[test]
    fn every_option_comes() {
        let all: String = (1..=1500)
            .flat_map(|seed| random_chain(seed, &ChainOptions::default()).files)
            .map(|(_, text)| text)
            .collect();
        for word in WORDS {
            assert!(all.contains(word), "{word}");
        }
    }

    /// A word for every option of a kind, value of it, and form of a rule.
    const WORDS: &[&str] = &[
        "rules:",
        "rules-file:",
        "rules6:",
        "format: iptables",
        "format: classbench",
        "format: click",
        "deny-every:",
        "interfaces: { inside:",
        "default: allow",
        "default: deny",
        "back: allow",
        "back: deny",
        "back: same",
        "arp: deny",
        "other: allow",
        "src net",
        "dst host",
        "port >=",
        "tcp opt syn",
        "icmp type",
        "ip ttl",
        "ip frag",
        "ip tos",
        "ip proto",
        "transp[",
        "tcp[13:1]",
        " ? ",
        "not (",
        "src host mailer",
        "$(web)",
        "icmp6 type",
        "dst net 2001:db8",
        "gateway-mac:",
        "address6:",
        "mtu:",
        "redirects: false",
        "blackhole",
        "routes-file:",
        "default via",
        " dev ",
        "pool:",
        "port-range:",
        "forward:",
        "hairpin: true",
        "tcp-timeout:",
        "udp-timeout:",
        "capacity:",
        "one-to-one:",
        "decrement-ttl: true",
        "encap-inside:",
        "encap-outside:",
        "load-balancer:",
        "policy: source-hash",
        "policy: maglev",
        "policy: round-robin",
        "weight:",
        "pass-other: false",
        "ports: [",
        "encap-clients:",
        "encap-servers:",
        "alerts: true",
        "direction: in",
        "direction: out",
        "regex:",
        "hex:",
        "text:",
        "ignore-case: true",
        "offset:",
        "depth:",
        "filter:",
        "action: pass",
        "action: drop",
        "action: alert",
        "flows:",
        "priority:",
        "repeat:",
        "link:",
        "parameters:",
        "addresses:",
        "unused:",
        "{ in: ",
        "{ out: ",
        "[2]",
    ];
}
