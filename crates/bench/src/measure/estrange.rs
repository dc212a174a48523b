//! Batches of packets that become strangers': what is the same for all of a lane's packets is decided before the first one.

use super::feed::Templates;
use super::stranger::{Plain, Strangers, Vary};
use onefold_packet::Pkt;

/// Makes packets of a lane strangers'.
pub struct Estrange<'a> {
    strangers: &'a Strangers,
    /// The lines of strangers' templates and what is to be known of them, if all are plain.
    lines: Option<(&'a [[u8; 64]], Vec<Plain>)>,
    /// Templates of strangers: so many packets are a round.
    others: u64,
    /// Of a batch, the packets that are strangers'.
    some: Vec<u32>,
}

/// The number of a packet and its round of the templates, counted: a division for each packet takes longer than its header.
struct Count {
    number: u64,
    round: u64,
    /// Packets left in the round.
    left: u64,
    others: u64,
}

impl Count {
    fn new(number: u64, others: u64) -> Count {
        Count {
            number,
            round: number / others,
            left: others - number % others,
            others,
        }
    }

    #[inline(always)]
    fn next(&mut self) -> (u64, u64) {
        let now = (self.number, self.round);
        self.number += 1;
        self.left -= 1;
        if self.left == 0 {
            self.round += 1;
            self.left = self.others;
        }
        now
    }
}

impl<'a> Estrange<'a> {
    /// Of copies of these templates.
    pub fn new(strangers: &'a Strangers, templates: &'a Templates) -> Estrange<'a> {
        let lines = templates.lines().and_then(|(lines, len)| {
            let others = lines.get(strangers.known..)?;
            let plain = |l| Plain::of(&strangers.vary, l, len);
            Some((others, others.iter().map(plain).collect::<Option<_>>()?))
        });
        let others = templates.len().saturating_sub(strangers.known).max(1);
        Estrange {
            strangers,
            lines,
            others: others as u64,
            some: Vec::new(),
        }
    }

    /// Changes frames that are strangers' to be some that nobody has seen: `packets` are copies of `these` templates, and `number` is that of the next one.
    pub fn batch(&mut self, packets: &mut [Pkt], these: &[u32], number: &mut u64) {
        let mut count = Count::new(*number, self.others);
        let vary = self.strangers.vary;
        let Estrange {
            strangers,
            lines,
            some,
            ..
        } = self;
        let known = strangers.known;
        match lines {
            Some(lines) if vary.draws() => each(known, some, packets, these, |p, which| {
                line::<true>(&vary, lines, p, which - known, count.next());
            }),
            Some(lines) => each(known, some, packets, these, |p, which| {
                line::<false>(&vary, lines, p, which - known, count.next());
            }),
            None => each(known, some, packets, these, |p, _| {
                let (n, round) = count.next();
                vary.apply(p.data_mut(), n, round);
            }),
        }
        *number = count.number;
    }
}

#[inline(always)]
fn line<const DRAWS: bool>(
    vary: &Vary,
    (lines, plain): &(&[[u8; 64]], Vec<Plain>),
    p: &mut Pkt,
    which: usize,
    (n, round): (u64, u64),
) {
    let (Some(line), Some(plain)) = (lines.get(which), plain.get(which)) else {
        return;
    };
    if let Some(to) = p.window_mut() {
        vary.apply_line::<DRAWS>(to, line, *plain, n, round);
    }
}

