//! Where a condition holds although some of what it reads cannot be said (Kleene's logic): a checksum that is not
//! written yet lies where UDP has its ports, and is no matter where the packet is no UDP.

use super::dd::{NO, Ref, YES};
use super::element::{Got, holds};
use super::packet::{Cause, World};
use onefold_element::model::{Cond, Read};
use std::collections::HashMap;

/// A condition's value.
pub(super) struct Partly {
    /// It holds here.
    pub holds: Ref,
    /// It cannot be said whether it holds here; nowhere that [`Partly::holds`] is.
    pub unsaid: Ref,
    /// Why.
    pub cause: Option<Cause>,
}

/// A condition's value, for these readings.
pub(super) fn partly(w: &mut World, c: &Cond, by: &HashMap<Read, &Got>) -> Partly {
    let (list, all) = match c {
        Cond::All(l) => (l, true),
        Cond::Any(l) => (l, false),
        Cond::Not(c) => {
            let c = partly(w, c, by);
            let maybe = w.dd.or(c.holds, c.unsaid);
            return Partly {
                holds: w.dd.not(maybe),
                ..c
            };
        }
        c => {
            let f = holds(w, c, by);
            return Partly {
                holds: f.unwrap_or(NO),
                unsaid: if f.is_ok() { NO } else { YES },
                cause: f.err(),
            };
        }
    };
    // where all hold that have been asked, or one; and where that may be
    let start = if all { YES } else { NO };
    let (mut holds, mut maybe, mut cause) = (start, start, None);
    for c in list {
        let c = partly(w, c, by);
        let may = w.dd.or(c.holds, c.unsaid);
        (holds, maybe) = match all {
            true => (w.dd.and(holds, c.holds), w.dd.and(maybe, may)),
            false => (w.dd.or(holds, c.holds), w.dd.or(maybe, may)),
        };
        cause = cause.or(c.cause);
        // whatever the others are
        let decided = if all { maybe == NO } else { holds == YES };
        if decided {
            break;
        }
    }
    let does_not = w.dd.not(holds);
    Partly {
        holds,
        unsaid: w.dd.and(maybe, does_not),
        cause,
    }
}
