//! Which chains policies are told of.

use crate::common::{self, run, temp};
use crate::{alone, is_root, line, schedule, start, status, stop};

/// A port whose device has no packets to give (`memory:` without frames) is no way in for policies: functions of a
/// chain with one way may wait for room at the next one.
#[test]
fn a_port_where_nothing_can_arrive_is_no_way() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-ways");
    let chain = line(&dir, "chain.yaml", &["--cycles 100", "--cycles 100"], "");
    for (wan, ways) in [
        ("wan=memory:", &["lan"][..]),
        ("wan=memory:in.pcap,rate=1k", &["lan", "wan"]),
    ] {
        let more = ["--schedule", "batch", "--port", wan];
        let running = start(&dir, &chain, &["lan"], "1k", &more);
        let v = status(&dir);
        let shed: Vec<&String> = v["schedule"]["shed"].as_object().unwrap().keys().collect();
        assert_eq!(shed, ways, "{v}");
        let other = ["schedule", "--socket", "socket", "latency,target.wan=1ms"];
        match ways.len() {
            1 => {
                let (_, err) = run(&dir, 2, &other);
                assert!(err.contains("they do at lan"), "{err}");
            }
            _ => {
                schedule(&dir, other[3]);
            }
        }
        stop(&dir, running);
    }
}

/// Under the own policy what may wait where a chain enters is bounded, also while functions are slow: packets that come
/// out were not in the chain for long, others are shed by the port's name, and nobody has worked in vain.
#[test]
fn the_own_policy_lets_in_what_can_be_in_time() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-in-time");
    let chain = line(&dir, "chain.yaml", &["--ns 2000", "--ns 40000"], "");
    let policy = "latency,target=4ms";
    let running = start(&dir, &chain, &["lan"], "100k", &["--schedule", policy]);
    common::running::wait_until("it sheds", || {
        status(&dir)["schedule"]["shed"]["lan"].as_u64() > Some(2000)
    });
    let buckets = |v: &serde_json::Value| -> Vec<(u64, u64)> {
        let all = v["ports"]["wan"]["latency"]["buckets"].clone();
        serde_json::from_value(all).unwrap_or_default()
    };
    // a ring of 1,024 packets of 42 us would be 43 ms; what a machine that is busy adds is less at some time
    common::running::wait_until("packets are in time", || {
        let before = buckets(&status(&dir));
        std::thread::sleep(std::time::Duration::from_millis(500));
        let mut stayed = std::collections::BTreeMap::from_iter(buckets(&status(&dir)));
        for (ns, n) in before {
            *stayed.entry(ns).or_default() -= n;
        }
        let all: u64 = stayed.values().sum();
        let long: u64 = stayed.range(12_000_000..).map(|b| b.1).sum();
        all > 500 && long * 10 < all
    });
    let v = stop(&dir, running);
    let (wasted, shed) = (&v["schedule"]["wasted"], &v["schedule"]["shed"]["lan"]);
    assert_eq!(v["drops"]["shed at the entry"], *shed, "{v}");
    assert!(
        wasted.as_u64().unwrap() * 10 < shed.as_u64().unwrap(),
        "{v}"
    );
}

/// Packets come from both ends of a chain whose last function is slow: the function in the middle takes nothing more
/// that leads there, and goes on with what comes the other way; hardly anything is worked on in vain.
#[test]
fn a_function_on_two_ways_waits_by_way() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-by-way");
    let costs = ["--ns 500", "--ns 2000", "--ns 20000"];
    let chain = line(&dir, "chain.yaml", &costs, "");
    let wasted = |policy: &str| {
        let more = ["--schedule", policy];
        let running = start(&dir, &chain, &["lan", "wan"], "60k", &more);
        let out = |port: &str| {
            let v = status(&dir);
            v["ports"][port]["out"]["packets"].as_u64().unwrap()
        };
        common::running::wait_until(policy, || out("lan").min(out("wan")) > 500);
        let v = stop(&dir, running);
        let out = v["packets_out"].as_u64().unwrap();
        let wasted = v["schedule"]["wasted"].as_u64().unwrap();
        (wasted as f64 / out as f64, v)
    };
    let (vain, v) = wasted("normal");
    assert!(vain > 0.1, "{v}");
    for policy in ["nfvnice", "latency"] {
        let (ours, v) = wasted(policy);
        assert!(ours * 10.0 < vain, "{policy}: {vain} and {v}");
    }
}

