//! Programs of others as functions: they forward, they are not touched, and what is wrong with them is told.

use crate::common::{run, temp};
use crate::support::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// DPDK's testpmd between two functions, over sockets of this kind. Its first statistics come at once only where the
/// machine has been up for longer than their period, so that they do not say that it forwards. It does not wait for its
/// links (nine seconds: they are up when the chain takes packets), and says each line at once.
fn testpmd(kind: &str, device: &str) -> String {
    let vdev = |n: usize| {
        let socket = format!("/run/onefold-box/{n}.sock");
        match device {
            "net_memif" => {
                format!("--vdev=net_memif{n},role=client,id=0,socket={socket},socket-abstract=no")
            }
            _ => format!("--vdev={device}{n},path={socket}"),
        }
    };
    let line = format!(
        "exec stdbuf -oL dpdk-testpmd -l 0,1 --no-huge --no-pci -m 512 --no-telemetry {} {} -- --forward-mode=mac \
         --auto-start --disable-link-check --stats-period=3600 --total-num-mbufs=8192 >/run/onefold-box/log 2>&1",
        vdev(0),
        vdev(1)
    );
    format!(
        "  x:\n    external:\n      command: [sh, -c, \"{line}\"]\n      ports:\n\
         \x20       - {kind}: {{ socket: /run/onefold-box/0.sock }}\n\
         \x20       - {kind}: {{ socket: /run/onefold-box/1.sock }}\n\
         \x20     set-up: [\"mkdir -p /run/dpdk && mount -t tmpfs none /run/dpdk\"]\n\
         \x20     ready: [\"grep -q 'forwards packets' /run/onefold-box/log\"]\n"
    )
}

#[test]
fn testpmd_of_dpdk_forwards_in_a_chain() {
    let _alone = crate::alone();
    if !can(&["dpdk-testpmd"]) {
        return;
    }
    if !cfg!(feature = "dpdk") {
        onefold_testing::skip("built without DPDK");
        return;
    }
    let dir = temp("outside-testpmd");
    let (there, back) = both_ways(&dir, 300);
    for (kind, device) in [("memif", "net_memif"), ("virtio-user", "net_virtio_user")] {
        chain_around(&dir, &testpmd(kind, device), "");
        let (lan, wan, v) = through(&dir, "chain.yaml", &[]);
        // it writes MAC addresses of its own, and nothing else
        let rest =
            |all: &Vec<Vec<u8>>| -> Vec<Vec<u8>> { all.iter().map(|f| f[12..].to_vec()).collect() };
        assert_eq!(rest(&wan), rest(&bytes(there.clone())), "{kind}: {v}");
        assert_eq!(rest(&lan), rest(&bytes(back.clone())), "{kind}: {v}");
        assert!(
            wan.iter()
                .all(|f| f[..6] == wan[0][..6] && f[6..12] == wan[0][6..12]),
            "{kind}"
        );
        assert!(wan[0][..12] != there[0].1[..12], "{kind}");
        assert_eq!(v["dropped"], 0, "{v}");
    }
    assert!(!Path::new("/run/onefold-box/0.sock").exists());
}

/// A program, its environment, arguments, folder and file are what they are without Onefold, however the chain is
/// connected and whatever policy schedules it; the namespaces are its own; when it ends it is launched again; nothing
/// is left, even behind a kill.
#[test]
fn a_program_of_others_is_not_touched_and_nothing_is_left() {
    let _alone = crate::alone();
    if !can(&["ovs-vswitchd"]) {
        return;
    }
    let dir = temp("outside-untouched");
    let sleep = std::fs::canonicalize("/bin/sleep").unwrap();
    let contents = std::fs::read(&sleep).unwrap();
    let between = "  x:\n    external:\n      command: [sleep, \"1000\"]\n\
                   \x20     environment: { A: one, B: \"two three\" }\n\
                   \x20     set-up: [\"sleep 1001 & true\"]\n      ports: [{ veth: near }, { veth: far }]\n";
    for (word, policy) in [
        ("rings", "nfvnice"),
        ("manager", "latency"),
        ("veth", "batch"),
        ("ovs", "unis"),
    ] {
        chain_around(&dir, between, &format!("interconnect: {word}\n"));
        let before = host();
        let ports = ["--port", "lan=tap:ofun0", "--port", "wan=tap:ofun1"];
        let scheduled = ["--schedule", policy];
        let running = Running::start(&dir, &[&ports[..], &scheduled].concat());
        let find = |argument: &str| {
            let is = |id: &u32| {
                let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
                line == format!("sleep\0{argument}\0").into_bytes()
            };
            below(running.of("x")).into_iter().find(is)
        };
        let program = find("1000").expect("the program");
        let beside = find("1001").expect("what was set up beside it");
        let environ = std::fs::read_to_string(format!("/proc/{program}/environ")).unwrap();
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let has: Vec<&str> = environ.trim_end_matches('\0').split('\0').collect();
        assert_eq!(has, ["A=one", "B=two three", path], "{word}");
        let exe = PathBuf::from(format!("/proc/{program}/exe"));
        assert_eq!(std::fs::read(exe).unwrap(), contents, "{word}");
        assert_eq!(
            std::fs::read_link(format!("/proc/{program}/cwd")).unwrap(),
            std::fs::canonicalize(&dir).unwrap()
        );
        let open: Vec<_> = std::fs::read_dir(format!("/proc/{program}/fd"))
            .unwrap()
            .flatten()
            .collect();
        assert_eq!(
            open.len(),
            3,
            "descriptors beside its standard ones: {open:?}"
        );
        let status = std::fs::read_to_string(format!("/proc/{program}/status")).unwrap();
        let ignored = status
            .lines()
            .find_map(|l| l.strip_prefix("SigIgn:"))
            .map(str::trim);
        let ignored = u64::from_str_radix(ignored.unwrap_or_default(), 16).expect("a mask");
        // SIGINT, SIGPIPE and SIGTERM
        assert_eq!(ignored & 0x5002, 0, "{word}: {ignored:x}");
        for kind in ["net", "pid", "mnt"] {
            assert_ne!(
                namespace(program, kind),
                namespace(std::process::id(), kind),
                "{word}: {kind}"
            );
        }
        let devices = std::fs::read_to_string(format!("/proc/{program}/net/dev")).unwrap();
        let names: BTreeSet<&str> = devices
            .lines()
            .skip(2)
            .filter_map(|l| Some(l.split_once(':')?.0.trim()))
            .collect();
        assert_eq!(
            names,
            BTreeSet::from(["far", "lo", "near"]),
            "{word}: {devices}"
        );
        let all = [vec![program, beside], below(running.child.id())].concat();
        if word == "rings" {
            // its program ends: it is launched again, with everything that belongs to it
            signal(program, "-KILL");
            wait_until("what was beside it has ended", || !exists(beside));
            let again = || {
                below(running.child.id()).into_iter().any(|id| {
                    let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
                    line == b"sleep\x001000\0" && id != program
                })
            };
            wait_until("it is launched again", again);
            let v = running.stop();
            assert_eq!(v["processes"][1]["restarts"], 1, "{v}");
        } else {
            signal(running.child.id(), "-KILL");
        }
        for id in all {
            wait_until(&format!("{word}: process {id} ends"), || !exists(id));
        }
        wait_until("interfaces are gone", || host() == before);
    }
}

