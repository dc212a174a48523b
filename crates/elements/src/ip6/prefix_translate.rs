//! IP6PrefixTranslate: stateless translation of IPv6 prefixes (NPTv6, RFC 6296).
//!
//! `IP6PrefixTranslate(SOURCE, FROM TO, ...)` gives source addresses in a prefix FROM the prefix TO, and
//! `IP6PrefixTranslate(DESTINATION, ...)` destination addresses; the first pair whose FROM the address has counts. One
//! of the address's words is adjusted, so that the sum over the address stays what it was: no checksum changes,
//! whatever the packet carries ([`super::prefix_map`]). With FROM and TO swapped, the other element undoes it. ICMPv6
//! errors are about packets of the other direction: the address at the other end of the packet that they quote is
//! translated, too.
//!
//! Packets whose address has no FROM leave unchanged at output 1, and are dropped if there is none. Those whose address
//! cannot be mapped are dropped: the subnet 0xffff with prefixes of up to 48 bits, an interface identifier of nothing
//! but ones with longer ones. (RFC 6296 section 3.7 has an identifier of "all-zeros" there, where its text before is
//! about all ones, and so is Linux; erratum 8757.)
//!
//! `NETFILTER true` is what the targets SNPT and DNPT of Linux do: there is one pair, and whatever comes is translated,
//! whether it has FROM or not; the subnet 0xffff is mapped as the subnet 0 is.
//!
//! `TRACKED TABLE` is for packets between a ConnTrack and a ConnConfirm of that ConnTable: the connection of a packet
//! that gets another address stays what it was, so that it is entered as it was before its address was translated. (So
//! it is in Linux, where its replies belong to no connection for that.)
//!
//! The destination annotation stays as it is: GetIP6Address stands behind where a route is looked for.

use super::prefix_map::PrefixMap;
use super::{EXTENSIONS, extensions, header, unless_header};
use crate::track::rename::Renames;
use onefold_element::args::{AnyArg, Args, FromArg, Ip6Prefix, Word, split_words};
use onefold_element::model::build::is;
use onefold_element::model::{Base, Case, Cond, Exit, Model, ModelCx, Read, bytes, field};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, StateId,
    element_any, element_takes,
};
use onefold_packet::wire::ipv4::proto::ICMP6;
use onefold_packet::wire::ipv6::{self, Header};
use onefold_packet::{Packet, Pkt};
use std::net::Ipv6Addr;

/// `IP6PrefixTranslate`.
pub const IP6_PREFIX_TRANSLATE: ElementClass = ElementClass {
    name: "IP6PrefixTranslate",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "SOURCE | DESTINATION, FROM TO, ..., FROM TO [, NETFILTER BOOL, TRACKED TABLE]",
    summary: "translates prefixes of IPv6 addresses without state, neutral to checksums (NPTv6)",
    new: || Box::new(Ip6PrefixTranslate::default()),
};

/// Most pairs of an element: they are tried one after the other.
const MAX_PAIRS: usize = 256;

const NO_HEADER: DropReason = "IP6PrefixTranslate: no IPv6 header";
const OTHER: DropReason = "IP6PrefixTranslate: address has no prefix that is translated";
const UNMAPPED: DropReason = "IP6PrefixTranslate: address cannot be mapped (RFC 6296: 0xffff)";
/// Cause of punts.
const ERROR: &str = "ICMPv6 error: the packet that it quotes is translated";
/// Cause of punts.
const CUT: &str = "ICMPv6 header that is cut off";

/// Which address is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Side {
    #[default]
    Source,
    Destination,
}

impl Side {
    /// Where it stands in the header.
    fn place(self) -> usize {
        match self {
            Side::Source => 8,
            Side::Destination => 24,
        }
    }
    /// The one at the other end.
    fn other(self) -> Side {
        match self {
            Side::Source => Side::Destination,
            Side::Destination => Side::Source,
        }
    }
}

/// A pair, and the argument that says it.
#[derive(Debug, Clone, Copy)]
struct Pair {
    map: PrefixMap,
    argument: usize,
}

#[derive(Debug, Clone, Default)]
struct Ip6PrefixTranslate {
    side: Side,
    pairs: Vec<Pair>,
    netfilter: bool,
    renames: Renames,
}

/// An address of the IPv6 header that begins here.
fn address(ip: &[u8], side: Side) -> Option<u128> {
    let a = ip.get(side.place()..)?.first_chunk::<16>()?;
    Some(u128::from_be_bytes(*a))
}

/// Writes an address of the IPv6 header that begins here.
fn set_address(ip: &mut [u8], side: Side, a: u128) {
    let to = ip.get_mut(side.place()..);
    if let Some(to) = to.and_then(|b| b.first_chunk_mut::<16>()) {
        *to = a.to_be_bytes();
    }
}

impl Ip6PrefixTranslate {
    /// The pair of an address; `any`: Linux does not look.
    fn pair(&self, a: u128, any: bool) -> Option<&Pair> {
        self.pairs.iter().find(|p| any || p.map.has(a))
    }

    fn read_pair(&self, text: &str, args: &Args<'_>) -> Result<PrefixMap, String> {
        let words = split_words(text);
        let [from, to] = words[..] else {
            return Err("expected two prefixes, such as 'fd00:1::/48 2001:db8:1::/48'".into());
        };
        let scope = args.scope();
        let prefix = |w: &str| {
            let found = Ip6Prefix::from_arg(w, &scope);
            found.map_err(|why| why.unwrap_or_else(|| format!("'{w}' is no IPv6 prefix")))
        };
        PrefixMap::new(&prefix(from)?, &prefix(to)?, self.netfilter)
    }

