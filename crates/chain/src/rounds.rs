//! Loops between functions. Packets can turn back within a function (a translator takes what comes from outside for a
//! packet of a flow from inside, if it looks like one); where they can do so at both ends of a row of links, they can
//! go round for ever. A [`LoopGuard`] stands behind one turn of each such loop, unless every way round counts a hop
//! down.
//!
//! [`LoopGuard`]: onefold_elements::standard

use onefold_element::flow::flows;
use onefold_element::{ConnectionSpec, ElementSpec, GraphSpec};
use onefold_elements::lookup;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A link of a stitched chain, one way.
#[derive(Debug)]
pub(crate) struct LinkEnds {
    /// Function and port that it leads from, by number.
    pub from: (usize, usize),
    /// Function and port that it leads to.
    pub to: (usize, usize),
    /// Its NFLinks.
    pub sinks: Vec<usize>,
    /// The inputs that it leads to.
    pub entries: Vec<(usize, usize)>,
}

/// What leaves these elements at output 0 does not come there again and again: a hop has been counted down, or it is an
/// answer, which they do not answer. Only if they have no arguments that say otherwise.
const DECREMENTS: [&str; 2] = ["DecIPTTL", "DecIP6HLIM"];
const ANSWERS: [&str; 6] = [
    "ARPResponder",
    "ICMP6Error",
    "ICMP6PingResponder",
    "ICMPError",
    "ICMPPingResponder",
    "IP6NDAdvertiser",
];

/// Two links, one behind the other: a way through a function.
type Way = (usize, usize);

/// Puts the guards into a stitched graph.
pub(crate) fn guard(graph: &mut GraphSpec, links: &[LinkEnds]) {
    let back = |l: &LinkEnds| links.iter().any(|o| o.from == l.to && o.to == l.from);
    // functions alone make no loop, only ways back do
    if !links.iter().any(back) {
        return;
    }
    let ways = ways(graph, links);
    let loops = in_loops(links.len(), &ways);
    if loops.is_empty() {
        return;
    }
    let cut = cut(links, &ways);
    // a mark for every link that guards must know packets by
    let mut used: HashMap<usize, usize> = HashMap::new();
    let mut marks: BTreeMap<usize, usize> = BTreeMap::new();
    for (from, _) in &cut {
        marks.entry(*from).or_insert_with(|| {
            let n = used.entry(links[*from].to.0).or_default();
            // more than fit have the last one together: then some are counted that do not turn
            *n = (*n + 1).min(usize::from(u8::MAX));
            *n
        });
    }
    let mut guards: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, to) in &cut {
        guards.entry(*to).or_default().insert(marks[from]);
    }
    for l in loops
        .iter()
        .flat_map(|(a, b)| [*a, *b])
        .collect::<BTreeSet<_>>()
    {
        for s in &links[l].sinks {
            let args = &mut graph.elements[*s].args;
            args.push("KEEP_ROUNDS true".into());
            args.extend(marks.get(&l).map(|m| format!("MARK {m}")));
        }
    }
    put(graph, links, &guards);
}

/// The guards in front of their links.
fn put(graph: &mut GraphSpec, links: &[LinkEnds], guards: &BTreeMap<usize, BTreeSet<usize>>) {
    let names = graph.elements.iter().map(|e| e.name.clone());
    let mut names: BTreeSet<String> = names.collect();
    // guard by NFLink
    let mut placed: HashMap<usize, usize> = HashMap::new();
    for (l, marks) in guards {
        let marks: Vec<String> = marks.iter().map(usize::to_string).collect();
        for s in &links[*l].sinks {
            let sink = &graph.elements[*s];
            let mut name = format!("{}_loop", sink.name);
            while !names.insert(name.clone()) {
                name.push('_');
            }
            let decl = sink.decl.clone();
            placed.insert(*s, graph.elements.len());
            graph.elements.push(ElementSpec {
                name,
                class: "LoopGuard".into(),
                args: vec![format!("FROM {}", marks.join(" "))],
                decl,
                ..Default::default()
            });
        }
    }
    for c in &mut graph.connections {
        if let Some(g) = placed.get(&c.to.0) {
            c.to = (*g, 0);
        }
    }
    let mut placed: Vec<(usize, usize)> = placed.into_iter().collect();
    placed.sort_unstable();
    graph
        .connections
        .extend(placed.into_iter().map(|(s, g)| ConnectionSpec {
            from: (g, 0),
            to: (s, 0),
            loc: graph.elements[s].decl.clone(),
        }));
}

