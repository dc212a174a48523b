//! `nat`: translates addresses (and ports) between port 0 (inside) and port 1 (outside).
//!
//! *NAPT* (the default): flows from inside get an address of the pool and a port of the range; replies find their way
//! back. *One-to-one*: each inside address has an outside address of its own, both ways, with static rules. Static
//! forwards let flows from outside in. With `hairpin`, inside hosts reach each other through outside addresses.
//!
//! Behaviour is that of RFC 4787, 5382, 5508 and 7857 (docs/nat-behaviour.md): an inside address and port has one outside
//! address and port, whomever it talks to, and nobody else has them; all flows and pings of a host have one outside
//! address. No flow takes another one's place. ICMP errors: the packet that they quote is translated back, and no inside
//! address gets out. Fragments follow their first one. `mapping: address-and-port` is Click's way: each flow chooses
//! for itself.

use super::side::Side;
use super::{
    ClickText, Encap, FRAGMENTED, ICMP_ERRORS, KindCx, NOT_IP4, VLAN_TAGGED, WRONG_SIDE, discard,
};
use crate::file::Loc;
use crate::workers::{Kind, Share, Translator};
use onefold_nat::MAX_FLOWS;
use onefold_partition::{Pool, Transport, slice_of};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// Ports: 0 inside, 1 outside.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nat {
    /// Outside address or pool for NAPT: `203.0.113.1` or `203.0.113.1-203.0.113.4`.
    pub pool: Option<Loc<String>>,
    /// Port range of NAPT: `1-65535` if not given, of which ports below 1024 are for flows that have such ports inside;
    /// with `mapping: address-and-port` `1024-65535`.
    pub port_range: Option<Loc<String>>,
    /// What flows of one inside address and port have in common; `endpoint-independent` if not given.
    pub mapping: Option<Loc<Mapping>>,
    /// Who may send to a port that an inside host has; `address-and-port` if not given.
    pub filtering: Option<Loc<Filtering>>,
    /// One-to-one pairs: `10.0.0.5 = 203.0.113.5`.
    pub one_to_one: Option<Vec<Loc<String>>>,
    /// Flows from outside that are let in: `tcp 203.0.113.1:80 -> 10.0.0.5:8080`.
    pub forward: Option<Vec<Loc<String>>>,
    /// Inside hosts may reach each other through outside addresses.
    #[serde(default)]
    pub hairpin: bool,
    /// Seconds after which an idle TCP flow is forgotten; IPRewriter's default if not given.
    pub tcp_timeout: Option<Loc<u32>>,
    /// Seconds after which an idle UDP flow is forgotten.
    pub udp_timeout: Option<Loc<u32>>,
    /// Most flows, at most 4,194,304, which is also what there is room for if not given.
    pub capacity: Option<Loc<u32>>,
    /// Decrements the TTL, as a routing hop does.
    #[serde(default)]
    pub decrement_ttl: bool,
    /// New Ethernet header for what leaves at port 0; if not given the frame's own stays.
    pub encap_inside: Option<Encap>,
    /// New Ethernet header for what leaves at port 1.
    pub encap_outside: Option<Encap>,
}

/// What flows of one inside address and port have in common (RFC 4787 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// One outside address and port, which nobody else has. All flows of a host have one outside address.
    #[default]
    EndpointIndependent,
    /// Nothing, as in Click: flows with several destinations may share a port, and take addresses in turn.
    AddressAndPort,
}

/// Who may send to an outside address and port that an inside host has (RFC 4787 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Filtering {
    /// Whom the host has sent to from there.
    #[default]
    AddressAndPort,
    /// Everybody. Goes with `mapping: endpoint-independent`.
    EndpointIndependent,
}

/// Nodes of each outside address on the ring that says which one a host has, and the ring's seed: a change of the pool
/// moves few hosts, and workers agree.
const RING: (u32, u32) = (64, 1);
/// Most outside addresses of a pool.
const MAX_POOL: u32 = 256;
/// Identifiers of echo requests.
const PINGS: (u16, u16) = (1, 65535);
/// What is said of packets from outside that belong to no flow and no forward.
const UNMAPPED: &str = "no mapping for this inbound packet";
/// What is said of IP packets that cannot be translated.
const NO_PORTS: &str = "neither TCP, UDP nor ICMP";

