//! Packets that wait for a slot are not overtaken.

use onefold_nf::{Plan, Region, Seat, Shape};
use onefold_packet::{Packet, Pkt};
use onefold_port_ring::Packets;
use std::sync::Arc;

#[test]
fn a_packet_that_finds_no_slot_is_not_overtaken() {
    let shape = Shape {
        nfs: 2,
        rings: 0,
        places: 64,
        slots: 2,
        slot_bytes: 2112,
    };
    let plan = Plan::new(shape, &[(0, 1), (1, 0)]).expect("a plan");
    let region = Arc::new(Region::heap(plan.shape).expect("a region"));
    let seat = |me| Seat::new(region.clone(), &plan, me, vec![]).expect("a place");
    let mut launcher = seat(0);
    let mut function = Packets::new(seat(1), true, usize::MAX);
    // both slots are the function's
    launcher.tidy();
    // three slots, of which there are two, and one behind it, for which there would be one
    let mut packets: Vec<Pkt> = [5000, 60]
        .map(|n| Box::new(Packet::from_slice(&vec![7; n])))
        .into();
    function.send(0, &mut packets);
    function.flush().expect("a ring");
    let mut arrived = Vec::new();
    assert_eq!(launcher.receive(0, &mut arrived, 8).expect("a ring"), 0);
    assert_eq!(function.backlog(0), 2);
    // alone, the second one would have left
    let mut alone: Vec<Pkt> = vec![Box::new(Packet::from_slice(&[7; 60]))];
    function.give_up();
    function.send(0, &mut alone);
    function.flush().expect("a ring");
    assert_eq!(launcher.receive(0, &mut arrived, 8).expect("a ring"), 1);
}
