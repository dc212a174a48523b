//! RateLimit and RateCheck: token buckets that rules of firewalls ask, as Linux has them.
//!
//! `RateLimit(RATE, PER, [BURST, BYTES])` is a bucket that has no ports: RATE packets in PER seconds, and BURST (5) at
//! once; `BYTES true`: RATE bytes in PER seconds, and BURST (0) more. `RateCheck(LIMIT)` stands where a rule asks it: a
//! packet that finds enough in the bucket takes it out and leaves at output 0; one that does not takes nothing and
//! leaves at output 1. Several may share a bucket.
//!
//! Time is the packet's, in nanoseconds. What a packet takes is PER divided by RATE, of bytes so much for each byte of
//! the IP packet (without what follows it in its frame).
//!
//! Handlers of RateLimit: `within`, `over` (packets), `tokens` (nanoseconds in the bucket when it was asked last).
//!
//! Source: Linux, net/netfilter/nft_limit.c; iptables 1.8.9 has the kernel do the same for `-m limit`.
//! (net/netfilter/xt_limit.c counts in jiffies.)

use onefold_element::args::{AnyArg, Args};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, Port, Scope, State,
    StateId, element_any, element_takes, state_any,
};
use onefold_packet::{Packet, Pkt, Timestamp};

/// `RateLimit`.
pub const RATE_LIMIT: ElementClass = ElementClass {
    name: "RateLimit",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "RATE, PER [, keywords BURST, BYTES]",
    summary: "a rate that RateCheck elements share",
    new: || Box::new(RateLimit { bucket: None }),
};

/// `RateCheck`.
pub const RATE_CHECK: ElementClass = ElementClass {
    name: "RateCheck",
    ports: "1/1-2",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "LIMIT",
    summary: "tells packets within a rate from those beyond it",
    new: || {
        Box::new(RateCheck {
            bucket: StateId(u32::MAX),
        })
    },
};

/// Longest time that a rate is about: a week, in seconds.
const MAX_PER: u64 = 604_800;
/// Highest rate and burst.
const MAX_RATE: u64 = u32::MAX as u64;
const MAX_BURST: u64 = u32::MAX as u64;
/// What nftables and iptables take where no burst is said.
const USUAL_BURST: u64 = 5;
/// Of packets beyond the rate whose output is not connected.
const OVER: &str = "RateCheck: beyond the rate";

/// A bucket. Tokens are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bucket {
    rate: u64,
    nanos: u64,
    bytes: bool,
    most: u64,
    tokens: u64,
    /// When it was asked last; full before.
    last: Option<i64>,
    within: u64,
    over: u64,
}

impl Bucket {
    fn new(rate: u64, per: u64, burst: u64, bytes: bool) -> Bucket {
        let nanos = per.saturating_mul(1_000_000_000);
        let most = match bytes {
            // as nft_limit_init
            true => u128::from(nanos) * (u128::from(rate) + u128::from(burst)) / u128::from(rate),
            false => u128::from(nanos / rate) * u128::from(burst),
        };
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        Bucket {
            rate,
            nanos,
            bytes,
            most,
            tokens: most,
            last: None,
            within: 0,
            over: 0,
        }
    }

    /// A packet of so many bytes asks: is it within the rate? Then it takes its tokens out.
    fn ask(&mut self, bytes: u64, now: Timestamp) -> bool {
        let now = now.nanos();
        let passed = self.last.map_or(0, |last| now.saturating_sub(last).max(0));
        let tokens = self.tokens.saturating_add(passed.unsigned_abs());
        self.tokens = tokens.min(self.most);
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        let cost = match self.bytes {
            true => u128::from(self.nanos) * u128::from(bytes) / u128::from(self.rate),
            false => u128::from(self.nanos / self.rate),
        };
        let left = u64::try_from(cost)
            .ok()
            .and_then(|c| self.tokens.checked_sub(c));
        match left {
            Some(left) => {
                self.tokens = left;
                self.within += 1;
            }
            None => self.over += 1,
        }
        left.is_some()
    }
}

