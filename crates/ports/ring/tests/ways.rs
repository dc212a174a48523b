//! A function on two ways, one of which is full, goes on with the other one.

use onefold_nf::{Arrived, Plan, Region, Seat, Shape};
use onefold_packet::{Packet, Pkt};
use onefold_port_ring::{Packets, RingPort, Shared, lock};
use onefold_runtime::Port;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Rings of 4 places: launcher to function by 0 and 1, function to launcher by 2 and 3.
fn world() -> (Seat, Shared) {
    let shape = Shape {
        nfs: 2,
        rings: 0,
        places: 4,
        slots: 256,
        slot_bytes: 2112,
    };
    let links = [(0, 1), (0, 1), (1, 0), (1, 0)];
    let plan = Plan::new(shape, &links).expect("a plan");
    let region = Arc::new(Region::heap(plan.shape).expect("a region"));
    let seat = |me| Seat::new(region.clone(), &plan, me, vec![]).expect("a place");
    let function = Packets::new(seat(1), false, usize::MAX);
    (seat(0), Arc::new(Mutex::new(function)))
}

/// So many packets come for the function by an input.
fn put(launcher: &mut Seat, output: usize, n: usize) {
    for _ in 0..n {
        let frame = launcher.take_slot().expect("a slot");
        let d = launcher.describe(frame, 128, 60).expect("a packet");
        launcher.queue(output, d);
    }
    launcher.flush().expect("a ring");
}

/// The function takes what comes by this port, and sends it on by its output. How many.
fn pass(port: &mut RingPort) -> usize {
    let mut free: Vec<Pkt> = (0..8).map(|_| Box::new(Packet::from_slice(&[]))).collect();
    let mut batch = Vec::new();
    port.poll(&mut free, &mut batch, 4).expect("a ring");
    let n = batch.len();
    port.transmit(&mut batch, onefold_packet::Timestamp(1))
        .expect("a ring");
    n
}

/// It sleeps while one way waits for room, and hears what comes by the other one.
#[test]
fn who_waits_for_room_on_one_way_is_woken_by_the_other() {
    let (mut launcher, shared) = world();
    let port = |at| RingPort::new("p", shared.clone(), (Some(at), Some(at)), true);
    let mut ports = [port(0), port(1)];
    let long = Duration::from_secs(20);
    assert!(!lock(&shared).sleep_by_way(long, || false), "nothing waits");
    for _ in 0..3 {
        put(&mut launcher, 0, 4);
        pass(&mut ports[0]);
        let mut all = lock(&shared);
        all.flush().expect("a ring");
        all.seat().release();
    }
    assert!(lock(&shared).is_blocked());
    lock(&shared).wait_by_way(Instant::now());
    // more for the way that waits: it need not look
    put(&mut launcher, 0, 2);
    let begun = Instant::now();
    assert!(lock(&shared).sleep_by_way(Duration::from_millis(30), || false));
    assert!(begun.elapsed() >= Duration::from_millis(30));
    assert!(lock(&shared).sleep_by_way(long, || true));
    let function = shared.clone();
    let sleeper = std::thread::spawn(move || lock(&function).sleep_by_way(long, || false));
    std::thread::sleep(Duration::from_millis(20));
    put(&mut launcher, 1, 1);
    assert!(sleeper.join().expect("a thread"));
    assert!(begun.elapsed() < long);
    assert_eq!(pass(&mut ports[1]), 1);
}

#[test]
fn what_leads_to_a_full_ring_waits_and_the_rest_goes_on() {
    let (mut launcher, shared) = world();
    let port = |at| RingPort::new("p", shared.clone(), (Some(at), Some(at)), true);
    let mut ports = [port(0), port(1)];
    let mut arrived: Vec<Arrived> = Vec::new();
    let begun = Instant::now();
    let after = |shared: &Shared, ms| {
        let mut all = lock(shared);
        all.flush().expect("a ring");
        match all.is_blocked() {
            true => all.wait_by_way(begun + Duration::from_millis(ms)),
            false => all.open(),
        }
        all.seat().release();
    };
    // nobody takes anything out of the first way's ring of four
    put(&mut launcher, 0, 4);
    assert_eq!(pass(&mut ports[0]), 4);
    after(&shared, 0);
    put(&mut launcher, 0, 4);
    assert_eq!(pass(&mut ports[0]), 4);
    after(&shared, 0);
    assert_eq!(lock(&shared).backlog(0), 4);
    put(&mut launcher, 0, 2);
    put(&mut launcher, 1, 2);
    assert_eq!([0, 1].map(|i| pass(&mut ports[i])), [0, 2]);
    after(&shared, 1);
    assert_eq!(launcher.receive(1, &mut arrived, 8).expect("a ring"), 2);
    // there is room again
    assert_eq!(launcher.receive(0, &mut arrived, 8).expect("a ring"), 4);
    launcher.release();
    arrived.clear();
    after(&shared, 2);
    assert_eq!(lock(&shared).backlog(0), 0);
    assert_eq!(pass(&mut ports[0]), 2);
    after(&shared, 2);
    assert_eq!(lock(&shared).backlog(0), 2);
    // and none for too long
    after(&shared, 30);
    let all = lock(&shared);
    assert_eq!((all.backlog(0), all.counts().lost), (0, 2));
}
