//! What is the same in every `impl Element` block.

/// Implements [`crate::Element::as_any`] and [`crate::Element::as_any_mut`] inside an `impl Element` block.
#[macro_export]
macro_rules! element_any {
    () => {
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
    };
}

/// Implements [`crate::Element::rule_counters`] by a field, inside an `impl Element` block.
#[macro_export]
macro_rules! element_counts_rules {
    ($field:ident) => {
        fn rule_counters(&self) -> Option<&$crate::RuleCounters> {
            Some(&self.$field)
        }
        fn rule_counters_mut(&mut self) -> Option<&mut $crate::RuleCounters> {
            Some(&mut self.$field)
        }
    };
}

/// Implements [`crate::Element::take_state`] inside an `impl Element` block, for an element that holds numbers of
/// elements or states: it takes these fields, and nothing else.
#[macro_export]
macro_rules! element_takes {
    ($($field:ident),*) => {
        fn take_state(&mut self, old: &mut dyn $crate::Element) -> $crate::Takes {
            match old.as_any_mut().downcast_mut::<Self>() {
                Some(_old) => {
                    $(std::mem::swap(&mut self.$field, &mut _old.$field);)*
                    $crate::Takes::Done
                }
                None => $crate::Takes::Nothing,
            }
        }
    };
}
