//! The same events through two executions, compared after every packet and at checkpoints.

use crate::event::Event;
use crate::frame;
use crate::order::interleaves;
use crate::subject::{Outputs, Subject};
use onefold_element::ElemId;
use onefold_engine::shadow::around;
use onefold_engine::{DropCount, Totals};
use onefold_packet::Timestamp;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// A packet that left: its bytes, its port, its time stamp, or that it left at all.
    Output,
    /// The order of the packets of one flow at one port.
    Order,
    /// Drops of an element for a reason.
    Drops,
    /// The account of packets.
    Totals,
    /// A state or the value of a handler.
    State,
    /// What elements print.
    Printed,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            What::Output => "output",
            What::Order => "order within a flow",
            What::Drops => "drops",
            What::Totals => "account",
            What::State => "state",
            What::Printed => "what is printed",
        })
    }
}

/// A difference between two executions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Index of the event (from 0) behind which it was seen.
    pub event: usize,
    /// What differs.
    pub what: What,
    /// Where: a port, an element and reason, a handler.
    pub place: String,
    /// With the first execution.
    pub left: String,
    /// With the second.
    pub right: String,
}

impl Difference {
    /// Is this the same trouble, values aside?
    pub fn is_like(&self, other: &Difference) -> bool {
        let outputs = |w: What| matches!(w, What::Output | What::Order);
        match outputs(self.what) {
            true => outputs(other.what),
            false => self.what == other.what && self.place == other.place,
        }
    }
}

/// Two executions side by side.
pub struct Pair {
    /// The one that is right.
    pub left: Box<dyn Subject>,
    /// The one that is judged.
    pub right: Box<dyn Subject>,
    /// Events that came.
    events: usize,
    now: Timestamp,
    out: [Outputs; 2],
    /// Of each frame of the last batch: how many packets had left the first execution behind it.
    ends: Vec<usize>,
    /// The batch that is being gathered.
    batch: Vec<Event>,
    /// Frames that were carried out at the last step.
    done: Vec<Event>,
    /// Frames of batches that were sent alone because they go round in the chain.
    alone: u64,
    /// Most frames of a batch; with 1, and where the second execution is [`Subject::exact`], the order is compared
    /// across flows and ports, too.
    pub max_batch: usize,
}

impl Pair {
    /// Both as they are now.
    pub fn new(left: Box<dyn Subject>, right: Box<dyn Subject>, max_batch: usize) -> Self {
        Pair {
            left,
            right,
            events: 0,
            now: Timestamp::ZERO,
            out: Default::default(),
            ends: Vec::new(),
            batch: Vec::new(),
            done: Vec::new(),
            alone: 0,
            max_batch: max_batch.max(1),
        }
    }

    /// A copy of both.
    pub fn fork(&self) -> Pair {
        Pair::new(self.left.fork(), self.right.fork(), self.max_batch)
    }

    /// From now on, what elements print is kept.
    pub fn keep_printed(&mut self) {
        self.left.keep_printed();
        self.right.keep_printed();
    }
    /// The difference in what elements have printed since the last call.
    pub fn printed(&mut self) -> Option<Difference> {
        let (left, right) = (self.left.printed(), self.right.printed());
        (left != right).then(|| Difference {
            event: self.events.saturating_sub(1),
            what: What::Printed,
            place: "standard output and error".to_string(),
            left: format!("{left:?}"),
            right: format!("{right:?}"),
        })
    }

    /// Frames of batches that were sent alone because they go round in the chain.
    pub fn alone(&self) -> u64 {
        self.alone
    }

    /// Events so far.
    pub fn events(&self) -> usize {
        self.events
    }

    /// The frames that were carried out at the last step, and what left the first execution then.
    pub fn last(&self) -> (&[Event], &Outputs) {
        (&self.done, &self.out[0])
    }

