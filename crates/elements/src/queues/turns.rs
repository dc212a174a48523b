//! Turns and TurnCheck: every so many-th packet that a rule asks for, as Linux counts them.
//!
//! `Turns(EVERY)` numbers the packets that come to TurnCheck elements which name it: 0 to EVERY - 1, and again.
//! `TurnCheck(TURNS, FROM, TO)` sends packets whose number is in this range to output 0, others to output 1.
//!
//! Handlers of Turns: `next`, the number that the next packet gets.
//!
//! Source: Linux, net/netfilter/xt_statistic.c (mode nth), net/netfilter/nft_numgen.c (inc).

use onefold_element::args::{AnyArg, Args};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, Port, Scope, State,
    StateId, element_any, element_takes, state_any,
};
use onefold_packet::Pkt;

/// `Turns`.
pub const TURNS: ElementClass = ElementClass {
    name: "Turns",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "EVERY",
    summary: "numbers packets in turn, for TurnCheck elements",
    new: || Box::new(Turns { counter: None }),
};

/// `TurnCheck`.
pub const TURN_CHECK: ElementClass = ElementClass {
    name: "TurnCheck",
    ports: "1/1-2",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "TURNS, FROM, TO",
    summary: "tells packets by their number in turn",
    new: || {
        Box::new(TurnCheck {
            counter: StateId(u32::MAX),
            from: 0,
            to: 0,
        })
    },
};

/// Of packets that are not their turn's, whose output is not connected.
const NOT_NOW: &str = "TurnCheck: not its turn";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Counter {
    every: u32,
    next: u32,
}

impl Counter {
    fn take(&mut self) -> u32 {
        let n = self.next;
        self.next = match n + 1 < self.every {
            true => n + 1,
            false => 0,
        };
        n
    }
}

impl State for Counter {
    fn summary(&self) -> String {
        format!("{} of {}", self.next, self.every)
    }
    // firewalls with such rules run on one worker
    state_any!(Scope::PerWorker);
}

#[derive(Debug, Clone)]
struct Turns {
    counter: Option<StateId>,
}

impl Element for Turns {
    /// Before those that name it.
    fn configure_phase(&self) -> i32 {
        50
    }

    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let every: Option<u32> = args.mandatory("EVERY");
        if every == Some(0) {
            args.error("EVERY: must not be 0");
        }
        args.finish()?;
        let counter = Counter {
            every: every.unwrap_or(1),
            next: 0,
        };
        let id = cx.store.alloc(Box::new(counter));
        cx.store.publish(cx.elem, id);
        self.counter = Some(id);
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "Turns: has no inputs");
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("next")];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let counter = self.counter.and_then(|id| cx.store.get::<Counter>(id));
        match counter.filter(|_| name == "next") {
            Some(c) => Ok(c.next.to_string()),
            None => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn states(&self) -> Vec<StateId> {
        self.counter.into_iter().collect()
    }

    element_takes!();
    element_any!();
}

#[derive(Debug, Clone)]
struct TurnCheck {
    counter: StateId,
    from: u32,
    to: u32,
}

impl Element for TurnCheck {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let name: Option<AnyArg> = args.mandatory("TURNS");
        self.from = args.mandatory("FROM").unwrap_or(0);
        self.to = args.mandatory("TO").unwrap_or(0);
        if self.from > self.to {
            args.error("FROM: is behind TO");
        }
        args.finish()?;
        let Some(AnyArg(name)) = name else {
            return Ok(());
        };
        let class =
            |e: onefold_element::ElemId| cx.classes.get(e.0 as usize).map_or("", String::as_str);
        let found = cx.find_element(&name).filter(|e| class(*e) == "Turns");
        match found.and_then(|e| cx.store.published_by(e)) {
            Some(id) => self.counter = id,
            None => {
                let e = ConfigError::at(0, "TURNS", format!("'{name}' is no Turns"));
                return Err(vec![e.hint("write 'turns :: Turns(3);' and name it here")]);
            }
        }
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("a count of packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let counter = cx.store.get_mut::<Counter>(self.counter);
        let n = counter.map_or(0, Counter::take);
        let holds = (self.from..=self.to).contains(&n);
        cx.decide(Some(0), || format!("number {n}"));
        match holds {
            true => cx.emit(0, p),
            false => cx.emit_or_drop(1, p, NOT_NOW),
        }
    }

    fn states(&self) -> Vec<StateId> {
        vec![self.counter]
    }

    element_takes!();
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns() {
        let mut c = Counter { every: 3, next: 0 };
        let all: Vec<u32> = (0..7).map(|_| c.take()).collect();
        assert_eq!(all, [0, 1, 2, 0, 1, 2, 0]);
        let mut one = Counter { every: 1, next: 0 };
        assert_eq!((one.take(), one.take()), (0, 0));
        let mut most = Counter {
            every: u32::MAX,
            next: u32::MAX - 1,
        };
        assert_eq!((most.take(), most.take()), (u32::MAX - 1, 0));
    }

    #[test]
    fn what_is_wrong_with_it() {
        let wrong = |class: &str, c: &str, ports| {
            let e = crate::testing::Bench::new(class, c, ports, ports);
            e.err().unwrap_or_default().join("; ")
        };
        assert_eq!(wrong("Turns", "0", 0), "EVERY: must not be 0");
        assert_eq!(wrong("Turns", "2", 0), "");
        assert!(wrong("TurnCheck", "x, 0, 0", 1).contains("is no Turns"));
        assert!(wrong("TurnCheck", "x, 2, 1", 1).contains("behind TO"));
    }
}
