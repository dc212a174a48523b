//! Configurations that are made to hurt, through the binary: each ends by itself within bounds of CPU time and memory
//! that the system enforces, with an error that says what is wrong and where, or does its work.

use crate::common;

use common::temp;
use std::path::Path;
use std::process::{Command, Output};

/// Address space that a run may have, in KiB.
const MEMORY: u32 = 4 << 20;
/// CPU time that a run may take, in seconds. Builds without optimisation are some fifteen times slower.
const SECONDS: u32 = if cfg!(debug_assertions) { 240 } else { 30 };
/// A rule list is this long.
const RULES: usize = if cfg!(debug_assertions) {
    50_000
} else {
    1_000_000
};

/// Runs `onefold` under these limits.
fn limited(dir: &Path, args: &[&str]) -> Output {
    let script = format!("ulimit -v {MEMORY} -t {SECONDS} && exec \"$0\" \"$@\"");
    Command::new("bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_onefold")])
        .args(args)
        .current_dir(dir)
        .output()
        .expect("bash runs")
}

/// Ends with `status` and says `what` (on either stream).
fn ends(dir: &Path, args: &[&str], status: i32, what: &str) {
    let o = limited(dir, args);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr)
    );
    let short: String = said.chars().take(2000).collect();
    assert_eq!(o.status.code(), Some(status), "{args:?}: {short}");
    assert!(said.contains(what), "{args:?}: {what} is not said: {short}");
    assert!(
        said.len() < 50_000_000,
        "{args:?}: {} bytes said",
        said.len()
    );
}

/// `check` refuses the file for this reason, `run` and `explain` too; never by a panic.
fn refused(dir: &Path, name: &str, text: impl AsRef<[u8]>, why: &str) {
    std::fs::write(dir.join(name), text).expect("the file is written");
    for command in ["check", "explain"] {
        ends(dir, &[command, name], 2, why);
    }
}

fn tower(count: usize, width: usize) -> String {
    let mut text = String::from("elementclass C0 { input -> Null -> output }\n");
    for i in 1..count {
        let inner = vec![format!("C{}", i - 1); width].join(" -> ");
        text += &format!("elementclass C{i} {{ input -> {inner} -> output }}\n");
    }
    text + &format!("Idle -> C{} -> Discard;", count - 1)
}

#[test]
fn click_texts() {
    let dir = temp("hostile-click");
    let deep = format!(
        "{}Null{}",
        "{input -> ".repeat(5000),
        " -> output}".repeat(5000)
    );
    let over = "Idle -> Null".to_string() + &" -> Null".repeat(300_000) + " -> Discard;";
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("deep.click", deep.into(), "more than 100 compound elements"),
        ("long.click", over.into(), "more than 262144 elements"),
        ("tower.click", tower(40, 2).into(), "more than 262144 elements"),
        ("tall.click", tower(300, 1).into(), "more than 100"),
        ("cycle.click", "elementclass A { input -> B -> output } elementclass B { input -> A -> output } Idle -> A -> Discard;".into(), "unknown element class 'B'"),
        ("self.click", "elementclass A { input -> A -> output } Idle -> A -> Discard;".into(), "unknown element class 'A'"),
        ("bytes.click", b"Idle -> Queue(\xff\xfe) -> Discard;".to_vec(), "valid UTF-8"),
        ("nul.click", b"\0\0\0".to_vec(), "unexpected"),
        ("paren.click", format!("Idle -> Queue({}", "(".repeat(100_000)).into(), "unexpected end"),
        ("expression.click", format!("Idle -> IPFilter(allow {}tcp{}) -> Discard;", "(".repeat(100_000), ")".repeat(100_000)).into(), "nested more than 100 deep"),
        ("number.click", format!("Idle -> Paint({}) -> Discard;", "9".repeat(1_000_000)).into(), "COLOR"),
        ("pad.click", "Idle -> Pad(4000000000) -> Discard;".into(), "at most 65535"),
        ("offset.click", "Idle -> Classifier(4000000000/00) -> Discard;".into(), "offset out of range"),
        ("port.click", "Idle -> [4000000000] t :: Tee -> Discard;".into(), "port"),
        ("wide.click", "Idle -> Tee(4000000000) -> Discard;".into(), "must be the number of connected outputs"),
        ("mapped.click", "rw :: IPRewriter(pattern 1.0.0.1 1-4000000000 - - 0 0); Idle -> rw -> Discard;".into(), "bad source port"),
    ];
    for (name, text, why) in cases {
        refused(&dir, name, text, why);
    }
    // nothing wrong with these but their size
    let capacity = "Idle -> Queue(2000000000) -> Discard;";
    let negations = format!(
        "Idle -> IPFilter(allow {}tcp) -> Discard;",
        "!".repeat(40_000)
    );
    for (name, text) in [
        ("queue.click", capacity.to_string()),
        ("not.click", negations),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
        let o = limited(&dir, &["check", name]);
        assert!(matches!(o.status.code(), Some(0 | 2)), "{name}: {o:?}");
    }
}

