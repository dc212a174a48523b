//! The reader of `iptables-save`, rule by rule and file by file.

use super::super::rule::Way;
use super::*;

fn read(text: &str, chain: Option<&str>) -> Result<RuleSet, Errors> {
    let interfaces = Interfaces {
        inside: Some("lan0".into()),
        outside: Some("wan0".into()),
        own: vec!["203.0.113.1".parse().unwrap()],
        ..Interfaces::default()
    };
    let request = Request {
        family: Family::V4,
        chain,
        interfaces: &interfaces,
        host: false,
        traffic: Traffic::Forwarded,
    };
    parse(text, &request)
}

fn lines(rules: &[super::super::rule::Rule]) -> Vec<String> {
    rules
        .iter()
        .map(|r| format!("{}: {} {}", r.line, r.verdict.action(), r.filter))
        .collect()
}

fn forward(rules: &str) -> Result<RuleSet, Errors> {
    read(
        &format!("*filter\n:FORWARD DROP [0:0]\n:own - [0:0]\n{rules}\nCOMMIT\n"),
        None,
    )
}

fn one(rule: &str) -> String {
    let set = forward(&format!("-A FORWARD {rule} -j ACCEPT")).unwrap();
    set.rules[0].filter.clone()
}

pub(super) fn wrong(rule: &str) -> String {
    let e = forward(&format!("-A FORWARD {rule}")).unwrap_err();
    assert_eq!(e[0].0, 4);
    e.into_iter().map(|e| e.1).collect::<Vec<_>>().join("; ")
}

#[test]
fn matches_become_expressions() {
    let frag = "ip[6:2] & 8191 == 0";
    assert_eq!(one(""), "all");
    assert_eq!(
        one("-s 10.0.0.0/8 ! -d 10.1.2.3/32 -p 47"),
        "src net 10.0.0.0/8 && not dst host 10.1.2.3 && ip proto 47"
    );
    assert_eq!(one("-s ! 10.0.0.0/255.0.0.0"), "not src net 10.0.0.0/8");
    assert_eq!(
        one("-p tcp -m tcp --dport 80:90 --sport 1024:"),
        format!("tcp && (dst port >= 80 && dst port <= 90) && src port >= 1024 && {frag}")
    );
    assert_eq!(
        one("-p udp -m udp ! --dport domain"),
        format!("udp && (dst port <= 52 or dst port >= 54) && {frag}")
    );
    assert_eq!(
        one("-p tcp -m multiport --ports 1,2"),
        format!(
            "tcp && ((src port >= 1 && src port <= 2) or (dst port >= 1 && dst port <= 2)) && {frag}"
        )
    );
    assert_eq!(
        one("-p tcp -m tcp --tcp-flags SYN,ACK SYN"),
        format!("tcp && (tcp[13:1] & 18 == 2) && {frag}")
    );
    assert_eq!(
        one("-p tcp ! --syn"),
        format!("tcp && not (tcp[13:1] & 23 == 2) && {frag}")
    );
    assert_eq!(
        one("-p icmp -m icmp --icmp-type 3/4"),
        format!("icmp && (icmp[0:1] == 3 && icmp[1:1] == 4) && {frag}")
    );
    assert_eq!(
        one("-p icmp --icmp-type echo-request"),
        format!("icmp && (icmp[0:1] == 8) && {frag}")
    );
    assert_eq!(one("-p tcp -m tcp"), format!("tcp && {frag}"));
    assert_eq!(
        one("-m conntrack --ctstate RELATED,ESTABLISHED"),
        "ct state related,established"
    );
    assert_eq!(
        one("-p tcp -m state ! --state NEW"),
        "tcp && not ct state new"
    );
    assert_eq!(
        one("-m conntrack --ctdir REPLY ! --ctstatus SEEN_REPLY"),
        "ct direction reply && not ct state invalid,untracked && \
         not ct status seen-reply && not ct state invalid,untracked"
    );
    assert_eq!(
        one("-m conntrack --ctstate INVALID --ctdir REPLY"),
        "(ct direction reply or ct state invalid,untracked) && ct state invalid"
    );
    assert_eq!(one("! -p tcp"), "not tcp");
    assert_eq!(one("-f"), "(ip[6:2] & 8191 != 0)");
    assert_eq!(
        one("-m iprange --src-range 10.0.0.2-10.0.0.3"),
        "src net 10.0.0.2/31"
    );
    assert_eq!(
        one("-m ttl --ttl-lt 5 -m comment --comment \"a \\\"b\\\" c\""),
        "(ip[8:1] < 5)"
    );
}

