//! The only place with `unsafe`: vector instructions, prefetch, and how memory is backed.
//!
//! A [`Kernel`] is a look-up written once, generic over an [`Isa`]; [`dispatch`] runs it inside a function that is
//! compiled for what the processor has, so that everything inlined into it is, too. The operations are few and small,
//! and [`Portable`] says in plain Rust what each of them means.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

pub(crate) use portable::Portable;
use std::sync::atomic::{AtomicU8, Ordering};

/// A cache line of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub(crate) struct CacheLine(pub [u32; 16]);

/// Small vector operations. Masks have bit `l` for lane `l`.
pub(crate) trait Isa: Copy {
    /// Lanes that are at most `k`.
    fn le16(self, line: &[u32; 16], k: u32) -> u32;
    /// The first 8 words are least values, the others spans: lanes with `k` in between.
    fn within8(self, line: &[u32; 16], k: u32) -> u32;
    /// The first 8 words are masks, the others values: lanes whose masked bits of `k` are the value.
    fn masked8(self, line: &[u32; 16], k: u32) -> u32;
    /// Lanes with the key's word whose number the byte of the lane is between `lo` and `lo + span`. Bytes are repeated
    /// from the fifth on.
    fn rows4(self, words: &[u32; 4], lo: &[u32; 16], span: &[u32; 16], key: &[u32; 8]) -> u32;
    /// For each four bits whether they are all ones.
    fn all4(self, m: u32) -> u32;
    /// Four words of four keys each as four keys of four words.
    fn turned(self, words: [&[u32; 4]; 4]) -> [[u32; 4]; 4];
    /// For each key how many of 63 ascending cuts it has reached, at most `last`: number `8 * i + j` of them is number
    /// `i` of row `j`.
    fn parts(self, cuts: &[[u32; 8]; 8], last: u32, keys: &[u32; 16]) -> [u32; 16];
    /// Keys that are `v`.
    fn keys_equal(self, keys: &[u32; 16], v: u32) -> u32;
    /// Keys from `lo` to `lo + span`.
    fn keys_within(self, keys: &[u32; 16], lo: u32, span: u32) -> u32;
    /// Keys whose masked bits are `v`.
    fn keys_masked(self, keys: &[u32; 16], mask: u32, v: u32) -> u32;
    /// `v` to the lanes of `out` that `m` has.
    fn put(self, out: &mut [u32; 16], m: u32, v: u32);
    /// Lanes that are `tag`.
    fn tags8(self, tags: &[u16; 8], tag: u16) -> u32;
}

/// [`Isa::turned`] with what every processor of the architecture has.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn turned(words: [&[u32; 4]; 4]) -> [[u32; 4]; 4] {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
        _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    let mut keys = [[0u32; 4]; 4];
    // SAFETY: SSE2 is part of the architecture; loads and stores are of 16 bytes that are there, and need no alignment.
    unsafe {
        let [a, b, c, d] = words.map(|w| _mm_loadu_si128(w.as_ptr().cast::<__m128i>()));
        let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
        let (ef, gh) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
        let rows = [
            _mm_unpacklo_epi64(ab, cd),
            _mm_unpackhi_epi64(ab, cd),
            _mm_unpacklo_epi64(ef, gh),
            _mm_unpackhi_epi64(ef, gh),
        ];
        for (key, row) in keys.iter_mut().zip(rows) {
            _mm_storeu_si128(key.as_mut_ptr().cast(), row);
        }
    }
    keys
}

/// A look-up to be compiled for several processors.
pub(crate) trait Kernel {
    /// Must be `#[inline(always)]`.
    fn run<S: Isa>(self, isa: S);
}

/// Which vector instructions look-ups use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Vectors {
    /// What every processor of the architecture has.
    Portable,
    /// AVX2.
    Avx2,
    /// AVX-512 F, VL and BW.
    Avx512,
}

/// More than any [`Vectors`]: nobody has asked yet.
const UNASKED: u8 = u8::MAX;

