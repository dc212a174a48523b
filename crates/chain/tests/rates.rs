//! Rules that ask for a rate: lists are divided there, and there is one bucket for each rule of the file.

use crate::common;

use common::{Frame, build, load_in};
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_packet::Timestamp;

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 1, 0, 1];

const CHAIN: &str = "functions:
  fw:
    firewall:
      rules-file: r
      interfaces: { inside: lan0, outside: wan0 }
ports: { lan: \"fw[0]\", wan: \"fw[1]\" }
";

fn load(name: &str, rules: &str) -> Result<Chain, Vec<String>> {
    let dir = std::env::temp_dir().join(format!("onefold-rates-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("r"), rules).unwrap();
    let found = load_in(&dir, CHAIN);
    std::fs::remove_dir_all(&dir).unwrap();
    found
}

/// How many of so many packets pass, sent at once `millis` after the beginning.
fn passed(chain: &Chain, g: &mut Graph, port: &str, f: &Frame, (millis, n): (i64, usize)) -> usize {
    let p = chain.ports.iter().find(|p| p.name == port).unwrap();
    let source = ElemId(p.source.unwrap() as u32);
    let mut out = 0;
    for _ in 0..n {
        let now = Timestamp::from_secs(1000) + Timestamp::from_millis(millis);
        g.inject(source, &f.bytes(), now);
        g.drain_transmitted(|_, _| out += 1);
    }
    assert!(g.totals().balanced(), "packets are conserved");
    out
}

fn udp(dport: u16) -> Frame {
    Frame::udp(A, B, dport)
}

fn forward(rules: &str) -> String {
    format!("*filter\n:FORWARD DROP [0:0]\n:own - [0:0]\n:other - [0:0]\n{rules}\nCOMMIT\n")
}

#[test]
fn one_bucket_for_a_rule_in_every_list() {
    let text = forward(
        "-A FORWARD -m state --state ESTABLISHED -j ACCEPT\n\
         -A FORWARD -p udp --dport 53 -m limit --limit 10/min --limit-burst 3 -j ACCEPT\n\
         -A FORWARD -p udp --dport 54 -j ACCEPT",
    );
    let chain = load("bucket", &text).unwrap();
    let mut g = build(&chain);
    // each packet of a connection of its own: what is established is not asked about
    let ask = |n: u16| udp(53).with(|f| f.sport = n);
    let mut total = 0;
    for n in 0..5 {
        total += passed(&chain, &mut g, "lan", &ask(1000 + n), (0, 1));
    }
    assert_eq!(total, 3);
    // the other way it is the same bucket, and a token comes every six seconds
    let back = ask(2000).with(|f| (f.src, f.dst) = (B, A));
    assert_eq!(passed(&chain, &mut g, "wan", &back, (5999, 1)), 0);
    assert_eq!(passed(&chain, &mut g, "wan", &back, (6000, 1)), 1);
    assert_eq!(passed(&chain, &mut g, "lan", &ask(3000), (6000, 1)), 0);
    // known connections, and rules behind it, are not limited
    let answer = Frame::udp(A, B, 2000).with(|f| f.sport = 53);
    assert_eq!(passed(&chain, &mut g, "lan", &answer, (6001, 1)), 1);
    assert_eq!(passed(&chain, &mut g, "lan", &answer, (6001, 20)), 20);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(54), (6001, 20)), 20);
    let read = |g: &mut Graph, h: &str| g.read_handler(h).unwrap();
    assert_eq!(read(&mut g, "fw/limit_ip_filter_FORWARD_2.within"), "4");
    assert_eq!(read(&mut g, "fw/limit_ip_filter_FORWARD_2.over"), "4");
}

/// A jump asks once for all rules of the chain; a return that is taken leaves the chain; two visits ask twice.
#[test]
fn jumps_and_returns() {
    let text = forward(
        "-A FORWARD -m limit --limit 1/s --limit-burst 4 -j own\n\
         -A FORWARD -p udp --dport 3 -j ACCEPT\n\
         -A own -p udp --dport 1 -j ACCEPT\n\
         -A own -p udp --dport 2 -j DROP\n\
         -A own -p udp --dport 3 -j RETURN\n\
         -A own -j ACCEPT",
    );
    let chain = load("jump", &text).unwrap();
    let mut g = build(&chain);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (0, 2)), 2);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(2), (0, 1)), 0);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(9), (0, 5)), 1);
    // beyond the rate the chain is not asked
    assert_eq!(passed(&chain, &mut g, "lan", &udp(3), (0, 3)), 3);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (0, 1)), 0);
    let text = forward(
        "-A FORWARD -p udp -j own\n\
         -A FORWARD -p udp --dport 7 -j own\n\
         -A FORWARD -p udp -j ACCEPT\n\
         -A own -m limit --limit 1/s --limit-burst 4 -j RETURN\n\
         -A own -j DROP",
    );
    let chain = load("return", &text).unwrap();
    let mut g = build(&chain);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (0, 3)), 3);
    // one token is left, and this one needs two
    assert_eq!(passed(&chain, &mut g, "lan", &udp(7), (0, 1)), 0);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (0, 1)), 0);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(7), (2000, 1)), 1);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (2000, 1)), 0);
}

