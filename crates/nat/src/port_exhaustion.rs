//! Patterns whose ports (or addresses) are nearly exhausted for some destination.
//!
//! A search for a free variation looks at one after the other in the flow table's index, which is quick as long as many
//! are free. Where one has looked at many in vain, the variations that are taken are written down, a bit for each, and
//! kept up to date with the index: the next searches for the same addresses and ports look at bits, sixty-four times
//! sixty-four at once. So a NAPT whose ports are all taken, or all but a few, costs no more than one with free ports,
//! whatever flows come and go.

use crate::access::answering;
use crate::flow_id::FlowId;
use std::collections::HashMap;

/// Variations of a pattern for which bits are kept, at most.
const MOST: u32 = 1 << 22;
/// Bytes of all bit sets; beyond that they are dropped, and made again where they are needed.
const BYTES: usize = 16 << 20;

/// The variations of a pattern for one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Search {
    /// Ports vary; else addresses do.
    pub ports: bool,
    /// The first of them, and how many follow.
    pub base: u32,
    pub top: u32,
    /// What the flow becomes, without what varies.
    pub to: FlowId,
}

impl Search {
    /// What replies look like with a variation.
    #[inline]
    pub fn reply(&self, v: u32) -> FlowId {
        let mut r = self.to.reversed();
        match self.ports {
            true => r.dport = self.base.wrapping_add(v) as u16,
            false => r.daddr = self.base.wrapping_add(v),
        }
        r
    }

    /// The number behind, around the end.
    #[inline]
    fn next(&self, v: u32) -> u32 {
        if v >= self.top { 0 } else { v + 1 }
    }

    /// Looks at up to `n` variations from `v` on: the first one that is not taken, or where to go on.
    pub fn look(&self, mut v: u32, n: u64, taken: impl Fn(&FlowId) -> bool) -> Result<u32, u32> {
        for _ in 0..n {
            if !taken(&self.reply(v)) {
                return Ok(v);
            }
            v = self.next(v);
        }
        Err(v)
    }

    fn place(&self, map: u16, ping: bool) -> Place {
        let mut fixed = self.to;
        match self.ports {
            true => fixed.sport = 0,
            false => fixed.saddr = 0,
        }
        if ping {
            // follows from the identifier, or says nothing
            fixed.dport = 0;
        }
        Place {
            map,
            ports: self.ports,
            fixed,
        }
    }
}

/// What flows have in common that share variations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    map: u16,
    ports: bool,
    fixed: FlowId,
}

/// Which variations are taken.
#[derive(Debug, Clone)]
struct TakenVariations {
    base: u32,
    top: u32,
    free: u32,
    taken: Vec<u64>,
    /// A bit for each word of `taken` in which all are.
    full: Vec<u64>,
}

impl TakenVariations {
    fn new(base: u32, top: u32) -> TakenVariations {
        let words = top as usize / 64 + 1;
        TakenVariations {
            base,
            top,
            free: top + 1,
            taken: vec![0; words],
            full: vec![0; words / 64 + 1],
        }
    }
    fn bytes(&self) -> usize {
        size_of::<(Place, Vec<TakenVariations>, TakenVariations)>()
            + (self.taken.len() + self.full.len()) * 8
    }
    fn set(&mut self, v: u32, taken: bool) {
        let (at, bit) = (v as usize / 64, 1u64 << (v % 64));
        let Some(w) = self.taken.get_mut(at) else {
            return;
        };
        if (*w & bit != 0) == taken {
            return;
        }
        *w ^= bit;
        let full = *w == u64::MAX;
        self.free = match taken {
            true => self.free.saturating_sub(1),
            false => self.free + 1,
        };
        let bit = 1u64 << (at % 64);
        if let Some(f) = self.full.get_mut(at / 64) {
            *f = if full { *f | bit } else { *f & !bit };
        }
    }
    /// The first free one of `from` and those behind.
    fn behind(&self, from: u32) -> Option<u32> {
        let at = from as usize / 64;
        let word = self.taken.get(at)? | ((1u64 << (from % 64)) - 1);
        let found = match word {
            u64::MAX => {
                let first = at + 1;
                let mut f = first / 64;
                let mut words = self.full.get(f)? | ((1u64 << (first % 64)) - 1);
                while words == u64::MAX {
                    f += 1;
                    words = *self.full.get(f)?;
                }
                let at = f * 64 + words.trailing_ones() as usize;
                at * 64 + self.taken.get(at)?.trailing_ones() as usize
            }
            w => at * 64 + w.trailing_ones() as usize,
        };
        u32::try_from(found).ok().filter(|v| *v <= self.top)
    }
    /// The first free one from `from` on, around the end.
    fn next(&self, from: u32) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        self.behind(from).or_else(|| self.behind(0))
    }
}

/// All exhaustion of a flow table.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortExhaustion {
    all: HashMap<Place, Vec<TakenVariations>>,
    bytes: usize,
    /// A bit for some hash of the other end's address, of each.
    filter: u64,
}

#[inline]
fn filter_bit(other_end: u32) -> u64 {
    1 << (other_end.wrapping_mul(0x9e37_79b9) >> 26)
}

