//! SetCRC32 and CheckCRC32: a CRC-32 behind the data.
//!
//! The polynomial is Ethernet's (0x04c11db7), high bit first, starting from all ones, not complemented; the four bytes
//! stand in host (little-endian) order as Click's do on the machines it runs on.

use super::one_to_one;
use onefold_element::model::{Model, ModelCx};
use onefold_element::{Cx, Effect, Element, ElementClass, Port, element_any};
use onefold_packet::Pkt;

const TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut c = (i as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            c = (c << 1) ^ if c >> 31 == 1 { 0x04c1_1db7 } else { 0 };
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
};

fn crc(data: &[u8]) -> [u8; 4] {
    data.iter()
        .fold(u32::MAX, |c, b| {
            (c << 8) ^ TABLE[usize::from((c >> 24) as u8 ^ b)]
        })
        .to_le_bytes()
}

/// `SetCRC32`.
pub const SET_CRC32: ElementClass = one_to_one(
    "SetCRC32",
    Effect::Pure,
    "",
    "appends a CRC-32 to packets",
    || Box::new(SetCrc32),
);

#[derive(Debug, Clone)]
struct SetCrc32;

impl Element for SetCrc32 {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("SetCRC32: sums the whole packet")
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let c = crc(p.data());
        p.put(4);
        if let Some(end) = p.data_mut().last_chunk_mut::<4>() {
            *end = c;
        }
        cx.emit(0, p);
    }
    element_any!();
}

/// `CheckCRC32`.
pub const CHECK_CRC32: ElementClass = one_to_one(
    "CheckCRC32",
    Effect::Pure,
    "",
    "removes the CRC-32 that SetCRC32 appended; drops packets whose CRC is wrong",
    || Box::new(CheckCrc32),
);

#[derive(Debug, Clone)]
struct CheckCrc32;

impl Element for CheckCrc32 {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("CheckCRC32: sums the whole packet")
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let ok = p
            .data()
            .split_last_chunk::<4>()
            .is_some_and(|(d, c)| crc(d) == *c);
        if ok {
            p.take(4);
            return cx.emit(0, p);
        }
        cx.chatter(&format!("CRC32 failed, len {}\n", p.len()));
        cx.drop(p, "CheckCRC32: bad CRC");
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn known_value_and_round_trip() {
        // CRC-32/MPEG-2 of "123456789" is 0x0376e6e7
        assert_eq!(super::crc(b"123456789"), 0x0376_e6e7u32.to_le_bytes());
        let mut set = Bench::new("SetCRC32", "", 1, 1).unwrap();
        let mut check = Bench::new("CheckCRC32", "", 1, 1).unwrap();
        let p = set.push(0, b"hello").remove(0).1;
        assert_eq!(p.len(), 9);
        let mut bad = p.clone();
        bad.data_mut()[0] ^= 1;
        assert_eq!(check.push_packet(0, p)[0].1.data(), b"hello");
        assert!(check.push_packet(0, bad).is_empty());
        assert!(check.push(0, b"abc").is_empty());
        assert_eq!(check.drops()["CheckCRC32: bad CRC"], 2);
        assert!(check.host.log.ends_with("CRC32 failed, len 3\n"));
        // nothing but a CRC over nothing
        let p = set.push(0, b"").remove(0).1;
        assert!(check.push_packet(0, p)[0].1.is_empty());
    }
}
