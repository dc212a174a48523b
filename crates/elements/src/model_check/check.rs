//! Holding a model against the element's behaviour: the same packets through both, everything that can be seen
//! compared.
//!
//! Two instances of the element get the same packets. The first is pushed into: that is the meaning. For the second the
//! model decides ([`onefold_element::model::interp`]), and the element only accounts
//! ([`onefold_element::Element::account`]), is asked for bindings, or gets the packets that the model hands over.
//! Compared are outputs, bytes, annotations, marked headers, drop reasons, what was printed and which handlers were
//! called, and, every now and then and at the end, all read handlers and all shared state.
//!
//! A model that punts is right, but not free: [`Report`] says how many were punted, and how many of those were plain.

use super::probe::probes;
use super::samples::{Layer, Sample, answer, samples};
use crate::testing::{Bench, Setup};
use onefold_element::model::interp::{self, Next, Predicted};
use onefold_element::model::rng::Rng;
use onefold_element::model::{Bind, Binding, Bound, Model, ModelCx, Rewritten};
use onefold_element::{ENTRY, ElemId, HandlerFlags, NameDb, Port};
use onefold_packet::{Pkt, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One configured element with a pretended graph around it.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Class.
    pub class: String,
    /// Configuration.
    pub config: String,
    /// Connected inputs. Packets go to all of them; to input 0 if there is none (devices).
    pub ninputs: usize,
    /// Connected outputs.
    pub noutputs: usize,
    /// Write handlers called half-way; the model is asked for again then.
    pub writes: Vec<(String, String)>,
    /// Packets go to [`ENTRY`], the input of elements that are source and sink at once.
    pub entry: bool,
    /// Where the element's trace names a configuration argument, the case must name the same.
    pub origins: bool,
    /// Printed lines are compared. (Accounting knows no packet, so messages about one may lack details.)
    pub messages: bool,
    /// Looked at is what becomes of packets that the model hands over ([`onefold_element::Element::finer`]).
    pub finer: bool,
}

impl Subject {
    /// An element, seen whole.
    pub fn new(class: &str, config: &str, ninputs: usize, noutputs: usize) -> Self {
        Subject {
            class: class.to_string(),
            config: config.to_string(),
            ninputs,
            noutputs,
            writes: Vec::new(),
            entry: false,
            origins: true,
            messages: true,
            finer: false,
        }
    }
    /// A handler that is written to half-way.
    pub fn write(mut self, name: &str, value: &str) -> Self {
        self.writes.push((name.to_string(), value.to_string()));
        self
    }
    /// Whose messages say less when it accounts.
    pub fn silent(mut self) -> Self {
        self.messages = false;
        self
    }
    /// What it hands over is looked at, in place of its model.
    pub fn finer(mut self) -> Self {
        self.finer = true;
        self
    }
    /// Its entry is looked at, in place of its inputs.
    pub fn entry(mut self) -> Self {
        self.entry = true;
        self
    }
    fn inputs(&self) -> Vec<Port> {
        match self.entry {
            true => vec![ENTRY],
            false => (0..self.ninputs.max(1)).collect(),
        }
    }
    fn bench(&self) -> Result<Bench, Difference> {
        let setup = Setup {
            ninputs: self.ninputs,
            noutputs: self.noutputs,
            ..Setup::default()
        };
        Bench::with_setup(&self.class, &self.config, setup, NameDb::builtin())
            .map_err(|e| Difference::general(self, format!("configuration refused: {e:?}")))
    }
}

/// All that can be seen of an element that has accounted for a packet with this tag.
pub fn accounted(s: &Subject, tag: u16) -> Result<String, Difference> {
    let mut b = s.bench()?;
    b.with(|e, cx| e.account(tag, 1, 64, cx));
    let drops = b.drops();
    Ok(format!(
        "{:?} {drops:?} {:?} {:?} {:?}",
        handlers(&mut b),
        b.store.summaries(),
        b.host.log,
        b.host.writes
    ))
}

/// The model and the behaviour differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `Class(configuration)`.
    pub subject: String,
    /// Which packet showed it.
    pub packet: Option<usize>,
    /// How.
    pub what: String,
}

