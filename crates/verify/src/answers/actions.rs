//! Do two actions of two programs do the same? Elements are matched by what they are and where they lead, slots by the
//! binding that fills them.

use super::list;
use onefold_element::model::BindKind;
use onefold_element::{ElemId, GraphSpec};
use onefold_elements::connection::{ConnClass, parse_classes};
use onefold_synth::Program;
use onefold_synth::program::{
    Action, Dim, End, Expr, Filter, Image, Next, Slot, StageId, Step, SumTerm, TypeExpr,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};

/// Elements of the other program that have no like.
const STRANGE: u32 = 1 << 30;

/// A chain, with its program.
pub struct Side<'a> {
    /// The program.
    pub program: &'a Program,
    /// The chain's elements as they are written.
    pub spec: &'a GraphSpec,
    /// The chain's ports, by the element that packets leave through.
    pub sinks: HashMap<ElemId, String>,
}

/// How two actions differ, or that they do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Like {
    /// They do the same, if these pairs of stages do where packets go on.
    Same(Vec<(StageId, StageId)>),
    /// One lets a packet leave that the other drops.
    Verdict,
    /// They let packets leave at different ports.
    Port,
    /// What leaves is not the same.
    Rewriting,
    /// It cannot be told, for this reason.
    Unknown(String),
}

/// What elements are in both programs, and the new one's terms in the old one's.
pub struct Terms<'a> {
    old: Side<'a>,
    new: Side<'a>,
    /// Of the new program's elements: the old one's that is the same, where there is one.
    elements: HashMap<ElemId, ElemId>,
    /// Elements from which on both graphs are the same.
    onwards: HashMap<(ElemId, ElemId), bool>,
    slots: HashMap<Slot, Slot>,
    /// Slots of both.
    pub widths: Program,
    own: [Vec<u64>; 2],
    /// Elements that are only referred to are the same in both.
    around: bool,
    next: [Vec<Vec<(usize, usize, usize)>>; 2],
}

fn hash(of: impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    of.hash(&mut h);
    h.finish()
}

/// What elements are that others only refer to.
fn around(s: &Side<'_>) -> u64 {
    let spec = s.spec;
    let mut connected = vec![false; spec.elements.len()];
    for c in &spec.connections {
        for i in [c.from.0, c.to.0] {
            if let Some(c) = connected.get_mut(i) {
                *c = true;
            }
        }
    }
    let free: Vec<_> = (spec.elements.iter().zip(&connected))
        .filter(|(_, c)| !**c)
        .map(|(e, _)| (&e.name, &e.class, &e.args))
        .collect();
    hash(free)
}

/// What each element is by itself: its class and arguments, and those of elements that are only referred to.
fn own(s: &Side<'_>) -> Vec<u64> {
    let (spec, around) = (s.spec, around(s));
    let one = |(i, e): (usize, &onefold_element::ElementSpec)| {
        // a device is the port of the chain that it is
        match s.sinks.get(&ElemId(i as u32)) {
            Some(port) => hash(("a port", port)),
            None => hash((&e.class, &e.args, around)),
        }
    };
    spec.elements.iter().enumerate().map(one).collect()
}

/// By element: its outputs, and where they lead.
fn next(s: &Side<'_>) -> Vec<Vec<(usize, usize, usize)>> {
    let mut all = vec![Vec::new(); s.spec.elements.len()];
    for c in &s.spec.connections {
        if let Some(l) = all.get_mut(c.from.0) {
            l.push((c.from.1, c.to.0, c.to.1));
        }
    }
    for l in &mut all {
        l.sort_unstable();
    }
    all
}

