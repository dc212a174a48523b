//! Chains on interfaces through AF_XDP.

use crate::common;
use crate::diagnostics::{nobody, refused};
use crate::host::datagrams;
use crate::links::{ROUTER_XDP, links_change, routed, sleeps};
use crate::running::{PATIENCE, Running};
use crate::traffic::isp_edge;
use onefold_testing::net::{Net, Raw};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const FAR: [u8; 4] = [172, 16, 1, 2];

/// Both directions, TCP and UDP and ICMP, through a NAT, with every packet compared; packets leave where they lay.
#[test]
fn isp_edge_through_af_xdp() {
    let Some(v) = isp_edge("live-xdp", "xdp", "") else {
        return;
    };
    for port in ["lan", "wan"] {
        let c = &v["ports"][port]["counters"];
        // the shadow mode makes its packets anew: they come from elsewhere
        let out = |what: &str| c[what].as_u64().unwrap_or(0);
        let left = out("left where they lay, not copied") + out("copied out (from elsewhere)");
        assert_eq!(
            Some(left),
            v["ports"][port]["out"]["packets"].as_u64(),
            "{v}"
        );
        assert!(c["checksums finished"].as_u64() > Some(0), "{v}");
    }
}

/// The same with the smallest rings and in copy mode.
#[test]
fn isp_edge_through_small_rings() {
    let Some(net) = routed() else { return };
    let ring = ",ring=64,mode=copy";
    let ports = [format!("left=xdp:oa{ring}"), format!("right=xdp:ob{ring}")];
    let args = ["routers-1", "--port", &ports[0], "--port", &ports[1]];
    let onefold = Running::start(&net, "o", &args);
    assert!(
        net.within("a", || Raw::icmp().ping(FAR.into(), 3, PATIENCE))
            .is_some()
    );
    // far more than rings and buffers hold, in bursts
    let s = net
        .within("a", || UdpSocket::bind("0.0.0.0:0"))
        .expect("a socket");
    let begun = Instant::now();
    let mut sent = 0u64;
    while begun.elapsed() < Duration::from_millis(300) {
        for _ in 0..256 {
            sent += u64::from(
                s.send_to(&[7; 900], (std::net::Ipv4Addr::from(FAR), 9))
                    .is_ok(),
            );
        }
    }
    datagrams(&net, "a", "b", (FAR, 5353).into(), 1400);
    let v = onefold.stop();
    let left = &v["ports"]["left"];
    let lost = |p: &serde_json::Value| -> u64 {
        let all = p["lost"].as_object().expect("an object");
        all.values().filter_map(serde_json::Value::as_u64).sum()
    };
    let came = left["in"]["packets"].as_u64().unwrap_or(0);
    assert!(came > 1000 && came + lost(left) >= sent, "{sent} sent: {v}");
}

