//! Scheduling policies at work on functions in processes: levers that are set and put back, chains that are shed by
//! name, marks, and functions that stall, end, or do not let others run.

#[path = "../common/mod.rs"]
mod common;
mod figures;
mod ways;

use common::captures::{Frames, write};
use common::running::{Running, exists, kill, wait_until};
use common::{run, temp};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One run at a time: functions in real time of several runs would be on one core.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Real time, control groups: the user's who has them.
fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        onefold_testing::skip("scheduling in real time and control groups take root");
    }
    root
}

/// IPv4 frames of 60 bytes that are ECN-capable.
fn packets(dir: &Path) {
    let frames: Frames = (0..64u8)
        .map(|i| {
            let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
            let mut ip = vec![
                0x45, 2, 0, 46, 0, i, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
            ];
            let sum: u32 = ip
                .chunks(2)
                .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
                .sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
            f.extend(ip);
            f.extend([0, 7, 0, 9, 0, 26, 0, 0]);
            f.resize(60, i);
            (i64::from(i) * 1000 + 1, f)
        })
        .collect();
    write(&dir.join("in.pcap"), &frames);
}

/// A chain of burners, each with these options, one behind the other.
fn line(dir: &Path, name: &str, burners: &[&str], more: &str) -> String {
    let mut text = String::from("functions:\n");
    for (i, b) in burners.iter().enumerate() {
        let words: Vec<String> = b.split(' ').map(|w| format!("'{w}'")).collect();
        text += &format!(
            "  f{i}: {{ native: {{ command: [onefold, burn, {}] }} }}\n",
            words.join(", ")
        );
    }
    if burners.len() > 1 {
        text += "links:\n";
    }
    for i in 1..burners.len() {
        text += &format!("  - f{}[1] <-> [0]f{i}\n", i - 1);
    }
    text += &format!(
        "ports:\n  lan: f0[0]\n  wan: f{}[1]\n{more}",
        burners.len() - 1
    );
    std::fs::write(dir.join(name), text).unwrap();
    packets(dir);
    name.to_string()
}

/// Two functions on one core, each a chain of its own.
fn two(dir: &Path, first: &str, second: &str) -> String {
    let command = |b: &str| {
        let words: Vec<String> = b.split(' ').map(|w| format!("'{w}'")).collect();
        format!(
            "{{ native: {{ command: [onefold, burn, {}] }} }}",
            words.join(", ")
        )
    };
    let text = format!(
        "functions:\n  f0: {}\n  f1: {}\nports:\n  lan: f0[0]\n  lan-out: f0[1]\n  dmz: f1[0]\n  dmz-out: f1[1]\n",
        command(first),
        command(second)
    );
    std::fs::write(dir.join("two.yaml"), text).unwrap();
    packets(dir);
    "two.yaml".to_string()
}

/// A run on frames that come again and again, with a control socket of its own.
fn start(dir: &Path, chain: &str, ports: &[&str], rate: &str, more: &[&str]) -> Running {
    let bound: Vec<String> = ports
        .iter()
        .map(|p| format!("{p}=memory:in.pcap,rate={rate}"))
        .collect();
    let mut args = vec!["--control", "socket"];
    for b in &bound {
        args.extend(["--port", b]);
    }
    args.extend(more);
    Running::start(dir, chain, &args)
}

fn status(dir: &Path) -> serde_json::Value {
    common::json(dir, 0, &["status", "--socket", "socket"])
}

/// Changes the policy; what is said of it.
fn schedule(dir: &Path, policy: &str) -> serde_json::Value {
    common::json(dir, 0, &["schedule", "--socket", "socket", policy])
}

/// Word `n` of `/proc/PID/stat` (`proc(5)`).
fn stat(pid: u32, n: usize) -> i64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = text.rsplit_once(')').unwrap();
    rest.split_ascii_whitespace()
        .nth(n - 3)
        .unwrap()
        .parse()
        .unwrap()
}

/// Scheduling class (0 normal, 1 FIFO, 2 RR, 3 batch), real-time priority, nice.
fn class(pid: u32) -> (i64, i64, i64) {
    (stat(pid, 41), stat(pid, 40), stat(pid, 19))
}

