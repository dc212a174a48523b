//! Tools in a namespace: `ip`, `nft`, `iptables-restore`, and settings.

use crate::KernelError;
use onefold_nf::NetSpace;
use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;

/// Most bytes of what a tool says that are told.
const MAX_SAID: usize = 2000;

/// Is there such a program?
pub(crate) fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|p| p.join(program).is_file())
}

/// Runs a tool in a namespace with this input. `Err`: what it says.
///
/// # Errors
/// It cannot be started.
pub(crate) fn tool(
    space: &Arc<NetSpace>,
    program: &str,
    args: &[&str],
    input: &str,
) -> Result<Result<(), String>, KernelError> {
    let doing = || format!("starting '{program}'");
    let mut child = space
        .command(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(KernelError::system(doing()))?;
    let pipe = child.stdin.take();
    // a tool that says much before it has read all does not wait for us
    let output = std::thread::scope(|s| {
        s.spawn(move || {
            if let Some(mut p) = pipe {
                // one that has ended says why
                let _ = p.write_all(input.as_bytes());
            }
        });
        child.wait_with_output()
    });
    let output = output.map_err(KernelError::system(doing()))?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let end = (0..=MAX_SAID.min(said.len()))
        .rev()
        .find(|i| said.is_char_boundary(*i));
    Ok(Err(said[..end.unwrap_or(0)].trim().to_string()))
}

/// Lines of `ip`, one after the other; `Err`: the number of the line that is refused (from 0), and why.
///
/// # Errors
/// There is no `ip`.
pub(crate) fn ip(
    space: &Arc<NetSpace>,
    v6: bool,
    lines: &[String],
) -> Result<Result<(), (Option<usize>, String)>, KernelError> {
    if lines.is_empty() {
        return Ok(Ok(()));
    }
    let args: &[&str] = match v6 {
        true => &["-6", "-batch", "-"],
        false => &["-batch", "-"],
    };
    let said = match tool(space, "ip", args, &(lines.join("\n") + "\n"))? {
        Ok(()) => return Ok(Ok(())),
        Err(said) => said,
    };
    // "Command failed -:3": the third line
    let number = |l: &str| {
        l.strip_prefix("Command failed -:")?
            .trim()
            .parse::<usize>()
            .ok()
    };
    let at = said.lines().find_map(number).and_then(|n| n.checked_sub(1));
    let why: Vec<&str> = (said.lines())
        .filter(|l| !l.starts_with("Command failed"))
        .collect();
    Ok(Err((at, why.join("; "))))
}

/// Lines of `ip` that are ours, not the operator's.
///
/// # Errors
/// One of them is refused.
pub(crate) fn own_ip(
    function: &str,
    space: &Arc<NetSpace>,
    v6: bool,
    lines: &[String],
) -> Result<(), KernelError> {
    ip(space, v6, lines)?.map_err(|(at, said)| KernelError::Refused {
        function: function.to_string(),
        tool: "ip".into(),
        what: at.and_then(|n| lines.get(n).cloned()).unwrap_or_default(),
        said,
    })
}

/// Settings of a namespace. Those whose file is not there (`IPv6` without IPv6, older kernels) are left out.
///
/// # Errors
/// One of them cannot be written.
pub(crate) fn settings(space: &NetSpace, all: &[(&str, &str)]) -> Result<(), KernelError> {
    let write = || -> Result<(), KernelError> {
        for (name, value) in all {
            let file = format!("/proc/sys/{name}");
            if std::path::Path::new(&file).exists() {
                std::fs::write(&file, value)
                    .map_err(KernelError::system(format!("writing {value} to {file}")))?;
            }
        }
        Ok(())
    };
    space
        .within(write)
        .map_err(KernelError::system("entering a network namespace"))?
}
