//! Questions to elements in both languages: where they are asked, and what is said of them that are not known.

use super::asks::Question;
use super::chains::Interfaces;
use super::iptables::{self, Request};
use super::nftables;
use super::rule::{Rule, RuleSet, Section, Traffic};
use super::terms::Family;
use std::sync::Arc;

fn names() -> Interfaces {
    Interfaces {
        inside: Some("lan0".into()),
        outside: Some("wan0".into()),
        own: vec!["192.168.1.1".parse().unwrap()],
        at: [vec!["192.168.1.1".parse().unwrap()], Vec::new()],
        networks: [vec![("192.168.1.1".parse().unwrap(), 24)], Vec::new()],
        groups: [2, 0],
        ..Interfaces::default()
    }
}

/// A ruleset's list: its rules with the sections that they lead to, or what is asked with those for who it holds of and
/// all others.
fn sections(set: &RuleSet) -> Vec<String> {
    let one = |r: &Rule| {
        let text = format!("{} {}", r.verdict.action(), r.filter);
        match r.onward.as_ref().and_then(|o| o.section) {
            Some(n) => format!("{text} -> {n}"),
            None => text,
        }
    };
    let of = |rules: &[Rule]| rules.iter().map(one).collect::<Vec<_>>().join(", ");
    let more = set.sections[0].more.iter().map(|s| match s {
        Section::Rules(rules) => of(rules),
        Section::Ask {
            asked,
            holds,
            fails,
            ..
        } => {
            let what = match &asked.question {
                Question::Limit(l) => format!("limit {}/{}", l.rate, l.per),
                _ => asked.element().1,
            };
            format!("{what}: {holds}, {fails}")
        }
        Section::Connection { .. } => "by connection".into(),
    });
    [of(&set.rules)].into_iter().chain(more).collect()
}

fn iptables_set(rules: &str, names: &Interfaces) -> Result<RuleSet, Vec<(u32, String)>> {
    let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{rules}\nCOMMIT\n");
    let request = Request {
        family: Family::V4,
        chain: None,
        interfaces: names,
        host: false,
        traffic: Traffic::Forwarded,
    };
    iptables::parse(&text, &request)
}

fn iptables_of(rules: &str) -> Vec<String> {
    sections(&iptables_set(rules, &names()).unwrap_or_else(|e| panic!("{rules}: {e:?}")))
}

fn nft_set(rules: &str) -> Result<RuleSet, Vec<(u32, String)>> {
    let text = format!(
        "table inet f {{\n set gone {{ type ipv4_addr; timeout 1h; }}\n set left {{ type ipv4_addr; timeout 1h; \
         elements = {{ 10.0.0.1 }} }}\n chain forward {{\n  type filter hook forward priority filter; policy \
         accept;\n{rules}\n }}\n}}\n"
    );
    let names = names();
    let request = Request {
        family: Family::V4,
        chain: None,
        interfaces: &names,
        host: false,
        traffic: Traffic::Forwarded,
    };
    nftables::parse(&text, &request)
}

fn nft_of(rules: &str) -> Vec<String> {
    sections(&nft_set(rules).unwrap_or_else(|e| panic!("{rules}: {e:?}")))
}

/// Each question is asked of whom all before it hold, in the order of the rule's matches.
#[test]
fn questions_one_behind_the_other() {
    let found = iptables_of(
        "-A FORWARD -p tcp -m recent --update --seconds 60 --name bad -m limit --limit 1/s -m mark --mark 0 -j DROP",
    );
    assert_eq!(
        found,
        [
            "deny tcp -> 1, deny all -> 2",
            "RecentCheck(recent_bad, update, SECONDS 60): 3, 2",
            "",
            "deny all -> 4",
            "limit 1/1: 5, 2",
            "deny all",
        ]
    );
    // who is only noted goes on, whatever the answer
    let found = iptables_of("-A FORWARD -m recent --set --name a\n-A FORWARD -p udp -j DROP");
    assert_eq!(
        found,
        [
            "allow all -> 1",
            "RecentCheck(recent_a, set): 2, 2",
            "deny udp"
        ]
    );
}

