//! Rule sets of others: every rule is either taken, by the element too, or refused with its line and a reason.

use onefold_chain::import::{Family, Interfaces, iptables, snort};
use onefold_element::args::Args;
use onefold_elements::payload::filter::rule;
use std::path::PathBuf;

fn data(part: &str) -> Option<PathBuf> {
    onefold_testing::data(part)
}

#[test]
fn rules_of_intrusion_detection() {
    let Some(dir) = data("dpi/et-open") else {
        return;
    };
    let nets = "[10.0.0.0/8]";
    let names = [
        "HOME_NET",
        "EXTERNAL_NET",
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
    let mut variables: std::collections::BTreeMap<String, String> =
        names.map(|n| (n.to_string(), nets.to_string())).into();
    variables.insert("EXTERNAL_NET".into(), "!$HOME_NET".into());
    variables.extend(ports.map(|p| (p.to_string(), "[80,8080]".to_string())));
    for ignore_flow in [false, true] {
        let cx = snort::Context {
            variables: variables.clone(),
            ignore_flow,
        };
        let (mut taken, mut refused) = (0, 0);
        for f in std::fs::read_dir(&dir).unwrap() {
            let path = f.unwrap().path();
            if path.extension().is_none_or(|e| e != "rules") {
                continue;
            }
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            let active = text
                .lines()
                .filter(|l| !l.trim().is_empty() && !l.starts_with('#'))
                .count();
            let p = snort::parse(&text, &cx);
            assert_eq!(
                p.signatures.len() + p.refused.len(),
                active,
                "{}",
                path.display()
            );
            for s in &p.signatures {
                let args = Args::from_strings(&[]);
                rule::parse(&s.argument(), &args.scope()).unwrap_or_else(|e| {
                    panic!("{}:{}: {e}: {}", path.display(), s.line, s.argument())
                });
            }
            assert!(
                p.refused
                    .iter()
                    .all(|r| r.line > 0 && !r.reasons.is_empty())
            );
            println!(
                "{}: {} of {active}",
                path.file_name().unwrap().to_string_lossy(),
                p.signatures.len()
            );
            taken += p.signatures.len();
            refused += p.refused.len();
        }
        println!("flow ignored: {ignore_flow}: {taken} rules taken, {refused} refused");
        assert!(taken > 0);
    }
}

#[test]
fn packet_filters_of_hosts() {
    let Some(dir) = data("rules/batfish/networks") else {
        return;
    };
    let interfaces = Interfaces {
        inside: Some("eth0".into()),
        outside: Some("eth1".into()),
        own: Vec::new(),
        ..Interfaces::default()
    };
    let read = |file: &str, chain: Option<&str>| {
        let text = std::fs::read_to_string(dir.join(file)).unwrap();
        let request = iptables::Request {
            family: Family::V4,
            chain,
            interfaces: &interfaces,
            host: false,
            traffic: Default::default(),
        };
        iptables::parse(&text, &request)
    };
    let set = read("example/live/iptables/host1.iptables", Some("INPUT")).unwrap();
    let filters: Vec<&str> = set.rules.iter().map(|r| r.filter.as_str()).collect();
    assert_eq!(
        filters,
        [
            "udp && dst port 53 && ip[6:2] & 8191 == 0",
            "tcp && dst port 22 && ip[6:2] & 8191 == 0"
        ]
    );
    // its FORWARD chain is empty, its INPUT chain is not: which one is meant must be said
    assert!(read("example/live/iptables/host1.iptables", None).is_err());
    let set = read(
        "iptables-firewall/iptables/z1-firewall.v4",
        Some("mangle/PREROUTING"),
    )
    .unwrap();
    assert_eq!((set.rules.len(), set.down.map(|d| d.len())), (2, Some(2)));
    assert_eq!(set.rules[0].filter, "src host 10.0.2.1 && ip proto 89");
}
