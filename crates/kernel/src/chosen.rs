//! Ports and identifiers that are drawn: the chain draws its own, the kernel others. They are compared as a one-to-one
//! mapping of connections.
//!
//! A connection has two tuples: as its first packet arrives, and as its replies do. What a first packet leaves as, on
//! both sides, says what replies arrive as; where only a port or an identifier differs, that is how this connection
//! differs from then on, and nothing else may. What is sent to such a connection is sent to the kernel with the
//! kernel's port, and what the kernel sends is compared with the chain's port in its place, in packets that ICMP errors
//! quote, too.
//!
//! A port may differ only where each has a reason not to keep the packet's own: another connection of its own has it,
//! or the same source has another one already. Rules that name a range of ports, or draw them at random, are reason
//! enough; that a port is of their range is not looked at.
//!
//! A port that is drawn may be that of a connection which a reset has ended: that one is gone then. Which one it is, is
//! drawn, too: where it is gone on one side alone, the other side still has its state, and its packets are not compared
//! any more until it is gone there as well. Nor is what answers a connection that may be over, and whose ports differ:
//! rules may ask for one of them.

use crate::crowd::Crowd;
use crate::ends::{Ends, Found, Place, read};
use std::collections::HashMap;
use std::net::IpAddr;

/// A connection that both have.
#[derive(Debug, Clone, Copy)]
struct Conn {
    /// As replies arrive at the chain, and at the kernel.
    replies: (Ends, Ends),
    /// As its first packet arrived at the kernel.
    arrived: Ends,
    /// The chain's port by which it began.
    port: usize,
    /// A segment may have ended it: what follows may begin it anew.
    over: bool,
    /// It is gone on one side.
    apart: bool,
}

/// See the module's text. Bound: two tuples for each packet that was sent since the kernel forgot its connections.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// By the tuple of the chain's first packet.
    connections: HashMap<Ends, Conn>,
    /// First packets' tuples, by that of replies; of those that are gone in the chain, none.
    replies: HashMap<Ends, Ends>,
    /// The same, by that of replies in the kernel.
    kernel_replies: HashMap<Ends, Ends>,
    /// Tuples of arriving packets that are not the same on both sides.
    to_kernel: HashMap<Ends, Ends>,
    from_kernel: HashMap<Ends, Ends>,
    /// Of the kernel's connections, both tuples.
    taken: HashMap<Ends, usize>,
    crowd: Crowd,
    /// Rules draw whatever the packet has, so that nothing is known of whether it can be kept.
    free: bool,
}

/// What becomes of a frame that is to be sent to the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// As it is.
    Same,
    /// With the kernel's ports.
    Mapped(Vec<u8>),
    /// It is for a connection that only the kernel has there.
    Stranger,
}

/// What a first packet has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learnt {
    /// Nothing that was not known.
    Nothing,
    /// A connection has the same ports on both sides.
    Alike,
    /// A connection has ports of its own on each side.
    Drawn,
}

const TCP: u8 = 6;
const FIN: u8 = 1;
const RST: u8 = 4;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// May a connection begin with a packet? With most of TCP's flags none does (nf_conntrack_proto_tcp.c).
fn may_begin(f: &Found) -> bool {
    f.ends.protocol != TCP || matches!(f.flags & (FIN | SYN | RST | ACK), SYN | ACK)
}

/// The tuple that a frame arrives with, or of an error that which the packet that it quotes has been answered by.
fn arriving(f: &Found) -> Ends {
    if f.quoted { f.ends.inverse() } else { f.ends }
}

/// Of a frame that leaves: the tuple that its answer arrives with, or of an error that of the quoted packet.
fn answered(f: &Found) -> Ends {
    if f.quoted { f.ends } else { f.ends.inverse() }
}

impl Chosen {
    /// Of rules that draw ports in any case, or not.
    pub fn new(free: bool) -> Chosen {
        Chosen {
            free,
            ..Chosen::default()
        }
    }

    /// A frame of the chain's, as it is sent to the kernel.
    pub fn to_kernel(&self, frame: &[u8]) -> Sent {
        let Some(f) = read(frame) else {
            return Sent::Same;
        };
        let key = arriving(&f);
        match self.to_kernel.get(&key) {
            Some(to) => {
                let to = if f.quoted { to.inverse() } else { *to };
                let mut b = frame.to_vec();
                f.write(&mut b, &to);
                Sent::Mapped(b)
            }
            None if self.from_kernel.contains_key(&key) => Sent::Stranger,
            None => Sent::Same,
        }
    }

