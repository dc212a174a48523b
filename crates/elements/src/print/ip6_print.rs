//! IP6Print: IPv6 headers.
//!
//! Needs the network header annotation with a whole IPv6 header behind it; other packets pass without a line (Click
//! reads past their end). FastClick's ACTIVE is taken.

use super::line::{ACTIVE, Output, hex, read_active, write_active};
use super::printer;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::unparse::ip6;
use onefold_element::{ConfigCx, ConfigErrors, Cx, Element, ElementClass, Port, element_any};
use onefold_packet::{Packet, Pkt};
use std::fmt::Write as _;

/// `IP6Print`.
pub const IP6_PRINT: ElementClass = printer(
    "IP6Print",
    "[LABEL, keywords CONTENTS, NBYTES, ACTIVE]",
    "prints IPv6 headers",
    || {
        Box::new(Ip6Print {
            label: String::new(),
            contents: false,
            max: 1500,
            active: true,
            out: Output::default(),
        })
    },
);

#[derive(Debug, Clone)]
struct Ip6Print {
    label: String,
    contents: bool,
    max: u32,
    active: bool,
    out: Output,
}

impl Ip6Print {
    fn text(&self, p: &Packet) -> Option<String> {
        let h = p.network()?.first_chunk::<40>()?;
        let mut s = String::new();
        if !self.label.is_empty() {
            let _ = write!(s, "{}: ", self.label);
        }
        let (src, dst) = (h[8..].first_chunk()?, h[24..].first_chunk()?);
        let plen = u16::from_be_bytes([h[4], h[5]]);
        let _ = writeln!(
            s,
            "{} -> {} plen {plen}, next {}, hlim {}",
            ip6(src),
            ip6(dst),
            h[6],
            h[7]
        );
        if self.contents {
            s.push_str("  ");
            for (i, b) in p.data().iter().take(self.max as usize).enumerate() {
                hex(&mut s, *b);
                if i % 24 == 23 {
                    s.push_str("\n  ");
                } else if i % 4 == 3 {
                    s.push(' ');
                }
            }
        }
        Some(s)
    }
}

impl Element for Ip6Print {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.label = args.optional("LABEL").unwrap_or_default();
        self.contents = args.keyword("CONTENTS").unwrap_or(false);
        self.max = args.keyword("NBYTES").unwrap_or(1500);
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.active {
            true => Model::ask("IP6Print: prints in the order of arrival"),
            false => Model::pass([]),
        }
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if self.active
            && let Some(text) = self.text(&p)
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

    #[test]
    fn texts() {
        let mut d = vec![0x60, 0, 0, 0, 1, 2, 17, 64];
        d.extend(
            "2001:db8::1"
                .parse::<std::net::Ipv6Addr>()
                .unwrap()
                .octets(),
        );
        d.extend([0; 15]);
        d.push(9);
        let mut p = Packet::from_slice(&d);
        p.set_network_header(0, 40);
        let mut b = Bench::new("IP6Print", "x", 1, 1).unwrap();
        b.push_packet(0, Box::new(p.clone()));
        assert_eq!(
            b.host.log,
            "x: 2001:db8::1 -> ::0.0.0.9 plen 258, next 17, hlim 64\n"
        );
        let mut b = Bench::new("IP6Print", "CONTENTS true, NBYTES 26", 1, 1).unwrap();
        b.push_packet(0, Box::new(p.clone()));
        assert!(b.host.log.ends_with(
            "hlim 64\n  60000000 01021140 20010db8 00000000 00000000 00000001\n  0000\n"
        ));
        b.host.log.clear();
        p.take(1);
        assert_eq!(b.push_packet(0, Box::new(p)).len(), 1);
        assert_eq!(b.push(0, &d).len(), 1);
        assert_eq!(b.host.log, "");
        assert!(Bench::new("IP6Print", "NBYTES x", 1, 1).is_err());
    }
}
