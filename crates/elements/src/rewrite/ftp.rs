//! FTPPortMapper: FTP through a NAT (Click's `ftpportmapper`, RFC 959).
//!
//! A client's `PORT a,b,c,d,e,f` command, whole and first in its packet, announces an address for the data connection
//! to come. A binding for that connection is made in DATA_REWRITER as if its first packet had arrived at
//! DATA_REWRITER_INPUT, the command is changed to announce the rewritten address, and the control connection's sequence
//! numbers are shifted by the change in length in CONTROL_REWRITER, which is to be downstream. The packet's addresses
//! and ports are left for CONTROL_REWRITER; its TCP checksum is computed anew.
//!
//! Differences from Click: a packet that is no TCP, or whose header lies about its length, passes unchanged (Click
//! aborts, or reads beyond the packet); a rewriter without ports leaves the announced port as it is (Click announces
//! port 0).

use onefold_element::args::{Args, ElementArg};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Clock, ConfigCx, ConfigError, ConfigErrors, Cx, Effect, ElemId, Element, ElementClass,
    GraphSpec, InitCx, Port, element_any, element_takes,
};
use onefold_nat::apply::Arrival;
use onefold_nat::{
    EntryMode, FlowId, FlowTable, REWRITER_CLASSES, RewriterHandle, RewriterKind, entry, resolve,
};
use onefold_packet::checksum;
use onefold_packet::wire::{ipv4, tcp};
use onefold_packet::{Packet, Pkt};
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::ops::Range;

/// `FTPPortMapper`.
pub const FTP_PORT_MAPPER: ElementClass = ElementClass {
    name: "FTPPortMapper",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "CONTROL_REWRITER, DATA_REWRITER, DATA_REWRITER_INPUT",
    summary: "makes FTP data connections known to rewriters",
    new: || Box::new(FtpPortMapper::default()),
};

#[derive(Debug, Clone, Default)]
struct FtpPortMapper {
    elems: [Option<ElemId>; 2],
    control: Option<RewriterHandle>,
    data: Option<RewriterHandle>,
    input: usize,
}

/// A `PORT` command in a packet.
struct Command {
    /// What the client announces, towards the server's data port.
    flow: FlowId,
    /// Where the numbers stand, from the start of the TCP header.
    numbers: Range<usize>,
    /// Where the TCP payload starts.
    payload: usize,
}

/// Reads the command in the TCP segment `t` of an arriving packet.
fn command(a: &Arrival, t: &[u8]) -> Option<Command> {
    let payload = tcp::Header::parse(t)?.header_len();
    let data = t.get(payload..)?;
    let (verb, _) = data.split_at_checked(5)?;
    if !verb.eq_ignore_ascii_case(b"PORT ") {
        return None;
    }
    let spaces = data[5..].iter().take_while(|b| **b == b' ').count();
    let start = 5 + spaces;
    let text = &data[start..];
    let len = text
        .iter()
        .take_while(|b| b.is_ascii_digit() || **b == b',')
        .count();
    if !matches!(text.get(len)?, b'\r' | b'\n') {
        return None;
    }
    let mut n = [0u32; 6];
    let mut which = 0;
    for b in &text[..len] {
        match b {
            b',' => which += 1,
            d => {
                // Click's numbers wrap around as well
                let v = n.get_mut(which)?;
                *v = v.wrapping_mul(10).wrapping_add(u32::from(d - b'0'));
            }
        }
    }
    if which != 5 || n.iter().any(|v| *v > 255) {
        return None;
    }
    Some(Command {
        flow: FlowId {
            saddr: n[0] << 24 | n[1] << 16 | n[2] << 8 | n[3],
            sport: (n[4] << 8 | n[5]) as u16,
            daddr: a.daddr,
            dport: a.flow().dport.wrapping_sub(1),
        },
        numbers: payload + start..payload + start + len,
        payload,
    })
}

