//! PayloadFilter: rules on headers and payloads, as intrusion detection systems have them.
//!
//! ```text
//! PayloadFilter(alert NAME "sid 1000001" FILTER "dst tcp port 80" LITERAL "/admin.php" NOCASE NOT LITERAL "Referer:",
//!               drop REGEX "(?i)select.+from" LITERAL "' or 1=1" DISTANCE 0,
//!               allow LITERAL \<7f 45 4c 46> OFFSET 0 DEPTH 4)
//! ```
//!
//! Each argument is a rule (see [`rule`] for the language). Rules are asked in order: the first `allow` or `drop` rule
//! that matches decides and ends the search; `alert` rules before it make a copy of the packet, one however many of
//! them match, leave at output 1 (if that is connected) before the packet goes on. What no rule decides passes at
//! output 0.
//!
//! Payloads are looked at packet by packet; streams and fragments are not put together.
//!
//! One [scanner](super::scan) finds the longest literal of every rule in one pass; only rules whose literal is there
//! are asked. Where a rule has no literal, one that its expression cannot match without is taken. Rules without
//! either are asked always. The keyword `MATCHER` (`auto`, `portable` or `vectorscan`) says who scans; it makes no
//! difference to what is found. Without it the environment variable `ONEFOLD_MATCHER` does.
//!
//! What this has that `PayloadMatcher` has not: conditions on headers per rule, conditions relative to one another,
//! alerts.

mod needle;
pub mod rule;
#[cfg(test)]
mod tests;
mod told;

use super::base::Base;
use super::scan::{Choice, Pattern, Scanner};
use crate::filter::{Expr, Host, HostAt, Transport, View};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, InspectCx, Inspected, Port,
    RuleCount, RuleCounters, element_any, element_counts_rules,
};
use onefold_packet::Pkt;
use rule::{Action, Rule, Scratch};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use told::Told;

/// `PayloadFilter`.
pub const PAYLOAD_FILTER: ElementClass = ElementClass {
    name: "PayloadFilter",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "ACTION [NAME text] [FILTER \"expression\"] CONDITION..., ...; ACTION is allow, drop or alert; a CONDITION is \
            [NOT] LITERAL bytes [NOCASE] [OFFSET n] [DEPTH n] [DISTANCE n] [WITHIN n], [NOT] REGEX text [RELATIVE], \
            [NOT] AFTER n, or [NOT] SIZE n-m [, keyword MATCHER]",
    summary: "filters packets by rules on their headers and payloads, as intrusion detection systems do",
    new: || Box::new(PayloadFilter::default()),
};

/// Most rules.
pub const MAX_RULES: usize = 200_000;
/// At most so many errors are reported for one element.
const MAX_MESSAGES: usize = 50;

/// Rules, ready to be asked. Immutable; copies of the element share them.
#[derive(Debug)]
struct Compiled {
    /// With the number of the argument that each was read from.
    rules: Vec<(usize, Rule)>,
    /// The protocol that packets have which a rule's filter matches, if it is one.
    transports: Vec<Option<Transport>>,
    /// By needle: the rules that it is the needle of, ascending.
    of_needle: Vec<Vec<u32>>,
    /// Rules without one, ascending.
    always: Vec<u32>,
    /// What [`Compiled::leaves_out`] asks of each of them.
    always_short: Vec<Always>,
}

/// What may be told of a rule without a needle before anything else is looked at.
#[derive(Debug)]
struct Always {
    rule: u32,
    transport: Option<Transport>,
    /// Its payloads have so many bytes.
    sizes: (usize, usize),
    /// Its packets have one of these addresses.
    hosts: Option<Box<[Host]>>,
    /// Its filter asks MAC addresses.
    asks_mac: bool,
}

impl Always {
    fn new(rule: u32, r: &Rule) -> Always {
        let size = |c: &rule::Condition| match c.what {
            rule::What::Size(lo, hi) if !c.not => Some((lo, hi)),
            _ => None,
        };
        let sizes = r.conditions.iter().filter_map(size);
        Always {
            rule,
            transport: r.filter.as_ref().and_then(Expr::transport),
            sizes: sizes.fold((0, usize::MAX), |a, b| (a.0.max(b.0), a.1.min(b.1))),
            hosts: r.filter.as_ref().and_then(Expr::hosts).map(Vec::into),
            asks_mac: r.filter.as_ref().is_some_and(Expr::asks_mac),
        }
    }
}

