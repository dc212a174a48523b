//! The same code for processors with wider registers: a window of 64 bytes is compared and written in one step with
//! AVX-512, in two with AVX2, in four with what every x86-64 has.
#![allow(unsafe_code)]

use crate::flow::action_table::{ActionTable, Tally};
use crate::flow::apply::Applied;
use crate::flow::batch_drain::BatchDrain;
use crate::flow::batch_meta::BatchMeta;
use crate::flow::composed::Leased;
use crate::flow::extract::Extracted;
use crate::flow::ingress_cache::IngressCache;
use crate::flow::lookup;
use crate::flow::overload;
use crate::flow::packet_meta::PacketMeta;
use crate::flow::policy::seen_filter::SeenFilter;
use crate::flow::runner::FlowRunner;
use crate::flow::table::Table;
use crate::flow::windows::Windows;
use crate::graph::arrival::Arrival;
use crate::simd::Wide;
use crate::simd::any::Any;
#[cfg(target_arch = "x86_64")]
use crate::simd::avx2::Avx2;
use crate::simd::avx512::Avx512;
use crate::simd::dispatch::Isa;
use onefold_element::ElemId;
use onefold_nat::Leases;
use onefold_packet::{Pkt, Timestamp};

/// The steps, said once: hands them to a macro, behind whatever else it is to know.
macro_rules! steps {
    ($then:ident: $($with:tt)*) => {
        $then! { $($with)*;
            /// [`IngressCache::extract`].
            fn extract[EDGES](
                wide,
                ingress: &IngressCache,
                table: &Table,
                packets: &Windows<'_>,
                meta: &mut BatchMeta,
                out: &mut [PacketMeta],
            ) -> Extracted {
                ingress.extract::<EDGES, false, _>(wide, table, packets, meta, out)
            }
            /// [`IngressCache::extract`], where there are IPv6 packets in columns.
            fn extract_long[](
                wide,
                ingress: &IngressCache,
                table: &Table,
                packets: &Windows<'_>,
                meta: &mut BatchMeta,
                out: &mut [PacketMeta],
            ) -> Extracted {
                ingress.extract::<true, true, _>(wide, table, packets, meta, out)
            }
            /// [`crate::flow::lookup::search`].
            fn search[](
                wide,
                table: &Table,
                leases: &Leases,
                tallies: &[Tally],
                group: &mut [PacketMeta],
            ) -> usize {
                lookup::search(wide, table, leases, tallies, group)
            }
            /// [`crate::flow::lookup::search_keyed`].
            fn search_keyed[](
                wide,
                table: &Table,
                leases: (&Leases, Option<Leased>),
                tallies: &[Tally],
                meta: &mut BatchMeta,
                n: usize,
            ) -> bool {
                lookup::search_keyed(wide, table, leases, tallies, meta, n)
            }
            /// [`crate::flow::lookup::search_some`].
            fn search_some[](
                wide,
                table: &Table,
                leases: (&Leases, Option<Leased>),
                actions: &ActionTable,
                meta: &mut BatchMeta,
                n: usize,
            ) -> bool {
                lookup::search_some(wide, table, leases, actions, meta, n)
            }
            /// [`crate::flow::overload::search_overloaded`].
            fn search_overloaded[](
                wide,
                table: &Table,
                leases: &Leases,
                seen_filter: &SeenFilter,
                meta: &mut BatchMeta,
                n: usize,
            ) -> u64 {
                overload::search_overloaded(wide, table, leases, seen_filter, meta, n)
            }
            /// [`crate::flow::lookup::search_mixed`].
            fn search_mixed[](
                wide,
                table: &Table,
                leases: &Leases,
                seen_filter: &SeenFilter,
                group: &mut [PacketMeta],
            ) -> u64 {
                lookup::search_mixed(wide, table, leases, seen_filter, group)
            }
            /// [`FlowRunner::go`].
            fn go[STALE](
                wide,
                r: &mut FlowRunner,
                from: (usize, usize),
                n: usize,
                packets: &mut BatchDrain<'_>,
                now: Timestamp,
            ) -> usize {
                r.go::<STALE>(wide, from, n, packets, now)
            }
            /// [`FlowRunner::go_alone`].
            fn go_alone[](
                wide,
                r: &mut FlowRunner,
                from: (usize, usize),
                p: Pkt,
                now: Timestamp,
            ) -> Option<Pkt> {
                r.go_alone(wide, from, p, now)
            }
            /// [`FlowRunner::go_in_place`].
            fn go_in_place[](
                wide,
                r: &mut FlowRunner,
                from: (usize, usize),
                upto: usize,
                packets: &mut BatchDrain<'_>,
                stale: bool,
            ) -> usize {
                r.go_in_place(wide, from, upto, packets, stale)
            }
            /// [`FlowRunner::inspect_batch`].
            fn inspect_batch[](
                wide,
                r: &mut FlowRunner,
                range: (usize, usize),
                of: (u64, bool),
                packets: &mut BatchDrain<'_>,
            ) -> usize {
                r.inspect_batch(wide, range, of, packets)
            }
            /// [`FlowRunner::leased_at_once`].
            fn leased_at_once[](
                wide,
                r: &mut FlowRunner,
                packets: &mut Windows<'_>,
            ) -> usize {
                r.leased_at_once(wide, packets)
            }
            /// [`FlowRunner::apply_grouped`].
            fn apply_grouped[](
                wide,
                r: &mut FlowRunner,
                packets: &mut Windows<'_>,
                which: u64,
                now: Timestamp,
            ) -> Option<Applied> {
                r.apply_grouped(wide, packets, which, now)
            }
            /// [`FlowRunner::apply_at_once`].
            fn apply_at_once[KEYED](
                wide,
                r: &mut FlowRunner,
                packets: &mut Windows<'_>,
                which: u64,
                now: Timestamp,
            ) -> Applied {
                r.apply_at_once::<KEYED>(wide, packets, which, now)
            }
        }
    };
}