#[test]
fn ipsec_is_not_here() {
    let set = forward(
        "-A FORWARD -m policy --dir in --pol ipsec -j DROP\n-A FORWARD -m policy --dir out --pol none -j ACCEPT",
    )
    .unwrap();
    assert_eq!(lines(&set.rules), ["4: deny false", "5: allow all"]);
    assert_eq!(
        set.warnings,
        ["1 rules ask for IPsec ('--pol ipsec'), which is not here: they take nothing"]
    );
    assert!(wrong("-m policy --pol x -j DROP").contains("policy 'x'"));
    assert_eq!(
        wrong("-m policy --pol ipsec --reqid 5 -j DROP"),
        "option '--reqid' is not supported"
    );
}

/// Where a rate is asked, what is asked before it and behind it, and who depends on the answer.
#[test]
fn rates() {
    let set = forward(
        "-A FORWARD -m limit --limit 2/s -j LOG\n\
         -A FORWARD -p tcp -m limit --limit 3/min -m state --state NEW -d 10.0.0.1 -j ACCEPT\n\
         -A FORWARD -p udp -m udp --dport 53 -m limit -j own\n\
         -A own -m state --state NEW -m limit --limit 1/s --limit-burst 9 --dport 80 -p tcp -j RETURN\n\
         -A own -s 10.0.0.0/8 -j DROP",
    );
    // '-p' stands behind its option
    let e = set.unwrap_err();
    assert!(e[0].0 == 7 && e[0].1.contains("needs '-p tcp'"), "{e:?}");
    let set = forward(
        "-A FORWARD -m limit --limit 2/s -j LOG\n\
         -A FORWARD -p tcp -m limit --limit 3/min -m state --state NEW -d 10.0.0.1 -j ACCEPT\n\
         -A FORWARD -p udp -m limit -j own\n\
         -A own -m state --state NEW -m limit --limit 1/s --limit-burst 9 -j RETURN\n\
         -A own -s 10.0.0.0/8 -j DROP",
    )
    .unwrap();
    assert_eq!(
        sections(&set),
        [
            "5: allow tcp && dst host 10.0.0.1 -> 1, 5: allow all -> 2",
            "limit_ip_filter_FORWARD_2 3/60 5: 9, 2",
            "6: allow udp -> 3, 6: allow all -> 4",
            "limit_ip_filter_FORWARD_3 3/3600 5: 5, 4",
            "",
            // the chain that is jumped to, and who comes back from it
            "7: allow ct state new -> 6, 7: allow all -> 7",
            "limit_ip_filter_own_1 1/1 9: 8, 7",
            "8: deny src net 10.0.0.0/8",
            "",
            "5: allow ct state new, 6: allow udp -> 3, 6: allow all -> 4",
        ]
    );
    assert_eq!(set.down, None);
    // a mark in front of a rate, and one behind it
    let set = forward(
        "-A FORWARD -p udp -j MARK --set-mark 1\n\
         -A FORWARD -m mark --mark 1 -m limit -j ACCEPT\n\
         -A FORWARD -m limit -m mark --mark 1 -j ACCEPT",
    )
    .unwrap();
    assert_eq!(
        sections(&set),
        [
            "4: allow udp -> 1, 6: allow all -> 2",
            "5: allow all -> 5",
            "limit_ip_filter_FORWARD_3 3/3600 5: 4, 3",
            "",
            "",
            "limit_ip_filter_FORWARD_2 3/3600 5: 7, 6",
            "6: allow all -> 8",
            "5: allow all",
            "limit_ip_filter_FORWARD_3 3/3600 5: 10, 9",
            "",
            "6: allow all",
        ]
    );
}

