//! What a partition goes by at each port of a chain.
//!
//! A flow between two ports of the chain has an address at the near port's end and one at the far port's. A NAT
//! rewrites that of who is at its port 0, a balancer that of who is at its port 1, on their way to its other port.
//! Where one of them stays the same from port to port, both ports hash it. Where both are rewritten, the last NAT on
//! the way tells by the port that it has handed out; then the other port may hash what it likes.

use crate::error::Reader;
use crate::links::{PortRef, parse_port};
use crate::stitch::Chain;
use crate::workers::{Kind, Translator};
use onefold_partition::{Hash, Pool, PortRule};
use std::collections::HashMap;

/// Most ports of a chain that packets come from, where there are translators: the ways between all pairs are looked at.
const MOST_ENTRIES: usize = 8;

/// What becomes of the two addresses of flows between two ports of the chain.
struct Way<'a> {
    /// The chain's ports, by index.
    ends: (usize, usize),
    /// The translators that rewrite the address at the near end, and those that rewrite the one at the far end, from
    /// near to far.
    near: Vec<&'a Translator>,
    far: Vec<&'a Translator>,
}

/// Links by the function's port that they begin at.
type Links = HashMap<PortRef, PortRef>;

/// The rule of each port; `None`: there are none, and why not has been recorded.
pub(super) fn rules(chain: &Chain, reader: &mut Reader) -> Option<Vec<PortRule>> {
    let links = links(chain);
    let mut rules: Vec<PortRule> = (chain.ports.iter())
        .map(|p| PortRule {
            neighbours: p.source.is_some() && asks(chain, &links, &p.at),
            ..PortRule::default()
        })
        .collect();
    let translators = std::mem::take(&mut reader.translators);
    let Some(first) = translators.first() else {
        return Some(rules);
    };
    let refuse = |reader: &mut Reader, t: &Translator, why: &str, hint: &str| {
        let message = format!(
            "{}: several workers cannot have this chain: {why}",
            t.function
        );
        reader.error_hint(t.span, message, hint);
    };
    if let Some(t) = translators.iter().find(|t| t.hosts6) {
        let why = "IPv6 hosts have handles (nat64), which are one worker's";
        refuse(reader, t, why, "use one worker");
        return None;
    }
    let ways = match ways(chain, &links, &translators) {
        Ok(ways) => ways,
        Err(why) => {
            refuse(reader, first, why, "use one worker");
            return None;
        }
    };
    for w in &ways {
        // the inside of NATs that turn packets round
        for (end, side) in [(w.ends.0, &w.near), (w.ends.1, &w.far)] {
            for (t, pool) in side.iter().filter_map(|t| Some((t, pool(t)?))) {
                if t.hairpin && !rules[end].hairpins.contains(&pool.addresses) {
                    rules[end].hairpins.push(pool.addresses);
                }
            }
        }
    }
    if let Some(hashes) = hashes(chain.ports.len(), &ways) {
        for (r, h) in rules.iter_mut().zip(hashes) {
            r.hash = h;
        }
        return Some(rules);
    }
    match by_ports(&mut rules, &ways, &translators) {
        Ok(()) => Some(rules),
        Err((t, why, hint)) => {
            refuse(reader, t, why, hint);
            None
        }
    }
}

