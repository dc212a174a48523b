//! Pull schedulers: RoundRobinSched, PrioSched, SimpleRoundRobinSched, SimplePrioSched, DRRSched (Click).
//!
//! Click's Simple variants differ in notification only; here nobody polls, so that they are the same.

use onefold_element::args::Args;
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

const fn class(
    name: &'static str,
    summary: &'static str,
    usage: &'static str,
    new: fn() -> Box<dyn Element>,
) -> ElementClass {
    ElementClass {
        name,
        ports: "-/1",
        processing: "l/l",
        flow: "x/x",
        effect: Effect::OrderSensitive,
        usage,
        summary,
        new,
    }
}

/// `RoundRobinSched`.
pub const ROUND_ROBIN: ElementClass = class(
    "RoundRobinSched",
    "pulls from its inputs in turn",
    "",
    || Box::new(RoundRobin::default()),
);
/// `SimpleRoundRobinSched`.
pub const SIMPLE_ROUND_ROBIN: ElementClass = class(
    "SimpleRoundRobinSched",
    "pulls from its inputs in turn",
    "",
    || Box::new(RoundRobin::default()),
);
/// `PrioSched`.
pub const PRIO: ElementClass = class(
    "PrioSched",
    "pulls from the lowest input that has a packet",
    "",
    || Box::new(Prio),
);
/// `SimplePrioSched`.
pub const SIMPLE_PRIO: ElementClass = class(
    "SimplePrioSched",
    "pulls from the lowest input that has a packet",
    "",
    || Box::new(Prio),
);
/// `DRRSched`.
pub const DRR: ElementClass = class(
    "DRRSched",
    "pulls from its inputs by deficit round robin",
    "[QUANTUM]",
    || {
        Box::new(Drr {
            quantum: QUANTUM,
            ports: Vec::new(),
            next: 0,
        })
    },
);

const PUSHED: &str = "Sched: pushed into a pull element";

#[derive(Debug, Clone, Default)]
struct RoundRobin {
    next: usize,
}

impl Element for RoundRobin {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, PUSHED);
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let n = cx.ninputs;
        let mut i = self.next;
        for _ in 0..n {
            let p = cx.pull(i);
            let from = i;
            i = if i + 1 >= n { 0 } else { i + 1 };
            if p.is_some() {
                self.next = i;
                cx.decide(None, || format!("input {from}"));
                return p;
            }
        }
        None
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct Prio;

impl Element for Prio {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, PUSHED);
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        for i in 0..cx.ninputs {
            if let Some(p) = cx.pull(i) {
                cx.decide(None, || format!("input {i}"));
                return Some(p);
            }
        }
        None
    }
    element_any!();
}

/// Bytes per round unless told otherwise.
const QUANTUM: u32 = 500;

#[derive(Debug, Clone)]
struct Drr {
    quantum: u32,
    ports: Vec<DrrPort>,
    next: usize,
}

#[derive(Debug, Clone, Default)]
struct DrrPort {
    /// Pulled, but not yet covered by the deficit.
    head: Option<Pkt>,
    deficit: u32,
}

impl Element for Drr {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let q: i32 = args.optional("QUANTUM").unwrap_or(QUANTUM as i32);
        match u32::try_from(q) {
            Ok(q) if q > 0 => self.quantum = q,
            _ => args.error("QUANTUM: must be more than 0"),
        }
        self.ports.resize(cx.ninputs, DrrPort::default());
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, PUSHED);
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let n = self.ports.len();
        let mut waiting = false;
        for _ in 0..n {
            let i = self.next;
            let port = self.ports.get_mut(i)?;
            match port.head.take().or_else(|| cx.pull(i)) {
                None => port.deficit = 0,
                Some(p) if p.len() <= port.deficit as usize => {
                    port.deficit -= p.len() as u32;
                    cx.decide(None, || format!("input {i}"));
                    return Some(p);
                }
                Some(p) => {
                    port.head = Some(p);
                    waiting = true;
                }
            }
            self.next = if i + 1 >= n { 0 } else { i + 1 };
            let next = self.ports.get_mut(self.next)?;
            next.deficit = next.deficit.saturating_add(self.quantum);
        }
        if waiting {
            // no deficit is large enough yet: the next pull goes on
            cx.notify_nonempty();
        }
        None
    }

    fn held(&self) -> usize {
        self.ports.iter().filter(|p| p.head.is_some()).count()
    }

    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        self.ports
            .iter_mut()
            .filter_map(|p| p.head.take())
            .collect()
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Packet;

    fn feed(b: &mut Bench, port: usize, lens: &[usize]) {
        let q = b.host.upstream.entry(port).or_default();
        q.extend(
            lens.iter()
                .map(|n| Box::new(Packet::from_slice(&vec![port as u8; *n]))),
        );
    }
    fn order(b: &mut Bench, tries: usize) -> Vec<u8> {
        (0..tries)
            .filter_map(|_| b.pull(0))
            .map(|p| p.data()[0])
            .collect()
    }

    #[test]
    fn round_robin_starts_behind_the_last() {
        for class in ["RoundRobinSched", "SimpleRoundRobinSched"] {
            let mut b = Bench::new(class, "", 3, 1).unwrap();
            feed(&mut b, 0, &[1, 1, 1]);
            feed(&mut b, 2, &[1, 1]);
            assert_eq!(order(&mut b, 9), [0, 2, 0, 2, 0]);
            feed(&mut b, 0, &[1]);
            feed(&mut b, 1, &[1]);
            assert_eq!(order(&mut b, 9), [1, 0]);
        }
    }

    #[test]
    fn priority_is_strict() {
        for class in ["PrioSched", "SimplePrioSched"] {
            let mut b = Bench::new(class, "", 2, 1).unwrap();
            feed(&mut b, 1, &[1, 1]);
            feed(&mut b, 0, &[1, 1]);
            assert_eq!(order(&mut b, 9), [0, 0, 1, 1]);
            assert!(Bench::new(class, "1", 2, 1).is_err());
        }
    }

    #[test]
    fn deficit_round_robin_shares_bytes() {
        let mut b = Bench::new("DRRSched", "100", 2, 1).unwrap();
        feed(&mut b, 0, &[100; 8]);
        feed(&mut b, 1, &[50; 16]);
        let got = order(&mut b, 24);
        assert_eq!(got.len(), 24);
        // half of the bytes each: two small ones for every large one
        let ones = got.iter().take(9).filter(|x| **x == 1).count();
        assert!((5..=7).contains(&ones), "{got:?}");

        let mut b = Bench::new("DRRSched", "", 1, 1).unwrap();
        feed(&mut b, 0, &[1400]);
        assert!(b.pull(0).is_none());
        assert_eq!((b.element.held(), b.host.nonempty), (1, 1));
        assert!(b.pull(0).is_none());
        assert!(b.pull(0).is_none());
        assert!(b.pull(0).is_some());
        assert!(Bench::new("DRRSched", "0", 1, 1).is_err());
    }
}
