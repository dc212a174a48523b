//! Which packets go all their way before the next one is looked at: those of composed actions, those that are looked up
//! so that actions may be composed, and those that must not go on with others ([`Exit::alone`]).
//!
//! [`Exit::alone`]: crate::flow::exit::Exit::alone

use crate::flow::composed::ComposedTable;
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::flow::rewrite_template::{EXIT, NO_SINK, RewriteTemplate};
use crate::flow::runner::FlowRunner;
use crate::flow::table::NO_SLOT;
use crate::simd::Wide;
use crate::simd::any::Any;
use crate::simd::window_rewrite::Operands;
use onefold_packet::{Pkt, Timestamp};

impl FlowRunner {
    /// Do some of a group's packets at this cache go all their way alone?
    #[inline(always)]
    pub(crate) fn some_go_alone(&mut self, cache: usize) -> bool {
        let l = self.ingress.get_mut(cache);
        l.is_some_and(|l| l.exits && (l.composed || l.patience.ends()))
    }

    /// Does this one? `stale`: the table may have changed since it was asked.
    #[inline(always)]
    pub(crate) fn goes_alone(
        &mut self,
        wide: impl Wide,
        cache: usize,
        i: usize,
        stale: bool,
    ) -> bool {
        if self.is_composed(wide, i, stale) {
            return true;
        }
        let action = self.group.get(i).map_or(BY_FLOW, |x| x.action);
        let goes_on = |t: &RewriteTemplate| t.sink != NO_SINK && t.sink & EXIT != 0;
        self.actions.template(action).is_some_and(goes_on)
            && self
                .ingress
                .get_mut(cache)
                .is_some_and(|l| l.patience.ends())
    }

    /// Do packets of this action go through an exit at which they must be alone?
    pub(crate) fn goes_through_alone(&self, action: u32) -> bool {
        let sink = self.actions.template(action).map_or(NO_SINK, |t| t.sink);
        sink != NO_SINK && sink & EXIT != 0 && self.is_alone(sink & !EXIT)
    }

    /// It does. Given back if it is not known.
    #[inline(always)]
    pub(crate) fn go_alone(
        &mut self,
        wide: impl Wide,
        (cache, i): (usize, usize),
        p: Pkt,
        now: Timestamp,
    ) -> Option<Pkt> {
        match self
            .group
            .get(i)
            .is_some_and(|x| ComposedTable::is(x.action))
        {
            true => self.walk(wide, cache, i, p, now),
            false => self.walk_and_compose((cache, i), p, now, true),
        }
    }

    /// Do packets of this cache go on one by one, if they have to? If they have come with others, those that come from
    /// now on do not.
    pub(crate) fn comes_alone(&mut self, cache: usize) -> bool {
        match self.ingress.get(cache) {
            Some(l) if l.seat.depth == 0 || l.alone => return true,
            Some(_) => {}
            None => return false,
        }
        let mut todo = vec![cache as u32];
        // Bound: each cache once
        while let Some(c) = todo.pop() {
            match self.ingress.get_mut(c as usize) {
                Some(l) if l.seat.depth > 0 && !l.alone => l.alone = true,
                _ => continue,
            }
            let to: Vec<(usize, u32)> = self.exits.to(c).collect();
            for (exit, from) in to {
                self.leaves_alone(exit);
                todo.push(from);
            }
        }
        false
    }

    /// Packets go through this exit one by one from now on.
    pub(crate) fn leaves_alone(&mut self, exit: usize) {
        if let Some(e) = self.exits.all.get_mut(exit) {
            e.alone = true;
        }
        self.actions.one_by_one(exit as u32 | EXIT);
    }

    /// Do packets go through this exit one by one?
    pub(crate) fn is_alone(&self, exit: u32) -> bool {
        self.exits.all.get(exit as usize).is_some_and(|e| e.alone)
    }

    /// A packet that has just been found to have a composed action, with these operands of its flow's, goes its way.
    /// Given back, to be looked up again, if it is not known after all.
    pub(crate) fn walk_found(
        &mut self,
        (cache, i): (usize, usize),
        p: Pkt,
        now: Timestamp,
        (action, operands): (u32, Operands),
    ) -> Option<Pkt> {
        if let Some(x) = self.group.get_mut(i) {
            (x.action, x.operands) = (action, operands);
        }
        let back = self.walk(Any, cache, i, p, now);
        if let (Some(_), Some(x)) = (&back, self.group.get_mut(i)) {
            x.action = if x.slot == NO_SLOT { UNKNOWN } else { BY_FLOW };
        }
        back
    }

    /// May a packet's action be kept that somebody is told of at once, if packets go on behind it, or came from
    /// another cache? They have to come alone; if they do not yet, they do from now on.
    ///
    /// # Errors
    /// If they do not yet.
    pub(crate) fn tells_alone(
        &mut self,
        cache: usize,
        exit: Option<u32>,
    ) -> Result<(), &'static str> {
        if (exit.is_some() || self.depth > 0) && !self.comes_alone(cache) {
            return Err("an element that is told of each packet at once");
        }
        if let Some(exit) = exit {
            self.leaves_alone(exit as usize);
        }
        Ok(())
    }
}
