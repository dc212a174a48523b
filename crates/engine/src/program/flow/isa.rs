//! The same code for processors with wider registers: a window of 64 bytes is compared and written in one step with AVX-512, in two
//! with AVX2, in four with what every x86-64 has.
#![allow(unsafe_code)]

use super::FlowRunner;
use super::wide::Any;
use onefold_elements::ElemId;
use onefold_packet::{Pkt, Timestamp};

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
