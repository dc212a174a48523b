//! TCP connections, packet by packet.

use super::frame::tcp_flag::{ACK, FIN, PSH, SYN};
use super::params::TcpStyle;
use crate::rng::mix;

/// What a flow remembers between its packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowState {
    /// Identifies the flow: its addresses and ports are computed from it.
    pub seed: u64,
    /// Packets so far; of TCP: the position within the connection.
    pub step: u32,
    /// Connections so far.
    pub round: u32,
    /// Next sequence number of the client.
    pub client: u32,
    /// Next sequence number of the server.
    pub server: u32,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub from_client: bool,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub data: bool,
}

impl FlowState {
    /// The next segment of a flow. After one with data, [`FlowState::sent`] must be told how much there was.
    ///
    /// Without replies the server's segments are still taken into account in the numbers, but not returned.
    pub fn next_segment(&mut self, style: TcpStyle, replies: bool) -> Segment {
        match style {
            TcpStyle::Stateless => {
                if self.step == 0 {
                    self.numbers();
                }
                let from_client = !replies || self.step.is_multiple_of(2);
                self.step = self.step.wrapping_add(1);
                self.segment(from_client, PSH | ACK, true)
            }
            TcpStyle::Connections { segments } => {
                // At most two steps of the server follow each other or are skipped.
                loop {
                    let s = self.connection_step(segments, replies);
                    if s.from_client || replies {
                        return s;
                    }
                }
            }
        }
    }

    fn connection_step(&mut self, segments: u32, replies: bool) -> Segment {
        let step = self.step;
        self.step += 1;
        let after = step.checked_sub(3 + segments);
        match (step, after) {
            (0, _) => {
                self.numbers();
                let s = Segment {
                    ack: 0,
                    ..self.segment(true, SYN, false)
                };
                self.client = self.client.wrapping_add(1);
                s
            }
            (1, _) => {
                let s = self.segment(false, SYN | ACK, false);
                self.server = self.server.wrapping_add(1);
                s
            }
            (2, _) => self.segment(true, ACK, false),
            (_, None) => {
                let from_client = !replies || (step - 3).is_multiple_of(2);
                self.segment(from_client, PSH | ACK, true)
            }
            (_, Some(0)) => {
                let s = self.segment(true, FIN | ACK, false);
                self.client = self.client.wrapping_add(1);
                s
            }
            (_, Some(1)) => {
                let s = self.segment(false, FIN | ACK, false);
                self.server = self.server.wrapping_add(1);
                s
            }
            (_, Some(_)) => {
                self.step = 0;
                self.round = self.round.wrapping_add(1);
                self.segment(true, ACK, false)
            }
        }
    }

    /// Initial sequence numbers of a connection.
    fn numbers(&mut self) {
        let m = mix(self.seed ^ u64::from(self.round) << 32);
        self.client = m as u32;
        self.server = (m >> 32) as u32;
    }

    fn segment(&self, from_client: bool, flags: u8, data: bool) -> Segment {
        let (seq, ack) = if from_client {
            (self.client, self.server)
        } else {
            (self.server, self.client)
        };
        Segment {
            from_client,
            seq,
            ack,
            flags,
            data,
        }
    }

    /// So many bytes of data were sent.
    pub fn sent(&mut self, from_client: bool, bytes: usize) {
        let side = if from_client {
            &mut self.client
        } else {
            &mut self.server
        };
        *side = side.wrapping_add(bytes as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(segments: u32, replies: bool, count: usize) -> Vec<Segment> {
        let mut f = FlowState {
            seed: 3,
            ..FlowState::default()
        };
        (0..count)
            .map(|_| {
                let s = f.next_segment(TcpStyle::Connections { segments }, replies);
                if s.data {
                    f.sent(s.from_client, 100);
                }
                s
            })
            .collect()
    }

    #[test]
    fn a_connection_both_ways() {
        let s = connection(3, true, 10);
        let shape: Vec<(bool, u8)> = s.iter().map(|s| (s.from_client, s.flags)).collect();
        let (data, end) = (PSH | ACK, FIN | ACK);
        assert_eq!(
            shape,
            [
                (true, SYN),
                (false, SYN | ACK),
                (true, ACK),
                (true, data),
                (false, data),
                (true, data),
                (true, end),
                (false, end),
                (true, ACK),
                (true, SYN)
            ]
        );
        let (c, v) = (s[0].seq, s[1].seq);
        let numbers: Vec<(u32, u32)> = s[..9]
            .iter()
            .map(|s| {
                let (own, other) = if s.from_client { (c, v) } else { (v, c) };
                (s.seq.wrapping_sub(own), s.ack.wrapping_sub(other))
            })
            .collect();
        assert_eq!(s[0].ack, 0);
        assert_eq!(
            numbers[1..],
            [
                (0, 1),
                (1, 1),
                (1, 1),
                (1, 101),
                (101, 101),
                (201, 101),
                (101, 202),
                (202, 102)
            ]
        );
        assert_ne!(s[9].seq, c, "the next connection has numbers of its own");
    }

    #[test]
    fn a_connection_from_the_client_only() {
        let s = connection(2, false, 7);
        assert!(s.iter().all(|s| s.from_client));
        let flags: Vec<u8> = s.iter().map(|s| s.flags).collect();
        assert_eq!(flags, [SYN, ACK, PSH | ACK, PSH | ACK, FIN | ACK, ACK, SYN]);
        // The server's SYN and FIN are counted though they are not sent here.
        assert_eq!(s[5].ack, s[1].ack.wrapping_add(1));
    }
}
