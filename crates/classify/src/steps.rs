//! Which interval a word lies in: a static search tree, 16 bounds to a cache line.
//!
//! The sorted first values of all intervals are the last level; each level above has the first value of every line of
//! the level below it. One line per level is compared at once; 65,536 intervals take four. (The layout of "S-trees", as
//! in Khuong & Morin, "Array layouts for comparison-based searching", 2017, with whole lines as nodes.)

use crate::simd::{CacheLine, Isa, prefetch};

/// Sorted bounds, in lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    lines: Vec<CacheLine>,
    /// First line and number of lines of each level, the root first.
    levels: Vec<(u32, u32)>,
    /// How many bounds.
    len: u32,
}

impl Steps {
    /// Of ascending bounds, the first of which is 0.
    pub fn new(bounds: &[u32]) -> Self {
        let mut levels = vec![bounds.to_vec()];
        // Bound: each level has a sixteenth of the one below, rounded up, and the last one a single line.
        while let Some(last) = levels.last().filter(|l| l.len() > 16) {
            levels.push(last.iter().step_by(16).copied().collect());
        }
        levels.reverse();
        let mut s = Self {
            len: bounds.len() as u32,
            ..Self::default()
        };
        for l in levels {
            let first = s.lines.len() as u32;
            for c in l.chunks(16) {
                let mut line = [u32::MAX; 16];
                line[..c.len()].copy_from_slice(c);
                s.lines.push(CacheLine(line));
            }
            s.levels.push((first, s.lines.len() as u32 - first));
        }
        s
    }

    /// For each key the number of its interval; `out` is as long as `keys`.
    #[inline(always)]
    pub fn find<S: Isa>(&self, s: S, keys: &[u32], out: &mut [u32]) {
        out.fill(0);
        for (n, (first, lines)) in self.levels.iter().enumerate() {
            let last = n + 1 == self.levels.len();
            // padding is the greatest number and would count for the greatest key
            let below = match last {
                true => self.len - 1,
                false => self.levels[n + 1].1 - 1,
            };
            for (k, o) in keys.iter().zip(out.iter_mut()) {
                let at = (*first + (*o).min(lines - 1)) as usize;
                let line = self.lines.get(at).unwrap_or(const { &CacheLine([0; 16]) });
                let count = s.le16(&line.0, *k).count_ones();
                *o = (*o * 16 + count.saturating_sub(1)).min(below);
                if !last {
                    prefetch(&self.lines, (self.levels[n + 1].0 + *o) as usize);
                }
            }
        }
    }

    /// Bytes on the heap.
    pub fn memory_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<CacheLine>() + self.levels.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;

    #[test]
    fn finds_what_a_binary_search_finds() {
        for n in [1usize, 2, 15, 16, 17, 255, 256, 257, 4097, 70_000] {
            let step = u32::MAX / n as u32;
            let mut bounds: Vec<u32> = (0..n as u32).map(|i| i * step).collect();
            if n > 1 {
                bounds[n - 1] = u32::MAX;
            }
            let s = Steps::new(&bounds);
            let keys: Vec<u32> = (bounds.iter())
                .flat_map(|b| [b.wrapping_sub(1), *b, b.wrapping_add(1)])
                .collect();
            let mut out = vec![0; keys.len()];
            s.find(Portable, &keys, &mut out);
            for (k, o) in keys.iter().zip(&out) {
                let want = bounds.partition_point(|b| b <= k) - 1;
                assert_eq!(*o as usize, want, "{k:#x} among {n}");
            }
        }
    }
}
