//! What a policy wants done: levers as data.

use crate::topology::{ChainSet, Topology};
use crate::{MILLISECOND, Nanos};

/// `cpu.shares` of a group that nobody has set.
pub const DEFAULT_SHARES: u32 = 1024;

/// How the kernel schedules an NF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `SCHED_NORMAL`: fair by shares; who wakes up and is behind goes first.
    Normal {
        /// The slice, in ns.
        slice: Nanos,
    },
    /// `SCHED_BATCH`: fair by shares; who wakes up waits for the slice's end.
    Batch {
        /// The slice, in ns.
        slice: Nanos,
    },
    /// `SCHED_RR`.
    RoundRobin {
        /// The quantum, in ns.
        quantum: Nanos,
    },
    /// `SCHED_FIFO`: until it sleeps or yields.
    Fifo,
}

impl Class {
    /// A slice that is the kernel's own: it is not set. (3 ms, as the kernel has it, about.)
    pub const KERNELS: Nanos = 3 * MILLISECOND;

    /// Is it of real time, before everything that is fair?
    pub fn is_real_time(self) -> bool {
        matches!(self, Class::RoundRobin { .. } | Class::Fifo)
    }
}

/// Who chooses what a core runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorePlan {
    /// The kernel, by classes and shares.
    Kernel,
    /// This NF and no other one of its core, runnable or not (highest real-time priority).
    Only {
        /// The NF.
        nf: usize,
        /// How long it is to have the core, in ns, from when it was chosen.
        slice: Nanos,
    },
}

/// The levers of one NF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfLevers {
    /// How the kernel schedules it.
    pub class: Class,
    /// Of fair classes: -20 to 19.
    pub nice: i32,
    /// cgroup v1 `cpu.shares`; [`crate::nfvnice::weight`] converts to v2.
    pub shares: u32,
    /// It is to sleep after its batch.
    pub relinquish: bool,
    /// It sleeps while what it puts packets into has no room for a batch.
    pub blocks_when_full: bool,
    /// Where it does not: what comes by an input that leads to a full ring, and only there, waits, and it goes on with
    /// what comes by others. (Not simulated: NFs have one input there.)
    pub waits_by_way: bool,
    /// Packets that are ECN-capable are marked (CE, RFC 3168) when they enter its ring.
    pub mark_ecn: bool,
    /// It yields after so many batches.
    pub yield_after: Option<u32>,
}

/// All levers of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decisions {
    /// By core.
    pub cores: Vec<CorePlan>,
    /// By NF.
    pub nfs: Vec<NfLevers>,
    /// Chains whose packets are dropped where they enter.
    pub shed: ChainSet,
    /// By chain: so many packets may wait in the ring that it enters by; more are dropped there. `None`: as many as
    /// there is room for.
    pub admit: Vec<Option<u32>>,
}

impl Decisions {
    /// As things are before anybody decides: the kernel's defaults.
    pub fn new(topology: &Topology) -> Decisions {
        let levers = NfLevers {
            class: Class::Normal {
                slice: Class::KERNELS,
            },
            nice: 0,
            shares: DEFAULT_SHARES,
            relinquish: false,
            blocks_when_full: false,
            waits_by_way: false,
            mark_ecn: false,
            yield_after: None,
        };
        Decisions {
            cores: vec![CorePlan::Kernel; topology.cores()],
            nfs: vec![levers; topology.nfs().len()],
            shed: 0,
            admit: vec![None; topology.chains().len()],
        }
    }
}
