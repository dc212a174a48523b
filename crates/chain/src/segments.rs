//! A chain some of whose functions run in processes of their own, cut where packets go from one to another.
//!
//! A *segment* is what one process runs: a function with `run: process` by itself, or functions that are inline and
//! linked to each other. Segments are cut out of the stitched graph, so that what a segment does is what its elements
//! do in the whole one: the link's `NFLink` goes to the segment that packets arrive in, with a device in front of it;
//! the segment that they leave has a device in its place. Between the two devices the packet's bytes, its time and
//! what a link keeps of its annotations ([`ROUNDS`]) are handed over, which is all that an `NFLink` leaves of a
//! packet. A segment keeps the places of all elements of the chain (those of others' are taken by elements that do
//! nothing): what is drawn by chance goes by an element's number, and is the same.

mod origin;

use crate::cores::Cores;
use crate::kinds::external::{self, BlackBox};
use crate::kinds::native::{self, NativeProgram};
use crate::placement::{Interconnect, OnCrash, Run};
use crate::stitch::{Chain, ChainPort};
use onefold_element::{ConnectionSpec, ElementSpec, GraphSpec, SourceLoc};
use origin::Origins;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The annotations that an `NFLink` keeps, where packets can go round between functions: what `LoopGuard` counts.
pub const ROUNDS: [usize; 2] = {
    let first = onefold_packet::anno_field::PERFCTR.offset as usize;
    [first, first + 1]
};

/// Most segments of a chain.
pub const MAX_SEGMENTS: usize = 200;

/// What one process runs.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Its functions' names, with `+` between them.
    pub name: String,
    /// The functions, by number in the chain.
    pub functions: Vec<usize>,
    /// The chain that it is: its ports are those of the whole chain that it has an end of, and its cuts
    /// ([`Cut::port`]).
    pub chain: Chain,
    /// The core that it is executed on, if that was said.
    pub affinity: Option<u32>,
    /// How much its load counts.
    pub priority: u32,
    /// What becomes of its packets when its process has ended.
    pub on_crash: OnCrash,
    /// The program that it is, if it is one of its own; what its chain has in its place executes nothing.
    pub native: Option<NativeProgram>,
    /// The black box that it is, if it is one. Its chain hands packets on between the rest of the whole chain and ports
    /// that the black box is attached by ([`Segment::door`]).
    pub external: Option<Arc<BlackBox>>,
    /// It runs in a network namespace of its own.
    pub apart: bool,
}

impl Segment {
    /// The port of its chain that port `n` of a black box is attached by.
    pub fn door(n: usize) -> String {
        format!("box {n}")
    }

    /// Of a program of its own: which of its ports a port of its chain is.
    pub fn native_port(&self, port: &str) -> Option<usize> {
        let graph = &self.chain.graph;
        let name = |i: usize| graph.elements.get(i).map(|e| e.name.as_str());
        let port = self.chain.ports.iter().find(|p| p.name == port)?;
        if let Some(sink) = port.sinks.first() {
            return native::port_of(name(*sink)?);
        }
        // a device of its own, or that in front of a link
        let mut at = port.source?;
        for _ in 0..3 {
            let next = graph.connections.iter().find(|c| c.from.0 == at)?.to.0;
            let next_name = name(next)?;
            if graph.elements.get(next)?.class == "Discard" {
                return native::port_of(next_name);
            }
            at = next;
        }
        None
    }
}

/// A link that leads from one segment to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The port of both segments' chains that it leads through.
    pub port: String,
    /// The segment that packets leave, by number.
    pub from: usize,
    /// The one that they arrive in.
    pub to: usize,
    /// The chain's port that all of them have come in at; `None`: there are several, or functions in front of it make
    /// packets by themselves.
    pub origin: Option<String>,
}

/// The segments of a chain.
#[derive(Debug, Clone)]
pub struct Segments {
    /// In the order of their first functions.
    pub all: Vec<Segment>,
    /// Where it was cut.
    pub cuts: Vec<Cut>,
}

/// What keeps a chain from being cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// There are too many.
    #[error("the chain has {0} segments, more than {MAX_SEGMENTS}; let neighbours run inline")]
    TooMany(usize),
    /// There is no way past it.
    #[error(
        "{function}: on-crash: bypass is for functions with two ports that are both connected; it has {ports}"
    )]
    NoBypass {
        /// The function.
        function: String,
        /// How many ports it has.
        ports: usize,
    },
    /// An element of a segment is connected to another one's, and no link is between them.
    #[error("{from} and {to} are in two segments, and no link is between them")]
    NoLink {
        /// An element.
        from: String,
        /// The one behind it.
        to: String,
    },
}

