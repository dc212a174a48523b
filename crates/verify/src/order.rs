//! Order within a flow where several flows leave as one.
//!
//! Packets that leave with the same addresses and ports need not have come so: a translator's reply and a packet that
//! was sent to its end directly, say. A batch of the flow table may carry one past the other, since they came as two
//! flows and took two ways. What has to hold is that packets which *came* as one flow leave in the order in which they
//! came.

use std::collections::HashSet;

/// Most positions that are looked at before the answer is no.
const POSITIONS: usize = 20_000;

/// Is `right` the flows of `left`, each in its order, one among the other? `left` says of each packet which flow it
/// came in.
///
/// Equal packets of two flows may be told apart in several ways, so this tries them: positions that were reached before
/// are not tried again, and after `POSITIONS` of them the answer is no, so that an order is never taken for right
/// without having been shown to be.
pub(crate) fn interleaves<T: PartialEq>(left: &[(usize, T)], right: &[T]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let flows = left.iter().map(|(f, _)| f + 1).max().unwrap_or(0);
    let mut lists: Vec<Vec<&T>> = vec![Vec::new(); flows];
    for (f, x) in left {
        lists[*f].push(x);
    }
    lists.retain(|l| !l.is_empty());
    let mut seen: HashSet<Vec<usize>> = HashSet::new();
    let mut open = vec![vec![0usize; lists.len()]];
    while let Some(at) = open.pop() {
        let done: usize = at.iter().sum();
        let Some(next) = right.get(done) else {
            return true;
        };
        for (f, list) in lists.iter().enumerate() {
            if list.get(at[f]).is_some_and(|x| **x == *next) {
                let mut then = at.clone();
                then[f] += 1;
                if seen.len() < POSITIONS && seen.insert(then.clone()) {
                    open.push(then);
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::interleaves;

    #[test]
    fn one_flow_keeps_its_order() {
        assert!(interleaves(&[(0, 'a'), (0, 'b')], &['a', 'b']));
        assert!(!interleaves(&[(0, 'a'), (0, 'b')], &['b', 'a']));
        assert!(!interleaves(&[(0, 'a'), (0, 'b')], &['a', 'a']));
        assert!(!interleaves(&[(0, 'a')], &['a', 'a']));
        assert!(interleaves::<u8>(&[], &[]));
    }

    #[test]
    fn two_flows_may_pass_each_other() {
        assert!(interleaves(&[(0, 'a'), (3, 'b')], &['b', 'a']));
        let left = [(0, 'a'), (1, 'x'), (0, 'b'), (1, 'y')];
        assert!(interleaves(&left, &['x', 'y', 'a', 'b']));
        assert!(!interleaves(&left, &['x', 'b', 'a', 'y']));
    }

    #[test]
    fn equal_packets_of_two_flows_are_tried_both_ways() {
        // the first x is the other flow's; taken for this flow's own, y would come too late
        let left = [(0, 'y'), (0, 'x'), (1, 'x')];
        assert!(interleaves(&left, &['x', 'y', 'x']));
        let left = [(0, 'x'), (0, 'y'), (0, 'x'), (1, 'x'), (1, 'z')];
        assert!(interleaves(&left, &['x', 'x', 'z', 'y', 'x']));
        assert!(!interleaves(&left, &['x', 'z', 'y', 'x', 'x']));
    }

    #[test]
    fn many_equal_packets_end() {
        let left: Vec<(usize, char)> = (0..200).map(|i| (i % 4, 'x')).collect();
        let mut right = vec!['x'; 200];
        assert!(interleaves(&left, &right));
        right[199] = 'y';
        assert!(!interleaves(&left, &right));
    }
}
