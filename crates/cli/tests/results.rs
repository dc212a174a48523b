//! Results that can be found: alerts by rule and packet, handlers at the end of a run, a reply behind its request.

use crate::common;

use common::{json, run, temp};
use etherparse::PacketBuilder;
use onefold_capture::{CaptureWriter, LinkType};
use serde_json::Value;

const CHAIN: &str = r#"
functions:
  dpi:
    dpi:
      patterns:
        - { name: marker, action: drop, text: EVIL }
      rules-files: [ my.rules ]
links: []
ports:
  lan: dpi[0]
  wan: dpi[1]
"#;

fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
    let b = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [192, 0, 2, 7], 64)
        .udp(4000, to);
    let mut frame = Vec::new();
    b.write(&mut frame, payload).unwrap();
    frame
}

/// The chain and a capture of four packets, in a folder.
pub fn alerting(name: &str) -> std::path::PathBuf {
    let dir = temp(name);
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    let rule = "alert udp any any -> any 53 (msg:\"a: question\"; content:\"abc\"; sid:7; rev:1;)";
    std::fs::write(dir.join("my.rules"), format!("# mine\n{rule}\n")).unwrap();
    let mut w = CaptureWriter::create_for(dir.join("lan.pcap"), LinkType::ETHERNET).unwrap();
    let frames = [
        udp(53, b"xabc"),
        udp(53, b"EVIL"),
        udp(80, b"abc"),
        udp(53, b"abc"),
    ];
    for (i, f) in frames.iter().enumerate() {
        let at = 1_700_000_000_000_000_000 + i as i64 * 1000;
        w.write(at, f, f.len() as u32).unwrap();
    }
    w.finish().unwrap();
    dir
}

const RUN: [&str; 5] = ["run", "chain.yaml", "--quiet", "--in", "lan=lan.pcap"];

#[test]
fn alerts_are_counted_and_handlers_read() {
    let dir = alerting("alerts");
    let read = [
        "--read",
        "dpi/up_dpi.rule_counts",
        "--read",
        "dpi/up_dpi.class",
    ];
    let v = json(&dir, 0, &[&RUN[..], &read].concat());
    let alerts = v["alerts"].as_array().unwrap();
    let told: Vec<(Option<u64>, &str, &str, u64)> = (alerts.iter())
        .map(|a| {
            let text = |k: &str| a[k].as_str().unwrap();
            let n = a["packets"].as_u64().unwrap();
            (a["sid"].as_u64(), text("message"), text("action"), n)
        })
        .collect();
    let want = [
        (Some(7), "a: question", "allowed", 2),
        (None, "marker", "blocked", 1),
    ];
    assert_eq!(told, want);
    assert_eq!(alerts[0]["line"], 2);
    let says = |h: &str| v["handlers"][h].as_str().unwrap().trim().to_string();
    assert_eq!(says("dpi/up_dpi.class"), "PayloadFilter");
    assert!(says("dpi/up_dpi.rule_counts").contains(" 2 "), "{v}");

    let (out, _) = run(&dir, 0, &RUN);
    assert!(
        out.contains("alerts\n") && out.contains("a: question  (dpi, "),
        "{out}"
    );
    let (_, err) = run(&dir, 2, &[&RUN[..], &["--read", "dpi/no.config"]].concat());
    assert!(
        err.contains("no element named 'dpi/no'") && err.contains("hint"),
        "{err}"
    );
}

#[test]
fn alerts_are_written_packet_by_packet() {
    let dir = alerting("eve");
    run(&dir, 0, &[&RUN[..], &["--alerts", "eve.json"]].concat());
    let eve = std::fs::read_to_string(dir.join("eve.json")).unwrap();
    let lines: Vec<Value> = eve
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let about = |l: &Value| {
        let said = l["alert"]["signature"].as_str().unwrap().to_string();
        (l["pcap_cnt"].as_u64().unwrap(), said)
    };
    let told: Vec<(u64, String)> = lines.iter().map(about).collect();
    let want = [(1, "a: question"), (2, "marker"), (4, "a: question")];
    assert_eq!(told, want.map(|(n, s)| (n, s.to_string())));
    let wanted = [
        ("timestamp", Value::from("2023-11-14T22:13:20.000003+0000")),
        ("event_type", "alert".into()),
        ("in_iface", "lan".into()),
        ("src_ip", "10.0.0.1".into()),
        ("src_port", 4000.into()),
        ("dest_ip", "192.0.2.7".into()),
        ("dest_port", 53.into()),
        ("proto", "UDP".into()),
    ];
    for (key, want) in wanted {
        assert_eq!(lines[2][key], want, "{key}");
    }
    assert_eq!(lines[2]["alert"]["signature_id"], 7);
    assert_eq!(lines[1]["alert"]["action"], "blocked");
    let of = &lines[2]["onefold"];
    assert_eq!((&of["function"], &of["count"]), (&"dpi".into(), &2.into()));
    let two = ["--workers", "2", "--alerts", "x"];
    let (_, err) = run(&dir, 2, &[&RUN[..], &two].concat());
    assert!(err.contains("--alerts goes with one worker"), "{err}");
}

