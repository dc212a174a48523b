//! Maglev's look-up table: Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016,
//! section 3.4.
//!
//! Each server has a permutation of the table's places, which follows from its name alone: `(offset + j * skip) mod M`
//! with two hashes of the name. Servers take turns, and at its turn a server takes the first place of its permutation
//! that nobody has. So all have equal shares, and a server that comes or goes changes few others' places. A server of a
//! lower weight lets turns pass: one of weight `w` takes `w` of as many turns as the greatest weight is.
//!
//! The table follows from names, weights, size and seed, in whatever order the servers are given: balancers that are
//! told the same send a flow to the same server, without knowing of each other.

/// Largest table.
pub const MAX_TABLE: u32 = 1 << 22;
/// The table's size if none is given, and the paper's smaller one: a prime.
pub const TABLE_SIZE: u32 = 65_537;
/// How often a flow whose server is down is hashed anew before servers are asked in a row.
const REHASHES: u64 = 16;

/// A bijection of 64-bit numbers in which each bit depends on all (the last step of SplitMix64, Steele et al. 2014).
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// FNV-1a over a name, mixed.
fn hash_name(name: &str, seed: u64) -> u64 {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ mix(seed), step))
}

/// Is it a prime, up to [`MAX_TABLE`]? Trial division: 2,048 divisions at most.
pub fn is_table_size(n: u32) -> bool {
    (2..=MAX_TABLE).contains(&n) && !(2..=n.isqrt()).any(|d| n.is_multiple_of(d))
}

/// A server's permutation of the places, as far as it has been used.
#[derive(Debug, Clone, Copy)]
struct Permutation {
    at: u32,
    skip: u32,
}

impl Permutation {
    fn new(name: &str, size: u32, seed: u32) -> Permutation {
        let seed = u64::from(seed) << 1;
        let (m, rest) = (u64::from(size), u64::from(size - 1));
        Permutation {
            at: (hash_name(name, seed) % m) as u32,
            skip: (hash_name(name, seed | 1) % rest) as u32 + 1,
        }
    }
    /// The next place.
    fn next(&mut self, size: u32) -> usize {
        let here = self.at;
        // both are below 2^22
        self.at = (self.at + self.skip) % size;
        here as usize
    }
}

/// Which server has which place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MaglevTable {
    places: Vec<u16>,
    /// Servers.
    servers: usize,
    seed: u64,
}

/// Nobody has it yet.
const FREE: u16 = u16::MAX;

impl MaglevTable {
    /// Of servers with these names and weights (from 1), with a prime number of places ([`is_table_size`]) that is not
    /// below the number of servers; names are different. Without servers, or with another size, it is empty.
    pub fn new(servers: &[(&str, u32)], size: u32, seed: u32) -> MaglevTable {
        let fits = is_table_size(size) && servers.len() < usize::from(FREE);
        let mut table = MaglevTable {
            places: Vec::new(),
            servers: servers.len(),
            seed: mix(u64::from(seed)),
        };
        let greatest = servers.iter().map(|s| s.1).max().unwrap_or(0);
        if !fits || greatest == 0 {
            return table;
        }
        table.places = vec![FREE; size as usize];
        // who has the first turn does not depend on the order in which they were given
        let mut turns: Vec<usize> = (0..servers.len()).collect();
        turns.sort_by_key(|i| servers[*i].0);
        let mut each: Vec<(Permutation, u64)> = servers
            .iter()
            .map(|(name, _)| (Permutation::new(name, size, seed), 0))
            .collect();
        let mut left = size;
        // Bound: a place is taken at least by one of each row of turns, that of the greatest weight; permutations that
        // are whole have each place once, so that a server looks at `size` places at most in all.
        while left > 0 {
            for i in &turns {
                let (permutation, credit) = &mut each[*i];
                *credit += u64::from(servers[*i].1);
                if *credit < u64::from(greatest) {
                    continue;
                }
                *credit -= u64::from(greatest);
                let place = loop {
                    let place = permutation.next(size);
                    if table.places[place] == FREE {
                        break place;
                    }
                };
                table.places[place] = *i as u16;
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        table
    }

    /// The server of a flow, of those that are `up`: the one at the place of the flow's hash; if that is down, the flow
    /// is hashed anew, so that those of one that is down are shared among all others by their weights, and nobody
    /// else's flows move. `None` when all are down.
    pub fn server(&self, flow: [u64; 2], up: impl Fn(usize) -> bool) -> Option<usize> {
        let size = self.places.len() as u64;
        if size == 0 {
            return None;
        }
        let hash = mix(mix(flow[0] ^ self.seed) ^ flow[1]);
        for n in 0..=REHASHES {
            // the upper half of the hash decides as well as the lower one
            let place = mix(hash.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))) % size;
            let server = usize::from(*self.places.get(place as usize)?);
            if up(server) {
                return Some(server);
            }
        }
        // most of them are down
        let first = (hash % self.servers as u64) as usize;
        (first..self.servers).chain(0..first).find(|s| up(*s))
    }

    /// Places.
    #[cfg(test)]
    fn places(&self) -> &[u16] {
        &self.places
    }
}

#[cfg(test)]
#[path = "maglev_tests.rs"]
mod tests;
