//! Real TCP, UDP, ICMP and IPv6 through chains on interfaces.

use crate::common;
use crate::host::{datagrams, transfer};
use crate::running::{PATIENCE, Running};
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_port_interface::Interface;
use onefold_port_packet::{Mode, PacketPort, SLOTS};
use onefold_runtime::Port;
use onefold_testing::net::{Net, Raw};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// A client network and the Internet with the ISP edge between them; nobody has been told any MAC address.
pub fn isp() -> Option<Net> {
    isp_of_queues(1)
}

/// The same with interfaces of so many queues.
pub fn isp_of_queues(queues: usize) -> Option<Net> {
    let net = Net::new(&["a", "o", "b"])?;
    net.pair_of_queues(("a", "va"), ("o", "oa"), queues);
    net.pair_of_queues(("b", "vb"), ("o", "ob"), queues);
    net.ip("a", "addr add 204.152.0.10/16 dev va");
    net.ip("a", "route add default via 204.152.0.1");
    net.ip("b", "addr add 203.0.113.254/24 dev vb");
    Some(net)
}

/// A file with a rule that allows everything.
pub fn rules(name: &str) -> String {
    let file = common::temp(name).join("all.rules");
    std::fs::write(&file, "allow all\n").expect("a file");
    format!("rules={}", file.display())
}

/// TCP both ways with checksums, UDP, ping; NAT seen from outside.
pub fn isp_edge(name: &str, kind: &str, options: &str) -> Option<serde_json::Value> {
    isp_edge_over(
        name,
        |interface| format!("{kind}:{interface}{options}"),
        |_| (),
    )
}

/// The same with these ports on the interfaces `oa` and `ob`; `prepare` is called when they are there.
pub fn isp_edge_over(
    name: &str,
    port: impl Fn(&str) -> String,
    prepare: impl Fn(&Net),
) -> Option<serde_json::Value> {
    isp_edge_with(name, port, prepare, &[])
}

/// The same with more arguments.
pub fn isp_edge_with(
    name: &str,
    port: impl Fn(&str) -> String,
    prepare: impl Fn(&Net),
    more: &[&str],
) -> Option<serde_json::Value> {
    let net = isp()?;
    prepare(&net);
    let (lan, wan) = (format!("lan={}", port("oa")), format!("wan={}", port("ob")));
    let rules = rules(name);
    let args = ["isp-edge", "--set", &rules, "--port", &lan, "--port", &wan];
    let onefold = Running::start(&net, "o", &[&args[..], more].concat());
    let echo = net.within("a", || {
        Raw::icmp().ping([203, 0, 113, 254].into(), 7, PATIENCE)
    });
    assert!(echo.is_some(), "no reply to a ping through the NAT");
    let pool = |a: std::net::SocketAddr| match a.ip() {
        std::net::IpAddr::V4(a) => {
            a.octets()[..3] == [203, 0, 113] && (1..=8).contains(&a.octets()[3])
        }
        _ => false,
    };
    let at = ([203, 0, 113, 254], 8080).into();
    let from = transfer(&net, "a", "b", at, 1 << 20);
    assert!(pool(from), "{from} is no address of the pool");
    for bytes in [1, 1000, 1472] {
        let from = datagrams(&net, "a", "b", ([203, 0, 113, 254], 5353).into(), bytes);
        assert!(pool(from), "{from} is no address of the pool");
    }
    let v = onefold.stop();
    for port in ["lan", "wan"] {
        assert!(v["ports"][port]["in"]["packets"].as_u64() > Some(50), "{v}");
        assert_eq!(v["ports"][port]["link"], "up");
        assert_eq!(v["ports"][port]["lost"], serde_json::json!({}), "{v}");
    }
    assert_eq!(v["interrupted"], true);
    Some(v)
}

#[test]
fn isp_edge_through_a_ring() {
    isp_edge("live-ring", "packet", "");
}

/// SCC's multiplexed system call.
#[test]
fn isp_edge_through_vectors() {
    isp_edge("live-vectors", "packet", ",mode=mmsg,batch=16");
}

