//! NotifierDebug (Click): says what the notifiers of queues say, for tests of configurations.
//!
//! Deliberate difference: queues are numbered in the order of the configuration; Click counts notifiers of other
//! elements, too.

use super::util::unknown;
use onefold_element::handler::{HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{Cx, Effect, Element, ElementClass, Port, element_any};
use onefold_packet::Pkt;
use std::collections::BTreeMap;

/// `NotifierDebug`.
pub const NOTIFIER_DEBUG: ElementClass = ElementClass {
    name: "NotifierDebug",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "",
    summary: "passes packets on; its handler says whether queues are empty, or full",
    new: || Box::new(NotifierDebug),
};

/// Notifiers that share a word.
const WORD: usize = 32;

#[derive(Debug, Clone)]
struct NotifierDebug;

/// `empty.0/5:4*+empty.1/1:0`: by word of notifiers, which are meant, and which of these are active.
fn unparse(kind: &str, notifiers: &[(usize, bool)]) -> String {
    let mut words: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
    for (n, active) in notifiers {
        let (mask, set) = words.entry(n / WORD).or_default();
        let bit = 1 << (n % WORD);
        *mask |= bit;
        *set |= if *active { bit } else { 0 };
    }
    let one = |(word, (mask, set)): (&usize, &(u32, u32))| {
        let star = if *set != 0 { "*" } else { "" };
        format!("{kind}.{word}/{mask:x}:{set:x}{star}")
    };
    let all: Vec<String> = words.iter().map(one).collect();
    all.join("+")
}

impl Element for NotifierDebug {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([])
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        cx.pull(0)
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("signal")];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        if name != "signal" {
            return unknown(name);
        }
        let queues = cx.host.upstream_queues(cx.elem);
        Ok(match queues.is_empty() {
            // packets are pushed: is there room below?
            true => unparse("full", &[(0, !cx.downstream_full(0))]),
            false => unparse("empty", &queues),
        })
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::unparse;

    #[test]
    fn signals_by_word() {
        assert_eq!(unparse("empty", &[(1, false)]), "empty.0/2:0");
        let some = [(0, true), (2, false), (33, false), (40, true)];
        assert_eq!(unparse("empty", &some), "empty.0/5:1*+empty.1/102:100*");
        assert_eq!(unparse("full", &[(0, true)]), "full.0/1:1*");
        assert_eq!(unparse("empty", &[]), "");
    }
}
