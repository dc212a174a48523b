//! Packets whose actions are known: these are applied: what is counted, what is written, and where they leave.

use crate::flow::action_table::Tally;
use crate::flow::batch_meta::BatchMeta;
use crate::flow::lease::LeasePool;
use crate::flow::lookup::entry;
use crate::flow::packet_meta::PacketMeta;
use crate::flow::rewrite_template::{NO_SINK, RewriteTemplate};
use crate::flow::table::{NO_SLOT, Table};
use crate::flow::windows::Windows;
use crate::simd::GROUP;
use crate::simd::any::Any;
use crate::simd::bits::first_bits;
use crate::simd::window_rewrite::Operands as FlowOperands;
use crate::simd::{HEAD_AT, Wide};
use onefold_element::StateStore;
use onefold_nat::{Leases, NO_LEASE};
use onefold_packet::{Packet, Pkt};
use std::sync::atomic::AtomicU64;

/// What packets on their way have to do with, and what they are.
pub(crate) struct ApplyEach<'a> {
    pub tallies: &'a mut [Tally],
    pub templates: &'a [RewriteTemplate],
    pub dirty: &'a mut Vec<u32>,
    pub table: &'a mut Table,
    pub packets: &'a mut [Pkt],
    pub sinks: &'a mut [u32; GROUP],
}

/// How many had their actions applied, how many of them without an entry, and how many of them to be dropped.
#[derive(Default)]
pub(crate) struct Applied {
    pub went: usize,
    /// Of packets that go at once, the first one that did not: all before it have gone that were to.
    pub upto: usize,
    pub by_class: u64,
    pub dropped: u64,
}

impl ApplyEach<'_> {
    /// As [`crate::flow::FlowRunner::go`]; the stamps that it gives follow `clock`.
    #[inline(always)]
    pub fn go<const STALE: bool>(
        self,
        wide: impl Wide,
        group: &mut [PacketMeta],
        (pool, store): (&LeasePool, &StateStore),
        clock: &mut u64,
    ) -> Applied {
        let ApplyEach {
            tallies,
            templates,
            dirty,
            table,
            packets,
            sinks,
        } = self;
        let words = pool.leases.words();
        let count = group.len().min(packets.len()).min(GROUP);
        let (group, packets) = (&mut group[..count], &mut packets[..count]);
        let crowded = table.crowded();
        let mut done = Applied::default();
        // Loops over indices: adapters may not be inlined
        while done.went < count {
            let (x, p) = (&mut group[done.went], &mut *packets[done.went]);
            if STALE && x.slot != NO_SLOT {
                entry(wide, table, x);
            }
            let Some(t) = tallies.get_mut(x.action as usize) else {
                break;
            };
            let Some(template) = templates.get(t.template() as usize) else {
                break;
            };
            if !t.ready() && !begins(t, x.action, dirty) {
                break;
            }
            if x.lease != NO_LEASE && !touch(x.lease, (words, pool, store), clock) {
                break;
            }
            match x.slot {
                NO_SLOT => done.by_class += 1,
                s if crowded => table.mark(s),
                _ => {}
            }
            let total = x.total;
            t.add(1, p.len() as u32, total);
            sinks[done.went] = template.sink;
            done.went += 1;
            if template.quick {
                // before the window is there: it would have to be found again
                template.end(p, total);
                if let Some(b) = p.window_mut() {
                    template.apply_quick(wide, b, &x.operands);
                    continue;
                }
            }
            if let Some(turn) = &template.turn {
                template.end(p, total);
                if let Some(b) = p.window_mut() {
                    template.apply_turned(wide, turn, b, &x.operands);
                    continue;
                }
            }
            done.dropped += u64::from(!other(template, p, &x.operands, total));
        }
        done
    }
}

/// What packets have to do with that go [at once](crate::flow::FlowRunner::go_at_once).
pub(crate) struct ApplyAtOnce<'a, 'b> {
    pub tallies: &'a mut [Tally],
    pub templates: &'a [RewriteTemplate],
    pub dirty: &'a mut Vec<u32>,
    pub table: &'a mut Table,
    pub meta: &'a mut BatchMeta,
    pub packets: &'a mut Windows<'b>,
    /// Which are to go: a bit each.
    pub which: u64,
}

