//! Makes a stranger's capture fit a chain: most of its frames are for other machines, and would be dropped at the door.
//! What was wrong with a packet stays wrong.

use super::index::Index;
use super::read::Seen;
use crate::frame::{self, View};
use onefold_capture::LinkType;
use onefold_element::ElemId;
use onefold_element::model::ValueSet;
use onefold_packet::checksum;
use onefold_synth::program::{Action, Dim, End, Filter, Program, Stage, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The MAC address that rebuilt frames come from.
const FROM: [u8; 6] = [2, 0, 0, 0, 0xfe, 1];
/// Where they go where the chain does not care.
const TO: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Longest chain of IPv6 extension headers that is walked.
const MAX_EXTENSIONS: usize = 16;
/// Where an IP header may begin: behind an Ethernet header with up to two VLAN tags.
const NETS: [i32; 3] = [14, 18, 22];

/// How a frame that is fed differs from the capture's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Variant {
    /// Not at all.
    #[default]
    AsIs,
    /// The entry's destination MAC address; an Ethernet header for frames that had another one.
    Mac,
    /// And addresses that the chain serves.
    Addresses,
    /// It answers what has left.
    Answer,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 4] = [
        Variant::AsIs,
        Variant::Mac,
        Variant::Addresses,
        Variant::Answer,
    ];
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Variant::AsIs => "as they are",
            Variant::Mac => "with the entry's MAC address",
            Variant::Addresses => "with addresses that the chain serves",
            Variant::Answer => "answers to what left",
        })
    }
}

/// Source and destination of the rules that let packets pass, for one layout of headers.
type Addresses = [Option<ValueSet>; 2];

/// A rule that lets packets pass.
#[derive(Debug, Clone)]
struct Pass {
    /// Its filter but for addresses.
    rest: Filter,
    /// By layout; see [`layouts`].
    addresses: Vec<(usize, Addresses, u64)>,
}

/// What is known of an entry.
#[derive(Debug, Clone)]
struct Door {
    source: ElemId,
    mac: Option<[u8; 6]>,
    rules: Vec<Pass>,
    index: Index,
    dims: Vec<Dim>,
}

/// Adapts frames to the entries of a chain, as its program knows them.
#[derive(Debug, Clone)]
pub struct Adapter {
    doors: Vec<Door>,
}

/// Source and destination for each place and version of an IP header.
fn layouts() -> impl Iterator<Item = (i32, bool, [Dim; 2])> {
    NETS.into_iter().flat_map(|net| {
        let dim = |at: i32, bits: u8| Dim::Bits {
            bit: (net + at) * 8,
            bits,
        };
        [
            (net, false, [dim(12, 32), dim(16, 32)]),
            (net, true, [dim(8, 128), dim(24, 128)]),
        ]
    })
}

/// May packets of this action leave the chain?
fn passes(a: &Action) -> bool {
    let bound = a.steps.iter().any(|s| matches!(s, Step::Bind { .. }));
    match a.end {
        End::Output { .. } | End::Goto(_) | End::Write { .. } | End::Ask { .. } | End::Fork(_) => {
            true
        }
        End::Unreachable => bound,
        End::Drop { .. } | End::Punt { .. } => false,
    }
}

impl Door {
    fn new(source: ElemId, stage: &Stage) -> Door {
        let mut macs: BTreeMap<u64, usize> = BTreeMap::new();
        let mut rules = Vec::new();
        let destination = Dim::Bits { bit: 0, bits: 48 };
        let passing = (stage.rules.iter())
            .filter(|r| (stage.actions.get(r.action.0 as usize)).is_some_and(passes));
        for r in passing {
            if let Some(mac) = r.filter.get(destination).and_then(ValueSet::single)
                && let Ok(mac) = u64::try_from(mac)
                && mac >> 40 & 1 == 0
            {
                *macs.entry(mac).or_default() += 1;
            }
            let mut rest = r.filter.clone();
            let mut addresses = Vec::new();
            for (i, (_, _, dims)) in layouts().enumerate() {
                let sets = dims.map(|d| r.filter.get(d).cloned());
                rest.0.retain(|(d, _)| !dims.contains(d));
                if sets.iter().any(Option::is_some) {
                    let mut h = DefaultHasher::new();
                    sets.hash(&mut h);
                    addresses.push((i, sets, h.finish()));
                }
            }
            rules.push(Pass { rest, addresses });
        }
        let mut dims: Vec<Dim> = (rules.iter())
            .flat_map(|r| r.rest.0.iter().map(|(d, _)| *d))
            .collect();
        dims.sort_unstable();
        dims.dedup();
        let mac = macs.iter().max_by_key(|(mac, n)| (**n, u64::MAX - **mac));
        Door {
            source,
            mac: mac.map(|(m, _)| {
                let b = m.to_be_bytes();
                [b[2], b[3], b[4], b[5], b[6], b[7]]
            }),
            index: Index::new(rules.iter().map(|r| &r.rest)),
            rules,
            dims,
        }
    }

