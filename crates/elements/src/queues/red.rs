//! RED (Click): random early detection, over the queues nearest downstream (or upstream, in a pull path).
//!
//! Deliberate differences from Click: a MAX_THRESH of 0 does not divide by zero; a pull gives up after a bounded number
//! of dropped packets and goes on at the next one.

use super::util::{unknown, value};
use crate::lookup;
use onefold_element::args::{AnyArg, Args, Fixed, split_words};
use onefold_element::flow::flows;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::unparse::fixed_point;
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, ElemId, Element, ElementClass, InitCx, Port,
    element_any, element_takes,
};
use onefold_packet::Pkt;
use std::collections::HashSet;

/// `RED`.
pub const RED: ElementClass = ElementClass {
    name: "RED",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Random,
    usage: "MIN_THRESH, MAX_THRESH, MAX_P [, keywords QUEUES, STABILITY, GENTLE]",
    summary: "drops packets at random as the average queue length grows",
    new: || Box::new(Red::default()),
};

/// Classes whose packets count ([`Element::storage`]).
const STORAGE: &[&str] = &[
    "Queue",
    "FullNoteQueue",
    "QuickNoteQueue",
    "ThreadSafeQueue",
    "MSQueue",
    "SimpleQueue",
    "NotifierQueue",
    "MixedQueue",
    "FrontDropQueue",
    "LinkUnqueue",
];

/// Bits of fraction of the average length.
const SCALE: u32 = 10;
/// Probability 1.
const ONE: u32 = 0x1_0000;
/// Packets that one pull drops at most.
const DROPS_PER_PULL: u32 = 4096;

#[derive(Debug, Clone, Copy, Default)]
struct Params {
    min: u32,
    max: u32,
    max_p: u32,
    stability: u32,
    gentle: bool,
}

