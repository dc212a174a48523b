//! Translated connections: what their packets become, and the packet that is on its way through the rules.
//!
//! A connection whose ends are translated has two tuples: as its first packet arrives, and as that leaves. Packets of
//! the original direction arrive as the first one, replies as the inverse of the second; each is looked up by its own
//! key, and becomes the other one. What is not translated has no entry here.
//!
//! The packet that was tracked last is *in hand* until the next one is ([`InHand`]): the elements behind translate
//! *it*, whatever it has become on its way; netfilter keeps the same in `skb->_nfct`. All elements that name a table
//! share its state, so that a packet has gone all its way before the next one is tracked.

use super::begin::Beginning;
use super::class::ConnClass;
use super::headers::{Seen, Tracked, of_packet};
use super::key::{ConnKey, Ends, Place};
use super::range::{Range, Side};
use super::table::{ConnTable, FLIPPED, USED};
use onefold_nat::FlowRef;
use onefold_packet::Packet;

/// What is known of the packet that was tracked last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InHand {
    /// What it is to its connection.
    pub class: Option<ConnClass>,
    about: About,
    /// Its connection, if that is in the table.
    record: Option<u32>,
    /// Of one that would begin with it: its packet, what it remembers of that, and the mark that it has got so far.
    pub first: Option<(ConnKey, bool)>,
    /// The key's hash.
    pub first_hash: u32,
    begins: Option<Beginning>,
    mark: u32,
    /// How it arrived.
    arrived: Option<(ConnKey, bool)>,
    /// How it is now, if somebody has given it other addresses.
    renamed: Option<(ConnKey, bool)>,
    /// Of the first packet of a connection, what one side becomes, where that has been chosen and not been done yet.
    chosen: Option<(Side, Ends)>,
    /// Ends whose replies have been found to be no other connection's, and the key of these.
    free: Option<(Ends, KeyOfReplies)>,
}

/// The key of a connection's replies, which way they go, and its hash.
pub(super) type KeyOfReplies = ((ConnKey, bool), u32);

#[derive(Debug, Clone, Copy, Default)]
enum About {
    /// Nothing is to be translated.
    #[default]
    Nothing,
    /// It may be the first packet of a connection: as it arrived, and as it is to leave as far as has been decided.
    First { orig: Ends, new: Ends },
    /// It is of a connection that is translated.
    Known {
        orig: Ends,
        new: Ends,
        reply: bool,
        error: bool,
    },
}

/// What [`ConnTable::leaves_hand`] says of a packet.
pub(super) enum Leaves {
    /// It is of a connection in the table.
    Known,
    /// It is the first one of a connection: as it arrived, as it leaves.
    First(Ends, Ends),
    /// It is not the one that is in hand, or nothing is known of it.
    Unknown,
}

/// What is written into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// The packet's ends as it comes, of an error those of the packet that it quotes, in the error's direction; what is
    /// another packet is left alone.
    pub from: Ends,
    /// The same as it goes.
    pub to: Ends,
    /// It is an ICMP error.
    pub error: bool,
}

impl InHand {
    /// Is it an ICMP error about a connection that is translated?
    pub fn is_error(&self) -> bool {
        matches!(self.about, About::Known { error: true, .. })
    }

    /// The ends, as they have been decided so far, of a packet that may be the first one of a connection, and whose
    /// `side` is still to be chosen.
    #[inline]
    pub fn first_ends(&self, side: Side) -> Option<Ends> {
        match self.about {
            About::First { new, .. } => Some(new).filter(|_| self.chosen_for(side).is_none()),
            _ => None,
        }
    }

    /// Would a connection begin with it whose ends are chosen here?
    #[inline]
    pub fn begins_a_connection(&self) -> bool {
        matches!(self.about, About::First { .. }) && self.first.is_some() && self.begins.is_some()
    }