static LIMIT: AtomicU8 = AtomicU8::new(UNASKED);

/// Uses no more than these from now on, in the whole process: to measure and to test what other processors would do.
pub fn limit_vectors(to: Vectors) {
    LIMIT.store(to as u8, Ordering::Relaxed);
}

/// A value of `ONEFOLD_ISA` that means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownIsa(pub String);

impl std::fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "ONEFOLD_ISA is '{}'; hint: it can be avx512 (no limit, as without it), avx2, or any (what every processor has)",
            self.0
        )
    }
}

impl std::error::Error for UnknownIsa {}

/// What a value of `ONEFOLD_ISA` means; nothing at all is no limit.
fn limit_of(value: Option<&std::ffi::OsStr>) -> Result<Vectors, UnknownIsa> {
    match value.map(std::ffi::OsStr::to_string_lossy).as_deref() {
        None | Some("" | "avx512") => Ok(Vectors::Avx512),
        Some("avx2") => Ok(Vectors::Avx2),
        Some("any") => Ok(Vectors::Portable),
        Some(other) => Err(UnknownIsa(other.to_string())),
    }
}

/// Looks at the environment variable `ONEFOLD_ISA`, which [`vectors_limit`] takes for no limit if it cannot be
/// understood.
///
/// # Errors
/// It is neither of `avx512`, `avx2`, `any`, nor empty.
pub fn check_environment() -> Result<(), UnknownIsa> {
    limit_of(std::env::var_os("ONEFOLD_ISA").as_deref()).map(drop)
}

/// What [`limit_vectors`] said last. Until then, what the environment variable `ONEFOLD_ISA` says the first time that
/// anybody asks: `avx2`, or `any` for what every processor of the architecture has; no limit if it says something else,
/// or nothing ([`check_environment`] tells these apart).
#[inline]
pub fn vectors_limit() -> Vectors {
    match LIMIT.load(Ordering::Relaxed) {
        UNASKED => read_limit(),
        v if v == Vectors::Avx512 as u8 => Vectors::Avx512,
        v if v == Vectors::Avx2 as u8 => Vectors::Avx2,
        _ => Vectors::Portable,
    }
}

#[cold]
fn read_limit() -> Vectors {
    let to = limit_of(std::env::var_os("ONEFOLD_ISA").as_deref()).unwrap_or(Vectors::Avx512);
    // somebody may have said another one meanwhile
    let _ = LIMIT.compare_exchange(UNASKED, to as u8, Ordering::Relaxed, Ordering::Relaxed);
    vectors_limit()
}

/// Runs a kernel with the best that this processor has.
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) {
    #[cfg(target_arch = "x86_64")]
    {
        let limit = vectors_limit();
        if limit >= Vectors::Avx512
            && let Some(isa) = avx512::Avx512::new()
        {
            // SAFETY: an `Avx512` exists only where its features were detected.
            return unsafe { avx512::run(isa, kernel) };
        }
        if limit >= Vectors::Avx2
            && let Some(isa) = avx2::Avx2::new()
        {
            // SAFETY: an `Avx2` exists only where its features were detected.
            return unsafe { avx2::run(isa, kernel) };
        }
    }
    kernel.run(Portable);
}

/// The same elements on huge pages, if they are many and the system has such pages: what is found at random touches a
/// page each time.
pub(crate) fn on_huge_pages<T: Copy>(v: Vec<T>) -> Vec<T> {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::mman::{MmapAdvise, madvise};
        const PAGE: usize = 4096;
        const HUGE: usize = 2 << 20;
        if size_of_val(&v[..]) < HUGE / 4 {
            return v;
        }
        // room for the last one to be a whole one
        let more = HUGE / size_of::<T>().max(1);
        let mut new: Vec<T> = Vec::new();
        if new.try_reserve_exact(v.len() + 2 * more).is_err() {
            return v;
        }
        let room = new.spare_capacity_mut();
        let skip = room.as_ptr().addr().wrapping_neg() % PAGE;
        let whole = size_of_val(room).saturating_sub(skip) / PAGE * PAGE;
        let at = room.as_mut_ptr().cast::<u8>().wrapping_add(skip);
        if let Some(at) = std::ptr::NonNull::new(at.cast()) {
            // SAFETY: whole pages within memory that the vector owns, none of which has been written to; the advice is
            // about how pages are backed and changes no contents. That it is refused does no harm.
            let _ = unsafe { madvise(at, whole, MmapAdvise::MADV_HUGEPAGE) };
        }
        new.extend_from_slice(&v);
        new
    }
    #[cfg(not(target_os = "linux"))]
    v
}

