//! IPPrint: IPv4 packets in the style of tcpdump.
//!
//! FastClick's ETHER and VLAN are taken. Fields behind the end of a packet read as zero where Click reads what stands
//! there.

use super::ip_line::{Line, dump};
use super::line::{ACTIVE, Contents, Output, limited, read_active, write_active};
use super::printer;
use onefold_element::args::{ArgScope, Args, FromArg};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Element, ElementClass, InitCx, Port, element_any,
};
use onefold_packet::wire::ipv4::{Header, proto};
use onefold_packet::{EtherAddr, Packet, Pkt, anno_field};
use std::fmt::Write as _;

/// `IPPrint`.
pub const IP_PRINT: ElementClass = printer(
    "IPPrint",
    "[LABEL, keywords CONTENTS, PAYLOAD, MAXLENGTH, ID, TIMESTAMP, PAINT, TOS, TTL, SWAP, LENGTH, AGGREGATE, ETHER, VLAN, \
     ACTIVE, OUTFILE, CHANNEL]",
    "prints IPv4 packets in the style of tcpdump",
    || Box::new(IpPrint::default()),
);

#[derive(Debug, Clone, Default)]
struct IpPrint {
    label: String,
    contents: Contents,
    /// Print the payload only, not the whole packet.
    payload: bool,
    max: i32,
    id: bool,
    timestamp: bool,
    paint: bool,
    tos: bool,
    ttl: bool,
    swap: bool,
    length: bool,
    aggregate: bool,
    ether: bool,
    vlan: bool,
    active: bool,
    out: Output,
}

/// PAYLOAD's values: as CONTENTS, but not all spellings of a boolean.
struct PayloadArg(Contents);

impl FromArg for PayloadArg {
    const WANTS: &'static str = "false, hex or ascii";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        Ok(PayloadArg(match s.to_ascii_uppercase().as_str() {
            "NO" | "FALSE" => Contents::None,
            "YES" | "TRUE" | "HEX" => Contents::Hex,
            "ASCII" => Contents::Ascii,
            _ => return Err(None),
        }))
    }
}

impl IpPrint {
    fn text(&self, p: &Packet) -> String {
        let mut s = String::new();
        if !self.label.is_empty() {
            let _ = write!(s, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(s, "{}: ", p.anno.timestamp);
        }
        if self.aggregate {
            let _ = write!(s, "#{}", p.anno.u32(anno_field::AGGREGATE.offset.into()));
        }
        if self.vlan {
            // FastClick prints it without regard to byte order
            let tci = p.anno.vlan_tci().to_be_bytes();
            let _ = write!(s, " VLAN:{}", u16::from_ne_bytes(tci));
        }
        if self.paint {
            let lead = if self.aggregate { "." } else { "paint " };
            let _ = write!(s, "{lead}{}", p.anno.paint());
        }
        if self.aggregate || self.paint {
            s.push_str(": ");
        }
        if self.ether {
            ether(&mut s, p);
        }
        let Some(h) = p.network().and_then(Header::parse) else {
            s.push_str("truncated-ip");
            return s;
        };
        let have = match p.transport_header_offset() {
            Some(o) => p.len() as i64 - o as i64,
            None => -1,
        };
        let claimed = i64::from(h.total_len()) - h.header_len() as i64;
        let mut line = Line {
            h,
            t: p.transport().unwrap_or(&[]),
            len: have.min(claimed),
            packet_len: p.len(),
            s,
        };
        self.fields(&mut line);
        match h.protocol() {
            proto::TCP => line.tcp(),
            proto::UDP => line.udp(),
            proto::ICMP => line.icmp(self.swap),
            other => {
                line.addresses();
                let _ = write!(line.s, ": ip-proto-{other}");
            }
        }
        if h.is_fragment() {
            line.fragment();
        }
        let data = if self.payload {
            line.t.get(line.payload_start()..).unwrap_or(&[])
        } else {
            p.data()
        };
        dump(&mut line.s, limited(data, self.max), self.contents);
        line.s
    }

    fn fields(&self, l: &mut Line<'_>) {
        let s = &mut l.s;
        if self.id {
            let _ = write!(s, "id {} ", l.h.id());
        }
        if self.ttl {
            let _ = write!(s, "ttl {} ", l.h.ttl());
        }
        if self.tos {
            let _ = write!(s, "tos {} ", l.h.tos());
        }
        if self.length {
            let _ = write!(s, "length {} ", l.h.total_len());
        }
    }
}

/// Appends the Ethernet addresses if there is an Ethernet header before the network header.
pub fn ether(s: &mut String, p: &Packet) {
    let before_network = match (p.mac_header_offset(), p.network_header_offset()) {
        (Some(m), Some(n)) => m + 14 <= n,
        _ => false,
    };
    if let Some(h) = p.mac().and_then(|m| m.first_chunk::<14>())
        && before_network
        && let (Some(dst), Some(src)) = (EtherAddr::from_slice(h), EtherAddr::from_slice(&h[6..]))
    {
        let _ = write!(s, "{src} > {dst}: ");
    }
}

impl Element for IpPrint {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.label = args.optional("LABEL").unwrap_or_default();
        self.contents = args.keyword("CONTENTS").unwrap_or_default();
        let payload = args
            .keyword("PAYLOAD")
            .map_or(Contents::None, |PayloadArg(c)| c);
        let max = args.keyword("MAXLENGTH");
        self.max = args.keyword("NBYTES").or(max).unwrap_or(1500);
        let mut flag = |name: &str, default: bool| args.keyword(name).unwrap_or(default);
        self.id = flag("ID", false);
        self.timestamp = flag("TIMESTAMP", true);
        self.paint = flag("PAINT", false);
        self.tos = flag("TOS", false);
        self.ttl = flag("TTL", false);
        self.swap = flag("SWAP", true);
        self.length = flag("LENGTH", false);
        self.aggregate = flag("AGGREGATE", false);
        self.ether = flag("ETHER", false);
        self.vlan = flag("VLAN", false);
        self.active = flag("ACTIVE", true);
        self.out.configure(args);
        self.out.configure_channel(args);
        if payload != Contents::None {
            if self.contents != Contents::None {
                args.error("specify at most one of PAYLOAD and CONTENTS");
            }
            (self.contents, self.payload) = (payload, true);
        }
        args.finish()
    }
    fn initialize(&mut self, _: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.out.open()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.active {
            true => Model::ask("IPPrint: prints in the order of arrival"),
            false => Model::pass([]),
        }
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if self.active && p.network_header_offset().is_some() {
            let text = self.text(&p);
            self.out.line(text, cx);
        }
        cx.emit(0, p);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        ACTIVE
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        read_active(self.active, name)
    }
    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        write_active(&mut self.active, name, value)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    /// An IP packet 1.0.0.1 -> 2.0.0.2.
    fn packet(protocol: u8, payload: &[u8]) -> Packet {
        let mut d = vec![
            0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2,
        ];
        d[3] = (20 + payload.len()) as u8;
        d.extend(payload);
        let mut p = Packet::from_slice(&d);
        p.set_network_header(0, 20);
        p.anno.timestamp = Timestamp::from_millis(1500);
        p
    }
    fn printed(config: &str, p: &Packet) -> String {
        let mut b = Bench::new("IPPrint", config, 1, 1).unwrap();
        assert_eq!(b.push_packet(0, Box::new(p.clone())).len(), 1);
        b.host.log
    }
    /// What is printed between time stamp and newline.
    fn line(p: &Packet) -> String {
        let s = printed("", p);
        s.strip_prefix("1.500000: ")
            .unwrap()
            .trim_end_matches('\n')
            .to_string()
    }