impl State for Bucket {
    fn summary(&self) -> String {
        format!(
            "{} tokens at {:?}, {} within, {} over",
            self.tokens, self.last, self.within, self.over
        )
    }
    // firewalls with such rules run on one worker
    state_any!(Scope::PerWorker);
}

/// Bytes of the IP packet, of which the frame may have more.
fn length(p: &Packet) -> u64 {
    let Some(net) = p.network() else {
        return p.len() as u64;
    };
    let two = |i: usize| {
        net.get(i..i + 2)
            .map(|b| u64::from(b[0]) << 8 | u64::from(b[1]))
    };
    let said = match net.first().map(|b| b >> 4) {
        Some(4) => two(2),
        Some(6) => two(4).map(|n| n + 40),
        _ => None,
    };
    let there = net.len() as u64;
    said.map_or(there, |n| n.min(there))
}

#[derive(Debug, Clone)]
struct RateLimit {
    bucket: Option<StateId>,
}

impl Element for RateLimit {
    /// Before those that name it.
    fn configure_phase(&self) -> i32 {
        50
    }

    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let rate: Option<u64> = args.mandatory("RATE");
        let per: Option<u64> = args.mandatory("PER");
        let burst: Option<u64> = args.keyword("BURST");
        let bytes = args.keyword("BYTES").unwrap_or(false);
        for (name, value, least, most) in [
            ("RATE", rate, 1, MAX_RATE),
            ("PER", per, 1, MAX_PER),
            ("BURST", burst, 0, MAX_BURST),
        ] {
            if value.is_some_and(|v| !(least..=most).contains(&v)) {
                args.error(format!("{name}: out of range, {least} to {most}"));
            }
        }
        let nanos = per.unwrap_or(1).saturating_mul(1_000_000_000);
        if !bytes && rate.is_some_and(|r| r > nanos) {
            args.error("RATE: more than one packet in a nanosecond");
        }
        args.finish()?;
        // of packets, none at once is as many as usual
        let burst = match burst.unwrap_or(0) {
            0 if !bytes => USUAL_BURST,
            b => b,
        };
        let bucket = Bucket::new(rate.unwrap_or(1), per.unwrap_or(1), burst, bytes);
        let id = cx.store.alloc(Box::new(bucket));
        cx.store.publish(cx.elem, id);
        self.bucket = Some(id);
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "RateLimit: has no inputs");
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("within"),
            HandlerInfo::r("over"),
            HandlerInfo::r("tokens"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let no_such = || HandlerError::NoSuchHandler(name.to_string());
        let b = self.bucket.and_then(|id| cx.store.get::<Bucket>(id));
        let b = b.ok_or_else(no_such)?;
        Ok(match name {
            "within" => b.within,
            "over" => b.over,
            "tokens" => b.tokens,
            _ => return Err(no_such()),
        }
        .to_string())
    }

    fn states(&self) -> Vec<StateId> {
        self.bucket.into_iter().collect()
    }

    element_takes!();
    element_any!();
}

#[derive(Debug, Clone)]
struct RateCheck {
    bucket: StateId,
}

