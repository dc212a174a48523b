//! The state machine of TCP as netfilter follows it from between the two ends.
//!
//! Source: net/netfilter/nf_conntrack_proto_tcp.c of Linux, `nf_conntrack_tcp_packet` and the table `tcp_conntracks`.
//! Sequence numbers are not held against windows, as with nf_conntrack_tcp_be_liberal; of resets, the number is held
//! against what the other side has acknowledged, with nf_conntrack_tcp_ignore_invalid_rst: one that is not the next
//! byte's leaves a connection established. For that alone, the first segment of a connection that is picked up in the
//! middle is held against a window: what it acknowledges is hardly ever in it, and counts for nothing.

use super::settings::Settings;
use onefold_element::FlowLease;

/// States, in the kernel's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(super) enum State {
    /// Nothing has been seen.
    #[default]
    None = 0,
    /// SYN.
    SynSent = 1,
    /// SYN and ACK.
    SynRecv = 2,
    /// ACK.
    Established = 3,
    /// FIN.
    FinWait = 4,
    /// FIN, and the ACK of it.
    CloseWait = 5,
    /// FIN of both sides.
    LastAck = 6,
    /// The ACK of the last FIN.
    TimeWait = 7,
    /// RST.
    Close = 8,
    /// SYN of both sides.
    SynSent2 = 9,
}

impl State {
    /// As `conntrack -L` prints it.
    pub fn name(self) -> &'static str {
        match self {
            State::None => "NONE",
            State::SynSent => "SYN_SENT",
            State::SynRecv => "SYN_RECV",
            State::Established => "ESTABLISHED",
            State::FinWait => "FIN_WAIT",
            State::CloseWait => "CLOSE_WAIT",
            State::LastAck => "LAST_ACK",
            State::TimeWait => "TIME_WAIT",
            State::Close => "CLOSE",
            State::SynSent2 => "SYN_SENT2",
        }
    }
}

/// What flags make a segment, as far as the state machine goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(super) enum Kind {
    /// SYN.
    Syn = 0,
    /// SYN and ACK.
    SynAck = 1,
    /// FIN.
    Fin = 2,
    /// ACK.
    Ack = 3,
    /// RST.
    Rst = 4,
    /// None of these.
    #[default]
    None = 5,
}

/// What a segment's arrival comes to in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    /// A state.
    Is(State),
    /// It may be what shows that the table is out of step: it passes, and changes nothing.
    Ignored,
    /// It is invalid.
    Invalid,
}

const NO: To = To::Invalid;
const IG: To = To::Ignored;
const SS: To = To::Is(State::SynSent);
const SR: To = To::Is(State::SynRecv);
const ES: To = To::Is(State::Established);
const FW: To = To::Is(State::FinWait);
const CW: To = To::Is(State::CloseWait);
const LA: To = To::Is(State::LastAck);
const TW: To = To::Is(State::TimeWait);
const CL: To = To::Is(State::Close);
const S2: To = To::Is(State::SynSent2);

/// By direction (original, reply), [`Kind`] and [`State`].
#[rustfmt::skip]
const NEXT: [[[To; 10]; 6]; 2] = [
    [
        //  NO  SS  SR  ES  FW  CW  LA  TW  CL  S2
        [SS, SS, IG, IG, IG, IG, IG, SS, SS, S2], // SYN
        [NO, NO, SR, NO, NO, NO, NO, NO, NO, SR], // SYN ACK
        [NO, NO, FW, FW, LA, LA, LA, TW, CL, NO], // FIN
        [ES, NO, ES, ES, CW, CW, TW, TW, CL, NO], // ACK
        [NO, CL, CL, CL, CL, CL, CL, CL, CL, CL], // RST
        [NO, NO, NO, NO, NO, NO, NO, NO, NO, NO],
    ],
    [
        [NO, S2, NO, NO, NO, NO, NO, SS, NO, S2], // SYN
        [NO, SR, IG, IG, IG, IG, IG, IG, IG, SR], // SYN ACK
        [NO, NO, FW, FW, LA, LA, LA, TW, CL, NO], // FIN
        [NO, IG, SR, ES, CW, CW, TW, TW, CL, IG], // ACK
        [NO, CL, CL, CL, CL, CL, CL, CL, CL, CL], // RST
        [NO, NO, NO, NO, NO, NO, NO, NO, NO, NO],
    ],
];

