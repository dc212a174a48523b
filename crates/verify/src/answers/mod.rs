//! Questions about chains and rules, answered for all packets.
//!
//! - [`ask`]: can packets of some kind get somewhere?
//! - [`differ`]: what two chains do differently;
//! - [`align`]: two lists of filters, aligned; [`actions`]: actions compared;
//! - [`findings`]: rules that never decide, or without which nothing would change ([`finding`]);
//! - [`list`]: a chain's lists of rules as filters;
//! - [`filters`]: is there a packet in a set that none of these filters takes?
//! - [`boxes`]: a list's filters as boxes of small numbers; [`search`]: the same question asked of them.

pub mod actions;
pub mod align;
pub mod ask;
mod behind;
pub mod boxes;
pub mod differ;
pub mod filters;
pub mod finding;
pub mod findings;
pub mod list;
pub mod search;
mod terms;
mod trial;
mod tries;
mod ways;
