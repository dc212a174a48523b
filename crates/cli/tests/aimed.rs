//! `onefold gen --for CHAIN`: most of what it writes leaves the chain.

use crate::common;

use common::{json, root, run, temp};
use onefold_capture::CaptureReader;
use std::path::Path;

/// A firewall and a NAT.
const CHAIN: &str = r#"
parameters:
  port: { default: "80" }
functions:
  fw:
    firewall:
      rules: [allow src net 10.0.0.0/8 && tcp && dst port $(port)]
      back: allow
  nat:
    nat: { pool: 203.0.113.1 }
links:
  - fw[1] <-> [0]nat
ports:
  wan: nat[1]
  lan: fw[0]
"#;

fn frames(file: &Path) -> Vec<(i64, Vec<u8>)> {
    let all = CaptureReader::open(file).expect("a capture");
    all.map(|f| f.expect("a frame"))
        .map(|f| (f.ts_ns, f.data))
        .collect()
}

/// The pages of the examples: the first two commands of each make packets for the chain and run them. At least nine
/// of ten leave.
#[test]
fn most_packets_leave_every_example() {
    let dir = temp("aimed-examples");
    let mut pages: Vec<_> = std::fs::read_dir(root().join("chains"))
        .unwrap()
        .map(|e| e.unwrap().path().join("README.md"))
        .collect();
    pages.sort();
    assert!(pages.len() > 10, "{pages:?}");
    // two at a time
    let (a, b) = pages.split_at(pages.len() / 2);
    std::thread::scope(|s| {
        for part in [a, b] {
            s.spawn(|| part.iter().for_each(|p| most_leave(&dir, p)));
        }
    });
}

fn most_leave(dir: &Path, page: &Path) {
    let text = std::fs::read_to_string(page).unwrap();
    let mut commands = text
        .lines()
        .filter_map(|l| l.trim().strip_prefix("onefold "));
    let (g, r) = (commands.next().unwrap(), commands.next().unwrap());
    // of its own, as several pages name the same files
    let dir = dir.join(page.parent().and_then(Path::file_name).unwrap());
    std::fs::create_dir_all(&dir).unwrap();
    assert!(
        g.starts_with("gen --for ") && g.contains(" --packets 100000 "),
        "{g}"
    );
    let g = g.replace("100000", "1500");
    let g: Vec<&str> = g.split(' ').chain(["-q"]).collect();
    let made = json(&dir, 0, &g);
    assert_eq!(made["packets"], 1500, "{made}");
    let port = made["for"]["port"].as_str().unwrap();
    assert!(
        r.contains(&format!("--in {port}=")),
        "{r} is for another port than {port}"
    );
    let r: Vec<&str> = r.split(' ').chain(["--mode", "reference", "-q"]).collect();
    let ran = json(&dir, 0, &r);
    let out = |v: &serde_json::Value| v["packets"].as_u64().unwrap();
    let ports = ran["ports"].as_object().unwrap();
    // copies that an alert is about are no packets of flows
    let left: u64 = (ports.iter())
        .filter(|(name, _)| *name != "alerts")
        .map(|(_, p)| out(&p["out"]))
        .sum();
    assert!(
        left >= 1350,
        "{}: {left} of 1500 leave\n{ran}",
        page.display()
    );
}

#[test]
fn flows_are_opened_on_time_and_come_again_alike() {
    let dir = temp("aimed-alike");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    let g = |out: &str, seed: &str| {
        let args = [
            "gen",
            "--out",
            out,
            "--for",
            "chain.yaml:lan",
            "--packets",
            "1000",
            "--flows",
            "50",
            "--size",
            "100",
            "--pps",
            "1000",
            "--start",
            "5",
            "--seed",
            seed,
            "-q",
        ];
        json(&dir, 0, &args)
    };
    let made = g("a.pcap", "7");
    let f = &made["for"];
    assert_eq!(
        (&made["flows"], &f["port"]),
        (&50.into(), &"lan".into()),
        "{made}"
    );
    assert_eq!(
        (&f["openings"], &made["counts"]["connections"]),
        (&150.into(), &50.into()),
        "{made}"
    );
    let all = frames(&dir.join("a.pcap"));
    for (i, (at, _)) in all.iter().enumerate() {
        assert_eq!(*at, 5_000_000_000 + i as i64 * 1_000_000, "frame {i}");
    }
    // SYN, ACK, data, flow by flow; then data of every flow in each round
    let flags: Vec<u8> = all.iter().map(|(_, f)| f[47]).collect();
    assert!(
        flags[..150].chunks(3).all(|c| c[0] == 0x02 && c[1] == 0x10),
        "{flags:?}"
    );
    assert!(flags[150..].iter().all(|f| f & 0x02 == 0));
    assert!(all[150..].iter().all(|(_, f)| f.len() == 100));
    let mut sources: Vec<&[u8]> = all[150..200].iter().map(|(_, f)| &f[26..38]).collect();
    sources.sort_unstable();
    sources.dedup();
    assert_eq!(sources.len(), 50, "a round has every flow once");
    g("b.pcap", "7");
    g("c.pcap", "8");
    let bytes = |name: &str| std::fs::read(dir.join(name)).unwrap();
    assert_eq!(bytes("a.pcap"), bytes("b.pcap"));
    assert_ne!(bytes("a.pcap"), bytes("c.pcap"));
}

