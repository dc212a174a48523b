//! What translated connections become, each in one line of the cache, and who has which source.

use super::conn_index::{ConnIndex, short};
use super::key::{ConnKey, Ends, Place};
use super::range::{Range, Side};
use super::table::{ConnTable, DNAT, FLIPPED, SNAT, TRANSLATED};
use onefold_table::HugeVec;
use std::hash::BuildHasher;

/// Connections of one source that are looked at for the end that it has already, the newest first.
const LOOKED_AT: usize = 16;
/// None, in lists.
pub(super) const NONE: u32 = u32::MAX;

/// A translated connection: how its first packet leaves, and the source that this came with. What else it came with is
/// in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Translation {
    src: [u8; 16],
    dst: [u8; 16],
    came_from: [u8; 16],
    sport: u16,
    dport: u16,
    came_from_port: u16,
    protocol: u8,
    v6: bool,
    /// Connections with the same source, if the source is translated.
    older: u32,
    newer: u32,
}

// what is found at random is one line of the cache
const _: () = assert!(size_of::<Translation>() == 64);

/// What fills the places of connections that are not translated.
const NOTHING: Translation = Translation {
    src: [0; 16],
    dst: [0; 16],
    came_from: [0; 16],
    sport: 0,
    dport: 0,
    came_from_port: 0,
    protocol: 0,
    v6: false,
    older: NONE,
    newer: NONE,
};

impl Translation {
    fn of(orig: &Ends, new: &Ends) -> Translation {
        Translation {
            src: new.src.address,
            dst: new.dst.address,
            came_from: orig.src.address,
            sport: new.src.port,
            dport: new.dst.port,
            came_from_port: orig.src.port,
            protocol: new.protocol,
            v6: new.v6,
            ..NOTHING
        }
    }

    /// As the first packet leaves.
    #[inline]
    pub fn leaves(&self) -> Ends {
        let place = |address, port| Place { address, port };
        Ends {
            src: place(self.src, self.sport),
            dst: place(self.dst, self.dport),
            protocol: self.protocol,
            v6: self.v6,
        }
    }

    /// The source that the first packet came with.
    #[inline]
    pub fn source(&self) -> Place {
        Place {
            address: self.came_from,
            port: self.came_from_port,
        }
    }

    /// The key of replies as they arrive, and which way they go.
    #[inline]
    pub fn back(&self) -> (ConnKey, bool) {
        self.leaves().answered_key()
    }

    /// Has the connection another source than its packets come with? Then it is listed by that.
    #[inline]
    fn is_listed(&self) -> bool {
        (self.came_from, self.came_from_port) != (self.src, self.sport)
    }

    fn comes_from(&self, e: &Ends) -> bool {
        (self.source(), self.protocol, self.v6) == (e.src, e.protocol, e.v6)
    }

    fn source_hash(&self, hasher: &impl BuildHasher) -> u32 {
        source_hash(hasher, &self.source(), self.protocol)
    }
}

/// All of them, by the numbers of their connections; the sources that are translated, each with its newest connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Translations {
    /// Bound: as many as there are records.
    all: HugeVec<Translation>,
    sources: ConnIndex,
    /// What the last source that was translated became.
    last_source: Option<[u8; 16]>,
}

impl Translations {
    /// By number.
    #[inline]
    pub fn get(&self, i: u32) -> Option<&Translation> {
        self.all.get(i as usize)
    }

    /// What the last source that was translated became.
    #[inline]
    pub fn last_source(&self) -> Option<[u8; 16]> {
        self.last_source
    }

    /// A connection's translation will be read, or forgotten.
    #[inline]
    pub fn prefetch(&self, i: u32) {
        if let Some(t) = self.get(i) {
            onefold_table::prefetch(t);
        }
    }

    /// It will be forgotten: the ones beside it are asked for, and where its source, of this hash, is found.
    #[inline]
    pub fn prefetch_around(&self, t: &Translation, source: u32) {
        if t.is_listed() {
            self.sources.prefetch(source);
            self.prefetch(t.older);
            self.prefetch(t.newer);
        }
    }

    /// The first packet of a connection with this source will be tracked.
    #[inline]
    pub fn prefetch_source(&self, hash: u32) {
        self.sources.prefetch(hash);
    }

    fn set(&mut self, i: u32, t: Translation) {
        while self.all.len() <= i as usize {
            self.all.push(NOTHING);
        }
        if let Some(to) = self.all.get_mut(i as usize) {
            *to = t;
        }
    }

