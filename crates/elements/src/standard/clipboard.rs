//! Clipboard: copies bytes out of packets of one stream into packets of another (Click element).
//!
//! Different from Click: bytes that the first packet does not have, and all of them before there was one, are zero, not
//! whatever was in memory.

use onefold_element::args::Args;
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;
use std::ops::Range;

/// `Clipboard`.
pub const CLIPBOARD: ElementClass = ElementClass {
    name: "Clipboard",
    ports: "2/2",
    processing: "a/a",
    flow: "#/#",
    effect: Effect::OrderSensitive,
    usage: "OFFSET/LENGTH, ...",
    summary: "remembers bytes of packets from input 0, writes them into packets from input 1",
    new: || Box::new(Clipboard::default()),
};

/// No range reaches further into packets than this.
const MAX_REACH: u32 = 1 << 20;
/// Most ranges.
const MAX_RANGES: usize = 65_536;

#[derive(Debug, Clone, Default)]
struct Clipboard {
    ranges: Vec<Range<usize>>,
    /// The bytes of all ranges, one behind the other.
    bytes: Vec<u8>,
    /// A packet must be so long to be written into.
    reach: usize,
}

impl Clipboard {
    fn copy(&mut self, p: &Pkt) {
        self.bytes.clear();
        for r in &self.ranges {
            let there = p.data().get(r.start..).unwrap_or(&[]);
            let there = &there[..there.len().min(r.len())];
            self.bytes.extend_from_slice(there);
            self.bytes
                .resize(self.bytes.len() + r.len() - there.len(), 0);
        }
    }

    fn paste(&self, p: &mut Pkt) {
        if p.len() < self.reach {
            return;
        }
        let mut from = self.bytes.as_slice();
        for r in &self.ranges {
            if let (Some(to), Some((bytes, rest))) = (
                p.data_mut().get_mut(r.clone()),
                from.split_at_checked(r.len()),
            ) {
                to.copy_from_slice(bytes);
                from = rest;
            }
        }
    }

    fn handle(&mut self, port: Port, p: &mut Pkt) {
        match port {
            0 => self.copy(p),
            _ => self.paste(p),
        }
    }
}

impl Element for Clipboard {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let mut ranges = Vec::new();
        let list = args.rest();
        if list.len() > MAX_RANGES {
            args.error(format!("more than {MAX_RANGES} ranges"));
            return args.finish();
        }
        for (n, (i, text)) in list.into_iter().enumerate() {
            let parsed = text.split_once('/').and_then(|(at, len)| {
                let (at, len) = (at.trim().parse::<u32>(), len.trim().parse::<u32>());
                Some((at.ok()?, len.ok()?))
            });
            match parsed {
                Some((at, len)) if at.saturating_add(len) <= MAX_REACH => {
                    ranges.push(at as usize..(at + len) as usize);
                }
                Some(_) => args.error_at(
                    i,
                    &format!("range {n}"),
                    format!("reaches beyond byte {MAX_REACH}"),
                ),
                None => args.error_at(
                    i,
                    &format!("range {n}"),
                    format!("expected OFFSET/LENGTH, found '{text}'"),
                ),
            }
        }
        args.finish()?;
        self.reach = ranges.iter().map(|r| r.end).max().unwrap_or(0);
        self.bytes.resize(ranges.iter().map(|r| r.len()).sum(), 0);
        self.ranges = ranges;
        Ok(())
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("Clipboard: copies bytes from packet to packet")
    }
    fn push(&mut self, port: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        self.handle(port, &mut p);
        cx.emit(port, p);
    }
    fn pull(&mut self, port: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let mut p = cx.pull(port)?;
        self.handle(port, &mut p);
        Some(p)
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, Setup};
    use onefold_packet::Packet;

    #[test]
    fn copies_and_pastes() {
        let mut b = Bench::new("Clipboard", "0/2, 4/1", 2, 2).unwrap();
        let paste = |b: &mut Bench, to: &[u8]| {
            let mut out = b.push(1, to);
            let (port, p) = out.pop().unwrap();
            assert_eq!(port, 1);
            p.data().to_vec()
        };
        // nothing copied yet
        assert_eq!(paste(&mut b, b"......"), b"\0\0..\0.");
        let out = b.push(0, b"abcdef");
        assert_eq!((out[0].0, out[0].1.data()), (0, &b"abcdef"[..]));
        assert_eq!(paste(&mut b, b"......"), b"ab..e.");
        // too short for one of the ranges: left alone
        assert_eq!(paste(&mut b, b"...."), b"....");
        // a source that is too short gives zeros
        b.push(0, b"X");
        assert_eq!(paste(&mut b, b"......"), b"X\0..\0.");
    }

    #[test]
    fn pulls() {
        let setup = Setup {
            ninputs: 2,
            noutputs: 2,
            pull: true,
            ..Setup::default()
        };
        let mut b = Bench::with_setup(
            "Clipboard",
            "1/1",
            setup,
            onefold_element::NameDb::builtin(),
        )
        .unwrap();
        b.host
            .upstream
            .entry(0)
            .or_default()
            .push_back(Box::new(Packet::from_slice(b"ab")));
        b.host
            .upstream
            .entry(1)
            .or_default()
            .push_back(Box::new(Packet::from_slice(b"..")));
        assert_eq!(b.pull(0).unwrap().data(), b"ab");
        assert_eq!(b.pull(1).unwrap().data(), b".b");
        assert!(b.pull(1).is_none());
    }

    #[test]
    fn errors() {
        let e = Bench::new("Clipboard", "1/2, 3, x/1, 4294967295/4294967295", 2, 2)
            .err()
            .unwrap();
        assert_eq!(
            e,
            [
                "range 1: expected OFFSET/LENGTH, found '3'",
                "range 2: expected OFFSET/LENGTH, found 'x/1'",
                "range 3: reaches beyond byte 1048576",
            ]
        );
        assert!(Bench::new("Clipboard", "", 2, 2).is_ok());
    }
}
