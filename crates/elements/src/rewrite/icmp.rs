//! ICMPRewriter: brings ICMP errors back through rewriters (Click's `icmprewriter`).
//!
//! An ICMP error carries the start of the packet it is about. If that packet had been rewritten by one of the rewriters
//! in `MAPS`, the error is about the packet as it was after that; here it is made one about the packet as it was
//! before: embedded addresses, ports (or ping identifier) and checksums, the outer destination if it is the embedded
//! source, and the ICMP checksum, all incrementally. A map `NAME:OFFSET` sends it out at OFFSET plus the binding's
//! output, else it leaves at output 0. What is no error or belongs to no binding is dropped, whatever the number of
//! outputs; Click's documentation promises output 1, its code drops too.
//!
//! Keywords that Click does not have, for translators that follow RFC 5508:
//! - `SOURCE keep` (Click's way) leaves the error's own source address alone. `SOURCE own` translates it where the
//!   error comes from the quoted packet's destination itself; a router's stays. `SOURCE all` writes the address that
//!   the quoted packet was sent to whoever the error comes from: no other address of that side gets out (REQ-5).
//! - `STRICT true` takes only errors that are addressed to the quoted packet's source, and no later fragments of
//!   errors; their checksum and that of the quoted packet's IP header must be right (REQ-3); and it knows errors about
//!   echo replies, too (Click: about echo requests).
//! - `UNMAPPED OUTPUT`: where errors that belong to no binding leave, unchanged.
//!
//! Differences from Click: IPAddrRewriter and IPAddrPairRewriter know no ports, and IPAddrRewriter one address of a
//! binding only. Click writes zeros in the place of what they do not know; here it stays. A quoted UDP checksum that
//! comes to zero is written as 0xffff: zero would say that there is none.

use onefold_element::args::{AnyArg, Args, SizedAnno, split_words, unquote};
use onefold_element::model::build::{Cases, ne};
use onefold_element::model::{Cond, Exit, Model, ModelCx, Read, ValueSet, field};
use onefold_element::{
    Clock, ConfigCx, ConfigError, ConfigErrors, Cx, Effect, ElemId, Element, ElementClass, InitCx,
    Port, element_any, element_takes,
};
use onefold_nat::apply::{Annos, ERRORS, Embedded, set_destination, set_source};
use onefold_nat::{
    EntryMode, FlowTable, Hit, REWRITER_CLASSES, RewriterHandle, RewriterKind, entry, resolve,
};
use onefold_packet::wire::ipv4::{self, proto};
use onefold_packet::{Pkt, checksum};

/// `ICMPRewriter`.
pub const ICMP_REWRITER: ElementClass = ElementClass {
    name: "ICMPRewriter",
    ports: "1/1-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "\"REWRITER_1[:OFFSET] ... REWRITER_n\" [, keywords SOURCE, STRICT, UNMAPPED, DST_ANNO, REPLY_ANNO]",
    summary: "rewrites ICMP errors about packets that rewriters have rewritten",
    new: || Box::new(IcmpRewriter::default()),
};

#[derive(Debug, Clone)]
struct Map {
    elem: ElemId,
    name: String,
    offset: Option<usize>,
    handle: Option<RewriterHandle>,
}

/// What becomes of an error's own source address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Source {
    #[default]
    Keep,
    Own,
    All,
}

#[derive(Debug, Clone, Default)]
struct IcmpRewriter {
    maps: Vec<Map>,
    annos: Annos,
    source: Source,
    strict: bool,
    /// Where errors without a binding leave.
    unmapped: Option<Port>,
    noutputs: usize,
}

const NOT_ICMP: &str = "ICMPRewriter: not ICMP";
const NO_ERROR: &str = "ICMPRewriter: not an error about a packet";
const UNMAPPED: &str = "ICMPRewriter: no mapping for the packet that the error is about";

