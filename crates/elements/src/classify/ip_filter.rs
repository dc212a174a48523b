//! IPFilter and IPClassifier, and IP6Classifier: first match of a list of `tcpdump`-like patterns.
//!
//! Source: Click's `IPFilter` and `IPClassifier` documentation. The language, and where it differs from Click's, is
//! described in [`crate::filter`].
//!
//! Deliberate differences: a packet without network header annotation is dropped (Click must not be given one);
//! the `program` handler prints the rules as they were understood, not Click's compiled program; `CACHING` (FastClick)
//! is accepted and changes nothing; FastClick's `file FILENAME` is refused (elements read no files).
//!
//! IP6Classifier is ours: the same language for IPv6. Addresses and networks are IPv6; `proto`, `tcp`, `port` and
//! the like are about the upper-layer header behind the extension headers; fields are `ip6 class`, `dscp`, `flow`,
//! `plen`, `nxt`, `hlim`, `ect`, `ce` and `ip6[POS:LEN]`; `icmp6 type` has ICMPv6's names. Packets whose extension
//! headers cannot be followed (cut off, more than 32) are dropped whatever the rules say: nobody can tell what they
//! carry.

use super::filter::model::{self, Reasons};
use super::filter::{
    Action, Expr, Filter, FilterError, Parsed, Rule, View, View6, parse_pattern, parse_pattern6,
    parse_rule,
};
use super::pattern_handlers;
use onefold_element::args::{ArgScope, Args, unquote};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, NameDb, Port,
    RuleCounters, element_any, element_counts_rules, pass_alike,
};
use onefold_packet::{Pkt, Timestamp};
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

/// `IPFilter`.
pub const IP_FILTER: ElementClass = ElementClass {
    name: "IPFilter",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "ACTION PATTERN, ...; ACTION is allow, deny, drop or an output number",
    summary: "filters IP packets by contents: the first rule that matches decides",
    new: || Box::new(IpFilter::default()),
};

/// `IPClassifier`.
pub const IP_CLASSIFIER: ElementClass = ElementClass {
    name: "IPClassifier",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "PATTERN, ...; one per output",
    summary: "sends IP packets to the output whose pattern is the first to match",
    new: || {
        Box::new(IpFilter {
            classifier: true,
            ..IpFilter::default()
        })
    },
};

/// `IP6Classifier`.
pub const IP6_CLASSIFIER: ElementClass = ElementClass {
    name: "IP6Classifier",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "PATTERN, ...; one per output",
    summary: "sends IPv6 packets to the output whose pattern is the first to match",
    new: || {
        Box::new(IpFilter {
            classifier: true,
            six: true,
            ..IpFilter::default()
        })
    },
};

/// At most so many errors and warnings are reported for one element.
const MAX_MESSAGES: usize = 50;

/// IPFilter, or IPClassifier: each pattern has the output of its number.
#[derive(Debug, Clone, Default)]
struct IpFilter {
    classifier: bool,
    /// For IPv6.
    six: bool,
    /// Rules are immutable once compiled; copies of the element share them.
    filter: Option<Arc<Filter>>,
    /// IPClassifier's patterns as written, for the `patternN` handlers.
    texts: Arc<Vec<String>>,
    counters: RuleCounters,
    /// Names to understand a new pattern with, and whose scope.
    names: Option<Arc<(NameDb, String)>>,
}

/// An argument with its quotes removed.
fn plain(text: &str) -> Cow<'_, str> {
    if text.contains(['"', '\'', '\\']) {
        Cow::Owned(String::from_utf8_lossy(&unquote(text)).into_owned())
    } else {
        Cow::Borrowed(text)
    }
}

/// Says where in the argument, for what is longer than a glance.
fn message(e: &FilterError, text: &str) -> String {
    let before = text.get(..e.span.start as usize).unwrap_or(text);
    match before.chars().count() {
        0..20 => e.to_string(),
        n => format!("{e} (character {})", n + 1),
    }
}

