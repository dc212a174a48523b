//! Diagnostics: what is wrong, where, what was expected, and what would help.
//!
//! Shared by everything in the workspace that reads what people write (configurations, chain files, rule sets).
//! A [`Diagnostic`] is complete in itself: it holds its place and the line of text it is about, so it can be
//! printed or serialised after the sources are gone.
//!
//! ```
//! use onefold_click::diag::Diagnostic;
//! use onefold_click::source::{SourceMap, Span};
//! let mut sources = SourceMap::new();
//! let file = sources.add("router.click", "q :: Qeue(10);\n");
//! let d = Diagnostic::error("unknown element class 'Qeue'")
//!     .at(&sources, Span::new(file, 5, 9))
//!     .hint("did you mean 'Queue'?");
//! assert_eq!(d.to_string(), "router.click:1:6: error: unknown element class 'Qeue' (did you mean 'Queue'?)");
//! println!("{}", d.render(false));
//! ```

use crate::source::{Excerpt, Location, SourceMap, Span};
use annotate_snippets::{AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "lowercase")
)]
pub enum Severity {
    /// The input is accepted, but probably not what was meant.
    Warning,
    /// The input is refused.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// A second place that belongs to a diagnostic, or a remark without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What is there.
    pub message: String,
    /// Where.
    pub location: Option<Location>,
    excerpt: Option<Excerpt>,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, one sentence without a final stop.
    pub message: String,
    /// Where. Unknown for errors that concern the whole.
    pub location: Option<Location>,
    /// What was expected at that place.
    pub expected: Option<String>,
    /// What would help.
    pub hint: Option<String>,
    /// Other places and remarks.
    pub notes: Vec<Note>,
    excerpt: Option<Excerpt>,
}

impl Diagnostic {
    fn new(severity: Severity, message: String) -> Diagnostic {
        Diagnostic {
            severity,
            message,
            location: None,
            expected: None,
            hint: None,
            notes: Vec::new(),
            excerpt: None,
        }
    }

    /// An error.
    pub fn error(message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, message.into())
    }

    /// A warning.
    pub fn warning(message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, message.into())
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, sources: &SourceMap, span: Span) -> Diagnostic {
        self.location = Some(sources.locate(span));
        self.excerpt = sources.excerpt(span);
        self
    }

    /// Says where, if only the place and not the text is at hand.
    #[must_use]
    pub fn at_location(mut self, location: Location) -> Diagnostic {
        self.location = Some(location);
        self
    }

    /// Says what was expected there.
    #[must_use]
    pub fn expected(mut self, what: impl Into<String>) -> Diagnostic {
        self.expected = Some(what.into());
        self
    }

    /// Says what would help.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint if there is one, such as from [`did_you_mean`](crate::suggest::did_you_mean).
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Diagnostic {
        if hint.is_some() {
            self.hint = hint;
        }
        self
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note {
            message: message.into(),
            location: None,
            excerpt: None,
        });
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn note_at(
        mut self,
        message: impl Into<String>,
        sources: &SourceMap,
        span: Span,
    ) -> Diagnostic {
        self.notes.push(Note {
            message: message.into(),
            location: Some(sources.locate(span)),
            excerpt: sources.excerpt(span),
        });
        self
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The diagnostic with the text it is about, as compilers print it; with ANSI colours if `colour`.
    pub fn render(&self, colour: bool) -> String {
        let level = match self.severity {
            Severity::Warning => Level::WARNING,
            Severity::Error => Level::ERROR,
        };
        let label = self.expected.as_ref().map(|e| format!("expected {e}"));
        let mut main = Group::with_title(level.primary_title(printable(&self.message)));
        main = place(
            main,
            self.location.as_ref(),
            self.excerpt.as_ref(),
            label.as_deref(),
            AnnotationKind::Primary,
        );
        if self.excerpt.is_none()
            && let Some(label) = label
        {
            main = main.element(Level::NOTE.message(printable(&label)));
        }
        let mut groups = Vec::new();
        let mut plain: Vec<Element<'_>> = Vec::new();
        for note in &self.notes {
            if note.location.is_none() {
                plain.push(Level::NOTE.message(printable(&note.message)).into());
            } else {
                let group =
                    Group::with_title(Level::NOTE.secondary_title(printable(&note.message)));
                groups.push(place(
                    group,
                    note.location.as_ref(),
                    note.excerpt.as_ref(),
                    None,
                    AnnotationKind::Context,
                ));
            }
        }
        if let Some(hint) = &self.hint {
            plain.push(Level::HELP.message(printable(hint)).into());
        }
        main = main.elements(plain);
        groups.insert(0, main);
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&groups).to_string()
    }
}

