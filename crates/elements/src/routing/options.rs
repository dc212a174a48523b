//! The IP options that every router processes, Record Route and Timestamp (RFC 791, RFC 1812 4.2.2), and the element
//! that does it: IPGWOptions.

use crate::ip4;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx, field};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port,
    element_any, pass_while,
};
use onefold_packet::{Pkt, Timestamp, anno_field, checksum};
use std::net::Ipv4Addr;

/// Option types.
pub(super) mod kind {
    /// End of the list.
    pub const END: u8 = 0;
    /// No operation.
    pub const NOP: u8 = 1;
    /// Record Route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source route.
    pub const LOOSE_ROUTE: u8 = 131;
    /// Strict source route.
    pub const STRICT_ROUTE: u8 = 137;
}

/// What became of a header's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Done {
    /// There was a Record Route or Timestamp option.
    pub met: bool,
    /// At least one byte was written.
    pub changed: bool,
}

/// Milliseconds since midnight UT.
fn midnight_millis(now: Timestamp) -> [u8; 4] {
    let ms = now.sec().rem_euclid(86_400) * 1000 + i64::from(now.subsec_nanos() / 1_000_000);
    (ms as u32).to_be_bytes()
}

/// Processes the options of the header at the start of `b`, which is `header_len` bytes long; what follows it is there
/// too. The error is the offset of the offending byte. Bound: the header has at most 40 bytes of options.
pub(super) fn process(
    b: &mut [u8],
    header_len: usize,
    preferred: [u8; 4],
    mine: &[[u8; 4]],
    now: Timestamp,
) -> Result<Done, u8> {
    let mut done = Done::default();
    let at = |b: &[u8], i: usize| b.get(i).copied().unwrap_or(0);
    let put = |b: &mut [u8], i: usize, v: [u8; 4]| {
        if let Some(d) = b.get_mut(i..i + 4) {
            d.copy_from_slice(&v);
        }
    };
    let mut i = 20;
    while i < header_len {
        let kind = at(b, i);
        match kind {
            kind::NOP => {
                i += 1;
                continue;
            }
            kind::END => break,
            _ => {}
        }
        let len = usize::from(at(b, i + 1));
        if len < 2 || i + len > header_len {
            return Err(i as u8 + 1);
        }
        if kind != kind::RECORD_ROUTE && kind != kind::TIMESTAMP {
            i += len;
            continue;
        }
        done.met = true;
        // the pointer counts from 1; 0 makes it minus one here
        let pointer = i32::from(at(b, i + 2)) - 1;
        let room = |n: i32| pointer + n <= len as i32;
        let place = i.wrapping_add_signed(pointer as isize);
        let advance = |b: &mut [u8], n: u8| {
            if let Some(p) = b.get_mut(i + 2) {
                *p = p.wrapping_add(n);
            }
        };
        if kind == kind::RECORD_ROUTE {
            if pointer >= 3 && room(4) {
                put(b, place, preferred);
                advance(b, 4);
                done.changed = true;
            } else if pointer != len as i32 {
                return Err(i as u8 + 2);
            }
            i += len;
            continue;
        }
        let (overflow, flag) = (at(b, i + 3) >> 4, at(b, i + 3) & 15);
        if pointer < 4 {
            return Err(i as u8 + 2);
        }
        match flag {
            0 if room(4) => {
                put(b, place, midnight_millis(now));
                advance(b, 4);
                done.changed = true;
            }
            1 if room(8) => {
                put(b, place, preferred);
                put(b, place + 4, midnight_millis(now));
                advance(b, 8);
                done.changed = true;
            }
            0 | 1 if overflow < 15 => {
                if let Some(f) = b.get_mut(i + 3) {
                    *f = (overflow + 1) << 4 | flag;
                }
                done.changed = true;
            }
            3 if room(8) => {
                let asked = b.get(place..).and_then(|d| d.first_chunk::<4>());
                if asked.is_some_and(|a| mine.contains(a)) {
                    put(b, place + 4, midnight_millis(now));
                    advance(b, 8);
                    done.changed = true;
                }
            }
            _ => return Err(i as u8 + 3),
        }
        i += len;
    }
    Ok(done)
}

/// `IPGWOptions`.
pub const IP_GW_OPTIONS: ElementClass = ElementClass {
    name: "IPGWOptions",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "MYADDR [, OTHERADDRS]",
    summary: "processes Record Route and Timestamp options",
    new: || Box::new(IpGwOptions::default()),
};

