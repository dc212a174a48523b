//! Privilege that a run gives up, and what it can do without.

use crate::common;
use crate::links::{ROUTER_PACKET, left, routed};
use crate::running::{PATIENCE, Running};
use onefold_testing::net::{Net, Raw};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What `/proc/PID/status` says of this.
fn status(pid: u32, what: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text.lines().find_map(|l| l.strip_prefix(what));
    line.expect("the kernel says so")
        .trim_start_matches(':')
        .trim()
        .to_string()
}

/// Its child: the process that keeps privilege.
fn helper(pid: u32) -> u32 {
    let all = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let all = all.expect("a process");
    let mut all = all.split_whitespace().map(|p| p.parse().expect("a number"));
    let one = all.next().expect("a child");
    assert_eq!(all.next(), None, "one child");
    one
}

fn ping(net: &Net) -> bool {
    let to = [172, 16, 1, 2].into();
    net.within("a", || Raw::icmp().ping(to, 3, PATIENCE))
        .is_some()
}

/// `CAP_IPC_LOCK`: for AF_XDP, where the limit of locked memory cannot be lifted.
const LOCK: u64 = 1 << 14;

/// The way back is closed.
fn is_confined(pid: u32, may_keep: u64) {
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"] {
        let held = u64::from_str_radix(&status(pid, set), 16).expect("a number");
        assert_eq!(held & !may_keep, 0, "{set}");
    }
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    // a filter
    assert_eq!(status(pid, "Seccomp"), "2");
}

/// Without any capability packets pass, and an interface that went away and came back is opened again: by the process
/// that kept some, which ends with the run.
fn passes(kind: &str) {
    let Some(net) = routed() else { return };
    let (a, b) = (format!("left={kind}:oa"), format!("right={kind}:ob"));
    let args = ["routers-1", "--port", &a, "--port", &b];
    let mut onefold = Running::start(&net, "o", &args);
    let said = onefold.said().join("\n");
    assert!(said.contains("sandbox: no capabilities"), "{said}");
    assert!(!said.contains("sandbox: not so"), "{said}");
    let pid = onefold.pid();
    is_confined(pid, if kind == "xdp" { LOCK } else { 0 });
    let helper = helper(pid);
    assert!(ping(&net));
    net.ip("o", "link del oa");
    onefold.wait_for("is gone");
    left(&net);
    onefold.wait_for("is back");
    assert!(ping(&net));
    assert_eq!(status(helper, "NoNewPrivs"), "1");
    onefold.stop();
    let begun = Instant::now();
    while Path::new(&format!("/proc/{helper}")).exists() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(
        !Path::new(&format!("/proc/{helper}")).exists(),
        "it ends with the run"
    );
}

#[test]
fn packet_sockets_are_opened_again_without_privilege() {
    passes("packet");
}

#[test]
fn af_xdp_sockets_are_opened_again_without_privilege() {
    passes("xdp");
}

/// Who keeps privilege may end: the packets of interfaces that are there pass, and it is said when it is missed.
#[test]
fn a_helper_that_has_ended_is_told_of() {
    let Some(net) = routed() else { return };
    let args = ROUTER_PACKET;
    let mut onefold = Running::start(&net, "o", &args);
    let killed = Command::new("kill")
        .args(["-KILL", &helper(onefold.pid()).to_string()])
        .status();
    assert!(killed.is_ok_and(|s| s.success()));
    assert!(ping(&net));
    net.ip("o", "link del oa");
    onefold.wait_for("is gone");
    left(&net);
    onefold.wait_for("the process that keeps privilege has ended");
    onefold.stop();
}

/// `onefold reload`, and what it says.
fn reload(socket: &str, chain: &str) -> (bool, String) {
    let o = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .args(["reload", "--socket", socket, chain])
        .current_dir(common::root())
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    (
        o.status.success(),
        String::from_utf8_lossy(&o.stderr).into_owned(),
    )
}

/// A user of its own, and no files but those that a chain is made of: who takes packets cannot read passwords, root
/// or not.
#[test]
fn files_that_are_no_chain_s_are_not_read() {
    let Some(net) = routed() else { return };
    let folder = common::temp("live-sandbox-files");
    let chain = folder.join("mine.yaml");
    let text = "functions:\n  fw: { firewall: { rules: [allow all] } }\nports:\n  left: fw[0]\n  right: fw[1]\n";
    std::fs::write(&chain, text).expect("a file");
    let chain = chain.display().to_string();
    let elsewhere = common::temp("live-sandbox-elsewhere").join("other.yaml");
    std::fs::write(&elsewhere, text).expect("a file");
    let elsewhere = elsewhere.display().to_string();
    for user in [&[][..], &["--user", "nobody"][..]] {
        let socket = folder.join("run.sock").display().to_string();
        let args = ["left=packet:oa", "right=packet:ob"];
        let mut all = vec![chain.as_str(), "--port", args[0], "--port", args[1]];
        all.extend(["--control", &socket, "--sandbox", "strict"]);
        all.extend(user);
        let onefold = Running::start(&net, "o", &all);
        is_confined(onefold.pid(), 0);
        let uid = match user.is_empty() {
            true => "0\t0\t0\t0",
            false => "65534\t65534\t65534\t65534",
        };
        assert_eq!(status(onefold.pid(), "Uid"), uid);
        for other in ["/etc/shadow", &elsewhere] {
            let (done, said) = reload(&socket, other);
            assert!(
                !done && said.contains("Permission denied"),
                "{other}: {said}"
            );
        }
        let (done, said) = reload(&socket, &chain);
        assert!(done, "{said}");
        onefold.stop();
    }
}

/// What DPDK's drivers need is theirs to know: said, and refused where all is asked for.
#[test]
fn what_is_kept_is_said() {
    let Some(net) = routed() else { return };
    let args = ROUTER_PACKET;
    let off = Running::start(&net, "o", &[&args[..], &["--sandbox", "off"]].concat());
    assert!(off.said().join("\n").contains("sandbox: off"));
    assert_ne!(status(off.pid(), "CapEff"), "0000000000000000");
    assert_eq!(status(off.pid(), "Seccomp"), "0");
    off.stop();
    let wrong = [
        &["run"],
        &args[..],
        &["--sandbox", "off", "--user", "nobody"],
    ]
    .concat();
    let (_, said) = common::run(&common::root(), 2, &wrong);
    assert!(said.contains("--user gives up privilege"), "{said}");
    let wrong = [&args[..], &["--user", "no-such-user"]].concat();
    let o = net
        .command("o", env!("CARGO_BIN_EXE_onefold"))
        .arg("run")
        .args(wrong)
        .args(["--verify-time", "0"])
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&o.stderr);
    assert!(
        said.contains("there is no such user; type: useradd"),
        "{said}"
    );
    if cfg!(feature = "dpdk") {
        let args = [
            "l2fwd",
            "--port",
            "in=dpdk:net_null0",
            "--port",
            "out=dpdk:net_null1",
        ];
        let onefold = Running::start(&net, "o", &args);
        let said = onefold.said().join("\n");
        assert!(
            said.contains("sandbox: not so: capabilities and files"),
            "{said}"
        );
        assert_eq!(status(onefold.pid(), "NoNewPrivs"), "1");
        onefold.stop();
    }
}
