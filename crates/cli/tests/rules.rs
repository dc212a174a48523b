//! Counters of rules through the binary: `run --rules`, and `rules[]` in JSON.

use crate::common;

use common::{json, run, temp};
use onefold_capture::{CaptureWriter, LinkType};
use onefold_packet::checksum;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A UDP frame to this host and port, padded as devices do.
fn frame(host: u8, dport: u16) -> Vec<u8> {
    let mut ip = vec![
        0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 10, 0, 0, host,
    ];
    let sum = checksum::internet(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    f.extend(ip);
    f.extend([0x10, 0x01]);
    f.extend(dport.to_be_bytes());
    f.extend([0, 8, 0, 0]);
    f.resize(60, 0);
    f
}

/// A folder with these packets in `in.pcap`, the rules in a file, and a chain that is one firewall.
fn folder(name: &str, rules: &str, more: &str, frames: &[Vec<u8>]) -> PathBuf {
    let dir = temp(name);
    let mut w = CaptureWriter::create_for(dir.join("in.pcap"), LinkType::ETHERNET).unwrap();
    for (i, f) in frames.iter().enumerate() {
        let at = 1_000_000_000 + i as i64 * 1000;
        w.write(at, f, f.len() as u32).unwrap();
    }
    w.finish().unwrap();
    std::fs::write(dir.join("the.rules"), rules).unwrap();
    let chain = format!(
        "functions:\n  fw:\n    firewall:\n      rules-file: the.rules\n{more}ports:\n  a: fw[0]\n  b: fw[1]\n"
    );
    std::fs::write(dir.join("chain.yaml"), chain).unwrap();
    dir
}

const RUN: [&str; 5] = ["run", "chain.yaml", "--in", "a=in.pcap", "-q"];

fn rules(dir: &Path, args: &[&str]) -> Vec<Value> {
    let v = json(dir, 0, &[&RUN[..], args].concat());
    let all = v["rules"].as_array().unwrap().iter();
    all.filter(|r| r["element"] == "up_rules")
        .cloned()
        .collect()
}

fn counts(r: &Value) -> (u64, u64) {
    (r["packets"].as_u64().unwrap(), r["bytes"].as_u64().unwrap())
}

/// Hundreds of rules with two verdicts are two classes; each rule has its packets, and the default its own.
#[test]
fn each_rule_has_its_packets_and_the_default_the_rest() {
    let text: Vec<String> = (0..200)
        .map(|i| {
            let action = if i % 3 == 0 { "deny" } else { "allow" };
            format!("{action} udp && dst host 10.0.0.{i}")
        })
        .collect();
    let mut frames = Vec::new();
    for i in 0..220u8 {
        for _ in 0..1 + i % 4 {
            frames.push(frame(i, 53));
        }
    }
    let dir = folder("rules-long", &text.join("\n"), "", &frames);
    for mode in ["reference", "program"] {
        let all = rules(&dir, &["--mode", mode]);
        assert_eq!(all.len(), 201, "{mode}");
        for (i, r) in all.iter().take(200).enumerate() {
            let n = 1 + i as u64 % 4;
            assert_eq!(counts(r), (n, n * 28), "{mode}, {r}");
            assert_eq!(r["line"], i + 1);
            assert_eq!(r["text"], text[i].as_str());
            assert_eq!(
                r["file"].as_str().map(|f| f.ends_with("the.rules")),
                Some(true)
            );
            assert_eq!(r["verdict"], if i % 3 == 0 { "deny" } else { "allow" });
        }
        let policy = &all[200];
        assert_eq!(policy["policy"], true);
        assert_eq!(policy["text"], "policy deny");
        let n: u64 = (200..220).map(|i| 1 + i % 4).sum();
        assert_eq!(counts(policy), (n, n * 28), "{mode}");
        assert_eq!(
            policy["file"].as_str().map(|f| f.ends_with("chain.yaml")),
            Some(true)
        );
    }
    // no class claims to be one rule's
    let (out, _) = run(&dir, 0, &RUN);
    assert!(
        out.contains("by 134 rules") || out.contains("by 133 rules"),
        "{out}"
    );
    let (out, _) = run(&dir, 0, &[&RUN[..], &["--rules"]].concat());
    assert!(
        out.contains("rules of fw/up_rules: 201 of 201 had packets"),
        "{out}"
    );
    let line = out
        .lines()
        .find(|l| l.contains("dst host 10.0.0.7 "))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..3], ["4", "112", "allow"], "{line}");
    assert!(line.ends_with("the.rules:8)"), "{line}");
    // rules without packets are there, too
    assert!(
        out.contains("rules of fw/down_rules: 0 of 201 had packets"),
        "{out}"
    );
}

const IPTABLES: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:web - [0:0]
-A FORWARD -p tcp -j DROP
-A FORWARD -d 10.0.0.0/25 -j web
-A FORWARD -d 10.0.0.0/28 -j web
-A FORWARD -d 10.0.0.200/32 -p udp -m udp --dport 53 -j ACCEPT
-A web -p udp -m udp --dport 80 -j ACCEPT
COMMIT
";

