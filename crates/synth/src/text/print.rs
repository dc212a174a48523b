//! Writing a program as text.

use super::names::{self, Layout, PACKET_TYPES, Style};
use crate::program::*;
use onefold_elements::ElemId;
use onefold_elements::model::{BindKind, ValueSet, max_of};
use onefold_packet::EtherAddr;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Writing to a `String` cannot fail; this says so once.
macro_rules! put {
    ($out:expr, $($t:tt)*) => { let _ = write!($out, $($t)*); };
}

/// Everything that the text of a part depends on besides the part: slots (their widths), names of elements, known headers.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    program: &'a Program,
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

    fn width(&self, d: Dim) -> u8 {
        super::width(&self.program.slots, d)
    }

    /// A dimension, and how its values are written.
    fn dim(&self, d: Dim) -> (String, Style) {
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
        }
    }

    /// An expression whose value goes where values are written in `style`.
    fn expr(&self, e: Expr, style: Style, bits: u8) -> String {
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

    fn put_filter(&self, out: &mut String, f: &Filter) {
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
    pub fn anno(&self, a: onefold_elements::model::AnnoKey, e: Expr) -> String {
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

    fn image(&self, out: &mut String, image: &Image, indent: usize) {
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

    fn comment(&self, e: ElemId) -> String {
        match self.program.elements.get(e.0 as usize) {
            Some(n) => format!(" ; {}", n.escape_default()),
            None => String::new(),
        }
    }

    fn step(&self, out: &mut String, step: &Step) {
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
                expect,
                bound,
                pass,
            } => {
                let kind = match kind {
                    BindKind::Flow => "flow",
                    BindKind::Addresses => "addresses",
                    BindKind::Ping => "ping",
                };
                put!(
                    out,
                    "    bind e{}[{port}] {kind} into s{}{}\n",
                    elem.0,
                    first.0,
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
                for (name, list) in [("bound", bound), ("pass", pass)] {
                    if !list.is_empty() {
                        put!(out, "      {name} {}\n", nexts(list));
                    }
                }
            }
        }
    }

    fn end(&self, out: &mut String, end: &End) {
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
                put!(out, " outputs {}{}", nexts(outputs), self.comment(*elem));
            }
            End::Write { image, next } => {
                out.push_str("write ");
                self.image(out, image, 4);
                put!(out, " then stage{}", next.0);
            }
            End::Goto(s) => {
                put!(out, "goto stage{}", s.0);
            }
            End::Fork(l) => {
                put!(out, "fork {}", nexts(l));
            }
            End::Unreachable => out.push_str("unreachable"),
        }
        out.push('\n');
    }
}

/// The rewritten fields of an expectation, with their style and width.
pub(crate) const EXPECTED: [&str; 4] = ["saddr", "daddr", "sport", "dport"];
pub(crate) const EXPECTED_STYLE: [(Style, u8); 4] = [
    (Style::Ip4, 32),
    (Style::Ip4, 32),
    (Style::Dec, 16),
    (Style::Dec, 16),
];

fn end_text(e: EndAt) -> String {
    match e {
        EndAt::Same => "end".into(),
        EndAt::Ip4(at) => format!("ip4 {at}"),
        EndAt::Ip6(at) => format!("ip6 {at}"),
    }
}

fn nexts(l: &[Next]) -> String {
    let parts: Vec<String> = l
        .iter()
        .map(|n| match n {
            Next::Stage(s) => format!("stage{}", s.0),
            Next::Unconnected(e) => format!("unconnected e{}", e.0),
        })
        .collect();
    format!("[{}]", parts.join(", "))
}

