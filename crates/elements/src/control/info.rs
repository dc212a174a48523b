//! Elements that hold information for others and see no packets: AddressInfo, PortInfo, AnnotationInfo, AlignmentInfo,
//! ScheduleInfo, ClickyInfo, FlowInfo and the thread schedulers.
//!
//! Click elements of the same names. Differences: there is one thread, so that thread preferences are checked and
//! otherwise ignored; AlignmentInfo too is only checked (data is never misaligned for us).

use onefold_element::args::{
    ArgScope, Args, FromArg, Ip4Prefix, Ip6Prefix, parse_fraction, split_words,
};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, NameDb, Port,
    element_any,
};
use onefold_packet::{EtherAddr, Pkt};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Which element it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Address,
    Port,
    Annotation,
    Alignment,
    Schedule,
    Threads,
    /// Accepts anything.
    Ignored,
}

const BASE: ElementClass = ElementClass {
    name: "AddressInfo",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "NAME ADDRESS ..., ...",
    summary: "names for IPv4, IPv6 and Ethernet addresses and prefixes",
    new: || info(Kind::Address),
};

/// The classes of this file.
pub const ADDRESS_INFO: ElementClass = BASE;
/// `PortInfo`.
pub const PORT_INFO: ElementClass = ElementClass {
    name: "PortInfo",
    usage: "NAME PORT[/PROTOCOL], ...",
    summary: "names for TCP and UDP ports",
    new: || info(Kind::Port),
    ..BASE
};
/// `AnnotationInfo`.
pub const ANNOTATION_INFO: ElementClass = ElementClass {
    name: "AnnotationInfo",
    usage: "NAME OFFSET [SIZE], ...",
    summary: "names for packet annotations",
    new: || info(Kind::Annotation),
    ..BASE
};
/// `AlignmentInfo`.
pub const ALIGNMENT_INFO: ElementClass = ElementClass {
    name: "AlignmentInfo",
    usage: "ELEMENT MODULUS OFFSET ..., ...",
    summary: "alignment of packet data at elements; checked and ignored",
    new: || info(Kind::Alignment),
    ..BASE
};
/// `ScheduleInfo`.
pub const SCHEDULE_INFO: ElementClass = ElementClass {
    name: "ScheduleInfo",
    usage: "ELEMENT PARAM, ...",
    summary: "shares of the processor for elements' tasks",
    new: || info(Kind::Schedule),
    ..BASE
};
/// `StaticThreadSched`.
pub const STATIC_THREAD_SCHED: ElementClass = ElementClass {
    name: "StaticThreadSched",
    usage: "ELEMENT THREAD, ...",
    summary: "binds elements to threads; there is one",
    new: || info(Kind::Threads),
    ..BASE
};
/// `DPDKInfo`.
pub const DPDK_INFO: ElementClass = ElementClass {
    name: "DPDKInfo",
    usage: "...",
    summary: "sizes of DPDK's memory; whoever opens a device decides on them",
    new: || info(Kind::Ignored),
    ..BASE
};
/// `BalancedThreadSched`.
pub const BALANCED_THREAD_SCHED: ElementClass = ElementClass {
    name: "BalancedThreadSched",
    usage: "...",
    summary: "balances tasks over threads; there is one",
    new: || info(Kind::Ignored),
    ..BASE
};
/// `ClickyInfo`.
pub const CLICKY_INFO: ElementClass = ElementClass {
    name: "ClickyInfo",
    usage: "...",
    summary: "hints for a graph viewer; ignored",
    new: || info(Kind::Ignored),
    ..BASE
};
/// `FlowInfo`.
pub const FLOW_INFO: ElementClass = ElementClass {
    name: "FlowInfo",
    usage: "...",
    summary: "flow codes for a graph viewer; ignored",
    new: || info(Kind::Ignored),
    ..BASE
};
/// `DevirtualizeInfo`.
pub const DEVIRTUALIZE_INFO: ElementClass = ElementClass {
    name: "DevirtualizeInfo",
    usage: "...",
    summary: "hints for an optimizer; ignored",
    new: || info(Kind::Ignored),
    ..BASE
};

fn info(kind: Kind) -> Box<dyn Element> {
    Box::new(Info {
        kind,
        tickets: Vec::new(),
    })
}

#[derive(Debug, Clone)]
struct Info {
    kind: Kind,
    tickets: Vec<(String, u32)>,
}

/// What the parts of one AddressInfo argument define so far: the first of each kind wins, unless a later part can be
/// nothing else.
#[derive(Default)]
struct Taken {
    ip4: bool,
    ip4_prefix: bool,
    ip6: bool,
    ip6_prefix: bool,
    ether: bool,
}