    /// A frame of the kernel's, as the chain would have sent it. `sent`: what it came of, as the chain was sent it and
    /// as the kernel was; what is of no connection leaves as it came. So does what is of a connection that has kept its
    /// ends in the kernel alone: which of the two it is, is what the chain's one frame with the ends `ours` says.
    pub fn to_chain(&self, frame: &[u8], sent: (&[u8], &[u8]), ours: Option<&Ends>) -> Vec<u8> {
        let mut b = frame.to_vec();
        let Some(f) = read(frame) else {
            return b;
        };
        let of_its_own = self.from_kernel.get(&answered(&f));
        let of_its_own = of_its_own.map(|to| if f.quoted { *to } else { to.inverse() });
        let kept = of_its_own.is_some() && !f.quoted && of_its_own.as_ref() == ours;
        if let (Some(chain), Some(kernel)) = (read(sent.0), read(sent.1))
            && (kernel.ends, kernel.quoted) == (f.ends, f.quoted)
            && !kept
        {
            // an answer leaves with the first packet's ends, which are the same on both sides
            let first = self
                .replies
                .get(&arriving(&chain))
                .and_then(|o| self.connections.get(o));
            let answers = first.is_some_and(|c| c.arrived == c.replies.1.inverse());
            if !(answers && !f.quoted && ours == Some(&f.ends)) {
                f.write(&mut b, &chain.ends);
            }
        } else if let Some(to) = of_its_own {
            f.write(&mut b, &to);
        }
        b
    }

    /// Does a packet of a connection whose source is translated, of its first packet's direction, come by another port
    /// of the chain? One of the translator's `own` addresses may have been translated to itself.
    pub fn strays(&self, port: usize, frame: &[u8], own: &[IpAddr]) -> bool {
        let key = read(frame).map(|f| arriving(&f));
        let known = key.and_then(|k| Some((k, self.connections.get(&k)?)));
        known.is_some_and(|(orig, c)| {
            let itself = own.iter().any(|a| orig.comes_from(a));
            c.port != port && (itself || c.replies.0.dst != orig.src)
        })
    }

    /// Does a frame open a connection of TCP from one of the translator's `own` addresses? The kernel drops such a
    /// packet unless it is told otherwise, and then, where rules translate its destination, it gives up a connection
    /// that has ended for it (nf_nat_core.c, nf_nat_used_tuple_harder).
    pub fn opens_from(frame: &[u8], own: &[IpAddr]) -> bool {
        let opens = |f: &Found| !f.quoted && f.ends.protocol == TCP && f.flags & (SYN | ACK) == SYN;
        let found = read(frame).filter(opens);
        found.is_some_and(|f| own.iter().any(|a| f.ends.comes_from(a)))
    }

    /// Is a frame of a connection that is gone on one side? Or does it answer one that may be gone on both: then it is
    /// of no connection, and rules see another port on each side.
    pub fn is_apart(&self, frame: &[u8]) -> bool {
        let Some(key) = read(frame).map(|f| arriving(&f)) else {
            return false;
        };
        let of = |o: &Ends| self.connections.get(o);
        let answers = self.replies.get(&key).and_then(of);
        if answers.is_some_and(|c| c.over && c.replies.0 != c.replies.1) {
            return true;
        }
        // what answers one that has begun the other way round has the ends that its first packets leave with
        let turned = key.inverse();
        let owners = [
            Some(&key),
            self.replies.get(&key),
            self.kernel_replies.get(&key),
            self.replies.get(&turned),
            self.kernel_replies.get(&turned),
        ];
        let mut all = owners.iter().flatten();
        all.any(|o| of(o).is_some_and(|c| c.apart))
    }

