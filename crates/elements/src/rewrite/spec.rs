//! Input specifications: what a rewriter does with a packet that no mapping matches.

use super::crowd::Search;
use super::flowid::FlowId;
use super::kind::Kind;
use super::mapper::Mapper;
use super::pattern::{Pattern, PatternRef, PatternSet, Replies};
use super::table::FlowTable;
use crate::ElemId;
use crate::args::{ArgScope, FromArg, split_words};
use crate::cx::{DropReason, Host};
use crate::reason::Reason;
use crate::store::{StateId, StateStore};

/// Classes whose elements may stand as an input specification.
pub(super) const MAPPER_CLASSES: [&str; 2] = ["RoundRobinIPMapper", "SourceIPHashMapper"];

/// What to do with a new flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputSpec {
    /// `drop [REASON]`.
    Drop(Option<DropReason>),
    /// `pass OUTPUT`.
    Pass(usize),
    /// `keep FOUTPUT ROUTPUT`.
    Keep(usize, usize),
    /// `pattern ... FOUTPUT ROUTPUT`.
    Pattern(PatternRef, usize, usize),
    /// `ELEMENT`.
    Mapper(ElemId),
}

/// An input specification's answer to a new flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Bind it to this flow; outputs of the two directions. No flow has such replies, if that has been asked.
    Map(FlowId, (usize, usize), bool),
    /// Out at this port, no binding.
    Pass(usize),
    /// Away with it.
    Drop,
    /// No variation is free.
    NoRoom,
}

/// What a specification may refer to.
pub(super) struct SpecScope<'a> {
    pub args: ArgScope<'a>,
    pub classes: &'a [String],
    pub noutputs: usize,
    /// All sets of named patterns.
    pub named: &'a [StateId],
    /// Where patterns without a name go.
    pub set: StateId,
}

/// A number as Click's `IntArg` takes it.
fn int(s: &str, scope: &ArgScope<'_>) -> Option<i64> {
    i64::from_arg(s, scope).ok()
}

/// The words of `PATTERN FOUTPUT ROUTPUT`, or `NAME FOUTPUT ROUTPUT`; the outputs are not checked.
pub(super) fn parse_pattern(
    words: &[&str],
    scope: &SpecScope<'_>,
    store: &mut StateStore,
) -> Result<(PatternRef, i64, i64), String> {
    let [head @ .., f, r] = words else {
        return Err("expected a pattern, then forward and reply output".into());
    };
    let (f, r) = parse_outputs(f, r, &scope.args)?;
    let p = match head {
        [] => return Err("expected a pattern before the outputs".into()),
        [name] => PatternSet::find(store, scope.named, scope.args.element, name)
            .ok_or_else(|| format!("no pattern named '{name}' in any IPRewriterPatterns"))?,
        words => {
            let p = Pattern::parse(words, &scope.args)?;
            PatternSet::add(store, scope.set, p)
        }
    };
    Ok((p, f, r))
}

fn parse_outputs(f: &str, r: &str, scope: &ArgScope<'_>) -> Result<(i64, i64), String> {
    let f = int(f, scope).ok_or_else(|| format!("bad forward output '{f}', expected a number"))?;
    let r = int(r, scope).ok_or_else(|| format!("bad reply output '{r}', expected a number"))?;
    Ok((f, r))
}