/// Defines `name` as the address `part`. False if it is no address.
fn define_address(
    scope_name: &str,
    element: &str,
    name: &str,
    part: &str,
    taken: &mut Taken,
    names: &mut NameDb,
) -> bool {
    let (ether, ip4, prefix4, ip6, prefix6) = {
        let scope = ArgScope {
            names,
            element,
            elements: &[],
        };
        let ip4 = Ipv4Addr::from_arg(part, &scope).ok();
        let prefix4 = match ip4 {
            Some(_) => None,
            None => Ip4Prefix::from_arg(part, &scope).ok(),
        };
        let ip6 = Ipv6Addr::from_arg(part, &scope).ok();
        let prefix6 = match ip6 {
            Some(_) => None,
            None => Ip6Prefix::from_arg(part, &scope).ok(),
        };
        (
            EtherAddr::from_arg(part, &scope).ok(),
            ip4,
            prefix4,
            ip6,
            prefix6,
        )
    };
    let ip4 = ip4.or_else(|| {
        let p = prefix4?;
        let (a, m) = (u32::from(p.addr), u32::from(p.mask));
        (a & !m != 0).then_some(p.addr)
    });
    let ip6 = ip6.or_else(|| {
        let p = prefix6?;
        (u128::from(p.addr) & !p.mask() != 0).then_some(p.addr)
    });
    let found = [
        ether.is_some(),
        ip4.is_some(),
        prefix4.is_some(),
        ip6.is_some(),
        prefix6.is_some(),
    ];
    let only = found.iter().filter(|f| **f).count() == 1;
    let entry = names.define(scope_name, name);
    if let Some(e) = ether.filter(|_| only || !taken.ether) {
        entry.ether = Some(e);
    }
    if let Some(a) = ip4.filter(|_| only || !taken.ip4) {
        entry.ip4 = Some(a.octets());
    }
    if let Some(p) = prefix4.filter(|_| only || !taken.ip4_prefix) {
        entry.ip4_prefix = Some((p.addr.octets(), p.mask.octets()));
    }
    if let Some(a) = ip6.filter(|_| only || !taken.ip6) {
        entry.ip6 = Some(a.octets());
    }
    if let Some(p) = prefix6.filter(|_| only || !taken.ip6_prefix) {
        entry.ip6_prefix = Some((p.addr.octets(), p.len));
    }
    taken.ether |= ether.is_some();
    taken.ip4 |= ip4.is_some();
    taken.ip4_prefix |= prefix4.is_some();
    taken.ip6 |= ip6.is_some();
    taken.ip6_prefix |= prefix6.is_some();
    found.contains(&true)
}

fn define_ports(scope: &str, words: &[&str], names: &mut NameDb) -> Result<(), String> {
    let wanted = "expected 'NAME PORT/PROTOCOL'";
    let [name, port, others @ ..] = words else {
        return Err(wanted.into());
    };
    let (number, protocol) = port.split_once('/').unwrap_or((port, ""));
    let number: u16 = number.parse().map_err(|_| wanted.to_string())?;
    if !matches!(protocol, "" | "tcp" | "udp") {
        // as Click, names for other protocols' ports are accepted
        return Ok(());
    }
    for n in std::iter::once(name).chain(others) {
        if n.starts_with('#') {
            break;
        }
        names.define_port(scope, n, number);
    }
    Ok(())
}

impl Element for Info {
    fn configure_phase(&self) -> i32 {
        match self.kind {
            Kind::Address | Kind::Port | Kind::Annotation | Kind::Alignment | Kind::Schedule => 0,
            _ => 100,
        }
    }

