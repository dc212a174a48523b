//! The operator's rules with their counters, as `iptables -L -v` shows them: `run --rules`, and `rules[]` in JSON.

use crate::common::thousands;
use crate::program;
use onefold_chain::{Chain, ListedRule, RulePlace};
use onefold_element::{ElemId, RuleCount, SourceLoc};
use onefold_engine::Graph;
use onefold_synth::Program;
use onefold_synth::program::Origin;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A rule of a list, with what it has decided.
#[derive(Clone)]
pub struct Row {
    /// Network function.
    pub nf: String,
    /// The list, within the function.
    pub element: String,
    /// Argument of its configuration; `None` where the list has no argument for packets that no rule fits.
    pub argument: Option<usize>,
    /// Further ones, where jumps lead to it more than once.
    pub repeated: Vec<usize>,
    /// Where it was written.
    pub loc: SourceLoc,
    /// As it was written.
    pub text: Arc<str>,
    /// `allow`, `deny`, `alert`, `output 1`.
    pub verdict: String,
    /// It is what happens to packets that no rule fits.
    pub policy: bool,
    /// In rule sets with chains.
    pub place: Option<Arc<RulePlace>>,
    /// What it decided.
    pub count: RuleCount,
}

/// Classes whose arguments are rules, if the operator has written them into a Click configuration.
const LISTS: &[&str] = &[
    "Classifier",
    "IP6Classifier",
    "IP6Filter",
    "IPClassifier",
    "IPFilter",
    "PayloadFilter",
];

/// All rules of a chain, list by list, each list in its order and its policy last.
pub fn rows(chain: &Chain, graph: &mut Graph) -> Vec<Row> {
    let mut listed: HashMap<String, Vec<&ListedRule>> = HashMap::new();
    for f in &chain.functions {
        for r in &f.rules {
            let element = format!("{}/{}", f.name, r.element);
            listed.entry(element).or_default().push(r);
        }
    }
    let written = |nf: &str| {
        let f = chain.functions.iter().find(|f| f.name == nf);
        f.is_some_and(|f| f.kind == "click")
    };
    let mut all = Vec::new();
    for e in (0..graph.len() as u32).map(ElemId) {
        let name = graph.name(e).to_string();
        let (nf, element) = name.split_once('/').unwrap_or(("", &name));
        let rules = listed.get(&name);
        let own = LISTS.contains(&graph.class(e)) && written(nf);
        if rules.is_none() && !own {
            continue;
        }
        let Some(counters) = graph.rule_counters(e).cloned() else {
            continue;
        };
        let list = List {
            graph,
            elem: e,
            nf,
            element,
        };
        let count = |argument| counters.get(argument);
        match rules {
            Some(rules) => list.listed(rules, &count, &mut all),
            None => list.written(&count, &mut all),
        }
        if rules.is_none_or(|l| !l.iter().any(|r| r.policy)) {
            all.push(list.policy(count(None)));
        }
    }
    all
}

struct List<'a> {
    graph: &'a Graph,
    elem: ElemId,
    nf: &'a str,
    element: &'a str,
}

impl List<'_> {
    fn row(&self, argument: usize, text: Arc<str>, count: RuleCount) -> Row {
        let spec = self.graph.spec();
        let args = spec.elements.get(self.elem.0 as usize).map(|e| &e.args);
        let written = args.and_then(|a| a.get(argument)).map_or("", |a| a.trim());
        Row {
            nf: self.nf.to_string(),
            element: self.element.to_string(),
            argument: Some(argument),
            repeated: Vec::new(),
            loc: spec.arg_loc(self.elem.0 as usize, argument),
            text,
            verdict: verdict(self.graph.class(self.elem), argument, written),
            policy: false,
            place: None,
            count,
        }
    }

    /// Rules that a function of some kind has made of the operator's. What jumps have multiplied is one rule again.
    fn listed(
        &self,
        rules: &[&ListedRule],
        count: &dyn Fn(Option<usize>) -> RuleCount,
        all: &mut Vec<Row>,
    ) {
        let mut of: HashMap<&RulePlace, usize> = HashMap::new();
        for r in rules {
            let n = count(Some(r.argument));
            let place = r.place.as_deref().filter(|_| !r.policy);
            if let Some(row) = place.and_then(|p| all.get_mut(*of.get(p)?)) {
                row.count.add(n.packets, n.bytes);
                row.repeated.push(r.argument);
                continue;
            }
            if let Some(p) = place {
                of.insert(p, all.len());
            }
            all.push(Row {
                policy: r.policy,
                place: r.place.clone(),
                ..self.row(r.argument, r.text.clone(), n)
            });
        }
    }

    /// The arguments of an element that the operator has written.
    fn written(&self, count: &dyn Fn(Option<usize>) -> RuleCount, all: &mut Vec<Row>) {
        let element = self.graph.spec().elements.get(self.elem.0 as usize);
        for (i, text) in element.map_or(&[][..], |e| &e.args).iter().enumerate() {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            all.push(self.row(i, text.into(), count(Some(i))));
        }
    }

    /// What becomes of packets that no argument fits.
    fn policy(&self, count: RuleCount) -> Row {
        let passes = self.graph.class(self.elem) == "PayloadFilter";
        let element = self.graph.spec().elements.get(self.elem.0 as usize);
        Row {
            argument: None,
            loc: element.map_or_else(SourceLoc::default, |e| e.decl.clone()),
            verdict: if passes { "allow" } else { "deny" }.to_string(),
            policy: true,
            ..self.row(usize::MAX, "no rule fits".into(), count)
        }
    }
}