/// What is read of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// By its flags.
    pub kind: Kind,
    /// It acknowledges something.
    pub acks: bool,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Sequence number behind its last byte, SYN and FIN counting as bytes.
    pub end: u32,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const URG: u8 = 32;

impl Segment {
    /// Reads a segment, whose header and payload this is. `None`: it is malformed, or has flags that no segment has
    /// together.
    pub fn read(b: &[u8]) -> Option<Segment> {
        let h = b.first_chunk::<20>()?;
        let header = usize::from(h[12] >> 4) * 4;
        if header < 20 || header > b.len() {
            return None;
        }
        let flags = h[13];
        // ECE, CWR and PSH may be with any
        let known = [
            SYN,
            SYN | URG,
            SYN | ACK,
            RST,
            RST | ACK,
            FIN | ACK,
            FIN | ACK | URG,
            ACK,
            ACK | URG,
        ];
        if !known.contains(&(flags & 0x37)) {
            return None;
        }
        let is = |f: u8| flags & f != 0;
        let kind = match () {
            () if is(RST) => Kind::Rst,
            () if is(SYN) && is(ACK) => Kind::SynAck,
            () if is(SYN) => Kind::Syn,
            () if is(FIN) => Kind::Fin,
            () if is(ACK) => Kind::Ack,
            () => Kind::None,
        };
        let seq = u32::from_be_bytes([h[4], h[5], h[6], h[7]]);
        let payload = (b.len() - header) as u32;
        let counted = payload + u32::from(is(SYN)) + u32::from(is(FIN));
        Some(Segment {
            kind,
            acks: is(ACK),
            seq,
            ack: u32::from_be_bytes([h[8], h[9], h[10], h[11]]),
            end: seq.wrapping_add(counted),
        })
    }
}

impl Segment {
    /// [`Segment::read_ack`] of a segment of `len` bytes that has been found to be one, with this first header.
    #[inline(always)]
    pub fn of_ack(h: &[u8; 20], len: usize) -> Segment {
        let header = usize::from(h[12] >> 4) * 4;
        let seq = u32::from_be_bytes([h[4], h[5], h[6], h[7]]);
        Segment {
            kind: Kind::Ack,
            acks: true,
            seq,
            ack: u32::from_be_bytes([h[8], h[9], h[10], h[11]]),
            end: seq.wrapping_add(len.wrapping_sub(header) as u32),
        }
    }

    /// Is a segment of `len` bytes with this header one that [`Segment::read_ack`] reads?
    #[inline(always)]
    pub fn is_ack(h: &[u8; 20], len: usize) -> bool {
        let header = usize::from(h[12] >> 4) * 4;
        (h[13] & 0x37 == ACK) & (header >= 20) & (header <= len)
    }

    /// [`Segment::read`] of a segment with ACK alone, or with PSH, ECE and CWR; `None` for any other.
    #[inline]
    pub fn read_ack(b: &[u8]) -> Option<Segment> {
        let h = b.first_chunk::<20>()?;
        Segment::is_ack(h, b.len()).then(|| Segment::of_ack(h, b.len()))
    }
}

/// What is remembered of a connection that does not change with each segment. What does is in a [`FlowLease`] beside
/// it: the highest acknowledgement that each side has sent, where [`ACKED`] says that there is one; the end of the last
/// segment (of one that was ignored, or of one with ACK alone), and whether that was one of the reply direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Machine {
    /// The state.
    pub state: State,
    /// The last segment.
    pub last: Kind,
    /// See the constants.
    pub flags: u8,
}