impl Difference {
    fn general(s: &Subject, what: String) -> Self {
        Difference {
            subject: format!("{}({})", s.class, s.config),
            packet: None,
            what,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        if let Some(n) = self.packet {
            write!(f, ", packet {n}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What was seen while nothing differed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Packets in all.
    pub packets: usize,
    /// Plain ones among them.
    pub plain: usize,
    /// Packets that the element itself decided about, at the model's request.
    pub asked: usize,
    /// Packets that bindings decided about.
    pub bound: usize,
    /// Packets of which the element says which argument decided.
    pub decided: usize,
    /// Punted packets.
    pub punted: usize,
    /// Plain ones among them.
    pub plain_punted: usize,
    /// Punted packets by cause.
    pub causes: BTreeMap<&'static str, usize>,
    /// Input and number of every case that was taken.
    pub cases: BTreeSet<(Port, usize)>,
    /// Cases that there are.
    pub all_cases: usize,
}

impl Report {
    /// Adds another one.
    pub fn add(&mut self, o: &Report) {
        self.packets += o.packets;
        self.plain += o.plain;
        self.asked += o.asked;
        self.bound += o.bound;
        self.punted += o.punted;
        self.plain_punted += o.plain_punted;
        for (c, n) in &o.causes {
            *self.causes.entry(c).or_default() += n;
        }
        self.all_cases += o.all_cases;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |n: usize, of: usize| n as f64 * 100.0 / of.max(1) as f64;
        write!(
            f,
            "{} packets, {:.1}% punted ({:.1}% of {} plain ones), {:.1}% asked, {:.1}% bound",
            self.packets,
            share(self.punted, self.packets),
            share(self.plain_punted, self.plain),
            self.plain,
            share(self.asked, self.packets),
            share(self.bound, self.packets),
        )?;
        for (cause, n) in &self.causes {
            write!(f, "; {cause}: {n}")?;
        }
        Ok(())
    }
}

/// What can be seen of a packet's fate.
#[derive(Default)]
struct Fate {
    emitted: Vec<(Port, Pkt)>,
    transmitted: Vec<Pkt>,
    dropped: Vec<(&'static str, u64)>,
}

impl Fate {
    fn of(b: &mut Bench, port: Port, p: Pkt) -> Fate {
        let emitted = b.push_packet(port, p);
        Fate {
            emitted,
            transmitted: b.out.transmitted.drain(..).map(|(_, p)| p).collect(),
            dropped: merged(b.out.drops.drain(..).map(|(_, r, n)| (r, n))),
        }
    }
    fn predicted(out: Predicted) -> Fate {
        Fate {
            emitted: out.emitted,
            transmitted: out.transmitted.into_iter().collect(),
            dropped: merged(out.dropped.into_iter().map(|r| (r, 1))),
        }
    }
    /// In what they differ; the first is what happened.
    fn difference(&self, model: &Fate) -> Option<String> {
        if self.dropped != model.dropped {
            return Some(format!(
                "dropped {:?}, the model says {:?}",
                self.dropped, model.dropped
            ));
        }
        let ports = |f: &Fate| f.emitted.iter().map(|e| e.0).collect::<Vec<_>>();
        if ports(self) != ports(model) {
            let (a, b) = (ports(self), ports(model));
            return Some(format!("left at outputs {a:?}, the model says {b:?}"));
        }
        if self.transmitted.len() != model.transmitted.len() {
            return Some("one was sent, the other not".to_string());
        }
        let all = |f: &Fate| -> Vec<Pkt> {
            let e = f.emitted.iter().map(|e| e.1.clone());
            e.chain(f.transmitted.iter().cloned()).collect()
        };
        let pairs = all(self).into_iter().zip(all(model));
        pairs
            .into_iter()
            .find_map(|(a, b)| packet_difference(&a, &b))
    }
}

/// Reasons are compared as texts, and their order does not matter.
fn merged(it: impl Iterator<Item = (&'static str, u64)>) -> Vec<(&'static str, u64)> {
    let mut m = BTreeMap::new();
    for (r, n) in it {
        *m.entry(r).or_insert(0) += n;
    }
    m.into_iter().collect()
}

/// In what two packets differ; the first is what happened.
pub fn packet_difference(a: &Pkt, b: &Pkt) -> Option<String> {
    let said = |what: &str, x: String, y: String| Some(format!("{what} {x}, the model says {y}"));
    if a.data() != b.data() {
        let (x, y) = (a.data(), b.data());
        let at = x.iter().zip(y).position(|(x, y)| x != y);
        let at = at.unwrap_or(x.len().min(y.len()));
        let part = |d: &[u8]| {
            let end = (at + 8).min(d.len());
            format!("{:02x?}... of {} bytes", &d[at.min(end)..end], d.len())
        };
        return said(&format!("bytes from {at} on are"), part(x), part(y));
    }
    if a.anno != b.anno {
        let (x, y) = (a.anno, b.anno);
        if let Some(i) = (0..48).find(|i| x.bytes()[*i] != y.bytes()[*i]) {
            let part = |d: &[u8]| format!("{:02x?}", &d[i..(i + 8).min(48)]);
            let what = format!("annotations from {i} on are");
            return said(&what, part(x.bytes()), part(y.bytes()));
        }
        let part =
            |d: onefold_packet::Anno| format!("{:?}", (d.timestamp, d.packet_type, d.ingress));
        return said("time stamp, type, ingress are", part(x), part(y));
    }
    let marks = |p: &Pkt| {
        (
            p.mac_header_offset(),
            p.network_header_offset(),
            p.transport_header_offset(),
        )
    };
    (marks(a) != marks(b))
        .then(|| format!("headers are {:?}, the model says {:?}", marks(a), marks(b)))
}

/// Everything that read handlers say.
fn handlers(b: &mut Bench) -> BTreeMap<String, String> {
    let fixed = b
        .element
        .handlers()
        .iter()
        .map(|h| (h.name.to_string(), h.flags));
    let all: Vec<_> = fixed.chain(b.element.dynamic_handlers()).collect();
    let read = all
        .into_iter()
        .filter(|(_, f)| matches!(f, HandlerFlags::Read | HandlerFlags::ReadWrite));
    // Bound: what is compared often must not be long
    read.take(40)
        .map(|(n, _)| {
            let v = b.read(&n).unwrap_or_else(|e| format!("error: {e}"));
            (n, v)
        })
        .collect()
}

/// One of the two instances differs from the other.
fn state_difference(a: &mut Bench, b: &mut Bench, messages: bool) -> Option<String> {
    let (x, y) = (handlers(a), handlers(b));
    if let Some((n, v)) = x.iter().find(|(n, v)| y.get(*n) != Some(*v)) {
        let w = y.get(n).map_or("", String::as_str);
        return Some(format!("handler {n} says {v:?}, with the model {w:?}"));
    }
    let (x, y) = (a.store.summaries(), b.store.summaries());
    if x != y {
        return Some(format!("shared state is\n{x:?}\nwith the model\n{y:?}"));
    }
    let lines = |b: &Bench| {
        let mut l: Vec<String> = b.host.log.lines().map(str::to_string).collect();
        // several packets are accounted for together, so the order among messages may change
        l.sort();
        l
    };
    let (x, y) = (lines(a), lines(b));
    if messages && x != y {
        let odd = x
            .iter()
            .find(|l| !y.contains(l))
            .or(y.iter().find(|l| !x.contains(l)));
        return Some(format!(
            "printed {} lines, with the model {}; for example {:?}",
            x.len(),
            y.len(),
            odd
        ));
    }
    if a.host.writes != b.host.writes {
        return Some(format!(
            "called {:?}, with the model {:?}",
            a.host.writes, b.host.writes
        ));
    }
    if (a.host.stopped, &a.host.stdout, &a.host.timers)
        != (b.host.stopped, &b.host.stdout, &b.host.timers)
    {
        return Some("stop, standard output or timers differ".to_string());
    }
    if a.element.held() != b.element.held() {
        return Some(format!(
            "holds {} packets, with the model {}",
            a.element.held(),
            b.element.held()
        ));
    }
    None
}

/// The models of a subject's inputs.
fn models(b: &Bench, s: &Subject) -> Vec<(Port, Model)> {
    let cx = ModelCx {
        elem: ElemId(0),
        ninputs: s.ninputs,
        noutputs: s.noutputs,
        store: &b.store,
    };
    let inputs = s.inputs().into_iter();
    let model = |p| match s.finer {
        true => match b.element.finer(p, &cx) {
            Some(cases) => Model::Cases(cases),
            None => Model::None("nothing more is told"),
        },
        false => b.element.model(p, &cx),
    };
    inputs.map(|p| (p, model(p))).collect()
}

/// The models of a subject as it is before any packet came.
pub fn models_of(s: &Subject) -> Result<Vec<Model>, Difference> {
    let all = models_by_input(s)?.into_iter();
    Ok(all.map(|(_, m)| m).collect())
}

/// The same, with the input of each.
pub fn models_by_input(s: &Subject) -> Result<Vec<(Port, Model)>, Difference> {
    Ok(models(&s.bench()?, s))
}

/// The second instance, for which the model decides.
struct Modelled<'a> {
    bench: Bench,
    models: Vec<(Port, Model)>,
    /// Tag, packets, bytes: not yet accounted for.
    pending: Vec<(u16, u64, u64)>,
    subject: &'a Subject,
    report: Report,
}

impl Modelled<'_> {
    fn account(&mut self) {
        for (tag, packets, bytes) in self.pending.drain(..) {
            self.bench.with(|e, cx| e.account(tag, packets, bytes, cx));
        }
    }

    fn punt(&mut self, port: Port, p: Pkt, plain: bool, cause: &'static str) -> Fate {
        self.report.punted += 1;
        self.report.plain_punted += usize::from(plain);
        *self.report.causes.entry(cause).or_default() += 1;
        self.account();
        Fate::of(&mut self.bench, port, p)
    }

    /// What the model makes of a packet, and which argument made it.
    fn run(
        &mut self,
        port: Port,
        sample: &Sample,
    ) -> Result<(Fate, Option<Option<usize>>), String> {
        let model = self.models.iter().find(|(p, _)| *p == port);
        let (_, model) = model.ok_or("no model for this input")?;
        let p = sample.packet.clone();
        let model = &*super::asked::told(model, &p, &self.bench.store, self.bench.now);
        let mut out = interp::apply(model, p, self.subject.noutputs, self.bench.now)
            .map_err(|e| format!("the model is not well-formed: {e}"))?;
        let (mut origin, mut decided) = (None, None);
        if let (Model::Cases(cases), Some(i)) = (model, out.case) {
            self.report.cases.insert((port, i));
            let case = cases.get(i);
            origin = case.map(|c| c.origin);
            // by an argument of a list, or by none of them; other cases are no list's decision
            decided = case
                .filter(|c| c.policy || c.origin.is_some())
                .map(|c| c.origin);
        }
        for (tag, len) in std::mem::take(&mut out.counts) {
            let len = len as u64;
            match self.pending.iter_mut().find(|p| p.0 == tag) {
                Some(p) => *p = (tag, p.1 + 1, p.2 + len),
                None => self.pending.push((tag, 1, len)),
            }
        }
        let rest = out.packet.take();
        match (std::mem::replace(&mut out.next, Next::Done), rest) {
            (Next::Done, _) => {
                let len = sample.packet.len();
                self.bench.with(|e, _| {
                    if let (Some(by), Some(c)) = (decided, e.rule_counters_mut()) {
                        c.packet(by, len);
                    }
                });
                let mut fate = Fate::predicted(out);
                // whoever sends it gives it a time if it has none
                for p in &mut fate.transmitted {
                    if !p.anno.timestamp.is_set() {
                        p.anno.timestamp = self.bench.now;
                    }
                }
                Ok((fate, origin))
            }
            (Next::Punt(cause), Some(p)) => Ok((self.punt(port, p, sample.plain, cause), None)),
            (Next::Ask(_), Some(p)) => {
                self.report.asked += 1;
                self.account();
                let fate = Fate::of(&mut self.bench, port, p);
                let changed = fate
                    .emitted
                    .iter()
                    .find_map(|(_, p)| packet_difference(p, &sample.packet));
                match changed {
                    Some(c) => Err(format!(
                        "an element that is only asked changed a packet: {c}"
                    )),
                    None => Ok((fate, None)),
                }
            }
            (Next::Bind(b), Some(p)) => Ok((self.bind(port, p, &b, sample.plain)?, None)),
            (_, None) => Err("the model lost the packet".to_string()),
        }
    }

    fn bind(&mut self, port: Port, mut p: Pkt, bind: &Bind, plain: bool) -> Result<Fate, String> {
        let bp = interp::bind_packet(&p).ok_or("a packet without ports is to be bound")?;
        self.account();
        self.report.bound += 1;
        let bound = self.bench.with(|e, cx| e.bind(port, &bp, &|_| true, cx));
        let mut fate = Fate::default();
        let emit = |fate: &mut Fate, to: Port, p: Pkt| match to < self.subject.noutputs {
            true => fate.emitted.push((to, p)),
            false => fate.dropped.push(("unconnected output", 1)),
        };
        match bound {
            Bound::To(b) => {
                if let Some(wrong) = unexpected(port, bind, &b, &bp) {
                    return Err(wrong);
                }
                interp::apply_binding(&mut p, bind, &b);
                emit(&mut fate, usize::from(b.output), p);
            }
            Bound::Pass(to) => emit(&mut fate, to, p),
            Bound::Drop(reason) => fate.dropped.push((reason, 1)),
            Bound::Punt(cause) => {
                self.report.bound -= 1;
                return Ok(self.punt(port, p, plain, cause));
            }
        }
        Ok(fate)
    }
}

/// Does a binding do what the model says of its kind of flow?
fn unexpected(
    port: Port,
    bind: &Bind,
    b: &Binding,
    p: &onefold_element::model::BindPacket,
) -> Option<String> {
    let any = onefold_element::model::BIND_BITS.map(onefold_element::model::ValueSet::full);
    let mut sides = (bind.flows.iter()).flat_map(|f| f.sides(bind.kind, bind.source_only, &any));
    // IPAddrRewriter looks up the source address zero where replies' keys are, too
    let zero = bind.source_only && p.saddr == 0;
    if !zero && !sides.any(|s| s.fits(bind.kind, b, p)) {
        return Some(format!("a binding of no kind that the model tells: {b:?}"));
    }
    if b.reply || usize::from(b.origin) != port {
        return None;
    }
    let Some(e) = &bind.expected else {
        return Some("a flow began where the model says that none begins".to_string());
    };
    let kept = |r: &Rewritten, old: u128, new: u128| match r {
        Rewritten::Kept => old == new,
        Rewritten::To(set) => set.contains(new),
    };
    let word = |i: usize| u128::from(u16::from_be_bytes([p.head[i], p.head[i + 1]]));
    let (sport, dport) = match bind.kind {
        onefold_element::model::BindKind::Flow => (word(0), word(2)),
        onefold_element::model::BindKind::Ping => (word(4), u128::from(b.dport)),
        onefold_element::model::BindKind::Addresses => (u128::from(b.sport), u128::from(b.dport)),
    };
    let wrong = [
        (e.output != usize::from(b.output), "output"),
        (!kept(&e.saddr, p.saddr.into(), b.saddr.into()), "source"),
        (
            !kept(&e.daddr, p.daddr.into(), b.daddr.into()),
            "destination",
        ),
        (!kept(&e.sport, sport, b.sport.into()), "source port"),
        (!kept(&e.dport, dport, b.dport.into()), "destination port"),
    ];
    let (_, what) = wrong.iter().find(|(w, _)| *w)?;
    Some(format!(
        "{what} of a new binding is not what the model expects: {b:?}, {e:?}"
    ))
}

/// A packet through the element and through its model: what happened, or what differs.
fn both_ways(
    (real, m): &mut (&mut Bench, &mut Modelled<'_>),
    s: &Subject,
    port: Port,
    sample: &Sample,
) -> Result<Fate, String> {
    real.host.decisions.clear();
    let happened = Fate::of(real, port, sample.packet.clone());
    let (model, origin) = m.run(port, sample)?;
    if let Some(what) = happened.difference(&model) {
        return Err(what);
    }
    let decided = real.host.decisions.last().and_then(|d| d.0);
    m.report.decided += usize::from(decided.is_some());
    match (s.origins, decided, origin) {
        (true, Some(arg), Some(origin)) if origin != Some(arg) => {
            Err(format!("argument {arg} decided, the model says {origin:?}"))
        }
        _ => Ok(happened),
    }
}

/// Runs all samples through behaviour and model. `alter` may change each model first (to see that a wrong one is found
/// out). The seed decides on inputs and on when time passes.
pub fn check(
    s: &Subject,
    list: &[Sample],
    seed: u64,
    alter: &dyn Fn(Port, Model) -> Model,
) -> Result<Report, Difference> {
    let mut real = s.bench()?;
    let mut m = Modelled {
        bench: s.bench()?,
        models: Vec::new(),
        pending: Vec::new(),
        subject: s,
        report: Report::default(),
    };
    let ask = |m: &mut Modelled<'_>| {
        let all = models(&m.bench, s).into_iter();
        m.models = all
            .map(|(port, model)| (port, alter(port, model)))
            .collect();
    };
    ask(&mut m);
    let cases = |m: &Model| match m {
        Model::Cases(c) => c.len(),
        Model::None(_) => 0,
    };
    m.report.all_cases = m.models.iter().map(|(_, m)| cases(m)).sum();
    let mut rng = Rng::new(seed);
    let inputs = s.inputs();
    let binds = |m: &Model| match m {
        Model::Cases(all) => all
            .iter()
            .any(|c| matches!(c.exit, onefold_element::model::Exit::Bind(_))),
        Model::None(_) => false,
    };
    let answered: Vec<Port> = (m.models.iter())
        .filter(|(_, m)| binds(m))
        .map(|(p, _)| *p)
        .collect();
    for (i, sample) in list.iter().enumerate() {
        let differs = |what: String| Difference {
            packet: Some(i),
            ..Difference::general(s, format!("{what}\n  {:02x?}", sample.packet.data()))
        };
        if i == list.len() / 2 && !s.writes.is_empty() {
            m.account();
            for (name, value) in &s.writes {
                let (x, y) = (real.write(name, value), m.bench.write(name, value));
                if x.is_err() || x != y {
                    return Err(differs(format!("handler {name}: {x:?}, {y:?}")));
                }
            }
            ask(&mut m);
        }
        if rng.one_in(8) {
            m.account();
            real.now = real.now + Timestamp(rng.below(3_000_000_000) as i64);
            m.bench.now = real.now;
        }
        let port = rng.pick(&inputs);
        let mut pair = (&mut real, &mut m);
        let happened = both_ways(&mut pair, s, port, sample).map_err(differs)?;
        // flows have replies, and those come in anywhere
        if answered.contains(&port)
            && let [(_, p)] = &happened.emitted[..]
            && let Some(packet) = answer(p)
            && rng.one_in(2)
        {
            let back = Sample {
                packet,
                plain: false,
            };
            both_ways(&mut pair, s, rng.pick(&inputs), &back).map_err(|what| Difference {
                packet: Some(i),
                ..Difference::general(s, format!("{what}\n  {:02x?}", back.packet.data()))
            })?;
        }
        m.report.packets += 1;
        m.report.plain += usize::from(sample.plain);
        if rng.one_in(4) {
            m.account();
        }
        if rng.one_in(64) {
            m.account();
            if let Some(what) = state_difference(&mut real, &mut m.bench, s.messages) {
                return Err(differs(what));
            }
        }
    }
    m.account();
    match state_difference(&mut real, &mut m.bench, s.messages) {
        Some(what) => Err(Difference::general(s, what)),
        None => Ok(m.report),
    }
}

/// Boundary values of an input that packets are made for.
const PROBES: usize = 1500;

/// A class with the configurations and the kind of packets that its models are held against.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Configured elements.
    pub subjects: Vec<Subject>,
    /// What packets begin with.
    pub layer: Layer,
    /// Packets per configuration.
    pub packets: usize,
    /// Largest accepted share of punts among plain packets, per thousand.
    pub plain_punts: usize,
}

impl Plan {
    /// One class, several configurations; no plain packet may be punted.
    pub fn new(layer: Layer, subjects: Vec<Subject>) -> Plan {
        Plan {
            subjects,
            layer,
            packets: 400,
            plain_punts: 0,
        }
    }
    /// So many plain packets in a thousand may be punted.
    pub fn plain_punts(mut self, per_thousand: usize) -> Plan {
        self.plain_punts = per_thousand;
        self
    }
    /// So many packets per configuration.
    pub fn packets(mut self, n: usize) -> Plan {
        self.packets = n;
        self
    }
    /// The packets for one of the configurations: random ones, and some at every boundary that its models have.
    pub fn samples(&self, s: &Subject, seed: u64) -> Result<Vec<Sample>, Difference> {
        let mut list = samples(self.layer, &s.config, seed, self.packets);
        let near = probes(&models_of(s)?, &list, seed, PROBES);
        list.extend(near);
        // a handler changes the element half-way: what was made for a boundary comes before that and after it
        let mut rng = Rng::new(seed);
        for i in 1..list.len() {
            list.swap(i, rng.below(i as u64 + 1) as usize);
        }
        Ok(list)
    }
    /// Checks everything. The text of an error says all that is needed to see it again.
    pub fn run(&self, seed: u64) -> Result<Report, String> {
        let mut all = Report::default();
        for (i, s) in self.subjects.iter().enumerate() {
            let seed = seed ^ (i as u64) << 32;
            let list = self.samples(s, seed).map_err(|d| d.to_string())?;
            let r = check(s, &list, seed, &|_, m| m).map_err(|d| d.to_string())?;
            all.add(&r);
        }
        let class = self.subjects.first().map_or("", |s| &s.class);
        if all.plain_punted * 1000 > all.plain * self.plain_punts {
            return Err(format!("{class}: too many plain packets are punted: {all}"));
        }
        Ok(all)
    }
}
