//! The policies that there are, for lists and help: [`crate::spec`] reads what is written of them.

/// A policy that there is, for lists and help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// As it is written.
    pub name: &'static str,
    /// What it does, in a sentence or two.
    pub about: &'static str,
    /// What can be said of it: key, what it is, and what it is if nothing is said.
    pub parameters: &'static [(&'static str, &'static str, &'static str)],
}

const NICE: (&str, &str, &str) = ("nice", "of all functions, -20 to 19", "0");
const SLICE: (&str, &str, &str) = (
    "slice",
    "custom slice; kernels hold it to 0.1 to 100 ms",
    "the kernel's",
);
const CLASS: (&str, &str, &str) = (
    "class",
    "the kernel's class below it: normal, batch, rr or fifo",
    "normal",
);

/// All policies.
pub const KNOWN: &[Known] = &[
    Known {
        name: "kernel",
        about: "Nothing is done: functions are the kernel's, as they are launched. What finds a ring full is waited \
                with.",
        parameters: &[],
    },
    Known {
        name: "normal",
        about: "The kernel's fair class (SCHED_NORMAL): equal shares, who wakes up goes first. What finds a ring full \
                is dropped, as by functions that nobody coordinates.",
        parameters: &[
            NICE,
            SLICE,
            ("blocks", "on: functions wait at full rings", "off"),
        ],
    },
    Known {
        name: "batch",
        about: "The kernel's fair class for who computes (SCHED_BATCH): equal shares, who wakes up waits for the \
                slice's end.",
        parameters: &[
            NICE,
            SLICE,
            ("blocks", "on: functions wait at full rings", "off"),
        ],
    },
    Known {
        name: "rr",
        about: "Real time in turns (SCHED_RR). The quantum is the system's (sched_rr_timeslice_ms), and is put back at \
                the end; it is counted in ticks of the kernel.",
        parameters: &[
            ("quantum", "a turn", "100ms"),
            ("blocks", "on: functions wait at full rings", "off"),
        ],
    },
    Known {
        name: "fifo",
        about: "Real time until it sleeps (SCHED_FIFO). A function that does not let others run for 50 ms has turns \
                (SCHED_RR) from then on.",
        parameters: &[("blocks", "on: functions wait at full rings", "off")],
    },
    Known {
        name: "scc",
        about: "SCC's quanta (JSS 2017): a slice by nice value, 5 ms to 800 ms by its formula; kernels with EEVDF hold \
                it to 100 ms.",
        parameters: &[NICE, ("class", "normal or batch", "batch")],
    },
    Known {
        name: "cooperative",
        about: "Functions yield after so many batches (SCHED_FIFO): UNiS's baseline. Functions have to be written for \
                it, as all that use the NF library are.",
        parameters: &[("batches", "between two yields", "8")],
    },
    Known {
        name: "nfvnice",
        about: "NFVnice (SIGCOMM 2017): shares by load, and backpressure: what would be dropped behind functions that \
                have worked on it is dropped where it enters. Rates and costs are measured.",
        parameters: &[
            ("high", "watermark, per cent of a ring", "80"),
            ("low", "watermark, per cent of a ring", "60"),
            (
                "queueing-time",
                "what waits is worth so much, before chains are shed",
                "10us",
            ),
            ("period", "rings are looked at so often", "10us"),
            (
                "shares-each",
                "cpu.shares of a core for each function",
                "1024",
            ),
            ("ecn-gain", "weight of a new length in the average", "0.02"),
            (
                "ecn-above",
                "part of a ring from which on packets are marked",
                "0.5",
            ),
            ("shares", "off: they stay equal", "on"),
            ("backpressure", "off: nothing is shed", "on"),
            ("blocking", "off: functions do not wait at full rings", "on"),
            CLASS,
        ],
    },
    Known {
        name: "unis",
        about: "UNiS (TNSM): functions take turns by occupancy of their rings, each as long as the next ring has room \
                for; for functions that poll. Costs are learnt, if not given.",
        parameters: &[
            ("period", "T: rings are looked at so often", "5us"),
            ("gamma", "part of the next ring that a slice fills", "0.75"),
            (
                "theta-min",
                "a function with at most so many packets is passed over",
                "56",
            ),
            (
                "theta-max",
                "part of the next ring from which on it is, too; off: never",
                "0.75",
            ),
            (
                "ageing",
                "one that has waited for so long is not; off: as published",
                "1ms",
            ),
            (
                "costs",
                "of a packet, by function: 50ns/120ns/80ns",
                "learnt",
            ),
        ],
    },
    Known {
        name: "latency",
        about: "Onefold's own: functions yield (SCHED_FIFO) after turns whose lengths follow from learnt costs and the \
                target, and what would be later than its target is dropped where it enters, before anybody has worked \
                on it.",
        parameters: &[
            (
                "target",
                "from entry to exit, for all chains",
                "1ms, or 300us for each function of a core",
            ),
            (
                "target.CHAIN",
                "for packets that enter at this port",
                "target",
            ),
        ],
    },
];