/// The side of the original direction has begun to close; shifted by one, the other side.
const CLOSES: u8 = 1;
/// The next ACK may be a challenge, and none of the last FIN (RFC 5961).
const CHALLENGE: u8 = 4;
/// Both sides have sent SYN.
const SIMULTANEOUS: u8 = 8;
/// So far behind the other side's end, at most, an acknowledgement is one (MAXACKCONST of the kernel's).
const ACK_WINDOW: u32 = 66_000;
/// The original direction's side has acknowledged something; shifted by one, the other.
const ACKED: u8 = 16;

/// What comes of a segment of a connection that is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is of the connection, which stays for so long from now on, in milliseconds.
    Lives(u64),
    /// It is of the connection, and how long that stays is as before.
    Passes,
    /// It is invalid.
    Invalid,
    /// It begins another connection: this one goes.
    Reopens,
    /// It is of the connection, which ends with it.
    Ends,
}

impl Machine {
    /// The first segment of a connection; `None` if none can begin with it. With how long it stays.
    pub fn begin(s: &Segment, settings: &Settings) -> Option<(Machine, FlowLease, u64)> {
        let (mut m, mut noted) = (Machine::default(), FlowLease::default());
        let To::Is(state) = m.next(false, s.kind) else {
            return None;
        };
        if state != State::SynSent && !settings.loose {
            return None;
        }
        m.last = Kind::None;
        m.enter(state, s, false, &mut noted);
        // Of a connection that is picked up in the middle, nobody knows yet what the other side has sent: the kernel
        // takes its end to be 0, and what its window does not have, if any, for no acknowledgement (tcp_in_window)
        if state != State::SynSent && s.ack.wrapping_neg() > ACK_WINDOW {
            m.flags &= !ACKED;
            noted.acks[0] = 0;
        }
        Some((m, noted, m.stays(false, settings)))
    }

    fn next(&self, reply: bool, kind: Kind) -> To {
        NEXT[usize::from(reply)][kind as usize][self.state as usize]
    }

    /// How long a connection stays in its state.
    fn stays(&self, seen_reply: bool, settings: &Settings) -> u64 {
        let t = settings.tcp[self.state as usize];
        match self.state == State::Established && !seen_reply {
            true => t.min(settings.tcp_one_way),
            false => t,
        }
    }

    /// A segment that changes nothing but how long the connection stays, and what is remembered of its numbers.
    #[inline]
    pub fn is_plain(&self, s: &Segment) -> bool {
        s.kind == Kind::Ack && self.is_established()
    }

    /// Data goes both ways.
    #[inline(always)]
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// [`Machine::step`] of a [plain](Machine::is_plain) segment of a connection that is assured.
    #[inline]
    pub fn go_on(
        &mut self,
        s: &Segment,
        reply: bool,
        noted: &mut FlowLease,
        settings: &Settings,
    ) -> u64 {
        self.enter(State::Established, s, reply, noted);
        settings.tcp[State::Established as usize]
    }

    /// Would [`Machine::go_on`] change nothing but what is noted, for [plain](Machine::is_plain) segments that go this
    /// way? One has come before, and the last segment was one.
    pub fn is_noted(&self, reply: bool) -> bool {
        self.is_established()
            && self.last == Kind::Ack
            && self.flags & ACKED << u8::from(reply) != 0
    }

