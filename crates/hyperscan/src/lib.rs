//! Vectorscan or Hyperscan: one database of many expressions, all looked for in one pass.
//!
//! The library (`libhs.so.5`, of either project: they have one binary interface) is opened at run time, so that one
//! binary runs on machines with and without it. [`library`] opens it, once per process; [`Library::compile`] makes a
//! [`Database`] of [`Expression`]s; a [`Scanner`] looks for them. A database is immutable and shared by all scanners
//! (behind an `Arc`); a scanner owns the room that a scan works in, so each executor has one of its own: cloning a
//! scanner allocates, scanning does not.
//!
//! ```
//! use onefold_hyperscan::{Expression, Scanner, library};
//! use std::sync::Arc;
//!
//! let Ok(library) = library() else { return }; // not on this machine
//! let database = library.compile(&[Expression::new(7, "GET [^ ]+").unwrap()]).unwrap();
//! let mut scanner = Scanner::new(Arc::new(database)).unwrap();
//! let mut found = Vec::new();
//! scanner.scan(b"GET /a GET /b", |id| { found.push(id); true }).unwrap();
//! assert_eq!(found, [7]); // each expression at most once
//! ```
//!
//! Releases differ in what they find: Vectorscan 5.4.9 misses strings that begin in the last bytes of a vector. So a
//! library is tried on a few thousand small cases when it is opened, and not used if one of them comes out wrong.
//!
//! Expressions are Hyperscan's: PCRE without look-around and back-references, over bytes. All `unsafe` code is in
//! `ffi`.
#![deny(unsafe_code)]

mod check;
mod ffi;

pub use ffi::{Database, Library, Scanner, library};
use std::ffi::CString;

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// What is reported when it is found.
    pub id: u32,
    /// The expression.
    text: CString,
    /// ASCII letters match in either case.
    pub caseless: bool,
    /// Only matches that end at this byte or later, counted from the start of what is scanned.
    pub min_end: Option<u64>,
    /// Only matches that end at this byte or before.
    pub max_end: Option<u64>,
}

impl Expression {
    /// An expression; `None` if its text has a zero byte (write `\x00`).
    pub fn new(id: u32, text: impl Into<Vec<u8>>) -> Option<Expression> {
        Some(Expression {
            id,
            text: CString::new(text).ok()?,
            caseless: false,
            min_end: None,
            max_end: None,
        })
    }

    /// Its text.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        self.text.to_string_lossy()
    }
}

/// Why there is no library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// It cannot be opened.
    #[error("libhs.so.5 is not installed (Debian: libvectorscan5 or libhyperscan5)")]
    NotInstalled,
    /// It lacks a function.
    #[error("libhs.so.5 has no {0}")]
    NoSymbol(&'static str),
    /// It misses what is there, or finds what is not: what was looked for.
    #[error("libhs.so.5 {0} is not used, it finds wrongly: {1}")]
    Wrong(String, String),
    /// It does not run on this processor (SSSE3 or SSE4.2 on x86-64).
    #[error("libhs.so.5 does not support this processor")]
    Processor,
}

/// Why expressions were not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    /// Which of them, by its place in the list, where that is known.
    pub expression: Option<usize>,
    /// What the library says.
    pub message: String,
}

/// A failure of the library: its number (`HS_INVALID` and so on, see `hs_common.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("libhs.so.5: error {0}")]
pub struct Failure(pub i32);

#[cfg(test)]
mod tests;
