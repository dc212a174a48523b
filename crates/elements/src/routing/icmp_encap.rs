//! ICMPIPEncap: puts packets into ICMP messages (Click element; RFC 792).

use crate::icmp_names::{IcmpType, icmp_code};
use onefold_element::args::{Args, FromArg, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::icmp::kind;
use onefold_packet::wire::ipv4::proto;
use onefold_packet::{Pkt, checksum};
use std::net::Ipv4Addr;

/// `ICMPIPEncap`.
pub const ICMP_IP_ENCAP: ElementClass = ElementClass {
    name: "ICMPIPEncap",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "SRC, DST, TYPE [, CODE, keyword IDENTIFIER]",
    summary: "puts packets into ICMP messages in IP packets",
    new: || {
        Box::new(IcmpIpEncap {
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            kind: 0,
            code: 0,
            identifier: 0,
            number: 1,
        })
    },
};

const IP: usize = 20;
const TIME_TO_LIVE: u8 = 255;

#[derive(Debug, Clone)]
struct IcmpIpEncap {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    kind: u8,
    code: u8,
    identifier: u16,
    /// IP identification and ICMP sequence number of the next packet; never 0.
    number: u16,
}

impl IcmpIpEncap {
    /// Length of the ICMP header.
    fn header(&self) -> usize {
        match self.kind {
            kind::TIMESTAMP | kind::TIMESTAMP_REPLY => 20,
            _ => 8,
        }
    }

    /// Does the type have an identifier and a sequence number?
    fn sequenced(&self) -> bool {
        matches!(self.kind, kind::ECHO | kind::ECHO_REPLY | 13..=16)
    }
}

impl Element for IcmpIpEncap {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.src = args.mandatory("SRC").unwrap_or(Ipv4Addr::UNSPECIFIED);
        self.dst = args.mandatory("DST").unwrap_or(Ipv4Addr::UNSPECIFIED);
        self.kind = args.mandatory("TYPE").map_or(0, |t: IcmpType| t.0);
        let code: Option<Word> = args.optional("CODE");
        self.code = match &code {
            None => 0,
            Some(Word(w)) => {
                match icmp_code(self.kind, w).map_or_else(|| u8::from_arg(w, &args.scope()), Ok) {
                    Ok(c) => c,
                    Err(_) => {
                        args.error(format!(
                        "CODE: expected a number from 0 to 255 or a name of ICMP type {}, found '{w}'",
                        self.kind
                    ));
                        0
                    }
                }
            }
        };
        self.identifier = args.keyword("IDENTIFIER").unwrap_or(0);
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("ICMPIPEncap: numbers packets in their order")
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.push(IP + self.header());
        // as in Click, a packet longer than IP can say gets the lower 16 bits of its length
        let len = p.len() as u16;
        let mut ip = [0; IP];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        ip[4..6].copy_from_slice(&self.number.to_be_bytes());
        ip[8] = TIME_TO_LIVE;
        ip[9] = proto::ICMP;
        ip[12..16].copy_from_slice(&self.src.octets());
        ip[16..20].copy_from_slice(&self.dst.octets());
        let sum = checksum::internet(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut icmp = [0; 20];
        icmp[..2].copy_from_slice(&[self.kind, self.code]);
        if self.sequenced() {
            icmp[4..6].copy_from_slice(&self.identifier.to_be_bytes());
            icmp[6..8].copy_from_slice(&self.number.to_be_bytes());
        }
        let header = self.header();
        if let Some((a, b)) = p.data_mut().split_at_mut_checked(IP) {
            a.copy_from_slice(&ip);
            if let Some(h) = b.get_mut(..header) {
                h.copy_from_slice(&icmp[..header]);
            }
            let sum = checksum::internet(b);
            if let Some(field) = b.get_mut(2..4) {
                field.copy_from_slice(&sum.to_be_bytes());
            }
        }
        p.anno.set_dst_ip(self.dst.octets());
        p.set_network_header(0, IP);
        self.number = self.number.checked_add(1).unwrap_or(1);
        cx.emit(0, p);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("src"), HandlerInfo::rw("dst")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "src" => Ok(self.src.to_string()),
            "dst" => Ok(self.dst.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "src" => self.src = cx.value(name, value)?,
            "dst" => self.dst = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::checksum;

    fn bench(config: &str) -> Bench {
        Bench::new("ICMPIPEncap", config, 1, 1).unwrap()
    }

    #[test]
    fn an_echo_request() {
        let mut b = bench("10.0.0.1, 10.0.0.2, echo, IDENTIFIER 258");
        let out = b.push(0, b"hi!");
        let p = &out[0].1;
        // the sums worked out by hand
        assert_eq!(
            p.data(),
            [
                0x45, 0, 0, 31, 0, 1, 0, 0, 255, 1, 0xa7, 0xda, 10, 0, 0, 1, 10, 0, 0, 2, //
                8, 0, 0x6d, 0x93, 1, 2, 0, 1, b'h', b'i', b'!'
            ]
        );
        assert_eq!(p.anno.dst_ip(), [10, 0, 0, 2]);
        assert_eq!(p.network_header_offset(), Some(0));
        assert_eq!(p.transport_header_offset(), Some(20));
        // counts on, and leaves out 0
        let numbers = (2..=65_537u32).map(|_| {
            let out = b.push(0, b"");
            let d = out[0].1.data();
            assert_eq!(d[4..6], d[26..28]);
            assert_eq!(checksum::internet(&d[20..]), 0);
            u16::from_be_bytes([d[4], d[5]])
        });
        let numbers: Vec<u16> = numbers.collect();
        assert_eq!(numbers[..2], [2, 3]);
        assert_eq!(numbers[65_532..], [65_534, 65_535, 1, 2]);
    }

    #[test]
    fn other_types() {
        let mut b = bench("1.0.0.1, 1.0.0.2, unreachable, needfrag, IDENTIFIER 9");
        let out = b.push(0, &[]);
        assert_eq!(out[0].1.data()[20..], [3, 4, 0xfc, 0xfb, 0, 0, 0, 0]);
        let mut b = bench("1.0.0.1, 1.0.0.2, 13");
        let out = b.push(0, b"x");
        let d = out[0].1.data();
        assert_eq!((d.len(), d[20], d[27]), (41, 13, 1));
        assert!(d[28..40].iter().all(|b| *b == 0));
    }

    #[test]
    fn handlers_and_errors() {
        let mut b = bench("1.0.0.1, 1.0.0.2, 8, 0");
        b.write("dst", "1.2.3.4").unwrap();
        assert_eq!(b.read("dst").unwrap(), "1.2.3.4");
        assert_eq!(b.push(0, &[])[0].1.data()[16..20], [1, 2, 3, 4]);
        assert!(b.write("src", "x").is_err());
        let e = Bench::new("ICMPIPEncap", "1.0.0.1, 1.0.0.2, echo, needfrag", 1, 1)
            .err()
            .unwrap();
        assert_eq!(
            e,
            ["CODE: expected a number from 0 to 255 or a name of ICMP type 8, found 'needfrag'"]
        );
        assert!(Bench::new("ICMPIPEncap", "1.0.0.1, 1.0.0.2, 256", 1, 1).is_err());
    }
}
