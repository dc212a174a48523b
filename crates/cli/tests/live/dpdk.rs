//! Chains on devices of DPDK: those that are made of nothing (null, ring, pcap), those of the kernel's interfaces, and
//! memif between two processes.

use crate::common;
use crate::diagnostics::{ROUTER, nobody, refused};
use crate::host::transfer;
use crate::links::{links_change_over, routed, sleeps_over};
use crate::running::{PATIENCE, Running};
use crate::traffic::{host_at_a_tap, isp_edge_over};
use onefold_capture::CaptureReader;
use onefold_testing::net::{Net, Raw};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Is DPDK in the binary? Says so if not.
#[track_caller]
pub fn is_there() -> bool {
    let built = cfg!(feature = "dpdk");
    if !built {
        onefold_testing::skip("built without DPDK (cargo's feature dpdk; Debian: libdpdk-dev)");
    }
    built
}

/// What runs that are over have left where DPDK keeps its files.
pub fn left() -> Vec<String> {
    let folders = ["/var/run/dpdk", "/tmp/dpdk"].map(Path::new);
    let all = folders.iter().filter_map(|f| f.read_dir().ok()).flatten();
    let names = all
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|n| n.starts_with("onefold-")).collect()
}

fn count(port: &Value, what: &str) -> u64 {
    port["counters"][what].as_u64().unwrap_or(0)
}

const MOVED: &str = "left where they lay, not copied";
const COPIED: &str = "copied out (from elsewhere)";

/// Standard output is the result, DPDK's own words are not among what is said, and nothing stays behind; a process
/// that is killed leaves nothing either.
#[test]
fn from_null_to_null_and_nothing_stays_behind() {
    if !is_there() {
        return;
    }
    let ports = [
        "--port",
        "in=dpdk:net_null0",
        "--port",
        "out=dpdk:net_null1",
    ];
    let args = [&["l2fwd", "--duration", "0.2"][..], &ports].concat();
    let mut onefold = Running::alone(&args, "off");
    let v = onefold.report(0);
    assert!(
        v["ports"]["in"]["in"]["packets"].as_u64() > Some(1000),
        "{v}"
    );
    assert!(count(&v["ports"]["out"], MOVED) > 1000, "{v}");
    assert!(
        !onefold.said().iter().any(|l| l.contains("EAL:")),
        "{:?}",
        onefold.said()
    );
    let args = [&["l2fwd"][..], &ports].concat();
    let onefold = Running::alone(&args, "all");
    let pid = onefold.pid();
    // killed, not asked
    drop(onefold);
    assert!(!left().contains(&format!("onefold-{pid}")), "{:?}", left());
}

fn frames(file: &Path) -> Vec<Vec<u8>> {
    let mut r = CaptureReader::open(file).expect("a capture");
    let (mut all, mut buf) = (Vec::new(), Vec::new());
    while let Some(m) = r.next_into(&mut buf) {
        m.expect("a whole frame");
        all.push(buf.clone());
    }
    all
}

/// Packets of a capture through DPDK's devices become what they become otherwise, byte by byte and in order.
#[test]
fn a_capture_gives_what_it_gives_without_dpdk() {
    if !is_there() {
        return;
    }
    let dir = common::temp("live-dpdk-pcap");
    let make = [
        "gen",
        "--for",
        "isp-edge",
        "--out",
        "in.pcap",
        "--packets",
        "1500",
        "--flows",
        "100",
    ];
    common::run(&dir, 0, &make);
    common::run(
        &dir,
        0,
        &[
            "run",
            "isp-edge",
            "--in",
            "lan=in.pcap",
            "--out",
            "wan=out.pcap",
            "--no-verify",
        ],
    );
    let path = |name: &str| dir.join(name).display().to_string();
    let lan = format!(
        "lan=dpdk:net_pcap0,rx_pcap={},mac=keep,neighbours=keep",
        path("in.pcap")
    );
    let wan = format!(
        "wan=dpdk:net_pcap1,tx_pcap={},mac=keep,neighbours=keep",
        path("dpdk.pcap")
    );
    let args = [
        "isp-edge",
        "--port",
        &lan,
        "--port",
        &wan,
        "--limit",
        "1500",
        "--duration",
        "20",
    ];
    let v = Running::alone(&args, "all").report(0);
    assert_eq!(v["packets_in"], 1500, "{v}");
    let (expected, got) = (
        frames(&dir.join("out.pcap")),
        frames(&dir.join("dpdk.pcap")),
    );
    assert!(expected.len() > 1000);
    assert_eq!(got.len(), expected.len());
    assert!(got == expected);
}

