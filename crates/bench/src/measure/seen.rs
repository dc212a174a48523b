//! Which flows the packets of a measurement are of: a few packets of many flows say little about those flows.

use super::aim::Lane;
use super::feed::Order;
use onefold_engine::flow::FlowStats;

/// Flows of the first lane that packets were measured of, and what a flow table knew of these packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    flows: Vec<bool>,
    count: usize,
    /// Packets that a flow table knew, and all that it was given.
    pub table: (u64, u64),
}

/// The batches of a slice that were of the first lane: so many from this place of its order on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batches {
    pub next: usize,
    pub number: usize,
    pub batch: usize,
}

impl Batches {
    /// Of so many batches of all lanes, which take turns, beginning with `lane`.
    pub fn of_first(next: usize, lane: usize, lanes: usize, batches: u64, batch: usize) -> Batches {
        let lanes = lanes.max(1);
        let before = (lanes - lane % lanes) % lanes;
        let of_first = (batches as usize).saturating_sub(before).div_ceil(lanes);
        Batches {
            next,
            number: of_first,
            batch,
        }
    }
}

impl Seen {
    /// How many flows.
    pub fn flows(&self) -> usize {
        self.count
    }

    /// Marks the flows of a slice's packets. Bound: the order's length, and it ends when all flows have been seen.
    pub fn mark(&mut self, lane: &Lane, order: &Order, b: Batches) {
        // those behind are of nobody's flows
        let known = lane.strangers.as_ref().map_or(usize::MAX, |s| s.known);
        let known = known.min(lane.templates.len());
        let all = match known {
            0 => 0,
            n => lane.templates.flow_of(n - 1) + 1,
        };
        self.flows.resize(all.max(self.flows.len()), false);
        let places = order.places();
        let mut next = b.next;
        let most = places.len().div_ceil(b.batch.max(1));
        for _ in 0..b.number.min(most) {
            if self.count == all {
                return;
            }
            if places.get(next..next + b.batch).is_none() {
                next = 0;
            }
            let these = places.get(next..next + b.batch).unwrap_or_default();
            for i in these.iter().map(|i| *i as usize).filter(|i| *i < known) {
                if let Some(f) = self.flows.get_mut(lane.templates.flow_of(i))
                    && !*f
                {
                    *f = true;
                    self.count += 1;
                }
            }
            next += b.batch;
        }
    }

    /// Adds what a flow table has done between two looks at it.
    pub fn table(&mut self, before: Option<FlowStats>, after: Option<FlowStats>) {
        let (Some(a), Some(b)) = (before, after) else {
            return;
        };
        let all = |f: &FlowStats| f.hits + f.misses + f.others + f.shed;
        self.table.0 += b.hits.saturating_sub(a.hits);
        self.table.1 += all(&b).saturating_sub(all(&a));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Templates, Unseen, Vary};
    use onefold_element::ElemId;

    fn lane(n: usize, per_flow: usize, known: Option<usize>) -> Lane {
        let frames: Vec<Vec<u8>> = (0..n).map(|i| vec![i as u8; 60]).collect();
        Lane {
            source: ElemId(0),
            templates: Templates::new(&frames, per_flow),
            strangers: known.map(|known| Unseen {
                known,
                share: 0.5,
                vary: Vary::default(),
            }),
        }
    }

    #[test]
    fn few_packets_are_of_few_flows() {
        let l = lane(1000, 1, None);
        let order = Order::new(&l.templates, 0.0, 1);
        let mut s = Seen::default();
        let of = |next, number| Batches {
            next,
            number,
            batch: 64,
        };
        s.mark(&l, &order, of(0, 2));
        assert_eq!(s.flows(), 128, "a round has each of them once");
        s.mark(&l, &order, of(0, 2));
        assert_eq!(s.flows(), 128, "the same again");
        s.mark(&l, &order, of(order.places().len() - 10, 1));
        assert_eq!(s.flows(), 128, "behind the end it begins again");
        s.mark(&l, &order, of(0, 1_000_000));
        assert_eq!(s.flows(), 1000);
        // several packets of a flow
        let l = lane(1000, 4, None);
        let mut s = Seen::default();
        s.mark(&l, &Order::new(&l.templates, 0.0, 1), of(0, 1000));
        assert_eq!(s.flows(), 250);
        // strangers do not count
        let l = lane(1000, 1, Some(300));
        let mut s = Seen::default();
        s.mark(
            &l,
            &Order::mixed(&l.templates, 300, 0.5, 0.0, 1),
            of(0, 1000),
        );
        assert_eq!(s.flows(), 300);
    }

    #[test]
    fn lanes_take_turns() {
        let n = |lane, lanes, batches| Batches::of_first(0, lane, lanes, batches, 64).number;
        assert_eq!(
            (n(0, 1, 7), n(0, 2, 7), n(1, 2, 7), n(1, 2, 1)),
            (7, 4, 3, 0)
        );
        assert_eq!((n(2, 3, 1), n(2, 3, 2), n(2, 3, 5)), (0, 1, 2));
    }
}