fn group(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let cpu = text.lines().find(|l| {
        l.split(':')
            .nth(1)
            .is_some_and(|c| c.split(',').any(|c| c == "cpu"))
    });
    cpu.unwrap_or_default()
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_string()
}

/// It ends by being asked to; everything is accounted for.
fn stop(dir: &Path, running: Running) -> serde_json::Value {
    let v = common::json(dir, 0, &["schedule", "--socket", "socket"]);
    assert!(v["policy"].is_string(), "{v}");
    let done = std::process::Command::new("kill")
        .args(["-INT", &running.child.id().to_string()])
        .status();
    assert!(done.is_ok_and(|s| s.success()));
    let v = running.report_of(130);
    assert_eq!(v["conserved"], true, "{v}");
    v
}

fn of<'a>(v: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let all = v["schedule"]["functions"].as_array().unwrap();
    all.iter().find(|f| f["name"] == name).unwrap()
}

#[test]
fn policies_are_listed_and_wrong_ones_are_told_with_a_cure() {
    let dir = temp("scheduling-words");
    let (out, _) = run(&dir, 0, &["schedule", "list"]);
    for name in [
        "nfvnice",
        "unis",
        "latency",
        "cooperative",
        "rr",
        "theta-min",
        "watermark",
    ] {
        assert!(out.contains(name), "{name}: {out}");
    }
    let all = common::json(&dir, 0, &["schedule", "list"]);
    assert!(all["policies"].as_array().unwrap().len() > 8, "{all}");
    let chain = line(&dir, "chain.yaml", &["--cycles 10"], "schedule: nfvnise\n");
    let (_, err) = run(&dir, 2, &["check", &chain]);
    assert!(
        err.contains("chain.yaml:6:11") && err.contains("did you mean 'nfvnice'"),
        "{err}"
    );
    let chain = line(
        &dir,
        "chain.yaml",
        &["--cycles 10"],
        "schedule: 'nfvnice,high=700'\n",
    );
    let (_, err) = run(&dir, 2, &["check", &chain]);
    assert!(
        err.contains("high=700: expected a number from 1 to 100"),
        "{err}"
    );
    let (_, err) = run(&dir, 2, &["run", &chain, "--schedule", "unis,colour=red"]);
    assert!(
        err.contains("there is no 'colour'; there are period, gamma"),
        "{err}"
    );
    let text = "functions:\n  a: { monitor: {} }\nports:\n  lan: a[0]\n  wan: a[1]\n";
    std::fs::write(dir.join("merged.yaml"), text).unwrap();
    let merged = [
        "run",
        "merged.yaml",
        "--in",
        "lan=in.pcap",
        "--schedule",
        "rr",
    ];
    let (_, err) = run(&dir, 2, &merged);
    assert!(err.contains("run: process"), "{err}");
    let ring = |places| [&merged[..4], &["--ring", places][..]].concat();
    let (_, err) = run(&dir, 2, &ring("128"));
    assert!(err.contains("run: process"), "{err}");
    for wrong in ["32", "1000", "131072", "many"] {
        let (_, err) = run(&dir, 2, &ring(wrong));
        assert!(
            err.contains("a power of two of places, 64 to 65536"),
            "{err}"
        );
    }
    std::fs::write(dir.join("merged.yaml"), format!("{text}schedule: rr\n")).unwrap();
    let (_, err) = run(&dir, 2, &["check", "merged.yaml"]);
    assert!(
        err.contains("schedule is for chains with functions in processes"),
        "{err}"
    );
    let (_, err) = run(&dir, 2, &["schedule", "nobody", "nfvnise"]);
    assert!(err.contains("onefold schedule list"), "{err}");
}

