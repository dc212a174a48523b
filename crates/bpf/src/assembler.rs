//! From operations with labels to instructions.
//!
//! A jump reaches 32,767 instructions. One that has to reach further is made of two: its opposite over a jump whose
//! distance has 32 bits. The kernel knows those from Linux 6.6 on; shorter code runs on older ones.

use crate::instruction::{
    ALU32, ALU64, BY_REG, CALL, EXIT, Instruction, JA, JA_FAR, JMP, JMP32, LD_IMM64, LDX, MEM, Op,
    PSEUDO_MAP, Reg, STX, Size, TO_BE, When,
};
use std::collections::BTreeMap;

/// Most instructions of a program (`BPF_COMPLEXITY_LIMIT_INSNS`).
pub const MAX_INSTRUCTIONS: usize = 1_000_000;

/// A place in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label(u32);

/// A map of the program, by number: which one that is, is said when it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapRef(pub u32);

/// What the kernel does when it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Helper {
    /// `bpf_map_lookup_elem(map, &key)`: a pointer, or zero.
    Lookup,
    /// `bpf_redirect_map(map, index, otherwise)`.
    RedirectMap,
}

impl Helper {
    pub(crate) fn number(self) -> i32 {
        match self {
            Helper::Lookup => 1,
            Helper::RedirectMap => 51,
        }
    }
    pub(crate) fn of(number: i32) -> Option<Helper> {
        let all = [Helper::Lookup, Helper::RedirectMap];
        all.into_iter().find(|h| h.number() == number)
    }
}

#[derive(Debug, Clone, Copy)]
enum Item {
    Plain(Instruction),
    Number(Reg, u64),
    Map(Reg, MapRef),
    /// Code of the jump, to be opposed; `None`: always.
    Jump(Option<Condition>, Label),
}

#[derive(Debug, Clone, Copy)]
struct Condition {
    when: When,
    class: u8,
    a: Reg,
    b: Operand,
}

/// The second operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A number. Of 64-bit operations it is sign-extended.
    Value(i32),
}

impl From<Reg> for Operand {
    fn from(r: Reg) -> Operand {
        Operand::Reg(r)
    }
}

impl From<i32> for Operand {
    fn from(v: i32) -> Operand {
        Operand::Value(v)
    }
}

/// Assembled code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Code {
    /// What the kernel is given, with numbers of maps ([`MapRef`]) where it wants descriptors.
    pub instructions: Vec<Instruction>,
    /// What is said of places, by instruction.
    pub notes: BTreeMap<usize, String>,
}

/// Why there is no code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// More than the kernel takes.
    #[error("{0} instructions, and the kernel takes {MAX_INSTRUCTIONS}")]
    TooLong(usize),
    /// A jump to a label that is nowhere.
    #[error("a label of the generated code has no place")]
    NoPlace,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Assembler {
    items: Vec<Item>,
    /// By label: the item behind it.
    places: Vec<Option<usize>>,
    notes: Vec<(usize, String)>,
}