impl Params {
    fn check(&self) -> Result<(), &'static str> {
        if self.max > 0xFFFF {
            return Err("MAX_THRESH: must be at most 65535");
        }
        if self.min > self.max {
            return Err("MIN_THRESH: must be at most MAX_THRESH");
        }
        if self.max_p > ONE {
            return Err("MAX_P: must be between 0 and 1");
        }
        if self.stability > 16 {
            return Err("STABILITY: must be between 0 and 16");
        }
        Ok(())
    }

    /// Above this average everything is dropped.
    fn kill(&self) -> u64 {
        match self.gentle && self.max_p != ONE {
            true => u64::from(self.max) * 2,
            false => u64::from(self.max),
        }
    }

    /// The probability of a drop, out of [`ONE`], for an average length (scaled): two straight lines, in Click's
    /// integers.
    fn probability(&self, average: u64, scaled: u64) -> i32 {
        let line = |slope: u32, offset: u32| {
            let y =
                (u64::from(slope).wrapping_mul(scaled) >> SCALE).wrapping_sub(u64::from(offset));
            y as i32
        };
        if average <= u64::from(self.max) {
            let width = self.max - self.min;
            match width {
                0 => line(0, 1),
                w => line(self.max_p / w, self.max_p * self.min / w),
            }
        } else {
            let slope = (ONE - self.max_p) / self.max.max(1);
            line(slope, ONE.wrapping_sub(2 * self.max_p))
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Red {
    p: Params,
    /// Queues named in the configuration.
    named: Vec<ElemId>,
    queues: Vec<(ElemId, String)>,
    /// Average length, scaled.
    average: u64,
    /// Packets since the last drop; `None` below the lower threshold.
    count: Option<i32>,
    random: i32,
    /// When the queue was last seen empty, in fiftieths of a second.
    empty_since: Option<i64>,
    drops: u32,
}

impl Red {
    fn length(&self, cx: &Cx<'_>) -> u64 {
        let lengths = self.queues.iter().filter_map(|(q, _)| cx.host.storage(*q));
        lengths.map(|n| n as u64).sum()
    }

    fn update(&mut self, x: u64, n: i64) {
        if n >= 100 {
            self.average = x << SCALE;
            return;
        }
        let x = (x << SCALE) + (1 << (self.p.stability.max(1) - 1));
        for _ in 0..n {
            let by = (x.wrapping_sub(self.average) as i64) >> self.p.stability;
            self.average = self.average.wrapping_add_signed(by);
        }
    }

    fn draw(&mut self, cx: &mut Cx<'_>) {
        self.random = ((cx.random() >> 5) & 0xFFFF) as i32;
    }

    fn should_drop(&mut self, cx: &mut Cx<'_>) -> bool {
        let s = self.length(cx);
        let average = if self.p.stability == 0 {
            s
        } else {
            if s > 0 {
                self.update(s, 1);
                self.empty_since = None;
            } else {
                let t = cx.now.millis() / 20;
                self.update(0, self.empty_since.map_or(1, |e| (t - e).max(0)));
                self.empty_since = Some(t).filter(|t| *t != 0);
            }
            (self.average + (1 << (SCALE - 1))) >> SCALE
        };
        if average <= u64::from(self.p.min) || average > self.p.kill() {
            self.count = None;
            return average > u64::from(self.p.min);
        }
        let p = self.p.probability(average, self.average);
        let count = self.count.map_or(0, |c| c.saturating_add(1));
        self.count = Some(count);
        if count > 0 && p > 0 && count > self.random / p {
            self.count = Some(0);
            self.draw(cx);
            return true;
        }
        if count == 0 {
            self.draw(cx);
        }
        false
    }

    fn discard(&mut self, p: Pkt, cx: &mut Cx<'_>) {
        self.drops = self.drops.wrapping_add(1);
        cx.emit_or_drop(1, p, "RED: dropped early");
    }

    /// The storage elements nearest to output (or input) 0.
    fn nearest(cx: &InitCx<'_>, downstream: bool) -> Vec<ElemId> {
        let mut todo = vec![(cx.elem.0 as usize, 0)];
        let mut seen: HashSet<(usize, Port)> = HashSet::new();
        let mut found = Vec::new();
        // Bound: every port is taken up once.
        while let Some(at) = todo.pop() {
            if !seen.insert(at) {
                continue;
            }
            for c in &cx.graph.connections {
                let (near, far) = match downstream {
                    true => (c.from, c.to),
                    false => (c.to, c.from),
                };
                if near != at {
                    continue;
                }
                let (e, port) = far;
                let class = cx.classes.get(e).map_or("", |c| c.as_str());
                if STORAGE.contains(&class) {
                    let id = ElemId(e as u32);
                    if !found.contains(&id) {
                        found.push(id);
                    }
                    continue;
                }
                let flow = lookup(class).map_or("x/x", |c| c.flow);
                for other in &cx.graph.connections {
                    let (end, ok) = match downstream {
                        true => (other.from, flows(flow, port, other.from.1)),
                        false => (other.to, flows(flow, other.to.1, port)),
                    };
                    if end.0 == e && ok {
                        todo.push(end);
                    }
                }
            }
        }
        found.sort();
        found
    }
}

impl Element for Red {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let min = args.mandatory("MIN_THRESH");
        let max = args.mandatory("MAX_THRESH");
        let max_p: Option<Fixed<16>> = args.mandatory("MAX_P");
        let queues = args.keyword("QUEUES").map_or(String::new(), |AnyArg(q)| q);
        let stability = args.keyword("STABILITY").unwrap_or(4);
        let gentle = args.keyword("GENTLE").unwrap_or(true);
        let mut named = Vec::new();
        for word in split_words(&queues) {
            match cx.find_element(word) {
                Some(e) => named.push(e),
                None => args.error(format!("QUEUES: no element named '{word}'")),
            }
        }
        if let (Some(min), Some(max), Some(Fixed(max_p))) = (min, max, max_p) {
            let p = Params {
                min,
                max,
                max_p,
                stability,
                gentle,
            };
            match p.check() {
                Ok(()) => self.p = p,
                Err(why) => args.error(why),
            }
        }
        self.named = named;
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        let mut queues = std::mem::take(&mut self.named);
        if queues.is_empty() {
            queues = Self::nearest(cx, cx.output_is_push(0));
        }
        if queues.is_empty() {
            return Err(vec![ConfigError::new("no nearby Queues")]);
        }
        let mut errors = Vec::new();
        for q in queues {
            let at = q.0 as usize;
            let name = cx.elements.get(at).cloned().unwrap_or_default();
            let class = cx.classes.get(at).map_or("", |c| c.as_str());
            if !STORAGE.contains(&class) {
                let m = format!("QUEUES: '{name}' is not a Storage element");
                errors.push(ConfigError::new(m));
            }
            self.queues.push((q, name));
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("reads the lengths of queues")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let drop = self.should_drop(cx);
        cx.decide(None, || {
            format!("average length {}", fixed_point(self.average as i64, SCALE))
        });
        match drop {
            true => self.discard(p, cx),
            false => cx.emit(0, p),
        }
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        for _ in 0..DROPS_PER_PULL {
            let p = cx.pull(0)?;
            if !self.should_drop(cx) {
                return Some(p);
            }
            self.discard(p, cx);
        }
        cx.notify_nonempty();
        None
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("drops"),
            HandlerInfo::rw("min_thresh"),
            HandlerInfo::rw("max_thresh"),
            HandlerInfo::rw("max_p"),
            HandlerInfo::r("avg_queue_size"),
            HandlerInfo::r("stats"),
            HandlerInfo::r("queues"),
            HandlerInfo::r("config"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let average = fixed_point(self.average as i64, SCALE);
        let max_p = fixed_point(i64::from(self.p.max_p), 16);
        Ok(match name {
            "drops" => self.drops.to_string(),
            "min_thresh" => self.p.min.to_string(),
            "max_thresh" => self.p.max.to_string(),
            "max_p" => max_p,
            "avg_queue_size" => average,
            "stats" => format!(
                "{} current queue\n{average} avg queue\n{} drops\n",
                self.length(cx),
                self.drops
            ),
            "queues" => self.queues.iter().map(|(_, n)| format!("{n}\n")).collect(),
            "config" => {
                let queues: String = self.queues.iter().map(|(_, n)| format!(" {n}")).collect();
                let gentle = if self.p.gentle { "" } else { ", GENTLE false" };
                format!(
                    "{}, {}, {max_p}, QUEUES{queues}, STABILITY {}{gentle}",
                    self.p.min, self.p.max, self.p.stability
                )
            }
            _ => return unknown(name),
        })
    }

    fn write(&mut self, name: &str, text: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        let mut p = self.p;
        match name {
            "min_thresh" => p.min = value(name, text)?,
            "max_thresh" => p.max = value(name, text)?,
            "max_p" => p.max_p = value::<Fixed<16>>(name, text)?.0,
            _ => return unknown(name),
        }
        p.check()
            .map_err(|e| HandlerError::BadValue(e.to_string()))?;
        self.p = p;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_takes!(average, count, random, empty_since, drops);
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::{ONE, Params};
    use crate::testing::Bench;

    #[test]
    fn probability_is_two_lines() {
        let p = Params {
            min: 10,
            max: 20,
            max_p: ONE / 10,
            stability: 4,
            gentle: true,
        };
        let at = |n: u64| f64::from(p.probability(n, n << 10)) / f64::from(ONE);
        assert!(at(10).abs() < 0.001, "{}", at(10));
        assert!((at(15) - 0.05).abs() < 0.002, "{}", at(15));
        assert!((at(20) - 0.1).abs() < 0.002, "{}", at(20));
        assert!((at(30) - 0.55).abs() < 0.01, "{}", at(30));
        assert!((at(40) - 1.0).abs() < 0.01, "{}", at(40));
        assert_eq!((p.kill(), Params { gentle: false, ..p }.kill()), (40, 20));
    }

    #[test]
    fn errors() {
        let e = |c: &str| Bench::new("RED", c, 1, 1).err().unwrap().join("; ");
        assert_eq!(e("5, 50, 0.02"), "no nearby Queues");
        assert_eq!(e("60, 50, 0.02"), "MIN_THRESH: must be at most MAX_THRESH");
        assert_eq!(e("5, 50, 1.02"), "MAX_P: must be between 0 and 1");
        assert_eq!(e("5, 70000, 1"), "MAX_THRESH: must be at most 65535");
        assert_eq!(
            e("5, 50, 1, STABILITY 17"),
            "STABILITY: must be between 0 and 16"
        );
        assert_eq!(e("5, 50, 1, QUEUES q"), "QUEUES: no element named 'q'");
    }
}
