//! A window: packets that go through the program and through a copy of the reference graph, one after the other.

use crate::graph::reference::Graph;
use crate::program::ProgramRunner;
use crate::program::trace::Passed;
use onefold_element::ElemId;
use onefold_packet::{Pkt, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of frames that a window keeps; then it ends.
const MAX_BYTES: usize = 8 << 20;
/// Longest text of a difference.
const MAX_TEXT: usize = 400;

/// What differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// A packet that left: bytes, port, time stamp, order, or that it left at all.
    Output,
    /// Drops of an element for a reason.
    Drops,
    /// How many packets were made, dropped, sent.
    Account,
    /// A state or the value of a handler, seen at the end of the window.
    State,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            What::Output => "output",
            What::Drops => "drops",
            What::Account => "account",
            What::State => "state",
        })
    }
}

/// A difference, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Differs {
    pub what: What,
    pub place: String,
    pub reference: String,
    pub program: String,
}

/// A frame that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Came {
    pub source: ElemId,
    pub at: Timestamp,
    /// Which packet of the run, from 1.
    pub number: u64,
    end: usize,
}

/// See the module's text.
pub(crate) struct Window {
    /// The graph when the window began, if states are compared when it ends.
    start: Option<Graph>,
    /// The reference.
    pub twin: Graph,
    bytes: Vec<u8>,
    came: Vec<Came>,
    /// Every class on any packet's way.
    pub passed: BTreeSet<Passed>,
    /// Packets that may still come.
    left: u32,
}

impl Window {
    /// Begins with this graph as it is now. `states`: they are compared in the end.
    pub fn open(graph: &Graph, packets: u32, states: bool) -> Window {
        Window {
            start: states.then(|| graph.fork()),
            twin: graph.fork(),
            bytes: Vec::new(),
            came: Vec::new(),
            passed: BTreeSet::new(),
            left: packets,
        }
    }

    /// Are states compared in the end?
    pub fn has_start(&self) -> bool {
        self.start.is_some()
    }

    /// No more packets fit.
    pub fn is_full(&self) -> bool {
        self.left == 0 || self.bytes.len() >= MAX_BYTES
    }

    /// A frame comes; the twin's clock is there already.
    pub fn enter(&mut self, source: ElemId, data: &[u8], at: Timestamp, number: u64) {
        self.left = self.left.saturating_sub(1);
        self.bytes.extend_from_slice(data);
        self.came.push(Came {
            source,
            at,
            number,
            end: self.bytes.len(),
        });
        let mut p = self.twin.make_packet(data);
        p.anno.timestamp = at;
        let entry = self.twin.entry(source);
        self.twin.enter(source, entry, p);
    }

    /// The frame that came as number `i` of the window.
    pub fn frame(&self, i: usize) -> Option<(Came, &[u8])> {
        let came = *self.came.get(i)?;
        let from = match i {
            0 => 0,
            _ => self.came.get(i - 1)?.end,
        };
        Some((came, self.bytes.get(from..came.end)?))
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.came.len()
    }

    /// What has left the true graph since `mark`, and what has left the twin; their drops and accounts.
    pub fn compare(&mut self, graph: &Graph, mark: usize) -> Option<Differs> {
        let mine = graph.out.transmitted.get(mark..).unwrap_or_default();
        let d = outputs_differ(graph, &self.twin.out.transmitted, mine)
            .or_else(|| drops_differ(&self.twin, graph))
            .or_else(|| accounts_differ(&self.twin, graph));
        self.twin.drain_transmitted(|_, _| {});
        d
    }

    /// States and values of handlers. Both are read in copies: reading may do something.
    pub fn compare_state(&self, graph: &Graph) -> Option<Differs> {
        state_differs(&mut self.twin.fork(), &mut graph.fork())
    }

    /// Finds a packet after which the states differ where before they did not, by doing it all again: its place in the window,
    /// the difference, the classes on its way. `None` when it does not come again.
    ///
    /// Bound: twice the window's packets for each bit of their number.
    pub fn locate(&self, runner: &ProgramRunner) -> Option<(usize, Differs, Vec<Passed>)> {
        let mut found = self.replay(runner, self.came.len())?;
        let (mut same, mut differs) = (0, self.came.len());
        while differs - same > 1 {
            let middle = same + (differs - same) / 2;
            match self.replay(runner, middle) {
                Some(f) => (differs, found) = (middle, f),
                None => same = middle,
            }
        }
        Some((differs - 1, found.0, found.1))
    }