impl IpFilter {
    #[inline]
    fn reasons(&self) -> &'static Reasons {
        match (self.six, self.classifier) {
            (false, false) => &Reasons {
                no_header: "IPFilter: no IP header",
                denied: "IPFilter: denied",
                no_match: "IPFilter: no rule matches",
            },
            (false, true) => &Reasons {
                no_header: "IPClassifier: no IP header",
                denied: "IPClassifier: denied",
                no_match: "IPClassifier: no pattern matches",
            },
            (true, _) => &Reasons {
                no_header: "IP6Classifier: no IPv6 header that can be followed",
                denied: "IP6Classifier: denied",
                no_match: "IP6Classifier: no pattern matches",
            },
        }
    }

    fn rule(
        &self,
        i: usize,
        text: &str,
        outputs: usize,
        scope: &ArgScope<'_>,
    ) -> Result<(Action, Parsed), FilterError> {
        let pattern = |p| (Action::Output(i as u32), p);
        match (self.classifier, self.six) {
            (_, true) => parse_pattern6(text, scope).map(pattern),
            (true, false) => parse_pattern(text, scope).map(pattern),
            (false, false) => parse_rule(text, outputs, scope),
        }
    }

    /// Reads all arguments; errors and warnings go to `messages`.
    fn compile(
        &self,
        list: &[(usize, &str)],
        outputs: usize,
        scope: &ArgScope<'_>,
        messages: &mut ConfigErrors,
    ) -> Filter {
        let mut rules = Vec::with_capacity(list.len());
        for (n, (i, text)) in list.iter().enumerate() {
            let text = plain(text);
            let mut report = |e: &FilterError, warning: bool| {
                if messages.len() < MAX_MESSAGES {
                    messages.push(ConfigError {
                        hint: e.hint.clone(),
                        warning,
                        ..ConfigError::at(*i, &format!("pattern {i}"), message(e, &text))
                    });
                }
            };
            match self.rule(n, &text, outputs, scope) {
                Ok((action, parsed)) => {
                    for w in &parsed.warnings {
                        report(w, true);
                    }
                    rules.push(Rule {
                        argument: *i as u32,
                        action,
                        expr: parsed.expr,
                    });
                }
                Err(mut e) => {
                    if !self.classifier && text.starts_with("file ") {
                        e.hint = Some(
                            "put the rules here, or use a firewall NF with a rule file".into(),
                        );
                    }
                    report(&e, false);
                }
            }
        }
        for i in unreachable(&rules) {
            if self.classifier && messages.len() < MAX_MESSAGES {
                let text = format!("output {i} matches no packets");
                messages.push(ConfigError {
                    warning: true,
                    index: Some(i),
                    ..ConfigError::new(text)
                });
            }
        }
        Filter::new(rules)
    }
}

/// Rules that obviously never match: behind one that always does, repeated, or `false`. (Click's warning sees more.)
fn unreachable(rules: &[Rule]) -> Vec<usize> {
    let mut always = false;
    let mut seen = std::collections::HashSet::new();
    let mut out = Vec::new();
    // warnings are for hand-written lists
    for (i, r) in rules.iter().enumerate().take(1000) {
        let new = seen.insert(r.expr.to_string());
        if always || !new || r.expr == Expr::Const(false) {
            out.push(i);
        }
        always |= r.expr == Expr::Const(true);
    }
    out
}

