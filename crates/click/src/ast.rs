//! The syntax tree of a configuration.
//!
//! It mirrors the text: names are not resolved (in a connection, `Foo` may be an element or a class), and parameters
//! are not substituted. Every node has its [`Span`].

use crate::source::{FileId, SourceMap, Span};
use crate::text::SrcText;
use std::sync::Arc;

/// A name and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where it is.
    pub span: Span,
}

/// A configuration.
#[derive(Clone, Debug)]
pub struct Ast {
    /// The texts that spans refer to.
    pub sources: Arc<SourceMap>,
    /// The file that was parsed; libraries are other files of `sources`.
    pub file: FileId,
    /// Its statements.
    pub statements: Vec<Statement>,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// `a :: A; b -> B -> [1] c`: elements declared and connected.
    Chain(Chain),
    /// `elementclass Name ...`
    ElementClass(ElementClass),
    /// `require(...)`
    Require(Vec<Require>),
    /// `define($NAME value, ...)`
    Define(Vec<Define>),
}

/// Elements, or lists of elements, with arrows between them.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The lists. There is at least one.
    pub links: Vec<Link>,
    /// The arrow at the end that leads nowhere, if there is one.
    pub dangling: Option<Span>,
}

/// One list of elements of a chain.
#[derive(Clone, Debug)]
pub struct Link {
    /// The arrow that leads here; none for the first link.
    pub arrow: Option<Arrow>,
    /// The elements, separated by commas. There is at least one.
    pub elements: Vec<ElementUse>,
}

/// `->` or `=>`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Whether it is `=>`, which connects port lists side by side.
    pub double: bool,
    /// Where it is.
    pub span: Span,
}

/// An element in a chain: `[0] name :: Class(config) [1]`.
#[derive(Clone, Debug)]
pub struct ElementUse {
    /// What it is.
    pub what: What,
    /// The class after `::`.
    pub class: Option<ClassRef>,
    /// The configuration string.
    pub config: Option<SrcText>,
    /// Input ports: `[...]` before it.
    pub inputs: Option<PortList>,
    /// Output ports: `[...]` after it.
    pub outputs: Option<PortList>,
    /// Where it is, ports left out.
    pub span: Span,
}

/// The main part of an [`ElementUse`].
#[derive(Clone, Debug)]
pub enum What {
    /// A name: of an element, or of a class.
    Name(Name),
    /// `{ ... }`
    Compound(Box<Compound>),
    /// `( ... )`
    Group(Box<Group>),
    /// Nothing, where `input` or `output` is understood.
    Implicit(Pseudo),
}

/// The ends of a compound element or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pseudo {
    /// Where packets come in.
    Input,
    /// Where packets go out.
    Output,
}

/// The class of a declaration.
#[derive(Clone, Debug)]
pub enum ClassRef {
    /// The name of a class.
    Name(Name),
    /// A compound class without a name.
    Compound(Box<Compound>),
}

/// `[0, 2-4]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortList {
    /// The ports.
    pub ports: Vec<usize>,
    /// Whether it goes on as far as the other side of the connection needs (`[]`, `[1-]`, `[1,]`).
    pub open: bool,
    /// Where it is.
    pub span: Span,
}

/// `( ... )` in place of an element. It is no scope of its own.
#[derive(Clone, Debug)]
pub struct Group {
    /// What is inside.
    pub statements: Vec<Statement>,
    /// Where it is.
    pub span: Span,
}

/// `elementclass Name ...`
#[derive(Clone, Debug)]
pub struct ElementClass {
    /// The new class.
    pub name: Name,
    /// What it is.
    pub class: ClassRef,
}

/// `{ ... || ... || ... }`: a compound element class.
#[derive(Clone, Debug)]
pub struct Compound {
    /// The variants, in order. There is at least one.
    pub variants: Vec<Variant>,
    /// The `...` at the end, which adds the variants of the class that had this name before.
    pub extends: Option<Span>,
    /// Where it is.
    pub span: Span,
}

/// One variant of a compound element class.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The parameters before `|`.
    pub formals: Vec<Formal>,
    /// What is inside.
    pub statements: Vec<Statement>,
    /// Where it is.
    pub span: Span,
}

/// A parameter of a compound element class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formal {
    /// `None` for a positional parameter, else the keyword; `__REST__` collects what is left.
    pub keyword: Option<String>,
    /// The name, without `$`.
    pub name: String,
    /// Where it is.
    pub span: Span,
}

/// One part of `require(...)`.
#[derive(Clone, Debug)]
pub enum Require {
    /// `package "name"`, or only `name`.
    Package(Name),
    /// `compact_config`
    CompactConfig(Span),
    /// `library "file"`, with what is in the file; nothing if it was included before.
    Library {
        /// The name that was given.
        name: Name,
        /// The statements of the library.
        statements: Vec<Statement>,
    },
}

/// One part of `define(...)`.
#[derive(Clone, Debug)]
pub struct Define {
    /// The name, without `$`.
    pub name: Name,
    /// The value.
    pub value: SrcText,
}