/// The sections of a set's list: its rules with the sections that they lead to, or its bucket with those within its
/// rate and beyond it.
fn sections(set: &RuleSet) -> Vec<String> {
    use super::super::rule::{Rule, Section};
    use crate::import::asks::Question;
    let of = |rules: &[Rule]| -> String {
        let one = |(r, text): (&Rule, String)| match r.onward.as_ref().and_then(|o| o.section) {
            Some(n) => format!("{text} -> {n}"),
            None => text,
        };
        let all: Vec<String> = rules.iter().zip(lines(rules)).map(one).collect();
        all.join(", ")
    };
    let more = set.sections[0].more.iter().map(|s| match s {
        Section::Rules(rules) => of(rules),
        Section::Ask {
            asked,
            holds,
            fails,
            ..
        } => {
            let (name, question) = (&asked.name, &asked.question);
            let Question::Limit(l) = question else {
                panic!("{question:?}")
            };
            format!("{name} {}/{} {}: {holds}, {fails}", l.rate, l.per, l.burst)
        }
        Section::Connection { .. } => "by connection".to_string(),
    });
    [of(&set.rules)].into_iter().chain(more).collect()
}

#[test]
fn chains_directions_and_the_policy() {
    let set = forward(
        "-A FORWARD -i lan0 -j own\n-A FORWARD -i wan0 -o lan0 -p tcp -j REJECT --reject-with tcp-reset\n\
         -A own -p udp -j RETURN\n-A own -j LOG --log-prefix \"x y\"\n[1:2] -A own -s 10.0.0.0/8 -j ACCEPT",
    )
    .unwrap();
    assert_eq!(
        lines(&set.rules),
        ["8: allow not (udp) && src net 10.0.0.0/8"]
    );
    assert_eq!(lines(&set.down.unwrap()), ["5: deny tcp"]);
    assert_eq!(set.default, Some(Verdict::Deny));
    assert_eq!(
        set.warnings,
        [
            "1 REJECT rules drop without an answer",
            "1 rules that only log do nothing"
        ]
    );
    // another chain, of another table
    let text = "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p 89 -j DROP\nCOMMIT\n\
                *filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n";
    let set = read(text, Some("mangle/PREROUTING")).unwrap();
    assert_eq!(
        (lines(&set.rules), set.down),
        (vec!["3: deny ip proto 89".to_string()], None)
    );
    assert_eq!(set.default, Some(Verdict::Allow));
}

/// Tables raw, mangle and security, where their rules let packets pass or drop them.
#[test]
fn other_tables_are_stages() {
    let file = |raw: &str, mangle: &str| {
        let text = format!(
            "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING {raw}\nCOMMIT\n*mangle\n:PREROUTING ACCEPT [0:0]\n\
             :FORWARD ACCEPT [0:0]\n:POSTROUTING DROP [0:0]\n-A FORWARD {mangle}\nCOMMIT\n\
             *filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"
        );
        read(&text, None)
    };
    let set = file(
        "-d 10.0.0.1 ! -i lan0 -j DROP",
        "-m state --state INVALID -j DROP",
    )
    .unwrap();
    let what: Vec<_> = (set.stages.iter())
        .map(|s| {
            (
                s.hook,
                lines(&s.rules),
                s.down.as_deref().map(lines),
                s.default,
            )
        })
        .collect();
    let dropped = vec!["3: deny dst host 10.0.0.1".to_string()];
    let invalid = vec!["9: deny ct state invalid".to_string()];
    assert_eq!(
        what,
        [
            (Hook::Raw, vec![], Some(dropped), Verdict::Allow),
            (Hook::Before, invalid, None, Verdict::Allow),
            (Hook::Behind, vec![], None, Verdict::Deny),
        ]
    );
    assert_eq!(set.stages[2].policy.1, Some(8));
    assert_eq!(set.stages[2].policy.0.table, "mangle");
    let e = file("-m state --state NEW -j DROP", "-j ACCEPT").unwrap_err();
    assert!(
        e[0].0 == 3 && e[0].1.contains("before they are tracked"),
        "{e:?}"
    );
    let e = file("-j ACCEPT", "-p tcp -j TOS --set-tos 4").unwrap_err();
    assert!(e[0].0 == 9 && e[0].1.contains("TOS"), "{e:?}");
    // without a table filter nothing is filtered
    let set = read("*mangle\n-A FORWARD -p 89 -j DROP\nCOMMIT\n", None).unwrap();
    assert_eq!((set.rules.len(), set.stages.len()), (0, 1));
    assert_eq!(set.default, Some(Verdict::Allow));
    let e = read("*weird\n-A FORWARD -j DROP\nCOMMIT\n", None).unwrap_err();
    assert_eq!(e[0], (2, "table 'weird' is not known".into()));
}