impl FtpPortMapper {
    /// Rewrites the command in `p`, if there is one and its connection is known.
    fn process(&self, p: &mut Packet, cx: &mut Cx<'_>) -> Option<()> {
        let a = Arrival::of(p).filter(|a| a.proto == ipv4::proto::TCP)?;
        let c = command(&a, p.transport()?)?;
        let (control, data) = (self.control?, self.data?);
        let (now, tcp_p) = (cx.now, ipv4::proto::TCP);
        let known = entry(
            control,
            tcp_p,
            a.flow(),
            EntryMode::Check,
            now,
            cx.store,
            &mut |e| cx.host.random(e),
        );
        let (connection, reply) = known?;
        let wanted = EntryMode::Create(self.input);
        let (binding, direction) = entry(data, tcp_p, c.flow, wanted, now, cx.store, &mut |e| {
            cx.host.random(e)
        })?;

        let t = cx.store.get::<FlowTable>(data.table)?;
        let mut to = t.record(binding)?.rewritten(direction);
        let kind = t.member(data.member)?.kind;
        if matches!(kind, RewriterKind::Addr | RewriterKind::AddrPair) {
            to.sport = c.flow.sport;
        }
        let [i, j, k, l] = Ipv4Addr::from(to.saddr).octets();
        let [high, low] = to.sport.to_be_bytes();
        let text = format!("{i},{j},{k},{l},{high},{low}");
        cx.decide(None, || format!("PORT command now announces {text}"));

        let sequence = tcp::Header::parse(p.transport()?)?.sequence();
        let length = p.transport()?.len() - c.payload;
        let change = text.len() as i32 - c.numbers.len() as i32;
        replace(p, c.numbers, text.as_bytes())?;
        update_headers(p)?;

        let t = cx.store.get_mut::<FlowTable>(control.table)?;
        let trigger = sequence.wrapping_add(length as u32);
        let anno = t.record(connection)?.reply_anno();
        if let Some(s) = t.make_shifts(connection) {
            s.add(reply, trigger, change);
        }
        let t = cx.store.get_mut::<FlowTable>(data.table)?;
        t.set_reply_anno(binding, anno);
        Some(())
    }
}

/// Puts `text` in the place of a part of the TCP segment, moving what follows.
fn replace(p: &mut Packet, part: Range<usize>, text: &[u8]) -> Option<()> {
    let before = p.transport()?.len();
    let after = before - part.len() + text.len();
    if after > before {
        p.put(after - before);
    }
    let t = p.transport_mut()?;
    t.copy_within(part.end..before, part.start + text.len());
    t.get_mut(part.start..part.start + text.len())?
        .copy_from_slice(text);
    if after < before {
        p.take(before - after);
    }
    Some(())
}

/// IP length with its checksum incrementally, TCP checksum anew.
fn update_headers(p: &mut Packet) -> Option<()> {
    let len = p.network()?.len() as u16;
    let mut ip = ipv4::Header::parse(p.network_mut()?)?;
    let sum = checksum::update(ip.checksum(), ip.total_len(), len);
    ip.set_total_len(len);
    ip.set_checksum(sum);
    let (src, dst) = (ip.src(), ip.dst());
    let mut t = tcp::Header::parse(p.transport_mut()?)?;
    t.set_checksum(0);
    let pseudo = checksum::pseudo_v4(src, dst, ipv4::proto::TCP, t.bytes().len() as u16);
    let sum = !checksum::fold(checksum::sum(t.bytes(), pseudo));
    t.set_checksum(sum);
    Some(())
}

/// Can packets from output 0 of `from` come to `to`?
fn downstream(graph: &GraphSpec, from: ElemId, to: ElemId) -> bool {
    let mut seen = HashSet::new();
    let mut todo = vec![from.0 as usize];
    // Bound: each element once.
    while let Some(e) = todo.pop() {
        for c in graph.connections.iter().filter(|c| c.from.0 == e) {
            if c.to.0 == to.0 as usize {
                return true;
            }
            if seen.insert(c.to.0) {
                todo.push(c.to.0);
            }
        }
    }
    false
}

impl Element for FtpPortMapper {
    fn clock(&self, _: Clock) -> Clock {
        Clock::MILLISECONDS
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        for (i, (name, classes)) in [
            ("CONTROL_REWRITER", &["TCPRewriter", "IPRewriter"][..]),
            ("DATA_REWRITER", &REWRITER_CLASSES[..]),
        ]
        .into_iter()
        .enumerate()
        {
            let Some(ElementArg(e)) = args.mandatory(name) else {
                continue;
            };
            let class = cx.classes.get(e.0 as usize).map_or("", String::as_str);
            if !classes.contains(&class) {
                args.error(format!(
                    "{name}: expected one of {}, found {class}",
                    classes.join(", ")
                ));
            }
            self.elems[i] = Some(e);
        }
        self.input = args.mandatory("DATA_REWRITER_INPUT").unwrap_or(0);
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        let [Some(control), Some(data)] = self.elems else {
            return Err(vec![ConfigError::new("not configured")]);
        };
        let mut get = |e| resolve(cx.store, e).map_err(|e| vec![ConfigError::new(e)]);
        self.control = Some(get(control)?);
        let data = get(data)?;
        self.data = Some(data);
        let t = cx.store.get::<FlowTable>(data.table);
        let m = t.and_then(|t| t.member(data.member));
        if m.is_none_or(|m| self.input >= m.specs.len()) {
            return Err(vec![ConfigError::new("DATA_REWRITER_INPUT: out of range")]);
        }
        if !downstream(cx.graph, cx.elem, control) {
            return Err(vec![ConfigError {
                warning: true,
                ..ConfigError::new("CONTROL_REWRITER: not downstream of this element")
            }]);
        }
        Ok(())
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        // None is the usual case: nothing to do
        let _ = self.process(&mut p, cx);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("reads and rewrites payload")
    }
    element_takes!();
    element_any!();
}
