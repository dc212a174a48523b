//! Counters of rules: the same at every level of execution, and what a linear search counts.

#[allow(dead_code)]
use crate::harness;

use harness::{Frame, Rng, build};
use onefold_element::RuleCount;
use onefold_engine::Graph;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, synthesize, text};

/// What a rule looks at: addresses under masks, protocol, destination ports.
#[derive(Debug, Clone)]
struct Rule {
    allow: bool,
    src: (u32, u8),
    dst: (u32, u8),
    proto: Option<u8>,
    ports: Option<(u16, u16)>,
}

#[derive(Debug, Clone, Copy)]
struct Header {
    src: u32,
    dst: u32,
    proto: u8,
    dport: u16,
}

fn within((net, len): (u32, u8), a: u32) -> bool {
    len == 0 || (net ^ a) >> (32 - len) == 0
}

impl Rule {
    fn random(r: &mut Rng) -> Rule {
        let mut net = || {
            let len = r.of(&[0, 8, 24, 28, 30, 32]);
            let a = 0x0a00_0000 | (r.below(4) << 8) as u32 | r.below(32) as u32;
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            (a & mask, len)
        };
        let (src, dst) = (net(), net());
        let low = r.below(40) as u16;
        Rule {
            allow: r.one_in(2),
            src,
            dst,
            proto: r.of(&[None, Some(6), Some(17), Some(17)]),
            ports: (!r.one_in(3)).then_some((low, low + r.below(6) as u16)),
        }
    }
    fn fits(&self, h: &Header) -> bool {
        within(self.src, h.src)
            && within(self.dst, h.dst)
            && self.proto.is_none_or(|p| p == h.proto)
            && (self.ports)
                .is_none_or(|(l, u)| [6, 17].contains(&h.proto) && (l..=u).contains(&h.dport))
    }
    fn text(&self) -> String {
        let ip = |a: u32| std::net::Ipv4Addr::from(a);
        let mut all = Vec::new();
        for (side, (a, len)) in [("src", self.src), ("dst", self.dst)] {
            if len > 0 {
                all.push(format!("{side} net {}/{len}", ip(a)));
            }
        }
        all.extend(self.proto.map(|p| format!("ip proto {p}")));
        all.extend(
            self.ports
                .map(|(l, u)| format!("dst port >= {l} && dst port <= {u}")),
        );
        let action = if self.allow { "allow" } else { "deny" };
        match all.is_empty() {
            true => format!("{action} all"),
            false => format!("{action} {}", all.join(" && ")),
        }
    }
}

/// A frame, padded to 60 bytes as devices do, and how long its IP packet is.
fn frame(r: &mut Rng) -> (Header, Vec<u8>, u64) {
    let host = |r: &mut Rng| 0x0a00_0000 | (r.below(4) << 8) as u32 | r.below(32) as u32;
    let h = Header {
        src: host(r),
        dst: host(r),
        proto: r.of(&[6, 17]),
        dport: r.below(44) as u16,
    };
    let mut bytes = Frame {
        dst_mac: [2, 0, 0, 0, 0, 2],
        src_mac: [2, 0, 0, 0, 0, 1],
        src: h.src.to_be_bytes(),
        dst: h.dst.to_be_bytes(),
        proto: h.proto,
        ttl: 64,
        ports: (2000 + r.below(3) as u16, h.dport),
        flags: 0x10,
        payload: r.of(&[0, 0, 4, 300]),
    }
    .bytes();
    let len = bytes.len() as u64 - 14;
    if bytes.len() < 60 {
        bytes.resize(60, 0);
    }
    (h, bytes, len)
}

/// Reference graph packet by packet and in batches, program packet by packet and in batches, flow table.
struct Levels {
    scalar: Graph,
    batched: Graph,
    single: ProgramRunner,
    program: ProgramRunner,
    flow: FlowRunner,
    now: Timestamp,
}

impl Levels {
    fn new(chain: &str) -> Levels {
        let scalar = build(chain);
        let program = synthesize(&scalar.synthesis_input(), Budget::default());
        // what is written down says all that is counted
        let program = text::parse(&text::print(&program)).unwrap();
        let with = || ProgramRunner::with_program(scalar.fork(), &program).unwrap();
        Levels {
            batched: scalar.fork(),
            single: with(),
            program: with(),
            flow: FlowRunner::new(with(), 1 << 10).always(),
            scalar,
            now: Timestamp::from_secs(1),
        }
    }

