//! The library as programs use it: compiled by a C compiler with its strictest warnings and sanitizers, and launched.

use onefold_nf::native::{ENVIRONMENT, Hello};
use onefold_nf::{
    Arrived, Channel, LIFE, Memory, Plan, Process, Region, Seat, Shape, State, Waker,
};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The static library that cargo has built beside this test.
fn library() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let mut dirs = test.ancestors().skip(1).take(2);
    dirs.find_map(|d| {
        let file = d.join("libonefold_nf_c.a");
        file.exists().then_some(file)
    })
}

const WARNINGS: [&str; 12] = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-Wconversion",
    "-Wshadow",
    "-Wcast-align",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wundef",
    "-Wvla",
];

fn has_compiler() -> bool {
    let there = Command::new("cc").arg("--version").output().is_ok();
    if !there {
        onefold_testing::skip("no C compiler (cc)");
    }
    there
}

/// Compiles an example with these options besides; gives the program.
fn compile(example: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
    let library = library().expect("cargo builds the library for its tests");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let made = Command::new("cc")
        .args(WARNINGS)
        .args(options)
        .arg("-I")
        .arg(here("include"))
        .arg(here("examples").join(example))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&out)
        .output()
        .expect("cc runs");
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{said}");
    Some(out)
}

#[test]
fn the_header_is_strict_c_and_cpp() {
    if !has_compiler() {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.c");
    std::fs::write(
        &file,
        "#include <onefold_nf.h>\nint main(void) { return 0; }\n",
    )
    .unwrap();
    for (language, standard) in [("c", "-std=c99"), ("c", "-std=c11"), ("c++", "-std=c++17")] {
        let made = Command::new("cc")
            .args([
                "-x",
                language,
                standard,
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
            ])
            .args(["-fsyntax-only", "-I"])
            .arg(here("include"))
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        // a compiler without C++ says so
        let absent = language == "c++" && said.contains("cc1plus");
        assert!(made.status.success() || absent, "{standard}: {said}");
    }
}

/// A launcher and a program with two ports.
struct Place {
    seat: Seat,
    region: Arc<Region>,
    process: Process,
    channel: Channel,
    sent: u32,
}

impl Place {
    fn launch(program: Command) -> Place {
        let shape = Shape {
            nfs: 2,
            rings: 0,
            places: 64,
            slots: 256,
            slot_bytes: 2112,
        };
        let plan = Plan::new(shape, &[(0, 1), (0, 1), (1, 0), (1, 0)]).unwrap();
        let (memory, fd) = Memory::create(plan.bytes, false).unwrap();
        let region = Arc::new(Region::new(memory, plan.shape).unwrap());
        let seat = Seat::new(region.clone(), &plan, 0, vec![]).unwrap();
        let event: OwnedFd = fd.try_clone().unwrap();
        let (mut channel, theirs) = Channel::pair().unwrap();
        channel.patience(PATIENCE).unwrap();
        let hello = Hello {
            me: 1,
            live: false,
            ports: vec![(Some(0), Some(2)), (Some(1), Some(3))],
            plan,
        };
        assert_eq!(Hello::of_text(&hello.to_text()).unwrap(), hello);
        let process = Process::spawn(program, theirs, None, |command, fd| {
            command.env(ENVIRONMENT, fd.to_string());
        });
        let fds = [fd.as_fd(), event.as_fd()];
        channel.send(hello.to_text().as_bytes(), &fds).unwrap();
        let mut place = Place {
            seat,
            region,
            process: process.unwrap(),
            channel,
            sent: 0,
        };
        place.wait("it runs", |p| {
            let said = p.region.nf(1).unwrap().said();
            said.state.load(Ordering::Acquire) == State::Running as u32
        });
        place
    }

    fn wait(&mut self, what: &str, is: impl Fn(&Place) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            let ended = self.process.ended();
            assert!(
                ended.is_none() && begun.elapsed() < PATIENCE,
                "{what}: {ended:?}"
            );
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn send(&mut self, port: usize, bytes: &[u8]) {
        let mut frame = self.seat.take_slot().expect("a slot");
        frame[64..64 + bytes.len()].copy_from_slice(bytes);
        let d = self.seat.describe(frame, 64, bytes.len()).unwrap();
        self.seat.queue(port, d);
        self.seat.flush().unwrap();
        self.sent += 1;
    }

    fn receive(&mut self, port: usize, n: usize) -> Vec<Vec<u8>> {
        let begun = Instant::now();
        let mut arrived: Vec<Arrived> = Vec::new();
        while arrived.len() < n {
            assert!(begun.elapsed() < PATIENCE, "{} of {n}", arrived.len());
            let left = n - arrived.len();
            self.seat.receive(port, &mut arrived, left).unwrap();
        }
        self.seat.release();
        let bytes = |a: &Arrived| {
            let (from, len) = (usize::from(a.descriptor.offset), a.descriptor.len as usize);
            a.frame[from..from + len].to_vec()
        };
        arrived.iter().map(bytes).collect()
    }

    /// Tells it to stop; its report.
    fn stop(mut self) -> String {
        let orders = self.region.nf(1).unwrap().orders();
        orders.command.store(4 | LIFE[2].1, Ordering::Release);
        self.seat.ring(1);
        let (report, _) = self.channel.receive(1 << 16).unwrap();
        let begun = Instant::now();
        let status = loop {
            match self.process.ended() {
                Some(status) => break status,
                None => assert!(begun.elapsed() < PATIENCE),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(status.success(), "{status}");
        String::from_utf8(report).unwrap()
    }
}

fn frame(i: u8) -> Vec<u8> {
    (0..60).map(|b| if b < 6 { i } else { b }).collect()
}

fn mirrored(i: u8) -> Vec<u8> {
    let f = frame(i);
    [&f[6..12], &f[..6], &f[12..]].concat()
}

/// Packets both ways, in order, more than there are slots; short ones are dropped; it ends when it is told to.
fn mirrors(program: Command) {
    let mut place = Place::launch(program);
    for round in 0..40u8 {
        for i in 0..20 {
            place.send(0, &frame(round ^ i));
            place.send(1, &frame(i));
        }
        place.send(0, &[1, 2, 3]);
        let there = place.receive(1, 20);
        let back = place.receive(0, 20);
        for (i, (there, back)) in (0..20).zip(there.iter().zip(&back)) {
            assert_eq!(*there, mirrored(round ^ i));
            assert_eq!(*back, mirrored(i));
        }
        place.seat.take_returns();
    }
    let report = place.stop();
    assert!(
        report.contains("\"packets_in\":1640,\"packets_out\":1600"),
        "{report}"
    );
    assert!(report.contains("\"dropped by the program\":40"), "{report}");
}

#[test]
fn a_program_in_c_mirrors_frames() {
    if has_compiler()
        && let Some(program) = compile("mirror.c", "mirror", &["-O2"])
    {
        mirrors(Command::new(program));
    }
}

#[test]
fn a_program_in_c_under_sanitizers() {
    if !has_compiler() {
        return;
    }
    let options = [
        "-g",
        "-O1",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ];
    if let Some(program) = compile("misuse.c", "misuse-sanitized", &options) {
        mirrors(Command::new(program));
    }
}

/// Every packet leaves, and every record is in the file, whatever waits for the disk.
#[test]
fn a_program_in_c_writes_to_a_file_meanwhile() {
    if !has_compiler() {
        return;
    }
    let options = [
        "-D_POSIX_C_SOURCE=200809L",
        "-g",
        "-fsanitize=address,undefined",
    ];
    let Some(program) = compile("logger.c", "logger", &options) else {
        return;
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packets.log");
    let mut command = Command::new(program);
    command.arg(&file);
    let mut place = Place::launch(command);
    let mut all = Vec::new();
    for round in 0..50u8 {
        for i in 0..20 {
            place.send(0, &frame(round ^ i));
            all.extend_from_slice(&frame(round ^ i)[..16]);
        }
        assert_eq!(place.receive(1, 20).len(), 20);
        place.seat.take_returns();
    }
    let report = place.stop();
    assert!(
        report.contains("\"packets_in\":1000,\"packets_out\":1000"),
        "{report}"
    );
    assert!(std::fs::read(&file).unwrap() == all);
}

#[test]
fn who_was_not_launched_is_told_so() {
    if has_compiler()
        && let Some(program) = compile("mirror.c", "mirror-alone", &[])
    {
        let o = Command::new(program)
            .env_remove(ENVIRONMENT)
            .output()
            .unwrap();
        assert_eq!(o.status.code(), Some(2));
        let said = String::from_utf8_lossy(&o.stderr);
        assert!(said.contains("is to be launched by onefold run"), "{said}");
    }
}

#[test]
fn messages_that_are_none_are_refused() {
    for wrong in [
        "",
        "onefold-nf 2\n",
        "onefold-nf 1\n1 0\n",
        "onefold-nf 1\n-1 0 1\n0 0\n",
        "onefold-nf 1\n1 0 99999\n",
        "onefold-nf 1\n1 0 1\nx 0\n",
        "onefold-nf 1\n1 0 1\n0 1\n2 0 64 256 2112 1\n",
    ] {
        assert!(Hello::of_text(wrong).is_err(), "{wrong}");
    }
    // how a program is woken is not its affair
    drop(Waker::Futex);
}
