//! The traffic generator on live ports: what it says of packets that a chain passes, drops, copies, delays, damages.

use crate::common;
use crate::running::{PATIENCE, Running};
use onefold_port_interface::Interface;
use onefold_testing::net::Net;
use serde_json::Value;
use std::process::{Command, Stdio};

/// A generator with two interfaces, and a chain between them.
fn wired() -> Option<Net> {
    let net = Net::new(&["g", "o"])?;
    net.pair(("g", "ga"), ("o", "oa"));
    net.pair(("g", "gb"), ("o", "ob"));
    Some(net)
}

/// A file with this Click configuration, between devices `in` and `out`.
fn chain(name: &str, text: &str) -> String {
    let file = common::temp(name).join("chain.click");
    std::fs::write(&file, text).expect("a file");
    file.display().to_string()
}

fn command(net: &Net, args: &[&str]) -> Command {
    let mut c = net.command("g", env!("CARGO_BIN_EXE_onefold"));
    c.arg("gen").args(args).arg("--json");
    c.current_dir(common::root());
    c
}

/// Runs `gen`, which ends by itself and finds nothing wrong.
fn generate(net: &Net, args: &[&str]) -> Value {
    let o = command(net, args).output().expect("the binary runs");
    let (out, err) = (
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr),
    );
    assert_eq!(o.status.code(), Some(0), "{out} {err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out} {err}"))
}

/// Two ports, a rate at which nothing is lost, and small frames.
const STEADY: [&str; 12] = [
    "--port",
    "in=packet:ga",
    "--port",
    "out=packet:gb",
    "--rate",
    "2000",
    "--size",
    "60",
    "--flows",
    "50",
    "--protocols",
    "udp",
];

/// Sends a thousand packets through a Click configuration.
fn through(name: &str, text: &str) -> Option<(Value, Value)> {
    let net = wired()?;
    let file = chain(name, text);
    let ports = ["--port", "in=packet:oa", "--port", "out=packet:ob"];
    let onefold = Running::start(&net, "o", &[&[file.as_str()][..], &ports].concat());
    let v = generate(&net, &[&STEADY[..], &["--packets", "1000"]].concat());
    Some((v, onefold.stop()))
}

fn number(v: &Value, key: &str) -> u64 {
    let n = v[key].as_u64();
    n.unwrap_or_else(|| panic!("no {key} in {v}"))
}

/// Nothing but what was sent came back, once and in order.
fn assert_all_came(v: &Value, sent: u64) {
    let wanted = [
        ("sent", sent),
        ("received", sent),
        ("lost", 0),
        ("reordered", 0),
        ("reordered_in_flows", 0),
        ("duplicates", 0),
        ("corrupted", 0),
        ("late", 0),
        ("unstamped", 0),
    ];
    for (key, n) in wanted {
        assert_eq!(number(v, key), n, "{key}: {v}");
    }
    let latency = |kind: &str| {
        let keys = ["min", "p50", "p90", "p99", "p999", "max"];
        let all = keys.map(|k| number(&v[kind], k));
        assert!(all.is_sorted(), "{v}");
        assert!(all[0] > 0, "{v}");
        all
    };
    let (intended, actual) = (latency("latency_ns"), latency("latency_from_sent_ns"));
    // no packet is sent before its time
    assert!(intended.iter().zip(actual).all(|(i, a)| *i >= a), "{v}");
}

