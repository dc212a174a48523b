//! The host itself at port 2 of a firewall: chains INPUT and OUTPUT.

use crate::common;

use common::{Frame, build, load_in, send};
use onefold_chain::Chain;
use onefold_engine::Graph;
use std::path::PathBuf;

const HOST: [u8; 4] = [192, 168, 1, 10];
const INSIDE: [u8; 4] = [192, 168, 1, 1];
const OWN: [u8; 4] = [203, 0, 113, 1];
const SERVER: [u8; 4] = [198, 51, 100, 7];
const SYN: u8 = 2;
const ACK: u8 = 16;

const CHAIN: &str = "functions:
  router:
    firewall:
      rules-file: r
      interfaces: { inside: lan0, outside: wan0 }
      addresses: { inside: [192.168.1.1/24], outside: [203.0.113.1/24] }
ports: { lan: \"router[0]\", wan: \"router[1]\", local: \"router[2]\" }
";

/// A host alone: what it is asked, what it asks, and nothing is forwarded.
const ALONE: &str = "*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m state --state ESTABLISHED,RELATED -j ACCEPT
-A INPUT -i lan0 -p tcp --dport 22 -j ACCEPT
-A OUTPUT -m state --state ESTABLISHED -j ACCEPT
-A OUTPUT -o wan0 -p udp --dport 53 -j ACCEPT
COMMIT
";

fn load(name: &str, rules: &str, chain: &str) -> Result<Chain, Vec<String>> {
    let dir = std::env::temp_dir().join(format!("onefold-local-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("r"), rules).unwrap();
    let found = load_in(&dir, chain);
    std::fs::remove_dir_all::<&PathBuf>(&dir).unwrap();
    found
}

/// Source, its port, destination, its port.
type Ends = ([u8; 4], u16, [u8; 4], u16);

fn ends(b: &[u8]) -> Ends {
    let four = |i: usize| <[u8; 4]>::try_from(&b[i..i + 4]).unwrap();
    let two = |i: usize| u16::from_be_bytes([b[i], b[i + 1]]);
    (four(26), two(34), four(30), two(36))
}

/// Sends a frame into a port; where it leaves, and with which ends.
fn through(chain: &Chain, g: &mut Graph, port: &str, f: &Frame) -> Option<(String, Ends)> {
    let (at, b) = send(chain, g, port, &[f.bytes()]).pop()?;
    Some((at, ends(&b)))
}

fn tcp((src, sport, dst, dport): Ends, flags: u8) -> Frame {
    Frame::tcp(src, dst, dport, flags).with(|f| f.sport = sport)
}

fn udp((src, sport, dst, dport): Ends) -> Frame {
    Frame::udp(src, dst, dport).with(|f| f.sport = sport)
}

fn at(port: &str, e: Ends) -> Option<(String, Ends)> {
    Some((port.to_string(), e))
}

#[test]
fn rules_of_a_host_alone() {
    let chain = load("alone", ALONE, CHAIN).unwrap();
    let mut g = build(&chain);
    let mut go = |port: &str, f: Frame| through(&chain, &mut g, port, &f);
    // to the host from inside, and its answer
    let ask = (HOST, 4000, INSIDE, 22);
    assert_eq!(go("lan", tcp(ask, SYN)), at("local", ask));
    let answer = (INSIDE, 22, HOST, 4000);
    assert_eq!(go("local", tcp(answer, SYN | ACK)), at("lan", answer));
    assert_eq!(go("lan", tcp(ask, ACK)), at("local", ask));
    // its address outside is its address, too; and INPUT knows by which interface
    let other = (HOST, 4001, OWN, 22);
    assert_eq!(go("lan", tcp(other, SYN)), at("local", other));
    assert_eq!(go("wan", tcp((SERVER, 4000, OWN, 22), SYN)), None);
    // it asks a server outside, and gets an answer
    let query = (OWN, 5000, SERVER, 53);
    assert_eq!(go("wan", udp((SERVER, 53, OWN, 5000))), None);
    assert_eq!(go("local", udp(query)), at("wan", query));
    let reply = (SERVER, 53, OWN, 5000);
    assert_eq!(go("wan", udp(reply)), at("local", reply));
    // that inside is none of wan0, and what else it sends is dropped
    assert_eq!(go("local", udp((INSIDE, 5000, HOST, 53))), None);
    assert_eq!(go("local", tcp((OWN, 5000, SERVER, 80), SYN)), None);
    // nothing is forwarded, and nothing goes from the host to itself
    assert_eq!(go("lan", udp((HOST, 5000, SERVER, 53))), None);
    assert_eq!(go("local", udp((OWN, 5000, INSIDE, 53))), None);
    // broadcasts of its networks, and of the link
    let pass = ALONE.replace(":INPUT DROP", ":INPUT ACCEPT");
    let chain = load("broadcast", &pass, CHAIN).unwrap();
    let mut g = build(&chain);
    for dst in [[192, 168, 1, 255], [255; 4], [224, 0, 0, 1]] {
        let e = (HOST, 68, dst, 67);
        assert_eq!(
            through(&chain, &mut g, "lan", &udp(e)),
            at("local", e),
            "{dst:?}"
        );
    }
}

/// Without the port the same file is refused, with the way out.
#[test]
fn who_has_no_host_is_told() {
    let without = CHAIN.replace(", local: \"router[2]\"", "");
    let e = load("without", ALONE, &without).unwrap_err().join("\n");
    assert!(
        e.contains("INPUT and OUTPUT has: rules for the host itself; wire port 2"),
        "{e}"
    );
    let bare = CHAIN.replace(
        "      addresses: { inside: [192.168.1.1/24], outside: [203.0.113.1/24] }\n",
        "",
    );
    let e = load("bare", ALONE, &bare).unwrap_err().join("\n");
    assert!(e.contains("of which no address is known"), "{e}");
    let named = CHAIN.replace("rules-file: r\n", "rules-file: r\n      chain: INPUT\n");
    let e = load("named", ALONE, &named).unwrap_err().join("\n");
    assert!(e.contains("leave 'chain' out"), "{e}");
    let back = CHAIN.replace("rules-file: r\n", "rules-file: r\n      back: allow\n");
    let e = load("back", ALONE, &back).unwrap_err().join("\n");
    assert!(
        e.contains("with the host at port 2, rules are asked both ways"),
        "{e}"
    );
    // what is for the host alone, where it is forwarded
    let e = load(
        "beside",
        "*filter\n:own - [0:0]\n-A own -j DROP\nCOMMIT\n",
        CHAIN,
    );
    let e = e.unwrap_err().join("\n");
    assert!(e.contains("loads such a file beside others"), "{e}");
    let nft = "{\"nftables\": [{\"chain\": {\"family\": \"inet\", \"table\": \"f\", \"name\": \"in\", \
               \"type\": \"filter\", \"hook\": \"input\", \"prio\": 0, \"policy\": \"drop\"}}]}";
    let e = load("nft", nft, &without).unwrap_err().join("\n");
    assert!(
        e.contains("but of the host itself: f/in; wire port 2"),
        "{e}"
    );
    assert!(load("nft", nft, CHAIN).is_ok());
}

/// A router that translates, with services of its own: the host's packets, and those of its hosts.
const ROUTER: &str = "*raw
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A PREROUTING -s 198.51.100.66/32 -j DROP
-A OUTPUT -d 198.51.100.66/32 -j DROP
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A INPUT -s 198.51.100.67/32 -j DROP
-A POSTROUTING -d 198.51.100.68/32 -o wan0 -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i lan0 -p tcp --dport 80 -j REDIRECT --to-ports 3128
-A PREROUTING -i wan0 -p tcp --dport 443 -j DNAT --to-destination 192.168.1.80:8443
-A INPUT -p tcp --dport 2222 -j SNAT --to-source 192.168.1.99
-A OUTPUT -p udp --dport 5353 -j DNAT --to-destination 192.168.1.53:53
-A POSTROUTING -o wan0 -j MASQUERADE
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m multiport --dports 2222,3128 -j ACCEPT
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT
-A FORWARD -i lan0 -j ACCEPT
-A OUTPUT -o lan0 -p udp --dport 5353 -j DROP
COMMIT
";

#[test]
fn a_router_with_services_of_its_own() {
    let chain = load("router", ROUTER, CHAIN).unwrap();
    let mut g = build(&chain);
    let mut go = |port: &str, f: Frame| through(&chain, &mut g, port, &f);
    // forwarded and masqueraded; the answer comes to the host's address and is none of the host's
    let out = (HOST, 5000, SERVER, 53);
    let wan = (OWN, 5000, SERVER, 53);
    assert_eq!(go("lan", udp(out)), at("wan", wan));
    assert_eq!(
        go("wan", udp((SERVER, 53, OWN, 5000))),
        at("lan", (SERVER, 53, HOST, 5000))
    );
    // sent to the proxy on the host, at the address of the interface; its answers come from where they were expected
    assert_eq!(
        go("lan", tcp((HOST, 4000, SERVER, 80), SYN)),
        at("local", (HOST, 4000, INSIDE, 3128))
    );
    assert_eq!(
        go("local", tcp((INSIDE, 3128, HOST, 4000), SYN | ACK)),
        at("lan", (SERVER, 80, HOST, 4000))
    );
    assert_eq!(
        go("lan", tcp((HOST, 4000, SERVER, 80), ACK)),
        at("local", (HOST, 4000, INSIDE, 3128))
    );
    // the source is translated behind INPUT
    assert_eq!(
        go("wan", tcp((SERVER, 4000, OWN, 2222), SYN)),
        at("local", ([192, 168, 1, 99], 4000, OWN, 2222))
    );
    assert_eq!(
        go(
            "local",
            tcp((OWN, 2222, [192, 168, 1, 99], 4000), SYN | ACK)
        ),
        at("wan", (OWN, 2222, SERVER, 4000))
    );
    // a destination that OUTPUT translates leaves by another port, and the filter sees the new one
    assert_eq!(
        go("local", udp((INSIDE, 6000, SERVER, 5353))),
        at("lan", (INSIDE, 6000, [192, 168, 1, 53], 53))
    );
    assert_eq!(
        go("lan", udp(([192, 168, 1, 53], 53, INSIDE, 6000))),
        at("local", (SERVER, 5353, INSIDE, 6000))
    );
    // tables raw and mangle
    assert_eq!(
        go("wan", tcp(([198, 51, 100, 66], 1, OWN, 2222), SYN)),
        None
    );
    assert_eq!(
        go("wan", tcp(([198, 51, 100, 67], 1, OWN, 2222), SYN)),
        None
    );
    assert_eq!(go("local", udp((OWN, 1, [198, 51, 100, 66], 1))), None);
    assert_eq!(go("local", udp((OWN, 1, [198, 51, 100, 68], 1))), None);
    assert_eq!(
        go("local", udp((OWN, 1, [198, 51, 100, 69], 1))),
        at("wan", (OWN, 1, [198, 51, 100, 69], 1))
    );
    // a service that nobody has opened
    assert_eq!(go("wan", tcp((SERVER, 4001, OWN, 22), SYN)), None);
    let without = CHAIN.replace(", local: \"router[2]\"", "");
    let e = load("redirect", ROUTER, &without).unwrap_err().join("\n");
    assert!(e.contains("'REDIRECT'") && e.contains("wire port 2"), "{e}");
}

/// The host's own packets, sent back to a proxy on it by its loopback interface.
#[test]
fn redirects_of_the_hosts_own_packets() {
    let rules = ROUTER
        .replace(
            "-A OUTPUT -p udp --dport 5353",
            "-A OUTPUT -o wan0 -p tcp --dport 80 -j REDIRECT --to-ports 1081\n-A OUTPUT -p udp --dport 5353",
        )
        .replace("-A FORWARD -i lan0", "-A INPUT -i lo -p tcp --dport 1081 -j ACCEPT\n-A FORWARD -i lan0")
        .replace("-A OUTPUT -o lan0", "-A OUTPUT -o lo -s 203.0.113.9/32 -j DROP\n-A OUTPUT -o lan0");
    let chain = load("itself", &rules, CHAIN).unwrap();
    let mut g = build(&chain);
    let mut go = |port: &str, f: Frame| through(&chain, &mut g, port, &f);
    let proxy = [127, 0, 0, 1];
    assert_eq!(
        go("local", tcp((OWN, 4000, SERVER, 80), SYN)),
        at("local", (OWN, 4000, proxy, 1081))
    );
    // the answer comes from where it was asked for
    assert_eq!(
        go("local", tcp((proxy, 1081, OWN, 4000), SYN | ACK)),
        at("local", (SERVER, 80, OWN, 4000))
    );
    assert_eq!(
        go("local", tcp((OWN, 4000, SERVER, 80), ACK)),
        at("local", (OWN, 4000, proxy, 1081))
    );
    // the filter knows that it goes out by lo, and INPUT that it comes in there
    assert_eq!(
        go("local", tcp(([203, 0, 113, 9], 4000, SERVER, 80), SYN)),
        None
    );
    assert_eq!(go("wan", tcp((SERVER, 4000, OWN, 1081), SYN)), None);
    // others leave as they did
    assert_eq!(
        go("local", tcp((OWN, 4001, SERVER, 81), SYN)),
        at("wan", (OWN, 4001, SERVER, 81))
    );
}

/// ARP: what is about the host's addresses is the host's; its own goes where the address is.
#[test]
fn arp_of_the_host() {
    let chain = load("arp", ALONE, CHAIN).unwrap();
    let mut g = build(&chain);
    let arp = |target: [u8; 4]| {
        let mut f = vec![0xff; 6];
        f.extend([2, 0, 0, 0, 0, 9, 8, 6]);
        f.extend([0, 1, 8, 0, 6, 4, 0, 1]);
        f.extend([2, 0, 0, 0, 0, 9]);
        f.extend([192, 168, 1, 77]);
        f.extend([0; 6]);
        f.extend(target);
        f
    };
    let mut go = |port: &str, target| {
        let out = send(&chain, &mut g, port, &[arp(target)]);
        out.into_iter().map(|(p, _)| p).collect::<Vec<_>>()
    };
    assert_eq!(go("lan", INSIDE), ["local"]);
    assert_eq!(go("wan", OWN), ["local"]);
    assert_eq!(go("lan", [192, 168, 1, 50]), ["wan"]);
    assert_eq!(go("local", HOST), ["lan"]);
    assert_eq!(go("local", [203, 0, 113, 254]), ["wan"]);
    assert_eq!(go("local", [10, 0, 0, 1]), ["wan"]);
}

/// Chains of nftables: by hook and priority, both families, one of them redirects.
#[test]
fn hooks_of_nftables() {
    let chain = |name: &str, kind: &str, hook: &str, prio: i32, policy: &str| {
        format!(
            "{{\"chain\": {{\"family\": \"ip\", \"table\": \"t\", \"name\": \"{name}\", \"type\": \"{kind}\", \
             \"hook\": \"{hook}\", \"prio\": {prio}, \"policy\": \"{policy}\"}}}}"
        )
    };
    let rule = |chain: &str, expr: &str| {
        format!(
            "{{\"rule\": {{\"family\": \"ip\", \"table\": \"t\", \"chain\": \"{chain}\", \"expr\": [{expr}]}}}}"
        )
    };
    let is = |protocol: &str, field: &str, value: &str| {
        format!(
            "{{\"match\": {{\"op\": \"==\", \"left\": {{\"payload\": {{\"protocol\": \"{protocol}\", \
             \"field\": \"{field}\"}}}}, \"right\": {value}}}}}"
        )
    };
    let iif = |name: &str| {
        format!(
            "{{\"match\": {{\"op\": \"==\", \"left\": {{\"meta\": {{\"key\": \"iifname\"}}}}, \"right\": \"{name}\"}}}}"
        )
    };
    let text = [
        chain("early", "filter", "prerouting", -300, "accept"),
        chain("dst", "nat", "prerouting", -100, "accept"),
        chain("in", "filter", "input", 0, "drop"),
        chain("late", "filter", "input", 10, "accept"),
        chain("out", "filter", "output", 0, "accept"),
        chain("route", "route", "output", -150, "accept"),
        rule(
            "early",
            &format!("{}, {{\"drop\": null}}", is("udp", "dport", "9")),
        ),
        rule(
            "dst",
            &format!(
                "{}, {{\"redirect\": {{\"port\": 53}}}}",
                is("udp", "dport", "5300")
            ),
        ),
        rule(
            "in",
            &format!("{}, {{\"accept\": null}}", is("udp", "dport", "53")),
        ),
        rule(
            "in",
            &format!(
                "{}, {}, {{\"accept\": null}}",
                iif("lan0"),
                is("udp", "dport", "9")
            ),
        ),
        rule("in", &format!("{}, {{\"accept\": null}}", iif("lan0"))),
        rule(
            "late",
            &format!("{}, {{\"drop\": null}}", is("udp", "dport", "69")),
        ),
        rule(
            "out",
            &format!("{}, {{\"drop\": null}}", is("udp", "dport", "25")),
        ),
        rule(
            "route",
            &format!("{}, {{\"drop\": null}}", is("udp", "dport", "26")),
        ),
    ];
    let text = format!("{{\"nftables\": [{}]}}", text.join(",\n"));
    let chain = load("hooks", &text, CHAIN).unwrap();
    let mut g = build(&chain);
    let mut go = |port: &str, f: Frame| through(&chain, &mut g, port, &f);
    assert_eq!(
        go("wan", udp((SERVER, 1, OWN, 5300))),
        at("local", (SERVER, 1, OWN, 53))
    );
    assert_eq!(
        go("local", udp((OWN, 53, SERVER, 1))),
        at("wan", (OWN, 5300, SERVER, 1))
    );
    assert_eq!(go("wan", udp((SERVER, 1, OWN, 70))), None);
    let e = (HOST, 1, INSIDE, 70);
    assert_eq!(go("lan", udp(e)), at("local", e));
    assert_eq!(go("lan", udp((HOST, 1, INSIDE, 69))), None);
    assert_eq!(go("lan", udp((HOST, 1, INSIDE, 9))), None);
    assert_eq!(go("local", udp((OWN, 1, SERVER, 25))), None);
    assert_eq!(go("local", udp((OWN, 1, SERVER, 26))), None);
    // nothing filters what is forwarded
    let e = (HOST, 1, SERVER, 25);
    assert_eq!(go("lan", udp(e)), at("wan", e));
    assert_eq!(go("lan", udp((HOST, 1, SERVER, 9))), None);
}

/// Marks that are given before it is known who is for the host, and asked for behind that; with a rate, one bucket.
const MARKS: &str = "*mangle
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A PREROUTING -p tcp --dport 2222 -j MARK --set-mark 7
-A OUTPUT -p udp --dport 53 -j MARK --set-mark 0x10
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A PREROUTING -p tcp --dport 2222 -j REDIRECT --to-ports 22
-A OUTPUT -p udp -m mark --mark 0x10 -j REDIRECT --to-ports 5353
-A OUTPUT -p udp --dport 54 -j REDIRECT --to-ports 5354
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m mark --mark 7 -m limit --limit 1/s --limit-burst 2 -j ACCEPT
-A INPUT -i lo -m mark --mark 0x10 -j ACCEPT
COMMIT
";

#[test]
fn marks_come_to_the_host_and_with_its_packets() {
    let chain = load("marks", MARKS, CHAIN).unwrap();
    let mut g = build(&chain);
    let mut go = |port: &str, f: Frame| through(&chain, &mut g, port, &f);
    // marked in PREROUTING, asked for in INPUT
    let asks = |port| tcp((HOST, port, INSIDE, 2222), SYN);
    let came = |port| at("local", (HOST, port, INSIDE, 22));
    assert_eq!(go("lan", asks(4000)), came(4000));
    assert_eq!(go("lan", tcp((HOST, 4001, INSIDE, 22), SYN)), None);
    // within the rate, whichever port it comes from
    let other = (SERVER, 4000, OWN, 2222);
    assert_eq!(
        go("wan", tcp(other, SYN)),
        at("local", (SERVER, 4000, OWN, 22))
    );
    assert_eq!(go("lan", asks(4002)), None);
    // marked in OUTPUT, asked for there, and where it comes in again
    let query = (OWN, 5000, SERVER, 53);
    let (port, (.., dst, dport)) = go("local", udp(query)).unwrap();
    assert_eq!((port.as_str(), dst, dport), ("local", [127, 0, 0, 1], 5353));
    // sent back without a mark
    assert_eq!(go("local", udp((OWN, 5001, SERVER, 54))), None);
    let out = (OWN, 5002, SERVER, 55);
    assert_eq!(go("local", udp(out)), at("wan", out));
}

/// The mark of a connection that INPUT gives is known in OUTPUT.
#[test]
fn marks_of_the_hosts_connections() {
    let rules = "*mangle
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -p tcp --dport 22 -j CONNMARK --set-mark 3
-A OUTPUT -j CONNMARK --restore-mark
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
-A OUTPUT -m mark --mark 3 -j ACCEPT
COMMIT
";
    let chain = load("connmarks", rules, CHAIN).unwrap();
    let mut g = build(&chain);
    let mut go = |port: &str, f: Frame| through(&chain, &mut g, port, &f);
    for (service, answered) in [(22, true), (23, false)] {
        let ask = (HOST, 4000, INSIDE, service);
        assert_eq!(go("lan", tcp(ask, SYN)), at("local", ask));
        let answer = (INSIDE, service, HOST, 4000);
        let found = go("local", tcp(answer, SYN | ACK));
        assert_eq!(found, at("lan", answer).filter(|_| answered));
    }
    // a connection that OUTPUT begins has none
    assert_eq!(go("local", tcp((OWN, 4000, SERVER, 80), SYN)), None);
}
