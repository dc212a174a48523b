//! Code carried out here, as the kernel would: where there is no right to load it, and to hold the kernel's answer
//! against.
//!
//! It knows what [`crate::Assembler`] makes. Every access is checked; what the kernel's verifier would refuse is an
//! [`Fault`] here.

use crate::assembler::{Code, Helper};
use crate::instruction::{
    ALU32, ALU64, BY_REG, CALL, EXIT, Instruction, JA, JA_FAR, JMP, JMP32, LD_IMM64, LDX, Op,
    PSEUDO_MAP, STX, Size, TO_BE, When,
};

/// Most instructions that are carried out for a frame.
const MOST_STEPS: usize = 1_000_000;
const STACK: usize = 512;

// what a register may point at: addresses of things begin here
const CONTEXT: u64 = 1 << 40;
const FRAME: u64 = 2 << 40;
const STACK_END: u64 = 3 << 40;
const VALUES: u64 = 4 << 40;
const MAPS: u64 = 5 << 40;

/// A map, as far as programs see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Table {
    /// Numbers from 0 to values of so many bytes each, one after the other.
    Array {
        /// Bytes of a value.
        value: usize,
        /// All values.
        data: Vec<u8>,
    },
    /// Where frames are redirected to: which places have somebody.
    Targets(Vec<bool>),
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What the program gives back.
    pub result: u64,
    /// The place that `redirect_map` was asked for, at last.
    pub redirected: Option<u64>,
}

/// What the kernel would not have let happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Memory that is not the program's.
    #[error("instruction {0}: memory that is not the program's")]
    Memory(usize),
    /// An instruction that is none, or behind the end.
    #[error("instruction {0}: unknown")]
    Unknown(usize),
    /// It does not end.
    #[error("more than {MOST_STEPS} instructions")]
    Endless,
}

struct Machine<'a> {
    r: [u64; 11],
    stack: [u8; STACK],
    frame: &'a [u8],
    queue: u32,
    tables: &'a mut [Table],
    redirected: Option<u64>,
}

/// Carries out a program for a frame that has arrived at this receive queue.
///
/// # Errors
/// See [`Fault`].
pub fn interpret(
    code: &Code,
    tables: &mut [Table],
    frame: &[u8],
    queue: u32,
) -> Result<Answer, Fault> {
    let mut m = Machine {
        r: [0; 11],
        stack: [0; STACK],
        frame,
        queue,
        tables,
        redirected: None,
    };
    m.r[1] = CONTEXT;
    m.r[10] = STACK_END;
    let all = &code.instructions;
    let mut at = 0usize;
    for _ in 0..MOST_STEPS {
        let i = *all.get(at).ok_or(Fault::Unknown(at))?;
        if i.code == EXIT {
            return Ok(Answer {
                result: m.r[0],
                redirected: m.redirected,
            });
        }
        let next = all.get(at + 1).copied();
        let over = m.step(at, i, next)?;
        at = usize::try_from(at as i64 + 1 + over).map_err(|_| Fault::Unknown(at))?;
    }
    Err(Fault::Endless)
}