/// The trait.
macro_rules! declared {
    (;$(
        #[$doc:meta]
        fn $name:ident[$($flag:ident)?]($wide:ident, $($arg:ident: $of:ty),+ $(,)?) -> $out:ty $do:block
    )+) => {
        /// The steps that take most of the time, each compiled by itself: registers are few, and loops that are
        /// compiled together keep what each of them counts in memory.
        pub(crate) trait Steps: Wide {
            $(
                #[$doc]
                fn $name$(<const $flag: bool>)?(self, $($arg: $of),+) -> $out;
            )+
        }
    };
}

/// For what every processor has: nothing is called. Only what is built for tests (with debug assertions) calls its
/// steps: there, what contains them all takes LLVM a third of the crate's time.
macro_rules! inlined {
    ($isa:ident;$(
        #[$doc:meta]
        fn $name:ident[$($flag:ident)?]($wide:ident, $($arg:ident: $of:ty),+ $(,)?) -> $out:ty $do:block
    )+) => {
        impl Steps for $isa {
            $(
                #[cfg_attr(not(debug_assertions), inline(always))]
                #[cfg_attr(debug_assertions, inline(never))]
                fn $name$(<const $flag: bool>)?(self, $($arg: $of),+) -> $out {
                    let $wide = self;
                    $do
                }
            )+
        }
    };
}

/// A function for each step, compiled with these instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled {
    ($isa:ident $features:literal;$(
        #[$doc:meta]
        fn $name:ident[$($flag:ident)?]($wide:ident, $($arg:ident: $of:ty),+ $(,)?) -> $out:ty $do:block
    )+) => {
        impl Steps for $isa {
            $(
                #[inline(always)]
                fn $name$(<const $flag: bool>)?(self, $($arg: $of),+) -> $out {
                    #[target_feature(enable = $features)]
                    #[inline(never)]
                    fn step$(<const $flag: bool>)?($wide: $isa, $($arg: $of),+) -> $out $do
                    // SAFETY: the instructions are there, or the value would not be.
                    unsafe { step$(::<$flag>)?(self, $($arg),+) }
                }
            )+
        }

        impl $isa {
            /// # Safety
            /// The processor has the instructions.
            #[target_feature(enable = $features)]
            unsafe fn run(r: &mut FlowRunner, source: ElemId, ingress: usize, batch: &mut Vec<Pkt>, arrival: Arrival) {
                // SAFETY: who calls this function vouches for the processor.
                r.groups(unsafe { $isa::new() }, source, ingress, batch, arrival);
            }

            /// # Safety
            /// As for `run`.
            #[target_feature(enable = $features)]
            unsafe fn wave(r: &mut FlowRunner, cache: usize, batch: &mut Vec<Pkt>) {
                // SAFETY: who calls this function vouches for the processor.
                r.wave(unsafe { $isa::new() }, cache, batch);
            }
        }
    };
}

steps! { declared: }
steps! { inlined: Any }
#[cfg(target_arch = "x86_64")]
steps! { compiled: Avx2 "avx2,bmi1,bmi2,lzcnt,popcnt" }
#[cfg(target_arch = "x86_64")]
steps! { compiled: Avx512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt" }

/// [`FlowRunner::groups`], compiled for these instructions, which the processor has.
#[inline]
pub(crate) fn run(
    isa: Isa,
    r: &mut FlowRunner,
    source: ElemId,
    ingress: usize,
    batch: &mut Vec<Pkt>,
    arrival: Arrival,
) {
    match isa {
        // SAFETY: found, or the value would not be this one; this goes for the following, too.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { Avx512::run(r, source, ingress, batch, arrival) },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { Avx2::run(r, source, ingress, batch, arrival) },
        Isa::Any => r.groups(Any, source, ingress, batch, arrival),
    }
}

/// [`FlowRunner::wave`], compiled for these instructions, which the processor has.
#[inline]
pub(crate) fn wave(isa: Isa, r: &mut FlowRunner, cache: usize, batch: &mut Vec<Pkt>) {
    match isa {
        // SAFETY: found, or the value would not be this one; this goes for the following, too.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { Avx512::wave(r, cache, batch) },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { Avx2::wave(r, cache, batch) },
        Isa::Any => r.wave(Any, cache, batch),
    }
}
