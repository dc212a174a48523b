//! Stitching: the functions' graphs become one, the device pairs between them disappear.

use crate::error::Reader;
use crate::links::{Link, PortRef};
use crate::places::{self, Places};
use crate::rounds::{self, LinkEnds};
use crate::rules::ListedRule;
use indexmap::IndexMap;
use onefold_click::FlatGraph;
use onefold_click::source::Span;
use onefold_element::{ConnectionSpec, ElementSpec, GraphSpec};
use std::collections::HashMap;

/// Most elements of a stitched graph.
pub const MAX_ELEMENTS: usize = 1 << 20;

/// A service chain, ready to be run.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// All elements; an element's network function is the first component of its name.
    pub graph: GraphSpec,
    /// The chain's ports, in the order of the chain file.
    pub ports: Vec<ChainPort>,
    /// The network functions.
    pub functions: Vec<FunctionInfo>,
    /// The links between them.
    pub links: Vec<LinkInfo>,
    /// Remarks; no errors.
    pub warnings: Vec<onefold_click::diag::Diagnostic>,
}

/// A port of the chain.
#[derive(Debug, Clone)]
pub struct ChainPort {
    /// Its name.
    pub name: String,
    /// The element (index) that packets enter through.
    pub source: Option<usize>,
    /// The elements (indices) that packets leave through.
    pub sinks: Vec<usize>,
    /// The function's port.
    pub at: String,
}

/// A network function of a chain.
#[derive(Debug, Clone)]
pub struct FunctionInfo {
    /// Its name.
    pub name: String,
    /// `click`, `firewall`, `router` ...
    pub kind: &'static str,
    /// Its graph as Click text, before it was stitched.
    pub click: String,
    /// Device names of its ports, by number.
    pub ports: Vec<String>,
    /// The operator's rules, list by list.
    pub rules: Vec<ListedRule>,
}

/// A link of a chain, one way.
#[derive(Debug, Clone)]
pub struct LinkInfo {
    /// `fw[1]`
    pub from: String,
    /// `router[0]`
    pub to: String,
}

/// A function's graph with its devices found.
pub(crate) struct Part {
    pub info: FunctionInfo,
    pub graph: FlatGraph,
    /// Port number -> elements that packets enter through (normally one).
    sources: HashMap<usize, Vec<usize>>,
    /// Port number -> elements that packets leave through.
    sinks: HashMap<usize, Vec<usize>>,
    /// MAC addresses by port.
    pub macs: Vec<String>,
    pub span: Span,
}

/// Classes that stand for a device that packets enter through.
const SOURCES: &[&str] = &[
    "FromDevice",
    "PollDevice",
    "FromDPDKDevice",
    "FromNetmapDevice",
    "FromDump",
    "FromHost",
];
/// Classes that stand for a device that packets leave through.
const SINKS: &[&str] = &[
    "ToDevice",
    "ToDPDKDevice",
    "ToNetmapDevice",
    "ToDump",
    "ToHost",
];

/// Classes that are both.
const DOORS: &[&str] = &["KernelTun", "KernelTap"];

/// The device name in an I/O element's configuration.
fn device_of(e: &onefold_click::FlatElement) -> Option<String> {
    let args = e.args();
    // "WORD VALUE", as opposed to a value alone
    let keyword = |a: &onefold_click::SrcText| {
        let (k, v) = a.shift_word();
        let is = k.as_str().starts_with(|c: char| c.is_ascii_alphabetic()) && !v.trim().is_empty();
        is.then(|| (k.as_str().to_string(), v.trim().to_string()))
    };
    let keyed = args
        .iter()
        .filter_map(keyword)
        .find_map(|(k, v)| match k.as_str() {
            "DEVNAME" | "DEV_NAME" | "PORT" | "FILENAME" | "DEV" => Some(v),
            _ => None,
        });
    let first = || {
        args.iter()
            .find(|a| keyword(a).is_none())
            .map(|a| a.as_str().to_string())
    };
    // the host itself needs no name
    let host = || (e.class == "ToHost").then(|| "host".to_string());
    let text = if DOORS.contains(&e.class.as_str()) {
        // the first argument is an address
        let kind = e.class.trim_start_matches("Kernel").to_ascii_lowercase();
        keyed.or(Some(kind))?
    } else {
        keyed.or_else(first).or_else(host)?
    };
    Some(String::from_utf8_lossy(&onefold_click::conf::unquote(&text)).into_owned())
}

