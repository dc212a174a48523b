//! Translation against a plain list of connections that is kept as the kernel keeps its own, and packet by packet.

use super::apply::write;
use super::begin::Confirmed;
use super::class::{ConnClass, ConnState};
use super::headers::{Seen, read};
use super::key::{Ends, Place};
use super::range::{Range, Side};
use super::settings::Settings;
use super::table::{ConnTable, Found};
use crate::testing::cases;
use onefold_packet::checksum;
use proptest::prelude::*;

const STAYS: u64 = 30_000;

/// As nf_conntrack_tuple: of ICMP, the identifier is the source port, and type and code are the destination port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tuple {
    src: u32,
    dst: u32,
    sport: u16,
    dport: u16,
    protocol: u8,
}

impl Tuple {
    fn inverse(self) -> Tuple {
        let (sport, dport) = match self.protocol {
            1 => (self.sport, 0x800 ^ self.dport),
            _ => (self.dport, self.sport),
        };
        Tuple {
            src: self.dst,
            dst: self.src,
            sport,
            dport,
            ..self
        }
    }

    /// A packet with these ends.
    fn packet(self) -> Vec<u8> {
        let mut upper = match self.protocol {
            1 => vec![(self.dport >> 8) as u8, 0, 0, 0, 0, 0, 0, 1],
            17 => vec![0, 0, 0, 0, 0, 10, 0, 0, 1, 2],
            _ => vec![0; 20],
        };
        match self.protocol {
            1 => upper[4..6].copy_from_slice(&self.sport.to_be_bytes()),
            _ => {
                upper[..2].copy_from_slice(&self.sport.to_be_bytes());
                upper[2..4].copy_from_slice(&self.dport.to_be_bytes());
            }
        }
        ip(self.src, self.dst, self.protocol, &upper)
    }

    fn ends(self) -> Ends {
        let place = |a: u32, port| {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&a.to_be_bytes());
            Place { address, port }
        };
        Ends {
            src: place(self.src, self.sport),
            dst: place(self.dst, self.dport),
            protocol: self.protocol,
            v6: false,
        }
    }

    fn of_ends(e: &Ends) -> Tuple {
        let of = |p: &Place| u32::from_be_bytes(*p.address.first_chunk::<4>().unwrap());
        Tuple {
            src: of(&e.src),
            dst: of(&e.dst),
            sport: e.src.port,
            dport: e.dst.port,
            protocol: e.protocol,
        }
    }
}

/// An IPv4 packet with right checksums.
fn ip(src: u32, dst: u32, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut b = vec![0x45, 0];
    b.extend((20 + upper.len() as u16).to_be_bytes());
    b.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    b.extend(src.to_be_bytes());
    b.extend(dst.to_be_bytes());
    let sum = checksum::internet(&b);
    b[10..12].copy_from_slice(&sum.to_be_bytes());
    b.extend(upper);
    let at = match protocol {
        1 => 22,
        6 => 36,
        17 => 26,
        _ => return b,
    };
    let pseudo = match protocol {
        1 => 0,
        p => checksum::sum(&b[12..20], u64::from(p) + upper.len() as u64),
    };
    let mut sum = !checksum::fold(checksum::sum(&b[20..], pseudo));
    if protocol == 17 && sum == 0 {
        sum = 0xffff;
    }
    b[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    b
}

/// An ICMP error about a packet.
fn about(src: u32, dst: u32, quoted: &[u8]) -> Vec<u8> {
    ip(
        src,
        dst,
        1,
        &[&[3, 1, 0, 0, 0, 0, 0, 0][..], quoted].concat(),
    )
}

/// Numbers that look random, the same for table and model.
struct Draws(u32);

impl Draws {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }
}

/// A table that translates, and its clock.
struct Rig {
    table: ConnTable,
    now: u64,
    draws: Draws,
}

impl Rig {
    fn new() -> Rig {
        let settings = Settings {
            udp: STAYS,
            udp_stream: STAYS,
            icmp: STAYS,
            generic: STAYS,
            translates: true,
            ..Settings::default()
        };
        Rig {
            table: ConnTable::new(settings),
            now: 1_000_000,
            draws: Draws(1),
        }
    }

    fn hook(&mut self, b: &mut [u8], side: Side, range: Option<&Range>) {
        let range = range.filter(|_| self.begins());
        let draws = &mut self.draws;
        let rewrite = (self.table).translate_in_hand(side, range, self.now, &mut || draws.next());
        if let Some(r) = rewrite {
            assert!(write(b, side, &r), "{side:?} {r:?} {b:?}");
        }
    }

