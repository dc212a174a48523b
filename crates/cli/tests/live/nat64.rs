//! A host that has IPv6 alone and one that has IPv4 alone, both real kernels, with a NAT64 between them.

use crate::common;
use crate::host::{datagrams_to, transfer_to};
use crate::running::{PATIENCE, Running};
use onefold_testing::net::{Net, Raw};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const CHAIN: &str = r#"functions:
  nat:
    nat:
      pool: 203.0.113.1
      nat64: { prefix: "64:ff9b:1::/96" }
      forward: [ "tcp 203.0.113.1:80 -> [2001:db8::10]:8080" ]
      encap-inside: { mac: "02:00:00:00:00:01", next-hop: "02:00:00:00:00:02", address: 10.0.0.1/8,
                      address6: "2001:db8::1/64" }
      encap-outside: { mac: "02:00:00:00:00:03", next-hop: "02:00:00:00:00:04" }
ports: { inside: "nat[0]", outside: "nat[1]" }
"#;
const SERVER: [u8; 4] = [203, 0, 113, 254];
const POOL: [u8; 4] = [203, 0, 113, 1];

/// As the IPv6 host knows an IPv4 host.
fn shown(v4: [u8; 4]) -> Ipv6Addr {
    let [a, b, c, d] = v4.map(u16::from);
    Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, a << 8 | b, c << 8 | d)
}

#[test]
fn an_ipv6_host_and_an_ipv4_host() {
    let Some(net) = Net::new(&["a", "o", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.pair(("b", "vb"), ("o", "ob"));
    net.ip("a", "addr add 2001:db8::10/64 dev va nodad");
    net.ip("a", "-6 route add 64:ff9b:1::/96 via 2001:db8::1");
    net.ip("b", "addr add 203.0.113.254/24 dev vb");
    let file = common::temp("live-nat64").join("chain.yaml");
    std::fs::write(&file, CHAIN).expect("a file");
    let file = file.display().to_string();
    let ports = ["--port", "inside=packet:oa", "--port", "outside=packet:ob"];
    let onefold = Running::start(&net, "o", &[&[file.as_str()][..], &ports].concat());

    let far = shown(SERVER);
    let echo = net.within("a", || Raw::icmp6().ping6(far, 7, PATIENCE));
    assert!(echo.is_some(), "no reply to a ping through the NAT64");
    // a connection from each side
    let (to, at): (SocketAddr, SocketAddr) = ((far, 8080).into(), (SERVER, 8080).into());
    let from = transfer_to(&net, ("a", to), ("b", at), 1 << 20);
    assert_eq!(from.ip(), IpAddr::from(POOL));
    let host: Ipv6Addr = "2001:db8::10".parse().expect("an address");
    let (to, at): (SocketAddr, SocketAddr) = ((POOL, 80).into(), (host, 8080).into());
    let from = transfer_to(&net, ("b", to), ("a", at), 1 << 18);
    assert_eq!(from.ip(), IpAddr::from(far));
    // the last ones are in fragments from IPv6, and answered at first with packets that are too long for it, which
    // the server's kernel is told
    for bytes in [1, 1400, 1472, 4000] {
        let (to, at): (SocketAddr, SocketAddr) = ((far, 5353).into(), (SERVER, 5353).into());
        let from = datagrams_to(&net, ("a", to), ("b", at), bytes);
        assert_eq!(from.ip(), IpAddr::from(POOL));
    }
    // nobody reads there: the error of the IPv4 host's kernel is the IPv6 host's
    let refused = net.within("a", || {
        let s = UdpSocket::bind("[::]:0").expect("a socket");
        s.connect((far, 9)).expect("a route");
        let moment = Duration::from_millis(300);
        s.set_read_timeout(Some(moment)).expect("a time limit");
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let sent = s.send(b"hello").err();
            let got = s.recv(&mut [0; 8]).err();
            let refused = |e: &std::io::Error| e.kind() == ErrorKind::ConnectionRefused;
            if sent.iter().chain(&got).any(refused) {
                return true;
            }
        }
        false
    });
    assert!(refused, "no ICMP error came through");
    let v = onefold.stop();
    assert_eq!(v["interrupted"], true);
}
