//! Code for one question about a frame.
//!
//! Registers: 6 is the context, 7 the frame's first byte, 8 the byte behind its last one, 9 its length. 0 to 5 are free
//! between questions.

use onefold_bpf::{Assembler, Label, Op, Reg, Size, When};
use onefold_element::model::{HeaderCheck, ValueSet, max_of};
use onefold_synth::program::Dim;

pub(crate) const CONTEXT: Reg = Reg(6);
pub(crate) const FRAME: Reg = Reg(7);
pub(crate) const FRAME_END: Reg = Reg(8);
pub(crate) const LENGTH: Reg = Reg(9);
pub(crate) const STACK: Reg = Reg(10);
/// The value that is asked about, and its upper half where it has more than 64 bits.
pub(crate) const VALUE: Reg = Reg(1);
const UPPER: Reg = Reg(2);
pub(crate) const SCRATCH: Reg = Reg(3);
const MASKED: Reg = Reg(4);

/// Intervals that are compared one after the other.
const LINEAR: usize = 3;

/// Goes to `short` unless the frame has so many bytes.
pub(crate) fn require(a: &mut Assembler, bytes: u32, short: Label) {
    a.mov(SCRATCH, FRAME);
    a.op(Op::Add, SCRATCH, bytes as i32);
    a.jump_if(SCRATCH, When::Gt, FRAME_END, short);
}

/// A number of 1, 2, 4 or 8 bytes from the frame, whose bytes are known to be there.
pub(crate) fn number(a: &mut Assembler, to: Reg, at: u32, size: Size) {
    a.load(size, to, FRAME, at as i16);
    a.from_network(size, to);
}

/// Goes to `no` unless the dimension is in the set. The frame's bytes are known to be there; what cannot be told goes
/// to `unknown`.
pub(crate) fn unless(a: &mut Assembler, d: Dim, set: &ValueSet, no: Label, unknown: Label) {
    match d {
        Dim::Len => {
            a.mov(VALUE, LENGTH);
            within(a, set, 32, no);
        }
        Dim::Bits { bit, bits } => {
            bits_of(a, bit as u32, bits);
            within(a, set, bits, no);
        }
        Dim::Check { check, at, .. } => match (set.contains(0), set.contains(1)) {
            (true, true) => {}
            (false, false) => a.jump(no),
            (false, true) => holds(a, check, at as u32, no, unknown),
            (true, false) => {
                let wrong = a.label();
                holds(a, check, at as u32, wrong, unknown);
                a.jump(no);
                a.place(wrong);
            }
        },
        // the code is never asked about these (`class::needs`)
        Dim::Slot(_) | Dim::Anno(_) | Dim::PacketType | Dim::Route { .. } => a.jump(unknown),
    }
}

/// Bits of the frame, in [`VALUE`] and, where there are more than 64, [`UPPER`].
fn bits_of(a: &mut Assembler, bit: u32, bits: u8) {
    let (first, last) = (bit / 8, (bit + u32::from(bits)).div_ceil(8));
    if bits > 64 {
        bytes_of(a, UPPER, first, last - first - 8);
        bytes_of(a, VALUE, last - 8, 8);
        return;
    }
    bytes_of(a, VALUE, first, last - first);
    let behind = last * 8 - (bit + u32::from(bits));
    if behind > 0 {
        a.op(Op::Shr, VALUE, behind as i32);
    }
    // bits in front of them in the first byte
    if !bit.is_multiple_of(8) {
        let mask = max_of(bits) as u64;
        match i32::try_from(mask) {
            Ok(m) => a.op(Op::And, VALUE, m),
            Err(_) => {
                a.number(SCRATCH, mask);
                a.op(Op::And, VALUE, SCRATCH);
            }
        }
    }
}

/// Up to eight bytes as a number.
fn bytes_of(a: &mut Assembler, to: Reg, first: u32, bytes: u32) {
    let (mut at, mut left) = (first, bytes);
    // Bound: four pieces at most
    while left > 0 {
        let size = match left {
            8.. => Size::Double,
            4..8 => Size::Word,
            2..4 => Size::Half,
            _ => Size::Byte,
        };
        if at == first {
            number(a, to, at, size);
        } else {
            number(a, SCRATCH, at, size);
            a.op(Op::Shl, to, i32::from(size.bytes()) * 8);
            a.op(Op::Or, to, SCRATCH);
        }
        at += u32::from(size.bytes());
        left -= u32::from(size.bytes());
    }
}

