//! IPRewriter, TCPRewriter, UDPRewriter, IPAddrRewriter, IPAddrPairRewriter, ICMPPingRewriter (Click's elements of
//! these names).
//!
//! A packet that matches a binding is rewritten by it and leaves where it says, whatever input it came in at. Any other
//! packet is treated by the specification of the input it came in at, which may make a binding for both directions; see
//! [`InputSpec`], [`onefold_nat::Pattern`] and, for how long bindings live, [`FlowTable`].
//!
//! `TAKE_OVER false` (not Click's): a new flow whose replies would be another flow's is refused for want of a free port
//! or address, even where its specification has no variations. Without it the newer flow takes the older one's place,
//! as in Click.
//!
//! `MAPPING endpoint` (not Click's; of those that know ports or identifiers): flows of one inside address and port get
//! one port of the pattern's source address, whomever they go to, and nobody else gets it; see
//! `crates/nat/src/endpoints.rs`. `RESERVED "PROTOCOL ADDRESS PORT ..."`: no such flow gets these. The specification
//! `mapped FOUTPUT ROUTPUT` lets flows from outside in to who has the port that they go to.
//!
//! `TCP_HANDSHAKE true` (not Click's): a connection has TCP_TIMEOUT once both sides have acknowledged something, not
//! only once both have sent data.
//!
//! `FRAGMENTS n` (not Click's either): later fragments go where the first one went; see [`super::fragments`].
//!
//! FastClick's keywords `USE_CACHE` and `HANDLE_MIGRATION` are accepted; they change nothing that can be seen.
//!
//! Differences from Click:
//! - packets without an IP header (no network header mark, or less than 20 bytes behind it) are dropped; Click crashes;
//! - a table never holds more than [`MAX_FLOWS`] bindings;
//! - a negative capacity is refused;
//! - a chain of `MAPPING_CAPACITY` references makes all its rewriters share one capacity, whatever the order in which
//!   they are configured;
//! - `REPLY_ANNO` works in IPAddrRewriter and IPAddrPairRewriter as in the others (Click reads and forgets it there);
//! - which of several flows that would time out in the same millisecond is evicted;
//! - handlers print tables in the order of flows;
//! - ICMPPingRewriter never gives a flow the identifier of another one's (Click looks for the wrong reply when it
//!   searches for a free one, and the older flow goes);
//! - a pattern that is written to a handler must have numeric addresses;
//! - random variations are drawn by the engine's generator.

use super::settings::{read_seconds, settings};
use super::spec::{SpecScope, parse};
use super::{handlers, named_pattern_sets};
use onefold_element::args::{AnyArg, Args, FromArg};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{BindPacket, Binding, Bound, Model, ModelCx};
use onefold_element::{
    Clock, ConfigCx, ConfigError, ConfigErrors, Cx, DropReason, ElemId, Element, Host, InitCx,
    Outbox, Port, StateId, StateStore, TimerId, element_any,
};
use onefold_nat::apply::{self, Annos, Arrival};
use onefold_nat::{
    Binder, Counts, FlowId, FlowTable, FragmentFate, Hit, InputSpec, LastingBinding, MAX_FLOWS,
    Mapper, Member, NoFlow, PatternSet, PrefetchPacket, REWRITER_CLASSES, Record, RewriterHandle,
    RewriterKind, answering, create, prefetch_bindings, resolve,
};
use onefold_packet::wire::ipv4::proto;
use onefold_packet::{Pkt, Timestamp};

/// The sweep.
const SWEEP: TimerId = 0;

/// A rewriter. Its bindings are in the store.
#[derive(Debug, Clone)]
pub(super) struct Rewriter {
    pub(super) kind: RewriterKind,
    pub(super) handle: RewriterHandle,
    /// Patterns of this element's own.
    pub(super) set: StateId,
    /// All sets of named patterns.
    pub(super) named: Vec<StateId>,
    pub(super) annos: Annos,
    /// So many packets are remembered whose later fragments have a binding.
    pub(super) fragments: u32,
    /// TCP's control bits that count as data.
    pub(super) acks: u8,
    sweep_every: Timestamp,
    ninputs: usize,
}

