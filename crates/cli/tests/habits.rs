//! Habits of the command line: `-` and FIFOs where captures are read and written, signals that end what runs, what
//! `make install` and `make deb` put where.

use crate::common;

use common::{onefold, root, run, temp};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onefold_capture::CaptureReader;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What nothing here should need.
const MOST: Duration = Duration::from_secs(120);

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_onefold"));
    c.args(args).current_dir(dir);
    c.env("ONEFOLD_CHAINS", root().join("chains"))
        .env("ONEFOLD_CACHE", "");
    c.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    c
}

/// Runs it with this on its standard input.
fn fed(dir: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut child = command(dir, args).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let input = input.to_vec();
    // it may end before it has read all
    let writer = std::thread::spawn(move || drop(to.write_all(&input)));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    out
}

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).to_string()
}

fn frames(file: &Path) -> usize {
    let r = CaptureReader::open(file).unwrap();
    r.inspect(|f| assert!(f.is_ok())).count()
}

fn waits(mut child: Child) -> (Option<i32>, String, String) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > MOST {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let out = child.wait_with_output().unwrap();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

/// A capture goes through pipes as through files; results go to the standard error then.
#[test]
fn captures_go_through_pipes() {
    let dir = temp("pipes");
    let made = [
        "gen",
        "--for",
        "l2fwd",
        "--packets",
        "3000",
        "--seed",
        "5",
        "--quiet",
        "--out",
    ];
    run(&dir, 0, &[&made[..], &["in.pcap"]].concat());
    let file = std::fs::read(dir.join("in.pcap")).unwrap();
    let piped = onefold(&dir, &[&made[..], &["-"]].concat());
    assert_eq!(piped.status.code(), Some(0), "{}", text(&piped.stderr));
    assert!(piped.stdout == file);
    assert!(
        text(&piped.stderr).contains("wrote -: 3,000 packets"),
        "{}",
        text(&piped.stderr)
    );

    let ran = ["run", "l2fwd", "--quiet", "--json"];
    let by_file = ["--in", "in=in.pcap", "--out", "out=out.pcap"];
    run(&dir, 0, &[&ran[..], &by_file].concat());
    let want = std::fs::read(dir.join("out.pcap")).unwrap();
    assert!(want.len() > 100_000);
    let by_pipe = ["--in", "in=-", "--out", "out=-"];
    for more in [&[][..], &["--workers", "2"]] {
        let out = fed(&dir, &[&ran[..], &by_pipe, more].concat(), &file);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert!(out.stdout == want, "{more:?}");
        let told = text(&out.stderr);
        let json = &told[told.find("\n{\n").map_or(0, |i| i + 1)..];
        let v: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(v["packets_in"], 3000);
    }

    // who looks at a capture twice, or at one packet of it
    let traced = ["trace", "l2fwd", "--mode", "reference", "--in"];
    let (want, _) = run(&dir, 0, &[&traced[..], &["in=in.pcap#7"]].concat());
    let out = fed(&dir, &[&traced[..], &["in=-#7"]].concat(), &file);
    assert_eq!(text(&out.stdout), want);
    let verified = [
        "verify", "l2fwd", "--quiet", "--level", "program", "--in", "in=-",
    ];
    let out = fed(&dir, &verified, &file);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let out = fed(
        &dir,
        &[
            "run", "l2fwd", "--in", "in=-", "--drops", "d.pcapng", "--quiet",
        ],
        &file,
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));

    // one capture each way
    let out = fed(
        &dir,
        &["run", "isp-edge", "--in", "lan=-", "--in", "wan=-"],
        &file,
    );
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("the standard input (-) can be read at one port only"));
    let two = [
        "run", "isp-edge", "--in", "lan=-", "--out", "lan=-", "--out", "wan=-",
    ];
    let out = fed(&dir, &two, &file);
    assert!(
        text(&out.stderr).contains("room for one capture, not for 2"),
        "{}",
        text(&out.stderr)
    );
    // what is no capture
    let out = fed(&dir, &["run", "l2fwd", "--in", "in=-"], b"#!/bin/sh\n");
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("standard input: "),
        "{}",
        text(&out.stderr)
    );
}

/// A FIFO that goes on and on: SIGTERM and Ctrl-C end the run, with what came until then written and reported.
#[test]
fn signals_end_a_run_with_its_report() {
    let dir = temp("signals");
    let made = [
        "gen",
        "--for",
        "l2fwd",
        "--packets",
        "20000",
        "--quiet",
        "--out",
        "in.pcap",
    ];
    run(&dir, 0, &made);
    let file = std::fs::read(dir.join("in.pcap")).unwrap();
    for (signal, status) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let fifo = dir.join("fifo");
        let _ = std::fs::remove_file(&fifo);
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let args = [
            "run",
            "l2fwd",
            "--json",
            "--quiet",
            "--in",
            "in=fifo",
            "--out",
            "out=out.pcap",
        ];
        let child = command(&dir, &args).spawn().unwrap();
        let mut w = File::options().write(true).open(&fifo).unwrap();
        // much more than a pipe and buffers hold: when all is written, packets are on their way
        w.write_all(&file).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let (code, out, err) = waits(child);
        drop(w);
        assert_eq!(code, Some(status), "{out} {err}");
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        let n = v["packets_out"].as_u64().unwrap();
        assert!(n > 1000, "{out}");
        assert_eq!(frames(&dir.join("out.pcap")) as u64, n);
    }
}

