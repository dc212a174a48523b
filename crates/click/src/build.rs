//! Syntax tree to graphs: names resolved, elements made, ports connected, compound classes still in place.
//!
//! Statements are worked off in the order of the text, since what a name means depends on what came before it: `Foo`
//! in a connection is an element if one of that name was declared, else an element without a name, of that class.

mod connect;

use self::connect::{Ports, Used};
use crate::ast::*;
use crate::diag::Diagnostic;
use crate::graph::Requirement;
use crate::limits::{MAX_ELEMENTS, MAX_FORMALS, MAX_NAME_BYTES, MAX_VARIANTS};
use crate::router::{Class, Router, Sink};
use crate::source::{SourceMap, Span};
use crate::text::SrcText;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The outcome: the first router is the configuration, the others are variants of compound classes.
pub(crate) struct Built {
    pub(crate) routers: Vec<Router>,
    pub(crate) sink: Sink,
}

pub(crate) fn build(ast: &Ast) -> Built {
    let whole = Span::new(ast.file, 0, 0);
    let mut builder = Builder {
        sources: &ast.sources,
        sink: Sink::default(),
        routers: vec![Router::new(String::new(), 0, whole)],
        current: 0,
        scopes: vec![HashMap::new()],
        bases: HashSet::new(),
        variants: HashMap::new(),
        ends_at_output: true,
        elements: 0,
        connections: 0,
        name_bytes: 0,
    };
    builder.statements(&ast.statements);
    if let Some(router) = builder.routers.first_mut() {
        router.assign_names();
    }
    Built {
        routers: builder.routers,
        sink: builder.sink,
    }
}

struct Builder<'a> {
    sources: &'a SourceMap,
    sink: Sink,
    routers: Vec<Router>,
    /// The router that elements are added to.
    current: usize,
    /// Classes declared in the current compound class, last, and in those around it.
    scopes: Vec<HashMap<String, Class>>,
    /// Names that were used as classes without being declared.
    bases: HashSet<Rc<str>>,
    /// How many variants a compound class has, those it extends included, by its first variant.
    variants: HashMap<usize, usize>,
    /// Whether the last chain ended at `output`.
    ends_at_output: bool,
    elements: usize,
    connections: usize,
    name_bytes: usize,
}

/// An element in a chain whose names are not looked up yet.
struct Pending<'a> {
    element: &'a ElementUse,
    name: String,
    class: Option<Class>,
    declared: Option<Class>,
    config: Option<&'a SrcText>,
    ports: [Ports; 2],
}

