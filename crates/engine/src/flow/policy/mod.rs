//! What is worth remembering, and which level takes packets.

pub(crate) mod admission;
pub(crate) mod insert_backoff;
pub(crate) mod level_choice;
pub(crate) mod monitor;
pub(crate) mod seen_filter;
