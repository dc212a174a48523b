//! What is outside of shared memory: namespaces, interfaces between processes, black boxes. What comes out is compared
//! with what comes out of one process, programs of others are found untouched, and nothing is left behind.

mod common;

use common::captures::{Frames, read, write};
use common::{root, run, temp};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Root, and these programs; says so where one is missing.
#[track_caller]
fn can(programs: &[&str]) -> bool {
    if !nix::unistd::geteuid().is_root() {
        onefold_testing::skip("namespaces need root");
        return false;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for p in [&["ip"], programs].concat() {
        let mut all = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        if !all.any(|d| d.join(p).exists()) {
            onefold_testing::skip(format!("{p} is not installed"));
            return false;
        }
    }
    true
}

/// An Internet checksum.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// A UDP packet of flow `i` to a port, between two MAC addresses and two IPv4 addresses.
fn udp(i: usize, port: u16, macs: [u8; 2], ips: [[u8; 4]; 2]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, macs[1], 2, 0, 0, 0, 0, macs[0], 8, 0];
    let mut ip = vec![0x45, 0, 0, 60, (i >> 8) as u8, i as u8, 0, 0, 64, 17, 0, 0];
    ip.extend(ips.concat());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    f.extend(ip);
    f.extend((1024 + i as u16 % 100).to_be_bytes());
    f.extend(port.to_be_bytes());
    f.extend([0, 40, 0, 0]);
    f.extend((0..32).map(|b| (b + i) as u8));
    f
}

const NEAR: [u8; 4] = [10, 0, 0, 2];
const FAR: [u8; 4] = [10, 0, 1, 2];

/// A capture of so many packets from near to far (`lan.pcap`), every tenth to port 53, and one of a fifth as many back,
/// behind it (`wan.pcap`).
fn both_ways(dir: &Path, packets: usize) -> (Frames, Frames) {
    let at = |i: usize| 1_000_000 * (i as i64 + 1);
    let there: Frames = (0..packets)
        .map(|i| {
            (
                at(i),
                udp(
                    i,
                    if i % 10 == 0 { 53 } else { 80 },
                    [0x21, 0x10],
                    [NEAR, FAR],
                ),
            )
        })
        .collect();
    let back: Frames = (0..packets / 5)
        .map(|i| (at(packets + i), udp(i, 80, [0x22, 0x11], [FAR, NEAR])))
        .collect();
    write(&dir.join("lan.pcap"), &there);
    write(&dir.join("wan.pcap"), &back);
    (there, back)
}

/// Frames without their times.
fn bytes(frames: Frames) -> Vec<Vec<u8>> {
    frames.into_iter().map(|f| f.1).collect()
}

/// What leaves at the two ports, and the report.
fn through(dir: &Path, chain: &str, more: &[&str]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Value) {
    let args = ["run", chain, "--in", "lan=lan.pcap", "--in", "wan=wan.pcap"];
    let out = [
        "--out",
        "lan=to-lan.pcap",
        "--out",
        "wan=to-wan.pcap",
        "--json",
        "--quiet",
    ];
    let (text, _) = run(dir, 0, &[&args[..], &out, more].concat());
    let v = serde_json::from_str(&text).unwrap();
    let of = |name: &str| bytes(read(&dir.join(name)));
    (of("to-lan.pcap"), of("to-wan.pcap"), v)
}

/// A run whose processes can be looked at and ended.
struct Running {
    child: Child,
    err: BufReader<std::process::ChildStderr>,
    kids: Vec<(u32, String)>,
}

