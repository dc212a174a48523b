//! Elements that let packets pass or not: Suppressor, Block, RandomSample (Click).

use super::util::{unknown, value};
use onefold_element::args::{Args, Fixed};
use onefold_element::handler::{HandlerError, HandlerFlags, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx};
use onefold_element::unparse::fixed_point;
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{Pkt, anno_field};

/// `Suppressor`.
pub const SUPPRESSOR: ElementClass = ElementClass {
    name: "Suppressor",
    ports: "-/=",
    processing: "a/a",
    flow: "#/#",
    effect: Effect::Pure,
    usage: "",
    summary: "passes packets from each input to the output of its number, unless that is suppressed",
    new: || Box::new(Suppressor::default()),
};
/// `Block`.
pub const BLOCK: ElementClass = ElementClass {
    name: "Block",
    ports: "1/2",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "THRESH",
    summary: "sends packets whose forward-rate annotation exceeds a threshold to output 1",
    new: || Box::new(Block { thresh: 0 }),
};
/// `RandomSample`.
pub const RANDOM_SAMPLE: ElementClass = ElementClass {
    name: "RandomSample",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Random,
    usage: "[P, keywords SAMPLE, DROP, ACTIVE]",
    summary: "lets packets pass with a probability, sends the rest to output 1",
    new: || {
        Box::new(RandomSample {
            probability: ONE,
            active: true,
            drops: 0,
        })
    },
};

#[derive(Debug, Clone, Default)]
struct Suppressor {
    suppressed: Vec<bool>,
}

impl Suppressor {
    fn is(&self, port: Port) -> bool {
        self.suppressed.get(port) == Some(&true)
    }

    fn port(&self, name: &str) -> Option<usize> {
        let i: usize = name.strip_prefix("active")?.parse().ok()?;
        (i < self.suppressed.len()).then_some(i)
    }
}

const SUPPRESSED: DropReason = "Suppressor: suppressed";

impl Element for Suppressor {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.suppressed = vec![false; cx.noutputs];
        // Click takes any arguments here, and ignores them
        args.rest();
        args.finish()
    }

    fn model(&self, port: Port, _: &ModelCx<'_>) -> Model {
        let exit = match self.is(port) {
            true => Exit::Drop(SUPPRESSED),
            false => Exit::Port(port),
        };
        Model::Cases(vec![Case::new(Cond::Always, exit)])
    }

    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        if self.is(port) {
            cx.decide(None, || format!("port {port} is suppressed"));
            cx.drop(p, SUPPRESSED);
        } else {
            cx.emit(port, p);
        }
    }

    fn pull(&mut self, port: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        match self.is(port) {
            true => None,
            false => cx.pull(port),
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::button("reset")];
        H
    }

    fn dynamic_handlers(&self) -> Vec<(String, HandlerFlags)> {
        (0..self.suppressed.len())
            .map(|i| (format!("active{i}"), HandlerFlags::ReadWrite))
            .collect()
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match self.port(name) {
            Some(i) => Ok((!self.is(i)).to_string()),
            None => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name == "reset" {
            self.suppressed.fill(false);
        } else {
            let Some(i) = self.port(name) else {
                return unknown(name);
            };
            self.suppressed[i] = !value::<bool>(name, text)?;
        }
        cx.notify_nonempty();
        Ok(())
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct Block {
    thresh: i32,
}

impl Element for Block {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.thresh = args.mandatory("THRESH").unwrap_or(0);
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.thresh {
            0 => Model::Cases(vec![Case::new(Cond::Always, Exit::Port(0)).from_arg(0)]),
            // a signed number in the order of bytes that this machine has
            _ => Model::ask("a rate annotation"),
        }
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let rate = p.anno.u32(usize::from(anno_field::FWD_RATE.offset)) as i32;
        let over = self.thresh != 0 && rate > self.thresh;
        cx.decide(Some(0), || format!("rate annotation {rate}"));
        cx.emit(usize::from(over), p);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("thresh")];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "thresh" => Ok(self.thresh.to_string()),
            _ => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "thresh" {
            return unknown(name);
        }
        self.thresh = value(name, text)?;
        Ok(())
    }
    element_any!();
}

/// Bits of a probability.
const BITS: u32 = 28;
/// Probability 1.
const ONE: u32 = 1 << BITS;

#[derive(Debug, Clone)]
struct RandomSample {
    /// Of passing, out of [`ONE`].
    probability: u32,
    active: bool,
    drops: u32,
}

impl RandomSample {
    fn takes(&self, cx: &mut Cx<'_>) -> bool {
        let yes = !self.active || (cx.random() & (ONE - 1)) < self.probability;
        cx.decide(Some(0), || match yes {
            true => "taken".to_string(),
            false => "not taken".to_string(),
        });
        yes
    }

    fn leave(&mut self, p: Pkt, cx: &mut Cx<'_>) {
        self.drops = self.drops.wrapping_add(1);
        cx.emit_or_drop(1, p, "RandomSample: not taken");
    }
}

