//! A real rewriter beside what it promises: packets in, packets out, each judged.

use super::config::{Config, Kind, Spec};
use super::model::{Arrival, Broken, Model, Seen, Segment};
use onefold_element::{ElemId, NameDb};
use onefold_elements::testing::{Bench, Setup};
use onefold_nat::{FlowId, FlowTable};
use onefold_packet::{Packet, Timestamp, checksum};

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A packet of this flow, as it arrives, at this input. Of pings the ports are the identifier and its successor.
    Packet {
        /// Where it comes in.
        input: usize,
        /// UDP in an IPRewriter; else what the rewriter is for.
        udp: bool,
        /// An echo reply.
        answer: bool,
        /// Addresses and ports.
        flow: FlowId,
        /// Of TCP.
        segment: Segment,
    },
    /// Milliseconds go by; sweeps that are due happen.
    Wait(u64),
    /// The `capacity` handler is written.
    Capacity(u32),
    /// The `clear` handler is written.
    Clear,
    /// The input's specification is written again.
    Rewrite(usize),
}

/// What a ping's identifier is counted as at the answering end (ICMPPingRewriter's way to tell requests from replies).
pub fn answering(id: u16) -> u16 {
    id.swap_bytes().wrapping_add(1).swap_bytes()
}

/// The rewriter and its model.
pub struct Rig {
    config: Config,
    bench: Bench,
    /// What it promises.
    pub model: Model,
    now_ms: u64,
    next_sweep_ms: u64,
}

const START_MS: u64 = 1_000_000;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms as i64)
}

impl Rig {
    /// Configures the rewriter. Errors are those of its configuration.
    pub fn new(config: &Config) -> Result<Rig, Broken> {
        let setup = Setup {
            ninputs: config.inputs.len(),
            noutputs: config.outputs,
            ..Setup::default()
        };
        let mapper = config.mapper.as_ref().map(|m| (m.class(), m.text()));
        let others: Vec<_> = (mapper.iter().map(|(c, t)| ("mapper", *c, t.as_str()))).collect();
        let made = Bench::with_others(
            config.kind.class(),
            &config.text(),
            setup,
            NameDb::builtin(),
            &others,
        );
        let mut bench = made.map_err(|e| Broken(e.join("; ")))?;
        bench.host.quiet = true;
        bench.out.traced = false;
        bench.now = at(START_MS);
        Ok(Rig {
            model: Model::new(config),
            bench,
            config: config.clone(),
            now_ms: START_MS,
            next_sweep_ms: START_MS + config.times.sweep * 1000,
        })
    }

    /// Both a second time.
    pub fn fork(&self) -> Rig {
        Rig {
            config: self.config.clone(),
            bench: self.bench.fork(),
            model: self.model.clone(),
            now_ms: self.now_ms,
            next_sweep_ms: self.next_sweep_ms,
        }
    }

    /// The rewriter's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The rewriter alone: what is done here the model does not know.
    pub fn bench(&mut self) -> &mut Bench {
        &mut self.bench
    }

    fn protocol(&self, udp: bool) -> u8 {
        match self.config.kind {
            Kind::Ip if udp => 17,
            Kind::Ip | Kind::Tcp => 6,
            Kind::Ping => 1,
            _ => 17,
        }
    }

