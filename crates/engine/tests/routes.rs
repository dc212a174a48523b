//! Large route tables: look-ups against a naive longest-prefix match, and routes that change under traffic, in the reference graph,
//! the program and the flow table.

#[path = "support/table.rs"]
mod table;

use onefold_element::ElemId;
use onefold_element::model::RouteWhat;
use onefold_elements::routing::table::HeldRoutes;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, synthesize};
use table::{Naive, Rng, Route, address, frame, made_up, router};

const PORTS: u32 = 4;

fn build(routes: &[Route]) -> Graph {
    let text = router(routes, PORTS);
    let limits = Default::default();
    let flat = onefold_click::load(text.as_bytes(), "router.click", &[], &limits).unwrap();
    Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap()
}

/// The same graph three times: as it is, with a program, with a flow table in front of the program.
struct Three {
    reference: Graph,
    program: ProgramRunner,
    flow: FlowRunner,
    now: Timestamp,
}

type Left = Vec<(String, Vec<u8>)>;

impl Three {
    fn new(routes: &[Route]) -> Three {
        Three::of(build(routes))
    }

    fn of(graph: Graph) -> Three {
        let program = synthesize(&graph.synthesis_input(), Budget::default());
        let runner = ProgramRunner::with_program(graph.fork(), &program).unwrap();
        Three {
            reference: graph,
            flow: FlowRunner::new(runner.fork(), 4096),
            program: runner,
            now: Timestamp::from_secs(1),
        }
    }

    fn write(&mut self, handler: &str, value: &str) {
        self.reference.write_handler(handler, value).unwrap();
        self.program
            .graph_mut()
            .write_handler(handler, value)
            .unwrap();
        self.flow.graph_mut().write_handler(handler, value).unwrap();
        assert!(
            !self.program.needs_synthesis(),
            "{handler} {value}: the program is still the graph's"
        );
    }

    /// Frames in one batch; what left, in order: the same everywhere.
    fn batch(&mut self, frames: &[Vec<u8>]) -> Left {
        self.now = Timestamp(self.now.0 + 1000);
        let at = self.now;
        let source = self.reference.source("in").unwrap();
        let names: Vec<String> = (0..self.reference.len())
            .map(|i| self.reference.spec().elements[i].name.clone())
            .collect();
        let seen = |e: ElemId, p: &Pkt| (names[e.0 as usize].clone(), p.data().to_vec());
        let mut want = Left::new();
        for f in frames {
            self.reference.inject(source, f, at);
        }
        self.reference
            .drain_transmitted(|e, p| want.push(seen(e, p)));
        let mut batches: [Vec<Pkt>; 2] = Default::default();
        for f in frames {
            batches[0].push(self.program.graph_mut().make_packet(f));
            batches[1].push(self.flow.make_packet(f));
        }
        for p in batches.iter_mut().flatten() {
            p.anno.timestamp = at;
        }
        let (mut got, mut fast) = (Left::new(), Left::new());
        self.program.inject_batch(source, &mut batches[0], at);
        self.program
            .graph_mut()
            .drain_transmitted(|e, p| got.push(seen(e, p)));
        self.flow.inject_batch(source, &mut batches[1], at);
        self.flow.drain_transmitted(|e, p| fast.push(seen(e, p)));
        assert_eq!(want, got, "the program");
        assert_eq!(want, fast, "the flow table");
        want
    }
}

/// 10^6 random addresses, half of them IPv6, through the table that program and elements look up in.
#[test]
fn a_large_table_answers_like_a_naive_one() {
    let mut r = Rng(0x5eed);
    let mut routes = made_up(100_000, 20_000, PORTS, &mut r);
    let mut naive = Naive::new(&routes);
    let mut graph = build(&routes);
    let ids = ["rt", "rt6"].map(|n| graph.find(n).unwrap());
    let split = routes.partition_point(|r| !r.v6);
    for round in 0..10 {
        let held = ids.map(|e| HeldRoutes::of(graph.store(), e).unwrap());
        for i in 0..100_000 {
            let v6 = i % 2 == 1;
            let of = if v6 {
                &routes[split..]
            } else {
                &routes[..split]
            };
            let a = address(of, v6, &mut r);
            let key = if v6 { a } else { a >> 96 };
            let got = &held[usize::from(v6)];
            let port = got.ask(RouteWhat::Output, key);
            let hop = got.ask(RouteWhat::NextHop, key);
            match naive.lookup(v6, a) {
                None => assert_eq!((port, hop), (u128::from(u32::MAX), key), "{a:x}"),
                Some((p, h)) => {
                    let h = if v6 { h } else { h >> 96 };
                    assert_eq!((port, hop), (p.into(), h), "{a:x}");
                }
            }
        }
        drop(held);
        // some routes go, some change
        for i in 0..500 {
            let k = r.below(routes.len() as u64) as usize;
            let (elem, old) = (if routes[k].v6 { "rt6" } else { "rt" }, routes[k]);
            if i % 2 == 0 {
                // a route that has gone before is no error to IPv6's element, and one to the other
                let _ = graph.write_handler(&format!("{elem}.remove"), &old.prefix());
                naive.remove(&old);
            } else {
                let new = Route::to(old.v6, old.addr, old.len, PORTS, round + 1);
                let set = if old.v6 { "add" } else { "set" };
                graph
                    .write_handler(&format!("{elem}.{set}"), &new.text())
                    .unwrap();
                naive.set(new);
                routes[k] = new;
            }
        }
    }
}