/// Control characters of a message would disturb a terminal.
fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}

fn place<'a>(
    group: Group<'a>,
    location: Option<&'a Location>,
    excerpt: Option<&'a Excerpt>,
    label: Option<&str>,
    kind: AnnotationKind,
) -> Group<'a> {
    let Some(location) = location else {
        return group;
    };
    match excerpt {
        Some(excerpt) => {
            let mut annotation = kind.span(excerpt.start..excerpt.end);
            if let Some(label) = label {
                annotation = annotation.label(printable(label));
            }
            group.element(
                Snippet::source(excerpt.text.as_str())
                    .path(location.file.as_str())
                    .line_start(location.line as usize)
                    .annotation(annotation),
            )
        }
        None => group.element(
            Origin::path(location.file.as_str())
                .line(location.line as usize)
                .char_column(location.column as usize),
        ),
    }
}

/// One line: place, severity, message, what was expected, hint.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        write!(f, "{}: {}", self.severity, self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, ", expected {expected}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// Whether any of them is an error.
pub fn any_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}

/// All of them rendered, an empty line between two.
pub fn render_all(diagnostics: &[Diagnostic], colour: bool) -> String {
    let mut out = String::new();
    for d in diagnostics {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&d.render(colour));
        out.push('\n');
    }
    out
}

#[cfg(feature = "serde")]
mod serial {
    use super::{Diagnostic, Note};
    use crate::source::Location;
    use serde::ser::{Serialize, SerializeStruct, Serializer};

    fn place<S: SerializeStruct>(out: &mut S, location: Option<&Location>) -> Result<(), S::Error> {
        out.serialize_field("file", &location.map(|l| &l.file))?;
        out.serialize_field("line", &location.map(|l| l.line))?;
        out.serialize_field("column", &location.map(|l| l.column))?;
        out.serialize_field("length", &location.map(|l| l.length))
    }

    impl Serialize for Diagnostic {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut out = serializer.serialize_struct("Diagnostic", 9)?;
            out.serialize_field("severity", &self.severity)?;
            place(&mut out, self.location.as_ref())?;
            out.serialize_field("message", &self.message)?;
            out.serialize_field("expected", &self.expected)?;
            out.serialize_field("hint", &self.hint)?;
            out.serialize_field("notes", &self.notes)?;
            out.end()
        }
    }

    impl Serialize for Note {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut out = serializer.serialize_struct("Note", 5)?;
            out.serialize_field("message", &self.message)?;
            place(&mut out, self.location.as_ref())?;
            out.end()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Diagnostic {
        let mut sources = SourceMap::new();
        let file = sources.add("r.click", "a -> [x]b;\n\nc :: C;\n");
        Diagnostic::error("port number should be an integer")
            .at(&sources, Span::new(file, 6, 7))
            .expected("a port number")
            .hint("ports count from 0")
            .note_at("'c' declared here", &sources, Span::new(file, 12, 13))
            .note("a remark")
    }

    #[test]
    fn rendering_shows_the_line_and_the_place() {
        let text = sample().render(false);
        for part in [
            "error: port number",
            "r.click:1:7",
            "a -> [x]b;",
            "^ expected a port number",
            "c :: C;",
            "a remark",
            "help",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn rendering_survives_odd_places() {
        let mut sources = SourceMap::new();
        let file = sources.add("odd\u{7}", b"\xff\xfe\ttab\x1b[31m".to_vec());
        for span in [
            Span::new(file, 0, 1),
            Span::new(file, 3, 900),
            Span::new(file, 900, 901),
        ] {
            assert!(
                Diagnostic::error("bad \u{1b} text")
                    .at(&sources, span)
                    .render(false)
                    .contains("error")
            );
        }
        assert!(
            Diagnostic::warning("no place")
                .render(true)
                .contains("no place")
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_has_the_promised_keys() {
        let json = serde_json::to_value(sample()).unwrap();
        assert_eq!(json["severity"], "error");
        assert_eq!(json["file"], "r.click");
        assert_eq!((&json["line"], &json["column"]), (&1.into(), &7.into()));
        assert_eq!(json["hint"], "ports count from 0");
        assert_eq!(json["notes"][0]["line"], 3);
    }
}
