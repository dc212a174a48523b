//! What commands print with `--json` satisfies the schemas that `onefold schema` prints, and has no key that they do
//! not know.

use crate::common;

use common::{json, onefold, run, temp};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is wrong, with its place.
fn wrong(schema: &Value, v: &Value, at: &str, all: &mut Vec<String>) {
    let is = |t: &str| match t {
        "null" => v.is_null(),
        "boolean" => v.is_boolean(),
        "integer" => v.is_u64() || v.is_i64(),
        "number" => v.is_number(),
        "string" => v.is_string(),
        "array" => v.is_array(),
        "object" => v.is_object(),
        t => panic!("{at}: type {t}"),
    };
    let fits = match &schema["type"] {
        Value::Null => true,
        Value::String(t) => is(t),
        Value::Array(all) => all.iter().any(|t| is(t.as_str().unwrap())),
        t => panic!("{at}: type {t}"),
    };
    if !fits {
        all.push(format!("{at}: {v} is not {}", schema["type"]));
    }
    let has = |keys: &Value| -> Vec<String> {
        let keys = keys
            .as_array()
            .into_iter()
            .flatten()
            .map(|k| k.as_str().unwrap());
        let missing = keys.filter(|k| v.is_object() && v.get(k).is_none());
        missing.map(|k| format!("{at}: no key {k}")).collect()
    };
    all.extend(has(&schema["required"]));
    if let Some(forms) = schema["anyOf"].as_array() {
        let missing: Vec<Vec<String>> = forms.iter().map(|f| has(&f["required"])).collect();
        if !missing.iter().any(Vec::is_empty) {
            all.extend(missing.into_iter().min_by_key(Vec::len).unwrap_or_default());
        }
    }
    for (k, s) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(v) = v.get(k) {
            wrong(s, v, &format!("{at}.{k}"), all);
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), v.as_array()) {
        for (i, v) in list.iter().enumerate() {
            wrong(items, v, &format!("{at}[{i}]"), all);
        }
    }
    // of what the schema lists keys of, it lists all
    if let (Some(p), Some(o)) = (schema["properties"].as_object(), v.as_object()) {
        let unknown = o.keys().filter(|k| !p.contains_key(*k) && p.len() > 1);
        all.extend(unknown.map(|k| format!("{at}: a key of no schema: {k}")));
    }
}

struct Checks {
    dir: std::path::PathBuf,
    wrong: Vec<String>,
    done: usize,
}

impl Checks {
    fn command(&mut self, name: &str, status: i32, args: &[&str]) -> Value {
        let v = json(&self.dir, status, args);
        let schema = schema(&self.dir, name);
        let mut all = Vec::new();
        wrong(&schema, &v, name, &mut all);
        self.wrong
            .extend(all.into_iter().map(|w| format!("{}: {w}", args.join(" "))));
        self.done += 1;
        v
    }
}

fn schema(dir: &Path, name: &str) -> Value {
    let (out, _) = run(dir, 0, &["schema", name]);
    serde_json::from_str(&out).unwrap()
}

#[test]
fn schemas_are_listed() {
    let dir = temp("schemas-listed");
    let (list, _) = run(&dir, 0, &["schema", "--list"]);
    assert!(list.lines().count() > 15, "{list}");
    for name in list.lines() {
        let s = schema(&dir, name);
        assert_eq!(s["type"], "object", "{name}");
    }
    let (out, _) = run(&dir, 0, &["schema"]);
    let chain: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(chain, schema(&dir, "chain"));
    let out = onefold(&dir, &["schema", "rn"]);
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8_lossy(&out.stderr).to_string();
    assert!(said.contains("run"), "{said}");
}

impl Checks {
    fn new(name: &str) -> Checks {
        Checks {
            dir: temp(name),
            wrong: Vec::new(),
            done: 0,
        }
    }

