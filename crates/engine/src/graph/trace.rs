//! The steps that a packet takes.

use crate::graph::core::Core;
use crate::graph::visits::Visit;
use onefold_element::{ElemId, Emission, Outbox, Port, SourceLoc};
use onefold_packet::{Packet, print};

/// A choice that an element made about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The configuration argument (rule, route) that made it.
    pub argument: Option<usize>,
    /// Where that argument was written; the element's declaration when no argument is named.
    pub loc: SourceLoc,
    /// What was decided.
    pub text: String,
}

/// How a packet came to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Pushed into an input.
    Push(Port),
    /// Pulled from an output.
    Pull(Port),
    /// The element's task ran.
    Task,
    /// The element's timer expired.
    Timer,
}

/// One element's part in what happened to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceStep {
    /// The element.
    pub element: ElemId,
    /// Its full name; the first component is the network function in a stitched chain.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Where it is declared.
    pub loc: SourceLoc,
    /// How the packet came.
    pub entry: Entry,
    /// Virtual time.
    pub at: onefold_packet::Timestamp,
    /// The packet that came (of a task, a timer or a pull: the first that left), as tcpdump prints it; else empty.
    pub packet: String,
    /// What it decided.
    pub decisions: Vec<Decision>,
    /// The first rules that did not match before the one that decided, each with the condition that failed.
    pub missed: Vec<Decision>,
    /// How many more there were of these.
    pub more_missed: usize,
    /// Outputs that packets left at, in order, with their lengths.
    pub outputs: Vec<(Port, usize)>,
    /// Reasons of drops.
    pub drops: Vec<String>,
    /// Packets that left the graph here.
    pub transmitted: usize,
}

/// A trace while it is taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    pub steps: Vec<TraceStep>,
    /// Steps that are under way, outermost first.
    pub open: Vec<usize>,
    /// More happened than is kept.
    pub truncated: bool,
    /// Only the elements are noted, once per visit; elements are not asked what they decide.
    pub visits: Option<Vec<Visit>>,
}

/// Most steps that a trace keeps.
pub const MAX_TRACE_STEPS: usize = 100_000;

/// A step that is being traced, if one is.
pub(crate) type Traced = Option<Box<TraceMark>>;

/// What was before a traced step.
pub(crate) struct TraceMark {
    step: usize,
    node: u32,
    transmitted: usize,
    drops: Vec<(ElemId, &'static str, u64)>,
}

impl Core {
    #[inline]
    pub(crate) fn trace_begin(
        &mut self,
        node: u32,
        entry: Entry,
        p: Option<&Packet>,
        out: &Outbox,
    ) -> Traced {
        match self.trace.is_some() {
            true => self.trace_begin_slow(node, entry, p, out).map(Box::new),
            false => None,
        }
    }

    #[cold]
    fn trace_begin_slow(
        &mut self,
        node: u32,
        entry: Entry,
        p: Option<&Packet>,
        out: &Outbox,
    ) -> Option<TraceMark> {
        let t = self.trace.as_mut()?;
        if let Some(v) = &mut t.visits {
            if v.len() >= MAX_TRACE_STEPS {
                return None;
            }
            v.push(Visit { node });
            return Some(TraceMark {
                step: v.len() - 1,
                node,
                transmitted: 0,
                drops: Vec::new(),
            });
        }
        if t.steps.len() >= MAX_TRACE_STEPS {
            t.truncated = true;
            return None;
        }
        let spec = self.topo.spec.elements.get(node as usize)?;
        t.open.push(t.steps.len());
        t.steps.push(TraceStep {
            element: ElemId(node),
            name: spec.name.clone(),
            class: spec.class.clone(),
            loc: spec.decl.clone(),
            entry,
            at: self.now,
            packet: p.map_or(String::new(), print::packet),
            decisions: Vec::new(),
            missed: Vec::new(),
            more_missed: 0,
            outputs: Vec::new(),
            drops: Vec::new(),
            transmitted: 0,
        });
        Some(TraceMark {
            step: t.steps.len() - 1,
            node,
            transmitted: out.transmitted.len(),
            drops: out.drops.clone(),
        })
    }

    /// The step under way at this element.
    pub(crate) fn trace_step(&mut self, elem: ElemId) -> Option<&mut TraceStep> {
        let t = self.trace.as_mut()?;
        let steps = &t.steps;
        let mut open = t.open.iter().rev();
        let at = open.find(|i| steps.get(**i).is_some_and(|s| s.element == elem))?;
        t.steps.get_mut(*at)
    }

    #[inline]
    pub(crate) fn trace_end(
        &mut self,
        begun: Traced,
        pulled: Option<&Packet>,
        mark: usize,
        out: &Outbox,
    ) {
        if let Some(b) = begun {
            self.trace_end_slow(&b, pulled, mark, out);
        }
    }

    #[cold]
    fn trace_end_slow(
        &mut self,
        b: &TraceMark,
        pulled: Option<&Packet>,
        mark: usize,
        out: &Outbox,
    ) {
        let Some(t) = self.trace.as_mut() else { return };
        if t.visits.is_some() {
            return;
        }
        t.open.retain(|i| *i != b.step);
        let Some(step) = t.steps.get_mut(b.step) else {
            return;
        };
        if let Some(p) = pulled {
            step.packet = print::packet(p);
        }
        for e in out.effects.get(mark..).into_iter().flatten() {
            if let Emission::Emit(port, p) = e {
                step.outputs.push((*port, p.len()));
                if step.packet.is_empty() {
                    step.packet = print::packet(p);
                }
            }
        }
        let mine = out.transmitted.get(b.transmitted..).into_iter().flatten();
        step.transmitted = mine.filter(|(e, _)| e.0 == b.node).count();
        for (e, reason, n) in &out.drops {
            let same = |d: &&(ElemId, &str, u64)| d.0 == *e && std::ptr::eq(d.1, *reason);
            let before = b.drops.iter().find(same).map_or(0, |d| d.2);
            if e.0 == b.node && *n > before {
                step.drops.push(reason.to_string());
            }
        }
    }
}