impl Part {
    /// Finds the devices of a function's graph. `names`: device names by port number, if given.
    pub fn new(
        reader: &mut Reader,
        mut info: FunctionInfo,
        graph: FlatGraph,
        names: Option<Vec<(String, Span)>>,
        macs: Vec<String>,
        span: Span,
    ) -> Part {
        let mut ports: IndexMap<String, (Vec<usize>, Vec<usize>)> = IndexMap::new();
        for (n, _) in names.iter().flatten() {
            ports.entry(n.clone()).or_default();
        }
        let given = ports.len();
        for (i, e) in graph.elements.iter().enumerate() {
            let door = DOORS.contains(&e.class.as_str());
            let is_source = door || SOURCES.contains(&e.class.as_str());
            let is_sink = door || SINKS.contains(&e.class.as_str());
            if !is_source && !is_sink {
                continue;
            }
            let Some(dev) = device_of(e) else {
                let d = onefold_click::diag::Diagnostic::error(format!(
                    "{}: {} names no device",
                    info.name, e.class
                ));
                reader.diagnostics.push(d.at(&graph.sources, e.span));
                continue;
            };
            let entry = ports.entry(dev).or_default();
            if is_source {
                entry.0.push(i);
            }
            if is_sink {
                entry.1.push(i);
            }
        }
        for (n, s) in names.iter().flatten() {
            if ports
                .get(n)
                .is_some_and(|(a, b)| a.is_empty() && b.is_empty())
            {
                reader.error(*s, format!("{}: no device element uses '{n}'", info.name));
            }
        }
        if names.is_some() && ports.len() > given {
            let extra: Vec<&str> = ports.keys().skip(given).map(String::as_str).collect();
            reader.error_hint(
                span,
                format!("{}: devices without a port number: {}", info.name, extra.join(", ")),
                "list every device of the configuration under 'ports', in the order of the port numbers",
            );
        }
        // Kinds name their devices by port number: sort them so.
        if names.is_none() && ports.keys().all(|k| k.parse::<usize>().is_ok()) {
            ports.sort_by_key(|k, _| k.parse::<usize>().unwrap_or(0));
        }
        let mut part = Part {
            info: info.clone(),
            graph,
            sources: HashMap::new(),
            sinks: HashMap::new(),
            macs,
            span,
        };
        for (n, (dev, (src, snk))) in ports.into_iter().enumerate() {
            if src.len() > 1 {
                reader.error(
                    span,
                    format!(
                        "{}: two elements read from device '{dev}'; one must",
                        info.name
                    ),
                );
            }
            info.ports.push(dev);
            if !src.is_empty() {
                part.sources.insert(n, src);
            }
            if !snk.is_empty() {
                part.sinks.insert(n, snk);
            }
        }
        part.info = info;
        part
    }

    /// Does an element read from port `n`'s device?
    pub fn reads(&self, n: usize) -> bool {
        self.sources.contains_key(&n)
    }
    /// Does an element write to port `n`'s device?
    pub fn writes(&self, n: usize) -> bool {
        self.sinks.contains_key(&n)
    }

    fn port_list(&self) -> String {
        let list: Vec<String> = self
            .info
            .ports
            .iter()
            .enumerate()
            .map(|(i, d)| format!("{i} ({d})"))
            .collect();
        if list.is_empty() {
            "it has none".to_string()
        } else {
            format!("it has {}", list.join(", "))
        }
    }
}