    /// Addresses for a frame: those of a rule that would let it pass but for its addresses, else of any rule that names
    /// some. The same ones for all packets of a flow, where they may be.
    fn addresses(&self, f: &[u8], layout: usize) -> Option<&Addresses> {
        let seen = Seen::arrive(f, 0);
        let known = |d: &Dim| Some((*d, ValueSet::one(seen.value(*d)?)));
        let point = Filter(self.dims.iter().filter_map(known).collect());
        let flow = frame::flow_key(f);
        let take = |best: &mut Option<(u64, _)>, i: usize, fits: bool| {
            let Some(r) = self.rules.get(i) else { return };
            let Some((_, a, set)) = r.addresses.iter().find(|(l, _, _)| *l == layout) else {
                return;
            };
            if fits && seen.fits(&r.rest).is_err() {
                return;
            }
            // the highest of numbers that do not depend on which other rules there are
            let mut h = DefaultHasher::new();
            (&flow, *set).hash(&mut h);
            let n = h.finish();
            if best.is_none_or(|(b, _)| n > b) {
                *best = Some((n, a));
            }
        };
        let mut best: Option<(u64, &Addresses)> = None;
        self.index
            .overlapping(&point, self.rules.len(), &mut |i| take(&mut best, i, true));
        if best.is_none() {
            (0..self.rules.len()).for_each(|i| take(&mut best, i, false));
        }
        best.map(|(_, a)| a)
    }
}

/// Rules of any kind of packet, with the addresses of these exchanged; each once.
fn replies<'a>(rules: impl Iterator<Item = &'a Pass>) -> Vec<Pass> {
    let mut known = BTreeSet::new();
    let mut all = Vec::new();
    for (layout, [src, dst], _) in rules.flat_map(|r| &r.addresses) {
        let sets = [dst.clone(), src.clone()];
        let mut h = DefaultHasher::new();
        sets.hash(&mut h);
        if known.insert((*layout, h.finish())) {
            all.push(Pass {
                rest: Filter::default(),
                addresses: vec![(*layout, sets, h.finish())],
            });
        }
    }
    all
}

impl Adapter {
    /// For the entries of a program.
    pub fn new(p: &Program) -> Adapter {
        let door = |e: &onefold_synth::program::Entry| {
            Some(Door::new(e.source, p.stages.get(e.stage.0 as usize)?))
        };
        let mut doors: Vec<Door> = p.entries.iter().filter_map(door).collect();
        // an entry that asks for no addresses (somebody else decides first) is sent what could answer what others send
        let replies: Vec<Vec<Pass>> = (0..doors.len())
            .map(|i| match doors.get(i) {
                Some(d) if d.rules.iter().all(|r| r.addresses.is_empty()) => {
                    let others = doors.iter().enumerate().filter(|(k, _)| *k != i);
                    replies(others.flat_map(|(_, d)| &d.rules))
                }
                _ => Vec::new(),
            })
            .collect();
        for (d, more) in doors.iter_mut().zip(replies) {
            if !more.is_empty() {
                d.rules.extend(more);
                d.index = Index::new(d.rules.iter().map(|r| &r.rest));
            }
        }
        Adapter { doors }
    }

