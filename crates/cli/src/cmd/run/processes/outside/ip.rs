//! `ip` of iproute2: interfaces, addresses and routes are made by what the kernel's developers keep.

use anyhow::{Context, Result, bail};
use onefold_nf::NetSpace;
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;

/// What is to be done when there is no `ip`.
const CURE: &str = "ip is part of iproute2; on Debian: apt-get install iproute2";

/// Carries out lines of `ip`, without the word itself, in this namespace, one after the other.
///
/// # Errors
/// There is no `ip`, or it refuses one of them: which, and why.
pub fn batch(space: &Arc<NetSpace>, lines: &[String]) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut command = space.command("ip");
    command.args(["-batch", "-"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context(CURE)?;
    if let Some(mut input) = child.stdin.take() {
        // one that has ended says why
        let _ = input.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let done = child.wait_with_output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    // "Command failed -:3": the third line
    let at = said.lines().find_map(|l| {
        l.strip_prefix("Command failed -:")?
            .trim()
            .parse::<usize>()
            .ok()
    });
    let line = at.and_then(|n| lines.get(n.checked_sub(1)?));
    let why: Vec<&str> = said
        .lines()
        .filter(|l| !l.starts_with("Command failed"))
        .collect();
    match line {
        Some(line) => bail!("ip {line}: {}", why.join("; ")),
        None => bail!("ip: {}", why.join("; ")),
    }
}

/// Settings of a namespace, before it has interfaces: what its kernel would say by itself on a link is not for a chain.
///
/// # Errors
/// One of them cannot be written.
pub fn settings(space: &NetSpace, all: &[(String, String)]) -> Result<()> {
    space.within(|| {
        for (name, value) in all {
            let file = format!("/proc/sys/{}", name.replace('.', "/"));
            std::fs::write(&file, value).with_context(|| format!("sysctl {name}={value}"))?;
        }
        Ok(())
    })?
}

/// No IPv6 on interfaces that are made from now on: no router solicitations, no multicast reports.
pub fn silent() -> Vec<(String, String)> {
    // a kernel without IPv6 has nothing to be silenced
    let there = std::path::Path::new("/proc/sys/net/ipv6").exists();
    let off = (
        "net.ipv6.conf.default.disable_ipv6".to_string(),
        "1".to_string(),
    );
    there.then_some(off).into_iter().collect()
}
