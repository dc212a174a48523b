//! Removes the ends of compound elements and groups: what is connected through them is connected directly.

use crate::diag::Diagnostic;
use crate::limits::MAX_CONNECTIONS;
use crate::router::{Class, End, Router, Sink};
use crate::source::{SourceMap, Span};
use std::collections::{HashMap, HashSet};

/// A port of a tunnel, and what is found behind it.
enum State {
    /// Its connections are being followed.
    Open,
    /// The ports behind it, those of elements only.
    Done(Vec<End>),
}

struct Walk<'a> {
    router: &'a Router,
    /// Connections per port, the latest last: out of it, and into it.
    touching: [HashMap<End, Vec<usize>>; 2],
    followed: usize,
}

pub(crate) fn remove_tunnels(router: &mut Router, sources: &SourceMap, sink: &mut Sink) {
    let mut touching: [HashMap<End, Vec<usize>>; 2] = Default::default();
    let (mut inputs, mut outputs) = (Ports::default(), Ports::default());
    for (i, c) in router.conns.iter().enumerate() {
        touching[0].entry(c.from).or_default().push(i);
        touching[1].entry(c.to).or_default().push(i);
        if router
            .elements
            .get(c.from.0)
            .is_some_and(|e| is_tunnel(&e.class) && e.tunnel_input.is_some())
        {
            outputs.add(c.from, c.span);
        }
        if router
            .elements
            .get(c.to.0)
            .is_some_and(|e| is_tunnel(&e.class) && e.tunnel_output.is_some())
        {
            inputs.add(c.to, c.span);
        }
    }
    let mut walk = Walk {
        router,
        touching,
        followed: 0,
    };
    // Following the inputs finds ports that are used on one side only, like following the outputs.
    if walk.follow(&inputs, false, sources, sink).is_none() {
        return;
    }
    let Some(sources_of) = walk.follow(&outputs, true, sources, sink) else {
        return;
    };
    let old: Vec<_> = router.conns.clone();
    let old_len = old.len();
    for c in old {
        let tunnel = |element: usize| {
            router
                .elements
                .get(element)
                .is_some_and(|e| is_tunnel(&e.class))
        };
        if !tunnel(c.from.0) || tunnel(c.to.0) {
            continue;
        }
        for &from in sources_of.get(&c.from).into_iter().flatten() {
            router.connect(from, c.to, c.span);
            if router.conns.len() > old_len + MAX_CONNECTIONS {
                return too_many(sources, sink, c.span);
            }
        }
    }
}

fn too_many(sources: &SourceMap, sink: &mut Sink, span: Span) {
    let message = format!(
        "the configuration has more than {MAX_CONNECTIONS} connections through compound elements"
    );
    sink.fatal(Diagnostic::error(message).at(sources, span));
}

fn is_tunnel(class: &Class) -> bool {
    matches!(class, Class::Tunnel)
}

/// Ports in the order they were found, each once.
#[derive(Default)]
struct Ports {
    order: Vec<End>,
    /// With a connection of each.
    known: HashMap<End, Span>,
}

impl Ports {
    fn add(&mut self, port: End, span: Span) {
        self.known.entry(port).or_insert_with(|| {
            self.order.push(port);
            span
        });
    }
}

/// A port that is being followed.
struct Frame {
    port: End,
    /// The ends of its connections on the other side, and how many of them are done.
    ends: Vec<End>,
    next: usize,
    found: Vec<End>,
    seen: HashSet<End>,
}

impl Frame {
    fn add(&mut self, end: End) {
        if self.seen.insert(end) {
            self.found.push(end);
        }
    }
}