/// What `gen` has written until it is told to end is whole.
#[test]
fn signals_end_what_is_generated() {
    let dir = temp("ended");
    for how in [&["--for", "l2fwd"][..], &[]] {
        let most = [
            "gen",
            "--json",
            "--quiet",
            "--packets",
            "1000000000",
            "--out",
            "some.pcap",
        ];
        let child = command(&dir, &[&most[..], how].concat()).spawn().unwrap();
        let begun = Instant::now();
        let file = dir.join("some.pcap");
        while std::fs::metadata(&file).map_or(0, |m| m.len()) < 2_000_000 && begun.elapsed() < MOST
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let (code, out, err) = waits(child);
        assert_eq!(code, Some(143), "{out} {err}");
        let v: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(v["stopped"], true);
        assert_eq!(v["packets"].as_u64().unwrap() as usize, frames(&file));
        std::fs::remove_file(file).unwrap();
    }
}

fn script(name: &str, args: &[&str], flags: &str) -> Output {
    let out = Command::new(root().join("scripts").join(name))
        .arg(env!("CARGO_BIN_EXE_onefold"))
        .args(args)
        .env("ONEFOLD_DEB_FLAGS", flags)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    out
}

fn read(file: PathBuf) -> String {
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// Installed somewhere else, the binary finds its examples, and pages and completions are there. The package has the
/// same, and is as Debian wants packages to be.
#[test]
fn what_is_installed_works_and_is_packaged() {
    if !onefold_testing::tool("dpkg-deb") {
        return;
    }
    let dir = temp("package");
    let deb = text(&script("deb.sh", &[&dir.to_string_lossy()], "-Zgzip -z1").stdout);
    let deb = PathBuf::from(deb.trim());
    let ask = |args: &[&str]| {
        let out = Command::new("dpkg-deb")
            .args(args)
            .arg(&deb)
            .output()
            .unwrap();
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    let control = ask(&["-f"]);
    let field = |name: &str| {
        let line = control
            .lines()
            .find(|l| l.starts_with(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name}: {control}"))[name.len() + 2..].to_string()
    };
    assert_eq!(field("Package"), "onefold");
    assert_eq!(field("Version"), env!("CARGO_PKG_VERSION"));
    assert!(deb.ends_with(format!(
        "onefold_{}_{}.deb",
        field("Version"),
        field("Architecture")
    )));
    assert!(field("Depends").contains("libc6"), "{control}");
    assert!(!field("Description").is_empty() && field("Description").len() < 80);
    for l in ask(&["-c"]).lines() {
        let mut words = l.split_whitespace();
        let (mode, owner) = (words.next().unwrap(), words.next().unwrap());
        assert_eq!(owner, "root/root", "{l}");
        let want = match (mode.starts_with('d'), l.ends_with("./usr/bin/onefold")) {
            (true, _) => "drwxr-xr-x",
            (false, true) => "-rwxr-xr-x",
            _ => "-rw-r--r--",
        };
        assert_eq!(mode, want, "{l}");
    }
    let tree = dir.join("tree");
    let out = Command::new("dpkg-deb")
        .arg("-x")
        .args([&deb, &tree])
        .status()
        .unwrap();
    assert!(out.success());
    let size: u64 = field("Installed-Size").parse().unwrap();
    let binary = std::fs::metadata(tree.join("usr/bin/onefold"))
        .unwrap()
        .len()
        / 1024;
    assert!((binary..binary + 20_000).contains(&size), "{size} {binary}");

    let share = tree.join("usr/share");
    assert!(read(share.join("bash-completion/completions/onefold")).contains("--first-drop"));
    assert!(read(share.join("zsh/vendor-completions/_onefold")).starts_with("#compdef onefold"));
    assert!(
        read(share.join("fish/vendor_completions.d/onefold.fish")).contains("complete -c onefold")
    );
    assert!(read(share.join("doc/onefold/copyright")).contains("Apache-2.0"));
    assert!(share.join("doc/onefold/changelog.gz").exists());
    assert!(
        read(tree.join("usr/lib/systemd/system/onefold@.service")).contains("/usr/bin/onefold run")
    );
    for page in ["onefold", "onefold-run", "onefold-trace"] {
        let file = File::open(share.join(format!("man/man1/{page}.1.gz"))).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
        assert!(text.contains(".SH NAME"), "{page}: {text}");
    }
    // far from any checkout
    let out = Command::new(tree.join("usr/bin/onefold"))
        .args(["check", "isp-edge"])
        .current_dir("/")
        .env_remove("ONEFOLD_CHAINS")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let shown = Command::new(tree.join("usr/bin/onefold"))
        .args(["show", "--list"])
        .current_dir("/")
        .output()
        .unwrap();
    assert!(text(&shown.stdout).contains("isp-edge"));
}
