//! Reference graph and kernel as one execution, to be held against the reference graph.

use crate::canon::{Form, Way, ends, form, told};
use crate::chosen::{self, Chosen, Learnt};
use crate::documented::{
    self, APART, DRAWN, Known, LIMITED, OWN_SYN, QUOTED, RESET, STRANGER, STRAYS, Sent,
};
use crate::ends::{Ends, read};
use crate::lab::{Lab, Left};
use crate::numbers::Numbers;
use crate::trace::Monitor;
use crate::{KernelError, Options};
use onefold_element::ElemId;
use onefold_engine::program::ProgramStep;
use onefold_engine::{DropCount, Totals};
use onefold_packet::Timestamp;
use onefold_verify::frame::view;
use onefold_verify::generate::Port;
use onefold_verify::{Outputs, Subject};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Sources whose errors are counted; of others, none is excused.
const SOURCES: usize = 65_536;
/// Errors of [`documented::no_way`] that a kernel sends to a source at once (net.ipv4.route.error_burst by error_cost).
const AT_ONCE: u32 = 5;

/// What was counted.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Frames that were compared.
    pub compared: u64,
    /// Of these, frames of which something left the kernel.
    pub with_output: u64,
    /// Frames that were not compared, and differences that are documented.
    pub known: BTreeMap<Known, u64>,
}

/// The kernel, as all copies of an execution share it.
pub struct SharedLab {
    lab: Lab,
    /// The chain's ports, as the lab numbers them.
    ports: Vec<Port>,
    pub(crate) counts: Counts,
    /// What packets come to is counted: not while a difference is shrunk.
    pub(crate) counting: bool,
    /// How often the kernel has told each source that its packets have no way ([`documented::LIMITED`]), or may have
    /// come to it. Bound: [`SOURCES`].
    told: HashMap<[u8; 4], u32>,
    /// Why it cannot go on.
    pub(crate) failed: Option<KernelError>,
    options: Options,
    /// Whose packets the kernel has seen since it forgot its connections.
    owner: u64,
    /// Which ports it has drawn for them.
    chosen: Chosen,
    /// Which of their connections have numbers that jump.
    numbers: Numbers,
    /// So many executions there are.
    executions: u64,
}

impl SharedLab {
    /// Of a chain's ports.
    pub fn new(lab: Lab, ports: &[Port], options: Options) -> Rc<RefCell<SharedLab>> {
        Rc::new(RefCell::new(SharedLab {
            chosen: Chosen::new(lab.translates() == Some(true)),
            lab,
            ports: ports.to_vec(),
            counts: Counts::default(),
            counting: true,
            told: HashMap::new(),
            numbers: Numbers::default(),
            failed: None,
            options,
            owner: 0,
            executions: 0,
        }))
    }

    /// Why a frame must not be given to anybody: the kernel's connections, or what its rules have counted, would not be
    /// Onefold's any more. It is counted.
    pub(crate) fn skips(&mut self, source: ElemId, frame: &[u8]) -> bool {
        if !self.lab.remembers() {
            return false;
        }
        let why = self.port_of(source).and_then(|port| {
            let networks = self.lab.networks().to_vec();
            let untold = documented::not_compared(&self.sent(port, frame, &networks));
            let open = || (self.lab.tracks() && self.numbers.leave_open(frame)).then_some(RESET);
            untold.or_else(open).or_else(|| self.elsewhere(port, frame))
        });
        if let Some(k) = why {
            self.count(k);
        }
        why.is_some()
    }