/// A captures' run loses nothing, whatever the policy.
#[test]
fn captures_go_through_whole_under_every_policy() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-captures");
    let chain = line(
        &dir,
        "chain.yaml",
        &["--cycles 100", "--cycles 300", "--cycles 50"],
        "schedule: batch\n",
    );
    for policy in [
        None,
        Some("kernel"),
        Some("rr"),
        Some("nfvnice"),
        Some("unis"),
        Some("latency"),
        Some("cooperative"),
    ] {
        let mut args = vec![
            "run",
            &chain,
            "--in",
            "lan=in.pcap",
            "--out",
            "wan=out.pcap",
            "--quiet",
        ];
        args.extend(policy.iter().flat_map(|p| ["--schedule", p]));
        let v = common::json(&dir, 0, &args);
        assert_eq!(v["packets_out"], 64, "{policy:?}: {v}");
        assert_eq!(v["schedule"]["policy"], policy.unwrap_or("batch"));
        let (mut a, b) = (
            common::captures::read(&dir.join("in.pcap")),
            common::captures::read(&dir.join("out.pcap")),
        );
        // none waits long enough to be marked
        a.iter_mut().zip(&b).for_each(|(a, b)| a.0 = b.0);
        assert!(a == b, "{policy:?}");
    }
}

/// One run, one policy after the other: what the kernel says of the processes is what each of them wants.
#[test]
fn levers_are_pulled_changed_while_it_runs_and_put_back() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-levers");
    let chain = line(
        &dir,
        "chain.yaml",
        &["--cycles 100", "--cycles 100"],
        "schedule: 'batch,nice=3'\n",
    );
    let running = start(&dir, &chain, &["lan"], "1k", &[]);
    let pids = [running.of("f0"), running.of("f1")];
    let all = |wanted: &dyn Fn((i64, i64, i64)) -> bool| pids.iter().all(|p| wanted(class(*p)));
    assert!(
        running.said.contains("schedule: batch,nice=3"),
        "{}",
        running.said
    );
    wait_until("batch", || all(&|c| c == (3, 0, 3)));
    let v = schedule(&dir, "fifo");
    assert_eq!(
        (&v["policy"], &v["changes"]),
        (&"fifo".into(), &1.into()),
        "{v}"
    );
    wait_until("FIFO", || all(&|c| c == (1, 1, 0)));
    schedule(&dir, "unis");
    wait_until("the first one is chosen", || {
        all(&|c| c.0 == 2) && pids.iter().any(|p| class(*p).1 == 2)
    });
    let quantum = || std::fs::read_to_string("/proc/sys/kernel/sched_rr_timeslice_ms").unwrap();
    let before = quantum();
    let v = schedule(&dir, "rr,quantum=5ms");
    let remarks = v["remarks"].to_string();
    assert!(
        remarks.contains("a quantum of 5 ms is") && remarks.contains("sched_rt_runtime_us"),
        "{v}"
    );
    assert_eq!(quantum().trim(), "5");
    wait_until("in turns", || all(&|c| c == (2, 1, 0)));
    schedule(&dir, "nfvnice");
    assert_eq!(quantum(), before, "put back");
    wait_until("groups", || {
        group(pids[0]).ends_with("/0") && group(pids[1]).ends_with("/1")
    });
    let folder = Path::new("/sys/fs/cgroup/cpu").join(group(pids[0]).trim_start_matches('/'));
    assert!(folder.join("cpu.shares").exists(), "{}", folder.display());
    // one that cannot be: the one at work stays
    let (_, err) = run(
        &dir,
        2,
        &[
            "schedule",
            "--socket",
            "socket",
            "latency,target.nowhere=1ms",
        ],
    );
    assert!(err.contains("they do at lan"), "{err}");
    assert!(folder.exists());
    schedule(&dir, "kernel");
    wait_until("as before", || all(&|c| c == (0, 0, 0)));
    assert!(!folder.exists());
    let v = status(&dir);
    assert!(
        v["packets_in"].as_u64() > Some(0) && v["name"].is_string(),
        "{v}"
    );
    let refused = run(&dir, 1, &["reload", "--socket", "socket"]);
    assert!(
        refused.1.contains("end the run and start it again"),
        "{}",
        refused.1
    );
    let v = stop(&dir, running);
    assert!(
        of(&v, "f0")["voluntary_switches"].as_u64() > Some(10),
        "{v}"
    );
}

