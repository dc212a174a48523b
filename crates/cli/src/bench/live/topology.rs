//! Two network namespaces with two pairs of virtual interfaces between them: the generator's, and that of the device
//! under test. They are removed at the end; what a killed run has left behind is removed by the next one.

use super::rows::End;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// In front of all names; the number of the process follows.
const PREFIX: &str = "onefold-bench-";

/// A pair of interfaces, seen from the generator and from the device.
pub const PAIRS: [(&str, &str); 2] = [("gen0", "dut0"), ("gen1", "dut1")];

/// The MAC addresses of the device's interfaces: always the same, so that proofs of chains on them can be kept.
pub const DEVICE_MACS: [&str; 2] = ["02:0f:00:00:00:d0", "02:0f:00:00:00:d1"];
/// The generator's.
pub const GENERATOR_MACS: [&str; 2] = ["02:0f:00:00:00:a0", "02:0f:00:00:00:a1"];

/// The namespaces.
pub struct Topology {
    generator: String,
    device: String,
    socket: String,
}

/// Where two processes meet whose ports are memory that they share.
fn socket(pid: u32) -> PathBuf {
    std::env::temp_dir().join(format!("{PREFIX}{pid}.sock"))
}

/// Runs a program; what it says on standard error is the error.
fn run(program: &str, args: &[&str]) -> Result<()> {
    let o = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("'{program}' cannot be run"))?;
    match o.status.success() {
        true => Ok(()),
        false => bail!(
            "{program} {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&o.stderr).trim()
        ),
    }
}

/// Is there such a program?
pub fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|p| p.join(program).is_file())
}

/// The number of the process that has made a namespace, if this program has.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Is it a process of this program?
fn is_alive(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|n| n.trim() == "onefold")
}

/// Names of all namespaces.
fn namespaces() -> Vec<String> {
    let all = std::fs::read_dir("/run/netns").into_iter().flatten();
    all.flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .collect()
}

/// Removes a namespace, and ends what still runs there.
fn remove(name: &str) {
    let pids = Command::new("ip").args(["netns", "pids", name]).output();
    let pids = pids.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    for pid in pids.unwrap_or_default().split_whitespace() {
        let _ = run("kill", &["-9", pid]);
    }
    let _ = run("ip", &["netns", "del", name]);
}

/// Removes what runs that were killed have left behind: how many namespaces.
pub fn clean() -> usize {
    let left: Vec<String> = (namespaces().into_iter())
        .filter(|n| maker(n).is_some_and(|pid| !is_alive(pid)))
        .collect();
    for n in &left {
        remove(n);
        if let Some(pid) = maker(n) {
            let _ = std::fs::remove_file(socket(pid));
        }
    }
    left.len()
}

/// Why it cannot be made here, with a cure.
pub fn obstacle() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    let root = uid.is_some_and(|u| u.split_whitespace().nth(1) == Some("0"));
    if !root {
        return Some(
            "bench live makes network namespaces, which needs root; type: sudo onefold bench live"
                .into(),
        );
    }
    if !has("ip") {
        return Some("there is no 'ip'; type: apt install iproute2".into());
    }
    None
}

impl Topology {
    /// Makes it: both ends up, without addresses.
    ///
    /// # Errors
    /// What the system says against it.
    pub fn make() -> Result<Topology> {
        let name = |side: &str| format!("{PREFIX}{}-{side}", std::process::id());
        let t = Topology {
            generator: name("gen"),
            device: name("dut"),
            socket: socket(std::process::id()).display().to_string(),
        };
        for n in [&t.generator, &t.device] {
            // of a process of this number that is gone
            if Path::new("/run/netns").join(n).exists() {
                remove(n);
            }
            run("ip", &["netns", "add", n])?;
            t.sh(
                n,
                "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; \
                     echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
            )
            .ok();
        }
        for (i, (g, d)) in PAIRS.iter().enumerate() {
            let (gm, dm) = (GENERATOR_MACS[i], DEVICE_MACS[i]);
            let words = [
                "-n",
                &t.generator,
                "link",
                "add",
                g,
                "address",
                gm,
                "type",
                "veth",
            ];
            let peer = ["peer", "name", d, "address", dm, "netns", &t.device];
            run("ip", &[&words[..], &peer].concat())?;
            run("ip", &["-n", &t.generator, "link", "set", g, "up"])?;
            run("ip", &["-n", &t.device, "link", "set", d, "up"])?;
        }
        Ok(t)
    }

    /// What arrives at an interface is taken in on these cores, the generator's and the device's (receive packet
    /// steering); `None`: on the core of who sent it.
    ///
    /// # Errors
    /// What the system says against it.
    pub fn steer(&self, to: Option<(usize, usize)>) -> Result<()> {
        for (g, d) in PAIRS {
            let sides = [
                (&self.generator, g, to.map(|t| t.0)),
                (&self.device, d, to.map(|t| t.1)),
            ];
            for (namespace, interface, core) in sides {
                let mask = core.map_or("0".to_string(), mask);
                let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
                self.sh(namespace, &format!("echo {mask} > {file}"))?;
            }
        }
        Ok(())
    }

    /// One of the device's two ports, and the generator's at its other end.
    pub fn ends(&self, number: usize) -> [End<'_>; 2] {
        let (generator, device) = PAIRS[number % PAIRS.len()];
        [device, generator].map(|interface| End {
            number,
            interface,
            socket: &self.socket,
        })
    }

    /// A device that is killed leaves its socket behind: it goes, before the next one makes it.
    pub fn forget_socket(&self) {
        let _ = std::fs::remove_file(&self.socket);
    }

    fn sh(&self, namespace: &str, text: &str) -> Result<()> {
        run("ip", &["netns", "exec", namespace, "sh", "-c", text])
    }

    /// Does something in the device's namespace.
    ///
    /// # Errors
    /// What it says on standard error.
    pub fn configure(&self, text: &str) -> Result<()> {
        self.sh(&self.device, text)
    }

    /// A command in the device's namespace.
    pub fn device(&self, program: &Path) -> Command {
        within(&self.device, program)
    }

    /// A command in the generator's namespace.
    pub fn generator(&self, program: &Path) -> Command {
        within(&self.generator, program)
    }
}

/// A set of one core: words of 32 bits, the highest first.
fn mask(core: usize) -> String {
    let mut mask = format!("{:x}", 1u32 << (core % 32));
    for _ in 0..core / 32 {
        mask.push_str(",00000000");
    }
    mask
}

fn within(namespace: &str, program: &Path) -> Command {
    let mut c = Command::new("ip");
    c.args(["netns", "exec", namespace]).arg(program);
    c
}

impl Drop for Topology {
    fn drop(&mut self) {
        remove(&self.generator);
        remove(&self.device);
        self.forget_socket();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_namespaces_they_are_is_in_their_names() {
        assert_eq!(maker("onefold-bench-123-gen"), Some(123));
        for other in ["onefold-bench-x-gen", "of123-0-a", "onefold-bench-", "gen"] {
            assert_eq!(maker(other), None, "{other}");
        }
        assert!(!is_alive(u32::MAX));
    }

    #[test]
    fn cores_as_masks() {
        assert_eq!([0, 1, 31].map(mask), ["1", "2", "80000000"]);
        assert_eq!(mask(33), "2,00000000");
    }
}