/// What a chain holds does not keep a device from receiving: beyond a bound packets are copied.
#[test]
fn holds_do_not_starve_a_device() {
    if !is_there() {
        return;
    }
    let dir = common::temp("live-dpdk-holds");
    let config = "FromDevice(lan) -> Queue(20000) -> RatedUnqueue(1) -> ToDevice(lan);";
    let function = format!(
        "functions:\n  h:\n    click:\n      config: |\n        {config}\n    ports: [lan]\n"
    );
    std::fs::write(
        dir.join("hold.yaml"),
        format!("{function}ports: {{ lan: \"h[0]\" }}\n"),
    )
    .expect("a file");
    let chain = dir.join("hold.yaml").display().to_string();
    let args = [&chain, "--port", "lan=dpdk:net_null0", "--limit", "30000"];
    let v = Running::alone(&args, "off").report(0);
    let lan = &v["ports"]["lan"];
    assert_eq!(lan["in"]["packets"], 30_000, "{v}");
    assert!(count(lan, "copied in (few free frames)") > 15_000, "{v}");
    assert_eq!(lan["lost"], serde_json::json!({}), "{v}");
}

/// Hosts over virtual interfaces must send frames that fit a slot of the driver's, which knows nothing of offloads.
pub fn without_segmentation(net: &Net) {
    net.ip("a", "link set va gso_max_segs 1");
    net.ip("b", "link set vb gso_max_segs 1");
}

pub fn af_packet(interface: &str) -> String {
    format!("dpdk:net_af_packet_{interface},iface={interface}")
        .replace("_oa,", "0,")
        .replace("_ob,", "1,")
}

pub fn af_xdp(interface: &str) -> String {
    format!("dpdk:net_af_xdp_{interface},iface={interface}")
        .replace("_oa,", "0,")
        .replace("_ob,", "1,")
}

/// The kernel spreads flows over two queues, which one worker asks.
pub fn two_queues(interface: &str) -> String {
    format!("{},qpairs=2,worker-queues=2", af_packet(interface))
}

#[test]
fn isp_edge_through_af_packet() {
    if !is_there() {
        return;
    }
    let Some(v) = isp_edge_over("live-dpdk-af-packet", two_queues, without_segmentation) else {
        return;
    };
    for port in ["lan", "wan"] {
        let p = &v["ports"][port];
        assert_eq!(
            Some(count(p, MOVED) + count(p, COPIED)),
            p["out"]["packets"].as_u64(),
            "{v}"
        );
        assert!(count(p, "checksums finished") > 0, "{v}");
    }
}

#[test]
fn isp_edge_through_af_xdp() {
    if !is_there() {
        return;
    }
    isp_edge_over("live-dpdk-af-xdp", af_xdp, |_| ());
}

/// The program that the driver puts on an interface is gone after the next start, if a process was killed.
#[test]
fn no_program_is_left_behind_a_kill() {
    if !is_there() {
        return;
    }
    let Some(net) = routed() else { return };
    let attached = || {
        let o = net
            .command("o", "ip")
            .args(["link", "show", "dev", "oa"])
            .output();
        String::from_utf8_lossy(&o.expect("ip runs").stdout).contains("xdp")
    };
    let ports = [
        format!("left={}", af_xdp("oa")),
        format!("right={}", af_xdp("ob")),
    ];
    let args = ["routers-1", "--port", &ports[0], "--port", &ports[1]];
    let start = || Running::start(&net, "o", &args);
    let killed = start();
    assert!(attached());
    drop(killed);
    let onefold = start();
    let echo = net.within("a", || {
        Raw::icmp().ping([172, 16, 1, 2].into(), 3, PATIENCE)
    });
    assert!(echo.is_some());
    onefold.stop();
    assert!(!attached());
}

#[test]
fn a_link_goes_down_and_an_interface_away_and_both_come_back() {
    if !is_there() {
        return;
    }
    links_change_over(&[""], |interface, _| af_packet(interface));
}

/// A device that cannot tell of packets is asked every few milliseconds, which costs next to nothing.
#[test]
fn an_idle_device_sleeps() {
    if !is_there() {
        return;
    }
    sleeps_over(af_packet);
}

