//! What is noted of packets of [leased](crate::flow::leased) flows: [`FlowLease::note`], many times.
//!
//! What differs from packet to packet is which words of a lease are written, and when: by its kind and the direction,
//! that stands in a row of a table, so that a packet costs a load of its lease, one of its row, and a store. Word by
//! word, each under its condition, it was seventy instructions, and half of all that was done for a leased packet
//! behind its look-up.
//!
//! Sixteen leases as columns (as headers are) would take two turns of eight registers, and a question for flows that
//! are there twice: hardly less, and nothing where packets of a flow come in bursts.
#![allow(unsafe_code)]

use crate::flow::batch_meta::BatchMeta;
use crate::flow::hints::leased;
use crate::simd::merge::{News, WORDS, Words, Written};
use crate::simd::{GROUP, Wide};
use onefold_element::{FlowLease, LEASE_KINDS};
use onefold_table::prefetch_near;

/// Rows: kinds of leases, and directions.
const ROWS: usize = LEASE_KINDS * 2;

/// Words of a lease that rows say: when the flow is over, its kind, and the direction.
const SET: i32 = 0b11 | 1 << FlowLease::KIND;
/// The word that has the segment's end.
const END: i32 = 1 << FlowLease::END;

const _: () = assert!(WORDS == FlowLease::WORDS && size_of::<Words>() == size_of::<FlowLease>());
const _: () = assert!(align_of::<Words>() == align_of::<FlowLease>());

/// Which words are written of leases of a kind, by packets of a direction.
static WRITTEN: [Written; ROWS] = written();

const fn written() -> [Written; ROWS] {
    const NONE: Words = Words([0; WORDS]);
    let mut rows = [Written {
        always: NONE,
        later: NONE,
    }; ROWS];
    let mut row = 0;
    while row < ROWS {
        let w = &mut rows[row];
        (w.always.0[0], w.always.0[1]) = (u32::MAX, u32::MAX);
        if row / 2 == FlowLease::SEGMENTS as usize {
            w.always.0[FlowLease::KIND] = u32::MAX;
            w.always.0[FlowLease::END] = u32::MAX;
            w.later.0[FlowLease::ACKS + row % 2] = u32::MAX;
        }
        row += 1;
    }
    rows
}

/// What is noted at a moment.
pub(crate) struct Noting {
    now: u64,
    /// By kind and direction.
    rows: [Words; ROWS],
}

impl Noting {
    /// At this millisecond; `stays`: how long flows stay behind a packet, by kind.
    #[inline(always)]
    pub fn at(now: u64, stays: &[u64; LEASE_KINDS]) -> Noting {
        let mut rows = [Words::default(); ROWS];
        let mut row = 0;
        // Loops over indices: adapters may not be inlined, here and below. Bound: the rows
        while row < ROWS {
            let to = &mut rows[row];
            let until = now.saturating_add(stays[row / 2]).to_ne_bytes();
            let [a, b, c, d, e, f, g, h] = until;
            to.0[0] = u32::from_ne_bytes([a, b, c, d]);
            to.0[1] = u32::from_ne_bytes([e, f, g, h]);
            to.0[FlowLease::KIND] = u32::from_ne_bytes([(row / 2) as u8, (row % 2) as u8, 0, 0]);
            row += 1;
        }
        Noting { now, rows }
    }

    /// Asks for what is noted of packets of a group, from number `from` on to before `end`: they are noted a moment
    /// later, and what is behind the nearest cache is here then.
    #[inline(always)]
    pub fn ask(leases: &[FlowLease], meta: &BatchMeta, (from, end): (usize, usize)) {
        let mut k = from;
        // Bound: the group
        while k < end {
            if let Some(l) = leases.get(leased(meta.hints[k % GROUP]).0) {
                prefetch_near(l);
            }
            k += 1;
        }
    }