#[test]
fn frames_strings_and_chance() {
    for (rule, asked) in [
        (
            "-m pkttype --pkt-type broadcast",
            "Classifier(0/ffffffffffff, -): 2, 3",
        ),
        (
            "-m pkttype ! --pkt-type multicast",
            "Classifier(0/01%01 !0/ffffffffffff, -): 3, 2",
        ),
        (
            "-m mac --mac-source 00:11:22:33:44:55",
            "Classifier(6/001122334455, -): 2, 3",
        ),
        (
            "-m string --algo bm --string example.com",
            "PayloadMatcher(0 string \"example.com\", BASE network, NOMATCH 1): 2, 3",
        ),
        (
            "-m statistic --mode random --probability 0.5",
            "RandomSample(0.500000000): 2, 3",
        ),
        (
            "-m statistic --mode nth --every 3 --packet 0",
            "TurnCheck(ask_ip_filter_FORWARD_1, 0, 0): 2, 3",
        ),
    ] {
        let found = iptables_of(&format!("-A FORWARD {rule} -j DROP"));
        let (all, asked) = (found.join("; "), asked.split_once(": ").unwrap().0);
        assert!(found[1].starts_with(asked), "{rule}: {all}");
        assert_eq!(
            found.iter().filter(|s| *s == "deny all").count(),
            1,
            "{all}"
        );
    }
    // frames for other stations never come to rules
    assert_eq!(
        iptables_of("-A FORWARD -m pkttype --pkt-type otherhost -j DROP"),
        ["deny false"]
    );
    for (rule, asked) in [
        (
            "meta pkttype broadcast drop",
            "Classifier(0/ffffffffffff, -)",
        ),
        (
            "ether saddr { 00:11:22:33:44:55, 00:11:22:33:44:56 } drop",
            "Classifier(6/001122334455, 6/001122334456, -)",
        ),
        (
            "numgen random mod 100 < 25 drop",
            "RandomSample(0.250000000)",
        ),
        (
            "tcp option maxseg size != 0 drop",
            "TCPOptionCheck(2, 2, 2, 0, 0, OUTSIDE true)",
        ),
        ("tcp option sack-perm exists drop", "TCPOptionCheck(4)"),
        (
            "numgen inc mod 4 == 1 drop",
            "TurnCheck(ask_inet_f_forward_1, 1, 1)",
        ),
    ] {
        let found = nft_of(rule);
        assert!(found[1].starts_with(asked), "{rule}: {found:?}");
    }
}

#[test]
fn what_the_host_answers() {
    assert_eq!(
        iptables_of("-A FORWARD -m addrtype --dst-type MULTICAST -j DROP"),
        ["deny (dst net 224.0.0.0/4)"]
    );
    // not where it is at home
    let set = iptables_set("-A FORWARD -m rpfilter --invert -j DROP", &names()).unwrap();
    assert!(
        set.rules[0]
            .filter
            .starts_with("not ((src net 192.168.1.1/24) && not ("),
        "{:?}",
        set.rules
    );
    let down = set.down.as_ref().unwrap();
    assert!(
        down[0]
            .filter
            .starts_with("not ((not src net 192.168.1.1/24) && not ("),
        "{down:?}"
    );
    let set = nft_set("fib saddr . iif oif missing drop").unwrap();
    assert!(
        set.rules[0]
            .filter
            .starts_with("not ((src net 192.168.1.1/24) && not ("),
        "{:?}",
        set.rules
    );
    let set =
        nft_set("iifgroup 2 drop\niiftype loopback drop\niiftype ether tcp dport 1 drop").unwrap();
    assert_eq!(sections(&set), ["deny all"]);
    assert_eq!(
        set.down.as_ref().map(|d| d[0].filter.as_str()),
        Some("tcp && dst port 1")
    );
}

#[test]
fn sets_of_ipset() {
    let rule = "-A FORWARD -m set ! --match-set lan src -j DROP";
    let e = iptables_set(rule, &names()).unwrap_err();
    assert!(e[0].1.contains("sets-file"), "{e:?}");
    let sets = super::ipset::IpSets::parse("create lan hash:net\nadd lan 10.0.0.0/8\n").unwrap();
    let names = Interfaces {
        sets: Some(Arc::new(sets)),
        ..names()
    };
    let set = iptables_set(rule, &names).unwrap();
    assert_eq!(sections(&set), ["deny not src net 10.0.0.0/8"]);
}

#[test]
fn sets_that_something_else_fills() {
    let set = nft_set("ip saddr @gone drop").unwrap();
    assert_eq!(sections(&set), ["deny false"]);
    assert!(
        set.warnings.iter().any(|w| w.contains("empty here")),
        "{:?}",
        set.warnings
    );
    assert!(
        nft_set("ip saddr @left drop").unwrap_err()[0]
            .1
            .contains("expire")
    );
    let e = nft_set("add @gone { ip saddr } drop").unwrap_err();
    assert!(e[0].1.contains("'add @gone' is not supported"), "{e:?}");
    // nobody comes to it
    assert!(nft_set("accept\nadd @gone { ip saddr } drop").is_ok());
}

/// What is refused is refused even where a question stands before it.
#[test]
fn refused_behind_questions() {
    let e = iptables_set(
        "-A FORWARD -i lan0 -m limit --limit 1/s -j TEE --gateway 10.0.0.1",
        &names(),
    );
    assert!(e.unwrap_err()[0].1.contains("'TEE'"));
}