/// All ways from a link through a function to another one that count no hop down.
fn ways(graph: &GraphSpec, links: &[LinkEnds]) -> BTreeSet<Way> {
    let mut next: Vec<Vec<(usize, (usize, usize))>> = vec![Vec::new(); graph.elements.len()];
    for c in &graph.connections {
        next[c.from.0].push((c.from.1, c.to));
    }
    let sinks = links.iter().enumerate();
    let link_of: HashMap<usize, usize> = sinks
        .flat_map(|(n, l)| l.sinks.iter().map(move |s| (*s, n)))
        .collect();
    let mut found = BTreeSet::new();
    for (n, l) in links.iter().enumerate() {
        let mut todo = l.entries.clone();
        let mut seen: BTreeSet<(usize, usize)> = todo.iter().copied().collect();
        // Bound: each input of the function once.
        while let Some((e, input)) = todo.pop() {
            if let Some(m) = link_of.get(&e) {
                found.insert((n, *m));
                continue;
            }
            let spec = &graph.elements[e];
            let code = lookup(&spec.class).map_or("x/x", |c| c.flow);
            for (output, to) in &next[e] {
                let goes = flows(code, input, *output) && !(*output == 0 && ends(spec));
                if goes && seen.insert(*to) {
                    todo.push(*to);
                }
            }
        }
    }
    found
}

fn ends(e: &ElementSpec) -> bool {
    let class = e.class.as_str();
    ANSWERS.contains(&class) || DECREMENTS.contains(&class) && e.args.is_empty()
}

/// Ways that loops go without.
fn cut(links: &[LinkEnds], ways: &BTreeSet<Way>) -> Vec<Way> {
    let mut left = ways.clone();
    let mut cut = Vec::new();
    let mut take = |left: &mut BTreeSet<Way>, which: &dyn Fn(&Way) -> bool| {
        let of = in_loops(links.len(), left);
        for w in of.iter().filter(|w| which(w)) {
            left.remove(w);
            cut.push(*w);
        }
        of.is_empty()
    };
    let reverse = |(a, b): &Way| links[*a].from == links[*b].to && links[*a].to == links[*b].from;
    // links that another one, written before, leads the other way of
    let is_back = |l: usize| {
        links[..l]
            .iter()
            .any(|o| o.from == links[l].to && o.to == links[l].from)
    };
    // turns of what comes the way that links were written (packets from inside, as a rule: where they are new flows'
    // packets, a program tells them from others anyway); all turns; and where loops go round without a turn
    take(&mut left, &|w| reverse(w) && !is_back(w.0));
    take(&mut left, &reverse);
    // Bound: each link once.
    while let Some(first) = in_loops(links.len(), &left).first().map(|w| w.1) {
        take(&mut left, &|w| w.1 == first);
    }
    cut
}

/// The ways that are part of a loop: both links can be reached from one another.
fn in_loops(links: usize, ways: &BTreeSet<Way>) -> Vec<Way> {
    let (mut next, mut before) = (vec![Vec::new(); links], vec![Vec::new(); links]);
    for (a, b) in ways {
        next[*a].push(*b);
        before[*b].push(*a);
    }
    // Kosaraju's algorithm: in the order in which they were left, last first, all that lead to one make a component
    // with it
    let mut left = Vec::with_capacity(links);
    let mut seen = vec![false; links];
    for start in 0..links {
        let mut stack = vec![(start, 0)];
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        while let Some((l, nth)) = stack.last_mut() {
            match next[*l].get(*nth) {
                Some(to) => {
                    *nth += 1;
                    if !std::mem::replace(&mut seen[*to], true) {
                        stack.push((*to, 0));
                    }
                }
                None => {
                    left.push(*l);
                    stack.pop();
                }
            }
        }
    }
    let mut component = vec![usize::MAX; links];
    for start in left.into_iter().rev() {
        let mut todo = vec![start];
        while let Some(l) = todo.pop() {
            if component[l] == usize::MAX {
                component[l] = start;
                todo.extend(&before[l]);
            }
        }
    }
    let same = |w: &&Way| component[w.0] == component[w.1];
    ways.iter().filter(same).copied().collect()
}
