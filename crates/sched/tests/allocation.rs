//! Decisions allocate nothing, which is counted.

use onefold_sched::nfvnice::NfvniceConfig;
use onefold_sched::{
    Baseline, Cooperative, Decisions, LatencyTarget, Level, MILLISECOND, NfSpec, NfView, Nfvnice,
    Observation, Policy, Topology, Unis, UnisConfig,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Calls of this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; calls are counted beside it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        CALLS.with(|c| c.set(c.get() + 1));
        unsafe { System.alloc(l) }
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        unsafe { System.dealloc(p, l) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn decisions_allocate_nothing() {
    let nf = |i: usize| NfSpec {
        core: i % 2,
        priority: 1,
        capacity: 2048,
    };
    let chains = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
    let t = Topology::new(2, (0..8).map(nf).collect(), chains).unwrap();
    let policies: [Box<dyn Policy>; 5] = [
        Box::new(Baseline::normal()),
        Box::new(Cooperative::default()),
        Box::new(Nfvnice::new(&t, NfvniceConfig::default()).unwrap()),
        Box::new(Unis::new(&t, vec![100; 8], UnisConfig::default()).unwrap()),
        Box::new(LatencyTarget::new(&t, vec![MILLISECOND; 2]).unwrap()),
    ];
    for mut policy in policies {
        let mut to = Decisions::new(&t);
        let mut views = [NfView::default(); 8];
        let (mut changes, before) = (0, CALLS.get());
        let mut last = (0, 0);
        for step in 0u32..40_000 {
            for (i, v) in (0u32..).zip(&mut views) {
                let level = |n: u32| Level {
                    occupancy: n % 2048,
                    capacity: 2048,
                };
                v.input = level(step * 7 * (i + 1));
                v.output = level(step * 11 * (i + 2));
                v.arrived += u64::from(i) * 30;
                v.sample = Some(50 + u64::from(step % 100));
                v.queued = 1 << (i / 4);
            }
            let now = u64::from(step) * 5_000;
            policy
                .decide(&Observation { now, nfs: &views }, &mut to)
                .unwrap();
            let admitted = to.admit.iter().map(|a| u64::from(a.unwrap_or(u32::MAX)));
            let now = (to.shed, admitted.sum::<u64>());
            changes += u32::from(now != last);
            last = now;
        }
        assert_eq!(CALLS.get(), before, "{}", policy.name());
        if matches!(policy.name(), "NFVnice" | "latency target") {
            assert!(changes > 10, "{} sheds now and then", policy.name());
        }
    }
}
