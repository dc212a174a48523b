//! Bounds on what one injected packet may cause. What exceeds them is counted, never silently lost.

/// Elements that one packet may pass within one injection; one that goes on is dropped for [`LOOP`].
pub const MAX_HOPS: u32 = 10_000;
/// Drop reason of a packet that went round more than [`MAX_HOPS`] times.
pub const LOOP: &str = "engine: loop";

/// Elements that all packets of one injection, task turn or timer may pass together; then the rest is dropped for [`WORK`].
pub const MAX_STEPS: u64 = 4_000_000;
/// Drop reason of packets beyond [`MAX_STEPS`].
pub const WORK: &str = "engine: too much work for one packet";

/// Drop reason of a packet at an output that leads nowhere; checked graphs have none.
pub const UNCONNECTED: &str = "engine: unconnected output";

/// Task turns after one injection. What is left runs at the next one: an unbounded source cannot stall a run.
pub const TASK_TURNS: u32 = 20_000;
/// Task turns per injection once a run has exceeded [`TASK_TURNS`].
pub const TASK_TURNS_RUNAWAY: u32 = 64;
/// Repetitions within one task turn ([`onefold_element::TaskStatus::Again`]).
pub const TASK_BURST: u32 = 65_536;
/// Timers fired between two injections.
pub const TIMERS: u32 = 1_000_000;
/// Handler calls that may be under way at once (a script that calls a script ...).
pub const HANDLER_DEPTH: u32 = 64;
/// Deferred handler calls carried out per injection.
pub const DEFERRED_CALLS: u32 = 100_000;

/// Drop reason of packets that an element left in its batch.
pub const FORGOTTEN: &str = "engine: left in the batch";
