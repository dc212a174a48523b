//! What a rewriter promises, as a plain machine: a list of bindings, two keys each. Which variation of a pattern a new
//! flow gets is an open choice; everything else follows from the events.
//!
//! Promises (Click's documentation of IPRewriter and its siblings):
//! 1. a packet that a binding is for is rewritten by it and leaves where it says, whatever input it came in at: later
//!    packets of the flow as the first, replies back to the origin's addresses and out of the origin's reply port;
//! 2. no two bindings have the same key: a variation is chosen whose replies nobody else gets; a pattern without
//!    variations takes over the replies, and the older flow goes (`TAKE_OVER false`: there is no room for the newer
//!    one);
//! 3. there is no room only when all variations are taken, or all flows of a full table are within their guarantee;
//! 4. what is evicted is the flow without guarantee that would time out first; a sweep removes what has timed out, and
//!    nothing else;
//! 5. connections: closed, with data both ways, streaming: each has its time-out;
//! 6. with `MAPPING endpoint` (`mappings.rs`): one outside address and port for all flows of an inside address and
//!    port, which no other has.

use super::config::{Choice, Config, How, Kind, Pattern, Spec};
use onefold_nat::FlowId;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What of a segment decides about its connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// SYN.
    pub syn: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub rst: bool,
    /// There is payload.
    pub payload: bool,
    /// ACK.
    pub ack: bool,
}

/// An address and a port.
pub(super) type End = (u32, u16);

/// A packet that arrives.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// 0; 1 for the UDP flows of an IPRewriter.
    pub map: u8,
    /// Where it comes in.
    pub input: usize,
    /// Its flow, as it stands in the packet.
    pub flow: FlowId,
    /// False of an echo reply, which never begins a flow.
    pub asks: bool,
    /// What it says of its connection.
    pub segment: Segment,
}

/// A binding.
#[derive(Debug, Clone)]
pub struct Binding {
    /// 0; 1 for the UDP flows of an IPRewriter.
    pub map: u8,
    /// Arriving forward packets.
    pub forward: FlowId,
    /// Arriving replies.
    pub reply: FlowId,
    /// Output of each direction.
    pub outputs: [usize; 2],
    /// Where the first packet came in.
    pub input: usize,
    /// Its mapping, if it has one: inside and outside address and port.
    pub(super) mapping: Option<[End; 2]>,
    last_ms: u64,
    order: u64,
    done: [bool; 2],
    data: [bool; 2],
    packets: u8,
    replied: bool,
}

impl Binding {
    fn key(&self, reply: bool) -> FlowId {
        if reply { self.reply } else { self.forward }
    }
    /// What packets of a direction become.
    pub fn rewritten(&self, reply: bool) -> FlowId {
        self.key(!reply).reversed()
    }
}

/// What is to be seen of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// It left here, as this flow.
    Out(usize, FlowId),
    /// It did not leave.
    Gone,
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// What a mapper by a hash looks at: the map, and the flow or a part of it.
type Hashed = (u8, FlowId);

/// (guarantee, expiry) in milliseconds.
type Class = (u64, u64);

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Model {
    pub(super) config: Config,
    bindings: Vec<Option<Binding>>,
    free: Vec<usize>,
    keys: HashMap<(u8, FlowId), (usize, bool)>,
    ages: BTreeMap<Class, BTreeSet<(u64, usize)>>,
    live: usize,
    capacity: usize,
    order: u64,
    /// Next entry of a mapper that goes in turn.
    turn: usize,
    /// What a mapper by a hash has chosen for what it hashes.
    chosen: HashMap<Hashed, usize>,
    /// Flows that have had to go for others.
    pub evictions: u64,
}

impl Model {
    /// No bindings.
    pub fn new(config: &Config) -> Model {
        Model {
            config: config.clone(),
            bindings: Vec::new(),
            free: Vec::new(),
            keys: HashMap::new(),
            ages: BTreeMap::new(),
            live: 0,
            capacity: config.capacity as usize,
            order: 0,
            turn: 0,
            chosen: HashMap::new(),
            evictions: 0,
        }
    }