    /// Lets one thing happen and judges what is seen of it.
    pub fn step(&mut self, e: Event) -> Result<(), Broken> {
        match e {
            Event::Packet {
                input,
                udp,
                answer,
                flow,
                segment,
            } => {
                let protocol = self.protocol(udp);
                let frame = frame(protocol, flow, answer, segment);
                let mut p = Box::new(Packet::from_slice(&frame));
                p.set_network_header(0, 20);
                let out = self.bench.push_packet(input, p);
                let seen = match out.as_slice() {
                    [] => Seen::Gone,
                    [(port, p)] => Seen::Out(*port, read(p, &frame, protocol, answer)?),
                    more => return Err(Broken(format!("{} packets of one", more.len()))),
                };
                self.bench.out.drops.clear();
                let map = u8::from(udp && self.config.kind == Kind::Ip);
                if let (Seen::Out(_, to), Some(m)) = (&seen, &self.config.mapper)
                    && let Some(hashed) = self.model.hashed(map, flow)
                    && self.config.inputs.get(input) == Some(&Spec::Mapper)
                    && !self.model.knows(hashed)
                    && let Some(i) = m.entries.iter().position(|e| e.0.daddr == to.daddr)
                {
                    self.model.learn(hashed, i);
                }
                let arrival = Arrival {
                    map,
                    input,
                    flow,
                    asks: !answer,
                    segment,
                };
                self.model.packet(arrival, self.now_ms, &seen)
            }
            Event::Wait(ms) => {
                let until = self.now_ms + ms;
                // Bound: a sweep is at least a second after the one before.
                while self.next_sweep_ms <= until {
                    self.now_ms = self.next_sweep_ms;
                    self.bench.now = at(self.now_ms);
                    self.bench.with(|e, cx| e.run_timer(0, cx));
                    self.model.sweep(self.now_ms);
                    self.next_sweep_ms += self.config.times.sweep.max(1) * 1000;
                }
                self.now_ms = until;
                self.bench.now = at(until);
                Ok(())
            }
            Event::Capacity(n) => {
                self.write("capacity", &n.to_string())?;
                self.model.resize(n, self.now_ms);
                Ok(())
            }
            Event::Clear => {
                self.write("clear", "")?;
                self.model.clear();
                Ok(())
            }
            Event::Rewrite(input) => {
                let Some(spec) = self.config.inputs.get(input) else {
                    return Ok(());
                };
                if *spec == Spec::Mapper {
                    // the bench does not find elements by name while it runs
                    return Ok(());
                }
                self.write(&format!("pattern{input}"), &spec.text())?;
                self.model.rewrite(input);
                Ok(())
            }
        }
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<(), Broken> {
        let r = self.bench.write(handler, value);
        r.map_err(|e| Broken(format!("{handler}: {e}")))
    }

    /// Compares the whole table: as many bindings, each found by both its keys, as one record, with its outputs and its
    /// origin; as many evictions.
    pub fn audit(&self) -> Result<(), Broken> {
        let elem = ElemId(0);
        let table = self.bench.store.published_by(elem);
        let table = table.and_then(|t| self.bench.store.get::<FlowTable>(t));
        let table = table.ok_or_else(|| Broken("no table".into()))?;
        if table.len() != self.model.len() {
            let (have, want) = (table.len(), self.model.len());
            return Err(Broken(format!("{have} bindings, {want} promised")));
        }
        if table.evictions() != self.model.evictions {
            let (have, want) = (table.evictions(), self.model.evictions);
            return Err(Broken(format!("{have} evictions, {want} promised")));
        }
        for b in self.model.bindings() {
            let find = |key: &FlowId| table.binding(elem, b.map == 1, key);
            let both = find(&b.forward).zip(find(&b.reply));
            let Some(((f, false), (r, true))) = both else {
                return Err(Broken(format!("{b:?} is not found both ways: {both:?}")));
            };
            let record = table.resolve(f);
            let same = record.is_some_and(|x| {
                f == r
                    && x.key(false) == b.forward
                    && x.key(true) == b.reply
                    && [x.output(false), x.output(true)] == b.outputs
                    && x.origin() == b.input
            });
            if !same {
                return Err(Broken(format!("{b:?} is another one: {record:?}")));
            }
        }
        Ok(())
    }

    /// Milliseconds since the start.
    pub fn clock(&self) -> u64 {
        self.now_ms - START_MS
    }
}

fn put(b: &mut [u8], at: usize, v: &[u8]) {
    if let Some(x) = b.get_mut(at..at + v.len()) {
        x.copy_from_slice(v);
    }
}

fn word(b: &[u8], at: usize) -> u16 {
    let w = b.get(at..at + 2).and_then(|w| w.first_chunk());
    w.map_or(0, |w| u16::from_be_bytes(*w))
}

/// A packet with right checksums.
fn frame(protocol: u8, f: FlowId, answer: bool, s: Segment) -> Vec<u8> {
    let header = match protocol {
        6 => 20,
        _ => 8,
    };
    let len = 20 + header + if s.payload || protocol != 6 { 4 } else { 0 };
    let mut b = vec![0u8; len];
    put(&mut b, 0, &[0x45, 0]);
    put(&mut b, 2, &(len as u16).to_be_bytes());
    put(&mut b, 8, &[64, protocol]);
    put(&mut b, 12, &f.saddr.to_be_bytes());
    put(&mut b, 16, &f.daddr.to_be_bytes());
    put(&mut b, 20, &f.sport.to_be_bytes());
    put(&mut b, 22, &f.dport.to_be_bytes());
    let transport = (len - 20) as u16;
    let at = match protocol {
        6 => {
            let flags = u8::from(s.fin) | u8::from(s.syn) << 1 | u8::from(s.rst) << 2;
            let flags = flags | u8::from(s.ack) << 4;
            put(&mut b, 32, &[0x50, flags]);
            36
        }
        17 => {
            put(&mut b, 24, &transport.to_be_bytes());
            26
        }
        _ => {
            let id = if answer { f.dport } else { f.sport };
            put(&mut b, 20, &[if answer { 0 } else { 8 }, 0, 0, 0]);
            put(&mut b, 24, &id.to_be_bytes());
            put(&mut b, 26, &[0, 7]);
            22
        }
    };
    let sum = match !transport_sum(&b, protocol) {
        // of UDP, zero says that there is no checksum
        0 => 0xffff,
        sum => sum,
    };
    put(&mut b, at, &sum.to_be_bytes());
    let sum = checksum::internet(b.get(..20).unwrap_or(&[]));
    put(&mut b, 10, &sum.to_be_bytes());
    b
}

/// Of a transport header and what follows, with the pseudo header where there is one: all ones when the checksum is
/// right.
fn transport_sum(b: &[u8], protocol: u8) -> u16 {
    let (ip, t) = b.split_at(b.len().min(20));
    let address = |at: usize| {
        let a = ip.get(at..at + 4).and_then(|a| a.first_chunk());
        a.copied().unwrap_or_default()
    };
    let pseudo = match protocol {
        1 => 0,
        _ => checksum::pseudo_v4(address(12), address(16), protocol, t.len() as u16),
    };
    checksum::fold(checksum::sum(t, pseudo))
}

/// The flow of a packet that has left; checksums must be right, and whatever is not rewritten as it was.
fn read(p: &Packet, before: &[u8], protocol: u8, answer: bool) -> Result<FlowId, Broken> {
    let b = p.data();
    if b.len() != before.len() {
        return Err(Broken("another length".into()));
    }
    if checksum::internet(b.get(..20).unwrap_or(&[])) != 0 {
        return Err(Broken(format!("IP checksum of {b:02x?}")));
    }
    if transport_sum(b, protocol) != 0xffff {
        return Err(Broken(format!("transport checksum of {b:02x?}")));
    }
    let rewritten: &[std::ops::Range<usize>] = match protocol {
        6 => &[10..24, 36..38],
        17 => &[10..24, 26..28],
        _ => &[10..20, 22..26],
    };
    for (i, (x, y)) in b.iter().zip(before).enumerate() {
        if x != y && !rewritten.iter().any(|r| r.contains(&i)) {
            return Err(Broken(format!("byte {i} is {x:#x}, was {y:#x}")));
        }
    }
    let long = |at| u32::from(word(b, at)) << 16 | u32::from(word(b, at + 2));
    let mut f = FlowId::addresses(long(12), long(16));
    (f.sport, f.dport) = match (protocol, answer) {
        (1, false) => (word(b, 24), answering(word(b, 24))),
        (1, true) => (answering(word(b, 24)), word(b, 24)),
        _ => (word(b, 20), word(b, 22)),
    };
    Ok(f)
}
