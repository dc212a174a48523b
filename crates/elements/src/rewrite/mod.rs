//! Rewriters: NAT and its mappers.

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[];