    /// An event comes; it may be kept for a batch. The difference, if there is one.
    pub fn step(&mut self, e: &Event) -> Option<Difference> {
        let joins = e.joined
            && e.source.is_some()
            && self.batch.len() < self.max_batch
            && self.batch.last().is_some_and(|b| b.source == e.source);
        self.done.clear();
        self.out[0].clear();
        let found = match joins {
            true => None,
            false => self.flush(),
        };
        self.events += 1;
        match e.source {
            Some(_) => {
                self.batch.push(e.clone());
                if self.max_batch == 1 && found.is_none() {
                    return self.flush();
                }
                found
            }
            None => {
                if found.is_some() {
                    return found;
                }
                self.now = self.now.max(e.at);
                self.left.advance(self.now);
                self.right.advance(self.now);
                if let Some(elem) = e.clears {
                    self.left.clear(elem);
                    self.right.clear(elem);
                }
                self.out[0].clear();
                self.ends.clear();
                self.compare_outputs()
            }
        }
    }

    /// Carries out what was kept for a batch.
    pub fn flush(&mut self) -> Option<Difference> {
        let first = self.batch.first()?;
        let source = first.source?;
        self.out[0].clear();
        self.ends.clear();
        let mut batch = std::mem::take(&mut self.batch);
        let mut clock = self.now;
        let mut at = |e: &Event| {
            clock = clock.max(e.at);
            clock
        };
        let stamped: Vec<(&[u8], Timestamp)> = (batch.iter())
            .map(|e| (e.bytes.as_slice(), at(e)))
            .collect();
        let times = stamped.first().zip(stamped.last());
        let (first, last) = times.map_or((self.now, self.now), |(f, l)| (f.1, l.1));
        if self.right.exact() {
            self.now = last;
            for (f, at) in &stamped {
                self.left.inject(source, &[f], *at);
            }
            self.right.inject_stamped(source, &stamped);
        } else {
            self.now = first;
            let frames: Vec<&[u8]> = stamped.iter().map(|f| f.0).collect();
            if frames.len() == 1 {
                self.left.inject(source, &frames, self.now);
                self.right.inject(source, &frames, self.now);
            }
            let parts = match frames.len() {
                1 => Vec::new(),
                _ => self.parts(source, &frames),
            };
            for part in parts {
                match frames.get(part).unwrap_or_default() {
                    [] => {}
                    of => self.right.inject(source, of, self.now),
                }
            }
        }
        self.done.append(&mut batch);
        // its memory is for the next one
        self.batch = batch;
        self.compare_outputs()
    }

    /// Sends the frames of a batch through the first execution; says which of them go through the second one together.
    ///
    /// What goes round in a chain comes to an element again when the rest of its batch has been there, one by one
    /// before it has. Both are right, but what it finds there may differ: such frames are sent alone.
    fn parts(&mut self, source: ElemId, frames: &[&[u8]]) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = 0;
        for (i, f) in frames.iter().enumerate() {
            let visits = self.left.inject_and_tell(source, f, self.now);
            self.left.outputs(&mut self.out[0]);
            self.ends.push(self.out[0].len());
            if visits.again() {
                parts.extend([start..i, i..i + 1]);
                start = i + 1;
                self.alone += 1;
            }
        }
        parts.push(start..frames.len());
        parts
    }

    /// Is everything compared in the order in which it happens?
    fn in_order(&self) -> bool {
        self.max_batch == 1 || self.right.exact()
    }

    /// What left the first execution is added to what is there of it already.
    fn compare_outputs(&mut self) -> Option<Difference> {
        let in_order = self.in_order();
        let [l, r] = &mut self.out;
        r.clear();
        self.left.outputs(l);
        self.right.outputs(r);
        if l == r {
            return None;
        }
        let (what, place, left, right) = match in_order {
            true => differ_in_order(l, r),
            false => {
                // the frame that made the i-th of `l`; all one where time made them
                let ends = &self.ends;
                let made = |i: usize| ends.partition_point(|end| *end <= i);
                let came: Vec<Vec<u8>> = (self.done.iter())
                    .map(|e| frame::came_key(&e.bytes))
                    .collect();
                let of = |f: usize| came.iter().position(|k| Some(k) == came.get(f));
                let line = |i: usize| of(made(i)).unwrap_or(0);
                differ_by_flow(l, r, &line)?
            }
        };
        Some(Difference {
            event: self.events.saturating_sub(1),
            what,
            place,
            left,
            right,
        })
    }

    /// Compares all that is not output: drops, account, states. Dearer than a step.
    pub fn checkpoint(&mut self) -> Option<Difference> {
        if let Some(d) = self.flush() {
            return Some(d);
        }
        let event = self.events.saturating_sub(1);
        let found = |(what, place, left, right)| Difference {
            event,
            what,
            place,
            left,
            right,
        };
        if let Some((place, l, r)) = drops_differ(&self.left.drops(), &self.right.drops()) {
            return Some(found((What::Drops, place, l, r)));
        }
        if let Some((place, l, r)) = totals_differ(self.left.totals(), self.right.totals()) {
            return Some(found((What::Totals, place, l, r)));
        }
        let (mut l, mut r) = (self.left.state(), self.right.state());
        if !self.in_order() && l != r {
            // the order across flows is free, and so is what tells of it
            l.iter_mut().chain(&mut r).for_each(|(_, v)| unordered(v));
        }
        if l != r
            && let Some((place, l, r)) = states_differ(&l, &r)
        {
            return Some(found((What::State, place, l, r)));
        }
        None
    }
}