/// Goes to `no` unless the value of so many bits is in the set.
fn within(a: &mut Assembler, set: &ValueSet, bits: u8, no: Label) {
    let intervals = set.intervals();
    if intervals.len() > LINEAR
        && let Some((mask, value, but)) = as_mask(set, bits)
    {
        a.mov(MASKED, VALUE);
        and(a, MASKED, mask);
        match i32::try_from(value) {
            Ok(v) => a.jump_if(MASKED, When::Ne, v, no),
            Err(_) => {
                a.number(SCRATCH, value);
                a.jump_if(MASKED, When::Ne, SCRATCH, no);
            }
        }
        if !but.is_empty() {
            search(a, but.intervals(), bits, Some(no), None);
        }
        return;
    }
    // the other values take fewer questions
    let others = set.complement(bits);
    if others.intervals().len() < intervals.len() {
        search(a, others.intervals(), bits, Some(no), None);
        return;
    }
    search(a, intervals, bits, None, Some(no));
}

/// The simplest set that has, of the values that are possible, the same ones.
pub(crate) fn simplest(set: &ValueSet, possible: &ValueSet, bits: u8) -> ValueSet {
    let wider = set.union(&possible.complement(bits));
    let narrower = set.intersect(possible);
    let questions = |s: &ValueSet| {
        let n = s
            .intervals()
            .len()
            .min(s.complement(bits).intervals().len());
        match as_mask(s, bits) {
            Some((_, _, but)) => n.min(1 + but.intervals().len()),
            None => n,
        }
    };
    let all = [&wider, set, &narrower];
    let best = all.into_iter().min_by_key(|s| questions(s));
    best.unwrap_or(set).clone()
}

fn and(a: &mut Assembler, to: Reg, mask: u64) {
    match i32::try_from(mask) {
        Ok(m) => a.op(Op::And, to, m),
        Err(_) => {
            a.number(SCRATCH, mask);
            a.op(Op::And, to, SCRATCH);
        }
    }
}

/// The set as all values that have these bits but a few, where it is one.
fn as_mask(set: &ValueSet, bits: u8) -> Option<(u64, u64, ValueSet)> {
    if bits > 64 {
        return None;
    }
    let all = set.intervals();
    let first = all.first()?.0;
    let mut varies = 0u128;
    for (l, h) in all {
        let differs = (l ^ h) | (l ^ first);
        // within an interval all bits below the highest different one vary
        let within = (l ^ h)
            .checked_ilog2()
            .map_or(0, |top| max_of(top as u8 + 1));
        varies |= differs | within;
    }
    let mask = max_of(bits) & !varies;
    if mask == 0 {
        return None;
    }
    let like = ValueSet::masked(mask, first & mask, bits, all.len() + LINEAR)?;
    let but = like.minus(set, bits);
    let few = but.intervals().len() <= LINEAR;
    few.then_some((mask as u64, (first & mask) as u64, but))
}

/// Goes to `inside` where the value is in one of these intervals, and to `outside` where it is not; `None`: goes on.
/// One of both is `None`.
fn search(
    a: &mut Assembler,
    intervals: &[(u128, u128)],
    bits: u8,
    inside: Option<Label>,
    outside: Option<Label>,
) {
    let end = a.label();
    let (is, not) = (inside.unwrap_or(end), outside.unwrap_or(end));
    bisect(a, intervals, bits, (is, not), (0, max_of(bits)), end);
    a.place(end);
}

