//! Other addresses for a packet, given between its tracker and ConnConfirm by somebody who knows no connections
//! (IP6PrefixTranslate): its connection stays what it was when the packet arrived, as in Linux, where a packet carries
//! its connection with it.

use super::headers::{Seen, of_packet};
use super::table::ConnTable;
use super::table_user::table_of;
use onefold_element::{ConfigCx, ConfigError, StateId, StateStore};
use onefold_packet::Packet;

/// Who gives packets other addresses, and the ConnTable that is told, if there is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Renames(Option<StateId>);

/// A packet as it was before.
pub(crate) struct Before(Seen);

impl Renames {
    /// Tells the ConnTable of this name, of whose packets each one is to be known from now on.
    ///
    /// # Errors
    /// There is none.
    pub fn tells(name: &str, cx: &mut ConfigCx<'_>) -> Result<Renames, ConfigError> {
        let id = table_of(name, cx)?;
        if let Some(t) = cx.store.get_mut::<ConnTable>(id) {
            t.settings.renames = true;
        }
        Ok(Renames(Some(id)))
    }

    /// Is anybody told?
    pub fn are_told(self) -> bool {
        self.0.is_some()
    }

    /// A packet is about to get other addresses.
    pub fn before(self, p: &Packet) -> Option<Before> {
        self.0.map(|_| Before(of_packet(p, false)))
    }

    /// It has them.
    pub fn after(self, before: Option<Before>, p: &Packet, store: &mut StateStore) {
        let table = self.0.and_then(|id| store.get_mut::<ConnTable>(id));
        if let (Some(before), Some(t)) = (before, table) {
            t.rename(&before.0, p);
        }
    }

    /// The table.
    pub fn states(self) -> Vec<StateId> {
        self.0.into_iter().collect()
    }
}
