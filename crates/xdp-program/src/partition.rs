//! The partition function ([`onefold_partition`]) as code: the same worker, or no decision.
//!
//! Left undecided are fragments where more than addresses tells, IPv6 packets with extension headers, replies of
//! neighbours that all workers get, headers with options where ports tell, and frames that end within what is read.

use crate::emit::{self, SCRATCH, VALUE};
use onefold_bpf::{Assembler, Label, Op, Reg, Size, When};
use onefold_partition::{Hash, Partition, Pool, PortRule, Transport};
use std::net::Ipv4Addr;

/// Forwards of a NAT, and hosts, that the code knows: of NATs with more, packets to them are left undecided.
const MOST: usize = 64;

// what is known of a packet
const KIND: Reg = Reg(0);
/// Its destination port, or its identifier.
const NUMBER: Reg = Reg(2);
const SOURCE: Reg = Reg(4);
const DESTINATION: Reg = Reg(5);

// kinds: which number it has
const NONE: i32 = 0;
const ICMP: i32 = 1;
const TCP: i32 = 6;
const UDP: i32 = 17;
const ICMP6: i32 = 58;

/// The multipliers of the hash's finisher, and where it starts (splitmix64).
const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;
const START: u64 = 0x9e37_79b9_7f4a_7c15;

struct Decider<'a> {
    a: &'a mut Assembler,
    workers: usize,
    seed: u64,
    rule: &'a PortRule,
    /// With the worker in register 1.
    to: Label,
    unknown: Label,
    /// It is worker 0.
    zero: Label,
}

/// Goes to `to` with the worker in register 1, or to `unknown`.
pub(crate) fn decide(
    a: &mut Assembler,
    partition: &Partition,
    port: usize,
    to: Label,
    unknown: Label,
) {
    let zero = a.label();
    let rule = partition.ports().get(port);
    if let Some(rule) = rule.filter(|_| partition.workers() > 1) {
        let mut d = Decider {
            a,
            workers: partition.workers(),
            seed: partition.seed(),
            rule,
            to,
            unknown,
            zero,
        };
        d.frame();
    }
    a.place(zero);
    a.mov(VALUE, 0);
    a.jump(to);
}

