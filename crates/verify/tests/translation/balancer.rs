//! ICMP errors through the load balancer: path MTU discovery (RFC 1191) works both ways.

use super::Rig;
use super::examples::load;
use super::packets::*;
use onefold_element::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_packet::Timestamp;
use onefold_verify::{Flow, Subject};

const UNMAPPED: &str = "ICMPRewriter: no mapping for the packet that the error is about";

fn balancer(more: &str) -> Rig {
    Rig::new(&format!(
        "load-balancer: {{ address: 198.18.0.80, servers: [ {{ address: 172.16.3.1 }}, {{ address: 172.16.3.2 }} ]{more} }}"
    ))
}

fn client() -> (Addr, u16) {
    (a("192.0.2.1"), 4000)
}
fn virtual_address() -> (Addr, u16) {
    (a("198.18.0.80"), 80)
}

const ROUTER: &str = "100.64.0.9";

#[test]
fn proved() {
    balancer("").is_proved();
    balancer(", ports: [80, 443]").is_proved();
    balancer(", ports: [80], pass-other: false").is_proved();
    for policy in ["source-hash", "maglev"] {
        balancer(&format!(", ports: [80], policy: {policy}")).is_proved();
    }
}

/// A flow stays with its server, by whichever level it goes; flows are spread, and answers find their way.
#[test]
fn by_maglev() {
    let mut r = balancer(", policy: maglev, table: 251");
    let mut servers = std::collections::BTreeMap::new();
    for sport in 4000..4060 {
        let client = (a("192.0.2.1"), sport);
        for packet in [udp, tcp] {
            let mut again = None;
            for _ in 0..3 {
                let p = r.through(0, &frame(&packet(client, virtual_address())));
                let server = flow(&p).1;
                assert_eq!(*again.get_or_insert(server), server);
                let p = r.through(1, &frame(&packet(server, client)));
                assert_eq!(flow(&p), (virtual_address(), client));
            }
            *servers.entry(again).or_insert(0) += 1;
        }
    }
    assert_eq!(servers.len(), 2);
    assert!(servers.values().all(|n| *n > 30), "{servers:?}");
}

#[test]
fn errors_about_what_servers_send() {
    for more in ["", ", ports: [80, 443]", ", ports: [80], pass-other: false"] {
        for packet in [udp, tcp] {
            let mut r = balancer(more);
            let p = r.through(0, &frame(&packet(client(), virtual_address())));
            let server = flow(&p).1;
            let reply = packet(server, client());
            let p = r.through(1, &frame(&reply));
            assert_eq!(flow(&p), (virtual_address(), client()));
            for from in [client().0, a(ROUTER)] {
                for n in [1500, 28] {
                    let e = error(from, virtual_address().0, &p, n);
                    let e = r.through(0, &frame(&e));
                    assert_eq!(ends(&e), (from, server.0));
                    assert_eq!(quoted(&e), reply[..n.min(reply.len())]);
                }
            }
        }
    }
}

#[test]
fn errors_about_what_clients_send() {
    for packet in [udp, tcp] {
        let mut r = balancer("");
        let sent = packet(client(), virtual_address());
        let p = r.through(0, &frame(&sent));
        let server = ends(&p).1;
        // a server is the virtual address, a router on the way remains what it is
        for (from, shown) in [(server, virtual_address().0), (a(ROUTER), a(ROUTER))] {
            for n in [1500, 28] {
                let e = r.through(1, &frame(&error(from, client().0, &p, n)));
                assert_eq!(ends(&e), (shown, client().0));
                assert_eq!(quoted(&e), sent[..n.min(sent.len())]);
            }
        }
    }
}

#[test]
fn each_error_goes_to_the_server_of_its_flow() {
    let mut r = balancer("");
    let mut servers = Vec::new();
    for port in 0..4 {
        let client = (client().0, 1000 + port);
        let p = r.through(0, &frame(&udp(client, virtual_address())));
        let server = flow(&p).1;
        let p = r.through(1, &frame(&udp(server, client)));
        let e = error(a(ROUTER), virtual_address().0, &p, 1500);
        let e = r.through(0, &frame(&e));
        assert_eq!(ends(&e).1, server.0);
        servers.push(server.0);
    }
    servers.sort_unstable();
    servers.dedup();
    assert_eq!(servers.len(), 2);
}

#[test]
fn errors_about_nothing_known() {
    let mut r = balancer("");
    let strange = udp(virtual_address(), client());
    let e = error(a(ROUTER), virtual_address().0, &strange, 1500);
    assert_eq!(r.lost(0, &frame(&e)), UNMAPPED);
    // other traffic passes, and so do errors about it
    let other = udp(client(), (a("172.16.3.1"), 53));
    let e = error(a("172.16.3.1"), client().0, &other, 1500);
    assert_eq!(r.through(1, &frame(&e)), e);
    let e = error(client().0, a("172.16.3.1"), &other, 1500);
    assert_eq!(r.through(0, &frame(&e)), e);
    let mut r = balancer(", pass-other: false");
    let e = error(a("172.16.3.1"), client().0, &other, 1500);
    assert_eq!(r.lost(1, &frame(&e)), UNMAPPED);
}

/// Behind a router and a translator, packets of a balanced flow, and of others, are one look-up each: nothing that is
/// asked about ICMP errors gets in their way.
#[test]
fn flows_are_remembered_behind_a_translator() {
    let (chain, graph) = load("router-nat-lb");
    let program = onefold_synth::synthesize(&graph.synthesis_input(), Default::default());
    let runner = ProgramRunner::with_program(graph.fork(), &program).unwrap();
    let mut flow = Flow::new(runner, 64);
    let source = ElemId(chain.ports[0].source.unwrap() as u32);
    let mut now = Timestamp::from_secs(1000);
    for packet in [udp, tcp] {
        for to in [virtual_address(), (a("198.18.0.99"), 80)] {
            let f = frame(&packet((a("10.0.0.9"), 4000), to));
            let before = flow.flow_stats().unwrap().hits;
            for _ in 0..10 {
                now = now + Timestamp(1_000_000);
                flow.inject(source, &[&f], now);
            }
            let hits = flow.flow_stats().unwrap().hits - before;
            assert!(hits >= 5, "{hits} hits: {:?}", flow.flow_causes());
        }
    }
}
