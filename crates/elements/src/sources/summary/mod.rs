//! IP packet summaries: one line (or binary record) per packet, with chosen fields.
//!
//! Click elements FromIPSummaryDump and ToIPSummaryDump; the format is described with the latter in Click's
//! documentation, version 1.3. [`field`] names the fields, [`view`] reads them from packets, [`output`] writes them,
//! [`input`] reads them back, and [`builder`] makes packets of them.

mod builder;
mod field;
mod from;
mod input;
mod ip_options;
mod lines;
mod options;
mod output;
mod tcp_options;
mod to;
mod view;

pub use from::FROM_IP_SUMMARY_DUMP;
pub use to::TO_IP_SUMMARY_DUMP;

/// Version of the format, minor number; the major one is 1.
const MINOR_VERSION: u32 = 3;

#[cfg(test)]
mod tests;
