//! Handlers of the rewriters: Click's names and texts. Tables are sorted by flow (Click's order is its hash table's).

use super::mapper::read_server;
use super::rewriter::Rewriter;
use super::spec::{SpecScope, parse};
use crate::flows_to::part_text;
use onefold_element::Cx;
use onefold_element::args::{ArgScope, FromArg, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_nat::{FlowId, FlowTable, InputSpec, Mapper, PatternSet, Record, RewriterKind};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::OnceLock;

/// Inputs whose pattern has a handler of its own.
const LISTED: usize = 64;

#[rustfmt::skip]
const PATTERNS: [&str; LISTED] = [
    "pattern0", "pattern1", "pattern2", "pattern3", "pattern4", "pattern5", "pattern6", "pattern7",
    "pattern8", "pattern9", "pattern10", "pattern11", "pattern12", "pattern13", "pattern14", "pattern15",
    "pattern16", "pattern17", "pattern18", "pattern19", "pattern20", "pattern21", "pattern22", "pattern23",
    "pattern24", "pattern25", "pattern26", "pattern27", "pattern28", "pattern29", "pattern30", "pattern31",
    "pattern32", "pattern33", "pattern34", "pattern35", "pattern36", "pattern37", "pattern38", "pattern39",
    "pattern40", "pattern41", "pattern42", "pattern43", "pattern44", "pattern45", "pattern46", "pattern47",
    "pattern48", "pattern49", "pattern50", "pattern51", "pattern52", "pattern53", "pattern54", "pattern55",
    "pattern56", "pattern57", "pattern58", "pattern59", "pattern60", "pattern61", "pattern62", "pattern63",
];

/// The handlers of a rewriter with so many inputs.
pub(super) fn list(kind: RewriterKind, ninputs: usize) -> &'static [HandlerInfo] {
    static LISTS: OnceLock<[Vec<HandlerInfo>; 3]> = OnceLock::new();
    let lists = LISTS.get_or_init(|| {
        let r = HandlerInfo::r;
        let full = |own: &[HandlerInfo]| {
            let mut v = own.to_vec();
            v.extend([
                r("table_size"),
                r("nmappings"),
                r("mapping_failures"),
                r("patterns"),
                r("size"),
                HandlerInfo::rw("capacity"),
                HandlerInfo::w("clear"),
                r("evictions"),
                HandlerInfo::rp("flows_to"),
            ]);
            v.extend(PATTERNS.map(HandlerInfo::rw));
            v
        };
        let tables = ["tcp_table", "udp_table", "tcp_mappings", "udp_mappings"].map(r);
        [
            full(&[&tables[..], &[HandlerInfo::rp("tcp_lookup")]].concat()),
            full(&[r("table"), r("mappings"), HandlerInfo::rp("lookup")]),
            full(&[r("table"), r("mappings")]),
        ]
    });
    let all = match kind {
        RewriterKind::Ip => &lists[0],
        RewriterKind::Tcp => &lists[1],
        _ => &lists[2],
    };
    let unlisted = LISTED - ninputs.min(LISTED);
    &all[..all.len() - unlisted]
}

fn no_such(name: &str) -> HandlerError {
    HandlerError::NoSuchHandler(name.to_string())
}

/// The input that `patternN` is about.
fn pattern_input(name: &str) -> Option<usize> {
    name.strip_prefix("pattern")?.parse().ok()
}

impl Rewriter {
    pub(super) fn read_handler(&self, name: &str, param: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let t = cx
            .store
            .get::<FlowTable>(self.handle.table)
            .ok_or_else(|| no_such(name))?;
        let m = t.member(self.handle.member).ok_or_else(|| no_such(name))?;
        let udp_map = self.handle.member * 2 + 1;
        let names = cx.names();
        Ok(match name {
            "table_size" | "nmappings" => m.inputs.iter().map(|c| c.flows).sum::<u32>().to_string(),
            "mapping_failures" => {
                let n = m
                    .inputs
                    .iter()
                    .fold(0u32, |n, c| n.wrapping_add(c.failures));
                n.to_string()
            }
            "size" => t.len().to_string(),
            "capacity" => t.capacity().to_string(),
            "evictions" => t.evictions().to_string(),
            "patterns" => {
                let lines = (0..m.specs.len()).filter_map(|i| self.pattern_text(i, cx));
                lines.collect()
            }
            "tcp_table" | "tcp_mappings" | "table" | "mappings" => {
                self.table_text(t, self.handle.member * 2, cx)
            }
            "udp_table" | "udp_mappings" => self.table_text(t, udp_map, cx),
            "flows_to" => self.flows_to(t, param, cx)?,
            "tcp_lookup" | "lookup" => self.lookup(t, param, &names.scope())?,
            _ => {
                let text = pattern_input(name).and_then(|i| self.pattern_text(i, cx));
                text.ok_or_else(|| no_such(name))?
            }
        })
    }

