//! Rule files that translate addresses, as one function.

mod common;

use common::{Frame, build, load_in, send};
use onefold_chain::Chain;
use onefold_engine::Graph;
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

#[test]
fn what_is_missing_is_told() {
    let told = |rules: &str, chain: &str| load("told", rules, chain).unwrap_err().join("\n");
    let without = CHAIN.replace(
        "      addresses: { inside: [192.168.1.1/24], outside: [203.0.113.1/24] }\n",
        "",
    );
    let e = told(RULES, &without);
    assert!(e.contains("the address of the port is not known"), "{e}");
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
    let e = told(
        &RULES.replace(
            ":PREROUTING ACCEPT [0:0]\nCOMMIT\n*nat",
            ":PREROUTING ACCEPT [0:0]\n-A PREROUTING -j ACCEPT\nCOMMIT\n*nat",
        ),
        CHAIN,
    );
    assert!(
        e.contains("chain 'PREROUTING' of table 'raw' has rules"),
        "{e}"
    );
}
