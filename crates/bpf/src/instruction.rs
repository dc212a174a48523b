//! One instruction, as the kernel reads it (RFC 9669).

/// An instruction (`struct bpf_insn`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Instruction {
    /// Class, and what it does.
    pub code: u8,
    /// Destination in the lower half, source in the upper one.
    pub registers: u8,
    /// Bytes from a pointer, or instructions to jump over.
    pub offset: i16,
    /// An immediate number.
    pub value: i32,
}

impl Instruction {
    /// All of them as they lie in memory, eight bytes each.
    pub fn bytes_of(all: &[Instruction]) -> Vec<u8> {
        let one = |i: &Instruction| {
            let [a, b] = i.offset.to_ne_bytes();
            let [c, d, e, f] = i.value.to_ne_bytes();
            [i.code, i.registers, a, b, c, d, e, f]
        };
        all.iter().flat_map(one).collect()
    }

    /// The other way; `None`: no whole number of them.
    pub fn all_of(bytes: &[u8]) -> Option<Vec<Instruction>> {
        let (all, rest) = bytes.as_chunks::<8>();
        let one = |[code, registers, a, b, c, d, e, f]: &[u8; 8]| Instruction {
            code: *code,
            registers: *registers,
            offset: i16::from_ne_bytes([*a, *b]),
            value: i32::from_ne_bytes([*c, *d, *e, *f]),
        };
        rest.is_empty().then(|| all.iter().map(one).collect())
    }
}

/// A register: 0 is the result, 1 to 5 arguments, 6 to 9 are kept across calls, 10 is the end of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u8);

/// How wide a load or store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Size {
    /// One byte.
    Byte,
    /// Two.
    Half,
    /// Four.
    Word,
    /// Eight.
    Double,
}

impl Size {
    /// Bytes.
    pub fn bytes(self) -> u16 {
        match self {
            Size::Byte => 1,
            Size::Half => 2,
            Size::Word => 4,
            Size::Double => 8,
        }
    }
    pub(crate) fn code(self) -> u8 {
        match self {
            Size::Byte => 0x10,
            Size::Half => 0x08,
            Size::Word => 0x00,
            Size::Double => 0x18,
        }
    }
    pub(crate) fn of(code: u8) -> Size {
        match code & 0x18 {
            0x10 => Size::Byte,
            0x08 => Size::Half,
            0x00 => Size::Word,
            _ => Size::Double,
        }
    }
}

/// What is done to a register's 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Plus.
    Add,
    /// Minus.
    Sub,
    /// Times.
    Mul,
    /// Divided by, unsigned; zero where that is zero.
    Div,
    /// Bits of either.
    Or,
    /// Bits of both.
    And,
    /// Shifted to the left.
    Shl,
    /// Shifted to the right, zeros coming in.
    Shr,
    /// Bits of one of them.
    Xor,
    /// Replaced.
    Mov,
}

impl Op {
    pub(crate) const ALL: [(Op, u8, &'static str); 10] = [
        (Op::Add, 0x00, "+="),
        (Op::Sub, 0x10, "-="),
        (Op::Mul, 0x20, "*="),
        (Op::Div, 0x30, "/="),
        (Op::Or, 0x40, "|="),
        (Op::And, 0x50, "&="),
        (Op::Shl, 0x60, "<<="),
        (Op::Shr, 0x70, ">>="),
        (Op::Xor, 0xa0, "^="),
        (Op::Mov, 0xb0, "="),
    ];
    pub(crate) fn code(self) -> u8 {
        Op::ALL.iter().find(|o| o.0 == self).map_or(0xb0, |o| o.1)
    }
    pub(crate) fn of(code: u8) -> Option<Op> {
        let o = Op::ALL.iter().find(|o| o.1 == code & 0xf0)?;
        Some(o.0)
    }
    pub(crate) fn sign(self) -> &'static str {
        Op::ALL.iter().find(|o| o.0 == self).map_or("?", |o| o.2)
    }
}

/// When a jump is taken; numbers are unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
}

impl When {
    pub(crate) const ALL: [(When, u8, &'static str); 6] = [
        (When::Eq, 0x10, "=="),
        (When::Ne, 0x50, "!="),
        (When::Gt, 0x20, ">"),
        (When::Ge, 0x30, ">="),
        (When::Lt, 0xa0, "<"),
        (When::Le, 0xb0, "<="),
    ];
    pub(crate) fn code(self) -> u8 {
        When::ALL.iter().find(|w| w.0 == self).map_or(0, |w| w.1)
    }
    pub(crate) fn of(code: u8) -> Option<When> {
        let w = When::ALL.iter().find(|w| w.1 == code & 0xf0)?;
        Some(w.0)
    }
    pub(crate) fn sign(self) -> &'static str {
        When::ALL.iter().find(|w| w.0 == self).map_or("?", |w| w.2)
    }
    /// When it is not.
    pub fn opposite(self) -> When {
        match self {
            When::Eq => When::Ne,
            When::Ne => When::Eq,
            When::Gt => When::Le,
            When::Ge => When::Lt,
            When::Lt => When::Ge,
            When::Le => When::Gt,
        }
    }
    /// Is it so?
    pub fn holds(self, a: u64, b: u64) -> bool {
        match self {
            When::Eq => a == b,
            When::Ne => a != b,
            When::Gt => a > b,
            When::Ge => a >= b,
            When::Lt => a < b,
            When::Le => a <= b,
        }
    }
}

// classes of instructions, in the lower three bits
pub(crate) const LDX: u8 = 0x01;
pub(crate) const STX: u8 = 0x03;
pub(crate) const ALU32: u8 = 0x04;
pub(crate) const JMP: u8 = 0x05;
pub(crate) const JMP32: u8 = 0x06;
pub(crate) const ALU64: u8 = 0x07;
/// The second operand is a register, not the immediate number.
pub(crate) const BY_REG: u8 = 0x08;
/// Bytes behind a pointer.
pub(crate) const MEM: u8 = 0x60;
/// First half of a load of 64 bits; its source register says of what.
pub(crate) const LD_IMM64: u8 = 0x18;
/// There: a map.
pub(crate) const PSEUDO_MAP: u8 = 1;
/// To big-endian, or from it.
pub(crate) const TO_BE: u8 = 0xdc;
pub(crate) const JA: u8 = 0x05;
/// A jump whose distance is the immediate number (Linux 6.6).
pub(crate) const JA_FAR: u8 = 0x06;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;

impl Instruction {
    pub(crate) const fn new(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
        Instruction {
            code,
            registers: to | from << 4,
            offset,
            value,
        }
    }
    /// Destination.
    pub fn to(self) -> u8 {
        self.registers & 15
    }
    /// Source.
    pub fn from(self) -> u8 {
        self.registers >> 4
    }
}
