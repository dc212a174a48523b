//! What nft's language becomes, held against what `nft -j list ruleset` (1.0.6) prints of the same text.

use super::*;

/// The statements of one rule.
fn rule(text: &str) -> Value {
    let file = format!("table inet t {{\n chain c {{\n  {text}\n }}\n}}\n");
    let set = parse(&file).unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let of = |o: &Value| o.pointer("/rule/expr").cloned();
    set.objects.iter().find_map(of).unwrap()
}

/// An expression compared with a value.
fn compared(op: &str, left: &str, right: &str) -> Value {
    let left: Value = serde_json::from_str(left).unwrap();
    let right: Value = serde_json::from_str(right).unwrap();
    json!([{ "match": { "op": op, "left": left, "right": right } }])
}

const SADDR: &str = r#"{"payload":{"protocol":"ip","field":"saddr"}}"#;
const FLAGS: &str = r#"{"payload":{"protocol":"tcp","field":"flags"}}"#;
const MASKED: &str =
    r#"{"&":[{"payload":{"protocol":"tcp","field":"flags"}},{"|":["fin","syn","rst"]}]}"#;
const DPORT: &str = r#"{"payload":{"protocol":"tcp","field":"dport"}}"#;

/// A comparison, and its operator and sides in JSON.
const COMPARISONS: &[[&str; 4]] = &[
    [
        "ip saddr 10.0.0.0/8",
        "==",
        SADDR,
        r#"{"prefix":{"addr":"10.0.0.0","len":8}}"#,
    ],
    [
        "ip saddr != { 10.0.0.1, 10.0.0.5-10.0.0.9 }",
        "!=",
        SADDR,
        r#"{"set":["10.0.0.1",{"range":["10.0.0.5","10.0.0.9"]}]}"#,
    ],
    ["ip saddr @bad", "==", SADDR, r#""@bad""#],
    [
        "tcp dport { 22, 80-90,\n https }",
        "==",
        DPORT,
        r#"{"set":[22,{"range":[80,90]},"https"]}"#,
    ],
    ["tcp dport >= 1024", ">=", DPORT, "1024"],
    ["tcp flags syn", "in", FLAGS, r#""syn""#],
    [
        "tcp flags & (fin | syn | rst) == syn",
        "==",
        MASKED,
        r#""syn""#,
    ],
    [
        "ct state established,related",
        "in",
        r#"{"ct":{"key":"state"}}"#,
        r#"["established","related"]"#,
    ],
    [
        "ct state { new, invalid }",
        "==",
        r#"{"ct":{"key":"state"}}"#,
        r#"{"set":["new","invalid"]}"#,
    ],
    [
        "iifname != \"lo\"",
        "!=",
        r#"{"meta":{"key":"iifname"}}"#,
        r#""lo""#,
    ],
    [
        "meta l4proto { tcp, udp }",
        "==",
        r#"{"meta":{"key":"l4proto"}}"#,
        r#"{"set":["tcp","udp"]}"#,
    ],
    [
        "fib saddr . iif oif missing",
        "==",
        r#"{"fib":{"result":"oif","flags":["saddr","iif"]}}"#,
        "false",
    ],
    [
        "fib daddr type { local, broadcast }",
        "==",
        r#"{"fib":{"result":"type","flags":["daddr"]}}"#,
        r#"{"set":["local","broadcast"]}"#,
    ],
    [
        "meta mark & 0xff == 0x10",
        "==",
        r#"{"&":[{"meta":{"key":"mark"}},255]}"#,
        "16",
    ],
    [
        "numgen random mod 100 < 50",
        "<",
        r#"{"numgen":{"mode":"random","mod":100,"offset":0}}"#,
        "50",
    ],
    [
        "rt type 0",
        "==",
        r#"{"exthdr":{"name":"rt","field":"type"}}"#,
        "0",
    ],
    [
        "tcp option maxseg size 0",
        "==",
        r#"{"tcp option":{"name":"maxseg","field":"size"}}"#,
        "0",
    ],
    [
        "ether saddr 00:11:22:33:44:55",
        "==",
        r#"{"payload":{"protocol":"ether","field":"saddr"}}"#,
        r#""00:11:22:33:44:55""#,
    ],
    [
        "ip6 daddr fe80::",
        "==",
        r#"{"payload":{"protocol":"ip6","field":"daddr"}}"#,
        r#""fe80::""#,
    ],
    [
        "iifname . ip saddr { \"a\" . 10.0.0.1 }",
        "==",
        r#"{"concat":[{"meta":{"key":"iifname"}},{"payload":{"protocol":"ip","field":"saddr"}}]}"#,
        r#"{"set":[{"concat":["a","10.0.0.1"]}]}"#,
    ],
];

#[test]
fn comparisons() {
    for [text, op, left, right] in COMPARISONS {
        assert_eq!(rule(text), compared(op, left, right), "{text}");
    }
    assert_eq!(
        rule("tcp flags syn / fin,syn"),
        compared(
            "==",
            r#"{"&":[{"payload":{"protocol":"tcp","field":"flags"}},["fin","syn"]]}"#,
            r#""syn""#
        )
    );
}

#[test]
fn statements() {
    for (text, expected) in [
        (
            "counter packets 3 bytes 4 accept",
            r#"[{"counter":null},{"accept":null}]"#,
        ),
        (
            "log prefix \"a b\" level warn group 0 drop comment \"x\"",
            r#"[{"log":null},{"drop":null}]"#,
        ),
        ("jump other", r#"[{"jump":{"target":"other"}}]"#),
        (
            "limit rate over 10/minute burst 7 packets drop",
            r#"[{"limit":{"burst":7,"inv":true,"per":"minute","rate":10}},{"drop":null}]"#,
        ),
        (
            "limit rate 2 mbytes/second burst 1 kbytes",
            r#"[{"limit":{"burst":1,"burst_unit":"kbytes","per":"second","rate":2,"rate_unit":"mbytes"}}]"#,
        ),
        (
            "reject with icmpx type port-unreachable",
            r#"[{"reject":{"expr":"port-unreachable","type":"icmpx"}}]"#,
        ),
        (
            "reject with tcp reset",
            r#"[{"reject":{"type":"tcp reset"}}]"#,
        ),
        ("masquerade", r#"[{"masquerade":null}]"#),
        (
            "masquerade to :1024-2000 random,persistent",
            r#"[{"masquerade":{"flags":["random","persistent"],"port":{"range":[1024,2000]}}}]"#,
        ),
        ("redirect to :15001", r#"[{"redirect":{"port":15001}}]"#),
        (
            "dnat ip to 10.0.0.1:80",
            r#"[{"dnat":{"addr":"10.0.0.1","family":"ip","port":80}}]"#,
        ),
        (
            "dnat to [2001:db8::1]:80",
            r#"[{"dnat":{"addr":"2001:db8::1","port":80}}]"#,
        ),
        (
            "snat to 192.0.2.1-192.0.2.9",
            r#"[{"snat":{"addr":{"range":["192.0.2.1","192.0.2.9"]}}}]"#,
        ),
        (
            "meta mark set 0x1",
            r#"[{"mangle":{"key":{"meta":{"key":"mark"}},"value":1}}]"#,
        ),
        (
            "tcp option maxseg size set rt mtu",
            r#"[{"mangle":{"key":{"tcp option":{"field":"size","name":"maxseg"}},"value":{"rt":{"key":"mtu"}}}}]"#,
        ),
        (
            "ct state vmap { established : accept, new : jump x }",
            concat!(
                r#"[{"vmap":{"data":{"set":[["established",{"accept":null}],["new",{"jump":{"target":"x"}}]]},"#,
                r#""key":{"ct":{"key":"state"}}}}]"#
            ),
        ),
        (
            "meta l4proto { tcp, udp } flow add @ft",
            concat!(
                r#"[{"match":{"left":{"meta":{"key":"l4proto"}},"op":"==","right":{"set":["tcp","udp"]}}},"#,
                r#"{"flow":{"flowtable":"@ft","op":"add"}}]"#
            ),
        ),
        (
            "add @seen { ip saddr timeout 5m }",
            r#"[{"set":{"op":"add","set":"@seen"}}]"#,
        ),
        ("notrack", r#"[{"notrack":null}]"#),
    ] {
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(rule(text), expected, "{text}");
    }
}

#[test]
fn tables_chains_and_sets() {
    let text = "#!/usr/sbin/nft -f\nflush ruleset\ndefine web = { 80, 443 }\ntable ip t\ndelete table ip t\n\
        table ip t {\n set s { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, } }\n\
        map m { type ifname : verdict\n elements = { \"a\" : jump c } }\n\
        chain in { type filter hook forward priority mangle + 5; policy drop; tcp dport $web accept; drop }\n\
        chain c {}\n}\nadd rule ip t in counter\ninsert rule ip t in index 1 accept\n\
        add element t s { 192.0.2.1 timeout 1h }\n";
    let set = parse(text).unwrap();
    let all: Vec<String> = set.objects.iter().map(Value::to_string).collect();
    assert_eq!(set.lines, [10, 14, 10, 13]);
    let find = |what: &str| all.iter().filter(|o| o.contains(what)).count();
    assert_eq!(
        (all.len(), find("\"rule\""), find("\"chain\":{")),
        (8, 4, 2)
    );
    assert!(
        all.iter().any(|o| o.contains("\"hook\":\"forward\"")
            && o.contains("\"prio\":-145")
            && o.contains("\"policy\":\"drop\"")),
        "{all:?}"
    );
    let added =
        r#"[{"prefix":{"addr":"10.0.0.0","len":8}},{"elem":{"timeout":"1h","val":"192.0.2.1"}}]"#;
    assert!(all.iter().any(|o| o.contains(added)), "{all:?}");
    assert!(
        all.iter()
            .any(|o| o.contains(r#""elem":[["a",{"jump":{"target":"c"}}]]"#))
    );
}

#[test]
fn what_is_refused() {
    let wrong = |text: &str| parse(text).unwrap_err()[0].clone();
    for (text, line, why) in [
        (
            "table ip t {\n chain c {\n  frobnicate\n }\n}",
            3,
            "'frobnicate' is not supported",
        ),
        ("table ip t {\n chain c {\n", 3, "does not end"),
        ("include \"x.nft\"", 1, "is included"),
        (
            "table ip t { set s { elements = { 1 2 } } }",
            1,
            "expected ',' or '}'",
        ),
        ("list ruleset", 1, "'list'"),
        ("table ip t { chain c { ip saddr } }", 1, "a value"),
        (
            "table ip t { chain c { type filter hook input priority often } }",
            1,
            "priority 'often'",
        ),
        (
            "insert rule ip t c index 3 accept",
            1,
            "no rule at this index",
        ),
    ] {
        let (at, found) = wrong(text);
        assert!(at == line && found.contains(why), "{text}: {at}: {found}");
    }
}
