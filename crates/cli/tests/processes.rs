//! Functions in processes of their own: what comes out is what comes out of one process, whatever ends meanwhile is
//! accounted for, and nothing is left behind.

use crate::common;

use common::captures::{Frames, read, write};
use common::running::{Running, exists, json, kill, wait_until};
use common::{root, run, temp};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The ISP edge with these functions in processes; `more` goes with each of them.
fn isp_edge(dir: &Path, functions: &[&str], more: &str) -> String {
    let text = std::fs::read_to_string(root().join("chains/isp-edge/chain.yaml")).unwrap();
    let rules = root().join("chains/isp-edge/acl-713.rules");
    let some = std::fs::read_to_string(rules).unwrap();
    let some: Vec<&str> = some.lines().take(40).collect();
    std::fs::write(dir.join("some.rules"), some.join("\n")).unwrap();
    let mut text = text.replace("acl-713.rules", "some.rules");
    for f in functions {
        let key = format!("\n  {f}:\n");
        assert!(text.contains(&key), "{f}");
        text = text.replace(&key, &format!("{key}    run: process\n{more}"));
    }
    let file = dir.join(format!("{}.yaml", functions.join("-")));
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// Packets for the ISP edge, both ways.
fn captures(dir: &Path, packets: u32) -> (PathBuf, PathBuf) {
    let plain = isp_edge(dir, &[], "");
    let (lan, wan) = (dir.join("lan.pcap"), dir.join("wan.pcap"));
    let n = packets.to_string();
    let (out, back) = (lan.to_str().unwrap(), wan.to_str().unwrap());
    let args = [
        "gen",
        "--for",
        &plain,
        "--out",
        out,
        "--reverse",
        back,
        "--packets",
        &n,
    ];
    run(dir, 0, &[&args[..], &["--flows", "40", "--quiet"]].concat());
    (lan, wan)
}

/// What leaves at both ports, and the report.
fn through(dir: &Path, chain: &str, more: &[&str]) -> (Frames, Frames, serde_json::Value) {
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
    let (lan, wan) = (
        read(&dir.join("to-lan.pcap")),
        read(&dir.join("to-wan.pcap")),
    );
    (lan, wan, json(&text))
}

#[test]
fn what_comes_out_is_what_comes_out_of_one_process() {
    let dir = temp("processes-same");
    captures(&dir, 250);
    let plain = isp_edge(&dir, &[], "");
    let (lan, wan, one) = through(&dir, &plain, &["--mode", "reference"]);
    assert!(lan.len() > 100 && wan.len() > 100);
    for (functions, names) in [
        (&["fw", "router", "nat"][..], &["fw", "router", "nat"][..]),
        (&["nat"], &["fw+router", "nat"]),
        (&["router"], &["fw", "router", "nat"]),
    ] {
        let chain = isp_edge(&dir, functions, "");
        // rings of any length
        let mode = match functions.len() {
            3 => ["--mode", "auto", "--ring", "64"],
            _ if names.len() == 2 => ["--mode", "reference", "--ring", "16384"],
            _ => ["--mode", "auto", "--ring", "1024"],
        };
        let (l, w, all) = through(&dir, &chain, &mode);
        assert!(l == lan && w == wan, "{functions:?} in processes");
        for key in [
            "packets_in",
            "packets_out",
            "dropped",
            "drops",
            "ports",
            "created",
            "held",
            "links",
            "alerts",
        ] {
            assert_eq!(all[key], one[key], "{functions:?}: {key}");
        }
        // the policy stands in the chain's file
        let decided = |v: &serde_json::Value| -> Vec<_> {
            let rules = v["rules"].as_array().unwrap().iter();
            rules
                .map(|r| {
                    [&r["element"], &r["text"], &r["packets"], &r["bytes"]].map(|v| v.to_string())
                })
                .collect()
        };
        assert_eq!(decided(&all), decided(&one), "{functions:?}");
        let hits = |r: &serde_json::Value| r["packets"].as_u64() > Some(0);
        assert!(all["rules"].as_array().unwrap().iter().any(hits));
        assert_eq!(all["conserved"], true);
        let processes = all["processes"].as_array().unwrap();
        let found: Vec<&str> = processes
            .iter()
            .filter_map(|p| p["name"].as_str())
            .collect();
        assert_eq!(found, names);
    }
}

/// Rules on payloads in a process: alerts of captures as in one process, and the page has them.
#[test]
fn alerts_and_pages_are_as_those_of_one_process() {
    let dir = temp("processes-alerts");
    let several = "functions:\n  a: { run: process, monitor: {} }\n  dpi:\n    run: process\n    dpi:\n      \
                   patterns:\n        - { name: marker, action: alert, text: EVIL }\n\
                   links:\n  - a[1] <-> [0]dpi\nports: { l: \"a[0]\", r: \"dpi[1]\" }\n";
    let one = several
        .replace(" run: process,", "")
        .replace("    run: process\n", "");
    std::fs::write(dir.join("one.yaml"), one).unwrap();
    std::fs::write(dir.join("several.yaml"), several).unwrap();
    let made = [
        "gen",
        "--out",
        "in.pcap",
        "--packets",
        "20",
        "--flows",
        "4",
        "--size",
        "200",
        "--quiet",
    ];
    run(
        &dir,
        0,
        &[&made[..], &["--needle", "EVIL", "--needle-share", "1"]].concat(),
    );
    let said = |name: &str| {
        let (file, eve, page) = (
            format!("{name}.yaml"),
            format!("{name}.eve"),
            format!("{name}.html"),
        );
        let args = [
            "run",
            &file,
            "--in",
            "l=in.pcap",
            "--json",
            "--quiet",
            "--alerts",
            &eve,
            "--html",
            &page,
        ];
        let (text, _) = run(&dir, 0, &args);
        let read = |f: &str| std::fs::read_to_string(dir.join(f)).unwrap();
        (json(&text), read(&eve), read(&page))
    };
    let (one, several) = (said("one"), said("several"));
    assert_eq!(one.0["alerts"][0]["packets"], 12, "{}", one.0);
    let named = |v: &serde_json::Value| v.to_string().replace("several.yaml", "one.yaml");
    assert_eq!(one.0["alerts"][0]["message"], "marker");
    assert_eq!(one.0["links"], several.0["links"]);
    assert_eq!(one.1.lines().count(), 12);
    assert_eq!(
        one.1.replace("\"line\":6", ""),
        several
            .1
            .replace("several.yaml", "one.yaml")
            .replace("\"line\":7", "")
    );
    assert_eq!(
        named(&one.0["alerts"]).replace("\"line\":6", ""),
        named(&several.0["alerts"]).replace("\"line\":7", "")
    );
    for page in [&one.2, &several.2] {
        assert!(page.contains("<h2>Alerts</h2><table>"), "{page}");
        assert!(page.contains(r#""links":[{"from":"a[1]""#), "{page}");
    }
}

/// Packets that turn back within the chain (ICMP errors): one at a time, all is as in one process, whoever answers.
#[test]
fn one_at_a_time_it_is_the_same_for_packets_that_turn_back() {
    let dir = temp("processes-turn");
    let (lan, _) = captures(&dir, 40);
    let mut frames = read(&lan);
    for (i, (_, f)) in frames.iter_mut().enumerate() {
        if i % 3 == 0 {
            // the router counts it down, and its checksum stays right
            let down = f[22] - 1;
            f[22] = 1;
            let sum = u32::from(u16::from_be_bytes([f[24], f[25]])) + (u32::from(down) << 8);
            let sum = (sum & 0xffff) + (sum >> 16);
            f[24..26].copy_from_slice(&(sum as u16).to_be_bytes());
        }
    }
    write(&lan, &frames);
    let plain = isp_edge(&dir, &[], "");
    let one = through(&dir, &plain, &["--batch", "1", "--mode", "reference"]);
    assert!(one.2["created"].as_u64() > Some(5), "{}", one.2);
    let chain = isp_edge(&dir, &["fw", "router", "nat"], "");
    let all = through(&dir, &chain, &["--batch", "1", "--mode", "reference"]);
    assert!(one.0 == all.0 && one.1 == all.1);
    assert_eq!(one.2["drops"], all.2["drops"]);
}

/// Frames of all lengths, none to many slots: they cross as they are.
#[test]
fn frames_of_any_length_cross() {
    let dir = temp("processes-long");
    let text = "functions:\n  a: { monitor: {}, run: process }\n  b: { monitor: {} }\n\
                \x20 c: { monitor: {}, run: process }\nlinks:\n  - a[1] <-> [0]b[1] <-> [0]c\n\
                ports:\n  lan: a[0]\n  wan: c[1]\n";
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
    let lengths = [0, 1, 13, 14, 60, 2047, 2048, 2049, 4096, 9000, 65_535];
    let frames: Frames = (0..200)
        .map(|i: usize| {
            let n = lengths[i * 7 % lengths.len()];
            let bytes = (0..n).map(|b| (b * 31 + i) as u8);
            (1_000_000 * i as i64 + 1_000_000, bytes.collect())
        })
        .collect();
    write(&dir.join("lan.pcap"), &frames);
    write(&dir.join("wan.pcap"), &frames[..100]);
    let (lan, wan, v) = through(&dir, "chain.yaml", &[]);
    assert!(wan == frames && lan == frames[..100], "{v}");
}

#[test]
fn what_a_chain_file_says_wrongly_of_processes_is_told() {
    let dir = temp("processes-check");
    let said = |functions: &[&str], more: &str, replace: (&str, &str)| {
        let file = isp_edge(&dir, functions, more);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace(replace.0, replace.1)).unwrap();
        let (_, err) = run(&dir, 2, &["check", &file]);
        err
    };
    let near = said(&["nat"], "", ("run: process", "run: proces"));
    assert!(
        near.contains("unknown word 'proces'") && near.contains("did you mean"),
        "{near}"
    );
    assert!(near.contains("nat.yaml:"), "{near}");
    let kind = said(&["nat"], "", ("run: process", "run: external"));
    assert!(
        kind.contains("run: external is for programs of others"),
        "{kind}"
    );
    let word = said(&["nat"], "", ("links:", "interconnect: rope\nlinks:"));
    assert!(
        word.contains("interconnect: unknown word 'rope'")
            && word.contains("rings, manager, veth, ovs"),
        "{word}"
    );
    let around = "    on-crash: bypass\n";
    let wired = said(&["nat"], around, ("links:", "interconnect: veth\nlinks:"));
    assert!(wired.contains("nat cannot be bypassed there"), "{wired}");
    let cores = "cores: { plan: single-core, switch: 0, functions: [1] }\nlinks:";
    let several = said(&["nat"], "", ("links:", cores));
    assert!(
        several.contains("the single-core plan has one core"),
        "{several}"
    );
    let inline = said(
        &["nat"],
        "    affinity: 0\n",
        ("run: process", "run: inline"),
    );
    assert!(
        inline.contains("affinity is of functions in processes"),
        "{inline}"
    );
    let word = said(&["nat"], "    on-crash: bypas\n", ("", ""));
    assert!(word.contains("unknown word 'bypas'"), "{word}");
    let good = isp_edge(
        &dir,
        &["nat", "router"],
        "    affinity: 0\n    on-crash: bypass\n",
    );
    let (out, _) = run(&dir, 0, &["check", &good]);
    assert!(out.contains("process"), "{out}");
    let (lan, _) = captures(&dir, 10);
    let file = format!("lan={}", lan.display());
    let (_, err) = run(&dir, 2, &["run", &good, "--in", &file, "--workers", "2"]);
    assert!(err.contains("--workers is not there yet"), "{err}");
}

/// A function ends again and again while packets go through, and without being asked; everything is accounted for, and
/// what was not in its hands comes out.
#[test]
fn a_process_that_ends_is_launched_again_and_loses_what_it_had() {
    let dir = temp("processes-kill");
    captures(&dir, 1500);
    for (policy, more) in [("wait", ""), ("bypass", "    on-crash: bypass\n")] {
        // stateless: what comes after it does not depend on what it knew
        let chain = isp_edge(&dir, &["fw"], more);
        let files = ["--in", "lan=lan.pcap", "--in", "wan=wan.pcap"];
        let running = Running::start(&dir, &chain, &[&files[..], &["--batch", "8"]].concat());
        let mut last = running.of("fw");
        let mut killed = 0;
        for _ in 0..3 {
            kill(last);
            killed += 1;
            let begun = Instant::now();
            let next = loop {
                match running.now(last) {
                    Some(next) => break Some(next),
                    None if begun.elapsed() > Duration::from_secs(3) => break None,
                    None => std::thread::sleep(Duration::from_millis(2)),
                }
            };
            // the packets may all have gone by now
            match next {
                Some(next) => last = next,
                None => break,
            }
        }
        let v = running.report();
        assert_eq!(v["conserved"], true, "{v}");
        let fw = &v["processes"][0];
        assert_eq!(fw["name"], "fw");
        assert!(fw["restarts"].as_u64() >= Some(1), "{policy}: {killed} {v}");
        let lost = fw["lost"].as_u64().unwrap();
        // a batch at a time is in its hands
        assert!(lost <= 8 * killed, "{v}");
        let bypassed = fw["bypassed"].as_u64();
        assert_eq!(bypassed > Some(0), policy == "bypass", "{v}");
        let ended = v["drops"]["process ended"].as_u64().unwrap_or(0);
        assert!(ended >= lost, "{v}");
        assert!(v["packets_out"].as_u64() > Some(1000), "{v}");
    }
}

/// An example of the C library, compiled; `None`: there is no C compiler.
fn example(dir: &Path, name: &str) -> Option<PathBuf> {
    // the library is built with this test
    let _ = onefold_nf_c::DROP;
    if Command::new("cc").arg("--version").output().is_err() {
        onefold_testing::skip("no C compiler (cc)");
        return None;
    }
    let test = std::env::current_exe().unwrap();
    let mut dirs = test.ancestors().skip(1).take(2);
    let library = dirs.find_map(|d| Some(d.join("libonefold_nf_c.a")).filter(|f| f.exists()));
    let sources = root().join("crates/nf-c");
    let out = dir.join(name);
    let made = Command::new("cc")
        .arg("-D_POSIX_C_SOURCE=200809L")
        .arg("-I")
        .arg(sources.join("include"))
        .arg(sources.join(format!("examples/{name}.c")))
        .arg(library.expect("the library"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&out)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{said}");
    Some(out)
}

/// A program in C between two functions of Onefold's: launched by `run`, its packets mirrored and accounted for.
/// Nothing but `run` claims to know what it does.
#[test]
fn a_program_of_its_own_in_a_chain() {
    let dir = temp("processes-native");
    if example(&dir, "mirror").is_none() {
        return;
    }
    let text = "functions:\n  a: { monitor: {} }\n  b: { native: { command: [./mirror] } }\n  c: { monitor: {} }\n\
                links:\n  - a[1] <-> [0]b[1] <-> [0]c\nports:\n  lan: a[0]\n  wan: c[1]\n";
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
    let frames: Frames = (0..300i64)
        .map(|i| {
            let n = if i % 10 == 0 { 11 } else { 60 };
            (
                1_000_000 * (i + 1),
                (0..n)
                    .map(|b: i64| (b as u8).wrapping_add(i as u8))
                    .collect(),
            )
        })
        .collect();
    write(&dir.join("lan.pcap"), &frames);
    write(&dir.join("wan.pcap"), &frames[..100]);
    let (lan, wan, v) = through(&dir, "chain.yaml", &[]);
    let whole = frames.iter().filter(|f| f.1.len() == 60);
    let swapped = whole.map(|(at, f)| (*at, [&f[6..12], &f[..6], &f[12..]].concat()));
    let swapped: Frames = swapped.collect();
    assert!(wan == swapped && lan == swapped[..90], "{v}");
    assert_eq!(v["drops"]["dropped by the program"], 40);
    assert_eq!(v["conserved"], true);
    let (_, err) = run(&dir, 2, &["verify", "chain.yaml"]);
    assert!(err.contains("b is a program of its own"), "{err}");
    let (out, _) = run(&dir, 0, &["check", "chain.yaml"]);
    assert!(out.contains("process b"), "{out}");
    std::fs::write(dir.join("chain.yaml"), text.replace("./mirror", "./absent")).unwrap();
    let (_, err) = run(
        &dir,
        2,
        &["run", "chain.yaml", "--in", "lan=lan.pcap", "--quiet"],
    );
    assert!(err.contains("b: launching"), "{err}");
}

#[test]
fn nothing_outlives_a_launcher_that_is_killed() {
    let dir = temp("processes-launcher");
    captures(&dir, 1500);
    let chain = isp_edge(&dir, &["fw", "router", "nat"], "");
    let files = [
        "--in",
        "lan=lan.pcap",
        "--in",
        "wan=wan.pcap",
        "--batch",
        "1",
    ];
    let running = Running::start(&dir, &chain, &files);
    assert_eq!(running.kids.len(), 3);
    kill(running.child.id());
    for (id, name) in running.kids.clone() {
        wait_until(&format!("{name} ends"), || !exists(id));
    }
}

/// 64 frames of 60 bytes.
fn frames() -> Frames {
    let one = |i: u8| (i64::from(i) * 1000 + 1, (0..60).map(|b| b ^ i).collect());
    (0..64).map(one).collect()
}

/// A function that logs is ended by SIGTERM, launched again, and ended with its run by SIGTERM: every packet that has
/// come out is in its file, in order.
#[test]
fn what_a_function_logs_is_whole_however_it_is_ended() {
    let dir = temp("processes-logger");
    if example(&dir, "logger").is_none() {
        return;
    }
    write(&dir.join("in.pcap"), &frames());
    let text = "functions:\n  log: { native: { command: [./logger, log.bin, '64', '20000'] } }\n\
                ports:\n  lan: log[0]\n  wan: log[1]\n";
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
    let ports = [
        "--port",
        "lan=memory:in.pcap,rate=20k",
        "--port",
        "wan=memory:",
    ];
    let running = Running::start(&dir, "chain.yaml", &ports);
    let log = dir.join("log.bin");
    let records = || std::fs::metadata(&log).map_or(0, |m| m.len() / 16);
    let terminate = |id: u32| {
        let done = Command::new("kill")
            .args(["-TERM", &id.to_string()])
            .status();
        assert!(done.is_ok_and(|s| s.success()));
    };
    wait_until("packets are logged", || records() > 1000);
    let first = running.of("log");
    terminate(first);
    wait_until("it has ended", || !exists(first));
    let had = records();
    wait_until("another one goes on", || records() > had + 1000);
    terminate(running.child.id());
    let v = running.report_of(143);
    assert_eq!(v["conserved"], true, "{v}");
    let process = &v["processes"][0];
    assert_eq!(
        (&process["restarts"], &process["lost"]),
        (&1.into(), &0.into()),
        "{v}"
    );
    assert!(
        process["storage_waits"].is_u64() && process["in_storage"] == false,
        "{v}"
    );
    let bytes = std::fs::read(&log).unwrap();
    let out = v["packets_out"].as_u64().unwrap();
    // what has found its way out, and what had no room there
    let (logged, dropped) = (records(), v["dropped"].as_u64().unwrap());
    assert!(
        out <= logged && logged <= out + dropped,
        "{logged} logged: {v}"
    );
    for (i, r) in bytes.chunks(16).enumerate() {
        assert_eq!(
            r[..8],
            [(i as u32).to_ne_bytes(), 60u32.to_ne_bytes()].concat(),
            "{i}"
        );
        // which frame of the 64 it was
        assert!((0..8).all(|b| r[8 + b] ^ b as u8 == r[8]), "{i}");
    }
}

/// A port of a chain in processes is captured, and what is not done there says why.
#[test]
fn a_port_is_captured_and_the_rest_says_why_not() {
    let dir = temp("processes-capture");
    write(&dir.join("in.pcap"), &frames());
    let text = "functions:\n  f: { run: process, monitor: {} }\n  g: { run: process, monitor: {} }\n\
                links:\n  - f[1] <-> [0]g\nports:\n  lan: f[0]\n  wan: g[1]\n";
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
    let ports = [
        "--port",
        "lan=memory:in.pcap,rate=2k",
        "--port",
        "wan=memory:",
    ];
    let more = [&["--control", "socket"], &ports[..]].concat();
    let running = Running::start(&dir, "chain.yaml", &more);
    let ask = |status: i32, args: &[&str]| {
        let (command, rest) = args.split_first().unwrap();
        run(
            &dir,
            status,
            &[&[*command, "--socket", "socket"], rest].concat(),
        )
    };
    for port in ["lan", "wan"] {
        ask(
            0,
            &[
                "capture",
                "--port",
                port,
                "--count",
                "100",
                "-w",
                "out.pcapng",
            ],
        );
        let got = read(&dir.join("out.pcapng"));
        assert_eq!(got.len(), 100, "{port}");
        let all = frames();
        let first = all.iter().position(|f| f.1 == got[0].1).unwrap();
        for (i, (_, f)) in got.iter().enumerate() {
            assert!(*f == all[(first + i) % 64].1, "{port}: packet {i}");
        }
    }
    let (_, err) = ask(2, &["capture", "--port", "dmz", "--count", "1"]);
    assert!(err.contains("no port 'dmz'"), "{err}");
    for (args, why) in [
        (
            &["capture", "--drop", "x", "--count", "1"][..],
            "capture by --port",
        ),
        (&["reload"], "end the run and start it again"),
        (
            &["rule", "add", "deny all"],
            "end the run and start it again",
        ),
    ] {
        let (_, err) = ask(1, args);
        assert!(err.contains(why), "{args:?}: {err}");
    }
    ask(0, &["status"]);
    let done = Command::new("kill")
        .args(["-INT", &running.child.id().to_string()])
        .status();
    assert!(done.is_ok_and(|s| s.success()));
    assert_eq!(running.report_of(130)["conserved"], true);
}