    fn sent<'a>(
        &self,
        port: usize,
        frame: &'a [u8],
        networks: &'a [(std::net::IpAddr, u8)],
    ) -> Sent<'a> {
        Sent {
            networks,
            frame,
            passes: self.lab.passes(port),
            firewalls: self.lab.has().0,
            routers: self.lab.has().1,
            iptables: self.lab.iptables(),
            tracks: self.lab.tracks(),
            counts: self.lab.counts(),
            asks_assured: self.lab.asks_assured(),
            mtu: self.lab.mtu(port),
            families: self.lab.families(),
        }
    }

    /// Why a frame would come to different connections, where addresses are translated.
    fn elsewhere(&self, port: usize, frame: &[u8]) -> Option<Known> {
        self.lab.translates()?;
        if self.chosen.strays(port, frame, self.lab.own()) {
            return Some(STRAYS);
        }
        if Chosen::opens_from(frame, self.lab.own()) {
            return Some(OWN_SYN);
        }
        if self.chosen.is_apart(frame) {
            return Some(APART);
        }
        let to = self.chosen.to_kernel(frame);
        (to == chosen::Sent::Stranger).then_some(STRANGER)
    }

    /// The kernel's connections are those that these frames have left, of the execution of this number.
    fn becomes(&mut self, id: u64, log: &[Logged]) -> Result<(), KernelError> {
        if self.owner == id || !self.lab.remembers() {
            return Ok(());
        }
        self.lab.flush()?;
        self.owner = id;
        self.chosen = Chosen::new(self.lab.translates() == Some(true));
        self.numbers = Numbers::default();
        for l in log {
            let sent = self.mapped(&l.frame);
            let left = self.lab.exchange(l.port, &sent)?;
            self.numbers.sent(&l.frame, l.left.as_ref());
            self.learn(l.port, &l.frame, l.left.as_ref(), &left);
        }
        Ok(())
    }

    /// The kernel tells this source that its packet has no way.
    fn tells(&mut self, frame: &[u8]) {
        let source = source_of(frame);
        let room = self.told.len() < SOURCES;
        if let Some(a) = source.filter(|a| room || self.told.contains_key(a)) {
            *self.told.entry(a).or_default() += 1;
        }
    }

    /// May the kernel have had enough of telling it?
    fn limited(&self, frame: &[u8]) -> bool {
        let times = source_of(frame).and_then(|a| self.told.get(&a));
        times.is_some_and(|n| *n >= AT_ONCE)
    }

    /// A frame as it is sent to the kernel.
    fn mapped(&self, frame: &[u8]) -> Vec<u8> {
        match self.chosen.to_kernel(frame) {
            chosen::Sent::Mapped(b) => b,
            _ => frame.to_vec(),
        }
    }

    /// What a frame has left as says which ports its connection has on both sides.
    fn learn(&mut self, port: usize, frame: &[u8], ours: Option<&Ends>, left: &[Left]) -> Learnt {
        let learnt = match (self.lab.translates(), ours, left) {
            (Some(_), Some(ours), [one]) if !self.options.strict => {
                self.chosen.learn(port, frame, ours, &one.bytes)
            }
            _ => Learnt::Nothing,
        };
        self.chosen.ends(frame, learnt);
        learnt
    }

    /// Must it begin anew, as the kernel may not find ports that are free?
    pub(crate) fn is_crowded(&self) -> bool {
        self.lab.translates().is_some() && self.chosen.is_crowded()
    }

    fn next(&mut self) -> u64 {
        self.executions += 1;
        self.executions
    }

    fn count(&mut self, k: Known) {
        if self.counting {
            *self.counts.known.entry(k).or_default() += 1;
        }
    }

    fn port_of(&self, source: ElemId) -> Option<usize> {
        self.ports.iter().position(|p| p.source == Some(source))
    }

    fn sink(&self, port: usize) -> ElemId {
        let sinks = self.ports.get(port).and_then(|p| p.sinks.first());
        sinks.copied().unwrap_or(ElemId(u32::MAX))
    }
}

/// A frame that the kernel has been sent.
#[derive(Debug, Clone)]
struct Logged {
    port: usize,
    frame: Vec<u8>,
    /// What it left as, if one packet did.
    left: Option<Ends>,
}

/// Ends of the one packet that left the reference graph.
fn one_left(ours: &Outputs) -> Option<Ends> {
    let mut all = ours.iter();
    match (all.next(), all.next()) {
        (Some((_, _, b)), None) => read(b).filter(|f| !f.quoted).map(|f| f.ends),
        _ => None,
    }
}

/// See the module's text. Its outputs are those of the reference graph, unless the kernel's differ.
pub struct Judged {
    reference: Box<dyn Subject>,
    /// Says which rules take packets, for a source that aims at them.
    program: Option<Box<dyn Subject>>,
    lab: Rc<RefCell<SharedLab>>,
    out: Outputs,
    tracing: bool,
    lines: Vec<String>,
    /// Its number: the kernel has the connections of one execution at a time.
    id: u64,
    /// Where the kernel keeps connections, or rules count: the frames that it has been sent, by port, to be sent again
    /// when another execution has had it.
    log: Vec<Logged>,
    /// A frame came that the kernel must not be sent: nothing is compared any more.
    blind: bool,
}

impl Judged {
    /// Of a reference graph, which is the one that the kernel's outputs are compared with, and a program of it.
    pub fn new(
        reference: Box<dyn Subject>,
        program: Option<Box<dyn Subject>>,
        lab: Rc<RefCell<SharedLab>>,
    ) -> Judged {
        let id = lab.borrow_mut().next();
        Judged {
            reference,
            program,
            lab,
            out: Outputs::default(),
            tracing: false,
            lines: Vec::new(),
            id,
            log: Vec::new(),
            blind: false,
        }
    }

