//! Which end a connection gets: as the kernel chooses, so that no two connections have the same replies.
//!
//! Source: Linux, net/netfilter/nf_nat_core.c, `get_unique_tuple` and `nf_nat_l4proto_unique_tuple`. A source that is
//! in the range keeps its end; one that is known gets the end that it has for other destinations; then the port that it
//! has, at an address of the range; then ports from a random one on. Whatever is taken by another connection, with the
//! same destination, is not chosen; where nothing is free the connection will not be entered.
//!
//! Not as there: a connection that waits for the end of its last packets (TIME_WAIT) keeps its ports until it has
//! ended.

use super::key::Ends;
use super::range::{Range, Side, port_in};
use super::table::ConnTable;

/// Ports that are tried from one random number on; then half as many from another one.
const MOST_TRIES: u32 = 128;
/// Fewer than these are not tried again.
const FEWEST_TRIES: u32 = 16;

impl ConnTable {
    /// What the `side` of a connection becomes that begins and is to have its replies as `now_has` says so far.
    /// `random`: the next random number.
    pub(super) fn choose(
        &mut self,
        now_has: &Ends,
        range: &Range,
        side: Side,
        now: u64,
        random: &mut dyn FnMut() -> u32,
    ) -> Ends {
        if side == Side::Src && !range.random {
            if range.has(now_has, side) {
                if !self.taken(now_has, now) {
                    return *now_has;
                }
            } else if let Some(known) = self.same_source(now_has, range, now)
                && !self.taken(&known, now)
            {
                return known;
            }
        }
        let mut e = *now_has;
        range.choose_address(&mut e, side);
        // who sends to a port means that port, whoever else's the replies would be
        if side == Side::Dst && range.ports.is_none() && !e.is_icmp() {
            return e;
        }
        if !range.random {
            match range.ports {
                None if !self.taken(&e, now) => return e,
                Some((lo, hi))
                    if range.offset.is_none()
                        && port_in(&e, side, lo, hi)
                        && (lo == hi || !self.taken(&e, now)) =>
                {
                    return e;
                }
                _ => {}
            }
        }
        self.choose_port(e, range, side, now, random)
    }

    fn choose_port(
        &mut self,
        mut e: Ends,
        range: &Range,
        side: Side,
        now: u64,
        random: &mut dyn FnMut() -> u32,
    ) -> Ends {
        let icmp = e.is_icmp();
        if !icmp && !matches!(e.protocol, 6 | 17 | 132) {
            return e;
        }
        let port = if icmp { e.src.port } else { side.of(&e).port };
        let (first, last) = match (range.ports, icmp) {
            (Some(range), _) => range,
            (None, true) => (0, u16::MAX),
            (None, false) if side == Side::Dst => return e,
            // privileged ports stay privileged
            (None, false) => match port {
                0..512 => (1, 511),
                512..1024 => (600, 1023),
                _ => (1024, u16::MAX),
            },
        };
        let size = u32::from(last - first) + 1;
        let mut from = match range.offset {
            Some(base) => port.wrapping_sub(base),
            None if range.random || side == Side::Src => random() as u16,
            None => 0,
        };
        let mut tries = size.min(MOST_TRIES);
        // Bound: half as many tries each time
        loop {
            for _ in 0..tries {
                let port = first + (u32::from(from) % size) as u16;
                match icmp {
                    true => e.src.port = port,
                    false => side.of_mut(&mut e).port = port,
                }
                if !self.taken(&e, now) {
                    return e;
                }
                from = from.wrapping_add(1);
            }
            if tries >= size || tries < FEWEST_TRIES {
                return e;
            }
            tries /= 2;
            from = random() as u16;
        }
    }
}