    fn begins(&self) -> bool {
        let c = self.table.in_hand.class;
        c.is_some_and(|c| c.state == ConnState::New && !c.confirmed)
    }

    /// A packet through everything: as it is between the two translations, and as it leaves, if it does.
    fn pass(
        &mut self,
        b: &[u8],
        dnat: Option<&Range>,
        snat: Option<&Range>,
        drops: bool,
    ) -> (Vec<u8>, Option<Vec<u8>>, ConnClass) {
        let mut b = b.to_vec();
        let class = match self.table.track(&read(&b, true), self.now) {
            Found::Is(c, _) => c,
            Found::Full => panic!("full"),
        };
        self.hook(&mut b, Side::Dst, dnat);
        let between = b.clone();
        if drops {
            return (between, None, class);
        }
        self.hook(&mut b, Side::Src, snat);
        let confirmed = self.table.confirm(&read(&b, true), self.now);
        assert_ne!(confirmed, Confirmed::Full);
        let leaves = (confirmed != Confirmed::Clashes).then_some(b);
        (between, leaves, class)
    }

    /// What a tuple's packet leaves as.
    fn leaves(&mut self, t: Tuple, dnat: &str, snat: &str) -> Option<Tuple> {
        let parse = |s: &str| (!s.is_empty()).then(|| Range::parse(s).unwrap());
        let (dnat, snat) = (parse(dnat), parse(snat));
        let (_, b, _) = self.pass(&t.packet(), dnat.as_ref(), snat.as_ref(), false);
        let b = b?;
        assert!(!matches!(read(&b, true), Seen::Invalid(_)), "{b:?}");
        assert_eq!(checksum::internet(&b[..20]), 0);
        Some(tuple_of(&b))
    }
}

fn tuple_of(b: &[u8]) -> Tuple {
    let four = |at: usize| u32::from_be_bytes(*b[at..].first_chunk::<4>().unwrap());
    let two = |at: usize| u16::from_be_bytes(*b[at..].first_chunk::<2>().unwrap());
    let (sport, dport) = match b[9] {
        1 => (two(24), u16::from(b[20]) << 8),
        _ => (two(20), two(22)),
    };
    Tuple {
        src: four(12),
        dst: four(16),
        sport,
        dport,
        protocol: b[9],
    }
}

/// A connection of the model.
#[derive(Debug, Clone, Copy)]
struct Plain {
    orig: Tuple,
    reply: Tuple,
    ends: u64,
}

/// The kernel's list, and what nf_nat_core.c does with it.
struct Model {
    all: Vec<Plain>,
    draws: Draws,
}

impl Model {
    /// nf_conntrack_tuple_taken, of the reply.
    fn used(&self, t: Tuple) -> bool {
        let reply = t.inverse();
        self.all.iter().any(|c| c.orig == reply || c.reply == reply)
    }

    fn in_range(r: &Range, t: Tuple) -> bool {
        r.has(&t.ends(), Side::Src)
    }

    /// get_unique_tuple.
    fn unique(&mut self, curr: Tuple, r: &Range, side: Side) -> Tuple {
        if side == Side::Src && !r.random {
            if Model::in_range(r, curr) {
                if !self.used(curr) {
                    return curr;
                }
            } else {
                let same = |c: &&Plain| {
                    let source = |t: Tuple| (t.src, t.sport, t.protocol);
                    let to = c.reply.inverse();
                    source(c.orig) == source(curr)
                        && (to.src, to.sport) != (c.orig.src, c.orig.sport)
                };
                let found = self.all.iter().rev().filter(same).find_map(|c| {
                    let to = c.reply.inverse();
                    let t = Tuple {
                        src: to.src,
                        sport: to.sport,
                        ..curr
                    };
                    Model::in_range(r, t).then_some(t)
                });
                if let Some(t) = found
                    && !self.used(t)
                {
                    return t;
                }
            }
        }
        let mut e = curr.ends();
        r.choose_address(&mut e, side);
        let mut t = Tuple::of_ends(&e);
        let id = t.protocol == 1;
        let port = if id || side == Side::Src {
            t.sport
        } else {
            t.dport
        };
        if !r.random {
            match r.ports {
                Some((lo, hi)) => {
                    let fits = (lo..=hi).contains(&port);
                    if fits && (lo == hi || !self.used(t)) {
                        return t;
                    }
                }
                None if !self.used(t) => return t,
                None => {}
            }
        }
        let (min, size) = match r.ports {
            Some((lo, hi)) => (u32::from(lo), u32::from(hi - lo) + 1),
            None if id => (0, 65_536),
            None if side == Side::Dst => return t,
            None if port < 512 => (1, 511),
            None if port < 1024 => (600, 424),
            None => (1024, 64_512),
        };
        let mut off = match r.random || side == Side::Src {
            true => self.draws.next() as u16,
            false => 0,
        };
        let mut attempts = size.min(128);
        loop {
            for _ in 0..attempts {
                let port = (min + u32::from(off) % size) as u16;
                match id || side == Side::Src {
                    true => t.sport = port,
                    false => t.dport = port,
                }
                if !self.used(t) {
                    return t;
                }
                off = off.wrapping_add(1);
            }
            if attempts >= size || attempts < 16 {
                return t;
            }
            attempts /= 2;
            off = self.draws.next() as u16;
        }
    }

