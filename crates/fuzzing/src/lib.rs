//! What fuzz targets do with an input: one module per target, its `run` panics on a finding. `fuzz/` feeds them with
//! what a coverage-guided fuzzer thinks of; `tests/corpus.rs` with what such runs have kept. Nothing here is part of
//! the product.
#![forbid(unsafe_code)]
#![allow(missing_docs, clippy::type_complexity)]

pub mod capture;
pub mod chain_file;
pub mod click_parser;
pub mod executor;
pub mod frames;
pub mod gen_inputs;
pub mod importers;
pub mod ip6filter;
pub mod ipfilter;
pub mod nf_region;
pub mod packet_path;
pub mod payload_filter;
pub mod payload_matcher;
pub mod program_text;
pub mod script;
pub mod trees;

/// What there is of text at the start of an input.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(t) => t,
        Err(e) => std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default(),
    }
}

/// A target: what it does with an input.
pub type Target = fn(&[u8]);

/// All targets by name, as `cargo fuzz list` has them.
pub const TARGETS: [(&str, Target); 13] = [
    ("capture", capture::run),
    ("chain_file", chain_file::run),
    ("click_parser", click_parser::run),
    ("executor", executor::run),
    ("gen_inputs", gen_inputs::run),
    ("importers", importers::run),
    ("ip6filter", ip6filter::run),
    ("ipfilter", ipfilter::run),
    ("nf_region", nf_region::run),
    ("packet_path", packet_path::run),
    ("payload_filter", payload_filter::run),
    ("payload_matcher", payload_matcher::run),
    ("program_text", program_text::run),
];
