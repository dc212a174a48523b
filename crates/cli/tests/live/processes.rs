//! Functions in processes of their own on interfaces.

use crate::common;
use crate::host::{datagrams, transfer};
use crate::running::Running;
use crate::traffic::{isp, rules};

/// TCP and UDP through a firewall and a router in one process and a NAT in another one, which is ended meanwhile: a new
/// one does its work.
#[test]
fn isp_edge_with_its_nat_in_a_process_that_is_killed() {
    let Some(net) = isp() else { return };
    let dir = common::temp("live-processes-chain");
    let text = std::fs::read_to_string(common::root().join("chains/isp-edge/chain.yaml"));
    let text = text
        .expect("the example")
        .replace("  nat:\n    nat:", "  nat:\n    run: process\n    nat:");
    let file = dir.join("chain.yaml");
    std::fs::write(&file, text).expect("a file");
    let (chain, rules) = (file.display().to_string(), rules("live-processes"));
    let ports = ["--port", "lan=packet:oa", "--port", "wan=packet:ob"];
    let args = [&[chain.as_str(), "--set", &rules][..], &ports].concat();
    let mut onefold = Running::compared(&net, "o", &args, "0");
    let at = ([203, 0, 113, 254], 8080).into();
    transfer(&net, "a", "b", at, 1 << 20);
    for bytes in [1, 1000, 1472] {
        datagrams(&net, "a", "b", ([203, 0, 113, 254], 5353).into(), bytes);
    }
    let line = onefold.said().iter().find(|l| l.contains(": nat")).cloned();
    let id = line.and_then(|l| {
        l.strip_prefix("process ")?
            .split(':')
            .next()
            .map(str::to_string)
    });
    let killed = std::process::Command::new("kill")
        .args(["-9", &id.expect("a process")])
        .status();
    assert!(killed.is_ok_and(|s| s.success()));
    onefold.wait_for("nat: its process has ended");
    transfer(&net, "a", "b", ([203, 0, 113, 254], 8081).into(), 1 << 18);
    let v = onefold.stop();
    assert_eq!(v["interrupted"], true);
    assert_eq!(v["processes"][0]["name"], "fw+router", "{v}");
    assert_eq!(v["processes"][1]["restarts"], 1, "{v}");
    for port in ["lan", "wan"] {
        assert!(v["ports"][port]["in"]["packets"].as_u64() > Some(50), "{v}");
        assert_eq!(v["ports"][port]["link"], "up");
    }
}
