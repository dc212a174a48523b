//! The flat element graph: what a configuration means once compound elements, groups and parameters are gone.

use crate::diag::Diagnostic;
use crate::source::{SourceMap, Span};
use crate::suggest;
use crate::text::SrcText;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A port of an element of a [`FlatGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// Index in [`FlatGraph::elements`].
    pub element: usize,
    /// Port number.
    pub port: usize,
}

/// One element.
#[derive(Clone, Debug)]
pub struct FlatElement {
    /// Full name, the names of the compound elements around it included: `edge/nat/rw`.
    pub name: String,
    /// Whether the name was made up for an element that was declared without one (`Queue@3`).
    pub anonymous: bool,
    /// Element class, synonyms resolved.
    pub class: String,
    /// Configuration string, parameters substituted, comments included. It knows where each part was written.
    pub config: SrcText,
    /// Where the element was declared (its name there, or its class if it has none).
    pub span: Span,
    /// The compound element that it is directly in, as an index in [`FlatGraph::compounds`].
    pub compound: Option<usize>,
}

impl FlatElement {
    /// The arguments, comments removed. Each knows where it was written.
    pub fn args(&self) -> Vec<SrcText> {
        self.config.split_args()
    }
}

/// A compound element that was expanded.
#[derive(Clone, Debug)]
pub struct FlatCompound {
    /// Full name: `edge/nat`.
    pub name: String,
    /// Name of its element class; empty for `{ ... }` without a name.
    pub class: String,
    /// Where it was declared.
    pub span: Span,
    /// The compound element that it is directly in.
    pub parent: Option<usize>,
}

/// A connection from an output port to an input port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The output port.
    pub from: PortRef,
    /// The input port.
    pub to: PortRef,
    /// Where it was written (for connections through compound elements: the part next to `to`).
    pub span: Span,
}

/// What a configuration requires of what runs it: `require(package "foo")`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// `package` or `compact_config`.
    pub kind: String,
    /// The name of the package; empty for `compact_config`.
    pub value: String,
}

/// A flat element graph.
#[derive(Clone, Debug, Default)]
pub struct FlatGraph {
    /// The elements. Those declared outside compound elements come first, each part in the order of the text.
    pub elements: Vec<FlatElement>,
    /// The connections, without repetition.
    pub connections: Vec<Connection>,
    /// The compound elements that were expanded. Their parents come before them.
    pub compounds: Vec<FlatCompound>,
    /// The requirements, those of compound elements once per expansion.
    pub requirements: Vec<Requirement>,
    /// The global parameters (`define` outside compound elements, and parameters given from outside) with their values.
    pub defines: Vec<(String, SrcText)>,
    /// Whether `$NAME` references to global parameters were kept in configuration strings.
    pub defines_kept: bool,
    /// The texts that spans refer to.
    pub sources: Arc<SourceMap>,
    /// Remarks on a configuration that is accepted.
    pub warnings: Vec<Diagnostic>,
}

impl FlatGraph {
    /// The index of the element with this full name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|e| e.name == name)
    }

    /// The number of input and output ports in use, per element: the highest one connected plus one.
    pub fn port_counts(&self) -> Vec<(usize, usize)> {
        let mut counts = vec![(0, 0); self.elements.len()];
        for c in &self.connections {
            if let Some((_, outputs)) = counts.get_mut(c.from.element) {
                *outputs = (*outputs).max(c.from.port + 1);
            }
            if let Some((inputs, _)) = counts.get_mut(c.to.element) {
                *inputs = (*inputs).max(c.to.port + 1);
            }
        }
        counts
    }

    /// The compound elements around an element, outermost first.
    pub fn compound_path(&self, element: usize) -> Vec<&FlatCompound> {
        let mut path = Vec::new();
        let mut next = self.elements.get(element).and_then(|e| e.compound);
        // Parents come before their children, so this ends.
        while let Some(compound) = next.and_then(|i| self.compounds.get(i)) {
            path.push(compound);
            next = compound.parent.filter(|&parent| Some(parent) < next);
        }
        path.reverse();
        path
    }

    /// One error for every element whose class is not in `known`, all of them, with near misses among the known
    /// classes, and among the elements declared beside it: a mistyped element name in a connection reads as a class.
    pub fn unknown_classes<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> Vec<Diagnostic> {
        let known: std::collections::BTreeSet<&str> = known.into_iter().collect();
        let mut unknown: BTreeMap<(&str, Span), &FlatElement> = BTreeMap::new();
        for e in self
            .elements
            .iter()
            .filter(|e| !known.contains(e.class.as_str()))
        {
            // An element of a compound class is reported once, however often the class is used.
            unknown.entry((&e.class, e.span)).or_insert(e);
        }
        let mut found: Vec<&FlatElement> = unknown.into_values().collect();
        found.sort_by_key(|e| e.span);
        found
            .into_iter()
            .map(|e| self.unknown_class(e, &known))
            .collect()
    }

    fn unknown_class(
        &self,
        e: &FlatElement,
        known: &std::collections::BTreeSet<&str>,
    ) -> Diagnostic {
        let local = |other: &&FlatElement| other.compound == e.compound && !other.anonymous;
        let prefix = e
            .compound
            .and_then(|c| self.compounds.get(c))
            .map_or(0, |c| c.name.len() + 1);
        let elements: Vec<&str> = self
            .elements
            .iter()
            .filter(local)
            .filter_map(|other| other.name.get(prefix..))
            .collect();
        let candidates = known
            .iter()
            .copied()
            .chain(e.anonymous.then_some(elements).into_iter().flatten());
        let mut d = Diagnostic::error(format!("unknown element class '{}'", e.class))
            .at(&self.sources, e.span)
            .maybe_hint(suggest::did_you_mean(&e.class, candidates));
        let mut around = e.compound;
        while let Some(c) = around.and_then(|i| self.compounds.get(i)) {
            if c.class == e.class {
                d = d.note(format!(
                    "compound element classes are not recursive: '{}' is not known inside itself",
                    c.class
                ));
                break;
            }
            around = c.parent.filter(|&parent| Some(parent) < around);
        }
        d
    }
}