#[test]
fn all_packets_come_back_from_a_mirror() {
    let Some(net) = wired() else { return };
    let ports = ["l2fwd", "--port", "in=packet:oa", "--port", "out=packet:ob"];
    let onefold = Running::start(&net, "o", &ports);
    let v = generate(&net, &[&STEADY[..], &["--seconds", "0.5"]].concat());
    assert_all_came(&v, 1000);
    assert_eq!(v["flows"], 50);
    assert_eq!(v["ports"]["in"]["sent"]["packets"], 1000);
    assert_eq!(v["ports"]["in"]["sent"]["bytes"], 60_000);
    assert_eq!(v["ports"]["out"]["received"]["packets"], 1000);
    assert_eq!(v["rate"]["asked_pps"], 2000.0);
    // TCP and ICMP of all lengths, in bursts, through other kinds of ports
    let other = [
        "--port",
        "in=xdp:ga",
        "--port",
        "out=packet:gb,mode=mmsg,batch=8",
        "--rate",
        "2k",
        "--arrivals",
        "bursty",
        "--burst",
        "10",
        "--packets",
        "300",
        "--flows",
        "7",
        "--ipv6",
        "0.5",
    ];
    assert_all_came(&generate(&net, &other), 300);
    onefold.stop();
}

/// The MAC address of the chain's first interface.
fn mac(net: &Net) -> String {
    let of = net.within("o", || Interface::find("oa"));
    of.expect("an interface").mac.to_string()
}

/// The chain is asked for its MAC address, and asks for those of the hosts that the generator stands for.
#[test]
fn all_packets_come_through_a_nat_that_was_told_nothing() {
    let Some(net) = wired() else { return };
    let file = common::temp("gen-nat").join("all.rules");
    std::fs::write(&file, "allow all\n").expect("a file");
    let rules = format!("rules={}", file.display());
    let ports = ["--port", "lan=packet:oa", "--port", "wan=packet:ob"];
    let args = [&["isp-edge", "--set", &rules][..], &ports].concat();
    let onefold = Running::start(&net, "o", &args);
    let aim = ["--for", "isp-edge:lan", "--set", &rules];
    let ports = ["--port", "lan=packet:ga", "--port", "wan=packet:gb"];
    let size = [
        "--rate",
        "1000",
        "--packets",
        "400",
        "--flows",
        "40",
        "--size",
        "60",
    ];
    let v = generate(&net, &[&aim[..], &ports, &size].concat());
    assert_all_came(&v, 400);
    // some destinations are inside
    let came = ["lan", "wan"].map(|p| number(&v["ports"][p]["received"], "packets"));
    assert!(came[1] >= 200 && came[0] + came[1] == 400, "{v}");
    assert!(number(&v, "openings") >= 40, "{v}");
    assert_eq!(v["for"]["port"], "lan");
    // the same when it is told whom to ask, and answers once for each host
    let gateway = ["--gateway", "lan=204.152.0.1", "--establish"];
    let v = generate(&net, &[&aim[..], &ports, &size, &gateway].concat());
    assert_all_came(&v, 400);
    assert_eq!(
        v["ports"]["lan"]["to_mac"].as_str(),
        Some(mac(&net).as_str())
    );
    // one answer for each flow that left at the other port comes back through the NAT
    assert!((1..=40).contains(&number(&v, "foreign")), "{v}");
    let other = ["--gateway", "2001:db8::1"];
    let o = command(&net, &[&aim[..], &ports, &size, &other].concat()).output();
    let o = o.expect("the binary runs");
    let err = String::from_utf8_lossy(&o.stderr);
    assert!(
        o.status.code() == Some(2) && err.contains("another family"),
        "{err}"
    );
    let report = onefold.stop();
    assert!(number(&report, "packets_in") >= 440, "{report}");
}

/// Echo requests through a TAP interface: the host that answers them has asked for the generator's address.
#[test]
fn a_host_answers_pings() {
    let Some(net) = Net::new(&["g"]) else { return };
    net.ip("g", "tuntap add t0 mode tap");
    net.ip("g", "addr add 10.9.0.1/24 dev t0");
    net.ip("g", "link set t0 up");
    let args = [
        "--port",
        "tap:t0",
        "--protocols",
        "icmp",
        "--src",
        "10.9.0.2",
        "--dst",
        "10.9.0.1",
        "--flows",
        "20",
        "--size",
        "100",
        "--rate",
        "500",
        "--packets",
        "100",
    ];
    assert_all_came(&generate(&net, &args), 100);
}

