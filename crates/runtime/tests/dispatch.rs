//! Several workers: nothing is lost, made twice or put out of order between ports and workers, and fragments that come
//! to several queues meet.

use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_partition::{Hash, Partition, Pool, PortRule, slice_of};
use onefold_runtime::{
    Dispatcher, Ending, Entrance, Polling, Port, PortError, Queues, Rhythm, RingPort,
};
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A port whose packets are given in the beginning, and which keeps what leaves.
#[derive(Default, Clone)]
struct Given {
    there: Arc<Mutex<VecDeque<Vec<u8>>>>,
    left: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Port for Given {
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}
    fn is_live(&self) -> bool {
        true
    }
    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let mut there = self.there.lock().unwrap();
        let n = n.min(there.len());
        for frame in there.drain(..n) {
            let mut p = free.pop().expect("as many buffers as packets");
            p.refill(&frame);
            batch.push(p);
        }
        Ok(())
    }
    fn transmit(&mut self, packets: &mut Vec<Pkt>, _: Timestamp) -> Result<(), PortError> {
        let frames = packets.iter().map(|p| p.data().to_vec());
        self.left.lock().unwrap().extend(frames);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// An IPv4 packet of UDP with a number in its payload; `place`: flags and offset of a fragment.
fn udp(from: u32, to: Ipv4Addr, ports: (u16, u16), place: u16, number: u32) -> Vec<u8> {
    let mut f = vec![2; 12];
    f.extend([8, 0, 0x45, 0, 0, 32, 0, 9]);
    f.extend(place.to_be_bytes());
    f.extend([64, 17, 0, 0]);
    f.extend(from.to_be_bytes());
    f.extend(to.octets());
    f.extend(ports.0.to_be_bytes());
    f.extend(ports.1.to_be_bytes());
    f.extend([0, 12, 0, 0]);
    f.extend(number.to_be_bytes());
    f
}

fn number(f: &[u8]) -> u32 {
    u32::from_be_bytes(*f.last_chunk().unwrap())
}

fn fresh(n: usize) -> Vec<Pkt> {
    (0..n)
        .map(|_| Box::new(Packet::from_slice(&[])) as Pkt)
        .collect()
}

/// What a worker does that sends everything back: with few buffers, which it gets back for those that it gives away.
fn worker(mut port: impl Port, ending: &Ending, polls: usize) -> usize {
    let (mut free, mut batch, mut most) = (fresh(64), Vec::new(), 0);
    loop {
        let over = ending.is_over();
        if free.len() < 32 {
            let missing = 32 - free.len();
            free.extend(fresh(missing));
        }
        port.poll(&mut free, &mut batch, polls).unwrap();
        if batch.is_empty() {
            if over {
                return most;
            }
            std::thread::yield_now();
        } else {
            // queues lose what finds them full; this test wants none lost
            while !batch.is_empty() {
                let n = batch.len().min(8);
                let mut some: Vec<Pkt> = batch.drain(..n).collect();
                port.transmit(&mut some, Timestamp::ZERO).unwrap();
                assert!(some.is_empty(), "the dispatcher keeps up");
            }
        }
        most = most.max(free.len());
    }
}

#[test]
fn a_dispatcher_keeps_order_and_loses_nothing() {
    const ALL: u32 = 20_000;
    let given = Given::default();
    let frame = |i: u32| udp(i % 97, Ipv4Addr::new(9, 9, 9, 9), (1, 2), 0, i);
    let partition = Partition::new(3, 1, vec![PortRule::default()]);
    let entrance = Entrance {
        name: "p".into(),
        at: 0,
        receives: true,
        port: Box::new(given.clone()),
    };
    let check = (&partition.clone(), true);
    let (mut d, ports) = Dispatcher::new(vec![entrance], partition, check, 32).unwrap();
    let ending = Arc::new(Ending::new(1, 0));
    let threads: Vec<_> = ports.into_iter().flatten().collect();
    assert_eq!(threads.len(), 3);
    let threads: Vec<_> = (threads.into_iter())
        .map(|p| {
            let ending = Arc::clone(&ending);
            std::thread::spawn(move || worker(p, &ending, 16))
        })
        .collect();
    d.start().unwrap();
    let mut rhythm = Rhythm::new(Polling::Interrupt);
    let mut next = 0;
    while d.counts().sent < u64::from(ALL) {
        // not more under way than queues have room for
        while next < ALL && u64::from(next) < d.counts().sent + 512 {
            given.there.lock().unwrap().push_back(frame(next));
            next += 1;
        }
        let moved = d.send().unwrap() + d.receive(usize::MAX).unwrap();
        if moved == 0 {
            rhythm.idle();
            std::thread::yield_now();
        }
    }
    ending.stopped();
    for t in threads {
        // buffers go back to where packets come from
        assert!(t.join().unwrap() < 2048);
    }
    let c = d.counts();
    assert_eq!((c.received, c.dispatched, c.dropped), (20_000, 20_000, 0));
    let mut last: HashMap<u32, u32> = HashMap::new();
    let left = given.left.lock().unwrap();
    assert_eq!(left.len(), ALL as usize);
    for f in left.iter() {
        let n = number(f);
        assert_eq!(*f, frame(n));
        let before = last.insert(n % 97, n);
        assert!(before.is_none_or(|b| b < n), "the order within a flow");
    }
    assert!(d.reports()[0].losses.is_empty());
}

/// A dispatcher whose workers do nothing, with 10,000 packets of one flow each at its port for so many hosts.
fn dispatcher(workers: usize, hosts: u32) -> (Dispatcher, Vec<Vec<RingPort>>, Given) {
    let given = Given::default();
    let frames =
        (0..10_000 * hosts).map(|i| udp(i % hosts, Ipv4Addr::new(9, 9, 9, 9), (1, 2), 0, i));
    given.there.lock().unwrap().extend(frames);
    let partition = Partition::new(workers, 1, vec![PortRule::default()]);
    let entrance = Entrance {
        name: "p".into(),
        at: 0,
        receives: true,
        port: Box::new(given.clone()),
    };
    let check = (&partition.clone(), true);
    let (d, ports) = Dispatcher::new(vec![entrance], partition, check, 256).unwrap();
    (d, ports, given)
}

#[test]
fn what_finds_a_workers_queue_full_waits_and_then_is_counted() {
    let (mut d, _ports, given) = dispatcher(2, 1);
    while d.receive(usize::MAX).unwrap() > 0 {}
    let c = d.counts();
    assert_eq!((c.received, c.dispatched, c.dropped), (8192, 8192, 0));
    assert!(d.is_waiting() && given.there.lock().unwrap().len() == 1808);
    // the other worker has room: its packets are not kept waiting for ever
    while !given.there.lock().unwrap().is_empty() {
        if d.receive(usize::MAX).unwrap() == 0 {
            d.wait().unwrap();
        }
    }
    let c = d.counts();
    assert_eq!((c.received, c.dispatched, c.dropped), (10_000, 8192, 1808));
    assert!(c.waited >= Duration::from_millis(100), "{:?}", c.waited);
    let lost = &d.reports()[0].losses;
    assert_eq!(
        (lost[0].reason, lost[0].packets),
        ("worker's queue full", 1808)
    );
}

#[test]
fn while_no_worker_has_room_packets_stay_with_their_port() {
    let (mut d, mut ports, given) = dispatcher(2, 8);
    let most = Instant::now() + Duration::from_millis(500);
    let mut slept = 0;
    while Instant::now() < most {
        // each has got what the other one lacks at times
        if d.receive(usize::MAX).unwrap() == 0 {
            d.wait().unwrap();
            slept += 1;
        }
    }
    let (before, left) = (d.counts(), given.there.lock().unwrap().len());
    assert!(slept < 2_000, "it sleeps meanwhile");
    assert_eq!(before.received as usize + left, 80_000);
    assert!(left > 0 && d.is_waiting(), "{before:?}");
    // as soon as they have taken some, more comes
    let mut batch = Vec::new();
    for port in ports.iter_mut().flatten() {
        port.poll(&mut Vec::new(), &mut batch, 1000).unwrap();
    }
    assert_eq!(batch.len(), 2000);
    for _ in 0..3 {
        assert_eq!(d.receive(usize::MAX).unwrap(), 256);
    }
    let after = d.counts();
    assert_eq!(after.dispatched, before.dispatched + 768);
    assert_eq!(after.dropped, before.dropped);
}

/// The outside of a NAT, and what its workers' queues get: the first fragment of a datagram at one, later ones at the
/// other, replies and replies' fragments at any.
#[test]
fn what_comes_to_the_wrong_queue_is_handed_over() {
    let pool = Ipv4Addr::new(203, 0, 113, 1);
    let rule = PortRule {
        hash: Hash::Source,
        pools: vec![Pool {
            addresses: (pool, pool),
            ports: (1024, 65535),
            identifiers: (1, 65535),
            forwards: Vec::new(),
        }],
        ..PortRule::default()
    };
    let partition = Partition::new(2, 1, vec![rule]);
    let ending = Arc::new(Ending::new(2, 2));
    let queues = Queues::new(partition.clone(), true, ending, None).unwrap();
    let given = [Given::default(), Given::default()];
    let inner = given.iter().map(|g| Box::new(g.clone()) as Box<dyn Port>);
    let mut ports = queues.port(0, inner.collect(), &partition, None);
    let mut got = [Vec::new(), Vec::new()];
    // all go round until nobody has anything
    let round = |ports: &mut Vec<_>, got: &mut [Vec<Vec<u8>>; 2]| {
        for _ in 0..3 {
            for (p, got) in ports.iter_mut().zip(&mut *got) {
                let p: &mut onefold_runtime::QueuePort = p;
                let (mut free, mut batch) = (fresh(64), Vec::new());
                p.poll(&mut free, &mut batch, 64).unwrap();
                got.extend(batch.iter().map(|p| p.data().to_vec()));
            }
        }
    };
    let mut all = 0;
    for source in 0..40u32 {
        for worker in 0..2 {
            let (port, _) = slice_of((1024, 65535), worker, 2).unwrap();
            let first = udp(source, pool, (7, port), 0x2000, worker as u32);
            let later = udp(source, pool, (7, port), 0x0003, worker as u32);
            let whole = udp(source, pool, (7, port), 0, worker as u32);
            // each time at other queues
            let at = (source as usize / 2) % 2;
            let frames = [(at, first), (1 - at, later), (source as usize % 2, whole)];
            for (queue, frame) in frames {
                given[queue].there.lock().unwrap().push_back(frame);
                round(&mut ports, &mut got);
                all += 1;
            }
        }
    }
    assert_eq!(got[0].len() + got[1].len(), all);
    for (worker, got) in got.iter().enumerate() {
        assert!(got.iter().all(|f| number(f) == worker as u32));
    }
    let counts = queues.counts();
    assert_eq!(
        (counts.received(), counts.taken()),
        (all as u64, all as u64)
    );
    assert!(counts.handed_over() > all as u64 / 4);
    assert!(ports.iter().all(|p| !p.has_more()));
}
