//! How packets come to a stage behind others: which packets of the entry stage a set of packets there is made of.
//!
//! What is written to packets on the way is taken back where it can be. What cannot be said of packets as they come in
//! (what bindings hold, what elements are asked) is left out: a packet that is made of such a set is tried.

use crate::cubes::{both, width};
use onefold_element::model::{ValueSet, max_of};
use onefold_synth::Program;
use onefold_synth::program::{Action, Dim, End, Expr, Filter, Image, Next, StageId};
use std::sync::Arc;

/// Ways to a stage that are kept.
pub(super) const MAX_WAYS: usize = 6;

/// A stage on the way: its packets that go on, and what is done to them.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub filter: Filter,
    pub image: Option<Arc<Image>>,
}

/// From the entry on.
pub(super) type Links = Vec<Link>;

/// What is done to packets that go on in other stages, by an action.
pub(super) fn image(a: &Action) -> Option<Arc<Image>> {
    match &a.end {
        End::Ask { image, .. } | End::Write { image, .. } => Some(image.clone()),
        _ => None,
    }
}

/// Stages where packets of an action go on with nothing that bindings decide.
pub(super) fn next_stages(a: &Action) -> Vec<StageId> {
    let of = |list: &[Next]| {
        let stages = list.iter().filter_map(|n| match n {
            Next::Stage(s) => Some(*s),
            Next::Unconnected(_) | Next::Never => None,
        });
        stages.collect()
    };
    match &a.end {
        End::Ask { outputs, .. } => of(outputs),
        End::Fork(list) => of(list),
        End::Write { next, .. } | End::Goto(next) => vec![*next],
        End::Output { .. } | End::Drop { .. } | End::Punt { .. } | End::Unreachable => Vec::new(),
    }
}

/// What some bits of a packet are when the image has been written.
pub(super) enum Leaves {
    Is(Expr),
    /// One of these.
    Among(ValueSet),
    Anything,
}

/// The same, of bits in the terms of the packet that it is written to.
pub(super) fn at_exit(image: &Image, bit: i32, bits: u8) -> Leaves {
    let end = bit + i32::from(bits);
    let near = |w: &&onefold_synth::program::Write| w.bit < end && w.bit + i32::from(w.bits) > bit;
    let mut all = image.writes.iter().filter(near);
    match (all.next(), all.next()) {
        (None, _) => Leaves::Is(Expr::Of(Dim::Bits { bit, bits }, 0)),
        (Some(w), None) if (w.bit, w.bits) == (bit, bits) => Leaves::Is(w.value),
        _ => Leaves::Anything,
    }
}

/// The packets at the entry that a set of packets at the end of a way may have been. `None`: there are none.
pub(super) fn before(p: &Program, part: &Filter, way: &[Link]) -> Option<Filter> {
    let mut set = part.clone();
    for link in way.iter().rev() {
        set = match &link.image {
            None => both(p, &set, &link.filter)?,
            Some(image) => back(p, &set, image, link.filter.clone())?,
        };
    }
    Some(set)
}

/// Those of `out` that the image makes packets of the set of.
pub(super) fn back(p: &Program, set: &Filter, image: &Image, mut out: Filter) -> Option<Filter> {
    let shift = image.start.checked_mul(8)?;
    for (d, values) in &set.0 {
        let Dim::Bits { bit, bits } = *d else {
            continue;
        };
        match at_exit(image, bit.checked_add(shift)?, bits) {
            Leaves::Is(Expr::Const(v)) if !values.contains(v & max_of(bits)) => return None,
            Leaves::Is(Expr::Of(from @ Dim::Bits { bits: n, .. }, add)) if n == bits => {
                if !out.narrow(from, &values.shifted_back(add, bits), width(p, from)) {
                    return None;
                }
            }
            Leaves::Is(_) | Leaves::Among(_) | Leaves::Anything => {}
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_synth::program::Write;

    fn bits(bit: i32, bits: u8) -> Dim {
        Dim::Bits { bit, bits }
    }

    fn filter(all: &[(Dim, u128)]) -> Filter {
        let mut f = Filter::default();
        for (d, v) in all {
            assert!(f.narrow(*d, &ValueSet::one(*v), d.width()));
        }
        f
    }

    #[test]
    fn what_is_written_is_taken_back() {
        let p = Program::default();
        let write = |bit, value| Write {
            bit,
            bits: 8,
            value,
        };
        // two bytes are cut off; the next one is lowered, the one behind it set
        let image = Image {
            start: 2,
            writes: vec![
                write(16, Expr::Of(bits(16, 8), 255)),
                write(24, Expr::Const(9)),
            ],
            ..Image::default()
        };
        let way = [
            Link {
                filter: filter(&[(bits(0, 8), 1)]),
                image: None,
            },
            Link {
                filter: filter(&[(bits(8, 8), 2)]),
                image: Some(Arc::new(image)),
            },
        ];
        let part = filter(&[(bits(0, 8), 63), (bits(8, 8), 9), (bits(16, 8), 5)]);
        let want = filter(&[
            (bits(0, 8), 1),
            (bits(8, 8), 2),
            (bits(16, 8), 64),
            (bits(32, 8), 5),
        ]);
        assert_eq!(before(&p, &part, &way), Some(want));
        let other = filter(&[(bits(8, 8), 8)]);
        assert_eq!(before(&p, &other, &way), None);
    }
}