impl Element for IpFilter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        if !self.classifier {
            let _: Option<bool> = args.keyword("CACHING");
        }
        let list = args.rest();
        if self.classifier && list.len() != cx.noutputs {
            args.error(format!(
                "need {} arguments, one per output port; there are {}",
                cx.noutputs,
                list.len()
            ));
        }
        let mut messages = Vec::new();
        let filter = self.compile(&list, cx.noutputs, &args.scope(), &mut messages);
        if let Err(e) = args.finish() {
            messages.splice(0..0, e);
        }
        if messages.iter().all(|e| e.warning) {
            self.filter = Some(Arc::new(filter));
            self.counters = RuleCounters::new(list.last().map_or(0, |(i, _)| i + 1));
            if self.classifier {
                self.texts = Arc::new(list.iter().map(|(_, t)| t.to_string()).collect());
                self.names = Some(Arc::new((cx.names.clone(), cx.name.to_string())));
            }
        }
        if messages.is_empty() {
            Ok(())
        } else {
            Err(messages)
        }
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let reasons = self.reasons();
        let Some(filter) = &self.filter else {
            return cx.drop(p, reasons.no_header);
        };
        let decide = |v: &View<'_>, cx: &mut Cx<'_>| {
            let hit = filter.first_match(v);
            let before = filter.rules().iter().take(hit.unwrap_or(usize::MAX));
            cx.missed(before, |r| {
                let why = r.expr.why_not(v).unwrap_or_default();
                (r.argument as usize, why)
            });
            hit
        };
        let hit = match self.six {
            false => View::of(&p).map(|v| decide(&v, cx)),
            true => View6::of(&p).map(|v| decide(&v.view(), cx)),
        };
        let Some(hit) = hit else {
            return cx.drop(p, reasons.no_header);
        };
        match hit.and_then(|i| filter.rules().get(i)) {
            Some(r) => {
                cx.decide(Some(r.argument as usize), || match r.action {
                    Action::Output(n) => format!("{} -> output {n}", r.expr),
                    Action::Drop => format!("{} -> drop", r.expr),
                });
                self.counters.packet(Some(r.argument as usize), p.len());
                match r.action {
                    Action::Output(n) => cx.emit(n as usize, p),
                    Action::Drop => cx.drop(p, reasons.denied),
                }
            }
            None => {
                cx.decide(None, || "no pattern matches".to_string());
                self.counters.packet(None, p.len());
                cx.drop(p, reasons.no_match);
            }
        }
    }

    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let (Some(filter), false) = (&self.filter, self.six) else {
            return (0, 0);
        };
        pass_alike(batch, &mut self.counters, |p| {
            let hit = filter.first_match(&View::of(p)?)?;
            let rule = filter.rules().get(hit)?;
            match rule.action {
                Action::Output(n) => Some((n as usize, rule.argument as usize)),
                Action::Drop => None,
            }
        })
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match &self.filter {
            Some(f) => model::model(f.rules(), self.six, self.reasons()),
            None => Model::None("IPFilter: not configured"),
        }
    }

    fn finer(&self, _: Port, _: &ModelCx<'_>) -> Option<Vec<Case>> {
        match &self.filter {
            Some(f) if !self.six => model::finer(f.rules(), self.reasons()),
            _ => None,
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        if self.classifier {
            pattern_handlers(self.texts.len())
        } else {
            pattern_handlers(0)
        }
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "program" => return Ok(self.filter.as_ref().map_or(String::new(), |f| program(f))),
            "rule_counts" => return Ok(self.counters.text()),
            _ => {}
        }
        let n = name
            .strip_prefix("pattern")
            .and_then(|n| n.parse::<usize>().ok());
        match n.and_then(|n| self.texts.get(n)) {
            Some(t) => Ok(t.clone()),
            None => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        let n = name
            .strip_prefix("pattern")
            .and_then(|n| n.parse::<usize>().ok());
        let (Some(n), Some(names)) = (n.filter(|n| *n < self.texts.len()), self.names.clone())
        else {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        };
        let mut texts = (*self.texts).clone();
        texts[n] = value.trim().to_string();
        let list: Vec<(usize, &str)> = texts.iter().map(String::as_str).enumerate().collect();
        // element arguments do not occur in patterns
        let scope = ArgScope {
            names: &names.0,
            element: &names.1,
            elements: &[],
        };
        let mut messages = Vec::new();
        let filter = self.compile(&list, list.len(), &scope, &mut messages);
        if let Some(e) = messages.iter().find(|e| !e.warning) {
            return Err(HandlerError::BadValue(e.to_string()));
        }
        self.filter = Some(Arc::new(filter));
        self.texts = Arc::new(texts);
        Ok(())
    }

    element_counts_rules!(counters);
    element_any!();
}

