//! What can be wrong with a graph: diagnostics with their places.

use onefold_element::{ConfigError, SourceLoc};
use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The graph is usable.
    Warning,
    /// The graph is not built.
    Error,
}

/// When it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Looking up element classes.
    Classes,
    /// Checking connections and push/pull processing.
    Connections,
    /// Reading configurations.
    Configure,
    /// Initializing configured elements.
    Initialize,
}

/// An error or a warning about a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// Nothing is wrong with the graph, it only says something (Message); its severity is that of a warning.
    pub info: bool,
    /// When found.
    pub stage: Stage,
    /// Where: the offending argument, the connection or the declaration.
    pub loc: SourceLoc,
    /// Where the element is declared.
    pub decl: SourceLoc,
    /// The element that it is about: full name and class.
    pub element: Option<(String, String)>,
    /// Documented name of the argument that it is about.
    pub argument: Option<String>,
    /// What is wrong and what was wanted.
    pub message: String,
    /// How to mend it.
    pub hint: Option<String>,
    /// Other places that matter (the other end of a connection).
    pub notes: Vec<(SourceLoc, String)>,
}

impl Diagnostic {
    pub(crate) fn new(stage: Stage, loc: SourceLoc, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            info: false,
            stage,
            decl: loc.clone(),
            loc,
            element: None,
            argument: None,
            message: message.into(),
            hint: None,
            notes: Vec::new(),
        }
    }

    pub(crate) fn of_config(stage: Stage, e: ConfigError, loc: SourceLoc, decl: SourceLoc) -> Self {
        Diagnostic {
            severity: match e.warning {
                true => Severity::Warning,
                false => Severity::Error,
            },
            info: e.info,
            stage,
            loc,
            decl,
            element: None,
            argument: e.argument,
            message: e.message,
            hint: e.hint,
            notes: Vec::new(),
        }
    }

    pub(crate) fn about(mut self, name: &str, class: &str) -> Self {
        self.element = Some((name.to_string(), class.to_string()));
        self
    }

    pub(crate) fn note(mut self, loc: SourceLoc, text: impl Into<String>) -> Self {
        self.notes.push((loc, text.into()));
        self
    }

    /// Is it an error (rather than a warning)?
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// One line, and one more for each note: `FILE:LINE:COLUMN: error: 'name :: Class': ARGUMENT: message (hint)`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Warning if self.info => "note",
            Severity::Warning => "warning",
        };
        write!(f, "{}: {kind}: ", self.loc)?;
        if let Some((name, class)) = &self.element
            && matches!(self.stage, Stage::Configure | Stage::Initialize)
        {
            write!(f, "'{name} :: {class}': ")?;
        }
        if let Some(a) = &self.argument {
            write!(f, "{a}: ")?;
        }
        write!(f, "{}", self.message)?;
        if let Some(h) = &self.hint {
            write!(f, " ({h})")?;
        }
        for (loc, text) in &self.notes {
            write!(f, "\n  {loc}: {text}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// Everything that keeps a graph from being built, warnings included.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("\n"))]
pub struct BuildError(pub Vec<Diagnostic>);
