//! IP look-ups: StaticIPLookup, LinearIPLookup, SortedIPLookup, RadixIPLookup, DirectIPLookup, RangeIPLookup.
//!
//! Click has one data structure per element; here all of them share one longest-prefix structure ([`super::lpm`]), so
//! all look up fast, whatever their name says. What still differs between them, as in Click, is the order of the
//! `table` handler's lines, which handlers exist, and what is said about packets without a route.
//!
//! A second route for the same prefix in a configuration is left out with a warning (every element of the family keeps
//! the first, whatever Click's warning says).
//!
//! Deliberate differences from Click:
//! - DirectIPLookup and RangeIPLookup list their table by address, SortedIPLookup by falling prefix length; in Click
//!   the order comes from a hash function or from the history of changes.
//! - Masks that are not contiguous are accepted by StaticIPLookup, LinearIPLookup and SortedIPLookup only. The others
//!   refuse them; Click's then look up something undefined.
//! - After routes were removed, LinearIPLookup still finds nothing for 0.0.0.0 where no route matches; a next hop
//!   shared with the default route survives the default route's removal from DirectIPLookup; an empty line in a `ctrl`
//!   command is skipped; there is no limit of 255 next hops in RadixIPLookup, and none of 32,768 /24 networks in
//!   DirectIPLookup. Click errs there.
//! - Handlers take addresses as numbers, not names from AddressInfo.

use super::table::{AddError, Addr, Hop, Placing, Route, RouteTable, Routes, show_prefix};
use onefold_element::args::{ArgScope, Args, FromArg, Ip4Prefix, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx, Op};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, StateId,
    element_any, element_takes,
};
use onefold_packet::{Pkt, anno_field};
use std::net::Ipv4Addr;