/// Asks for the cache line of an element, into the second cache, which many lines can be on their way to at a time;
/// does nothing if there is no such element, or no such instruction.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], i: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(slice.as_ptr().wrapping_add(i).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (slice, i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Same;

    impl Kernel for Same {
        #[inline(always)]
        fn run<S: Isa>(self, s: S) {
            let mut x = 0x9e37_79b9_7f4a_7c15u64;
            let mut next = || {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                // small numbers as well as large ones, so that all outcomes occur
                let v = x as u32;
                if x >> 60 < 8 { v & 7 } else { v }
            };
            for _ in 0..if cfg!(miri) { 20 } else { 10_000 } {
                let line: [u32; 16] = std::array::from_fn(|_| next());
                let (k, a, b) = (next(), next(), next());
                assert_eq!(s.le16(&line, k), Portable.le16(&line, k));
                assert_eq!(s.within8(&line, k), Portable.within8(&line, k));
                assert_eq!(s.masked8(&line, k), Portable.masked8(&line, k));
                assert_eq!(s.keys_equal(&line, k), Portable.keys_equal(&line, k));
                let words = [next() & 0x0707_0707; 4];
                let (span, key) = (
                    std::array::from_fn(|_| next()),
                    &std::array::from_fn(|_| next()),
                );
                let rows = s.rows4(&words, &line, &span, key);
                assert_eq!(rows, Portable.rows4(&words, &line, &span, key));
                let [four, ..] = line.as_chunks::<4>().0 else {
                    continue;
                };
                let words = [four, &[a, b, k, 1], &[2, a, 3, b], &[k, 4, 5, 6]];
                assert_eq!(s.turned(words), Portable.turned(words));
                let mut cuts: [u32; 63] = std::array::from_fn(|_| next());
                cuts.sort_unstable();
                let mut rows = [[u32::MAX; 8]; 8];
                for (n, c) in cuts.iter().enumerate() {
                    rows[n % 8][n / 8] = *c;
                }
                let last = 63 - (k & 1);
                let parts = s.parts(&rows, last, &line);
                assert_eq!(parts, Portable.parts(&rows, last, &line));
                let want = |k: u32| (cuts.partition_point(|c| *c <= k) as u32).min(last);
                assert_eq!(parts, line.map(want));
                let m = (a | b) & !(1 << (k & 31));
                assert_eq!(s.all4(m), Portable.all4(m));
                assert_eq!(
                    s.keys_within(&line, a, b),
                    Portable.keys_within(&line, a, b)
                );
                assert_eq!(
                    s.keys_masked(&line, a, b),
                    Portable.keys_masked(&line, a, b)
                );
                let (mut x, mut y) = (line, line);
                s.put(&mut x, a & 0xffff, b);
                Portable.put(&mut y, a & 0xffff, b);
                assert_eq!(x, y);
                let tags: [u16; 8] = std::array::from_fn(|_| next() as u16);
                assert_eq!(s.tags8(&tags, k as u16), Portable.tags8(&tags, k as u16));
            }
        }
    }

    #[test]
    fn vector_operations_are_the_portable_ones() {
        dispatch(Same);
        #[cfg(target_arch = "x86_64")]
        if let Some(isa) = avx2::Avx2::new() {
            // SAFETY: an `Avx2` exists only where its features were detected.
            unsafe { avx2::run(isa, Same) };
        }
    }
}