    fn batch(&mut self, device: &str, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.now = Timestamp(self.now.0 + 1000);
        let source = self.scalar.source(device).unwrap();
        for f in frames {
            self.scalar.inject(source, f, self.now);
            self.single.inject(source, f, self.now);
        }
        let mut batches: [Vec<Pkt>; 3] = Default::default();
        for f in frames {
            batches[0].push(self.batched.make_packet(f));
            batches[1].push(self.program.graph_mut().make_packet(f));
            batches[2].push(self.flow.make_packet(f));
        }
        for p in batches.iter_mut().flatten() {
            p.anno.timestamp = self.now;
        }
        self.batched.inject_batch(source, &mut batches[0], self.now);
        self.program.inject_batch(source, &mut batches[1], self.now);
        self.flow.inject_batch(source, &mut batches[2], self.now);
        let mut left = Vec::new();
        self.scalar
            .drain_transmitted(|_, p| left.push(p.data().to_vec()));
        for g in [
            &mut self.batched,
            self.single.graph_mut(),
            self.program.graph_mut(),
        ] {
            g.take_transmitted();
        }
        self.flow.drain_transmitted(|_, _| {});
        left
    }

    /// A list's counters at each level; all are the same.
    fn counts(&mut self, list: &str) -> String {
        let handler = format!("{list}.rule_counts");
        let want = self.scalar.read_handler(&handler).unwrap();
        let mut copy = self.flow.fork();
        let all: [(&str, &mut Graph); 5] = [
            ("batched", &mut self.batched),
            ("single", self.single.graph_mut()),
            ("program", self.program.graph_mut()),
            ("flow", self.flow.graph_mut()),
            ("copy", copy.graph_mut()),
        ];
        for (level, g) in all {
            assert_eq!(g.read_handler(&handler).unwrap(), want, "{list}, {level}");
        }
        want
    }
}

fn told(counts: &[RuleCount], policy: RuleCount) -> String {
    let mut s = String::new();
    for (i, c) in counts.iter().enumerate().filter(|(_, c)| c.packets > 0) {
        s += &format!("{i} {} {}\n", c.packets, c.bytes);
    }
    if policy.packets > 0 {
        s += &format!("policy {} {}\n", policy.packets, policy.bytes);
    }
    s
}

/// A list of rules between a classifier that sees whole frames and a way out.
fn filtered(rules: &[Rule]) -> String {
    let list: Vec<String> = rules.iter().map(Rule::text).collect();
    format!(
        "FromDevice(in) -> c :: Classifier(12/0806, 12/0800, -) [1] -> Strip(14) -> CheckIPHeader
           -> f :: IPFilter({}) -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
         c [0] -> Discard; c [2] -> Discard;",
        list.join(", ")
    )
}

fn against_linear_search(rules: &[Rule], seed: u64, rounds: usize) -> usize {
    let mut levels = Levels::new(&filtered(rules));
    let mut r = Rng(seed);
    let mut want = vec![RuleCount::default(); rules.len()];
    let mut policy = RuleCount::default();
    let mut frames_of = [RuleCount::default(); 3];
    for _ in 0..rounds {
        let mut frames = Vec::new();
        for _ in 0..r.below(60) + 1 {
            let (h, bytes, len) = frame(&mut r);
            match rules.iter().position(|rule| rule.fits(&h)) {
                Some(i) => want[i].add(1, len),
                None => policy.add(1, len),
            }
            frames_of[1].add(1, bytes.len() as u64);
            frames.push(bytes);
        }
        if r.one_in(4) {
            let arp = [&[0xff; 12][..], &[8, 6], &[0; 46]].concat();
            frames_of[0].add(1, arp.len() as u64);
            frames.push(arp);
        }
        levels.batch("in", &frames);
        if r.one_in(5) {
            levels.counts("f");
        }
    }
    assert_eq!(levels.counts("f"), told(&want, policy));
    assert_eq!(levels.counts("c"), told(&frames_of, RuleCount::default()));
    want.iter().filter(|c| c.packets > 0).count()
}

/// Hundreds of rules with two verdicts: two classes, and each rule has its own packets and bytes.
#[test]
fn each_rule_of_a_long_list_has_its_packets() {
    let mut r = Rng(77);
    let mut rules: Vec<Rule> = (0..400).map(|_| Rule::random(&mut r)).collect();
    // narrow ones, so that many of them have packets
    for rule in &mut rules {
        rule.src.1 = rule.src.1.max(28);
        rule.dst.1 = rule.dst.1.max(24);
    }
    let hit = against_linear_search(&rules, 5, 120);
    assert!(hit > 100, "{hit}");
}

/// What no rule fits is on the policy.
#[test]
fn packets_that_no_rule_fits_are_the_policys() {
    let rule = Rule {
        allow: true,
        src: (0x0a00_0101, 32),
        dst: (0, 0),
        proto: None,
        ports: None,
    };
    against_linear_search(std::slice::from_ref(&rule), 3, 10);
    // and where everything fits one rule, they are its packets
    let all = Rule {
        src: (0, 0),
        ..rule
    };
    let hit = against_linear_search(&[all.clone(), all], 3, 4);
    assert_eq!(hit, 1);
}

