//! What a [masked match](crate::flow::masked_match) asks of bytes, asked of sixteen packets at once.

pub(crate) mod equal;
pub(crate) mod words;