impl Nat {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        match (&self.pool, &self.one_to_one) {
            (Some(p), None) => self.napt(cx, p),
            (None, Some(list)) => self.static_pairs(cx, list),
            _ => {
                cx.error_whole("give either 'pool' (address and port translation) or 'one-to-one'");
                String::new()
            }
        }
    }

    fn napt(&self, cx: &mut KindCx<'_>, pool: &Loc<String>) -> String {
        if let Some(f) = &self.filtering
            && f.value == Filtering::EndpointIndependent
            && !self.is_independent()
        {
            cx.error(
                f,
                "'filtering: endpoint-independent' goes with 'mapping: endpoint-independent'",
            );
        }
        let Some((lo, hi)) = addresses(&pool.value) else {
            cx.error(
                pool,
                format!(
                    "expected an address or a range of at most {MAX_POOL}, found '{}'",
                    pool.value
                ),
            );
            return String::new();
        };
        let independent = self.is_independent();
        let all = if independent { "1-65535" } else { "1024-65535" };
        let ports = self
            .port_range
            .as_ref()
            .map_or(all.to_string(), |p| p.value.clone());
        if range(&ports).is_none() {
            if let Some(p) = &self.port_range {
                cx.error(
                    p,
                    format!("expected a port range such as 1024-65535, found '{ports}'"),
                );
            }
            return String::new();
        }
        let mut options = self.capacity_option(cx);
        for (name, v) in [
            ("TCP_TIMEOUT", &self.tcp_timeout),
            ("UDP_TIMEOUT", &self.udp_timeout),
        ] {
            if let Some(v) = v {
                options.push_str(&format!(", {name} {}", v.value));
            }
        }
        let forwards = self.forwards(cx);
        let Some((ports, pings)) = self.shares(cx, pool, &ports, (lo, hi), &forwards) else {
            return String::new();
        };
        let mut t = ClickText::new();
        // Inputs: 0 from inside, 1 from outside, then one per forward. Outputs: 0 to outside, 1 to inside.
        // A pattern varies ports only: a pool of several addresses is a mapper with a pattern for each.
        let pool_at = cx.at(pool);
        if lo == hi {
            t.line("rw :: IPRewriter(");
            t.line_at(cx.reader, pool_at, format!("pattern {lo} {ports} - - 0 1,"));
        } else {
            self.mapper(cx, &mut t, "pool", (lo, hi), &ports);
            t.line("rw :: IPRewriter(pool,");
        }
        let from_outside = match self.filtering() {
            Filtering::AddressAndPort => format!("drop \"{UNMAPPED}\""),
            Filtering::EndpointIndependent => "mapped 1 0".to_string(),
        };
        t.line(from_outside);
        for (f, spec) in &forwards {
            t.line_at(
                cx.reader,
                cx.at(f),
                format!(", pattern - - {} {} 1 0", spec.inside, spec.inside_port),
            );
        }
        // the second turn of packets between inside hosts
        let turned = match self.hairpin && independent {
            true => ", mapped 1 0",
            false => "",
        };
        t.line(turned);
        let promises = format!(", TAKE_OVER false, FRAGMENTS {FRAGMENTED}");
        t.line(format!("{options}{promises}, TCP_HANDSHAKE true"));
        if independent {
            t.line(", MAPPING endpoint");
            let reserved: Vec<String> = forwards.iter().map(|(_, s)| s.reserved()).collect();
            if !reserved.is_empty() {
                t.line(format!(", RESERVED \"{}\"", reserved.join(" ")));
            }
        }
        t.line(");");
        let request = match independent && lo != hi {
            true => {
                self.mapper(cx, &mut t, "ping_pool", (lo, hi), &pings);
                "ping_pool".to_string()
            }
            false => format!("pattern {lo} {pings} - - 0 1"),
        };
        let mapping = if independent { ", MAPPING endpoint" } else { "" };
        t.line(format!(
            "ping :: ICMPPingRewriter({request}, drop \"{UNMAPPED}\"{turned}{promises}{mapping});"
        ));
        t.line("err_out :: ICMPRewriter(rw:0 ping:0, SOURCE all, STRICT true);");
        t.line("err_in :: ICMPRewriter(rw:0 ping:0, SOURCE own, STRICT true);");
        let outside = (u32::from(lo)..=u32::from(hi)).map(Ipv4Addr::from);
        self.frames(cx, &mut t, outside.collect());
        self.napt_ways(&mut t, &forwards, (lo, hi));
        t.finish()
    }

    fn is_independent(&self) -> bool {
        let how = self.mapping.as_ref().map(|m| m.value);
        how.unwrap_or_default() == Mapping::EndpointIndependent
    }

    fn filtering(&self) -> Filtering {
        let how = self.filtering.as_ref().map(|f| f.value);
        how.unwrap_or_default()
    }

    /// Which address of the pool a flow gets: that of its host, or each in turn.
    fn mapper(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        name: &str,
        (lo, hi): (Ipv4Addr, Ipv4Addr),
        ports: &str,
    ) {
        let independent = self.is_independent();
        t.line(match independent {
            true => format!("{name} :: SourceIPHashMapper({} {},", RING.0, RING.1),
            false => format!("{name} :: RoundRobinIPMapper("),
        });
        let pool_at = match &self.pool {
            Some(p) => cx.at(p),
            None => cx.span,
        };
        let (first, last) = (u32::from(lo), u32::from(hi));
        for a in first..=last {
            let comma = if a < last { "," } else { "" };
            let id = match independent {
                true => format!(" {}", a - first),
                false => String::new(),
            };
            let pattern = format!("{} {ports} - - 0 1{id}{comma}", Ipv4Addr::from(a));
            t.line_at(cx.reader, pool_at, pattern);
        }
        t.line(");");
    }

    /// Which rewriter packets of each side come to, and where they leave.
    fn napt_ways(
        &self,
        t: &mut ClickText,
        forwards: &[(&Loc<String>, Forward)],
        (lo, hi): (Ipv4Addr, Ipv4Addr),
    ) {
        // the last kind of ICMP packets are later fragments, which have no type
        t.line(
            "from_in -> c_in :: IPClassifier(tcp or udp, icmp type echo, icmp type >= 0, icmp, -);",
        );
        t.line("c_in[0] -> [0]rw; c_in[1] -> [0]ping; c_in[2] -> err_out; c_in[3] -> [0]ping;");
        let mut rules: Vec<String> = forwards.iter().map(|(_, s)| s.filter()).collect();
        let n = rules.len();
        let others = [
            "tcp or udp",
            "icmp type echo-reply",
            "icmp type >= 0",
            "icmp",
            "-",
        ];
        rules.extend(others.map(String::from));
        t.line(format!(
            "from_out -> c_out :: IPClassifier({});",
            rules.join(", ")
        ));
        for i in 0..n {
            t.line(format!("c_out[{i}] -> [{}]rw;", 2 + i));
        }
        let [rw, reply, errors, later, rest] = std::array::from_fn(|i| n + i);
        t.line(format!(
            "c_out[{rw}] -> [1]rw; c_out[{reply}] -> [1]ping; c_out[{errors}] -> err_in;"
        ));
        let no_ports = discard(NO_PORTS);
        t.line(format!(
            "c_out[{later}] -> [1]ping; c_in[4] -> {no_ports}; c_out[{rest}] -> {no_ports};"
        ));
        if self.hairpin {
            // What was translated on its way out and goes to an outside address of ours comes in again at once: not for
            // ever, should it be translated into such a packet each time.
            let turned = match self.is_independent() {
                true => "turned",
                false => "from_out",
            };
            t.line(format!(
                "rw[0] -> hair :: IPClassifier({}, -) -> LoopGuard -> {turned};",
                pool_filter(lo, hi)
            ));
            t.line("err_out[0] -> hair; hair[1] -> to_out;");
        } else {
            t.line("rw[0] -> to_out; err_out[0] -> to_out;");
        }
        if self.hairpin && self.is_independent() {
            self.turned(t, forwards);
        } else {
            t.line("ping[0] -> to_out;");
        }
        t.line("rw[1] -> to_in; ping[1] -> to_in; err_in[1] -> to_in;");
        // errors about packets of the side that they come from
        let wrong_side = discard(WRONG_SIDE);
        t.line(format!(
            "err_out[1] -> {wrong_side}; err_in[0] -> {wrong_side};"
        ));
    }

    /// Packets between inside hosts, after their first turn: they go to whom their destination belongs to, whoever they
    /// are from. Who may send to a mapping from outside is another matter.
    fn turned(&self, t: &mut ClickText, forwards: &[(&Loc<String>, Forward)]) {
        let mut rules: Vec<String> = forwards.iter().map(|(_, s)| s.filter()).collect();
        let n = rules.len();
        let others = [
            "tcp or udp",
            "icmp type echo",
            "icmp type echo-reply",
            "icmp type >= 0",
            "icmp",
            "-",
        ];
        rules.extend(others.map(String::from));
        t.line(format!("turned :: IPClassifier({});", rules.join(", ")));
        for i in 0..n {
            t.line(format!("turned[{i}] -> [{}]rw;", 2 + i));
        }
        let [flows, asked, reply, errors, later, rest] = std::array::from_fn(|i| n + i);
        t.line(format!(
            "turned[{flows}] -> [{}]rw; turned[{asked}] -> [2]ping; turned[{reply}] -> [1]ping;",
            2 + n
        ));
        t.line(format!(
            "turned[{errors}] -> err_in; turned[{later}] -> [1]ping; turned[{rest}] -> {};",
            discard(NO_PORTS)
        ));
        t.line("ping[0] -> hair;");
    }

    /// The worker's slices of the port range and of the identifiers of echo requests, as patterns have them; one worker
    /// has all. What the NAT hands out is noted for the partition.
    fn shares(
        &self,
        cx: &mut KindCx<'_>,
        pool: &Loc<String>,
        ports: &str,
        addresses: (Ipv4Addr, Ipv4Addr),
        forwards: &[(&Loc<String>, Forward)],
    ) -> Option<(String, String)> {
        let range = range(ports)?;
        let at = self.port_range.as_ref().unwrap_or(pool);
        let span = cx.at(at);
        cx.reader.translators.push(Translator {
            function: cx.name.to_string(),
            span,
            kind: Kind::Nat(Pool {
                addresses,
                ports: range,
                identifiers: PINGS,
                forwards: forwards.iter().map(|(_, f)| f.told()).collect(),
            }),
            hairpin: self.hairpin,
            reserves: self.is_independent(),
        });
        let Share { worker, workers } = cx.reader.share;
        if workers == 1 {
            return Some((ports.to_string(), format!("{}-{}", PINGS.0, PINGS.1)));
        }
        let slices = (
            slice_of(range, worker, workers),
            slice_of(PINGS, worker, workers),
        );
        let (Some((a, b)), Some((c, d))) = slices else {
            let all = usize::from(range.1 - range.0) + 1;
            let message = format!(
                "{}: {all} ports are too few for {workers} workers, each of which hands out its own",
                cx.name
            );
            let hint =
                format!("give at least {workers} ports with 'port-range', or use fewer workers");
            cx.reader.error_hint(span, message, hint);
            return None;
        };
        Some((format!("{a}-{b}"), format!("{c}-{d}")))
    }

    /// The rewriter's capacity; an error is recorded where it is out of range.
    fn capacity_option(&self, cx: &mut KindCx<'_>) -> String {
        match &self.capacity {
            Some(v) if v.value as usize > MAX_FLOWS => {
                cx.error(
                    v,
                    format!(
                        "capacity {} out of range, at most {MAX_FLOWS} flows",
                        v.value
                    ),
                );
                String::new()
            }
            Some(v) => format!(", MAPPING_CAPACITY {}", v.value),
            None => String::new(),
        }
    }

    fn static_pairs(&self, cx: &mut KindCx<'_>, list: &[Loc<String>]) -> String {
        for (what, given) in [
            ("forward", self.forward.is_some()),
            ("port-range", self.port_range.is_some()),
            ("tcp-timeout", self.tcp_timeout.is_some()),
            ("udp-timeout", self.udp_timeout.is_some()),
            ("mapping", self.mapping.is_some()),
            ("filtering", self.filtering.is_some()),
        ] {
            if given {
                cx.error_whole(format!("'{what}' goes with 'pool', not with 'one-to-one'"));
            }
        }
        let pairs = pairs(cx, list);
        if list.is_empty() {
            cx.error_whole("'one-to-one' needs at least one pair");
        }
        if pairs.is_empty() {
            return String::new();
        }
        cx.translates(Kind::Pairs);
        let mut t = ClickText::new();
        // Input i: from inside for pair i; input n+i: from outside for pair i.
        t.line("rw :: IPAddrPairRewriter(");
        for (l, (_, outside)) in &pairs {
            t.line_at(cx.reader, cx.at(l), format!("pattern {outside} - 0 1,"));
        }
        for (l, (inside, _)) in &pairs {
            // flows that start outside: to the outside address, rewritten to the inside one
            t.line_at(cx.reader, cx.at(l), format!("pattern - {inside} 1 0,"));
        }
        t.line(format!("TAKE_OVER false{});", self.capacity_option(cx)));
        self.frames(cx, &mut t, pairs.iter().map(|(_, p)| p.1).collect());
        // a type is asked of ICMP packets only: see the load balancer
        t.line(
            "from_in -> q_in :: IPClassifier(icmp, -); from_out -> q_out :: IPClassifier(icmp, -);",
        );
        t.line(format!(
            "q_in[0] -> k_in :: IPClassifier({ICMP_ERRORS}, -);"
        ));
        t.line(format!(
            "q_out[0] -> k_out :: IPClassifier({ICMP_ERRORS}, -);"
        ));
        let side = |f: &dyn Fn(&(Ipv4Addr, Ipv4Addr)) -> String| -> String {
            let mut v: Vec<String> = pairs.iter().map(|(_, p)| f(p)).collect();
            v.push("-".into());
            v.join(", ")
        };
        let n = pairs.len();
        t.line(format!(
            "q_in[1] -> c_in :: IPClassifier({});",
            side(&|p| format!("src host {}", p.0))
        ));
        t.line(format!(
            "q_out[1] -> c_out :: IPClassifier({});",
            side(&|p| format!("dst host {}", p.1))
        ));
        for i in 0..n {
            t.line(format!(
                "c_in[{i}] -> [{i}]rw; c_out[{i}] -> [{}]rw;",
                n + i
            ));
        }
        t.line(format!(
            "c_in[{n}] -> {}; c_out[{n}] -> {};",
            discard("source address is in no one-to-one pair"),
            discard("destination address is in no one-to-one pair")
        ));
        if self.hairpin {
            let own: Vec<String> = (pairs.iter().map(|(_, p)| format!("dst host {}", p.1))).collect();
            t.line(format!(
                "rw[0] -> hair :: IPClassifier(({}), -) -> LoopGuard -> from_out; hair[1] -> to_out;",
                own.join(" or ")
            ));
        } else {
            t.line("rw[0] -> to_out;");
        }
        t.line("rw[1] -> to_in; k_in[1] -> c_in; k_out[1] -> c_out;");
        static_errors(&mut t, &pairs);
        t.finish()
    }

    /// Devices, header checks and encapsulation around the translation; `own`: the outside addresses.
    fn frames(&self, cx: &mut KindCx<'_>, t: &mut ClickText, own: Vec<Ipv4Addr>) {
        let ttl = if self.decrement_ttl {
            "DecIPTTL -> "
        } else {
            ""
        };
        let inside = Side {
            port: 0,
            encap: self.encap_inside.as_ref(),
            own: Vec::new(),
        };
        let outside = Side {
            port: 1,
            encap: self.encap_outside.as_ref(),
            own,
        };
        outside.leave(cx, t, &format!("to_out :: Null -> {ttl}"));
        inside.leave(cx, t, &format!("to_in :: Null -> {ttl}"));
        let arp = [inside.arp(cx, &outside), outside.arp(cx, &inside)];
        for (n, (name, arp)) in ["from_in", "from_out"].iter().zip(arp).enumerate() {
            t.line(format!(
                "FromDevice({n}) -> e{n} :: Classifier(12/0800, 12/0806, 12/8100, -);"
            ));
            t.line(format!(
                "e{n}[0] -> Strip(14) -> CheckIPHeader -> {name} :: Null;"
            ));
            t.line(format!(
                "e{n}[1] -> {arp}; e{n}[2] -> {}; e{n}[3] -> {};",
                discard(VLAN_TAGGED),
                discard(NOT_IP4)
            ));
        }
    }

    fn forwards<'a>(&'a self, cx: &mut KindCx<'_>) -> Vec<(&'a Loc<String>, Forward)> {
        let mut out: Vec<(_, Forward)> = Vec::new();
        for f in self.forward.iter().flatten() {
            match Forward::parse(&f.value) {
                Some(spec) if out.iter().any(|(_, o)| o.filter() == spec.filter()) => cx.error(
                    f,
                    format!(
                        "{} {}:{} is forwarded already",
                        spec.proto, spec.outside, spec.outside_port
                    ),
                ),
                Some(spec) => out.push((f, spec)),
                None => cx.error(
                    f,
                    format!(
                        "expected 'tcp 203.0.113.1:80 -> 10.0.0.5:8080', found '{}'",
                        f.value
                    ),
                ),
            }
        }
        out
    }
}