impl Assembler {
    /// Operations so far: about as many instructions.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// None yet.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// A label, to be placed.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() as u32 - 1)
    }
    /// The label is here.
    pub fn place(&mut self, l: Label) {
        if let Some(p) = self.places.get_mut(l.0 as usize) {
            *p = Some(self.items.len());
        }
    }
    /// Something is to be said of what follows.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push((self.items.len(), text.into()));
    }

    fn plain(&mut self, code: u8, to: Reg, from: Reg, offset: i16, value: i32) {
        let i = Instruction::new(code, to.0, from.0, offset, value);
        self.items.push(Item::Plain(i));
    }

    /// `to = *(size *)(from + offset)`.
    pub fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) {
        self.plain(LDX | MEM | size.code(), to, from, offset, 0);
    }
    /// `*(size *)(to + offset) = from`.
    pub fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) {
        self.plain(STX | MEM | size.code(), to, from, offset, 0);
    }
    /// An operation on 64 bits.
    pub fn op(&mut self, op: Op, to: Reg, by: impl Into<Operand>) {
        self.alu(ALU64, op, to, by.into());
    }
    /// The same on the lower 32 bits, the upper ones becoming zero.
    pub fn op32(&mut self, op: Op, to: Reg, by: impl Into<Operand>) {
        self.alu(ALU32, op, to, by.into());
    }
    fn alu(&mut self, class: u8, op: Op, to: Reg, by: Operand) {
        match by {
            Operand::Reg(r) => self.plain(class | BY_REG | op.code(), to, r, 0, 0),
            Operand::Value(v) => self.plain(class | op.code(), to, Reg(0), 0, v),
        }
    }
    /// `to = from`.
    pub fn mov(&mut self, to: Reg, from: impl Into<Operand>) {
        self.op(Op::Mov, to, from);
    }
    /// The lower bytes of what was loaded are a number in the order of the network: turned into the processor's.
    pub fn from_network(&mut self, size: Size, r: Reg) {
        if size != Size::Byte {
            self.plain(TO_BE, r, Reg(0), 0, i32::from(size.bytes()) * 8);
        }
    }
    /// `to = value`.
    pub fn number(&mut self, to: Reg, value: u64) {
        match i32::try_from(value) {
            Ok(v) => self.mov(to, v),
            Err(_) => self.items.push(Item::Number(to, value)),
        }
    }
    /// `to = the map`.
    pub fn map(&mut self, to: Reg, map: MapRef) {
        self.items.push(Item::Map(to, map));
    }
    /// Goes to `l`.
    pub fn jump(&mut self, l: Label) {
        self.items.push(Item::Jump(None, l));
    }
    /// Goes to `l` when this holds of 64 bits.
    pub fn jump_if(&mut self, a: Reg, when: When, b: impl Into<Operand>, l: Label) {
        self.condition(JMP, a, when, b.into(), l);
    }
    /// The same of the lower 32 bits.
    pub fn jump_if32(&mut self, a: Reg, when: When, b: impl Into<Operand>, l: Label) {
        self.condition(JMP32, a, when, b.into(), l);
    }
    fn condition(&mut self, class: u8, a: Reg, when: When, b: Operand, l: Label) {
        let c = Condition { when, class, a, b };
        self.items.push(Item::Jump(Some(c), l));
    }
    /// Calls the kernel. Registers 1 to 5 are lost.
    pub fn call(&mut self, helper: Helper) {
        self.plain(CALL, Reg(0), Reg(0), 0, helper.number());
    }
    /// Ends with what is in register 0.
    pub fn exit(&mut self) {
        self.plain(EXIT, Reg(0), Reg(0), 0, 0);
    }

    /// The code.
    ///
    /// # Errors
    /// It is too long, or jumps nowhere.
    pub fn finish(mut self) -> Result<Code, AssembleError> {
        self.prune();
        let mut far = vec![false; self.items.len()];
        // Bound: each round but the last one makes one jump longer at least
        let starts = loop {
            let starts = self.starts(&far);
            let mut changed = false;
            for (i, item) in self.items.iter().enumerate() {
                if let Item::Jump(_, l) = item
                    && !far[i]
                    && i16::try_from(self.distance(&starts, i, *l, 1)?).is_err()
                {
                    far[i] = true;
                    changed = true;
                }
            }
            if !changed {
                break starts;
            }
        };
        let total = starts.last().copied().unwrap_or(0);
        if total > MAX_INSTRUCTIONS {
            return Err(AssembleError::TooLong(total));
        }
        let mut out = Vec::with_capacity(total);
        for (i, item) in self.items.iter().enumerate() {
            match *item {
                Item::Plain(p) => out.push(p),
                Item::Number(r, v) => {
                    out.push(Instruction::new(LD_IMM64, r.0, 0, 0, v as i32));
                    out.push(Instruction::new(0, 0, 0, 0, (v >> 32) as i32));
                }
                Item::Map(r, m) => {
                    out.push(Instruction::new(LD_IMM64, r.0, PSEUDO_MAP, 0, m.0 as i32));
                    out.push(Instruction::new(0, 0, 0, 0, 0));
                }
                Item::Jump(c, l) if !far[i] => {
                    let d = self.distance(&starts, i, l, 1)? as i16;
                    out.push(match c {
                        None => Instruction::new(JA, 0, 0, d, 0),
                        Some(c) => c.encoded(c.when, d),
                    });
                }
                Item::Jump(c, l) => {
                    if let Some(c) = c {
                        out.push(c.encoded(c.when.opposite(), 1));
                    }
                    let own = if c.is_some() { 2 } else { 1 };
                    let d = self.distance(&starts, i, l, own)? as i32;
                    out.push(Instruction::new(JA_FAR, 0, 0, 0, d));
                }
            }
        }
        let at = |i: &usize| starts.get(*i).copied().unwrap_or(total);
        let mut notes: BTreeMap<usize, String> = BTreeMap::new();
        for (i, text) in &self.notes {
            let all = notes.entry(at(i)).or_default();
            if !all.is_empty() {
                all.push_str("; ");
            }
            all.push_str(text);
        }
        Ok(Code {
            instructions: out,
            notes,
        })
    }

    /// Leaves out what nothing leads to: the kernel refuses it.
    fn prune(&mut self) {
        let mut reached = vec![false; self.items.len()];
        let mut todo = vec![0];
        // Bound: each item once
        while let Some(i) = todo.pop() {
            match reached.get_mut(i) {
                Some(r) if !*r => *r = true,
                _ => continue,
            }
            match self.items.get(i) {
                Some(Item::Jump(c, l)) => {
                    todo.extend(self.places.get(l.0 as usize).copied().flatten());
                    if c.is_some() {
                        todo.push(i + 1);
                    }
                }
                Some(Item::Plain(p)) if p.code == EXIT => {}
                _ => todo.push(i + 1),
            }
        }
        // where items are then: a label in front of some that are gone is at the next one that is left
        let mut moved = Vec::with_capacity(reached.len() + 1);
        let mut n = 0;
        for r in &reached {
            moved.push(n);
            n += usize::from(*r);
        }
        moved.push(n);
        let mut r = reached.iter();
        self.items.retain(|_| r.next() == Some(&true));
        for p in self.places.iter_mut().flatten() {
            *p = moved.get(*p).copied().unwrap_or(n);
        }
        for (at, _) in &mut self.notes {
            *at = moved.get(*at).copied().unwrap_or(n);
        }
    }

    /// Where each item begins, and where the last one ends.
    fn starts(&self, far: &[bool]) -> Vec<usize> {
        let mut at = 0;
        let mut starts = Vec::with_capacity(self.items.len() + 1);
        for (item, far) in self.items.iter().zip(far) {
            starts.push(at);
            at += match item {
                Item::Plain(_) => 1,
                Item::Number(..) | Item::Map(..) => 2,
                Item::Jump(Some(_), _) if *far => 2,
                Item::Jump(..) => 1,
            };
        }
        starts.push(at);
        starts
    }

    /// From behind a jump of `own` instructions to its label.
    fn distance(
        &self,
        starts: &[usize],
        item: usize,
        l: Label,
        own: usize,
    ) -> Result<i64, AssembleError> {
        let place = self.places.get(l.0 as usize).copied().flatten();
        let to = place.and_then(|p| starts.get(p));
        match (to, starts.get(item)) {
            (Some(to), Some(from)) => Ok(*to as i64 - (*from + own) as i64),
            _ => Err(AssembleError::NoPlace),
        }
    }
}