impl Element for RateCheck {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let name: Option<AnyArg> = args.mandatory("LIMIT");
        args.finish()?;
        let Some(AnyArg(name)) = name else {
            return Ok(());
        };
        let class =
            |e: onefold_element::ElemId| cx.classes.get(e.0 as usize).map_or("", String::as_str);
        let found = cx.find_element(&name).filter(|e| class(*e) == "RateLimit");
        match found.and_then(|e| cx.store.published_by(e)) {
            Some(id) => self.bucket = id,
            None => {
                let e = ConfigError::at(0, "LIMIT", format!("'{name}' is no RateLimit"));
                return Err(vec![
                    e.hint("write 'limit :: RateLimit(10, 60);' and name it here"),
                ]);
            }
        }
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("a rate limit")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let now = cx.now;
        let bucket = cx.store.get_mut::<Bucket>(self.bucket);
        let within = bucket.is_none_or(|b| b.ask(length(&p), now));
        cx.decide(Some(0), || match within {
            true => "within the rate".to_string(),
            false => "beyond the rate".to_string(),
        });
        match within {
            true => cx.emit(0, p),
            false => cx.emit_or_drop(1, p, OVER),
        }
    }

    fn states(&self) -> Vec<StateId> {
        vec![self.bucket]
    }

    element_takes!();
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cases;
    use proptest::prelude::*;

    fn at(ns: i64) -> Timestamp {
        Timestamp(ns)
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn bursts_and_what_comes_after_them() {
        // ten a minute, five at once
        let mut b = Bucket::new(10, 60, 5, false);
        let mut n = |t: i64, count: usize| (0..count).filter(|_| b.ask(60, at(t))).count();
        assert_eq!(n(SECOND, 9), 5);
        assert_eq!(n(SECOND + 6 * SECOND - 1, 1), 0);
        assert_eq!(n(SECOND + 6 * SECOND, 2), 1);
        // full again, and never more than full
        assert_eq!(n(3600 * SECOND, 9), 5);
        // time that goes back brings nothing
        assert_eq!(n(0, 1), 0);
    }

    #[test]
    fn bytes() {
        // 1000 bytes a second, and 500 more
        let mut b = Bucket::new(1000, 1, 500, true);
        assert!(b.ask(1500, at(0)));
        assert!(!b.ask(1, at(0)));
        assert!(b.ask(100, at(SECOND / 10)));
        assert!(!b.ask(1501, at(100 * SECOND)));
        assert!(b.ask(1500, at(100 * SECOND)));
        assert_eq!((b.within, b.over), (3, 2));
    }

    #[test]
    fn lengths_are_those_of_ip() {
        let mut p = Packet::from_slice(&[&[0x45, 0, 0, 21][..], &[0; 60]].concat());
        assert_eq!(length(&p), 64);
        p.set_network_header(0, 20);
        assert_eq!(length(&p), 21);
        let mut p = Packet::from_slice(&[&[0x60, 0, 0, 0, 0, 8][..], &[0; 60]].concat());
        p.set_network_header(0, 20);
        assert_eq!(length(&p), 48);
        let mut p = Packet::from_slice(&[0x45, 0, 99, 0]);
        p.set_network_header(0, 20);
        assert_eq!(length(&p), 4);
    }

    #[test]
    fn what_is_wrong_with_it() {
        let wrong = |c: &str| {
            let e = crate::testing::Bench::new("RateLimit", c, 0, 0);
            e.err().unwrap_or_default().join("; ")
        };
        assert_eq!(wrong("0, 1"), "RATE: out of range, 1 to 4294967295");
        assert_eq!(wrong("1, 604801"), "PER: out of range, 1 to 604800");
        assert_eq!(
            wrong("2000000000, 1"),
            "RATE: more than one packet in a nanosecond"
        );
        assert!(wrong("1").starts_with("PER"));
        assert_eq!(wrong("1, 1, BURST 9"), "");
        let e = crate::testing::Bench::new("RateCheck", "x", 1, 2);
        assert!(
            e.err()
                .unwrap_or_default()
                .join("")
                .contains("is no RateLimit")
        );
    }

    proptest! {
        #![proptest_config(cases(256))]
        /// Against a bucket of whole packets and a list of when each was taken: in no window are there more than the
        /// burst and what the rate brings in it, and a packet beyond has found less than its share.
        #[test]
        fn no_window_has_more_than_its_share(
            rate in 1u64..1000,
            per in 1u64..100,
            burst in 1u64..20,
            gaps in prop::collection::vec(0i64..2_000_000_000, 1..200),
        ) {
            let mut b = Bucket::new(rate, per, burst, false);
            let cost = (per * 1_000_000_000 / rate) as i64;
            let (mut now, mut taken): (i64, Vec<i64>) = (0, Vec::new());
            for g in gaps {
                now += g % (4 * cost);
                let within = b.ask(0, at(now));
                // the least that is left of the bucket over all windows that end now
                let windows = taken.iter().enumerate().map(|(i, t)| {
                    let since = (taken.len() - i) as i64;
                    burst as i64 * cost - since * cost + (now - t)
                });
                let left = windows.min().unwrap_or(i64::MAX).min(burst as i64 * cost);
                prop_assert_eq!(within, left >= cost);
                if within {
                    taken.push(now);
                }
            }
        }
    }
}
