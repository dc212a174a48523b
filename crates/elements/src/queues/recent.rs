//! RecentList and RecentCheck: addresses that packets had, and when, as Linux's match `recent` keeps them.
//!
//! `RecentList([CAPACITY])` is a list that has no ports: at most CAPACITY (100) addresses; of more, the one that has
//! not been noted for the longest time is forgotten.
//! `RecentCheck(LIST, WHAT, [DESTINATION, MASK, SECONDS, HITS, REAP])`
//! stands where a rule asks it; what holds leaves at output 0, what does not at output 1. WHAT is
//!
//! - `set`: notes the packet's source address (or destination), and holds.
//! - `check`: the address is there, noted HITS times at least (1) in the last SECONDS (0: ever).
//! - `update`: the same, and notes it again where that holds.
//! - `remove`: the address is there; it is taken out.
//!
//! MASK: the bits of the address that count. `REAP true`: when an address is asked for, the one that has not been noted
//! for the longest time goes if that was before the last SECONDS. Of an address, the last 256 times are kept.
//!
//! Time is the packet's, in nanoseconds (Linux counts in jiffies).
//!
//! Handlers of RecentList: `count`, `list` (a line for each address: how often it is noted, and when it was last).
//!
//! Source: Linux, net/netfilter/xt_recent.c.

use onefold_element::args::{AnyArg, Args};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, Port, Scope, State,
    StateId, element_any, element_takes, state_any,
};
use onefold_packet::{Packet, Pkt, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// `RecentList`.
pub const RECENT_LIST: ElementClass = ElementClass {
    name: "RecentList",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "[CAPACITY]",
    summary: "addresses that packets had, which RecentCheck elements note and ask for",
    new: || Box::new(RecentList { list: None }),
};

/// `RecentCheck`.
pub const RECENT_CHECK: ElementClass = ElementClass {
    name: "RecentCheck",
    ports: "1/1-2",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "LIST, WHAT [, keywords DESTINATION, MASK, SECONDS, HITS, REAP]",
    summary: "notes packets' addresses in a list, or asks for them there",
    new: || Box::new(RecentCheck::default()),
};

/// What Linux takes where nothing is said (ip_list_tot).
const USUAL_CAPACITY: u32 = 100;
const MAX_CAPACITY: u32 = 1 << 20;
/// Most times of an address (XT_RECENT_MAX_NSTAMPS).
const MAX_STAMPS: usize = 256;
/// Of packets of which a question does not hold, whose output is not connected.
const FAILS: &str = "RecentCheck: not in the list";

/// An address and when it was noted; the place of it among all, by when it was noted last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    stamps: VecDeque<i64>,
    place: u64,
}

/// A list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Addresses {
    capacity: usize,
    entries: BTreeMap<IpAddr, Entry>,
    /// The one that has not been noted for the longest time first.
    order: BTreeMap<u64, IpAddr>,
    next: u64,
}

/// What a RecentCheck asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Set,
    Check,
    Update,
    Remove,
}

/// A question.
#[derive(Debug, Clone, Copy)]
struct Question {
    what: What,
    nanos: i64,
    hits: usize,
    reap: bool,
}

impl Addresses {
    fn new(capacity: usize) -> Addresses {
        Addresses {
            capacity,
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
        }
    }

    /// Notes an address that may be there.
    fn note(&mut self, a: IpAddr, now: i64) {
        if !self.entries.contains_key(&a)
            && self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        let place = self.next;
        self.next += 1;
        let entry = self.entries.entry(a).or_insert(Entry {
            stamps: VecDeque::new(),
            place,
        });
        self.order.remove(&entry.place);
        self.order.insert(place, a);
        entry.place = place;
        if entry.stamps.len() >= MAX_STAMPS {
            entry.stamps.pop_front();
        }
        entry.stamps.push_back(now);
    }

    fn remove(&mut self, a: IpAddr) {
        if let Some(e) = self.entries.remove(&a) {
            self.order.remove(&e.place);
        }
    }

