//! Packets of a batch whose way is one stage and whose change is simple: all of it in one loop.
//!
//! What [`super::straight`] does for one packet is taken apart further here, when the program is loaded: an action's counts are lengths to be
//! summed, its image is bytes kept, bytes set and bytes counted down (a time to live), all written at once, and what those bytes add to checksums. No registers
//! are filled, nobody is called, and elements, drops and counters are told once for all packets of the batch that an action takes.
//! Whatever is more than that is left to be done as before.

use super::code::{Action, Code, End, Step};
use super::exec::State;
use super::image::{self, CONST, Image, Sum, Term, Value};
use super::later::Later;
use super::quick::WINDOW;
use super::regs::{Regs, Source, end_of};
use super::report::Counts;
use super::straight;
use super::tied::{self, Tie, Written};
use super::wider::{Work, widely};
use crate::core::Core;
use crate::graph::Graph;
use onefold_elements::rewrite::{Asked, Binder, FlowBinding, Tied};
use onefold_elements::{ElemId, Host, Outbox, StateStore};
use onefold_packet::{Packet, Pkt, checksum};
use onefold_synth::program::{EndAt, LenAt, SumKind};
use std::ops::Deref;

/// Different lengths that one action counts, at most.
const LENGTHS: usize = 4;

/// A byte changes: what is added to it before and after, and how far left of a word's end it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    at: u8,
    from: u8,
    to: u8,
    shift: u8,
}

impl Change {
    /// What it adds to the complement of a checksum; never zero.
    #[inline(always)]
    fn sum(&self, w: &[u8; WINDOW]) -> u64 {
        let v = w[usize::from(self.at) % WINDOW];
        let part = |add: u8| u16::from(v.wrapping_add(add)) << (self.shift & 8);
        u64::from(!part(self.from)) + u64::from(part(self.to))
    }
}

/// A checksum, and what is added to its complement.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mend {
    at: u8,
    udp: bool,
    fixed: u64,
    changes: Box<[Change]>,
    /// Which of a binding's two sums is added, a bit each.
    sums: u8,
}

/// Checksums of a packet that is bound, at most.
const SUMS: usize = 4;

/// A value of a binding is not written.
const NOWHERE: u8 = u8::MAX;

/// What an image does to a packet's first bytes.
#[derive(Debug, Clone)]
pub(super) struct Write {
    keep: [u8; WINDOW],
    set: [u8; WINDOW],
    sub: [u8; WINDOW],
    mends: Box<[Mend]>,
    /// Where a binding's addresses and ports are written, or [`NOWHERE`].
    slots: [u8; 4],
    /// Bytes that the packet must have.
    least: usize,
    /// The packet is cut short where its IP header says.
    trim: bool,
    /// Marks or annotations change, too: the image says how.
    marks: Option<u32>,
}