    #[test]
    fn tcp() {
        let mut t = vec![
            0, 80, 4, 0, 0, 0, 0, 100, 0, 0, 0, 200, 0x50, 0x12, 1, 0, 0, 0, 0, 0,
        ];
        t.extend(b"hello");
        let p = packet(6, &t);
        assert_eq!(
            line(&p),
            "1.0.0.1.80 > 2.0.0.2.1024: S 100:106(6,45,45) ack 200 win 256"
        );
        t[13] = 0x20;
        let p = packet(6, &t);
        assert_eq!(
            line(&p),
            "1.0.0.1.80 > 2.0.0.2.1024: . 100:105(5,45,45) win 256"
        );
        t[13] = 0x0d;
        assert_eq!(
            line(&packet(6, &t)),
            "1.0.0.1.80 > 2.0.0.2.1024: FRP 100:106(6,45,45) win 256"
        );
        assert_eq!(
            line(&packet(6, &t[..3])),
            "1.0.0.1 > 2.0.0.2: truncated-tcp"
        );
        assert_eq!(
            line(&packet(6, &t[..13])),
            "1.0.0.1.80 > 2.0.0.2.1024: truncated-tcp"
        );
        assert_eq!(
            line(&packet(6, &t[..15])),
            "1.0.0.1.80 > 2.0.0.2.1024: FRP 100:96(-4,35,35)truncated-tcp"
        );
        let mut p = packet(6, &t);
        p.data_mut()[7] = 2;
        assert_eq!(line(&p), "1.0.0.1 > 2.0.0.2: tcp (frag 4660:25@16)");
        p.data_mut()[6] = 0x20;
        p.data_mut()[7] = 0;
        assert!(line(&p).ends_with(" win 256 (frag 4660:25@0+)"));
    }

    #[test]
    fn udp_other_and_truncated() {
        let p = packet(17, &[0, 53, 0, 54, 0, 9, 0, 0, 1]);
        assert_eq!(line(&p), "1.0.0.1.53 > 2.0.0.2.54: udp 9");
        assert_eq!(
            line(&packet(17, &[0, 53, 0, 54, 0])),
            "1.0.0.1.53 > 2.0.0.2.54: truncated-udp"
        );
        assert_eq!(line(&packet(17, &[0])), "1.0.0.1 > 2.0.0.2: truncated-udp");
        assert_eq!(line(&packet(89, &[0])), "1.0.0.1 > 2.0.0.2: ip-proto-89");
        let mut p = packet(17, &[]);
        p.take(1);
        assert_eq!(line(&p), "truncated-ip");
        // no IP header annotation: nothing
        assert_eq!(printed("", &Packet::from_slice(&[0x45; 40])), "");
    }

