//! Writing actions: steps, ends, images.

use super::super::names::Style;
use super::stage_name;
use super::value::{number, quoted, set};
use super::words::Words;
use crate::program::*;
use onefold_element::ElemId;
use onefold_element::model::{BindKind, FlowSide};

impl Words<'_> {
    pub(super) fn image(&self, out: &mut String, image: &Image, indent: usize) {
        let w = self.for_image(image);
        let pad = " ".repeat(indent + 2);
        if *image == Image::default() {
            out.push_str("{}");
            return;
        }
        out.push_str("{\n");
        if image.start != 0 {
            put!(out, "{pad}start {}\n", image.start);
        }
        if image.end != EndAt::Same {
            put!(out, "{pad}end {}\n", end_text(image.end));
        }
        for x in &image.writes {
            put!(out, "{pad}write {}\n", w.write(x));
        }
        for s in &image.sums {
            w.sum(out, s, &pad);
        }
        for (name, mark) in [("net", image.net), ("mac", image.mac)] {
            match mark {
                Mark::Same => {}
                Mark::None => {
                    put!(out, "{pad}{name} none\n");
                }
                Mark::At(at, len) => {
                    put!(out, "{pad}{name} at {at} len {len}\n");
                }
                Mark::Alone(at) => {
                    put!(out, "{pad}{name} at {at} alone\n");
                }
            }
        }
        if image.cleared {
            put!(out, "{pad}cleared\n");
        }
        for (a, e) in &image.annos {
            put!(out, "{pad}{}\n", w.anno(*a, *e));
        }
        match image.packet_type {
            TypeExpr::Same => {}
            TypeExpr::Is(n) => {
                put!(
                    out,
                    "{pad}type {}\n",
                    number(n.into(), Style::PacketType, 8)
                );
            }
            TypeExpr::Destination(e, device) => {
                put!(out, "{pad}type of {}", w.expr(e, Style::Mac, 48));
                if let Some(d) = device {
                    let mut v = [0u8; 16];
                    v[10..].copy_from_slice(&d);
                    put!(
                        out,
                        " at {}",
                        number(u128::from_be_bytes(v), Style::Mac, 48)
                    );
                }
                out.push('\n');
            }
        }
        put!(out, "{}}}", " ".repeat(indent));
    }

    fn sum(&self, out: &mut String, s: &SumWrite, pad: &str) {
        let kind = match s.kind {
            SumKind::Ip4 => "ip4",
            SumKind::Tcp => "tcp",
            SumKind::Udp => "udp",
            SumKind::Icmp => "icmp",
        };
        put!(out, "{pad}sum {kind} of {} at {}", s.header, s.at);
        if s.anew {
            out.push_str(" anew");
        }
        out.push('\n');
        for g in &s.groups {
            put!(out, "{pad}  group");
            for t in g {
                match *t {
                    SumTerm::Slot(s) => {
                        put!(out, "\n{pad}    add s{}", s.0);
                    }
                    SumTerm::Change {
                        bit,
                        bits,
                        from,
                        to,
                    } => {
                        let (name, style) = self.dim(Dim::Bits { bit, bits });
                        put!(
                            out,
                            "\n{pad}    change {name} from {} to {}",
                            self.expr(from, style, bits),
                            self.expr(to, style, bits)
                        );
                    }
                }
            }
            out.push('\n');
        }
    }

    pub(super) fn comment(&self, e: ElemId) -> String {
        match self.program.elements.get(e.0 as usize) {
            Some(n) => format!(" ; {}", n.escape_default()),
            None => String::new(),
        }
    }

    pub(super) fn step(&self, out: &mut String, step: &Step) {
        match step {
            Step::Count { elem, tag, len } => {
                put!(
                    out,
                    "    count e{} tag {tag} from {} to {}{}\n",
                    elem.0,
                    len.start,
                    end_text(len.end),
                    self.comment(*elem)
                );
            }
            Step::Bind {
                elem,
                port,
                kind,
                image,
                first,
                anno,
                expect,
                bound,
                sides,
                pass,
            } => {
                let kind = match kind {
                    BindKind::Flow => "flow",
                    BindKind::Addresses => "addresses",
                    BindKind::Ping => "ping",
                };
                let anno = anno.map(|(at, s)| format!(" anno {at} into s{}", s.0));
                put!(
                    out,
                    "    bind e{}[{port}] {kind} into s{}{}{}\n",
                    elem.0,
                    first.0,
                    anno.unwrap_or_default(),
                    self.comment(*elem)
                );
                out.push_str("      with ");
                self.image(out, image, 6);
                out.push('\n');
                if let Some(x) = expect {
                    put!(out, "      expect output {}", x.output);
                    for (i, name) in EXPECTED.iter().enumerate() {
                        let (style, bits) = EXPECTED_STYLE[i];
                        put!(out, " {name}");
                        if x.kept[i] {
                            out.push_str(" kept");
                        }
                        if !x.sets[i].is_full(bits) {
                            put!(out, " in {}", set(&x.sets[i], bits, style));
                        }
                    }
                    out.push('\n');
                }
                if !bound.is_empty() {
                    put!(out, "      bound {}\n", nexts(self.program, bound));
                }
                if let Some(sides) = sides {
                    put!(out, "      only\n");
                    sides.iter().for_each(|s| side(out, s));
                }
                if !pass.is_empty() {
                    put!(out, "      pass {}\n", nexts(self.program, pass));
                }
            }
        }
    }

    pub(super) fn end(&self, out: &mut String, end: &End) {
        out.push_str("    ");
        match end {
            End::Output { sink, image } => {
                put!(out, "output e{} ", sink.0);
                self.image(out, image, 4);
                out.push_str(&self.comment(*sink));
            }
            End::Drop { elem, reason } => {
                put!(
                    out,
                    "drop e{} {}{}",
                    elem.0,
                    quoted(reason),
                    self.comment(*elem)
                );
            }
            End::Punt {
                elem,
                port,
                cause,
                image,
            } => {
                put!(out, "punt e{}[{port}] {} ", elem.0, quoted(cause));
                self.image(out, image, 4);
                out.push_str(&self.comment(*elem));
            }
            End::Ask {
                elem,
                port,
                cause,
                image,
                outputs,
            } => {
                put!(out, "ask e{}[{port}] {} ", elem.0, quoted(cause));
                self.image(out, image, 4);
                put!(
                    out,
                    " outputs {}{}",
                    nexts(self.program, outputs),
                    self.comment(*elem)
                );
            }
            End::Write { image, next } => {
                out.push_str("write ");
                self.image(out, image, 4);
                put!(out, " then {}", stage_name(self.program, *next));
            }
            End::Goto(s) => {
                put!(out, "goto stage{}", s.0);
            }
            End::Fork(l) => {
                put!(out, "fork {}", nexts(self.program, l));
            }
            End::Unreachable => out.push_str("unreachable"),
        }
        out.push('\n');
    }
}