const ROUTER: &str = "*raw
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A OUTPUT -p udp -j MARK --set-mark 1
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A PREROUTING -i wan0 -p tcp --dport 1000:1010 -j DNAT --to-destination 10.0.0.9:2000-2010/1000
-A POSTROUTING -s 10.9.0.0/16 -j ACCEPT
-A POSTROUTING -s 10.0.0.0/8 -o wan0 -j MASQUERADE --random
-A POSTROUTING -o lan0 -j NETMAP --to 192.168.0.0/255.255.0.0
-A DOCKER -i lan0 -j RETURN
-A DOCKER ! -i lan0 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.2:8080
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT
COMMIT
";

#[test]
fn table_nat_is_read_beside_table_filter() {
    let set = read(ROUTER, None).unwrap();
    assert_eq!(
        lines(&set.rules),
        ["20: allow (ct state related,established or ct status dnat)"]
    );
    let nat = set.nat.unwrap();
    let texts = |rules: &[crate::import::nat::NatRule]| -> Vec<String> {
        let own = (None, Some("203.0.113.1".parse().unwrap()));
        let one = |r: &crate::import::nat::NatRule| {
            let range = r.target.range(own).unwrap().unwrap_or("stays".into());
            let chain = r.place.as_ref().map_or("", |p| &p.chain);
            format!("{} {chain}: {} -> {range}", r.line, r.filter)
        };
        rules.iter().map(one).collect()
    };
    let frag = "ip[6:2] & 8191 == 0";
    let masquerades = "13 POSTROUTING: src net 10.0.0.0/8 -> 203.0.113.1 random";
    let stays = "12 POSTROUTING: src net 10.9.0.0/16 -> stays";
    let [(dst, _), (src, _)] = nat.of(Way::Up);
    assert_eq!(texts(dst), [""; 0]);
    assert_eq!(texts(src), [stays, masquerades]);
    let [(dst, _), (src, _)] = nat.of(Way::Down);
    let docker = format!(
        "16 DOCKER: (dst host 203.0.113.1) && tcp && dst port 80 && {frag} -> 10.0.0.2 8080"
    );
    let forward = format!(
        "11 PREROUTING: tcp && (dst port >= 1000 && dst port <= 1010) && {frag} \
         -> 10.0.0.9 2000-2010 offset 1000"
    );
    assert_eq!(texts(dst), [docker, forward]);
    assert_eq!(texts(src), [stays, "14 POSTROUTING: all -> 192.168.0.0/16"]);
    let masquerade = &nat.of(Way::Up)[1].0[1].target;
    assert!(
        masquerade
            .range((None, None))
            .unwrap_err()
            .contains("addresses")
    );
    // one chain, and nothing else
    let e = read(ROUTER, Some("nat/POSTROUTING")).unwrap_err();
    assert_eq!(e[0].0, 20);
    assert!(
        e[0].1
            .starts_with("chain 'FORWARD' of table 'filter' has rules")
    );
    let alone = ROUTER.split("*filter").next().unwrap();
    let e = read(alone, Some("nat/POSTROUTING")).unwrap_err();
    assert_eq!(e[0].0, 13);
    assert!(
        e[0].1
            .starts_with("the rule translates addresses: without 'chain'")
    );
}

