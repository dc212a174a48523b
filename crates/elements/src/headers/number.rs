//! NumberPacket (FastClick): writes a running number into packets.
//!
//! Different from FastClick: when a packet has to grow, its IP length is set only if it has an IP header annotation.

use super::one_to_one;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{Pkt, wire::ipv4};

/// `NumberPacket`.
pub const NUMBER_PACKET: ElementClass = one_to_one(
    "NumberPacket",
    Effect::OrderSensitive,
    "[OFFSET, keyword NET_ORDER]",
    "writes a 64-bit running number into packets",
    || {
        Box::new(NumberPacket {
            offset: 40,
            net_order: false,
            count: 0,
        })
    },
);

#[derive(Debug, Clone)]
struct NumberPacket {
    offset: usize,
    net_order: bool,
    count: u64,
}

impl Element for NumberPacket {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let offset: Option<u16> = args.optional("OFFSET");
        self.offset = offset.map_or(40, usize::from);
        self.net_order = args.keyword("NET_ORDER").unwrap_or(false);
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("NumberPacket: numbers packets in their order")
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let end = self.offset + 8;
        if p.len() < end {
            p.put(end - p.len());
            if let Some(mut h) = p.network_mut().and_then(ipv4::Header::parse) {
                h.set_total_len(end as u16);
            }
        }
        let n = if self.net_order {
            self.count.to_be_bytes()
        } else {
            self.count.to_le_bytes()
        };
        if let Some(d) = p.data_mut().get_mut(self.offset..end) {
            d.copy_from_slice(&n);
        }
        self.count += 1;
        cx.emit(0, p);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("count")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn numbers() {
        let mut b = Bench::new("NumberPacket", "2, NET_ORDER true", 1, 1).unwrap();
        let _ = b.push(0, &[9; 12]);
        let p = b.push(0, &[9; 4]).remove(0).1;
        assert_eq!(p.data(), [9, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(b.read("count").unwrap(), "2");
        assert!(Bench::new("NumberPacket", "-1", 1, 1).is_err());
    }
}
