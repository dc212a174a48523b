//! TCPOptionCheck: tells segments by an option of their TCP header.
//!
//! `TCPOptionCheck(KIND)` sends segments that have an option of this kind to output 0, all other packets to output 1.
//! `TCPOptionCheck(KIND, OFFSET, LENGTH, FROM, TO)` also wants the number in LENGTH bytes, from byte OFFSET of the
//! option on, to be FROM to TO; with `OUTSIDE true`, not to be. The first option of that kind counts; one that does not
//! fit the header is none. IPv4 and IPv6, behind the header annotation; later fragments have none, nor has what is not
//! TCP.
//!
//! Source: Linux, net/netfilter/nft_exthdr.c (nft_exthdr_tcp_eval).

use super::tcp_mss::tcp_at;
use onefold_element::args::Args;
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{Packet, Pkt};

/// `TCPOptionCheck`.
pub const TCP_OPTION_CHECK: ElementClass = ElementClass {
    name: "TCPOptionCheck",
    ports: "1/1-2",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "KIND [, OFFSET, LENGTH, FROM, TO, keyword OUTSIDE]",
    summary: "tells TCP segments by an option of their header",
    new: || Box::new(TcpOptionCheck::default()),
};

/// Bytes of a TCP header without options.
const LEN: usize = 20;
/// Options up to this one have no length.
const NOP: u8 = 1;
/// Of packets without the option, whose output is not connected.
const NONE: &str = "TCPOptionCheck: not this option";

#[derive(Debug, Clone, Default)]
struct TcpOptionCheck {
    kind: u8,
    number: Option<Number>,
}

/// What the option must say.
#[derive(Debug, Clone, Copy)]
struct Number {
    offset: usize,
    len: usize,
    from: u32,
    to: u32,
    outside: bool,
}

impl TcpOptionCheck {
    fn holds(&self, p: &Packet) -> bool {
        let header = || {
            let ip = p.network()?;
            let tcp = ip.get(tcp_at(ip)?..)?;
            let len = usize::from(tcp.get(12)? >> 4) * 4;
            tcp.get(..len).filter(|_| len >= LEN)
        };
        header().is_some_and(|h| self.fits(h))
    }

    /// Of a whole header.
    fn fits(&self, header: &[u8]) -> bool {
        let mut i = LEN;
        // Bound: each turn takes a byte at least, of 40
        while i + 1 < header.len() {
            let (kind, len) = (header[i], header[i + 1]);
            let step = match kind <= NOP || len == 0 {
                true => 1,
                false => usize::from(len),
            };
            if kind != self.kind {
                i += step;
                continue;
            }
            let Some(n) = self.number else {
                return i + step <= header.len();
            };
            let at = i + n.offset;
            return match header.get(at..at + n.len) {
                Some(bytes) if i + step <= header.len() && n.offset + n.len <= step => {
                    let found = bytes.iter().fold(0, |v, b| v << 8 | u32::from(*b));
                    (n.from..=n.to).contains(&found) != n.outside
                }
                _ => false,
            };
        }
        false
    }
}

impl Element for TcpOptionCheck {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.kind = args.mandatory("KIND").unwrap_or(0);
        let offset: Option<u8> = args.optional("OFFSET");
        let len: Option<u8> = args.optional("LENGTH");
        let from: Option<u32> = args.optional("FROM");
        let to: Option<u32> = args.optional("TO");
        let outside = args.keyword("OUTSIDE").unwrap_or(false);
        match (offset, len, from, to) {
            (None, ..) => {}
            (Some(offset), Some(len), Some(from), Some(to)) => {
                if !(1..=4).contains(&len) {
                    args.error("LENGTH: out of range, 1 to 4");
                }
                if from > to {
                    args.error("FROM: is behind TO");
                }
                self.number = Some(Number {
                    offset: offset.into(),
                    len: len.into(),
                    from,
                    to,
                    outside,
                });
            }
            _ => args.error("OFFSET needs LENGTH, FROM and TO"),
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("options of TCP")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let holds = self.holds(&p);
        cx.decide(Some(0), || match holds {
            true => "has the option".to_string(),
            false => "does not have the option".to_string(),
        });
        match holds {
            true => cx.emit(0, p),
            false => cx.emit_or_drop(1, p, NONE),
        }
    }

    element_any!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: u8, number: Option<(usize, usize, u32, u32, bool)>) -> TcpOptionCheck {
        let number = number.map(|(offset, len, from, to, outside)| Number {
            offset,
            len,
            from,
            to,
            outside,
        });
        TcpOptionCheck { kind, number }
    }

    #[test]
    fn options_as_the_kernel_finds_them() {
        let header = |options: &[u8]| [&[0u8; LEN][..], options].concat();
        let mss = header(&[1, 1, 2, 4, 5, 0xb4, 1, 1]);
        assert!(check(2, None).fits(&mss) && !check(3, None).fits(&mss));
        assert!(check(1, None).fits(&mss));
        assert!(check(2, Some((2, 2, 1460, 1460, false))).fits(&mss));
        assert!(!check(2, Some((2, 2, 0, 0, false))).fits(&mss));
        assert!(check(2, Some((2, 2, 0, 0, true))).fits(&mss));
        // beyond its own length, beyond the header, and no option at all
        assert!(!check(2, Some((3, 2, 0, 9999, true))).fits(&mss));
        assert!(!check(2, Some((2, 2, 0, 0, true))).fits(&header(&[1, 2, 6, 0])));
        assert!(!check(2, Some((2, 2, 0, 0, true))).fits(&header(&[])));
        // a length of 0 takes one byte
        assert!(check(2, None).fits(&header(&[9, 0, 2, 2])));
        // the last byte alone is not looked at
        assert!(!check(1, None).fits(&header(&[9, 3, 0, 1])[..LEN + 1]));
    }

    #[test]
    fn packets_without_the_header() {
        let c = check(2, None);
        let mut ip = vec![
            0x45, 0, 0, 44, 0, 0, 0, 0, 64, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
        ];
        ip.extend([0; 12]);
        ip.extend([0x60, 2, 0, 0, 0, 0, 0, 0, 2, 4, 1, 0]);
        let holds = |bytes: &[u8]| {
            let mut p = Packet::from_slice(bytes);
            p.set_network_header(0, 20);
            c.holds(&p)
        };
        assert!(holds(&ip));
        assert!(!holds(&ip[..42]) && !holds(&ip[..30]));
        let mut udp = ip.clone();
        udp[9] = 17;
        let mut fragment = ip.clone();
        fragment[7] = 1;
        assert!(!holds(&udp) && !holds(&fragment));
        assert!(!c.holds(&Packet::from_slice(&ip)));
    }

    #[test]
    fn what_is_wrong_with_it() {
        let wrong = |c: &str| {
            let e = crate::testing::Bench::new("TCPOptionCheck", c, 1, 2);
            e.err().unwrap_or_default().join("; ")
        };
        assert_eq!(wrong("2, 2, 2, 0, 9"), "");
        assert_eq!(wrong("2, 2, 5, 0, 9"), "LENGTH: out of range, 1 to 4");
        assert_eq!(wrong("2, 2, 2, 9, 0"), "FROM: is behind TO");
        assert_eq!(wrong("2, 2, 2"), "OFFSET needs LENGTH, FROM and TO");
    }
}