    /// The first `n` packets once more, both ways.
    fn replay(&self, runner: &ProgramRunner, n: usize) -> Option<(Differs, Vec<Passed>)> {
        let start = self.start.as_ref()?;
        let mut reference = start.fork();
        let mut program = runner.with_graph(start.fork());
        let mut passed = Vec::new();
        for i in 0..n {
            let (came, data) = self.frame(i)?;
            reference.inject(came.source, data, came.at);
            program.record_passed();
            program.inject(came.source, data, came.at);
            passed = program.take_passed();
            reference.drain_transmitted(|_, _| {});
            program.graph_mut().drain_transmitted(|_, _| {});
        }
        let d = state_differs(&mut reference, program.graph_mut())?;
        Some((d, passed))
    }
}

fn shown(graph: &Graph, p: Option<&(ElemId, Pkt)>) -> String {
    match p {
        None => "nothing".to_string(),
        Some((sink, p)) => {
            let hex: String = p.data().iter().map(|x| format!("{x:02x}")).collect();
            format!("{} at {}: {hex}", graph.name(*sink), p.anno.timestamp)
        }
    }
}

fn outputs_differ(
    graph: &Graph,
    reference: &[(ElemId, Pkt)],
    program: &[(ElemId, Pkt)],
) -> Option<Differs> {
    for i in 0..reference.len().max(program.len()) {
        let (a, b) = (reference.get(i), program.get(i));
        let same = match (a, b) {
            (Some((s, p)), Some((t, q))) => {
                s == t && p.anno.timestamp == q.anno.timestamp && p.data() == q.data()
            }
            _ => false,
        };
        if !same {
            return Some(Differs {
                what: What::Output,
                place: a
                    .or(b)
                    .map_or(String::new(), |x| graph.name(x.0).to_string()),
                reference: shown(graph, a),
                program: shown(graph, b),
            });
        }
    }
    None
}

fn drops_differ(reference: &Graph, program: &Graph) -> Option<Differs> {
    let (a, b) = (&reference.out.drops, &program.out.drops);
    // nearly always in the same order, too
    if a == b {
        return None;
    }
    let mut all: BTreeMap<(ElemId, &str), [u64; 2]> = BTreeMap::new();
    for (side, list) in [a, b].into_iter().enumerate() {
        for (e, reason, n) in list {
            if let Some(c) = all.entry((*e, reason)).or_default().get_mut(side) {
                *c += n;
            }
        }
    }
    let ((e, reason), [a, b]) = all.into_iter().find(|(_, [a, b])| a != b)?;
    Some(Differs {
        what: What::Drops,
        place: format!("{}: {reason}", reference.name(e)),
        reference: a.to_string(),
        program: b.to_string(),
    })
}

fn accounts_differ(reference: &Graph, program: &Graph) -> Option<Differs> {
    let (a, b) = (&reference.out, &program.out);
    let list = [
        ("created", a.created, b.created),
        ("dropped", a.dropped, b.dropped),
        ("sent", a.sent, b.sent),
    ];
    let (name, a, b) = list.into_iter().find(|(_, a, b)| a != b)?;
    Some(Differs {
        what: What::Account,
        place: name.to_string(),
        reference: a.to_string(),
        program: b.to_string(),
    })
}

fn state_differs(reference: &mut Graph, program: &mut Graph) -> Option<Differs> {
    let (a, b) = (reference.state_summary(), program.state_summary());
    if a == b {
        return None;
    }
    let i = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i))?;
    let value = |l: &[(String, String)]| l.get(i).map_or(String::new(), |x| x.1.clone());
    let name = a.get(i).or(b.get(i)).map_or(String::new(), |x| x.0.clone());
    let (a, b) = around(&value(&a), &value(&b));
    Some(Differs {
        what: What::State,
        place: name,
        reference: a,
        program: b,
    })
}

/// Two values that differ, to be shown: long ones are cut to the first line that does.
pub fn around(a: &str, b: &str) -> (String, String) {
    if a.len() <= MAX_TEXT && b.len() <= MAX_TEXT {
        return (a.to_string(), b.to_string());
    }
    let (x, y): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    let i = x.iter().zip(&y).take_while(|(p, q)| p == q).count();
    let line = |v: &[&str]| match v.get(i) {
        Some(l) => format!(
            "line {}: {}",
            i + 1,
            l.chars().take(MAX_TEXT).collect::<String>()
        ),
        None => format!("{} lines", v.len()),
    };
    (line(&x), line(&y))
}