impl Chain {
    /// The first function that is a program of its own, or a black box: nobody can see into it.
    pub fn native(&self) -> Option<&str> {
        let mut all = self.functions.iter();
        let native = all.find(|f| f.native.is_some() || f.external.is_some());
        native.map(|f| f.name.as_str())
    }

    /// Does any function run in a process of its own?
    pub fn has_processes(&self) -> bool {
        let mut all = self.functions.iter();
        all.any(|f| f.placement.run != Run::Inline)
    }

    /// The chain in segments.
    ///
    /// # Errors
    /// It cannot be cut so.
    pub fn segments(&self) -> Result<Segments, SegmentError> {
        Cutting::new(self)?.run()
    }
}

/// The function that an element is of; `None`: all of them.
fn function_of(name: &str) -> Option<&str> {
    name.split_once('/').map(|(f, _)| f)
}

/// A chain that is being cut.
struct Cutting<'a> {
    chain: &'a Chain,
    /// By element: its segment; `None`: it is in all of them.
    of: Vec<Option<usize>>,
    /// Functions by segment.
    functions: Vec<Vec<usize>>,
}

impl<'a> Cutting<'a> {
    fn new(chain: &'a Chain) -> Result<Cutting<'a>, SegmentError> {
        let functions = groups(chain);
        if functions.len() > MAX_SEGMENTS {
            return Err(SegmentError::TooMany(functions.len()));
        }
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        for (s, group) in functions.iter().enumerate() {
            let names = group.iter().filter_map(|f| chain.functions.get(*f));
            by_name.extend(names.map(|f| (f.name.as_str(), s)));
        }
        for f in &chain.functions {
            let ports = f.ports.len();
            if f.placement.on_crash == OnCrash::Bypass && ports != 2 {
                return Err(SegmentError::NoBypass {
                    function: f.name.clone(),
                    ports,
                });
            }
        }
        let of = |e: &ElementSpec| by_name.get(function_of(&e.name)?).copied();
        Ok(Cutting {
            of: chain.graph.elements.iter().map(of).collect(),
            chain,
            functions,
        })
    }

    fn segment(&self, element: usize) -> Option<usize> {
        self.of.get(element).copied().flatten()
    }

    fn run(&self) -> Result<Segments, SegmentError> {
        let cut = self.cut()?;
        let mut segments: Vec<Segment> = (0..self.functions.len()).map(|s| self.whole(s)).collect();
        let mut cuts: Vec<Cut> = Vec::new();
        let origins = Origins::new(self.chain);
        for (link, to) in &cut {
            let (Some(from), Some(spec)) =
                (self.segment(*link), self.chain.graph.elements.get(*link))
            else {
                continue;
            };
            let port = format!("{}->{}", spec.name, self.name(*to));
            if let Some(s) = segments.get_mut(from) {
                leave(&mut s.chain, *link, &port);
            }
            if let Some(s) = segments.get_mut(*to) {
                arrive(&mut s.chain, *link, spec, &port);
            }
            cuts.push(Cut {
                port,
                from,
                to: *to,
                origin: origins.of(*link).map(str::to_string),
            });
        }
        self.connect(&cut, &mut segments);
        for s in segments.iter_mut().filter(|s| s.external.is_some()) {
            open_doors(&mut s.chain);
            // what is in it now can be executed: it only hands on
            s.chain.functions.clear();
        }
        Ok(Segments {
            all: segments,
            cuts,
        })
    }

    fn name(&self, segment: usize) -> String {
        let of = self.functions.get(segment).into_iter().flatten();
        let names = of.filter_map(|f| self.chain.functions.get(*f));
        let names: Vec<&str> = names.map(|f| f.name.as_str()).collect();
        names.join("+")
    }

    /// Links that lead from one segment to another one, by the number of their `NFLink`, and where each leads.
    fn cut(&self) -> Result<BTreeMap<usize, usize>, SegmentError> {
        let mut cut = BTreeMap::new();
        for c in &self.chain.graph.connections {
            let (Some(a), Some(b)) = (self.segment(c.from.0), self.segment(c.to.0)) else {
                continue;
            };
            if a == b {
                continue;
            }
            let elements = &self.chain.graph.elements;
            let name = |i: usize| elements.get(i).map_or(String::new(), |e| e.name.clone());
            let is_link = elements.get(c.from.0).is_some_and(|e| e.class == "NFLink");
            if !is_link || cut.insert(c.from.0, b).is_some_and(|other| other != b) {
                return Err(SegmentError::NoLink {
                    from: name(c.from.0),
                    to: name(c.to.0),
                });
            }
        }
        Ok(cut)
    }

    /// A segment without its connections and cuts.
    fn whole(&self, s: usize) -> Segment {
        let nothing = |i: usize| ElementSpec {
            name: format!("elsewhere/{i}"),
            class: "AddressInfo".into(),
            ..Default::default()
        };
        let elements = self.chain.graph.elements.iter().enumerate();
        let elements = elements.map(|(i, e)| match self.segment(i) {
            Some(of) if of != s => nothing(i),
            _ => e.clone(),
        });
        let mine = |i: &usize| self.segment(*i) == Some(s);
        let ports = self.chain.ports.iter().filter_map(|p| {
            let port = ChainPort {
                name: p.name.clone(),
                source: p.source.filter(mine),
                sinks: p.sinks.iter().copied().filter(mine).collect(),
                at: p.at.clone(),
            };
            (port.source.is_some() || !port.sinks.is_empty()).then_some(port)
        });
        let functions = self.functions.get(s).cloned().unwrap_or_default();
        let infos = functions
            .iter()
            .filter_map(|f| self.chain.functions.get(*f));
        let first = infos.clone().next().map(|f| f.placement);
        let placement = first.unwrap_or_default();
        let first_native = infos.clone().find_map(|f| f.native.clone());
        let external = infos.clone().find_map(|f| f.external.clone());
        Segment {
            name: self.name(s),
            chain: Chain {
                name: format!("{}: {}", self.chain.name, self.name(s)),
                description: String::new(),
                graph: GraphSpec {
                    elements: elements.collect(),
                    connections: Vec::new(),
                },
                ports: ports.collect(),
                functions: infos.cloned().collect(),
                links: Vec::new(),
                schedule: None,
                warnings: Vec::new(),
                interconnect: Interconnect::default(),
                cores: Cores::default(),
            },
            functions,
            native: first_native,
            external,
            apart: placement.run == Run::Namespace,
            affinity: placement.affinity,
            priority: placement.priority,
            on_crash: placement.on_crash,
        }
    }

    /// Connections go to the segment that their ends are in; what led to a link that was cut leads to the device, and
    /// what it led to is the other segment's.
    fn connect(&self, cut: &BTreeMap<usize, usize>, segments: &mut [Segment]) {
        for c in &self.chain.graph.connections {
            let of = match cut.get(&c.from.0) {
                Some(to) => Some(*to),
                None => self.segment(c.from.0).or(self.segment(c.to.0)),
            };
            if let Some(s) = of.and_then(|s| segments.get_mut(s)) {
                s.chain.graph.connections.push(c.clone());
            }
        }
    }
}

/// Packets leave a segment where this link was.
fn leave(chain: &mut Chain, link: usize, port: &str) {
    if let Some(e) = chain.graph.elements.get_mut(link) {
        e.class = "ToDevice".into();
        e.args = vec![format!("\"{port}\"")];
        e.arg_locs.clear();
    }
    chain.ports.push(ChainPort {
        name: port.to_string(),
        source: None,
        sinks: vec![link],
        at: String::new(),
    });
}

/// Packets arrive in a segment in front of this link.
fn arrive(chain: &mut Chain, link: usize, spec: &ElementSpec, port: &str) {
    let graph = &mut chain.graph;
    if let Some(e) = graph.elements.get_mut(link) {
        *e = spec.clone();
    }
    let source = graph.elements.len();
    graph.elements.push(ElementSpec {
        name: format!("{}_arrives", spec.name),
        class: "FromDevice".into(),
        args: vec![format!("\"{port}\"")],
        arg_locs: Vec::new(),
        decl: spec.decl.clone(),
    });
    graph.connections.push(ConnectionSpec {
        from: (source, 0),
        to: (link, 0),
        loc: spec.decl.clone(),
    });
    chain.ports.push(ChainPort {
        name: port.to_string(),
        source: Some(source),
        sinks: Vec::new(),
        at: String::new(),
    });
}

/// What arrives at a black box's ports goes into it, and what comes out of it leaves there.
fn open_doors(chain: &mut Chain) {
    let mut doors: BTreeMap<usize, (Option<usize>, Vec<usize>)> = BTreeMap::new();
    for (i, e) in chain.graph.elements.iter_mut().enumerate() {
        let Some((port, out_of)) = external::door_of(&e.name) else {
            continue;
        };
        e.class = if out_of { "FromDevice" } else { "ToDevice" }.into();
        e.args = vec![format!("\"{}\"", Segment::door(port))];
        e.arg_locs.clear();
        let door = doors.entry(port).or_default();
        match out_of {
            true => door.0 = Some(i),
            false => door.1.push(i),
        }
    }
    chain
        .ports
        .extend(doors.into_iter().map(|(n, (source, sinks))| ChainPort {
            name: Segment::door(n),
            source,
            sinks,
            at: String::new(),
        }));
}

/// Functions by segment, in the order of the first of each.
fn groups(chain: &Chain) -> Vec<Vec<usize>> {
    let functions = &chain.functions;
    let inline = |f: usize| {
        let of = functions.get(f);
        of.is_some_and(|f| f.placement.run == Run::Inline)
    };
    let find = |port: &str| {
        let name = port.split('[').next()?;
        functions.iter().position(|f| f.name == name)
    };
    // by function: the group that it is in, and all of a group have the least number of its functions
    let mut group: Vec<usize> = (0..functions.len()).collect();
    for l in &chain.links {
        let (Some(a), Some(b)) = (find(&l.from), find(&l.to)) else {
            continue;
        };
        if let (true, true, Some(&x), Some(&y)) = (inline(a), inline(b), group.get(a), group.get(b))
        {
            let (least, other) = (x.min(y), x.max(y));
            let moved = group.iter_mut().filter(|g| **g == other);
            moved.for_each(|g| *g = least);
        }
    }
    let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (f, g) in group.iter().enumerate() {
        all.entry(*g).or_default().push(f);
    }
    all.into_values().collect()
}

/// A segment's chain as the launcher tells it to its process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Told {
    name: String,
    elements: Vec<ToldElement>,
    connections: Vec<[usize; 4]>,
    ports: Vec<(String, Option<usize>, Vec<usize>)>,
    /// Files that places are in.
    files: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ToldElement {
    name: String,
    class: String,
    args: Vec<String>,
    /// File (by number), line and column.
    places: Vec<(usize, u32, u32)>,
    decl: (usize, u32, u32),
}

impl Told {
    /// Of a chain.
    pub fn of(chain: &Chain) -> Told {
        let mut files: Vec<String> = Vec::new();
        let mut numbers: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let mut place = |l: &SourceLoc| {
            let next = files.len();
            let file = *numbers.entry(l.file.clone()).or_insert_with(|| {
                files.push(l.file.to_string());
                next
            });
            (file, l.line, l.column)
        };
        let elements = chain.graph.elements.iter();
        let elements = elements.map(|e| ToldElement {
            name: e.name.clone(),
            class: e.class.clone(),
            args: e.args.clone(),
            places: e.arg_locs.iter().map(&mut place).collect(),
            decl: place(&e.decl),
        });
        let elements = elements.collect();
        let connections = chain.graph.connections.iter();
        Told {
            name: chain.name.clone(),
            elements,
            connections: connections
                .map(|c| [c.from.0, c.from.1, c.to.0, c.to.1])
                .collect(),
            ports: (chain.ports.iter())
                .map(|p| (p.name.clone(), p.source, p.sinks.clone()))
                .collect(),
            files,
        }
    }