/// Packets of a batch whose look-ups overlap.
const GROUP: usize = 32;

/// A packet that a binding may be for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought {
    pub(super) a: Arrival,
    map: u16,
    key: FlowId,
    hash: u32,
}

/// The table, and where packets go: [`Cx`] taken apart, so that the table is looked up once.
pub(super) struct Way<'a> {
    pub(super) table: &'a mut FlowTable,
    pub(super) out: &'a mut Outbox,
    host: &'a mut dyn Host,
    pub(super) elem: ElemId,
    pub(super) now: Timestamp,
    pub(super) noutputs: usize,
    pub(super) tracing: bool,
}

/// What becomes of a packet that there is no binding for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unbound {
    /// It leaves unchanged.
    Pass(Port),
    /// It is dropped.
    Drop(DropReason),
}

impl Way<'_> {
    #[inline]
    pub(super) fn of<'a>(h: RewriterHandle, cx: &'a mut Cx<'_>) -> Option<Way<'a>> {
        let tracing = cx.host.tracing();
        Some(Way {
            table: cx.store.get_mut(h.table)?,
            out: cx.out,
            host: cx.host,
            elem: cx.elem,
            now: cx.now,
            noutputs: cx.noutputs,
            tracing,
        })
    }
}

impl Rewriter {
    pub(super) fn new(kind: RewriterKind) -> Rewriter {
        Rewriter {
            kind,
            handle: RewriterHandle {
                table: StateId(u32::MAX),
                member: 0,
            },
            set: StateId(u32::MAX),
            named: Vec::new(),
            annos: Annos::default(),
            fragments: 0,
            acks: 0,
            sweep_every: Timestamp::ZERO,
            ninputs: 0,
        }
    }

    fn read_capacity(&self, table: &mut FlowTable, args: &mut Args<'_>, cx: &ConfigCx<'_>) {
        let mut text = None;
        for name in ["CAPACITY", "MAPPING_CAPACITY"] {
            let at = args.keyword_index(name);
            if let Some(AnyArg(t)) = args.keyword(name) {
                text = Some((name, t, at));
            }
        }
        let Some((name, text, at)) = text else { return };
        if let Ok(n) = i64::from_arg(&text, &args.scope()) {
            match u32::try_from(n).ok().filter(|n| *n <= i32::MAX as u32) {
                Some(n) => {
                    if n as usize > MAX_FLOWS {
                        let text =
                            format!("{n}: a table never holds more than {MAX_FLOWS} mappings");
                        args.warning_at(at, name, text);
                    }
                    table.set_capacity(n);
                }
                None => args.error(format!("{name}: out of range, 0 to {}", i32::MAX)),
            }
            return;
        }
        let class = |e: ElemId| cx.classes.get(e.0 as usize).map_or("", String::as_str);
        match cx.find_element(&text) {
            Some(e) if e == cx.elem => {}
            Some(e) if REWRITER_CLASSES.contains(&class(e)) => table.share_with(e),
            _ => args.error(format!(
                "{name}: expected a number or the name of a rewriter, found '{text}'"
            )),
        }
    }

    /// What a packet is looked up by; `None` when this rewriter has no business with it.
    #[inline]
    pub(super) fn key(&self, t: &FlowTable, a: Arrival) -> Option<Sought> {
        let mut map = self.handle.member * 2;
        let key = match self.kind {
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => {
                if !self.kind.takes(a.proto) || !a.first || a.transport_len < 8 {
                    return None;
                }
                map += u16::from(self.kind == RewriterKind::Ip && a.proto == proto::UDP);
                a.flow()
            }
            RewriterKind::AddrPair => FlowId::addresses(a.saddr, a.daddr),
            RewriterKind::Addr => FlowId::addresses(a.saddr, 0),
            RewriterKind::Ping => {
                let (echo, answer) = (a.head[0] == 8, a.head[0] == 0);
                if a.proto != proto::ICMP || !a.first || a.transport_len < 6 || !(echo || answer) {
                    return None;
                }
                let id = u16::from_be_bytes([a.head[4], a.head[5]]);
                let (sport, dport) = match echo {
                    true => (id, answering(id)),
                    false => (answering(id), id),
                };
                FlowId {
                    sport,
                    dport,
                    ..FlowId::addresses(a.saddr, a.daddr)
                }
            }
        };
        let hash = t.hash(map, &key);
        Some(Sought { a, map, key, hash })
    }

