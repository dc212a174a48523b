//! How parts of a program are called where headers are known.

use super::super::names::{self, Layout, Style};
use super::action::end_text;
use super::value::{comparison, number};
use crate::program::*;
use onefold_element::model::{RouteWhat, ValueSet, max_of};

/// Everything that the text of a part depends on besides the part: slots (their widths), names of elements, known
/// headers.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    pub(super) program: &'a Program,
    /// Where headers are.
    pub layout: Layout,
}

impl<'a> Words<'a> {
    /// For a program, with nothing known of headers.
    pub fn new(program: &'a Program) -> Self {
        Words {
            program,
            layout: Layout::default(),
        }
    }
    /// For a stage: headers are where its rules say they are.
    pub fn for_stage(program: &'a Program, stage: &Stage) -> Self {
        let known = Layout::default().with(&stage.known);
        let mut w = Words {
            program,
            layout: known,
        };
        if known == Layout::default() {
            // nothing is known yet: what the first rule that knows something says
            let told = stage.rules.iter().map(|r| known.with(&r.filter));
            if let Some(l) = told.into_iter().find(|l| *l != known) {
                w.layout = l.without_proto();
            }
        }
        w
    }
    /// With a filter's knowledge, too.
    pub fn with(mut self, f: &Filter) -> Self {
        self.layout = self.layout.with(f);
        self
    }

    pub(super) fn width(&self, d: Dim) -> u8 {
        crate::text::width(&self.program.slots, d)
    }

    /// A dimension, and how its values are written.
    pub(super) fn dim(&self, d: Dim) -> (String, Style) {
        match d {
            Dim::Len => ("len".into(), Style::Dec),
            Dim::Bits { bit, bits } => match self.layout.name(bit, bits) {
                Some(n) => n,
                None => (format!("@{bit}:{bits}"), Style::Hex),
            },
            Dim::Check { check, at, end } => {
                let name = names::CHECKS
                    .iter()
                    .find(|c| c.1 == check)
                    .map_or("?", |c| c.0);
                let text = match end {
                    EndAt::Same => format!("{name}({at})"),
                    end => format!("{name}({at} to {})", end_text(end)),
                };
                (text, Style::Dec)
            }
            Dim::Slot(s) => {
                let wide = self.program.slots.get(usize::from(s.0));
                let style = match wide.map(|i| i.bits) {
                    Some(32) => Style::Ip4,
                    _ => Style::Dec,
                };
                (format!("s{}", s.0), style)
            }
            Dim::Anno(a) => names::anno_name(a),
            Dim::PacketType => ("packet_type".into(), Style::PacketType),
            Dim::Route { table, of, what } => {
                let name = names::route_name(what);
                let (of, bits) = match of {
                    Address::Bits { bit, bits } => (self.dim(Dim::Bits { bit, bits }).0, bits),
                    Address::Anno(a) => (names::anno_name(a).0, 0),
                    Address::Is { value, bits } if bits > 32 => {
                        (std::net::Ipv6Addr::from(value).to_string(), bits)
                    }
                    Address::Is { value, bits } => {
                        (std::net::Ipv4Addr::from(value as u32).to_string(), bits)
                    }
                };
                let style = match (what, bits) {
                    (RouteWhat::NextHop, 32) => Style::Ip4,
                    (RouteWhat::NextHop, 128) => Style::Ip6,
                    (RouteWhat::Ether, _) => Style::Mac,
                    _ => Style::Dec,
                };
                (format!("{name}(e{} of {of})", table.0), style)
            }
        }
    }

    /// An expression whose value goes where values are written in `style`.
    pub(super) fn expr(&self, e: Expr, style: Style, bits: u8) -> String {
        match e {
            Expr::Const(v) => number(v, style, bits),
            Expr::Of(d, 0) => self.dim(d).0,
            Expr::Of(d, delta) => {
                let max = max_of(self.width(d));
                let name = self.dim(d).0;
                if delta <= max && delta > max / 2 {
                    format!("{name} - {}", max - delta + 1)
                } else {
                    format!("{name} + {delta}")
                }
            }
        }
    }

    /// A dimension's name.
    pub fn dim_name(&self, d: Dim) -> String {
        self.dim(d).0
    }

    /// One condition.
    pub fn condition(&self, d: Dim, set: &ValueSet) -> String {
        let (name, style) = self.dim(d);
        format!("{name} {}", comparison(set, self.width(d), style))
    }

    /// A filter: conditions with commas between, or `any`.
    pub fn filter(&self, f: &Filter) -> String {
        let mut out = String::new();
        self.put_filter(&mut out, f);
        out
    }

    pub(super) fn put_filter(&self, out: &mut String, f: &Filter) {
        if f.0.is_empty() {
            out.push_str("any");
        }
        for (i, (d, set)) in f.0.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            let (name, style) = self.dim(*d);
            put!(out, "{name} {}", comparison(set, self.width(*d), style));
        }
    }

    /// A write as `TARGET = VALUE`.
    pub fn write(&self, w: &Write) -> String {
        let (name, style) = self.dim(Dim::Bits {
            bit: w.bit,
            bits: w.bits,
        });
        format!("{name} = {}", self.expr(w.value, style, w.bits))
    }

    /// An annotation that is set, as `TARGET = VALUE`.
    pub fn anno(&self, a: onefold_element::model::AnnoKey, e: Expr) -> String {
        let (name, style) = names::anno_name(a);
        format!("{name} = {}", self.expr(e, style, a.size.saturating_mul(8)))
    }

    /// What the action's own parts say about headers.
    pub fn for_image(mut self, image: &Image) -> Self {
        self.layout = self.layout.with_end(image.end);
        for s in &image.sums {
            self.layout = self.layout.with_ip4(s.header);
        }
        self
    }
}
