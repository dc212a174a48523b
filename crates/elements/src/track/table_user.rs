//! What elements that name a ConnTable have in common: how they find it, and what they say of themselves.

use super::table::ConnTable;
use onefold_element::args::{AnyArg, Args};
use onefold_element::{ConfigCx, ConfigError, ConfigErrors, StateId};

/// What is asked for a packet at such an element; see [`onefold_element::model::Model::ask`].
pub(super) const TRACKING: &str = "connection tracking";

/// The table of no element that has been configured.
pub(super) const NO_TABLE: StateId = StateId(u32::MAX);

/// Finds the table that an element names.
pub(super) fn table_of(text: &str, cx: &ConfigCx<'_>) -> Result<StateId, ConfigError> {
    let class =
        |e: onefold_element::ElemId| cx.classes.get(e.0 as usize).map_or("", String::as_str);
    let found = cx.find_element(text).filter(|e| class(*e) == "ConnTable");
    match found.and_then(|e| cx.store.published_by(e)) {
        Some(id) => Ok(id),
        None => {
            let e = ConfigError::at(0, "TABLE", format!("'{text}' is no ConnTable"));
            Err(e.hint("write 'connections :: ConnTable;' and name it here"))
        }
    }
}

/// The end of a configuration: the table by the name that was given, which is `told` who uses it; and all errors.
pub(super) fn finish(
    args: &mut Args<'_>,
    name: Option<AnyArg>,
    cx: &mut ConfigCx<'_>,
    mut errors: ConfigErrors,
    told: impl FnOnce(&mut ConnTable),
) -> Result<StateId, ConfigErrors> {
    let mut table = NO_TABLE;
    if let Some(AnyArg(name)) = name {
        match table_of(&name, cx) {
            Ok(id) => {
                table = id;
                if let Some(t) = cx.store.get_mut::<ConnTable>(id) {
                    told(t);
                }
            }
            Err(e) => errors.push(e),
        }
    }
    errors.extend(args.finish().err().into_iter().flatten());
    match errors.is_empty() {
        true => Ok(table),
        false => Err(errors),
    }
}

/// What [`onefold_element::Element`] wants to know of an element that has the table's number in this field: it looks at
/// the clock's milliseconds, and keeps nothing but what is in the table.
macro_rules! uses_table {
    ($($field:ident).+) => {
        fn clock(&self, _: onefold_element::Clock) -> onefold_element::Clock {
            onefold_element::Clock::MILLISECONDS
        }

        fn states(&self) -> Vec<onefold_element::StateId> {
            vec![self.$($field).+]
        }

        onefold_element::element_takes!();
        onefold_element::element_any!();
    };
}
pub(super) use uses_table;

/// The model of one that leaves packets as they are.
macro_rules! is_asked {
    () => {
        fn model(
            &self,
            _: onefold_element::Port,
            _: &onefold_element::model::ModelCx<'_>,
        ) -> onefold_element::model::Model {
            onefold_element::model::Model::ask($crate::track::table_user::TRACKING)
        }
    };
}
pub(super) use is_asked;