    /// The chain.
    pub fn chain(self) -> Chain {
        let files: Vec<Arc<str>> = self.files.iter().map(|f| f.as_str().into()).collect();
        let place = |(file, line, column): (usize, u32, u32)| SourceLoc {
            file: files.get(file).cloned().unwrap_or_default(),
            line,
            column,
        };
        let elements = self.elements.into_iter().map(|e| ElementSpec {
            name: e.name,
            class: e.class,
            args: e.args,
            arg_locs: e.places.into_iter().map(place).collect(),
            decl: place(e.decl),
        });
        let connections = (self.connections.into_iter()).map(|[a, b, c, d]| ConnectionSpec {
            from: (a, b),
            to: (c, d),
            loc: SourceLoc::default(),
        });
        Chain {
            name: self.name,
            description: String::new(),
            graph: GraphSpec {
                elements: elements.collect(),
                connections: connections.collect(),
            },
            ports: (self.ports.into_iter())
                .map(|(name, source, sinks)| ChainPort {
                    name,
                    source,
                    sinks,
                    at: String::new(),
                })
                .collect(),
            functions: Vec::new(),
            links: Vec::new(),
            schedule: None,
            warnings: Vec::new(),
            interconnect: Interconnect::default(),
            cores: Cores::default(),
        }
    }
}
