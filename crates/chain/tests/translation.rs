//! Rule files that translate addresses, as one function.

use crate::common;

use common::{Frame, build, load_in, send};
use onefold_chain::Chain;
use onefold_engine::Graph;
use onefold_packet::checksum;
use std::path::PathBuf;

const HOST: [u8; 4] = [192, 168, 1, 10];
const OTHER: [u8; 4] = [192, 168, 1, 11];
const WEB: [u8; 4] = [192, 168, 1, 80];
const OWN: [u8; 4] = [203, 0, 113, 1];
const SERVER: [u8; 4] = [198, 51, 100, 7];
const SYN: u8 = 2;
const ACK: u8 = 16;

const RULES: &str = "*raw
:PREROUTING ACCEPT [0:0]
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i wan0 -p tcp -m tcp --dport 443 -j DNAT --to-destination 192.168.1.80:8443
-A POSTROUTING -s 192.168.1.0/24 -o wan0 -j MASQUERADE
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m limit --limit 1/s -j LOG
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -i lan0 -o wan0 -j ACCEPT
-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT
COMMIT
";

const CHAIN: &str = "functions:
  router:
    firewall:
      rules-file: r
      interfaces: { inside: lan0, outside: wan0 }
      addresses: { inside: [192.168.1.1/24], outside: [203.0.113.1/24] }
