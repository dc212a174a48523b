//! README.md from top to bottom: its chain is saved, its commands are run one after the other, as they stand but for
//! numbers of packets and the length of measurements.

use crate::common;

use common::{root, temp};
use std::path::Path;
use std::process::{Command, Output};

/// Lines of its shell blocks that no test runs: they build, or put the binary on the path.
const OTHERS: [&str; 4] = ["make demo", "make test", "make install", "export PATH="];

fn block<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let open = format!("```{language}\n");
    let parts = text.split(open.as_str()).skip(1);
    parts.filter_map(|p| p.split("```").next()).collect()
}

fn shell(dir: &Path, line: &str) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_onefold")).parent().unwrap();
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    Command::new("sh")
        .args(["-c", line])
        .current_dir(dir)
        .env("PATH", path)
        .env("ONEFOLD_CACHE", dir.join("cache"))
        .output()
        .expect("a shell")
}

#[test]
fn readme_from_top_to_bottom() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let dir = temp("readme");
    let [chain] = block(&text, "yaml")[..] else {
        panic!("one chain is shown");
    };
    std::fs::write(dir.join("chain.yaml"), chain).unwrap();
    let mut ran = Vec::new();
    for line in block(&text, "sh").iter().flat_map(|b| b.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || OTHERS.iter().any(|o| line.starts_with(o)) {
            continue;
        }
        assert!(
            line.starts_with("onefold "),
            "'{line}' is neither run here nor among those that are not"
        );
        let mut quick = line.replace("--packets 1000000", "--packets 1500");
        quick = quick.replace("--packets 100000", "--packets 3000");
        if let Some(rest) = quick.strip_prefix("onefold bench ") {
            quick = format!("onefold bench --seconds 0.002 --repeats 1 --flows 50 {rest}");
        }
        let o = shell(&dir, &quick);
        let (out, err) = (
            String::from_utf8_lossy(&o.stdout),
            String::from_utf8_lossy(&o.stderr),
        );
        assert!(o.status.success(), "{quick}\n{out}\n{err}");
        assert!(!out.is_empty() || !err.is_empty(), "{quick} says nothing");
        // nothing to be warned of, in what a newcomer is told to write
        let warned = err.contains("warning") && !quick.contains("bench");
        assert!(!warned, "{quick}\n{err}");
        ran.push((quick, out.into_owned()));
    }
    let of = |word: &str| -> &str {
        let found = ran.iter().find(|(l, _)| l.split(' ').nth(1) == Some(word));
        found.map_or_else(
            || panic!("README has no 'onefold {word}'"),
            |(_, out)| out.as_str(),
        )
    };
    for word in [
        "check", "gen", "trace", "show", "explain", "verify", "bench", "click",
    ] {
        of(word);
    }
    // nearly everything leaves, at the first try
    let run = of("run");
    let number = |what: &str| -> u64 {
        let line = run.lines().find(|l| l.trim_start().starts_with(what));
        let n = line
            .and_then(|l| l.split_whitespace().nth(1))
            .unwrap_or_default();
        n.replace(',', "")
            .parse()
            .unwrap_or_else(|_| panic!("no number of '{what}' in\n{run}"))
    };
    assert!(number("out") * 10 >= number("in") * 9, "{run}");
}

/// What the README's firewall says is what it does: web and DNS from inside, nothing else.
#[test]
fn readmes_firewall_does_what_it_says() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let dir = temp("readme-firewall");
    std::fs::write(dir.join("chain.yaml"), block(&text, "yaml")[0]).unwrap();
    for (src, protocol, port, out) in [
        ("10.1.2.3", "tcp", "80", true),
        ("10.1.2.3", "tcp", "443", true),
        ("10.1.2.3", "udp", "53", true),
        ("10.1.2.3", "udp", "443", false),
        ("10.1.2.3", "tcp", "22", false),
        ("192.168.1.1", "tcp", "443", false),
        ("192.168.1.1", "udp", "443", false),
    ] {
        let line = format!(
            "onefold gen --out p.pcap --packets 1 --flows 1 --src {src} --protocols {protocol} --dport {port} -q && \
             onefold run chain.yaml --in lan=p.pcap --mode reference --json -q"
        );
        let o = shell(&dir, &line);
        let told = String::from_utf8_lossy(&o.stdout);
        // what `gen` says comes before the object
        let v: serde_json::Value =
            serde_json::from_str(&told[told.find('{').unwrap_or(0)..]).unwrap();
        assert_eq!(
            v["packets_out"],
            u64::from(out),
            "{src} {protocol} {port}: {v}"
        );
    }
}

/// The first line of what was printed, from a line on, that a shown line stands for; what follows a last ` ...` may be
/// anything.
fn printed(shown: &str, out: &[&str], from: usize) -> Option<usize> {
    let is = |line: &&str| match shown.strip_suffix(" ...") {
        Some(begin) => line.starts_with(begin),
        None => line.trim_end() == shown,
    };
    let rest = out.get(from..)?;
    rest.iter().position(is).map(|i| from + i)
}

/// docs/first-hour.md from top to bottom: its files are saved, its commands run, and they print what it shows.
#[test]
fn the_first_hour_is_as_it_is_told() {
    let text = std::fs::read_to_string(root().join("docs/first-hour.md")).unwrap();
    let dir = temp("first-hour");
    let mut ran = 0;
    let blocks: Vec<&str> = text.split("```").collect();
    for pair in blocks.chunks(2) {
        let [before, block] = pair else { continue };
        let Some(lines) = block.strip_prefix("console\n") else {
            // the name in front of it, the last in the text
            let name = before.trim_end().rsplit('`').nth(1).unwrap();
            std::fs::write(dir.join(name), block.trim_start()).unwrap();
            continue;
        };
        for command in lines.split("$ ").skip(1) {
            let (line, shown) = command.split_once('\n').unwrap();
            let o = shell(&dir, line);
            let text = String::from_utf8_lossy(&o.stdout).into_owned();
            let out: Vec<&str> = text.lines().collect();
            // 1 is a no
            let status = o.status.code();
            assert!(matches!(status, Some(0 | 1)), "{line}: {status:?}\n{text}");
            let (mut at, mut anywhere) = (0, false);
            for s in shown.trim_end().lines() {
                if s == "..." {
                    anywhere = true;
                    continue;
                }
                let found = printed(s, &out, at);
                let there = found.filter(|i| anywhere || *i == at);
                let i = there.unwrap_or_else(|| panic!("{line}: no line '{s}' at {at} in\n{text}"));
                (at, anywhere) = (i + 1, false);
            }
            assert!(
                anywhere || at == out.len(),
                "{line}: more is printed\n{text}"
            );
            ran += 1;
        }
    }
    assert!(ran > 10, "{ran}");
}
