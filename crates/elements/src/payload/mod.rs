//! Payload: pattern matching for DPI and per-flow monitoring.

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[];
