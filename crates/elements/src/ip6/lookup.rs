//! LookupIP6Route: longest-prefix match on the IPv6 destination annotation.
//!
//! Differences from Click: the look-up takes tens of nanoseconds whatever the number of routes; route changes take
//! effect at once (Click goes on using its last two results); masks must be contiguous.

use crate::routing::table::{Addr, Placing, Route, RouteTable, Routes, show_prefix};
use onefold_element::args::{ArgScope, Args, FromArg, Ip6Prefix, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, StateId,
    element_any, element_takes,
};
use onefold_packet::{Pkt, anno_field};
use std::fmt::Write;
use std::net::Ipv6Addr;

/// `LookupIP6Route`.
pub const LOOKUP_IP6_ROUTE: ElementClass = ElementClass {
    name: "LookupIP6Route",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "ADDR/MASK [GATEWAY] OUTPUT, ...",
    summary: "sends packets where their IPv6 destination's route goes",
    new: || {
        Box::new(LookupIp6Route {
            table: StateId(u32::MAX),
        })
    },
};

/// A later route for the same prefix replaces an earlier one.
#[derive(Debug, Clone)]
struct LookupIp6Route {
    table: StateId,
}

/// `ADDR/MASK [GATEWAY] OUTPUT`.
fn parse(text: &str, scope: &ArgScope<'_>) -> Option<(Ip6Prefix, u128, i32)> {
    let words = split_words(text);
    let (p, gw, port) = match words.as_slice() {
        [p, port] => (p, None, port),
        [p, gw, port] => (p, Some(gw), port),
        _ => return None,
    };
    let gw = match gw {
        Some(g) => u128::from(Ipv6Addr::from_arg(g, scope).ok()?),
        None => 0,
    };
    let prefix = Ip6Prefix::from_arg(p, scope).ok()?;
    Some((prefix, gw, i32::from_arg(port, scope).ok()?))
}

fn route(p: Ip6Prefix, gw: u128, port: u32, arg: Option<u32>) -> Route<u128> {
    Route {
        addr: u128::from(p.addr) & p.mask(),
        mask: p.mask(),
        gw,
        port,
        arg,
    }
}

const NO_ROUTE: DropReason = "LookupIP6Route: no route";

impl LookupIp6Route {
    fn table<'a>(&self, cx: &'a mut Cx<'_>) -> Result<&'a mut RouteTable<u128>, HandlerError> {
        let t = cx.store.get_mut::<Routes<u128>>(self.table);
        t.map(|t| &mut **t)
            .ok_or_else(|| HandlerError::BadValue("no table".to_string()))
    }

    fn command(&self, cmd: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let bad = |m: &str| Err(HandlerError::BadValue(m.to_string()));
        let names = cx.names();
        let scope = names.scope();
        match cmd {
            "add" => {
                let Some((p, gw, port)) = parse(text, &scope) else {
                    return bad("expected 'ADDR/MASK [GATEWAY] OUTPUT'");
                };
                let port = match u32::try_from(port) {
                    Ok(n) if (n as usize) < cx.noutputs => n,
                    _ => return bad("output port out of range"),
                };
                match self.table(cx)?.add(route(p, gw, port, None), true) {
                    Ok(_) => Ok(()),
                    Err(_) => bad("too many routes"),
                }
            }
            "remove" => {
                let Ok(p) = Ip6Prefix::from_arg(text.trim(), &scope) else {
                    return bad("expected 'ADDR/MASK'");
                };
                // as in Click, removing what is not there is no error
                self.table(cx)?.remove(u128::from(p.addr), p.mask(), None);
                Ok(())
            }
            _ => bad("bad command, should be `add' or `remove'"),
        }
    }

    #[cold]
    fn trace(&self, a: u128, cx: &mut Cx<'_>) {
        let table = cx.store.get::<Routes<u128>>(self.table);
        match table.and_then(|t| t.route_for(a).copied()) {
            Some(r) => cx.decide(r.arg.map(|i| i as usize), || {
                format!(
                    "{} matches {}: output {}",
                    a.show(),
                    show_prefix(&r),
                    r.port
                )
            }),
            None => cx.decide(None, || format!("no route for {}", a.show())),
        }
    }
}

