//! All actions that are known, and what packets read and write of them.

use crate::flow::flow_action::{FlowAction, Name, Pending};
use crate::flow::rewrite_template::RewriteTemplate;
use std::collections::HashMap;

/// Different actions; what would need more is not remembered.
pub(crate) const MAX_ACTIONS: usize = 1 << 16;

/// Packets of an action that have not been accounted for, and which [`RewriteTemplate`] is the action's: all that a packet reads and writes of its action.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Tally {
    packets: u64,
    bytes: u64,
    /// As their IP headers say.
    ip_bytes: u64,
    /// The template, and flags.
    template: u64,
}

impl Tally {
    const READY: u64 = 1 << 32;
    const PLAIN: u64 = 1 << 33;

    /// Of no packets.
    pub fn new(template: u32, plain: bool) -> Tally {
        Tally {
            packets: 0,
            bytes: 0,
            ip_bytes: 0,
            template: u64::from(template) | if plain { Tally::PLAIN } else { 0 },
        }
    }
    /// The number of what is done.
    #[inline(always)]
    pub fn template(&self) -> u32 {
        self.template as u32
    }
    /// The template, and a count of packets that can wait, are all there is to do.
    #[inline(always)]
    pub fn plain(&self) -> bool {
        self.template & Tally::PLAIN != 0
    }
    /// [`Tally::plain`], and listed as one of which packets wait to be told of.
    #[inline(always)]
    pub fn ready(&self) -> bool {
        self.template & Tally::READY != 0
    }
    /// It is listed.
    pub fn set_ready(&mut self) {
        self.template |= Tally::READY;
    }
    /// There is more to do for each packet from now on.
    pub fn set_one_by_one(&mut self) {
        self.template &= !(Tally::READY | Tally::PLAIN);
    }
    /// So many more, of so many bytes together, and so many as their IP headers say.
    #[inline(always)]
    pub fn add(&mut self, packets: u32, bytes: u32, ip_bytes: u32) {
        self.add_many(packets.into(), bytes.into(), ip_bytes.into());
    }
    /// [`Tally::add`] of more packets than there are in a group.
    #[inline(always)]
    pub fn add_many(&mut self, packets: u64, bytes: u64, ip_bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
        self.ip_bytes += ip_bytes;
    }
    /// How many there were.
    pub fn pending(&self) -> Pending {
        Pending {
            packets: self.packets,
            bytes: self.bytes,
            ip_bytes: self.ip_bytes,
        }
    }
    /// What is done is this from now on.
    fn set_template(&mut self, template: u32) {
        self.template = self.template & !u64::from(u32::MAX) | u64::from(template);
    }
    /// They are accounted for, and the action is no longer listed.
    pub fn take(&mut self) -> Pending {
        let n = self.pending();
        *self = Tally::new(self.template(), self.plain());
        n
    }
}

/// Actions by number, each with its tally, and the templates that they have in common.
#[derive(Debug, Default)]
pub(crate) struct ActionTable {
    all: Vec<FlowAction>,
    pub tallies: Vec<Tally>,
    pub templates: Vec<RewriteTemplate>,
    names: HashMap<Name, u32>,
    known_templates: HashMap<RewriteTemplate, u32>,
}

/// The template of actions that rest.
const RESTS: u32 = u32::MAX;

