//! Packets that have their actions applied action by action: what is the same for all of an action's packets is done once for them.
//!
//! One packet after the other ([`ApplyAtOnce::go`]), each asks its action for a tally and this for a template, and adds itself to the one and loads the other: eighty instructions, half of
//! which come to the same for each packet. Where a group's packets have few actions, sets of bits say whose is whose; an action's count, lengths and sinks take some
//! fifty instructions whatever their number is, its template stays in registers, and what is left for each packet is its stamp, and to be written.

use crate::flow::apply::{Applied, ApplyAtOnce};
use crate::flow::batch_meta::{MOST, Usual};
use crate::flow::lease::LeasePool;
use crate::simd::GROUP;
use crate::simd::bits::{each_bit, first_bits};
use crate::simd::window_rewrite::rewrite_packet;
use crate::simd::{HEAD_AT, Wide};
use onefold_element::StateStore;
use onefold_nat::{Leases, NO_LEASE};

/// Packets of each that make it worth it, in the mean.
const EACH: u32 = 4;
/// Groups that are not asked how many actions they have after one that goes too many: to find that out takes three instructions for each packet.
const REST: u8 = 15;
/// Fewer packets go one after the other.
const FEW: u32 = 8;

/// Which of a group's packets have which action: how many actions there are, or `None` if they are too many.
///
/// What the actions are is known from the group before, more often than not. To find that out from the packets, one action after the other, takes a chain of steps each of which waits for
/// the one before.
#[inline(always)]
fn share_out<W: Wide>(
    wide: W,
    (actions, all): (&[u32; GROUP], u64),
    usual: &mut Usual,
    whose: &mut [(u64, u32); MOST],
) -> Option<usize> {
    if usual.rest > 0 {
        usual.rest -= 1;
        return None;
    }
    let (mut n, mut left, mut k) = (0, all, 0);
    while k < usual.n.min(MOST) {
        let action = usual.actions[k];
        let those = wide.same(actions, action) & all;
        whose[n % MOST] = (those, action);
        n += usize::from(those != 0);
        left &= !those;
        k += 1;
    }
    // Bound: an action more each time
    while left != 0 {
        let action = actions[left.trailing_zeros() as usize % GROUP];
        let those = wide.same(actions, action) & left;
        left &= !those;
        // the first ones, which are the most frequent ones more often than not, may have few
        let gone = all.count_ones() - left.count_ones();
        if usual.n >= MOST || gone + 2 * EACH < EACH * (n as u32 + 1) {
            (usual.n, usual.rest) = (0, REST);
            return None;
        }
        usual.actions[usual.n] = action;
        usual.n += 1;
        whose[n % MOST] = (those, action);
        n += 1;
    }
    Some(n)
}

impl ApplyAtOnce<'_, '_> {
    /// What [`ApplyAtOnce::go`] does. `None`, and nothing has been done, where that had better do it: packets are few or have many actions, or there is more to be done for one than to
    /// write its window.
    #[inline(always)]
    pub fn apply_grouped(
        self,
        wide: impl Wide,
        (pool, store): (&LeasePool, &StateStore),
        clock: &mut u64,
    ) -> Option<Applied> {
        let ApplyAtOnce {
            tallies,
            templates,
            table,
            meta: b,
            packets,
            which,
            ..
        } = self;
        let count = packets.len().min(GROUP);
        let all = which & first_bits(count);
        if all.count_ones() < FEW || all & !packets.present() != 0 {
            return None;
        }
        let mut whose = [(0u64, 0u32); MOST];
        let n = share_out(wide, (&b.actions, all), &mut b.usual, &mut whose)?;
        let mut k = 0;
        // Loops over indices: adapters may not be inlined. Bound: `MOST`, here and below
        while k < n {
            let t = tallies.get(whose[k].1 as usize)?;
            let template = templates.get(t.template() as usize)?;
            let trims = template.trim && (b.longer || template.l3 != HEAD_AT as u32);
            if !t.ready() || !template.quick || trims {
                return None;
            }
            k += 1;
        }
        let mut done = Applied {
            upto: count,
            ..Applied::default()
        };
        let mut go = all;
        let (words, crowded) = (pool.leases.words(), table.crowded());
        let mut stamp = *clock + 1;
        // in the order of packets, which is that of last uses
        each_bit!(all, i, {
            let lease = b.leases[i];
            if Leases::touch_word(words, lease, stamp) {
                stamp += 1;
                debug_assert!(
                    pool.holds(lease, store),
                    "lease {lease} of a binding that is gone"
                );
            } else if lease != NO_LEASE {
                // it has ended: this packet goes no further, and nobody behind it
                go &= first_bits(i);
                done.upto = i;
                break;
            }
            if crowded {
                table.mark(b.slots[i]);
            }
        });
        *clock = stamp - 1;
        // what is asked once saves two sums for each action
        let first = all.trailing_zeros() as usize % GROUP;
        let (len, total) = (b.lens[first], b.totals[first]);
        let equal_match = all & !(wide.same(&b.lens, len) & wide.same(&b.totals, total)) == 0;
        let mut k = 0;
        while k < n {
            let (those, action) = whose[k];
            k += 1;
            let those = those & go;
            // both are there: it has been asked above
            let Some(t) = tallies.get_mut(action as usize) else {
                continue;
            };
            let Some(template) = templates.get(t.template() as usize) else {
                continue;
            };
            let these = those.count_ones();
            let (bytes, ip_bytes) = match equal_match {
                true => (these * len, these * total),
                false => (wide.sum(&b.lens, those), wide.sum(&b.totals, those)),
            };
            t.add(these, bytes, ip_bytes);
            wide.set(template.sink, those, &mut b.sinks);
            let taken = (&template.bytes, wide.take(&template.bytes));
            let mut windows = packets.some(those);
            while let Some((i, w)) = windows.next() {
                rewrite_packet(wide, wide.load(w), taken, &b.operands[i], w);
            }
        }
        done.went = go.count_ones() as usize;
        done.by_class = (go & b.only).count_ones().into();
        Some(done)
    }
}
