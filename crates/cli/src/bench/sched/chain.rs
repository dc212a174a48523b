//! A setting as files: the chain's text, frames that come in, costs that change.

use anyhow::{Context, Result};
use onefold_bench::scheduling::{Chain, Function, Run, Setting, Work};
use onefold_capture::{CaptureWriter, LinkType};
use std::fmt::Write;
use std::path::Path;

/// Frames of a capture, for each size; one flow each.
const FRAMES: u16 = 256;

/// Where the cost of a function stands while it may change.
pub fn cost_file(function: usize) -> String {
    format!("cost-{function}")
}

/// The chain file. `core`: the functions'; `apart`: that of functions that sleep in place of computing.
pub fn text(s: &Setting, r: &Run, (apart, core): (usize, usize)) -> String {
    let mut t = match &r.policy {
        Some(_) => format!("interconnect: {}\nfunctions:\n", r.interconnect),
        None => "functions:\n".to_string(),
    };
    for (i, f) in s.functions.iter().enumerate() {
        // writing to a String cannot fail
        let _ = writeln!(t, "  {}:", f.name);
        if r.policy.is_some() {
            let own = matches!(f.work, Work::Burn { asleep: true, .. });
            let _ = writeln!(
                t,
                "    run: process\n    affinity: {}",
                if own { apart } else { core }
            );
        }
        match &f.work {
            Work::Burn { .. } => burner(&mut t, s, r, i, f),
            Work::Router => router(&mut t, i + 1),
            Work::Click(text) => {
                let text = text
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n");
                let _ = writeln!(t, "    click: {{ config: \"{text}\" }}");
            }
        }
    }
    let mut links = String::new();
    for (n, c) in s.chains.iter().enumerate() {
        for w in c.via.windows(2) {
            let [from, to] = w else { continue };
            let (Some(a), Some(b)) = (s.functions.get(*from), s.functions.get(*to)) else {
                continue;
            };
            let arrow = match (&a.work, &b.work) {
                (Work::Click(_), _) | (_, Work::Click(_)) => "->",
                _ => "<->",
            };
            let (leaves, enters) = (ports(s, *from, n).1, ports(s, *to, n).0);
            let _ = writeln!(
                links,
                "  - \"{}[{leaves}] {arrow} [{enters}]{}\"",
                a.name, b.name
            );
        }
    }
    if !links.is_empty() {
        let _ = write!(t, "links:\n{links}");
    }
    t.push_str("ports:\n");
    for (n, c) in s.chains.iter().enumerate() {
        outer(&mut t, s, n, c);
    }
    t
}

/// Ports of a function that a chain passes: where it comes in and where it leaves. A burner's go together in pairs;
/// others are of one chain.
fn ports(s: &Setting, function: usize, chain: usize) -> (usize, usize) {
    let before = s.chains.iter().take(chain);
    let before = before.filter(|c| c.via.contains(&function)).count();
    (2 * before, 2 * before + 1)
}

fn outer(t: &mut String, s: &Setting, n: usize, c: &Chain) {
    let (Some(first), Some(last)) = (c.via.first(), c.via.last()) else {
        return;
    };
    let (Some(a), Some(b)) = (s.functions.get(*first), s.functions.get(*last)) else {
        return;
    };
    let (enters, leaves) = (ports(s, *first, n).0, ports(s, *last, n).1);
    // a configuration in Click's language has one way
    let _ = match a.work {
        Work::Click(_) => writeln!(
            t,
            "  in-{0}: {{ in: \"[{enters}]{1}\" }}\n  out-{0}: {{ out: \"{2}[{leaves}]\" }}",
            c.name, a.name, b.name
        ),
        _ => writeln!(
            t,
            "  in-{0}: {1}[{enters}]\n  out-{0}: {2}[{leaves}]",
            c.name, a.name, b.name
        ),
    };
}

fn burner(t: &mut String, s: &Setting, r: &Run, i: usize, f: &Function) {
    let Work::Burn {
        cycles,
        per_byte,
        random,
        asleep,
        logs,
    } = &f.work
    else {
        return;
    };
    let list: Vec<String> = cycles.iter().map(u64::to_string).collect();
    let mut words = vec![
        "onefold".to_string(),
        "burn".into(),
        "--cycles".into(),
        list.join(","),
    ];
    words.extend(["--batch".into(), r.batch.to_string()]);
    if *per_byte > 0.0 {
        words.extend(["--per-byte".into(), per_byte.to_string()]);
    }
    if *random {
        words.extend(["--pick".into(), "random".into()]);
    }
    if *asleep {
        words.push("--asleep".into());
    } else if r.polls {
        words.extend(["--idle".into(), "poll".into()]);
    }
    if let Some(chain) = logs {
        let how = if r.behind { "behind" } else { "waiting" };
        let port = ports(s, i, *chain).0.to_string();
        words.extend([
            "--log".into(),
            format!("log-{i}"),
            "--log-port".into(),
            port,
        ]);
        words.extend([
            "--log-how".into(),
            how.into(),
            "--log-batch".into(),
            "1024".into(),
        ]);
    }
    if s.steps.iter().any(|step| step.function == i) {
        words.extend(["--from".into(), cost_file(i)]);
    }
    let words: Vec<String> = words.iter().map(|w| format!("'{w}'")).collect();
    let passing = s.chains.iter().filter(|c| c.via.contains(&i)).count();
    let _ = writeln!(
        t,
        "    native: {{ command: [{}], ports: {} }}",
        words.join(", "),
        2 * passing.max(1)
    );
}

