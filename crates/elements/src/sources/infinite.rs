//! InfiniteSource, RandomSource: packets whenever it is their turn, all alike or of random bytes.
//!
//! Click elements InfiniteSource, RandomSource, with FastClick's HEADROOM accepted. Every packet of a burst is
//! processed to its end before the next one is made, as where Click pushes.

use super::data::{DEFAULT_DATA, repeated};
use super::util::{AtEnd, value};
use onefold_element::args::{Args, Data};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, InitCx, Port, TaskStatus,
    element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// `InfiniteSource`.
pub const INFINITE_SOURCE: ElementClass = ElementClass {
    name: "InfiniteSource",
    ports: "0/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "[DATA, LIMIT, BURST, ACTIVE, keywords LENGTH, STOP, END_CALL, TIMESTAMP]",
    summary: "makes packets whenever it is its turn",
    new: || Box::new(InfiniteSource::default()),
};

/// `RandomSource`.
pub const RANDOM_SOURCE: ElementClass = ElementClass {
    name: "RandomSource",
    usage: "LENGTH [, LIMIT, BURST, ACTIVE, keywords STOP, END_CALL, TIMESTAMP]",
    summary: "makes packets of random bytes whenever it is its turn",
    new: || {
        Box::new(InfiniteSource {
            random: true,
            ..InfiniteSource::default()
        })
    },
    ..INFINITE_SOURCE
};

/// Longest packet of RandomSource, less one.
const RANDOM_LEN: i32 = 64 * 1024;

#[derive(Debug, Clone)]
struct InfiniteSource {
    /// Every packet has bytes of its own.
    random: bool,
    data: Vec<u8>,
    length: i32,
    packet: Vec<u8>,
    limit: i64,
    burst: u32,
    active: bool,
    timestamp: bool,
    at_end: Option<AtEnd>,
    count: u64,
    push: bool,
    /// The burst under way: its size and what is left of it.
    under_way: (u64, u64),
}

impl Default for InfiniteSource {
    fn default() -> Self {
        InfiniteSource {
            random: false,
            data: DEFAULT_DATA.to_vec(),
            length: -1,
            packet: DEFAULT_DATA.to_vec(),
            limit: -1,
            burst: 1,
            active: true,
            timestamp: true,
            at_end: None,
            count: 0,
            push: false,
            under_way: (0, 0),
        }
    }
}

impl InfiniteSource {
    /// Packets to go until LIMIT; none for no limit.
    fn left(&self) -> Option<u64> {
        let limit = u64::try_from(self.limit).ok()?;
        Some(limit.saturating_sub(self.count))
    }

    fn make(&self, cx: &mut Cx<'_>) -> Pkt {
        let mut p = cx.make(&self.packet);
        if self.random {
            for four in p.data_mut().chunks_mut(4) {
                let r = cx.random().to_ne_bytes();
                for (b, r) in four.iter_mut().zip(r) {
                    *b = r;
                }
            }
        }
        p.anno.timestamp = match self.timestamp {
            true => cx.now,
            false => Timestamp::ZERO,
        };
        p
    }
}

