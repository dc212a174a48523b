//! Shorthands that models are written with.

use super::{
    AT_ZERO, Base, Case, Cond, Exit, FieldRef, Fix, HeaderCheck, Model, Op, Read, Value, ValueSet,
    bytes, field,
};

/// Cause of punts: the transport header is not 20 bytes behind the network header.
pub const OPTIONS: &str = "IP options";
/// Cause of punts: a later fragment, where ports are looked at.
pub const FRAGMENT: &str = "fragment";
/// Cause of punts: the packet ends within its transport header.
pub const CUT_OFF: &str = "transport header cut off";

/// The value read is this number.
pub fn is(r: Read, v: u128) -> Cond {
    Cond::In(r, ValueSet::one(v))
}

/// The value read is another number.
pub fn is_not(r: Read, v: u128) -> Cond {
    Cond::In(r, ValueSet::one(v).complement(r.width()))
}

/// The field has another value.
pub fn ne(f: FieldRef, v: u128) -> Cond {
    is_not(Read::Field(f), v)
}

/// No network header is marked.
pub fn no_net() -> Cond {
    is(Read::HasNet, 0)
}

/// The question about the marked network header is answered with no.
pub fn fails(check: HeaderCheck) -> Cond {
    let base = Base::Net;
    is(
        Read::Check {
            check,
            base,
            offset: 0,
        },
        0,
    )
}

/// A header begins at the packet's first byte.
pub fn at_start(base: Base) -> Cond {
    is(Read::At(base), AT_ZERO)
}

/// A header is not marked, or begins before the packet's first byte.
pub fn before_start(base: Base) -> Cond {
    Cond::less(Read::At(base), AT_ZERO)
}

/// Writes a number; no checksum follows.
pub fn set(f: FieldRef, v: u128) -> Op {
    Op::Write {
        field: f,
        value: Value::Const(v),
        fix: Fix::Nothing,
    }
}

/// Writes what stood elsewhere; no checksum follows.
pub fn copy(f: FieldRef, from: FieldRef) -> Op {
    Op::Write {
        field: f,
        value: Value::Of(Read::Field(from)),
        fix: Fix::Nothing,
    }
}

/// Writes bytes, in fields of up to sixteen.
pub fn set_bytes(base: Base, at: u16, b: &[u8]) -> impl Iterator<Item = Op> {
    let chunks = b.chunks(16).zip((at..).step_by(16));
    chunks.map(move |(c, at)| {
        let v = c.iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
        set(bytes(base, at, c.len() as u8), v)
    })
}

/// Writes an Ethernet header at the packet's start.
pub fn set_ether(dst: [u8; 6], src: [u8; 6]) -> [Op; 2] {
    let number = |a: [u8; 6]| a.iter().fold(0u128, |v, b| v << 8 | u128::from(*b));
    [
        set(field::ETH_DST, number(dst)),
        set(field::ETH_SRC, number(src)),
    ]
}

/// A list of cases that grows.
#[derive(Debug, Clone, Default)]
pub struct Cases(Vec<Case>);

impl Cases {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Another case.
    pub fn case(mut self, when: Cond, ops: impl IntoIterator<Item = Op>, exit: Exit) -> Self {
        self.0.push(Case::new(when, exit).with(ops));
        self
    }
    /// Another case, of which the argument says where it comes from.
    pub fn push(mut self, c: Case) -> Self {
        self.0.push(c);
        self
    }
    /// The packet is punted.
    pub fn punt(self, when: Cond, cause: &'static str) -> Self {
        self.case(when, [], Exit::Punt(cause))
    }
    /// No network header is marked, or less than 20 bytes of it are there.
    pub fn no_ip(self, ops: impl IntoIterator<Item = Op>, exit: Exit) -> Self {
        let ops: Vec<Op> = ops.into_iter().collect();
        self.case(no_net(), ops.clone(), exit.clone())
            .case(Cond::less(Read::NetLen, 20), ops, exit)
    }
    /// Packets with IP options are punted.
    pub fn no_options(self) -> Self {
        self.punt(ne(field::IP_IHL, 5), OPTIONS)
    }
    /// What is left.
    pub fn otherwise(self, ops: impl IntoIterator<Item = Op>, exit: Exit) -> Model {
        Model::Cases(self.case(Cond::Always, ops, exit).0)
    }
    /// What is left is punted.
    pub fn otherwise_punt(self, cause: &'static str) -> Model {
        self.otherwise([], Exit::Punt(cause))
    }
    /// The list, known to be exhaustive.
    pub fn done(self) -> Model {
        Model::Cases(self.0)
    }
}
