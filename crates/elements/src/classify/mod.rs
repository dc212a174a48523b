//! Classification: Classifier, IPClassifier, IPFilter and the small filters.

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[];
