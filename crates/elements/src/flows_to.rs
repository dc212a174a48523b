//! The handler `flows_to` of tables of flows: how many there are to which server, a part of the table at a time.
//!
//! Its parameter is `FROM SERVER ...`, FROM the number of the record that the part begins with; it says
//! `NEXT FLOWS ... OTHER`: where the next part begins (0: that was the last one), the flows of each server, and those
//! that go elsewhere.

use onefold_element::handler::{HandlerError, HandlerResult};
use onefold_nat::DestinationCounts;
use std::fmt::Write;
use std::hash::Hash;

/// What it says. `server` reads a server; `count` counts a part of the table from a record on, and says where the next
/// one begins.
pub fn part_text<A: Copy + Eq + Hash>(
    param: &str,
    server: impl Fn(&str) -> Result<A, String>,
    count: impl FnOnce(usize, &mut DestinationCounts<A>) -> Option<usize>,
) -> HandlerResult {
    let bad = |why: String| HandlerError::BadValue(format!("flows_to: {why}"));
    let mut words = param.split_whitespace();
    let from = words.next().and_then(|w| w.parse().ok());
    let from = from.ok_or_else(|| bad("expected a record's number, and servers".into()))?;
    let servers: Result<Vec<A>, String> = words.map(server).collect();
    let mut counts = DestinationCounts::new(&servers.map_err(bad)?);
    let mut text = count(from, &mut counts).unwrap_or(0).to_string();
    for n in counts.flows().iter().chain([&counts.other()]) {
        // writing to a String cannot fail
        let _ = write!(text, " {n}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_said_in_numbers() {
        let server = |w: &str| w.parse::<u8>().map_err(|_| format!("'{w}' is no server"));
        let said = |param: &str, next| {
            part_text(param, server, |from, counts| {
                counts.add(7, 0);
                counts.add(3, 0);
                (from == 5).then_some(next)
            })
        };
        assert_eq!(said("5 7 9", 12).unwrap(), "12 1 0 1");
        assert_eq!(said("6 3 7 0", 12).unwrap(), "0 1 1 0 0");
        assert_eq!(said("0", 12).unwrap(), "0 2");
        for wrong in ["", "x", "0 7 a"] {
            assert!(said(wrong, 12).is_err(), "{wrong}");
        }
    }
}
