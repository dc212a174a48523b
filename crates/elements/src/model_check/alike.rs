//! Do two lists of cases mean the same? A proof, so that a change that changes nothing is not taken for one that tests
//! overlook.

use onefold_element::model::rng::Rng;
use onefold_element::model::solve::{self, Ended, axioms, plainly};
use onefold_element::model::{Case, Cond, Exit, Op};

/// Alternatives that are looked at for one pair of lists.
const BUDGET: u32 = 200_000;

/// What of two ends of cases can be told from each other.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    /// Connected outputs.
    pub outputs: usize,
    /// Which argument decided is seen.
    pub origins: bool,
    /// Accounts with the same number here look the same.
    pub account: &'a dyn Fn(u16) -> u16,
}

impl Sight<'_> {
    fn exit(&self, e: &Exit) -> Exit {
        const UNCONNECTED: &str = "unconnected output";
        match e {
            Exit::PortOrDrop(p, _) if *p < self.outputs => Exit::Port(*p),
            Exit::PortOrDrop(_, reason) => Exit::Drop(reason),
            Exit::Port(p) if *p >= self.outputs => Exit::Drop(UNCONNECTED),
            // the same element gets the same packet, whatever the cause
            Exit::Punt(_) => Exit::Punt(""),
            Exit::Ask(_) => Exit::Ask(""),
            e => e.clone(),
        }
    }

    fn ops(&self, c: &Case) -> Vec<Op> {
        // a packet that is dropped is seen by nobody
        let dropped = matches!(self.exit(&c.exit), Exit::Drop(_));
        let some = c.ops.iter().filter(|o| match o {
            Op::Pull(0) | Op::Push(0) | Op::Unpull(0) => false,
            Op::Count(_) => true,
            _ => !dropped,
        });
        some.map(|o| match o {
            Op::Count(tag) => Op::Count((self.account)(*tag)),
            o => *o,
        })
        .collect()
    }

    fn same(&self, a: &Case, b: &Case) -> bool {
        let ends = self.exit(&a.exit) == self.exit(&b.exit) && self.ops(a) == self.ops(b);
        let handed = matches!(a.exit, Exit::Punt(_) | Exit::Ask(_));
        ends && (handed || !self.origins || a.origin == b.origin)
    }
}

/// Can no packet tell one list from the other? True only where that is proven: wherever a case that differs is
/// decisive, either list ends the same way, or nothing gets there.
pub fn alike(right: &[Case], wrong: &[Case], sight: Sight<'_>) -> bool {
    let first = right.iter().zip(wrong).take_while(|(a, b)| a == b).count();
    let behind = |l: &[Case]| l.len().saturating_sub(first);
    let same_behind = right.iter().rev().zip(wrong.iter().rev());
    let tail = same_behind.take_while(|(a, b)| a == b).count();
    let tail = tail.min(behind(right)).min(behind(wrong));
    let all =
        |l: &[Case], wanted| -> Vec<Cond> { l.iter().map(|c| plainly(&c.when, wanted)).collect() };
    let (right_no, right_yes) = (all(right, false), all(right, true));
    let (wrong_no, wrong_yes) = (all(wrong, false), all(wrong, true));
    let mut budget = BUDGET;
    let mut rng = Rng::new(1);
    for (j, a) in right.iter().enumerate().skip(first) {
        for (k, b) in wrong.iter().enumerate().skip(first) {
            let unchanged = j + tail >= right.len() && k + tail >= wrong.len();
            let same_case = unchanged && right.len() - j == wrong.len() - k;
            if same_case || sight.same(a, b) {
                continue;
            }
            let todo = (right_no.iter().take(j))
                .chain(wrong_no.iter().take(k).skip(first))
                .chain(right_yes.get(j))
                .chain(wrong_yes.get(k));
            let todo = todo.collect();
            let ended = solve::search(axioms(), todo, &mut budget, &mut rng, &mut |_| true);
            if ended != Ended::Exhausted {
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::model::{Read, field};

    fn proven(a: &[Case], b: &[Case]) -> bool {
        let sight = Sight {
            outputs: 3,
            origins: true,
            account: &|t| t,
        };
        alike(a, b, sight)
    }

    #[test]
    fn what_means_the_same_is_proven_and_what_does_not_is_not() {
        let port = |lo, hi| Cond::between(field::DPORT, lo, hi);
        let cases = |second: Cond, exit: Exit| {
            vec![
                Case::new(port(0, 99), Exit::Port(0)),
                Case::new(second, Exit::Port(1)),
                Case::new(Cond::Always, exit),
            ]
        };
        let right = cases(port(50, 200), Exit::Port(2));
        let same = |c: Cond, e: Exit| proven(&right, &cases(c, e));
        // a boundary within what the first case takes
        assert!(same(port(51, 200), Exit::Port(2)));
        assert!(same(port(100, 200), Exit::Port(2)));
        assert!(!same(port(101, 200), Exit::Port(2)));
        assert!(!same(port(50, 201), Exit::Port(2)));
        assert!(!same(port(50, 200), Exit::Port(3)));
        assert!(!proven(&right, &right[1..]));
        // left out: never reached, or the same as what follows
        let never = [
            &right[..1],
            &[Case::new(port(3, 5), Exit::Port(9))],
            &right[1..],
        ]
        .concat();
        assert!(proven(&never, &right));
    }

    #[test]
    fn what_is_not_seen_does_not_count() {
        let cases = |exit| {
            vec![
                Case::new(Cond::less(Read::Len, 9), exit),
                Case::new(Cond::Always, Exit::Port(0)),
            ]
        };
        assert!(proven(
            &cases(Exit::PortOrDrop(1, "x")),
            &cases(Exit::PortOrDrop(1, "y"))
        ));
        assert!(proven(
            &cases(Exit::PortOrDrop(3, "x")),
            &cases(Exit::Drop("x"))
        ));
        assert!(!proven(
            &cases(Exit::PortOrDrop(3, "x")),
            &cases(Exit::Drop("y"))
        ));
        assert!(proven(&cases(Exit::Port(7)), &cases(Exit::Port(8))));
    }
}
