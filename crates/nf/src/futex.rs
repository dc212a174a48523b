//! Waiting for a word of shared memory to change.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits while the word has this value, for `most`, or until somebody wakes it ([`wake`]), or a signal comes. The
/// caller looks what it was.
pub fn wait(word: &AtomicU32, value: u32, most: Duration) {
    let most = most.min(Duration::from_secs(3600));
    let time = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: most.subsec_nanos().into(),
    };
    // SAFETY: the word is there while it is borrowed, and so is the time; the system compares the word and reads the
    // time, and writes neither.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const time,
        );
    }
}

/// Wakes one who waits for the word, in whatever process.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word is there while it is borrowed; the system takes its address only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1);
    }
}