impl Builder<'_> {
    fn router(&mut self) -> &mut Router {
        let current = self.current;
        &mut self.routers[current]
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.routers.get(self.current)?.names.get(name).copied()
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.sink.error(self.sources, span, message);
    }

    fn class_name(&self, class: &Class) -> String {
        match class {
            Class::Base(name) => name.to_string(),
            Class::Synonym(synonym) => synonym.0.clone(),
            Class::Compound(router) => self
                .routers
                .get(*router)
                .map(|r| r.name.clone())
                .unwrap_or_default(),
            Class::Tunnel => String::new(),
        }
    }

    /// The class of this name, if there is one.
    fn class(&self, name: &str) -> Option<Class> {
        let declared = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        declared
            .cloned()
            .or_else(|| self.bases.get(name).map(|n| Class::Base(n.clone())))
    }

    /// The class of this name, which is a class from now on.
    fn class_or_new(&mut self, name: &str, span: Span) -> Class {
        if let Some(class) = self.class(name) {
            return class;
        }
        if self.find(name).is_some() {
            self.error(
                span,
                format!("'{name}' is an element, not an element class"),
            );
        }
        let name: Rc<str> = name.into();
        self.bases.insert(name.clone());
        Class::Base(name)
    }

    fn class_ref(&mut self, class: &ClassRef) -> Class {
        match class {
            ClassRef::Name(name) => self.class_or_new(&name.text, name.span),
            ClassRef::Compound(compound) => self.compound(None, compound),
        }
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            if self.sink.stopped {
                return;
            }
            match statement {
                Statement::Chain(chain) => self.chain(chain),
                Statement::ElementClass(class) => self.element_class(class),
                Statement::Require(parts) => parts.iter().for_each(|part| self.require(part)),
                Statement::Define(parts) => parts.iter().for_each(|part| self.define(part)),
            }
        }
    }

    fn require(&mut self, part: &Require) {
        let (kind, value) = match part {
            Require::Package(name) => ("package", name.text.clone()),
            Require::CompactConfig(_) => ("compact_config", String::new()),
            Require::Library { statements, .. } => return self.statements(statements),
        };
        self.router().requirements.push(Requirement {
            kind: kind.to_owned(),
            value,
        });
    }

    fn define(&mut self, part: &Define) {
        let Name { text, span } = &part.name;
        if self.router().declares(text) {
            return self.error(*span, format!("parameter '${text}' is defined twice"));
        }
        self.router().define(text, part.value.clone());
    }

    fn element_class(&mut self, declaration: &ElementClass) {
        let Name { text, span } = &declaration.name;
        if let Some(element) = self.find(text) {
            let earlier = self.router().elements[element].span;
            let d = Diagnostic::error(format!("'{text}' is the name of an element already"))
                .at(self.sources, *span)
                .note_at("declared here", self.sources, earlier);
            self.sink.push(d);
        }
        let class = match &declaration.class {
            ClassRef::Compound(compound) => self.compound(Some(text), compound),
            ClassRef::Name(name) => {
                let class = self.class_or_new(&name.text, name.span);
                Class::Synonym(Rc::new((text.clone(), class.target().clone())))
            }
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(text.clone(), class);
        }
    }

    fn compound(&mut self, name: Option<&str>, compound: &Compound) -> Class {
        let outer = self.current;
        let outer_ends = self.ends_at_output;
        let depth = self.routers.get(outer).map_or(0, |r| r.depth) + 1;
        let mut indices: Vec<usize> = Vec::new();
        let mut extension = None;
        let mut variants = compound.variants.len();
        for (i, variant) in compound.variants.iter().enumerate() {
            if self.sink.stopped {
                break;
            }
            let index = self.routers.len();
            let mut router = Router::new(name.unwrap_or("").to_owned(), depth, variant.span);
            for pseudo in ["input", "output"] {
                let at = SrcText::empty_at(variant.span);
                router.get_or_add(pseudo.to_owned(), Class::Tunnel, at, variant.span);
            }
            self.routers.push(router);
            self.current = index;
            self.scopes.push(HashMap::new());
            self.ends_at_output = true;
            self.formals(&variant.formals);
            self.statements(&variant.statements);
            self.finish(index, name);
            if let (Some(span), Some(name), true) =
                (compound.extends, name, i + 1 == compound.variants.len())
            {
                let class = self.class_or_new(name, span);
                if let Class::Compound(first) = class.target() {
                    variants += self.variants.get(first).copied().unwrap_or(1);
                }
                extension = Some(class.target().clone());
            }
            self.scopes.pop();
            self.current = outer;
            if let Some(&last) = indices.last() {
                self.routers[last].overload = Some(Class::Compound(index));
            }
            indices.push(index);
        }
        self.ends_at_output = outer_ends;
        if variants > MAX_VARIANTS {
            let d = Diagnostic::error(format!(
                "more than {MAX_VARIANTS} variants of a compound element class"
            ));
            self.sink.fatal(d.at(self.sources, compound.span));
        }
        let (Some(&first), Some(&last)) = (indices.first(), indices.last()) else {
            // The parser found no variant, which it has reported.
            return Class::Base("".into());
        };
        self.routers[last].overload = extension;
        self.variants.insert(first, variants);
        Class::Compound(first)
    }

    fn formals(&mut self, formals: &[Formal]) {
        let mut order_reported = false;
        for formal in formals {
            let known = &self.router().formals;
            if known.iter().any(|f| f.name == formal.name) {
                self.error(
                    formal.span,
                    format!("parameter '${}' is declared twice", formal.name),
                );
                continue;
            }
            let repeated =
                formal.keyword.is_some() && known.iter().any(|f| f.keyword == formal.keyword);
            let misplaced = known
                .last()
                .and_then(|f| f.keyword.as_deref())
                .is_some_and(|last| formal.keyword.is_none() || last == "__REST__");
            let full = known.len() >= MAX_FORMALS;
            if repeated && let Some(keyword) = &formal.keyword {
                self.error(formal.span, format!("keyword {keyword} is declared twice"));
            }
            if misplaced && !order_reported {
                order_reported = true;
                let d = Diagnostic::error("parameters are out of order")
                    .at(self.sources, formal.span)
                    .hint("positional parameters come first, then keywords, then __REST__");
                self.sink.push(d);
            }
            if full {
                return self.error(formal.span, format!("more than {MAX_FORMALS} parameters"));
            }
            self.router().formals.push(formal.clone());
        }
    }

    /// Checks the ends of a compound class and counts its ports.
    fn finish(&mut self, index: usize, name: Option<&str>) {
        let whose = name.map_or("this compound element".to_owned(), |n| format!("'{n}'"));
        let router = &mut self.routers[index];
        let span = router.span;
        let mut problems = Vec::new();
        for (pseudo, output) in [("input", false), ("output", true)] {
            let Some(&element) = router.names.get(pseudo) else {
                continue;
            };
            let (ports, more) = router.pseudo_ports(element, output, &whose);
            *(if output {
                &mut router.noutputs
            } else {
                &mut router.ninputs
            }) = ports;
            problems.extend(more);
        }
        router.assign_names();
        for problem in problems {
            self.error(span, problem);
        }
    }

    /// The name, until names are assigned, of an element without one.
    fn anonymous_name(&mut self, class: &str) -> String {
        let router = self.router();
        // The two ends of a compound class do not count.
        let number = router.elements.len() + 1 - if router.depth > 0 { 2 } else { 0 };
        format!(";{class}@{number}")
    }

    fn make(&mut self, name: String, class: Class, config: SrcText, span: Span) -> usize {
        let shown = name.trim_start_matches(';');
        if shown
            .split('/')
            .any(|part| part.bytes().all(|c| c.is_ascii_digit()))
        {
            self.error(
                span,
                format!("a part of the element name '{shown}' consists of digits only"),
            );
        }
        self.count_element(&name, span);
        self.router().get_or_add(name, class, config, span)
    }

    fn count_element(&mut self, name: &str, span: Span) {
        self.elements += 1;
        self.name_bytes += name.len();
        if self.elements > MAX_ELEMENTS {
            let d = Diagnostic::error(format!(
                "the configuration has more than {MAX_ELEMENTS} elements"
            ));
            self.sink.fatal(d.at(self.sources, span));
        } else if self.name_bytes > MAX_NAME_BYTES {
            let d = Diagnostic::error(format!(
                "the names of elements have more than {MAX_NAME_BYTES} bytes"
            ));
            self.sink.fatal(d.at(self.sources, span));
        }
    }

    fn group(&mut self, name: &str, group: &Group) -> [Ports; 2] {
        let span = group.span;
        self.count_element(name, span);
        self.count_element(name, span);
        let (inside_in, inside_out) = (format!("{name}/input"), format!("{name}/output"));
        let router = self.router();
        let first = router.add_tunnel(name.to_owned(), inside_in.clone(), span);
        let second = router.add_tunnel(inside_out.clone(), name.to_owned(), span);
        let (Some(&input), Some(&output)) =
            (router.names.get(&inside_in), router.names.get(&inside_out))
        else {
            return Default::default();
        };
        let old_input = router.names.insert("input".to_owned(), input);
        let old_output = router.names.insert("output".to_owned(), output);
        if first.is_err() || second.is_err() {
            self.error(span, "the name of this group is taken");
        }
        self.ends_at_output = true;
        self.statements(&group.statements);
        let router = self.router();
        let (ninputs, mut problems) = router.pseudo_ports(input, false, "this group");
        let (noutputs, more) = router.pseudo_ports(output, true, "this group");
        problems.extend(more);
        for (pseudo, old) in [("input", old_input), ("output", old_output)] {
            match old {
                Some(old) => router.names.insert(pseudo.to_owned(), old),
                None => router.names.remove(pseudo),
            };
        }
        for problem in problems {
            self.error(span, problem);
        }
        [ninputs, noutputs].map(|n| Ports {
            list: (0..n).collect(),
            open: false,
        })
    }

    fn chain(&mut self, chain: &Chain) {
        let mut before: Option<Vec<Used>> = None;
        for (i, link) in chain.links.iter().enumerate() {
            if self.sink.stopped {
                return;
            }
            let arrow_follows = i + 1 < chain.links.len() || chain.dangling.is_some();
            let elements = self.link(link, i > 0, arrow_follows);
            match (&before, link.arrow) {
                (Some(outputs), Some(arrow)) => self.connect_all(outputs, &elements, arrow),
                _ => self.check_useless(link, &elements, false),
            }
            if i + 1 == chain.links.len() {
                self.check_useless(link, &elements, true);
            }
            before = Some(elements);
        }
        let output = self.find("output");
        self.ends_at_output =
            matches!(before.as_deref(), Some([one]) if Some(one.element) == output);
        if let Some(span) = chain.dangling {
            let d = Diagnostic::warning("this connection leads nowhere")
                .at(self.sources, span)
                .expected("an element");
            self.sink.push(d);
        }
    }

    fn link(&mut self, link: &Link, after_arrow: bool, arrow_follows: bool) -> Vec<Used> {
        let mut pending: Vec<Pending<'_>> = Vec::with_capacity(link.elements.len());
        for element in &link.elements {
            if self.sink.stopped {
                return Vec::new();
            }
            let found = self.look_up(element, pending.is_empty() && !after_arrow);
            pending.push(found);
        }
        if !after_arrow && !arrow_follows {
            spread(&mut pending);
        }
        pending.into_iter().map(|p| self.element(p)).collect()
    }

    fn look_up<'a>(&mut self, element: &'a ElementUse, first: bool) -> Pending<'a> {
        let mut ports = [
            Ports::new(element.inputs.as_ref()),
            Ports::new(element.outputs.as_ref()),
        ];
        let (name, class) = match &element.what {
            What::Name(name) => (name.text.clone(), self.class(&name.text)),
            What::Compound(compound) => (String::new(), Some(self.compound(None, compound))),
            What::Group(group) => {
                let name = self.anonymous_name("");
                let own = self.group(&name, group);
                // A group has all its ports, in order, where none are given.
                for (ports, own) in ports.iter_mut().zip(own) {
                    if !ports.given() {
                        *ports = own;
                    }
                }
                (name, None)
            }
            What::Implicit(Pseudo::Output) => ("output".to_owned(), None),
            What::Implicit(Pseudo::Input) => {
                if first && !self.ends_at_output && !ports[1].given() {
                    let d = Diagnostic::warning("this chain starts at 'input', though the last one did not end at 'output'")
                        .at(self.sources, element.span)
                        .hint("write 'input' or '[0]' before the arrow if that is meant, ';' after the last chain if not");
                    self.sink.push(d);
                }
                ("input".to_owned(), None)
            }
        };
        let declared = element.class.as_ref().map(|class| self.class_ref(class));
        if let Some(config) = &element.config
            && self.find(&name).is_some()
        {
            let span = config.span().unwrap_or(element.span);
            let d = Diagnostic::error(match element.what {
                What::Group(_) => "a group has no configuration string".to_owned(),
                _ => format!(
                    "'{name}' is declared already, its configuration string cannot be given here"
                ),
            });
            self.sink.push(d.at(self.sources, span));
        }
        Pending {
            element,
            name,
            class,
            declared,
            config: element.config.as_ref(),
            ports,
        }
    }

    /// Finds or makes an element.
    fn element(&mut self, pending: Pending<'_>) -> Used {
        let Pending {
            element,
            mut name,
            mut class,
            declared,
            config,
            ports: [inputs, outputs],
        } = pending;
        let span = element.span;
        let existing = if class.is_some() {
            None
        } else {
            self.find(&name)
        };
        let index = match existing {
            Some(index) => {
                if declared.is_some() {
                    let earlier = self.router().elements[index].span;
                    let d = Diagnostic::error(format!("element '{name}' is declared twice"))
                        .at(self.sources, span)
                        .note_at("declared here before", self.sources, earlier);
                    self.sink.push(d);
                }
                index
            }
            None => {
                match &declared {
                    Some(d) if class.is_some() || name == self.class_name(d) => {
                        let what = if name.is_empty() {
                            "a compound element class stands where an element name belongs"
                                .to_owned()
                        } else {
                            format!("'{name}' is an element class, not a name for an element")
                        };
                        self.error(span, what);
                    }
                    Some(_) => {}
                    None if class.is_none() => class = Some(self.class_or_new(&name, span)),
                    None => {}
                }
                if let Some(class) = &class {
                    let class_name = self.class_name(class);
                    name = self.anonymous_name(&class_name);
                }
                let class = class.or(declared).unwrap_or(Class::Tunnel);
                let config = config.cloned().unwrap_or_else(|| SrcText::empty_at(span));
                self.make(name, class, config, span)
            }
        };
        Used {
            element: index,
            inputs,
            outputs,
            span,
        }
    }
}

/// `a, b, c :: Class(config)` declares all of them if nothing is connected.
fn spread(pending: &mut [Pending<'_>]) {
    let Some((last, others)) = pending.split_last_mut() else {
        return;
    };
    let bare = |p: &Pending<'_>| {
        matches!(p.element.what, What::Name(_)) && p.declared.is_none() && p.config.is_none()
    };
    let ports = |p: &Pending<'_>| p.element.inputs.is_some() || p.element.outputs.is_some();
    if last.declared.is_none() || ports(last) || !others.iter().all(|p| bare(p) && !ports(p)) {
        return;
    }
    for p in others {
        p.declared = last.declared.clone();
        p.config = last.config;
    }
}
