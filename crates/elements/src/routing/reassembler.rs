//! IPReassembler: puts fragments together again (RFC 791).

use crate::ip4;
use onefold_element::args::{Args, SizedAnno};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::ipv4::{DF, LEN, MF, RF};
use onefold_packet::{Packet, Pkt};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// `IPReassembler`.
pub const IP_REASSEMBLER: ElementClass = ElementClass {
    name: "IPReassembler",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Holding,
    usage: "[keywords HIMEM, MAX_MTU_ANNO]",
    summary: "puts fragments of IP packets together",
    new: || Box::new(IpReassembler::default()),
};

/// Source, destination, protocol, identification.
type Key = ([u8; 4], [u8; 4], u8, u16);

/// A packet that is being put together. Bytes that have not come yet are zero.
#[derive(Debug, Clone)]
struct Partial {
    p: Pkt,
    /// What has come, as ranges of the payload: sorted, disjoint, not adjacent.
    have: Vec<(usize, usize)>,
    /// When it was heard of, in seconds.
    at: i64,
    /// Longest fragment, with its IP header.
    longest: u16,
    /// Counts up: which is newer.
    number: u64,
}

/// As Click, except: packets that begin with a later fragment live as long as others (Click gives them up at the next
/// clean-up); options in a first fragment that comes late do not shift the payload; missing bytes are zero; packets
/// without a whole IP header are dropped.
#[derive(Debug, Clone, Default)]
struct IpReassembler {
    partial: HashMap<Key, Partial>,
    high: usize,
    mtu_anno: Option<u8>,
    used: usize,
    next: u64,
    clean_up_at: i64,
    seen: u32,
    good: u32,
    failed: u32,
    bad: u32,
}

/// Seconds after which an incomplete packet is given up, and between looking for such.
const GIVE_UP_AFTER: i64 = 30;
const CLEAN_UP_EVERY: i64 = 10;
/// What a packet counts for besides its payload.
const OVERHEAD: usize = 40;

/// Adds a range to sorted, disjoint ones; adjacent ranges become one.
fn add(have: &mut Vec<(usize, usize)>, from: usize, to: usize) {
    let first = have.partition_point(|r| r.1 < from);
    let behind = have.partition_point(|r| r.0 <= to);
    let (mut lo, mut hi) = (from, to);
    for r in have.get(first..behind).unwrap_or(&[]) {
        lo = lo.min(r.0);
        hi = hi.max(r.1);
    }
    have.splice(first..behind.max(first), [(lo, hi)]);
}

fn payload_len(p: &Packet) -> usize {
    p.transport().map_or(0, <[u8]>::len)
}

impl IpReassembler {
    /// Click's order: by the first byte of the identification, newest first.
    fn order(key: &Key, q: &Partial) -> (u8, Reverse<u64>) {
        ((key.3 >> 8) as u8, Reverse(q.number))
    }

    /// Gives up incomplete packets that `old` names, as long as `more` says so.
    fn give_up(
        &mut self,
        old: impl Fn(&Partial) -> bool,
        more: impl Fn(usize) -> bool,
        cx: &mut Cx<'_>,
    ) -> u32 {
        let mut keys: Vec<_> = self.partial.iter().filter(|(_, q)| old(q)).collect();
        keys.sort_by_key(|(k, q)| Self::order(k, q));
        let keys: Vec<Key> = keys.into_iter().map(|(k, _)| *k).collect();
        let mut n = 0;
        for k in keys {
            if !more(self.used) {
                break;
            }
            if let Some(q) = self.partial.remove(&k) {
                self.used = self.used.saturating_sub(OVERHEAD + payload_len(&q.p));
                n += 1;
                cx.emit_or_drop(1, q.p, "IPReassembler: incomplete");
            }
        }
        n
    }

    fn clean_up(&mut self, now: i64, cx: &mut Cx<'_>) {
        if now >= self.clean_up_at {
            self.give_up(|q| q.at < now - GIVE_UP_AFTER, |_| true, cx);
            self.clean_up_at = now + CLEAN_UP_EVERY;
        }
        let low = self.high / 4 * 3;
        if self.used > self.high {
            // first the oldest ones, then younger ones, then any
            for age in [10, 5, 0] {
                let old = |q: &Partial| age == 0 || q.at < now - age;
                self.failed += self.give_up(old, |used| used > low, cx);
            }
        }
    }

