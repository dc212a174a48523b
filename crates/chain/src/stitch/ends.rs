//! What every port of every function is connected to, and whether that is as it has to be.

use super::{Part, Wiring};
use crate::error::Reader;
use crate::links::PortRef;
use onefold_click::diag::Diagnostic;
use onefold_click::source::Span;
use std::collections::HashMap;

/// What a port of a function is connected to in one direction.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// This one of the links.
    Link(usize),
    /// A port of the chain.
    Port,
    Unused,
}

/// Ports with what they are connected to, and where the operator says so.
pub(super) type Uses = HashMap<PortRef, (Use, Span)>;

/// All ends of links and ports.
pub(super) struct Ends {
    /// Functions by name.
    pub index: HashMap<String, usize>,
    /// Links in one direction each.
    pub links: Vec<(PortRef, PortRef, Span)>,
    /// Ports as outputs.
    pub outs: Uses,
    /// Ports as inputs.
    pub ins: Uses,
}

impl Ends {
    /// Finds them. What is wrong is told to the reader.
    pub fn find(reader: &mut Reader, parts: &[Part], wiring: &Wiring) -> Ends {
        let names = parts.iter().enumerate();
        let mut ends = Ends {
            index: names.map(|(i, p)| (p.info.name.clone(), i)).collect(),
            links: Vec::new(),
            outs: Uses::new(),
            ins: Uses::new(),
        };
        ends.find_links(reader, parts, wiring);
        ends.find_ports(reader, parts, wiring);
        ends.find_unused(reader, parts, wiring);
        ends.check_devices(reader, parts);
        // '<->' and ports for both ways name the same thing twice
        let mut seen: Vec<Diagnostic> = Vec::new();
        for d in std::mem::take(&mut reader.diagnostics) {
            if !seen.contains(&d) {
                seen.push(d);
            }
        }
        reader.diagnostics = seen;
        // what a function that could not be built was linked to is not dangling
        if wiring.failed.is_empty() {
            check_dangling(reader, parts, &ends.outs, &ends.ins);
        }
        check_loops(reader, &ends.links);
        ends
    }

    /// The links, each direction by itself.
    fn find_links(&mut self, reader: &mut Reader, parts: &[Part], wiring: &Wiring) {
        let mut links: Vec<(PortRef, PortRef, Span)> = Vec::new();
        for (l, span) in &wiring.links {
            links.push((l.from.clone(), l.to.clone(), *span));
            if l.both {
                links.push((l.to.clone(), l.from.clone(), *span));
            }
        }
        links.retain(|(a, b, s)| {
            self.known(reader, parts, wiring, a, *s) & self.known(reader, parts, wiring, b, *s)
        });
        for (i, (a, b, s)) in links.iter().enumerate() {
            if a.function == b.function {
                reader.error_hint(
                    *s,
                    format!("'{}' is linked to itself", a.function),
                    "loops between network functions are not allowed; put the loop inside the function",
                );
            }
            claim(&mut self.outs, a, Use::Link(i), *s, "the output", reader);
            claim(&mut self.ins, b, Use::Link(i), *s, "the input", reader);
        }
        self.links = links;
    }

    /// Whether there is such a port. If not, that is told, unless its function could not be built.
    fn known(
        &self,
        reader: &mut Reader,
        parts: &[Part],
        wiring: &Wiring,
        p: &PortRef,
        span: Span,
    ) -> bool {
        let Some(&i) = self.index.get(&p.function) else {
            if wiring.failed.contains(&p.function) {
                return false;
            }
            let names = self.index.keys().map(String::as_str);
            let near = onefold_click::suggest::did_you_mean(&p.function, names);
            let d = Diagnostic::error(format!("no function named '{}'", p.function));
            reader
                .diagnostics
                .push(d.at(&reader.sources, span).maybe_hint(near));
            return false;
        };
        if p.port >= parts[i].info.ports.len() {
            reader.error_hint(
                span,
                format!("'{}' has no port {}", p.function, p.port),
                parts[i].port_list(),
            );
            return false;
        }
        true
    }

    /// The chain's ports.
    fn find_ports(&mut self, reader: &mut Reader, parts: &[Part], wiring: &Wiring) {
        for (_, entry, exit, s) in &wiring.ports {
            if let Some(p) = entry.as_ref()
                && self.known(reader, parts, wiring, p, *s)
            {
                if parts[self.index[&p.function]].reads(p.port) {
                    claim(&mut self.ins, p, Use::Port, *s, "the input", reader);
                } else if exit.as_ref() != Some(p) {
                    let text = "takes no packets: no element reads from its device";
                    reader.error(*s, format!("port {p} {text}"));
                }
            }
            if let Some(p) = exit.as_ref()
                && self.known(reader, parts, wiring, p, *s)
            {
                if parts[self.index[&p.function]].writes(p.port) {
                    claim(&mut self.outs, p, Use::Port, *s, "the output", reader);
                } else if entry.as_ref() != Some(p) {
                    let text = "gives no packets: no element writes to its device";
                    reader.error(*s, format!("port {p} {text}"));
                }
            }
        }
    }