/// One direction of a kind of flow.
fn side(out: &mut String, s: &FlowSide) {
    let direction = if s.reply { "reply" } else { "forward" };
    put!(
        out,
        "        {direction} of {} output {}",
        s.origin,
        s.output
    );
    for (i, name) in EXPECTED.iter().enumerate() {
        let (style, bits) = EXPECTED_STYLE[i];
        put!(out, " {name}");
        if !s.from[i].is_full(bits) {
            put!(out, " in {}", set(&s.from[i], bits, style));
        }
        if s.kept[i] {
            out.push_str(" kept");
        }
        if !s.to[i].is_full(bits) {
            put!(out, " to {}", set(&s.to[i], bits, style));
        }
    }
    out.push('\n');
}

/// The rewritten fields of an expectation, with their style and width.
pub(crate) const EXPECTED: [&str; 4] = ["saddr", "daddr", "sport", "dport"];
pub(crate) const EXPECTED_STYLE: [(Style, u8); 4] = [
    (Style::Ip4, 32),
    (Style::Ip4, 32),
    (Style::Dec, 16),
    (Style::Dec, 16),
];

pub(super) fn end_text(e: EndAt) -> String {
    match e {
        EndAt::Same => "end".into(),
        EndAt::Ip4(at) => format!("ip4 {at}"),
        EndAt::Ip6(at) => format!("ip6 {at}"),
    }
}

pub(super) fn nexts(p: &Program, l: &[Next]) -> String {
    let parts: Vec<String> = l
        .iter()
        .map(|n| match n {
            Next::Stage(s) => stage_name(p, *s),
            Next::Unconnected(e) => format!("unconnected e{}", e.0),
            Next::Never => "never".into(),
        })
        .collect();
    format!("[{}]", parts.join(", "))
}