/// Where all packets go, whatever is in them, if that is obvious.
fn alike(f: &Filter) -> Option<String> {
    let may_match = |r: &&Rule| r.expr != Expr::Const(false);
    let mut rules = f.rules().iter().filter(may_match);
    let Some(first) = rules.next() else {
        return Some("X".to_string());
    };
    let end = |r: &Rule| r.expr == Expr::Const(true);
    let mut all = end(first);
    while !all {
        let next = rules.next()?;
        if next.action != first.action {
            return None;
        }
        all = end(next);
    }
    Some(match first.action {
        Action::Output(n) => n.to_string(),
        Action::Drop => "X".to_string(),
    })
}

/// The rules as understood, one a line, and the size of what is searched.
fn program(f: &Filter) -> String {
    let mut s = String::new();
    if let Some(to) = alike(f) {
        // Click's words where all packets are treated alike
        return format!("all->[{to}]\nsafe length 0\nalignment offset 0\n");
    }
    for (i, r) in f.rules().iter().enumerate() {
        let action = match r.action {
            Action::Output(n) => format!("[{n}]"),
            Action::Drop => "[X]".to_string(),
        };
        let _ = writeln!(s, "{i:2} {}  yes->{action}", r.expr);
    }
    let (boxes, nodes, leaves) = f.sizes();
    let _ = writeln!(
        s,
        "{} rules, {boxes} boxes; search tree: {nodes} nodes, {leaves} boxes",
        f.rules().len()
    );
    s
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_element::NameDb;
    use onefold_packet::Packet;

    fn udp(dst: [u8; 4], dport: u16) -> Box<Packet> {
        let mut b = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1];
        b.extend(dst);
        b.extend([0x30, 0x39]);
        b.extend(dport.to_be_bytes());
        b.extend([0, 8, 0, 0]);
        let mut p = Box::new(Packet::from_slice(&b));
        p.set_network_header(0, 20);
        p
    }

    #[test]
    fn actions_and_trace() {
        let config = "allow dst port 53, deny dst net 10.1.0.0/16, 1 udp";
        let mut b = Bench::new("IPFilter", config, 1, 2).unwrap();
        let out = b.push_packet(0, udp([10, 1, 0, 1], 53));
        assert_eq!(out[0].0, 0);
        assert!(b.push_packet(0, udp([10, 1, 0, 1], 54)).is_empty());
        assert_eq!(b.push_packet(0, udp([10, 2, 0, 1], 54))[0].0, 1);
        let mut icmp = udp([10, 2, 0, 1], 0);
        icmp.data_mut()[9] = 1;
        assert!(b.push_packet(0, icmp).is_empty());
        assert!(b.push(0, &[0; 40]).is_empty());
        let drops: Vec<(&str, u64)> = b.drops().into_iter().collect();
        assert_eq!(
            drops,
            [
                ("IPFilter: denied", 1),
                ("IPFilter: no IP header", 1),
                ("IPFilter: no rule matches", 1)
            ]
        );
        let args: Vec<Option<usize>> = b.host.decisions.iter().map(|d| d.0).collect();
        assert_eq!(args, [Some(0), Some(1), Some(2), None]);
        assert_eq!(b.host.decisions[1].1, "dst net 10.1.0.0/16 -> drop");
        // what has no IP header was not for the rules to decide
        let counts = "0 1 28\n1 1 28\n2 1 28\npolicy 1 28\n";
        assert_eq!(b.read("rule_counts").unwrap(), counts);
        assert!(
            b.read("program")
                .unwrap()
                .starts_with(" 0 dst port == 53  yes->[0]\n")
        );
    }

    #[test]
    fn classifier_patterns_can_be_changed() {
        let mut names = NameDb::default();
        names.define("", "server").ip4 = Some([10, 9, 9, 9]);
        let mut b =
            Bench::with_names("IPClassifier", "dst server, \"udp\", -", 1, 3, &names).unwrap();
        assert_eq!(b.push_packet(0, udp([10, 9, 9, 9], 1))[0].0, 0);
        assert_eq!(b.push_packet(0, udp([10, 9, 9, 8], 1))[0].0, 1);
        assert_eq!(b.read("pattern0").unwrap(), "dst server");
        b.write("pattern1", "tcp or src server").unwrap();
        assert_eq!(b.push_packet(0, udp([10, 9, 9, 8], 1))[0].0, 2);
        assert!(b.write("pattern1", "tcq").is_err());
        assert!(b.write("pattern3", "tcp").is_err());
        assert_eq!(b.read("pattern1").unwrap(), "tcp or src server");
        let names: Vec<&str> = b.element.handlers().iter().map(|h| h.name).collect();
        let patterns = ["pattern0", "pattern1", "pattern2"];
        assert_eq!(names[..2], ["program", "rule_counts"]);
        assert_eq!(names[2..], patterns);
    }

    #[test]
    fn ip6_classifier() {
        let mut d = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        d.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        d.extend([0x3f, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        d.extend([0, 53, 0, 99, 0, 8, 0, 0]);
        let marked = |d: &[u8]| {
            let mut p = Box::new(Packet::from_slice(d));
            p.set_network_header(0, 40);
            p
        };
        let c = "src net 2001:db8:1::/48, src net 2001:db8::/32 && tcp, dst port 99, -";
        let mut b = Bench::new("IP6Classifier", c, 1, 4).unwrap();
        assert_eq!(b.push_packet(0, marked(&d))[0].0, 2);
        d[13] = 1;
        assert_eq!(b.push_packet(0, marked(&d))[0].0, 0);
        assert_eq!(b.host.decisions[1].0, Some(0));
        d[6] = 58;
        d[9] = 9;
        assert_eq!(b.push_packet(0, marked(&d))[0].0, 3);
        for n in 0..40 {
            assert!(b.push_packet(0, marked(&d[..n])).is_empty());
        }
        let reason = "IP6Classifier: no IPv6 header that can be followed";
        assert_eq!(b.drops()[reason], 40);
        let e = Bench::new("IP6Classifier", "src 10.0.0.1", 1, 1)
            .err()
            .unwrap();
        assert!(e[0].starts_with("pattern 0: "), "{e:?}");
    }

    #[test]
    fn all_errors_with_their_arguments() {
        let e = Bench::new(
            "IPFilter",
            "allow tcp prt 80, deny, 3 all, permit all, allow src 1.2.3.4 && dst 2.3.4.5 && port 70000",
            1,
            1,
        );
        assert_eq!(
            e.err().unwrap(),
            [
                "pattern 0: unknown word 'prt'",
                "pattern 2: output 3 out of range, the element has 1",
                "pattern 3: unknown action 'permit', expected allow, deny, drop or an output number",
                "pattern 4: 'port': 70000 out of range, 0 to 65535 (character 37)",
            ]
        );
        let e = Bench::new("IPClassifier", "tcp, udp", 1, 3).err().unwrap();
        assert_eq!(e, ["need 3 arguments, one per output port; there are 2"]);
        let b = Bench::new("IPClassifier", "-, udp", 1, 2).unwrap();
        assert_eq!(b.warnings, ["output 1 matches no packets"]);
        assert!(Bench::new("IPFilter", "CACHING true, allow all", 1, 1).is_ok());
        assert!(Bench::new("IPFilter", "", 1, 0).is_ok());
    }
}
