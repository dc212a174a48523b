//! What scanners are given, written down: so that a matcher is measured alone, on the payloads that a chain gives it.

use super::Scanner;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Recordings that are being made, by all threads. Outside of them a scan looks at this and no further.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// Payloads, in the order in which they were looked at, each with the scanner that looked.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    scanners: Vec<Scanner>,
    /// Scanner, first byte, length.
    payloads: Vec<(usize, usize, usize)>,
    bytes: Vec<u8>,
    limit: usize,
}

#[inline]
pub(super) fn on() -> bool {
    ACTIVE.load(Ordering::Relaxed) > 0
}

#[cold]
pub(super) fn note(scanner: &Scanner, data: &[u8]) {
    CURRENT.with_borrow_mut(|r| {
        let Some(r) = r else { return };
        if r.bytes.len() + data.len() > r.limit {
            return;
        }
        let same = |s: &Scanner| Arc::ptr_eq(&s.patterns, &scanner.patterns);
        let k = r.scanners.iter().position(same).unwrap_or_else(|| {
            r.scanners.push(scanner.clone());
            r.scanners.len() - 1
        });
        r.payloads.push((k, r.bytes.len(), data.len()));
        r.bytes.extend_from_slice(data);
    });
}

/// Records what scanners of this thread are given while `f` runs, `limit` bytes of payload at most.
pub fn record(limit: usize, f: impl FnOnce()) -> Recording {
    /// Ends it although `f` may panic.
    struct On;
    impl Drop for On {
        fn drop(&mut self) {
            ACTIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    CURRENT.set(Some(Recording {
        limit,
        ..Recording::default()
    }));
    ACTIVE.fetch_add(1, Ordering::Relaxed);
    let on = On;
    f();
    drop(on);
    CURRENT.take().unwrap_or_default()
}

impl Recording {
    /// Scans.
    pub fn scans(&self) -> usize {
        self.payloads.len()
    }
    /// Bytes of payload.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
    /// Who looked: each scanner that did.
    pub fn scanners(&self) -> &[Scanner] {
        &self.scanners
    }
    /// All scans once more, and nothing else. Gives how many patterns were found.
    pub fn replay(&mut self) -> usize {
        let mut n = 0;
        for (k, at, len) in &self.payloads {
            let data = self.bytes.get(*at..at + len).unwrap_or(&[]);
            if let Some(s) = self.scanners.get_mut(*k) {
                n += s.look(data).count();
            }
        }
        n
    }
}
