//! What the heap keeps of large blocks.
#![allow(unsafe_code)]

/// Blocks of so many bytes and more go back to the system when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: i32 = 128 << 10;

/// Large blocks of memory go back to the system when they are freed, from now on.
///
/// glibc begins so, but the first large block that is freed raises its limit, to 32 MiB in the end
/// (`M_MMAP_THRESHOLD`, mallopt(3)). A chain that is reloaded for days makes programs and structures of half a
/// megabyte each, on threads that come and go, and so in all of glibc's arenas: what is free lies in pieces between
/// what is used, and the process looks as if it leaked (385 MB in an hour's last quarter, 351 in its second; of an
/// arena's 38 MB 20 were in use). What it costs are page faults of those who make programs, never of packets.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt changes a limit of the allocator; it is thread-safe and takes no pointer
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Pages on which nothing is left go back to the system, also between those that are used (malloc_trim(3)).
///
/// glibc gives back by itself what is free at an arena's end. A chain that was replaced leaves holes in all arenas,
/// which the next one does not fit exactly. An arena at a time is locked meanwhile.
pub fn return_free_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim is thread-safe and takes no pointer
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Bytes that are allocated on the heap, of all arenas and mappings (mallinfo2(3)): whether anything leaks, whatever
/// pages are resident. None where the allocator does not say.
pub fn allocated() -> Option<usize> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: mallinfo2 reads the allocator's counts under its locks, and takes no pointer
        let all = unsafe { libc::mallinfo2() };
        Some(all.uordblks + all.hblkhd)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_counted() {
        let before = allocated().unwrap();
        let block = vec![1u8; 64 << 20];
        let with = allocated().unwrap();
        assert!(with >= before + (32 << 20), "{before}, {with}");
        drop(block);
        assert!(allocated().unwrap() < with - (32 << 20));
    }
}