/// What a rule does that stands at this argument of a list.
pub fn verdict(class: &str, argument: usize, text: &str) -> String {
    let action = text.split_whitespace().next().unwrap_or("");
    match class {
        "Classifier" | "IPClassifier" | "IP6Classifier" => format!("output {argument}"),
        _ => match action {
            "drop" => "deny".to_string(),
            n if n.parse::<u32>().is_ok() => format!("output {n}"),
            word => word.to_string(),
        },
    }
}

/// The rules as `run --json` has them.
pub fn json(rows: &[Row]) -> Vec<serde_json::Value> {
    let one = |r: &Row| {
        let mut v = serde_json::json!({
            "nf": r.nf,
            "element": r.element,
            "argument": r.argument,
            "file": r.loc.file.as_ref(),
            "line": r.loc.line,
            "column": r.loc.column,
            "text": r.text.as_ref(),
            "verdict": r.verdict,
            "policy": r.policy,
            "packets": r.count.packets,
            "bytes": r.count.bytes,
        });
        if let (Some(p), Some(all)) = (&r.place, v.as_object_mut()) {
            all.insert("family".into(), p.family.as_str().into());
            all.insert("table".into(), p.table.as_str().into());
            all.insert("chain".into(), p.chain.as_str().into());
            if p.number > 0 {
                all.insert("number".into(), p.number.into());
            }
            if let Some(h) = p.handle {
                all.insert("handle".into(), h.into());
            }
        }
        v
    };
    rows.iter().map(one).collect()
}

/// The tables of `run --rules`: one for each list.
pub fn print(rows: &[Row]) {
    if rows.is_empty() {
        crate::say!("no rules: the chain has no list of rules of the operator's");
    }
    let list = |r: &Row| (r.nf.clone(), r.element.clone());
    for rows in rows.chunk_by(|a, b| list(a) == list(b)) {
        let Some(first) = rows.first() else { continue };
        let (all, used) = (
            rows.len(),
            rows.iter().filter(|r| r.count.packets > 0).count(),
        );
        crate::say!(
            "rules of {}/{}: {used} of {all} had packets",
            first.nf,
            first.element
        );
        crate::say!(
            "  {:>14} {:>17}  {:<8}  rule",
            "packets",
            "bytes",
            "verdict"
        );
        for r in rows {
            crate::say!(
                "  {:>14} {:>17}  {:<8}  {}{}  ({}:{})",
                thousands(r.count.packets),
                thousands(r.count.bytes),
                r.verdict,
                r.place.as_ref().map_or_else(String::new, |p| place(p)),
                r.text,
                r.loc.file,
                r.loc.line
            );
        }
    }
}

fn place(p: &RulePlace) -> String {
    let chain = format!("{} {} {}", p.family, p.table, p.chain);
    match (p.handle, p.number) {
        (_, 0) => format!("{}: ", chain.trim_start()),
        (Some(h), _) => format!("{} handle {h}: ", chain.trim_start()),
        (None, n) => format!("{} {n}: ", chain.trim_start()),
    }
}

/// What made a traffic class: how many of the operator's rules and others, and where all of its program rules come
/// from.
pub struct Made {
    /// Different arguments of elements that decided last, over its program rules.
    pub rules: usize,
    /// Elements and arguments that all of its program rules have in common.
    pub common: Vec<Origin>,
}

impl Made {
    /// In words: the rule where there is one, else how many.
    pub fn told(&self, g: &Graph) -> String {
        let one = self.common.iter().rev().find(|o| o.arg.is_some());
        match (self.rules, one) {
            (1, Some(o)) => format!(", by {}", program::origin(g, o)),
            (0 | 1, _) => String::new(),
            (n, _) => format!(", by {} rules", thousands(n as u64)),
        }
    }
}

/// Element and argument, of a rule that one decides.
type DecidedBy = Option<(u32, Option<u32>)>;

/// What made each class, by stage and action.
pub fn made(p: &Program) -> BTreeMap<(usize, usize), Made> {
    let mut all: BTreeMap<(usize, usize), (BTreeSet<DecidedBy>, Made)> = BTreeMap::new();
    let key = |o: &Origin| (o.elem.0, o.arg);
    for (i, s) in p.stages.iter().enumerate() {
        for r in &s.rules {
            let last = r.origin.iter().rev().find(|o| o.arg.is_some());
            let (seen, made) = all.entry((i, r.action.0 as usize)).or_insert_with(|| {
                let common = r.origin.clone();
                (BTreeSet::new(), Made { rules: 0, common })
            });
            seen.insert(last.map(key));
            made.common
                .retain(|c| r.origin.iter().any(|o| key(o) == key(c)));
        }
    }
    let count = |(k, (seen, made)): (_, (BTreeSet<_>, Made))| {
        let rules = seen.len();
        (k, Made { rules, ..made })
    };
    all.into_iter().map(count).collect()
}
