//! A packet of an unknown flow: it goes through the program, and what happens to it is written down for those that
//! come after it.

use crate::flow::flow_action::{self, FlowAction};
use crate::flow::masked_match::MaskedMatch;
use crate::flow::packet_meta::{ASK, NO_MATCH, PacketMeta};
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::flow::policy::admission::Admission;
use crate::flow::questions::{self, Questions};
use crate::flow::rewrite_template::Flow;
use crate::flow::rewrite_template::RewriteTemplate;
use crate::flow::runner::FlowRunner;
use crate::flow::table;
use crate::flow::table::{Entry, NO_SLOT};
use crate::program::exec::state::Stopped;
use crate::program::headers::shape;
use crate::program::lookup::tree::NO_RULE;
use crate::program::path::{Path, PathEnd};
use crate::program::runner::First;
use crate::simd;
use crate::simd::GROUP;
use crate::simd::WINDOW;
use crate::simd::bits::each_bit;
use crate::simd::window_rewrite::Operands as FlowOperands;
use onefold_element::{Accounts, ElemId};
use onefold_nat::{BoundBy, LastingBinding, NO_LEASE};
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_table::prefetch;

/// Why there is no second one.
const HAS_ENTRY: &str = "it has an entry";

/// What a graph had a moment ago.
const GONE: &str = "not there any more";