    /// A first packet leaves: as it arrived, as it leaves. Nobody enters it twice.
    #[inline]
    pub fn leave_first(&mut self) -> Option<(Ends, Ends)> {
        match std::mem::take(&mut self.about) {
            About::First { orig, new } => Some((orig, new)),
            other => {
                self.about = other;
                None
            }
        }
    }

    /// Does a first packet keep this side, whatever other connections have? Who sends to a port that no rule says
    /// anything of means that port.
    #[inline]
    pub fn keeps(&self, side: Side, range: Option<&Range>) -> bool {
        side == Side::Dst
            && range.is_none()
            && self.chosen.is_none()
            && matches!(&self.about, About::First { new, .. } if !new.is_icmp())
    }

    #[inline]
    fn chosen_for(&self, side: Side) -> Option<Ends> {
        self.chosen.filter(|c| c.0 == side).map(|c| c.1)
    }

    /// The next packet comes.
    #[inline]
    pub fn put_down(&mut self) {
        self.class = None;
        self.about = About::Nothing;
        (self.record, self.first, self.mark) = (None, None, 0);
        self.begins = None;
        (self.arrived, self.renamed) = (None, None);
        (self.chosen, self.free) = (None, None);
    }

    /// A packet is tracked.
    #[inline]
    pub fn arrives(&mut self, p: &Tracked) {
        self.arrived = Some((p.key, p.flipped));
    }

    /// Was this packet found to be of no connection in the table, when it was tracked, and has it not been entered yet?
    #[inline]
    pub fn is_first(&self, key: &ConnKey, flipped: bool) -> bool {
        (self.first.as_ref()).is_some_and(|f| f.1 == flipped && f.0 == *key)
    }

    /// The key of replies to these ends, if they have been found to be no other connection's.
    #[inline]
    fn free_key(&self, e: &Ends) -> Option<KeyOfReplies> {
        self.free.as_ref().filter(|f| f.0 == *e).map(|f| f.1)
    }

    /// What a connection that begins with it remembers.
    #[inline]
    pub fn begins(&self) -> Option<Beginning> {
        self.begins
    }

    /// The connection that would begin with the packet has been entered: nobody enters it twice.
    pub fn entered(&mut self) {
        (self.first, self.free) = (None, None);
    }

    /// The mark of the connection that begins with the packet that arrived with this key, if that is the one in hand.
    pub fn mark_of(&self, key: ConnKey, flipped: bool) -> u32 {
        match self.first {
            Some(first) if first == (key, flipped) => self.mark,
            _ => 0,
        }
    }
}

fn inverse(e: &Ends) -> Ends {
    match e.is_icmp() {
        // the identifier and the question are the same both ways
        true => Ends {
            src: Place {
                port: e.src.port,
                ..e.dst
            },
            dst: Place {
                port: e.dst.port,
                ..e.src
            },
            ..*e
        },
        false => Ends {
            src: e.dst,
            dst: e.src,
            ..*e
        },
    }
}

impl ConnTable {
    /// A packet of this connection is on its way.
    #[inline]
    pub(super) fn take_in_hand(&mut self, i: u32, reply: bool, error: bool) {
        self.in_hand.record = Some(i);
        if let (Some(t), Some(r)) = (self.translation(i), self.records.get(i as usize)) {
            self.in_hand.about = About::Known {
                orig: Ends::of(&r.key, r.status & FLIPPED != 0),
                new: t.leaves(),
                reply,
                error,
            };
        }
    }

    /// The key of replies to these ends.
    #[inline]
    pub(super) fn back_of(&self, e: &Ends) -> KeyOfReplies {
        self.in_hand.free_key(e).unwrap_or_else(|| {
            let (key, flipped) = e.answered_key();
            ((key, flipped), self.hash(&key))
        })
    }

    /// A packet that may be the first one of a connection is on its way; `hash`: of its key.
    #[inline]
    pub(super) fn take_first_in_hand(&mut self, p: &Tracked, hash: u32, begins: Beginning) {
        self.in_hand.first = Some((p.key, p.flipped));
        self.in_hand.first_hash = hash;
        self.in_hand.begins = Some(begins);
        if self.settings.translates {
            let ends = Ends::of(&p.key, p.flipped);
            self.in_hand.about = About::First {
                orig: ends,
                new: ends,
            };
        }
    }

