//! Random rule files in formats of other tools.

use super::words::{NETS, one_in, pick, port};
use crate::rng::Rng;

/// A ClassBench filter set, with or without verdicts.
pub(super) fn classbench(rng: &mut Rng, hosts: &[String], verdicts: bool) -> String {
    let mut out = String::new();
    for _ in 0..rng.between(1, 8) {
        let prefix = |rng: &mut Rng| match rng.pick(hosts) {
            Some(h) if one_in(rng, 2) => format!("{h}/32"),
            _ => pick(rng, NETS).to_string(),
        };
        let (src, dst) = (prefix(rng), prefix(rng));
        let range = |rng: &mut Rng| match rng.below(4) {
            0 => {
                let p = port(rng);
                format!("{p} : {p}")
            }
            1 => "1024 : 65535".to_string(),
            _ => "0 : 65535".to_string(),
        };
        let (sport, dport) = (range(rng), range(rng));
        let proto = pick(rng, &["0x06/0xFF", "0x11/0xFF", "0x01/0xFF", "0x00/0x00"]);
        let flags = match proto {
            "0x06/0xFF" if one_in(rng, 3) => "0x0200/0x0200",
            _ => "0x0000/0x0000",
        };
        out.push_str(&format!(
            "@{src}\t{dst}\t{sport}\t{dport}\t{proto}\t{flags}"
        ));
        if verdicts {
            out.push_str(pick(rng, &["\tallow", "\tallow", "\tdeny"]));
        }
        out.push('\n');
    }
    out
}

/// What `iptables-save` prints: FORWARD, and a chain that it jumps to.
pub(super) fn iptables(rng: &mut Rng, hosts: &[String], interfaces: bool) -> String {
    let mut out = format!(
        "*filter\n:INPUT DROP [0:0]\n:FORWARD {} [0:0]\n:OUTPUT ACCEPT [0:0]\n:services - [0:0]\n",
        pick(rng, &["ACCEPT", "DROP"])
    );
    for chain in ["FORWARD", "services"] {
        for _ in 0..rng.between(1, 5) {
            let mut rule = format!("-A {chain}");
            if interfaces && one_in(rng, 3) {
                rule.push_str(pick(rng, &[" -i in0", " -o out0", " -i out0 -o in0"]));
            }
            if one_in(rng, 2) {
                let not = if one_in(rng, 6) { " !" } else { "" };
                let way = pick(rng, &["-s", "-d"]);
                let net = match rng.pick(hosts) {
                    Some(h) if one_in(rng, 2) => format!("{h}/32"),
                    _ => pick(rng, NETS).to_string(),
                };
                rule.push_str(&format!("{not} {way} {net}"));
            }
            rule.push_str(&iptables_match(rng));
            let targets = ["ACCEPT", "ACCEPT", "DROP", "RETURN", "services", "REJECT"];
            let target = pick(
                rng,
                if chain == "FORWARD" {
                    &targets
                } else {
                    &targets[..4]
                },
            );
            rule.push_str(&format!(" -j {target}\n"));
            out.push_str(&rule);
        }
    }
    out.push_str("COMMIT\n");
    out
}

fn iptables_match(rng: &mut Rng) -> String {
    match rng.below(8) {
        0 => format!(" -p tcp -m tcp --dport {}", port(rng)),
        1 => format!(" -p udp -m udp --sport {}", port(rng)),
        2 => format!(
            " -p tcp -m multiport --dports {},{},8000:8010",
            port(rng),
            port(rng)
        ),
        3 => " -p tcp -m tcp --tcp-flags SYN,ACK SYN".to_string(),
        4 => " -p icmp -m icmp --icmp-type 8".to_string(),
        5 => format!(" -p udp -m udp ! --dport 1:{}", port(rng)),
        6 => " -m ttl --ttl-gt 2".to_string(),
        _ => String::new(),
    }
}