impl Running {
    fn start(dir: &Path, args: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_onefold"))
            .current_dir(dir)
            .env("ONEFOLD_CACHE", "")
            .env("ONEFOLD_HINT", "must not get there")
            .args(["run", "chain.yaml", "--json", "--mode", "reference"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut kids = Vec::new();
        let mut said = String::new();
        loop {
            let mut line = String::new();
            assert!(err.read_line(&mut line).unwrap() > 0, "ended: {said}");
            said.push_str(&line);
            if line.starts_with("running") {
                break;
            }
            let process = line
                .strip_prefix("process ")
                .and_then(|l| l.split_once(": "));
            if let Some((id, name)) = process {
                let name = name.split([',', ' ']).next().unwrap_or_default().trim();
                kids.push((id.parse().unwrap(), name.to_string()));
            }
        }
        Running { child, err, kids }
    }

    /// The process of a function, and that of a black box's namespaces, and its program.
    fn of(&self, name: &str) -> u32 {
        self.kids.iter().find(|k| k.1 == name).unwrap().0
    }

    fn stop(self) -> Value {
        signal(self.child.id(), "-TERM");
        self.report(143)
    }

    fn report(mut self, status: i32) -> Value {
        let (mut out, mut err) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        self.err.read_to_string(&mut err).unwrap();
        let ended = self.child.wait().unwrap();
        assert_eq!(ended.code(), Some(status), "{out}\n{err}");
        serde_json::from_str(&out).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(id: u32, what: &str) {
    let done = Command::new("kill").args([what, &id.to_string()]).status();
    assert!(done.is_ok_and(|s| s.success()), "kill {what} {id}");
}

fn children(of: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let tasks = std::fs::read_dir(format!("/proc/{of}/task"));
    for t in tasks.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(t.path().join("children")).unwrap_or_default();
        all.extend(
            text.split_whitespace()
                .filter_map(|c| c.parse::<u32>().ok()),
        );
    }
    all
}

/// All processes below one.
fn below(of: u32) -> Vec<u32> {
    let mut all = children(of);
    let mut at = 0;
    while at < all.len() && all.len() < 1000 {
        let more = children(all[at]);
        all.extend(more);
        at += 1;
    }
    all
}

fn exists(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|s| s.split_whitespace().next());
    state.is_some_and(|s| s != "Z")
}

fn namespace(id: u32, kind: &str) -> String {
    let link = std::fs::read_link(format!("/proc/{id}/ns/{kind}"));
    link.map_or(String::new(), |l| l.display().to_string())
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Interfaces of the host, and what is mounted there.
fn host() -> (BTreeSet<String>, BTreeSet<String>) {
    let all = std::fs::read_dir("/sys/class/net").unwrap().flatten();
    // other tests' namespaces have no interfaces here, and their mounts are below /run/netns
    let interfaces = all
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts = mounts
        .lines()
        .filter(|l| l.contains("onefold"))
        .map(str::to_string);
    (interfaces, mounts.collect())
}

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

#[test]
fn however_processes_are_connected_the_same_packets_come_out() {
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

/// Two functions that count, and what is between them.
fn chain_around(dir: &Path, between: &str, more: &str) {
    let text = format!(
        "functions:\n  a: {{ monitor: {{}}, run: process }}\n{between}\n  c: {{ monitor: {{}}, run: process }}\n\
         {more}links:\n  - a[1] <-> [0]x[1] <-> [0]c\nports:\n  lan: a[0]\n  wan: c[1]\n"
    );
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
}

/// A function in a namespace sees nothing of the host's network; cores are given out as declared.
#[test]
fn a_function_in_a_namespace_sees_no_interface() {
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
    if !can(&["nft"]) {
        return;
    }
    let dir = temp("outside-router");
    std::fs::write(dir.join("rules.nft"), RULES).unwrap();
    let (there, back) = both_ways(&dir, 500);
    let before = host();
    for (kind, word) in [("veth", "rings"), ("tap", "manager"), ("veth", "veth")] {
        chain_around(&dir, &router(kind), &format!("interconnect: {word}\n"));
        let (mut lan, mut wan, v) = through(&dir, "chain.yaml", &[]);
        let (mut far, mut near) = (
            routed(&there, [0x11, 0x22], 53),
            routed(&back, [0x10, 0x21], 53),
        );
        if kind == "tap" {
            // the kernel's queue in front of a TAP interface (pfifo_fast without a lock) lets some overtake others
            for all in [&mut lan, &mut wan, &mut far, &mut near] {
                all.sort();
            }
        }
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

/// DPDK's testpmd between two functions, over sockets of this kind. It says that it forwards in its first statistics.
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
        "exec dpdk-testpmd -l 0,1 --no-huge --no-pci -m 512 --no-telemetry {} {} -- --forward-mode=mac --auto-start \
         --stats-period=3600 --total-num-mbufs=8192 >/run/onefold-box/log 2>&1",
        vdev(0),
        vdev(1)
    );
    format!(
        "  x:\n    external:\n      command: [sh, -c, \"{line}\"]\n      ports:\n\
         \x20       - {kind}: {{ socket: /run/onefold-box/0.sock }}\n\
         \x20       - {kind}: {{ socket: /run/onefold-box/1.sock }}\n\
         \x20     set-up: [\"mkdir -p /run/dpdk && mount -t tmpfs none /run/dpdk\"]\n\
         \x20     ready: [\"grep -q 'Port statistics' /run/onefold-box/log\"]\n"
    )
}

#[test]
fn testpmd_of_dpdk_forwards_in_a_chain() {
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
/// connected; the namespaces are its own; when it ends it is launched again; nothing is left, even behind a kill.
#[test]
fn a_program_of_others_is_not_touched_and_nothing_is_left() {
    if !can(&["ovs-vswitchd"]) {
        return;
    }
    let dir = temp("outside-untouched");
    let sleep = std::fs::canonicalize("/bin/sleep").unwrap();
    let contents = std::fs::read(&sleep).unwrap();
    let between = "  x:\n    external:\n      command: [sleep, \"1000\"]\n\
                   \x20     environment: { A: one, B: \"two three\" }\n\
                   \x20     set-up: [\"sleep 1001 & true\"]\n      ports: [{ veth: near }, { veth: far }]\n";
    for word in ["rings", "manager", "veth", "ovs"] {
        chain_around(&dir, between, &format!("interconnect: {word}\n"));
        let before = host();
        let ports = ["--port", "lan=tap:ofun0", "--port", "wan=tap:ofun1"];
        let running = Running::start(&dir, &ports);
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
        ("routes: [nonsense]", "ip route add nonsense: "),
        (
            "sysctls: { net.ipv4.nonsense: 1 }",
            "sysctl net.ipv4.nonsense=1",
        ),
    ] {
        let err = said(&format!("{{ {wrong}, {good} }}"), "run", 2);
        assert!(err.contains(told), "{wrong}: {err}");
    }
}
