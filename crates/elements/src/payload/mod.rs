//! Payload: pattern matching for DPI and per-flow monitoring.

pub mod base;
pub mod error;
mod fastclick;
pub mod filter;
mod flow_key;
mod flow_monitor;
mod flow_table;
mod matcher;
pub mod scan;

use onefold_element::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    flow_monitor::FLOW_MONITOR,
    fastclick::GROUP_REGEX_CLASSIFIER,
    filter::PAYLOAD_FILTER,
    matcher::PAYLOAD_MATCHER,
    fastclick::REGEX_CLASSIFIER,
    fastclick::REGEX_MATCHER,
    fastclick::STRING_CLASSIFIER,
    fastclick::STRING_MATCHER,
];
