//! Random expressions in the languages of IPFilter and IP6Filter.

use super::words::{HOSTS6, NETS, NETS6, PEERS, SERVERS, one_in, pick, port};
use crate::rng::Rng;

/// Which sides a test is about.
const SIDES: &[&str] = &[
    "src ",
    "dst ",
    "src ",
    "dst ",
    "",
    "src and dst ",
    "src or dst ",
];
/// Operators.
const RELATIONS: &[&str] = &["", "== ", "!= ", "< ", "> ", "<= ", ">= "];
/// Tests of IPv4 headers without values of a pool.
const FIXED: &[&str] = &[
    "tcp",
    "udp",
    "icmp",
    "tcp or udp",
    "ip proto 47",
    "ip proto 1",
    "ip frag",
    "ip unfrag",
    "ip ect",
    "ip ce",
    "ip vers 4",
    "ip hl 5",
    "ip hl 6",
    "ip ttl > 1",
    "ip ttl < 64",
    "ip ttl != 63",
    "ip tos 0",
    "ip tos 16",
    "ip dscp 10",
    "ip dscp > 3",
    "ip id 7",
    "ip len > 60",
    "ip len < 576",
    "icmp type echo",
    "icmp type echo-reply",
    "icmp type timeexceeded",
    "tcp opt syn",
    "tcp opt ack",
    "tcp opt rst",
    "not tcp opt syn",
    "tcp win > 512",
    "tcp[13:1] & 2 == 2",
    "tcp[13:1] & 23 == 2",
    "ip[8:1] > 10",
    "ip[6:2] & 8191 == 0",
    "transp[2:2] == 80",
    "transp[0:1] & 240 == 0",
    "udp[4:2] > 28",
    "true",
];
/// The same of IPv6 headers.
const FIXED6: &[&str] = &[
    "tcp",
    "udp",
    "ip proto 58",
    "ip proto 6",
    "icmp6 type 128",
    "icmp6 type != 129",
    "tcp opt syn",
    "tcp opt ack",
    "ip frag",
    "not ip frag",
    "true",
];

/// What an expression may name besides the pools.
pub(super) struct Names<'a> {
    /// Hosts that packets from the left have here.
    pub hosts: &'a [String],
    /// The chain has the names `mailer` and `lan`.
    pub named: bool,
    /// The chain has the parameter `web`, a port.
    pub web: bool,
}

/// An expression of IPFilter.
pub(super) fn expression(rng: &mut Rng, names: &Names<'_>, depth: u32) -> String {
    let sub = |rng: &mut Rng| expression(rng, names, depth - 1);
    match rng.below(if depth == 0 { 1 } else { 10 }) {
        0..=3 => term(rng, names),
        4..=6 => format!("({}) && ({})", sub(rng), sub(rng)),
        7 => format!("({}) or ({})", sub(rng), sub(rng)),
        8 => format!("not ({})", sub(rng)),
        _ => format!("({}) ? ({}) : ({})", sub(rng), sub(rng), sub(rng)),
    }
}

fn term(rng: &mut Rng, names: &Names<'_>) -> String {
    match rng.below(10) {
        0..=2 => {
            let host = match (names.named && one_in(rng, 3), rng.below(4)) {
                (true, _) => "mailer".to_string(),
                (_, 0) => pick(rng, SERVERS).to_string(),
                (_, 1) => pick(rng, PEERS).to_string(),
                _ => rng.pick(names.hosts).cloned().unwrap_or("10.0.0.2".into()),
            };
            let not = if one_in(rng, 6) { "!= " } else { "" };
            format!("{}host {not}{host}", pick(rng, SIDES))
        }
        3 | 4 => {
            let net = match names.named && one_in(rng, 3) {
                true => "lan",
                false => pick(rng, NETS),
            };
            format!("{}net {net}", pick(rng, SIDES))
        }
        5 | 6 => ports(rng, names),
        _ => pick(rng, FIXED).to_string(),
    }
}

fn ports(rng: &mut Rng, names: &Names<'_>) -> String {
    let proto = pick(rng, &["", "tcp ", "udp "]);
    let side = pick(rng, SIDES);
    if names.web && one_in(rng, 3) {
        return format!("{side}{proto}port $(web)");
    }
    match rng.below(4) {
        0 => format!("{side}{proto}port {} or {}", port(rng), port(rng)),
        1 => format!("{side}{proto}port & 0xff00 == 0"),
        _ => format!("{side}{proto}port {}{}", pick(rng, RELATIONS), port(rng)),
    }
}

/// An expression of IP6Filter.
pub(super) fn expression6(rng: &mut Rng, depth: u32) -> String {
    let sub = |rng: &mut Rng| expression6(rng, depth - 1);
    match rng.below(if depth == 0 { 1 } else { 8 }) {
        0..=3 => match rng.below(6) {
            0 | 1 => format!("{}net {}", pick(rng, SIDES), pick(rng, NETS6)),
            2 => format!("{}host {}", pick(rng, SIDES), pick(rng, HOSTS6)),
            3 => format!(
                "{}port {}{}",
                pick(rng, SIDES),
                pick(rng, RELATIONS),
                port(rng)
            ),
            _ => pick(rng, FIXED6).to_string(),
        },
        4 | 5 => format!("({}) && ({})", sub(rng), sub(rng)),
        6 => format!("({}) or ({})", sub(rng), sub(rng)),
        _ => format!("not ({})", sub(rng)),
    }
}

/// Rules in the order in which they are asked, each `allow EXPRESSION` or `deny EXPRESSION`.
pub(super) fn list(rng: &mut Rng, names: &Names<'_>) -> Vec<String> {
    let mut out: Vec<String> = (0..rng.between(0, 7))
        .map(|_| {
            let verdict = pick(rng, &["allow", "allow", "deny"]);
            let depth = rng.below(3) as u32;
            format!("{verdict} {}", expression(rng, names, depth))
        })
        .collect();
    if one_in(rng, 2) || out.is_empty() {
        let all = [
            "allow src net 10.0.0.0/8",
            "allow tcp or udp or icmp",
            "allow all",
            "allow dst net 10.0.0.0/8",
        ];
        out.push(pick(rng, &all).to_string());
    }
    out
}

/// The same for IPv6.
pub(super) fn list6(rng: &mut Rng) -> Vec<String> {
    let mut out: Vec<String> = (0..rng.between(0, 4))
        .map(|_| {
            let depth = rng.below(3) as u32;
            format!(
                "{} {}",
                pick(rng, &["allow", "allow", "deny"]),
                expression6(rng, depth)
            )
        })
        .collect();
    if one_in(rng, 2) || out.is_empty() {
        out.push(pick(rng, &["allow src net 2001:db8::/32", "allow all"]).to_string());
    }
    out
}