impl Element for RandomSample {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let p: Option<Fixed<BITS>> = args.optional("P");
        let sample: Option<Fixed<BITS>> = args.keyword("SAMPLE");
        let drop: Option<Fixed<BITS>> = args.keyword("DROP");
        let active = args.keyword("ACTIVE").unwrap_or(true);
        if !args.ok() {
            return args.finish();
        }
        if sample.is_some() && drop.is_some() {
            args.error("give at most one of SAMPLE and DROP");
        }
        let probability = match (sample.or(p), drop) {
            (_, Some(d)) => ONE.checked_sub(d.0),
            (Some(s), None) => Some(s.0).filter(|s| *s <= ONE),
            (None, None) => None,
        };
        match probability {
            Some(p) => self.probability = p,
            None => args.error("P: sampling probability must be between 0 and 1"),
        }
        self.active = active;
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.active {
            true => Model::ask("chance"),
            false => Model::Cases(vec![Case::new(Cond::Always, Exit::Port(0)).from_arg(0)]),
        }
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        match self.takes(cx) {
            true => cx.emit(0, p),
            false => self.leave(p, cx),
        }
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let p = cx.pull(0)?;
        if self.takes(cx) {
            return Some(p);
        }
        self.leave(p, cx);
        // as Click, nothing is the answer to this pull; but there may be more
        cx.notify_nonempty();
        None
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("sampling_prob"),
            HandlerInfo::rw("active"),
            HandlerInfo::r("drops"),
            HandlerInfo::rw("drop_prob"),
            HandlerInfo::r("config"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        let sample = fixed_point(i64::from(self.probability), BITS);
        Ok(match name {
            "sampling_prob" => sample,
            "drop_prob" => fixed_point(i64::from(ONE - self.probability), BITS),
            "active" => self.active.to_string(),
            "drops" => self.drops.to_string(),
            "config" => format!("SAMPLE {sample}, ACTIVE {}", self.active),
            _ => return unknown(name),
        })
    }

    fn write(&mut self, name: &str, text: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "sampling_prob" | "drop_prob" => {
                let Fixed(p) = value::<Fixed<BITS>>(name, text)?;
                if p > ONE {
                    let m = "Must be given a number between 0.0 and 1.0".to_string();
                    return Err(HandlerError::BadValue(m));
                }
                self.probability = if name == "drop_prob" { ONE - p } else { p };
            }
            "active" => self.active = value(name, text)?,
            _ => return unknown(name),
        }
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, anno_field};

    #[test]
    fn suppressor() {
        let mut b = Bench::new("Suppressor", "", 2, 2).unwrap();
        assert_eq!(b.push(1, &[1])[0].0, 1);
        b.write("active1", "false").unwrap();
        assert!(b.push(1, &[1]).is_empty());
        assert_eq!(b.push(0, &[1])[0].0, 0);
        assert_eq!(b.read("active1").unwrap(), "false");
        assert!(b.pull(1).is_none());
        b.host
            .upstream
            .entry(1)
            .or_default()
            .push_back(Box::new(Packet::from_slice(&[7])));
        b.write("reset", "").unwrap();
        assert_eq!(b.host.nonempty, 2);
        assert_eq!(b.pull(1).unwrap().data(), [7]);
        assert!(b.write("active2", "true").is_err());
        assert!(b.write("active0", "perhaps").is_err());
    }

    #[test]
    fn block_by_annotation() {
        let mut b = Bench::new("Block", "5", 1, 2).unwrap();
        let p = |n| {
            let mut p = Packet::from_slice(&[0]);
            p.anno.set_u32(anno_field::FWD_RATE.offset as usize, n);
            Box::new(p)
        };
        assert_eq!(b.push_packet(0, p(5))[0].0, 0);
        assert_eq!(b.push_packet(0, p(6))[0].0, 1);
        b.write("thresh", "0").unwrap();
        assert_eq!(b.push_packet(0, p(600))[0].0, 0);
        assert!(Bench::new("Block", "", 1, 2).is_err());
    }

    #[test]
    fn random_sample() {
        let mut b = Bench::new("RandomSample", "0.25", 1, 2).unwrap();
        let mut n = [0; 2];
        for _ in 0..4000 {
            n[b.push(0, &[])[0].0] += 1;
        }
        assert!((900..1100).contains(&n[0]), "{n:?}");
        assert_eq!(b.read("drops").unwrap(), n[1].to_string());
        assert_eq!(b.read("config").unwrap(), "SAMPLE 0.25, ACTIVE true");
        b.write("drop_prob", "0.3").unwrap();
        assert_eq!(b.read("drop_prob").unwrap(), "0.3");
        b.write("active", "false").unwrap();
        assert!((0..99).all(|_| b.push(0, &[])[0].0 == 0));
        assert!(b.write("sampling_prob", "1.1").is_err());

        let mut b = Bench::new("RandomSample", "DROP 1", 1, 1).unwrap();
        b.host
            .upstream
            .entry(0)
            .or_default()
            .push_back(Box::new(Packet::from_slice(&[7])));
        assert!(b.pull(0).is_none());
        assert_eq!((b.host.nonempty, b.out.dropped), (1, 1));
        assert!(b.pull(0).is_none());
        assert_eq!(b.host.nonempty, 1);
        for bad in ["", "1.5", "SAMPLE 0.5, DROP 0.5", "DROP 2", "often"] {
            assert!(Bench::new("RandomSample", bad, 1, 1).is_err(), "{bad}");
        }
    }
}
