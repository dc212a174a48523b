//! Which lists of rules belong together: those of a function that the operator's rules became, one for each way, group
//! of connections and IP version, are one rule set, and a rule of it is odd where it is in all of them.

use crate::rules::{self, Row};
use onefold_chain::{Chain, ListedRule, RulePlace};
use onefold_element::{RuleCount, SourceLoc};
use onefold_engine::Graph;
use onefold_verify::answers::list::{self, List};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A list, and those with the same rules.
pub struct Element {
    /// Its element.
    pub name: String,
    /// Elements with the same rules.
    pub also: Vec<String>,
}

/// Lists of rules that are looked at together.
#[derive(Default)]
pub struct RuleSet {
    pub elements: Vec<Element>,
    /// All of them, each for all packets that it is looked at for.
    pub worlds: Vec<List>,
    /// By world: its element.
    pub of_world: Vec<usize>,
    /// The arguments of each rule, counted through all lists.
    pub rules: Vec<Vec<usize>>,
    /// The same of what happens to packets that no rule fits.
    pub policies: Vec<Vec<usize>>,
    /// Which elements have a line of which argument.
    pub lines: BTreeSet<(usize, usize)>,
    /// What stands at an argument.
    pub rows: BTreeMap<usize, Row>,
    /// The first argument of rules of which nothing can be said, as lists that have them cannot be looked at.
    pub open: BTreeSet<usize>,
    /// Those lists, and why.
    pub refused: Vec<(String, String)>,
}

/// What makes a rule the same in two lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// Its place, and whether it is what is said of all others.
    Place(Arc<RulePlace>, bool),
    /// Where it is written, and how many with the same text stand there before it.
    Written(Arc<str>, u32, Arc<str>, u32),
}

/// The keys of a list's rules, in their order.
fn keys(rules: &[&ListedRule], loc: impl Fn(usize) -> SourceLoc) -> Vec<Key> {
    let mut seen: HashMap<(Arc<str>, u32, Arc<str>), u32> = HashMap::new();
    let mut key = |r: &&ListedRule| match &r.place {
        Some(p) => Key::Place(p.clone(), r.policy),
        None => {
            let at = loc(r.argument);
            let file: Arc<str> = at.file.as_ref().into();
            let n = seen
                .entry((file.clone(), at.line, r.text.clone()))
                .or_default();
            *n += 1;
            Key::Written(file, at.line, r.text.clone(), *n)
        }
    };
    rules.iter().map(&mut key).collect()
}

/// Rules that became a function's lists, list by list.
fn by_element(rules: &[ListedRule]) -> Vec<(&str, Vec<&ListedRule>)> {
    let mut all: Vec<(&str, Vec<&ListedRule>)> = Vec::new();
    let mut at: HashMap<&str, usize> = HashMap::new();
    for r in rules {
        let n = *at.entry(&r.element).or_insert(all.len());
        match all.get_mut(n) {
            Some((_, list)) => list.push(r),
            None => all.push((&r.element, vec![r])),
        }
    }
    all
}

/// The rule sets of a chain: of its functions, as `whole` has them, and the lists of its Click configurations.
pub fn all(chain: &Chain, whole: &Chain, graph: &mut Graph) -> Vec<RuleSet> {
    let mut out = Vec::new();
    for f in whole.functions.iter().filter(|f| !f.rules.is_empty()) {
        out.push(Gather::new(chain, whole, &f.name).all(&f.rules));
    }
    let listed = |nf: &str| {
        let f = whole.functions.iter().find(|f| f.name == nf);
        f.is_some_and(|f| !f.rules.is_empty())
    };
    let rows: Vec<Row> = rules::rows(chain, graph);
    let mut same: HashMap<(String, Vec<String>), usize> = HashMap::new();
    let list = |r: &Row| (r.nf.clone(), r.element.clone());
    for rows in rows.chunk_by(|a, b| list(a) == list(b)) {
        let Some(first) = rows.first().filter(|r| !listed(&r.nf)) else {
            continue;
        };
        let name = format!("{}/{}", first.nf, first.element);
        let Some((at, e)) = chain
            .graph
            .find(&name)
            .and_then(|at| Some((at, chain.graph.elements.get(at)?)))
        else {
            continue;
        };
        // lists with the same arguments are looked at once
        let key = (format!("{} {}", first.nf, e.class), e.args.clone());
        if let Some(set) = same.get(&key).and_then(|n: &usize| out.get_mut(*n)) {
            if let Some(l) = set.elements.first_mut() {
                l.also.push(name);
            }
            continue;
        }
        let mut set = RuleSet::default();
        set.add_list(&name, list::of_element(&chain.graph, at), 0);
        let own = rows.iter().filter(|r| !r.policy);
        set.rules = own.filter_map(|r| Some(vec![r.argument?])).collect();
        for r in rows {
            if let Some(a) = r.argument {
                set.rows.insert(a, r.clone());
            }
        }
        same.insert(key, out.len());
        out.push(set);
    }
    out.retain(|s| !s.rules.is_empty());
    out
}