/// A byte of the packet with a number added: where, and the number.
fn byte(code: &[Source], v: &Value) -> Option<(u8, u8)> {
    match code.get(usize::from(v.reg))? {
        Source::Bits(b) if v.reg != CONST && v.mask == 0xff => match b.position() {
            (bit, 8) if bit & 7 == 0 && (0..WINDOW as i32 * 8).contains(&bit) => {
                Some(((bit / 8) as u8, v.add as u8))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A value of a binding as it is, whose registers begin with this one: its number.
fn slot(first: Option<u16>, v: &Value, bits: u8) -> Option<u8> {
    let n = v.reg.checked_sub(first?).filter(|_| v.reg != CONST)?;
    let whole = if n < 2 { 32 } else { 16 };
    let mask = (1u128 << whole) - 1;
    let as_it_is = n < 4 && bits == whole && v.add == 0 && v.mask & mask == mask;
    as_it_is.then_some(n as u8)
}

impl Mend {
    fn of(sources: &[Source], s: &Sum, first: Option<u16>) -> Option<Mend> {
        // a checksum that comes to zero between two changes stays zero with UDP: there may be one change only
        let udp = s.kind == SumKind::Udp;
        if udp && s.groups.len() > 1 {
            return None;
        }
        let mut fixed = 0;
        let mut changes: Vec<Change> = Vec::new();
        let mut sums = 0;
        for t in s.groups.iter().flat_map(|g| g.iter()) {
            match t {
                Term::Fixed(n) => fixed += n,
                Term::Slot(r) => {
                    let bit = match r.checked_sub(first?)? {
                        4 => 1,
                        5 => 2,
                        _ => return None,
                    };
                    if sums & bit != 0 {
                        return None;
                    }
                    sums |= bit;
                }
                Term::Change {
                    from,
                    to,
                    shift: shift @ (0 | 8),
                    words: 1,
                } => {
                    let ((at, from), (same, to)) = (byte(sources, from)?, byte(sources, to)?);
                    let shift = *shift as u8;
                    match changes.last_mut() {
                        _ if at != same => return None,
                        // from one to the next to the one after: the same difference, and never zero either
                        Some(c) if (c.at, c.shift, c.to) == (at, shift, from) => c.to = to,
                        _ => changes.push(Change {
                            at,
                            from,
                            to,
                            shift,
                        }),
                    }
                }
                _ => return None,
            }
        }
        Some(Mend {
            at: u8::try_from(s.at).ok()?,
            udp,
            fixed,
            changes: changes.into(),
            sums,
        })
    }
}

impl Write {
    /// `None` where it is more than that. `first`: the first of a binding's registers, if there is one.
    pub fn of(sources: &[Source], m: &Image, number: u32, first: Option<u16>) -> Option<Write> {
        // whole bytes that do not overlap, in a packet that begins where it began
        let quick = m.quick.as_ref()?;
        let mut w = Write {
            keep: [0xff; WINDOW],
            set: [0; WINDOW],
            sub: [0; WINDOW],
            mends: Box::default(),
            slots: [NOWHERE; 4],
            least: quick.least,
            trim: m.end != EndAt::Same,
            marks: m.marks().then_some(number),
        };
        for f in &m.writes {
            let at = usize::try_from(f.bit / 8).ok()?;
            let n = usize::from(f.bits / 8);
            if f.value.reg == CONST {
                w.keep.get_mut(at..at + n)?.fill(0);
                let v = f.value.add.to_be_bytes();
                w.set.get_mut(at..at + n)?.copy_from_slice(v.get(16 - n..)?);
            } else if let Some(value) = slot(first, &f.value, f.bits) {
                w.keep.get_mut(at..at + n)?.fill(0);
                let to = w.slots.get_mut(usize::from(value))?;
                if std::mem::replace(to, at as u8) != NOWHERE {
                    return None;
                }
            } else {
                let (from, add) = byte(sources, &f.value)?;
                if n != 1 || usize::from(from) != at {
                    return None;
                }
                *w.sub.get_mut(at)? = add.wrapping_neg();
            }
        }
        let mends = m.sums.iter().map(|s| Mend::of(sources, s, first));
        w.mends = mends.collect::<Option<_>>()?;
        if first.is_some() && w.mends.len() > SUMS {
            return None;
        }
        for c in w.mends.iter().flat_map(|m| &m.changes) {
            w.least = w.least.max(usize::from(c.at) + 1);
        }
        (m.reads_nothing_for_marks() && w.least <= WINDOW).then_some(w)
    }

    #[inline(always)]
    fn apply(&self, w: &mut [u8; WINDOW]) {
        // checksums first: what has just been written as a whole is slow to read in parts
        match &self.mends[..] {
            [] => self.change(w),
            [m] => {
                let sum = m.sum(w, 0);
                self.change(w);
                m.put(w, sum);
            }
            _ => self.apply_many(w),
        }
    }

    #[inline(always)]
    fn change(&self, w: &mut [u8; WINDOW]) {
        for (i, b) in w.iter_mut().enumerate() {
            *b = (*b & self.keep[i] | self.set[i]).wrapping_sub(self.sub[i]);
        }
    }

    #[inline(never)]
    fn apply_many(&self, w: &mut [u8; WINDOW]) {
        let old = *w;
        self.change(w);
        for m in &self.mends {
            m.put(w, m.sum(&old, 0));
        }
    }

    /// The same with a binding's values.
    #[inline(always)]
    fn apply_bound(&self, w: &mut [u8; WINDOW], b: &FlowBinding) {
        let mut sums = [[0; 2]; SUMS];
        for (to, m) in sums.iter_mut().zip(&self.mends) {
            let part = |bit: u8, v: u16| if m.sums & bit != 0 { v.into() } else { 0 };
            *to = m.sum(w, part(1, b.ip_sum) + part(2, b.transport_sum));
        }
        self.change(w);
        let [saddr, daddr, sport, dport] = self.slots;
        for (at, v) in [(saddr, b.to.saddr), (daddr, b.to.daddr)] {
            if let Some(to) = w
                .get_mut(usize::from(at)..)
                .and_then(|w| w.first_chunk_mut())
            {
                *to = v.to_be_bytes();
            }
        }
        for (at, v) in [(sport, b.to.sport), (dport, b.to.dport)] {
            if let Some(to) = w
                .get_mut(usize::from(at)..)
                .and_then(|w| w.first_chunk_mut())
            {
                *to = v.to_be_bytes();
            }
        }
        for (m, sum) in self.mends.iter().zip(sums) {
            m.put(w, sum);
        }
    }
}

impl Mend {
    /// The checksum as it will be.
    #[inline(always)]
    fn sum(&self, w: &[u8; WINDOW], more: u64) -> [u8; 2] {
        let at = usize::from(self.at);
        let field = w.get(at..).and_then(|w| w.first_chunk::<2>());
        let c = u16::from_be_bytes(field.copied().unwrap_or_default());
        if self.udp && c == 0 {
            return [0; 2];
        }
        let mut sum = u64::from(!c) + self.fixed + more;
        for c in &self.changes {
            sum += c.sum(w);
        }
        match u32::try_from(sum) {
            Ok(few) => !checksum::fold_few(few),
            Err(_) => !checksum::fold(sum),
        }
        .to_be_bytes()
    }
    #[inline(always)]
    fn put(&self, w: &mut [u8; WINDOW], sum: [u8; 2]) {
        let to = w.get_mut(usize::from(self.at)..);
        if let Some(to) = to.and_then(|w| w.first_chunk_mut()) {
            *to = sum;
        }
    }
}

#[derive(Debug, Clone)]
enum Fate {
    Leaves(u32, Box<Write>),
    Dropped,
    /// It leaves after it has been bound.
    Bound(Box<Tie>),
}

/// An action that is short.
#[derive(Debug, Clone)]
struct Short {
    /// Where packets end by their header, if that is asked.
    end: EndAt,
    /// Lengths that are summed: first byte, and whether to where the header says.
    lengths: [(i32, bool); LENGTHS],
    used: u8,
    fate: Fate,
}

/// Packets of an action that have not been told of, and their lengths.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    packets: u64,
    bytes: [u64; LENGTHS],
}

/// Short actions by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Shorts {
    all: Box<[Option<Box<Short>>]>,
    tallies: Box<[Tally]>,
    /// Actions with packets.
    some: Vec<u32>,
    any: bool,
    /// What is to be asked about a batch's packets, by number in it, and of which rewriter's input.
    asked: Vec<Asked>,
    asks: (u32, u16),
}

/// Every length that an action counts, each once; `None` if there are too many of them, or of ends.
fn lengths(code: &Code, a: &Action, mut end: EndAt) -> Option<(EndAt, Vec<(i32, bool)>)> {
    let mut list = Vec::new();
    for s in a.steps.of(&code.steps) {
        // whoever is asked for a binding is asked about that elsewhere
        let Step::Count { len, .. } = s else {
            continue;
        };
        let by_header = len.end != EndAt::Same;
        if by_header && end != EndAt::Same && end != len.end {
            return None;
        }
        if by_header {
            end = len.end;
        }
        if !list.contains(&(len.start, by_header)) {
            list.push((len.start, by_header));
        }
    }
    (list.len() <= LENGTHS).then_some((end, list))
}

impl Short {
    fn of(code: &Code, a: &Action, waits: &[bool]) -> Option<Short> {
        let (end, fate) = match a.end {
            End::Output { image, .. } if !straight::is_straight(code, a, waits) => {
                let tie = Tie::of(code, a, waits)?;
                let end = match tie.write {
                    Written::Short(_) => code.images.get(image as usize)?.end,
                    Written::Image { .. } => EndAt::Same,
                };
                (end, Fate::Bound(Box::new(tie)))
            }
            _ if !straight::is_straight(code, a, waits) => return None,
            End::Output { sink, image } => {
                let m = code.images.get(image as usize)?;
                let w = Write::of(&code.sources, m, image, None)?;
                (m.end, Fate::Leaves(sink, Box::new(w)))
            }
            End::Drop { .. } => (EndAt::Same, Fate::Dropped),
            _ => return None,
        };
        let (end, list) = lengths(code, a, end)?;
        let mut all = [(0, false); LENGTHS];
        for (to, l) in all.iter_mut().zip(&list) {
            *to = *l;
        }
        Some(Short {
            end,
            lengths: all,
            used: list.len() as u8,
            fate,
        })
    }

    fn length(&self, of: &LenAt) -> Option<usize> {
        let of = (of.start, of.end != EndAt::Same);
        self.lengths.iter().position(|l| *l == of)
    }
}

impl Shorts {
    /// `waits`: by number of what is counted.
    pub fn new(code: &Code, waits: &[bool]) -> Shorts {
        let short = |a: &Action| Short::of(code, a, waits).map(Box::new);
        let all: Box<[_]> = code.actions.iter().map(short).collect();
        Shorts {
            any: all.iter().any(|s| s.is_some()),
            tallies: vec![Tally::default(); all.len()].into(),
            some: Vec::new(),
            asked: Vec::new(),
            asks: (0, 0),
            all,
        }
    }

    /// Everybody is told of what has been tallied.
    #[inline(never)]
    fn tell(&mut self, code: &Code, later: &mut Later, out: &mut Outbox) {
        while let Some(number) = self.some.pop() {
            let i = number as usize;
            let tally = self.tallies.get_mut(i).map(std::mem::take);
            let short = self.all.get(i).and_then(|s| s.as_ref());
            let (Some(t), Some(s), Some(a)) = (tally, short, code.actions.get(i)) else {
                continue;
            };
            for step in a.steps.of(&code.steps) {
                if let Step::Count { len, number, .. } = step {
                    let bytes = s.length(len).and_then(|k| t.bytes.get(k));
                    later.add_all(*number, t.packets, bytes.copied().unwrap_or(0));
                }
            }
            match a.end {
                End::Drop { elem, reason } => out.count_drops(ElemId(elem), reason, t.packets),
                _ => out.sent += t.packets,
            }
        }
    }
}

/// May packets be carried out here at all?
fn may(st: &State, g: &Graph) -> bool {
    st.later.shorts.any
        && st.later.gathering
        && st.recorder.is_none()
        && st.watched.is_none()
        && st.path.is_none()
        // a rewriter says what it decides
        && g.core.trace.is_none()
        && g.core.is_quiet()
}

/// Before a batch is carried out: of all packets that will be bound here, what is to be asked about them is worked out, and the memory of it asked for.
/// `rules`: of the stage whose first rule this is. False where some packets are bound elsewhere, too.
pub(super) fn foresee<P: Deref<Target = Packet>>(
    code: &Code,
    st: &mut State,
    g: &mut Graph,
    first_rule: u32,
    packets: &[P],
    rules: &[u32],
) -> bool {
    st.later.shorts.asked.clear();
    if !may(st, g) {
        return false;
    }
    let shorts = &mut st.later.shorts;
    let mut asked = std::mem::take(&mut shorts.asked);
    let (place, all) = widely(Foresee {
        code,
        shorts,
        core: &g.core,
        store: &mut g.store,
        first_rule,
        packets,
        rules,
        asked: &mut asked,
    });
    (shorts.asked, shorts.asks) = (asked, place);
    all
}

/// The batch has been carried out.
pub(super) fn forget(st: &mut State) {
    st.later.shorts.asked.clear();
}

/// What [`foresee`] goes through.
struct Foresee<'a, P> {
    code: &'a Code,
    shorts: &'a Shorts,
    core: &'a Core,
    store: &'a mut StateStore,
    first_rule: u32,
    packets: &'a [P],
    rules: &'a [u32],
    asked: &'a mut Vec<Asked>,
}

impl<P: Deref<Target = Packet>> Work for Foresee<'_, P> {
    /// Which input is asked, and whether nobody else is.
    type Out = ((u32, u16), bool);

    #[inline(always)]
    fn run(self) -> Self::Out {
        let mut binder: Option<((u32, u16), Binder<'_>)> = None;
        let mut store = Some(self.store);
        let mut all = true;
        self.asked.resize(self.packets.len(), Asked::NOTHING);
        // each where it will be read: what is moved as a whole after it was written in parts is waited for
        for ((p, rule), to) in self.packets.iter().zip(self.rules).zip(&mut *self.asked) {
            let at = self.first_rule.saturating_add(*rule) as usize;
            let action = self.code.rule_action.get(at).map(|a| *a as usize);
            let short = action.and_then(|a| self.shorts.all.get(a));
            let Some(Some(short)) = short else {
                let binds = action.and_then(|a| self.code.actions.get(a));
                all &= binds.is_none_or(|a| a.binds.of(&self.code.binds).is_empty());
                continue;
            };
            let Fate::Bound(tie) = &short.fate else {
                continue;
            };
            let place = (tie.elem, tie.port);
            if binder.is_none()
                && let Some(store) = store.take()
            {
                let elem = self.core.nodes.get(tie.elem as usize);
                let elem = elem.and_then(|n| n.elem.as_ref());
                let made = elem.and_then(|e| e.binder(usize::from(tie.port), store));
                binder = made.map(|b| (place, b));
            }
            match (&binder, tie.flow(p)) {
                (Some((at, b)), Some(flow)) if *at == place => *to = b.ask(flow),
                _ => {}
            }
            all &= !to.is_nothing();
        }
        let Some((place, b)) = binder else {
            return ((0, 0), all);
        };
        let mut new = 0;
        for a in self.asked.iter().filter(|a| !a.is_nothing()) {
            b.foresee(a, &mut new);
        }
        b.foreseen(new);
        (place, all)
    }
}

/// Carries out packets with their rules of a stage, as far as they are short: up to the first that is not, which comes back with its rule.
/// `count`: packets that were.
pub(super) fn run(
    code: &Code,
    st: &mut State,
    g: &mut Graph,
    first_rule: u32,
    packets: &mut impl Iterator<Item = Next>,
    count: &mut u64,
) -> Option<Next> {
    if !may(st, g) {
        return packets.next();
    }
    let mut shorts = std::mem::take(&mut st.later.shorts);
    let (n, back) = widely(Run {
        code,
        shorts: &mut shorts,
        counts: &mut st.counts,
        later: &mut st.later,
        regs: &mut st.regs,
        core: &mut g.core,
        store: &mut g.store,
        out: &mut g.out,
        first_rule,
        packets,
    });
    *count += n;
    g.packets_in += n;
    g.core.steps = 1;
    g.core.batch_tasks = false;
    if !shorts.some.is_empty() {
        shorts.tell(code, &mut st.later, &mut g.out);
    }
    st.later.shorts = shorts;
    back
}

/// What [`run`] goes through.
struct Run<'a, I> {
    code: &'a Code,
    shorts: &'a mut Shorts,
    counts: &'a mut Counts,
    later: &'a mut Later,
    regs: &'a mut Regs,
    core: &'a mut Core,
    store: &'a mut StateStore,
    out: &'a mut Outbox,
    first_rule: u32,
    packets: &'a mut I,
}

