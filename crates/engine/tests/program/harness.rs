//! Two copies of a graph, one with a program, and packets for both.

use onefold_element::{ElemId, ElementClass};
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph, Log, spec_from_flat};
use onefold_packet::{Pkt, Timestamp, checksum};
use onefold_synth::{Budget, Program, synthesize};

/// A small generator of numbers (xorshift).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }
    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A graph from Click text; `lookup` finds classes of the test's own.
pub fn build_with(text: &str, lookup: fn(&str) -> Option<&'static ElementClass>) -> Graph {
    let flat = onefold_click::load(text.as_bytes(), "t.click", &[], &Default::default()).unwrap();
    let options = BuildOptions {
        lookup,
        log: Log::Keep,
        ..BuildOptions::default()
    };
    match Graph::build(spec_from_flat(&flat), &options) {
        Ok(g) => g,
        Err(e) => panic!("{e}"),
    }
}

pub fn build(text: &str) -> Graph {
    build_with(text, onefold_elements::lookup)
}

/// The reference, and a copy with a program.
pub struct Pair {
    pub reference: Graph,
    pub program: ProgramRunner,
    now: Timestamp,
    /// Annotations and marks of packets that leave must be the same, too.
    pub annotations: bool,
}

type Seen = (ElemId, Vec<u8>, String);

/// Behind the chain nobody sees annotations but the time stamp, so that synthesis leaves out what sets others.
fn seen(list: Vec<(ElemId, Pkt)>, annotations: bool) -> Vec<Seen> {
    let anno = |p: &Pkt| {
        if !annotations {
            return format!("{:?}", p.anno.timestamp);
        }
        let marks = (
            p.mac_header_offset(),
            p.network_header_offset(),
            p.transport_header_offset(),
        );
        format!("{:?} {marks:?}", p.anno)
    };
    list.into_iter()
        .map(|(e, p)| (e, p.data().to_vec(), anno(&p)))
        .collect()
}

impl Pair {
    /// With the program that synthesis makes.
    pub fn synthesized(g: Graph) -> Pair {
        let program = synthesize(&g.synthesis_input(), Budget::default());
        Pair {
            annotations: false,
            ..Pair::with(g, &program)
        }
    }
    pub fn with(g: Graph, program: &Program) -> Pair {
        let copy = g.fork();
        Pair {
            reference: g,
            program: ProgramRunner::with_program(copy, program).unwrap(),
            now: Timestamp::from_secs(1),
            annotations: true,
        }
    }
    /// A packet at a device, `ns` later.
    pub fn packet(&mut self, device: &str, data: &[u8], ns: i64) {
        self.now = Timestamp(self.now.0 + ns);
        let source = self.reference.source(device).unwrap();
        self.reference.inject(source, data, self.now);
        self.program.inject(source, data, self.now);
        let want = seen(self.reference.take_transmitted(), self.annotations);
        let got = seen(
            self.program.graph_mut().take_transmitted(),
            self.annotations,
        );
        if want != got {
            panic!(
                "packet {data:02x?}\nreference {want:02x?}\nprogram   {got:02x?}\n{}",
                self.told(device, data)
            );
        }
        assert!(self.program.graph().totals().balanced());
    }
    /// Packets at a device, all at one moment `ns` later: one after the other in the reference, together in the program.
    #[allow(dead_code)]
    pub fn batch(&mut self, device: &str, all: &[Vec<u8>], ns: i64) {
        self.now = Timestamp(self.now.0 + ns);
        let source = self.reference.source(device).unwrap();
        let mut batch = Vec::new();
        for data in all {
            self.reference.inject(source, data, self.now);
            let mut p = self.program.graph_mut().make_packet(data);
            p.anno.timestamp = self.now;
            batch.push(p);
        }
        self.program.inject_batch(source, &mut batch, self.now);
        assert!(batch.is_empty());
        let want = seen(self.reference.take_transmitted(), self.annotations);
        let left = self.program.graph_mut().take_transmitted();
        assert_eq!(want, seen(left, self.annotations), "{all:02x?}");
        assert!(self.program.graph().totals().balanced());
    }
    /// Both ways of another such packet.
    fn told(&mut self, device: &str, data: &[u8]) -> String {
        let source = self.reference.source(device).unwrap();
        self.reference.start_trace();
        self.reference.inject(source, data, self.now);
        let (steps, _) = self.reference.take_trace();
        self.program.start_trace();
        self.program.inject(source, data, self.now);
        let (stages, punted, _) = self.program.take_trace();
        let names: Vec<_> = steps
            .iter()
            .map(|s| (&s.name, &s.outputs, &s.drops))
            .collect();
        let punted: Vec<_> = punted.iter().map(|s| &s.name).collect();
        let stages = &stages[..stages.len().min(40)];
        format!("{names:?}\n{stages:?}\n{punted:?}")
    }
    /// Everything left behind is the same.
    pub fn finish(&mut self) {
        let (a, b) = (&mut self.reference, self.program.graph_mut());
        assert_eq!(a.drops(), b.drops());
        assert_eq!(a.totals(), b.totals());
        let (x, y) = (a.state_summary(), b.state_summary());
        for (x, y) in x.iter().zip(&y) {
            assert_eq!(x, y);
        }
        assert_eq!(x.len(), y.len());
    }
    /// Packets that left the program.
    pub fn punted(&self) -> u64 {
        self.program.report().punted()
    }
}

