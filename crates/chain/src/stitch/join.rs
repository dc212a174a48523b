//! The functions' graphs become one: linked sources disappear, linked sinks become links.

use super::ends::{Ends, Use, Uses};
use super::{Chain, ChainPort, DOORS, MAX_ELEMENTS, Part, Wiring};
use crate::error::Reader;
use crate::links::PortRef;
use crate::places::{self, Places};
use crate::rounds::{self, LinkEnds};
use onefold_click::diag::Diagnostic;
use onefold_element::{ConnectionSpec, ElementSpec};
use std::collections::HashMap;

/// Where elements of the functions are in the chain's graph, by function and element; `None` for those that have
/// disappeared.
type Placed = Vec<Vec<Option<usize>>>;

/// Makes the graph and the ports of a chain whose ends are right.
pub(super) fn join(
    reader: &mut Reader,
    chain: &mut Chain,
    parts: &[Part],
    wiring: &Wiring,
    ends: &Ends,
) {
    add_addresses(reader, chain, wiring);
    let placed: Placed = (parts.iter())
        .map(|part| add_elements(reader, chain, parts, part, ends))
        .collect();
    connect_within(reader, chain, parts, &placed);
    let links = connect_links(reader, chain, parts, ends, &placed);
    name_links(chain, &links);
    rounds::guard(&mut chain.graph, &links);
    add_ports(chain, parts, wiring, ends, &placed);
    if chain.graph.elements.len() > MAX_ELEMENTS {
        reader.diagnostics.push(Diagnostic::error(format!(
            "the chain has {} elements, more than {MAX_ELEMENTS}",
            chain.graph.elements.len()
        )));
    }
}

/// The chain file's named addresses.
fn add_addresses(reader: &Reader, chain: &mut Chain, wiring: &Wiring) {
    if wiring.addresses.is_empty() {
        return;
    }
    let named = wiring.addresses.iter();
    chain.graph.elements.push(ElementSpec {
        name: "addresses".into(),
        class: "AddressInfo".into(),
        args: named.map(|(n, a)| format!("{n} {}", a.join(" "))).collect(),
        decl: places::place(&reader.sources, wiring.whole),
        ..Default::default()
    });
}

/// The elements of one function. Sources that are linked disappear, sinks that are linked become NFLink.
fn add_elements(
    reader: &mut Reader,
    chain: &mut Chain,
    parts: &[Part],
    part: &Part,
    ends: &Ends,
) -> Vec<Option<usize>> {
    let mut placed = vec![None; part.graph.elements.len()];
    let mut places = Places::new(part, &reader.sources);
    for (i, e) in part.graph.elements.iter().enumerate() {
        if DOORS.contains(&e.class.as_str()) {
            check_door(reader, part, ends, i, &e.class);
        }
        let linked = part.sources.iter().any(|(port, v)| {
            v.contains(&i) && matches!(used(&ends.ins, part, *port), Some(Use::Link(_)))
        });
        if linked {
            continue;
        }
        placed[i] = Some(chain.graph.elements.len());
        let mut spec = element_spec(&part.info.name, e, &mut places);
        if let Some(port) = port_of(&part.sinks, i) {
            connect_sink(&mut spec, parts, part, ends, port);
        }
        // A device that nothing can arrive at: called unused, or a port of the chain that only gives packets.
        if let Some(port) = port_of(&part.sources, i)
            && !matches!(used(&ends.ins, part, port), Some(Use::Port))
        {
            become_plain(&mut spec, "Idle");
        }
        if part.empty_queues.contains(&i) {
            become_plain(&mut spec, "Idle");
        }
        chain.graph.elements.push(spec);
    }
    placed
}

/// What a port of a function is used for.
fn used(uses: &Uses, part: &Part, port: usize) -> Option<Use> {
    let p = PortRef {
        function: part.info.name.clone(),
        port,
    };
    uses.get(&p).map(|(u, _)| *u)
}

/// The port whose device an element reads or writes.
fn port_of(devices: &HashMap<usize, Vec<usize>>, element: usize) -> Option<usize> {
    devices
        .iter()
        .find(|(_, v)| v.contains(&element))
        .map(|(port, _)| *port)
}

/// One element for both ways cannot give way to a link.
fn check_door(reader: &mut Reader, part: &Part, ends: &Ends, element: usize, class: &str) {
    let port = port_of(&part.sources, element).unwrap_or(0);
    let open = |uses| matches!(used(uses, part, port), Some(Use::Port));
    if !open(&ends.ins) || !open(&ends.outs) {
        let name = &part.info.name;
        let p = PortRef {
            function: name.clone(),
            port,
        };
        reader.error_hint(
            part.span,
            format!("{p}: a {class} can be an entry and exit of the chain, not a link"),
            "use FromDevice and ToDevice for what other functions are linked to",
        );
    }
}