impl Element for LookupIp6Route {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let mut table = RouteTable::new(Placing::First);
        let scope = args.scope();
        for (i, text) in args.rest() {
            let Some((p, gw, port)) = parse(text, &scope) else {
                let shown: String = text.chars().take(60).collect();
                let m = format!("expected 'ADDR/MASK [GATEWAY] OUTPUT', found '{shown}'");
                args.error_at(i, "ROUTE", m);
                continue;
            };
            match u32::try_from(port) {
                Ok(n) if (n as usize) < cx.noutputs => {
                    // taken out first, so that it goes where Click puts it
                    table.remove(u128::from(p.addr), p.mask(), None);
                    if table.add(route(p, gw, n, Some(i as u32)), true).is_err() {
                        args.error_at(i, "ROUTE", "too many routes");
                        break;
                    }
                }
                _ => {
                    let m = format!(
                        "output {port} is not connected, {} outputs are",
                        cx.noutputs
                    );
                    args.error_at(i, "OUTPUT", m);
                }
            }
        }
        if args.is_empty() {
            args.warning("no routes");
        }
        self.table = cx.store.alloc(Box::new(Routes::new(table)));
        cx.store.publish(cx.elem, self.table);
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let a = u128::from_be_bytes(p.anno.dst_ip6());
        if cx.host.tracing() {
            self.trace(a, cx);
        }
        let table = cx.store.get::<Routes<u128>>(self.table);
        match table.and_then(|t| t.lookup(a)) {
            Some(h) => {
                if h.gw != 0 {
                    p.anno.set_dst_ip6(h.gw.to_be_bytes());
                }
                cx.emit(h.port as usize, p);
            }
            None => cx.drop(p, NO_ROUTE),
        }
    }

    fn model(&self, _: Port, cx: &ModelCx<'_>) -> Model {
        let Some(t) = cx.store.get::<Routes<u128>>(self.table) else {
            return Model::None("no table");
        };
        let key = anno_field::DST_IP6.into();
        let Some(mut cases) = crate::routing::route_model::cases(t, key, cx) else {
            return Model::None("masks that are not contiguous");
        };
        cases.push(Case::new(Cond::Always, Exit::Drop(NO_ROUTE)));
        Model::Cases(cases)
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("table"),
            HandlerInfo::w("add"),
            HandlerInfo::w("remove"),
            HandlerInfo::w("ctrl"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        if name != "table" {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        let t = self.table(cx)?;
        let mut s = String::new();
        if !t.is_empty() {
            s.push_str("# Active routes\n");
        }
        for r in t.routes() {
            let _ = writeln!(s, "{}\t{}\t{}", show_prefix(r), r.gw.show(), r.port);
        }
        Ok(s)
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "add" | "remove" => self.command(name, value, cx),
            "ctrl" => {
                let v = value.trim();
                let (cmd, rest) = v.split_once(char::is_whitespace).unwrap_or((v, ""));
                self.command(cmd, rest, cx)
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn states(&self) -> Vec<StateId> {
        vec![self.table]
    }
    element_takes!();
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::ip6::testpkt::*;
    use crate::testing::Bench;
    use onefold_packet::Packet;

    fn go(b: &mut Bench, a: &str) -> Option<(usize, [u8; 16])> {
        let mut p = Box::new(Packet::from_slice(b"x"));
        p.anno.set_dst_ip6(addr(a));
        let out = b.push_packet(0, p);
        out.first().map(|(port, p)| (*port, p.anno.dst_ip6()))
    }

    /// The example of Click's page (with its typing errors mended).
    #[test]
    fn documented_example() {
        let c = "3ffe:1ce1:2::/128 ::0 0, 3ffe:1ce1:2:0:200::/128 ::0 0, 3ffe:1ce1:2::/80 ::0 1, \
                 3ffe:1ce1:2:0:200::/80 ::0 2, 0::ffff:0:0/96 ::0 3, ::0/0 3ffe:1ce1:2::2 1";
        let mut b = Bench::new("LookupIP6Route", c, 1, 4).unwrap();
        for (a, port, anno) in [
            ("3ffe:1ce1:2::", 0, "3ffe:1ce1:2::"),
            ("3ffe:1ce1:2::1", 1, "3ffe:1ce1:2::1"),
            ("3ffe:1ce1:2:0:200::1", 2, "3ffe:1ce1:2:0:200::1"),
            ("::ffff:1.2.3.4", 3, "::ffff:1.2.3.4"),
            ("2001:db8::1", 1, "3ffe:1ce1:2::2"),
        ] {
            assert_eq!(go(&mut b, a), Some((port, addr(anno))), "{a}");
        }
        assert_eq!(b.host.decisions[1].0, Some(2));
    }

    #[test]
    fn table_handlers_and_errors() {
        let c = "::1/128 0, 3ffe::/16 ::0 0, 1:2:3::4:5/64 3ffe::2 0, 3ffe::/16 1";
        let mut b = Bench::new("LookupIP6Route", c, 1, 2).unwrap();
        assert_eq!(
            b.read("table").unwrap(),
            "# Active routes\n::0.0.0.1/128\t::\t0\n3ffe::/16\t::\t1\n1:2:3::/64\t3ffe::2\t0\n"
        );
        assert_eq!(go(&mut b, "3ffe::9").unwrap().0, 1, "the later one counts");
        b.write("remove", "3ffe::/16").unwrap();
        b.write("remove", "3ffe::/16").unwrap();
        assert_eq!(go(&mut b, "3ffe::9"), None);
        assert_eq!(b.drops()["LookupIP6Route: no route"], 1);
        b.write("ctrl", "add 3ffe::/17 ::7 0").unwrap();
        assert_eq!(go(&mut b, "3ffe::9"), Some((0, addr("::7"))));
        assert!(b.write("add", "3ffe::/17 5").is_err());
        assert!(b.write("ctrl", "flush").is_err());
        let e = Bench::new("LookupIP6Route", "::1/128, ::/0 2, ::/0 x 0", 1, 2)
            .err()
            .unwrap();
        assert_eq!(
            e[0],
            "ROUTE: expected 'ADDR/MASK [GATEWAY] OUTPUT', found '::1/128'"
        );
        assert_eq!(e[1], "OUTPUT: output 2 is not connected, 2 outputs are");
        assert_eq!(e.len(), 3);
        assert_eq!(
            Bench::new("LookupIP6Route", "", 1, 1).unwrap().warnings,
            ["no routes"]
        );
    }
}
