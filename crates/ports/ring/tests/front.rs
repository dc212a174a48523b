//! What stands in front of a packet is zero in every process, whatever others have written there.

use onefold_nf::{Plan, Region, Seat, Shape};
use onefold_packet::{Packet, Pkt};
use onefold_port_ring::Packets;
use proptest::prelude::*;
use std::sync::Arc;

/// The launcher, and two functions in line: launcher, first, second, launcher.
fn world() -> [Packets; 3] {
    let shape = Shape {
        nfs: 3,
        rings: 0,
        places: 64,
        slots: 512,
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

/// Something that a function does with a packet.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Takes bytes off, once they are written over.
    Pull(usize),
    /// Adds bytes in front, which have to be zero, and writes them.
    Push(usize),
    /// Both: what it has written stays in front.
    PushAndPull(usize),
    /// A packet of its own takes its place.
    Replace,
    Write,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1usize..30).prop_map(Step::Pull),
        (1usize..90).prop_map(Step::Push),
        (1usize..60).prop_map(Step::PushAndPull),
        Just(Step::Replace),
        Just(Step::Write),
        Just(Step::Write),
    ]
}

fn take(s: Step, p: &mut Pkt) {
    match s {
        Step::Pull(n) => {
            p.data_mut().fill(7);
            p.pull(n);
        }
        Step::Push(n) => {
            p.push(n);
            p.data_mut().fill(6);
        }
        Step::PushAndPull(n) => {
            p.push(n);
            p.data_mut().fill(5);
            p.pull(n);
        }
        Step::Replace => **p = Packet::from_slice(&[4; 80]),
        Step::Write => p.data_mut().fill(3),
    }
}

/// All that waits for `to`; the handles are used again.
fn receive(to: &mut Packets, free: &mut Vec<Pkt>) -> Vec<Pkt> {
    while free.len() < 4 {
        free.push(Box::new(Packet::from_slice(&[])));
    }
    let mut packets = Vec::new();
    to.receive(0, (free, &mut packets), 4).expect("a ring");
    packets
}

proptest! {
    #[test]
    fn what_is_in_front_of_a_packet_is_zero(
        rounds in proptest::collection::vec((step(), step()), 1..80),
    ) {
        let [mut launcher, mut first, mut second] = world();
        let mut free: [Vec<Pkt>; 3] = Default::default();
        // slots are used again, with what the last packet has left in them
        for (a, b) in rounds {
            let mut made = Vec::new();
            launcher.handles(&mut made, 2);
            for p in &mut made {
                prop_assert!(p.headroom_bytes().iter().all(|b| *b == 0));
                p.put(100);
                p.data_mut().fill(1);
            }
            launcher.send(0, &mut made);
            launcher.flush().expect("a ring");
            let all = [
                (&mut first, Some(a)),
                (&mut second, Some(b)),
                (&mut launcher, None),
            ];
            for ((who, s), free) in all.into_iter().zip(&mut free) {
                let mut packets = receive(who, free);
                prop_assert_eq!(packets.len(), 2);
                for p in &mut packets {
                    prop_assert!(p.headroom_bytes().iter().all(|b| *b == 0));
                    if let Some(s) = s {
                        take(s, p);
                    }
                }
                match s {
                    Some(_) => {
                        who.send(0, &mut packets);
                        who.flush().expect("a ring");
                    }
                    None => packets.iter_mut().for_each(|p| drop(p.detach())),
                }
                free.append(&mut packets);
                who.seat().release();
                who.seat().tidy();
            }
        }
    }
}
