//! Firewalls whose rules ask about connections.

use crate::common;

use common::{Frame, build, errors, example, load_in, send};
use onefold_chain::Chain;
use onefold_engine::Graph;
use onefold_packet::Timestamp;
use std::path::Path;

const CLIENT: [u8; 4] = [10, 1, 0, 1];
const SERVER: [u8; 4] = [198, 18, 0, 80];
const SYN: u8 = 2;
const ACK: u8 = 16;

fn passes(chain: &Chain, graph: &mut Graph, port: &str, f: &Frame) -> bool {
    !send(chain, graph, port, &[f.bytes()]).is_empty()
}

/// The other direction.
fn back(f: &Frame, flags: u8) -> Frame {
    f.clone().with(|b| {
        (b.src, b.dst) = (f.dst, f.src);
        (b.sport, b.dport) = (f.dport, f.sport);
        b.flags = flags;
    })
}

#[test]
fn the_office_lets_answers_in() {
    let chain = example("office-fw");
    let mut g = build(&chain);
    let web = Frame::tcp(CLIENT, SERVER, 80, SYN);
    let answer = back(&web, SYN | ACK);
    assert!(!passes(&chain, &mut g, "wan", &answer));
    assert!(passes(&chain, &mut g, "lan", &web));
    assert!(passes(&chain, &mut g, "wan", &answer));
    assert!(passes(
        &chain,
        &mut g,
        "lan",
        &web.clone().with(|f| f.flags = ACK)
    ));
    // a port that may not be asked begins nothing
    let mail = Frame::tcp(CLIENT, SERVER, 25, SYN);
    assert!(!passes(&chain, &mut g, "lan", &mail));
    assert!(!passes(&chain, &mut g, "wan", &back(&mail, SYN | ACK)));
    // from outside, to a server inside, and back
    let https = Frame::tcp(SERVER, [10, 1, 9, 10], 443, SYN);
    assert!(passes(&chain, &mut g, "wan", &https));
    assert!(passes(&chain, &mut g, "lan", &back(&https, SYN | ACK)));
    let other = Frame::tcp(SERVER, [10, 1, 9, 13], 443, SYN);
    assert!(!passes(&chain, &mut g, "wan", &other));
    let count = g.read_handler("fw/connections.count").ok();
    assert_eq!(count.as_deref(), Some("2"));
}

#[test]
fn rules_of_ones_own_and_times() {
    let text = "functions:
  fw:
    firewall:
      rules:
        - allow ct state established,related
        - allow src net 10.0.0.0/8 && udp && ct state new
        - deny ct direction reply
      connections: { udp: 5 }
ports: { lan: \"fw[0]\", wan: \"fw[1]\" }
";
    let chain = load_in(Path::new("."), text).unwrap();
    let mut g = build(&chain);
    let ask = Frame::udp(CLIENT, SERVER, 53);
    assert!(!passes(&chain, &mut g, "wan", &back(&ask, 0)));
    assert!(passes(&chain, &mut g, "lan", &ask));
    assert!(passes(&chain, &mut g, "wan", &back(&ask, 0)));
    g.advance_to(g.now() + Timestamp::from_secs(6));
    assert!(!passes(&chain, &mut g, "wan", &back(&ask, 0)));
    // rules are listed once for each list that they are in, with their own text
    let rules = &chain.functions[0].rules;
    let of = |element: &str| -> Vec<&str> {
        let all = rules.iter().filter(|r| r.element == element);
        all.map(|r| r.text.as_ref()).collect()
    };
    assert_eq!(
        of("up_rules_new"),
        [
            "allow src net 10.0.0.0/8 && udp && ct state new",
            "policy deny"
        ]
    );
    assert_eq!(
        of("up_rules_established_related"),
        ["allow ct state established,related", "policy deny"]
    );
}

#[test]
fn what_is_wrong_is_told() {
    let rules = |r: &str| {
        format!(
            "functions:\n  fw: {{ firewall: {{ rules: [\"{r}\"] }} }}\nports: {{ a: \"fw[0]\", b: \"fw[1]\" }}\n"
        )
    };
    let e = errors(&rules("allow ct state old"));
    assert!(
        e.contains("expected new, established, related, invalid or untracked"),
        "{e}"
    );
    let e = errors(&rules("allow ct mark 1"));
    assert!(e.contains("'ct mark' is not supported"), "{e}");
    let e = errors(&rules("allow tcp && ct state"));
    assert!(e.contains("such as 'ct state established'"), "{e}");
    let e = errors(
        "functions:\n  fw: { firewall: { rules: [allow ct state new], connections: { udp: 0 } } }\n\
         ports: { a: \"fw[0]\", b: \"fw[1]\" }\n",
    );
    assert!(e.contains("connections: 'udp' must not be 0"), "{e}");
}
