//! Random traffic that finds its way through a chain: flows and their answers, variations of what passed, close misses.

use super::hints::Hints;
use super::{Port, Source};
use crate::event::Event;
use crate::frame::{self, Keep, Shape};
use crate::rng::Rng;
use crate::subject::Outputs;
use onefold_element::ElemId;
use onefold_engine::program::ProgramStep;
use onefold_packet::Timestamp;
use std::collections::VecDeque;

/// Frames that passed, per entry.
const MAX_PASSED: usize = 512;
/// Answers that wait.
const MAX_ANSWERS: usize = 4096;
/// Frames of the exhaustion of a NAT's ports: more than one address has.
const EXHAUSTION: u64 = 70_000;

/// Jumps of the clock in seconds: over the time-outs that elements have by default.
const JUMPS: &[i64] = &[1, 5, 61, 121, 241, 301, 601, 3601, 86_401];

/// A frame and what it answers.
type Passed = (Vec<u8>, Option<(u64, u32)>);

/// The state of one entry.
#[derive(Debug, Clone)]
struct EntryState {
    source: ElemId,
    /// Frames that led to an output, and what they answer.
    passed: Vec<Passed>,
    /// The oldest of them.
    next: usize,
}

/// What an answer answers.
#[derive(Debug, Clone)]
pub struct Answered {
    /// Entry of that frame.
    pub source: ElemId,
    /// That frame.
    pub frame: Vec<u8>,
    /// Its event, and which packet that left.
    pub of: (u64, u32),
}

/// An answer that waits: entry, frame, and what it answers.
type Answer = (usize, Vec<u8>, Option<Answered>);

/// The generator.
pub struct Traffic {
    rng: Rng,
    hints: Hints,
    entries: Vec<EntryState>,
    /// Sink -> index of the entry at the same port.
    back: Vec<(ElemId, usize)>,
    /// Entry, frame, and what it answers.
    answers: VecDeque<Answer>,
    /// What the last frame follows, if it is a variation of an answer.
    follows: Option<(u64, u32)>,
    /// What the last frame answers.
    answered: Option<Answered>,
    now: Timestamp,
    /// Frames still to come.
    left: u64,
    made: u64,
    /// Frames of the present batch still to come.
    batch: usize,
    /// Entry of the present batch.
    at: usize,
    max_batch: usize,
    /// Frames of a batch have times of their own, which are drawn from this.
    times: Option<Rng>,
    /// How far apart they are in the present batch.
    pace: usize,
    /// Frames with new flows still to come, from a frame that passed.
    exhaust: u64,
    exhausted: bool,
    /// The exhaustion is worth its packets.
    long: bool,
}

impl Traffic {
    /// `packets` frames for a chain with these ports; batches of up to `max_batch`. `None` when nothing enters the
    /// chain.
    pub fn new(
        ports: &[Port],
        hints: Hints,
        seed: u64,
        packets: u64,
        start: Timestamp,
        max_batch: usize,
    ) -> Option<Traffic> {
        let mut entries = Vec::new();
        let mut back = Vec::new();
        for p in ports {
            if let Some(source) = p.source {
                back.extend(p.sinks.iter().map(|s| (*s, entries.len())));
                entries.push(EntryState {
                    source,
                    passed: Vec::new(),
                    next: 0,
                });
            }
        }
        (!entries.is_empty()).then(|| Traffic {
            rng: Rng::new(seed),
            hints,
            entries,
            back,
            answers: VecDeque::new(),
            answered: None,
            follows: None,
            now: start,
            left: packets,
            made: 0,
            batch: 0,
            at: 0,
            max_batch: max_batch.max(1),
            times: None,
            pace: 0,
            exhaust: 0,
            exhausted: false,
            long: packets >= 4 * EXHAUSTION,
        })
    }

    /// What the configuration names.
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// The frame that the last one answers, if it does.
    pub fn answered(&self) -> Option<&Answered> {
        self.answered.as_ref()
    }

    /// A frame that is to be varied, as if it had passed; for frames made elsewhere.
    pub fn learn(&mut self, source: ElemId, frame: &[u8]) {
        if let Some(i) = self.entries.iter().position(|e| e.source == source) {
            self.keep(i, frame, None);
        }
    }

