//! Rule sets as `nft -j list ruleset` prints them.

use super::*;
use crate::import::asks::{Asked, Question};
use crate::import::chains::Interfaces;
use crate::import::limits::Limit;
use crate::import::rule::{Rule, Section, Traffic};

fn request(family: Family, chain: Option<&'static str>) -> Request<'static> {
    static NAMES: std::sync::OnceLock<Interfaces> = std::sync::OnceLock::new();
    Request {
        family,
        chain,
        interfaces: NAMES.get_or_init(|| Interfaces {
            inside: Some("lan0".into()),
            outside: Some("wan0".into()),
            own: Vec::new(),
            ..Interfaces::default()
        }),
        host: false,
        traffic: Traffic::Forwarded,
    }
}

fn lines(rules: &[Rule]) -> Vec<String> {
    rules
        .iter()
        .map(|r| format!("{}: {} {}", r.line, r.verdict.action(), r.filter))
        .collect()
}

/// A rule set with one base chain `f/forward` of family inet and these rules in it, one a line from line 3 on.
fn file(rules: &[&str]) -> String {
    let mut s = String::from(
        "{\"nftables\": [{\"metainfo\": {\"version\": \"1\"}}, {\"table\": {\"family\": \"inet\", \"name\": \"f\"}},\n",
    );
    s.push_str("{\"chain\": {\"family\": \"inet\", \"table\": \"f\", \"name\": \"forward\", \"type\": \"filter\", \"hook\": \"forward\", \"prio\": 0, \"policy\": \"drop\"}},\n");
    for r in rules {
        s.push_str(&format!("{{\"rule\": {{\"family\": \"inet\", \"table\": \"f\", \"chain\": \"forward\", \"comment\": \"a \\\"rule\\\": x\", \"expr\": [{r}]}}}},\n"));
    }
    s.push_str("{\"set\": {\"family\": \"inet\", \"table\": \"f\", \"name\": \"bad\", \"type\": \"ipv4_addr\", \"elem\": [\"1.1.1.1\", {\"prefix\": {\"addr\": \"2.2.0.0\", \"len\": 16}}]}},\n");
    s.push_str("{\"chain\": {\"family\": \"inet\", \"table\": \"f\", \"name\": \"own\"}}]}\n");
    s
}

fn one(family: Family, expr: &str) -> Vec<String> {
    let set = parse(
        &file(&[&format!("{expr}, {{\"accept\": null}}")]),
        &request(family, None),
    )
    .unwrap();
    set.rules.into_iter().map(|r| r.filter).collect()
}

fn m(op: &str, left: &str, right: &str) -> String {
    let left = match left.split_once(' ').filter(|_| !left.starts_with('{')) {
        Some(("meta", k)) => format!("{{\"meta\": {{\"key\": \"{k}\"}}}}"),
        Some((p, f)) => format!("{{\"payload\": {{\"protocol\": \"{p}\", \"field\": \"{f}\"}}}}"),
        None => left.to_string(),
    };
    format!("{{\"match\": {{\"op\": \"{op}\", \"left\": {left}, \"right\": {right}}}}}")
}

#[test]
fn matches_become_expressions() {
    let v4 = |op: &str, left: &str, right: &str| one(Family::V4, &m(op, left, right)).concat();
    assert_eq!(v4("==", "ip saddr", "\"10.0.0.1\""), "src host 10.0.0.1");
    assert_eq!(
        v4(
            "!=",
            "ip daddr",
            "{\"prefix\": {\"addr\": \"10.0.0.0\", \"len\": 8}}"
        ),
        "not (dst net 10.0.0.0/8)"
    );
    assert_eq!(
        v4(
            "==",
            "ip saddr",
            "{\"set\": [\"1.1.1.1\", {\"range\": [\"2.0.0.0\", \"2.0.0.1\"]}]}"
        ),
        "(src host 1.1.1.1 or src net 2.0.0.0/31)"
    );
    assert_eq!(
        v4("==", "ip saddr", "\"@bad\""),
        "(src host 1.1.1.1 or src net 2.2.0.0/16)"
    );
    assert_eq!(
        v4(
            "==",
            "tcp dport",
            "{\"set\": [22, {\"range\": [80, 90]}, \"https\"]}"
        ),
        "tcp && (dst port 22 or (dst port >= 80 && dst port <= 90) or dst port 443)"
    );
    assert_eq!(
        v4("!=", "udp sport", "53"),
        "udp && (src port <= 52 or src port >= 54)"
    );
    assert_eq!(v4(">", "udp sport", "1023"), "udp && src port >= 1024");
    assert_eq!(
        v4("==", "meta l4proto", "{\"set\": [\"tcp\", 17, \"gre\"]}"),
        "(tcp or udp or ip proto 47)"
    );
    assert_eq!(
        v4("==", "icmp type", "{\"set\": [\"echo-request\", 0]}"),
        "icmp && (icmp[0:1] == 8 or icmp[0:1] == 0)"
    );
    assert_eq!(v4("<", "ip ttl", "5"), "ip[8:1] < 5");
    assert_eq!(
        v4("in", "tcp flags", "\"syn\""),
        "tcp && tcp[13:1] & 2 != 0"
    );
    assert_eq!(
        v4("!", "tcp flags", "[\"syn\", \"ack\"]"),
        "tcp && tcp[13:1] & 18 == 0"
    );
    let masked = "{\"&\": [{\"payload\": {\"protocol\": \"tcp\", \"field\": \"flags\"}}, {\"|\": [\"syn\", \"ack\"]}]}";
    assert_eq!(v4("==", masked, "\"syn\""), "tcp && tcp[13:1] & 18 == 2");
    let both = format!(
        "{}, {}",
        m("==", "meta l4proto", "{\"set\": [\"tcp\", \"udp\"]}"),
        m("==", "th dport", "53")
    );
    assert_eq!(one(Family::V4, &both), ["(tcp or udp) && dst port 53"]);
    // the other family's rules say nothing, and need not be understood
    assert_eq!(
        one(Family::V4, &m("==", "ip6 saddr", "\"::1\"")),
        Vec::<String>::new()
    );
    assert_eq!(
        one(Family::V4, &m("==", "meta nfproto", "\"ipv6\"")),
        Vec::<String>::new()
    );
    assert_eq!(
        one(Family::V4, &m("!=", "meta nfproto", "\"ipv6\"")),
        ["all"]
    );
    assert_eq!(
        one(
            Family::V6,
            &m(
                "==",
                "ip6 saddr",
                "{\"prefix\": {\"addr\": \"fd00::\", \"len\": 8}}"
            )
        ),
        ["src net fd00::/8"]
    );
    assert_eq!(
        one(
            Family::V6,
            &m("==", "icmpv6 type", "\"nd-neighbor-solicit\"")
        ),
        ["icmp6 && icmp6[0:1] == 135"]
    );
}

#[test]
fn directions_jumps_and_the_policy() {
    let jump = "{\"jump\": {\"target\": \"own\"}}";
    let rules = [
        format!(
            "{}, {{\"counter\": {{}}}}, {{\"accept\": null}}",
            m("==", "meta iifname", "\"lan0\"")
        ),
        format!(
            "{}, {{\"log\": null}}, {{\"reject\": null}}",
            m("==", "meta oifname", "{\"set\": [\"lan0\", \"lan1\"]}")
        ),
        format!("{}, {jump}", m("==", "tcp dport", "1")),
    ];
    let list: Vec<&str> = rules.iter().map(String::as_str).collect();
    let set = parse(&file(&list), &request(Family::V4, None)).unwrap();
    assert_eq!(lines(&set.rules), ["3: allow all"]);
    assert_eq!(lines(&set.down.unwrap()), ["4: deny all"]);
    assert_eq!(set.default, Some(Verdict::Deny));
    assert_eq!(set.warnings.len(), 2);
}

#[test]
fn what_cannot_be_expressed_is_refused_by_name() {
    let why = |expr: &str| -> String {
        let e = parse(
            &file(&["{\"counter\": null}", expr]),
            &request(Family::V4, None),
        )
        .unwrap_err();
        assert!(e.iter().all(|e| e.0 == 4), "{e:?}");
        e.into_iter().map(|e| e.1).collect::<Vec<_>>().join("; ")
    };
    let ct =
        |key: &str, value: &str| m("in", &format!("{{\"ct\": {{\"key\": \"{key}\"}}}}"), value);
    assert_eq!(why(&ct("mark", "\"x\"")), "mark 'x'");
    assert_eq!(
        why(&ct("zone", "\"1\"")),
        "'ct zone' is not supported; rules can ask for 'ct state', 'ct direction' and 'ct status'"
    );
    assert_eq!(
        why(&ct("status", "\"dying\"")),
        "expected seen-reply, assured, confirmed, snat or dnat behind 'ct status', found 'dying'"
    );
    assert_eq!(
        why(&format!(
            "{}, {{\"limit\": {{}}}}, {{\"vmap\": {{}}}}",
            m("==", "ether saddr", "\"x\"")
        )),
        "hardware address 'x'; statement 'limit' by name is not supported; \
         a 'vmap' without 'key' and 'data'"
    );
    assert_eq!(
        why(&m("==", "meta priority", "1")),
        "match on 'meta priority' is not supported"
    );
    assert_eq!(
        why(&m("==", "ip saddr", "\"@none\"")),
        "set '@none' is not in the file"
    );
    assert_eq!(why(&m("==", "tcp dport", "70000")), "value 70000");
    assert_eq!(
        why(&m("==", "th dport", "53")),
        "match on 'th dport' without a protocol of tcp, udp before it is not supported"
    );
    assert_eq!(
        why(&m("<", "ip saddr", "\"1.1.1.1\"")),
        "operator '<' on saddr"
    );
    assert_eq!(
        why("{\"jump\": {\"target\": \"nowhere\"}}"),
        "there is no chain 'f/nowhere'"
    );
    assert_eq!(why("7"), "an expression that is no object");
    for bad in [
        "",
        "[]",
        "{\"nftables\": 1}",
        "{\"nftables\": []}",
        "{\"nftables\": [{\"chain\": {\"family\": \"ip\", \"hook\": \"input\", \"type\": \"filter\"}}]}",
    ] {
        assert!(parse(bad, &request(Family::V4, None)).is_err(), "{bad}");
    }
    let e = parse("{\n\"nftables\": [}", &request(Family::V4, None)).unwrap_err();
    assert_eq!(e[0].0, 2);
    assert!(parse(&file(&[]), &request(Family::V4, Some("f/forward"))).is_ok());
    assert!(
        parse(&file(&[]), &request(Family::V4, Some("input"))).unwrap_err()[0]
            .1
            .contains("there is f/forward")
    );
}

#[test]
fn connections() {
    let ct = |op: &str, key: &str, value: &str| {
        one(
            Family::V4,
            &m(op, &format!("{{\"ct\": {{\"key\": \"{key}\"}}}}"), value),
        )
        .concat()
    };
    assert_eq!(ct("in", "state", "\"new\""), "ct state new");
    let list = "[\"established\", \"related\"]";
    assert_eq!(ct("in", "state", list), "ct state established,related");
    assert_eq!(
        ct("==", "state", &format!("{{\"set\": {list}}}")),
        "ct state established,related"
    );
    assert_eq!(
        ct("in", "state", &format!("{{\"|\": {list}}}")),
        "ct state established,related"
    );
    assert_eq!(ct("!=", "state", "\"invalid\""), "not ct state invalid");
    assert_eq!(
        ct("!=", "direction", "\"reply\""),
        "not ct direction reply && not ct state invalid,untracked"
    );
    let vmap = "{\"vmap\": {\"key\": {\"ct\": {\"key\": \"state\"}}, \"data\": {\"set\": [\
        [\"invalid\", {\"drop\": null}], [\"established\", {\"accept\": null}], \
        [\"related\", {\"jump\": {\"target\": \"own\"}}]]}}}";
    let set = parse(&file(&[vmap]), &request(Family::V6, None)).unwrap();
    assert_eq!(
        lines(&set.rules),
        ["3: deny ct state invalid", "3: allow ct state established"]
    );
    // what has been tracked
    let notrack = file(&[vmap, "{\"notrack\": null}"]);
    let e = parse(&notrack, &request(Family::V4, None)).unwrap_err();
    assert!(
        e.iter()
            .any(|e| e.0 == 4 && e.1.contains("cannot be left untracked")),
        "{e:?}"
    );
}

/// Verdict maps and concatenations: a rule for each element, in the order of the file.
#[test]
fn maps_and_concatenations_are_several_rules() {
    let pay = |p: &str, f: &str| {
        format!("{{\"payload\": {{\"protocol\": \"{p}\", \"field\": \"{f}\"}}}}")
    };
    let read = |exprs: &[&str], family| parse(&file(exprs), &request(family, None));
    let drop = "{\"drop\": null}";
    let accept = "{\"accept\": null}";
    let vmap = |key: &str, data: &str| {
        format!("{{\"vmap\": {{\"key\": {key}, \"data\": {{\"set\": [{data}]}}}}}}")
    };
    let ports = format!("[22, {accept}], [{{\"range\": [80, 90]}}, {drop}]");
    let set = read(&[&vmap(&pay("tcp", "dport"), &ports)], Family::V4).unwrap();
    assert_eq!(
        lines(&set.rules),
        [
            "3: allow tcp && dst port 22",
            "3: deny tcp && (dst port >= 80 && dst port <= 90)"
        ]
    );
    let key = format!(
        "{{\"concat\": [{}, {}]}}",
        pay("ip", "saddr"),
        pay("udp", "dport")
    );
    let pair = |a: &str, p: u16| format!("{{\"concat\": [\"{a}\", {p}]}}");
    let two = format!(
        "[{}, {accept}], [{}, {drop}]",
        pair("10.0.0.1", 53),
        pair("10.0.0.2", 123)
    );
    let set = read(&[&vmap(&key, &two)], Family::V4).unwrap();
    assert_eq!(
        lines(&set.rules),
        [
            "3: allow src host 10.0.0.1 && udp && dst port 53",
            "3: deny src host 10.0.0.2 && udp && dst port 123"
        ]
    );
    // of the other family, no rule is left
    assert!(
        read(&[&vmap(&key, &two)], Family::V6)
            .unwrap()
            .rules
            .is_empty()
    );
    let both = format!(
        "{{\"set\": [{}, {}]}}",
        pair("10.0.0.1", 53),
        pair("10.0.0.2", 123)
    );
    let matches = |op: &str| {
        format!("{{\"match\": {{\"op\": \"{op}\", \"left\": {key}, \"right\": {both}}}}}, {drop}")
    };
    let set = read(&[&matches("==")], Family::V4).unwrap();
    assert_eq!(
        lines(&set.rules),
        [
            "3: deny src host 10.0.0.1 && udp && dst port 53",
            "3: deny src host 10.0.0.2 && udp && dst port 123"
        ]
    );
    // of packets with that header, those that are none of them
    let set = read(&[&matches("!=")], Family::V4).unwrap();
    assert_eq!(
        lines(&set.rules),
        [
            "3: deny udp && not (src host 10.0.0.1 && dst port 53) && not (src host 10.0.0.2 && dst port 123)"
        ]
    );
    for (expr, why) in [
        (matches("<"), "'<' with concatenated values"),
        (vmap(&key, &format!("[\"*\", {drop}]")), "an element '*'"),
        (
            vmap(&key, &format!("[53, {drop}]")),
            "other parts than its key",
        ),
        (
            format!("{{\"vmap\": {{\"key\": {key}, \"data\": \"@none\"}}}}"),
            "map '@none' is not in the file",
        ),
        (
            format!("{}, {accept}", vmap(&key, &two)),
            "statement 'accept' behind 'vmap'",
        ),
        (
            format!("{}, {}", matches("=="), vmap(&key, &two)).replace(&format!("{drop}, "), ""),
            "several maps or concatenations",
        ),
    ] {
        let e = read(&[&expr], Family::V4).unwrap_err();
        assert!(e.iter().any(|e| e.1.contains(why)), "{why}: {e:?}");
    }
}

/// A map by name, as `nft -j list ruleset` prints it.
#[test]
fn maps_have_names() {
    let map = |flags: &str| {
        format!(
            "{{\"nftables\": [\n{{\"map\": {{\"family\": \"ip\", \"table\": \"t\", \"name\": \"m\", \
             \"type\": \"inet_service\", \"map\": \"verdict\"{flags}, \"elem\": [[22, {{\"accept\": null}}], \
             [{{\"elem\": {{\"val\": 23, \"comment\": \"no\"}}}}, {{\"drop\": null}}]]}}}},\n\
             {{\"chain\": {{\"family\": \"ip\", \"table\": \"t\", \"name\": \"f\", \"type\": \"filter\", \
             \"hook\": \"forward\", \"prio\": 0, \"policy\": \"drop\"}}}},\n\
             {{\"rule\": {{\"family\": \"ip\", \"table\": \"t\", \"chain\": \"f\", \"expr\": [{{\"vmap\": \
             {{\"key\": {{\"payload\": {{\"protocol\": \"tcp\", \"field\": \"dport\"}}}}, \"data\": \"@m\"}}}}]}}}}]}}"
        )
    };
    let set = parse(&map(""), &request(Family::V4, None)).unwrap();
    assert_eq!(
        lines(&set.rules),
        ["4: allow tcp && dst port 22", "4: deny tcp && dst port 23"]
    );
    let e = parse(
        &map(", \"flags\": [\"timeout\"], \"timeout\": 60"),
        &request(Family::V4, None),
    )
    .unwrap_err();
    assert!(e[0].1.contains("whose elements expire"), "{e:?}");
}

/// A file with base chains (name, hook, priority, policy) that have a rule each.
fn chains(all: &[(&str, &str, i64, &str, &str)]) -> String {
    let mut objects = Vec::new();
    for (name, hook, priority, policy, expr) in all {
        objects.push(format!(
            "{{\"chain\": {{\"family\": \"ip\", \"table\": \"t\", \"name\": \"{name}\", \"type\": \"filter\", \
             \"hook\": \"{hook}\", \"prio\": {priority}, \"policy\": \"{policy}\"}}}}"
        ));
        objects.push(format!(
            "{{\"rule\": {{\"family\": \"ip\", \"table\": \"t\", \"chain\": \"{name}\", \"expr\": [{expr}, \
             {{\"drop\": null}}]}}}}"
        ));
    }
    format!("{{\"nftables\": [\n{}]}}", objects.join(",\n"))
}

/// All base chains that forwarded packets pass are asked, in the order of their hooks and priorities.
#[test]
fn other_chains_are_stages() {
    let proto = |n: u8| m("==", "ip protocol", &n.to_string());
    let (a, b, c, d, e, f) = (
        proto(91),
        proto(92),
        proto(93),
        proto(94),
        proto(95),
        proto(96),
    );
    let text = chains(&[
        ("post", "postrouting", 0, "accept", &a),
        ("filter", "forward", 0, "drop", &b),
        ("late", "forward", 10, "accept", &c),
        ("in", "input", 0, "drop", &a),
        ("mangle", "prerouting", -150, "accept", &d),
        ("early", "forward", -10, "accept", &e),
        ("raw", "prerouting", -300, "accept", &f),
    ]);
    let set = parse(&text, &request(Family::V4, None)).unwrap();
    assert_eq!(lines(&set.rules), ["5: deny ip proto 92"]);
    assert_eq!(set.default, Some(Verdict::Deny));
    let stages: Vec<_> = set
        .stages
        .iter()
        .map(|s| (s.hook, lines(&s.rules)))
        .collect();
    let stage = |hook, text: &str| (hook, vec![text.to_string()]);
    assert_eq!(
        stages,
        [
            stage(Hook::Raw, "15: deny ip proto 96"),
            stage(Hook::Prerouting, "11: deny ip proto 94"),
            stage(Hook::Before, "13: deny ip proto 95"),
            stage(Hook::Behind, "7: deny ip proto 93"),
            stage(Hook::Behind, "3: deny ip proto 91"),
        ]
    );
    // one that was asked for is alone
    let set = parse(&text, &request(Family::V4, Some("late"))).unwrap();
    assert!(set.stages.is_empty());
    let refused = |all: &[(&str, &str, i64, &str, &str)]| {
        let mut all = all.to_vec();
        all.push(("filter", "forward", 0, "drop", &b));
        parse(&chains(&all), &request(Family::V4, None)).unwrap_err()
    };
    let e = refused(&[("post", "postrouting", 300, "accept", &a)]);
    assert!(
        e[0].0 == 3 && e[0].1.contains("postrouting with priority 300"),
        "{e:?}"
    );
    let new = "{\"match\": {\"op\": \"in\", \"left\": {\"ct\": {\"key\": \"state\"}}, \"right\": \"new\"}}";
    let e = refused(&[("raw", "prerouting", -300, "accept", new)]);
    assert!(
        e[0].0 == 3 && e[0].1.contains("before they are tracked"),
        "{e:?}"
    );
}

/// Rates: where they are asked, and what of them is refused.
#[test]
fn rates() {
    let limit = |more: &str| format!("{{\"limit\": {{\"rate\": 10, \"per\": \"minute\"{more}}}}}");
    let tcp = m("==", "meta l4proto", "\"tcp\"");
    let of = |family, rules: &[&str]| -> Vec<String> {
        let set = parse(&file(rules), &request(family, None)).unwrap();
        set.rules.into_iter().map(|r| r.filter).collect()
    };
    let rule = format!(
        "{tcp}, {}, {}, {{\"accept\": null}}",
        limit(", \"burst\": 7, \"inv\": true"),
        m("==", "tcp dport", "80")
    );
    let set = |family, rule: &str| parse(&file(&[rule]), &request(family, None)).unwrap();
    let bucket = |set: &RuleSet| match set.sections[0].more.first() {
        Some(Section::Ask {
            asked,
            holds,
            fails,
            ..
        }) => (Asked::clone(asked), *holds, *fails),
        s => panic!("{s:?}"),
    };
    let limit_of = |rate, per, burst, bytes, over| {
        Question::Limit(Limit {
            rate,
            per,
            burst,
            bytes,
            over,
        })
    };
    // both families share it: it has one name
    for family in [Family::V4, Family::V6] {
        let set = set(family, &rule);
        assert_eq!(lines(&set.rules), ["3: allow tcp", "3: allow all"]);
        let (bucket, within, beyond) = bucket(&set);
        assert_eq!(bucket.name, "limit_inet_f_forward_1");
        assert_eq!(bucket.question, limit_of(10, 60, 7, false, true));
        let more = &set.sections[0].more;
        assert_eq!(more[within - 1], Section::Rules(Vec::new()));
        let Section::Rules(rules) = &more[beyond - 1] else {
            panic!("{more:?}");
        };
        assert_eq!(lines(rules), ["3: allow dst port 80"]);
    }
    let bytes = ", \"burst\": 2, \"rate_unit\": \"kbytes\", \"burst_unit\": \"mbytes\"";
    let rule = format!("{}, {{\"drop\": null}}", limit(bytes));
    let limit_found = bucket(&set(Family::V4, &rule)).0.question;
    assert_eq!(limit_found, limit_of(10_240, 60, 2_097_152, true, false));
    // who only logs asks nobody
    let rule = format!("{}, {{\"log\": null}}", limit(""));
    assert_eq!(of(Family::V4, &[&rule]), [""; 0]);
    let wrong = |expr: &str| {
        let rules = format!("{expr}, {{\"accept\": null}}");
        let e = parse(&file(&[&rules]), &request(Family::V4, None)).unwrap_err();
        e.into_iter().map(|e| e.1).collect::<Vec<_>>().join("; ")
    };
    let iif = m("==", "meta iifname", "\"lan0\"");
    let six = m("==", "ip6 saddr", "\"::1\"");
    for behind in [&iif, &six] {
        let text = wrong(&format!("{}, {behind}", limit("")));
        assert!(text.starts_with("statement 'limit' in front of"), "{text}");
    }
    assert!(wrong(&format!("{}, {}", limit(""), limit(""))).contains("behind another one"));
    assert!(wrong("{\"limit\": \"named\"}").contains("by name"));
    assert!(wrong(&limit(", \"rate_unit\": \"x\"")).contains("unit 'x'"));
    // packets of the other family do not come to it
    assert_eq!(
        of(
            Family::V4,
            &[&format!("{six}, {}, {{\"accept\": null}}", limit(""))]
        ),
        [""; 0]
    );
}

/// Elements exclude each other: whichever takes a packet asks the rule's one bucket. Codes have names of their own.
#[test]
fn a_rate_behind_a_concatenation() {
    let field =
        |f: &str| format!("{{\"payload\": {{\"protocol\": \"icmpv6\", \"field\": \"{f}\"}}}}");
    let key = format!("{{\"concat\": [{}, {}]}}", field("type"), field("code"));
    let values = r#"{"set": [{"concat": ["packet-too-big", "no-route"]}, {"concat": ["parameter-problem", 1]}]}"#;
    let limit = r#"{"limit": {"rate": 10, "per": "minute"}}, {"accept": null}"#;
    let rule = format!("{}, {limit}", m("==", &key, values));
    let set = parse(&file(&[&rule]), &request(Family::V6, None)).unwrap();
    assert_eq!(
        lines(&set.rules),
        [
            "3: allow icmp6 && icmp6[0:1] == 2 && icmp6[1:1] == 0",
            "3: allow all"
        ]
    );
    let more = set.sections[0].more.iter();
    let names = more.filter_map(|s| match s {
        Section::Ask { asked, .. } => Some(asked.name.as_str()),
        Section::Rules(_) => None,
        s => panic!("{s:?}"),
    });
    assert_eq!(names.collect::<Vec<_>>(), ["limit_inet_f_forward_1"; 2]);
}