impl<'a> Terms<'a> {
    /// Of two chains.
    pub fn new(old: Side<'a>, new: Side<'a>) -> Terms<'a> {
        let mut own = [own(&old), own(&new)];
        let next = [next(&old), next(&new)];
        let by_name: HashMap<&str, usize> = (old.spec.elements.iter().enumerate())
            .map(|(i, e)| (e.name.as_str(), i))
            .collect();
        // lists that mean the same are the same
        for (j, e) in new.spec.elements.iter().enumerate() {
            let Some(i) = by_name.get(e.name.as_str()).copied() else {
                continue;
            };
            let is = own[0].get(i).copied();
            if list::CLASSES.contains(&e.class.as_str())
                && is != own[1].get(j).copied()
                && list::same_meaning((old.spec, i), (new.spec, j))
                && let (Some(to), Some(is)) = (own[1].get_mut(j), is)
            {
                *to = is;
            }
        }
        let elements = (new.spec.elements.iter().enumerate()).filter_map(|(i, e)| {
            let o = *by_name.get(e.name.as_str())?;
            let same = own[0].get(o) == own[1].get(i);
            same.then_some((ElemId(i as u32), ElemId(o as u32)))
        });
        let mut widths = Program {
            slots: old.program.slots.clone(),
            ..Program::default()
        };
        widths.slots.extend(new.program.slots.iter().cloned());
        Terms {
            elements: elements.collect(),
            onwards: HashMap::new(),
            slots: HashMap::new(),
            widths,
            around: around(&old) == around(&new),
            own,
            next,
            old,
            new,
        }
    }

    /// The old chain.
    pub fn old(&self) -> &Side<'a> {
        &self.old
    }
    /// The new one.
    pub fn new_side(&self) -> &Side<'a> {
        &self.new
    }

    fn element(&self, e: ElemId) -> ElemId {
        let strange = ElemId(e.0 | STRANGE);
        self.elements.get(&e).copied().unwrap_or(strange)
    }

    fn slot(&self, s: Slot) -> Slot {
        let own = Slot((self.old.program.slots.len() as u16).saturating_add(s.0));
        self.slots.get(&s).copied().unwrap_or(own)
    }

    fn dim(&self, d: Dim) -> Dim {
        match d {
            Dim::Slot(s) => Dim::Slot(self.slot(s)),
            Dim::Route { table, of, what } => Dim::Route {
                table: self.element(table),
                of,
                what,
            },
            d => d,
        }
    }

    fn expr(&self, e: Expr) -> Expr {
        match e {
            Expr::Of(d, n) => Expr::Of(self.dim(d), n),
            e => e,
        }
    }

    /// A filter of the new program in the old one's terms.
    pub fn filter(&self, f: &Filter) -> Filter {
        let foreign = |d: &Dim| matches!(d, Dim::Slot(_) | Dim::Route { .. });
        if !f.0.iter().any(|(d, _)| foreign(d)) {
            return f.clone();
        }
        let mut all: Vec<_> = f.0.iter().map(|(d, s)| (self.dim(*d), s.clone())).collect();
        all.sort_by_key(|a| a.0);
        Filter(all)
    }

    fn image(&self, i: &Image) -> Image {
        let mut i = i.clone();
        for w in &mut i.writes {
            w.value = self.expr(w.value);
        }
        for s in &mut i.sums {
            for t in s.groups.iter_mut().flatten() {
                match t {
                    SumTerm::Change { from, to, .. } => {
                        (*from, *to) = (self.expr(*from), self.expr(*to));
                    }
                    SumTerm::Slot(s) => *s = self.slot(*s),
                }
            }
        }
        for (_, e) in &mut i.annos {
            *e = self.expr(*e);
        }
        if let TypeExpr::Destination(e, own) = i.packet_type {
            i.packet_type = TypeExpr::Destination(self.expr(e), own);
        }
        i
    }

    /// From here on, do both graphs do the same? Elements are compared by class and arguments, connections by numbers.
    pub fn same_onwards(&mut self, old: ElemId, new: ElemId) -> bool {
        if let Some(known) = self.onwards.get(&(old, new)) {
            return *known;
        }
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = vec![(old.0 as usize, new.0 as usize)];
        let mut same = true;
        while let Some((o, n)) = queue.pop() {
            match seen.insert(n, o) {
                Some(before) if before != o => same = false,
                Some(_) => continue,
                None => {}
            }
            let (a, b) = (self.next[0].get(o), self.next[1].get(n));
            let (Some(a), Some(b)) = (a, b) else {
                same = false;
                break;
            };
            let ports =
                |l: &[(usize, usize, usize)]| l.iter().map(|x| (x.0, x.2)).collect::<Vec<_>>();
            if !same || self.own[0].get(o) != self.own[1].get(n) || ports(a) != ports(b) {
                same = false;
                break;
            }
            queue.extend(a.iter().zip(b).map(|(a, b)| (a.1, b.1)));
        }
        self.onwards.insert((old, new), same);
        same
    }

    fn name(&self, e: ElemId) -> String {
        let all = &self.old.program.elements;
        all.get(e.0 as usize).cloned().unwrap_or_default()
    }

    /// Compares two actions.
    pub fn compare(&mut self, a: &Action, b: &Action) -> Like {
        let mut pairs = Vec::new();
        let binds = |a: &Action| -> Vec<Step> {
            let bind = |s: &&Step| matches!(s, Step::Bind { .. });
            a.steps.iter().filter(bind).cloned().collect()
        };
        let (x, y) = (binds(a), binds(b));
        // a packet that is dropped in any case leaves a binding at most
        if let (End::Drop { .. }, End::Drop { .. }) = (&a.end, &b.end)
            && x.is_empty() != y.is_empty()
        {
            return Like::Unknown("only one of them makes a binding before it drops".into());
        }
        if x.len() != y.len() {
            return match (&a.end, &b.end) {
                (End::Output { .. }, End::Output { .. }) => Like::Rewriting,
                (End::Drop { .. }, o) | (o, End::Drop { .. }) if goes_on(o) => Like::Verdict,
                _ => Like::Unknown("bindings are made on one way only".into()),
            };
        }
        for (x, y) in x.iter().zip(&y) {
            if let Some(l) = self.binds_alike(x, y, &mut pairs) {
                return l;
            }
        }
        match self.ends_alike(&a.end, &b.end, &mut pairs) {
            Some(l) => l,
            None => Like::Same(pairs),
        }
    }

    fn binds_alike(
        &mut self,
        x: &Step,
        y: &Step,
        pairs: &mut Vec<(StageId, StageId)>,
    ) -> Option<Like> {
        let (
            Step::Bind {
                elem,
                port,
                kind,
                image,
                first,
                anno,
                bound,
                pass,
                ..
            },
            Step::Bind {
                elem: e2,
                port: p2,
                kind: k2,
                image: i2,
                first: f2,
                anno: a2,
                bound: b2,
                pass: s2,
                ..
            },
        ) = (x, y)
        else {
            return None;
        };
        let values: u16 = match kind {
            BindKind::Flow | BindKind::Addresses | BindKind::Ping => 6,
        };
        if self.own[0].get(elem.0 as usize) != self.own[1].get(e2.0 as usize)
            || (port, kind) != (p2, k2)
            || anno.map(|a| a.0) != a2.map(|a| a.0)
        {
            return Some(Like::Rewriting);
        }
        if *image.as_ref() != self.image(i2) {
            return Some(Like::Rewriting);
        }
        for i in 0..values {
            self.slots.insert(Slot(f2.0 + i), Slot(first.0 + i));
        }
        if let (Some(a), Some(b)) = (anno, a2) {
            self.slots.insert(b.1, a.1);
        }
        self.nexts(bound, b2, pairs)
            .or_else(|| self.nexts(pass, s2, pairs))
    }

    fn nexts(&self, a: &[Next], b: &[Next], pairs: &mut Vec<(StageId, StageId)>) -> Option<Like> {
        if a.len() != b.len() {
            return Some(Like::Unknown("outputs are not the same".into()));
        }
        for (a, b) in a.iter().zip(b) {
            match (a, b) {
                (Next::Stage(a), Next::Stage(b)) => pairs.push((*a, *b)),
                (Next::Unconnected(_), Next::Unconnected(_)) => {}
                // what cannot be differs in nothing
                (Next::Never, _) | (_, Next::Never) => {}
                _ => return Some(Like::Unknown("an output leads nowhere".into())),
            }
        }
        None
    }

    fn punts_alike(&mut self, a: &End, b: &End) -> Option<Like> {
        let (
            End::Punt {
                elem,
                port,
                image,
                cause,
            },
            End::Punt {
                elem: e2,
                port: p2,
                image: i2,
                ..
            },
        ) = (a, b)
        else {
            return None;
        };
        let same = port == p2 && *image.as_ref() == self.image(i2);
        if same && self.same_onwards(*elem, *e2) {
            return None;
        }
        let name = self.name(*elem);
        Some(Like::Unknown(format!(
            "{cause}: the reference graph takes over at {name}, and goes on differently"
        )))
    }

    fn asks_alike(
        &mut self,
        a: &End,
        b: &End,
        pairs: &mut Vec<(StageId, StageId)>,
    ) -> Option<Like> {
        let (
            End::Ask {
                elem,
                port,
                image,
                outputs,
                ..
            },
            End::Ask {
                elem: e2,
                port: p2,
                image: i2,
                outputs: o2,
                ..
            },
        ) = (a, b)
        else {
            return None;
        };
        let own = self.own[0].get(elem.0 as usize) == self.own[1].get(e2.0 as usize);
        if port == p2 && *image.as_ref() == self.image(i2) {
            if own {
                return self.nexts(outputs, o2, pairs);
            }
            if let Some((a, b)) = self.by_class((*elem, outputs), (*e2, o2)) {
                return self.nexts(&a, &b, pairs);
            }
        }
        let name = self.name(*elem);
        Some(Like::Unknown(format!(
            "{name} is asked, and is not the same, or is not asked the same"
        )))
    }

    /// Elements that tell packets apart by what they are to their connection, in groups that are not the same: where
    /// packets of each class go on.
    fn by_class(
        &self,
        (elem, outputs): (ElemId, &[Next]),
        (e2, o2): (ElemId, &[Next]),
    ) -> Option<(Vec<Next>, Vec<Next>)> {
        let a = self.old.spec.elements.get(elem.0 as usize)?;
        let b = self.new.spec.elements.get(e2.0 as usize)?;
        let (table, lists) = a.args.split_first()?;
        let (t2, l2) = b.args.split_first()?;
        let groups = ["ConnTrack", "ConnStatus"].contains(&a.class.as_str());
        if !groups || a.class != b.class || table != t2 || !self.around {
            return None;
        }
        let pairs: BTreeSet<_> = (by_number(lists)?.into_iter())
            .zip(by_number(l2)?)
            .collect();
        let mut nexts = (Vec::new(), Vec::new());
        for (o, n) in pairs {
            match (o, n) {
                (Some(o), Some(n)) => {
                    nexts.0.push(*outputs.get(o)?);
                    nexts.1.push(*o2.get(n)?);
                }
                // both drop it
                (None, None) => {}
                _ => return None,
            }
        }
        Some(nexts)
    }

    fn ends_alike(
        &mut self,
        a: &End,
        b: &End,
        pairs: &mut Vec<(StageId, StageId)>,
    ) -> Option<Like> {
        match (a, b) {
            (End::Drop { .. }, End::Drop { .. }) | (End::Unreachable, End::Unreachable) => None,
            // a packet that goes on may leave, or be dropped later
            (End::Drop { .. }, o) | (o, End::Drop { .. }) if goes_on(o) => Some(Like::Verdict),
            (
                End::Output { sink, image },
                End::Output {
                    sink: s2,
                    image: i2,
                },
            ) => {
                if self.old.sinks.get(sink) != self.new.sinks.get(s2) {
                    return Some(Like::Port);
                }
                let i2 = self.image(i2);
                (!leaves_alike(image, &i2)).then_some(Like::Rewriting)
            }
            (End::Punt { .. }, End::Punt { .. }) => self.punts_alike(a, b),
            (End::Ask { .. }, End::Ask { .. }) => self.asks_alike(a, b, pairs),
            (
                End::Write { image, next },
                End::Write {
                    image: i2,
                    next: n2,
                },
            ) => {
                if *image.as_ref() != self.image(i2) {
                    return Some(Like::Rewriting);
                }
                pairs.push((*next, *n2));
                None
            }
            (End::Goto(a), End::Goto(b)) => {
                pairs.push((*a, *b));
                None
            }
            (End::Fork(a), End::Fork(b)) => self.nexts(a, b, pairs),
            (End::Punt { elem, cause, .. }, _) => Some(Like::Unknown(format!(
                "the old chain's reference graph takes over at {}: {cause}",
                self.name(*elem)
            ))),
            (_, End::Punt { elem, cause, .. }) => {
                let name = self.new.program.elements.get(elem.0 as usize);
                let name = name.map_or("?", |n| n.as_str());
                Some(Like::Unknown(format!(
                    "the new chain's reference graph takes over at {name}: {cause}"
                )))
            }
            _ => Some(Like::Unknown(
                "one of them ends there, and the other goes on".into(),
            )),
        }
    }
}

/// By class of connections: the first of these lists that names it.
fn by_number(lists: &[String]) -> Option<Vec<Option<usize>>> {
    let lists: Result<Vec<_>, _> = lists.iter().map(|l| parse_classes(l)).collect();
    let lists = lists.ok()?;
    let output = |c: ConnClass| lists.iter().position(|l| l.contains(&c));
    let all = ConnClass::all_translated().into_iter();
    Some(all.map(output).collect())
}

/// Does the packet leave, or go on in other stages?
fn goes_on(e: &End) -> bool {
    match e {
        End::Output { .. } | End::Ask { .. } | End::Write { .. } | End::Goto(_) | End::Fork(_) => {
            true
        }
        End::Drop { .. } | End::Punt { .. } | End::Unreachable => false,
    }
}

/// Is what leaves the same? Annotations and marks are not seen outside; checksums follow what is written.
fn leaves_alike(a: &Image, b: &Image) -> bool {
    let sums = |i: &Image| -> Vec<_> {
        let one = |s: &onefold_synth::program::SumWrite| (s.at, s.anew);
        i.sums.iter().map(one).collect()
    };
    (a.start, a.end) == (b.start, b.end) && a.writes == b.writes && sums(a) == sums(b)
}
