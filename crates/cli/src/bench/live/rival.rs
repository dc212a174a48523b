//! The kernel as a forwarder: routes, masquerade and an access list in nftables.

use anyhow::{Context, Result, bail};
use onefold_bench::{ProtoMatch, Rule, parse_rules};
use std::fmt::Write;
use std::net::Ipv4Addr;

use super::rows::Filter;
use super::topology::{GENERATOR_MACS, Topology, has};

/// Why the kernel cannot be compared here, with a cure.
pub fn obstacle() -> Option<String> {
    (!has("nft")).then(|| "there is no 'nft'; type: apt install nftables".to_string())
}

/// A rule, and whether it allows.
type Judged = (Rule, bool);

/// Rules with verdicts, of a file as the shipped ones are.
fn read(path: &str) -> Result<Vec<Judged>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("'{path}'"))?;
    let mut all = Vec::new();
    for line in text.lines().filter(|l| l.starts_with('@')) {
        let (rule, verdict) = match line.rsplit_once(char::is_whitespace) {
            Some((r, "deny")) => (r, false),
            Some((r, "allow")) => (r, true),
            _ => (line, true),
        };
        let Ok(mut rules) = parse_rules(rule) else {
            bail!("'{path}': '{line}' is no rule of ClassBench's");
        };
        all.extend(rules.pop().map(|r| (r, verdict)));
    }
    Ok(all)
}

/// The rule in nftables' language.
fn nft((r, allows): &Judged) -> String {
    let mut t = String::new();
    let mut address = |what: &str, (a, len): (u32, u8)| {
        if len > 0 {
            // writing to a String cannot fail
            let _ = write!(t, "ip {what} {}/{len} ", Ipv4Addr::from(a));
        }
    };
    address("saddr", r.src);
    address("daddr", r.dst);
    let name = match r.proto {
        ProtoMatch::Is(6) => "tcp",
        ProtoMatch::Is(17) => "udp",
        _ => "th",
    };
    if let ProtoMatch::Is(p) = r.proto {
        let _ = write!(t, "meta l4proto {p} ");
    }
    for (what, (lo, hi)) in [("sport", r.sport), ("dport", r.dport)] {
        if (lo, hi) != (0, u16::MAX) {
            let _ = write!(t, "{name} {what} {lo}-{hi} ");
        }
    }
    let (value, mask) = (r.flags.0 >> 8, r.flags.1 >> 8);
    match r.proto {
        ProtoMatch::Is(6) if mask != 0 => {
            let _ = write!(t, "tcp flags & {mask} == {value} ");
        }
        ProtoMatch::Is(1) if mask == 0xff => {
            let _ = write!(t, "icmp type {value} ");
        }
        _ => {}
    }
    t.push_str(if *allows { "accept" } else { "drop" });
    t
}

/// Text of a chain for forwarded packets, for a firewall of ours: what is known passes, then these rules decide.
pub fn stateful(path: &str) -> Result<String> {
    let rules: Vec<String> = read(path)?.iter().map(nft).collect();
    Ok(format!(
        "table ip bench {{\n  chain forward {{\n    type filter hook forward priority 0; policy drop;\n    \
         ct state established,related accept\n    {}\n  }}\n}}\n",
        rules.join("\n    ")
    ))
}

/// The whole rule set.
fn table(rules: &[Judged], established_first: bool) -> String {
    let mut t = String::from(
        "flush ruleset\ntable ip bench {\n  chain forward {\n    type filter hook forward priority 0; policy drop;\n",
    );
    if established_first {
        t.push_str("    ct state established,related accept\n");
    }
    // answers have passed the translation
    t.push_str("    iifname \"dut1\" ct state established,related accept\n");
    for r in rules {
        let _ = writeln!(t, "    iifname \"dut0\" {}", nft(r));
    }
    t.push_str(
        "  }\n  chain out {\n    type nat hook postrouting priority 100; policy accept;\n    \
         oifname \"dut1\" masquerade\n  }\n}\n",
    );
    t
}

/// Makes the device's namespace a router with these rules.
pub fn configure(topology: &Topology, rules: &str, filter: Filter) -> Result<()> {
    let rules = match filter {
        Filter::Nothing => "flush ruleset\n".to_string(),
        _ => table(&read(rules)?, filter == Filter::EstablishedFirst),
    };
    let far = GENERATOR_MACS[1];
    topology.configure(&format!(
        "set -e\n\
         ip addr add 204.152.0.1/16 dev dut0\n\
         ip addr add 203.0.113.1/24 dev dut1\n\
         ip route add default via 203.0.113.254\n\
         ip neigh replace 203.0.113.254 lladdr {far} dev dut1\n\
         echo 1 > /proc/sys/net/ipv4/ip_forward\n\
         for f in all dut0 dut1; do\n\
           echo 0 > /proc/sys/net/ipv4/conf/$f/rp_filter\n\
           echo 0 > /proc/sys/net/ipv4/conf/$f/send_redirects\n\
         done\n\
         nft -f - <<'END'\n{rules}END\n\
         echo 1 > /proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal || true\n"
    ))
}

/// Takes it back.
pub fn reset(topology: &Topology) -> Result<()> {
    topology.configure(
        "nft flush ruleset\n\
         echo 0 > /proc/sys/net/ipv4/ip_forward\n\
         ip neigh flush all\n\
         ip addr flush dev dut0\n\
         ip addr flush dev dut1\n",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_translated_field_by_field() {
        let root = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../chains/isp-edge/acl-251.rules"
        );
        let all = read(root).unwrap();
        assert_eq!(all.len(), 251);
        assert!(all.iter().any(|r| r.1) && all.iter().any(|r| !r.1));
        let first = "ip saddr 204.152.182.48/31 ip daddr 95.139.124.22/32 meta l4proto 6 \
                     tcp dport 20680-20680 tcp flags & 2 == 0 drop";
        assert_eq!(nft(&all[0]), first);
        let any = parse_rules("@0.0.0.0/0\t10.0.0.0/8\t5 : 9\t0 : 65535\t0x00/0x00\t0x0000/0x0000");
        let any = any.unwrap().pop().unwrap();
        assert_eq!(nft(&(any, true)), "ip daddr 10.0.0.0/8 th sport 5-9 accept");
        let t = table(&all, true);
        assert_eq!(t.matches("iifname \"dut0\"").count(), 251);
        assert!(t.contains("masquerade") && t.contains("policy drop"));
    }
}