    fn one(&mut self, source: ElemId, frame: &[u8], at: Timestamp) {
        self.reference.inject(source, &[frame], at);
        let mut ours = Outputs::default();
        self.reference.outputs(&mut ours);
        if let Some(p) = &mut self.program {
            p.inject(source, &[frame], at);
            p.outputs(&mut Outputs::default());
        }
        let mut lab = self.lab.borrow_mut();
        let remembers = lab.lab.remembers();
        if !self.blind
            && let Err(e) = lab.becomes(self.id, &self.log)
        {
            lab.failed = Some(e);
        }
        self.blind |= remembers && lab.skips(source, frame);
        let theirs = match lab.failed {
            Some(_) => None,
            None if self.blind => None,
            None => judge(
                &mut lab,
                source,
                frame,
                &ours,
                self.tracing.then_some(&mut self.lines),
            ),
        };
        if remembers
            && !self.blind
            && let Some(port) = lab.port_of(source)
        {
            self.log.push(Logged {
                port,
                frame: frame.to_vec(),
                left: one_left(&ours),
            });
        }
        match theirs {
            None => ours.iter().for_each(|(s, t, b)| self.out.push(s, t, b)),
            Some(theirs) => {
                for (sink, bytes) in theirs {
                    self.out.push(sink, at, &bytes);
                }
            }
        }
    }
}

/// Source address of an IPv4 packet.
fn source_of(frame: &[u8]) -> Option<[u8; 4]> {
    let v = view(frame)?;
    ends(frame.get(v.net..)?)?.0.try_into().ok()
}

/// What left the kernel, by sink.
type Theirs = Vec<(ElemId, Vec<u8>)>;

/// Those of the former that have no like among the latter.
fn only(of: &[(usize, Form)], not: &[(usize, Form)]) -> Vec<(usize, Form)> {
    let mut rest = not.to_vec();
    let mut only = Vec::new();
    for x in of {
        match rest.iter().position(|y| y == x) {
            Some(i) => drop(rest.swap_remove(i)),
            None => only.push(x.clone()),
        }
    }
    only
}

/// `None`: the kernel does what the reference graph does, or something that is documented.
fn judge(
    lab: &mut SharedLab,
    source: ElemId,
    frame: &[u8],
    ours: &Outputs,
    lines: Option<&mut Vec<String>>,
) -> Option<Theirs> {
    let port = lab.port_of(source)?;
    let networks = lab.lab.networks().to_vec();
    let sent = lab.sent(port, frame, &networks);
    if let Some(why) = documented::not_compared(&sent) {
        lab.count(why);
        return None;
    }
    let to_kernel = lab.mapped(frame);
    let mut left = match exchange(lab, port, &to_kernel, lines) {
        Ok(left) => left,
        Err(e) => {
            lab.failed = Some(e);
            return None;
        }
    };
    lab.numbers.sent(frame, one_left(ours).as_ref());
    if lab.lab.translates().is_some() {
        if lab.learn(port, frame, one_left(ours).as_ref(), &left) == Learnt::Drawn {
            lab.count(DRAWN);
        }
        for l in &mut left {
            let expected = one_left(ours);
            l.bytes = (lab.chosen).to_chain(&l.bytes, (frame, &to_kernel), expected.as_ref());
        }
    }
    if lab.counting {
        lab.counts.compared += 1;
        lab.counts.with_output += u64::from(!left.is_empty());
    }
    let tells = (left.iter()).any(|l| documented::tells_no_way(&l.bytes, frame));
    if tells || left.is_empty() && documented::is_unanswered(frame) {
        lab.tells(frame);
    }
    let topmost = view(frame).is_some_and(|v| {
        let at = if v.ether_type == 0x0800 { 8 } else { 7 };
        sent.passes && frame.get(v.net + at) == Some(&255)
    });
    let way = |port: usize| Way {
        routed: lab.lab.routed(port),
        topmost,
        translated: lab.lab.translates().is_some(),
    };
    let number = |sink: ElemId| lab.ports.iter().position(|p| p.sinks.contains(&sink));
    let mut a: Vec<(usize, Form)> = (ours.iter())
        .filter_map(|(sink, _, b)| Some((number(sink)?, b)))
        .map(|(port, b)| (port, form(b, frame, way(port))))
        .collect();
    let mut b: Vec<(usize, Form)> = (left.iter())
        .map(|l| (l.port, form(&l.bytes, frame, way(l.port))))
        .collect();
    a.sort();
    b.sort();
    if a == b {
        let errors = |(_, f): &(usize, Form)| matches!(f, Form::Error(_));
        let bytes = ours.iter().map(|(_, _, b)| b.to_vec()).collect::<Vec<_>>();
        if a.iter().any(errors) && !left.iter().all(|l| bytes.contains(&l.bytes)) {
            lab.count(QUOTED);
        }
        return None;
    }
    let (only_a, only_b) = (only(&a, &b), only(&b, &a));
    let (ra, rb): (Vec<_>, Vec<_>) = (only_a.iter().collect(), only_b.iter().collect());
    let known = match &ra[..] {
        [(_, f)] if rb.is_empty() && documented::no_way(f) && lab.limited(frame) => Some(LIMITED),
        _ => documented::excuse(&sent, &ra, &rb),
    };
    if !lab.options.strict
        && let Some(k) = known
    {
        lab.count(k);
        return None;
    }
    // what is the same is shown as the reference graph has it
    let mut rest: Vec<(ElemId, (usize, Form), &[u8])> = (ours.iter())
        .filter_map(|(sink, _, b)| {
            let port = number(sink)?;
            Some((sink, (port, form(b, frame, way(port))), b))
        })
        .collect();
    let theirs = left.iter().map(|l| {
        let f = (l.port, form(&l.bytes, frame, way(l.port)));
        match rest.iter().position(|(_, g, _)| *g == f) {
            Some(i) => {
                let (sink, _, bytes) = rest.remove(i);
                (sink, bytes.to_vec())
            }
            None => (lab.sink(l.port), l.bytes.clone()),
        }
    });
    Some(theirs.collect())
}

