//! A controller over rings in memory and processes that sleep: what it sees, what it does to them, that all of it is
//! put back, and that a look allocates nothing.

use onefold_levers::sys::{self, Attributes, Class};
use onefold_levers::{Controller, Setup, Shared, Way, group};
use onefold_nf::{Plan, Region, Seat, Shape, State};
use onefold_sched::spec::Spec;
use onefold_sched::{MICROSECOND, MILLISECOND, Nanos};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

/// A process that sleeps, in the place of a function.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().unwrap())
    }
    fn is(&self) -> Attributes {
        sys::attributes(self.0.id()).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Functions one behind the other, on a core that is not the housekeeping one.
struct World {
    region: Arc<Region>,
    setup: Setup,
    shared: Arc<Shared>,
    seats: Vec<Seat>,
    sleepers: Vec<Sleeper>,
    now: Nanos,
}

impl World {
    fn new(nfs: u32) -> World {
        let links: Vec<(u32, u32)> = (0..=nfs).map(|n| (n, (n + 1) % (nfs + 1))).collect();
        let lan = Way {
            name: "lan".to_string(),
            nfs: (0..nfs as usize).collect(),
            certain: nfs as usize,
        };
        World::of(nfs, &links, vec![lan])
    }

    fn of(nfs: u32, links: &[(u32, u32)], ways: Vec<Way>) -> World {
        let shape = Shape {
            nfs: nfs + 1,
            rings: 0,
            places: 64,
            slots: 512,
            slot_bytes: 192,
        };
        let plan = Plan::new(shape, links).unwrap();
        let region = Arc::new(Region::heap(plan.shape).unwrap());
        let seats = (0..=nfs).map(|n| Seat::new(region.clone(), &plan, n, vec![]).unwrap());
        let seats: Vec<Seat> = seats.collect();
        let setup = Setup {
            region: region.clone(),
            names: (0..nfs).map(|n| format!("nf{n}")).collect(),
            cores: vec![Some(1); nfs as usize],
            priorities: vec![1; nfs as usize],
            ways,
            housekeeping: Some(0),
            folder: std::env::temp_dir().join(format!("onefold-levers-{}", std::process::id())),
            plan,
        };
        let shared = Arc::new(Shared::new(nfs as usize, setup.ways.len()));
        let sleepers: Vec<Sleeper> = (0..nfs).map(|_| Sleeper::new()).collect();
        for (nf, s) in sleepers.iter().enumerate() {
            shared.set_pid(nf, s.0.id());
            let block = region.nf(nf as u32 + 1).unwrap();
            block
                .said()
                .state
                .store(State::Running as u32, Ordering::Release);
        }
        World {
            seats,
            region,
            setup,
            shared,
            sleepers,
            now: sys::now(),
        }
    }

    fn controller(&self, spec: &str) -> Controller {
        let spec: Spec = spec.parse().unwrap();
        let made = Controller::new(self.setup.clone(), self.shared.clone(), &spec);
        made.unwrap().0
    }

    /// So many packets of class `class` go into the ring between process `from` and the next one.
    fn put(&mut self, from: usize, n: usize, class: u32) {
        self.put_at((from, 0), n, class);
    }

    /// The same, at an output.
    fn put_at(&mut self, (from, output): (usize, usize), n: usize, class: u32) {
        for _ in 0..n {
            let frame = self.seats[0].take_slot().unwrap();
            let d = self.seats[0].describe(frame, 64, 60).unwrap();
            self.seats[0].classify(d.slot, class);
            // the slot changes hands without having been in a ring
            self.seats[from].queue(output, d);
        }
        self.seats[from].flush().unwrap();
    }

    /// Process `of` takes out so many packets, and drops them.
    fn take(&mut self, of: usize, n: usize) {
        self.take_at((of, 0), n);
    }

    /// The same, at an input.
    fn take_at(&mut self, (of, input): (usize, usize), n: usize) {
        let mut arrived = Vec::new();
        self.seats[of].receive(input, &mut arrived, n).unwrap();
        drop(arrived);
        self.seats[of].release();
    }

    /// Looks once every 10 us for so long.
    fn go_on(&mut self, c: &mut Controller, time: Nanos) -> bool {
        let mut rescued = false;
        for _ in 0..time / (10 * MICROSECOND) {
            self.now += 10 * MICROSECOND;
            rescued |= c.step(self.now);
        }
        rescued
    }

    fn orders(&self, nf: u32) -> (u32, u32, u32) {
        let o = self.region.nf(nf + 1).unwrap().orders();
        let word = |w: &std::sync::atomic::AtomicU32| w.load(Ordering::Relaxed);
        (
            word(&o.relinquish),
            word(&o.when_full),
            word(&o.yield_after),
        )
    }
}

/// May this process schedule others in real time?
fn may() -> bool {
    let s = Sleeper::new();
    let real = Attributes {
        class: Class::RoundRobin,
        priority: 1,
        ..Attributes::DEFAULT
    };
    let may = sys::set_attributes(s.0.id(), real).is_ok();
    if !may {
        onefold_testing::skip("no right to schedule in real time");
    }
    may
}

#[test]
fn classes_are_set_and_put_back() {
    let mut w = World::new(2);
    let before = w.sleepers[0].is();
    let mut c = w.controller("batch,nice=4");
    w.go_on(&mut c, 100 * MICROSECOND);
    let is = w.sleepers[1].is();
    assert_eq!((is.class, is.nice), (Class::Batch, 4));
    assert_eq!(w.orders(0).1, 1, "what finds a ring full is dropped");
    // a process that is new is told, too
    w.sleepers[0] = Sleeper::new();
    w.shared.set_pid(0, w.sleepers[0].0.id());
    w.go_on(&mut c, 10 * MICROSECOND);
    assert_eq!(w.sleepers[0].is().nice, 4);
    let change: Spec = "kernel".parse().unwrap();
    // nice values go down by right only
    if nix::unistd::geteuid().is_root() {
        c.change(&change).unwrap();
        assert_eq!(w.sleepers[1].is().nice, before.nice);
        assert_eq!(w.sleepers[1].is().class, before.class);
        assert_eq!(w.orders(0), (0, 0, 0));
    }
}

#[test]
fn who_is_chosen_has_the_highest_priority() {
    if !may() {
        return;
    }
    let mut w = World::new(3);
    let mut c = w.controller("unis,costs=100ns/100ns/100ns,ageing=off,theta-min=8");
    let priorities =
        |w: &World| -> Vec<u32> { w.sleepers.iter().map(|s| s.is().priority).collect() };
    w.go_on(&mut c, 10 * MICROSECOND);
    assert_eq!(priorities(&w), [2, 1, 1], "the first one begins");
    assert!(w.sleepers.iter().all(|s| s.is().class == Class::RoundRobin));
    // packets wait for the third one only
    w.put(2, 20, 1);
    w.go_on(&mut c, 10 * MICROSECOND);
    assert_eq!(priorities(&w), [1, 1, 2]);
    // it has ended, and another one is in its place: its turn, as before
    w.sleepers[2] = Sleeper::new();
    w.shared.set_pid(2, w.sleepers[2].0.id());
    w.go_on(&mut c, 10 * MICROSECOND);
    assert_eq!(priorities(&w), [1, 1, 2]);
    // it has ended, and nobody is there yet: others are not held up by that
    w.shared.set_pid(2, 0);
    w.put(1, 20, 1);
    w.go_on(&mut c, MILLISECOND);
    let mut turns = 0;
    for _ in 0..10 {
        w.go_on(&mut c, 10 * MICROSECOND);
        turns += u32::from(priorities(&w)[1] == 2);
    }
    assert!(turns > 0, "{:?}", priorities(&w));
    w.shared.set_pid(2, w.sleepers[2].0.id());
    w.go_on(&mut c, 10 * MICROSECOND);
    drop(c);
    // as who launched them is
    let home = sys::attributes(std::process::id()).unwrap();
    let is = |s: &Sleeper| (s.is().class, s.is().priority, s.is().nice);
    let before = (home.class, 0, home.nice);
    assert!(w.sleepers.iter().all(|s| is(s) == before));
}

#[test]
fn a_full_ring_sheds_the_chain_that_waits_there() {
    if group::hierarchy().is_none() || !nix::unistd::geteuid().is_root() {
        onefold_testing::skip("no control groups");
        return;
    }
    let mut w = World::new(2);
    let mut c = w.controller("nfvnice,queueing-time=1ns");
    w.put(1, 60, 1);
    w.go_on(&mut c, 100 * MICROSECOND);
    assert_eq!(w.shared.shed(), 1);
    assert_eq!(
        w.orders(0),
        (1, 2, 0),
        "who is in front of it sleeps, and waits at full rings"
    );
    assert_eq!(w.orders(1).0, 0);
    w.take(2, 40);
    w.go_on(&mut c, 100 * MICROSECOND);
    assert_eq!((w.shared.shed(), w.orders(0).0), (0, 0));
    // both are in groups of their own, which go with the policy
    let group = |w: &World, nf: usize| {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", w.sleepers[nf].0.id()));
        text.unwrap()
            .contains(&format!("{}/{nf}", group::own_name()))
    };
    assert!(group(&w, 0) && group(&w, 1));
    drop(c);
    assert!(!group(&w, 0) && !group(&w, 1));
}

/// Two chains could come to the slow function; what waits there is of one of them, and holds that one up alone.
#[test]
fn a_chain_waits_where_its_packets_are() {
    if !may() {
        return;
    }
    let mut w = World::new(2);
    let way = |name: &str| Way {
        name: name.to_string(),
        nfs: vec![0, 1],
        certain: 1,
    };
    w.setup.ways = vec![way("lan"), way("dmz")];
    w.shared = Arc::new(Shared::new(2, 2));
    let mut c = w.controller("latency,target=1ms");
    let takes = |w: &World, nf: u32, ns: u64, n: u32| {
        let said = w.region.nf(nf + 1).unwrap().said();
        said.sample.store(ns, Ordering::Relaxed);
        said.samples.store(n, Ordering::Release);
    };
    for n in 1..40 {
        takes(&w, 0, 1_000, n);
        takes(&w, 1, 100_000, n);
        w.go_on(&mut c, MILLISECOND);
    }
    // nobody has come to the second one: half of 1 ms by 1 us
    assert_eq!((w.shared.admits(0), w.shared.admits(1)), (500, 500));
    w.put(1, 60, 2);
    w.go_on(&mut c, 2 * MILLISECOND);
    assert!(w.shared.admits(0) > 100, "{}", w.shared.admits(0));
    assert_eq!(w.shared.admits(1), 0);
    // taken, and not done with yet: others' packets may be where they were
    let mut arrived = Vec::new();
    w.seats[2].receive(0, &mut arrived, 60).unwrap();
    for a in &arrived {
        w.seats[0].classify(a.descriptor.slot, 1);
    }
    w.go_on(&mut c, 2 * MILLISECOND);
    assert!(w.shared.admits(0) > 100, "{}", w.shared.admits(0));
    // of no chain that is known, as what a function has made itself: of any
    drop(arrived);
    w.seats[2].release();
    w.put(1, 60, 0);
    w.go_on(&mut c, 2 * MILLISECOND);
    assert_eq!((w.shared.admits(0), w.shared.admits(1)), (0, 0));
}

#[test]
fn who_does_not_let_others_run_has_turns() {
    if !may() {
        return;
    }
    let mut w = World::new(2);
    let mut c = w.controller("cooperative,batches=3");
    w.go_on(&mut c, 10 * MILLISECOND);
    assert_eq!(w.orders(0).2, 3);
    assert!(w.sleepers.iter().all(|s| s.is().class == Class::Fifo));
    // packets wait for the second one, and it is done with none
    w.put(1, 5, 1);
    assert!(!w.go_on(&mut c, 40 * MILLISECOND));
    assert!(w.go_on(&mut c, 30 * MILLISECOND));
    assert!(w.sleepers.iter().all(|s| s.is().class == Class::RoundRobin));
    assert!(!w.go_on(&mut c, 200 * MILLISECOND), "once is enough");
    let figures = {
        c.end();
        w.shared.figures()
    };
    assert_eq!(figures.rescued, 1);
}

#[test]
fn real_time_is_not_to_be_had_where_the_launcher_is() {
    let mut w = World::new(2);
    w.setup.cores[1] = w.setup.housekeeping;
    for (spec, ok) in [
        ("unis", false),
        ("rr", false),
        ("normal", true),
        ("kernel", true),
    ] {
        let made = Controller::new(w.setup.clone(), w.shared.clone(), &spec.parse().unwrap());
        match made {
            Ok(_) => assert!(ok, "{spec}"),
            Err(e) => assert!(
                !ok && e.to_string().contains("nf1 is on core 0"),
                "{spec}: {e}"
            ),
        }
    }
}

/// Two chains enter the same function by ports of their own; the second one waits for room further on.
#[test]
fn a_chain_is_shed_for_its_own_ring_at_a_function_that_chains_share() {
    let chain = |name: &str| Way {
        name: name.to_string(),
        nfs: vec![0],
        certain: 1,
    };
    let links = [(0, 1), (0, 1), (1, 0), (1, 0)];
    let mut w = World::of(1, &links, vec![chain("one"), chain("two")]);
    let mut c = w.controller("nfvnice,shares=off");
    let step = 300 * MICROSECOND;
    w.put_at((0, 1), 64, 2);
    w.put_at((0, 0), 45, 1);
    w.go_on(&mut c, step);
    assert_eq!(w.shared.shed(), 0b10, "70% of a ring are not full");
    w.put_at((0, 0), 10, 1);
    w.go_on(&mut c, step);
    assert_eq!(w.shared.shed(), 0b11);
    w.take_at((1, 0), 10);
    w.go_on(&mut c, step);
    assert_eq!(w.shared.shed(), 0b11, "it is shed until it is below LOW");
    w.take_at((1, 0), 15);
    w.go_on(&mut c, step);
    assert_eq!(w.shared.shed(), 0b10);
    w.take_at((1, 1), 64);
    w.go_on(&mut c, step);
    assert_eq!(w.shared.shed(), 0);
}

#[test]
fn what_is_dropped_behind_a_function_is_its_waste() {
    let mut w = World::new(2);
    let mut c = w.controller("kernel");
    w.put(1, 80, 1);
    assert_eq!(w.seats[1].give_up(0), 80 - 64);
    w.go_on(&mut c, 10 * MICROSECOND);
    c.end();
    let wasted: Vec<u64> = w.shared.figures().nfs.iter().map(|n| n.wasted).collect();
    assert_eq!(wasted, [16, 0]);
}

/// Whatever the policy, once the processes are known.
#[test]
fn looks_allocate_nothing() {
    let root = nix::unistd::geteuid().is_root();
    for spec in [
        "kernel",
        "normal",
        "nfvnice,shares=off",
        "nfvnice",
        "unis",
        "latency",
        "cooperative",
    ] {
        let mut w = World::new(3);
        let real: Spec = spec.parse().unwrap();
        if !root && (real.is_real_time() || real.has_shares()) {
            onefold_testing::skip(format!("{spec} takes root"));
            continue;
        }
        let mut c = w.controller(spec);
        w.put(1, 50, 1);
        // the first usage is read, with the processes' files opened
        w.go_on(&mut c, 150 * MILLISECOND);
        let before = CALLS.get();
        w.go_on(&mut c, 300 * MILLISECOND);
        assert_eq!(CALLS.get(), before, "{spec}");
    }
}

/// Who moves packets is told how many may wait where a chain enters, and functions after how many batches they yield.
#[test]
fn the_own_policy_bounds_entries_and_turns_by_what_functions_cost() {
    if !may() {
        return;
    }
    let mut w = World::new(2);
    let mut c = w.controller("latency,target=300us");
    w.go_on(&mut c, MILLISECOND);
    assert_eq!((w.shared.admits(0), w.orders(0)), (u32::MAX, (0, 2, 8)));
    for sample in 1..40 {
        for nf in 1..=2 {
            let said = w.region.nf(nf).unwrap().said();
            said.sample.store(500, Ordering::Relaxed);
            said.samples.store(sample, Ordering::Release);
        }
        w.go_on(&mut c, MILLISECOND);
    }
    // 150 us are 150 packets of 1 us; 100 us are 3 batches of 32, of which the next ring takes 1.5
    assert_eq!((w.shared.admits(0), w.orders(0)), (150, (0, 2, 2)));
    assert!(w.sleepers.iter().all(|s| s.is().class == Class::Fifo));
    drop(c);
    assert_eq!((w.shared.admits(0), w.orders(0)), (u32::MAX, (0, 0, 0)));
}

/// It does with the fair class where the launcher is, and says so.
#[test]
fn the_own_policy_leaves_the_launchers_core_to_it() {
    if !may() {
        return;
    }
    let mut w = World::new(3);
    w.setup.cores[1] = w.setup.housekeeping;
    let spec = "latency".parse().unwrap();
    let made = Controller::new(w.setup.clone(), w.shared.clone(), &spec);
    let (mut c, remarks) = made.unwrap();
    assert!(
        remarks
            .iter()
            .any(|r| r.contains("nf1 is on the launcher's core")),
        "{remarks:?}"
    );
    w.go_on(&mut c, MILLISECOND);
    let classes: Vec<Class> = w.sleepers.iter().map(|s| s.is().class).collect();
    assert_eq!(classes, [Class::Fifo, Class::Normal, Class::Fifo]);
}
