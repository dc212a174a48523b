//! Regions, seats and what is left of a process that has ended, on memory of the heap: properties, threads, and peers
//! that write whatever they like.

use onefold_nf::ring::WORDS;
use onefold_nf::{
    Arrived, Descriptor, Plan, Region, RingMemory, SPARE_SLOTS, Seat, Shape, quiet, reclaim,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn shape(nfs: u32, places: u32, slots: u32) -> Shape {
    Shape {
        nfs,
        rings: 0,
        places,
        slots,
        slot_bytes: 192,
    }
}

fn region(shape: Shape, links: &[(u32, u32)]) -> (Arc<Region>, Plan) {
    let plan = Plan::new(shape, links).unwrap();
    (Arc::new(Region::heap(plan.shape).unwrap()), plan)
}

/// A packet of the launcher's that says its number.
fn packet(seat: &mut Seat, number: u32) -> Option<Descriptor> {
    let mut frame = seat.take_slot()?;
    frame[64..68].copy_from_slice(&number.to_ne_bytes());
    let d = seat.describe(frame, 64, 4)?;
    Some(Descriptor {
        came: u64::from(number),
        ..d
    })
}

fn number(a: &Arrived) -> u32 {
    let at = usize::from(a.descriptor.offset);
    u32::from_ne_bytes(a.frame[at..at + 4].try_into().unwrap())
}

/// Sends what has arrived on through an output.
fn pass_on(seat: &mut Seat, arrived: &mut Vec<Arrived>, output: usize) {
    for a in arrived.drain(..) {
        let d = a.descriptor;
        let at = seat.describe(a.frame, usize::from(d.offset), d.len as usize);
        seat.queue(
            output,
            Descriptor {
                came: d.came,
                ..at.unwrap()
            },
        );
    }
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    let plan = Plan::new(shape(4, 128, 500), &[(0, 1), (1, 2), (2, 3), (3, 0)]).unwrap();
    assert_eq!(plan.rings.len(), 4 + 2 * 3);
    assert_eq!(Plan::of_text(&plan.to_text()), Ok(plan.clone()));
    for wrong in [
        "",
        "1 2 3",
        "4 10 128 500 192 100\n",
        "4 1 128 500 192 10000000\n",
        "4 1 128 500 192 10000000\n0 9 packets\n",
        "4 1 128 500 192 10000000\n1 1 packets\n",
        "4 1 128 500 192 10000000\n0 1 parcels\n",
        "4 1 100 500 192 10000000\n0 1 packets\n",
        "4 1 128 500 190 10000000\n0 1 packets\n",
        "0 1 128 500 192 10000000\n0 1 packets\n",
        "4 1 128 0 192 10000000\n0 1 packets\n",
    ] {
        assert!(Plan::of_text(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 128 }, ..Default::default() })]
    /// Batches of any size in and out, by way of a function between: a queue, as long as there is room.
    #[test]
    fn packets_come_out_in_order_whatever_the_batches(
        places in 0u32..5,
        steps in proptest::collection::vec((0usize..3, 0usize..40), 1..60),
    ) {
        let (region, plan) = region(shape(2, 1 << places, 64), &[(0, 1), (1, 0)]);
        let mut launcher = Seat::new(region.clone(), &plan, 0, vec![]).unwrap();
        let mut function = Seat::new(region.clone(), &plan, 1, vec![]).unwrap();
        let rings: Vec<_> = (0..2).filter_map(|r| region.ring(r)).collect();
        let (mut next, mut expected) = (0, VecDeque::new());
        let mut arrived = Vec::new();
        for (what, n) in steps {
            match what {
                0 => {
                    while launcher.backlog(0) < n
                        && let Some(d) = packet(&mut launcher, next)
                    {
                        launcher.queue(0, d);
                        expected.push_back(next);
                        next += 1;
                    }
                    launcher.flush().unwrap();
                }
                1 => {
                    function.receive(0, &mut arrived, n).unwrap();
                    pass_on(&mut function, &mut arrived, 0);
                    function.flush().unwrap();
                    if function.backlog(0) == 0 {
                        function.release();
                    }
                }
                _ => {
                    launcher.receive(0, &mut arrived, n).unwrap();
                    for a in arrived.drain(..) {
                        prop_assert_eq!(Some(number(&a)), expected.pop_front());
                        prop_assert_eq!(a.descriptor.came as u32, number(&a));
                    }
                    launcher.release();
                    launcher.take_returns();
                }
            }
            for r in &rings {
                prop_assert!(onefold_nf::occupancy(r) <= 1 << places);
            }
            let waits = onefold_nf::occupancy(&rings[0]) + launcher.backlog(0) as u32;
            for (all, wanted) in [(0, 1), (7, 3), (20, 8), (40, 40), (u32::MAX, 32)] {
                let (room, said) = (all - waits.min(all), launcher.room_below(0, all, wanted));
                let said = said.unwrap();
                prop_assert!(said == room || (wanted..room).contains(&said), "{said} of {room}");
            }
        }
        // all that went in comes out
        for _ in 0..200 {
            launcher.flush().unwrap();
            function.receive(0, &mut arrived, 3).unwrap();
            pass_on(&mut function, &mut arrived, 0);
            function.flush().unwrap();
            function.release();
            launcher.receive(0, &mut arrived, 3).unwrap();
            for a in arrived.drain(..) {
                prop_assert_eq!(Some(number(&a)), expected.pop_front());
            }
            launcher.release();
        }
        prop_assert!(expected.is_empty() && quiet(&region, &rings));
        launcher.take_returns();
        prop_assert_eq!(launcher.spare(), 64, "every slot is back");
    }

    /// A process ends at any point of its work: what it had claimed and not passed on is lost, nothing else is, and
    /// every slot is there again.
    #[test]
    fn what_a_process_had_comes_back(
        given in 1usize..12,
        took in 0usize..12,
        passed in 0usize..12,
        made in 0usize..3,
        released: bool,
        drained in 0usize..12,
    ) {
        let (region, plan) = region(shape(2, 16, 100), &[(0, 1), (1, 0)]);
        let mut launcher = Seat::new(region.clone(), &plan, 0, vec![]).unwrap();
        let mut function = Seat::new(region.clone(), &plan, 1, vec![]).unwrap();
        launcher.tidy();
        for n in 0..given {
            let d = packet(&mut launcher, n as u32).unwrap();
            launcher.queue(0, d);
        }
        launcher.flush().unwrap();
        let (mut arrived, mut made_by_it) = (Vec::new(), Vec::new());
        function.receive(0, &mut arrived, took).unwrap();
        for _ in 0..made {
            made_by_it.push(function.take_slot().unwrap());
        }
        let took = arrived.len();
        let passed = passed.min(took);
        let mut passing: Vec<_> = arrived.drain(..passed).collect();
        pass_on(&mut function, &mut passing, 0);
        function.flush().unwrap();
        // a batch is released when all of it has been passed on
        let released = released && passed == took;
        if released {
            function.release();
        }
        let mut come = Vec::new();
        launcher.receive(0, &mut come, drained).unwrap();
        // it ends here: nothing of it runs any more, and what it has in its memory is gone
        std::mem::forget((function, arrived, made_by_it));
        let back = reclaim(&region, &plan, 1);
        prop_assert_eq!(back.lost as usize, took - passed);
        prop_assert_eq!(back.emptied, 0);
        launcher.reclaim(&back.slots);
        let mut again = Seat::new(region.clone(), &plan, 1, vec![]).unwrap();
        let mut rest = Vec::new();
        again.receive(0, &mut rest, 100).unwrap();
        let numbers: Vec<u32> = rest.iter().map(number).collect();
        let expected: Vec<u32> = (took as u32..given as u32).collect();
        prop_assert_eq!(numbers, expected, "what it had not taken waits for who comes next");
        pass_on(&mut again, &mut rest, 0);
        again.flush().unwrap();
        again.release();
        launcher.receive(0, &mut come, 100).unwrap();
        let numbers: Vec<u32> = come.iter().map(number).collect();
        let expected: Vec<u32> = (0..passed as u32).chain(took as u32..given as u32).collect();
        prop_assert_eq!(numbers, expected);
        drop(come);
        launcher.release();
        launcher.take_returns();
        let supplied = onefold_nf::occupancy(&region.ring(2).unwrap()) as usize;
        prop_assert_eq!(launcher.spare() + supplied + again.spare(), 100);
    }

    /// A peer writes anything into the region, between any two steps of others: they go on, or say what is wrong.
    #[test]
    fn a_peer_writes_anything(
        writes in proptest::collection::vec((0usize..8192, any::<u32>(), 0usize..4), 1..60),
    ) {
        hostile(&writes);
    }
}

