//! What has been worked out about a batch's packets before the first of them is carried out.

use onefold_nat::{Binder, COLUMNS, Columns};
use onefold_packet::Timestamp;

/// What is to be asked about a batch's packets, by number in it, and of which rewriter's input.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prepared {
    pub columns: Vec<Columns>,
    pub packets: usize,
    pub place: (u32, u16),
    /// The action of each packet.
    pub numbers: Vec<u32>,
    /// Of each set of columns the packets that are bound and written here whatever the rewriter makes of a new flow, a bit each. None where few flows are new.
    pub ready: Vec<u64>,
}

impl Prepared {
    /// The columns that a packet is in.
    #[inline(always)]
    pub fn of(&self, place: (u32, u16), i: usize) -> Option<&Columns> {
        match i < self.packets && place == self.place {
            true => self.columns.get(i / COLUMNS),
            false => None,
        }
    }
    /// The action of a packet that is [bound with others](Prepared::bind).
    #[inline(always)]
    pub fn number(&self, i: usize) -> usize {
        self.numbers.get(i).map_or(usize::MAX, |n| *n as usize)
    }
    /// There is nothing to be asked.
    pub fn clear(&mut self) {
        self.packets = 0;
        self.numbers.clear();
        self.ready.clear();
    }

    /// Binds a packet whose turn it is, and those behind it up to the end of its columns, as long as their flows are new and it is plain what is done with them: how many. All of
    /// them are to be carried out next, with their [bindings](Columns::binding).
    #[inline(always)]
    pub fn bind<'s>(
        &self,
        place: (u32, u16),
        i: usize,
        b: &mut Binder<'s>,
        now: Timestamp,
    ) -> usize {
        let column = i / COLUMNS;
        let ready = self.ready.get(column).map_or(0, |r| r >> (i % COLUMNS));
        if ready & 1 == 0 || place != self.place {
            return 0;
        }
        let n = (!ready).trailing_zeros() as usize;
        match self.columns.get(column) {
            Some(c) => b.bind_new(c, i % COLUMNS, n, now),
            None => 0,
        }
    }
}
