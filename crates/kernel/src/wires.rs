//! Who is connected to whom: pairs of virtual interfaces for links and for the chain's ports.

use crate::KernelError;
use onefold_chain::kernel::{KernelForm, KernelPlan, KernelPort};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// One end of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum End {
    /// A port of the chain, by number: the tester is there.
    Chain(usize),
    /// A function's port, both by number.
    Function(usize, usize),
}

/// All wires.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    /// The other end of each function's port that has one.
    pub peers: BTreeMap<(usize, usize), End>,
}

impl Wires {
    /// Of a chain.
    ///
    /// # Errors
    /// A port has two other ends.
    pub fn of(plan: &KernelPlan) -> Result<Wires, KernelError> {
        let number = |p: &KernelPort| {
            let f = plan.functions.iter().position(|f| f.name == p.function)?;
            Some((f, p.port))
        };
        let mut ends: BTreeMap<(usize, usize), BTreeSet<End>> = BTreeMap::new();
        let mut add = |at: (usize, usize), end: End| {
            ends.entry(at).or_default().insert(end);
        };
        for (from, to) in &plan.links {
            if let (Some(a), Some(b)) = (number(from), number(to)) {
                add(a, End::Function(b.0, b.1));
                add(b, End::Function(a.0, a.1));
            }
        }
        for (i, (_, entry, exit)) in plan.ports.iter().enumerate() {
            for at in entry.iter().chain(exit).filter_map(number) {
                add(at, End::Chain(i));
            }
        }
        let mut peers = BTreeMap::new();
        for ((f, port), all) in ends {
            let mut all = all.into_iter();
            match (all.next(), all.next()) {
                (Some(end), None) => drop(peers.insert((f, port), end)),
                _ => {
                    let name = plan.functions.get(f).map_or("", |f| &f.name);
                    return Err(KernelError::TwoEnds {
                        port: format!("{name}[{port}]"),
                    });
                }
            }
        }
        Ok(Wires { peers })
    }

    /// The MAC address that frames must have that enter here: that of the first router behind the firewalls on the way.
    /// `None`: there is none.
    pub fn expected(&self, plan: &KernelPlan, mut at: (usize, usize)) -> Option<[u8; 6]> {
        let mut been = HashSet::new();
        // Bound: each function's port once
        while been.insert(at) {
            match &plan.functions.get(at.0)?.form {
                KernelForm::Router(r) => {
                    let mac: onefold_packet::EtherAddr =
                        r.interfaces.get(at.1)?.mac.parse().ok()?;
                    return Some(mac.0);
                }
                KernelForm::Firewall(_) => {
                    let other = (at.0, 1 - at.1.min(1));
                    at = match self.peers.get(&other)? {
                        End::Function(f, p) => (*f, *p),
                        End::Chain(_) => return None,
                    };
                }
            }
        }
        None
    }
}
