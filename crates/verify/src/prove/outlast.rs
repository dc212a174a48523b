//! Differences that show where a flow begins: the rewriter that is asked is made to forget a flow that others still
//! know, and the packet that came there comes once more.

use super::chase::Chase;
use super::witness::Shown;
use crate::event::Event;
use crate::frame::{self, Keep};
use onefold_element::ElemId;
use onefold_element::model::Binding;
use onefold_engine::program::ProgramStep;
use onefold_packet::Timestamp;
use std::collections::VecDeque;

/// Shorter than the time-outs of rewriters.
const PAUSE: Timestamp = Timestamp::from_secs(170);
/// Together longer than those of flows without connections, and an interval of the sweep.
const PAUSES: usize = 8;
/// Times that this is tried in one chase.
pub(super) const TRIES: usize = 12;

/// A packet that came to the place where a difference is.
pub(super) struct Came {
    pub source: ElemId,
    pub bytes: Vec<u8>,
    /// What rewriters before answered.
    pub bound: Vec<(ElemId, Binding)>,
    /// The rewriter that is asked there.
    pub asked: ElemId,
}

impl Came {
    /// A packet that took these steps, if its last one is where a rewriter is asked.
    pub fn of(source: ElemId, bytes: &[u8], steps: &[ProgramStep], asked: ElemId) -> Came {
        let bound = steps.iter().flat_map(|s| &s.bound);
        Came {
            source,
            bytes: bytes.to_vec(),
            bound: bound.filter(|(e, _)| *e != asked).copied().collect(),
            asked,
        }
    }
}

impl Chase<'_> {
    /// Lets the rewriter forget the packet's flow while the others keep theirs, and sends it again.
    pub(super) fn outlast(&mut self, c: &Came) -> Option<Shown> {
        let mut keep: Vec<(ElemId, Vec<u8>)> = Vec::new();
        for (elem, b) in &c.bound {
            keep.extend(self.keeper(c, *elem, b));
        }
        if keep.is_empty() {
            return None;
        }
        let mut queue = VecDeque::new();
        for _ in 0..PAUSES {
            if let Some(s) = self.wait(PAUSE) {
                return Some(s);
            }
            for (source, bytes) in &keep {
                if let Some(s) = self.send(*source, bytes.clone(), None, false, &mut queue) {
                    return Some(s);
                }
            }
        }
        self.send(c.source, c.bytes.clone(), None, false, &mut queue)
            .or_else(|| self.checkpoint())
    }

    /// A frame of the other direction of a flow, which comes to its rewriter and not to the one that is to forget.
    fn keeper(&self, c: &Came, elem: ElemId, b: &Binding) -> Option<(ElemId, Vec<u8>)> {
        let packet = answering(&c.bytes, b)?;
        let mut sources: Vec<ElemId> = Vec::new();
        // a frame of each entry says how they begin there
        for i in (0..self.record.len()).rev() {
            let Some(e) = self.record.get(i) else {
                continue;
            };
            let (Some(source), Some(v)) = (e.source, frame::view(&e.bytes)) else {
                continue;
            };
            if sources.contains(&source) || v.ether_type != 0x0800 {
                continue;
            }
            sources.push(source);
            let mut bytes = e.bytes.get(..v.net)?.to_vec();
            bytes.extend_from_slice(&packet);
            frame::finish(&mut bytes, Keep::default());
            let mut probe = self.pair.fork();
            probe.right.watch();
            let at = self.now + Timestamp(1);
            probe.step(&Event::frame(at, source, bytes.clone()));
            let steps = probe.right.watched();
            let bound = || steps.iter().flat_map(|s| &s.bound);
            if bound().any(|(e, _)| *e == elem) && !bound().any(|(e, _)| *e == c.asked) {
                return Some((source, bytes));
            }
            if sources.len() >= self.entries {
                break;
            }
        }
        None
    }
}

/// The IP packet of a frame with addresses and ports as those of the other direction of a binding.
fn answering(b: &[u8], binding: &Binding) -> Option<Vec<u8>> {
    let v = frame::view(b)?;
    let transport = v.transport?.checked_sub(v.net)?;
    if v.ether_type != 0x0800 || !matches!(v.proto, 6 | 17) {
        return None;
    }
    let mut p = b.get(v.net..)?.to_vec();
    p.get_mut(12..16)?
        .copy_from_slice(&binding.daddr.to_be_bytes());
    p.get_mut(16..20)?
        .copy_from_slice(&binding.saddr.to_be_bytes());
    let ports = p.get_mut(transport..transport + 4)?;
    ports[..2].copy_from_slice(&binding.dport.to_be_bytes());
    ports[2..].copy_from_slice(&binding.sport.to_be_bytes());
    Some(p)
}
