//! Graphs under construction: of the whole configuration, and of each variant of a compound element class.

use crate::ast::Formal;
use crate::diag::Diagnostic;
use crate::graph::Requirement;
use crate::limits::MAX_ERRORS;
use crate::source::{SourceMap, Span};
use crate::text::SrcText;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// An element class.
#[derive(Clone, Debug)]
pub(crate) enum Class {
    /// A class of which only the name is known.
    Base(Rc<str>),
    /// Another name for a class that is no synonym itself.
    Synonym(Rc<(String, Class)>),
    /// A compound class: the index of its first variant.
    Compound(usize),
    /// No class: one end of a compound element or group.
    Tunnel,
}

impl Class {
    /// The class behind a synonym.
    pub(crate) fn target(&self) -> &Class {
        match self {
            Class::Synonym(synonym) => &synonym.1,
            other => other,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Elem {
    /// Starts with `;` while it is to be made up.
    pub(crate) name: String,
    pub(crate) class: Class,
    pub(crate) config: SrcText,
    pub(crate) span: Span,
    pub(crate) ninputs: usize,
    pub(crate) noutputs: usize,
    /// The tunnel that packets come out of here from.
    pub(crate) tunnel_input: Option<usize>,
    /// The tunnel that packets which go in here come out of.
    pub(crate) tunnel_output: Option<usize>,
    pub(crate) anonymous: bool,
    pub(crate) dead: bool,
    /// In the flat graph, the compound element around it.
    pub(crate) compound: Option<usize>,
}

/// Element and port.
pub(crate) type End = (usize, usize);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Conn {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Router {
    /// Class name; empty without one.
    pub(crate) name: String,
    /// Compound classes around it.
    pub(crate) depth: usize,
    pub(crate) span: Span,
    pub(crate) elements: Vec<Elem>,
    pub(crate) names: HashMap<String, usize>,
    pub(crate) conns: Vec<Conn>,
    seen: HashSet<(End, End)>,
    pub(crate) formals: Vec<Formal>,
    /// `define`d parameters.
    pub(crate) scope: Vec<(String, SrcText)>,
    pub(crate) scope_names: HashMap<String, usize>,
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) ninputs: usize,
    pub(crate) noutputs: usize,
    /// The next variant, or the class that is extended.
    pub(crate) overload: Option<Class>,
}

impl Router {
    pub(crate) fn new(name: String, depth: usize, span: Span) -> Router {
        Router {
            name,
            depth,
            span,
            elements: Vec::new(),
            names: HashMap::new(),
            conns: Vec::new(),
            seen: HashSet::new(),
            formals: Vec::new(),
            scope: Vec::new(),
            scope_names: HashMap::new(),
            requirements: Vec::new(),
            ninputs: 0,
            noutputs: 0,
            overload: None,
        }
    }

    /// The element of this name; made if there is none.
    pub(crate) fn get_or_add(
        &mut self,
        name: String,
        class: Class,
        config: SrcText,
        span: Span,
    ) -> usize {
        if let Some(&index) = self.names.get(&name) {
            return index;
        }
        let index = self.elements.len();
        self.names.insert(name.clone(), index);
        self.elements.push(Elem {
            anonymous: name.starts_with(';'),
            name,
            class,
            config,
            span,
            ninputs: 0,
            noutputs: 0,
            tunnel_input: None,
            tunnel_output: None,
            dead: false,
            compound: None,
        });
        index
    }

    /// Connects two ports. False if they are connected already.
    pub(crate) fn connect(&mut self, from: End, to: End, span: Span) -> bool {
        if !self.seen.insert((from, to)) {
            return false;
        }
        if let Some(e) = self.elements.get_mut(from.0) {
            e.noutputs = e.noutputs.max(from.1 + 1);
        }
        if let Some(e) = self.elements.get_mut(to.0) {
            e.ninputs = e.ninputs.max(to.1 + 1);
        }
        self.conns.push(Conn { from, to, span });
        true
    }

    /// Makes two tunnel ends: what goes into `input` comes out of `output`. Either may exist as the other end of
    /// another tunnel. The element that is in the way, if there is one.
    pub(crate) fn add_tunnel(
        &mut self,
        input: String,
        output: String,
        span: Span,
    ) -> Result<(), usize> {
        let at = || SrcText::empty_at(span);
        let from = self.get_or_add(input, Class::Tunnel, at(), span);
        let to = self.get_or_add(output, Class::Tunnel, at(), span);
        let usable = |e: Option<&Elem>, other: fn(&Elem) -> Option<usize>| {
            e.is_some_and(|e| matches!(e.class, Class::Tunnel) && other(e).is_none())
        };
        if !usable(self.elements.get(from), |e| e.tunnel_output) {
            return Err(from);
        }
        if !usable(self.elements.get(to), |e| e.tunnel_input) {
            return Err(to);
        }
        if let Some(e) = self.elements.get_mut(from) {
            e.tunnel_output = Some(to);
        }
        if let Some(e) = self.elements.get_mut(to) {
            e.tunnel_input = Some(from);
        }
        Ok(())
    }

    /// Whether a parameter of this name is declared.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.scope_names.contains_key(name) || self.formals.iter().any(|f| f.name == name)
    }

    /// Sets a `define`d parameter.
    pub(crate) fn define(&mut self, name: &str, value: SrcText) {
        match self
            .scope_names
            .get(name)
            .and_then(|&i| self.scope.get_mut(i))
        {
            Some(slot) => slot.1 = value,
            None => {
                self.scope_names.insert(name.to_owned(), self.scope.len());
                self.scope.push((name.to_owned(), value));
            }
        }
    }

    /// Gives names to the elements without one: their class and a number, made larger while the name is taken.
    pub(crate) fn assign_names(&mut self) {
        // For numbers that are taken: a later number from which to go on looking.
        let mut skip: HashMap<(String, u64), u64> = HashMap::new();
        for index in 0..self.elements.len() {
            let Some(pending) = self
                .elements
                .get(index)
                .and_then(|e| e.name.strip_prefix(';'))
            else {
                continue;
            };
            let mut name = pending.to_owned();
            if self.names.contains_key(&name) {
                let (prefix, number) = match name.rfind('@') {
                    Some(at) => {
                        let digits: String = name[at + 1..]
                            .chars()
                            .take_while(char::is_ascii_digit)
                            .take(18)
                            .collect();
                        (name[..=at].to_owned(), digits.parse().unwrap_or(0u64))
                    }
                    None => (format!("{name}@"), 0),
                };
                let mut visited = Vec::new();
                let mut number = number + 1;
                loop {
                    name = format!("{prefix}{number}");
                    if !self.names.contains_key(&name) {
                        break;
                    }
                    visited.push(number);
                    number = skip
                        .get(&(prefix.clone(), number))
                        .copied()
                        .unwrap_or(number + 1);
                }
                skip.extend(visited.into_iter().map(|n| ((prefix.clone(), n), number)));
            }
            let old = format!(";{}", pending_of(&self.elements, index));
            if self.names.get(&old) == Some(&index) {
                self.names.remove(&old);
            }
            self.names.insert(name.clone(), index);
            if let Some(e) = self.elements.get_mut(index) {
                e.name = name;
            }
        }
    }

    /// The ports that the inside of a compound element or group uses of its `input` (or of its `output`), with what
    /// is wrong about that.
    pub(crate) fn pseudo_ports(
        &self,
        element: usize,
        output: bool,
        whose: &str,
    ) -> (usize, Vec<String>) {
        let Some(e) = self.elements.get(element) else {
            return (0, Vec::new());
        };
        let (name, used, misused) = if output {
            ("output", e.ninputs, e.noutputs)
        } else {
            ("input", e.noutputs, e.ninputs)
        };
        let mut problems = Vec::new();
        if misused > 0 {
            let (may, not) = if output {
                ("into", "out of")
            } else {
                ("out of", "into")
            };
            problems.push(format!(
                "connections only lead {may} '{name}' of {whose}, not {not} it"
            ));
        }
        let mut ports: HashSet<usize> = HashSet::new();
        if used > 0 {
            let mine = |c: &&Conn| {
                if output {
                    c.to.0 == element
                } else {
                    c.from.0 == element
                }
            };
            ports.extend(
                self.conns
                    .iter()
                    .filter(mine)
                    .map(|c| if output { c.to.1 } else { c.from.1 }),
            );
        }
        let missing: Vec<usize> = (0..used).filter(|p| !ports.contains(p)).collect();
        let shown: Vec<String> = missing.iter().take(4).map(usize::to_string).collect();
        let dots = if missing.len() > shown.len() {
            ", ..."
        } else {
            ""
        };
        match missing.as_slice() {
            [] => {}
            [one] => problems.push(format!(
                "{name} {one} of {whose} is not used, though {name} {} is",
                used - 1
            )),
            _ => problems.push(format!(
                "{name}s {}{dots} of {whose} are not used, though {name} {} is",
                shown.join(", "),
                used - 1
            )),
        }
        (used, problems)
    }
}

fn pending_of(elements: &[Elem], index: usize) -> &str {
    elements
        .get(index)
        .map_or("", |e| e.name.strip_prefix(';').unwrap_or(&e.name))
}

/// Collects errors and warnings, up to a bound.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) diagnostics: Vec<Diagnostic>,
    errors: usize,
    /// Nothing more is to be done: too many errors, or a bound exceeded.
    pub(crate) stopped: bool,
}

impl Sink {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.stopped || self.diagnostics.len() >= 2 * MAX_ERRORS && !diagnostic.is_error() {
            return;
        }
        if diagnostic.is_error() {
            if self.diagnostics.contains(&diagnostic) {
                return;
            }
            self.errors += 1;
        }
        self.diagnostics.push(diagnostic);
        if self.errors >= MAX_ERRORS {
            self.diagnostics.push(Diagnostic::error(format!(
                "stopped after {MAX_ERRORS} errors"
            )));
            self.stopped = true;
        }
    }

    pub(crate) fn error(&mut self, sources: &SourceMap, span: Span, message: impl Into<String>) {
        if !self.stopped {
            self.push(Diagnostic::error(message).at(sources, span));
        }
    }

    /// An error after which nothing is done any more.
    pub(crate) fn fatal(&mut self, diagnostic: Diagnostic) {
        self.push(diagnostic);
        self.stopped = true;
    }

    pub(crate) fn failed(&self) -> bool {
        self.errors > 0
    }
}
