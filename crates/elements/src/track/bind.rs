//! Translation of connections without a packet: what ConnDstNat and ConnSrcNat would write, told as numbers that
//! somebody else writes; and the models that say of which packets that can be told: of TCP and UDP over IPv4. So is
//! what ConnConfirm does, which writes nothing.
//!
//! Packets that begin connections, packets of known ones and replies all get a binding here, and those that stay as
//! they are one that changes nothing: which of these a packet is, the table alone knows. So the model promises no more
//! than which fields stay. What is told of a connection that is in the table lasts as long as it is there
//! ([`ConnTable::lasting_in_hand`](super::table::ConnTable::lasting_in_hand)).

use super::conn_index::key_ahead;
use super::conn_nat::FRAGMENT;
use super::key::{ConnKey, Ends, Place};
use super::range::Side;
use super::table::{ConnTable, DNAT, FLIPPED, OWN_REPLIES, SNAT, USED};
use super::table_user::TRACKING;
use super::translate::Rewrite;
use crate::ip4;
use onefold_element::Port;
use onefold_element::model::{
    Bind, BindKind, BindPacket, Binding, Case, Cond, DstAnno, Exit, Expected, FlowKind, Model,
    Read, Rewritten, ValueSet, field,
};
use onefold_packet::wire::ipv4::proto;
use onefold_packet::wire::{tcp, udp};
use onefold_packet::{Packet, checksum};

/// Cause of punts: what is not TCP or UDP over IPv4.
const OTHER: &str = "translation of other protocols than TCP and UDP";
const CUT_OFF: &str = "a transport header that is cut off";
/// A UDP checksum that comes to zero is written as all ones (RFC 768), which no sum gives.
pub(super) const ZERO: &str = "a UDP checksum that comes to zero";

/// What becomes of packets at an input.
pub(super) fn model(side: Side, port: Port) -> Model {
    let punt = |when: Cond, cause| Case::new(when, Exit::Punt(cause));
    let mut cases = Vec::from(ip4::unless_header(Exit::Punt(OTHER)));
    let four = ValueSet::one(4).complement(4);
    cases.push(punt(Cond::In(Read::Field(field::IP_VERSION), four), OTHER));
    let pieces = ip4::whole_packet().not();
    cases.push(ip4::unless_ihl(Exit::Punt(OTHER)));
    match side {
        Side::Dst => cases.push(Case::new(pieces, Exit::Drop(FRAGMENT))),
        Side::Src => cases.push(punt(pieces, "a fragment")),
    }
    cases.push(ip4::punt_options());
    let both = [proto::TCP, proto::UDP].map(|p| (u128::from(p), u128::from(p)));
    let others = ValueSet::from_intervals(both).complement(8);
    cases.push(punt(Cond::In(Read::Field(field::IP_PROTO), others), OTHER));
    let of_tcp = Cond::eq(field::IP_PROTO, proto::TCP.into());
    let short = |n: usize| Cond::less(Read::TransportLen, n as u128);
    cases.push(punt(of_tcp.and(short(tcp::LEN)), CUT_OFF));
    cases.push(punt(short(udp::LEN), CUT_OFF));
    let exit = Exit::Bind(Box::new(bind(side, port)));
    let last = Case::new(Cond::Always, exit);
    cases.push(match port {
        0 => last,
        // input k belongs to argument k, as the table's name is argument 0
        k => last.from_arg(k),
    });
    Model::Cases(cases)
}

/// What becomes of packets at a ConnConfirm: they stay as they are. Of TCP and UDP over IPv4 their ends tell which one
/// of the table's packets it is; it is asked about all others.
pub(super) fn confirming() -> Model {
    let ask = |when: Cond| Case::new(when, Exit::Ask(TRACKING));
    let mut cases = Vec::from(ip4::unless_header(Exit::Ask(TRACKING)));
    let four = ValueSet::one(4).complement(4);
    cases.push(ask(Cond::In(Read::Field(field::IP_VERSION), four)));
    cases.push(ask(Cond::eq(field::IP_IHL, 5).not()));
    cases.push(ask(ip4::whole_packet().not()));
    let both = [proto::TCP, proto::UDP].map(|p| (u128::from(p), u128::from(p)));
    let others = ValueSet::from_intervals(both).complement(8);
    cases.push(ask(Cond::In(Read::Field(field::IP_PROTO), others)));
    let of_tcp = Cond::eq(field::IP_PROTO, proto::TCP.into());
    let short = |n: usize| Cond::less(Read::TransportLen, n as u128);
    cases.push(ask(of_tcp.and(short(tcp::LEN))));
    cases.push(ask(short(udp::LEN)));
    let kept = || Rewritten::Kept;
    let expected = Expected {
        output: 0,
        saddr: kept(),
        daddr: kept(),
        sport: kept(),
        dport: kept(),
    };
    let bind = Bind {
        kind: BindKind::Flow,
        flows: vec![FlowKind {
            input: 0,
            forward: expected.clone(),
            reply: None,
        }],
        expected: Some(expected),
        source_only: false,
        by_protocol: true,
        dst_anno: DstAnno::Kept,
        reply_anno: None,
        pass: None,
    };
    cases.push(Case::new(Cond::Always, Exit::Bind(Box::new(bind))));
    Model::Cases(cases)
}

