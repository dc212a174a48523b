//! What a program writes to packets.

pub(crate) mod compiled;
pub(crate) mod flow_tuple;
pub(crate) mod image;
pub(crate) mod value;
pub(crate) mod window_write;