    /// Does a question hold of an address?
    fn ask(&mut self, a: IpAddr, q: Question, now: Timestamp) -> bool {
        let now = now.nanos();
        let since = now.saturating_sub(q.nanos);
        let counts = |t: &i64| q.nanos == 0 || *t >= since;
        let found = self.entries.get(&a);
        let holds = match (q.what, found) {
            (What::Set, _) => true,
            (_, None) => return false,
            (What::Remove, Some(_)) => true,
            (What::Check | What::Update, Some(e)) => {
                let n = e.stamps.iter().filter(|t| counts(t)).count();
                n >= q.hits.max(1)
            }
        };
        match q.what {
            What::Remove => self.remove(a),
            What::Set => self.note(a, now),
            What::Check | What::Update => {
                if q.reap {
                    self.reap(a, since);
                }
                if q.what == What::Update && holds {
                    self.note(a, now);
                }
            }
        }
        holds
    }

    /// Forgets the oldest address if it was noted last before `since`; not the one that is asked for.
    fn reap(&mut self, asked: IpAddr, since: i64) {
        let Some(oldest) = self.order.first_key_value().map(|(_, a)| *a) else {
            return;
        };
        let last = self.entries.get(&oldest).and_then(|e| e.stamps.back());
        if oldest != asked && last.is_some_and(|t| *t < since) {
            self.remove(oldest);
        }
    }
}

impl State for Addresses {
    fn summary(&self) -> String {
        let one = |(a, e): (&IpAddr, &Entry)| format!("{a} {:?}", e.stamps);
        let all: Vec<String> = self.entries.iter().map(one).collect();
        all.join(", ")
    }
    // firewalls with such rules run on one worker
    state_any!(Scope::PerWorker);
}

#[derive(Debug, Clone)]
struct RecentList {
    list: Option<StateId>,
}

impl Element for RecentList {
    /// Before those that name it.
    fn configure_phase(&self) -> i32 {
        50
    }

    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let capacity = args.optional("CAPACITY").unwrap_or(USUAL_CAPACITY);
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            args.error(format!("CAPACITY: out of range, 1 to {MAX_CAPACITY}"));
        }
        args.finish()?;
        let list = Addresses::new(capacity as usize);
        let id = cx.store.alloc(Box::new(list));
        cx.store.publish(cx.elem, id);
        self.list = Some(id);
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "RecentList: has no inputs");
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("count"), HandlerInfo::r("list")];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let no_such = || HandlerError::NoSuchHandler(name.to_string());
        let list = self.list.and_then(|id| cx.store.get::<Addresses>(id));
        let list = list.ok_or_else(no_such)?;
        Ok(match name {
            "count" => list.entries.len().to_string(),
            "list" => {
                let line = |(a, e): (&IpAddr, &Entry)| {
                    let last = e.stamps.back().copied().unwrap_or(0);
                    let (s, ns) = (
                        last.div_euclid(1_000_000_000),
                        last.rem_euclid(1_000_000_000),
                    );
                    format!("{a} {} {s}.{ns:09}\n", e.stamps.len())
                };
                list.entries.iter().map(line).collect()
            }
            _ => return Err(no_such()),
        })
    }

    fn states(&self) -> Vec<StateId> {
        self.list.into_iter().collect()
    }

    element_takes!();
    element_any!();
}

#[derive(Debug, Clone)]
struct RecentCheck {
    list: StateId,
    question: Question,
    destination: bool,
    mask: Option<IpAddr>,
}

impl Default for RecentCheck {
    fn default() -> RecentCheck {
        RecentCheck {
            list: StateId(u32::MAX),
            question: Question {
                what: What::Check,
                nanos: 0,
                hits: 0,
                reap: false,
            },
            destination: false,
            mask: None,
        }
    }
}

impl RecentCheck {
    /// The address that counts; `None` if the packet has none.
    fn address(&self, p: &Packet) -> Option<IpAddr> {
        let net = p.network()?;
        let (at, len) = match (net.first()? >> 4, self.destination) {
            (4, false) => (12, 4),
            (4, true) => (16, 4),
            (6, false) => (8, 16),
            (6, true) => (24, 16),
            _ => return None,
        };
        let bytes = net.get(at..at + len)?;
        let four: Option<[u8; 4]> = bytes.try_into().ok();
        let six: Option<[u8; 16]> = bytes.try_into().ok();
        match (four, six, self.mask) {
            (Some(a), _, None) => Some(a.into()),
            (_, Some(a), None) => Some(a.into()),
            (Some(a), _, Some(IpAddr::V4(m))) => {
                let masked = u32::from_be_bytes(a) & u32::from(m);
                Some(IpAddr::V4(masked.into()))
            }
            (_, Some(a), Some(IpAddr::V6(m))) => {
                let masked = u128::from_be_bytes(a) & u128::from(m);
                Some(IpAddr::V6(masked.into()))
            }
            _ => None,
        }
    }
}