/// The host is at the other end of a TAP interface of DPDK's; packets go on to a port of another kind. Asleep, the
/// worker is woken by a packet.
#[test]
fn a_tap_beside_a_packet_socket() {
    if !is_there() {
        return;
    }
    let more = ["--poll", "interrupt"];
    let Some(v) = host_at_a_tap("left=dpdk:net_tap0,iface=t0", &more) else {
        return;
    };
    assert!(count(&v["ports"]["left"], COPIED) > 10, "{v}");
}

/// Two processes with shared memory between them, between two hosts.
#[test]
fn two_processes_over_memif() {
    if !is_there() {
        return;
    }
    let Some(net) = Net::new(&["a", "o", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.pair(("b", "vb"), ("o", "ob"));
    net.ip("a", "addr add 10.9.0.1/24 dev va");
    net.ip("b", "addr add 10.9.0.2/24 dev vb");
    let dir = common::temp("live-dpdk-memif");
    let config = "FromDevice(one) -> ToDevice(two); FromDevice(two) -> ToDevice(one);";
    let function = format!(
        "functions:\n  w:\n    click:\n      config: |\n        {config}\n    ports: [one, two]\n"
    );
    let wire = format!("{function}ports: {{ one: \"w[0]\", two: \"w[1]\" }}\n");
    std::fs::write(dir.join("wire.yaml"), wire).expect("a file");
    let chain = dir.join("wire.yaml").display().to_string();
    // the name of a socket is short
    let socket = std::env::temp_dir().join(format!("onefold-memif-{}.sock", std::process::id()));
    let start = |role: &str, interface: &str| {
        let memif = format!(
            "two=dpdk:net_memif0,role={role},socket={},socket-abstract=no",
            socket.display()
        );
        let one = format!("one=packet:{interface}");
        Running::start(&net, "o", &[&chain, "--port", &one, "--port", &memif])
    };
    let mut server = start("server", "oa");
    let client = start("client", "ob");
    server.wait_for("link of net_memif0 up");
    let echo = net.within("a", || Raw::icmp().ping([10, 9, 0, 2].into(), 3, PATIENCE));
    assert!(echo.is_some(), "no reply to a ping");
    transfer(&net, "a", "b", ([10, 9, 0, 2], 8080).into(), 1 << 18);
    // who serves goes on without the other one
    client.stop();
    server.wait_for("link of net_memif0 down");
    let v = server.stop();
    assert!(
        v["ports"]["two"]["in"]["packets"].as_u64() > Some(20),
        "{v}"
    );
    assert!(!socket.exists());
}

/// What a start says that must fail.
fn wrong(port: &str, more: &[&str]) -> String {
    wrong_for("routers-1", port, more)
}

/// The same of this chain.
fn wrong_for(chain: &str, port: &str, more: &[&str]) -> String {
    let dir = common::temp("live-dpdk-wrong");
    let port = format!("left=dpdk:{port}");
    let args = [
        "run",
        chain,
        "--no-verify",
        "--duration",
        "0.1",
        "--port",
        &port,
    ];
    let (out, err) = common::run(&dir, 2, &[&args[..], more].concat());
    assert_eq!(out, "");
    err
}

fn names(said: &str, parts: &[&str]) {
    assert!(parts.iter().all(|p| said.contains(p)), "{parts:?}: {said}");
}

#[test]
fn each_fault_names_its_cure() {
    if !is_there() {
        return;
    }
    names(
        &wrong("net_nosuch0", &[]),
        &[
            "no driver 'net_nosuch'",
            "apt-get install librte-net-nosuch",
        ],
    );
    names(
        &wrong("net_pcap0,rx_pcap=/nowhere", &[]),
        &["no file '/nowhere'"],
    );
    names(
        &wrong("net_af_packet0", &[]),
        &["dpdk:net_af_packet0,iface=IF"],
    );
    names(
        &wrong("net_memif0,role=waiter", &[]),
        &["refuses 'net_memif0,role=waiter'", "Unknown role"],
    );
    names(
        &wrong("lo", &[]),
        &["an interface of the kernel's", "packet:lo"],
    );
    names(
        &wrong("7f:1f.7", &[]),
        &["no device 0000:7f:1f.7 on the PCI bus"],
    );
    let chain = common::temp("live-dpdk-mtu").join("router.yaml");
    std::fs::write(&chain, ROUTER).expect("a file");
    let chain = chain.display().to_string();
    let small = wrong_for(&chain, "net_null0,set-mtu=1400", &[]);
    names(&small, &["dpdk:net_null0,set-mtu=1500", "mtu: 1400"]);
    names(
        &wrong(
            "net_memif0,role=client,socket=/tmp/onefold-nobody.sock,socket-abstract=no",
            &[],
        ),
        &["nobody serves '/tmp/onefold-nobody.sock'", "role=server"],
    );
    let less = ["--dpdk-args", "--no-huge -m 8"];
    names(
        &wrong("net_null0", &less),
        &["MiB", "--dpdk-args '-m ", "descriptors=N"],
    );
    names(
        &wrong("net_null0", &["--dpdk-args", "--frobnicate"]),
        &["arguments", "--frobnicate"],
    );
    let endless = "net_pcap0,infinite_rx=1,rx_pcap=";
    let dir = common::temp("live-dpdk-endless");
    let make = [
        "gen",
        "--out",
        "in.pcap",
        "--packets",
        "12000",
        "--flows",
        "2",
        "--size",
        "64",
    ];
    common::run(&dir, 0, &make);
    let file = dir.join("in.pcap").display().to_string();
    names(&wrong(&format!("{endless}{file}"), &[]), &["frames=N"]);
}

/// The same of what depends on interfaces.
#[test]
fn each_fault_of_an_interface_names_its_cure() {
    if !is_there() {
        return;
    }
    let Some(net) = Net::new(&["o"]) else { return };
    net.pair(("o", "one"), ("o", "two"));
    let left = |port: &str| {
        let port = format!("left=dpdk:{port}");
        refused(&net, &["routers-1", "--port", &port])
    };
    names(
        &left("net_af_packet0,iface=eno77"),
        &["no interface 'eno77'"],
    );
    let queues = left("net_af_packet0,iface=one,worker-queues=2");
    names(
        &queues,
        &["has 1 queues each way", "worker-queues=1", "qpairs=N"],
    );
    names(
        &left("net_af_xdp0,iface=one,set-mtu=9000"),
        &["takes MTUs from", "not 9000", "set-mtu="],
    );
    net.ip("o", "addr add 192.0.2.7/24 dev one");
    names(
        &left("net_af_packet0,iface=one"),
        &["ip address flush dev one"],
    );
    net.ip("o", "addr flush dev one");
    net.ip("o", "link set one down");
    names(&left("net_af_xdp0,iface=one"), &["ip link set dev one up"]);
    net.ip("o", "link set one up");
    nobody(&net, "left=dpdk:net_af_packet0,iface=one", "CAP_NET_RAW");
    nobody(&net, "left=dpdk:net_tap0", "CAP_NET_ADMIN");
}

/// A card that the kernel has stays the kernel's.
#[test]
fn a_card_of_the_kernels_is_refused() {
    if !is_there() {
        return;
    }
    let devices = Path::new("/sys/bus/pci/devices")
        .read_dir()
        .into_iter()
        .flatten()
        .flatten();
    let network = |p: &Path| {
        let class = std::fs::read_to_string(p.join("class")).unwrap_or_default();
        let driver = std::fs::read_link(p.join("driver")).ok();
        let driver = driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
        let ours = [
            "vfio-pci",
            "igb_uio",
            "uio_pci_generic",
            "mlx4_core",
            "mlx5_core",
            "mana",
            "hv_netvsc",
        ];
        driver.filter(|d| class.starts_with("0x02") && !ours.contains(&d.as_str()))
    };
    let Some((address, driver)) = devices.into_iter().find_map(|d| {
        let address = d.file_name().to_string_lossy().into_owned();
        Some((address, network(&d.path())?))
    }) else {
        return onefold_testing::skip("no network card of the kernel's on the PCI bus");
    };
    let said = wrong(&address, &[]);
    names(
        &said,
        &[
            &driver,
            &format!("dpdk-devbind.py --bind=vfio-pci {address}"),
        ],
    );
}

/// Two processes that are to be found under one name.
#[test]
fn a_file_prefix_is_one_processs() {
    if !is_there() {
        return;
    }
    if !std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0) {
        return onefold_testing::skip("files of DPDK in /var/run need root");
    }
    let name = format!("of-test-{}", std::process::id());
    let prefix = format!("--no-huge --file-prefix={name}");
    let args = [
        "l2fwd",
        "--port",
        "in=dpdk:net_null0",
        "--dpdk-args",
        &prefix,
        "--limit",
        "1000000000",
    ];
    let first = Running::alone(&args, "off");
    names(
        &wrong("net_null0", &["--dpdk-args", &prefix]),
        &["the same file prefix", "--file-prefix=NAME"],
    );
    first.stop();
    let _ = std::fs::remove_dir_all(format!("/var/run/dpdk/{name}"));
}