    /// A connection is the newest one of its source, whose hash is given back.
    fn enlist(&mut self, i: u32, orig: &Ends, hasher: &impl BuildHasher) -> u32 {
        let hash = source_hash(hasher, &orig.src, orig.protocol);
        let known = &*self.all;
        let same = |j: u32| (known.get(j as usize)).is_some_and(|x| x.comes_from(orig));
        let hash_of = |j: u32| known.get(j as usize).map_or(0, |x| x.source_hash(hasher));
        let older = (self.sources).set((hash, i), same, hash_of, known);
        let older = older.unwrap_or(NONE);
        if let Some(t) = self.all.get_mut(i as usize) {
            (t.older, t.newer) = (older, NONE);
        }
        if let Some(t) = self.all.get_mut(older as usize) {
            t.newer = i;
        }
        hash
    }

    /// A connection goes; `hash`: of its source.
    fn delist(&mut self, i: u32, t: &Translation, hash: u32) {
        if let Some(x) = self.all.get_mut(t.older as usize) {
            x.newer = t.newer;
        }
        match self.all.get_mut(t.newer as usize) {
            Some(x) => x.older = t.older,
            None if t.older == NONE => self.sources.remove(hash, i),
            // nothing is added: another one is in its place
            None => {
                let nobody = &[] as &[Translation];
                let _ = (self.sources).set((hash, t.older), |j| j == i, |_| 0, nobody);
            }
        }
    }
}

impl ConnTable {
    /// What a connection becomes, if it is translated.
    #[inline]
    pub(super) fn translation(&self, i: u32) -> Option<&Translation> {
        let r = self.records.get(i as usize)?;
        (r.status & TRANSLATED != 0).then(|| self.translations.get(i))?
    }

    /// The ends with the source that another connection of the same source has, if that is in the range.
    pub(super) fn same_source(&self, e: &Ends, range: &Range, now: u64) -> Option<Ends> {
        let t = &self.translations;
        let same = |i: u32| t.get(i).is_some_and(|x| x.comes_from(e));
        let hash = source_hash(&self.hasher, &e.src, e.protocol);
        let mut next = t.sources.find(hash, same)?;
        for _ in 0..LOOKED_AT {
            let x = t.get(next)?;
            let found = Ends {
                src: x.leaves().src,
                ..*e
            };
            if range.has(&found, Side::Src) && now < self.expires(next) {
                return Some(found);
            }
            next = x.older;
        }
        None
    }

    /// Notes what the packets of a connection become; `back`: the hash of its replies' key.
    pub(super) fn translate(&mut self, i: u32, orig: &Ends, new: &Ends, back: u32) {
        self.translations.set(i, Translation::of(orig, new));
        let mut source = 0;
        if orig.src != new.src {
            self.translations.last_source = Some(new.src.address);
            source = self.translations.enlist(i, orig, &self.hasher);
        }
        // of ICMP, the identifier is of both ends: what the rules have said tells
        let said = |side| self.in_hand.said(side);
        let snat = orig.src != new.src && (!orig.is_icmp() || said(Side::Src));
        let dnat = orig.dst != new.dst || orig.is_icmp() && said(Side::Dst);
        if let Some(r) = self.records.get_mut(i as usize) {
            r.status |= TRANSLATED | if snat { SNAT } else { 0 } | if dnat { DNAT } else { 0 };
            (r.hashes.back, r.hashes.source) = (back, source);
            debug_assert_eq!(r.key.cmp(&orig.key().0), std::cmp::Ordering::Equal);
            debug_assert_eq!(r.status & FLIPPED != 0, orig.key().1);
        }
    }

    /// A translated connection goes; `source`: the hash of its source.
    pub(super) fn forget_translation(&mut self, i: u32, source: u32) {
        if let Some(t) = self.translations.get(i).copied()
            && t.is_listed()
        {
            self.translations.delist(i, &t, source);
        }
    }
}

/// The hash of an address and what it sends from. Both versions of IP have addresses of their own.
#[inline]
pub(super) fn source_hash(hasher: &impl BuildHasher, src: &Place, protocol: u8) -> u32 {
    let address = u128::from_ne_bytes(src.address);
    short(hasher.hash_one((address, u32::from(src.port) << 8 | u32::from(protocol))))
}
