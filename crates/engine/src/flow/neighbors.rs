//! Actions that stand on what a table of neighbours said: they rest as soon as it may say something else.
//!
//! A packet whose next hop is known gets its Ethernet header in the program, and its action has the address in its
//! template. Such an action is right as long as the neighbour has this address, and until the element must be asked
//! again (the entry expires, or a query is due): from then on the action has no template, so that its packets are
//! taken for unknown and go to the program, the first of which brings it back. Nothing is looked at per packet; once
//! for each run of packets that is carried out, the clock is compared with the earliest of these times, and each
//! table's number of changes with the one that was seen. A change of one neighbour ends nothing but the actions that
//! stand on it, and entries keep their places.

use crate::flow::action_table::ActionTable;
use crate::flow::questions::Question;
use onefold_element::{ElemId, StateStore};
use onefold_elements::routing::neighbors::{Changes, HeldNeighbors};
use onefold_packet::Timestamp;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// What an action stands on.
#[derive(Debug)]
struct Standing {
    questions: Box<[Question]>,
    /// What was answered.
    ethers: Box<[u64]>,
    /// The first moment at which that has to be asked again.
    until: Timestamp,
    /// The earliest time at which it is listed to be looked at.
    listed: Timestamp,
    rests: bool,
}

/// A table that is watched.
#[derive(Debug)]
struct Watched {
    table: u16,
    changes: Changes,
    seen: u64,
}

/// All actions that stand on neighbours.
#[derive(Debug)]
pub(crate) struct Neighbors {
    watched: Vec<Watched>,
    by_question: HashMap<Question, Vec<u32>>,
    by_action: HashMap<u32, Standing>,
    /// Times at which actions are looked at; each has one that is not later than its own.
    times: BinaryHeap<Reverse<(Timestamp, u32)>>,
    /// The earliest of them.
    next: Timestamp,
}

impl Default for Neighbors {
    fn default() -> Neighbors {
        Neighbors {
            watched: Vec::new(),
            by_question: HashMap::new(),
            by_action: HashMap::new(),
            times: BinaryHeap::new(),
            next: Timestamp::MAX,
        }
    }
}

impl Neighbors {
    /// Does every action that has a template stand on what is so at this time?
    #[inline(always)]
    pub fn current(&self, now: Timestamp) -> bool {
        now < self.next && self.watched.iter().all(|w| w.changes.count() == w.seen)
    }

    /// An action has been made, or made anew, of a packet about which this was asked; what was answered holds still.
    ///
    /// # Errors
    /// When the table does not know one of them any more.
    pub fn stand(
        &mut self,
        action: u32,
        questions: &[Question],
        (tables, store): (&[u32], &StateStore),
        now: Timestamp,
    ) -> Result<(), &'static str> {
        let (ethers, until) = (answers(questions, tables, store))
            .filter(|(_, until)| now < *until)
            .ok_or("a neighbour that is not known any more")?;
        for q in questions {
            if !self.watched.iter().any(|w| w.table == q.table) {
                let held = table(q.table, tables, store).ok_or("no table of neighbours")?;
                self.watched.push(Watched {
                    table: q.table,
                    changes: held.watch(),
                    seen: held.changes(),
                });
            }
        }
        let listed = match self.by_action.get(&action) {
            Some(s) => s.listed,
            None => {
                for q in questions {
                    self.by_question.entry(*q).or_default().push(action);
                }
                Timestamp::MAX
            }
        };
        let standing = Standing {
            questions: questions.into(),
            ethers,
            until,
            listed,
            rests: false,
        };
        self.by_action.insert(action, standing);
        self.list(action);
        Ok(())
    }

    /// An action is listed to be looked at in time.
    fn list(&mut self, action: u32) {
        if let Some(s) = self.by_action.get_mut(&action)
            && s.until < s.listed
        {
            s.listed = s.until;
            self.times.push(Reverse((s.until, action)));
        }
        self.next = self.times.peek().map_or(Timestamp::MAX, |t| t.0.0);
    }

    /// Actions that stand on what is not so any more, or has to be asked again by now, lose their templates.
    #[cold]
    #[inline(never)]
    pub fn look(
        &mut self,
        actions: &mut ActionTable,
        (tables, store): (&[u32], &StateStore),
        now: Timestamp,
    ) {
        let mut doubtful = Vec::new();
        for w in &mut self.watched {
            let Some(held) = table(w.table, tables, store) else {
                continue;
            };
            let seen = std::mem::replace(&mut w.seen, held.changes());
            match held.changed_since(seen) {
                Some(changed) => {
                    for address in changed {
                        let question = Question {
                            table: w.table,
                            address,
                        };
                        doubtful.extend(self.by_question.get(&question).into_iter().flatten());
                    }
                }
                None => doubtful.extend(self.by_action.keys()),
            }
        }
        // Bound: each action has few times in the list
        while let Some(Reverse((at, action))) = self.times.peek().copied() {
            if at > now {
                break;
            }
            self.times.pop();
            if let Some(s) = self.by_action.get_mut(&action)
                && s.listed == at
            {
                s.listed = Timestamp::MAX;
                doubtful.push(action);
            }
        }
        for action in doubtful {
            self.ask_again(action, actions, (tables, store), now);
        }
        self.next = self.times.peek().map_or(Timestamp::MAX, |t| t.0.0);
    }

    fn ask_again(
        &mut self,
        action: u32,
        actions: &mut ActionTable,
        (tables, store): (&[u32], &StateStore),
        now: Timestamp,
    ) {
        let Some(s) = self.by_action.get_mut(&action).filter(|s| !s.rests) else {
            return;
        };
        match answers(&s.questions, tables, store) {
            Some((ethers, until)) if ethers == s.ethers && now < until => {
                s.until = until;
                self.list(action);
            }
            _ => {
                s.rests = true;
                actions.rest(action);
            }
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Neighbors::default();
    }
}

/// The table of this number in the program.
fn table(number: u16, tables: &[u32], store: &StateStore) -> Option<HeldNeighbors> {
    HeldNeighbors::of(store, ElemId(*tables.get(usize::from(number))?))
}

/// What the tables answer, and the first moment at which one of them has to be asked again; `None` where one does not
/// know.
fn answers(
    questions: &[Question],
    tables: &[u32],
    store: &StateStore,
) -> Option<(Box<[u64]>, Timestamp)> {
    let mut until = Timestamp::MAX;
    let mut ethers = Vec::with_capacity(questions.len());
    for q in questions {
        let (ether, its) = table(q.table, tables, store)?.answer(q.address)?;
        until = until.min(its);
        ethers.push(ether);
    }
    Some((ethers.into(), until))
}