    fn keep(&mut self, entry: usize, frame: &[u8], answers: Option<(u64, u32)>) {
        let Some(e) = self.entries.get_mut(entry) else {
            return;
        };
        if frame.len() > 2000 {
            return;
        }
        if e.passed.len() < MAX_PASSED {
            e.passed.push((frame.to_vec(), answers));
        } else if let Some(slot) = e.passed.get_mut(e.next % MAX_PASSED) {
            *slot = (frame.to_vec(), answers);
            e.next += 1;
        }
    }

    fn v4(&mut self) -> [u8; 4] {
        let r = self.rng.bits() as u32;
        let a = match self.rng.pick(&self.hints.v4) {
            Some((a, len)) => {
                let host = u32::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
                match r % 8 {
                    // both sides of a prefix
                    0 => a & !host,
                    1 => a | host,
                    2 => (a & !host).wrapping_sub(1),
                    3 => (a | host).wrapping_add(1),
                    4 => *a,
                    _ => (a & !host) | (r & host),
                }
            }
            None => 0x0a00_0000 | (r & 0x00ff_ffff),
        };
        a.to_be_bytes()
    }

    fn v6(&mut self) -> [u8; 16] {
        let r = self.rng.wide();
        let a = match self.rng.pick(&self.hints.v6) {
            Some((a, len)) => {
                let host = u128::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
                match r % 6 {
                    0 => a & !host,
                    1 => a | host,
                    2 => (a | host).wrapping_add(1),
                    3 => *a,
                    _ => (a & !host) | (r & host),
                }
            }
            None => (0x2001_0db8u128 << 96) | (r & 0xffff),
        };
        a.to_be_bytes()
    }

    fn port(&mut self) -> [u8; 2] {
        let r = self.rng.bits();
        let p = match (r % 4, self.rng.pick(&self.hints.ports)) {
            (0, _) | (_, None) => (r >> 16) as u16,
            (1, Some(p)) => p.wrapping_add(((r >> 8) % 3) as u16).wrapping_sub(1),
            (_, Some(p)) => *p,
        };
        p.to_be_bytes()
    }

    fn mac(&mut self) -> [u8; 6] {
        let r = self.rng.bits();
        match (r % 64, self.rng.pick(&self.hints.macs)) {
            (0, _) => [0xff; 6],
            (1, _) => [1, 0, 0x5e, 0, 0, (r >> 8) as u8],
            (2, _) | (_, None) => [2, 0, 0, 0, (r >> 8) as u8 & 3, (r >> 16) as u8 & 7],
            (_, Some(m)) => *m,
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        let n = match self.rng.below(16) {
            0 => 0,
            1 => 1,
            2 => 1200 + self.rng.below(260),
            3 => 200 + self.rng.below(300),
            _ => self.rng.below(60),
        };
        let mut p: Vec<u8> = (0..n).map(|i| b'a' + ((i * 7) % 26) as u8).collect();
        if self.rng.one_in(8)
            && let Some(t) = self.rng.pick(&self.hints.texts)
        {
            let at = match self.rng.one_in(2) {
                true => 0,
                false => self.rng.below(p.len() + 1),
            };
            p.splice(at..at, t.iter().copied());
        }
        p
    }

    /// A frame from scratch.
    pub(crate) fn fresh(&mut self) -> Vec<u8> {
        let v6 = !self.hints.v6.is_empty() && self.rng.one_in(2);
        let proto = match self.rng.below(20) {
            0..9 => 6,
            9..17 => 17,
            17..19 if v6 => 58,
            17..19 => 1,
            _ => self.rng.below(256) as u8,
        };
        let tags = match self.hints.vlans.is_empty() {
            true => usize::from(self.rng.one_in(100)),
            false => self.rng.below(2),
        };
        let mut f = frame::make(Shape {
            version: if v6 { 6 } else { 4 },
            proto,
            tags,
            payload: 0,
        });
        f.extend(self.payload());
        let mac = self.mac();
        f[..6].copy_from_slice(&mac);
        if tags > 0
            && let Some(v) = self.rng.pick(&self.hints.vlans)
        {
            f[14..16].copy_from_slice(&v.to_be_bytes());
        }
        for what in 0..4 {
            self.vary(&mut f, what);
        }
        frame::finish(&mut f, Keep::default());
        f
    }

    /// Changes one field: source, destination, source port, destination port, flags, and lesser ones.
    fn vary(&mut self, f: &mut [u8], what: usize) {
        let Some(v) = frame::view(f) else { return };
        let t = v.transport.filter(|_| matches!(v.proto, 6 | 17));
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(s) = f.get_mut(at..at + bytes.len()) {
                s.copy_from_slice(bytes);
            }
        };
        match (what, v.ether_type) {
            (0 | 1, 0x0800) => put(v.net + 12 + 4 * what, &self.v4()),
            (0 | 1, 0x86dd) => put(v.net + 8 + 16 * what, &self.v6()),
            (2 | 3, _) => match t {
                Some(t) => put(t + 2 * (what - 2), &self.port()),
                // the identifier of a ping
                None => {
                    if let Some(t) = v.transport {
                        let id = [0, self.rng.below(8) as u8];
                        put(t + 4, &id);
                    }
                }
            },
            (4, _) => {
                if let (6, Some(t)) = (v.proto, t) {
                    const FLAGS: &[u8] = &[0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0x14, 0x00, 0x3f];
                    let flags = self.rng.pick(FLAGS).copied().unwrap_or(0x10);
                    put(t + 13, &[flags]);
                }
            }
            (5, 0x0800) => put(v.net + 1, &[self.rng.bits() as u8]),
            (6, 0x0800) => {
                let ttls = [1, 2, 3, 5, 11, 12, 13, 63, 64, 128, 255];
                let ttl = self.rng.pick(&ttls).copied().unwrap_or(64);
                put(v.net + 8, &[ttl]);
            }
            (6, 0x86dd) => put(v.net + 7, &[self.rng.below(256) as u8]),
            (7, _) => put(0, &self.mac()),
            (8, 0x0800) => put(v.net + 4, &(self.rng.bits() as u16).to_be_bytes()),
            (9, 0x0800) => {
                let proto = [1u8, 2, 6, 17, 47, 50, 58];
                let p = self.rng.pick(&proto).copied().unwrap_or(6);
                put(v.net + 9, &[p]);
            }
            _ => {}
        }
    }