    /// `PATTERN [FLOWS]`.
    fn pattern_text(&self, input: usize, cx: &Cx<'_>) -> Option<String> {
        let t = cx.store.get::<FlowTable>(self.handle.table)?;
        let m = t.member(self.handle.member)?;
        let mut s = match m.specs.get(input)?.0 {
            InputSpec::Drop(_) => "<drop>".to_string(),
            InputSpec::Pass(_) => "<nochange>".to_string(),
            InputSpec::Keep(..) => "<keep>".to_string(),
            InputSpec::Mapper(_) => "<mapper>".to_string(),
            InputSpec::Mapped(..) => "<mapped>".to_string(),
            InputSpec::Pattern(p, ..) => PatternSet::get(cx.store, p)?.to_string(),
        };
        let n = m.inputs.get(input)?.flows;
        if n > 0 {
            // writing to a String cannot fail
            let _ = write!(s, " [{n}]");
        }
        s.push('\n');
        Some(s)
    }

    /// `FROM SERVER ...`: of a part of the table, from record number FROM on, how many flows go to each server
    /// (`ADDRESS`, `ADDRESS:PORT`). `NEXT FLOWS ... OTHER`: where the next part begins, 0 if that was the last one, the
    /// flows of each server, and those to other ones.
    fn flows_to(&self, t: &FlowTable, param: &str, cx: &Cx<'_>) -> HandlerResult {
        let now = u64::try_from(cx.now.nanos() / 1_000_000).unwrap_or(0);
        part_text(param, read_server, |from, counts| {
            t.count_destinations((self.handle.member, now), from, counts)
        })
    }

    fn table_text(&self, t: &FlowTable, map: u16, cx: &Cx<'_>) -> String {
        // Click counts in 32-bit milliseconds, so what should be gone already shows as a great number
        let now = (cx.now.nanos() / 1_000_000) as u32;
        let mut out = String::new();
        for (r, reply) in t.entries(map) {
            let exp = (t.expiry_ms(r) as u32).wrapping_add(500).wrapping_sub(now) / 1000;
            let (from, to) = (r.key(reply), r.rewritten(reply));
            let stars = if reply { ["", "*"] } else { ["*", ""] };
            // writing to a String cannot fail
            let _ = write!(out, "{}", self.flow_text(t, r, reply, from, to));
            let _ = writeln!(
                out,
                " [{}{} {}{}] i{} exp{exp}",
                stars[0],
                r.output(false),
                stars[1],
                r.output(true),
                r.origin()
            );
        }
        out
    }

    fn flow_text(
        &self,
        t: &FlowTable,
        r: &Record,
        reply: bool,
        from: FlowId,
        to: FlowId,
    ) -> String {
        let ip = Ipv4Addr::from;
        match self.kind {
            RewriterKind::Addr => format!("{} => {}", ip(from.saddr), ip(to.saddr)),
            RewriterKind::AddrPair => format!(
                "({}, {}) => ({}, {})",
                ip(from.saddr),
                ip(from.daddr),
                ip(to.saddr),
                ip(to.daddr)
            ),
            RewriterKind::Ping => format!(
                "({}, {}, {}) => ({}, {}, {})",
                ip(from.saddr),
                ip(from.daddr),
                from.sport,
                ip(to.saddr),
                ip(to.daddr),
                to.sport
            ),
            _ => {
                let shift = t.shifts(r).map_or(0, |s| s.current(reply));
                match shift {
                    0 => format!("{from} => {to}"),
                    n => format!("{from} => {to} seq {n:+}"),
                }
            }
        }
    }

