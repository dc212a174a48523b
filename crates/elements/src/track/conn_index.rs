//! Where connections are found: an index that reads one line of the cache for each look-up, lies on huge pages, and can
//! be asked for ahead.

use super::headers::{TCP, UDP};
use super::key::ConnKey;
use onefold_table::{IndexKeys, TagIndex, prefetch};

/// Entries by the hashes of their keys. Which keys these are is the table's to say.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnIndex(TagIndex);

/// What the index knows of a hash.
#[inline(always)]
pub(super) fn short(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// See [`ConnIndex::insert`].
struct Keys<'a, F, R>(F, &'a [R]);

impl<F: Fn(u32) -> u32, R> IndexKeys for Keys<'_, F, R> {
    fn hash(&self, entry: u32) -> u32 {
        (self.0)(entry)
    }
    fn prefetch(&self, entry: u32) {
        if let Some(r) = self.1.get(entry as usize) {
            prefetch(r);
        }
    }
}

impl ConnIndex {
    /// An entry whose key has this hash, and for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.0.find(hash, is_it)
    }

    /// One more. `hash_of`: the hash of an entry's key, for those that are in; most of these are numbers of `records`.
    #[inline]
    pub fn insert<R>(
        &mut self,
        hash: u32,
        entry: u32,
        hash_of: impl Fn(u32) -> u32,
        records: &[R],
    ) {
        self.0.add(hash, entry, &Keys(hash_of, records));
    }

    /// An entry with this hash in the place of the one for which `is_it` holds, which is given back; one more, if there
    /// is none.
    #[inline]
    pub fn set<R>(
        &mut self,
        (hash, entry): (u32, u32),
        is_it: impl Fn(u32) -> bool,
        hash_of: impl Fn(u32) -> u32,
        records: &[R],
    ) -> Option<u32> {
        (self.0).set(hash, entry, is_it, &Keys(hash_of, records))
    }

    /// Takes out exactly this one, if it is in.
    #[inline]
    pub fn remove(&mut self, hash: u32, entry: u32) {
        self.0.take_out(hash, entry);
    }

    /// The entry with this hash will be looked for, or put in, or taken out.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        self.0.prefetch(hash);
    }
}

/// The key of what looks like a packet of TCP or UDP behind an IP header without options or extension headers, and
/// whether it goes from the key's second end to its first: it is not asked for more than that.
#[inline]
pub(super) fn key_ahead(net: &[u8]) -> Option<(ConnKey, bool)> {
    match *net.first_chunk::<24>()? {
        [
            0x45,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            protocol @ (TCP | UDP),
            _,
            _,
            ref ends @ ..,
        ] => {
            let [s0, s1, s2, s3, d0, d1, d2, d3, ports @ ..] = *ends;
            let (src, dst) = ([s0, s1, s2, s3], [d0, d1, d2, d3]);
            Some(ConnKey::of_v4(src, dst, protocol, ports))
        }
        [v, _, _, _, _, _, protocol @ (TCP | UDP), ..] if v >> 4 == 6 => {
            let (src, rest) = net.get(8..)?.split_first_chunk::<16>()?;
            let (dst, rest) = rest.split_first_chunk::<16>()?;
            let ports = *rest.first_chunk::<4>()?;
            Some(ConnKey::of_v6(*src, *dst, protocol, ports))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::headers::{Seen, read};
    use super::*;

    /// An IPv4 header without options in front of ports.
    fn v4(protocol: u8, src: [u8; 4], dst: [u8; 4], ports: [u8; 4]) -> Vec<u8> {
        let mut h = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
        h.extend(src);
        h.extend(dst);
        h.extend(ports);
        // of TCP a SYN, of UDP a length of twenty bytes
        h.extend([0, 20, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        h
    }

    fn v6(protocol: u8, src: u8, dst: u8, ports: [u8; 4]) -> Vec<u8> {
        let mut h = vec![0x60, 0, 0, 0, 0, 20, protocol, 64];
        h.extend([src; 16]);
        h.extend([dst; 16]);
        h.extend(ports);
        h.extend([0, 20, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        h
    }

    #[test]
    fn what_is_asked_for_is_what_is_looked_for() {
        let ends = [([10, 0, 0, 1], [10, 0, 0, 2]), ([9, 9, 9, 9], [1, 2, 3, 4])];
        let mut all = Vec::new();
        for (src, dst) in ends {
            for ports in [[0, 80, 1, 0], [1, 0, 0, 80], [2, 2, 2, 2]] {
                for protocol in [TCP, UDP] {
                    all.push(v4(protocol, src, dst, ports));
                    all.push(v6(protocol, src[3], dst[3], ports));
                }
            }
        }
        for net in all {
            let Seen::Packet(t) = read(&net, false) else {
                panic!("{net:?}");
            };
            assert_eq!(key_ahead(&net), Some((t.key, t.flipped)), "{net:?}");
        }
    }

    #[test]
    fn nothing_is_asked_for_where_no_ports_are() {
        let mut options = v4(TCP, [1; 4], [2; 4], [0; 4]);
        options[0] = 0x46;
        let icmp = v4(1, [1; 4], [2; 4], [0; 4]);
        let extension = v6(0, 1, 2, [0; 4]);
        for net in [
            &options[..],
            &icmp,
            &extension,
            &[0x45; 23],
            &[0x60; 43],
            &[],
        ] {
            assert_eq!(key_ahead(net), None, "{net:?}");
        }
    }

    #[test]
    fn entries_are_found_until_they_are_taken_out() {
        let hash = |n: u32| (n << 31) | (n % 7);
        let mut index = ConnIndex::default();
        for n in 0..1000 {
            index.insert(hash(n), n, hash, &[] as &[u32]);
        }
        for n in 0..1000 {
            assert_eq!(index.find(hash(n), |e| e == n), Some(n));
            index.remove(hash(n), n);
            assert_eq!(index.find(hash(n), |e| e == n), None);
        }
    }
}