    fn end(self, least: usize) {
        assert!(self.done >= least);
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

#[test]
fn what_is_said_of_chains_and_rules_satisfies_its_schema() {
    let mut c = Checks::new("schemas-chains");
    let dir = c.dir.clone();
    for chain in ["l2fwd", "campus-dpi", "isp-edge"] {
        c.command("check", 0, &["check", chain]);
        c.command("show", 0, &["show", chain]);
        c.command("explain", 0, &["explain", chain]);
    }
    std::fs::write(dir.join("bad.yaml"), "functions: 7\n").unwrap();
    c.command("check", 2, &["check", "bad.yaml"]);
    let chain = "functions:\n  fw: { firewall: { rules-file: RULES } }\nports: { a: 'fw[0]', b: 'fw[1]' }\n";
    for (name, first) in [("odd", "deny tcp"), ("new", "deny udp")] {
        let rules = format!("{first}\nallow tcp && dst port 80\nallow all\n");
        std::fs::write(dir.join(format!("{name}.rules")), rules).unwrap();
        let chain = chain.replace("RULES", &format!("{name}.rules"));
        std::fs::write(dir.join(format!("{name}.yaml")), chain).unwrap();
    }
    c.command("check", 1, &["check", "odd.yaml", "--rules"]);
    c.command("diff", 1, &["diff", "odd.yaml", "new.yaml"]);
    c.command("diff", 0, &["diff", "odd.yaml", "odd.yaml"]);
    let question = "can a reach anything tcp port 80?";
    let v = c.command("ask", 1, &["ask", "odd.yaml", question]);
    assert_eq!(v["answer"], "no");
    c.command("ask", 0, &["ask", "new.yaml", question]);
    c.command("schedule", 0, &["schedule", "list"]);
    c.end(16);
}

#[test]
fn what_is_said_of_packets_satisfies_its_schema() {
    let mut c = Checks::new("schemas-packets");
    let out = ["--packets", "2000", "--quiet", "--out"];
    let aimed = ["gen", "--for", "campus-dpi:campus"];
    c.command("gen", 0, &[&aimed[..], &out, &["in.pcap"]].concat());
    c.command("gen", 0, &[&["gen"], &out[..], &["any.pcap"]].concat());
    let rules = ["gen", "--rules", "acl", "--count", "40", "--quiet", "--out"];
    c.command("gen", 0, &[&rules[..], &["acl.rules"]].concat());
    let input = ["--in", "campus=in.pcap", "--quiet"];
    let run = |more: &[&'static str]| [&["run", "campus-dpi"], &input[..], more].concat();
    c.command("run", 0, &run(&["--read", "dpi/up_dpi.class"]));
    c.command("run", 0, &run(&["--mode", "reference"]));
    c.command("run", 0, &run(&["--workers", "2"]));
    for mode in ["both", "reference", "program"] {
        let packet = ["--in", "campus=in.pcap#3", "--mode", mode];
        c.command(
            "trace",
            0,
            &[&["trace", "campus-dpi"], &packet[..]].concat(),
        );
    }
    let verified = ["verify", "l2fwd", "--quiet"];
    let how = ["--packets", "600", "--level", "all"];
    c.command("verify", 0, &[&verified[..], &how].concat());
    c.command("verify", 0, &[&verified[..], &["--prove"]].concat());
    let short = [
        "--seconds",
        "0.02",
        "--repeats",
        "1",
        "--flows",
        "20",
        "--quiet",
    ];
    c.command("bench", 0, &[&["bench", "l2fwd"], &short[..]].concat());
    c.end(12);
}

/// A chain that runs, asked, changed and put anew.
#[test]
fn what_is_said_of_a_running_chain_satisfies_its_schema() {
    let mut c = Checks::new("schemas-running");
    let chain = "functions:\n  fw: { firewall: { rules: [ allow all ] } }\nports: { in: 'fw[0]', out: 'fw[1]' }\n";
    std::fs::write(c.dir.join("fw.yaml"), chain).unwrap();
    let made = [
        "gen",
        "--for",
        "fw.yaml:in",
        "--packets",
        "500",
        "--quiet",
        "--out",
        "in.pcap",
    ];
    run(&c.dir, 0, &made);
    let args = [
        "run",
        "fw.yaml",
        "--json",
        "--control",
        "s.sock",
        "--duration",
        "300",
        "--port",
    ];
    let mut running = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .args(args)
        .args([
            "in=memory:in.pcap,rate=500",
            "--port",
            "out=memory:in.pcap,rate=5",
        ])
        .current_dir(&c.dir)
        .env("ONEFOLD_CACHE", "")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let asked = ["status", "--socket", "s.sock"];
    while !onefold(&c.dir, &asked).status.success() {
        let ended = running.try_wait().unwrap();
        assert!(
            ended.is_none() && begun.elapsed() < Duration::from_secs(120),
            "{ended:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    c.command("status", 0, &asked);
    c.command("status", 0, &[&asked[..], &["--rules"]].concat());
    let rule = ["rule", "add", "deny tcp dst port 23", "--socket", "s.sock"];
    c.command("rule", 0, &rule);
    c.command("reload", 0, &["reload", "--socket", "s.sock"]);
    kill(Pid::from_raw(running.id() as i32), Signal::SIGTERM).unwrap();
    let out = running.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(143));
    let v: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(v["interrupted"], true);
    c.end(4);
}