/// A packet of a batch, with its rule and its number.
pub(super) type Next = (Pkt, u32, usize);

impl<I: Iterator<Item = Next>> Work for Run<'_, I> {
    /// How many packets, and the first that is not short.
    type Out = (u64, Option<Next>);

    #[inline(always)]
    fn run(self) -> Self::Out {
        let (code, shorts, out) = (self.code, self.shorts, self.out);
        let (core, store) = (self.core, self.store);
        // of the input that was the last one
        let mut binder: Option<((u32, u16), Binder<'_>)> = None;
        let mut n = 0;
        for (mut p, rule, i) in self.packets {
            let at = self.first_rule.saturating_add(rule) as usize;
            let number = code.rule_action.get(at).map_or(usize::MAX, |a| *a as usize);
            let (Some(Some(s)), Some(t)) = (shorts.all.get(number), shorts.tallies.get_mut(number))
            else {
                return (n, Some((p, rule, i)));
            };
            let len = p.len();
            let end = match s.end {
                EndAt::Same => len,
                e => end_of(e, p.buffer(), p.data_offset()) as usize,
            };
            if let Fate::Leaves(_, w) = &s.fate
                && ((if w.trim { end } else { len }) < w.least || p.window::<WINDOW>().is_none())
            {
                return (n, Some((p, rule, i)));
            }
            let mut bound = None;
            if let Fate::Bound(tie) = &s.fate {
                let fits = match &tie.write {
                    Written::Short(w) => {
                        (if w.trim { end } else { len }) >= w.least
                            && p.window::<WINDOW>().is_some()
                    }
                    Written::Image { .. } => true,
                };
                let place = (tie.elem, tie.port);
                if binder.as_ref().is_none_or(|b| b.0 != place) {
                    let elem = core.nodes.get(tie.elem as usize);
                    let elem = elem.and_then(|n| n.elem.as_ref());
                    let made = elem.and_then(|e| e.binder(usize::from(tie.port), &mut *store));
                    binder = made.map(|b| (place, b));
                }
                let Some((_, b)) = binder.as_mut().filter(|_| fits) else {
                    return (n, Some((p, rule, i)));
                };
                // what was asked for is as it was then: packets' bytes are their own
                let foreseen = shorts.asked.get(i);
                let foreseen = foreseen.filter(|a| shorts.asks == place && !a.is_nothing());
                let asked = match foreseen {
                    Some(a) => *a,
                    None => match tie.flow(&p).map(|f| b.ask(f)) {
                        Some(a) if !a.is_nothing() => a,
                        _ => return (n, Some((p, rule, i))),
                    },
                };
                let now = core.now;
                let draw = || core.random(ElemId(tie.elem));
                bound = match b.bind(&asked, &tie.wanted, now, draw) {
                    Tied::Ask => return (n, Some((p, rule, i))),
                    Tied::To(b) => Some(b),
                    Tied::Drop(reason) => {
                        n += 1;
                        self.counts.class(at, len);
                        let steps = code.actions.get(number).map(|a| a.steps.of(&code.steps));
                        for s in steps.unwrap_or_default().iter().take(tie.before) {
                            if let Step::Count { len, number, .. } = s {
                                self.later.add(*number, image::length(*len, &p));
                            }
                        }
                        out.drop(ElemId(tie.elem), reason, p);
                        continue;
                    }
                };
            }
            n += 1;
            if t.packets == 0 {
                shorts.some.push(number as u32);
            }
            t.packets += 1;
            for k in 0..usize::from(s.used).min(LENGTHS) {
                let (start, by_header) = s.lengths[k];
                let end = if by_header { end } else { len };
                t.bytes[k] += u64::try_from(end as i64 - i64::from(start)).unwrap_or(0);
            }
            self.counts.class(at, len);
            match &s.fate {
                Fate::Leaves(sink, w) => {
                    if w.trim {
                        p.keep(end);
                    }
                    if let Some(bytes) = p.window_mut() {
                        w.apply(bytes);
                    }
                    if let Some(m) = w.marks.and_then(|m| code.images.get(m as usize)) {
                        m.mark(&mut p, &[], &[]);
                    }
                    out.transmitted.push((ElemId(*sink), p));
                }
                Fate::Dropped => out.pool.recycle(p),
                Fate::Bound(tie) => {
                    let Some(b) = bound else { continue };
                    match &tie.write {
                        Written::Short(w) => {
                            if w.trim {
                                p.keep(end);
                            }
                            if let Some(bytes) = p.window_mut() {
                                w.apply_bound(bytes, &b);
                            }
                            if let Some(m) = w.marks.and_then(|m| code.images.get(m as usize)) {
                                m.mark(&mut p, &[], &[]);
                            }
                        }
                        Written::Image {
                            image,
                            needs,
                            first,
                        } => {
                            tied::fill(code, self.regs, *needs, *first, &b, &p);
                            if let Some(m) = code.images.get(*image as usize) {
                                tied::apply(m, self.regs, &mut p);
                            }
                        }
                    }
                    out.transmitted.push((ElemId(tie.sink), p));
                }
            }
        }
        (n, None)
    }
}

#[cfg(test)]
#[path = "short_tests.rs"]
mod tests;