impl ActionTable {
    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// An action and its tally.
    pub fn get(&self, id: u32) -> Option<(&FlowAction, &Tally)> {
        (self.all.get(id as usize)).zip(self.tallies.get(id as usize))
    }
    /// The same, to be changed.
    pub fn get_mut(&mut self, id: u32) -> Option<(&mut FlowAction, &mut Tally)> {
        (self.all.get_mut(id as usize)).zip(self.tallies.get_mut(id as usize))
    }
    /// What is done to an action's packets.
    pub fn template(&self, id: u32) -> Option<&RewriteTemplate> {
        self.templates
            .get(self.tallies.get(id as usize)?.template() as usize)
    }
    /// The number of an action; of this one, if there is none of its name. `None` if there are too many. One that
    /// stands on what a table of neighbours said goes on with this template.
    pub fn number(&mut self, action: FlowAction, template: RewriteTemplate) -> Option<u32> {
        if let Some(id) = self.names.get(&action.name).copied() {
            if !action.name.asked.is_empty() {
                let number = self.number_of(template)?;
                let t = self.tallies.get_mut(id as usize)?;
                t.set_template(number);
                if !action.plain {
                    // its exit may have become one that packets go through one by one
                    t.set_one_by_one();
                }
            }
            return Some(id);
        }
        if self.all.len() >= MAX_ACTIONS {
            return None;
        }
        let number = self.number_of(template)?;
        let id = self.all.len() as u32;
        self.names.insert(action.name.clone(), id);
        self.tallies.push(Tally::new(number, action.plain));
        self.all.push(action);
        Some(id)
    }
    /// Packets of actions with this sink go one by one from now on.
    pub fn one_by_one(&mut self, sink: u32) {
        for (t, w) in self.tallies.iter_mut().zip(&mut self.all) {
            let template = self.templates.get(t.template() as usize);
            if template.is_some_and(|x| x.sink == sink) {
                w.plain = false;
                t.set_one_by_one();
            }
        }
    }
    /// The number of a template. `None` if there are too many.
    fn number_of(&mut self, template: RewriteTemplate) -> Option<u32> {
        if let Some(known) = self.known_templates.get(&template) {
            return Some(*known);
        }
        if self.templates.len() >= MAX_ACTIONS {
            return None;
        }
        let next = self.templates.len() as u32;
        self.templates.push(template.clone());
        self.known_templates.insert(template, next);
        Some(next)
    }
    /// An action's packets are unknown until it is [made](ActionTable::number) anew.
    pub fn rest(&mut self, id: u32) {
        if let Some(t) = self.tallies.get_mut(id as usize) {
            t.set_template(RESTS);
        }
    }
    /// Is it an action whose packets are unknown at the moment?
    pub fn rests(&self, id: u32) -> bool {
        (self.tallies.get(id as usize)).is_some_and(|t| t.template() == RESTS)
    }
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.all.clear();
        self.tallies.clear();
        self.templates.clear();
        self.names.clear();
        self.known_templates.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::path::PathEnd;

    fn action(rule: u32) -> FlowAction {
        FlowAction::ends(Name {
            rules: vec![rule],
            counts: Vec::new(),
            end: PathEnd::Output(rule % 3, 0),
            guard: 1,
            flows: false,
            asked: Box::default(),
        })
    }

    #[test]
    fn many_ways_do_few_things() {
        let mut all = ActionTable::default();
        for rule in 0..300 {
            let template = RewriteTemplate {
                sink: rule % 3,
                ..RewriteTemplate::nothing()
            };
            assert_eq!(all.number(action(rule), template), Some(rule));
        }
        assert_eq!(
            all.number(action(7), RewriteTemplate::nothing()),
            Some(7),
            "it is known"
        );
        assert_eq!((all.tallies.len(), all.templates.len()), (300, 3));
        assert_eq!(all.template(299).map(|a| a.sink), Some(2));
        all.clear();
        assert!(all.is_empty() && all.template(0).is_none());
        assert_eq!(all.number(action(0), RewriteTemplate::nothing()), Some(0));
    }

    #[test]
    fn tallies_count_either_way() {
        let mut t = Tally::new(9, true);
        t.add(1, 60, 46);
        assert!(t.plain() && !t.ready());
        t.set_ready();
        t.add(1, 1500, u32::MAX);
        assert!(t.plain() && t.ready() && t.template() == 9);
        let n = t.take();
        let bytes = u64::from(u32::MAX) + 46;
        assert_eq!((n.packets, n.bytes, n.ip_bytes), (2, 1560, bytes));
        assert!(t.plain() && !t.ready() && t.template() == 9);
        assert_eq!(t.pending().packets, 0);
    }
}