impl RuleSet {
    /// Adds a list whose arguments are counted from `base`.
    fn add_list(&mut self, name: &str, worlds: Result<Vec<List>, list::ListError>, base: usize) {
        match worlds {
            Err(e) => self.refused.push((name.to_string(), e.to_string())),
            Ok(worlds) => {
                for mut w in worlds {
                    for l in &mut w.lines {
                        l.argument = l.argument.map(|a| a + base);
                    }
                    let n = self.elements.len();
                    let all = w.lines.iter().filter_map(|l| l.argument);
                    self.lines.extend(all.map(|a| (n, a)));
                    self.worlds.push(w);
                    self.of_world.push(self.elements.len());
                }
                self.elements.push(Element {
                    name: name.to_string(),
                    also: Vec::new(),
                });
            }
        }
    }
}

/// A function's lists, being put together.
struct Gather<'a> {
    chain: &'a Chain,
    whole: &'a Chain,
    nf: &'a str,
    set: RuleSet,
    /// Arguments counted so far.
    base: usize,
    /// By key, and whether it is a policy: which one of those or of the rules.
    of: HashMap<(Key, bool), usize>,
}

impl<'a> Gather<'a> {
    fn new(chain: &'a Chain, whole: &'a Chain, nf: &'a str) -> Gather<'a> {
        Gather {
            chain,
            whole,
            nf,
            set: RuleSet::default(),
            base: 0,
            of: HashMap::new(),
        }
    }

    fn all(mut self, rules: &[ListedRule]) -> RuleSet {
        let (chain, whole) = (self.chain, self.whole);
        let own = chain.functions.iter().find(|f| f.name == self.nf);
        let own: HashMap<&str, Vec<&ListedRule>> =
            by_element(own.map_or(&[][..], |f| &f.rules[..]))
                .into_iter()
                .collect();
        type Same = (String, Vec<String>, Vec<Key>);
        let mut same: HashMap<Same, usize> = HashMap::new();
        for (element, rules) in by_element(rules) {
            let name = format!("{}/{element}", self.nf);
            let graph = &whole.graph;
            let Some(at) = graph.find(&name) else {
                continue;
            };
            let Some(e) = graph.elements.get(at) else {
                continue;
            };
            let keys = keys(&rules, |a| graph.arg_loc(at, a));
            let alike = (e.class.clone(), e.args.clone(), keys.clone());
            if let Some(l) = same.get(&alike).and_then(|n| self.set.elements.get_mut(*n)) {
                l.also.push(name);
                continue;
            }
            // where the chain that is executed has the rule, if it has it
            let known = own.get(element).map_or(&[][..], Vec::as_slice);
            let there = chain.graph.find(&name);
            let place = |a: usize| there.map(|at| chain.graph.arg_loc(at, a));
            let executed = keys_of(known, |a| place(a).unwrap_or_default());
            let worlds = list::of_element(graph, at);
            let refused = worlds.is_err();
            if !refused {
                same.insert(alike, self.set.elements.len());
            }
            self.set.add_list(&name, worlds, self.base);
            for (r, key) in rules.iter().zip(keys) {
                let row = Row {
                    nf: self.nf.to_string(),
                    element: element.to_string(),
                    argument: executed.get(&key).copied(),
                    repeated: Vec::new(),
                    loc: graph.arg_loc(at, r.argument),
                    text: r.text.clone(),
                    verdict: rules::verdict(
                        &e.class,
                        r.argument,
                        e.args.get(r.argument).map_or("", |a| a.trim()),
                    ),
                    policy: r.policy,
                    place: r.place.clone(),
                    count: RuleCount::default(),
                };
                self.add((*r, key), row, refused);
            }
            self.base += e.args.len();
        }
        self.set
    }

    fn add(&mut self, (r, key): (&ListedRule, Key), row: Row, refused: bool) {
        let all = match r.policy {
            true => &mut self.set.policies,
            false => &mut self.set.rules,
        };
        let n = *self.of.entry((key, r.policy)).or_insert(all.len());
        let argument = self.base + r.argument;
        if n == all.len() {
            all.push(Vec::new());
        }
        if let Some(list) = all.get_mut(n) {
            list.push(argument);
            if refused {
                self.set.open.extend(list.first());
            }
        }
        self.set.rows.insert(argument, row);
    }
}

/// The arguments of a list's rules, by key; of what jumps have multiplied the first one.
fn keys_of(rules: &[&ListedRule], loc: impl Fn(usize) -> SourceLoc) -> HashMap<Key, usize> {
    let mut all = HashMap::new();
    for (key, r) in keys(rules, loc).into_iter().zip(rules) {
        all.entry(key).or_insert(r.argument);
    }
    all
}