    /// The first fragment of a packet to come.
    fn begin(&mut self, key: Key, mut p: Pkt, from: usize, to: usize, now: i64, cx: &mut Cx<'_>) {
        let longest = p.network().map_or(0, <[u8]>::len) as u16;
        if from != 0 {
            let mut q = cx.make(p.network().and_then(|b| b.get(..LEN)).unwrap_or(&[]));
            q.put(to);
            if let (Some(d), Some(s)) = (q.data_mut().get_mut(LEN + from..), p.transport()) {
                let n = d.len().min(s.len());
                d[..n].copy_from_slice(&s[..n]);
            }
            q.set_network_header(0, LEN);
            if let Some(mut h) = ip4::header_mut(&mut q) {
                h.set_version_header_len(LEN);
            }
            cx.drop(p, "IPReassembler: taken over");
            p = q;
        }
        if let Some(mut h) = ip4::header_mut(&mut p) {
            h.set_frag_word(h.frag_word() & (MF | DF | RF));
        }
        self.used += OVERHEAD + to;
        self.next += 1;
        let q = Partial {
            p,
            have: vec![(from, to)],
            at: now,
            longest,
            number: self.next,
        };
        self.partial.insert(key, q);
    }

    /// Another fragment; the packet if that completes it.
    fn extend(&mut self, key: Key, p: &Packet, from: usize, to: usize, now: i64) -> Option<Pkt> {
        let q = self.partial.get_mut(&key)?;
        let length = p.network().map_or(0, <[u8]>::len) as u16;
        q.longest = q.longest.max(length);
        let word = ip4::header(&q.p)?.frag_word();
        let known = payload_len(&q.p);
        if to > known {
            if word & MF == 0 {
                // behind the end that a last fragment set
                return None;
            }
            q.p.put(to - known);
            self.used += to - known;
        }
        add(&mut q.have, from, to);
        if let (Some(d), Some(s)) = (q.p.transport_mut(), p.transport())
            && let (Some(d), Some(s)) = (d.get_mut(from..to), s.get(..to - from))
        {
            d.copy_from_slice(s);
        }
        if from == 0 {
            // what stands before the payload, and the annotations, are those of the first fragment
            let head = |p: &Packet| p.transport_header_offset().unwrap_or(0).max(0) as usize;
            let (have, want) = (head(&q.p), head(p));
            q.p.pull(have);
            q.p.push(want);
            if let (Some(d), Some(s)) = (q.p.data_mut().get_mut(..want), p.data().get(..want)) {
                d.copy_from_slice(s);
            }
            let net = p.network_header_offset().unwrap_or(0);
            q.p.set_network_header(net, (want as isize - net).max(0) as usize);
            match p.mac_header_offset() {
                Some(mac) => q.p.set_mac_header(mac),
                None => q.p.clear_mac_header(),
            }
            q.p.anno = p.anno;
            q.at = now;
            ip4::header_mut(&mut q.p)?.set_frag_word(word);
        }
        let last = ip4::header(p)?.frag_word() & MF == 0;
        let mut h = ip4::header_mut(&mut q.p)?;
        if last {
            h.set_frag_word(h.frag_word() & !MF);
        }
        let open = h.frag_word() & MF != 0;
        if open || q.have != [(0, payload_len(&q.p))] {
            return None;
        }
        let mut q = self.partial.remove(&key)?;
        self.used = self.used.saturating_sub(OVERHEAD + payload_len(&q.p));
        self.good += 1;
        let total = q.p.network().map_or(0, <[u8]>::len);
        if let Some(mut h) = ip4::header_mut(&mut q.p) {
            h.set_total_len(total as u16);
            h.fill_checksum();
        }
        q.p.anno.timestamp = p.anno.timestamp;
        if let Some(a) = self.mtu_anno {
            // native order, as Click's 16-bit annotations
            for (i, b) in q.longest.to_ne_bytes().into_iter().enumerate() {
                q.p.anno.set_u8(usize::from(a) + i, b);
            }
        }
        Some(q.p)
    }
}

const NO_HEADER: DropReason = "IPReassembler: no IP header";