#[test]
fn what_table_nat_cannot_do() {
    let nat = |rule: &str| {
        let text = format!(
            "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING {rule}\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"
        );
        read(&text, None).unwrap_err().remove(0)
    };
    assert!(
        nat("-p tcp -j REDIRECT --to-ports 80")
            .1
            .starts_with("target 'REDIRECT' sends packets to programs")
    );
    assert_eq!(
        nat("-j DNAT"),
        (3, "target 'DNAT' without an address".into())
    );
    assert_eq!(
        nat("-j SNAT --to-source 1.2.3.4 --foo").1,
        "option '--foo' of target 'SNAT' is not supported"
    );
    assert_eq!(
        nat("-j DROP"),
        (3, "table nat translates; it drops nothing".into())
    );
    assert_eq!(
        nat("-j NETMAP --to 10.0.0.0/255.0.255.0").1,
        "'10.0.0.0/255.0.255.0': the mask is no prefix"
    );
    assert!(
        nat("-m addrtype --dst-type FOREIGN -j ACCEPT")
            .1
            .starts_with("address type 'FOREIGN'")
    );
}

#[test]
fn what_cannot_be_expressed_is_refused_by_name() {
    assert_eq!(
        wrong("-j DNAT --to-destination 10.0.0.1"),
        "target 'DNAT' is for table nat"
    );
    assert_eq!(
        wrong("-m conntrack --ctproto tcp -j ACCEPT"),
        "option '--ctproto' is not supported"
    );
    assert_eq!(
        wrong("-m state --state FOO -j ACCEPT"),
        "connection state 'FOO' is not supported"
    );
    assert_eq!(
        wrong("-m time --timestart 8:00 -j ACCEPT"),
        "match 'time' is not supported"
    );
    assert_eq!(
        wrong("-p tcp -j TOS --set-tos 4"),
        "target 'TOS' is not supported"
    );
    assert_eq!(
        wrong("--dport 80 -j ACCEPT"),
        "'--dport' needs '-p tcp' or '-p udp' before it"
    );
    assert_eq!(
        wrong("-s 1.2.3 -d x --foo -j ACCEPT"),
        "'1.2.3' is no IPv4 address; 'x' is no IPv4 address; option '--foo' is not supported"
    );
    assert_eq!(wrong("-j nowhere"), "there is no chain 'nowhere'");
    assert_eq!(wrong("-p xyz -j ACCEPT"), "`xyz` is no protocol");
    assert_eq!(
        wrong("-p udp --syn -j ACCEPT"),
        "'--syn' needs its protocol, given with '-p', before it"
    );
    assert_eq!(
        wrong("-p tcp --dport 90:80 -j ACCEPT"),
        "port range '90:80'"
    );
    let e = forward("-A FORWARD -j own\n-A own -g own").unwrap_err();
    assert!(e[0].0 == 5 && e[0].1.contains("circle"), "{e:?}");
    let none = Interfaces::default();
    let r = Request {
        family: Family::V4,
        chain: None,
        interfaces: &none,
        host: false,
        traffic: Traffic::Forwarded,
    };
    let e = parse(
        "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -i eth0 -j ACCEPT\n",
        &r,
    )
    .unwrap_err();
    assert!(
        e[0].1.starts_with("the rule names interface 'eth0'"),
        "{e:?}"
    );
    let e = read(
        "*filter\n:FORWARD DROP [0:0]\n-A INPUT -p tcp -j DROP\n",
        None,
    )
    .unwrap_err();
    assert!(e[0].1.contains("INPUT has"), "{e:?}");
    for bad in [
        "-A FORWARD -j DROP",
        "*filter\n:x\n",
        "*filter\nfoo\n",
        "*nat\n",
        "*filter\n:own - [0:0]\n-A own -j DROP\n",
    ] {
        assert!(read(bad, Some("own")).is_err(), "{bad}");
    }
}

