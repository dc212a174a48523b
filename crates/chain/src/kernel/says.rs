//! What the text of a ruleset asks for, as far as the kernel has to be set up for it.

use super::KernelRules;
use crate::import::RuleFormat;

/// Does a ruleset translate addresses? Then the kernel tracks connections, too.
pub(super) fn translates(text: &str, format: RuleFormat) -> bool {
    match format {
        RuleFormat::Nftables => {
            let statements = ["snat", "dnat", "masquerade"];
            says(text, &statements)
        }
        _ => {
            let targets = ["-j SNAT", "-j DNAT", "-j MASQUERADE", "-j NETMAP"];
            targets.iter().any(|t| text.contains(t))
        }
    }
}

/// Does a ruleset of nftables say one of these words, in JSON or in nft's own language?
fn says(text: &str, words: &[&str]) -> bool {
    let json = |w: &&str| text.contains(&format!("\"{w}\""));
    words.iter().any(json) || text.split_whitespace().any(|w| words.contains(&w))
}

/// Do its rules ask for the way back to an address?
pub(super) fn asks_for_ways_back(r: &KernelRules) -> bool {
    match r.format {
        RuleFormat::Nftables => says(&r.text, &["fib"]) && says(&r.text, &["oif", "oifname"]),
        _ => r.text.contains("-m rpfilter"),
    }
}

/// Do its rules ask for the destination address of frames?
pub(super) fn asks_for_destinations(r: &KernelRules) -> bool {
    let words: Vec<&str> = r.text.split_whitespace().collect();
    let plain = r.text.split_whitespace().collect::<String>();
    says(&r.text, &["pkttype"])
        || words.windows(2).any(|w| w == ["ether", "daddr"])
        || plain.contains("\"protocol\":\"ether\",\"field\":\"daddr\"")
}

/// Does it have rules of `statistic` in this mode, or of `numgen` in that one?
pub(super) fn takes_turns(r: &KernelRules, statistic: &str, numgen: &str) -> bool {
    let words: Vec<&str> = r.text.split_whitespace().collect();
    let pair = |a: &str, b: &str| words.windows(2).any(|w| w == [a, b]);
    match r.format {
        RuleFormat::Nftables => {
            let plain = words.concat();
            let json = plain.contains("\"numgen\":{");
            pair("numgen", numgen) || json && plain.contains(&format!("\"mode\":\"{numgen}\""))
        }
        _ => pair("--mode", statistic),
    }
}

/// Do its rules ask for the MTU of interfaces?
pub(super) fn goes_by_mtu(text: &str) -> bool {
    let plain: String = text.split_whitespace().collect();
    plain.contains("--clamp-mss-to-pmtu")
        || plain.contains("\"rt\":{\"key\":\"mtu\"}")
        || plain.contains("rtmtu")
}

/// Do its rules draw ports whatever a packet has?
pub(super) fn draws(text: &str, format: RuleFormat) -> bool {
    if text.contains("random") {
        return true;
    }
    if format == RuleFormat::Nftables {
        let plain: String = text.split_whitespace().collect();
        return plain.contains("\"port\":{\"range\"");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).any(|w| match w {
        ["--to-ports", ports] => ports.contains('-'),
        ["--to-source" | "--to-destination" | "--to", to] => {
            let ports = to
                .rsplit_once(':')
                .filter(|(a, _)| !a.contains(':') || a.ends_with(']'));
            ports.is_some_and(|(_, ports)| ports.contains('-'))
        }
        _ => false,
    })
}

/// Does a ruleset ask about connections? Then the kernel tracks them.
pub(super) fn asks_about_connections(text: &str, format: RuleFormat) -> bool {
    match format {
        RuleFormat::Nftables => says(text, &["ct"]),
        _ => {
            let words = ["-m conntrack", "-m state", "-m connmark", "-j CONNMARK"];
            words.iter().any(|w| text.contains(w))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::Family;

    #[test]
    fn rules_that_take_packets_in_turn_or_by_chance() {
        let of = |text: &str, format| {
            let r = KernelRules {
                format,
                family: Family::V4,
                file: String::new(),
                text: text.into(),
            };
            (
                takes_turns(&r, "nth", "inc"),
                takes_turns(&r, "random", "random"),
            )
        };
        let iptables = |text| of(text, RuleFormat::Iptables);
        assert_eq!(
            iptables("-m statistic --mode nth --every 3 --packet 0"),
            (true, false)
        );
        assert_eq!(
            iptables("-m statistic --mode random --probability 0.5"),
            (false, true)
        );
        assert_eq!(iptables("-j MASQUERADE --random"), (false, false));
        let nft = |text| of(text, RuleFormat::Nftables);
        assert_eq!(nft("numgen inc mod 3 0 accept"), (true, false));
        assert_eq!(nft("numgen random mod 3 < 2 accept"), (false, true));
        let json = r#"{"match": {"left": {"numgen": {"mode": "inc", "mod": 3, "offset": 0}}}}"#;
        assert_eq!(nft(json), (true, false));
        assert_eq!(
            nft(r#"{"masquerade": {"flags": "random"}}"#),
            (false, false)
        );
    }

    #[test]
    fn rules_that_draw_ports() {
        let iptables = |text: &str| draws(text, RuleFormat::Iptables);
        assert!(iptables("-j MASQUERADE --random-fully"));
        assert!(iptables("-j MASQUERADE --to-ports 1024-65535\n"));
        assert!(iptables("-j SNAT --to-source 192.0.2.1:1024-2000"));
        assert!(iptables("-j DNAT --to-destination [2001:db8::1]:80-90"));
        assert!(!iptables(
            "-j SNAT --to-source 192.0.2.1-192.0.2.9 -j DNAT --to-destination 10.0.0.1:80"
        ));
        assert!(!iptables("-j SNAT --to-source 2001:db8::1-2001:db8::9"));
        let nft = |text: &str| draws(text, RuleFormat::Nftables);
        assert!(nft(
            r#"{"dnat": {"addr": "10.0.0.1", "port": {"range": [1, 2]}}}"#
        ));
        assert!(!nft(r#"{"dnat": {"addr": "10.0.0.1", "port": 80}}"#));
        assert!(translates(
            "-A POSTROUTING -j MASQUERADE",
            RuleFormat::Iptables
        ));
        assert!(!translates("*nat\nCOMMIT\n", RuleFormat::Iptables));
    }
}