/// Two chains share their first function, and one of them goes on to a slow one: as far as the chain file says both
/// could. Under the own policy that one alone is shed.
#[test]
fn a_chain_beside_a_slow_one_is_not_held_up() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let dir = temp("scheduling-beside");
    let burner = |cost: &str, ports: u32| {
        format!("{{ native: {{ command: [onefold, burn, --ns, '{cost}'], ports: {ports} }} }}")
    };
    let text = format!(
        "functions:\n  first: {}\n  slow: {}\n  quick: {}\nlinks:\n  - first[1] <-> [0]slow\n  \
         - first[3] <-> [0]quick\nports:\n  a: first[0]\n  b: first[2]\n  a-out: slow[1]\n  b-out: quick[1]\n",
        burner("500", 4),
        burner("200000", 2),
        burner("500", 2)
    );
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
    crate::packets(&dir);
    let out = [
        "--schedule",
        "latency",
        "--port",
        "a-out=memory:",
        "--port",
        "b-out=memory:",
    ];
    let running = start(&dir, "chain.yaml", &["a", "b"], "20k", &out);
    let shed = |v: &serde_json::Value, port: &str| v["schedule"]["shed"][port].as_u64().unwrap();
    common::running::wait_until("it sheds", || shed(&status(&dir), "a") > 4000);
    // others on the machine hold up both now and then
    common::running::wait_until("the other chain is not shed", || {
        let before = status(&dir);
        std::thread::sleep(std::time::Duration::from_millis(500));
        let after = status(&dir);
        let new = |port: &str| shed(&after, port) - shed(&before, port);
        new("a") > 1000 && new("b") * 20 < new("a")
    });
    let v = stop(&dir, running);
    let shed = (shed(&v, "a"), shed(&v, "b"));
    assert!(shed.1 * 4 < shed.0, "{v}");
}

/// Functions that are merged say how long packets were in the chain, as those in processes do.
#[test]
fn merged_chains_tell_latency_too() {
    let _alone = alone();
    let dir = temp("scheduling-merged");
    line(&dir, "burners.yaml", &["--cycles 1"], "");
    for run in ["inline", "process"] {
        let text = format!(
            "functions:\n  a: {{ run: {run}, monitor: {{}} }}\nports:\n  lan: a[0]\n  wan: a[1]\n"
        );
        std::fs::write(dir.join("chain.yaml"), text).unwrap();
        let more = ["--duration", "0.3", "--quiet", "--control", "off"];
        let ports = [
            "--port",
            "lan=memory:in.pcap,rate=5k",
            "--port",
            "wan=memory:",
        ];
        let args = [&["run", "chain.yaml"][..], &ports, &more].concat();
        let v = common::json(&dir, 0, &args);
        let (out, latency) = (&v["ports"]["wan"]["out"], &v["ports"]["wan"]["latency"]);
        let all = latency["buckets"].as_array().unwrap();
        let n: u64 = all.iter().map(|b| b[1].as_u64().unwrap()).sum();
        assert_eq!(Some(n), out["packets"].as_u64(), "{run}: {v}");
        assert!(n > 100 && latency["p99"].as_u64() > Some(0), "{run}: {v}");
        assert!(v["ports"]["lan"]["latency"].is_null(), "{run}: {v}");
    }
}

/// Packets that have waited in the first of two processes are as old behind the second as they are.
#[test]
fn waits_in_other_processes_are_part_of_the_latency() {
    let _alone = alone();
    let dir = temp("scheduling-waits");
    line(&dir, "burners.yaml", &["--cycles 1"], "");
    // 6,000 packets a second come, 4,000 leave: those after 0.3 s have waited for 150 ms
    let text = "functions:\n  a:\n    run: process\n    click:\n      config: |\n        FromDevice(0) -> Queue(2000) \
                -> RatedUnqueue(4000) -> ToDevice(1);\n        FromDevice(1) -> Discard;\n  \
                b: { run: process, monitor: {} }\nlinks: [ 'a[1] <-> [0]b' ]\nports:\n  lan: a[0]\n  wan: b[1]\n";
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
    let more = ["--duration", "0.5", "--quiet", "--control", "off"];
    let ports = [
        "--port",
        "lan=memory:in.pcap,rate=6k",
        "--port",
        "wan=memory:",
    ];
    let args = [&["run", "chain.yaml"][..], &ports, &more].concat();
    let v = common::json(&dir, 0, &args);
    let latency = &v["ports"]["wan"]["latency"];
    assert!(latency["p90"].as_u64() > Some(50_000_000), "{v}");
}
