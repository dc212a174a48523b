//! ARPPrint: ARP packets in the style of tcpdump.
//!
//! Needs the network header annotation. As in Click nothing is printed for packets that are not about IPv4 addresses.
//! Fields behind the end of the packet read as zero.

use super::ip_print::ether;
use super::line::{ACTIVE, Output, read_active, write_active};
use super::printer;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Element, ElementClass, InitCx, Port, element_any,
};
use onefold_packet::{EtherAddr, Packet, Pkt};
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// `ARPPrint`.
pub const ARP_PRINT: ElementClass = printer(
    "ARPPrint",
    "[LABEL, keywords TIMESTAMP, ETHER, ACTIVE, OUTFILE]",
    "prints ARP packets in the style of tcpdump",
    || Box::new(ArpPrint::default()),
);

#[derive(Debug, Clone, Default)]
struct ArpPrint {
    label: String,
    timestamp: bool,
    ether: bool,
    active: bool,
    out: Output,
}

/// Appends what the ARP packet says; `None` if that is nothing to print.
fn arp(s: &mut String, a: &[u8]) -> Option<()> {
    let Some(h) = a.first_chunk::<8>() else {
        let _ = write!(s, "truncated-arp ({})", a.len());
        return Some(());
    };
    let be = |i: usize| u16::from_be_bytes([h[i], h[i + 1]]);
    let (hrd, pro, op) = (be(0), be(2), be(6));
    const TRAILER: u16 = 0x1000;
    if (pro != 0x0800 && pro != TRAILER) || h[5] != 4 || h[4] == 0 {
        return None;
    }
    let mut body = [0u8; 28];
    let n = a.len().min(28);
    body[..n].copy_from_slice(&a[..n]);
    let ether = |i: usize| EtherAddr::from_slice(&body[i..]).unwrap_or_default();
    let ip = |i: usize| Ipv4Addr::new(body[i], body[i + 1], body[i + 2], body[i + 3]);
    let (sha, spa, tha, tpa) = (ether(8), ip(14), ether(18), ip(24));
    if pro == TRAILER {
        s.push_str("trailer-");
    }
    let _ = match op {
        1 => {
            let _ = write!(s, "arp who-has {tpa}");
            if tha != EtherAddr::default() {
                let _ = write!(s, " ({tha})");
            }
            write!(s, " tell {spa}")
        }
        2 => write!(s, "arp reply {spa} is-at {sha}"),
        3 => write!(s, "rarp who-is {tha} tell {sha}"),
        4 => write!(s, "rarp reply {tha} at {tpa}"),
        8 => write!(s, "invarp who-is {tha} tell {sha}"),
        9 => write!(s, "invarp reply {tha} at {tpa}"),
        _ => write!(s, "arp-#{op}"),
    };
    if hrd != 1 {
        let _ = write!(s, "hardware #{hrd}");
    }
    Some(())
}

impl ArpPrint {
    fn text(&self, p: &mut Packet) -> Option<String> {
        let mut s = String::new();
        if !self.label.is_empty() {
            let _ = write!(s, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(s, "{}: ", p.anno.timestamp);
        }
        if self.ether {
            if p.mac_header_offset().is_some() {
                ether(&mut s, p);
            } else {
                // the Ethernet header is taken to be at the start of the data
                p.set_mac_header(0);
                ether(&mut s, p);
                p.clear_mac_header();
            }
        }
        arp(&mut s, p.network().unwrap_or(&[]))?;
        Some(s)
    }
}

impl Element for ArpPrint {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.label = args.optional("LABEL").unwrap_or_default();
        self.timestamp = args.keyword("TIMESTAMP").unwrap_or(true);
        self.ether = args.keyword("ETHER").unwrap_or(false);
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        self.out.configure(args);
        args.finish()
    }
    fn initialize(&mut self, _: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.out.open()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.active {
            true => Model::ask("ARPPrint: prints in the order of arrival"),
            false => Model::pass([]),
        }
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if self.active
            && p.network_header_offset().is_some()
            && let Some(text) = self.text(&mut p)
        {
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
    use onefold_packet::Packet;

    fn request() -> Vec<u8> {
        let mut d = vec![0, 1, 8, 0, 6, 4, 0, 1];
        d.extend([1, 1, 1, 1, 1, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        d
    }
    fn printed(config: &str, d: &[u8]) -> String {
        let mut b = Bench::new("ARPPrint", config, 1, 1).unwrap();
        let mut p = Packet::from_slice(d);
        p.set_network_header(0, 28);
        assert_eq!(b.push_packet(0, Box::new(p)).len(), 1);
        b.host.log
    }

    #[test]
    fn texts() {
        let mut d = request();
        assert_eq!(
            printed("", &d),
            "0.000000: arp who-has 10.0.0.2 tell 10.0.0.1\n"
        );
        d[18] = 2;
        let l = |d: &[u8]| printed("TIMESTAMP false", d);
        assert_eq!(
            l(&d),
            "arp who-has 10.0.0.2 (02-00-00-00-00-00) tell 10.0.0.1\n"
        );
        for (op, want) in [
            (2, "arp reply 10.0.0.1 is-at 01-01-01-01-01-01\n"),
            (3, "rarp who-is 02-00-00-00-00-00 tell 01-01-01-01-01-01\n"),
            (4, "rarp reply 02-00-00-00-00-00 at 10.0.0.2\n"),
            (
                8,
                "invarp who-is 02-00-00-00-00-00 tell 01-01-01-01-01-01\n",
            ),
            (9, "invarp reply 02-00-00-00-00-00 at 10.0.0.2\n"),
            (7, "arp-#7\n"),
        ] {
            d[7] = op;
            assert_eq!(l(&d), want);
        }
        d[1] = 6;
        assert_eq!(l(&d), "arp-#7hardware #6\n");
        assert_eq!(l(&d[..7]), "truncated-arp (7)\n");
        d[2] = 0x86;
        assert_eq!(l(&d), "");
        assert_eq!(printed("ACTIVE false", &request()), "");
    }

    #[test]
    fn ethernet_addresses() {
        let mut d = vec![9u8; 6];
        d.extend([8; 6]);
        d.extend([8, 6]);
        d.extend(request());
        let mut p = Packet::from_slice(&d);
        p.set_network_header(14, 28);
        let mut b = Bench::new("ARPPrint", "a, ETHER true, TIMESTAMP false", 1, 1).unwrap();
        b.push_packet(0, Box::new(p));
        assert_eq!(
            b.host.log,
            "a: 08-08-08-08-08-08 > 09-09-09-09-09-09: arp who-has 10.0.0.2 tell 10.0.0.1\n"
        );
        assert!(Bench::new("ARPPrint", "ETHER x", 1, 1).is_err());
        assert!(b.push(0, b"no annotation").len() == 1);
    }
}