    /// `SADDR SPORT DADDR DPORT` of a TCP flow, rewritten; nothing when there is no binding.
    fn lookup(&self, t: &FlowTable, param: &str, scope: &ArgScope<'_>) -> HandlerResult {
        let words = split_words(param);
        let read = || {
            let [s, sp, d, dp] = words[..] else {
                return None;
            };
            let ip = |s: &str| Ipv4Addr::from_arg(s, scope).ok().map(u32::from);
            let port = |s: &str| {
                onefold_element::args::IpPort::from_arg(s, scope)
                    .ok()
                    .map(|p| p.0)
            };
            Some(FlowId {
                saddr: ip(s)?,
                daddr: ip(d)?,
                sport: port(sp)?,
                dport: port(dp)?,
            })
        };
        let Some(flow) = read() else {
            return Err(HandlerError::BadValue(
                "lookup: expected 'SADDR SPORT DADDR DPORT'".to_string(),
            ));
        };
        let hit = t.lookup(self.handle.member * 2, &flow);
        let to = hit.and_then(|(i, reply)| Some(t.record(i)?.rewritten(reply)));
        Ok(to.map_or(String::new(), |to| {
            format!(
                "{} {} {} {}",
                Ipv4Addr::from(to.saddr),
                to.sport,
                Ipv4Addr::from(to.daddr),
                to.dport
            )
        }))
    }

    pub(super) fn write_handler(
        &mut self,
        name: &str,
        value: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), HandlerError> {
        let now = cx.now;
        let table = self.handle.table;
        let capacity = cx.value::<u32>(name, value);
        let t = cx
            .store
            .get_mut::<FlowTable>(table)
            .ok_or_else(|| no_such(name))?;
        match name {
            "capacity" => {
                let n = capacity
                    .ok()
                    .filter(|n| *n <= i32::MAX as u32)
                    .ok_or_else(|| {
                        HandlerError::BadValue(format!(
                            "capacity: expected a number of mappings, found '{value}'"
                        ))
                    })?;
                t.set_capacity(n);
                t.sweep(now);
                Ok(())
            }
            "clear" => {
                t.clear();
                Ok(())
            }
            _ => {
                let input = pattern_input(name).ok_or_else(|| no_such(name))?;
                self.write_pattern(input, value, cx)
            }
        }
    }

    /// Replaces an input's specification; the flows that the old one has made go.
    fn write_pattern(
        &mut self,
        input: usize,
        value: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), HandlerError> {
        let (table, member) = (self.handle.table, self.handle.member);
        let missing = || no_such(&format!("pattern{input}"));
        let m = |t: &FlowTable| t.member(member)?.specs.get(input).copied();
        let (old, argument) = cx
            .store
            .get::<FlowTable>(table)
            .and_then(m)
            .ok_or_else(missing)?;
        let words = split_words(value);
        let mapper = match words[..] {
            [word] => cx.host.find_element(cx.elem, word).filter(|e| {
                let id = cx.store.published_by(*e);
                id.is_some_and(|id| cx.store.get::<Mapper>(id).is_some())
            }),
            _ => None,
        };
        let mut spec = match mapper {
            Some(e) => InputSpec::Mapper(e),
            None => {
                let names = cx.names();
                let scope = SpecScope {
                    args: names.scope(),
                    classes: &[],
                    noutputs: cx.noutputs,
                    named: &self.named,
                    set: self.set,
                };
                parse(value, &scope, cx.store).map_err(HandlerError::BadValue)?
            }
        };
        // the new pattern takes the old one's place, so that writing again and again does not use more and more
        if let (InputSpec::Pattern(o, ..), InputSpec::Pattern(n, f, r)) = (old, spec)
            && o.set == self.set
            && n.set == self.set
            && let Some(s) = cx.store.get_mut::<PatternSet>(self.set)
            && let Some(p) = s.patterns.pop()
            && let Some(slot) = s.patterns.get_mut(o.index)
        {
            *slot = p;
            spec = InputSpec::Pattern(o, f, r);
        }
        let t = cx.store.get_mut::<FlowTable>(table).ok_or_else(missing)?;
        t.forget_input(member, input as u16);
        if let Some(m) = t.member_mut(member) {
            if let Some(s) = m.specs.get_mut(input) {
                *s = (spec, argument);
            }
            if let Some(c) = m.inputs.get_mut(input) {
                *c = Default::default();
            }
        }
        Ok(())
    }
}