/// Sends the frame; with `lines`, what the kernel's rules do with it is written down.
fn exchange(
    lab: &mut SharedLab,
    port: usize,
    frame: &[u8],
    lines: Option<&mut Vec<String>>,
) -> Result<Vec<Left>, KernelError> {
    let Some(lines) = lines else {
        return lab.lab.exchange(port, frame);
    };
    let name = |port: usize| {
        lab.ports
            .get(port)
            .map_or("?".to_string(), |p| p.name.clone())
    };
    lines.push(format!("in at {}: {}", name(port), told(frame)));
    let monitors = match crate::commands::has("nft") {
        true => lab.lab.monitors()?,
        false => Vec::new(),
    };
    let left = lab.lab.exchange(port, frame);
    lines.extend(monitors.into_iter().flat_map(Monitor::finish));
    let left = left?;
    let name = |port: usize| {
        lab.ports
            .get(port)
            .map_or("?".to_string(), |p| p.name.clone())
    };
    lines.extend(
        left.iter()
            .map(|l| format!("out at {}: {}", name(l.port), told(&l.bytes))),
    );
    if left.is_empty() {
        lines.push("nothing left".to_string());
    }
    Ok(left)
}

impl Subject for Judged {
    fn name(&self) -> &'static str {
        "kernel"
    }
    /// The kernel itself is one and the same: it is as at the start where it keeps no state, and where it does, it
    /// forgets that, and is sent again what this execution has sent it.
    fn fork(&self) -> Box<dyn Subject> {
        let id = self.lab.borrow_mut().next();
        Box::new(Judged {
            id,
            log: self.log.clone(),
            blind: self.blind,
            reference: self.reference.fork(),
            program: self.program.as_ref().map(|p| p.fork()),
            lab: self.lab.clone(),
            out: Outputs::default(),
            tracing: false,
            lines: Vec::new(),
        })
    }
    fn inject(&mut self, source: ElemId, frames: &[&[u8]], at: Timestamp) {
        for f in frames {
            self.one(source, f, at);
        }
    }
    fn advance(&mut self, at: Timestamp) {
        self.reference.advance(at);
        self.reference.outputs(&mut self.out);
        if let Some(p) = &mut self.program {
            p.advance(at);
            p.outputs(&mut Outputs::default());
        }
    }
    fn clear(&mut self, elem: ElemId) {
        self.reference.clear(elem);
        if let Some(p) = &mut self.program {
            p.clear(elem);
        }
    }
    fn outputs(&mut self, into: &mut Outputs) {
        for (sink, at, bytes) in self.out.iter() {
            into.push(sink, at, bytes);
        }
        self.out.clear();
    }
    fn drops(&self) -> Vec<DropCount> {
        self.reference.drops()
    }
    fn totals(&self) -> Totals {
        self.reference.totals()
    }
    fn state(&mut self) -> Vec<(String, String)> {
        self.reference.state()
    }
    fn start_trace(&mut self) {
        self.tracing = true;
        self.lines.clear();
    }
    fn take_trace(&mut self) -> Vec<String> {
        self.tracing = false;
        std::mem::take(&mut self.lines)
    }
    fn watch(&mut self) {
        if let Some(p) = &mut self.program {
            p.watch();
        }
    }
    fn watched(&mut self) -> Vec<ProgramStep> {
        self.program.as_mut().map_or_else(Vec::new, |p| p.watched())
    }
}
