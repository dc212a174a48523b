//! IPEncap and UDPIPEncap: put IP (and UDP) headers in front of packets.
//!
//! Both number their packets from 0 in the identification field. Lengths beyond 65,535 wrap as in Click.
//!
//! Different from Click: DSCP 63 is accepted, as documented (Click's bound is off by one); UDPIPEncap's CHECKSUM
//! defaults to true, as documented (Click reads a variable that was never set).

use super::one_to_one;
use onefold_element::args::{ArgScope, Args, FromArg, IpPort, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{Packet, Pkt, checksum, wire::ipv4};
use std::net::Ipv4Addr;

/// Where encapsulated packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Fixed([u8; 4]),
    /// The packet's destination annotation.
    Anno,
}

impl FromArg for Destination {
    const WANTS: &'static str = "an IPv4 address or DST_ANNO";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if s == "DST_ANNO" {
            return Ok(Destination::Anno);
        }
        Ipv4Addr::from_arg(s, scope).map(|a| Destination::Fixed(a.octets()))
    }
}

impl Destination {
    /// The address for this packet, whose annotation is set to it.
    #[inline]
    fn of(self, p: &mut Packet) -> [u8; 4] {
        match self {
            Destination::Anno => p.anno.dst_ip(),
            Destination::Fixed(a) => {
                p.anno.set_dst_ip(a);
                a
            }
        }
    }
}

/// An IP protocol, by number or name.
#[derive(Debug, Clone, Copy)]
struct Protocol(u8);

impl FromArg for Protocol {
    const WANTS: &'static str = "an IP protocol (a number from 0 to 255 or a name)";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Some(p) = scope.names.ip_protocol(s) {
            return Ok(Protocol(p));
        }
        u8::from_arg(s, scope).map(Protocol)
    }
}

/// The parts of an IP header that do not change from packet to packet.
#[derive(Debug, Clone)]
struct Template {
    protocol: u8,
    src: [u8; 4],
    dst: Destination,
    tos: u8,
    ttl: u8,
    dont_fragment: bool,
    /// Identification of the next packet.
    id: u16,
}

impl Default for Template {
    fn default() -> Self {
        Template {
            protocol: 0,
            src: [0; 4],
            dst: Destination::Fixed([0; 4]),
            tos: 0,
            ttl: 250,
            dont_fragment: false,
            id: 0,
        }
    }
}

impl Template {
    /// Writes the header into the first 20 bytes of the packet and marks it.
    #[inline]
    fn write(&mut self, p: &mut Packet) {
        let dst = self.dst.of(p);
        let len = p.len() as u16;
        if let Some(mut h) = ipv4::Header::parse(p.data_mut()) {
            h.set_version_header_len(20);
            h.set_tos(self.tos);
            h.set_total_len(len);
            h.set_id(self.id);
            h.set_frag_word(if self.dont_fragment { ipv4::DF } else { 0 });
            h.set_ttl(self.ttl);
            h.set_protocol(self.protocol);
            h.set_src(self.src);
            h.set_dst(dst);
            h.fill_checksum();
        }
        self.id = self.id.wrapping_add(1);
        p.set_network_header(0, 20);
    }
}

/// `IPEncap`.
pub const IP_ENCAP: ElementClass = one_to_one(
    "IPEncap",
    Effect::OrderSensitive,
    "PROTO, SRC, DST (or DST_ANNO) [, keywords TTL, DSCP, ECT, CE, TOS, DF]",
    "puts an IP header in front of packets",
    || Box::new(IpEncap::default()),
);

#[derive(Debug, Clone, Default)]
struct IpEncap {
    header: Template,
}

/// The TOS byte that TOS or DSCP, ECT and CE ask for.
fn read_tos(args: &mut Args<'_>) -> u8 {
    let tos: Option<u8> = args.keyword("TOS");
    let dscp: Option<super::arg::Bounded<0, 63>> = args.keyword("DSCP");
    let ect: Option<Word> = args.keyword("ECT");
    let ce: bool = args.keyword("CE").unwrap_or(false);
    let ect = match ect {
        None => 0,
        Some(Word(w)) if w == "2" => 2,
        Some(Word(w)) => match bool::from_arg(&w, &args.scope()) {
            Ok(b) => u8::from(b),
            Err(_) => {
                args.error(format!("ECT: expected a boolean or 2, found '{w}'"));
                0
            }
        },
    };
    if tos.is_some() && dscp.is_some() {
        args.error("cannot set both TOS and DSCP");
    } else if tos.is_some() && (ect != 0 || ce) {
        args.error("cannot set both TOS and ECN bits");
    } else if ect != 0 && ce {
        args.error("can set at most one ECN option");
    }
    tos.unwrap_or(dscp.map_or(0, |d| (d.0 as u8) << 2)) | ect | if ce { 3 } else { 0 }
}