#[test]
fn loss_is_told() {
    let text = "FromDevice(in) -> s :: RoundRobinSwitch; s[0] -> Discard; \
                s[1], s[2], s[3] -> ToDevice(out);";
    let text = text.replace(
        "s[1], s[2], s[3] ->",
        "s[1] -> t :: Null; s[2] -> t; s[3] -> t; t ->",
    );
    let Some((v, report)) = through("gen-loss", &text) else {
        return;
    };
    // every fourth; the kernel's own packets (router solicitations) may shift it a little
    let lost = number(&v, "lost");
    assert!((240..=260).contains(&lost), "{v}");
    assert_eq!(number(&v, "received"), 1000 - lost);
    assert!((v["loss"].as_f64().expect("a number") - lost as f64 / 1000.0).abs() < 1e-9);
    assert_eq!((number(&v, "duplicates"), number(&v, "reordered")), (0, 0));
    assert!(number(&report, "dropped") >= lost, "{report}");
}

#[test]
fn copies_are_told() {
    let text =
        "FromDevice(in) -> t :: Tee(3); t[0] -> o :: Null -> ToDevice(out); t[1] -> o; t[2] -> o;";
    let Some((v, _)) = through("gen-copies", text) else {
        return;
    };
    assert_eq!(
        (number(&v, "received"), number(&v, "lost")),
        (1000, 0),
        "{v}"
    );
    assert_eq!(
        (number(&v, "duplicates"), number(&v, "reordered")),
        (2000, 0),
        "{v}"
    );
}

#[test]
fn reordering_is_told() {
    // every second packet is held back
    let text = "FromDevice(in) -> s :: RoundRobinSwitch; s[0] -> o :: Null -> ToDevice(out); \
                s[1] -> Queue -> DelayUnqueue(0.05) -> o;";
    let Some((v, _)) = through("gen-reordering", text) else {
        return;
    };
    let (all, in_flows) = (number(&v, "reordered"), number(&v, "reordered_in_flows"));
    assert!((400..=510).contains(&all), "{v}");
    // of a flow every fiftieth packet is sent: those that pass each other are mostly of different ones
    assert!(in_flows <= all, "{v}");
    assert_eq!(
        (number(&v, "received"), number(&v, "duplicates")),
        (1000, 0),
        "{v}"
    );
    assert!(number(&v["latency_ns"], "p90") > 50_000_000, "{v}");
    assert!(number(&v["latency_ns"], "min") < 50_000_000, "{v}");
}

#[test]
fn damage_is_told() {
    // a byte of the stamp, whatever the checksum
    let text = "FromDevice(in) -> StoreData(50, \\<ff>) -> ToDevice(out);";
    let Some((v, _)) = through("gen-damage", text) else {
        return;
    };
    // one in 256 has that byte anyway
    assert!(number(&v, "corrupted") >= 950, "{v}");
    assert_eq!(
        number(&v, "received") + number(&v, "corrupted"),
        1000,
        "{v}"
    );
}

#[test]
fn the_throughput_of_a_slow_chain_is_found() {
    let Some(net) = wired() else { return };
    let text = "FromDevice(in) -> Queue(20) -> RatedUnqueue(1000) -> ToDevice(out);";
    let file = chain("gen-search", text);
    let ports = ["--port", "in=packet:oa", "--port", "out=packet:ob"];
    let onefold = Running::start(&net, "o", &[&[file.as_str()][..], &ports].concat());
    let search = [
        "--search", "--trial", "0.2", "--step", "0.3", "--settle", "0.1",
    ];
    let mut args = [&STEADY[..], &search].concat();
    args[5] = "10k";
    let v = generate(&net, &args);
    let s = &v["search"];
    let found = s["throughput_pps"].as_f64().unwrap_or(0.0);
    // on a busy machine it may be less; twenty packets fit into the queue
    assert!((50.0..=1300.0).contains(&found), "{v}");
    assert_eq!(s["bound"], "loss", "{v}");
    let trials = s["trials"].as_array().expect("trials");
    assert_eq!(trials[0]["passed"], false, "{v}");
    assert!(trials.iter().any(|t| t["passed"] == true), "{v}");
    // the trial that is told is one that passed
    assert!(v["loss"].as_f64() <= Some(0.001), "{v}");
    // at no more than was asked for
    args[5] = "50";
    let v = generate(&net, &args);
    assert_eq!(v["search"]["bound"], "asked", "{v}");
    assert_eq!(v["search"]["trials"].as_array().map(Vec::len), Some(1));
    onefold.stop();
}

