//! EtherVLANEncap: puts a VLAN-tagged Ethernet header in front of packets.

use super::one_to_one;
use super::vlan::Tagging;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::{Cases, set, set_ether};
use onefold_element::model::{Base, Exit, Model, ModelCx, Op, bytes, field};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::ethernet::ethertype;
use onefold_packet::{EtherAddr, Pkt};

/// `EtherVLANEncap`.
pub const ETHER_VLAN_ENCAP: ElementClass = one_to_one(
    "EtherVLANEncap",
    Effect::Pure,
    "ETHERTYPE, SRC, DST, VLAN_TCI (a number or ANNO) [, VLAN_PCP, keywords VLAN_ID, NATIVE_VLAN]",
    "puts an 802.1Q Ethernet header in front of packets",
    || Box::new(EtherVlanEncap::default()),
);
/// `EtherVlanEncap`, its old name.
pub const ETHER_VLAN_ENCAP_OLD: ElementClass = ElementClass {
    name: "EtherVlanEncap",
    ..ETHER_VLAN_ENCAP
};

#[derive(Debug, Clone, Default)]
struct EtherVlanEncap {
    ethertype: u16,
    src: EtherAddr,
    dst: EtherAddr,
    tagging: Tagging,
}

impl Element for EtherVlanEncap {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.ethertype = args.mandatory("ETHERTYPE").unwrap_or(0);
        self.src = args.mandatory("SRC").unwrap_or_default();
        self.dst = args.mandatory("DST").unwrap_or_default();
        self.tagging.configure(args);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let tag = self.tagging.tag(&p);
        let len = if tag.is_some() { 18 } else { 14 };
        p.push(len);
        p.set_mac_header_len(0, len);
        // the packet may be as long as packets get; then nothing was pushed
        if let Some(h) = p.data_mut().get_mut(..len) {
            h[..6].copy_from_slice(&self.dst.0);
            h[6..12].copy_from_slice(&self.src.0);
            if let Some(tci) = tag {
                h[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
                h[14..16].copy_from_slice(&tci.to_be_bytes());
            }
            h[len - 2..].copy_from_slice(&self.ethertype.to_be_bytes());
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let header = |len: u16| {
            let mut ops = vec![Op::Push(len)];
            ops.extend(set_ether(self.dst.0, self.src.0));
            if len == 18 {
                ops.push(set(field::ETH_TYPE, ethertype::VLAN.into()));
                ops.push(self.tagging.write_tci());
            }
            ops.push(set(bytes(Base::Data, len - 2, 2), self.ethertype.into()));
            ops.extend([Op::SetMac { at: 0 }, Op::MoveNet { at: len as i16 }]);
            ops
        };
        let mut c = Cases::new();
        if let Some(native) = self.tagging.native_case() {
            c = c.case(native, header(14), Exit::Port(0));
        }
        c.otherwise(header(18), Exit::Port(0))
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("src").sets(1, "SRC"),
            HandlerInfo::rw("dst").sets(2, "DST"),
            HandlerInfo::rw("ethertype").sets(0, "ETHERTYPE"),
            HandlerInfo::rw("vlan_tci"),
            HandlerInfo::rw("vlan_id"),
            HandlerInfo::rw("vlan_pcp"),
            HandlerInfo::rw("native_vlan"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "src" => Ok(self.src.to_string()),
            "dst" => Ok(self.dst.to_string()),
            "ethertype" => Ok(self.ethertype.to_string()),
            _ => self
                .tagging
                .read(name)
                .ok_or_else(|| HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "src" => self.src = cx.value(name, value)?,
            "dst" => self.dst = cx.value(name, value)?,
            "ethertype" => self.ethertype = cx.value(name, value)?,
            _ => {
                if !self.tagging.write(name, value, cx)? {
                    return Err(HandlerError::NoSuchHandler(name.to_string()));
                }
            }
        }
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

    const ADDRS: &str = "0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2";

    #[test]
    fn tagged_and_native() {
        let mut b = Bench::new(
            "EtherVLANEncap",
            &format!("{ADDRS}, VLAN_ID 9, VLAN_PCP 2"),
            1,
            1,
        )
        .unwrap();
        let p = b.push(0, b"E").remove(0).1;
        assert_eq!(
            p.data(),
            [
                2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0x81, 0, 0x40, 9, 8, 0, b'E'
            ]
        );
        assert_eq!(p.network_header_offset(), Some(18));
        b.write("native_vlan", "9").unwrap();
        let p = b.push(0, b"E").remove(0).1;
        assert_eq!(p.data()[12..], [8, 0, b'E']);
        assert_eq!(p.network_header_offset(), Some(14));
        b.write("src", "3:3:3:3:3:3").unwrap();
        assert_eq!(b.read("src").unwrap(), "03-03-03-03-03-03");
        assert_eq!(b.read("vlan_id").unwrap(), "9");
        assert!(b.write("config", "x").is_err());
    }

    #[test]
    fn errors() {
        for (bad, names) in [
            (format!("{ADDRS}, 1, 9"), "VLAN_PCP"),
            (format!("{ADDRS}, VLAN_ID x"), "VLAN_ID"),
            ("1, 1:1:1:1:1:1".to_string(), "DST"),
        ] {
            let e = Bench::new("EtherVlanEncap", &bad, 1, 1).err().unwrap();
            assert!(e[0].starts_with(names), "{bad}: {e:?}");
        }
    }
}