#[test]
fn ipv6_edge_asks_for_its_neighbours() {
    let Some(net) = Net::new(&["a", "o", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.pair(("b", "vb"), ("o", "ob"));
    net.ip("a", "addr add 2001:db8::10/48 dev va nodad");
    net.ip("a", "-6 route add default via 2001:db8::1");
    net.ip("b", "addr add 2001:db8:ffff::2/64 dev vb nodad");
    net.ip("b", "-6 route add default via 2001:db8:ffff::1");
    let args = [
        "ipv6-edge",
        "--port",
        "lan=packet:oa",
        "--port",
        "wan=packet:ob",
    ];
    let onefold = Running::start(&net, "o", &args);
    let far = "2001:db8:ffff::2".parse().expect("an address");
    let echo = net.within("a", || Raw::icmp6().ping6(far, 7, PATIENCE));
    assert!(echo.is_some(), "no reply to a ping over IPv6");
    let from = datagrams(&net, "a", "b", (far, 5353).into(), 1200);
    assert_eq!(
        from.ip(),
        "2001:db8::10"
            .parse::<std::net::IpAddr>()
            .expect("an address")
    );
    // what the firewall lets in is TCP to port 80
    transfer(&net, "a", "b", (far, 80).into(), 1 << 18);
    onefold.stop();
}

/// Sends so many datagrams to a port where nobody reads them, a little apart.
fn flood(net: &Net, from: &str, to: &str, at: std::net::SocketAddr, n: usize) {
    let _unread = net.within(to, || UdpSocket::bind(at).expect("the server's address"));
    net.within(from, || {
        let s = UdpSocket::bind(match at {
            std::net::SocketAddr::V4(_) => "0.0.0.0:0",
            std::net::SocketAddr::V6(_) => "[::]:0",
        });
        let s = s.expect("a socket");
        for i in 0..n {
            let _ = s.send_to(&[7; 100], at);
            if i % 16 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// Neighbours that are learnt do not keep packets from the flow table: a router that nobody has told any MAC address.
#[test]
fn packets_for_learnt_neighbours_take_the_flow_table() {
    let Some(net) = Net::new(&["a", "o", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.pair(("b", "vb"), ("o", "ob"));
    net.ip("a", "addr add 172.16.0.1/30 dev va");
    net.ip("a", "route add default via 172.16.0.2");
    net.ip("b", "addr add 172.16.1.2/30 dev vb");
    net.ip("b", "route add default via 172.16.1.1");
    let ports = ["--port", "left=packet:oa", "--port", "right=packet:ob"];
    let args = [&["routers-1", "--mode", "flow"][..], &ports].concat();
    let onefold = Running::proved(&net, "o", &args);
    let far = ([172, 16, 1, 2], 5353).into();
    datagrams(&net, "a", "b", far, 100);
    flood(&net, "a", "b", far, 2000);
    let v = onefold.stop();
    let share = v["levels"]["hit_rate"].as_f64();
    assert!(share >= Some(0.5), "{}", v["levels"]);
}

/// The same with a NAT, whose clients are neighbours, too.
#[test]
fn packets_through_a_nat_with_learnt_neighbours_take_the_flow_table() {
    let Some(net) = isp() else { return };
    let rules = rules("live-flow-nat");
    let ports = ["--port", "lan=packet:oa", "--port", "wan=packet:ob"];
    let args = [&["isp-edge", "--mode", "flow", "--set", &rules][..], &ports].concat();
    let onefold = Running::proved(&net, "o", &args);
    let far = ([203, 0, 113, 254], 5353).into();
    datagrams(&net, "a", "b", far, 100);
    // both ways: most of these are data and acknowledgements
    transfer(&net, "a", "b", ([203, 0, 113, 254], 8080).into(), 1 << 21);
    flood(&net, "a", "b", far, 2000);
    let v = onefold.stop();
    let share = v["levels"]["hit_rate"].as_f64();
    assert!(share >= Some(0.5), "{}", v["levels"]);
}

/// Two routers in a row, the second with a smaller MTU outside: hops are seen, and the path's MTU is found.
#[test]
fn hops_are_seen_and_the_paths_mtu_is_found() {
    let Some(net) = Net::new(&["a", "o", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.pair(("b", "vb"), ("o", "ob"));
    for (host, interface) in [("o", "ob"), ("b", "vb")] {
        net.ip(host, &format!("link set {interface} mtu 1400"));
    }
    // routers of this chain know hosts of 10.0.0.0/8 on their left
    net.ip("a", "addr add 172.16.0.1/30 dev va");
    net.ip("a", "addr add 10.0.0.9/32 dev va");
    net.ip("a", "route add default via 172.16.0.2 src 10.0.0.9");
    net.ip("b", "addr add 172.16.2.2/30 dev vb");
    net.ip("b", "route add default via 172.16.2.1");
    let args = [
        "routers-2",
        "--port",
        "left=packet:oa",
        "--port",
        "right=packet:ob",
    ];
    let onefold = Running::start(&net, "o", &args);
    let far = [172, 16, 2, 2];
    net.within("a", || {
        let icmp = Raw::icmp();
        assert!(
            icmp.ping(far.into(), 9, PATIENCE).is_some(),
            "no reply to a ping"
        );
        let udp = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        // who says something about a datagram that goes so far, and what
        let hop = |ttl: u32, bytes: usize, kind: [u8; 2]| {
            udp.set_ttl(ttl).expect("a hop limit");
            for _ in 0..40 {
                let _ = udp.send_to(&vec![0; bytes], (std::net::Ipv4Addr::from(far), 33_434));
                let m = icmp.wait(Duration::from_millis(500), |m| m.get(20..22) == Some(&kind));
                if let Some(m) = m {
                    return (<[u8; 4]>::try_from(&m[12..16]).expect("a source"), m);
                }
            }
            panic!("nobody says anything about TTL {ttl} and {bytes} bytes");
        };
        assert_eq!(hop(1, 10, [11, 0]).0, [172, 16, 0, 2]);
        assert_eq!(hop(2, 10, [11, 0]).0, [172, 16, 1, 2]);
        assert_eq!(hop(3, 10, [3, 3]).0, far);
        // the kernel's datagrams must not be fragmented unless it knows that they must
        let (who, m) = hop(9, 1472, [3, 4]);
        // its source is the address of the interface that it leaves by (RFC 1812 4.3.2.4)
        assert_eq!(who, [172, 16, 1, 2]);
        assert_eq!(
            m.get(26..28),
            Some(&1400u16.to_be_bytes()[..]),
            "the MTU that is told"
        );
    });
    transfer(&net, "a", "b", (far, 8080).into(), 1 << 18);
    onefold.stop();
}

/// A router whose left port is this one, which makes a TAP interface `t0`: the host is at the other end. It is removed
/// in the end.
pub fn host_at_a_tap(left: &str, more: &[&str]) -> Option<serde_json::Value> {
    let net = Net::new(&["o", "b"])?;
    net.pair(("b", "vb"), ("o", "ob"));
    net.ip("b", "addr add 172.16.1.2/30 dev vb");
    net.ip("b", "route add default via 172.16.1.1");
    let args = ["routers-1", "--port", left, "--port", "right=packet:ob"];
    let onefold = Running::start(&net, "o", &[&args[..], more].concat());
    net.ip("o", "addr add 172.16.0.1/30 dev t0");
    net.ip("o", "route add 172.16.1.0/30 via 172.16.0.2");
    let far = [172, 16, 1, 2];
    let echo = net.within("o", || Raw::icmp().ping(far.into(), 3, PATIENCE));
    assert!(echo.is_some(), "no reply to a ping");
    transfer(&net, "o", "b", (far, 8080).into(), 1 << 18);
    datagrams(&net, "b", "o", ([172, 16, 0, 1], 5353).into(), 1000);
    let v = onefold.stop();
    let left = net.within("o", onefold_port_interface::names);
    assert!(!left.contains(&"t0".to_string()), "{left:?}");
    Some(v)
}

#[test]
fn a_tap_interface_is_made_used_and_removed() {
    host_at_a_tap("left=tap:t0", &[]);
}

/// Tags that the kernel takes out of frames are put back, both ways: a router behind a trunk answers with the trunk's
/// tag.
#[test]
fn tags_of_a_trunk_arrive() {
    let Some(net) = Net::new(&["a", "o"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    let all = [
        (Mode::Ring(SLOTS), "trunk=packet:oa"),
        (Mode::Vectors(4), "trunk=packet:oa,mode=mmsg"),
        (Mode::Ring(SLOTS), "trunk=xdp:oa"),
    ];
    for (mode, port) in all {
        let onefold = Running::start(&net, "o", &["kitchen-sink", "--port", port]);
        let mut host = net.within("a", || {
            let va = Interface::find("va").expect("the interface");
            PacketPort::open("a", va, mode).expect("a packet socket")
        });
        host.start(true).expect("it begins");
        let (own, tag) = (host.interface().mac.0, [0x81, 0, 0, 42]);
        let mut ask = [
            &[255; 6],
            &own[..],
            &tag,
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
            &own,
        ]
        .concat();
        ask.extend([10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
        let is_answer = |f: &[u8]| {
            f.get(..6) == Some(&own[..])
                && f.get(12..14) == Some(&tag[..2])
                && f.get(14..16).is_some_and(|t| t[0] & 0xf == 0 && t[1] == 42)
                && f.get(16..18) == Some(&[8, 6])
                && f.get(24..26) == Some(&[0, 2])
                && f.get(32..36) == Some(&[10, 0, 0, 1])
        };
        let begun = Instant::now();
        let answered = loop {
            let request: Pkt = Box::new(Packet::from_slice(&ask));
            host.transmit(&mut vec![request], Timestamp::ZERO)
                .expect("it leaves");
            std::thread::sleep(Duration::from_millis(20));
            let mut free: Vec<Pkt> = (0..8).map(|_| Box::new(Packet::from_slice(&[]))).collect();
            let mut got = Vec::new();
            host.poll(&mut free, &mut got, 8).expect("it receives");
            if got.iter().any(|p| is_answer(p.data())) {
                break true;
            }
            if begun.elapsed() > PATIENCE {
                break false;
            }
        };
        assert!(answered, "{port}");
        onefold.stop();
    }
}