    fn define_names(
        &self,
        name: &str,
        args: &[String],
        names: &mut NameDb,
    ) -> Result<(), ConfigErrors> {
        let scope = name.rsplit_once('/').map_or("", |(p, _)| p);
        let mut errors = Vec::new();
        for (i, arg) in args.iter().enumerate() {
            let words = split_words(arg);
            let Some(first) = words.first().filter(|w| !w.starts_with('#')) else {
                continue;
            };
            match self.kind {
                Kind::Address => {
                    if words.len() < 2 {
                        errors.push(ConfigError::at(i, "NAME", "expected 'NAME [ADDRS]'"));
                    }
                    let mut taken = Taken::default();
                    for part in &words[1..] {
                        if !define_address(scope, name, first, part, &mut taken, names) {
                            let m = format!("'{part}' is not a recognizable address");
                            errors.push(ConfigError::at(i, first, m));
                        }
                    }
                }
                Kind::Port => {
                    if let Err(m) = define_ports(scope, &words, names) {
                        errors.push(ConfigError::at(i, first, m));
                    }
                }
                Kind::Annotation if *first != "CHECK_OVERLAP" => {
                    if let Err(m) = names.define_annotation(first, &words[1..]) {
                        errors.push(ConfigError::at(i, first, m));
                    }
                }
                _ => {}
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        for (i, arg) in args.rest() {
            let words = split_words(arg);
            let Some(first) = words.first() else {
                continue;
            };
            match self.kind {
                Kind::Schedule => {
                    // 1024 tickets are a share of 1
                    let share = match &words[..] {
                        [_, share] => parse_fraction(share, 3),
                        _ => None,
                    };
                    match share {
                        Some(s) => {
                            let n = u32::try_from(s * 1024 / 1000).unwrap_or(u32::MAX);
                            self.tickets.push((first.to_string(), n.max(1)));
                        }
                        None => args.error_at(i, first, "expected 'ELEMENTNAME PARAM'"),
                    }
                }
                Kind::Threads => {
                    let [name, thread] = &words[..] else {
                        args.error_at(i, "THREAD", "expected 'ELEMENT THREAD'");
                        continue;
                    };
                    match thread.parse::<i32>() {
                        Err(_) => args.error_at(i, "THREAD", "expected a thread number"),
                        Ok(0 | -1) => {}
                        Ok(t) => args.warning(format!("thread preference {t} out of range")),
                    }
                    // a compound's name, in this element's own scope, stands for all that is in it
                    let scope = cx.name.rsplit_once('/').map_or("", |(s, _)| s);
                    let slash = if scope.is_empty() { "" } else { "/" };
                    let within = format!("{scope}{slash}{name}/");
                    let known = cx.find_element(name).is_some()
                        || cx.elements.iter().any(|e| e.starts_with(&within));
                    if !known {
                        let m = format!("'{name}' does not name an element");
                        args.error_at(i, "ELEMENT", m);
                    }
                }
                Kind::Alignment if cx.find_element(first).is_some() => {
                    if words.len() % 2 != 1 {
                        let m = "expected 'ELEMENTNAME CHUNK OFFSET [CHUNK OFFSET...]'";
                        args.error_at(i, "ELEMENT", m);
                    }
                    for w in words[1..].iter().filter(|w| w.parse::<i32>().is_err()) {
                        args.error_at(i, "CHUNK", format!("expected a number, found '{w}'"));
                    }
                }
                _ => {}
            }
        }
        args.finish()
    }

    fn tickets(&self) -> &[(String, u32)] {
        &self.tickets
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("information element: takes no packets")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "information element: has no ports");
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_element::NameDb;

    fn names(class: &str, args: &[&str]) -> Result<NameDb, Vec<String>> {
        let mut db = NameDb::default();
        let e = (crate::lookup(class).unwrap().new)();
        let args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
        match e.define_names("a/info", &args, &mut db) {
            Ok(()) => Ok(db),
            Err(e) => Err(e.iter().map(|e| e.to_string()).collect()),
        }
    }

    #[test]
    fn addresses_of_several_kinds() {
        let db = names(
            "AddressInfo",
            &[
                "me 10.0.0.1/24 00:01:02:03:04:05 ::1",
                "you me",
                "",
                "# comment",
            ],
        )
        .unwrap();
        assert_eq!(db.ip4("me", "a/x"), Some([10, 0, 0, 1]));
        assert_eq!(db.ip4("me:bcast", "a/x"), Some([10, 0, 0, 255]));
        let ether = db.ether("me", "a/x").map(|e| e.0);
        assert_eq!(ether, Some([0, 1, 2, 3, 4, 5]));
        assert_eq!(db.ip4("you", "a/x"), Some([10, 0, 0, 1]));
        // defined inside compound `a` only
        assert_eq!(db.ip4("me", "b/x"), None);
        let e = names("AddressInfo", &["x nonsense", "y"]).err().unwrap();
        assert_eq!(e[0], "x: 'nonsense' is not a recognizable address");
        assert_eq!(e[1], "NAME: expected 'NAME [ADDRS]'");
    }

    #[test]
    fn ports_and_annotations() {
        let db = names("PortInfo", &["mine 4711/udp also", "x 5/tcp"]).unwrap();
        assert_eq!(db.port("mine", "a/x"), Some(4711));
        assert_eq!(db.port("also", "a/x"), Some(4711));
        assert_eq!(db.port("http", "a/x"), Some(80));
        assert!(names("PortInfo", &["mine"]).is_err());
        let db = names("AnnotationInfo", &["COLOUR 16 1"]).unwrap();
        assert!(db.annotation("COLOUR").is_some());
        assert!(names("AnnotationInfo", &["PAINT 3"]).is_err());
        assert!(names("AnnotationInfo", &["BIG 47 4"]).is_err());
    }

    #[test]
    fn the_rest_checks_its_arguments() {
        assert!(Bench::new("ScheduleInfo", "e0 0.5, e0 2", 0, 0).is_ok());
        assert!(Bench::new("ScheduleInfo", "e0", 0, 0).is_err());
        assert!(Bench::new("StaticThreadSched", "e0 0", 0, 0).is_ok());
        assert!(Bench::new("StaticThreadSched", "nobody 0", 0, 0).is_err());
        assert!(Bench::new("AlignmentInfo", "e0 4 2", 0, 0).is_ok());
        assert!(Bench::new("AlignmentInfo", "e0 4", 0, 0).is_err());
        assert!(Bench::new("ClickyInfo", "anything goes", 0, 0).is_ok());
    }
}