impl Machine<'_> {
    /// One instruction; how many are jumped over.
    fn step(&mut self, at: usize, i: Instruction, next: Option<Instruction>) -> Result<i64, Fault> {
        let unknown = Fault::Unknown(at);
        let (to, from) = (usize::from(i.to()), usize::from(i.from()));
        if to > 10 || from > 10 {
            return Err(unknown);
        }
        let by = match i.code & BY_REG {
            0 => i64::from(i.value) as u64,
            _ => self.r[from],
        };
        match (i.code & 7, i.code) {
            (_, LD_IMM64) => {
                let high = next.ok_or(unknown)?.value as u32;
                let v = u64::from(i.value as u32) | u64::from(high) << 32;
                self.r[to] = match i.from() {
                    PSEUDO_MAP => MAPS + v,
                    _ => v,
                };
                return Ok(1);
            }
            (_, JA) => return Ok(i.offset.into()),
            (_, JA_FAR) => return Ok(i.value.into()),
            (_, CALL) => self.call(Helper::of(i.value).ok_or(unknown)?, at)?,
            (_, TO_BE) => {
                let v = self.r[to];
                self.r[to] = match i.value {
                    16 => (v as u16).swap_bytes().into(),
                    32 => (v as u32).swap_bytes().into(),
                    64 => v.swap_bytes(),
                    _ => return Err(unknown),
                };
            }
            (LDX, c) => {
                let address = self.r[from].wrapping_add(i64::from(i.offset) as u64);
                let v = self.read(address, Size::of(c));
                self.r[to] = v.ok_or(Fault::Memory(at))?;
            }
            (STX, c) => {
                let address = self.r[to].wrapping_add(i64::from(i.offset) as u64);
                let done = self.write(address, Size::of(c), self.r[from]);
                done.ok_or(Fault::Memory(at))?;
            }
            (ALU64, c) => self.r[to] = apply(Op::of(c).ok_or(unknown)?, self.r[to], by, 63),
            (ALU32, c) => {
                let (a, b) = (u64::from(self.r[to] as u32), u64::from(by as u32));
                let v = apply(Op::of(c).ok_or(unknown)?, a, b, 31);
                self.r[to] = u64::from(v as u32);
            }
            (JMP, c) => {
                let when = When::of(c).ok_or(unknown)?;
                return Ok(taken(when.holds(self.r[to], by), i));
            }
            (JMP32, c) => {
                let when = When::of(c).ok_or(unknown)?;
                let (a, b) = (u64::from(self.r[to] as u32), u64::from(by as u32));
                return Ok(taken(when.holds(a, b), i));
            }
            _ => return Err(unknown),
        }
        Ok(0)
    }

    fn read(&self, address: u64, size: Size) -> Option<u64> {
        let n = usize::from(size.bytes());
        if (CONTEXT..FRAME).contains(&address) {
            // struct xdp_md
            return match address - CONTEXT {
                0 => Some(FRAME),
                4 => Some(FRAME + self.frame.len() as u64),
                16 => Some(self.queue.into()),
                _ => None,
            };
        }
        let bytes = match address {
            a if a >= MAPS => return None,
            a if a >= VALUES => self.value(a - VALUES, n)?,
            a if a >= FRAME && a < STACK_END - STACK as u64 => {
                let at = usize::try_from(a - FRAME).ok()?;
                self.frame.get(at..at.checked_add(n)?)?
            }
            a => {
                let at = usize::try_from(a.checked_sub(STACK_END - STACK as u64)?).ok()?;
                self.stack.get(at..at.checked_add(n)?)?
            }
        };
        let mut all = [0; 8];
        all.get_mut(..n)?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(all))
    }

    /// Bytes of a map's value: the map's number is in the upper half.
    fn value(&self, place: u64, n: usize) -> Option<&[u8]> {
        let Table::Array { data, .. } = self.tables.get((place >> 32) as usize)? else {
            return None;
        };
        let at = (place & 0xffff_ffff) as usize;
        data.get(at..at.checked_add(n)?)
    }

    fn write(&mut self, address: u64, size: Size, v: u64) -> Option<()> {
        let n = usize::from(size.bytes());
        let bytes = v.to_le_bytes();
        let to = if (VALUES..MAPS).contains(&address) {
            let place = address - VALUES;
            let at = (place & 0xffff_ffff) as usize;
            match self.tables.get_mut((place >> 32) as usize)? {
                Table::Array { data, .. } => data.get_mut(at..at.checked_add(n)?)?,
                Table::Targets(_) => return None,
            }
        } else {
            let at = usize::try_from(address.checked_sub(STACK_END - STACK as u64)?).ok()?;
            self.stack.get_mut(at..at.checked_add(n)?)?
        };
        to.copy_from_slice(bytes.get(..n)?);
        Some(())
    }

    fn call(&mut self, helper: Helper, at: usize) -> Result<(), Fault> {
        let fault = Fault::Memory(at);
        let map = self.r[1].checked_sub(MAPS).ok_or(fault)? as usize;
        self.r[0] = match helper {
            Helper::Lookup => {
                let key = self.read(self.r[2], Size::Word).ok_or(fault)? as usize;
                match self.tables.get(map).ok_or(fault)? {
                    Table::Array { value, data } if key < data.len() / value => {
                        VALUES + ((map as u64) << 32) + (key * value) as u64
                    }
                    Table::Array { .. } => 0,
                    Table::Targets(_) => return Err(fault),
                }
            }
            Helper::RedirectMap => {
                let index = self.r[2] & 0xffff_ffff;
                self.redirected = Some(index);
                match self.tables.get(map).ok_or(fault)? {
                    // XDP_REDIRECT
                    Table::Targets(t) if t.get(index as usize) == Some(&true) => 4,
                    Table::Targets(_) => self.r[3] & 3,
                    Table::Array { .. } => return Err(fault),
                }
            }
        };
        // nobody may count on them
        self.r[1..6].fill(0xdead_dead_dead_dead);
        Ok(())
    }
}