/// Both directions behind a NAT: the answers are addressed to the ports that `run`'s NAT gives, too.
#[test]
fn answers_find_their_way_back() {
    let dir = temp("aimed-back");
    std::fs::write(dir.join("chain.yaml"), CHAIN).unwrap();
    // the first port lets nothing in; the next one is tried
    let g = [
        "gen",
        "--out",
        "lan.pcap",
        "--reverse",
        "wan.pcap",
        "--for",
        "chain.yaml",
        "--set",
        "port=8443",
        "--packets",
        "4000",
        "--flows",
        "100",
        "-q",
    ];
    let made = json(&dir, 0, &g);
    assert_eq!(made["for"]["port"], "lan", "{made}");
    assert_eq!(made["for"]["reverse_port"], "wan", "{made}");
    let lan = frames(&dir.join("lan.pcap"));
    assert!(lan.iter().all(|(_, f)| f[36..38] == 8443u16.to_be_bytes()));
    let r = [
        "run",
        "chain.yaml",
        "--set",
        "port=8443",
        "--in",
        "lan=lan.pcap",
        "--in",
        "wan=wan.pcap",
        "--mode",
        "reference",
        "-q",
    ];
    let ran = json(&dir, 0, &r);
    let wan = ran["ports"]["wan"]["in"]["packets"].as_u64().unwrap();
    assert!(wan > 1500, "{ran}");
    assert_eq!(
        (&ran["packets_out"], &ran["dropped"]),
        (&4000.into(), &0.into()),
        "{ran}"
    );
}

#[test]
fn what_cannot_be_aimed_at_is_said_with_a_hint() {
    let dir = temp("aimed-wrong");
    let closed = CHAIN
        .replace("allow src", "deny src")
        .replace("back: allow", "back: deny");
    std::fs::write(dir.join("closed.yaml"), closed).unwrap();
    for (args, said) in [
        (
            &["--for", "closed.yaml"][..],
            "leaves the chain; hint: `onefold explain closed",
        ),
        (
            &["--for", "l2fwd:nowhere"],
            "the chain has no port 'nowhere'; packets enter at: in",
        ),
        (
            &["--for", "l2fwd", "--src", "10.0.0.1"],
            "cannot be used with",
        ),
        (
            &["--for", "l2fwd", "--flows", "0"],
            "--flows 0: expected 1 or more",
        ),
        (
            &["--for", "l2fwdd"],
            "no chain file or example named 'l2fwdd'",
        ),
        (&["--set", "a=b"], "--for"),
        (
            &["--for", "l2fwd", "--reverse", "b.pcap"],
            "leave --reverse out",
        ),
    ] {
        let all = [&["gen", "--out", "x.pcap", "--packets", "100", "-q"], args].concat();
        let (_, err) = run(&dir, 2, &all);
        assert!(err.contains(said), "{args:?}: {err}");
    }
    // too few packets for the flows, and what to do next
    let g = [
        "gen",
        "--out",
        "x.pcap",
        "--for",
        "l2fwd",
        "--packets",
        "30",
        "--flows",
        "20",
        "-q",
    ];
    let (out, _) = run(&dir, 0, &g);
    assert!(
        out.contains("too few packets to open all of 20 flows"),
        "{out}"
    );
    assert!(
        out.contains("next: onefold run l2fwd --in in=x.pcap"),
        "{out}"
    );
}

/// `--protocols` is kept to, also where a class lets another protocol pass only; where none fits, it is said.
#[test]
fn flows_are_of_the_protocols_that_are_wanted() {
    let dir = temp("aimed-protocols");
    let chain = "functions:\n  fw:\n    firewall:\n      rules: [allow tcp && dst port 80, allow dst port 53]\n\
        ports:\n  lan: fw[0]\n  wan: fw[1]\n";
    std::fs::write(dir.join("two.yaml"), chain).unwrap();
    let aimed = |chain: &str, protocols: &str, status: i32| {
        let args = ["gen", "--for", chain, "--protocols", protocols];
        let more = ["--packets", "400", "--flows", "40", "--out", "p.pcap", "-q"];
        run(&dir, status, &[&args[..], &more].concat())
    };
    for (protocols, number) in [("udp", 17), ("tcp", 6)] {
        aimed("two.yaml:lan", protocols, 0);
        let all = frames(&dir.join("p.pcap"));
        assert!(!all.is_empty() && all.iter().all(|(_, f)| f[23] == number));
    }
    std::fs::write(dir.join("tcp.yaml"), CHAIN).unwrap();
    let (_, said) = aimed("tcp.yaml:lan", "udp", 2);
    assert!(said.contains("--protocols says"), "{said}");
}
