//! How long packets have been in the chain is known behind functions that give them time stamps of their own.

use onefold_nf::{Plan, Region, Seat, Shape};
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_port_ring::Packets;
use std::sync::Arc;

/// The launcher, and two functions in line: launcher, first, second, launcher.
fn world() -> [Packets; 3] {
    let shape = Shape {
        nfs: 3,
        rings: 0,
        places: 64,
        slots: 256,
        slot_bytes: 2112,
    };
    let plan = Plan::new(shape, &[(0, 1), (1, 2), (2, 0)]).expect("a plan");
    let region = Arc::new(Region::heap(plan.shape).expect("a region"));
    [0, 1, 2].map(|me| {
        let seat = Seat::new(region.clone(), &plan, me, vec![]).expect("a place");
        let mut packets = Packets::new(seat, true, usize::MAX);
        packets.seat().tidy();
        packets
    })
}

/// Receives all there is; the packets have this time stamp then.
fn take(from: &mut Packets, at: i64) -> Vec<Pkt> {
    let mut free: Vec<Pkt> = (0..8).map(|_| Box::new(Packet::from_slice(&[]))).collect();
    let mut packets = Vec::new();
    let got = from.receive(0, (&mut free, &mut packets), 8);
    assert!(got.is_ok());
    for p in &mut packets {
        p.anno.timestamp = Timestamp(at);
    }
    packets
}

fn give(to: &mut Packets, mut packets: Vec<Pkt>) {
    to.send(0, &mut packets);
    to.flush().expect("a ring");
}

#[test]
fn packets_are_as_old_as_when_they_came_in() {
    let [mut launcher, mut first, mut second] = world();
    // rounds: slots are used again
    for round in 0..300 {
        let came = 1000 * (round + 1);
        let mut handles = Vec::new();
        launcher.handles(&mut handles, 2);
        for p in &mut handles {
            p.put(60);
            p.anno.timestamp = Timestamp(came);
        }
        give(&mut launcher, handles);
        let mut packets = take(&mut first, came + 10);
        assert_eq!(packets.len(), 2);
        // one that the first function makes, at its own time
        let mut own: Pkt = Box::new(Packet::from_slice(&[8; 60]));
        own.anno.timestamp = Timestamp(came + 20);
        packets.push(own);
        give(&mut first, packets);
        let packets = take(&mut second, came + 30);
        give(&mut second, packets);
        let packets = take(&mut launcher, came + 40);
        let ages: Vec<i64> = packets.iter().map(|p| launcher.came(p).0).collect();
        assert_eq!(ages, [came, came, came + 20]);
        drop(packets);
        for who in [&mut launcher, &mut first, &mut second] {
            who.seat().release();
            who.seat().tidy();
        }
    }
}