    /// Something that is not quite right.
    fn break_it(&mut self, f: &mut Vec<u8>) {
        let Some(v) = frame::view(f) else { return };
        let fin = |f: &mut [u8], keep: Keep| frame::finish(f, keep);
        let lengths = Keep {
            ip_len: true,
            udp_len: true,
            ..Keep::default()
        };
        match self.rng.below(14) {
            // time to live
            0 | 1 => {
                let at = if v.ether_type == 0x86dd { 7 } else { 8 };
                if let Some(b) = f.get_mut(v.net + at) {
                    *b = self.rng.below(3) as u8;
                }
                fin(f, lengths);
            }
            // checksums
            2 | 3 => {
                let at = match v.transport {
                    Some(t) if self.rng.one_in(2) => t + [16, 6, 2][self.rng.below(3)],
                    _ => v.net + 10,
                };
                if let Some(b) = f.get_mut(at) {
                    *b ^= 1 << self.rng.below(8);
                }
            }
            // options
            4 if v.ether_type == 0x0800 && f.len() > v.net + 20 => {
                let words = 1 + self.rng.below(10);
                let kinds = [0u8, 1, 7, 68, 130, 131, 136, 137];
                let mut options: Vec<u8> = (0..words * 4)
                    .map(|_| *self.rng.pick(&kinds).unwrap_or(&1))
                    .collect();
                options[1] = self.rng.below(words * 4 + 2) as u8;
                f.splice(v.net + 20..v.net + 20, options);
                f[v.net] = 0x40 | (5 + words as u8);
                fin(f, Keep::default());
            }
            // fragments
            5 | 6 if v.ether_type == 0x0800 && f.len() > v.net + 8 => {
                let offset = [0, 1, 2, 100, 0x1fff][self.rng.below(5)] as u16;
                let more = if self.rng.one_in(2) { 0x2000 } else { 0 };
                f[v.net + 6..v.net + 8].copy_from_slice(&(offset | more).to_be_bytes());
                fin(f, Keep::default());
            }
            // cut
            7 => {
                let n = self.rng.below(f.len() + 1);
                f.truncate(n);
            }
            // cut, but with lengths that fit
            8 => {
                let n = v.net + self.rng.below((f.len() + 1).saturating_sub(v.net).max(1));
                f.truncate(n);
                fin(f, Keep::default());
            }
            // lying lengths
            9 => {
                let at = match v.transport {
                    Some(t) if v.proto == 17 && self.rng.one_in(2) => t + 4,
                    _ => v.net + if v.ether_type == 0x86dd { 4 } else { 2 },
                };
                let delta = [1u16, 2, 8, 100, 0xffff, 0xfff8, 0x8000][self.rng.below(7)];
                if let Some(s) = f.get_mut(at..at + 2) {
                    let old = u16::from_be_bytes([s[0], s[1]]);
                    s.copy_from_slice(&old.wrapping_add(delta).to_be_bytes());
                }
                fin(f, lengths);
            }
            // padding behind the packet
            10 => {
                let n = f.len() + 1 + self.rng.below(30);
                f.resize(n, 0x55);
            }
            // version and header length
            11 => {
                if let Some(b) = f.get_mut(v.net) {
                    *b = self.rng.bits() as u8;
                }
                fin(f, lengths);
            }
            // no UDP checksum
            12 => {
                if let (17, Some(t)) = (v.proto, v.transport)
                    && let Some(s) = f.get_mut(t + 6..t + 8)
                {
                    s.copy_from_slice(&[0, 0]);
                }
            }
            _ => {
                let n = f.len().max(1);
                if let Some(b) = f.get_mut(self.rng.below(n)) {
                    *b ^= 1 << self.rng.below(8);
                }
            }
        }
    }