/// Without the request there is no binding; with the capture of the other port there is.
#[test]
fn a_reply_is_traced_behind_its_request() {
    let dir = temp("reply");
    let made = [
        "gen",
        "--for",
        "isp-edge",
        "--packets",
        "400",
        "--flows",
        "20",
        "--quiet",
    ];
    run(
        &dir,
        0,
        &[&made[..], &["--out", "lan.pcap", "--reverse", "wan.pcap"]].concat(),
    );
    let traced = [
        "trace",
        "isp-edge",
        "--mode",
        "reference",
        "--in",
        "wan=wan.pcap#9",
    ];
    let alone = json(&dir, 0, &traced);
    let behind = json(&dir, 0, &[&traced[..], &["--in", "lan=lan.pcap"]].concat());
    assert_eq!(alone["packet"], behind["packet"]);
    let at_lan = |v: &Value| {
        let outputs = v["outputs"].as_array().unwrap().iter();
        outputs.filter(|o| o["port"] == "lan").count()
    };
    assert_eq!((at_lan(&alone), at_lan(&behind)), (0, 1), "{behind:#}");

    let two = [
        "trace",
        "isp-edge",
        "--in",
        "wan=wan.pcap#9",
        "--in",
        "lan=lan.pcap#1",
    ];
    let (_, err) = run(&dir, 2, &two);
    assert!(err.contains("only one --in has '#N'"), "{err}");
    // of several captures the first drop is that of the packet that comes first
    let (out, _) = run(
        &dir,
        0,
        &[
            "trace",
            "isp-edge",
            "--in",
            "wan=wan.pcap",
            "--first-drop",
            "--mode",
            "reference",
        ],
    );
    assert!(out.contains("packet 1 of wan.pcap is dropped by"), "{out}");
    let both = [
        "trace",
        "isp-edge",
        "--in",
        "wan=wan.pcap",
        "--in",
        "lan=lan.pcap",
        "--first-drop",
    ];
    let (out, _) = run(&dir, 0, &both);
    assert!(
        out.contains(" of lan.pcap is dropped by fw/up_rules"),
        "{out}"
    );
}

/// Names that are nearly right.
#[test]
fn messages_say_what_was_probably_meant() {
    let dir = temp("meant");
    let wrong = [
        (
            "functions:\n  fw: { firewal: { rules: [ deny all ] } }\n",
            "did you mean 'firewall'?",
        ),
        (
            "functions:\n  fw: { firewall: { rulez: [ deny all ] } }\n",
            "did you mean 'rules'",
        ),
    ];
    for (text, hint) in wrong {
        std::fs::write(dir.join("chain.yaml"), text).unwrap();
        let (_, err) = run(&dir, 2, &["check", "chain.yaml"]);
        assert!(err.contains(hint), "{err}");
    }
    let (_, err) = run(&dir, 2, &["check", "isp-egde"]);
    assert!(err.contains("did you mean 'isp-edge'"), "{err}");
    std::fs::write(dir.join("x.pcap"), "").unwrap();
    let (_, err) = run(&dir, 2, &["run", "isp-edge", "--in", "lann=x.pcap"]);
    assert!(err.contains("at: lan, wan; did you mean 'lan'?"), "{err}");
}

/// Signals of more queues than one word has, as in Click: active from a packet on until the tenth pull in vain.
#[test]
fn click_says_which_queues_are_awake() {
    let dir = temp("notifiers");
    let mut text = "i :: InfiniteSource(ACTIVE false);\n".to_string();
    for n in 0..34 {
        text += &format!("q{n} :: NotifierQueue(5);\n");
    }
    text +=
        "i -> q0 -> s :: RoundRobinSched -> n :: NotifierDebug -> PullSwitch(0) -> d :: Discard;\n";
    for n in 1..34 {
        text += &format!("Idle -> q{n} -> [{n}] s;\n");
    }
    text += "DriverManager(wait 0.1s, print n.signal, print d.scheduled,
        write i.active true, wait 0.1s, print n.signal, print d.scheduled,
        write i.active false, wait 0.1s, print n.signal, print d.scheduled, stop)\n";
    std::fs::write(dir.join("n.click"), text).unwrap();
    let (said, _) = run(&dir, 0, &["click", "n.click"]);
    let all: Vec<&str> = said.lines().collect();
    let asleep = "empty.0/ffffffff:0+empty.1/3:0";
    let awake = "empty.0/ffffffff:1*+empty.1/3:0";
    assert_eq!(
        all,
        [asleep, "false", awake, "true", asleep, "false"],
        "{said}"
    );
}