    /// What a frame that came by `port` has left as: `ours` from the chain, `theirs` from the kernel, each one packet.
    pub fn learn(&mut self, port: usize, frame: &[u8], ours: &Ends, theirs: &[u8]) -> Learnt {
        let (Some(f), Some(t)) = (read(frame), read(theirs)) else {
            return Learnt::Nothing;
        };
        if f.quoted || t.quoted || !ours.alike(&t.ends) {
            return Learnt::Nothing;
        }
        let orig = f.ends;
        let arrives = self.to_kernel.get(&orig).copied().unwrap_or(orig);
        let first = match self.replies.get(&orig) {
            Some(first) if !self.connections.contains_key(&orig) => Some(*first),
            _ => None,
        };
        let opens = f.flags & (SYN | ACK) == SYN;
        let (mut may, mut answered) = (opens, None);
        match self.connections.get_mut(&first.unwrap_or(orig)) {
            Some(c) => {
                // a reply leaves as the first packet's inverse
                let leaves = first.map_or(c.replies.0.inverse(), |first| first.inverse());
                let as_before = leaves == *ours;
                // a packet that is of no connection (invalid), though it has the tuple of one; or the first one of a
                // connection that begins in its place, the other way round, and is not translated: with a port that
                // is each side's own
                if !as_before && *ours == orig && t.ends == arrives {
                    c.apart |= opens && first.is_some() && c.replies.0 != c.replies.1;
                    return Learnt::Nothing;
                }
                // what has passed as it came, and is translated now, was of no connection: its header was malformed, or
                // it answered what nobody had asked
                let passed = c.replies.0.inverse() == first.unwrap_or(orig) && !as_before;
                // nor is there one that has ended any more, when who has answered opens one that is translated
                answered = first.filter(|_| passed || opens && !as_before);
                may |= c.over || passed;
                if as_before && first.is_some() {
                    return Learnt::Nothing;
                }
            }
            None => may = true,
        }
        if !may {
            return Learnt::Nothing;
        }
        let before = self.connections.get(&orig).map(|c| c.replies);
        let replies = (ours.inverse(), t.ends.inverse());
        if before == Some(replies) {
            return Learnt::Nothing;
        }
        // what leaves as it came, with ports that are another one's, is of no connection (invalid), as is a segment
        // with which none begins
        let as_it_came = *ours == orig && t.ends == arrives;
        if as_it_came && (self.are_anothers(&orig, &replies) || !may_begin(&f)) {
            return Learnt::Nothing;
        }
        if *ours != t.ends && !self.may_differ((&orig, ours), (&arrives, &t.ends)) {
            return Learnt::Nothing;
        }
        self.forget(&orig);
        if let Some(answer) = answered {
            self.forget(&answer);
        }
        self.enter(orig, arrives, replies, port);
        // one side has begun it anew, the other one has gone on, unless this packet begins it anew on both
        let one = before.is_some_and(|b| (b.0 == replies.0) != (b.1 == replies.1));
        if let Some(c) = self.connections.get_mut(&orig) {
            c.apart = one && !opens;
        }
        match *ours == t.ends {
            true => Learnt::Alike,
            false => Learnt::Drawn,
        }
    }

    /// A frame has been sent, whatever became of it: a reset ends its connection, and what opens one ends one that is
    /// closing, if it is not the first packet that has been `learnt`.
    pub fn ends(&mut self, frame: &[u8], learnt: Learnt) {
        let Some(f) = read(frame).filter(|f| !f.quoted) else {
            return;
        };
        let opens = f.flags & (SYN | ACK) == SYN && learnt == Learnt::Nothing;
        if f.flags & RST == 0 && !opens {
            return;
        }
        let first = self.replies.get(&f.ends).copied();
        let first = first.filter(|_| !self.connections.contains_key(&f.ends));
        if let Some(c) = self.connections.get_mut(&first.unwrap_or(f.ends)) {
            c.over = true;
        }
    }

    /// Are most ports of a range taken, so that the kernel may find none that is free?
    pub fn is_crowded(&self) -> bool {
        self.crowd.is()
    }

    /// May both have other ports: in the chain's tuples, as they arrive and leave, and in the kernel's?
    fn may_differ(&self, chain: (&Ends, &Ends), kernel: (&Ends, &Ends)) -> bool {
        let differ = |side: &Side| side.of(chain.1).port != side.of(kernel.1).port;
        [Side::Src, Side::Dst]
            .into_iter()
            .filter(differ)
            .all(|side| {
                // of ICMP, the destination's is the type
                if chain.1.is_icmp() && side == Side::Dst {
                    return false;
                }
                let kept = |(came, left): (&Ends, &Ends)| side.of(came).port == side.of(left).port;
                let came_so = side.of(chain.0).port != side.of(kernel.0).port;
                match (kept(chain), kept(kernel)) {
                    _ if self.free => true,
                    (true, true) => came_so,
                    (ours, theirs) => {
                        let taken = |t: &Ends| {
                            self.connections.contains_key(t) || self.replies.contains_key(t)
                        };
                        let ours = ours
                            || taken(&side.kept(chain).inverse())
                            || self
                                .same_source(chain.0, |c| c.replies.0.inverse().src == chain.1.src);
                        let theirs = theirs
                            || self.taken.contains_key(&side.kept(kernel).inverse())
                            || self.same_source(chain.0, |c| {
                                c.replies.1.inverse().src == kernel.1.src
                            });
                        ours && theirs
                    }
                }
            })
    }