/// As the example `routers-N` has them.
fn router(t: &mut String, i: usize) {
    let before = i - 1;
    let after = i + 1;
    let _ = write!(
        t,
        "    router:\n      interfaces:\n        \
         - {{ name: left, address: 172.16.{before}.2/30, mac: \"02:00:00:00:{i:02}:00\", gateway-mac: \
         \"02:00:00:00:{before:02}:01\" }}\n        \
         - {{ name: right, address: 172.16.{i}.1/30, mac: \"02:00:00:00:{i:02}:01\", gateway-mac: \
         \"02:00:00:00:{after:02}:00\" }}\n      \
         routes:\n        - 10.0.0.0/8 via 172.16.{before}.1\n"
    );
    for net in [
        "198.18.0.0/16",
        "198.19.0.0/16",
        "198.18.64.0/18",
        "198.18.128.0/17",
        "198.19.32.0/19",
        "198.19.128.0/20",
        "203.0.113.0/24",
    ] {
        let _ = writeln!(t, "        - {net} via 172.16.{i}.2");
    }
    let _ = writeln!(
        t,
        "        - 192.0.2.0/24 blackhole\n        - default via 172.16.{i}.2"
    );
}

/// Frames of a chain, to be sent again and again: UDP from 10.0.0.0/16 to 198.18.0.0/16, a flow each, sizes in turn.
///
/// # Errors
/// The file cannot be written.
pub fn frames(path: &Path, sizes: &[u16]) -> Result<()> {
    let shown = path.display();
    let mut out = CaptureWriter::create_for(path, LinkType::ETHERNET)
        .with_context(|| format!("'{shown}'"))?;
    let all = (0..FRAMES).flat_map(|flow| sizes.iter().map(move |bytes| (flow, *bytes)));
    for (n, (flow, bytes)) in all.enumerate() {
        let f = frame(flow, bytes);
        out.write(n as i64 * 1000 + 1, &f, f.len() as u32)
            .with_context(|| format!("'{shown}'"))?;
    }
    out.finish().with_context(|| format!("'{shown}'"))?;
    Ok(())
}

fn frame(flow: u16, bytes: u16) -> Vec<u8> {
    // to the first router's left interface
    let mut f = vec![2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 8, 0];
    let ip = bytes.max(60) - 14;
    let [hi, lo] = flow.to_be_bytes();
    let mut h = [
        0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, hi, lo, 198, 18, hi, lo,
    ];
    h[2..4].copy_from_slice(&ip.to_be_bytes());
    let sum: u32 = h
        .chunks_exact(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    h[10..12].copy_from_slice(&sum.to_be_bytes());
    f.extend(h);
    f.extend(1024u16.saturating_add(flow).to_be_bytes());
    f.extend(9u16.to_be_bytes());
    f.extend((ip - 20).to_be_bytes());
    // no checksum
    f.extend([0, 0]);
    f.resize(usize::from(bytes.max(60)), 0);
    f
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_bench::scheduling::ALL;

    /// Every chain that an experiment can ask for is one, and its frames are whole packets.
    #[test]
    fn all_settings_are_chains() {
        let dir = std::env::temp_dir().join(format!("onefold-settings-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("chain.yaml");
        for e in ALL {
            for s in (e.settings)(true) {
                for r in &s.runs {
                    let t = text(&s, r, (0, 1));
                    std::fs::write(&file, &t).unwrap();
                    let loaded = onefold_chain::load(&file.to_string_lossy(), &Default::default());
                    let chain = loaded.unwrap_or_else(|e| panic!("{}: {e:?}\n{t}", s.label));
                    assert_eq!(chain.ports.len(), 2 * s.chains.len(), "{t}");
                }
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
        let f = frame(7, 60);
        assert_eq!((f.len(), &f[16..18]), (60, [0, 46].as_slice()));
        let sum: u32 = f[14..34]
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "a right checksum");
    }
}