impl Compiled {
    /// Rules, and what finds their needles: lower-case literals, each of at least one rule.
    fn new(rules: Vec<(usize, Rule)>, choice: Choice) -> Result<(Compiled, Scanner), String> {
        let mut number: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut needles: Vec<Pattern> = Vec::new();
        let mut of_needle: Vec<Vec<u32>> = Vec::new();
        let mut always = Vec::new();
        for (i, (_, r)) in rules.iter().enumerate() {
            match r.needle() {
                None => always.push(i as u32),
                Some(n) => {
                    let k = *number.entry(n).or_insert_with_key(|n| {
                        needles.push(Pattern {
                            nocase: true,
                            ..Pattern::literal(n.clone())
                        });
                        of_needle.push(Vec::new());
                        needles.len() - 1
                    });
                    if let Some(of) = of_needle.get_mut(k) {
                        of.push(i as u32);
                    }
                }
            }
        }
        let scanner = Scanner::build(needles, 0, choice).map_err(|e| e.to_string())?;
        let transport = |(_, r): &(usize, Rule)| r.filter.as_ref().and_then(Expr::transport);
        let short = |i: &u32| Some(Always::new(*i, &rules.get(*i as usize)?.1));
        let compiled = Compiled {
            always_short: always.iter().filter_map(short).collect(),
            transports: rules.iter().map(transport).collect(),
            rules,
            of_needle,
            always,
        };
        Ok((compiled, scanner))
    }

    /// Is it certain that none of the rules without a needle matches?
    #[inline]
    fn leaves_out(&self, p: &Inspected<'_>, payload: &[u8]) -> bool {
        let address = |at: usize| {
            let b = p.net.get(at..).and_then(|b| b.first_chunk());
            b.map_or(0, |b| u32::from_be_bytes(*b))
        };
        let (source, destination, is_v4) = (address(12), address(16), p.header == 20);
        self.always_short.iter().all(|a| {
            let has = |h: &Host| match h.at {
                HostAt::Source => source & h.mask == h.addr,
                HostAt::Destination => destination & h.mask == h.addr,
            };
            if a.transport.is_some_and(|t| !t.has(p.protocol))
                || payload.len() < a.sizes.0
                || payload.len() > a.sizes.1
                || is_v4 && a.hosts.as_ref().is_some_and(|all| !all.iter().any(has))
            {
                return true;
            }
            let filter = self.rules.get(a.rule as usize).map(|(_, r)| &r.filter);
            match filter {
                // a rule with a filter is about IPv4
                Some(Some(_)) if !is_v4 => true,
                Some(Some(f)) if !a.asks_mac => !f.matches(&View {
                    net: p.net,
                    transport: p.net.get(p.header..).unwrap_or(&[]),
                    mac: &[],
                    net6: &[],
                }),
                _ => false,
            }
        })
    }

    /// Which rules may match, ascending.
    fn candidates(&self, payload: &[u8], scanner: &mut Scanner, to: &mut Vec<u32>) {
        to.clear();
        to.extend_from_slice(&self.always);
        if self.of_needle.is_empty() {
            return;
        }
        let found = scanner.scan(payload).numbers();
        if found.is_empty() {
            return;
        }
        for k in found {
            if let Some(of) = self.of_needle.get(*k as usize) {
                to.extend_from_slice(of);
            }
        }
        to.sort_unstable();
    }
}

/// Room for the rules that may match, kept between packets; for all of them, so that no packet makes it grow.
#[derive(Debug, Default)]
struct Candidates(Vec<u32>);

impl Clone for Candidates {
    fn clone(&self) -> Candidates {
        Candidates(Vec::with_capacity(self.0.capacity()))
    }
}

#[derive(Debug, Clone, Default)]
struct PayloadFilter {
    compiled: Option<Arc<Compiled>>,
    scanner: Scanner,
    candidates: Candidates,
    scratch: Scratch,
    /// Matches by rule, alerts among them, and what no rule decided.
    counters: RuleCounters,
    alerts: u64,
    /// Who wants to be told of each packet that rules alert about or drop.
    told: Told,
}

