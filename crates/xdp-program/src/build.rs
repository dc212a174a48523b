//! The decision structure, straight to code: a tree of questions, with short lists of rules at its leaves.
//!
//! - A question splits what is known; rules that cannot fit any more fall away, conditions that hold by now are not
//!   asked again. What is known at a place is true of every frame that comes there, so a leaf's outcome is the one of
//!   the first rule that fits.
//! - Before bytes are read, the frame's length is compared: shorter frames have a branch of their own.
//! - Where the budget of instructions is spent, frames pass.

use crate::class::{Class, Count, needs};
use crate::emit::{self, CONTEXT, FRAME, FRAME_END, LENGTH, SCRATCH, STACK, VALUE};
use crate::rule::{Known, Outcome, Rule, narrowed};
use crate::split::choose;
use onefold_bpf::{Assembler, Helper, Label, MapRef, Op, Reg, Size, When};
use onefold_element::model::ValueSet;
use onefold_synth::program::{Dim, EndAt};

/// Questions below each other.
const DEPTH: usize = 64;
/// Rules that are tried one after the other, at most.
const LONGEST_LIST: usize = 64;
/// Counters of classes.
pub(crate) const COUNTERS: MapRef = MapRef(0);

// what lies on the stack
const CLASS: i16 = -4;
const PADDING: i16 = -16;

/// `XDP_DROP`.
const DROP: i32 = 1;

/// Places that code goes on at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways {
    /// The frame goes to the chain.
    pub pass: Label,
    /// The frame goes to the worker whose number is in register 1.
    pub to: Label,
    /// The frame is dropped; its class is in register 1, its padding in register 2.
    pub drop: Label,
}

/// See the module's text.
pub(crate) struct Builder<'a> {
    pub a: &'a mut Assembler,
    pub classes: &'a [Class],
    pub ways: Ways,
    /// Rules in a leaf.
    pub leaf: usize,
    /// Operations, in all.
    pub budget: usize,
    /// Rules of leaves that were given up.
    pub given_up: usize,
    /// Deepest question.
    pub deepest: usize,
}

impl Builder<'_> {
    /// Frames come here, of which this is known, and of which so many bytes may be read.
    pub fn node(&mut self, known: &Known, rules: &[Rule], readable: u32, depth: usize) {
        self.deepest = self.deepest.max(depth);
        match rules.first() {
            None => return self.a.jump(self.ways.pass),
            Some(r) if r.conditions.is_empty() => {
                return self.outcome(r.outcome, readable);
            }
            Some(_) => {}
        }
        if self.a.len() >= self.budget {
            self.given_up += rules.len();
            return self.a.jump(self.ways.pass);
        }
        if rules.len() <= self.leaf || depth >= DEPTH {
            return self.list(known, rules, readable);
        }
        let Some(s) = choose(rules, known) else {
            return self.list(known, rules, readable);
        };
        let needs = needs(s.dim).unwrap_or(u32::MAX);
        if needs > known.most() {
            // it lies behind the frame's end
            return self.list(known, rules, readable);
        }
        let mut readable = readable;
        if needs > readable {
            // where the length is known to do, the kernel's verifier does not know it
            let short = match needs > known.least() {
                true => self.a.label(),
                false => self.ways.pass,
            };
            emit::require(self.a, needs, short);
            if needs > known.least() {
                // longer frames first, right here
                let mut longer = known.clone();
                let set = ValueSet::range(needs.into(), u32::MAX.into());
                longer.narrow(Dim::Len, &set);
                let left = self.left(rules, &longer, Dim::Len);
                self.node(&longer, &left, needs, depth + 1);
                self.a.place(short);
                let mut shorter = known.clone();
                let set = ValueSet::range(0, u128::from(needs) - 1);
                shorter.narrow(Dim::Len, &set);
                let left = within(self.left(rules, &shorter, Dim::Len), needs - 1);
                return self.node(&shorter, &left, readable, depth + 1);
            }
            readable = needs;
        }
        let no = self.a.label();
        self.ask(known, s.dim, &s.set, no);
        let mut inside = known.clone();
        inside.narrow(s.dim, &s.set);
        let left = self.left(rules, &inside, s.dim);
        self.node(&inside, &left, readable, depth + 1);
        self.a.place(no);
        let mut outside = known.clone();
        outside.narrow(s.dim, &s.set.complement(s.dim.width()));
        let left = self.left(rules, &outside, s.dim);
        self.node(&outside, &left, readable, depth + 1);
    }

    /// Goes to `no` unless the dimension, of which this is known, is in the set.
    fn ask(&mut self, known: &Known, d: Dim, set: &ValueSet, no: Label) {
        let simple = known.on(d).map(|k| emit::simplest(set, k, d.width()));
        let set = simple.as_ref().unwrap_or(set);
        emit::unless(self.a, d, set, no, self.ways.pass);
    }

    fn left(&self, rules: &[Rule], known: &Known, d: Dim) -> Vec<Rule> {
        match known.on(d) {
            Some(set) => narrowed(rules, d, set),
            None => rules.to_vec(),
        }
    }

    /// The first rule that fits, one after the other.
    fn list(&mut self, known: &Known, rules: &[Rule], readable: u32) {
        if rules.len() > LONGEST_LIST {
            self.given_up += rules.len();
            return self.a.jump(self.ways.pass);
        }
        for r in rules {
            let next = self.a.label();
            let mut readable = readable;
            let mut seen = true;
            for c in &r.conditions {
                let needs = needs(c.dim).unwrap_or(u32::MAX);
                if needs > known.most() {
                    // the bits are not there: what the rule wants of them is not known here
                    seen = false;
                    continue;
                }
                if needs > readable {
                    emit::require(self.a, needs, self.ways.pass);
                    readable = needs;
                }
                self.ask(known, c.dim, &c.set, next);
            }
            match seen {
                true => self.outcome(r.outcome, readable),
                false => self.a.jump(self.ways.pass),
            }
            self.a.place(next);
            if r.conditions.is_empty() {
                return;
            }
        }
        self.a.jump(self.ways.pass);
    }

    /// The end of a frame's way.
    fn outcome(&mut self, o: Outcome, readable: u32) {
        match o {
            Outcome::Pass => self.a.jump(self.ways.pass),
            Outcome::To(worker) => {
                self.a.mov(VALUE, worker as i32);
                self.a.jump(self.ways.to);
            }
            Outcome::Drop(class) => {
                let cut = self.classes.get(class as usize).and_then(|c| c.cut);
                self.padding(cut, readable);
                self.a.mov(VALUE, class as i32);
                self.a.jump(self.ways.drop);
            }
        }
    }

    /// Bytes behind an end, in register 2.
    fn padding(&mut self, cut: Option<EndAt>, readable: u32) {
        let (at, field, extra) = match cut {
            None | Some(EndAt::Same) => return self.a.mov(Reg(2), 0),
            Some(EndAt::Ip4(at)) => (at as u32, 2, 0),
            Some(EndAt::Ip6(at)) => (at as u32, 4, 40),
        };
        if at + field + 2 > readable {
            emit::require(self.a, at + field + 2, self.ways.pass);
        }
        emit::number(self.a, SCRATCH, at + field, Size::Half);
        self.a.op(Op::Add, SCRATCH, (at + extra) as i32);
        let (fits, done) = (self.a.label(), self.a.label());
        self.a.mov(Reg(2), LENGTH);
        self.a.jump_if(SCRATCH, When::Le, LENGTH, fits);
        // as the chain has it: the packet ends with the frame
        self.a.mov(Reg(2), 0);
        self.a.jump(done);
        self.a.place(fits);
        self.a.op(Op::Sub, Reg(2), SCRATCH);
        self.a.place(done);
    }
}