    /// Connections that have one of these tuples of replies: for their replies, or for their own packets.
    fn owners(&self, replies: &(Ends, Ends)) -> [Option<Ends>; 4] {
        let own = self.from_kernel.get(&replies.1).unwrap_or(&replies.1);
        let arrives = |o: &Ends| self.connections.get(o).map(|c| c.arrived);
        [
            self.replies.get(&replies.0).copied(),
            self.kernel_replies.get(&replies.1).copied(),
            Some(replies.0).filter(|o| self.connections.contains_key(o)),
            Some(*own).filter(|o| *o != replies.0 && arrives(o) == Some(replies.1)),
        ]
    }

    /// Has another connection, which is not over, one of these tuples?
    fn are_anothers(&self, orig: &Ends, replies: &(Ends, Ends)) -> bool {
        let mut others = self.owners(replies).into_iter().flatten();
        others.any(|o| o != *orig && self.connections.get(&o).is_some_and(|c| !c.over))
    }

    /// Is there a connection of the same source, for which this holds? It gets the end that it has already.
    fn same_source(&self, orig: &Ends, holds: impl Fn(&Conn) -> bool) -> bool {
        let same = |o: &Ends| (o.src, o.protocol, o.v6) == (orig.src, orig.protocol, orig.v6);
        let mut all = self.connections.iter();
        all.any(|(o, c)| same(o) && holds(c))
    }

    fn enter(&mut self, orig: Ends, arrives: Ends, replies: (Ends, Ends), port: usize) {
        self.evict(&orig, replies);
        self.drop_pair(&replies.0, &replies.1);
        // who answered a connection that is over may begin one with its port, which is each side's own
        for (ours, theirs) in [(replies.0, replies.1), (orig, arrives)] {
            if ours != theirs {
                self.to_kernel.insert(ours, theirs);
                self.from_kernel.insert(theirs, ours);
            }
        }
        for t in [arrives, replies.1] {
            *self.taken.entry(t).or_default() += 1;
        }
        self.replies.insert(replies.0, orig);
        self.kernel_replies.insert(replies.1, orig);
        self.crowd.enter(&replies);
        let over = false;
        let conn = Conn {
            replies,
            arrived: arrives,
            port,
            over,
            apart: false,
        };
        self.connections.insert(orig, conn);
    }

    /// Connections that are over are gone where another one has their ports: those of their replies, or of their own
    /// packets.
    fn evict(&mut self, by: &Ends, replies: (Ends, Ends)) {
        for owner in self
            .owners(&replies)
            .into_iter()
            .flatten()
            .filter(|o| o != by)
        {
            match self.connections.get_mut(&owner) {
                Some(c) if c.apart => self.forget(&owner),
                Some(c) if c.over => c.apart = true,
                _ => {}
            }
        }
    }

    /// The connection of this first packet is gone on both sides.
    fn forget(&mut self, orig: &Ends) {
        let Some(c) = self.connections.remove(orig) else {
            return;
        };
        self.crowd.leave(&c.replies);
        for t in [c.arrived, c.replies.1] {
            if let Some(n) = self.taken.get_mut(&t) {
                *n -= 1;
                if *n == 0 {
                    self.taken.remove(&t);
                }
            }
        }
        if self.kernel_replies.get(&c.replies.1) == Some(orig) {
            self.kernel_replies.remove(&c.replies.1);
        }
        if self.replies.get(&c.replies.0) == Some(orig) {
            self.replies.remove(&c.replies.0);
            // the kernel's tuple may be another connection's since this one was over
            if self.to_kernel.get(&c.replies.0) == Some(&c.replies.1) {
                self.drop_pair(&c.replies.0, &c.replies.1);
            }
        }
        let answers = self.replies.contains_key(orig);
        if !answers && c.arrived != *orig && self.to_kernel.get(orig) == Some(&c.arrived) {
            self.drop_pair(orig, &c.arrived);
        }
    }

    /// What is left of connections that are gone.
    fn drop_pair(&mut self, ours: &Ends, theirs: &Ends) {
        if let Some(t) = self.to_kernel.remove(ours) {
            self.from_kernel.remove(&t);
        }
        if let Some(o) = self.from_kernel.remove(theirs) {
            self.to_kernel.remove(&o);
        }
    }
}

/// One end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Src,
    Dst,
}

impl Side {
    fn of(self, e: &Ends) -> Place {
        match self {
            Side::Src => e.src,
            Side::Dst => e.dst,
        }
    }
    /// A tuple as it would leave with the port that it came with.
    fn kept(self, (came, left): (&Ends, &Ends)) -> Ends {
        let mut e = *left;
        match self {
            Side::Src => e.src.port = came.src.port,
            Side::Dst => e.dst.port = came.dst.port,
        }
        e
    }
}

#[cfg(test)]
mod tests;