/// Tests behind the rate: the token is gone, whether they hold or not.
#[test]
fn what_is_asked_behind_it() {
    let rule = |order: &str| forward(&format!("-A FORWARD -p udp {order} -j ACCEPT"));
    let limit = "-m limit --limit 1/s --limit-burst 2";
    for (name, order, left) in [
        ("before", format!("-m udp --dport 1 {limit}"), 2),
        ("behind", format!("{limit} -m udp --dport 1"), 0),
        ("base", format!("{limit} -d 10.1.0.0/16"), 2),
    ] {
        let chain = load(name, &rule(&order)).unwrap();
        let mut g = build(&chain);
        let other = Frame::udp(A, [10, 2, 0, 1], 2);
        assert_eq!(passed(&chain, &mut g, "lan", &other, (0, 2)), 0, "{name}");
        assert_eq!(
            passed(&chain, &mut g, "lan", &udp(1), (0, 5)),
            left,
            "{name}"
        );
    }
}

/// Bytes, and packets beyond a rate, of nftables; both rates of a list, one behind the other.
#[test]
fn rates_of_nftables() {
    let rule = |expr: &str| {
        format!(
            "{{\"rule\": {{\"family\": \"inet\", \"table\": \"t\", \"chain\": \"f\", \"expr\": [{expr}]}}}}"
        )
    };
    let text = [
        "{\"chain\": {\"family\": \"inet\", \"table\": \"t\", \"name\": \"f\", \"type\": \"filter\", \
         \"hook\": \"forward\", \"prio\": 0, \"policy\": \"accept\"}}"
            .to_string(),
        rule("{\"limit\": {\"rate\": 2, \"per\": \"minute\", \"burst\": 4, \"inv\": true}}, {\"drop\": null}"),
        rule(
            "{\"limit\": {\"rate\": 100, \"per\": \"second\", \"burst\": 0, \"rate_unit\": \"bytes\"}}, \
             {\"accept\": null}",
        ),
        rule("{\"drop\": null}"),
    ];
    let text = format!("{{\"nftables\": [{}]}}", text.join(",\n"));
    let chain = load("nft", &text).unwrap();
    let mut g = build(&chain);
    // an IP packet of 47 bytes: two fit into a hundred, and the third has used a packet of the other rate
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (0, 3)), 2);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (1000, 3)), 1);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (31_000, 1)), 1);
}

#[test]
fn no_bucket_without_a_use() {
    let text = forward(
        "-A FORWARD -m limit --limit 1/min -j LOG\n\
         -A FORWARD -m limit --limit 1/min\n\
         -A FORWARD -p udp -j ACCEPT",
    );
    let chain = load("log", &text).unwrap();
    assert!(!chain.graph.elements.iter().any(|e| e.class == "RateLimit"));
    let nat = format!(
        "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m limit --limit 1/s -j DNAT --to-destination 10.0.0.1\n\
         COMMIT\n{text}"
    );
    let e = load("nat", &nat).unwrap_err().join("\n");
    assert!(e.contains("in table nat is not supported"), "{e}");
}

