//! What is promised of mappings that are endpoint-independent: an inside address and port has one outside address and
//! port, whomever it talks to, as long as one of its flows lasts; no other has it; a new one has its own port where
//! that is free, else one of its class and parity, else one of its class.

use super::config::{Kind, Pattern};
use super::model::{Arrival, Broken, End, Model, Seen};
use super::rig::answering;
use onefold_nat::FlowId;
use std::collections::BTreeSet;

impl Model {
    /// Mappings of a map: inside and outside.
    fn mappings(&self, map: u8) -> impl Iterator<Item = [End; 2]> {
        let mine = self.bindings().filter(move |b| b.map == map);
        mine.filter_map(|b| b.mapping)
    }

    /// The ports that an inside end may get at a pattern's address.
    fn ports_for(&self, map: u8, p: &Pattern, inside: End) -> Vec<u16> {
        let here = self.mappings(map).filter(|[_, o]| o.0 == p.saddr);
        let mut taken = BTreeSet::new();
        for [i, o] in here {
            if i == inside {
                return vec![o.1];
            }
            taken.insert(o.1);
        }
        let own = inside.1;
        let (first, last) = match p.sport {
            0 => (own, own),
            first => (first, first + p.more as u16),
        };
        let free: Vec<u16> = (first..=last).filter(|p| !taken.contains(p)).collect();
        if free.contains(&own) {
            return vec![own];
        }
        if self.config.kind == Kind::Ping {
            return free;
        }
        let low = own < 1024;
        let others = low || last < 1024;
        let class = |p: &u16| (*p < 1024) == low;
        let parity = |p: &u16| p % 2 == own % 2;
        let tiers: [&dyn Fn(&u16) -> bool; 4] = [
            &|p| class(p) && parity(p),
            &|p| class(p),
            &|p| others && parity(p),
            &|_| others,
        ];
        let some = tiers
            .into_iter()
            .map(|t| free.iter().copied().filter(|p| t(p)).collect());
        let mut some = some.filter(|v: &Vec<u16>| !v.is_empty());
        some.next().unwrap_or_default()
    }

    /// A new flow by a pattern that gives it a source.
    pub(super) fn by_mapping(
        &mut self,
        a: Arrival,
        now_ms: u64,
        seen: &Seen,
        p: &Pattern,
        outputs: [usize; 2],
    ) -> Result<(), Broken> {
        let (map, arrived) = (a.map, a.flow);
        let inside = (arrived.saddr, arrived.sport);
        let ports = self.ports_for(map, p, inside);
        let becomes = |port: u16| {
            let n = if p.sport == 0 { 0 } else { port - p.sport };
            self.variation(arrived, p, n.into())
        };
        // what other inputs let in may have the replies of any of them
        let clash = ports.iter().any(|p| !self.is_free(map, becomes(*p)));
        let fail = |why: String| Err(Broken(format!("{why}; seen: {seen:?}")));
        let port = match seen {
            Seen::Gone if ports.is_empty() || clash => return Ok(()),
            Seen::Gone => ports.first().copied(),
            Seen::Out(o, to) => {
                if *o != outputs[0] {
                    return fail(format!("a new flow leaves at output {}", outputs[0]));
                }
                let is_it = |p: &u16| self.on_the_wire(arrived, becomes(*p), false) == *to;
                ports.iter().copied().find(is_it)
            }
        };
        let Some(port) = port else {
            return fail(format!("{arrived} may have one of {ports:?}"));
        };
        let to = becomes(port);
        if *seen != Seen::Gone && !self.is_free(map, to) {
            return fail(format!("{arrived} got what another flow has"));
        }
        let mapping = Some([inside, (p.saddr, port)]);
        self.begin(a, now_ms, seen, to, outputs, mapping)
    }

    /// A new flow from outside to a port that somebody may have.
    pub(super) fn begin_unseen(
        &mut self,
        a: Arrival,
        now_ms: u64,
        seen: &Seen,
        outputs: [usize; 2],
    ) -> Result<(), Broken> {
        let (map, arrived) = (a.map, a.flow);
        let ping = self.config.kind == Kind::Ping;
        let port = if ping { arrived.sport } else { arrived.dport };
        let outside = (arrived.daddr, port);
        let owner = self.mappings(map).find(|[_, o]| *o == outside);
        let to = owner.map(|[(daddr, port), _]| {
            let mut to = FlowId { daddr, ..arrived };
            match ping {
                true => (to.sport, to.dport) = (port, answering(port)),
                false => to.dport = port,
            }
            to
        });
        let to = to.filter(|to| self.is_free(map, *to));
        let fail = |why: String| Err(Broken(format!("{why}; seen: {seen:?}")));
        match (to, seen) {
            (None, Seen::Gone) => Ok(()),
            (None, _) => fail(format!("{arrived} goes to nobody")),
            (Some(to), Seen::Out(o, t)) if *o != outputs[0] || *t != to => {
                fail(format!("{arrived} becomes {to}"))
            }
            (Some(to), _) => self.begin(a, now_ms, seen, to, outputs, owner),
        }
    }
}