/// An IPv4 frame.
#[derive(Debug, Clone)]
pub struct Frame {
    pub src_mac: [u8; 6],
    pub dst_mac: [u8; 6],
    pub src: [u8; 4],
    pub dst: [u8; 4],
    pub proto: u8,
    pub ports: (u16, u16),
    pub ttl: u8,
    pub flags: u8,
    pub payload: usize,
}

impl Default for Frame {
    fn default() -> Self {
        Frame {
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            src: [10, 0, 0, 1],
            dst: [192, 0, 2, 1],
            proto: 17,
            ports: (1000, 53),
            ttl: 64,
            flags: 0x10,
            payload: 20,
        }
    }
}

impl Frame {
    pub fn bytes(&self) -> Vec<u8> {
        let header = match self.proto {
            6 => 20,
            _ => 8,
        };
        let total = (20 + header + self.payload) as u16;
        let mut b = Vec::new();
        b.extend(self.dst_mac);
        b.extend(self.src_mac);
        b.extend([8, 0, 0x45, 0]);
        b.extend(total.to_be_bytes());
        b.extend([0, 7, 0, 0, self.ttl, self.proto, 0, 0]);
        b.extend(self.src);
        b.extend(self.dst);
        let c = checksum::internet(&b[14..34]);
        b[24..26].copy_from_slice(&c.to_be_bytes());
        let t = b.len();
        if self.proto == 1 {
            b.extend([8, 0, 0, 0]);
            b.extend(self.ports.0.to_be_bytes());
            b.extend(self.ports.1.to_be_bytes());
        } else {
            b.extend(self.ports.0.to_be_bytes());
            b.extend(self.ports.1.to_be_bytes());
            match self.proto {
                6 => b.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, self.flags, 1, 0, 0, 0, 0, 0]),
                _ => {
                    b.extend((total - 20).to_be_bytes());
                    b.extend([0, 0]);
                }
            }
        }
        b.extend((0..self.payload).map(|i| i as u8));
        let pseudo = match self.proto {
            1 => 0,
            p => checksum::sum(&b[26..34], u64::from(p) + (b.len() - t) as u64),
        };
        let c = !checksum::fold(checksum::sum(&b[t..], pseudo));
        let at = t + match self.proto {
            1 => 2,
            6 => 16,
            _ => 6,
        };
        b[at..at + 2].copy_from_slice(&c.to_be_bytes());
        b
    }

    /// Any frame, mostly a sound one.
    pub fn random(r: &mut Rng) -> Vec<u8> {
        let hosts = [
            [10, 0, 0, 1],
            [10, 0, 0, 2],
            [192, 0, 2, 1],
            [192, 0, 2, 77],
            [8, 8, 8, 8],
        ];
        let mut b = Frame {
            dst_mac: r.of(&[[2, 0, 0, 0, 0, 2], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]]),
            src: r.of(&hosts),
            dst: r.of(&hosts),
            proto: r.of(&[6, 6, 17, 17, 1, 47]),
            ports: (
                r.of(&[1000, 1001, 53, 80]),
                r.of(&[1000, 1001, 53, 80, 1234]),
            ),
            ttl: r.of(&[64, 64, 64, 2, 1, 0]),
            flags: r.of(&[0x10, 0x10, 2, 0x11, 4]),
            payload: r.of(&[0, 1, 20, 100]),
            ..Frame::default()
        }
        .bytes();
        if r.one_in(6) {
            // something is wrong with it
            let i = r.below(b.len() as u64) as usize;
            b[i] ^= 1 << r.below(8);
        }
        if r.one_in(10) {
            b.truncate(r.below(b.len() as u64 + 1) as usize);
        }
        if r.one_in(10) {
            b.extend([0; 9]);
        }
        if r.one_in(10) && b.len() > 41 && b[23] == 17 {
            b[40..42].fill(0);
        }
        b
    }
}
