//! Checks connections as Click does: port counts, push and pull, ports used twice or not at all.

use crate::graph::diag::{Diagnostic, Stage};
use crate::graph::topology::{Edge, PortCounts};
use onefold_element::flow::flows;
use onefold_element::{ElementClass, GraphSpec, PortRange, Processing, SourceLoc};
use std::collections::HashSet;

/// Longest way that one pull may go through elements, so that pulling needs bounded stack.
pub(crate) const MAX_PULL_PATH: usize = 512;

/// Most inputs (and most outputs) of all elements together.
const MAX_PORTS: usize = 1 << 22;

/// Most pairs of an agnostic input and an agnostic output of one element.
const MAX_AGNOSTIC_PAIRS: usize = 1 << 20;

/// Sweeps over all connections in the order written before the work list takes over; small graphs need few, and
/// conflicts are then found at the place where Click finds them.
const SWEEPS: usize = 32;

/// What the checks find out.
#[derive(Debug, Default)]
pub(crate) struct Hookup {
    pub ports: Vec<PortCounts>,
    pub in_proc: Vec<Processing>,
    pub out_proc: Vec<Processing>,
    pub out_edge: Vec<Edge>,
    pub in_edge: Vec<Edge>,
}

/// A connection between port indices, or (fake) an agnostic way through an element.
struct Link {
    from: usize,
    to: usize,
    from_node: usize,
    to_node: usize,
    from_port: usize,
    to_port: usize,
    fake: bool,
    loc: SourceLoc,
}

/// Numbers of ports of an element with code `code`, when so many are connected.
fn port_counts(code: &str, connected_in: usize, connected_out: usize) -> (usize, usize) {
    let (i, o) = ElementClass::halves(code);
    let clamp = |r: Option<PortRange>, n: usize| match r {
        Some(r) => n.max(r.min).min(r.max.unwrap_or(usize::MAX).max(r.min)),
        None => n,
    };
    let ninputs = clamp(PortRange::parse(i), connected_in);
    let noutputs = match PortRange::parse(o) {
        Some(PortRange {
            same_as_inputs: Some(plus),
            ..
        }) => ninputs + plus,
        r => clamp(r, connected_out),
    };
    (ninputs, noutputs)
}

