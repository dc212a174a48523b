//! Headers: stripping, checking, encapsulating, checksums, paint.

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[];
