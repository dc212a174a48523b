//! Control: Script, DriverManager, Message and the information elements.

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[];