/// Does something with every packet that is a stranger's, of a template that is not `known`. Which of a mixture are cannot be foreseen: they are listed in
/// `some` first, without a branch for each.
#[inline(always)]
fn each(
    known: usize,
    some: &mut Vec<u32>,
    packets: &mut [Pkt],
    these: &[u32],
    mut f: impl FnMut(&mut Pkt, usize),
) {
    if known == 0 {
        for (p, which) in packets.iter_mut().zip(these) {
            f(p, *which as usize);
        }
        return;
    }
    some.resize(these.len() + 1, 0);
    let mut n = 0;
    for (i, which) in these.iter().enumerate() {
        if let Some(to) = some.get_mut(n) {
            *to = i as u32;
        }
        n += usize::from(*which as usize >= known);
    }
    for i in some.iter().take(n) {
        let i = *i as usize;
        if let (Some(p), Some(which)) = (packets.get_mut(i), these.get(i)) {
            f(p, *which as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stranger::frame_of;
    use super::*;
    use crate::rng::Rng;
    use onefold_packet::{Packet, Timestamp};

    /// A frame of any kind; of a `plain` one, TCP or UDP.
    fn frame(rng: &mut Rng, any: bool) -> Vec<u8> {
        let (a, b, r) = (rng.bits(), rng.bits(), rng.bits());
        let tcp = (r & 1 == 0).then_some(0x02);
        let len = [60, 64, 61][(r >> 8) as usize % 3];
        let ports = (a as u16, (a >> 16) as u16);
        let mut f = frame_of(b as u32, (b >> 32) as u32, ports.0, ports.1, tcp, len);
        if any {
            match r >> 16 & 15 {
                0 => f.truncate(41 + (r >> 20) as usize % 15),
                1 => f[12] ^= 1,
                2 => f[14] ^= 1,
                3 => f[23] = 1,
                4 => f[40..42].fill(0),
                5 => f[24..26].fill(0xff),
                6 => f[50..52].fill(0),
                _ => {}
            }
        }
        f
    }

    #[test]
    fn a_batch_becomes_what_its_frames_become() {
        let mut rng = Rng::stream(5, 1);
        for turn in 0..300u64 {
            // lanes of one length and of several, plain and not; all strangers, some, or one
            let any = turn % 2 == 0;
            let n = 1 + rng.below(70) as usize;
            let mut frames: Vec<Vec<u8>> = (0..n).map(|_| frame(&mut rng, any)).collect();
            if turn % 3 != 0 {
                let len = 40 + rng.below(25) as usize;
                frames.iter_mut().for_each(|f| f.resize(len, 7));
            }
            let templates = Templates::new(&frames, 1);
            let mask = |b: u64| if b & 3 == 0 { 0 } else { !0 };
            let b = rng.bits();
            let strangers = Strangers {
                known: [0, n / 2, n - 1][(b >> 8) as usize % 3],
                share: 1.0,
                vary: match b >> 16 & 3 {
                    0 => Vary {
                        sport: 0xffff,
                        ..Vary::default()
                    },
                    1 => Vary::default(),
                    _ => Vary {
                        src: (b >> 32) as u32,
                        dst: mask(b) as u32,
                        sport: mask(b >> 2) as u16,
                        dport: (b >> 48) as u16,
                    },
                },
            };
            let mut e = Estrange::new(&strangers, &templates);
            let others = (n - strangers.known) as u64;
            let mut number = rng.below(1000);
            for _ in 0..3 {
                let these: Vec<u32> = (0..64).map(|_| rng.below(n as u64) as u32).collect();
                let mut packets: Vec<Pkt> = Vec::new();
                let mut expected = Vec::new();
                let mut at = number;
                for which in &these {
                    let which = *which as usize;
                    let mut f = frames[which].clone();
                    let mut p = Box::new(Packet::from_slice(&[]));
                    match templates.lines() {
                        Some((lines, len)) => {
                            p.refill_line(&lines[which], len, Timestamp::ZERO);
                        }
                        None => p.refill(&f),
                    }
                    if which >= strangers.known {
                        strangers.vary.apply(&mut f, at, at / others);
                        at += 1;
                    }
                    packets.push(p);
                    expected.push(f);
                }
                e.batch(&mut packets, &these, &mut number);
                assert_eq!(number, at);
                for (p, f) in packets.iter().zip(&expected) {
                    assert_eq!(p.data(), f, "{:?}", strangers.vary);
                    let behind = p.window::<64>().map_or(&[][..], |w| &w[f.len().min(64)..]);
                    assert!(behind.iter().all(|b| *b == 0), "nothing behind the frame");
                }
            }
        }
    }

    #[test]
    fn lanes_of_plain_frames_are_known() {
        let mut rng = Rng::stream(6, 1);
        let frames: Vec<Vec<u8>> = (0..50)
            .map(|_| {
                let mut f = frame(&mut rng, false);
                f.resize(64, 0);
                f
            })
            .collect();
        let of = |frames: &[Vec<u8>], known, dst| {
            let vary = Vary {
                dst,
                sport: 0xffff,
                ..Vary::default()
            };
            let share = 1.0;
            let strangers = Strangers { known, share, vary };
            let templates = Templates::new(frames, 1);
            Estrange::new(&strangers, &templates).lines.is_some()
        };
        assert!(of(&frames, 0, 0) && of(&frames, 0, 1));
        for spoil in [12, 14, 23] {
            let mut frames = frames.clone();
            frames[20][spoil] ^= 0x30;
            assert!(of(&frames, 0, 0), "{spoil}: it stays as it is");
            assert!(!of(&frames, 0, 1) && of(&frames, 21, 1), "{spoil}");
        }
        let mut frames = frames;
        frames[20] = frame_of(1, 2, 3, 4, None, 64);
        frames[20][40..42].fill(0);
        assert!(!of(&frames, 0, 0), "UDP without a checksum");
        frames[20].fill(0);
        assert!(!of(&frames, 0, 0), "nothing that could stand for one");
    }
}
