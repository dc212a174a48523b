//! Interfaces that go down, away and come back; chains that have nothing to do; runs that end.

use crate::host::datagrams;
use crate::running::{PATIENCE, Running};
use onefold_testing::net::{Net, Raw};
use std::time::{Duration, Instant};

/// A router between two hosts.
pub fn routed() -> Option<Net> {
    let net = Net::new(&["a", "o", "b"])?;
    left(&net);
    net.pair(("b", "vb"), ("o", "ob"));
    net.ip("b", "addr add 172.16.1.2/30 dev vb");
    net.ip("b", "route add default via 172.16.1.1");
    Some(net)
}

/// The host `a` and the interface `oa` of Onefold that it is connected to.
pub fn left(net: &Net) {
    net.pair(("a", "va"), ("o", "oa"));
    net.ip("a", "addr add 172.16.0.1/30 dev va");
    net.ip("a", "route add default via 172.16.0.2");
}

/// A router between these hosts, through packet sockets.
pub const ROUTER_PACKET: [&str; 5] = [
    "routers-1",
    "--port",
    "left=packet:oa",
    "--port",
    "right=packet:ob",
];
/// The same through AF_XDP.
pub const ROUTER_XDP: [&str; 5] = [
    "routers-1",
    "--port",
    "left=xdp:oa",
    "--port",
    "right=xdp:ob",
];
const FAR: [u8; 4] = [172, 16, 1, 2];

#[test]
fn a_link_goes_down_and_an_interface_away_and_both_come_back() {
    links_change("packet", ["", ",mode=mmsg,batch=8"]);
}

/// A link goes down and up, an interface away and back, in each of these modes.
pub fn links_change<const N: usize>(kind: &str, modes: [&str; N]) {
    links_change_over(&modes, |interface, mode| {
        format!("{kind}:{interface}{mode}")
    });
}

/// The same with these ports on the interfaces `oa` and `ob`.
pub fn links_change_over(modes: &[&str], port: impl Fn(&str, &str) -> String) {
    links_change_with(modes, port, &[]);
}

/// The same with more arguments.
pub fn links_change_with(modes: &[&str], port: impl Fn(&str, &str) -> String, more: &[&str]) {
    let Some(net) = routed() else { return };
    for mode in modes {
        let ports = [
            format!("left={}", port("oa", mode)),
            format!("right={}", port("ob", mode)),
        ];
        let args = ["routers-1", "--port", &ports[0], "--port", &ports[1]];
        let mut onefold = Running::start(&net, "o", &[&args[..], more].concat());
        let ping = || net.within("a", || Raw::icmp().ping(FAR.into(), 3, PATIENCE));
        assert!(ping().is_some());
        net.ip("o", "link set ob down");
        assert!(onefold.wait_for("link of ob").contains("down"));
        // it is counted, not sent
        let lost = net.within("a", || {
            Raw::icmp().ping(FAR.into(), 4, Duration::from_millis(300))
        });
        assert_eq!(lost, None);
        net.ip("o", "link set ob up");
        assert!(onefold.wait_for("link of ob").contains("up"));
        assert!(ping().is_some(), "after the link came back");
        // a pair of interfaces goes, and another one of the same names comes
        net.ip("o", "link del oa");
        onefold.wait_for("interface oa is gone");
        left(&net);
        // with another neighbour behind it, which is not to be taken for the one before
        net.ip(
            "a",
            &format!("link set va address 02:00:00:00:77:{:02x}", mode.len()),
        );
        onefold.wait_for("interface oa is back");
        assert!(ping().is_some(), "after the interface came back");
        datagrams(&net, "a", "b", (FAR, 5353).into(), 1000);
        let v = onefold.stop();
        let lost = &v["ports"]["right"]["lost"]["link down, not sent"];
        assert!(lost.as_u64() > Some(0), "{v}");
    }
}

/// Processor time of a process so far, all its threads' together: as the scheduler counts it, not in ticks, with which
/// somebody who wakes at every one of them is taken for busy.
pub fn used(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let of = |task: std::fs::DirEntry| -> Option<u64> {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.flatten().filter_map(of).sum())
}

#[test]
fn a_chain_without_packets_uses_less_than_two_hundredths_of_a_core() {
    sleeps("packet");
}

/// A chain on ports of this kind uses next to nothing while no packets come, and is there when one does.
pub fn sleeps(kind: &str) {
    sleeps_over(|interface| format!("{kind}:{interface}"));
}

/// The same with these ports on the interfaces `oa` and `ob`.
pub fn sleeps_over(port: impl Fn(&str) -> String) {
    let Some(net) = routed() else { return };
    let ports = [
        format!("left={}", port("oa")),
        format!("right={}", port("ob")),
    ];
    // unoptimised, looks at DPDK's devices take up to 0.03
    let most = if cfg!(debug_assertions) { 0.05 } else { 0.02 };
    for poll in ["adaptive", "interrupt", "moderate"] {
        let args = [
            "routers-1",
            "--port",
            &ports[0],
            "--port",
            &ports[1],
            "--poll",
            poll,
        ];
        let onefold = Running::start(&net, "o", &args);
        let echo = net.within("a", || Raw::icmp().ping(FAR.into(), 3, PATIENCE));
        assert!(echo.is_some(), "{poll}");
        let (before, begun) = (used(onefold.pid()), Instant::now());
        std::thread::sleep(Duration::from_millis(1000));
        let share = (used(onefold.pid()) - before).as_secs_f64() / begun.elapsed().as_secs_f64();
        assert!(share < most, "{poll}: {share} of a core");
        // and it is there when a packet comes
        let echo = net.within("a", || Raw::icmp().ping(FAR.into(), 4, PATIENCE));
        assert!(echo.is_some(), "{poll}");
        onefold.stop();
    }
}

#[test]
fn a_run_ends_after_its_duration_and_after_its_limit() {
    let Some(net) = routed() else { return };
    let args = [&ROUTER_PACKET[..], &["--poll", "busy", "--duration", "0.3"]].concat();
    let mut onefold = Running::start(&net, "o", &args);
    let v = onefold.report(0);
    let seconds = v["seconds"].as_f64().expect("a number");
    assert!(seconds >= 0.3, "{seconds}");
    assert_eq!(v["interrupted"], false);
    let args = [&ROUTER_PACKET[..], &["--limit", "1"]].concat();
    let mut onefold = Running::start(&net, "o", &args);
    net.within("a", || {
        Raw::icmp().ping(FAR.into(), 3, Duration::from_millis(300))
    });
    let v = onefold.report(0);
    assert_eq!(v["packets_in"], 1, "{v}");
}