/// Both addresses are rewritten somewhere: the ports that NATs have handed out tell.
fn by_ports<'a>(
    rules: &mut [PortRule],
    ways: &[Way<'a>],
    translators: &'a [Translator],
) -> Result<(), (&'a Translator, &'static str, &'static str)> {
    if let Some(t) = translators.iter().find(|t| t.six) {
        let why = "only ports tell where flows belong, and those of IPv6 stay as they are";
        return Err((
            t,
            why,
            "translate IPv6 in a chain of its own, or use one worker",
        ));
    }
    for w in ways {
        let (a, b) = w.ends;
        // what is handed out last is seen at the other end
        let near = w.near.last().copied().map(|t| (t, a, b));
        let far = w.far.first().copied().map(|t| (t, b, a));
        let told =
            |t: &Option<(&'a Translator, usize, usize)>| t.and_then(|(t, ..)| pool(t)).is_some();
        let both = [near, far];
        let Some((t, ..)) = both.into_iter().flatten().next() else {
            continue;
        };
        if !both.iter().any(told) {
            let hint = "put a nat with a pool where addresses are rewritten, or use one worker";
            return Err((
                t,
                "no address and no port tells both directions of a flow",
                hint,
            ));
        }
        for (t, inside, outside) in both.into_iter().flatten() {
            let Some(pool) = pool(t) else { continue };
            let in_range = |p: u16| (pool.ports.0..=pool.ports.1).contains(&p);
            if !t.reserves && pool.forwards.iter().any(|f| in_range(f.port)) {
                let hint = "leave the forwards' outside ports out with 'port-range'";
                let why = "a port that is forwarded may be handed out, too, and tells nothing behind a balancer";
                return Err((t, why, hint));
            }
            let nats = translators
                .iter()
                .filter(|t| matches!(t.kind, Kind::Nat(_)));
            if !pool.forwards.is_empty() && nats.count() > 1 {
                let why = "what static forwards let in is not told behind several translators";
                return Err((t, why, "use one nat, no forwards, or one worker"));
            }
            let hosts = pool.forwards.iter().map(|f| f.host);
            for h in hosts
                .filter(|h| !rules[inside].hosts.contains(h))
                .collect::<Vec<_>>()
            {
                rules[inside].hosts.push(h);
            }
            if !rules[outside].pools.contains(pool) {
                rules[outside].pools.push(pool.clone());
            }
        }
    }
    Ok(())
}

fn pool(t: &Translator) -> Option<&Pool> {
    match &t.kind {
        Kind::Nat(pool) => Some(pool),
        _ => None,
    }
}

/// What each port hashes, so that both ends of every way agree: `None` if there is no such choice.
fn hashes(ports: usize, ways: &[Way<'_>]) -> Option<Vec<Hash>> {
    let entries: Vec<usize> = {
        let mut all: Vec<usize> = ways.iter().flat_map(|w| [w.ends.0, w.ends.1]).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let agree = |w: &Way<'_>, near: Hash, far: Hash| match (near, far) {
        (Hash::Both, Hash::Both) => w.near.is_empty() && w.far.is_empty(),
        (Hash::Source, Hash::Destination) => w.near.is_empty(),
        (Hash::Destination, Hash::Source) => w.far.is_empty(),
        _ => false,
    };
    const CHOICES: [Hash; 3] = [Hash::Both, Hash::Destination, Hash::Source];
    // Bound: three choices for each of MOST_ENTRIES ports
    let all = CHOICES.len().pow(entries.len() as u32);
    (0..all).find_map(|mut n| {
        let mut chosen = vec![Hash::Both; ports];
        for e in &entries {
            chosen[*e] = CHOICES[n % CHOICES.len()];
            n /= CHOICES.len();
        }
        let fits = |w: &Way<'_>| agree(w, chosen[w.ends.0], chosen[w.ends.1]);
        ways.iter().all(fits).then_some(chosen)
    })
}

fn links(chain: &Chain) -> Links {
    let of = |s: &str| parse_port(s).ok();
    let both = |l: &crate::stitch::LinkInfo| Some((of(&l.from)?, of(&l.to)?));
    chain.links.iter().filter_map(both).collect()
}

/// All ways between ports of the chain that packets come from.
fn ways<'a>(
    chain: &Chain,
    links: &Links,
    translators: &'a [Translator],
) -> Result<Vec<Way<'a>>, &'static str> {
    if links.iter().any(|(a, b)| links.get(b) != Some(a)) {
        return Err("packets go another way back than there, and addresses are rewritten");
    }
    let mut entries = HashMap::new();
    for (i, p) in chain.ports.iter().enumerate() {
        let Some(source) = p.source else { continue };
        let function = |e: usize| {
            let e = chain.graph.elements.get(e);
            e.and_then(|e| e.name.split('/').next())
        };
        let at = parse_port(&p.at).map_err(|_| "a port of the chain is nowhere")?;
        if p.sinks.iter().any(|s| function(*s) != function(source)) {
            return Err(
                "a port of the chain has its two ways at different functions, and addresses are rewritten",
            );
        }
        entries.insert(at, i);
    }
    if entries.len() > MOST_ENTRIES {
        return Err("packets come from more than eight ports, and addresses are rewritten");
    }
    let mut all = Vec::new();
    for (at, from) in &entries {
        let mut passed = vec![at.function.clone()];
        walk(
            chain,
            links,
            &entries,
            at,
            &mut passed,
            &mut |to, through| {
                // each way once
                if to > *from {
                    all.push(way((*from, to), through, translators));
                }
            },
        )?;
    }
    all.sort_by_key(|w| w.ends);
    Ok(all)
}

/// A function that is passed: where packets come in, and where they leave.
type Passed = (PortRef, usize);

/// Follows all ways from a function's port; `found`: a port of the chain, and the functions that were passed.
fn walk(
    chain: &Chain,
    links: &Links,
    entries: &HashMap<PortRef, usize>,
    at: &PortRef,
    functions: &mut Vec<String>,
    found: &mut dyn FnMut(usize, &[Passed]),
) -> Result<(), &'static str> {
    // what is still to be followed: where a function is entered, and what was passed before. Bound: each function is
    // entered once, or there is a circle.
    let mut todo: Vec<(PortRef, Vec<Passed>)> = vec![(at.clone(), Vec::new())];
    while let Some((at, passed)) = todo.pop() {
        let info = chain.functions.iter().find(|f| f.name == at.function);
        let ports = info.map_or(0, |f| f.ports.len());
        for port in (0..ports).filter(|p| *p != at.port) {
            let out = PortRef {
                function: at.function.clone(),
                port,
            };
            let mut through = passed.clone();
            through.push((at.clone(), port));
            if let Some(to) = entries.get(&out) {
                found(*to, &through);
            }
            let Some(next) = links.get(&out) else {
                continue;
            };
            if functions.contains(&next.function) {
                return Err("its functions are linked in a circle, and addresses are rewritten");
            }
            functions.push(next.function.clone());
            todo.push((next.clone(), through));
        }
    }
    Ok(())
}

