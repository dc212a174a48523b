//! `onefold verify`, end to end.

use crate::common;

use common::{json, root, run, temp};

#[test]
fn examples_verify_on_generated_packets() {
    for chain in ["l3fwd", "napt-fw-lb"] {
        let args = ["verify", chain, "--packets", "3000", "--level", "all", "-q"];
        let v = json(&root(), 0, &args);
        assert_eq!(v["differences"], 0, "{v}");
        // all levels; a flow table's packets come again, about as many as were asked for in all
        let of = |i: usize| v["levels"][i]["packets"].as_u64().unwrap();
        assert_eq!((of(0), of(1)), (3000, 3000), "{v}");
        assert!(
            (1500..6000).contains(&of(2)) && (1500..6000).contains(&of(3)),
            "{v}"
        );
        // the last one is what `run` does: every level has packets
        let by_level = v["levels"][3]["by_level"].as_object().unwrap();
        assert!(by_level.values().all(|n| n.as_u64() > Some(20)), "{v}");
        assert!(v["classes_hit"].as_u64().unwrap() > 2, "{v}");
        assert!(v["bounds_hit"].as_u64() <= v["bounds"].as_u64());
        assert!(v["bounds"].as_u64().unwrap() > 100, "{v}");
        assert!(v["punted_packets"].as_u64().unwrap() < 1500, "{v}");
        for missing in v["not_hit"].as_array().unwrap() {
            assert!(
                missing["reason"].as_str().is_some_and(|r| !r.is_empty()),
                "{v}"
            );
        }
    }
}

/// Flows that come again, varied at the guards, with a large table and one that forgets.
#[test]
fn the_flow_table_on_example_chains() {
    let chains = [
        "l2fwd",
        "l3fwd",
        "fw10",
        "fw-l3fwd",
        "routers-1",
        "routers-3",
        "napts-1",
        "napts-4",
        "napt-fw-lb",
        "router-nat-lb",
        "campus-dpi",
        "ipv6-edge",
        "kitchen-sink",
        "isp-edge",
    ];
    for chain in chains {
        for table in ["131072", "64"] {
            let args = [
                "verify",
                chain,
                "--level",
                "flow",
                "--packets",
                "6000",
                "--flow-table",
                table,
                "-q",
            ];
            let v = json(&root(), 0, &args);
            let t = &v["levels"][0]["flow_table"];
            assert_eq!(
                (&v["differences"], &t["refused"]),
                (&0.into(), &0.into()),
                "{v}"
            );
            assert!(t["hits"].as_u64().unwrap() > 20, "{chain}: {t}");
        }
    }
}

#[test]
fn captures_verify_and_the_seed_makes_the_packets() {
    let dir = temp("verify");
    json(
        &dir,
        0,
        &[
            "gen",
            "--out",
            "lan.pcap",
            "--packets",
            "2000",
            "--flows",
            "50",
        ],
    );
    let args = [
        "verify",
        "isp-edge",
        "--in",
        "lan=lan.pcap",
        "--level",
        "reference",
        "-q",
    ];
    let v = json(&dir, 0, &args);
    assert_eq!(
        (&v["packets"], &v["differences"]),
        (&2000.into(), &0.into())
    );
    let with = |seed: &str| {
        let args = [
            "verify",
            "l3fwd",
            "--packets",
            "500",
            "--level",
            "program",
            "-q",
            "--seed",
            seed,
        ];
        json(&root(), 0, &args)["levels"][0]["with_output"].clone()
    };
    assert_eq!(with("5"), with("5"));
}

#[test]
fn what_is_not_there_is_said() {
    let (_, err) = run(&root(), 2, &["verify", "l2fwd", "--in", "nowhere=x.pcap"]);
    assert!(err.contains("x.pcap") || err.contains("no port"), "{err}");
}

/// The program is proved to be the chain; another text is refuted, with a packet that `trace` takes.
#[test]
fn programs_are_proved_and_refuted() {
    let v = json(&root(), 0, &["verify", "l3fwd", "--prove", "-q"]);
    assert_eq!(v["verdict"], "proved", "{v}");
    let space = &v["header_space"];
    let (proved, punted) = (space["proved"].as_f64(), space["punted"].as_f64());
    assert!(
        (proved.unwrap() + punted.unwrap() - 1.0).abs() < 1e-6,
        "{v}"
    );
    assert_eq!(space["unknown"].as_f64(), Some(0.0), "{v}");
    let (text, _) = run(&root(), 0, &["explain", "l3fwd", "--program"]);
    let dir = temp("verify-prove");
    let other = dir.join("other.txt");
    std::fs::write(&other, text.replace("ip.ttl <= 1", "ip.ttl <= 2")).unwrap();
    let other = other.to_str().unwrap();
    let args = ["verify", "l3fwd", "--prove", "-q", "--program", other];
    let v = json(&root(), 1, &args);
    assert_eq!(v["verdict"], "refuted", "{v}");
    assert_eq!(v["differences"], 1, "{v}");
    let packet = &v["counterexample"]["packets"][0];
    let (port, hex) = (
        packet["port"].as_str().unwrap(),
        packet["packet"].as_str().unwrap(),
    );
    let t = json(
        &root(),
        0,
        &["trace", "l3fwd", "--hex", &format!("{port}={hex}")],
    );
    assert!(!t["steps"].as_array().unwrap().is_empty(), "{t}");
    // what is no program, or one for another chain
    std::fs::write(dir.join("bad.txt"), "onefold program 1\nstage").unwrap();
    let bad = dir.join("bad.txt");
    run(
        &root(),
        2,
        &[
            "verify",
            "l3fwd",
            "--prove",
            "--program",
            bad.to_str().unwrap(),
        ],
    );
    run(
        &root(),
        2,
        &["verify", "l2fwd", "--prove", "--program", other],
    );
}

