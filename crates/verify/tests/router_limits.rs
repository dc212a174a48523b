//! What a router says of its own accord is limited in rate, and the same messages are sent or held back at every level:
//! by the reference graph, the program, and the program with a flow table, packet by packet and in batches.

use onefold_chain::{Reader, load_text};
use onefold_element::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::{Timestamp, checksum};
use onefold_verify::{Flow, Outputs, Reference, Subject, Synthesized};
use std::path::Path;

const CHAIN: &str = r#"
functions:
  r:
    router:
      interfaces:
        - { address: 192.168.1.1/24, address6: "2001:db8:1::1/64", mac: "02:00:00:00:00:00", gateway-mac: "02:00:00:00:01:00" }
        - { address: 192.0.2.1/30, address6: "2001:db8:2::1/64", mac: "02:00:00:00:00:01", gateway-mac: "02:00:00:00:01:01" }
      routes: [ 10.0.0.0/8 via 192.168.1.2, 198.51.100.0/24 via 192.0.2.2, "2001:db8:99::/48 via 2001:db8:2::2" ]
      icmp-rate: 50
      icmp-burst: 4
ports: { lan: "r[0]", wan: "r[1]" }
"#;

const HEAD: [u8; 12] = [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 9];

/// An IPv4 frame from a host of the first network.
fn v4(host: u8, dst: [u8; 4], ttl: u8, proto: u8, body: &[u8]) -> Vec<u8> {
    let mut p = vec![
        0x45,
        0,
        0,
        20 + body.len() as u8,
        0,
        host,
        0,
        0,
        ttl,
        proto,
        0,
        0,
    ];
    p.extend([192, 168, 1, host]);
    p.extend(dst);
    let c = checksum::internet(&p).to_be_bytes();
    p[10..12].copy_from_slice(&c);
    [&HEAD[..], &[8, 0], &p, body].concat()
}

/// An IPv6 frame; `last` is the end of the destination's address.
fn v6(host: u8, net: [u8; 2], last: u8, hops: u8) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, 12, 17, hops, 0x20, 1, 0x0d, 0xb8, 0, 1];
    p.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, host, 0x20, 1, 0x0d, 0xb8]);
    p.extend(net);
    p.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    p.extend([0x13, 0x88, 0, 99, 0, 12, 0, 1, 1, 2, 3, 4]);
    [&HEAD[..], &[0x86, 0xdd], &p].concat()
}

/// The `i`-th frame: much is said about most of them.
fn frame(i: u32) -> Vec<u8> {
    let host = 10 + (i % 7) as u8;
    let udp = [0x13, 0x88, 0, 99, 0, 12, 0, 0, 1, 2, 3, 4];
    match i * 7919 % 9 {
        // time to live, redirect, no route, nobody listens, forwarded
        0 | 1 => v4(host, [198, 51, 100, 7], 1, 17, &udp),
        2 => v4(host, [10, 1, 1, 1], 64, 17, &udp),
        3 => v4(host, [9, 9, 9, 9], 64, 17, &udp),
        4 => v4(host, [192, 168, 1, 1], 64, 17, &udp),
        5 => v4(host, [198, 51, 100, 7], 64, 17, &udp),
        6 => v6(host, [0, 0x99], 7, 1),
        7 => v6(host, [0, 7], 7, 64),
        _ => v6(host, [0, 0x99], 7, 64),
    }
}

/// ICMP messages that the router made, in their order, and all else as a set: flows may pass each other in batches.
type Seen = (Vec<(ElemId, Vec<u8>)>, Vec<(ElemId, Vec<u8>)>);

fn seen(out: &Outputs) -> Seen {
    let own = |b: &[u8]| b[14] >> 4 == 4 && b[23] == 1 || b[14] >> 4 == 6 && b[20] == 58;
    let all = out.iter().map(|(sink, _, b)| (sink, b.to_vec()));
    let (messages, mut rest): (Vec<_>, Vec<_>) = all.partition(|(_, b)| own(b));
    rest.sort();
    (messages, rest)
}

#[test]
fn the_same_messages_are_held_back_at_every_level() {
    let chain = load_text(CHAIN, "chain.yaml", &[], &mut Reader::new(Path::new(".")));
    let chain = chain.unwrap_or_else(|e| panic!("{e:?}"));
    let start = Timestamp::from_secs(1000);
    let options = BuildOptions {
        start,
        ..Default::default()
    };
    let graph = Graph::build(chain.graph.clone(), &options).unwrap_or_else(|e| panic!("{e:?}"));
    let program = onefold_synth::synthesize(&graph.synthesis_input(), Default::default());
    let runner = || ProgramRunner::with_program(graph.fork(), &program).expect("a program");
    let entry = ElemId(chain.ports[0].source.expect("an entry") as u32);
    for size in [1usize, 3, 32] {
        let mut subjects: Vec<Box<dyn Subject>> = vec![
            Box::new(Reference(graph.fork())),
            Box::new(Synthesized(runner())),
            Box::new(Flow::new(runner(), 64)),
        ];
        let (mut messages, mut at) = (0, start);
        for step in 0..600 / size as u32 {
            // between a burst at one moment and a message now and then
            at = at + Timestamp::from_millis([0, 1, 3, 40][step as usize / 4 % 4]);
            let frames: Vec<Vec<u8>> = (0..size as u32)
                .map(|i| frame(step * size as u32 + i))
                .collect();
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            let all = subjects.iter_mut().map(|s| {
                s.inject(entry, &frames, at);
                let mut out = Outputs::default();
                s.outputs(&mut out);
                seen(&out)
            });
            let all: Vec<Seen> = all.collect();
            messages += all[0].0.len();
            for (s, o) in subjects.iter().zip(&all) {
                assert_eq!(o, &all[0], "{}, batches of {size}, step {step}", s.name());
            }
        }
        let drops = subjects[0].drops();
        let held: u64 = (drops
            .iter()
            .filter(|d| d.reason == "ICMP error or redirect above the rate (icmp-rate)"))
        .map(|d| d.packets)
        .sum();
        assert!(
            messages > 20 && held > 50,
            "{messages} sent, {held} held back"
        );
        for s in &mut subjects[1..] {
            assert_eq!(s.drops(), drops, "{}", s.name());
        }
        let states: Vec<_> = subjects.iter_mut().map(|s| s.state()).collect();
        assert!(states.iter().all(|s| *s == states[0]));
    }
}