    /// The other forms in which a frame of a capture is to arrive at an entry, too; none that is like another.
    pub fn variants(
        &self,
        source: ElemId,
        link: LinkType,
        bytes: &[u8],
    ) -> Vec<(Variant, Vec<u8>)> {
        let mut all: Vec<(Variant, Vec<u8>)> = Vec::new();
        let Some(door) = self.doors.iter().find(|d| d.source == source) else {
            return all;
        };
        let Some(mut f) = ethernet(link, bytes) else {
            return all;
        };
        if let (Some(mac), Some(to)) = (door.mac, f.get_mut(..6)) {
            to.copy_from_slice(&mac);
        }
        if f != bytes {
            all.push((Variant::Mac, f.clone()));
        }
        let Some(v) = frame::view(&f) else { return all };
        let v6 = v.ether_type == 0x86dd;
        let layout = layouts().position(|(net, six, _)| (net as usize, six) == (v.net, v6));
        if !(v6 || v.ether_type == 0x0800) {
            return all;
        }
        let Some(addresses) = layout.and_then(|l| door.addresses(&f, l)) else {
            return all;
        };
        let flow = frame::flow_key(&f);
        let before = f.clone();
        for (i, set) in addresses.iter().enumerate() {
            let Some(set) = set else { continue };
            let n = if v6 { 16 } else { 4 };
            let at = v.net + if v6 { 8 } else { 12 } + i * n;
            let Some(old) = f.get(at..at + n) else {
                continue;
            };
            let old = old.iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
            if set.contains(old) {
                continue;
            }
            let mut h = DefaultHasher::new();
            (&flow, i).hash(&mut h);
            let Some(new) = nth(set, h.finish()) else {
                continue;
            };
            replace_address(&mut f, &v, at, &new.to_be_bytes()[16 - n..], i == 1);
        }
        if f != before {
            all.push((Variant::Addresses, f));
        }
        all
    }
}

/// A value of a set, by a number; `None` of an empty set.
fn nth(set: &ValueSet, n: u64) -> Option<u128> {
    let count = set.count().unwrap_or(u128::MAX).max(1);
    let mut left = u128::from(n) % count;
    for (lo, hi) in set.intervals() {
        match hi - lo {
            size if left <= size => return Some(lo + left),
            size => left -= size + 1,
        }
    }
    None
}

/// The frame with an Ethernet header; `None` where the link is of a kind that says nothing of what it carries.
fn ethernet(link: LinkType, f: &[u8]) -> Option<Vec<u8>> {
    let be = |at: usize| Some(u16::from_be_bytes([*f.get(at)?, *f.get(at + 1)?]));
    let by_version = |at: usize| match f.get(at)? >> 4 {
        4 => Some((0x0800, at)),
        6 => Some((0x86dd, at)),
        _ => None,
    };
    let (kind, at): (u16, usize) = match link {
        LinkType::ETHERNET => return Some(f.to_vec()),
        LinkType::NULL | LinkType::LOOP => by_version(4)?,
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => by_version(0)?,
        LinkType::LINUX_SLL => (be(14)?, 16),
        LinkType::LINUX_SLL2 => (be(0)?, 20),
        _ => return None,
    };
    let mut out = Vec::with_capacity(14 + f.len());
    out.extend_from_slice(&TO);
    out.extend_from_slice(&FROM);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(f.get(at..)?);
    Some(out)
}

/// Where the transport checksum is, if it covers the addresses; and whether the destination in the header is not the
/// one that it covers, because the packet takes a way by source route.
fn transport_sum(f: &[u8], v: &View) -> Option<(usize, bool)> {
    let byte = |at: usize| f.get(at).copied();
    let word = |at: usize| Some(usize::from(byte(at)?) << 8 | usize::from(byte(at + 1)?));
    let (mut at, mut proto, mut routed) = (v.transport?, v.proto, false);
    let end = match v.ether_type {
        0x0800 => {
            let options = f.get(v.net + 20..at)?;
            // loose and strict source routes
            routed = options.iter().any(|o| matches!(o, 131 | 137));
            v.net + word(v.net + 2)?
        }
        _ => {
            for _ in 0..MAX_EXTENSIONS {
                let len = match proto {
                    0 | 60 => (usize::from(byte(at + 1)?) + 1) * 8,
                    43 => {
                        routed |= byte(at + 3)? != 0;
                        (usize::from(byte(at + 1)?) + 1) * 8
                    }
                    44 if word(at + 2)? & 0xfff8 != 0 => return None,
                    44 => 8,
                    51 => (usize::from(byte(at + 1)?) + 2) * 4,
                    _ => break,
                };
                proto = byte(at)?;
                at += len;
            }
            v.net + 40 + word(v.net + 4)?
        }
    };
    at += match (proto, v.ether_type) {
        (6, _) => 16,
        (17, _) => 6,
        (58, 0x86dd) => 2,
        _ => return None,
    };
    // no checksum stays no checksum
    let none = proto == 17 && word(at)? == 0;
    (at + 2 <= end.min(f.len()) && !none).then_some((at, routed))
}