impl PortExhaustion {
    /// So many variations are looked at before a bit set is made: a part of what that costs.
    pub fn patience(s: &Search) -> u64 {
        let all = u64::from(s.top) + 1;
        match s.top < MOST {
            true => (all / 32).max(8).min(all),
            false => all,
        }
    }
    /// The first variation from `v` on that is not taken, around the end, if there is a bit set for it.
    #[inline]
    pub fn ask(&self, map: u16, ping: bool, s: &Search, v: u32) -> Option<Option<u32>> {
        if self.filter & filter_bit(s.to.daddr) == 0 {
            return None;
        }
        let exhaustion = self.all.get(&s.place(map, ping))?;
        let c = exhaustion
            .iter()
            .find(|c| (c.base, c.top) == (s.base, s.top))?;
        Some(c.next(v))
    }
    /// Writes down which variations are taken.
    pub fn record_taken(
        &mut self,
        map: u16,
        ping: bool,
        s: &Search,
        taken: impl Fn(&FlowId) -> bool,
    ) {
        let mut c = TakenVariations::new(s.base, s.top);
        for v in 0..=s.top {
            if taken(&s.reply(v)) {
                c.set(v, true);
            }
        }
        if self.bytes + c.bytes() > BYTES {
            *self = PortExhaustion::default();
        }
        self.bytes += c.bytes();
        self.filter |= filter_bit(s.to.daddr);
        self.all.entry(s.place(map, ping)).or_default().push(c);
    }

    /// None at all: nothing to be noted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filter == 0
    }

    /// A key has come into the index, or gone from it.
    #[inline]
    pub fn note(&mut self, map: u16, ping: bool, key: &FlowId, there: bool) {
        if self.filter & filter_bit(key.saddr) != 0 {
            self.note_both(map, ping, key, there);
        }
    }

    #[cold]
    fn note_both(&mut self, map: u16, ping: bool, key: &FlowId, there: bool) {
        if ping && key.sport != answering(key.dport) {
            // what a request looks like is no reply
            return;
        }
        let to = key.reversed();
        for (ports, at) in [(true, u32::from(to.sport)), (false, to.saddr)] {
            let s = Search {
                ports,
                base: 0,
                top: 0,
                to,
            };
            let place = s.place(map, ping);
            let Some(exhaustion) = self.all.get_mut(&place) else {
                continue;
            };
            for c in exhaustion.iter_mut() {
                let v = at.wrapping_sub(c.base);
                if v <= c.top {
                    c.set(v, there);
                }
            }
            // few are taken, and searches are quick again
            let bytes = &mut self.bytes;
            exhaustion.retain(|c| {
                let keep = c.free <= c.top - c.top / 16;
                *bytes -= if keep { 0 } else { c.bytes() };
                keep
            });
            if exhaustion.is_empty() {
                self.all.remove(&place);
            }
        }
        if self.all.is_empty() {
            self.filter = 0;
        }
    }

    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn search(base: u32, top: u32, ports: bool) -> Search {
        Search {
            ports,
            base,
            top,
            to: FlowId {
                saddr: 0x0102_0304,
                daddr: 0x0808_0808,
                sport: 77,
                dport: 53,
            },
        }
    }

    proptest::proptest! {
        /// Against looking at one after the other.
        #[test]
        fn knows_what_a_search_would_find(
            top in 0u32..5000, ports: bool, share in 0u32..100,
            changes in proptest::collection::vec((0u32..5000, proptest::bool::weighted(0.8), 0u32..5000), 0..60),
        ) {
            let s = search(1000, top, ports);
            let mut taken: BTreeSet<FlowId> =
                (0..=top).filter(|v| v.wrapping_mul(2_654_435_761) % 100 >= share / 4).map(|v| s.reply(v)).collect();
            let mut c = PortExhaustion::default();
            c.record_taken(3, false, &s, |k| taken.contains(k));
            // another destination has its own variations
            let mut other = s;
            other.to.daddr = 7;
            proptest::prop_assert_eq!(c.ask(3, false, &other, 0), None);
            proptest::prop_assert_eq!(c.ask(2, false, &s, 0), None);
            for (v, there, from) in changes {
                let (key, from) = (s.reply(v % (top + 1)), from % (top + 1));
                match there {
                    true => taken.insert(key),
                    false => taken.remove(&key),
                };
                c.note(3, false, &key, there);
                if let Some(found) = c.ask(3, false, &s, from) {
                    let all = u64::from(top) + 1;
                    proptest::prop_assert_eq!(found, s.look(from, all, |k| taken.contains(k)).ok());
                }
            }
        }
    }

    #[test]
    fn goes_when_most_are_free_and_never_takes_too_much_memory() {
        let s = search(0, 999, true);
        let mut c = PortExhaustion::default();
        c.record_taken(0, false, &s, |_| true);
        assert_eq!(c.ask(0, false, &s, 5), Some(None));
        for v in 0..937 {
            c.note(0, false, &s.reply(v), false);
        }
        assert_eq!(c.ask(0, false, &s, 950), Some(Some(0)));
        c.note(0, false, &s.reply(970), false);
        assert_eq!((c.ask(0, false, &s, 5), c.memory_bytes()), (None, 0));
        for i in 0..5000 {
            let mut s = search(1024, 64511, true);
            s.to.daddr = i;
            c.record_taken(0, false, &s, |_| true);
            assert!(c.memory_bytes() <= BYTES);
        }
    }

    #[test]
    fn pings_are_known_by_their_identifier() {
        let mut s = search(1, 9, true);
        let mut c = PortExhaustion::default();
        c.record_taken(0, true, &s, |_| true);
        // the search for another identifier's flow is the same
        s.to.dport = 999;
        assert_eq!(c.ask(0, true, &s, 5), Some(None));
        let gone = s.reply(3);
        c.note(0, true, &gone, false);
        assert_eq!(c.ask(0, true, &s, 5), Some(None));
        let sport = answering(gone.dport);
        c.note(0, true, &FlowId { sport, ..gone }, false);
        assert_eq!(c.ask(0, true, &s, 5), Some(Some(3)));
    }
}
