//! Reasons of drops that configurations and programs bring along: texts that live as long as the process.

use crate::DropReason;
use crate::args::ArgScope;
use crate::args::FromArg;
use std::collections::HashSet;
use std::sync::Mutex;

/// Most texts that are kept, over all configurations and programs ever loaded.
pub const MAX_REASONS: usize = 1 << 16;
/// Longest text of a program, in bytes.
const LONGEST: usize = 512;
/// Longest reason that a configuration may give, in characters.
pub const MAX_REASON_LEN: usize = 200;

/// The same text for ever; `None` when there are [`MAX_REASONS`] already, or it is too long.
pub fn intern(text: &str) -> Option<DropReason> {
    static TEXTS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut guard = TEXTS.lock().unwrap_or_else(|e| e.into_inner());
    let texts = guard.get_or_insert_default();
    if let Some(t) = texts.get(text) {
        return Some(t);
    }
    if texts.len() >= MAX_REASONS || text.len() > LONGEST {
        return None;
    }
    // kept on purpose: reasons are compared and counted for as long as the process runs
    let t: &'static str = Box::leak(text.to_string().into_boxed_str());
    texts.insert(t);
    Some(t)
}

/// The argument of `REASON`: what is said of packets that are dropped here, instead of the element's own words.
pub struct Reason(pub DropReason);

impl FromArg for Reason {
    const WANTS: &'static str = "a text of 1 to 200 characters";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let text = String::from_arg(s, scope)?;
        let text = text.trim();
        let fits = (1..=MAX_REASON_LEN).contains(&text.chars().count());
        if !fits || text.chars().any(char::is_control) {
            return Err(None);
        }
        match intern(text) {
            Some(t) => Ok(Reason(t)),
            None => Err(Some(format!("more than {MAX_REASONS} different reasons"))),
        }
    }
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
