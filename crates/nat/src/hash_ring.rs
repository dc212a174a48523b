//! The consistent hash ring of SourceIPHashMapper: the same server for the same source address as Click chooses.
//!
//! Each server has a number of nodes at pseudo-random places on a ring of 2^31 places; an address belongs to the node
//! at or after its own place. The places come from the additive feedback generator that the C library calls `random()`,
//! seeded with the configured seed, because that is what decides which server an address belongs to.

/// The generator behind the C library's `random()` with its default state of 31 words: `x[i] = x[i-3] + x[i-31]`,
/// started by a linear congruential generator; a draw is the upper 31 bits.
struct Feedback {
    x: [u32; 31],
    at: usize,
}

impl Feedback {
    fn new(seed: u32) -> Feedback {
        let mut x = [0u32; 31];
        let mut word = if seed == 0 { 1 } else { seed as i32 };
        for slot in &mut x {
            *slot = word as u32;
            // 16807 * word modulo 2^31 - 1 by Schrage's method, on signed words
            let (high, low) = (word / 127_773, word % 127_773);
            word = low
                .wrapping_mul(16_807)
                .wrapping_sub(high.wrapping_mul(2_836));
            if word < 0 {
                word = word.wrapping_add(i32::MAX);
            }
        }
        let mut f = Feedback { x, at: 3 };
        for _ in 0..310 {
            f.draw();
        }
        f
    }

    fn draw(&mut self) -> u32 {
        let v = self.x[self.at].wrapping_add(self.x[(self.at + 28) % 31]);
        self.x[self.at] = v;
        self.at = (self.at + 1) % 31;
        v >> 1
    }
}

/// Nodes of all servers in order of their places.
#[derive(Debug, Clone)]
pub(crate) struct HashRing {
    /// Place and number of the server, counted in ascending order of server IDs.
    nodes: Vec<(u32, u16)>,
    /// Where an address past the last node goes: the root of Click's search tree.
    past_end: u16,
}

impl HashRing {
    /// `nodes` places for each of the servers with these IDs.
    pub fn new(ids: &[u16], nodes: u32, seed: u32) -> HashRing {
        let mut feedback = Feedback::new(seed);
        let servers = ids.iter().max().map_or(0, |i| u32::from(*i) + 1);
        let mut ring = Vec::new();
        let mut number = 0;
        for id in 0..servers {
            let ours = ids.iter().any(|i| u32::from(*i) == id);
            // draws are taken for missing servers as well, so that the others keep their places when one goes
            for _ in 0..nodes {
                let place = feedback.draw();
                if ours {
                    ring.push((place, number));
                }
            }
            number += u16::from(ours);
        }
        ring.sort_unstable();
        HashRing {
            past_end: ring.get(root_rank(ring.len())).map_or(0, |n| n.1),
            nodes: ring,
        }
    }

    /// The number of the server that an address belongs to, of those that are `up`: that of the first node from the
    /// address's place on. `None` when all are down.
    pub fn server(&self, saddr: u32, up: impl Fn(usize) -> bool) -> Option<usize> {
        // the address as a little-endian machine reads it, its first byte multiplied into the highest
        let a = saddr.swap_bytes();
        let place = a.wrapping_mul((a & 0xff) << 24 | 1) % (i32::MAX as u32);
        let at = self.nodes.partition_point(|n| n.0 < place);
        let first = usize::from(self.nodes.get(at).map_or(self.past_end, |n| n.1));
        if up(first) {
            return Some(first);
        }
        let at = at.min(self.nodes.len());
        let around = self.nodes[at..].iter().chain(&self.nodes[..at]);
        around.map(|n| usize::from(n.1)).find(|s| up(*s))
    }
}

/// Rank of the node at the root of Click's balanced search tree over `n` nodes.
fn root_rank(n: usize) -> usize {
    if n == 0 {
        return 0;
    }
    // the least power of two above n
    let size = n.next_power_of_two() << usize::from(n.is_power_of_two());
    let (n, size) = (n as i64, size as i64);
    let full = 2 * ((n + 1) / 2) - 2 * ((size - 1 - n) / 2) + 1;
    let half = size / 2;
    let rank = if half < full {
        half
    } else {
        (half + full - 1) / 2
    };
    (rank - 1).clamp(0, n - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_is_the_c_librarys() {
        // the well-known first numbers after srandom(1)
        let mut f = Feedback::new(1);
        let v: Vec<u32> = (0..5).map(|_| f.draw()).collect();
        assert_eq!(
            v,
            [1804289383, 846930886, 1681692777, 1714636915, 1957747793]
        );
    }

    #[test]
    fn servers_share_and_keep_addresses() {
        let all = HashRing::new(&[0, 1, 2, 3], 100, 7);
        let fewer = HashRing::new(&[0, 1, 3], 100, 7);
        let mut count = [0usize; 4];
        let mut moved = 0;
        for i in 0..4000u32 {
            let a = 0x0a00_0000 + i * 7919;
            let s = all.server(a, |_| true).unwrap();
            count[s] += 1;
            // number 2 of the smaller ring is server 3
            let t = [0, 1, 3][fewer.server(a, |_| true).unwrap()];
            if s != 2 && s != t {
                moved += 1;
            }
        }
        assert!(count.iter().all(|c| *c > 400), "{count:?}");
        // only addresses past the last node may move besides those of the server that went
        assert!(moved < 100, "{moved}");
    }

    #[test]
    fn addresses_of_a_server_that_is_down_go_to_the_next_ones() {
        let ring = HashRing::new(&[0, 1, 2, 3], 100, 7);
        let mut count = [0usize; 4];
        for i in 0..4000u32 {
            let a = 0x0a00_0000 + i * 7919;
            let (before, now) = (ring.server(a, |_| true), ring.server(a, |s| s != 2));
            assert!(before == Some(2) || before == now);
            count[now.unwrap()] += 1;
            assert_eq!(ring.server(a, |s| s == 3), Some(3));
            assert_eq!(ring.server(a, |_| false), None);
        }
        assert!(
            count[2] == 0 && [0, 1, 3].iter().all(|s| count[*s] > 900),
            "{count:?}"
        );
    }

    #[test]
    fn no_servers_is_no_panic() {
        assert_eq!(HashRing::new(&[], 3, 1).server(5, |_| true), Some(0));
        assert_eq!(HashRing::new(&[], 3, 1).server(5, |_| false), None);
        for n in 1..200 {
            assert!(root_rank(n) < n);
        }
    }
}