/// The two functions' shares are as their loads of the last second: packets that came for each, those included that
/// were shed in front of the first, by what one costs. How much of a core the second one gets, and so how many packets
/// reach it, is up to the machine.
fn shares_follow_load(dir: &Path) {
    let number = |v: &serde_json::Value| v.as_f64().unwrap_or(0.0);
    let counted = |v: &serde_json::Value| {
        let received = |i: usize| number(&v["processes"][i]["received"]);
        let shed = number(&v["schedule"]["shed"]["lan"]);
        [received(0) + shed, received(1)]
    };
    wait_until("shares follow load", || {
        let before = counted(&status(dir));
        std::thread::sleep(Duration::from_secs(1));
        let v = status(dir);
        let after = counted(&v);
        let load = |i: usize| (after[i] - before[i]) * number(&v["processes"][i]["service_ns"]);
        let shares = number(&of(&v, "f1")["shares"]) / number(&of(&v, "f0")["shares"]);
        let loads = load(1) / load(0);
        (0.5..=2.0).contains(&(shares / loads))
    });
}

/// The second function is far too slow: under NFVnice it is not the first one's work that is thrown away, and what is
/// dropped at the entry is counted by the port's name; packets are marked before that.
#[test]
fn what_would_be_dropped_later_is_shed_at_the_entry() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-shed");
    let chain = line(&dir, "chain.yaml", &["--ns 500", "--ns 40000"], "");
    let running = start(&dir, &chain, &["lan"], "200k", &["--schedule", "nfvnice"]);
    wait_until("it sheds", || {
        status(&dir)["schedule"]["shed"]["lan"].as_u64() > Some(1000)
    });
    wait_until("it marks", || {
        status(&dir)["processes"][1]["marked"].as_u64() > Some(100)
    });
    shares_follow_load(&dir);
    let v = stop(&dir, running);
    let shed = v["schedule"]["shed"]["lan"].as_u64().unwrap();
    assert_eq!(v["drops"]["shed at the entry"].as_u64(), Some(shed), "{v}");
    let wasted = v["schedule"]["wasted"].as_u64().unwrap();
    assert!(wasted * 10 < shed, "{v}");
    // the same without a policy that knows
    let running = start(&dir, &chain, &["lan"], "200k", &["--schedule", "normal"]);
    wait_until("it wastes", || {
        status(&dir)["schedule"]["wasted"].as_u64() > Some(1000)
    });
    let v = stop(&dir, running);
    assert_eq!(v["schedule"]["shed"]["lan"], 0);
    assert!(
        of(&v, "f0")["wasted"].as_u64() > Some(1000) && of(&v, "f1")["wasted"] == 0,
        "{v}"
    );
}

/// Of two chains that share nothing but a core, the one whose function has stalled waits, and the other one does not.
#[test]
fn a_function_that_stalls_holds_up_no_other_chain() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-stall");
    for (policy, burner) in [
        ("unis", "--ns 2000 --idle poll"),
        ("latency", "--ns 2000 --idle poll"),
        ("nfvnice", "--ns 2000"),
    ] {
        let chain = two(&dir, burner, burner);
        let running = start(
            &dir,
            &chain,
            &["lan", "dmz"],
            "20k",
            &["--schedule", policy],
        );
        let stalled = running.of("f0");
        let signal = |what: &str| {
            let done = std::process::Command::new("kill")
                .args([what, &stalled.to_string()])
                .status();
            assert!(done.is_ok_and(|s| s.success()));
        };
        signal("-STOP");
        let out = |port: &str| {
            status(&dir)["ports"][port]["out"]["packets"]
                .as_u64()
                .unwrap()
        };
        // what was under way has come out
        std::thread::sleep(Duration::from_millis(50));
        let (stands, goes_on) = (out("lan-out"), out("dmz-out"));
        wait_until(policy, || out("dmz-out") > goes_on + 500);
        assert_eq!(out("lan-out"), stands, "{policy}");
        signal("-CONT");
        wait_until(policy, || out("lan-out") > stands + 100);
        stop(&dir, running);
    }
}

