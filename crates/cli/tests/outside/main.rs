//! What is outside of shared memory: namespaces, interfaces between processes, black boxes. What comes out is compared
//! with what comes out of one process, programs of others are found untouched, and nothing is left behind.

#[path = "../common/mod.rs"]
mod common;
mod programs;
mod support;

use common::captures::{Frames, read, write};
use common::{root, run, temp};
use std::path::Path;
use support::*;

/// The ISP edge with its functions so, connected so.
fn isp_edge(dir: &Path, how: &str, interconnect: &str) -> String {
    let text = std::fs::read_to_string(root().join("chains/isp-edge/chain.yaml")).unwrap();
    let rules = root().join("chains/isp-edge/acl-713.rules");
    let some = std::fs::read_to_string(rules).unwrap();
    let some: Vec<&str> = some.lines().take(40).collect();
    std::fs::write(dir.join("some.rules"), some.join("\n")).unwrap();
    let mut text = text.replace("acl-713.rules", "some.rules");
    for f in ["fw", "router", "nat"] {
        let key = format!("\n  {f}:\n");
        text = text.replace(&key, &format!("{key}{how}"));
    }
    text = text.replace("\nlinks:", &format!("\n{interconnect}\nlinks:"));
    let file = dir.join("chain.yaml");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// One test at a time: programs that poll take a core, and Open vSwitch needs one.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn however_processes_are_connected_the_same_packets_come_out() {
    let _alone = crate::alone();
    if !can(&["ovs-vswitchd"]) {
        return;
    }
    let dir = temp("outside-interconnects");
    let plain = isp_edge(&dir, "", "");
    let make = [
        "gen",
        "--for",
        &plain,
        "--out",
        "lan.pcap",
        "--reverse",
        "wan.pcap",
        "--packets",
        "400",
        "--flows",
        "40",
    ];
    run(&dir, 0, &[&make[..], &["--quiet"]].concat());
    // those that come back do so behind all others: a change of the port is waited for
    let mut back = read(&dir.join("wan.pcap"));
    back.iter_mut().for_each(|f| f.0 += 1_000_000_000);
    write(&dir.join("wan.pcap"), &back);
    let (lan, wan, one) = through(&dir, &plain, &["--mode", "reference"]);
    assert!(lan.len() > 100 && wan.len() > 200, "{one}");
    let before = host();
    for (word, run) in [
        ("rings", "process"),
        ("manager", "process"),
        ("rings", "namespace"),
        ("veth", "process"),
        ("ovs", "process"),
    ] {
        let chain = isp_edge(
            &dir,
            &format!("    run: {run}\n"),
            &format!("interconnect: {word}"),
        );
        let (l, w, v) = through(&dir, &chain, &["--mode", "reference"]);
        assert!(
            l == lan && w == wan,
            "{word}, {run}: {} {} of {} {}: {v}",
            l.len(),
            w.len(),
            lan.len(),
            wan.len()
        );
        assert_eq!(v["conserved"], true, "{word}");
        assert_eq!(v["dropped"], one["dropped"], "{word}: {v}");
        assert_eq!(v["processes"].as_array().map(Vec::len), Some(3), "{word}");
    }
    assert_eq!(host(), before);
}

/// A function in a namespace sees nothing of the host's network; cores are given out as declared.
#[test]
fn a_function_in_a_namespace_sees_no_interface() {
    let _alone = crate::alone();
    if !can(&[]) {
        return;
    }
    let dir = temp("outside-namespace");
    chain_around(
        &dir,
        "  x: { monitor: {}, run: namespace }",
        "cores: { plan: single-core, switch: 0 }\n",
    );
    let ports = ["--port", "lan=tap:ofns0", "--port", "wan=tap:ofns1"];
    let running = Running::start(&dir, &ports);
    let (own, x, a) = (std::process::id(), running.of("x"), running.of("a"));
    assert_ne!(namespace(x, "net"), namespace(own, "net"));
    assert_eq!(namespace(a, "net"), namespace(own, "net"));
    let devices = std::fs::read_to_string(format!("/proc/{x}/net/dev")).unwrap();
    let names: Vec<&str> = devices
        .lines()
        .skip(2)
        .filter_map(|l| l.split(':').next())
        .map(str::trim)
        .collect();
    assert_eq!(names, ["lo"], "{devices}");
    for id in [x, a, running.child.id()] {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let cores = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(cores.map(str::trim), Some("0"), "{id}");
    }
    let v = running.stop();
    assert_eq!(v["conserved"], true);
    wait_until("x ends", || !exists(x));
}

/// The kernel as a router with nftables, between two of these interfaces.
fn router(kind: &str) -> String {
    format!(
        "  x:\n    external:\n      ports:\n\
         \x20       - {kind}: {{ name: near, mac: \"02:00:00:00:00:10\", addresses: [10.0.0.1/24] }}\n\
         \x20       - {kind}: {{ name: far, mac: \"02:00:00:00:00:11\", addresses: [10.0.1.1/24] }}\n\
         \x20     neighbours:\n\
         \x20       - 10.0.0.2 lladdr 02:00:00:00:00:21 dev near\n\
         \x20       - 10.0.1.2 lladdr 02:00:00:00:00:22 dev far\n\
         \x20     sysctls: {{ net.ipv4.ip_forward: 1 }}\n\
         \x20     set-up: [nft -f rules.nft]\n"
    )
}

const RULES: &str = "table ip filter {\n  chain forward {\n    type filter hook forward priority 0; policy accept;\n\
                     \x20   udp dport 53 drop\n  }\n}\n";

/// What the kernel makes of packets that it routes: addressed to the next hop, and counted down.
fn routed(frames: &Frames, macs: [u8; 2], but_port: u16) -> Vec<Vec<u8>> {
    let pass = frames
        .iter()
        .filter(|f| f.1[36..38] != but_port.to_be_bytes());
    pass.map(|(_, f)| {
        let mut f = f.clone();
        (f[5], f[11], f[22]) = (macs[1], macs[0], 63);
        f[24..26].fill(0);
        let sum = checksum(&f[14..34]);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        f
    })
    .collect()
}

#[test]
fn the_kernel_with_nftables_is_a_router_in_a_chain() {
    let _alone = crate::alone();
    if !can(&["nft"]) {
        return;
    }
    let dir = temp("outside-router");
    std::fs::write(dir.join("rules.nft"), RULES).unwrap();
    let (there, back) = both_ways(&dir, 500);
    let before = host();
    for (kind, word) in [("veth", "rings"), ("tap", "manager"), ("veth", "veth")] {
        chain_around(&dir, &router(kind), &format!("interconnect: {word}\n"));
        let (lan, wan, v) = through(&dir, "chain.yaml", &[]);
        let far = routed(&there, [0x11, 0x22], 53);
        let near = routed(&back, [0x10, 0x21], 53);
        assert!(wan == far, "{kind}, {word}: {} {v}", wan.len());
        assert!(lan == near, "{kind}, {word}: {} {v}", lan.len());
        assert_eq!(v["conserved"], true);
        assert_eq!(v["dropped"], 50, "{v}");
        let doors = &v["processes"][1]["black_box"];
        assert_eq!(doors[0]["into"], 500, "{v}");
        assert_eq!(doors[1]["out_of"], 450, "{v}");
    }
    assert_eq!(host(), before);
    let (_, err) = run(&dir, 2, &["verify", "chain.yaml"]);
    assert!(err.contains("x is a black box"), "{err}");
    let (out, _) = run(&dir, 0, &["check", "chain.yaml"]);
    assert!(out.contains("process x"), "{out}");
}
