//! AggregateCounter (Click): packets or bytes by the aggregate annotation.
//!
//! Deliberate differences: at most 1,048,576 aggregates are counted ([`MOST_AGGREGATES`]), further ones are treated as
//! by a frozen counter; counts do not wrap; lists are in the order of the aggregates, and go to the standard output
//! only (`-`): a handler does not make files. There is no binary list, and no `reaggregate_counts`.

use onefold_element::args::{AnyArg, Args, FromArg, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, LogStream, Port, element_any,
};
use onefold_packet::{Pkt, anno_field as field};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Most aggregates that are told apart.
const MOST_AGGREGATES: usize = 1 << 20;

/// `AggregateCounter`.
pub const AGGREGATE_COUNTER: ElementClass = ElementClass {
    name: "AggregateCounter",
    ports: "1-2/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "[keywords BYTES, IP_BYTES, MULTIPACKET, EXTRA_LENGTH, BANNER, {AGGREGATE,COUNT}_{STOP,FREEZE,CALL}]",
    summary: "counts packets or bytes by aggregate annotation",
    new: || {
        Box::new(AggregateCounter {
            active: true,
            ..Default::default()
        })
    },
};

/// What happens at a number.
#[derive(Debug, Clone)]
enum Then {
    Freeze,
    Stop,
    Call(String, String),
}

#[derive(Debug, Clone, Default)]
struct AggregateCounter {
    bytes: bool,
    ip_bytes: bool,
    multipacket: bool,
    extra_length: bool,
    banner: String,
    at_aggregates: Option<(u64, Then)>,
    at_count: Option<(u64, Then)>,
    counts: BTreeMap<u32, u64>,
    total: u64,
    frozen: bool,
    active: bool,
}

/// The one keyword of a group of three that is given.
fn threshold(args: &mut Args<'_>, group: &str) -> Option<(u64, Then)> {
    let freeze: Option<u64> = args.keyword(&format!("{group}_FREEZE"));
    let stop: Option<u64> = args.keyword(&format!("{group}_STOP"));
    let call: Option<AnyArg> = args.keyword(&format!("{group}_CALL"));
    let given = [freeze.is_some(), stop.is_some(), call.is_some()];
    if given.iter().filter(|g| **g).count() > 1 {
        args.error(format!(
            "'{group}_FREEZE', '{group}_STOP', and '{group}_CALL' are mutually exclusive"
        ));
        return None;
    }
    if let Some(AnyArg(text)) = call {
        let words = split_words(&text);
        let called = words.split_first().and_then(|(n, rest)| {
            let at = u64::from_arg(n, &args.scope()).ok()?;
            let (call, value) = rest.split_first()?;
            Some((at, Then::Call(call.to_string(), value.join(" "))))
        });
        if called.is_none() {
            args.error(format!(
                "{group}_CALL: expected 'N ELEMENT.HANDLER [VALUE]'"
            ));
        }
        return called;
    }
    let freeze = freeze.map(|n| (n, Then::Freeze));
    freeze.or(stop.map(|n| (n, Then::Stop)))
}

impl AggregateCounter {
    fn reach(&mut self, then: Then, cx: &mut Cx<'_>) {
        match then {
            Then::Freeze => self.frozen = true,
            Then::Stop => {
                self.active = false;
                cx.host.stop();
            }
            Then::Call(call, value) => cx.call_write(&call, &value),
        }
    }

    fn amount(&self, p: &Pkt) -> u64 {
        let anno = |offset: u8| u64::from(p.anno.u32(usize::from(offset)));
        if !self.bytes {
            return 1 + if self.multipacket {
                anno(field::EXTRA_PACKETS.offset)
            } else {
                0
            };
        }
        let extra = if self.extra_length {
            anno(field::EXTRA_LENGTH.offset)
        } else {
            0
        };
        let link = match p.network_header_offset() {
            Some(at) if self.ip_bytes => u64::try_from(at).unwrap_or(0),
            _ => 0,
        };
        (p.len() as u64 + extra).saturating_sub(link)
    }

    /// Counts a packet; false if it is of an aggregate that is not counted.
    fn count(&mut self, p: &Pkt, frozen: bool, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        let aggregate = p.anno.u32(usize::from(field::AGGREGATE.offset));
        let amount = self.amount(p);
        let new = amount > 0 && !self.counts.contains_key(&aggregate);
        if new {
            let reached = |(n, _): &(u64, Then)| self.counts.len() as u64 >= *n;
            if self.at_aggregates.as_ref().is_some_and(reached)
                && let Some((_, then)) = self.at_aggregates.take()
            {
                self.reach(then, cx);
            }
            let full = self.counts.len() >= MOST_AGGREGATES;
            if frozen || self.frozen || full || !self.active {
                return false;
            }
        }
        if amount > 0 {
            let n = self.counts.entry(aggregate).or_default();
            *n = n.saturating_add(amount);
            self.total = self.total.saturating_add(amount);
        }
        if self
            .at_count
            .as_ref()
            .is_some_and(|(n, _)| self.total >= *n)
            && let Some((_, then)) = self.at_count.take()
        {
            self.reach(then, cx);
        }
        true
    }