impl Element for InfiniteSource {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        *self = InfiniteSource {
            push: self.push,
            random: self.random,
            ..InfiniteSource::default()
        };
        if self.random {
            self.data.clear();
            self.length = args.mandatory("LENGTH").unwrap_or(0);
            if !(0..RANDOM_LEN).contains(&self.length) {
                args.error(format!("bad length {}", self.length));
            }
        } else if let Some(Data(d)) = args.optional("DATA") {
            self.data = d;
        }
        self.limit = args.optional("LIMIT").unwrap_or(-1);
        let burst: i32 = args.optional("BURST").unwrap_or(1);
        self.active = args.optional("ACTIVE").unwrap_or(true);
        self.timestamp = args.keyword("TIMESTAMP").unwrap_or(true);
        if !self.random {
            self.length = args.keyword("LENGTH").unwrap_or(-1);
            self.length = args.keyword("DATASIZE").unwrap_or(self.length);
            let _: Option<u32> = args.keyword("HEADROOM");
        }
        self.at_end = AtEnd::configure(args);
        match u32::try_from(burst) {
            Ok(b) if b >= 1 => self.burst = b,
            _ => args.error("burst size must be >= 1"),
        }
        self.packet = repeated(&self.data, self.length);
        args.finish()
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.push = cx.output_is_push(0);
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("InfiniteSource: makes packets, takes none")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "InfiniteSource: takes no packets");
    }

    fn has_task(&self) -> bool {
        self.push
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        if self.under_way.1 == 0 {
            if !self.active || cx.downstream_full(0) {
                return TaskStatus::Sleep;
            }
            let burst = u64::from(self.burst);
            let n = self.left().map_or(burst, |left| left.min(burst));
            if n == 0 {
                if let Some(end) = &self.at_end {
                    end.later(cx);
                }
                return TaskStatus::Sleep;
            }
            self.under_way = (n, n);
        }
        let p = self.make(cx);
        cx.emit(0, p);
        self.under_way.1 -= 1;
        if self.under_way.1 > 0 {
            return TaskStatus::Again;
        }
        // the count grows once a burst is out
        self.count += self.under_way.0;
        TaskStatus::Reschedule
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        if !self.active {
            return None;
        }
        if self.left() == Some(0) {
            if let Some(end) = &self.at_end {
                end.later(cx);
            }
            return None;
        }
        self.count += 1;
        Some(self.make(cx))
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("data"),
            HandlerInfo::rw("limit"),
            HandlerInfo::rw("burst"),
            HandlerInfo::rw("active"),
            HandlerInfo::r("count"),
            HandlerInfo::button("reset"),
            HandlerInfo::rw("length"),
            HandlerInfo::rw("burstsize"),
            HandlerInfo::rw("datasize"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "data" => String::from_utf8_lossy(&self.data).into_owned(),
            "limit" => self.limit.to_string(),
            "burst" | "burstsize" => self.burst.to_string(),
            "active" => self.active.to_string(),
            "count" => self.count.to_string(),
            "length" | "datasize" => self.length.to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let bad = |m: &str| HandlerError::BadValue(m.to_string());
        match name {
            "data" => {
                self.data = text.as_bytes().to_vec();
                self.packet = repeated(&self.data, self.length);
            }
            "limit" => {
                let limit: i32 = value(text).map_err(|_| bad("limit parameter must be integer"))?;
                self.limit = i64::from(limit);
            }
            "burst" | "burstsize" => {
                let burst = value::<i32>(text).ok().and_then(|b| u32::try_from(b).ok());
                self.burst = burst
                    .filter(|b| *b >= 1)
                    .ok_or_else(|| bad("burstsize parameter must be integer >= 1"))?;
            }
            "active" => {
                self.active =
                    parse_bool(text).map_err(|_| bad("active parameter must be boolean"))?;
            }
            "reset" => self.count = 0,
            "length" | "datasize" => {
                self.length = value(text).map_err(|_| bad("length must be integer"))?;
                self.packet = repeated(&self.data, self.length);
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        if self.active && self.left() != Some(0) {
            match self.push {
                true => cx.wake_task(),
                false => cx.notify_nonempty(),
            }
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, Setup};

    #[test]
    fn bursts_up_to_the_limit_then_the_end() {
        let mut b = Bench::new(
            "InfiniteSource",
            r"\<0102>, LIMIT 5, BURST 3, STOP true",
            0,
            1,
        )
        .unwrap();
        assert_eq!(b.run_task().len(), 3);
        assert_eq!(b.read("count").unwrap(), "3");
        let out = b.run_task();
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].1.data(), [1, 2]);
        assert_eq!(out[0].1.anno.timestamp, b.now);
        assert!(!b.host.stopped);
        assert!(b.run_task().is_empty());
        assert!(b.host.stopped);
        b.write("reset", "").unwrap();
        assert_eq!((b.host.woken, b.run_task().len()), (1, 3));
    }

    #[test]
    fn length_data_and_full_queues() {
        let mut b = Bench::new(
            "InfiniteSource",
            "DATA abc, LENGTH 7, TIMESTAMP false",
            0,
            1,
        )
        .unwrap();
        b.host.downstream_full = true;
        assert!(b.run_task().is_empty());
        b.host.downstream_full = false;
        let out = b.run_task();
        assert_eq!(out[0].1.data(), b"abcabca");
        assert!(!out[0].1.anno.timestamp.is_set());
        b.write("data", "xy").unwrap();
        b.write("length", "1").unwrap();
        assert_eq!(b.run_task()[0].1.data(), b"x");
        assert_eq!(b.read("length").unwrap(), "1");
        assert!(b.write("burst", "0").is_err());
        assert!(b.write("limit", "x").is_err());
    }

    #[test]
    fn pulled_it_answers_until_the_limit() {
        let setup = Setup {
            noutputs: 1,
            pull: true,
            ..Setup::default()
        };
        let names = onefold_element::NameDb::builtin();
        let mut b =
            Bench::with_setup("InfiniteSource", "LIMIT 1, END_CALL x.y z w", setup, names).unwrap();
        assert!(!b.element.has_task());
        assert_eq!(b.pull(0).unwrap().data(), super::DEFAULT_DATA);
        assert!(b.pull(0).is_none());
        b.emitted();
        assert_eq!(b.host.writes, [("x.y".to_string(), "z w".to_string())]);
        b.write("limit", "2").unwrap();
        assert_eq!(b.host.nonempty, 1);
        assert!(b.pull(0).is_some());
    }

    #[test]
    fn random_packets_differ() {
        let mut b = Bench::new("RandomSource", "9, LIMIT 2, BURST 2", 0, 1).unwrap();
        let out = b.run_task();
        assert_eq!((out[0].1.len(), out[1].1.len()), (9, 9));
        assert_ne!(out[0].1.data(), out[1].1.data());
        let e = Bench::new("RandomSource", "65536", 0, 1).err().unwrap();
        assert_eq!(e, ["bad length 65536"]);
        assert!(Bench::new("RandomSource", "", 0, 1).is_err());
    }

    #[test]
    fn wrong_arguments() {
        let e = |c: &str| Bench::new("InfiniteSource", c, 0, 1).err().unwrap();
        assert_eq!(e("BURST 0"), ["burst size must be >= 1"]);
        assert_eq!(
            e("STOP true, END_CALL a.b"),
            ["END_CALL and STOP are mutually exclusive"]
        );
        assert_eq!(e("LIMIT x"), ["LIMIT: expected a number, found 'x'"]);
    }
}