/// Links and ports of the chain with their places.
pub(crate) struct Wiring {
    pub links: Vec<(Link, Span)>,
    /// name, entry, exit, place
    pub ports: Vec<(String, Option<PortRef>, Option<PortRef>, Span)>,
    pub unused: Vec<(PortRef, Span)>,
    /// Functions that could not be built: what is said of them elsewhere is not worth an error of its own.
    pub failed: Vec<String>,
    /// `name -> addresses`, for a top-level AddressInfo.
    pub addresses: Vec<(String, Vec<String>)>,
    /// The chain file: where what it says stands that has no place of its own.
    pub whole: Span,
}

/// What an output port of a function is connected to.
#[derive(Clone, Copy)]
enum Use {
    Link(usize),
    Port,
    Unused,
}

/// Stitches. Errors go to the reader; the result is meaningful only if there are none.
pub(crate) fn stitch(
    reader: &mut Reader,
    name: String,
    description: String,
    parts: Vec<Part>,
    wiring: Wiring,
) -> Chain {
    let index: HashMap<String, usize> = parts
        .iter()
        .enumerate()
        .map(|(i, p)| (p.info.name.clone(), i))
        .collect();
    // one-way links
    let mut links: Vec<(PortRef, PortRef, Span)> = Vec::new();
    for (l, span) in &wiring.links {
        links.push((l.from.clone(), l.to.clone(), *span));
        if l.both {
            links.push((l.to.clone(), l.from.clone(), *span));
        }
    }
    let known = |p: &PortRef, span: Span, reader: &mut Reader| -> bool {
        let Some(&i) = index.get(&p.function) else {
            if wiring.failed.contains(&p.function) {
                return false;
            }
            let near =
                onefold_click::suggest::did_you_mean(&p.function, index.keys().map(String::as_str));
            let d = onefold_click::diag::Diagnostic::error(format!(
                "no function named '{}'",
                p.function
            ));
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
    };
    links.retain(|(a, b, s)| known(a, *s, reader) & known(b, *s, reader));
    let mut outs: HashMap<PortRef, (Use, Span)> = HashMap::new();
    let mut ins: HashMap<PortRef, (Use, Span)> = HashMap::new();
    let claim = |map: &mut HashMap<PortRef, (Use, Span)>,
                 p: &PortRef,
                 u: Use,
                 s: Span,
                 way: &str,
                 r: &mut Reader| {
        if let Some((_, first)) = map.get(p) {
            let d = onefold_click::diag::Diagnostic::error(format!(
                "{way} of port {p} is connected twice"
            ));
            let d = d
                .at(&r.sources, s)
                .note_at("first here", &r.sources, *first);
            r.diagnostics.push(d);
        } else {
            map.insert(p.clone(), (u, s));
        }
    };
    for (i, (a, b, s)) in links.iter().enumerate() {
        if a.function == b.function {
            reader.error_hint(
                *s,
                format!("'{}' is linked to itself", a.function),
                "loops between network functions are not allowed; put the loop inside the function",
            );
        }
        claim(&mut outs, a, Use::Link(i), *s, "the output", reader);
        claim(&mut ins, b, Use::Link(i), *s, "the input", reader);
    }
    for (_, entry, exit, s) in &wiring.ports {
        if let Some(p) = entry.as_ref().filter(|p| known(p, *s, reader)) {
            if parts[index[&p.function]].sources.contains_key(&p.port) {
                claim(&mut ins, p, Use::Port, *s, "the input", reader);
            } else if exit.as_ref() != Some(p) {
                reader.error(
                    *s,
                    format!("port {p} takes no packets: no element reads from its device"),
                );
            }
        }
        if let Some(p) = exit.as_ref().filter(|p| known(p, *s, reader)) {
            if parts[index[&p.function]].sinks.contains_key(&p.port) {
                claim(&mut outs, p, Use::Port, *s, "the output", reader);
            } else if entry.as_ref() != Some(p) {
                reader.error(
                    *s,
                    format!("port {p} gives no packets: no element writes to its device"),
                );
            }
        }
    }
    for (p, s) in &wiring.unused {
        if known(p, *s, reader) {
            for map in [&mut outs, &mut ins] {
                if let Some((_, first)) = map.get(p) {
                    let d = onefold_click::diag::Diagnostic::error(format!(
                        "port {p} is connected, and called unused"
                    ));
                    let d = d.at(&reader.sources, *s).note_at(
                        "connected here",
                        &reader.sources,
                        *first,
                    );
                    reader.diagnostics.push(d);
                }
                map.entry(p.clone()).or_insert((Use::Unused, *s));
            }
        }
    }
    for (a, b, s) in &links {
        let (pa, pb) = (&parts[index[&a.function]], &parts[index[&b.function]]);
        if !pa.sinks.contains_key(&a.port) {
            reader.error(
                *s,
                format!(
                    "port {a} gives no packets: no element writes to device '{}'",
                    pa.info.ports[a.port]
                ),
            );
        }
        if !pb.sources.contains_key(&b.port) {
            reader.error(
                *s,
                format!(
                    "port {b} takes no packets: no element reads device '{}'",
                    pb.info.ports[b.port]
                ),
            );
        }
    }
    // '<->' and ports for both ways name the same thing twice
    let mut seen: Vec<onefold_click::diag::Diagnostic> = Vec::new();
    for d in std::mem::take(&mut reader.diagnostics) {
        if !seen.contains(&d) {
            seen.push(d);
        }
    }
    reader.diagnostics = seen;
    if wiring.failed.is_empty() {
        // what a function that could not be built was linked to is not dangling
        if wiring.failed.is_empty() {
            check_dangling(reader, &parts, &outs, &ins);
        }
    }
    check_loops(reader, &links);

    let mut chain = Chain {
        name,
        description,
        graph: GraphSpec::default(),
        ports: Vec::new(),
        functions: parts.iter().map(|p| p.info.clone()).collect(),
        links: links
            .iter()
            .map(|(a, b, _)| LinkInfo {
                from: a.to_string(),
                to: b.to_string(),
            })
            .collect(),
        warnings: Vec::new(),
    };
    if !reader.ok() {
        return chain;
    }
    if !wiring.addresses.is_empty() {
        let args: Vec<String> = wiring
            .addresses
            .iter()
            .map(|(n, a)| format!("{n} {}", a.join(" ")))
            .collect();
        chain.graph.elements.push(ElementSpec {
            name: "addresses".into(),
            class: "AddressInfo".into(),
            args,
            decl: places::place(&reader.sources, wiring.whole),
            ..Default::default()
        });
    }
    // elements: sources that are linked disappear, sinks that are linked become NFLink
    let mut place: Vec<Vec<Option<usize>>> = Vec::new();
    for part in &parts {
        let mut map = vec![None; part.graph.elements.len()];
        let linked_source = |i: usize| {
            part.sources.iter().any(|(port, v)| {
                let p = PortRef {
                    function: part.info.name.clone(),
                    port: *port,
                };
                v.contains(&i) && matches!(ins.get(&p), Some((Use::Link(_), _)))
            })
        };
        let mut places = Places::new(part, &reader.sources);
        for (i, e) in part.graph.elements.iter().enumerate() {
            if DOORS.contains(&e.class.as_str()) {
                // one element for both ways cannot give way to a link
                let port = part.sources.iter().find(|(_, v)| v.contains(&i));
                let p = PortRef {
                    function: part.info.name.clone(),
                    port: port.map_or(0, |(n, _)| *n),
                };
                let open =
                    |m: &HashMap<PortRef, (Use, Span)>| matches!(m.get(&p), Some((Use::Port, _)));
                if !open(&ins) || !open(&outs) {
                    reader.error_hint(
                        part.span,
                        format!(
                            "{p}: a {} can be an entry and exit of the chain, not a link",
                            e.class
                        ),
                        "use FromDevice and ToDevice for what other functions are linked to",
                    );
                }
            }
            if linked_source(i) {
                continue;
            }
            map[i] = Some(chain.graph.elements.len());
            let mut spec = element_spec(&part.info.name, e, &mut places);
            let sink_port = part
                .sinks
                .iter()
                .find(|(_, v)| v.contains(&i))
                .map(|(p, _)| *p);
            if let Some(port) = sink_port {
                let p = PortRef {
                    function: part.info.name.clone(),
                    port,
                };
                match outs.get(&p) {
                    Some((Use::Link(l), _)) => {
                        let to = &links[*l].1;
                        let mac = parts[index[&to.function]].macs.get(to.port);
                        spec.class = "NFLink".into();
                        spec.args = mac.map(|m| format!("ETHER {m}")).into_iter().collect();
                        spec.arg_locs.clear();
                    }
                    Some((Use::Port, _)) => {}
                    Some((Use::Unused, _)) | None => {
                        become_plain(&mut spec, "Discard");
                        spec.args =
                            vec![format!("REASON \"sent to port {port}, which is unused\"")];
                        spec.arg_locs = vec![spec.decl.clone()];
                    }
                }
            }
            // A device that nothing can arrive at: called unused, or a port of the chain that only gives packets.
            let source_port = part
                .sources
                .iter()
                .find(|(_, v)| v.contains(&i))
                .map(|(p, _)| *p);
            if let Some(port) = source_port {
                let p = PortRef {
                    function: part.info.name.clone(),
                    port,
                };
                if !matches!(ins.get(&p), Some((Use::Port, _))) {
                    become_plain(&mut spec, "Idle");
                }
            }
            chain.graph.elements.push(spec);
        }
        place.push(map);
    }
    // connections inside functions
    for (part, map) in parts.iter().zip(&place) {
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
    // links: every NFLink of the output port to what the removed source fed
    let mut ends: Vec<LinkEnds> = Vec::with_capacity(links.len());
    for (a, b, s) in &links {
        let (ia, ib) = (index[&a.function], index[&b.function]);
        let loc = places::place(&reader.sources, *s);
        let fed: Vec<_> = parts[ib].sources[&b.port]
            .iter()
            .flat_map(|src| {
                parts[ib]
                    .graph
                    .connections
                    .iter()
                    .filter(move |c| c.from.element == *src)
            })
            .collect();
        let inputs = fed.iter();
        let sinks = parts[ia].sinks[&a.port].iter();
        ends.push(LinkEnds {
            from: (ia, a.port),
            to: (ib, b.port),
            sinks: sinks.filter_map(|s| place[ia][*s]).collect(),
            entries: inputs
                .filter_map(|c| Some((place[ib][c.to.element]?, c.to.port)))
                .collect(),
        });
        for sink in &parts[ia].sinks[&a.port] {
            for c in &fed {
                if let (Some(f), Some(t)) = (place[ia][*sink], place[ib][c.to.element]) {
                    chain.graph.connections.push(ConnectionSpec {
                        from: (f, 0),
                        to: (t, c.to.port),
                        loc: loc.clone(),
                    });
                }
            }
        }
    }
    rounds::guard(&mut chain.graph, &ends);
    for (name, entry, exit, _) in &wiring.ports {
        let source = entry.as_ref().and_then(|p| {
            let i = *index.get(&p.function)?;
            place[i][*parts[i].sources.get(&p.port)?.first()?]
        });
        let sinks = exit.as_ref().map_or(Vec::new(), |p| {
            let i = index[&p.function];
            parts[i]
                .sinks
                .get(&p.port)
                .into_iter()
                .flatten()
                .filter_map(|e| place[i][*e])
                .collect()
        });
        let at = entry
            .as_ref()
            .or(exit.as_ref())
            .map_or(String::new(), |p| p.to_string());
        chain.ports.push(ChainPort {
            name: name.clone(),
            source,
            sinks,
            at,
        });
    }
    if chain.graph.elements.len() > MAX_ELEMENTS {
        reader
            .diagnostics
            .push(onefold_click::diag::Diagnostic::error(format!(
                "the chain has {} elements, more than {MAX_ELEMENTS}",
                chain.graph.elements.len()
            )));
    }
    chain
}

/// Every port of every function must be linked, be a port of the chain, or be called unused.
fn check_dangling(
    reader: &mut Reader,
    parts: &[Part],
    outs: &HashMap<PortRef, (Use, Span)>,
    ins: &HashMap<PortRef, (Use, Span)>,
) {
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