    /// Where the packet that an ICMPv6 error quotes begins; Linux looks behind no extension headers, and knows four
    /// kinds of errors.
    fn quoted_at(&self, h: &Header<&[u8]>) -> Option<usize> {
        let (protocol, at, later) = match self.netfilter {
            true => (h.next_header(), ipv6::LEN, false),
            false => h.upper_layer()?,
        };
        if protocol != ICMP6 || later {
            return None;
        }
        let errors = match self.netfilter {
            true => 1..=4,
            false => 0..=127,
        };
        let kind = h.bytes().get(at)?;
        errors.contains(kind).then_some(at + 8)
    }

    /// The packet that an error quotes becomes what it was, or will be, on the other side: the address that this
    /// element translates stands at its other end. `Err`: it cannot be mapped.
    fn translate_quote(&self, p: &mut Packet) -> Result<(), DropReason> {
        let Some(at) = header(p).and_then(|h| self.quoted_at(&h)) else {
            return Ok(());
        };
        let side = self.side.other();
        let quoted = p.network_mut().and_then(|ip| ip.get_mut(at..));
        let Some(quoted) = quoted.filter(|q| q.len() >= ipv6::LEN) else {
            return Ok(());
        };
        let Some(a) = address(quoted, side) else {
            return Ok(());
        };
        let Some(pair) = self.pair(a, false) else {
            return Ok(());
        };
        let new = match (pair.map.map(a), self.netfilter) {
            (Some(new), _) => new,
            (None, true) => pair.map.replaced(a),
            (None, false) => return Err(UNMAPPED),
        };
        set_address(quoted, side, new);
        Ok(())
    }
}

impl Element for Ip6PrefixTranslate {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.netfilter = args.keyword("NETFILTER").unwrap_or(false);
        if let Some(AnyArg(name)) = args.keyword("TRACKED") {
            match Renames::tells(&name, cx) {
                Ok(r) => self.renames = r,
                Err(_) => args.error(format!("TRACKED: '{name}' is no ConnTable")),
            }
        }
        let side: Option<Word> = args.mandatory("SIDE");
        match side.as_ref().map(|w| w.0.as_str()) {
            Some("SOURCE") => self.side = Side::Source,
            Some("DESTINATION") => self.side = Side::Destination,
            Some(other) => args.error(format!("expected SOURCE or DESTINATION, found '{other}'")),
            None => {}
        }
        self.pairs.clear();
        for (n, (argument, text)) in args.rest().into_iter().enumerate() {
            match self.read_pair(text, args) {
                Ok(map) => self.pairs.push(Pair { map, argument }),
                Err(why) => args.error_at(argument, &format!("PAIR_{}", n + 1), why),
            }
        }
        let most = if self.netfilter { 1 } else { MAX_PAIRS };
        if args.ok() && !(1..=most).contains(&self.pairs.len()) {
            args.error(format!("expected 1 to {most} pairs of prefixes"));
        }
        args.finish()
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let side = self.side;
        let Some(a) = header(&p).and_then(|h| address(h.bytes(), side)) else {
            return cx.drop(p, NO_HEADER);
        };
        let Some(pair) = self.pair(a, self.netfilter) else {
            cx.decide(None, || "no prefix of it is translated".to_string());
            return cx.emit_or_drop(1, p, OTHER);
        };
        let argument = Some(pair.argument);
        let Some(new) = pair.map.map(a) else {
            cx.decide(argument, || UNMAPPED.to_string());
            return cx.drop(p, UNMAPPED);
        };
        if let Err(why) = self.translate_quote(&mut p) {
            cx.decide(argument, || why.to_string());
            return cx.drop(p, why);
        }
        let before = self.renames.before(&p);
        if let Some(ip) = p.network_mut() {
            set_address(ip, side, new);
        }
        self.renames.after(before, &p, cx.store);
        cx.decide(argument, || format!("becomes {}", Ipv6Addr::from(new)));
        cx.emit(0, p);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        if self.renames.are_told() {
            return Model::None("prefixes of packets whose connections are tracked");
        }
        let at = (self.side.place() * 8) as u16;
        let mut cases = Vec::from(unless_header(Exit::Drop(NO_HEADER)));
        let next = Read::Field(field::IP6_NEXT);
        let icmp = is(next, ICMP6.into());
        let short = Cond::less(Read::NetLen, ipv6::LEN as u128 + 1);
        cases.push(Case::new(icmp.clone().and(short), Exit::Punt(CUT)));
        let kind = Cond::between(bytes(Base::Net, ipv6::LEN as u16, 1), 0, 127);
        cases.push(Case::new(icmp.and(kind), Exit::Punt(ERROR)));
        if !self.netfilter {
            let more = Cond::In(next, extensions());
            cases.push(Case::new(more, Exit::Punt(EXTENSIONS)));
        }
        let unmapped = Exit::Drop(UNMAPPED);
        for pair in &self.pairs {
            let when = match self.netfilter {
                true => Cond::Always,
                false => pair.map.condition(at),
            };
            let of = pair.map.cases(&when, at, &unmapped);
            cases.extend(of.into_iter().map(|c| c.from_arg(pair.argument)));
        }
        if !self.netfilter {
            cases.push(Case::new(Cond::Always, Exit::PortOrDrop(1, OTHER)));
        }
        Model::Cases(cases)
    }

    fn states(&self) -> Vec<StateId> {
        self.renames.states()
    }

    element_takes!();
    element_any!();
}

#[cfg(test)]
#[path = "prefix_translate_tests.rs"]
mod tests;
