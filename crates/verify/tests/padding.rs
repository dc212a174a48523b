//! What stands behind the IP packet in a frame does not get through a chain that cuts it off, at any level: also where
//! a VLAN tag is in front of the IP header.

use onefold_chain::Reader;
use onefold_element::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_synth::{Budget, synthesize};
use onefold_verify::{Event, Flow, Pair, Reference, Subject, Synthesized};
use std::path::Path;

/// Packets of clients that nobody serves turn back at the router and leave with their tag again (random chain 1834).
const CHAIN: &str = "functions:
  router:
    router:
      interfaces:
        - { address: 10.0.0.1/8, mac: '02:00:00:00:00:00', gateway-mac: '02:00:00:00:ff:00' }
        - { address: 192.0.2.1/30, mac: '02:00:00:00:00:01', gateway-mac: '02:00:00:00:01:00', mtu: 1280 }
      routes: [ default via 192.0.2.2, 10.0.0.0/8 via 10.0.0.253 ]
      redirects: false
  lb:
    load-balancer:
      address: 198.18.0.80
      policy: source-hash
      servers: [ { address: 172.16.3.2 }, { address: 172.16.3.3 } ]
      decrement-ttl: true
      encap-clients: { mac: '02:00:00:00:e2:00', next-hop: '02:00:00:00:00:01' }
  tag:
    vlan: { id: 446, priority: 4 }
links:
  - 'router[1] <-> [0]lb'
  - 'lb[1] <-> [0]tag'
ports:
  left: router[0]
  right: tag[1]
";

#[test]
fn padding_behind_a_vlan_tag_is_cut_off_at_every_level() {
    let mut reader = Reader::new(Path::new("."));
    let chain = onefold_chain::load_text(CHAIN, "chain.yaml", &[], &mut reader).unwrap();
    let options = BuildOptions {
        start: Timestamp::from_secs(1000),
        ..Default::default()
    };
    let g = Graph::build(chain.graph.clone(), &options).unwrap();
    let source = ElemId(chain.ports[1].source.unwrap() as u32);
    let mut frame = vec![0; 12];
    frame.extend([0x81, 0, 0x01, 0xbe, 8, 0]);
    frame.extend([
        0x45, 0, 0, 20, 0, 0, 0x40, 0, 64, 47, 0x6a, 0xbb, 10, 0, 0, 0, 198, 0, 0, 0,
    ]);
    frame.resize(68, 0);
    let program = synthesize(&g.synthesis_input(), Budget::default());
    let runner = || ProgramRunner::with_program(g.fork(), &program).unwrap();
    let others: Vec<(Box<dyn Subject>, usize)> = vec![
        (Box::new(Synthesized(runner())), 1),
        (Box::new(Flow::new(runner(), 1024)), 1),
        (Box::new(Flow::new(runner(), 1024)), 64),
    ];
    for (other, batch) in others {
        let name = other.name();
        let mut pair = Pair::new(Box::new(Reference(g.fork())), other, batch);
        for n in 0..100 {
            let mut e = Event::frame(Timestamp::from_secs(1000), source, frame.clone());
            e.joined = n % 20 != 0;
            let difference = pair.step(&e);
            assert!(difference.is_none(), "{name}, packet {n}: {difference:?}");
        }
    }
}