    /// Notes packets of a group from number `from` on to before `end`, whose flows' [hints](BatchMeta::hints) are
    /// written down: the number of the first one whose lease does not run, or `end`.
    #[inline(always)]
    pub fn note_each(
        &self,
        wide: impl Wide,
        leases: &mut [FlowLease],
        meta: &BatchMeta,
        (from, end): (usize, usize),
    ) -> usize {
        let mut k = from;
        // Bound: the group
        while k < end {
            let i = k % GROUP;
            let (at, lease) = leased(meta.hints[i]);
            let Some(l) = leases.get_mut(at) else { break };
            if !l.runs(lease, self.now) {
                break;
            }
            let row = (usize::from(l.kind) * 2 + (lease & 1) as usize) % ROWS;
            let news = News {
                set: &self.rows[row],
                later: meta.acks[i],
                last: meta.ends[i],
            };
            // SAFETY: as many words, aligned likewise, each of which says something. Of the bytes that are no numbers
            // the direction is written as one of 0 and 1, and what is behind it as zeros.
            let words = unsafe { &mut *std::ptr::from_mut(l).cast::<Words>() };
            wide.merge::<SET, END>(words, news, &WRITTEN[row]);
            k += 1;
        }
        k
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::any::Any;

    /// Leases that run, or do not, of all kinds.
    fn leases(random: &mut impl FnMut() -> u32) -> (Vec<FlowLease>, Vec<u64>) {
        let mut hints = Vec::new();
        let all = (0..20u32).map(|at| {
            let mut l = FlowLease::default();
            l.expires = u64::from(random() % 8) * 100;
            l.kind = (random() % 3) as u8;
            (l.end, l.reply) = (random(), random() % 2 == 1);
            l.acks = [random(), random()];
            if l.kind == FlowLease::LIMITED {
                l.set_limit(u64::from(random() % 8) * 100);
            }
            for reply in [false, true] {
                let lease = u64::from(l.begin(reply)) << 32;
                hints.push(lease | u64::from(at + 1));
            }
            if random().is_multiple_of(9) {
                l.end();
            }
            l
        });
        let all = all.collect();
        (all, hints)
    }

    fn are_noted(wide: impl Wide) {
        let mut x = 0x1234_5678_9abc_def1u64;
        let mut random = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 16) as u32
        };
        let (mut noted, mut stopped) = (0, 0);
        for round in 0..2000u64 {
            let (mut all, mut hints) = leases(&mut random);
            hints.extend([0, 1, 1 << 32 | 1, 3 << 32, 3 << 32 | 1000]);
            let mut meta = BatchMeta::default();
            for i in 0..GROUP {
                let which = random() as usize % if round % 2 == 0 { 40 } else { hints.len() };
                meta.hints[i] = hints[which];
                let (at, lease) = leased(meta.hints[i]);
                let near = all.get(at).map_or(0, |l| l.acks[lease as usize % 2]);
                meta.acks[i] = [random(), near.wrapping_add(random() % 3).wrapping_sub(1)]
                    [random() as usize % 2];
                meta.ends[i] = random();
            }
            let (now, stays) = (round % 250, [500, 7, u64::MAX, 3]);
            let mut want = all.clone();
            let (from, end) = (random() as usize % 3, GROUP - random() as usize % 3);
            let mut k = from;
            while k < end
                && let (at, lease) = leased(meta.hints[k])
                && let Some(l) = want.get_mut(at)
                && l.note(lease, now, &stays, (meta.acks[k], meta.ends[k]))
            {
                k += 1;
            }
            let to = Noting::at(now, &stays).note_each(wide, &mut all, &meta, (from, end));
            assert_eq!((to, &all), (k, &want));
            noted += to - from;
            stopped += usize::from(to < end);
        }
        assert!(noted > 2500 && stopped > 100, "{noted} {stopped}");
    }

    #[test]
    fn packets_are_noted_as_one_by_one() {
        are_noted(Any);
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(wide) = crate::simd::avx2::Avx2::found() {
                are_noted(wide);
            }
            if let Some(wide) = crate::simd::avx512::Avx512::found() {
                are_noted(wide);
            }
        }
    }
}