    /// The mark of the connection of the packet in hand; `None`: it has none.
    pub(super) fn mark_in_hand(&self) -> Option<u32> {
        self.in_hand.class.filter(|c| c.has_connection())?;
        match self.in_hand.record {
            Some(i) => Some(self.given.mark(i)),
            None => Some(self.in_hand.mark),
        }
    }

    /// Gives it a mark; false: it has none.
    pub(super) fn set_mark_in_hand(&mut self, mark: u32) -> bool {
        if !self.in_hand.class.is_some_and(|c| c.has_connection()) {
            return false;
        }
        match self.in_hand.record {
            Some(i) => self.given.set_mark(i, mark),
            None => self.in_hand.mark = mark,
        }
        true
    }

    /// Somebody has given a packet other addresses, outside of its connection: if it is the one in hand, it is known by
    /// them from now on. What it was `before` is that of the packet as it came there.
    pub(super) fn rename(&mut self, before: &Seen, p: &Packet) {
        let known = self.in_hand.renamed.or(self.in_hand.arrived);
        if let (Seen::Packet(before), Seen::Packet(now)) = (before, of_packet(p, false))
            && known == Some((before.key, before.flipped))
        {
            self.in_hand.renamed = Some((now.key, now.flipped));
        }
    }

    /// Reads a packet that may be the one in hand. If it is, and begins a connection, its checksum has been found right
    /// when it was tracked. One that has been given other addresses is what it was when it arrived.
    pub(super) fn read_again(&self, p: &Packet) -> Seen {
        if let (Some(renamed), Some((key, flipped))) = (self.in_hand.renamed, self.in_hand.arrived)
            && let Seen::Packet(now) = of_packet(p, false)
            && (now.key, now.flipped) == renamed
        {
            return Seen::Packet(Tracked {
                key,
                flipped,
                ..now
            });
        }
        let first = self.in_hand.first;
        match first.map(|first| (first, of_packet(p, false))) {
            Some((first, Seen::Packet(t))) if (t.key, t.flipped) == first => Seen::Packet(t),
            _ => of_packet(p, self.settings.checksum),
        }
    }

    /// Is a packet that leaves with this key, as it arrived, the one in hand, and of a connection that is in the table
    /// and not translated?
    pub(super) fn is_known_in_hand(&self, key: &ConnKey, flipped: bool) -> bool {
        let InHand { arrived, about, .. } = &self.in_hand;
        let same = (arrived.as_ref()).is_some_and(|a| a.1 == flipped && a.0 == *key);
        let record = || self.records.get(self.in_hand.record? as usize);
        same && matches!(about, About::Nothing) && record().is_some_and(|r| r.status & USED != 0)
    }

    /// A packet leaves: is it the one in hand?
    pub(super) fn leaves_hand(&mut self, key: &ConnKey, flipped: bool) -> Leaves {
        let is = |e: &Ends| e.key() == (*key, flipped);
        match self.in_hand.about {
            About::First { orig, new } if is(&new) => {
                // nobody enters it twice
                self.in_hand.about = About::Nothing;
                Leaves::First(orig, new)
            }
            About::Known {
                new,
                reply: false,
                error: false,
                ..
            } if is(&new) => Leaves::Known,
            // a connection's reply begins nothing
            About::Known {
                reply: true,
                error: false,
                ..
            } => Leaves::Known,
            _ => Leaves::Unknown,
        }
    }

    /// The packet in hand has come to where its `side` is translated. `range`: what the rules say of it, if they have
    /// been asked. What is to be written, if anything.
    pub(super) fn translate_in_hand(
        &mut self,
        side: Side,
        range: Option<&Range>,
        now: u64,
        random: &mut dyn FnMut() -> u32,
    ) -> Option<Rewrite> {
        if self.in_hand.keeps(side, range) {
            return None;
        }
        let way = self.plan_in_hand(side, range, now, random)?;
        self.done_in_hand(side);
        (way.from != way.to).then_some(way)
    }