impl ApplyAtOnce<'_, '_> {
    /// `KEYED`: some have entries, and all are known [in short](BatchMeta::keyed); otherwise none has one. The stamps that are given follow `clock`.
    #[inline(always)]
    pub fn go<const KEYED: bool>(
        self,
        wide: impl Wide,
        (pool, store): (&LeasePool, &StateStore),
        clock: &mut u64,
    ) -> Applied {
        let ApplyAtOnce {
            tallies,
            templates,
            dirty,
            table,
            meta: b,
            packets,
            which,
        } = self;
        let words = pool.leases.words();
        let count = packets.len().min(GROUP);
        let (crowded, longer) = (table.crowded(), b.longer);
        let mut done = Applied::default();
        let mut left = which & first_bits(count);
        // Bound: one bit less each time
        while left != 0 {
            let i = left.trailing_zeros() as usize % GROUP;
            done.upto = i;
            let action = b.actions[i];
            let Some(t) = tallies.get_mut(action as usize) else {
                break;
            };
            let Some(template) = templates.get(t.template() as usize) else {
                break;
            };
            if !t.ready() && !begins(t, action, dirty) {
                break;
            }
            if KEYED {
                let lease = b.leases[i];
                if !touch(lease, (words, pool, store), clock) && lease != NO_LEASE {
                    break;
                }
                if crowded {
                    table.mark(b.slots[i]);
                }
            }
            let total = b.totals[i];
            t.add(1, b.lens[i], total);
            b.sinks[i] = template.sink;
            done.went += 1;
            left &= left - 1;
            if template.trim && (longer || template.l3 != HEAD_AT as u32) {
                packets.keep(i, (template.l3 + total) as usize);
            }
            if KEYED {
                if template.quick
                    && let Some(w) = packets.get_mut(i)
                {
                    template.apply_quick(wide, w, &b.operands[i]);
                    continue;
                }
            } else if template.simple
                && let Some(w) = packets.get_mut(i)
            {
                template.apply_simple(wide, w);
                continue;
            }
            let operands = if KEYED {
                b.operands[i]
            } else {
                template.bytes.operands
            };
            if !KEYED
                && template.quick
                && let Some(w) = packets.get_mut(i)
            {
                template.apply_quick(wide, w, &operands);
                continue;
            }
            if let Some(turn) = &template.turn
                && let Some(w) = packets.get_mut(i)
            {
                template.apply_turned(wide, turn, w, &operands);
                continue;
            }
            let stays = packets
                .packet_mut(i)
                .is_some_and(|p| other(template, p, &operands, total));
            done.dropped += u64::from(!stays);
        }
        if left == 0 {
            done.upto = count;
        }
        let went = which & first_bits(count) & !left;
        done.by_class = match KEYED {
            true => (went & b.only).count_ones().into(),
            false => done.went as u64,
        };
        done
    }
}

/// Gives a lease the stamp that follows `clock`. False where there is none, or its binding is gone.
#[inline(always)]
fn touch(
    lease: u32,
    (words, pool, store): (&[AtomicU64], &LeasePool, &StateStore),
    clock: &mut u64,
) -> bool {
    let stamp = *clock + 1;
    if !Leases::touch_word(words, lease, stamp) {
        return false;
    }
    *clock = stamp;
    debug_assert!(
        pool.holds(lease, store),
        "lease {lease} of a binding that is gone"
    );
    true
}

/// What is seldom, one packet at a time. False if the packet is dropped.
#[inline(never)]
fn other(template: &RewriteTemplate, p: &mut Packet, operands: &FlowOperands, total: u32) -> bool {
    if template.sink == NO_SINK {
        return false;
    }
    if !template.quick {
        template.apply(p, operands, total);
        return true;
    }
    template.end(p, total);
    match p.window_mut() {
        Some(b) => template.apply_quick(Any, b, operands),
        None => template.apply(p, operands, total),
    }
    true
}

/// The first packet of an action that has nothing to be told of: it is listed. False if somebody is to be told of each.
#[cold]
#[inline(never)]
fn begins(t: &mut Tally, action: u32, dirty: &mut Vec<u32>) -> bool {
    if !t.plain() {
        return false;
    }
    if t.pending().packets == 0 {
        dirty.push(action);
    }
    t.set_ready();
    true
}