    #[inline]
    pub(super) fn find(&self, t: &FlowTable, s: &Sought) -> Option<Hit> {
        let hit = t.lookup_hashed(s.hash, s.map, &s.key);
        if hit.is_none() && self.kind == RewriterKind::Addr {
            return t.lookup(s.map, &FlowId::addresses(0, s.a.daddr));
        }
        hit
    }

    /// Rewrites a packet by its binding and sends it on.
    #[inline]
    fn forward(&self, w: &mut Way<'_>, (i, reply): Hit, a: &Arrival, mut p: Pkt) {
        let Some(&r) = w.table.record(i) else {
            return w.out.drop(w.elem, self.kind.reasons().dropped, p);
        };
        let flags = match self.kind {
            RewriterKind::Ip | RewriterKind::Tcp if a.proto == proto::TCP => {
                let flags = apply::tcp(&mut p, &r, reply, self.annos, self.acks);
                if let Some(s) = w.table.shifts_mut(i) {
                    apply::sequence_numbers(&mut p, s, reply);
                }
                flags
            }
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => {
                apply::udp(&mut p, &r, reply, self.annos, a.proto)
            }
            RewriterKind::Addr | RewriterKind::AddrPair => {
                let pair = self.kind == RewriterKind::AddrPair;
                apply::addresses_only(&mut p, &r, reply, self.annos, a, pair);
                r.flags()
            }
            RewriterKind::Ping => {
                apply::ping(&mut p, &r, reply, self.annos);
                r.flags()
            }
        };
        w.table.touch(i, w.now);
        w.table.set_flags(i, flags);
        let output = r.output(reply);
        if w.tracing {
            self.trace(w, &r, reply);
        }
        if output < w.noutputs {
            w.out.emit(output, p);
        } else {
            w.out.drop(w.elem, "unconnected output", p);
        }
    }

    #[cold]
    pub(super) fn trace(&self, w: &mut Way<'_>, r: &Record, reply: bool) {
        let text = format!(
            "{} mapping of input {}: {} => {}, output {}",
            if reply { "reply" } else { "forward" },
            r.origin(),
            r.key(reply),
            r.rewritten(reply),
            r.output(reply)
        );
        let m = w.table.member(self.handle.member);
        let argument = m.and_then(|m| Some(m.specs.get(r.origin())?.1));
        w.host.trace(w.elem, argument, text);
    }

    /// The specification of an input and the argument that it stands in.
    fn spec(&self, port: Port, cx: &Cx<'_>) -> (InputSpec, Option<usize>) {
        let t = cx.store.get::<FlowTable>(self.handle.table);
        let m = t.and_then(|t| t.member(self.handle.member));
        match m.and_then(|m| m.specs.get(port)) {
            Some((s, argument)) => (*s, Some(*argument)),
            None => (InputSpec::Drop(None), None),
        }
    }

    /// What becomes of a packet that this rewriter does not rewrite.
    #[cold]
    fn otherwise(&self, port: Port, cx: &mut Cx<'_>) -> Unbound {
        let (spec, argument) = self.spec(port, cx);
        match spec {
            InputSpec::Pass(o) => {
                cx.decide(argument, || format!("pass to output {o}"));
                Unbound::Pass(o)
            }
            _ => {
                let why = self.kind.reasons().other;
                cx.decide(argument, || why.to_string());
                Unbound::Drop(why)
            }
        }
    }

