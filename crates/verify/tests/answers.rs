//! What two lists do differently, and whether packets get through one: held against all packets of a small space.

use crate::lists_of_rules;
use crate::small;

use lists_of_rules::{Packet, list, packets, rule};
use onefold_element::model::ValueSet;
use onefold_engine::Graph;
use onefold_synth::{Budget, Program, synthesize};
use onefold_verify::Rng;
use onefold_verify::answers::ask::{Answer, Field, Question, ask};
use onefold_verify::answers::differ::{Compared, differences, leaves};
use onefold_verify::generate::Port;
use onefold_verify::generate::read::Seen;
use small::{graph, ports};

const SEED: u64 = 0xd1f;
const LISTS: usize = 200;

/// A chain that is one list: from `lan` to `wan`.
struct Chain {
    graph: Graph,
    program: Program,
    ports: Vec<Port>,
}

impl Chain {
    fn of(rules: &[String]) -> Chain {
        let text = format!(
            "FromDevice(lan) -> Strip(14) -> CheckIPHeader -> rules :: IPFilter({}) -> Unstrip(14) -> ToDevice(wan);",
            rules.join(", ")
        );
        let graph = graph(&text);
        let program = synthesize(&graph.synthesis_input(), Budget::default());
        let ports = ports(&graph).to_vec();
        Chain {
            graph,
            program,
            ports,
        }
    }
    fn compared(&self) -> Compared<'_> {
        Compared {
            graph: &self.graph,
            program: &self.program,
            ports: &self.ports,
        }
    }
    fn entry(&self) -> String {
        let p = self.ports.iter().find(|p| p.source.is_some());
        p.unwrap().name.clone()
    }
    fn exit(&self) -> String {
        let p = self.ports.iter().find(|p| !p.sinks.is_empty());
        p.unwrap().name.clone()
    }
    /// Does each of these leave?
    fn passes(&self, all: &[Packet]) -> Vec<bool> {
        let mut g = self.graph.fork();
        let source = self.ports.iter().find_map(|p| p.source).unwrap();
        let one = |p: &Packet| {
            g.inject(
                source,
                &frame(p),
                onefold_packet::Timestamp::from_secs(1_000),
            );
            let mut n = 0;
            g.drain_transmitted(|_, _| n += 1);
            n > 0
        };
        all.iter().map(one).collect()
    }
}

fn frame(p: &Packet) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &p.bytes].concat()
}

/// Two hundred pairs of lists, the new one made of the old one by a few changes: what is told is what there is.
#[test]
fn what_lists_do_differently_is_told_and_nothing_else() {
    let mut rng = Rng::new(SEED);
    let packets = packets();
    let (mut same, mut different, mut open) = (0, 0, 0);
    for n in 0..LISTS {
        let old = list(&mut rng);
        let mut new = old.clone();
        for _ in 0..1 + rng.below(2) {
            match rng.below(4) {
                0 => new.insert(rng.below(new.len() + 1), rule(&mut rng)),
                1 if new.len() > 1 => {
                    new.remove(rng.below(new.len()));
                }
                2 => {
                    let (i, j) = (rng.below(new.len()), rng.below(new.len()));
                    new.swap(i, j);
                }
                _ => {
                    let i = rng.below(new.len());
                    new[i] = rule(&mut rng);
                }
            }
        }
        let (a, b) = (Chain::of(&old), Chain::of(&new));
        let found = differences(&a.compared(), &b.compared(), &mut || true);
        let (x, y) = (a.passes(&packets), b.passes(&packets));
        let differ: Vec<&Packet> = (packets.iter().zip(x.iter().zip(&y)))
            .filter(|(_, (x, y))| x != y)
            .map(|(p, _)| p)
            .collect();
        let about = format!("pair {n}: {old:#?} {new:#?} {found:#?}");
        assert!(found.perhaps.is_empty(), "{about}");
        // later fragments are the reference graph's: of those alone it is not told that they differ, but that it is
        // not known
        let whole: Vec<&&Packet> = differ.iter().filter(|p| p.fragment != 1).collect();
        assert_eq!(
            found.changes.is_empty(),
            whole.is_empty(),
            "{about} {whole:?}"
        );
        match (found.none(), differ.is_empty()) {
            // what ends within a transport header is not among these packets
            (false, true) => open += 1,
            (none, is) => assert_eq!(none, is, "{about}"),
        }
        for c in &found.changes {
            let f = c.frame.as_ref().unwrap();
            let (entry, other) = (a.entry(), b.entry());
            assert_ne!(
                leaves(&a.compared(), &entry, f),
                leaves(&b.compared(), &other, f),
                "{about}"
            );
        }
        for p in whole {
            let seen = Seen::arrive(&frame(p), 0);
            let all = found.changes.iter().flat_map(|c| &c.filters);
            assert!(
                all.into_iter().any(|f| seen.fits(f).is_ok()),
                "{about} {p:?}"
            );
        }
        match differ.is_empty() {
            true => same += 1,
            false => different += 1,
        }
    }
    assert!(
        same > 20 && different > 60 && open < 10,
        "{same} {different} {open}"
    );
}

/// Two hundred lists, each asked about some addresses, protocols and ports.
#[test]
fn what_gets_through_is_known() {
    let mut rng = Rng::new(SEED + 1);
    let packets = packets();
    let (mut yes, mut no) = (0, 0);
    for n in 0..LISTS {
        let rules = list(&mut rng);
        let c = Chain::of(&rules);
        let passes = c.passes(&packets);
        let net = |rng: &mut Rng, n: u8| {
            let (bits, host) = (30 + rng.below(3) as u8, rng.below(5) as u128);
            ValueSet::prefix(
                u128::from(u32::from_be_bytes([10, 0, n, 0])) | host,
                bits,
                32,
            )
        };
        let (src, dst) = (net(&mut rng, 1), net(&mut rng, 2));
        let proto = [6u128, 17][rng.below(2)];
        let port = 79 + rng.below(5) as u128;
        let q = Question {
            six: false,
            from: vec![c.entry()],
            to: vec![c.exit()],
            sent: vec![
                (Field::Source, src.clone()),
                (Field::Protocol, ValueSet::one(proto)),
                (Field::DestinationPort, ValueSet::one(port)),
            ],
            delivered: vec![(Field::Destination, dst.clone())],
        };
        let address = |n: u8, host: u8| u128::from(u32::from_be_bytes([10, 0, n, host]));
        let fits = |p: &Packet| {
            p.fragment == 0
                && src.contains(address(1, p.src))
                && dst.contains(address(2, p.dst))
                && u128::from(p.proto) == proto
                && u128::from(p.port) == port
        };
        let any = packets
            .iter()
            .zip(&passes)
            .any(|(p, passes)| *passes && fits(p));
        let answered = ask(&c.compared(), &q, &mut || true);
        match &answered.answer {
            Answer::Yes { frame, out, .. } => {
                assert!(any, "list {n}: {rules:#?} {q:?} {frame:?}");
                assert!(!out.is_empty());
                yes += 1;
            }
            Answer::No { .. } => {
                assert!(!any, "list {n}: {rules:#?} {q:?}");
                no += 1;
            }
            Answer::Unknown(why) => panic!("list {n}: {rules:#?} {q:?} {why:?}"),
        }
        assert!(!answered.state);
    }
    assert!(yes > 40 && no > 40, "{yes} {no}");
}