/// See [`a_peer_writes_anything`]. The words that the others read most are aimed at.
fn hostile(writes: &[(usize, u32, usize)]) {
    let (region, plan) = region(shape(3, 8, 40), &[(0, 1), (1, 2), (2, 0)]);
    let mut launcher = Seat::new(region.clone(), &plan, 0, vec![]).unwrap();
    let seat = |nf| Seat::new(region.clone(), &plan, nf, vec![]).ok();
    let (mut a, mut b) = (seat(1), seat(2));
    let mut arrived = Vec::new();
    for (at, value, how) in writes {
        let ring = region.ring(*at as u32 % plan.shape.rings);
        match (how, ring) {
            // Miri does not know words of two sizes in one place
            (0, _) if cfg!(miri) => {}
            (0, _) => {
                if let Some(w) = region.words().get(*at) {
                    w.store(*value, Ordering::Relaxed);
                }
            }
            (1, Some(r)) => {
                let word = at % WORDS;
                r.place(*value)[word].store(u64::from(*value) << (at % 40), Ordering::Relaxed);
            }
            (_, Some(r)) => {
                let counters = [r.tail(), r.taken(), r.head()];
                let small = counters[at % 3]
                    .load(Ordering::Relaxed)
                    .wrapping_add(value % 9);
                counters[at % 3].store(small, Ordering::Relaxed);
            }
            _ => {}
        }
        if let Some(d) = packet(&mut launcher, *value) {
            launcher.queue(0, d);
        }
        let _ = launcher.flush();
        for (nf, seat) in [(1, &mut a), (2, &mut b)] {
            match seat {
                Some(s) => {
                    let failed = s.receive(0, &mut arrived, 16).is_err();
                    for x in &mut arrived {
                        x.frame.fill(nf);
                    }
                    pass_on(s, &mut arrived, 0);
                    let failed = s.flush().is_err() || failed;
                    s.release();
                    s.tidy();
                    s.sleep(Duration::from_nanos(1), || false);
                    if failed {
                        *seat = None;
                    }
                }
                None => {
                    let back = reclaim(&region, &plan, u32::from(nf));
                    assert!(back.slots.len() <= 40);
                    launcher.reclaim(&back.slots);
                    *seat = Seat::new(region.clone(), &plan, u32::from(nf), vec![]).ok();
                }
            }
        }
        let _ = launcher.receive(0, &mut arrived, 16);
        arrived.clear();
        launcher.release();
        launcher.tidy();
        assert!(launcher.backlog(0) <= writes.len());
    }
}

