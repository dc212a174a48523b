//! Rewriters: NAT and its mappers.
//!
//! All bindings live in the state store, in [`onefold_nat::FlowTable`]s, where a fast path can share them; patterns and
//! mappers keep their state there too. How bindings are kept is told in `onefold-nat`; here are the elements.

mod bind;
mod classes;
mod fragments;
mod ftp;
mod handlers;
mod icmp;
mod mapper;
mod pattern;
mod patterns;
mod rewriter;
mod settings;
mod spec;

#[cfg(test)]
mod tests;

use onefold_element::{ElementClass, StateId, StateStore};

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    classes::IP_REWRITER,
    classes::TCP_REWRITER,
    classes::UDP_REWRITER,
    classes::IP_ADDR_REWRITER,
    classes::IP_ADDR_PAIR_REWRITER,
    classes::ICMP_PING_REWRITER,
    icmp::ICMP_REWRITER,
    ftp::FTP_PORT_MAPPER,
    patterns::IP_REWRITER_PATTERNS,
    mapper::ROUND_ROBIN,
    mapper::SOURCE_HASH,
    mapper::MAGLEV,
];

/// The pattern sets of all IPRewriterPatterns that are configured so far.
fn named_pattern_sets(classes: &[String], store: &StateStore) -> Vec<StateId> {
    let named = classes.iter().enumerate();
    let named = named.filter(|(_, c)| *c == patterns::IP_REWRITER_PATTERNS.name);
    named
        .filter_map(|(i, _)| store.published_by(onefold_element::ElemId(i as u32)))
        .collect()
}
