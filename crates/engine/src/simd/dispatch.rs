//! The same code for processors with wider registers.
#![allow(unsafe_code)]

use onefold_classify::{Vectors, vectors_limit};
use std::sync::OnceLock;

/// What instructions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    Any,
    /// AVX2, with what all processors have that have it: BMI 1 and 2, LZCNT and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Besides AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Of this processor.
    #[inline]
    pub fn found() -> Isa {
        static FOUND: OnceLock<Isa> = OnceLock::new();
        *FOUND.get_or_init(|| {
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
        })
    }

    /// Of this processor, but no more than [`vectors_limit`] says: on a machine that has AVX-512 `ONEFOLD_ISA=avx2` measures and tests what one without it does.
    #[inline]
    pub fn detect() -> Isa {
        let most = match vectors_limit() {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => Isa::Avx512,
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => Isa::Avx2,
            _ => Isa::Any,
        };
        Isa::found().min(most)
    }
}

/// Keeps a loop one of single steps. Where steps are few instructions, compilers turn several at a time into gathers of pointers and lengths, which
/// take several times as long as reading them one by one.
#[inline(always)]
pub(crate) fn one_by_one() {
    // SAFETY: no instruction at all.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Something to be compiled for several processors: all that it calls has to be inlined into it.
pub(crate) trait Work {
    type Out;
    /// Must be `#[inline(always)]`.
    fn run(self) -> Self::Out;
}

/// Does it with the widest registers that there are.
#[inline]
pub(crate) fn widely<W: Work>(w: W) -> W::Out {
    match Isa::detect() {
        // SAFETY: the processor has it, or it would not have been found; this goes for the following, too.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512(w) },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2(w) },
        Isa::Any => w.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi2")]
fn avx512<W: Work>(w: W) -> W::Out {
    w.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
fn avx2<W: Work>(w: W) -> W::Out {
    w.run()
}