    /// A segment of a connection in the table. `assured` may be set by it.
    pub fn step(
        &mut self,
        s: &Segment,
        reply: bool,
        seen_reply: bool,
        (noted, assured): (&mut FlowLease, &mut bool),
        settings: &Settings,
    ) -> Step {
        let (mut old, kind) = (self.state, s.kind);
        let mut new = match self.next(reply, kind) {
            To::Invalid => return Step::Invalid,
            To::Is(State::SynSent) if matches!(old, State::TimeWait | State::Close) => {
                let reset = noted.reply == reply && self.last == Kind::Rst;
                if self.flags & (CLOSES | CLOSES << 1) != 0 || reset {
                    return Step::Reopens;
                }
                self.ignore(s, reply, noted);
                return Step::Passes;
            }
            To::Ignored => {
                let answers = kind == Kind::SynAck
                    && self.last == Kind::Syn
                    && noted.reply != reply
                    && s.ack == noted.end;
                if !answers {
                    self.ignore(s, reply, noted);
                    return Step::Passes;
                }
                // a SYN that was ignored is acknowledged: the ends are in step, and so is the table from now on
                old = State::SynSent;
                self.flags &= SIMULTANEOUS;
                State::SynRecv
            }
            To::Is(new) => new,
        };
        match new {
            State::TimeWait
                if old == State::LastAck
                    && kind == Kind::Ack
                    && self.last == Kind::Syn
                    && noted.reply != reply
                    && self.flags & CHALLENGE != 0 =>
            {
                self.flags &= !CHALLENGE;
                return Step::Passes;
            }
            State::SynSent2 => self.flags |= SIMULTANEOUS,
            State::SynRecv if reply && kind == Kind::Ack && self.flags & SIMULTANEOUS != 0 => {
                new = State::Established;
            }
            State::Close if kind == Kind::Rst => {
                new = self.reset(s, (reply, *assured), noted);
            }
            _ => {}
        }
        self.enter(new, s, reply, noted);
        if !seen_reply {
            if kind == Kind::Rst {
                return Step::Ends;
            }
            if kind == Kind::Syn && old == State::SynSent {
                return Step::Passes;
            }
        } else if matches!(old, State::SynRecv | State::Established) && new == State::Established {
            *assured = true;
        }
        // as short where it leaves the connection established: it may have been the true one
        match kind {
            Kind::Rst => Step::Lives(settings.tcp[State::Close as usize]),
            _ => Step::Lives(self.stays(seen_reply, settings)),
        }
    }

    /// The state behind a reset. What has been acknowledged counts for nothing where a SYN has just been let through:
    /// the ends may have begun anew.
    fn reset(&self, s: &Segment, (reply, assured): (bool, bool), noted: &FlowLease) -> State {
        if self.flags & ACKED << u8::from(!reply) == 0 || self.last == Kind::Syn {
            return State::Close;
        }
        let established = self.state == State::Established && assured;
        let train = self.last == Kind::Ack && noted.reply == reply && s.seq == noted.end;
        match !established || s.seq == noted.acks[usize::from(!reply)] || train {
            true => State::Close,
            false => self.state,
        }
    }

    /// The connection is in this state.
    #[inline]
    fn enter(&mut self, state: State, s: &Segment, reply: bool, noted: &mut FlowLease) {
        if s.kind == Kind::Ack {
            noted.end = s.end;
        }
        if s.acks {
            let (max, is) = (
                &mut noted.acks[usize::from(reply)],
                ACKED << u8::from(reply),
            );
            let later = s.ack.wrapping_sub(*max) as i32 > 0;
            if self.flags & is == 0 || later {
                *max = s.ack;
                self.flags |= is;
            }
        }
        if state == State::FinWait && self.state != state {
            self.flags |= CLOSES << u8::from(reply);
        }
        (self.state, self.last, noted.reply) = (state, s.kind, reply);
    }

    /// A segment that may show that the table is out of step is remembered.
    fn ignore(&mut self, s: &Segment, reply: bool, noted: &mut FlowLease) {
        if s.kind == Kind::Syn && !reply {
            self.flags &= !(CHALLENGE | SIMULTANEOUS);
            if self.state == State::LastAck {
                self.flags |= CHALLENGE;
            }
        }
        (self.last, noted.reply, noted.end) = (s.kind, reply, s.end);
    }
}