impl IcmpRewriter {
    /// The first map that knows the quoted packet's flow.
    fn find(&self, e: &Embedded, cx: &mut Cx<'_>) -> Option<(&Map, RewriterHandle, Hit)> {
        let wanted = match e.answer {
            true => EntryMode::Check,
            false => EntryMode::Reply,
        };
        self.maps.iter().find_map(|map| {
            let h = map.handle?;
            let hit = entry(h, e.proto, e.reply, wanted, cx.now, cx.store, &mut |e| {
                cx.host.random(e)
            })?;
            Some((map, h, hit))
        })
    }

    /// An error that belongs to no binding.
    fn without_mapping(&self, p: Pkt, cx: &mut Cx<'_>) {
        match self.unmapped {
            Some(o) => {
                cx.decide(None, || format!("no mapping, output {o}"));
                cx.emit_or_drop(o, p, UNMAPPED);
            }
            None => cx.drop(p, UNMAPPED),
        }
    }
}

/// Are the checksums right of an ICMP error and of the IP header that it quotes? (RFC 5508 REQ-3; checksums of quoted
/// transport headers are not looked at, as most of the packet may be missing.)
fn right_checksums(t: &[u8]) -> bool {
    let quoted = t.get(8..).unwrap_or(&[]);
    let length = quoted.first().map_or(0, |b| usize::from(b & 15) * 4);
    let header = quoted.get(..length);
    checksum::internet(t) == 0 && header.is_some_and(|h| checksum::internet(h) == 0)
}

