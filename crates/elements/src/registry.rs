//! The registry of all element classes.

use onefold_element::ElementClass;
use std::collections::HashMap;
use std::sync::OnceLock;

fn table() -> &'static HashMap<&'static str, &'static ElementClass> {
    static TABLE: OnceLock<HashMap<&'static str, &'static ElementClass>> = OnceLock::new();
    TABLE.get_or_init(|| all_classes().map(|c| (c.name, c)).collect())
}

/// All classes, family by family.
pub fn all_classes() -> impl Iterator<Item = &'static ElementClass> {
    crate::FAMILIES.iter().flat_map(|f| f.iter())
}

/// Finds a class by its exact name.
pub fn lookup(name: &str) -> Option<&'static ElementClass> {
    table().get(name).copied()
}

/// Up to three class names that look like `name`, best first.
pub fn near_misses(name: &str) -> Vec<&'static str> {
    onefold_click::suggest::near_misses(name, all_classes().map(|c| c.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::PortRange;

    #[test]
    fn every_class_is_well_formed_and_unique() {
        let mut seen = std::collections::HashSet::new();
        for c in all_classes() {
            assert!(seen.insert(c.name), "{} twice", c.name);
            let (i, o) = ElementClass::halves(c.ports);
            assert!(
                PortRange::parse(i).is_some(),
                "{}: ports {}",
                c.name,
                c.ports
            );
            assert!(
                PortRange::parse(o).is_some(),
                "{}: ports {}",
                c.name,
                c.ports
            );
            let ok = c.processing.bytes().all(|b| b"ahl/~".contains(&b));
            assert!(
                ok && !c.processing.is_empty(),
                "{}: {}",
                c.name,
                c.processing
            );
            assert!(!c.summary.is_empty() && !c.flow.is_empty(), "{}", c.name);
        }
        assert_eq!(near_misses("Conter").first(), Some(&"Counter"));
    }
}
