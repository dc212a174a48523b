//! What a payload costs beside time: no allocation, whoever looks, which is counted. (The library's own are counted,
//! too: it takes malloc, but its scratch is made before.)

use onefold_elements::payload::scan::{Choice, DEFAULT_REGEX_MEMORY, Pattern, Scanner};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Calls of this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; calls are counted beside it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        CALLS.with(|c| c.set(c.get() + 1));
        unsafe { System.alloc(l) }
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        unsafe { System.dealloc(p, l) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn scans_allocate_nothing() {
    let list: Vec<Pattern> = (0..300)
        .map(|i| Pattern {
            nocase: i % 2 == 0,
            ..Pattern::literal(format!("needle{i:03}").into_bytes())
        })
        .collect();
    let data: Vec<u8> = (0..300)
        .flat_map(|i| format!("NEEDLE{i:03} needle{i:03} ").into_bytes())
        .collect();
    for choice in [Choice::Portable, Choice::Auto] {
        let original = Scanner::with(list.clone(), DEFAULT_REGEX_MEMORY, choice).unwrap();
        let mut s = original.clone();
        let before = CALLS.get();
        for end in (0..data.len()).step_by(7).chain([data.len()]) {
            s.scan(&data[..end]);
            s.any(&data[..end]);
        }
        assert_eq!(CALLS.get(), before, "{}", s.engine());
        assert_eq!(s.scan(&data).count(), 300);
    }
    assert!(CALLS.get() > 0);
}
