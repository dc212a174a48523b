//! Queues, schedulers, switches, meters and shapers.

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[];
