//! Valid packets stay in the program: on every example chain no TCP, UDP or echo message that is whole, unfragmented,
//! free of IP options and has time to live left is handed over to the reference graph.
//!
//! Two things are not a packet's way through a chain and are left out: a packet that a new one is made for (an ICMP
//! error about an address that leads nowhere or about a closed port; an echo request to a router itself), and elements
//! that are asked and go on (payload, time), which is no punt.

use crate::examples;

use examples::load;
use onefold_element::ElemId;
use onefold_engine::program::{ProgramRunner, ProgramStep};
use onefold_packet::Timestamp;
use onefold_verify::frame::{self, Keep, Shape};
use onefold_verify::generate::directed::Directed;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::generate::{self, Source};
use onefold_verify::{Event, Options, Outputs, Pair, Reference, Rng, Synthesized};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Causes of punts for packets that a new one is made for.
const NEW_PACKETS: &[&str] = &["originates packets", "answers an echo request"];
/// Packets between two looks at what was punted.
const LOOK: usize = 64;

/// Makes frames near what a chain's configuration names.
struct Maker {
    rng: Rng,
    hints: Hints,
}

impl Maker {
    fn chance(&mut self, n: usize) -> bool {
        self.rng.one_in(n)
    }

    fn v4(&mut self) -> [u8; 4] {
        let r = self.rng.bits() as u32;
        match self.rng.pick(&self.hints.v4) {
            Some((a, len)) => {
                let host = u32::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
                match r % 4 {
                    0 => *a,
                    1 => (a & !host) | 1 & host,
                    _ => (a & !host) | (r >> 4 & host),
                }
            }
            None => r,
        }
        .to_be_bytes()
    }

    fn v6(&mut self) -> [u8; 16] {
        let r = self.rng.wide();
        match self.rng.pick(&self.hints.v6) {
            Some((a, len)) => {
                let host = u128::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
                (a & !host) | (r & host)
            }
            None => 0x2001_0db8 << 96 | r & 0xffff,
        }
        .to_be_bytes()
    }

    fn port(&mut self) -> [u8; 2] {
        let r = self.rng.bits() as u16;
        match self.rng.pick(&self.hints.ports) {
            Some(p) if !r.is_multiple_of(3) => *p,
            _ => r,
        }
        .to_be_bytes()
    }

    fn payload(&mut self) -> Vec<u8> {
        let n = match self.rng.below(8) {
            0 => 0,
            1 => 1,
            2 => 1200 + self.rng.below(200),
            _ => self.rng.below(64),
        };
        let zeros = self.chance(4);
        let byte = |r: &mut Rng| if zeros { 0 } else { r.bits() as u8 };
        (0..n).map(|_| byte(&mut self.rng)).collect()
    }

