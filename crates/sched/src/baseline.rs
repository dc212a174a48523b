//! What others are compared with: the kernel's classes, SCC's quanta, and yielding after so many batches.

use crate::decision::{Class, Decisions};
use crate::observation::{Observation, ObservationError};
use crate::{MILLISECOND, Nanos, Policy};

/// A nice value beyond -20 to 19.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nice {0}: it has to be -20 to 19")]
pub struct QuantumError(pub i32);

/// SCC's quantum for a nice value (JSS 127, 2017), in ns: with `P = 120 + nice`, `(140 - P) * 20 ms` where `P < 120`,
/// else `(140 - P) * 5 ms`. The paper gives 800 ms to nice -19; by its formula that is -20, and -19 has 780 ms. What a
/// kernel with EEVDF makes of it is another thing: custom slices are held to 0.1 to 100 ms.
///
/// # Errors
/// There is no such nice value.
pub fn scc_quantum(nice: i32) -> Result<Nanos, QuantumError> {
    let left = match nice {
        -20..=19 => (20 - nice) as Nanos,
        _ => return Err(QuantumError(nice)),
    };
    Ok(left * if nice < 0 { 20 } else { 5 } * MILLISECOND)
}

/// All NFs in one class of the kernel, with equal shares; nothing else is done.
#[derive(Debug, Clone, Copy)]
pub struct Baseline {
    name: &'static str,
    class: Class,
}

impl Baseline {
    /// This class.
    pub fn of(class: Class) -> Baseline {
        let name = match class {
            Class::Normal { .. } => "normal",
            Class::Batch { .. } => "batch",
            Class::RoundRobin { .. } => "round robin",
            Class::Fifo => "FIFO",
        };
        Baseline { name, class }
    }

    /// `SCHED_NORMAL`, slices of 3 ms.
    pub fn normal() -> Baseline {
        Baseline {
            name: "normal",
            class: Class::Normal {
                slice: 3 * MILLISECOND,
            },
        }
    }

    /// `SCHED_BATCH` with this slice, in ns.
    pub fn batch(slice: Nanos) -> Baseline {
        Baseline {
            name: "batch",
            class: Class::Batch { slice },
        }
    }

    /// `SCHED_RR` with this quantum, in ns.
    pub fn round_robin(quantum: Nanos) -> Baseline {
        Baseline {
            name: "round robin",
            class: Class::RoundRobin { quantum },
        }
    }

    /// `SCHED_FIFO`.
    pub fn fifo() -> Baseline {
        Baseline {
            name: "FIFO",
            class: Class::Fifo,
        }
    }
}

impl Policy for Baseline {
    fn name(&self) -> &'static str {
        self.name
    }

    fn period(&self) -> Nanos {
        100 * MILLISECOND
    }

    fn decide(&mut self, _: &Observation<'_>, to: &mut Decisions) -> Result<(), ObservationError> {
        to.nfs.iter_mut().for_each(|n| n.class = self.class);
        Ok(())
    }
}

/// FIFO, and each NF yields after so many batches: NFs have to be written for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cooperative {
    /// Batches.
    pub batches: u32,
}

impl Default for Cooperative {
    /// 8, as in UNiS's comparisons.
    fn default() -> Self {
        Cooperative { batches: 8 }
    }
}

impl Policy for Cooperative {
    fn name(&self) -> &'static str {
        "cooperative"
    }

    fn period(&self) -> Nanos {
        100 * MILLISECOND
    }

    fn decide(&mut self, _: &Observation<'_>, to: &mut Decisions) -> Result<(), ObservationError> {
        for n in &mut to.nfs {
            n.class = Class::Fifo;
            n.yield_after = Some(self.batches.max(1));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quanta_are_the_formulas() {
        let ms = |nice| scc_quantum(nice).map(|q| q / MILLISECOND);
        assert_eq!(
            [ms(0), ms(-1), ms(-20), ms(-19), ms(19)],
            [100, 420, 800, 780, 5].map(Ok)
        );
        assert_eq!(
            (ms(-21), ms(20)),
            (Err(QuantumError(-21)), Err(QuantumError(20)))
        );
    }
}
