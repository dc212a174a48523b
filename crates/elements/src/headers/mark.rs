//! Setting header annotations: MarkIPHeader, MarkMACHeader.

use super::one_to_one;
use onefold_element::args::Args;
use onefold_element::model::build::{Cases, OPTIONS, ne};
use onefold_element::model::{Base, Case, Cond, Exit, Model, ModelCx, Op, Read, bits};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `MarkIPHeader`.
pub const MARK_IP_HEADER: ElementClass = one_to_one(
    "MarkIPHeader",
    Effect::Pure,
    "[OFFSET]",
    "sets the IP header annotation",
    || Box::new(MarkIpHeader { offset: 0 }),
);

/// Sets the network header, and the transport header as far behind it as the header length field says; nothing is
/// checked. Where the packet ends before OFFSET the header length counts as 0 (Click reads past the end).
#[derive(Debug, Clone)]
struct MarkIpHeader {
    offset: i32,
}

impl Element for MarkIpHeader {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.offset = args.optional("OFFSET").unwrap_or(0);
        args.finish()
    }
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let at = usize::try_from(self.offset).ok();
        let first = at.and_then(|o| p.data().get(o)).copied().unwrap_or(0);
        p.set_network_header(self.offset as isize, usize::from(first & 15) * 4);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let Some(at) = u16::try_from(self.offset).ok().filter(|o| *o <= 8000) else {
            return Model::None("MarkIPHeader: OFFSET outside of every packet");
        };
        let mark = Op::SetNet {
            at: at as i16,
            len: 20,
        };
        Cases::new()
            .punt(
                Cond::less(Read::Len, u128::from(at) + 1),
                "no byte of an IP header",
            )
            .punt(ne(bits(Base::Data, at * 8 + 4, 4), 5), OPTIONS)
            .otherwise([mark], Exit::Port(0))
    }
    fn finer(&self, _: Port, _: &ModelCx<'_>) -> Option<Vec<Case>> {
        let at = u16::try_from(self.offset).ok().filter(|o| *o <= 8000)?;
        let mark = Op::SetNet {
            at: at as i16,
            len: 0,
        };
        let none = Cond::less(Read::Len, u128::from(at) + 1);
        Some(vec![
            Case::new(none, Exit::Port(0)).with([mark]),
            Case::new(Cond::Always, Exit::Punt(OPTIONS)),
        ])
    }
    element_any!();
}

/// `MarkMACHeader`.
pub const MARK_MAC_HEADER: ElementClass = one_to_one(
    "MarkMACHeader",
    Effect::Pure,
    "[OFFSET, LENGTH]",
    "sets the MAC header annotation",
    || {
        Box::new(MarkMacHeader {
            offset: 0,
            length: 0,
        })
    },
);

#[derive(Debug, Clone)]
struct MarkMacHeader {
    offset: u32,
    /// 0: the network header annotation stays as it is.
    length: u32,
}

impl Element for MarkMacHeader {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.offset = args.optional("OFFSET").unwrap_or(0);
        self.length = args.optional("LENGTH").unwrap_or(0);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if self.length != 0 {
            p.set_mac_header_len(self.offset as isize, self.length as usize);
        } else {
            p.set_mac_header(self.offset as isize);
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mac = i16::try_from(self.offset).ok();
        let net = i16::try_from(self.offset.saturating_add(self.length)).ok();
        match (mac, net) {
            (Some(at), _) if self.length == 0 => Model::pass([Op::SetMac { at }]),
            (Some(at), Some(net)) => Model::pass([Op::SetMac { at }, Op::MoveNet { at: net }]),
            _ => Model::None("MarkMACHeader: OFFSET outside of every packet"),
        }
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn marks() {
        let mut b = Bench::new("MarkIPHeader", "14", 1, 1).unwrap();
        let mut d = [0u8; 60];
        d[14] = 0x47;
        let p = b.push(0, &d).remove(0).1;
        assert_eq!(p.network_header_offset(), Some(14));
        assert_eq!(p.transport_header_offset(), Some(42));
        // past the end: set, but without bytes
        let p = b.push(0, &[1, 2]).remove(0).1;
        assert_eq!(p.network_header_offset(), Some(14));
        assert_eq!(p.network(), None);

        let mut b = Bench::new("MarkMACHeader", "2, 14", 1, 1).unwrap();
        let p = b.push(0, &d).remove(0).1;
        assert_eq!(p.mac_header_offset(), Some(2));
        assert_eq!(p.network_header_offset(), Some(16));
        assert_eq!(p.transport_header_offset(), None);
        let mut b = Bench::new("MarkMACHeader", "", 1, 1).unwrap();
        let p = b.push(0, &[]).remove(0).1;
        assert_eq!(
            (p.mac_header_offset(), p.network_header_offset()),
            (Some(0), None)
        );
        assert!(Bench::new("MarkIPHeader", "x", 1, 1).is_err());
    }
}