fn way<'a>(ends: (usize, usize), through: &[Passed], translators: &'a [Translator]) -> Way<'a> {
    let mut way = Way {
        ends,
        near: Vec::new(),
        far: Vec::new(),
    };
    for (at, _) in through {
        let here = translators.iter().find(|t| t.function == at.function);
        let Some(t) = here else { continue };
        let rewrites_near = match t.kind {
            Kind::Nat(_) | Kind::Pairs => at.port == 0,
            Kind::Balancer => at.port != 0,
        };
        match rewrites_near {
            true => way.near.push(t),
            false => way.far.push(t),
        }
    }
    way
}

/// Do replies of neighbours end behind this port of the chain, at somebody who has asked? They pass functions with two
/// ports until one that asks itself, a router, or a Click configuration that asks.
fn asks(chain: &Chain, links: &Links, at: &str) -> bool {
    let Ok(mut at) = parse_port(at) else {
        return false;
    };
    // Bound: a way that passes more functions than there are goes round
    for _ in 0..chain.functions.len() {
        let Some(f) = chain.functions.iter().find(|f| f.name == at.function) else {
            return false;
        };
        // of a NAT or a load balancer at an interface
        let own = ["arpq", "ndq"].map(|e| format!("{}/{e}{}", f.name, at.port));
        if own.iter().any(|e| chain.graph.find(e).is_some()) {
            return true;
        }
        if f.kind == "router" || f.kind == "click" {
            let mine = |e: &&onefold_element::ElementSpec| {
                e.name.split('/').next() == Some(f.name.as_str())
            };
            let asks = ["ARPQuerier", "IP6NDSolicitor"];
            let mut all = chain.graph.elements.iter().filter(mine);
            return all.any(|e| asks.contains(&e.class.as_str()));
        }
        let other = PortRef {
            port: 1 - at.port.min(1),
            ..at
        };
        match links.get(&other) {
            Some(next) => at = next.clone(),
            None => return false,
        }
    }
    false
}
