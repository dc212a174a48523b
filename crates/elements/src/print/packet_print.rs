//! Print: a packet's length and bytes.
//!
//! HEADROOM prints this implementation's head- and tailroom, which are not Click's.

use super::line::{ACTIVE, Contents, Output, ascii, hex, limited, read_active, write_active};
use super::printer;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{ConfigCx, ConfigErrors, Cx, Element, ElementClass, Port, element_any};
use onefold_packet::{Packet, Pkt};
use std::fmt::Write as _;

/// `Print`.
pub const PRINT: ElementClass = printer(
    "Print",
    "[LABEL, MAXLENGTH, keywords CONTENTS, TIMESTAMP, PRINTANNO, HEADROOM, ACTIVE]",
    "prints packets' bytes",
    || {
        Box::new(Print {
            label: String::new(),
            max: 24,
            contents: Contents::Hex,
            timestamp: false,
            anno: false,
            headroom: false,
            active: true,
            out: Output::default(),
        })
    },
);

#[derive(Debug, Clone)]
struct Print {
    label: String,
    /// Most bytes printed; negative: all.
    max: i32,
    contents: Contents,
    timestamp: bool,
    anno: bool,
    headroom: bool,
    active: bool,
    out: Output,
}

impl Print {
    fn text(&self, p: &Packet) -> String {
        let mut s = self.label.clone();
        let mut sep = if s.is_empty() { "" } else { ": " };
        if self.timestamp {
            let _ = write!(s, "{sep}{}", p.anno.timestamp);
            sep = ": ";
        }
        let _ = write!(s, "{sep}{:4}", p.len());
        if self.headroom {
            let _ = write!(s, " (h{} t{})", p.headroom(), p.tailroom());
        }
        if self.anno {
            s.push_str(" | ");
            p.anno.bytes().iter().for_each(|b| hex(&mut s, *b));
        }
        let data = match self.contents {
            Contents::None => &[],
            _ => limited(p.data(), self.max),
        };
        if !data.is_empty() {
            s.push_str(" | ");
            for (i, b) in data.iter().enumerate() {
                if self.contents == Contents::Ascii {
                    if i % 8 == 0 {
                        s.push(' ');
                    }
                    ascii(&mut s, *b);
                } else {
                    if i > 0 && i % 4 == 0 {
                        s.push(' ');
                    }
                    hex(&mut s, *b);
                }
            }
        }
        s
    }
}

impl Element for Print {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.label = args.optional("LABEL").unwrap_or_default();
        let max = args.optional("MAXLENGTH");
        // older names of MAXLENGTH
        let (length, nbytes) = (args.keyword("LENGTH"), args.keyword("NBYTES"));
        self.max = nbytes.or(length).or(max).unwrap_or(24);
        self.contents = args.keyword("CONTENTS").unwrap_or(Contents::Hex);
        self.timestamp = args.keyword("TIMESTAMP").unwrap_or(false);
        self.anno = args.keyword("PRINTANNO").unwrap_or(false);
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        self.headroom = args.keyword("HEADROOM").unwrap_or(false);
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.active {
            true => Model::ask("Print: prints in the order of arrival"),
            false => Model::pass([]),
        }
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if self.active {
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
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn printed(config: &str, data: &[u8]) -> String {
        let mut b = Bench::new("Print", config, 1, 1).unwrap();
        let mut p = Packet::from_slice(data);
        p.anno.timestamp = Timestamp::from_millis(1500);
        p.anno.set_paint(7);
        assert_eq!(b.push_packet(0, Box::new(p)).len(), 1);
        b.host.log
    }

    #[test]
    fn texts() {
        let d: Vec<u8> = (60..90).collect();
        assert_eq!(
            printed("", &d),
            "  30 | 3c3d3e3f 40414243 44454647 48494a4b 4c4d4e4f 50515253\n"
        );
        assert_eq!(printed("ok, 5", &d), "ok:   30 | 3c3d3e3f 40\n");
        assert_eq!(
            printed("\"a b\", CONTENTS none, TIMESTAMP true", &d),
            "a b: 1.500000:   30\n"
        );
        assert_eq!(
            printed("TIMESTAMP true, CONTENTS false", &d),
            "1.500000:   30\n"
        );
        assert_eq!(
            printed("x, MAXLENGTH -1, CONTENTS ASCII", b"abc\x01defghij"),
            "x:   11 |  abc.defg hij\n"
        );
        assert_eq!(
            printed("NBYTES 1, PRINTANNO true", b"ab"),
            format!("   2 | {}07{} | 61\n", "00".repeat(16), "00".repeat(31))
        );
        assert_eq!(printed("x, 0", &d), "x:   30\n");
        assert_eq!(printed("", b""), "   0\n");
        assert_eq!(printed("ACTIVE false", &d), "");
        assert_eq!(
            printed("HEADROOM true, CONTENTS none", b"abc"),
            "   3 (h64 t189)\n"
        );
    }

    #[test]
    fn handler_and_errors() {
        let mut b = Bench::new("Print", "", 1, 1).unwrap();
        b.write("active", "false").unwrap();
        assert_eq!(b.read("active").unwrap(), "false");
        b.push(0, b"x");
        assert_eq!(b.host.log, "");
        assert!(b.write("active", "maybe").is_err());
        for (bad, names) in [
            ("\"a\" b", "LABEL"),
            ("x, y", "MAXLENGTH"),
            ("CONTENTS octal", "CONTENTS: expected NONE, HEX or ASCII"),
            ("TIMESTAMP 7", "TIMESTAMP"),
        ] {
            let e = Bench::new("Print", bad, 1, 1).err().unwrap();
            assert!(e[0].starts_with(names), "{bad}: {e:?}");
        }
    }
}