/// A rule that is reached by several jumps is one rule; the policy is the chain's.
#[test]
fn iptables_rules_have_chain_and_number() {
    let frames = [
        frame(1, 80),
        frame(100, 80),
        frame(200, 53),
        frame(200, 53),
        frame(1, 81),
    ];
    let dir = folder("rules-iptables", IPTABLES, "", &frames);
    for mode in ["reference", "program"] {
        let all = rules(&dir, &["--mode", mode]);
        let of = |chain: &str, number: u64| {
            let mut found = all
                .iter()
                .filter(|r| r["chain"] == chain && r["number"].as_u64().unwrap_or(0) == number);
            let one = found
                .next()
                .unwrap_or_else(|| panic!("{chain} {number}: {all:?}"));
            assert!(found.next().is_none(), "{all:?}");
            one.clone()
        };
        let web = of("web", 1);
        assert_eq!(counts(&web), (2, 56), "{mode}");
        assert_eq!((&web["table"], &web["line"]), (&"filter".into(), &9.into()));
        assert_eq!(web["text"], "-A web -p udp -m udp --dport 80 -j ACCEPT");
        assert_eq!(counts(&of("FORWARD", 4)), (2, 56), "{mode}");
        assert_eq!(counts(&of("FORWARD", 1)), (0, 0), "{mode}");
        let policy = of("FORWARD", 0);
        assert_eq!(counts(&policy), (1, 28), "{mode}");
        assert_eq!(
            (&policy["policy"], &policy["line"]),
            (&true.into(), &3.into())
        );
    }
}

/// The same in a process, where the first jump that leads to a rule has others beside it that packets take.
#[test]
fn iptables_rules_in_a_process_have_the_packets_of_all_jumps() {
    let narrow_first = IPTABLES
        .replace("10.0.0.0/25", "10.0.0.X/25")
        .replace("10.0.0.0/28", "10.0.0.0/25")
        .replace("10.0.0.X/25", "10.0.0.0/28");
    let frames = [frame(1, 80), frame(100, 80), frame(101, 80), frame(200, 53)];
    let dir = folder("rules-iptables-process", &narrow_first, "", &frames);
    let said = || -> Vec<_> {
        let all = rules(&dir, &[]).into_iter();
        all.map(|r| (r["text"].to_string(), counts(&r))).collect()
    };
    let inline = said();
    let web = inline.iter().find(|r| r.0.contains("-A web"));
    assert_eq!(web.map(|r| r.1), Some((3, 84)), "{inline:?}");
    let file = dir.join("chain.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("  fw:\n", "  fw:\n    run: process\n");
    std::fs::write(&file, text).unwrap();
    assert_eq!(said(), inline);
}

/// `nft -j` writes everything into one line: rules are told from each other by handle.
#[test]
fn nftables_rules_have_handles() {
    let rule = |handle: u64, port: u64, verdict: &str| {
        format!(
            "{{\"rule\": {{\"family\": \"inet\", \"table\": \"f\", \"chain\": \"forward\", \"handle\": {handle}, \"expr\": [\
             {{\"match\": {{\"op\": \"==\", \"left\": {{\"payload\": {{\"protocol\": \"udp\", \"field\": \"dport\"}}}}, \"right\": {port}}}}}, \
             {{\"{verdict}\": null}}]}}}}"
        )
    };
    let text = format!(
        "{{\"nftables\": [{{\"metainfo\": {{\"json_schema_version\": 1}}}}, {{\"table\": {{\"family\": \"inet\", \"name\": \"f\", \"handle\": 1}}}}, \
         {{\"chain\": {{\"family\": \"inet\", \"table\": \"f\", \"name\": \"forward\", \"handle\": 2, \"type\": \"filter\", \"hook\": \"forward\", \
         \"prio\": 0, \"policy\": \"drop\"}}}}, {}, {}, {}]}}",
        rule(7, 53, "accept"),
        rule(9, 80, "drop"),
        rule(4, 443, "accept")
    );
    let frames = [frame(1, 443), frame(2, 443), frame(3, 80), frame(4, 22)];
    let dir = folder("rules-nftables", &text, "", &frames);
    for mode in ["reference", "program"] {
        let all = rules(&dir, &["--mode", mode]);
        let seen: Vec<(u64, u64, u64)> = all
            .iter()
            .map(|r| {
                let n = |key: &str| r[key].as_u64().unwrap_or(0);
                assert_eq!(
                    (&r["family"], &r["table"], &r["chain"]),
                    (&"inet".into(), &"f".into(), &"forward".into())
                );
                (n("handle"), n("number"), n("packets"))
            })
            .collect();
        assert_eq!(seen, [(7, 1, 0), (9, 2, 1), (4, 3, 2), (0, 0, 1)], "{mode}");
    }
    let (out, _) = run(&dir, 0, &[&RUN[..], &["--rules"]].concat());
    assert!(out.contains("inet f forward handle 4: allow"), "{out}");
}

/// Lists in a Click configuration are the operator's, too; what none of their arguments fits is said.
#[test]
fn lists_of_click_configurations() {
    let frames = [frame(1, 53), frame(2, 80), frame(3, 80), frame(4, 22)];
    let dir = folder("rules-click", "", "", &frames);
    let chain = "functions:\n  f:\n    click:\n      config: |\n        FromDevice(0) -> Strip(14) -> CheckIPHeader -> k :: IPClassifier(dst port 53, dst port 80) -> Unstrip(14) -> ToDevice(1);\n        k[1] -> Discard;\n        FromDevice(1) -> Discard;\nports:\n  a: f[0]\n  b: f[1]\n";
    std::fs::write(dir.join("chain.yaml"), chain).unwrap();
    let v = json(&dir, 0, &RUN);
    let all = v["rules"].as_array().unwrap();
    let seen: Vec<(&str, &str, u64)> = all
        .iter()
        .map(|r| {
            let s = |key: &str| r[key].as_str().unwrap();
            (s("text"), s("verdict"), counts(r).0)
        })
        .collect();
    let want = [
        ("dst port 53", "output 0", 1),
        ("dst port 80", "output 1", 2),
        ("no rule fits", "deny", 1),
    ];
    assert_eq!(seen, want, "{v}");
}
