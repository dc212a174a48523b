//! Network functions without Click: each kind is *defined as a graph of elements*.
//!
//! A kind turns its part of the chain file into the text of a Click configuration whose devices are its ports
//! (`FromDevice(0)`, `ToDevice(1)` ...). Line directives in the text point back at the rule, route or pattern that each
//! line was made from, so that errors and traces name the operator's own line.

mod address;
pub mod connections;
pub mod dpi;
pub mod external;
pub mod firewall;
pub mod load_balancer;
pub mod monitor;
pub mod nat;
pub mod native;
pub mod router;
mod side;
mod side6;
pub mod vlan;

use crate::error::Reader;
use crate::live::LivePort;
use crate::rules::ListedRule;
use onefold_click::source::{FileId, Span};

/// What a kind may use while it builds its graph.
pub struct KindCx<'a> {
    /// The function's name.
    pub name: &'a str,
    /// Reads files, collects errors.
    pub reader: &'a mut Reader,
    /// The chain file.
    pub file: FileId,
    /// The function's place in the chain file, for errors about the whole.
    pub span: Span,
    /// The operator's rules, as they are written into elements.
    pub rules: Vec<ListedRule>,
    /// Whose health is to be looked at.
    pub health: Option<load_balancer::HealthPlan>,
    /// Of a load balancer: its servers.
    pub balanced: Option<load_balancer::Balanced>,
    /// The function has a ConnTable, `connections`.
    pub(crate) tracks: bool,
}

impl<'a> KindCx<'a> {
    /// Of a function that nothing is known of yet.
    pub fn new(name: &'a str, reader: &'a mut Reader, file: FileId, span: Span) -> KindCx<'a> {
        KindCx {
            name,
            reader,
            file,
            span,
            rules: Vec::new(),
            health: None,
            balanced: None,
            tracks: false,
        }
    }
    /// The network interface that a port of the function is at.
    pub fn live(&self, port: usize) -> Option<&LivePort> {
        self.reader.live.at(self.name, port)
    }
    /// Does the chain file connect a port of the function?
    pub(crate) fn wired(&self, port: usize) -> bool {
        let function = self.name.to_string();
        let at = crate::links::PortRef { function, port };
        self.reader.wired.contains(&at)
    }
    /// The place of a value in the chain file.
    pub fn at<T>(&self, v: &crate::file::Loc<T>) -> Span {
        Span::new(self.file, v.start, v.start + v.len)
    }
    /// Records an error about a value of the chain file.
    pub fn error<T>(&mut self, v: &crate::file::Loc<T>, message: impl Into<String>) {
        let span = self.at(v);
        let message = format!("{}: {}", self.name, message.into());
        self.reader.error(span, message);
    }
    /// Warns where an expression in a value of the chain file mixes `&&` and `or` without parentheses.
    pub fn warn_of_mixture<T>(&mut self, v: &crate::file::Loc<T>, expression: &str) {
        let span = self.at(v);
        let who = format!("{}: ", self.name);
        crate::import::precedence::warn(self.reader, &who, span, expression);
    }
    /// Notes that the function rewrites addresses.
    pub(crate) fn translates(&mut self, kind: crate::workers::Kind) {
        self.reader.translators.push(crate::workers::Translator {
            function: self.name.to_string(),
            span: self.span,
            kind,
            hairpin: false,
            reserves: false,
            six: false,
            hosts6: false,
        });
    }
    /// Records an error about the function as a whole.
    pub fn error_whole(&mut self, message: impl Into<String>) {
        let message = format!("{}: {}", self.name, message.into());
        self.reader.error(self.span, message);
    }
}

/// The text of a graph, being written. What was made from the operator's rules, routes or patterns has their places;
/// everything else has the text's own, for which [`crate::load`] puts the function's place in the chain file.
#[derive(Debug, Default)]
pub struct ClickText {
    text: String,
    /// Line ends in `text`.
    lines: usize,
    /// The next line would be taken for one of the operator's file.
    foreign: bool,
}

