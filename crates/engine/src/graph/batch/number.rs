//! The numbers that keep a batch in order: [`onefold_packet::Packet::order`].
//!
//! A packet's number says when it came, and what was made of one packet has numbers between it and the next one, in
//! the order in which the scalar engine would carry it on, depth first. A number whose lowest set bit is bit `t` owns
//! itself and the `2^t - 1` numbers behind it: those of packets that are made of its packet. The first packets' own
//! `t` is [`SHIFT`].

/// Bits behind the number of an arrival, less one.
const SHIFT: u32 = 46;

/// Most packets of a batch that are numbered at once.
pub(crate) const MOST: usize = 1 << 12;

/// The number of the packet that came as number `i` (from 0).
#[inline]
pub(crate) fn of_arrival(i: usize) -> u64 {
    (2 * i as u64 + 1) << SHIFT
}

/// Which packet of the batch something comes from.
#[inline]
pub(crate) fn arrival(order: u64) -> usize {
    (order >> (SHIFT + 1)) as usize
}

/// Before everything that comes of an arrival.
pub(crate) fn before(i: usize) -> u64 {
    (i as u64) << (SHIFT + 1)
}

/// Behind everything that comes of an arrival.
pub(crate) fn behind(i: usize) -> u64 {
    before(i + 1) - 1
}

/// Numbers for `n` packets made of one: the first, and from each to the next. `None` when there is no room for so
/// many.
pub(crate) fn split(order: u64, n: usize) -> Option<(u64, u64)> {
    let bits = n.max(1).next_power_of_two().trailing_zeros();
    let own = order.trailing_zeros().checked_sub(bits + 1)?;
    Some((order + (1 << own), 1 << (own + 1)))
}

/// Numbers all of these anew, which come of one arrival, so that they have as much room as can be.
pub(crate) fn anew(all: &mut [&mut u64]) {
    let mut old: Vec<u64> = all.iter().map(|o| **o).collect();
    old.sort_unstable();
    old.dedup();
    let Some(i) = old.first().map(|o| arrival(*o)) else {
        return;
    };
    // there are fewer packets than numbers
    let (first, step) = split(of_arrival(i), old.len()).unwrap_or((of_arrival(i), 1));
    for order in all {
        let place = old.binary_search(order).unwrap_or(0);
        **order = first + step * place as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_a_packet_stays_between_it_and_the_next() {
        for i in [0, 1, 2, 77, MOST - 1] {
            let mut order = of_arrival(i);
            let end = of_arrival(i + 1);
            assert!(before(i) < order && order < behind(i) && behind(i) < before(i + 1) + 1);
            for n in [2, 3, 1, 64, 5, 1, 1000] {
                let (first, step) = split(order, n).unwrap();
                let last = first + step * (n as u64 - 1);
                assert!(order < first && last < end && arrival(last) == i);
                // what is made of one of them stays before the next one
                let (of_first, more) = split(first, 7).unwrap();
                assert!(first < of_first && of_first + more * 6 < first + step);
                assert_eq!((arrival(first), arrival(last)), (i, i));
                order = last;
            }
        }
    }

    #[test]
    fn numbers_run_out_and_are_given_anew() {
        let mut order = of_arrival(3);
        let mut n = 0;
        while let Some((first, _)) = split(order, 2) {
            order = first;
            n += 1;
        }
        assert_eq!(n, SHIFT / 2);
        let mut all = [order, of_arrival(3), order, order + 1, order - 1];
        let was = all;
        anew(&mut all.each_mut());
        for (i, a) in was.iter().enumerate() {
            for (j, b) in was.iter().enumerate() {
                assert_eq!(a.cmp(b), all[i].cmp(&all[j]));
            }
        }
        assert!(
            all.iter()
                .all(|o| arrival(*o) == 3 && split(*o, 1 << 20).is_some())
        );
    }
}
