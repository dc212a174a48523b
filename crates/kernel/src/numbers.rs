//! Connections of TCP whose numbers jump, and their resets.
//!
//! A reset ends an established connection if its number is what the other side has acknowledged, or the end of the
//! segment before it. The kernel takes acknowledgements and ends for what they say where they are in its window
//! (nf_conntrack_proto_tcp.c, `tcp_in_window`), even if it is told to be liberal; Onefold holds nothing against
//! windows.
//! So where numbers are not in step, a reset may end a connection on one side alone, and nobody sees it at once.

use crate::ends::{Ends, Place, read};
use std::collections::HashSet;

const TCP: u8 = 6;
const RST: u8 = 4;
/// Whatever a segment has, it is in a window of so many bytes: no frame is longer.
const WIDE: u16 = 16_384;
/// The number that both sides begin and go on with.
const FIRST: u32 = 1;

/// Both ends, whichever way.
type Pair = (Place, Place);

fn pair(e: &Ends) -> Pair {
    let rank = |p: &Place| (p.address, p.port);
    match rank(&e.src) <= rank(&e.dst) {
        true => (e.src, e.dst),
        false => (e.dst, e.src),
    }
}

/// See the module's text. Bound: two pairs for each frame that was sent since the kernel forgot its connections.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    jumped: HashSet<Pair>,
}

/// Ends of a segment, whether it is a reset, and whether its numbers are those that all others have.
fn segment(frame: &[u8]) -> Option<(Ends, bool, bool)> {
    let f = read(frame).filter(|f| !f.quoted && f.ends.protocol == TCP)?;
    let h = f.upper_layer(frame).first_chunk::<20>()?;
    let four = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    let window = u16::from_be_bytes([h[14], h[15]]);
    let in_step = four(4) == FIRST && four(8) == FIRST && window >= WIDE;
    Some((f.ends, h[13] & RST != 0, in_step))
}

impl Numbers {
    /// A frame has been sent, which left as a packet with the ends `left`, if one did.
    pub fn sent(&mut self, frame: &[u8], left: Option<&Ends>) {
        if let Some((arrived, _, false)) = segment(frame) {
            self.jumped.insert(pair(&arrived));
            self.jumped.extend(left.map(pair));
        }
    }

    /// Is it a reset of which it depends on numbers that have jumped what it does?
    pub fn leave_open(&self, reset: &[u8]) -> bool {
        match segment(reset) {
            Some((arrived, true, in_step)) => !in_step || self.jumped.contains(&pair(&arrived)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ends::tests::frame;

    const HOST: [u8; 4] = [10, 0, 0, 1];
    const OWN: [u8; 4] = [203, 0, 113, 1];
    const SERVER: [u8; 4] = [198, 51, 100, 7];
    const ACK: u8 = 16;

    fn segment(ends: ([u8; 4], u16, [u8; 4], u16), flags: u8, seq: u32, window: u16) -> Vec<u8> {
        let (from, sport, to, dport) = ends;
        let mut tcp = [0; 20];
        tcp[..2].copy_from_slice(&sport.to_be_bytes());
        tcp[2..4].copy_from_slice(&dport.to_be_bytes());
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        tcp[11] = 1;
        (tcp[12], tcp[13]) = (0x50, flags);
        tcp[14..16].copy_from_slice(&window.to_be_bytes());
        frame(from, to, TCP, &tcp)
    }

    #[test]
    fn resets_of_connections_whose_numbers_have_jumped() {
        let (there, out) = ((HOST, 4000, SERVER, 80), (OWN, 7000, SERVER, 80));
        let back = (SERVER, 80, OWN, 7000);
        for (seq, window, open) in [(1, 65_535, false), (9, 65_535, true), (1, 10, true)] {
            let mut n = Numbers::default();
            let left = read(&segment(out, ACK, seq, window)).map(|f| f.ends);
            n.sent(&segment(there, ACK, seq, window), left.as_ref());
            assert_eq!(
                n.leave_open(&segment(there, RST, 1, 65_535)),
                open,
                "{seq} {window}"
            );
            assert_eq!(n.leave_open(&segment(back, RST | ACK, 1, 65_535)), open);
            // what is no reset, or of another connection
            assert!(!n.leave_open(&segment(back, ACK, 1, 65_535)));
            assert!(!n.leave_open(&segment((SERVER, 80, OWN, 7001), RST, 1, 65_535)));
            assert!(n.leave_open(&segment((SERVER, 80, OWN, 7001), RST, 7, 65_535)));
        }
    }
}