    fn frame(&mut self) -> Vec<u8> {
        let v6 = self.chance(if self.hints.v6.is_empty() { 16 } else { 2 });
        let proto = match (self.rng.below(10), v6) {
            (0..4, _) => 6,
            (4..8, _) => 17,
            (_, true) => 58,
            (_, false) => 1,
        };
        let tags = match self.hints.vlans.is_empty() {
            true => usize::from(self.chance(32)),
            false => usize::from(!self.chance(8)),
        };
        let mut f = frame::make(Shape {
            version: if v6 { 6 } else { 4 },
            proto,
            tags,
            payload: 0,
        });
        let v = frame::view(&f).unwrap();
        let t = v.transport.unwrap();
        if proto == 6 && self.chance(4) {
            let words = self.rng.below(11);
            f.extend(std::iter::repeat_n(1, words * 4));
            f[t + 12] = (5 + words as u8) << 4;
        }
        let (mac, payload) = (self.rng.pick(&self.hints.macs).copied(), self.payload());
        f.extend(&payload);
        let mut put = |at: usize, bytes: &[u8]| f[at..at + bytes.len()].copy_from_slice(bytes);
        if let Some(mac) = mac {
            put(0, &mac);
        }
        if tags > 0
            && let Some(id) = self.rng.pick(&self.hints.vlans).copied()
            && !self.chance(8)
        {
            put(14, &(id | (self.rng.bits() as u16) << 13).to_be_bytes());
        }
        let hops = [32 + self.rng.below(224) as u8];
        match v6 {
            true => {
                put(v.net + 7, &hops);
                put(v.net + 8, &self.v6());
                put(v.net + 24, &self.v6());
            }
            false => {
                put(v.net + 1, &[self.rng.bits() as u8]);
                put(v.net + 4, &(self.rng.bits() as u16).to_be_bytes());
                put(v.net + 6, &[if self.chance(2) { 0x40 } else { 0 }, 0]);
                put(v.net + 8, &hops);
                put(v.net + 12, &self.v4());
                put(v.net + 16, &self.v4());
            }
        }
        match proto {
            1 | 58 => {
                if self.chance(4) {
                    put(t, &[if v6 { 129 } else { 0 }]);
                }
                let number = |r: &mut Rng| match r.below(3) {
                    0 => 0u16,
                    1 => 0xffff,
                    _ => r.bits() as u16,
                };
                put(t + 4, &number(&mut self.rng).to_be_bytes());
                put(t + 6, &number(&mut self.rng).to_be_bytes());
            }
            _ => {
                put(t, &self.port());
                put(t + 2, &self.port());
                if proto == 6 {
                    let flags = [2, 0x12, 0x10, 0x18, 0x11, 4, 0x14, 0x1f];
                    put(t + 13, &[self.rng.pick(&flags).copied().unwrap_or(0x10)]);
                }
            }
        }
        frame::finish(&mut f, Keep::default());
        if proto == 17 && !v6 && self.chance(4) {
            // sent without a checksum
            f[t + 6..t + 8].fill(0);
        } else if payload.len() >= 2 && proto != 58 && self.chance(4) {
            // a checksum of zero, one way to write it or the other
            let at = t + [16, 6, 2][[6, 17, 1].iter().position(|p| *p == proto).unwrap_or(0)];
            let end = f.len() - payload.len() % 2;
            let word = |i: usize| u32::from(u16::from_be_bytes([f[i], f[i + 1]]));
            let sum = word(end - 2) + word(at);
            let sum = (sum & 0xffff) + (sum >> 16);
            f[end - 2..end].copy_from_slice(&(sum as u16).to_be_bytes());
            frame::finish(&mut f, Keep::default());
        }
        f
    }
}

/// What was punted so far, by element and cause, but for new packets.
fn punted(pair: &Pair) -> BTreeMap<(String, String), u64> {
    let report = pair.right.report().expect("a program reports");
    let all = report.punts.into_iter();
    let mine = all.filter(|p| !p.asked && p.packets > 0 && !NEW_PACKETS.contains(&&*p.cause));
    mine.map(|p| ((p.element, p.cause), p.packets)).collect()
}

/// Takes frames that led to an output from another source.
struct Tap {
    inner: Directed,
    found: Vec<(ElemId, Vec<u8>)>,
}

impl Source for Tap {
    fn next(&mut self) -> Option<Event> {
        self.inner.next()
    }
    fn watches(&self) -> bool {
        self.inner.watches()
    }
    fn seen(&mut self, events: &[Event], outputs: &Outputs, steps: &[ProgramStep]) {
        self.inner.seen(events, outputs, steps);
        if let ([e], false) = (events, outputs.is_empty()) {
            let found = e.source.and_then(|s| Some((s, plain(&e.bytes)?)));
            self.found.extend(found);
        }
    }
}

/// The frame as a valid one of the kinds meant here, if it is one.
fn plain(b: &[u8]) -> Option<Vec<u8>> {
    let v = frame::view(b)?;
    let (t, n) = (v.transport?, if v.proto == 6 { 20 } else { 8 });
    let hops = b.get(v.net + if v.ether_type == 0x0800 { 8 } else { 7 })?;
    let echo = matches!(b.get(t)?, 0 | 8 | 128 | 129) && b.get(t + 1) == Some(&0);
    let good = match v.proto {
        6 => b.get(t + 12)? >> 4 == 5,
        17 => true,
        1 | 58 => echo,
        _ => false,
    };
    if !good || !frame::is_plain(b) || *hops < 32 || b.len() < t + n || b.len() > v.net + 1400 {
        return None;
    }
    let mut f = b.to_vec();
    frame::finish(&mut f, Keep::default());
    Some(f)
}

