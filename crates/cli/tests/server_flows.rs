//! How many flows each server of a load balancer has, in the report of a run.

use crate::common;

use common::captures::{read, write};
use common::{json, run, temp};
use etherparse::PacketBuilder;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The addresses of both versions, in front of a number.
const VERSIONS: [(&str, &str); 2] = [("10.0.8.", "10.0.9."), ("2001:db8:8::", "2001:db8:9::")];

fn frame(from: IpAddr, to: IpAddr, port: u16) -> Vec<u8> {
    let b = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let b = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => b.ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => b.ipv6(from.octets(), to.octets(), 64),
        _ => panic!("of one version"),
    };
    let mut frame = Vec::new();
    b.udp(port, 80).write(&mut frame, b"hello").unwrap();
    frame
}

/// Where a frame goes.
fn destination(frame: &[u8]) -> String {
    let address: IpAddr = match frame[12..14] {
        [8, 0] => <[u8; 4]>::try_from(&frame[30..34]).unwrap().into(),
        _ => <[u8; 16]>::try_from(&frame[38..54]).unwrap().into(),
    };
    address.to_string()
}

/// Each flow has three packets; servers have as many flows as sources and ports have come to them, whatever takes the
/// packets.
#[test]
fn servers_have_the_flows_that_went_to_them() {
    for (clients, servers) in VERSIONS {
        let dir = temp("server-flows");
        let server = |n: u8| format!("{servers}{n}");
        let chain = format!(
            "functions:\n  lb:\n    load-balancer:\n      address: \"{clients}80\"\n      policy: maglev\n      \
             servers:\n        - {{ address: \"{}\", weight: 2 }}\n        - {{ address: \"{}\" }}\n        \
             - {{ address: \"{}\", weight: 0 }}\nports: {{ c: \"lb[0]\", s: \"lb[1]\" }}\n",
            server(1),
            server(2),
            server(3)
        );
        std::fs::write(dir.join("chain.yaml"), chain).unwrap();
        let vip: IpAddr = format!("{clients}80").parse().unwrap();
        let client: IpAddr = format!("{clients}1").parse().unwrap();
        let flows = (0..600u16).map(|i| frame(client, vip, 1000 + i % 200));
        let frames: Vec<_> = (0..)
            .map(|i| 1_700_000_000_000_000_000 + i * 1000)
            .zip(flows)
            .collect();
        write(&dir.join("c.pcap"), &frames);
        for more in [
            &["--mode", "reference"][..],
            &["--mode", "auto"],
            &["--workers", "2"],
        ] {
            let args = [
                "run",
                "chain.yaml",
                "--in",
                "c=c.pcap",
                "--out",
                "s=s.pcap",
                "-q",
            ];
            let v = json(&dir, 0, &[&args[..], more].concat());
            let mut went: BTreeMap<String, u64> = BTreeMap::new();
            for (_, f) in read(&dir.join("s.pcap")) {
                *went.entry(destination(&f)).or_default() += 1;
            }
            let expected: Vec<(String, u64, u64)> = [(1, 2), (2, 1), (3, 0)]
                .map(|(n, weight)| {
                    let packets = went.get(&server(n)).copied().unwrap_or(0);
                    (server(n), weight, packets / 3)
                })
                .to_vec();
            assert!(expected[0].2 > 100 && expected[1].2 > 30, "{expected:?}");
            let all = v["servers"].as_array().unwrap().iter();
            let told: Vec<(String, u64, u64)> = all
                .map(|s| {
                    let n = |key: &str| s[key].as_u64().unwrap();
                    assert_eq!(s["nf"], "lb");
                    let server = s["server"].as_str().unwrap().to_string();
                    (server, n("weight"), n("flows"))
                })
                .collect();
            assert_eq!(told, expected, "{more:?}");
        }
        let (text, _) = run(&dir, 0, &["run", "chain.yaml", "--in", "c=c.pcap", "-q"]);
        let line = format!("server lb {} drained  0 flows", server(3));
        assert!(text.contains(&line), "{text}");
    }
}
