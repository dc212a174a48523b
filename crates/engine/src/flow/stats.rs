//! What a flow table has done, in numbers.

/// What a flow table has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets whose action was known.
    pub hits: u64,
    /// Of these, those whose class has one action for all, so that no entry is needed.
    pub by_class: u64,
    /// Of these, those whose actions behind write-outs and asked elements were known at the entry, too.
    pub composed: u64,
    /// Of these, those that went on without being given to any element, or to those alone that wanted them.
    pub in_place: u64,
    /// Of these the ones that were written, and counted, once for all actions.
    pub written_once: u64,
    /// Of these the ones that an element inspected together with others.
    pub inspected_in_batches: u64,
    /// Of packets on composed actions' ways the ones that were noted in [leases](onefold_element::FlowLease).
    pub leased: u64,
    /// Packets that an entry could have been there for.
    pub misses: u64,
    /// Packets that had their action applied at the entry and went on behind a write-out or an element that was
    /// asked, where they were not known: the program went on with them there. Once for each such place.
    pub resumed: u64,
    /// Packets that went to the program at once, as next to none was known before.
    pub passed_by: u64,
    /// Packets that cannot have one: no IP, options, fragments, lengths that lie, too many kinds.
    pub others: u64,
    /// Entries made.
    pub made: u64,
    /// Entries that had to make room.
    pub evicted: u64,
    /// Entries that did not hold any more when they were met.
    pub ended: u64,
    /// Entries that would have been wrong. A defect, and harmless.
    pub refused: u64,
    /// Packets of unknown flows that were dropped because these had had their share of time ([`FlowRunner::protect`]).
    pub shed: u64,
    /// Times that all entries went.
    pub cleared: u64,
    /// Entries at present, and places for them.
    pub entries: usize,
    /// See [`FlowStats::entries`].
    pub places: usize,
    /// Classes whose packets all have one action.
    pub classes: usize,
    /// Leases in use.
    pub leases: usize,
    /// Bytes of the table.
    pub bytes: usize,
    /// The most that they can be, whatever arrives.
    pub most_bytes: usize,
}
