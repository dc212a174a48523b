//! Batches against single packets, where packets of one batch take different ways to what an element remembers.

mod small;

use onefold_elements::ElemId;
use onefold_packet::Timestamp;
use onefold_verify::{Batched, Event, Outputs, Pair, Reference, Subject};
use small::graph;

/// Two pairs of addresses: packets from outside come in by an input for each.
const PAIRS: &str = "
    rw :: IPAddrPairRewriter(pattern 203.0.113.5 - 0 1, pattern 203.0.113.7 - 0 1, pattern - 10.0.0.2 1 0,
      pattern - 10.0.1.7 1 0);
    FromDevice(lan) -> Strip(14) -> CheckIPHeader -> ci :: IPClassifier(src host 10.0.0.2, src host 10.0.1.7, -);
    ci[0] -> [0]rw; ci[1] -> [1]rw; ci[2] -> Discard;
    FromDevice(wan) -> Strip(14) -> CheckIPHeader -> co :: IPClassifier(dst host 203.0.113.5, dst host 203.0.113.7, -);
    co[0] -> [2]rw; co[1] -> [3]rw; co[2] -> Discard;
    rw[0] -> Unstrip(14) -> ToDevice(wan);
    rw[1] -> Unstrip(14) -> ToDevice(lan);";

/// From 10.0.0.2 to 203.0.113.7, and from there to 203.0.113.5: replies to the second are like the first.
const FRAMES: [&str; 2] = [
    "00000000000000000000000008004500002800000000400034cd0a000002cb0071070000000000000000000000000000000000000000",
    "00000000000000000000000008004500002800000000400002c9cb007107cb0071050000000000000000000000000000000000000000",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn outputs(s: &mut dyn Subject, source: ElemId, frames: &[&[u8]]) -> Outputs {
    let mut out = Outputs::default();
    s.inject(source, frames, Timestamp::from_secs(1000));
    s.outputs(&mut out);
    out
}

#[test]
fn packets_that_may_pass_each_other_on_the_way_to_a_memory_come_in_batches_of_their_own() {
    let g = graph(PAIRS);
    let source = g.source("wan").unwrap();
    let frames = FRAMES.map(bytes);
    let both: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    // in one batch, the second is at the rewriter first: it is right in its way, and it is not what single packets do
    let single = outputs(&mut Reference(g.fork()), source, &both);
    let batch = outputs(&mut Batched::new(g.fork()), source, &both);
    assert_eq!((single.len(), batch.len()), (2, 2));
    assert!(single.iter().any(|o| !batch.iter().any(|b| b == o)));
    let mut pair = Pair::new(
        Box::new(Reference(g.fork())),
        Box::new(Batched::new(g.fork())),
        8,
    );
    for (i, f) in frames.into_iter().enumerate() {
        let e = Event {
            joined: i > 0,
            ..Event::frame(Timestamp::from_secs(1000), source, f)
        };
        assert_eq!(pair.step(&e), None);
    }
    assert_eq!(pair.checkpoint(), None);
}

/// Sends the frames in one batch; gives what leaves one by one and in the batch, in which nothing is said to differ.
fn in_one_batch(text: &str, frames: &[Vec<u8>]) -> [Outputs; 2] {
    let g = graph(text);
    let source = g.source("wan").unwrap();
    let mut pair = Pair::new(
        Box::new(Reference(g.fork())),
        Box::new(Batched::new(g.fork())),
        8,
    );
    for (i, f) in frames.iter().enumerate() {
        let e = Event {
            joined: i > 0,
            ..Event::frame(Timestamp::from_secs(1000), source, f.clone())
        };
        assert_eq!(pair.step(&e), None);
    }
    assert_eq!(pair.checkpoint(), None);
    let all: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    [
        outputs(&mut Reference(g.fork()), source, &all),
        outputs(&mut Batched::new(g.fork()), source, &all),
    ]
}

/// Random chain 94: what has a VLAN tag takes another way than what has none, and is of another network.
#[test]
fn a_frame_with_a_tag_may_pass_one_without() {
    let ways = "FromDevice(wan) -> c :: Classifier(12/0800, -);
        c[0] -> Strip(14) -> CheckIPHeader -> Unstrip(14) -> out :: ToDevice(lan); c[1] -> out;
        FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let plain = bytes(FRAMES[0]);
    let tagged = [&plain[..12], &[0x81, 0, 0, 7], &plain[12..]].concat();
    let [single, batch] = in_one_batch(ways, &[plain.clone(), tagged.clone()]);
    let order = |o: &Outputs| o.iter().map(|(_, _, b)| b.to_vec()).collect::<Vec<_>>();
    assert_eq!(order(&single), [plain.clone(), tagged.clone()]);
    assert_eq!(order(&batch), [tagged, plain]);
}

/// Random chain 205: a packet becomes two that leave as one flow by different ways.
#[test]
fn copies_of_a_packet_may_pass_each_other() {
    let ways = "FromDevice(wan) -> t :: Tee(2);
        t[0] -> Strip(14) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out :: ToDevice(lan); t[1] -> out;
        FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let frame = bytes(FRAMES[0]);
    let mut second = frame.clone();
    second.push(7);
    let [single, batch] = in_one_batch(ways, &[frame, second]);
    let ways = |o: &Outputs| o.iter().map(|(_, _, b)| b[0]).collect::<Vec<_>>();
    assert_eq!(ways(&single), [2, 0, 2, 0]);
    assert_eq!(ways(&batch), [0, 0, 2, 2]);
}

/// Random chains 442 and 560: a redirect and the packet that it is about wait for two addresses at one ARPQuerier.
#[test]
fn copies_that_meet_at_a_memory_come_as_single_packets() {
    let text = "a :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1);
        FromDevice(wan) -> Strip(14) -> SetIPAddress(10.0.0.9) -> t :: Tee(2);
        t[0] -> SetIPAddress(10.0.0.7) -> a; t[1] -> a;
        a -> ToDevice(lan); Idle -> [1]a; FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let frame = bytes(FRAMES[0]);
    let g = graph(text);
    let source = g.source("wan").unwrap();
    let left = |s: &mut dyn Subject| {
        outputs(s, source, &[&frame]);
        s.state()
    };
    // a batch of one has them there in another order
    let single = left(&mut Reference(g.fork()));
    assert_ne!(single, left(&mut Batched::new(g.fork())));
    for together in 1..3 {
        in_one_batch(text, &vec![frame.clone(); together]);
    }
}
