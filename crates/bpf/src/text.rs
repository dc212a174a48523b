//! Code as people read it.

use crate::assembler::{Code, Helper};
use crate::instruction::Op;
use crate::instruction::{
    ALU32, ALU64, BY_REG, CALL, EXIT, Instruction, JA, JA_FAR, JMP, JMP32, LD_IMM64, LDX,
    PSEUDO_MAP, STX, Size, TO_BE, When,
};
use std::fmt::Write;

impl Code {
    /// A line for each instruction, with its number; notes stand in front of what they are about.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut all = self.instructions.iter().enumerate();
        while let Some((i, one)) = all.next() {
            if let Some(note) = self.notes.get(&i) {
                let _ = writeln!(out, "; {note}");
            }
            let line = match one.code {
                LD_IMM64 => {
                    let high = all.next().map_or(0, |(_, h)| h.value);
                    wide(one, high)
                }
                _ => line(i, one),
            };
            let _ = writeln!(out, "{i:6}: {line}");
        }
        out
    }
}

fn wide(i: &Instruction, high: i32) -> String {
    match i.from() {
        PSEUDO_MAP => format!("r{} = map {}", i.to(), i.value),
        _ => {
            let v = u64::from(i.value as u32) | u64::from(high as u32) << 32;
            format!("r{} = {v:#x}", i.to())
        }
    }
}

fn kind(s: Size) -> &'static str {
    match s {
        Size::Byte => "u8",
        Size::Half => "u16",
        Size::Word => "u32",
        Size::Double => "u64",
    }
}

fn line(at: usize, i: &Instruction) -> String {
    let (to, from) = (i.to(), i.from());
    let place = |r: u8| match i.offset {
        0 => format!("r{r}"),
        n if n < 0 => format!("r{r} - {}", -i32::from(n)),
        n => format!("r{r} + {n}"),
    };
    let jump = |d: i64| (at as i64 + 1 + d).to_string();
    let by = |w: &str| match i.code & BY_REG {
        0 => i.value.to_string(),
        _ => format!("{w}{from}"),
    };
    match (i.code & 7, i.code) {
        (_, EXIT) => "exit".to_string(),
        (_, CALL) => match Helper::of(i.value) {
            Some(Helper::Lookup) => "r0 = map_lookup_elem(r1, r2)".to_string(),
            Some(Helper::RedirectMap) => "r0 = redirect_map(r1, r2, r3)".to_string(),
            None => format!("r0 = call {}", i.value),
        },
        (_, JA) => format!("goto {}", jump(i.offset.into())),
        (_, JA_FAR) => format!("goto {}", jump(i.value.into())),
        (_, TO_BE) => format!("r{to} = be{} r{to}", i.value),
        (LDX, c) => format!("r{to} = *({} *)({})", kind(Size::of(c)), place(from)),
        (STX, c) => format!("*({} *)({}) = r{from}", kind(Size::of(c)), place(to)),
        (class @ (ALU64 | ALU32), c) => {
            let w = if class == ALU32 { "w" } else { "r" };
            let sign = Op::of(c).map_or("?", Op::sign);
            format!("{w}{to} {sign} {}", by(w))
        }
        (class @ (JMP | JMP32), c) => {
            let w = if class == JMP32 { "w" } else { "r" };
            let sign = When::of(c).map_or("?", When::sign);
            let than = match i.code & BY_REG {
                // of 32 bits, unsigned
                0 if class == JMP32 => (i.value as u32).to_string(),
                _ => by(w),
            };
            format!("if {w}{to} {sign} {than} goto {}", jump(i.offset.into()))
        }
        _ => format!("{:#04x} r{to} r{from} {} {}", i.code, i.offset, i.value),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Assembler, Helper, MapRef, Op, Reg, Size, When};

    #[test]
    fn lines() {
        let mut a = Assembler::default();
        let end = a.label();
        a.note("what kind of frame");
        a.load(Size::Half, Reg(1), Reg(7), 12);
        a.from_network(Size::Half, Reg(1));
        a.jump_if32(Reg(1), When::Ne, 0x800, end);
        a.number(Reg(3), 0xffff_ffff_0000);
        a.op(Op::And, Reg(1), Reg(3));
        a.map(Reg(1), MapRef(1));
        a.call(Helper::Lookup);
        a.store(Size::Word, Reg(10), -4, Reg(1));
        a.place(end);
        a.exit();
        let text = a.finish().unwrap().text();
        let wanted = [
            "; what kind of frame",
            "0: r1 = *(u16 *)(r7 + 12)",
            "1: r1 = be16 r1",
            "2: if w1 != 2048 goto 10",
            "3: r3 = 0xffffffff0000",
            "5: r1 &= r3",
            "6: r1 = map 1",
            "8: r0 = map_lookup_elem(r1, r2)",
            "9: *(u32 *)(r10 - 4) = r1",
            "10: exit",
        ];
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines, wanted);
    }
}