impl Condition {
    fn encoded(self, when: When, offset: i16) -> Instruction {
        let code = self.class | when.code();
        match self.b {
            Operand::Reg(r) => Instruction::new(code | BY_REG, self.a.0, r.0, offset, 0),
            Operand::Value(v) => Instruction::new(code, self.a.0, 0, offset, v),
        }
    }
}

impl Code {
    /// The instructions, with these descriptors for the maps.
    pub fn bound(&self, maps: &[i32]) -> Vec<Instruction> {
        let mut all = self.instructions.clone();
        let mut wide = false;
        for i in &mut all {
            // the second half of a wide one says nothing by itself
            if std::mem::take(&mut wide) {
                continue;
            }
            wide = i.code == LD_IMM64;
            if wide && i.from() == PSEUDO_MAP {
                i.value = maps.get(i.value as usize).copied().unwrap_or(-1);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let mut a = Assembler::default();
        let end = a.label();
        a.load(Size::Word, Reg(2), Reg(1), 16);
        a.map(Reg(1), MapRef(0));
        a.mov(Reg(3), 2);
        a.jump_if32(Reg(2), When::Gt, 7, end);
        a.call(Helper::RedirectMap);
        a.place(end);
        a.exit();
        let code = a.finish().unwrap();
        let i = code.bound(&[9]);
        let bytes = |i: &Instruction| (i.code, i.registers, i.offset, i.value);
        let all: Vec<_> = i.iter().map(bytes).collect();
        assert_eq!(size_of::<Instruction>(), 8);
        let wanted = [
            (0x61, 0x12, 16, 0),
            (0x18, 0x11, 0, 9),
            (0, 0, 0, 0),
            (0xb7, 3, 0, 2),
            (0x26, 2, 1, 7),
            (0x85, 0, 0, 51),
            (0x95, 0, 0, 0),
        ];
        assert_eq!(all, wanted);
    }

    #[test]
    fn far_jumps_reach_their_label() {
        let mut a = Assembler::default();
        let (near, far) = (a.label(), a.label());
        a.jump_if(Reg(1), When::Eq, 3, far);
        a.jump(near);
        a.place(near);
        for _ in 0..40_000 {
            a.mov(Reg(0), 0);
        }
        a.jump(near);
        a.place(far);
        a.exit();
        let code = a.finish().unwrap().instructions;
        assert_eq!((code[0].code, code[0].offset), (0x55, 1));
        assert_eq!(code[1].code, JA_FAR);
        assert_eq!(code[(2 + code[1].value) as usize].code, EXIT);
        let back = code[code.len() - 2];
        assert_eq!(back.code, JA_FAR);
        assert_eq!(code.len() as i64 - 1 + i64::from(back.value), 3);
    }

    #[test]
    fn what_nothing_leads_to_is_left_out() {
        let mut a = Assembler::default();
        let (over, end) = (a.label(), a.label());
        a.jump(over);
        a.mov(Reg(0), 7);
        a.jump(end);
        a.place(over);
        a.mov(Reg(0), 1);
        a.jump(end);
        a.exit();
        a.place(end);
        a.exit();
        a.mov(Reg(0), 9);
        let text = a.finish().unwrap().text();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines, ["0: goto 1", "1: r0 = 1", "2: goto 3", "3: exit"]);
    }

    #[test]
    fn a_label_without_a_place_is_refused() {
        let mut a = Assembler::default();
        let l = a.label();
        a.jump(l);
        assert_eq!(a.finish(), Err(AssembleError::NoPlace));
    }
}
