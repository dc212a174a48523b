//! Processes are asked what they have counted so far, while packets go on.

use super::Mover;
use onefold_nf::TELL;
use serde_json::Value;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// How long they have; what one has said the time before is taken of one that has not answered by then.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most late answers of a process that are taken out of the way before it is asked anew.
const LATE: usize = 16;

/// Who is being asked.
pub(super) struct Counting {
    /// Who wants to know. Bound: questions that may wait.
    replies: Vec<SyncSender<Value>>,
    /// Processes that have not answered, by their place.
    awaited: Vec<usize>,
    until: Instant,
}

impl Mover {
    /// All processes are asked, if they are not already; the list of what they say goes to `reply`.
    pub fn count(&mut self, reply: SyncSender<Value>) {
        if let Some(c) = &mut self.counting {
            c.replies.push(reply);
            return;
        }
        let mut awaited = Vec::new();
        for (i, kid) in self.kids.iter_mut().enumerate() {
            if !kid.counts() {
                continue;
            }
            let _late = (0..LATE).take_while(|_| kid.take_counted()).count();
            kid.order(&self.region, TELL, self.now);
            self.packets.seat().ring(kid.number);
            awaited.push(i);
        }
        self.counting = Some(Counting {
            replies: vec![reply],
            awaited,
            until: Instant::now() + PATIENCE,
        });
    }

    /// Takes what processes have said; who asked hears of it once all have, or have had their time.
    pub(super) fn counted(&mut self) {
        let Some(c) = &mut self.counting else { return };
        let kids = &mut self.kids;
        let waits = |i: &usize| {
            let kid = kids.get_mut(*i);
            kid.is_some_and(|k| k.counts() && !k.take_counted())
        };
        c.awaited.retain(waits);
        if !c.awaited.is_empty() && Instant::now() < c.until {
            return;
        }
        let said: Value = self.kids.iter().filter_map(|k| k.counted.clone()).collect();
        for reply in self.counting.take().into_iter().flat_map(|c| c.replies) {
            // who asked may have gone
            let _ = reply.try_send(said.clone());
        }
    }
}