impl FlowRunner {
    /// Which of a group's unknown packets are let in; the others are dropped. How many packets are left in the group:
    /// its first ones.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        source: ElemId,
        n: usize,
        which: Option<u64>,
        batch: &mut Vec<Pkt>,
        now: Timestamp,
    ) -> usize {
        let group = self.group.get(..n.min(batch.len())).unwrap_or_default();
        let of = |(i, x): (usize, &PacketMeta)| u64::from(x.action == UNKNOWN) << (i % GROUP);
        let unknown = which.unwrap_or_else(|| group.iter().enumerate().map(of).sum());
        let (shed, again) = self.judge(unknown, now, |r, i| {
            (r.group.get(i)).map_or((0, false), |x| (x.hash, x.guard != NO_MATCH))
        });
        each_bit!(unknown, i, {
            if let Some(x) = self.group.get_mut(i) {
                x.again = again >> i & 1 == 1;
            }
        });
        self.close_ranks(source, n, shed, batch)
    }

    /// The first rules of all packets of a group that are not known. The stage that they are of.
    #[inline(never)]
    pub(crate) fn firsts_of_unknown(
        &mut self,
        source: ElemId,
        packets: &[Pkt],
        stamped: bool,
    ) -> Option<u32> {
        let any: &Packet = packets.first()?;
        let last = packets.last().filter(|_| stamped);
        let last = last.map_or(Timestamp::ZERO, |p| p.anno.timestamp);
        let (mut some, mut at) = ([any; GROUP], [0; GROUP]);
        let mut n = 0;
        for (i, (p, x)) in packets.iter().zip(&mut self.group).enumerate() {
            x.rule = ASK;
            if x.action >= BY_FLOW
                && let (Some(s), Some(a)) = (some.get_mut(n), at.get_mut(n))
            {
                (*s, *a) = (p, i);
                n += 1;
                self.seen_filter.prefetch(x.hash);
            }
        }
        let mut rules = std::mem::take(&mut self.rules);
        let some = some.get(..n).unwrap_or_default();
        let stage = self.runner.first_rules(source, some, last, &mut rules);
        if let Some(stage) = stage {
            self.runner.prefetch_bindings_each(stage, some, &rules);
            self.runner.prefetch_asked(stage, some, &rules);
        }
        for (i, rule) in at.iter().zip(&rules) {
            if let Some(x) = self.group.get_mut(*i) {
                x.rule = *rule;
            }
        }
        self.rules = rules;
        stage
    }

    /// Packets whose flows are not known take the actions of their rules, where these are known and no entries are to
    /// be made: how many.
    #[inline(never)]
    pub(crate) fn go_by_rule(&mut self, ingress: usize, n: usize) -> u64 {
        let Some(ingress) = self.ingress.get(ingress) else {
            return 0;
        };
        let stage = self.runner.entry(ElemId(ingress.source));
        if self.adaptive && !ingress.monitor.overloaded {
            let group = self.group.iter().take(n).filter(|x| x.rule != ASK);
            self.runner.prefetch_rules(stage, group.map(|x| x.rule));
            return 0;
        }
        let mut found = 0;
        for x in self.group.iter_mut().take(n) {
            let b = ingress.matches.get(usize::from(x.guard));
            let action = b.and_then(|b| b.rules.get(x.rule));
            let (Some(action), UNKNOWN) = (action, x.action) else {
                // the program's
                let rule = (x.rule != ASK).then_some(x.rule);
                self.runner.prefetch_rules(stage, rule.into_iter());
                continue;
            };
            // of those that are always remembered half, so that comparisons see both
            if !self.adaptive && x.hash & 1 == 0 {
                continue;
            }
            let again = match &self.admission {
                Some(_) => x.again,
                None => self.seen_filter.again(x.hash),
            };
            if again {
                continue;
            }
            let Some((t, template)) =
                (self.actions.tallies.get(action as usize)).zip(self.actions.template(action))
            else {
                continue;
            };
            prefetch(t);
            (x.action, x.slot, x.lease, x.operands) =
                (action, NO_SLOT, NO_LEASE, template.bytes.operands);
            found += 1;
        }
        found
    }

    /// [`FlowRunner::unknown`], of whose cost admission hears if packets are `limited`.
    #[inline(never)]
    pub(crate) fn unknown_timed(
        &mut self,
        (source, ingress, i): (ElemId, usize, usize),
        p: Pkt,
        stage: Option<u32>,
        limited: bool,
    ) {
        let timed = limited && self.admission.as_mut().is_some_and(Admission::times);
        let begun = timed.then(|| self.stopwatch.read());
        self.unknown(source, ingress, i, p, stage);
        if let (Some(a), Some(begun)) = (&mut self.admission, begun) {
            a.ran(self.stopwatch.read().saturating_sub(begun));
        }
    }

    /// The program runs a packet, and an entry is made of its action.
    #[cold]
    #[inline(never)]
    pub(crate) fn unknown(
        &mut self,
        source: ElemId,
        ingress: usize,
        i: usize,
        p: Pkt,
        stage: Option<u32>,
    ) {
        if self.calls {
            self.sync();
        }
        let mut x = self.group.get(i).copied().unwrap_or_default();
        // its action is known, but what a table of neighbours said may not be so any more
        let rests = self.actions.rests(x.action);
        if rests {
            x.action = if x.slot == NO_SLOT { UNKNOWN } else { BY_FLOW };
        }
        let first = stage.filter(|_| x.rule != ASK).map(|stage| First {
            stage,
            rule: Some(x.rule).filter(|r| *r != NO_RULE),
            action: None,
        });
        if x.guard == NO_MATCH
            && let Some(ingress) = self.ingress.get_mut(ingress)
            && ingress.make_match(&p, &mut self.next_match)
        {
            ingress.parse(simd::Any, &p, &mut x);
            self.news += 1;
            x.hash = self.table.hash(&x.key);
        }
        if x.guard == NO_MATCH {
            self.stats.others += u64::from(self.depth == 0);
            self.run_program(source, ingress, p, first);
            return;
        }
        let cache = self.ingress.get(ingress);
        let its = cache.and_then(|l| l.matches.get(usize::from(x.guard)));
        let overloaded = cache.is_some_and(|l| l.monitor.overloaded);
        let keyed = its.is_some_and(|b| b.interval_table.is_none());
        if x.action == UNKNOWN && keyed {
            x.action = BY_FLOW;
        }
        self.stats.misses += u64::from(self.depth == 0);
        let seen_filter = &mut self.seen_filter;
        let mut again = || match &self.admission {
            // it has been asked
            Some(_) => x.again,
            None => seen_filter.again(x.hash),
        };
        // no entry is made of it
        let single = self.adaptive && overloaded && !rests && x.action == BY_FLOW && !again();
        // of one that was not classified with others, the rule is another packet's
        let classified = first.as_ref().is_some_and(|f| f.rule.is_some());
        let of_rule = |b: &MaskedMatch| {
            let rests = |a| self.actions.rests(a);
            b.rules.open(x.rule) || b.rules.get(x.rule).is_some_and(rests)
        };
        let open = classified && its.is_some_and(|b| keyed && of_rule(b));
        let tries = !self.adaptive
            || rests
            || open
            || self
                .match_of(ingress, &x)
                .is_none_or(|b| b.insert_backoff.tries());
        if single && !open || !tries {
            self.run_program(source, ingress, p, first);
            return;
        }
        self.keep_original(&p);
        let mut path = self.path.take().unwrap_or_default();
        path.clear();
        if let Some(l) = &mut self.runner.loaded {
            l.state.path = Some(path);
        }
        let left = self.runner.graph.out.transmitted.len();
        let falsified = self.runner.falsified();
        self.run_program(source, ingress, p, first);
        let as_read = self.runner.falsified() == falsified;
        let state = self.runner.loaded.as_mut().map(|l| &mut l.state);
        let (path, stopped) = state.map_or((None, None), |s| (s.path.take(), s.stopped.take()));
        let same_graph = self.seen == Some(self.runner.graph.core.changes);
        if let Some(path) = path {
            let may = match (same_graph, as_read) {
                (true, true) => path.repeats(),
                (false, _) => Err("a handler was written to"),
                (_, false) => Err("a neighbour changed"),
            };
            self.settle(
                (ingress, i),
                &x,
                (&path, may, stopped),
                left,
                (open, single),
            );
            self.path = Some(path);
        }
    }

    /// A packet has gone a path that `may` be gone again: what is to be known of it is noted, and it goes on if it has
    /// stopped. `open`: nothing is known of its rule yet; `single`: no entry is to be made.
    fn settle(
        &mut self,
        (ingress, i): (usize, usize),
        x: &PacketMeta,
        (path, may, stopped): (&Path, Result<(), &'static str>, Option<Stopped>),
        left: usize,
        (open, single): (bool, bool),
    ) {
        let exit = may.and_then(|()| self.exit_of(ingress, x.guard, path));
        let to = exit.ok().flatten();
        let done = exit.and_then(|exit| {
            let after = stopped.as_ref().map(|s| &*s.p);
            self.remember(ingress, x, (path, exit, after), left, single)
        });
        if let Some(stopped) = stopped {
            self.go_on(stopped, to, i);
        }
        if open && done != Err(HAS_ENTRY) {
            self.learn(ingress, x, done.ok().flatten());
        }
        if let Some(b) = self.match_of(ingress, x).filter(|_| done != Err(HAS_ENTRY)) {
            b.insert_backoff.tried(done.is_ok());
        }
        if let (Err(why), false) = (done, single) {
            self.not_kept(why);
        }
    }

    /// The masked match that a packet is in.
    fn match_of(&mut self, ingress: usize, x: &PacketMeta) -> Option<&mut MaskedMatch> {
        let matches = &mut self.ingress.get_mut(ingress)?.matches;
        matches.get_mut(usize::from(x.guard))
    }

    /// A packet's action was not written down.
    fn not_kept(&mut self, why: &'static str) {
        match self.causes.iter_mut().find(|c| c.0 == why) {
            Some(c) => c.1 += 1,
            // Bound: there are about twenty
            None => self.causes.push((why, 1)),
        }
    }

    /// Why actions that followed one another were not composed, and how often.
    pub fn not_composed(&self) -> &[(&'static str, u64)] {
        &self.not_composed
    }

    /// Actions that followed one another were not composed.
    pub(crate) fn note_not_composed(&mut self, why: &'static str) {
        match self.not_composed.iter_mut().find(|c| c.0 == why) {
            Some(c) => c.1 += 1,
            // Bound: there are about twenty
            None => self.not_composed.push((why, 1)),
        }
    }

    /// Why packets that could have had an entry have none, and how many.
    pub fn causes(&self) -> &[(&'static str, u64)] {
        &self.causes
    }

    /// The program takes a packet: from the beginning on, or at a cache's stage.
    fn run_program(&mut self, source: ElemId, cache: usize, p: Pkt, first: Option<First>) {
        match self.depth {
            0 => self.runner.enter(source, p, first),
            _ => self.resume(cache, p),
        }
    }

    /// Makes an entry of a packet's action, or none if it is `single`; [`FlowRunner::original`] is what it was, and
    /// it left as number `left` of those that have, or has come to an exit, as which it looks like `after`. The
    /// action, if it is that of all packets of the masked match that the entry stage's rule takes.
    fn remember(
        &mut self,
        ingress: usize,
        x: &PacketMeta,
        (path, exit, after): (&Path, Option<u32>, Option<&Packet>),
        left: usize,
        single: bool,
    ) -> Result<Option<u32>, &'static str> {
        let there = match x.action {
            BY_FLOW => self.table.find(x.hash, &x.key),
            _ => NO_SLOT,
        };
        let its = self.table.get(there).map(|l| l.0[5] as u32);
        if its.is_some_and(|its| !self.actions.rests(its)) {
            return Err(HAS_ENTRY);
        }
        let code = self.runner.loaded.as_ref().ok_or(GONE)?.code.clone();
        let lane_at = ingress;
        let place = self.place(lane_at, exit);
        let ingress = self.ingress.get(ingress).ok_or(GONE)?;
        let guard = ingress.matches.get(usize::from(x.guard)).ok_or(GONE)?;
        // the entry stage's rule is the only one, and nothing is asked for bindings
        let entry = code
            .stages
            .get(self.runner.entry(ElemId(ingress.source)) as usize);
        let first = entry.and_then(|s| s.rules.checked_add(x.rule));
        let one = first.is_some_and(|r| path.rules == [r] && code.only_counts(r));
        let nodes = &self.runner.graph.core.nodes;
        let when = |e: u32, tag: u16| {
            let elem = nodes.get(e as usize).and_then(|n| n.elem.as_ref());
            elem.map_or(Accounts::Now, |e| e.accounts(tag))
        };
        let has_ports = guard.shape.transport != shape::Transport::Other;
        keys_tell(path, has_ports, ingress.seat.depth)?;
        let window = *self.original.window::<WINDOW>().ok_or(GONE)?;
        let asked = questions::questions(&code, path, guard, (&window, place.shift))?;
        let (mut action, template, flow) =
            flow_action::make(&code, (path, place, &asked), guard, &window, &when)?;
        if !action.waits() {
            self.tells_alone(lane_at, exit)?;
        }
        action.plain &= exit.is_none_or(|e| !self.is_alone(e));
        self.leaves_alike((path, exit, after), (&template, &flow), left, x.total)?;
        let zero_udp_checksum = template.zero_udp_checksum;
        let id = self.number_action(action, template, (&asked, &code.tables))?;
        let (w, t) = self.actions.get(id).ok_or(GONE)?;
        let template = self.actions.template(id);
        let equal_match = template.is_some_and(|a| a.bytes.operands == flow.operands);
        let operands = w.keyed
            || zero_udp_checksum
            || !path.flows.is_empty()
            || !equal_match
            // packets of the same rules may ask about other neighbours
            || asked.own;
        let all = Some(id).filter(|_| one && !operands && t.plain());
        if single {
            return Ok(all);
        }
        if x.action == UNKNOWN {
            let by_flow = operands || has_ports && self.hints_at(lane_at, exit);
            let ingress = self.ingress.get_mut(lane_at).ok_or(GONE)?;
            let guard = ingress.matches.get_mut(usize::from(x.guard)).ok_or(GONE)?;
            let action = if by_flow { BY_FLOW } else { id };
            let interval_table = guard.interval_table.as_mut().ok_or(GONE)?;
            interval_table.set(&window, action, &mut ingress.places);
            self.stats.made += 1;
            self.news += 1;
            return Ok(None);
        }
        if there != NO_SLOT {
            if its == Some(id) {
                // it has come back, with all entries that have it
                return Ok(all);
            }
            self.drop_entry(there);
        }
        if x.key[0] & table::LONG != 0 && flow != Flow::default() {
            return Err("an IPv6 flow with checksums of its own");
        }
        let lease = self.lease(path)?;
        let entry = entry_of(&x.key, id, lease, &flow);
        self.stats.made += 1;
        self.news += 1;
        let (stats, pool, store) = (
            &mut self.stats,
            &mut self.pool,
            &mut self.runner.graph.store,
        );
        self.table.insert(x.hash, entry, &mut |old| {
            stats.evicted += 1;
            let lease = (old.0[5] >> 32) as u32;
            if lease != NO_LEASE {
                pool.give_back(lease, store);
            }
        });
        Ok(all)
    }

    /// The number of an action, which stands on what was asked on the way.
    fn number_action(
        &mut self,
        action: FlowAction,
        template: RewriteTemplate,
        (asked, tables): (&Questions, &[u32]),
    ) -> Result<u32, &'static str> {
        let Some(id) = self.actions.number(action, template) else {
            // those of neighbours that have gone are among them
            self.outgrown |= !asked.all.is_empty();
            return Err("too many different ways");
        };
        if !asked.all.is_empty() {
            let g = &self.runner.graph;
            let stands = (self.neighbors).stand(id, &asked.all, (tables, &g.store), g.core.now);
            if stands.is_err() {
                self.actions.rest(id);
            }
            stands?;
        }
        Ok(id)
    }

    /// A lease on the bindings that were used on the way, if there are any.
    fn lease(&mut self, path: &Path) -> Result<u32, &'static str> {
        // a lease has one last use: which of two bindings of a table was used first would be forgotten
        let twice = |(i, f): (usize, &LastingBinding)| {
            let before = path.flows.get(..i).unwrap_or_default();
            before
                .iter()
                .any(|b| b.table == f.table && b.flow != f.flow)
        };
        if path.flows.iter().enumerate().any(twice) {
            return Err("two bindings of one table");
        }
        match path.flows.is_empty() {
            true => Ok(NO_LEASE),
            false => (self.pool.take(&path.flows, &mut self.runner.graph.store)).ok_or("no lease"),
        }
    }

    /// Would the entry have made of the packet, [`FlowRunner::original`], what the program has made of it?
    fn leaves_alike(
        &mut self,
        (path, exit, after): (&Path, Option<u32>, Option<&Packet>),
        (template, flow): (&RewriteTemplate, &Flow),
        left: usize,
        total: u32,
    ) -> Result<(), &'static str> {
        const WRONG: &str = "REFUSED: the entry would have been wrong";
        let out = self.runner.graph.out.transmitted.get(left..).ok_or(GONE)?;
        let stays = match (path.end, out) {
            (PathEnd::Drop(..), []) => return Ok(()),
            (PathEnd::Output(..), [_]) => false,
            (PathEnd::Write { .. } | PathEnd::Ask { .. }, []) => true,
            // what left besides is of something that was waiting
            _ => return Err("others left with it"),
        };
        // it may be one whose checksum comes to zero on the way
        let operands = match template.zero_udp_checksum_of(flow, &self.original) {
            Some(sum) => flow.operands.with_zero_udp_checksum(sum),
            None => flow.operands,
        };
        template.apply(&mut self.original, &operands, total);
        let right = match (stays, path.end, out) {
            (false, PathEnd::Output(sink, _), [(e, p)]) => {
                e.0 == sink && self.original.data() == p.data()
            }
            _ => {
                let code = self.runner.loaded.as_ref().map(|l| l.code.clone());
                let exit = exit.and_then(|e| self.exits.all.get_mut(e as usize));
                let (exit, code) = exit.zip(code).ok_or(GONE)?;
                exit.apply(&code, &mut self.original);
                after.is_some_and(|p| looks_equal(p, &self.original))
            }
        };
        if !right {
            self.stats.refused += 1;
            return Err(WRONG);
        }
        Ok(())
    }

    /// Notes what is known of the rule that has taken a packet: the action of all that it takes, or that there is none.
    #[cold]
    fn learn(&mut self, ingress: usize, x: &PacketMeta, action: Option<u32>) {
        let Some(ingress) = self.ingress.get_mut(ingress) else {
            return;
        };
        let code = self.runner.loaded.as_ref().map(|l| &l.code);
        let entry = self.runner.entry(ElemId(ingress.source));
        let Some(rules) = code.map(|c| c.rules_of(entry as usize)) else {
            return;
        };
        let taken = ingress.matches.iter().map(|b| b.rules.len()).sum();
        if let Some(b) = ingress.matches.get_mut(usize::from(x.guard)) {
            b.rules.set(x.rule, rules, taken, action);
        }
    }
}