#[test]
fn random_lists_count_as_a_linear_search() {
    for seed in 1..30u64 {
        let mut r = Rng(seed * 7919);
        let n = r.below(24) + 1;
        let rules: Vec<Rule> = (0..n).map(|_| Rule::random(&mut r)).collect();
        against_linear_search(&rules, seed, 12);
    }
}

/// Lists before and behind a translator, both ways; replies, bindings that are refused, fragments and packets with options, which the
/// reference graph takes; a second list that inner packets of a write-out come to.
#[test]
fn lists_around_translators_and_punts_count_once() {
    let chain = "
        rw :: IPRewriter(pattern 203.0.113.1 1024-1039# - - 0 1, drop, CAPACITY 12, UDP_TIMEOUT 30);
        FromDevice(in) -> Strip(14) -> CheckIPHeader
          -> a :: IPFilter(deny dst port 7, allow src host 10.0.0.3, allow udp && dst port < 20, deny src net 10.0.0.0/28, allow all)
          -> [0] rw;
        FromDevice(out) -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> d :: IPClassifier(dst port >= 1030, udp or tcp, -);
        c [1] -> Discard;
        d [0] -> [1] rw; d [1] -> [1] rw; d [2] -> Discard;
        rw [0] -> b :: IPFilter(deny src port 1025, allow udp && dst port 9, allow udp, deny dst port 5, allow tcp)
          -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);
        rw [1] -> e :: IPFilter(deny dst host 10.0.0.2, allow udp, allow tcp)
          -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:b) -> ToDevice(in);";
    let mut levels = Levels::new(chain);
    let mut r = Rng(99);
    let mut replies: Vec<Vec<u8>> = Vec::new();
    for _ in 0..150 {
        let mut frames = Vec::new();
        for _ in 0..r.below(30) + 1 {
            let (_, mut f, _) = frame(&mut r);
            match r.below(40) {
                // a later fragment, an option, a checksum that is wrong
                0 => f[21] = 3,
                1 => f[14] = 0x46,
                2 => f[24] ^= 1,
                _ => {}
            }
            if f[21] == 3 {
                let (start, end) = (14, 34);
                f[24..26].fill(0);
                let sum = onefold_packet::checksum::internet(&f[start..end]);
                f[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            f[28] = 0;
            frames.push(f);
        }
        for mut f in levels.batch("in", &frames) {
            for (x, y, n) in [(26, 30, 4), (34, 36, 2)] {
                (0..n).for_each(|i| f.swap(x + i, y + i));
            }
            if replies.len() < 300 {
                f.resize(f.len().max(60), 0);
                replies.push(f);
            }
        }
        let some: Vec<Vec<u8>> = (0..r.below(12))
            .filter_map(|_| replies.get(r.below(300) as usize).cloned())
            .collect();
        levels.batch("out", &some);
    }
    let all: Vec<String> = ["a", "b", "c", "d", "e"].map(|l| levels.counts(l)).into();
    for (list, least) in all.iter().zip([5, 3, 1, 1, 2]) {
        assert!(list.lines().count() >= least, "{all:?}");
    }
    // which flows share a bucket depends on the table's seed, which is nobody's: 98 to 125
    assert!(levels.flow.stats().hits > 60);
}

/// Counters go on when rules are replaced: what was counted by the old program is told before, and nothing twice.
#[test]
fn a_new_program_goes_on_with_what_was_counted() {
    let chain = "FromDevice(in) -> Strip(14) -> CheckIPHeader -> k :: IPClassifier(udp, tcp) -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a)
        -> ToDevice(out); k [1] -> Discard;";
    let mut levels = Levels::new(chain);
    let mut r = Rng(4);
    let mut some = |levels: &mut Levels| {
        let frames: Vec<Vec<u8>> = (0..50).map(|_| frame(&mut r).1).collect();
        levels.batch("in", &frames);
    };
    some(&mut levels);
    // nobody has asked yet: the change finds out
    let write = ("k.pattern0", "tcp");
    let graphs = [&mut levels.scalar, &mut levels.batched];
    for g in graphs {
        g.write_handler(write.0, write.1).unwrap();
    }
    for r in [&mut levels.single, &mut levels.program] {
        r.graph_mut().write_handler(write.0, write.1).unwrap();
        renew(r);
    }
    levels
        .flow
        .graph_mut()
        .write_handler(write.0, write.1)
        .unwrap();
    let program = synthesize(&levels.flow.graph().synthesis_input(), Budget::default());
    levels.flow.load(&program).unwrap();
    let before = levels.counts("k");
    some(&mut levels);
    let after = levels.counts("k");
    assert_ne!(before, after);
    assert!(after.starts_with("0 "), "{after}");
}

fn renew(r: &mut ProgramRunner) {
    let program = synthesize(&r.graph().synthesis_input(), Budget::default());
    r.load(&program).unwrap();
}
