//! Which packets filters are about, in a few words: by protocol, each field with all values that any of the filters
//! allows. It says no less than the filters do: what is told of a field holds for each of them.

use crate::explain::Explained;
use onefold_element::model::ValueSet;
use onefold_synth::program::{Dim, Filter};
use onefold_synth::text::Words;
use std::collections::BTreeMap;

/// Kinds of packets that are told apart.
const KINDS: usize = 8;
/// More ranges of a field than these are told as one.
const RANGES: usize = 3;
/// More ranges of a field than these are kept as one.
const KEPT: usize = 256;
/// Fields whose conditions say that a packet is sound, or what every packet for this chain has.
const SOUND: &[&str] = &[
    "len",
    "eth.dst",
    "ip.version",
    "ip.ihl",
    "ip.len",
    "ip.flags",
    "ip.fragoff",
    "ip.ttl",
    "ip6.version",
    "ip6.len",
    "ip6.hlim",
    "tcp.flags",
];

/// A field's values.
struct Values {
    set: ValueSet,
    /// There were more ranges than are kept.
    many: bool,
}

/// Packets of one kind.
struct Kind {
    name: String,
    /// A filter that tells how fields are called: stage and rule.
    like: Filter,
    stage: usize,
    fields: BTreeMap<Dim, Values>,
}

/// See the module's text.
#[derive(Default)]
pub struct Among {
    kinds: Vec<Kind>,
    more: bool,
}

/// What kind of packet a filter is about, by its conditions on types and protocols.
fn kind(words: &Words<'_>, f: &Filter) -> (String, Vec<Dim>) {
    let (mut parts, mut dims) = (Vec::new(), Vec::new());
    for (d, set) in &f.0 {
        let name = words.dim_name(*d);
        let told = match (name.as_str(), set.single()) {
            ("eth.type" | "vlan.type", Some(0x0800)) => "IPv4",
            ("eth.type" | "vlan.type", Some(0x86dd)) => "IPv6",
            ("eth.type" | "vlan.type", Some(0x0806)) => "ARP",
            ("eth.type", Some(0x8100)) => "VLAN",
            ("ip.proto" | "ip6.next", Some(6)) => "TCP",
            ("ip.proto" | "ip6.next", Some(17)) => "UDP",
            ("ip.proto", Some(1)) => "ICMP",
            ("ip6.next", Some(58)) => "ICMPv6",
            _ => continue,
        };
        parts.push(told);
        dims.push(*d);
    }
    match parts.is_empty() {
        true => ("packets".to_string(), dims),
        false => (parts.join(" "), dims),
    }
}

/// A set of one range from the least to the greatest value.
fn hull(s: &ValueSet) -> ValueSet {
    let (first, last) = (s.intervals().first(), s.intervals().last());
    match (first, last) {
        (Some((lo, _)), Some((_, hi))) => ValueSet::range(*lo, *hi),
        _ => s.clone(),
    }
}

impl Among {
    /// A filter more.
    pub fn add(&mut self, x: &Explained<'_>, stage: usize, rule: usize) {
        let Some(s) = x.program.stages.get(stage) else {
            return;
        };
        let Some(r) = s.rules.get(rule) else { return };
        let words = Words::for_stage(x.program, s)
            .with(&s.known)
            .with(&r.filter);
        let (name, told) = kind(&words, &r.filter);
        let shows = |d: &Dim| {
            let name = words.dim_name(*d);
            let sound = SOUND.contains(&name.as_str()) || name.starts_with('@');
            matches!(d, Dim::Bits { .. }) && !sound && !told.contains(d)
        };
        let Some(kind) = self.kinds.iter_mut().find(|k| k.name == name) else {
            if self.kinds.len() >= KINDS {
                self.more = true;
                return;
            }
            let conditions = r.filter.0.iter().filter(|(d, _)| shows(d));
            let fields = conditions.map(|(d, set)| {
                let (set, many) = (set.clone(), false);
                (*d, Values { set, many })
            });
            let fields = fields.collect();
            let like = r.filter.clone();
            self.kinds.push(Kind {
                name,
                like,
                stage,
                fields,
            });
            return;
        };
        // what one of them does not ask for may have any value
        kind.fields.retain(|d, v| {
            let Some(more) = r.filter.get(*d) else {
                return false;
            };
            v.set = v.set.union(more);
            if v.set.intervals().len() > KEPT {
                (v.set, v.many) = (hull(&v.set), true);
            }
            true
        });
    }

    /// In words, a line for each kind.
    pub fn told(&self, x: &Explained<'_>) -> Vec<String> {
        let one = |k: &Kind| {
            let stage = x.program.stages.get(k.stage);
            let words = stage.map(|s| Words::for_stage(x.program, s).with(&s.known).with(&k.like));
            let field = |(d, v): (&Dim, &Values)| {
                let words = words.as_ref()?;
                let n = v.set.intervals().len();
                Some(match v.many || n > RANGES {
                    false => words.condition(*d, &v.set),
                    true => {
                        let whole = words.condition(*d, &hull(&v.set));
                        let n = if v.many { KEPT } else { n };
                        let or_more = if v.many { "more than " } else { "" };
                        format!("{whole} ({or_more}{n} ranges)")
                    }
                })
            };
            let fields: Vec<String> = k.fields.iter().filter_map(field).collect();
            match fields.is_empty() {
                true => k.name.clone(),
                false => format!("{}: {}", k.name, fields.join(", ")),
            }
        };
        let mut all: Vec<String> = self.kinds.iter().map(one).collect();
        if self.more {
            all.push("other kinds of packets".to_string());
        }
        all
    }
}