impl Element for RecentCheck {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let name: Option<AnyArg> = args.mandatory("LIST");
        let what: Option<AnyArg> = args.mandatory("WHAT");
        let mask: Option<AnyArg> = args.keyword("MASK");
        let seconds: u32 = args.keyword("SECONDS").unwrap_or(0);
        let hits: u32 = args.keyword("HITS").unwrap_or(0);
        self.destination = args.keyword("DESTINATION").unwrap_or(false);
        let reap = args.keyword("REAP").unwrap_or(false);
        let what = match what.as_ref().map_or("check", |w| w.0.as_str()) {
            "set" => What::Set,
            "check" => What::Check,
            "update" => What::Update,
            "remove" => What::Remove,
            other => {
                args.error(format!(
                    "WHAT: '{other}', expected set, check, update or remove"
                ));
                What::Check
            }
        };
        if hits as usize > MAX_STAMPS {
            args.error(format!("HITS: out of range, 1 to {MAX_STAMPS}"));
        }
        if let Some(AnyArg(text)) = mask {
            match text.parse() {
                Ok(mask) => self.mask = Some(mask),
                Err(_) => args.error(format!("MASK: '{text}' is no mask of an address")),
            }
        }
        args.finish()?;
        self.question = Question {
            what,
            nanos: i64::from(seconds) * 1_000_000_000,
            hits: hits as usize,
            reap,
        };
        let Some(AnyArg(name)) = name else {
            return Ok(());
        };
        let class =
            |e: onefold_element::ElemId| cx.classes.get(e.0 as usize).map_or("", String::as_str);
        let found = cx.find_element(&name).filter(|e| class(*e) == "RecentList");
        match found.and_then(|e| cx.store.published_by(e)) {
            Some(id) => self.list = id,
            None => {
                let e = ConfigError::at(0, "LIST", format!("'{name}' is no RecentList"));
                return Err(vec![e.hint("write 'seen :: RecentList;' and name it here")]);
            }
        }
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("a list of addresses")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let now = cx.now;
        let address = self.address(&p);
        let list = cx.store.get_mut::<Addresses>(self.list);
        let holds = match (list, address) {
            (Some(list), Some(a)) => list.ask(a, self.question, now),
            _ => false,
        };
        cx.decide(Some(0), || match holds {
            true => "holds of its address".to_string(),
            false => "does not hold of its address".to_string(),
        });
        match holds {
            true => cx.emit(0, p),
            false => cx.emit_or_drop(1, p, FAILS),
        }
    }

    fn states(&self) -> Vec<StateId> {
        vec![self.list]
    }

    element_takes!();
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cases;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000_000;

    fn question(what: What, seconds: i64, hits: usize) -> Question {
        Question {
            what,
            nanos: seconds * SECOND,
            hits,
            reap: false,
        }
    }

    fn host(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    #[test]
    fn hits_within_seconds() {
        let mut l = Addresses::new(100);
        let mut ask = |q, t: i64| l.ask(host(1), q, Timestamp(t * SECOND));
        let update = question(What::Update, 60, 3);
        assert!(!ask(update, 0));
        for t in 1..=2 {
            assert!(ask(question(What::Set, 0, 0), t));
        }
        // twice so far; what does not hold is not noted
        assert!(!ask(update, 3));
        assert!(ask(question(What::Set, 0, 0), 10));
        assert!(ask(update, 61));
        // at 2, 10 and 61
        assert!(ask(question(What::Check, 60, 3), 62));
        assert!(!ask(question(What::Check, 60, 3), 63));
        assert!(ask(question(What::Check, 0, 4), 1000));
        assert!(ask(question(What::Remove, 0, 0), 1000));
        assert!(!ask(question(What::Remove, 0, 0), 1000));
    }

    #[test]
    fn the_oldest_goes() {
        let mut l = Addresses::new(2);
        let mut ask = |what, n, t: i64| l.ask(host(n), question(what, 0, 0), Timestamp(t));
        assert!(ask(What::Set, 1, 1) && ask(What::Set, 2, 2) && ask(What::Update, 1, 3));
        assert!(ask(What::Set, 3, 4));
        assert!(ask(What::Check, 1, 5) && ask(What::Check, 3, 5) && !ask(What::Check, 2, 5));
        let reap = Question {
            reap: true,
            ..question(What::Check, 1, 0)
        };
        assert!(!l.ask(host(3), reap, Timestamp(2 * SECOND)));
        assert_eq!(l.entries.len(), 1);
        // it is asked for itself
        assert!(!l.ask(host(3), reap, Timestamp(3 * SECOND)));
        assert_eq!(l.entries.len(), 1);
    }

    #[test]
    fn addresses_and_masks() {
        let mut four = [0u8; 20];
        four[0] = 0x45;
        four[12..20].copy_from_slice(&[10, 1, 2, 3, 192, 168, 7, 9]);
        let mut p = Packet::from_slice(&four);
        let mut c = RecentCheck::default();
        assert_eq!(c.address(&p), None);
        p.set_network_header(0, 20);
        assert_eq!(c.address(&p), "10.1.2.3".parse().ok());
        c.destination = true;
        c.mask = "255.255.0.0".parse().ok();
        assert_eq!(c.address(&p), "192.168.0.0".parse().ok());
        c.mask = "ffff::".parse().ok();
        assert_eq!(c.address(&p), None);
        let mut six = [0u8; 40];
        (six[0], six[24], six[39]) = (0x60, 0x20, 7);
        let mut p = Packet::from_slice(&six);
        p.set_network_header(0, 40);
        assert_eq!(c.address(&p), "2000::".parse().ok());
        let mut p = Packet::from_slice(&four[..15]);
        p.set_network_header(0, 15);
        assert_eq!(RecentCheck::default().address(&p), None);
    }

    #[test]
    fn what_is_wrong_with_it() {
        let wrong = |class: &str, c: &str, ports| {
            let e = crate::testing::Bench::new(class, c, ports, ports);
            e.err().unwrap_or_default().join("; ")
        };
        assert_eq!(
            wrong("RecentList", "0", 0),
            "CAPACITY: out of range, 1 to 1048576"
        );
        assert_eq!(wrong("RecentList", "", 0), "");
        assert!(wrong("RecentCheck", "x, set", 1).contains("is no RecentList"));
        assert!(wrong("RecentCheck", "x, look", 1).contains("WHAT"));
        assert!(wrong("RecentCheck", "x, set, MASK 1.2.3", 1).contains("MASK"));
        assert!(wrong("RecentCheck", "x, set, HITS 300", 1).contains("HITS"));
    }

    proptest! {
        #![proptest_config(cases(256))]
        /// Against the list as xt_recent.c keeps it: a ring of times for each address, the addresses in a row.
        #[test]
        fn as_the_kernel_keeps_it(
            steps in prop::collection::vec((0u8..4, 0u8..4, 0i64..3, 0i64..4, 0usize..4), 1..120),
        ) {
            let mut list = Addresses::new(3);
            let mut row: Vec<(IpAddr, Vec<i64>)> = Vec::new();
            let mut now = 0;
            for (what, who, later, seconds, hits) in steps {
                now += later * SECOND;
                let what = [What::Set, What::Check, What::Update, What::Remove][usize::from(what)];
                let q = question(what, seconds, hits);
                let found = list.ask(host(who), q, Timestamp(now));
                let at = row.iter().position(|e| e.0 == host(who));
                let holds = match (at, what) {
                    (None, What::Set) => {
                        if row.len() == 3 {
                            row.remove(0);
                        }
                        row.push((host(who), vec![now]));
                        true
                    }
                    (None, _) => false,
                    (Some(i), What::Remove) => {
                        row.remove(i);
                        true
                    }
                    (Some(i), _) => {
                        let fits = |t: &&i64| seconds == 0 || **t >= now - seconds * SECOND;
                        let n = row[i].1.iter().filter(fits).count();
                        let holds = what == What::Set || n > 0 && n >= hits;
                        if holds && what != What::Check {
                            let mut e = row.remove(i);
                            e.1.push(now);
                            row.push(e);
                        }
                        holds
                    }
                };
                prop_assert_eq!(found, holds);
                let kept: BTreeMap<_, _> = row.iter().cloned().collect();
                let mine: BTreeMap<_, Vec<i64>> =
                    list.entries.iter().map(|(a, e)| (*a, e.stamps.iter().copied().collect())).collect();
                prop_assert_eq!(mine, kept);
            }
        }
    }
}
