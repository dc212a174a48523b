//! CheckARPHeader: is this a sensible ARP packet? (RFC 826.) The network header annotation is set on good ones.
//!
//! Drop reasons: `CheckARPHeader: tiny packet`, `... too small for addresses`, `... bad hardware type/length`, `... bad
//! protocol type/length`.

use super::refusal::{Cause, Lead, Refusals, causes};
use super::with_refusals;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, ne};
use onefold_element::model::{Base, Cond, Exit, Model, ModelCx, Op, Read, bytes};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;
use onefold_packet::wire::ethernet::ethertype;

const CAUSES: &[Cause] = causes!("CheckARPHeader": "tiny packet", "too small for addresses",
    "bad hardware type/length", "bad protocol type/length");

/// `CheckARPHeader`.
pub const CHECK_ARP_HEADER: ElementClass = with_refusals(
    "CheckARPHeader",
    Effect::CommutativeCount,
    "[OFFSET, keywords OFFSET, VERBOSE, DETAILS]",
    "checks ARP headers and sets the network header annotation",
    || {
        Box::new(CheckArpHeader {
            offset: 0,
            refusals: Refusals::new("ARP", Lead::Bare, CAUSES),
        })
    },
);

#[derive(Debug, Clone)]
struct CheckArpHeader {
    offset: usize,
    refusals: Refusals,
}

/// The ARP packet's length with addresses, or the cause number.
fn check(arp: &[u8]) -> Result<usize, usize> {
    let h = arp.first_chunk::<8>().ok_or(0usize)?;
    let (hln, pln) = (usize::from(h[4]), usize::from(h[5]));
    let len = 8 + 2 * hln + 2 * pln;
    let pro = u16::from_be_bytes([h[2], h[3]]);
    if arp.len() < len {
        Err(1)
    } else if h[..2] == [0, 1] && hln != 6 {
        Err(2)
    } else if (pro == ethertype::IPV4 && pln != 4) || (pro == ethertype::IPV6 && pln != 16) {
        Err(3)
    } else {
        Ok(len)
    }
}

impl Element for CheckArpHeader {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let offset: Option<u32> = args.optional("OFFSET");
        self.offset = offset.unwrap_or(0) as usize;
        self.refusals.configure(args);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match check(p.data().get(self.offset..).unwrap_or(&[])) {
            Ok(len) => {
                p.set_network_header(self.offset as isize, len);
                cx.emit(0, p);
            }
            Err(cause) => self.refusals.refuse(cause, p, cx),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let Some(at) = u16::try_from(self.offset).ok().filter(|o| *o <= 8000) else {
            return Model::None("CheckARPHeader: OFFSET beyond every header");
        };
        let refuse = |c: Cases, when: Cond, cause: usize| {
            let (count, exit) = self.refusals.refusal(cause);
            c.case(when, [count], exit)
        };
        let field = |i: u16, n: u8| bytes(Base::Data, at + i, n);
        let mut c = Cases::new();
        c = refuse(c, Cond::less(Read::Len, u128::from(at) + 8), 0);
        c = c.punt(ne(field(4, 2), 0x0604), "ARP addresses of another size");
        c = refuse(c, Cond::less(Read::Len, u128::from(at) + 28), 1);
        c = refuse(c, Cond::eq(field(2, 2), ethertype::IPV6.into()), 3);
        let mark = Op::SetNet {
            at: at as i16,
            len: 28,
        };
        c.otherwise([mark], Exit::Port(0))
    }
    /// Tags: the causes of refusal, from 0 in the order of the module's text.
    fn account(&mut self, tag: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        self.refusals.account(tag.into(), packets, cx);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        self.refusals.handlers()
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        self.refusals.read(name)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn causes() {
        let mut b = Bench::new("CheckARPHeader", "14, DETAILS yes", 1, 2).unwrap();
        let mut d = vec![0u8; 14];
        d.extend([0, 1, 8, 0, 6, 4, 0, 1]);
        d.extend([0; 20]);
        let (port, p) = b.push(0, &d).remove(0);
        assert_eq!((port, p.network_header_offset()), (0, Some(14)));
        assert_eq!(p.transport_header_offset(), Some(42));
        let with = |i: usize, v: u8| {
            let mut d = d.clone();
            d.extend([0; 40]);
            d[i] = v;
            d
        };
        for bad in [d[..21].to_vec(), d[..41].to_vec(), with(18, 5), with(19, 5)] {
            assert_eq!(b.push(0, &bad)[0].0, 1);
        }
        assert_eq!(
            b.read("drop_details").unwrap(),
            "1\ttiny packet\n1\ttoo small for addresses\n1\tbad hardware type/length\n1\tbad protocol type/length\n"
        );
        assert_eq!(b.host.log, "ARP header check failed: tiny packet\n");
        assert_eq!(b.push(0, b"")[0].0, 1);
        assert!(Bench::new("CheckARPHeader", "14, 15", 1, 1).is_err());
    }
}
