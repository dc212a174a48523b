//! Leases on records of tables that are not [`FlowTable`](crate::FlowTable)s: who may still rely on what was said of
//! them.
//!
//! Such a table knows by itself when a record was used last, and what its packets do; a flow table in front only has to
//! be told when a record goes, or means something else. The table keeps a [`RecordLeases`] beside its records, names
//! records by [`RecordLeases::reference`], and [ends](RecordLeases::end) what was said of one.

use crate::lease::{Leases, NO_LEASE};
use crate::record::FlowRef;
use std::sync::Arc;

/// What is known of a record.
#[derive(Debug, Clone, Copy)]
struct Given {
    /// How often it has meant something else, modulo 2^32.
    generation: u32,
    lease: u32,
}

const NONE: Given = Given {
    generation: 0,
    lease: NO_LEASE,
};

/// See the module's text. Bound: as many as there are records that have been referred to.
#[derive(Debug, Default)]
pub struct RecordLeases {
    leases: Option<Arc<Leases>>,
    all: Vec<Given>,
}

/// A copy has no part in leases: nobody has been told anything of its records.
impl Clone for RecordLeases {
    fn clone(&self) -> RecordLeases {
        RecordLeases::default()
    }
}

impl RecordLeases {
    /// From now on, records may be leased from these; all leases that there were have ended.
    pub fn attach(&mut self, leases: &Arc<Leases>) {
        self.end_all();
        self.leases = Some(leases.clone());
    }

    /// What a record means now, to be named as long as it does.
    pub fn reference(&mut self, record: u32) -> FlowRef {
        if self.all.len() <= record as usize {
            self.all.resize(record as usize + 1, NONE);
        }
        let given = self.all.get(record as usize).unwrap_or(&NONE);
        FlowRef {
            record,
            generation: given.generation,
        }
    }

    fn resolve(&mut self, f: FlowRef) -> Option<&mut Given> {
        let given = self.all.get_mut(f.record as usize);
        given.filter(|g| g.generation == f.generation)
    }

    /// The lease that a record has; [`NO_LEASE`] also where it means something else by now.
    pub fn lease(&self, f: FlowRef) -> u32 {
        match self.all.get(f.record as usize) {
            Some(g) if g.generation == f.generation => g.lease,
            _ => NO_LEASE,
        }
    }

    /// Leases a record; it must have no lease. False when it means something else by now.
    pub fn grant(&mut self, f: FlowRef, lease: u32) -> bool {
        match self.resolve(f) {
            Some(g) => {
                g.lease = lease;
                true
            }
            None => false,
        }
    }

    /// A lease is given back. Nothing happens to a record that means something else, or has another lease.
    pub fn release(&mut self, f: FlowRef, lease: u32) {
        if let Some(g) = self.resolve(f).filter(|g| g.lease == lease) {
            g.lease = NO_LEASE;
        }
    }

    /// A record goes, or means something else from now on.
    #[inline]
    pub fn end(&mut self, record: u32) {
        let Some(g) = self.all.get_mut(record as usize) else {
            return;
        };
        g.generation = g.generation.wrapping_add(1);
        let lease = std::mem::replace(&mut g.lease, NO_LEASE);
        if lease != NO_LEASE
            && let Some(l) = &self.leases
        {
            l.end(lease);
        }
    }

    /// All records go.
    pub fn end_all(&mut self) {
        for record in 0..self.all.len() as u32 {
            self.end(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_with_what_its_record_means() {
        let leases = Leases::new(8);
        let mut r = RecordLeases::default();
        r.attach(&leases);
        let (a, b) = (r.reference(3), r.reference(1));
        assert!(r.grant(a, 5) && r.grant(b, 6));
        leases.begin(5, 0);
        leases.begin(6, 0);
        assert_eq!((r.lease(a), r.lease(b)), (5, 6));
        r.end(3);
        assert!(!leases.runs(5) && leases.runs(6));
        assert_eq!(r.lease(a), NO_LEASE);
        // another one has its place: nothing of the first one comes back
        assert!(!r.grant(a, 7));
        let again = r.reference(3);
        assert!(again != a && r.grant(again, 7));
        r.release(a, 7);
        r.release(again, 5);
        assert_eq!(r.lease(again), 7);
        r.release(again, 7);
        assert_eq!(r.lease(again), NO_LEASE);
        r.end_all();
        assert!(!leases.runs(6));
        r.end(99);
    }

    #[test]
    fn a_copy_has_no_part_in_leases() {
        let leases = Leases::new(8);
        let mut r = RecordLeases::default();
        r.attach(&leases);
        let f = r.reference(0);
        assert!(r.grant(f, 2));
        leases.begin(2, 0);
        let mut copy = r.clone();
        assert_eq!(copy.lease(f), NO_LEASE);
        copy.end(0);
        copy.end_all();
        assert!(leases.runs(2));
        // what was said goes where the leases change
        r.attach(&Leases::new(1));
        assert!(!leases.runs(2));
    }
}