/// The rules as they are asked of frames that have so many bytes at most. A condition on what lies behind a frame's end
/// cannot be looked at: frames that fit the others pass.
fn within(mut rules: Vec<Rule>, most: u32) -> Vec<Rule> {
    for r in &mut rules {
        let all = r.conditions.len();
        r.conditions
            .retain(|c| needs(c.dim).is_some_and(|n| n <= most));
        if r.conditions.len() < all {
            r.outcome = Outcome::Pass;
        }
    }
    let any = ValueSet::range(0, most.into());
    narrowed(&rules, Dim::Len, &any)
}

/// The beginning of all code: registers are filled.
pub(crate) fn begin(a: &mut Assembler) {
    a.note("registers: 6 context, 7 frame, 8 its end, 9 its length");
    a.mov(CONTEXT, Reg(1));
    a.load(Size::Word, FRAME, Reg(1), 0);
    a.load(Size::Word, FRAME_END, Reg(1), 4);
    a.mov(LENGTH, FRAME_END);
    a.op(Op::Sub, LENGTH, FRAME);
}

/// Where frames are dropped. `tells`: the class is in the result, from the ninth bit on.
pub(crate) fn drop_and_count(a: &mut Assembler, ways: Ways, tells: bool) {
    a.place(ways.drop);
    a.note("dropped: packets, bytes and padding of class r1 are counted");
    a.store(Size::Word, STACK, CLASS, VALUE);
    a.store(Size::Double, STACK, PADDING, Reg(2));
    a.map(Reg(1), COUNTERS);
    a.mov(Reg(2), STACK);
    a.op(Op::Add, Reg(2), i32::from(CLASS));
    a.call(Helper::Lookup);
    a.jump_if(Reg(0), When::Eq, 0, ways.pass);
    let words: [Result<i32, Reg>; Count::WORDS] = [Ok(1), Err(LENGTH), Err(Reg(2))];
    a.load(Size::Double, Reg(2), STACK, PADDING);
    for (i, w) in words.into_iter().enumerate() {
        let at = 8 * i as i16;
        a.load(Size::Double, VALUE, Reg(0), at);
        match w {
            Ok(n) => a.op(Op::Add, VALUE, n),
            Err(r) => a.op(Op::Add, VALUE, r),
        }
        a.store(Size::Double, Reg(0), at, VALUE);
    }
    match tells {
        true => {
            a.load(Size::Word, Reg(0), STACK, CLASS);
            a.op(Op::Shl, Reg(0), 8);
            a.op(Op::Or, Reg(0), DROP);
        }
        false => a.mov(Reg(0), DROP),
    }
    a.exit();
}
