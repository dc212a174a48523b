//! Programs against the reference graph: the same packets through both, everything that can be seen compared.

#[path = "program/image.rs"]
mod image;
#[path = "program/synthesized.rs"]
mod synthesized;
#[path = "program/written.rs"]
mod written;