    #[test]
    fn icmp() {
        let l = |m: &[u8]| line(&packet(1, m)).split_off("1.0.0.1 > 2.0.0.2: ".len());
        assert_eq!(l(&[8, 0, 0, 0, 1, 2, 3, 4]), "icmp echo (258, 772)");
        assert_eq!(l(&[0, 0, 0, 0, 1, 2, 3]), "icmp echo-reply truncated-icmp");
        assert_eq!(l(&[8]), "truncated-icmp");
        assert_eq!(l(&[5, 1, 0, 0]), "icmp redirect host");
        assert_eq!(l(&[5, 9, 0, 0]), "icmp redirect code 9");
        assert_eq!(l(&[99, 0]), "icmp type 99");
        assert_eq!(l(&[10, 0]), "icmp routersolicit");
        assert_eq!(l(&[11, 0]), "icmp timeexceeded transit");
        assert!(
            printed("SWAP false", &packet(1, &[8, 0, 0, 0, 1, 2, 3, 4])).contains("(513, 1027)")
        );
        let mut m = vec![3u8, 3, 0, 0, 0, 0, 5, 220];
        m.extend(&packet(17, &[0, 1, 0, 2]).data()[..24]);
        assert_eq!(l(&m), "icmp 2.0.0.2 unreachable port udp/2");
        assert_eq!(
            l(&m[..31]),
            "icmp 2.0.0.2 unreachable port udptruncated-icmp"
        );
        assert_eq!(l(&m[..27]), "icmp unreachable port truncated-icmp");
        m[1] = 4;
        assert_eq!(l(&m), "icmp 2.0.0.2 unreachable needfrag (mtu 1500)");
        m[1] = 2;
        m[17] = 200;
        assert_eq!(l(&m), "icmp 2.0.0.2 unreachable protocol 200");
        m[1] = 3;
        assert_eq!(l(&m), "icmp 2.0.0.2 unreachable port protocol 200/2");
        m[1] = 77;
        assert_eq!(l(&m), "icmp 2.0.0.2 unreachable code 77");
    }

    #[test]
    fn options() {
        let mut p = packet(17, &[0, 53, 0, 54, 0, 12, 0, 0, b'h', b'i', 1, 2]);
        p.anno.set_paint(7);
        p.anno.set_u32(20, 99);
        assert_eq!(
            printed(
                "x, TIMESTAMP false, ID 1, TTL 1, TOS 1, LENGTH 1, PAINT 1",
                &p
            ),
            "x: paint 7: id 4660 ttl 64 tos 0 length 32 1.0.0.1.53 > 2.0.0.2.54: udp 12\n"
        );
        assert!(
            printed("AGGREGATE true, PAINT true, TIMESTAMP 0", &p).starts_with("#99.7: 1.0.0.1")
        );
        assert!(printed("PAYLOAD ascii", &p).ends_with("udp 12\n  hi..\n"));
        assert!(printed("PAYLOAD hex, MAXLENGTH 3", &p).ends_with("udp 12\n  686901\n"));
        assert!(printed("CONTENTS hex, NBYTES -1", &p).ends_with(
            "\n  45000020 12340000 40110000 01000001 02000002 00350036\n  000c0000 68690102\n"
        ));
        let mut p = Packet::from_slice(&[[9u8; 14].as_slice(), p.data()].concat());
        p.set_mac_header(0);
        p.set_network_header(14, 20);
        assert!(
            printed("ETHER 1, TIMESTAMP 0", &p)
                .starts_with("09-09-09-09-09-09 > 09-09-09-09-09-09: 1.0.0.1")
        );
        assert_eq!(printed("CHANNEL other", &p), "");
        assert!(!printed("CHANNEL default", &p).is_empty());
        assert_eq!(printed("ACTIVE false", &p), "");
    }

    #[test]
    fn outfile() {
        let path = std::env::temp_dir().join(format!("onefold-ipprint-{}", std::process::id()));
        let config = format!("TIMESTAMP false, OUTFILE \"{}\"", path.display());
        assert_eq!(printed(&config, &packet(89, &[0])), "");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "1.0.0.1 > 2.0.0.2: ip-proto-89\n");
        let e = Bench::new("IPPrint", "OUTFILE /nonexistent/x", 1, 1)
            .err()
            .unwrap();
        assert!(e[0].starts_with("OUTFILE: /nonexistent/x"), "{e:?}");
    }

    #[test]
    fn argument_errors() {
        for (bad, text) in [
            (
                "PAYLOAD bogus",
                "PAYLOAD: expected false, hex or ascii, found 'bogus'",
            ),
            (
                "CONTENTS bogus",
                "CONTENTS: expected NONE, HEX or ASCII, found 'bogus'",
            ),
            (
                "PAYLOAD hex, CONTENTS ascii",
                "specify at most one of PAYLOAD and CONTENTS",
            ),
        ] {
            assert_eq!(Bench::new("IPPrint", bad, 1, 1).err().unwrap(), [text]);
        }
    }
}
