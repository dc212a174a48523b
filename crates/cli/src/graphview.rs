//! A chain's graph as text and as JSON.

use onefold_chain::Chain;
use std::fmt::Write;

/// The network function and the rest of an element's name.
pub fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

/// For people: ports, functions, links, then every function's elements with where they lead.
pub fn text(chain: &Chain) -> String {
    let mut t = String::new();
    // writing to a String cannot fail
    let _ = writeln!(t, "{}: {}", chain.name, chain.description);
    let _ = writeln!(t, "\nports");
    for p in &chain.ports {
        let way = match (p.source.is_some(), p.sinks.is_empty()) {
            (true, false) => "in and out",
            (true, true) => "in",
            _ => "out",
        };
        let _ = writeln!(t, "  {:<12} {} ({way})", p.name, p.at);
    }
    if !chain.links.is_empty() {
        let _ = writeln!(t, "\nlinks");
        for l in &chain.links {
            let _ = writeln!(t, "  {} -> {}", l.from, l.to);
        }
    }
    let g = &chain.graph;
    let mut next: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new(); g.elements.len()];
    for c in &g.connections {
        next[c.from.0].push((c.from.1, c.to.0, c.to.1));
    }
    for f in &chain.functions {
        let _ = writeln!(t, "\n{} ({})", f.name, f.kind);
        for (i, e) in g.elements.iter().enumerate() {
            let (nf, name) = split(&e.name);
            if nf != f.name {
                continue;
            }
            let mut config = e.args.join(", ");
            if config.chars().count() > 60 {
                config = format!(
                    "{}... {} arguments",
                    config.chars().take(50).collect::<String>(),
                    e.args.len()
                );
            }
            let _ = write!(t, "  {name} :: {}", e.class);
            if !config.is_empty() {
                let _ = write!(t, "({config})");
            }
            t.push('\n');
            next[i].sort_unstable();
            for (out, to, input) in &next[i] {
                let (to_nf, to_name) = split(&g.elements[*to].name);
                let shown = if to_nf == nf {
                    to_name.to_string()
                } else {
                    format!("{to_nf}/{to_name}")
                };
                let _ = writeln!(t, "      [{out}] -> [{input}] {shown}");
            }
        }
    }
    t
}

/// As INTERFACE documents it.
pub fn json(chain: &Chain) -> serde_json::Value {
    let g = &chain.graph;
    let nodes: Vec<_> = g
        .elements
        .iter()
        .map(|e| {
            let (nf, name) = split(&e.name);
            serde_json::json!({
                "id": e.name, "nf": nf, "element": name, "class": e.class, "config": e.args,
                "file": e.decl.file.as_ref(), "line": e.decl.line,
            })
        })
        .collect();
    let edges: Vec<_> = g
        .connections
        .iter()
        .map(|c| {
            serde_json::json!({
                "from": g.elements[c.from.0].name, "from_port": c.from.1,
                "to": g.elements[c.to.0].name, "to_port": c.to.1,
            })
        })
        .collect();
    serde_json::json!({
        "chain": chain.name,
        "description": chain.description,
        "nodes": nodes,
        "edges": edges,
        "functions": chain.functions.iter().map(|f| serde_json::json!({
            "name": f.name, "kind": f.kind, "ports": f.ports })).collect::<Vec<_>>(),
        "links": chain.links.iter().map(|l| serde_json::json!({ "from": l.from, "to": l.to })).collect::<Vec<_>>(),
        "ports": chain.ports.iter().map(|p| serde_json::json!({
            "name": p.name,
            "at": p.at,
            "source": p.source.map(|s| g.elements[s].name.as_str()),
            "sinks": p.sinks.iter().map(|s| g.elements[*s].name.as_str()).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}
