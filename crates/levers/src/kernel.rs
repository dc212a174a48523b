//! What this kernel makes of what a policy wants.

use crate::quantum;
use crate::sys::{self, Attributes};
use onefold_sched::{Class, Decisions, MILLISECOND, Nanos};
use std::fs;

/// What the kernel says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The round-robin quantum, in ms.
    pub quantum_ms: Option<u64>,
    /// Part of a period that real-time threads may have, in per cent; `None`: all of it.
    pub real_time_per_cent: Option<u64>,
    /// A tick, in ns.
    pub tick: Option<Nanos>,
}

impl Kernel {
    /// Asks it.
    pub fn ask() -> Kernel {
        let number = |name: &str| -> Option<i64> {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
            text.trim().parse().ok()
        };
        let real_time = number("sched_rt_runtime_us").zip(number("sched_rt_period_us"));
        let real_time = real_time.filter(|(runtime, period)| *runtime >= 0 && *period > 0);
        let tick = nix::time::clock_getres(nix::time::ClockId::CLOCK_MONOTONIC_COARSE);
        Kernel {
            quantum_ms: quantum::get(),
            real_time_per_cent: real_time.map(|(runtime, period)| (runtime * 100 / period) as u64),
            // coarse clocks go on with the tick
            tick: tick.ok().map(|t| t.tv_nsec() as Nanos),
        }
    }

    /// What of these levers it cannot do as they are meant, in words.
    pub fn remarks(&self, d: &Decisions, real_time: bool) -> Vec<String> {
        let mut said = Vec::new();
        let ms = |ns: Nanos| ns as f64 / MILLISECOND as f64;
        let mut seen = Vec::new();
        for n in &d.nfs {
            let (slice, quantum) = match n.class {
                Class::Normal { slice } | Class::Batch { slice } => (Some(slice), None),
                Class::RoundRobin { quantum } => (None, Some(quantum)),
                Class::Fifo => (None, None),
            };
            if seen.contains(&n.class) {
                continue;
            }
            seen.push(n.class);
            let slice = slice.filter(|s| *s != Class::KERNELS);
            if let Some(slice) = slice
                && let Some(is) = slice_of(slice)
                && is != slice
            {
                said.push(format!(
                    "slices of {} ms are {} ms on this kernel",
                    ms(slice),
                    ms(is)
                ));
            }
            if let (Some(slice), Some(tick)) = (slice, self.tick)
                && slice < tick
            {
                said.push(format!(
                    "slices of {} ms end at ticks, which are {} ms apart, unless somebody wakes up",
                    ms(slice),
                    ms(tick)
                ));
            }
            if let (Some(quantum), Some(tick)) = (quantum, self.tick)
                && quantum % tick != 0
            {
                let ticks = quantum.div_ceil(tick) * tick;
                said.push(format!(
                    "a quantum of {} ms is {} ms: the kernel counts ticks of {} ms",
                    ms(quantum),
                    ms(ticks),
                    ms(tick)
                ));
            }
        }
        if let Some(part) = self.real_time_per_cent.filter(|p| real_time && *p < 100) {
            said.push(format!(
                "functions in real time have {part}% of their cores (sched_rt_runtime_us): the rest of each period is \
                 withheld, where there is other work"
            ));
        }
        said
    }
}

/// What the kernel makes of a slice: tried on a thread that ends then.
fn slice_of(slice: Nanos) -> Option<Nanos> {
    let tried = std::thread::spawn(move || {
        let me = nix::unistd::gettid().as_raw() as u32;
        let a = Attributes {
            slice,
            ..Attributes::DEFAULT
        };
        sys::set_attributes(me, a).ok()?;
        Some(sys::attributes(me).ok()?.slice)
    });
    tried.join().ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_sched::{NfSpec, Topology};

    #[test]
    fn what_it_cannot_do_is_said() {
        let nf = NfSpec {
            core: 0,
            priority: 1,
            capacity: 64,
        };
        let t = Topology::new(1, vec![nf; 2], vec![vec![0, 1]]).unwrap();
        let kernel = Kernel {
            quantum_ms: Some(100),
            real_time_per_cent: Some(95),
            tick: Some(4 * MILLISECOND),
        };
        let mut d = Decisions::new(&t);
        assert!(kernel.remarks(&d, false).is_empty(), "the kernel's own");
        d.nfs[0].class = Class::RoundRobin {
            quantum: MILLISECOND,
        };
        d.nfs[1].class = Class::Fifo;
        let said = kernel.remarks(&d, true);
        assert!(
            said[0].contains("1 ms is 4 ms") && said[1].contains("95%"),
            "{said:?}"
        );
        let asked = Kernel::ask();
        assert!(
            asked.quantum_ms.is_some() || asked.real_time_per_cent.is_none(),
            "{asked:?}"
        );
    }
}
