//! Looking at packets: Print, IPPrint, counters of averages.

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[];
