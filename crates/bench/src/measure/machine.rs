//! What a benchmark ran on.

use serde::Serialize;

/// The machine, as far as the system tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Cores that the system runs on.
    pub cores: usize,
    /// Frequency of the time stamp counter, in GHz; cycles are counted with it, because it does not change with load as
    /// the core's own frequency may.
    pub tsc_ghz: Option<f64>,
    /// Size of caches, nearest first: "L1d 32K".
    pub caches: Vec<String>,
    /// Memory in GiB.
    pub memory_gib: Option<f64>,
    /// A virtual machine.
    pub virtual_machine: bool,
    /// The system.
    pub kernel: Option<String>,
    /// Runnable processes on average of the last minute, before the benchmark.
    pub load: Option<f64>,
    /// The core that everything ran on; none if the thread could not be bound to one.
    pub core: Option<usize>,
    /// Cargo's profile that the program was built with (`release`, `quick`, `debug`), where whoever measures knows.
    pub build: Option<&'static str>,
}

fn text(path: &str) -> Option<String> {
    let s = std::fs::read_to_string(path).ok()?;
    Some(s.trim().to_string()).filter(|s| !s.is_empty())
}

impl Machine {
    /// This one; `core` is where the thread is bound to.
    pub fn this(core: Option<usize>) -> Machine {
        let info = text("/proc/cpuinfo").unwrap_or_default();
        let kib = text("/proc/meminfo").and_then(|m| {
            let line = m.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()
        });
        Machine {
            cpu: field(&info, "model name").map(str::to_string),
            cores: cores(&info),
            tsc_ghz: tsc_ghz(&info),
            caches: caches(),
            memory_gib: kib.map(|k| (k / 1024.0 / 1024.0 * 10.0).round() / 10.0),
            virtual_machine: has_flag(&info, "hypervisor"),
            kernel: text("/proc/sys/kernel/osrelease").map(|r| format!("Linux {r}")),
            load: text("/proc/loadavg").and_then(|l| l.split_whitespace().next()?.parse().ok()),
            core,
            build: None,
        }
    }

    /// The same, and the program was built with this profile.
    #[must_use]
    pub fn built(self, profile: &'static str) -> Machine {
        Machine {
            build: Some(profile),
            ..self
        }
    }

    /// In one line, for people.
    pub fn line(&self) -> String {
        let mut parts = vec![
            self.cpu
                .clone()
                .unwrap_or_else(|| "unknown processor".into()),
        ];
        if self.virtual_machine {
            parts.push("virtual machine".into());
        }
        parts.push(match self.cores {
            1 => "1 core".into(),
            n => format!("{n} cores"),
        });
        parts.extend(self.tsc_ghz.map(|g| format!("TSC {g:.2} GHz")));
        if !self.caches.is_empty() {
            parts.push(self.caches.join(", "));
        }
        parts.extend(self.memory_gib.map(|m| format!("{m:.0} GiB")));
        parts.extend(self.kernel.clone());
        parts.extend(self.build.map(|b| format!("build: {b}")));
        parts.join("; ")
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|l| {
        let (key, value) = l.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// All cores, not only that which this thread is bound to.
fn cores(info: &str) -> usize {
    let listed = |l: &&str| {
        l.split_once(':')
            .is_some_and(|(k, _)| k.trim() == "processor")
    };
    info.lines().filter(listed).count().max(1)
}

fn has_flag(info: &str, flag: &str) -> bool {
    field(info, "flags").is_some_and(|f| f.split(' ').any(|x| x == flag))
}

/// On x86 the kernel derives BogoMIPS from the time stamp counter's frequency: twice its MHz.
fn tsc_ghz(info: &str) -> Option<f64> {
    let bogo: f64 = field(info, "bogomips")?.parse().ok()?;
    (has_flag(info, "constant_tsc") && bogo > 0.0).then_some(bogo / 2000.0)
}

fn caches() -> Vec<String> {
    let all = (0..8).filter_map(|i| {
        let of = |what: &str| {
            text(&format!(
                "/sys/devices/system/cpu/cpu0/cache/index{i}/{what}"
            ))
        };
        let suffix = match of("type")?.as_str() {
            "Instruction" => return None,
            "Data" => "d",
            _ => "",
        };
        Some(format!("L{}{suffix} {}", of("level")?, of("size")?))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequency_and_flags_are_read_from_what_the_kernel_tells() {
        let info = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu constant_tsc hypervisor\nbogomips\t: 5192.29\n";
        assert_eq!(tsc_ghz(info), Some(2.596145));
        assert_eq!(field(info, "model name"), Some("Some CPU"));
        assert!(has_flag(info, "hypervisor") && !has_flag(info, "constant"));
        assert_eq!((cores(info), cores(&info.repeat(3)), cores("")), (1, 3, 1));
        assert_eq!(tsc_ghz("BogoMIPS\t: 100.00\n"), None, "no x86");
        assert_eq!(tsc_ghz("bogomips\t: many\nflags\t: constant_tsc"), None);
    }

    #[test]
    fn this_machine_has_a_line() {
        let m = Machine::this(Some(1));
        assert!(m.cores >= 1);
        assert!(m.line().contains("core"), "{}", m.line());
    }
}
