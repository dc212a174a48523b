//! What a program reads of packets: registers, header checks, shapes of headers, sixteen packets in a row.

pub(crate) mod checks;
pub(crate) mod registers;
pub(crate) mod rows;
pub(crate) mod shape;