/// Writes an address; checksums follow by what changed (RFC 1624), so that a wrong one stays wrong.
fn replace_address(f: &mut [u8], v: &View, at: usize, new: &[u8], destination: bool) {
    let transport = transport_sum(f, v).filter(|(_, routed)| !(*routed && destination));
    let header = (v.ether_type == 0x0800).then_some(v.net + 10);
    let Some(place) = f.get_mut(at..at + new.len()) else {
        return;
    };
    let old = place.to_vec();
    place.copy_from_slice(new);
    let word = |b: &[u8]| u16::from_be_bytes([b[0], b[1]]);
    for (field, is_header) in
        (header.map(|h| (h, true)).into_iter()).chain(transport.map(|t| (t.0, false)))
    {
        let Some(b) = f.get_mut(field..field + 2) else {
            continue;
        };
        let mut sum = word(b);
        for (o, n) in old.chunks_exact(2).zip(new.chunks_exact(2)) {
            sum = checksum::update(sum, word(o), word(n));
        }
        // for UDP, zero would say that there is none
        if !is_header && sum == 0 {
            sum = 0xffff;
        }
        b.copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Keep, Shape, finish, make, sums_right};
    use onefold_synth::program::{ActionId, Image, Rule, StageId, Why};
    use std::sync::Arc;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x42];

    fn bits(bit: i32, bits: u8) -> Dim {
        Dim::Bits { bit, bits }
    }

    /// An entry that lets TCP from 10.1/16 to 192.0.2.0/24 and UDP from 2001:dad::/32 pass, to a MAC address.
    fn program() -> Program {
        let filter = |kind: u128, proto: (i32, u128), parts: &[(Dim, ValueSet)]| {
            let mut f = Filter::default();
            let mac = MAC.iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
            f.narrow(bits(0, 48), &ValueSet::one(mac), 48);
            f.narrow(bits(96, 16), &ValueSet::one(kind), 16);
            f.narrow(bits(proto.0, 8), &ValueSet::one(proto.1), 8);
            for (d, s) in parts {
                f.narrow(*d, s, d.width());
            }
            f
        };
        let p4 = |a: u128, len: u8| ValueSet::prefix(a, len, 32);
        let p6 = ValueSet::prefix(0x2001_0dadu128 << 96, 32, 128);
        let rule = |filter, action| Rule {
            filter,
            action: ActionId(action),
            origin: vec![],
        };
        let action = |end| Action {
            steps: vec![],
            end,
            path: vec![],
        };
        let stage = Stage {
            at: (ElemId(0), 0),
            why: Why::Entry,
            fresh: true,
            known: Filter::default(),
            among: vec![],
            rules: vec![
                rule(
                    filter(
                        0x0800,
                        (184, 6),
                        &[
                            (bits(208, 32), p4(0x0a01_0000, 16)),
                            (bits(240, 32), p4(0xc000_0200, 24)),
                        ],
                    ),
                    0,
                ),
                rule(filter(0x86dd, (160, 17), &[(bits(176, 128), p6)]), 0),
                rule(
                    filter(0x0800, (184, 17), &[(bits(208, 32), p4(0x0a02_0000, 16))]),
                    1,
                ),
                rule(Filter::default(), 1),
            ],
            actions: vec![
                action(End::Output {
                    sink: ElemId(1),
                    image: Arc::new(Image::default()),
                }),
                action(End::Drop {
                    elem: ElemId(0),
                    reason: "no".into(),
                }),
            ],
        };
        Program {
            stages: vec![stage],
            entries: vec![onefold_synth::program::Entry {
                source: ElemId(0),
                stage: StageId(0),
            }],
            ..Program::default()
        }
    }

    fn shape(version: u8, proto: u8) -> Vec<u8> {
        let mut f = make(Shape {
            version,
            proto,
            tags: 0,
            payload: 21,
        });
        finish(&mut f, Keep::default());
        f
    }

    fn adapt(f: &[u8]) -> Vec<(Variant, Vec<u8>)> {
        Adapter::new(&program()).variants(ElemId(0), LinkType::ETHERNET, f)
    }

    #[test]
    fn addresses_are_those_of_a_rule_that_passes() {
        let f = shape(4, 6);
        let all = adapt(&f);
        let kinds: Vec<Variant> = all.iter().map(|(v, _)| *v).collect();
        assert_eq!(kinds, [Variant::Mac, Variant::Addresses]);
        for (_, a) in &all {
            assert_eq!(a[..6], MAC);
            assert_eq!(sums_right(a), (Some(true), Some(true)));
        }
        let (mac, last) = (&all[0].1, &all[1].1);
        assert_eq!((&mac[26..34], &mac[6..26]), (&f[26..34], &f[6..26]));
        assert_eq!(
            (&last[26..28], &last[30..33]),
            (&[10, 1][..], &[192, 0, 2][..])
        );
        assert_eq!(
            &last[34..50],
            &f[34..50],
            "nothing else changes but checksums"
        );
        // the same flow has the same addresses, whatever else the packet has
        let mut longer = f.clone();
        longer.extend_from_slice(&[7; 30]);
        finish(&mut longer, Keep::default());
        assert_eq!(adapt(&longer)[1].1[26..34], last[26..34]);
        // UDP passes over IPv6 only; over IPv4 it gets addresses of another rule
        let six = adapt(&shape(6, 17));
        assert_eq!(six[1].1[22..26], [0x20, 1, 0x0d, 0xad]);
        assert_eq!(sums_right(&six[1].1), (None, Some(true)));
        assert_eq!(adapt(&shape(4, 17))[1].1[26..28], [10, 1]);
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        for (version, proto, sum) in [(4, 6, 50), (4, 17, 40), (6, 6, 70), (6, 58, 56)] {
            let mut f = shape(version, proto);
            f[sum] ^= 0x55;
            let a = adapt(&f).pop().map(|a| a.1).unwrap_or_default();
            assert_eq!(sums_right(&a).1, Some(false), "{version} {proto}");
        }
        let mut f = shape(4, 6);
        f[24] ^= 0x10;
        assert_eq!(sums_right(&adapt(&f)[1].1), (Some(false), Some(true)));
        // no UDP checksum stays none
        let mut f = shape(6, 17);
        f[60..62].copy_from_slice(&[0, 0]);
        assert_eq!(adapt(&f)[1].1[60..62], [0, 0]);
        // cut off, nonsense: as it comes, without panic
        let four = shape(4, 6);
        for n in 0..f.len() {
            adapt(&f[..n]);
            adapt(&four[..n.min(four.len())]);
        }
    }

    #[test]
    fn other_links_get_an_ethernet_header() {
        let f = shape(4, 6);
        let a = Adapter::new(&program());
        for (link, head) in [
            (LinkType::RAW, 0),
            (LinkType::NULL, 4),
            (LinkType::LINUX_SLL, 16),
            (LinkType::LINUX_SLL2, 20),
        ] {
            let mut b = vec![0; head];
            match link {
                LinkType::LINUX_SLL => b[14] = 8,
                LinkType::LINUX_SLL2 => b[0] = 8,
                _ => {}
            }
            b.extend_from_slice(&f[14..]);
            let all = a.variants(ElemId(0), link, &b);
            assert_eq!(
                (all[0].0, &all[0].1[14..]),
                (Variant::Mac, &f[14..]),
                "{link}"
            );
            assert_eq!(all.len(), 2);
        }
        assert_eq!(a.variants(ElemId(0), LinkType::IEEE802_11, &f), []);
        assert_eq!(a.variants(ElemId(7), LinkType::ETHERNET, &f), []);
    }

    #[test]
    fn an_entry_that_asks_for_nothing_gets_what_could_be_answers() {
        let mut p = program();
        let mut open = p.stages[0].clone();
        open.rules = vec![Rule {
            filter: Filter::default(),
            action: ActionId(0),
            origin: vec![],
        }];
        p.stages.push(open);
        p.entries.push(onefold_synth::program::Entry {
            source: ElemId(1),
            stage: StageId(1),
        });
        let all = Adapter::new(&p).variants(ElemId(1), LinkType::ETHERNET, &shape(4, 6));
        assert_eq!(all.len(), 1, "no MAC address is asked for");
        let (kind, f) = &all[0];
        assert_eq!(*kind, Variant::Addresses);
        assert_eq!((&f[26..29], &f[30..32]), (&[192, 0, 2][..], &[10, 1][..]));
    }

    #[test]
    fn values_are_counted_off() {
        let s = ValueSet::from_intervals([(5, 6), (10, 10)]);
        let all: Vec<_> = (0..4).map(|n| nth(&s, n)).collect();
        assert_eq!(all, [Some(5), Some(6), Some(10), Some(5)]);
        assert_eq!(nth(&ValueSet::empty(), 3), None);
        assert_eq!(nth(&ValueSet::full(128), 3), Some(3));
    }
}