    /// A frame for the present entry.
    fn frame(&mut self) -> Vec<u8> {
        if self.exhaust > 0 {
            self.exhaust -= 1;
            if let Some(mut f) = self
                .entries
                .get(self.at)
                .and_then(|e| {
                    let plain = e.passed.iter().find(|(f, _)| frame::is_plain(f));
                    plain.or(e.passed.first())
                })
                .map(|(f, _)| f.clone())
            {
                // a new source port each time, another source address when they are used up
                if let Some(v) = frame::view(&f)
                    && let Some(t) = v.transport
                {
                    let n = self.exhaust;
                    if let Some(s) = f.get_mut(t..t + 2) {
                        s.copy_from_slice(&(n as u16).to_be_bytes());
                    }
                    if v.ether_type == 0x0800
                        && let Some(b) = f.get_mut(v.net + 15)
                    {
                        *b = b.wrapping_add((n >> 16) as u8);
                    }
                    frame::finish(&mut f, Keep::default());
                    return f;
                }
            }
        }
        let passed = |t: &mut Self| -> Option<Passed> {
            let at = t.at;
            let e = t.entries.get(at)?;
            t.rng.pick(&e.passed).cloned()
        };
        let dice = self.rng.below(100);
        if dice < 30
            && let Some(i) = self.answers.iter().position(|(e, _, _)| *e == self.at)
            && let Some((_, f, of)) = self.answers.remove(i)
        {
            self.answered = of;
            return f;
        }
        if dice < 92
            && let Some((mut f, answers)) = passed(self)
        {
            let before = answers.map(|a| (f.clone(), a));
            match dice {
                // the next packet of a flow
                0..40 => self.vary(&mut f, 4),
                // a neighbour of it
                40..70 => {
                    let what = [0, 1, 2, 3, 2, 3][self.rng.below(6)];
                    self.vary(&mut f, what);
                }
                70..86 => {
                    for _ in 0..1 + self.rng.below(3) {
                        let what = self.rng.below(10);
                        self.vary(&mut f, what);
                    }
                }
                _ => {
                    // other bytes behind the headers
                    let p = self.payload();
                    if let Some(t) = frame::view(&f).and_then(|v| v.transport) {
                        let head = t + 20;
                        if f.len() > head {
                            f.truncate(head);
                        }
                        f.extend(p);
                    }
                }
            }
            frame::finish(&mut f, Keep::default());
            // it goes where the answer went
            self.follows = before.and_then(|(b, a)| frame::same_destination(&b, &f).then_some(a));
            return f;
        }
        if dice < 97 {
            return self.fresh();
        }
        let mut f = match passed(self) {
            Some((f, _)) => f,
            None => self.fresh(),
        };
        if dice < 99 {
            self.break_it(&mut f);
            return f;
        }
        match self.rng.below(4) {
            0 => {
                let (ip, asked) = (self.v4(), self.v4());
                frame::arp_request([2, 0, 0, 0, 0, 1], ip, asked)
            }
            1 => (0..self.rng.below(80))
                .map(|_| self.rng.bits() as u8)
                .collect(),
            2 => {
                if let Some(s) = f.get_mut(12..14) {
                    s.copy_from_slice(&(self.rng.bits() as u16).to_be_bytes());
                }
                f
            }
            _ => {
                for _ in 0..2 {
                    self.break_it(&mut f);
                }
                f
            }
        }
    }
}

