//! The same code for processors with wider registers.
#![allow(unsafe_code)]

/// Something to be compiled for several processors: all that it calls has to be inlined into it.
pub(super) trait Work {
    type Out;
    /// Must be `#[inline(always)]`.
    fn run(self) -> Self::Out;
}

/// Does it with the widest registers that there are.
#[inline]
pub(super) fn widely<W: Work>(w: W) -> W::Out {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the processor has all of it: the others are part of these, or older than any of them.
            return unsafe { avx512(w) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has it.
            return unsafe { avx2(w) };
        }
    }
    w.run()
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