#[test]
fn chain_files() {
    let dir = temp("hostile-chains");
    let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for i in 1..12 {
        let of = vec![format!("*a{}", i - 1); 10].join(",");
        laughs += &format!("a{i}: &a{i} [{of}]\n");
    }
    let deep = format!("functions: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let many: String = (0..100_000)
        .map(|i| format!("  f{i}: {{monitor: {{}}}}\n"))
        .collect();
    let links = "functions:\n  f: {firewall: {rules: [allow all]}}\nlinks:\n".to_string()
        + &"  - f[1] -> [0]f\n".repeat(300_000);
    let number = format!(
        "functions:\n  n:\n    nat: {{ pool: 203.0.113.1, timeout: {} }}\nports:\n  lan: n[0]\n",
        "9".repeat(100_000)
    );
    let ring = "functions:\n  a: {firewall: {rules: [allow all]}}\n  b: {firewall: {rules: [allow all]}}\nlinks:\n  - a[1] -> [0]b\n  - b[1] -> [0]a\nports:\n  lan: a[7]\n";
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("laughs.yaml", laughs.into(), "too many"),
        ("deep.yaml", deep.into(), "deep"),
        (
            "many.yaml",
            format!("functions:\n{many}").into(),
            "too many",
        ),
        ("links.yaml", links.into(), "too many values"),
        ("number.yaml", number.into(), "number.yaml:3"),
        (
            "bytes.yaml",
            b"functions: {\xff\xfe: {click: x}}\n".to_vec(),
            "UTF-8",
        ),
        ("ring.yaml", ring.into(), "ring.yaml:"),
        (
            "device.yaml",
            "functions:\n  a:\n    firewall: {rules-file: /dev/zero}\nports:\n  lan: a[0]\n".into(),
            "is longer than 64 MiB",
        ),
        (
            "repeat.yaml",
            "functions:\n  a:\n    repeat: 4000000000\n    monitor: {}\nports:\n  lan: a[0]\n"
                .into(),
            "repeat",
        ),
    ];
    for (name, text, why) in cases {
        refused(&dir, name, text, why);
    }
}

#[test]
fn a_million_rules() {
    let dir = temp("hostile-rules");
    let mut rules = String::new();
    for i in 0..RULES {
        let net = (i as u32).wrapping_mul(2_654_435_761).to_be_bytes();
        rules += &format!(
            "{} src host {}.{}.{}.{} && dst port {},\n",
            ["allow", "deny"][i % 2],
            net[0],
            net[1],
            net[2],
            net[3],
            i % 65_536
        );
    }
    let text = format!("Idle -> f :: IPFilter({rules} deny all) -> Discard;");
    std::fs::write(dir.join("rules.click"), text).unwrap();
    ends(&dir, &["check", "rules.click"], 0, "ok");
}

/// Paths that multiply, packets that multiply, loops without end: synthesized within the budgets, run within the
/// engine's.
#[test]
fn explosions() {
    let dir = temp("hostile-paths");
    let mut decls = String::from("q :: Discard;\n");
    let mut text = String::from("FromDevice(lan) -> Strip(14) -> CheckIPHeader -> c0;\n");
    let n = if cfg!(debug_assertions) { 24 } else { 200 };
    for i in 0..n {
        let field = [
            "src port", "dst port", "ip ttl", "ip tos", "ip id", "ip len",
        ][i % 6];
        decls += &format!("c{i} :: IPClassifier({field} {}, -);\n", 50 + i);
        let next = match i + 1 == n {
            true => "q".to_string(),
            false => format!("c{}", i + 1),
        };
        let at = 16 + i % 24;
        text += &format!(
            "c{i}[0] -> Paint({i}, {at}) -> {next}; c{i}[1] -> Paint({}, {at}) -> {next};\n",
            i + 100
        );
    }
    let tees: String = (0..40)
        .map(|i| format!("t{i}[0] -> t{0}; t{i}[1] -> t{0};", i + 1))
        .collect();
    let tees = (0..41)
        .map(|i| format!("t{i} :: Tee(2);"))
        .collect::<String>()
        + "FromDevice(lan) -> t0;"
        + &tees
        + "t40[0] -> Queue -> ToDevice(wan); t40[1] -> Discard;";
    let cases = [
        ("paths", decls + &text, ""),
        ("tees", tees, "too much work"),
        (
            "circle",
            "t :: Tee(2); FromDevice(lan) -> t -> t; t[1] -> Queue -> ToDevice(wan);".into(),
            "engine: loop",
        ),
        (
            "loop",
            "FromDevice(lan) -> a :: Null -> b :: Null -> a;".into(),
            "loop",
        ),
        (
            "queues",
            "q :: Queue(10); t :: Tee(2); FromDevice(lan) -> q -> Unqueue -> t -> q; t[1] -> q;"
                .into(),
            "cut short",
        ),
    ];
    common::run(
        &dir,
        0,
        &["gen", "--out", "in.pcap", "--packets", "2", "-q"],
    );
    for (name, text, what) in cases {
        let file = format!("{name}.click");
        std::fs::write(dir.join(&file), text).unwrap();
        ends(&dir, &["explain", &file], 0, "classes");
        for mode in ["reference", "synthesized"] {
            let mut input = vec!["run", &file, "--in", "lan=in.pcap", "--mode", mode];
            if mode == "synthesized" {
                // where the engine's bounds cut work short, they do so at other places: shadow mode would tell
                input.extend(["--no-verify", "--shadow", "off"]);
            }
            let o = limited(&dir, &input);
            let said = String::from_utf8_lossy(&o.stderr).into_owned()
                + &String::from_utf8_lossy(&o.stdout);
            assert_eq!(o.status.code(), Some(0), "{name} {mode}: {said}");
            assert!(said.contains(what), "{name} {mode}: {said}");
        }
    }
}
