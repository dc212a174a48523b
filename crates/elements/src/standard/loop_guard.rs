//! `LoopGuard`: a packet that goes round without a hop counted down does not do so for ever.

use crate::ip4;
use onefold_element::args::{ArgScope, Args, FromArg, SizedAnno};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::is;
use onefold_element::model::{
    AnnoKey, Case, Cond, Exit, FieldRef, MAX_ROUNDS, Model, ModelCx, Op, Read, Value, ValueSet,
    field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{Packet, Pkt, anno_field};

/// `LoopGuard`.
pub const LOOP_GUARD: ElementClass = ElementClass {
    name: "LoopGuard",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "[keywords LIMIT, FROM, ANNO]",
    summary: "drops a packet that comes here once more than LIMIT times with no hop counted down",
    new: || {
        Box::new(LoopGuard {
            limit: MAX_ROUNDS,
            from: Vec::new(),
            at: FIRST,
            drops: 0,
        })
    },
};

const LOOP: DropReason = "LoopGuard: went round 32 times and no hop was counted down";
const LOOP_OTHER: DropReason = "LoopGuard: went round too often and no hop was counted down";
/// Cause of punts.
const AGAIN: &str = "comes round again";

/// The first annotation byte unless `ANNO` says otherwise: visits; then the time to live, then the mark that `FROM`
/// looks at. Links keep the first two with `KEEP_ROUNDS`, and set the third with `MARK`.
const FIRST: u8 = anno_field::PERFCTR.offset;
pub(crate) const ROUNDS_ANNOS: [u8; 2] = [FIRST, FIRST + 1];
pub(crate) const MARK_ANNO: u8 = FIRST + 2;

/// It stands where packets turn back into a cycle, so that those that do not turn pay nothing. How often a packet has
/// come, and its time to live (hop limit) when it last did, travel with it in two annotation bytes: the execution that
/// goes on with it, be it the program or the reference graph, knows how far it has come. A smaller time to live than
/// last time begins the count anew: such a loop ends by itself.
///
/// With `FROM`, only packets that have one of these marks are counted: those that leave a network function for where
/// they came from. All others leave as they came, and cost nothing in a program, which knows the mark.
#[derive(Debug, Clone)]
struct LoopGuard {
    /// Visits before the one that is too many.
    limit: u8,
    /// Marks of packets that are counted; all are if there are none.
    from: Vec<u8>,
    /// The first of the annotation bytes: visits, then the time to live, then the mark.
    at: u8,
    drops: u64,
}

/// The time to live, or the hop limit; zero (which is never counted down) without an IP header.
#[inline]
fn hops_left(p: &Packet) -> u8 {
    match ip4::header(p) {
        Some(h) if h.version() == 4 => h.ttl(),
        Some(h) if h.version() == 6 => h.bytes().get(7).copied().unwrap_or(0),
        _ => 0,
    }
}

/// Marks, separated by blanks: 1 to 255.
struct Marks(Vec<u8>);

impl FromArg for Marks {
    const WANTS: &'static str = "marks from 1 to 255, separated by blanks";

    fn from_arg(text: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let mark = |w: &str| w.parse::<u8>().ok().filter(|n| *n > 0);
        let all: Option<Vec<u8>> = text.split_whitespace().map(mark).collect();
        match all {
            Some(all) if !all.is_empty() => Ok(Marks(all)),
            _ => Err(None),
        }
    }
}

impl LoopGuard {
    fn key(&self, n: u8) -> AnnoKey {
        AnnoKey {
            offset: self.at + n,
            size: 1,
        }
    }
}

impl Element for LoopGuard {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.limit = args.keyword("LIMIT").unwrap_or(MAX_ROUNDS);
        if !(1..=254).contains(&self.limit) {
            args.error("LIMIT: out of range, 1 to 254");
        }
        self.from = args.keyword("FROM").map_or(Vec::new(), |Marks(m)| m);
        if let Some(SizedAnno::<3>(at)) = args.keyword("ANNO") {
            self.at = at;
        }
        args.finish()
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let at = usize::from(self.at);
        if !self.from.is_empty() && !self.from.contains(&p.anno.u8(at + 2)) {
            return cx.emit(0, p);
        }
        let (visits, last) = (p.anno.u8(at), p.anno.u8(at + 1));
        let left = hops_left(&p);
        let visits = if left < last { 0 } else { visits };
        if visits >= self.limit {
            self.drops += 1;
            let why = match self.limit {
                MAX_ROUNDS => LOOP,
                _ => LOOP_OTHER,
            };
            return cx.drop(p, why);
        }
        p.anno.set_u8(at, visits + 1);
        p.anno.set_u8(at + 1, left);
        cx.emit(0, p);
    }

    /// The first visit; a second one is for the reference graph, whatever comes of it.
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::new();
        if !self.from.is_empty() {
            let marks = self.from.iter().map(|m| (u128::from(*m), u128::from(*m)));
            let marked = Cond::In(Read::Anno(self.key(2)), ValueSet::from_intervals(marks));
            cases.push(Case::new(marked.not(), Exit::Port(0)));
        }
        let (visits, last) = (self.key(0), self.key(1));
        let first = |when: Cond, left: Value| {
            Case::new(when, Exit::Port(0)).with([
                Op::SetAnno(visits, Value::Const(1)),
                Op::SetAnno(last, left),
            ])
        };
        let of = |f: FieldRef| Value::Of(Read::Field(f));
        let again = is(Read::Anno(visits), 0).not();
        cases.push(Case::new(again, Exit::Punt(AGAIN)));
        cases.extend(ip4::unless_header(Exit::Port(0)).map(|c| first(c.when, Value::Const(0))));
        cases.push(first(Cond::eq(field::IP_VERSION, 4), of(field::IP_TTL)));
        cases.push(first(Cond::eq(field::IP_VERSION, 6), of(field::IP6_HLIM)));
        cases.push(first(Cond::Always, Value::Const(0)));
        Model::Cases(cases)
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("limit"), HandlerInfo::r("drops")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "limit" => Ok(self.limit.to_string()),
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Pkt};

    /// An IPv4 or IPv6 header whose hop count is `left`.
    fn packet(version: u8, left: u8) -> Pkt {
        let mut b = [0u8; 40];
        b[0] = version << 4 | 5;
        b[if version == 6 { 7 } else { 8 }] = left;
        let mut p = Box::new(Packet::from_slice(&b));
        p.set_network_header(0, 40);
        p
    }

    #[test]
    fn the_visit_after_the_last_is_dropped() {
        for mut p in [
            packet(4, 9),
            packet(6, 9),
            packet(7, 9),
            Box::new(Packet::from_slice(&[0; 5])),
        ] {
            let mut b = Bench::new("LoopGuard", "", 1, 1).unwrap();
            for visit in 1..=32 {
                let mut out = b.push_packet(0, p);
                assert_eq!(out.len(), 1, "visit {visit}");
                p = out.remove(0).1;
            }
            assert!(b.push_packet(0, p).is_empty());
            assert_eq!(b.read("drops").unwrap(), "1");
            let why = "LoopGuard: went round 32 times and no hop was counted down";
            assert_eq!(b.out.drops[0].1, why);
        }
    }

    #[test]
    fn a_hop_counted_down_begins_anew() {
        for (version, at) in [(4, 8), (6, 7)] {
            let mut b = Bench::new("LoopGuard", "LIMIT 3", 1, 1).unwrap();
            let mut p = packet(version, 100);
            for visit in 0..89 {
                // every third visit one hop less: never four with none
                p.data_mut()[at] -= u8::from(visit % 3 == 0);
                let mut out = b.push_packet(0, p);
                assert_eq!(out.len(), 1, "visit {visit}");
                p = out.remove(0).1;
            }
            p = b.push_packet(0, p).remove(0).1;
            // more hops are no fewer
            p.data_mut()[at] += 1;
            assert!(b.push_packet(0, p).is_empty());
        }
        for wrong in [
            "LIMIT 0",
            "LIMIT 255",
            "ANNO 46",
            "FROM 0",
            "FROM 256",
            "FROM",
        ] {
            assert!(Bench::new("LoopGuard", wrong, 1, 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_packets_with_its_marks_are_counted() {
        let mut b = Bench::new("LoopGuard", "FROM 3 7, LIMIT 2", 1, 1).unwrap();
        let at = usize::from(super::MARK_ANNO);
        let mut p = packet(4, 9);
        // neither without a mark nor with another one
        for mark in [0, 4].repeat(40) {
            p.anno.set_u8(at, mark);
            p = b.push_packet(0, p).remove(0).1;
            assert_eq!(p.anno.u8(usize::from(super::ROUNDS_ANNOS[0])), 0);
        }
        for mark in [3, 7] {
            p.anno.set_u8(at, mark);
            p = b.push_packet(0, p).remove(0).1;
        }
        p.anno.set_u8(at, 0);
        p = b.push_packet(0, p).remove(0).1;
        p.anno.set_u8(at, 3);
        assert!(b.push_packet(0, p).is_empty());
        assert_eq!(b.read("drops").unwrap(), "1");
    }
}