impl Element for IpReassembler {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.high = args.keyword::<u32>("HIMEM").unwrap_or(256 * 1024) as usize;
        self.mtu_anno = args.keyword("MAX_MTU_ANNO").map(|SizedAnno::<2>(a)| a);
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::from(ip4::unless_header(Exit::Drop(NO_HEADER)));
        cases.push(ip4::unless_ihl(Exit::Drop(NO_HEADER)));
        cases.push(ip4::punt_options());
        cases.push(Case::new(ip4::whole_packet(), Exit::Port(0)));
        cases.push(Case::new(Cond::Always, Exit::Punt("holds fragments")));
        Model::Cases(cases)
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some(hlen) = ip4::whole_header_len(&p) else {
            return cx.drop(p, NO_HEADER);
        };
        let Some(h) = ip4::header(&p) else {
            return cx.drop(p, NO_HEADER);
        };
        if !h.is_fragment() {
            return cx.emit(0, p);
        }
        self.seen = self.seen.wrapping_add(1);
        let key = (h.src(), h.dst(), h.protocol(), h.id());
        let (word, total) = (h.frag_word(), usize::from(h.total_len()));
        if p.anno.timestamp.sec() == 0 {
            p.anno.timestamp = cx.now;
        }
        let now = p.anno.timestamp.sec();
        if now >= self.clean_up_at {
            self.clean_up(now, cx);
        }
        let from = usize::from(word & 0x1fff) * 8;
        let to = (from + total).saturating_sub(hlen);
        let there = payload_len(&p);
        let odd = to % 8 != 0 && word & MF != 0;
        if to > 0xffff || to <= from || odd || there < to - from {
            self.bad = self.bad.wrapping_add(1);
            return cx.drop(p, "IPReassembler: bad fragment");
        }
        p.take(there - (to - from));
        self.clean_up(now, cx);
        if !self.partial.contains_key(&key) {
            return self.begin(key, p, from, to, now, cx);
        }
        let whole = self.extend(key, &p, from, to, now);
        cx.drop(p, "IPReassembler: taken over");
        if let Some(q) = whole {
            cx.decide(None, || "complete".to_string());
            cx.emit(0, q);
        }
    }

    fn held(&self) -> usize {
        self.partial.len()
    }
    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        let mut all: Vec<_> = self.partial.drain().collect();
        all.sort_by_key(|(k, q)| Self::order(k, q));
        self.used = 0;
        all.into_iter().map(|(_, q)| q.p).collect()
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("dump")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        if name != "dump" {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        let mut s = format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\n\
             bad fragments seen:  {}\ncached chunk data:\n",
            self.seen, self.good, self.failed, self.bad
        );
        let mut all: Vec<_> = self.partial.iter().collect();
        all.sort_by_key(|(k, q)| Self::order(k, q));
        for ((src, dst, _, id), q) in all {
            let port = |at: usize| {
                let t = q.p.transport().and_then(|t| t.get(at..at + 2));
                t.map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
            };
            let (src, dst) = (Ipv4Addr::from(*src), Ipv4Addr::from(*dst));
            let _ = write!(s, " ({src}, {}, {dst}, {}) {id}", port(0), port(2));
            for (a, b) in &q.have {
                let _ = write!(s, " ({a},{b})");
            }
            s.push('\n');
        }
        Ok(s)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::add;
    use crate::routing::testpkt::*;
    use crate::testing::Bench;
    use onefold_packet::{Pkt, Timestamp};
    use proptest::prelude::*;

    fn whole(n: usize) -> Vec<u8> {
        let payload: Vec<u8> = (0..n).map(|i| (i * 7) as u8).collect();
        ip(A, B, 17, &[131, 3, 4, 0], &payload)
    }

    /// The fragments that IPFragmenter makes of a packet.
    fn fragments(d: &[u8], mtu: u32) -> Vec<Pkt> {
        let mut f = Bench::new("IPFragmenter", &mtu.to_string(), 1, 1).unwrap();
        let out = f.push_packet(0, marked(d));
        let mut all: Vec<Pkt> = out.into_iter().map(|o| o.1).collect();
        for p in &mut all {
            p.anno.timestamp = Timestamp::from_secs(5);
        }
        all
    }

    proptest! {
        #![proptest_config(crate::testing::cases(60))]
        /// Whatever the order, and with repetitions, the packet comes out as it was, once.
        #[test]
        fn undoes_fragmentation(n in 100usize..1500, mtu in 60u32..400, order in any::<u64>()) {
            let d = whole(n);
            let mut parts = fragments(&d, mtu);
            let mut x = order;
            for i in (1..parts.len()).rev() {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                parts.swap(i, (x >> 33) as usize % (i + 1));
            }
            let count = parts.len();
            // what was short enough is no fragment, and passes as often as it comes
            prop_assume!(count > 1);
            let again = parts[0].clone();
            parts.insert(1, again);
            let mut b = Bench::new("IPReassembler", "", 1, 1).unwrap();
            let mut out = Vec::new();
            for p in parts {
                out.extend(b.push_packet(0, p));
            }
            prop_assert_eq!(out.len(), 1);
            prop_assert_eq!(out[0].1.data(), &d[..], "{} fragments", count);
            // a repeated fragment that completed nothing may have begun another packet
            prop_assert!(b.element.held() <= 1);
        }

        #[test]
        fn ranges_are_a_set(steps in prop::collection::vec((0usize..40, 1usize..10), 1..30)) {
            let mut have = Vec::new();
            let mut set = std::collections::BTreeSet::new();
            for (a, n) in steps {
                add(&mut have, a, a + n);
                set.extend(a..a + n);
            }
            let flat: Vec<usize> = have.iter().flat_map(|r| r.0..r.1).collect();
            prop_assert_eq!(flat, set.into_iter().collect::<Vec<_>>());
            prop_assert!(have.windows(2).all(|w| w[0].1 < w[1].0));
        }
    }

    #[test]
    fn passes_whole_packets_and_refuses_bad_fragments() {
        let mut b = Bench::new("IPReassembler", "", 1, 2).unwrap();
        let d = whole(40);
        assert_eq!(b.push_packet(0, marked(&d))[0].1.data(), d);
        for (word, total) in [
            (0x2000u16, 27u16),
            (0x3fff, 64),
            (0x2000, 24),
            (0x2000, 65),
            (1, 3),
        ] {
            let mut f = d.clone();
            f[6..8].copy_from_slice(&word.to_be_bytes());
            f[2..4].copy_from_slice(&total.to_be_bytes());
            assert!(b.push_packet(0, marked(&f)).is_empty(), "{word:x} {total}");
        }
        assert_eq!(b.drops()["IPReassembler: bad fragment"], 5);
        assert!(b.push(0, &d).is_empty());
        for n in 0..d.len() {
            let mut f = d.clone();
            f[6] = 0x20;
            b.push_packet(0, marked(&f[..n]));
        }
        assert!(b.read("dump").unwrap().starts_with("frags seen total:    "));
    }

    #[test]
    fn incomplete_packets_leave_at_1_in_time_or_for_room() {
        let mut b = Bench::new("IPReassembler", "", 1, 2).unwrap();
        let mut late = fragments(&whole(100), 68).remove(1);
        assert!(b.push_packet(0, late.clone()).is_empty());
        assert_eq!(b.element.held(), 1);
        // another packet's fragment 31 seconds later makes it look
        late.anno.timestamp = Timestamp::from_secs(36);
        late.data_mut()[4] ^= 1;
        let out = b.push_packet(0, late.clone());
        assert_eq!((out.len(), out[0].0, b.element.held()), (1, 1, 1));
        let mut b = Bench::new("IPReassembler", "HIMEM 300", 1, 2).unwrap();
        let mut out = 0;
        for i in 0..40 {
            late.data_mut()[5] = i;
            out += b.push_packet(0, late.clone()).len();
        }
        assert!(b.element.held() <= 5, "{}", b.element.held());
        assert_eq!(out + b.element.held(), 40);
        let all = b.with(|e, cx| e.drain_held(cx));
        assert_eq!((all.len() + out, b.element.held()), (40, 0));
    }

    #[test]
    fn longest_fragment_in_an_annotation() {
        let mut b = Bench::new("IPReassembler", "MAX_MTU_ANNO 24", 1, 1).unwrap();
        let mut out = Vec::new();
        for p in fragments(&whole(100), 68) {
            out.extend(b.push_packet(0, p));
        }
        let a = &out[0].1.anno;
        assert_eq!(u16::from_ne_bytes([a.u8(24), a.u8(25)]), 64);
        assert!(Bench::new("IPReassembler", "MAX_MTU_ANNO PAINT", 1, 1).is_err());
        assert!(Bench::new("IPReassembler", "5", 1, 1).is_err());
    }
}
