//! How many of the ports that a translator draws from are taken.
//!
//! A source's port that cannot stay is drawn from a range that its own is of: 1 to 511, 600 to 1023, or those above
//! (Linux, net/netfilter/nf_nat_core.c, nf_nat_l4proto_unique_tuple). The kernel tries at most 240 of them, one behind
//! the other from four places that it draws: where most are taken it may find none, though there are some, or it takes
//! that of a connection that is closing. A chain looks at all.

use crate::ends::{Ends, Place};
use std::collections::HashMap;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The ranges: their numbers of ports.
const SIZES: [usize; 3] = [511, 424, 64_512];

/// Who shares ports: which side draws, the other end, the address, the protocol, and the range.
type Group = (bool, Place, [u8; 16], u8, usize);

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Bound: one for each connection and side.
    taken: HashMap<Group, usize>,
    /// So many groups have most of their ports taken.
    crowded: usize,
}

/// Are so many most of a range: so many that one of 240 tries may find none?
fn most(n: usize, range: usize) -> bool {
    SIZES.get(range).is_some_and(|all| n * 3 > all * 2)
}

/// Of the tuple of replies.
fn group(kernel: bool, replies: &Ends) -> Option<Group> {
    let range = match replies.dst.port {
        1..=511 => 0,
        600..=1023 => 1,
        1024.. => 2,
        _ => return None,
    };
    let has_ports = matches!(replies.protocol, TCP | UDP);
    has_ports.then_some((
        kernel,
        replies.src,
        replies.dst.address,
        replies.protocol,
        range,
    ))
}

impl Crowd {
    /// A connection whose replies have these tuples, in the chain and in the kernel.
    pub fn enter(&mut self, replies: &(Ends, Ends)) {
        let groups = [group(false, &replies.0), group(true, &replies.1)];
        for g in groups.into_iter().flatten() {
            let n = self.taken.entry(g).or_default();
            *n += 1;
            self.crowded += usize::from(most(*n, g.4) && !most(*n - 1, g.4));
        }
    }

    /// It is gone.
    pub fn leave(&mut self, replies: &(Ends, Ends)) {
        let groups = [group(false, &replies.0), group(true, &replies.1)];
        for g in groups.into_iter().flatten() {
            let Some(n) = self.taken.get_mut(&g) else {
                continue;
            };
            *n -= 1;
            self.crowded -= usize::from(most(*n + 1, g.4) && !most(*n, g.4));
            if *n == 0 {
                self.taken.remove(&g);
            }
        }
    }

    /// May the kernel give up although there is a port?
    pub fn is(&self) -> bool {
        self.crowded > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ends::read;
    use crate::ends::tests::udp;

    #[test]
    fn most_of_a_range() {
        let mut c = Crowd::default();
        let replies = |port| {
            let e = read(&udp([198, 51, 100, 7], 53, [203, 0, 113, 1], port))
                .unwrap()
                .ends;
            (e, e)
        };
        for port in 1..=340 {
            c.enter(&replies(port));
        }
        assert!(!c.is());
        // another range, and one of none
        c.enter(&replies(700));
        c.enter(&replies(550));
        assert!(!c.is());
        c.enter(&replies(341));
        assert!(c.is());
        c.leave(&replies(7));
        assert!(!c.is());
        for port in (1..=6).chain(8..=341) {
            c.leave(&replies(port));
        }
        c.leave(&replies(700));
        assert!(c.taken.is_empty() && !c.is());
    }
}
