//! Where each process of a chain runs, and what it has outside of shared memory.

use super::cables::Cables;
use super::{Boxed, Outside};
use anyhow::Result;
use onefold_chain::segments::Segments;
use onefold_chain::{Chain, Interconnect};
use onefold_nf::{Isolation, Network};
use std::time::Duration;

/// When nothing has crossed interfaces between processes for so long, nothing is under way there.
const SETTLE: Duration = Duration::from_millis(20);

/// See the module's text.
pub struct Places {
    /// By segment.
    pub outside: Vec<Outside>,
    /// By segment.
    pub isolation: Vec<Isolation>,
    /// Between them.
    pub cables: Option<Cables>,
    /// With captures: packets go on in real time, and nothing is under way when nothing was seen for so long. `None`:
    /// all of the chain is in shared memory, and that is known.
    pub settle: Option<Duration>,
}

impl Places {
    /// Of a chain; interfaces between processes are made.
    ///
    /// # Errors
    /// Without privilege, or without `ip`.
    pub fn new(chain: &Chain, segments: &Segments, quiet: bool) -> Result<Places> {
        let wired = chain.interconnect.is_wired();
        let switched = chain.interconnect == Interconnect::Ovs;
        let cables = wired.then(|| Cables::lay(segments, switched)).transpose()?;
        let mut settle = wired.then_some(SETTLE);
        let (mut outside, mut isolation) = (Vec::new(), Vec::new());
        for (n, s) in segments.all.iter().enumerate() {
            let boxed = s.external.as_ref().map(|b| Boxed {
                name: s.name.clone(),
                black_box: b.as_ref().clone(),
                quiet,
            });
            if let Some(b) = &boxed {
                let own = Duration::from_secs_f64(b.black_box.settle);
                settle = settle.max(Some(own));
            }
            let space = cables.as_ref().and_then(|c| c.spaces.get(n));
            isolation.push(Isolation {
                network: match space {
                    Some(space) => Network::Of(space.clone()),
                    None if s.apart || boxed.is_some() => Network::New,
                    None => Network::Shared,
                },
                processes: false,
            });
            let wires = cables.as_ref().and_then(|c| c.wires.get(n));
            outside.push(Outside {
                wires: wires.cloned().unwrap_or_default(),
                boxed,
            });
        }
        Ok(Places {
            outside,
            isolation,
            cables,
            settle,
        })
    }
}