fn bind(side: Side, port: Port) -> Bind {
    let any = |bits| Rewritten::To(ValueSet::full(bits));
    let (kept, src) = (Rewritten::Kept, side == Side::Src);
    let expected = Expected {
        output: 0,
        saddr: if src { any(32) } else { kept.clone() },
        daddr: if src { kept.clone() } else { any(32) },
        sport: if src { any(16) } else { kept.clone() },
        dport: if src { kept } else { any(16) },
    };
    Bind {
        kind: BindKind::Flow,
        flows: vec![FlowKind {
            input: port,
            forward: expected.clone(),
            reply: None,
        }],
        expected: Some(expected),
        source_only: false,
        by_protocol: true,
        dst_anno: match side {
            Side::Dst => DstAnno::Rewritten,
            Side::Src => DstAnno::Kept,
        },
        reply_anno: None,
        pass: None,
    }
}

#[inline]
fn place(address: u32, port: u16) -> Place {
    let address = u128::from(address.swap_bytes()).to_le_bytes();
    Place { address, port }
}

/// The ends of a packet.
#[inline]
pub(super) fn ends(p: &BindPacket) -> Ends {
    let [s0, s1, d0, d1, ..] = p.head;
    Ends {
        src: place(p.saddr, u16::from_be_bytes([s0, s1])),
        dst: place(p.daddr, u16::from_be_bytes([d0, d1])),
        protocol: p.proto,
        v6: false,
    }
}

/// The key of a packet, and whether it goes from the key's second end to its first.
#[inline]
pub(super) fn key(p: &BindPacket) -> (ConnKey, bool) {
    let [s0, s1, d0, d1, ..] = p.head;
    let (src, dst) = (p.saddr.to_be_bytes(), p.daddr.to_be_bytes());
    ConnKey::of_v4(src, dst, p.proto, [s0, s1, d0, d1])
}

impl ConnTable {
    /// Is this the connection of packets with this key that go this way? Whether they are replies, if it is.
    #[inline]
    pub(super) fn direction(&self, i: u32, key: &ConnKey, flipped: bool) -> Option<bool> {
        let r = self.records.get(i as usize)?;
        let reply = (r.status & FLIPPED != 0) != flipped;
        let by_key = r.status & USED != 0 && r.key == *key;
        if r.status & (SNAT | DNAT) == 0 {
            return by_key.then_some(reply);
        }
        let back = || Some(self.translations.get(i)?.back());
        match by_key && !reply && r.status & OWN_REPLIES == 0 {
            true => Some(false),
            false => (back() == Some((*key, flipped))).then_some(true),
        }
    }

    /// A packet with a connection's ends is none of its packets (what it says of itself is wrong, or it is not
    /// tracked): whoever goes by ends alone is told that what was said of them does not hold any more.
    pub(super) fn is_none_of_its_connection(&mut self, p: &Packet) {
        if !self.settings.translates {
            return;
        }
        let key = p.network().and_then(key_ahead);
        if let Some((i, _)) = key.and_then(|(key, flipped)| self.position(&key, flipped)) {
            self.leases.end(i);
        }
    }
}

#[inline]
fn address(p: &Place) -> u32 {
    u32::from_be_bytes([p.address[0], p.address[1], p.address[2], p.address[3]])
}

/// The binding that leaves a packet as it is.
#[inline]
pub(super) fn unchanged(port: Port, p: &BindPacket) -> Binding {
    let [s0, s1, d0, d1, ..] = p.head;
    Binding {
        origin: u16::try_from(port).unwrap_or(u16::MAX),
        saddr: p.saddr,
        daddr: p.daddr,
        sport: u16::from_be_bytes([s0, s1]),
        dport: u16::from_be_bytes([d0, d1]),
        ..Binding::default()
    }
}

/// The same, where the packet is the one that this is to be done to, as [`super::apply::write`] does it: one side's
/// address and port, checksums word by word.
#[inline]
pub(super) fn rewrite(b: &mut Binding, side: Side, r: &Rewrite) {
    let (old, new) = (side.of(&r.from), side.of(&r.to));
    let to = match side {
        Side::Src => (&mut b.saddr, &mut b.sport),
        Side::Dst => (&mut b.daddr, &mut b.dport),
    };
    (*to.0, *to.1) = (address(&new), new.port);
    let sum = differences(address(&old), address(&new));
    b.ip_sum = checksum::fold(sum);
    b.transport_sum = checksum::fold(sum + difference(old.port, new.port));
}

/// What is to be added to a checksum's complement where a word has changed (RFC 1624, equation 3).
#[inline]
fn difference(old: u16, new: u16) -> u64 {
    u64::from(!old) + u64::from(new)
}

#[inline]
fn differences(old: u32, new: u32) -> u64 {
    let half = |v: u32| [(v >> 16) as u16, v as u16];
    let ([a, b], [c, d]) = (half(old), half(new));
    difference(a, c) + difference(b, d)
}

/// Would the packet's UDP checksum come to zero?
#[inline]
pub(super) fn comes_to_zero(p: &BindPacket, b: &Binding) -> bool {
    let check = u16::from_be_bytes([p.head[6], p.head[7]]);
    let sum = u64::from(!check) + u64::from(b.transport_sum);
    p.proto == proto::UDP && check != 0 && b.transport_sum != 0 && checksum::fold(sum) == u16::MAX
}