type Found = (What, String, String, String);

fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

fn show(o: Option<(ElemId, Timestamp, &[u8])>) -> String {
    match o {
        None => "nothing".to_string(),
        Some((sink, at, bytes)) => format!("element {} at {at}: {}", sink.0, hex(bytes)),
    }
}

/// The first packet that differs.
fn differ_in_order(l: &Outputs, r: &Outputs) -> Found {
    for i in 0..l.len().max(r.len()) {
        let (a, b) = (l.get(i), r.get(i));
        if a != b {
            let what = match (l.len() == r.len()) && a.is_some_and(|a| r.iter().any(|b| a == b)) {
                true => What::Order,
                false => What::Output,
            };
            let sink = a.or(b).map_or(0, |x| x.0.0);
            return (what, format!("sink {sink}"), show(a), show(b));
        }
    }
    // equal bytes, cut differently: cannot be, since every end is compared above
    (
        What::Output,
        String::new(),
        l.len().to_string(),
        r.len().to_string(),
    )
}

type Shown<'a> = (Timestamp, Cow<'a, [u8]>);

/// The packets of a flow at a port in the one execution, with their indices, and in the other.
type Sides<'a> = (Vec<usize>, [Vec<Shown<'a>>; 2]);

/// The first flow at a port whose packets differ; the order across flows and ports is free, and with it the
/// identifications of ICMP errors, which an element counts through for all flows. Packets that leave as one flow keep
/// the order of those that came as one (`line`: which flow the i-th of `l` came in).
fn differ_by_flow(l: &Outputs, r: &Outputs, line: &dyn Fn(usize) -> usize) -> Option<Found> {
    let mut flows: BTreeMap<(u32, Vec<u8>), Sides<'_>> = BTreeMap::new();
    for (side, outs) in [l, r].into_iter().enumerate() {
        for (i, (sink, at, bytes)) in outs.iter().enumerate() {
            let e = flows.entry((sink.0, frame::flow_key(bytes))).or_default();
            e.1[side].push((at, frame::without_error_id(bytes)));
            if side == 0 {
                e.0.push(i);
            }
        }
    }
    for ((sink, _), (indices, [a, b])) in &flows {
        if a == b {
            continue;
        }
        let left: Vec<(usize, &Shown<'_>)> = indices.iter().map(|i| line(*i)).zip(a).collect();
        if interleaves(&left, &b.iter().collect::<Vec<_>>()) {
            continue;
        }
        let i = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        let at = |v: &[Shown<'_>]| show(v.get(i).map(|(t, b)| (ElemId(*sink), *t, &**b)));
        let mut sorted = [a.clone(), b.clone()];
        sorted.iter_mut().for_each(|v| v.sort_unstable());
        let what = match sorted[0] == sorted[1] {
            true => What::Order,
            false => What::Output,
        };
        return Some((what, format!("sink {sink}"), at(a), at(b)));
    }
    None
}

fn drops_differ(l: &[DropCount], r: &[DropCount]) -> Option<(String, String, String)> {
    let mut all: BTreeMap<(&str, &str), [u64; 2]> = BTreeMap::new();
    for (side, list) in [l, r].into_iter().enumerate() {
        for d in list {
            all.entry((&d.element, d.reason)).or_default()[side] += d.packets;
        }
    }
    let ((e, reason), [a, b]) = all.into_iter().find(|(_, [a, b])| a != b)?;
    Some((format!("{e}: {reason}"), a.to_string(), b.to_string()))
}

fn totals_differ(l: Totals, r: Totals) -> Option<(String, String, String)> {
    let list = [
        ("packets in", l.packets_in, r.packets_in),
        ("created", l.created, r.created),
        ("sent", l.sent, r.sent),
        ("dropped", l.dropped, r.dropped),
        ("held", l.held, r.held),
    ];
    let (name, a, b) = list.into_iter().find(|(_, a, b)| a != b)?;
    Some((name.to_string(), a.to_string(), b.to_string()))
}

type State = [(String, String)];

fn states_differ(l: &State, r: &State) -> Option<(String, String, String)> {
    for i in 0..l.len().max(r.len()) {
        let (a, b) = (l.get(i), r.get(i));
        if a != b {
            let value = |x: Option<&(String, String)>| {
                x.map_or("(not there)".to_string(), |(_, v)| v.clone())
            };
            let name = a.or(b).map_or(String::new(), |(n, _)| n.clone());
            let (a, b) = around(&value(a), &value(b));
            return Some((name, a, b));
        }
    }
    None
}

/// A state without the order in which its records were made: sorted lines without `age N`.
fn unordered(state: &mut String) {
    if !state.contains(" age ") {
        return;
    }
    let without = |line: &str| match line.rsplit_once(" age ") {
        Some((before, after)) => {
            format!(
                "{before}{}",
                after.trim_start_matches(|c: char| c.is_ascii_digit())
            )
        }
        None => line.to_string(),
    };
    let mut lines: Vec<String> = state.lines().map(without).collect();
    lines.sort_unstable();
    *state = lines.join("\n");
}

/// A whole sequence through both from the start, with a checkpoint at the end: the first difference. Answers go to
/// the address and port that what they answer has left with this time, which may not be those of another run.
pub fn replay(pristine: &Pair, events: &mut [Event]) -> Option<Difference> {
    replay_while(pristine, events, &mut || true)
}

/// The same while `go_on` says so: it is asked now and then. Nothing is found when it ends it.
pub fn replay_while(
    pristine: &Pair,
    events: &mut [Event],
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Difference> {
    let mut p = pristine.fork();
    match feed_while(&mut p, events, go_on) {
        Ok(None) => p.checkpoint(),
        Ok(d) => d,
        Err(Ended) => None,
    }
}

/// Feeds a sequence; see [`replay`].
pub fn feed(p: &mut Pair, events: &mut [Event]) -> Option<Difference> {
    feed_while(p, events, &mut || true).unwrap_or(None)
}

/// It was ended from outside.
struct Ended;

/// Events between two questions whether to go on.
const ASKED_EVERY: usize = 512;

fn feed_while(
    p: &mut Pair,
    events: &mut [Event],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Difference>, Ended> {
    let answered: HashSet<u64> = events.iter().filter_map(|e| Some(e.answers?.0)).collect();
    let mut left: HashMap<(u64, u32), Vec<u8>> = HashMap::new();
    for (i, e) in events.iter_mut().enumerate() {
        if i % ASKED_EVERY == ASKED_EVERY - 1 && !go_on() {
            return Err(Ended);
        }
        if let Some(of) = e.answers.and_then(|a| left.get(&a)) {
            frame::send_to_source_of(&mut e.bytes, of);
        }
        if let Some(d) = p.step(e) {
            return Ok(Some(d));
        }
        if answered.contains(&e.id) {
            let (done, outputs) = p.last();
            if done.len() == 1 {
                let all = outputs.iter().enumerate();
                left.extend(all.map(|(i, (_, _, b))| ((e.id, i as u32), b.to_vec())));
            }
        }
    }
    Ok(None)
}
