//! EtherEncap: puts an Ethernet header in front of packets.

use super::ether::ether_header;
use super::one_to_one;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{set, set_ether};
use onefold_element::model::{Model, ModelCx, Op, field};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any, pass_while,
};
use onefold_packet::{EtherAddr, Pkt, Timestamp};

/// `EtherEncap`.
pub const ETHER_ENCAP: ElementClass = one_to_one(
    "EtherEncap",
    Effect::Pure,
    "ETHERTYPE, SRC, DST",
    "puts an Ethernet header in front of packets",
    || Box::new(EtherEncap::default()),
);

#[derive(Debug, Clone, Default)]
struct EtherEncap {
    ethertype: u16,
    src: EtherAddr,
    dst: EtherAddr,
    /// The three of them as they go out.
    header: [u8; 14],
}

impl Element for EtherEncap {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.ethertype = args.mandatory("ETHERTYPE").unwrap_or(0);
        self.src = args.mandatory("SRC").unwrap_or_default();
        self.dst = args.mandatory("DST").unwrap_or_default();
        self.header = ether_header(self.ethertype, self.src, self.dst);
        args.finish()
    }
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.push(14);
        p.set_mac_header_len(0, 14);
        if let Some(h) = p.data_mut().first_chunk_mut() {
            *h = self.header;
        }
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        pass_while(batch, |p| {
            p.push(14);
            p.set_mac_header_len(0, 14);
            if let Some(h) = p.data_mut().first_chunk_mut() {
                *h = e.header;
            }
            true
        })
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass(
            [Op::Push(14)]
                .into_iter()
                .chain(set_ether(self.dst.0, self.src.0))
                .chain([
                    set(field::ETH_TYPE, self.ethertype.into()),
                    Op::SetMac { at: 0 },
                    Op::MoveNet { at: 14 },
                ]),
        )
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("src").sets(1, "SRC"),
            HandlerInfo::rw("dst").sets(2, "DST"),
            HandlerInfo::rw("ethertype").sets(0, "ETHERTYPE"),
            HandlerInfo::rw("etht").sets(0, "ETHERTYPE"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "src" => Ok(self.src.to_string()),
            "dst" => Ok(self.dst.to_string()),
            "ethertype" | "etht" => Ok(self.ethertype.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "src" => self.src = cx.value(name, value)?,
            "dst" => self.dst = cx.value(name, value)?,
            "ethertype" | "etht" => self.ethertype = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        self.header = ether_header(self.ethertype, self.src, self.dst);
        Ok(())
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
    fn header_annotations_and_handlers() {
        let mut b = Bench::new("EtherEncap", "0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2", 1, 1).unwrap();
        let p = b.push(0, b"E").remove(0).1;
        assert_eq!(p.data(), [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 8, 0, b'E']);
        assert_eq!(p.mac_header_offset(), Some(0));
        assert_eq!(p.network_header_offset(), Some(14));
        assert_eq!(b.read("ethertype").unwrap(), "2048");
        assert_eq!(b.read("src").unwrap(), "01-01-01-01-01-01");
        b.write("ethertype", "0x806").unwrap();
        b.write("dst", "a:b:c:d:e:f").unwrap();
        let p = b.push(0, b"").remove(0).1;
        assert_eq!(p.data(), [10, 11, 12, 13, 14, 15, 1, 1, 1, 1, 1, 1, 8, 6]);
        for (bad, names) in [
            ("", "ETHERTYPE"),
            ("65536, 1:1:1:1:1:1, 2:2:2:2:2:2", "ETHERTYPE"),
            ("1, x, 2:2:2:2:2:2", "SRC"),
            ("1, 1:1:1:1:1:1", "DST"),
        ] {
            let e = Bench::new("EtherEncap", bad, 1, 1).err().unwrap();
            assert!(e[0].starts_with(names), "{bad}: {e:?}");
        }
    }
}
