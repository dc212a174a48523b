//! What is wrong at the start is said before anything takes time, with what to type.

use crate::common;
use crate::running::Running;
use onefold_testing::net::Net;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What a start in a host's namespace says, which must fail as wrong use does.
pub fn refused(net: &Net, args: &[&str]) -> String {
    let mut c = net.command("o", env!("CARGO_BIN_EXE_onefold"));
    c.arg("run")
        .args(args)
        .args(["--no-verify", "--duration", "0.1"]);
    said(c)
}

fn said(mut c: Command) -> String {
    let o = c
        .current_dir(common::root())
        .output()
        .expect("the binary runs");
    let err = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{err}");
    err
}

/// A router with an MTU of its own.
pub const ROUTER: &str = "
functions:
  r:
    router:
      interfaces:
        - { name: left, address: 10.0.0.1/24, mac: \"02:00:00:00:00:01\", mtu: 1500 }
        - { name: right, address: 10.0.1.1/24, mac: \"02:00:00:00:00:02\" }
ports: { left: \"r[0]\", right: \"r[1]\" }
";

#[test]
fn each_fault_names_its_cure() {
    let Some(net) = Net::new(&["o"]) else { return };
    net.pair(("o", "one"), ("o", "two"));
    let left = |port: &'static str| refused(&net, &["routers-1", "--port", port]);
    let e = left("left=packet:eno77");
    assert!(
        e.contains("no interface 'eno77'") && e.contains("one"),
        "{e}"
    );
    let e = left("left=packet:lo");
    assert!(e.contains("no Ethernet interface"), "{e}");
    let e = left("nowhere=packet:one");
    assert!(e.contains("no port 'nowhere'"), "{e}");

    net.ip("o", "link set one down");
    let e = left("left=packet:one");
    assert!(e.contains("ip link set dev one up"), "{e}");
    net.ip("o", "link set one up");

    let e = refused(
        &net,
        &[
            "routers-1",
            "--port",
            "left=packet:one",
            "--port",
            "right=packet:one,mode=mmsg",
        ],
    );
    assert!(
        e.contains("'left' and 'right' are the same interface"),
        "{e}"
    );

    net.ip("o", "addr add 192.0.2.7/24 dev one");
    let e = left("left=packet:one");
    assert!(
        e.contains("192.0.2.7") && e.contains("ip address flush dev one"),
        "{e}"
    );
    net.ip("o", "addr flush dev one");

    let forwarding = |on: bool| {
        let set = format!(
            "echo {} > /proc/sys/net/ipv4/conf/one/forwarding",
            u8::from(on)
        );
        let set = net.command("o", "sh").args(["-c", &set]).status();
        assert!(set.is_ok_and(|s| s.success()));
    };
    forwarding(true);
    let e = left("left=packet:one");
    assert!(
        e.contains("sysctl -w net.ipv4.conf.one.forwarding=0"),
        "{e}"
    );
    forwarding(false);

    let file = common::temp("live-diagnostics").join("router.yaml");
    std::fs::write(&file, ROUTER).expect("a file");
    net.ip("o", "link set one mtu 1400");
    let file = file.display().to_string();
    let e = refused(&net, &[&file, "--port", "left=packet:one"]);
    assert!(
        e.contains("ip link set dev one mtu 1500") && e.contains("mtu: 1400"),
        "{e}"
    );
}

#[test]
fn interfaces_and_captures_do_not_go_together() {
    let dir = common::temp("live-mixed");
    let (_, e) = common::run(
        &dir,
        0,
        &["gen", "--out", "in.pcap", "--packets", "10", "--flows", "2"],
    );
    drop(e);
    for other in ["memory:in.pcap", "pcap:in.pcap"] {
        let right = format!("right={other}");
        let args = [
            "run",
            "routers-1",
            "--port",
            "left=packet:eno77",
            "--port",
            &right,
        ];
        let (_, e) = common::run(&dir, 2, &args);
        assert!(e.contains("a chain has one clock"), "{e}");
    }
    let (_, e) = common::run(
        &dir,
        2,
        &[
            "run",
            "routers-1",
            "--in",
            "left=in.pcap",
            "--duration",
            "1",
        ],
    );
    assert!(e.contains("--duration is for network interfaces"), "{e}");
}

#[test]
fn without_permission_the_capability_is_named() {
    let Some(net) = Net::new(&["o"]) else { return };
    net.pair(("o", "one"), ("o", "two"));
    nobody(&net, "left=packet:one", "CAP_NET_RAW");
    nobody(&net, "left=tap:t0", "CAP_NET_ADMIN");
}

/// Somebody who may not, in the same namespace, is told of this capability.
pub fn nobody(net: &Net, port: &str, capability: &str) {
    let o = net.within("o", || {
        let mut c = Command::new(env!("CARGO_BIN_EXE_onefold"));
        c.args(["run", "routers-1", "--no-verify", "--port", port]);
        c.current_dir(common::root()).uid(65_534).gid(65_534);
        c.output()
    });
    let o = match o {
        Ok(o) => o,
        Err(e) => return onefold_testing::skip(format!("nobody cannot run the binary: {e}")),
    };
    let e = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(2), "{e}");
    assert!(e.contains(capability) && e.contains("setcap"), "{e}");
}

/// A control socket that another run listens at, a port for metrics that is taken, and one that takes a capability.
#[test]
fn what_is_taken_names_its_cure() {
    let Some(net) = Net::new(&["o"]) else { return };
    net.pair(("o", "one"), ("o", "two"));
    let folder = common::temp("live-taken");
    let socket = folder.join("run.sock").display().to_string();
    let args = ["l2fwd", "--port", "in=packet:one", "--control", &socket];
    let metrics = ["--metrics", "127.0.0.1:19464"];
    let first = Running::start(&net, "o", &[&args[..], &metrics].concat());
    let args = ["l2fwd", "--port", "in=packet:two"];
    let e = refused(&net, &[&args[..], &["--control", &socket]].concat());
    assert!(
        e.contains("already listens at") && e.contains(&socket) && e.contains("--name NAME"),
        "{e}"
    );
    let off = [&args[..], &["--control", "off"]].concat();
    let e = refused(&net, &[&off[..], &metrics].concat());
    assert!(
        e.contains("--metrics 127.0.0.1:19464") && e.contains("ss -ltnp"),
        "{e}"
    );
    let e = refused(&net, &[&off[..], &["--metrics", "127.0.0.1:80"]].concat());
    assert!(e.contains("--sandbox off"), "{e}");
    let file = folder.join("file").display().to_string();
    std::fs::write(&file, "no socket").expect("a file");
    let e = refused(&net, &[&args[..], &["--control", &file]].concat());
    assert!(
        e.contains("is no socket") && e.contains("--control PATH"),
        "{e}"
    );
    let e = refused(&net, &[&args[..], &["--log", "/nowhere/run.log"]].concat());
    assert!(e.contains("--log /nowhere/run.log"), "{e}");
    first.stop();
}