    /// Ports that the operator calls unused.
    fn find_unused(&mut self, reader: &mut Reader, parts: &[Part], wiring: &Wiring) {
        for (p, s) in &wiring.unused {
            if !self.known(reader, parts, wiring, p, *s) {
                continue;
            }
            for map in [&mut self.outs, &mut self.ins] {
                if let Some((_, first)) = map.get(p) {
                    let text = format!("port {p} is connected, and called unused");
                    let d = Diagnostic::error(text).at(&reader.sources, *s);
                    let d = d.note_at("connected here", &reader.sources, *first);
                    reader.diagnostics.push(d);
                }
                map.entry(p.clone()).or_insert((Use::Unused, *s));
            }
        }
    }

    /// What is linked has to have a device that is written to at one end, and one that is read at the other.
    fn check_devices(&self, reader: &mut Reader, parts: &[Part]) {
        for (a, b, s) in &self.links {
            let (pa, pb) = (
                &parts[self.index[&a.function]],
                &parts[self.index[&b.function]],
            );
            if !pa.writes(a.port) {
                let device = &pa.info.ports[a.port];
                let text = "gives no packets: no element writes to device";
                reader.error(*s, format!("port {a} {text} '{device}'"));
            }
            if !pb.reads(b.port) {
                let device = &pb.info.ports[b.port];
                let text = "takes no packets: no element reads device";
                reader.error(*s, format!("port {b} {text} '{device}'"));
            }
        }
    }
}

/// Notes what a port is used for; it may be used once in each direction.
fn claim(map: &mut Uses, p: &PortRef, u: Use, s: Span, way: &str, r: &mut Reader) {
    if let Some((_, first)) = map.get(p) {
        let d = Diagnostic::error(format!("{way} of port {p} is connected twice"));
        let d = d
            .at(&r.sources, s)
            .note_at("first here", &r.sources, *first);
        r.diagnostics.push(d);
    } else {
        map.insert(p.clone(), (u, s));
    }
}

/// Every port of every function must be linked, be a port of the chain, or be called unused.
fn check_dangling(reader: &mut Reader, parts: &[Part], outs: &Uses, ins: &Uses) {
    for part in parts {
        for (n, dev) in part.info.ports.iter().enumerate() {
            let p = PortRef {
                function: part.info.name.clone(),
                port: n,
            };
            let out_missing = part.sinks.contains_key(&n) && !outs.contains_key(&p);
            let in_missing =
                part.sources.contains_key(&n) && !ins.contains_key(&p) && !outs.contains_key(&p);
            if out_missing || in_missing {
                let way = if out_missing {
                    "what leaves there goes nowhere"
                } else {
                    "nothing can arrive there"
                };
                let hint =
                    format!("link it, make it a port of the chain, or add '{p}' under 'unused'");
                reader.error_hint(
                    part.span,
                    format!("dangling port {p} (device '{dev}'): {way}"),
                    hint,
                );
            }
        }
    }
}

/// Loops between functions: a cycle of links, not counting those that only lead back over the same pair of ports.
fn check_loops(reader: &mut Reader, links: &[(PortRef, PortRef, Span)]) {
    let mut forward: Vec<(&PortRef, &PortRef, Span)> = Vec::new();
    for (a, b, s) in links {
        if !forward.iter().any(|(x, y, _)| *x == b && *y == a) {
            forward.push((a, b, *s));
        }
    }
    // Remove functions without incoming links until none is left (Kahn): what stays is on or behind a cycle.
    let mut left: Vec<&(&PortRef, &PortRef, Span)> = forward.iter().collect();
    loop {
        let before = left.len();
        let targets: Vec<String> = left.iter().map(|(_, b, _)| b.function.clone()).collect();
        left.retain(|(a, _, _)| targets.contains(&a.function));
        let sources: Vec<String> = left.iter().map(|(a, _, _)| a.function.clone()).collect();
        left.retain(|(_, b, _)| sources.contains(&b.function));
        if left.len() == before {
            break;
        }
    }
    if let Some((a, b, s)) = left.last() {
        let mut names: Vec<&str> = left.iter().map(|(a, _, _)| a.function.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        reader.error_hint(
            *s,
            format!("the link {a} -> {b} closes a loop between network functions: {}", names.join(", ")),
            "a chain has no loops between functions; traffic back over the same two ports is written with '<->'",
        );
    }
}