impl Element for IcmpRewriter {
    fn clock(&self, _: Clock) -> Clock {
        Clock::MILLISECONDS
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.noutputs = cx.noutputs;
        self.annos.dst = args.keyword("DST_ANNO").unwrap_or(true);
        let reply = args.keyword("REPLY_ANNO");
        self.annos.reply = reply.map(|SizedAnno::<1>(offset)| offset);
        self.strict = args.keyword("STRICT").unwrap_or(false);
        if let Some(AnyArg(how)) = args.keyword("SOURCE") {
            match how.as_str() {
                "keep" => self.source = Source::Keep,
                "own" => self.source = Source::Own,
                "all" => self.source = Source::All,
                _ => args.error(format!("SOURCE: expected keep, own or all, found '{how}'")),
            }
        }
        self.unmapped = args.keyword::<u16>("UNMAPPED").map(usize::from);
        if self.unmapped.is_some_and(|o| o >= cx.noutputs) {
            args.error(format!(
                "UNMAPPED: out of range, {} outputs are connected",
                cx.noutputs
            ));
        }
        let AnyArg(text) = args.mandatory("MAPS").unwrap_or(AnyArg(String::new()));
        for word in split_words(&text) {
            let word = String::from_utf8_lossy(&unquote(word)).into_owned();
            let word = word.as_str();
            let (name, offset) = match word.split_once(':') {
                None => (word, Some(None)),
                // a negative offset is none
                Some((n, o)) => (n, o.parse::<i32>().ok().map(|o| usize::try_from(o).ok())),
            };
            let class = |e: ElemId| cx.classes.get(e.0 as usize).map_or("", String::as_str);
            let elem = cx.find_element(name);
            match (
                elem.filter(|e| REWRITER_CLASSES.contains(&class(*e))),
                offset,
            ) {
                (Some(elem), Some(offset)) => self.maps.push(Map {
                    elem,
                    name: name.to_string(),
                    offset,
                    handle: None,
                }),
                _ => args.error(format!(
                    "MAPS: expected the name of a rewriter, found '{word}'"
                )),
            }
        }
        if self.maps.is_empty() && args.ok() {
            args.error("MAPS: expected at least one rewriter");
        }
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        let mut errors = Vec::new();
        for map in &mut self.maps {
            let handle = match resolve(cx.store, map.elem) {
                Ok(h) => h,
                Err(e) => {
                    errors.push(ConfigError::new(format!("MAPS: {}: {e}", map.name)));
                    continue;
                }
            };
            let t = cx.store.get::<FlowTable>(handle.table);
            let m = t.and_then(|t| t.member(handle.member));
            let needed = map.offset.and_then(|o| Some(o.saturating_add(m?.noutputs)));
            if needed.is_some_and(|n| n > self.noutputs) {
                errors.push(ConfigError::new(format!(
                    "MAPS: offset of {} requires more than {} outputs",
                    map.name, self.noutputs
                )));
            }
            map.handle = Some(handle);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let ip = p.network().and_then(ipv4::Header::parse);
        let ip = ip.filter(|ip| ip.protocol() == proto::ICMP);
        let Some((saddr, daddr, first)) = ip.map(|ip| {
            let [s, d] = [ip.src(), ip.dst()].map(u32::from_be_bytes);
            (s, d, ip.is_first_fragment())
        }) else {
            return cx.drop(p, NOT_ICMP);
        };
        let whole = !self.strict || first && p.transport().is_some_and(right_checksums);
        let e = match whole {
            true => p.transport().and_then(|t| Embedded::parse(t, self.strict)),
            false => None,
        };
        let Some(e) = e else {
            return cx.drop(p, NO_ERROR);
        };
        let found = match self.strict && daddr != e.reply.daddr {
            true => None,
            false => self.find(&e, cx),
        };
        let t = found.and_then(|(_, h, _)| cx.store.get::<FlowTable>(h.table));
        let (Some((map, h, (i, reply))), Some(t)) = (found, t) else {
            return self.without_mapping(p, cx);
        };
        let Some(r) = t.record(i).copied() else {
            return self.without_mapping(p, cx);
        };
        let kind = t.member(h.member).map(|m| m.kind);
        let (e, to) = match kind {
            Some(k @ (RewriterKind::Addr | RewriterKind::AddrPair)) => {
                e.of_addresses(k, r.rewritten(reply))
            }
            _ => (e, r.rewritten(reply)),
        };
        if daddr == e.reply.daddr {
            set_destination(&mut p, to.daddr);
            if self.annos.dst {
                p.anno.set_dst_ip(to.daddr.to_be_bytes());
            }
        }
        let own = saddr == e.reply.saddr;
        if self.source == Source::All || self.source == Source::Own && own {
            set_source(&mut p, to.saddr);
        }
        if reply && let Some(offset) = self.annos.reply {
            p.anno.set_u8(usize::from(offset), r.reply_anno());
        }
        if let Some(b) = p.transport_mut() {
            e.rewrite(b, to);
        }
        let output = map.offset.map_or(0, |o| o.saturating_add(r.output(reply)));
        cx.decide(None, || {
            let back = (e.reply.reversed(), to.reversed());
            format!(
                "mapping of {}: error about {} is one about {}, output {output}",
                map.name, back.0, back.1
            )
        });
        cx.emit_or_drop(output, p, UNMAPPED);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        // an error's header, and the IP header of the packet that it is about
        const NEEDED: u128 = 8 + 20;
        let errors =
            ValueSet::from_intervals(ERRORS.iter().map(|t| (u128::from(*t), u128::from(*t))));
        let other = Cond::In(Read::Field(field::ICMP_TYPE), errors.complement(8));
        let cases = Cases::new()
            .no_ip([], Exit::Drop(NOT_ICMP))
            .case(
                ne(field::IP_PROTO, proto::ICMP.into()),
                [],
                Exit::Drop(NOT_ICMP),
            )
            .no_options();
        let cases = match self.strict {
            true => cases.case(
                Cond::between(field::IP_FRAGOFF, 1, 0x1fff),
                [],
                Exit::Drop(NO_ERROR),
            ),
            false => cases,
        };
        cases
            .case(
                Cond::less(Read::TransportLen, NEEDED),
                [],
                Exit::Drop(NO_ERROR),
            )
            .case(other, [], Exit::Drop(NO_ERROR))
            .otherwise_punt("rewrites embedded packets")
    }
    element_takes!();
    element_any!();
}