/// What tells the elements of the family apart.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    placing: Placing,
    odd_masks: bool,
    order: Order,
    /// Routes may be changed by handlers.
    dynamic: bool,
    flush: bool,
    complains: Complaint,
    no_route: DropReason,
    deprecated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    List,
    Address,
    LongestFirst,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Complaint {
    Never,
    /// Says `WHO: no route for ADDRESS`.
    NoRoute(&'static str),
    /// Says `SortedIPLookup: no gw for HEX`.
    NoGateway,
}

/// Packets without a route that are reported, per element; the rest is only counted.
const MAX_COMPLAINTS: u32 = 5;

macro_rules! kind {
    ($konst:ident, $class:ident, $name:literal, $summary:literal, $($field:ident: $value:expr),* $(,)?) => {
        const $konst: Kind = Kind {
            $($field: $value,)*
            name: $name,
            no_route: concat!($name, ": no route"),
            ..BASE
        };
        /// The class.
        pub const $class: ElementClass = ElementClass {
            name: $name,
            ports: "1/-",
            processing: "h/h",
            flow: "x/x",
            effect: Effect::Pure,
            usage: "ADDR/MASK [GATEWAY] OUTPUT, ...",
            summary: $summary,
            new: || Box::new(Lookup { kind: &$konst, table: StateId(u32::MAX), complaints: 0 }),
        };
    };
}

const BASE: Kind = Kind {
    name: "",
    placing: Placing::First,
    odd_masks: false,
    order: Order::List,
    dynamic: true,
    flush: false,
    complains: Complaint::Never,
    no_route: "",
    deprecated: false,
};

kind!(
    STATIC, STATIC_IP_LOOKUP, "StaticIPLookup", "sends packets where their destination's route goes; routes never change",
    odd_masks: true, dynamic: false, complains: Complaint::NoRoute("LinearIPLookup"),
);
kind!(
    LINEAR, LINEAR_IP_LOOKUP, "LinearIPLookup", "sends packets where their destination's route goes",
    odd_masks: true, complains: Complaint::NoRoute("LinearIPLookup"),
);
kind!(
    MP, LOOKUP_IP_ROUTE_MP, "LookupIPRouteMP", "FastClick's look-up for several threads; as StaticIPLookup",
    odd_masks: true, dynamic: false, complains: Complaint::NoRoute("LookupIPRouteMP"),
);
kind!(
    SORTED, SORTED_IP_LOOKUP, "SortedIPLookup", "as LinearIPLookup; deprecated",
    odd_masks: true, order: Order::LongestFirst, complains: Complaint::NoGateway, deprecated: true,
);
kind!(
    RADIX, RADIX_IP_LOOKUP, "RadixIPLookup", "sends packets where their destination's route goes",
    placing: Placing::Latest, flush: true, complains: Complaint::NoRoute("IPRouteTable"),
);
kind!(
    DIRECT, DIRECT_IP_LOOKUP, "DirectIPLookup", "sends packets where their destination's route goes",
    order: Order::Address, flush: true,
);
kind!(
    RANGE, RANGE_IP_LOOKUP, "RangeIPLookup", "sends packets where their destination's route goes",
    order: Order::Address, flush: true,
);

/// A route as it is written; no port when one is to be removed whatever its hop.
struct Written {
    addr: u32,
    mask: u32,
    gw: u32,
    port: Option<i32>,
}

impl Written {
    /// `ADDR/MASK [GATEWAY|-] OUTPUT`; with `removing`, the output (and the gateway) may be missing.
    fn parse(text: &str, scope: &ArgScope<'_>, removing: bool) -> Option<Written> {
        let words = split_words(text);
        let mut words = words.iter();
        let p = Ip4Prefix::from_arg(words.next()?, scope).ok()?;
        let mut w = Written {
            addr: u32::from(p.addr) & u32::from(p.mask),
            mask: u32::from(p.mask),
            gw: 0,
            port: None,
        };
        let mut word = words.next();
        if let Some(g) = word {
            let gw = match *g {
                "-" => Some(0),
                g => Ipv4Addr::from_arg(g, scope).ok().map(u32::from),
            };
            if let Some(gw) = gw {
                w.gw = gw;
                word = words.next();
            }
        }
        match word {
            Some(port) => w.port = Some(i32::from_arg(port, scope).ok()?),
            None if removing => {}
            None => return None,
        }
        words.next().is_none().then_some(w)
    }
    /// As Click shows it in error messages.
    fn show(&self) -> String {
        let r = Route {
            addr: self.addr,
            mask: self.mask,
            gw: self.gw,
            port: 0,
            arg: None,
        };
        format!(
            "{} {} {}",
            show_prefix(&r),
            show_gw(r.gw),
            self.port.unwrap_or(-1)
        )
    }
}

fn show_gw(gw: u32) -> String {
    match gw {
        0 => "-".to_string(),
        g => g.show(),
    }
}

/// A line of the `table` handler: columns of 16 and 8, separated by tabs.
fn table_line(r: &Route<u32>, out: &mut String) {
    for (text, width) in [(show_prefix(r), 16), (show_gw(r.gw), 8)] {
        out.push_str(&text);
        out.push('\t');
        if text.len() < width {
            out.push('\t');
        }
    }
    out.push_str(&r.port.to_string());
    out.push('\n');
}

/// What undoes one command of a `ctrl` transaction.
enum Undo {
    Remove(Route<u32>),
    Add(Route<u32>),
    Set(Route<u32>),
}

#[derive(Debug, Clone)]
struct Lookup {
    kind: &'static Kind,
    table: StateId,
    complaints: u32,
}

impl Lookup {
    fn table<'a>(&self, cx: &'a mut Cx<'_>) -> Result<&'a mut RouteTable<u32>, HandlerError> {
        let t = cx.store.get_mut::<Routes<u32>>(self.table);
        t.map(|t| &mut **t)
            .ok_or_else(|| HandlerError::BadValue("no table".to_string()))
    }

    /// Carries out one `add`, `set` or `remove`.
    fn command(&self, cmd: &str, text: &str, cx: &mut Cx<'_>) -> Result<Undo, HandlerError> {
        let bad = |m: String| Err(HandlerError::BadValue(m));
        let removing = cmd == "remove";
        let names = cx.names();
        let scope = names.scope();
        let Some(w) = Written::parse(text, &scope, removing) else {
            return bad(match removing {
                true => "expected 'ADDR/MASK [GATEWAY OUTPUT]'".to_string(),
                false => "expected 'ADDR/MASK [GATEWAY] OUTPUT'".to_string(),
            });
        };
        // as in Click, output -1 stands for any when removing
        let any = removing && w.port == Some(-1);
        let port = match w.port {
            Some(p) if !any => match u32::try_from(p) {
                Ok(p) if (p as usize) < cx.noutputs => Some(p),
                _ => return bad("bad OUTPUT".to_string()),
            },
            _ => None,
        };
        if w.mask.mask_len().is_none() && !self.kind.odd_masks {
            return bad("mask is not contiguous".to_string());
        }
        let table = self.table(cx)?;
        let Some(port) = port else {
            return match table.remove(w.addr, w.mask, None) {
                Some(r) => Ok(Undo::Add(r)),
                None => bad(format!("route '{}' not found", w.show())),
            };
        };
        if removing {
            return match table.remove(w.addr, w.mask, Some(Hop { gw: w.gw, port })) {
                Some(r) => Ok(Undo::Add(r)),
                None => bad(format!("route '{}' not found", w.show())),
            };
        }
        let r = Route {
            addr: w.addr,
            mask: w.mask,
            gw: w.gw,
            port,
            arg: None,
        };
        match table.add(r, cmd == "set") {
            Ok(None) => Ok(Undo::Remove(r)),
            Ok(Some(old)) => Ok(Undo::Set(old)),
            Err(AddError::Exists(old)) => bad(format!(
                "conflict with existing route '{} {} {}'",
                show_prefix(&old),
                show_gw(old.gw),
                old.port
            )),
            Err(AddError::Full) => bad(format!("no memory to store route '{}'", w.show())),
        }
    }

    /// All commands or none.
    fn ctrl(&self, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let mut done = Vec::new();
        let mut failed = None;
        for line in text.lines() {
            let line = line.trim();
            let (cmd, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let r = match cmd {
                "" => continue,
                "add" | "set" | "remove" => self.command(cmd, rest, cx),
                _ => Err(HandlerError::BadValue(format!("bad command '{cmd}'"))),
            };
            match r {
                Ok(undo) => done.push(undo),
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
        }
        let Some(e) = failed else { return Ok(()) };
        let table = self.table(cx)?;
        for undo in done.iter().rev() {
            // none of these can fail: each undoes the last change that is still in force
            match undo {
                Undo::Remove(r) => {
                    table.remove(r.addr, r.mask, None);
                }
                Undo::Add(r) => {
                    let _ = table.add(*r, false);
                }
                Undo::Set(r) => {
                    let _ = table.add(*r, true);
                }
            }
        }
        Err(e)
    }

    fn no_route(&mut self, a: u32, p: Pkt, cx: &mut Cx<'_>) {
        if self.complaints < MAX_COMPLAINTS {
            self.complaints += 1;
            match self.kind.complains {
                Complaint::Never => {}
                Complaint::NoRoute(who) => {
                    cx.chatter(&format!("{who}: no route for {}\n", a.show()));
                }
                // Click prints the number as it lies in memory
                Complaint::NoGateway => {
                    cx.chatter(&format!("SortedIPLookup: no gw for {:x}\n", a.swap_bytes()));
                }
            }
        }
        cx.decide(None, || format!("no route for {}", a.show()));
        cx.drop(p, self.kind.no_route);
    }

    #[cold]
    fn trace(&self, a: u32, cx: &mut Cx<'_>) {
        let route = cx
            .store
            .get::<Routes<u32>>(self.table)
            .and_then(|t| t.route_for(a).copied());
        if let Some(r) = route {
            cx.decide(r.arg.map(|i| i as usize), || {
                let gw = match r.gw {
                    0 => String::new(),
                    g => format!(" via {}", g.show()),
                };
                let (dst, net) = (a.show(), show_prefix(&r));
                format!("{dst} matches {net}: output {}{gw}", r.port)
            });
        }
    }
}

impl Element for Lookup {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let mut table = RouteTable::new(self.kind.placing);
        let scope = args.scope();
        if self.kind.deprecated {
            args.warning(format!(
                "{} is deprecated; use LinearIPLookup or RadixIPLookup instead",
                self.kind.name
            ));
        }
        let mut repeated = 0;
        for (i, text) in args.rest() {
            let Some(w) = Written::parse(text, &scope, false) else {
                let shown: String = text.chars().take(60).collect();
                let m = format!("expected 'ADDR/MASK [GATEWAY] OUTPUT', found '{shown}'");
                args.error_at(i, "ROUTE", m);
                continue;
            };
            let port = w.port.and_then(|p| u32::try_from(p).ok());
            let Some(port) = port.filter(|p| (*p as usize) < cx.noutputs) else {
                let m = format!(
                    "output {} is not connected, {} outputs are",
                    w.port.unwrap_or(-1),
                    cx.noutputs
                );
                args.error_at(i, "OUTPUT", m);
                continue;
            };
            if w.mask.mask_len().is_none() && !self.kind.odd_masks {
                let m = format!("mask {} is not contiguous", w.mask.show());
                args.error_at(i, "MASK", m);
                continue;
            }
            let r = Route {
                addr: w.addr,
                mask: w.mask,
                gw: w.gw,
                port,
                arg: Some(i as u32),
            };
            match table.add(r, false) {
                Ok(_) => {}
                Err(AddError::Exists(_)) => repeated += 1,
                Err(AddError::Full) => {
                    args.error_at(i, "ROUTE", "too many routes");
                    break;
                }
            }
        }
        if repeated > 0 {
            args.warning(format!(
                "{repeated} {} left out: the prefix has a route before",
                if repeated > 1 { "routes" } else { "route" }
            ));
        }
        self.table = cx.store.alloc(Box::new(Routes::new(table)));
        cx.store.publish(cx.elem, self.table);
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let a = u32::from_be_bytes(p.anno.dst_ip());
        if cx.host.tracing() {
            self.trace(a, cx);
        }
        let hop = cx
            .store
            .get::<Routes<u32>>(self.table)
            .and_then(|t| t.lookup(a));
        match hop {
            Some(h) => {
                if h.gw != 0 {
                    p.anno.set_dst_ip(h.gw.to_be_bytes());
                }
                cx.emit(h.port as usize, p);
            }
            None => self.no_route(a, p, cx),
        }
    }

    fn push_batch(&mut self, port: Port, batch: &mut Vec<Pkt>, cx: &mut Cx<'_>) {
        if cx.out.traced {
            for p in batch.drain(..) {
                self.push(port, p, cx);
            }
            return;
        }
        let mut without = Vec::new();
        let (store, mut out) = cx.split();
        let table = store.get::<Routes<u32>>(self.table);
        for mut p in batch.drain(..) {
            let a = u32::from_be_bytes(p.anno.dst_ip());
            match table.and_then(|t| t.lookup(a)) {
                Some(h) => {
                    if h.gw != 0 {
                        p.anno.set_dst_ip(h.gw.to_be_bytes());
                    }
                    out.emit_or_drop(h.port as usize, p, "unconnected output");
                }
                None => without.push(p),
            }
        }
        for p in without {
            let a = u32::from_be_bytes(p.anno.dst_ip());
            (cx.out.order, cx.out.behind) = (p.order, p.behind);
            self.no_route(a, p, cx);
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const ALL: &[HandlerInfo] = &[
            HandlerInfo::r("table"),
            HandlerInfo::rp("lookup"),
            HandlerInfo::w("add"),
            HandlerInfo::w("set"),
            HandlerInfo::w("remove"),
            HandlerInfo::w("ctrl"),
            HandlerInfo::button("flush"),
        ];
        match (self.kind.dynamic, self.kind.flush) {
            (false, _) => &ALL[..2],
            (true, false) => &ALL[..6],
            (true, true) => ALL,
        }
    }

    fn read(&mut self, name: &str, param: &str, cx: &mut Cx<'_>) -> HandlerResult {
        match name {
            "table" => {
                let mut routes: Vec<Route<u32>> = self.table(cx)?.routes().copied().collect();
                match self.kind.order {
                    Order::List => {}
                    Order::Address => routes.sort_by_key(|r| (r.addr, r.mask)),
                    Order::LongestFirst => {
                        routes.sort_by_key(|r| std::cmp::Reverse(r.mask.count_ones()));
                    }
                }
                let mut out = String::new();
                for r in &routes {
                    table_line(r, &mut out);
                }
                Ok(out)
            }
            "lookup" => {
                let a: Ipv4Addr = param
                    .trim()
                    .parse()
                    .map_err(|_| HandlerError::BadValue("expected IP address".to_string()))?;
                Ok(match self.table(cx)?.lookup(u32::from(a)) {
                    None => "-1".to_string(),
                    Some(h) if h.gw == 0 => h.port.to_string(),
                    Some(h) => format!("{} {}", h.port, h.gw.show()),
                })
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if !self
            .handlers()
            .iter()
            .any(|h| h.name == name && h.writable())
        {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        match name {
            "ctrl" => self.ctrl(value, cx),
            "flush" => {
                self.table(cx)?.clear();
                Ok(())
            }
            _ => self.command(name, value, cx).map(|_| ()),
        }
    }

    fn model(&self, _: Port, cx: &ModelCx<'_>) -> Model {
        let Some(t) = cx.store.get::<Routes<u32>>(self.table) else {
            return Model::None("no table");
        };
        let Some(mut cases) = super::route_model::cases(t, anno_field::DST_IP.into(), cx) else {
            return Model::None("masks that are not contiguous");
        };
        let mut none = Case::new(Cond::Always, Exit::Drop(self.kind.no_route));
        if self.kind.complains != Complaint::Never {
            none.ops.push(Op::Count(0));
        }
        cases.push(none);
        Model::Cases(cases)
    }

    /// Says that there is no route; which address has none is not known here.
    fn account(&mut self, _: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        let left = MAX_COMPLAINTS.saturating_sub(self.complaints);
        let n = u32::try_from(packets).map_or(left, |n| n.min(left));
        self.complaints += n;
        for _ in 0..n {
            match self.kind.complains {
                Complaint::Never => {}
                Complaint::NoRoute(who) => cx.chatter(&format!("{who}: no route\n")),
                Complaint::NoGateway => cx.chatter("SortedIPLookup: no gw\n"),
            }
        }
    }

    /// Lines about the first ones.
    fn tells_later(&self, _: u16) -> bool {
        true
    }

    fn states(&self) -> Vec<StateId> {
        vec![self.table]
    }
    element_takes!(complaints);
    element_any!();
}

#[cfg(test)]
mod tests;