/// Does a packet's key tell what bindings it has?
fn keys_tell(path: &Path, has_ports: bool, depth: usize) -> Result<(), &'static str> {
    // a rewriter may have looked at ports that are not in the key
    if !has_ports && !path.flows.is_empty() {
        return Err("a binding of something that is cut off");
    }
    let arrives = |f: &LastingBinding| f.by == BoundBy::Arrival;
    if depth == 0 && path.flows.iter().any(arrives) {
        return Err("a connection of which nobody has been asked");
    }
    Ok(())
}

/// Is nothing different about two packets that another epoch may read? The bytes in front of them, as far as headers
/// may have been there, are compared, too.
fn looks_equal(a: &Packet, b: &Packet) -> bool {
    const BEFORE: usize = 32;
    let before = |p: &Packet| {
        let h = p.headroom_bytes();
        h.get(h.len().saturating_sub(BEFORE)..).map(<[u8]>::to_vec)
    };
    let marks = |p: &Packet| {
        (
            p.mac_header_offset(),
            p.network_header_offset(),
            p.transport_header_offset(),
        )
    };
    a.data() == b.data()
        && before(a) == before(b)
        && marks(a) == marks(b)
        && a.anno.bytes() == b.anno.bytes()
        && a.anno.packet_type == b.anno.packet_type
}

/// Key, action, lease; of a short key's flow its own values.
pub(crate) fn entry_of(key: &[u64; table::KEY], action: u32, lease: u32, flow: &Flow) -> Entry {
    let [a, b, c, d, e] = *key;
    let last = u64::from(lease) << 32 | u64::from(action);
    if a & table::LONG != 0 {
        return Entry([a, b, c, d, e, last, 0, 0]);
    }
    let [c, s] = flow.operands.0;
    let [d, e, f] = flow.zero_udp_checksum;
    Entry([a, b, c, s, d, last, e, f])
}

#[inline(always)]
pub(crate) fn flow_of(l: &Entry) -> Flow {
    Flow {
        operands: FlowOperands([l.0[2], l.0[3]]),
        zero_udp_checksum: [l.0[4], l.0[6], l.0[7]],
    }
}