    /// A first packet: as it is between the two translations, and as it leaves.
    fn begin(&mut self, t: Tuple, dnat: Option<&Range>, snat: Option<&Range>) -> [Tuple; 2] {
        let null = |t: Tuple, side: Side| Range::null(side.of(&t.ends()));
        let between = self.unique(t, dnat.unwrap_or(&null(t, Side::Dst)), Side::Dst);
        let leaves = self.unique(
            between,
            snat.unwrap_or(&null(between, Side::Src)),
            Side::Src,
        );
        [between, leaves]
    }
}

const DNAT: [&str; 6] = [
    "",
    "10.0.0.5 81",
    "10.0.0.5-10.0.0.6",
    "- 82-83",
    "10.0.0.0/30",
    "10.0.0.5 80-90 random",
];
const SNAT: [&str; 7] = [
    "",
    "192.0.2.1",
    "192.0.2.1 5000-5001",
    "192.0.2.1-192.0.2.3 random",
    "192.0.2.1-192.0.2.3 persistent",
    "192.0.2.0/30 1024-2000",
    "192.0.2.1 7",
];

proptest! {
    #![proptest_config(cases(256))]

    /// First packets, later ones, replies and errors, of UDP and pings, translated and not.
    #[test]
    fn as_the_kernels_list(
        steps in prop::collection::vec(
            (0u8..5, 0u32..3, 0u32..3, 0u16..2, any::<bool>(), 0usize..64, 0u64..9_000, 0u8..8),
            1..120,
        ),
        ranges in (0usize..DNAT.len(), 0usize..SNAT.len()),
        some in any::<[bool; 2]>(),
    ) {
        let mut r = Rig::new();
        let mut m = Model { all: Vec::new(), draws: Draws(1) };
        let range = |s: &str| (!s.is_empty()).then(|| Range::parse(s).unwrap());
        let (dnat, snat) = (range(DNAT[ranges.0]), range(SNAT[ranges.1]));
        for (kind, src, dst, port, ping, pick, wait, drops) in steps {
            r.now += wait;
            let drops = drops == 0;
            m.all.retain(|c| r.now < c.ends);
            let known = (!m.all.is_empty()).then(|| pick % m.all.len());
            let fresh = Tuple {
                src: 0x0a00_0001 + src,
                dst: 0xc633_6401 + dst,
                sport: [500, 2000][usize::from(port)],
                dport: if ping { 0x800 } else { 80 },
                protocol: if ping { 1 } else { 17 },
            };
            let t = match (kind, known) {
                (0 | 1, _) | (_, None) => fresh,
                (2, Some(i)) => m.all[i].orig,
                (_, Some(i)) => m.all[i].reply,
            };
            // rules are for some hosts only
            let asked = |r: &Option<Range>, one: bool| r.filter(|_| one || t.src & 1 == 0);
            let (dnat, snat) = (asked(&dnat, some[0]), asked(&snat, some[1]));
            if let (4, Some(i)) = (kind, known) {
                // an error about the connection's packets, from a router
                let c = m.all[i];
                for (seen, sent, changes) in [
                    (c.reply.inverse(), c.orig, c.orig.dst != c.reply.src),
                    (c.orig.inverse(), c.reply, c.orig.src != c.reply.dst),
                ] {
                    let changes_port = sent.dport != seen.dport && sent.protocol != 1;
                    let router = 0x0808_0808;
                    let b = about(router, seen.src, &seen.packet());
                    let (_, got, class) = r.pass(&b, dnat.as_ref(), snat.as_ref(), false);
                    prop_assert_eq!(class.state, ConnState::Related);
                    let from = if changes || changes_port { sent.dst } else { router };
                    prop_assert_eq!(got.unwrap(), about(from, sent.src, &sent.packet()));
                }
                continue;
            }
            let (between, leaves, class) = r.pass(&t.packet(), dnat.as_ref(), snat.as_ref(), drops);
            let found = m.all.iter().position(|c| c.reply == t || c.orig == t);
            match found {
                Some(i) => {
                    let c = &mut m.all[i];
                    c.ends = r.now + STAYS;
                    let out = if c.reply == t { c.orig.inverse() } else { c.reply.inverse() };
                    prop_assert!(class.confirmed);
                    prop_assert_eq!(tuple_of(&between).dst, out.dst);
                    prop_assert_eq!(tuple_of(&between).src, t.src);
                    let snat = (c.orig.src, c.orig.sport) != (c.reply.dst, c.reply.inverse().sport);
                    let dnat = c.orig.dst != c.reply.src || c.orig.dport != c.reply.inverse().dport;
                    if t.protocol == 17 {
                        prop_assert_eq!((class.snat, class.dnat), (snat, dnat));
                    }
                    if !drops {
                        prop_assert_eq!(leaves.unwrap(), out.packet());
                    }
                }
                None if t.protocol == 1 && t.dport != 0x800 => {
                    prop_assert_eq!(class, ConnClass::without(ConnState::Invalid));
                }
                None => {
                    prop_assert_eq!(class, ConnClass::without(ConnState::New));
                    // who is dropped has been asked about its destination only
                    if drops {
                        let null = Range::null(Side::Dst.of(&t.ends()));
                        let to = m.unique(t, dnat.as_ref().unwrap_or(&null), Side::Dst);
                        prop_assert_eq!(between, to.packet());
                        continue;
                    }
                    let [mid, out] = m.begin(t, dnat.as_ref(), snat.as_ref());
                    prop_assert_eq!(between, mid.packet());
                    match leaves {
                        None => prop_assert!(m.used(out)),
                        Some(b) => {
                            prop_assert!(!m.used(out));
                            prop_assert_eq!(b, out.packet());
                            m.all.push(Plain { orig: t, reply: out.inverse(), ends: r.now + STAYS });
                        }
                    }
                }
            }
            prop_assert_eq!(r.table.len(r.now), m.all.len());
        }
    }
}

