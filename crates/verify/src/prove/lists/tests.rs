//! Small lists with overlapping cubes, against every packet one by one.

use super::*;
use crate::prove::bits::is_in;
use crate::prove::dd::{Dd, NO, Ref, YES};
use crate::prove::first::Rule;
use crate::prove::vars::{Bit, Vars};
use onefold_element::model::ValueSet;
use std::collections::HashMap;

/// Fields of three bits: two that tell cases apart, and one for what comes behind the list.
const FIELDS: usize = 3;
const VALUES: u128 = 8;
const FIRST: i32 = 100;

/// Intervals by field, and what is said.
type Line = ([(u128, u128); FIELDS], u32);
const ALL: (u128, u128) = (0, VALUES - 1);

fn rules(dd: &mut Dd, vars: &mut Vars, list: &[Line]) -> Vec<Rule> {
    let mut out = Vec::new();
    for (field, value) in list {
        let mut all = Vec::new();
        for (i, (lo, hi)) in field.iter().enumerate() {
            let v = vars.packet(dd, FIRST + 3 * i as i32, 3);
            all.push(is_in(dd, &v, &ValueSet::range(*lo, *hi)));
        }
        out.push(Rule { all, value: *value });
    }
    out
}

fn says(list: &[Line], packet: &[u128; FIELDS]) -> u32 {
    let fits = |l: &&Line| {
        let each = l.0.iter().zip(packet);
        each.into_iter().all(|((lo, hi), v)| lo <= v && v <= hi)
    };
    list.iter().find(fits).map_or(0, |l| l.1)
}

fn packets() -> impl Iterator<Item = [u128; FIELDS]> {
    (0..VALUES * VALUES * VALUES).map(|n| [n % VALUES, n / VALUES % VALUES, n / VALUES / VALUES])
}

/// What a program has to do: a verdict (1: pass) and the third field say which action.
fn wanted(verdict: u32, packet: &[u128; FIELDS]) -> u32 {
    match verdict {
        1 if packet[2] < 3 => 1,
        1 => 2,
        _ => 3,
    }
}

/// The program's list of a source list: passing cases fall apart behind it.
fn made(source: &[Line]) -> Vec<Line> {
    let mut out = Vec::new();
    for (f, v) in source {
        match v {
            1 => {
                for (part, action) in [((0, 2), 1), ((3, 7), 2)] {
                    let third = (f[2].0.max(part.0), f[2].1.min(part.1));
                    if third.0 <= third.1 {
                        out.push(([f[0], f[1], third], action));
                    }
                }
            }
            _ => out.push((*f, 3)),
        }
    }
    out
}

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
    fn interval(&mut self) -> (u128, u128) {
        if self.below(3) == 0 {
            return ALL;
        }
        let (a, b) = (self.below(8).into(), self.below(8).into());
        (std::cmp::min(a, b), std::cmp::max(a, b))
    }
    fn source(&mut self) -> Vec<Line> {
        let n = 1 + self.below(8);
        let mut list: Vec<Line> = (0..n)
            .map(|_| {
                let third = if self.below(4) == 0 {
                    self.interval()
                } else {
                    ALL
                };
                (
                    [self.interval(), self.interval(), third],
                    1 + self.below(2) as u32,
                )
            })
            .collect();
        if self.below(2) == 0 {
            list.push(([ALL; FIELDS], 1 + self.below(2) as u32));
        }
        list
    }
    /// Breaks something, or nothing.
    fn damage(&mut self, list: &mut Vec<Line>) {
        let i = self.below(list.len() as u64) as usize;
        match self.below(7) {
            0 if i + 1 < list.len() => list.swap(i, i + 1),
            1 if list.len() > 1 => drop(list.remove(i)),
            2 => list[i].1 = 1 + list[i].1 % 3,
            3 => {
                let field = self.below(FIELDS as u64) as usize;
                let (lo, hi) = list[i].0[field];
                list[i].0[field] = match hi < VALUES - 1 {
                    true => (lo, hi + 1),
                    false => (lo.saturating_sub(1), hi),
                };
            }
            4 => {
                let j = self.below(list.len() as u64) as usize;
                list.swap(i, j);
            }
            5 => {
                let copy = list[i];
                list.push(copy);
            }
            _ => {}
        }
    }
}