/// A function that never lets others run, scheduled so that the kernel would let it.
#[test]
fn a_function_that_never_yields_does_not_hold_up_the_others() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-stubborn");
    for policy in [
        "cooperative",
        "fifo",
        "unis",
        "latency",
        "nfvnice,shares=off",
    ] {
        let chain = two(&dir, "--ns 2000 --idle poll --stubborn", "--ns 2000");
        let running = start(
            &dir,
            &chain,
            &["lan", "dmz"],
            "20k",
            &["--schedule", policy],
        );
        let out = |v: &serde_json::Value, port: &str| {
            v["ports"][port]["out"]["packets"].as_u64().unwrap()
        };
        wait_until(policy, || {
            let v = status(&dir);
            out(&v, "lan-out") > 300 && out(&v, "dmz-out") > 300
        });
        let v = stop(&dir, running);
        let rescued = v["schedule"]["rescued"].as_u64();
        assert_eq!(
            rescued,
            Some(u64::from(
                ["cooperative", "fifo", "latency"].contains(&policy)
            )),
            "{policy}: {v}"
        );
    }
}

/// A process that ends is launched again, and has the same levers as before.
#[test]
fn a_function_that_ends_is_scheduled_again_as_it_was() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-crash");
    for policy in ["unis", "nfvnice"] {
        let burner = "--ns 2000 --idle poll";
        let chain = line(&dir, "chain.yaml", &[burner, burner, burner], "");
        let running = start(&dir, &chain, &["lan"], "20k", &["--schedule", policy]);
        let (before, old) = (class(running.of("f0")), running.of("f1"));
        let _ = before;
        kill(old);
        let begun = Instant::now();
        let new = loop {
            match running.now(old) {
                Some(new) => break new,
                None => assert!(begun.elapsed() < Duration::from_secs(20), "{policy}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        wait_until(policy, || match policy {
            "nfvnice" => group(new).ends_with("/1"),
            _ => class(new).0 == 2,
        });
        let out = || status(&dir)["packets_out"].as_u64().unwrap();
        let n = out();
        wait_until(policy, || out() > n + 300);
        let v = stop(&dir, running);
        assert_eq!(v["processes"][1]["restarts"], 1, "{v}");
        assert!(!exists(new));
    }
}

/// Of a run that was killed stay control groups and the system's quantum: the next one puts them in order.
#[test]
fn the_next_run_cleans_up_behind_one_that_was_killed() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-killed");
    let chain = line(&dir, "chain.yaml", &["--ns 100"], "");
    let running = start(&dir, &chain, &["lan"], "1k", &["--schedule", "nfvnice"]);
    let nf = running.of("f0");
    wait_until("a group", || group(nf).ends_with("/0"));
    let folder = Path::new("/sys/fs/cgroup/cpu").join(group(nf).trim_start_matches('/'));
    kill(running.child.id());
    wait_until("it has ended", || !exists(nf));
    drop(running);
    assert!(folder.exists());
    let running = start(&dir, &chain, &["lan"], "1k", &["--schedule", "normal"]);
    assert!(
        running
            .said
            .contains("control groups of runs that were killed"),
        "{}",
        running.said
    );
    assert!(!folder.exists());
    stop(&dir, running);
}

/// Costs change while packets flow, as soon as their file does.
#[test]
fn a_burner_costs_what_its_file_says() {
    let _alone = alone();
    let dir = temp("scheduling-burn");
    std::fs::write(dir.join("costs"), "2000").unwrap();
    let chain = line(&dir, "chain.yaml", &["--ns 1 --from costs"], "");
    let running = start(&dir, &chain, &["lan"], "20k", &[]);
    let f0 = || status(&dir)["processes"][0].clone();
    wait_until("2 us", || f0()["sample_ns"].as_u64() > Some(1500));
    std::fs::write(dir.join("new"), "20000,10000").unwrap();
    std::fs::rename(dir.join("new"), dir.join("costs")).unwrap();
    wait_until("15 us", || f0()["sample_ns"].as_u64() > Some(9000));
    let (_, err) = run(&dir, 2, &["burn", "--cycles", "5"]);
    assert!(err.contains("'burn' is a function of a chain"), "{err}");
    let v = stop(&dir, running);
    assert!(v["processes"][0]["batches"].as_u64() > Some(10), "{v}");
}
