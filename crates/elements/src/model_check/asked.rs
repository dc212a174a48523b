//! What tables say, put into a model that asks them: for one packet at one time.

use crate::routing::neighbors::HeldNeighbors;
use crate::routing::table::HeldRoutes;
use onefold_element::StateStore;
use onefold_element::model::{AnnoKey, Case, Cond, Model, Op, Read, Value};
use onefold_packet::{Packet, Timestamp};
use std::borrow::Cow;

/// The model as it is for this packet: what it asks tables is answered.
pub fn told<'a>(
    model: &'a Model,
    p: &Packet,
    store: &StateStore,
    now: Timestamp,
) -> Cow<'a, Model> {
    match asks(model) {
        true => Cow::Owned(answered(model, p, store, now)),
        false => Cow::Borrowed(model),
    }
}

/// The model without questions: with the answers for this packet.
pub fn answered(model: &Model, p: &Packet, store: &StateStore, now: Timestamp) -> Model {
    let Model::Cases(cases) = model else {
        return model.clone();
    };
    let ask = |r: &Read| answer(r, p, store, now);
    let one = |c: &Case| Case {
        when: cond(&c.when, &ask),
        ops: c.ops.iter().map(|o| op(o, &ask)).collect(),
        ..c.clone()
    };
    Model::Cases(cases.iter().map(one).collect())
}

/// Does a model ask a table?
fn asks(model: &Model) -> bool {
    fn reads(c: &Cond) -> bool {
        match c {
            Cond::In(r, _) => matches!(r, Read::Route { .. }),
            Cond::All(l) | Cond::Any(l) => l.iter().any(reads),
            Cond::Not(c) => reads(c),
            Cond::Always | Cond::Never | Cond::Masked { .. } => false,
        }
    }
    matches!(model, Model::Cases(l) if l.iter().any(|c| reads(&c.when)))
}

fn answer(r: &Read, p: &Packet, store: &StateStore, now: Timestamp) -> Option<u128> {
    let Read::Route { table, anno, what } = *r else {
        return None;
    };
    let AnnoKey { offset, size } = anno;
    let from = usize::from(offset);
    let bytes = p.anno.bytes().get(from..from + usize::from(size))?;
    let address = bytes.iter().fold(0, |v, b| v << 8 | u128::from(*b));
    match HeldNeighbors::of(store, table) {
        Some(n) => Some(n.ask(what, address, now)),
        None => Some(HeldRoutes::of(store, table)?.ask(what, address)),
    }
}

fn cond(c: &Cond, ask: &impl Fn(&Read) -> Option<u128>) -> Cond {
    let list = |l: &[Cond]| l.iter().map(|c| cond(c, ask)).collect();
    match c {
        Cond::In(r, set) => match ask(r) {
            Some(v) if set.contains(v) => Cond::Always,
            Some(_) => Cond::Never,
            None => c.clone(),
        },
        Cond::All(l) => Cond::All(list(l)),
        Cond::Any(l) => Cond::Any(list(l)),
        Cond::Not(c) => Cond::Not(Box::new(cond(c, ask))),
        Cond::Always | Cond::Never | Cond::Masked { .. } => c.clone(),
    }
}

fn op(o: &Op, ask: &impl Fn(&Read) -> Option<u128>) -> Op {
    let value = |v: Value| match v {
        Value::Of(r) => ask(&r).map_or(v, Value::Const),
        v => v,
    };
    match *o {
        Op::Write {
            field,
            value: v,
            fix,
        } => Op::Write {
            field,
            value: value(v),
            fix,
        },
        Op::SetAnno(k, v) => Op::SetAnno(k, value(v)),
        o => o,
    }
}
