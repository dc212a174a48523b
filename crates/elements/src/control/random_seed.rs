//! RandomSeed: the seed of random numbers (Click element).
//!
//! The numbers that follow from a seed are ours, not those of the C library: each element has a sequence of its own,
//! which begins anew when the seed is set. Without a seed, the run keeps the one that it was given: it can be repeated.

use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `RandomSeed`.
pub const RANDOM_SEED: ElementClass = ElementClass {
    name: "RandomSeed",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Random,
    usage: "[SEED]",
    summary: "sets the seed of random numbers",
    new: || Box::new(RandomSeed { seed: None }),
};

#[derive(Debug, Clone)]
struct RandomSeed {
    seed: Option<u32>,
}

impl Element for RandomSeed {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.seed = args.optional("SEED");
        args.finish()
    }
    fn configure_phase(&self) -> i32 {
        0
    }
    fn started(&mut self, cx: &mut Cx<'_>) {
        if let Some(s) = self.seed {
            cx.host.set_seed(s.into());
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("RandomSeed: takes no packets")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "RandomSeed: takes no packets");
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("seed").sets(0, "SEED")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "seed" => Ok(self.seed.map_or(String::new(), |s| s.to_string())),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "seed" {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        self.seed = match value.trim() {
            "" => None,
            v => Some(cx.value(name, v)?),
        };
        // any other one will do, as long as it is the same every time
        let seed = self.seed.unwrap_or_else(|| cx.random());
        cx.host.set_seed(seed.into());
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn sequences_begin_anew() {
        let mut b = Bench::new("RandomSeed", "7", 0, 0).unwrap();
        let draw = |b: &mut Bench| b.with(|_, cx| (cx.random(), cx.random()));
        b.with(|e, cx| e.started(cx));
        let first = draw(&mut b);
        assert_ne!(draw(&mut b), first);
        b.write("seed", "7").unwrap();
        assert_eq!(draw(&mut b), first);
        b.write("seed", "8").unwrap();
        assert_ne!(draw(&mut b), first);
        assert_eq!(b.read("seed").unwrap(), "8");
        b.write("seed", "").unwrap();
        assert_eq!(b.read("seed").unwrap(), "");
        assert!(b.write("seed", "x").is_err());
        assert!(Bench::new("RandomSeed", "-1", 0, 0).is_err());
    }
}