#[test]
fn nothing_is_lost_between_threads_that_sleep() {
    let all: u32 = if cfg!(miri) { 300 } else { 20_000 };
    let (region, plan) = region(shape(3, 32, 256), &[(0, 1), (1, 2), (2, 0)]);
    let functions = [1, 2].map(|nf| {
        let mut seat = Seat::new(region.clone(), &plan, nf, vec![]).unwrap();
        std::thread::spawn(move || {
            let (mut done, mut arrived) = (0, Vec::new());
            while done < all {
                done += seat.receive(0, &mut arrived, 32).unwrap() as u32;
                pass_on(&mut seat, &mut arrived, 0);
                seat.flush().unwrap();
                while seat.backlog(0) > 0 {
                    std::thread::yield_now();
                    seat.flush().unwrap();
                }
                seat.release();
                seat.sleep(Duration::from_millis(50), || false);
            }
        })
    });
    let mut launcher = Seat::new(region.clone(), &plan, 0, vec![]).unwrap();
    let (mut sent, mut got, mut arrived) = (0, 0, Vec::new());
    let begun = std::time::Instant::now();
    while got < all {
        while sent < all
            && launcher.backlog(0) < 16
            && let Some(d) = packet(&mut launcher, sent)
        {
            launcher.queue(0, d);
            sent += 1;
        }
        launcher.flush().unwrap();
        launcher.receive(0, &mut arrived, 32).unwrap();
        for a in arrived.drain(..) {
            assert_eq!(number(&a), got);
            got += 1;
        }
        launcher.release();
        if launcher.backlog(0) == 0 {
            launcher.sleep(Duration::from_millis(50), || false);
        } else {
            std::thread::yield_now();
        }
    }
    for f in functions {
        f.join().unwrap();
    }
    let sleeps = |nf| {
        region
            .nf(nf)
            .map(|b| b.said().sleeps.load(Ordering::Relaxed))
    };
    // nobody has waited for a wake-up that did not come
    assert!(
        cfg!(miri) || begun.elapsed() < Duration::from_secs(20),
        "{:?} {:?}",
        sleeps(0),
        sleeps(1)
    );
}