#[test]
fn captures_are_sent_with_their_timing() {
    let Some(net) = wired() else { return };
    let dir = common::temp("gen-replay");
    let file = dir.join("in.pcap").display().to_string();
    let make = ["gen", "--out", &file, "--packets", "300", "--pps", "1000"];
    let kind = ["--size", "100", "--protocols", "udp", "--flows", "10"];
    common::run(&dir, 0, &[&make[..], &kind].concat());
    let ports = ["l2fwd", "--port", "in=packet:oa", "--port", "out=packet:ob"];
    let onefold = Running::start(&net, "o", &ports);
    let replay = [
        "--port",
        "packet:ga",
        "--port",
        "packet:gb",
        "--replay",
        &file,
    ];
    let v = generate(&net, &replay);
    assert_all_came(&v, 300);
    let seconds = v["seconds"].as_f64().expect("a number");
    assert!(seconds >= 0.299, "300 packets a millisecond apart: {v}");
    assert_eq!((&v["flows"], &v["longer"]), (&10.into(), &0.into()), "{v}");
    // the MAC addresses are the capture's
    assert_eq!(v["ports"]["ga"]["to_mac"], "02-00-00-00-00-02");
    // at a rate, twice over
    let rate = ["--rate", "4000", "--packets", "600"];
    let v = generate(&net, &[&replay[..], &rate].concat());
    assert_all_came(&v, 600);
    onefold.stop();
}

/// Packets that the kernel has seen at the chain's first interface.
fn received(net: &Net) -> u64 {
    let o = Command::new("ip")
        .args(["-n", &net.name("o"), "-s", "-j", "link", "show", "oa"])
        .output()
        .expect("ip runs");
    let v: Value = serde_json::from_slice(&o.stdout).expect("JSON");
    v[0]["stats64"]["rx"]["packets"].as_u64().unwrap_or(0)
}

#[test]
fn ctrl_c_ends_it_with_a_report() {
    let Some(net) = wired() else { return };
    let child = command(&net, &STEADY)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // packets arrive at the other end
    let begun = std::time::Instant::now();
    while received(&net) < 10 {
        assert!(begun.elapsed() < PATIENCE, "nothing is sent");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.is_ok_and(|s| s.success()));
    let o = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(130), "{err}");
    let v: Value = serde_json::from_slice(&o.stdout).expect("a report");
    assert_eq!(v["interrupted"], true);
    assert!(number(&v, "sent") > 0, "{v}");
    // nobody is at the other end
    assert_eq!(number(&v, "lost"), number(&v, "sent"));
    assert_eq!(v["latency_ns"], Value::Null);
    assert!(err.contains("nothing has come back"), "{err}");
}

#[test]
fn wrong_use_is_told_with_its_cure() {
    let dir = common::temp("gen-wrong");
    let cases: [(&[&str], &str); 7] = [
        (&[], "--out"),
        (&["--rate", "5"], "--port"),
        (&["--port", "memory:"], "packet:IF"),
        (
            &["--port", "packet:lo", "--out", "x.pcap"],
            "one or the other",
        ),
        (&["--port", "packet:lo", "--rate", "0"], "1 or more"),
        (
            &["--port", "a=packet:lo", "--to-mac", "b=2:0:0:0:0:1"],
            "there are: a",
        ),
        (
            &["--port", "a=packet:lo", "--search", "--loss", "2"],
            "below 1",
        ),
    ];
    for (args, part) in cases {
        let (_, err) = common::run(&dir, 2, &[&["gen"][..], args].concat());
        assert!(err.contains(part), "{args:?}: {err}");
    }
}