fn udp(src: [u8; 4], sport: u16, dst: [u8; 4], dport: u16) -> Tuple {
    Tuple {
        src: u32::from_be_bytes(src),
        dst: u32::from_be_bytes(dst),
        sport,
        dport,
        protocol: 17,
    }
}

const INSIDE: [u8; 4] = [10, 0, 0, 1];
const OTHER: [u8; 4] = [10, 0, 0, 2];
const OUTSIDE: [u8; 4] = [203, 0, 113, 1];
const SERVER: [u8; 4] = [198, 51, 100, 7];

#[test]
fn ports_stay_where_they_can() {
    let mut r = Rig::new();
    let to = |t: Tuple| (t.src.to_be_bytes(), t.sport);
    let out = |r: &mut Rig, src, port, dst| {
        to(r.leaves(udp(src, port, dst, 53), "", "203.0.113.1")
            .unwrap())
    };
    assert_eq!(out(&mut r, INSIDE, 4000, SERVER), (OUTSIDE, 4000));
    // another host, the same port: to another destination it stays, too
    assert_eq!(out(&mut r, OTHER, 4000, [198, 51, 100, 8]), (OUTSIDE, 4000));
    let (_, port) = out(&mut r, OTHER, 4000, SERVER);
    assert!(port != 4000 && port >= 1024);
    // who has an end keeps it for new destinations: the newest one
    assert_eq!(out(&mut r, OTHER, 4000, [198, 51, 100, 9]), (OUTSIDE, port));
    // privileged ports stay privileged
    assert_eq!(out(&mut r, INSIDE, 123, SERVER).1, 123);
    assert!((1..=511).contains(&out(&mut r, OTHER, 123, SERVER).1));
    assert_eq!(out(&mut r, INSIDE, 700, SERVER).1, 700);
    assert!((600..=1023).contains(&out(&mut r, OTHER, 700, SERVER).1));
    // replies find each
    let reply = udp(SERVER, 53, OUTSIDE, port);
    let back = r.leaves(reply, "", "").unwrap();
    assert_eq!(back, udp(SERVER, 53, OTHER, 4000));
    // what nobody waits for is a connection of its own
    let stray = udp(SERVER, 53, OUTSIDE, 9);
    assert_eq!(r.leaves(stray, "", ""), Some(stray));
    let text = r.table.text(r.now);
    assert!(
        text.contains(
            "17 10.0.0.1 4000 198.51.100.7 53 snat as 17 203.0.113.1 4000 198.51.100.7 53 30\n"
        ),
        "{text}"
    );
}