impl Traffic {
    /// Frames of one batch come at times of their own: equal, or up to microseconds, milliseconds, seconds apart.
    pub fn stamped(mut self, seed: u64) -> Traffic {
        self.times = Some(Rng::new(seed ^ 0x7157));
        self
    }

    /// The clock moves on to the next frame of the batch.
    fn step_in_batch(&mut self) {
        if let Some(t) = &mut self.times {
            let most = PACES.get(self.pace).copied().unwrap_or(0);
            // most of them are close to each other, whatever the pace
            let step = match t.below(4) {
                0 => t.below(most + 1),
                _ => t.below(most / 50 + 1),
            };
            self.now = self.now + Timestamp(step as i64);
        }
    }
}

/// Longest times between two frames of a batch, in nanoseconds.
const PACES: [usize; 6] = [0, 900, 20_000, 1_500_000, 40_000_000, 30_000_000_000];

impl Source for Traffic {
    fn next(&mut self) -> Option<Event> {
        if self.left == 0 {
            return None;
        }
        let joined = self.batch > 0;
        if joined {
            self.batch -= 1;
            self.step_in_batch();
        } else {
            let step = match self.rng.below(20_000) {
                // time-outs expire; a packet comes later
                0 => {
                    let s = self.rng.pick(JUMPS).copied().unwrap_or(1);
                    self.now = self.now + Timestamp::from_secs(s);
                    return Some(Event::clock(self.now));
                }
                1..40 => 1_000_000 * (1 + self.rng.below(500) as i64),
                _ => 1000 * self.rng.below(20) as i64,
            };
            self.now = self.now + Timestamp(step);
            if self.exhaust == 0 {
                self.at = self.rng.below(self.entries.len());
            }
            if self.long && !self.exhausted && self.left < 3 * EXHAUSTION {
                self.exhausted = true;
                self.exhaust = EXHAUSTION;
                self.at = 0;
            }
            self.batch = match self.rng.below(3) {
                0 => 0,
                _ => self.rng.below(self.max_batch),
            };
            self.pace = self.times.as_mut().map_or(0, |t| t.below(PACES.len()));
        }
        self.left -= 1;
        self.made += 1;
        self.answered = None;
        self.follows = None;
        let bytes = self.frame();
        let source = self.entries.get(self.at)?.source;
        Some(Event {
            joined,
            answers: self.answered.as_ref().map(|a| a.of).or(self.follows),
            ..Event::frame(self.now, source, bytes)
        })
    }

    fn seen(&mut self, events: &[Event], outputs: &Outputs, _: &[ProgramStep]) {
        self.answered = None;
        if outputs.is_empty() {
            return;
        }
        // of a batch it is not known which frames passed, unless all did
        if outputs.len() >= events.len() {
            // an error (a redirect, too) takes the reference graph: such packets are to be few
            let errors = outputs.iter().any(|(_, _, b)| frame::is_error(b));
            for e in events {
                if errors && !frame::is_error(&e.bytes) && !self.rng.one_in(64) {
                    continue;
                }
                // what was sent back, or is an exception, is worth less as an example
                let back = |k: ElemId| {
                    let entry = self.back.iter().find(|(s, _)| *s == k);
                    entry
                        .and_then(|(_, i)| self.entries.get(*i))
                        .map(|x| x.source)
                };
                let returned = outputs
                    .iter()
                    .all(|(k, _, _)| back(k).is_some() && back(k) == e.source);
                if (returned || !frame::is_plain(&e.bytes)) && !self.rng.one_in(16) {
                    continue;
                }
                if let Some(i) = self.entries.iter().position(|x| Some(x.source) == e.source) {
                    self.keep(i, &e.bytes, e.answers);
                }
            }
        }
        for (nth, (sink, _, bytes)) in outputs.iter().enumerate() {
            let Some((_, entry)) = self.back.iter().find(|(s, _)| *s == sink) else {
                continue;
            };
            if self.answers.len() >= MAX_ANSWERS {
                self.answers.pop_front();
            }
            if let Some(a) = frame::answer(bytes) {
                let of = match events {
                    [e] => e.source.map(|source| Answered {
                        source,
                        frame: e.bytes.clone(),
                        of: (e.id, nth as u32),
                    }),
                    _ => None,
                };
                self.answers.push_back((*entry, a, of));
            }
        }
    }
}