/// What the comparison leaves open for a packet: what the source says and what the program does.
fn open(dd: &mut Dd, vars: &mut Vars, c: &Compared, packet: &[u128; FIELDS]) -> Vec<(u32, u32)> {
    let mut by: HashMap<u32, Ref> = HashMap::new();
    for (i, v) in packet.iter().enumerate() {
        for bit in 0..3 {
            let level = vars.level(Bit::Packet(FIRST + 3 * i as i32 + bit));
            by.insert(level, if v >> (2 - bit) & 1 == 1 { YES } else { NO });
        }
    }
    let mut out = Vec::new();
    for k in 0..c.kinds() {
        let (rules, care) = c.kind(k);
        let taken = c.part(dd, vars, c.taken, k);
        let [rules, care, taken] = [rules, care, taken].map(|f| dd.put(f, &by));
        if care == YES {
            let value = |f| dd.value(f).expect("a number");
            out.push((value(taken), value(rules)));
        }
    }
    out
}

/// Is all the same that the comparison leaves open?
fn proves(dd: &mut Dd, vars: &mut Vars, c: &Compared) -> bool {
    packets().all(|p| {
        let open = open(dd, vars, c, &p);
        open.iter().all(|(says, does)| wanted(*says, &p) == *does)
    })
}

/// What is true of a packet is always among what is left open, whatever the program is; so what is proved is so. And
/// what was made of the source list is proved.
#[test]
fn every_packet_is_looked_at() {
    let (mut proved, mut broken, mut equal, mut exact) = (0, 0, 0, 0);
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let source = rng.source();
        let mut program = made(&source);
        let whole = program.clone();
        for _ in 0..rng.below(3) {
            rng.damage(&mut program);
        }
        let (mut dd, mut vars) = (Dd::new(1 << 22, None), Vars::default());
        let (s, p) = (
            rules(&mut dd, &mut vars, &source),
            rules(&mut dd, &mut vars, &program),
        );
        let third = vars.packet(&mut dd, FIRST + 6, 3);
        let mark = is_in(&mut dd, &third, &ValueSet::range(0, 2));
        let c = compare(&mut dd, &mut vars, 0, &s, &p, &[mark]).expect("small lists");
        let mut same = true;
        for packet in packets().step_by(3) {
            let truth = (says(&source, &packet), says(&program, &packet));
            same &= wanted(truth.0, &packet) == truth.1 || truth.0 == 0 && truth.1 == 0;
            let open = open(&mut dd, &mut vars, &c, &packet);
            assert!(
                open.contains(&truth),
                "{seed} {packet:?}: {truth:?} {open:?}"
            );
        }
        if says(&source, &[0; 3]) == 0 || source.last().is_some_and(|l| l.0 != [ALL; FIELDS]) {
            // what no case holds is no verdict here
            continue;
        }
        let is = proves(&mut dd, &mut vars, &c);
        assert!(!is || same, "{seed}: proved, and it is not the same");
        exact += usize::from(program == whole);
        assert!(
            is || program != whole,
            "{seed}: what was made is not proved: {source:?} {program:?}"
        );
        proved += usize::from(is);
        equal += usize::from(same);
        broken += usize::from(!same);
    }
    assert!(
        exact > 10 && proved > exact && broken > 20,
        "{exact} {proved} of {equal}, {broken} broken"
    );
}

/// The header space of a set is that of the true kinds.
#[test]
fn sets_are_counted_as_they_are() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let mut source = rng.source();
        source.push(([ALL; FIELDS], 2));
        let program = made(&source);
        let (mut dd, mut vars) = (Dd::new(1 << 22, None), Vars::default());
        let (s, p) = (
            rules(&mut dd, &mut vars, &source),
            rules(&mut dd, &mut vars, &program),
        );
        let c = std::rc::Rc::new(compare(&mut dd, &mut vars, 0, &s, &p, &[]).expect("small lists"));
        let regions = c.regions(&mut dd, YES);
        let set = regions.iter().find(|r| r.0 == 2).map_or(NO, |r| r.1);
        let mut w = crate::prove::packet::World {
            dd,
            vars,
            facts: crate::prove::packet::Facts::entry(),
        };
        let (sets, within) = measure::settle(&mut w, &vec![c.clone()], [set]).expect("small lists");
        let is = packets().filter(|p| says(&program, p) == 2).count();
        assert_eq!(within, 0.0);
        assert_eq!(w.dd.share(sets[0]) * 512.0, is as f64, "{seed}");
        // a packet of it is one
        let one = c.concrete(&mut w.dd, &mut w.vars, set);
        assert_eq!(one == NO, is == 0, "{seed}");
        assert_eq!(w.dd.minus(one, sets[0]), NO, "{seed}");
    }
}