/// Runs all checks. `class` is `None` for elements of unknown classes: they take any connection.
pub(crate) fn check(
    spec: &GraphSpec,
    class: &[Option<&'static ElementClass>],
) -> (Hookup, Vec<Diagnostic>) {
    let mut errors = Vec::new();
    let hookup = Checker {
        spec,
        class,
        errors: &mut errors,
    }
    .run();
    (hookup, errors)
}

struct Checker<'a> {
    spec: &'a GraphSpec,
    class: &'a [Option<&'static ElementClass>],
    errors: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    /// `name :: Class`, as Click's messages name an element.
    fn name(&self, node: usize) -> String {
        let e = self.spec.elements.get(node);
        e.map_or("?".to_string(), |e| format!("{} :: {}", e.name, e.class))
    }

    fn port_error(&mut self, node: usize, message: String) {
        let Some(e) = self.spec.elements.get(node) else {
            return;
        };
        let d = Diagnostic::new(Stage::Connections, e.decl.clone(), message);
        self.errors.push(d.about(&e.name, &e.class));
    }

    fn run(mut self) -> Hookup {
        let n = self.spec.elements.len();
        let mut h = Hookup::default();
        let mut connected = vec![(0usize, 0usize); n];
        for c in &self.spec.connections {
            if let Some(x) = connected.get_mut(c.from.0) {
                x.1 = x.1.max(c.from.1 + 1);
            }
            if let Some(x) = connected.get_mut(c.to.0) {
                x.0 = x.0.max(c.to.1 + 1);
            }
        }
        let (mut in_base, mut out_base) = (0, 0);
        for (i, used) in connected.iter().enumerate() {
            let (ninputs, noutputs) = match self.class.get(i).copied().flatten() {
                Some(c) => port_counts(c.ports, used.0, used.1),
                None => *used,
            };
            h.ports.push(PortCounts {
                ninputs,
                noutputs,
                in_base,
                out_base,
            });
            in_base += ninputs;
            out_base += noutputs;
            if in_base.max(out_base) > MAX_PORTS {
                self.port_error(i, format!("more than {MAX_PORTS} ports in all"));
                return h;
            }
        }
        let links = self.links(&h);
        if self.errors.is_empty() {
            self.processing(&mut h, links);
        }
        if self.errors.is_empty() {
            self.completeness(&mut h);
        }
        if self.errors.is_empty() {
            self.pull_paths(&h);
        }
        h
    }

    /// Connections between ports that exist, without repetitions.
    fn links(&mut self, h: &Hookup) -> Vec<Link> {
        let mut links = Vec::new();
        let mut seen = HashSet::new();
        let spec = self.spec;
        for c in &spec.connections {
            let mut ok = true;
            match h.ports.get(c.to.0) {
                Some(p) if c.to.1 < p.ninputs => {}
                Some(_) => {
                    ok = false;
                    let m = format!("'{}' has no input {}", self.name(c.to.0), c.to.1);
                    self.port_error(c.to.0, m);
                }
                None => ok = false,
            }
            match h.ports.get(c.from.0) {
                Some(p) if c.from.1 < p.noutputs => {}
                Some(_) => {
                    ok = false;
                    let m = format!("'{}' has no output {}", self.name(c.from.0), c.from.1);
                    self.port_error(c.from.0, m);
                }
                None => ok = false,
            }
            if ok && seen.insert((c.from, c.to)) {
                links.push(Link {
                    from: h.ports[c.from.0].out_base + c.from.1,
                    to: h.ports[c.to.0].in_base + c.to.1,
                    from_node: c.from.0,
                    to_node: c.to.0,
                    from_port: c.from.1,
                    to_port: c.to.1,
                    fake: false,
                    loc: c.loc.clone(),
                });
            }
        }
        links
    }

    /// Spreads push and pull over agnostic ports; reports where they meet.
    fn processing(&mut self, h: &mut Hookup, mut links: Vec<Link>) {
        let class = self.class;
        for (i, p) in h.ports.iter().enumerate() {
            let code = class
                .get(i)
                .copied()
                .flatten()
                .map_or("a/a", |c| c.processing);
            let (ins, outs) = ElementClass::halves(code);
            h.in_proc
                .extend((0..p.ninputs).map(|k| Processing::of(ins, k)));
            h.out_proc
                .extend((0..p.noutputs).map(|k| Processing::of(outs, k)));
        }
        for (i, p) in h.ports.iter().enumerate() {
            let Some(c) = class.get(i).copied().flatten() else {
                continue;
            };
            if p.ninputs.saturating_mul(p.noutputs) > MAX_AGNOSTIC_PAIRS {
                let m = format!("'{}' has too many ports", self.name(i));
                self.port_error(i, m);
                return;
            }
            for input in 0..p.ninputs {
                if h.in_proc[p.in_base + input] != Processing::Agnostic {
                    continue;
                }
                for output in 0..p.noutputs {
                    if h.out_proc[p.out_base + output] == Processing::Agnostic
                        && flows(c.flow, input, output)
                    {
                        links.push(Link {
                            from: p.out_base + output,
                            to: p.in_base + input,
                            from_node: i,
                            to_node: i,
                            from_port: output,
                            to_port: input,
                            fake: true,
                            loc: SourceLoc::default(),
                        });
                    }
                }
            }
        }
        let mut reported = vec![false; links.len()];
        for sweep in 0..SWEEPS {
            let mut changed = false;
            for (k, l) in links.iter().enumerate() {
                if reported[k] {
                    continue;
                }
                let (from, to) = (h.out_proc[l.from], h.in_proc[l.to]);
                match (from, to) {
                    (Processing::Agnostic, Processing::Agnostic) => {}
                    (_, Processing::Agnostic) => {
                        h.in_proc[l.to] = from;
                        changed = true;
                    }
                    (Processing::Agnostic, _) => {
                        h.out_proc[l.from] = to;
                        changed = true;
                    }
                    _ if from != to => {
                        reported[k] = true;
                        let d = self.conflict(l, from);
                        self.errors.push(d);
                    }
                    _ => {}
                }
            }
            if !changed {
                return;
            }
            if sweep + 1 == SWEEPS {
                self.spread(h, &links);
            }
        }
        for (k, l) in links.iter().enumerate() {
            if !reported[k] && h.out_proc[l.from] != h.in_proc[l.to] {
                let d = self.conflict(l, h.out_proc[l.from]);
                self.errors.push(d);
            }
        }
    }

    /// The rest of the spreading for large graphs: every port is taken up once.
    fn spread(&self, h: &mut Hookup, links: &[Link]) {
        let mut by_from: Vec<Vec<usize>> = vec![Vec::new(); h.out_proc.len()];
        let mut by_to: Vec<Vec<usize>> = vec![Vec::new(); h.in_proc.len()];
        for (k, l) in links.iter().enumerate() {
            by_from[l.from].push(k);
            by_to[l.to].push(k);
        }
        // (is an input, port)
        let known = |p: &Processing| *p != Processing::Agnostic;
        let mut todo: Vec<(bool, usize)> = Vec::new();
        todo.extend(
            (0..h.in_proc.len())
                .filter(|i| known(&h.in_proc[*i]))
                .map(|i| (true, i)),
        );
        todo.extend(
            (0..h.out_proc.len())
                .filter(|i| known(&h.out_proc[*i]))
                .map(|i| (false, i)),
        );
        while let Some((input, port)) = todo.pop() {
            if input {
                for &k in &by_to[port] {
                    if h.out_proc[links[k].from] == Processing::Agnostic {
                        h.out_proc[links[k].from] = h.in_proc[port];
                        todo.push((false, links[k].from));
                    }
                }
            } else {
                for &k in &by_from[port] {
                    if h.in_proc[links[k].to] == Processing::Agnostic {
                        h.in_proc[links[k].to] = h.out_proc[port];
                        todo.push((true, links[k].to));
                    }
                }
            }
        }
    }

    fn conflict(&self, l: &Link, from: Processing) -> Diagnostic {
        let (one, other) = match from {
            Processing::Push => ("push", "pull"),
            _ => ("pull", "push"),
        };
        let decl = |n: usize| {
            self.spec
                .elements
                .get(n)
                .map_or(SourceLoc::default(), |e| e.decl.clone())
        };
        let (a, b) = (self.name(l.from_node), self.name(l.to_node));
        if l.fake {
            let m = format!(
                "agnostic '{a}' in mixed context: {other} input {}, {one} output {}",
                l.to_port, l.from_port
            );
            return Diagnostic::new(Stage::Connections, decl(l.from_node), m);
        }
        let m = format!(
            "'{a}' {one} output {} connected to '{b}' {other} input {}",
            l.from_port, l.to_port
        );
        let hint = match one {
            "push" => "a Queue between them turns push into pull",
            _ => "an Unqueue between them turns pull into push",
        };
        let mut d = Diagnostic::new(Stage::Connections, l.loc.clone(), m)
            .note(decl(l.from_node), format!("'{a}' is declared here"))
            .note(decl(l.to_node), format!("'{b}' is declared here"));
        d.hint = Some(hint.to_string());
        d
    }

    /// Push outputs and pull inputs lead to exactly one place; every port is used. Fills the edges in.
    fn completeness(&mut self, h: &mut Hookup) {
        let mut seen = HashSet::new();
        let mut conns: Vec<(usize, usize, usize, usize)> = Vec::new();
        for c in &self.spec.connections {
            if seen.insert((c.from, c.to)) {
                conns.push((c.from.0, c.from.1, c.to.0, c.to.1));
            }
        }
        h.out_edge = vec![Edge::NONE; h.out_proc.len()];
        h.in_edge = vec![Edge::NONE; h.in_proc.len()];
        let mut in_used = vec![false; h.in_proc.len()];
        let mut out_used = vec![false; h.out_proc.len()];
        conns.sort_by_key(|c| (c.2, c.3, c.0, c.1));
        for &(f, fp, t, tp) in &conns {
            let at = h.ports[t].in_base + tp;
            if in_used[at] && h.in_proc[at] == Processing::Pull {
                let m = format!("illegal reuse of '{}' pull input {tp}", self.name(t));
                self.port_error(t, m);
            }
            in_used[at] = true;
            h.in_edge[at] = Edge {
                node: f as u32,
                port: fp as u32,
            };
        }
        conns.sort();
        for &(f, fp, t, tp) in &conns {
            let at = h.ports[f].out_base + fp;
            if out_used[at] && h.out_proc[at] != Processing::Pull {
                let m = format!("illegal reuse of '{}' push output {fp}", self.name(f));
                self.port_error(f, m);
            }
            out_used[at] = true;
            h.out_edge[at] = Edge {
                node: t as u32,
                port: tp as u32,
            };
        }
        for i in 0..h.ports.len() {
            let p = h.ports[i];
            for k in 0..p.ninputs {
                if !in_used[p.in_base + k] {
                    let m = format!("'{}' input {k} unused", self.name(i));
                    self.port_error(i, m);
                }
            }
        }
        for i in 0..h.ports.len() {
            let p = h.ports[i];
            for k in 0..p.noutputs {
                if !out_used[p.out_base + k] {
                    let m = format!("'{}' output {k} unused", self.name(i));
                    self.port_error(i, m);
                }
            }
        }
        for (at, e) in h.in_edge.iter_mut().enumerate() {
            if h.in_proc[at] != Processing::Pull {
                *e = Edge::NONE;
            }
        }
        for (at, e) in h.out_edge.iter_mut().enumerate() {
            if h.out_proc[at] == Processing::Pull {
                *e = Edge::NONE;
            }
        }
    }

    /// Pulling goes from element to element by calls: their number is bounded here.
    fn pull_paths(&mut self, h: &Hookup) {
        // longest way upstream from each element's pull inputs; usize::MAX while being computed
        let n = h.ports.len();
        let mut longest = vec![0usize; n];
        let mut state = vec![0u8; n];
        for start in 0..n {
            if state[start] != 0 {
                continue;
            }
            let mut stack = vec![(start, 0usize)];
            state[start] = 1;
            while let Some((node, input)) = stack.pop() {
                let p = h.ports[node];
                if input >= p.ninputs {
                    state[node] = 2;
                    continue;
                }
                stack.push((node, input + 1));
                let e = h.in_edge[p.in_base + input];
                if !e.is_some() {
                    continue;
                }
                let up = e.node as usize;
                match state[up] {
                    0 => {
                        state[up] = 1;
                        // come back to this input once `up` is known
                        stack.pop();
                        stack.push((node, input));
                        stack.push((up, 0));
                    }
                    // a pull loop: an element that is being pulled gives nothing, so it ends there
                    1 => {}
                    _ => longest[node] = longest[node].max(longest[up] + 1),
                }
            }
        }
        if let Some(node) = (0..n).find(|i| longest[*i] > MAX_PULL_PATH) {
            let m = format!(
                "the pull path that ends in '{}' goes through more than {MAX_PULL_PATH} elements",
                self.name(node)
            );
            self.port_error(node, m);
            if let Some(d) = self.errors.last_mut() {
                d.hint = Some("a Queue and an Unqueue in its middle shorten it".into());
            }
        }
    }
}
