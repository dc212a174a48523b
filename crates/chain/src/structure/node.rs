//! A YAML document as a tree with places, whatever it is a document of.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A value.
#[derive(Debug)]
pub(super) struct Node {
    /// What it is.
    pub what: What,
    /// First byte in the text.
    pub start: usize,
    /// Length in bytes: all of a scalar, the beginning of a list or a map.
    pub len: usize,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum What {
    Null,
    Scalar,
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map.
#[derive(Debug)]
pub(super) struct Key {
    pub name: String,
    pub start: usize,
}

/// Reads a document. The library bounds depth and number of values; `None` where it does not take the text at all.
pub(super) fn read(text: &str) -> Option<Node> {
    serde_saphyr::from_str_with_options(text, options()).ok()
}

/// Keys that are there twice are told by whoever walks the tree.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::PassThrough,
    }
}

fn place(l: &serde_saphyr::Location) -> (usize, usize) {
    let span = l.span();
    let (at, len) = (span.byte_offset(), span.byte_len());
    (at.unwrap_or(0) as usize, len.unwrap_or(0) as usize)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = serde_saphyr::Spanned::<What>::deserialize(d)?;
        let (start, len) = place(&s.referenced);
        Ok(Node {
            what: s.value,
            start,
            len,
        })
    }
}

impl<'de> Deserialize<'de> for What {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = What;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<What, E> {
        Ok(What::Null)
    }
    fn visit_none<E>(self) -> Result<What, E> {
        Ok(What::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<What, D::Error> {
        What::deserialize(d)
    }
    fn visit_bool<E>(self, _: bool) -> Result<What, E> {
        Ok(What::Scalar)
    }
    fn visit_i64<E>(self, _: i64) -> Result<What, E> {
        Ok(What::Scalar)
    }
    fn visit_u64<E>(self, _: u64) -> Result<What, E> {
        Ok(What::Scalar)
    }
    fn visit_i128<E>(self, _: i128) -> Result<What, E> {
        Ok(What::Scalar)
    }
    fn visit_u128<E>(self, _: u128) -> Result<What, E> {
        Ok(What::Scalar)
    }
    fn visit_f64<E>(self, _: f64) -> Result<What, E> {
        Ok(What::Scalar)
    }
    fn visit_str<E>(self, _: &str) -> Result<What, E> {
        Ok(What::Scalar)
    }
    fn visit_bytes<E>(self, _: &[u8]) -> Result<What, E> {
        Ok(What::Scalar)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<What, A::Error> {
        let mut all = Vec::new();
        while let Some(n) = seq.next_element()? {
            all.push(n);
        }
        Ok(What::List(all))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<What, A::Error> {
        let mut all = Vec::new();
        while let Some(k) = map.next_key::<serde_saphyr::Spanned<String>>()? {
            let (start, _) = place(&k.referenced);
            let name = k.value;
            all.push((Key { name, start }, map.next_value()?));
        }
        Ok(What::Map(all))
    }
}
