//! Rules in, rules of `PayloadFilter` out.

use super::*;

fn context() -> Context {
    Context {
        variables: [
            ("HOME_NET", "[10.0.0.0/8, 192.168.0.0/16]"),
            ("EXTERNAL_NET", "!$HOME_NET"),
            ("HTTP_PORTS", "[80,8000:8010,!8005]"),
            ("LOOP", "[$LOOP]"),
        ]
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .into(),
        ignore_flow: false,
    }
}

fn one(rule: &str) -> Signature {
    let p = parse(rule, &context());
    assert_eq!(p.refused, [], "{rule}");
    p.signatures.into_iter().next().unwrap()
}

fn why(rule: &str) -> Vec<String> {
    let p = parse(rule, &context());
    assert!(p.signatures.is_empty(), "{rule}");
    p.refused[0].reasons.clone()
}

#[test]
fn headers_become_expressions() {
    let f = |h: &str| one(&format!("alert {h} (sid:1;)")).filter;
    assert_eq!(f("ip any any -> any any"), "");
    assert_eq!(
        f("tcp $HOME_NET any -> 1.2.3.4 80"),
        "tcp && (src net 10.0.0.0/8 or src net 192.168.0.0/16) && dst host 1.2.3.4 && dst port 80"
    );
    assert_eq!(
        f("udp $EXTERNAL_NET any -> any $HTTP_PORTS"),
        "udp && (not (src net 10.0.0.0/8 or src net 192.168.0.0/16)) && \
         (dst port 80 or (dst port >= 8000 && dst port <= 8004) or (dst port >= 8006 && dst port <= 8010))"
    );
    // a negated port is what is left, so that packets without ports do not match
    assert_eq!(
        f("tcp any !80 -> any :1023"),
        "tcp && (src port <= 79 or src port >= 81) && dst port <= 1023"
    );
    assert_eq!(
        f("udp 10.0.0.1 53 <> any any"),
        "udp && ((src host 10.0.0.1 && src port 53) or (dst host 10.0.0.1 && dst port 53))"
    );
    assert_eq!(
        f("icmp [any] any -> [10.0.0.0/8,!10.1.0.0/16] any"),
        "icmp && ((dst net 10.0.0.0/8) && not dst net 10.1.0.0/16)"
    );
}

#[test]
fn options_become_conditions() {
    let s = one(
        "drop tcp any any -> any any (msg:\"a \\\"b\\\"\"; content:\"GET |20 2f|\\;\"; depth:9; nocase; content:!\"x\"; distance:0; \
         within:20; pcre:\"/a\\/b/Ri\"; isdataat:10,relative; isdataat:!99; dsize:10<>20; reference:url,x.y; sid:7; rev:2;)",
    );
    assert_eq!(
        (s.action, s.sid, s.name().as_str()),
        (Action::Drop, Some(7), "sid 7: a \"b\"")
    );
    assert_eq!(
        s.conditions,
        [
            "LITERAL \"GET  /;\" NOCASE DEPTH 9",
            "NOT LITERAL \"x\" DISTANCE 0 WITHIN 20",
            "REGEX '(?i)a\\/b' RELATIVE",
            "AFTER 10",
            "NOT SIZE 100-",
            "SIZE 11-19",
        ]
    );
    let s = one(
        "alert tcp any any -> any any (flags:S,12; ttl:>64; itype:!8; flags:+SA; ip_proto:!6; id:0; sid:1;)",
    );
    assert_eq!(
        s.filter,
        "tcp && tcp[13:1] & 63 == 2 && ip[8:1] > 64 && icmp[0:1] != 8 && tcp[13:1] & 18 == 18 && not ip proto 6 && ip[4:2] == 0"
    );
    // as of Snort 3, and the short forms of Suricata
    let s = one(
        "alert udp any any -> any any (content:\"abc\", nocase, offset 3, fast_pattern; content:\"de\"; startswith; content:\"f\"; fast_pattern; endswith;)",
    );
    assert_eq!(
        s.conditions,
        [
            "LITERAL \"abc\" NOCASE OFFSET 3",
            "LITERAL \"de\" OFFSET 0 DEPTH 2",
            "LITERAL \"f\"",
            "NOT AFTER 1"
        ]
    );
    assert_eq!(s.name(), "");
}