#[test]
fn nothing_is_free() {
    let mut r = Rig::new();
    let out = |r: &mut Rig, src| r.leaves(udp(src, 4000, SERVER, 53), "", "203.0.113.1 5000");
    assert!(out(&mut r, INSIDE).is_some());
    assert_eq!(out(&mut r, OTHER), None);
    assert_eq!((r.table.totals.clashed, r.table.len(r.now)), (1, 1));
    // when the first one has ended, there is room
    r.now += STAYS;
    assert!(out(&mut r, OTHER).is_some());
    assert_eq!(r.table.len(r.now), 1);
    r.table.flush();
    assert_eq!(r.table.text(r.now), "");
}

#[test]
fn forwards_and_turning_back() {
    let mut r = Rig::new();
    // from outside to a forwarded port, and back
    let first = udp(SERVER, 999, OUTSIDE, 80);
    let inner = udp(SERVER, 999, INSIDE, 8080);
    assert_eq!(r.leaves(first, "10.0.0.1 8080", ""), Some(inner));
    assert_eq!(r.leaves(inner.inverse(), "", ""), Some(first.inverse()));
    // from inside to the same address: both ends are translated
    let first = udp(OTHER, 999, OUTSIDE, 80);
    let inner = udp(OUTSIDE, 999, INSIDE, 8080);
    assert_eq!(r.leaves(first, "10.0.0.1 8080", "203.0.113.1"), Some(inner));
    assert_eq!(r.leaves(inner.inverse(), "", ""), Some(first.inverse()));
    // a connection's direction is its own: what goes the other way without translation is another one
    let direct = udp(INSIDE, 8080, OTHER, 999);
    assert_eq!(r.leaves(direct, "", ""), Some(direct));
    // ports that move together
    let t = udp(SERVER, 7, OUTSIDE, 1005);
    let moved = udp(SERVER, 7, INSIDE, 2005);
    assert_eq!(
        r.leaves(t, "10.0.0.1 2000-2010 offset 1000", ""),
        Some(moved)
    );
    assert_eq!(r.table.len(r.now), 4);
}

#[test]
fn ranges_are_read_and_written() {
    for text in [
        "-",
        "- 80",
        "203.0.113.1",
        "203.0.113.1-203.0.113.4 1024-65535 random persistent",
        "10.0.0.0/24",
        "2001:db8::1-2001:db8::f 1-2 offset 7",
        "2001:db8::/64",
    ] {
        assert_eq!(Range::parse(text).unwrap().to_string(), text);
    }
    for bad in [
        "",
        "x",
        "10.0.0.2-10.0.0.1",
        "10.0.0.0/33",
        "1.2.3.4-::1",
        "- 5-4",
        "- offset 3",
        "- 1 2",
    ] {
        assert!(Range::parse(bad).is_err(), "{bad}");
    }
    let mut e = udp(INSIDE, 1, SERVER, 2).ends();
    Range::parse("192.168.128.0/17")
        .unwrap()
        .choose_address(&mut e, Side::Src);
    assert_eq!(e.src.address[..4], [192, 168, 128, 1]);
    // an address of the range, the same one each time
    let range = Range::parse("192.0.2.1-192.0.2.100").unwrap();
    let mut all = std::collections::BTreeSet::new();
    for host in 0..200u8 {
        let mut e = udp([10, 0, 0, host], 1, SERVER, 2).ends();
        range.choose_address(&mut e, Side::Src);
        assert!(range.has(&e, Side::Src));
        all.insert(e.src.address);
    }
    assert!(all.len() > 60, "{}", all.len());
}
