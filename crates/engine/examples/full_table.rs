//! A full Internet table in a router: `cargo run --release -p onefold-engine --example full_table [PREFIXES[.gz] [LOOKUPS]]`.
//!
//! Loads the prefixes into a graph of elements (450,000 IPv4 and 80,000 IPv6 ones are made up if there is no file), synthesizes, compares
//! look-ups at random addresses with a naive longest-prefix match, then changes routes between batches of packets that go through the
//! reference graph, the program and the flow table, and says how long all that took. It ends with an error at the first difference.

#[path = "../tests/support/table.rs"]
mod table;

use onefold_element::ElemId;
use onefold_element::model::RouteWhat;
use onefold_elements::routing::table::HeldRoutes;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, synthesize};
use std::error::Error;
use std::io::Read;
use std::time::{Duration, Instant};
use table::{Naive, Rng, Route, address, frame, made_up, read, router};

const PORTS: u32 = 8;
/// Routes that change, each followed by a batch.
const CHANGES: u64 = 3_000;
const BATCH: usize = 64;

fn routes(path: Option<&str>) -> Result<Vec<Route>, Box<dyn Error>> {
    let Some(path) = path else {
        return Ok(made_up(450_000, 80_000, PORTS, &mut Rng(1)));
    };
    let mut text = String::new();
    let mut file = std::fs::File::open(path)?;
    match path.ends_with(".gz") {
        true => flate2::read::GzDecoder::new(file).read_to_string(&mut text)?,
        false => file.read_to_string(&mut text)?,
    };
    Ok(read(&text, PORTS))
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut routes = routes(args.first().map(String::as_str))?;
    let lookups: u64 = args.get(1).map_or(Ok(10_000_000), |n| n.parse())?;
    routes.sort_by_key(|r| r.v6);
    let split = routes.partition_point(|r| !r.v6);
    println!("{split} IPv4 routes, {} IPv6 routes", routes.len() - split);
    let text = router(&routes, PORTS);
    let start = Instant::now();
    let flat = onefold_click::load(text.as_bytes(), "router.click", &[], &Default::default())
        .map_err(|e| format!("{e:?}"))?;
    let mut graph = Graph::build(spec_from_flat(&flat), &BuildOptions::default())
        .map_err(|e| format!("{e:?}"))?;
    let loaded = start.elapsed();
    let program = synthesize(&graph.synthesis_input(), Budget::default());
    let mut runner = ProgramRunner::with_program(graph.fork(), &program)?;
    runner.prepare();
    println!("load {loaded:.2?}, with synthesis {:.2?}", start.elapsed());

    let mut naive = Naive::new(&routes);
    let mut r = Rng(0x5eed);
    look_up(&graph, &routes, &naive, lookups, &mut r)?;

    let mut flow = FlowRunner::new(runner.fork(), 65_536);
    let source = graph.source("in").ok_or("no source")?;
    let (mut now, mut times, mut packets) = (Timestamp::from_secs(1), Vec::new(), 0u64);
    let (mut want, mut got, mut fast) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..CHANGES {
        now = Timestamp(now.0 + 1_000_000);
        let k = r.below(routes.len() as u64) as usize;
        let mut new = Route::to(routes[k].v6, routes[k].addr, routes[k].len, PORTS, n);
        if n % 3 == 0 {
            // a new prefix within an old one
            let longer = (new.len + 1 + (n % 4) as u8).min(if new.v6 { 128 } else { 32 });
            new = Route::to(
                new.v6,
                address(&routes[k..=k], new.v6, &mut r),
                longer,
                PORTS,
                n,
            );
        } else {
            routes[k] = new;
        }
        naive.set(new);
        let handler = if new.v6 { "rt6.add" } else { "rt.set" };
        graph.write_handler(handler, &new.text())?;
        flow.graph_mut().write_handler(handler, &new.text())?;
        // what a change costs a running chain: the handler, and what is looked at behind it before the next packet
        let start = Instant::now();
        runner.graph_mut().write_handler(handler, &new.text())?;
        let stale = runner.needs_synthesis();
        times.push(start.elapsed());
        if stale {
            return Err("the program is not that of the graph any more".into());
        }
        let of = if new.v6 {
            &routes[split..]
        } else {
            &routes[..split]
        };
        let frames: Vec<Vec<u8>> = (0..BATCH)
            .map(|i| {
                let near = i % 2 == 0;
                let list = if near { std::slice::from_ref(&new) } else { of };
                frame(new.v6, address(list, new.v6, &mut r), &mut r)
            })
            .collect();
        let mut batches: [Vec<Pkt>; 2] = Default::default();
        for f in &frames {
            graph.inject(source, f, now);
            batches[0].push(runner.graph_mut().make_packet(f));
            batches[1].push(flow.make_packet(f));
        }
        for p in batches.iter_mut().flatten() {
            p.anno.timestamp = now;
        }
        runner.inject_batch(source, &mut batches[0], now);
        flow.inject_batch(source, &mut batches[1], now);
        let seen = |e: ElemId, p: &Pkt| (e, p.data().to_vec());
        for l in [&mut want, &mut got, &mut fast] {
            l.clear();
        }
        graph.drain_transmitted(|e, p| want.push(seen(e, p)));
        runner
            .graph_mut()
            .drain_transmitted(|e, p| got.push(seen(e, p)));
        flow.drain_transmitted(|e, p| fast.push(seen(e, p)));
        if want != got || want != fast {
            return Err(format!("packets differ behind '{handler} {}'", new.text()).into());
        }
        packets += want.len() as u64;
    }
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{CHANGES} changes: median {:.1?}, p99 {:.1?}, max {:.1?}; {packets} packets left alike everywhere",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    match at(0.99) < Duration::from_millis(1) {
        true => Ok(()),
        false => Err("a change takes more than a millisecond".into()),
    }
}

fn look_up(
    graph: &Graph,
    routes: &[Route],
    naive: &Naive,
    lookups: u64,
    r: &mut Rng,
) -> Result<(), Box<dyn Error>> {
    let split = routes.partition_point(|r| !r.v6);
    for (v6, name, of) in [
        (false, "rt", &routes[..split]),
        (true, "rt6", &routes[split..]),
    ] {
        let elem = graph.find(name).ok_or("no look-up element")?;
        let held = HeldRoutes::of(graph.store(), elem).ok_or("no table")?;
        let share = if v6 {
            lookups / 2
        } else {
            lookups - lookups / 2
        };
        let keys: Vec<u128> = (0..share).map(|_| address(of, v6, r)).collect();
        let narrow = |a: u128| if v6 { a } else { a >> 96 };
        let start = Instant::now();
        let mut sum = 0u128;
        for a in &keys {
            sum = sum.wrapping_add(held.ask(RouteWhat::Output, narrow(*a)));
        }
        let each = start.elapsed().as_nanos() as f64 / share as f64;
        let mut found = 0u64;
        for a in &keys {
            let want = naive.lookup(v6, *a);
            let port = want.map_or(u128::from(u32::MAX), |w| w.0.into());
            let hop = narrow(want.map_or(*a, |w| w.1));
            let got = (
                held.ask(RouteWhat::Output, narrow(*a)),
                held.ask(RouteWhat::NextHop, narrow(*a)),
            );
            if got != (port, hop) {
                return Err(format!("{a:x}: {got:x?}, expected {:x?}", (port, hop)).into());
            }
            found += u64::from(want.is_some());
        }
        println!(
            "{share} look-ups, {found} with a route: none differs; {each:.0} ns each (sum {})",
            sum as u64
        );
    }
    Ok(())
}