/// One that has no room for what comes on one way lets that wait: it sleeps, unless something is there on another way.
#[test]
fn who_lets_an_input_wait_sleeps_until_another_one_has_something() {
    let (region, plan) = region(shape(2, 64, 512), &[(0, 1), (0, 1)]);
    let seat = |nf| Seat::new(region.clone(), &plan, nf, Vec::new()).unwrap();
    let (mut launcher, nf) = (seat(0), seat(1));
    let short = Duration::from_millis(1);
    let sleeps = || {
        let said = region.nf(1).unwrap().said();
        said.sleeps.load(Ordering::Relaxed)
    };
    // inputs that wait, whether something else keeps it awake; does it sleep?
    let slept = |waits: &[usize], awake: bool| {
        let before = sleeps();
        nf.sleep_despite(short, |i| waits.contains(&i), || awake);
        sleeps() - before
    };
    let mut send = |output| {
        let d = packet(&mut launcher, 1).unwrap();
        launcher.queue(output, d);
        assert_eq!(launcher.flush().unwrap(), 1);
    };
    assert_eq!((slept(&[], false), slept(&[0, 1], false)), (1, 1));
    assert_eq!((slept(&[], true), slept(&[0, 1], true)), (0, 0));
    send(0);
    assert_eq!((slept(&[], false), slept(&[1], false)), (0, 0));
    assert_eq!((slept(&[0], false), slept(&[0, 1], false)), (1, 1));
    assert_eq!(slept(&[0], true), 0);
    send(1);
    assert_eq!((slept(&[0], false), slept(&[1], false)), (0, 0));
    assert_eq!(slept(&[0, 1], false), 1);
}

#[test]
fn slots_that_are_too_many_go_home() {
    let (region, plan) = region(shape(2, 256, 400), &[(0, 1)]);
    let mut launcher = Seat::new(region.clone(), &plan, 0, vec![]).unwrap();
    let mut function = Seat::new(region, &plan, 1, vec![]).unwrap();
    let mut arrived = Vec::new();
    // more packets than there are slots in any case
    for round in 0..if cfg!(miri) { 3 } else { 20 } {
        for n in 0..200 {
            let d = packet(&mut launcher, n).unwrap_or_else(|| panic!("no slot in round {round}"));
            launcher.queue(0, d);
        }
        launcher.flush().unwrap();
        assert_eq!(function.receive(0, &mut arrived, 400).unwrap(), 200);
        // dropped
        arrived.clear();
        function.release();
        function.tidy();
        assert!(function.spare() <= SPARE_SLOTS);
        launcher.take_returns();
    }
}

#[test]
#[cfg_attr(miri, ignore = "no such system calls")]
fn memory_that_could_shrink_is_refused() {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::os::fd::AsFd;
    let fd = memfd_create("unsealed", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    nix::unistd::ftruncate(&fd, 8192).unwrap();
    assert!(onefold_nf::Memory::attach(fd.as_fd(), 8192).is_err());
    let (_, fd) = onefold_nf::Memory::create(8192, false).unwrap();
    assert!(onefold_nf::Memory::attach(fd.as_fd(), 8192).is_ok());
    assert!(onefold_nf::Memory::attach(fd.as_fd(), 8193).is_err());
    assert!(nix::unistd::ftruncate(&fd, 4096).is_err());
}