/// What a chain file says wrongly of a black box, and what is said of that.
const WRONG: [(&str, &str); 13] = [
    (
        "{ ports: [{ veth: near }, { veth: near }] }",
        "two ports are the interface 'near'",
    ),
    (
        "{ ports: [{ veth: near, tap: far }, { veth: far }] }",
        "exactly one of veth, tap, memif, virtio-user",
    ),
    (
        "{ ports: [{ veth: lo }, { veth: far }] }",
        "'lo' cannot be an interface's name",
    ),
    (
        "{ ports: [{ veth: a-name-that-is-long }, { veth: far }] }",
        "cannot be an interface's name",
    ),
    (
        "{ ports: [{ veth: { name: near, mac: \"01:00:00:00:00:00\" } }, { veth: far }] }",
        "is no MAC address",
    ),
    (
        "{ ports: [{ veth: { name: near, mtu: 1 } }, { veth: far }] }",
        "mtu must be from 68",
    ),
    (
        "{ ports: [{ veth: { name: near, addresses: [10.0.0.1/33] } }, { veth: far }] }",
        "'10.0.0.1/33' is no address",
    ),
    (
        "{ ports: [{ memif: { socket: /tmp/x } }, { veth: far }] }",
        "'/tmp/x' is no file of /run/onefold-box",
    ),
    (
        "{ sysctls: { kernel.panic: 1 }, ports: [{ veth: near }, { veth: far }] }",
        "none of a network namespace",
    ),
    (
        "{ settle: 0, ports: [{ veth: near }, { veth: far }] }",
        "settle must be from",
    ),
    (
        "{ environment: { \"A=B\": x }, ports: [{ veth: near }, { veth: far }] }",
        "'A=B' cannot be a variable",
    ),
    (
        "{ command: [\"\"], ports: [{ veth: near }, { veth: far }] }",
        "command names no program",
    ),
    ("{ ports: [] }", "wants 1 to 16 ports"),
];

#[test]
fn what_is_wrong_with_a_black_box_is_told() {
    let _alone = crate::alone();
    let dir = temp("outside-wrong");
    let said = |external: &str, command: &str, status: i32| {
        chain_around(&dir, &format!("  x:\n    external: {external}\n"), "");
        let args: &[&str] = match command {
            "run" => &[
                "run",
                "chain.yaml",
                "--in",
                "lan=lan.pcap",
                "--in",
                "wan=wan.pcap",
                "--quiet",
            ],
            other => &[other, "chain.yaml"],
        };
        run(&dir, status, args).1
    };
    let good = "ports: [{ veth: near }, { veth: far }]";
    said(&format!("{{ {good} }}"), "check", 0);
    for (wrong, told) in WRONG {
        let err = said(wrong, "check", 2);
        assert!(
            err.contains(told) && err.contains("chain.yaml:"),
            "{wrong}: {err}"
        );
    }
    if !can(&[]) {
        return;
    }
    both_ways(&dir, 10);
    for (wrong, told) in [
        (
            "set-up: [\"exit 7\"]",
            "set-up: 'exit 7' has failed (exit status: 7)",
        ),
        ("command: [./absent]", "launching"),
        (
            "command: [\"true\"], ready: [\"sleep 0.05; false\"]",
            "its program has ended",
        ),
        ("routes: [nonsense]", "nonsense"),
        (
            "sysctls: { net.ipv4.nonsense: 1 }",
            "sysctl net.ipv4.nonsense=1",
        ),
    ] {
        let err = said(&format!("{{ {wrong}, {good} }}"), "run", 2);
        assert!(err.contains(told), "{wrong}: {err}");
    }
}