/// A string in quotation marks; control characters, quotation marks and backslashes are escaped.
pub(crate) fn quoted(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                put!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A number in a field's style; what does not fit the style is written as a plain number.
pub(crate) fn number(v: u128, style: Style, bits: u8) -> String {
    match style {
        Style::Ip4 if let Ok(a) = u32::try_from(v) => Ipv4Addr::from(a).to_string(),
        Style::Ip6 => Ipv6Addr::from(v).to_string(),
        Style::Mac if v <= max_of(48) => {
            let b = v.to_be_bytes();
            let a = EtherAddr::from_slice(&b[10..]).unwrap_or_default();
            a.to_string().replace('-', ":").to_ascii_lowercase()
        }
        Style::PacketType
            if let Some(n) = usize::try_from(v).ok().and_then(|i| PACKET_TYPES.get(i)) =>
        {
            (*n).to_string()
        }
        Style::Hex | Style::Mac => format!("{v:#0w$x}", w = usize::from(bits).div_ceil(4) + 2),
        _ => v.to_string(),
    }
}

/// An interval: a value, a prefix (addresses) or `LOW-HIGH`.
fn interval(l: u128, h: u128, bits: u8, style: Style) -> String {
    if l == h {
        return number(l, style, bits);
    }
    let host = l ^ h;
    if matches!(style, Style::Ip4 | Style::Ip6)
        && host & host.wrapping_add(1) == 0
        && l & host == 0
        && h <= max_of(bits)
    {
        let len = u32::from(bits).saturating_sub(host.count_ones());
        return format!("{}/{len}", number(l, style, bits));
    }
    format!("{}-{}", number(l, style, bits), number(h, style, bits))
}

/// A set: one interval as it is, others in braces.
pub(crate) fn set(s: &ValueSet, bits: u8, style: Style) -> String {
    match s.intervals() {
        [(l, h)] => interval(*l, *h, bits, style),
        l => {
            let parts: Vec<String> = l
                .iter()
                .map(|(l, h)| interval(*l, *h, bits, style))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
    }
}

/// `= 6`, `!= 6`, `>= 2`, `<= 9`, `in 1-3`, `in {..}`, `not in {..}`, whichever is shortest to read.
fn comparison(s: &ValueSet, bits: u8, style: Style) -> String {
    let max = max_of(bits);
    let one = |v| number(v, style, bits);
    let address = matches!(style, Style::Ip4 | Style::Ip6 | Style::Mac);
    match s.intervals() {
        [(l, h)] if l == h => return format!("= {}", one(*l)),
        [(0, h)] if *h == max && !address => return ">= 0".into(),
        [(l, h)] if *h == max && !address && *l > 0 => return format!(">= {}", one(*l)),
        [(0, h)] if *h < max && !address => return format!("<= {}", one(*h)),
        [_] | [] => return format!("in {}", set(s, bits, style)),
        _ => {}
    }
    let rest = s.complement(bits);
    // a set with values beyond the width is not its complement's complement
    if rest.intervals().len() < s.intervals().len() && rest.complement(bits) == *s {
        return match rest.single() {
            Some(v) => format!("!= {}", one(v)),
            None => format!("not in {}", set(&rest, bits, style)),
        };
    }
    format!("in {}", set(s, bits, style))
}

/// The whole program.
pub fn print(p: &Program) -> String {
    let mut out = String::from("onefold program 1\n");
    let w = Words::new(p);
    for n in &p.notes {
        put!(out, "note {}\n", quoted(n));
    }
    if !p.elements.is_empty() {
        out.push('\n');
    }
    for (i, e) in p.elements.iter().enumerate() {
        put!(out, "element e{i} {}\n", quoted(e));
    }
    if !p.slots.is_empty() {
        out.push('\n');
    }
    for (i, s) in p.slots.iter().enumerate() {
        let style = w
            .dim(Dim::Slot(Slot(u16::try_from(i).unwrap_or(u16::MAX))))
            .1;
        put!(
            out,
            "slot s{i} bits {} in {}\n",
            s.bits,
            set(&s.set, s.bits, style)
        );
    }
    if !p.entries.is_empty() {
        out.push('\n');
    }
    for e in &p.entries {
        put!(
            out,
            "entry e{} stage{}{}\n",
            e.source.0,
            e.stage.0,
            w.comment(e.source)
        );
    }
    for (i, s) in p.stages.iter().enumerate() {
        put!(out, "\n");
        print_stage(&mut out, p, i, s);
    }
    out
}

fn print_stage(out: &mut String, p: &Program, i: usize, s: &Stage) {
    let why = match s.why {
        Why::Entry => "entry",
        Why::Dynamic => "dynamic",
        Why::Bound => "bound",
        Why::Copy => "copy",
        Why::Asked => "asked",
        Why::Written => "written",
        Why::Budget => "budget",
    };
    let w = Words::for_stage(p, s);
    let fresh = if s.fresh { " fresh" } else { "" };
    put!(
        out,
        "stage{i} at e{}[{}] {why}{fresh} {{{}\n",
        s.at.0.0,
        s.at.1,
        w.comment(s.at.0)
    );
    if !s.known.0.is_empty() {
        out.push_str("  known ");
        w.put_filter(out, &s.known);
        out.push('\n');
    }
    // an action is named after the headers of the first class that takes it
    let mut first: Vec<Option<&Rule>> = vec![None; s.actions.len()];
    for r in &s.rules {
        out.push_str("  when ");
        w.with(&r.filter).put_filter(out, &r.filter);
        put!(out, " => a{}", r.action.0);
        if !r.origin.is_empty() {
            out.push_str(" from");
        }
        for o in &r.origin {
            put!(out, " e{}", o.elem.0);
            if let Some(a) = o.arg {
                put!(out, ".{a}");
            }
        }
        out.push('\n');
        if let Some(f) = first.get_mut(r.action.0 as usize)
            && f.is_none()
        {
            *f = Some(r);
        }
    }
    for (j, a) in s.actions.iter().enumerate() {
        put!(out, "  a{j} {{\n");
        let w = match first.get(j).copied().flatten() {
            Some(r) => w.with(&r.filter),
            None => w,
        };
        for step in &a.steps {
            w.step(out, step);
        }
        w.end(out, &a.end);
        if !a.path.is_empty() {
            out.push_str("    path");
            for e in &a.path {
                put!(out, " e{}", e.0);
            }
            out.push('\n');
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
}

/// A set of values on its own, as people write them: addresses where there are 32 bits.
pub fn values(s: &ValueSet, bits: u8) -> String {
    let style = if bits == 32 { Style::Ip4 } else { Style::Dec };
    set(s, bits, style)
}
