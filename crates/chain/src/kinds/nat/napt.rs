//! Address and port translation: one outside address or a pool.

use super::{Filtering, Forward, Nat};
use crate::file::Loc;
use crate::kinds::{ClickText, FRAGMENTED, KindCx, WRONG_SIDE, discard};
use crate::workers::{Kind, Share, Translator};
use onefold_click::source::Span;
use onefold_partition::{Pool, slice_of};
use std::net::Ipv4Addr;

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

/// What the NAT hands out, and where that stands in the chain file.
struct Handed {
    addresses: (Ipv4Addr, Ipv4Addr),
    /// Ranges of ports and of identifiers, of one worker.
    ports: String,
    pings: String,
    pool_at: Span,
}

/// Forwards with their places.
type Forwards<'a> = [(&'a Loc<String>, Forward)];

impl Nat {
    pub(super) fn napt(&self, cx: &mut KindCx<'_>, pool: &Loc<String>) -> String {
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
            ("TCP_NODATA_TIMEOUT", &self.tcp_transitory_timeout),
            ("TCP_DONE_TIMEOUT", &self.tcp_transitory_timeout),
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
        let handed = Handed {
            addresses: (lo, hi),
            ports,
            pings,
            pool_at: cx.at(pool),
        };
        self.rewriters(cx, &mut t, &handed, &forwards, &options);
        t.line("err_out :: ICMPRewriter(rw:0 ping:0, SOURCE all, STRICT true);");
        t.line("err_in :: ICMPRewriter(rw:0 ping:0, SOURCE own, STRICT true);");
        let six = self.nat64_elements(cx, &mut t, &forwards);
        let outside = (u32::from(lo)..=u32::from(hi)).map(Ipv4Addr::from);
        self.frames(cx, &mut t, outside.collect());
        self.napt_ways(&mut t, &forwards, (lo, hi));
        if six.is_some() {
            self.nat64_ways(cx, &mut t, lo);
        }
        t.finish()
    }

