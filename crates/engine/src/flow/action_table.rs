//! All ways that are known, and what packets read and write of them.

use crate::flow::MAX_WAYS;
use crate::flow::flow_action::{Name, Pending, Way};
use crate::flow::rewrite_template::Act;
use std::collections::HashMap;

/// Packets of a way that have not been accounted for, and which [`Act`] is the way's: all that a packet reads and writes of its way.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Tally {
    packets: u64,
    bytes: u64,
    /// As their IP headers say.
    ip_bytes: u64,
    /// The act, and flags.
    act: u64,
}

impl Tally {
    const READY: u64 = 1 << 32;
    const PLAIN: u64 = 1 << 33;

    /// Of no packets.
    pub fn new(act: u32, plain: bool) -> Tally {
        Tally {
            packets: 0,
            bytes: 0,
            ip_bytes: 0,
            act: u64::from(act) | if plain { Tally::PLAIN } else { 0 },
        }
    }
    /// The number of what is done.
    #[inline(always)]
    pub fn act(&self) -> u32 {
        self.act as u32
    }
    /// The act, and a count of packets that can wait, are all there is to do.
    #[inline(always)]
    pub fn plain(&self) -> bool {
        self.act & Tally::PLAIN != 0
    }
    /// [`Tally::plain`], and listed as one of which packets wait to be told of.
    #[inline(always)]
    pub fn ready(&self) -> bool {
        self.act & Tally::READY != 0
    }
    /// It is listed.
    pub fn set_ready(&mut self) {
        self.act |= Tally::READY;
    }
    /// So many more, of so many bytes together, and so many as their IP headers say.
    #[inline(always)]
    pub fn add(&mut self, packets: u32, bytes: u32, ip_bytes: u32) {
        self.packets += u64::from(packets);
        self.bytes += u64::from(bytes);
        self.ip_bytes += u64::from(ip_bytes);
    }
    /// How many there were.
    pub fn pending(&self) -> Pending {
        Pending {
            packets: self.packets,
            bytes: self.bytes,
            ip_bytes: self.ip_bytes,
        }
    }
    /// They are accounted for, and the way is no longer listed.
    pub fn take(&mut self) -> Pending {
        let n = self.pending();
        *self = Tally::new(self.act(), self.plain());
        n
    }
}

/// Ways by number, each with its tally, and the acts that they have in common.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    all: Vec<Way>,
    pub tallies: Vec<Tally>,
    pub acts: Vec<Act>,
    names: HashMap<Name, u32>,
    known_acts: HashMap<Act, u32>,
}

impl Ways {
    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// A way and its tally.
    pub fn get(&self, id: u32) -> Option<(&Way, &Tally)> {
        (self.all.get(id as usize)).zip(self.tallies.get(id as usize))
    }
    /// The same, to be changed.
    pub fn get_mut(&mut self, id: u32) -> Option<(&mut Way, &mut Tally)> {
        (self.all.get_mut(id as usize)).zip(self.tallies.get_mut(id as usize))
    }
    /// What is done to a way's packets.
    pub fn act(&self, id: u32) -> Option<&Act> {
        self.acts.get(self.tallies.get(id as usize)?.act() as usize)
    }
    /// The number of a way; of this one, if there is none of its name. `None` if there are too many.
    pub fn number(&mut self, way: Way, act: Act) -> Option<u32> {
        if let Some(id) = self.names.get(&way.name) {
            return Some(*id);
        }
        if self.all.len() >= MAX_WAYS {
            return None;
        }
        let next = self.acts.len() as u32;
        let number = *self.known_acts.entry(act).or_insert_with_key(|act| {
            self.acts.push(act.clone());
            next
        });
        let id = self.all.len() as u32;
        self.names.insert(way.name.clone(), id);
        self.tallies.push(Tally::new(number, way.plain));
        self.all.push(way);
        Some(id)
    }
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.all.clear();
        self.tallies.clear();
        self.acts.clear();
        self.names.clear();
        self.known_acts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::path::PathEnd;

    fn way(rule: u32) -> Way {
        Way::ends(Name {
            rules: vec![rule],
            counts: Vec::new(),
            end: PathEnd::Output(rule % 3, 0),
            guard: 1,
            flows: false,
        })
    }

    #[test]
    fn many_ways_do_few_things() {
        let mut all = Ways::default();
        for rule in 0..300 {
            let act = Act {
                sink: rule % 3,
                ..Act::nothing()
            };
            assert_eq!(all.number(way(rule), act), Some(rule));
        }
        assert_eq!(all.number(way(7), Act::nothing()), Some(7), "it is known");
        assert_eq!((all.tallies.len(), all.acts.len()), (300, 3));
        assert_eq!(all.act(299).map(|a| a.sink), Some(2));
        all.clear();
        assert!(all.is_empty() && all.act(0).is_none());
        assert_eq!(all.number(way(0), Act::nothing()), Some(0));
    }

    #[test]
    fn tallies_count_either_way() {
        let mut t = Tally::new(9, true);
        t.add(1, 60, 46);
        assert!(t.plain() && !t.ready());
        t.set_ready();
        t.add(1, 1500, u32::MAX);
        assert!(t.plain() && t.ready() && t.act() == 9);
        let n = t.take();
        let bytes = u64::from(u32::MAX) + 46;
        assert_eq!((n.packets, n.bytes, n.ip_bytes), (2, 1560, bytes));
        assert!(t.plain() && !t.ready() && t.act() == 9);
        assert_eq!(t.pending().packets, 0);
    }
}
