//! Graphs to one flat graph: compound elements replaced by what is inside them.

use crate::Globals;
use crate::assign::{assign, count, misfit, signature};
use crate::ast::Ast;
use crate::build::{Built, build};
use crate::diag::Diagnostic;
use crate::expand::{Env, Expander};
use crate::graph::{Connection, FlatCompound, FlatElement, FlatGraph, PortRef};
use crate::limits::*;
use crate::router::{Class, Router, Sink};
use crate::source::{SourceMap, Span};
use crate::text::SrcText;
use crate::tunnel::remove_tunnels;
use std::rc::Rc;
use std::sync::Arc;

/// How many candidates an error lists.
const MAX_CANDIDATES: usize = 8;

pub(crate) fn flatten(
    ast: &Ast,
    params: &[(String, String)],
    globals: Globals,
) -> Result<FlatGraph, Vec<Diagnostic>> {
    let Built {
        mut routers,
        mut sink,
    } = build(ast);
    if sink.failed() {
        return Err(sink.diagnostics);
    }
    let mut sources = (*ast.sources).clone();
    let mut top = std::mem::replace(
        &mut routers[0],
        Router::new(String::new(), 0, Span::new(ast.file, 0, 0)),
    );
    for (name, value) in params {
        let text = format!("{name}={value}");
        let file = sources.add("command line", text.as_bytes());
        top.define(
            name,
            SrcText::new(value.as_str(), Span::new(file, name.len() + 1, text.len())),
        );
    }
    let mut flattener = Flattener {
        sources: &sources,
        routers: &routers,
        top,
        sink,
        expander: Expander::new(),
        compounds: Vec::new(),
        name_bytes: 0,
    };
    let env = flattener.globals(globals);
    flattener.expand_top(&env);
    let Flattener {
        mut top,
        mut compounds,
        ..
    } = flattener;
    sink = flattener.sink;
    if !sink.stopped {
        remove_tunnels(&mut top, &sources, &mut sink);
    }
    if sink.failed() {
        return Err(sink.diagnostics);
    }
    compounds.shrink_to_fit();
    let mut graph = collect(top, compounds);
    graph.defines_kept = globals == Globals::Keep;
    graph.sources = Arc::new(sources);
    graph.warnings = sink.diagnostics;
    Ok(graph)
}

/// The errors that can be told without expanding anything, for texts that are not understood completely.
pub(crate) fn check(ast: &Ast) -> Vec<Diagnostic> {
    build(ast).sink.diagnostics
}

fn collect(top: Router, compounds: Vec<FlatCompound>) -> FlatGraph {
    let mut place = Vec::with_capacity(top.elements.len());
    let mut elements = Vec::new();
    for e in top.elements {
        let class = match e.class {
            Class::Base(name) if !e.dead => name.to_string(),
            _ => {
                place.push(None);
                continue;
            }
        };
        place.push(Some(elements.len()));
        elements.push(FlatElement {
            name: e.name,
            anonymous: e.anonymous,
            class,
            config: e.config,
            span: e.span,
            compound: e.compound,
        });
    }
    let end = |(element, port): (usize, usize)| {
        Some(PortRef {
            element: place.get(element).copied().flatten()?,
            port,
        })
    };
    let connections = top
        .conns
        .iter()
        .filter_map(|c| {
            Some(Connection {
                from: end(c.from)?,
                to: end(c.to)?,
                span: c.span,
            })
        })
        .collect();
    FlatGraph {
        elements,
        connections,
        compounds,
        requirements: top.requirements,
        defines: top.scope,
        ..FlatGraph::default()
    }
}

struct Flattener<'a> {
    sources: &'a SourceMap,
    /// Variants of compound classes.
    routers: &'a [Router],
    /// The graph that everything is expanded into.
    top: Router,
    sink: Sink,
    expander: Expander,
    compounds: Vec<FlatCompound>,
    name_bytes: usize,
}

/// Where something is expanded.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Goes before the names: empty, or the name of the compound element and a slash.
    prefix: &'a str,
    env: &'a Rc<Env>,
    compound: Option<usize>,
    depth: usize,
}