fn taken(holds: bool, i: Instruction) -> i64 {
    match holds {
        true => i.offset.into(),
        false => 0,
    }
}

/// `bits`: the highest one's number, for shifts.
fn apply(op: Op, a: u64, b: u64, bits: u64) -> u64 {
    match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::Mul => a.wrapping_mul(b),
        Op::Div => a.checked_div(b).unwrap_or(0),
        Op::Or => a | b,
        Op::And => a & b,
        Op::Shl => a << (b & bits),
        Op::Shr => a >> (b & bits),
        Op::Xor => a ^ b,
        Op::Mov => b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Assembler, MapRef, Reg};

    #[test]
    fn a_program_that_counts_and_redirects() {
        let mut a = Assembler::default();
        let short = a.label();
        a.load(Size::Word, Reg(7), Reg(1), 0);
        a.load(Size::Word, Reg(8), Reg(1), 4);
        a.mov(Reg(2), Reg(7));
        a.op(Op::Add, Reg(2), 14);
        a.jump_if(Reg(2), When::Gt, Reg(8), short);
        a.load(Size::Half, Reg(3), Reg(7), 12);
        a.from_network(Size::Half, Reg(3));
        a.op(Op::And, Reg(3), 1);
        a.store(Size::Word, Reg(10), -4, Reg(3));
        a.mov(Reg(2), Reg(10));
        a.op(Op::Add, Reg(2), -4);
        a.map(Reg(1), MapRef(0));
        a.call(Helper::Lookup);
        a.jump_if(Reg(0), When::Eq, 0, short);
        a.load(Size::Double, Reg(1), Reg(0), 0);
        a.op(Op::Add, Reg(1), 1);
        a.store(Size::Double, Reg(0), 0, Reg(1));
        a.map(Reg(1), MapRef(1));
        a.mov(Reg(2), 0);
        a.mov(Reg(3), 2);
        a.call(Helper::RedirectMap);
        a.exit();
        a.place(short);
        a.mov(Reg(0), 2);
        a.exit();
        let code = a.finish().unwrap();
        let array = Table::Array {
            value: 8,
            data: vec![0; 16],
        };
        let mut tables = [array, Table::Targets(vec![true])];
        let mut frame = [0; 14];
        frame[13] = 1;
        let answer = interpret(&code, &mut tables, &frame, 0).unwrap();
        assert_eq!((answer.result, answer.redirected), (4, Some(0)));
        let Table::Array { data, .. } = &tables[0] else {
            panic!("an array")
        };
        assert_eq!((data[0], data[8]), (0, 1));
        let answer = interpret(&code, &mut tables, &frame[..13], 0).unwrap();
        assert_eq!((answer.result, answer.redirected), (2, None));
    }

    #[test]
    fn what_the_kernel_would_refuse_is_a_fault() {
        let mut a = Assembler::default();
        a.load(Size::Word, Reg(7), Reg(1), 0);
        a.load(Size::Word, Reg(0), Reg(7), 60);
        a.exit();
        let code = a.finish().unwrap();
        let got = interpret(&code, &mut [], &[0; 60], 0);
        assert_eq!(got, Err(Fault::Memory(1)));
        let mut a = Assembler::default();
        let again = a.label();
        a.place(again);
        a.jump(again);
        let code = a.finish().unwrap();
        assert_eq!(interpret(&code, &mut [], &[], 0), Err(Fault::Endless));
    }
}