impl Walk<'_> {
    /// For each of `ports`, the ports of elements that are behind it: where its packets come from if `output`, else
    /// where they go.
    fn follow(
        &mut self,
        ports: &Ports,
        output: bool,
        sources: &SourceMap,
        sink: &mut Sink,
    ) -> Option<HashMap<End, Vec<End>>> {
        let mut states: HashMap<End, State> = HashMap::new();
        for &port in &ports.order {
            if states.contains_key(&port) {
                continue;
            }
            let mut stack = vec![self.enter(port, ports, output, sources, sink)];
            states.insert(port, State::Open);
            while let Some(frame) = stack.last_mut() {
                let Some(&end) = frame.ends.get(frame.next) else {
                    let found = std::mem::take(&mut frame.found);
                    states.insert(frame.port, State::Done(found));
                    stack.pop();
                    continue;
                };
                self.followed += 1;
                if !ports.known.contains_key(&end) {
                    frame.add(end);
                    frame.next += 1;
                } else {
                    match states.get(&end) {
                        Some(State::Done(behind)) => {
                            self.followed += behind.len();
                            behind.iter().for_each(|&e| frame.add(e));
                            frame.next += 1;
                        }
                        // A cycle of tunnels, which leads nowhere.
                        Some(State::Open) => frame.next += 1,
                        None => {
                            states.insert(end, State::Open);
                            let inner = self.enter(end, ports, output, sources, sink);
                            stack.push(inner);
                        }
                    }
                }
                if self.followed > 4 * MAX_CONNECTIONS {
                    let span = self
                        .router
                        .elements
                        .get(port.0)
                        .map_or(self.router.span, |e| e.span);
                    too_many(sources, sink, span);
                    return None;
                }
                if sink.stopped {
                    return None;
                }
            }
        }
        let done = |(port, state)| match state {
            State::Done(ends) => Some((port, ends)),
            State::Open => None,
        };
        Some(states.into_iter().filter_map(done).collect())
    }

    /// Starts to follow a port.
    fn enter(
        &self,
        port: End,
        ports: &Ports,
        output: bool,
        sources: &SourceMap,
        sink: &mut Sink,
    ) -> Frame {
        let me = self.router.elements.get(port.0);
        let other = me.and_then(|e| {
            if output {
                e.tunnel_input
            } else {
                e.tunnel_output
            }
        });
        // Behind the input of a tunnel are the connections out of its other end, and the other way round.
        let behind = other.and_then(|o| self.touching[usize::from(output)].get(&(o, port.1)));
        let conns = behind.into_iter().flatten().rev();
        let conns = conns.filter_map(|&i| self.router.conns.get(i));
        let ends: Vec<End> = conns.map(|c| if output { c.from } else { c.to }).collect();
        if ends.is_empty() {
            let span = ports.known.get(&port).copied().unwrap_or(self.router.span);
            self.unused(port, other, span, output, sources, sink);
        }
        Frame {
            port,
            ends,
            next: 0,
            found: Vec::new(),
            seen: HashSet::new(),
        }
    }

    fn unused(
        &self,
        port: End,
        other: Option<usize>,
        span: Span,
        output: bool,
        sources: &SourceMap,
        sink: &mut Sink,
    ) {
        let element = |i: usize| self.router.elements.get(i);
        let (Some(me), Some(other)) = (element(port.0), other.and_then(element)) else {
            return;
        };
        let (input, exit) = if output { (other, me) } else { (me, other) };
        let n = port.1;
        let show = |name: &str| {
            if name.starts_with('@') || name.is_empty() {
                "this compound element or group".to_owned()
            } else {
                format!("'{name}'")
            }
        };
        // Inside, `input` and `output` are used; outside, the compound element or group.
        let message = if exit.name.strip_suffix("/input") == Some(input.name.as_str()) {
            let name = show(&input.name);
            if output {
                format!("input {n} of {name} is used inside it, but nothing is connected to it")
            } else {
                format!("{name} has no input {n}")
            }
        } else {
            let name = show(&exit.name);
            if output {
                format!("{name} has no output {n}")
            } else {
                format!("output {n} of {name} is used inside it, but connected to nothing")
            }
        };
        if !sink.stopped {
            let d = Diagnostic::error(message).at(sources, span);
            sink.push(d.note_at("declared here", sources, me.span));
        }
    }
}
