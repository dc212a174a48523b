//! Setting the time to live of IPv4 and the hop limit of IPv6: SetIPTTL, SetIP6HLIM.
//!
//! `SetIPTTL(64)` sets it, `SetIPTTL(ADD 1)` adds to it, `SetIPTTL(SUBTRACT 1)` takes from it; it stays within 0 and
//! 255. A packet whose time to live becomes 0 leaves as any other. The checksum of IPv4 is updated incrementally, so
//! that a wrong one stays wrong. Packets without a whole IP header behind the header annotation are dropped.

use super::one_to_one;
use onefold_element::args::Args;
use onefold_element::model::{
    Case, Cond, Exit, Fix, Model, ModelCx, Op, Read, Value, ValueSet, field,
};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::ipv4::Header;
use onefold_packet::wire::ipv6;
use onefold_packet::{Packet, Pkt, checksum};

/// `SetIPTTL`.
pub const SET_IP_TTL: ElementClass = one_to_one(
    "SetIPTTL",
    Effect::Pure,
    "TTL | ADD n | SUBTRACT n",
    "sets the time to live of IPv4 packets",
    || SetHops::boxed(false),
);

/// `SetIP6HLIM`.
pub const SET_IP6_HLIM: ElementClass = one_to_one(
    "SetIP6HLIM",
    Effect::Pure,
    "HLIM | ADD n | SUBTRACT n",
    "sets the hop limit of IPv6 packets",
    || SetHops::boxed(true),
);

const NO_HEADER: &str = "SetIPTTL: no IP header";
const NO_HEADER6: &str = "SetIP6HLIM: no IPv6 header";

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Set(u8),
    Add(u8),
    Subtract(u8),
}

impl Change {
    fn of(self, hops: u8) -> u8 {
        match self {
            Change::Set(n) => n,
            Change::Add(n) => hops.saturating_add(n),
            Change::Subtract(n) => hops.saturating_sub(n),
        }
    }
}

#[derive(Debug, Clone)]
struct SetHops {
    six: bool,
    to: Change,
}

impl SetHops {
    fn boxed(six: bool) -> Box<dyn Element> {
        Box::new(SetHops {
            six,
            to: Change::Set(64),
        })
    }

    fn reason(&self) -> &'static str {
        match self.six {
            false => NO_HEADER,
            true => NO_HEADER6,
        }
    }

    fn change(&self, p: &mut Packet) -> Option<()> {
        let ip = p.network_mut()?;
        if self.six {
            let hops = ip.get_mut(..ipv6::LEN)?.get_mut(7)?;
            *hops = self.to.of(*hops);
            return Some(());
        }
        let [hops, protocol] = *ip.get(8..)?.first_chunk::<2>()?;
        let mut h = Header::parse(&mut *ip)?;
        let new = self.to.of(hops);
        let [old, with] = [hops, new].map(|h| u16::from_be_bytes([h, protocol]));
        h.set_checksum(checksum::update(h.checksum(), old, with));
        h.set_ttl(new);
        Some(())
    }
}

impl Element for SetHops {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let add: Option<u8> = args.keyword("ADD");
        let subtract: Option<u8> = args.keyword("SUBTRACT");
        let set: Option<u8> = args.optional("HOPS");
        match (set, add, subtract) {
            (Some(n), None, None) => self.to = Change::Set(n),
            (None, Some(n), None) => self.to = Change::Add(n),
            (None, None, Some(n)) => self.to = Change::Subtract(n),
            _ => args.error("expected a number from 0 to 255, 'ADD n', or 'SUBTRACT n'"),
        }
        args.finish()
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match self.change(&mut p) {
            Some(()) => cx.emit(0, p),
            None => cx.drop(p, self.reason()),
        }
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let (field, fix) = match self.six {
            false => (field::IP_TTL, Fix::Ip4),
            true => (field::IP6_HLIM, Fix::Nothing),
        };
        let write = |value| Op::Write { field, value, fix };
        let plus = |n| write(Value::Plus(Read::Field(field), u128::from(n)));
        let len = if self.six { 40 } else { 20 };
        let none = Cond::In(Read::HasNet, ValueSet::one(0));
        let drop = |when| Case::new(when, Exit::Drop(self.reason()));
        let mut cases = vec![drop(none), drop(Cond::less(Read::NetLen, len))];
        let mut case = |when, op| cases.push(Case::new(when, Exit::Port(0)).with([op]));
        match self.to {
            Change::Set(n) => case(Cond::Always, write(Value::Const(n.into()))),
            Change::Add(n) => {
                let most = u128::from(u8::MAX - n);
                let fits = Cond::between(field, 0, most);
                case(fits, plus(n));
                case(Cond::Always, write(Value::Const(u8::MAX.into())));
            }
            Change::Subtract(n) => {
                let fits = Cond::between(field, n.into(), u8::MAX.into());
                case(fits, plus(n.wrapping_neg()));
                case(Cond::Always, write(Value::Const(0)));
            }
        }
        Model::Cases(cases)
    }

    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, wire::ipv4};

    fn packet(ttl: u8) -> Box<Packet> {
        let d = [
            0x45, 0, 0, 20, 0, 0, 0x40, 0, ttl, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        let mut p = Packet::from_slice(&d);
        p.set_network_header(0, 20);
        ipv4::Header::parse(p.data_mut()).unwrap().fill_checksum();
        Box::new(p)
    }

    #[test]
    fn hops_are_set_and_stay_within_a_byte() {
        for (config, from, to) in [
            ("7", 200, 7),
            ("0", 200, 0),
            ("ADD 1", 1, 2),
            ("ADD 10", 250, 255),
            ("SUBTRACT 3", 64, 61),
            ("SUBTRACT 3", 2, 0),
        ] {
            let mut b = Bench::new("SetIPTTL", config, 1, 1).unwrap();
            let p = b.push_packet(0, packet(from)).remove(0).1;
            assert_eq!(p.data()[8], to, "{config}");
            assert!(ipv4::Header::parse(p.data()).unwrap().checksum_ok());
            let mut bad = packet(from);
            bad.data_mut()[10] ^= 1;
            let p = b.push_packet(0, bad).remove(0).1;
            assert!(!ipv4::Header::parse(p.data()).unwrap().checksum_ok());
            let mut b = Bench::new("SetIP6HLIM", config, 1, 1).unwrap();
            let mut p = Packet::from_slice(&[0x60, 0, 0, 0, 0, 0, 59, from].repeat(5));
            p.set_network_header(0, 40);
            assert_eq!(b.push_packet(0, Box::new(p))[0].1.data()[7], to);
        }
        let mut b = Bench::new("SetIPTTL", "7", 1, 1).unwrap();
        assert!(b.push(0, &[0x45; 40]).is_empty());
        assert_eq!(b.drops()["SetIPTTL: no IP header"], 1);
        for bad in ["", "256", "1, ADD 1", "ADD 1, SUBTRACT 1"] {
            assert!(Bench::new("SetIPTTL", bad, 1, 1).is_err(), "{bad}");
        }
    }
}