/// As Click. Packets without a whole IP header are dropped.
#[derive(Debug, Clone, Default)]
struct IpGwOptions {
    preferred: [u8; 4],
    mine: Vec<[u8; 4]>,
    drops: u32,
}

const NO_HEADER: DropReason = "IPGWOptions: no IP header";

impl Element for IpGwOptions {
    fn batching(&self, _: Batching) -> Batching {
        Batching::AnyOrder
    }
    /// A time stamp option is told in milliseconds.
    fn clock(&self, _: Clock) -> Clock {
        Clock::MILLISECONDS
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(a) = args.mandatory::<Ipv4Addr>("MYADDR") {
            self.preferred = a.octets();
        }
        let others: Vec<Ipv4Addr> = args.optional("OTHERADDRS").unwrap_or_default();
        self.mine = others.iter().map(|a| a.octets()).collect();
        self.mine.push(self.preferred);
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match ip4::header(&p).map(|h| h.header_len()) {
            Some(n) if n <= 20 => return cx.emit(0, p),
            _ => {}
        }
        let Some(len) = ip4::whole_header_len(&p) else {
            return cx.drop(p, NO_HEADER);
        };
        let Some(b) = p.network_mut() else {
            return cx.drop(p, NO_HEADER);
        };
        match process(b, len, self.preferred, &self.mine, cx.now) {
            Ok(done) => {
                // Click recomputes the checksum once it has met an option of its own, even if it left it alone
                if done.met
                    && let Some(mut h) = ip4::header_mut(&mut p)
                {
                    h.fill_checksum();
                }
                cx.emit(0, p);
            }
            Err(offset) => {
                self.drops += 1;
                p.anno
                    .set_u8(anno_field::ICMP_PARAMPROB.offset.into(), offset);
                cx.decide(None, || format!("bad IP option at byte {offset}"));
                cx.emit_or_drop(1, p, "IPGWOptions: bad option");
            }
        }
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        pass_while(batch, |p| {
            ip4::header(p).is_some_and(|h| h.header_len() <= 20)
        })
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::from(ip4::unless_header(Exit::Drop(NO_HEADER)));
        cases.push(Case::new(Cond::between(field::IP_IHL, 0, 5), Exit::Port(0)));
        cases.push(ip4::punt_options());
        Model::Cases(cases)
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("drops")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

/// The header checksum over `header_len` bytes of `b`, stored in it.
pub(super) fn store_checksum(b: &mut [u8], header_len: usize) {
    let Some(h) = b.get_mut(..header_len) else {
        return;
    };
    if let Some([hi, lo]) = h.get_mut(10..12) {
        [*hi, *lo] = [0, 0];
    }
    let sum = checksum::internet(h).to_be_bytes();
    if let Some(c) = h.get_mut(10..12) {
        c.copy_from_slice(&sum);
    }
}

#[cfg(test)]
mod tests {
    use crate::routing::testpkt::*;
    use crate::testing::Bench;
    use onefold_packet::Timestamp;

    fn run(config: &str, options: &[u8]) -> (Option<(usize, Vec<u8>, u8)>, String) {
        let mut b = Bench::new("IPGWOptions", config, 1, 2).unwrap();
        // 01:00:02.345 after midnight of some day
        b.now = Timestamp::from_millis(86_400_000 * 3 + 3_602_345);
        let out = b.push_packet(0, marked(&ip(A, B, 17, options, &[7; 8])));
        let drops = b.read("drops").unwrap();
        let got = out.first().map(|(port, p)| {
            let hlen = 20 + options.len();
            if *port == 0 {
                assert!(sound(p.data()));
            }
            assert_eq!(p.data()[hlen..], [7; 8]);
            (*port, p.data()[20..hlen].to_vec(), p.anno.u8(17))
        });
        (got, drops)
    }
    fn ok(options: &[u8]) -> Vec<u8> {
        let (got, drops) = run("1.2.3.4, 5.6.7.8 9.9.9.9", options);
        let (port, bytes, _) = got.unwrap();
        assert_eq!((port, drops.as_str()), (0, "0"), "{options:?}");
        bytes
    }
    /// The parameter problem pointer.
    fn problem(options: &[u8]) -> u8 {
        let (got, drops) = run("1.2.3.4", options);
        let (port, _, pointer) = got.unwrap();
        assert_eq!((port, drops.as_str()), (1, "1"), "{options:?}");
        pointer
    }

    #[test]
    fn record_route() {
        assert_eq!(
            ok(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            [7, 11, 8, 1, 2, 3, 4, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            ok(&[1, 7, 7, 4, 0, 0, 0, 0]),
            [1, 7, 7, 8, 1, 2, 3, 4],
            "after a NOP, filling the option"
        );
        let full = [7, 7, 8, 9, 9, 9, 9, 0];
        assert_eq!(ok(&full), full);
        assert_eq!(problem(&[7, 7, 3, 0, 0, 0, 0, 0]), 22, "pointer too small");
        assert_eq!(problem(&[7, 7, 6, 0, 0, 0, 0, 0]), 22, "no room");
        assert_eq!(
            problem(&[7, 9, 4, 0, 0, 0, 0, 0]),
            21,
            "length beyond the header"
        );
        assert_eq!(problem(&[7, 1, 4, 0, 0, 0, 0, 0]), 21, "length below 2");
        assert_eq!(problem(&[1, 1, 1, 7]), 24, "length missing");
    }

    #[test]
    fn timestamp() {
        let ms = 3_602_345u32.to_be_bytes();
        let t = |v: &[u8]| [v, &ms[..]].concat();
        assert_eq!(ok(&[68, 8, 5, 0, 0, 0, 0, 0]), t(&[68, 8, 9, 0]));
        assert_eq!(
            ok(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            t(&[68, 12, 13, 1, 1, 2, 3, 4])
        );
        assert_eq!(
            ok(&[68, 12, 5, 3, 9, 9, 9, 9, 0, 0, 0, 0]),
            t(&[68, 12, 13, 3, 9, 9, 9, 9]),
            "asked for by one of its addresses"
        );
        let other = [68, 12, 5, 3, 8, 8, 8, 8, 0, 0, 0, 0];
        assert_eq!(ok(&other), other, "asked for by another's address");
        assert_eq!(ok(&[68, 8, 9, 0, 1, 1, 1, 1])[3], 0x10, "overflow counted");
        assert_eq!(ok(&[68, 8, 9, 0xe1, 1, 1, 1, 1])[3], 0xf1);
        assert_eq!(
            problem(&[68, 8, 9, 0xf0, 1, 1, 1, 1]),
            23,
            "overflow of the overflow"
        );
        assert_eq!(problem(&[68, 8, 4, 0, 1, 1, 1, 1]), 22);
        assert_eq!(problem(&[68, 8, 5, 2, 1, 1, 1, 1]), 23, "unknown flag");
        assert_eq!(problem(&[68, 8, 9, 3, 1, 1, 1, 1]), 23);
    }

    #[test]
    fn other_options_and_ends_are_left_alone() {
        for o in [
            [131, 7, 4, 1, 1, 1, 1, 0],
            [0, 7, 200, 1, 1, 1, 1, 0],
            [1, 1, 1, 1, 1, 1, 1, 1],
        ] {
            assert_eq!(ok(&o), o);
        }
        // a wrong checksum stays wrong unless there is an option of its own
        let mut b = Bench::new("IPGWOptions", "1.2.3.4", 1, 1).unwrap();
        for (o, mended) in [
            ([1, 1, 1, 1, 1, 1, 1, 0], false),
            ([7, 7, 8, 0, 0, 0, 0, 0], true),
        ] {
            let mut d = ip(A, B, 17, &o, &[]);
            d[10] ^= 0x55;
            assert_eq!(sound(b.push_packet(0, marked(&d))[0].1.data()), mended);
        }
    }

    #[test]
    fn headers_that_lie_are_dropped() {
        let mut b = Bench::new("IPGWOptions", "1.2.3.4", 1, 2).unwrap();
        assert!(b.push(0, &[0x4f; 60]).is_empty());
        assert!(b.push_packet(0, marked(&[0x4f; 59])).is_empty());
        assert!(b.push_packet(0, marked(&[])).is_empty());
        assert_eq!(b.drops()["IPGWOptions: no IP header"], 3);
        assert!(Bench::new("IPGWOptions", "1.2.3.4, 5 6", 1, 1).is_err());
    }
}
