//! Texts that live as long as the process: drop reasons that a program brings along.

use std::collections::HashSet;
use std::sync::Mutex;

/// Most texts that are kept, over all programs ever loaded.
pub(super) const MOST: usize = 1 << 16;
/// Longest text.
const LONGEST: usize = 512;

/// The same text for ever; `None` when there are [`MOST`] already, or it is too long.
pub(super) fn intern(text: &str) -> Option<&'static str> {
    static TEXTS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut guard = TEXTS.lock().unwrap_or_else(|e| e.into_inner());
    let texts = guard.get_or_insert_default();
    if let Some(t) = texts.get(text) {
        return Some(t);
    }
    if texts.len() >= MOST || text.len() > LONGEST {
        return None;
    }
    // kept on purpose: reasons are compared and counted for as long as the process runs
    let t: &'static str = Box::leak(text.to_string().into_boxed_str());
    texts.insert(t);
    Some(t)
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_text_once() {
        let a = super::intern("a reason").unwrap();
        let b = super::intern(&String::from("a reason")).unwrap();
        assert!(std::ptr::eq(a, b));
        assert_eq!(super::intern(&"x".repeat(10_000)), None);
    }
}