/// Without a comparison nothing is copied by us from port to port.
#[test]
fn packets_leave_where_they_lie() {
    let Some(net) = routed() else { return };
    let args = ROUTER_XDP;
    let onefold = Running::compared(&net, "o", &args, "off");
    datagrams(&net, "a", "b", (FAR, 5353).into(), 1000);
    // more than there are frames: each is used again, wherever its packet left
    let s = net
        .within("a", || UdpSocket::bind("0.0.0.0:0"))
        .expect("a socket");
    for _ in 0..160 {
        for _ in 0..50 {
            let _ = s.send_to(&[7; 100], (std::net::Ipv4Addr::from(FAR), 9));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let v = onefold.stop();
    let (left, right) = (&v["ports"]["left"], &v["ports"]["right"]);
    assert_eq!(
        left["counters"]["copied in (few free frames)"],
        serde_json::Value::Null,
        "{v}"
    );
    let moved = right["counters"]["left where they lay, not copied"].as_u64();
    assert!(moved > Some(2500), "{v}");
}

/// Frames go between ports of two kinds with a copy, which is counted.
#[test]
fn beside_a_packet_socket() {
    let Some(net) = routed() else { return };
    let args = [
        "routers-1",
        "--port",
        "left=xdp:oa",
        "--port",
        "right=packet:ob",
    ];
    let onefold = Running::start(&net, "o", &args);
    for bytes in [1, 700, 1472] {
        datagrams(&net, "a", "b", (FAR, 5353).into(), bytes);
    }
    let v = onefold.stop();
    let copied = v["ports"]["left"]["counters"]["copied out (from elsewhere)"].as_u64();
    assert!(copied >= Some(3), "{v}");
}

/// A queue that holds more packets than there are frames does not keep the port from receiving: they are copied.
#[test]
fn holds_do_not_starve_a_port() {
    let Some(net) = Net::new(&["a", "o"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.ip("a", "addr add 10.9.0.1/24 dev va");
    net.ip("a", "neigh add 10.9.0.2 lladdr 02:00:00:00:00:99 dev va");
    let folder = common::temp("live-xdp-holds");
    let chain = folder.join("hold.yaml");
    let config = "FromDevice(lan) -> Queue(20000) -> RatedUnqueue(1) -> ToDevice(lan);";
    let function = format!(
        "functions:\n  h:\n    click:\n      config: |\n        {config}\n    ports: [lan]\n"
    );
    let yaml = format!("{function}ports: {{ lan: \"h[0]\" }}\n");
    std::fs::write(&chain, yaml).expect("a file");
    let chain = chain.display().to_string();
    let args = [&chain, "--port", "lan=xdp:oa,ring=64"];
    let onefold = Running::compared(&net, "o", &args, "off");
    let s = net
        .within("a", || UdpSocket::bind("0.0.0.0:0"))
        .expect("a socket");
    // 2,304 frames: rings have 64 each, 2,048 are for holds
    for _ in 0..400 {
        for _ in 0..16 {
            let _ = s.send_to(&[7; 100], ("10.9.0.2", 9));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    std::thread::sleep(Duration::from_millis(200));
    let v = onefold.stop();
    let lan = &v["ports"]["lan"];
    let copied = lan["counters"]["copied in (few free frames)"].as_u64();
    assert!(lan["in"]["packets"].as_u64() > Some(4000), "{v}");
    assert!(copied > Some(1000), "{v}");
}

#[test]
fn a_link_goes_down_and_an_interface_away_and_both_come_back() {
    links_change("xdp", [""]);
}

#[test]
fn an_idle_port_sleeps() {
    sleeps("xdp");
}

/// The program goes with the process, however that ends.
#[test]
fn nothing_is_left_after_a_kill() {
    let Some(net) = routed() else { return };
    let attached = |host: &str| {
        let o = net
            .command(host, "ip")
            .args(["link", "show", "dev", "oa"])
            .output();
        String::from_utf8_lossy(&o.expect("ip runs").stdout).contains("xdp")
    };
    for round in 0..2 {
        assert!(!attached("o"), "{round}");
        let args = ROUTER_XDP;
        let onefold = Running::start(&net, "o", &args);
        assert!(
            net.within("a", || Raw::icmp().ping(FAR.into(), 3, PATIENCE))
                .is_some()
        );
        assert!(attached("o"));
        // killed, not asked
        drop(onefold);
    }
    assert!(!attached("o"));
}

#[test]
fn each_fault_names_its_cure() {
    let Some(net) = Net::new(&["o"]) else { return };
    net.pair(("o", "one"), ("o", "two"));
    let left = |port: &'static str| refused(&net, &["routers-1", "--port", port]);
    let e = left("left=xdp:eno77");
    assert!(e.contains("no interface 'eno77'"), "{e}");
    let e = left("left=xdp:one,queue=7");
    assert!(
        e.contains("no queue 7") && e.contains("ethtool -l one"),
        "{e}"
    );
    let e = left("left=xdp:one,mode=zerocopy");
    assert!(e.contains("no zero copy") && e.contains("mode=copy"), "{e}");
    net.ip("o", "link set one mtu 9000");
    let e = left("left=xdp:one");
    assert!(
        e.contains("ip link set dev one mtu") && e.contains("packet:one"),
        "{e}"
    );
    net.ip("o", "link set one mtu 1500");
    // somebody else's program
    let args = [
        "routers-1",
        "--port",
        "left=xdp:one",
        "--port",
        "right=xdp:two",
    ];
    let other = Running::start(&net, "o", &args);
    let e = left("left=xdp:one");
    assert!(e.contains("ip link set dev one xdp off"), "{e}");
    other.stop();
    nobody(&net, "left=xdp:one", "CAP_NET_RAW");
}