/// A capture for other machines: as it is nothing passes, adapted it does and is answered.
#[test]
fn captures_of_other_networks_are_adapted() {
    let dir = temp("verify-adapt");
    let gen_args = [
        "gen",
        "--out",
        "x.pcap",
        "--packets",
        "300",
        "--flows",
        "20",
    ];
    json(&dir, 0, &gen_args);
    // for another MAC address
    let reader = onefold_capture::CaptureReader::open(dir.join("x.pcap")).unwrap();
    let mut w = onefold_capture::CaptureWriter::create_for(
        dir.join("y.pcap"),
        onefold_capture::LinkType::ETHERNET,
    )
    .unwrap();
    for f in reader.map_while(Result::ok) {
        let mut data = f.data;
        data[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
        w.write(f.ts_ns, &data, data.len() as u32).unwrap();
    }
    w.finish().unwrap();
    let args = ["verify", "ipv6-edge", "--in", "lan=y.pcap", "--adapt", "-q"];
    let v = json(&dir, 0, &args);
    assert_eq!(v["differences"], 0, "{v}");
    let levels = v["levels"].as_array().unwrap();
    let level = levels.iter().find(|l| l["level"] == "program").unwrap();
    let of = |what: &str| {
        let all = level["adapted"].as_array().unwrap();
        let row = all
            .iter()
            .find(|r| r["frames"].as_str().unwrap().contains(what));
        let row = row.unwrap_or_else(|| panic!("no frames {what}: {level}"));
        (
            row["packets"].as_u64().unwrap(),
            row["with_output"].as_u64().unwrap(),
        )
    };
    assert_eq!(of("as they are"), (300, 0));
    assert!(of("MAC address").0 == 300);
    let passed = of("MAC address").1 + of("addresses").1;
    assert!(passed > 150, "{level}");
    assert!(of("answers").0 > 100, "{level}");
    // the same forms run, but for answers
    let r = json(
        &dir,
        0,
        &["run", "ipv6-edge", "--in", "lan=y.pcap", "--adapt", "-q"],
    );
    let fed = of("as they are").0 + of("MAC address").0 + of("with addresses").0;
    assert_eq!(r["packets_in"].as_u64(), Some(fed), "{r}");
    assert!(r["packets_out"].as_u64().unwrap() >= passed, "{r}");
    let (_, err) = run(&root(), 2, &["verify", "l2fwd", "--adapt"]);
    assert!(err.contains("--in"), "{err}");
}

/// A program in two parts, each in a file of its own, is proved and tried like a whole one; a part alone, or the parts
/// the wrong way round, are refused.
#[test]
fn programs_in_parts() {
    let dir = temp("verify-parts");
    let args = [
        "explain",
        "napt-fw-lb",
        "--program",
        "--split-at",
        "classes",
    ];
    let (text, _) = run(&root(), 0, &args);
    let middle = text.rfind("onefold program 1").expect("two parts");
    let (first, second) = text.split_at(middle);
    for (name, part) in [("all", &text[..]), ("first", first), ("second", second)] {
        std::fs::write(dir.join(name), part).unwrap();
    }
    let v = json(
        &dir,
        0,
        &["verify", "napt-fw-lb", "--prove", "--program", "all"],
    );
    assert_eq!(v["verdict"], "proved", "{v}");
    let two = ["--program", "first", "--program", "second", "-q"];
    let v = json(
        &dir,
        0,
        &[&["verify", "napt-fw-lb", "--prove"], &two[..]].concat(),
    );
    assert_eq!(v["verdict"], "proved", "{v}");
    let packets = ["verify", "napt-fw-lb", "--packets", "3000"];
    let v = json(&dir, 0, &[&packets, &two[..]].concat());
    assert_eq!(v["differences"], 0, "{v}");
    // a wrong delta in the second part is shown by packets, too
    let wrong = second.replacen("to ip.ttl - 1", "to ip.ttl - 2", 1);
    assert_ne!(wrong, second);
    std::fs::write(dir.join("wrong"), wrong).unwrap();
    let two = ["--program", "first", "--program", "wrong", "-q"];
    let v = json(
        &dir,
        1,
        &[&["verify", "napt-fw-lb", "--prove"], &two[..]].concat(),
    );
    assert_eq!(v["verdict"], "refuted", "{v}");
    json(&dir, 1, &[&packets, &two[..]].concat());
    for wrong in [&["first"][..], &["second", "first"]] {
        let mut args = vec!["verify", "napt-fw-lb", "--prove"];
        args.extend(wrong.iter().flat_map(|f| ["--program", *f]));
        let (_, err) = run(&dir, 2, &args);
        assert!(err.contains("no later part takes them"), "{err}");
    }
}

/// A proof does not swallow what is asked about packets: with --packets or --level both are done, and told in one
/// object.
#[test]
fn a_proof_and_a_comparison_at_once() {
    let prove = ["verify", "l3fwd", "--prove", "-q"];
    let alone = json(&root(), 0, &prove);
    assert_eq!(alone["verdict"], "proved", "{alone}");
    assert!(
        alone["levels"].is_null() && alone["packets"].is_null(),
        "{alone}"
    );
    let with = ["--level", "flow", "--packets", "2000"];
    let both = json(&root(), 0, &[&prove[..], &with[..]].concat());
    assert_eq!(both["verdict"], "proved", "{both}");
    assert_eq!(both["differences"], 0, "{both}");
    assert_eq!(both["levels"][0]["level"], "flow", "{both}");
    assert!(both["levels"][1].is_null(), "{both}");
    let (out, _) = run(&root(), 0, &[&prove[..], &["--packets", "500"]].concat());
    for line in [
        "l3fwd: proved",
        "what run does and the reference graph",
        "no difference",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    // a given program is what both judge
    let dir = temp("verify-both");
    let (text, _) = run(&root(), 0, &["explain", "l2fwd", "--program"]);
    let other = dir.join("other.txt");
    std::fs::write(&other, text).unwrap();
    let other = other.to_str().unwrap();
    let given = ["--program", other, "--level", "program", "--packets", "500"];
    let l2 = [&["verify", "l2fwd", "--prove", "-q"], &given[..]].concat();
    assert_eq!(json(&root(), 0, &l2)["packets"], 500);
}

/// What is wrong with a chain is said once, although it is proved and compared.
#[test]
fn a_proof_and_a_comparison_warn_once() {
    let dir = temp("verify-once");
    let text = "functions:\n  fw:\n    firewall:\n      rules: [allow tcp && dst port 80 or udp]\n\
                ports:\n  a: fw[0]\n  b: fw[1]\n";
    std::fs::write(dir.join("c.yaml"), text).unwrap();
    let args = ["verify", "c.yaml", "--prove", "-q", "--packets", "200"];
    let (_, err) = run(&dir, 0, &args);
    assert_eq!(err.matches("warning:").count(), 1, "{err}");
}

/// Ctrl-C while packets for rules are being prepared: the report comes, and the status says that it is not all.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_while_preparing_ends_with_the_report() {
    use std::process::{Command, Stdio};
    use std::time::Duration;
    let args = [
        "verify",
        "isp-edge",
        "--packets",
        "10000000",
        "--json",
        "-q",
    ];
    let child = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .current_dir(root())
        .args(args)
        .args(["--level", "program"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    wait_for_handler(child.id());
    std::thread::sleep(Duration::from_millis(300));
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.expect("kill runs").success());
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(130));
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one object");
    assert_eq!(v["levels"][0]["interrupted"], true, "{v}");
    assert_eq!(v["differences"], 0, "{v}");
    // the packets of one word about how far it is, at most
    assert!(v["packets"].as_u64().unwrap() <= 256, "{v}");
    let not_hit = v["not_hit"].as_array().unwrap();
    let told = |r: &serde_json::Value| r["reason"].as_str().unwrap().contains("interrupted");
    assert!(not_hit.iter().any(told), "{v}");
}

/// Waits until a process has a handler of its own for Ctrl-C, half a minute at most.
#[cfg(target_os = "linux")]
fn wait_for_handler(id: u32) {
    let has_handler = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
        u64::from_str_radix(caught.unwrap().trim(), 16).unwrap() & 2 != 0
    };
    for _ in 0..6000 {
        if has_handler() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// What service managers send ends a command as Ctrl-C does, with a status of its own; the report is printed.
#[test]
#[cfg(target_os = "linux")]
fn sigterm_ends_a_run_with_its_report() {
    use std::process::{Command, Stdio};
    let child = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .args([
            "click",
            "-h",
            "n.count",
            "-e",
            "InfiniteSource -> n :: Counter -> Discard",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    wait_for_handler(child.id());
    std::thread::sleep(std::time::Duration::from_millis(300));
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status();
    assert!(sent.expect("kill runs").success());
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(143));
    let count = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        count
            .trim()
            .lines()
            .last()
            .is_some_and(|n| n.parse::<u64>().is_ok()),
        "{count}"
    );
}
