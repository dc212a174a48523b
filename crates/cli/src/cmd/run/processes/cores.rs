//! Who runs on which core: by the chain file, the command line and the policy; and who else may be executed on cores
//! that are reserved.

use crate::cmd::run::Args;
use crate::merge;
use anyhow::{Result, bail};
use onefold_chain::Chain;
use onefold_chain::cores::{Cores, Plan};
use onefold_chain::segments::Segments;
use std::collections::BTreeMap;

/// Which core is for what.
pub struct Placing {
    /// Those that there are.
    pub cores: Vec<usize>,
    /// The launcher's, the policy's and the switch's, if one is for them.
    pub housekeeping: Option<usize>,
    /// By process.
    pub functions: Vec<Option<u32>>,
    /// All share one core.
    pub rounds: bool,
}

impl Placing {
    /// Are there more cores than functions' processes?
    pub fn has_spare(&self) -> bool {
        self.cores.len() > self.functions.len() && !self.rounds
    }
}

/// As the chain file says; if it says nothing, and a policy or a core for housekeeping is asked for, functions are on
/// the other ones, else on all in turn.
pub fn placing(args: &Args, chain: &Chain, segments: &Segments) -> Result<Placing> {
    let cores = merge::cores();
    let scheduled = args.schedule().is_some() || chain.schedule.is_some();
    let housekeeping = match args.housekeeping() {
        Some(core) if !cores.contains(&core) => {
            bail!("--housekeeping: there is no core {core} to be had; there are {cores:?}")
        }
        Some(core) => Some(core),
        None if scheduled && cores.len() > 1 => cores.first().copied(),
        None => None,
    };
    let mut said = chain.cores.clone();
    if said.given {
        let asked = args.housekeeping().map(|c| c as u32);
        said.switch = asked.or(said.switch);
    } else if housekeeping.is_some() && cores.len() > 1 {
        said = Cores {
            plan: Plan::MultiCore,
            switch: housekeeping.map(|c| c as u32),
            given: true,
            ..said
        };
    }
    let all = segments.all.iter();
    let wants: Vec<(&str, Option<u32>)> = all.map(|s| (s.name.as_str(), s.affinity)).collect();
    let given = said.give(&cores, &wants)?;
    Ok(Placing {
        cores,
        housekeeping: given.switch.map(|c| c as usize).or(housekeeping),
        functions: given.functions,
        rounds: given.rounds,
    })
}

/// Most programs that are named.
const NAMED: usize = 5;

/// Says how cores are given out, if the chain file does.
pub fn say(cores: &Cores, place: &Placing, quiet: bool) {
    if !cores.given || quiet {
        return;
    }
    let switch = place
        .housekeeping
        .map_or("any core".to_string(), |c| format!("core {c}"));
    eprintln!("cores: plan {}: the switch on {switch}", cores.plan.name());
    for core in &cores.reserved {
        eprintln!("{}", reserved(*core, &others(*core)));
    }
}

/// Nobody of Onefold's else runs there; what else may is not ours to move.
fn reserved(core: u32, others: &[(String, usize)]) -> String {
    if others.is_empty() {
        return format!(
            "cores: core {core} is reserved, and no other process may be executed there"
        );
    }
    let named: Vec<String> = (others.iter().take(NAMED))
        .map(|(name, n)| match n {
            1 => name.clone(),
            n => format!("{name} ({n})"),
        })
        .collect();
    let more = match others.len() > NAMED {
        true => " and others",
        false => "",
    };
    format!(
        "cores: core {core} is reserved: nothing else of this chain is executed there. Other processes may be, which \
         this one does not touch: {}{more}; to keep them away, boot with isolcpus={core}, or give them another \
         AllowedCPUs (systemd), or another cpuset",
        named.join(", ")
    )
}

/// Programs with threads that may be executed on this core and are not bound to it alone (the kernel's own are), by
/// name, the most numerous first.
fn others(core: u32) -> Vec<(String, usize)> {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    let me = std::process::id().to_string();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        if id == me || !id.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let read =
            |what: &str| std::fs::read_to_string(entry.path().join(what)).unwrap_or_default();
        let status = read("status");
        let field = |key: &str| {
            status
                .lines()
                .find_map(|l| l.strip_prefix(key))
                .map(str::trim)
        };
        // the kernel's threads have no memory of their own
        if field("VmSize:").is_none() {
            continue;
        }
        let allowed = field("Cpus_allowed_list:").unwrap_or_default();
        if allows(allowed, core) {
            let name = field("Name:").unwrap_or("?").to_string();
            *all.entry(name).or_default() += 1;
        }
    }
    let mut all: Vec<(String, usize)> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// Is a core in a list such as `0-3,7`?
fn allows(list: &str, core: u32) -> bool {
    list.split(',').any(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let both = (from.parse::<u32>(), to.parse::<u32>());
        matches!(both, (Ok(from), Ok(to)) if (from..=to).contains(&core))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        for core in [0, 2, 3, 7] {
            assert!(allows("0,2-3,7", core), "{core}");
        }
        for (list, core) in [("0,2-3,7", 1), ("0-3", 4), ("", 0), ("x", 0)] {
            assert!(!allows(list, core), "{list} {core}");
        }
    }

    #[test]
    fn who_else_may_run_there_is_told() {
        let text = reserved(1, &[("init".into(), 1), ("sh".into(), 2)]);
        assert!(
            text.contains("init, sh (2);") && text.contains("isolcpus=1"),
            "{text}"
        );
        assert!(reserved(1, &[]).contains("no other process"));
        // this test may be executed somewhere, and it is not alone
        assert!(others(0).len() + others(1).len() > 0);
    }
}
