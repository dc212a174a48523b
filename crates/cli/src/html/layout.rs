//! Drawing a graph: one column block per network function, inside it layers from input to output.

use super::esc;
use super::overview::Counted;
use crate::common::thousands;
use crate::graphview::split;
use onefold_chain::Chain;
use std::fmt::Write;

/// Size of a box and the space around it, in pixels.
const BOX: (f64, f64) = (150.0, 36.0);
const GAP: (f64, f64) = (18.0, 34.0);
/// Space around a function's block.
const PAD: f64 = 26.0;
/// Sweeps that order the boxes of a layer by their neighbours.
const SWEEPS: usize = 6;

/// Where everything is.
struct Placed {
    /// By element: its left upper corner.
    pos: Vec<(f64, f64)>,
    /// Frames of functions, drawn.
    blocks: String,
    size: (f64, f64),
}

/// Places elements, function by function.
fn place(chain: &Chain) -> Placed {
    let g = &chain.graph;
    let n = g.elements.len();
    let edges: Vec<(usize, usize)> = g.connections.iter().map(|c| (c.from.0, c.to.0)).collect();
    let mut pos = vec![(0.0f64, 0.0f64); n];
    let mut blocks = String::new();
    let (mut x0, mut height) = (0.0f64, 0.0f64);
    let mut groups: Vec<(&str, &str)> = chain
        .functions
        .iter()
        .map(|f| (f.name.as_str(), f.kind))
        .collect();
    if g.elements.iter().any(|e| split(&e.name).0.is_empty()) {
        groups.insert(0, ("", ""));
    }
    for (k, (nf, kind)) in groups.iter().enumerate() {
        let members: Vec<usize> = (0..n)
            .filter(|i| split(&g.elements[*i].name).0 == *nf)
            .collect();
        if members.is_empty() {
            continue;
        }
        let layers = layer(&members, n, &edges);
        let widest = layers.iter().map(Vec::len).max().unwrap_or(1) as f64;
        let width = widest * (BOX.0 + GAP.0) - GAP.0;
        for (row, l) in layers.iter().enumerate() {
            let row_width = l.len() as f64 * (BOX.0 + GAP.0) - GAP.0;
            for (i, e) in l.iter().enumerate() {
                let x = x0 + PAD + (width - row_width) / 2.0 + i as f64 * (BOX.0 + GAP.0);
                pos[*e] = (x, PAD + 24.0 + row as f64 * (BOX.1 + GAP.1));
            }
        }
        let h = layers.len() as f64 * (BOX.1 + GAP.1) + 2.0 * PAD + 24.0;
        height = height.max(h);
        // writing to a String cannot fail
        let _ = write!(
            blocks,
            "<g class=\"nf c{}\" data-nf=\"{}\">\
             <rect x=\"{x0:.0}\" y=\"0\" width=\"{:.0}\" height=\"{h:.0}\" rx=\"10\"/>\
             <text x=\"{:.0}\" y=\"24\">{} <tspan>{}</tspan></text></g>",
            k % 6,
            esc(nf),
            width + 2.0 * PAD,
            x0 + PAD,
            esc(nf),
            esc(kind)
        );
        x0 += width + 2.0 * PAD + 40.0;
    }
    Placed {
        pos,
        blocks,
        size: (x0.max(300.0), height.max(200.0) + 40.0),
    }
}

/// The graph as an `<svg>` element: functions, which a script places for the window there is, and all elements.
pub fn draw(chain: &Chain, counted: Option<&Counted>) -> String {
    let placed = place(chain);
    let mut svg = String::new();
    // writing to a String cannot fail
    let _ = write!(
        svg,
        "<svg id=\"drawing\" viewBox=\"-20 -20 {:.0} {:.0}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"the graph\">\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\"/></marker></defs>\
         <g id=\"functions\"></g><g id=\"elements\">{}<g class=\"edges\">",
        placed.size.0, placed.size.1, placed.blocks
    );
    let labels = draw_edges(&mut svg, chain, &placed.pos, counted);
    svg.push_str("</g><g class=\"boxes\">");
    draw_boxes(&mut svg, chain, &placed.pos, counted);
    let _ = write!(svg, "</g><g class=\"labels\">{labels}</g></g></svg>");
    svg
}

/// Draws connections; their labels come back.
fn draw_edges(
    svg: &mut String,
    chain: &Chain,
    pos: &[(f64, f64)],
    counted: Option<&Counted>,
) -> String {
    let g = &chain.graph;
    let n = g.elements.len();
    let mut labels = String::new();
    let (mut outs, mut ins) = (vec![1usize; n], vec![1usize; n]);
    for c in &g.connections {
        outs[c.from.0] = outs[c.from.0].max(c.from.1 + 1);
        ins[c.to.0] = ins[c.to.0].max(c.to.1 + 1);
    }
    for c in &g.connections {
        let at = |i: usize, port: usize, of: usize, low: bool| {
            let (x, y) = pos[i];
            (
                x + BOX.0 * (port as f64 + 1.0) / (of as f64 + 1.0),
                if low { y + BOX.1 } else { y },
            )
        };
        let a = at(c.from.0, c.from.1, outs[c.from.0], true);
        let b = at(c.to.0, c.to.1, ins[c.to.0], false);
        let between = split(&g.elements[c.from.0].name).0 != split(&g.elements[c.to.0].name).0;
        let bend = ((b.1 - a.1).abs() / 2.0).clamp(18.0, 120.0);
        let class = if between { " class=\"link\"" } else { "" };
        // writing to a String cannot fail
        let _ = write!(
            svg,
            "<path data-a=\"{}\" data-b=\"{}\"{class} d=\"M{:.1} {:.1} C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}\" marker-end=\"url(#tip)\">\
             <title>{} [{}] to [{}] {}</title></path>",
            c.from.0,
            c.to.0,
            a.0,
            a.1,
            a.0,
            a.1 + bend,
            b.0,
            b.1 - bend,
            b.0,
            b.1,
            esc(&g.elements[c.from.0].name),
            c.from.1,
            c.to.1,
            esc(&g.elements[c.to.0].name)
        );
        let passed = counted.and_then(|x| x.of_element(&g.elements[c.from.0].name));
        if let Some(packets) = passed.filter(|_| outs[c.from.0] == 1) {
            let _ = write!(
                labels,
                "<text class=\"cnt\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                a.0,
                a.1 + 15.0,
                thousands(packets)
            );
        }
    }
    labels
}