/// Makes of a sink what its port is used for.
fn connect_sink(spec: &mut ElementSpec, parts: &[Part], part: &Part, ends: &Ends, port: usize) {
    match used(&ends.outs, part, port) {
        Some(Use::Link(l)) => {
            let to = &ends.links[l].1;
            let mac = parts[ends.index[&to.function]].macs.get(to.port);
            spec.class = "NFLink".into();
            spec.args = mac.map(|m| format!("ETHER {m}")).into_iter().collect();
            spec.arg_locs.clear();
        }
        Some(Use::Port) => {}
        Some(Use::Unused) | None => {
            become_plain(spec, "Discard");
            spec.args = vec![format!("REASON \"sent to port {port}, which is unused\"")];
            spec.arg_locs = vec![spec.decl.clone()];
        }
    }
}

/// Connections inside functions.
fn connect_within(reader: &Reader, chain: &mut Chain, parts: &[Part], placed: &Placed) {
    for (part, map) in parts.iter().zip(placed) {
        let mut places = Places::new(part, &reader.sources);
        for c in &part.graph.connections {
            if let (Some(f), Some(t)) = (map[c.from.element], map[c.to.element]) {
                chain.graph.connections.push(ConnectionSpec {
                    from: (f, c.from.port),
                    to: (t, c.to.port),
                    loc: places.of(c.span),
                });
            }
        }
    }
}

/// Links: every NFLink of the output port to what the removed source fed.
fn connect_links(
    reader: &Reader,
    chain: &mut Chain,
    parts: &[Part],
    ends: &Ends,
    placed: &Placed,
) -> Vec<LinkEnds> {
    let mut all: Vec<LinkEnds> = Vec::with_capacity(ends.links.len());
    for (a, b, s) in &ends.links {
        let (ia, ib) = (ends.index[&a.function], ends.index[&b.function]);
        let loc = places::place(&reader.sources, *s);
        let connections = &parts[ib].graph.connections;
        let fed: Vec<_> = parts[ib].sources[&b.port]
            .iter()
            .flat_map(|src| connections.iter().filter(move |c| c.from.element == *src))
            .collect();
        let sinks = parts[ia].sinks[&a.port].iter();
        let entries = fed.iter();
        all.push(LinkEnds {
            from: (ia, a.port),
            to: (ib, b.port),
            sinks: sinks.filter_map(|s| placed[ia][*s]).collect(),
            entries: entries
                .filter_map(|c| Some((placed[ib][c.to.element]?, c.to.port)))
                .collect(),
        });
        for sink in &parts[ia].sinks[&a.port] {
            for c in &fed {
                if let (Some(f), Some(t)) = (placed[ia][*sink], placed[ib][c.to.element]) {
                    chain.graph.connections.push(ConnectionSpec {
                        from: (f, 0),
                        to: (t, c.to.port),
                        loc: loc.clone(),
                    });
                }
            }
        }
    }
    all
}

/// Names the elements of each link, which stay where they are.
fn name_links(chain: &mut Chain, links: &[LinkEnds]) {
    for (info, ends) in chain.links.iter_mut().zip(links) {
        let crossed = ends
            .sinks
            .iter()
            .filter_map(|i| chain.graph.elements.get(*i));
        info.elements = crossed.map(|e| e.name.clone()).collect();
    }
}

/// The chain's ports: where packets enter, and where they leave.
fn add_ports(chain: &mut Chain, parts: &[Part], wiring: &Wiring, ends: &Ends, placed: &Placed) {
    for (name, entry, exit, _) in &wiring.ports {
        let source = entry.as_ref().and_then(|p| {
            let i = *ends.index.get(&p.function)?;
            placed[i][*parts[i].sources.get(&p.port)?.first()?]
        });
        let sinks = exit.as_ref().map_or(Vec::new(), |p| {
            let i = ends.index[&p.function];
            let sinks = parts[i].sinks.get(&p.port).into_iter().flatten();
            sinks.filter_map(|e| placed[i][*e]).collect()
        });
        let at = entry.as_ref().or(exit.as_ref());
        chain.ports.push(ChainPort {
            name: name.clone(),
            source,
            sinks,
            at: at.map_or(String::new(), |p| p.to_string()),
        });
    }
}

/// Turns a device element into one without configuration.
fn become_plain(spec: &mut ElementSpec, class: &str) {
    spec.class = class.into();
    spec.args.clear();
    spec.arg_locs.clear();
}

fn element_spec(
    function: &str,
    e: &onefold_click::FlatElement,
    places: &mut Places<'_>,
) -> ElementSpec {
    let decl = places.of(e.span);
    let args = e.args();
    ElementSpec {
        name: format!("{function}/{}", e.name),
        class: e.class.clone(),
        arg_locs: args
            .iter()
            .map(|a| a.span().map_or_else(|| decl.clone(), |s| places.of(s)))
            .collect(),
        args: args.iter().map(|a| a.as_str().to_string()).collect(),
        decl,
    }
}