    /// What becomes of an echo reply that nobody has asked for.
    #[cold]
    fn unasked(&self, port: Port, cx: &mut Cx<'_>) -> Unbound {
        let (spec, argument) = self.spec(port, cx);
        let why = match spec {
            InputSpec::Pass(_) => return self.otherwise(port, cx),
            InputSpec::Drop(Some(said)) => said,
            _ => self.kind.reasons().dropped,
        };
        cx.decide(argument, || why.to_string());
        Unbound::Drop(why)
    }

    /// A packet without a binding leaves, or is dropped.
    #[cold]
    fn leave(&self, u: Unbound, p: Pkt, cx: &mut Cx<'_>) {
        match u {
            Unbound::Pass(o) => cx.emit(o, p),
            Unbound::Drop(why) => cx.drop(p, why),
        }
    }

    /// Makes the binding of a packet that none matches yet, if the input's specification wants one. `anno` are the
    /// packet's annotations.
    pub(super) fn begin(
        &self,
        port: Port,
        s: &Sought,
        anno: &[u8; 48],
        cx: &mut Cx<'_>,
    ) -> Result<Hit, Unbound> {
        if self.kind == RewriterKind::Ping && s.a.head[0] == 0 {
            // nobody has asked for this echo reply
            return Err(self.unasked(port, cx));
        }
        let (spec, argument) = self.spec(port, cx);
        let ip_p = match self.kind {
            RewriterKind::Addr | RewriterKind::AddrPair => 0,
            _ => s.a.proto,
        };
        let (h, elem, now) = (self.handle, cx.elem, cx.now);
        let made = create(
            h,
            s.map,
            port,
            ip_p,
            spec,
            s.key,
            elem,
            now,
            cx.store,
            &mut |e| cx.host.random(e),
        );
        let reasons = self.kind.reasons();
        let why = match made {
            Ok(hit) => {
                if let Some(offset) = self.annos.reply
                    && let Some(t) = cx.store.get_mut::<FlowTable>(h.table)
                {
                    let value = anno.get(usize::from(offset)).copied().unwrap_or(0);
                    t.set_reply_anno(hit.0, value);
                }
                return Ok(hit);
            }
            Err(NoFlow::Pass(o)) => {
                cx.decide(argument, || format!("pass to output {o}"));
                return Err(Unbound::Pass(o));
            }
            Err(NoFlow::Drop) => match spec {
                InputSpec::Drop(Some(said)) => said,
                _ => reasons.dropped,
            },
            Err(why) => reasons.of(why),
        };
        cx.decide(argument, || why.to_string());
        Err(Unbound::Drop(why))
    }

    /// Memory that the look-ups of packets, and new flows of those that are not known, will need is asked for.
    #[inline]
    fn prefetch(&self, t: &FlowTable, all: &[Option<Sought>]) {
        all.iter().flatten().for_each(|s| t.prefetch_bucket(s.hash));
        let mut new = 0;
        for s in all.iter().flatten() {
            new += usize::from(t.prefetch_record(s.hash).is_none());
        }
        if new > 0 {
            t.prefetch_new(0, new);
        }
    }

    /// A packet that no binding matches.
    #[inline(never)]
    fn miss(&self, port: Port, s: &Sought, p: Pkt, cx: &mut Cx<'_>) {
        match self.begin(port, s, p.anno.bytes(), cx) {
            Ok(hit) => match Way::of(self.handle, cx) {
                Some(mut w) => {
                    if self.leads(&s.a) {
                        self.lead_by(&mut w, s, hit);
                    }
                    self.forward(&mut w, hit, &s.a, p);
                }
                None => cx.drop(p, self.kind.reasons().dropped),
            },
            Err(u) => {
                if let Unbound::Pass(o) = u
                    && self.leads(&s.a)
                    && let Some(mut w) = Way::of(self.handle, cx)
                {
                    self.lead(&mut w, s, FragmentFate::Passed(o));
                }
                self.leave(u, p, cx);
            }
        }
    }
}

