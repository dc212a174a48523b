//! Who uses which bindings: leases, taken by entries of the flow table on the records of rewriters.
//!
//! All entries that stand for the same bindings (a flow's two directions, through all translators) share a lease.

use onefold_element::{StateId, StateStore};
use onefold_nat::{FlowRef, FlowTable, LastingBinding, Leases, NO_LEASE, RecordLeases};
use std::sync::Arc;

/// What a lease is on: sixteen million of them are to fit into memory, and most are on one binding.
#[derive(Debug, Default)]
struct Use {
    first: Option<LastingBinding>,
    others: Option<Box<[LastingBinding]>>,
    entries: u32,
}

impl Use {
    fn flows(&self) -> impl Iterator<Item = &LastingBinding> {
        self.first.iter().chain(self.others.iter().flatten())
    }
    fn set(&mut self, flows: &[LastingBinding]) {
        let (first, others) = match flows.split_first() {
            Some((first, others)) => (Some(*first), others),
            None => (None, flows),
        };
        self.first = first;
        self.others = (!others.is_empty()).then(|| others.into());
    }
}

/// What a binding is known by.
fn name(f: &LastingBinding) -> (StateId, FlowRef) {
    (f.table, f.flow)
}

/// The lease that a binding has; [`NO_LEASE`] also where it is gone. `None` if there is no such table.
fn lease_of(f: &LastingBinding, store: &StateStore) -> Option<u32> {
    match store.get::<FlowTable>(f.table) {
        Some(t) => Some(t.lease(f.flow)),
        None => Some(store.part::<RecordLeases>(f.table)?.lease(f.flow)),
    }
}

/// Leases a binding that has no lease. Its last use as far as its table leaves that to the lease; `None` if it is gone.
fn grant(f: &LastingBinding, lease: u32, store: &mut StateStore) -> Option<u64> {
    if let Some(t) = store.get_mut::<FlowTable>(f.table) {
        return t.grant(f.flow, lease);
    }
    let t = store.part_mut::<RecordLeases>(f.table)?;
    t.grant(f.flow, lease).then_some(0)
}

/// A binding's lease is given back.
fn release(f: &LastingBinding, lease: u32, store: &mut StateStore) {
    if let Some(t) = store.get_mut::<FlowTable>(f.table) {
        t.release(f.flow, lease);
    } else if let Some(t) = store.part_mut::<RecordLeases>(f.table) {
        t.release(f.flow, lease);
    }
}

/// All leases of one flow table.
#[derive(Debug)]
pub(crate) struct LeasePool {
    pub leases: Arc<Leases>,
    uses: Vec<Use>,
    free: Vec<u32>,
}

impl LeasePool {
    /// At most so many.
    pub fn new(n: usize) -> LeasePool {
        LeasePool {
            leases: Leases::new(n),
            uses: Vec::new(),
            free: Vec::new(),
        }
    }

    /// For one entry more that stands for these bindings. `None` when there is none left, or a binding is gone.
    pub fn take(&mut self, flows: &[LastingBinding], store: &mut StateStore) -> Option<u32> {
        let mut flows = flows.to_vec();
        flows.sort_unstable_by_key(|f| (f.table, f.flow.record));
        flows.dedup_by_key(|f| name(f));
        let first = flows.first()?;
        let have = lease_of(first, store)?;
        if have != NO_LEASE
            && self.leases.runs(have)
            && let Some(u) = self.uses.get_mut(have as usize)
            && u.flows().map(name).eq(flows.iter().map(name))
        {
            u.entries += 1;
            return Some(have);
        }
        // whoever had one of them before asks again
        for f in &flows {
            let l = lease_of(f, store)?;
            if l != NO_LEASE {
                self.leases.end(l);
                release(f, l, store);
            }
        }
        let l = match self.free.pop() {
            Some(l) => l,
            None if self.uses.len() < self.leases.len() => {
                self.uses.push(Use::default());
                self.uses.len() as u32 - 1
            }
            None => return None,
        };
        let mut last = Some(0);
        for f in &flows {
            let used = grant(f, l, store);
            last = last.zip(used).map(|(a, b)| a.max(b));
        }
        let u = self.uses.get_mut(l as usize)?;
        u.set(&flows);
        u.entries = 1;
        match last {
            Some(last) => {
                self.leases.begin(l, last);
                Some(l)
            }
            // one of them has just made room for another
            None => {
                self.give_back(l, store);
                None
            }
        }
    }

    /// One entry more has this lease. False if it has ended.
    pub fn share(&mut self, lease: u32) -> bool {
        if !self.leases.runs(lease) {
            return false;
        }
        match self.uses.get_mut(lease as usize) {
            Some(u) if u.entries > 0 => u.entries += 1,
            _ => return false,
        }
        true
    }

    /// An entry is gone.
    pub fn give_back(&mut self, lease: u32, store: &mut StateStore) {
        let Some(u) = self.uses.get_mut(lease as usize) else {
            return;
        };
        if u.entries == 0 {
            return;
        }
        u.entries -= 1;
        if u.entries == 0 {
            self.leases.end(lease);
            for f in u.flows() {
                release(f, lease, store);
            }
            u.set(&[]);
            self.free.push(lease);
        }
    }

    /// For tests: is every binding of a lease still there, and leased?
    pub fn holds(&self, lease: u32, store: &StateStore) -> bool {
        let u = self.uses.get(lease as usize);
        u.is_some_and(|u| u.flows().all(|f| lease_of(f, store) == Some(lease)))
    }

    /// All entries are gone.
    pub fn clear(&mut self, store: &mut StateStore) {
        for l in 0..self.uses.len() as u32 {
            while self.uses.get(l as usize).is_some_and(|u| u.entries > 0) {
                self.give_back(l, store);
            }
        }
    }

    /// Bytes of the words, and of what they are on.
    pub fn memory_bytes(&self) -> usize {
        self.leases.memory_bytes()
            + self.uses.capacity() * size_of::<Use>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// The most that [`LeasePool::memory_bytes`] can be: lists grow by doubling.
    pub fn most_bytes(&self) -> usize {
        let n = self.leases.len();
        self.leases.memory_bytes() + n.next_power_of_two() * (size_of::<Use>() + size_of::<u32>())
    }

    /// In use.
    pub fn len(&self) -> usize {
        self.uses.len() - self.free.len()
    }
}