/// A pair of addresses, inside and outside, with its place.
type Pair<'a> = (&'a Loc<String>, (Ipv4Addr, Ipv4Addr));

/// Reads one-to-one pairs: no address is in two of them.
fn pairs<'a>(cx: &mut KindCx<'_>, list: &'a [Loc<String>]) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    let (mut inside, mut outside) = (BTreeSet::new(), BTreeSet::new());
    for l in list {
        let p = l.value.split_once('=').and_then(|(a, b)| {
            Some((
                a.trim().parse::<Ipv4Addr>().ok()?,
                b.trim().parse::<Ipv4Addr>().ok()?,
            ))
        });
        match p {
            Some(p) if !inside.insert(p.0) => {
                cx.error(l, format!("inside address {} has a pair already", p.0));
            }
            Some(p) if !outside.insert(p.1) => {
                cx.error(l, format!("outside address {} has a pair already", p.1));
            }
            Some(p) => pairs.push((l, p)),
            None => cx.error(l, format!("expected INSIDE = OUTSIDE, found '{}'", l.value)),
        }
    }
    pairs
}

/// ICMP errors through one-to-one translation, from `k_in[0]` and `k_out[0]`. The packet that an error quotes
/// is translated first. An inside sender with a pair is then translated as in any packet of its own; one without gets
/// the outside address of who the quoted packet was for (RFC 5508 REQ-5).
fn static_errors(t: &mut ClickText, pairs: &[Pair<'_>]) {
    let own: Vec<String> = pairs
        .iter()
        .map(|(_, p)| format!("src host {}", p.0))
        .collect();
    let own = own.join(" or ");
    t.line(format!("k_in[0] -> who :: IPClassifier({own}, -);"));
    let wrong_side = discard(WRONG_SIDE);
    t.line("who[0] -> err_own :: ICMPRewriter(rw:0, STRICT true); err_own[0] -> c_in;");
    t.line("who[1] -> err_out :: ICMPRewriter(rw:0, SOURCE all, STRICT true);");
    t.line(format!(
        "err_own[1] -> {wrong_side}; err_out[0] -> to_out; err_out[1] -> {wrong_side};"
    ));
    t.line("k_out[0] -> err_in :: ICMPRewriter(rw:0, SOURCE own, STRICT true);");
    t.line(format!("err_in[1] -> to_in; err_in[0] -> {wrong_side};"));
}

/// A static forward.
struct Forward {
    proto: String,
    outside: Ipv4Addr,
    outside_port: u16,
    inside: Ipv4Addr,
    inside_port: u16,
}

impl Forward {
    fn parse(s: &str) -> Option<Forward> {
        let (left, right) = s.split_once("->")?;
        let (proto, outside) = left.trim().split_once(' ')?;
        if proto != "tcp" && proto != "udp" {
            return None;
        }
        let at = |s: &str| -> Option<(Ipv4Addr, u16)> {
            let (a, p) = s.trim().split_once(':')?;
            Some((a.parse().ok()?, p.parse().ok()?))
        };
        let ((outside, outside_port), (inside, inside_port)) = (at(outside)?, at(right)?);
        Some(Forward {
            proto: proto.to_string(),
            outside,
            outside_port,
            inside,
            inside_port,
        })
    }
    /// What no mapping gets.
    fn reserved(&self) -> String {
        format!("{} {} {}", self.proto, self.outside, self.outside_port)
    }
    /// As the partition has it.
    fn told(&self) -> onefold_partition::Forward {
        onefold_partition::Forward {
            transport: match self.proto.as_str() {
                "tcp" => Transport::Tcp,
                _ => Transport::Udp,
            },
            address: self.outside,
            port: self.outside_port,
            host: self.inside,
        }
    }
    fn filter(&self) -> String {
        format!(
            "dst host {} && {} dst port {}",
            self.outside, self.proto, self.outside_port
        )
    }
}

fn addresses(s: &str) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let (a, b) = s.split_once('-').unwrap_or((s, s));
    let (a, b): (Ipv4Addr, Ipv4Addr) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
    let n = u32::from(b).checked_sub(u32::from(a))?;
    (n < MAX_POOL).then_some((a, b))
}

fn pool_filter(lo: Ipv4Addr, hi: Ipv4Addr) -> String {
    let all: Vec<String> = (u32::from(lo)..=u32::from(hi))
        .map(|a| format!("dst host {}", Ipv4Addr::from(a)))
        .collect();
    format!("({})", all.join(" or "))
}

fn range(s: &str) -> Option<(u16, u16)> {
    let n = |s: &str| s.trim().parse::<u16>().ok().filter(|p| *p > 0);
    let (a, b) = s.split_once('-').unwrap_or((s, s));
    Some((n(a)?, n(b)?)).filter(|(a, b)| a <= b)
}