impl ClickText {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a line that the kind itself is the source of.
    pub fn line(&mut self, s: impl AsRef<str>) -> &mut Self {
        if std::mem::take(&mut self.foreign) {
            // the directive's own line, and the one behind it
            let next = self.lines + 2;
            self.push(&format!("# {next} \"\""));
        }
        self.push(s.as_ref());
        self
    }
    /// Adds a line that was made from line `line` of `file`.
    pub fn line_from(&mut self, file: &str, line: u32, s: impl AsRef<str>) -> &mut Self {
        let file = file.replace('\\', "\\\\").replace('"', "\\\"");
        self.push(&format!("# {line} \"{file}\""));
        self.push(s.as_ref());
        self.foreign = true;
        self
    }
    /// Adds a line that was made from what stands at `span`.
    pub fn line_at(&mut self, reader: &Reader, span: Span, s: impl AsRef<str>) -> &mut Self {
        let l = reader.sources.locate(span);
        self.line_from(&l.file, l.line, s)
    }
    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
    fn push(&mut self, s: &str) {
        self.text.push_str(s);
        self.text.push('\n');
        self.lines += 1 + s.matches('\n').count();
    }
}

/// Of frames with a VLAN tag where a function has none to expect.
pub(crate) const VLAN_TAGGED: &str = "VLAN-tagged frame on an untagged port";
/// Of frames that are neither IP nor ARP.
pub(crate) const NOT_IP: &str = "neither IP nor ARP";
/// Of frames that a function for IPv4 cannot take.
pub(crate) const NOT_IP4: &str = "neither IPv4 nor ARP";
/// Of frames that a function for IPv6 cannot take.
pub(crate) const NOT_IP6: &str = "not an IPv6 packet";

/// The element that packets end in, and what is said of them. Every packet that a kind drops has such a reason, or one
/// that the element gives that found something wrong with it.
pub(crate) fn discard(reason: &str) -> String {
    format!("Discard(REASON \"{reason}\")")
}

/// Reads a MAC address; an error is recorded.
pub(crate) fn mac(cx: &mut KindCx<'_>, v: &crate::file::Loc<String>) -> Option<String> {
    let found = v
        .value
        .parse::<onefold_packet::EtherAddr>()
        .ok()
        .map(|a| a.to_string());
    if found.is_none() {
        cx.error(
            v,
            format!(
                "`{}`: expected a MAC address such as 02:00:00:00:00:01",
                v.value
            ),
        );
    }
    found
}

/// A filter for ICMP errors: messages about a packet, which they quote (RFC 792).
pub(crate) const ICMP_ERRORS: &str =
    "(icmp type 3 or icmp type 4 or icmp type 5 or icmp type 11 or icmp type 12)";
/// The same of ICMPv6, as patterns of a Classifier (RFC 4443 2.1); what is behind extension headers is none.
pub(crate) const ICMP_ERRORS6: &str = "6/3a 40/00%80";
/// What is said of ICMP errors about a packet that could not have come back from the side that they come from.
pub(crate) const WRONG_SIDE: &str = "ICMP error from the wrong side of its flow";
/// Fragmented packets whose later fragments find the way of the first one.
pub(crate) const FRAGMENTED: u32 = 4096;

/// How a function that works on IP packets puts its frames together. Where the port is a network interface, its MAC
/// address is taken for `mac`, and neighbours are asked for instead of `next-hop`.
#[derive(Debug, Clone, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Encap {
    /// Source MAC address of frames sent.
    pub mac: crate::file::Loc<String>,
    /// Destination MAC address of frames sent.
    pub next_hop: crate::file::Loc<String>,
    /// The function's own IPv4 address on this side, with the length of its network's prefix: `10.0.0.1/8`. On a
    /// network interface it is answered for (ARP, nothing else), and neighbours are asked from it.
    pub address: Option<crate::file::Loc<String>>,
    /// The router that packets for other networks than the address's go to, on a network interface. If not given, every
    /// destination is asked for by its own address.
    pub gateway: Option<crate::file::Loc<String>>,
    /// As `address`, of functions that work on IPv6 packets: `2001:db8::1/64`.
    pub address6: Option<crate::file::Loc<String>>,
    /// As `gateway`, of IPv6.
    pub gateway6: Option<crate::file::Loc<String>>,
}