    /// The rewriters: `rw` of TCP and UDP, `ping`.
    fn rewriters(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        handed: &Handed,
        forwards: &Forwards<'_>,
        options: &str,
    ) {
        let independent = self.is_independent();
        // Inputs: 0 from inside, 1 from outside, then one per forward. Outputs: 0 to outside, 1 to inside.
        // A pattern varies ports only: a pool of several addresses is a mapper with a pattern for each.
        let Handed {
            addresses: (lo, hi),
            ports,
            pings,
            pool_at,
        } = handed;
        if lo == hi {
            t.line("rw :: IPRewriter(");
            t.line_at(
                cx.reader,
                *pool_at,
                format!("pattern {lo} {ports} - - 0 1,"),
            );
        } else {
            self.mapper(cx, t, "pool", handed, (ports, "0 1"));
            t.line("rw :: IPRewriter(pool,");
        }
        let from_outside = match self.filtering() {
            Filtering::AddressAndPort => format!("drop \"{UNMAPPED}\""),
            Filtering::EndpointIndependent => "mapped 1 0".to_string(),
        };
        t.line(from_outside);
        for (f, spec) in forwards {
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
                self.mapper(cx, t, "ping_pool", handed, (pings, "0 1"));
                "ping_pool".to_string()
            }
            false => format!("pattern {lo} {pings} - - 0 1"),
        };
        // pings between inside hosts: who is asked, then who asks
        let between = match (!turned.is_empty(), lo != hi) {
            (false, _) => String::new(),
            (true, false) => format!(", mapped 2 1, pattern {lo} {pings} - - 1 2"),
            (true, true) => {
                self.mapper(cx, t, "between", handed, (pings, "1 2"));
                ", mapped 2 1, between".to_string()
            }
        };
        let mut mapping = if independent {
            ", MAPPING endpoint"
        } else {
            ""
        }
        .to_string();
        if let Some(s) = &self.icmp_timeout {
            mapping.push_str(&format!(", TIMEOUT {}", s.value));
        }
        t.line(format!(
            "ping :: ICMPPingRewriter({request}, drop \"{UNMAPPED}\"{between}{promises}{mapping});"
        ));
    }

    /// Which address of the pool a flow gets: that of its host, or each in turn.
    fn mapper(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        name: &str,
        handed: &Handed,
        (ports, outputs): (&str, &str),
    ) {
        let independent = self.is_independent();
        t.line(match independent {
            true => format!("{name} :: SourceIPHashMapper({} {},", RING.0, RING.1),
            false => format!("{name} :: RoundRobinIPMapper("),
        });
        let (first, last) = handed.addresses;
        let (first, last) = (u32::from(first), u32::from(last));
        for a in first..=last {
            let comma = if a < last { "," } else { "" };
            let id = match independent {
                true => format!(" {}", a - first),
                false => String::new(),
            };
            let pattern = format!("{} {ports} - - {outputs}{id}{comma}", Ipv4Addr::from(a));
            t.line_at(cx.reader, handed.pool_at, pattern);
        }
        t.line(");");
    }

    /// Which rewriter packets of each side come to, and where they leave.
    fn napt_ways(
        &self,
        t: &mut ClickText,
        forwards: &Forwards<'_>,
        (lo, hi): (Ipv4Addr, Ipv4Addr),
    ) {
        let turns = self.hairpin && self.is_independent();
        // the last kind of ICMP packets are later fragments, which have no type
        t.line(
            "from_in -> c_in :: IPClassifier(tcp or udp, icmp type echo, icmp type >= 0, icmp, -);",
        );
        t.line("c_in[0] -> [0]rw; c_in[3] -> [0]ping;");
        if turns {
            // Pings of inside hosts, by identifiers that they have outside: who is asked is found first, as what tells
            // it is the identifier that the asking host is about to lose.
            t.line(format!(
                "c_in[1] -> asked :: IPClassifier({}, -); asked[0] -> [2]ping; asked[1] -> [0]ping;",
                pool_filter(lo, hi)
            ));
            t.line("ping[2] -> LoopGuard -> [3]ping;");
            t.line("c_in[2] -> answers :: IPClassifier(icmp type echo-reply, -);");
            t.line("answers[0] -> [1]ping; answers[1] -> err_out;");
            t.line(format!(
                "err_out[2] -> err_in; err_in[2] -> {};",
                discard(WRONG_SIDE)
            ));
        } else {
            t.line("c_in[1] -> [0]ping; c_in[2] -> err_out;");
        }
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
        if turns {
            self.turned(t, forwards);
        }
        if self.hairpin {
            // What was translated on its way out and goes to an outside address of ours comes in again at once: not for
            // ever, should it be translated into such a packet each time.
            let turned = match turns {
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
        t.line("ping[0] -> to_out;");
        let inside = match self.nat64 {
            Some(_) => "back",
            None => "to_in",
        };
        t.line(format!(
            "rw[1] -> {inside}; ping[1] -> {inside}; err_in[1] -> {inside};"
        ));
        // errors about packets of the side that they come from
        let wrong_side = discard(WRONG_SIDE);
        t.line(format!(
            "err_out[1] -> {wrong_side}; err_in[0] -> {wrong_side};"
        ));
    }

    /// Packets between inside hosts, after their first turn: they go to whom their destination belongs to, whoever they
    /// are from. Who may send to a mapping from outside is another matter.
    fn turned(&self, t: &mut ClickText, forwards: &Forwards<'_>) {
        let mut rules: Vec<String> = forwards.iter().map(|(_, s)| s.filter()).collect();
        let n = rules.len();
        let others = ["tcp or udp", "icmp", "-"];
        rules.extend(others.map(String::from));
        t.line(format!("turned :: IPClassifier({});", rules.join(", ")));
        for i in 0..n {
            t.line(format!("turned[{i}] -> [{}]rw;", 2 + i));
        }
        let [flows, errors, rest] = std::array::from_fn(|i| n + i);
        t.line(format!(
            "turned[{flows}] -> [{}]rw; turned[{errors}] -> err_in; turned[{rest}] -> {};",
            2 + n,
            discard(NO_PORTS)
        ));
    }

    /// The worker's slices of the port range and of the identifiers of echo requests, as patterns have them; one worker
    /// has all. What the NAT hands out is noted for the partition.
    fn shares(
        &self,
        cx: &mut KindCx<'_>,
        pool: &Loc<String>,
        ports: &str,
        addresses: (Ipv4Addr, Ipv4Addr),
        forwards: &Forwards<'_>,
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
            six: self.prefixes.is_some(),
            hosts6: self.nat64.is_some(),
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
