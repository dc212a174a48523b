//! A device whose queue is full: what is beyond it is counted, and nothing waits for ever.

use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_port_interface::Interface;
use onefold_port_packet::{MIN_SLOTS, Mode, PacketPort, SLOTS};
use onefold_runtime::{Port, TRANSMIT_QUEUE_FULL};
use onefold_testing::net::Net;
use std::time::Duration;

/// Frames of 1000 bytes to send.
fn frames(n: usize) -> Vec<Pkt> {
    let mut frame = vec![0xff; 1000];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    (0..n)
        .map(|i| {
            frame[14..18].copy_from_slice(&(i as u32).to_be_bytes());
            Box::new(Packet::from_slice(&frame))
        })
        .collect()
}

#[test]
fn what_the_queue_has_no_room_for_is_counted() {
    let Some(net) = Net::new(&["a", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("b", "vb"));
    // a kilobyte a second, a burst of two frames, three kilobytes of queue
    let slow = net
        .command("a", "tc")
        .args("qdisc add dev va root tbf rate 8kbit burst 2500 limit 3500".split(' '))
        .output();
    if !slow.is_ok_and(|o| o.status.success()) {
        return onefold_testing::skip("tc cannot slow an interface down here");
    }
    let mut port = net.within("a", || {
        let va = Interface::find("va").expect("the interface");
        PacketPort::open("a", va, Mode::Ring(SLOTS)).expect("a packet socket")
    });
    port.start(false).expect("it begins");
    port.transmit(&mut frames(300), Timestamp::ZERO)
        .expect("that is no failure");
    // those that wait, if the socket keeps some, are as many as are not lost
    let lost: u64 = (port.losses().iter())
        .filter(|l| l.reason == TRANSMIT_QUEUE_FULL)
        .map(|l| l.packets)
        .sum();
    assert!(lost > 200, "{:?}, {} wait", port.losses(), port.backlog());
    assert_eq!(port.backlog(), 0);
}

#[test]
fn what_arrives_faster_than_it_is_taken_is_counted() {
    let few = fills(MIN_SLOTS);
    let more = fills(SLOTS);
    if let (Some(few), Some(more)) = (few, more) {
        // a block more at most
        assert!((64..400).contains(&few), "{few} in {MIN_SLOTS} slots");
        assert!((1000..2500).contains(&more), "{more} in {SLOTS} slots");
    }
}

/// Sends 6,000 frames to a port with so many slots that takes none meanwhile: how many it takes then. `None`: nobody is
/// root here.
fn fills(slots: u32) -> Option<u64> {
    let net = Net::new(&["a", "b"])?;
    net.pair(("a", "va"), ("b", "vb"));
    let open = |host: &str, interface: &str, mode| {
        net.within(host, || {
            let i = Interface::find(interface).expect("the interface");
            PacketPort::open(host, i, mode).expect("a packet socket")
        })
    };
    let (mut a, mut b) = (
        open("a", "va", Mode::Vectors(64)),
        open("b", "vb", Mode::Ring(slots)),
    );
    a.start(false).expect("it begins");
    b.start(true).expect("it begins");
    let mut all = frames(1000);
    for _ in 0..6 {
        a.transmit(&mut all, Timestamp::ZERO).expect("they leave");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut taken = 0;
    let mut free: Vec<Pkt> = frames(64);
    // Bound: the ring has fewer slots
    for _ in 0..10_000 {
        let mut batch = Vec::new();
        b.poll(&mut free, &mut batch, 64).expect("it receives");
        if batch.is_empty() {
            break;
        }
        taken += batch.iter().filter(|p| p.len() == 1000).count() as u64;
        free.append(&mut batch);
    }
    b.attend();
    let lost: u64 = b.losses().iter().map(|l| l.packets).sum();
    let sent = 6000 - a.losses().iter().map(|l| l.packets).sum::<u64>();
    assert!(
        taken + lost >= sent,
        "{taken} taken, {lost} lost, {sent} sent"
    );
    Some(taken)
}