fn stays(name: &str, packets: usize) {
    let (chain, graph) = load(name);
    let program = onefold_synth::synthesize(&graph.synthesis_input(), Default::default());
    let runner = ProgramRunner::with_program(graph.fork(), &program)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut pair = Pair::new(
        Box::new(Reference(graph.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    let start = Timestamp::from_secs(1000);
    let ports = chain.ports.iter().map(|p| generate::Port {
        name: p.name.clone(),
        source: p.source.map(|s| ElemId(s as u32)),
        sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
    });
    let ports: Vec<generate::Port> = ports.collect();
    let entries: Vec<(ElemId, Vec<ElemId>)> = (ports.iter())
        .filter_map(|p| Some((p.source?, p.sinks.clone())))
        .collect();
    // what the program's own rules let through, to begin with
    let n = packets as u64;
    let traffic = Traffic::new(&ports, Hints::of(graph.spec()), 3, n, start, 1).unwrap();
    let inner = Directed::new(Arc::new(program.clone()), traffic, &ports, 3, n, start);
    let mut tap = Tap {
        inner,
        found: Vec::new(),
    };
    onefold_verify::run(&pair, &mut tap, &Options::default(), &mut |_| true);
    let mut maker = Maker {
        rng: Rng::new(7),
        hints: Hints::of(graph.spec()),
    };
    let mut now = start;
    // frames whose way is known, and answers: entry and frame
    let entry = |s: ElemId| entries.iter().position(|e| e.0 == s);
    let known = tap
        .found
        .into_iter()
        .map(|(s, f)| (entry(s).expect("an entry"), f));
    let mut known: Vec<(usize, Vec<u8>)> = known.collect();
    let (mut left, mut lately) = (0usize, Vec::new());
    for n in 0..packets {
        let at = maker.rng.below(entries.len());
        let old = maker.rng.pick(&known).cloned();
        let (at, bytes) = match old {
            Some((at, mut f)) if maker.chance(2) => {
                if maker.chance(2)
                    && let Some(v) = frame::view(&f)
                    && let (6 | 17, Some(t)) = (v.proto, v.transport)
                {
                    let port = maker.port();
                    f[t..t + 2].copy_from_slice(&port);
                    frame::finish(&mut f, Keep::default());
                }
                (at, f)
            }
            _ => (at, maker.frame()),
        };
        now = now + Timestamp(maker.rng.below(1_000_000) as i64);
        lately.push(bytes.clone());
        let mut event = Event::frame(now, entries[at].0, bytes.clone());
        event.id = n as u64;
        let different = pair.step(&event);
        assert!(different.is_none(), "{name}: {different:?}\n{bytes:02x?}");
        let (_, outputs) = pair.last();
        let mut found = Vec::new();
        for (sink, _, out) in outputs.iter() {
            left += 1;
            let back = entries.iter().position(|e| e.1.contains(&sink));
            if let (Some(back), Some(answer)) = (back, frame::answer(out)) {
                found.push((back, answer));
            }
        }
        if !outputs.is_empty() {
            found.push((at, bytes));
        }
        for f in found {
            let i = maker.rng.below(packets);
            match known.get_mut(i) {
                Some(slot) => *slot = f,
                None => known.push(f),
            }
        }
        if n % LOOK == LOOK - 1 || n + 1 == packets {
            let all = punted(&pair);
            assert!(all.is_empty(), "{name}: punted {all:#?}\n{lately:02x?}");
            lately.clear();
        }
    }
    let different = pair.checkpoint();
    assert!(different.is_none(), "{name}: {different:?}");
    println!("{name}: {packets} packets, {left} left the chain");
    assert!(
        left * 5 > packets,
        "{name}: only {left} of {packets} get anywhere"
    );
}

macro_rules! chains {
    ($($test:ident $name:literal $packets:literal;)*) => {
        $(
            #[test]
            fn $test() {
                stays($name, $packets);
            }
        )*
        /// No example is forgotten.
        #[test]
        fn all_examples_are_here() {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
            let here = [$($name),*];
            for entry in std::fs::read_dir(root.join("chains")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let name = name.strip_suffix("-N").map_or(name.clone(), |n| format!("{n}-10"));
                assert!(here.contains(&&*name), "{name}");
            }
        }
    };
}

chains! {
    campus_dpi "campus-dpi" 4000;
    fw_l3fwd "fw-l3fwd" 4000;
    fw_l3fwd_l2fwd "fw-l3fwd-l2fwd" 4000;
    fw10 "fw10" 4000;
    ipv6_edge "ipv6-edge" 4000;
    isp_edge "isp-edge" 3000;
    kitchen_sink "kitchen-sink" 6000;
    l2fwd "l2fwd" 1000;
    l3fwd "l3fwd" 4000;
    napt_fw_lb "napt-fw-lb" 4000;
    napts_1 "napts-1" 6000;
    napts_10 "napts-10" 3000;
    office_fw "office-fw" 4000;
    router_nat_lb "router-nat-lb" 6000;
    routers_1 "routers-1" 4000;
    routers_10 "routers-10" 3000;
}