#[test]
fn everything_that_stands_against_a_rule_is_named() {
    assert_eq!(
        why(
            "reject http $NONE any => 1.2.3 [99:1] (content:\"a\"; http_uri; depth:x; flow:established; sid:5;)"
        ),
        [
            "action 'reject'",
            "protocol 'http'",
            "direction '=>'",
            "option 'http_uri'",
            "'depth' without a content before it",
            "option 'flow'"
        ]
    );
    assert_eq!(
        why("alert tcp $NONE any -> 1.2.3 [99:1] (sid:1;)"),
        [
            "variable $NONE is not given",
            "address '1.2.3'",
            "port '99:1'"
        ]
    );
    assert_eq!(why("alert tcp $LOOP any -> any $LOOP (sid:1;)").len(), 2);
    assert_eq!(
        why("alert icmp any 80 -> any any (sid:1;)"),
        ["ports of protocol 'icmp'"]
    );
    assert_eq!(
        why("alert tcp any any -> any any (content:\"a|0|\"; content:\"\"; content:x; sid:1;)"),
        ["content that is not \"text|hex|\"", "content of 0 bytes"]
    );
    assert_eq!(
        why(
            "alert tcp any any -> any any (content:\"abc\"; depth:2; content:\"a\"; offset:1; within:4; sid:1;)"
        ),
        [
            "'depth' less than the content's length",
            "'offset' or 'depth' together with 'distance' or 'within'"
        ]
    );
    assert_eq!(
        why("alert tcp any any (sid:1;)"),
        ["expected ACTION PROTOCOL SOURCE PORT -> DESTINATION PORT, found 4 words"]
    );
    assert_eq!(why("nonsense"), ["no options in parentheses"]);
    assert_eq!(
        why("alert tcp any any -> any any (sid:1;"),
        ["no ')' at the end"]
    );
    assert_eq!(
        why("alert ip ::1 any -> any any (sid:1;)"),
        ["IPv6 address '::1'"]
    );
    assert_eq!(
        why("alert tcp any any -> any !any (flags:!S; sid:1;)"),
        ["ports '!any' are none", "'flags' of '!S'"]
    );
}

#[test]
fn files_with_comments_and_long_lines() {
    let text = "# alert off\n\nalert tcp any any -> any any \\\n  (msg:\"one\"; \\\n sid:1;)\npass udp any any -> any 53 (sid:2;)\n\
                drop tcp any any -> any any (sid:3; flow:to_server;)\n";
    let p = parse(text, &context());
    assert_eq!(
        p.signatures
            .iter()
            .map(|s| (s.action, s.sid.unwrap(), s.line))
            .collect::<Vec<_>>(),
        [(Action::Pass, 2, 6), (Action::Alert, 1, 3)]
    );
    assert_eq!((p.refused[0].line, p.refused[0].sid), (7, Some(3)));
    let mut cx = context();
    cx.ignore_flow = true;
    assert!(parse(text, &cx).refused.is_empty());
}

/// What comes out is what the element takes.
#[test]
fn the_element_takes_every_rule() {
    use onefold_elements::payload::filter::rule;
    for text in [
        "alert tcp $EXTERNAL_NET !80 -> [$HOME_NET,!10.1.1.1] $HTTP_PORTS (msg:\"q\\\"x, y\"; content:\"a|22 00|b'\"; pcre:\"/[^\\n]{3,}$/sm\"; window:55808; seq:1; ack:0; icmp_id:3; sid:1;)",
        "drop icmp any any <> 10.0.0.1 any (itype:8; icode:>0; dsize:>100; content:\"$x\"; distance:-3; sid:2;)",
        "pass ip any any -> any any (ip_proto:gre; tos:4; ttl:<5; dsize:!0; isdataat:5;)",
    ] {
        let s = one(text);
        let args = onefold_element::args::Args::from_strings(&[]);
        let r = rule::parse(&s.argument(), &args.scope())
            .unwrap_or_else(|e| panic!("{}: {e}", s.argument()));
        assert_eq!(r.name, s.name());
    }
}
