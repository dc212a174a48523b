//! ARPQuerier and IP6NDSolicitor: whatever has happened to their tables, a packet that the table knows gets what
//! `Element::push` gives it and changes nothing; what the table does not know is the element's.

use onefold_element::ElemId;
use onefold_element::model::interp::{self, Next};
use onefold_element::model::{Model, ModelCx};
use onefold_elements::model_check::asked::answered;
use onefold_elements::model_check::check::packet_difference;
use onefold_elements::testing::Bench;
use onefold_packet::wire::arp;
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp};
use proptest::prelude::*;

/// What happens.
#[derive(Debug, Clone)]
enum Step {
    /// A packet for this host.
    Packet(u8),
    /// This host has this address.
    Answer(u8, u8),
    /// Milliseconds pass.
    Wait(i64),
    Write(usize),
}

const WRITES: [(&str, &str); 4] = [
    ("insert", "10.0.0.5 2:0:0:0:9:5"),
    ("delete", "10.0.0.6"),
    ("clear", ""),
    ("broadcast", "10.0.0.7"),
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let host = proptest::sample::select(vec![4u8, 5, 6, 7, 8, 255]);
    let wait = proptest::sample::select(vec![0i64, 1, 50, 99, 100, 500, 1000, 2000, 3000, 70_000]);
    let step = prop_oneof![
        6 => host.clone().prop_map(Step::Packet),
        2 => (host, 0u8..3).prop_map(|(h, m)| Step::Answer(h, m)),
        2 => wait.prop_map(Step::Wait),
        1 => (0..WRITES.len()).prop_map(Step::Write),
    ];
    proptest::collection::vec(step, 0..60)
}

fn eth(host: u8, mac: u8) -> EtherAddr {
    EtherAddr(match mac {
        2 => [0xff; 6],
        _ => [2, 0, 0, 0, mac, host],
    })
}

fn arp_reply(host: u8, mac: u8) -> Vec<u8> {
    let eth = eth(host, mac);
    let mut f = [&[2, 0, 0, 0, 0, 1], &[2, 0, 0, 0, 0, host][..], &[8, 6]].concat();
    let me = (EtherAddr([2, 0, 0, 0, 0, 1]), [10, 0, 0, 1]);
    f.extend(arp::build(arp::REPLY, (eth, [10, 0, 0, host]), me));
    f
}

fn v4(host: u8) -> Pkt {
    let mut p = Packet::from_slice(&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4]);
    p.set_network_header(0, 20);
    let to = if host == 8 {
        [224, 0, 0, 8]
    } else {
        [10, 0, 0, host]
    };
    p.anno.set_dst_ip(to);
    Box::new(p)
}

fn v6(host: u8) -> Pkt {
    let mut p = Packet::from_slice(&[0x60; 44]);
    p.set_network_header(0, 40);
    p.anno.set_dst_ip6(address(host));
    Box::new(p)
}

fn address(host: u8) -> [u8; 16] {
    let mut a = [0; 16];
    (a[0], a[1], a[15]) = (0x20, 1, host);
    a
}

/// An advertisement with a checksum that is right.
fn advertisement(host: u8, mac: u8) -> Vec<u8> {
    let mut m = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    m.extend(address(host));
    m.extend([2, 1]);
    m.extend(eth(host, mac.min(1)).0);
    let (src, dst) = (address(host), address(1));
    let sum = onefold_packet::checksum::pseudo_v6(&src, &dst, 58, 32);
    let sum = !onefold_packet::checksum::fold(onefold_packet::checksum::sum(&m, sum));
    m[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, host, 0x86, 0xdd];
    f.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
    f.extend(src);
    f.extend(dst);
    f.extend(m);
    f
}

/// How many packets went by the model.
fn check(
    mut b: Bench,
    packet: fn(u8) -> Pkt,
    answer: fn(u8, u8) -> Vec<u8>,
    steps: Vec<Step>,
) -> Result<usize, TestCaseError> {
    let (mut known, last) = (0, b.now);
    for (id, after) in b.element.initial_timers() {
        b.host.timers.insert(id, last + after);
    }
    for step in steps {
        match step {
            Step::Wait(ms) => {
                let to = b.now + Timestamp::from_millis(ms);
                b.advance_to(to);
            }
            Step::Write(i) => {
                let _ = b.write(WRITES[i].0, WRITES[i].1);
            }
            Step::Answer(host, mac) => {
                b.push(1, &answer(host, mac));
            }
            Step::Packet(host) => {
                let cx = ModelCx {
                    elem: ElemId(0),
                    ninputs: 2,
                    noutputs: 2,
                    store: &b.store,
                };
                let model = b.element.model(0, &cx);
                prop_assert!(matches!(model, Model::Cases(_)));
                let p = packet(host);
                let model = answered(&model, &p, &b.store, b.now);
                let said = interp::apply(&model, p.clone(), 2, b.now).unwrap();
                let before = b.store.summaries();
                let out = b.push_packet(0, p);
                if said.next != Next::Done {
                    continue;
                }
                known += 1;
                prop_assert_eq!(out.len(), said.emitted.len());
                for ((to, got), (want_to, want)) in out.iter().zip(&said.emitted) {
                    prop_assert_eq!(to, want_to);
                    prop_assert_eq!(packet_difference(got, want), None);
                }
                prop_assert_eq!(before, b.store.summaries(), "nothing else happens");
            }
        }
    }
    Ok(known)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn arp_querier(steps in steps(), keywords in proptest::sample::select(vec![
        "", ", TIMEOUT 2, POLL_TIMEOUT 1", ", ENTRY_CAPACITY 2", ", CAPACITY 2, POLL_TIMEOUT 0",
    ])) {
        let config = format!("10.0.0.1/24, 2:0:0:0:0:1{keywords}");
        check(Bench::new("ARPQuerier", &config, 2, 2).unwrap(), v4, arp_reply, steps)?;
    }

    #[test]
    fn neighbor_solicitor(steps in steps()) {
        let b = Bench::new("IP6NDSolicitor", "2001::1, 2:0:0:0:0:1", 2, 2).unwrap();
        check(b, v6, advertisement, steps)?;
    }
}

/// The property is about something: packets of known neighbours go by the model.
#[test]
fn known_neighbours_go_by_the_model() {
    let steps = |n| {
        let packets = std::iter::repeat_n(Step::Packet(5), n);
        std::iter::once(Step::Packet(5))
            .chain([Step::Answer(5, 1)])
            .chain(packets)
            .collect::<Vec<_>>()
    };
    let b = Bench::new("ARPQuerier", "10.0.0.1/24, 2:0:0:0:0:1", 2, 2).unwrap();
    assert_eq!(check(b, v4, arp_reply, steps(7)).unwrap(), 7);
    let b = Bench::new("IP6NDSolicitor", "2001::1, 2:0:0:0:0:1", 2, 2).unwrap();
    assert_eq!(check(b, v6, advertisement, steps(7)).unwrap(), 7);
}