/// The same with labels for both, of values that are between `low` and `high`; `end` is the place behind.
fn bisect(
    a: &mut Assembler,
    intervals: &[(u128, u128)],
    bits: u8,
    (inside, outside): (Label, Label),
    (low, high): (u128, u128),
    end: Label,
) {
    if intervals.len() <= LINEAR {
        for (l, h) in intervals {
            if l == h {
                compare(a, bits, When::Eq, *l, inside);
                continue;
            }
            if *l > low {
                compare(a, bits, When::Lt, *l, outside);
            }
            if *h >= high {
                if inside != end {
                    a.jump(inside);
                    return;
                }
                a.jump(end);
                return;
            }
            compare(a, bits, When::Le, *h, inside);
        }
        if outside != end {
            a.jump(outside);
        } else {
            a.jump(end);
        }
        return;
    }
    let (left, right) = intervals.split_at(intervals.len() / 2);
    let below = a.label();
    let middle = right.first().map_or(0, |i| i.0);
    compare(a, bits, When::Lt, middle, below);
    bisect(a, right, bits, (inside, outside), (middle, high), end);
    a.place(below);
    let top = middle.saturating_sub(1);
    bisect(a, left, bits, (inside, outside), (low, top), end);
}

/// Goes to `l` when the value compares so with a number.
fn compare(a: &mut Assembler, bits: u8, when: When, with: u128, l: Label) {
    if bits <= 32 {
        a.jump_if32(VALUE, when, with as u32 as i32, l);
        return;
    }
    let (upper, lower) = ((with >> 64) as u64, with as u64);
    if bits <= 64 {
        against(a, VALUE, when, lower, l);
        return;
    }
    let skip = a.label();
    match when {
        When::Eq => {
            against(a, UPPER, When::Ne, upper, skip);
            against(a, VALUE, When::Eq, lower, l);
        }
        When::Ne => {
            against(a, UPPER, When::Ne, upper, l);
            against(a, VALUE, When::Ne, lower, l);
        }
        When::Lt | When::Le | When::Gt | When::Ge => {
            let less = matches!(when, When::Lt | When::Le);
            let strict = if less { When::Lt } else { When::Gt };
            against(a, UPPER, strict, upper, l);
            against(a, UPPER, When::Ne, upper, skip);
            against(a, VALUE, when, lower, l);
        }
    }
    a.place(skip);
}

fn against(a: &mut Assembler, r: Reg, when: When, with: u64, l: Label) {
    match i32::try_from(with) {
        Ok(v) => a.jump_if(r, when, v, l),
        Err(_) => {
            a.number(SCRATCH, with);
            a.jump_if(r, when, SCRATCH, l);
        }
    }
}

/// Goes to `no` unless the answer about the header at byte `at` is yes.
fn holds(a: &mut Assembler, check: HeaderCheck, at: u32, no: Label, unknown: Label) {
    match check {
        HeaderCheck::Ip4Fits => {
            number(a, VALUE, at + 2, Size::Half);
            a.mov(SCRATCH, LENGTH);
            a.op(Op::Sub, SCRATCH, at as i32);
            a.jump_if(VALUE, When::Gt, SCRATCH, no);
        }
        HeaderCheck::Ip6Fits => {
            number(a, VALUE, at + 4, Size::Half);
            a.op(Op::Add, VALUE, 40);
            a.mov(SCRATCH, LENGTH);
            a.op(Op::Sub, SCRATCH, at as i32);
            a.jump_if(VALUE, When::Gt, SCRATCH, no);
        }
        HeaderCheck::Ip4Checksum => {
            number(a, VALUE, at, Size::Byte);
            a.op(Op::And, VALUE, 15);
            // options are summed up, too: such headers are left to the chain
            a.jump_if(VALUE, When::Gt, 5, unknown);
            // RFC 1071: the sum does not depend on the order of bytes
            a.load(Size::Word, VALUE, FRAME, at as i16);
            for word in 1..5 {
                a.load(Size::Word, SCRATCH, FRAME, at as i16 + 4 * word);
                a.op(Op::Add, VALUE, SCRATCH);
            }
            a.mov(SCRATCH, VALUE);
            a.op(Op::Shr, SCRATCH, 32);
            a.op32(Op::Mov, VALUE, VALUE);
            a.op(Op::Add, VALUE, SCRATCH);
            // from 33 bits to 16: carries come twice more
            for _ in 0..3 {
                a.mov(SCRATCH, VALUE);
                a.op(Op::Shr, SCRATCH, 16);
                a.op(Op::And, VALUE, 0xffff);
                a.op(Op::Add, VALUE, SCRATCH);
            }
            a.jump_if(VALUE, When::Ne, 0xffff, no);
        }
        // never asked (`class::needs`)
        _ => a.jump(unknown),
    }
}
