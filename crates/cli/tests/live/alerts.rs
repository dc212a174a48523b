//! `--alerts` on interfaces: lines while packets come, in a file that may be moved away.

use crate::common;
use crate::links::routed;
use crate::running::{PATIENCE, Running};
use onefold_testing::net::Net;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const CHAIN: &str = r#"
functions:
  dpi:
    dpi:
      patterns:
        - { name: marker, action: drop, text: EVIL }
      rules-files: [ my.rules ]
ports:
  left: dpi[0]
  right: dpi[1]
"#;
const RULE: &str =
    "alert udp any any -> any 53 (msg:\"a: question\"; content:\"abc\"; sid:7; rev:1;)\n";

/// So many lines are in the file before somebody loses patience.
fn lines(file: &Path, n: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.lines().count() >= n || begun.elapsed() > PATIENCE {
            let all = text.lines().map(|l| serde_json::from_str(l).expect("JSON"));
            return all.collect();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn send(net: &Net, payloads: &[&[u8]]) {
    let s = net.within("a", || UdpSocket::bind("0.0.0.0:4000"));
    let s = s.expect("a socket");
    for p in payloads {
        s.send_to(p, ("172.16.1.2", 53)).expect("it leaves");
    }
}

/// The rules on payloads in a process of their own, behind a function in another one: lines, `status` and report say
/// what they say of functions in one process, by ports of the chain.
#[test]
fn alerts_of_a_process_are_those_of_the_chain() {
    let Some(net) = routed() else { return };
    net.ip(
        "a",
        "neigh replace 172.16.0.2 lladdr 02:00:00:00:00:09 dev va",
    );
    let dir = common::temp("live-alerts-process");
    let chain = CHAIN
        .replace("functions:\n", "functions:\n  seen: { monitor: {} }\n")
        .replace("  dpi:\n    dpi:", "  dpi:\n    run: process\n    dpi:")
        .replace(
            "ports:\n  left: dpi[0]",
            "links: [ \"seen[1] <-> [0]dpi\" ]\nports:\n  left: seen[0]",
        );
    for (name, text) in [("chain.yaml", chain.as_str()), ("my.rules", RULE)] {
        std::fs::write(dir.join(name), text).expect("a file");
    }
    let file = dir.join("eve.json");
    let names = ["chain.yaml", "eve.json", "control"].map(|n| dir.join(n).display().to_string());
    let ports = ["--port", "left=packet:oa", "--port", "right=packet:ob"];
    let to = ["--alerts", &names[1], "--control", &names[2]];
    let args = [&[names[0].as_str()][..], &ports, &to].concat();
    let onefold = Running::start(&net, "o", &args);
    send(&net, &[b"xabc", b"EVIL", b"nothing", b"abc"]);
    let all = lines(&file, 3);
    let said = all.iter().map(|l| {
        let at = |p: &str| l.pointer(p).map_or(Value::Null, Value::clone).to_string();
        [
            "/alert/signature",
            "/alert/action",
            "/onefold/count",
            "/onefold/line",
            "/in_iface",
            "/src_ip",
        ]
        .map(at)
    });
    fn question(n: &str) -> [&str; 6] {
        let source = "\"172.16.0.1\"";
        ["\"a: question\"", "\"allowed\"", n, "1", "\"left\"", source]
    }
    let marker = [
        "\"marker\"",
        "\"blocked\"",
        "1",
        "8",
        "\"left\"",
        "\"172.16.0.1\"",
    ];
    assert_eq!(
        said.collect::<Vec<_>>(),
        [question("1"), marker, question("2")],
        "{all:?}"
    );
    let alerts = |v: &Value| -> Vec<[String; 4]> {
        let all = v["alerts"].as_array().into_iter().flatten();
        all.map(|a| ["sid", "message", "action", "packets"].map(|k| a[k].to_string()))
            .collect()
    };
    let expected = [
        ["7", "\"a: question\"", "\"allowed\"", "2"],
        ["null", "\"marker\"", "\"blocked\"", "1"],
    ];
    // while it runs, more than once
    for _ in 0..3 {
        let mut status = Command::new(env!("CARGO_BIN_EXE_onefold"));
        status.args(["status", "--rules", "--json", "--socket", &names[2]]);
        let o = status.output().expect("the binary runs");
        assert!(o.status.success(), "{o:?}");
        let v: Value = serde_json::from_slice(&o.stdout).expect("JSON");
        assert_eq!(alerts(&v), expected, "{v}");
        // others on the cable, of IPv6, have said something, too
        assert!(v["links"][0]["packets"].as_u64() >= Some(4), "{v}");
    }
    let report = onefold.stop();
    assert_eq!(alerts(&report), expected, "{report}");
    let all = &report["ports"]["left"]["in"]["packets"];
    assert_eq!(&report["links"][0]["packets"], all, "{report}");
}

#[test]
fn alerts_are_written_while_packets_come() {
    for more in [&[][..], &["--workers", "2"]] {
        let Some(net) = routed() else { return };
        net.ip(
            "a",
            "neigh replace 172.16.0.2 lladdr 02:00:00:00:00:09 dev va",
        );
        let dir = common::temp("live-alerts");
        for (name, text) in [("chain.yaml", CHAIN), ("my.rules", RULE)] {
            std::fs::write(dir.join(name), text).expect("a file");
        }
        let (file, moved) = (dir.join("eve.json"), dir.join("eve.json.1"));
        let (chain, name) = (dir.join("chain.yaml"), file.display().to_string());
        let chain = chain.display().to_string();
        let ports = ["--port", "left=packet:oa", "--port", "right=packet:ob"];
        let page = dir.join("run.html");
        let html = page.display().to_string();
        let files = ["--alerts", &name, "--html", &html];
        let args = [&[chain.as_str()], &ports[..], &files, more].concat();
        let onefold = Running::start(&net, "o", &args);
        send(&net, &[b"xabc", b"EVIL", b"nothing", b"abc"]);
        let first = lines(&file, 3);
        let said = |l: &Value| {
            let text = |at: &str| l.pointer(at).and_then(Value::as_str).map(str::to_string);
            (text("/alert/signature"), text("/alert/action"))
        };
        let some = |a: &str, b: &str| (Some(a.to_string()), Some(b.to_string()));
        let want = [
            some("a: question", "allowed"),
            some("marker", "blocked"),
            some("a: question", "allowed"),
        ];
        assert_eq!(
            first.iter().map(said).collect::<Vec<_>>(),
            want,
            "{first:?}"
        );
        for (key, want) in [
            ("src_ip", "172.16.0.1".into()),
            ("dest_ip", "172.16.1.2".into()),
            ("src_port", Value::from(4000)),
            ("dest_port", 53.into()),
            ("proto", "UDP".into()),
            ("in_iface", "left".into()),
        ] {
            assert_eq!(first[0][key], want, "{key}");
        }
        assert_eq!(first[0]["alert"]["signature_id"], 7);
        assert_eq!(first[0]["onefold"]["line"], 1);
        assert_eq!(first[2]["onefold"]["count"], 2);
        // somebody rotates it
        std::fs::rename(&file, &moved).expect("it is there");
        let pid = onefold.pid().to_string();
        let hung = Command::new("kill").args(["-HUP", &pid]).status();
        assert!(hung.is_ok_and(|s| s.success()));
        let begun = Instant::now();
        while !file.exists() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        send(&net, &[b"abc"]);
        let second = lines(&file, 1);
        assert_eq!((second.len(), lines(&moved, 3).len()), (1, 3));
        assert_eq!(second[0]["onefold"]["count"], 3);
        let report = onefold.stop();
        let alerts = report["alerts"].as_array().expect("alerts");
        let all: u64 = alerts.iter().filter_map(|a| a["packets"].as_u64()).sum();
        assert_eq!(all, 4, "{report}");
        // what is noted for the page while packets come adds up, too
        let html = std::fs::read_to_string(&page).expect("a page");
        let ran = html.split("id=\"ran\">").nth(1);
        let ran = ran.and_then(|r| r.split("</script>").next());
        let ran: Value = serde_json::from_str(ran.expect("figures")).expect("JSON");
        let time = &ran["over_time"];
        let sum = |v: &Value| -> u64 {
            let counts = v.as_array().into_iter().flatten();
            counts.filter_map(Value::as_u64).sum()
        };
        assert_eq!(sum(&time["in"]), report["packets_in"], "{time}");
        assert_eq!(sum(&time["out"]), report["packets_out"], "{time}");
        let drops = time["drops"].as_object().expect("drops");
        let dropped: u64 = drops.values().map(sum).sum();
        assert_eq!(
            dropped,
            report["dropped"].as_u64().expect("a number"),
            "{time}"
        );
    }
}