    /// What [`ConnTable::translate_in_hand`] would give, and what is left alone with its ends. Of a first packet, what
    /// is chosen stays chosen; nothing else happens.
    pub(super) fn plan_in_hand(
        &mut self,
        side: Side,
        range: Option<&Range>,
        now: u64,
        random: &mut dyn FnMut() -> u32,
    ) -> Option<Rewrite> {
        match self.in_hand.about {
            About::Nothing => None,
            About::First { new, .. } => {
                let to = match self.in_hand.chosen_for(side) {
                    Some(to) => to,
                    None => {
                        // addresses of the other version of IP are no ends for it
                        let range = range.filter(|r| r.v6.is_none_or(|six| six == new.v6));
                        let null = Range::null(side.of(&new));
                        self.choose(&new, range.unwrap_or(&null), side, now, random)
                    }
                };
                self.in_hand.chosen = Some((side, to));
                Some(Rewrite {
                    from: new,
                    to,
                    error: false,
                })
            }
            About::Known {
                orig,
                new,
                reply,
                error,
            } => {
                // as it arrived, as it leaves, and between the two: with the destination that it leaves with
                let (arrives, leaves) = match reply {
                    false => (orig, new),
                    true => (inverse(&new), inverse(&orig)),
                };
                let mut between = Ends {
                    dst: leaves.dst,
                    ..arrives
                };
                if arrives.is_icmp() && arrives.dst.address != leaves.dst.address {
                    between.src.port = leaves.src.port;
                }
                let (from, to) = match side {
                    Side::Dst => (arrives, between),
                    Side::Src => (between, leaves),
                };
                Some(Rewrite { from, to, error })
            }
        }
    }

    /// What has been chosen for one side of the packet in hand, if it is a first one, is what it becomes.
    #[inline]
    pub(super) fn done_in_hand(&mut self, side: Side) {
        let InHand {
            about,
            chosen,
            class,
            ..
        } = &mut self.in_hand;
        let About::First { new, .. } = about else {
            return;
        };
        let Some((_, to)) = chosen.take_if(|c| c.0 == side) else {
            return;
        };
        if let Some(c) = class
            && to != *new
        {
            match side {
                Side::Src => c.snat = true,
                Side::Dst => c.dnat = true,
            }
        }
        *new = to;
    }

    /// A name for the connection of the packet in hand and for what its packets become, if that is in the table and
    /// stays as it is from now on, and if the packet has come to where its `side` is translated with these ends.
    pub(super) fn lasting_in_hand(&mut self, side: Side, ends: &Ends) -> Option<FlowRef> {
        let i = self.in_hand.record?;
        let is_this = match self.in_hand.about {
            About::Known { error: false, .. } => {
                let way = self.plan_in_hand(side, None, 0, &mut || 0)?;
                way.from == *ends
            }
            About::Nothing => self.in_hand.arrived == Some(ends.key()),
            _ => false,
        };
        let r = self.records.get(i as usize)?;
        (is_this && r.status & USED != 0).then(|| self.leases.reference(i))
    }

    /// Would the replies of a connection with these ends be another one's?
    pub(super) fn taken(&mut self, e: &Ends, now: u64) -> bool {
        // no connection begins while a packet is in hand
        if self.in_hand.free_key(e).is_some() {
            return false;
        }
        let (key, flipped) = e.answered_key();
        let hash = self.hash(&key);
        let taken = self.find_hashed((&key, hash), flipped, now).is_some();
        if !taken {
            self.in_hand.free = Some((*e, ((key, flipped), hash)));
        }
        taken
    }
}

impl InHand {
    /// Was this side translated?
    pub(super) fn said(&self, side: Side) -> bool {
        self.class.is_some_and(|c| match side {
            Side::Src => c.snat,
            Side::Dst => c.dnat,
        })
    }
}
