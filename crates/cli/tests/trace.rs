//! Traces: the packet at each step, as tcpdump prints it, and why rules before the one that decided did not match.

use crate::common;

use common::{json, run, temp};
use std::fmt::Write;
use std::path::Path;

/// Ethernet, IPv4 from 10.1.2.3, TCP from port 1024 to 80, SYN.
const SYN: &str = "02000000000202000000000108004500002800000000400644980a010203c6336401040000500000000100000000\
                   5002020000000000";
const TOLD: &str =
    "IP 10.1.2.3.1024 > 198.51.100.1.80: Flags [S], seq 1, win 512, length 0, ttl 64";

fn firewall(dir: &Path, rules: &str) {
    std::fs::write(dir.join("fw.rules"), rules).unwrap();
    let chain = "functions:\n  fw:\n    firewall:\n      rules-file: fw.rules\n      back: allow\n\
                 ports:\n  inside: fw[0]\n  outside: fw[1]\n";
    std::fs::write(dir.join("fw.yaml"), chain).unwrap();
}

fn reference(dir: &Path, chain: &str, hex: &str) -> String {
    let args = ["trace", chain, "--mode", "reference", "--hex", hex];
    run(dir, 0, &args).0
}

#[test]
fn rules_that_did_not_match_say_why() {
    let dir = temp("trace-why");
    firewall(
        &dir,
        "deny udp\n# the second\ndeny dst port 22 or 23\ndeny src net 10.2.0.0/16 && tcp\n\
         allow tcp && dst port 80\nallow all\n",
    );
    let text = reference(&dir, "fw.yaml", SYN);
    for line in [
        TOLD,
        "not rule 1 (line 1): udp: is tcp",
        "not rule 2 (line 3): dst port 22 or dst port 23: is 80",
        "not rule 3 (line 4): src net 10.2.0.0/16: is 10.1.2.3",
        "by fw.rules:5:1",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    assert!(!text.contains("not rule 4"), "{text}");
    // with the program beside it, and for machines
    let args = ["trace", "fw.yaml", "--hex", SYN];
    let both = run(&dir, 0, &args).0;
    assert!(both.contains("not rule 2 (line 3): dst port 22"), "{both}");
    let v = json(&dir, 0, &args);
    assert_eq!(v["summary"], TOLD);
    let steps = v["steps"].as_array().unwrap();
    assert!(steps.iter().all(|s| s["packet"] == TOLD), "{v}");
    let rules = steps.iter().find(|s| s["element"] == "up_rules").unwrap();
    let why = rules["not_matched"].as_array().unwrap();
    assert_eq!((why.len(), &rules["not_matched_more"]), (3, &0.into()));
    assert_eq!(why[1]["rule"], 2);
    assert_eq!(
        (&why[1]["file"], &why[1]["line"]),
        (&"fw.rules".into(), &3.into())
    );
    assert_eq!(why[1]["why"], "dst port 22 or dst port 23: is 80");
}

#[test]
fn of_many_rules_the_first_are_told() {
    let dir = temp("trace-many");
    let mut rules = String::new();
    for port in 1..=1500 {
        writeln!(rules, "deny tcp && dst port {}", port + 100).unwrap();
    }
    firewall(&dir, &(rules + "allow all\n"));
    let text = reference(&dir, "fw.yaml", SYN);
    assert!(
        text.contains("not rule 20 (line 20): dst port 120: is 80"),
        "{text}"
    );
    assert!(!text.contains("not rule 21"), "{text}");
    assert!(text.contains("nor 1,480 rules more\n"), "{text}");
    let v = json(&dir, 0, &["trace", "fw.yaml", "--hex", SYN]);
    let step = v["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["element"] == "up_rules");
    assert_eq!(step.unwrap()["not_matched_more"], 1480);
}

/// Rules of an importer are told by their lines; a classifier by its patterns; no rule at all by all of them.
#[test]
fn importers_and_classifiers_say_why() {
    let dir = temp("trace-imported");
    firewall(
        &dir,
        "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p tcp -m tcp --dport 22 -j ACCEPT\n\
         -A FORWARD -s 10.9.0.0/16 -j ACCEPT\nCOMMIT\n",
    );
    let text = reference(&dir, "fw.yaml", SYN);
    for line in [
        "(line 3): dst port 22: is 80",
        "(line 4): src net 10.9.0.0/16: is 10.1.2.3",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    std::fs::write(
        dir.join("c.click"),
        "FromDevice(a) -> c :: Classifier(12/0806, 12/86dd 20/11, 100/00, 12/0800);\n\
         c[0] -> d :: Discard; c[1] -> d; c[2] -> d;\n\
         c[3] -> Strip(14) -> CheckIPHeader -> f :: IPClassifier(udp, icmp) -> d; f[1] -> d;\n",
    )
    .unwrap();
    let text = reference(&dir, "c.click", SYN);
    for line in [
        "not rule 1 (line 1): 12/0806: is 0800",
        "not rule 2 (line 1): 12/86dd: is 0800",
        "not rule 3 (line 1): 100/00: the packet ends at 54",
        "not rule 1 (line 3): udp: is tcp",
        "not rule 2 (line 3): icmp: is tcp",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
}

/// Once where it arrives, and again where it has changed.
#[test]
fn the_packet_is_told_where_it_changes() {
    let dir = temp("trace-packet");
    std::fs::write(
        dir.join("c.click"),
        "FromDevice(a) -> Strip(14) -> CheckIPHeader -> Counter -> DecIPTTL\n\
         -> IPRewriter(pattern 203.0.113.1 5000 - - 0 0) -> Unstrip(14) -> ToDevice(b);\n",
    )
    .unwrap();
    let text = reference(&dir, "c.click", SYN);
    let told: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| l.starts_with("IP "))
        .collect();
    let (hop, after) = (
        TOLD.replace("ttl 64", "ttl 63"),
        "IP 203.0.113.1.5000 > 198.51.100.1.80: Flags [S], seq 1, win 512, length 0, ttl 63",
    );
    // at the top, at the first step, where it has changed, and where it left
    assert_eq!(told, [TOLD, TOLD, &hop, after, after]);
}