/// Who is within a rate gets a mark, and goes on; who is beyond it goes on without.
#[test]
fn rates_and_marks() {
    let text = forward(
        "-A FORWARD -p udp -m limit --limit 1/s --limit-burst 2 -j MARK --set-mark 1\n\
         -A FORWARD -m mark --mark 1 -p udp --dport 7 -j DROP\n\
         -A FORWARD -m mark --mark 1 -j own\n\
         -A FORWARD -p udp --dport 9 -j ACCEPT\n\
         -A own -m limit --limit 1/s --limit-burst 1 -m mark ! --mark 1 -j DROP\n\
         -A own -m limit --limit 1/s --limit-burst 1 -m mark --mark 1 -j ACCEPT",
    );
    let chain = load("marks", &text).unwrap();
    let mut g = build(&chain);
    // one is marked and within both rates, one is marked, one is not
    assert_eq!(passed(&chain, &mut g, "lan", &udp(1), (0, 3)), 1);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(9), (0, 2)), 2);
    let read = |g: &mut Graph, h: &str| g.read_handler(h).unwrap();
    // what is asked behind a rate takes its token, whether it holds or not
    assert_eq!(read(&mut g, "fw/limit_ip_filter_own_1.within"), "1");
    assert_eq!(read(&mut g, "fw/limit_ip_filter_own_1.over"), "1");
    assert_eq!(read(&mut g, "fw/limit_ip_filter_own_2.within"), "1");
    assert_eq!(read(&mut g, "fw/limit_ip_filter_FORWARD_1.over"), "3");
    // marked, and dropped for it; then not marked any more
    assert_eq!(passed(&chain, &mut g, "lan", &udp(7), (1000, 1)), 0);
    assert_eq!(passed(&chain, &mut g, "lan", &udp(9), (1000, 1)), 1);
}

/// One list for all that ask it, by the packet's own time.
#[test]
fn addresses_that_have_been_seen() {
    let text = forward(
        "-A FORWARD -i lan0 -p udp --dport 53 -m recent --set --name dns\n\
         -A FORWARD -p udp --dport 54 -m recent --update --seconds 10 --hitcount 2 --name dns -j ACCEPT\n\
         -A FORWARD -i wan0 -p udp --dport 55 -m recent --rcheck --name dns --rdest -j ACCEPT\n\
         -A FORWARD -p udp --dport 56 -m recent --remove --name dns -j ACCEPT",
    );
    let chain = load("recent", &text).unwrap();
    let mut g = build(&chain);
    let back = udp(55).with(|f| (f.src, f.dst) = (B, A));
    let all = [
        // not seen yet; then once, which is too seldom; then twice
        ("lan", udp(54), 0, 0),
        ("lan", udp(53), 0, 0),
        ("lan", udp(54), 0, 0),
        ("lan", udp(53), 1000, 0),
        ("lan", udp(54), 10_000, 1),
        // at 1 s and at 10 s
        ("lan", udp(54), 11_000, 1),
        // at 10 s and at 11 s, and not at 21 s
        ("lan", udp(54), 21_001, 0),
        ("wan", back.clone(), 22_000, 1),
        ("lan", udp(56), 22_000, 1),
        ("lan", udp(56), 22_000, 0),
        ("wan", back, 22_000, 0),
    ];
    for (i, (port, frame, millis, n)) in all.into_iter().enumerate() {
        let found = passed(&chain, &mut g, port, &frame, (millis, 1));
        assert_eq!(found, n, "{i}");
    }
    assert_eq!(g.read_handler("fw/recent_dns.count").unwrap(), "0");
}

/// Every third packet that comes to a rule; what a payload says.
#[test]
fn turns_and_strings() {
    let text = forward(
        "-A FORWARD -p udp --dport 1 -m statistic --mode nth --every 3 --packet 1 -j ACCEPT\n\
         -A FORWARD -p udp --dport 2 -m string --algo bm --string packet -j ACCEPT\n\
         -A FORWARD -p udp --dport 3 -m string --algo kmp --string Packet --icase --from 28 --to 40 -j ACCEPT",
    );
    let chain = load("turns", &text).unwrap();
    let mut g = build(&chain);
    let turns: Vec<usize> = (0..7)
        .map(|_| passed(&chain, &mut g, "lan", &udp(1), (0, 1)))
        .collect();
    assert_eq!(turns, [0, 1, 0, 0, 1, 0, 0]);
    let other = udp(2).with(|f| f.payload = b"nothing of it".to_vec());
    assert_eq!(passed(&chain, &mut g, "lan", &udp(2), (0, 1)), 1);
    assert_eq!(passed(&chain, &mut g, "lan", &other, (0, 1)), 0);
    // it stands behind the first twelve bytes
    assert_eq!(passed(&chain, &mut g, "lan", &udp(3), (0, 1)), 0);
    let early = udp(3).with(|f| f.payload = b"a PACKET at once".to_vec());
    assert_eq!(passed(&chain, &mut g, "lan", &early, (0, 1)), 1);
}