impl Flattener<'_> {
    /// The scope of global parameters.
    fn globals(&mut self, globals: Globals) -> Rc<Env> {
        let mut env = Env::default();
        for i in 0..self.top.scope.len() {
            let Some((name, value)) = self.top.scope.get(i).cloned() else {
                break;
            };
            match globals {
                Globals::Substitute => {
                    let value = self.expander.expand(&value, &env);
                    env.define(&name, value.clone());
                    self.top.define(&name, value);
                }
                Globals::Keep => {
                    let mut kept = SrcText::default();
                    if let Some(span) = value.span() {
                        kept.push_str(&format!("${name}"), span);
                    }
                    env.define(&name, kept);
                }
            }
        }
        Rc::new(env)
    }

    fn expand_top(&mut self, env: &Rc<Env>) {
        let place = Place {
            prefix: "",
            env,
            compound: None,
            depth: 0,
        };
        // Elements that are added on the way are expanded already.
        for index in 0..self.top.elements.len() {
            if self.sink.stopped {
                return;
            }
            let Some(e) = self.top.elements.get(index) else {
                return;
            };
            let (class, span, ports) = (e.class.clone(), e.span, (e.ninputs, e.noutputs));
            if matches!(class, Class::Tunnel) {
                continue;
            }
            let (name, config) = (e.name.clone(), e.config.clone());
            let config = self.expand_config(&config, env, span);
            match self.resolve(&class, ports, &config, span) {
                Some((Class::Compound(variant), args)) => {
                    if let Some(e) = self.top.elements.get_mut(index) {
                        e.class = Class::Tunnel;
                        e.config = SrcText::default();
                    }
                    self.expand_compound(&name, variant, args, span, place);
                }
                Some((class, _)) => {
                    if let Some(e) = self.top.elements.get_mut(index) {
                        e.class = class;
                        e.config = config;
                    }
                }
                None => {
                    if let Some(e) = self.top.elements.get_mut(index) {
                        e.dead = true;
                    }
                }
            }
        }
    }

    fn expand_config(&mut self, config: &SrcText, env: &Rc<Env>, span: Span) -> SrcText {
        let config = self.expander.expand(config, env);
        if self.expander.exceeded() {
            let d = Diagnostic::error(format!(
                "the parameters substituted up to here take more than {MAX_CONFIG_BYTES} bytes, or are more than {MAX_SUBSTITUTIONS}"
            ));
            self.sink.fatal(d.at(self.sources, span));
        } else if config.bytes().filter(|&c| c == b',').count() > MAX_ARGUMENTS {
            let d = Diagnostic::error(format!(
                "more than {MAX_ARGUMENTS} arguments in a configuration string"
            ));
            self.sink.fatal(d.at(self.sources, span));
        }
        config
    }

    /// Whether the next element of this name is within bounds.
    fn count(&mut self, name: &str, span: Span) -> bool {
        self.name_bytes += name.len();
        let what = if self.top.elements.len() >= MAX_ELEMENTS {
            format!(
                "the configuration has more than {MAX_ELEMENTS} elements once its compound elements are expanded"
            )
        } else if self.name_bytes > MAX_NAME_BYTES {
            format!(
                "the names of elements have more than {MAX_NAME_BYTES} bytes once compound elements are expanded"
            )
        } else {
            return true;
        };
        self.sink
            .fatal(Diagnostic::error(what).at(self.sources, span));
        false
    }

    fn redeclared(&mut self, name: &str, span: Span, earlier: usize) {
        let mut d =
            Diagnostic::error(format!("element '{name}' is declared twice")).at(self.sources, span);
        if let Some(e) = self.top.elements.get(earlier) {
            d = d.note_at("declared here before", self.sources, e.span);
        }
        self.sink.push(d);
    }

    fn add_tunnel(&mut self, input: String, output: String, span: Span) {
        if !self.count(&input, span) || !self.count(&output, span) {
            return;
        }
        let name = if input.len() < output.len() {
            input.clone()
        } else {
            output.clone()
        };
        if let Err(earlier) = self.top.add_tunnel(input, output, span) {
            self.redeclared(&name, span, earlier);
        }
    }

    /// Puts a compound element into the flat graph.
    fn expand_compound(
        &mut self,
        name: &str,
        variant: usize,
        args: Vec<SrcText>,
        span: Span,
        place: Place<'_>,
    ) {
        let Some(router) = self.routers.get(variant) else {
            return;
        };
        if place.depth >= MAX_EXPANSION_DEPTH {
            let d = Diagnostic::error(format!(
                "more than {MAX_EXPANSION_DEPTH} compound elements inside one another"
            ));
            return self.sink.fatal(d.at(self.sources, span));
        }
        let full = format!("{}{name}", place.prefix);
        let mut env = Env::inside(place.env, router.depth);
        for (formal, arg) in router.formals.iter().zip(args) {
            env.define(&formal.name, arg);
        }
        for (name, value) in &router.scope {
            let value = self.expand_config(value, place.env, span);
            env.define(name, value);
        }
        let compound = self.compounds.len();
        self.compounds.push(FlatCompound {
            name: full.clone(),
            class: router.name.clone(),
            span,
            parent: place.compound,
        });
        let prefix = format!("{full}/");
        self.add_tunnel(full.clone(), format!("{prefix}input"), span);
        self.add_tunnel(format!("{prefix}output"), full, span);
        let inside = Place {
            prefix: &prefix,
            env: &Rc::new(env),
            compound: Some(compound),
            depth: place.depth + 1,
        };
        self.expand_inside(router, inside);
    }

    fn expand_inside(&mut self, router: &Router, place: Place<'_>) {
        let mut indices = Vec::with_capacity(router.elements.len());
        for element in 0..router.elements.len() {
            if self.sink.stopped {
                return;
            }
            indices.push(self.expand_element(router, element, place));
        }
        for c in &router.conns {
            let from = indices.get(c.from.0).copied().flatten();
            let to = indices.get(c.to.0).copied().flatten();
            let (Some(from), Some(to)) = (from, to) else {
                continue;
            };
            self.top.connect((from, c.from.1), (to, c.to.1), c.span);
            if self.top.conns.len() > MAX_CONNECTIONS {
                let d = Diagnostic::error(format!(
                    "the configuration has more than {MAX_CONNECTIONS} connections once its compound elements are expanded"
                ));
                return self.sink.fatal(d.at(self.sources, c.span));
            }
        }
        self.top
            .requirements
            .extend(router.requirements.iter().cloned());
        if self.top.requirements.len() > MAX_ELEMENTS {
            let d = Diagnostic::error(format!(
                "the configuration has more than {MAX_ELEMENTS} requirements"
            ));
            self.sink.fatal(d.at(self.sources, router.span));
        }
    }

    /// Puts an element of a compound class into the flat graph; its index there.
    fn expand_element(
        &mut self,
        router: &Router,
        element: usize,
        place: Place<'_>,
    ) -> Option<usize> {
        let e = router.elements.get(element)?;
        let full = format!("{}{}", place.prefix, e.name);
        if matches!(e.class, Class::Tunnel) {
            match e
                .tunnel_output
                .and_then(|output| router.elements.get(output))
            {
                Some(output) => {
                    let output = format!("{}{}", place.prefix, output.name);
                    self.add_tunnel(full.clone(), output, e.span);
                    return self.top.names.get(&full).copied();
                }
                None => {
                    if !self.count(&full, e.span) {
                        return None;
                    }
                    return Some(self.top.get_or_add(
                        full,
                        Class::Tunnel,
                        SrcText::empty_at(e.span),
                        e.span,
                    ));
                }
            }
        }
        let config = self.expand_config(&e.config, place.env, e.span);
        match self.resolve(&e.class, (e.ninputs, e.noutputs), &config, e.span)? {
            (Class::Compound(variant), args) => {
                self.expand_compound(&e.name, variant, args, e.span, place);
                self.top.names.get(&full).copied()
            }
            (class, _) => {
                if !self.count(&full, e.span) {
                    return None;
                }
                if let Some(&earlier) = self.top.names.get(&full) {
                    self.redeclared(&full, e.span, earlier);
                    return None;
                }
                let index = self.top.get_or_add(full, class, config, e.span);
                if let Some(new) = self.top.elements.get_mut(index) {
                    new.anonymous = e.anonymous;
                    new.compound = place.compound;
                }
                Some(index)
            }
        }
    }

    /// The class that an element really has: synonyms followed, and for compound classes the variant with its number of
    /// ports and arguments. With it, the values of the parameters.
    fn resolve(
        &mut self,
        class: &Class,
        (ninputs, noutputs): (usize, usize),
        config: &SrcText,
        span: Span,
    ) -> Option<(Class, Vec<SrcText>)> {
        let first = match class.target() {
            Class::Compound(first) => *first,
            other => return Some((other.clone(), Vec::new())),
        };
        let args = config.split_args();
        let mut closest = None;
        let mut candidates = Vec::new();
        let mut next = Some(first);
        while let Some(router) = next.and_then(|i| self.routers.get(i)) {
            let index = next.take().unwrap_or(0);
            candidates.push(router);
            if let Some(values) = assign(router, &args) {
                if router.ninputs == ninputs && router.noutputs == noutputs {
                    return Some((Class::Compound(index), values));
                }
                closest = Some((Class::Compound(index), values));
            }
            match router.overload.as_ref().map(Class::target) {
                Some(Class::Compound(more)) => next = Some(*more),
                Some(base) => return Some((base.clone(), args)),
                None => {}
            }
        }
        if candidates.len() == 1 && closest.is_some() {
            return closest;
        }
        let name = candidates.first().map_or("", |r| r.name.as_str());
        let name = if name.is_empty() {
            "compound element"
        } else {
            name
        };
        let mut d = Diagnostic::error(format!(
            "no variant of {name} takes {}, {} and {}",
            count(args.len(), "argument"),
            count(ninputs, "input"),
            count(noutputs, "output")
        ));
        if let [only] = candidates.as_slice() {
            d = Diagnostic::error(format!("the arguments do not fit {}", signature(only)))
                .maybe_hint(misfit(only, &args));
        }
        d = d.at(self.sources, span);
        for candidate in candidates.iter().take(MAX_CANDIDATES) {
            d = d.note_at(
                format!("candidate: {}", signature(candidate)),
                self.sources,
                candidate.span,
            );
        }
        if candidates.len() > MAX_CANDIDATES {
            d = d.note(format!(
                "and {} more candidates",
                candidates.len() - MAX_CANDIDATES
            ));
        }
        self.sink.push(d);
        None
    }
}
