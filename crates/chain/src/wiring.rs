//! Links and ports of a chain file.

use crate::error::Reader;
use crate::file::{ChainFile, Loc, PortSpec};
use crate::links::{PortRef, parse_links, parse_port};
use crate::params;
use crate::stitch::{Part, Wiring, stitch};
use crate::structure::LeftOut;
use onefold_click::source::{FileId, Span};

/// Links, ports and unused ports, read from their notation.
pub(crate) fn read_wiring(
    doc: &ChainFile,
    extra: Vec<(String, Span)>,
    file: FileId,
    reader: &mut Reader,
) -> Wiring {
    let at = |v: &Loc<String>| {
        (
            v.value.clone(),
            Span::new(file, v.start, v.start + v.len.max(1)),
        )
    };
    let mut w = Wiring {
        links: Vec::new(),
        ports: Vec::new(),
        unused: Vec::new(),
        failed: Vec::new(),
        addresses: Vec::new(),
        whole: addresses_at(file, reader),
    };
    for (text, span) in doc.links.iter().map(at).chain(extra) {
        match parse_links(&text) {
            Ok(l) => w.links.extend(l.into_iter().map(|l| (l, span))),
            Err(why) => reader.error(span, why),
        }
    }
    let port = |text: &str, span: Span, reader: &mut Reader| -> Option<PortRef> {
        parse_port(text).map_err(|why| reader.error(span, why)).ok()
    };
    for (name, p) in &doc.ports {
        let span = Span::new(file, p.start, p.start + p.len.max(1));
        if !params::is_name(name) {
            reader.error(span, format!("'{name}' cannot be a port's name"));
        }
        let (i, o) = match &p.value {
            PortSpec::Both(t) => {
                let r = port(t, span, reader);
                (r.clone(), r)
            }
            PortSpec::Apart(a) => (
                a.input.as_ref().and_then(|t| port(t, span, reader)),
                a.output.as_ref().and_then(|t| port(t, span, reader)),
            ),
        };
        w.ports.push((name.clone(), i, o, span));
    }
    for u in &doc.unused {
        let (text, span) = at(u);
        if let Some(p) = port(&text, span, reader) {
            w.unused.push((p, span));
        }
    }
    w.addresses = doc
        .addresses
        .iter()
        .map(|(n, a)| (n.clone(), a.as_slice().to_vec()))
        .collect();
    w
}

/// Tells what is wrong with the links and ports of a chain file that some functions or other parts were left out of.
pub(crate) fn tell(
    doc: &ChainFile,
    left_out: LeftOut,
    (parts, failed, links): (Vec<Part>, Vec<String>, Vec<(String, Span)>),
    file: FileId,
    reader: &mut Reader,
) {
    let mut wiring = read_wiring(doc, links, file, reader);
    // of a function that was left out, nobody knows whether it is repeated
    let whole = |text: &str| {
        let numbered = text.trim_end_matches(|c: char| c.is_ascii_digit());
        left_out.functions.iter().any(|f| f == numbered)
    };
    let named = wiring.links.iter().flat_map(|(l, _)| [&l.from, &l.to]);
    let named = named.chain(
        wiring
            .ports
            .iter()
            .flat_map(|(_, i, o, _)| i.iter().chain(o)),
    );
    let named = named.chain(wiring.unused.iter().map(|(p, _)| p));
    let numbered: Vec<String> = (named.map(|p| p.function.clone()))
        .filter(|f| whole(f))
        .collect();
    wiring.failed = failed;
    wiring.failed.extend(left_out.functions);
    wiring.failed.extend(numbered);
    if !left_out.others {
        stitch(reader, String::new(), String::new(), parts, wiring);
    }
}

/// The line of the chain file that names for addresses begin in.
fn addresses_at(file: FileId, reader: &Reader) -> Span {
    let mut at = 0;
    for line in reader.sources.bytes(file).split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b"addresses:") {
            return Span::new(file, at, at + 9);
        }
        at += line.len();
    }
    Span::new(file, 0, 1)
}