impl Decider<'_> {
    /// Two VLAN tags at most are passed over.
    fn frame(&mut self) {
        for tags in 0..=2u32 {
            let at = 12 + 4 * tags;
            let (tagged, next) = (self.a.label(), self.a.label());
            emit::require(self.a, at + 2, self.unknown);
            emit::number(self.a, VALUE, at, Size::Half);
            if tags < 2 {
                self.a.jump_if32(VALUE, When::Eq, 0x8100, tagged);
                self.a.jump_if32(VALUE, When::Eq, 0x88a8, tagged);
            }
            let (four, six) = (self.a.label(), self.a.label());
            self.a.jump_if32(VALUE, When::Eq, 0x0800, four);
            self.a.jump_if32(VALUE, When::Eq, 0x86dd, six);
            if self.rule.neighbours {
                self.a.jump_if32(VALUE, When::Ne, 0x0806, self.zero);
                // RFC 826: a reply
                emit::require(self.a, at + 10, self.unknown);
                emit::number(self.a, VALUE, at + 8, Size::Half);
                self.a.jump_if32(VALUE, When::Eq, 2, self.unknown);
            }
            self.a.jump(self.zero);
            self.a.place(four);
            self.v4(at + 2);
            self.a.place(six);
            self.v6(at + 2);
            if tags < 2 {
                self.a.place(tagged);
            }
            self.a.place(next);
        }
    }

    fn byte(&mut self, to: Reg, at: u32) {
        emit::number(self.a, to, at, Size::Byte);
    }
    fn half(&mut self, to: Reg, at: u32) {
        emit::number(self.a, to, at, Size::Half);
    }

    /// The version's half of a byte; goes on elsewhere if it is not this one.
    fn version(&mut self, at: u32, version: i32, other: Label) {
        self.byte(VALUE, at);
        self.a.op(Op::Shr, VALUE, 4);
        self.a.jump_if32(VALUE, When::Ne, version, other);
    }

    /// Goes on only with a header without options.
    fn plain(&mut self, at: u32) {
        self.byte(VALUE, at);
        self.a.op(Op::And, VALUE, 15);
        self.a.jump_if32(VALUE, When::Ne, 5, self.unknown);
    }

    fn v4(&mut self, at: u32) {
        emit::require(self.a, at + 20, self.unknown);
        self.version(at, 4, self.zero);
        emit::number(self.a, SOURCE, at + 12, Size::Word);
        emit::number(self.a, DESTINATION, at + 16, Size::Word);
        self.a.mov(KIND, NONE);
        self.a.mov(NUMBER, 0);
        let ports = !self.rule.pools.is_empty();
        let (icmp, found, whole) = (self.a.label(), self.a.label(), self.a.label());
        self.half(VALUE, at + 6);
        self.a.op(Op::And, VALUE, 0x3fff);
        self.a.jump_if32(VALUE, When::Eq, 0, whole);
        // of fragments only addresses may tell
        if ports {
            self.a.jump(self.unknown);
        } else {
            self.byte(VALUE, at + 9);
            self.a.jump_if32(VALUE, When::Eq, ICMP, self.unknown);
            self.a.jump(found);
        }
        self.a.place(whole);
        self.byte(VALUE, at + 9);
        self.a.jump_if32(VALUE, When::Eq, ICMP, icmp);
        if ports {
            self.transport(at, found, 2);
        }
        self.a.jump(found);
        self.a.place(icmp);
        self.icmp(at, found);
        self.a.place(found);
        self.find();
    }

    /// TCP's or UDP's port, if it is one of these; the protocol is in register 1. `offset`: which of both ports.
    fn transport(&mut self, at: u32, found: Label, offset: u32) {
        let is = self.a.label();
        self.a.jump_if32(VALUE, When::Eq, TCP, is);
        self.a.jump_if32(VALUE, When::Ne, UDP, found);
        self.a.place(is);
        self.a.mov(KIND, VALUE);
        self.plain(at);
        emit::require(self.a, at + 24, self.unknown);
        self.half(NUMBER, at + 20 + offset);
        self.a.jump(found);
    }

    fn icmp(&mut self, at: u32, found: Label) {
        self.plain(at);
        emit::require(self.a, at + 28, self.unknown);
        self.byte(VALUE, at + 20);
        let (echo, error) = (self.a.label(), self.a.label());
        for kind in [0, 8] {
            self.a.jump_if32(VALUE, When::Eq, kind, echo);
        }
        // RFC 792: errors quote the packet that they are about
        for kind in [3, 4, 5, 11, 12] {
            self.a.jump_if32(VALUE, When::Eq, kind, error);
        }
        self.a.jump(found);
        self.a.place(echo);
        self.a.mov(KIND, ICMP);
        self.half(NUMBER, at + 24);
        self.a.jump(found);
        self.a.place(error);
        let q = at + 28;
        emit::require(self.a, q + 20, self.unknown);
        self.version(q, 4, found);
        // as if it came in the other direction
        emit::number(self.a, DESTINATION, q + 12, Size::Word);
        emit::number(self.a, SOURCE, q + 16, Size::Word);
        if self.rule.pools.is_empty() {
            return self.a.jump(found);
        }
        self.half(VALUE, q + 6);
        self.a.op(Op::And, VALUE, 0x1fff);
        self.a.jump_if32(VALUE, When::Ne, 0, self.unknown);
        self.byte(VALUE, q + 9);
        let other = self.a.label();
        self.a.jump_if32(VALUE, When::Ne, ICMP, other);
        self.plain(q);
        emit::require(self.a, q + 28, self.unknown);
        self.byte(VALUE, q + 20);
        let echo = self.a.label();
        self.a.jump_if32(VALUE, When::Eq, 0, echo);
        self.a.jump_if32(VALUE, When::Ne, 8, found);
        self.a.place(echo);
        self.a.mov(KIND, ICMP);
        self.half(NUMBER, q + 24);
        self.a.jump(found);
        self.a.place(other);
        self.transport(q, found, 0);
    }

    fn v6(&mut self, at: u32) {
        emit::require(self.a, at + 40, self.unknown);
        self.version(at, 6, self.zero);
        let (found, icmp) = (self.a.label(), self.a.label());
        self.byte(VALUE, at + 6);
        self.no_extensions();
        self.a.jump_if32(VALUE, When::Eq, ICMP6, icmp);
        self.a.place(found);
        self.hash6(at, self.rule.hash);
        self.a.place(icmp);
        emit::require(self.a, at + 41, self.unknown);
        self.byte(VALUE, at + 40);
        // RFC 4861: a neighbour advertisement
        let advertised = match self.rule.neighbours {
            true => self.unknown,
            false => self.zero,
        };
        self.a.jump_if32(VALUE, When::Eq, 136, advertised);
        // RFC 4443: errors are below 128
        self.a.jump_if32(VALUE, When::Ge, 128, found);
        let q = at + 48;
        emit::require(self.a, q + 40, self.unknown);
        self.version(q, 6, found);
        self.byte(VALUE, q + 6);
        self.no_extensions();
        self.a.jump_if32(VALUE, When::Eq, ICMP6, self.unknown);
        let exchanged = match self.rule.hash {
            Hash::Both => Hash::Both,
            Hash::Source => Hash::Destination,
            Hash::Destination => Hash::Source,
        };
        self.hash6(q, exchanged);
    }

    /// The next header in register 1 is none that another one follows.
    fn no_extensions(&mut self) {
        for next in [0, 43, 44, 51, 60] {
            self.a.jump_if32(VALUE, When::Eq, next, self.unknown);
        }
    }

    /// Of IPv4 packets, of which all is known that counts.
    fn find(&mut self) {
        let by_source = self.a.label();
        let mut source_asked = false;
        let pools = self.rule.pools.clone();
        for pool in &pools {
            source_asked |= self.pool(pool, by_source);
        }
        for (first, last) in self.rule.hairpins.clone() {
            let next = self.a.label();
            self.between(DESTINATION, (first.into(), last.into()), next);
            // all packets to these addresses go to one worker
            let hash = mix(self.seed, first);
            let worker = (u128::from(hash) * self.workers as u128) >> 64;
            self.a.mov(VALUE, worker as i32);
            self.a.jump(self.to);
            self.a.place(next);
        }
        let by_destination = self.a.label();
        let hosts = self.rule.hosts.clone();
        for h in hosts.iter().take(MOST) {
            self.a
                .jump_if32(SOURCE, When::Eq, u32::from(*h) as i32, by_destination);
        }
        if hosts.len() > MOST {
            self.a.jump(self.unknown);
        }
        self.hash4(self.rule.hash);
        if !hosts.is_empty() {
            self.a.place(by_destination);
            self.hash4(Hash::Destination);
        }
        if source_asked {
            self.a.place(by_source);
            self.hash4(Hash::Source);
        }
    }

    /// A NAT's outside. True: `by_source` is gone to.
    fn pool(&mut self, pool: &Pool, by_source: Label) -> bool {
        let next = self.a.label();
        let (first, last) = pool.addresses;
        self.between(DESTINATION, (first.into(), last.into()), next);
        if pool.forwards.len() > MOST {
            self.a.jump(self.unknown);
            self.a.place(next);
            return false;
        }
        for f in &pool.forwards {
            let kind = match f.transport {
                Transport::Tcp => TCP,
                Transport::Udp => UDP,
            };
            let other = self.a.label();
            self.a.jump_if32(KIND, When::Ne, kind, other);
            self.a
                .jump_if32(DESTINATION, When::Ne, u32::from(f.address) as i32, other);
            self.a.jump_if32(NUMBER, When::Ne, i32::from(f.port), other);
            self.a.jump(by_source);
            self.a.place(other);
        }
        self.a.jump_if32(KIND, When::Eq, NONE, next);
        let identifier = self.a.label();
        self.a.jump_if32(KIND, When::Eq, ICMP, identifier);
        self.owner(pool.ports, next);
        self.a.place(identifier);
        self.owner(pool.identifiers, next);
        self.a.place(next);
        !pool.forwards.is_empty()
    }

    /// The worker in whose slice of a range the number is.
    fn owner(&mut self, (first, last): (u16, u16), next: Label) {
        let all = last.checked_sub(first).map(|n| u32::from(n) + 1);
        let size = all.map_or(0, |n| n / self.workers as u32);
        if size == 0 {
            return self.a.jump(next);
        }
        self.between(NUMBER, (first.into(), last.into()), next);
        self.a.mov(VALUE, NUMBER);
        self.a.op(Op::Sub, VALUE, i32::from(first));
        self.a.op(Op::Div, VALUE, size as i32);
        // what is left over is the last one's
        let most = self.workers as i32 - 1;
        self.a.jump_if(VALUE, When::Le, most, self.to);
        self.a.mov(VALUE, most);
        self.a.jump(self.to);
    }

    fn between(&mut self, r: Reg, (first, last): (u32, u32), not: Label) {
        self.a.jump_if32(r, When::Lt, first as i32, not);
        self.a.jump_if32(r, When::Gt, last as i32, not);
    }

    fn hash4(&mut self, hash: Hash) {
        let first = finish(self.seed.wrapping_add(START));
        let of = |d: &mut Self, address: Reg| {
            d.a.number(VALUE, first);
            d.a.op(Op::Add, VALUE, address);
            d.finish();
        };
        match hash {
            Hash::Source => of(self, SOURCE),
            Hash::Destination => of(self, DESTINATION),
            Hash::Both => {
                of(self, SOURCE);
                self.a.mov(NUMBER, VALUE);
                of(self, DESTINATION);
                self.a.op(Op::Add, VALUE, NUMBER);
                self.finish();
            }
        }
        self.worker();
    }

    /// Of the IPv6 header at byte `at`.
    fn hash6(&mut self, at: u32, hash: Hash) {
        let start = self.seed.wrapping_add(START);
        let of = |d: &mut Self, address: u32| {
            emit::number(d.a, VALUE, address, Size::Double);
            d.a.number(SCRATCH, start);
            d.a.op(Op::Xor, VALUE, SCRATCH);
            d.finish();
            emit::number(d.a, SCRATCH, address + 8, Size::Double);
            d.a.op(Op::Add, VALUE, SCRATCH);
            d.finish();
        };
        let (source, destination) = (at + 8, at + 24);
        match hash {
            Hash::Source => of(self, source),
            Hash::Destination => of(self, destination),
            Hash::Both => {
                of(self, source);
                self.a.mov(NUMBER, VALUE);
                of(self, destination);
                self.a.op(Op::Add, VALUE, NUMBER);
                self.finish();
            }
        }
        self.worker();
    }

    /// Register 1, every bit of which depends on every bit of it before.
    fn finish(&mut self) {
        for (shift, multiplier) in [(30, Some(FIRST)), (27, Some(SECOND)), (31, None)] {
            self.a.mov(SCRATCH, VALUE);
            self.a.op(Op::Shr, SCRATCH, shift);
            self.a.op(Op::Xor, VALUE, SCRATCH);
            if let Some(m) = multiplier {
                self.a.number(SCRATCH, m);
                self.a.op(Op::Mul, VALUE, SCRATCH);
            }
        }
    }

    /// The worker for the hash in register 1: the upper half of its product with their number.
    fn worker(&mut self) {
        let n = self.workers as i32;
        self.a.mov(SCRATCH, VALUE);
        self.a.op(Op::Shr, SCRATCH, 32);
        self.a.op(Op::Mul, SCRATCH, n);
        self.a.op32(Op::Mov, VALUE, VALUE);
        self.a.op(Op::Mul, VALUE, n);
        self.a.op(Op::Shr, VALUE, 32);
        self.a.op(Op::Add, VALUE, SCRATCH);
        self.a.op(Op::Shr, VALUE, 32);
        self.a.jump(self.to);
    }
}

fn finish(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(FIRST);
    x = (x ^ (x >> 27)).wrapping_mul(SECOND);
    x ^ (x >> 31)
}

/// A hash of an address.
fn mix(seed: u64, a: Ipv4Addr) -> u64 {
    let first = finish(seed.wrapping_add(START));
    finish(first.wrapping_add(u64::from(u32::from(a))))
}
