//! Packets that stop where an epoch ends, and go on from there.

use crate::graph::reference::Graph;
use crate::program::code::{Code, End};
use crate::program::exec::general::Exec;
use crate::program::exec::state::{PacketState, State, Stopped};
use crate::program::path::PathEnd;
use onefold_packet::Pkt;

/// Sends a packet that comes to a stage at the beginning of an epoch all its way. `changes`: [`Graph::changes`] when
/// it entered.
pub(crate) fn run_from(
    code: &Code,
    st: &mut State,
    g: &mut Graph,
    stage: u32,
    p: Pkt,
    changes: u64,
) {
    let mut x = Exec::new(code, st, g, changes);
    x.packet(p, stage, true, PacketState::NEW, changes, None);
    x.rest(changes);
}

/// Sends a packet that stopped at the end of an epoch all its way.
pub(crate) fn go_on(code: &Code, st: &mut State, g: &mut Graph, stopped: Stopped, changes: u64) {
    let mut x = Exec::new(code, st, g, changes);
    let Stopped {
        p,
        end,
        packet_state,
    } = stopped;
    let next = match end {
        End::Write { next, .. } => Some((p, next)),
        End::Ask {
            to, outputs, site, ..
        } => {
            x.st.counts.site(site);
            x.ask(p, to, outputs, packet_state)
        }
        // nothing else stops
        _ => None,
    };
    if let Some((p, stage)) = next {
        x.packet(p, stage, true, packet_state, changes, None);
    }
    x.rest(changes);
}

impl Exec<'_> {
    /// An epoch ends, and the path up to here is being written down: the packet waits. Otherwise it is given back.
    pub(super) fn stops(&mut self, p: Pkt, end: End, packet_state: PacketState) -> Option<Pkt> {
        let Some(t) = self.st.path.as_mut().filter(|t| t.once.is_none()) else {
            return Some(p);
        };
        t.end = match end {
            End::Write { image, next } => PathEnd::Write { image, next },
            End::Ask {
                to,
                image,
                outputs,
                site,
            } => PathEnd::Ask {
                image,
                node: to.node,
                port: to.port,
                outputs: (outputs.from, outputs.to),
                site,
            },
            _ => return Some(p),
        };
        t.values.clone_from(&self.st.regs.v);
        t.late = !packet_state.late().is_empty();
        let mut packet_state = packet_state;
        packet_state.next_epoch();
        self.st.stopped = Some(Stopped {
            p,
            end,
            packet_state,
        });
        None
    }
}
