//! The Click language: text -> syntax tree with spans -> flat element graph.
//!
//! [`parse`] turns a configuration into an [`ast::Ast`], [`flatten`] turns that into a [`FlatGraph`]: compound elements
//! expanded, groups dissolved, parameters substituted. [`load`] does both. All errors of a text are reported together,
//! as [`diag::Diagnostic`]s, a type that the rest of the workspace shares.
//!
//! Element classes need not be known: [`FlatGraph::unknown_classes`] is for those who know which there are.
//!
//! ```
//! let text = "
//!     elementclass Shaped { $rate | input -> Queue(200) -> s :: Shaper($rate) -> output }
//!     src :: InfiniteSource -> Shaped(1000) -> Discard;
//! ";
//! let graph = onefold_click::load(text.as_bytes(), "demo.click", &[], &Default::default()).unwrap();
//! let names: Vec<&str> = graph.elements.iter().map(|e| e.name.as_str()).collect();
//! assert_eq!(names, ["src", "Discard@3", "Shaped@2/Queue@1", "Shaped@2/s"]);
//! assert_eq!(graph.elements[3].config, "1000");
//! assert_eq!(graph.connections.len(), 3);
//! ```
//!
//! # Text and bytes
//!
//! Sources are bytes. Names and punctuation are ASCII; comments may contain anything; configuration strings have to be
//! UTF-8, other bytes are written as escapes (`"\xff"`), and [`conf::unquote`] gives bytes.
//!
//! # Bounds
//!
//! Every input is handled in bounded time and memory: see the constants in [`limits`].

#![forbid(unsafe_code)]

mod assign;
pub mod ast;
mod build;
pub mod conf;
pub mod diag;
mod expand;
mod flatten;
pub mod graph;
mod lex;
mod library;
pub mod limits;
mod parse;
mod print;
mod router;
pub mod source;
pub mod suggest;
pub mod text;
mod tunnel;

pub use graph::{Connection, FlatCompound, FlatElement, FlatGraph, PortRef, Requirement};
pub use library::{FileLibraries, Libraries};
pub use parse::{ParseOptions, parse};
pub use text::SrcText;

use diag::Diagnostic;

/// How [`flatten`] treats global parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Globals {
    /// Their values are substituted.
    #[default]
    Substitute,
    /// References to them stay, and [`FlatGraph::to_click_text`] writes the `define` statement. This is what
    /// `click-flatten` does unless it is told to expand variables.
    Keep,
}

/// How to read a configuration: see [`load`].
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// How to parse.
    pub parse: ParseOptions<'a>,
    /// What to do with global parameters.
    pub globals: Globals,
}

/// Expands compound elements, dissolves groups and substitutes parameters. `params` are global parameters given from
/// outside (`NAME=VALUE` on a command line): they replace what `define` says outside compound elements.
///
/// Errors, and warnings with them, if the configuration cannot be flattened.
pub fn flatten(
    ast: &ast::Ast,
    params: &[(String, String)],
    globals: Globals,
) -> Result<FlatGraph, Vec<Diagnostic>> {
    flatten::flatten(ast, params, globals)
}

/// Parses and flattens. All errors of both, by place; warnings only where there are no errors.
pub fn load(
    text: &[u8],
    file_name: &str,
    params: &[(String, String)],
    options: &LoadOptions<'_>,
) -> Result<FlatGraph, Vec<Diagnostic>> {
    let (ast, mut diagnostics) = parse(text, file_name, &options.parse);
    let result = if diag::any_errors(&diagnostics) {
        // What could not be read is missing in the graph, so most errors found by expanding it would be misleading.
        Err(flatten::check(&ast))
    } else {
        flatten(&ast, params, options.globals)
    };
    match result {
        Ok(mut graph) => {
            diagnostics.append(&mut graph.warnings);
            graph.warnings = diagnostics;
            Ok(graph)
        }
        Err(more) => {
            diagnostics.extend(more);
            diagnostics.retain(|d| d.is_error());
            diagnostics.sort_by_key(|d| (d.location.is_none(), d.location.clone()));
            Err(diagnostics)
        }
    }
}
