//! Stitching: the functions' graphs become one, the device pairs between them disappear.
//!
//! Which ports are linked, and whether that is right, is found out first (`ends`); then the one graph is made (`join`).

mod ends;
mod join;

use crate::cores::Cores;
use crate::error::Reader;
use crate::kinds::external::BlackBox;
use crate::kinds::load_balancer::{Balanced, HealthPlan};
use crate::kinds::native::NativeProgram;
use crate::links::{Link, PortRef};
use crate::placement::{Interconnect, Placement};
use crate::rules::ListedRule;
use crate::stitch::ends::Ends;
use indexmap::IndexMap;
use onefold_click::FlatGraph;
use onefold_click::source::Span;
use onefold_element::GraphSpec;
use std::collections::HashMap;
use std::sync::Arc;

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
    /// How its functions in processes of their own are to share cores, if the file says so.
    pub schedule: Option<onefold_sched::spec::Spec>,
    /// Remarks; no errors.
    pub warnings: Vec<onefold_click::diag::Diagnostic>,
    /// How functions in processes of their own are connected.
    pub interconnect: Interconnect,
    /// Who runs on which core.
    pub cores: Cores,
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
    /// Of a load balancer whose servers may be down: how that is found out.
    pub health: Option<HealthPlan>,
    /// Of a load balancer: its servers.
    pub balanced: Option<Balanced>,
    /// Where it runs.
    pub placement: Placement,
    /// Of a function that is a program of its own: what is launched.
    pub native: Option<NativeProgram>,
    /// Of a black box: what is made.
    pub external: Option<Arc<BlackBox>>,
}

/// A link of a chain, one way.
#[derive(Debug, Clone)]
pub struct LinkInfo {
    /// `fw[1]`
    pub from: String,
    /// `router[0]`
    pub to: String,
    /// Names of the elements that packets cross it by, each of which counts them.
    pub elements: Vec<String>,
}

/// A function's graph with its devices found.
pub(crate) struct Part {
    pub info: FunctionInfo,
    pub graph: FlatGraph,
    /// Port number -> elements that packets enter through (normally one).
    sources: HashMap<usize, Vec<usize>>,
    /// Port number -> elements that packets leave through.
    sinks: HashMap<usize, Vec<usize>>,
    /// Elements that read a queue of a device that nothing arrives at.
    empty_queues: Vec<usize>,
    /// MAC addresses by port.
    pub macs: Vec<String>,
    pub span: Span,
}

/// Classes that stand for a device that packets enter through.
const SOURCES: &[&str] = &[
    "FromDevice",
    "PollDevice",
    "FromDPDKDevice",
    "FromDPDKRing",
    "FromNetmapDevice",
    "FromDump",
    "FromHost",
];
/// Classes that stand for a device that packets leave through.
const SINKS: &[&str] = &[
    "ToDevice",
    "ToDPDKDevice",
    "ToDPDKRing",
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
            "FROM_PROC" if e.class.ends_with("DPDKRing") => Some(v),
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

/// The queue of its device that an element reads, where it names one.
fn queue_of(e: &onefold_click::FlatElement) -> Option<u32> {
    if !matches!(e.class.as_str(), "FromDPDKDevice" | "FromNetmapDevice") {
        return None;
    }
    let args = e.args();
    let mut keyed = args.iter().filter_map(|a| {
        let (k, v) = a.shift_word();
        (k.as_str() == "QUEUE").then(|| v.as_str().trim().to_string())
    });
    let second = || args.get(1).map(|a| a.as_str().trim().to_string());
    keyed.next().or_else(second)?.parse().ok()
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
            empty_queues: Vec::new(),
            macs,
            span,
        };
        for (n, (dev, (src, snk))) in ports.into_iter().enumerate() {
            let src = part.one_source(reader, &dev, src);
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

    /// The one element that packets of a device enter through. Of several that read a queue each it is that of the
    /// lowest one: a port has one queue, and the others are always empty.
    fn one_source(&mut self, reader: &mut Reader, device: &str, all: Vec<usize>) -> Vec<usize> {
        if all.len() < 2 {
            return all;
        }
        let name = &self.info.name;
        let mut queues: Vec<(u32, usize)> = (all.iter())
            .filter_map(|i| Some((queue_of(&self.graph.elements[*i])?, *i)))
            .collect();
        queues.sort_unstable();
        let apart = queues.windows(2).all(|w| w[0].0 != w[1].0);
        if queues.len() < all.len() || !apart {
            let text = format!("{name}: two elements read from device '{device}'; one must");
            let hint = "elements that read a queue each (QUEUE 0, QUEUE 1) can be several";
            reader.error_hint(self.span, text, hint);
            return all;
        }
        let first = queues.remove(0);
        let text = format!(
            "{name}: a port has one queue: packets of device '{device}' enter through queue {}, the other {} are empty",
            first.0,
            queues.len()
        );
        let d = onefold_click::diag::Diagnostic::warning(text);
        reader.diagnostics.push(d.at(&reader.sources, self.span));
        self.empty_queues.extend(queues.iter().map(|(_, i)| *i));
        vec![first.1]
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

/// Stitches. Errors go to the reader; the result is meaningful only if there are none.
pub(crate) fn stitch(
    reader: &mut Reader,
    name: String,
    description: String,
    parts: Vec<Part>,
    wiring: Wiring,
) -> Chain {
    let ends = Ends::find(reader, &parts, &wiring);
    let mut chain = Chain {
        name,
        description,
        graph: GraphSpec::default(),
        ports: Vec::new(),
        functions: parts.iter().map(|p| p.info.clone()).collect(),
        links: ends
            .links
            .iter()
            .map(|(a, b, _)| LinkInfo {
                from: a.to_string(),
                to: b.to_string(),
                elements: Vec::new(),
            })
            .collect(),
        schedule: None,
        warnings: Vec::new(),
        interconnect: Interconnect::default(),
        cores: Cores::default(),
    };
    if reader.ok() {
        join::join(reader, &mut chain, &parts, &wiring, &ends);
    }
    chain
}
