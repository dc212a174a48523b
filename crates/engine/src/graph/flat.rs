//! From the Click language's flat graph to the engine's input.

use onefold_click::FlatGraph;
use onefold_click::source::{SourceMap, Span};
use onefold_element::{ConnectionSpec, ElementSpec, GraphSpec, SourceLoc};
use std::collections::HashMap;
use std::sync::Arc;

/// Turns spans into places, sharing file names.
struct Places<'a> {
    sources: &'a SourceMap,
    files: HashMap<String, Arc<str>>,
}

impl Places<'_> {
    fn at(&mut self, span: Span) -> SourceLoc {
        let l = self.sources.locate(span);
        let file = match self.files.get(&l.file) {
            Some(f) => f.clone(),
            None => {
                let f: Arc<str> = l.file.as_str().into();
                self.files.insert(l.file, f.clone());
                f
            }
        };
        SourceLoc {
            file,
            line: l.line,
            column: l.column,
        }
    }
}

/// The flat graph as a [`GraphSpec`], every argument with the place where it was written.
pub fn spec_from_flat(flat: &FlatGraph) -> GraphSpec {
    let mut places = Places {
        sources: &flat.sources,
        files: HashMap::new(),
    };
    let mut spec = GraphSpec::default();
    for e in &flat.elements {
        let decl = places.at(e.span);
        let args = e.args();
        spec.elements.push(ElementSpec {
            name: e.name.clone(),
            class: e.class.clone(),
            arg_locs: (args.iter())
                .map(|a| a.span().map_or(decl.clone(), |s| places.at(s)))
                .collect(),
            args: args.iter().map(|a| a.as_str().to_string()).collect(),
            decl,
        });
    }
    for c in &flat.connections {
        spec.connections.push(ConnectionSpec {
            from: (c.from.element, c.from.port),
            to: (c.to.element, c.to.port),
            loc: places.at(c.span),
        });
    }
    spec
}
