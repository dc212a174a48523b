//! Routing: look-ups and the other parts of an IP router; ARP and ICMP.

use crate::class::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[];