impl Element for PayloadFilter {
    fn multiplies(&self) -> bool {
        true
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let scope = args.scope();
        let choice: Option<Choice> = args.keyword("MATCHER");
        let choice = match choice.map_or_else(Choice::of_environment, Ok) {
            Ok(c) => c,
            Err(e) => {
                args.error(e.to_string());
                Choice::Auto
            }
        };
        let list = args.rest();
        if list.len() > MAX_RULES {
            args.error(format!("more than {MAX_RULES} rules"));
            return args.finish();
        }
        let mut rules = Vec::with_capacity(list.len());
        let mut errors = 0;
        for (i, text) in list {
            match rule::parse(text, &scope) {
                Ok(r) => rules.push((i, r)),
                Err(e) => {
                    errors += 1;
                    if errors <= MAX_MESSAGES {
                        args.error_at(i, &format!("rule {i}"), e);
                    }
                }
            }
        }
        args.finish()?;
        let counters = RuleCounters::new(rules.last().map_or(0, |(i, _)| i + 1));
        match Compiled::new(rules, choice) {
            Ok((c, scanner)) => {
                *self = PayloadFilter {
                    candidates: Candidates(Vec::with_capacity(c.rules.len())),
                    scanner,
                    compiled: Some(Arc::new(c)),
                    counters,
                    told: std::mem::take(&mut self.told),
                    ..PayloadFilter::default()
                };
            }
            Err(e) => args.error(e),
        }
        args.finish()
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("payload")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let Some(compiled) = self.compiled.as_deref() else {
            return cx.drop(p, "PayloadFilter: not configured");
        };
        let version = p.network().and_then(|n| n.first()).map(|b| b >> 4);
        if !matches!(version, Some(4 | 6)) {
            return cx.drop(p, "PayloadFilter: no IP header");
        }
        let payload = Base::Payload.of(&p);
        let candidates = &mut self.candidates.0;
        compiled.candidates(payload, &mut self.scanner, candidates);
        if candidates.is_empty() {
            self.counters.packet(None, p.len());
            return cx.emit(0, p);
        }
        self.scratch.reset();
        let view = View::of(&p).filter(|_| version == Some(4));
        let protocol = view.and_then(|v| v.net.get(9).copied());
        let (mut alert, mut drop, mut decided) = (false, false, false);
        for i in candidates.iter() {
            let Some((argument, r)) = compiled.rules.get(*i as usize) else {
                continue;
            };
            let transport = compiled.transports.get(*i as usize).copied().flatten();
            if let (Some(t), Some(protocol)) = (transport, protocol)
                && !t.has(protocol)
            {
                continue;
            }
            let header = match (&r.filter, &view) {
                (None, _) => true,
                (Some(f), Some(v)) => f.matches(v),
                (Some(_), None) => false,
            };
            if !header || !r.payload_matches(payload, &mut self.scratch) {
                continue;
            }
            self.counters.packet(Some(*argument), p.len());
            cx.decide(Some(*argument), || {
                format!("{} {}", r.action, r.name).trim_end().to_string()
            });
            if self.told.is_wanted() && r.action != Action::Allow {
                let said = (*argument, r.action == Action::Drop);
                self.told.add(&p, said, cx.ingress());
            }
            match r.action {
                Action::Alert => alert = true,
                Action::Drop => drop = true,
                Action::Allow => {}
            }
            if r.action != Action::Alert {
                decided = true;
                break;
            }
        }
        if !decided {
            self.counters.packet(None, p.len());
        }
        if alert {
            self.alerts += 1;
            if cx.noutputs > 1 {
                let copy = cx.copy(&p);
                cx.emit(1, copy);
            }
        }
        if drop {
            cx.drop(p, "PayloadFilter: dropped by a rule");
        } else {
            cx.emit(0, p);
        }
    }

    fn inspects(&self) -> bool {
        true
    }

    /// Packets that no rule is about: what a rule says may be an alert, a drop or a name.
    #[inline]
    fn inspect(&mut self, p: &Inspected<'_>, _: &mut InspectCx<'_>) -> bool {
        let Some(compiled) = self.compiled.as_deref() else {
            return false;
        };
        let payload = p.payload();
        if !compiled.leaves_out(p, payload)
            || !compiled.of_needle.is_empty() && !self.scanner.scan(payload).numbers().is_empty()
        {
            return false;
        }
        self.counters.packet(None, p.len);
        true
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("rules"),
            HandlerInfo::r("alerts"),
            HandlerInfo::r("matches"),
            HandlerInfo::r("counts"),
            HandlerInfo::r("matcher"),
            HandlerInfo::r("rule_counts"),
            HandlerInfo::button("reset_counts").counts(),
            // taken, they are gone: nobody reads this by the way
            HandlerInfo::rp("take_alerts"),
            HandlerInfo::w("tell_alerts").counts(),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "rules" => Ok(self.rules().len().to_string()),
            "matcher" => Ok(self.scanner.engine().to_string()),
            "alerts" => Ok(self.alerts.to_string()),
            "matches" => {
                let of = |c: &RuleCount| c.packets;
                Ok((self.counters.rules().iter().map(of).sum::<u64>()).to_string())
            }
            "rule_counts" => Ok(self.counters.text()),
            "take_alerts" => Ok(self.told.take()),
            // rules that matched: argument, matches, name
            "counts" => {
                let mut s = String::new();
                for (argument, r) in self.rules() {
                    let n = self.counters.get(Some(*argument)).packets;
                    if n > 0 {
                        let line = format!("{argument} {n} {}", r.name);
                        let _ = writeln!(s, "{}", line.trim_end());
                    }
                }
                Ok(s)
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match (name, value.trim()) {
            ("reset_counts", _) => {
                self.counters.reset();
                self.alerts = 0;
            }
            ("tell_alerts", "true") => self.told.want(true),
            ("tell_alerts", "false") => self.told.want(false),
            ("tell_alerts", _) => {
                let what = "tell_alerts: expected true or false";
                return Err(HandlerError::BadValue(what.to_string()));
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }

    element_counts_rules!(counters);
    element_any!();
}

impl PayloadFilter {
    fn rules(&self) -> &[(usize, Rule)] {
        self.compiled.as_ref().map_or(&[], |c| &c.rules)
    }
}