#[test]
fn ipv6() {
    let none = Interfaces::default();
    let r = Request {
        family: Family::V6,
        chain: Some("INPUT"),
        interfaces: &none,
        host: false,
        traffic: Traffic::Forwarded,
    };
    let text = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -s fd00::/8 -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j DROP\n";
    let set = parse(text, &r).unwrap();
    assert_eq!(
        lines(&set.rules),
        ["3: deny src net fd00::/8 && icmp6 && (icmp6[0:1] == 128) && not ip frag"]
    );
}

/// Rules behind those that change packets are asked for packets as they are then; marks are known where it is asked
/// for them.
#[test]
fn marks_and_changes_go_on() {
    use super::super::rule::{Section, Step};
    let set = read(
        "*mangle
:PREROUTING ACCEPT [0:0]
-A PREROUTING -i lan0 -j MARK --set-xmark 0x2/0xff
-A PREROUTING -p tcp -m tcp --syn -j TCPMSS --set-mss 1200
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -m mark --mark 0x2/0xf -j ACCEPT
-A FORWARD -i cali+ -m rpfilter --invert -j DROP
COMMIT
",
        None,
    )
    .unwrap();
    assert_eq!(set.marks, [(0, false), (2, false)]);
    let stage = &set.stages[0];
    let onward = |r: &super::super::rule::Rule| r.onward.clone().unwrap();
    let first = onward(&stage.rules[0]);
    assert_eq!((first.steps, first.section), (vec![Step::Mark(1)], Some(1)));
    // in both sections
    let Section::Rules(behind) = &stage.sections[0].more[0] else {
        panic!("{stage:?}");
    };
    let down = stage.down.as_ref().unwrap();
    for r in [&behind[0], &down[0]] {
        assert_eq!(
            onward(r).steps,
            [Step::Header("SetTCPMSS(1200, ADD true)".into())]
        );
    }
    // the answer stands in the place of the question
    assert_eq!(lines(&set.rules), ["8: allow all"]);
    assert!(set.down.unwrap().is_empty());
    assert!(set.sections.iter().all(|s| s.more.is_empty()));
    assert!(set.warnings.is_empty(), "{:?}", set.warnings);
    let set = forward("-A FORWARD -p udp -j MARK --set-mark 0x100").unwrap();
    assert!(set.marks.is_empty() && set.rules.is_empty());
    assert!(set.warnings[0].contains("1 rules set marks that no rule asks for"));
}

/// Own addresses of the interface that a packet goes out by.
#[test]
fn own_addresses_of_an_interface() {
    let interfaces = Interfaces {
        inside: Some("lan0".into()),
        outside: Some("wan0".into()),
        own: vec![
            "192.168.1.1".parse().unwrap(),
            "203.0.113.1".parse().unwrap(),
        ],
        at: [
            vec!["192.168.1.1".parse().unwrap()],
            vec!["203.0.113.1".parse().unwrap()],
        ],
        ..Interfaces::default()
    };
    let request = Request {
        family: Family::V4,
        chain: None,
        interfaces: &interfaces,
        host: false,
        traffic: Traffic::Forwarded,
    };
    let rule = "-A FORWARD -m addrtype ! --src-type LOCAL --limit-iface-out -m addrtype --src-type LOCAL -j ACCEPT";
    let text = format!("*filter\n:FORWARD DROP [0:0]\n{rule}\nCOMMIT\n");
    let set = parse(&text, &request).unwrap();
    let up = "not (src host 203.0.113.1) && (src host 192.168.1.1 or src host 203.0.113.1)";
    assert_eq!(set.rules[0].filter, up);
    let down = &set.down.unwrap()[0].filter;
    assert!(down.starts_with("not (src host 192.168.1.1) && "), "{down}");
}
