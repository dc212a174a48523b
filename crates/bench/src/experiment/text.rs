//! Chains as text in Click's language, of any length.

use super::PlanError;
use crate::rules::{Generated, Inside, RuleKind, RuleParams, generate_rules, write_click_filter};
use std::fmt::Write;

/// Routes of a router, one for each of its outputs.
pub const ROUTES: [&str; 10] = [
    "198.18.0.0/16",
    "198.18.64.0/18",
    "198.18.128.0/18",
    "198.18.192.0/20",
    "198.19.0.0/16",
    "198.19.32.0/19",
    "198.19.128.0/18",
    "198.19.192.0/24",
    "203.0.113.0/24",
    "192.0.2.0/25",
];

/// A row of routers that do all that RFC 1812 asks for, with ten routes each. Each of the last one's ten outputs leaves
/// the chain at a device of its own; between routers all ten lead to the next one.
pub fn routers(n: usize) -> String {
    let mut t = String::new();
    for i in 1..=n {
        // writing to a String cannot fail
        let _ = writeln!(t, "c{i} :: Classifier(12/0800, -); c{i}[1] -> Discard;");
    }
    t.push_str("FromDevice(in) -> c1;\n");
    for i in 1..=n {
        let _ = write!(
            t,
            "rt{i} :: RadixIPLookup({});\n\
             c{i} -> Paint(0) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt{i};\n",
            (ROUTES.iter().enumerate())
                .map(|(k, r)| format!("{r} {k}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        for k in 0..ROUTES.len() {
            let next = match i < n {
                true => format!("c{}", i + 1),
                false => format!("ToDevice(out{k})"),
            };
            let me = format!("10.{i}.{k}.1");
            let _ = write!(
                t,
                "rt{i}[{k}] -> DropBroadcasts -> p{i}x{k} :: PaintTee({p}) -> g{i}x{k} :: IPGWOptions({me}) -> FixIPSrc({me}) \
                 -> d{i}x{k} :: DecIPTTL -> f{i}x{k} :: IPFragmenter(1500) \
                 -> EtherEncap(0x0800, 02:00:00:{i:02x}:{k:02x}:01, 02:00:00:{i:02x}:{k:02x}:02) -> {next};\n\
                 p{i}x{k}[1] -> ICMPError({me}, redirect, host) -> rt{i};\n\
                 g{i}x{k}[1] -> ICMPError({me}, parameterproblem) -> rt{i};\n\
                 d{i}x{k}[1] -> ICMPError({me}, timeexceeded) -> rt{i};\n\
                 f{i}x{k}[1] -> ICMPError({me}, unreachable, needfrag) -> rt{i};\n",
                p = k + 1,
            );
        }
    }
    t
}

/// A row of NAPTs for UDP, each behind one address: what each costs is header check, translation, and a new frame.
pub fn napts(n: usize) -> String {
    let mut t = String::new();
    for i in 1..=n {
        let _ = writeln!(
            t,
            "n{i} :: IPRewriter(pattern 198.51.100.{i} 1024-65535 - - 0 1, drop); Idle -> [1] n{i}; n{i}[1] -> Discard;"
        );
    }
    t.push_str(
        "FromDevice(in) -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> u :: IPClassifier(udp, -) -> n1;\n\
         c[1] -> Discard; u[1] -> Discard;\n",
    );
    for i in 1..=n {
        let _ = write!(
            t,
            "n{i} -> EtherEncap(0x0800, 02:00:00:00:{i:02x}:01, 02:00:00:00:{:02x}:00)",
            i + 1
        );
        let _ = match i < n {
            true => writeln!(t, " -> Strip(14) -> CheckIPHeader -> n{};", i + 1),
            false => writeln!(t, " -> ToDevice(out);"),
        };
    }
    t
}

/// The arguments of an IPFilter that lets pass what a generated list allows, and drops the rest.
pub fn filter(set: &Generated) -> String {
    let mut out = Vec::new();
    // writing to memory cannot fail
    let _ = write_click_filter(&mut out, set);
    let mut text = String::from_utf8_lossy(&out).trim_end().to_string();
    if !text.is_empty() {
        text.push_str(",\n");
    }
    text + "deny all"
}

/// Rules of a kind, all of them `allow`, without conditions on flags; sources lie in 204.152.0.0/16 if `inside`.
pub fn rules(
    kind: RuleKind,
    inside: bool,
    count: usize,
    seed: u64,
) -> Result<Generated, PlanError> {
    let mut params = RuleParams {
        deny: 0.0,
        flags: 0.0,
        ..RuleParams::preset(kind)
    };
    if inside {
        params.inside = Some(
            Inside::try_from("204.152.0.0/16".to_string()).map_err(|e| PlanError(e.to_string()))?,
        );
    }
    generate_rules(&params, count, seed).map_err(|e| PlanError(e.to_string()))
}

/// A firewall alone; frames pass unchanged.
pub fn firewall(set: &Generated) -> String {
    format!(
        "FromDevice(in) -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader\n  -> IPFilter({})\n  \
         -> Unstrip(14) -> ToDevice(out);\nc[1] -> Discard;\n",
        filter(set)
    )
}

/// What an edge does behind its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Nothing.
    Nothing,
    /// A NAPT with room for so many flows, which makes room for new ones when it is full.
    Napt(u32),
}

/// A firewall, a router that keeps 204.152.0.0/16 inside, and a NAPT towards the Internet.
pub fn edge(set: &Generated, behind: Behind) -> String {
    let mut t = String::new();
    // writing to a String cannot fail
    if let Behind::Napt(flows) = behind {
        let _ = write!(
            t,
            "nat :: IPRewriter(pattern 203.0.113.1-203.0.113.8 1024-65535 - - 0 1, drop,\n  \
             MAPPING_CAPACITY {flows}, UDP_GUARANTEE 0, TCP_GUARANTEE 0);\n\
             Idle -> [1] nat; nat[1] -> Discard;\n\
             nat -> EtherEncap(0x0800, 02:00:00:00:03:00, 02:00:00:00:03:01) -> ToDevice(out);\n"
        );
    }
    let _ = write!(
        t,
        "FromDevice(in) -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader\n  -> IPFilter({})\n  \
         -> EtherEncap(0x0800, 02:00:00:00:00:02, 02:00:00:00:00:03) -> Paint(1) -> Strip(14) -> CheckIPHeader\n  \
         -> GetIPAddress(16) -> rt :: RadixIPLookup(204.152.0.0/16 0, 0.0.0.0/0 192.0.2.2 1);\nc[1] -> Discard;\n",
        filter(set)
    );
    for (k, me) in ["204.152.0.1", "192.0.2.1"].into_iter().enumerate() {
        let next = match (k, behind) {
            (0, _) => "ToDevice(inside)".to_string(),
            (_, Behind::Nothing) => "ToDevice(out)".to_string(),
            (_, Behind::Napt(_)) => {
                "Strip(14) -> CheckIPHeader -> u :: IPClassifier(tcp or udp, -) -> nat".into()
            }
        };
        let _ = write!(
            t,
            "rt[{k}] -> DropBroadcasts -> p{k} :: PaintTee({p}) -> g{k} :: IPGWOptions({me}) -> FixIPSrc({me}) -> d{k} :: DecIPTTL \
             -> f{k} :: IPFragmenter(1500)\n  -> EtherEncap(0x0800, 02:00:00:00:01:{k:02x}, 02:00:00:00:02:{k:02x}) -> {next};\n\
             p{k}[1] -> ICMPError({me}, redirect, host) -> rt;\n\
             g{k}[1] -> ICMPError({me}, parameterproblem) -> rt;\n\
             d{k}[1] -> ICMPError({me}, timeexceeded) -> rt;\n\
             f{k}[1] -> ICMPError({me}, unreachable, needfrag) -> rt;\n",
            p = k + 1,
        );
    }
    if behind != Behind::Nothing {
        t.push_str("u[1] -> Discard;\n");
    }
    t
}

/// A router with these host routes, a NAPT, and a balancer over three servers.
pub fn router_napt_lb(hosts: &[u32]) -> String {
    let mut t = String::from(
        "rr :: RoundRobinIPMapper(- - 172.16.3.1 - 0 1, - - 172.16.3.2 - 0 1, - - 172.16.3.3 - 0 1);\n\
         lb :: IPRewriter(rr, drop); Idle -> [1] lb; lb[1] -> Discard;\n\
         lb -> EtherEncap(0x0800, 02:00:00:00:04:00, 02:00:00:00:04:01) -> ToDevice(out);\n\
         nat :: IPRewriter(pattern 172.16.2.1 1024-65535 - - 0 1, drop); Idle -> [1] nat; nat[1] -> Discard;\n\
         nat -> EtherEncap(0x0800, 02:00:00:00:03:00, 02:00:00:00:03:01) -> Strip(14) -> CheckIPHeader -> lb;\n\
         in2 :: Strip(14) -> CheckIPHeader -> u :: IPClassifier(tcp or udp, -) -> nat; u[1] -> Discard;\n\
         rt :: RadixIPLookup(",
    );
    for (i, h) in hosts.iter().enumerate() {
        let comma = if i == 0 { "" } else { ",\n  " };
        let _ = write!(t, "{comma}{}/32 {}", std::net::Ipv4Addr::from(*h), i % 4);
    }
    t.push_str(");\n");
    for k in 0..4 {
        let me = format!("10.1.{k}.1");
        let _ = write!(
            t,
            "rt[{k}] -> DropBroadcasts -> p{k} :: PaintTee({p}) -> g{k} :: IPGWOptions({me}) -> FixIPSrc({me}) -> d{k} :: DecIPTTL \
             -> f{k} :: IPFragmenter(1500)\n  -> EtherEncap(0x0800, 02:00:00:00:01:{k:02x}, 02:00:00:00:02:{k:02x}) -> in2;\n\
             p{k}[1] -> ICMPError({me}, redirect, host) -> rt;\n\
             g{k}[1] -> ICMPError({me}, parameterproblem) -> rt;\n\
             d{k}[1] -> ICMPError({me}, timeexceeded) -> rt;\n\
             f{k}[1] -> ICMPError({me}, unreachable, needfrag) -> rt;\n",
            p = k + 1,
        );
    }
    t.push_str(
        "FromDevice(in) -> c :: Classifier(12/0800, -) -> Paint(0) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt;\n\
         c[1] -> Discard;\n",
    );
    t
}

/// Most flows that are left to one NAPT of [`napts_beside`]; a rewriter holds four million.
const FLOWS_EACH: usize = 3_000_000;

/// One NAPT; for very many flows several side by side, each of which serves a part of 10.0.0.0/8.
pub fn napts_beside(flows: usize) -> String {
    let n = flows.div_ceil(FLOWS_EACH).next_power_of_two().min(8);
    if n == 1 {
        return napts(1);
    }
    let len = 8 + n.trailing_zeros();
    let net = |i: usize| format!("udp && src net 10.{}.0.0/{len}", i << (16 - len));
    let mut t = format!(
        "FromDevice(in) -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> u :: IPClassifier({}, -);\n\
         c[1] -> Discard; u[{n}] -> Discard;\nout :: EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:00) -> ToDevice(out);\n",
        (0..n).map(net).collect::<Vec<_>>().join(", ")
    );
    for i in 0..n {
        let _ = writeln!(
            t,
            "n{i} :: IPRewriter(pattern 198.51.100.{} 1024-65535 - - 0 1, drop); Idle -> [1] n{i}; n{i}[1] -> Discard; u[{i}] -> n{i} -> out;",
            i + 1
        );
    }
    t
}