impl Element for Rewriter {
    fn clock(&self, _: Clock) -> Clock {
        Clock::MILLISECONDS
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let settings = settings(self.kind, args);
        (self.annos, self.fragments) = (settings.annos, settings.fragments);
        let mut table = FlowTable::new();
        self.read_capacity(&mut table, args, cx);
        let mut interval = 15 * 60;
        for name in ["REAP_INTERVAL", "REAP_TIME"] {
            if let Some(s) = read_seconds(args, name) {
                interval = s;
            }
        }
        self.sweep_every = Timestamp::from_secs(interval as i64);
        for name in ["USE_CACHE", "HANDLE_MIGRATION"] {
            let _: Option<bool> = args.keyword(name);
        }

        self.ninputs = cx.ninputs;
        self.set = cx.store.alloc(Box::new(PatternSet::default()));
        self.named = named_pattern_sets(cx.classes, cx.store);
        let rest = args.rest();
        if rest.len() != cx.ninputs {
            args.error(format!(
                "expected {} input specifications, one for each connected input, found {}",
                cx.ninputs,
                rest.len()
            ));
        }
        if cx.ninputs.max(cx.noutputs) > usize::from(u16::MAX) {
            args.error("more than 65535 ports");
        }
        let mut specs = Vec::with_capacity(rest.len());
        for (n, (index, text)) in rest.into_iter().enumerate() {
            let scope = SpecScope {
                args: args.scope(),
                classes: cx.classes,
                noutputs: cx.noutputs,
                named: &self.named,
                set: self.set,
            };
            match parse(text, &scope, cx.store) {
                Ok(s) => specs.push((s, index)),
                Err(e) => args.error_at(index, &format!("INPUTSPEC_{}", n + 1), e),
            }
        }
        let member = Member {
            elem: cx.elem,
            kind: self.kind,
            inputs: vec![Counts::default(); specs.len()],
            specs,
            timeouts: settings.timeouts,
            track: settings.track,
            noutputs: cx.noutputs,
            take_over: settings.take_over,
            endpoints: settings.endpoints,
            reserved: settings.reserved,
            handshake: settings.handshake,
        };
        self.acks = member.acks();
        table.add_member(member);
        self.handle = RewriterHandle {
            table: cx.store.alloc(Box::new(table)),
            member: 0,
        };
        cx.store.publish(cx.elem, self.handle.table);
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.handle = resolve(cx.store, cx.elem)
            .map_err(|e| vec![ConfigError::new(format!("MAPPING_CAPACITY: {e}"))])?;
        let mut errors = Vec::new();
        let t = cx.store.get::<FlowTable>(self.handle.table);
        let m = t.and_then(|t| t.member(self.handle.member));
        for (n, (spec, index)) in m.map_or(&[][..], |m| &m.specs[..]).iter().enumerate() {
            let InputSpec::Mapper(e) = spec else { continue };
            let name = format!("INPUTSPEC_{}", n + 1);
            let id = cx.store.published_by(*e);
            match id.and_then(|id| cx.store.get::<Mapper>(id)) {
                None => errors.push(ConfigError::at(
                    *index,
                    &name,
                    "the mapper is not configured",
                )),
                Some(mapper) => {
                    let bad = m.and_then(|m| mapper.out_of_range(m.noutputs));
                    errors.extend(bad.map(|i| {
                        let text =
                            format!("output out of range in pattern {} of the mapper", i + 1);
                        ConfigError::at(*index, &name, text)
                    }));
                }
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    #[inline]
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        let Some(mut w) = Way::of(self.handle, cx) else {
            return cx.drop(p, self.kind.reasons().dropped);
        };
        let Some(a) = Arrival::of(&p) else {
            return cx.drop(p, self.kind.reasons().no_header);
        };
        let Some(s) = self.key(w.table, a) else {
            if self.fragments > 0 && !a.first && self.kind.takes(a.proto) {
                return self.follow(&a, p, cx);
            }
            let u = self.otherwise(port, cx);
            return self.leave(u, p, cx);
        };
        match self.find(w.table, &s) {
            Some(hit) => {
                if self.leads(&s.a) {
                    self.lead_by(&mut w, &s, hit);
                }
                self.forward(&mut w, hit, &s.a, p);
            }
            None => self.miss(port, &s, p, cx),
        }
    }

    /// The packets are looked up in order, each after its predecessors have had their effect; but the memory that the
    /// look-ups will need is read beforehand, for all of them at once, so that its latencies overlap.
    fn push_batch(&mut self, port: Port, batch: &mut Vec<Pkt>, cx: &mut Cx<'_>) {
        let mut packets = batch.drain(..);
        let mut sought = [None; GROUP];
        // Bound: each round takes at least one packet.
        while packets.len() > 0 {
            let Some(w) = Way::of(self.handle, cx) else {
                packets.for_each(|p| cx.drop(p, self.kind.reasons().dropped));
                return;
            };
            let n = packets.len().min(GROUP);
            for (s, p) in sought.iter_mut().zip(packets.as_slice()) {
                // what fragments follow is for `push`
                let whole = Arrival::of(p).filter(|a| !self.leads(a));
                *s = whole.and_then(|a| self.key(w.table, a));
            }
            self.prefetch(w.table, &sought[..n]);
            let mut todo = sought[..n].iter().zip(packets.by_ref());
            // Bound: each packet of the group once.
            while let Some(mut w) = Way::of(self.handle, cx) {
                // bindings in a row, with the table at hand
                let rest = loop {
                    let Some((s, p)) = todo.next() else {
                        break None;
                    };
                    match s.as_ref().map(|s| (s, self.find(w.table, s))) {
                        Some((s, Some(hit))) => self.forward(&mut w, hit, &s.a, p),
                        other => break Some((other, p)),
                    }
                };
                match rest {
                    Some((Some((s, _)), p)) => self.miss(port, s, p, cx),
                    Some((None, p)) => self.push(port, p, cx),
                    None => break,
                }
            }
        }
    }

    fn model(&self, port: Port, cx: &ModelCx<'_>) -> Model {
        self.model_of(port, cx)
    }
    fn bind(
        &mut self,
        port: Port,
        p: &BindPacket,
        may: &dyn Fn(&Binding) -> bool,
        cx: &mut Cx<'_>,
    ) -> Bound {
        self.bind_packet(port, p, may, cx)
    }
    fn lasting(&mut self, p: &BindPacket, cx: &mut Cx<'_>) -> Option<LastingBinding> {
        self.lasting_binding(p, cx)
    }
    fn binder<'s>(&self, port: Port, store: &'s mut StateStore) -> Option<Binder<'s>> {
        match self.annos.reply {
            None => Binder::of(self.kind, self.handle, port, store),
            // a flow's first packet says what its replies get
            Some(_) => None,
        }
    }
    fn prefetch_bindings(&self, me: ElemId, all: &mut [PrefetchPacket], store: &StateStore) {
        prefetch_bindings(self.handle, me.0, all, store);
    }

    fn initial_timers(&self) -> Vec<(TimerId, Timestamp)> {
        match self.sweep_every {
            Timestamp::ZERO => Vec::new(),
            every => vec![(SWEEP, every)],
        }
    }

    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        let now = cx.now;
        if let Some(t) = cx.store.get_mut::<FlowTable>(self.handle.table) {
            t.sweep(now);
        }
        cx.set_timer_after(SWEEP, self.sweep_every);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        handlers::list(self.kind, self.ninputs)
    }
    fn read(&mut self, name: &str, param: &str, cx: &mut Cx<'_>) -> HandlerResult {
        self.read_handler(name, param, cx)
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        self.write_handler(name, value, cx)
    }
    fn states(&self) -> Vec<StateId> {
        let mut v = vec![self.handle.table, self.set];
        v.extend(&self.named);
        v
    }
    onefold_element::element_takes!();
    element_any!();
}