    /// All bindings.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().flatten()
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.live
    }
    /// None.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    fn class(&self, b: &Binding) -> Class {
        let t = &self.config.times;
        let udp = matches!(self.config.kind, Kind::Udp) || b.map == 1;
        let seconds = match self.config.kind {
            _ if udp && b.packets >= 3 && b.replied => t.streaming,
            _ if udp => t.udp,
            Kind::Ip | Kind::Tcp if b.done == [true; 2] => t.done,
            Kind::Ip | Kind::Tcp if b.data == [true; 2] => t.data,
            _ => t.base,
        };
        (t.guarantee * 1000, seconds * 1000)
    }

    fn unlink(&mut self, i: usize) {
        if let Some(b) = self.bindings[i].as_ref() {
            let (class, order) = (self.class(b), b.order);
            if let Some(set) = self.ages.get_mut(&class) {
                set.remove(&(order, i));
            }
        }
    }
    fn link(&mut self, i: usize) {
        if let Some(b) = self.bindings[i].as_ref() {
            let (class, order) = (self.class(b), b.order);
            self.ages.entry(class).or_default().insert((order, i));
        }
    }

    fn remove(&mut self, i: usize) {
        self.unlink(i);
        if let Some(b) = self.bindings[i].take() {
            for reply in [false, true] {
                let key = (b.map, b.key(reply));
                if self.keys.get(&key).is_some_and(|k| k.0 == i) {
                    self.keys.remove(&key);
                }
            }
            self.live -= 1;
            self.free.push(i);
        }
    }

    /// A packet of a binding has passed.
    fn touch(&mut self, i: usize, reply: bool, s: Segment, now_ms: u64) {
        self.unlink(i);
        self.order += 1;
        let order = self.order;
        let handshake = self.config.handshake;
        if let Some(b) = self.bindings[i].as_mut() {
            (b.last_ms, b.order) = (now_ms, order);
            let side = usize::from(reply);
            b.packets = b.packets.saturating_add(1);
            b.replied |= reply;
            if s.rst {
                b.done = [true; 2];
            } else if s.fin {
                b.done[side] = true;
            } else if s.syn || s.payload {
                b.done[side] = false;
            }
            b.data[side] |= s.payload || s.ack && handshake;
        }
        self.link(i);
    }

    /// The flow that goes: without guarantee, the first to time out; if there is none and `any`, the first to lose its
    /// guarantee.
    fn victim(&self, now_ms: u64, any: bool) -> Option<usize> {
        let candidates = self.ages.iter().filter_map(|((guarantee, expire), set)| {
            let (order, i) = set.first()?;
            let last = self.bindings[*i].as_ref()?.last_ms;
            let guaranteed = now_ms < last + guarantee;
            let when = last + if guaranteed { *guarantee } else { *expire };
            Some(((guaranteed, when, *order), *i))
        });
        let first = candidates.min()?;
        (any || !first.0.0).then_some(first.1)
    }

    /// Time-outs.
    pub fn sweep(&mut self, now_ms: u64) {
        let classes: Vec<Class> = self.ages.keys().copied().collect();
        for class in classes {
            while let Some((_, i)) = self.ages.get(&class).and_then(|s| s.first().copied()) {
                let last = self.bindings[i].as_ref().map_or(0, |b| b.last_ms);
                if now_ms < last + class.0.max(class.1) {
                    break;
                }
                self.remove(i);
            }
        }
        while self.live > self.capacity {
            let Some(i) = self.victim(now_ms, true) else {
                break;
            };
            self.remove(i);
            self.evictions += 1;
        }
    }

    /// The capacity is another one.
    pub fn resize(&mut self, capacity: u32, now_ms: u64) {
        self.capacity = capacity as usize;
        self.sweep(now_ms);
    }

    /// All flows are forgotten.
    pub fn clear(&mut self) {
        self.forget(|_| true);
    }

    /// An input's specification is written anew: its flows go.
    pub fn rewrite(&mut self, input: usize) {
        self.forget(|b| b.input == input);
    }

    fn forget(&mut self, which: impl Fn(&Binding) -> bool) {
        for i in 0..self.bindings.len() {
            if self.bindings[i].as_ref().is_some_and(&which) {
                self.remove(i);
            }
        }
    }

    /// What a reply to a flow looks like, as it arrives; the flow as its first packet arrived.
    pub fn reply_to(&self, map: u8, arrived: FlowId) -> Option<FlowId> {
        let (i, reply) = self.find(map, arrived)?;
        let b = self.bindings.get(i)?.as_ref()?;
        (!reply).then(|| {
            self.on_the_wire(arrived, b.rewritten(false), false)
                .reversed()
        })
    }

    fn find(&self, map: u8, arrived: FlowId) -> Option<(usize, bool)> {
        if self.config.kind == Kind::Addr {
            let of = |s, d| self.keys.get(&(map, FlowId::addresses(s, d)));
            return of(arrived.saddr, 0).or(of(0, arrived.daddr)).copied();
        }
        self.keys.get(&(map, self.known(arrived))).copied()
    }

    /// What the rewriter knows a flow by.
    fn known(&self, f: FlowId) -> FlowId {
        match self.config.kind {
            Kind::Addr => FlowId::addresses(f.saddr, 0),
            Kind::AddrPair => FlowId::addresses(f.saddr, f.daddr),
            _ => f,
        }
    }

    /// What a packet becomes that is rewritten to `to`.
    pub(super) fn on_the_wire(&self, arrived: FlowId, to: FlowId, reply: bool) -> FlowId {
        match (self.config.kind, reply) {
            (Kind::Addr, false) => FlowId {
                saddr: to.saddr,
                ..arrived
            },
            (Kind::Addr, true) => FlowId {
                daddr: to.daddr,
                ..arrived
            },
            (Kind::AddrPair, _) => FlowId {
                saddr: to.saddr,
                daddr: to.daddr,
                ..arrived
            },
            _ => to,
        }
    }

    /// A packet: what was seen of it must be what is promised.
    pub fn packet(&mut self, a: Arrival, now_ms: u64, seen: &Seen) -> Result<(), Broken> {
        let Arrival {
            map,
            input,
            flow: arrived,
            asks,
            segment,
        } = a;
        let fail = |why: String| Err(Broken(format!("{why}; seen: {seen:?}")));
        if let Some((i, reply)) = self.find(map, arrived) {
            let Some(b) = self.bindings[i].as_ref() else {
                return fail("no binding".into());
            };
            let to = self.on_the_wire(arrived, b.rewritten(reply), reply);
            let want = Seen::Out(b.outputs[usize::from(reply)], to);
            if *seen != want {
                return fail(format!("{arrived} has a binding, so {want:?}"));
            }
            self.touch(i, reply, segment, now_ms);
            return Ok(());
        }
        let spec = self.config.inputs.get(input).copied();
        let by_itself = match spec {
            Some(Spec::Pass(o)) => Some(Seen::Out(o, arrived)),
            Some(Spec::Drop) | None => Some(Seen::Gone),
            _ if !asks => Some(Seen::Gone),
            _ => None,
        };
        if let Some(want) = by_itself {
            return match *seen == want {
                true => Ok(()),
                false => fail(format!("{arrived} has no binding, so {want:?}")),
            };
        }
        if let Some(Spec::Mapped(f, r)) = spec {
            return self.begin_unseen(a, now_ms, seen, [f, r]);
        }
        let (pattern, outputs) = match spec {
            Some(Spec::Keep(f, r)) => (None, [f, r]),
            Some(Spec::Pattern(p, f, r)) => (Some(p), [f, r]),
            _ => match self.mapped(map, arrived) {
                Some((p, f, r)) => (Some(p), [f, r]),
                None if *seen == Seen::Gone => return Ok(()),
                None => return fail("no pattern of the mapper has room".into()),
            },
        };
        if let Some(p) = pattern.filter(|p| self.config.endpoints && p.saddr != 0) {
            return self.by_mapping(a, now_ms, seen, &p, outputs);
        }
        if !self.has_room(map, arrived, pattern.as_ref()) {
            return match seen {
                Seen::Gone => Ok(()),
                _ => fail("all variations are taken".into()),
            };
        }
        // what it became; if it is gone, the table must be full, and then it does not matter which variation it was
        let to = match seen {
            Seen::Out(o, to) if *o == outputs[0] => *to,
            Seen::Out(..) => return fail(format!("a new flow leaves at output {}", outputs[0])),
            Seen::Gone => self.first_free(map, arrived, pattern.as_ref()),
        };
        if *seen != Seen::Gone
            && let Err(why) = self.allowed(map, arrived, to, pattern.as_ref())
        {
            return fail(why);
        }
        self.begin(a, now_ms, seen, to, outputs, None)
    }

    /// A new flow that becomes `to`: it is seen if there is room for it.
    pub(super) fn begin(
        &mut self,
        a: Arrival,
        now_ms: u64,
        seen: &Seen,
        to: FlowId,
        outputs: [usize; 2],
        mapping: Option<[End; 2]>,
    ) -> Result<(), Broken> {
        let arrived = a.flow;
        let fail = |why: String| Err(Broken(format!("{why}; seen: {seen:?}")));
        match (self.insert(&a, to, outputs, now_ms, mapping), seen) {
            (Some(i), Seen::Out(..)) => {
                self.touch(i, false, a.segment, now_ms);
                Ok(())
            }
            (None, Seen::Gone) => Ok(()),
            (Some(_), Seen::Gone) => fail(format!("there is room for {arrived}")),
            (None, _) => fail(format!("there is no room for {arrived}")),
        }
    }

    /// What a mapper has to choose.
    fn mapped(&mut self, map: u8, arrived: FlowId) -> Option<(Pattern, usize, usize)> {
        let m = self.config.mapper.clone()?;
        if let Some(hashed) = self.hashed(map, arrived) {
            // which one is open, but it is the same for what is hashed; found out by what is seen of the first packet
            let i = *self.chosen.get(&hashed)?;
            return m.entries.get(i).copied();
        }
        for _ in 0..m.entries.len() {
            let e = m.entries[self.turn];
            self.turn = (self.turn + 1) % m.entries.len();
            if self.has_room(map, arrived, Some(&e.0)) {
                return Some(e);
            }
        }
        None
    }

    /// What the mapper hashes of a flow, if it goes by a hash.
    pub fn hashed(&self, map: u8, flow: FlowId) -> Option<Hashed> {
        match self.config.mapper.as_ref()?.choice {
            Choice::InTurn => None,
            Choice::BySource => Some((0, FlowId::addresses(flow.saddr, 0))),
            Choice::ByFlow => Some((map, flow)),
        }
    }
    /// Tells which entry the mapper has for it.
    pub fn learn(&mut self, hashed: Hashed, entry: usize) {
        self.chosen.entry(hashed).or_insert(entry);
    }
    /// Has it been told?
    pub fn knows(&self, hashed: Hashed) -> bool {
        self.chosen.contains_key(&hashed)
    }

    pub(super) fn variation(&self, arrived: FlowId, p: &Pattern, n: u32) -> FlowId {
        let pick = |v: u32, kept: u32| if v == 0 { kept } else { v };
        let port = |v: u16, kept: u16| if v == 0 { kept } else { v };
        let mut to = self.known(arrived);
        to.saddr = pick(p.saddr, to.saddr);
        to.daddr = pick(p.daddr, to.daddr);
        to.sport = port(p.sport, to.sport);
        to.dport = port(p.dport, to.dport);
        if p.sport != 0 {
            to.sport += n as u16;
        } else {
            to.saddr += n;
        }
        self.pinged(to)
    }

    /// A ping's second number follows from its first.
    fn pinged(&self, mut to: FlowId) -> FlowId {
        if self.config.kind == Kind::Ping {
            to.dport = super::rig::answering(to.sport);
        }
        to
    }

    fn has_room(&self, map: u8, arrived: FlowId, p: Option<&Pattern>) -> bool {
        let only = p.is_none_or(|p| p.more == 0);
        if only && self.config.take_over {
            return true;
        }
        match p {
            Some(p) => (0..=p.more).any(|n| self.is_free(map, self.variation(arrived, p, n))),
            None => self.is_free(map, self.pinged(self.known(arrived))),
        }
    }

    pub(super) fn is_free(&self, map: u8, to: FlowId) -> bool {
        !self.keys.contains_key(&(map, to.reversed()))
    }

    fn first_free(&self, map: u8, arrived: FlowId, p: Option<&Pattern>) -> FlowId {
        let Some(p) = p else {
            return self.known(arrived);
        };
        let mut all = (0..=p.more).map(|n| self.variation(arrived, p, n));
        let free = all.find(|to| p.more == 0 || self.is_free(map, *to));
        let to = free.unwrap_or_else(|| self.variation(arrived, p, 0));
        self.on_the_wire(arrived, to, false)
    }

    fn allowed(
        &self,
        map: u8,
        arrived: FlowId,
        to: FlowId,
        p: Option<&Pattern>,
    ) -> Result<(), String> {
        let wire = |v: FlowId| self.on_the_wire(arrived, v, false);
        let Some(p) = p else {
            return match to == wire(arrived) {
                true => Ok(()),
                false => Err(format!("{arrived} is kept as it is")),
            };
        };
        let n = (0..=p.more).find(|n| wire(self.variation(arrived, p, *n)) == to);
        let Some(n) = n else {
            return Err(format!("{arrived} became what its pattern does not give"));
        };
        if p.more == 0 && self.config.take_over {
            return Ok(());
        }
        if !self.is_free(map, self.variation(arrived, p, n)) {
            return Err(format!("{arrived} got what another flow has"));
        }
        let own = u32::from(arrived.sport).checked_sub(u32::from(p.sport));
        match own.filter(|o| p.sport != 0 && p.how == How::OwnFirst && *o <= p.more) {
            Some(o) if o != n && self.is_free(map, self.variation(arrived, p, o)) => {
                Err(format!("the port of {arrived} is free"))
            }
            _ => Ok(()),
        }
    }

    fn insert(
        &mut self,
        a: &Arrival,
        wire: FlowId,
        outputs: [usize; 2],
        now_ms: u64,
        mapping: Option<[End; 2]>,
    ) -> Option<usize> {
        let (map, input, arrived) = (a.map, a.input, a.flow);
        let to = self.known(wire);
        self.order += 1;
        let b = Binding {
            map,
            forward: self.known(arrived),
            reply: to.reversed(),
            outputs,
            input,
            mapping,
            last_ms: now_ms,
            order: self.order,
            done: [false; 2],
            data: [false; 2],
            packets: 0,
            replied: false,
        };
        let i = self.free.pop().unwrap_or_else(|| {
            self.bindings.push(None);
            self.bindings.len() - 1
        });
        let keys = [b.forward, b.reply];
        self.bindings[i] = Some(b);
        self.live += 1;
        self.link(i);
        for (key, reply) in keys.into_iter().zip([false, true]) {
            if let Some((old, _)) = self.keys.insert((map, key), (i, reply))
                && old != i
            {
                self.remove(old);
            }
        }
        if self.live > self.capacity {
            let victim = self.victim(now_ms, false).unwrap_or(i);
            self.remove(victim);
            if victim == i {
                return None;
            }
            self.evictions += 1;
        }
        Some(i)
    }
}