/// Routes change between batches of packets: every packet leaves where the reference graph sends it, and that is where the naive
/// look-up says; none is missing; the program stays.
#[test]
fn routes_change_under_traffic() {
    let mut r = Rng(0xfeed);
    let mut routes = made_up(20_000, 6_000, PORTS, &mut r);
    let mut naive = Naive::new(&routes);
    let mut three = Three::new(&routes);
    let split = routes.partition_point(|r| !r.v6);
    let mut last: Vec<u128> = Vec::new();
    let (mut left, mut without) = (0, 0);
    for round in 0..300u64 {
        let mut frames = Vec::new();
        let mut wanted = Vec::new();
        for i in 0..40 {
            let v6 = i % 3 == 0;
            let of = if v6 {
                &routes[split..]
            } else {
                &routes[..split]
            };
            // every third one to where a route has just changed, so that flows come again
            let near = last.len() as u64;
            let a = match !v6 && near > 0 && i % 3 == 1 {
                true => last[r.below(near) as usize],
                false => address(of, v6, &mut r),
            };
            frames.push(frame(v6, a, &mut r));
            match naive.lookup(v6, a) {
                Some((p, _)) => wanted.push(p),
                None => without += 1,
            }
            if !v6 && last.len() < 64 {
                last.push(a);
            }
        }
        let out = three.batch(&frames);
        let ports: Vec<String> = out.iter().map(|l| l.0.clone()).collect();
        let wanted: Vec<String> = wanted.iter().map(|p| format!("o{p}")).collect();
        assert_eq!(ports, wanted, "round {round}");
        left += ports.len();
        // again, before anything changes: known flows
        assert_eq!(three.batch(&frames).len(), out.len());
        let a = last
            .get(r.below(last.len() as u64) as usize)
            .copied()
            .unwrap_or(0);
        match round % 3 {
            0 => {
                let new = Route::to(false, a, 25 + (round % 7) as u8, PORTS, round);
                three.write("rt.set", &new.text());
                naive.set(new);
            }
            1 => {
                let k = r.below(routes.len() as u64) as usize;
                let new = Route::to(routes[k].v6, routes[k].addr, routes[k].len, PORTS, round);
                three.write(if new.v6 { "rt6.add" } else { "rt.set" }, &new.text());
                naive.set(new);
                routes[k] = new;
            }
            _ => {
                let new = Route::to(
                    true,
                    address(&routes[split..], true, &mut r),
                    64,
                    PORTS,
                    round,
                );
                three.write("rt6.ctrl", &format!("add {}", new.text()));
                naive.set(new);
            }
        }
    }
    assert!(left > 5_000 && without > 100, "{left} {without}");
    let hits = three.flow.stats();
    assert!(hits.hits > 5_000 && hits.refused == 0, "{hits:?}");
    let punted: u64 = three.program.report().punts.iter().map(|p| p.packets).sum();
    assert_eq!(punted, 0, "{:?}", three.program.report().punts);
}

/// Addresses that are no bits of the packet as it came: constants, and what a translator has given.
#[test]
fn addresses_that_the_chain_makes() {
    let routes: Vec<String> = (0..5000u32)
        .map(|i| {
            format!(
                "10.{}.{}.0/24 {} {}",
                i >> 8,
                i & 255,
                if i % 5 == 0 { "10.0.0.77" } else { "-" },
                i % 2
            )
        })
        .collect();
    let text = format!(
        "rt :: RadixIPLookup({});
         m :: RoundRobinIPMapper(- - 10.2.0.1 - 0 1, - - 10.3.1.1 - 0 1, - - 10.4.200.9 - 0 1);
         rw :: IPRewriter(m);
         FromDevice(in) -> c :: Classifier(12/0800 23/11, 12/0800, -);
         c[0] -> Strip(14) -> CheckIPHeader -> [0] rw;
         c[1] -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.3.7.9) -> rt;
         c[2] -> Discard; rw[1] -> Discard;
         rw[0] -> rt;
         rt[0] -> StoreIPAddress(dst) -> DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> o0 :: ToDevice(out0);
         rt[1] -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:3) -> o1 :: ToDevice(out1);",
        routes.join(", ")
    );
    let flat =
        onefold_click::load(text.as_bytes(), "chain.click", &[], &Default::default()).unwrap();
    let graph = Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap();
    let mut three = Three::of(graph);
    let mut r = Rng(77);
    let mut left = [0; 2];
    for round in 0..200u64 {
        let frames: Vec<Vec<u8>> = (0..20)
            .map(|i| {
                let mut f = frame(false, u128::from(r.next()) << 64, &mut r);
                // another protocol, its header's checksum as it has to be
                if i % 4 == 0 {
                    f[23] = 47;
                    f[24..26].fill(0);
                    let sum = onefold_packet::checksum::internet(&f[14..34]);
                    f[24..26].copy_from_slice(&sum.to_be_bytes());
                }
                f
            })
            .collect();
        for (o, _) in three.batch(&frames) {
            left[usize::from(o == "o1")] += 1;
        }
        three.write(
            "rt.set",
            &format!("10.{}.{}.0/24 {}", 2 + round % 3, r.below(256), round % 2),
        );
        if round % 3 == 0 {
            three.write("rt.set", &format!("10.3.7.0/24 {}", round % 2));
        }
    }
    assert!(left[0] > 500 && left[1] > 500, "{left:?}");
}