    fn list(&self, addresses: bool) -> String {
        let mut text = String::from("!IPAggregate 1.0\n");
        text += &self.banner;
        if !self.banner.is_empty() && !self.banner.ends_with('\n') {
            text.push('\n');
        }
        text += &format!("!num_nonzero {}\n", self.counts.len());
        if addresses {
            text += "!ip\n";
        }
        for (aggregate, n) in &self.counts {
            match addresses {
                true => text += &format!("{} {n}\n", Ipv4Addr::from(*aggregate)),
                false => text += &format!("{aggregate} {n}\n"),
            }
        }
        text
    }
}

impl Element for AggregateCounter {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.bytes = args.keyword("BYTES").unwrap_or(false);
        self.ip_bytes = args.keyword("IP_BYTES").unwrap_or(false);
        self.multipacket = args.keyword("MULTIPACKET").unwrap_or(true);
        self.extra_length = args.keyword("EXTRA_LENGTH").unwrap_or(true);
        self.banner = args.keyword("BANNER").unwrap_or_default();
        self.at_aggregates = threshold(args, "AGGREGATE");
        self.at_count = threshold(args, "COUNT");
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("keeps a count for each aggregate")
    }

    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        let counted = self.count(&p, port == 1, cx);
        let to = usize::from(!counted && cx.noutputs > 1);
        cx.emit(to, p);
    }

    fn pull(&mut self, port: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let from = if cx.ninputs == 1 { 0 } else { port };
        let p = cx.pull(from)?;
        self.count(&p, port == 1, cx);
        Some(p)
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::w("write_text_file"),
            HandlerInfo::w("write_ip_file"),
            HandlerInfo::rw("freeze"),
            HandlerInfo::rw("active"),
            HandlerInfo::button("stop"),
            HandlerInfo::button("clear"),
            HandlerInfo::r("count"),
            HandlerInfo::r("nagg"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "freeze" => self.frozen.to_string(),
            "active" => self.active.to_string(),
            "count" => self.total.to_string(),
            "nagg" => self.counts.len().to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "write_text_file" | "write_ip_file" if text.trim() == "-" => {
                let list = self.list(name == "write_ip_file");
                cx.host.write(LogStream::Stdout, list.as_bytes());
            }
            "write_text_file" | "write_ip_file" => {
                let why = "handlers make no files: write '-' for the standard output";
                return Err(HandlerError::BadValue(why.to_string()));
            }
            "freeze" => self.frozen = parse_bool(text)?,
            "active" => self.active = parse_bool(text)?,
            "stop" => self.reach(Then::Stop, cx),
            "clear" => {
                self.counts.clear();
                self.total = 0;
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, anno_field as field};

    fn count(b: &mut Bench, port: usize, aggregate: u32) -> usize {
        let mut p = Box::new(Packet::from_slice(b"0123456789"));
        p.anno
            .set_u32(usize::from(field::AGGREGATE.offset), aggregate);
        b.push_packet(port, p)[0].0
    }

    fn text(b: &mut Bench, handler: &str) -> String {
        b.host.stdout.clear();
        b.write(handler, "-").unwrap();
        String::from_utf8(b.host.stdout.clone()).unwrap()
    }

    #[test]
    fn packets_by_aggregate() {
        let mut b = Bench::new("AggregateCounter", "BANNER \"# mine\"", 1, 1).unwrap();
        for a in [1, 1, 0, 0, 0, 2, 0x0a000001, 2] {
            assert_eq!(count(&mut b, 0, a), 0);
        }
        let head = "!IPAggregate 1.0\n# mine\n!num_nonzero 4\n";
        assert_eq!(
            text(&mut b, "write_text_file"),
            format!("{head}0 3\n1 2\n2 2\n167772161 1\n")
        );
        let ip = text(&mut b, "write_ip_file");
        assert!(ip.contains("!ip\n") && ip.ends_with("10.0.0.1 1\n"), "{ip}");
        assert_eq!(
            (b.read("count").unwrap(), b.read("nagg").unwrap()),
            ("8".into(), "4".into())
        );
        assert!(b.write("write_text_file", "/tmp/x").is_err());
        b.write("clear", "").unwrap();
        assert_eq!(b.read("count").unwrap(), "0");
        b.write("active", "false").unwrap();
        count(&mut b, 0, 1);
        assert_eq!(b.read("count").unwrap(), "0");
    }

    #[test]
    fn a_frozen_counter_knows_no_new_aggregates() {
        let mut b = Bench::new("AggregateCounter", "BYTES true, AGGREGATE_FREEZE 2", 2, 2).unwrap();
        assert_eq!(count(&mut b, 1, 7), 1);
        assert_eq!(
            [
                count(&mut b, 0, 7),
                count(&mut b, 0, 8),
                count(&mut b, 0, 9)
            ],
            [0, 0, 1]
        );
        assert_eq!([count(&mut b, 1, 7), count(&mut b, 0, 9)], [0, 1]);
        assert_eq!(
            (b.read("freeze").unwrap(), b.read("count").unwrap()),
            ("true".into(), "30".into())
        );
    }

    #[test]
    fn thresholds() {
        let mut b = Bench::new("AggregateCounter", "COUNT_STOP 2", 1, 1).unwrap();
        count(&mut b, 0, 1);
        assert_eq!(b.read("active").unwrap(), "true");
        count(&mut b, 0, 1);
        assert_eq!(b.read("active").unwrap(), "false");
        for wrong in [
            "COUNT_STOP 1, COUNT_FREEZE 2",
            "AGGREGATE_CALL often",
            "COUNT_CALL 3",
        ] {
            assert!(
                Bench::new("AggregateCounter", wrong, 1, 1).is_err(),
                "{wrong}"
            );
        }
    }
}
