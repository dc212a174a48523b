//! The EAL's command line.

use crate::spec::{Bus, Spec};

/// In front of the process's number: what the EAL calls its folder.
pub const PREFIX: &str = "onefold-";

/// Where frames lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// On huge pages.
    Huge,
    /// On usual pages: so many MiB.
    Usual(usize),
}

/// What the EAL is told.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The devices.
    pub specs: &'a [Spec],
    /// The process.
    pub pid: u32,
    /// Processors that the process may run on.
    pub cpus: &'a [usize],
    /// Where frames lie.
    pub memory: Memory,
    /// What the operator wants besides; it goes before what is said here.
    pub extra: &'a [String],
}

/// Is one of these among the operator's arguments?
pub fn has(extra: &[String], names: &[&str]) -> bool {
    let same = |a: &String, n: &&str| {
        let long = n.starts_with("--");
        a == n
            || long && a.strip_prefix(n).is_some_and(|r| r.starts_with('='))
            || !long && a.starts_with(n) && !a.starts_with("--")
    };
    extra.iter().any(|a| names.iter().any(|n| same(a, n)))
}

/// Has the operator said where memory comes from?
pub fn chooses_memory(extra: &[String]) -> bool {
    has(
        extra,
        &[
            "--no-huge",
            "--huge-dir",
            "--in-memory",
            "--huge-unlink",
            "--legacy-mem",
        ],
    )
}

/// The command line.
pub fn arguments(s: &Setup<'_>) -> Vec<String> {
    let mut all = vec!["onefold".to_string()];
    if !has(s.extra, &["-l", "-c", "--lcores"]) {
        // one thread, which may run where it may run anyway
        let cpus: Vec<String> = s.cpus.iter().map(usize::to_string).collect();
        all.push(format!("--lcores=0@({})", cpus.join(",")));
    }
    if !has(s.extra, &["--telemetry"]) {
        all.push("--no-telemetry".to_string());
    }
    // a name of the operator's is one that other processes are to find
    let shared = has(s.extra, &["--file-prefix"]);
    if !shared {
        all.push(format!("--file-prefix={PREFIX}{}", s.pid));
    }
    if !chooses_memory(s.extra) {
        match s.memory {
            Memory::Huge if !shared => all.push("--in-memory".to_string()),
            Memory::Huge => {}
            Memory::Usual(mib) => {
                all.push("--no-huge".to_string());
                if !has(s.extra, &["-m", "--socket-mem"]) {
                    all.extend(["-m".to_string(), mib.to_string()]);
                }
                if !shared {
                    all.push("--no-shconf".to_string());
                }
            }
        }
    }
    if has(s.extra, &["--no-huge"]) {
        if let Memory::Usual(mib) = s.memory
            && !has(s.extra, &["-m", "--socket-mem"])
        {
            all.extend(["-m".to_string(), mib.to_string()]);
        }
        if !shared {
            all.push("--no-shconf".to_string());
        }
    }
    let listed = has(s.extra, &["-a", "--allow", "-b", "--block", "--no-pci"]);
    let on_bus: Vec<&Spec> = s.specs.iter().filter(|s| s.bus != Bus::Virtual).collect();
    if on_bus.is_empty() && !listed {
        all.push("--no-pci".to_string());
    }
    if on_bus.is_empty() && !has(s.extra, &["--iova-mode"]) {
        all.push("--iova-mode=va".to_string());
    }
    for s in on_bus {
        all.extend(["-a".to_string(), s.devargs()]);
    }
    all.extend(s.extra.iter().cloned());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(specs: &[&str], memory: Memory, extra: &[&str]) -> String {
        let specs: Vec<Spec> = specs.iter().map(|s| Spec::parse(s).unwrap()).collect();
        let extra: Vec<String> = extra.iter().map(ToString::to_string).collect();
        let setup = Setup {
            specs: &specs,
            pid: 77,
            cpus: &[0, 1],
            memory,
            extra: &extra,
        };
        arguments(&setup).join(" ")
    }

    #[test]
    fn leaves_nothing_behind_and_touches_no_card_unasked() {
        let a = of(&["net_null0"], Memory::Huge, &[]);
        assert_eq!(
            a,
            "onefold --lcores=0@(0,1) --no-telemetry --file-prefix=onefold-77 --in-memory --no-pci --iova-mode=va"
        );
        let a = of(&["net_null0"], Memory::Usual(128), &[]);
        assert!(a.contains("--no-huge -m 128 --no-shconf --no-pci"), "{a}");
        let a = of(&["3b:00.0,x=1", "net_null0"], Memory::Huge, &[]);
        assert!(a.ends_with("--in-memory -a 0000:3b:00.0,x=1"), "{a}");
    }

    #[test]
    fn the_operators_arguments_go_before() {
        let a = of(&["net_null0"], Memory::Usual(128), &["-m", "64", "-l", "1"]);
        assert!(
            !a.contains("128") && !a.contains("lcores") && a.ends_with("-m 64 -l 1"),
            "{a}"
        );
        let a = of(
            &["net_null0"],
            Memory::Huge,
            &["--file-prefix=mine", "--huge-dir=/h"],
        );
        assert!(
            !a.contains("onefold-77") && !a.contains("--in-memory"),
            "{a}"
        );
        let a = of(&["net_null0"], Memory::Huge, &["--iova-mode=pa"]);
        assert!(!a.contains("iova-mode=va"), "{a}");
        let a = of(&["net_null0"], Memory::Usual(99), &["--no-huge"]);
        assert!(a.contains("-m 99 --no-shconf"), "{a}");
        // a long one that begins with the letters of a short one
        let a = of(&["net_null0"], Memory::Huge, &["--legacy-thing"]);
        assert!(a.contains("--lcores"), "{a}");
    }
}
