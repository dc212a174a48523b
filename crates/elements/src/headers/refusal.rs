//! What the header checkers have in common: refused packets, counted by cause.

use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Exit, Op};
use onefold_element::{Cx, DropReason};
use onefold_packet::Pkt;

/// Most causes that one checker tells apart.
const MAX_CAUSES: usize = 8;

/// A cause: Click's text in messages and in the `drop_details` handler, and the drop reason.
pub type Cause = (&'static str, DropReason);

/// Makes a table of causes whose drop reasons start with the class name.
macro_rules! causes {
    ($class:literal: $($text:literal),+ $(,)?) => {
        &[$(($text, concat!($class, ": ", $text))),+]
    };
}
pub(super) use causes;

/// How a checker's messages start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// `name: `
    Name,
    /// `name :: Class: `
    NameAndClass(&'static str),
    /// Nothing.
    Bare,
}

/// Counts refused packets, prints the first (or, if verbose, every) refusal and sends them to output 1 or drops them.
#[derive(Debug, Clone)]
pub struct Refusals {
    /// Which protocol's header is checked: `"IP"`.
    protocol: &'static str,
    lead: Lead,
    causes: &'static [Cause],
    verbose: bool,
    details: bool,
    total: u64,
    by_cause: [u64; MAX_CAUSES],
}

impl Refusals {
    /// Nothing refused yet.
    pub fn new(protocol: &'static str, lead: Lead, causes: &'static [Cause]) -> Self {
        Refusals {
            protocol,
            lead,
            causes,
            verbose: false,
            details: false,
            total: 0,
            by_cause: [0; MAX_CAUSES],
        }
    }

    /// Reads VERBOSE and DETAILS.
    pub fn configure(&mut self, args: &mut Args<'_>) {
        self.verbose = args.keyword("VERBOSE").unwrap_or(false);
        self.details = args.keyword("DETAILS").unwrap_or(false);
    }

    /// How a model refuses a packet for cause number `cause`: it is accounted for with that number as tag.
    pub fn refusal(&self, cause: usize) -> (Op, Exit) {
        let reason = self.causes.get(cause).map_or("refused", |c| c.1);
        (Op::Count(cause as u16), Exit::PortOrDrop(1, reason))
    }

    /// See [`onefold_element::Element::tells_later`]: not where each refusal has a line.
    pub fn tells_later(&self) -> bool {
        !self.verbose
    }

    /// So many packets are refused for cause number `cause`. Causes that come up between two moments are accounted for
    /// in the order in which they came up: the first of all is printed.
    #[cold]
    pub fn account(&mut self, cause: usize, packets: u64, cx: &mut Cx<'_>) {
        let (text, _) = self.causes.get(cause).copied().unwrap_or(("", "refused"));
        let lines = match (self.verbose, self.total) {
            (true, _) => packets,
            (false, 0) => 1,
            (false, _) => 0,
        };
        // Bound: at most as many lines as packets
        for _ in 0..lines {
            let lead = match self.lead {
                Lead::Name => format!("{}: ", cx.host.element_name(cx.elem)),
                Lead::NameAndClass(c) => format!("{} :: {c}: ", cx.host.element_name(cx.elem)),
                Lead::Bare => String::new(),
            };
            let protocol = self.protocol;
            cx.chatter(&format!("{lead}{protocol} header check failed: {text}\n"));
        }
        self.total += packets;
        if let Some(n) = self.by_cause.get_mut(cause) {
            *n += packets;
        }
    }

    /// The packet is refused for cause number `cause`.
    #[cold]
    pub fn refuse(&mut self, cause: usize, p: Pkt, cx: &mut Cx<'_>) {
        self.account(cause, 1, cx);
        let (text, reason) = self.causes.get(cause).copied().unwrap_or(("", "refused"));
        cx.decide(None, || format!("refused: {text}"));
        cx.emit_or_drop(1, p, reason);
    }

    /// `drops`, and `drop_details` if DETAILS was asked for.
    pub fn handlers(&self) -> &'static [HandlerInfo] {
        const WITH: &[HandlerInfo] = &[HandlerInfo::r("drops"), HandlerInfo::r("drop_details")];
        if self.details { WITH } else { &WITH[..1] }
    }

    /// Reads one of them.
    pub fn read(&self, name: &str) -> HandlerResult {
        match name {
            "drops" => Ok(self.total.to_string()),
            "drop_details" if self.details => Ok(self
                .causes
                .iter()
                .zip(self.by_cause)
                .map(|((text, _), n)| format!("{n}\t{text}\n"))
                .collect()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
}
