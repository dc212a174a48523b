//! The rules of the Emerging Threats set that can be expressed, on captured packets: whoever looks, the element
//! decides the same.

#[path = "../../elements/tests/support/emerging.rs"]
mod emerging;

use onefold_chain::import::snort;
use onefold_elements::testing::Bench;
use std::path::Path;

/// The rules, as arguments of a PayloadFilter: those that can be expressed, `flow` ignored, for any addresses and
/// ports behind variables.
fn rules(dir: &Path) -> Vec<String> {
    let nets = [
        "HOME_NET",
        "HTTP_SERVERS",
        "SQL_SERVERS",
        "DNS_SERVERS",
        "SMTP_SERVERS",
        "TELNET_SERVERS",
        "FTP_SERVERS",
    ];
    let ports = [
        "HTTP_PORTS",
        "SSH_PORTS",
        "ORACLE_PORTS",
        "SHELLCODE_PORTS",
        "FTP_PORTS",
        "DNS_PORTS",
    ];
    let mut cx = snort::Context {
        ignore_flow: true,
        ..Default::default()
    };
    let mut set = |names: &[&str], value: &str| {
        cx.variables
            .extend(names.iter().map(|n| (n.to_string(), value.to_string())));
    };
    set(&nets, "any");
    set(&ports, "any");
    set(&["EXTERNAL_NET"], "any");
    let mut paths = Vec::new();
    emerging::files(dir, &mut paths);
    let mut all = Vec::new();
    for p in paths
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "rules"))
    {
        let text = String::from_utf8_lossy(&std::fs::read(p).unwrap_or_default()).into_owned();
        for sig in snort::parse(&text, &cx).signatures {
            all.push(sig.argument());
            // once more for packets with any headers, so that more is found
            if !sig.conditions.is_empty() {
                all.push(format!(
                    "alert NAME {} {}",
                    all.len(),
                    sig.conditions.join(" ")
                ));
            }
        }
    }
    all
}

/// The element with all rules: what leaves, and which rules matched how often.
#[test]
fn filters_decide_the_same_of_real_rules_in_captures() {
    let Some(rules) = onefold_testing::data("dpi/et-open") else {
        return;
    };
    let Some(captures) = onefold_testing::data("pcap") else {
        return;
    };
    if let Err(e) = onefold_hyperscan::library() {
        return onefold_testing::skip(e);
    }
    let config = self::rules(&rules).join(", ");
    let [mut a, mut b] = ["portable", "vectorscan"]
        .map(|m| Bench::new("PayloadFilter", &format!("{config}, MATCHER {m}"), 1, 2).unwrap());
    assert!(a.read("matcher").unwrap().starts_with("portable, "));
    assert!(b.read("matcher").unwrap().contains("scan 5."));
    for p in emerging::packets(&captures).iter() {
        let [x, y] = [&mut a, &mut b].map(|e| e.push_packet(0, Box::new(p.clone())));
        let ports = |v: &[(usize, onefold_packet::Pkt)]| v.iter().map(|x| x.0).collect::<Vec<_>>();
        assert_eq!(ports(&x), ports(&y), "{:?}", p.data());
    }
    let counts = a.read("counts").unwrap();
    assert!(counts.lines().count() > 5, "{counts}");
    assert_eq!(counts, b.read("counts").unwrap());
}