fn draw_boxes(svg: &mut String, chain: &Chain, pos: &[(f64, f64)], counted: Option<&Counted>) {
    let elements = chain.graph.elements.iter().zip(pos);
    for (i, (e, (x, y))) in elements.enumerate() {
        let port = chain
            .ports
            .iter()
            .find(|p| p.source == Some(i) || p.sinks.contains(&i));
        let class = if port.is_some() { "port" } else { "el" };
        let (_, name) = split(&e.name);
        let name = match port {
            Some(p) => p.name.as_str(),
            None => name,
        };
        // writing to a String cannot fail
        let _ = write!(
            svg,
            "<g class=\"{class}\" data-i=\"{i}\" transform=\"translate({x:.1} {y:.1})\"><rect width=\"{:.0}\" height=\"{:.0}\" rx=\"6\"/>\
             <text x=\"{:.0}\" y=\"15\">{}</text><text class=\"s\" x=\"{:.0}\" y=\"29\">{}</text>",
            BOX.0,
            BOX.1,
            BOX.0 / 2.0,
            esc(&cut(&e.class, 22)),
            BOX.0 / 2.0,
            esc(&cut(name, 26))
        );
        let dropped = counted.map_or(0, |x| x.dropped_by(&e.name));
        if dropped > 0 {
            let _ = write!(
                svg,
                "<text class=\"lost\" x=\"{:.0}\" y=\"{:.0}\">{} dropped</text>",
                BOX.0 / 2.0,
                BOX.1 + 12.0,
                thousands(dropped)
            );
        }
        svg.push_str("</g>");
    }
}

fn cut(s: &str, n: usize) -> String {
    if s.chars().count() <= n {
        s.to_string()
    } else {
        format!("{}\u{2026}", s.chars().take(n - 1).collect::<String>())
    }
}

/// Members in layers, each layer ordered so that few lines cross.
pub fn layer(members: &[usize], n: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut inside = vec![false; n];
    for m in members {
        inside[*m] = true;
    }
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut prev: Vec<Vec<usize>> = vec![Vec::new(); n];
    for (from, to) in edges {
        if inside[*from] && inside[*to] {
            next[*from].push(*to);
        }
    }
    // edges that close a cycle do not count: found by a depth-first walk with its own stack, entries first
    let mut state = vec![0u8; n];
    let mut starts: Vec<usize> = members.to_vec();
    let has_in: Vec<bool> = {
        let mut v = vec![false; n];
        next.iter().flatten().for_each(|t| v[*t] = true);
        v
    };
    starts.sort_by_key(|m| has_in[*m]);
    let mut order = Vec::new();
    for s in starts {
        if state[s] != 0 {
            continue;
        }
        let mut stack = vec![(s, 0usize)];
        state[s] = 1;
        while let Some((e, i)) = stack.pop() {
            match next[e].get(i).copied() {
                None => {
                    state[e] = 2;
                    order.push(e);
                }
                Some(t) => {
                    stack.push((e, i + 1));
                    match state[t] {
                        0 => {
                            state[t] = 1;
                            stack.push((t, 0));
                        }
                        1 => {} // back edge
                        _ => {}
                    }
                    if state[t] != 1 || stack.last().map(|x| x.0) == Some(t) {
                        prev[t].push(e);
                    }
                }
            }
        }
    }
    order.reverse();
    let mut depth = vec![0usize; n];
    for e in &order {
        depth[*e] = prev[*e].iter().map(|p| depth[*p] + 1).max().unwrap_or(0);
    }
    let layers_n = members.iter().map(|m| depth[*m]).max().unwrap_or(0) + 1;
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); layers_n];
    for m in members {
        layers[depth[*m]].push(*m);
    }
    let mut place = vec![0.0f64; n];
    for sweep in 0..SWEEPS {
        for l in &layers {
            for (i, e) in l.iter().enumerate() {
                place[*e] = (i as f64 + 0.5) / l.len() as f64;
            }
        }
        let neighbours = if sweep % 2 == 0 { &prev } else { &next };
        for l in layers.iter_mut() {
            let key = |e: &usize| {
                let v = &neighbours[*e];
                if v.is_empty() {
                    place[*e]
                } else {
                    v.iter().map(|x| place[*x]).sum::<f64>() / v.len() as f64
                }
            };
            l.sort_by(|a, b| key(a).total_cmp(&key(b)));
        }
    }
    layers
}