impl Element for IpEncap {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let h = &mut self.header;
        h.protocol = args.mandatory("PROTO").map_or(0, |p: Protocol| p.0);
        h.src = args
            .mandatory("SRC")
            .map_or([0; 4], |a: Ipv4Addr| a.octets());
        h.dst = args.mandatory("DST").unwrap_or(Destination::Anno);
        h.ttl = args.keyword("TTL").unwrap_or(250);
        h.tos = read_tos(args);
        h.dont_fragment = args.keyword("DF").unwrap_or(false);
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("IPEncap: numbers packets in their order")
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.push(20);
        self.header.write(&mut p);
        cx.emit(0, p);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("src").sets(1, "SRC"),
            HandlerInfo::rw("dst").sets(2, "DST"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match (name, self.header.dst) {
            ("src", _) => Ok(Ipv4Addr::from(self.header.src).to_string()),
            ("dst", Destination::Anno) => Ok("DST_ANNO".to_string()),
            ("dst", Destination::Fixed(a)) => Ok(Ipv4Addr::from(a).to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "src" => self.header.src = cx.value::<Ipv4Addr>(name, value)?.octets(),
            "dst" => self.header.dst = cx.value(name, value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

/// `UDPIPEncap`.
pub const UDP_IP_ENCAP: ElementClass = one_to_one(
    "UDPIPEncap",
    Effect::OrderSensitive,
    "SRC, SPORT, DST (or DST_ANNO), DPORT [, CHECKSUM]",
    "puts IP and UDP headers in front of packets",
    || Box::new(UdpIpEncap::default()),
);

#[derive(Debug, Clone, Default)]
struct UdpIpEncap {
    header: Template,
    sport: u16,
    dport: u16,
    checksum: bool,
}

impl Element for UdpIpEncap {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.header.protocol = ipv4::proto::UDP;
        let src: Option<Ipv4Addr> = args.mandatory("SRC");
        self.header.src = src.map_or([0; 4], |a| a.octets());
        self.sport = args.mandatory("SPORT").map_or(0, |p: IpPort| p.0);
        self.header.dst = args.mandatory("DST").unwrap_or(Destination::Anno);
        self.dport = args.mandatory("DPORT").map_or(0, |p: IpPort| p.0);
        self.checksum = args.optional("CHECKSUM").unwrap_or(true);
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("UDPIPEncap: numbers packets in their order")
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.push(28);
        self.header.write(&mut p);
        let (src, dst) = match ipv4::Header::parse(p.data()) {
            Some(h) => (h.src(), h.dst()),
            None => return cx.drop(p, "UDPIPEncap: packet too long"),
        };
        let len = (p.len() - 20) as u16;
        let datagram = &mut p.data_mut()[20..];
        if let Some(u) = datagram.first_chunk_mut::<8>() {
            u[..2].copy_from_slice(&self.sport.to_be_bytes());
            u[2..4].copy_from_slice(&self.dport.to_be_bytes());
            u[4..6].copy_from_slice(&len.to_be_bytes());
            u[6..].fill(0);
        }
        if self.checksum {
            let start = checksum::pseudo_v4(src, dst, ipv4::proto::UDP, len);
            let summed = datagram.get(..usize::from(len)).unwrap_or(&[]);
            let c = !checksum::fold(checksum::sum(summed, start));
            if let Some(field) = datagram.get_mut(6..8) {
                field.copy_from_slice(&c.to_be_bytes());
            }
        }
        cx.emit(0, p);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("src").sets(0, "SRC"),
            HandlerInfo::rw("sport").sets(1, "SPORT"),
            HandlerInfo::rw("dst").sets(2, "DST"),
            HandlerInfo::rw("dport").sets(3, "DPORT"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match (name, self.header.dst) {
            ("src", _) => Ok(Ipv4Addr::from(self.header.src).to_string()),
            // as Click: no address, rather than the word, for DST_ANNO
            ("dst", Destination::Anno) => Ok("0.0.0.0".to_string()),
            ("dst", Destination::Fixed(a)) => Ok(Ipv4Addr::from(a).to_string()),
            ("sport", _) => Ok(self.sport.to_string()),
            ("dport", _) => Ok(self.dport.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "src" => self.header.src = cx.value::<Ipv4Addr>(name, value)?.octets(),
            "sport" => self.sport = cx.value::<IpPort>(name, value)?.0,
            "dst" => self.header.dst = cx.value(name, value)?,
            "dport" => self.dport = cx.value::<IpPort>(name, value)?.0,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
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
    use onefold_packet::{Packet, wire::ipv4};

    #[test]
    fn ip_encap_bytes() {
        let mut b = Bench::new("IPEncap", "ipip, 18.26.4.24, 140.247.60.147", 1, 1).unwrap();
        let _ = b.push(0, &[0; 20]);
        let p = b.push(0, &[0; 20]).remove(0).1;
        let h = ipv4::Header::parse(p.data()).unwrap();
        assert!(h.checksum_ok());
        assert_eq!(
            (h.total_len(), h.id(), h.ttl(), h.protocol()),
            (40, 1, 250, 4)
        );
        assert_eq!(h.dst(), [140, 247, 60, 147]);
        assert_eq!(p.anno.dst_ip(), [140, 247, 60, 147]);
        assert_eq!(p.transport_header_offset(), Some(20));
        let mut b = Bench::new(
            "IPEncap",
            "4, 1.1.1.1, DST_ANNO, TTL 3, DSCP 5, ECT 2, DF true",
            1,
            1,
        )
        .unwrap();
        let mut p = Packet::from_slice(&[1; 4]);
        p.anno.set_dst_ip([9, 8, 7, 6]);
        let p = b.push_packet(0, Box::new(p)).remove(0).1;
        let h = ipv4::Header::parse(p.data()).unwrap();
        assert_eq!(
            (h.tos(), h.ttl(), h.frag_word(), h.dst()),
            (0x16, 3, 0x4000, [9, 8, 7, 6])
        );
        assert_eq!(b.read("dst").unwrap(), "DST_ANNO");
        b.write("dst", "2.2.2.2").unwrap();
        b.write("src", "3.3.3.3").unwrap();
        assert_eq!(b.read("dst").unwrap(), "2.2.2.2");
        assert_eq!(b.read("src").unwrap(), "3.3.3.3");
    }

    #[test]
    fn ip_encap_errors() {
        for (bad, what) in [
            ("300, 1.1.1.1, 2.2.2.2", "PROTO"),
            ("nonsense, 1.1.1.1, 2.2.2.2", "PROTO"),
            ("4, 1.1.1.1, x", "DST"),
            (
                "4, 1.1.1.1, 2.2.2.2, TOS 1, DSCP 2",
                "cannot set both TOS and DSCP",
            ),
            (
                "4, 1.1.1.1, 2.2.2.2, TOS 1, CE true",
                "cannot set both TOS and ECN bits",
            ),
            (
                "4, 1.1.1.1, 2.2.2.2, ECT 1, CE true",
                "can set at most one ECN",
            ),
            ("4, 1.1.1.1, 2.2.2.2, DSCP 64", "DSCP"),
            ("4, 1.1.1.1, 2.2.2.2, ECT x", "ECT"),
            ("4, 1.1.1.1, 2.2.2.2, TTL 256", "TTL"),
        ] {
            let e = Bench::new("IPEncap", bad, 1, 1).err().unwrap();
            assert!(e[0].starts_with(what), "{bad}: {e:?}");
        }
    }

    #[test]
    fn udp_ip_encap() {
        let mut b = Bench::new("UDPIPEncap", "1.0.0.1, 1234, 2.0.0.2, domain", 1, 1).unwrap();
        let p = b.push(0, b"abc").remove(0).1;
        assert_eq!(p.len(), 31);
        assert_eq!(p.data()[20..26], [0x04, 0xd2, 0, 53, 0, 11]);
        // 0100+0001+0200+0002 +0011+000b + 04d2+0035+000b + 6162+6300 = 0xccaf... checked by the checker
        let mut check = Bench::new("CheckUDPHeader", "", 1, 1).unwrap();
        assert_ne!(p.data()[26..28], [0, 0]);
        assert_eq!(check.push_packet(0, p).len(), 1);
        let mut b = Bench::new("UDPIPEncap", "1.0.0.1, 1234, DST_ANNO, 53, false", 1, 1).unwrap();
        assert_eq!(b.push(0, b"abc")[0].1.data()[26..28], [0, 0]);
        assert_eq!(b.read("dst").unwrap(), "0.0.0.0");
        b.write("dport", "http").unwrap();
        assert_eq!(b.read("dport").unwrap(), "80");
        assert_eq!(b.read("sport").unwrap(), "1234");
        let e = Bench::new("UDPIPEncap", "1.0.0.1, 70000, 2.0.0.2", 1, 1)
            .err()
            .unwrap();
        assert_eq!(e.len(), 2, "{e:?}");
        assert!(e[0].starts_with("SPORT") && e[1].starts_with("DPORT"));
    }
}