impl InputSpec {
    /// Reads a specification; `Err` says what is wrong with it.
    pub(super) fn parse(
        text: &str,
        scope: &SpecScope<'_>,
        store: &mut StateStore,
    ) -> Result<InputSpec, String> {
        let words = split_words(text);
        let Some((first, rest)) = words.split_first() else {
            return Err("empty input specification; expected drop, pass, keep, pattern or an element's name".into());
        };
        let check = |o: i64| {
            usize::try_from(o)
                .ok()
                .filter(|o| *o < scope.noutputs)
                .ok_or_else(|| {
                    format!(
                        "output {o} out of range, {} outputs are connected",
                        scope.noutputs
                    )
                })
        };
        match *first {
            "drop" | "discard" => match rest {
                [] => Ok(InputSpec::Drop(None)),
                [text] if text.starts_with('"') => {
                    let reason = Reason::from_arg(text, &scope.args).map_err(|why| {
                        why.unwrap_or_else(|| format!("expected {} after '{first}'", Reason::WANTS))
                    })?;
                    Ok(InputSpec::Drop(Some(reason.0)))
                }
                _ => Err(format!(
                    "expected nothing after '{first}', or a reason in quotes"
                )),
            },
            "pass" | "passthrough" | "nochange" => match rest {
                [] => Ok(InputSpec::Pass(check(0)?)),
                [o] => {
                    let o = int(o, &scope.args)
                        .ok_or_else(|| format!("expected '{first} [OUTPUT]', found '{o}'"))?;
                    Ok(InputSpec::Pass(check(o)?))
                }
                _ => Err(format!("expected '{first} [OUTPUT]'")),
            },
            "keep" => match rest {
                [f, r] => {
                    let (f, r) = parse_outputs(f, r, &scope.args)?;
                    Ok(InputSpec::Keep(check(f)?, check(r)?))
                }
                _ => Err("expected 'keep FOUTPUT ROUTPUT'".into()),
            },
            "pattern" | "xpattern" => {
                let (p, f, r) = parse_pattern(rest, scope, store)?;
                Ok(InputSpec::Pattern(p, check(f)?, check(r)?))
            }
            name => {
                let found =
                    crate::element::find_element(scope.args.elements, scope.args.element, name);
                let Some(e) = found else {
                    return Err(format!(
                        "unknown specification '{name}'; expected drop, pass, keep, pattern or an element's name"
                    ));
                };
                let class = scope.classes.get(e.0 as usize).map_or("", String::as_str);
                if !MAPPER_CLASSES.contains(&class) {
                    return Err(format!("element '{name}' ({class}) is not a mapper"));
                }
                if !rest.is_empty() {
                    return Err(format!("expected nothing after the mapper '{name}'"));
                }
                Ok(InputSpec::Mapper(e))
            }
        }
    }

    /// What happens to a new flow that arrives at an input with this specification.
    pub(super) fn decide(
        self,
        flow: FlowId,
        table: StateId,
        map: u16,
        elem: ElemId,
        store: &mut StateStore,
        host: &mut dyn Host,
    ) -> Verdict {
        match self {
            InputSpec::Drop(_) => Verdict::Drop,
            InputSpec::Pass(o) => Verdict::Pass(o),
            InputSpec::Keep(f, r) => {
                let t = store.get::<FlowTable>(table);
                match t.and_then(|t| t.member_of(map).map(|m| (t, m))) {
                    Some((t, m)) if !m.take_over => {
                        match t.taken(map, m.kind == Kind::Ping, &flow.reversed()) {
                            true => Verdict::NoRoom,
                            false => Verdict::Map(flow, (f, r), true),
                        }
                    }
                    _ => Verdict::Map(flow, (f, r), false),
                }
            }
            InputSpec::Pattern(p, f, r) => {
                match apply_pattern(p, flow, table, map, elem, store, host) {
                    Some((to, free)) => Verdict::Map(to, (f, r), free),
                    None => Verdict::NoRoom,
                }
            }
            InputSpec::Mapper(m) => Mapper::decide(m, flow, table, map, elem, store, host),
        }
    }
}

/// Rewrites a flow by a pattern; the pattern remembers what it has chosen. And whether it has found out that no flow has such replies.
pub(super) fn apply_pattern(
    at: PatternRef,
    flow: FlowId,
    table: StateId,
    map: u16,
    elem: ElemId,
    store: &mut StateStore,
    host: &mut dyn Host,
) -> Option<(FlowId, bool)> {
    let (set, t) = store.get_two_mut::<PatternSet, FlowTable>(at.set, table)?;
    let p = set.patterns.get_mut(at.index)?;
    // a ping's reply is known by what the new identifier becomes at the other end, not by what the old one did
    let member = t.member_of(map);
    let ping = member.is_some_and(|m| m.kind == Kind::Ping);
    let take_over = member.is_none_or(|m| m.take_over);
    let asks = p.top != 0 || !take_over;
    let mut replies = InTable {
        t,
        map,
        ping,
        take_over,
        free: None,
    };
    let to = p.rewrite(flow, &mut replies, || host.random(elem))?;
    Some((to, asks))
}

/// The replies of a table's flows.
pub(super) struct InTable<'a> {
    pub t: &'a mut FlowTable,
    pub map: u16,
    pub ping: bool,
    /// See [`super::record::Member`].
    pub take_over: bool,
    /// The hash of the replies that were asked about last, as they are looked up, if no flow has them.
    pub free: Option<u32>,
}

impl Replies for InTable<'_> {
    #[inline(always)]
    fn must_be_free(&self) -> bool {
        !self.take_over
    }
    #[inline(always)]
    fn taken(&mut self, reply: &FlowId) -> bool {
        self.free = self.t.free_key(self.map, self.ping, reply);
        self.free.is_none()
    }
    #[inline(always)]
    fn search(&mut self, s: &Search, from: u32) -> Option<u32> {
        self.free = None;
        self.t.search(self.map, self.ping, s, from)
    }
}