ports: { lan: \"router[0]\", wan: \"router[1]\" }
";

fn folder(name: &str) -> PathBuf {
    let dir =
        std::env::temp_dir().join(format!("onefold-translation-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn load(name: &str, rules: &str, chain: &str) -> Result<Chain, Vec<String>> {
    let dir = folder(name);
    std::fs::write(dir.join("r"), rules).unwrap();
    let found = load_in(&dir, chain);
    std::fs::remove_dir_all(&dir).unwrap();
    found
}

/// Source, its port, destination, its port.
type Ends = ([u8; 4], u16, [u8; 4], u16);

/// Sends a frame into a port; where it leaves, and with which ends.
fn through(chain: &Chain, g: &mut Graph, port: &str, f: &Frame) -> Option<(String, Ends)> {
    let (at, b) = send(chain, g, port, &[f.bytes()]).pop()?;
    let four = |i: usize| <[u8; 4]>::try_from(&b[i..i + 4]).unwrap();
    let two = |i: usize| u16::from_be_bytes([b[i], b[i + 1]]);
    Some((at, (four(26), two(34), four(30), two(36))))
}

fn frame((src, sport, dst, dport): Ends, flags: u8) -> Frame {
    Frame::tcp(src, dst, dport, flags).with(|f| f.sport = sport)
}

#[test]
fn an_office_router() {
    let chain = load("office", RULES, CHAIN).unwrap();
    let mut g = build(&chain);
    let wan = |e: Ends| Some(("wan".to_string(), e));
    let lan = |e: Ends| Some(("lan".to_string(), e));
    // out, with the router's address, and back
    let out = frame((HOST, 5000, SERVER, 80), SYN);
    assert_eq!(
        through(&chain, &mut g, "lan", &out),
        wan((OWN, 5000, SERVER, 80))
    );
    let back = frame((SERVER, 80, OWN, 5000), SYN | ACK);
    assert_eq!(
        through(&chain, &mut g, "wan", &back),
        lan((SERVER, 80, HOST, 5000))
    );
    let more = frame((HOST, 5000, SERVER, 80), ACK);
    assert_eq!(
        through(&chain, &mut g, "lan", &more),
        wan((OWN, 5000, SERVER, 80))
    );
    // another host with the same port gets another one
    let second = frame((OTHER, 5000, SERVER, 80), SYN);
    let (_, (src, port, ..)) = through(&chain, &mut g, "lan", &second).unwrap();
    assert!(src == OWN && port != 5000 && port >= 1024);
    let back = frame((SERVER, 80, OWN, port), SYN | ACK);
    assert_eq!(
        through(&chain, &mut g, "wan", &back),
        lan((SERVER, 80, OTHER, 5000))
    );
    // in, to a forwarded port, and back
    let first = frame((SERVER, 6000, OWN, 443), SYN);
    assert_eq!(
        through(&chain, &mut g, "wan", &first),
        lan((SERVER, 6000, WEB, 8443))
    );
    let answer = frame((WEB, 8443, SERVER, 6000), SYN | ACK);
    assert_eq!(
        through(&chain, &mut g, "lan", &answer),
        wan((OWN, 443, SERVER, 6000))
    );
    // for the router itself, and to a host inside that nobody has let in
    assert_eq!(
        through(&chain, &mut g, "wan", &frame((SERVER, 6000, OWN, 22), SYN)),
        None
    );
    assert_eq!(
        through(&chain, &mut g, "wan", &frame((SERVER, 6000, HOST, 22), SYN)),
        None
    );
    // what would turn back
    assert_eq!(
        through(&chain, &mut g, "lan", &frame((HOST, 1, OTHER, 2), SYN)),
        None
    );
    let read = |g: &mut Graph, h: &str| g.read_handler(h).unwrap();
    assert_eq!(read(&mut g, "router/connections.count"), "3");
    let table = read(&mut g, "router/connections.table");
    assert!(
        table.contains("snat as 6 203.0.113.1 5000 198.51.100.7 80 "),
        "{table}"
    );
    assert!(
        table.contains("dnat as 6 198.51.100.7 6000 192.168.1.80 8443 "),
        "{table}"
    );
    // rules of both tables are listed with their places
    let rules = &chain.functions[0].rules;
    let places: Vec<String> = (rules.iter())
        .filter(|r| r.element == "up_snat_rules" || r.element == "down_dnat_rules")
        .filter_map(|r| r.place.as_ref())
        .map(|p| format!("{}/{} {}", p.table, p.chain, p.number))
        .collect();
    assert_eq!(places, ["nat/POSTROUTING 1", "nat/PREROUTING 1"]);
}

/// A host's own packets come back to it through the router with the ends that its answers would have: a connection
/// whose replies look like its own packets. All but the first are replies, as in Linux (a container host's rules, found
/// by `compare kernel`): another SYN is none that the connection knows.
#[test]
fn a_connection_that_answers_itself() {
    const ROUTER: [u8; 4] = [192, 168, 1, 1];
    let rules = RULES
        .replace(
            "-i wan0 -p tcp -m tcp --dport 443",
            "-p tcp -m tcp --dport 80",
        )
        .replace("192.168.1.80:8443", "192.168.1.80:80")
        .replace(
            "-s 192.168.1.0/24 -o wan0",
            "-s 192.168.1.80/32 -d 192.168.1.80/32",
        );
    let c = load("itself", &rules, CHAIN).unwrap();
    let mut g = build(&c);
    let own = (WEB, 80, ROUTER, 80);
    let becomes = Some(("lan".to_string(), (ROUTER, 80, WEB, 80)));
    assert_eq!(through(&c, &mut g, "wan", &frame(own, ACK)), becomes);
    assert_eq!(through(&c, &mut g, "wan", &frame(own, SYN)), None);
    assert_eq!(through(&c, &mut g, "wan", &frame(own, ACK)), becomes);
    let table = g.read_handler("router/connections.table").unwrap();
    assert_eq!(table.lines().count(), 1, "{table}");
}

#[test]
fn what_is_missing_is_told() {
    let told = |rules: &str, chain: &str| load("told", rules, chain).unwrap_err().join("\n");
    let without = CHAIN.replace(
        "      addresses: { inside: [192.168.1.1/24], outside: [203.0.113.1/24] }\n",
        "",
    );
    let e = told(RULES, &without);
    assert!(e.contains("the address of the port is not known"), "{e}");
    // what is said helps where it is written
    let local = RULES.replacen(
        "-A PREROUTING",
        "-A PREROUTING -m addrtype --dst-type LOCAL",
        1,
    );
    for rules in [RULES, &local] {
        let e = told(rules, &without);
        for hint in e.split('\'').filter(|p| p.starts_with("addresses: {")) {
            let with = without.replace("ports:", &format!("      {hint}\nports:"));
            load("told", rules, &with).unwrap_or_else(|e| panic!("{hint}: {e:#?}"));
        }
        assert!(e.contains("'addresses: {"), "{e}");
    }
    let e = told(RULES, &CHAIN.replace("192.168.1.1/24", "192.168.1.1/33"));
    assert!(
        e.contains("expected an address such as 192.168.1.1/24"),
        "{e}"
    );
    let e = told(
        &RULES.replace(
            "DNAT --to-destination 192.168.1.80:8443",
            "REDIRECT --to-ports 1",
        ),
        CHAIN,
    );
    assert!(
        e.contains("target 'REDIRECT' sends packets to programs"),
        "{e}"
    );
    let raw = |rule: &str| {
        let with = format!(":PREROUTING ACCEPT [0:0]\n-A PREROUTING {rule}\nCOMMIT\n*nat");
        RULES.replace(":PREROUTING ACCEPT [0:0]\nCOMMIT\n*nat", &with)
    };
    let e = told(&raw("-p tcp -j CT --helper ftp"), CHAIN);
    assert!(e.contains("/r:3:25: error: target 'CT'"), "{e}");
    assert!(load("told", &raw("-p tcp -j ACCEPT"), CHAIN).is_ok());
}

/// Chains of the tables raw and mangle, in the order of netfilter's hooks.
#[test]
fn chains_in_their_order() {
    let rules = RULES
        .replace(
            ":PREROUTING ACCEPT [0:0]\nCOMMIT\n*nat",
            ":PREROUTING ACCEPT [0:0]\n-A PREROUTING -i wan0 -s 198.51.100.9 -j DROP\nCOMMIT\n*mangle\n\
             -A PREROUTING -i wan0 -p tcp -m tcp --dport 8443 -m state --state NEW -j DROP\n\
             -A FORWARD -p tcp -m tcp --dport 6667 -j DROP\n\
             -A POSTROUTING -o wan0 -d 198.51.100.8 -j DROP\nCOMMIT\n*nat",
        )
        .replace("--ctstate DNAT", "--ctstate DNAT -m tcp --dport 8443");
    let rules = rules.replace(
        "-m conntrack --ctstate DNAT -m tcp",
        "-p tcp -m conntrack --ctstate DNAT -m tcp",
    );
    let chain = load("order", &rules, CHAIN).unwrap();
    let mut g = build(&chain);
    let mut passes = |port: &str, e: Ends| through(&chain, &mut g, port, &frame(e, SYN)).is_some();
    // mangle PREROUTING sees the port that the packet came with, filter FORWARD the one it gets
    assert!(passes("wan", (SERVER, 6000, OWN, 443)));
    assert!(!passes("wan", (SERVER, 6001, OWN, 8443)));
    assert!(!passes("wan", (SERVER, 6002, WEB, 8443)));
    // table raw
    assert!(!passes("wan", ([198, 51, 100, 9], 6000, OWN, 443)));
    // mangle FORWARD and POSTROUTING
    assert!(passes("lan", (HOST, 1, SERVER, 80)));
    assert!(!passes("lan", (HOST, 2, SERVER, 6667)));
    assert!(!passes("lan", (HOST, 3, [198, 51, 100, 8], 80)));
    assert!(passes("lan", ([198, 51, 100, 9], 3, SERVER, 80)));
    let tables: Vec<&str> = (chain.functions[0].rules.iter())
        .filter(|r| r.element.starts_with("up_") && !r.policy)
        .filter_map(|r| r.place.as_ref())
        .map(|p| p.table.as_str())
        .collect();
    for table in ["mangle", "filter", "nat"] {
        assert!(tables.contains(&table), "{tables:?}");
    }
}

/// An ICMP error from the server to the router, about a packet that left it: `kind`, and so many bytes of the packet.
fn error(kind: u8, about: &Frame, quoted: usize) -> Vec<u8> {
    let mut icmp = vec![kind, 1, 0, 0, 0, 0, 0, 0];
    icmp.extend(&about.bytes()[14..14 + quoted]);
    let sum = checksum::internet(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    b.extend((20 + icmp.len() as u16).to_be_bytes());
    b.extend([0, 1, 0, 0, 64, 1, 0, 0]);
    b.extend(SERVER);
    b.extend(OWN);
    let sum = checksum::internet(&b[14..]);
    b[24..26].copy_from_slice(&sum.to_be_bytes());
    b.extend(icmp);
    b
}

/// Errors find the host inside, but for redirects, and those that quote too little (`nf_nat_icmp_reply_translation`).
#[test]
fn icmp_errors() {
    let chain = load("errors", RULES, CHAIN).unwrap();
    let mut g = build(&chain);
    let out = frame((HOST, 5000, SERVER, 80), SYN);
    let (_, left) = through(&chain, &mut g, "lan", &out).unwrap();
    let left = frame(left, SYN);
    let mut arrives = |kind, quoted| {
        let b = error(kind, &left, quoted);
        send(&chain, &mut g, "wan", &[b]).pop()
    };
    let (port, b) = arrives(3, 28).unwrap();
    assert_eq!((port.as_str(), &b[30..34]), ("lan", &HOST[..]));
    // the quoted packet's source, and its port
    assert_eq!((&b[54..58], &b[62..64]), (&HOST[..], &[0x13, 0x88][..]));
    assert_eq!(checksum::internet(&b[34..]), 0);
    assert_eq!(checksum::internet(&b[42..62]), 0);
    assert_eq!(arrives(3, 24), None);
    assert_eq!(arrives(5, 28), None);
    let reasons: Vec<String> = g
        .drops()
        .into_iter()
        .map(|d| d.reason.to_string())
        .collect();
    for reason in [
        "a redirect about a translated connection",
        "quotes too little",
    ] {
        assert!(reasons.iter().any(|r| r.contains(reason)), "{reasons:?}");
    }
}

/// A chain of one of the published rulesets, between these interfaces.
fn published(file: &str, [inside, outside]: [&str; 2], address: &str) -> Option<Chain> {
    let text = std::fs::read_to_string(onefold_testing::ruleset(file)?).unwrap();
    let chain = CHAIN
        .replace("lan0", inside)
        .replace("wan0", outside)
        .replace("192.168.1.1/24", address);
    let name = file.replace('/', "-");
    Some(load(&name, &text, &chain).unwrap_or_else(|e| panic!("{file}: {e:#?}")))
}

/// Whole rulesets of routers, as they were found: out with the router's address, and back.
#[test]
fn published_routers() {
    for (file, interfaces) in [
        ("iptables/pi-5g-router.rules", ["wlan0", "usb0"]),
        (
            "iptables/server-forwarding.rules",
            ["enp3s0", "enx0c5b8f279a64"],
        ),
        ("iptables/home-router.rules", ["br0", "eth0"]),
    ] {
        let Some(chain) = published(file, interfaces, "192.168.1.1/24") else {
            return;
        };
        let mut g = build(&chain);
        let out = frame((HOST, 5000, SERVER, 80), SYN);
        let left = through(&chain, &mut g, "lan", &out);
        assert_eq!(
            left,
            Some(("wan".into(), (OWN, 5000, SERVER, 80))),
            "{file}"
        );
        let back = frame((SERVER, 80, OWN, 5000), SYN | ACK);
        let left = through(&chain, &mut g, "wan", &back);
        assert_eq!(
            left,
            Some(("lan".into(), (SERVER, 80, HOST, 5000))),
            "{file}"
        );
    }
}

/// Hosts of containers, whole: a published port, masquerade, and what only the host may reach.
#[test]
fn published_container_hosts() {
    let older = (
        "containers/docker-published.rules",
        "docker0",
        [172, 17, 0, 2],
    );
    let newer = (
        "containers/docker-bridge.rules",
        "br-dummy",
        [192, 168, 0, 2],
    );
    for (file, bridge, container) in [older, newer] {
        let [a, b, c, _] = container;
        let address = format!("{a}.{b}.{c}.1/16");
        let Some(chain) = published(file, [bridge, "eth0"], &address) else {
            return;
        };
        let mut g = build(&chain);
        let mut send = |port: &str, e: Ends| through(&chain, &mut g, port, &frame(e, SYN));
        let inside = Some(("lan".to_string(), (SERVER, 6000, container, 80)));
        assert_eq!(send("wan", (SERVER, 6000, OWN, 8080)), inside, "{file}");
        assert_eq!(send("wan", (SERVER, 6001, OWN, 80)), None, "{file}");
        let out = Some(("wan".to_string(), (OWN, 7000, SERVER, 443)));
        assert_eq!(send("lan", (container, 7000, SERVER, 443)), out, "{file}");
        // around the published port: newer ones drop it in table raw
        let direct = send("wan", (SERVER, 6002, container, 80));
        assert_eq!(direct.is_none(), bridge == "br-dummy", "{file}");
    }
}

/// A rule of a chain of type nat: a source, and what becomes of it.
fn nft_rule(table: &str, chain: &str, source: &str, does: &str) -> String {
    format!(
        "{{\"rule\": {{\"family\": \"ip\", \"table\": \"{table}\", \"chain\": \"{chain}\", \"expr\": [\
         {{\"match\": {{\"op\": \"==\", \"left\": {{\"payload\": {{\"protocol\": \"ip\", \"field\": \"saddr\"}}}}, \
         \"right\": \"{source}\"}}}}, {does}]}}}}"
    )
}

/// A base chain of type nat at hook postrouting.
fn nft_base(table: &str, priority: i64) -> String {
    format!(
        "{{\"chain\": {{\"family\": \"ip\", \"table\": \"{table}\", \"name\": \"post\", \"type\": \"nat\", \
         \"hook\": \"postrouting\", \"prio\": {priority}, \"policy\": \"accept\"}}}}"
    )
}

fn nft(objects: &[String]) -> String {
    format!("{{\"nftables\": [\n{}\n]}}\n", objects.join(",\n"))
}

/// Several chains of type nat at one hook, by priority: what one accepts the next one is asked about, and the first
/// one that translates decides.
#[test]
fn several_chains_at_one_hook() {
    let snat = |to: &str| format!("{{\"snat\": {{\"addr\": \"{to}\"}}}}");
    let (host, other) = ("192.168.1.10", "192.168.1.11");
    let rules = nft(&[
        nft_base("late", 110),
        nft_rule("late", "post", host, &snat("203.0.113.1")),
        nft_rule("late", "post", other, &snat("203.0.113.1")),
        nft_base("early", 100),
        nft_rule("early", "post", host, "{\"accept\": null}"),
        nft_rule("early", "post", host, &snat("203.0.113.9")),
        nft_rule("early", "post", other, &snat("203.0.113.9")),
    ]);
    let chain = load("several", &rules, CHAIN).unwrap();
    let mut g = build(&chain);
    for (from, shown) in [(HOST, OWN), (OTHER, [203, 0, 113, 9])] {
        let out = frame((from, 5000, SERVER, 80), SYN);
        let wan = Some(("wan".to_string(), (shown, 5000, SERVER, 80)));
        assert_eq!(through(&chain, &mut g, "lan", &out), wan);
    }
    // behind a jump, that cannot be said
    let rules = nft(&[
        nft_base("early", 100),
        "{\"chain\": {\"family\": \"ip\", \"table\": \"early\", \"name\": \"more\"}}".to_string(),
        nft_rule("early", "post", host, "{\"jump\": {\"target\": \"more\"}}"),
        nft_rule("early", "more", host, "{\"accept\": null}"),
        nft_base("late", 110),
        nft_rule("late", "post", host, &snat("203.0.113.1")),
    ]);
    let told = load("behind", &rules, CHAIN).unwrap_err().concat();
    assert!(
        told.contains("'accept' in chain 'early/more', which 'early/post' jumps to"),
        "{told}"
    );
}
