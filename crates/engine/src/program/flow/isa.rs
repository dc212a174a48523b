//! The same code for processors with wider registers: a window of 64 bytes is compared and written in one step with AVX-512, in two
//! with AVX2, in four with what every x86-64 has.
#![allow(unsafe_code)]

use super::FlowRunner;
use super::brief::Briefs;
use super::front::Front;
use super::guard::{Lane, Parsed};
use super::leave::Done;
use super::monitor::Once;
use super::survey::Seen;
use super::table::Table;
use super::ways::Tally;
#[cfg(target_arch = "x86_64")]
use super::wide::Avx512;
use super::wide::{Any, Wide};
use super::windows::Windows;
use onefold_elements::ElemId;
use onefold_elements::rewrite::Leases;
use onefold_packet::{Pkt, Timestamp};

/// The steps that take most of the time, each compiled by itself: registers are few, and loops that are compiled together keep what each of them counts in memory.
pub(super) trait Steps: Wide {
    /// [`Lane::survey`].
    fn survey<const EDGES: bool>(
        self,
        lane: &Lane,
        table: &Table,
        packets: &Windows<'_>,
        briefs: &mut Briefs,
        out: &mut [Parsed],
    ) -> Seen;
    /// [`super::hot::search`].
    fn search(
        self,
        table: &Table,
        leases: &Leases,
        tallies: &[Tally],
        group: &mut [Parsed],
    ) -> usize;
    /// [`super::hot::search_keyed`].
    fn search_keyed(
        self,
        table: &Table,
        leases: &Leases,
        tallies: &[Tally],
        briefs: &mut Briefs,
        n: usize,
    ) -> bool;
    /// [`super::pressed::search_pressed`].
    fn search_pressed(
        self,
        table: &Table,
        leases: &Leases,
        once: &Once,
        briefs: &mut Briefs,
        n: usize,
    ) -> u64;
    /// [`super::hot::search_mixed`].
    fn search_mixed(self, table: &Table, leases: &Leases, once: &Once, group: &mut [Parsed])
    -> u64;
    /// [`FlowRunner::go`].
    fn go<const STALE: bool>(
        self,
        r: &mut FlowRunner,
        from: usize,
        n: usize,
        packets: &mut Front<'_>,
        now: Timestamp,
    ) -> usize;
    /// [`FlowRunner::go_at_once`].
    fn go_at_once<const KEYED: bool>(
        self,
        r: &mut FlowRunner,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Done;
}

impl Steps for Any {
    #[inline(always)]
    fn survey<const EDGES: bool>(
        self,
        lane: &Lane,
        table: &Table,
        packets: &Windows<'_>,
        briefs: &mut Briefs,
        out: &mut [Parsed],
    ) -> Seen {
        lane.survey::<EDGES, _>(self, table, packets, briefs, out)
    }
    #[inline(always)]
    fn search(
        self,
        table: &Table,
        leases: &Leases,
        tallies: &[Tally],
        group: &mut [Parsed],
    ) -> usize {
        super::hot::search(self, table, leases, tallies, group)
    }
    #[inline(always)]
    fn search_keyed(
        self,
        table: &Table,
        leases: &Leases,
        tallies: &[Tally],
        briefs: &mut Briefs,
        n: usize,
    ) -> bool {
        super::hot::search_keyed(self, table, leases, tallies, briefs, n)
    }
    #[inline(always)]
    fn search_pressed(
        self,
        table: &Table,
        leases: &Leases,
        once: &Once,
        briefs: &mut Briefs,
        n: usize,
    ) -> u64 {
        super::pressed::search_pressed(self, table, leases, once, briefs, n)
    }
    #[inline(always)]
    fn search_mixed(
        self,
        table: &Table,
        leases: &Leases,
        once: &Once,
        group: &mut [Parsed],
    ) -> u64 {
        super::hot::search_mixed(self, table, leases, once, group)
    }
    #[inline(always)]
    fn go<const STALE: bool>(
        self,
        r: &mut FlowRunner,
        from: usize,
        n: usize,
        packets: &mut Front<'_>,
        now: Timestamp,
    ) -> usize {
        r.go::<STALE>(self, from, n, packets, now)
    }
    #[inline(always)]
    fn go_at_once<const KEYED: bool>(
        self,
        r: &mut FlowRunner,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Done {
        r.go_at_once::<KEYED>(self, packets, which, now)
    }
}

#[cfg(target_arch = "x86_64")]
impl Steps for Avx512 {
    #[inline(always)]
    fn survey<const EDGES: bool>(
        self,
        lane: &Lane,
        table: &Table,
        packets: &Windows<'_>,
        briefs: &mut Briefs,
        out: &mut [Parsed],
    ) -> Seen {
        // SAFETY: the instructions are there, or the value would not be.
        unsafe { survey::<EDGES>(self, lane, table, packets, briefs, out) }
    }
    #[inline(always)]
    fn search(
        self,
        table: &Table,
        leases: &Leases,
        tallies: &[Tally],
        group: &mut [Parsed],
    ) -> usize {
        // SAFETY: as above.
        unsafe { search(self, table, leases, tallies, group) }
    }
    #[inline(always)]
    fn search_keyed(
        self,
        table: &Table,
        leases: &Leases,
        tallies: &[Tally],
        briefs: &mut Briefs,
        n: usize,
    ) -> bool {
        // SAFETY: as above.
        unsafe { search_keyed(self, table, leases, tallies, briefs, n) }
    }
    #[inline(always)]
    fn search_pressed(
        self,
        table: &Table,
        leases: &Leases,
        once: &Once,
        briefs: &mut Briefs,
        n: usize,
    ) -> u64 {
        // SAFETY: as above.
        unsafe { search_pressed(self, table, leases, once, briefs, n) }
    }
    #[inline(always)]
    fn search_mixed(
        self,
        table: &Table,
        leases: &Leases,
        once: &Once,
        group: &mut [Parsed],
    ) -> u64 {
        // SAFETY: as above.
        unsafe { search_mixed(self, table, leases, once, group) }
    }
    #[inline(always)]
    fn go<const STALE: bool>(
        self,
        r: &mut FlowRunner,
        from: usize,
        n: usize,
        packets: &mut Front<'_>,
        now: Timestamp,
    ) -> usize {
        // SAFETY: as above.
        unsafe { go::<STALE>(self, r, from, n, packets, now) }
    }
    #[inline(always)]
    fn go_at_once<const KEYED: bool>(
        self,
        r: &mut FlowRunner,
        packets: &mut Windows<'_>,
        which: u64,
        now: Timestamp,
    ) -> Done {
        // SAFETY: as above.
        unsafe { go_at_once::<KEYED>(self, r, packets, which, now) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
fn survey<const EDGES: bool>(
    wide: Avx512,
    lane: &Lane,
    table: &Table,
    packets: &Windows<'_>,
    briefs: &mut Briefs,
    out: &mut [Parsed],
) -> Seen {
    lane.survey::<EDGES, _>(wide, table, packets, briefs, out)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
fn search(
    wide: Avx512,
    table: &Table,
    leases: &Leases,
    tallies: &[Tally],
    group: &mut [Parsed],
) -> usize {
    super::hot::search(wide, table, leases, tallies, group)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
fn search_keyed(
    wide: Avx512,
    table: &Table,
    leases: &Leases,
    tallies: &[Tally],
    briefs: &mut Briefs,
    n: usize,
) -> bool {
    super::hot::search_keyed(wide, table, leases, tallies, briefs, n)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
fn search_pressed(
    wide: Avx512,
    table: &Table,
    leases: &Leases,
    once: &Once,
    briefs: &mut Briefs,
    n: usize,
) -> u64 {
    super::pressed::search_pressed(wide, table, leases, once, briefs, n)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
fn search_mixed(
    wide: Avx512,
    table: &Table,
    leases: &Leases,
    once: &Once,
    group: &mut [Parsed],
) -> u64 {
    super::hot::search_mixed(wide, table, leases, once, group)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
fn go<const STALE: bool>(
    wide: Avx512,
    r: &mut FlowRunner,
    from: usize,
    n: usize,
    packets: &mut Front<'_>,
    now: Timestamp,
) -> usize {
    r.go::<STALE>(wide, from, n, packets, now)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
#[inline(never)]
fn go_at_once<const KEYED: bool>(
    wide: Avx512,
    r: &mut FlowRunner,
    packets: &mut Windows<'_>,
    which: u64,
    now: Timestamp,
) -> Done {
    r.go_at_once::<KEYED>(wide, packets, which, now)
}

/// What the processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Any,
}

impl Isa {
    /// Of this processor.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            let v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            if v3
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                return Isa::Avx512;
            }
            if v3 {
                return Isa::Avx2;
            }
        }
        Isa::Any
    }

    /// [`FlowRunner::groups`], compiled for it.
    #[inline]
    pub fn run(
        self,
        r: &mut FlowRunner,
        source: ElemId,
        lane: usize,
        batch: &mut Vec<Pkt>,
        now: Timestamp,
    ) {
        match self {
            // SAFETY: detected above, where alone the value is made.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { avx512(r, source, lane, batch, now) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2(r, source, lane, batch, now) },
            Isa::Any => r.groups(Any, source, lane, batch, now),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx512(r: &mut FlowRunner, source: ElemId, lane: usize, batch: &mut Vec<Pkt>, now: Timestamp) {
    // SAFETY: who calls this function vouches for the processor.
    let wide = unsafe { super::wide::Avx512::new() };
    r.groups(wide, source, lane, batch, now);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx2(r: &mut FlowRunner, source: ElemId, lane: usize, batch: &mut Vec<Pkt>, now: Timestamp) {
    r.groups(Any, source, lane, batch, now);
}
