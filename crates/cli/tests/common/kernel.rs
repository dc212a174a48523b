//! Chains that are compared with the kernel.

use super::run;
use serde_json::Value;
use std::path::Path;

/// Can chains be compared with the kernel here?
#[track_caller]
pub fn can() -> bool {
    if onefold_testing::net::Net::new(&["probe"]).is_none() {
        return false;
    }
    for tool in ["nft", "iptables-restore"] {
        if !onefold_testing::tool(tool) {
            return false;
        }
    }
    true
}

/// A firewall between `lan0` and `wan0`.
pub const CHAIN: &str = "functions:
  fw: { firewall: { rules-file: FILE, rules6-file: FILE6, interfaces: { inside: lan0, outside: wan0 } } }
ports:
  lan: \"fw[0]\"
  wan: \"fw[1]\"
";

/// Writes a file of the test's.
pub fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("a file of the test's");
}

/// Writes a chain of [`CHAIN`] with these files.
pub fn firewall(dir: &Path, name: &str, file: &str, file6: &str) {
    write(
        dir,
        name,
        &CHAIN.replace("FILE6", file6).replace("FILE", file),
    );
}

/// Compares; gives the report.
pub fn compare(dir: &Path, status: i32, args: &[&str]) -> Value {
    let all = [&["compare", "kernel"], args, &["--json", "-q"]].concat();
    let (out, err) = run(dir, status, &all);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
}

/// How often something that is known was met.
pub fn known(v: &Value, what: &str) -> u64 {
    let all = v["known"].as_array().into_iter().flatten();
    let found = all.filter(|k| k["what"].as_str().is_some_and(|w| w.starts_with(what)));
    found.filter_map(|k| k["packets"].as_u64()).sum()
}

/// `nft -j list ruleset` of a file, loaded in a namespace of its own.
pub fn listed(file: &Path) -> String {
    let net = onefold_testing::net::Net::new(&["rules"]).expect("a namespace");
    let nft = |args: &[&str]| {
        let o = net
            .command("rules", "nft")
            .args(args)
            .output()
            .expect("nft");
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
        String::from_utf8(o.stdout).expect("text")
    };
    nft(&["-f", &file.display().to_string()]);
    nft(&["-j", "list", "ruleset"])
}
